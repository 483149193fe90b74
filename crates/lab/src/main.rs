//! `linerate-lab`: runs a command in a temporary test network with two hosts and an impaired link.

#![forbid(unsafe_code)]

mod command_line;
mod host;
mod run;

use std::process::ExitCode;

use clap::Parser;

use command_line::{CommandLine, LabCommand};

/// The exit code for failures of this program itself, the same as that of env(1) and timeout(1).
const FAILURE_EXIT_CODE: u8 = 125;

fn main() -> ExitCode {
    let CommandLine { subcommand } = CommandLine::parse();
    let LabCommand::Netns(arguments) = subcommand;
    match run::run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("lab/netns: {}", sys::describe(&error));
            ExitCode::from(FAILURE_EXIT_CODE)
        }
    }
}
