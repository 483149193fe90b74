//! Elements and attributes of a profile, the common result of uperf's reading and the XML reading.

use crate::named_enum::named_enum;

use super::number::ProfileWarning;
use super::text::Span;

/// Result of one of the two readers.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Tags and attributes, in the order of the text.
    pub(super) events: Vec<MarkupEvent>,
    /// Text that the reader refuses.
    pub(super) errors: Vec<(Span, String)>,
    /// Text that the reader accepts with an assumption.
    pub(super) warnings: Vec<(Span, ProfileWarning)>,
    /// True if uperf's reader ignores a start tag, as in `<transaction><flowop`.
    pub(super) misses_element: bool,
}

impl Reading {
    /// Adds an error; keeps the first 1000.
    pub(super) fn add_error(&mut self, span: Span, text: impl Into<String>) {
        if self.errors.len() < 1000 {
            self.errors.push((span, text.into()));
        }
    }

    /// Adds a warning; keeps the first 1000.
    pub(super) fn add_warning(
        &mut self,
        span: Span,
        text: impl Into<String>,
        assumed: impl Into<String>,
    ) {
        if self.warnings.len() < 1000 {
            self.warnings
                .push((span, ProfileWarning::new(text, assumed)));
        }
    }
}

/// Start tag, end tag or attribute.
#[derive(Clone, Debug)]
pub(super) enum MarkupEvent {
    /// `<group`
    Start(Element, Span),
    /// `</group>`
    End(Element),
    /// `nthreads="4"`
    Attribute(AttributeName, AttributeValue),
}

/// Returns start and end marks of the comment or processing instruction at the start of `text`.
pub(super) fn comment_marks(text: &str) -> Option<(&'static str, &'static str)> {
    let known = [("<!--", "-->"), ("<?", "?>")];
    known.into_iter().find(|(begin, _)| text.starts_with(begin))
}

named_enum! {
    pub(super) enum Element {
        Profile = 0 "profile",
        Group = 1 "group",
        Transaction = 2 "transaction",
        Flowop = 3 "flowop",
    }
}

named_enum! {
    /// Name of an attribute.
    pub(super) enum AttributeName {
        Name = 0 "name",
        Iterations = 1 "iterations",
        Type = 2 "type",
        Options = 3 "options",
        Duration = 4 "duration",
        Threads = 5 "nthreads",
        Processes = 6 "nprocs",
        Rate = 7 "rate",
    }
}

/// Value of an attribute.
#[derive(Clone, Debug)]
pub(super) struct AttributeValue {
    /// Value that the reader returns; uperf's reader folds it to lower case.
    pub(super) text: String,
    /// Value as written.
    pub(super) written: String,
    /// Span of name and value.
    pub(super) span: Span,
    /// Offset at which the value begins.
    pub(super) start: usize,
}

impl AttributeValue {
    /// Returns the span of a part of the value.
    ///
    /// Returns the span of the attribute if the value differs from the text, as with entities.
    pub(super) fn span_of(&self, part: Span) -> Span {
        let span = self.start + part.start..self.start + part.end;
        if span.end <= self.span.end {
            span
        } else {
            self.span.clone()
        }
    }
}
