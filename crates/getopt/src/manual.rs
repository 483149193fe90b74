//! The descriptions of a table's options in a manual page.

use crate::{OptionRow, Section, UsageText};

/// The manual page's chapter for one [`Section`].
pub struct Chapter {
    /// The heading.
    pub title: &'static str,
    /// The options, in the order of the usage text.
    pub options: Vec<OptionDescription>,
}

/// The manual page's entry for one option.
pub struct OptionDescription {
    /// The option with its argument, as typed on a command line.
    pub synopsis: String,
    /// The description, a few sentences.
    pub text: String,
}

/// Returns the chapter of a section. Without the feature `manual` the texts are empty.
pub fn chapter<L>(section: &Section<L>) -> Chapter {
    let described = |flag: &OptionRow<L>| OptionDescription {
        synopsis: format!("{}{}", flag.name, flag.argument.synopsis(str::to_owned)),
        text: flag.paragraph(),
    };
    Chapter {
        title: section.title,
        options: section.options.iter().map(described).collect(),
    }
}

/// Returns the gaps in a section's descriptions, for a test.
///
/// A gap is an option without a paragraph, or a default that only the paragraph or only the usage
/// text states.
pub fn find_gaps<L>(section: &Section<L>) -> Vec<String> {
    let mut gaps = Vec::new();
    for flag in section.options {
        if flag.paragraph.is_empty() {
            gaps.push(format!("{} has no paragraph", flag.name));
        }
        let has_default =
            matches!(flag.usage, UsageText::Linerate { default, .. } if !default.is_empty());
        if has_default != flag.paragraph.contains(DEFAULT_PLACEHOLDER) {
            gaps.push(format!(
                "{} states another default than its usage text",
                flag.name
            ));
        }
    }
    gaps
}

/// The placeholder for the default in a paragraph.
const DEFAULT_PLACEHOLDER: &str = "{default}";

impl<L> OptionRow<L> {
    /// Returns the paragraph with the default filled in.
    pub fn paragraph(&self) -> String {
        match self.usage {
            UsageText::Linerate { default, .. } => {
                self.paragraph.replace(DEFAULT_PLACEHOLDER, default)
            }
            UsageText::Stock(_) => self.paragraph.to_owned(),
        }
    }

    /// Returns the word after "Default" in the paragraph.
    pub fn stated_default(&self) -> Option<String> {
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
    fn synopses_show_options_with_their_arguments() {
        let chapter = chapter(&SECTION);
        let synopses: Vec<_> = chapter
            .options
            .iter()
            .map(|option| &*option.synopsis)
            .collect();
        let expected =
            "-d|-l n|-c [rate]|-k [file]|-x n|-o, --old[=n]|--dir dir|--flag|--spin[=end]";
        assert_eq!(synopses.join("|"), expected);
    }

    #[test]
    #[cfg(feature = "manual")]
    fn defaults_and_gaps_are_found() {
        let defaults: Vec<_> = SECTION
            .options
            .iter()
            .filter_map(OptionRow::stated_default)
            .collect();
        assert_eq!(defaults, ["3", "/tmp"]);
        let expected = [
            "-x has no paragraph",
            "-o, --old has no paragraph",
            "--spin states another default than its usage text",
        ];
        assert_eq!(find_gaps(&SECTION), expected);
    }
}
