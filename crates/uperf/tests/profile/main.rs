//! Tests of the profile parser with real profiles.

mod rules;
mod samples;
mod workloads;
mod xml;

use uperf::profile::{Note, ParsedProfile, ProfileContext, ProfileSource, Severity, parse};

/// Returns the value of an environment variable that the profiles use.
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

/// Parses a profile with these variables. `sf` is the only directory.
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
    let has_error = parsed
        .notes
        .iter()
        .any(|note| note.severity == Severity::Error);
    assert_eq!(parsed.workorder.is_none(), has_error, "{parsed:?}");
    for note in &parsed.notes {
        let has_assumption =
            note.severity == Severity::Warning && !note.text.ends_with("are not shown");
        assert_eq!(note.assumed.is_some(), has_assumption, "{note:?}");
        if note.severity == Severity::Warning {
            // Scripts report a failure if the output contains this word.
            let line = note.format_line("p.xml").to_lowercase();
            assert!(!line.contains("error"), "{line}");
        }
    }
    parsed
}

fn parse_text(text: &str) -> ParsedProfile {
    parse_with(text.as_bytes(), &environment)
}

/// Returns `line:column: severity: text (assumed …)` for each note.
fn format_notes(notes: &[Note]) -> Vec<String> {
    let lines = notes.iter().map(|note| note.format_line("p"));
    lines.map(|line| line[2..].to_owned()).collect()
}

/// Returns a profile with these flowops in the second transaction, from line 7 on.
fn profile_with_flowops(flowops: &str) -> String {
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
