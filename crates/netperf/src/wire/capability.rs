//! How two linerates know each other: a block in the zero tail of the first request and response, or of
//! the question for a description of the host and its answer, which may come before them.
//!
//! It lies behind all that netperf 2.7.0 defines in an omni or classic request or response (the
//! longest, an omni response, ends at byte 209), where stock programs look at nothing. All numbers
//! are big-endian:
//!
//! | message bytes | |
//! |---|---|
//! | 216–223 | `linerate` |
//! | 224–225 | version of the block, 1 |
//! | 226–227 | length of the block in bytes, from its first to its last, 36 |
//! | 228–231 | features |
//! | 232–247 | identity of the running host |
//! | 248–251 | CRC-32 (IEEE) over the message's type and the block up to here |
//!
//! A longer block has more before the checksum, which is always last. A response to a client that can prove its data
//! connection has a block of 52 bytes:
//!
//! | message bytes | |
//! |---|---|
//! | 248–263 | the nonce with which the client proves its data connection; zero is none |
//! | 264–267 | the checksum |
//!
//! A change that is no addition takes another version, which this code does not find.
//!
//! Stock programs leave old bytes in their buffers, rightly ordered or reversed, so a block might
//! come back in a later message of another type: hence the checksum, and the type in it.

use server::Nonce;

use super::Frame;
use super::frame::part;

/// What a linerate says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    /// What it can do beyond netperf's protocol, and what it asks for: the constants below.
    pub features: u32,
    /// A random number that the kernel chose when it booted (random(4), `boot_id`); zero is
    /// unknown.
    pub host: [u8; 16],
    /// The nonce with which the client proves its data connection.
    pub nonce: Option<Nonce>,
}

impl Capability {
    /// Answers [`DETAILS_REQUEST`](super::DETAILS_REQUEST).
    pub const DETAILS: u32 = 1;

    /// Lets intervals pass by looking at the clock, when it is asked to.
    pub const SPINS: u32 = 2;

    /// In a request for TCP: by Multipath TCP, if the server has it. What a peer asks counts down from
    /// the highest bit, what it can do up from the lowest.
    pub const ASKS_MULTIPATH: u32 = 1 << 31;

    /// Of one who asks for a test: its calls are to be timed, and the times are to be in the details.
    pub const ASKS_TIMES: u32 = 1 << 30;

    /// In a request for a test with CPU time, or for a calibration: by a looper.
    pub const ASKS_LOOPER: u32 = 1 << 29;

    /// In a request for a test at a pace: intervals are to be let pass by looking at the clock.
    pub const ASKS_SPIN: u32 = 1 << 28;

    /// In a request for a test: the data connection will begin with the nonce of the response.
    pub const PROVES: u32 = 1 << 27;

    /// In a request for a test: a separate connection will bring the nonce of the response before the data, which
    /// comes from the same host.
    pub const PROVES_APART: u32 = 1 << 26;

    /// In a request for one-way datagrams: they are to be moved in batches, sendmmsg(2) or recvmmsg(2).
    pub const ASKS_MMSG: u32 = 1 << 25;

    /// What this program says of itself.
    pub fn own() -> Self {
        Self {
            features: Self::DETAILS | Self::SPINS,
            host: sys::facts::boot_id().unwrap_or_default(),
            nonce: None,
        }
    }

    /// The block in a message, if there is one.
    pub fn find(frame: &Frame) -> Option<Self> {
        let block = &frame[START..];
        if !block.starts_with(MAGIC) || part(frame, VERSION_AT) != VERSION.to_be_bytes() {
            return None;
        }
        let len = usize::from(u16::from_be_bytes(part(frame, LENGTH_AT)));
        if !(LEN..=block.len()).contains(&len) {
            return None;
        }
        let checksum_at = START + len - CHECKSUM_LEN;
        if part(frame, checksum_at) != checksum(frame, checksum_at) {
            return None;
        }
        Some(Self {
            features: u32::from_be_bytes(part(frame, FEATURES_AT)),
            host: part(frame, HOST_AT),
            nonce: (len >= LEN + NONCE_LEN)
                .then(|| part(frame, NONCE_AT))
                .filter(|nonce| *nonce != [0; NONCE_LEN]),
        })
    }

    /// Puts the block into a message that is otherwise complete: its type is part of the checksum.
    pub fn put(&self, frame: &mut Frame) {
        let mut put = |at: usize, value: &[u8]| frame[at..at + value.len()].copy_from_slice(value);
        let nonce: &[u8] = self.nonce.as_ref().map_or(&[], |nonce| nonce);
        let len = LEN + nonce.len();
        put(START, MAGIC);
        put(VERSION_AT, &VERSION.to_be_bytes());
        put(LENGTH_AT, &(len as u16).to_be_bytes());
        put(FEATURES_AT, &self.features.to_be_bytes());
        put(HOST_AT, &self.host);
        put(NONCE_AT, nonce);
        let checksum_at = START + len - CHECKSUM_LEN;
        let checksum = checksum(frame, checksum_at);
        frame[checksum_at..][..CHECKSUM_LEN].copy_from_slice(&checksum);
    }

    /// Whether all of these features are there.
    pub fn has(&self, features: u32) -> bool {
        self.features & features == features
    }

    /// Whether both run under the same kernel; not if one of them does not know its own.
    pub fn shares_host_with(&self, other: &Self) -> bool {
        self.host != [0; 16] && self.host == other.host
    }
}

/// Over the type and over the block up to `end`.
fn checksum(frame: &Frame, end: usize) -> [u8; CHECKSUM_LEN] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&frame[..4]);
    crc.update(&frame[START..end]);
    crc.finalize().to_be_bytes()
}

const MAGIC: &[u8] = b"linerate";
const VERSION: u16 = 1;

const START: usize = 216;
const VERSION_AT: usize = START + MAGIC.len();
const LENGTH_AT: usize = VERSION_AT + 2;
const FEATURES_AT: usize = LENGTH_AT + 2;
const HOST_AT: usize = FEATURES_AT + 4;
/// In a block with a nonce; in one without, the checksum stands there.
const NONCE_AT: usize = HOST_AT + 16;
const NONCE_LEN: usize = 16;
const CHECKSUM_LEN: usize = 4;
/// Without a nonce.
const LEN: usize = NONCE_AT + CHECKSUM_LEN - START;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        Classic, MESSAGE_LEN, OMNI, Received, Request, SysInfo, TestRequest, TestResponse,
    };

    const US: Capability = Capability {
        features: Capability::DETAILS,
        host: *b"0123456789abcdef",
        nonce: None,
    };

    const WITH_NONCE: Capability = Capability {
        nonce: Some(*b"sixteen bytes of"),
        ..US
    };

    #[test]
    fn found_where_it_was_put_and_out_of_the_way() {
        let omni = Request::Omni(TestRequest::default());
        let stream = Request::Classic(Classic::TcpStream, TestRequest::classic());
        for request in [omni, stream] {
            let mut frame = request.encode(None);
            assert_eq!(Capability::find(&frame), None);
            US.put(&mut frame);
            assert_eq!(Capability::find(&frame), Some(US));
            assert_eq!(Request::decode(&frame), Received { cpu: None, request });
        }
        let info = SysInfo {
            version: "v".repeat(1000),
            ..SysInfo::default()
        };
        let mut frame = info.encode();
        let told = SysInfo::decode(&frame);
        US.put(&mut frame);
        assert_eq!(SysInfo::decode(&frame), told);
        assert_eq!(Capability::find(&frame), Some(US));
        for us in [US, WITH_NONCE] {
            for test in [Classic::TcpStream.messages(), &OMNI] {
                let mut frame = test.encode_response(&TestResponse::default());
                us.put(&mut frame);
                assert_eq!(test.response(&frame), Ok(TestResponse::default()));
                assert_eq!(Capability::find(&frame), Some(us));
            }
        }
    }

    #[test]
    fn every_flipped_bit_counts() {
        let mut frame = [0; MESSAGE_LEN];
        US.put(&mut frame);
        for byte in (0..4).chain(START..START + LEN) {
            for bit in 0..8 {
                frame[byte] ^= 1 << bit;
                assert_eq!(Capability::find(&frame), None, "byte {byte}, bit {bit}");
                frame[byte] ^= 1 << bit;
            }
        }
        assert_eq!(Capability::find(&frame), Some(US));
    }

    #[test]
    fn a_later_block_is_longer() {
        let sevens = Capability {
            nonce: Some([7; NONCE_LEN]),
            ..US
        };
        for (len, found) in [
            (LEN - 1, None),
            (LEN, Some(US)),
            (LEN + 8, Some(US)),
            (LEN + NONCE_LEN, Some(sevens)),
            (MESSAGE_LEN - START, Some(sevens)),
        ] {
            let mut frame = [0; MESSAGE_LEN];
            US.put(&mut frame);
            frame[LENGTH_AT..][..2].copy_from_slice(&(len as u16).to_be_bytes());
            frame[NONCE_AT..START + len.max(LEN)].fill(7);
            let end = START + len - CHECKSUM_LEN;
            let checksum = checksum(&frame, end);
            frame[end..][..CHECKSUM_LEN].copy_from_slice(&checksum);
            assert_eq!(Capability::find(&frame), found, "{len} bytes");
        }

        let mut frame = [0; MESSAGE_LEN];
        US.put(&mut frame);
        frame[LENGTH_AT..][..2].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(Capability::find(&frame), None);
    }

    #[test]
    fn known_bytes() {
        let mut frame = [0; MESSAGE_LEN];
        frame[3] = 97;
        US.put(&mut frame);
        let block = b"linerate\0\x01\0\x24\0\0\0\x010123456789abcdef";
        assert_eq!(frame[START..NONCE_AT], block[..]);
        // Computed with Python's zlib.crc32.
        assert_eq!(frame[NONCE_AT..][..4], 0x2528_272c_u32.to_be_bytes());

        frame[3] = 98;
        WITH_NONCE.put(&mut frame);
        let block = b"linerate\0\x01\0\x34\0\0\0\x010123456789abcdefsixteen bytes of";
        assert_eq!(frame[START..NONCE_AT + NONCE_LEN], block[..]);
        assert_eq!(
            frame[NONCE_AT + NONCE_LEN..][..4],
            0xa7b3_61e2_u32.to_be_bytes()
        );
    }

    #[test]
    fn hosts() {
        let other = Capability {
            host: [1; 16],
            ..US
        };
        assert!(US.shares_host_with(&US));
        assert!(!US.shares_host_with(&other));
        let unknown = Capability::default();
        assert!(!unknown.shares_host_with(&unknown));
        assert!(US.has(Capability::DETAILS) && !unknown.has(Capability::DETAILS));
    }
}
