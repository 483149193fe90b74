//! Reader that parses a profile as stock uperf does.
//!
//! uperf splits the text into words at blanks and recognizes each word by its prefix. It folds
//! everything to lower case, recognizes a comment only at the start of a word, and ignores how
//! elements nest. Unlike uperf, this reader does not drop the last byte, because a file may lack
//! the final line end.

use super::reading::{AttributeName, AttributeValue, Element, MarkupEvent, Reading, comment_marks};
use super::text::Span;

/// Reads elements and attributes as uperf does.
///
/// The reading's errors are those at which uperf stops; uperf itself prints only the first.
pub(super) fn read(text: &str) -> Reading {
    let mut reading = Reading::default();
    let mut at = 0;
    while let Some(start) = token_start(text, at, &mut reading) {
        let token = Token::parse(text, start);
        at = token.span.end;
        if !token.is_closed {
            reading.add_error(start..start + 1, "this word has no closing quotation mark");
            break;
        }
        if token.folded.len() > MAX_TOKEN_BYTES {
            let text = "token too long.: a word has at most 1023 characters";
            reading.add_error(token.span, text);
            break;
        }
        read_token(token, &mut reading);
    }
    reading
}

const MAX_TOKEN_BYTES: usize = 1023;

/// Returns the offset of the next word after blanks and comments.
fn token_start(text: &str, mut at: usize, reading: &mut Reading) -> Option<usize> {
    loop {
        at += text[at..].bytes().position(|byte| !is_separator(byte))?;
        let rest = &text[at..];
        let Some((begin, end)) = comment_marks(rest) else {
            return Some(at);
        };
        let Some(length) = rest[begin.len()..].find(end) else {
            let text = format!("this comment has no end: missing {end}");
            reading.add_error(at..at + begin.len(), text);
            return None;
        };
        at += begin.len() + length + end.len();
    }
}

fn is_separator(byte: u8) -> bool {
    (1..=32).contains(&byte)
}

/// Word of the text, without quotation marks.
#[derive(Debug)]
struct Token {
    /// In lower case.
    folded: String,
    /// As written.
    written: String,
    span: Span,
    /// Offset of its first `=` in the profile.
    equals_offset: Option<usize>,
    /// Offset of its opening quotation mark in the profile.
    quote_offset: Option<usize>,
    is_closed: bool,
}

impl Token {
    /// Parses the word at `start`, which ends at a blank or a closing quotation mark.
    ///
    /// Blanks before its first `=` do not end it.
    fn parse(text: &str, start: usize) -> Self {
        let (mut equals, mut quote, mut is_closed) = (None, None, true);
        let mut written = String::new();
        let mut end = text.len();
        let mut next = start;
        while let Some(c) = text[next..].chars().next() {
            let position = next;
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
                quote = Some(position);
                is_closed = false;
            } else if c.is_ascii() && is_separator(c as u8) {
                let blanks = text[position..]
                    .bytes()
                    .take_while(|byte| is_separator(*byte));
                let after_blanks = position + blanks.count();
                if equals.is_some() || !text[after_blanks..].starts_with('=') {
                    end = position;
                    break;
                }
                next = after_blanks;
            } else {
                if c == '=' && equals.is_none() {
                    equals = Some(position);
                }
                written.push(c);
            }
        }
        Self {
            folded: written.to_ascii_lowercase(),
            written,
            span: start..end,
            equals_offset: equals,
            quote_offset: quote,
            is_closed,
        }
    }
}

/// Adds the event that the word stands for, or an error.
fn read_token(token: Token, reading: &mut Reading) {
    for (prefix, event) in tag_prefixes(&token.span) {
        if let Some(rest) = token.folded.strip_prefix(prefix) {
            warn_of_ignored_text(prefix, rest, &token, reading);
            reading.events.extend(event);
            return;
        }
    }
    let attribute = token.folded.split_once('=');
    if let Some((name, _)) = attribute
        && let Some(key) = AttributeName::ALL
            .into_iter()
            .find(|key| key.name() == name)
    {
        push_attribute(key, token, reading);
    } else if token.folded != ">" {
        let text = format!("Unknown symbol: {}", token.folded);
        reading.add_error(token.span, text);
    }
}

/// Returns the prefixes that identify tags, with their events.
fn tag_prefixes(span: &Span) -> [(&'static str, Option<MarkupEvent>); 8] {
    let start = |element| Some(MarkupEvent::Start(element, span.clone()));
    let end = |element| Some(MarkupEvent::End(element));
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

/// Warns of text after a tag's prefix, which uperf ignores. Ignored end tags make no difference.
fn warn_of_ignored_text(prefix: &str, rest: &str, token: &Token, reading: &mut Reading) {
    let mut unread = rest;
    while let Some(shorter) = ["/>", ">", "</profile>", "</group>", "</transaction>"]
        .iter()
        .find_map(|ignorable| unread.strip_prefix(ignorable))
    {
        unread = shorter;
    }
    if unread.is_empty() {
        return;
    }
    reading.misses_element |= unread.contains('<');
    reading.add_warning(
        token.span.clone(),
        format!("uperf ignores {unread}, because no blank follows {prefix}"),
        prefix,
    );
}

fn push_attribute(key: AttributeName, token: Token, reading: &mut Reading) {
    let name = key.name();
    let equals = token.equals_offset.unwrap_or(token.span.start);
    let text = &token.folded[name.len() + 1..];
    if token.quote_offset.is_none() {
        if text.is_empty() {
            // uperf writes beyond its buffer in this case.
            reading.add_error(token.span, format!("{name}= has no value"));
            return;
        }
        let text = format!("{name}={text} is not in quotes");
        let assumed = format!("{name}=\"{}\"", &token.folded[name.len() + 1..]);
        reading.add_warning(token.span.clone(), text, assumed);
    }
    let start = match token.quote_offset {
        Some(quote) if quote == equals + 1 => quote + 1,
        _ => equals + 1,
    };
    let value = AttributeValue {
        text: text.to_owned(),
        written: token.written[name.len() + 1..].to_owned(),
        span: token.span,
        start,
    };
    reading.events.push(MarkupEvent::Attribute(key, value));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns events in short form, followed by the errors.
    fn describe_events(text: &str) -> Vec<String> {
        let reading = read(text);
        let events = reading.events.iter().map(|event| match event {
            MarkupEvent::Start(element, _) => format!("<{}", element.name()),
            MarkupEvent::End(element) => format!("</{}", element.name()),
            MarkupEvent::Attribute(key, value) => {
                let span = value.span_of(0..value.text.len());
                let written = text[span].replace(['\n', '\r'], " ");
                let in_middle = written.contains('"');
                assert!(in_middle || written == value.written, "{text}: {written}");
                format!("{}={}", key.name(), value.text)
            }
        });
        let errors = reading.errors.iter().map(|(_, text)| text.clone());
        events.chain(errors).collect()
    }

    #[test]
    fn words_are_recognized_by_their_prefix() {
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
            ("name=\"a", &["this word has no closing quotation mark"]),
            ("<!-- x --", &["this comment has no end: missing -->"]),
            ("\u{feff}<group", &["Unknown symbol: \u{feff}<group"]),
            ("iteration=\"1\"", &["Unknown symbol: iteration=1"]),
        ] {
            assert_eq!(describe_events(text), expected, "{text}");
        }
    }

    #[test]
    fn the_longest_word_has_1023_characters() {
        let name = |length: usize| format!("name=\"{}\"", "x".repeat(length - 5));
        assert_eq!(describe_events(&name(1023)).len(), 1);
        let long = describe_events(&(name(1024) + " name=\"y\""));
        assert_eq!(
            long,
            ["token too long.: a word has at most 1023 characters"]
        );
    }

    #[test]
    fn ignored_text_causes_a_warning() {
        for (text, misses_element, warnings) in [
            ("<transaction><flowop type=\"nop\"/>", true, 1),
            ("/><flowop", true, 1),
            ("/></transaction></group>", false, 0),
            ("</group></profile>", false, 0),
            ("<profile>", false, 0),
            ("<groups>", false, 1),
            ("</transactionx", false, 1),
        ] {
            let reading = read(text);
            assert_eq!(reading.misses_element, misses_element, "{text}");
            assert_eq!(reading.warnings.len(), warnings, "{text}");
        }
    }
}
