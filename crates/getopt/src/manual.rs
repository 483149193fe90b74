//! What a manual page says of a table's options.

use crate::{Name, Section};

/// The options of one command, or of a part of it.
pub struct Chapter {
    /// Its heading.
    pub title: &'static str,
    /// The options, in the order of the usage text.
    pub options: Vec<Described>,
}

/// One option.
pub struct Described {
    /// The option with its argument, as it is typed.
    pub synopsis: &'static str,
    /// What it does, in a few sentences.
    pub text: &'static str,
}

/// An option's name, how it is typed, and what it does.
pub type Paragraph = (Name, &'static str, &'static str);

/// The options of `section` that have a paragraph.
pub fn chapter<L: 'static, E: 'static>(
    title: &'static str,
    section: &Section<L, E>,
    paragraphs: &'static [Paragraph],
) -> Chapter {
    let mut options: Vec<Described> = Vec::new();
    for flag in section.flags {
        let Some((_, synopsis, text)) = paragraphs.iter().find(|(name, ..)| *name == flag.name)
        else {
            continue;
        };
        // A letter that the stock usage text has twice is one option all the same.
        if options.iter().all(|known| known.synopsis != *synopsis) {
            options.push(Described { synopsis, text });
        }
    }
    Chapter { title, options }
}

/// What a test of a manual looks for: options without a paragraph, paragraphs without an option, and
/// those that are typed otherwise than they are called.
pub fn gaps<L: 'static, E: 'static>(
    section: &Section<L, E>,
    paragraphs: &[Paragraph],
) -> Vec<String> {
    let mut gaps = Vec::new();
    for flag in section.flags {
        if paragraphs.iter().all(|(name, ..)| *name != flag.name) {
            gaps.push(format!("{} is not in the manual", flag.name));
        }
    }
    for (name, synopsis, _) in paragraphs {
        if section.flags.iter().all(|flag| flag.name != *name) {
            gaps.push(format!("{name} is in the manual alone"));
        }
        if !synopsis.starts_with(&name.to_string()) {
            gaps.push(format!("{name} is typed {synopsis}"));
        }
    }
    gaps
}
