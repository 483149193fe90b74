//! Values at their places in a record.

use crate::Text;

/// The order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The least significant byte first.
    Little,
    /// The most significant byte first: network byte order.
    Big,
}

impl Order {
    /// This machine's.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };
}

/// A value with a place in a record.
pub trait Field: Sized {
    /// Length in bytes.
    const LEN: usize;

    /// The value that begins at byte `at`. Panics if it ends outside of `bytes`; a [`record!`](crate::record) checks
    /// that on compiling.
    fn read(bytes: &[u8], at: usize, order: Order) -> Self;

    /// Puts the value where [`Field::read`] finds it.
    fn write(&self, bytes: &mut [u8], at: usize, order: Order);
}

macro_rules! numbers {
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

numbers!(u8, u16, i32, u32, i64, u64, f32, f64);

/// A word that is 0 or not.
impl Field for bool {
    const LEN: usize = 4;

    fn read(bytes: &[u8], at: usize, order: Order) -> Self {
        i32::read(bytes, at, order) != 0
    }

    fn write(&self, bytes: &mut [u8], at: usize, order: Order) {
        i32::from(*self).write(bytes, at, order);
    }
}

/// One after the other.
impl<F: Field, const N: usize> Field for [F; N] {
    const LEN: usize = N * F::LEN;

    fn read(bytes: &[u8], at: usize, order: Order) -> Self {
        std::array::from_fn(|index| F::read(bytes, at + index * F::LEN, order))
    }

    fn write(&self, bytes: &mut [u8], at: usize, order: Order) {
        for (index, field) in self.iter().enumerate() {
            field.write(bytes, at + index * F::LEN, order);
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
pub fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// Fields at fixed places, which [`record!`](crate::record) declares.
pub trait Record: Sized {
    /// Length in bytes.
    const LEN: usize;

    /// The fields of [`Self::LEN`] bytes.
    fn of_bytes(bytes: &[u8], order: Order) -> Self;

    /// Puts the fields where [`Self::of_bytes`] finds them.
    fn put(&self, bytes: &mut [u8], order: Order);

    /// The record, with zeros between the fields. `N` is [`Self::LEN`].
    fn to_bytes<const N: usize>(&self, order: Order) -> [u8; N] {
        const { assert!(N == Self::LEN) };
        let mut bytes = [0; N];
        self.put(&mut bytes, order);
        bytes
    }
}

/// Declares a record of fixed length whose fields stand at the given bytes, counted `from` a byte of it, as a protocol's
/// tables have them. That they ascend, do not overlap and lie inside is checked on compiling.
///
/// ```
/// codec::record! {
///     /// Two numbers.
///     pub struct Pair: 12 bytes from 4 {
///         /// The first.
///         [0] first: u32,
///         /// The second.
///         [6] second: u16,
///     }
/// }
/// use codec::{Order, Record};
/// let bytes: [u8; 12] = Pair { first: 1, second: 2 }.to_bytes(Order::Big);
/// assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
/// assert_eq!(Pair::FIELDS, ["first", "second"]);
/// ```
#[macro_export]
macro_rules! record {
    ($(#[$about:meta])* pub struct $record:ident: $len:literal bytes { $($fields:tt)+ }) => {
        $crate::record! {
            $(#[$about])*
            pub struct $record: $len bytes from 0 { $($fields)+ }
        }
    };
    (
        $(#[$about:meta])*
        pub struct $record:ident: $len:literal bytes from $from:literal {
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
        }

        impl $crate::Record for $record {
            const LEN: usize = $len;

            fn of_bytes(bytes: &[u8], order: $crate::Order) -> Self {
                Self { $($field: $crate::Field::read(bytes, $from + $at, order),)+ }
            }

            fn put(&self, bytes: &mut [u8], order: $crate::Order) {
                $($crate::Field::write(&self.$field, bytes, $from + $at, order);)+
            }
        }

        const _: () = {
            let mut end = 0;
            $(
                assert!(end <= $at, "the fields overlap");
                end = $at + <$kind as $crate::Field>::LEN;
            )+
            assert!($from + end <= $len, "a field lies outside");
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_both_orders() {
        let mut bytes = [0; 16];
        0x0102_u16.write(&mut bytes, 0, Order::Big);
        0x0304_u16.write(&mut bytes, 2, Order::Little);
        0x0506_0708_u32.write(&mut bytes, 4, Order::Little);
        0x0102_0304_0506_0708_u64.write(&mut bytes, 8, Order::Big);
        assert_eq!(bytes, [1, 2, 4, 3, 8, 7, 6, 5, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(u32::read(&bytes, 4, Order::Little), 0x0506_0708);
        assert_eq!(u32::read(&bytes, 4, Order::Big), 0x0807_0605);
        assert_eq!(u64::read(&bytes, 8, Order::Big), 0x0102_0304_0506_0708);
        (-2_i32).write(&mut bytes, 0, Order::Big);
        1.5_f32.write(&mut bytes, 4, Order::Big);
        (-2.0_f64).write(&mut bytes, 8, Order::Big);
        let sent = [
            0xff, 0xff, 0xff, 0xfe, 0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes, sent);
        assert_eq!(i32::read(&bytes, 0, Order::Big), -2);
        assert!(bool::read(&bytes, 0, Order::Big) && !bool::read(&bytes, 12, Order::Big));
    }

    #[test]
    fn lists_and_texts_come_back() {
        let mut bytes = [b'x'; 8];
        [1_u16, 2].write(&mut bytes, 2, Order::Big);
        assert_eq!(&bytes, b"xx\0\x01\0\x02xx");
        assert_eq!(<[u16; 2]>::read(&bytes, 2, Order::Big), [1, 2]);
        let full = Text::<4>::read(b"fullness", 0, Order::Little);
        full.write(&mut bytes, 2, Order::Little);
        assert_eq!(&bytes, b"xxfullxx");
        // What stands behind a NUL is left over from an earlier text.
        let left = Text::<8>::read(b"ttl\0rtx\0", 0, Order::Little);
        assert_eq!(left, Text::cut("ttl"));
    }
}
