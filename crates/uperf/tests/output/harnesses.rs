//! What harnesses pick out of uperf's text, in our own form: each rule below is one of k8s-netperf,
//! snafu (benchmark-operator), pbench, crucible, LKP or avocado, as of 2025.

use crate::sample::printed;

/// A sample of a raw line: time in milliseconds as it is written, bytes, operations.
type Raw<'t> = (&'t str, u64, u64);

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
    assert_eq!(found("Average"), (Some(12.345), None));
    assert_eq!(found("50th"), (Some(11.0), None));
    assert_eq!(found("99th"), (Some(98.765), None));
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

/// Five percentages with two decimals each.
#[test]
fn crucible_finds_the_differences() {
    for options in ["-R", "-R -tTfa", ""] {
        let text = printed(options);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Difference(%)"))
            .unwrap();
        let figures: Vec<f64> = line
            .split_whitespace()
            .map(|word| {
                let (whole, decimals) = word.strip_suffix('%').unwrap().split_once('.').unwrap();
                assert!(decimals.len() == 2, "{word}");
                format!("{whole}.{decimals}").parse().unwrap()
            })
            .collect();
        assert_eq!(figures, [-0.02, 0.0, 0.02, 0.0, 0.0], "{options}");
    }
}

/// It takes a run for a failure whose text has this word, but for two lines that always have it.
#[test]
fn crucible_sees_no_failure() {
    for options in ["-R", "-R -v -tTfa", "-a -e -p", "-R -H stdout", "-n -a"] {
        let text = printed(options);
        let suspicious: Vec<_> = text
            .lines()
            .filter(|line| line.to_lowercase().contains("error"))
            .filter(|line| !line.starts_with("Hostname") && !line.contains("saying goodbye"))
            .collect();
        assert_eq!(suspicious, [""; 0], "{options}");
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

/// In lines that have the peer's address, the fourth word is a rate.
#[test]
fn avocado_finds_the_rate() {
    let text = printed("-a");
    let rates: Vec<_> = text
        .lines()
        .filter(|line| line.contains("127.0.0.1"))
        .map(|line| line.split_whitespace().nth(3).unwrap())
        .collect();
    assert_eq!(rates, ["4.80Mb/s"]);
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

/// `timestamp_ms:(.*) name:Txn2 nr_bytes:(.*) nr_ops:(.*)`, with what has to follow.
fn raw_samples<'t>(text: &'t str, name: &str, end: &str) -> Vec<Raw<'t>> {
    let sample = |line: &'t str| {
        let line = line.strip_suffix(end)?;
        let (_, rest) = line.split_once("timestamp_ms:")?;
        let (time, rest) = rest.split_once(&format!(" name:{name} nr_bytes:"))?;
        let (bytes, operations) = rest.split_once(" nr_ops:")?;
        Some((time, bytes.parse().ok()?, operations.parse().ok()?))
    };
    text.split('\n').filter_map(sample).collect()
}

/// `^timestamp_ms:(\d+)\.\d+\s+name:Txn2\s+nr_bytes:(\d+)\s+nr_ops:(\d+)`.
fn anchored(line: &str, name: &str) -> Option<(u64, u64, u64)> {
    let mut words = line.split_whitespace();
    let (milliseconds, fraction) = words
        .next()?
        .strip_prefix("timestamp_ms:")?
        .split_once('.')?;
    fraction.parse::<u64>().ok()?;
    if words.next()?.strip_prefix("name:")? != name {
        return None;
    }
    let bytes = words.next()?.strip_prefix("nr_bytes:")?;
    let operations = words.next()?.strip_prefix("nr_ops:")?;
    Some((
        milliseconds.parse().ok()?,
        bytes.parse().ok()?,
        operations.parse().ok()?,
    ))
}

/// The number in `LABEL\s*:\s*NUMBER`.
fn behind(line: &str, label: &str) -> Option<f64> {
    let (_, rest) = line.split_once(label)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

fn words_of<'t>(text: &'t str, first: &str) -> Vec<&'t str> {
    let lines = text.lines().map(|line| line.split_whitespace());
    let mut lines = lines.filter(|words| words.clone().next() == Some(first));
    lines.next().expect(first).collect()
}
