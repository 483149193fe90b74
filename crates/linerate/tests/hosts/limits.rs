//! What a slave does for whom, and no more: each of its limits, as a master meets it.

use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{ProcessOutput, Profile, TestCase, UperfMaster, with_prefix};

use super::ground::{Hosts, SOON, address, master_address, run_on};

/// Longer than any of these runs, on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        strands,
        strands_of_all_masters,
        memory,
        length,
        masters,
        peers,
    ];
    with_prefix("limits", test_cases).collect()
}

fn strands() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--max-strands 4");
    let rest = slave.at_rest();
    let words = "5 strands: this slave accepts at most 4";
    is_refused(
        &stream(&hosts, 5, "size=64", "1s").finish_within(LIMIT),
        words,
    );
    slave.is_itself_again(rest, SOON, "too many strands");
}

/// One that runs leaves the others what it has not taken.
fn strands_of_all_masters() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--max-strands 4");
    let rest = slave.at_rest();
    let first = stream(&hosts, 3, "size=64", "3s");
    first.wait_for_stdout(|said| said.contains("Txn2"));
    let second = stream(&hosts, 2, "size=64", "1s").finish_within(LIMIT);
    is_refused(&second, "2 strands: other masters leave 1");
    let third = stream(&hosts, 1, "size=64", "100ms").finish_within(LIMIT);
    assert_eq!(third.code, Some(0), "{third:#?}");
    let first = first.finish_within(LIMIT);
    assert_eq!(first.code, Some(0), "{first:#?}");
    slave.is_itself_again(rest, SOON, "the first one's end");
}

fn memory() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--max-memory 1m");
    let rest = slave.at_rest();
    is_refused(
        &stream(&hosts, 3, "size=512k", "1s").finish_within(LIMIT),
        "3 strands with buffers of 524288 bytes: this slave accepts at most 1048576 bytes in all",
    );
    let less = stream(&hosts, 2, "size=300k", "100ms").finish_within(LIMIT);
    assert_eq!(less.code, Some(0), "{less:#?}");
    slave.is_itself_again(rest, SOON, "too much memory");
}

fn length() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--max-length 2");
    let rest = slave.at_rest();
    let words = "transaction 2: a duration of 5s: this slave accepts at most 2s";
    is_refused(
        &stream(&hosts, 1, "size=64", "5s").finish_within(LIMIT),
        words,
    );
    let twice = r#"<transaction duration="1500ms">"#;
    let twice = profile(1, "size=64", "1500ms").replace("<transaction iterations=\"1\">", twice);
    let words = "transactions of 4.5s in all: this slave accepts at most 2s";
    is_refused(&hosts.run("", &twice).finish_within(LIMIT), words);
    slave.is_itself_again(rest, SOON, "a long transaction");
}

fn masters() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--max-masters 1");
    let rest = slave.at_rest();
    let first = stream(&hosts, 1, "size=64", "2s");
    first.wait_for_stdout(|said| said.contains("Txn2"));
    let second = stream(&hosts, 1, "size=64", "1s").finish_within(LIMIT);
    assert_eq!(second.code, Some(1), "{second:#?}");
    let said = format!("uperf: {} was lost in phase 1: ", address(0));
    assert!(second.stderr.starts_with(&said), "{second:#?}");
    let first = first.finish_within(LIMIT);
    assert_eq!(first.code, Some(0), "{first:#?}");
    slave.is_itself_again(rest, SOON, "the one master's end");
}

/// Of two hosts that reach it, one may not.
fn peers() {
    let hosts = Hosts::new(2);
    let slave = hosts.slave(0, &format!("--allow-peers {}/32", master_address(0)));
    let rest = slave.at_rest();
    hosts.slaves[1].ip("route add 198.18.0.0/24 via 198.18.1.1");
    hosts.slaves[0].ip("route add 198.18.1.0/24 via 198.18.0.1");
    hosts
        .master
        .enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))
        .expect("root may");
    let begun = Instant::now();
    let stranger = run_on(&hosts.slaves[1], "", &profile(1, "size=64", "1s"));
    let stranger = stranger.finish_within(LIMIT);
    assert_eq!(stranger.code, Some(1), "{stranger:#?}");
    let said = format!("uperf: {} was lost in phase 1: ", address(0));
    assert!(stranger.stderr.starts_with(&said), "{stranger:#?}");
    assert!(begun.elapsed() < SOON, "it is not turned away at once");
    slave.is_itself_again(rest, SOON, "a stranger");
    // The same host, asked by one who may.
    drop(slave);
    let _slave = hosts.slave(0, "--allow-peers 198.18.0.0/15");
    let friend = run_on(&hosts.slaves[1], "", &profile(1, "size=64", "100ms"));
    let friend = friend.finish_within(LIMIT);
    assert_eq!(friend.code, Some(0), "{friend:#?}");
}

#[track_caller]
fn is_refused(ended: &ProcessOutput, words: &str) {
    let host = address(0);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    for line in [
        format!("Error while handshaking phase 2 with {host}\n"),
        format!("{host} says: {words}\n"),
        format!("error handshaking with {host}\n"),
    ] {
        assert!(ended.stdout.contains(&line), "no {line}: {ended:#?}");
    }
}

fn stream(hosts: &Hosts, threads: u32, size: &str, duration: &str) -> UperfMaster {
    hosts.run("", &profile(threads, size, duration))
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
