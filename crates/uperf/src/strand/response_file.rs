//! The file of `-X`: the time of each pass of each flowop.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::script;
use sys::OutputFile;
use sys::clock::wall_clock_offset_ns;

use super::log::Log;
use crate::output;

/// Number of passes that a strand buffers, as in uperf.
const BUFFERED_PASSES: usize = 8192;

/// Number of passes per write(2). Each call must write whole lines, because processes share the
/// file without a lock.
const PASSES_PER_WRITE: usize = 512;

/// The file, which all strands write to.
#[derive(Debug)]
pub(crate) struct ResponseFile {
    file: File,
    /// The first write error.
    failure: Mutex<Option<io::Error>>,
    /// Offset from the monotonic clock to the wall clock.
    wall_clock_offset_ns: i64,
}

/// Writes the passes of one strand to the file.
#[derive(Debug)]
pub(super) struct ResponseWriter {
    file: Arc<ResponseFile>,
    thread_id: u64,
    /// End and duration of each pass, in nanoseconds of the monotonic clock.
    passes: Vec<(u64, u64)>,
}

impl ResponseFile {
    /// Creates the file and replaces an existing one.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: OutputFile::begin(path)?.create()?,
            failure: Mutex::default(),
            wall_clock_offset_ns: wall_clock_offset_ns(),
        })
    }

    /// Adds the first write error to the log. Returns `false` if there is one.
    pub(crate) fn finish_with_log(&self, log: &mut Log) -> bool {
        let failure = self.lock_failure().take();
        if let Some(error) = &failure {
            log.error(format!("-X: {}", sys::describe(error)), 0);
        }
        failure.is_none()
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn lock_failure(&self) -> MutexGuard<'_, Option<io::Error>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResponseWriter {
    pub(super) fn new(file: &Arc<ResponseFile>, thread_id: u64) -> Self {
        Self {
            file: Arc::clone(file),
            thread_id,
            passes: Vec::with_capacity(BUFFERED_PASSES),
        }
    }

    fn flush(&mut self) {
        let process = std::process::id();
        for passes in self.passes.chunks(PASSES_PER_WRITE) {
            let responses = passes.iter().map(|(ended_ns, taken_ns)| {
                let ended_ns = ended_ns.saturating_add_signed(self.file.wall_clock_offset_ns);
                output::response_line(process, self.thread_id, ended_ns, *taken_ns)
            });
            let text: String = responses.collect();
            if let Err(error) = (&self.file.file).write_all(text.as_bytes()) {
                self.file.lock_failure().get_or_insert(error);
            }
        }
        self.passes.clear();
    }
}

impl script::PassObserver for ResponseWriter {
    fn observe_pass(&mut self, ended_ns: u64, taken_ns: u64) {
        self.passes.push((ended_ns, taken_ns));
        if self.passes.len() == BUFFERED_PASSES {
            self.flush();
        }
    }
}

impl Drop for ResponseWriter {
    fn drop(&mut self) {
        self.flush();
    }
}
