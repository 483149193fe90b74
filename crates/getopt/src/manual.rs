//! What a manual page says of a table's options.

use crate::{Flag, Section, Usage};

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
    pub synopsis: String,
    /// What it does, in a few sentences.
    pub text: String,
}

/// Returns the chapter of a section. Without the feature `manual` the texts are empty.
pub fn chapter<L>(section: &Section<L>) -> Chapter {
    let described = |flag: &Flag<L>| Described {
        synopsis: format!("{}{}", flag.name, flag.argument.typed(str::to_owned)),
        text: flag.paragraph(),
    };
    Chapter {
        title: section.title,
        options: section.flags.iter().map(described).collect(),
    }
}

/// Returns what is wrong with the rows of a section, for a test: options without a paragraph, and own
/// options whose paragraph lacks the default that the usage text has.
pub fn gaps<L>(section: &Section<L>) -> Vec<String> {
    let mut gaps = Vec::new();
    for flag in section.flags {
        if flag.paragraph.is_empty() {
            gaps.push(format!("{} has no paragraph", flag.name));
        }
        let has_default = matches!(flag.usage, Usage::Own { default, .. } if !default.is_empty());
        if has_default != flag.paragraph.contains(DEFAULT) {
            gaps.push(format!("{} and its default", flag.name));
        }
    }
    gaps
}

/// What stands for the default in a paragraph.
const DEFAULT: &str = "{default}";

impl<L> Flag<L> {
    /// Returns the paragraph with the default in its place.
    pub fn paragraph(&self) -> String {
        match self.usage {
            Usage::Own { default, .. } => self.paragraph.replace(DEFAULT, default),
            Usage::Stock(_) => self.paragraph.to_owned(),
        }
    }

    /// Returns the word after "Default" in the paragraph.
    pub fn told_default(&self) -> Option<String> {
        let paragraph = self.paragraph();
        let (_, rest) = paragraph.split_once("Default ")?;
        let word = rest.split([' ', ',']).next()?;
        Some(word.trim_end_matches('.').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::SECTION;

    #[test]
    fn options_are_typed_and_described() {
        let chapter = chapter(&SECTION);
        let typed: Vec<_> = chapter
            .options
            .iter()
            .map(|option| &*option.synopsis)
            .collect();
        let expected =
            "-d|-l n|-c [rate]|-k [file]|-x n|-o, --old[=n]|--dir dir|--flag|--spin[=end]";
        assert_eq!(typed.join("|"), expected);
    }

    #[test]
    #[cfg(feature = "manual")]
    fn defaults_are_told_and_gaps_are_found() {
        let told: Vec<_> = SECTION
            .flags
            .iter()
            .filter_map(Flag::told_default)
            .collect();
        assert_eq!(told, ["3", "/tmp"]);
        let expected = [
            "-x has no paragraph",
            "-o, --old has no paragraph",
            "--spin and its default",
        ];
        assert_eq!(gaps(&SECTION), expected);
    }
}
