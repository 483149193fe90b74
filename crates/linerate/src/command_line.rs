//! linerate's own command line: its commands, and the names of the dialects as subcommands.
//! Each dialect parses its own arguments.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::names::{PROGRAMS, Program};
use crate::{histogram, links, manual, run, serve};

/// Measures throughput, latency and loss between two hosts, and their CPU cost.
///
/// linerate has the protocols and the command lines of other tools: as subcommands, and under their
/// names through symbolic links.
#[derive(Parser)]
#[command(name = "linerate", version, disable_help_subcommand = false)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the path to HOST, or this machine without HOST, and explain the result
    Run(run::Args),
    /// Serve the clients of all dialects in one process
    Serve(Box<serve::Args>),
    /// Show the tests that `linerate serve` is running
    Status(serve::status::Args),
    /// Merge histogram logs of several hosts or runs
    Histogram(histogram::Args),
    /// Create a symbolic link to this program for each dialect's name
    Links {
        /// Directory for the links; it is created if missing. If another file there has the name of a
        /// link, no link is created
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Write the manual pages of this program and of its dialects
    Man {
        /// Directory for the pages; it is created if missing, and existing pages are replaced
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Runs the command in `args`, which exclude the program name. Without arguments, prints the short
/// help.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let help = [OsString::from("-h")];
    let args = if args.is_empty() { &help[..] } else { args };
    let program = OsString::from("linerate");
    let parsed = command_with_dialects()
        .try_get_matches_from(std::iter::once(&program).chain(args))
        .and_then(|matches| CommandLine::from_arg_matches(&matches));
    match parsed {
        Ok(CommandLine {
            command: Command::Run(args),
        }) => run::run(&args),
        Ok(CommandLine {
            command: Command::Serve(args),
        }) => serve::run(&args),
        Ok(CommandLine {
            command: Command::Status(args),
        }) => serve::status::run(&args),
        Ok(CommandLine {
            command: Command::Histogram(args),
        }) => histogram::run(&args),
        Ok(CommandLine {
            command: Command::Links { directory },
        }) => links::run(&directory),
        Ok(CommandLine {
            command: Command::Man { directory },
        }) => {
            let mut command_line = command_with_dialects();
            command_line.build();
            manual::run(&directory, &command_line)
        }
        Err(exit) => {
            let printed = exit.print();
            if !exit.use_stderr() {
                let _ = getopt::record_output_error(printed);
            }
            ExitCode::from(u8::try_from(exit.exit_code()).unwrap_or(2))
        }
    }
}

/// Returns the command line with a subcommand per dialect.
fn command_with_dialects() -> clap::Command {
    PROGRAMS
        .iter()
        .map(dialect_command)
        .fold(CommandLine::command(), clap::Command::subcommand)
}

/// Returns a subcommand that lists the dialect in the help. clap never parses the arguments of a
/// dialect, because `main` runs the dialect first.
fn dialect_command(program: &Program) -> clap::Command {
    clap::Command::new(program.name)
        .about(program.about)
        .after_help(format!(
            "{0} parses its own arguments. For its help, run: linerate {0} -h",
            program.name
        ))
        .disable_help_flag(true)
        .arg(clap::Arg::new("ARGS").num_args(0..).trailing_var_arg(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_with_dialects().debug_assert();
    }
}
