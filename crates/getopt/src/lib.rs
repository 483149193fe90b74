//! The options of a command: one table that the parser, the usage text and the manual page are made of.
//!
//! The grammar is that of GNU getopt(3), or of its `getopt_long`. lexopt reads `-l=5` as `5` where getopt
//! reads `=5`, takes `--foo` for a long option where the stock tools complain about `-`, and has no option
//! that takes the next word only if it looks right (`-c`, `-k`).

#![forbid(unsafe_code)]

mod exit;
pub mod manual;
pub mod usage;

use std::fmt::{self, Display};

pub use exit::{Endings, Exit, Quit, refuse, utf8, within};

/// One option of a command, whose settings are an `L`.
pub struct Flag<L> {
    /// How it is spelt.
    pub name: Name,
    /// What it takes.
    pub argument: Argument,
    /// What the usage text says of it.
    pub usage: Usage,
    /// Its paragraph of the manual page, in which `{default}` stands for the default of an own option;
    /// empty in a build without the feature `manual`.
    pub paragraph: &'static str,
    /// The environment variable that sets the option as well; empty if there is none.
    pub variable: &'static str,
    /// Stores the value.
    pub apply: Apply<L>,
}

/// Takes the value, or "" if the option has none.
pub type Apply<L> = fn(&mut L, &str) -> Result<(), Quit>;

/// How an option is spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A dash and this.
    Letter(char),
    /// Two dashes and this.
    Long(&'static str),
    /// Either.
    Both(char, &'static str),
}

/// What an option takes, with the argument's name in the manual page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// No argument.
    Nothing,
    /// The rest of the word, or else the next word, whatever it looks like.
    Value(&'static str),
    /// The next word, if it starts with a digit.
    MaybeRate(&'static str),
    /// The next word, if it does not start with a dash.
    MaybeSelection(&'static str),
    /// The rest of the word, if there is one: behind a letter, or behind the `=` of a long option.
    MaybeAttached(&'static str),
}

/// What the usage text says of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// The stock tool's lines without their indent; none if it does not document the option.
    Stock(&'static [&'static str]),
    /// One line of ours, which [`usage::own`] lays out.
    Own {
        /// What the option does.
        what: &'static str,
        /// The default, if it is worth a mention; else empty.
        default: &'static str,
    },
}

/// The options of a command, or of a part of it.
pub struct Section<L: 'static> {
    /// The heading of its chapter in the manual page.
    pub title: &'static str,
    /// The heading of its lines in the usage text.
    pub heading: &'static str,
    /// What stands before an option in a message, if its letter may mean two things.
    pub scope: &'static str,
    /// The options, in the order of the usage text.
    pub flags: &'static [Flag<L>],
}

/// What is left when all options are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest<'w> {
    /// Words between the options that belong to none.
    pub stray: Vec<&'w str>,
    /// What stands behind the first `--`.
    pub behind: &'w [String],
}

impl<'w> Rest<'w> {
    /// The first word that belongs to no option.
    pub fn first(&self) -> Option<&'w str> {
        let stray = self.stray.first().copied();
        stray.or(self.behind.first().map(String::as_str))
    }
}

/// Returns the row of one of the stock tool's letters.
pub const fn flag<L>(
    letter: char,
    argument: Argument,
    lines: &'static [&'static str],
    paragraph: &'static str,
    apply: Apply<L>,
) -> Flag<L> {
    let usage = Usage::Stock(lines);
    row(Name::Letter(letter), argument, usage, paragraph, apply)
}

/// Returns the row of one of the stock tool's options that has a long name only.
pub const fn stock_long<L>(
    name: &'static str,
    argument: Argument,
    lines: &'static [&'static str],
    paragraph: &'static str,
    apply: Apply<L>,
) -> Flag<L> {
    row(
        Name::Long(name),
        argument,
        Usage::Stock(lines),
        paragraph,
        apply,
    )
}

/// Returns the row of an option of our own.
pub const fn own<L>(
    name: Name,
    argument: Argument,
    what: &'static str,
    default: &'static str,
    paragraph: &'static str,
    apply: Apply<L>,
) -> Flag<L> {
    row(
        name,
        argument,
        Usage::Own { what, default },
        paragraph,
        apply,
    )
}

/// Returns the row of an option of our own that has a long name.
pub const fn long<L>(
    name: &'static str,
    argument: Argument,
    what: &'static str,
    default: &'static str,
    paragraph: &'static str,
    apply: Apply<L>,
) -> Flag<L> {
    own(Name::Long(name), argument, what, default, paragraph, apply)
}

/// Drops the paragraph at compile time from a program that makes no manual pages.
const fn row<L>(
    name: Name,
    argument: Argument,
    usage: Usage,
    paragraph: &'static str,
    apply: Apply<L>,
) -> Flag<L> {
    Flag {
        name,
        argument,
        usage,
        paragraph: if cfg!(feature = "manual") {
            paragraph
        } else {
            ""
        },
        variable: "",
        apply,
    }
}

impl<L> Flag<L> {
    /// Adds a long name to a letter.
    #[must_use]
    pub const fn or(mut self, long: &'static str) -> Self {
        if let Name::Letter(letter) = self.name {
            self.name = Name::Both(letter, long);
        }
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub const fn from_environment(mut self, variable: &'static str) -> Self {
        self.variable = variable;
        self
    }
}

/// How words that begin with two dashes are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grammar {
    /// As letters, as getopt does, unless a word is one of the section's long names.
    Getopt,
    /// As long options, or prefixes of one.
    GetoptLong,
}

/// Applies the options in `words` to `low` as getopt(3) reads them, passing over stray words, up to and
/// with the first `--`. Long names must be complete.
pub fn scan<'w, L>(
    program: &str,
    section: &Section<L>,
    words: &'w [String],
    low: &mut L,
) -> Result<Rest<'w>, Quit> {
    read(Grammar::Getopt, program, section, words, low)
}

/// The same as getopt_long(3) reads them: a long name may be cut as long as it stays unambiguous.
pub fn scan_long<'w, L>(
    program: &str,
    section: &Section<L>,
    words: &'w [String],
    low: &mut L,
) -> Result<Rest<'w>, Quit> {
    read(Grammar::GetoptLong, program, section, words, low)
}

/// Applies the options whose environment variables `value_of` has, in the order of the section. Any value
/// sets an option that takes no argument.
pub fn environment<L>(
    program: &str,
    section: &Section<L>,
    value_of: impl Fn(&str) -> Option<String>,
    low: &mut L,
) -> Result<(), Quit> {
    let named = section
        .flags
        .iter()
        .filter(|flag| !flag.variable.is_empty());
    for flag in named {
        let Some(value) = value_of(flag.variable) else {
            continue;
        };
        let takes_it = flag.argument != Argument::Nothing;
        let value = if takes_it { &value } else { "" };
        apply(program, section.scope, flag.variable, (flag, value), low)?;
    }
    Ok(())
}

fn read<'w, L>(
    grammar: Grammar,
    program: &str,
    section: &Section<L>,
    words: &'w [String],
    low: &mut L,
) -> Result<Rest<'w>, Quit> {
    let mut stray = Vec::new();
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        rest = tail;
        if word == "--" {
            break;
        }
        if let Some(long) = find_long(grammar, section, word) {
            let found = long.and_then(|found| value_of_long(found, &mut rest));
            let found = found.or_else(|what| complain(program, &what))?;
            apply(program, section.scope, found.0.name, found, low)?;
            continue;
        }
        // A lone dash is a stray word, as is anything that does not begin with one.
        let mut cluster = word.strip_prefix('-').unwrap_or_default();
        if cluster.is_empty() {
            stray.push(word.as_str());
        }
        while let Some(letter) = cluster.chars().next() {
            cluster = &cluster[letter.len_utf8()..];
            let is_it = |flag: &&Flag<L>| flag.name.letter() == Some(letter);
            let Some(flag) = section.flags.iter().find(is_it) else {
                return complain(program, &format!("invalid option -- '{letter}'"));
            };
            let value = match flag.argument {
                Argument::Nothing => "",
                Argument::MaybeAttached(_) => std::mem::take(&mut cluster),
                Argument::Value(_) if !cluster.is_empty() => std::mem::take(&mut cluster),
                Argument::Value(_) => {
                    let Some(value) = next(&mut rest) else {
                        let what = format!("option requires an argument -- '{letter}'");
                        return complain(program, &what);
                    };
                    value
                }
                // While letters follow in this word, the stock tool looks at this word instead of
                // the next one, and finds its dash.
                Argument::MaybeRate(_) | Argument::MaybeSelection(_) if !cluster.is_empty() => "",
                Argument::MaybeRate(_) => next_if(&mut rest, |word| {
                    word.starts_with(|c: char| c.is_ascii_digit())
                }),
                Argument::MaybeSelection(_) => next_if(&mut rest, |word| !word.starts_with('-')),
            };
            apply(program, section.scope, flag.name, (flag, value), low)?;
        }
    }
    Ok(Rest {
        stray,
        behind: rest,
    })
}

/// A long option, its whole name, and the value after its `=`.
type Long<'w, L> = (&'static Flag<L>, &'static str, Option<&'w str>);

/// The long option that `word` is or begins, or getopt's complaint; `None` if it is not read as one.
fn find_long<'w, L>(
    grammar: Grammar,
    section: &Section<L>,
    word: &'w str,
) -> Option<Result<Long<'w, L>, String>> {
    let typed = word.strip_prefix("--")?;
    let (name, value) = match typed.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (typed, None),
    };
    let named = section
        .flags
        .iter()
        .filter_map(|flag| Some((flag, flag.name.long()?)));
    if let Some((flag, long)) = named.clone().find(|(_, long)| *long == name) {
        return Some(Ok((flag, long, value)));
    }
    if grammar == Grammar::Getopt {
        return None;
    }
    let begun: Vec<_> = named.filter(|(_, long)| long.starts_with(name)).collect();
    Some(match begun[..] {
        [] => Err(format!("unrecognized option '{word}'")),
        [(flag, long)] => Ok((flag, long, value)),
        _ => {
            let possible = begun.iter().map(|(_, long)| format!(" '--{long}'"));
            let possible: String = possible.collect();
            Err(format!(
                "option '{word}' is ambiguous; possibilities:{possible}"
            ))
        }
    })
}

/// The option with its value, which may be the next word, or getopt's complaint.
fn value_of_long<'w, L>(
    (flag, name, attached): Long<'w, L>,
    rest: &mut &'w [String],
) -> Result<(&'static Flag<L>, &'w str), String> {
    let value = match (flag.argument, attached) {
        (Argument::Nothing | Argument::MaybeAttached(_), None) => "",
        (Argument::Nothing, Some(_)) => {
            return Err(format!("option '--{name}' doesn't allow an argument"));
        }
        (_, Some(value)) => value,
        (_, None) => next(rest).ok_or_else(|| format!("option '--{name}' requires an argument"))?,
    };
    Ok((flag, value))
}

fn next<'w>(rest: &mut &'w [String]) -> Option<&'w str> {
    let (word, tail) = rest.split_first()?;
    *rest = tail;
    Some(word)
}

fn next_if<'w>(rest: &mut &'w [String], wanted: impl Fn(&str) -> bool) -> &'w str {
    match rest.split_first() {
        Some((word, tail)) if wanted(word) => {
            *rest = tail;
            word
        }
        _ => "",
    }
}

/// Stores a value; a refusal says where it was `given`: an option or a variable.
fn apply<L>(
    program: &str,
    scope: &str,
    given: impl Display,
    (flag, value): (&Flag<L>, &str),
    low: &mut L,
) -> Result<(), Quit> {
    (flag.apply)(low, value).map_err(|quit| match quit {
        Quit::Refused(why) => {
            let gap = if value.is_empty() { "" } else { " " };
            Quit::Refused(format!("{program}: {scope}{given}{gap}{value}: {why}\n"))
        }
        other => other,
    })
}

fn complain<T>(program: &str, what: &str) -> Result<T, Quit> {
    Err(Quit::Complaint(format!("{program}: {what}\n")))
}

impl Name {
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

impl Display for Name {
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
    use super::Argument::{MaybeAttached, MaybeRate, MaybeSelection, Nothing, Value};
    use super::*;

    #[rustfmt::skip]
    pub(super) static SECTION: Section<Vec<String>> = Section {
        title: "OPTIONS", heading: "", scope: "test option ", flags: &[
            flag('d', Nothing, &[], "A switch.", |seen, v| note(seen, "d", v)),
            flag('l', Value("n"), &["-l N  Length", "      of it"], "Default 3.", |seen, v| note(seen, "l", v)),
            flag('c', MaybeRate("rate"), &[], "A rate.", |seen, v| note(seen, "c", v)),
            flag('k', MaybeSelection("file"), &[], "A file.", |seen, v| note(seen, "k", v)),
            flag('x', Value("n"), &[], "", |_, _| refuse("never")),
            flag('o', MaybeAttached("n"), &[], "", |seen, v| note(seen, "o", v)).or("old"),
            long("dir", Value("dir"), "Look here", "/tmp", "Default {default}, always.", |seen, v| note(seen, "dir", v)).from_environment("P_DIR"),
            long("flag", Nothing, "Set it", "", "Sets it.", |seen, v| note(seen, "flag", v)).from_environment("P_FLAG"),
            long("spin", MaybeAttached("end"), "Spin", "1", "Spins.", |seen, v| note(seen, "spin", v)),
        ],
    };

    #[expect(clippy::unnecessary_wraps, reason = "it stands in for an Apply")]
    fn note(seen: &mut Vec<String>, name: &str, value: &str) -> Result<(), Quit> {
        seen.push(format!("{name}={value}"));
        Ok(())
    }

    #[test]
    fn words_are_taken_as_getopt_takes_them() {
        for (line, seen, left) in [
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
            let mut low = Vec::new();
            let words = words(line);
            let rest = scan("p", &SECTION, &words, &mut low).unwrap();
            assert_eq!(low.join(" "), seen, "{line}");
            assert_eq!(rest.behind.join(" "), left, "{line}");
        }
    }

    #[test]
    fn words_that_belong_to_no_option_are_told() {
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
    fn complaints_are_getopts_and_refusals_name_option_and_value() {
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
                Err(Quit::Complaint(said) | Quit::Refused(said)) => assert_eq!(said, text),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    static LONG: Section<Vec<String>> = Section {
        title: "OPTIONS",
        heading: "",
        scope: "",
        flags: &[
            flag('t', Value("sec"), &[], "", |seen, v| note(seen, "t", v)).or("time"),
            long(
                "timestamps",
                MaybeAttached("form"),
                "",
                "",
                "",
                |seen, v| note(seen, "timestamps", v),
            ),
            long("tos", Value("n"), "", "", "", |_, _| refuse("never")).from_environment("P_TOS"),
            long("zero", Nothing, "", "", "", |seen, v| note(seen, "zero", v)),
            long("zerocopy", Nothing, "", "", "", |seen, v| {
                note(seen, "zerocopy", v)
            }),
        ],
    };

    /// As `ls` of GNU coreutils reads and complains about its own.
    #[test]
    fn long_names_may_be_cut() {
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
            let mut low = Vec::new();
            match scan_long("p", &LONG, &words(line), &mut low) {
                Ok(_) => assert_eq!(low.join(" "), expected, "{line}"),
                Err(Quit::Complaint(said) | Quit::Refused(said)) => assert_eq!(said, expected),
                Err(other) => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn variables_set_options() {
        let set = |section, variables: &[(&str, &str)]| {
            let mut low = Vec::new();
            let value_of = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            environment("p", section, value_of, &mut low).map(|()| low.join(" "))
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
        let Err(Quit::Refused(said)) = set(&LONG, &[("P_TOS", "9")]) else {
            panic!("it is taken");
        };
        assert_eq!(said, "p: P_TOS 9: never\n");
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }
}
