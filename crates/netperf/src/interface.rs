//! Which network interface a DLPI test's device and PPA name, at either end.

use std::io;

use sys::interface::{Link, index_of, link};

/// What 802.2 takes of a frame beside the payload: both access points and a control field of two bytes.
pub(crate) const LLC_HEADER_BYTES: u32 = 4;

/// A device and a number are a name together ("eth" and 0), a number alone is an index.
pub(crate) fn find(device: &str, ppa: Option<u32>) -> io::Result<Link> {
    link(match (device, ppa) {
        ("", Some(index)) => index,
        (name, None) => index_of(name)?,
        (name, Some(number)) => index_of(&format!("{name}{number}"))?,
    })
}

/// As people name it.
pub(crate) fn shown(device: &str, ppa: Option<u32>) -> String {
    match (device, ppa) {
        ("", Some(index)) => format!("with index {index}"),
        (name, None) => name.to_owned(),
        (name, Some(number)) => format!("{name}{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_named_in_three_ways() {
        let index = index_of("lo").unwrap();
        let by_name = find("lo", None).unwrap();
        assert_eq!(by_name.name, "lo");
        assert_eq!(find("", Some(index)).unwrap().name, "lo");
        assert!(find("lo", Some(7)).is_err());
        assert!(find("", Some(u32::MAX)).is_err());
        for name in ["/etc", "..", "no-such-interface", "a name longer than any"] {
            assert!(find(name, None).is_err(), "{name}");
        }
        assert_eq!(shown("eth", Some(0)), "eth0");
    }
}
