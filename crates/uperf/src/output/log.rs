//! Log of errors and warnings: each message once, with its count.

use model::LogEntry;

use super::line::printable_lines;

/// Returns the log lines at the end of a report or a slave's output.
pub fn log_text(entries: &[LogEntry]) -> String {
    let line = |entry: &LogEntry| format!("** {}\n", format_message(entry, " "));
    entries.iter().map(line).collect()
}

/// Returns the text that a slave sends to its master at the end of a run.
pub fn goodbye_text(entries: &[LogEntry]) -> String {
    let line = |entry: &LogEntry| {
        let has_no_prefix = !entry.is_warning && entry.count <= MAX_UNCOUNTED;
        let blank = if has_no_prefix { " " } else { "" };
        format!("{blank}{}\n", format_message(entry, "  "))
    };
    entries.iter().map(line).collect()
}

/// Messages that occur more often than this have their count in front.
const MAX_UNCOUNTED: u64 = 2;

/// Formats a message, with `separator` after a count. Texts of slaves may have several lines.
fn format_message(entry: &LogEntry, separator: &str) -> String {
    let count = entry.count;
    let text = printable_lines(&entry.text);
    let reason = match &*entry.reason {
        "" => " ".to_owned(),
        reason => printable_lines(reason),
    };
    match (entry.is_warning, count > MAX_UNCOUNTED) {
        (false, false) => format!("{text} {reason}"),
        (true, false) => format!("Warning: {text} {reason}"),
        (false, true) => format!("{count} Errors{separator}{text} {reason}"),
        (true, true) => format!("{count} Warnings{separator}{text} {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_their_kind_and_count() {
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
        assert_eq!(log_text(&entries), in_report);
        let to_master = " what  \n what why\n3 Errors  what why\n\
            Warning: what  \n4 Warnings  what  \n";
        assert_eq!(goodbye_text(&entries), to_master);
        assert_eq!(log_text(&[]), "");
    }
}
