//! uperf's own reading of a profile: words between blanks, known by how they begin.
//!
//! It folds everything to lower case, takes a comment for one only where a word begins, and does not
//! look at how elements nest. The last byte, which uperf throws away, is read here: a file may end
//! without a line end.

use super::reading::{Element, Event, Key, Reading, Value, comment};
use super::text::Span;

/// Elements and attributes as uperf finds them. What ends its reading, of which it names the first, are
/// the problems.
pub(super) fn read(text: &str) -> Reading {
    let mut reading = Reading::default();
    let mut at = 0;
    while let Some(start) = token_start(text, at, &mut reading) {
        let token = Token::at(text, start);
        at = token.span.end;
        if !token.is_closed {
            reading.problem(start..start + 1, "the quotation of this word does not end");
            break;
        }
        if token.folded.len() > LONGEST {
            let text = "token too long.: a word has at most 1023 characters";
            reading.problem(token.span, text);
            break;
        }
        take(token, &mut reading);
    }
    reading
}

const LONGEST: usize = 1023;

/// Where the next word begins, beyond blanks and comments.
fn token_start(text: &str, mut at: usize, reading: &mut Reading) -> Option<usize> {
    loop {
        at += text[at..].bytes().position(|byte| !separates(byte))?;
        let rest = &text[at..];
        let Some((begin, end)) = comment(rest) else {
            return Some(at);
        };
        let Some(length) = rest[begin.len()..].find(end) else {
            let text = format!("this comment does not end: there is no {end}");
            reading.problem(at..at + begin.len(), text);
            return None;
        };
        at += begin.len() + length + end.len();
    }
}

fn separates(byte: u8) -> bool {
    (1..=32).contains(&byte)
}

/// A word.
#[derive(Debug)]
struct Token {
    /// In lower case, without quotation marks.
    folded: String,
    /// The same as it is written.
    written: String,
    span: Span,
    /// Where its first `=` stands in the text.
    equals: Option<usize>,
    /// Where its quotation mark stands in the text.
    quote: Option<usize>,
    is_closed: bool,
}

impl Token {
    /// The word from `start` on: to a blank, or to the end of a quotation. Blanks before its first `=`
    /// do not end it.
    fn at(text: &str, start: usize) -> Self {
        let (mut equals, mut quote, mut is_closed) = (None, None, true);
        let mut written = String::new();
        let mut end = text.len();
        let mut next = start;
        while let Some(c) = text[next..].chars().next() {
            let here = next;
            next += c.len_utf8();
            if quote.is_some() {
                match c {
                    '"' => {
                        end = next;
                        is_closed = true;
                        break;
                    }
                    '\r' | '\n' => written.push(' '),
                    _ => written.push(c),
                }
            } else if c == '"' {
                quote = Some(here);
                is_closed = false;
            } else if c.is_ascii() && separates(c as u8) {
                let blanks = text[here..].bytes().take_while(|byte| separates(*byte));
                let after = here + blanks.count();
                if equals.is_some() || !text[after..].starts_with('=') {
                    end = here;
                    break;
                }
                next = after;
            } else {
                if c == '=' && equals.is_none() {
                    equals = Some(here);
                }
                written.push(c);
            }
        }
        Self {
            folded: written.to_ascii_lowercase(),
            written,
            span: start..end,
            equals,
            quote,
            is_closed,
        }
    }
}

/// What the word is.
fn take(token: Token, reading: &mut Reading) {
    for (prefix, event) in tags(&token.span) {
        if let Some(rest) = token.folded.strip_prefix(prefix) {
            swallowed(prefix, rest, &token, reading);
            reading.events.extend(event);
            return;
        }
    }
    let word = token.folded.split_once('=');
    if let Some((name, _)) = word
        && let Some(key) = Key::ALL.into_iter().find(|key| key.name() == name)
    {
        attribute(key, token, reading);
    } else if token.folded != ">" {
        let text = format!("Unknown symbol: {}", token.folded);
        reading.problem(token.span, text);
    }
}

/// What words that are parts of tags begin with.
fn tags(span: &Span) -> [(&'static str, Option<Event>); 8] {
    let start = |element| Some(Event::Start(element, span.clone()));
    let end = |element| Some(Event::End(element));
    [
        ("<profile", start(Element::Profile)),
        ("</profile>", end(Element::Profile)),
        ("<group", start(Element::Group)),
        ("</group>", end(Element::Group)),
        ("<transaction", start(Element::Transaction)),
        ("</transaction", end(Element::Transaction)),
        ("<flowop", start(Element::Flowop)),
        ("/>", None),
    ]
}

/// What follows the beginning of a word without a blank is lost. Ends of elements make no difference.
fn swallowed(prefix: &str, rest: &str, token: &Token, reading: &mut Reading) {
    let mut left = rest;
    while let Some(shorter) = ["/>", ">", "</profile>", "</group>", "</transaction>"]
        .iter()
        .find_map(|harmless| left.strip_prefix(harmless))
    {
        left = shorter;
    }
    if left.is_empty() {
        return;
    }
    reading.overlooks |= left.contains('<');
    reading.doubt(
        token.span.clone(),
        format!("there is no blank between {prefix} and {left}, which is overlooked"),
        prefix,
    );
}

fn attribute(key: Key, token: Token, reading: &mut Reading) {
    let name = key.name();
    let equals = token.equals.unwrap_or(token.span.start);
    let text = &token.folded[name.len() + 1..];
    if token.quote.is_none() {
        if text.is_empty() {
            // Here uperf writes beyond the end of its memory.
            reading.problem(token.span, format!("{name}= has no value"));
            return;
        }
        let text = format!("{name}={text} is not in quotes");
        let assumed = format!("{name}=\"{}\"", &token.folded[name.len() + 1..]);
        reading.doubt(token.span.clone(), text, assumed);
    }
    let start = match token.quote {
        Some(quote) if quote == equals + 1 => quote + 1,
        _ => equals + 1,
    };
    let value = Value {
        text: text.to_owned(),
        written: token.written[name.len() + 1..].to_owned(),
        span: token.span,
        start,
    };
    reading.events.push(Event::Attribute(key, value));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events as short words, and problems.
    fn words(text: &str) -> Vec<String> {
        let reading = read(text);
        let events = reading.events.iter().map(|event| match event {
            Event::Start(element, _) => format!("<{}", element.name()),
            Event::End(element) => format!("</{}", element.name()),
            Event::Attribute(key, value) => {
                let place = value.part(0..value.text.len());
                let there = text[place].replace(['\n', '\r'], " ");
                let in_middle = there.contains('"');
                assert!(in_middle || there == value.written, "{text}: {there}");
                format!("{}={}", key.name(), value.text)
            }
        });
        let problems = reading.problems.iter().map(|(_, text)| text.clone());
        events.chain(problems).collect()
    }

    #[test]
    fn words_are_known_by_how_they_begin() {
        for (text, expected) in [
            ("", &[][..]),
            (" \n\t\u{1}", &[]),
            ("<profile>", &["<profile"]),
            ("<PROFILE NAME=\"A b\">", &["<profile", "name=a b"]),
            ("name=\"a\nb\r\"", &["name=a b "]),
            ("name=a b", &["name=a", "Unknown symbol: b"]),
            ("name=a\"b c\"rate=\"1\"", &["name=ab c", "rate=1"]),
            ("name='a b'", &["name='a", "Unknown symbol: b'"]),
            ("<?xml version=1.0?>\n<group>", &["<group"]),
            ("<!-- <group> --> <flowop", &["<flowop"]),
            (
                "/><!-- x -->",
                &["Unknown symbol: x", "Unknown symbol: -->"],
            ),
            (
                "<group nthreads=\"1\"><transaction>",
                &["<group", "nthreads=1", "Unknown symbol: ><transaction>"],
            ),
            ("</group></profile>", &["</group"]),
            ("</transaction>", &["</transaction"]),
            (
                "<flowop type=\"nop\"></flowop>",
                &["<flowop", "type=nop", "Unknown symbol: ></flowop>"],
            ),
            ("</flowop>", &["Unknown symbol: </flowop>"]),
            ("> />", &[]),
            ("iterations=1>", &["iterations=1>"]),
            ("iterations=1 >", &["iterations=1"]),
            ("type =\"nop\"", &["type=nop"]),
            (
                "type = \"nop\"",
                &["type= has no value", "Unknown symbol: nop"],
            ),
            (
                "type= \"nop\"",
                &["type= has no value", "Unknown symbol: nop"],
            ),
            ("options=\"\"", &["options="]),
            ("name=\"a", &["the quotation of this word does not end"]),
            ("<!-- x --", &["this comment does not end: there is no -->"]),
            ("\u{feff}<group", &["Unknown symbol: \u{feff}<group"]),
            ("iteration=\"1\"", &["Unknown symbol: iteration=1"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn the_longest_word_has_1023_characters() {
        let name = |length: usize| format!("name=\"{}\"", "x".repeat(length - 5));
        assert_eq!(words(&name(1023)).len(), 1);
        let long = words(&(name(1024) + " name=\"y\""));
        assert_eq!(
            long,
            ["token too long.: a word has at most 1023 characters"]
        );
    }

    #[test]
    fn what_is_overlooked_is_noticed() {
        for (text, overlooks, doubts) in [
            ("<transaction><flowop type=\"nop\"/>", true, 1),
            ("/><flowop", true, 1),
            ("/></transaction></group>", false, 0),
            ("</group></profile>", false, 0),
            ("<profile>", false, 0),
            ("<groups>", false, 1),
            ("</transactionx", false, 1),
        ] {
            let reading = read(text);
            assert_eq!(reading.overlooks, overlooks, "{text}");
            assert_eq!(reading.doubts.len(), doubts, "{text}");
        }
    }
}
