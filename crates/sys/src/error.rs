//! Error texts and messages on standard error.

use std::fmt::{Arguments, Display};
use std::io::{IsTerminal, Write};

use model::Warning;

/// Writes a line to standard error with [`write_error`].
pub fn write_error_line(line: Arguments<'_>) {
    write_error(format_args!("{line}\n"));
}

/// Writes a text to standard error with one write(2), so that the lines of several processes do not
/// mix. Ignores failures; `eprint!` would panic if the reader has closed the pipe.
pub fn write_error(text: Arguments<'_>) {
    let _ = std::io::stderr().write_all(text.to_string().as_bytes());
}

/// Prints a result's warnings on standard error and returns their exit code, which is 0 unless
/// `strict`.
///
/// Scripts written for the stock tool may take any line there for a failure. So without `strict`,
/// linerate prints only warnings about requests that it did not carry out. A terminal gets all
/// warnings.
pub fn report_warnings(program: &str, warnings: &[Warning], strict: bool) -> u8 {
    /// Exit code of a result with warnings under `strict`.
    const WARNINGS_EXIT_CODE: u8 = 3;
    let shows_all = strict || std::io::stderr().is_terminal();
    for warning in warnings {
        if shows_all || warning.is_unmet_request() {
            write_error_line(format_args!("{program}: {warning}"));
        }
    }
    if strict && !warnings.is_empty() {
        WARNINGS_EXIT_CODE
    } else {
        0
    }
}

/// Returns the text of an error without the number that the standard library adds: `Connection
/// refused` for `Connection refused (os error 111)`. The numbers of quoted errors are removed too.
pub fn describe(error: &(impl Display + ?Sized)) -> String {
    let mut text = error.to_string();
    let mut search_start = 0;
    while let Some(position) = text[search_start..].find(ERROR_NUMBER_PREFIX) {
        let start = search_start + position;
        let digits_start = start + ERROR_NUMBER_PREFIX.len();
        let end = text[digits_start..].find(|digit: char| !digit.is_ascii_digit());
        match end.map(|end| digits_start + end) {
            Some(end) if end > digits_start && text[end..].starts_with(')') => {
                text.replace_range(start..=end, "");
                search_start = start;
            }
            _ => search_start = digits_start,
        }
    }
    text
}

const ERROR_NUMBER_PREFIX: &str = " (os error ";

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
