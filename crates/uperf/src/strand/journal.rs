//! `-X`: the time of each pass of each flowop, into one file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use engine::script;
use sys::clock::wall_ahead_ns;

use crate::output::Response;

/// How many passes a strand keeps before it writes them; uperf's number.
const KEPT: usize = 8192;

/// The file, into which strands write one after the other.
#[derive(Debug)]
pub(crate) struct ResponseFile {
    file: Mutex<BufWriter<File>>,
    /// What is added to the monotonic clock.
    wall_ahead_ns: i64,
}

/// One strand's part of it.
#[derive(Debug)]
pub(super) struct Journal {
    to: Arc<ResponseFile>,
    thread: u64,
    /// Ends and lengths.
    passes: Vec<(u64, u64)>,
}

impl ResponseFile {
    /// Makes the file anew.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Mutex::new(BufWriter::new(File::create(path)?)),
            wall_ahead_ns: wall_ahead_ns(),
        })
    }

    /// Writes what is left; fails if anything could not be written.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .flush()
    }
}

impl Journal {
    pub(super) fn new(to: &Arc<ResponseFile>, thread: u64) -> Self {
        Self {
            to: Arc::clone(to),
            thread,
            passes: Vec::with_capacity(KEPT),
        }
    }

    fn write(&mut self) {
        let process = std::process::id();
        let mut file = self.to.file.lock().unwrap_or_else(PoisonError::into_inner);
        for (ended_ns, took_ns) in self.passes.drain(..) {
            let ended_ns = ended_ns.saturating_add_signed(self.to.wall_ahead_ns);
            let response = Response {
                process,
                thread: self.thread,
                ended: UNIX_EPOCH + Duration::from_nanos(ended_ns),
                took: Duration::from_nanos(took_ns),
            };
            // A full disk is told when the file is finished.
            let _ = write!(file, "{response}");
        }
    }
}

impl script::Journal for Journal {
    fn pass(&mut self, ended_ns: u64, taken_ns: u64) {
        self.passes.push((ended_ns, taken_ns));
        if self.passes.len() == KEPT {
            self.write();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.write();
    }
}
