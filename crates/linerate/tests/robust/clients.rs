//! 200 clients at once.

use std::time::Duration;

use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, STOCK_NETPERF, Server, TestCase, TestProcess, stock_with_args, test_case,
};

use super::raw::TestKind;

const CLIENTS: usize = 200;

/// Maximum memory of an idle server.
const IDLE_KIB: u64 = 12 * 1024;

/// Maximum memory per client, including the buffers of its test.
const CLIENT_KIB: u64 = 1024;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_case = test_case(
        "clients::serves_200_clients_at_once",
        &[STOCK_NETPERF, Namespaces],
        serves_200_clients_at_once,
    );
    // All clients must start within five seconds.
    vec![test_case.run_alone()]
}

fn serves_200_clients_at_once() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let idle_kib = server.resident_kib();
        assert!(
            (1..=IDLE_KIB).contains(&idle_kib),
            "the idle server uses {idle_kib} KiB"
        );
        let idle_usage = server.idle_usage();

        let kinds = TestKind::ALL.into_iter().cycle().take(CLIENTS);
        // With -s, each client waits between the response and the data. The first client is
        // therefore still there when the last one starts, also on a busy machine.
        let options = |kind: TestKind| {
            format!(
                "-H 127.0.0.1 -p {} -t {} -s 5 -l 1 -P 0",
                server.port,
                kind.name()
            )
        };
        let mut clients: Vec<_> = kinds
            .map(|kind| TestProcess::start(&mut stock_with_args("netperf", &options(kind))))
            .collect();
        let (mut max_kib, mut max_threads) = (0, 0);
        while clients.iter_mut().any(TestProcess::is_running) {
            max_kib = max_kib.max(server.resident_kib());
            max_threads = max_threads.max(server.usage().threads);
            std::thread::sleep(Duration::from_millis(100));
        }
        for client in clients {
            let client = client.finish(Duration::from_secs(1));
            assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
        }
        assert!(
            max_threads >= CLIENTS,
            "the server had at most {max_threads} threads, so it did not serve all clients at once"
        );
        let growth_kib = max_kib.saturating_sub(idle_kib);
        println!(
            "{CLIENTS} clients: {idle_kib} KiB idle, {} KiB per client",
            growth_kib / CLIENTS as u64
        );
        assert!(
            growth_kib <= CLIENT_KIB * CLIENTS as u64,
            "the server grew by {growth_kib} KiB for {CLIENTS} clients"
        );
        server.assert_usage_returns_to(idle_usage, Duration::from_secs(10), "200 clients");
        assert_eq!(server.terminate().code, Some(0));
    });
}
