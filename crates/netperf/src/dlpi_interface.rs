//! The network interface of a DLPI test, at either end.

use std::io;

use sys::interface::{Link, index_by_name, link};

/// Bytes of the 802.2 header: two access points and a control field of two bytes.
pub(crate) const LLC_HEADER_BYTES: u32 = 4;

/// A network interface in test options `-D` and `-p` of the DLPI tests: a name, an index, or a name
/// and a number ("eth" and 0).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DlpiInterface {
    /// The name, or its first part.
    pub device: Option<String>,
    /// The number after the name, or the index.
    pub ppa: Option<u32>,
}

impl DlpiInterface {
    /// Returns the matching interface of this host.
    pub(crate) fn find(&self) -> io::Result<Link> {
        link(
            match (self.device.as_deref().unwrap_or_default(), self.ppa) {
                ("", Some(index)) => index,
                (name, None) => index_by_name(name)?,
                (name, Some(number)) => index_by_name(&format!("{name}{number}"))?,
            },
        )
    }

    /// Returns the name for messages.
    pub(crate) fn display_name(&self) -> String {
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
        let interface = |device: &str, ppa| DlpiInterface {
            device: Some(device.to_owned()),
            ppa,
        };
        let index = index_by_name("lo").unwrap();
        let by_name = interface("lo", None).find().unwrap();
        assert_eq!(by_name.name, "lo");
        assert_eq!(interface("", Some(index)).find().unwrap().name, "lo");
        assert!(interface("lo", Some(7)).find().is_err());
        assert!(interface("", Some(u32::MAX)).find().is_err());
        for name in ["/etc", "..", "no-such-interface", "a name longer than any"] {
            assert!(interface(name, None).find().is_err(), "{name}");
        }
        assert_eq!(interface("eth", Some(0)).display_name(), "eth0");
    }
}
