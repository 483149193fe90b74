//! Where buffers lie, how many there are, what is in them: -a, -A, -o, -O, -W, -F, -k, -K.

use std::collections::BTreeSet;

use testkit::{Server, TestCase, test_case};

use super::trace::{Call, STRACE, both};
use super::{finish, values};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let needs = &[STRACE];
    vec![
        test_case("alignment_offset_and_width", needs, places),
        test_case("widths_of_a_stream", needs, widths_of_a_stream),
        test_case("fill_files", needs, fill_files),
        test_case("dirty_data", needs, dirty_data),
        test_case("dirty_counts", &[], dirty_counts),
    ]
}

const RAW: &str = "-e trace=sendto,recvfrom -e raw=sendto,recvfrom";
const SHOWN: &str = "-e trace=sendto,recvfrom -xx -s 64";

/// All four rings of a request/response test, each with its own alignment, offset and width.
fn places() {
    let client =
        "-t TCP_RR -l -20 -a 4096,2048 -o 24,8 -A 8192,1024 -O 40,16 -W 3,2 -- -r 1000,700";
    let calls = both(RAW, "", client);
    for (ring, calls, name, size, alignment, offset, width) in [
        ("requests here", &calls.client, "sendto", 1000, 4096, 24, 3),
        ("responses here", &calls.client, "recvfrom", 700, 2048, 8, 2),
        (
            "requests there",
            &calls.server,
            "recvfrom",
            1000,
            1024,
            16,
            2,
        ),
        ("responses there", &calls.server, "sendto", 700, 8192, 40, 3),
    ] {
        let addresses = addresses(calls, name, size);
        assert_eq!(addresses.len(), width, "{ring}: {addresses:x?}");
        for address in &addresses {
            assert_eq!(address % alignment, offset, "{ring}: {address:x}");
        }
    }
}

/// Of a stream there is one ring at each end; test option -W has the last word on the sender's.
fn widths_of_a_stream() {
    for (client, sends, receives) in [
        ("-W 4,5 -- -m 1000 -M 500", 4, 5),
        ("-W 4,5 -- -m 1000 -M 500 -W 7", 7, 5),
    ] {
        let calls = both(RAW, "", &format!("-t TCP_STREAM -l -50000 {client}"));
        assert_eq!(
            addresses(&calls.client, "sendto", 1000).len(),
            sends,
            "{client}"
        );
        assert_eq!(
            addresses(&calls.server, "recvfrom", 500).len(),
            receives,
            "{client}"
        );
    }
}

/// Each end sends what its file holds, from buffer to buffer, and from its beginning again.
fn fill_files() {
    // The protocol has 31 characters for the name of the peer's.
    let place = tempfile::tempdir_in("/tmp").expect("/tmp is writable");
    let (here, there) = (place.path().join("h"), place.path().join("t"));
    std::fs::write(&here, b"0123456789").unwrap();
    std::fs::write(&there, b"abc").unwrap();
    let server = format!("--allow-fill-dir {}", place.path().display());
    let client = format!(
        "-t TCP_RR -l -6 -W 2,2 -F {},{} -- -r 4,5",
        here.display(),
        there.display()
    );
    let calls = both(SHOWN, &server, &client);
    let requests = received(&calls.server, 4);
    let responses = received(&calls.client, 5);
    // Two buffers, which are filled one after the other and used one after the other.
    assert_eq!(requests[..4], [b"0123", b"4567", b"0123", b"4567"]);
    assert_eq!(responses[..4], [b"abcab", b"cabca", b"abcab", b"cabca"]);

    let (here, there) = (here.display().to_string(), there.display().to_string());
    let line = format!("-t TCP_RR -l -6 -F {here},{there} -- -k LOCAL_FILL_FILE,REMOTE_FILL_FILE");
    let said = finish(&Server::start(&server), &line);
    assert_eq!(
        values(&said, ["LOCAL_FILL_FILE", "REMOTE_FILL_FILE"]),
        [here, there]
    );
}

/// What is touched is told as it was asked for.
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
            values(&finish(&server, &line), NAMES),
            expected,
            "{options}"
        );
    }
}

/// The first bytes of what arrives are others each time, the next ones what they were.
fn dirty_data() {
    let calls = both(SHOWN, "", "-t TCP_RR -l -6 -k 3,9 -K 2 -- -r 12,10");
    for (arrived, dirty) in [
        (received(&calls.server, 12), 3),
        (received(&calls.client, 10), 2),
    ] {
        assert_eq!(arrived.len(), 6);
        let first = &arrived[0];
        for (times, message) in arrived.iter().enumerate() {
            assert_eq!(message[dirty..], first[dirty..], "untouched");
            let changed = message[..dirty]
                .iter()
                .zip(&first[..dirty])
                .all(|(now, then)| *now == then.wrapping_add(times as u8));
            assert!(changed, "{arrived:?}");
        }
        assert_eq!(first[dirty..8], b"netperf\0"[dirty..]);
    }
}

/// Where the data of calls of this name lies, of those that asked for so many bytes.
fn addresses(calls: &[Call], name: &str, size: u64) -> BTreeSet<u64> {
    calls
        .iter()
        .filter(|call| call.name == name && call.number(2) == Some(size))
        .filter_map(|call| call.number(1))
        .collect()
}

/// What each call that asked for so many bytes received.
fn received(calls: &[Call], size: usize) -> Vec<Vec<u8>> {
    calls
        .iter()
        .filter(|call| call.name == "recvfrom" && call.result == size.to_string())
        .map(|call| call.bytes(1))
        .filter(|bytes| bytes.len() == size)
        .collect()
}
