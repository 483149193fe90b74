//! The workloads between three hosts, shortened: each runs, and what one end sent the other has received.

use std::time::Duration;

use testkit::Requirement::Namespaces;
use testkit::{TestCase, read_profiles, test_case_unless};

use super::ground::{Hosts, address};

/// Longer than any of these runs, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = Vec::new();
    for (name, profile) in read_profiles("workloads") {
        let protocols: &[&str] = if profile.contains("protocol=$proto") {
            &["tcp", "udp"]
        } else {
            &["tcp"]
        };
        for protocol in protocols {
            let profile = profile.replace("$proto", protocol);
            let test = move || {
                runs(&profile);
                Ok(())
            };
            let name = format!("workloads::{name}::{protocol}");
            test_cases.push(test_case_unless(Namespaces.missing_reason(), name, test));
        }
    }
    assert!(test_cases.len() >= 14, "{} workloads", test_cases.len());
    test_cases
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
    let ended = hosts.run("-a", &shortened).finish_within(LIMIT);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(!ended.stdout.contains("Error for"), "{ended:#?}");
    let operations = |first: &str| -> u64 {
        let words = ended.statistics(first);
        words[4].parse().expect("a number")
    };
    assert_ne!(operations(&address(0)), 0, "{ended:#?}");
    // How much more the master has moved than its slaves, in percent.
    let difference = &ended.statistics("Difference")[2];
    let difference: f64 = difference.trim_end_matches('%').parse().expect("a number");
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
        // The slave has received all of it, and what left while the master's strands came to their end: on a busy host,
        // where a second moves little, the sockets' buffers are a good part of it.
        assert!((-50.0..=0.0).contains(&difference), "{ended:#?}");
        assert!(
            operations(&address(0)) >= operations("master"),
            "{ended:#?}"
        );
    }
}
