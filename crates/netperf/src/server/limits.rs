//! Which files a client may name.

use std::path::{Path, PathBuf};

use crate::options::Limits;

impl Limits {
    /// The file, if it lies in a directory that was allowed; links are followed first.
    pub(super) fn allowed_file(&self, file: &Path) -> Option<PathBuf> {
        let file = file.canonicalize().ok()?;
        self.fill_directories
            .iter()
            .filter_map(|directory| directory.canonicalize().ok())
            .any(|directory| file.starts_with(directory))
            .then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_allowed_directories_are_read() {
        let allowed = tempdir("allowed");
        let other = tempdir("other");
        std::fs::write(allowed.join("fill"), b"x").unwrap();
        std::fs::write(other.join("secret"), b"x").unwrap();
        std::os::unix::fs::symlink(other.join("secret"), allowed.join("link")).unwrap();
        let limits = Limits {
            fill_directories: vec![allowed.clone()],
            ..Limits::default()
        };
        assert!(limits.allowed_file(&allowed.join("fill")).is_some());
        for refused in [
            allowed.join("link"),
            allowed.join("missing"),
            allowed
                .join("../")
                .join(other.file_name().unwrap())
                .join("secret"),
            other.join("secret"),
        ] {
            assert_eq!(limits.allowed_file(&refused), None, "{}", refused.display());
        }
        assert_eq!(Limits::default().allowed_file(&allowed.join("fill")), None);
        for directory in [allowed, other] {
            std::fs::remove_dir_all(directory).unwrap();
        }
    }

    fn tempdir(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("linerate-limits-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}
