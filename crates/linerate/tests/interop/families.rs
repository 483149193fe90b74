//! The Unix domain tests, which Debian's build lacks. Ours runs at both ends, and in either role
//! against a peer that sends messages as recorded from a 2.7.0 with these tests.

#![expect(
    clippy::float_cmp,
    reason = "the compared figures are integers parsed from text"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netperf::wire::{
    Capability, Classic, Flags, Frame, MESSAGE_BYTES, Request, SwappedText, TestRequest,
    TestResponse, TestResults, Text,
};
use testkit::{Implementation, ProcessOutput, Receive, Role, Server, short_path_dir};

use super::exchange::{Pair, Setting, programs, run, run_pair, stdout_of};
use super::{Case, CaseResult};

/// Maximum time for each message of a peer.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn cases() -> Vec<Case> {
    type Run = fn() -> CaseResult;
    let cases: [(&str, Run); 9] = [
        ("counts", counts),
        ("sizes", sizes),
        ("timed_with_cpu", timed_with_cpu),
        ("client_socket_directory", client_socket_directory),
        ("refusals", refusals),
        ("stream_server_with_stock_client", stream_server),
        ("datagram_server_with_stock_client", datagram_server),
        ("stream_client_with_stock_server", stream_client),
        ("datagram_client_with_stock_server", datagram_client),
    ];
    let debian_server = Case::new("unix::reports_refusal_by_debian_server", || {
        let args = ["-t", "STREAM_STREAM", "-l", "1"];
        let finished = run_pair(Pair::OURS_TO_STOCK, Setting::PLAIN, &args)?;
        let stderr = "netperf: send_stream_stream: remote error: Unknown error 998\n";
        expect(
            finished.code == Some(1) && finished.stderr == stderr,
            format!("{finished:?}"),
        )
    });
    cases
        .into_iter()
        .map(|(name, run)| Case::new(format!("unix::{name}"), run).without_stock())
        .chain([debian_server])
        .collect()
}

fn expect(condition: bool, error: impl Into<String>) -> CaseResult {
    if condition { Ok(()) } else { Err(error.into()) }
}

fn ours(line: &str) -> Result<String, String> {
    stdout_of(Pair::OURS, Setting::PLAIN, &words(line))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Returns the numbers of each line that consists of numbers only.
fn rows(text: &str) -> Vec<Vec<f64>> {
    let row = |line: &str| {
        line.split_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<Vec<f64>>>()
            .filter(|row| !row.is_empty())
    };
    text.lines().filter_map(row).collect()
}

/// The byte counts of both ends match exactly.
fn counts() -> CaseResult {
    let text = ours("-t STREAM_STREAM -l -1000000 -P 0 -v 2 -- -m 1000 -M 4000")?;
    let row = rows(&text).into_iter().find(|row| row.len() == 9);
    let row = row.ok_or_else(|| format!("no row of verbosity 2: {text}"))?;
    let (sent, received) = (row[6] * row[5], row[8] * row[7]);
    expect(sent == 1e6, text.clone())?;
    // The mean bytes per receive call are rounded to hundredths.
    expect((received - 1e6).abs() <= row[8] * 0.005, text)?;

    let text = ours("-t DG_STREAM -l -1000000 -P 0 -- -m 1000")?;
    let rows = rows(&text);
    expect(rows[0][3] == 1000.0 && rows[1][2] == 1000.0, text)?;

    for test in ["STREAM_RR", "DG_RR"] {
        let text = ours(&format!("-t {test} -l -500 -P 0 -- -r 200,3000"))?;
        let row = &self::rows(&text)[0];
        expect(row[2] == 200.0 && row[3] == 3000.0 && row[5] > 0.0, text)?;
    }
    Ok(())
}

/// Requested sizes apply to the sockets of both ends. The kernel doubles them.
fn sizes() -> CaseResult {
    let text = ours("-t STREAM_RR -l -50 -P 0 -- -s 20000,30000 -S 40000,50000")?;
    let rows = rows(&text);
    let figures = (&rows[0][..2], &rows[1][..]);
    expect(
        figures == (&[40_000.0, 60_000.0][..], &[80_000.0, 100_000.0][..]),
        text,
    )?;
    let text = ours("-t DG_STREAM -l -50000 -P 0 -- -m 500 -s 20000 -S 30000")?;
    let rows = self::rows(&text);
    expect(rows[0][0] == 40_000.0 && rows[1][0] == 60_000.0, text)?;
    // A request for 0 bytes sets the kernel's minimum.
    let text = ours("-t DG_STREAM -l -50000 -P 0 -- -m 500 -S 0")?;
    expect(self::rows(&text)[1][0] == 2304.0, text)
}

fn timed_with_cpu() -> CaseResult {
    for (test, headers, lines) in [
        ("STREAM_STREAM", "STREAM STREAM TEST\nRecv   Send ", 7),
        (
            "STREAM_RR",
            "STREAM REQUEST/RESPONSE TEST\nLocal /Remote\n",
            8,
        ),
        (
            "DG_STREAM",
            "DG UNIDIRECTIONAL SEND TEST\nSocket  Message",
            8,
        ),
        ("DG_RR", "DG REQUEST/RESPONSE TEST\nLocal /Remote\n", 8),
    ] {
        let text = ours(&format!("-t {test} -l 1 -c -C"))?;
        expect(text.starts_with(headers), text.clone())?;
        expect(text.lines().count() == lines, text.clone())?;
        let rate = rows(&text)[0][if test == "STREAM_STREAM" { 4 } else { 5 }];
        expect(rate > 1.0, text)?;
    }
    Ok(())
}

/// `-p` names the directory of this end's socket, which is removed afterwards.
fn client_socket_directory() -> CaseResult {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = directory.path().display().to_string();
    for test in ["STREAM_STREAM", "STREAM_RR", "DG_STREAM", "DG_RR"] {
        ours(&format!("-t {test} -l -1000 -P 0 -- -p {path}"))?;
        expect(
            is_empty(directory.path()),
            format!("{test} left its socket"),
        )?;
    }
    let line = "-t DG_RR -l -10 -- -p /nonexistent";
    let finished = run_pair(Pair::OURS, Setting::PLAIN, &words(line))?;
    expect(
        finished.code == Some(1) && finished.stderr.contains("/nonexistent"),
        format!("{finished:?}"),
    )
}

fn is_empty(directory: &Path) -> bool {
    directory
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_none())
}

fn refusals() -> CaseResult {
    for (line, stdout, stderr) in [
        ("-t DG_RR -- -h", "Unix Domain Sockets Test Options:", ""),
        // These tests have no output selections.
        ("-t DG_RR -- -o x", "-p dir", "invalid option -- 'o'"),
        ("-t STREAM_RR -- -k", "-p dir", "invalid option -- 'k'"),
        ("-t DG_RR -F ,/etc/passwd", "", "remote fill file"),
        ("-t DG_RR -N", "", "-N: DG_RR needs a netserver"),
        ("-t DG_RR -Y cs1", "", "no IP header"),
        ("-t DLCO_RR", "", "specify the network interfaces by name"),
        ("-t DLCO_RR -- -D nonesuch", "", "nonesuch"),
        ("-t SCTP_RR -- -h", "SCTP Sockets Test Options:", ""),
        (
            "-t SCTP_STREAM_MANY -- -o x",
            "-T number",
            "invalid option -- 'o'",
        ),
        ("-t SCTP_RR -- -T 2", "", "_MANY"),
        ("-t SCTP_RR_MANY -- -T 1", "", "-T 1"),
        ("-t SCTP_RR -N", "", "-N: SCTP_RR needs a netserver"),
        ("-t DLCL_RR -- -h", "-s sap", ""),
        (
            "-t DLCL_RR -- -D lo -s 41",
            "",
            "an odd service access point",
        ),
        (
            "-t DLCO_RR -- -D lo -w 128",
            "",
            "128 frames is larger than 127",
        ),
        ("-t DLCL_RR -- -D lo -W 5", "", "-w and -W need a DLCO test"),
        ("-t DLCL_RR -- -D lo -p x", "", "-p x"),
    ] {
        let finished = run_pair(Pair::OURS, Setting::PLAIN, &words(line))?;
        let is_refused = finished.code == Some(1)
            && finished.stdout.contains(stdout)
            && finished.stderr.contains(stderr);
        expect(is_refused, format!("{line}: {finished:?}"))?;
    }
    Ok(())
}

/// Starts our server and opens a control connection.
fn connect_to_server() -> Result<(Server, TcpStream), String> {
    let server = Server::start("-4");
    let control = TcpStream::connect(("127.0.0.1", server.port));
    let control = control.map_err(|error| error.to_string())?;
    let timeout = control.set_read_timeout(Some(TIMEOUT));
    timeout.map_err(|error| error.to_string())?;
    Ok((server, control))
}

fn send_request(control: &mut TcpStream, request: &Request) -> Result<Frame, String> {
    let sent = control.write_all(&request.encode(None));
    sent.map_err(|error| error.to_string())?;
    receive(control)
}

fn receive(control: &mut TcpStream) -> Result<Frame, String> {
    let mut frame = [0; MESSAGE_BYTES];
    let read = control.read_exact(&mut frame);
    read.map_err(|error| format!("cannot receive a message: {error}"))?;
    Ok(frame)
}

fn error_message(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A stock client sends data and closes the stream.
fn stream_server() -> CaseResult {
    let (_server, mut control) = connect_to_server()?;
    let request = Request::Classic(
        Classic::StreamStream,
        TestRequest {
            test_length: 1,
            ..TestRequest::classic()
        },
    );
    let frame = send_request(&mut control, &request)?;
    expect(
        Capability::find(&frame).is_none(),
        "the server reports capabilities to a stock client",
    )?;
    let response = Classic::StreamStream
        .messages()
        .parse_response(&frame)
        .map_err(error_message)?;
    // A stock server would request 0 bytes and get the kernel's minimum.
    expect(response.receive_buffer > 100_000, format!("{response:?}"))?;
    let path = path_of(response.path);
    expect(path.starts_with("/tmp"), path.display().to_string())?;
    let mut data = UnixStream::connect(&path).map_err(error_message)?;
    data.write_all(&vec![7; 100_000]).map_err(error_message)?;
    drop(data);
    let results = Classic::StreamStream
        .messages()
        .parse_results(&receive(&mut control)?)
        .map_err(error_message)?;
    expect(results.bytes_low == 100_000, format!("{results:?}"))?;

    let request = Request::Classic(
        Classic::StreamRr,
        TestRequest {
            request_size: 10,
            response_size: 20,
            test_length: 1,
            ..TestRequest::classic()
        },
    );
    let response = Classic::StreamRr
        .messages()
        .parse_response(&send_request(&mut control, &request)?)
        .map_err(error_message)?;
    let mut data = UnixStream::connect(path_of(response.path)).map_err(error_message)?;
    for _ in 0..3 {
        data.write_all(&[1; 10]).map_err(error_message)?;
        let mut response = [0; 20];
        data.read_exact(&mut response).map_err(error_message)?;
        expect(is_pattern(&response, 0), format!("{response:?}"))?;
    }
    drop(data);
    let results = Classic::StreamRr
        .messages()
        .parse_results(&receive(&mut control)?)
        .map_err(error_message)?;
    let figures = (results.transactions, results.bytes_low);
    expect(figures == (3, 90), format!("{results:?}"))?;
    expect(!path.exists(), "the socket is still there")
}

/// A stock datagram client does not signal the end, so the server's timer ends the test.
fn datagram_server() -> CaseResult {
    let (_server, mut control) = connect_to_server()?;
    let request = Request::Classic(
        Classic::DgStream,
        TestRequest {
            receive_size: 1000,
            test_length: 1,
            ..TestRequest::classic()
        },
    );
    let response = Classic::DgStream
        .messages()
        .parse_response(&send_request(&mut control, &request)?)
        .map_err(error_message)?;
    let path = path_of(response.path);
    let data = UnixDatagram::unbound().map_err(error_message)?;
    for _ in 0..50 {
        data.send_to(&[1; 1000], &path).map_err(error_message)?;
    }
    let frame = receive(&mut control)?;
    let results = Classic::DgStream
        .messages()
        .parse_results(&frame)
        .map_err(error_message)?;
    // The elapsed time excludes the seconds in which the server waits for more datagrams.
    let excludes_wait = (1.0..1.5).contains(&results.elapsed);
    let figures = (results.calls, results.bytes_low);
    expect(
        excludes_wait && figures == (50, 50_000),
        format!("{results:?}"),
    )?;
    expect(
        frame[..4] == 45_i32.to_be_bytes(),
        "unexpected message type",
    )?;
    expect(!path.exists(), "the socket is still there")?;

    let request = Request::Classic(
        Classic::DgRr,
        TestRequest {
            request_size: 10,
            response_size: 20,
            test_length: -3,
            ..TestRequest::classic()
        },
    );
    let response = Classic::DgRr
        .messages()
        .parse_response(&send_request(&mut control, &request)?)
        .map_err(error_message)?;
    let directory = tempfile::tempdir().map_err(error_message)?;
    let data = UnixDatagram::bind(directory.path().join("client")).map_err(error_message)?;
    data.connect(path_of(response.path))
        .map_err(error_message)?;
    data.set_read_timeout(Some(TIMEOUT))
        .map_err(error_message)?;
    for _ in 0..3 {
        data.send(&[1; 10]).map_err(error_message)?;
        let mut response = [0; 30];
        let length = data.receive(&mut response).map_err(error_message)?;
        expect(length == 20, format!("a response of {length} bytes"))?;
        expect(is_pattern(&response[..20], 0), format!("{response:?}"))?;
    }
    let results = Classic::StreamRr
        .messages()
        .parse_results(&receive(&mut control)?)
        .map_err(error_message)?;
    expect(results.transactions == 3, format!("{results:?}"))
}

/// Returns whether bytes match the default fill pattern from `offset` on.
fn is_pattern(bytes: &[u8], offset: usize) -> bool {
    let pattern = b"netperf\0".iter().cycle().skip(offset % 8);
    bytes.iter().eq(pattern.take(bytes.len()))
}

fn path_of(path: SwappedText<32>) -> PathBuf {
    PathBuf::from(path.0.to_string())
}

/// Runs our client against `serve`, which acts as a server on the control connection and creates
/// its sockets at the path.
fn run_client_against(
    line: &str,
    serve: fn(&mut TcpStream, &Path) -> CaseResult,
) -> Result<ProcessOutput, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(error_message)?;
    let port = listener.local_addr().map_err(error_message)?.port();
    let server = std::thread::spawn(move || {
        let directory = short_path_dir();
        let (mut control, _) = listener.accept().map_err(error_message)?;
        control
            .set_read_timeout(Some(TIMEOUT))
            .map_err(error_message)?;
        serve(&mut control, &directory.path().join("s"))
    });
    let mut client = programs().command(Implementation::Ours, Role::Client);
    client.args(["-H", "127.0.0.1", "-p", &port.to_string(), "-P", "0"]);
    client.args(words(line));
    let finished = run(client)?;
    server
        .join()
        .map_err(|_| "the server panicked".to_owned())??;
    Ok(finished)
}

fn path_field(path: &Path) -> SwappedText<32> {
    SwappedText(Text::new(path.as_os_str().as_encoded_bytes()))
}

/// Makes results look like a stock server's: their type is the byte-swapped type of its response,
/// and fields that it does not set have undefined values.
fn with_undefined_fields(mut frame: Frame, request_type: i32, offsets: &[usize]) -> Frame {
    frame[..4].copy_from_slice(&(request_type + 1).to_le_bytes());
    for offset in offsets {
        frame[8 + offset..][..4].copy_from_slice(&0x0000_c842_i32.to_be_bytes());
    }
    frame
}

fn stream_client() -> CaseResult {
    let finished = run_client_against("-t STREAM_STREAM -l 1 -C -- -m 1M", |control, path| {
        let request = Request::decode(&receive(control)?).request;
        let expected = Request::Classic(
            Classic::StreamStream,
            TestRequest {
                receive_buffer: 0,
                send_buffer: 0,
                flags: Flags::ROUTING_ALLOWED | Flags::MEASURE_CPU,
                test_length: 1,
                ..TestRequest::classic()
            },
        );
        expect(request == expected, format!("{request:?}"))?;
        let listener = UnixListener::bind(path).map_err(error_message)?;
        let response = TestResponse {
            receive_buffer: 2304,
            send_buffer: 4608,
            receive_size: 2304,
            flags: Flags::MEASURE_CPU,
            path: path_field(path),
            ..TestResponse::default()
        };
        control
            .write_all(&Classic::StreamStream.messages().encode_response(&response))
            .map_err(error_message)?;
        let (data, _) = listener.accept().map_err(error_message)?;
        let (mut bytes, mut calls) = (0_u64, 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match data.receive(&mut buffer).map_err(error_message)? {
                0 => break,
                read => {
                    let matches = is_pattern(&buffer[..read], bytes as usize);
                    expect(matches, format!("unexpected data after {bytes} bytes"))?;
                    bytes += read as u64;
                    calls += 1;
                }
            }
        }
        drop(data);
        let results = TestResults {
            bytes_low: bytes as u32,
            calls,
            elapsed: 1.0,
            cpu_utilisation: 50.0,
            ..TestResults::default()
        };
        let frame = with_undefined_fields(
            Classic::StreamStream.messages().encode_results(&results),
            37,
            &[16, 20],
        );
        control.write_all(&frame).map_err(error_message)
    })?;
    let row = &rows(&finished.stdout)[0];
    expect(row[0] == 2304.0 && row[4] > 0.0, format!("{finished:?}"))?;
    // The client ignores the number of CPUs, which the peer did not set.
    expect(row[6] == 50.0 && row[8] < 1000.0, format!("{finished:?}"))
}

fn datagram_client() -> CaseResult {
    let finished = run_client_against("-t DG_STREAM -l -100000 -- -m 1000", |control, path| {
        let request = Request::decode(&receive(control)?).request;
        let data = UnixDatagram::bind(path).map_err(error_message)?;
        data.set_read_timeout(Some(TIMEOUT))
            .map_err(error_message)?;
        let expected = Request::Classic(
            Classic::DgStream,
            TestRequest {
                receive_buffer: 0,
                receive_size: 1000,
                test_length: 100_000,
                ..TestRequest::classic()
            },
        );
        expect(request == expected, format!("{request:?}"))?;
        let response = TestResponse {
            receive_buffer: 2304,
            send_buffer: 4608,
            path: path_field(path),
            ..TestResponse::default()
        };
        control
            .write_all(&Classic::DgStream.messages().encode_response(&response))
            .map_err(error_message)?;
        let (mut messages, mut message) = (0, [0; 2000]);
        while data.receive(&mut message).map_err(error_message)? == 1000 {
            expect(is_pattern(&message[..1000], 0), format!("{message:?}"))?;
            messages += 1;
        }
        let results = TestResults {
            calls: messages,
            // The stock server adds the −1 of its interrupted call.
            bytes_low: messages * 1000 - 1,
            elapsed: 1.0,
            cpu_utilisation: -1.0,
            ..TestResults::default()
        };
        control
            .write_all(&Classic::DgStream.messages().encode_results(&results))
            .map_err(error_message)
    })?;
    let figures = rows(&finished.stdout);
    expect(
        figures[0][3] == 100.0 && figures[1][2] == 100.0,
        format!("{finished:?}"),
    )?;
    expect(figures[0][5] == figures[1][3], format!("{finished:?}"))?;

    let finished = run_client_against("-t DG_RR -l -5", |control, path| {
        let request = Request::decode(&receive(control)?).request;
        let expected = Request::Classic(
            Classic::DgRr,
            TestRequest {
                receive_buffer: 0,
                send_buffer: 0,
                test_length: -5,
                ..TestRequest::classic()
            },
        );
        expect(request == expected, format!("{request:?}"))?;
        let data = UnixDatagram::bind(path).map_err(error_message)?;
        data.set_read_timeout(Some(TIMEOUT))
            .map_err(error_message)?;
        let response = TestResponse {
            path: path_field(path),
            ..TestResponse::default()
        };
        control
            .write_all(&Classic::DgRr.messages().encode_response(&response))
            .map_err(error_message)?;
        for _ in 0..5 {
            let (_, from) = data.recv_from(&mut [0; 10]).map_err(error_message)?;
            data.send_to(
                &[1],
                from.as_pathname()
                    .ok_or("the client's socket has no path")?,
            )
            .map_err(error_message)?;
        }
        let results = TestResults {
            transactions: 5,
            bytes_low: 10,
            elapsed: 1.0,
            ..TestResults::default()
        };
        let frame = with_undefined_fields(
            Classic::DgRr.messages().encode_results(&results),
            46,
            &[20, 24],
        );
        control.write_all(&frame).map_err(error_message)
    })?;
    expect(finished.code == Some(0), format!("{finished:?}"))
}
