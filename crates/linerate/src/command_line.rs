//! linerate's own command line. The dialects have theirs; here are only their names and where to
//! find their help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::names::{PROGRAMS, Program};
use crate::{histogram, links, manual, run, serve};

/// Measures networks: throughput, latency and loss between two hosts, and what they cost in CPU time.
///
/// It speaks the protocols and the command lines of other tools, as subcommands or called by their
/// names through links.
#[derive(Parser)]
#[command(name = "linerate", version, disable_help_subcommand = false)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure a path, or without HOST this machine, and explain it
    Run(run::Args),
    /// Serve the clients of all dialects in one process
    Serve(Box<serve::Args>),
    /// Show the tests that `linerate serve` is running
    Status(serve::status::Args),
    /// Add up the times in histogram logs, of several hosts or runs
    Histogram(histogram::Args),
    /// Make a symbolic link to this program for each dialect's name
    Links {
        /// Where; what is there already and is no such link stays, and nothing is made
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Write the manual pages of this program and of its dialects
    Man {
        /// Where; the directory is made if it is missing, and pages of these names are replaced
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Runs what `words`, those after the program's name, ask for. Without any it is the short help.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let help = [OsString::from("-h")];
    let words = if words.is_empty() { &help[..] } else { words };
    let program = OsString::from("linerate");
    let parsed = whole()
        .try_get_matches_from(std::iter::once(&program).chain(words))
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
            let mut command_line = whole();
            command_line.build();
            manual::run(&directory, &command_line)
        }
        Err(exit) => {
            // A reader that has had enough is no failure.
            let _ = exit.print();
            ExitCode::from(u8::try_from(exit.exit_code()).unwrap_or(2))
        }
    }
}

/// The command line with its dialects.
fn whole() -> clap::Command {
    PROGRAMS
        .iter()
        .map(dialect)
        .fold(CommandLine::command(), clap::Command::subcommand)
}

/// A dialect's place in the help. Its words never come here: see `main`.
fn dialect(program: &Program) -> clap::Command {
    clap::Command::new(program.name)
        .about(program.about)
        .after_help(format!(
            "The words are {0}'s own, and its help is its own: linerate {0} -h",
            program.name
        ))
        .disable_help_flag(true)
        .arg(clap::Arg::new("WORDS").num_args(0..).trailing_var_arg(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        whole().debug_assert();
    }
}
