//! A file that is there whole, or as it was before.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file that is to be written: what cannot be had is known before there is something to write.
#[derive(Debug)]
pub(crate) struct WholeFile {
    path: PathBuf,
    beside: NamedTempFile,
}

impl WholeFile {
    /// Makes a file beside the one that is meant, which goes again if nothing is written.
    pub(crate) fn begin(path: &Path) -> io::Result<Self> {
        // What a link leads to is meant, and not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("it is no regular file"));
        }
        let directory = match path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        // As files are made: for all whom the umask lets.
        let beside = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map_err(|error| error.kind())?;
        Ok(Self { path, beside })
    }

    /// Writes it, and puts it in its place.
    pub(crate) fn write(mut self, text: &str) -> io::Result<()> {
        self.beside.write_all(text.as_bytes())?;
        self.beside.persist(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_whole_or_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page.html");
        fs::write(&path, "before").unwrap();
        drop(WholeFile::begin(&path).unwrap());
        let file = WholeFile::begin(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        file.write("after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let directory = tempfile::tempdir().unwrap();
        for path in ["", "missing/page.html"] {
            let path = directory.path().join(path);
            assert!(WholeFile::begin(&path).is_err(), "{}", path.display());
        }
        assert!(WholeFile::begin(Path::new("/dev/null")).is_err());
    }
}
