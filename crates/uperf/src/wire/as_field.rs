//! Conversion between values of a workorder and fields of its records.

use std::time::Duration;

use codec::{Field, Text};

use super::protocol::{protocol_from_number, protocol_number};
use crate::{DataProtocol, FlowopFlags, FlowopKind, WorkLimits};

/// Value of a flowop that is sent as a field of type `F`.
pub(crate) trait AsField<F>: Sized {
    /// Returns the field; `None` if the value does not fit.
    fn to_field(&self) -> Option<F>;

    /// Returns the value, or the reason why `option` cannot have it.
    fn from_field(field: &F, option: &str, limits: &WorkLimits) -> Result<Self, String>;

    /// Returns the length of a text in bytes; 0 for other values.
    fn text_bytes(&self, _: &F) -> usize {
        0
    }
}

/// A number.
impl<F: Field + Copy> AsField<F> for F {
    fn to_field(&self) -> Option<F> {
        Some(*self)
    }

    fn from_field(field: &F, _: &str, _: &WorkLimits) -> Result<Self, String> {
        Ok(*field)
    }
}

impl<const N: usize> AsField<Text<N>> for String {
    fn to_field(&self) -> Option<Text<N>> {
        Text::try_new(self)
    }

    fn from_field(text: &Text<N>, option: &str, _: &WorkLimits) -> Result<Self, String> {
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

    fn from_field(nanoseconds: &u64, option: &str, limits: &WorkLimits) -> Result<Self, String> {
        limits.check_duration(option, Self::from_nanos(*nanoseconds))
    }
}

/// 0 means `None`.
impl AsField<u64> for Option<Duration> {
    fn to_field(&self) -> Option<u64> {
        self.unwrap_or_default().to_field()
    }

    fn from_field(nanoseconds: &u64, option: &str, limits: &WorkLimits) -> Result<Self, String> {
        let duration: Duration = AsField::from_field(nanoseconds, option, limits)?;
        Ok((!duration.is_zero()).then_some(duration))
    }
}

/// An unknown number means `None`: flowops that open no connection may have any number here.
impl AsField<u32> for Option<DataProtocol> {
    fn to_field(&self) -> Option<u32> {
        Some(self.map_or(0, protocol_number))
    }

    fn from_field(number: &u32, _: &str, _: &WorkLimits) -> Result<Self, String> {
        Ok(protocol_from_number(*number))
    }
}

impl AsField<u32> for FlowopKind {
    fn to_field(&self) -> Option<u32> {
        Some(*self as u32)
    }

    fn from_field(number: &u32, _: &str, _: &WorkLimits) -> Result<Self, String> {
        Self::from_number(*number).ok_or_else(|| format!("{number} is not a flowop number"))
    }
}

impl AsField<u32> for FlowopFlags {
    fn to_field(&self) -> Option<u32> {
        Some(self.0)
    }

    fn from_field(flags: &u32, _: &str, _: &WorkLimits) -> Result<Self, String> {
        match flags & !Self::ALL.0 {
            0 => Ok(Self(*flags)),
            unknown => Err(format!("unknown flags {unknown:#x}")),
        }
    }
}
