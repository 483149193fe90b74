//! Strands that run as processes (`nprocs=`).

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{LOOPBACK_HOSTS, Profile, Server, TestCase, UperfMaster, wait_until};

use super::{assert_ends_agree, request_profile};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        runs_each_strand_in_its_own_process,
        reports_killed_process_and_ends_others,
        ends_processes_of_stopped_master,
        ends_run_if_process_is_killed_at_barrier,
        ends_processes_at_deadline_and_prints_statistics,
    ]
}

/// Timeout for an operation that is fast on an idle machine.
const SHORT_TIMEOUT: Duration = Duration::from_secs(10);

fn process_profile() -> String {
    request_profile().replace("nthreads=\"2\"", "nprocs=\"3\"")
}

/// An endless run with three processes at each end.
struct Run {
    slave: Server,
    master: UperfMaster,
}

impl Run {
    fn start() -> Self {
        let slave = Server::start_slave("");
        let profile = process_profile().replace("iterations=\"500\"", "duration=\"60s\"");
        let master = UperfMaster::start(slave.port, "", &LOOPBACK_HOSTS, &profile);
        master.wait_for_stdout(|stdout| stdout.contains("Txn2"));
        let run = Self { slave, master };
        assert_eq!(children(run.master.pid()).len(), 3);
        assert_eq!(children(run.slave.pid()).len(), 3);
        run
    }

    /// Checks that the slave has no processes left and serves the next run.
    fn assert_is_over(&self) {
        let is_idle = || children(self.slave.pid()).is_empty();
        assert!(
            wait_until(SHORT_TIMEOUT, is_idle),
            "the slave's processes still run"
        );
        assert_ends_agree(&self.slave.run_profile("", &request_profile()));
    }
}

fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let parse = |list: String| -> Vec<u32> {
        list.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    lists.flat_map(parse).collect()
}

fn kill(process: u32) {
    let process = Pid::from_raw(process as i32).expect("a process");
    kill_process(process, Signal::KILL).expect("permission to kill");
}

fn is_gone(process: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{process}")).exists()
}

fn runs_each_strand_in_its_own_process() {
    let slave = Server::start_slave("");
    for flowop in ["\"connect\"", "\"accept\""] {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let profile = process_profile().replace("\"connect\"", flowop);
        let output = slave.run_profile(&format!("-a -f -X {}", file.path().display()), &profile);
        assert_ends_agree(&output);
        assert!(output.stdout.contains("Starting 3 processes"), "{output:?}");
        let text = std::fs::read_to_string(file.path()).expect("linerate wrote the file");
        let processes = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let processes: BTreeSet<&str> = processes.collect();
        assert_eq!(processes.len(), 3, "{processes:?}");
        assert_eq!(text.lines().count(), 3 * (1 + 2 * 500 + 1));
    }
}

fn reports_killed_process_and_ends_others() {
    let mut run = Run::start();
    let processes = children(run.master.pid());
    kill(processes[1]);
    assert!(wait_until(SHORT_TIMEOUT, || !run.master.is_running()));
    assert!(processes.iter().all(|process| is_gone(*process)));
    run.assert_is_over();
    let output = run.master.finish_within(SHORT_TIMEOUT);
    assert_eq!(output.code, Some(1), "{output:?}");
    let expected = format!("process {} of a strand is gone: signal: 9", processes[1]);
    assert!(output.stdout.contains(&expected), "{output:?}");
}

fn ends_processes_of_stopped_master() {
    for signal in [Signal::KILL, Signal::INT] {
        let mut run = Run::start();
        let processes = children(run.master.pid());
        run.master.signal(signal);
        let has_ended = wait_until(SHORT_TIMEOUT, || {
            !run.master.is_running() && processes.iter().all(|process| is_gone(*process))
        });
        assert!(has_ended, "{signal:?}");
        run.assert_is_over();
    }
}

/// The master detects the loss when the barrier opens.
fn ends_run_if_process_is_killed_at_barrier() {
    let slave = Server::start_slave("");
    let profile = Profile::new("barrier")
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
    master.wait_for_stdout(|stdout| stdout.contains("Txn1"));
    let processes = children(master.pid());
    kill(processes[0]);
    let output = master.finish_within(Duration::from_secs(20));
    assert_eq!(output.code, Some(1), "{output:?}");
    let expected = format!("process {} of a strand is gone: signal: 9", processes[0]);
    assert!(output.stdout.contains(&expected), "{output:?}");
    assert!(processes.iter().all(|process| is_gone(*process)));
    assert_ends_agree(&slave.run_profile("", &request_profile()));
}

fn ends_processes_at_deadline_and_prints_statistics() {
    let profile = process_profile().replace("iterations=\"500\"", "duration=\"1s\"");
    let output = Server::start_slave("").run_profile("-a -f -H stdout", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    for line in ["3 strands within", "99th", "connect"] {
        assert!(output.stdout.contains(line), "{line}: {output:?}");
    }
}
