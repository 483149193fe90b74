//! Checks uperf's rules for profiles: accepted texts with their warnings, refused texts with
//! errors.

use std::time::Duration;

use uperf::profile::Severity;
use uperf::{Amount, DataProtocol, Flowop, FlowopKind, StrandCount};

use super::{environment, format_notes, parse_text, parse_with, profile_with_flowops};

/// Returns the notes for a profile with these flowops, which start at line 7.
#[track_caller]
fn notes_for(flowops: &str) -> Vec<String> {
    format_notes(&parse_text(&profile_with_flowops(flowops)).notes)
}

/// Returns the flowops of the second transaction of a profile without errors.
#[track_caller]
fn parse_flowops(text: &str) -> Vec<Flowop> {
    let parsed = parse_text(&profile_with_flowops(text));
    let notes = format_notes(&parsed.notes);
    let Some(mut workorder) = parsed.workorder else {
        panic!("{notes:?}");
    };
    workorder.groups[0].transactions.remove(1).flowops
}

#[test]
fn reports_notes_for_types_and_options() {
    check_cases(TYPE_CASES);
    check_cases(OPTION_CASES);
}

#[track_caller]
fn check_cases(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        let mut expected = expected.to_vec();
        let mut notes = notes_for(text);
        expected.sort_unstable();
        notes.sort_unstable();
        assert_eq!(notes, expected, "{text}");
    }
}

/// Flowops with their notes.
const TYPE_CASES: &[(&str, &[&str])] = &[
    (r#"<flowop type="nop"/>"#, &[]),
    (
        r#"<flowop type = "nop"/>"#,
        &[
            "7:9: warning: uperf cannot read this file: type= has no value (assumed its meaning as XML)",
        ],
    ),
    (r#"<flowop type ="nop"/>"#, &[]),
    (
        r#"<flowop type="wait"/>"#,
        &["7:9: error: Unknown flowop wait"],
    ),
    (r#"<flowop type=""/>"#, &["7:9: error: Unknown flowop "]),
    (r"<flowop/>", &["7:1: error: a flowop without type="]),
    (
        r#"<flowop type="redv" options="size=1"/>"#,
        &["7:9: warning: redv is in the manual, but uperf does not accept it (assumed recv)"],
    ),
    (
        r#"<flowop type="sendto" options="size=1"/>"#,
        &["7:9: warning: sendto is in the manual, but uperf does not accept it (assumed write)"],
    ),
    (
        r#"<flowop type="read" options="size=1 poll_timeout=5ms"/>"#,
        &[
            "7:37: warning: poll_timeout is in the manual, but uperf does not accept it (assumed timeout)",
        ],
    ),
];

const OPTION_CASES: &[(&str, &[&str])] = &[
    (
        r#"<flowop type="nop" options="_x=1 9x $x"/>"#,
        &[
            "7:29: warning: _x=1 does not begin with a letter; uperf drops it (assumed nothing)",
            "7:34: warning: 9x does not begin with a letter; uperf drops it (assumed nothing)",
            "7:37: warning: $x does not begin with a letter; uperf drops it (assumed nothing)",
        ],
    ),
    (
        r#"<flowop type="nop" options="x"/>"#,
        &["7:29: error: option x is not of type key=value"],
    ),
    (
        r#"<flowop type="nop" options="x=1"/>"#,
        &["7:29: error: parser - Option unrecognized x=1"],
    ),
    (
        r#"<flowop type="read" options="size="/>"#,
        &["7:30: error: size= has no value"],
    ),
    (
        r#"<flowop type="read" options="size=x"/>"#,
        &["7:30: error: Could not parse x"],
    ),
    (
        r#"<flowop type="read" options="size=rand(1, 8k)"/>"#,
        &[
            "7:30: error: Could not parse rand(1,: a random size is rand(MIN,MAX), without blanks",
            "7:43: warning: 8k) does not begin with a letter; uperf drops it (assumed nothing)",
        ],
    ),
    (
        r#"<flowop type="read" options="size=90" duration="30"/>"#,
        &[
            "7:39: warning: duration= is in <flowop> (assumed it belongs to the current <transaction>)",
            "7:39: warning: 30 has no unit (assumed 30 s)",
            "6:14: warning: iterations= together with duration= (assumed only the duration)",
        ],
    ),
    (
        r#"<flowop type="read" options="size=90" name="x"/>"#,
        &["7:39: warning: name= is in <flowop> (assumed it belongs to the current <group>)"],
    ),
    (
        r#"<flowop type="think" options="duration=2m"/>"#,
        &["7:31: warning: 2m: m means milliseconds (assumed 2 ms)"],
    ),
    (
        r#"<flowop type="nop" options="count=2k"/>"#,
        &["7:29: warning: 2k has a suffix, which is ignored (assumed 2)"],
    ),
    (
        r#"<flowop type="nop" options="count=0"/>"#,
        &["7:1: warning: nop with count=0 (assumed nothing is done)"],
    ),
    (
        r#"<flowop type="nop" options="size=1"/>"#,
        &["7:29: warning: nop ignores size (assumed absent)"],
    ),
    (
        r#"<flowop type="read" options="size=4k rsize=1k"/>"#,
        &["7:1: warning: rsize=1024 is not more than the size (assumed 4096 at both ends)"],
    ),
    (
        r#"<flowop type="read" options="size=rand(1,4k) rsize=8k"/>"#,
        &[
            "7:46: warning: rsize=8192 together with a random size (assumed the random size at both ends)",
        ],
    ),
    (
        r#"<flowop type="write" options="size=1 repeat=2 canfail"/>"#,
        &["7:38: warning: repeat is for udp, sctp, and this is tcp (assumed absent)"],
    ),
    (
        r#"<flowop type="connect" options="remotehost=h protocol=udp conn=4 tcp_nodelay sctp_nodelay"/>"#,
        &[
            "7:66: warning: tcp_nodelay is for tcp, ssl, mptcp, and this is udp (assumed absent)",
            "7:78: warning: sctp_nodelay is for sctp, and this is udp (assumed absent)",
        ],
    ),
    (
        r#"<flowop type="connect" options="remotehost=h protocol=sctp conn=4 sctp_pr_value=3"/>"#,
        &["7:67: warning: sctp_pr_value without sctp_pr_policy (assumed no policy)"],
    ),
    (
        r#"<flowop type="read" options="size=1 conn=3"/>"#,
        &[
            "7:1: warning: No such connection 3: no earlier flowop opens it (assumed to be an intended failure)",
        ],
    ),
    (
        r#"<flowop type="disconnect" options="remotehost=$unset"/>"#,
        &["7:36: error: Env variable remotehost = $unset not set"],
    ),
    (
        r#"<flowop type="$unset"/>"#,
        &["7:9: error: $unset is not set"],
    ),
];

#[test]
fn warns_about_unquoted_attributes() {
    let parsed = parse_text(&profile_with_flowops(
        "<flowop type=write options=size=90 />",
    ));
    let lines = format_notes(&parsed.notes);
    assert_eq!(
        lines,
        [
            "7:9: warning: type=write is not in quotes (assumed type=\"write\")",
            "7:14: warning: not well-formed XML: expected a quote not 'w' at 7:14 (assumed uperf's reading)",
            "7:20: warning: options=size=90 is not in quotes (assumed options=\"size=90\")",
        ]
    );
    let workorder = parsed.workorder.expect("uperf accepts the profile");
    let flowop = &workorder.groups[0].transactions[1].flowops[0];
    assert_eq!(
        (flowop.kind, flowop.transfer.amount),
        (FlowopKind::Write, Amount::Exactly(90))
    );
}

/// Refuses profiles that crash or hang uperf, or that its slave refuses, before the run starts.
#[test]
fn refuses_profiles_that_crash_or_hang_uperf() {
    for (text, expected) in [
        (r#"<flowop type= "x" /><"#, "7:9: error: type= has no value"),
        (
            r#"<flowop type="write"/>"#,
            "7:1: error: write has no size=",
        ),
        (
            r#"<flowop type="recv" options="size=0"/>"#,
            "7:30: error: recv of 0 bytes",
        ),
        (
            r#"<flowop type="sendfile"/>"#,
            "7:1: error: sendfile has no dir= to take files from",
        ),
        (
            r#"<flowop type="sendfile" options="dir=gone"/>"#,
            "7:34: error: Error initializing dir: gone: No such file or directory",
        ),
        (
            r#"<flowop type="connect" options="remotehost=h"/>"#,
            "7:1: error: Unsupported protocol:Unknown: connect has no protocol=",
        ),
        (
            r#"<flowop type="accept" options="protocol=tcp"/>"#,
            "7:1: error: remotehost not specified. Check profile: accept needs one",
        ),
        (
            r#"<flowop type="connect" options="protocol=tcp remotehost=$empty"/>"#,
            "7:1: error: remotehost not specified. Check profile: connect needs one",
        ),
    ] {
        let empty = |name: &str| (name == "empty").then(String::new);
        let parsed = parse_with(profile_with_flowops(text).as_bytes(), &empty);
        let lines = format_notes(&parsed.notes);
        assert!(
            lines.iter().any(|line| line == expected),
            "{text}: {lines:?}"
        );
    }
    let no_flowop =
        "<group nthreads=\"1\"> <transaction options=\"size=1\"> </transaction> </group>\n";
    let notes = format_notes(&parse_text(no_flowop).notes);
    let expected = "1:35: error: options= comes before any flowop";
    assert!(notes.iter().any(|note| note == expected), "{notes:?}");
    for (group, expected) in [
        (
            "<group>",
            "a group without nthreads= or nprocs= has no strands and never ends",
        ),
        (
            "<group nthreads=\"0\">",
            "a group with no strands never ends",
        ),
    ] {
        let text =
            format!("{group} <transaction> <flowop type=\"nop\"/> </transaction> </group>\n");
        assert_eq!(
            format_notes(&parse_text(&text).notes),
            [format!("1:1: error: {expected}")]
        );
    }
}

/// A flowop that never runs needs no size.
#[test]
fn requires_no_size_for_unexecuted_flowop() {
    assert_eq!(
        notes_for(r#"<flowop type="write" options="count=0"/>"#).len(),
        1
    );
    let text = profile_with_flowops("<flowop type=\"write\"/>")
        .replace("iterations=\"2\"", "iterations=\"0\"");
    assert_eq!(format_notes(&parse_text(&text).notes), [""; 0]);
}

#[test]
fn refuses_unusable_files() {
    for (bytes, expected) in [
        (&b""[..], "1:1: error: Zero byte file!"),
        (b" \n\n", "1:1: error: No profile found: the file is blank"),
        (
            b"\n<profile>\0",
            "2:10: error: a NUL character: this is not a text file",
        ),
        (
            b"<profile> </profile>\n",
            "1:1: error: No profile found: there is no group in it, and nothing to run",
        ),
        (b"hello\n", "1:1: error: Unknown symbol: hello"),
    ] {
        let notes = format_notes(&parse_with(bytes, &environment).notes);
        assert!(notes.iter().any(|note| note == expected), "{notes:?}");
    }
    let notes = format_notes(&parse_with(&vec![b' '; 5 << 20], &environment).notes);
    assert_eq!(
        notes,
        ["1:1: error: the file has 5242880 bytes; the maximum is 4194304"]
    );
}

#[test]
fn reports_all_errors() {
    let text = "<profile>\n<group nthreads=\"x\">\n<flowop type=\"nop\"/>\n<transaction duration=\"0\">\n\
                <flowop type=\"fly\" options=\"a b=1 size=x\"/>\n<flowop/>\n</transaction>\n</group>\n</profile>\n";
    let errors: Vec<String> = format_notes(&parse_text(text).notes)
        .into_iter()
        .filter(|line| line.contains(" error: "))
        .collect();
    assert_eq!(
        errors,
        [
            "2:8: error: Cannot parse x",
            "3:1: error: No current transaction: <flowop> is outside of one",
            "4:14: error: Cannot convert 0 to nsecs",
            "5:9: error: Unknown flowop fly",
            "5:29: error: option a is not of type key=value",
            "5:31: error: parser - Option unrecognized b=1",
            "5:35: error: Could not parse x",
            "6:1: error: a flowop without type=",
        ]
    );
}

/// An attribute applies to the current element. A second list of options resets some options of the
/// first.
#[test]
fn applies_attributes_to_current_element() {
    let text = "<profile name=\"p\">\n<group>\n<transaction name=\"g\" nprocs=\"3\">\n\
                <flowop type=\"nop\" rate=\"5\" duration=\"2s\"/>\n</transaction>\n</group>\n</profile>\n";
    let parsed = parse_text(text);
    assert_eq!(parsed.notes.len(), 4, "{:?}", format_notes(&parsed.notes));
    let workorder = parsed.workorder.expect("the profile is accepted");
    let group = &workorder.groups[0];
    let strands = StrandCount {
        count: 3,
        threads: false,
        processes: true,
    };
    assert_eq!((group.name.as_str(), group.strands), ("g", strands));
    let transaction = &group.transactions[0];
    assert_eq!((transaction.rate, transaction.rate_text.as_str()), (5, "5"));
    assert_eq!(transaction.duration, Some(Duration::from_secs(2)));

    // The profile is not well-formed, but uperf accepts it.
    let flowops = parse_flowops(
        r#"<flowop type="write" options="size=5 count=2 rsize=9" options="size=6"/>"#,
    );
    let flowop = &flowops[0];
    assert_eq!(
        (flowop.transfer.amount, flowop.count, flowop.slave_size),
        (Amount::Exactly(6), 1, 9)
    );
}

#[test]
fn keeps_thread_and_process_flags() {
    let text = "<group nprocs=\"2\" nthreads=\"3\"> <transaction> <flowop type=\"nop\"/> </transaction> </group>\n";
    let parsed = parse_text(text);
    assert_eq!(
        format_notes(&parsed.notes),
        ["1:19: warning: nthreads= and nprocs= in one group (assumed 3 processes)"]
    );
    let strands = StrandCount {
        count: 3,
        threads: true,
        processes: true,
    };
    assert_eq!(
        parsed.workorder.expect("the profile is accepted").groups[0].strands,
        strands
    );
}

#[test]
fn looks_up_variables_in_lower_case() {
    let environment = |name: &str| {
        let value = match name {
            "h" => "Lower",
            "UPPER" => "Upper",
            "o" => "remotehost=$h Protocol=UDP size=5",
            "nested" => "$h",
            "op" => "CONNECT",
            "empty" => "",
            "n" => "2k",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let parse = |flowop: &str| parse_with(profile_with_flowops(flowop).as_bytes(), &environment);
    let connect = |options: &str| parse(&format!("<flowop type=\"$op\" options=\"{options}\"/>"));
    for (options, host, notes) in [
        ("remotehost=$h protocol=tcp", "Lower", &[][..]),
        (
            "remotehost=$H protocol=tcp",
            "Lower",
            &["7:29: warning: $H is folded to lower case (assumed $h)"],
        ),
        (
            "remotehost=$UPPER protocol=tcp",
            "Upper",
            &["7:29: warning: $UPPER is looked up by uperf as $upper (assumed $UPPER)"],
        ),
        (
            "$o",
            "Lower",
            &["7:20: warning: connect ignores size (assumed absent)"],
        ),
    ] {
        let parsed = connect(options);
        assert_eq!(format_notes(&parsed.notes), notes, "{options}");
        let workorder = parsed.workorder.expect("the profile is accepted");
        let flowop = &workorder.groups[0].transactions[1].flowops[0];
        assert_eq!(
            (flowop.kind, flowop.endpoint.remote_host.as_str()),
            (FlowopKind::Connect, host)
        );
    }
    for (options, expected) in [
        (
            "remotehost=$gone protocol=tcp",
            "7:29: error: Env variable remotehost = $gone not set",
        ),
        (
            "remotehost=$nested protocol=tcp",
            "7:29: error: remotehost=$nested is $h, which is not looked up in turn",
        ),
        (
            "remotehost=h protocol=tcp wndsz=$empty",
            "7:55: error: Env variable wndsz = $empty is empty",
        ),
        ("$empty", "7:20: error: $empty is not set"),
        (
            "remotehost=$ protocol=tcp",
            "7:29: error: Env variable remotehost = $ not set",
        ),
    ] {
        let notes = format_notes(&connect(options).notes);
        assert_eq!(notes[0], expected, "{options}: {notes:?}");
    }
    let text = profile_with_flowops("<flowop type=\"nop\"/>")
        .replace("iterations=\"2\"", "iterations=\"$n\"");
    let workorder = parse_with(text.as_bytes(), &environment)
        .workorder
        .expect("the profile is accepted");
    assert_eq!(workorder.groups[0].transactions[1].iterations, 2048);
}

/// Warns if a name in lower case may differ from the original.
#[test]
fn warns_about_relevant_case_folding() {
    let text = profile_with_flowops(
        "<flowop type=\"CONNECT\" options=\"RemoteHost=Host PROTOCOL=TCP CC=Reno\"/>\n\
         <flowop type=\"sendfile\" options=\"dir=SF\"/>",
    );
    let parsed = parse_text(&text);
    assert_eq!(
        format_notes(&parsed.notes),
        [
            "7:62: warning: cc=Reno is folded to lower case (assumed cc=reno)",
            "8:34: warning: dir=SF is folded to lower case (assumed dir=sf)",
        ]
    );
    let workorder = parsed.workorder.expect("the profile is accepted");
    let connect = &workorder.groups[0].transactions[1].flowops[0];
    assert_eq!(connect.endpoint.remote_host, "host");
    assert_eq!(connect.endpoint.protocol, Some(DataProtocol::Tcp));
}

#[test]
fn enforces_limits() {
    let group = |strands: &str, size: &str| {
        format!(
            "<group {strands}> <transaction> <flowop type=\"connect\" options=\"remotehost=h protocol=tcp\"/> \
             <flowop type=\"write\" options=\"size={size}\"/> </transaction> </group>\n"
        )
    };
    for (text, expected) in [
        (group("nthreads=\"10000\"", "1"), None),
        (
            group("nthreads=\"10001\"", "1"),
            Some("1:1: error: 10001 threads up to this group: more than 10000"),
        ),
        (
            group("nthreads=\"1000000000\"", "1"),
            Some("1:1: error: 1000000000 threads up to this group: more than 10000"),
        ),
        (group("nprocs=\"1000\"", "1"), None),
        (
            group("nprocs=\"600\"", "1").repeat(2),
            Some("2:1: error: 1200 processes up to this group: more than 1000"),
        ),
        (group("nthreads=\"1\"", "2047m"), None),
        (
            group("nthreads=\"65\"", "1g"),
            Some("1:1: error: 69797528320 bytes of memory up to this group: more than 68719476736"),
        ),
        (
            group("nthreads=\"1\"", "1").repeat(1025),
            Some("1025:1: error: more than 1024 groups"),
        ),
    ] {
        let parsed = parse_text(&text);
        let errors: Vec<_> = parsed
            .notes
            .iter()
            .filter(|note| note.severity == Severity::Error)
            .map(|note| note.format_line("p")[2..].to_owned())
            .collect();
        let errors: Vec<&str> = errors.iter().map(String::as_str).collect();
        assert_eq!(errors.first().copied(), expected);
    }
    let transactions = " <transaction> <flowop type=\"nop\"/> </transaction>\n".repeat(101);
    let notes = format_notes(
        &parse_text(&format!("<group nthreads=\"1\">\n{transactions}</group>\n")).notes,
    );
    assert_eq!(
        notes,
        ["102:2: error: Shm exhausted!: more than 100 transactions in a group"]
    );
}

#[test]
fn truncates_names_like_uperf() {
    let long_name = "x".repeat(200);
    let text = profile_with_flowops("<flowop type=\"nop\"/>")
        .replace("name=\"p\"", &format!("name=\"{long_name}\""))
        .replace("<group ", &format!("<group name=\"{long_name}\" "));
    let parsed = parse_text(&text);
    assert_eq!(parsed.notes.len(), 2);
    let workorder = parsed.workorder.expect("the profile is accepted");
    assert_eq!(
        (workorder.name.len(), workorder.groups[0].name.len()),
        (128, 31)
    );
}

/// Parses long files with a repeated text. The time must stay proportional to the length.
#[test]
fn parses_long_files_in_linear_time() {
    for (prefix, repeated, suffix) in [
        ("", "<group ", ""),
        ("", "<transaction ", ""),
        ("<group nthreads=\"1\"> ", "<transaction ", ""),
        ("<group nthreads=\"1\"> <transaction ", "<flowop ", ""),
        (
            "<group nthreads=\"1\"> <transaction ",
            "<flowop type=\"connect\" ",
            "",
        ),
        ("", "x ", ""),
        ("", "/><flowop", ""),
        ("", "<flowop type=\"write\" options=\"x\" ", ""),
        (
            "<group> <transaction> <flowop ",
            "options=\"_ size=1 x\" ",
            "",
        ),
        (
            "<group> <transaction> <flowop options=\"",
            "size=1 ",
            "\"/>",
        ),
        ("<flowop options='", "size=1 ", "'/>"),
        ("<flowop options='", "&amp;", "'/>"),
        ("<profile ", "name=\"a\" ", "/>"),
        ("<profile ", "name='a' ", "/>"),
        ("<profile>", "<group/>", "</profile>"),
        ("<profile>", "<group>x</group>", "</profile>"),
        ("<group nthreads='1'>", "<transaction/>", "</group>"),
        ("<profile><!--", "<a>", "--></profile>"),
        ("", "<!---->", ""),
        ("", "<a>", ""),
        ("", "\n", "<"),
        ("", "=\" \" ", ""),
    ] {
        let repetitions = (512 << 10) / repeated.len();
        let text = format!("{prefix}{}{suffix}", repeated.repeat(repetitions));
        let parsed = parse_text(&text);
        assert!(parsed.notes.len() <= 210);
    }
    // The parser compares the attributes of an element with each other.
    let mut text = "<profile".to_owned();
    for k in 0..300_000 {
        text.extend([" a", &k.to_string(), "=''"]);
    }
    assert!(parse_text(&(text + "/>")).workorder.is_none());
}
