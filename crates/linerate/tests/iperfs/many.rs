//! Fifty stock iperf3 clients at one port of ours: all of them succeed, and those that are killed leave nothing behind.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rustix::process::Signal;
use testkit::{Server, TestCase, TestProcess, test_case_unless, wait_until};

use super::{stock3, stock3_missing};

/// How long fifty clients may take, each of which measures for a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a round of clients may leave in the allocator: memory is given back in parts.
const SLACK_KIB: u64 = 8 << 10;

const CLIENTS: usize = 50;

const KILLED: usize = 10;

/// Rates are small, so that a busy machine holds them.
const DIRECTIONS: [&str; 7] = [
    "-b 1M",
    "-b 1M -R",
    "-b 1M --bidir",
    "-b 1M -P 3",
    "-u -b 1M",
    "-u -b 1M -R",
    "-u -b 1M --bidir",
];

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case_unless(
            stock3_missing(),
            "fifty_clients_of_which_ten_are_killed",
            || {
                fifty_clients_of_which_ten_are_killed();
                Ok(())
            },
        )
        .allow_many(),
    ]
}

fn fifty_clients_of_which_ten_are_killed() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let start = |seconds: u32| -> Vec<TestProcess> {
        let line = |at: usize| {
            let direction = DIRECTIONS[at % DIRECTIONS.len()];
            let to = format!("-c 127.0.0.1 -p {}", server.port);
            format!("{to} -t {seconds} -i 0.1 --forceflush -l 1000 {direction}")
        };
        let clients = (0..CLIENTS).map(|at| TestProcess::start(&mut stock3(&line(at))));
        clients.collect()
    };
    for client in start(1) {
        client.finish(PATIENCE).assert_success();
    }
    let rest = server.settled_usage();
    let resident = server.resident_kib();

    let mut clients = start(5);
    let mut rng = SmallRng::seed_from_u64(server.pid().into());
    let all: Vec<usize> = (0..CLIENTS).collect();
    let mut killed: Vec<usize> = all.choose_multiple(&mut rng, KILLED).copied().collect();
    for at in &killed {
        // Some while they begin, most while their data flows.
        if rng.random_bool(0.8) {
            wait_until(PATIENCE, || clients[*at].stdout().contains("Bytes"));
        }
        clients[*at].signal(Signal::KILL);
    }
    killed.sort_unstable();
    let killed = killed.iter().rev();
    let killed = killed.map(|at| clients.remove(*at).finish(PATIENCE));
    // On a busy machine one may have ended before its turn.
    assert!(killed.filter(|client| client.signal.is_some()).count() > KILLED / 2);
    for client in clients {
        client.finish(PATIENCE).assert_success();
    }
    server.assert_usage_returns_to(rest, PATIENCE, "fifty clients");
    let now = server.resident_kib();
    assert!(
        now <= resident + SLACK_KIB,
        "{now} KiB, before {resident} KiB"
    );
    let ended = server.terminate();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let accepted = ended.stdout.matches("Accepted connection").count();
    assert!(
        (2 * CLIENTS - KILLED..=2 * CLIENTS).contains(&accepted),
        "{accepted}"
    );
}
