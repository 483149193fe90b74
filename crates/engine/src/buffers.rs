//! Send and receive buffers of one end. Each direction has a ring of buffers, and each call uses
//! the next buffer, not the one of the previous call (netperf manual, "-W").

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::time::Duration;

use model::{
    BufferPlan, BufferSizes, EndpointPlan, SizeRule, SocketFacts, Transport, WidthRule, Workload,
};
use sys::buffer::BufferRing;

use crate::budget::{BudgetExceeded, BudgetShare};
use crate::io::SendFile;
use crate::memory::BufferMemory;

/// Buffer size if the kernel does not report the size of the socket buffer.
const DEFAULT_BUFFER_BYTES: u32 = 4_096;

/// Lowest rate of a single large send that the idle timeout allows for: 1 Mbit/s.
const MIN_BYTES_PER_SECOND: u64 = 125_000;

/// The buffers of both directions.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Sizes that result from the plan's rules.
    pub sizes: BufferSizes,
    pub(crate) send: Option<BufferRing>,
    pub(crate) send_file: Option<SendFile>,
    pub(crate) receive: Option<BufferRing>,
    /// File that a stream's received data is written to.
    pub save_file: Option<File>,
    /// Shares of the memory budget that the buffers hold.
    shares: Vec<BudgetShare>,
}

/// Why buffers could not be created.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// There is not enough memory.
    #[error("cannot allocate {width} buffers of {size} bytes: not enough memory")]
    TooLarge {
        /// Bytes per buffer.
        size: u32,
        /// Number of buffers.
        width: u32,
    },
    /// The buffers exceed the memory budget.
    #[error("buffer memory in bytes: {0}")]
    Exceeded(#[from] BudgetExceeded),
    /// The alignment is not a power of two, or the size is 0.
    #[error(
        "invalid buffers: the size ({size}) must not be 0, and the alignment ({alignment}) must be a \
         power of two"
    )]
    Invalid {
        /// Bytes per buffer.
        size: u32,
        /// Alignment of their addresses, in bytes.
        alignment: u32,
    },
    /// The fill file cannot be used.
    #[error("could not use fill file {}: {}", path.display(), sys::describe(error))]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
}

impl Buffers {
    /// Creates the buffers that `workload` needs, with the sizes from `endpoint`, for a socket with
    /// these facts. Send buffers are filled from `fill`, the open file that the endpoint names, or else
    /// with `pattern`, repeated.
    pub fn new(
        endpoint: &EndpointPlan,
        workload: &Workload,
        transport: Transport,
        facts: &SocketFacts,
        mut fill: Option<File>,
        pattern: &[u8],
        memory: &BufferMemory,
    ) -> Result<Self, BufferError> {
        let file_error = |error| BufferError::File {
            path: endpoint
                .fill
                .clone()
                .unwrap_or_else(|| "(temporary)".into()),
            error,
        };
        let mut buffers = Self::default();
        if workload.sends() {
            let plan = &endpoint.send;
            let largest = transport.max_default_send_bytes();
            let (size, width) = resolve(plan, largest, facts.send_buffer_bytes);
            (buffers.sizes.send_bytes, buffers.sizes.send_width) = (Some(size), Some(width));
            if let Some(file) = fill.take_if(|_| endpoint.send_file_once) {
                buffers.send_file = Some(SendFile::for_one_pass(file, size));
            } else if endpoint.send_from_file {
                let opened = SendFile::new(fill, size, width, plan.offset);
                buffers.send_file = Some(opened.map_err(file_error)?);
            } else {
                let contents = |buffer: &mut [u8]| match &mut fill {
                    Some(fill_file) => fill_from(fill_file, buffer).map_err(file_error),
                    None => Ok(()),
                };
                buffers.send = Some(buffers.ring(plan, size, width, memory, contents)?);
                if fill.is_none() {
                    buffers.refill(pattern);
                }
            }
        }
        if workload.receives() {
            let plan = &endpoint.receive;
            let (size, width) = resolve(plan, None, facts.receive_buffer_bytes);
            (buffers.sizes.receive_bytes, buffers.sizes.receive_width) = (Some(size), Some(width));
            // Received data overwrites this memory, so it needs no contents.
            buffers.receive = Some(buffers.ring(plan, size, width, memory, |_| Ok(()))?);
        }
        Ok(buffers)
    }

    /// Returns whether all receive buffers have contents for which `is_valid` returns `true`.
    pub fn all_received(&mut self, is_valid: impl Fn(&[u8]) -> bool) -> bool {
        let width = self.sizes.receive_width.unwrap_or(0);
        let Some(ring) = &mut self.receive else {
            return true;
        };
        (0..width).all(|_| is_valid(ring.advance()))
    }

    /// Fills the send buffers with `pattern`, repeated.
    pub fn refill(&mut self, pattern: &[u8]) {
        let Some(ring) = self.send.as_mut().filter(|_| !pattern.is_empty()) else {
            return;
        };
        let mut rest: &[u8] = &[];
        for _ in 0..self.sizes.send_width.unwrap_or(0) {
            let mut buffer = ring.advance();
            while !buffer.is_empty() {
                if rest.is_empty() {
                    rest = pattern;
                }
                let length = rest.len().min(buffer.len());
                let (next, unfilled) = buffer.split_at_mut(length);
                next.copy_from_slice(&rest[..length]);
                (rest, buffer) = (&rest[length..], unfilled);
            }
        }
    }

    /// Creates a ring within the memory budget. `contents` fills each buffer.
    fn ring(
        &mut self,
        plan: &BufferPlan,
        size: u32,
        width: u32,
        memory: &BufferMemory,
        mut contents: impl FnMut(&mut [u8]) -> Result<(), BufferError>,
    ) -> Result<BufferRing, BufferError> {
        let (alignment, offset) = (plan.alignment, plan.offset);
        if size == 0 || !alignment.is_power_of_two() {
            return Err(BufferError::Invalid { size, alignment });
        }
        let too_large = || BufferError::TooLarge { size, width };
        let footprint =
            BufferRing::footprint(width, size, alignment, offset).ok_or_else(too_large)?;
        self.shares.push(memory.reserve(footprint as u64)?);
        let mut ring = BufferRing::new(width, size, alignment, offset).ok_or_else(too_large)?;
        for _ in 0..width {
            contents(ring.advance())?;
        }
        Ok(ring)
    }

    /// Returns the time for which the counters may stand still before the run ends as idle.
    ///
    /// It is the sum of `idle` (the time for which a path may carry no data), the interval of a
    /// paced endpoint, and the time of one large send, which is counted only when its call returns.
    pub fn idle_timeout(&self, idle: Duration, endpoint: &EndpointPlan) -> Duration {
        let pause = endpoint
            .pacing
            .map_or(Duration::ZERO, |pacing| pacing.interval);
        let send_bytes = u64::from(self.sizes.send_bytes.unwrap_or(0));
        idle + pause + Duration::from_secs(send_bytes / MIN_BYTES_PER_SECOND)
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
            count => {
                filled += count;
                rewound = false;
            }
        }
    }
    Ok(())
}

/// Returns the size and the width that result from the plan's rules.
fn resolve(plan: &BufferPlan, largest: Option<u32>, socket_buffer: Option<u32>) -> (u32, u32) {
    let socket_buffer = socket_buffer.filter(|bytes| *bytes > 0);
    let size = match plan.size {
        SizeRule::Bytes(bytes) => bytes,
        SizeRule::SocketBuffer => {
            let bytes = socket_buffer.unwrap_or(DEFAULT_BUFFER_BYTES);
            bytes.min(largest.unwrap_or(u32::MAX))
        }
    };
    let width = match plan.width {
        WidthRule::Buffers(width) => width.max(1),
        WidthRule::CoverSocketBuffer => (socket_buffer.unwrap_or(DEFAULT_BUFFER_BYTES)
            / size.max(1))
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
    fn rules_resolve_as_in_the_manual() {
        const DATAGRAM: Option<u32> = Some(model::MAX_UDP_PAYLOAD);
        let default = BufferPlan::default();
        let of_size = |bytes| plan(SizeRule::Bytes(bytes), WidthRule::CoverSocketBuffer);
        for (plan, largest, buffer, expected) in [
            (default, None, Some(16_384), (16_384, 2)),
            (default, DATAGRAM, Some(212_992), (65_507, 4)),
            (default, None, None, (4_096, 2)),
            (of_size(1_024), None, Some(16_384), (1_024, 17)),
            (of_size(65_536), None, Some(16_384), (65_536, 2)),
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

    fn ring(send: BufferPlan, fill: Option<File>) -> Result<BufferRing, BufferError> {
        let endpoint = EndpointPlan {
            send,
            ..EndpointPlan::default()
        };
        let (workload, facts) = (Workload::send(), SocketFacts::default());
        let (pattern, memory) = (b"netperf\0", BufferMemory::new(1 << 20, 1 << 20));
        let tcp = Transport::Tcp;
        let buffers = Buffers::new(&endpoint, &workload, tcp, &facts, fill, pattern, &memory)?;
        Ok(buffers.send.unwrap())
    }

    #[test]
    fn buffers_are_aligned_and_the_pattern_continues_in_the_next_one() {
        let plan = BufferPlan {
            size: SizeRule::Bytes(5),
            width: WidthRule::Buffers(3),
            alignment: 4096,
            offset: 3,
        };
        let mut ring = ring(plan, None).unwrap();
        let contents = [(); 4].map(|()| {
            let buffer = ring.advance();
            assert_eq!(buffer.as_ptr() as usize % 4096, 3);
            buffer.to_vec()
        });
        assert_eq!(contents[..3].concat(), b"netperf\0netperf");
        assert_eq!(contents[3], contents[0]);
    }

    #[test]
    fn invalid_and_oversized_rings_are_refused() {
        let huge = plan(SizeRule::Bytes(u32::MAX), WidthRule::Buffers(u32::MAX));
        let zero = plan(SizeRule::Bytes(0), WidthRule::Buffers(1));
        let misaligned = BufferPlan {
            alignment: 3,
            ..BufferPlan::default()
        };
        for bad in [huge, zero, misaligned] {
            assert!(ring(bad, None).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_fill_file_is_repeated_and_an_empty_one_refused() {
        let path = std::env::temp_dir().join(format!("linerate-ring-{}", std::process::id()));
        std::fs::write(&path, b"abc").unwrap();
        let plan = plan(SizeRule::Bytes(7), WidthRule::Buffers(2));
        let ring_from_file = || ring(plan, Some(File::open(&path).unwrap()));
        let mut ring = ring_from_file().unwrap();
        assert_eq!(ring.advance(), b"abcabca");
        assert_eq!(ring.advance(), b"bcabcab");
        std::fs::write(&path, b"").unwrap();
        assert!(ring_from_file().is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
