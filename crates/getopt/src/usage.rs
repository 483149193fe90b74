//! The lines of a usage text.

use crate::{Argument, Section, Usage};

/// The layout of the options that the stock tool lacks.
pub struct Layout {
    /// Stands before each option.
    pub indent: &'static str,
    /// Width of an option with its argument; what it does begins behind that and a blank.
    pub width: usize,
    /// How an argument is typed here, from its name in the manual page.
    pub argument: fn(&str) -> String,
}

/// Returns the stock tool's lines, each behind `indent`.
pub fn stock<L>(section: &Section<L>, indent: &str) -> String {
    let lines = section.flags.iter().flat_map(|flag| match flag.usage {
        Usage::Stock(lines) => lines,
        Usage::Own { .. } => &[],
    });
    lines.flat_map(|line| [indent, line, "\n"]).collect()
}

/// Returns a line for each option that the stock tool lacks.
pub fn own<L>(section: &Section<L>, layout: &Layout) -> String {
    let Layout { indent, width, .. } = *layout;
    let lines = section.flags.iter().filter_map(|flag| {
        let Usage::Own { what, default } = flag.usage else {
            return None;
        };
        let typed = format!("{}{}", flag.name, flag.argument.typed(layout.argument));
        let default = match default {
            "" => String::new(),
            _ => format!(" ({default})"),
        };
        Some(format!("{indent}{typed:width$} {what}{default}\n"))
    });
    lines.collect()
}

impl Argument {
    /// Returns the argument with what separates it from the option, its name as `typed` has it.
    pub(crate) fn typed(self, typed: impl Fn(&str) -> String) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Value(name) => format!(" {}", typed(name)),
            Self::MaybeRate(name) | Self::MaybeSelection(name) => format!(" [{}]", typed(name)),
            Self::MaybeAttached(name) => format!("[={}]", typed(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::SECTION;

    #[test]
    fn stock_lines_are_to_the_letter() {
        assert_eq!(stock(&SECTION, "\t"), "\t-l N  Length\n\t      of it\n");
    }

    #[test]
    fn own_lines_are_laid_out() {
        let layout = Layout {
            indent: "  ",
            width: 10,
            argument: |name| format!("<{name}>"),
        };
        let expected =
            "  --dir <dir> Look here (/tmp)\n  --flag     Set it\n  --spin[=<end>] Spin (1)\n";
        assert_eq!(own(&SECTION, &layout), expected);
    }
}
