//! Whether there is something to send in a directory.

use std::fs::{self, File};
use std::path::PathBuf;

/// Whether a regular file that can be read is in the directory or below it; if not, why.
pub(super) fn has_files(directory: &str) -> Result<(), String> {
    let entries = fs::read_dir(directory).map_err(|error| sys::describe(&error))?;
    let mut open = vec![entries];
    let mut looked_at = 0_u32;
    while let Some(entries) = open.last_mut() {
        let Some(entry) = entries.next() else {
            open.pop();
            continue;
        };
        looked_at += 1;
        if looked_at > MOST {
            return Err(format!("no file that can be read among the first {MOST}"));
        }
        let Ok(entry) = entry else {
            continue;
        };
        let path: PathBuf = entry.path();
        // Of a link that of what it links to; but no directory is entered by a link.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_file = fs::metadata(&path).is_ok_and(|data| data.is_file());
        if is_file && File::open(&path).is_ok() {
            return Ok(());
        }
        if is_directory && let Ok(below) = fs::read_dir(&path) {
            open.push(below);
        }
    }
    Err("there is no file in it that can be read".to_owned())
}

/// A tree without a readable file in so many entries is a slip, and takes long to walk.
const MOST: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_looked_for_below_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let name = path.to_str().expect("a name in UTF-8");
        let nothing = has_files(name).expect_err("it is empty");
        assert_eq!(nothing, "there is no file in it that can be read");
        let below = path.join("a/b");
        fs::create_dir_all(&below).expect("ours");
        std::os::unix::fs::symlink(path, below.join("loop")).expect("ours");
        assert!(has_files(name).is_err());
        fs::write(below.join("file"), "x").expect("ours");
        assert_eq!(has_files(name), Ok(()));
        let gone = has_files("/nonexistent").expect_err("it is not there");
        assert!(gone.starts_with("No such file or directory"), "{gone}");
    }
}
