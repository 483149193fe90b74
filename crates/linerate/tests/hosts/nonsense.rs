//! Masters and slaves that are none: whatever they say, and wherever they stop, the other end has nothing left
//! of them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{Profile, TestCase, with_prefix};
use uperf::peer_workorder;
use uperf::profile::{ProfileContext, ProfileSource, parse};
use uperf::wire::{
    DataVersion, Endian, FlowopLayout, HANDSHAKE_END, Header, MasterCommand, Phase1Answer,
    Phase2Answer, SlaveInfo,
};

use super::ground::{Hosts, PORT, SOON, address};

/// How long the slave here waits for a master's word, in seconds.
const IDLE: u64 = 2;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        in_each_stage,
        silence_in_each_stage,
        byte_by_byte,
        of_slaves,
    ];
    with_prefix("nonsense", test_cases).collect()
}

/// What a master says in a whole session, message by message.
fn session() -> Vec<Vec<u8>> {
    let profile = profile();
    let source = ProfileSource {
        name: "profile",
        bytes: profile.as_bytes(),
    };
    let parsed = parse(&source, &ProfileContext::for_this_process());
    let workorder = parsed.workorder.expect("a profile");
    let work = peer_workorder::records_for_host(&workorder.groups[0], "198.18.0.2")
        .expect("it can be sent");
    let order = Endian::NATIVE;
    let version = DataVersion::V0_3_1;
    let mut phase2 = Header::for_phase_2(version, 0).encode(order);
    phase2.extend(work.encode(FlowopLayout::WithBatchSize, order));
    vec![
        Header::for_phase_1(version, peer_workorder::protocols(&workorder.groups[0])).encode(order),
        phase2,
        HANDSHAKE_END.to_vec(),
        MasterCommand::NextTransaction(0).encode(order).to_vec(),
        MasterCommand::NextTransaction(1).encode(order).to_vec(),
        MasterCommand::SendStatistics.encode(order).to_vec(),
    ]
}

/// So much of a session, as if it were the whole one.
fn begin(stages: usize) -> TcpStream {
    let mut control = TcpStream::connect((address(0).as_str(), PORT)).expect("it listens");
    control
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("not zero");
    for message in session().iter().take(stages) {
        control.write_all(message).expect("the slave reads");
        // Whatever it answers; the session is in order.
        let _ = control.read(&mut [0; 4096]);
    }
    control
}

fn in_each_stage() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "");
    let rest = slave.at_rest();
    hosts.master.enter(|| {
        for stages in 0..session().len() {
            for nonsense in [
                &[0; 4096][..],
                &[0xff; 4096],
                &b"GET / HTTP/1.1\r\n\r\n".repeat(64),
            ] {
                let mut control = begin(stages);
                // The slave may have enough of it before it has all.
                let _ = control.write_all(nonsense);
                let what = format!("nonsense after {stages} messages");
                slave.is_at_rest_within(SOON, rest, &what);
            }
            // The first half of what belongs there, and then nothing.
            let mut control = begin(stages);
            let message = &session()[stages];
            control
                .write_all(&message[..message.len() / 2])
                .expect("the slave reads");
            drop(control);
            slave.is_at_rest_within(SOON, rest, &format!("half of message {stages}"));
        }
    });
    slave.is_itself_again(rest, SOON, "nonsense");
}

/// In a run it may be silent for as long as transactions may last, and before it not.
fn silence_in_each_stage() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, &format!("--control-idle {IDLE} --max-length {IDLE}"));
    let rest = slave.at_rest();
    hosts.master.enter(|| {
        for stages in 0..5 {
            let begun = Instant::now();
            let control = begin(stages);
            slave.serves_somebody(rest);
            slave.is_at_rest_within(SOON, rest, &format!("silence after {stages} messages"));
            assert!(begun.elapsed() > Duration::from_secs(IDLE), "{stages}");
            drop(control);
        }
    });
    slave.is_itself_again(rest, SOON, "silence");
}

fn byte_by_byte() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, &format!("--control-idle {IDLE}"));
    let rest = slave.at_rest();
    hosts.master.enter(|| {
        let mut control = begin(1);
        let begun = Instant::now();
        while control.write_all(b"0").is_ok() {
            thread::sleep(Duration::from_millis(50));
            assert!(begun.elapsed() < SOON, "a byte now and then keeps it");
        }
    });
    slave.is_itself_again(rest, SOON, "a header byte by byte");
}

/// Slaves that are none, in each stage: the master says so in a line, and ends.
fn of_slaves() {
    let answers = [
        Phase1Answer::linerate_ok().to_vec(),
        Phase2Answer::Ok { slave_infos: 2 }
            .encode(Endian::NATIVE)
            .to_vec(),
        [SlaveInfo::default().encode(Endian::NATIVE); 2].concat(),
        HANDSHAKE_END.to_vec(),
    ];
    thread::scope(|scope| {
        for stage in 0..=answers.len() {
            for nonsense in [
                &[][..],
                &[0; 4096],
                &[0xff; 4096],
                b"HTTP/1.1 400 Bad Request\r\n\r\n",
            ] {
                let answers = &answers[..stage];
                scope.spawn(move || of_a_slave(answers, nonsense));
            }
        }
    });
}

fn of_a_slave(answers: &[Vec<u8>], nonsense: &[u8]) {
    let hosts = Hosts::new(1);
    let bind = || TcpListener::bind((address(0).as_str(), PORT)).expect("a port");
    let listener = hosts.slaves[0].enter(bind);
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut control, _) = listener.accept().expect("a master");
            for answer in answers {
                let _ = control.write_all(answer);
            }
            let _ = control.write_all(nonsense);
            // It closes, but not with something unread, which would be another end.
            let _ = control.shutdown(Shutdown::Write);
            let _ = control.read_to_end(&mut Vec::new());
        });
        hosts.run("", &profile()).finish_within(SOON * 3)
    });
    let stage = answers.len();
    let code = ended.code.unwrap_or_default();
    assert!(
        code == 1 || code == 255,
        "after {stage} answers: {ended:#?}"
    );
    assert!(
        !ended.stderr.contains("panicked"),
        "after {stage} answers: {ended:#?}"
    );
    assert!(
        ended.stderr.lines().count() <= 1,
        "after {stage} answers: {ended:#?}"
    );
    assert!(
        (ended.stdout.clone() + &ended.stderr).contains(&address(0)),
        "{ended:#?}"
    );
    let mut characters = ended.stdout.chars();
    let is_text = |c: char| !c.is_control() || c == '\n' || c == '\r';
    assert!(characters.all(is_text), "after {stage} answers: {ended:#?}");
}

fn profile() -> String {
    Profile::new("nonsense")
        .group("nthreads=2")
        .single_flowop("think duration=10ms")
        .transaction(
            "iterations=1",
            &[
                "connect remotehost=198.18.0.2 protocol=tcp",
                "write size=64",
            ],
        )
        .text()
}
