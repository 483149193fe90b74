//! Our implementation of the rules by which harnesses parse uperf's text. Each rule is from
//! k8s-netperf, snafu (benchmark-operator), pbench, crucible, LKP or avocado, as of 2025.

/// A raw sample: text of the time in milliseconds, bytes, operations.
pub(crate) type RawSample<'t> = (&'t str, u64, u64);

/// Matches `timestamp_ms:(.*) name:Txn2 nr_bytes:(.*) nr_ops:(.*)`, followed by `end`.
pub(crate) fn raw_samples<'t>(text: &'t str, name: &str, end: &str) -> Vec<RawSample<'t>> {
    let sample = |line: &'t str| {
        let line = line.strip_suffix(end)?;
        let (_, rest) = line.split_once("timestamp_ms:")?;
        let (time, rest) = rest.split_once(&format!(" name:{name} nr_bytes:"))?;
        let (bytes, operations) = rest.split_once(" nr_ops:")?;
        Some((time, bytes.parse().ok()?, operations.parse().ok()?))
    };
    text.split('\n').filter_map(sample).collect()
}

/// Matches `^timestamp_ms:(\d+)\.\d+\s+name:Txn2\s+nr_bytes:(\d+)\s+nr_ops:(\d+)`.
pub(crate) fn parse_anchored_sample(line: &str, name: &str) -> Option<(u64, u64, u64)> {
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

/// Returns the number in `LABEL\s*:\s*NUMBER`.
pub(crate) fn number_after_label(line: &str, label: &str) -> Option<f64> {
    let (_, rest) = line.split_once(label)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// Returns the words of the first line that starts with the word `first`.
pub(crate) fn words_of<'t>(text: &'t str, first: &str) -> Vec<&'t str> {
    let lines = text.lines().map(|line| line.split_whitespace());
    let mut lines = lines.filter(|words| words.clone().next() == Some(first));
    lines.next().expect(first).collect()
}

/// Returns the percentages that crucible parses. Each must have two decimals.
pub(crate) fn differences(text: &str) -> Vec<f64> {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("Difference(%)"));
    let words = line
        .expect("the text has a line of differences")
        .split_whitespace();
    let percentage = |word: &str| {
        let (integer, decimals) = word
            .strip_suffix('%')
            .expect(word)
            .split_once('.')
            .expect(word);
        assert!(decimals.len() == 2, "{word}");
        format!("{integer}.{decimals}").parse().expect(word)
    };
    words.map(percentage).collect()
}

/// Returns the lines for which crucible reports a failure. Two kinds of lines always contain the
/// word.
pub(crate) fn failure_lines(text: &str) -> Vec<&str> {
    let lines = text.lines();
    lines
        .filter(|line| line.to_lowercase().contains("error"))
        .filter(|line| !line.starts_with("Hostname") && !line.contains("saying goodbye"))
        .collect()
}

/// Returns the fourth word of each line with the peer's address if it is a rate, like avocado.
pub(crate) fn rates_of_peer<'t>(text: &'t str, peer: &str) -> Vec<&'t str> {
    let lines = text.lines().filter(|line| line.contains(peer));
    lines
        .filter_map(|line| line.split_whitespace().nth(3))
        .filter(|word| word.ends_with("b/s"))
        .collect()
}
