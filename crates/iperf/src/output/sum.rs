//! The lines with sums of flows, and their headers.

use std::fmt::Write;

use super::PrintSettings;
use super::line::{
    BASIC, DelayStats, TCP_RECEIVER, UDP_BIDIRECTIONAL, datagram_send_columns, interval_and_rate,
    out_of_order_line, per_second, read_columns,
};
use super::number::format_percent;
use crate::event::{FlowFigures, SumScope, TestEvent};

const SUM_ONLY: &str = "[SUM-cnt] Interval       Transfer     Bandwidth\n";

/// Returns the lines for a sum; none for another event.
///
/// `is_new` returns whether a header has not been printed yet, and marks the header as printed.
pub(super) fn text(
    settings: &PrintSettings,
    event: &TestEvent<'_>,
    is_new: impl FnMut(&'static str) -> bool,
) -> String {
    let TestEvent::Sum {
        flows,
        scope,
        is_bidirectional,
        is_final,
        figures,
    } = event
    else {
        return String::new();
    };
    let sum = Sum {
        settings,
        figures,
        flows: *flows,
        scope: *scope,
        is_bidirectional: *is_bidirectional,
        is_enhanced: settings.output.enhanced || (settings.is_server && figures.is_detailed),
        is_udp_receiver: figures.is_udp && !figures.sends && !is_bidirectional,
    };
    if sum.is_printed() {
        sum.text(*is_final, is_new)
    } else {
        String::new()
    }
}

struct Sum<'a> {
    settings: &'a PrintSettings,
    figures: &'a FlowFigures,
    flows: usize,
    scope: SumScope,
    is_bidirectional: bool,
    is_enhanced: bool,
    is_udp_receiver: bool,
}

impl Sum<'_> {
    /// Whether stock prints the sum. Enhanced reports sum the directions of each connection, too.
    fn is_printed(&self) -> bool {
        let settings = self.settings;
        match self.scope {
            SumScope::Connection(_) => self.is_enhanced && !settings.output.sum_only,
            SumScope::OneConnection if settings.output.sum_only => true,
            SumScope::OneConnection => {
                let sums_duplex = settings.is_server || settings.layout().sums_both_directions;
                let has_intervals = settings.output.interval.is_some();
                !has_intervals && (!self.is_enhanced || sums_duplex)
            }
            SumScope::Connections | SumScope::All => true,
        }
    }

    fn text(&self, is_final: bool, mut is_new: impl FnMut(&'static str) -> bool) -> String {
        let (settings, figures) = (self.settings, self.figures);
        let ((name, header), columns) = (self.name_and_header(), self.columns());
        let header = if !header.is_empty() && is_new(header) {
            header
        } else {
            ""
        };
        let line =
            |name: &str| format!("{}{columns}\n", interval_and_rate(settings, name, figures));
        let mut text = format!("{header}{}", line(&name));
        let sums_sent = !self.is_enhanced || self.scope == SumScope::Connections;
        let prints_sent = !self.is_bidirectional && figures.sends
            || self.is_bidirectional && sums_sent && !settings.is_server;
        if figures.is_udp && prints_sent && is_final {
            // Each sender's last datagram is not in its calls.
            let senders = if self.is_bidirectional {
                self.flows / 2
            } else {
                self.flows
            };
            let sent = figures.calls + senders as u64;
            let _ = writeln!(text, "[SUM-{}] Sent {sent} datagrams", self.flows);
        }
        if self.is_udp_receiver {
            text += &out_of_order_line(&name, figures);
        }
        text
    }

    fn name_and_header(&self) -> (String, &'static str) {
        let (settings, figures) = (self.settings, self.figures);
        let (layout, headers) = (settings.layout(), &settings.layout().headers);
        let counted = format!("[SUM-{}]", self.flows);
        let sum_only = settings.output.sum_only;
        match self.scope {
            SumScope::All
                if layout.counts_flows
                    && self.is_enhanced
                    && !(figures.is_udp && self.is_bidirectional) =>
            {
                let header = match (figures.is_udp, self.has_send_columns()) {
                    (false, true) => headers.tcp_sender_sum,
                    (false, false) if figures.has_trip_times => headers.tcp_timed_receiver_sum,
                    (false, false) => headers.tcp_receiver_sum,
                    (true, true) => headers.udp_sender_sum,
                    (true, false) => headers.udp_receiver_sum,
                };
                (counted, header)
            }
            _ if sum_only && self.is_udp_receiver => (counted, headers.udp_receiver_sum),
            // A TCP client of 2.2.1 does not count the flows that it sends.
            _ if sum_only
                && layout.counts_flows
                && !settings.is_udp
                && !settings.is_server
                && self.has_send_columns() =>
            {
                ("[SUM]".to_owned(), BASIC)
            }
            _ if sum_only => (counted, SUM_ONLY),
            SumScope::Connection(number) if figures.is_udp => {
                (format!("[FD{number}]"), UDP_BIDIRECTIONAL)
            }
            SumScope::Connection(number) => (format!("[FD{number}]"), BASIC),
            SumScope::OneConnection | SumScope::Connections
                if figures.is_udp && self.is_bidirectional =>
            {
                ("[SUM]".to_owned(), UDP_BIDIRECTIONAL)
            }
            SumScope::All if figures.is_udp && self.is_bidirectional => ("[SUM]".to_owned(), ""),
            _ if figures.is_udp && self.is_enhanced => ("[SUM]".to_owned(), headers.udp_sender_sum),
            _ if figures.is_udp => ("[SUM]".to_owned(), BASIC),
            _ if self.is_enhanced && self.is_bidirectional => ("[SUM]".to_owned(), BASIC),
            _ if self.is_enhanced && figures.timing.is_some() && figures.sends => {
                ("[SUM]".to_owned(), headers.tcp_sender)
            }
            _ if self.is_enhanced && figures.timing.is_some() => ("[SUM]".to_owned(), TCP_RECEIVER),
            // A TCP sum is printed below the header of its flows.
            _ => ("[SUM]".to_owned(), ""),
        }
    }

    /// Whether the columns are those of a sender. A client of `-d` or `-r` has its send calls.
    fn has_send_columns(&self) -> bool {
        if self.is_bidirectional {
            !self.settings.is_server
        } else {
            self.figures.sends
        }
    }

    /// Whether the sum has no columns after the rate.
    fn lacks_columns(&self) -> bool {
        !self.is_enhanced || self.is_bidirectional && self.scope != SumScope::All
    }

    /// Returns the columns after the rate.
    fn columns(&self) -> String {
        let (figures, layout) = (self.figures, self.settings.layout());
        let datagram_columns =
            |count: u64| format!(" {count}{:>8.0} pps", per_second(figures, count));
        match (figures.is_udp, self.is_enhanced, self.is_bidirectional) {
            (true, _, true) if self.scope != SumScope::All => {
                datagram_columns(figures.expected_datagrams + figures.calls)
            }
            (true, _, true) if layout.sums_both_directions && !self.settings.is_server => {
                String::new()
            }
            (true, _, true) => {
                let (lost, total) = (figures.lost(), figures.expected_datagrams + figures.calls);
                format!("   {lost}/{total} ({}%)", format_percent(lost, total))
            }
            (true, ..) if self.is_udp_receiver => self.datagram_receive_columns(),
            (true, true, false) => datagram_send_columns(figures, ""),
            (false, ..) if self.lacks_columns() => String::new(),
            (false, ..) if self.has_send_columns() => {
                format!(
                    "  {}/{}{:>10}",
                    figures.calls, figures.failed_sends, figures.retransmits
                )
            }
            (false, ..) if layout.counts_flows && figures.has_trip_times => {
                let stats = figures.timing.as_ref().map(|(_, stats)| stats.summary_ms());
                let [mean_ms, ..] = stats.unwrap_or_default();
                let in_progress = figures.bits_per_second() / 8.0 * mean_ms / 1e3;
                let in_progress = self.settings.output.format.size(in_progress);
                format!("  {in_progress}{}", read_columns(figures))
            }
            (false, ..) => read_columns(figures),
            (true, false, false) => String::new(),
        }
    }

    fn datagram_receive_columns(&self) -> String {
        let (figures, settings) = (self.figures, self.settings);
        let sum_only = settings.output.sum_only;
        let (lost, expected) = (figures.lost(), figures.expected_datagrams);
        if (sum_only || self.is_enhanced) && settings.layout().counts_flows {
            let counts = figures.datagrams.unwrap_or_default();
            let latency = DelayStats::from_counts(&counts).map_or_else(
                || "-/-/-".to_owned(),
                |stats| {
                    let [mean, min, max, _] = stats.all_ms();
                    format!("{mean:.3}/{min:.3}/{max:.3}")
                },
            );
            format!(
                "  {lost}/{expected} ({}%)  {latency}  {:.0} pps",
                format_percent(lost, expected),
                per_second(figures, expected)
            )
        } else if sum_only || self.is_enhanced {
            format!(
                "  {lost}/{expected}{:>9.0} pps",
                per_second(figures, expected)
            )
        } else {
            format!("   {lost}/{expected} ({}%)", format_percent(lost, expected))
        }
    }
}
