//! The extension of message blocks with which two linerates recognise each other.
//!
//! It replaces the interrupt counts, which UDPmon 1.5.2 neither writes nor reads:
//!
//! | bytes | |
//! |---|---|
//! | 88–95 | `linerate` |
//! | 96–97 | version of the extension: 1 |
//! | 98–99 | length of the extension in bytes: 48 |
//! | 100–103 | features: 0, none defined |
//! | 104–119 | nonce: 0 in the first request, then the nonce of the responder's first reply |
//! | 120–127 | number of the request; the reply repeats it |
//! | 128–131 | always 0 |
//! | 132–135 | CRC-32 (IEEE) of the command's code and of bytes 88–131 |
//!
//! A stock responder returns the request with another command code. The checksum of its reply is
//! therefore wrong.

use super::MessageBlock;

/// The extension of a message block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinerateExtension {
    /// A random number from the responder. A request that contains it comes from an address that
    /// receives the replies.
    pub nonce: u128,
    /// The number of the request.
    pub request: u64,
}

const MAGIC: &[u8; 8] = b"linerate";
const OFFSET: usize = 88;
const HEADER: [u8; 8] = [1, 0, 48, 0, 0, 0, 0, 0];
const CHECKSUM_OFFSET: usize = 132;

impl LinerateExtension {
    /// Reads the extension of a datagram; `None` if it has no valid one.
    pub fn find(datagram: &[u8]) -> Option<Self> {
        let bytes: &[u8; MessageBlock::LEN] = datagram.first_chunk()?;
        let is_linerate =
            bytes[OFFSET..OFFSET + 8] == *MAGIC && bytes[OFFSET + 8..OFFSET + 12] == HEADER[..4];
        if !is_linerate || codec::array_at(bytes, CHECKSUM_OFFSET) != checksum(bytes) {
            return None;
        }
        Some(Self {
            nonce: u128::from_le_bytes(codec::array_at(bytes, 104)),
            request: u64::from_le_bytes(codec::array_at(bytes, 120)),
        })
    }

    /// Writes the extension into a complete block. The command must not change afterwards, because
    /// the checksum includes it.
    pub fn write_into(&self, block: &mut [u8; MessageBlock::LEN]) {
        block[OFFSET..OFFSET + 8].copy_from_slice(MAGIC);
        block[OFFSET + 8..OFFSET + 16].copy_from_slice(&HEADER);
        block[104..120].copy_from_slice(&self.nonce.to_le_bytes());
        block[120..128].copy_from_slice(&self.request.to_le_bytes());
        block[128..CHECKSUM_OFFSET].fill(0);
        let checksum = checksum(block);
        block[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 4].copy_from_slice(&checksum);
    }
}

fn checksum(block: &[u8; MessageBlock::LEN]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&block[..4]);
    crc.update(&block[OFFSET..CHECKSUM_OFFSET]);
    crc.finalize().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Command;

    #[test]
    fn an_echo_with_another_command_has_no_extension() {
        let extension = LinerateExtension {
            nonce: 0x0123_4567_89ab_cdef,
            request: 3,
        };
        let mut bytes = MessageBlock::with_command(Command::ZeroStats).encode();
        assert_eq!(LinerateExtension::find(&bytes), None);
        extension.write_into(&mut bytes);
        assert_eq!(LinerateExtension::find(&bytes), Some(extension));
        assert_eq!(LinerateExtension::find(&bytes[..207]), None);
        let mut echo = bytes;
        echo[0] = Command::Ok as u8;
        assert_eq!(LinerateExtension::find(&echo), None);
        for index in (0..4).chain(OFFSET..CHECKSUM_OFFSET + 4) {
            bytes[index] ^= 1;
            assert_eq!(LinerateExtension::find(&bytes), None, "byte {index}");
            bytes[index] ^= 1;
        }
    }
}
