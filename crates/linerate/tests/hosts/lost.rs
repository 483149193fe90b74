//! Loss of a slave, the master or the link in each stage of a run. The peer reports the loss and
//! the stage, and all processes release their resources.

use std::time::Duration;

use rustix::process::Signal;
use testkit::Requirement::Namespaces;
use testkit::{ProcessOutput, Profile, TestCase, test_case_unless, wait_until};

use super::network::{Hosts, SHORT_TIMEOUT, Slave, slave_address};
use super::relay::{LimitedRelay, RELAY_PORT};

/// Timeout after the end of a connection, which needs no deadline. A peer waits at most 1 s for a
/// goodbye; the remainder allows for other tests on the machine.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout after the loss of a link, which the peers detect after 30 s.
const LINK_LOSS_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    SlaveKilled,
    SlaveInterrupted,
    MasterKilled,
    MasterInterrupted,
    Link,
}

/// The stage of the run at the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Phase1,
    Phase2,
    Phase3,
    Connect,
    Accept,
    Read,
    Write,
    ReadDatagrams,
    ReadSsl,
    Think,
    Barrier,
    Statistics,
}

use Stage::{
    Accept, Barrier, Connect, Phase1, Phase2, Phase3, Read, ReadDatagrams, ReadSsl, Statistics,
    Think, Write,
};

const STAGES: [Stage; 12] = [
    Phase1,
    Phase2,
    Phase3,
    Connect,
    Accept,
    Read,
    Write,
    ReadDatagrams,
    ReadSsl,
    Think,
    Barrier,
    Statistics,
];

const LOSSES: [Loss; 5] = [
    Loss::Link,
    Loss::SlaveKilled,
    Loss::SlaveInterrupted,
    Loss::MasterKilled,
    Loss::MasterInterrupted,
];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = Vec::new();
    for loss in LOSSES {
        for stage in STAGES {
            let name = format!("lost::{loss:?}::{stage:?}");
            let run = move || {
                lose(loss, stage);
                Ok(())
            };
            test_cases.push(test_case_unless(Namespaces.missing_reason(), name, run));
        }
    }
    for loss in [Loss::Link, Loss::SlaveKilled] {
        let name = format!("lost::{loss:?}::one_of_two_slaves");
        let run = move || {
            lose_one_of_two_slaves(loss);
            Ok(())
        };
        test_cases.push(test_case_unless(Namespaces.missing_reason(), name, run));
    }
    test_cases
}

fn lose(loss: Loss, stage: Stage) {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "-v");
    let idle_usage = slave.idle_usage();
    // The slave prints the steps of each run.
    let steps_before = slave.stdout().len();
    let relay = stage
        .forwarded_bytes()
        .map(|bytes| LimitedRelay::new(&hosts.slaves[0], bytes));
    let port = relay
        .as_ref()
        .map_or(String::new(), |_| format!("-P {RELAY_PORT}"));
    let master = hosts.start_master(&format!("-i 100ms {port}"), &stage.profile());
    if let Some(relay) = &relay {
        relay.wait_until_closed();
    } else {
        let step = match stage {
            Statistics => "RX Command [UPERF_CMD_SEND_STATS, 0]",
            _ => TXN2_STEP,
        };
        wait_for_step(&slave, steps_before, step);
        master.wait_for_stdout(|stdout| stdout.contains("Txn2"));
    }
    let event = format!("{loss:?} in {stage:?}");
    match loss {
        Loss::SlaveKilled | Loss::SlaveInterrupted => {
            slave.signal(loss.signal());
            stage.assert_master_reports(loss, &master.finish_within(CLOSE_TIMEOUT));
            let is_gone = || hosts.slaves[0].processes().is_empty();
            assert!(wait_until(CLOSE_TIMEOUT, is_gone), "{event}");
            drop(slave);
            hosts.start_slave(0, "").assert_serves_run();
        }
        Loss::MasterKilled => {
            master.signal(loss.signal());
            let output = master.finish_within(CLOSE_TIMEOUT);
            assert_eq!(output.signal, Some(loss.signal().as_raw()), "{output:#?}");
            slave.assert_cleaned_up_and_serves(idle_usage, CLOSE_TIMEOUT, &event);
            stage.assert_slave_reports(&slave.stderr());
        }
        Loss::MasterInterrupted => {
            master.signal(loss.signal());
            let output = master.finish_within(CLOSE_TIMEOUT);
            assert_eq!(output.code, Some(2), "{output:#?}");
            assert_eq!(output.stderr, "\nGot SIGINT Aborting ...: Interrupt\n");
            assert!(!output.stdout.contains("lost"), "{event}: {output:#?}");
            slave.assert_cleaned_up_and_serves(idle_usage, CLOSE_TIMEOUT, &event);
        }
        Loss::Link => {
            hosts.cut_link(0);
            stage.assert_master_reports(loss, &master.finish_within(LINK_LOSS_TIMEOUT));
            if relay.is_none() {
                slave.assert_usage_returns_to(LINK_LOSS_TIMEOUT, idle_usage, &event);
                // In these stages the slave fails for another reason: a connection cannot be
                // opened, a datagram has no route, or the last strands end.
                if !matches!(stage, Connect | Accept | ReadDatagrams | Statistics) {
                    stage.assert_slave_reports(&slave.stderr());
                }
            }
            hosts.restore_link(0);
            if relay.is_none() {
                slave.assert_cleaned_up_and_serves(idle_usage, CLOSE_TIMEOUT, &event);
            }
        }
    }
    assert!(hosts.master.processes().is_empty(), "{event}");
}

/// The line of a slave (`-v`) that starts transaction 2.
const TXN2_STEP: &str = "unlocking barrier 1";

/// Waits until a slave has printed `step` after the first `steps_before` bytes of its output.
#[track_caller]
fn wait_for_step(slave: &Slave<'_>, steps_before: usize, step: &str) {
    let has_begun = || slave.stdout()[steps_before..].contains(step);
    assert!(wait_until(SHORT_TIMEOUT, has_begun), "{step}");
}

/// The other slave ends too, and the master reports no error for it.
fn lose_one_of_two_slaves(loss: Loss) {
    let hosts = Hosts::new(2);
    let (surviving_slave, lost_slave) = (hosts.start_slave(0, "-v"), hosts.start_slave(1, "-v"));
    let idle_usage = surviving_slave.idle_usage();
    let steps_before = surviving_slave.stdout().len();
    let master = hosts.start_master("-i 100ms", &two_slaves_profile());
    wait_for_step(&surviving_slave, steps_before, TXN2_STEP);
    wait_for_step(&lost_slave, 0, TXN2_STEP);
    master.wait_for_stdout(|stdout| stdout.contains("Txn2"));
    match loss {
        Loss::Link => hosts.cut_link(1),
        _ => lost_slave.signal(loss.signal()),
    }
    let output = master.finish_within(LINK_LOSS_TIMEOUT);
    Read.assert_master_reports_host(&slave_address(1), loss, &output);
    assert!(
        !output.stdout.contains(&format!("[{}]", slave_address(0))),
        "{output:#?}"
    );
    assert!(
        !output
            .stdout
            .contains(&format!("with {}", slave_address(0))),
        "{output:#?}"
    );
    surviving_slave.assert_cleaned_up_and_serves(
        idle_usage,
        CLOSE_TIMEOUT,
        "the end of the other slave",
    );
    assert_eq!(surviving_slave.stderr(), "");
}

impl Loss {
    fn signal(self) -> Signal {
        match self {
            Self::SlaveInterrupted => Signal::TERM,
            Self::MasterInterrupted => Signal::INT,
            _ => Signal::KILL,
        }
    }
}

impl Stage {
    /// Returns the number of bytes that the slave sends on the control connection before this
    /// stage. `None` if the stage does not wait for the control connection.
    fn forwarded_bytes(self) -> Option<usize> {
        let (ack1, ack2) = (192, 196 + STRANDS * 288);
        match self {
            Phase1 => Some(0),
            Phase2 => Some(ack1),
            Phase3 => Some(ack1 + ack2),
            _ => None,
        }
    }

    fn profile(self) -> String {
        match self {
            Connect => churn_profile("connect"),
            Accept => churn_profile("accept"),
            Read => held_profile("read size=64k"),
            ReadDatagrams => held_profile("read size=64").replace("=tcp port=7000", "=udp"),
            ReadSsl => held_profile("read size=64k").replace("=tcp", "=ssl"),
            Write => held_profile("write size=64k"),
            Think => held_profile("think duration=90s"),
            Barrier => two_groups_profile(),
            Statistics => half_datagram_profile(),
            _ => held_profile("write size=64").replace("90s", "100ms"),
        }
    }

    /// Checks the message and the exit code of a master that lost its slave.
    #[track_caller]
    fn assert_master_reports(self, loss: Loss, output: &ProcessOutput) {
        self.assert_master_reports_host(&slave_address(0), loss, output);
    }

    #[track_caller]
    fn assert_master_reports_host(self, host: &str, loss: Loss, output: &ProcessOutput) {
        let assert_handshake_failed = |stage: &str| {
            let expected_stdout = format!("error handshaking with {host}\n");
            assert!(output.stdout.contains(&expected_stdout), "{output:#?}");
            let expected_stderr = format!("uperf: {host} was lost in {stage}: ");
            assert!(output.stderr.starts_with(&expected_stderr), "{output:#?}");
            assert_eq!(output.stderr.lines().count(), 1, "{output:#?}");
            assert_eq!(output.code, Some(1), "{output:#?}");
        };
        match self {
            Phase1 => assert_handshake_failed("phase 1"),
            Phase2 => assert_handshake_failed("phase 2"),
            Phase3 => {
                let expected_stderr =
                    format!("uperf: {host} was lost at the end of the handshake: ");
                assert!(output.stderr.starts_with(&expected_stderr), "{output:#?}");
                assert_eq!(output.code, Some(255), "{output:#?}");
            }
            _ => {
                let stage = match self {
                    Statistics => "at the end",
                    _ => "in Txn2",
                };
                let expected = match loss {
                    Loss::SlaveInterrupted if self != Statistics => {
                        format!("** [{host}]  interrupted {stage}")
                    }
                    _ => format!("** [{host}] lost {stage}: "),
                };
                assert!(output.stdout.contains(&expected), "{output:#?}");
                assert!(output.stdout.contains("WARNING: "), "{output:#?}");
                assert_eq!(
                    (output.code, output.stderr.as_str()),
                    (Some(1), ""),
                    "{output:#?}"
                );
            }
        }
    }

    /// Checks that the slave has reported the loss of its master with the stage. A slave without
    /// strands reports nothing.
    #[track_caller]
    fn assert_slave_reports(self, stderr: &str) {
        let expected = match self {
            Phase1 => return assert_eq!(stderr, ""),
            Phase2 => "lost at the end of the handshake: ",
            Phase3 => "lost before Txn1: ",
            Statistics => "lost at the statistics: ",
            _ => "lost in Txn2: ",
        };
        // With -v, the slave also reports that it created a certificate.
        let is_report = |line: &&str| !line.contains("no --tls-cert");
        let mut reports = stderr.lines().filter(is_report).peekable();
        assert!(reports.peek().is_some(), "{self:?}: {stderr:?}");
        for line in reports {
            assert!(
                line.starts_with("uperf: ") && line.contains(expected),
                "{self:?}: {stderr:?}"
            );
        }
    }
}

/// Number of strands of each group.
const STRANDS: usize = 2;

/// A profile whose second transaction lasts. The next run needs its fixed data port again.
fn held_profile(second: &str) -> String {
    Profile::new("held")
        .group("nthreads=2")
        .single_flowop("connect remotehost=$h protocol=tcp port=7000")
        .transaction("duration=90s rate=200", &[second])
        .single_flowop("disconnect")
        .text()
}

/// The slave waits for more data than the master sends, and UDP has no end of the stream.
fn half_datagram_profile() -> String {
    Profile::new("half")
        .group("nthreads=2")
        .single_flowop("connect remotehost=$h protocol=udp")
        .single_flowop("write size=50 rsize=100")
        .text()
}

fn churn_profile(opening: &str) -> String {
    let open = format!("{opening} remotehost=$h protocol=tcp");
    Profile::new("churn")
        .group("nthreads=2")
        .single_flowop("nop")
        .transaction("duration=90s rate=200", &[&open, "disconnect"])
        .text()
}

/// The first group waits at a barrier for the second group.
fn two_groups_profile() -> String {
    Profile::new("barrier")
        .group("nthreads=2")
        .single_flowop("connect remotehost=$h protocol=tcp")
        .single_flowop("nop")
        .single_flowop("disconnect")
        .group("nthreads=1")
        .single_flowop("connect remotehost=$h protocol=tcp")
        .transaction("duration=90s", &["think duration=90s"])
        .single_flowop("disconnect")
        .text()
}

fn two_slaves_profile() -> String {
    let connect = [
        "connect remotehost=$h1 protocol=tcp conn=1",
        "connect remotehost=$h2 protocol=tcp conn=2",
    ];
    let exchange = [
        "write size=100 conn=1 remotehost=$h1",
        "read size=100 conn=1 remotehost=$h1",
        "read size=100 conn=2 remotehost=$h2",
    ];
    Profile::new("two")
        .group("nthreads=2")
        .transaction("iterations=1", &connect)
        .transaction("duration=90s rate=100", &exchange)
        .text()
}
