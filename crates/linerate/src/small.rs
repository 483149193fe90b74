//! linerate's own command line in a build for small machines, without the feature `run`. Its
//! help text is fixed, because it has no argument parser.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use crate::links;
use crate::names::PROGRAMS;

/// Runs the command in `args`, which exclude the program name.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    match words.as_slice() {
        [] | ["-h" | "--help" | "help", ..] => print(&help()),
        ["-V" | "--version"] => print(concat!("linerate ", env!("CARGO_PKG_VERSION"), "\n")),
        ["links", directory] => links::run(Path::new(directory)),
        _ => {
            sys::write_error(format_args!(
                "linerate: no such command: {}\n{}",
                words.join(" "),
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
        "Usage: linerate COMMAND [ARGS]...\n\nCommands:\n{}  links DIR  \
         Create a link in DIR for each of these names\n",
        programs.collect::<String>()
    )
}

fn print(text: &str) -> ExitCode {
    // `main` reports an error.
    let _ = getopt::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
