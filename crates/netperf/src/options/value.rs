//! Parsers of option values: numbers, pairs, address families, types of service.

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use getopt::{EarlyExit, check_range, refuse};
use model::WidthRule;

use super::Family;

/// Parses `a,b` into two targets. `a` sets both, `a,` only the first, `,b` only the second.
pub(super) fn set_both<T: Clone>(
    targets: [&mut T; 2],
    text: &str,
    parse: impl Fn(&str) -> Result<T, EarlyExit>,
) -> Result<(), EarlyExit> {
    if text.contains(',') {
        return set_pair(targets, text, parse);
    }
    let value = parse(text)?;
    for target in targets {
        target.clone_from(&value);
    }
    Ok(())
}

/// Parses `a,b` into two targets like [`set_both`], but a lone `a` sets only the first.
pub(super) fn set_pair<T>(
    targets: [&mut T; 2],
    text: &str,
    parse: impl Fn(&str) -> Result<T, EarlyExit>,
) -> Result<(), EarlyExit> {
    let Some((first, second)) = text.split_once(',') else {
        *targets[0] = parse(text)?;
        return Ok(());
    };
    for (target, text) in targets.into_iter().zip([first, second]) {
        if !text.is_empty() {
            *target = parse(text)?;
        }
    }
    Ok(())
}

/// Parses a number of seconds or a duration in Go's notation, such as `1m30s`.
pub(super) fn seconds(text: &str) -> Result<Duration, EarlyExit> {
    let max = Duration::from_secs(u32::MAX.into());
    if let Some(duration) = units::parse_go_duration(text).filter(|duration| *duration <= max) {
        return Ok(duration);
    }
    number(text, 1..=u32::MAX.into()).map(Duration::from_secs)
}

/// Parses a number with netperf's suffixes. Refuses a number outside of `range`.
pub(super) fn number<T: TryFrom<i64>>(
    text: &str,
    range: RangeInclusive<i64>,
) -> Result<T, EarlyExit> {
    check_range(text, units::parse_netperf_size(text), range)
}

/// Parses a number of 32 bits with a sign, like the protocol's integers.
pub(super) fn int32(text: &str) -> Result<i32, EarlyExit> {
    number(text, i64::from(i32::MIN)..=i64::from(i32::MAX))
}

/// Parses a count or a number of bytes, 0 or more.
pub(super) fn count(text: &str) -> Result<u32, EarlyExit> {
    number(text, 0..=i64::from(i32::MAX))
}

/// Parses a number. Returns `None`, the default, for a negative one.
pub(super) fn optional_count(text: &str) -> Result<Option<u32>, EarlyExit> {
    Ok(u32::try_from(int32(text)?).ok())
}

/// Parses a number of buffers; 0 is the default.
pub(super) fn width(text: &str) -> Result<WidthRule, EarlyExit> {
    Ok(match count(text)? {
        0 => WidthRule::CoverSocketBuffer,
        buffers => WidthRule::Buffers(buffers),
    })
}

/// Parses an alignment in bytes. Refuses 0 and other numbers that are not a power of two.
///
/// The stock tool crashes on 0 and misaligns its buffers on the others.
pub(super) fn alignment(text: &str) -> Result<u32, EarlyExit> {
    let bytes = count(text)?;
    if !bytes.is_power_of_two() {
        return refuse(format!("an alignment of {bytes} is not a power of two"));
    }
    Ok(bytes)
}

/// Checks a port: a number, or a service's name of at most nine characters for the resolver.
pub(super) fn port(text: &str) -> Result<String, EarlyExit> {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    if text.len() > 9 || (is_number && text.parse::<u16>().is_err()) {
        return refuse(format!("'{text}' is not a port"));
    }
    Ok(text.to_owned())
}

/// The maximum length of a passphrase: the capacity of the protocol's message without the final NUL.
pub const MAX_PASSPHRASE_BYTES: usize = 647;

/// Parses a passphrase; `@FILE` reads it from the first line of a file.
pub(super) fn passphrase(text: &str) -> Result<String, EarlyExit> {
    let passphrase = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(file) => match first_line(file) {
            Ok(line) => line,
            Err(error) => return refuse(sys::describe(&error)),
        },
    };
    if passphrase.len() > MAX_PASSPHRASE_BYTES {
        return refuse(format!(
            "a passphrase has at most {MAX_PASSPHRASE_BYTES} bytes"
        ));
    }
    Ok(passphrase)
}

/// Reads the first line of a file without its line end. Other users must not have access to it.
fn first_line(file: &str) -> io::Result<String> {
    let text = sys::input_file::read_secret(Path::new(file))?;
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    if line.is_empty() {
        return Err(io::Error::other("the file's first line is empty"));
    }
    Ok(line.to_owned())
}

/// Returns the address family for one of its names.
///
/// For an unknown name, it returns any family and the stock tool's warning.
pub(super) fn family(word: &str) -> (Family, Option<String>) {
    let lower = word.to_ascii_lowercase();
    if lower == "vsock" {
        (Family::Vsock, None)
    } else if lower.contains('6') {
        (Family::V6, None)
    } else if lower.contains("inet") || lower.contains('4') {
        (Family::V4, None)
    } else if lower.contains("unspec") || lower.contains('0') {
        (Family::Unspecified, None)
    } else {
        let warning = format!(
            "WARNING! {word} not recognized as an address family, using AF_UNPSEC\n\
             Are you sure netperf was configured for that address family?"
        );
        (Family::Unspecified, Some(warning))
    }
}

/// Parses a type of service: a number, or a name of RFC 2474, 2597, 3246 or (three names) 1349.
///
/// Returns `None` for −1.
pub(super) fn type_of_service(text: &str) -> Result<Option<u8>, EarlyExit> {
    if let Some(value) = units::parse_type_of_service(text) {
        return Ok(Some(value));
    }
    match units::parse_strict_c_integer(text) {
        Some(-1) => Ok(None),
        Some(value) if (0..=255).contains(&value) => Ok(Some(value as u8)),
        _ => refuse(format!(
            "'{text}' is not the name of a type of service, nor a number from 0 to 255"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_values_set_both_or_the_first() {
        for (text, both, first_only) in [
            ("5", (5, 5), (5, 0)),
            ("5,", (5, 0), (5, 0)),
            (",5", (0, 5), (0, 5)),
            ("5,6", (5, 6), (5, 6)),
            ("1K,1k", (1024, 1000), (1024, 1000)),
            (",", (0, 0), (0, 0)),
        ] {
            let mut pair = [0; 2];
            set_both(pair.each_mut(), text, count).unwrap();
            assert_eq!(<(_, _)>::from(pair), both, "{text}");
            let mut pair = [0; 2];
            set_pair(pair.each_mut(), text, count).unwrap();
            assert_eq!(<(_, _)>::from(pair), first_only, "{text}");
        }
    }

    #[test]
    fn a_passphrase_may_be_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, private).unwrap();
        let passphrase_from_file = |text: &str| {
            std::fs::write(&file, text).unwrap();
            passphrase(&format!("@{}", file.display())).ok()
        };
        let longest = "x".repeat(647);
        for (text, expected) in [
            ("secret", Some("secret")),
            ("secret\n", Some("secret")),
            ("a b\r\nmore\n", Some("a b")),
            ("@x\n", Some("@x")),
            ("\nsecret\n", None),
            ("", None),
            (&longest, Some(&*longest)),
            (&format!("{longest}\n"), Some(&*longest)),
            (&format!("{longest}x\n"), None),
        ] {
            assert_eq!(passphrase_from_file(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(passphrase("plain").ok().as_deref(), Some("plain"));
        assert!(passphrase(&format!("{longest}x")).is_err());
        match passphrase("@/no/such/file") {
            Err(EarlyExit::Refused(reason)) => assert_eq!(reason, "No such file or directory"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_are_refused_with_the_reason() {
        for (text, expected) in [
            ("", "'' is not a number"),
            ("x", "'x' is not a number"),
            ("1.5", "'1.5' is not a number"),
            ("-1", "-1 is not from 0 to 2147483647"),
            ("2G", "2147483648 is not from 0 to 2147483647"),
            ("1,2", "'1,2' is not a number"),
        ] {
            match count(text) {
                Err(EarlyExit::Refused(reason)) => assert_eq!(reason, expected),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn alignments_are_powers_of_two() {
        for (text, bytes) in [("8", Some(8)), ("4K", Some(4096)), ("1", Some(1))] {
            assert_eq!(alignment(text).ok(), bytes);
        }
        for text in ["0", "3", "-8", "x"] {
            assert!(alignment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ports_are_numbers_or_names() {
        for (text, is_valid) in [
            ("0", true),
            ("65535", true),
            ("discard", true),
            ("65536", false),
            ("12x", false),
            ("1234567890", false),
            ("abcdefghij", false),
        ] {
            assert_eq!(port(text).is_ok(), is_valid, "{text}");
        }
    }

    #[test]
    fn family_names_are_parsed() {
        for (word, expected) in [
            ("4", Family::V4),
            ("inet", Family::V4),
            ("AF_INET", Family::V4),
            ("ipv4", Family::V4),
            ("6", Family::V6),
            ("inet6", Family::V6),
            ("af_inet6", Family::V6),
            ("46", Family::V6),
            ("unspec", Family::Unspecified),
            ("0", Family::Unspecified),
        ] {
            assert_eq!(family(word), (expected, None), "{word}");
        }
        assert_eq!(
            family("foo"),
            (
                Family::Unspecified,
                Some(
                    "WARNING! foo not recognized as an address family, using AF_UNPSEC\n\
                     Are you sure netperf was configured for that address family?"
                        .to_owned()
                )
            )
        );
    }

    #[test]
    fn types_of_service_are_names_or_c_numbers() {
        for (text, value) in [
            ("0x20", Some(Some(0x20))),
            ("0X20", Some(Some(0x20))),
            ("32", Some(Some(32))),
            ("040", Some(Some(32))),
            ("0", Some(Some(0))),
            ("EF", Some(Some(0xb8))),
            ("cs7", Some(Some(0xe0))),
            ("-1", Some(None)),
            ("256", None),
            ("garbage", None),
            ("", None),
            ("0x", None),
            ("--1", None),
            ("09", None),
            ("+-1", None),
        ] {
            assert_eq!(type_of_service(text).ok(), value, "{text}");
        }
    }
}
