//! The capability block, by which two linerates recognise each other. It is in the zero tail of the
//! first test request and response. It is also in a preceding request for the host's description
//! ([`DO_SYSINFO`](super::DO_SYSINFO)) and its response.
//!
//! The block follows all bytes that netperf 2.7.0 defines in an omni or classic message; the
//! longest, an omni response, ends at byte 209. Stock programs ignore the bytes behind it. All
//! numbers are big-endian:
//!
//! | message bytes | |
//! |---|---|
//! | 216–223 | `linerate` |
//! | 224–225 | version of the block: 1 |
//! | 226–227 | length of the whole block in bytes: 36 |
//! | 228–231 | features |
//! | 232–247 | boot ID of the host's kernel; zero is unknown |
//! | 248–251 | CRC-32 (IEEE) of the message's type and the preceding bytes of the block |
//!
//! A longer block has more fields before the checksum, which is always last. If the client can
//! authenticate its data connection, the response has a block of 52 bytes:
//!
//! | message bytes | |
//! |---|---|
//! | 248–263 | the nonce that authenticates the client's data connection; zero is none |
//! | 264–267 | the checksum |
//!
//! An incompatible change needs another version, which this code ignores.
//!
//! Stock programs do not clear their message buffers. Bytes of an earlier message may remain, as they
//! were or with the bytes of each word swapped. A block may thus reappear in a later message of
//! another type. The checksum includes the type to detect this.

use server::Nonce;

use super::Frame;
use super::frame::array_at;

/// The capabilities that a linerate reports to its peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    /// Supported and requested extensions of netperf's protocol: the constants of this type.
    pub features: u32,
    /// The random number that the kernel chose at boot (`boot_id` in random(4)); zero is unknown.
    pub host: [u8; 16],
    /// The nonce that authenticates the client's data connection.
    pub nonce: Option<Nonce>,
}

impl Capability {
    /// Supported: the server answers [`DETAILS_REQUEST`](super::DETAILS_REQUEST).
    pub const DETAILS: u32 = 1;

    /// Supported: pacing by busy-waiting on the clock.
    pub const CAN_SPIN: u32 = 2;

    /// Requested for TCP: Multipath TCP, if the server supports it.
    ///
    /// Bits of requested features count down from the highest; bits of supported features count up
    /// from the lowest.
    pub const REQUESTS_MULTIPATH: u32 = 1 << 31;

    /// Requested for a test: time each call and include the times in the details.
    pub const REQUESTS_DURATIONS: u32 = 1 << 30;

    /// Requested for a test with CPU time, or for a calibration: measure with a looper.
    pub const REQUESTS_LOOPER: u32 = 1 << 29;

    /// Requested for a paced test: wait for intervals by busy-waiting on the clock.
    pub const REQUESTS_SPIN: u32 = 1 << 28;

    /// In a test request: the data connection begins with the nonce of the response.
    pub const SENDS_NONCE: u32 = 1 << 27;

    /// In a test request: a separate connection sends the nonce of the response before the data
    /// connection sends data. Both come from the same host.
    pub const SENDS_NONCE_SEPARATELY: u32 = 1 << 26;

    /// Requested for one-way datagrams: transfer them in batches with sendmmsg(2) or recvmmsg(2).
    pub const REQUESTS_MMSG: u32 = 1 << 25;

    /// Returns the capabilities of this program, without requests.
    pub fn of_this_process() -> Self {
        Self {
            features: Self::DETAILS | Self::CAN_SPIN,
            host: sys::facts::boot_id().unwrap_or_default(),
            nonce: None,
        }
    }

    /// Returns the valid block in a message, if it has one.
    pub fn find(frame: &Frame) -> Option<Self> {
        let block = &frame[START..];
        if !block.starts_with(MAGIC) || array_at(frame, VERSION_AT) != VERSION.to_be_bytes() {
            return None;
        }
        let len = usize::from(u16::from_be_bytes(array_at(frame, LENGTH_AT)));
        if !(MIN_LEN..=block.len()).contains(&len) {
            return None;
        }
        let checksum_at = START + len - CHECKSUM_LEN;
        if array_at(frame, checksum_at) != compute_checksum(frame, checksum_at) {
            return None;
        }
        Some(Self {
            features: u32::from_be_bytes(array_at(frame, FEATURES_AT)),
            host: array_at(frame, HOST_AT),
            nonce: (len >= MIN_LEN + NONCE_LEN)
                .then(|| array_at(frame, NONCE_AT))
                .filter(|nonce| *nonce != [0; NONCE_LEN]),
        })
    }

    /// Writes the block into an otherwise complete message, whose type is part of the checksum.
    pub fn write_into(&self, frame: &mut Frame) {
        let mut write =
            |at: usize, value: &[u8]| frame[at..at + value.len()].copy_from_slice(value);
        let nonce: &[u8] = self.nonce.as_ref().map_or(&[], |nonce| nonce);
        let len = MIN_LEN + nonce.len();
        write(START, MAGIC);
        write(VERSION_AT, &VERSION.to_be_bytes());
        write(LENGTH_AT, &(len as u16).to_be_bytes());
        write(FEATURES_AT, &self.features.to_be_bytes());
        write(HOST_AT, &self.host);
        write(NONCE_AT, nonce);
        let checksum_at = START + len - CHECKSUM_LEN;
        let checksum = compute_checksum(frame, checksum_at);
        frame[checksum_at..][..CHECKSUM_LEN].copy_from_slice(&checksum);
    }

    /// Whether all of `features` are set.
    pub fn has_all(&self, features: u32) -> bool {
        self.features & features == features
    }

    /// Whether both peers run under the same kernel. False if a boot ID is unknown.
    pub fn shares_host_with(&self, other: &Self) -> bool {
        self.host != [0; 16] && self.host == other.host
    }
}

/// Computes the checksum of the message's type and the block up to byte `end` of the message.
fn compute_checksum(frame: &Frame, end: usize) -> [u8; CHECKSUM_LEN] {
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
/// The offset of the nonce; in a block without a nonce, that of the checksum.
const NONCE_AT: usize = HOST_AT + 16;
const NONCE_LEN: usize = 16;
const CHECKSUM_LEN: usize = 4;
/// The length of a block without a nonce, in bytes.
const MIN_LEN: usize = NONCE_AT + CHECKSUM_LEN - START;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        Classic, MESSAGE_BYTES, OMNI, ReceivedRequest, Request, SysInfo, TestRequest, TestResponse,
    };

    const SAMPLE: Capability = Capability {
        features: Capability::DETAILS,
        host: *b"0123456789abcdef",
        nonce: None,
    };

    const SAMPLE_WITH_NONCE: Capability = Capability {
        nonce: Some(*b"sixteen bytes of"),
        ..SAMPLE
    };

    #[test]
    fn blocks_are_found_and_leave_messages_intact() {
        let omni = Request::Omni(TestRequest::default());
        let stream = Request::Classic(Classic::TcpStream, TestRequest::classic());
        for request in [omni, stream] {
            let mut frame = request.encode(None);
            assert_eq!(Capability::find(&frame), None);
            SAMPLE.write_into(&mut frame);
            assert_eq!(Capability::find(&frame), Some(SAMPLE));
            assert_eq!(
                Request::decode(&frame),
                ReceivedRequest { cpu: None, request }
            );
        }
        let info = SysInfo {
            version: "v".repeat(1000),
            ..SysInfo::default()
        };
        let mut frame = info.encode();
        let info_before = SysInfo::decode(&frame);
        SAMPLE.write_into(&mut frame);
        assert_eq!(SysInfo::decode(&frame), info_before);
        assert_eq!(Capability::find(&frame), Some(SAMPLE));
        for capability in [SAMPLE, SAMPLE_WITH_NONCE] {
            for test in [Classic::TcpStream.messages(), &OMNI] {
                let mut frame = test.encode_response(&TestResponse::default());
                capability.write_into(&mut frame);
                assert_eq!(test.parse_response(&frame), Ok(TestResponse::default()));
                assert_eq!(Capability::find(&frame), Some(capability));
            }
        }
    }

    #[test]
    fn every_flipped_bit_invalidates_the_block() {
        let mut frame = [0; MESSAGE_BYTES];
        SAMPLE.write_into(&mut frame);
        for byte in (0..4).chain(START..START + MIN_LEN) {
            for bit in 0..8 {
                frame[byte] ^= 1 << bit;
                assert_eq!(Capability::find(&frame), None, "byte {byte}, bit {bit}");
                frame[byte] ^= 1 << bit;
            }
        }
        assert_eq!(Capability::find(&frame), Some(SAMPLE));
    }

    #[test]
    fn longer_blocks_are_accepted() {
        let with_nonce = Capability {
            nonce: Some([7; NONCE_LEN]),
            ..SAMPLE
        };
        for (len, expected) in [
            (MIN_LEN - 1, None),
            (MIN_LEN, Some(SAMPLE)),
            (MIN_LEN + 8, Some(SAMPLE)),
            (MIN_LEN + NONCE_LEN, Some(with_nonce)),
            (MESSAGE_BYTES - START, Some(with_nonce)),
        ] {
            let mut frame = [0; MESSAGE_BYTES];
            SAMPLE.write_into(&mut frame);
            frame[LENGTH_AT..][..2].copy_from_slice(&(len as u16).to_be_bytes());
            frame[NONCE_AT..START + len.max(MIN_LEN)].fill(7);
            let end = START + len - CHECKSUM_LEN;
            let checksum = compute_checksum(&frame, end);
            frame[end..][..CHECKSUM_LEN].copy_from_slice(&checksum);
            assert_eq!(Capability::find(&frame), expected, "{len} bytes");
        }

        let mut frame = [0; MESSAGE_BYTES];
        SAMPLE.write_into(&mut frame);
        frame[LENGTH_AT..][..2].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(Capability::find(&frame), None);
    }

    #[test]
    fn encoding_has_known_bytes() {
        let mut frame = [0; MESSAGE_BYTES];
        frame[3] = 97;
        SAMPLE.write_into(&mut frame);
        let block = b"linerate\0\x01\0\x24\0\0\0\x010123456789abcdef";
        assert_eq!(frame[START..NONCE_AT], block[..]);
        // Computed with Python's zlib.crc32.
        assert_eq!(frame[NONCE_AT..][..4], 0x2528_272c_u32.to_be_bytes());

        frame[3] = 98;
        SAMPLE_WITH_NONCE.write_into(&mut frame);
        let block = b"linerate\0\x01\0\x34\0\0\0\x010123456789abcdefsixteen bytes of";
        assert_eq!(frame[START..NONCE_AT + NONCE_LEN], block[..]);
        assert_eq!(
            frame[NONCE_AT + NONCE_LEN..][..4],
            0xa7b3_61e2_u32.to_be_bytes()
        );
    }

    #[test]
    fn shared_hosts_are_recognised() {
        let other = Capability {
            host: [1; 16],
            ..SAMPLE
        };
        assert!(SAMPLE.shares_host_with(&SAMPLE));
        assert!(!SAMPLE.shares_host_with(&other));
        let unknown = Capability::default();
        assert!(!unknown.shares_host_with(&unknown));
        assert!(SAMPLE.has_all(Capability::DETAILS) && !unknown.has_all(Capability::DETAILS));
    }
}
