//! Well-formed XML is read, also where uperf stumbles; where both read something else, uperf's meaning
//! counts.

use super::{lines, parse_with, parsed};

/// Spellings of one document.
#[test]
fn spelling_makes_no_difference() {
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
    let expected = parsed(plain);
    assert_eq!(lines(&expected.notes), [""; 0]);
    let unspaced: String = plain.lines().map(str::trim).collect();
    for (what, text) in [
        ("no blanks between elements", unspaced),
        ("single quotes", plain.replace('"', "'")),
        ("ends of empty elements", plain.replace("/>", "></flowop>")),
        (
            "blanks about the equals sign",
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
        (
            "a case of its own",
            plain.replace("<flowop type", "<FlowOp TYPE"),
        ),
        (
            "a namespace",
            plain.replace("<profile ", "<profile xmlns=\"urn:p\" "),
        ),
        (
            "a line end in a list",
            plain.replace("count=2 size", "count=2\n size"),
        ),
        ("line ends of DOS", plain.replace('\n', "\r\n")),
        ("a byte order mark", format!("\u{feff}{plain}")),
    ] {
        let read = parsed(&text);
        assert_eq!(
            read.workorder,
            expected.workorder,
            "{what}: {:?}",
            lines(&read.notes)
        );
        assert!(read.notes.len() <= 1, "{what}: {:?}", lines(&read.notes));
    }
    for text in [
        plain.trim_end(),
        &plain.replace('\n', "\r\n"),
        &plain.to_uppercase().replace("XML", "xml"),
    ] {
        let read = parsed(text);
        // Names are folded, as everything is.
        assert!(read.workorder.is_some(), "{:?}", lines(&read.notes));
    }
    let utf16: Vec<u8> = [0xfeff]
        .into_iter()
        .chain(plain.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let read = parse_with(&utf16, &super::environment);
    assert_eq!(read.workorder, expected.workorder);
}

#[test]
fn a_stumble_of_uperfs_is_told() {
    let read = parsed(
        "<profile><group nthreads='1'><transaction><flowop type='nop'/></transaction></group></profile>",
    );
    assert_eq!(
        lines(&read.notes),
        [
            "1:17: warning: uperf cannot read this file: No current group: nthreads= is outside of \
          one (assumed its meaning as XML)"
        ]
    );
    // An element that is overlooked, though nothing is refused.
    let read = parsed(
        "<profile name=\"p\">\n<group nthreads=\"1\">\n<transaction>\n<flowop type=\"nop\"/><flowop \
         type=\"think\"/>\n</transaction>\n</group>\n</profile>\n",
    );
    let workorder = read.workorder.expect("well-formed");
    assert_eq!(workorder.groups[0].transactions[0].flowops.len(), 2);
    assert_eq!(
        lines(&read.notes),
        [
            "4:19: warning: uperf cannot read this file: uperf ignores <flowop, because no blank \
          follows /> (assumed its meaning as XML)"
        ]
    );
}

/// Where both read it, uperf's meaning counts.
#[test]
fn uperf_has_the_last_word() {
    let with = |group: &str, flowop: &str| {
        format!(
            "<profile name=\"p\">\n<group {group}>\n<transaction>\n<flowop {flowop}/>\n</transaction>\n\
             </group>\n</profile>\n"
        )
    };
    let read = parsed(&with("name=\"a&amp;b\" nthreads=\"1\"", "type=\"nop\""));
    assert_eq!(read.workorder.expect("both").groups[0].name, "a&amp;b");
    assert_eq!(
        lines(&read.notes),
        ["2:8: warning: as XML this is name=\"a&b\" (assumed name=\"a&amp;b\")"]
    );
    // An attribute's last word, and a group that was closed.
    let nested = "<group nthreads=\"1\" /> <transaction> <flowop type=\"nop\"/> </transaction>\n";
    let read = parsed(&format!("<profile>\n{nested}</profile>\n"));
    assert!(read.workorder.is_some());
    assert_eq!(
        lines(&read.notes),
        [
            "2:1: warning: <group> has no </group> (assumed one before </profile>)",
            "2:24: warning: invalid as XML: No current group: <transaction> is outside of \
             one (assumed uperf's reading)",
        ]
    );
}

/// In a document of XML a name is what it says; uperf's own reading folds it.
#[test]
fn case_is_kept_where_xml_decides() {
    let text = "<profile name=\"My Web\">\n<group nthreads=\"1\">\n<transaction>\n<flowop type=\"NOP\"/>\n\
                </transaction>\n</group>\n</profile>\n";
    let folded = parsed(text).workorder.expect("both");
    let kept = parsed(&text.replace('"', "'")).workorder.expect("XML");
    assert_eq!(
        [folded.name.as_str(), kept.name.as_str()],
        ["my web", "My Web"]
    );
    assert_eq!(folded.groups, kept.groups);
}

#[test]
fn what_is_neither_has_uperfs_errors_and_xmls_place() {
    let read = parsed("<profile>\n<group nthreads='1'>\n<transaction>\n</profile>\n");
    assert!(read.workorder.is_none());
    let notes = lines(&read.notes);
    for expected in [
        "2:8: error: Cannot parse '1'>",
        "4:1: warning: not well-formed XML: expected 'transaction' tag, not 'profile' at 4:1 (assumed uperf's reading)",
    ] {
        assert!(notes.iter().any(|note| note == expected), "{notes:?}");
    }
}
