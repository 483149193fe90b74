//! Profiles as they are in use, and what becomes of them.

mod rules;
mod samples;
mod workloads;
mod xml;

use uperf::profile::{Note, ParsedProfile, ProfileContext, ProfileSource, Severity, parse};

/// The value of each environment variable that the profiles name.
fn environment(name: &str) -> Option<String> {
    let value = match name {
        "h" | "h1" | "first" | "remotehost" | "host1" | "hostlo1" => "127.0.0.1",
        "h2" | "second" => "127.0.0.2",
        "h3" => "127.0.0.3",
        "h4" => "127.0.0.4",
        "proto" | "protocol" => "tcp",
        "nthr" | "nth" | "threads" | "nthreads" | "conn" => "2",
        "iter" | "n" => "3",
        "dur" | "duration" => "10",
        "wsize" | "msg_w" => "8k",
        "rsize" | "msg_r" => "64",
        "think" => "0.001",
        "port" => "30002",
        _ => return None,
    };
    Some(value.to_owned())
}

/// With these variables, and with no directory but `sf`.
fn parse_with(text: &[u8], environment: &dyn Fn(&str) -> Option<String>) -> ParsedProfile {
    let directory = |name: &str| match name {
        "sf" => Ok(()),
        _ => Err("No such file or directory".to_owned()),
    };
    let source = ProfileSource {
        name: "p.xml",
        bytes: text,
    };
    let context = ProfileContext {
        environment,
        directory: &directory,
    };
    let parsed = parse(&source, &context);
    let failed = parsed
        .notes
        .iter()
        .any(|note| note.severity == Severity::Error);
    assert_eq!(parsed.workorder.is_none(), failed, "{parsed:?}");
    for note in &parsed.notes {
        let assumes = note.severity == Severity::Warning && !note.text.ends_with("are not shown");
        assert_eq!(note.assumed.is_some(), assumes, "{note:?}");
        if note.severity == Severity::Warning {
            // Scripts take this word in the output for a failure.
            let line = note.format_line("p.xml").to_lowercase();
            assert!(!line.contains("error"), "{line}");
        }
    }
    parsed
}

fn parsed(text: &str) -> ParsedProfile {
    parse_with(text.as_bytes(), &environment)
}

/// `line:column: severity: text (assumed …)` of each note.
fn lines(notes: &[Note]) -> Vec<String> {
    let lines = notes.iter().map(|note| note.format_line("p"));
    lines.map(|line| line[2..].to_owned()).collect()
}

/// A profile with these flowops in the second transaction, each line of them from line 7 on.
fn with_flowops(flowops: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n\
         <profile name=\"p\"> <group nthreads=\"1\">\n\
         <transaction>\n\
         <flowop type=\"connect\" options=\"remotehost=a protocol=tcp\"/>\n\
         </transaction>\n\
         <transaction iterations=\"2\">\n\
         {flowops}\n\
         </transaction>\n\
         </group> </profile>\n"
    )
}
