//! Errors as text.

use std::fmt::{Arguments, Display};
use std::io::{IsTerminal, Write};

use model::Warning;

/// Writes a line to standard error: [`write_error`].
pub fn write_error_line(line: Arguments<'_>) {
    write_error(format_args!("{line}\n"));
}

/// Writes to standard error by one write(2), so that the lines of several processes do not mix. Ignores failures:
/// `eprint!` panics if the reader of a pipe has gone.
pub fn write_error(text: Arguments<'_>) {
    let _ = std::io::stderr().write_all(text.to_string().as_bytes());
}

/// Prints what makes a result doubtful on standard error; returns the exit code for it.
///
/// A script that the stock tool has satisfied may take any line there for a failure. So without `strict` it gets only
/// the requests that were not carried out; a terminal gets all.
pub fn report_doubts(program: &str, doubts: &[Warning], strict: bool) -> u8 {
    /// The exit code of a result that `strict` does not let pass.
    const DOUBTFUL: u8 = 3;
    let wants_all = strict || std::io::stderr().is_terminal();
    for doubt in doubts {
        if wants_all || doubt.is_of_a_request() {
            write_error_line(format_args!("{program}: {doubt}"));
        }
    }
    if strict && !doubts.is_empty() {
        DOUBTFUL
    } else {
        0
    }
}

/// Describes an error in the system's words, without the number that the standard library adds:
/// `Connection refused` for `Connection refused (os error 111)`. An error that quotes another one is
/// described the same way.
pub fn describe(error: &(impl Display + ?Sized)) -> String {
    let mut text = error.to_string();
    let mut from = 0;
    while let Some(start) = text[from..].find(MARK).map(|at| from + at) {
        let digits = start + MARK.len();
        let end = text[digits..].find(|digit: char| !digit.is_ascii_digit());
        match end.map(|end| digits + end) {
            Some(end) if end > digits && text[end..].starts_with(')') => {
                text.replace_range(start..=end, "");
                from = start;
            }
            _ => from = digits,
        }
    }
    text
}

const MARK: &str = " (os error ";

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn errors_have_no_number() {
        let refused = || io::Error::from_raw_os_error(libc::ECONNREFUSED);
        let nested = io::Error::other(format!("cc=x: {}: {}", refused(), refused()));
        for (error, text) in [
            (refused(), "Connection refused"),
            (nested, "cc=x: Connection refused: Connection refused"),
            (io::ErrorKind::TimedOut.into(), "timed out"),
        ] {
            assert_eq!(describe(&error), text);
        }
        assert_eq!(describe(&crate::call::Error::ACCESS), "Permission denied");
        for text in [
            "",
            " (os error ",
            "a (os error x)",
            "b (os error )",
            "c (os error 1",
        ] {
            assert_eq!(describe(text), text);
        }
    }
}
