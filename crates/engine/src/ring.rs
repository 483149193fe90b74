//! The buffers of one direction: used round robin, one a call, so that what is being sent is not
//! what was sent just before (netperf manual, "-W").

use std::fs::File;
use std::io::{Read, Seek};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use model::{BufferPlan, SizeRule, WidthRule};
use sys::buffer::BufferRing;

use crate::budget::{Exceeded, Share};
use crate::memory::Memory;

/// The size that is used when the kernel does not tell a buffer's.
const UNKNOWN_BUFFER: u32 = 4_096;

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

/// What the buffers hold.
#[derive(Debug)]
pub(crate) enum Contents<'a> {
    /// Nothing: what is received into need not be touched before.
    Nothing,
    /// This, over and over, on from one buffer into the next.
    Pattern(&'a [u8]),
    /// An open file of this name, repeated.
    File(File, &'a Path),
}

/// The buffers, with their share of the memory that is allowed.
#[derive(Debug)]
pub(crate) struct Ring {
    buffers: BufferRing,
    _share: Share,
}

impl Ring {
    /// Makes the ring that the plan's rules come to beside a socket buffer of `socket_buffer`
    /// bytes, of which one call can take at most `largest` (datagrams:
    /// [`model::Transport::largest_send`]).
    pub(crate) fn new(
        plan: &BufferPlan,
        largest: Option<u32>,
        socket_buffer: Option<u32>,
        contents: Contents<'_>,
        memory: &Memory,
    ) -> Result<Self, RingError> {
        let (size, width) = resolve(plan, largest, socket_buffer);
        if size == 0 || !plan.alignment.is_power_of_two() {
            return Err(RingError::Senseless {
                size,
                alignment: plan.alignment,
            });
        }
        let too_large = || RingError::TooLarge { size, width };
        let (alignment, offset) = (plan.alignment, plan.offset);
        let footprint =
            BufferRing::footprint(width, size, alignment, offset).ok_or_else(too_large)?;
        let share = memory.take(footprint as u64)?;
        let mut filler = Filler::of(contents);
        let mut buffers = BufferRing::new(width, size, alignment, offset).ok_or_else(too_large)?;
        if let Some(filler) = &mut filler {
            for _ in 0..width {
                filler.fill(buffers.advance())?;
            }
        }
        Ok(Self {
            buffers,
            _share: share,
        })
    }
}

impl Deref for Ring {
    type Target = BufferRing;

    #[inline]
    fn deref(&self) -> &BufferRing {
        &self.buffers
    }
}

impl DerefMut for Ring {
    #[inline]
    fn deref_mut(&mut self) -> &mut BufferRing {
        &mut self.buffers
    }
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

enum Filler<'a> {
    Pattern { pattern: &'a [u8], at: usize },
    File { file: File, path: &'a Path },
}

impl<'a> Filler<'a> {
    /// `None` when there is nothing to fill with.
    fn of(contents: Contents<'a>) -> Option<Self> {
        match contents {
            Contents::Nothing => None,
            Contents::Pattern(pattern) => Some(Self::Pattern { pattern, at: 0 }),
            Contents::File(file, path) => Some(Self::File { file, path }),
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), RingError> {
        match self {
            Self::Pattern { pattern, at } => {
                for byte in buffer {
                    *byte = pattern.get(*at).copied().unwrap_or(0);
                    *at = if *at + 1 >= pattern.len() { 0 } else { *at + 1 };
                }
                Ok(())
            }
            Self::File { file, path } => fill_from(file, buffer).map_err(|error| RingError::File {
                path: path.to_owned(),
                error,
            }),
        }
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

/// A file as a ring: piece `i` is what a send buffer would hold, sent by the kernel itself.
#[derive(Debug)]
pub(crate) struct SendFile {
    file: File,
    size: u32,
    width: u32,
    offset: u64,
    next: u32,
}

impl SendFile {
    /// Uses this file, or a temporary one of random bytes that has no name.
    pub(crate) fn new(
        plan: &BufferPlan,
        socket_buffer: Option<u32>,
        file: Option<(File, &Path)>,
    ) -> Result<Self, RingError> {
        let (size, width) = resolve(plan, None, socket_buffer);
        let needed = u64::from(size) * u64::from(width) + u64::from(plan.offset);
        let (file, shown) = file.unzip();
        let failed = |error| RingError::File {
            path: shown.unwrap_or(Path::new("(temporary)")).to_owned(),
            error,
        };
        let file = match file {
            Some(file) => file,
            None => temporary(needed).map_err(failed)?,
        };
        if file.metadata().map_err(failed)?.len() < needed {
            return Err(failed(std::io::Error::other(
                "specified file too small: it must be larger than send_width * send_size",
            )));
        }
        Ok(Self {
            file,
            size,
            width,
            offset: plan.offset.into(),
            next: 0,
        })
    }

    /// Bytes a call.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// How many pieces.
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    #[inline]
    pub(crate) fn advance(&mut self) -> (BorrowedFd<'_>, u64, usize) {
        let at = self.offset + u64::from(self.next) * u64::from(self.size);
        self.next = if self.next + 1 == self.width {
            0
        } else {
            self.next + 1
        };
        (self.file.as_fd(), at, self.size as usize)
    }
}

fn temporary(length: u64) -> std::io::Result<File> {
    let file = sys::call::unnamed_file()?;
    let mut random = File::open("/dev/urandom")?.take(length);
    std::io::copy(&mut random, &mut &file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: Contents<'_> = Contents::Pattern(b"netperf\0");

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

    #[test]
    fn buffers_are_aligned_offset_and_filled_on_from_one_to_the_next() {
        let plan = BufferPlan {
            size: SizeRule::Bytes(5),
            width: WidthRule::Buffers(3),
            alignment: 4096,
            offset: 3,
        };
        let mut ring =
            Ring::new(&plan, None, None, PATTERN, &Memory::new(1 << 20, 1 << 20)).unwrap();
        let seen: Vec<Vec<u8>> = (0..4)
            .map(|_| {
                let buffer = ring.advance();
                assert_eq!(buffer.as_ptr() as usize % 4096, 3);
                buffer.to_vec()
            })
            .collect();
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
            assert!(
                Ring::new(&bad, None, None, PATTERN, &Memory::new(1 << 20, 1 << 20)).is_err(),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_fill_file_is_repeated_and_an_empty_one_refused() {
        let path = std::env::temp_dir().join(format!("linerate-ring-{}", std::process::id()));
        std::fs::write(&path, b"abc").unwrap();
        let plan = plan(SizeRule::Bytes(7), WidthRule::Buffers(2));
        let mut ring = Ring::new(
            &plan,
            None,
            None,
            Contents::File(File::open(&path).unwrap(), &path),
            &Memory::new(1 << 20, 1 << 20),
        )
        .unwrap();
        assert_eq!(ring.advance(), b"abcabca");
        assert_eq!(ring.advance(), b"bcabcab");
        std::fs::write(&path, b"").unwrap();
        assert!(
            Ring::new(
                &plan,
                None,
                None,
                Contents::File(File::open(&path).unwrap(), &path),
                &Memory::new(1 << 20, 1 << 20)
            )
            .is_err()
        );
        std::fs::remove_file(&path).unwrap();
    }
}
