//! A directory and its entries, accessed by descriptor: openat(2) and related calls. A rename by
//! another user does not change which directory these calls act on.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

/// An open directory.
#[derive(Debug)]
pub struct Directory(File);

const OPEN_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

impl Directory {
    /// Opens the directory at a path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::openat(CWD, path, OPEN_FLAGS, Mode::empty())?;
        Ok(Self(directory.into()))
    }

    /// Creates a directory in this one, accessible to this user only, and opens it.
    pub fn create_subdirectory(&self, name: &str) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.0, name, Mode::RWXU)?;
        self.open_own_subdirectory(name)
    }

    /// Opens a directory in this one that belongs to this user. Does not follow a link.
    pub fn open_own_subdirectory(&self, name: &str) -> io::Result<Self> {
        let flags = OPEN_FLAGS | OFlags::NOFOLLOW;
        let directory = rustix::fs::openat(&self.0, name, flags, Mode::empty())?;
        if rustix::fs::fstat(&directory)?.st_uid != crate::process::effective_user_id() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Self(directory.into()))
    }

    /// Returns the names of the entries that are valid UTF-8.
    pub fn entry_names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.0.as_fd())? {
            names.extend(entry?.file_name().to_str().map(str::to_owned));
        }
        Ok(names)
    }

    /// Sets the directory's permissions: fchmod(2).
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    /// Sets the permissions of the socket with this name. Use it only in a directory where no other
    /// user can write: another user could replace the socket by a link.
    pub fn set_socket_mode(&self, name: &str, mode: u32) -> io::Result<()> {
        let status = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::chmodat(&self.0, name, mode, AtFlags::empty())?)
    }

    /// Locks the directory until it is closed: flock(2). Fails if another process has locked it.
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
    fn a_renamed_directory_stays_the_same_directory() {
        let root = tempfile::tempdir().unwrap();
        let (mine, moved) = (root.path().join("mine"), root.path().join("moved"));
        let victim = tempfile::tempdir().unwrap();
        fs::write(victim.path().join("s"), "").unwrap();
        let parent = Directory::open(root.path()).unwrap();
        let directory = parent.create_subdirectory("mine").unwrap();
        let _socket = UnixListener::bind(mine.join("s")).unwrap();
        fs::rename(&mine, &moved).unwrap();
        symlink(victim.path(), &mine).unwrap();

        assert!(parent.open_own_subdirectory("mine").is_err(), "a link");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let before = mode(victim.path());
        directory.set_mode(0o711).unwrap();
        directory.set_socket_mode("s", 0o666).unwrap();
        assert_eq!((mode(&moved), mode(&moved.join("s"))), (0o711, 0o666));
        assert_eq!(mode(victim.path()), before);
        directory.remove_file("s").unwrap();
        assert!(victim.path().join("s").exists() && !moved.join("s").exists());
        parent.remove_directory("moved").unwrap();
    }

    #[test]
    fn only_a_sockets_mode_is_changed() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::open(root.path()).unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let _socket = UnixListener::bind(root.path().join("s")).unwrap();
        symlink(root.path().join("s"), root.path().join("link")).unwrap();
        for (name, allowed) in [
            ("file", false),
            ("link", false),
            ("gone", false),
            ("s", true),
        ] {
            assert_eq!(
                directory.set_socket_mode(name, 0o666).is_ok(),
                allowed,
                "{name}"
            );
        }
        assert!(
            directory
                .entry_names()
                .unwrap()
                .contains(&"link".to_owned())
        );
    }
}
