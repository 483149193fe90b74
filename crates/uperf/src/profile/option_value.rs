//! Values of flowop options: how they are parsed and formatted.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::tls::TlsError;
use crate::workorder::{Amount, DataProtocol};

use super::number::{self, ProfileWarning, TimeError, WithWarning};
use super::text::truncated;

/// Name and value of an option as written. Errors are in uperf's words.
pub(super) struct OptionText<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
}

/// Parsed value with an optional warning, or an error.
type ParsedOption<T> = Result<WithWarning<T>, String>;

impl OptionText<'_> {
    /// Parses a number by uperf's rule for sizes.
    pub(super) fn number<T: TryFrom<u32>>(&self) -> ParsedOption<T> {
        self.number_in(0..=u32::MAX)
    }

    pub(super) fn number_in<T: TryFrom<u32>>(&self, range: RangeInclusive<u32>) -> ParsedOption<T> {
        self.check_range(integer(self.value)?, range)
    }

    /// Parses a number as C's `atoi` does.
    pub(super) fn count<T: TryFrom<u32>>(&self, range: RangeInclusive<u32>) -> ParsedOption<T> {
        let error = || self.invalid("it is negative as a 32-bit integer");
        self.check_range(number::count(self.value).ok_or_else(error)?, range)
    }

    pub(super) fn positive<T: TryFrom<u32>>(&self) -> ParsedOption<T> {
        let Self { key, value } = self;
        let number = number::count(value).filter(|(number, _)| *number > 0);
        let error = || match *key {
            "conn" => format!("connection id ({key}={value}) should be > 0"),
            _ => format!("{key} ({value}) should be > 0"),
        };
        self.check_range(number.ok_or_else(error)?, 1..=u32::MAX)
    }

    pub(super) fn time<T: From<Duration>>(&self) -> ParsedOption<T> {
        let Self { key, value } = self;
        let (value, warning) = number::time(value).map_err(|error| match error {
            TimeError::InvalidNumber => self.invalid("it is not a time of at least 1 ns"),
            TimeError::UnknownUnit(unit) => format!(
                "{unit} not valid time suffix: {key}={value} would last forever; use s, ms, us or ns"
            ),
        })?;
        Ok((value.into(), warning))
    }

    /// Returns a text of at most `max_bytes` bytes, the size of its field on the wire.
    pub(super) fn text(&self, max_bytes: usize) -> ParsedOption<String> {
        if self.value.len() > max_bytes {
            return Err(self.invalid(&format!("it has more than {max_bytes} bytes")));
        }
        Ok((self.value.to_owned(), None))
    }

    /// Returns a text cut to `max_bytes` bytes, with a warning, as uperf cuts it.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the other parsing functions can fail"
    )]
    pub(super) fn truncated_text(&self, max_bytes: usize) -> ParsedOption<String> {
        let Self { key, value } = self;
        let kept = truncated(value, max_bytes);
        let text = format!("{key}={value} has more than {max_bytes} bytes");
        let warning = (kept != *value).then(|| ProfileWarning::new(text, kept));
        Ok((kept.to_owned(), warning))
    }

    /// Parses the name of a protocol, in upper or lower case.
    pub(super) fn protocol(&self) -> ParsedOption<Option<DataProtocol>> {
        let protocol = protocol(&self.value.to_ascii_lowercase())?;
        Ok((Some(protocol), None))
    }

    fn check_range<T: TryFrom<u32>>(
        &self,
        (number, warning): WithWarning<u32>,
        range: RangeInclusive<u32>,
    ) -> ParsedOption<T> {
        match T::try_from(number) {
            Ok(value) if range.contains(&number) => Ok((value, warning)),
            _ => {
                let (min, max) = range.into_inner();
                Err(self.invalid(&format!("it is not from {min} to {max}")))
            }
        }
    }

    fn invalid(&self, reason: &str) -> String {
        format!("Cannot understand {}:{}: {reason}", self.key, self.value)
    }
}

pub(super) fn integer(value: &str) -> Result<WithWarning<u32>, String> {
    number::integer(value).ok_or_else(|| format!("Cannot parse {value}"))
}

fn protocol(value: &str) -> Result<DataProtocol, String> {
    let unsupported = format!("Protocol {value} not supported");
    match value {
        "rds" => Err(format!(
            "{unsupported}: linerate has no reliable datagram sockets (AF_RDS, kernel module rds); \
             uperf has them only if built with them"
        )),
        "udapl" => Err(format!(
            "{unsupported}: no build of uperf ever supported it"
        )),
        "ssl" if !cfg!(feature = "tls") => Err(format!("{unsupported}: {}", TlsError::NotBuilt)),
        _ => DataProtocol::from_name(value)
            .ok_or_else(|| format!("{unsupported}: use tcp, udp, ssl, sctp, vsock, unix or mptcp")),
    }
}

/// Formats a size; empty for the default of 0.
pub(super) fn format_size(size: Amount) -> String {
    match size {
        Amount::Exactly(0) => String::new(),
        Amount::Exactly(size) => format_bytes(size),
        Amount::Between { min, max } => {
            format!("rand({},{})", format_bytes(min), format_bytes(max))
        }
    }
}

/// Formats bytes in the largest unit that divides them.
pub(super) fn format_bytes(value: impl Into<u64>) -> String {
    let value = value.into();
    [(1 << 20, "m"), (1 << 10, "k")]
        .into_iter()
        .find(|(unit, _)| value.is_multiple_of(*unit) && value > 0)
        .map_or_else(
            || value.to_string(),
            |(unit, letter)| format!("{}{letter}", value / unit),
        )
}

/// Formats a time in the largest unit that divides it.
pub(super) fn format_time(value: Duration) -> String {
    let nanoseconds = value.as_nanos();
    [
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1000, "us"),
        (1, "ns"),
    ]
    .into_iter()
    .find(|(unit, _)| nanoseconds.is_multiple_of(*unit))
    .map_or_else(String::new, |(unit, name)| {
        format!("{}{name}", nanoseconds / unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_value() {
        for text in ["2s", "100ms", "1500us", "7ns", "30s", "3600s"] {
            let (value, _) = number::time(text).expect("a time");
            let (again, _) = number::time(&format_time(value)).expect("a time");
            assert_eq!(again, value, "{text}");
        }
    }
}
