//! The Unix domain tests, which Debian's build has not got: ours at both ends, and ours against a peer
//! that says what a 2.7.0 compiled with them was recorded to say, in either role.

#![expect(
    clippy::float_cmp,
    reason = "what is compared are whole numbers that were read from a text"
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
use testkit::{Implementation, ProcessOutput, Role, Server, short_directory};

use super::exchange::{Pair, Setting, exchange, peers, run, succeed};
use super::{Case, Outcome};

/// How long a peer may take for what it does at once.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn cases() -> Vec<Case> {
    type Run = fn() -> Outcome;
    let cases: [(&str, Run); 9] = [
        ("counts", counts),
        ("sizes", sizes),
        ("timed_with_cpu", timed_with_cpu),
        ("own_socket", own_socket),
        ("refusals", refusals),
        ("stream_server_of_a_stock_client", stream_server),
        ("datagram_server_of_a_stock_client", datagram_server),
        ("stream_client_of_a_stock_server", stream_client),
        ("datagram_client_of_a_stock_server", datagram_client),
    ];
    let against_debian = Case::against_stock("unix::debians_server_knows_them_not", || {
        let pair = Pair {
            client: Implementation::Ours,
            server: Implementation::Stock,
        };
        let ended = exchange(pair, Setting::PLAIN, &["-t", "STREAM_STREAM", "-l", "1"])?;
        let said = "netperf: send_stream_stream: remote error: Unknown error 998\n";
        expect(
            ended.code == Some(1) && ended.stderr == said,
            format!("{ended:?}"),
        )
    });
    cases
        .into_iter()
        .map(|(name, run)| Case::against_stock(format!("unix::{name}"), run).alone())
        .chain([against_debian])
        .collect()
}

fn expect(holds: bool, otherwise: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

fn ours(line: &str) -> Result<String, String> {
    succeed(Pair::OURS, Setting::PLAIN, &words(line))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The numbers of each line that is nothing but numbers.
fn rows(text: &str) -> Vec<Vec<f64>> {
    let row = |line: &str| {
        line.split_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<Vec<f64>>>()
            .filter(|row| !row.is_empty())
    };
    text.lines().filter_map(row).collect()
}

/// What one end sent the other one received, to the byte.
fn counts() -> Outcome {
    let text = ours("-t STREAM_STREAM -l -1000000 -P 0 -v 2 -- -m 1000 -M 4000")?;
    let extra = rows(&text).into_iter().find(|row| row.len() == 9);
    let extra = extra.ok_or_else(|| format!("no extra block: {text}"))?;
    let (sent, received) = (extra[6] * extra[5], extra[8] * extra[7]);
    expect(sent == 1e6, text.clone())?;
    // The average of a receive is printed to hundredths.
    expect((received - 1e6).abs() <= extra[8] * 0.005, text)?;

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

/// Sizes that are asked for are those of the sockets, which the kernel doubles, at both ends.
fn sizes() -> Outcome {
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
    // 0 is the least that there is.
    let text = ours("-t DG_STREAM -l -50000 -P 0 -- -m 500 -S 0")?;
    expect(self::rows(&text)[1][0] == 2304.0, text)
}

fn timed_with_cpu() -> Outcome {
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

/// `-p` is where this end's socket is, and is empty afterwards.
fn own_socket() -> Outcome {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = directory.path().display().to_string();
    for test in ["STREAM_STREAM", "STREAM_RR", "DG_STREAM", "DG_RR"] {
        ours(&format!("-t {test} -l -1000 -P 0 -- -p {path}"))?;
        expect(is_empty(directory.path()), format!("{test} left something"))?;
    }
    let line = "-t DG_RR -l -10 -- -p /nonexistent";
    let ended = exchange(Pair::OURS, Setting::PLAIN, &words(line))?;
    expect(
        ended.code == Some(1) && ended.stderr.contains("/nonexistent"),
        format!("{ended:?}"),
    )
}

fn is_empty(directory: &Path) -> bool {
    directory
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_none())
}

fn refusals() -> Outcome {
    for (line, stdout, stderr) in [
        ("-t DG_RR -- -h", "Unix Domain Sockets Test Options:", ""),
        // There are no selections in these tests.
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
        let ProcessOutput {
            code,
            stdout: out,
            stderr: err,
            ..
        } = exchange(Pair::OURS, Setting::PLAIN, &words(line))?;
        let as_expected = code == Some(1) && out.contains(stdout) && err.contains(stderr);
        expect(as_expected, format!("{line}: {code:?} {out} {err}"))?;
    }
    Ok(())
}

/// Our server, and a control connection to it.
fn served() -> Result<(Server, TcpStream), String> {
    let server = Server::start("-4");
    let control = TcpStream::connect(("127.0.0.1", server.port));
    let control = control.map_err(|error| error.to_string())?;
    let timeout = control.set_read_timeout(Some(PATIENCE));
    timeout.map_err(|error| error.to_string())?;
    Ok((server, control))
}

fn ask(control: &mut TcpStream, request: &Request) -> Result<Frame, String> {
    let sent = control.write_all(&request.encode(None));
    sent.map_err(|error| error.to_string())?;
    receive(control)
}

fn receive(control: &mut TcpStream) -> Result<Frame, String> {
    let mut frame = [0; MESSAGE_BYTES];
    let read = control.read_exact(&mut frame);
    read.map_err(|error| format!("no message: {error}"))?;
    Ok(frame)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A stock client sends, and ends the stream.
fn stream_server() -> Outcome {
    let (_server, mut control) = served()?;
    let request = Request::Classic(
        Classic::StreamStream,
        TestRequest {
            test_length: 1,
            ..TestRequest::classic()
        },
    );
    let answer = ask(&mut control, &request)?;
    expect(
        Capability::find(&answer).is_none(),
        "a stock client is told more",
    )?;
    let response = Classic::StreamStream
        .messages()
        .parse_response(&answer)
        .map_err(text)?;
    // The stock server would set 0, and have the least that there is.
    expect(response.receive_buffer > 100_000, format!("{response:?}"))?;
    let path = path_of(response.path);
    expect(path.starts_with("/tmp"), path.display().to_string())?;
    let mut data = UnixStream::connect(&path).map_err(text)?;
    data.write_all(&vec![7; 100_000]).map_err(text)?;
    drop(data);
    let results = Classic::StreamStream
        .messages()
        .parse_results(&receive(&mut control)?)
        .map_err(text)?;
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
        .parse_response(&ask(&mut control, &request)?)
        .map_err(text)?;
    let mut data = UnixStream::connect(path_of(response.path)).map_err(text)?;
    for _ in 0..3 {
        data.write_all(&[1; 10]).map_err(text)?;
        let mut response = [0; 20];
        data.read_exact(&mut response).map_err(text)?;
        expect(is_pattern(&response, 0), format!("{response:?}"))?;
    }
    drop(data);
    let results = Classic::StreamRr
        .messages()
        .parse_results(&receive(&mut control)?)
        .map_err(text)?;
    let figures = (results.transactions, results.bytes_low);
    expect(figures == (3, 90), format!("{results:?}"))?;
    expect(!path.exists(), "the socket is still there")
}

/// A stock client of datagrams says nothing at its end: the server's time ends the test.
fn datagram_server() -> Outcome {
    let (_server, mut control) = served()?;
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
        .parse_response(&ask(&mut control, &request)?)
        .map_err(text)?;
    let path = path_of(response.path);
    let data = UnixDatagram::unbound().map_err(text)?;
    for _ in 0..50 {
        data.send_to(&[1; 1000], &path).map_err(text)?;
    }
    let frame = receive(&mut control)?;
    let results = Classic::DgStream
        .messages()
        .parse_results(&frame)
        .map_err(text)?;
    // Its own time, in which everything came, and not the seconds in which it waits for more.
    let in_time = (1.0..1.5).contains(&results.elapsed);
    let figures = (results.calls, results.bytes_low);
    expect(in_time && figures == (50, 50_000), format!("{results:?}"))?;
    expect(frame[..4] == 45_i32.to_be_bytes(), "the type is set here")?;
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
        .parse_response(&ask(&mut control, &request)?)
        .map_err(text)?;
    let directory = tempfile::tempdir().map_err(text)?;
    let data = UnixDatagram::bind(directory.path().join("client")).map_err(text)?;
    data.connect(path_of(response.path)).map_err(text)?;
    data.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    for _ in 0..3 {
        data.send(&[1; 10]).map_err(text)?;
        let mut response = [0; 30];
        let length = data.recv(&mut response).map_err(text)?;
        expect(length == 20, format!("a response of {length} bytes"))?;
        expect(is_pattern(&response[..20], 0), format!("{response:?}"))?;
    }
    let results = Classic::StreamRr
        .messages()
        .parse_results(&receive(&mut control)?)
        .map_err(text)?;
    expect(results.transactions == 3, format!("{results:?}"))
}

/// Whether bytes are what buffers are filled with where no file is named, from so far on.
fn is_pattern(bytes: &[u8], from: usize) -> bool {
    let pattern = b"netperf\0".iter().cycle().skip(from % 8);
    bytes.iter().eq(pattern.take(bytes.len()))
}

fn path_of(path: SwappedText<32>) -> PathBuf {
    PathBuf::from(path.0.to_string())
}

/// Our client against `serve`, which plays a server on the control connection that it is given and
/// makes its sockets at the path.
fn client_of(
    line: &str,
    serve: fn(&mut TcpStream, &Path) -> Outcome,
) -> Result<ProcessOutput, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let port = listener.local_addr().map_err(text)?.port();
    let server = std::thread::spawn(move || {
        let directory = short_directory();
        let (mut control, _) = listener.accept().map_err(text)?;
        control.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        serve(&mut control, &directory.path().join("s"))
    });
    let mut client = peers().command(Implementation::Ours, Role::Client);
    client.args(["-H", "127.0.0.1", "-p", &port.to_string(), "-P", "0"]);
    client.args(words(line));
    let finished = run(client)?;
    server
        .join()
        .map_err(|_| "the server panicked".to_owned())??;
    Ok(finished)
}

fn told(path: &Path) -> SwappedText<32> {
    SwappedText(Text::new(path.as_os_str().as_encoded_bytes()))
}

/// The type of a stock server's results is that of its response, turned round, and what it does not set
/// is left over: here 1 everywhere.
fn with_leftovers(mut frame: Frame, kind: i32, unset: &[usize]) -> Frame {
    frame[..4].copy_from_slice(&(kind + 1).to_le_bytes());
    for at in unset {
        frame[8 + at..][..4].copy_from_slice(&0x0000_c842_i32.to_be_bytes());
    }
    frame
}

fn stream_client() -> Outcome {
    let ended = client_of("-t STREAM_STREAM -l 1 -C -- -m 1M", |control, path| {
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
        let listener = UnixListener::bind(path).map_err(text)?;
        let response = TestResponse {
            receive_buffer: 2304,
            send_buffer: 4608,
            receive_size: 2304,
            flags: Flags::MEASURE_CPU,
            path: told(path),
            ..TestResponse::default()
        };
        control
            .write_all(&Classic::StreamStream.messages().encode_response(&response))
            .map_err(text)?;
        let (mut data, _) = listener.accept().map_err(text)?;
        let (mut bytes, mut calls) = (0_u64, 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match data.read(&mut buffer).map_err(text)? {
                0 => break,
                read => {
                    let whole = is_pattern(&buffer[..read], bytes as usize);
                    expect(whole, format!("other bytes than sent after {bytes}"))?;
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
        let frame = with_leftovers(
            Classic::StreamStream.messages().encode_results(&results),
            37,
            &[16, 20],
        );
        control.write_all(&frame).map_err(text)
    })?;
    let row = &rows(&ended.stdout)[0];
    expect(row[0] == 2304.0 && row[4] > 0.0, format!("{ended:?}"))?;
    // Not the garbage of a number of CPUs that the peer did not set.
    expect(row[6] == 50.0 && row[8] < 1000.0, format!("{ended:?}"))
}

fn datagram_client() -> Outcome {
    let ended = client_of("-t DG_STREAM -l -100000 -- -m 1000", |control, path| {
        let request = Request::decode(&receive(control)?).request;
        let data = UnixDatagram::bind(path).map_err(text)?;
        data.set_read_timeout(Some(PATIENCE)).map_err(text)?;
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
            path: told(path),
            ..TestResponse::default()
        };
        control
            .write_all(&Classic::DgStream.messages().encode_response(&response))
            .map_err(text)?;
        let (mut messages, mut message) = (0, [0; 2000]);
        while data.recv(&mut message).map_err(text)? == 1000 {
            expect(is_pattern(&message[..1000], 0), format!("{message:?}"))?;
            messages += 1;
        }
        let results = TestResults {
            calls: messages,
            // The interrupted call's −1.
            bytes_low: messages * 1000 - 1,
            elapsed: 1.0,
            cpu_utilisation: -1.0,
            ..TestResults::default()
        };
        control
            .write_all(&Classic::DgStream.messages().encode_results(&results))
            .map_err(text)
    })?;
    let figures = rows(&ended.stdout);
    expect(
        figures[0][3] == 100.0 && figures[1][2] == 100.0,
        format!("{ended:?}"),
    )?;
    expect(figures[0][5] == figures[1][3], format!("{ended:?}"))?;

    let ended = client_of("-t DG_RR -l -5", |control, path| {
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
        let data = UnixDatagram::bind(path).map_err(text)?;
        data.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        let response = TestResponse {
            path: told(path),
            ..TestResponse::default()
        };
        control
            .write_all(&Classic::DgRr.messages().encode_response(&response))
            .map_err(text)?;
        for _ in 0..5 {
            let (_, from) = data.recv_from(&mut [0; 10]).map_err(text)?;
            data.send_to(&[1], from.as_pathname().ok_or("the client has no name")?)
                .map_err(text)?;
        }
        let results = TestResults {
            transactions: 5,
            bytes_low: 10,
            elapsed: 1.0,
            ..TestResults::default()
        };
        let frame = with_leftovers(
            Classic::DgRr.messages().encode_results(&results),
            46,
            &[20, 24],
        );
        control.write_all(&frame).map_err(text)
    })?;
    expect(ended.code == Some(0), format!("{ended:?}"))
}
