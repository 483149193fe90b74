//! Types of service: names and numbers.

/// Returns the octet of a type of service by its name; upper and lower case are equal. The names
/// are those of RFC 2474, 2597 and 3246, and three of RFC 1349.
pub fn parse_type_of_service(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    let digits = |prefix| name.strip_prefix(prefix).map(str::as_bytes);
    match (digits("af"), digits("cs"), name.as_str()) {
        (Some([class @ b'1'..=b'4', drop @ b'1'..=b'3']), ..) => {
            Some((class - b'0') << 5 | (drop - b'0') << 3)
        }
        (_, Some([class @ b'0'..=b'7']), _) => Some((class - b'0') << 5),
        (.., "ef") => Some(0xb8),
        (.., "lowdelay") => Some(0x10),
        (.., "throughput") => Some(0x08),
        (.., "reliability") => Some(0x04),
        _ => None,
    }
}

/// Parses an unsigned number in C's notation: decimal, hexadecimal with `0x`, octal with `0`.
pub fn parse_c_number(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let (radix, digits) = match hex {
        Some(digits) => (16, digits),
        None if text.len() > 1 && text.starts_with('0') => (8, &text[1..]),
        None => (10, text),
    };
    // `from_str_radix` also accepts a sign.
    let starts_with_digit = digits.starts_with(|c: char| c.is_ascii_hexdigit());
    starts_with_digit.then(|| u32::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_have_names_and_numbers() {
        for (text, expected) in [
            ("af11", Some(0x28)),
            ("AF43", Some(0x98)),
            ("cs0", Some(0)),
            ("cs7", Some(0xe0)),
            ("EF", Some(0xb8)),
            ("lowdelay", Some(0x10)),
            ("af14", None),
            ("af51", None),
            ("af1", None),
            ("cs8", None),
            ("cs", None),
            ("", None),
        ] {
            assert_eq!(parse_type_of_service(text), expected, "{text}");
        }
        for (text, expected) in [
            ("0", Some(0)),
            ("56", Some(56)),
            ("056", Some(46)),
            ("0x2e", Some(46)),
            ("0X2E", Some(46)),
            ("08", None),
            ("0x", None),
            ("0x+1", None),
            ("+1", None),
            ("-1", None),
            ("4294967296", None),
            ("", None),
        ] {
            assert_eq!(parse_c_number(text), expected, "{text}");
        }
    }
}
