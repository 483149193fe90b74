//! Peers that send malformed messages, or stop in any stage. The other end releases everything that
//! it holds for them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{Profile, Receive, TestCase, with_prefix};
use uperf::peer_workorder;
use uperf::profile::{ProfileContext, ProfileSource, parse};
use uperf::wire::{
    DataVersion, Endian, FlowopLayout, HANDSHAKE_END, Header, MasterCommand, Phase1Answer,
    Phase2Answer, SlaveInfo,
};

use super::network::{Hosts, PORT, SHORT_TIMEOUT, slave_address};

/// Idle timeout of the slave, in seconds.
const IDLE_TIMEOUT: u64 = 2;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![needing &[Namespaces];
        slave_survives_nonsense_in_each_stage,
        slave_drops_silent_masters_in_each_stage,
        slave_drops_byte_by_byte_header,
        master_reports_nonsense_of_slaves,
    ];
    with_prefix("nonsense", test_cases).collect()
}

/// Returns the messages of a master in a complete session.
fn session_messages() -> Vec<Vec<u8>> {
    let profile = profile();
    let source = ProfileSource {
        name: "profile",
        bytes: profile.as_bytes(),
    };
    let parsed = parse(&source, &ProfileContext::for_this_process());
    let workorder = parsed.workorder.expect("a valid profile");
    let work = peer_workorder::records_for_host(&workorder.groups[0], "198.18.0.2")
        .expect("the work can be encoded");
    let byte_order = Endian::NATIVE;
    let version = DataVersion::V0_3_1;
    let mut phase2 = Header::for_phase_2(version, 0).encode(byte_order);
    phase2.extend(work.encode(FlowopLayout::WithBatchSize, byte_order));
    vec![
        Header::for_phase_1(version, peer_workorder::protocols(&workorder.groups[0]))
            .encode(byte_order),
        phase2,
        HANDSHAKE_END.to_vec(),
        MasterCommand::NextTransaction(0)
            .encode(byte_order)
            .to_vec(),
        MasterCommand::NextTransaction(1)
            .encode(byte_order)
            .to_vec(),
        MasterCommand::SendStatistics.encode(byte_order).to_vec(),
    ]
}

/// Sends the first `stages` messages of a session.
fn start_session(stages: usize) -> TcpStream {
    let mut control =
        TcpStream::connect((slave_address(0).as_str(), PORT)).expect("the slave listens");
    control
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a non-zero timeout");
    for message in session_messages().iter().take(stages) {
        control.write_all(message).expect("the slave reads");
        // The session is correct, so the answer does not matter.
        let _ = control.receive(&mut [0; 4096]);
    }
    control
}

fn slave_survives_nonsense_in_each_stage() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "");
    let idle_usage = slave.idle_usage();
    hosts.master.enter(|| {
        for stages in 0..session_messages().len() {
            for nonsense in [
                &[0; 4096][..],
                &[0xff; 4096],
                &b"GET / HTTP/1.1\r\n\r\n".repeat(64),
            ] {
                let mut control = start_session(stages);
                // The slave may close the connection before it has read everything.
                let _ = control.write_all(nonsense);
                let event = format!("nonsense after {stages} messages");
                slave.assert_usage_returns_to(SHORT_TIMEOUT, idle_usage, &event);
            }
            // The first half of the expected message, then the end of the stream.
            let mut control = start_session(stages);
            let message = &session_messages()[stages];
            control
                .write_all(&message[..message.len() / 2])
                .expect("the slave reads");
            drop(control);
            slave.assert_usage_returns_to(
                SHORT_TIMEOUT,
                idle_usage,
                &format!("half of message {stages}"),
            );
        }
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "nonsense");
}

/// Silence is limited by `--control-idle` before a run, and by `--max-length` during a run.
fn slave_drops_silent_masters_in_each_stage() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(
        0,
        &format!("--control-idle {IDLE_TIMEOUT} --max-length {IDLE_TIMEOUT}"),
    );
    let idle_usage = slave.idle_usage();
    hosts.master.enter(|| {
        for stages in 0..5 {
            let start = Instant::now();
            let control = start_session(stages);
            slave.wait_until_serving(idle_usage);
            slave.assert_usage_returns_to(
                SHORT_TIMEOUT,
                idle_usage,
                &format!("silence after {stages} messages"),
            );
            assert!(
                start.elapsed() > Duration::from_secs(IDLE_TIMEOUT),
                "after {stages} messages"
            );
            drop(control);
        }
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "silence");
}

fn slave_drops_byte_by_byte_header() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, &format!("--control-idle {IDLE_TIMEOUT}"));
    let idle_usage = slave.idle_usage();
    hosts.master.enter(|| {
        let mut control = start_session(1);
        let start = Instant::now();
        while control.write_all(b"0").is_ok() {
            thread::sleep(Duration::from_millis(50));
            assert!(
                start.elapsed() < SHORT_TIMEOUT,
                "single bytes keep the connection"
            );
        }
    });
    slave.assert_cleaned_up_and_serves(idle_usage, SHORT_TIMEOUT, "a header byte by byte");
}

/// The master reports a malformed answer in one line, in each stage, and ends.
fn master_reports_nonsense_of_slaves() {
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
                scope.spawn(move || check_master(answers, nonsense));
            }
        }
    });
}

fn check_master(answers: &[Vec<u8>], nonsense: &[u8]) {
    let hosts = Hosts::new(1);
    let bind = || TcpListener::bind((slave_address(0).as_str(), PORT)).expect("a free port");
    let listener = hosts.slaves[0].enter(bind);
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut control, _) = listener.accept().expect("a master connects");
            for answer in answers {
                let _ = control.write_all(answer);
            }
            let _ = control.write_all(nonsense);
            // Unread data at a close would reset the connection.
            let _ = control.shutdown(Shutdown::Write);
            let _ = control.read_to_end(&mut Vec::new());
        });
        hosts
            .start_master("", &profile())
            .finish_within(SHORT_TIMEOUT * 3)
    });
    let stage = answers.len();
    let code = output.code.unwrap_or_default();
    assert!(
        code == 1 || code == 255,
        "after {stage} answers: {output:#?}"
    );
    assert!(
        !output.stderr.contains("panicked"),
        "after {stage} answers: {output:#?}"
    );
    assert!(
        output.stderr.lines().count() <= 1,
        "after {stage} answers: {output:#?}"
    );
    assert!(
        (output.stdout.clone() + &output.stderr).contains(&slave_address(0)),
        "{output:#?}"
    );
    let mut characters = output.stdout.chars();
    let is_text = |c: char| !c.is_control() || c == '\n' || c == '\r';
    assert!(
        characters.all(is_text),
        "after {stage} answers: {output:#?}"
    );
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
