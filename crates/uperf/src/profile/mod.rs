//! Profile parser: turns the bytes of a file into a workorder, errors and warnings.
//!
//! A profile looks like XML, and the manual calls it XML. But uperf has its own parser
//! (`stock.rs`). Profiles in use rely on it: they have unquoted attributes and missing end tags.
//! linerate therefore reads each file in both ways:
//!
//! - If the file is not well-formed XML, uperf's reading applies.
//! - If it is, but uperf fails on it, the XML reading applies. uperf fails if it refuses the file,
//!   crashes, or ignores an element that has no blank before it (`<transaction><flowop`).
//! - If both can read it, uperf's reading applies. A warning reports where XML has another meaning.
//!
//! Both readings yield elements and attributes (`reading.rs`). `build.rs` applies uperf's rules to
//! them: an attribute acts on the current group, transaction or flowop, whatever element it is in.
//! uperf's reading converts the file to lower case. The XML reading keeps the case of values.
//!
//! The parser itself reads no files and no environment variables; [`ProfileContext`] does.

mod build;
mod directory;
pub(crate) mod memory;
mod note;
mod number;
mod option_value;
mod options;
mod reading;
mod stock;
mod summary;
mod text;
mod validate;
mod xml;

pub use memory::expected_memory;
pub use note::{Note, Severity};
pub use summary::summary;
pub(crate) use text::truncated;
pub use validate::{MAX_MEMORY_BYTES, MAX_PROCESSES, MAX_THREADS};

use build::ProfileDraft;
use note::Notes;
use reading::{MarkupEvent, Reading};
use text::{ProfileText, Span};
use xml::XmlError;

use crate::workorder::Workorder;

/// Contents of a profile file.
#[derive(Clone, Copy, Debug)]
pub struct ProfileSource<'a> {
    /// File name that notes print.
    pub name: &'a str,
    /// Complete contents.
    pub bytes: &'a [u8],
}

/// Functions through which the parser reads the environment and the file system.
pub struct ProfileContext<'a> {
    /// Returns the value of an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Checks that a directory contains files to send; the error is the reason.
    pub directory: &'a dyn Fn(&str) -> Result<(), String>,
}

impl ProfileContext<'static> {
    /// Uses the environment and files of this process.
    pub fn for_this_process() -> Self {
        Self {
            environment: &|name| std::env::var(name).ok(),
            directory: &directory::check_files,
        }
    }
}

/// Result of parsing a profile.
#[derive(Clone, Debug)]
pub struct ParsedProfile {
    /// Work to run; `None` if one of the notes is an error.
    pub workorder: Option<Workorder>,
    /// Errors and warnings, in the order of the text.
    pub notes: Vec<Note>,
}

impl ParsedProfile {
    /// Returns the notes, one per line. With `with_source`, the profile's line follows each note.
    pub fn notes_text(&self, file: &str, with_source: bool) -> String {
        let texts = self.notes.iter().map(|note| {
            if with_source {
                note.format_with_source(file)
            } else {
                note.format_line(file)
            }
        });
        texts.map(|text| text + "\n").collect()
    }
}

/// Output of `--check` for a profile.
#[derive(Clone, Debug)]
pub struct ProfileCheck {
    /// Summary of the work; empty if the profile has errors.
    pub plan: String,
    /// Errors and warnings, with the lines of the profile.
    pub notes: String,
    /// Whether the profile can run.
    pub has_no_errors: bool,
}

/// Parses a profile and describes its work, errors and warnings.
pub fn check(source: &ProfileSource, context: &ProfileContext) -> ProfileCheck {
    let parsed = parse(source, context);
    ProfileCheck {
        plan: parsed.workorder.as_ref().map_or_else(String::new, summary),
        notes: parsed.notes_text(source.name, true),
        has_no_errors: parsed.workorder.is_some(),
    }
}

/// Parses a profile. Reports all its errors, not only the first.
pub fn parse(source: &ProfileSource, context: &ProfileContext) -> ParsedProfile {
    let bytes = &source.bytes[..source.bytes.len().min(MAX_PROFILE_BYTES)];
    let (text, warning) = ProfileText::decode(bytes);
    let mut notes = Notes::new(&text);
    if let Some(warning) = warning {
        notes.warn(&(0..0), warning.text, warning.assumed);
    }
    if let Some((at, reason)) = find_unreadable(source, &text) {
        notes.error(&(at..at), reason);
        return ParsedProfile {
            workorder: None,
            notes: notes.finish(),
        };
    }
    let draft = choose_reading(&text, context, &mut notes);
    for (span, directory) in directory_spans(&draft) {
        if let Err(reason) = (context.directory)(directory) {
            let text = format!("Error initializing dir: {directory}: {reason}");
            notes.error(span, text);
        }
    }
    ParsedProfile {
        workorder: (!notes.has_errors()).then(|| draft.to_workorder()),
        notes: notes.finish(),
    }
}

/// Maximum size of a profile, in bytes.
const MAX_PROFILE_BYTES: usize = 4 << 20;

/// Returns offset and reason if the file cannot be a profile at all.
fn find_unreadable(source: &ProfileSource, text: &ProfileText) -> Option<(usize, String)> {
    let length = source.bytes.len();
    if length == 0 {
        return Some((0, "Zero byte file!".to_owned()));
    }
    if length > MAX_PROFILE_BYTES {
        let reason = format!("the file has {length} bytes; the maximum is {MAX_PROFILE_BYTES}");
        return Some((0, reason));
    }
    if let Some(at) = text.chars.find('\0') {
        return Some((at, "a NUL character: this is not a text file".to_owned()));
    }
    let is_blank = text.chars.bytes().all(|byte| byte <= b' ');
    is_blank.then(|| (0, "No profile found: the file is blank".to_owned()))
}

/// Reads the text in both ways; returns the reading that applies, and adds its notes to `notes`.
fn choose_reading<'t>(
    text: &'t ProfileText,
    context: &ProfileContext,
    notes: &mut Notes<'t>,
) -> ProfileDraft {
    let stock = stock::read(&text.chars);
    let stock_result = Interpretation::from_reading(&stock, text, context);
    let xml = match xml::read(&text.chars, false) {
        Err(error) => {
            let reason = format!("not well-formed XML: {}", error.text);
            notes.warn(&error_span(text, &error), reason, "uperf's reading");
            return stock_result.accept(notes);
        }
        Ok(xml) => xml,
    };
    if !stock_result.notes.has_errors() && !stock.misses_element {
        if let Some((span, xml_text, stock_text)) =
            find_difference(&stock, &stock_result, text, context)
        {
            notes.warn(&span, xml_text, stock_text);
        }
        return stock_result.accept(notes);
    }
    let xml_result = Interpretation::from_reading(&xml, text, context);
    if xml_result.notes.has_errors() && !stock_result.notes.has_errors() {
        return stock_result.accept(notes);
    }
    if !xml_result.notes.has_errors() {
        let missed_element = || {
            let (span, warning) = stock
                .warnings
                .iter()
                .find(|(_, warning)| warning.text.contains('<'))?;
            Some((span.start, warning.text.clone()))
        };
        let first_problem = stock_result.notes.first_error().or_else(missed_element);
        let (at, reason) = first_problem.unwrap_or_default();
        let text = format!("uperf cannot read this file: {reason}");
        notes.warn(&(at..at), text, "its meaning as XML");
    }
    xml_result.accept(notes)
}

/// Draft and notes that one of the two readings yields.
struct Interpretation<'t> {
    draft: ProfileDraft,
    notes: Notes<'t>,
}

impl<'t> Interpretation<'t> {
    fn from_reading(reading: &Reading, text: &'t ProfileText, context: &ProfileContext) -> Self {
        let mut notes = Notes::new(text);
        for (span, problem) in &reading.errors {
            notes.error(span, problem.as_str());
        }
        for (span, warning) in &reading.warnings {
            notes.warn(span, warning.text.as_str(), warning.assumed.as_str());
        }
        let draft = build::build(&reading.events, context, &mut notes);
        // After a syntax error, checks would report elements that the reader skipped.
        if reading.errors.is_empty() {
            validate::validate(&draft, &mut notes);
        }
        Self { draft, notes }
    }

    fn accept(self, notes: &mut Notes<'t>) -> ProfileDraft {
        notes.append(self.notes);
        self.draft
    }
}

/// Finds the first place where XML and uperf read the text differently.
///
/// Returns its span, a description of the XML reading, and uperf's reading.
fn find_difference(
    stock: &Reading,
    stock_result: &Interpretation,
    text: &ProfileText,
    context: &ProfileContext,
) -> Option<(Span, String, String)> {
    // uperf folds values to lower case; case alone is not a difference.
    let xml = xml::read(&text.chars, true).ok()?;
    let xml_result = Interpretation::from_reading(&xml, text, context);
    if let Some((at, problem)) = xml_result.notes.first_error() {
        let text = format!("invalid as XML: {problem}");
        return Some((at..at, text, "uperf's reading".to_owned()));
    }
    if xml_result.draft.to_workorder() == stock_result.draft.to_workorder() {
        return None;
    }
    let mut stock_items = describe_items(&stock.events);
    let mut xml_items = describe_items(&xml.events);
    loop {
        return match (stock_items.next(), xml_items.next()) {
            (None, None) => None,
            (Some((_, stock_item)), Some((_, xml_item))) if stock_item == xml_item => continue,
            (Some((span, stock_item)), Some((_, xml_item))) => Some((
                span.clone(),
                format!("as XML this is {xml_item}"),
                stock_item,
            )),
            (Some((span, stock_item)), None) => Some((
                span.clone(),
                "as XML this is nothing".to_owned(),
                stock_item,
            )),
            (None, Some((span, xml_item))) => {
                let text = format!("as XML this is {xml_item}");
                Some((span.clone(), text, "nothing".to_owned()))
            }
        };
    }
}

/// Returns start tags and attributes with their spans, formatted for a note.
fn describe_items(events: &[MarkupEvent]) -> impl Iterator<Item = (&Span, String)> {
    events.iter().filter_map(|event| match event {
        MarkupEvent::Start(element, span) => Some((span, format!("<{}>", element.name()))),
        MarkupEvent::Attribute(key, value) => {
            Some((&value.span, format!("{}=\"{}\"", key.name(), value.text)))
        }
        MarkupEvent::End(_) => None,
    })
}

fn error_span(text: &ProfileText, error: &XmlError) -> Span {
    let at = text.offset(error.line, error.column);
    at..at + 1
}

/// Returns the directories from which flowops send files, with the spans of their options.
fn directory_spans(draft: &ProfileDraft) -> impl Iterator<Item = (&Span, &str)> {
    let groups = draft.groups.iter();
    let transactions = groups.flat_map(|group| &group.transactions);
    let flowops = transactions.flat_map(|transaction| &transaction.flowops);
    flowops.filter_map(|flowop| {
        let word = flowop.words.iter().rfind(|word| word.key == "dir")?;
        let directory = flowop.settings.directory.as_str();
        (!directory.is_empty()).then_some((&word.span, directory))
    })
}
