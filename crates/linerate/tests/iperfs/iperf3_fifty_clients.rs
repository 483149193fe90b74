//! Fifty stock iperf3 clients of one server. All clients succeed, and the server releases the
//! resources of killed clients.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rustix::process::Signal;
use testkit::{Server, TestCase, TestProcess, test_case_unless, wait_until};

use super::{missing_iperf3_reason, stock_iperf3};

/// Timeout of fifty clients that each measure for one second.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Permitted growth of the resident memory. The allocator returns memory in parts.
const MAX_GROWTH_KIB: u64 = 8 << 10;

const CLIENTS: usize = 50;

const KILLED_CLIENTS: usize = 10;

/// Options of the clients. The rates are low, so that a busy machine keeps them.
const CLIENT_OPTIONS: [&str; 7] = [
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
            missing_iperf3_reason(),
            "serves_fifty_clients_while_ten_are_killed",
            || {
                serves_fifty_clients_while_ten_are_killed();
                Ok(())
            },
        )
        .allow_many_at_once(),
    ]
}

fn serves_fifty_clients_while_ten_are_killed() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let start = |seconds: u32| -> Vec<TestProcess> {
        let line = |index: usize| {
            let options = CLIENT_OPTIONS[index % CLIENT_OPTIONS.len()];
            let port = server.port;
            format!("-c 127.0.0.1 -p {port} -t {seconds} -i 0.1 --forceflush -l 1000 {options}")
        };
        let clients = (0..CLIENTS).map(|index| TestProcess::start(&mut stock_iperf3(&line(index))));
        clients.collect()
    };
    for client in start(1) {
        client.finish(TIMEOUT).assert_success();
    }
    let idle_usage = server.settled_usage();
    let idle_kib = server.resident_kib();

    let mut clients = start(5);
    let mut rng = SmallRng::seed_from_u64(server.pid().into());
    let indices: Vec<usize> = (0..CLIENTS).collect();
    let chosen = indices.choose_multiple(&mut rng, KILLED_CLIENTS);
    let mut killed: Vec<usize> = chosen.copied().collect();
    for index in &killed {
        // Kill most clients during the data phase, and some at their start.
        if rng.random_bool(0.8) {
            wait_until(TIMEOUT, || clients[*index].stdout().contains("Bytes"));
        }
        clients[*index].signal(Signal::KILL);
    }
    killed.sort_unstable();
    let killed = killed.iter().rev();
    let killed = killed.map(|index| clients.remove(*index).finish(TIMEOUT));
    // On a busy machine a client may end before the signal.
    assert!(killed.filter(|client| client.signal.is_some()).count() > KILLED_CLIENTS / 2);
    for client in clients {
        client.finish(TIMEOUT).assert_success();
    }
    server.assert_usage_returns_to(idle_usage, TIMEOUT, "fifty clients");
    let final_kib = server.resident_kib();
    assert!(
        final_kib <= idle_kib + MAX_GROWTH_KIB,
        "{final_kib} KiB, idle {idle_kib} KiB"
    );
    let server = server.terminate();
    assert_eq!(server.code, Some(0), "{server:?}");
    let accepted = server.stdout.matches("Accepted connection").count();
    assert!(
        (2 * CLIENTS - KILLED_CLIENTS..=2 * CLIENTS).contains(&accepted),
        "{accepted}"
    );
}
