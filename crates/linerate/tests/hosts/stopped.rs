//! Signals that stop a slave or a master. No interrupted run is reported as complete.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::Requirement::Namespaces;
use testkit::{ProcessOutput, Profile, Receive, TestCase, UperfMaster, wait_until, with_prefix};
use uperf::DataProtocol;
use uperf::wire::{Goodbye, MasterCommand};

use super::network::{Hosts, PORT, SHORT_TIMEOUT, slave_address};
use super::scripted;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        master_reports_interrupted_slave,
        slave_sends_reason_before_data_ends,
        interrupted_master_marks_result_as_partial,
        draining_slave_completes_run_and_refuses_masters,
        draining_slave_ignores_idle_master,
        draining_slave_stops_after_drain_time,
        draining_slave_stops_at_second_signal,
    ];
    with_prefix("stopped", test_cases).collect()
}

const READ: &str = "read size=64";

const WRITE: &str = "write size=64";

/// A profile whose second transaction is the last.
fn held_profile(protocol: &str, second: &[&str], duration: &str) -> Profile {
    let connect = format!("connect remotehost=$h protocol={protocol}");
    Profile::new("held")
        .group("nthreads=2")
        .single_flowop(&connect)
        .transaction(&format!("duration={duration} rate=200"), second)
}

/// [`held_profile`] with a third transaction.
fn profile(protocol: &str, second: &[&str], duration: &str) -> String {
    held_profile(protocol, second, duration)
        .single_flowop("disconnect")
        .text()
}

/// The text, the JSON document and the page report the failure for each direction of data.
fn master_reports_interrupted_slave() {
    let hosts = Hosts::new(1);
    let page = tempfile::NamedTempFile::new().expect("a temporary file");
    let page = page.path().display();
    for (protocol, second, has_disconnect) in [
        ("tcp", &[READ][..], true),
        ("tcp", &[READ], false),
        ("tcp", &[WRITE], false),
        ("udp", &[READ], false),
        ("udp", &[WRITE, READ], false),
        ("ssl", &[WRITE, READ], true),
    ] {
        let profile = held_profile(protocol, second, "90s");
        let profile = if has_disconnect {
            profile.single_flowop("disconnect")
        } else {
            profile
        }
        .text();
        for (options, signal) in [
            ("", Signal::TERM),
            (&*format!("--json --html {page}"), Signal::INT),
        ] {
            let slave = hosts.start_slave(0, "");
            let idle_usage = slave.idle_usage();
            let master = hosts.start_master(&format!("-v {options}"), &profile);
            wait_for_second_transaction(&master, idle_usage, &slave);
            slave.signal(signal);
            let output = master.finish_within(SHORT_TIMEOUT);
            let case = format!("{protocol} {second:?}, disconnect: {has_disconnect}");
            assert_eq!(output.code, Some(1), "{case}: {output:#?}");
            if options.is_empty() {
                assert!(
                    output.stdout.contains("]  interrupted "),
                    "{case}: {output:#?}"
                );
                assert!(output.stdout.contains("WARNING: "), "{case}: {output:#?}");
            } else {
                let document = json_document(&output);
                assert!(document["error"].is_string(), "{case}: {output:#?}");
                let text =
                    std::fs::read_to_string(page.to_string()).expect("linerate wrote the file");
                assert!(text.contains("held failed: "), "{case}: {text}");
            }
        }
    }
}

/// The slave sends the reason on the control connection before its data connections end. Otherwise
/// the master would take their end for the end of the work. One strand of the slave ends late.
fn slave_sends_reason_before_data_ends() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "");
    let profile = held_profile("tcp", &[READ], "90s")
        .text()
        .replace("nthreads", "nprocs")
        .replace("$h", &slave_address(0));
    hosts.master.enter(|| {
        let (mut master, infos) = scripted::Master::complete_handshake(&profile);
        let connect = |strand: usize| {
            let address = scripted::data_address(&infos[strand], DataProtocol::Tcp);
            TcpStream::connect(address).expect("the slave listens")
        };
        let mut data = [0, 1].map(connect);
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        for data in &mut data {
            data.set_read_timeout(Some(SHORT_TIMEOUT))
                .expect("a non-zero timeout");
            data.read_exact(&mut [0; 64]).expect("data arrives");
        }
        let mut strands = hosts.slaves[0].processes();
        strands.retain(|pid| *pid != slave.pid());
        let stopped = Pid::from_raw(strands[0]).expect("a process ID");
        kill_process(stopped, Signal::STOP).expect("root can stop the process");
        slave.signal(Signal::TERM);
        for data in &data {
            data.set_nonblocking(true).expect("a non-blocking socket");
        }
        // The connection of the other strand ends.
        let has_ended = wait_until(SHORT_TIMEOUT, || {
            data.iter_mut()
                .any(|data| match data.receive(&mut [0; 4096]) {
                    Ok(count) => count == 0,
                    Err(error) => error.kind() != ErrorKind::WouldBlock,
                })
        });
        assert!(has_ended, "no data connection ends");
        let timeout = Duration::from_secs(3);
        master
            .control
            .set_read_timeout(Some(timeout))
            .expect("a non-zero timeout");
        let goodbye = master.receive_goodbye();
        assert_eq!(goodbye.kind, Goodbye::ERROR);
        let message = goodbye.message.to_string();
        assert!(message.starts_with(" interrupted in Txn2"), "{message}");
    });
}

/// The master prints the figures up to the interrupt, and marks them as partial.
fn interrupted_master_marks_result_as_partial() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "");
    let idle_usage = slave.idle_usage();
    let page = tempfile::NamedTempFile::new().expect("a temporary file");
    let page = page.path().display();
    let profile = profile("tcp", &[READ], "90s");
    for options in ["", &format!("--json --html {page}")] {
        let master = hosts.start_master(&format!("-v {options}"), &profile);
        wait_for_second_transaction(&master, idle_usage, &slave);
        master.signal(Signal::INT);
        let output = master.finish_within(SHORT_TIMEOUT);
        assert_eq!(output.code, Some(2), "{output:#?}");
        let expected = "\nGot SIGINT Aborting ...: Interrupt\n";
        assert!(output.stderr.ends_with(expected), "{output:#?}");
        if options.is_empty() {
            assert!(output.stdout.contains("Run Statistics"), "{output:#?}");
        } else {
            assert_eq!(json_document(&output)["interrupted"], true, "{output:#?}");
            let text = std::fs::read_to_string(page.to_string()).expect("linerate wrote the file");
            assert!(text.contains("The run was interrupted; "), "{text}");
        }
        slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "an interrupted master");
    }
}

fn draining_slave_completes_run_and_refuses_masters() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--drain-on-exit 60");
    let idle_usage = slave.idle_usage();
    let master = hosts.start_master("-v", &profile("tcp", &[READ], "3s"));
    wait_for_second_transaction(&master, idle_usage, &slave);
    slave.signal(Signal::TERM);
    let is_refused = || {
        let connected = TcpStream::connect((slave_address(0).as_str(), PORT));
        connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    let refuses = hosts.master.enter(|| wait_until(SHORT_TIMEOUT, is_refused));
    assert!(refuses, "a draining slave accepts masters");
    let output = master.finish_within(SHORT_TIMEOUT);
    assert_eq!(output.code, Some(0), "{output:#?}");
    let start = Instant::now();
    let has_ended = wait_until(SHORT_TIMEOUT, || hosts.slaves[0].processes().is_empty());
    assert!(has_ended, "the slave runs on after its last run");
    assert!(start.elapsed() < SHORT_TIMEOUT);
}

fn draining_slave_ignores_idle_master() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--drain-on-exit 60");
    let idle_usage = slave.idle_usage();
    let connect = || TcpStream::connect((slave_address(0).as_str(), PORT));
    let _idle = hosts.master.enter(connect).expect("the slave listens");
    slave.wait_until_serving(idle_usage);
    slave.signal(Signal::TERM);
    let has_ended = wait_until(SHORT_TIMEOUT, || hosts.slaves[0].processes().is_empty());
    assert!(has_ended, "the slave waits for a master without a run");
}

fn draining_slave_stops_after_drain_time() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--drain-on-exit 1");
    assert_run_interrupted(&hosts, &slave, || ());
}

fn draining_slave_stops_at_second_signal() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "--drain-on-exit 60");
    assert_run_interrupted(&hosts, &slave, || slave.signal(Signal::INT));
}

/// Checks that a run fails if its slave gets a signal followed by `second_stop`.
fn assert_run_interrupted(
    hosts: &Hosts,
    slave: &super::network::Slave<'_>,
    second_stop: impl Fn(),
) {
    let idle_usage = slave.idle_usage();
    let master = hosts.start_master("-v", &profile("tcp", &[READ], "90s"));
    wait_for_second_transaction(&master, idle_usage, slave);
    slave.signal(Signal::TERM);
    second_stop();
    let output = master.finish_within(SHORT_TIMEOUT);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.stdout.contains("]  interrupted "), "{output:#?}");
    let has_ended = wait_until(SHORT_TIMEOUT, || hosts.slaves[0].processes().is_empty());
    assert!(has_ended, "the slave runs on");
}

/// Waits until the master has started the second transaction.
#[track_caller]
fn wait_for_second_transaction(
    master: &UperfMaster,
    idle_usage: testkit::ProcessUsage,
    slave: &super::network::Slave<'_>,
) {
    slave.wait_until_serving(idle_usage);
    master.wait_for_output(|output| output.contains("UPERF_CMD_NEXT_TXN, 1]"));
}

fn json_document(output: &ProcessOutput) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:#?}"))
}
