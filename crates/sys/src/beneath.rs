//! Files below a directory and nowhere else, whatever a name says: openat2(2), since Linux 5.6.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A directory that others may name files below.
#[derive(Debug)]
pub struct Root {
    name: PathBuf,
    directory: OwnedFd,
}

/// As many directories within each other are looked into.
const DEPTH: usize = 16;

impl Root {
    /// The directory of this name.
    pub fn open(name: &Path) -> io::Result<Self> {
        let name = name.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &name, flags, Mode::empty())?;
        let root = Self { name, directory };
        match root.open_below(Path::new("."), OFlags::DIRECTORY) {
            Err(Errno::NOSYS) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel has no openat2(2), by which names are kept below it",
            )),
            other => other.map(|_| root).map_err(io::Error::from),
        }
    }

    /// The regular files that can be read in a directory of this name and below it, in the order of their
    /// names, the first `most`; `None` if the name is of nothing below this one. No link is followed.
    pub fn files(&self, name: &Path, most: usize) -> io::Result<Option<Vec<File>>> {
        let Ok(below) = name.strip_prefix(&self.name) else {
            return Ok(None);
        };
        let below = Path::new(".").join(below);
        let mut files = Vec::new();
        match self.find(&below, DEPTH, most, &mut files) {
            // Out of it by `..` or a link.
            Err(Errno::XDEV | Errno::LOOP) => Ok(None),
            found => found.map(|()| Some(files)).map_err(io::Error::from),
        }
    }

    fn find(
        &self,
        name: &Path,
        depth: usize,
        most: usize,
        files: &mut Vec<File>,
    ) -> Result<(), Errno> {
        let directory = self.open_below(name, OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(directory.as_fd())? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if bytes != b"." && bytes != b".." {
                names.push(name.join(std::ffi::OsStr::from_bytes(bytes)));
            }
        }
        names.sort();
        for name in names {
            if files.len() >= most {
                break;
            }
            // What is no file, or cannot be read, is passed over.
            let Ok(entry) = self.open_below(&name, OFlags::NONBLOCK) else {
                continue;
            };
            let Ok(status) = rustix::fs::fstat(&entry) else {
                continue;
            };
            match FileType::from_raw_mode(status.st_mode) {
                FileType::RegularFile => files.push(entry.into()),
                FileType::Directory if depth > 0 => {
                    let _ = self.find(&name, depth - 1, most, files);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn open_below(&self, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.directory, name, flags, Mode::empty(), resolve)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory with the root in it, and beside that what must not be read.
    fn tree() -> (tempfile::TempDir, Root) {
        let outside = tempfile::tempdir().unwrap();
        let path = outside.path();
        fs::create_dir_all(path.join("root/a/b")).unwrap();
        for (file, text) in [
            ("secret", "no"),
            ("root/a/2", "two"),
            ("root/a/b/1", "one"),
            ("root/z", "last"),
        ] {
            fs::write(path.join(file), text).unwrap();
        }
        symlink(path.join("secret"), path.join("root/a/link")).unwrap();
        symlink(path, path.join("root/out")).unwrap();
        let root = Root::open(&path.join("root")).unwrap();
        (outside, root)
    }

    fn texts(files: Option<Vec<File>>) -> Option<Vec<String>> {
        let text = |mut file: File| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        };
        files.map(|files| files.into_iter().map(text).collect())
    }

    #[test]
    fn files_are_found_in_order_and_no_link_is_followed() {
        let (_outside, root) = tree();
        let all = root.files(&root.name, 9).unwrap();
        assert_eq!(texts(all).unwrap(), ["two", "one", "last"]);
        let some = root.files(&root.name.join("a"), 1).unwrap();
        assert_eq!(texts(some).unwrap(), ["two"]);
        let gone = root.files(&root.name.join("gone"), 9).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn no_name_leads_out() {
        let (outside, root) = tree();
        let named = |name: &str| texts(root.files(&root.name.join(name), 9).unwrap());
        for name in ["..", "../", "a/../..", "out", "out/root", "/", "/etc"] {
            assert_eq!(named(name), None, "{name}");
        }
        assert_eq!(texts(root.files(outside.path(), 9).unwrap()), None);
        assert_eq!(texts(root.files(Path::new("root"), 9).unwrap()), None);
        let beside = root.name.with_file_name("root-and-more");
        assert_eq!(texts(root.files(&beside, 9).unwrap()), None);
        assert_eq!(named("a/../a/b"), Some(vec!["one".to_owned()]));
    }
}
