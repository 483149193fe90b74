//! A directory and its entries by descriptor: openat(2) and related calls. A rename by another user does not change
//! which directory they act on.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

/// An open directory.
#[derive(Debug)]
pub struct Directory(File);

const FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

impl Directory {
    /// Opens the directory at a path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::openat(CWD, path, FLAGS, Mode::empty())?;
        Ok(Self(directory.into()))
    }

    /// Makes a directory in this one, accessible to this user only, and opens it.
    pub fn make(&self, name: &str) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.0, name, Mode::RWXU)?;
        self.own(name)
    }

    /// Opens a directory in this one that belongs to this user. Does not follow a link.
    pub fn own(&self, name: &str) -> io::Result<Self> {
        let flags = FLAGS | OFlags::NOFOLLOW;
        let directory = rustix::fs::openat(&self.0, name, flags, Mode::empty())?;
        if rustix::fs::fstat(&directory)?.st_uid != crate::process::user() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Self(directory.into()))
    }

    /// Returns the names of its entries.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.0.as_fd())? {
            names.extend(entry?.file_name().to_str().map(str::to_owned));
        }
        Ok(names)
    }

    /// Sets its permissions: fchmod(2).
    pub fn allow(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    /// Sets the permissions of the socket of this name. Only for a directory in which no other user can write:
    /// another could put a link there.
    pub fn allow_socket(&self, name: &str, mode: u32) -> io::Result<()> {
        let status = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::chmodat(&self.0, name, mode, AtFlags::empty())?)
    }

    /// Locks it for as long as it is open: flock(2). Fails if another process has locked it.
    pub fn try_lock(&self) -> io::Result<()> {
        self.0.try_lock().map_err(io::Error::from)
    }

    /// Removes a file: unlinkat(2).
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_directory_stays_what_it_was() {
        let place = tempfile::tempdir().unwrap();
        let (mine, moved) = (place.path().join("mine"), place.path().join("moved"));
        let victim = tempfile::tempdir().unwrap();
        fs::write(victim.path().join("s"), "").unwrap();
        let parent = Directory::open(place.path()).unwrap();
        let own = parent.make("mine").unwrap();
        let _socket = UnixListener::bind(mine.join("s")).unwrap();
        fs::rename(&mine, &moved).unwrap();
        symlink(victim.path(), &mine).unwrap();

        assert!(parent.own("mine").is_err(), "a link");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let before = mode(victim.path());
        own.allow(0o711).unwrap();
        own.allow_socket("s", 0o666).unwrap();
        assert_eq!((mode(&moved), mode(&moved.join("s"))), (0o711, 0o666));
        assert_eq!(mode(victim.path()), before);
        own.remove_file("s").unwrap();
        assert!(victim.path().join("s").exists() && !moved.join("s").exists());
        parent.remove_directory("moved").unwrap();
    }

    #[test]
    fn only_a_socket_is_opened_to_all() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        fs::write(place.path().join("file"), "").unwrap();
        let _socket = UnixListener::bind(place.path().join("s")).unwrap();
        symlink(place.path().join("s"), place.path().join("link")).unwrap();
        for (name, allowed) in [
            ("file", false),
            ("link", false),
            ("gone", false),
            ("s", true),
        ] {
            assert_eq!(
                directory.allow_socket(name, 0o666).is_ok(),
                allowed,
                "{name}"
            );
        }
        assert!(directory.names().unwrap().contains(&"link".to_owned()));
    }
}
