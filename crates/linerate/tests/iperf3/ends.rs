//! Tests that do not end regularly, compared with several versions of stock iperf3: signals, lost
//! ends and refused tests, in text and JSON.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{Release, Server, StockPeer, TestCase, TestProcess};

use super::compare::{Program, compare_despite_delays, compare_outputs};
use super::{NEWEST, STOCK_VERSIONS, TIMEOUT};

/// The state in which a server waits for the parameters of a test.
const PARAM_EXCHANGE: u8 = 9;

/// What ends a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A signal to the client.
    Client(Signal),
    /// A signal to the server.
    Server(Signal),
    /// A signal to a server without a test.
    IdleServer(Signal),
    /// The server refuses the rate of the test.
    Refused,
    /// Nothing listens.
    NoServer,
    /// A signal to the client of a server that sends these states, and then nothing.
    Setup(&'static [u8]),
}

const ENDS: [(&str, End); 12] = [
    ("client_int", End::Client(Signal::INT)),
    ("client_term", End::Client(Signal::TERM)),
    ("client_hup", End::Client(Signal::HUP)),
    ("client_kill", End::Client(Signal::KILL)),
    ("server_int", End::Server(Signal::INT)),
    ("server_kill", End::Server(Signal::KILL)),
    ("idle_int", End::IdleServer(Signal::INT)),
    ("idle_hup", End::IdleServer(Signal::HUP)),
    ("refused", End::Refused),
    ("no_server", End::NoServer),
    ("setup", End::Setup(&[])),
    ("parameters", End::Setup(&[PARAM_EXCHANGE])),
];

/// Names and options of clients, each compared at each end with the newest stock iperf3.
const FEATURES: [(&str, &str); 8] = [
    ("udp", "-u"),
    ("reverse", "-R"),
    ("bidir", "--bidir"),
    ("parallel", "-P 2"),
    ("omitted", "-O 5"),
    ("after_omitted", "-O 1"),
    ("no_intervals", "-i 0"),
    ("server_output", "--get-server-output"),
];

pub(super) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = Vec::new();
    for (end_name, end) in ENDS {
        for (format_name, format) in [("text", ""), ("json", "-J"), ("stream", "--json-stream")] {
            for stock in STOCK_VERSIONS {
                let is_newest = stock.release == Release::Unstable;
                // 3.12 has no such option. Older servers refuse a rate when the streams are open.
                if stock.release == Release::Debian12 && format_name == "stream"
                    || end == End::Refused && !is_newest
                {
                    continue;
                }
                let version = stock.version.replace('.', "_");
                let name = format!("ends::{end_name}::{format_name}::{version}");
                test_cases.push(test_case(stock, name, end, ("", format)));
            }
        }
        if matches!(end, End::IdleServer(_) | End::NoServer) {
            continue;
        }
        for (feature, options) in FEATURES {
            // The figures of a stock client whose server ends are then over the uptime of the machine.
            if feature == "no_intervals" && matches!(end, End::Server(_)) {
                continue;
            }
            for (format_name, format) in [("text", ""), ("json", "-J")] {
                let name = format!("ends::{end_name}::{feature}::{format_name}");
                test_cases.push(test_case(NEWEST, name, end, (options, format)));
            }
        }
    }
    test_cases
}

/// Compares an end of a test with that of stock. `options` are those of the client, and the format.
fn test_case(
    stock: StockPeer,
    name: String,
    end: End,
    options: (&'static str, &'static str),
) -> TestCase {
    let compare = move |stock| compare_despite_delays(|| compare_ends(stock, end, options));
    stock.test_case(name, compare).allow_many_at_once()
}

/// Compares both ends with a stock pair.
fn compare_ends(stock: StockPeer, end: End, options: (&str, &str)) -> Result<(), String> {
    let (_, format) = options;
    let mut control = run_pair(Program::Stock(stock), end, options);
    // A stock client notices the lost server on one of two connections.
    for _ in 0..10 {
        let is_lost_stream = |text: &str| text.contains("stream socket");
        let output = &control[0].1;
        if !is_lost_stream(&output.stdout) && !is_lost_stream(&output.stderr) {
            break;
        }
        control = run_pair(Program::Stock(stock), end, options);
    }
    let outputs = run_pair(Program::Ours(stock.version), end, options);
    for ((role, output), (_, control)) in outputs.into_iter().zip(control) {
        compare_outputs(role, &output, &control, format)?;
        let (stderr, expected) = (
            testkit::without_pace_warnings(&output.stderr),
            control.stderr.trim_end(),
        );
        if stderr.trim_end() != expected {
            return Err(format!("{role}: {stderr:?} instead of {expected:?}"));
        }
    }
    Ok(())
}

/// Runs a test and ends it. Returns the output of each program that was not killed.
fn run_pair(
    program: Program,
    end: End,
    (options, format): (&str, &str),
) -> Vec<(&'static str, testkit::ProcessOutput)> {
    let start_client = |port: u16| {
        let line = format!("-c 127.0.0.1 -p {port} -b 4M -l 1000 -t 60 -i 0.2 {options} {format}");
        TestProcess::start(&mut program.command(&line))
    };
    if end == End::NoServer {
        let client = start_client(testkit::free_port());
        return vec![("client", client.finish(TIMEOUT))];
    }
    if let End::Setup(states) = end {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
        let client = start_client(listener.local_addr().expect("its address").port());
        let (mut connection, _) = listener.accept().expect("a client");
        connection.read_exact(&mut [0; 37]).expect("the cookie");
        connection.write_all(states).expect("the states");
        if !states.is_empty() {
            connection.read_exact(&mut [0; 4]).expect("the parameters");
        }
        // A document shows nothing of what stock does between two messages.
        std::thread::sleep(Duration::from_secs(1));
        client.signal(Signal::TERM);
        return vec![("client", client.finish(TIMEOUT))];
    }
    let limit = if end == End::Refused {
        "--server-bitrate-limit 1M"
    } else {
        ""
    };
    let server = Server::try_start_with(|port| {
        program.command(&format!("-s -1 -i 0.2 -p {port} {limit} {format}"))
    });
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    if let End::IdleServer(signal) = end {
        // A server that prints JSON does not show that it waits.
        std::thread::sleep(Duration::from_millis(500));
        server.signal(signal);
        return vec![("server", server.wait(TIMEOUT))];
    }
    let client = start_client(server.port);
    if end != End::Refused {
        // A document shows nothing before its end.
        std::thread::sleep(Duration::from_millis(1500));
    }
    let killed = match end {
        End::Client(signal) => {
            client.signal(signal);
            (signal == Signal::KILL).then_some("client")
        }
        End::Server(signal) => {
            server.signal(signal);
            (signal == Signal::KILL).then_some("server")
        }
        _ => None,
    };
    let outputs = [
        ("client", client.finish(TIMEOUT)),
        ("server", server.wait(TIMEOUT)),
    ];
    let is_alive = |(role, _): &(&str, _)| Some(*role) != killed;
    outputs.into_iter().filter(is_alive).collect()
}
