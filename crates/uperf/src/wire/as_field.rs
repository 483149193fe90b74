//! Values of a workorder ↔ the fields that they travel as.

use std::time::Duration;

use codec::{Field, Text};

use super::protocol::{protocol_number, protocol_numbered};
use crate::{Flags, Kind, Protocol, WorkLimits};

/// A value of a flowop, and the field that it travels as.
pub(crate) trait AsField<F>: Sized {
    /// Returns the field; `None` if it has no room for the value.
    fn to_field(&self) -> Option<F>;

    /// Returns the value, or why it can be none of this option.
    fn of_field(field: &F, option: &str, limits: &WorkLimits) -> Result<Self, String>;

    /// Returns the length of a text, bytes.
    fn text_bytes(&self, _: &F) -> usize {
        0
    }
}

/// A number.
impl<F: Field + Copy> AsField<F> for F {
    fn to_field(&self) -> Option<F> {
        Some(*self)
    }

    fn of_field(field: &F, _: &str, _: &WorkLimits) -> Result<Self, String> {
        Ok(*field)
    }
}

impl<const N: usize> AsField<Text<N>> for String {
    fn to_field(&self) -> Option<Text<N>> {
        Text::fitting(self)
    }

    fn of_field(text: &Text<N>, option: &str, _: &WorkLimits) -> Result<Self, String> {
        match text.raw_str() {
            Some(raw) if codec::is_plain(raw) => Ok(raw.to_owned()),
            _ => Err(format!("{option}={text} is not a plain text")),
        }
    }

    fn text_bytes(&self, text: &Text<N>) -> usize {
        text.raw_bytes().len()
    }
}

impl AsField<u64> for Duration {
    fn to_field(&self) -> Option<u64> {
        u64::try_from(self.as_nanos()).ok()
    }

    fn of_field(nanoseconds: &u64, option: &str, limits: &WorkLimits) -> Result<Self, String> {
        limits.bound(option, Self::from_nanos(*nanoseconds))
    }
}

/// 0 is none.
impl AsField<u64> for Option<Duration> {
    fn to_field(&self) -> Option<u64> {
        self.unwrap_or_default().to_field()
    }

    fn of_field(nanoseconds: &u64, option: &str, limits: &WorkLimits) -> Result<Self, String> {
        let duration: Duration = AsField::of_field(nanoseconds, option, limits)?;
        Ok((!duration.is_zero()).then_some(duration))
    }
}

/// A number that is none of a protocol's may stand where no connection is opened.
impl AsField<u32> for Option<Protocol> {
    fn to_field(&self) -> Option<u32> {
        Some(self.map_or(0, protocol_number))
    }

    fn of_field(number: &u32, _: &str, _: &WorkLimits) -> Result<Self, String> {
        Ok(protocol_numbered(*number))
    }
}

impl AsField<u32> for Kind {
    fn to_field(&self) -> Option<u32> {
        Some(*self as u32)
    }

    fn of_field(number: &u32, _: &str, _: &WorkLimits) -> Result<Self, String> {
        Self::of(*number).ok_or_else(|| format!("{number} is the number of no flowop"))
    }
}

impl AsField<u32> for Flags {
    fn to_field(&self) -> Option<u32> {
        Some(self.0)
    }

    fn of_field(flags: &u32, _: &str, _: &WorkLimits) -> Result<Self, String> {
        match flags & !Self::ALL.0 {
            0 => Ok(Self(*flags)),
            unknown => Err(format!("the flags {unknown:#x} have no meaning")),
        }
    }
}
