//! Which network interface a DLPI test uses, at either end.

use std::io;

use sys::interface::{Link, index_of, link};

/// What 802.2 takes of a frame beside the payload: both access points and a control field of two bytes.
pub(crate) const LLC_HEADER_BYTES: u32 = 4;

/// A network interface as test options `-D` and `-p` of the DLPI tests name it: by name, by index, or
/// by a name and the number behind it ("eth" and 0).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    /// The name, or its first part.
    pub device: Option<String>,
    /// The number behind the name, or the index.
    pub ppa: Option<u32>,
}

impl Attachment {
    /// The interface that there is.
    pub(crate) fn find(&self) -> io::Result<Link> {
        link(
            match (self.device.as_deref().unwrap_or_default(), self.ppa) {
                ("", Some(index)) => index,
                (name, None) => index_of(name)?,
                (name, Some(number)) => index_of(&format!("{name}{number}"))?,
            },
        )
    }

    /// As people name it.
    pub(crate) fn shown(&self) -> String {
        match (self.device.as_deref().unwrap_or_default(), self.ppa) {
            ("", Some(index)) => format!("with index {index}"),
            (name, None) => name.to_owned(),
            (name, Some(number)) => format!("{name}{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_named_in_three_ways() {
        let attachment = |device: &str, ppa| Attachment {
            device: Some(device.to_owned()),
            ppa,
        };
        let index = index_of("lo").unwrap();
        let by_name = attachment("lo", None).find().unwrap();
        assert_eq!(by_name.name, "lo");
        assert_eq!(attachment("", Some(index)).find().unwrap().name, "lo");
        assert!(attachment("lo", Some(7)).find().is_err());
        assert!(attachment("", Some(u32::MAX)).find().is_err());
        for name in ["/etc", "..", "no-such-interface", "a name longer than any"] {
            assert!(attachment(name, None).find().is_err(), "{name}");
        }
        assert_eq!(attachment("eth", Some(0)).shown(), "eth0");
    }
}
