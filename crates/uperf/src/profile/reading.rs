//! What both readings of a profile, uperf's and that as XML, come to: elements and attributes in the
//! order of the text.

use crate::words::words;

use super::number::Doubt;
use super::text::Span;

/// The text of a profile as one of the two readers sees it.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// In the order of the text.
    pub(super) events: Vec<Event>,
    /// Where it is not what that reader reads.
    pub(super) problems: Vec<(Span, String)>,
    /// Where it is odd.
    pub(super) doubts: Vec<(Span, Doubt)>,
    /// Whether uperf's reader overlooks the beginning of an element, as in `<transaction><flowop`.
    pub(super) overlooks: bool,
}

impl Reading {
    /// One more problem; as many as anybody will look at are kept.
    pub(super) fn problem(&mut self, span: Span, text: impl Into<String>) {
        if self.problems.len() < 1000 {
            self.problems.push((span, text.into()));
        }
    }

    /// One more doubt, within the same bound.
    pub(super) fn doubt(
        &mut self,
        span: Span,
        text: impl Into<String>,
        assumed: impl Into<String>,
    ) {
        if self.doubts.len() < 1000 {
            self.doubts.push((span, Doubt::new(text, assumed)));
        }
    }
}

/// A piece of a profile.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// `<group`
    Start(Element, Span),
    /// `</group>`
    End(Element),
    /// `nthreads="4"`
    Attribute(Key, Value),
}

/// The comment or processing instruction that a text begins with: how it begins, and how it ends.
pub(super) fn comment(text: &str) -> Option<(&'static str, &'static str)> {
    let known = [("<!--", "-->"), ("<?", "?>")];
    known.into_iter().find(|(begin, _)| text.starts_with(begin))
}

words! {
    pub(super) enum Element {
        Profile = 0 "profile",
        Group = 1 "group",
        Transaction = 2 "transaction",
        Flowop = 3 "flowop",
    }
}

words! {
    /// An attribute's name.
    pub(super) enum Key {
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

/// An attribute's value.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// As it is read: of uperf's reading in lower case.
    pub(super) text: String,
    /// The same as it is written.
    pub(super) written: String,
    /// The whole attribute.
    pub(super) span: Span,
    /// Where the value begins.
    pub(super) start: usize,
}

impl Value {
    /// Where a part of the value stands, or the whole attribute, where it does not stand there word by
    /// word (it has entities).
    pub(super) fn part(&self, part: Span) -> Span {
        let place = self.start + part.start..self.start + part.end;
        if place.end <= self.span.end {
            place
        } else {
            self.span.clone()
        }
    }
}
