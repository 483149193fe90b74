//! Alignment, number, contents and touching of buffers: -a, -A, -o, -O, -W, -F, -k, -K.

use std::collections::BTreeSet;

use testkit::{Server, TestCase, test_case};

use super::trace::{Call, STRACE, trace_netperf};
use super::{run_client, selector_values};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let needs = &[STRACE];
    vec![
        test_case(
            "alignment_offset_and_width",
            needs,
            alignment_offset_and_width,
        ),
        test_case("widths_of_a_stream", needs, widths_of_a_stream),
        test_case("fill_files", needs, fill_files),
        test_case("dirty_data", needs, dirty_data),
        test_case("dirty_counts", &[], dirty_counts),
    ]
}

const TRACE_ADDRESSES: &str = "-e trace=sendto,recvfrom -e raw=sendto,recvfrom";
const TRACE_DATA: &str = "-e trace=sendto,recvfrom -xx -s 64";

/// A request/response test has four rings. Each has its own alignment, offset and width.
fn alignment_offset_and_width() {
    let client =
        "-t TCP_RR -l -20 -a 4096,2048 -o 24,8 -A 8192,1024 -O 40,16 -W 3,2 -- -r 1000,700";
    let calls = trace_netperf(TRACE_ADDRESSES, "", client);
    for (ring, calls, name, size, alignment, offset, width) in [
        (
            "requests at the client",
            &calls.client,
            "sendto",
            1000,
            4096,
            24,
            3,
        ),
        (
            "responses at the client",
            &calls.client,
            "recvfrom",
            700,
            2048,
            8,
            2,
        ),
        (
            "requests at the server",
            &calls.server,
            "recvfrom",
            1000,
            1024,
            16,
            2,
        ),
        (
            "responses at the server",
            &calls.server,
            "sendto",
            700,
            8192,
            40,
            3,
        ),
    ] {
        let addresses = buffer_addresses(calls, name, size);
        assert_eq!(addresses.len(), width, "{ring}: {addresses:x?}");
        for address in &addresses {
            assert_eq!(address % alignment, offset, "{ring}: {address:x}");
        }
    }
}

/// A stream has one ring at each end. Test option -W overrides the sender's global -W.
fn widths_of_a_stream() {
    for (client, send_width, receive_width) in [
        ("-W 4,5 -- -m 1000 -M 500", 4, 5),
        ("-W 4,5 -- -m 1000 -M 500 -W 7", 7, 5),
    ] {
        let calls = trace_netperf(
            TRACE_ADDRESSES,
            "",
            &format!("-t TCP_STREAM -l -50000 {client}"),
        );
        assert_eq!(
            buffer_addresses(&calls.client, "sendto", 1000).len(),
            send_width,
            "{client}"
        );
        assert_eq!(
            buffer_addresses(&calls.server, "recvfrom", 500).len(),
            receive_width,
            "{client}"
        );
    }
}

/// Each end fills its buffers from its file, one by one. At the end of the file it starts over.
fn fill_files() {
    // The protocol limits the name of the peer's file to 31 characters.
    let directory = tempfile::tempdir_in("/tmp").expect("/tmp is writable");
    let (local_file, remote_file) = (directory.path().join("h"), directory.path().join("t"));
    std::fs::write(&local_file, b"0123456789").unwrap();
    std::fs::write(&remote_file, b"abc").unwrap();
    let server = format!("--allow-fill-dir {}", directory.path().display());
    let client = format!(
        "-t TCP_RR -l -6 -W 2,2 -F {},{} -- -r 4,5",
        local_file.display(),
        remote_file.display()
    );
    let calls = trace_netperf(TRACE_DATA, &server, &client);
    let requests = received_messages(&calls.server, 4);
    let responses = received_messages(&calls.client, 5);
    // The two buffers are filled and used in turn.
    assert_eq!(requests[..4], [b"0123", b"4567", b"0123", b"4567"]);
    assert_eq!(responses[..4], [b"abcab", b"cabca", b"abcab", b"cabca"]);

    let files = [local_file, remote_file].map(|file| file.display().to_string());
    let line = format!(
        "-t TCP_RR -l -6 -F {} -- -k LOCAL_FILL_FILE,REMOTE_FILL_FILE",
        files.join(",")
    );
    let output = run_client(&Server::start(&server), &line);
    assert_eq!(
        selector_values(&output, ["LOCAL_FILL_FILE", "REMOTE_FILL_FILE"]),
        files
    );
}

/// The selectors report the requested counts.
fn dirty_counts() {
    const NAMES: [&str; 6] = [
        "LOCAL_SEND_DIRTY_COUNT",
        "LOCAL_RECV_DIRTY_COUNT",
        "LOCAL_RECV_CLEAN_COUNT",
        "REMOTE_SEND_DIRTY_COUNT",
        "REMOTE_RECV_DIRTY_COUNT",
        "REMOTE_RECV_CLEAN_COUNT",
    ];
    let server = Server::start("");
    for (options, expected) in [
        ("-k 3,9 -K 2,4", ["3", "3", "9", "2", "2", "4"]),
        ("", ["-1"; 6]),
    ] {
        let line = format!(
            "-t TCP_RR -l -6 {options} -- -r 12,10 -k {}",
            NAMES.join(",")
        );
        assert_eq!(
            selector_values(&run_client(&server, &line), NAMES),
            expected,
            "{options}"
        );
    }
}

/// The first bytes of each message change every time. The next bytes stay the same.
fn dirty_data() {
    let calls = trace_netperf(TRACE_DATA, "", "-t TCP_RR -l -6 -k 3,9 -K 2 -- -r 12,10");
    for (messages, dirty) in [
        (received_messages(&calls.server, 12), 3),
        (received_messages(&calls.client, 10), 2),
    ] {
        assert_eq!(messages.len(), 6);
        let first = &messages[0];
        for (index, message) in messages.iter().enumerate() {
            assert_eq!(message[dirty..], first[dirty..], "untouched bytes");
            let changed = message[..dirty]
                .iter()
                .zip(&first[..dirty])
                .all(|(byte, original)| *byte == original.wrapping_add(index as u8));
            assert!(changed, "{messages:?}");
        }
        assert_eq!(first[dirty..8], b"netperf\0"[dirty..]);
    }
}

/// Returns the buffer addresses of the calls with this name and size.
fn buffer_addresses(calls: &[Call], name: &str, size: u64) -> BTreeSet<u64> {
    calls
        .iter()
        .filter(|call| call.name == name && call.number(2) == Some(size))
        .filter_map(|call| call.number(1))
        .collect()
}

/// Returns the data of the receive calls that returned `size` bytes.
fn received_messages(calls: &[Call], size: usize) -> Vec<Vec<u8>> {
    calls
        .iter()
        .filter(|call| call.name == "recvfrom" && call.result == size.to_string())
        .map(|call| call.bytes(1))
        .filter(|bytes| bytes.len() == size)
        .collect()
}
