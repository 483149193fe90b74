//! Runs that succeed: connections, datagrams, groups, files, and the workloads.

use testkit::{Profile, Server, TestCase, read_profiles, short_directory};

use super::{agree, requests};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        requests_and_responses,
        the_master_listens,
        datagrams_that_may_be_lost,
        connections_again_and_again,
        a_duration_ends_it,
        every_host_has_its_own_connections,
        groups_run_side_by_side_and_end_by_themselves,
        files_are_sent_whole,
        the_workloads_run,
    ]
}

fn requests_and_responses() {
    let slave = Server::start_slave("");
    let ended = slave.run_profile("-a", &requests());
    agree(&ended);
    let master = ended.statistics("master");
    // Two strands: a connect, 500 times 4 writes and a read, a disconnect.
    assert_eq!(master[4], "5004", "{ended:?}");
    assert_eq!(master[2], "445.31KB", "{ended:?}");
    for line in [
        "Starting 2 threads running profile:requests ...",
        "Group0",
        "Thr1",
        "Txn1 ",
    ] {
        assert!(ended.stdout.contains(line), "{line}: {ended:?}");
    }
}

fn the_master_listens() {
    let profile = requests().replace("\"connect\"", "\"accept\"");
    agree(&Server::start_slave("").run_profile("", &profile));
}

fn datagrams_that_may_be_lost() {
    let profile = requests()
        .replace("protocol=tcp tcp_nodelay", "protocol=udp")
        .replace("size=200", "size=200 timeout=500ms canfail");
    let slave = Server::start_slave("");
    agree(&slave.run_profile("", &profile));
    // The slave's listener can be had again.
    agree(&slave.run_profile("", &profile));
}

fn connections_again_and_again() {
    let profile = Profile::new("churn")
        .group("nthreads=3")
        .transaction(
            "iterations=200",
            &[
                "connect remotehost=$h protocol=tcp",
                "write size=1",
                "disconnect",
            ],
        )
        .text();
    let ended = Server::start_slave("").run_profile("-f -t", &profile);
    agree(&ended);
    assert_eq!(ended.statistics("master")[4], "1800", "{ended:?}");
}

fn a_duration_ends_it() {
    let profile = requests()
        .replace("iterations=\"500\"", "duration=\"1s\"")
        .replace("requests", "a-b-c-d-e");
    let ended = Server::start_slave("").run_profile("-R -a -v -i 1", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let samples: Vec<&str> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with("timestamp_ms:") && line.contains("name:Txn2 "))
        .collect();
    assert!(samples.len() >= 2, "{ended:?}");
    let last = samples.last().and_then(|line| line.split("nr_ops:").nth(1));
    let operations: u64 = last.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    assert!(operations > 100, "{ended:?}");
}

fn every_host_has_its_own_connections() {
    // Neither write nor read says whose they are.
    let profile = Profile::new("two")
        .group("nthreads=1")
        .transaction(
            "iterations=1",
            &[
                "connect remotehost=127.0.0.1 protocol=tcp conn=1",
                "connect remotehost=127.0.0.2 protocol=udp conn=2",
            ],
        )
        .transaction(
            "iterations=50",
            &["write size=300 conn=1", "read size=300 conn=2"],
        )
        .transaction("iterations=1", &["disconnect conn=1", "disconnect conn=2"])
        .text();
    let ended = Server::start_slave("").run_profile("", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.statistics("127.0.0.1")[2], "14.65KB");
    assert_eq!(ended.statistics("127.0.0.2")[2], "14.65KB");
    assert_eq!(ended.statistics("master")[2], "29.30KB");
}

fn groups_run_side_by_side_and_end_by_themselves() {
    // Last transactions of different lengths, in which stock hangs.
    let mut profile = Profile::new("groups");
    for (name, duration) in [("short", "300ms"), ("long", "900ms")] {
        profile = profile
            .group(&format!("nthreads=2 name={name}"))
            .single_flowop("connect remotehost=$h protocol=tcp")
            .transaction(&format!("duration={duration}"), &["write size=8k"]);
    }
    let profile = profile.text();
    let ended = Server::start_slave("").run_profile("-g", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("\nshort"), "{ended:?}");
}

/// One longer than what a slave reads at once by stock's rule, several in one execution, and several of different
/// lengths: a number of times, all of them arrive, and the run ends.
fn files_are_sent_whole() {
    let slave = Server::start_slave("");
    for (lengths, flowop, bytes) in [
        (&[65_536][..], "sendfile", "640.00KB"),
        (&[5_000_000], "sendfile", "47.68MB"),
        (&[100_000], "sendfilev nfiles=3", "2.86MB"),
        (&[1000], "sendfile size=100", "9.77KB"),
        (&[100, 900_000], "sendfile", "4.29MB"),
        (&[100, 900_000], "sendfilev nfiles=2", "8.58MB"),
    ] {
        let directory = short_directory();
        for (number, length) in lengths.iter().enumerate() {
            let file = directory.path().join(number.to_string());
            std::fs::write(file, vec![7; *length]).expect("it is ours");
        }
        let (kind, options) = flowop.split_once(' ').unwrap_or((flowop, ""));
        let flowop = format!("{kind} dir={} {options}", directory.path().display());
        let profile = Profile::new("files")
            .group("nthreads=1")
            .single_flowop("connect remotehost=$h protocol=tcp")
            .transaction("iterations=10", &[&flowop])
            .text();
        let ended = slave.run_profile("", &profile);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for end in ["127.0.0.1", "master"] {
            let moved = &ended.statistics(end)[2];
            assert_eq!(moved, bytes, "{flowop} {lengths:?} {end}: {ended:?}");
        }
    }
}

/// Each of them, shortened, with a slave that is three hosts.
fn the_workloads_run() {
    let slave = Server::start_slave("");
    let workloads = read_profiles("workloads");
    for (name, profile) in &workloads {
        let profile = profile
            .replace("\"30s\"", "\"500ms\"")
            .replace("\"1000\"", "\"50\"")
            .replace("\"250\"", "\"50\"");
        let ended = slave.run_profile("-a", &profile);
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        let failed = ended.stdout.contains("Errors detected");
        assert!(!failed, "{name}: {ended:?}");
        assert_ne!(ended.statistics("127.0.0.1")[4], "0", "{name}: {ended:?}");
    }
    assert_eq!(workloads.len(), 12);
}
