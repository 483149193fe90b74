//! Elements and attributes → what is to be run.
//!
//! As in uperf an attribute acts on the group, transaction or flowop that is at hand, whatever element
//! it stands in.

use std::borrow::Cow;

use crate::workorder::{Flowop, Group, Kind, Transaction, Workorder};

use super::Surroundings;
use super::note::Notes;
use super::number::{self, Doubt, NoTime};
use super::options;
use super::reading::{Element, Event, Key, Value};
use super::text::{Span, shortened};

/// A profile as far as it is read, with the places of what may turn out wrong later.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) groups: Vec<GroupDraft>,
}

#[derive(Debug)]
pub(super) struct GroupDraft {
    pub(super) span: Span,
    /// Its name and strands; the transactions are below.
    pub(super) settings: Group,
    pub(super) transactions: Vec<TransactionDraft>,
}

#[derive(Debug)]
pub(super) struct TransactionDraft {
    pub(super) span: Span,
    pub(super) settings: Transaction,
    /// Where its `iterations=`, `rate=` stand.
    pub(super) iterations: Option<Span>,
    pub(super) rate: Option<Span>,
    pub(super) flowops: Vec<FlowopDraft>,
}

#[derive(Debug)]
pub(super) struct FlowopDraft {
    pub(super) span: Span,
    pub(super) kind: Option<Kind>,
    /// It has no type or no options that are any; that has been said.
    pub(super) is_refused: bool,
    pub(super) settings: Flowop,
    /// Each word of its options.
    pub(super) words: Vec<Word>,
}

/// A word of a list of options.
#[derive(Debug)]
pub(super) struct Word {
    /// In lower case.
    pub(super) key: String,
    pub(super) place: Span,
    /// It sets nothing; that has been said.
    pub(super) is_refused: bool,
}

impl Draft {
    /// Without the places. A flowop without a type does nothing: it has been refused.
    pub(super) fn workorder(&self) -> Workorder {
        Workorder {
            name: self.name.clone(),
            groups: self.groups.iter().map(GroupDraft::of_workorder).collect(),
        }
    }
}

impl GroupDraft {
    /// The same of this group.
    pub(super) fn of_workorder(&self) -> Group {
        let transactions = self.transactions.iter().map(|draft| Transaction {
            flowops: (draft.flowops.iter())
                .map(|flowop| flowop.settings.clone())
                .collect(),
            ..draft.settings.clone()
        });
        Group {
            transactions: transactions.collect(),
            ..self.settings.clone()
        }
    }
}

/// Reads the events; what is wrong with them goes to `notes`.
pub(super) fn build(events: &[Event], surroundings: &Surroundings, notes: &mut Notes) -> Draft {
    let mut builder = Builder {
        surroundings,
        notes,
        draft: Draft::default(),
        profile: None,
        group_is_open: false,
        transaction_is_open: false,
        flowop: None,
        inside: None,
    };
    for event in events {
        match event {
            Event::Start(element, span) => builder.start(*element, span),
            Event::End(element) => builder.end(*element),
            Event::Attribute(key, value) => builder.attribute(*key, value),
        }
    }
    builder.close_what_is_open();
    builder.draft
}

struct Builder<'a, 't> {
    surroundings: &'a Surroundings<'a>,
    notes: &'a mut Notes<'t>,
    draft: Draft,
    /// Where `<profile` stands that has not ended.
    profile: Option<Span>,
    group_is_open: bool,
    transaction_is_open: bool,
    /// The flowop that is at hand: group, transaction and its number in it.
    flowop: Option<(usize, usize, usize)>,
    /// The element that began last.
    inside: Option<Element>,
}

impl Builder<'_, '_> {
    fn start(&mut self, element: Element, span: &Span) {
        match element {
            Element::Profile => self.profile = Some(span.clone()),
            Element::Group => {
                self.leave("<group");
                if self.draft.groups.len() == MOST_GROUPS {
                    self.notes.error(span, "more than 1024 groups");
                }
                // Those beyond are read, but into the last one.
                if self.draft.groups.len() < MOST_GROUPS {
                    self.push_group(span);
                }
                self.group_is_open = true;
            }
            Element::Transaction => {
                self.leave_transaction("<transaction");
                if !self.group_is_open {
                    self.notes.error(
                        span,
                        "No current group: <transaction> stands outside of one",
                    );
                    self.assume_group(span);
                }
                self.push_transaction(span);
            }
            Element::Flowop => {
                if !self.transaction_is_open {
                    let text = "No current transaction: <flowop> stands outside of one";
                    self.notes.error(span, text);
                    self.assume_transaction(span);
                }
                self.push_flowop(span);
            }
        }
        self.inside = Some(element);
    }

    fn end(&mut self, element: Element) {
        match element {
            Element::Profile => {
                self.leave("</profile>");
                self.profile = None;
            }
            Element::Group => {
                self.leave_transaction("</group>");
                self.group_is_open = false;
            }
            Element::Transaction => self.transaction_is_open = false,
            Element::Flowop => {}
        }
    }

    fn close_what_is_open(&mut self) {
        self.leave("the end");
        if let Some(span) = self.profile.take() {
            lacks_end(self.notes, &span, Element::Profile, "the end");
        }
    }

    /// `before` is what comes in the place of the ends of what is open.
    fn leave(&mut self, before: &str) {
        self.leave_transaction(before);
        if self.group_is_open
            && let Some(group) = self.draft.groups.last()
        {
            lacks_end(self.notes, &group.span, Element::Group, before);
        }
        self.group_is_open = false;
    }

    fn leave_transaction(&mut self, before: &str) {
        if self.transaction_is_open
            && let Some(transaction) = last_transaction(&mut self.draft)
        {
            lacks_end(self.notes, &transaction.span, Element::Transaction, before);
        }
        self.transaction_is_open = false;
    }

    fn push_group(&mut self, span: &Span) {
        let number = self.draft.groups.len();
        self.draft.groups.push(GroupDraft {
            span: span.clone(),
            settings: Group {
                name: format!("Group{number}"),
                ..Group::default()
            },
            transactions: Vec::new(),
        });
    }

    fn push_transaction(&mut self, span: &Span) {
        let Some(group) = self.draft.groups.last_mut() else {
            return;
        };
        if group.transactions.len() == MOST_TRANSACTIONS {
            let text = "Shm exhausted!: more than 100 transactions in a group";
            self.notes.error(span, text);
        }
        if group.transactions.len() < MOST_TRANSACTIONS {
            group.transactions.push(TransactionDraft {
                span: span.clone(),
                settings: Transaction {
                    iterations: 1,
                    ..Transaction::default()
                },
                iterations: None,
                rate: None,
                flowops: Vec::new(),
            });
        }
        self.transaction_is_open = true;
    }

    fn push_flowop(&mut self, span: &Span) {
        let group = self.draft.groups.len() - 1;
        let Some(transaction) = last_transaction(&mut self.draft) else {
            return;
        };
        transaction.flowops.push(FlowopDraft {
            span: span.clone(),
            kind: None,
            is_refused: false,
            settings: Flowop::new(Kind::Nop),
            words: Vec::new(),
        });
        let flowop = transaction.flowops.len() - 1;
        let transaction = self.draft.groups[group].transactions.len() - 1;
        self.flowop = Some((group, transaction, flowop));
    }

    /// One that is not there, so that what follows is not refused for the same reason.
    fn assume_group(&mut self, span: &Span) {
        if self.draft.groups.is_empty() {
            self.push_group(span);
        }
        self.refuse(Element::Group);
        self.group_is_open = true;
    }

    fn assume_transaction(&mut self, span: &Span) {
        if !self.group_is_open {
            self.assume_group(span);
        }
        self.push_transaction(span);
    }

    fn attribute(&mut self, key: Key, value: &Value) {
        let acts_on = match key {
            Key::Name if self.group_is_open => Element::Group,
            Key::Name => Element::Profile,
            Key::Threads | Key::Processes => Element::Group,
            Key::Iterations | Key::Duration | Key::Rate => Element::Transaction,
            Key::Type | Key::Options => Element::Flowop,
        };
        let missing = match acts_on {
            Element::Group => !self.group_is_open,
            Element::Transaction => !self.transaction_is_open,
            Element::Flowop => self.flowop.is_none(),
            Element::Profile => false,
        };
        let name = key.name();
        if missing {
            let what = acts_on.name();
            let mut text = format!("No current {what}: {name}= stands outside of one");
            if what == "flowop" {
                text = format!("{name}= stands before any flowop");
            }
            self.notes.error(&value.span, text);
            return;
        }
        if let Some(inside) = self.inside
            && inside != acts_on
        {
            let text = format!("{name}= stands in <{}>", inside.name());
            let assumed = format!("it is of the <{}> at hand", acts_on.name());
            self.notes.warn(&value.span, text, assumed);
        }
        let Some(value) = self.resolve(value) else {
            self.refuse(acts_on);
            return;
        };
        match key {
            Key::Name => self.name(&value, acts_on),
            Key::Threads | Key::Processes => self.strands(key, &value),
            Key::Iterations | Key::Rate => self.repetition(key, &value),
            Key::Duration => self.duration(&value),
            Key::Type => self.kind(&value),
            Key::Options => self.options(&value),
        }
    }

    /// What was refused is not missed as well.
    fn refuse(&mut self, element: Element) {
        if element == Element::Flowop
            && let Some(flowop) = self.flowop_at_hand()
        {
            flowop.is_refused = true;
        } else if element == Element::Group
            && let Some(group) = self.draft.groups.last_mut()
        {
            let strands = &mut group.settings.strands;
            strands.count = strands.count.max(1);
        }
    }

    /// A value that begins with `$` is all of it the name of a variable, and no part of its value has a place.
    fn resolve<'v>(&mut self, value: &'v Value) -> Option<Cow<'v, Value>> {
        let Some(name) = value.text.strip_prefix('$') else {
            return Some(Cow::Borrowed(value));
        };
        let found = self.variable(name, &value.written[1..], &value.span);
        let Some(text) = found.filter(|text| !text.is_empty()) else {
            let text = format!("${name} is not set");
            self.notes.error(&value.span, text);
            return None;
        };
        Some(Cow::Owned(Value {
            written: text.clone(),
            text,
            span: value.span.clone(),
            start: value.span.end,
        }))
    }

    /// The variable's value: as uperf looks it up, which is in lower case, or else as it is written.
    fn variable(&mut self, name: &str, written: &str, span: &Span) -> Option<String> {
        let look_up = self.surroundings.environment;
        let lower = name.to_ascii_lowercase();
        let candidates = if name == written {
            [name, lower.as_str()]
        } else {
            [name, written]
        };
        let (taken, value) = candidates
            .into_iter()
            .find_map(|name| Some((name, look_up(name)?)))?;
        if taken != written {
            let text = format!("${written} is folded to lower case");
            self.notes.warn(span, text, format!("${taken}"));
        } else if taken != lower {
            let text = format!("${written} is looked up by uperf as ${lower}");
            self.notes.warn(span, text, format!("${taken}"));
        }
        Some(value)
    }

    fn name(&mut self, value: &Value, acts_on: Element) {
        let text = &value.text;
        let most = if acts_on == Element::Group { 31 } else { 128 };
        let kept: String = text.chars().take(most).collect();
        if kept.len() < text.len() {
            let text = format!("this name has more than {most} characters");
            self.notes.warn(&value.span, text, kept.as_str());
        }
        match self.draft.groups.last_mut() {
            Some(group) if acts_on == Element::Group => group.settings.name = kept,
            _ => self.draft.name = kept,
        }
    }

    fn strands(&mut self, key: Key, value: &Value) {
        let Some(count) = self.integer(value) else {
            self.refuse(Element::Group);
            return;
        };
        let Some(group) = self.draft.groups.last_mut() else {
            return;
        };
        let strands = &mut group.settings.strands;
        strands.count = count;
        strands.threads |= key == Key::Threads;
        strands.processes |= key == Key::Processes;
        if strands.threads && strands.processes {
            let text = "nthreads= and nprocs= in one group";
            self.notes
                .warn(&value.span, text, format!("{count} processes"));
        }
    }

    fn repetition(&mut self, key: Key, value: &Value) {
        let Some(number) = self.integer(value) else {
            return;
        };
        let Some(transaction) = last_transaction(&mut self.draft) else {
            return;
        };
        if key == Key::Iterations {
            transaction.settings.iterations = number.into();
            transaction.iterations = Some(value.span.clone());
        } else {
            transaction.settings.rate = number;
            shortened(&value.text, 127).clone_into(&mut transaction.settings.rate_text);
            transaction.rate = Some(value.span.clone());
        }
    }

    fn duration(&mut self, value: &Value) {
        let text = &value.text;
        let (duration, doubt) = match number::time(text) {
            Ok(number) => number,
            Err(why) => {
                let text = match why {
                    NoTime::NoNumber => format!("Cannot convert {text} to nsecs"),
                    NoTime::Unit(unit) => format!(
                        "{unit} not valid time suffix: {text} would last for ever (s, ms, us or ns)"
                    ),
                };
                self.notes.error(&value.span, text);
                return;
            }
        };
        let Some(transaction) = last_transaction(&mut self.draft) else {
            return;
        };
        transaction.settings.duration = Some(duration);
        transaction.settings.iterations = 1;
        self.doubt(&value.span, doubt);
    }

    fn integer(&mut self, value: &Value) -> Option<u32> {
        let text = &value.text;
        let Some((number, doubt)) = number::integer(text) else {
            self.notes
                .error(&value.span, format!("Cannot parse {text}"));
            return None;
        };
        self.doubt(&value.span, doubt);
        Some(number)
    }

    fn kind(&mut self, value: &Value) {
        let text = &value.text;
        let Some((kind, doubt)) = options::kind(&text.to_ascii_lowercase()) else {
            self.notes
                .error(&value.span, format!("Unknown flowop {text}"));
            self.refuse(Element::Flowop);
            return;
        };
        self.doubt(&value.span, doubt);
        if let Some(flowop) = self.flowop_at_hand() {
            flowop.kind = Some(kind);
            flowop.settings.kind = kind;
        }
    }

    fn options(&mut self, value: &Value) {
        let Some(flowop) = self.flowop_at_hand() else {
            return;
        };
        if !flowop.words.is_empty() {
            options::reset(&mut flowop.settings);
            let text = "a second options= for the same flowop";
            let assumed = "count, repeat, batch_size, size, duration and conn begin anew";
            self.notes.warn(&value.span, text, assumed);
        }
        for word in words(&value.text) {
            let place = value.part(word.clone());
            let written = value.written.get(word.clone()).unwrap_or_default();
            self.option(&value.text[word], written, &place);
        }
    }

    fn option(&mut self, word: &str, written: &str, place: &Span) {
        if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let text = format!("{word} does not begin with a letter, and is dropped");
            self.notes.warn(place, text, "nothing");
            return;
        }
        if word.len() > 99 {
            let text = "uperf spoils words of more than 99 characters and the next ones";
            self.notes.warn(place, text, "the whole word");
        }
        let Some((key, text)) = word.split_once('=') else {
            let lower = word.to_ascii_lowercase();
            if let Some(flags) = options::flag(&lower) {
                self.given(&lower, place);
                self.set(place, |flowop| {
                    flowop.flags = flowop.flags.with(flags);
                    Ok(None)
                });
            } else {
                let text = format!("option {word} is not of type key=value");
                self.notes.error(place, text);
            }
            return;
        };
        let lower = key.to_ascii_lowercase();
        let (key, doubt) = options::known_as(&lower);
        self.doubt(place, doubt);
        self.given(key, place);
        if text.is_empty() {
            // Here uperf may write beyond the end of its memory.
            self.refuse_word(place, format!("{key}= has no value"));
            return;
        }
        let written = written.get(word.len() - text.len()..).unwrap_or_default();
        let Some(value) = self.option_value(key, text, written, place) else {
            return;
        };
        if keeps_case(key) && !text.starts_with('$') && text != written {
            let text = format!("{key}={written} is folded to lower case");
            self.notes.warn(place, text, format!("{key}={value}"));
        }
        self.set(place, |flowop| options::set(flowop, key, &value));
    }

    /// An option's value, or that of the variable that it names.
    fn option_value<'w>(
        &mut self,
        key: &str,
        text: &'w str,
        written: &str,
        place: &Span,
    ) -> Option<Cow<'w, str>> {
        let Some(name) = text.strip_prefix('$') else {
            return Some(text.into());
        };
        let value = self.variable(name, written.get(1..).unwrap_or_default(), place);
        let refused = match value.as_deref() {
            None => format!("Env variable {key} = {text} not set"),
            // An empty one is refused where it matters, as uperf does.
            Some("") if key != "remotehost" => format!("Env variable {key} = {text} is empty"),
            Some(value) if value.starts_with('$') => {
                format!("{key}={text} is {value}, which is not looked up in turn")
            }
            Some(_) => return value.map(Cow::Owned),
        };
        self.refuse_word(place, refused);
        None
    }

    fn given(&mut self, key: &str, place: &Span) {
        if let Some(flowop) = self.flowop_at_hand() {
            flowop.words.push(Word {
                key: key.to_owned(),
                place: place.clone(),
                is_refused: false,
            });
        }
    }

    /// Says so of the last one.
    fn refuse_word(&mut self, place: &Span, text: String) {
        self.notes.error(place, text);
        let word = self.flowop_at_hand();
        if let Some(word) = word.and_then(|flowop| flowop.words.last_mut()) {
            word.is_refused = true;
        }
    }

    fn set(
        &mut self,
        place: &Span,
        set: impl FnOnce(&mut Flowop) -> Result<Option<Doubt>, String>,
    ) {
        let Some(flowop) = self.flowop_at_hand() else {
            return;
        };
        match set(&mut flowop.settings) {
            Ok(doubt) => self.doubt(place, doubt),
            Err(text) => self.refuse_word(place, text),
        }
    }

    fn flowop_at_hand(&mut self) -> Option<&mut FlowopDraft> {
        let (group, transaction, flowop) = self.flowop?;
        let group = self.draft.groups.get_mut(group)?;
        group
            .transactions
            .get_mut(transaction)?
            .flowops
            .get_mut(flowop)
    }

    fn doubt(&mut self, span: &Span, doubt: Option<Doubt>) {
        if let Some(Doubt { text, assumed }) = doubt {
            self.notes.warn(span, text, assumed);
        }
    }
}

const MOST_GROUPS: usize = 1024;
const MOST_TRANSACTIONS: usize = 100;

fn lacks_end(notes: &mut Notes, span: &Span, element: Element, before: &str) {
    let text = format!("<{element}> has no </{element}>");
    notes.warn(span, text, format!("it before {before}"));
}

fn last_transaction(draft: &mut Draft) -> Option<&mut TransactionDraft> {
    draft.groups.last_mut()?.transactions.last_mut()
}

/// Options whose values mean something else in another case.
fn keeps_case(key: &str) -> bool {
    matches!(key, "dir" | "cc" | "stack" | "engine" | "cipher" | "method")
}

/// Where the words of a list are.
fn words(list: &str) -> impl Iterator<Item = Span> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = list[at..].trim_start_matches(blank);
        let start = list.len() - left.len();
        let length = left.find(blank).unwrap_or(left.len());
        at = start + length;
        (length > 0).then_some(start..at)
    })
}
