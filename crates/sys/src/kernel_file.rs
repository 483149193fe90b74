//! Files in which the kernel reports facts: /proc and /sys.
//!
//! In a container or a chroot, such a file may be missing, empty, or replaced by a file with other
//! contents. An unusable value is `None`, so that it does not look like a measured 0.

use std::fs;
use std::path::Path;

/// Reads a text; `None` if the file is unreadable or blank.
pub fn read_text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    (!text.trim().is_empty()).then_some(text)
}

/// Reads a file with one line, without the blanks around it. The device tree ends lines with a NUL.
pub fn read_line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.trim_matches(|char: char| char.is_whitespace() || char == '\0');
    (!line.is_empty()).then(|| line.to_owned())
}

/// Reads a file with one number.
pub fn read_number(path: impl AsRef<Path>) -> Option<u64> {
    read_line(path)?.parse().ok()
}

/// Reads a file with one number that is never 0, such as a frequency or a limit of the system.
pub fn read_positive(path: impl AsRef<Path>) -> Option<u64> {
    read_number(path).filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_files_have_no_value() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let read = || {
            (
                read_text(&path),
                read_line(&path),
                read_number(&path),
                read_positive(&path),
            )
        };
        assert_eq!(read(), (None, None, None, None), "it is missing");
        let text = |text: &str| Some(text.to_owned());
        for (contents, expected) in [
            ("", (None, None, None, None)),
            (" \n\n", (None, None, None, None)),
            ("0\n", (text("0\n"), text("0"), Some(0), None)),
            (" 7\n", (text(" 7\n"), text("7"), Some(7), Some(7))),
            ("max\n", (text("max\n"), text("max"), None, None)),
            ("-1\n", (text("-1\n"), text("-1"), None, None)),
            ("board\0", (text("board\0"), text("board"), None, None)),
        ] {
            fs::write(&path, contents).unwrap();
            assert_eq!(read(), expected, "{contents:?}");
        }
        fs::write(&path, [0xff, b'1']).unwrap();
        assert_eq!(read(), (None, None, None, None), "it is not text");
    }
}
