//! Where Unix domain sockets are made: in directories of their own that go with them.

use std::io;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sys::directory::Directory;

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
    path: PathBuf,
    parent: Directory,
    name: String,
    /// Locked as long as this process lives, which marks it as in use.
    directory: Directory,
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
        let mut random = SmallRng::from_os_rng();
        let name: String = (0..RANDOM)
            .map(|_| char::from(random.sample(rand::distr::Alphanumeric)))
            .collect();
        let name = format!("{PREFIX}{name}");
        let path = parent.join(&name);
        let parent = Directory::open(parent)?;
        let directory = parent.make(&name)?;
        directory.try_lock()?;
        directory.allow(0o711)?;
        Ok(Self {
            path,
            parent,
            name,
            directory,
        })
    }

    /// The socket's path.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// Lets other users send to the socket that is bound there, as the stock server does. Fails if the socket was
    /// bound elsewhere because the path was replaced.
    pub(crate) fn open_to_all(&self) -> io::Result<()> {
        self.directory.allow_socket(SOCKET, 0o666)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.directory.remove_file(SOCKET);
        let _ = self.parent.remove_directory(&self.name);
    }
}

/// Removes what killed processes of this user left below `parent`.
pub(crate) fn clean(parent: &Path) {
    let Ok(parent) = Directory::open(parent) else {
        return;
    };
    let names = parent.names().unwrap_or_default();
    let is_ours = |name: &String| {
        let random = name.strip_prefix(PREFIX);
        random.is_some_and(|random| random.len() == RANDOM)
    };
    for name in names.into_iter().filter(is_ours) {
        if let Ok(left) = parent.own(&name)
            && left.try_lock().is_ok()
        {
            let _ = left.remove_file(SOCKET);
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
    fn nothing_is_left_behind() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let place = Place::new(parent).unwrap();
        let path = place.socket();
        let listener = UnixListener::bind(&path).unwrap();
        place.open_to_all().unwrap();
        assert!(path.exists());

        // What is in use stays …
        clean(parent);
        assert!(path.exists());
        drop(place);
        assert!(!path.exists() && !path.parent().unwrap().exists());
        drop(listener);

        // … and what a killed process left goes.
        let left = parent.join("lr-abcdefgh");
        fs::create_dir(&left).unwrap();
        drop(UnixListener::bind(left.join(SOCKET)).unwrap());
        let others = parent.join("lr-of-somebody-else");
        fs::create_dir(&others).unwrap();
        clean(parent);
        assert!(!left.exists() && others.exists());
        fs::remove_dir(others).unwrap();
    }

    #[test]
    fn names_fit_the_protocol() {
        let place = Place::new(Path::new("/tmp")).unwrap();
        let behind = place.socket().as_os_str().len() - "/tmp".len();
        assert_eq!(MAX_DIRECTORY + behind, 31);
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_no_place() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::new(parent.path()).unwrap();
        fs::rename(&place.path, parent.path().join("moved")).unwrap();
        fs::create_dir(&place.path).unwrap();
        let _listener = UnixListener::bind(place.socket()).unwrap();
        assert!(place.open_to_all().is_err());
    }
}
