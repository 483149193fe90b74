//! A slave or a master is stopped by a signal: what is cut short is never taken for complete.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::Requirement::Namespaces;
use testkit::{ProcessOutput, Profile, TestCase, UperfMaster, wait_until, with_prefix};
use uperf::DataProtocol;
use uperf::wire::{Goodbye, MasterCommand};

use super::ground::{Hosts, PORT, SOON, address};
use super::scripted;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        a_slave,
        the_last_word_comes_first,
        a_master,
        a_slave_that_drains,
        a_slave_that_drains_beside_an_idle_master,
        a_slave_that_drains_for_long_enough,
        a_slave_that_drains_and_is_stopped_again,
    ];
    with_prefix("stopped", test_cases).collect()
}

const READ: &str = "read size=64";

const WRITE: &str = "write size=64";

/// Whose second transaction is the last.
fn held(protocol: &str, second: &[&str], duration: &str) -> Profile {
    let connect = format!("connect remotehost=$h protocol={protocol}");
    Profile::new("held")
        .group("nthreads=2")
        .single_flowop(&connect)
        .transaction(&format!("duration={duration} rate=200"), second)
}

/// The same with a third transaction.
fn profile(protocol: &str, second: &[&str], duration: &str) -> String {
    held(protocol, second, duration)
        .single_flowop("disconnect")
        .text()
}

/// The text, the document and the page say that the run failed, whichever way the data goes.
fn a_slave() {
    let hosts = Hosts::new(1);
    let page = tempfile::NamedTempFile::new().expect("a temporary file");
    let page = page.path().display();
    for (protocol, second, has_last) in [
        ("tcp", &[READ][..], true),
        ("tcp", &[READ], false),
        ("tcp", &[WRITE], false),
        ("udp", &[READ], false),
        ("udp", &[WRITE, READ], false),
        ("ssl", &[WRITE, READ], true),
    ] {
        let held = held(protocol, second, "90s");
        let profile = if has_last {
            held.single_flowop("disconnect")
        } else {
            held
        }
        .text();
        for (options, signal) in [
            ("", Signal::TERM),
            (&*format!("--json --html {page}"), Signal::INT),
        ] {
            let slave = hosts.slave(0, "");
            let rest = slave.at_rest();
            let master = hosts.run(&format!("-v {options}"), &profile);
            await_second(&master, rest, &slave);
            slave.signal(signal);
            let ended = master.finish_within(SOON);
            let what = format!("{protocol} {second:?} {has_last}");
            assert_eq!(ended.code, Some(1), "{what}: {ended:#?}");
            if options.is_empty() {
                assert!(
                    ended.stdout.contains("]  interrupted "),
                    "{what}: {ended:#?}"
                );
                assert!(ended.stdout.contains("WARNING: "), "{what}: {ended:#?}");
            } else {
                let document = document(&ended);
                assert!(document["error"].is_string(), "{what}: {ended:#?}");
                let text = std::fs::read_to_string(page.to_string()).expect("it was written");
                assert!(text.contains("held failed: "), "{what}: {text}");
            }
        }
    }
}

/// The end of data connections would look like the end of the work, so the control connection has the reason before
/// that: even if one of the strands takes long to end.
fn the_last_word_comes_first() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "");
    let profile = held("tcp", &[READ], "90s")
        .text()
        .replace("nthreads", "nprocs")
        .replace("$h", &address(0));
    hosts.master.enter(|| {
        let (mut master, infos) = scripted::Master::begin(&profile);
        let connect = |strand: usize| {
            let at = scripted::place_of(&infos[strand], DataProtocol::Tcp);
            TcpStream::connect(at).expect("it listens")
        };
        let mut data = [0, 1].map(connect);
        master.command(MasterCommand::NextTransaction(0));
        master.command(MasterCommand::NextTransaction(1));
        for data in &mut data {
            data.set_read_timeout(Some(SOON)).expect("not zero");
            data.read_exact(&mut [0; 64]).expect("data");
        }
        let mut strands = hosts.slaves[0].processes();
        strands.retain(|pid| *pid != slave.pid());
        let held = Pid::from_raw(strands[0]).expect("a number");
        kill_process(held, Signal::STOP).expect("it is ours");
        slave.signal(Signal::TERM);
        for data in &data {
            data.set_nonblocking(true).expect("it can be");
        }
        // The other strand's connection ends.
        let ended = wait_until(SOON, || {
            data.iter_mut().any(|data| match data.read(&mut [0; 4096]) {
                Ok(count) => count == 0,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            })
        });
        assert!(ended);
        let word = Duration::from_secs(3);
        master
            .control
            .set_read_timeout(Some(word))
            .expect("not zero");
        let goodbye = master.goodbye();
        assert_eq!(goodbye.kind, Goodbye::ERROR);
        let words = goodbye.message.to_string();
        assert!(words.starts_with(" interrupted in Txn2"), "{words}");
    });
}

/// What was measured until then is printed, and marked as a part.
fn a_master() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "");
    let rest = slave.at_rest();
    let page = tempfile::NamedTempFile::new().expect("a temporary file");
    let page = page.path().display();
    let profile = profile("tcp", &[READ], "90s");
    for options in ["", &format!("--json --html {page}")] {
        let master = hosts.run(&format!("-v {options}"), &profile);
        await_second(&master, rest, &slave);
        master.signal(Signal::INT);
        let ended = master.finish_within(SOON);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        let words = "\nGot SIGINT Aborting ...: Interrupt\n";
        assert!(ended.stderr.ends_with(words), "{ended:#?}");
        if options.is_empty() {
            assert!(ended.stdout.contains("Run Statistics"), "{ended:#?}");
        } else {
            assert_eq!(document(&ended)["interrupted"], true, "{ended:#?}");
            let text = std::fs::read_to_string(page.to_string()).expect("it was written");
            assert!(text.contains("The run was interrupted; "), "{text}");
        }
        slave.is_itself_again(rest, SOON, "an interrupted master");
    }
}

fn a_slave_that_drains() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--drain-on-exit 60");
    let rest = slave.at_rest();
    let runs = hosts.run("-v", &profile("tcp", &[READ], "3s"));
    await_second(&runs, rest, &slave);
    slave.signal(Signal::TERM);
    let is_refused = || {
        let connected = TcpStream::connect((address(0).as_str(), PORT));
        connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    let refuses = hosts.master.enter(|| wait_until(SOON, is_refused));
    assert!(refuses, "others are served");
    let ended = runs.finish_within(SOON);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let begun = Instant::now();
    let has_ended = wait_until(SOON, || hosts.slaves[0].processes().is_empty());
    assert!(has_ended, "it has nothing to wait for");
    assert!(begun.elapsed() < SOON);
}

/// A master without a run has nothing to drain.
fn a_slave_that_drains_beside_an_idle_master() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--drain-on-exit 60");
    let rest = slave.at_rest();
    let connect = || TcpStream::connect((address(0).as_str(), PORT));
    let _idle = hosts.master.enter(connect).expect("it listens");
    slave.serves_somebody(rest);
    slave.signal(Signal::TERM);
    let has_ended = wait_until(SOON, || hosts.slaves[0].processes().is_empty());
    assert!(has_ended, "it waits for a master without a run");
}

fn a_slave_that_drains_for_long_enough() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--drain-on-exit 1");
    is_interrupted(&hosts, &slave, || ());
}

fn a_slave_that_drains_and_is_stopped_again() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "--drain-on-exit 60");
    is_interrupted(&hosts, &slave, || slave.signal(Signal::INT));
}

fn is_interrupted(hosts: &Hosts, slave: &super::ground::Slave<'_>, again: impl Fn()) {
    let rest = slave.at_rest();
    let runs = hosts.run("-v", &profile("tcp", &[READ], "90s"));
    await_second(&runs, rest, slave);
    slave.signal(Signal::TERM);
    again();
    let ended = runs.finish_within(SOON);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("]  interrupted "), "{ended:#?}");
    let has_ended = wait_until(SOON, || hosts.slaves[0].processes().is_empty());
    assert!(has_ended, "it goes on");
}

/// Waits until the master has let the second transaction begin.
#[track_caller]
fn await_second(
    master: &UperfMaster,
    rest: testkit::ProcessUsage,
    slave: &super::ground::Slave<'_>,
) {
    slave.serves_somebody(rest);
    master.wait_for_output(|said| said.contains("UPERF_CMD_NEXT_TXN, 1]"));
}

fn document(ended: &ProcessOutput) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}
