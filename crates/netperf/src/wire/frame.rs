//! Words, texts and addresses at their places in a frame.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use codec::Text;

use super::{FAMILY_IPV4, FAMILY_IPV6, Frame, MESSAGE_LEN};

/// Where the payload begins: the protocol's tables count from here.
pub(super) const PAYLOAD: usize = 8;

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
    i32::read(frame, index * 4)
}

/// Sets what [`word`] reads.
pub(super) fn put_word(frame: &mut Frame, index: usize, value: i32) {
    value.write(frame, index * 4);
}

/// The `N` bytes at `at`, which a [`layout!`] has checked to lie inside.
pub(super) fn bytes<const N: usize>(frame: &Frame, at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&frame[at..at + N]);
    bytes
}

/// A value with a place in a frame.
pub(super) trait Field: Sized {
    /// Length in bytes.
    const LEN: usize;

    /// The value that begins at byte `at` of the message.
    fn read(frame: &Frame, at: usize) -> Self;

    /// Puts the value where [`Field::read`] finds it.
    fn write(&self, frame: &mut Frame, at: usize);
}

macro_rules! big_endian {
    ($($number:ty),+) => {$(
        impl Field for $number {
            const LEN: usize = size_of::<$number>();

            fn read(frame: &Frame, at: usize) -> Self {
                Self::from_be_bytes(bytes(frame, at))
            }

            fn write(&self, frame: &mut Frame, at: usize) {
                frame[at..at + Self::LEN].copy_from_slice(&self.to_be_bytes());
            }
        }
    )+};
}

// The 64-bit counters travel as two words, the high one first, and a double as its eight bytes
// from the most significant on: both are plain big-endian.
big_endian!(i32, u32, u64, f32, f64);

/// A word that is 0 or not.
impl Field for bool {
    const LEN: usize = 4;

    fn read(frame: &Frame, at: usize) -> Self {
        i32::read(frame, at) != 0
    }

    fn write(&self, frame: &mut Frame, at: usize) {
        i32::from(*self).write(frame, at);
    }
}

impl<const N: usize> Field for Text<N> {
    const LEN: usize = N;

    fn read(frame: &Frame, at: usize) -> Self {
        Self::of_field(bytes(frame, at))
    }

    fn write(&self, frame: &mut Frame, at: usize) {
        frame[at..at + N].copy_from_slice(self.raw_field());
    }
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

    fn read(frame: &Frame, at: usize) -> Self {
        Self(Text::of_field(reverse_groups(bytes(frame, at))))
    }

    fn write(&self, frame: &mut Frame, at: usize) {
        frame[at..at + N].copy_from_slice(&reverse_groups(*self.0.raw_field()));
    }
}

/// Bytes as they are.
impl<const N: usize> Field for [u8; N] {
    const LEN: usize = N;

    fn read(frame: &Frame, at: usize) -> Self {
        bytes(frame, at)
    }

    fn write(&self, frame: &mut Frame, at: usize) {
        frame[at..at + N].copy_from_slice(self);
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

    fn read(frame: &Frame, at: usize) -> Self {
        Self(bytes(frame, at))
    }

    fn write(&self, frame: &mut Frame, at: usize) {
        frame[at..at + Self::LEN].copy_from_slice(&self.0);
    }
}

fn reverse_groups<const N: usize>(mut octets: [u8; N]) -> [u8; N] {
    for group in octets.chunks_exact_mut(4) {
        group.reverse();
    }
    octets
}

/// A message whose fields stand at the given bytes of the payload, as the protocol's tables have
/// them. That they ascend, do not overlap and lie inside is checked on compiling.
macro_rules! layout {
    (
        $(#[$about:meta])*
        pub struct $message:ident {
            $($(#[$doc:meta])* [$at:literal] $field:ident: $kind:ty,)+
        }
    ) => {
        $(#[$about])*
        pub struct $message {
            $($(#[$doc])* pub $field: $kind,)+
        }

        impl $message {
            /// The names of the fields.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field),)+];

            /// The fields of any frame at all.
            pub(super) fn read(frame: &$crate::wire::Frame) -> Self {
                use $crate::wire::frame::{Field, PAYLOAD};
                Self { $($field: Field::read(frame, PAYLOAD + $at),)+ }
            }

            /// Puts the fields into a frame.
            pub(super) fn write(&self, frame: &mut $crate::wire::Frame) {
                use $crate::wire::frame::{Field, PAYLOAD};
                $(self.$field.write(frame, PAYLOAD + $at);)+
            }
        }

        const _: () = {
            use $crate::wire::frame::{Field, PAYLOAD};
            let mut end = 0;
            $(
                assert!(end <= $at, "the fields overlap");
                end = $at + <$kind as Field>::LEN;
            )+
            assert!(PAYLOAD + end <= $crate::wire::MESSAGE_LEN, "a field lies outside");
        };
    };
}

/// A [`layout!`] that is an answer: [`check`](super::check) comes before its fields.
macro_rules! reply {
    ($message:ident) => {
        impl $message {
            /// The fields of a reply, whatever type it claims: stock servers do not set that of
            /// results.
            pub fn decode(frame: &$crate::wire::Frame) -> Result<Self, $crate::wire::RemoteError> {
                $crate::wire::check(frame)?;
                Ok(Self::read(frame))
            }
        }
    };
}

pub(super) use {layout, reply};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_big_endian() {
        let mut frame = blank(97);
        assert_eq!(frame[..4], [0, 0, 0, 97]);
        (-2_i32).write(&mut frame, 8);
        0x0102_0304_0506_0708_u64.write(&mut frame, 12);
        1.5_f32.write(&mut frame, 20);
        (-2.0_f64).write(&mut frame, 24);
        true.write(&mut frame, 32);
        let sent = [
            0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8, 0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 1,
        ];
        assert_eq!(frame[8..36], sent);
        assert_eq!(i32::read(&frame, 8), -2);
        assert_eq!(u64::read(&frame, 12), 0x0102_0304_0506_0708);
        assert!(bool::read(&frame, 8));
    }

    #[test]
    fn leftovers_behind_a_text_do_not_count() {
        let mut frame = [0; MESSAGE_LEN];
        frame[..8].copy_from_slice(b"bbr\0bic\0");
        let text = Text::<8>::read(&frame, 0);
        assert_eq!(text, Text::new("bbr"));
        text.write(&mut frame, 100);
        assert_eq!(Text::<8>::read(&frame, 100), text);
    }

    #[test]
    fn addresses_as_x86_sends_them() {
        for (ip, family, sent) in [
            (
                "127.0.0.3",
                FAMILY_IPV4,
                [127, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
            (
                "::1",
                FAMILY_IPV6,
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            ),
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
