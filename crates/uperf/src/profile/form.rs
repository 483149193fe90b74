//! How the values of options are read into their places, and shown again.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::tls::Trouble;
use crate::workorder::Protocol;

use super::number::{self, Doubt, NoTime, Number};
use super::text::shortened;

/// With a doubt the value is not what it seems. An error is in uperf's words.
pub(super) type Read = Result<Option<Doubt>, String>;

/// How the value of an option becomes what is at its place in a flowop, and that a text again.
pub(super) trait Form<T> {
    fn read(&self, place: &mut T, key: &str, value: &str) -> Read;

    /// Returns nothing for uperf's default.
    fn show(&self, place: &T) -> String;
}

/// A number, by uperf's rule for sizes.
pub(super) struct Integer {
    range: RangeInclusive<u32>,
    show: fn(u64) -> String,
}

pub(super) const NUMBER: Integer = Integer {
    range: 0..=u32::MAX,
    show: |number| number.to_string(),
};
pub(super) const BYTES: Integer = Integer {
    show: bytes,
    ..NUMBER
};

/// One of 16 bits.
pub(super) const fn number_from(least: u32) -> Integer {
    Integer {
        range: least..=65_535,
        ..NUMBER
    }
}

impl<T: TryFrom<u32> + Into<u64> + Copy> Form<T> for Integer {
    fn read(&self, place: &mut T, key: &str, value: &str) -> Read {
        let number = within(key, value, integer(value)?, &self.range)?;
        Ok(store(place, number))
    }

    fn show(&self, place: &T) -> String {
        match (*place).into() {
            0 => String::new(),
            number => (self.show)(number),
        }
    }
}

/// A number, as C's `atoi` reads it.
pub(super) struct Count {
    range: RangeInclusive<u32>,
    default: u64,
    /// What to say of one that is less.
    refusal: fn(&str, &str) -> String,
}

pub(super) const COUNT: Count = Count {
    range: 0..=u32::MAX,
    default: 1,
    refusal: |key, value| format!("Cannot understand {key}:{value}: it is less than 0 in 32 bits"),
};
pub(super) const PORT: Count = Count {
    range: 0..=65_535,
    default: 0,
    ..COUNT
};
pub(super) const POSITIVE: Count = Count {
    range: 1..=u32::MAX,
    default: 1,
    refusal: |key, value| format!("{key} ({value}) should be > 0"),
};
pub(super) const CONNECTION: Count = Count {
    default: 0,
    refusal: |key, value| format!("connection id ({key}={value}) should be > 0"),
    ..POSITIVE
};

impl<T: TryFrom<u32> + Into<u64> + Copy> Form<T> for Count {
    fn read(&self, place: &mut T, key: &str, value: &str) -> Read {
        let number = number::count(value).filter(|number| number.value >= *self.range.start());
        let number = number.ok_or_else(|| (self.refusal)(key, value))?;
        let number = within(key, value, number, &self.range)?;
        Ok(store(place, number))
    }

    fn show(&self, place: &T) -> String {
        let number = (*place).into();
        if number == self.default {
            String::new()
        } else {
            number.to_string()
        }
    }
}

/// A text for which the messages of the control connection have room: so many bytes.
pub(super) struct Text(pub(super) usize);

impl Form<String> for Text {
    fn read(&self, place: &mut String, key: &str, value: &str) -> Read {
        let most = self.0;
        if value.len() > most {
            return Err(format!(
                "Cannot understand {key}:{value}: it has more than {most} bytes"
            ));
        }
        value.clone_into(place);
        Ok(None)
    }

    fn show(&self, place: &String) -> String {
        place.clone()
    }
}

/// A text of which uperf keeps as much as it has room for.
pub(super) struct Cut(pub(super) usize);

impl Form<String> for Cut {
    fn read(&self, place: &mut String, key: &str, value: &str) -> Read {
        let most = self.0;
        let kept = shortened(value, most);
        kept.clone_into(place);
        let text = format!("{key}={value} has more than {most} bytes");
        Ok((kept != value).then(|| Doubt::new(text, kept)))
    }

    fn show(&self, place: &String) -> String {
        place.clone()
    }
}

/// A policy of SCTP, in any case.
pub(super) struct Policy;

impl Form<String> for Policy {
    fn read(&self, place: &mut String, key: &str, value: &str) -> Read {
        let value = value.to_ascii_lowercase();
        if !["ttl", "rtx", "buf"].contains(&value.as_str()) {
            let text = format!("{key}={value} is none of ttl, rtx, buf, and uperf ignores it");
            return Ok(Some(Doubt::new(text, "no policy")));
        }
        *place = value;
        Ok(None)
    }

    fn show(&self, place: &String) -> String {
        place.clone()
    }
}

/// In any case.
pub(super) struct ProtocolName;

impl Form<Option<Protocol>> for ProtocolName {
    fn read(&self, place: &mut Option<Protocol>, _: &str, value: &str) -> Read {
        *place = Some(protocol(&value.to_ascii_lowercase())?);
        Ok(None)
    }

    fn show(&self, place: &Option<Protocol>) -> String {
        place.map_or_else(String::new, |protocol| protocol.to_string())
    }
}

pub(super) struct Time;

impl Form<Duration> for Time {
    fn read(&self, place: &mut Duration, key: &str, value: &str) -> Read {
        let number = number::time(value).map_err(|why| match why {
            NoTime::NoNumber => {
                format!("Cannot understand {key}:{value}: it is no time of 1 ns or more")
            }
            NoTime::Unit(unit) => format!(
                "{unit} not valid time suffix: {key}={value} would last for ever (s, ms, us or ns)"
            ),
        })?;
        *place = number.value;
        Ok(number.doubt)
    }

    fn show(&self, place: &Duration) -> String {
        if place.is_zero() {
            return String::new();
        }
        time(*place)
    }
}

impl Form<Option<Duration>> for Time {
    fn read(&self, place: &mut Option<Duration>, key: &str, value: &str) -> Read {
        self.read(place.insert(Duration::ZERO), key, value)
    }

    fn show(&self, place: &Option<Duration>) -> String {
        self.show(&place.unwrap_or_default())
    }
}

fn store<T: TryFrom<u32>>(place: &mut T, number: Number<u32>) -> Option<Doubt> {
    if let Ok(value) = number.value.try_into() {
        *place = value;
    }
    number.doubt
}

/// A number, by uperf's rule for sizes.
pub(super) fn integer(value: &str) -> Result<Number<u32>, String> {
    number::integer(value).ok_or_else(|| format!("Cannot parse {value}"))
}

fn within(
    key: &str,
    value: &str,
    number: Number<u32>,
    range: &RangeInclusive<u32>,
) -> Result<Number<u32>, String> {
    if range.contains(&number.value) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    Err(format!(
        "Cannot understand {key}:{value}: it is not from {least} to {most}"
    ))
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

/// In the largest unit that divides it.
pub(super) fn bytes(value: u64) -> String {
    [(1 << 20, "m"), (1 << 10, "k")]
        .into_iter()
        .find(|(unit, _)| value.is_multiple_of(*unit) && value > 0)
        .map_or_else(
            || value.to_string(),
            |(unit, letter)| format!("{}{letter}", value / unit),
        )
}

/// In the largest unit that divides it.
fn time(value: Duration) -> String {
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
            let value = number::time(text).expect("a time").value;
            let again = number::time(&time(value)).expect("a time").value;
            assert_eq!(again, value, "{text}");
        }
    }
}
