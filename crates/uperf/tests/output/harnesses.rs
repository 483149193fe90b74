//! Checks that harnesses find their values in uperf's text.

use crate::harness_parsers::{
    differences, failure_lines, number_after_label, parse_anchored_sample, rates_of_peer,
    raw_samples, words_of,
};
use crate::sample::{latencies, master_output};

const K8S: &str = "-v -a -R -i 1";

#[test]
fn k8s_netperf_parses_samples_from_terminals_and_pipes() {
    let piped = master_output(K8S);
    // A terminal turns each line end into CR LF. The harness requires the CR from a terminal.
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
    // k8s-netperf averages the differences between samples.
    let bytes_per_interval: Vec<_> = samples
        .windows(2)
        .map(|pair| pair[1].1 - pair[0].1)
        .collect();
    assert_eq!(bytes_per_interval, [1_000_000; 2]);
}

#[test]
fn k8s_netperf_finds_three_latencies() {
    let text = master_output(&format!("{K8S} -H stdout"));
    let find_values = |label| {
        let mut values = text
            .lines()
            .filter_map(|line| number_after_label(line, label));
        (values.next(), values.next())
    };
    let latencies = latencies();
    let microseconds = |percent| {
        let latency = latencies
            .percentile(percent)
            .expect("the histogram is not empty");
        Some(latency.as_nanos() as f64 / 1000.0)
    };
    assert_eq!(find_values("Average"), (Some(50.5), None));
    assert_eq!(find_values("50th"), (microseconds(50.0), None));
    assert_eq!(find_values("99th"), (microseconds(99.0), None));
    let text = master_output(K8S);
    assert!(
        text.lines()
            .all(|line| number_after_label(line, "99th").is_none())
    );
}

#[test]
fn snafu_finds_profile_and_samples() {
    let text = master_output(K8S);
    let (_, rest) = text.split_once("running profile:").unwrap();
    let (name, _) = rest.split_once(" ...").unwrap();
    assert_eq!(name.split('-').count(), 5);
    assert_eq!(raw_samples(&text, "Txn2", "").len(), 3);
    assert_eq!(raw_samples(&text, "Txn1", "").len(), 1);
}

#[test]
fn pbench_and_crucible_parse_raw_lines_with_fraction() {
    let text = master_output("-v -R -a -i 1");
    let samples: Vec<_> = text
        .lines()
        .filter_map(|line| parse_anchored_sample(line, "Txn2"))
        .collect();
    assert_eq!(samples.len(), 3);
    assert_eq!(samples[2], (1_795_211_144_697, 3_000_000, 1501));
    // Only the samples of that transaction have this name.
    let count = text.matches("name:Txn2").count();
    assert_eq!(count, 3);
}

#[test]
fn crucible_finds_differences() {
    for options in ["-R", "-R -tTfa", ""] {
        let figures = differences(&master_output(options));
        assert_eq!(figures, [-0.02, 0.0, 0.02, 0.0, 0.0], "{options}");
    }
}

#[test]
fn crucible_finds_no_failure() {
    for options in ["-R", "-R -v -tTfa", "-a -e -p", "-R -H stdout", "-n -a"] {
        let text = master_output(options);
        assert_eq!(failure_lines(&text), [""; 0], "{options}");
    }
}

/// LKP splits the lines below each title into words.
#[test]
fn lkp_finds_interfaces_and_hosts() {
    let text = master_output("");
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
fn avocado_finds_rate() {
    let text = master_output("-a");
    assert_eq!(rates_of_peer(&text, "127.0.0.1"), ["4.80Mb/s"]);
}

/// Harnesses take every line with one of these words for a stock line.
#[test]
fn own_lines_match_no_harness_rule() {
    let text = master_output(&format!("{K8S} -H stdout -e"));
    let (_, own) = text.split_once("\nOver active time\n").unwrap();
    for word in [
        "timestamp_ms",
        "Txn",
        "Total",
        "master",
        "127.0.0.1",
        "Difference",
    ] {
        assert!(!own.contains(word), "{word}: {own}");
    }
}
