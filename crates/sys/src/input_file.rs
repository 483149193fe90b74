//! Input files that a user names. A FIFO that no program writes to does not block the process.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::output_file::{FIFO_RETRY_PAUSE, FIFO_TIMEOUT};

/// The maximum length of a file that is read completely, in bytes. It keeps `/dev/zero` from filling
/// the memory.
const MAX_BYTES: u64 = 256 << 20;

/// The maximum wait for more data of a program that writes to a FIFO, or of a terminal's user.
const SILENCE_TIMEOUT: Duration = Duration::from_mins(1);

/// Opens a file for reads at any place. Fails for a FIFO. Reads do not wait for data of a device.
pub fn open(path: &Path) -> io::Result<File> {
    let file = open_stream(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other("it is a FIFO"));
    }
    Ok(file)
}

/// Opens a file without waiting for a FIFO's writer. Reads do not wait for data; they fail with
/// `WouldBlock`.
pub fn open_stream(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let options = options.read(true);
    options
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// Checks that a file exists and is readable, without opening it.
pub fn check_readable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::READ_OK)?)
}

/// Reads a file completely, and a FIFO until its writer closes it. Fails if the file is too long, if
/// no program writes to the FIFO within 5 s, or after a minute without data.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_all(&open_stream(path)?)
}

/// Reads a text file as [`read`] does.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_all(&open_stream(path)?).and_then(to_text)
}

/// Reads a text file that contains a secret. Fails if other users have any access to it. No error
/// contains text of the file.
pub fn read_secret(path: &Path) -> io::Result<String> {
    let file = open_stream(path)?;
    // These are the permissions of the file that is read, even if its name changes meanwhile.
    if is_exposed(&file.metadata()?) {
        let message = "other users have access to this file; run chmod 600 on it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    read_all(&file).and_then(to_text)
}

/// Reads a regular text file. Fails for a FIFO or device, which could delay this process.
pub fn read_regular(path: &Path) -> io::Result<String> {
    let file = open_stream(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read_all(&file).and_then(to_text)
}

fn to_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    // A FIFO whose last writer has gone has hung up. One that never had a writer has not.
    let mut has_writer = !file.metadata()?.file_type().is_fifo() || has_hung_up(file)?;
    let timeout = if has_writer {
        SILENCE_TIMEOUT
    } else {
        FIFO_TIMEOUT
    };
    let mut deadline = Instant::now() + timeout;
    let mut bytes = Vec::new();
    loop {
        let length = bytes.len();
        let result = file
            .take(MAX_BYTES + 1 - length as u64)
            .read_to_end(&mut bytes);
        let has_grown = bytes.len() > length;
        match result {
            Ok(_) if bytes.len() as u64 > MAX_BYTES => {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(_) if has_writer || has_grown => return Ok(bytes),
            // A FIFO has its end here until it has a writer.
            Ok(_) => {}
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if has_writer && !has_grown => {}
            Err(_) => {
                has_writer = true;
                deadline = Instant::now() + SILENCE_TIMEOUT;
            }
        }
        if Instant::now() > deadline {
            let message = "no program writes to it";
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(FIFO_RETRY_PAUSE);
    }
}

fn has_hung_up(file: &File) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut set = [PollFd::new(file, PollFlags::empty())];
    poll(&mut set, Some(&Timespec::default()))?;
    Ok(set[0].revents().contains(PollFlags::HUP))
}

/// Warns on standard error if other users have access to a file with a secret. It is for options
/// with which the stock tool accepts any permissions.
pub fn warn_if_exposed(program: &str, path: &Path) {
    // Not by opening it: a FIFO's writer would take that for its reader.
    if path.metadata().is_ok_and(|metadata| is_exposed(&metadata)) {
        crate::write_error_line(format_args!(
            "{program}: other users have access to {}; run chmod 600 on it",
            path.display()
        ));
    }
}

fn is_exposed(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;

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
    fn a_pipe_without_data_is_empty() {
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        let begun = Instant::now();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert_eq!(read(Path::new(&path)).unwrap(), b"");
        assert!(begun.elapsed() < FIFO_TIMEOUT);
    }

    #[test]
    fn a_fifo_without_writer_does_not_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = create_fifo(&directory);
        assert!(open(&path).is_err());
        assert!(read_regular(&path).is_err());
        assert!(read_regular(Path::new("/dev/null")).is_err());
        let error = read_secret(&path).unwrap_err();
        assert_eq!(error.to_string(), "no program writes to it");
    }

    #[test]
    fn a_file_is_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = create_fifo(&directory);
        let writer = {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut fifo = File::options().write(true).open(path).unwrap();
                for text in ["ses", "ame"] {
                    fifo.write_all(text.as_bytes()).unwrap();
                    std::thread::sleep(3 * FIFO_RETRY_PAUSE);
                }
            })
        };
        assert_eq!(read(&path).unwrap(), b"sesame");
        writer.join().unwrap();
        assert_eq!(read(Path::new("/dev/null")).unwrap(), b"");
        let too_large = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(too_large.kind(), io::ErrorKind::FileTooLarge);
    }

    fn create_fifo(directory: &tempfile::TempDir) -> PathBuf {
        let path = directory.path().join("fifo");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        path
    }
}
