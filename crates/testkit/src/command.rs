//! A command, run to its end or to a time limit.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long to look away between two looks at a process.
pub(crate) const POLL: Duration = Duration::from_millis(2);

/// What a command left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Standard output, with anything that is not UTF-8 replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
}

/// Runs `command` without input. After `limit` it is killed, which is an error of kind
/// [`io::ErrorKind::TimedOut`] that quotes what it had printed by then.
pub fn run(mut command: Command, limit: Duration) -> io::Result<Finished> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = drain(child.stdout.take().expect("asked for a pipe"));
    let stderr = drain(child.stderr.take().expect("asked for a pipe"));

    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(POLL);
    };

    let stdout = stdout.join().expect("reading a pipe does not panic");
    let stderr = stderr.join().expect("reading a pipe does not panic");
    let Some(status) = status else {
        let text = format!("killed after {limit:?}; stdout {stdout:?}, stderr {stderr:?}");
        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
    };
    Ok(Finished {
        stdout,
        stderr,
        code: status.code(),
    })
}

/// Reads a pipe to its end on a thread of its own, so that neither of two can fill up.
fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
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
        assert_eq!(finished.code, Some(3));
    }

    #[test]
    fn the_limit_ends_it() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let error = run(command, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
