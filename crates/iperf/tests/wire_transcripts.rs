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
        let mut fields = line.split(' ');
        let (run, message_kind, hex) = (fields.next()?, fields.next()?, fields.next()?);
        let byte = |index: usize| u8::from_str_radix(&hex[index..index + 2], 16).ok();
        let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
        (message_kind == kind).then_some((run, bytes?))
    });
    messages.collect()
}

#[test]
fn stream_headers_round_trip() {
    let recorded = messages("stream");
    assert!(recorded.len() > 20);
    for (run, bytes) in recorded {
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
    let recorded = messages("datagram");
    assert!(recorded.len() > 20);
    for (run, bytes) in recorded {
        let wide = bytes.len() > 20 && bytes[16] & 0x08 != 0 && bytes[12..16] == [0; 4];
        let header = DatagramHeader::read(&bytes, wide).unwrap();
        let mut encoded = bytes.clone();
        header.write(&mut encoded, wide);
        assert_eq!(encoded, bytes, "{run}");
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
    let recorded = messages("report");
    assert!(recorded.len() > 5);
    for (run, bytes) in recorded {
        let report = ServerReport::decode(&bytes).unwrap();
        assert_eq!(report.encode().to_vec(), bytes, "{run}: {report:?}");
    }
}

#[test]
fn acknowledgements_round_trip() {
    let recorded = messages("acknowledgement");
    assert!(recorded.len() > 1);
    for (run, bytes) in recorded {
        let decoded = Acknowledgement::decode(&bytes).unwrap();
        assert_eq!(decoded.encode(), bytes, "{run}: {decoded:?}");
    }
}

#[test]
fn bounceback_messages_round_trip() {
    let recorded = messages("bounce");
    assert!(recorded.len() > 1);
    for (run, bytes) in recorded {
        let bounce = BounceMessage::read(&bytes).unwrap();
        assert!(bounce.size >= MIN_BOUNCE_BYTES);
        let mut encoded = vec![0; bytes.len()];
        bounce.write(&mut encoded);
        assert_eq!(encoded, bytes, "{run}: {bounce:?}");
    }
}
