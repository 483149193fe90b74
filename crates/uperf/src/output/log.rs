//! The log of what went wrong: each message once, and how often.

use model::LogEntry;

use super::line::printable_lines;

/// At the end of the report, and what a slave prints (spec section 6.3).
pub fn log(entries: &[LogEntry]) -> String {
    let line = |entry: &LogEntry| format!("** {}\n", message(entry, " "));
    entries.iter().map(line).collect()
}

/// What a slave tells its master at the end (spec section 3.8).
pub fn goodbye(entries: &[LogEntry]) -> String {
    let line = |entry: &LogEntry| {
        let is_plain = !entry.is_warning && entry.count <= OFTEN;
        let blank = if is_plain { " " } else { "" };
        format!("{blank}{}\n", message(entry, "  "))
    };
    entries.iter().map(line).collect()
}

/// What happened more often than this has its number in front.
const OFTEN: u64 = 2;

/// With `gap` behind a number. The texts of slaves may have several lines.
fn message(entry: &LogEntry, gap: &str) -> String {
    let count = entry.count;
    let text = printable_lines(&entry.text);
    let reason = match &*entry.reason {
        "" => " ".to_owned(),
        reason => printable_lines(reason),
    };
    match (entry.is_warning, count > OFTEN) {
        (false, false) => format!("{text} {reason}"),
        (true, false) => format!("Warning: {text} {reason}"),
        (false, true) => format!("{count} Errors{gap}{text} {reason}"),
        (true, true) => format!("{count} Warnings{gap}{text} {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_by_what_it_is_and_how_often() {
        let entry = |is_warning, reason: &str, count| LogEntry {
            is_warning,
            text: "what".to_owned(),
            reason: reason.to_owned(),
            count,
        };
        let entries = [
            entry(false, "", 1),
            entry(false, "why", 2),
            entry(false, "why", 3),
            entry(true, "", 1),
            entry(true, "", 4),
        ];
        let in_report = "** what  \n** what why\n** 3 Errors what why\n\
            ** Warning: what  \n** 4 Warnings what  \n";
        assert_eq!(log(&entries), in_report);
        let to_master = " what  \n what why\n3 Errors  what why\n\
            Warning: what  \n4 Warnings  what  \n";
        assert_eq!(goodbye(&entries), to_master);
        assert_eq!(log(&[]), "");
    }
}
