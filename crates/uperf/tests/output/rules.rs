//! How harnesses read uperf's text, in our own form: each rule below is one of k8s-netperf, snafu
//! (benchmark-operator), pbench, crucible, LKP or avocado, as of 2025.

/// A sample of a raw line: time in milliseconds as it is written, bytes, operations.
pub(crate) type Raw<'t> = (&'t str, u64, u64);

/// `timestamp_ms:(.*) name:Txn2 nr_bytes:(.*) nr_ops:(.*)`, with what has to follow.
pub(crate) fn raw_samples<'t>(text: &'t str, name: &str, end: &str) -> Vec<Raw<'t>> {
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
pub(crate) fn anchored(line: &str, name: &str) -> Option<(u64, u64, u64)> {
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
pub(crate) fn behind(line: &str, label: &str) -> Option<f64> {
    let (_, rest) = line.split_once(label)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

pub(crate) fn words_of<'t>(text: &'t str, first: &str) -> Vec<&'t str> {
    let lines = text.lines().map(|line| line.split_whitespace());
    let mut lines = lines.filter(|words| words.clone().next() == Some(first));
    lines.next().expect(first).collect()
}

/// crucible: five percentages with two decimals each.
pub(crate) fn differences(text: &str) -> Vec<f64> {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("Difference(%)"));
    let words = line.expect("a line of differences").split_whitespace();
    let figure = |word: &str| {
        let (whole, decimals) = word
            .strip_suffix('%')
            .expect(word)
            .split_once('.')
            .expect(word);
        assert!(decimals.len() == 2, "{word}");
        format!("{whole}.{decimals}").parse().expect(word)
    };
    words.map(figure).collect()
}

/// crucible takes a run for a failure whose text has this word, but for two lines that always have it.
pub(crate) fn suspicious(text: &str) -> Vec<&str> {
    let lines = text.lines();
    lines
        .filter(|line| line.to_lowercase().contains("error"))
        .filter(|line| !line.starts_with("Hostname") && !line.contains("saying goodbye"))
        .collect()
}

/// avocado: in lines that have the peer's address, the fourth word, if it is a rate.
pub(crate) fn rates_beside<'t>(text: &'t str, peer: &str) -> Vec<&'t str> {
    let lines = text.lines().filter(|line| line.contains(peer));
    lines
        .filter_map(|line| line.split_whitespace().nth(3))
        .filter(|word| word.ends_with("b/s"))
        .collect()
}
