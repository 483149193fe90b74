//! Fuzz test with damaged histograms and logs: no input causes a panic, and each parsed value can be
//! encoded and parsed again.
//!
//! `testkit::fuzz` describes the number of inputs and how to repeat a failure.

use std::time::Duration;

use stats::Histogram;
use stats::log::{LogInterval, format_log, parse_log};
use testkit::fuzz::{choose, damage, run_one_in};

#[test]
fn encoded_histograms() {
    let valid = [sample().to_v2(), sample().to_compressed_v2()];
    run_one_in("histograms", 4, 40..=50, |rng| {
        let encoding = choose(rng, &valid);
        let bytes = damage(rng, encoding);
        let Ok(times) = Histogram::from_any_v2(&bytes) else {
            return false;
        };
        let decoded_again = Histogram::from_v2(&times.to_v2()).expect("an encoded histogram");
        assert_eq!(decoded_again.len(), times.len());
        let _ = (times.summary(), times.percentile(99.9));
        true
    });
}

#[test]
fn json_histograms() {
    let valid = serde_json::to_vec(&sample()).expect("a histogram has a JSON form");
    run_one_in("documents", 4, 28..=38, |rng| {
        let Ok(times) = serde_json::from_slice::<Histogram>(&damage(rng, &valid)) else {
            return false;
        };
        let _ = (times.summary(), times.percentile(50.0));
        true
    });
}

#[test]
fn logs() {
    let interval = |tag: Option<&str>| LogInterval {
        tag: tag.map(str::to_owned),
        started: Duration::from_secs(1_700_000_000),
        length: Duration::from_millis(1_003),
        times: sample(),
    };
    let valid = format_log(&[interval(Some("TCP_RR")), interval(None)]).into_bytes();
    run_one_in("logs", 4, 26..=36, |rng| {
        let text = String::from_utf8_lossy(&damage(rng, &valid)).into_owned();
        let Ok(intervals) = parse_log(&text) else {
            return false;
        };
        let parsed_again = parse_log(&format_log(&intervals)).expect("a formatted log");
        assert_eq!(parsed_again.len(), intervals.len());
        true
    });
}

fn sample() -> Histogram {
    let mut times = Histogram::default();
    (1..300_u64).for_each(|n| times.record(n * n * n));
    times
}
