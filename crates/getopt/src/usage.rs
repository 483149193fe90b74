//! The option lines of a usage text.

use crate::{Argument, Section, UsageText};

/// The layout of the lines for options that stock lacks.
pub struct UsageLayout {
    /// The text before each option.
    pub indent: &'static str,
    /// The width of an option with its argument, in characters. A space and the description follow.
    pub width: usize,
    /// Formats an argument's name from the manual page for the usage text.
    pub format_argument: fn(&str) -> String,
}

/// Returns the stock tool's lines, each after `indent`.
pub fn stock_lines<L>(section: &Section<L>, indent: &str) -> String {
    let lines = section.options.iter().flat_map(|flag| match flag.usage {
        UsageText::Stock(lines) => lines,
        UsageText::Linerate { .. } => &[],
    });
    lines.flat_map(|line| [indent, line, "\n"]).collect()
}

/// Returns one line per option that stock lacks.
pub fn linerate_lines<L>(section: &Section<L>, layout: &UsageLayout) -> String {
    let UsageLayout { indent, width, .. } = *layout;
    let lines = section.options.iter().filter_map(|flag| {
        let UsageText::Linerate {
            description,
            default,
        } = flag.usage
        else {
            return None;
        };
        let synopsis = format!(
            "{}{}",
            flag.name,
            flag.argument.synopsis(layout.format_argument)
        );
        let default = match default {
            "" => String::new(),
            _ => format!(" ({default})"),
        };
        Some(format!(
            "{indent}{synopsis:width$} {description}{default}\n"
        ))
    });
    lines.collect()
}

impl Argument {
    /// Returns the argument with its separator from the option. `format_name` formats its name.
    pub(crate) fn synopsis(self, format_name: impl Fn(&str) -> String) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Value(name) => format!(" {}", format_name(name)),
            Self::OptionalNumber(name) | Self::OptionalWord(name) => {
                format!(" [{}]", format_name(name))
            }
            Self::OptionalAttached(name) => format!("[={}]", format_name(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::SECTION;

    #[test]
    fn stock_lines_are_printed_unchanged() {
        assert_eq!(
            stock_lines(&SECTION, "\t"),
            "\t-l N  Length\n\t      of it\n"
        );
    }

    #[test]
    fn linerate_lines_follow_the_layout() {
        let layout = UsageLayout {
            indent: "  ",
            width: 10,
            format_argument: |name| format!("<{name}>"),
        };
        let expected =
            "  --dir <dir> Look here (/tmp)\n  --flag     Set it\n  --spin[=<end>] Spin (1)\n";
        assert_eq!(linerate_lines(&SECTION, &layout), expected);
    }
}
