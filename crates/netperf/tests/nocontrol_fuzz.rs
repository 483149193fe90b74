//! Tests with `-N` against services that do random things with the connection. Each test ends with
//! a result or with an error message. There is nothing to decode, but each step may be interrupted.
//!
//! `testkit::fuzz` documents the number of inputs and how to repeat a failure.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use engine::{Stop, StopReason};
use rand::Rng;
use rand::rngs::SmallRng;
use socket2::SockRef;
use testkit::fuzz::run_one_in;

/// Maximum duration of a service's step.
const MAX_STEP: Duration = Duration::from_millis(300);

const TESTS: [&str; 7] = [
    "-t TCP_STREAM -l -200000",
    "-t TCP_MAERTS -l -200000",
    "-t TCP_RR -l -20 -j -- -r 10,20",
    "-t TCP_RR -l -20 -D 0.001 -- -r 3000,5 -b 4",
    "-t TCP_CRR -l -5 -- -r 10,20",
    "-t TCP_CC -l -5 --",
    "-t TCP_SENDFILE -l -200000 -D 0.001 --",
];

#[test]
fn no_service_breaks_or_hangs_a_client() {
    run_one_in("services", 5000, 0..=100, |rng| {
        TESTS.map(|test| run_test(rng, test)).contains(&true)
    });
}

/// Runs a test against a random service. Returns whether it has a result instead of a message.
fn run_test(rng: &mut SmallRng, test: &str) -> bool {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("the listener is bound").port();
    let separator = if test.contains("--") { "" } else { " --" };
    let line = format!("-N -H 127.0.0.1 {test}{separator} -P ,{port}");
    let arguments = line.split_whitespace().map(Into::into);
    let settings =
        netperf::options::parse_netperf("netperf", arguments).expect("a valid command line");
    let stop = Stop::new();
    let start = Instant::now();
    let (exit, printed) = std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &stop, rng));
        let mut out = Vec::new();
        let exit = netperf::run(&settings, &Stop::new(), &mut out).exit;
        stop.set(StopReason::Cancelled);
        (exit, String::from_utf8(out).expect("UTF-8"))
    });
    let has_message = !exit.stdout.is_empty() || !exit.stderr.is_empty();
    let has_result = exit.code == 0;
    assert!(
        if has_result {
            !printed.is_empty()
        } else {
            has_message
        },
        "{line}: {exit:?} {printed}"
    );
    // The client waits twice as long for a silent service, but no service here is silent.
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(30), "{line}: {elapsed:?}");
    has_result
}

/// Accepts connections, and serves them one after another.
fn serve(listener: &TcpListener, stop: &Stop, rng: &mut SmallRng) {
    listener.set_nonblocking(true).expect("the socket is open");
    while !stop.is_set() {
        match listener.accept() {
            Ok((client, _)) => serve_randomly(rng, client),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn serve_randomly(rng: &mut SmallRng, mut client: TcpStream) {
    client.set_nonblocking(false).expect("the socket is open");
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
