//! Where Unix domain sockets are made: in directories of their own that go with them.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rand::Rng;

/// What the names of the directories begin with.
const PREFIX: &str = "lr-";

/// Characters behind it.
const RANDOM: usize = 8;

/// The socket's name in its directory.
const SOCKET: &str = "s";

/// The longest directory whose sockets' paths the protocol's 32 bytes hold with a closing NUL.
pub(crate) const MAX_DIRECTORY: usize =
    31 - "/".len() - PREFIX.len() - RANDOM - "/".len() - SOCKET.len();

/// A path for one socket in a directory of its own. Both are removed when it is dropped; of a process
/// that was killed, by the next [`clean`].
///
/// Others may pass through the directory (a client may be another user) but not list it, and the name
/// is random: whoever was not told it cannot come between.
#[derive(Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    /// Says that the directory is in use, as long as this process lives: flock(2).
    _lock: File,
}

impl Place {
    /// Makes a directory below `parent`.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        let mut attempts = 0;
        loop {
            match Self::attempt(parent) {
                // The name is taken, or a cleaner came between making and locking it.
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

    fn attempt(parent: &Path) -> io::Result<Self> {
        let mut random = rand::rng();
        let name: String = (0..RANDOM)
            .map(|_| char::from(random.sample(rand::distr::Alphanumeric)))
            .collect();
        let directory = parent.join(format!("{PREFIX}{name}"));
        DirBuilder::new().mode(0o700).create(&directory)?;
        let lock = File::open(&directory)?;
        lock.try_lock()?;
        fs::set_permissions(&directory, Permissions::from_mode(0o711))?;
        Ok(Self {
            directory,
            _lock: lock,
        })
    }

    /// The socket's path.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    /// Lets other users send to the socket that is bound there, as the stock server does.
    pub(crate) fn open_to_all(&self) -> io::Result<()> {
        fs::set_permissions(self.socket(), Permissions::from_mode(0o666))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.socket());
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Removes what killed processes of this user left below `parent`.
pub(crate) fn clean(parent: &Path) {
    let own = sys::process::user();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .is_some_and(|rest| rest.len() == RANDOM);
        // `metadata` of an entry does not follow a link.
        let is_own_directory = entry
            .metadata()
            .is_ok_and(|facts| facts.is_dir() && facts.uid() == own);
        if !is_ours || !is_own_directory {
            continue;
        }
        let directory = entry.path();
        if let Ok(lock) = File::open(&directory)
            && lock.try_lock().is_ok()
        {
            drop(Place {
                directory,
                _lock: lock,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn nothing_is_left_behind() {
        let parent = Place::new(&std::env::temp_dir()).unwrap();
        let place = Place::new(&parent.directory).unwrap();
        let path = place.socket();
        let listener = UnixListener::bind(&path).unwrap();
        place.open_to_all().unwrap();
        assert!(path.exists());

        // What is in use stays …
        clean(&parent.directory);
        assert!(path.exists());
        drop(place);
        assert!(!path.exists() && !path.parent().unwrap().exists());
        drop(listener);

        // … and what a killed process left goes.
        let left = parent.directory.join("lr-abcdefgh");
        fs::create_dir(&left).unwrap();
        drop(UnixListener::bind(left.join(SOCKET)).unwrap());
        let others = parent.directory.join("lr-of-somebody-else");
        fs::create_dir(&others).unwrap();
        clean(&parent.directory);
        assert!(!left.exists() && others.exists());
        fs::remove_dir(others).unwrap();
    }

    #[test]
    fn names_fit_the_protocol() {
        let place = Place::new(Path::new("/tmp")).unwrap();
        let behind = place.socket().as_os_str().len() - "/tmp".len();
        assert_eq!(MAX_DIRECTORY + behind, 31);
    }
}
