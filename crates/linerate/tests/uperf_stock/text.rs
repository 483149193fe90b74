//! Texts of two programs, without their figures and without what one of them says of its own ways.

/// What stock says of how it works, each to the end of its line: `docs/differences.md`.
const STOCKS_WAYS: [&str; 6] = [
    "Unable to increase file descriptors",
    "Allocating shared memory",
    "Master: Shutting down strands",
    "Sending signal ",
    "called out",
    "No such connection with id ",
];

/// What linerate has below Run Statistics, each up to an empty line.
const OUR_SECTIONS: [&str; 3] = [
    "Over active time",
    "Beginnings of strands",
    "Each host, all its groups",
];

/// What may follow the digits of a figure, as far as a column has room for it.
const UNITS: [&str; 25] = [
    "", "B", "K", "KB", "M", "MB", "G", "GB", "T", "TB", "bps", "Kbps", "Mbps", "Gbps", "Tbps",
    "ns", "us", "ms", "s", "op", "Kb", "Mb", "Gb", "b", "m",
];

/// The text as a terminal shows it at the end, with figures masked and repeated progress of `-R` once.
pub(crate) fn shown(text: &str) -> Vec<String> {
    let mut text = text.to_owned();
    for way in STOCKS_WAYS {
        while let Some(start) = text.find(way) {
            let end = text[start..]
                .find('\n')
                .map_or(text.len(), |end| start + end + 1);
            text.replace_range(start..end, "");
        }
    }
    let mut lines: Vec<String> = Vec::new();
    let mut is_ours = false;
    for line in text.split('\n') {
        if is_ours || OUR_SECTIONS.contains(&line) {
            is_ours = !line.is_empty();
            continue;
        }
        let line = masked(line.rsplit('\r').next().unwrap_or_default());
        let is_progress = line.starts_with("timestamp_ms:");
        // Before the first transaction stock may print progress without a name.
        if is_progress && (line.contains("name: ") || lines.last() == Some(&line)) {
            continue;
        }
        lines.push(line);
    }
    lines
}

/// A line with its figures masked; a column's stay as wide as it is.
fn masked(line: &str) -> String {
    let line = line.replace("b/s", "bps");
    let mut masked = String::new();
    let mut rest = line.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(separates).unwrap_or(rest.len());
        if end == 0 {
            masked.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, behind) = rest.split_at(end);
        if is_figure(word) {
            if masked.ends_with(' ') {
                masked.push_str(&" ".repeat(word.len() - 1));
            }
            masked.push('#');
        } else {
            masked.push_str(word);
        }
        rest = behind;
    }
    if masked.starts_with("Difference(%)") {
        // A failed run has any figures.
        return masked.split_whitespace().collect();
    }
    // Stock has times of some 10^10 s now and then.
    match masked.split_once("/ ") {
        Some((before, behind)) => format!("{before}/{}", behind.trim_start()),
        None => masked,
    }
}

fn separates(char: char) -> bool {
    " /=(),%:".contains(char)
}

/// A number with its unit; `-` stands for one that was not measured.
fn is_figure(word: &str) -> bool {
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    if unsigned.is_empty() {
        return true;
    }
    let end = unsigned
        .find(|char: char| !char.is_ascii_digit() && char != '.')
        .unwrap_or(unsigned.len());
    let (number, unit) = unsigned.split_at(end);
    matches!(unsigned, "nan" | "inf") || (number.parse::<f64>().is_ok() && UNITS.contains(&unit))
}

/// The first line in which they differ.
pub(crate) fn compare(ours: &[String], control: &[String]) -> Result<(), String> {
    let longest = ours.len().max(control.len());
    for number in 0..longest {
        let (ours, control) = (ours.get(number), control.get(number));
        if ours != control {
            return Err(format!(
                "line {}: {ours:?}, control {control:?}",
                number + 1
            ));
        }
    }
    Ok(())
}

/// Of the line of differences, in per cent: time, data, throughput, operations and errors.
pub(crate) fn differences(text: &str) -> Option<Vec<f64>> {
    let line = text
        .lines()
        .find(|line| line.starts_with("Difference(%)"))?;
    let words = line.split_whitespace().skip(1);
    let figures = words.map(|word| word.trim_end_matches('%').parse().ok());
    figures.collect()
}

/// Whether a strand or a group had not ended when the text was made: its time is then from the clock's beginning.
pub(crate) fn has_running_strands(text: &str) -> bool {
    let times = text
        .split_whitespace()
        .filter_map(|word| word.trim_start_matches('/').strip_suffix("(s)"));
    let mut seconds = times.filter_map(|time| time.parse::<f64>().ok());
    seconds.any(|seconds| seconds > 1e9)
}

/// The seconds that the master says it took.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let mut lines = text.lines().rev();
    let line = lines.find(|line| line.starts_with("master "))?;
    let word = line.split_whitespace().nth(1)?;
    let digits = word.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let scale = match &word[digits.len()..] {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * scale)
}
