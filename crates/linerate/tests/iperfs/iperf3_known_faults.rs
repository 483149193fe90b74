//! Faults of stock iperf3 that its release notes list as security fixes. linerate withstands the
//! same peers: it refuses them with an error, and serves others.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use iperf3::wire::{ControlState, add_length_prefix};
use testkit::{Server, TestCase, test_cases};

use super::iperf3_invalid_data::run_client_with_message;
use super::iperf3_script::Client;
use super::{assert_serves, our_iperf3};

/// Timeout of a short test on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client that the server must still serve.
const OTHER_CLIENT: [&str; 1] = ["-n 100K"];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = test_cases![
        malformed_escapes_are_refused,
        huge_lengths_are_refused,
        partial_messages_do_not_hold_up_others,
        parameters_of_other_types_are_refused,
        malformed_logins_are_refused,
        datagrams_received_without_a_copy_fit_their_buffer,
    ];
    testkit::with_prefix("known_faults", test_cases).collect()
}

/// Sends a parameter message, and returns whether the server then requests streams.
fn accepts_parameters(server: &Server, message: &[u8]) -> bool {
    let mut client = Client::connect(server.port);
    client.send_cookie();
    client.control.send(message);
    let mut byte = [0];
    let has_answer = client.control.0.read_exact(&mut byte).is_ok();
    has_answer && ControlState::from_byte(byte[0]) == Some(ControlState::CreateStreams)
}

/// Runs a client whose server sends these bytes as its results. Returns the error on standard error.
fn client_error(results: &[u8]) -> String {
    let client = run_client_with_message(results, "");
    assert_eq!(client.code, Some(1), "{client:#?}");
    client.stderr
}

/// CVE-2016-4303, corrected in 3.1.3 (ESNET-SECADV-2016-0001): a malformed `\u` escape overwrote the
/// heap.
fn malformed_escapes_are_refused() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    for escape in [
        r"\u",
        r"\u12",
        r"\uD800",
        r"\uD800\u0041",
        r"\uZZZZ",
        r"\u0000\u",
    ] {
        let text = format!(r#"{{"tcp":true,"title":"{escape}"}}"#);
        // A lone surrogate may be replaced; anything else is no JSON.
        let is_accepted = accepts_parameters(&server, &add_length_prefix(&text));
        assert!(!is_accepted || escape.starts_with(r"\uD800"), "{escape}");
        let results = format!(r#"{{"congestion_used":"{escape}"}}"#);
        let error = client_error(&add_length_prefix(&results));
        assert!(
            error.contains("unable to receive results"),
            "{escape}: {error}"
        );
    }
    assert_serves(&server, our_iperf3, &OTHER_CLIENT);
    assert!(!server.has_panicked());
}

/// CVE-2023-38403, corrected in 3.14 (ESNET-SECADV-2023-0001): a length of 2^32 − 1 overflowed to an
/// allocation of no bytes.
fn huge_lengths_are_refused() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    for length in [u32::MAX, u32::MAX - 1, 1 << 31, (1 << 31) - 1] {
        let mut message = length.to_be_bytes().to_vec();
        message.extend(vec![b'x'; 10_000]);
        assert!(!accepts_parameters(&server, &message), "{length}");
        // The first byte of a length up to 2^24 − 1 below 2^32 is that of another message.
        let error = client_error(&message);
        assert!(error.starts_with("iperf3: "), "{length}: {error}");
    }
    assert_serves(&server, our_iperf3, &OTHER_CLIENT);
    assert!(!server.has_panicked());
}

/// CVE-2023-7250, corrected in 3.15 (ESNET-SECADV-2023-0002): a client that sent a part of a message
/// blocked the server for ever.
fn partial_messages_do_not_hold_up_others() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let idle_usage = server.settled_usage();
    let mut clients = Vec::new();
    for part in [&b"cook"[..], &[b'c'; 37], b"", &[0, 0], &[0, 0, 0, 9, b'{']] {
        let mut client = Client::connect(server.port);
        if part.len() > 4 || part.is_empty() || part[0] == 0 {
            client.send_cookie();
        }
        client.control.0.write_all(part).expect("a connection");
        clients.push(client);
    }
    let started = Instant::now();
    assert_serves(&server, our_iperf3, &OTHER_CLIENT);
    assert!(started.elapsed() < TIMEOUT);
    // The silent clients are still connected.
    server.assert_usage_returns_to(idle_usage, TIMEOUT, "the deadline of silent clients");
    drop(clients);
}

/// CVE-2024-53580, corrected in 3.18 (ESNET-SECADV-2024-0002): parameters of another type than
/// expected crashed the server.
fn parameters_of_other_types_are_refused() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    for text in ["[]", "1", "null", "\"x\"", "true", "", "{", "[{}]"] {
        let is_accepted = accepts_parameters(&server, &add_length_prefix(text));
        assert!(!is_accepted, "{text}");
    }
    for key in [
        "time",
        "parallel",
        "len",
        "omit",
        "num",
        "MSS",
        "window",
        "bandwidth",
        "TOS",
    ] {
        for value in ["\"1\"", "[]", "{}", "null", "true", "-1", "1e99"] {
            let text = format!(r#"{{"tcp":true,"{key}":{value}}}"#);
            // The server may also ignore a value of another type.
            accepts_parameters(&server, &add_length_prefix(&text));
        }
    }
    for key in [
        "title",
        "congestion",
        "authtoken",
        "extra_data",
        "client_version",
    ] {
        for value in ["1", "[]", "{}", "null", "true"] {
            let text = format!(r#"{{"tcp":true,"{key}":{value}}}"#);
            accepts_parameters(&server, &add_length_prefix(&text));
        }
    }
    assert_serves(&server, our_iperf3, &OTHER_CLIENT);
    assert!(!server.has_panicked());
}

/// CVE-2025-54349 and CVE-2025-54350, corrected in 3.19.1 (ESNET-SECADV-2025-0003 and -0002): a token
/// whose decoded text fills the buffer wrote behind it, and one that is no base64 text failed an
/// assertion. CVE-2024-26306, corrected in 3.17 (pull request 1695): the time of the answer showed
/// whether the padding was valid; `accepts_only_valid_logins` covers the padding.
fn malformed_logins_are_refused() {
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../iperf3/src/login");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let users = directory.path().join("users");
    std::fs::write(&users, "mario,0\n").expect("a writable directory");
    let login = format!(
        "--rsa-private-key-path {keys}/private.pem --authorized-users-path {}",
        users.display()
    );
    let mut server = Server::start_with(|port| format!("iperf3 -s -p {port} {login}"));
    let tokens = [
        String::new(),
        "=".to_owned(),
        "====".to_owned(),
        "A".to_owned(),
        "AAAA".to_owned(),
        "!\u{fc}\\n".to_owned(),
        "A".repeat(344),
        "A".repeat(342) + "==",
        "A".repeat(4000),
    ];
    for token in tokens {
        let text = format!(r#"{{"tcp":true,"authtoken":"{token}"}}"#);
        let is_accepted = accepts_parameters(&server, &add_length_prefix(&text));
        assert!(!is_accepted, "{token}");
    }
    assert!(server.is_running() && !server.has_panicked());
}

/// CVE-2025-54351, corrected in 3.19.1 (ESNET-SECADV-2025-0001): with `--skip-rx-copy`, the kernel
/// reports the length of a datagram that is longer than the buffer.
fn datagrams_received_without_a_copy_fit_their_buffer() {
    let mut server = Server::start_with(|port| format!("iperf3 -s -i 0.1 -p {port}"));
    let mut client = Client::connect(server.port);
    client.send_cookie();
    client.send_parameters(r#"{"udp":true,"len":16,"time":30,"skip_rx_copy":1}"#);
    let socket = client.open_udp_stream();
    client.await_running();
    for number in 1..=5_u32 {
        let mut datagram = vec![0; 60_000];
        datagram[8..12].copy_from_slice(&number.to_be_bytes());
        socket.send(&datagram).expect("loopback");
    }
    client.control.send_state(ControlState::TestEnd);
    client.control.await_state(ControlState::ExchangeResults);
    drop(client);
    assert_serves(&server, our_iperf3, &OTHER_CLIENT);
    assert!(server.is_running() && !server.has_panicked());
}
