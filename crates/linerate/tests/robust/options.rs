//! netserver's options, one by one: what it says, where it listens, whom it serves, and what its limits
//! stop.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use netperf::wire::{Request, TestRequest};
use testkit::{Server, TestCase, wait_until, with_prefix};

use super::raw::{Kind, Raw, data_connection};

/// How long a server may take for what it does at once.
const SOON: Duration = Duration::from_secs(5);

/// errno(3).
const ENOMEM: i32 = 12;
const EDQUOT: i32 = 122;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        what_is_said,
        where_it_listens,
        one_after_the_other,
        memory,
        length_and_drain,
    ];
    with_prefix("options", test_cases).collect()
}

/// A netserver in the foreground, which keeps no log by itself.
fn started(options: &str) -> Server {
    Server::start_with(|port| format!("netserver -D -p {port} {options}"))
}

/// `-d` says what happens, `-N` says nothing of it, and a client that asks for debug output gets none
/// of its own. `-v` makes no difference.
fn what_is_said() {
    for (options, says) in [
        ("-d", true),
        ("-d -v 3", true),
        ("", false),
        ("-v 3", false),
        ("-N", false),
        ("-d -N", false),
    ] {
        let server = started(options);
        let mut raw = Raw::connect(server.port);
        raw.send(&Request::DebugOn);
        raw.receive().expect("an answer");
        let nonsense = TestRequest {
            protocol: 999,
            ..Kind::TcpRr.request(1)
        };
        raw.ask_in_vain(&Request::Omni(nonsense));
        // What there is to say has been said when the answer came.
        let said = server.stderr();
        assert_eq!(said.contains("refused: "), says, "{options}: {said}");
        assert_eq!(said.is_empty(), !says, "{options}: {said}");
        raw.ask(&Kind::TcpRr.request(1));
    }
}

fn where_it_listens() {
    const ALL: [&str; 3] = ["127.0.0.1", "127.0.0.2", "[::1]"];
    for (options, reached) in [
        ("", &ALL[..]),
        ("-4", &ALL[..2]),
        ("-6", &ALL[2..]),
        ("-L 127.0.0.2", &ALL[1..2]),
        ("-L ::1,6", &ALL[2..]),
        ("-L localhost,4", &ALL[..1]),
    ] {
        let server = started(options);
        for address in ALL {
            let connected = TcpStream::connect(format!("{address}:{}", server.port));
            let expected = reached.contains(&address);
            assert_eq!(
                connected.is_ok(),
                expected,
                "{options}: {address} {connected:?}"
            );
        }
    }
}

/// `-f`: the second client has its answer when the first one is gone.
fn one_after_the_other() {
    for (options, serial) in [("", false), ("-f", true)] {
        let server = started(options);
        let mut first = Raw::connect(server.port);
        first.send(&Request::SysInfo);
        first.receive().expect("an answer");
        let mut second = Raw::connect(server.port);
        second.send(&Request::SysInfo);
        let at_once = if serial {
            Duration::from_millis(500)
        } else {
            SOON
        };
        let patience = |raw: &Raw, patience| {
            raw.control
                .set_read_timeout(Some(patience))
                .expect("a timeout that is not zero");
        };
        patience(&second, at_once);
        assert_eq!(second.receive().is_err(), serial, "{options}");
        if serial {
            drop(first);
            patience(&second, SOON);
            second.receive().expect("it is the second one's turn");
        }
    }
}

/// `--max-buffer` bounds one test, `--max-memory` all of them: what the one has the next one has not,
/// until the first is over.
fn memory() {
    let server = Server::start("--max-buffer 1M --max-memory 1500K");
    let rings = |buffers| TestRequest {
        receive_size: 100_000,
        receive_width: buffers,
        ..Kind::TcpStream.request(10)
    };
    let refused = |buffers| Raw::connect(server.port).ask_in_vain(&Request::Omni(rings(buffers)));
    assert_eq!(refused(11), ENOMEM, "more than one test may have");
    let mut first = Raw::connect(server.port);
    first.ask(&rings(10));
    assert_eq!(refused(10), ENOMEM, "more than all may have together");
    Raw::connect(server.port).ask(&rings(4));
    drop(first);
    let again = wait_until(SOON, || {
        let mut raw = Raw::connect(server.port);
        raw.send(&Request::Omni(rings(9)));
        raw.refusal().is_err()
    });
    assert!(again, "it is not given back: {}", server.log());
}

/// `--max-length` refuses a longer test, and ends one that a count should end; `--drain` is how long
/// beyond its time a client may go on. By default both are longer than a client waits here.
fn length_and_drain() {
    let server = Server::start("--max-length 1 --drain 1");
    let length = |seconds| Request::Omni(Kind::TcpStream.request(seconds));
    assert_eq!(Raw::connect(server.port).ask_in_vain(&length(2)), EDQUOT);
    for (limit, what) in [
        (1, "a client that goes on"),
        (-1_000_000_000, "a count that is far off"),
    ] {
        let mut raw = Raw::connect(server.port);
        let mut data = data_connection(raw.ask(&Kind::TcpStream.request(limit)));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Until nobody reads any more.
                while data.write_all(&[0; 100]).is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            assert!(
                raw.receive().is_ok(),
                "{what}: no results; {}",
                server.log()
            );
            drop(raw);
        });
    }
}
