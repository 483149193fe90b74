//! Hostile bytes for every decoder: none panics, and each decoded message survives a round trip.
//!
//! `testkit::fuzz` documents the number of inputs per decoder and how to repeat a failure.

#[expect(dead_code, reason = "only wire_transcripts uses all items")]
mod data;

use std::ops::RangeInclusive;

use netperf::wire::{
    CalibrateResponse, Capability, Classic, DetailsResponse, Frame, OMNI, Request, SysInfo,
};
use rand::Rng;
use rand::rngs::SmallRng;
use testkit::fuzz::{check_round_trip, choose, overwrite_randomly, run_inputs};

#[test]
fn requests() {
    // All known types, and an unknown one.
    let kinds = [
        22,
        25,
        28,
        31,
        37,
        40,
        43,
        46,
        500,
        510,
        520,
        530,
        1,
        2,
        4,
        5,
        6,
        10,
        13,
        16,
        19,
        34,
        94,
        97,
        300,
        600,
        0x6C72_0001,
        98,
    ];
    fuzz("Request", &kinds, 100..=100, |frame| {
        let received = Request::decode(frame);
        // A consumer may also format the request and read its address.
        let _ = format!("{received:?}");
        if let Request::Omni(request) = &received.request {
            let _ = request.client_address.ip(request.family);
        }
        Some(received.request.encode(received.cpu))
    });
}

#[test]
fn calibrate_responses() {
    fuzz("CalibrateResponse", &[], 90..=96, |frame| {
        let reply = CalibrateResponse::decode(frame).ok()?;
        let _ = format!("{reply:?}");
        Some(reply.encode())
    });
}

#[test]
fn responses_and_results_of_tests() {
    let classic = Classic::all().map(|test| (format!("{test:?}"), test.messages()));
    for (name, test) in classic.chain([("Omni".to_owned(), &OMNI)]) {
        fuzz(&format!("response of {name}"), &[], 90..=96, |frame| {
            let response = test.parse_response(frame).ok()?;
            let _ = format!("{response:?}");
            Some(test.encode_response(&response))
        });
        fuzz(&format!("results of {name}"), &[], 90..=96, |frame| {
            let results = test.parse_results(frame).ok()?;
            let _ = format!("{results:?}");
            Some(test.encode_results(&results))
        });
    }
}

#[test]
fn details_responses() {
    fuzz("DetailsResponse", &[0x6C72_0002], 38..=50, |frame| {
        Some(DetailsResponse::decode(frame).ok()?.encode())
    });
}

#[test]
fn capabilities() {
    let plain = Capability {
        features: Capability::DETAILS,
        host: [7; 16],
        nonce: None,
    };
    let with_nonce = Capability {
        nonce: Some([8; 16]),
        ..plain
    };
    let recorded = recorded_frames();
    run_inputs("Capability with a changed byte", 0..=0, |rng| {
        for (capability, length) in [(plain, 36), (with_nonce, 52)] {
            let mut frame = hostile_frame(rng, &recorded, &[97, 98]);
            capability.write_into(&mut frame);
            assert_eq!(Capability::find(&frame), Some(capability));
            frame[216 + rng.random_range(0..length)] ^= rng.random_range(1..=255);
            assert_eq!(Capability::find(&frame), None);
        }
        false
    });
    fuzz("SysInfo", &[601], 90..=96, |frame| {
        Some(SysInfo::decode(frame).ok()?.encode())
    });
    fuzz("Capability in noise", &[97, 98], 0..=0, |frame| {
        assert_eq!(Capability::find(frame), None);
        None
    });
}

/// Decodes and encodes hostile frames with `reencode`, which returns `None` if decoding fails.
/// `percent` is the expected share of decodable frames. Most frames get a type from `kinds`, unless
/// it is empty.
fn fuzz(
    decoder: &str,
    kinds: &[i32],
    percent: RangeInclusive<u64>,
    reencode: impl Fn(&Frame) -> Option<Frame>,
) {
    let recorded = recorded_frames();
    run_inputs(decoder, percent, |rng| {
        check_round_trip(&hostile_frame(rng, &recorded, kinds), &reencode)
    });
}

fn recorded_frames() -> Vec<Frame> {
    let connections = data::connections().into_iter();
    let messages = connections.flat_map(|connection| connection.messages);
    messages.map(|message| message.frame).collect()
}

fn hostile_frame(rng: &mut SmallRng, recorded: &[Frame], kinds: &[i32]) -> Frame {
    let mut frame = *choose(rng, recorded);
    if rng.random_bool(0.25) {
        rng.fill(&mut frame);
    }
    overwrite_randomly(rng, &mut frame);
    // Random bytes nearly always have an unknown type and an error number. Most frames must pass
    // these two checks.
    if !kinds.is_empty() && rng.random_bool(0.9) {
        frame[..4].copy_from_slice(&choose(rng, kinds).to_be_bytes());
    }
    if rng.random_bool(0.9) {
        frame[4..8].fill(0);
    }
    frame
}
