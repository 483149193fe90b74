//! What is to be said about a profile, and where.

use super::text::{Span, Text};

/// An error or a warning about a place in a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether the profile runs all the same.
    pub severity: Severity,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The text in question, as it is written; a long one is cut.
    pub excerpt: String,
    /// What is wrong with it, or odd: of errors in stock's words, where it has any.
    pub text: String,
    /// Of a warning, what is taken to be meant.
    pub assumed: Option<String>,
    /// The line as far as it is shown, and the characters before the place in it.
    source: (String, usize),
}

/// What a note means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing runs.
    Error,
    /// It runs, as is assumed.
    Warning,
}

impl Note {
    /// `file:line:column: warning: text (assumed …)`, without an end of line. A warning has no word in
    /// it by which scripts that watch the output know a failure.
    pub fn one_line(&self, file: &str) -> String {
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

    /// The same, and under it the line of the profile with a mark under the place: for a terminal.
    pub fn with_source(&self, file: &str) -> String {
        let (source, before) = &self.source;
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let blank = " ".repeat(*before);
        // What goes on beyond the shown part of the line gets no mark there.
        let room = source.chars().count().saturating_sub(*before).max(1);
        let mark = "^".repeat(self.excerpt.chars().count().clamp(1, room));
        let note = self.one_line(file);
        format!("{note}\n{number} | {source}\n{margin} | {blank}{mark}")
    }
}

/// The notes of one reading of a profile. Of each severity the first [`MOST`] are kept, the others
/// counted: a file of another kind could have millions.
pub(super) struct Notes<'t> {
    text: &'t Text,
    list: Vec<(usize, Note)>,
    errors: usize,
    warnings: usize,
}

const MOST: usize = 100;

impl<'t> Notes<'t> {
    pub(super) fn new(text: &'t Text) -> Self {
        Self {
            text,
            list: Vec::new(),
            errors: 0,
            warnings: 0,
        }
    }

    pub(super) fn error(&mut self, span: &Span, text: impl Into<String>) {
        self.errors += 1;
        if self.errors <= MOST {
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
        if self.warnings <= MOST {
            self.push(Severity::Warning, span, text.into(), Some(assumed.into()));
        }
    }

    pub(super) fn failed(&self) -> bool {
        self.errors > 0
    }

    /// The first error: where, and its text.
    pub(super) fn first_error(&self) -> Option<(usize, String)> {
        let (at, note) = self
            .list
            .iter()
            .find(|(_, note)| note.severity == Severity::Error)?;
        Some((*at, note.text.clone()))
    }

    /// And those of another reading.
    pub(super) fn append(&mut self, other: Self) {
        self.list.extend(other.list);
        self.errors += other.errors;
        self.warnings += other.warnings;
    }

    /// In the order of the text.
    pub(super) fn finish(mut self) -> Vec<Note> {
        let end = self.text.chars.len();
        for (severity, all) in [
            (Severity::Error, self.errors),
            (Severity::Warning, self.warnings),
        ] {
            if all > MOST {
                let text = format!("{} more like these are not shown", all - MOST);
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
            source: shown(self.text.line(line), column - 1),
        };
        self.list.push((span.start, note));
    }
}

/// At most a terminal's width of the line around the character.
fn shown(line: &str, at: usize) -> (String, usize) {
    const WIDTH: usize = 100;
    let skipped = if at < WIDTH { 0 } else { at - WIDTH / 2 };
    let part: String = line.chars().skip(skipped).take(WIDTH).collect();
    let before = (at - skipped).min(part.chars().count());
    (printable(&part, WIDTH), before)
}

/// Without what would move a terminal's cursor, and not longer than `most` characters.
fn printable(text: &str, most: usize) -> String {
    let visible = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    let mut shown: String = text.chars().take(most).map(visible).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_where_and_shows_it() {
        let (text, _) = Text::of(b"<profile>\n\t<flowop type=write />\n</profile>\n");
        let mut notes = Notes::new(&text);
        notes.warn(&(19..29), "type=write is not in quotes", "type=\"write\"");
        let [note] = notes.finish().try_into().expect("one note");
        let line = "p.xml:2:10: warning: type=write is not in quotes (assumed type=\"write\")";
        assert_eq!(note.one_line("p.xml"), line);
        assert_eq!(note.excerpt, "type=write");
        assert_eq!(
            note.with_source("p.xml"),
            format!("{line}\n2 |  <flowop type=write />\n  |          ^^^^^^^^^^")
        );
    }

    #[test]
    fn notes_are_bounded_in_number_and_length() {
        let (text, _) = Text::of("\u{1b}[2Jx".repeat(100_000).as_bytes());
        let mut notes = Notes::new(&text);
        for at in 0..1000 {
            notes.error(&(4 * at..400_000), text.excerpt(&(0..300_000)));
        }
        assert!(notes.failed());
        let notes = notes.finish();
        assert_eq!(notes.len(), MOST + 1);
        assert_eq!(notes[MOST].text, "900 more like these are not shown");
        for note in notes {
            let shown = note.with_source("p");
            assert!(shown.len() < 3000, "{}", shown.len());
            assert!(!shown.contains('\u{1b}'), "{shown}");
        }
    }

    #[test]
    fn the_place_is_found_in_a_long_line() {
        let line = format!("{}hi{}", " ".repeat(500), " ".repeat(500));
        let (text, _) = Text::of(line.as_bytes());
        let mut notes = Notes::new(&text);
        notes.error(&(500..502), "here");
        let shown = notes.finish()[0].with_source("p");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].find("hi"), lines[2].find("^^"), "{shown}");
    }
}
