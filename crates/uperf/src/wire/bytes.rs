//! Integers in either byte order, and texts, at their places in a record.

use codec::Text;

/// The byte order of a master, in which its slaves read and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

impl Order {
    /// This machine's.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };

    /// The order in which these bytes are the probe word.
    pub(super) fn of_probe(word: [u8; 4]) -> Option<Self> {
        [Self::Little, Self::Big]
            .into_iter()
            .find(|order| u32::read(&word, 0, *order) == PROBE)
    }
}

/// What a master writes so that a slave sees in which order it writes.
pub(super) const PROBE: u32 = 0xBADC;

/// A value with a place in a record.
pub(super) trait Field: Sized {
    /// Length in bytes.
    const LEN: usize;

    /// The value that begins at byte `at` of a record, which is long enough.
    fn read(bytes: &[u8], at: usize, order: Order) -> Self;

    /// Puts the value where [`Field::read`] finds it.
    fn write(&self, bytes: &mut [u8], at: usize, order: Order);
}

macro_rules! integers {
    ($($number:ty),+) => {$(
        impl Field for $number {
            const LEN: usize = size_of::<$number>();

            fn read(bytes: &[u8], at: usize, order: Order) -> Self {
                let bytes = part(bytes, at);
                match order {
                    Order::Little => Self::from_le_bytes(bytes),
                    Order::Big => Self::from_be_bytes(bytes),
                }
            }

            fn write(&self, bytes: &mut [u8], at: usize, order: Order) {
                let number = match order {
                    Order::Little => self.to_le_bytes(),
                    Order::Big => self.to_be_bytes(),
                };
                bytes[at..at + Self::LEN].copy_from_slice(&number);
            }
        }
    )+};
}

integers!(u16, u32, u64);

/// One for each protocol's number.
impl Field for [u32; 8] {
    const LEN: usize = 32;

    fn read(bytes: &[u8], at: usize, order: Order) -> Self {
        std::array::from_fn(|index| u32::read(bytes, at + 4 * index, order))
    }

    fn write(&self, bytes: &mut [u8], at: usize, order: Order) {
        for (index, word) in self.iter().enumerate() {
            word.write(bytes, at + 4 * index, order);
        }
    }
}

impl<const N: usize> Field for Text<N> {
    const LEN: usize = N;

    fn read(bytes: &[u8], at: usize, _: Order) -> Self {
        Self::of_field(part(bytes, at))
    }

    fn write(&self, bytes: &mut [u8], at: usize, _: Order) {
        bytes[at..at + N].copy_from_slice(self.raw_field());
    }
}

/// The `N` bytes at `at`, which lie inside.
pub(super) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// A record of fixed length whose fields stand at the given bytes, as the protocol's tables have
/// them; zeros are between. That they ascend, do not overlap and lie inside is checked on compiling.
macro_rules! record {
    (
        $(#[$about:meta])*
        pub struct $record:ident: $len:literal bytes {
            $($(#[$doc:meta])* [$at:literal] $field:ident: $kind:ty,)+
        }
    ) => {
        $(#[$about])*
        pub struct $record {
            $($(#[$doc])* pub $field: $kind,)+
        }

        impl $record {
            /// Length in bytes.
            pub const LEN: usize = $len;

            /// The names of the fields.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field),)+];

            fn read(bytes: &[u8; $len], order: $crate::wire::Order) -> Self {
                use $crate::wire::bytes::Field;
                Self { $($field: Field::read(bytes, $at, order),)+ }
            }

            fn write(&self, order: $crate::wire::Order) -> [u8; $len] {
                use $crate::wire::bytes::Field;
                let mut bytes = [0; $len];
                $(self.$field.write(&mut bytes, $at, order);)+
                bytes
            }
        }

        const _: () = {
            use $crate::wire::bytes::Field;
            let mut end = 0;
            $(
                assert!(end <= $at, "the fields overlap");
                end = $at + <$kind as Field>::LEN;
            )+
            assert!(end <= $len, "a field lies outside");
        };
    };
}

pub(super) use record;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_in_both_orders() {
        let mut bytes = [0; 16];
        0x0102_u16.write(&mut bytes, 0, Order::Big);
        0x0304_u16.write(&mut bytes, 2, Order::Little);
        0x0506_0708_u32.write(&mut bytes, 4, Order::Little);
        0x0102_0304_0506_0708_u64.write(&mut bytes, 8, Order::Big);
        assert_eq!(bytes, [1, 2, 4, 3, 8, 7, 6, 5, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(u32::read(&bytes, 4, Order::Little), 0x0506_0708);
        assert_eq!(u32::read(&bytes, 4, Order::Big), 0x0807_0605);
        assert_eq!(u64::read(&bytes, 8, Order::Big), 0x0102_0304_0506_0708);
    }

    #[test]
    fn the_probe_shows_the_order() {
        for (word, order) in [
            ([0xDC, 0xBA, 0, 0], Some(Order::Little)),
            ([0, 0, 0xBA, 0xDC], Some(Order::Big)),
            ([0xBA, 0xDC, 0, 0], None),
            ([0; 4], None),
        ] {
            assert_eq!(Order::of_probe(word), order, "{word:?}");
        }
    }

    #[test]
    fn texts_come_back() {
        let full = Text::<4>::read(b"fullness", 0, Order::Little);
        let mut bytes = [b'x'; 8];
        full.write(&mut bytes, 2, Order::Little);
        assert_eq!(&bytes, b"xxfullxx");
        let left = Text::<8>::read(b"ttl\0rtx\0", 0, Order::Little);
        assert_eq!(left, Text::cut("ttl"));
    }
}
