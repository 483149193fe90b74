//! Decodes recorded messages of stock iperf 2, and encodes them again.
//!
//! `tests/data/messages.txt` has one message per line: the recorded run, the kind of message, and
//! its bytes in hexadecimal.

use iperf::wire::{
    Acknowledgement, BounceMessage, DatagramHeader, Hello, HelloTransport, MIN_BOUNCE_BYTES,
    ServerReport, flags,
};

/// Returns the messages of a kind, with the name of their run.
fn messages(kind: &str) -> Vec<(&'static str, Vec<u8>)> {
    let lines = include_str!("data/messages.txt").lines();
    let messages = lines.filter_map(|line| {
        let mut words = line.split(' ');
        let (run, found, hex) = (words.next()?, words.next()?, words.next()?);
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).ok();
        let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
        (found == kind).then_some((run, bytes?))
    });
    messages.collect()
}

#[test]
fn stream_headers_round_trip() {
    let all = messages("stream");
    assert!(all.len() > 20);
    for (run, bytes) in all {
        let word = u32::from_be_bytes(bytes[..4].try_into().unwrap());
        let length = Hello::length(word).unwrap();
        let key = Hello::key_length(&bytes[..length]).unwrap();
        assert_eq!(length + key, bytes.len(), "{run}");
        let hello = Hello::decode(&bytes, HelloTransport::Stream).unwrap();
        assert_eq!(
            hello.encode(HelloTransport::Stream),
            bytes,
            "{run}: {hello:?}"
        );
    }
}

#[test]
fn datagram_headers_round_trip() {
    let all = messages("datagram");
    assert!(all.len() > 20);
    for (run, bytes) in all {
        let wide = bytes.len() > 20 && bytes[16] & 0x08 != 0 && bytes[12..16] == [0; 4];
        let header = DatagramHeader::read(&bytes, wide).unwrap();
        let mut again = bytes.clone();
        header.write(&mut again, wide);
        assert_eq!(again, bytes, "{run}");
        // Small datagrams, and those without a header, contain digits.
        let word = u32::from_be_bytes(bytes[16..20].try_into().unwrap());
        if !wide || word & flags::EXTEND == 0 || bytes.len() < 160 {
            continue;
        }
        let hello = Hello::decode(&bytes[16..], HelloTransport::Datagram).unwrap();
        let encoded = hello.encode(HelloTransport::Datagram);
        let mut expected = bytes[16..][..encoded.len()].to_vec();
        // The frame record is a separate message.
        if let Some(frame) = expected.get_mut(60..92) {
            frame.fill(0);
        }
        assert_eq!(encoded, expected, "{run}: {hello:?}");
    }
}

#[test]
fn server_reports_round_trip() {
    let all = messages("report");
    assert!(all.len() > 5);
    for (run, bytes) in all {
        let report = ServerReport::decode(&bytes).unwrap();
        assert_eq!(report.encode().to_vec(), bytes, "{run}: {report:?}");
    }
}

#[test]
fn acknowledgements_round_trip() {
    let all = messages("acknowledgement");
    assert!(all.len() > 1);
    for (run, bytes) in all {
        let decoded = Acknowledgement::decode(&bytes).unwrap();
        assert_eq!(decoded.encode(), bytes, "{run}: {decoded:?}");
    }
}

#[test]
fn bounceback_messages_round_trip() {
    let all = messages("bounce");
    assert!(all.len() > 1);
    for (run, bytes) in all {
        let bounce = BounceMessage::read(&bytes).unwrap();
        assert!(bounce.size >= MIN_BOUNCE_BYTES);
        let mut again = vec![0; bytes.len()];
        bounce.write(&mut again);
        assert_eq!(again, bytes, "{run}: {bounce:?}");
    }
}
