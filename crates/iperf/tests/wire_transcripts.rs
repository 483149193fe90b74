//! Messages of stock iperfs, decoded and encoded again. `tests/data/messages.txt` has one on each line: the recorded
//! run, what the message is, and its bytes.

use iperf::wire::{
    Acknowledgement, Bounce, DatagramHeader, Hello, Over, SHORTEST_BOUNCE, ServerReport, flags,
};

/// The messages of a kind, with the name of their run.
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
fn headers_of_streams_come_back() {
    let all = messages("stream");
    assert!(all.len() > 20);
    for (run, bytes) in all {
        let word = u32::from_be_bytes(bytes[..4].try_into().unwrap());
        let length = Hello::length(word).unwrap();
        let key = Hello::key_length(&bytes[..length]).unwrap();
        assert_eq!(length + key, bytes.len(), "{run}");
        let hello = Hello::decode(&bytes, Over::Stream).unwrap();
        assert_eq!(hello.encode(Over::Stream), bytes, "{run}: {hello:?}");
    }
}

#[test]
fn headers_of_datagrams_come_back() {
    let all = messages("datagram");
    assert!(all.len() > 20);
    for (run, bytes) in all {
        let wide = bytes.len() > 20 && bytes[16] & 0x08 != 0 && bytes[12..16] == [0; 4];
        let header = DatagramHeader::read(&bytes, wide).unwrap();
        let mut again = bytes.clone();
        header.write(&mut again, wide);
        assert_eq!(again, bytes, "{run}");
        // Tiny datagrams, and those without a header, have digits.
        let word = u32::from_be_bytes(bytes[16..20].try_into().unwrap());
        if !wide || word & flags::EXTEND == 0 || bytes.len() < 160 {
            continue;
        }
        let hello = Hello::decode(&bytes[16..], Over::Datagram).unwrap();
        let encoded = hello.encode(Over::Datagram);
        let mut expected = bytes[16..][..encoded.len()].to_vec();
        // The record of a frame is another message.
        if let Some(frame) = expected.get_mut(60..92) {
            frame.fill(0);
        }
        assert_eq!(encoded, expected, "{run}: {hello:?}");
    }
}

#[test]
fn reports_come_back() {
    let all = messages("report");
    assert!(all.len() > 5);
    for (run, bytes) in all {
        let report = ServerReport::decode(&bytes).unwrap();
        assert_eq!(report.encode().to_vec(), bytes, "{run}: {report:?}");
    }
}

#[test]
fn acknowledgements_come_back() {
    let all = messages("acknowledgement");
    assert!(all.len() > 1);
    for (run, bytes) in all {
        let decoded = Acknowledgement::decode(&bytes).unwrap();
        assert_eq!(decoded.encode(), bytes, "{run}: {decoded:?}");
    }
}

#[test]
fn bounces_come_back() {
    let all = messages("bounce");
    assert!(all.len() > 1);
    for (run, bytes) in all {
        let bounce = Bounce::read(&bytes).unwrap();
        assert!(bounce.size >= SHORTEST_BOUNCE);
        let mut again = vec![0; bytes.len()];
        bounce.write(&mut again);
        assert_eq!(again, bytes, "{run}: {bounce:?}");
    }
}
