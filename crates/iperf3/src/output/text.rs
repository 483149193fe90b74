//! Formats a test as text, identical to stock's output.

use std::fmt::Write;

use units::iperf::{Scale, format_general};

use super::figures::{self, DiskFile, Figures};
use crate::Version;
use crate::result::{StreamRun, TestRun};
use crate::streams::IntervalEnd;
use crate::wire::{Direction, Protocol};

/// The options that affect the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// `--stock-version`.
    pub(crate) version: Version,
    /// `-f`.
    pub(crate) format: Option<Scale>,
    /// `-V`.
    pub(crate) verbose: bool,
}

/// The blanks after the retransmissions in the summary line of all senders.
const SUM_PADDING: &str = "             ";

const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";

/// Returns the banner of a server that waits for test `number`.
pub(crate) fn banner(port: u32, number: u64) -> String {
    let line = "-".repeat(59);
    format!("{line}\nServer listening on {port} (test #{number})\n{line}\n")
}

/// Returns the version lines of `-V`.
pub(crate) fn version(version: Version) -> String {
    format!("iperf {}\n{}\n", version.name(), crate::system_info())
}

/// Returns the lines about the control connection.
pub(crate) fn connection_lines(run: &TestRun, style: Style) -> String {
    let mut text = String::new();
    let (host, port) = &run.peer;
    if style.verbose {
        if !run.is_server {
            let _ = writeln!(text, "Control connection MSS {}", run.control_segment);
        }
        let _ = writeln!(text, "Time: {}", super::gmt_date(run.started));
    }
    let _ = if run.is_server {
        writeln!(text, "Accepted connection from {host}, port {port}")
    } else {
        writeln!(text, "Connecting to host {host}, port {port}")
    };
    if !run.is_server && run.parameters.direction == Direction::Reverse {
        let _ = writeln!(text, "Reverse mode, remote host {host} is sending");
    }
    if style.verbose {
        let _ = writeln!(
            text,
            "      Cookie: {}",
            super::replace_control_characters(&run.cookie.text())
        );
        if run.parameters.protocol == Protocol::Tcp {
            let _ = match run.parameters.max_segment {
                Some(bytes) => writeln!(text, "      TCP MSS: {bytes}"),
                None => writeln!(text, "      TCP MSS: {} (default)", run.control_segment),
            };
        }
        if run.parameters.rate > 0 {
            let _ = writeln!(text, "      Target Bitrate: {}", run.parameters.rate);
        }
    }
    text
}

/// Returns a line per stream, and with `-V` a line about the test.
pub(crate) fn stream_lines(run: &TestRun, style: Style) -> String {
    let mut text = String::new();
    for stream in &run.streams {
        let (local, remote) = (
            super::host_and_port(&stream.local),
            super::host_and_port(&stream.remote),
        );
        let _ = writeln!(
            text,
            "[{:3}] local {} port {} connected to {} port {}",
            stream.label, local.0, local.1, remote.0, remote.1
        );
    }
    if style.verbose {
        let parameters = &run.parameters;
        let _ = write!(
            text,
            "Starting Test: protocol: {}, {} streams, {} byte blocks, omitting {} seconds, ",
            parameters.protocol.name(),
            parameters.parallel,
            parameters.block_size(),
            parameters.omit,
        );
        let _ = match (parameters.bytes, parameters.blocks) {
            (0, 0) => write!(text, "{} second test", parameters.time),
            (0, blocks) => write!(text, "{blocks} blocks to send"),
            (bytes, _) => write!(text, "{bytes} bytes to send"),
        };
        let _ = writeln!(text, ", tos {}", parameters.type_of_service.unwrap_or(0));
    }
    text
}

/// Returns the header of the interval lines.
pub(crate) fn interval_header(run: &TestRun) -> String {
    let is_tcp = run.parameters.protocol == Protocol::Tcp;
    let columns = match (run.is_udp(), is_bidirectional(run), has_sending_stream(run)) {
        (true, false, true) => "         Total Datagrams",
        (true, ..) => RECEIVER_COLUMNS,
        (false, both, sends) if is_tcp && (both || sends) => "         Retr  Cwnd",
        _ => "",
    };
    column_header(run, columns)
}

const RECEIVER_COLUMNS: &str = "         Jitter    Lost/Total Datagrams";

fn column_header(run: &TestRun, columns: &str) -> String {
    let role = if is_bidirectional(run) { "[Role]" } else { "" };
    format!("[ ID]{role} Interval           Transfer     Bitrate{columns}\n")
}

fn is_bidirectional(run: &TestRun) -> bool {
    run.parameters.direction == Direction::Both
}

fn has_sending_stream(run: &TestRun) -> bool {
    run.streams.iter().any(|stream| stream.sends)
}

/// Returns the role tag of a stream's lines; empty unless both ends send.
fn role_tag(run: &TestRun, sends: bool) -> &'static str {
    match (is_bidirectional(run), run.is_server, sends) {
        (false, ..) => "",
        (_, false, true) => "[TX-C]",
        (_, false, false) => "[RX-C]",
        (_, true, true) => "[TX-S]",
        (_, true, false) => "[RX-S]",
    }
}

/// Returns the lines of an interval.
pub(crate) fn interval_lines(run: &TestRun, end: IntervalEnd<'_>, style: Style) -> String {
    let mut text = String::new();
    let has_several_streams = run.parameters.parallel > 1;
    let is_first = end.omit_end_index.is_none_or(|index| index == 0)
        && end
            .series
            .first()
            .is_some_and(|series| series.samples.len() == 2);
    if has_several_streams && !is_first {
        text.push_str(SEPARATOR);
    }
    let origin = end
        .omit_end_index
        .and_then(|index| end.series.first()?.samples.get(index));
    let origin = origin.map_or_else(Default::default, |sample| sample.at);
    let suffix = if end.omit_end_index.is_none() {
        "(omitted)"
    } else {
        ""
    };
    for &sends in super::directions(run) {
        let mut stream_figures = Vec::new();
        for (stream, series) in end.streams.iter().zip(end.series) {
            let [.., start, end] = &series.samples[..] else {
                continue;
            };
            if stream.sends != sends {
                continue;
            }
            let figures = figures::interval_figures(run, sends, (start, end), origin);
            let id = format!("{:3}", stream.label);
            push_interval_line(&mut text, run, &id, sends, &figures, suffix, style);
            stream_figures.push(figures);
        }
        if has_several_streams {
            push_interval_line(
                &mut text,
                run,
                "SUM",
                sends,
                &Figures::sum(&stream_figures),
                suffix,
                style,
            );
        }
    }
    text
}

fn push_interval_line(
    text: &mut String,
    run: &TestRun,
    id: &str,
    sends: bool,
    figures: &Figures,
    suffix: &str,
    style: Style,
) {
    let head = line_head(run, id, sends, figures, style);
    let datagrams = &figures.datagrams;
    let _ = match (run.is_udp(), sends) {
        (true, true) => {
            let padding = if is_bidirectional(run) {
                "          "
            } else {
                ""
            };
            writeln!(text, "{head} {padding} {}  {suffix}", datagrams.packets)
        }
        (true, false) => writeln!(text, "{head}  {}  {suffix}", loss_text(figures)),
        (false, true) => match (figures.retransmits, figures.path) {
            (Some(retransmits), Some(path)) => {
                let window =
                    Scale::Bytes(None).format(path.congestion_window_bytes.unwrap_or(0) as f64);
                writeln!(text, "{head}  {retransmits:3}   {window}       {suffix}")
            }
            (Some(retransmits), None) => {
                writeln!(text, "{head}  {retransmits:3}             {suffix}")
            }
            _ => writeln!(text, "{head}                  {suffix}"),
        },
        (false, false) => writeln!(text, "{head}                  {suffix}"),
    };
}

fn line_head(run: &TestRun, id: &str, sends: bool, figures: &Figures, style: Style) -> String {
    let role = role_tag(run, sends);
    format!(
        "[{id}]{role} {:6.2}-{:<6.2} sec  {}  {}/sec",
        figures.start,
        figures.end,
        Scale::Bytes(None).format(figures.bytes as f64),
        style
            .format
            .unwrap_or(Scale::Bits(None))
            .format(figures.bits_per_second() / 8.0),
    )
}

fn loss_text(figures: &Figures) -> String {
    let datagrams = &figures.datagrams;
    format!(
        "{:5.3} ms  {}/{} ({}%)",
        datagrams.jitter_ms,
        datagrams.lost,
        datagrams.packets,
        format_general(datagrams.lost_percent(), 2)
    )
}

/// Returns the lines after the end of the data: up to those of the first direction, and the others.
/// A client prints the server's output between them.
pub(crate) fn summary_lines(run: &TestRun, style: Style) -> [String; 2] {
    let mut text = SEPARATOR.to_owned();
    if style.verbose {
        text.push_str("Test Complete. Summary Results:\n");
    }
    let has_retransmits = (run.streams.iter())
        .any(|stream| figures::sender_figures(run, stream).retransmits.is_some())
        || run.streams.is_empty() && run.parameters.direction != Direction::Reverse;
    let columns = match (run.is_udp(), has_retransmits) {
        (true, _) => RECEIVER_COLUMNS,
        (false, true) => "         Retr",
        _ => "",
    };
    text.push_str(&column_header(run, columns));
    let mut rest = String::new();
    for (index, &sends) in super::directions(run).iter().enumerate() {
        let text = if index == 0 { &mut text } else { &mut rest };
        push_direction(text, run, sends, style);
    }
    if run.overlapping_tests > 0 {
        let _ = writeln!(
            rest,
            "{} other tests ran on this server during this test",
            run.overlapping_tests
        );
    }
    [text, rest]
}

/// Adds the summary of the streams of a direction.
fn push_direction(text: &mut String, run: &TestRun, sends: bool, style: Style) {
    let streams: Vec<_> = run
        .streams
        .iter()
        .filter(|stream| stream.sends == sends)
        .collect();
    for stream in &streams {
        let id = format!("{:3}", stream.label);
        for is_sender in [true, false] {
            if has_figures(run, stream, is_sender) {
                let figures = figures::end_figures(run, stream, is_sender);
                push_summary_line(text, run, &id, sends, is_sender, &figures, style);
            } else if style.verbose {
                push_not_available(text, &id, is_sender);
            }
            if let Some(file) = DiskFile::from_run(run, stream).filter(|_| is_sender) {
                text.push_str(&disk_file_line(&file, stream.sends));
            }
        }
    }
    if run.parameters.parallel > 1 {
        for is_sender in [true, false] {
            if streams
                .iter()
                .all(|stream| has_figures(run, stream, is_sender))
            {
                let sum = figures::end_sum(run, &streams, sends, is_sender);
                push_summary_line(text, run, "SUM", sends, is_sender, &sum, style);
            } else if style.verbose && !run.is_udp() {
                push_not_available(text, "SUM", is_sender);
            }
        }
    }
    if style.verbose {
        text.push_str(&verbose_lines(run, sends));
    }
}

fn disk_file_line(file: &DiskFile, sends: bool) -> String {
    let moved = if sends { file.sent } else { file.received };
    let [moved_text, total_text] = [moved, file.bytes].map(|bytes| {
        let text = Scale::Bytes(None).format(bytes as f64);
        text.trim_end_matches('s').to_owned()
    });
    let (percent, name) = (file.percent(moved), &file.name);
    format!("        Sent {moved_text} / {total_text} ({percent}%) of {name}\n")
}

/// Returns whether this end can show the figures of the sender or the receiver.
///
/// A server shows only its own figures. A client shows missing figures as 0.
fn has_figures(run: &TestRun, stream: &StreamRun, is_sender: bool) -> bool {
    !run.is_server || stream.sends == is_sender
}

fn push_summary_line(
    text: &mut String,
    run: &TestRun,
    id: &str,
    sends: bool,
    is_sender: bool,
    figures: &Figures,
    style: Style,
) {
    let head = line_head(run, id, sends, figures, style);
    let word = if is_sender { "sender" } else { "receiver" };
    let _ = match (run.is_udp(), figures.retransmits) {
        (true, _) => writeln!(text, "{head}  {}  {word}", loss_text(figures)),
        (false, Some(retransmits)) if is_sender => {
            let padding = match id {
                "SUM" => SUM_PADDING,
                _ => style.version.layout().sender_padding,
            };
            writeln!(text, "{head}  {retransmits:3}{padding}{word}")
        }
        _ => writeln!(text, "{head}                  {word}"),
    };
}

fn push_not_available(text: &mut String, id: &str, is_sender: bool) {
    let word = if is_sender { "sender" } else { "receiver" };
    let _ = writeln!(text, "[{id}] ({word} statistics not available)");
}

/// Returns the lines about the hosts after the streams of a direction.
///
/// Like stock, prints CPU times only for the direction in which this end sends.
fn verbose_lines(run: &TestRun, sends: bool) -> String {
    let mut text = String::new();
    if sends {
        let percents =
            |[total, user, system]: [f64; 3]| format!("{total:.1}% ({user:.1}%u/{system:.1}%s)");
        let remote = run.results.as_ref().filter(|_| !run.is_server);
        let local_cpu = percents(run.cpu);
        let remote_cpu = percents(remote.map_or([0.0; 3], |results| results.cpu));
        let role_pairs = [("sender", "receiver"), ("receiver", "sender")];
        let lines = if is_bidirectional(run) {
            &role_pairs[..]
        } else {
            &role_pairs[..1]
        };
        for (local_role, remote_role) in lines {
            let _ = writeln!(
                text,
                "CPU Utilization: local/{local_role} {local_cpu}, remote/{remote_role} {remote_cpu}"
            );
        }
    }
    for (word, name) in super::congestion_names(run, sends) {
        if let Some(name) = name {
            let _ = writeln!(
                text,
                "{word}_tcp_congestion {}",
                super::replace_control_characters(name)
            );
        }
    }
    text
}

/// Formats the server's output for the client.
///
/// As in stock's output, an empty line ends the block. So empty lines within it are left out.
pub(crate) fn server_output(text: &str) -> String {
    let printable: String = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| super::replace_control_characters(line) + "\n")
        .collect();
    format!("Server output:\n{printable}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_text_does_not_leave_its_block() {
        for (text, expected) in [
            ("a\nb\n", "Server output:\na\nb\n\n"),
            (
                "a\n\n \r\n\t\niperf Done.\n\x1b[2J\x0b\x0c",
                "Server output:\na\niperf Done.\n?[2J??\n\n",
            ),
            ("", "Server output:\n\n"),
        ] {
            assert_eq!(server_output(text), expected);
        }
    }
}
