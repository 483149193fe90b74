//! The exit of a program whose command line starts no run: help, version or an error.

use std::ffi::OsString;
use std::io::Write;
use std::ops::RangeInclusive;
use std::process::ExitCode;

/// A program's last output and its exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// The text for stdout, including the final newline.
    pub stdout: String,
    /// The text for stderr, including the final newline.
    pub stderr: String,
    /// The process's exit code.
    pub code: u8,
}

/// The reason why parsing ended early.
#[derive(Debug)]
pub enum EarlyExit {
    /// An option requested the usage text.
    Help,
    /// An option requested the version.
    Version,
    /// getopt's error message. [`crate::scan`] completes it to a line.
    SyntaxError(String),
    /// The reason why a value or a combination is invalid. [`crate::scan`] completes it to a line.
    Refused(String),
    /// The stock tool's own message and exit code.
    Exit(Exit),
}

/// The texts of a command that [`EarlyExit::into_exit`] needs.
pub struct ExitTexts {
    /// Printed for [`EarlyExit::Help`].
    pub help: Exit,
    /// Printed for [`EarlyExit::Version`].
    pub version: String,
    /// Printed after the message of [`EarlyExit::SyntaxError`].
    pub syntax_error: Exit,
}

/// Refuses a value for `reason`. [`crate::scan`] adds the program, the option and the value.
pub fn refuse<T>(reason: impl Into<String>) -> Result<T, EarlyExit> {
    Err(EarlyExit::Refused(reason.into()))
}

/// Returns `number` as a `T` if it is within `range`.
///
/// `number` is the result of parsing `text`; `None` means that `text` is not a number.
pub fn check_range<T: TryFrom<i64>>(
    text: &str,
    number: Option<i64>,
    range: RangeInclusive<i64>,
) -> Result<T, EarlyExit> {
    let Some(number) = number else {
        return refuse(format!("'{text}' is not a number"));
    };
    match T::try_from(number) {
        Ok(value) if range.contains(&number) => Ok(value),
        _ => refuse(format!(
            "{number} is not from {} to {}",
            range.start(),
            range.end()
        )),
    }
}

/// Returns the words of a command line. Fails with exit code 1 if one is not UTF-8.
pub fn utf8_words(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Vec<String>, Exit> {
    let refusal = |arg: OsString| {
        let arg = arg.display();
        Exit::stderr(
            format!("{program}: argument '{arg}' is not valid UTF-8\n"),
            1,
        )
    };
    args.into_iter()
        .map(|arg| arg.into_string().map_err(refusal))
        .collect()
}

impl Exit {
    /// Returns an exit that prints `text` on stdout.
    pub fn stdout(text: impl Into<String>, code: u8) -> Self {
        let stdout = text.into();
        Self {
            stdout,
            code,
            ..Self::default()
        }
    }

    /// Returns an exit that prints `text` on stderr.
    pub fn stderr(text: impl Into<String>, code: u8) -> Self {
        let stderr = text.into();
        Self {
            stderr,
            code,
            ..Self::default()
        }
    }

    /// Prints both texts and returns the code.
    pub fn print(&self) -> ExitCode {
        // `take_output_error` returns the error.
        let _ = crate::stdout().write_all(self.stdout.as_bytes());
        let _ = std::io::stderr().write_all(self.stderr.as_bytes());
        ExitCode::from(self.code)
    }
}

impl EarlyExit {
    /// Returns the output and the exit code, with the command's `texts` where needed.
    pub fn into_exit(self, texts: ExitTexts) -> Exit {
        match self {
            Self::Help => texts.help,
            Self::Version => Exit::stdout(texts.version, 0),
            Self::SyntaxError(line) => Exit {
                stderr: line + &texts.syntax_error.stderr,
                ..texts.syntax_error
            },
            Self::Refused(line) => Exit::stderr(line, 1),
            Self::Exit(exit) => exit,
        }
    }
}
