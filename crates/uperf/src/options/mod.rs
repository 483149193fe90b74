//! argv of `uperf` → [`Settings`], in the stock tool's getopt grammar.
//!
//! One table ([`table`]) drives the parser, the usage text ([`usage`]) and the manual ([`manual`]). It
//! yields what was typed; [`settings`] says what comes of it.

mod counter;
pub mod manual;
mod network;
mod settings;
mod table;
mod usage;
mod value;

use std::ffi::OsString;

use getopt::scan;

pub use counter::Counter;
pub use network::Network;
pub use settings::{Limits, Master, Print, Role, Settings, Tls};
use table::Typed;

/// Why parsing ended early.
type Stop = getopt::Stop<Exit>;

/// How a program ends: what is left to print, and the exit code. A command line can end so before
/// there is anything to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// For stdout, complete with its last newline.
    pub stdout: String,
    /// For stderr, likewise.
    pub stderr: String,
    /// The process's exit code.
    pub code: u8,
}

/// What the command line asks for. `program` is argv\[0\], `args` the words after it.
pub fn uperf(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Settings, Exit> {
    let words = utf8(program, args)?;
    if words.is_empty() {
        return Err(usage_after(program, ""));
    }
    let mut typed = Typed::default();
    let rest =
        scan(program, &table::SECTION, &words, &mut typed).map_err(|stop| ended(program, stop))?;
    let behind = rest.behind.iter().map(String::as_str);
    if let Some(word) = rest.stray.into_iter().chain(behind).next() {
        return Err(refusal(format!(
            "{program}: '{word}' belongs to no option; a profile is named with -m\n"
        )));
    }
    settings::settings(program, typed)
}

fn ended(program: &str, stop: Stop) -> Exit {
    match stop {
        Stop::Help => Exit {
            stdout: usage::text(program),
            ..Exit::default()
        },
        Stop::Version => Exit {
            stdout: usage::version(),
            ..Exit::default()
        },
        Stop::Complaint(line) => Exit {
            stderr: line,
            ..usage_after(program, "")
        },
        Stop::Refused(line) => refusal(line),
        Stop::Exit(exit) => exit,
    }
}

/// What the stock tool prints when it cannot tell what is wanted: a line, if any, and its usage text.
fn usage_after(program: &str, line: &str) -> Exit {
    Exit {
        stdout: line.to_owned() + &usage::text(program),
        code: 1,
        ..Exit::default()
    }
}

fn refusal(stderr: String) -> Exit {
    Exit {
        stderr,
        code: 1,
        ..Exit::default()
    }
}

fn utf8(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Vec<String>, Exit> {
    args.into_iter()
        .map(|arg| {
            arg.into_string().map_err(|arg| {
                let arg = arg.display();
                refusal(format!("{program}: argument '{arg}' is not valid UTF-8\n"))
            })
        })
        .collect()
}
