//! The values that options take: numbers, pairs, families, types of service.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::RangeInclusive;
use std::time::Duration;

use getopt::{Quit, refuse, within};
use model::WidthRule;

use super::Family;

/// Reads `a,b` into two places; each option says what they are. `a` sets both, `a,` the first, `,b` the second.
pub(super) fn set<T: Clone>(
    places: [&mut T; 2],
    text: &str,
    parse: impl Fn(&str) -> Result<T, Quit>,
) -> Result<(), Quit> {
    if text.contains(',') {
        return set_first(places, text, parse);
    }
    let value = parse(text)?;
    for place in places {
        place.clone_from(&value);
    }
    Ok(())
}

/// As [`set`], but a lone `a` sets the first only.
pub(super) fn set_first<T>(
    places: [&mut T; 2],
    text: &str,
    parse: impl Fn(&str) -> Result<T, Quit>,
) -> Result<(), Quit> {
    let Some((first, second)) = text.split_once(',') else {
        *places[0] = parse(text)?;
        return Ok(());
    };
    for (place, text) in places.into_iter().zip([first, second]) {
        if !text.is_empty() {
            *place = parse(text)?;
        }
    }
    Ok(())
}

/// A number of seconds, or a duration as Go prints it.
pub(super) fn seconds(text: &str) -> Result<Duration, Quit> {
    let longest = Duration::from_secs(u32::MAX.into());
    if let Some(duration) = units::go_duration(text).filter(|duration| *duration <= longest) {
        return Ok(duration);
    }
    number(text, 1..=u32::MAX.into()).map(Duration::from_secs)
}

/// A number with netperf's suffixes, within `range`.
pub(super) fn number<T: TryFrom<i64>>(text: &str, range: RangeInclusive<i64>) -> Result<T, Quit> {
    within(text, units::netperf_size(text), range)
}

/// Any number that a word of the protocol holds.
pub(super) fn word(text: &str) -> Result<i32, Quit> {
    number(text, i64::from(i32::MIN)..=i64::from(i32::MAX))
}

/// A number of bytes or of things, from 0.
pub(super) fn count(text: &str) -> Result<u32, Quit> {
    number(text, 0..=i64::from(i32::MAX))
}

/// A number, where a negative one leaves the default in force.
pub(super) fn count_or_default(text: &str) -> Result<Option<u32>, Quit> {
    Ok(u32::try_from(word(text)?).ok())
}

/// A number of buffers, where 0 is the default.
pub(super) fn width(text: &str) -> Result<WidthRule, Quit> {
    Ok(match count(text)? {
        0 => WidthRule::CoverSocketBuffer,
        buffers => WidthRule::Buffers(buffers),
    })
}

/// An alignment in bytes. The stock tool crashes on 0 and misaligns on what is no power of two.
pub(super) fn alignment(text: &str) -> Result<u32, Quit> {
    let bytes = count(text)?;
    if !bytes.is_power_of_two() {
        return refuse(format!("an alignment of {bytes} is not a power of two"));
    }
    Ok(bytes)
}

/// A port as text: a number, or a service's name for the resolver, in at most nine characters.
pub(super) fn port(text: &str) -> Result<String, Quit> {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    if text.len() > 9 || (is_number && text.parse::<u16>().is_err()) {
        return refuse(format!("'{text}' is not a port"));
    }
    Ok(text.to_owned())
}

/// Parses a passphrase; `@FILE` reads it from the first line of a file.
pub(super) fn passphrase(text: &str) -> Result<String, Quit> {
    /// What fits into the protocol's message with its closing NUL.
    const MOST: usize = 647;
    let passphrase = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(file) => match first_line(file, MOST) {
            Ok(line) => line,
            Err(error) => return refuse(sys::describe(&error)),
        },
    };
    if passphrase.len() > MOST {
        return refuse(format!("a passphrase has at most {MOST} bytes"));
    }
    Ok(passphrase)
}

/// Reads the first line of a file without its line end; cuts it just above `most` bytes.
fn first_line(file: &str, most: usize) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(file)?.take(most as u64 + 2);
    BufReader::new(file).read_line(&mut text)?;
    let line = text.trim_end_matches(['\n', '\r']);
    if line.is_empty() {
        return Err(io::Error::other("its first line is empty"));
    }
    Ok(line.to_owned())
}

/// An address family by one of its words. The second part is what the stock tool says about a word
/// that it does not know; it then goes on with any family.
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

/// A type of service by name (RFC 2474, 2597, 3246; RFC 1349's three) or number, −1 for none.
pub(super) fn type_of_service(text: &str) -> Result<Option<u8>, Quit> {
    if let Some(value) = units::type_of_service(text) {
        return Ok(Some(value));
    }
    match c_integer(text) {
        Some(-1) => Ok(None),
        Some(value) if (0..=255).contains(&value) => Ok(Some(value as u8)),
        _ => refuse(format!(
            "'{text}' is neither a type of service by name nor a number from 0 to 255"
        )),
    }
}

/// An integer in C notation: decimal, `0x` hexadecimal, `0` octal.
pub(super) fn c_integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    Some(sign * i64::from(units::c_number(digits)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_in_two_kinds() {
        for (text, both, first_only) in [
            ("5", (5, 5), (5, 0)),
            ("5,", (5, 0), (5, 0)),
            (",5", (0, 5), (0, 5)),
            ("5,6", (5, 6), (5, 6)),
            ("1K,1k", (1024, 1000), (1024, 1000)),
            (",", (0, 0), (0, 0)),
        ] {
            let mut pair = [0; 2];
            set(pair.each_mut(), text, count).unwrap();
            assert_eq!(<(_, _)>::from(pair), both, "{text}");
            let mut pair = [0; 2];
            set_first(pair.each_mut(), text, count).unwrap();
            assert_eq!(<(_, _)>::from(pair), first_only, "{text}");
        }
    }

    #[test]
    fn a_passphrase_may_be_in_a_file() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        let of_file = |text: &str| {
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
            assert_eq!(of_file(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(passphrase("plain").ok().as_deref(), Some("plain"));
        assert!(passphrase(&format!("{longest}x")).is_err());
        match passphrase("@/no/such/file") {
            Err(Quit::Refused(said)) => assert_eq!(said, "No such file or directory"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_are_refused_with_the_reason() {
        for (text, why) in [
            ("", "'' is not a number"),
            ("x", "'x' is not a number"),
            ("1.5", "'1.5' is not a number"),
            ("-1", "-1 is not from 0 to 2147483647"),
            ("2G", "2147483648 is not from 0 to 2147483647"),
            ("1,2", "'1,2' is not a number"),
        ] {
            match count(text) {
                Err(Quit::Refused(said)) => assert_eq!(said, why),
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
        for (text, fits) in [
            ("0", true),
            ("65535", true),
            ("discard", true),
            ("65536", false),
            ("12x", false),
            ("1234567890", false),
            ("abcdefghij", false),
        ] {
            assert_eq!(port(text).is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn families_have_many_words() {
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
