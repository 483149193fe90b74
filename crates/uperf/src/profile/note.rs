//! Notes: errors and warnings about a profile, with their positions.

use super::text::{ProfileText, Span};

/// Error or warning about a part of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether the note prevents the run.
    pub severity: Severity,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Text in question, as written; at most 80 characters.
    pub excerpt: String,
    /// Description of the problem; an error starts with stock's words if it has any.
    pub text: String,
    /// Meaning that linerate assumes, for a warning.
    pub assumed: Option<String>,
    /// Visible part of the line, and the number of characters before the problem in it.
    source: (String, usize),
}

/// Effect of a note on the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The profile does not run.
    Error,
    /// The profile runs with the assumed meaning.
    Warning,
}

impl Note {
    /// Formats the note as `file:line:column: warning: text (assumed …)`, without a line end.
    ///
    /// Scripts search the output for words such as "error", so the text of a warning must not
    /// contain them.
    pub fn format_line(&self, file: &str) -> String {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let (line, column, text) = (self.line, self.column, printable(&self.text, 400));
        let assumed = self.assumed.as_ref().map_or_else(String::new, |assumed| {
            format!(" (assumed {})", printable(assumed, 200))
        });
        format!("{file}:{line}:{column}: {severity}: {text}{assumed}")
    }

    /// Formats the note for a terminal: its line, the profile's line, and a mark below the problem.
    pub fn format_with_source(&self, file: &str) -> String {
        let (source, before) = &self.source;
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let blank = " ".repeat(*before);
        // The mark ends at the end of the visible part.
        let max_mark = source.chars().count().saturating_sub(*before).max(1);
        let mark = "^".repeat(self.excerpt.chars().count().clamp(1, max_mark));
        let note = self.format_line(file);
        format!("{note}\n{number} | {source}\n{margin} | {blank}{mark}")
    }
}

/// Notes of one pass over the text of a profile.
///
/// Keeps the first [`MAX_NOTES`] of each severity and counts the others. A file that is not a
/// profile could have millions.
pub(super) struct Notes<'t> {
    text: &'t ProfileText,
    list: Vec<(usize, Note)>,
    errors: usize,
    warnings: usize,
}

/// Maximum number of notes of each severity.
const MAX_NOTES: usize = 100;

impl<'t> Notes<'t> {
    pub(super) fn new(text: &'t ProfileText) -> Self {
        Self {
            text,
            list: Vec::new(),
            errors: 0,
            warnings: 0,
        }
    }

    pub(super) fn error(&mut self, span: &Span, text: impl Into<String>) {
        self.errors += 1;
        if self.errors <= MAX_NOTES {
            self.push(Severity::Error, span, text.into(), None);
        }
    }

    pub(super) fn warn(
        &mut self,
        span: &Span,
        text: impl Into<String>,
        assumed: impl Into<String>,
    ) {
        self.warnings += 1;
        if self.warnings <= MAX_NOTES {
            self.push(Severity::Warning, span, text.into(), Some(assumed.into()));
        }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns offset and text of the first error.
    pub(super) fn first_error(&self) -> Option<(usize, String)> {
        let (offset, note) = self
            .list
            .iter()
            .find(|(_, note)| note.severity == Severity::Error)?;
        Some((*offset, note.text.clone()))
    }

    /// Adds the notes of another pass over the same text.
    pub(super) fn append(&mut self, other: Self) {
        self.list.extend(other.list);
        self.errors += other.errors;
        self.warnings += other.warnings;
    }

    /// Returns the notes in the order of the text.
    pub(super) fn finish(mut self) -> Vec<Note> {
        let end = self.text.chars.len();
        for (severity, count) in [
            (Severity::Error, self.errors),
            (Severity::Warning, self.warnings),
        ] {
            if count > MAX_NOTES {
                let text = format!("{} more like these are not shown", count - MAX_NOTES);
                self.push(severity, &(end..end), text, None);
            }
        }
        self.list.sort_by_key(|(at, _)| *at);
        self.list.into_iter().map(|(_, note)| note).collect()
    }

    fn push(&mut self, severity: Severity, span: &Span, text: String, assumed: Option<String>) {
        let (line, column) = self.text.position(span.start);
        let note = Note {
            severity,
            line,
            column,
            excerpt: printable(self.text.excerpt(span), 80),
            text,
            assumed,
            source: visible_part(self.text.line(line), column - 1),
        };
        self.list.push((span.start, note));
    }
}

/// Returns at most 100 characters of the line around the character at `at`, and its index there.
fn visible_part(line: &str, at: usize) -> (String, usize) {
    const WIDTH: usize = 100;
    let skipped = if at < WIDTH { 0 } else { at - WIDTH / 2 };
    let part: String = line.chars().skip(skipped).take(WIDTH).collect();
    let before = (at - skipped).min(part.chars().count());
    (printable(&part, WIDTH), before)
}

/// Replaces control characters, and cuts the text to `max_chars` characters.
fn printable(text: &str, max_chars: usize) -> String {
    let visible = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    let mut shown: String = text.chars().take(max_chars).map(visible).collect();
    if text.chars().nth(max_chars).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_its_position_and_source() {
        let (text, _) = ProfileText::decode(b"<profile>\n\t<flowop type=write />\n</profile>\n");
        let mut notes = Notes::new(&text);
        notes.warn(&(19..29), "type=write is not in quotes", "type=\"write\"");
        let [note] = notes.finish().try_into().expect("one note");
        let line = "p.xml:2:10: warning: type=write is not in quotes (assumed type=\"write\")";
        assert_eq!(note.format_line("p.xml"), line);
        assert_eq!(note.excerpt, "type=write");
        assert_eq!(
            note.format_with_source("p.xml"),
            format!("{line}\n2 |  <flowop type=write />\n  |          ^^^^^^^^^^")
        );
    }

    #[test]
    fn notes_are_bounded_in_number_and_length() {
        let (text, _) = ProfileText::decode("\u{1b}[2Jx".repeat(100_000).as_bytes());
        let mut notes = Notes::new(&text);
        for at in 0..1000 {
            notes.error(&(4 * at..400_000), text.excerpt(&(0..300_000)));
        }
        assert!(notes.has_errors());
        let notes = notes.finish();
        assert_eq!(notes.len(), MAX_NOTES + 1);
        assert_eq!(notes[MAX_NOTES].text, "900 more like these are not shown");
        for note in notes {
            let shown = note.format_with_source("p");
            assert!(shown.len() < 3000, "{}", shown.len());
            assert!(!shown.contains('\u{1b}'), "{shown}");
        }
    }

    #[test]
    fn the_mark_is_below_the_problem_in_a_long_line() {
        let line = format!("{}hi{}", " ".repeat(500), " ".repeat(500));
        let (text, _) = ProfileText::decode(line.as_bytes());
        let mut notes = Notes::new(&text);
        notes.error(&(500..502), "here");
        let shown = notes.finish()[0].format_with_source("p");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].find("hi"), lines[2].find("^^"), "{shown}");
    }
}
