//! Types of service by their names.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_have_names() {
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
    }
}
