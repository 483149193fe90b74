//! An iperf3 whose peer dies, or says nothing any more, in each phase of a test: it reports that in one line within
//! its deadline, and has nothing left of the test.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use iperf3::wire::{ControlState, add_length_prefix};
use rustix::process::Signal;
use serde_json::Value;
use testkit::{ProcessOutput, Server, TestCase, TestProcess, run_in_parallel, test_cases};

use super::script::{self, RESULTS};
use super::{AT_ONCE, Held, Make, ours3, server_at_rest, serves, stock3, stock3_missing};

/// The longest deadline of a control connection is 30 s, and 40 s more than its time that of a test: `eventually` waits
/// four times as long as this.
const DEADLINE: Duration = Duration::from_secs(20);

/// Phases of a test, each after the one before.
const PHASES: [Phase; 7] = [
    Phase::Connect,
    Phase::Introduction,
    Phase::Parameters,
    Phase::Streams,
    Phase::Running,
    Phase::End,
    Phase::Results,
];

/// Where a peer stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    /// The control connection is there, and no byte has come of it.
    Connect,
    /// The cookie has come, and the server wants parameters.
    Introduction,
    /// They have come, and the server wants streams.
    Parameters,
    /// One of two streams is open.
    Streams,
    /// Data flows.
    Running,
    /// The client has ended the test.
    End,
    /// Both have exchanged their results.
    Results,
}

/// Kinds of tests: the client's options, and its parameters without a stream's number.
const KINDS: [(&str, &str); 4] = [
    ("-l 16K", r#""tcp":true"#),
    ("-l 16K -R", r#""tcp":true,"reverse":true"#),
    (
        "-u -l 1000 -b 1M",
        r#""udp":true,"len":1000,"bandwidth":1000000"#,
    ),
    (
        "-u -l 1000 -b 1M -R",
        r#""udp":true,"reverse":true,"len":1000,"bandwidth":1000000"#,
    ),
];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = test_cases![
        a_server_outlives_clients_that_die,
        a_server_outlives_clients_that_say_nothing,
        a_client_reports_a_server_that_dies,
        a_client_reports_a_server_that_says_nothing,
        a_client_reports_a_process_that_is_killed_or_stopped,
    ];
    test_cases.push(testkit::test_case_unless(
        stock3_missing(),
        "a_server_outlives_processes_that_are_killed_or_stopped",
        || {
            a_server_outlives_processes_that_are_killed_or_stopped();
            Ok(())
        },
    ));
    test_cases.into_iter().map(TestCase::allow_many).collect()
}

/// A client that goes so far.
fn client_up_to(phase: Phase, parameters: &str, port: u16) -> Held {
    let mut client = script::Client::connect(port);
    if phase >= Phase::Introduction {
        client.introduce();
    }
    let streams = if phase == Phase::Streams { 2 } else { 1 };
    if phase >= Phase::Parameters {
        client.ask(&format!(
            r#"{{{parameters},"time":1,"parallel":{streams}}}"#
        ));
    }
    let mut held: Held = Vec::new();
    if phase >= Phase::Streams {
        if parameters.contains("udp") {
            held.push(Box::new(client.datagrams()));
        } else {
            held.push(Box::new(client.stream()));
        }
    }
    if phase >= Phase::Running {
        client.await_running();
    }
    if phase >= Phase::End {
        client.control.state(ControlState::TestEnd);
        client.control.await_state(ControlState::ExchangeResults);
    }
    if phase >= Phase::Results {
        client.control.say(&add_length_prefix(RESULTS));
        client.control.json();
        client.control.await_state(ControlState::DisplayResults);
    }
    held.push(Box::new(client));
    held
}

/// A test of each protocol.
const PLAIN: [&str; 2] = ["-n 1M", "-u -b 8M -l 1000 -n 10K"];

/// All lines on standard error are of iperf3's form.
#[track_caller]
fn is_plain(stderr: &str) {
    for line in stderr.lines() {
        assert!(line.starts_with("iperf3: "), "{stderr}");
    }
}

fn a_server_outlives_clients_that_die() {
    let (server, rest) = server_at_rest(ours3, "", &PLAIN);
    for (_, parameters) in KINDS {
        for phase in PHASES {
            let what = format!("a death, {phase:?}, {parameters}");
            drop(client_up_to(phase, parameters, server.port));
            server.assert_usage_returns_to(rest, AT_ONCE, &what);
        }
    }
    serves(&server, ours3, &PLAIN);
    is_plain(&server.stderr());
    assert!(!server.has_panicked());
}

fn a_server_outlives_clients_that_say_nothing() {
    let (server, rest) = server_at_rest(ours3, "--rcv-timeout 2000", &PLAIN);
    // A session with UDP streams keeps others of its address waiting until it has all of them.
    let silent = |parameters: &str, but: &[Phase]| -> Vec<Held> {
        let phases = PHASES.into_iter().filter(|phase| !but.contains(phase));
        phases
            .map(|phase| client_up_to(phase, parameters, server.port))
            .collect()
    };
    let tcp: Vec<_> = KINDS[..2]
        .iter()
        .map(|(_, parameters)| silent(parameters, &[]))
        .collect();
    let udp: Vec<_> = KINDS[2..]
        .iter()
        .map(|(_, parameters)| silent(parameters, &[Phase::Parameters, Phase::Streams]))
        .collect();
    let line = format!("-c 127.0.0.1 -p {} -n 1M", server.port);
    testkit::run(ours3(&line), AT_ONCE)
        .expect("it ends")
        .assert_success();
    server.assert_usage_returns_to(rest, DEADLINE, "silence");
    serves(&server, ours3, &PLAIN);
    is_plain(&server.stderr());
    drop((tcp, udp));
}

/// A server that goes so far, and then leaves its connections or keeps them until the client has ended.
fn client_of_a_server_up_to(
    phase: Phase,
    kind: (&str, &str),
    dies: bool,
    form: &str,
) -> ProcessOutput {
    let server = script::Server::listen();
    let (options, parameters) = kind;
    let line = format!("-c 127.0.0.1 -p {} -t 1 {options} -P 2 {form}", server.port);
    // The last phase is the server's results, which does not come without those of two streams.
    let line = if phase > Phase::Streams {
        line.replace("-P 2", "-P 1")
    } else {
        line
    };
    let client = TestProcess::start(&mut ours3(&line));
    let mut held: Held = Vec::new();
    let mut session = server.accept();
    if phase >= Phase::Introduction {
        session.control.state(ControlState::ParamExchange);
        session.control.json();
    }
    if phase >= Phase::Streams {
        if parameters.contains("udp") {
            held.push(Box::new(server.datagrams(&mut session).0));
        } else {
            held.push(Box::new(server.stream(&mut session)));
        }
    }
    if phase == Phase::Parameters {
        session.control.state(ControlState::CreateStreams);
    }
    if phase >= Phase::Running {
        session.run();
    }
    if phase >= Phase::End {
        drain(&held);
        session.control.await_state(ControlState::TestEnd);
    }
    if phase >= Phase::Results {
        session.control.state(ControlState::ExchangeResults);
        session.control.json();
    }
    if dies {
        drop((session, held, server));
        return client.finish(AT_ONCE);
    }
    let ended = client.finish(DEADLINE);
    drop((session, held, server));
    ended
}

/// Takes what a client sends on its first stream meanwhile.
fn drain(held: &Held) {
    if let Some(stream) = held[0].downcast_ref::<TcpStream>() {
        let mut stream = stream.try_clone().expect("a descriptor");
        std::thread::spawn(move || {
            let mut scrap = vec![0; 1 << 16];
            while stream.read(&mut scrap).is_ok_and(|count| count > 0) {}
        });
    }
}

/// One line, or one document with it.
#[track_caller]
fn is_reported(client: &ProcessOutput, form: &str, what: &str) {
    assert_eq!(client.code, Some(1), "{what}: {client:#?}");
    // A busy machine may not hold a pace, which is a doubt about the result.
    let is_doubt = |line: &&str| line.contains("the pace of this host was not held");
    let lines: Vec<_> = client
        .stderr
        .lines()
        .filter(|line| !is_doubt(line))
        .collect();
    if form.is_empty() {
        let is_line = lines.len() == 1 && lines[0].starts_with("iperf3: error - ");
        assert!(is_line, "{what}: {client:#?}");
        return;
    }
    let json: Value = serde_json::from_str(&client.stdout).expect(what);
    assert!(json["error"].is_string(), "{what}: {json}");
    assert!(lines.is_empty(), "{what}: {lines:?}");
}

fn a_client_reports_a_server_that_dies() {
    for kind in KINDS {
        for phase in PHASES {
            for form in ["", "-J"] {
                let what = format!("a death, {phase:?}, {}", kind.0);
                is_reported(
                    &client_of_a_server_up_to(phase, kind, true, form),
                    form,
                    &what,
                );
            }
        }
    }
}

fn a_client_reports_a_server_that_says_nothing() {
    let client = |(options, parameters): (&'static str, _), phase| {
        move || {
            let what = format!("silence, {phase:?}, {options}");
            // While data flows, a receiver has a deadline of its own.
            let has_limit = options.contains("-R") && phase == Phase::Running;
            let limit = if has_limit { " --rcv-timeout 500" } else { "" };
            let kind = (&*format!("{options}{limit}"), parameters);
            is_reported(&client_of_a_server_up_to(phase, kind, false, ""), "", &what);
        }
    };
    run_in_parallel(
        KINDS
            .into_iter()
            .flat_map(|kind| PHASES.map(|phase| client(kind, phase))),
    );
}

fn a_client_reports_a_process_that_is_killed_or_stopped() {
    let kinds = [
        "-b 8M",
        "-R -b 8M",
        "--bidir -b 8M",
        "-u -b 1M",
        "-u -R -b 1M",
        "-P 4",
    ];
    let makes: &[Make] = match stock3_missing() {
        None => &[ours3, stock3],
        Some(_) => &[ours3],
    };
    let pairs = makes
        .iter()
        .flat_map(|make| kinds.map(|kind| (*make, kind)));
    run_in_parallel(pairs.flat_map(|(make, kind)| {
        [Signal::KILL, Signal::STOP]
            .map(|signal| move || a_client_reports_a_server_with(make, kind, signal))
    }));
}

fn a_client_reports_a_server_with(make: Make, kind: &str, signal: Signal) {
    let server = Server::try_start_with(|port| make(&format!("-s -p {port}"))).expect("it starts");
    let receives = kind.contains("-R") || kind.contains("--bidir");
    let limit = if receives { "--rcv-timeout 1000" } else { "" };
    let (time, patience) = match signal {
        Signal::KILL => (30, AT_ONCE),
        _ => (3, DEADLINE),
    };
    let port = server.port;
    let line = format!("-c 127.0.0.1 -p {port} -t {time} -i 0.1 -l 1000 {kind} {limit}");
    let client = TestProcess::start(&mut ours3(&line));
    assert!(testkit::wait_until(AT_ONCE, || client
        .stdout()
        .contains("Bytes")));
    server.signal(signal);
    is_reported(&client.finish(patience), "", &format!("{signal:?}, {kind}"));
}

fn a_server_outlives_processes_that_are_killed_or_stopped() {
    let (server, rest) = server_at_rest(ours3, "--rcv-timeout 2000", &PLAIN);
    let kinds = [
        "",
        "-R",
        "--bidir",
        "-u -b 1M -l 1000",
        "-u -b 1M -l 1000 -R",
        "-P 8",
    ];
    for signal in [Signal::KILL, Signal::STOP] {
        let start = |kind: &&str| {
            let line = format!(
                "-c 127.0.0.1 -p {} -t 10 -i 0.1 --forceflush {kind}",
                server.port
            );
            [ours3, stock3].map(|make| TestProcess::start(&mut make(&line)))
        };
        let clients: Vec<TestProcess> = kinds.iter().flat_map(start).collect();
        for client in &clients {
            let flows = testkit::wait_until(DEADLINE, || client.stdout().contains("Bytes"));
            assert!(flows, "{} {}", client.stdout(), client.stderr());
        }
        for client in &clients {
            client.signal(signal);
        }
        server.assert_usage_returns_to(rest, DEADLINE, &format!("{signal:?}"));
        drop(clients);
    }
    serves(&server, ours3, &PLAIN);
    is_plain(&server.stderr());
}
