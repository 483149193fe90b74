//! A profile's bytes as characters, and where each of them stands.

use std::ops::Range;

use super::number::Doubt;

/// A whole profile, and where its lines begin.
pub(super) struct Text {
    /// The characters, without a byte order mark.
    pub(super) chars: String,
    /// Byte offsets into [`Self::chars`].
    line_starts: Vec<usize>,
}

/// A range of bytes of [`Text::chars`].
pub(super) type Span = Range<usize>;

impl Text {
    /// By its byte order mark UTF-8 or UTF-16; without one UTF-8 where it is that, else ISO 8859-1. If
    /// it is not plain UTF-8 there is a doubt.
    pub(super) fn of(bytes: &[u8]) -> (Self, Option<Doubt>) {
        let (chars, doubt) = match bytes {
            [0xff, 0xfe, rest @ ..] => (utf16(rest, u16::from_le_bytes), Some(WIDE)),
            [0xfe, 0xff, rest @ ..] => (utf16(rest, u16::from_be_bytes), Some(WIDE)),
            [0xef, 0xbb, 0xbf, rest @ ..] => {
                let mark = ("a byte order mark, which uperf refuses", "nothing");
                (String::from_utf8_lossy(rest).into_owned(), Some(mark))
            }
            _ => {
                let text = std::str::from_utf8(bytes).map(str::to_owned);
                let is_text = text.is_ok();
                let latin = |_| bytes.iter().map(|byte| char::from(*byte)).collect();
                let doubt = ("the file is not UTF-8", "ISO 8859-1");
                (text.unwrap_or_else(latin), (!is_text).then_some(doubt))
            }
        };
        let ends = chars.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(ends).collect();
        let doubt = doubt.map(|(text, assumed)| Doubt::new(text, assumed));
        (Self { chars, line_starts }, doubt)
    }

    /// Line and column of an offset, both from 1, the column in characters.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.line_of(offset);
        let start = self.line_starts[line - 1];
        let end = (start..=offset.min(self.chars.len()))
            .rfind(|at| self.chars.is_char_boundary(*at))
            .unwrap_or(start);
        // An offset within a character is behind it.
        let within = usize::from(end < offset.min(self.chars.len()));
        let before = self.chars[start..end].chars().count() + within;
        (line, before + 1)
    }

    /// The offset of a line and column; where there are none, the nearest.
    pub(super) fn offset(&self, line: usize, column: usize) -> usize {
        let line = line.clamp(1, self.line_starts.len());
        let start = self.line_starts[line - 1];
        let chars = self.line(line).char_indices();
        let mut offsets = chars.map(|(at, _)| start + at);
        let end = start + self.line(line).len();
        offsets.nth(column.saturating_sub(1)).unwrap_or(end)
    }

    /// The line of an offset, from 1.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// The line, from 1, without its end.
    pub(super) fn line(&self, line: usize) -> &str {
        let start = self.line_starts[line - 1];
        let end = self.line_starts.get(line).copied();
        let line = &self.chars[start..end.unwrap_or(self.chars.len())];
        line.trim_end_matches(['\n', '\r'])
    }

    /// What stands there, or nothing where the range is not one of characters.
    pub(super) fn excerpt(&self, span: &Span) -> &str {
        self.chars.get(span.clone()).unwrap_or_default()
    }
}

/// As many whole characters of the text as there is room for, in bytes.
pub(crate) fn shortened(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

const WIDE: (&str, &str) = ("the file is UTF-16, which uperf refuses", "its characters");

/// Pairs of bytes that are no character, and a last one alone, become U+FFFD.
fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    let mut chars = String::from_utf16_lossy(&units);
    if !rest.is_empty() {
        chars.push(char::REPLACEMENT_CHARACTER);
    }
    chars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let (text, doubt) = Text::of("aä\r\n\nß=x".as_bytes());
        assert_eq!(doubt, None);
        for (offset, position) in [
            (0, (1, 1)),
            (1, (1, 2)),
            // In the middle of the second one.
            (2, (1, 3)),
            (3, (1, 3)),
            (5, (2, 1)),
            (6, (3, 1)),
            (8, (3, 2)),
            (10, (3, 4)),
            (99, (3, 4)),
        ] {
            assert_eq!(text.position(offset), position, "{offset}");
        }
        assert_eq!(
            [text.line(1), text.line(2), text.line(3)],
            ["aä", "", "ß=x"]
        );
        for (line, column, offset) in [(1, 1, 0), (1, 3, 3), (3, 2, 8), (9, 9, 10), (0, 0, 0)] {
            assert_eq!(text.offset(line, column), offset, "{line}:{column}");
        }
        assert_eq!(text.excerpt(&(6..8)), "ß");
        assert_eq!(text.excerpt(&(7..90)), "");
    }

    #[test]
    fn texts_are_shortened_between_characters() {
        for (text, most, expected) in [
            ("abc", 5, "abc"),
            ("abc", 2, "ab"),
            ("aä", 2, "a"),
            ("", 0, ""),
        ] {
            assert_eq!(shortened(text, most), expected);
        }
    }

    #[test]
    fn bytes_become_characters() {
        for (bytes, chars, assumed) in [
            (&b"a\xe4"[..], "aä", Some("ISO 8859-1")),
            (b"\xff\xfea\0", "a", Some("its characters")),
            (b"\xfe\xff\0a\0", "a\u{fffd}", Some("its characters")),
            (b"\xef\xbb\xbfa", "a", Some("nothing")),
            (b"", "", None),
        ] {
            let (text, found) = Text::of(bytes);
            let found = found.map(|doubt| doubt.assumed);
            assert_eq!((text.chars.as_str(), found.as_deref()), (chars, assumed));
        }
    }
}
