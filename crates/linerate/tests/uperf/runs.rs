//! Successful runs: connections, datagrams, groups, files and workloads.

use testkit::{Profile, Server, TestCase, read_profiles, short_path_dir};

use super::{assert_ends_agree, request_profile};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        counts_requests_and_responses,
        master_listens_for_connections,
        repeats_udp_runs,
        counts_reopened_connections,
        duration_ends_run,
        uses_connections_per_host,
        groups_run_concurrently_and_end_independently,
        sends_whole_files,
        runs_all_workloads,
    ]
}

fn counts_requests_and_responses() {
    let slave = Server::start_slave("");
    let output = slave.run_profile("-a", &request_profile());
    assert_ends_agree(&output);
    let master = output.statistics("master");
    // Each of two strands: a connect, 500 × (4 writes and a read), a disconnect.
    assert_eq!(master[4], "5004", "{output:?}");
    assert_eq!(master[2], "445.31KB", "{output:?}");
    for line in [
        "Starting 2 threads running profile:requests ...",
        "Group0",
        "Thr1",
        "Txn1 ",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output:?}");
    }
}

fn master_listens_for_connections() {
    let profile = request_profile().replace("\"connect\"", "\"accept\"");
    assert_ends_agree(&Server::start_slave("").run_profile("", &profile));
}

fn repeats_udp_runs() {
    let profile = request_profile()
        .replace("protocol=tcp tcp_nodelay", "protocol=udp")
        .replace("size=200", "size=200 timeout=500ms canfail");
    let slave = Server::start_slave("");
    assert_ends_agree(&slave.run_profile("", &profile));
    // The slave can open its listener again.
    assert_ends_agree(&slave.run_profile("", &profile));
}

fn counts_reopened_connections() {
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
    let output = Server::start_slave("").run_profile("-f -t", &profile);
    assert_ends_agree(&output);
    assert_eq!(output.statistics("master")[4], "1800", "{output:?}");
}

fn duration_ends_run() {
    let profile = request_profile()
        .replace("iterations=\"500\"", "duration=\"1s\"")
        .replace("requests", "a-b-c-d-e");
    let output = Server::start_slave("").run_profile("-R -a -v -i 1", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    let samples: Vec<&str> = output
        .stdout
        .lines()
        .filter(|line| line.starts_with("timestamp_ms:") && line.contains("name:Txn2 "))
        .collect();
    assert!(samples.len() >= 2, "{output:?}");
    let last = samples.last().and_then(|line| line.split("nr_ops:").nth(1));
    let operations: u64 = last.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    assert!(operations > 100, "{output:?}");
}

fn uses_connections_per_host() {
    // The transfers do not name their hosts.
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
    let output = Server::start_slave("").run_profile("", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.statistics("127.0.0.1")[2], "14.65KB");
    assert_eq!(output.statistics("127.0.0.2")[2], "14.65KB");
    assert_eq!(output.statistics("master")[2], "29.30KB");
}

fn groups_run_concurrently_and_end_independently() {
    // The last transactions have different lengths, with which stock hangs.
    let mut profile = Profile::new("groups");
    for (name, duration) in [("short", "300ms"), ("long", "900ms")] {
        profile = profile
            .group(&format!("nthreads=2 name={name}"))
            .single_flowop("connect remotehost=$h protocol=tcp")
            .transaction(&format!("duration={duration}"), &["write size=8k"]);
    }
    let profile = profile.text();
    let output = Server::start_slave("").run_profile("-g", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("\nshort"), "{output:?}");
}

/// Files longer than one read of a slave, several files per execution, and files of different
/// lengths. All bytes arrive in each iteration, and the run ends.
fn sends_whole_files() {
    let slave = Server::start_slave("");
    for (lengths, flowop, bytes) in [
        (&[65_536][..], "sendfile", "640.00KB"),
        (&[5_000_000], "sendfile", "47.68MB"),
        (&[100_000], "sendfilev nfiles=3", "2.86MB"),
        (&[1000], "sendfile size=100", "9.77KB"),
        (&[100, 900_000], "sendfile", "4.29MB"),
        (&[100, 900_000], "sendfilev nfiles=2", "8.58MB"),
    ] {
        let directory = short_path_dir();
        for (number, length) in lengths.iter().enumerate() {
            let file = directory.path().join(number.to_string());
            std::fs::write(file, vec![7; *length]).expect("a writable directory");
        }
        let (kind, options) = flowop.split_once(' ').unwrap_or((flowop, ""));
        let flowop = format!("{kind} dir={} {options}", directory.path().display());
        let profile = Profile::new("files")
            .group("nthreads=1")
            .single_flowop("connect remotehost=$h protocol=tcp")
            .transaction("iterations=10", &[&flowop])
            .text();
        let output = slave.run_profile("", &profile);
        assert_eq!(output.code, Some(0), "{output:?}");
        for end in ["127.0.0.1", "master"] {
            let moved = &output.statistics(end)[2];
            assert_eq!(moved, bytes, "{flowop} {lengths:?} {end}: {output:?}");
        }
    }
}

/// Each workload succeeds in a shortened form, with one slave for all hosts.
fn runs_all_workloads() {
    let slave = Server::start_slave("");
    let workloads = read_profiles("workloads");
    for (name, profile) in &workloads {
        let profile = profile
            .replace("\"30s\"", "\"500ms\"")
            .replace("\"1000\"", "\"50\"")
            .replace("\"250\"", "\"50\"");
        let output = slave.run_profile("-a", &profile);
        assert_eq!(output.code, Some(0), "{name}: {output:?}");
        let has_failed = output.stdout.contains("Errors detected");
        assert!(!has_failed, "{name}: {output:?}");
        assert_ne!(output.statistics("127.0.0.1")[4], "0", "{name}: {output:?}");
    }
    assert_eq!(workloads.len(), 12);
}
