//! UDPmon's five programs with scripted peers that behave as recordings of the stock programs show.

mod block;
mod checks;
mod network;
pub(crate) mod recordings;
mod replays;
mod stock;

use std::process::Command;
use std::time::Duration;

use testkit::{Server, TestCase, linerate_with_args, with_prefix};

/// Timeout of everything that does not wait by design.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn test_cases() -> Vec<TestCase> {
    with_prefix("replays", replays::test_cases())
        .chain(with_prefix("checks", checks::test_cases()))
        .chain(with_prefix("network", network::test_cases()))
        .collect()
}

fn bw_mon(line: &str) -> Command {
    linerate_with_args(&format!("udpmon_bw_mon {line}"))
}

fn req(line: &str) -> Command {
    linerate_with_args(&format!("udpmon_req {line}"))
}

/// Starts linerate's responder on a free port.
#[track_caller]
fn start_responder(options: &str) -> Server {
    Server::start_with(|port| format!("udpmon_resp -u {port} {options}"))
}

/// Returns the values of a column of all result lines.
#[track_caller]
fn column(stdout: &str, title: &str) -> Vec<f64> {
    let mut lines = stdout
        .lines()
        .map(|line| line.split(';').map(str::trim).collect::<Vec<_>>());
    let titles = lines
        .find(|fields| fields[0] == "pkt len")
        .unwrap_or_else(|| panic!("no titles in {stdout}"));
    let index = titles
        .iter()
        .position(|column| *column == title)
        .expect(title);
    let is_result = |fields: &Vec<&str>| fields.len() == 13 || fields.len() > 25;
    let value = |fields: Vec<&str>| {
        fields[index]
            .parse()
            .unwrap_or_else(|_| panic!("{fields:?}"))
    };
    lines.filter(is_result).map(value).collect()
}

/// Returns stock's three counts of the only result line: received, lost, out of order.
#[track_caller]
pub(crate) fn packet_counts(stdout: &str) -> [u64; 3] {
    ["num_recv", "num_lost", "num_badorder"].map(|title| {
        let [count] = column(stdout, title)[..] else {
            panic!("{stdout}");
        };
        count as u64
    })
}
