//! linerate's own command line in a build without the main job, which is one for small machines: no
//! parser, and a help text by hand.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::links;
use crate::names::PROGRAMS;

/// Runs what `words`, those after the program's name, ask for.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let text: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    match text.as_slice() {
        [] | ["-h" | "--help" | "help", ..] => print(&help()),
        ["-V" | "--version"] => print(concat!("linerate ", env!("CARGO_PKG_VERSION"), "\n")),
        ["links", directory] => links::run(Path::new(directory)),
        _ => {
            sys::write_error(format_args!(
                "linerate: no such command: {}\n{}",
                text.join(" "),
                help()
            ));
            ExitCode::from(2)
        }
    }
}

fn help() -> String {
    let programs = PROGRAMS
        .iter()
        .map(|program| format!("  {:<9}  {}\n", program.name, program.about));
    format!(
        "Usage: linerate COMMAND [WORDS]...\n\nCommands:\n{}  links DIR  Make a link in DIR for each of these names\n",
        programs.collect::<String>()
    )
}

fn print(text: &str) -> ExitCode {
    // A reader that has had enough is no failure.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
