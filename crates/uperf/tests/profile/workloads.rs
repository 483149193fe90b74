//! The profiles of `workloads/`: each says what it models, and checks without a word of warning.

use std::fs;
use std::path::Path;

use super::{environment, lines, parse_with};

#[test]
fn every_workload_checks() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).expect("workloads") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "xml") {
            continue;
        }
        let text = fs::read(&path).expect("readable");
        let parsed = parse_with(&text, &environment);
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        assert_eq!(lines(&parsed.notes), [""; 0], "{name}");
        let workorder = parsed.workorder.expect("it has no errors");
        assert_eq!(workorder.name, name);
        let header = "<?xml version=\"1.0\"?>\n<!--\n  ";
        assert!(
            text.starts_with(header.as_bytes()),
            "{name} says what it models"
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
