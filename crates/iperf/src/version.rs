//! The versions of stock iperf 2 whose output linerate prints.
//!
//! They differ in the tables of this module only.

use getopt::stock_version::StockVersion;

/// A version of stock iperf 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Debian 12's.
    V2_1_8,
    /// Debian 13's, and the newest one.
    #[default]
    V2_2_1,
}

impl StockVersion for Version {
    const PROGRAM: &'static str = "iperf";
    const ALL: &'static [Self] = &[Self::V2_1_8, Self::V2_2_1];
}

/// The headers above the lines with figures.
pub(crate) struct Headers {
    pub(crate) tcp_sender: &'static str,
    /// With the kernel's pacing (`--fq-rate`).
    pub(crate) tcp_paced_sender: &'static str,
    pub(crate) write_times: &'static str,
    pub(crate) frames_sent: &'static str,
    pub(crate) bounceback: &'static str,
    pub(crate) udp_sender: &'static str,
    pub(crate) udp_receiver: &'static str,
    /// With `--trip-times`, and of the server's report.
    pub(crate) udp_timed_receiver: &'static str,
    pub(crate) udp_frames: &'static str,
    pub(crate) tcp_sender_sum: &'static str,
    pub(crate) tcp_receiver_sum: &'static str,
    /// With `--trip-times`.
    pub(crate) tcp_timed_receiver_sum: &'static str,
    pub(crate) udp_sender_sum: &'static str,
    pub(crate) udp_receiver_sum: &'static str,
}

/// What differs between versions.
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub(crate) struct Layout {
    /// The version in messages, and its release stage.
    pub(crate) wire_version: [u32; 2],
    /// The output of `-v`.
    pub(crate) version_text: &'static str,
    /// The output of `-h`, recorded: it repeats some options and has no consistent order.
    pub(crate) usage: &'static str,
    /// Whether `-h` and `-v` print on standard output and succeed.
    pub(crate) help_is_success: bool,
    pub(crate) headers: Headers,
    /// The number of bins of a histogram without a number.
    pub(crate) histogram_bins: u32,
    /// The blank before the name of a histogram of a bounceback test.
    pub(crate) bounceback_histogram_space: &'static str,
    /// The note of a client that measures the durations of its writes.
    pub(crate) write_timer_note: &'static str,
    /// Whether enhanced reports have the bytes in flight, and windows in segments.
    pub(crate) has_segments: bool,
    /// Whether UDP reports count timeouts of calls and truncated datagrams.
    pub(crate) counts_timeouts: bool,
    /// Whether the sums of enhanced reports count their flows and have a header of their own.
    pub(crate) counts_flows: bool,
    /// Whether a client of `-d` or `-r` prints the sum of both directions, and an enhanced one that
    /// of a full-duplex connection as a server does.
    pub(crate) sums_both_directions: bool,
    /// Whether connection lines have the descriptor of the socket (`sock=3`).
    pub(crate) names_sockets: bool,
    /// Whether ordinary connection lines have TCP's initial state (`icwnd/mss/irtt=…`).
    pub(crate) always_has_initial_state: bool,
    /// Whether a type of service is printed as DSCP and ECN, too.
    pub(crate) has_dscp: bool,
    /// Whether TCP's congestion control is printed although it is the default.
    pub(crate) names_congestion_control: bool,
    /// Whether clients send the congestion control of `-Z`, and servers use it.
    pub(crate) sends_congestion_control: bool,
    /// Whether a server prints the date of full-duplex connections.
    pub(crate) dates_full_duplex: bool,
    /// Whether a client's header has the flag of `--txstart-time`.
    pub(crate) flags_scheduled_start: bool,
    /// Whether a server names the scheduled start that a client's header has with the flag.
    pub(crate) names_scheduled_start: bool,
    /// Whether an enhanced server names IPv6.
    pub(crate) names_ipv6: bool,
    /// Whether the line about `--near-congestion` follows that about the type of service.
    pub(crate) has_late_near_congestion: bool,
    /// Whether a connection line begins with the note about `--tcp-write-prefetch`, also that of a
    /// server which sends.
    pub(crate) has_early_prefetch: bool,
    /// Whether dates have milliseconds.
    pub(crate) has_millis: bool,
    /// Whether a sender's settings have the size of its bursts.
    pub(crate) has_burst_size: bool,
    /// The decimals of the period of bursts.
    pub(crate) burst_period_decimals: usize,
    /// Whether the settings of bounceback tests have the sizes of requests and replies.
    pub(crate) has_reply_size: bool,
    /// Whether CSV has sums, and `-e` and `-y C` together print all figures, with a header.
    pub(crate) has_enhanced_csv: bool,
    /// Whether clients report the deviations from the schedule of frames.
    pub(crate) reports_schedule_errors: bool,
    /// Whether `--trip-times` and `--tcp-write-times` of a TCP client imply `-e`.
    pub(crate) timing_is_enhanced: bool,
    /// Whether several flows end with a line about connect times.
    pub(crate) summarizes_connect_times: bool,
    /// Whether histograms of datagrams have the longest latency.
    pub(crate) has_longest_datagram: bool,
    /// Whether an enhanced server's buffer size of UDP is plain bytes.
    pub(crate) has_plain_datagram_size: bool,
    /// Whether a line about a failed connect call names the flow, the server and the date.
    pub(crate) details_connect_errors: bool,
    /// Whether a line about a failed receive call names the flow.
    pub(crate) names_failed_receivers: bool,
}

const LAYOUT_2_1_8: Layout = Layout {
    wire_version: [0x0002_0001, 0x0008_0003],
    version_text: "iperf version 2.1.8 (12 August 2022) pthreads\n",
    usage: include_str!("options/usage-2.1.8.txt"),
    help_is_success: false,
    headers: Headers {
        tcp_sender: "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT(var)        NetPwr\n",
        tcp_paced_sender: "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT(var)        NetPwr\n",
        write_times: "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT        NetPwr  write-times avg/min/max/stdev (cnt)\n",
        frames_sent: "[ ID] Interval            Transfer     Bandwidth      Write/Err  Rtry     Cwnd/RTT     isoch:tx/miss/slip  NetPwr\n",
        bounceback: "[ ID] Interval            Transfer    Bandwidth         BB cnt=avg/min/max/stdev         Rtry  Cwnd/RTT    RPS\n",
        udp_sender: "[ ID] Interval            Transfer     Bandwidth      Write/Err  PPS\n",
        udp_receiver: "[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total  Latency avg/min/max/stdev PPS  Rx/inP  NetPwr\n",
        udp_timed_receiver: "[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total  Latency avg/min/max/stdev PPS  Rx/inP  NetPwr\n",
        udp_frames: "[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total Latency avg/min/max/stdev  PPS  Frame:rx/lost  latency  NetPwr\n",
        // A TCP sum is printed below the header of its flows.
        tcp_sender_sum: "",
        tcp_receiver_sum: "",
        tcp_timed_receiver_sum: "",
        udp_sender_sum: "[ ID] Interval            Transfer     Bandwidth      Write/Err  PPS\n",
        udp_receiver_sum: "[SUM-cnt] Interval     Transfer     Bandwidth       Lost/Total    PPS\n",
    },
    histogram_bins: 10_000,
    bounceback_histogram_space: " ",
    write_timer_note: " (writetimer-enabled)",
    has_segments: false,
    counts_timeouts: false,
    counts_flows: false,
    sums_both_directions: false,
    names_sockets: true,
    always_has_initial_state: true,
    has_dscp: false,
    names_congestion_control: false,
    sends_congestion_control: false,
    dates_full_duplex: false,
    flags_scheduled_start: true,
    names_scheduled_start: false,
    names_ipv6: false,
    has_late_near_congestion: false,
    has_early_prefetch: false,
    has_millis: false,
    has_burst_size: false,
    burst_period_decimals: 2,
    has_reply_size: false,
    has_enhanced_csv: false,
    reports_schedule_errors: false,
    timing_is_enhanced: false,
    summarizes_connect_times: true,
    has_longest_datagram: false,
    has_plain_datagram_size: false,
    details_connect_errors: false,
    names_failed_receivers: false,
};

const LAYOUT_2_2_1: Layout = Layout {
    wire_version: [0x0002_0002, 0x0001_0001],
    version_text: "iperf version 2.2.1 (4 Nov 2024) pthreads\n",
    usage: include_str!("options/usage-2.2.1.txt"),
    help_is_success: true,
    headers: Headers {
        tcp_sender: "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     InF(pkts)/Cwnd(pkts)/RTT(var)        NetPwr\n",
        tcp_paced_sender: "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     InF(pkts)/Cwnd(pkts)/RTT(var)  fq-rate  NetPwr\n",
        write_times: "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry    InF(pkts)/Cwnd(pkts)/RTT(var)   NetPwr  write-times avg/min/max/stdev (cnt)\n",
        frames_sent: "[ ID] Interval            Transfer     Bandwidth      Write/Err  Rtry     Cwnd(pkts)/RTT(var)     isoch:tx/miss/slip  NetPwr\n",
        bounceback: "[ ID] Interval            Transfer    Bandwidth         BB cnt=avg/min/max/stdev         Rtry  Cwnd(pkts)/RTT(var)   Tx/Rx bytes  RPS(avg)\n",
        udp_sender: "[ ID] Interval            Transfer     Bandwidth      Write/Err/Timeo  PPS\n",
        udp_receiver: "[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total  Latency avg/min/max/stdev PPS Read/Timeo/NA NetPwr\n",
        udp_timed_receiver: "[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total  Latency avg/min/max/stdev PPS  Rx/inP  Read/Timeo/Trunc  NetPwr\n",
        udp_frames: "[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total Latency avg/min/max/stdev  PPS  Frame:rx/lost  Frame-latency avg/min/max/stdev  NetPwr\n",
        tcp_sender_sum: "[SUM-cnt] Interval            Transfer    Bandwidth       Write/Err  Rtry\n",
        tcp_receiver_sum: "[SUM-cnt] Interval            Transfer    Bandwidth       Reads=Dist\n",
        tcp_timed_receiver_sum: "[SUM-cnt] Interval            Transfer    Bandwidth       InP      Reads=Dist\n",
        udp_sender_sum: "[SUM-cnt] Interval            Transfer     Bandwidth      Write/Err  PPS\n",
        udp_receiver_sum: "[SUM-cnt] Interval     Transfer     Bandwidth       Lost/Total  Latency avg/min/max  PPS\n",
    },
    histogram_bins: 100_000,
    bounceback_histogram_space: "  ",
    write_timer_note: " (write timer enabled)",
    has_segments: true,
    counts_timeouts: true,
    counts_flows: true,
    sums_both_directions: true,
    names_sockets: false,
    always_has_initial_state: false,
    has_dscp: true,
    names_congestion_control: true,
    sends_congestion_control: true,
    dates_full_duplex: true,
    flags_scheduled_start: false,
    names_scheduled_start: true,
    names_ipv6: true,
    has_late_near_congestion: true,
    has_early_prefetch: true,
    has_millis: true,
    has_burst_size: true,
    burst_period_decimals: 3,
    has_reply_size: true,
    has_enhanced_csv: true,
    reports_schedule_errors: true,
    timing_is_enhanced: true,
    summarizes_connect_times: false,
    has_longest_datagram: true,
    has_plain_datagram_size: true,
    details_connect_errors: true,
    names_failed_receivers: true,
};

impl Version {
    /// Returns the version's name.
    pub fn name(self) -> &'static str {
        Self::name_at(self as usize)
    }

    /// Returns the version in messages, and its release stage.
    pub fn wire_version(self) -> [u32; 2] {
        self.layout().wire_version
    }

    /// Returns the version's layout.
    pub(crate) fn layout(self) -> &'static Layout {
        match self {
            Self::V2_1_8 => &LAYOUT_2_1_8,
            Self::V2_2_1 => &LAYOUT_2_2_1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::version_name;

    #[test]
    fn names_are_those_of_the_versions() {
        let names: Vec<_> = Version::ALL.iter().map(|version| version.name()).collect();
        assert_eq!(names, ["2.1.8", "2.2.1"]);
        assert_eq!(Version::default().name(), "2.2.1");
    }

    /// Debian's 2.2.1 calls itself a release candidate in messages.
    #[test]
    fn messages_have_the_number_of_the_version() {
        for (version, name) in [(Version::V2_1_8, "2.1.8"), (Version::V2_2_1, "2.2.1-rc")] {
            assert_eq!(version_name(version.wire_version()).as_deref(), Some(name));
        }
    }
}
