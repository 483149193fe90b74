//! `-N` against services of any kind: whatever they do with the connection, the test ends with a
//! result, or with a line that says why there is none. There is nothing to decode, but much to
//! interrupt.
//!
//! Of `FUZZ_ITERATIONS` (20,000 by default) a thousandth are services; a failure prints its seed, which
//! `FUZZ_SEED` takes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use engine::{Reason, Stop};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use socket2::SockRef;

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
    for seed in seeds() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let test = TESTS[seed as usize % TESTS.len()];
        let separator = if test.contains("--") { "" } else { " --" };
        let line = format!("-N -H 127.0.0.1 {test}{separator} -P ,{port}");
        let words = line.split_whitespace().map(Into::into);
        let settings = netperf::options::netperf("netperf", words).expect("a good line");
        let over = Stop::new();
        let start = Instant::now();
        let (exit, printed) = std::thread::scope(|scope| {
            scope.spawn(|| serve(&listener, &over, seed));
            let mut out = Vec::new();
            let exit = netperf::client::run(&settings, &Stop::new(), &mut out);
            over.pull(Reason::Cancelled);
            (exit, String::from_utf8(out).expect("text"))
        });
        let told = !exit.stdout.is_empty() || !exit.stderr.is_empty();
        assert!(
            if exit.code == 0 {
                !printed.is_empty()
            } else {
                told
            },
            "FUZZ_SEED={seed}: {line}: {exit:?} {printed}"
        );
        // A client's own patience with a silent service would be twice as long; none here is silent.
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "FUZZ_SEED={seed}: {line}: {:?}",
            start.elapsed()
        );
    }
}

/// Takes one connection after the other, and does anything with each.
fn serve(listener: &TcpListener, over: &Stop, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    listener.set_nonblocking(true).expect("a socket");
    while !over.is_set() {
        match listener.accept() {
            Ok((client, _)) => anything(&mut rng, client),
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

fn seeds() -> std::ops::Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse::<u64>().ok())
    };
    match number("FUZZ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FUZZ_ITERATIONS").unwrap_or(20_000).div_ceil(1000),
    }
}
