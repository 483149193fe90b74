//! `-X`: the time of each pass of each flowop, into one file.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::script;
use sys::WholeFile;
use sys::clock::wall_ahead_ns;

use crate::output;

/// How many passes a strand keeps before it writes them; uperf's number.
const KEPT: usize = 8192;

/// How many are written by one call, which no other strand's can fall into: processes have the file in
/// common, and no lock.
const AT_ONCE: usize = 512;

/// The file, into which strands write one after the other.
#[derive(Debug)]
pub(crate) struct ResponseFile {
    file: File,
    /// The first thing that could not be written.
    failure: Mutex<Option<io::Error>>,
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
    /// Replaces the file of this name by an empty one.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: WholeFile::begin(path)?.place()?,
            failure: Mutex::default(),
            wall_ahead_ns: wall_ahead_ns(),
        })
    }

    /// Fails if anything could not be written.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.failure().take().map_or(Ok(()), Err)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn failure(&self) -> MutexGuard<'_, Option<io::Error>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
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
        for passes in self.passes.chunks(AT_ONCE) {
            let responses = passes.iter().map(|(ended_ns, took_ns)| {
                let ended_ns = ended_ns.saturating_add_signed(self.to.wall_ahead_ns);
                output::response(process, self.thread, ended_ns, *took_ns)
            });
            let text: String = responses.collect();
            if let Err(error) = (&self.to.file).write_all(text.as_bytes()) {
                self.to.failure().get_or_insert(error);
            }
        }
        self.passes.clear();
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
