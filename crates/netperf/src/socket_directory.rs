//! Temporary directories for Unix domain sockets.

use std::io;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sys::directory::Directory;

/// Prefix of the directories' names.
const DIRECTORY_PREFIX: &str = "lr-";

/// Number of random characters after the prefix.
const RANDOM_CHARS: usize = 8;

/// The socket's name in its directory.
const SOCKET_NAME: &str = "s";

/// Maximum length of a parent directory's path. The protocol's field of 32 bytes must hold the
/// socket's path and a NUL.
pub(crate) const MAX_PARENT_BYTES: usize =
    31 - "/".len() - DIRECTORY_PREFIX.len() - RANDOM_CHARS - "/".len() - SOCKET_NAME.len();

/// A private directory with the path of one socket. Drop removes both; [`remove_stale`] removes
/// those of killed processes.
///
/// Other users, such as the client, can enter the directory but not list it. The name is random, so
/// that only processes that received the path can find the socket.
#[derive(Debug)]
pub(crate) struct SocketDirectory {
    path: PathBuf,
    parent: Directory,
    name: String,
    /// Locked while this process lives, to mark it as in use.
    directory: Directory,
}

impl SocketDirectory {
    /// Creates a directory below `parent`.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        let mut attempts = 0;
        loop {
            match Self::try_new(parent) {
                // The name exists, or a cleanup of another process ran between creation and lock.
                Err(error)
                    if attempts < 10
                        && matches!(
                            error.kind(),
                            io::ErrorKind::AlreadyExists
                                | io::ErrorKind::NotFound
                                | io::ErrorKind::WouldBlock
                        ) =>
                {
                    attempts += 1;
                }
                other => return other,
            }
        }
    }

    fn try_new(parent: &Path) -> io::Result<Self> {
        let mut random = SmallRng::from_os_rng();
        let name: String = (0..RANDOM_CHARS)
            .map(|_| char::from(random.sample(rand::distr::Alphanumeric)))
            .collect();
        let name = format!("{DIRECTORY_PREFIX}{name}");
        let path = parent.join(&name);
        let parent = Directory::open(parent)?;
        let directory = parent.create_subdirectory(&name)?;
        Self::lock(path, parent, name, directory)
    }

    /// Marks a new directory as in use. Fails with [`io::ErrorKind::NotFound`] if a cleanup has
    /// removed it before.
    fn lock(
        path: PathBuf,
        parent: Directory,
        name: String,
        directory: Directory,
    ) -> io::Result<Self> {
        directory.try_lock()?;
        // A removed directory can still be locked.
        parent.open_own_subdirectory(&name)?;
        directory.set_mode(0o711)?;
        Ok(Self {
            path,
            parent,
            name,
            directory,
        })
    }

    /// The socket's path.
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.path.join(SOCKET_NAME)
    }

    /// Lets other users send to the bound socket, as the stock server does. Fails if the socket is
    /// elsewhere because the path was replaced.
    pub(crate) fn allow_all_users(&self) -> io::Result<()> {
        self.directory.set_socket_mode(SOCKET_NAME, 0o666)
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        let _ = self.directory.remove_file(SOCKET_NAME);
        let _ = self.parent.remove_directory(&self.name);
    }
}

/// Removes directories of this user's killed processes below `parent`.
pub(crate) fn remove_stale(parent: &Path) {
    let Ok(parent) = Directory::open(parent) else {
        return;
    };
    let names = parent.entry_names().unwrap_or_default();
    let is_ours = |name: &String| {
        let random = name.strip_prefix(DIRECTORY_PREFIX);
        random.is_some_and(|random| random.len() == RANDOM_CHARS)
    };
    for name in names.into_iter().filter(is_ours) {
        if let Ok(stale) = parent.open_own_subdirectory(&name)
            && stale.try_lock().is_ok()
        {
            let _ = stale.remove_file(SOCKET_NAME);
            let _ = parent.remove_directory(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn drop_and_cleanup_remove_unused_directories() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let directory = SocketDirectory::new(parent).unwrap();
        let path = directory.socket_path();
        let listener = UnixListener::bind(&path).unwrap();
        directory.allow_all_users().unwrap();
        assert!(path.exists());

        // A directory in use stays.
        remove_stale(parent);
        assert!(path.exists());
        drop(directory);
        assert!(!path.exists() && !path.parent().unwrap().exists());
        drop(listener);

        // The directory of a killed process is removed.
        let stale = parent.join("lr-abcdefgh");
        fs::create_dir(&stale).unwrap();
        drop(UnixListener::bind(stale.join(SOCKET_NAME)).unwrap());
        let unrelated = parent.join("lr-of-another-program");
        fs::create_dir(&unrelated).unwrap();
        remove_stale(parent);
        assert!(!stale.exists() && unrelated.exists());
        fs::remove_dir(unrelated).unwrap();
    }

    #[test]
    fn a_directory_removed_before_its_lock_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let name = "lr-abcdefgh".to_owned();
        let parent = Directory::open(root.path()).unwrap();
        let directory = parent.create_subdirectory(&name).unwrap();
        remove_stale(root.path());
        let result = SocketDirectory::lock(root.path().join(&name), parent, name, directory);
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn socket_paths_fit_the_protocol_field() {
        let directory = SocketDirectory::new(Path::new("/tmp")).unwrap();
        let suffix_bytes = directory.socket_path().as_os_str().len() - "/tmp".len();
        assert_eq!(MAX_PARENT_BYTES + suffix_bytes, 31);
    }

    #[test]
    fn a_replaced_directory_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let directory = SocketDirectory::new(parent.path()).unwrap();
        fs::rename(&directory.path, parent.path().join("moved")).unwrap();
        fs::create_dir(&directory.path).unwrap();
        let _listener = UnixListener::bind(directory.socket_path()).unwrap();
        assert!(directory.allow_all_users().is_err());
    }
}
