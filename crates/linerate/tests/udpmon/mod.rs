//! UDPmon's five programs against scripted peers that do what recordings of the stock ones show.

mod block;
mod checks;
mod network;
mod played;
pub(crate) mod recordings;
mod stock;

use std::process::Command;
use std::time::Duration;

use testkit::{Server, TestCase, linerate_with_args, with_prefix};

/// How long anything may take that does not wait by design.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn test_cases() -> Vec<TestCase> {
    with_prefix("played", played::test_cases())
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

/// Our responder on a free port, with a line of options.
#[track_caller]
fn responder(options: &str) -> Server {
    Server::start_with(|port| format!("udpmon_resp -u {port} {options}"))
}

/// What stands under a title, of each result line.
#[track_caller]
fn column(stdout: &str, title: &str) -> Vec<f64> {
    let mut lines = stdout
        .lines()
        .map(|line| line.split(';').map(str::trim).collect::<Vec<_>>());
    let titles = lines
        .find(|fields| fields[0] == "pkt len")
        .unwrap_or_else(|| panic!("no titles in {stdout}"));
    let place = titles
        .iter()
        .position(|found| *found == title)
        .expect(title);
    let is_result = |fields: &Vec<&str>| fields.len() == 13 || fields.len() > 25;
    let field = |fields: Vec<&str>| {
        fields[place]
            .parse()
            .unwrap_or_else(|_| panic!("{fields:?}"))
    };
    lines.filter(is_result).map(field).collect()
}

/// Stock's three counts of the only result line: received, lost, out of order.
#[track_caller]
pub(crate) fn counts(stdout: &str) -> [u64; 3] {
    ["num_recv", "num_lost", "num_badorder"].map(|title| {
        let [count] = column(stdout, title)[..] else {
            panic!("{stdout}");
        };
        count as u64
    })
}
