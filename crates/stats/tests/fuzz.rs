//! Damaged histograms and logs: none panics, and what was read survives another round.
//!
//! See `testkit::fuzz` for how many inputs, and how a failure is repeated.

use std::time::Duration;

use stats::Histogram;
use stats::log::{Interval, read, write};
use testkit::fuzz::{damaged, fewer, one_of};

#[test]
fn encoded_histograms() {
    let good = [sample().to_v2(), sample().to_compressed_v2()];
    fewer("histograms", 4, 40..=50, |rng| {
        let form = one_of(rng, &good);
        let bytes = damaged(rng, form);
        let Ok(times) = Histogram::from_any_v2(&bytes) else {
            return false;
        };
        let again = Histogram::from_v2(&times.to_v2()).expect("it is our own");
        assert_eq!(again.len(), times.len());
        let _ = (times.summary(), times.percentile(99.9));
        true
    });
}

#[test]
fn histograms_of_documents() {
    let good = serde_json::to_vec(&sample()).expect("a histogram has a document");
    fewer("documents", 4, 28..=38, |rng| {
        let Ok(times) = serde_json::from_slice::<Histogram>(&damaged(rng, &good)) else {
            return false;
        };
        let _ = (times.summary(), times.percentile(50.0));
        true
    });
}

#[test]
fn logs() {
    let interval = |tag: Option<&str>| Interval {
        tag: tag.map(str::to_owned),
        started: Duration::from_secs(1_700_000_000),
        length: Duration::from_millis(1_003),
        times: sample(),
    };
    let good = write(&[interval(Some("TCP_RR")), interval(None)]).into_bytes();
    fewer("logs", 4, 26..=36, |rng| {
        let text = String::from_utf8_lossy(&damaged(rng, &good)).into_owned();
        let Ok(intervals) = read(&text) else {
            return false;
        };
        let again = read(&write(&intervals)).expect("it is our own");
        assert_eq!(again.len(), intervals.len());
        true
    });
}

fn sample() -> Histogram {
    let mut times = Histogram::default();
    (1..300_u64).for_each(|n| times.record(n * n * n));
    times
}
