//! The options of a command: one table that the parser, the usage text and the manual page are made of.
//!
//! The grammar is that of GNU getopt(3). lexopt reads `-l=5` as `5` where getopt reads `=5`, takes
//! `--foo` for a long option where the stock tools complain about `-`, and has no option that takes the
//! next word only if it looks right (`-c`, `-k`).

#![forbid(unsafe_code)]

mod exit;
pub mod manual;
pub mod usage;

pub use exit::{Endings, Exit, Stop, refuse, utf8, within};

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
    /// Stores the value.
    pub apply: Apply<L>,
}

/// Takes the value, or "" if the option has none.
pub type Apply<L> = fn(&mut L, &str) -> Result<(), Stop>;

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
}

/// Applies the options in `words` to `low`, passing over stray words, up to and with the first `--`.
pub fn scan<'w, L>(
    program: &str,
    section: &Section<L>,
    words: &'w [String],
    low: &mut L,
) -> Result<Rest<'w>, Stop> {
    let mut stray = Vec::new();
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        rest = tail;
        if word == "--" {
            break;
        }
        if let Some((flag, attached)) = find_long(section, word) {
            let value = match (flag.argument, attached) {
                (Argument::Nothing | Argument::MaybeAttached(_), None) => "",
                (Argument::Nothing, Some(_)) => {
                    let name = word.split('=').next().unwrap_or_default();
                    return complain(
                        program,
                        &format!("option '{name}' doesn't allow an argument"),
                    );
                }
                (_, Some(value)) => value,
                (_, None) => match next(&mut rest) {
                    Some(value) => value,
                    None => {
                        return complain(program, &format!("option '{word}' requires an argument"));
                    }
                },
            };
            apply(program, section, flag, value, low)?;
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
            apply(program, section, flag, value, low)?;
        }
    }
    Ok(Rest {
        stray,
        behind: rest,
    })
}

/// The long option that `word` is, and the value after its `=`.
fn find_long<'w, L>(
    section: &Section<L>,
    word: &'w str,
) -> Option<(&'static Flag<L>, Option<&'w str>)> {
    let word = word.strip_prefix("--")?;
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let is_it = |flag: &&Flag<L>| flag.name.long() == Some(name);
    Some((section.flags.iter().find(is_it)?, value))
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

fn apply<L>(
    program: &str,
    section: &Section<L>,
    flag: &Flag<L>,
    value: &str,
    low: &mut L,
) -> Result<(), Stop> {
    (flag.apply)(low, value).map_err(|stop| match stop {
        Stop::Refused(why) => {
            let scope = section.scope;
            let gap = if value.is_empty() { "" } else { " " };
            Stop::Refused(format!(
                "{program}: {scope}{}{gap}{value}: {why}\n",
                flag.name
            ))
        }
        other => other,
    })
}

fn complain<T>(program: &str, what: &str) -> Result<T, Stop> {
    Err(Stop::Complaint(format!("{program}: {what}\n")))
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

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
            long("dir", Value("dir"), "Look here", "/tmp", "Default {default}, always.", |seen, v| note(seen, "dir", v)),
            long("flag", Nothing, "Set it", "", "Sets it.", |seen, v| note(seen, "flag", v)),
            long("spin", MaybeAttached("end"), "Spin", "1", "Spins.", |seen, v| note(seen, "spin", v)),
        ],
    };

    #[expect(clippy::unnecessary_wraps, reason = "it stands in for an Apply")]
    fn note(seen: &mut Vec<String>, name: &str, value: &str) -> Result<(), Stop> {
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
        for (line, stray) in [
            ("", ""),
            ("-d -l 5", ""),
            ("a -d b -l 5 - -c 5 c -- d", "a b - c"),
            ("-cd 5", "5"),
        ] {
            let words = words(line);
            let rest = scan("p", &SECTION, &words, &mut Vec::new()).unwrap();
            assert_eq!(rest.stray.join(" "), stray, "{line}");
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
                Err(Stop::Complaint(said) | Stop::Refused(said)) => assert_eq!(said, text),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }
}
