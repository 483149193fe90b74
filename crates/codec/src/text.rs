//! Texts of fixed size, and the escaping of a peer's text.

use std::fmt::{self, Write};

/// A text in a field of `N` bytes, padded with NULs. It may contain invalid UTF-8. A text of `N`
/// bytes has no NUL.
///
/// `Display` and `Debug` print it [`escaped`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

/// A peer's text. `Display` escapes the characters that control a terminal or end a line.
#[derive(Clone, Copy, Debug)]
pub struct EscapedText<'a>(&'a [u8]);

/// Displays a text in one line. The following are replaced by escapes: control characters (C0, DEL,
/// C1), line and paragraph separators, format characters (Unicode's category Cf, such as those that
/// change the direction of writing or have no width), fillers, and invalid UTF-8.
///
/// All other text is displayed unchanged. A backslash is not escaped.
pub fn escaped<T: AsRef<[u8]> + ?Sized>(text: &T) -> EscapedText<'_> {
    EscapedText(text.as_ref())
}

/// Whether [`escaped`] displays a text unchanged.
pub fn is_plain<T: AsRef<[u8]> + ?Sized>(text: &T) -> bool {
    let mut chunks = text.as_ref().utf8_chunks();
    chunks.all(|chunk| chunk.invalid().is_empty() && !chunk.valid().contains(needs_escape))
}

/// Returns a JSON document in which the characters that control a terminal are escaped. The values
/// in it do not change.
pub fn escaped_json(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    for character in document.chars() {
        // Inside of values, ASCII control characters are already escaped.
        if needs_escape(character) && !character.is_ascii_whitespace() {
            push_json_escape(&mut shown, character);
        } else {
            shown.push(character);
        }
    }
    shown
}

impl<const N: usize> Text<N> {
    /// Creates a text from the first `N` − 1 bytes of `text`, up to a NUL. A program in C thus
    /// always finds a NUL.
    pub fn new(text: impl AsRef<[u8]>) -> Self {
        let text = trim_at_nul(text.as_ref());
        Self::padded(&text[..text.len().min(N.saturating_sub(1))])
    }

    /// Creates a text from `text`. Returns `None` if it contains a NUL or is longer than `N` − 1
    /// bytes: a program in C needs a NUL after it.
    pub fn try_new(text: &str) -> Option<Self> {
        let fits = text.len() < N && !text.contains('\0');
        fits.then(|| Self::padded(text.as_bytes()))
    }

    /// Creates a text from as many characters of `text`, up to a NUL, as fit into `N` − 1 bytes.
    pub fn truncated(text: &str) -> Self {
        let (text, _) = text.split_once('\0').unwrap_or((text, ""));
        let mut len = text.len().min(N.saturating_sub(1));
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        Self::padded(&text.as_bytes()[..len])
    }

    /// Creates the text that a field contains. Bytes after a NUL are leftovers and are cleared.
    pub fn from_field(mut field: [u8; N]) -> Self {
        let length = trim_at_nul(&field).len();
        field[length..].fill(0);
        Self(field)
    }

    /// Returns the field with its padding.
    pub fn raw_field(&self) -> &[u8; N] {
        &self.0
    }

    /// Returns the bytes before the first NUL, or all bytes if the field has no NUL.
    pub fn raw_bytes(&self) -> &[u8] {
        trim_at_nul(&self.0)
    }

    /// Returns the text, or `None` if it is not UTF-8.
    pub fn raw_str(&self) -> Option<&str> {
        std::str::from_utf8(self.raw_bytes()).ok()
    }

    /// Whether the text has no bytes.
    pub fn is_empty(&self) -> bool {
        self.raw_bytes().is_empty()
    }

    /// Returns the text with each line escaped and the line ends kept.
    pub fn escaped_lines(&self) -> String {
        let mut lines = self.raw_bytes().split(|byte| *byte == b'\n');
        let mut text = lines
            .next()
            .map_or_else(String::new, |line| escaped(line).to_string());
        for line in lines {
            let _ = write!(text, "\n{}", escaped(line));
        }
        text
    }

    fn padded(text: &[u8]) -> Self {
        let mut padded = [0; N];
        padded[..text.len()].copy_from_slice(text);
        Self(padded)
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", escaped(self.raw_bytes()))
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped(self.raw_bytes()).fmt(f)
    }
}

impl<const N: usize> PartialEq<str> for Text<N> {
    fn eq(&self, other: &str) -> bool {
        self.raw_bytes() == other.as_bytes()
    }
}

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(text) = std::str::from_utf8(self.0)
            && is_plain(text)
        {
            return f.pad(text);
        }
        let mut shown = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                push_escaped(&mut shown, character);
            }
            for byte in chunk.invalid() {
                let _ = write!(shown, "\\x{byte:02x}");
            }
        }
        f.pad(&shown)
    }
}

fn push_escaped(shown: &mut String, character: char) {
    let _ = match character {
        '\n' => shown.write_str("\\n"),
        '\r' => shown.write_str("\\r"),
        '\t' => shown.write_str("\\t"),
        _ if !needs_escape(character) => shown.write_char(character),
        _ if character.is_ascii() => write!(shown, "\\x{:02x}", u32::from(character)),
        _ => write!(shown, "\\u{{{:x}}}", u32::from(character)),
    };
}

/// Appends the escape of a character in a JSON string: one or two UTF-16 units.
pub fn push_json_escape(text: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(text, "\\u{unit:04x}");
    }
}

/// Whether [`escaped`] replaces this character.
pub fn needs_escape(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Unicode 16.0, categories Cf, Zl and Zp.
            '\u{ad}'
                | '\u{600}'..='\u{605}'
                | '\u{61c}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{890}'..='\u{891}'
                | '\u{8e2}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{110bd}'
                | '\u{110cd}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0001}'
                | '\u{e0020}'..='\u{e007f}'
                // Letters without a glyph.
                | '\u{115f}'..='\u{1160}' | '\u{3164}' | '\u{ffa0}'
        )
}

fn trim_at_nul(text: &[u8]) -> &[u8] {
    let length = text.iter().position(|&byte| byte == 0);
    &text[..length.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_not_escaped() {
        for text in [
            "",
            "cubic",
            r"C:\new",
            "Größe 9 µs → ≈",
            "Tera\u{0301}",
            "日本語",
        ] {
            assert!(is_plain(text), "{text}");
            assert_eq!(escaped(text).to_string(), text);
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        for (bytes, shown) in [
            (
                &b"\x1b]52;c;cm0gLXJmIH4=\x07"[..],
                r"\x1b]52;c;cm0gLXJmIH4=\x07",
            ),
            (b"\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
            (b"a\nb\r\tc\x7f\0", r"a\nb\r\tc\x7f\x00"),
            ("\u{9b}2J \u{85}".as_bytes(), r"\u{9b}2J \u{85}"),
            (
                "user\u{202e}txt.exe\u{2066}".as_bytes(),
                r"user\u{202e}txt.exe\u{2066}",
            ),
            ("a\u{2028}b\u{200f}".as_bytes(), r"a\u{2028}b\u{200f}"),
            (
                "a\u{200b}\u{200d}\u{feff}\u{ad}".as_bytes(),
                r"a\u{200b}\u{200d}\u{feff}\u{ad}",
            ),
            ("\u{e0041}\u{3164}".as_bytes(), r"\u{e0041}\u{3164}"),
            (b"a\xffb\xc3", r"a\xffb\xc3"),
            (b"\x9b31m", r"\x9b31m"),
        ] {
            assert_eq!(escaped(bytes).to_string(), shown);
            assert!(!is_plain(bytes), "{shown}");
            let escaped_twice = escaped(shown).to_string();
            assert_eq!(escaped_twice, shown, "an escape is plain");
        }
    }

    #[test]
    fn escaped_json_keeps_the_values() {
        let document = "{\n  \"text\": \"\u{9b}2J\u{7f} \u{202e} µ \\n \u{e0041}\u{200b}\"\n}\n";
        let shown = "{\n  \"text\": \"\\u009b2J\\u007f \\u202e µ \\n \\udb40\\udc41\\u200b\"\n}\n";
        assert_eq!(escaped_json(document), shown);
    }

    #[test]
    fn texts_are_shown_escaped_and_padded() {
        let text = Text::<8>::from_field(*b"a\x1bb\0left");
        assert_eq!(
            format!("{text}|{text:>7}|{text:.3}|"),
            r"a\x1bb| a\x1bb|a\x|"
        );
        assert_eq!(format!("{text:?}"), "\"a\\x1bb\"");
        assert_eq!(text.raw_bytes(), b"a\x1bb");
        assert_eq!(text.raw_field(), b"a\x1bb\0\0\0\0\0");
    }

    #[test]
    fn lines_stay_lines() {
        let text = Text::<32>::new(" No such\x1b[2J 7  \n Error\r\n");
        assert_eq!(text.escaped_lines(), " No such\\x1b[2J 7  \n Error\\r\n");
        assert_eq!(Text::<4>::default().escaped_lines(), "");
    }

    #[test]
    fn texts_are_limited_to_their_fields() {
        for (given, expected_fit, truncated) in [
            ("", true, ""),
            ("reno", true, "reno"),
            ("1234567", true, "1234567"),
            ("12345678", false, "1234567"),
            ("123456é", false, "123456"),
            ("a\0b", false, "a"),
        ] {
            assert_eq!(
                Text::<8>::try_new(given).is_some(),
                expected_fit,
                "{given:?}"
            );
            assert_eq!(
                Text::<8>::truncated(given).raw_str(),
                Some(truncated),
                "{given:?}"
            );
        }
        for (given, expected) in [
            (&b""[..], &b""[..]),
            (b"b\0r", b"b"),
            (b"12345678", b"1234567"),
            (b"\xff\xfe", b"\xff\xfe"),
        ] {
            let text = Text::<8>::new(given);
            assert_eq!(text.raw_bytes(), expected);
            assert_eq!(text.is_empty(), expected.is_empty());
        }
        let full = Text::from_field(*b"full");
        assert_eq!(full.raw_bytes(), b"full");
        assert!(full == *"full");
        assert_eq!(Text::from_field(*b"\xff\0\0\0").raw_str(), None);
    }
}
