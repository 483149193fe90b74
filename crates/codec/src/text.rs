//! Texts of fixed size, and what of a peer's text is shown escaped.

use std::fmt::{self, Write};

/// A text in a field of `N` bytes, padded with NULs. It need not be UTF-8, and one that fills its field has no NUL.
///
/// It is displayed [`escaped`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

/// A text of somebody else, displayed without what a terminal or a reader of lines would act on.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(&'a [u8]);

/// Shows a text in one line: control characters of ASCII and of Latin 1 (C0, DEL, C1), line and paragraph separators,
/// characters that change the direction of writing, and bytes that are not UTF-8 have an escape in their place.
///
/// What has none of them is displayed as it is; a backslash is no exception.
pub fn escaped<T: AsRef<[u8]> + ?Sized>(text: &T) -> Escaped<'_> {
    Escaped(text.as_ref())
}

/// Whether a text is displayed as it is.
pub fn is_plain<T: AsRef<[u8]> + ?Sized>(text: &T) -> bool {
    let mut chunks = text.as_ref().utf8_chunks();
    chunks.all(|chunk| chunk.invalid().is_empty() && !chunk.valid().contains(needs_escape))
}

/// A JSON document with escapes in place of what a terminal acts on. The values in it stay what they are.
pub fn escaped_json(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    for character in document.chars() {
        // Those of ASCII have escapes already, or are between values.
        if needs_escape(character) && !character.is_ascii_whitespace() {
            let _ = write!(shown, "\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

impl<const N: usize> Text<N> {
    /// The first `N` − 1 bytes of `text`, so that a reader in C finds its NUL, up to a NUL.
    pub fn new(text: impl AsRef<[u8]>) -> Self {
        let text = until_nul(text.as_ref());
        Self::padded(&text[..text.len().min(N.saturating_sub(1))])
    }

    /// `text`, if it leaves room for the NUL that a reader in C looks for, and has none itself.
    pub fn fitting(text: &str) -> Option<Self> {
        let fits = text.len() < N && !text.contains('\0');
        fits.then(|| Self::padded(text.as_bytes()))
    }

    /// As many characters of `text`, up to a NUL, as leave room for one.
    pub fn cut(text: &str) -> Self {
        let (text, _) = text.split_once('\0').unwrap_or((text, ""));
        let mut most = text.len().min(N.saturating_sub(1));
        while !text.is_char_boundary(most) {
            most -= 1;
        }
        Self::padded(&text.as_bytes()[..most])
    }

    /// The text in a field. What follows a NUL is a leftover, and left out.
    pub fn of_field(mut field: [u8; N]) -> Self {
        let length = until_nul(&field).len();
        field[length..].fill(0);
        Self(field)
    }

    /// The whole field, with its padding.
    pub fn raw_field(&self) -> &[u8; N] {
        &self.0
    }

    /// What stands before the first NUL; all of it when there is none.
    pub fn raw_bytes(&self) -> &[u8] {
        until_nul(&self.0)
    }

    /// The text, if it is UTF-8.
    pub fn raw_str(&self) -> Option<&str> {
        std::str::from_utf8(self.raw_bytes()).ok()
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.raw_bytes().is_empty()
    }

    /// The lines of a text that may have several, each escaped, with a line end where there was one.
    pub fn lines(&self) -> String {
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

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(text) = std::str::from_utf8(self.0)
            && is_plain(text)
        {
            return f.pad(text);
        }
        let mut shown = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                push(&mut shown, character);
            }
            for byte in chunk.invalid() {
                let _ = write!(shown, "\\x{byte:02x}");
            }
        }
        f.pad(&shown)
    }
}

fn push(shown: &mut String, character: char) {
    let _ = match character {
        '\n' => shown.write_str("\\n"),
        '\r' => shown.write_str("\\r"),
        '\t' => shown.write_str("\\t"),
        _ if !needs_escape(character) => shown.write_char(character),
        _ if character.is_ascii() => write!(shown, "\\x{:02x}", u32::from(character)),
        _ => write!(shown, "\\u{{{:x}}}", u32::from(character)),
    };
}

fn needs_escape(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Unicode's Bidi_Control, and the two separators.
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

fn until_nul(text: &[u8]) -> &[u8] {
    let length = text.iter().position(|&byte| byte == 0);
    &text[..length.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_nothing_is_shown_as_it_is() {
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
    fn what_a_terminal_acts_on_is_escaped() {
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
            (b"a\xffb\xc3", r"a\xffb\xc3"),
            (b"\x9b31m", r"\x9b31m"),
        ] {
            assert_eq!(escaped(bytes).to_string(), shown);
            assert!(!is_plain(bytes), "{shown}");
            let again = escaped(shown).to_string();
            assert_eq!(again, shown, "an escape is plain");
        }
    }

    #[test]
    fn a_document_stays_what_it_is() {
        let document = "{\n  \"text\": \"\u{9b}2J\u{7f} \u{202e} µ \\n\"\n}\n";
        let shown = "{\n  \"text\": \"\\u009b2J\\u007f \\u202e µ \\n\"\n}\n";
        assert_eq!(escaped_json(document), shown);
    }

    #[test]
    fn texts_are_shown_escaped_and_padded() {
        let text = Text::<8>::of_field(*b"a\x1bb\0left");
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
        assert_eq!(text.lines(), " No such\\x1b[2J 7  \n Error\\r\n");
        assert_eq!(Text::<4>::default().lines(), "");
    }

    #[test]
    fn texts_and_their_fields() {
        for (given, fits, cut) in [
            ("", true, ""),
            ("reno", true, "reno"),
            ("1234567", true, "1234567"),
            ("12345678", false, "1234567"),
            ("123456é", false, "123456"),
            ("a\0b", false, "a"),
        ] {
            assert_eq!(Text::<8>::fitting(given).is_some(), fits, "{given:?}");
            assert_eq!(Text::<8>::cut(given).raw_str(), Some(cut), "{given:?}");
        }
        for (given, kept) in [
            (&b""[..], &b""[..]),
            (b"b\0r", b"b"),
            (b"12345678", b"1234567"),
            (b"\xff\xfe", b"\xff\xfe"),
        ] {
            let text = Text::<8>::new(given);
            assert_eq!(text.raw_bytes(), kept);
            assert_eq!(text.is_empty(), kept.is_empty());
        }
        let full = Text::of_field(*b"full");
        assert_eq!(full.raw_bytes(), b"full");
        assert!(full == *"full");
        assert_eq!(Text::of_field(*b"\xff\0\0\0").raw_str(), None);
    }
}
