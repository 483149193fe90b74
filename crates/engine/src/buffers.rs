//! What one end sends from and receives into: a ring of buffers per direction, used round robin, one per call, so
//! that the data being sent is not the data sent just before (netperf manual, "-W").

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::time::Duration;

use model::{BufferPlan, BuffersUsed, Half, SizeRule, SocketFacts, Transport, WidthRule, Workload};
use sys::buffer::BufferRing;

use crate::budget::{Exceeded, Share};
use crate::io::SendFile;
use crate::memory::Memory;

/// The size that is used when the kernel does not tell a buffer's.
const UNKNOWN_BUFFER: u32 = 4_096;

/// What moves slower, 1 Mbit/s, need not be waited for in one call that sends much.
const SLOWEST_BYTES_PER_SECOND: u64 = 125_000;

/// The buffers of both directions.
#[derive(Debug, Default)]
pub struct Buffers {
    /// What the plan's rules came to.
    pub used: BuffersUsed,
    pub(crate) send: Option<BufferRing>,
    pub(crate) send_file: Option<SendFile>,
    pub(crate) receive: Option<BufferRing>,
    /// What a stream's received data is written to.
    pub save: Option<File>,
    /// Their shares of the memory that is allowed.
    shares: Vec<Share>,
}

/// A ring that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// More memory than there is.
    #[error("{width} buffers of {size} bytes are more than there is memory")]
    TooLarge {
        /// Bytes of one buffer.
        size: u32,
        /// Buffers.
        width: u32,
    },
    /// More memory than is allowed.
    #[error("memory of buffers, bytes: {0}")]
    Exceeded(#[from] Exceeded),
    /// An alignment that is not a power of two, or a size of 0.
    #[error("buffers of {size} bytes at multiples of {alignment}: not 0, and a power of two")]
    Senseless {
        /// Bytes of one buffer.
        size: u32,
        /// What their addresses are to be a multiple of.
        alignment: u32,
    },
    /// The fill file cannot be used.
    #[error("could not use fill file {}: {}", path.display(), sys::describe(error))]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
}

impl Buffers {
    /// Makes what the workload needs of what the half plans, for a socket with these facts.
    /// Send buffers are filled from `fill`, the open file that the half names, or else with `pattern`, repeated.
    pub fn new(
        half: &Half,
        workload: &Workload,
        transport: Transport,
        facts: &SocketFacts,
        mut fill: Option<File>,
        pattern: &[u8],
        memory: &Memory,
    ) -> Result<Self, RingError> {
        let of_file = |error| RingError::File {
            path: half.fill.clone().unwrap_or_else(|| "(temporary)".into()),
            error,
        };
        let mut buffers = Self::default();
        if workload.sends() {
            let plan = &half.send;
            let largest = transport.largest_send();
            let (size, width) = resolve(plan, largest, facts.send_buffer_bytes);
            (buffers.used.send_bytes, buffers.used.send_width) = (Some(size), Some(width));
            if let Some(file) = fill.take_if(|_| half.send_file_once) {
                buffers.send_file = Some(SendFile::once(file, size));
            } else if half.send_from_file {
                let made = SendFile::new(fill, size, width, plan.offset);
                buffers.send_file = Some(made.map_err(of_file)?);
            } else {
                let contents = |buffer: &mut [u8]| match &mut fill {
                    Some(from) => fill_from(from, buffer).map_err(of_file),
                    None => Ok(()),
                };
                buffers.send = Some(buffers.ring(plan, size, width, memory, contents)?);
                if fill.is_none() {
                    buffers.refill(pattern);
                }
            }
        }
        if workload.receives() {
            let plan = &half.receive;
            let (size, width) = resolve(plan, None, facts.receive_buffer_bytes);
            (buffers.used.receive_bytes, buffers.used.receive_width) = (Some(size), Some(width));
            // What is received overwrites untouched memory.
            buffers.receive = Some(buffers.ring(plan, size, width, memory, |_| Ok(()))?);
        }
        Ok(buffers)
    }

    /// Fills the send buffers with `pattern`, repeated.
    pub fn refill(&mut self, pattern: &[u8]) {
        let mut pattern = pattern.iter().cycle();
        let Some(ring) = &mut self.send else {
            return;
        };
        for _ in 0..self.used.send_width.unwrap_or(0) {
            for (byte, value) in ring.advance().iter_mut().zip(&mut pattern) {
                *byte = *value;
            }
        }
    }

    /// Makes a ring within the memory that is allowed, and lets `contents` fill each buffer.
    fn ring(
        &mut self,
        plan: &BufferPlan,
        size: u32,
        width: u32,
        memory: &Memory,
        mut contents: impl FnMut(&mut [u8]) -> Result<(), RingError>,
    ) -> Result<BufferRing, RingError> {
        let (alignment, offset) = (plan.alignment, plan.offset);
        if size == 0 || !alignment.is_power_of_two() {
            return Err(RingError::Senseless { size, alignment });
        }
        let too_large = || RingError::TooLarge { size, width };
        let footprint =
            BufferRing::footprint(width, size, alignment, offset).ok_or_else(too_large)?;
        self.shares.push(memory.take(footprint as u64)?);
        let mut ring = BufferRing::new(width, size, alignment, offset).ok_or_else(too_large)?;
        for _ in 0..width {
            contents(ring.advance())?;
        }
        Ok(ring)
    }

    /// How long nothing may be counted while all is well, where a silence of `idle` is one too many: an
    /// interval of a paced half has its pause, and a call that sends much counts when it returns.
    pub fn patience(&self, idle: Duration, half: &Half) -> Duration {
        let pause = half.pacing.map_or(Duration::ZERO, |pacing| pacing.interval);
        let longest = u64::from(self.used.send_bytes.unwrap_or(0));
        idle + pause + Duration::from_secs(longest / SLOWEST_BYTES_PER_SECOND)
    }
}

fn fill_from(file: &mut File, buffer: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    let mut rewound = false;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 if rewound => return Err(std::io::Error::other("it is empty")),
            0 => {
                file.rewind()?;
                rewound = true;
            }
            taken => {
                filled += taken;
                rewound = false;
            }
        }
    }
    Ok(())
}

/// What the plan's rules for size and width come to.
fn resolve(plan: &BufferPlan, largest: Option<u32>, socket_buffer: Option<u32>) -> (u32, u32) {
    let socket_buffer = socket_buffer.filter(|bytes| *bytes > 0);
    let size = match plan.size {
        SizeRule::Bytes(bytes) => bytes,
        SizeRule::SocketBuffer => {
            let bytes = socket_buffer.unwrap_or(UNKNOWN_BUFFER);
            bytes.min(largest.unwrap_or(u32::MAX))
        }
    };
    let width = match plan.width {
        WidthRule::Buffers(width) => width.max(1),
        WidthRule::CoverSocketBuffer => (socket_buffer.unwrap_or(UNKNOWN_BUFFER) / size.max(1))
            .saturating_add(1)
            .max(2),
    };
    (size, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(size: SizeRule, width: WidthRule) -> BufferPlan {
        BufferPlan {
            size,
            width,
            ..BufferPlan::default()
        }
    }

    #[test]
    fn rules_come_to_what_the_manual_says() {
        const DATAGRAM: Option<u32> = Some(model::MAX_UDP_PAYLOAD);
        let default = BufferPlan::default();
        let sized = |bytes| plan(SizeRule::Bytes(bytes), WidthRule::CoverSocketBuffer);
        for (plan, largest, buffer, expected) in [
            (default, None, Some(16_384), (16_384, 2)),
            (default, DATAGRAM, Some(212_992), (65_507, 4)),
            (default, None, None, (4_096, 2)),
            (sized(1_024), None, Some(16_384), (1_024, 17)),
            (sized(65_536), None, Some(16_384), (65_536, 2)),
            (
                self::plan(SizeRule::Bytes(1), WidthRule::Buffers(1)),
                None,
                Some(16_384),
                (1, 1),
            ),
            (
                self::plan(SizeRule::Bytes(1), WidthRule::Buffers(0)),
                None,
                Some(16_384),
                (1, 1),
            ),
        ] {
            assert_eq!(resolve(&plan, largest, buffer), expected, "{plan:?}");
        }
    }

    fn ring(send: BufferPlan, fill: Option<File>) -> Result<BufferRing, RingError> {
        let half = Half {
            send,
            ..Half::default()
        };
        let (workload, facts) = (Workload::send(), SocketFacts::default());
        let (pattern, memory) = (b"netperf\0", Memory::new(1 << 20, 1 << 20));
        let tcp = Transport::Tcp;
        let buffers = Buffers::new(&half, &workload, tcp, &facts, fill, pattern, &memory)?;
        Ok(buffers.send.unwrap())
    }

    #[test]
    fn buffers_are_aligned_offset_and_filled_on_from_one_to_the_next() {
        let plan = BufferPlan {
            size: SizeRule::Bytes(5),
            width: WidthRule::Buffers(3),
            alignment: 4096,
            offset: 3,
        };
        let mut ring = ring(plan, None).unwrap();
        let seen = [(); 4].map(|()| {
            let buffer = ring.advance();
            assert_eq!(buffer.as_ptr() as usize % 4096, 3);
            buffer.to_vec()
        });
        assert_eq!(seen[..3].concat(), b"netperf\0netperf");
        assert_eq!(seen[3], seen[0]);
    }

    #[test]
    fn senseless_and_oversized_rings_are_refused() {
        let huge = plan(SizeRule::Bytes(u32::MAX), WidthRule::Buffers(u32::MAX));
        let zero = plan(SizeRule::Bytes(0), WidthRule::Buffers(1));
        let crooked = BufferPlan {
            alignment: 3,
            ..BufferPlan::default()
        };
        for bad in [huge, zero, crooked] {
            assert!(ring(bad, None).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_fill_file_is_repeated_and_an_empty_one_refused() {
        let path = std::env::temp_dir().join(format!("linerate-ring-{}", std::process::id()));
        std::fs::write(&path, b"abc").unwrap();
        let plan = plan(SizeRule::Bytes(7), WidthRule::Buffers(2));
        let of_file = || ring(plan, Some(File::open(&path).unwrap()));
        let mut ring = of_file().unwrap();
        assert_eq!(ring.advance(), b"abcabca");
        assert_eq!(ring.advance(), b"bcabcab");
        std::fs::write(&path, b"").unwrap();
        assert!(of_file().is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
