//! The values of options: how they are read, and shown again.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::tls::Trouble;
use crate::workorder::{Amount, Protocol};

use super::number::{self, Doubt, NoTime, Number};
use super::text::shortened;

/// An option with its value. What is wrong with it is in uperf's words.
pub(super) struct Given<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
}

type Read<T> = Result<Number<T>, String>;

impl Given<'_> {
    /// A number, by uperf's rule for sizes.
    pub(super) fn number<T: TryFrom<u32>>(&self) -> Read<T> {
        self.number_in(0..=u32::MAX)
    }

    pub(super) fn number_in<T: TryFrom<u32>>(&self, range: RangeInclusive<u32>) -> Read<T> {
        self.within(integer(self.value)?, range)
    }

    /// A number, as C's `atoi` reads it.
    pub(super) fn count<T: TryFrom<u32>>(&self, range: RangeInclusive<u32>) -> Read<T> {
        let refused = || self.refused("it is less than 0 in 32 bits");
        self.within(number::count(self.value).ok_or_else(refused)?, range)
    }

    pub(super) fn positive<T: TryFrom<u32>>(&self) -> Read<T> {
        let Self { key, value } = self;
        let number = number::count(value).filter(|(number, _)| *number > 0);
        let refused = || match *key {
            "conn" => format!("connection id ({key}={value}) should be > 0"),
            _ => format!("{key} ({value}) should be > 0"),
        };
        self.within(number.ok_or_else(refused)?, 1..=u32::MAX)
    }

    pub(super) fn time<T: From<Duration>>(&self) -> Read<T> {
        let Self { key, value } = self;
        let (value, doubt) = number::time(value).map_err(|why| match why {
            NoTime::NoNumber => self.refused("it is no time of 1 ns or more"),
            NoTime::Unit(unit) => format!(
                "{unit} not valid time suffix: {key}={value} would last for ever (s, ms, us or ns)"
            ),
        })?;
        Ok((value.into(), doubt))
    }

    /// A text of at most `most` bytes, for which the messages of the control connection have room.
    pub(super) fn text(&self, most: usize) -> Read<String> {
        if self.value.len() > most {
            return Err(self.refused(&format!("it has more than {most} bytes")));
        }
        Ok((self.value.to_owned(), None))
    }

    /// A text of which uperf keeps as much as it has room for.
    #[expect(clippy::unnecessary_wraps, reason = "other readers fail")]
    pub(super) fn cut(&self, most: usize) -> Read<String> {
        let Self { key, value } = self;
        let kept = shortened(value, most);
        let text = format!("{key}={value} has more than {most} bytes");
        let doubt = (kept != *value).then(|| Doubt::new(text, kept));
        Ok((kept.to_owned(), doubt))
    }

    /// The name of a protocol, in any case.
    pub(super) fn protocol(&self) -> Read<Option<Protocol>> {
        let protocol = protocol(&self.value.to_ascii_lowercase())?;
        Ok((Some(protocol), None))
    }

    fn within<T: TryFrom<u32>>(
        &self,
        (number, doubt): Number<u32>,
        range: RangeInclusive<u32>,
    ) -> Read<T> {
        match T::try_from(number) {
            Ok(value) if range.contains(&number) => Ok((value, doubt)),
            _ => {
                let (least, most) = range.into_inner();
                Err(self.refused(&format!("it is not from {least} to {most}")))
            }
        }
    }

    fn refused(&self, why: &str) -> String {
        format!("Cannot understand {}:{}: {why}", self.key, self.value)
    }
}

pub(super) fn integer(value: &str) -> Result<Number<u32>, String> {
    number::integer(value).ok_or_else(|| format!("Cannot parse {value}"))
}

fn protocol(value: &str) -> Result<Protocol, String> {
    let not = format!("Protocol {value} not supported");
    match value {
        "rds" => Err(format!(
            "{not}: linerate has no reliable datagram sockets (AF_RDS, of the kernel's module rds), and \
             uperf only where it was built with them"
        )),
        "udapl" => Err(format!(
            "{not}: it is a name of uperf's past, and no uperf was ever built with it"
        )),
        "ssl" if !cfg!(feature = "tls") => Err(format!("{not}: {}", Trouble::Absent)),
        _ => Protocol::named(value)
            .ok_or_else(|| format!("{not}: there are tcp, udp, ssl, sctp, vsock, unix, mptcp")),
    }
}

/// Nothing for what the profile does not say.
pub(super) fn size(size: Amount) -> String {
    match size {
        Amount::Exactly(0) => String::new(),
        Amount::Exactly(size) => bytes(size),
        Amount::Between { min, max } => format!("rand({},{})", bytes(min), bytes(max)),
    }
}

/// In the largest unit that divides it.
pub(super) fn bytes(value: impl Into<u64>) -> String {
    let value = value.into();
    [(1 << 20, "m"), (1 << 10, "k")]
        .into_iter()
        .find(|(unit, _)| value.is_multiple_of(*unit) && value > 0)
        .map_or_else(
            || value.to_string(),
            |(unit, letter)| format!("{}{letter}", value / unit),
        )
}

/// In the largest unit that divides it.
pub(super) fn time(value: Duration) -> String {
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
            let (again, _) = number::time(&time(value)).expect("a time");
            assert_eq!(again, value, "{text}");
        }
    }
}
