//! The profile language: a file's bytes → what is to be run, and notes on what is wrong or odd.
//!
//! A profile looks like XML, and the manual says it is; but uperf reads it in a way of its own
//! (`stock.rs`), and profiles in use are written for that: with attributes that are not quoted, with
//! ends that are missing. So each file is read in both ways, and
//!
//! - if it is not well-formed XML, uperf's reading decides;
//! - if it is, and uperf would stumble over it, that as XML decides. Stumbling is to refuse it or to
//!   crash, and also to overlook an element that has no blank before it (`<transaction><flowop`);
//! - if it is, and uperf reads it, uperf's reading decides, and where XML has another meaning a warning
//!   says so.
//!
//! Either reading comes to elements and attributes (`reading.rs`), from which `build.rs` makes the same
//! things by uperf's rules: an attribute acts on the group, transaction or flowop at hand, wherever it
//! stands. Beyond uperf, a name in the XML reading keeps its case.
//!
//! Nothing here touches a file, the environment or the network; [`Surroundings`] does.

mod build;
mod directory;
mod form;
pub(crate) mod memory;
mod note;
mod number;
mod options;
mod reading;
mod stock;
mod summary;
mod text;
mod whole;
mod xml;

pub use memory::expected_memory;
pub use note::{Note, Severity};
pub use summary::summary;
pub(crate) use text::shortened;
pub use whole::{MOST_MEMORY, MOST_PROCESSES, MOST_THREADS};

use build::Draft;
use note::Notes;
use reading::{Event, Reading};
use text::{Span, Text};
use xml::NotWellFormed;

use crate::workorder::Workorder;

/// A profile's file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, as notes have it.
    pub name: &'a str,
    /// All of it.
    pub bytes: &'a [u8],
}

/// What a profile may ask of the world around it.
pub struct Surroundings<'a> {
    /// The value of an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Whether files can be sent from this directory; if not, why.
    pub directory: &'a dyn Fn(&str) -> Result<(), String>,
}

impl Surroundings<'static> {
    /// This process's environment and files.
    pub fn real() -> Self {
        Self {
            environment: &|name| std::env::var(name).ok(),
            directory: &directory::has_files,
        }
    }
}

/// What a profile came to.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// What is to be run; nothing, if one of the notes is an error.
    pub workorder: Option<Workorder>,
    /// In the order of the text.
    pub notes: Vec<Note>,
}

impl Parsed {
    /// The notes, a line each; with `source` with the lines of the profile under them.
    pub fn notes_text(&self, file: &str, source: bool) -> String {
        let texts = self.notes.iter().map(|note| {
            if source {
                note.with_source(file)
            } else {
                note.one_line(file)
            }
        });
        texts.map(|text| text + "\n").collect()
    }
}

/// What `--check` says of a profile.
#[derive(Clone, Debug)]
pub struct Check {
    /// What would run; empty, if nothing would.
    pub plan: String,
    /// Errors and warnings, with the lines of the profile.
    pub notes: String,
    /// Whether it would run.
    pub runs: bool,
}

/// What would run, and what is wrong or odd, in words.
pub fn check(source: &Source, surroundings: &Surroundings) -> Check {
    let parsed = parse(source, surroundings);
    Check {
        plan: parsed.workorder.as_ref().map_or_else(String::new, summary),
        notes: parsed.notes_text(source.name, true),
        runs: parsed.workorder.is_some(),
    }
}

/// Reads a profile. All errors that it has are found, not only the first.
pub fn parse(source: &Source, surroundings: &Surroundings) -> Parsed {
    let bytes = &source.bytes[..source.bytes.len().min(LONGEST)];
    let (text, doubt) = Text::of(bytes);
    let mut notes = Notes::new(&text);
    if let Some(doubt) = doubt {
        notes.warn(&(0..0), doubt.text, doubt.assumed);
    }
    if let Some((at, why)) = unreadable(source, &text) {
        notes.error(&(at..at), why);
        return Parsed {
            workorder: None,
            notes: notes.finish(),
        };
    }
    let draft = read(&text, surroundings, &mut notes);
    for (place, directory) in directories(&draft) {
        if let Err(why) = (surroundings.directory)(directory) {
            let text = format!("Error initializing dir: {directory}: {why}");
            notes.error(place, text);
        }
    }
    Parsed {
        workorder: (!notes.failed()).then(|| draft.workorder()),
        notes: notes.finish(),
    }
}

/// Bytes of a profile; more are none.
const LONGEST: usize = 4 << 20;

/// Where and why the file cannot be a profile at all.
fn unreadable(source: &Source, text: &Text) -> Option<(usize, String)> {
    let length = source.bytes.len();
    if length == 0 {
        return Some((0, "Zero byte file!".to_owned()));
    }
    if length > LONGEST {
        let why = format!("a file of {length} bytes: a profile has at most {LONGEST}");
        return Some((0, why));
    }
    if let Some(at) = text.chars.find('\0') {
        return Some((at, "a NUL character: this is no text".to_owned()));
    }
    let is_blank = text.chars.bytes().all(|byte| byte <= b' ');
    is_blank.then(|| (0, "No profile found: the file is blank".to_owned()))
}

/// Reads it in both ways and takes the one that counts, with its notes.
fn read<'t>(text: &'t Text, surroundings: &Surroundings, notes: &mut Notes<'t>) -> Draft {
    let stock = stock::read(&text.chars);
    let by_stock = Attempt::at(&stock, text, surroundings);
    let xml = match xml::read(&text.chars, false) {
        Err(refused) => {
            let why = format!("not well-formed XML: {}", refused.text);
            notes.warn(&place(text, &refused), why, "what uperf reads");
            return by_stock.accept(notes);
        }
        Ok(xml) => xml,
    };
    if !by_stock.notes.failed() && !stock.overlooks {
        if let Some((place, as_xml, as_stock)) = difference(&stock, &by_stock, text, surroundings) {
            notes.warn(&place, as_xml, as_stock);
        }
        return by_stock.accept(notes);
    }
    let by_xml = Attempt::at(&xml, text, surroundings);
    if by_xml.notes.failed() && !by_stock.notes.failed() {
        return by_stock.accept(notes);
    }
    if !by_xml.notes.failed() {
        let overlooked = || {
            let (place, doubt) = stock.doubts.iter().find(|(_, it)| it.text.contains('<'))?;
            Some((place.start, doubt.text.clone()))
        };
        let stumble = by_stock.notes.first_error().or_else(overlooked);
        let (at, why) = stumble.unwrap_or_default();
        let why = format!("uperf does not read this file: {why}");
        notes.warn(&(at..at), why, "what it says as XML");
    }
    by_xml.accept(notes)
}

/// One reading of a profile, brought to its end.
struct Attempt<'t> {
    draft: Draft,
    notes: Notes<'t>,
}

impl<'t> Attempt<'t> {
    fn at(reading: &Reading, text: &'t Text, surroundings: &Surroundings) -> Self {
        let mut notes = Notes::new(text);
        for (place, problem) in &reading.problems {
            notes.error(place, problem.as_str());
        }
        for (place, doubt) in &reading.doubts {
            notes.warn(place, doubt.text.as_str(), doubt.assumed.as_str());
        }
        let draft = build::build(&reading.events, surroundings, &mut notes);
        // What was not read would be missed.
        if reading.problems.is_empty() {
            whole::check(&draft, &mut notes);
        }
        Self { draft, notes }
    }

    fn accept(self, notes: &mut Notes<'t>) -> Draft {
        notes.append(self.notes);
        self.draft
    }
}

/// Where the text means something else as XML than as uperf reads it, what, and what to uperf.
fn difference(
    stock: &Reading,
    by_stock: &Attempt,
    text: &Text,
    surroundings: &Surroundings,
) -> Option<(Span, String, String)> {
    // In lower case, as uperf has it: that is no difference.
    let xml = xml::read(&text.chars, true).ok()?;
    let by_xml = Attempt::at(&xml, text, surroundings);
    if let Some((at, problem)) = by_xml.notes.first_error() {
        let text = format!("as XML this is not in order: {problem}");
        return Some((at..at, text, "what uperf reads".to_owned()));
    }
    if by_xml.draft.workorder() == by_stock.draft.workorder() {
        return None;
    }
    let mut there = beginnings(&stock.events);
    let mut here = beginnings(&xml.events);
    loop {
        return match (there.next(), here.next()) {
            (None, None) => None,
            (Some((_, one)), Some((_, other))) if one == other => continue,
            (Some((place, one)), Some((_, other))) => {
                Some((place.clone(), format!("as XML this is {other}"), one))
            }
            (Some((place, one)), None) => {
                Some((place.clone(), "as XML this is nothing".to_owned(), one))
            }
            (None, Some((place, other))) => {
                let text = format!("as XML this is {other}");
                Some((place.clone(), text, "nothing".to_owned()))
            }
        };
    }
}

/// The beginnings and attributes as words.
fn beginnings(events: &[Event]) -> impl Iterator<Item = (&Span, String)> {
    events.iter().filter_map(|event| match event {
        Event::Start(element, place) => Some((place, format!("<{}>", element.name()))),
        Event::Attribute(key, value) => {
            Some((&value.span, format!("{}=\"{}\"", key.name(), value.text)))
        }
        Event::End(_) => None,
    })
}

fn place(text: &Text, refused: &NotWellFormed) -> Span {
    let at = text.offset(refused.line, refused.column);
    at..at + 1
}

/// The directories that files are sent from, and where they are named.
fn directories(draft: &Draft) -> impl Iterator<Item = (&Span, &str)> {
    let groups = draft.groups.iter();
    let transactions = groups.flat_map(|group| &group.transactions);
    let flowops = transactions.flat_map(|transaction| &transaction.flowops);
    flowops.filter_map(|flowop| {
        let word = flowop.words.iter().rfind(|word| word.key == "dir")?;
        let directory = flowop.settings.directory.as_str();
        (!directory.is_empty()).then_some((&word.place, directory))
    })
}
