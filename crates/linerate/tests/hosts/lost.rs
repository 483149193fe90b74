//! A slave, the master or the link is lost, in each stage of a run: what was lost is named with the stage, the
//! rest ends, and nothing is left.

use std::time::Duration;

use rustix::process::Signal;
use testkit::Requirement::Namespaces;
use testkit::{ProcessOutput, Profile, TestCase, test_case_unless, wait_until};

use super::gate::{GATE, Gate};
use super::ground::{Hosts, address};

/// The end of a connection needs no deadline, but for the second in which last words may be said; the rest is
/// for all that runs beside.
const AT_ONCE: Duration = Duration::from_secs(20);

/// A link that is gone is noticed after half a minute.
const SILENCE: Duration = Duration::from_secs(60);

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    SlaveKilled,
    SlaveInterrupted,
    MasterKilled,
    MasterInterrupted,
    Link,
}

/// When.
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
            let test = move || {
                lose(loss, stage);
                Ok(())
            };
            test_cases.push(test_case_unless(Namespaces.missing_reason(), name, test));
        }
    }
    for loss in [Loss::Link, Loss::SlaveKilled] {
        let name = format!("lost::{loss:?}::one_of_two");
        let test = move || {
            one_of_two(loss);
            Ok(())
        };
        test_cases.push(test_case_unless(Namespaces.missing_reason(), name, test));
    }
    test_cases
}

fn lose(loss: Loss, stage: Stage) {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "");
    let rest = slave.at_rest();
    let gate = stage
        .passing()
        .map(|bytes| Gate::new(&hosts.slaves[0], bytes));
    let port = gate
        .as_ref()
        .map_or(String::new(), |_| format!("-P {GATE}"));
    let master = hosts.run(&format!("-i 100ms {port}"), &stage.profile());
    match &gate {
        Some(gate) => gate.closes(),
        // A progress line ends when its transaction does.
        None if stage == Statistics => {
            master.wait_for_stdout(|said| said.contains("Txn2") && said.ends_with('\n'));
        }
        None => master.wait_for_stdout(is_within_txn2),
    }
    let what = format!("{loss:?} in {stage:?}");
    match loss {
        Loss::SlaveKilled | Loss::SlaveInterrupted => {
            slave.signal(loss.signal());
            stage.is_named(loss, &master.finish_within(AT_ONCE));
            let is_gone = || hosts.slaves[0].processes().is_empty();
            assert!(wait_until(AT_ONCE, is_gone), "{what}");
            drop(slave);
            hosts.slave(0, "").serves();
        }
        Loss::MasterKilled => {
            master.signal(loss.signal());
            let ended = master.finish_within(AT_ONCE);
            assert_eq!(ended.signal, Some(loss.signal().as_raw()), "{ended:#?}");
            slave.is_itself_again(rest, AT_ONCE, &what);
            stage.is_said_by_the_slave(&slave.stderr());
        }
        Loss::MasterInterrupted => {
            master.signal(loss.signal());
            let ended = master.finish_within(AT_ONCE);
            assert_eq!(ended.code, Some(2), "{ended:#?}");
            assert_eq!(ended.stderr, "\nGot SIGINT Aborting ...: Interrupt\n");
            assert!(!ended.stdout.contains("lost"), "{what}: {ended:#?}");
            slave.is_itself_again(rest, AT_ONCE, &what);
        }
        Loss::Link => {
            hosts.cut(0);
            stage.is_named(loss, &master.finish_within(SILENCE));
            if gate.is_none() {
                slave.is_at_rest_within(SILENCE, rest, &what);
                // These it gives up by itself: connections that do not come about, datagrams that have no way, and
                // the last strands.
                if !matches!(stage, Connect | Accept | ReadDatagrams | Statistics) {
                    stage.is_said_by_the_slave(&slave.stderr());
                }
            }
            hosts.mend(0);
            if gate.is_none() {
                slave.is_itself_again(rest, AT_ONCE, &what);
            }
        }
    }
    assert!(hosts.master.processes().is_empty(), "{what}");
}

/// So long that the slave has heard of it as well.
fn is_within_txn2(said: &str) -> bool {
    said.matches("Txn2").count() > 1
}

/// The other one ends too, and nothing is said against it.
fn one_of_two(loss: Loss) {
    let hosts = Hosts::new(2);
    let (stays, goes) = (hosts.slave(0, ""), hosts.slave(1, ""));
    let rest = stays.at_rest();
    let master = hosts.run("-i 100ms", &two_slaves());
    master.wait_for_stdout(is_within_txn2);
    match loss {
        Loss::Link => hosts.cut(1),
        _ => goes.signal(loss.signal()),
    }
    let ended = master.finish_within(SILENCE);
    Read.is_named_at(&address(1), loss, &ended);
    assert!(
        !ended.stdout.contains(&format!("[{}]", address(0))),
        "{ended:#?}"
    );
    assert!(
        !ended.stdout.contains(&format!("with {}", address(0))),
        "{ended:#?}"
    );
    stays.is_itself_again(rest, AT_ONCE, "the other one's end");
    assert_eq!(stays.stderr(), "");
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
    /// How many bytes of the slave's come before what this stage waits for; `None` if it waits for
    /// nothing of the control connection.
    fn passing(self) -> Option<usize> {
        let (ack1, ack2) = (192, 196 + STRANDS * 288);
        match self {
            Phase1 => Some(0),
            Phase2 => Some(ack1),
            Phase3 => Some(ack1 + ack2),
            _ => None,
        }
    }

    /// What is run.
    fn profile(self) -> String {
        match self {
            Connect => churn("connect"),
            Accept => churn("accept"),
            Read => held("read size=64k"),
            ReadDatagrams => held("read size=64").replace("=tcp port=7000", "=udp"),
            ReadSsl => held("read size=64k").replace("=tcp", "=ssl"),
            Write => held("write size=64k"),
            Think => held("think duration=90s"),
            Barrier => two_groups(),
            Statistics => half_a_datagram(),
            _ => held("write size=64").replace("90s", "100ms"),
        }
    }

    /// Fails the test unless the master says so, and its exit code does.
    #[track_caller]
    fn is_named(self, loss: Loss, ended: &ProcessOutput) {
        self.is_named_at(&address(0), loss, ended);
    }

    #[track_caller]
    fn is_named_at(self, host: &str, loss: Loss, ended: &ProcessOutput) {
        let handshake = |stage: &str| {
            let printed = format!("error handshaking with {host}\n");
            assert!(ended.stdout.contains(&printed), "{ended:#?}");
            let said = format!("uperf: {host} was lost in {stage}: ");
            assert!(ended.stderr.starts_with(&said), "{ended:#?}");
            assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
            assert_eq!(ended.code, Some(1), "{ended:#?}");
        };
        match self {
            Phase1 => handshake("phase 1"),
            Phase2 => handshake("phase 2"),
            Phase3 => {
                let said = format!("uperf: {host} was lost at the end of the handshake: ");
                assert!(ended.stderr.starts_with(&said), "{ended:#?}");
                assert_eq!(ended.code, Some(255), "{ended:#?}");
            }
            _ => {
                let place = match self {
                    Statistics => "at the end",
                    _ => "in Txn2",
                };
                let words = match loss {
                    Loss::SlaveInterrupted if self != Statistics => {
                        format!("** [{host}]  interrupted {place}")
                    }
                    _ => format!("** [{host}] lost {place}: "),
                };
                // The master is at the end before a slow slave has read that it is.
                let is_ahead = loss == Loss::SlaveInterrupted && self == Statistics;
                let behind = format!("** [{host}]  interrupted in Txn");
                assert!(
                    ended.stdout.contains(&words) || is_ahead && ended.stdout.contains(&behind),
                    "{ended:#?}"
                );
                assert!(ended.stdout.contains("WARNING: "), "{ended:#?}");
                assert_eq!(
                    (ended.code, ended.stderr.as_str()),
                    (Some(1), ""),
                    "{ended:#?}"
                );
            }
        }
    }

    /// Fails the test unless the slave has said that its master is lost, and in which stage. Before it has
    /// strands there was nothing to lose.
    #[track_caller]
    fn is_said_by_the_slave(self, said: &str) {
        let place = match self {
            Phase1 => return assert_eq!(said, ""),
            Phase2 => "lost at the end of the handshake: ",
            Phase3 => "lost before Txn1: ",
            Statistics => "lost at the statistics: ",
            _ => "lost in Txn2: ",
        };
        assert_ne!(said, "", "{self:?}");
        // The master is at its end before a slow slave has read that it is.
        let is_ahead = |line: &str| self == Statistics && line.contains("lost in Txn");
        for line in said.lines() {
            assert!(
                line.starts_with("uperf: ") && (line.contains(place) || is_ahead(line)),
                "{self:?}: {said:?}"
            );
        }
    }
}

/// Strands of each group.
const STRANDS: usize = 2;

/// At a port of its own, which the next master asks for as well.
fn held(second: &str) -> String {
    Profile::new("held")
        .group("nthreads=2")
        .single_flowop("connect remotehost=$h protocol=tcp port=7000")
        .transaction("duration=90s rate=200", &[second])
        .single_flowop("disconnect")
        .text()
}

/// The slave reads more than comes, and of datagrams there is no end of the stream.
fn half_a_datagram() -> String {
    Profile::new("half")
        .group("nthreads=2")
        .single_flowop("connect remotehost=$h protocol=udp")
        .single_flowop("write size=50 rsize=100")
        .text()
}

fn churn(opening: &str) -> String {
    let open = format!("{opening} remotehost=$h protocol=tcp");
    Profile::new("churn")
        .group("nthreads=2")
        .single_flowop("nop")
        .transaction("duration=90s rate=200", &[&open, "disconnect"])
        .text()
}

/// The first group waits at a barrier for the other one.
fn two_groups() -> String {
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

fn two_slaves() -> String {
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
