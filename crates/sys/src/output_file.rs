//! Output files with names from the user.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The maximum wait for the other end of a FIFO, and the pause between two attempts to open it.
pub(crate) const FIFO_TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const FIFO_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// A file to write under a name from the user.
///
/// A reader of the name sees either the old contents or all of the new contents. A regular file is
/// written to a temporary file in the same directory, which is then renamed over it and keeps its
/// permissions. A symbolic link is refused, because another user may have created it. Devices,
/// FIFOs and the process's own descriptors (`/dev/stdout`, `/dev/fd/N`) are written to directly.
#[derive(Debug)]
pub enum OutputFile {
    /// The open file.
    Direct(File),
    /// A regular file to create. Until it is written, a signal that ends the process leaves no
    /// temporary file.
    Replacement {
        /// The name of the file.
        target: PathBuf,
        /// The permissions of the file that is replaced.
        permissions: Option<Permissions>,
    },
}

impl OutputFile {
    /// Opens a file for output. The name keeps its old contents until [`OutputFile::write`] or
    /// [`OutputFile::create`]. Errors of the name or its directory occur here.
    pub fn begin(path: &Path) -> io::Result<Self> {
        if let Some(number) = descriptor_number(path) {
            return Ok(Self::Direct(File::from(duplicate(number)?)));
        }
        let is_named_as_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        if is_named_as_directory || path.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match metadata {
            Some(metadata) if !metadata.is_file() => {
                Self::open_special(path, &metadata).map(Self::Direct)
            }
            metadata => {
                // Only an attempt shows whether the directory is writable.
                let (temporary, _) = create_unique_file(directory_of(path))?;
                fs::remove_file(temporary)?;
                let mode = metadata.map(|metadata| metadata.permissions().mode() & 0o777);
                Ok(Self::Replacement {
                    target: path.to_owned(),
                    permissions: mode.map(Permissions::from_mode),
                })
            }
        }
    }

    /// Writes the contents and renames the file to its name.
    pub fn write(self, contents: &[u8]) -> io::Result<()> {
        self.create_with(contents).map(drop)
    }

    /// Creates the file under its name now, for contents that others may read while they are written.
    pub fn create(self) -> io::Result<File> {
        self.create_with(&[])
    }

    fn create_with(self, contents: &[u8]) -> io::Result<File> {
        let (target, permissions) = match self {
            Self::Direct(mut file) => {
                file.write_all(contents)?;
                return Ok(file);
            }
            Self::Replacement {
                target,
                permissions,
            } => (target, permissions),
        };
        let (temporary, mut file) = create_unique_file(directory_of(&target))?;
        let result = permissions
            .map_or(Ok(()), |permissions| file.set_permissions(permissions))
            .and_then(|()| file.write_all(contents))
            .and_then(|()| fs::rename(&temporary, &target));
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        result.map(|()| file)
    }

    fn open_special(path: &Path, metadata: &Metadata) -> io::Result<File> {
        let is_stream = |metadata: &Metadata| {
            let kind = metadata.file_type();
            kind.is_fifo() || kind.is_char_device()
        };
        if metadata.is_symlink() {
            return Err(io::Error::other("it is a symbolic link"));
        }
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let other_kind = || io::Error::other("it is neither a regular file, a FIFO nor a terminal");
        if !is_stream(metadata) {
            return Err(other_kind());
        }
        let file = open_for_writing(File::options().write(true), path, libc::O_NOFOLLOW)?;
        // The name may no longer refer to the file that was checked above.
        if !is_stream(&file.metadata()?) {
            return Err(other_kind());
        }
        Ok(file)
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

/// Opens a file with these options. If it is a FIFO, waits up to `FIFO_TIMEOUT` for its reader;
/// open(2) would wait for ever. The process's own descriptors (`/dev/stdout`, `/dev/fd/N`) are used
/// as they are.
pub fn open_output(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    match descriptor_number(path) {
        Some(number) => duplicate(number).map(File::from),
        None => open_for_writing(options, path, 0),
    }
}

/// Removes the contents of a regular file. Devices and FIFOs have none, and what the process's own
/// descriptors have written to stays.
pub fn truncate(file: &File, path: &Path) -> io::Result<()> {
    if descriptor_number(path).is_none() && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(())
}

fn open_for_writing(options: &mut OpenOptions, path: &Path, flags: i32) -> io::Result<File> {
    options.custom_flags(flags | libc::O_NOCTTY | libc::O_NONBLOCK);
    let deadline = Instant::now() + FIFO_TIMEOUT;
    loop {
        match options.open(path) {
            Ok(file) => {
                let flags = rustix::fs::fcntl_getfl(&file)?;
                rustix::fs::fcntl_setfl(&file, flags - rustix::fs::OFlags::NONBLOCK)?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() != Some(libc::ENXIO) => return Err(error),
            Err(_) if Instant::now() < deadline => std::thread::sleep(FIFO_RETRY_PAUSE),
            Err(_) => {
                let message = "no program reads from it";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
    }
}

/// Creates a new file in the directory under a unique name.
fn create_unique_file(directory: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
    const ATTEMPTS: u32 = 100;
    let mut last_error = io::ErrorKind::AlreadyExists.into();
    for _ in 0..ATTEMPTS {
        let number = NEXT_NUMBER.fetch_add(1, Relaxed);
        let name = format!(".linerate-{}-{number}", std::process::id());
        let path = directory.join(name);
        // `create_new` fails if the name exists, even as a link: open(2).
        match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last_error = error,
            Err(error) => return Err(error),
        }
    }
    Err(last_error)
}

/// Returns the number of this process's descriptor that a name refers to.
fn descriptor_number(path: &Path) -> Option<RawFd> {
    match path.as_os_str().to_str()? {
        "/dev/stdout" => Some(libc::STDOUT_FILENO),
        "/dev/stderr" => Some(libc::STDERR_FILENO),
        name => {
            let strip = |directory| name.strip_prefix(directory);
            let number = strip("/dev/fd/").or_else(|| strip("/proc/self/fd/"))?;
            number.parse().ok().filter(|number| *number >= 0)
        }
    }
}

fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is borrowed for one call, which fails if it is not open.
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
    fn contents_are_replaced_completely_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page.html");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        drop(OutputFile::begin(&path).unwrap());
        let file = OutputFile::begin(&path).unwrap();
        // A process that ends here leaves no other file.
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        file.write(b"after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_created_file_shows_each_write() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut file = OutputFile::begin(&path).unwrap().create().unwrap();
        for text in ["a", "ab"] {
            file.write_all(&text.as_bytes()[text.len() - 1..]).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn begin_refuses_links_directories_and_bad_names() {
        let directory = tempfile::tempdir().unwrap();
        let path_of = |name: &str| directory.path().join(name);
        fs::write(path_of("victim"), "untouched").unwrap();
        symlink(path_of("victim"), path_of("link")).unwrap();
        symlink(path_of("gone"), path_of("dangling")).unwrap();
        symlink("/dev/null", path_of("null")).unwrap();
        symlink("/dev/stdout", path_of("stdout")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(path_of("socket")).unwrap();
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
            let path = path_of(name);
            assert!(OutputFile::begin(&path).is_err(), "{}", path.display());
        }
        assert!(OutputFile::begin(Path::new("")).is_err());
        assert!(OutputFile::begin(Path::new("/dev/fd/x")).is_err());
        assert_eq!(fs::read_to_string(path_of("victim")).unwrap(), "untouched");
        assert!(!path_of("gone").exists() && !path_of("new").exists());
        drop(socket);
    }

    #[test]
    fn a_later_link_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path_of = |name: &str| directory.path().join(name);
        fs::write(path_of("victim"), "untouched").unwrap();
        let file = OutputFile::begin(&path_of("page")).unwrap();
        symlink(path_of("victim"), path_of("page")).unwrap();
        file.write(b"page").unwrap();
        assert_eq!(fs::read_to_string(path_of("victim")).unwrap(), "untouched");
        assert!(!path_of("page").is_symlink());
        assert_eq!(fs::read_to_string(path_of("page")).unwrap(), "page");
    }

    #[test]
    fn streams_are_written_directly() {
        OutputFile::begin(Path::new("/dev/null"))
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
        OutputFile::begin(&fifo).unwrap().write(b"through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");

        let unread = OutputFile::begin(&fifo).unwrap_err();
        assert_eq!(unread.to_string(), "no program reads from it");

        let (mut read, write) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", write.as_raw_fd());
        OutputFile::begin(Path::new(&path))
            .unwrap()
            .write(b"y")
            .unwrap();
        drop(write);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "y");
    }
}
