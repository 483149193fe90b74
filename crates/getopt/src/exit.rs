//! How a command line ends, if it does not begin a run.

use std::ffi::OsString;
use std::io::Write;
use std::ops::RangeInclusive;
use std::process::ExitCode;

/// The last words of a program, and its exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// For stdout, complete with its last newline.
    pub stdout: String,
    /// For stderr, likewise.
    pub stderr: String,
    /// The process's exit code.
    pub code: u8,
}

/// Why parsing ended early.
#[derive(Debug)]
pub enum Quit {
    /// The usage text is asked for.
    Help,
    /// The version is asked for.
    Version,
    /// getopt's own complaint, a whole line.
    Complaint(String),
    /// A value or a combination that makes no sense; a whole line once it has left [`crate::scan`].
    Refused(String),
    /// The stock tool's own message and exit code.
    Exit(Exit),
}

/// What a command prints for each [`Quit`] that leaves it a choice.
pub struct Endings {
    /// Printed for [`Quit::Help`].
    pub help: Exit,
    /// Printed for [`Quit::Version`].
    pub version: String,
    /// Printed after [`Quit::Complaint`].
    pub complaint: Exit,
}

/// Refuses a value; [`crate::scan`] adds the program, the option and the value.
pub fn refuse<T>(why: impl Into<String>) -> Result<T, Quit> {
    Err(Quit::Refused(why.into()))
}

/// Returns `number`, which a dialect read from `text`, as a `T` if it is within `range`.
pub fn within<T: TryFrom<i64>>(
    text: &str,
    number: Option<i64>,
    range: RangeInclusive<i64>,
) -> Result<T, Quit> {
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

/// Returns the words of a command line, which must be UTF-8.
pub fn utf8(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Vec<String>, Exit> {
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
    /// A text for stdout.
    pub fn stdout(text: impl Into<String>, code: u8) -> Self {
        let stdout = text.into();
        Self {
            stdout,
            code,
            ..Self::default()
        }
    }

    /// A text for stderr.
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
        // A reader that has had enough is no failure.
        let _ = std::io::stdout().write_all(self.stdout.as_bytes());
        let _ = std::io::stderr().write_all(self.stderr.as_bytes());
        ExitCode::from(self.code)
    }
}

impl Quit {
    /// Returns what the program prints, and its exit code.
    pub fn exit(self, endings: Endings) -> Exit {
        match self {
            Self::Help => endings.help,
            Self::Version => Exit::stdout(endings.version, 0),
            Self::Complaint(line) => Exit {
                stderr: line + &endings.complaint.stderr,
                ..endings.complaint
            },
            Self::Refused(line) => Exit::stderr(line, 1),
            Self::Exit(exit) => exit,
        }
    }
}
