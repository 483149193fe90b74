//! Hostile bytes for every decoder: none panics, and what was decoded survives another round.
//!
//! `FUZZ_ITERATIONS` sets how many inputs each decoder gets (default 20,000). The inputs are the
//! same in every run and on every host.

#[expect(dead_code, reason = "only the test of the transcripts needs all of it")]
mod data;

use std::ops::RangeInclusive;

use netperf::wire::{
    CalibrateResponse, Capability, DatagramResponse, DatagramResults, DetailsResponse,
    DgRrResponse, DgStreamResponse, DgStreamResults, DlResponse, DlTransactionResults,
    DlclRrResponse, DlclStreamResults, DlcoStreamResponse, DlcoStreamResults, Frame, MESSAGE_LEN,
    OmniResponse, OmniResults, Request, Sctp, StreamResponse, StreamResults, StreamRrResponse,
    StreamStreamResponse, StreamStreamResults, SysInfo, TransactionResponse, TransactionResults,
    UnixTransactionResults,
};
use testkit::fuzz::{INPUTS, check};

#[test]
fn requests() {
    // All that are known, and one that is not.
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
        // Also what a consumer might do with it.
        let _ = format!("{received:?}");
        if let Request::Omni(request) = &received.request {
            let _ = request.client_address.ip(request.family);
        }
        Some(received.request.encode(received.cpu))
    });
}

type SctpStreamResponse = Sctp<StreamResponse>;
type SctpTransactionResponse = Sctp<TransactionResponse>;

macro_rules! replies {
    ($($test:ident: $reply:ident($($request:literal)?),)+) => {$(
        #[test]
        fn $test() {
            fuzz(stringify!($reply), &[], 90..=96, |frame| {
                let reply = $reply::decode(frame).ok()?;
                let _ = format!("{reply:?}");
                Some(reply.encode($($request)?))
            });
        }
    )+};
}

replies! {
    omni_responses: OmniResponse(),
    omni_results: OmniResults(),
    stream_responses: StreamResponse(10),
    stream_results: StreamResults(10),
    transaction_responses: TransactionResponse(13),
    transaction_results: TransactionResults(13),
    datagram_responses: DatagramResponse(),
    datagram_results: DatagramResults(),
    calibrate_responses: CalibrateResponse(),
    stream_stream_responses: StreamStreamResponse(),
    stream_stream_results: StreamStreamResults(),
    stream_rr_responses: StreamRrResponse(),
    unix_transaction_results: UnixTransactionResults(40),
    dg_stream_responses: DgStreamResponse(),
    dg_stream_results: DgStreamResults(),
    dg_rr_responses: DgRrResponse(),
    sctp_stream_responses: SctpStreamResponse(500),
    sctp_transaction_responses: SctpTransactionResponse(520),
    dlco_stream_responses: DlcoStreamResponse(22),
    dlco_stream_results: DlcoStreamResults(22),
    dl_responses: DlResponse(25),
    dl_transaction_results: DlTransactionResults(25),
    dlcl_stream_results: DlclStreamResults(28),
    dlcl_rr_responses: DlclRrResponse(31),
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
    let mut noise = Noise(3);
    fuzz(
        "Capability with a changed byte",
        &[97, 98],
        0..=0,
        |frame| {
            for (capability, length) in [(plain, 36), (with_nonce, 52)] {
                let mut frame = *frame;
                capability.put(&mut frame);
                assert_eq!(Capability::find(&frame), Some(capability));
                frame[216 + noise.below(length)] ^= noise.byte().max(1);
                assert_eq!(Capability::find(&frame), None);
            }
            None
        },
    );
    fuzz("SysInfo", &[601], 90..=96, |frame| {
        Some(SysInfo::decode(frame).ok()?.encode())
    });
    fuzz("Capability in noise", &[97, 98], 0..=0, |frame| {
        assert_eq!(Capability::find(frame), None);
        None
    });
}

/// Decodes and encodes hostile frames by `again`, which is `None` for what cannot be decoded; as many
/// percent can. `kinds` are types to begin with; none leaves the type alone.
fn fuzz(
    decoder: &str,
    kinds: &[i32],
    percent: RangeInclusive<u64>,
    mut again: impl FnMut(&Frame) -> Option<Frame>,
) {
    let iterations = std::env::var("FUZZ_ITERATIONS")
        .map_or(INPUTS, |count| count.parse().expect("FUZZ_ITERATIONS"));
    let recorded: Vec<Frame> = data::connections()
        .into_iter()
        .flat_map(|connection| connection.messages)
        .map(|message| message.frame)
        .collect();

    let mut noise = Noise(0x6C69_6E65_7261_7465);
    let mut understood = 0_u64;
    for iteration in 0..iterations {
        let frame = hostile_frame(&mut noise, &recorded, kinds);
        let Some(once) = again(&frame) else { continue };
        understood += 1;
        let twice = again(&once);
        assert_eq!(twice, Some(once), "{decoder}, iteration {iteration}");
    }
    check(decoder, iterations, understood, &percent);
}

fn hostile_frame(noise: &mut Noise, recorded: &[Frame], kinds: &[i32]) -> Frame {
    let mut frame = recorded[noise.below(recorded.len())];
    match noise.below(4) {
        0 => frame = noise.frame(),
        // A few changed bytes …
        1 => {
            for _ in 0..=noise.below(8) {
                frame[noise.below(MESSAGE_LEN)] = noise.byte();
            }
        }
        // … words at the ends of their range …
        2 => {
            for _ in 0..=noise.below(4) {
                let ends = [0, 1, -1, i32::MAX, i32::MIN, 0x7fc0_0000, 0x7f80_0000];
                let word = ends[noise.below(ends.len())].to_be_bytes();
                let at = 4 * noise.below(MESSAGE_LEN / 4);
                frame[at..at + 4].copy_from_slice(&word);
            }
        }
        // … and texts that do not end, or end early, or are no UTF-8.
        _ => {
            let byte = [b'x', 0xff, 0xc3, 0][noise.below(4)];
            let start = noise.below(MESSAGE_LEN);
            let len = noise.below(MESSAGE_LEN - start);
            frame[start..start + len].fill(byte);
        }
    }
    // Nearly all noise has a type that nobody knows and an error number: most of it shall come
    // further than that.
    if !kinds.is_empty() && noise.below(8) != 0 {
        frame[..4].copy_from_slice(&kinds[noise.below(kinds.len())].to_be_bytes());
    }
    if noise.below(8) != 0 {
        frame[4..8].fill(0);
    }
    frame
}

/// Marsaglia's xorshift64* generator.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`, which is small.
    fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }

    fn byte(&mut self) -> u8 {
        (self.next() >> 56) as u8
    }

    fn frame(&mut self) -> Frame {
        let mut frame = [0; MESSAGE_LEN];
        for bytes in frame.chunks_exact_mut(8) {
            bytes.copy_from_slice(&self.next().to_le_bytes());
        }
        frame
    }
}
