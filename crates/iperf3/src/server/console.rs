//! The output of a server.
//!
//! One test at a time prints its lines live. The output of a concurrent test follows when that test
//! and the live test have ended, or earlier if much output waits.

use std::ffi::CString;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use server::{ErrorLog, SharedLogLimit};

use crate::Version;
use crate::options::CommonSettings;
use crate::output::text;
use crate::print::{PrintText, prefix_lines};

/// The maximum number of bytes that wait for the end of the live test, of all tests.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// The output of a server.
pub(crate) struct ServerConsole {
    state: Mutex<ConsoleState>,
    port: u32,
    /// Whether only JSON is printed.
    prints_json: bool,
    verbose: bool,
    version: Version,
    /// The line about the resources, with `-d`.
    resources: Option<String>,
    has_log_file: bool,
    /// The separate destination of errors, if there is one.
    errors: Option<Mutex<Box<dyn Write + Send>>>,
    /// Clients must not fill the server's disk.
    error_limit: SharedLogLimit,
    timestamps: Option<CString>,
    /// Whether a test has reported that a signal ended the server.
    has_reported_interrupt: AtomicBool,
}

struct ConsoleState {
    out: Box<dyn Write + Send>,
    /// Whether a test is printing its lines live.
    has_live_test: bool,
    /// The output of tests that ended before the live test.
    finished_texts: Vec<String>,
    /// The bytes that wait, of these tests and of those that are running.
    waiting_bytes: usize,
    /// The number in the last "Server listening" banner.
    last_test_number: u64,
}

/// The output of one test.
pub(crate) struct TestOutput<'a> {
    console: &'a ServerConsole,
    is_live: bool,
    buffered: String,
}

impl ServerConsole {
    pub(crate) fn new(common: &CommonSettings, out: Box<dyn Write + Send>) -> Self {
        Self {
            state: Mutex::new(ConsoleState {
                out,
                has_live_test: false,
                finished_texts: Vec::new(),
                waiting_bytes: 0,
                last_test_number: 0,
            }),
            port: common.port.into(),
            prints_json: common.prints_json(),
            verbose: common.verbose,
            version: common.version,
            resources: common
                .debug
                .then(|| format!("resources: {}\n", engine::ResourceBudget::process())),
            has_log_file: common.log_file.is_some(),
            errors: None,
            error_limit: SharedLogLimit::default(),
            timestamps: common.timestamps.clone(),
            has_reported_interrupt: AtomicBool::new(false),
        }
    }

    /// Creates a console that prints only errors.
    pub(crate) fn for_errors_only(common: &CommonSettings, errors: Box<dyn Write + Send>) -> Self {
        Self {
            errors: Some(Mutex::new(errors)),
            ..Self::new(common, Box::new(std::io::sink()))
        }
    }

    /// Prints the version, if verbose, the resources with `-d`, and the first banner.
    pub(crate) fn print_start(&self) {
        let mut state = self.state();
        if self.verbose && !self.prints_json {
            state.print(&self.prefix_lines(&text::version(self.version)));
        }
        if let Some(resources) = self.resources.as_ref().filter(|_| !self.prints_json) {
            state.print(&self.prefix_lines(resources));
        }
        self.print_banner(&mut state);
    }

    fn print_banner(&self, state: &mut ConsoleState) {
        state.last_test_number += 1;
        if !self.prints_json {
            let banner = text::banner(self.port, state.last_test_number);
            state.print(&self.prefix_lines(&banner));
        }
    }

    /// Prints the output that waits, each part after a banner. The first one may follow its own.
    fn print_waiting(&self, state: &mut ConsoleState, mut has_banner: bool) {
        for text in std::mem::take(&mut state.finished_texts) {
            if !std::mem::take(&mut has_banner) {
                self.print_banner(state);
            }
            state.print(&text);
            state.waiting_bytes -= text.len();
        }
    }

    /// Starts the output of a test.
    pub(crate) fn begin_test(&self) -> TestOutput<'_> {
        let mut state = self.state();
        let is_live = !state.has_live_test;
        state.has_live_test = true;
        TestOutput {
            console: self,
            is_live,
            buffered: String::new(),
        }
    }

    /// Prints an error line.
    pub(crate) fn warn(&self, line: &str) {
        let Some(left_out) = self.error_limit.admit(ErrorLog::MAX_WARNINGS) else {
            return;
        };
        let mut lines = format!("iperf3: {line}\n");
        if left_out > 0 {
            lines.insert_str(0, &format!("iperf3: {left_out} log lines left out\n"));
        }
        let line = self.prefix_lines(&lines);
        if let Some(errors) = &self.errors {
            let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = errors.write_all(line.as_bytes());
        } else if self.has_log_file {
            self.state().print(&line);
        } else {
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    /// Records that a test reports the signal that ends the server.
    pub(crate) fn set_interrupt_reported(&self) {
        self.has_reported_interrupt.store(true, Relaxed);
    }

    /// Returns whether a test has reported the signal that ended the server.
    pub(crate) fn has_reported_interrupt(&self) -> bool {
        self.has_reported_interrupt.load(Relaxed)
    }

    fn prefix_lines(&self, text: &str) -> String {
        prefix_lines(self.timestamps.as_deref(), "", text)
    }

    fn state(&self) -> MutexGuard<'_, ConsoleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConsoleState {
    fn print(&mut self, text: &str) {
        // A closed pipe is not an error: the server goes on.
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }
}

impl PrintText for TestOutput<'_> {
    /// Prints live, or buffers the text until the test's end.
    fn print(&mut self, text: &str) {
        if self.console.errors.is_some() {
            // Only errors are printed.
            return;
        }
        let mut state = self.console.state();
        if self.is_live {
            state.print(text);
            return;
        }
        self.buffered.push_str(text);
        state.waiting_bytes += text.len();
        if state.waiting_bytes > MAX_WAITING_BYTES {
            state
                .finished_texts
                .push(std::mem::take(&mut self.buffered));
            self.console.print_waiting(&mut state, false);
        }
    }
}

impl TestOutput<'_> {
    /// Ends the test's output. With `waits_for_test`, prints the banner of the next test.
    pub(crate) fn end(self, waits_for_test: bool) {
        let mut state = self.console.state();
        if !self.is_live && state.has_live_test {
            state.finished_texts.push(self.buffered);
            return;
        }
        state.finished_texts.insert(0, self.buffered);
        state.has_live_test = false;
        self.console.print_waiting(&mut state, true);
        if waits_for_test {
            self.console.print_banner(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Output {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
        }
    }

    #[test]
    fn waiting_output_is_bounded() {
        let output = Output::default();
        let console = ServerConsole::new(&CommonSettings::default(), Box::new(output.clone()));
        let mut live = console.begin_test();
        live.print("live\n");
        assert_eq!(output.take(), "live\n");
        let end_test = |text: &str| {
            let mut test = console.begin_test();
            test.print(text);
            test.end(true);
        };
        end_test("short\n");
        assert_eq!(output.take(), "");
        let long = "x".repeat(MAX_WAITING_BYTES);
        end_test(&long);
        let printed = output.take();
        assert!(printed.contains("short\n") && printed.ends_with(&long));
        end_test("late\n");
        // A test that is still running also waits.
        let mut running = console.begin_test();
        for _ in 0..=MAX_WAITING_BYTES / 1000 {
            running.print(&"y".repeat(1000));
        }
        let printed = output.take();
        assert!(printed.contains("late\n") && printed.ends_with('y'));
        running.print("rest\n");
        running.end(true);
        live.end(false);
        assert!(output.take().ends_with("rest\n"));
        assert_eq!(console.state().waiting_bytes, 0);
    }
}
