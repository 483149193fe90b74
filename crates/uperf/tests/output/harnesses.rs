//! What harnesses pick out of uperf's text.

use crate::rules::{
    anchored, behind, differences, rates_beside, raw_samples, suspicious, words_of,
};
use crate::sample::{latencies, printed};

const K8S: &str = "-v -a -R -i 1";

#[test]
fn k8s_netperf_takes_samples_from_terminals_and_pipes() {
    let piped = printed(K8S);
    // A terminal makes CR LF of the line end, and the rule wants the CR.
    let terminal = piped.replace('\n', "\r\n");
    let samples = raw_samples(&piped, "Txn2", "");
    assert_eq!(samples, raw_samples(&terminal, "Txn2", "\r"));
    assert_eq!(
        samples,
        [
            ("1795211142697.1262", 1_000_000, 501),
            ("1795211143697.1262", 2_000_000, 1001),
            ("1795211144697.1262", 3_000_000, 1501),
        ]
    );
    // Its means are of the differences.
    let bytes: Vec<_> = samples
        .windows(2)
        .map(|pair| pair[1].1 - pair[0].1)
        .collect();
    assert_eq!(bytes, [1_000_000; 2]);
}

#[test]
fn k8s_netperf_finds_three_latencies() {
    let text = printed(&format!("{K8S} -H stdout"));
    let found = |label| {
        let mut values = text.lines().filter_map(|line| behind(line, label));
        (values.next(), values.next())
    };
    let times = latencies();
    let microseconds = |percent| {
        let time = times.percentile(percent).expect("times");
        Some(time.as_nanos() as f64 / 1000.0)
    };
    assert_eq!(found("Average"), (Some(50.5), None));
    assert_eq!(found("50th"), (microseconds(50.0), None));
    assert_eq!(found("99th"), (microseconds(99.0), None));
    let without = printed(K8S);
    assert!(without.lines().all(|line| behind(line, "99th").is_none()));
}

#[test]
fn snafu_finds_the_profile_and_the_samples() {
    let text = printed(K8S);
    let (_, rest) = text.split_once("running profile:").unwrap();
    let (name, _) = rest.split_once(" ...").unwrap();
    assert_eq!(name.split('-').count(), 5);
    assert_eq!(raw_samples(&text, "Txn2", "").len(), 3);
    assert_eq!(raw_samples(&text, "Txn1", "").len(), 1);
}

#[test]
fn pbench_and_crucible_want_whole_lines_with_a_fraction() {
    let text = printed("-v -R -a -i 1");
    let samples: Vec<_> = text
        .lines()
        .filter_map(|line| anchored(line, "Txn2"))
        .collect();
    assert_eq!(samples.len(), 3);
    assert_eq!(samples[2], (1_795_211_144_697, 3_000_000, 1501));
    // None but the measured transactions has such a name.
    let named = text.matches("name:Txn2").count();
    assert_eq!(named, 3);
}

#[test]
fn crucible_finds_the_differences() {
    for options in ["-R", "-R -tTfa", ""] {
        let figures = differences(&printed(options));
        assert_eq!(figures, [-0.02, 0.0, 0.02, 0.0, 0.0], "{options}");
    }
}

#[test]
fn crucible_sees_no_failure() {
    for options in ["-R", "-R -v -tTfa", "-a -e -p", "-R -H stdout", "-n -a"] {
        let text = printed(options);
        assert_eq!(suspicious(&text), [""; 0], "{options}");
    }
}

/// Lines between the titles and the rules, word by word.
#[test]
fn lkp_finds_interfaces_and_hosts() {
    let text = printed("");
    let (_, rest) = text
        .split_once("Netstat statistics for this run\n")
        .unwrap();
    let (interfaces, rest) = rest.split_once("Run Statistics\n").unwrap();
    let words = words_of(interfaces, "lo");
    assert_eq!(words, ["lo", "2000", "2000", "6.40Mb/s", "6.40Mb/s"]);
    let words = words_of(rest, "master");
    assert_eq!(
        words,
        ["master", "5.00s", "2.86MB", "4.80Mb/s", "1503", "0.00"]
    );
}

#[test]
fn avocado_finds_the_rate() {
    let text = printed("-a");
    assert_eq!(rates_beside(&text, "127.0.0.1"), ["4.80Mb/s"]);
}

/// Whatever begins with the stamp is a sample, and our own lines are none.
#[test]
fn no_line_of_our_own_is_taken_for_another() {
    let text = printed(&format!("{K8S} -H stdout -e"));
    let (_, own) = text.split_once("\nOver active time\n").unwrap();
    for mark in [
        "timestamp_ms",
        "Txn",
        "Total",
        "master",
        "127.0.0.1",
        "Difference",
    ] {
        assert!(!own.contains(mark), "{mark}: {own}");
    }
}
