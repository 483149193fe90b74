//! Standard output that remembers failed writes, so that the program can report them at its end.

use std::io::{self, Stdout, Write};
use std::sync::{Mutex, PoisonError};

/// The first failed write. A closed pipe does not count, because its reader wants no more output.
static FIRST_ERROR: Mutex<Option<io::Error>> = Mutex::new(None);

/// A program's main output: standard output, or the file that replaces it. [`take_output_error`]
/// returns its first error.
#[derive(Debug)]
pub struct Output<W>(W);

/// Returns standard output.
pub fn stdout() -> Output<Stdout> {
    Output(io::stdout())
}

/// Returns the result of a write to the main output, after recording its error.
pub fn record_output_error<T>(result: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &result
        && !matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted
        )
    {
        let mut first = FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| match error.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => error.kind().into(),
        });
    }
    result
}

/// Flushes standard output. Returns the first error of the main output; `None` if there was none,
/// or if its reader has closed the pipe.
pub fn take_output_error() -> Option<io::Error> {
    let _ = stdout().flush();
    let mut first = FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner);
    first.take()
}

impl<W: Write> Output<W> {
    /// Wraps the file that replaces standard output.
    pub fn new(file: W) -> Self {
        Self(file)
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        record_output_error(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        record_output_error(self.0.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(i32);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(self.0))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_first_error_is_returned_unless_the_reader_left() {
        let [epipe, enospc, eio] = [32, 28, 5];
        assert!(Output::new(Failing(epipe)).write_all(b"x").is_err());
        assert!(take_output_error().is_none());
        for errno in [enospc, eio] {
            assert!(Output::new(Failing(errno)).write_all(b"x").is_err());
        }
        assert_eq!(take_output_error().unwrap().raw_os_error(), Some(enospc));
        assert!(take_output_error().is_none());
    }
}
