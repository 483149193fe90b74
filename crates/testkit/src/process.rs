//! A process that ends with its test, and a command that is run to its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::trial::{BUSY, eventually, holds_within};

/// How often a process is looked at: its end is what a test waits for most.
const LOOK: Duration = Duration::from_millis(2);

/// A process that is killed, if it still runs, when its test ends. Its output goes to files, which
/// never fill up as a pipe does, and which nobody else holds open.
#[derive(Debug)]
pub struct Process {
    child: Child,
    command: String,
    stdout: File,
    stderr: File,
}

/// What became of a process.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The command line, for whoever reads of a failure.
    pub command: String,
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output, with anything that is not UTF-8 replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

/// Runs `command` without input. After `limit` it is killed, which is an error of kind
/// [`io::ErrorKind::TimedOut`] that quotes what it had printed by then.
pub fn run(mut command: Command, limit: Duration) -> io::Result<Finished> {
    Process::try_start(&mut command, Stdio::null())?.wait(limit)
}

impl Process {
    /// Starts it without input.
    pub fn start(command: &mut Command) -> Self {
        Self::start_with_input(command, Stdio::null())
    }

    /// Starts it with this standard input.
    pub fn start_with_input(command: &mut Command, input: Stdio) -> Self {
        Self::try_start(command, input).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// The same where a program may be missing.
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

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal; a process that is gone needs none.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has used the CPU for 50 ms, as a netperf in its data phase has.
    #[track_caller]
    pub fn await_data_phase(&mut self) {
        self.await_cpu_ticks(5);
    }

    /// Waits until it has used the CPU for so many ticks of 10 ms.
    #[track_caller]
    pub fn await_cpu_ticks(&mut self, ticks: u64) {
        let pid = self.pid();
        let busy = eventually(Duration::from_secs(20), || cpu_ticks(pid) >= ticks);
        let command = &self.command;
        assert!(
            busy,
            "{command} does not get to its data: {}",
            self.stderr()
        );
    }

    /// What it has written to standard output up to now.
    pub fn stdout(&self) -> String {
        contents(&self.stdout)
    }

    /// What it has written to standard error up to now.
    pub fn stderr(&self) -> String {
        contents(&self.stderr)
    }

    /// Waits for its end; a process that takes longer than `patience` fails the test.
    #[track_caller]
    pub fn finish(mut self, patience: Duration) -> Finished {
        match self.wait(patience) {
            Ok(finished) => finished,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for its end, and kills it after `limit`, which is an error as [`run`] has it.
    pub(crate) fn wait(&mut self, limit: Duration) -> io::Result<Finished> {
        let limit = limit * BUSY;
        let mut ended = None;
        holds_within(limit, LOOK, || {
            ended = self.child.try_wait().transpose();
            ended.is_some()
        });
        match ended {
            Some(status) => Ok(self.ended_with(status?)),
            None => Err(self.kill_after(limit)),
        }
    }

    fn ended_with(&self, status: ExitStatus) -> Finished {
        Finished {
            command: self.command.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    fn kill_after(&mut self, limit: Duration) -> io::Error {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let (command, stdout, stderr) = (&self.command, self.stdout(), self.stderr());
        let text =
            format!("{command}: killed after {limit:?}; stdout {stdout:?}, stderr {stderr:?}");
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// Fails the test unless it ended with 0.
    #[track_caller]
    pub fn succeeded(&self) {
        assert_eq!(self.code, Some(0), "{self:#?}");
    }

    /// The numbers on the last line that has nothing but numbers: a table's figures.
    pub fn figures(&self) -> Vec<f64> {
        let of = |line: &str| {
            line.split_whitespace()
                .map(str::parse)
                .collect::<Result<Vec<f64>, _>>()
        };
        let lines = self.stdout.lines().rev();
        lines
            .filter_map(|line| of(line).ok())
            .find(|figures| !figures.is_empty())
            .unwrap_or_default()
    }
}

/// CPU time that a process has used, in clock ticks of 10 ms; 0 once it is gone.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold blanks; utime and stime are fields 14 and 15, proc(5).
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum()
}

/// The whole file. Its offset, which is the writer's too, stays where it is.
fn contents(file: &File) -> String {
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = vec![0; length as usize];
    let _ = file.read_exact_at(&mut bytes, 0);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_code() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let finished = run(command, Duration::from_secs(10)).unwrap();
        assert_eq!(finished.stdout, "out\n");
        assert_eq!(finished.stderr, "err\n");
        assert_eq!((finished.code, finished.signal), (Some(3), None));
    }

    #[test]
    fn a_signal_is_no_code() {
        let process = Process::start(Command::new("sleep").arg("60"));
        process.signal(Signal::TERM);
        let finished = process.finish(Duration::from_secs(10));
        let signal = Signal::TERM.as_raw();
        assert_eq!((finished.code, finished.signal), (None, Some(signal)));
    }

    #[test]
    fn the_limit_ends_it() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let error = run(command, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_last_line_of_numbers() {
        let mut command = Command::new("echo");
        command.args(["Size  Rate\n 1 2.5\n3 4.5\nbytes per sec\n"]);
        let finished = run(command, Duration::from_secs(10)).unwrap();
        assert_eq!(finished.figures(), [3.0, 4.5]);
    }
}
