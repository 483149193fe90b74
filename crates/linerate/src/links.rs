//! `linerate links DIR`: a symbolic link to this binary for each of its names.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fmt, fs, os};

use crate::names::PROGRAMS;

/// Makes the links and says on stdout what it made; nothing is made when anything is in the way.
pub(crate) fn run(directory: &Path) -> ExitCode {
    match env::current_exe()
        .map_err(Refusal::NoProgram)
        .and_then(|program| link(directory, &program))
    {
        Ok(made) => {
            // A reader that has had enough is no failure.
            let _ = io::stdout().write_all(made.as_bytes());
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            sys::write_error_line(format_args!("linerate links: {refusal}"));
            ExitCode::FAILURE
        }
    }
}

/// Why there are no links.
enum Refusal {
    NoProgram(io::Error),
    NoDirectory(PathBuf, io::Error),
    InTheWay(PathBuf),
    NotMade(PathBuf, io::Error),
}

fn link(directory: &Path, program: &Path) -> Result<String, Refusal> {
    let unreadable = |error| Refusal::NoDirectory(directory.to_owned(), error);
    let is_directory = fs::metadata(directory).map_err(unreadable)?.is_dir();
    if !is_directory {
        return Err(unreadable(io::ErrorKind::NotADirectory.into()));
    }
    let paths: Vec<PathBuf> = PROGRAMS
        .iter()
        .map(|name| directory.join(name.name))
        .collect();
    if let Some(foreign) = paths
        .iter()
        .find(|path| path.symlink_metadata().is_ok() && !leads_to(path, program))
    {
        return Err(Refusal::InTheWay(foreign.clone()));
    }
    let mut lines = Vec::new();
    for path in &paths {
        let made = if leads_to(path, program) {
            "kept"
        } else {
            os::unix::fs::symlink(program, path)
                .map_err(|error| Refusal::NotMade(path.clone(), error))?;
            "made"
        };
        lines.push(format!(
            "{made} {} -> {}\n",
            path.display(),
            program.display()
        ));
    }
    Ok(lines.concat())
}

/// Whether a path is a symbolic link to the program, by however many steps.
fn leads_to(path: &Path, program: &Path) -> bool {
    path.is_symlink()
        && fs::canonicalize(path)
            .is_ok_and(|end| fs::canonicalize(program).is_ok_and(|program| program == end))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram(error) => write!(
                f,
                "where this program lies is unknown: {}",
                sys::describe(error)
            ),
            Self::NoDirectory(directory, error) => {
                write!(f, "{}: {}", directory.display(), sys::describe(error))
            }
            Self::InTheWay(path) => {
                write!(
                    f,
                    "{} is in the way: it is no link to this program",
                    path.display()
                )
            }
            Self::NotMade(path, error) => write!(
                f,
                "could not make {}: {}",
                path.display(),
                sys::describe(error)
            ),
        }
    }
}
