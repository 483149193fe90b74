//! The extension by which two linerates recognise each other: an addition to the blocks of requests and replies.
//!
//! It takes the place of interrupt counts, which UDPmon 1.5.2 neither fills nor reads:
//!
//! | bytes | |
//! |---|---|
//! | 88–95 | `linerate` |
//! | 96–97 | version of the addition, 1 |
//! | 98–99 | length in bytes, from its first to its last, 48 |
//! | 100–103 | features; none yet |
//! | 104–119 | nonce: zero in the first request, then what the responder's first reply had |
//! | 120–127 | number of the request, which its reply repeats |
//! | 128–131 | always 0 |
//! | 132–135 | CRC-32 (IEEE) over the command's code and the addition up to here |
//!
//! A stock responder echoes the request under another code, so the echo has a wrong checksum.

use super::Block;

/// A linerate's addition to a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    /// A random number chosen by the responder. A request that contains it comes from an address that receives replies.
    pub nonce: u128,
    /// The number of the request.
    pub request: u64,
}

const MAGIC: &[u8; 8] = b"linerate";
const START: usize = 88;
const HEAD: [u8; 8] = [1, 0, 48, 0, 0, 0, 0, 0];
const CHECKSUM_AT: usize = 132;

impl Capability {
    /// Reads the addition of a datagram, if there is one.
    pub fn find(datagram: &[u8]) -> Option<Self> {
        let bytes: &[u8; Block::LEN] = datagram.first_chunk()?;
        let is_ours =
            bytes[START..START + 8] == *MAGIC && bytes[START + 8..START + 12] == HEAD[..4];
        if !is_ours || codec::part(bytes, CHECKSUM_AT) != checksum(bytes) {
            return None;
        }
        Some(Self {
            nonce: u128::from_le_bytes(codec::part(bytes, 104)),
            request: u64::from_le_bytes(codec::part(bytes, 120)),
        })
    }

    /// Writes the addition into a block that is otherwise complete. The command is part of the checksum.
    pub fn put(&self, block: &mut [u8; Block::LEN]) {
        block[START..START + 8].copy_from_slice(MAGIC);
        block[START + 8..START + 16].copy_from_slice(&HEAD);
        block[104..120].copy_from_slice(&self.nonce.to_le_bytes());
        block[120..128].copy_from_slice(&self.request.to_le_bytes());
        block[128..CHECKSUM_AT].fill(0);
        let checksum = checksum(block);
        block[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum);
    }
}

fn checksum(block: &[u8; Block::LEN]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&block[..4]);
    crc.update(&block[START..CHECKSUM_AT]);
    crc.finalize().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Command;

    #[test]
    fn an_echo_under_another_code_has_none() {
        let ours = Capability {
            nonce: 0x0123_4567_89ab_cdef,
            request: 3,
        };
        let mut bytes = Block::request(Command::ZeroStats).encode();
        assert_eq!(Capability::find(&bytes), None);
        ours.put(&mut bytes);
        assert_eq!(Capability::find(&bytes), Some(ours));
        assert_eq!(Capability::find(&bytes[..207]), None);
        let mut echo = bytes;
        echo[0] = Command::Ok as u8;
        assert_eq!(Capability::find(&echo), None);
        for at in (0..4).chain(START..CHECKSUM_AT + 4) {
            bytes[at] ^= 1;
            assert_eq!(Capability::find(&bytes), None, "byte {at}");
            bytes[at] ^= 1;
        }
    }
}
