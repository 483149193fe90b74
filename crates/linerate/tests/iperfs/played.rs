//! Recorded sessions of stock iperfs, played to ours: the scripted peer says what stock said.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::time::Duration;

use iperf::wire::{Acknowledgement, DatagramHeader, ServerReport, WallTime, flags};
use iperf3::wire::{ControlState, Direction, Parameters, Protocol, Results, add_length_prefix};
use testkit::{Server, TestCase, TestProcess, run_in_parallel, test_cases};

use super::{ours2, ours3, script, server_of};

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a client's test of some megabytes may.
const PATIENCE: Duration = Duration::from_secs(20);

const OF_IPERF3: &str = include_str!("../../../iperf3/src/wire/fixtures.txt");
const OF_IPERF2: &str = include_str!("../../../iperf/tests/data/messages.txt");

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = test_cases![
        clients_of_iperf3,
        servers_of_iperf3,
        streams_of_iperf2,
        datagrams_of_iperf2,
        bounces_of_iperf2,
        reports_of_iperf2,
        acknowledgements_of_iperf2,
    ];
    test_cases.into_iter().map(TestCase::allow_many).collect()
}

/// Recorded messages of a kind, each with the name of its run.
fn recorded<'a>(all: &'a str, kind: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    all.lines().filter_map(move |line| {
        let mut words = line.splitn(3, ' ');
        let (run, found) = (words.next()?, words.next()?);
        (found == kind).then_some((run, words.next()?))
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Each recorded request has its streams, which nothing flows on, and both results.
fn clients_of_iperf3() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let mut played = 0;
    for (run, text) in recorded(OF_IPERF3, "parameters") {
        let parameters = Parameters::decode(text.as_bytes()).expect(run);
        let mut client = script::Client::connect(server.port);
        client.introduce();
        client.ask(text);
        let (forward, backward) = parameters.stream_counts();
        let mut connections = Vec::new();
        let mut sockets = Vec::new();
        for _ in 0..forward + backward {
            match parameters.protocol {
                Protocol::Udp => sockets.push(client.datagrams()),
                _ => connections.push(client.stream()),
            }
        }
        client.await_running();
        client.control.state(ControlState::TestEnd);
        client.control.await_state(ControlState::ExchangeResults);
        client
            .control
            .say(&add_length_prefix(&idle_results(&parameters)));
        let results = Results::decode(client.control.json().as_bytes()).expect(run);
        assert_eq!(results.streams.len() as u32, forward + backward, "{run}");
        assert_eq!(results.output.is_some(), parameters.server_output, "{run}");
        client.control.await_state(ControlState::DisplayResults);
        client.control.state(ControlState::IperfDone);
        played += 1;
    }
    assert!(played > 20);
    assert!(!server.has_panicked(), "{}", server.log());
    server.terminate();
}

/// Of streams on which nothing was sent.
fn idle_results(parameters: &Parameters) -> String {
    let (forward, backward) = parameters.stream_counts();
    let streams = (0..(forward + backward) as usize).map(|at| {
        let number = iperf3::wire::stream_number(at);
        iperf3::wire::StreamResult {
            number,
            ..Default::default()
        }
    });
    let results = Results {
        sender_has_retransmits: (parameters.direction != Direction::Reverse).then_some(true),
        streams: streams.collect(),
        ..Results::default()
    };
    results.encode()
}

/// Recorded results of receiving servers, for tests that send more than they did.
fn servers_of_iperf3() {
    let mut played = 0;
    for (run, text) in recorded(OF_IPERF3, "results") {
        let results = Results::decode(text.as_bytes()).expect(run);
        let [stream] = results.streams[..] else {
            continue;
        };
        if results.sender_has_retransmits.is_some() || run.contains("reverse") {
            continue;
        }
        let is_udp = stream.packets > 0;
        let options = if is_udp { "-u -l 1000 -b 0" } else { "-l 8K" };
        let server = script::Server::listen();
        let line = format!("-c 127.0.0.1 -p {} -n 8M {options}", server.port);
        let client = TestProcess::start(&mut ours3(&line));
        let mut session = server.accept();
        session.control.state(ControlState::ParamExchange);
        session.control.json();
        let held = if is_udp {
            let (socket, _) = server.datagrams(&mut session);
            session.run();
            (None, Some(socket))
        } else {
            let mut stream = server.stream(&mut session);
            session.run();
            stream.read_exact(&mut vec![0; 8 << 20]).expect(run);
            (Some(stream), None)
        };
        session.control.await_state(ControlState::TestEnd);
        session.control.state(ControlState::ExchangeResults);
        session.control.json();
        session.control.say(&add_length_prefix(text));
        session.control.state(ControlState::DisplayResults);
        session.control.await_state(ControlState::IperfDone);
        drop((session, held));
        let client = client.finish(PATIENCE);
        assert_eq!(client.code, Some(0), "{run}: {client:#?}");
        let receiver = client.stdout.lines().find(|line| line.contains("receiver"));
        let receiver = receiver.unwrap_or_default();
        let lost = stream.errors - stream.omitted_errors.unwrap_or(0);
        let expected = stream.packets - stream.omitted_packets.unwrap_or(0);
        let expected = format!("{lost}/{expected} ");
        assert!(!is_udp || receiver.contains(&expected), "{run}: {receiver}");
        played += 1;
    }
    assert!(played > 3, "{played}");
}

/// Each recorded header has the acknowledgement that stock sends, and its data, of either direction, an end.
fn streams_of_iperf2() {
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    let keyed = Server::start_with(|port| format!("iperf -s -p {port} --permit-key=secret123"));
    run_in_parallel(recorded(OF_IPERF2, "stream").map(|(run, hex)| {
        let is_keyed = run.contains("permitkey");
        let port = if is_keyed { keyed.port } else { server.port };
        move || a_stream_is_answered(run, &bytes(hex), port)
    }));
    for server in [server, keyed] {
        assert!(!server.has_panicked(), "{}", server.log());
        assert!(server.stdout().contains("/sec"));
        server.terminate();
    }
}

fn a_stream_is_answered(run: &str, header: &[u8], port: u16) {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect(run);
    client.set_read_timeout(Some(LIMIT)).expect("not zero");
    client.write_all(header).expect(run);
    let data = client.write_all(&[b'0'; 10_000]);
    let ended = data.and_then(|()| client.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    let read = client.read_to_end(&mut answer);
    if run == "tcp-permitkey-bad" {
        let is_cut = read.is_err() || ended.is_err();
        assert!(answer.is_empty() && is_cut, "{run}");
        return;
    }
    assert!(read.is_ok(), "{run}: {read:?}");
    let word = u32::from_be_bytes(header[..4].try_into().expect("a header"));
    let is_quiet = word & flags::VERSION2 != 0 && word & flags::PEER_DETECT == 0;
    if word & flags::EXTEND == 0 {
        assert!(answer.is_empty(), "{run}");
    } else if is_quiet {
        // A second of data.
        assert!(answer.len() > 10_000, "{run}: {}", answer.len());
    } else {
        // Acknowledgements of old trip times carry no times.
        let decoded = Acknowledgement::decode(&answer);
        assert!(decoded.is_some(), "{run}: {answer:?}");
        assert_eq!(answer.len(), Acknowledgement::SHORT_LEN, "{run}");
    }
}

/// The first datagrams of a recorded run, and a last one after them: the report counts them.
fn datagrams_of_iperf2() {
    let mut server = server_of(ours2, "-u");
    let mut played = 0;
    let mut runs: Vec<&str> = recorded(OF_IPERF2, "datagram")
        .map(|(run, _)| run)
        .collect();
    runs.dedup();
    for run in runs {
        // Both are answered by nothing, or by data.
        if run.contains("nofin") || run.contains("reverse") || run.contains("fullduplex") {
            continue;
        }
        let of_run = recorded(OF_IPERF2, "datagram").filter(|(found, _)| *found == run);
        let mut datagrams: Vec<Vec<u8>> = of_run.map(|(_, hex)| bytes(hex)).collect();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        client
            .connect((Ipv4Addr::LOCALHOST, server.port))
            .expect("loopback");
        client.set_read_timeout(Some(LIMIT)).expect("not zero");
        let word = |bytes: &[u8], at: usize| -> u32 {
            let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
            word.map_or(0, u32::from_be_bytes)
        };
        // Clients of 2.0.4 have numbers of 32 bits.
        let wide = !run.starts_with("204") && !run.contains("204client");
        let mut last = datagrams.last().expect("one").clone();
        let number = -(i64::from(word(&last, 0)) + 1);
        DatagramHeader {
            number,
            sent: WallTime::now(),
        }
        .write(&mut last, wide);
        let sent: usize = datagrams.iter().map(Vec::len).sum::<usize>() + last.len();
        datagrams.push(last);
        for datagram in &datagrams {
            client.send(datagram).expect("loopback");
        }
        let mut answer = [0; 2048];
        let count = client.recv(&mut answer).expect(run);
        if wide {
            let report = ServerReport::decode(&answer[..count]).expect(run);
            assert_eq!((report.bytes, report.lost), (sent as u64, 0), "{run}");
        } else {
            assert!(word(&answer, 12) & 0x8000_0000 != 0, "{run}: {answer:?}");
        }
        played += 1;
    }
    assert!(played > 15, "{played}");
    assert!(server.is_running(), "{}", server.stderr());
}

/// A recorded request comes back, with the times of the server alone.
fn bounces_of_iperf2() {
    /// Where they are.
    const TIMES: std::ops::Range<usize> = 28..44;
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    for (run, hex) in recorded(OF_IPERF2, "bounce") {
        let sent = bytes(hex);
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect(run);
        client.set_read_timeout(Some(LIMIT)).expect("not zero");
        for _ in 0..3 {
            client.write_all(&sent).expect(run);
            let mut answer = vec![0; sent.len()];
            client.read_exact(&mut answer).expect(run);
            assert_ne!(answer[TIMES], sent[TIMES], "{run}");
            answer[TIMES].copy_from_slice(&sent[TIMES]);
            assert_eq!(answer, sent, "{run}");
        }
    }
    server.terminate();
}

/// A client that has sent more than the recorded one shows the recorded report, answered to its last datagram.
fn reports_of_iperf2() {
    for (run, hex) in recorded(OF_IPERF2, "report") {
        let answer = bytes(hex);
        let report = ServerReport::decode(&answer).expect(run);
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        server.set_read_timeout(Some(LIMIT)).expect("not zero");
        let port = server.local_addr().expect("it is bound").port();
        let line = format!("-c 127.0.0.1 -p {port} -u -n 2M -l 1000 -b 10g -f b");
        let client = TestProcess::start(&mut ours2(&line));
        let mut datagram = [0; 2048];
        loop {
            let (count, from) = server.recv_from(&mut datagram).expect(run);
            let header = DatagramHeader::read(&datagram[..count], true).expect(run);
            if header.number < 0 {
                server.send_to(&answer, from).expect("loopback");
                break;
            }
        }
        let client = client.finish(PATIENCE);
        assert_eq!(client.code, Some(0), "{run}: {client:#?}");
        let told = client.stdout.split_once("Server Report:");
        let told = told.map_or("", |(_, told)| told);
        let lost = format!(" {}/{} (", report.lost, report.datagrams);
        let bytes = format!(" {} Bytes", report.bytes);
        assert!(
            told.contains(&lost) && told.contains(&bytes),
            "{run}: {client:#?}"
        );
    }
}

/// A client that waits for an acknowledgement takes each that was recorded.
fn acknowledgements_of_iperf2() {
    for (run, hex) in recorded(OF_IPERF2, "acknowledgement") {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        // The longer one answers a header that has a time.
        let answer = bytes(hex);
        let has_times = answer.len() > Acknowledgement::SHORT_LEN;
        let times = if has_times { "--trip-times" } else { "" };
        let line = format!("-c 127.0.0.1 -p {port} -n 100K -X {times}");
        let client = TestProcess::start(&mut ours2(&line));
        let (mut server, _) = listener.accept().expect(run);
        server.write_all(&answer).expect(run);
        let count = server.read_to_end(&mut Vec::new()).expect(run);
        assert!(count >= 100 << 10, "{run}: {count}");
        drop(server);
        client.finish(PATIENCE).assert_success();
    }
}
