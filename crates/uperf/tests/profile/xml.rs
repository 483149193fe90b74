//! The parser accepts well-formed XML even if uperf cannot read it. If the two meanings differ, it
//! uses uperf's.

use super::{format_notes, parse_text, parse_with};

/// Parses several spellings of one document.
#[test]
fn ignores_xml_spelling() {
    let plain = r#"<?xml version="1.0"?>
<profile name="p">
  <group nthreads="2">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=a protocol=tcp"/>
    </transaction>
    <transaction duration="2s">
      <flowop type="write" options="count=2 size=90"/>
    </transaction>
  </group>
</profile>
"#;
    let expected = parse_text(plain);
    assert_eq!(format_notes(&expected.notes), [""; 0]);
    let unspaced: String = plain.lines().map(str::trim).collect();
    for (name, text) in [
        ("no blanks between elements", unspaced),
        ("single quotes", plain.replace('"', "'")),
        (
            "end tags of empty elements",
            plain.replace("/>", "></flowop>"),
        ),
        (
            "blanks around the equals sign",
            plain.replace("type=", "type = "),
        ),
        (
            "comments between elements",
            plain.replace("/>", "/><!-- size=1 -->"),
        ),
        ("CDATA", plain.replace("/>", "/><![CDATA[ ]]>")),
        ("entities", plain.replace("size=90", "&#x73;ize=90")),
        (
            "a document type",
            plain.replace("<profile", "<!DOCTYPE profile>\n<profile"),
        ),
        ("mixed case", plain.replace("<flowop type", "<FlowOp TYPE")),
        (
            "a namespace",
            plain.replace("<profile ", "<profile xmlns=\"urn:p\" "),
        ),
        (
            "a line end in an attribute value",
            plain.replace("count=2 size", "count=2\n size"),
        ),
        ("DOS line ends", plain.replace('\n', "\r\n")),
        ("a byte order mark", format!("\u{feff}{plain}")),
    ] {
        let parsed = parse_text(&text);
        assert_eq!(
            parsed.workorder,
            expected.workorder,
            "{name}: {:?}",
            format_notes(&parsed.notes)
        );
        assert!(
            parsed.notes.len() <= 1,
            "{name}: {:?}",
            format_notes(&parsed.notes)
        );
    }
    for text in [
        plain.trim_end(),
        &plain.replace('\n', "\r\n"),
        &plain.to_uppercase().replace("XML", "xml"),
    ] {
        let parsed = parse_text(text);
        // uperf folds names and keywords to lower case.
        assert!(
            parsed.workorder.is_some(),
            "{:?}",
            format_notes(&parsed.notes)
        );
    }
    let utf16: Vec<u8> = [0xfeff]
        .into_iter()
        .chain(plain.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let parsed = parse_with(&utf16, &super::environment);
    assert_eq!(parsed.workorder, expected.workorder);
}

#[test]
fn warns_about_xml_that_uperf_cannot_read() {
    let parsed = parse_text(
        "<profile><group nthreads='1'><transaction><flowop type='nop'/></transaction></group></profile>",
    );
    assert_eq!(
        format_notes(&parsed.notes),
        [
            "1:17: warning: uperf cannot read this file: No current group: nthreads= is outside of \
          one (assumed its meaning as XML)"
        ]
    );
    // uperf overlooks an element here without an error.
    let parsed = parse_text(
        "<profile name=\"p\">\n<group nthreads=\"1\">\n<transaction>\n<flowop type=\"nop\"/><flowop \
         type=\"think\"/>\n</transaction>\n</group>\n</profile>\n",
    );
    let workorder = parsed.workorder.expect("well-formed");
    assert_eq!(workorder.groups[0].transactions[0].flowops.len(), 2);
    assert_eq!(
        format_notes(&parsed.notes),
        [
            "4:19: warning: uperf cannot read this file: uperf ignores <flowop, because no blank \
          follows /> (assumed its meaning as XML)"
        ]
    );
}

/// If both readings are valid, the parser uses uperf's.
#[test]
fn prefers_meaning_of_uperf() {
    let profile = |group: &str, flowop: &str| {
        format!(
            "<profile name=\"p\">\n<group {group}>\n<transaction>\n<flowop {flowop}/>\n</transaction>\n\
             </group>\n</profile>\n"
        )
    };
    let parsed = parse_text(&profile("name=\"a&amp;b\" nthreads=\"1\"", "type=\"nop\""));
    assert_eq!(
        parsed.workorder.expect("both readings are valid").groups[0].name,
        "a&amp;b"
    );
    assert_eq!(
        format_notes(&parsed.notes),
        ["2:8: warning: as XML this is name=\"a&b\" (assumed name=\"a&amp;b\")"]
    );
    // The group is already closed where the transaction starts.
    let nested = "<group nthreads=\"1\" /> <transaction> <flowop type=\"nop\"/> </transaction>\n";
    let parsed = parse_text(&format!("<profile>\n{nested}</profile>\n"));
    assert!(parsed.workorder.is_some());
    assert_eq!(
        format_notes(&parsed.notes),
        [
            "2:1: warning: <group> has no </group> (assumed one before </profile>)",
            "2:24: warning: invalid as XML: No current group: <transaction> is outside of \
             one (assumed uperf's reading)",
        ]
    );
}

/// Names keep their case if only the XML reading is valid; uperf's reading folds them.
#[test]
fn keeps_case_if_only_xml_is_valid() {
    let text = "<profile name=\"My Web\">\n<group nthreads=\"1\">\n<transaction>\n<flowop type=\"NOP\"/>\n\
                </transaction>\n</group>\n</profile>\n";
    let folded = parse_text(text).workorder.expect("both readings are valid");
    let kept = parse_text(&text.replace('"', "'"))
        .workorder
        .expect("the text is valid XML");
    assert_eq!(
        [folded.name.as_str(), kept.name.as_str()],
        ["my web", "My Web"]
    );
    assert_eq!(folded.groups, kept.groups);
}

#[test]
fn reports_both_errors_if_no_reading_is_valid() {
    let parsed = parse_text("<profile>\n<group nthreads='1'>\n<transaction>\n</profile>\n");
    assert!(parsed.workorder.is_none());
    let notes = format_notes(&parsed.notes);
    for expected in [
        "2:8: error: Cannot parse '1'>",
        "4:1: warning: not well-formed XML: expected 'transaction' tag, not 'profile' at 4:1 (assumed uperf's reading)",
    ] {
        assert!(notes.iter().any(|note| note == expected), "{notes:?}");
    }
}
