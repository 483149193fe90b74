//! Text of a profile: decodes the bytes and maps offsets to lines and columns.

use std::ops::Range;

use super::number::ProfileWarning;

/// Decoded profile with the offsets of its lines.
pub(super) struct ProfileText {
    /// The characters, without a byte order mark.
    pub(super) chars: String,
    /// Byte offsets of the line starts in [`Self::chars`].
    line_starts: Vec<usize>,
}

/// Byte range of [`ProfileText::chars`].
pub(super) type Span = Range<usize>;

impl ProfileText {
    /// Decodes the bytes. Returns a warning unless they are UTF-8 and have no byte order mark.
    ///
    /// A byte order mark selects UTF-8 or UTF-16. Other text is UTF-8 if valid, else ISO 8859-1.
    pub(super) fn decode(bytes: &[u8]) -> (Self, Option<ProfileWarning>) {
        let (chars, warning) = match bytes {
            [0xff, 0xfe, rest @ ..] => {
                (decode_utf16(rest, u16::from_le_bytes), Some(UTF16_WARNING))
            }
            [0xfe, 0xff, rest @ ..] => {
                (decode_utf16(rest, u16::from_be_bytes), Some(UTF16_WARNING))
            }
            [0xef, 0xbb, 0xbf, rest @ ..] => {
                let mark = (
                    "a byte order mark, which stock uperf refuses",
                    "the text after it",
                );
                (String::from_utf8_lossy(rest).into_owned(), Some(mark))
            }
            _ => {
                let text = std::str::from_utf8(bytes).map(str::to_owned);
                let is_utf8 = text.is_ok();
                let latin = |_| bytes.iter().map(|byte| char::from(*byte)).collect();
                let warning = ("the file is not UTF-8", "ISO 8859-1");
                (text.unwrap_or_else(latin), (!is_utf8).then_some(warning))
            }
        };
        let ends = chars.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(ends).collect();
        let warning = warning.map(|(text, assumed)| ProfileWarning::new(text, assumed));
        (Self { chars, line_starts }, warning)
    }

    /// Returns line and column of an offset, both from 1. Columns count characters.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.line_of(offset);
        let start = self.line_starts[line - 1];
        let end = (start..=offset.min(self.chars.len()))
            .rfind(|at| self.chars.is_char_boundary(*at))
            .unwrap_or(start);
        // An offset within a character belongs to the next column.
        let within_character = usize::from(end < offset.min(self.chars.len()));
        let before = self.chars[start..end].chars().count() + within_character;
        (line, before + 1)
    }

    /// Returns the offset of a line and column, or the nearest valid offset.
    pub(super) fn offset(&self, line: usize, column: usize) -> usize {
        let line = line.clamp(1, self.line_starts.len());
        let start = self.line_starts[line - 1];
        let chars = self.line(line).char_indices();
        let mut offsets = chars.map(|(at, _)| start + at);
        let end = start + self.line(line).len();
        offsets.nth(column.saturating_sub(1)).unwrap_or(end)
    }

    /// Returns the line of an offset, from 1.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// Returns the text of a line, counted from 1, without its line end.
    pub(super) fn line(&self, line: usize) -> &str {
        let start = self.line_starts[line - 1];
        let end = self.line_starts.get(line).copied();
        let line = &self.chars[start..end.unwrap_or(self.chars.len())];
        line.trim_end_matches(['\n', '\r'])
    }

    /// Returns the text of the span; empty if the span cuts a character.
    pub(super) fn excerpt(&self, span: &Span) -> &str {
        self.chars.get(span.clone()).unwrap_or_default()
    }
}

/// Returns the longest prefix of at most `max_bytes` bytes that cuts no character.
pub(crate) fn truncated(text: &str, max_bytes: usize) -> &str {
    let mut end = max_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

const UTF16_WARNING: (&str, &str) = (
    "UTF-16, which stock uperf refuses",
    "the same text in UTF-8",
);

/// Decodes UTF-16. Invalid pairs of bytes, and a single last byte, become U+FFFD.
fn decode_utf16(bytes: &[u8], read_unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| read_unit(*pair)).collect();
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
        let (text, warning) = ProfileText::decode("aä\r\n\nß=x".as_bytes());
        assert_eq!(warning, None);
        for (offset, position) in [
            (0, (1, 1)),
            (1, (1, 2)),
            // In the middle of the second character.
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
        for (text, max_bytes, expected) in [
            ("abc", 5, "abc"),
            ("abc", 2, "ab"),
            ("aä", 2, "a"),
            ("", 0, ""),
        ] {
            assert_eq!(truncated(text, max_bytes), expected);
        }
    }

    #[test]
    fn bytes_become_characters() {
        for (bytes, chars, assumed) in [
            (&b"a\xe4"[..], "aä", Some("ISO 8859-1")),
            (b"\xff\xfea\0", "a", Some("the same text in UTF-8")),
            (
                b"\xfe\xff\0a\0",
                "a\u{fffd}",
                Some("the same text in UTF-8"),
            ),
            (b"\xef\xbb\xbfa", "a", Some("the text after it")),
            (b"", "", None),
        ] {
            let (text, found) = ProfileText::decode(bytes);
            let found = found.map(|warning| warning.assumed);
            assert_eq!((text.chars.as_str(), found.as_deref()), (chars, assumed));
        }
    }
}
