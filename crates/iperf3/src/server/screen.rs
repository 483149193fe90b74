//! What a server prints: the lines of one test as they come, and those of tests beside it when they have ended.

use std::ffi::CString;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::options::Common;
use crate::output::text;
use crate::print::{Lines, keep, stamped};

/// The output of a server.
pub(crate) struct Screen {
    state: Mutex<State>,
    port: u32,
    /// Only documents are printed.
    is_json: bool,
    verbose: bool,
    logs: bool,
    /// Where errors are printed, if that is of its own.
    errors: Option<Mutex<Box<dyn Write + Send>>>,
    timestamps: Option<CString>,
}

struct State {
    out: Box<dyn Write + Send>,
    /// A test prints its lines as they come.
    is_taken: bool,
    /// The texts of others.
    queued: Vec<String>,
    /// Tests that have been waited for.
    tests: u64,
}

/// A test's part of it.
pub(crate) struct Page<'a> {
    screen: &'a Screen,
    is_live: bool,
    kept: String,
}

impl Screen {
    pub(crate) fn new(common: &Common, out: Box<dyn Write + Send>) -> Self {
        Self {
            state: Mutex::new(State {
                out,
                is_taken: false,
                queued: Vec::new(),
                tests: 0,
            }),
            port: common.port.into(),
            is_json: common.prints_json(),
            verbose: common.verbose,
            logs: common.log_file.is_some(),
            errors: None,
            timestamps: common.timestamps.clone(),
        }
    }

    /// One that prints errors only.
    pub(crate) fn of_errors(common: &Common, errors: Box<dyn Write + Send>) -> Self {
        Self {
            errors: Some(Mutex::new(errors)),
            ..Self::new(common, Box::new(std::io::sink()))
        }
    }

    /// The server waits for its first test.
    pub(crate) fn waits(&self) {
        let mut state = self.state();
        if self.verbose && !self.is_json {
            state.print(&self.stamped(&text::version()));
        }
        self.banner(&mut state);
    }

    fn banner(&self, state: &mut State) {
        state.tests += 1;
        if !self.is_json {
            let banner = text::banner(self.port, state.tests);
            state.print(&self.stamped(&banner));
        }
    }

    /// Begins a test's output.
    pub(crate) fn page(&self) -> Page<'_> {
        let mut state = self.state();
        let is_live = !state.is_taken;
        state.is_taken = true;
        Page {
            screen: self,
            is_live,
            kept: String::new(),
        }
    }

    /// Prints a line about an error.
    pub(crate) fn warn(&self, line: &str) {
        let line = self.stamped(&format!("iperf3: {line}\n"));
        if let Some(errors) = &self.errors {
            let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = errors.write_all(line.as_bytes());
        } else if self.logs {
            self.state().print(&line);
        } else {
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn stamped(&self, text: &str) -> String {
        stamped(self.timestamps.as_deref(), "", text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn print(&mut self, text: &str) {
        // A reader that has had enough is no failure.
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }
}

impl Lines for Page<'_> {
    /// Prints, now or with the rest of the test.
    fn print(&mut self, text: &str) {
        if self.is_live {
            self.screen.state().print(text);
        } else {
            keep(&mut self.kept, text);
        }
    }
}

impl Page<'_> {
    /// Ends the test; `goes_on` is whether the server waits for another.
    pub(crate) fn end(self, goes_on: bool) {
        let mut state = self.screen.state();
        if !self.is_live && state.is_taken {
            state.queued.push(self.kept);
            return;
        }
        let mut texts = vec![self.kept];
        texts.append(&mut state.queued);
        state.is_taken = false;
        for (at, text) in texts.into_iter().enumerate() {
            if at > 0 {
                self.screen.banner(&mut state);
            }
            state.print(&text);
        }
        if goes_on {
            self.screen.banner(&mut state);
        }
    }
}
