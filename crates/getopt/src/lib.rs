//! Command-line option tables. The parser, the usage text and the manual page use the same table.
//!
//! The grammar is that of GNU getopt(3) or getopt_long(3). The lexopt crate does not fit:
//! - It reads the value of `-l=5` as `5`; getopt reads `=5`.
//! - It accepts `--foo` as a long option; the stock tools report an invalid option `-`.
//! - It cannot take the next word on a condition, such as a leading digit (`-c`, `-k`).

#![forbid(unsafe_code)]

mod exit;
pub mod manual;
mod output;
pub mod stock_version;
pub mod usage;

use std::ffi::OsString;
use std::fmt::{self, Display};

pub use exit::{EarlyExit, Exit, ExitTexts, check_range, refuse, utf8_words};
pub use output::{Output, record_output_error, stdout, take_output_error};

/// One option of a command. `L` is the type of the settings that the option changes.
pub struct OptionRow<L> {
    /// The letter, the long name, or both.
    pub name: OptionName,
    /// The argument that follows the option.
    pub argument: Argument,
    /// The lines of the usage text.
    pub usage: UsageText,
    /// The manual page's paragraph. `{default}` stands for the default of a linerate option.
    /// Empty in a build without the feature `manual`.
    pub paragraph: &'static str,
    /// The environment variable that also sets the option; empty if there is none.
    pub variable: &'static str,
    /// Whether the value is a secret, which no message contains.
    pub is_secret: bool,
    /// Stores the value in the settings.
    pub apply: ApplyOption<L>,
}

/// Stores an option's value in the settings. The value is "" for an option without one.
pub type ApplyOption<L> = fn(&mut L, &str) -> Result<(), EarlyExit>;

/// The name of an option on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionName {
    /// A letter after one dash.
    Letter(char),
    /// A long name after two dashes.
    Long(&'static str),
    /// A letter and a long name for the same option.
    Both(char, &'static str),
}

/// The argument of an option. The string is the argument's name in the manual page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// No argument.
    Nothing,
    /// The rest of the word, or the next word if the rest is empty.
    Value(&'static str),
    /// The next word, if it starts with a digit.
    OptionalNumber(&'static str),
    /// The next word, if it does not start with a dash.
    OptionalWord(&'static str),
    /// The rest of the word after a letter, or the text after a long option's `=`; may be absent.
    OptionalAttached(&'static str),
}

/// An option's lines in the usage text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageText {
    /// The stock tool's lines without their indent. Empty if stock does not document the option.
    Stock(&'static [&'static str]),
    /// One line of a linerate option, formatted by [`usage::linerate_lines`].
    Linerate {
        /// What the option does.
        description: &'static str,
        /// The default to print in parentheses; empty to print none.
        default: &'static str,
    },
}

/// The options of a command, or of one part of its command line.
pub struct Section<L: 'static> {
    /// The heading of the section's chapter in the manual page.
    pub title: &'static str,
    /// The heading of the section's lines in the usage text.
    pub heading: &'static str,
    /// The words before an option in a message. They tell apart sections that share letters.
    pub scope: &'static str,
    /// The options, in the order of the usage text.
    pub options: &'static [OptionRow<L>],
}

/// The words of a command line that are not options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemainingWords<'w> {
    /// Words between the options that belong to no option.
    pub stray: Vec<&'w str>,
    /// The words after the first `--`.
    pub after_dashes: &'w [String],
}

impl<'w> RemainingWords<'w> {
    /// Returns the first word that belongs to no option.
    pub fn first(&self) -> Option<&'w str> {
        let stray = self.stray.first().copied();
        stray.or(self.after_dashes.first().map(String::as_str))
    }
}

/// Returns the row of a stock option that has a letter.
pub const fn stock_letter<L>(
    letter: char,
    argument: Argument,
    lines: &'static [&'static str],
    paragraph: &'static str,
    apply: ApplyOption<L>,
) -> OptionRow<L> {
    let usage = UsageText::Stock(lines);
    row(
        OptionName::Letter(letter),
        argument,
        usage,
        paragraph,
        apply,
    )
}

/// Returns the row of a stock option that has only a long name.
pub const fn stock_long<L>(
    name: &'static str,
    argument: Argument,
    lines: &'static [&'static str],
    paragraph: &'static str,
    apply: ApplyOption<L>,
) -> OptionRow<L> {
    row(
        OptionName::Long(name),
        argument,
        UsageText::Stock(lines),
        paragraph,
        apply,
    )
}

/// Returns the row of an option that stock lacks.
pub const fn linerate_option<L>(
    name: OptionName,
    argument: Argument,
    description: &'static str,
    default: &'static str,
    paragraph: &'static str,
    apply: ApplyOption<L>,
) -> OptionRow<L> {
    row(
        name,
        argument,
        UsageText::Linerate {
            description,
            default,
        },
        paragraph,
        apply,
    )
}

/// Returns the row of an option that stock lacks and that has only a long name.
pub const fn linerate_long<L>(
    name: &'static str,
    argument: Argument,
    description: &'static str,
    default: &'static str,
    paragraph: &'static str,
    apply: ApplyOption<L>,
) -> OptionRow<L> {
    linerate_option(
        OptionName::Long(name),
        argument,
        description,
        default,
        paragraph,
        apply,
    )
}

/// Builds a row. Drops the paragraph at compile time unless the feature `manual` is on.
const fn row<L>(
    name: OptionName,
    argument: Argument,
    usage: UsageText,
    paragraph: &'static str,
    apply: ApplyOption<L>,
) -> OptionRow<L> {
    OptionRow {
        name,
        argument,
        usage,
        paragraph: if cfg!(feature = "manual") {
            paragraph
        } else {
            ""
        },
        variable: "",
        is_secret: false,
        apply,
    }
}

impl<L> OptionRow<L> {
    /// Adds a long name to an option that has a letter.
    #[must_use]
    pub const fn with_long(mut self, long: &'static str) -> Self {
        if let OptionName::Letter(letter) = self.name {
            self.name = OptionName::Both(letter, long);
        }
        self
    }

    /// Marks the value as a secret.
    #[must_use]
    pub const fn with_secret_value(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Adds an environment variable that also sets the option.
    #[must_use]
    pub const fn with_variable(mut self, variable: &'static str) -> Self {
        self.variable = variable;
        self
    }
}

/// The grammar of words that begin with two dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grammar {
    /// getopt(3): letters, unless the word is one of the section's complete long names.
    Getopt,
    /// getopt_long(3): long options or their unambiguous prefixes.
    GetoptLong,
}

/// Parses `words` like getopt(3) and applies the options to `settings`.
///
/// It skips stray words and stops after the first `--`. Long names must be complete.
pub fn scan<'w, L>(
    program: &str,
    section: &Section<L>,
    words: &'w [String],
    settings: &mut L,
) -> Result<RemainingWords<'w>, EarlyExit> {
    parse_words(
        Grammar::Getopt,
        program,
        section,
        words,
        &mut |_, flag, value| apply(program, section.scope, flag.name, (flag, value), settings),
    )
}

/// Parses `words` like getopt_long(3) and applies the options to `settings`.
///
/// Unlike [`scan`], it accepts unambiguous prefixes of long names.
pub fn scan_long<'w, L>(
    program: &str,
    section: &Section<L>,
    words: &'w [String],
    settings: &mut L,
) -> Result<RemainingWords<'w>, EarlyExit> {
    parse_words(
        Grammar::GetoptLong,
        program,
        section,
        words,
        &mut |_, flag, value| apply(program, section.scope, flag.name, (flag, value), settings),
    )
}

/// Returns the words of a command line with `***` in place of the values of secret options.
///
/// The parser must have accepted the words: it ends at the first error.
pub fn mask_secrets<L>(
    grammar: Grammar,
    section: &Section<L>,
    words: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let words = words.into_iter();
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut masked = words.clone();
    let _ = parse_words(grammar, "", section, &words, &mut |index, flag, value| {
        if flag.is_secret && !value.is_empty() {
            let start = words[index].len() - value.len();
            masked[index].replace_range(start.., "***");
        }
        Ok(())
    });
    masked.into_iter().map(OsString::from).collect()
}

/// Applies the options whose environment variables are set, in the order of the section.
///
/// `value_of` returns the value of a variable. Any value sets an option that takes no argument.
pub fn apply_environment<L>(
    program: &str,
    section: &Section<L>,
    value_of: impl Fn(&str) -> Option<String>,
    settings: &mut L,
) -> Result<(), EarlyExit> {
    let with_variable = section
        .options
        .iter()
        .filter(|flag| !flag.variable.is_empty());
    for flag in with_variable {
        let Some(value) = value_of(flag.variable) else {
            continue;
        };
        let takes_value = flag.argument != Argument::Nothing;
        let value = if takes_value { &value } else { "" };
        apply(
            program,
            section.scope,
            flag.variable,
            (flag, value),
            settings,
        )?;
    }
    Ok(())
}

/// Takes the index of a word, and the option and the value that end in it.
type Visit<'v, 'w, L> = dyn FnMut(usize, &OptionRow<L>, &'w str) -> Result<(), EarlyExit> + 'v;

/// Parses `words`, and calls `visit` with each option and its value, which is the end of the word with
/// the given index.
fn parse_words<'w, L>(
    grammar: Grammar,
    program: &str,
    section: &Section<L>,
    words: &'w [String],
    visit: &mut Visit<'_, 'w, L>,
) -> Result<RemainingWords<'w>, EarlyExit> {
    let mut stray = Vec::new();
    let mut remaining = words;
    while let Some((word, tail)) = remaining.split_first() {
        remaining = tail;
        if word == "--" {
            break;
        }
        if let Some(long) = find_long(grammar, section, word) {
            let option = long.and_then(|long| value_of_long(long, &mut remaining));
            let (flag, value) = option.or_else(|message| syntax_error(program, &message))?;
            visit(words.len() - remaining.len() - 1, flag, value)?;
            continue;
        }
        // A lone dash and a word without a leading dash are stray words.
        let mut cluster = word.strip_prefix('-').unwrap_or_default();
        if cluster.is_empty() {
            stray.push(word.as_str());
        }
        while let Some(letter) = cluster.chars().next() {
            cluster = &cluster[letter.len_utf8()..];
            let has_letter = |flag: &&OptionRow<L>| flag.name.letter() == Some(letter);
            let Some(flag) = section.options.iter().find(has_letter) else {
                return syntax_error(program, &format!("invalid option -- '{letter}'"));
            };
            let value = match flag.argument {
                Argument::Nothing => "",
                Argument::OptionalAttached(_) => std::mem::take(&mut cluster),
                Argument::Value(_) if !cluster.is_empty() => std::mem::take(&mut cluster),
                Argument::Value(_) => {
                    let Some(value) = next_word(&mut remaining) else {
                        let message = format!("option requires an argument -- '{letter}'");
                        return syntax_error(program, &message);
                    };
                    value
                }
                // If letters follow in the same word, the stock tool tests this word, not the next
                // one. This word begins with a dash, so the option gets no value.
                Argument::OptionalNumber(_) | Argument::OptionalWord(_) if !cluster.is_empty() => {
                    ""
                }
                Argument::OptionalNumber(_) => next_word_if(&mut remaining, |word| {
                    word.starts_with(|c: char| c.is_ascii_digit())
                }),
                Argument::OptionalWord(_) => {
                    next_word_if(&mut remaining, |word| !word.starts_with('-'))
                }
            };
            visit(words.len() - remaining.len() - 1, flag, value)?;
        }
    }
    Ok(RemainingWords {
        stray,
        after_dashes: remaining,
    })
}

/// A long option's row, its complete name, and the value after its `=`.
type LongOption<'w, L> = (&'static OptionRow<L>, &'static str, Option<&'w str>);

/// Returns the long option that `word` names or abbreviates, or getopt's error message.
///
/// Returns `None` if the grammar does not read `word` as a long option.
fn find_long<'w, L>(
    grammar: Grammar,
    section: &Section<L>,
    word: &'w str,
) -> Option<Result<LongOption<'w, L>, String>> {
    let text = word.strip_prefix("--")?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let named = section
        .options
        .iter()
        .filter_map(|flag| Some((flag, flag.name.long()?)));
    if let Some((flag, long)) = named.clone().find(|(_, long)| *long == name) {
        return Some(Ok((flag, long, value)));
    }
    if grammar == Grammar::Getopt {
        return None;
    }
    let matches: Vec<_> = named.filter(|(_, long)| long.starts_with(name)).collect();
    Some(match matches[..] {
        [] => Err(format!("unrecognized option '{word}'")),
        [(flag, long)] => Ok((flag, long, value)),
        _ => {
            let possible = matches.iter().map(|(_, long)| format!(" '--{long}'"));
            let possible: String = possible.collect();
            Err(format!(
                "option '{word}' is ambiguous; possibilities:{possible}"
            ))
        }
    })
}

/// Returns the option with its value, or getopt's error message. The value may be the next word.
fn value_of_long<'w, L>(
    (flag, name, attached): LongOption<'w, L>,
    remaining: &mut &'w [String],
) -> Result<(&'static OptionRow<L>, &'w str), String> {
    let value = match (flag.argument, attached) {
        (Argument::Nothing | Argument::OptionalAttached(_), None) => "",
        (Argument::Nothing, Some(_)) => {
            return Err(format!("option '--{name}' doesn't allow an argument"));
        }
        (_, Some(value)) => value,
        (_, None) => {
            next_word(remaining).ok_or_else(|| format!("option '--{name}' requires an argument"))?
        }
    };
    Ok((flag, value))
}

fn next_word<'w>(remaining: &mut &'w [String]) -> Option<&'w str> {
    let (word, tail) = remaining.split_first()?;
    *remaining = tail;
    Some(word)
}

fn next_word_if<'w>(remaining: &mut &'w [String], accepts: impl Fn(&str) -> bool) -> &'w str {
    match remaining.split_first() {
        Some((word, tail)) if accepts(word) => {
            *remaining = tail;
            word
        }
        _ => "",
    }
}

/// Stores a value. A refusal names its `origin`, which is the option or the environment variable, and
/// the value unless it is a secret.
fn apply<L>(
    program: &str,
    scope: &str,
    origin: impl Display,
    (flag, value): (&OptionRow<L>, &str),
    settings: &mut L,
) -> Result<(), EarlyExit> {
    (flag.apply)(settings, value).map_err(|early_exit| match early_exit {
        EarlyExit::Refused(reason) => {
            let value = if flag.is_secret { "" } else { value };
            let separator = if value.is_empty() { "" } else { " " };
            EarlyExit::Refused(format!(
                "{program}: {scope}{origin}{separator}{value}: {reason}\n"
            ))
        }
        EarlyExit::SyntaxError(message) => {
            EarlyExit::SyntaxError(format!("{program}: {message}\n"))
        }
        other => other,
    })
}

fn syntax_error<T>(program: &str, message: &str) -> Result<T, EarlyExit> {
    Err(EarlyExit::SyntaxError(format!("{program}: {message}\n")))
}

impl OptionName {
    fn letter(self) -> Option<char> {
        match self {
            Self::Letter(letter) | Self::Both(letter, _) => Some(letter),
            Self::Long(_) => None,
        }
    }

    fn long(self) -> Option<&'static str> {
        match self {
            Self::Long(name) | Self::Both(_, name) => Some(name),
            Self::Letter(_) => None,
        }
    }
}

impl Display for OptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Letter(letter) => write!(f, "-{letter}"),
            Self::Long(name) => write!(f, "--{name}"),
            Self::Both(letter, name) => write!(f, "-{letter}, --{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Argument::{Nothing, OptionalAttached, OptionalNumber, OptionalWord, Value};
    use super::*;
    use std::ffi::OsStr;

    #[rustfmt::skip]
    pub(super) static SECTION: Section<Vec<String>> = Section {
        title: "OPTIONS", heading: "", scope: "test option ", options: &[
            stock_letter('d', Nothing, &[], "A switch.", |seen, v| note(seen, "d", v)),
            stock_letter('l', Value("n"), &["-l N  Length", "      of it"], "Default 3.", |seen, v| note(seen, "l", v)),
            stock_letter('c', OptionalNumber("rate"), &[], "A rate.", |seen, v| note(seen, "c", v)),
            stock_letter('k', OptionalWord("file"), &[], "A file.", |seen, v| note(seen, "k", v)),
            stock_letter('x', Value("n"), &[], "", |_, _| refuse("never")),
            stock_letter('o', OptionalAttached("n"), &[], "", |seen, v| note(seen, "o", v)).with_long("old"),
            linerate_long("dir", Value("dir"), "Look here", "/tmp", "Default {default}, always.", |seen, v| note(seen, "dir", v)).with_variable("P_DIR"),
            linerate_long("flag", Nothing, "Set it", "", "Sets it.", |seen, v| note(seen, "flag", v)).with_variable("P_FLAG"),
            linerate_long("spin", OptionalAttached("end"), "Spin", "1", "Spins.", |seen, v| note(seen, "spin", v)),
        ],
    };

    #[expect(clippy::unnecessary_wraps, reason = "it must fit ApplyOption")]
    fn note(seen: &mut Vec<String>, name: &str, value: &str) -> Result<(), EarlyExit> {
        seen.push(format!("{name}={value}"));
        Ok(())
    }

    #[test]
    fn words_are_parsed_like_getopt() {
        for (line, seen, after_dashes) in [
            ("", "", ""),
            ("-l 5", "l=5", ""),
            ("-l5", "l=5", ""),
            ("-l=5", "l==5", ""),
            ("-l -5", "l=-5", ""),
            ("-l --", "l=--", ""),
            ("-ddl 5", "d= d= l=5", ""),
            ("-d -- -d", "d=", "-d"),
            ("-d -- a -- b", "d=", "a -- b"),
            ("stray -d - stray -l 5", "d= l=5", ""),
            ("-c 5 -d", "c=5 d=", ""),
            ("-c -d 5", "c= d=", ""),
            ("-cd 5", "c= d=", ""),
            ("-dc 5", "d= c=5", ""),
            ("-c x", "c=", ""),
            ("-k A,B -d", "k=A,B d=", ""),
            ("-k -d", "k= d=", ""),
            ("-kd A", "k= d=", ""),
            ("-k", "k=", ""),
            ("--dir a --dir=b --flag", "dir=a dir=b flag=", ""),
            ("--dir=a=b", "dir=a=b", ""),
            ("-o -o5 -do7 --old --old=x", "o= o=5 d= o=7 o= o=x", ""),
            ("--spin --spin=x", "spin= spin=x", ""),
        ] {
            let mut seen_options = Vec::new();
            let words = words(line);
            let rest = scan("p", &SECTION, &words, &mut seen_options).unwrap();
            assert_eq!(seen_options.join(" "), seen, "{line}");
            assert_eq!(rest.after_dashes.join(" "), after_dashes, "{line}");
        }
    }

    #[test]
    fn words_that_belong_to_no_option_are_returned() {
        for (line, stray, first) in [
            ("", "", None),
            ("-d -l 5", "", None),
            ("a -d b -l 5 - -c 5 c -- d", "a b - c", Some("a")),
            ("-cd 5", "5", Some("5")),
            ("-d -- -d e", "", Some("-d")),
        ] {
            let words = words(line);
            let rest = scan("p", &SECTION, &words, &mut Vec::new()).unwrap();
            assert_eq!(rest.stray.join(" "), stray, "{line}");
            assert_eq!(rest.first(), first, "{line}");
        }
    }

    #[test]
    fn errors_match_getopt_and_refusals_name_option_and_value() {
        for (line, text) in [
            ("-y", "p: invalid option -- 'y'\n"),
            ("-dy", "p: invalid option -- 'y'\n"),
            ("-é", "p: invalid option -- 'é'\n"),
            ("--foo", "p: invalid option -- '-'\n"),
            ("-l", "p: option requires an argument -- 'l'\n"),
            ("--dir", "p: option '--dir' requires an argument\n"),
            ("--flag=x", "p: option '--flag' doesn't allow an argument\n"),
            ("-x 5", "p: test option -x 5: never\n"),
        ] {
            match scan("p", &SECTION, &words(line), &mut Vec::new()) {
                Err(EarlyExit::SyntaxError(message) | EarlyExit::Refused(message)) => {
                    assert_eq!(message, text);
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    static LONG: Section<Vec<String>> = Section {
        title: "OPTIONS",
        heading: "",
        scope: "",
        options: &[
            stock_letter('t', Value("sec"), &[], "", |seen, v| note(seen, "t", v))
                .with_long("time"),
            linerate_long(
                "timestamps",
                OptionalAttached("form"),
                "",
                "",
                "",
                |seen, v| note(seen, "timestamps", v),
            ),
            linerate_long("tos", Value("n"), "", "", "", |_, _| refuse("never"))
                .with_variable("P_TOS"),
            linerate_long("zero", Nothing, "", "", "", |seen, v| note(seen, "zero", v)),
            linerate_long("zerocopy", Nothing, "", "", "", |seen, v| {
                note(seen, "zerocopy", v)
            }),
        ],
    };

    /// The messages are those of `ls` from GNU coreutils.
    #[test]
    fn long_names_may_be_abbreviated() {
        for (line, expected) in [
            ("--time 5 --time=6 -t7", "t=5 t=6 t=7"),
            ("--times --timesta=x", "timestamps= timestamps=x"),
            ("--zero --zeroc x", "zero= zerocopy="),
            ("--zero -- --zero", "zero="),
            (
                "--tim",
                "p: option '--tim' is ambiguous; possibilities: '--time' '--timestamps'\n",
            ),
            (
                "--ti=5",
                "p: option '--ti=5' is ambiguous; possibilities: '--time' '--timestamps'\n",
            ),
            (
                "--ze",
                "p: option '--ze' is ambiguous; possibilities: '--zero' '--zerocopy'\n",
            ),
            (
                "--zeroc=5",
                "p: option '--zerocopy' doesn't allow an argument\n",
            ),
            ("--foo=5", "p: unrecognized option '--foo=5'\n"),
            ("--to", "p: option '--tos' requires an argument\n"),
            ("--to 9", "p: --tos 9: never\n"),
            ("-y", "p: invalid option -- 'y'\n"),
        ] {
            let mut seen = Vec::new();
            match scan_long("p", &LONG, &words(line), &mut seen) {
                Ok(_) => assert_eq!(seen.join(" "), expected, "{line}"),
                Err(EarlyExit::SyntaxError(message) | EarlyExit::Refused(message)) => {
                    assert_eq!(message, expected);
                }
                Err(other) => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn values_of_secret_options_are_masked() {
        static SECRETS: Section<Vec<String>> = Section {
            title: "OPTIONS",
            heading: "",
            scope: "",
            options: &[
                stock_letter('Z', Value("text"), &[], "", |seen, v| note(seen, "Z", v))
                    .with_secret_value(),
                stock_letter('d', Nothing, &[], "", |seen, v| note(seen, "d", v)),
                stock_letter('H', Value("host"), &[], "", |seen, v| note(seen, "H", v)),
                stock_long("permit-key", OptionalAttached("key"), &[], "", |seen, v| {
                    note(seen, "permit-key", v)
                })
                .with_secret_value(),
                stock_long("pass", Value("text"), &[], "", |seen, v| {
                    note(seen, "pass", v)
                })
                .with_secret_value(),
            ],
        };
        use Grammar::{Getopt, GetoptLong};
        for (grammar, line, expected) in [
            (Getopt, "p -Z abc -H abc", "p -Z *** -H abc"),
            (Getopt, "-Zabc -dZabc -d", "-Z*** -dZ*** -d"),
            (Getopt, "-Z -d -d -- -Z abc", "-Z *** -d -- -Z abc"),
            (Getopt, "-H -Z abc", "-H -Z abc"),
            (Getopt, "--pass=abc --pass abc", "--pass=*** --pass ***"),
            (
                GetoptLong,
                "--permit-key=abc --permit-key abc",
                "--permit-key=*** --permit-key abc",
            ),
            (GetoptLong, "--perm=a=b --pa abc", "--perm=*** --pa ***"),
            (GetoptLong, "-dZ é x", "-dZ *** x"),
        ] {
            let masked = mask_secrets(grammar, &SECRETS, words(line).into_iter().map(Into::into));
            assert_eq!(masked.join(OsStr::new(" ")), expected, "{line}");
        }
    }

    #[test]
    fn variables_set_options() {
        let set = |section, variables: &[(&str, &str)]| {
            let mut seen = Vec::new();
            let value_of = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            apply_environment("p", section, value_of, &mut seen).map(|()| seen.join(" "))
        };
        for (variables, expected) in [
            (&[][..], ""),
            (
                &[("P_FLAG", "any"), ("P_DIR", "/a b"), ("P", "x")],
                "dir=/a b flag=",
            ),
        ] {
            assert_eq!(set(&SECTION, variables).unwrap(), expected);
        }
        let Err(EarlyExit::Refused(message)) = set(&LONG, &[("P_TOS", "9")]) else {
            panic!("the value was accepted");
        };
        assert_eq!(message, "p: P_TOS 9: never\n");
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }
}
