//! iperf3 clients and servers that lose their peer, or get a signal, in any phase of a test. They
//! report that in one line within their deadline. Servers release all resources of the test.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use iperf3::wire::{ControlState, add_length_prefix, reply_to};
use rustix::process::Signal;
use serde_json::Value;
use testkit::Requirement::Program;
use testkit::{
    ProcessOutput, Receive, ReceiveFrom, Server, StockPeer, TestCase, TestProcess, run_in_parallel,
    test_cases, without_pace_warnings,
};

use super::iperf3_script::{self, RESULTS};
use super::{
    CommandBuilder, OpenSockets, SHORT_TIMEOUT, assert_serves, missing_iperf3_reason, our_iperf3,
    start_idle_server, start_server, stock_iperf3,
};
use crate::iperf3::STOCK_VERSIONS;
use crate::iperf3::compare::{compare_despite_delays, compare_outputs};

/// The longest deadline is 30 s for a control connection, and 40 s plus its time for a test. All
/// waits multiply this timeout by 4.
const DEADLINE: Duration = Duration::from_secs(20);

/// Phases of a test, in order.
const PHASES: [Phase; 7] = [
    Phase::Connect,
    Phase::Cookie,
    Phase::Parameters,
    Phase::Streams,
    Phase::Running,
    Phase::End,
    Phase::Results,
];

/// Phase after which a peer stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    /// The control connection is open.
    Connect,
    /// The client has sent the cookie. The server requests parameters.
    Cookie,
    /// The client has sent the parameters. The server requests streams.
    Parameters,
    /// One of two streams is open.
    Streams,
    /// Data flows.
    Running,
    /// The client has ended the test.
    End,
    /// Both ends have sent their results.
    Results,
}

/// Tests: the client's options, and its parameters without the number of streams.
const TESTS: [(&str, &str); 4] = [
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
        server_releases_disconnected_clients,
        server_releases_silent_clients,
        server_closes_streams_before_results,
        client_reports_server_that_disconnects,
        client_reports_server_that_disconnects_before_a_reply,
        client_reports_silent_server,
        client_reports_killed_and_stopped_servers,
        server_reports_its_end_to_silent_clients,
        client_reports_interrupt,
        client_counts_nothing_before_its_test,
    ];
    test_cases.extend(STOCK_VERSIONS.map(|stock| {
        let version = stock.version.replace('.', "_");
        let name = format!("client_reports_interrupt_as_stock::{version}");
        stock.test_case(name, client_reports_interrupt_as_stock)
    }));
    test_cases.extend(test_cases![
        needing &[Program("iperf3")];
        server_releases_killed_and_stopped_clients,
    ]);
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

/// Runs a scripted client up to a phase.
fn run_client_up_to(phase: Phase, parameters: &str, port: u16) -> OpenSockets {
    let mut client = iperf3_script::Client::connect(port);
    if phase >= Phase::Cookie {
        client.send_cookie();
    }
    let streams = if phase == Phase::Streams { 2 } else { 1 };
    if phase >= Phase::Parameters {
        client.send_parameters(&format!(
            r#"{{{parameters},"time":1,"parallel":{streams}}}"#
        ));
    }
    let mut open_sockets: OpenSockets = Vec::new();
    if phase >= Phase::Streams {
        if parameters.contains("udp") {
            open_sockets.push(Box::new(client.open_udp_stream()));
        } else {
            open_sockets.push(Box::new(client.open_tcp_stream()));
        }
    }
    if phase >= Phase::Running {
        client.await_running();
    }
    if phase >= Phase::End {
        client.control.send_state(ControlState::TestEnd);
        client.control.await_state(ControlState::ExchangeResults);
    }
    if phase >= Phase::Results {
        client.control.send(&add_length_prefix(RESULTS));
        client.control.read_json();
        client.control.await_state(ControlState::DisplayResults);
    }
    open_sockets.push(Box::new(client));
    open_sockets
}

/// Options of a short client per protocol.
const SIMPLE_CLIENTS: [&str; 2] = ["-n 1M", "-u -b 8M -l 1000 -n 10K"];

/// Fails the test unless all lines of standard error have iperf3's prefix.
#[track_caller]
fn assert_iperf3_prefix(stderr: &str) {
    for line in stderr.lines() {
        assert!(line.starts_with("iperf3: "), "{stderr}");
    }
}

fn server_releases_disconnected_clients() {
    let (server, idle_usage) = start_idle_server(our_iperf3, "", &SIMPLE_CLIENTS);
    for (_, parameters) in TESTS {
        for phase in PHASES {
            let event = format!("a disconnect, {phase:?}, {parameters}");
            drop(run_client_up_to(phase, parameters, server.port));
            server.assert_usage_returns_to(idle_usage, SHORT_TIMEOUT, &event);
        }
    }
    assert_serves(&server, our_iperf3, &SIMPLE_CLIENTS);
    assert_iperf3_prefix(&server.stderr());
    assert!(!server.has_panicked());
}

fn server_releases_silent_clients() {
    let (server, idle_usage) = start_idle_server(our_iperf3, "--rcv-timeout 2000", &SIMPLE_CLIENTS);
    let silent_clients: Vec<OpenSockets> = TESTS
        .iter()
        .flat_map(|(_, parameters)| {
            PHASES.map(|phase| run_client_up_to(phase, parameters, server.port))
        })
        .collect();
    let line = format!("-c 127.0.0.1 -p {} -n 1M", server.port);
    testkit::run(our_iperf3(&line), SHORT_TIMEOUT)
        .expect("the client ends")
        .assert_success();
    server.assert_usage_returns_to(idle_usage, DEADLINE, "silence");
    assert_serves(&server, our_iperf3, &SIMPLE_CLIENTS);
    assert_iperf3_prefix(&server.stderr());
    drop(silent_clients);
}

/// At the client's end message the server closes its streams and only then requests the results,
/// whether the client reads or not. Otherwise the client would close first and keep its ports in
/// TIME_WAIT, or wait while the server sends the rest of a block.
fn server_closes_streams_before_results() {
    let (server, idle_usage) = start_idle_server(our_iperf3, "", &SIMPLE_CLIENTS);
    for direction in ["", r#","reverse":true"#, r#","bidirectional":true"#] {
        let mut client = iperf3_script::Client::connect(server.port);
        client.send_cookie();
        client.send_parameters(&format!(r#"{{"tcp":true,"len":1000000{direction}}}"#));
        let stream_count = if direction.contains("bidir") { 2 } else { 1 };
        let mut streams: Vec<_> = (0..stream_count)
            .map(|_| client.open_tcp_stream())
            .collect();
        client.await_running();
        let has_threads =
            |count| testkit::wait_until(SHORT_TIMEOUT, || server.thread_count("stream") == count);
        let names = || server.thread_names();
        assert!(has_threads(stream_count), "{direction}: {:?}", names());
        // A sending server fills the buffers of its stream.
        std::thread::sleep(Duration::from_millis(200));
        client.control.send_state(ControlState::TestEnd);
        client.control.await_state(ControlState::ExchangeResults);
        // The streams' threads have ended. The kernel may list an ended thread for a moment.
        assert!(has_threads(0), "{direction}: {:?}", names());
        // The end of a stream arrives before the request for results.
        for stream in &mut streams {
            stream.set_nonblocking(true).expect("a TCP socket");
            let mut buffer = vec![0; 1 << 16];
            let end = loop {
                match stream.receive(&mut buffer) {
                    Ok(1..) => {}
                    end => break end.map_err(|error| error.kind()),
                }
            };
            // The end cannot arrive at a full buffer.
            assert!(
                end == Ok(0) || !direction.is_empty(),
                "{direction}: {end:?}"
            );
        }
        drop((client, streams));
        server.assert_usage_returns_to(idle_usage, SHORT_TIMEOUT, direction);
    }
    assert_serves(&server, our_iperf3, &SIMPLE_CLIENTS);
}

/// What happens to a client after a phase.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The server closes its connections.
    Disconnect,
    /// The server keeps its connections until the client ends.
    Silence,
    /// The client gets SIGINT.
    Interrupt,
}

/// Runs a client of a scripted server up to a phase, in which an event happens.
fn run_client_of_server_up_to(
    phase: Phase,
    test: (&str, &str),
    event: Event,
    format: &str,
    program: &dyn Fn(&str) -> Command,
) -> ProcessOutput {
    let server = iperf3_script::Server::listen();
    let (options, parameters) = test;
    let line = format!(
        "-c 127.0.0.1 -p {} -t 1 {options} -P 2 {format}",
        server.port
    );
    // A test only starts if all its streams are open, and the script opens one.
    let line = if phase > Phase::Streams {
        line.replace("-P 2", "-P 1")
    } else {
        line
    };
    let client = TestProcess::start(&mut program(&line));
    let mut open_sockets: OpenSockets = Vec::new();
    let mut session = server.accept();
    if phase >= Phase::Cookie {
        session.control.send_state(ControlState::ParamExchange);
        session.control.read_json();
    }
    if phase >= Phase::Streams {
        if parameters.contains("udp") {
            open_sockets.push(Box::new(server.accept_udp_stream(&mut session).0));
        } else {
            open_sockets.push(Box::new(server.accept_tcp_stream(&mut session)));
        }
    }
    if phase == Phase::Parameters {
        session.control.send_state(ControlState::CreateStreams);
    }
    if phase >= Phase::Running {
        session.start_test();
    }
    if phase >= Phase::End {
        drain(&open_sockets);
        session.control.await_state(ControlState::TestEnd);
    }
    if phase >= Phase::Results {
        session.control.send_state(ControlState::ExchangeResults);
        session.control.read_json();
    }
    match event {
        Event::Disconnect => {
            drop((session, open_sockets, server));
            return client.finish(SHORT_TIMEOUT);
        }
        Event::Silence => {}
        Event::Interrupt => {
            // The client reads the last message.
            std::thread::sleep(Duration::from_millis(300));
            client.signal(Signal::INT);
        }
    }
    let client = client.finish(DEADLINE);
    drop((session, open_sockets, server));
    client
}

/// Reads the data of the first TCP stream in another thread.
fn drain(open_sockets: &OpenSockets) {
    if let Some(stream) = open_sockets[0].downcast_ref::<TcpStream>() {
        let stream = stream.try_clone().expect("a free descriptor");
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while stream.receive(&mut buffer).is_ok_and(|count| count > 0) {}
        });
    }
}

/// Fails the test unless the client reports one error in a line, or in a document (`-J`).
#[track_caller]
fn assert_reports_error(client: &ProcessOutput, format: &str, context: &str) {
    assert_eq!(client.code, Some(1), "{context}: {client:#?}");
    let stderr = without_pace_warnings(&client.stderr);
    let lines: Vec<_> = stderr.lines().collect();
    if format.is_empty() {
        let has_one_error = lines.len() == 1 && lines[0].starts_with("iperf3: error - ");
        assert!(has_one_error, "{context}: {client:#?}");
        return;
    }
    let json: Value = serde_json::from_str(&client.stdout).expect(context);
    assert!(json["error"].is_string(), "{context}: {json}");
    assert!(lines.is_empty(), "{context}: {lines:?}");
}

fn client_reports_server_that_disconnects() {
    for test in TESTS {
        for phase in PHASES {
            for format in ["", "-J"] {
                let context = format!("a disconnect, {phase:?}, {}", test.0);
                let client =
                    run_client_of_server_up_to(phase, test, Event::Disconnect, format, &our_iperf3);
                assert_reports_error(&client, format, &context);
            }
        }
    }
}

/// The second UDP stream waits for a reply when the control connection ends.
fn client_reports_server_that_disconnects_before_a_reply() {
    let server = iperf3_script::Server::listen();
    let line = format!("-c 127.0.0.1 -p {} -u -P 2", server.port);
    let client = TestProcess::start(&mut our_iperf3(&line));
    let mut session = server.accept();
    session.control.send_state(ControlState::ParamExchange);
    session.control.read_json();
    // It is not connected, so it takes the second greeting as well.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, server.port)).expect("a free port");
    session.control.send_state(ControlState::CreateStreams);
    let mut greeting = [0; 64];
    let (_, first) = socket.receive_from(&mut greeting).expect("a greeting");
    let reply = reply_to(&greeting);
    socket.send_to(&reply, first).expect("loopback");
    socket
        .receive_from(&mut greeting)
        .expect("a second greeting");
    drop(session);
    let client = client.finish(SHORT_TIMEOUT);
    assert_reports_error(&client, "", "a disconnect before a reply");
}

fn client_reports_silent_server() {
    let check = |(options, parameters): (&'static str, _), phase| {
        move || {
            let context = format!("silence, {phase:?}, {options}");
            // A receiver has its own deadline in the data phase.
            let is_receiving = options.contains("-R") && phase == Phase::Running;
            let timeout = if is_receiving {
                " --rcv-timeout 500"
            } else {
                ""
            };
            let test = (&*format!("{options}{timeout}"), parameters);
            let client = run_client_of_server_up_to(phase, test, Event::Silence, "", &our_iperf3);
            assert_reports_error(&client, "", &context);
        }
    };
    run_in_parallel(
        TESTS
            .into_iter()
            .flat_map(|test| PHASES.map(|phase| check(test, phase))),
    );
}

/// A terminated server sends SERVER_TERMINATE to the clients of unfinished tests, as stock does.
fn server_reports_its_end_to_silent_clients() {
    let server = start_server(our_iperf3, "");
    let unfinished = [
        Phase::Parameters,
        Phase::Streams,
        Phase::Running,
        Phase::End,
    ];
    let clients: Vec<_> = TESTS
        .iter()
        .flat_map(|(_, parameters)| {
            unfinished.map(|phase| {
                let context = format!("{phase:?}, {parameters}");
                (run_client_up_to(phase, parameters, server.port), context)
            })
        })
        .collect();
    let stderr = server.terminate().stderr;
    assert!(!stderr.contains("error"), "{stderr}");
    for (mut open_sockets, context) in clients {
        let client = open_sockets.pop().expect("the control connection");
        let mut client = client
            .downcast::<iperf3_script::Client>()
            .expect("a client");
        let mut messages = Vec::new();
        let _ = client.control.0.read_to_end(&mut messages);
        let last = messages.last().copied().and_then(ControlState::from_byte);
        assert_eq!(last, Some(ControlState::ServerTerminate), "{context}");
    }
}

fn client_reports_interrupt() {
    for (options, parameters) in TESTS {
        for phase in PHASES {
            let opens_streams = [Phase::Parameters, Phase::Streams].contains(&phase);
            if opens_streams && options.contains("-u") {
                // No socket of the script waits for another stream, so the client gets an error.
                continue;
            }
            let test = (options, parameters);
            let client = run_client_of_server_up_to(phase, test, Event::Interrupt, "", &our_iperf3);
            let context = format!("{phase:?}, {options}");
            let expected = "iperf3: interrupt - the client has terminated by signal Interrupt(2)\n";
            let stderr = without_pace_warnings(&client.stderr);
            assert_eq!(stderr, expected, "{context}: {}", client.stdout);
            assert_eq!(client.code, Some(0), "{context}");
        }
    }
}

/// Compares the documents of interrupted clients.
fn client_reports_interrupt_as_stock(stock: StockPeer) -> Result<(), String> {
    let ours = |line: &str| our_iperf3(&format!("--stock-version {} {line}", stock.version));
    let stock = |line: &str| stock.with_args(line);
    for (options, parameters) in [
        ("-l 1000 -b 4M", r#""tcp":true"#),
        ("-R", r#""tcp":true,"reverse":true"#),
    ] {
        for phase in PHASES {
            if phase == Phase::Streams {
                // A stock client does not end while it waits for its second stream.
                continue;
            }
            let test = (options, parameters);
            let run =
                |program| run_client_of_server_up_to(phase, test, Event::Interrupt, "-J", program);
            let context = format!("{phase:?}, {options}");
            compare_despite_delays(|| compare_outputs(&context, &run(&ours), &run(&stock), "-J"))?;
        }
    }
    Ok(())
}

/// A client that is interrupted in the omitted time has measured nothing.
fn client_counts_nothing_before_its_test() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    for options in ["-u -R -b 1M", "-u -b 1M", "-R", ""] {
        let line = format!(
            "-c 127.0.0.1 -p {} -O 30 -t 1 -i 0.1 -J {options}",
            server.port
        );
        let client = TestProcess::start(&mut our_iperf3(&line));
        let before = server.stdout().matches("(omitted)").count();
        let has_data = || server.stdout().matches("(omitted)").count() > before;
        assert!(
            testkit::wait_until(SHORT_TIMEOUT, has_data),
            "{options}: {}",
            server.log()
        );
        client.signal(Signal::INT);
        let client = client.finish(SHORT_TIMEOUT);
        let document: Value = serde_json::from_str(&client.stdout).expect(options);
        let end = &document["end"];
        let sums = ["sum", "sum_sent", "sum_received"].map(|name| &end[name]);
        for sum in sums.iter().filter(|sum| sum.is_object()) {
            assert_eq!(sum["bytes"], 0, "{options}: {end:#}");
            let packets = &sum["packets"];
            assert!(packets.is_null() || *packets == 0, "{options}: {end:#}");
        }
        assert!(end["sum_received"].is_object(), "{options}: {document:#}");
    }
    server.terminate();
}

fn client_reports_killed_and_stopped_servers() {
    let clients = [
        "-b 8M",
        "-R -b 8M",
        "--bidir -b 8M",
        "-u -b 1M",
        "-u -R -b 1M",
        "-P 4",
    ];
    let programs: &[CommandBuilder] = match missing_iperf3_reason() {
        None => &[our_iperf3, stock_iperf3],
        Some(_) => &[our_iperf3],
    };
    let pairs = programs
        .iter()
        .flat_map(|command_with| clients.map(|options| (*command_with, options)));
    run_in_parallel(pairs.flat_map(|(command_with, options)| {
        [Signal::KILL, Signal::STOP].map(|signal| {
            move || assert_client_reports_signalled_server(command_with, options, signal)
        })
    }));
}

fn assert_client_reports_signalled_server(
    command_with: CommandBuilder,
    options: &str,
    signal: Signal,
) {
    let server =
        Server::try_start_with(|port| command_with(&format!("-s -p {port}"))).expect("a server");
    let is_receiving = options.contains("-R") || options.contains("--bidir");
    let timeout_option = if is_receiving {
        "--rcv-timeout 1000"
    } else {
        ""
    };
    let (time, timeout) = match signal {
        Signal::KILL => (30, SHORT_TIMEOUT),
        _ => (3, DEADLINE),
    };
    let port = server.port;
    let line =
        format!("-c 127.0.0.1 -p {port} -t {time} -i 0.1 -l 1000 {options} {timeout_option}");
    let client = TestProcess::start(&mut our_iperf3(&line));
    assert!(testkit::wait_until(SHORT_TIMEOUT, || client
        .stdout()
        .contains("Bytes")));
    server.signal(signal);
    let context = format!("{signal:?}, {options}");
    assert_reports_error(&client.finish(timeout), "", &context);
}

fn server_releases_killed_and_stopped_clients() {
    let (server, idle_usage) = start_idle_server(our_iperf3, "--rcv-timeout 2000", &SIMPLE_CLIENTS);
    let client_options = [
        "",
        "-R",
        "--bidir",
        "-u -b 1M -l 1000",
        "-u -b 1M -l 1000 -R",
        "-P 8",
    ];
    for signal in [Signal::KILL, Signal::STOP] {
        let start = |options: &&str| {
            let line = format!(
                "-c 127.0.0.1 -p {} -t 10 -i 0.1 --forceflush {options}",
                server.port
            );
            [our_iperf3, stock_iperf3]
                .map(|command_with| TestProcess::start(&mut command_with(&line)))
        };
        let clients: Vec<TestProcess> = client_options.iter().flat_map(start).collect();
        for client in &clients {
            let has_started = testkit::wait_until(DEADLINE, || client.stdout().contains("Bytes"));
            assert!(has_started, "{} {}", client.stdout(), client.stderr());
        }
        for client in &clients {
            client.signal(signal);
        }
        server.assert_usage_returns_to(idle_usage, DEADLINE, &format!("{signal:?}"));
        drop(clients);
    }
    assert_serves(&server, our_iperf3, &SIMPLE_CLIENTS);
    assert_iperf3_prefix(&server.stderr());
}
