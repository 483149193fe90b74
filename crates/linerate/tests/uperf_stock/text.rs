//! Comparison of the output of two programs, without figures and without messages that only one of
//! them prints.

/// Messages that only stock prints, each up to the end of its line: see `docs/differences.md`.
const STOCK_ONLY_MESSAGES: [&str; 6] = [
    "Unable to increase file descriptors",
    "Allocating shared memory",
    "Master: Shutting down strands",
    "Sending signal ",
    "called out",
    "No such connection with id ",
];

/// Sections that only linerate prints below Run Statistics, each up to an empty line.
const LINERATE_ONLY_SECTIONS: [&str; 3] = [
    "Over active time",
    "Beginnings of strands",
    "Each host, all its groups",
];

/// Units after the digits of a figure. Narrow columns cut them off.
const UNITS: [&str; 25] = [
    "", "B", "K", "KB", "M", "MB", "G", "GB", "T", "TB", "bps", "Kbps", "Mbps", "Gbps", "Tbps",
    "ns", "us", "ms", "s", "op", "Kb", "Mb", "Gb", "b", "m",
];

/// Returns the lines of a text as a terminal finally shows them. Figures are masked, and repeated
/// progress lines of `-R` are listed once.
pub(crate) fn comparable_lines(text: &str) -> Vec<String> {
    let mut text = text.to_owned();
    for message in STOCK_ONLY_MESSAGES {
        while let Some(start) = text.find(message) {
            let end = text[start..]
                .find('\n')
                .map_or(text.len(), |end| start + end + 1);
            text.replace_range(start..end, "");
        }
    }
    let mut lines: Vec<String> = Vec::new();
    let mut is_in_own_section = false;
    for line in text.split('\n') {
        if is_in_own_section || LINERATE_ONLY_SECTIONS.contains(&line) {
            is_in_own_section = !line.is_empty();
            continue;
        }
        let line = mask_figures(line.rsplit('\r').next().unwrap_or_default());
        let is_progress = line.starts_with("timestamp_ms:");
        // Before the first transaction stock may print progress without a name.
        if is_progress && (line.contains("name: ") || lines.last() == Some(&line)) {
            continue;
        }
        lines.push(line);
    }
    lines
}

/// Masks the figures of a line. A masked column keeps its width.
fn mask_figures(line: &str) -> String {
    let line = line.replace("b/s", "bps");
    let mut masked = String::new();
    let mut remainder = line.as_str();
    while let Some(first) = remainder.chars().next() {
        let end = remainder.find(is_separator).unwrap_or(remainder.len());
        if end == 0 {
            masked.push(first);
            remainder = &remainder[first.len_utf8()..];
            continue;
        }
        let (word, after) = remainder.split_at(end);
        if is_figure(word) {
            if masked.ends_with(' ') {
                masked.push_str(&" ".repeat(word.len() - 1));
            }
            masked.push('#');
        } else {
            masked.push_str(word);
        }
        remainder = after;
    }
    if masked.starts_with("Difference(%)") {
        // The figures of a failed run are arbitrary.
        return masked.split_whitespace().collect();
    }
    // Stock sometimes prints times of about 10^10 s.
    match masked.split_once("/ ") {
        Some((before, after)) => format!("{before}/{}", after.trim_start()),
        None => masked,
    }
}

fn is_separator(char: char) -> bool {
    " /=(),%:".contains(char)
}

/// Whether a word is a number with its unit, or `-` for an unavailable value.
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

/// Returns an error with the first line in which the texts differ.
pub(crate) fn compare_lines(ours: &[String], expected: &[String]) -> Result<(), String> {
    let longest = ours.len().max(expected.len());
    for number in 0..longest {
        let (ours, expected) = (ours.get(number), expected.get(number));
        if ours != expected {
            return Err(format!(
                "line {}: {ours:?}, stock with stock {expected:?}",
                number + 1
            ));
        }
    }
    Ok(())
}

/// Returns the differences that a master reports, in percent: time, data, throughput, operations
/// and errors.
pub(crate) fn reported_differences(text: &str) -> Option<Vec<f64>> {
    let line = text
        .lines()
        .find(|line| line.starts_with("Difference(%)"))?;
    let words = line.split_whitespace().skip(1);
    let figures = words.map(|word| word.trim_end_matches('%').parse().ok());
    figures.collect()
}

/// Whether a strand or a group still ran when the program printed the text. Its time then starts at
/// the epoch of the clock.
pub(crate) fn has_running_strands(text: &str) -> bool {
    let times = text
        .split_whitespace()
        .filter_map(|word| word.trim_start_matches('/').strip_suffix("(s)"));
    let mut seconds = times.filter_map(|time| time.parse::<f64>().ok());
    seconds.any(|seconds| seconds > 1e9)
}

/// Returns the duration that the master reports for itself, in seconds.
pub(crate) fn master_seconds(text: &str) -> Option<f64> {
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
