//! The grammar of GNU getopt(3), driven by a table.
//!
//! A dialect has one table a command, of which its usage text and its manual page are made, too.
//!
//! lexopt would do for most of it, but reads `-l=5` as `5` where getopt reads `=5`, takes `--foo` for
//! a long option where the stock tool complains about `-`, and has no word for an option that takes
//! the next word only when it looks right (`-c`, `-k`). What is left is short enough to write out.

#![forbid(unsafe_code)]

pub mod manual;

/// One row of a command's table: what the option takes, what is said of it, what it does to the
/// low-level arguments `L`. `E` is how the program ends where a tool has its own way to
/// ([`Stop::Exit`]).
pub struct Flag<L, E> {
    /// How it is spelt.
    pub name: Name,
    /// What it takes.
    pub argument: Argument,
    /// The lines of the usage text, without their indent; none for what the stock tool does not
    /// document. A letter documented twice has two rows, and the first of them is in force.
    pub help: &'static [&'static str],
    /// What it does.
    pub apply: Apply<L, E>,
}

/// Takes the value, or "" where the option has none.
pub type Apply<L, E> = fn(&mut L, &str) -> Result<(), Stop<E>>;

/// How an option is spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A dash and this.
    Letter(char),
    /// Without its dashes.
    Long(&'static str),
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// It is a switch.
    Nothing,
    /// The rest of the word, or else the next word, whatever it looks like.
    Value,
    /// The next word, if it starts with a digit.
    MaybeRate,
    /// The next word, if it does not start with a dash.
    MaybeSelection,
    /// Of a long option: what stands behind its `=`, if anything does.
    MaybeAttached,
}

/// A table, and what its options are called in messages.
pub struct Section<L: 'static, E: 'static> {
    /// The options. Of two with one name the first is in force.
    pub flags: &'static [Flag<L, E>],
    /// What stands before the dash of an option in a message, as its letter may mean two things.
    pub scope: &'static str,
}

/// Why parsing ended early.
#[derive(Debug)]
pub enum Stop<E> {
    /// The usage text is asked for.
    Help,
    /// The version is asked for.
    Version,
    /// getopt's own complaint, a whole line.
    Complaint(String),
    /// A value or a combination that makes no sense; a whole line once it has left [`scan`].
    Refused(String),
    /// What the stock tool says and does, to the letter.
    Exit(E),
}

/// What is left when all options are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest<'w> {
    /// Words between the options that belong to none.
    pub stray: Vec<&'w str>,
    /// What stands behind the first `--`.
    pub behind: &'w [String],
}

/// A refusal, to which [`scan`] adds the program, the option and its value.
pub fn refuse<T, E>(why: impl Into<String>) -> Result<T, Stop<E>> {
    Err(Stop::Refused(why.into()))
}

/// A row for an option of one letter.
pub const fn flag<L, E>(
    letter: char,
    argument: Argument,
    help: &'static [&'static str],
    apply: Apply<L, E>,
) -> Flag<L, E> {
    Flag {
        name: Name::Letter(letter),
        argument,
        help,
        apply,
    }
}

/// A row for an option of our own, which has a name.
pub const fn long<L, E>(
    name: &'static str,
    argument: Argument,
    help: &'static [&'static str],
    apply: Apply<L, E>,
) -> Flag<L, E> {
    Flag {
        name: Name::Long(name),
        argument,
        help,
        apply,
    }
}

/// Applies the options in `words` to `low`, passing over stray words, up to and with the first `--`.
pub fn scan<'w, L, E>(
    program: &str,
    section: &Section<L, E>,
    words: &'w [String],
    low: &mut L,
) -> Result<Rest<'w>, Stop<E>> {
    let mut stray = Vec::new();
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        rest = tail;
        if word == "--" {
            break;
        }
        if let Some((flag, attached)) = find_long(section, word) {
            let value = match (flag.argument, attached) {
                (Argument::Nothing | Argument::MaybeAttached, None) => "",
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
            let Some(flag) = find(section, Name::Letter(letter)) else {
                return complain(program, &format!("invalid option -- '{letter}'"));
            };
            let value = match flag.argument {
                Argument::Nothing | Argument::MaybeAttached => "",
                Argument::Value if !cluster.is_empty() => std::mem::take(&mut cluster),
                Argument::Value => {
                    let Some(value) = next(&mut rest) else {
                        let what = format!("option requires an argument -- '{letter}'");
                        return complain(program, &what);
                    };
                    value
                }
                // While letters follow in this word, the stock tool looks at this word instead of
                // the next one, and finds its dash.
                Argument::MaybeRate | Argument::MaybeSelection if !cluster.is_empty() => "",
                Argument::MaybeRate => next_if(&mut rest, |word| {
                    word.starts_with(|c: char| c.is_ascii_digit())
                }),
                Argument::MaybeSelection => next_if(&mut rest, |word| !word.starts_with('-')),
            };
            apply(program, section, flag, value, low)?;
        }
    }
    Ok(Rest {
        stray,
        behind: rest,
    })
}

fn find<L, E>(section: &Section<L, E>, name: Name) -> Option<&'static Flag<L, E>> {
    section.flags.iter().find(|flag| flag.name == name)
}

/// The long option that `word` is, and the value after its `=`.
fn find_long<'w, L, E>(
    section: &Section<L, E>,
    word: &'w str,
) -> Option<(&'static Flag<L, E>, Option<&'w str>)> {
    let word = word.strip_prefix("--")?;
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let flag = section
        .flags
        .iter()
        .find(|flag| matches!(flag.name, Name::Long(known) if known == name))?;
    Some((flag, value))
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

fn apply<L, E>(
    program: &str,
    section: &Section<L, E>,
    flag: &Flag<L, E>,
    value: &str,
    low: &mut L,
) -> Result<(), Stop<E>> {
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

fn complain<T, E>(program: &str, what: &str) -> Result<T, Stop<E>> {
    Err(Stop::Complaint(format!("{program}: {what}\n")))
}

impl Name {
    /// Whether it is more than a letter.
    pub fn is_long(self) -> bool {
        matches!(self, Self::Long(_))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Letter(letter) => write!(f, "-{letter}"),
            Self::Long(name) => write!(f, "--{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::Argument::{MaybeRate, MaybeSelection, Nothing, Value};
    use super::*;

    type Stop = super::Stop<Infallible>;

    static SECTION: Section<Vec<String>, Infallible> = Section {
        flags: &[
            flag('d', Nothing, &[], |seen, v| note(seen, "d", v)),
            flag('l', Value, &[], |seen, v| note(seen, "l", v)),
            flag('c', MaybeRate, &[], |seen, v| note(seen, "c", v)),
            flag('k', MaybeSelection, &[], |seen, v| note(seen, "k", v)),
            flag('x', Value, &[], |_, _| refuse("never")),
            long("dir", Value, &[], |seen, v| note(seen, "dir", v)),
            long("flag", Nothing, &[], |seen, v| note(seen, "flag", v)),
        ],
        scope: "test option ",
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
