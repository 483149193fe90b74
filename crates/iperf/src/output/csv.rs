//! Output as comma-separated values (`-y C`), with `-e` in its enhanced form.

use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use sys::Address;

use super::PrintSettings;
use super::connection::format_host;
use super::line::{DelayStats, latency_summary_ms, per_second};
use crate::event::{FlowFigures, FlowId, SumScope, TestEvent};
use crate::timing::TimingKind;

/// The end of each flow's last interval, by flow number and direction.
pub(super) type LastIntervalEnds = HashMap<(u32, bool), SystemTime>;

/// Returns the line of an event.
///
/// `is_new` returns whether a header has not been printed yet, and marks the header as printed.
pub(super) fn text(
    settings: &PrintSettings,
    event: &TestEvent<'_>,
    interval_ends: &mut LastIntervalEnds,
    is_new: impl FnMut(&str) -> bool,
) -> String {
    let key = |id: &FlowId| (id.number, id.is_starred);
    let now = SystemTime::now();
    let layout = settings.layout();
    match event {
        // 2.1.8 has no sums here, and prints the flows.
        TestEvent::Interval(..) | TestEvent::Final(..)
            if settings.output.sum_only && layout.has_enhanced_csv =>
        {
            String::new()
        }
        TestEvent::Interval(id, figures) => {
            interval_ends.insert(key(id), now);
            let line = Line::new(Some(id.number), figures, now, false);
            line.text(settings, is_new)
        }
        TestEvent::Final(id, figures) => {
            let last_interval_end = interval_ends.remove(&key(id));
            // As in 2.1.8, the timestamp is that of the last interval; without intervals, 1970.
            let timestamp = if layout.has_enhanced_csv {
                now
            } else {
                last_interval_end.unwrap_or(UNIX_EPOCH)
            };
            let line = Line::new(Some(id.number), figures, timestamp, true);
            line.text(settings, is_new)
        }
        TestEvent::Sum {
            scope,
            is_bidirectional,
            is_final,
            figures,
            ..
        } if layout.has_enhanced_csv
            && !matches!(scope, SumScope::Connection(_))
            && (!is_bidirectional || settings.output.sum_only) =>
        {
            Line::new(None, figures, now, *is_final).text(settings, is_new)
        }
        _ => String::new(),
    }
}

/// A line of figures.
struct Line<'a> {
    /// The number of the flow; `None` for a sum.
    number: Option<u32>,
    figures: &'a FlowFigures,
    timestamp: SystemTime,
    is_final: bool,
}

impl<'a> Line<'a> {
    fn new(
        number: Option<u32>,
        figures: &'a FlowFigures,
        timestamp: SystemTime,
        is_final: bool,
    ) -> Self {
        Self {
            number,
            figures,
            timestamp,
            is_final,
        }
    }

    fn text(&self, settings: &PrintSettings, mut is_new: impl FnMut(&str) -> bool) -> String {
        let is_detailed = self.figures.is_detailed && settings.is_server;
        let is_enhanced =
            settings.layout().has_enhanced_csv && (settings.output.enhanced || is_detailed);
        if !is_enhanced {
            return self.plain_text(settings);
        }
        let columns = self.columns(settings).into_iter();
        let (names, values): (Vec<&str>, Vec<String>) = columns.unzip();
        let header = names.join(",") + "\n";
        let header = if is_new(&header) { &header } else { "" };
        format!("{header}{}\n", values.join(","))
    }

    fn plain_text(&self, settings: &PrintSettings) -> String {
        let figures = self.figures;
        let mut text = format!(
            "{},{},{},{:.1}-{:.1},{},{:.0}",
            format_timestamp(settings, self.timestamp),
            self.endpoints(settings).join(","),
            self.transfer_id(),
            figures.start.as_secs_f64(),
            figures.end.as_secs_f64(),
            figures.bytes,
            figures.bits_per_second().floor(),
        );
        if figures.is_udp {
            let unmeasured_jitter = if settings.layout().has_enhanced_csv {
                "-nan"
            } else {
                "0.000"
            };
            for value in self.datagram_values(unmeasured_jitter) {
                let _ = write!(text, ",{value}");
            }
        }
        text + "\n"
    }

    /// Returns the names and the values of an enhanced line.
    fn columns(&self, settings: &PrintSettings) -> Vec<(&'static str, String)> {
        let figures = self.figures;
        let mut columns = Vec::new();
        let mut add = |name: &'static str, value: &dyn Display| {
            columns.push((name, value.to_string()));
        };
        add("time", &format_precise_timestamp(settings, self.timestamp));
        let names = ["srcaddress", "srcport", "dstaddr", "dstport"];
        for (name, value) in names.into_iter().zip(self.endpoints(settings)) {
            add(name, &value);
        }
        add("transferid", &self.transfer_id());
        add(
            "istart",
            &format_args!("{:.1}", figures.start.as_secs_f64()),
        );
        add("iend", &format_args!("{:.1}", figures.end.as_secs_f64()));
        add("bytes", &figures.bytes);
        let rate = figures.bits_per_second().floor();
        add("speed", &format_args!("{rate:.0}"));
        let path = figures.path.unwrap_or_default();
        let window = path.congestion_window_bytes.unwrap_or(0);
        let segment_bytes = figures.segments.map_or(0, |segments| segments.bytes.into());
        let segments = window.checked_div(segment_bytes);
        let micros = |time: Option<std::time::Duration>| time.unwrap_or_default().as_micros();
        let add_path = |add: &mut dyn FnMut(&'static str, &dyn Display)| {
            add("tcpretry", &figures.retransmits);
            add("tcpcwnd", &(window / 1024));
            add("tcppcwnd", &segments.unwrap_or(0));
            add("tcprtt", &micros(path.smoothed_rtt));
            add("tcprttvar", &micros(path.rtt_deviation));
        };
        if let Some(latency) = figures
            .latency
            .as_ref()
            .filter(|_| settings.bounceback.is_some())
        {
            let (mean, min, max, deviation) = latency_summary_ms(latency);
            add("bbcnt", &latency.len());
            for (name, time) in ["bbavg", "bbmin", "bbmax", "bbstdev"]
                .into_iter()
                .zip([mean, min, max, deviation])
            {
                add(name, &format_args!("{time:.3}"));
            }
            add_path(&mut add);
            let [sent, received] = figures.transaction_bytes;
            add("txbytes", &sent);
            add("rxbytes", &received);
            let rate = if mean > 0.0 { 1e3 / mean } else { 0.0 };
            add("rps", &format_args!("{rate:.1}"));
            return columns;
        }
        match (figures.is_udp, figures.sends) {
            (false, true) => {
                add("writecnt", &figures.calls);
                add("writeerr", &figures.failed_sends);
                add_path(&mut add);
            }
            (false, false) => {
                if let Some((TimingKind::TripTimes, stats)) = &figures.timing {
                    let names = ["ttavg", "ttmin", "ttmax", "ttsdev"];
                    for (name, time) in names.into_iter().zip(stats.summary_ms()) {
                        add(name, &format_args!("{time:.3}"));
                    }
                    add("ttcnt", &stats.count);
                    let size = stats.bytes.checked_div(stats.count);
                    add("ttsize", &size.unwrap_or(0));
                }
                let bins = figures.read_sizes.unwrap_or_default();
                add("readcnt", &bins.iter().sum::<u64>());
                let names = [
                    "bin0", "bin1", "bin2", "bin3", "bin4", "bin5", "bin6", "bin7",
                ];
                for (name, count) in names.into_iter().zip(bins) {
                    add(name, &count);
                }
            }
            (true, _) => {
                let names = ["jitter", "errors", "datagrams", "errpercent", "outoforder"];
                for (name, value) in names.into_iter().zip(self.datagram_values("-1.000")) {
                    add(name, &value);
                }
                self.add_datagram_columns(&mut add);
            }
        }
        columns
    }

    /// Adds the last columns of an enhanced line for UDP. linerate's calls have no timeouts.
    fn add_datagram_columns(&self, add: &mut dyn FnMut(&'static str, &dyn Display)) {
        let figures = self.figures;
        let counts = figures.datagrams.unwrap_or_default();
        let mut datagrams = figures.calls;
        if figures.sends {
            add("writecnt", &figures.calls);
            add("writeerr", &figures.failed_sends);
            add("writetimeo", &0);
        } else {
            datagrams = counts.received;
            if figures.has_trip_times
                && let Some(delays) = DelayStats::from_counts(&counts)
            {
                let names = ["ttavg", "ttmin", "ttmax", "ttsdev"];
                for (name, time) in names.into_iter().zip(delays.all_ms()) {
                    add(name, &format_args!("{time:.3}"));
                }
                if let Some((TimingKind::Frames, stats)) = &figures.timing {
                    let names = ["itavg", "itmin", "itmax", "itsdev"];
                    for (name, time) in names.into_iter().zip(stats.summary_ms()) {
                        add(name, &format_args!("{time:.3}"));
                    }
                } else {
                    add("ttcnt", &datagrams);
                    let size = figures.bytes.checked_div(datagrams);
                    add("ttsize", &size.unwrap_or(0));
                }
            }
            add("readcnt", &datagrams);
            add("readtimeo", &0);
            add("readerrlen", &0);
        }
        let rate = per_second(figures, datagrams);
        add("pps", &format_args!("{rate:.6}"));
    }

    /// Returns jitter, lost datagrams, datagrams, the share of lost ones, and those out of order.
    fn datagram_values(&self, unmeasured_jitter: &str) -> [String; 5] {
        let figures = self.figures;
        // Only the receiver knows what has arrived of a complete flow.
        let is_unknown = figures.sends && self.is_final;
        let jitter = figures.datagrams.and_then(|counts| counts.jitter);
        let jitter_ms = jitter.map_or(0.0, |jitter| jitter.as_secs_f64() * 1e3);
        let jitter = if is_unknown {
            unmeasured_jitter.to_owned()
        } else {
            format!("{jitter_ms:.3}")
        };
        let total = if is_unknown {
            "-1".to_owned()
        } else if figures.sends {
            figures.calls.to_string()
        } else {
            figures.expected_datagrams.to_string()
        };
        let percent = match (is_unknown, figures.expected_datagrams) {
            (true, _) => "-0.000".to_owned(),
            (_, 0) => "0.000".to_owned(),
            (_, expected) => format!("{:.3}", 100.0 * figures.lost() as f64 / expected as f64),
        };
        let (lost, out_of_order) = (figures.lost(), figures.out_of_order());
        [
            jitter,
            lost.to_string(),
            total,
            percent,
            out_of_order.to_string(),
        ]
    }

    /// Returns the address and the port of sender and receiver. A sum has no port of a client.
    fn endpoints(&self, settings: &PrintSettings) -> [String; 4] {
        let Some((sender, receiver)) = &self.figures.endpoints else {
            return ["0.0.0.0", "0", "0.0.0.0", "0"].map(str::to_owned);
        };
        let host = |address: &Address| format_host(settings, address);
        let mut ports = [sender.port(), receiver.port()];
        if self.number.is_none() {
            let is_client_sender = self.figures.sends != settings.is_server;
            ports[usize::from(!is_client_sender)] = 0;
        }
        let [sender_port, receiver_port] = ports.map(|port| port.to_string());
        [host(sender), sender_port, host(receiver), receiver_port]
    }

    /// Returns the number of the flow; -1 for a sum.
    fn transfer_id(&self) -> i64 {
        self.number.map_or(-1, i64::from)
    }
}

/// Formats a time as `+0000:YYYYMMDDhhmmss.123456`.
fn format_precise_timestamp(settings: &PrintSettings, moment: SystemTime) -> String {
    let time = settings.format_time(c"%z:%Y%m%d%H%M%S", moment);
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{time}.{:06}", since.subsec_micros())
}

/// Formats a time as `YYYYMMDDhhmmss`. Enhanced reports add milliseconds.
fn format_timestamp(settings: &PrintSettings, moment: SystemTime) -> String {
    let time = settings.format_time(c"%Y%m%d%H%M%S", moment);
    let millis = moment
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .subsec_millis();
    if settings.output.enhanced {
        format!("{time}.{millis:03}")
    } else {
        time
    }
}
