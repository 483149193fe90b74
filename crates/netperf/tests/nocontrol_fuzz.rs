//! Tests with `-N` against services that do random things with the connection. Each test ends with
//! a result or with an error message. There is nothing to decode, but each step may be interrupted.
//!
//! `testkit::fuzz` documents the number of inputs and how to repeat a failure.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use engine::{Stop, StopReason};
use netperf::RunResult;
use rand::Rng;
use rand::rngs::SmallRng;
use socket2::SockRef;
use testkit::fuzz::run_one_in;

/// Maximum duration of a service's step.
const MAX_STEP: Duration = Duration::from_millis(300);

const TESTS: [(&str, Protocol); 7] = [
    ("-t TCP_STREAM -l -200000", Protocol::Discard),
    ("-t TCP_MAERTS -l -200000", Protocol::Generate),
    ("-t TCP_RR -l -20 -j -- -r 10,20", Protocol::Echo(10)),
    (
        "-t TCP_RR -l -20 -D 0.001 -- -r 3000,5 -b 4",
        Protocol::Echo(3000),
    ),
    ("-t TCP_CRR -l -5 -- -r 10,20", Protocol::Echo(10)),
    ("-t TCP_CC -l -5 --", Protocol::Discard),
    ("-t TCP_SENDFILE -l -200000 -D 0.001 --", Protocol::Discard),
];

/// What a service does with each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// Reads until the end: RFC 863.
    Discard,
    /// Writes until the end: RFC 864.
    Generate,
    /// Returns requests of this size: RFC 862.
    Echo(usize),
    /// Closes the connection.
    Close,
    /// Does random things.
    Random,
}

/// What a service has counted.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    connections: u64,
    bytes: u64,
    answers: u64,
}

#[test]
fn no_service_breaks_or_hangs_a_client() {
    run_one_in("services", 5000, 100..=100, |rng| {
        for (test, protocol) in TESTS {
            run_test(rng, test, Protocol::Random);
            // A service that does what the test needs always leads to the exact result.
            let (result, served) = run_test(rng, test, protocol);
            check_result(test, &result, &served);
            // One that never answers never leads to a transaction.
            if matches!(protocol, Protocol::Echo(_)) {
                let (result, _) = run_test(rng, test, Protocol::Close);
                let counts = result.runs.iter().map(|outcome| &outcome.local.counts);
                let counts: Vec<_> = counts.map(|counts| counts.transactions).collect();
                assert!(counts.iter().all(|count| *count == 0), "{test}: {counts:?}");
            }
        }
        true
    });
}

/// Runs a test against a service. It must end with a result or with a message.
fn run_test(rng: &mut SmallRng, test: &str, protocol: Protocol) -> (RunResult, Served) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("the listener is bound").port();
    let separator = if test.contains("--") { "" } else { " --" };
    let line = format!("-N -H 127.0.0.1 {test}{separator} -P ,{port}");
    let arguments = line.split_whitespace().map(Into::into);
    let mut settings =
        netperf::options::parse_netperf("netperf", arguments).expect("a valid command line");
    // Keeps the outcome.
    settings.json = protocol != Protocol::Random;
    let stop = Stop::new();
    let start = Instant::now();
    let (result, printed, served) = std::thread::scope(|scope| {
        let service = scope.spawn(|| serve(&listener, &stop, rng, protocol));
        let mut out = Vec::new();
        let result = netperf::run(&settings, &Stop::new(), &mut out);
        stop.set(StopReason::Cancelled);
        let served = service.join().expect("a service does not panic");
        (result, String::from_utf8(out).expect("UTF-8"), served)
    });
    let exit = &result.exit;
    let has_message = !exit.stdout.is_empty() || !exit.stderr.is_empty();
    assert!(
        if exit.code == 0 {
            !printed.is_empty()
        } else {
            has_message
        },
        "{line}: {exit:?} {printed}"
    );
    // The client waits twice as long for a silent service, but no service here is silent.
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(30), "{line}: {elapsed:?}");
    (result, served)
}

/// Checks that a test ended at its count, and that the service counted the same.
fn check_result(test: &str, result: &RunResult, served: &Served) {
    assert_eq!(result.exit.code, 0, "{test}: {result:?}");
    let [outcome] = &result.runs[..] else {
        panic!("{test}: {result:?}");
    };
    let counts = &outcome.local.counts;
    let name = test.split_whitespace().nth(1).expect("the line has a test");
    match name {
        "TCP_STREAM" | "TCP_SENDFILE" => {
            assert!(counts.sent.0 >= 200_000, "{test}: {counts:?}");
            assert_eq!(counts.sent.0, served.bytes, "{test}: {counts:?}");
        }
        "TCP_MAERTS" => assert!(counts.received.0 >= 200_000, "{test}: {counts:?}"),
        "TCP_RR" => {
            assert_eq!(counts.transactions, 20, "{test}: {counts:?}");
            assert!(served.answers >= 20, "{test}: {served:?}");
        }
        "TCP_CRR" => {
            assert_eq!(counts.transactions, 5, "{test}: {counts:?}");
            assert_eq!(served.answers, 5, "{test}: {served:?}");
        }
        "TCP_CC" => {
            assert_eq!(counts.transactions, 5, "{test}: {counts:?}");
            assert_eq!(served.connections, 5, "{test}: {served:?}");
        }
        _ => panic!("{test} has no check"),
    }
}

/// Accepts connections, and serves them one after another.
fn serve(listener: &TcpListener, stop: &Stop, rng: &mut SmallRng, protocol: Protocol) -> Served {
    let mut served = Served::default();
    listener.set_nonblocking(true).expect("the socket is open");
    loop {
        // The queue of the listener is read to its end after the client has ended.
        let is_last = stop.is_set();
        match listener.accept() {
            Ok((client, _)) => {
                served.connections += 1;
                client.set_nonblocking(false).expect("the socket is open");
                // An error ends the connection, as its end does.
                let _ = match protocol {
                    Protocol::Discard => discard(&client, &mut served),
                    Protocol::Generate => generate(&client),
                    Protocol::Echo(length) => echo(&client, length, &mut served),
                    Protocol::Close => Ok(()),
                    Protocol::Random => {
                        serve_randomly(rng, client);
                        Ok(())
                    }
                };
            }
            Err(_) if is_last => return served,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn discard(mut client: &TcpStream, served: &mut Served) -> io::Result<()> {
    served.bytes += io::copy(&mut client, &mut io::sink())?;
    Ok(())
}

fn generate(mut client: &TcpStream) -> io::Result<()> {
    loop {
        client.write_all(&[b'#'; 16_384])?;
    }
}

fn echo(mut client: &TcpStream, length: usize, served: &mut Served) -> io::Result<()> {
    let mut request = vec![0; length];
    loop {
        client.read_exact(&mut request)?;
        client.write_all(&request)?;
        served.answers += 1;
    }
}

fn serve_randomly(rng: &mut SmallRng, mut client: TcpStream) {
    client
        .set_read_timeout(Some(MAX_STEP))
        .expect("the socket is open");
    client
        .set_write_timeout(Some(MAX_STEP))
        .expect("the socket is open");
    let mut buffer = vec![b'x'; 100_000];
    for _ in 0..rng.random_range(0..12) {
        let length = 1 << rng.random_range(0..17);
        let length = rng.random_range(0..=length).min(buffer.len());
        let result = match rng.random_range(0..8) {
            // Like an echo service.
            0..=4 => client
                .read(&mut buffer[..length.max(1)])
                .and_then(|length| client.write_all(&buffer[..length])),
            5 => client.read(&mut buffer[..length.max(1)]).map(drop),
            6 => client.write_all(&buffer[..length]),
            _ => client.shutdown(Shutdown::Write),
        };
        if result.is_err() {
            break;
        }
    }
    if rng.random() {
        // Close the connection with a reset.
        let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
    }
}
