//! Processes that end with their test, and commands with a timeout.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::test_case::{BUSY_MACHINE_FACTOR, poll_until, wait_until};

/// Interval between two checks of a process. It is short because most tests wait for the end of a
/// process.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A process that is killed when this value is dropped. Its output goes to files. A full pipe would
/// block the process, and its children could keep a pipe open.
#[derive(Debug)]
pub struct TestProcess {
    child: Child,
    command: String,
    stdout: File,
    stderr: File,
}

/// Result of a process: its output, and its exit code or signal.
#[derive(Clone, Debug)]
pub struct ProcessOutput {
    /// The command line, for failure messages.
    pub command: String,
    /// The exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// The signal that ended the process.
    pub signal: Option<i32>,
    /// Standard output, with invalid UTF-8 replaced.
    pub stdout: String,
    /// Standard error, with invalid UTF-8 replaced.
    pub stderr: String,
}

/// Runs `command` without input. On a timeout, kills the process and returns an error of the kind
/// [`io::ErrorKind::TimedOut`] that quotes the output. See [`wait_until`] for `timeout`.
pub fn run(mut command: Command, timeout: Duration) -> io::Result<ProcessOutput> {
    TestProcess::try_start(&mut command, Stdio::null())?.wait(timeout)
}

impl TestProcess {
    /// Starts a process without input.
    pub fn start(command: &mut Command) -> Self {
        Self::start_with_input(command, Stdio::null())
    }

    /// Starts a process with this standard input.
    pub fn start_with_input(command: &mut Command, input: Stdio) -> Self {
        Self::try_start(command, input).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Starts a process. Returns an error if the program is missing.
    pub(crate) fn try_start(command: &mut Command, input: Stdio) -> io::Result<Self> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let child = command
            .stdin(input)
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .spawn()?;
        Ok(Self {
            child,
            command: format!("{command:?}"),
            stdout,
            stderr,
        })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process. Does nothing if it has ended.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Returns whether the process is running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the process has used 50 ms of CPU time. A netperf is then in its data phase.
    #[track_caller]
    pub fn wait_for_data_phase(&mut self) {
        self.wait_for_cpu_ticks(5);
    }

    /// Waits until the process has used this number of CPU ticks (10 ms each).
    #[track_caller]
    pub fn wait_for_cpu_ticks(&mut self, ticks: u64) {
        let pid = self.pid();
        let has_used = wait_until(Duration::from_secs(20), || cpu_ticks(pid) >= ticks);
        let command = &self.command;
        assert!(
            has_used,
            "{command} does not reach its data phase: {}",
            self.stderr()
        );
    }

    /// Returns the standard output up to now.
    pub fn stdout(&self) -> String {
        read_file(&self.stdout)
    }

    /// Returns the standard error up to now.
    pub fn stderr(&self) -> String {
        read_file(&self.stderr)
    }

    /// Waits for the end of the process. Fails the test on a timeout.
    #[track_caller]
    pub fn finish(mut self, timeout: Duration) -> ProcessOutput {
        match self.wait(timeout) {
            Ok(output) => output,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for the end of the process. On a timeout, kills it and returns an error as [`run`]
    /// does.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<ProcessOutput> {
        let timeout = timeout * BUSY_MACHINE_FACTOR;
        let mut status = None;
        poll_until(timeout, POLL_INTERVAL, || {
            status = self.child.try_wait().transpose();
            status.is_some()
        });
        match status {
            Some(status) => Ok(self.output_with_status(status?)),
            None => Err(self.kill_after_timeout(timeout)),
        }
    }

    fn output_with_status(&self, status: ExitStatus) -> ProcessOutput {
        ProcessOutput {
            command: self.command.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    fn kill_after_timeout(&mut self, timeout: Duration) -> io::Error {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let (command, stdout, stderr) = (&self.command, self.stdout(), self.stderr());
        let text =
            format!("{command}: killed after {timeout:?}; stdout {stdout:?}, stderr {stderr:?}");
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ProcessOutput {
    /// Fails the test unless the exit code is 0.
    #[track_caller]
    pub fn assert_success(&self) {
        assert_eq!(self.code, Some(0), "{self:#?}");
    }

    /// Returns the numbers of the last line that contains only numbers, such as the figures of a
    /// table.
    pub fn figures(&self) -> Vec<f64> {
        let parse_line = |line: &str| {
            line.split_whitespace()
                .map(str::parse)
                .collect::<Result<Vec<f64>, _>>()
        };
        let lines = self.stdout.lines().rev();
        lines
            .filter_map(|line| parse_line(line).ok())
            .find(|figures| !figures.is_empty())
            .unwrap_or_default()
    }
}

/// Returns the CPU time of a process in clock ticks of 10 ms; 0 if the process has ended.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name is in parentheses and may contain blanks. utime and stime are fields 14
    // and 15: proc(5).
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum()
}

/// Reads a file from its start. The file offset stays the same, because the writing process shares
/// it.
fn read_file(file: &File) -> String {
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = vec![0; length as usize];
    let _ = file.read_exact_at(&mut bytes, 0);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_output_and_exit_code() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let output = run(command, Duration::from_secs(10)).unwrap();
        assert_eq!(output.stdout, "out\n");
        assert_eq!(output.stderr, "err\n");
        assert_eq!((output.code, output.signal), (Some(3), None));
    }

    #[test]
    fn a_signal_gives_no_exit_code() {
        let process = TestProcess::start(Command::new("sleep").arg("60"));
        process.signal(Signal::TERM);
        let output = process.finish(Duration::from_secs(10));
        let signal = Signal::TERM.as_raw();
        assert_eq!((output.code, output.signal), (None, Some(signal)));
    }

    #[test]
    fn the_timeout_kills_the_process() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let error = run(command, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn figures_are_the_last_line_of_numbers() {
        let mut command = Command::new("echo");
        command.args(["Size  Rate\n 1 2.5\n3 4.5\nbytes per sec\n"]);
        let output = run(command, Duration::from_secs(10)).unwrap();
        assert_eq!(output.figures(), [3.0, 4.5]);
    }
}
