//! An iperf 2 client whose server dies, or says nothing any more, in each phase of a test: it reports that in one line
//! within its deadline, and fails.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::{
    ProcessOutput, TestCase, TestProcess, free_port, run_in_parallel, test_case_unless, test_cases,
    wait_until,
};

use super::lost2::{DEADLINE, KINDS, server_for};
use super::{AT_ONCE, Make, ours2, stock2, stock2_missing};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = test_cases![
        a_client_reports_a_server_that_dies,
        a_client_reports_a_server_that_says_nothing,
        a_client_of_datagrams_reports_a_server_that_says_nothing,
        a_client_of_datagrams_ends_without_the_last_one,
    ];
    test_cases.push(test_case_unless(
        stock2_missing(),
        "a_client_reports_a_process_that_is_killed_or_stopped",
        || {
            a_client_reports_a_process_that_is_killed_or_stopped();
            Ok(())
        },
    ));
    test_cases.into_iter().map(TestCase::allow_many).collect()
}

/// A failure, and one line.
#[track_caller]
fn is_reported(client: &ProcessOutput, what: &str) {
    assert_eq!(client.code, Some(1), "{what}: {client:#?}");
    // Both directions of a connection may have one.
    let most = if what.contains("--full-duplex") { 2 } else { 1 };
    let lines = client.stderr.lines().count();
    assert!((1..=most).contains(&lines), "{what}: {client:#?}");
}

/// A server that takes this much of a connection, and then leaves it, or keeps it until the client has ended.
fn client_of(options: &str, taken: usize, answer: &[u8], dies: bool) -> ProcessOutput {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let time = if dies { 30 } else { 1 };
    let line = format!("-c 127.0.0.1 -p {port} -t {time} {options}");
    let client = TestProcess::start(&mut ours2(&line));
    let (mut connection, _) = listener.accept().expect("a client");
    connection
        .read_exact(&mut vec![0; taken])
        .expect("it sends");
    connection.write_all(answer).expect("it reads");
    if dies {
        drop((connection, listener));
        return client.finish(AT_ONCE);
    }
    let ended = client.finish(DEADLINE);
    drop((connection, listener));
    ended
}

/// Options of clients, how much they send at least, and what they may get.
const TESTS: [(&str, usize, &[u8]); 8] = [
    ("", 0, &[]),
    ("", 60, &[]),
    ("", 500_000, &[]),
    ("-X", 60, &[]),
    ("-X", 60, &[0, 0, 0, 2, 0, 0]),
    ("--full-duplex", 60, b"0123456789"),
    ("--bounceback", 0, &[]),
    ("--bounceback", 100, &[]),
];

fn a_client_reports_a_server_that_dies() {
    for (options, taken, answer) in TESTS {
        is_reported(
            &client_of(options, taken, answer, true),
            &format!("{options}, {taken}"),
        );
    }
    // Without a byte: what a reverse test ends with is its end, too.
    is_reported(&client_of("-R", 60, &[], true), "reverse");
}

fn a_client_reports_a_server_that_says_nothing() {
    let tests = TESTS.into_iter().chain([("-R", 60, &[][..])]);
    run_in_parallel(tests.map(|(options, taken, answer)| {
        move || {
            is_reported(
                &client_of(options, taken, answer, false),
                &format!("{options}, {taken}"),
            );
        }
    }));
}

fn a_client_of_datagrams_reports_a_server_that_says_nothing() {
    let mute = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = mute.local_addr().expect("it is bound").port();
    for (options, word) in [
        ("-t 0.3", "did not receive ack of last datagram"),
        ("-n 5K", "did not receive ack of last datagram"),
        ("-R -t 0.3", "the server sent nothing"),
    ] {
        for to in [port, free_port()] {
            let line = format!("-c 127.0.0.1 -p {to} -u {options}");
            let client = testkit::run(ours2(&line), AT_ONCE).expect("it ends");
            is_reported(&client, options);
            let says = client.stderr.contains(word) || client.stderr.contains("Connection refused");
            assert!(says, "{client:#?}");
        }
    }
}

/// The client's end if the server sends a datagram per 10 ms for this time, and then nothing, not even the last one.
fn client_of_datagrams(options: &str, time: Duration) -> ProcessOutput {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = server.local_addr().expect("it is bound").port();
    let mut client = TestProcess::start(&mut ours2(&format!(
        "-c 127.0.0.1 -p {port} -u -l 100 -b 80k -R {options}"
    )));
    let (_, to) = server.recv_from(&mut [0; 100]).expect("a request");
    let began = Instant::now();
    let mut datagram = [0; 100];
    for number in 1_u32.. {
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        // The client may have ended.
        let _ = server.send_to(&datagram, to);
        if began.elapsed() >= time || !client.is_running() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    client.finish(AT_ONCE)
}

fn a_client_of_datagrams_ends_without_the_last_one() {
    let seconds = Duration::from_secs;
    let good = client_of_datagrams("-t 2", seconds(2));
    assert_eq!(good.code, Some(0), "{good:#?}");
    assert!(good.stdout.contains("0.0000-2.0000 sec"), "{good:#?}");
    let strict = client_of_datagrams("-t 2 --strict", seconds(2));
    assert_eq!(strict.code, Some(3), "{strict:#?}");
    let doubt = "iperf: the peer did not report the number of datagrams that it sent: its last one did not arrive";
    assert!(strict.stderr.contains(doubt), "{strict:#?}");
    // One that ends too early, and one that does not end.
    for time in [Duration::from_millis(800), seconds(60)] {
        is_reported(&client_of_datagrams("-t 2", time), "-R");
    }
}

fn a_client_reports_a_process_that_is_killed_or_stopped() {
    let makes: [Make; 2] = [ours2, stock2];
    let pairs = makes
        .into_iter()
        .flat_map(|make| KINDS.map(|kind| (make, kind)));
    run_in_parallel(pairs.flat_map(|(make, kind)| {
        [Signal::KILL, Signal::STOP]
            .map(|signal| move || a_client_reports_a_server_with(make, kind, signal))
    }));
}

fn a_client_reports_a_server_with(make: Make, kind: &str, signal: Signal) {
    let server = server_for(make, kind, "");
    // The receiver of datagrams sees the end by its clock alone.
    let ends = signal == Signal::KILL && !kind.contains("-u");
    let (time, patience) = if ends { (30, AT_ONCE) } else { (3, DEADLINE) };
    let line = format!(
        "-c 127.0.0.1 -p {} -t {time} -i 0.1 -l 1000 {kind}",
        server.port
    );
    let client = TestProcess::start(&mut ours2(&line));
    assert!(wait_until(AT_ONCE, || client.stdout().contains("/sec")));
    server.signal(signal);
    let client = client.finish(patience);
    let what = format!("{signal:?}, {kind}: {client:#?}");
    assert_eq!(client.code, Some(1), "{what}");
    assert!(!client.stderr.is_empty(), "{what}");
}
