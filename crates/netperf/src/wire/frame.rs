//! Words, texts and addresses in a frame.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use codec::Endian;
pub use codec::Text;
pub(super) use codec::{Field, array_at};

use super::{FAMILY_IPV4, FAMILY_IPV6, Frame, MESSAGE_BYTES};

/// The offset of the payload, from which the tables in `layouts.rs` count.
pub(super) const PAYLOAD_START: usize = 8;

/// The byte order of all numbers. A 64-bit counter is two words, the high one first. A double is
/// eight bytes, the most significant first.
pub(super) const BYTE_ORDER: Endian = Endian::Big;

/// The maximum length of a text in the payload, without its NUL.
pub(super) const MAX_TEXT_LEN: usize = MESSAGE_BYTES - PAYLOAD_START - 1;

/// Creates a frame of this type. All other bytes are zero.
pub(super) fn new_frame(kind: i32) -> Frame {
    let mut frame = [0; MESSAGE_BYTES];
    write_word(&mut frame, 0, kind);
    frame
}

/// Reads the word with this index. Index 0 is the type.
pub(super) fn read_word(frame: &Frame, index: usize) -> i32 {
    i32::read(frame, index * 4, BYTE_ORDER)
}

/// Writes the word with this index; see [`read_word`].
pub(super) fn write_word(frame: &mut Frame, index: usize, value: i32) {
    value.write(frame, index * 4, BYTE_ORDER);
}

/// A text in the part of a message that stock converts with htonl(3), word by word. Stock on x86 thus sends each
/// group of four characters reversed. linerate does so on every host, as with [`AddressWords`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SwappedText<const N: usize>(pub Text<N>);

impl<const N: usize> fmt::Debug for SwappedText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const N: usize> Field for SwappedText<N> {
    const LEN: usize = N;

    fn read(bytes: &[u8], at: usize, _: Endian) -> Self {
        Self(Text::from_field(swap_groups(array_at(bytes, at))))
    }

    fn write(&self, bytes: &mut [u8], at: usize, _: Endian) {
        bytes[at..at + N].copy_from_slice(&swap_groups(*self.0.raw_field()));
    }
}

/// Returns the bytes before the first NUL.
pub(super) fn trim_at_nul(text: &[u8]) -> &[u8] {
    let len = text.iter().position(|&byte| byte == 0);
    &text[..len.unwrap_or(text.len())]
}

/// An IP address in four words of an omni request. All zero is no address.
///
/// An IPv4 address is the first word. The stock program copies an IPv6 address into the four words
/// as raw memory and then converts the words. On x86 it thus sends each group of four bytes
/// reversed. Peers expect this, so linerate does the same on every host, including big-endian ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressWords([u8; 16]);

impl AddressWords {
    /// Returns the address; `family` is [`FAMILY_IPV4`] or [`FAMILY_IPV6`]. Returns `None` if the
    /// words are zero or `family` has another value.
    pub fn ip(self, family: u32) -> Option<IpAddr> {
        if self == Self::default() {
            return None;
        }
        match family {
            FAMILY_IPV4 => {
                let [a, b, c, d, ..] = self.0;
                Some(Ipv4Addr::new(a, b, c, d).into())
            }
            FAMILY_IPV6 => Some(Ipv6Addr::from(swap_groups(self.0)).into()),
            _ => None,
        }
    }
}

impl From<IpAddr> for AddressWords {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => {
                let mut words = [0; 16];
                words[..4].copy_from_slice(&ip.octets());
                Self(words)
            }
            IpAddr::V6(ip) => Self(swap_groups(ip.octets())),
        }
    }
}

impl Field for AddressWords {
    const LEN: usize = 16;

    fn read(bytes: &[u8], at: usize, _: Endian) -> Self {
        Self(array_at(bytes, at))
    }

    fn write(&self, bytes: &mut [u8], at: usize, _: Endian) {
        bytes[at..at + Self::LEN].copy_from_slice(&self.0);
    }
}

/// Reverses each group of four bytes.
fn swap_groups<const N: usize>(mut octets: [u8; N]) -> [u8; N] {
    for group in octets.chunks_exact_mut(4) {
        group.reverse();
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_begins_with_its_type() {
        assert_eq!(new_frame(97)[..5], [0, 0, 0, 97, 0]);
    }

    #[rustfmt::skip]
    #[test]
    fn addresses_are_encoded_as_x86_sends_them() {
        for (ip, family, sent) in [
            ("127.0.0.3", FAMILY_IPV4, [127, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("::1", FAMILY_IPV6, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]),
            (
                "102:304:506:708:90a:b0c:d0e:f10",
                FAMILY_IPV6,
                [4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 16, 15, 14, 13],
            ),
        ] {
            let ip: IpAddr = ip.parse().expect("a literal");
            let address = AddressWords::from(ip);
            assert_eq!(address, AddressWords(sent));
            assert_eq!(address.ip(family), Some(ip));
            assert_eq!(address.ip(7), None);
        }
        assert_eq!(AddressWords::default().ip(FAMILY_IPV4), None);
    }
}
