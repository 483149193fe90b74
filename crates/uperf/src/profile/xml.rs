//! A profile read as XML, which the manual says it is.

use std::borrow::Cow;

use roxmltree::{Document, Node, ParsingOptions};

use super::reading::{Element, Event, Key, Reading, Value, comment};

/// What keeps a text from being read as XML, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotWellFormed {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) text: String,
}

/// Elements and attributes of the document; with `fold` their values in lower case, as uperf has them.
/// What is no profile is a problem.
///
/// # Errors
///
/// It is not well-formed. A document type without definitions is skipped; with them, with elements more
/// than 32 deep or with more than 64 attributes it is not read either.
pub(super) fn read(text: &str, fold: bool) -> Result<Reading, NotWellFormed> {
    if let Some((at, why)) = too_much(text) {
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        return Err(NotWellFormed {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            text: why.to_owned(),
        });
    }
    let blanked = without_document_type(text);
    let options = ParsingOptions {
        // Definitions can make much of little.
        allow_dtd: false,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(&blanked, options).map_err(|error| {
        let place = error.pos();
        NotWellFormed {
            line: place.row as usize,
            column: place.col as usize,
            text: error.to_string(),
        }
    })?;
    let mut reading = Reading::default();
    // One element after the other and not by recursion, though it is not deep.
    let mut open = vec![(document.root(), document.root().first_child())];
    while let Some((parent, child)) = open.pop() {
        let Some(node) = child else {
            if let Some(element) = Element::named(parent.tag_name().name()) {
                reading.events.push(Event::End(element));
            }
            continue;
        };
        open.push((parent, node.next_sibling()));
        if node.is_element() {
            start(node, parent, fold, &mut reading);
            open.push((node, node.first_child()));
        } else if node.is_text() {
            stray_text(text, node, &mut reading);
        }
    }
    Ok(reading)
}

fn start(node: Node, parent: Node, fold: bool, reading: &mut Reading) {
    let name = node.tag_name().name();
    let begin = node.range().start;
    let span = begin..begin + 1 + name.len();
    let Some(element) = Element::named(name) else {
        reading.problem(span, format!("Unknown symbol: <{name}"));
        return;
    };
    let place = Element::named(parent.tag_name().name());
    // What has no group or no transaction to stand in is refused later, as of uperf's reading.
    let is_misplaced = match element {
        Element::Profile => place.is_some(),
        Element::Group => !matches!(place, None | Some(Element::Profile)),
        Element::Transaction => matches!(place, Some(Element::Transaction | Element::Flowop)),
        Element::Flowop => place == Some(Element::Flowop),
    };
    if is_misplaced {
        let outer = parent.tag_name().name();
        let text = format!("a <{}> cannot stand in <{outer}>", element.name());
        reading.problem(span.clone(), text);
    }
    reading.events.push(Event::Start(element, span));
    for attribute in node.attributes() {
        let (name, span) = (attribute.name(), attribute.range());
        let mut key = Key::named(name);
        if name.eq_ignore_ascii_case("iteration") {
            // The manual's word for it in one place.
            reading.doubt(
                span.clone(),
                "iteration is no name of uperf's",
                "iterations",
            );
            key = Some(Key::Iterations);
        }
        let Some(key) = key else {
            let value = attribute.value();
            reading.problem(span, format!("Unknown symbol: {name}={value}"));
            continue;
        };
        let mut text = attribute.value().to_owned();
        if fold {
            text.make_ascii_lowercase();
        }
        let value = Value {
            text,
            written: attribute.value().to_owned(),
            start: attribute.range_value().start,
            span,
        };
        reading.events.push(Event::Attribute(key, value));
    }
}

/// Text between elements says nothing to uperf.
fn stray_text(text: &str, node: Node, reading: &mut Reading) {
    let range = node.range();
    let stray = node.text().unwrap_or_default();
    let Some(word) = stray.split_whitespace().next() else {
        return;
    };
    let inside = text.get(range.clone()).unwrap_or_default();
    let at = range.start + inside.find(word).unwrap_or_default();
    let shown: String = word.chars().take(100).collect();
    reading.problem(at..at + word.len(), format!("Unknown symbol: {shown}"));
}

/// The same text with blanks in the place of a document type without definitions.
fn without_document_type(text: &str) -> Cow<'_, str> {
    let begin = text.len() - after_comments(text).len();
    let declaration = &text[begin..];
    let end = declaration.find('>').map_or(0, |at| at + 1);
    let declaration = &declaration[..end];
    if !declaration.starts_with("<!DOCTYPE") || declaration.contains('[') {
        return Cow::Borrowed(text);
    }
    let blank = |byte| if byte == b'\n' { '\n' } else { ' ' };
    let blanks: String = declaration.bytes().map(blank).collect();
    Cow::Owned([&text[..begin], &blanks, &text[begin + end..]].concat())
}

/// What follows the comments and processing instructions at the beginning.
fn after_comments(text: &str) -> &str {
    let mut left = text.trim_start();
    while let Some((begin, end)) = comment(left) {
        let Some((_, rest)) = left[begin.len()..].split_once(end) else {
            break;
        };
        left = rest.trim_start();
    }
    left
}

/// Where elements are too deep, or have too many attributes, and which of it. The parser recurses into
/// elements, and compares each attribute with the others: so that is looked at before.
fn too_much(text: &str) -> Option<(usize, &'static str)> {
    const DEEPEST: usize = 32;
    const MOST_ATTRIBUTES: usize = 64;
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        at += text[at..].find('<')?;
        let rest = &text[at..];
        let others = [("<![CDATA[", "]]>"), ("<!", ">")].into_iter();
        let other = || others.clone().find(|(begin, _)| rest.starts_with(begin));
        if let Some((begin, end)) = comment(rest).or_else(other) {
            at += begin.len() + rest[begin.len()..].find(end)? + end.len();
        } else if rest.starts_with("</") {
            depth = depth.saturating_sub(1);
            at += 2;
        } else {
            let tag = Tag::at(rest);
            if tag.attributes > MOST_ATTRIBUTES {
                return Some((at, "an element has more than 64 attributes"));
            }
            let length = tag.length?;
            depth += usize::from(!tag.is_empty);
            if depth > DEEPEST {
                return Some((at, "elements are more than 32 deep"));
            }
            at += length;
        }
    }
}

/// The beginning of an element.
struct Tag {
    /// In bytes; none where it does not end.
    length: Option<usize>,
    /// How many there are at least: each quotation is one.
    attributes: usize,
    /// It is the element's end as well.
    is_empty: bool,
}

impl Tag {
    fn at(text: &str) -> Self {
        let mut tag = Self {
            length: None,
            attributes: 0,
            is_empty: false,
        };
        let mut quote = None;
        for (at, c) in text.char_indices() {
            match quote {
                Some(open) if c == open => quote = None,
                None if c == '>' => {
                    tag.length = Some(at + 1);
                    break;
                }
                None if c == '"' || c == '\'' => {
                    quote = Some(c);
                    tag.attributes += 1;
                }
                Some(_) | None => {}
            }
            tag.is_empty = c == '/' && quote.is_none();
        }
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let reading = read(text, false).expect("well-formed");
        let events = reading.events.iter().map(|event| match event {
            Event::Start(element, span) => {
                let begin = format!("<{}", element.name());
                assert_eq!(text[span.clone()].to_ascii_lowercase(), begin);
                begin
            }
            Event::End(element) => format!("</{}", element.name()),
            Event::Attribute(key, value) => format!("{}={}", key.name(), value.text),
        });
        let problems = reading.problems.iter().map(|(_, text)| text.clone());
        events.chain(problems).collect()
    }

    #[test]
    fn any_spelling_of_the_same_document_is_the_same() {
        let expected = [
            "<profile",
            "name=A & b",
            "<group",
            "nthreads=1",
            "<transaction",
            "<flowop",
            "type=nop",
            "</flowop",
            "</transaction",
            "</group",
            "</profile",
        ];
        for text in [
            "<profile name=\"A &amp; b\"><group nthreads=\"1\"><transaction><flowop type=\"nop\"/></transaction></group></profile>",
            "<?xml version='1.0'?>\n<!DOCTYPE profile>\n<profile name='A &#38; b'>\n<!-- <group> -->\n<group nthreads='1'>\
             <transaction ><flowop type = 'nop'></flowop></transaction></group><!-- x --></profile>\n",
            "<!-- <!DOCTYPE [ --><!DOCTYPE profile SYSTEM 'p.dtd'><Profile NAME='A &amp; b'><Group nThreads='1'>\
             <transaction><![CDATA[ ]]><flowop type='nop'/></transaction></Group></Profile>",
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_profile_is_a_problem() {
        for (text, problem) in [
            ("<profiles/>", "Unknown symbol: <profiles"),
            ("<profile version='1'/>", "Unknown symbol: version=1"),
            ("<profile>some text</profile>", "Unknown symbol: some"),
            (
                "<group><group/></group>",
                "a <group> cannot stand in <group>",
            ),
            (
                "<transaction><transaction/></transaction>",
                "a <transaction> cannot stand in <transaction>",
            ),
            (
                "<flowop><group/></flowop>",
                "a <group> cannot stand in <flowop>",
            ),
            (
                "<profile><profile/></profile>",
                "a <profile> cannot stand in <profile>",
            ),
        ] {
            let reading = read(text, false).expect("well-formed");
            assert_eq!(reading.problems[0].1, problem, "{text}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_placed() {
        for (text, line, column) in [
            ("<?xml version='1.0'?>\n<a b=c/>", 2, 6),
            ("<a>\n</b>", 2, 1),
            ("", 1, 1),
        ] {
            let refused = read(text, false).expect_err("not well-formed");
            assert_eq!(
                (refused.line, refused.column),
                (line, column),
                "{text}: {refused:?}"
            );
        }
    }

    #[test]
    fn depth_and_definitions_are_bounded() {
        for text in [
            "<a>".repeat(1_000_000),
            format!(
                "<!-- {} -->{}",
                "</a>".repeat(100),
                "<a b='>'>".repeat(100_000)
            ),
            format!(
                "<?x {}?>{}",
                "</a>".repeat(100),
                "<a b=\"/>\">".repeat(100_000)
            ),
            "<!DOCTYPE a [<!ENTITY a 'a'>]><a>&a;</a>".to_owned(),
        ] {
            assert!(read(&text, false).is_err());
        }
        let attributes = |count| {
            let attributes: Vec<String> = (0..count).map(|k| format!("a{k}=''")).collect();
            format!("<profile {}/>", attributes.join(" "))
        };
        assert!(read(&attributes(64), false).is_ok());
        assert!(read(&attributes(300_000), false).is_err());
        let flat = format!("<profile>{}</profile>", "<group/>".repeat(10_000));
        assert!(read(&flat, false).is_ok());
    }
}
