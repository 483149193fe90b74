//! Files that clients may use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sys::restricted_dir::RestrictedDir;

/// The directories of `--allow-fill-dir`.
#[derive(Debug, Default)]
pub(super) struct FillFiles(Vec<RestrictedDir>);

impl FillFiles {
    /// Opens the directories. The error names the one that cannot be opened.
    pub(super) fn open(directories: &[PathBuf]) -> io::Result<Self> {
        RestrictedDir::open_all("--allow-fill-dir", directories).map(Self)
    }

    /// Opens the file of this name. `None` if it is not a readable regular file below one of the
    /// directories.
    pub(super) fn open_file(&self, name: &Path) -> Option<File> {
        self.0
            .iter()
            .find_map(|root| root.open_file(name).ok().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn only_files_of_allowed_directories_are_read() {
        let [first, second, forbidden] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        for (directory, text) in [(&first, "1"), (&second, "2"), (&forbidden, "no")] {
            std::fs::write(directory.path().join("fill"), text).unwrap();
        }
        let files = FillFiles::open(&[first.path().to_owned(), second.path().to_owned()]).unwrap();
        let text = |directory: &tempfile::TempDir| {
            let mut text = String::new();
            let mut file = files.open_file(&directory.path().join("fill"))?;
            file.read_to_string(&mut text).ok().map(|_| text)
        };
        assert_eq!(text(&first).as_deref(), Some("1"));
        assert_eq!(text(&second).as_deref(), Some("2"));
        assert_eq!(text(&forbidden), None);
        assert!(
            FillFiles::default()
                .open_file(&first.path().join("fill"))
                .is_none()
        );
        let missing = FillFiles::open(&[first.path().join("none")]).unwrap_err();
        assert!(missing.to_string().starts_with("--allow-fill-dir /"));
    }
}
