//! Strands that are processes (`nprocs=`).

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{LOOPBACK_HOSTS, Profile, Server, TestCase, UperfMaster, wait_until};

use super::{agree, requests};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        each_strand_is_a_process_and_counts,
        a_process_that_is_killed_is_named_and_the_rest_ends,
        nothing_is_left_of_a_master_that_is_killed_or_interrupted,
        a_process_that_is_killed_at_a_barrier_ends_the_run,
        processes_end_with_their_time_and_say_what_they_did,
    ]
}

const SOON: Duration = Duration::from_secs(10);

fn with_processes() -> String {
    requests().replace("nthreads=\"2\"", "nprocs=\"3\"")
}

/// A run that does not end by itself, with its three processes at each end.
struct Run {
    slave: Server,
    master: UperfMaster,
}

impl Run {
    fn begin() -> Self {
        let slave = Server::start_slave("");
        let profile = with_processes().replace("iterations=\"500\"", "duration=\"60s\"");
        let master = UperfMaster::start(slave.port, "", &LOOPBACK_HOSTS, &profile);
        master.wait_for_stdout(|said| said.contains("Txn2"));
        let run = Self { slave, master };
        assert_eq!(children(run.master.pid()).len(), 3);
        assert_eq!(children(run.slave.pid()).len(), 3);
        run
    }

    /// The slave has nothing of it any more, and serves.
    fn is_over(&self) {
        let is_alone = || children(self.slave.pid()).is_empty();
        assert!(wait_until(SOON, is_alone), "the slave's processes go on");
        agree(&self.slave.run_profile("", &requests()));
    }
}

fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        list.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    lists.flat_map(numbers).collect()
}

fn kill(process: u32) {
    let process = Pid::from_raw(process as i32).expect("a process");
    kill_process(process, Signal::KILL).expect("it is ours");
}

fn is_gone(process: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{process}")).exists()
}

fn each_strand_is_a_process_and_counts() {
    let slave = Server::start_slave("");
    for opens in ["\"connect\"", "\"accept\""] {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let profile = with_processes().replace("\"connect\"", opens);
        let ended = slave.run_profile(&format!("-a -f -X {}", file.path().display()), &profile);
        agree(&ended);
        assert!(ended.stdout.contains("Starting 3 processes"), "{ended:?}");
        let text = std::fs::read_to_string(file.path()).expect("it was written");
        let processes = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let processes: BTreeSet<&str> = processes.collect();
        assert_eq!(processes.len(), 3, "{processes:?}");
        assert_eq!(text.lines().count(), 3 * (1 + 2 * 500 + 1));
    }
}

fn a_process_that_is_killed_is_named_and_the_rest_ends() {
    let mut run = Run::begin();
    let processes = children(run.master.pid());
    kill(processes[1]);
    assert!(wait_until(SOON, || !run.master.is_running()));
    assert!(processes.iter().all(|process| is_gone(*process)));
    run.is_over();
    let ended = run.master.finish_within(SOON);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = format!("process {} of a strand is gone: signal: 9", processes[1]);
    assert!(ended.stdout.contains(&words), "{ended:?}");
}

fn nothing_is_left_of_a_master_that_is_killed_or_interrupted() {
    for signal in [Signal::KILL, Signal::INT] {
        let mut run = Run::begin();
        let processes = children(run.master.pid());
        run.master.signal(signal);
        let ends = wait_until(SOON, || {
            !run.master.is_running() && processes.iter().all(|process| is_gone(*process))
        });
        assert!(ends, "{signal:?}");
        run.is_over();
    }
}

/// Nobody reads of its end while it waits; it is found out when it is to go on.
fn a_process_that_is_killed_at_a_barrier_ends_the_run() {
    let slave = Server::start_slave("");
    let profile = Profile::new("waits")
        .group("nprocs=2")
        .single_flowop("connect remotehost=$h protocol=tcp")
        .transaction("duration=60s", &["write size=90"])
        .group("nthreads=1")
        .transaction(
            "iterations=1",
            &["connect remotehost=$h protocol=tcp", "think duration=2s"],
        )
        .transaction("duration=60s", &["write size=90"])
        .text();
    let master = UperfMaster::start(slave.port, "", &LOOPBACK_HOSTS, &profile);
    master.wait_for_stdout(|said| said.contains("Txn1"));
    let processes = children(master.pid());
    kill(processes[0]);
    let ended = master.finish_within(Duration::from_secs(20));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = format!("process {} of a strand is gone: signal: 9", processes[0]);
    assert!(ended.stdout.contains(&words), "{ended:?}");
    assert!(processes.iter().all(|process| is_gone(*process)));
    agree(&slave.run_profile("", &requests()));
}

fn processes_end_with_their_time_and_say_what_they_did() {
    let profile = with_processes().replace("iterations=\"500\"", "duration=\"1s\"");
    let ended = Server::start_slave("").run_profile("-a -f -H stdout", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for line in ["3 strands within", "99th", "connect"] {
        assert!(ended.stdout.contains(line), "{line}: {ended:?}");
    }
}
