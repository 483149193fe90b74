use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::eventually;

/// A process that is killed, if it still runs, when its test ends.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    line: String,
    stdout: File,
    stderr: File,
}

/// What became of a process.
#[derive(Debug)]
#[expect(
    dead_code,
    reason = "line and signal are for whoever reads of a failure"
)]
pub(crate) struct Finished {
    line: String,
    /// The exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// `linerate` with a line of arguments.
pub(crate) fn linerate(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(arguments.split_whitespace());
    command
}

/// The stock `netperf` or `netserver` with a line of arguments.
pub(crate) fn stock(program: &str, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    command
}

/// CPU time that a process has used, in clock ticks (10 ms): a netperf that has used some is in its
/// data phase. 0 once the process is gone.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
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

impl Process {
    /// Starts it, with its output going to files.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with_input(command, Stdio::null())
    }

    /// Starts it with this standard input.
    pub(crate) fn start_with_input(command: &mut Command, input: Stdio) -> Self {
        let file = || tempfile::tempfile().expect("the directory for temporary files is writable");
        let (stdout, stderr) = (file(), file());
        let copy = |file: &File| file.try_clone().expect("there are descriptors left");
        let child = command
            .stdin(input)
            .stdout(copy(&stdout))
            .stderr(copy(&stderr))
            .spawn();
        let line = format!("{command:?}");
        let child = child.unwrap_or_else(|error| panic!("{line}: {error}"));
        Self {
            child,
            line,
            stdout,
            stderr,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // A process that is gone needs no signal.
        let _ = kill_process(self.rustix_pid(), signal);
    }

    fn rustix_pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).expect("a process has a number")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has used the CPU for 50 ms, as a netperf in its data phase has.
    pub(crate) fn await_data_phase(&mut self) {
        let pid = self.pid();
        let busy = eventually(Duration::from_secs(20), || cpu_ticks(pid) >= 5);
        assert!(
            busy,
            "{} does not get to its data: {}",
            self.line,
            self.stderr()
        );
    }

    /// What it has written to stdout up to now.
    pub(crate) fn stdout(&self) -> String {
        contents(&self.stdout)
    }

    /// What it has written to stderr up to now.
    pub(crate) fn stderr(&self) -> String {
        contents(&self.stderr)
    }

    /// Waits for its end; a process that takes longer than `patience` fails the test.
    pub(crate) fn finish(mut self, patience: Duration) -> Finished {
        let start = Instant::now();
        let ended = eventually(patience, || !self.is_running());
        assert!(
            ended,
            "{} still runs after {:.1} s; stdout: {}; stderr: {}",
            self.line,
            start.elapsed().as_secs_f64(),
            self.stdout(),
            self.stderr()
        );
        let status = self.child.wait().expect("it is our child");
        Finished {
            line: std::mem::take(&mut self.line),
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
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
    pub(crate) fn succeeded(&self) {
        assert_eq!(self.code, Some(0), "{self:#?}");
    }

    /// The numbers on the last line that has some: a table's figures.
    pub(crate) fn figures(&self) -> Vec<f64> {
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

/// The whole file. Its offset, which is the writer's too, stays where it is.
fn contents(file: &File) -> String {
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = vec![0; length as usize];
    let _ = file.read_exact_at(&mut bytes, 0);
    String::from_utf8_lossy(&bytes).into_owned()
}
