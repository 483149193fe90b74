//! Access to files below a directory by names from other hosts. openat2(2) ensures that no name
//! leads out of the directory; it exists since Linux 5.6.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A directory with files that peers may name.
#[derive(Debug)]
pub struct RestrictedDir {
    /// Absolute path without links.
    canonical_path: PathBuf,
    /// Path as the user gave it.
    given_path: PathBuf,
    directory: OwnedFd,
}

/// Maximum depth of nested directories in a search.
const MAX_DEPTH: usize = 16;

/// Maximum number of names that one search reads.
const MAX_NAMES: usize = 65_536;

/// A search for files.
struct Search<'a> {
    root: &'a RestrictedDir,
    files: Vec<File>,
    max_files: usize,
    /// Names that the search may still read.
    remaining_names: usize,
}

impl RestrictedDir {
    /// Opens a directory. Fails with `Unsupported` if the kernel lacks openat2(2).
    pub fn open(given_path: &Path) -> io::Result<Self> {
        let canonical_path = given_path.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &canonical_path, flags, Mode::empty())?;
        let root = Self {
            canonical_path,
            given_path: given_path.to_owned(),
            directory,
        };
        match root.open_below(Path::new("."), OFlags::DIRECTORY) {
            Err(Errno::NOSYS) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel lacks openat2(2) of Linux 5.6, which restricts names to a directory",
            )),
            other => other.map(|_| root).map_err(io::Error::from),
        }
    }

    /// Opens the directories of an option. An error includes the option and the directory.
    pub fn open_all(option: &str, directories: &[PathBuf]) -> io::Result<Vec<Self>> {
        let roots = directories.iter().map(|directory| {
            Self::open(directory).map_err(|error| {
                let (path, reason) = (directory.display(), crate::describe(&error));
                io::Error::new(error.kind(), format!("{option} {path}: {reason}"))
            })
        });
        roots.collect()
    }

    /// Opens the readable regular files in the directory `name` and below, sorted by name, at most
    /// `max_files`. Returns `None` if the name leads out of this directory. Does not follow links.
    pub fn open_files(&self, name: &Path, max_files: usize) -> io::Result<Option<Vec<File>>> {
        let Some(relative_path) = self.relative_path(name) else {
            return Ok(None);
        };
        let mut search = Search {
            root: self,
            files: Vec::new(),
            max_files,
            remaining_names: MAX_NAMES,
        };
        match search.add_files_of(&relative_path, MAX_DEPTH) {
            // The name leads out by `..`, or contains a link.
            Err(Errno::XDEV | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(()) if search.remaining_names == 0 => {
                let message = format!("it contains {MAX_NAMES} names or more");
                Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
            }
            Ok(()) => Ok(Some(search.files)),
        }
    }

    /// Opens a regular file for reading. Returns `None` if the name leads out of this directory or
    /// is not a regular file. Does not follow links.
    ///
    /// The name is looked up only once. FIFOs and devices are not opened.
    pub fn open_file(&self, name: &Path) -> io::Result<Option<File>> {
        let Some(relative_path) = self.relative_path(name) else {
            return Ok(None);
        };
        let entry = match self.open_below(&relative_path, OFlags::PATH) {
            // The name leads out by `..`, or contains a link.
            Err(Errno::XDEV | Errno::LOOP) => return Ok(None),
            other => other?,
        };
        if file_type(&entry)? != FileType::RegularFile {
            return Ok(None);
        }
        Ok(Some(reopen_for_reading(&entry)?))
    }

    /// Returns a name relative to this directory; `None` if it does not begin with this directory's
    /// path.
    fn relative_path(&self, name: &Path) -> Option<PathBuf> {
        let suffix = name
            .strip_prefix(&self.canonical_path)
            .or_else(|_| name.strip_prefix(&self.given_path))
            .ok()
            .filter(|_| name.is_absolute())?;
        Some(Path::new(".").join(suffix))
    }

    fn open_below(&self, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.directory, name, flags, Mode::empty(), resolve)
    }
}

impl Search<'_> {
    fn add_files_of(&mut self, name: &Path, depth: usize) -> Result<(), Errno> {
        let directory = self.root.open_below(name, OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(directory.as_fd())? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if bytes != b"." && bytes != b".." {
                self.remaining_names = self.remaining_names.saturating_sub(1);
                if self.remaining_names == 0 {
                    return Ok(());
                }
                names.push(name.join(std::ffi::OsStr::from_bytes(bytes)));
            }
        }
        names.sort();
        for name in names {
            if self.files.len() >= self.max_files || self.remaining_names == 0 {
                break;
            }
            // Unreadable entries and special files are skipped.
            let Ok(entry) = self.root.open_below(&name, OFlags::PATH) else {
                continue;
            };
            match file_type(&entry) {
                Ok(FileType::RegularFile) => self.files.extend(reopen_for_reading(&entry).ok()),
                Ok(FileType::Directory) if depth > 0 => {
                    let _ = self.add_files_of(&name, depth - 1);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Opens an entry (O_PATH) for reading, even if its name now refers to another file. The caller
/// must check the type first, because opening a device or a FIFO has side effects.
fn reopen_for_reading(entry: &OwnedFd) -> Result<File, Errno> {
    let proc_path = format!("/proc/thread-self/fd/{}", entry.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(proc_path, flags, Mode::empty())?.into())
}

fn file_type(entry: &OwnedFd) -> Result<FileType, Errno> {
    let status = rustix::fs::fstat(entry)?;
    Ok(FileType::from_raw_mode(status.st_mode))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a directory that contains the root, and files outside the root that must not be
    /// read.
    fn create_tree() -> (tempfile::TempDir, RestrictedDir) {
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
        let root = RestrictedDir::open(&path.join("root")).unwrap();
        (outside, root)
    }

    fn read_texts(files: Option<Vec<File>>) -> Option<Vec<String>> {
        let text = |mut file: File| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        };
        files.map(|files| files.into_iter().map(text).collect())
    }

    #[test]
    fn files_are_found_in_order_and_no_link_is_followed() {
        let (_outside, root) = create_tree();
        let files = root.open_files(&root.canonical_path, 9).unwrap();
        assert_eq!(read_texts(files).unwrap(), ["two", "one", "last"]);
        let first_file = root.open_files(&root.canonical_path.join("a"), 1).unwrap();
        assert_eq!(read_texts(first_file).unwrap(), ["two"]);
        let missing = root
            .open_files(&root.canonical_path.join("gone"), 9)
            .unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn one_file_is_read_by_its_name() {
        let (outside, root) = create_tree();
        let read_by_name = |name: &str| {
            let file = root.open_file(&root.canonical_path.join(name));
            file.ok().flatten().map(|file| read_texts(Some(vec![file])))
        };
        let text = |text: &str| Some(Some(vec![text.to_owned()]));
        assert_eq!(read_by_name("z"), text("last"));
        assert_eq!(read_by_name("a/../a/b/1"), text("one"));
        for name in [
            "",
            "a",
            "gone",
            "a/link",
            "out/secret",
            "../secret",
            "/etc/passwd",
            "a/../../secret",
        ] {
            assert_eq!(read_by_name(name), None, "{name}");
        }
        assert!(root.open_file(Path::new("z")).unwrap().is_none());

        // A path that leads to the directory through a link is accepted too.
        let link = outside.path().join("through");
        symlink(&root.canonical_path, &link).unwrap();
        let root = RestrictedDir::open(&link).unwrap();
        for directory in [&root.canonical_path, &link] {
            let file = root.open_file(&directory.join("z")).unwrap();
            assert_eq!(
                read_texts(file.map(|file| vec![file])),
                Some(vec!["last".to_owned()])
            );
        }
    }

    #[test]
    fn a_fifo_is_not_opened() {
        let (outside, root) = create_tree();
        let fifo = outside.path().join("root/fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let watch = inotify_of_opens(&fifo);
        let files = root.open_files(&root.canonical_path, 9).unwrap();
        assert_eq!(read_texts(files).unwrap(), ["two", "one", "last"]);
        assert!(
            root.open_file(&root.canonical_path.join("fifo"))
                .unwrap()
                .is_none()
        );
        let mut events = [0; 4096];
        let seen = rustix::io::read(&watch, &mut events);
        assert_eq!(seen, Err(Errno::AGAIN), "the FIFO was opened");
    }

    fn inotify_of_opens(file: &Path) -> OwnedFd {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        add_watch(&watch, file, WatchFlags::OPEN).unwrap();
        watch
    }

    #[test]
    fn a_search_stops_at_its_limit_of_names() {
        let (_outside, root) = create_tree();
        // The tree has seven names: `a`, `2`, `b`, `1`, `link`, `out`, `z`.
        for (max_names, found_files) in [(8, 3), (7, 1), (1, 0)] {
            let mut search = Search {
                root: &root,
                files: Vec::new(),
                max_files: 9,
                remaining_names: max_names,
            };
            assert_eq!(search.add_files_of(Path::new("."), MAX_DEPTH), Ok(()));
            assert_eq!(
                (search.files.len(), search.remaining_names == 0),
                (found_files, max_names < 8)
            );
        }
    }

    #[test]
    fn no_name_leads_out() {
        let (outside, root) = create_tree();
        let read_below =
            |name: &str| read_texts(root.open_files(&root.canonical_path.join(name), 9).unwrap());
        for name in ["..", "../", "a/../..", "out", "out/root", "/", "/etc"] {
            assert_eq!(read_below(name), None, "{name}");
        }
        assert_eq!(
            read_texts(root.open_files(outside.path(), 9).unwrap()),
            None
        );
        assert_eq!(
            read_texts(root.open_files(Path::new("root"), 9).unwrap()),
            None
        );
        let sibling = root.canonical_path.with_file_name("root-and-more");
        assert_eq!(read_texts(root.open_files(&sibling, 9).unwrap()), None);
        assert_eq!(read_below("a/../a/b"), Some(vec!["one".to_owned()]));
    }
}
