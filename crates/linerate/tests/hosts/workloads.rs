//! Shortened workloads between three hosts. Each succeeds, and the ends agree on the moved data.

use std::time::Duration;

use testkit::Requirement::Namespaces;
use testkit::{TestCase, read_profiles, test_case_unless};

use super::network::{Hosts, slave_address};

/// Timeout of a run on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

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
            let run = move || {
                check_workload(&profile);
                Ok(())
            };
            let name = format!("workloads::{name}::{protocol}");
            test_cases.push(test_case_unless(Namespaces.missing_reason(), name, run));
        }
    }
    assert!(test_cases.len() >= 14, "{} workloads", test_cases.len());
    test_cases
}

fn check_workload(profile: &str) {
    let hosts = Hosts::new(2);
    let _slaves = [hosts.start_slave(0, ""), hosts.start_slave(1, "")];
    // Two services of a fan-out share a host, with one address each.
    hosts.slaves[1].ip("address add 198.18.1.3/24 dev eth0");
    let shortened = profile
        .replace("\"30s\"", "\"1s\"")
        .replace("\"1000\"", "\"50\"")
        .replace("\"500\"", "\"100\"")
        .replace("$nthr", "4")
        .replace("$iter", "50")
        .replace("$h3", "198.18.1.3");
    let output = hosts
        .start_master("-a", &shortened)
        .finish_within(RUN_TIMEOUT);
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert!(!output.stdout.contains("Error for"), "{output:#?}");
    let operations = |host: &str| -> u64 {
        let columns = output.statistics(host);
        columns[4].parse().expect("a number")
    };
    assert_ne!(operations(&slave_address(0)), 0, "{output:#?}");
    // Surplus of the master's data over its slaves' data, in percent.
    let difference = &output.statistics("Difference")[2];
    let difference: f64 = difference.trim_end_matches('%').parse().expect("a number");
    let has_answers = profile.contains("$h2") || profile.contains("\"read\"");
    if profile.contains("protocol=udp") && !has_answers {
        // The master counts lost datagrams; the slave does not.
        assert!(difference >= 0.0, "{output:#?}");
    } else if profile.contains("name=\"two-hosts\"") {
        // A sending slave continues until its own deadline, even if the master no longer reads.
        assert!(difference <= 0.0, "{output:#?}");
    } else if has_answers {
        // The last answers of all strands may still be in flight.
        assert!(difference.abs() < 1.0, "{output:#?}");
    } else {
        // The slave also receives data that the master's strands send while they end. On a busy
        // host, which moves little data per second, the socket buffers are a large part of it.
        assert!((-50.0..=0.0).contains(&difference), "{output:#?}");
        assert!(
            operations(&slave_address(0)) >= operations("master"),
            "{output:#?}"
        );
    }
}
