//! Input files that a user names: files with secrets, such as passphrases, private keys and lists of
//! users, and files that must not block.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The maximum length of a file in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a text file that contains a secret. Fails if other users have any access to it. No error
/// contains text of the file.
pub fn read_secret(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    // These are the permissions of the file that is read, even if its name changes meanwhile.
    if is_exposed(&file)? {
        let message = "other users have access to this file; run chmod 600 on it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    read_text(file)
}

/// Reads a regular text file. Fails for a FIFO or device, which could block this process.
pub fn read_regular(path: &Path) -> io::Result<String> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read_text(file)
}

fn read_text(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    if file.take(MAX_BYTES + 1).read_to_end(&mut bytes)? as u64 > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let text = String::from_utf8(bytes);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Warns on standard error if other users have access to a file with a secret. It is for options
/// with which the stock tool accepts any permissions.
pub fn warn_if_exposed(program: &str, path: &Path) {
    if File::open(path).is_ok_and(|file| is_exposed(&file).unwrap_or(false)) {
        crate::write_error_line(format_args!(
            "{program}: other users have access to {}; run chmod 600 on it",
            path.display()
        ));
    }
}

fn is_exposed(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn only_private_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        for (mode, is_read) in [
            (0o600, true),
            (0o400, true),
            (0o640, false),
            (0o644, false),
            (0o602, false),
            (0o601, false),
        ] {
            fs::write(&path, b"sesame").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_secret(&path).is_ok(), is_read, "{mode:o}");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            fs::write(&path, b"sesame\xff").unwrap();
            let error = read_secret(&path).unwrap_err().to_string();
            assert!(!error.contains("sesame"), "{error}");
        }
    }

    #[test]
    fn a_fifo_does_not_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        assert!(read_regular(&path).is_err());
        assert!(read_regular(Path::new("/dev/null")).is_err());
    }
}
