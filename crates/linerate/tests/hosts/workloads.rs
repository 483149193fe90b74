//! The workloads between three hosts, shortened: each runs, and what one end sent the other has received.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::Need::Namespaces;
use testkit::{Finished, Trial, unless};

use super::ground::{Hosts, address};

/// Longer than any of these runs, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for path in workloads() {
        let profile = std::fs::read_to_string(&path).expect("a profile");
        let protocols: &[&str] = if profile.contains("protocol=$proto") {
            &["tcp", "udp"]
        } else {
            &["tcp"]
        };
        for protocol in protocols {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let profile = profile.replace("$proto", protocol);
            let test = move || {
                runs(&profile);
                Ok(())
            };
            let name = format!("workloads::{name}::{protocol}");
            trials.push(unless(Namespaces.missing(), name, test));
        }
    }
    assert!(trials.len() >= 14, "{} workloads", trials.len());
    trials
}

fn workloads() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let entries = std::fs::read_dir(directory).expect("the workloads");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    paths.sort();
    paths
}

fn runs(profile: &str) {
    let hosts = Hosts::new(2);
    let _slaves = [hosts.slave(0, ""), hosts.slave(1, "")];
    // Two of the services of a fan-out are on one host, at an address each.
    hosts.slaves[1].ip("address add 198.18.1.3/24 dev eth0");
    let shortened = profile
        .replace("\"30s\"", "\"1s\"")
        .replace("\"1000\"", "\"50\"")
        .replace("\"500\"", "\"100\"")
        .replace("$nthr", "4")
        .replace("$iter", "50")
        .replace("$h3", "198.18.1.3");
    let ended = hosts.run("-a", &shortened).ends_within(LIMIT);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(!ended.stdout.contains("Error for"), "{ended:#?}");
    let master = line(&ended, "master");
    let slave = line(&ended, &address(0));
    assert_ne!(slave.operations, 0, "{ended:#?}");
    let difference = line_of_difference(&ended);
    let has_answers = profile.contains("$h2") || profile.contains("\"read\"");
    if profile.contains("protocol=udp") && !has_answers {
        // What is lost is lost, and nothing is won.
        assert!(difference >= 0.0, "{ended:#?}");
    } else if profile.contains("name=\"two-hosts\"") {
        // A slave that sends goes on until its own time is up, with nobody who reads.
        assert!(difference <= 0.0, "{ended:#?}");
    } else if has_answers {
        // The last answers of all strands may be on their way.
        assert!(difference.abs() < 1.0, "{ended:#?}");
    } else {
        // The slave has received all of it, and what left while the master's strands came to their end.
        assert!((-10.0..=0.0).contains(&difference), "{ended:#?}");
        assert!(slave.operations >= master.operations, "{ended:#?}");
    }
}

/// What Run Statistics has of a host.
struct Line {
    operations: u64,
}

#[track_caller]
fn line(ended: &Finished, host: &str) -> Line {
    let words = words(ended, host);
    Line {
        operations: words[4].parse().expect("a number"),
    }
}

/// How much more the master has moved than its slaves, in percent.
#[track_caller]
fn line_of_difference(ended: &Finished) -> f64 {
    let words = words(ended, "Difference");
    words[2].trim_end_matches('%').parse().expect("a number")
}

#[track_caller]
fn words(ended: &Finished, first: &str) -> Vec<String> {
    let report = ended
        .stdout
        .split("Run Statistics")
        .nth(1)
        .unwrap_or_default();
    let line = report.lines().find(|line| line.starts_with(first));
    let line = line.unwrap_or_else(|| panic!("no line of {first}: {ended:#?}"));
    line.split_whitespace().map(str::to_owned).collect()
}
