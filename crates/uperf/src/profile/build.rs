//! Builds a draft of the workorder from elements and attributes.
//!
//! As in uperf, an attribute acts on the current group, transaction or flowop, whatever element it
//! is in.

use std::borrow::Cow;

use crate::workorder::{Flowop, FlowopKind, GroupSpec, TransactionSpec, Workorder};

use super::ProfileContext;
use super::note::Notes;
use super::number::{self, ProfileWarning, TimeError};
use super::options;
use super::reading::{AttributeName, AttributeValue, Element, MarkupEvent};
use super::text::{Span, truncated};

/// Profile with the spans that later checks need for their notes.
#[derive(Debug, Default)]
pub(super) struct ProfileDraft {
    pub(super) name: String,
    pub(super) groups: Vec<GroupDraft>,
}

#[derive(Debug)]
pub(super) struct GroupDraft {
    pub(super) span: Span,
    /// Name and strands; its transactions are in the next field.
    pub(super) settings: GroupSpec,
    pub(super) transactions: Vec<TransactionDraft>,
}

#[derive(Debug)]
pub(super) struct TransactionDraft {
    pub(super) span: Span,
    pub(super) settings: TransactionSpec,
    /// Span of `iterations=`.
    pub(super) iterations: Option<Span>,
    /// Span of `rate=`.
    pub(super) rate: Option<Span>,
    pub(super) flowops: Vec<FlowopDraft>,
}

#[derive(Debug)]
pub(super) struct FlowopDraft {
    pub(super) span: Span,
    pub(super) kind: Option<FlowopKind>,
    /// Its `type=` or `options=` is invalid, and the error is reported.
    pub(super) is_refused: bool,
    pub(super) settings: Flowop,
    /// Words of its options.
    pub(super) words: Vec<OptionWord>,
}

/// Word of a list of options.
#[derive(Debug)]
pub(super) struct OptionWord {
    /// Name of the option, in lower case.
    pub(super) key: String,
    pub(super) span: Span,
    /// The word is invalid, and the error is reported.
    pub(super) is_refused: bool,
}

impl ProfileDraft {
    /// Returns the workorder. A flowop without a type becomes a nop; its error is already reported.
    pub(super) fn to_workorder(&self) -> Workorder {
        Workorder {
            name: self.name.clone(),
            groups: self.groups.iter().map(GroupDraft::to_spec).collect(),
        }
    }
}

impl GroupDraft {
    /// Returns the group of the workorder.
    pub(super) fn to_spec(&self) -> GroupSpec {
        let transactions = self.transactions.iter().map(|draft| TransactionSpec {
            flowops: (draft.flowops.iter())
                .map(|flowop| flowop.settings.clone())
                .collect(),
            ..draft.settings.clone()
        });
        GroupSpec {
            transactions: transactions.collect(),
            ..self.settings.clone()
        }
    }
}

/// Builds a draft from the events; adds errors and warnings to `notes`.
pub(super) fn build(
    events: &[MarkupEvent],
    context: &ProfileContext,
    notes: &mut Notes,
) -> ProfileDraft {
    let mut builder = Builder {
        context,
        notes,
        draft: ProfileDraft::default(),
        open_profile: None,
        is_group_open: false,
        is_transaction_open: false,
        current_flowop_index: None,
        current_element: None,
    };
    for event in events {
        match event {
            MarkupEvent::Start(element, span) => builder.start_element(*element, span),
            MarkupEvent::End(element) => builder.end_element(*element),
            MarkupEvent::Attribute(key, value) => builder.set_attribute(*key, value),
        }
    }
    builder.close_open_elements();
    builder.draft
}

struct Builder<'a, 't> {
    context: &'a ProfileContext<'a>,
    notes: &'a mut Notes<'t>,
    draft: ProfileDraft,
    /// Span of the `<profile` that has not ended.
    open_profile: Option<Span>,
    is_group_open: bool,
    is_transaction_open: bool,
    /// Indices of the current flowop: group, transaction, flowop.
    current_flowop_index: Option<(usize, usize, usize)>,
    /// Element whose start tag came last.
    current_element: Option<Element>,
}

impl Builder<'_, '_> {
    fn start_element(&mut self, element: Element, span: &Span) {
        match element {
            Element::Profile => self.open_profile = Some(span.clone()),
            Element::Group => {
                self.close_group("<group");
                if self.draft.groups.len() == MAX_GROUPS {
                    self.notes.error(span, "more than 1024 groups");
                }
                // Later groups are read into the last one.
                if self.draft.groups.len() < MAX_GROUPS {
                    self.push_group(span);
                }
                self.is_group_open = true;
            }
            Element::Transaction => {
                self.close_transaction("<transaction");
                if !self.is_group_open {
                    self.notes
                        .error(span, "No current group: <transaction> is outside of one");
                    self.assume_group(span);
                }
                self.push_transaction(span);
            }
            Element::Flowop => {
                if !self.is_transaction_open {
                    let text = "No current transaction: <flowop> is outside of one";
                    self.notes.error(span, text);
                    self.assume_transaction(span);
                }
                self.push_flowop(span);
            }
        }
        self.current_element = Some(element);
    }

    fn end_element(&mut self, element: Element) {
        match element {
            Element::Profile => {
                self.close_group("</profile>");
                self.open_profile = None;
            }
            Element::Group => {
                self.close_transaction("</group>");
                self.is_group_open = false;
            }
            Element::Transaction => self.is_transaction_open = false,
            Element::Flowop => {}
        }
    }

    fn close_open_elements(&mut self) {
        self.close_group("the end");
        if let Some(span) = self.open_profile.take() {
            warn_missing_end(self.notes, &span, Element::Profile, "the end");
        }
    }

    /// Closes the group; warns if its end tag is missing before `before`.
    fn close_group(&mut self, before: &str) {
        self.close_transaction(before);
        if self.is_group_open
            && let Some(group) = self.draft.groups.last()
        {
            warn_missing_end(self.notes, &group.span, Element::Group, before);
        }
        self.is_group_open = false;
    }

    fn close_transaction(&mut self, before: &str) {
        if self.is_transaction_open
            && let Some(transaction) = last_transaction(&mut self.draft)
        {
            warn_missing_end(self.notes, &transaction.span, Element::Transaction, before);
        }
        self.is_transaction_open = false;
    }

    fn push_group(&mut self, span: &Span) {
        let number = self.draft.groups.len();
        self.draft.groups.push(GroupDraft {
            span: span.clone(),
            settings: GroupSpec {
                name: format!("Group{number}"),
                ..GroupSpec::default()
            },
            transactions: Vec::new(),
        });
    }

    fn push_transaction(&mut self, span: &Span) {
        let Some(group) = self.draft.groups.last_mut() else {
            return;
        };
        if group.transactions.len() == MAX_TRANSACTIONS {
            let text = "Shm exhausted!: more than 100 transactions in a group";
            self.notes.error(span, text);
        }
        if group.transactions.len() < MAX_TRANSACTIONS {
            group.transactions.push(TransactionDraft {
                span: span.clone(),
                settings: TransactionSpec {
                    iterations: 1,
                    ..TransactionSpec::default()
                },
                iterations: None,
                rate: None,
                flowops: Vec::new(),
            });
        }
        self.is_transaction_open = true;
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
            settings: Flowop::new(FlowopKind::Nop),
            words: Vec::new(),
        });
        let flowop = transaction.flowops.len() - 1;
        let transaction = self.draft.groups[group].transactions.len() - 1;
        self.current_flowop_index = Some((group, transaction, flowop));
    }

    /// Assumes a missing `<group>`, so that later elements do not repeat the same error.
    fn assume_group(&mut self, span: &Span) {
        if self.draft.groups.is_empty() {
            self.push_group(span);
        }
        self.refuse(Element::Group);
        self.is_group_open = true;
    }

    fn assume_transaction(&mut self, span: &Span) {
        if !self.is_group_open {
            self.assume_group(span);
        }
        self.push_transaction(span);
    }

    fn set_attribute(&mut self, key: AttributeName, value: &AttributeValue) {
        let acts_on = match key {
            AttributeName::Name if self.is_group_open => Element::Group,
            AttributeName::Name => Element::Profile,
            AttributeName::Threads | AttributeName::Processes => Element::Group,
            AttributeName::Iterations | AttributeName::Duration | AttributeName::Rate => {
                Element::Transaction
            }
            AttributeName::Type | AttributeName::Options => Element::Flowop,
        };
        let is_missing = match acts_on {
            Element::Group => !self.is_group_open,
            Element::Transaction => !self.is_transaction_open,
            Element::Flowop => self.current_flowop_index.is_none(),
            Element::Profile => false,
        };
        let name = key.name();
        if is_missing {
            let element = acts_on.name();
            let mut text = format!("No current {element}: {name}= is outside of one");
            if element == "flowop" {
                text = format!("{name}= comes before any flowop");
            }
            self.notes.error(&value.span, text);
            return;
        }
        if let Some(element) = self.current_element
            && element != acts_on
        {
            let text = format!("{name}= is in <{}>", element.name());
            let assumed = format!("it belongs to the current <{}>", acts_on.name());
            self.notes.warn(&value.span, text, assumed);
        }
        let Some(value) = self.resolve(value) else {
            self.refuse(acts_on);
            return;
        };
        match key {
            AttributeName::Name => self.set_name(&value, acts_on),
            AttributeName::Threads | AttributeName::Processes => self.set_strands(key, &value),
            AttributeName::Iterations | AttributeName::Rate => self.set_repetition(key, &value),
            AttributeName::Duration => self.set_duration(&value),
            AttributeName::Type => self.set_kind(&value),
            AttributeName::Options => self.set_options(&value),
        }
    }

    /// Marks the current element as invalid, so that it does not also count as missing.
    fn refuse(&mut self, element: Element) {
        if element == Element::Flowop
            && let Some(flowop) = self.current_flowop()
        {
            flowop.is_refused = true;
        } else if element == Element::Group
            && let Some(group) = self.draft.groups.last_mut()
        {
            let strands = &mut group.settings.strands;
            strands.count = strands.count.max(1);
        }
    }

    /// Replaces a value that begins with `$` by the environment variable of that name.
    ///
    /// Parts of the variable's value have no span; notes show the attribute instead.
    fn resolve<'v>(&mut self, value: &'v AttributeValue) -> Option<Cow<'v, AttributeValue>> {
        let Some(name) = value.text.strip_prefix('$') else {
            return Some(Cow::Borrowed(value));
        };
        let found = self.look_up_variable(name, &value.written[1..], &value.span);
        let Some(text) = found.filter(|text| !text.is_empty()) else {
            let text = format!("${name} is not set");
            self.notes.error(&value.span, text);
            return None;
        };
        Some(Cow::Owned(AttributeValue {
            written: text.clone(),
            text,
            span: value.span.clone(),
            start: value.span.end,
        }))
    }

    /// Returns the value of an environment variable.
    ///
    /// Tries the name in lower case, as uperf does, and the name as written.
    fn look_up_variable(&mut self, name: &str, written: &str, span: &Span) -> Option<String> {
        let look_up = self.context.environment;
        let lower = name.to_ascii_lowercase();
        let candidates = if name == written {
            [name, lower.as_str()]
        } else {
            [name, written]
        };
        let (found_name, value) = candidates
            .into_iter()
            .find_map(|name| Some((name, look_up(name)?)))?;
        if found_name != written {
            let text = format!("${written} is folded to lower case");
            self.notes.warn(span, text, format!("${found_name}"));
        } else if found_name != lower {
            let text = format!("${written} is looked up by uperf as ${lower}");
            self.notes.warn(span, text, format!("${found_name}"));
        }
        Some(value)
    }

    fn set_name(&mut self, value: &AttributeValue, acts_on: Element) {
        let text = &value.text;
        let max_chars = if acts_on == Element::Group { 31 } else { 128 };
        let kept: String = text.chars().take(max_chars).collect();
        if kept.len() < text.len() {
            let text = format!("this name has more than {max_chars} characters");
            self.notes.warn(&value.span, text, kept.as_str());
        }
        match self.draft.groups.last_mut() {
            Some(group) if acts_on == Element::Group => group.settings.name = kept,
            _ => self.draft.name = kept,
        }
    }

    fn set_strands(&mut self, key: AttributeName, value: &AttributeValue) {
        let Some(count) = self.integer(value) else {
            self.refuse(Element::Group);
            return;
        };
        let Some(group) = self.draft.groups.last_mut() else {
            return;
        };
        let strands = &mut group.settings.strands;
        strands.count = count;
        strands.threads |= key == AttributeName::Threads;
        strands.processes |= key == AttributeName::Processes;
        if strands.threads && strands.processes {
            let text = "nthreads= and nprocs= in one group";
            self.notes
                .warn(&value.span, text, format!("{count} processes"));
        }
    }

    fn set_repetition(&mut self, key: AttributeName, value: &AttributeValue) {
        let Some(number) = self.integer(value) else {
            return;
        };
        let Some(transaction) = last_transaction(&mut self.draft) else {
            return;
        };
        if key == AttributeName::Iterations {
            transaction.settings.iterations = number.into();
            transaction.iterations = Some(value.span.clone());
        } else {
            transaction.settings.rate = number;
            truncated(&value.text, 127).clone_into(&mut transaction.settings.rate_text);
            transaction.rate = Some(value.span.clone());
        }
    }

    fn set_duration(&mut self, value: &AttributeValue) {
        let text = &value.text;
        let (duration, warning) = match number::time(text) {
            Ok(number) => number,
            Err(error) => {
                let text = match error {
                    TimeError::InvalidNumber => format!("Cannot convert {text} to nsecs"),
                    TimeError::UnknownUnit(unit) => format!(
                        "{unit} not valid time suffix: {text} would last forever; use s, ms, us or ns"
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
        self.warn(&value.span, warning);
    }

    fn integer(&mut self, value: &AttributeValue) -> Option<u32> {
        let text = &value.text;
        let Some((number, warning)) = number::integer(text) else {
            self.notes
                .error(&value.span, format!("Cannot parse {text}"));
            return None;
        };
        self.warn(&value.span, warning);
        Some(number)
    }

    fn set_kind(&mut self, value: &AttributeValue) {
        let text = &value.text;
        let Some((kind, warning)) = options::flowop_kind(&text.to_ascii_lowercase()) else {
            self.notes
                .error(&value.span, format!("Unknown flowop {text}"));
            self.refuse(Element::Flowop);
            return;
        };
        self.warn(&value.span, warning);
        if let Some(flowop) = self.current_flowop() {
            flowop.kind = Some(kind);
            flowop.settings.kind = kind;
        }
    }

    fn set_options(&mut self, value: &AttributeValue) {
        let Some(flowop) = self.current_flowop() else {
            return;
        };
        if !flowop.words.is_empty() {
            options::reset_for_second_list(&mut flowop.settings);
            let text = "a second options= for the same flowop";
            let assumed = "count, repeat, batch_size, size, duration and conn are reset";
            self.notes.warn(&value.span, text, assumed);
        }
        for word in word_spans(&value.text) {
            let span = value.span_of(word.clone());
            let written = value.written.get(word.clone()).unwrap_or_default();
            self.set_option(&value.text[word], written, &span);
        }
    }

    fn set_option(&mut self, word: &str, written: &str, span: &Span) {
        if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let text = format!("{word} does not begin with a letter; uperf drops it");
            self.notes.warn(span, text, "nothing");
            return;
        }
        if word.len() > 99 {
            let text = "uperf corrupts words of more than 99 characters and the words after them";
            self.notes.warn(span, text, "the whole word");
        }
        let Some((key, text)) = word.split_once('=') else {
            let lower = word.to_ascii_lowercase();
            if let Some(flags) = options::find_flag(&lower) {
                self.record_word(&lower, span);
                self.apply(span, |flowop| {
                    flowop.flags = flowop.flags.with(flags);
                    Ok(None)
                });
            } else {
                let text = format!("option {word} is not of type key=value");
                self.notes.error(span, text);
            }
            return;
        };
        let lower = key.to_ascii_lowercase();
        let (key, warning) = options::canonical_name(&lower);
        self.warn(span, warning);
        self.record_word(key, span);
        if text.is_empty() {
            // uperf may write beyond its buffer in this case.
            self.refuse_word(span, format!("{key}= has no value"));
            return;
        }
        let written = written.get(word.len() - text.len()..).unwrap_or_default();
        let Some(value) = self.option_value(key, text, written, span) else {
            return;
        };
        if is_case_sensitive(key) && !text.starts_with('$') && text != written {
            let text = format!("{key}={written} is folded to lower case");
            self.notes.warn(span, text, format!("{key}={value}"));
        }
        self.apply(span, |flowop| options::set(flowop, key, &value));
    }

    /// Returns the option's value, or that of the environment variable that it names.
    fn option_value<'w>(
        &mut self,
        key: &str,
        text: &'w str,
        written: &str,
        span: &Span,
    ) -> Option<Cow<'w, str>> {
        let Some(name) = text.strip_prefix('$') else {
            return Some(text.into());
        };
        let value = self.look_up_variable(name, written.get(1..).unwrap_or_default(), span);
        let reason = match value.as_deref() {
            None => format!("Env variable {key} = {text} not set"),
            // An empty host is refused where a flowop needs one, as in uperf.
            Some("") if key != "remotehost" => format!("Env variable {key} = {text} is empty"),
            Some(value) if value.starts_with('$') => {
                format!("{key}={text} is {value}, which is not looked up in turn")
            }
            Some(_) => return value.map(Cow::Owned),
        };
        self.refuse_word(span, reason);
        None
    }

    fn record_word(&mut self, key: &str, span: &Span) {
        if let Some(flowop) = self.current_flowop() {
            flowop.words.push(OptionWord {
                key: key.to_owned(),
                span: span.clone(),
                is_refused: false,
            });
        }
    }

    /// Reports an error of the last word.
    fn refuse_word(&mut self, span: &Span, text: String) {
        self.notes.error(span, text);
        let word = self.current_flowop();
        if let Some(word) = word.and_then(|flowop| flowop.words.last_mut()) {
            word.is_refused = true;
        }
    }

    fn apply(
        &mut self,
        span: &Span,
        set: impl FnOnce(&mut Flowop) -> Result<Option<ProfileWarning>, String>,
    ) {
        let Some(flowop) = self.current_flowop() else {
            return;
        };
        match set(&mut flowop.settings) {
            Ok(warning) => self.warn(span, warning),
            Err(text) => self.refuse_word(span, text),
        }
    }

    fn current_flowop(&mut self) -> Option<&mut FlowopDraft> {
        let (group, transaction, flowop) = self.current_flowop_index?;
        let group = self.draft.groups.get_mut(group)?;
        group
            .transactions
            .get_mut(transaction)?
            .flowops
            .get_mut(flowop)
    }

    fn warn(&mut self, span: &Span, warning: Option<ProfileWarning>) {
        if let Some(ProfileWarning { text, assumed }) = warning {
            self.notes.warn(span, text, assumed);
        }
    }
}

const MAX_GROUPS: usize = 1024;
const MAX_TRANSACTIONS: usize = 100;

fn warn_missing_end(notes: &mut Notes, span: &Span, element: Element, before: &str) {
    let text = format!("<{element}> has no </{element}>");
    notes.warn(span, text, format!("one before {before}"));
}

fn last_transaction(draft: &mut ProfileDraft) -> Option<&mut TransactionDraft> {
    draft.groups.last_mut()?.transactions.last_mut()
}

/// Returns true for options whose values are case-sensitive.
fn is_case_sensitive(key: &str) -> bool {
    matches!(key, "dir" | "cc" | "stack" | "engine" | "cipher" | "method")
}

/// Returns the byte ranges of the words in a list.
fn word_spans(list: &str) -> impl Iterator<Item = Span> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
    let mut at = 0;
    std::iter::from_fn(move || {
        let remaining = list[at..].trim_start_matches(blank);
        let start = list.len() - remaining.len();
        let length = remaining.find(blank).unwrap_or(remaining.len());
        at = start + length;
        (length > 0).then_some(start..at)
    })
}
