//! The limits of a slave, and the errors that its masters report.

use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{ProcessOutput, Profile, TestCase, UperfMaster, with_prefix};

use super::network::{Hosts, SHORT_TIMEOUT, master_address, slave_address, start_master_on};

/// Timeout of a run on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        refuses_excess_strands,
        refuses_excess_strands_of_all_masters,
        refuses_excess_memory,
        refuses_long_runs,
        refuses_excess_masters,
        refuses_disallowed_peers,
    ];
    with_prefix("limits", test_cases).collect()
}

fn refuses_excess_strands() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--max-strands 4");
    let idle_usage = slave.idle_usage();
    let expected = "5 strands: this slave accepts at most 4";
    assert_refused(
        &start_stream(&hosts, 5, "size=64", "1s").finish_within(RUN_TIMEOUT),
        expected,
    );
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "too many strands");
}

/// A running master leaves the remaining strands to other masters.
fn refuses_excess_strands_of_all_masters() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--max-strands 4");
    let idle_usage = slave.idle_usage();
    let first = start_stream(&hosts, 3, "size=64", "3s");
    first.wait_for_stdout(|stdout| stdout.contains("Txn2"));
    let second = start_stream(&hosts, 2, "size=64", "1s").finish_within(RUN_TIMEOUT);
    assert_refused(&second, "2 strands requested: other masters use all but 1");
    let third = start_stream(&hosts, 1, "size=64", "100ms").finish_within(RUN_TIMEOUT);
    assert_eq!(third.code, Some(0), "{third:#?}");
    let first = first.finish_within(RUN_TIMEOUT);
    assert_eq!(first.code, Some(0), "{first:#?}");
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "the end of the first master");
}

fn refuses_excess_memory() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--max-memory 1m");
    let idle_usage = slave.idle_usage();
    assert_refused(
        &start_stream(&hosts, 3, "size=512k", "1s").finish_within(RUN_TIMEOUT),
        "3 strands with buffers of 524288 bytes: this slave accepts at most 1048576 bytes in all",
    );
    let smaller = start_stream(&hosts, 2, "size=300k", "100ms").finish_within(RUN_TIMEOUT);
    assert_eq!(smaller.code, Some(0), "{smaller:#?}");
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "too much memory");
}

fn refuses_long_runs() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--max-length 2");
    let idle_usage = slave.idle_usage();
    let expected = "transaction 2: a duration of 5s: this slave accepts at most 2s";
    assert_refused(
        &start_stream(&hosts, 1, "size=64", "5s").finish_within(RUN_TIMEOUT),
        expected,
    );
    let duration = r#"<transaction duration="1500ms">"#;
    let three_durations =
        profile(1, "size=64", "1500ms").replace("<transaction iterations=\"1\">", duration);
    let expected = "transactions of 4.5s in all: this slave accepts at most 2s";
    assert_refused(
        &hosts
            .start_master("", &three_durations)
            .finish_within(RUN_TIMEOUT),
        expected,
    );
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "a long transaction");
}

fn refuses_excess_masters() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--max-masters 1");
    let idle_usage = slave.idle_usage();
    let first = start_stream(&hosts, 1, "size=64", "2s");
    first.wait_for_stdout(|stdout| stdout.contains("Txn2"));
    let second = start_stream(&hosts, 1, "size=64", "1s").finish_within(RUN_TIMEOUT);
    assert_eq!(second.code, Some(1), "{second:#?}");
    let reason = "refuses phase 1: the maximum of 1 client is reached";
    let expected = format!("uperf: {} {reason}\n", slave_address(0));
    assert_eq!(second.stderr, expected, "{second:#?}");
    let first = first.finish_within(RUN_TIMEOUT);
    assert_eq!(first.code, Some(0), "{first:#?}");
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "the end of the only master");
}

/// The slave refuses one of two hosts that can reach it.
fn refuses_disallowed_peers() {
    let hosts = Hosts::new(2);
    let slave = hosts.start_slave(0, &format!("--allow-peers {}/32", master_address(0)));
    let idle_usage = slave.idle_usage();
    hosts.slaves[1].ip("route add 198.18.0.0/24 via 198.18.1.1");
    hosts.slaves[0].ip("route add 198.18.1.0/24 via 198.18.0.1");
    hosts
        .master
        .enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))
        .expect("root can write sysctls");
    let start = Instant::now();
    let stranger = start_master_on(&hosts.slaves[1], "", &profile(1, "size=64", "1s"));
    let stranger = stranger.finish_within(RUN_TIMEOUT);
    assert_eq!(stranger.code, Some(1), "{stranger:#?}");
    let expected = format!("uperf: {} refuses phase 1: ", slave_address(0));
    assert!(stranger.stderr.starts_with(&expected), "{stranger:#?}");
    assert!(
        start.elapsed() < SHORT_TIMEOUT,
        "the slave refuses too late"
    );
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "a stranger");
    // The same master is accepted by a slave that allows it.
    drop(slave);
    let _slave = hosts.start_slave(0, "--allow-peers 198.18.0.0/15");
    let allowed = start_master_on(&hosts.slaves[1], "", &profile(1, "size=64", "100ms"));
    let allowed = allowed.finish_within(RUN_TIMEOUT);
    assert_eq!(allowed.code, Some(0), "{allowed:#?}");
}

#[track_caller]
fn assert_refused(output: &ProcessOutput, reason: &str) {
    let host = slave_address(0);
    assert_eq!(output.code, Some(1), "{output:#?}");
    for line in [
        format!("Error while handshaking phase 2 with {host}\n"),
        format!("{host} says: {reason}\n"),
        format!("error handshaking with {host}\n"),
    ] {
        assert!(output.stdout.contains(&line), "no {line}: {output:#?}");
    }
}

fn start_stream(hosts: &Hosts, threads: u32, size: &str, duration: &str) -> UperfMaster {
    hosts.start_master("", &profile(threads, size, duration))
}

fn profile(threads: u32, size: &str, duration: &str) -> String {
    let write = format!("write {size}");
    Profile::new("stream")
        .group(&format!("nthreads={threads}"))
        .single_flowop("connect remotehost=$h protocol=tcp")
        .transaction(&format!("duration={duration} rate=100"), &[&write])
        .single_flowop("disconnect")
        .text()
}
