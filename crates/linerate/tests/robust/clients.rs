//! Two hundred clients at once.

use std::time::Duration;

use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, STOCK_NETPERF, Server, TestCase, TestProcess, stock_with_args, test_case,
};

use super::raw::Kind;

const CLIENTS: usize = 200;

/// Memory of a server that serves nobody.
const IDLE_KIB: u64 = 12 * 1024;

/// Memory a client, its test's buffers included: they are far below it here.
const CLIENT_KIB: u64 = 1024;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let two_hundred = test_case(
        "clients::two_hundred_at_once",
        &[STOCK_NETPERF, Namespaces],
        two_hundred_at_once,
    );
    // They have five seconds to come together.
    vec![two_hundred.run_alone()]
}

fn two_hundred_at_once() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let idle = server.resident_kib();
        assert!(
            (1..=IDLE_KIB).contains(&idle),
            "idle, the server has {idle} KiB"
        );
        let rest = server.idle_usage();

        let kinds = Kind::ALL.into_iter().cycle().take(CLIENTS);
        // Between the response and the data they wait, so that the first has not gone when the last
        // comes, however long a busy machine takes to start two hundred processes.
        let options = |kind: Kind| {
            format!(
                "-H 127.0.0.1 -p {} -t {} -s 5 -l 1 -P 0",
                server.port,
                kind.name()
            )
        };
        let mut clients: Vec<_> = kinds
            .map(|kind| TestProcess::start(&mut stock_with_args("netperf", &options(kind))))
            .collect();
        let (mut most_kib, mut most_threads) = (0, 0);
        while clients.iter_mut().any(TestProcess::is_running) {
            most_kib = most_kib.max(server.resident_kib());
            most_threads = most_threads.max(server.usage().threads);
            std::thread::sleep(Duration::from_millis(100));
        }
        for client in clients {
            let client = client.finish(Duration::from_secs(1));
            assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
        }
        assert!(
            most_threads >= CLIENTS,
            "at most {most_threads} threads: they were not served at once"
        );
        let grown = most_kib.saturating_sub(idle);
        println!(
            "200 clients: {idle} KiB idle, {} KiB more a client",
            grown / CLIENTS as u64
        );
        assert!(
            grown <= CLIENT_KIB * CLIENTS as u64,
            "{grown} KiB for {CLIENTS} clients"
        );
        server.assert_usage_returns_to(rest, Duration::from_secs(10), "two hundred clients");
        assert_eq!(server.terminate().code, Some(0));
    });
}
