//! Fixed-length values and records of them.

use crate::Text;

/// The byte order of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// The least significant byte first.
    Little,
    /// The most significant byte first: network byte order.
    Big,
}

impl Endian {
    /// The byte order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };
}

/// A value of fixed length that a record can contain.
pub trait Field: Sized {
    /// Length in bytes.
    const LEN: usize;

    /// Reads the value that begins at byte `at`. Panics if it ends outside of `bytes`;
    /// [`record!`](crate::record) checks at compile time that its fields lie in the record.
    fn read(bytes: &[u8], at: usize, order: Endian) -> Self;

    /// Writes the value at byte `at`. Panics as [`Field::read`] does.
    fn write(&self, bytes: &mut [u8], at: usize, order: Endian);
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl Field for $number {
            const LEN: usize = size_of::<$number>();

            fn read(bytes: &[u8], at: usize, order: Endian) -> Self {
                let bytes = array_at(bytes, at);
                match order {
                    Endian::Little => Self::from_le_bytes(bytes),
                    Endian::Big => Self::from_be_bytes(bytes),
                }
            }

            fn write(&self, bytes: &mut [u8], at: usize, order: Endian) {
                let number = match order {
                    Endian::Little => self.to_le_bytes(),
                    Endian::Big => self.to_be_bytes(),
                };
                bytes[at..at + Self::LEN].copy_from_slice(&number);
            }
        }
    )+};
}

numbers!(u8, u16, i32, u32, i64, u64, f32, f64);

/// A 32-bit word: 0 is false, any other value is true.
impl Field for bool {
    const LEN: usize = 4;

    fn read(bytes: &[u8], at: usize, order: Endian) -> Self {
        i32::read(bytes, at, order) != 0
    }

    fn write(&self, bytes: &mut [u8], at: usize, order: Endian) {
        i32::from(*self).write(bytes, at, order);
    }
}

/// The elements follow each other without padding.
impl<F: Field, const N: usize> Field for [F; N] {
    const LEN: usize = N * F::LEN;

    fn read(bytes: &[u8], at: usize, order: Endian) -> Self {
        std::array::from_fn(|index| F::read(bytes, at + index * F::LEN, order))
    }

    fn write(&self, bytes: &mut [u8], at: usize, order: Endian) {
        for (index, field) in self.iter().enumerate() {
            field.write(bytes, at + index * F::LEN, order);
        }
    }
}

impl<const N: usize> Field for Text<N> {
    const LEN: usize = N;

    fn read(bytes: &[u8], at: usize, _: Endian) -> Self {
        Self::from_field(array_at(bytes, at))
    }

    fn write(&self, bytes: &mut [u8], at: usize, _: Endian) {
        bytes[at..at + N].copy_from_slice(self.raw_field());
    }
}

/// Returns the `N` bytes at `offset`. Panics if they end outside of `bytes`.
pub fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}

/// A record of fixed length, declared with [`record!`](crate::record).
pub trait Record: Sized {
    /// Length in bytes.
    const LEN: usize;

    /// Reads the fields from [`Self::LEN`] bytes.
    fn from_bytes(bytes: &[u8], order: Endian) -> Self;

    /// Writes the fields into [`Self::LEN`] bytes. The bytes between them stay unchanged.
    fn write_to(&self, bytes: &mut [u8], order: Endian);

    /// Returns the encoded record, with zeros between the fields. `N` must be [`Self::LEN`].
    fn to_bytes<const N: usize>(&self, order: Endian) -> [u8; N] {
        const { assert!(N == Self::LEN) };
        let mut bytes = [0; N];
        self.write_to(&mut bytes, order);
        bytes
    }
}

/// Declares a record of fixed length with fields at the given byte offsets. The offsets count
/// from byte `from` of the record, as in a protocol's tables. Fields must ascend, must not
/// overlap and must lie inside of the record; this is checked at compile time.
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
/// use codec::{Endian, Record};
/// let bytes: [u8; 12] = Pair { first: 1, second: 2 }.to_bytes(Endian::Big);
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

            fn from_bytes(bytes: &[u8], order: $crate::Endian) -> Self {
                Self { $($field: $crate::Field::read(bytes, $from + $at, order),)+ }
            }

            fn write_to(&self, bytes: &mut [u8], order: $crate::Endian) {
                $($crate::Field::write(&self.$field, bytes, $from + $at, order);)+
            }
        }

        const _: () = {
            let mut end = 0;
            $(
                assert!(end <= $at, "the fields overlap");
                end = $at + <$kind as $crate::Field>::LEN;
            )+
            assert!($from + end <= $len, "a field lies outside of the record");
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_in_both_byte_orders() {
        let mut bytes = [0; 16];
        0x0102_u16.write(&mut bytes, 0, Endian::Big);
        0x0304_u16.write(&mut bytes, 2, Endian::Little);
        0x0506_0708_u32.write(&mut bytes, 4, Endian::Little);
        0x0102_0304_0506_0708_u64.write(&mut bytes, 8, Endian::Big);
        assert_eq!(bytes, [1, 2, 4, 3, 8, 7, 6, 5, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(u32::read(&bytes, 4, Endian::Little), 0x0506_0708);
        assert_eq!(u32::read(&bytes, 4, Endian::Big), 0x0807_0605);
        assert_eq!(u64::read(&bytes, 8, Endian::Big), 0x0102_0304_0506_0708);
        (-2_i32).write(&mut bytes, 0, Endian::Big);
        1.5_f32.write(&mut bytes, 4, Endian::Big);
        (-2.0_f64).write(&mut bytes, 8, Endian::Big);
        let expected = [
            0xff, 0xff, 0xff, 0xfe, 0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes, expected);
        assert_eq!(i32::read(&bytes, 0, Endian::Big), -2);
        assert!(bool::read(&bytes, 0, Endian::Big) && !bool::read(&bytes, 12, Endian::Big));
    }

    #[test]
    fn arrays_and_texts_round_trip() {
        let mut bytes = [b'x'; 8];
        [1_u16, 2].write(&mut bytes, 2, Endian::Big);
        assert_eq!(&bytes, b"xx\0\x01\0\x02xx");
        assert_eq!(<[u16; 2]>::read(&bytes, 2, Endian::Big), [1, 2]);
        let full = Text::<4>::read(b"fullness", 0, Endian::Little);
        full.write(&mut bytes, 2, Endian::Little);
        assert_eq!(&bytes, b"xxfullxx");
        // Bytes after the NUL are left over from an earlier text.
        let with_leftover = Text::<8>::read(b"ttl\0rtx\0", 0, Endian::Little);
        assert_eq!(with_leftover, Text::truncated("ttl"));
    }
}
