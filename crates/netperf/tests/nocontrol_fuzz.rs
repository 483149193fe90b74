//! `-N` against services of any kind: whatever they do with the connection, the test ends with a
//! result, or with a line that says why there is none. There is nothing to decode, but much to
//! interrupt.
//!
//! See `testkit::fuzz` for how many, and how a failure is repeated.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use engine::{Stop, StopReason};
use rand::Rng;
use rand::rngs::SmallRng;
use socket2::SockRef;
use testkit::fuzz::run_fraction;

/// No step of a service takes longer.
const LONGEST: Duration = Duration::from_millis(300);

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
    run_fraction("services", 5000, 0..=100, |rng| {
        TESTS.map(|test| succeeds(rng, test)).contains(&true)
    });
}

/// Runs a test with any service, which ends with figures or with a reason.
fn succeeds(rng: &mut SmallRng, test: &str) -> bool {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let separator = if test.contains("--") { "" } else { " --" };
    let line = format!("-N -H 127.0.0.1 {test}{separator} -P ,{port}");
    let words = line.split_whitespace().map(Into::into);
    let settings = netperf::options::parse_netperf("netperf", words).expect("a good line");
    let over = Stop::new();
    let start = Instant::now();
    let (exit, printed) = std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &over, rng));
        let mut out = Vec::new();
        let exit = netperf::run(&settings, &Stop::new(), &mut out).exit;
        over.set(StopReason::Cancelled);
        (exit, String::from_utf8(out).expect("text"))
    });
    let told = !exit.stdout.is_empty() || !exit.stderr.is_empty();
    let has_result = exit.code == 0;
    assert!(
        if has_result {
            !printed.is_empty()
        } else {
            told
        },
        "{line}: {exit:?} {printed}"
    );
    // The client waits twice as long for a silent service; none here is silent.
    let took = start.elapsed();
    assert!(took < Duration::from_secs(30), "{line}: {took:?}");
    has_result
}

/// Takes one connection after the other, and does anything with each.
fn serve(listener: &TcpListener, over: &Stop, rng: &mut SmallRng) {
    listener.set_nonblocking(true).expect("a socket");
    while !over.is_set() {
        match listener.accept() {
            Ok((client, _)) => anything(rng, client),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn anything(rng: &mut SmallRng, mut client: TcpStream) {
    client.set_nonblocking(false).expect("a socket");
    client.set_read_timeout(Some(LONGEST)).expect("a socket");
    client.set_write_timeout(Some(LONGEST)).expect("a socket");
    let mut buffer = vec![b'x'; 100_000];
    for _ in 0..rng.random_range(0..12) {
        let length = 1 << rng.random_range(0..17);
        let length = rng.random_range(0..=length).min(buffer.len());
        let done = match rng.random_range(0..8) {
            // As an honest echo does.
            0..=4 => client
                .read(&mut buffer[..length.max(1)])
                .and_then(|taken| client.write_all(&buffer[..taken])),
            5 => client.read(&mut buffer[..length.max(1)]).map(drop),
            6 => client.write_all(&buffer[..length]),
            _ => client.shutdown(Shutdown::Write),
        };
        if done.is_err() {
            break;
        }
    }
    if rng.random() {
        // A reset in place of an end.
        let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
    }
}
