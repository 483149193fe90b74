use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a netserver does for whoever connects, and no more. It is open to the network: one object
/// with every bound, handed to all that waits, allocates, reads or sends for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A control connection without a request, or with results that nobody fetches.
    pub control_idle: Duration,
    /// A request that no data follows. The stock client can wait before it sends (`-s`), and does
    /// not say how long.
    pub data_wait: Duration,
    /// Data that stopped: without a byte for this long it will not go on.
    pub data_idle: Duration,
    /// How long after its time a test may still drain what is on its way.
    pub drain: Duration,
    /// The first message of a client that must have a passphrase.
    pub passphrase_wait: Duration,
    /// Control connections at once.
    pub max_clients: usize,
    /// Memory for one test's buffers, in bytes.
    pub max_buffer_bytes: u64,
    /// The longest timed test.
    pub max_length: Duration,
    /// Directories with files that clients may have sent to them (`-F ,FILE`).
    pub fill_directories: Vec<PathBuf>,
    /// Send datagrams to hosts other than the client.
    pub third_party: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            control_idle: Duration::from_secs(120),
            data_wait: Duration::from_secs(60),
            data_idle: Duration::from_secs(60),
            drain: Duration::from_secs(15),
            passphrase_wait: Duration::from_secs(20),
            max_clients: 1024,
            max_buffer_bytes: 256 << 20,
            max_length: Duration::from_secs(7 * 86_400),
            fill_directories: Vec::new(),
            third_party: false,
        }
    }
}

impl From<&crate::options::ServerSettings> for Limits {
    fn from(settings: &crate::options::ServerSettings) -> Self {
        let asked = &settings.limits;
        Self {
            control_idle: asked.control_idle,
            data_wait: asked.data_wait,
            drain: asked.data_idle,
            max_clients: asked.max_clients as usize,
            max_buffer_bytes: asked.max_buffer_bytes,
            max_length: asked.max_length,
            fill_directories: settings.fill_directories.clone(),
            third_party: settings.allow_third_party,
            ..Self::default()
        }
    }
}

impl Limits {
    /// The file, if it lies in a directory that was allowed; links are followed first.
    pub(super) fn allowed_file(&self, file: &Path) -> Option<PathBuf> {
        let file = file.canonicalize().ok()?;
        self.fill_directories
            .iter()
            .filter_map(|directory| directory.canonicalize().ok())
            .any(|directory| file.starts_with(directory))
            .then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_allowed_directories_are_read() {
        let allowed = tempdir("allowed");
        let other = tempdir("other");
        std::fs::write(allowed.join("fill"), b"x").unwrap();
        std::fs::write(other.join("secret"), b"x").unwrap();
        std::os::unix::fs::symlink(other.join("secret"), allowed.join("link")).unwrap();
        let limits = Limits { fill_directories: vec![allowed.clone()], ..Limits::default() };
        assert!(limits.allowed_file(&allowed.join("fill")).is_some());
        for refused in [
            allowed.join("link"),
            allowed.join("missing"),
            allowed.join("../").join(other.file_name().unwrap()).join("secret"),
            other.join("secret"),
        ] {
            assert_eq!(limits.allowed_file(&refused), None, "{}", refused.display());
        }
        assert_eq!(Limits::default().allowed_file(&allowed.join("fill")), None);
        for directory in [allowed, other] {
            std::fs::remove_dir_all(directory).unwrap();
        }
    }

    fn tempdir(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("linerate-limits-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}
