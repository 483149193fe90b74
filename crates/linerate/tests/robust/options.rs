//! netserver's options: debug output, listening addresses, concurrency and limits.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use netperf::wire::{Request, TestRequest};
use testkit::{Server, TestCase, wait_until, with_prefix};

use super::raw::{RawClient, TestKind, data_connection};

/// Timeout of an action that needs no wait.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

/// errno(3).
const ENOMEM: i32 = 12;
const EDQUOT: i32 = 122;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        prints_debug_output,
        listens_on_selected_addresses,
        serves_one_client_at_a_time,
        limits_memory,
        limits_length_and_drain,
    ];
    with_prefix("options", test_cases).collect()
}

/// Starts a netserver in the foreground, without debug output.
fn start_server(options: &str) -> Server {
    Server::start_with(|port| format!("netserver -D -p {port} {options}"))
}

/// `-d` enables debug output, and `-N` disables it. A client cannot enable it. `-v` has no effect.
fn prints_debug_output() {
    for (options, has_output) in [
        ("-d", true),
        ("-d -v 3", true),
        ("", false),
        ("-v 3", false),
        ("-N", false),
        ("-d -N", false),
    ] {
        let server = start_server(options);
        let mut raw = RawClient::connect(server.port);
        raw.send(&Request::DebugOn);
        raw.receive().expect("the server responds");
        let invalid_request = TestRequest {
            protocol: 999,
            ..TestKind::TcpRr.request(1)
        };
        raw.expect_refusal(&Request::Omni(invalid_request));
        // The server prints its output before it sends the answer.
        let stderr = server.stderr();
        assert_eq!(
            stderr.contains("refused: "),
            has_output,
            "{options}: {stderr}"
        );
        assert_eq!(stderr.is_empty(), !has_output, "{options}: {stderr}");
        raw.request_test(&TestKind::TcpRr.request(1));
    }
}

fn listens_on_selected_addresses() {
    const ALL: [&str; 3] = ["127.0.0.1", "127.0.0.2", "[::1]"];
    for (options, reachable) in [
        ("", &ALL[..]),
        ("-4", &ALL[..2]),
        ("-6", &ALL[2..]),
        ("-L 127.0.0.2", &ALL[1..2]),
        ("-L ::1,6", &ALL[2..]),
        ("-L localhost,4", &ALL[..1]),
    ] {
        let server = start_server(options);
        for address in ALL {
            let result = TcpStream::connect(format!("{address}:{}", server.port));
            let expected = reachable.contains(&address);
            assert_eq!(result.is_ok(), expected, "{options}: {address} {result:?}");
        }
    }
}

/// `-f`: the server answers the second client after the first one has disconnected.
fn serves_one_client_at_a_time() {
    for (options, is_serial) in [("", false), ("-f", true)] {
        let server = start_server(options);
        let mut first = RawClient::connect(server.port);
        first.send(&Request::SysInfo);
        first.receive().expect("the server responds");
        let mut second = RawClient::connect(server.port);
        second.send(&Request::SysInfo);
        let first_timeout = if is_serial {
            Duration::from_millis(500)
        } else {
            SHORT_TIMEOUT
        };
        let set_timeout = |raw: &RawClient, timeout| {
            raw.control
                .set_read_timeout(Some(timeout))
                .expect("the timeout is not zero");
        };
        set_timeout(&second, first_timeout);
        assert_eq!(second.receive().is_err(), is_serial, "{options}");
        if is_serial {
            drop(first);
            set_timeout(&second, SHORT_TIMEOUT);
            second
                .receive()
                .expect("the server responds to the second client");
        }
    }
}

/// `--max-buffer` limits the memory of one test, `--max-memory` that of all tests together.
fn limits_memory() {
    let server = Server::start("--max-buffer 1M --max-memory 1500K");
    let request = |buffers| TestRequest {
        receive_size: 100_000,
        receive_width: buffers,
        ..TestKind::TcpStream.request(10)
    };
    let error =
        |buffers| RawClient::connect(server.port).expect_refusal(&Request::Omni(request(buffers)));
    assert_eq!(error(11), ENOMEM, "the server exceeds --max-buffer");
    let mut first = RawClient::connect(server.port);
    first.request_test(&request(10));
    assert_eq!(error(10), ENOMEM, "the server exceeds --max-memory");
    RawClient::connect(server.port).request_test(&request(4));
    drop(first);
    let is_released = wait_until(SHORT_TIMEOUT, || {
        let mut raw = RawClient::connect(server.port);
        raw.send(&Request::Omni(request(9)));
        raw.receive_refusal().is_err()
    });
    assert!(
        is_released,
        "the server does not release memory: {}",
        server.log()
    );
}

/// `--max-length` refuses a longer test, and ends a test that has a count. `--drain` limits the
/// time that a client may send after its test's time. This test would time out with the defaults.
fn limits_length_and_drain() {
    let server = Server::start("--max-length 1 --drain 1");
    let length = |seconds| Request::Omni(TestKind::TcpStream.request(seconds));
    assert_eq!(
        RawClient::connect(server.port).expect_refusal(&length(2)),
        EDQUOT
    );
    for (limit, case) in [
        (1, "a client that continues to send"),
        (-1_000_000_000, "a large count"),
    ] {
        let mut raw = RawClient::connect(server.port);
        let mut data = data_connection(raw.request_test(&TestKind::TcpStream.request(limit)));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The client sends until the server closes the connection.
                while data.write_all(&[0; 100]).is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            assert!(
                raw.receive().is_ok(),
                "{case}: no results; {}",
                server.log()
            );
            drop(raw);
        });
    }
}
