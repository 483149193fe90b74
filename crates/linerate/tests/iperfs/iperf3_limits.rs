//! The ends of an iperf3 test: `-t`, `-n` and `-k` with omitted time, both directions, several
//! streams and UDP, and what the omitted time does to figures. Both ends are linerate, or one is a
//! stock program of a release.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use iperf3::wire::{ControlState, add_length_prefix};
use serde_json::Value;
use testkit::{
    Release, Server, StockPeer, TestCase, TestProcess, linerate_with_args, test_case_unless,
};

use super::iperf3_script;
use crate::iperf3::STOCK_VERSIONS;

/// Timeout of a test of at most 10 s on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client's options, and the limit that they set.
struct Limit {
    name: &'static str,
    options: &'static str,
    /// The end of the test.
    end: End,
    /// Bits per second of each direction; 0 if the test ends exactly at the limit.
    rate: u64,
}

/// The end of a test.
enum End {
    /// After these bytes of one direction.
    Bytes(u64),
    /// After these seconds.
    Seconds(f64),
}

const MEBIBYTE: u64 = 1 << 20;

const fn limit(name: &'static str, options: &'static str, end: End, rate: u64) -> Limit {
    Limit {
        name,
        options,
        end,
        rate,
    }
}

/// The rows of the table in docs/src/iperf3-users.md. 131072 is the default size of a block.
const LIMITS: [Limit; 25] = [
    limit("bytes", "-n 4M", End::Bytes(4 * MEBIBYTE), 0),
    limit("bytes_in_blocks", "-n 1000000", End::Bytes(8 * 131_072), 0),
    limit(
        "bytes_parallel",
        "-n 1000000 -P 3 -b 8M",
        End::Bytes(8 * 131_072),
        24_000_000,
    ),
    limit(
        "bytes_parallel_unpaced",
        "-n 1000000 -P 3",
        End::Bytes(8 * 131_072),
        0,
    ),
    limit(
        "bytes_parallel_small_blocks",
        "-n 10M -P 3 -l 1000",
        End::Bytes(10_486_000),
        0,
    ),
    limit("bytes_reverse", "-R -n 4M", End::Bytes(4 * MEBIBYTE), 0),
    limit(
        "bytes_reverse_parallel",
        "-R -n 2M -P 3 -b 8M",
        End::Bytes(2 * MEBIBYTE),
        24_000_000,
    ),
    limit(
        "bytes_reverse_parallel_unpaced",
        "-R -n 1000000 -P 3",
        End::Bytes(8 * 131_072),
        0,
    ),
    limit(
        "bytes_both",
        "--bidir -n 2M -b 16M",
        End::Bytes(2 * MEBIBYTE),
        16_000_000,
    ),
    limit(
        "bytes_omit",
        "-n 2M -O 1 -b 16M",
        End::Bytes(2 * MEBIBYTE),
        16_000_000,
    ),
    limit(
        "bytes_omit_reverse",
        "-R -n 4M -O 1 -b 16M",
        End::Bytes(4 * MEBIBYTE),
        16_000_000,
    ),
    // The rate is above that of any loopback interface.
    limit(
        "bytes_omit_reverse_parallel",
        "-R -n 4M -O 1 -P 3",
        End::Bytes(4 * MEBIBYTE),
        1_000_000_000_000,
    ),
    limit(
        "bytes_omit_both",
        "--bidir -n 4M -O 1 -b 16M",
        End::Bytes(4 * MEBIBYTE),
        16_000_000,
    ),
    limit(
        "bytes_udp",
        "-u -n 1M -b 16M -l 8K",
        End::Bytes(MEBIBYTE),
        16_000_000,
    ),
    limit(
        "bytes_udp_reverse",
        "-u -R -n 1M -b 16M -l 8K",
        End::Bytes(MEBIBYTE),
        16_000_000,
    ),
    limit(
        "bytes_udp_omit",
        "-u -n 1M -O 1 -b 8M -l 8K",
        End::Bytes(MEBIBYTE),
        8_000_000,
    ),
    limit("blocks", "-k 20", End::Bytes(20 * 131_072), 0),
    limit("blocks_parallel", "-k 5 -P 3", End::Bytes(5 * 131_072), 0),
    limit("blocks_reverse", "-R -k 20", End::Bytes(20 * 131_072), 0),
    limit(
        "block_of_one_stream",
        "-R -k 1 -P 3",
        End::Bytes(131_072),
        0,
    ),
    limit(
        "block_omit_reverse",
        "-R -k 1 -O 1 -b 16M",
        End::Bytes(131_072),
        16_000_000,
    ),
    limit(
        "blocks_udp",
        "-u -k 50 -l 1000 -b 8M",
        End::Bytes(50_000),
        8_000_000,
    ),
    limit(
        "time_without_bytes",
        "-t 1 -n 0 -b 8M",
        End::Seconds(1.0),
        8_000_000,
    ),
    limit(
        "no_bytes_and_no_blocks",
        "-n 0 -k 0 -b 8M",
        End::Seconds(10.0),
        8_000_000,
    ),
    limit(
        "time_omit_udp_reverse",
        "-u -R -t 1 -O 1 -b 8M -l 1000",
        End::Seconds(1.0),
        8_000_000,
    ),
];

/// The program at one end.
#[derive(Clone, Copy)]
struct Program {
    /// The stock program; `None` for linerate.
    stock: Option<StockPeer>,
}

impl Program {
    const OURS: Self = Self { stock: None };

    fn command(&self, line: &str) -> Command {
        match self.stock {
            Some(stock) => stock.with_args(line),
            None => linerate_with_args(&format!("iperf3 {line}")),
        }
    }

    fn is_ours(&self) -> bool {
        self.stock.is_none()
    }
}

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = Vec::new();
    for limit in &LIMITS {
        let name = |peer: &str| format!("limits::{}::{peer}", limit.name);
        let ours = test_case_unless(None, name("linerate"), move || {
            check_pair(limit, &Program::OURS, &Program::OURS)
        });
        test_cases.push(ours.allow_many_at_once());
        for stock in STOCK_VERSIONS {
            // Later versions check the limit of several streams at report intervals.
            let is_late = limit.rate == 0 && limit.options.contains("-P");
            if stock.release == Release::Debian12 || !is_late {
                let name = name(&stock.version.replace('.', "_"));
                let check = move |stock| check_with_stock(limit, &Program { stock: Some(stock) });
                test_cases.push(stock.test_case(name, check).allow_many_at_once());
            }
        }
    }
    test_cases.extend(testkit::test_cases![
        server_reports_omitted_datagrams_without_omitted_time,
        client_leaves_out_omitted_datagrams_of_older_sender,
        client_leaves_out_omitted_losses_of_older_receiver,
    ]);
    test_cases
}

/// Returns a datagram of 1000 bytes with this number.
fn datagram(number: u32) -> Vec<u8> {
    let mut datagram = vec![0; 1000];
    datagram[8..12].copy_from_slice(&number.to_be_bytes());
    datagram
}

/// Clients from version 3.14 on report no losses if these values are missing.
fn server_reports_omitted_datagrams_without_omitted_time() {
    let server = Server::start_with(|port| format!("iperf3 -s -i 0.1 -p {port}"));
    let mut client = iperf3_script::Client::connect(server.port);
    client.send_cookie();
    client.send_parameters(r#"{"udp":true,"len":1000,"time":30,"client_version":"3.18"}"#);
    let socket = client.open_udp_stream();
    client.await_running();
    for number in [1, 2, 5, 6] {
        socket.send(&datagram(number)).unwrap();
    }
    let has_arrived = || server.stdout().contains("2/6 (33%)");
    assert!(
        testkit::wait_until(TIMEOUT, has_arrived),
        "{}",
        server.stdout()
    );
    client.control.send_state(ControlState::TestEnd);
    client.control.await_state(ControlState::ExchangeResults);
    let results = iperf3_script::RESULTS.replace("\"packets\":0", "\"packets\":6");
    client.control.send(&add_length_prefix(&results));
    let results: Value = serde_json::from_str(&client.control.read_json()).unwrap();
    let stream = &results["streams"][0];
    for (key, expected) in [
        ("errors", 2),
        ("packets", 6),
        ("omitted_errors", 0),
        ("omitted_packets", 0),
    ] {
        assert_eq!(stream[key], expected, "{key}: {results}");
    }
    server.terminate();
}

/// Runs a client with a scripted server, which transfers data with `transfer` and sends the results
/// that `results` derives from the client's. Returns the client's object `end`.
fn run_client(
    options: &str,
    transfer: impl FnOnce(&TestProcess, &UdpSocket),
    results: impl FnOnce(&Value) -> String,
) -> Value {
    let server = iperf3_script::Server::listen();
    let line = format!(
        "iperf3 -c 127.0.0.1 -p {} -u -l 1000 -O 1 -i 1 --json-stream {options}",
        server.port
    );
    let client = TestProcess::start(&mut linerate_with_args(&line));
    let mut session = server.accept();
    session.control.send_state(ControlState::ParamExchange);
    session.control.read_json();
    let (socket, _) = server.accept_udp_stream(&mut session);
    session.start_test();
    transfer(&client, &socket);
    session.control.await_state(ControlState::TestEnd);
    session.control.send_state(ControlState::ExchangeResults);
    let client_results: Value = serde_json::from_str(&session.control.read_json()).unwrap();
    let results = results(&client_results["streams"][0]);
    session.control.send(&add_length_prefix(&results));
    session.control.send_state(ControlState::DisplayResults);
    let client = client.finish(TIMEOUT);
    client.assert_success();
    let events = client
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let end = events.into_iter().find(|event| event["event"] == "end");
    end.unwrap_or_else(|| panic!("{}", client.stdout))["data"].clone()
}

fn client_leaves_out_omitted_datagrams_of_older_sender() {
    let end = run_client(
        "-R -t 3",
        |client, socket| {
            for number in 1..=50 {
                socket.send(&datagram(number)).unwrap();
            }
            let is_omitted = || client.stdout().contains("\"omitted\":true");
            assert!(testkit::wait_until(TIMEOUT, is_omitted));
            for number in (51..=149).step_by(2) {
                socket.send(&datagram(number)).unwrap();
            }
        },
        |_| {
            iperf3_script::RESULTS
                .replace("\"packets\":0", "\"packets\":149")
                .replace("\"bytes\":0", "\"bytes\":99000")
        },
    );
    let sum = &end["sum"];
    assert_eq!(
        (&sum["lost_packets"], &sum["packets"]),
        (&49.into(), &99.into()),
        "{end:#}"
    );
}

fn client_leaves_out_omitted_losses_of_older_receiver() {
    for lost_later in [0, 10] {
        let end = run_client(
            "-t 1 -b 800K",
            |_, _| {},
            |sent| {
                let bytes = sent["bytes"].as_u64().unwrap() - lost_later * 1000;
                iperf3_script::RESULTS
                    .replace("\"packets\":0", &format!("\"packets\":{}", sent["packets"]))
                    .replace("\"errors\":0", "\"errors\":30")
                    .replace("\"bytes\":0", &format!("\"bytes\":{bytes}"))
            },
        );
        assert_eq!(end["sum"]["lost_packets"], lost_later, "{end:#}");
    }
}

fn check_with_stock(limit: &Limit, stock: &Program) -> Result<(), String> {
    check_pair(limit, &Program::OURS, stock)?;
    check_pair(limit, stock, &Program::OURS)
}

fn check_pair(limit: &Limit, client: &Program, server: &Program) -> Result<(), String> {
    let server_process = Server::try_start_with(|port| server.command(&format!("-s -p {port}")));
    let server_process = server_process.map_err(|error| error.to_string())?;
    let line = format!(
        "-J -c 127.0.0.1 -p {} {}",
        server_process.port, limit.options
    );
    let output = testkit::run(client.command(&line), TIMEOUT).map_err(|error| error.to_string())?;
    let pair = format!(
        "our client: {}, our server: {}, {}",
        client.is_ours(),
        server.is_ours(),
        limit.options
    );
    let document: Value = serde_json::from_str(&output.stdout)
        .map_err(|error| format!("{pair}: {error}: {output:#?}"))?;
    let end = &document["end"];
    if output.code != Some(0) {
        return Err(format!("{pair}: {output:#?}"));
    }
    check_figures(limit, end, client.is_ours(), server.is_ours())
        .map_err(|error| format!("{pair}: {error}: {end:#}"))
}

/// Checks the sums of a client's document.
fn check_figures(
    limit: &Limit,
    end: &Value,
    is_our_client: bool,
    is_our_server: bool,
) -> Result<(), String> {
    let bytes = |key: &str| end[key]["bytes"].as_u64();
    let are_both_ours = is_our_client && is_our_server;
    let sent = bytes("sum_sent").ok_or("no sum_sent")?;
    let received = bytes("sum_received").ok_or("no sum_received")?;
    let is_reverse = limit.options.contains("-R");
    let has_omitted_time = limit.options.contains("-O");
    let is_udp = limit.options.contains("-u");
    let is_our_sender = if is_reverse {
        is_our_server
    } else {
        is_our_client
    };
    if are_both_ours && !has_omitted_time && received > sent {
        return Err("more received than sent".to_owned());
    }
    let (counted, other) = if is_reverse {
        (received, sent)
    } else {
        (sent, received)
    };
    match limit.end {
        End::Seconds(seconds) => {
            let elapsed = end["sum_received"]["seconds"].as_f64().unwrap_or_default();
            if elapsed < seconds * 0.9 {
                return Err(format!("{elapsed} s"));
            }
            if is_udp && end["sum"]["packets"].as_u64().unwrap_or_default() > 1500 {
                return Err("packets include the omitted time".to_owned());
            }
        }
        End::Bytes(limit_bytes) => {
            // Intervals of 1 s end the test in later versions. A busy machine is late.
            let slack = limit.rate / 8 * 4 + 4 * 131_072 * u64::from(limit.rate > 0);
            let reverse = bytes("sum_sent_bidir_reverse").unwrap_or(0);
            let most = counted.max(reverse);
            // A server sends datagrams, and data after an omitted time, until the client ends.
            let is_exact = is_our_sender && !has_omitted_time && !(is_udp && is_reverse);
            if is_exact && (sent > limit_bytes || (is_our_client && most < limit_bytes)) {
                return Err(format!("sent {sent} of {limit_bytes} bytes"));
            }
            if most > limit_bytes + slack || (is_our_server && other > limit_bytes * 2 + slack) {
                return Err(format!("{most} and {other} of {limit_bytes} bytes"));
            }
            // A stock client counts the omitted bytes of the direction in which the server sends.
            if is_our_client && most < limit_bytes {
                return Err(format!("only {most} of {limit_bytes} bytes"));
            }
            if are_both_ours
                && !is_reverse
                && !has_omitted_time
                && !is_udp
                && reverse == 0
                && sent != received
            {
                return Err("not all data arrived".to_owned());
            }
        }
    }
    Ok(())
}
