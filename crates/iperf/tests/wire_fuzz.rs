//! Decodes random bytes and modified recorded messages. Nothing may panic, and decoded frame
//! records must survive a round trip.

use iperf::wire::{
    Acknowledgement, BounceMessage, BurstRecord, DatagramHeader, FrameRecord, Hello,
    HelloTransport, ServerReport,
};
use rand::Rng;
use testkit::fuzz;

fn random_message(rng: &mut rand::rngs::SmallRng) -> Vec<u8> {
    let recorded: Vec<&str> = include_str!("data/messages.txt").lines().collect();
    let hex = fuzz::choose(rng, &recorded)
        .rsplit(' ')
        .next()
        .unwrap_or_default();
    let byte = |index: usize| u8::from_str_radix(&hex[index..index + 2], 16).unwrap();
    let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    fuzz::overwrite_randomly(rng, &mut bytes);
    let length = rng.random_range(0..=bytes.len());
    if rng.random_bool(0.2) {
        bytes.truncate(length);
    }
    bytes
}

#[test]
fn any_message_is_decoded_or_refused() {
    fuzz::run_inputs("messages", 1..=99, |rng| {
        let bytes = random_message(rng);
        if let Some(word) = bytes.first_chunk() {
            let length = Hello::length(u32::from_be_bytes(*word)).unwrap_or(0);
            assert!(length <= 255);
            let _ = Hello::key_length(&bytes[..length.min(bytes.len())]);
        }
        for wide in [true, false] {
            let _ = DatagramHeader::read(&bytes, wide);
        }
        let _ = (BounceMessage::read(&bytes), Acknowledgement::decode(&bytes));
        if let Some(record) = FrameRecord::read(&bytes) {
            let mut encoded = bytes.clone();
            record.write(&mut encoded);
            assert_eq!(FrameRecord::read(&encoded), Some(record));
        }
        if let Some(bytes) = bytes.first_chunk() {
            let _ = BurstRecord::read(bytes);
        }
        if let Some(report) = ServerReport::decode(&bytes) {
            let _ = report.encode();
        }
        let mut is_decoded = false;
        for transport in [HelloTransport::Stream, HelloTransport::Datagram] {
            if let Ok(hello) = Hello::decode(&bytes, transport) {
                let encoded = hello.encode(transport);
                is_decoded |= Hello::decode(&encoded, transport).is_ok();
            }
        }
        is_decoded
    });
}
