//! Tests of iperf 2 that do not end regularly, compared with several versions of stock iperf: signals,
//! killed programs, and a reset connection.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use rustix::process::Signal;
use testkit::{
    ProcessOutput, StockPeer, TestCase, TestProcess, free_port, is_listening, wait_until,
};

use super::matrix::{Program, command, masked};
use super::{STOCK_VERSIONS, TIMEOUT, is_bound_to_udp};

/// Name, arguments of the server, arguments of the client.
const TESTS: &[(&str, &str, &str)] = &[
    ("tcp", "", "-b 8m -l 10000"),
    ("tcp_more", "-e", "-b 8m -l 10000 -e"),
    ("tcp_reverse", "", "-b 8m -l 10000 -R"),
    ("tcp_full_duplex", "", "-b 8m -l 10000 --full-duplex"),
    ("tcp_parallel", "", "-b 8m -l 10000 -P 2"),
    ("bounceback", "", "--bounceback -i 10"),
    ("udp", "-u", "-u -b 400k"),
    ("udp_reverse", "-u", "-u -b 400k -R"),
];

/// The end that gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

/// The signals, with names. Stock's UDP server waits for minutes after a killed client, and a client
/// waits for a killed UDP server, so these have other tests.
const SIGNALS: [(&str, End, Signal); 5] = [
    ("client_interrupted", End::Client, Signal::INT),
    ("client_terminated", End::Client, Signal::TERM),
    ("client_killed", End::Client, Signal::KILL),
    ("server_interrupted", End::Server, Signal::INT),
    ("server_killed", End::Server, Signal::KILL),
];

pub(super) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = Vec::new();
    for stock in STOCK_VERSIONS {
        let version = stock.version.replace('.', "_");
        for &(test, server, client) in TESTS {
            for (name, end, signal) in SIGNALS {
                let is_udp = server.contains("-u");
                if is_udp && (end == End::Server || signal == Signal::KILL) {
                    continue;
                }
                let compare =
                    move |stock| prints_stock_lines_after(stock, (server, client), (end, signal));
                let name = format!("{name}_{test}::{version}");
                test_cases.push(stock.test_case(name, compare).allow_many_at_once());
            }
        }
        let name = format!("server_of_reset_client::{version}");
        test_cases.push(
            stock
                .test_case(name, server_names_reset)
                .allow_many_at_once(),
        );
    }
    test_cases
}

/// Starts a server, and waits until it listens.
fn start_server(program: Program, options: &str) -> (TestProcess, u16) {
    let port = free_port();
    let server = TestProcess::start(&mut command(program, &format!("-s -p {port} {options}")));
    let listens = || {
        if options.contains("-u") {
            is_bound_to_udp(port)
        } else {
            is_listening(port)
        }
    };
    assert!(wait_until(TIMEOUT, listens), "{}", server.stderr());
    (server, port)
}

/// Runs a test, ends it after about a second, and returns the output of each end that was not killed.
///
/// Fails if an end keeps running.
fn run(
    program: Program,
    (server_options, client_options): (&str, &str),
    (end, signal): (End, Signal),
) -> io::Result<[Option<ProcessOutput>; 2]> {
    let (mut server, port) = start_server(program, server_options);
    let line = format!("-c 127.0.0.1 -p {port} -t 20 {client_options}");
    let mut client = TestProcess::start(&mut command(program, &line));
    assert!(wait_until(TIMEOUT, || server
        .stdout()
        .contains("connected with")));
    std::thread::sleep(Duration::from_secs(1));
    match end {
        End::Client => client.signal(signal),
        End::Server => server.signal(signal),
    }
    let is_killed = |role| signal == Signal::KILL && end == role;
    let client = client.wait(TIMEOUT)?;
    if end == End::Client {
        let has_reported = || server.stdout().contains("/sec");
        wait_until(TIMEOUT, has_reported);
        server.signal(Signal::INT);
    }
    let server = server.wait(TIMEOUT)?;
    Ok([
        Some(client).filter(|_| !is_killed(End::Client)),
        Some(server).filter(|_| !is_killed(End::Server)),
    ])
}

/// Compares the standard outputs, and the exit codes of interrupted clients. An end that loses its
/// peer exits with 1 here, but with 0 in stock: `docs/differences.md`.
fn prints_stock_lines_after(
    stock: StockPeer,
    options: (&str, &str),
    end: (End, Signal),
) -> Result<(), String> {
    let attempt = || {
        // A bounceback client of stock 2.2.1 sometimes keeps running after its server is killed.
        let expected =
            run(Program::Stock(stock), options, end).map_err(|error| error.to_string())?;
        let printed = run(Program::Ours(stock.version), options, end)
            .unwrap_or_else(|error| panic!("{error}"));
        for (role, ours, stock) in [
            ("client", &printed[0], &expected[0]),
            ("server", &printed[1], &expected[1]),
        ] {
            let (Some(ours), Some(stock)) = (ours, stock) else {
                continue;
            };
            if masked(&ours.stdout) != masked(&stock.stdout) {
                return Err(format!("{role}:\nours {ours:#?}\nstock {stock:#?}"));
            }
            let loses_server = role == "client" && end.0 == End::Server;
            if loses_server && ours.code != Some(1) || !loses_server && ours.code != stock.code {
                return Err(format!(
                    "{role}, exit code:\nours {ours:#?}\nstock {stock:#?}"
                ));
            }
        }
        Ok(())
    };
    // Stock's lines vary on a busy machine.
    attempt().or_else(|_| attempt()).or_else(|_| attempt())
}

/// A client that resets its connection is no regular end.
fn server_names_reset(stock: StockPeer) -> Result<(), String> {
    let run = |program| {
        let (server, port) = start_server(program, "");
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a server");
        client
            .write_all(&vec![0; 100_000])
            .expect("a new connection");
        assert!(wait_until(TIMEOUT, || server
            .stdout()
            .contains("connected with")));
        std::thread::sleep(Duration::from_millis(300));
        let lingers = socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO));
        lingers.expect("a socket");
        drop(client);
        assert!(wait_until(TIMEOUT, || server.stdout().contains("/sec")));
        server.signal(Signal::INT);
        server.finish(TIMEOUT)
    };
    let (ours, stock) = (
        run(Program::Ours(stock.version)),
        run(Program::Stock(stock)),
    );
    // Whether an interrupted stock server still has threads is chance.
    let stock_errors =
        (stock.stderr.lines()).filter(|line| !line.starts_with("Waiting for server"));
    let stock_errors = stock_errors.map(|line| format!("{line}\n"));
    let is_same = masked(&ours.stderr) == masked(&stock_errors.collect::<String>())
        && masked(&ours.stdout) == masked(&stock.stdout);
    if is_same
        && ours
            .stderr
            .contains("recv failed: Connection reset by peer")
    {
        return Ok(());
    }
    Err(format!("ours {ours:#?}\nstock {stock:#?}"))
}
