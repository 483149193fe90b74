//! Checks that a directory contains files to send.

use std::fs::{self, File};
use std::path::PathBuf;

/// Succeeds if the directory or one below it contains a readable regular file.
pub(super) fn check_files(directory: &str) -> Result<(), String> {
    let entries = fs::read_dir(directory).map_err(|error| sys::describe(&error))?;
    let mut open_directories = vec![entries];
    let mut entries_seen = 0_u32;
    while let Some(entries) = open_directories.last_mut() {
        let Some(entry) = entries.next() else {
            open_directories.pop();
            continue;
        };
        entries_seen += 1;
        if entries_seen > MAX_ENTRIES {
            return Err(format!(
                "no readable file among the first {MAX_ENTRIES} entries"
            ));
        }
        let Ok(entry) = entry else {
            continue;
        };
        let path: PathBuf = entry.path();
        // A link to a file counts as that file. A link to a directory is not followed.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_file = fs::metadata(&path).is_ok_and(|data| data.is_file());
        if is_file && File::open(&path).is_ok() {
            return Ok(());
        }
        if is_directory && let Ok(entries) = fs::read_dir(&path) {
            open_directories.push(entries);
        }
    }
    Err("it contains no readable file".to_owned())
}

/// Maximum number of entries to search; a larger tree takes long and is likely a mistake.
const MAX_ENTRIES: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_looked_for_below_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let name = path.to_str().expect("a name in UTF-8");
        let nothing = check_files(name).expect_err("it is empty");
        assert_eq!(nothing, "it contains no readable file");
        let below = path.join("a/b");
        fs::create_dir_all(&below).expect("a writable temporary directory");
        std::os::unix::fs::symlink(path, below.join("loop"))
            .expect("a writable temporary directory");
        assert!(check_files(name).is_err());
        fs::write(below.join("file"), "x").expect("a writable temporary directory");
        assert_eq!(check_files(name), Ok(()));
        let gone = check_files("/nonexistent").expect_err("it is not there");
        assert!(gone.starts_with("No such file or directory"), "{gone}");
    }
}
