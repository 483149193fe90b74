//! `linerate-lab`: a command between two hosts and an impaired link, all of which are gone after it.

#![forbid(unsafe_code)]

mod command_line;
mod host;
mod run;

use std::process::ExitCode;

use clap::Parser;

use command_line::{CommandLine, Part};

/// What this program fails with itself, as env(1) and timeout(1) do.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let CommandLine { part } = CommandLine::parse();
    let Part::Netns(arguments) = part;
    match run::run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("lab/netns: {}", sys::describe(&error));
            ExitCode::from(FAILED)
        }
    }
}
