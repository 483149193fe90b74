//! Reader that parses a profile as XML, as the manual describes it.

use std::borrow::Cow;

use roxmltree::{Document, Node, ParsingOptions};

use super::reading::{AttributeName, AttributeValue, Element, MarkupEvent, Reading, comment_marks};

/// XML error and its position; line and column start at 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct XmlError {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) text: String,
}

/// Reads the elements and attributes of the document.
///
/// With `fold_case`, values are in lower case, as in uperf's reading. Elements and attributes that
/// uperf lacks become errors of the reading. A document type without definitions is skipped.
///
/// # Errors
///
/// Fails if the document is not well-formed, has definitions, nests elements more than 32 deep, or
/// has an element with more than 64 attributes.
pub(super) fn read(text: &str, fold_case: bool) -> Result<Reading, XmlError> {
    if let Some((at, reason)) = find_exceeded_limit(text) {
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        return Err(XmlError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            text: reason.to_owned(),
        });
    }
    let text_to_parse = blank_document_type(text);
    let options = ParsingOptions {
        // Entity definitions can expand a small file to a huge document.
        allow_dtd: false,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(&text_to_parse, options).map_err(|error| {
        let position = error.pos();
        XmlError {
            line: position.row as usize,
            column: position.col as usize,
            text: error.to_string(),
        }
    })?;
    let mut reading = Reading::default();
    // An explicit stack replaces recursion.
    let mut open_elements = vec![(document.root(), document.root().first_child())];
    while let Some((parent, child)) = open_elements.pop() {
        let Some(node) = child else {
            if let Some(element) = Element::from_name(parent.tag_name().name()) {
                reading.events.push(MarkupEvent::End(element));
            }
            continue;
        };
        open_elements.push((parent, node.next_sibling()));
        if node.is_element() {
            push_element(node, parent, fold_case, &mut reading);
            open_elements.push((node, node.first_child()));
        } else if node.is_text() {
            report_stray_text(text, node, &mut reading);
        }
    }
    Ok(reading)
}

fn push_element(node: Node, parent: Node, fold_case: bool, reading: &mut Reading) {
    let name = node.tag_name().name();
    let begin = node.range().start;
    let span = begin..begin + 1 + name.len();
    let Some(element) = Element::from_name(name) else {
        reading.add_error(span, format!("Unknown symbol: <{name}"));
        return;
    };
    let parent_element = Element::from_name(parent.tag_name().name());
    // `build` refuses elements outside of a group or transaction, as for uperf's reading.
    let is_misplaced = match element {
        Element::Profile => parent_element.is_some(),
        Element::Group => !matches!(parent_element, None | Some(Element::Profile)),
        Element::Transaction => {
            matches!(parent_element, Some(Element::Transaction | Element::Flowop))
        }
        Element::Flowop => parent_element == Some(Element::Flowop),
    };
    if is_misplaced {
        let outer = parent.tag_name().name();
        let text = format!("a <{}> is not allowed in <{outer}>", element.name());
        reading.add_error(span.clone(), text);
    }
    reading.events.push(MarkupEvent::Start(element, span));
    for attribute in node.attributes() {
        let (name, span) = (attribute.name(), attribute.range());
        let mut key = AttributeName::from_name(name);
        if name.eq_ignore_ascii_case("iteration") {
            // The manual has this spelling in one place.
            reading.add_warning(
                span.clone(),
                "uperf has no attribute iteration",
                "iterations",
            );
            key = Some(AttributeName::Iterations);
        }
        let Some(key) = key else {
            let value = attribute.value();
            reading.add_error(span, format!("Unknown symbol: {name}={value}"));
            continue;
        };
        let mut text = attribute.value().to_owned();
        if fold_case {
            text.make_ascii_lowercase();
        }
        let value = AttributeValue {
            text,
            written: attribute.value().to_owned(),
            start: attribute.range_value().start,
            span,
        };
        reading.events.push(MarkupEvent::Attribute(key, value));
    }
}

/// Adds an error for text between elements, which uperf does not accept.
fn report_stray_text(text: &str, node: Node, reading: &mut Reading) {
    let range = node.range();
    let stray = node.text().unwrap_or_default();
    let Some(word) = stray.split_whitespace().next() else {
        return;
    };
    let inside = text.get(range.clone()).unwrap_or_default();
    let at = range.start + inside.find(word).unwrap_or_default();
    let shown: String = word.chars().take(100).collect();
    reading.add_error(at..at + word.len(), format!("Unknown symbol: {shown}"));
}

/// Replaces a document type without definitions by blanks, so that offsets stay the same.
fn blank_document_type(text: &str) -> Cow<'_, str> {
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

/// Returns the text after leading comments and processing instructions.
fn after_comments(text: &str) -> &str {
    let mut remaining = text.trim_start();
    while let Some((begin, end)) = comment_marks(remaining) {
        let Some((_, rest)) = remaining[begin.len()..].split_once(end) else {
            break;
        };
        remaining = rest.trim_start();
    }
    remaining
}

/// Finds an element that is too deep or has too many attributes; returns its offset and the reason.
///
/// This check runs before the parser, which recurses into elements and compares each attribute with
/// all others.
fn find_exceeded_limit(text: &str) -> Option<(usize, &'static str)> {
    const MAX_DEPTH: usize = 32;
    const MAX_ATTRIBUTES: usize = 64;
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        at += text[at..].find('<')?;
        let rest = &text[at..];
        let mut other_markup = [("<![CDATA[", "]]>"), ("<!", ">")].into_iter();
        let find_other = || other_markup.find(|(begin, _)| rest.starts_with(begin));
        if let Some((begin, end)) = comment_marks(rest).or_else(find_other) {
            at += begin.len() + rest[begin.len()..].find(end)? + end.len();
        } else if rest.starts_with("</") {
            depth = depth.saturating_sub(1);
            at += 2;
        } else {
            let tag = StartTag::parse(rest);
            if tag.attributes > MAX_ATTRIBUTES {
                return Some((at, "an element has more than 64 attributes"));
            }
            let length = tag.length?;
            depth += usize::from(!tag.is_empty);
            if depth > MAX_DEPTH {
                return Some((at, "elements are more than 32 deep"));
            }
            at += length;
        }
    }
}

/// Start tag of an element.
struct StartTag {
    /// Length in bytes; `None` if the tag does not end.
    length: Option<usize>,
    /// Number of quoted values; each attribute has one.
    attributes: usize,
    /// True for an empty element (`<flowop/>`).
    is_empty: bool,
}

impl StartTag {
    fn parse(text: &str) -> Self {
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

    fn describe_events(text: &str) -> Vec<String> {
        let reading = read(text, false).expect("well-formed");
        let events = reading.events.iter().map(|event| match event {
            MarkupEvent::Start(element, span) => {
                let begin = format!("<{}", element.name());
                assert_eq!(text[span.clone()].to_ascii_lowercase(), begin);
                begin
            }
            MarkupEvent::End(element) => format!("</{}", element.name()),
            MarkupEvent::Attribute(key, value) => format!("{}={}", key.name(), value.text),
        });
        let errors = reading.errors.iter().map(|(_, text)| text.clone());
        events.chain(errors).collect()
    }

    #[test]
    fn equivalent_spellings_have_the_same_events() {
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
            assert_eq!(describe_events(text), expected, "{text}");
        }
    }

    #[test]
    fn elements_that_uperf_lacks_are_errors() {
        for (text, error) in [
            ("<profiles/>", "Unknown symbol: <profiles"),
            ("<profile version='1'/>", "Unknown symbol: version=1"),
            ("<profile>some text</profile>", "Unknown symbol: some"),
            (
                "<group><group/></group>",
                "a <group> is not allowed in <group>",
            ),
            (
                "<transaction><transaction/></transaction>",
                "a <transaction> is not allowed in <transaction>",
            ),
            (
                "<flowop><group/></flowop>",
                "a <group> is not allowed in <flowop>",
            ),
            (
                "<profile><profile/></profile>",
                "a <profile> is not allowed in <profile>",
            ),
        ] {
            let reading = read(text, false).expect("well-formed");
            assert_eq!(reading.errors[0].1, error, "{text}");
        }
    }

    #[test]
    fn an_xml_error_has_its_position() {
        for (text, line, column) in [
            ("<?xml version='1.0'?>\n<a b=c/>", 2, 6),
            ("<a>\n</b>", 2, 1),
            ("", 1, 1),
        ] {
            let error = read(text, false).expect_err("not well-formed");
            assert_eq!(
                (error.line, error.column),
                (line, column),
                "{text}: {error:?}"
            );
        }
    }

    #[test]
    fn deep_elements_definitions_and_many_attributes_are_refused() {
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
