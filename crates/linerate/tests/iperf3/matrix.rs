//! iperf3 compared with several versions of stock iperf3, in both roles. Texts and documents must be
//! equal except for the figures.

use testkit::{Server, StockPeer, TestCase};

use super::compare::{PairOutput, Program, compare_pairs};
use super::{PASSWORD, STOCK_VERSIONS, TIMEOUT};

/// Names and options of clients. The rates are low, so that a busy machine keeps them.
const CLIENTS: [(&str, &str); 14] = [
    ("tcp", "-b 8M -l 16K -t 1 -i 0.5"),
    ("reverse", "-R -b 8M -l 16K -t 1 -i 0.5"),
    ("bidir", "--bidir -b 8M -l 16K -t 1 -i 0.5"),
    ("parallel", "-P 3 -b 8M -l 16K -t 1 -i 0.5"),
    ("bidir_parallel", "--bidir -P 2 -b 8M -l 16K -t 1 -i 0.5"),
    ("bytes", "-n 4M"),
    ("blocks_reverse", "-k 20 -R"),
    ("omit", "-O 1 -b 8M -l 16K -t 1 -i 0.5"),
    ("zero_copy", "-Z -b 8M -l 16K -t 1 -i 0.5"),
    ("udp", "-u -b 8M -l 1000 -t 1 -i 0.5"),
    ("udp_reverse", "-u -R -b 8M -l 1000 -t 1 -i 0.5"),
    ("udp_bidir", "-u --bidir -b 8M -l 1000 -t 1 -i 0.5"),
    (
        "udp_parallel",
        "-u -P 2 -b 8M -l 1000 -t 1 -i 0.5 --udp-counters-64bit",
    ),
    ("ipv6", "-6 -b 8M -l 16K -t 1 -i 0.5"),
];

pub(super) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = Vec::new();
    for (name, options) in CLIENTS {
        for (format_name, format) in [("text", ""), ("verbose", "-V"), ("json", "-J")] {
            for stock in STOCK_VERSIONS {
                let version = stock.version.replace('.', "_");
                let name = format!("matrix::{name}::{format_name}::{version}");
                let compare = move |stock| {
                    let server = format!("-i 0.5 {format}");
                    let client = format!("{options} {format}");
                    compare_with_stock(stock, (&server, &client), format)
                };
                test_cases.push(stock.test_case(name, compare).allow_many_at_once());
            }
        }
    }
    for (client, server) in mixed_pairs() {
        for (name, options) in CLIENTS {
            let versions = [client.version, server.version].join("_with_");
            let name = format!("matrix::mixed::{}::{name}", versions.replace('.', "_"));
            let compare = move |_| compare_mixed_pair(client, server, options);
            // The newer program may be missing.
            let is_client_newer = client.release as u8 > server.release as u8;
            let newer = if is_client_newer { client } else { server };
            test_cases.push(newer.test_case(name, compare).allow_many_at_once());
        }
    }
    test_cases
}

/// Returns the clients and servers whose versions differ.
fn mixed_pairs() -> impl Iterator<Item = (StockPeer, StockPeer)> {
    let pairs = STOCK_VERSIONS
        .into_iter()
        .flat_map(|client| STOCK_VERSIONS.map(|server| (client, server)));
    pairs.filter(|(client, server)| client != server)
}

/// Runs a test between two programs. `options` are those of the server and of the client.
pub(super) fn run_pair(server: Program, client: Program, options: (&str, &str)) -> PairOutput {
    let serve = |port| server.command(&format!("-s -1 -p {port} {}", options.0));
    let server_process = Server::try_start_with(serve).unwrap_or_else(|error| panic!("{error}"));
    let is_ipv6 = options.1.split(' ').any(|option| option == "-6");
    let host = if is_ipv6 { "::1" } else { "127.0.0.1" };
    let line = format!("-c {host} -p {} {}", server_process.port, options.1);
    let mut client = client.command(&line);
    client.env("IPERF3_PASSWORD", PASSWORD);
    let client = testkit::run(client, TIMEOUT).unwrap_or_else(|error| panic!("{error}"));
    PairOutput {
        client,
        server: server_process.wait(TIMEOUT),
    }
}

/// Compares the output of pairs with linerate in one or both roles with that of a stock pair.
pub(super) fn compare_with_stock(
    stock: StockPeer,
    options: (&str, &str),
    format: &str,
) -> Result<(), String> {
    let (stock, ours) = (Program::Stock(stock), Program::Ours(stock.version));
    let control = run_pair(stock, stock, options);
    for (name, server, client) in [
        ("our server", ours, stock),
        ("our client", stock, ours),
        ("both ours", ours, ours),
    ] {
        let pair = run_pair(server, client, options);
        compare_pairs(name, &pair, &control, format)?;
    }
    Ok(())
}

/// Compares linerate's output with that of stock, if the other end is stock of another version.
fn compare_mixed_pair(client: StockPeer, server: StockPeer, options: &str) -> Result<(), String> {
    let (our_client, our_server) = (Program::Ours(client.version), Program::Ours(server.version));
    let (client, server) = (Program::Stock(client), Program::Stock(server));
    for format in ["-V", "-J"] {
        let options = (
            &*format!("-i 0.5 {format}"),
            &*format!("{options} {format}"),
        );
        let control = run_pair(server, client, options);
        let pair = run_pair(our_server, client, options);
        compare_pairs("our server", &pair, &control, format)?;
        let pair = run_pair(server, our_client, options);
        compare_pairs("our client", &pair, &control, format)?;
    }
    Ok(())
}
