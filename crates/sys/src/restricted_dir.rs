//! Files below a directory and nowhere else, whatever a name says: openat2(2), since Linux 5.6.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A directory that others may name files below.
#[derive(Debug)]
pub struct Root {
    /// The name without links.
    name: PathBuf,
    /// The name that was given.
    given: PathBuf,
    directory: OwnedFd,
}

/// As many directories within each other are looked into.
const DEPTH: usize = 16;

/// As many names are read in one search.
const NAMES: usize = 65_536;

/// A search for files.
struct Search<'a> {
    root: &'a Root,
    files: Vec<File>,
    most: usize,
    /// Names that it may still read.
    names: usize,
}

impl Root {
    /// The directory of this name.
    pub fn open(given: &Path) -> io::Result<Self> {
        let name = given.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &name, flags, Mode::empty())?;
        let root = Self {
            name,
            given: given.to_owned(),
            directory,
        };
        match root.open_below(Path::new("."), OFlags::DIRECTORY) {
            Err(Errno::NOSYS) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel has no openat2(2), by which names are kept below it",
            )),
            other => other.map(|_| root).map_err(io::Error::from),
        }
    }

    /// Opens the directories of an option. The error names the one that cannot be opened.
    pub fn open_all(option: &str, directories: &[PathBuf]) -> io::Result<Vec<Self>> {
        let roots = directories.iter().map(|directory| {
            Self::open(directory).map_err(|error| {
                let (name, why) = (directory.display(), crate::describe(&error));
                io::Error::new(error.kind(), format!("{option} {name}: {why}"))
            })
        });
        roots.collect()
    }

    /// The regular files that can be read in a directory of this name and below it, in the order of their
    /// names, the first `most`; `None` if the name is of nothing below this one. No link is followed.
    pub fn files(&self, name: &Path, most: usize) -> io::Result<Option<Vec<File>>> {
        let Some(below) = self.below(name) else {
            return Ok(None);
        };
        let mut search = Search {
            root: self,
            files: Vec::new(),
            most,
            names: NAMES,
        };
        match search.find(&below, DEPTH) {
            // Out of it by `..` or a link.
            Err(Errno::XDEV | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(()) if search.names == 0 => {
                let words = format!("{NAMES} names or more below it");
                Err(io::Error::new(io::ErrorKind::QuotaExceeded, words))
            }
            Ok(()) => Ok(Some(search.files)),
        }
    }

    /// Opens the regular file of this name for reading; `None` if the name leads out of this directory or to
    /// anything but a regular file. No link is followed.
    ///
    /// The name is looked up once, and no FIFO or device is opened.
    pub fn file(&self, name: &Path) -> io::Result<Option<File>> {
        let Some(below) = self.below(name) else {
            return Ok(None);
        };
        let entry = match self.open_below(&below, OFlags::PATH) {
            // Out of it by `..` or a link.
            Err(Errno::XDEV | Errno::LOOP) => return Ok(None),
            other => other?,
        };
        if kind(&entry)? != FileType::RegularFile {
            return Ok(None);
        }
        Ok(Some(readable(&entry)?))
    }

    /// The name relative to this directory; `None` if it does not begin with this directory's name.
    fn below(&self, name: &Path) -> Option<PathBuf> {
        let below = name
            .strip_prefix(&self.name)
            .or_else(|_| name.strip_prefix(&self.given))
            .ok()
            .filter(|_| name.is_absolute())?;
        Some(Path::new(".").join(below))
    }

    fn open_below(&self, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.directory, name, flags, Mode::empty(), resolve)
    }
}

impl Search<'_> {
    fn find(&mut self, name: &Path, depth: usize) -> Result<(), Errno> {
        let directory = self.root.open_below(name, OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(directory.as_fd())? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if bytes != b"." && bytes != b".." {
                self.names = self.names.saturating_sub(1);
                if self.names == 0 {
                    return Ok(());
                }
                names.push(name.join(std::ffi::OsStr::from_bytes(bytes)));
            }
        }
        names.sort();
        for name in names {
            if self.files.len() >= self.most || self.names == 0 {
                break;
            }
            // What is no file, or cannot be read, is passed over.
            let Ok(entry) = self.root.open_below(&name, OFlags::PATH) else {
                continue;
            };
            match kind(&entry) {
                Ok(FileType::RegularFile) => self.files.extend(readable(&entry).ok()),
                Ok(FileType::Directory) if depth > 0 => {
                    let _ = self.find(&name, depth - 1);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Opens an entry (O_PATH) for reading, whatever its name refers to by now. Opening a device or a FIFO has effects,
/// so the caller has checked the kind.
fn readable(entry: &OwnedFd) -> Result<File, Errno> {
    let itself = format!("/proc/thread-self/fd/{}", entry.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(itself, flags, Mode::empty())?.into())
}

fn kind(entry: &OwnedFd) -> Result<FileType, Errno> {
    let status = rustix::fs::fstat(entry)?;
    Ok(FileType::from_raw_mode(status.st_mode))
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
    fn one_file_is_read_by_its_name() {
        let (outside, root) = tree();
        let named = |name: &str| {
            let file = root.file(&root.name.join(name));
            file.ok().flatten().map(|file| texts(Some(vec![file])))
        };
        let text = |text: &str| Some(Some(vec![text.to_owned()]));
        assert_eq!(named("z"), text("last"));
        assert_eq!(named("a/../a/b/1"), text("one"));
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
            assert_eq!(named(name), None, "{name}");
        }
        assert!(root.file(Path::new("z")).unwrap().is_none());

        // A name that leads to the directory by a link is as good as its own.
        let through = outside.path().join("through");
        symlink(&root.name, &through).unwrap();
        let root = Root::open(&through).unwrap();
        for directory in [&root.name, &through] {
            let file = root.file(&directory.join("z")).unwrap();
            assert_eq!(
                texts(file.map(|file| vec![file])),
                Some(vec!["last".to_owned()])
            );
        }
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let (outside, root) = tree();
        let fifo = outside.path().join("root/fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let watch = inotify_of_opens(&fifo);
        let all = root.files(&root.name, 9).unwrap();
        assert_eq!(texts(all).unwrap(), ["two", "one", "last"]);
        assert!(root.file(&root.name.join("fifo")).unwrap().is_none());
        let mut events = [0; 4096];
        let seen = rustix::io::read(&watch, &mut events);
        assert_eq!(seen, Err(Errno::AGAIN), "it was opened");
    }

    fn inotify_of_opens(file: &Path) -> OwnedFd {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        add_watch(&watch, file, WatchFlags::OPEN).unwrap();
        watch
    }

    #[test]
    fn a_search_reads_so_many_names() {
        let (_outside, root) = tree();
        // `a`, `2`, `b`, `1`, `link`, `out`, `z`.
        for (names, found) in [(8, 3), (7, 1), (1, 0)] {
            let mut search = Search {
                root: &root,
                files: Vec::new(),
                most: 9,
                names,
            };
            assert_eq!(search.find(Path::new("."), DEPTH), Ok(()));
            assert_eq!((search.files.len(), search.names == 0), (found, names < 8));
        }
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
