//! Replays of recorded sessions of the stock iperfs. The scripted peer sends the recorded messages
//! to linerate.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::time::Duration;

use iperf::wire::{Acknowledgement, DatagramHeader, ServerReport, WallTime, flags};
use iperf3::wire::{ControlState, Direction, Parameters, Protocol, Results, add_length_prefix};
use testkit::{Receive, ReceiveFrom, Server, TestCase, TestProcess, run_in_parallel, test_cases};

use super::{iperf3_script, our_iperf2, our_iperf3, start_server};

/// Timeout of a read on a busy machine.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of a client that sends some megabytes.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

const IPERF3_MESSAGES: &str = include_str!("../../../iperf3/src/wire/fixtures.txt");
const IPERF2_MESSAGES: &str = include_str!("../../../iperf/tests/data/messages.txt");

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = test_cases![
        serves_recorded_iperf3_clients,
        reads_recorded_iperf3_results,
        answers_recorded_iperf2_tcp_headers,
        reports_recorded_iperf2_datagrams,
        returns_recorded_iperf2_bounceback_requests,
        prints_recorded_iperf2_reports,
        accepts_recorded_iperf2_acknowledgements,
    ];
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

/// Returns the recorded messages of a kind, each with the name of its run.
fn recorded<'a>(messages: &'a str, kind: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    messages.lines().filter_map(move |line| {
        let mut words = line.splitn(3, ' ');
        let (run, message_kind) = (words.next()?, words.next()?);
        (message_kind == kind).then_some((run, words.next()?))
    })
}

fn decode_hex(hex: &str) -> Vec<u8> {
    let byte = |index: usize| u8::from_str_radix(&hex[index..index + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// The scripted client opens the streams of each recorded request, sends no data, and exchanges
/// results.
fn serves_recorded_iperf3_clients() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let mut run_count = 0;
    for (run, text) in recorded(IPERF3_MESSAGES, "parameters") {
        let parameters = Parameters::decode(text.as_bytes()).expect(run);
        let mut client = iperf3_script::Client::connect(server.port);
        client.send_cookie();
        client.send_parameters(text);
        let (forward, backward) = parameters.stream_counts();
        let mut connections = Vec::new();
        let mut sockets = Vec::new();
        for _ in 0..forward + backward {
            match parameters.protocol {
                Protocol::Udp => sockets.push(client.open_udp_stream()),
                _ => connections.push(client.open_tcp_stream()),
            }
        }
        client.await_running();
        client.control.send_state(ControlState::TestEnd);
        client.control.await_state(ControlState::ExchangeResults);
        client
            .control
            .send(&add_length_prefix(&idle_results(&parameters)));
        let results = Results::decode(client.control.read_json().as_bytes()).expect(run);
        assert_eq!(results.streams.len() as u32, forward + backward, "{run}");
        assert_eq!(results.output.is_some(), parameters.server_output, "{run}");
        client.control.await_state(ControlState::DisplayResults);
        client.control.send_state(ControlState::IperfDone);
        run_count += 1;
    }
    assert!(run_count > 20);
    assert!(!server.has_panicked(), "{}", server.log());
    server.terminate();
}

/// Returns the results of streams without data.
fn idle_results(parameters: &Parameters) -> String {
    let (forward, backward) = parameters.stream_counts();
    let streams = (0..(forward + backward) as usize).map(|index| {
        let number = iperf3::wire::stream_number(index);
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

/// The scripted server sends recorded results of receiving servers. The client sends more data than
/// the recorded clients.
fn reads_recorded_iperf3_results() {
    let mut run_count = 0;
    for (run, text) in recorded(IPERF3_MESSAGES, "results") {
        let results = Results::decode(text.as_bytes()).expect(run);
        let [stream] = results.streams[..] else {
            continue;
        };
        if results.sender_has_retransmits.is_some() || run.contains("reverse") {
            continue;
        }
        let is_udp = stream.packets > 0;
        let options = if is_udp { "-u -l 1000 -b 0" } else { "-l 8K" };
        let server = iperf3_script::Server::listen();
        let line = format!("-c 127.0.0.1 -p {} -n 8M {options}", server.port);
        let client = TestProcess::start(&mut our_iperf3(&line));
        let mut session = server.accept();
        session.control.send_state(ControlState::ParamExchange);
        session.control.read_json();
        let open_stream = if is_udp {
            let (socket, _) = server.accept_udp_stream(&mut session);
            session.start_test();
            (None, Some(socket))
        } else {
            let mut stream = server.accept_tcp_stream(&mut session);
            session.start_test();
            stream.read_exact(&mut vec![0; 8 << 20]).expect(run);
            (Some(stream), None)
        };
        session.control.await_state(ControlState::TestEnd);
        session.control.send_state(ControlState::ExchangeResults);
        session.control.read_json();
        session.control.send(&add_length_prefix(text));
        session.control.send_state(ControlState::DisplayResults);
        session.control.await_state(ControlState::IperfDone);
        drop((session, open_stream));
        let client = client.finish(CLIENT_TIMEOUT);
        assert_eq!(client.code, Some(0), "{run}: {client:#?}");
        let row = client.stdout.lines().find(|line| line.contains("receiver"));
        let row = row.unwrap_or_default();
        let lost = stream.errors - stream.omitted_errors.unwrap_or(0);
        let packets = stream.packets - stream.omitted_packets.unwrap_or(0);
        let expected = format!("{lost}/{packets} ");
        assert!(!is_udp || row.contains(&expected), "{run}: {row}");
        run_count += 1;
    }
    assert!(run_count > 3, "{run_count}");
}

/// The server answers each recorded header with the acknowledgement that stock sends. It closes the
/// connection after the data, whichever end sends it.
fn answers_recorded_iperf2_tcp_headers() {
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    let server_with_key =
        Server::start_with(|port| format!("iperf -s -p {port} --permit-key=secret123"));
    run_in_parallel(recorded(IPERF2_MESSAGES, "stream").map(|(run, hex)| {
        let has_key = run.contains("permitkey");
        let port = if has_key {
            server_with_key.port
        } else {
            server.port
        };
        move || assert_answers_tcp_header(run, &decode_hex(hex), port)
    }));
    for server in [server, server_with_key] {
        assert!(!server.has_panicked(), "{}", server.log());
        assert!(server.stdout().contains("/sec"));
        server.terminate();
    }
}

fn assert_answers_tcp_header(run: &str, header: &[u8], port: u16) {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect(run);
    client
        .set_read_timeout(Some(READ_TIMEOUT))
        .expect("not zero");
    client.write_all(header).expect(run);
    let write_result = client.write_all(&[b'0'; 10_000]);
    let write_result = write_result.and_then(|()| client.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    let read_result = client.read_to_end(&mut answer);
    if run == "tcp-permitkey-bad" {
        let is_reset = read_result.is_err() || write_result.is_err();
        assert!(answer.is_empty() && is_reset, "{run}");
        return;
    }
    assert!(read_result.is_ok(), "{run}: {read_result:?}");
    let header_flags = u32::from_be_bytes(header[..4].try_into().expect("a header"));
    let receives_data =
        header_flags & flags::VERSION2 != 0 && header_flags & flags::PEER_DETECT == 0;
    if header_flags & flags::EXTEND == 0 {
        assert!(answer.is_empty(), "{run}");
    } else if receives_data {
        assert!(answer.len() > 10_000, "{run}: {}", answer.len());
    } else {
        // The recorded start times of `--trip-times` are long past. The server ignores them, so its
        // acknowledgement contains no times.
        let decoded = Acknowledgement::decode(&answer);
        assert!(decoded.is_some(), "{run}: {answer:?}");
        assert_eq!(answer.len(), Acknowledgement::SHORT_LEN, "{run}");
    }
}

/// The scripted client sends the first datagrams of each recorded run, and a final datagram. The
/// server's report counts them.
fn reports_recorded_iperf2_datagrams() {
    let mut server = start_server(our_iperf2, "-u");
    let mut run_count = 0;
    let mut runs: Vec<&str> = recorded(IPERF2_MESSAGES, "datagram")
        .map(|(run, _)| run)
        .collect();
    runs.dedup();
    for run in runs {
        // The server answers these runs with data, or not at all.
        if run.contains("nofin") || run.contains("reverse") || run.contains("fullduplex") {
            continue;
        }
        let messages = recorded(IPERF2_MESSAGES, "datagram").filter(|(name, _)| *name == run);
        let mut datagrams: Vec<Vec<u8>> = messages.map(|(_, hex)| decode_hex(hex)).collect();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        client
            .connect((Ipv4Addr::LOCALHOST, server.port))
            .expect("loopback");
        client
            .set_read_timeout(Some(READ_TIMEOUT))
            .expect("not zero");
        let word = |bytes: &[u8], offset: usize| -> u32 {
            let word = bytes
                .get(offset..offset + 4)
                .and_then(|word| word.try_into().ok());
            word.map_or(0, u32::from_be_bytes)
        };
        // Clients of 2.0.4 send 32-bit numbers.
        let has_wide_numbers = !run.starts_with("204") && !run.contains("204client");
        let mut last = datagrams.last().expect("a datagram").clone();
        let number = -(i64::from(word(&last, 0)) + 1);
        DatagramHeader {
            number,
            sent: WallTime::now(),
        }
        .write(&mut last, has_wide_numbers);
        let sent_bytes: usize = datagrams.iter().map(Vec::len).sum::<usize>() + last.len();
        datagrams.push(last);
        for datagram in &datagrams {
            client.send(datagram).expect("loopback");
        }
        let mut answer = [0; 2048];
        let count = client.receive(&mut answer).expect(run);
        if has_wide_numbers {
            let report = ServerReport::decode(&answer[..count]).expect(run);
            assert_eq!((report.bytes, report.lost), (sent_bytes as u64, 0), "{run}");
        } else {
            assert!(word(&answer, 12) & 0x8000_0000 != 0, "{run}: {answer:?}");
        }
        run_count += 1;
    }
    assert!(run_count > 15, "{run_count}");
    assert!(server.is_running(), "{}", server.stderr());
}

/// The server returns each recorded request, and sets only its own times.
fn returns_recorded_iperf2_bounceback_requests() {
    /// Bytes of the server's times.
    const SERVER_TIMES: std::ops::Range<usize> = 28..44;
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    for (run, hex) in recorded(IPERF2_MESSAGES, "bounce") {
        let request = decode_hex(hex);
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect(run);
        client
            .set_read_timeout(Some(READ_TIMEOUT))
            .expect("not zero");
        for _ in 0..3 {
            client.write_all(&request).expect(run);
            let mut answer = vec![0; request.len()];
            client.read_exact(&mut answer).expect(run);
            assert_ne!(answer[SERVER_TIMES], request[SERVER_TIMES], "{run}");
            answer[SERVER_TIMES].copy_from_slice(&request[SERVER_TIMES]);
            assert_eq!(answer, request, "{run}");
        }
    }
    server.terminate();
}

/// The client prints the recorded report that answers its final datagram. It sends more data than
/// the recorded client.
fn prints_recorded_iperf2_reports() {
    for (run, hex) in recorded(IPERF2_MESSAGES, "report") {
        let answer = decode_hex(hex);
        let report = ServerReport::decode(&answer).expect(run);
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        server
            .set_read_timeout(Some(READ_TIMEOUT))
            .expect("not zero");
        let port = server.local_addr().expect("the socket is bound").port();
        let line = format!("-c 127.0.0.1 -p {port} -u -n 2M -l 1000 -b 10g -f b");
        let client = TestProcess::start(&mut our_iperf2(&line));
        let mut datagram = [0; 2048];
        loop {
            let (count, from) = server.receive_from(&mut datagram).expect(run);
            let header = DatagramHeader::read(&datagram[..count], true).expect(run);
            if header.number < 0 {
                server.send_to(&answer, from).expect("loopback");
                break;
            }
        }
        let client = client.finish(CLIENT_TIMEOUT);
        assert_eq!(client.code, Some(0), "{run}: {client:#?}");
        let printed = client.stdout.split_once("Server Report:");
        let printed = printed.map_or("", |(_, report)| report);
        let losses = format!(" {}/{} (", report.lost, report.datagrams);
        let bytes = format!(" {} Bytes", report.bytes);
        assert!(
            printed.contains(&losses) && printed.contains(&bytes),
            "{run}: {client:#?}"
        );
    }
}

/// A client that waits for an acknowledgement accepts each recorded one.
fn accepts_recorded_iperf2_acknowledgements() {
    for (run, hex) in recorded(IPERF2_MESSAGES, "acknowledgement") {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("the socket is bound").port();
        // The longer acknowledgement answers a header with a time.
        let answer = decode_hex(hex);
        let has_times = answer.len() > Acknowledgement::SHORT_LEN;
        let times = if has_times { "--trip-times" } else { "" };
        let line = format!("-c 127.0.0.1 -p {port} -n 100K -X {times}");
        let client = TestProcess::start(&mut our_iperf2(&line));
        let (mut server, _) = listener.accept().expect(run);
        server.write_all(&answer).expect(run);
        let count = server.read_to_end(&mut Vec::new()).expect(run);
        assert!(count >= 100 << 10, "{run}: {count}");
        drop(server);
        client.finish(CLIENT_TIMEOUT).assert_success();
    }
}
