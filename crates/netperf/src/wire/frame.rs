//! Words, texts and addresses at their places in a frame.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use codec::Order;
pub use codec::Text;
pub(super) use codec::{Field, part};

use super::{FAMILY_IPV4, FAMILY_IPV6, Frame, MESSAGE_LEN};

/// Where the payload begins: the protocol's tables count from here.
pub(super) const PAYLOAD: usize = 8;

/// Numbers are big-endian. A 64-bit counter travels as two words, the high one first, and a double as its eight bytes
/// from the most significant on.
pub(super) const ORDER: Order = Order::Big;

/// The longest text that fills the payload and still has its NUL.
pub(super) const MAX_TEXT: usize = MESSAGE_LEN - PAYLOAD - 1;

/// A frame of this type with nothing else in it.
pub(super) fn blank(kind: i32) -> Frame {
    let mut frame = [0; MESSAGE_LEN];
    put_word(&mut frame, 0, kind);
    frame
}

/// The word with this index: the type, or the word after it.
pub(super) fn word(frame: &Frame, index: usize) -> i32 {
    i32::read(frame, index * 4, ORDER)
}

/// Sets what [`word`] reads.
pub(super) fn put_word(frame: &mut Frame, index: usize, value: i32) {
    value.write(frame, index * 4, ORDER);
}

/// A text inside the part of a message that is converted word by word. x86 sends each group of four
/// characters reversed, and so does this on every host, as with an IPv6 [`Address`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SwappedText<const N: usize>(pub Text<N>);

impl<const N: usize> fmt::Debug for SwappedText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const N: usize> Field for SwappedText<N> {
    const LEN: usize = N;

    fn read(bytes: &[u8], at: usize, _: Order) -> Self {
        Self(Text::of_field(reverse_groups(part(bytes, at))))
    }

    fn write(&self, bytes: &mut [u8], at: usize, _: Order) {
        bytes[at..at + N].copy_from_slice(&reverse_groups(*self.0.raw_field()));
    }
}

/// What stands before the first NUL.
pub(super) fn until_nul(text: &[u8]) -> &[u8] {
    let len = text.iter().position(|&byte| byte == 0);
    &text[..len.unwrap_or(text.len())]
}

/// An IP address in the four words that an omni request has for one; all zero is none.
///
/// An IPv4 address is the first word. The stock program copies an IPv6 address into the four words
/// as raw memory and converts the words then, so that x86 sends each group of four bytes reversed.
/// The same is sent here on every host, big-endian ones too: it is what the peers expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address([u8; 16]);

impl Address {
    /// The address of that family, `None` if the words are zero or the family is not an IP one.
    pub fn ip(self, family: u32) -> Option<IpAddr> {
        if self == Self::default() {
            return None;
        }
        match family {
            FAMILY_IPV4 => {
                let [a, b, c, d, ..] = self.0;
                Some(Ipv4Addr::new(a, b, c, d).into())
            }
            FAMILY_IPV6 => Some(Ipv6Addr::from(reverse_groups(self.0)).into()),
            _ => None,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => {
                let mut words = [0; 16];
                words[..4].copy_from_slice(&ip.octets());
                Self(words)
            }
            IpAddr::V6(ip) => Self(reverse_groups(ip.octets())),
        }
    }
}

impl Field for Address {
    const LEN: usize = 16;

    fn read(bytes: &[u8], at: usize, _: Order) -> Self {
        Self(part(bytes, at))
    }

    fn write(&self, bytes: &mut [u8], at: usize, _: Order) {
        bytes[at..at + Self::LEN].copy_from_slice(&self.0);
    }
}

fn reverse_groups<const N: usize>(mut octets: [u8; N]) -> [u8; N] {
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
        assert_eq!(blank(97)[..5], [0, 0, 0, 97, 0]);
    }

    #[rustfmt::skip]
    #[test]
    fn addresses_as_x86_sends_them() {
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
            let address = Address::from(ip);
            assert_eq!(address, Address(sent));
            assert_eq!(address.ip(family), Some(ip));
            assert_eq!(address.ip(7), None);
        }
        assert_eq!(Address::default().ip(FAMILY_IPV4), None);
    }
}
