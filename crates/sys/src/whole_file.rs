//! Files that a user names for output.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A file to write under a name that a user gave.
///
/// Whoever reads the name sees the old contents, or all of the new ones: a regular file is written
/// beside the old one and renamed over it. It keeps the old one's permissions. Another user may have
/// put a symbolic link where it is to be; the link is not followed, but refused. Devices, FIFOs and
/// the process's own descriptors (`/dev/stdout`, `/dev/fd/N`) are written to directly.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// The file to rename; `None` where the name is written to directly.
    beside: Option<Beside>,
}

/// A file that is to be renamed; it is removed if it was not.
#[derive(Debug)]
struct Beside {
    path: PathBuf,
    target: PathBuf,
}

impl WholeFile {
    /// Opens what is to be written. The name keeps what it has until [`WholeFile::write`] or
    /// [`WholeFile::place`]; errors of the name or its directory come now.
    pub fn begin(path: &Path) -> io::Result<Self> {
        if let Some(number) = own_descriptor(path) {
            let file = File::from(duplicate(number)?);
            return Ok(Self { file, beside: None });
        }
        let is_named_as_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        if is_named_as_directory || path.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let found = match path.symlink_metadata() {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match found {
            Some(found) if !found.is_file() => Self::directly(path, &found),
            found => Self::beside(path, found.as_ref()),
        }
    }

    /// Writes the contents and gives them the name.
    pub fn write(mut self, contents: &[u8]) -> io::Result<()> {
        self.file.write_all(contents)?;
        self.place().map(drop)
    }

    /// Gives the name to the file as it is now, for contents that others may read while they are
    /// written.
    pub fn place(self) -> io::Result<File> {
        if let Some(beside) = &self.beside {
            fs::rename(&beside.path, &beside.target)?;
        }
        Ok(self.file)
    }

    fn directly(path: &Path, found: &Metadata) -> io::Result<Self> {
        let is_stream = |found: &Metadata| {
            let kind = found.file_type();
            kind.is_fifo() || kind.is_char_device()
        };
        if found.is_symlink() {
            return Err(io::Error::other("it is a symbolic link"));
        }
        if found.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let other_kind = || io::Error::other("it is neither a regular file, a FIFO nor a terminal");
        if !is_stream(found) {
            return Err(other_kind());
        }
        let flags = libc::O_NOFOLLOW | libc::O_NOCTTY;
        let file = File::options().write(true).custom_flags(flags).open(path)?;
        // The name may stand for something else since it was looked at.
        if !is_stream(&file.metadata()?) {
            return Err(other_kind());
        }
        Ok(Self { file, beside: None })
    }

    fn beside(target: &Path, old: Option<&Metadata>) -> io::Result<Self> {
        let directory = match target.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        let (path, file) = new_file(directory)?;
        let target = target.to_owned();
        let beside = Some(Beside { path, target });
        let whole = Self { file, beside };
        if let Some(old) = old {
            let mode = old.permissions().mode() & 0o777;
            whole.file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(whole)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // After the rename there is none.
        let _ = fs::remove_file(&self.path);
    }
}

/// A new file in the directory, by a name that no other file has.
fn new_file(directory: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const ATTEMPTS: u32 = 100;
    let mut last = io::ErrorKind::AlreadyExists.into();
    for _ in 0..ATTEMPTS {
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!(".linerate-{}-{number}", std::process::id());
        let path = directory.join(name);
        // It fails where there is anything, also a link: open(2).
        match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// The descriptor of this process that a name stands for.
fn own_descriptor(path: &Path) -> Option<RawFd> {
    match path.as_os_str().to_str()? {
        "/dev/stdout" => Some(libc::STDOUT_FILENO),
        "/dev/stderr" => Some(libc::STDERR_FILENO),
        name => {
            let below = |directory| name.strip_prefix(directory);
            let number = below("/dev/fd/").or_else(|| below("/proc/self/fd/"))?;
            number.parse().ok().filter(|number| *number >= 0)
        }
    }
}

fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it is borrowed for one call, which fails where no such descriptor is open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn it_is_there_whole_or_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page.html");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        drop(WholeFile::begin(&path).unwrap());
        let file = WholeFile::begin(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        file.write(b"after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_placed_is_written_as_it_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut file = WholeFile::begin(&path).unwrap().place().unwrap();
        for text in ["a", "ab"] {
            file.write_all(&text.as_bytes()[text.len() - 1..]).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn links_directories_and_bad_names_are_refused_before_there_is_anything_to_write() {
        let directory = tempfile::tempdir().unwrap();
        let of = |name: &str| directory.path().join(name);
        fs::write(of("victim"), "untouched").unwrap();
        symlink(of("victim"), of("link")).unwrap();
        symlink(of("gone"), of("dangling")).unwrap();
        symlink("/dev/null", of("null")).unwrap();
        symlink("/dev/stdout", of("stdout")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(of("socket")).unwrap();
        for name in [
            "link",
            "dangling",
            "null",
            "stdout",
            "socket",
            "",
            ".",
            "..",
            "victim/",
            "new/",
            "missing/page",
            "victim/page",
        ] {
            let path = of(name);
            assert!(WholeFile::begin(&path).is_err(), "{}", path.display());
        }
        assert!(WholeFile::begin(Path::new("")).is_err());
        assert!(WholeFile::begin(Path::new("/dev/fd/x")).is_err());
        assert_eq!(fs::read_to_string(of("victim")).unwrap(), "untouched");
        assert!(!of("gone").exists() && !of("new").exists());
        drop(socket);
    }

    #[test]
    fn a_link_that_comes_later_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let of = |name: &str| directory.path().join(name);
        fs::write(of("victim"), "untouched").unwrap();
        let file = WholeFile::begin(&of("page")).unwrap();
        symlink(of("victim"), of("page")).unwrap();
        file.write(b"page").unwrap();
        assert_eq!(fs::read_to_string(of("victim")).unwrap(), "untouched");
        assert!(!of("page").is_symlink());
        assert_eq!(fs::read_to_string(of("page")).unwrap(), "page");
    }

    #[test]
    fn streams_are_written_directly() {
        WholeFile::begin(Path::new("/dev/null"))
            .unwrap()
            .write(b"x")
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let reader = {
            let fifo = fifo.clone();
            std::thread::spawn(move || fs::read_to_string(fifo).unwrap())
        };
        WholeFile::begin(&fifo).unwrap().write(b"through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");

        let (mut read, write) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", write.as_raw_fd());
        WholeFile::begin(Path::new(&path))
            .unwrap()
            .write(b"y")
            .unwrap();
        drop(write);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "y");
    }
}
