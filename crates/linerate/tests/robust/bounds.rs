//! One client's demands leave room for others, and nothing is taken without a bound.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

use netperf::wire::{Classic, Request, TestRequest};
use testkit::TestCase;

use super::raw::{Kind, Raw};
use testkit::{Server, TestProcess, free_port, linerate_with_args, test_case, wait_until};

/// How long a server may take for what it does at once.
const SOON: Duration = Duration::from_secs(5);

/// The latest end of a delay of 1 s, on a busy machine.
const LATEST: Duration = Duration::from_secs(60);

/// errno(3).
const ENOMEM: i32 = 12;

/// Two clients' addresses; loopback has all of 127.0.0.0/8.
const FIRST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "bounds::sessions_of_an_address",
            &[],
            sessions_of_an_address,
        ),
        test_case("bounds::networks_of_clients", &[], networks_of_clients),
        test_case("bounds::memory_of_an_address", &[], memory_of_an_address),
        test_case("bounds::many_flows_of_an_address", &[], many_flows),
        test_case("bounds::wrong_passphrases", &[], wrong_passphrases),
        test_case("bounds::a_passphrase_in_a_file", &[], passphrase_in_a_file),
        test_case("bounds::a_spin", &[], a_spin),
        test_case("bounds::lines_of_the_log", &[], lines_of_the_log),
        test_case("bounds::a_whole_line", &[], a_whole_line),
    ]
}

fn control_from(source: Ipv4Addr, port: u16) -> Raw {
    Raw::connect_from(source, (FIRST, port).into())
}

fn is_served(raw: &mut Raw) -> bool {
    raw.control
        .write_all(&Request::SysInfo.encode(None))
        .is_ok()
        && raw.receive().is_ok()
}

/// `--max-clients`: one address has all but a sixteenth of them.
fn sessions_of_an_address() {
    let server = Server::start("--max-clients 32");
    let mut first: Vec<Raw> = (0..30).map(|_| control_from(FIRST, server.port)).collect();
    assert!(first.iter_mut().all(is_served));
    assert!(!is_served(&mut control_from(FIRST, server.port)));
    let log = server.log();
    assert!(
        log.contains("127.0.0.1") && log.contains("its share of the maximum of 32"),
        "{log}"
    );

    let line = format!(
        "netperf -H 127.0.0.1 -p {} -L 127.0.0.2 -t TCP_RR -l -10",
        server.port
    );
    TestProcess::start(&mut linerate_with_args(&line))
        .finish(SOON)
        .assert_success();
    // The server may still hold the place of the client that has ended.
    let mut second = Vec::new();
    let both = wait_until(SOON, || {
        let mut raw = control_from(SECOND, server.port);
        if is_served(&mut raw) {
            second.push(raw);
        }
        second.len() == 2
    });
    assert!(both, "{}", server.log());
    assert!(
        !is_served(&mut control_from(SECOND, server.port)),
        "that makes 33"
    );
    drop(first);
    let again = wait_until(SOON, || is_served(&mut control_from(FIRST, server.port)));
    assert!(again, "they are not given back: {}", server.log());
}

/// `--allow-peers`: clients from other networks find their connection closed.
fn networks_of_clients() {
    let server = Server::start("--allow-peers 127.0.0.2/32 --allow-peers 192.0.2.0/24");
    assert!(!is_served(&mut control_from(FIRST, server.port)));
    let refusal = "refused a client: its address is not in a network of --allow-peers";
    let logged = wait_until(SOON, || server.log().contains(refusal));
    assert!(logged, "{}", server.log());
    assert!(is_served(&mut control_from(SECOND, server.port)));
}

/// `--max-memory`: the same of the buffers, also those of classic datagrams.
fn memory_of_an_address() {
    let server = Server::start("--max-buffer 16M --max-memory 16M");
    let rings = |megabytes: u32| {
        Request::Omni(TestRequest {
            receive_size: 1 << 20,
            receive_width: megabytes,
            ..Kind::TcpStream.request(10)
        })
    };
    let mut first = control_from(FIRST, server.port);
    // Each has some bytes for its alignment.
    first.send(&rings(14));
    assert!(first.refusal().is_err(), "{}", server.log());
    assert_eq!(
        control_from(FIRST, server.port).ask_in_vain(&rings(1)),
        ENOMEM
    );
    assert!(
        server.log().contains("left for one address"),
        "{}",
        server.log()
    );
    let mut second = control_from(SECOND, server.port);
    second.send(&rings(1));
    assert!(second.refusal().is_err(), "{}", server.log());

    let server = Server::start("--max-memory 64K");
    let datagrams = Request::Classic(
        Classic::UdpStream,
        TestRequest {
            receive_size: 65_000,
            test_length: 1,
            ..TestRequest::classic()
        },
    );
    assert_eq!(Raw::connect(server.port).ask_in_vain(&datagrams), ENOMEM);
}

/// What one user starts is no attack.
fn many_flows() {
    let server = Server::start("");
    let line = format!(
        "super_netperf 200 -H 127.0.0.1 -p {} -t TCP_RR -l 1",
        server.port
    );
    let client = TestProcess::start(&mut linerate_with_args(&line)).finish(Duration::from_secs(60));
    client.assert_success();
    assert!(client.figures()[0] > 200.0, "{client:#?}");
}

/// Attempts take longer and longer, hold no more than some threads, and are no business of other addresses.
fn wrong_passphrases() {
    let server = Server::start("-Z secret");
    let rest = server.usage();
    let wrong = Request::Passphrase(b"guessed".to_vec());
    let begun = Instant::now();
    for _ in 0..4 {
        let mut raw = control_from(FIRST, server.port);
        raw.send(&wrong);
        raw.time_to_end(LATEST).expect("it is refused");
    }
    // 0.25, 0.5 and 1 s.
    assert!(
        begun.elapsed() > Duration::from_millis(1700),
        "{:?}",
        begun.elapsed()
    );

    let mut guesses: Vec<Raw> = (0..500).map(|_| control_from(FIRST, server.port)).collect();
    for guess in &mut guesses {
        let _ = guess.control.write_all(&wrong.encode(None));
    }
    let refusal = "too many wrong passphrases from this address";
    let refused = wait_until(SOON, || server.stderr().contains(refusal));
    assert!(refused, "{}", server.stderr());
    let few = wait_until(SOON, || server.usage().threads <= rest.threads + 40);
    assert!(few, "{:?} from {rest:?}", server.usage());
    // On the same account it would be refused.
    let mut other = control_from(SECOND, server.port);
    other.send(&Request::Passphrase(b"secret".to_vec()));
    assert!(is_served(&mut other), "{}", server.log());
}

/// It is nowhere in the command lines that ps(1) shows.
fn passphrase_in_a_file() {
    let place = tempfile::tempdir().expect("a directory");
    let [right, wrong] = ["right", "wrong"].map(|name| place.path().join(name));
    std::fs::write(&right, "sesame\n").expect("a new directory");
    std::fs::write(&wrong, "barley\n").expect("a new directory");
    let in_file = |file: &std::path::Path| format!("@{}", file.display());
    let server = Server::start(&format!("-Z {}", in_file(&right)));
    for (passphrase, code) in [
        (in_file(&right), 0),
        ("sesame".to_owned(), 0),
        (in_file(&wrong), 1),
    ] {
        let line = format!(
            "netperf -H 127.0.0.1 -p {} -Z {passphrase} -t TCP_RR -l -10",
            server.port
        );
        let client = TestProcess::start(&mut linerate_with_args(&line)).finish(SOON);
        assert_eq!(client.code, Some(code), "{client:#?}");
    }
}

/// A client that has intervals awaited by looking at the clock gets a sleep for most of a long one, and for half of a
/// short one.
fn a_spin() {
    for (options, interval, most) in [
        ("", "1m", 100),
        ("", "1000s", 100),
        ("--allow-spin", "1m", 220),
        ("--allow-spin", "1000s", 100),
    ] {
        let server = Server::start(options);
        let line = format!(
            "netperf -H 127.0.0.1 -p {} -t TCP_MAERTS -b ,1 -w ,{interval} --spin=remote -l 3 -- -m 100",
            server.port
        );
        let before = cpu_ticks(server.pid());
        TestProcess::start(&mut linerate_with_args(&line))
            .finish(SOON * 4)
            .assert_success();
        let used = cpu_ticks(server.pid()) - before;
        assert!(used < most, "{options} {interval}: {used} of 300 ticks");
    }
}

/// CPU time that a process has used, in clock ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields = fields.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// A line for each refusal, but not without end.
fn lines_of_the_log() {
    let server = Server::start("");
    let nonsense = Request::Omni(TestRequest {
        protocol: 999,
        ..Kind::TcpRr.request(1)
    });
    let mut raw = Raw::connect(server.port);
    let begun = Instant::now();
    for _ in 0..3000 {
        raw.ask_in_vain(&nonsense);
    }
    let periods = begun.elapsed().as_secs() as usize / 10 + 2;
    let lines = server.stderr().lines().count();
    // Some are of the server's start, and of how many were left out.
    let most = periods * 1000 + 100;
    assert!((1000..=most).contains(&lines), "{lines} of {most} lines");
}

/// A line is written by one call, here into a socket that keeps the bounds of each.
fn a_whole_line() {
    let (ours, log) = UnixDatagram::pair().expect("a pair");
    ours.set_read_timeout(Some(LATEST)).expect("not zero");
    let port = free_port();
    let line = format!("netserver -D -p {port} --allow-peers 192.0.2.0/24");
    let mut server = linerate_with_args(&line)
        .stdout(Stdio::null())
        .stderr(OwnedFd::from(log))
        .spawn()
        .expect("it starts");
    let connected = wait_until(SOON, || TcpStream::connect((FIRST, port)).is_ok());
    let mut written = [0; 1024];
    let length = ours.recv(&mut written).unwrap_or_default();
    server.kill().expect("it is ours");
    server.wait().expect("it is ours");
    let written = String::from_utf8_lossy(&written[..length]);
    assert!(
        connected && written.ends_with("of --allow-peers\n"),
        "{written:?}"
    );
}
