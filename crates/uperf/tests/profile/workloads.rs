//! Each profile in `workloads/` has a comment that describes it, and parses without notes.

use std::fs;
use std::path::Path;

use super::{environment, format_notes, parse_with};

#[test]
fn every_workload_parses_without_notes() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).expect("the directory exists") {
        let path = entry.expect("the profile is readable").path();
        if path.extension().is_none_or(|extension| extension != "xml") {
            continue;
        }
        let text = fs::read(&path).expect("the profile is readable");
        let parsed = parse_with(&text, &environment);
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        assert_eq!(format_notes(&parsed.notes), [""; 0], "{name}");
        let workorder = parsed.workorder.expect("the profile has no errors");
        assert_eq!(workorder.name, name);
        let header = "<?xml version=\"1.0\"?>\n<!--\n  ";
        assert!(
            text.starts_with(header.as_bytes()),
            "{name} has no comment that describes it"
        );
        names.push(name);
    }
    names.sort();
    let expected = [
        "churn",
        "connect",
        "iperf",
        "netperf",
        "rpc-fan-out",
        "small-writes",
        "storage-replication",
        "tls-handshakes",
        "two-hosts",
        "udp-telemetry",
        "video",
        "web",
    ];
    assert_eq!(names, expected);
}
