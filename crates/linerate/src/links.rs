//! `linerate links DIR`: creates a symbolic link to this program for each of its names.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fmt, fs, os};

use crate::names::PROGRAMS;

/// Creates the links and lists them on standard output. Creates none if another file has one of the
/// names.
pub(crate) fn run(directory: &Path) -> ExitCode {
    match env::current_exe()
        .map_err(LinkError::UnknownProgramPath)
        .and_then(|program| create_links(directory, &program))
    {
        Ok(report) => {
            // `main` reports an error.
            let _ = getopt::stdout().write_all(report.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            sys::write_error_line(format_args!("linerate links: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Reason why the links were not created.
enum LinkError {
    UnknownProgramPath(io::Error),
    UnusableDirectory(PathBuf, io::Error),
    PathTaken(PathBuf),
    CannotCreate(PathBuf, io::Error),
}

fn create_links(directory: &Path, program: &Path) -> Result<String, LinkError> {
    fs::create_dir_all(directory)
        .map_err(|error| LinkError::UnusableDirectory(directory.to_owned(), error))?;
    let paths: Vec<PathBuf> = PROGRAMS
        .iter()
        .map(|dialect| directory.join(dialect.name))
        .collect();
    if let Some(taken_path) = paths
        .iter()
        .find(|path| path.symlink_metadata().is_ok() && !links_to(path, program))
    {
        return Err(LinkError::PathTaken(taken_path.clone()));
    }
    let mut lines = Vec::new();
    for path in &paths {
        let action = if links_to(path, program) {
            "kept"
        } else {
            os::unix::fs::symlink(program, path)
                .map_err(|error| LinkError::CannotCreate(path.clone(), error))?;
            "created"
        };
        lines.push(format!(
            "{action} {} -> {}\n",
            path.display(),
            program.display()
        ));
    }
    Ok(lines.concat())
}

/// Returns whether a path is a symbolic link to the program, directly or through other links.
fn links_to(path: &Path, program: &Path) -> bool {
    path.is_symlink()
        && fs::canonicalize(path)
            .is_ok_and(|target| fs::canonicalize(program).is_ok_and(|program| program == target))
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProgramPath(error) => write!(
                f,
                "cannot find the path of this program: {}",
                sys::describe(error)
            ),
            Self::UnusableDirectory(directory, error) => {
                write!(f, "{}: {}", directory.display(), sys::describe(error))
            }
            Self::PathTaken(path) => {
                write!(
                    f,
                    "{} exists and is not a link to this program",
                    path.display()
                )
            }
            Self::CannotCreate(path, error) => write!(
                f,
                "cannot create {}: {}",
                path.display(),
                sys::describe(error)
            ),
        }
    }
}
