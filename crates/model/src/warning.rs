//! Warnings about a result, with the end that they concern and the evidence.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stats::confidence::ConfidenceGoal;

use crate::nanos::{Nanos, OptionalNanos};

/// A warning about a result, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// Both ends ran on one machine, in the same or different network namespaces. The CPU figure of
    /// each end includes both.
    SameHost,
    /// The data connection was connected to its own socket, by a TCP simultaneous open.
    SelfConnection,
    /// A CPU was almost never idle, so it may have limited the result.
    CpuSaturated {
        /// Which end.
        end: End,
        /// Busy time of the busiest CPU, in percent.
        busy_percent: f64,
    },
    /// A hypervisor gave CPU time of this guest to other guests.
    StealTime {
        /// Which end.
        end: End,
        /// CPU time that the hypervisor took, in percent.
        steal_percent: f64,
    },
    /// The sending thread never waited, so its CPU limited the rate, not the path.
    SenderLimited {
        /// CPU time of the thread in percent of the elapsed time.
        thread_percent: f64,
    },
    /// The kernel granted a smaller socket buffer than requested (`net.core.wmem_max`, `rmem_max`).
    BufferClipped {
        /// Which end.
        end: End,
        /// Which of the two buffers.
        buffer: SocketBuffer,
        /// Requested size in bytes.
        requested_bytes: u32,
        /// Granted size in bytes, as the kernel reports it: twice the largest permitted request.
        granted_bytes: u32,
    },
    /// The wall clock was set during the test. Times of day are wrong; durations are correct.
    ClockStepped {
        /// Step in seconds; positive if the clock was set forward.
        by_seconds: f64,
    },
    /// The last request of a datagram test was never answered. The lost datagram stopped the
    /// exchange, and the figures include the idle time until the end of the test.
    Stalled {
        /// Time without an answer, if transaction times were recorded.
        #[serde(rename = "waited_ns", with = "OptionalNanos")]
        waited: Option<Duration>,
    },
    /// A connection test reused ports in TIME_WAIT, which the kernel may refuse or delay.
    PortsReused {
        /// Number of opened connections.
        connections: u64,
        /// Number of available ports.
        ports: u32,
    },
    /// An end fell behind its schedule and did not reach the requested rate.
    PacingNotHeld {
        /// Which end.
        end: End,
        /// Requested passes per second.
        requested_per_second: f64,
        /// Measured passes per second.
        achieved_per_second: f64,
    },
    /// Intervals of an end's schedule started after the next one was due. The rate over the test
    /// was as requested, but passes ran without the pauses between them.
    PacingUneven {
        /// Which end.
        end: End,
        /// Late intervals in percent of all intervals.
        late_percent: f64,
        /// Largest delay of an interval.
        #[serde(rename = "worst_ns", with = "Nanos")]
        worst: Duration,
    },
    /// The peer did not pace as requested. It does not support pacing, or did not receive the
    /// request.
    NotPaced,
    /// The peer waits for its intervals by sleeping, although the request was to poll the clock.
    NotSpinning,
    /// The peer did not report a figure, because its protocol or version has no field for it.
    NotReportedByPeer {
        /// The missing figure.
        figure: String,
    },
    /// The test ended before its limit. The figures cover the time until then.
    EndedEarly {
        /// Duration of the test.
        #[serde(rename = "after_ns", with = "Nanos")]
        after: Duration,
    },
    /// Datagrams arrived after the test's time. The throughput does not include them.
    LateDatagrams {
        /// Number of late datagrams.
        datagrams: u64,
    },
    /// The sender's local queue overflowed (ENOBUFS), so part of the loss is local.
    SenderOverflow {
        /// Number of failed send calls.
        failed_sends: u64,
    },
    /// A requested setting is not in force.
    NotInForce {
        /// Which end.
        end: End,
        /// The setting's name, as in the manual pages.
        setting: String,
        /// Requested value.
        requested: String,
        /// Value in force, if known.
        in_force: Option<String>,
        /// Error text of the system, if it refused the setting.
        reason: Option<String>,
    },
    /// The peer runs on this host and uses the requested local port, so the test used another one.
    PortReplaced {
        /// The port.
        port: u16,
    },
    /// Multipath TCP was requested, but the test ran over plain TCP.
    FellBack,
    /// TCP Fast Open was requested, but the peer accepted no data with the first segment.
    NoDataInSyn,
    /// Other tests ran on this host at the same time. The CPU figures include all of them.
    HostShared {
        /// Lower bound of the number of other tests.
        tests: u32,
    },
    /// The peer served other tests at the same time.
    PeerShared {
        /// Number of other tests.
        tests: u32,
    },
    /// The confidence intervals of several iterations are wider than requested.
    IntervalNotReached {
        /// Number of iterations.
        iterations: u32,
    },
    /// A few similar results ended the test. Results can be similar by chance, so the interval
    /// covers the true mean less often than its confidence level.
    FewIterations {
        /// Number of iterations.
        iterations: u32,
    },
    /// The results of several iterations fall into two groups. Their mean represents neither.
    Bimodal {
        /// Number of results in the lower group.
        low: usize,
        /// Number of results in the upper group.
        high: usize,
        /// Difference of the upper group's mean from the lower group's, in percent of the lower.
        difference_percent: f64,
    },
    /// The rate had two levels within a run. The mean rate represents neither.
    TwoLevels {
        /// Time at the lower level, in percent of the run.
        low_percent: f64,
    },
    /// Requested counters of the CPU or the kernel that the machine lacks or forbids.
    NotCounted {
        /// Names of the counters.
        counters: Vec<String>,
        /// Reason in one line.
        reason: String,
    },
    /// Counters that the machine allows only in user space. The kernel's part is missing.
    UserSpaceOnly {
        /// Names of the counters.
        counters: Vec<String>,
    },
    /// An option that had no effect on this run.
    OptionUnused {
        /// The option.
        option: String,
        /// Reason in one line.
        reason: String,
    },
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The end that prints the warning.
    Local,
    /// The peer.
    Remote,
}

/// One of a socket's two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SocketBuffer {
    /// SO_SNDBUF.
    Send,
    /// SO_RCVBUF.
    Receive,
}

impl Warning {
    /// Returns the kind of the warning: the member `kind` in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SameHost => "same_host",
            Self::NotPaced => "not_paced",
            Self::NotSpinning => "not_spinning",
            Self::PacingUneven { .. } => "pacing_uneven",
            Self::PacingNotHeld { .. } => "pacing_not_held",
            Self::SelfConnection => "self_connection",
            Self::CpuSaturated { .. } => "cpu_saturated",
            Self::StealTime { .. } => "steal_time",
            Self::SenderLimited { .. } => "sender_limited",
            Self::BufferClipped { .. } => "buffer_clipped",
            Self::ClockStepped { .. } => "clock_stepped",
            Self::Stalled { .. } => "stalled",
            Self::PortsReused { .. } => "ports_reused",
            Self::NotReportedByPeer { .. } => "not_reported_by_peer",
            Self::EndedEarly { .. } => "ended_early",
            Self::LateDatagrams { .. } => "late_datagrams",
            Self::SenderOverflow { .. } => "sender_overflow",
            Self::NotInForce { .. } => "not_in_force",
            Self::PortReplaced { .. } => "port_replaced",
            Self::FellBack => "fell_back",
            Self::NoDataInSyn => "no_data_in_syn",
            Self::HostShared { .. } => "host_shared",
            Self::PeerShared { .. } => "peer_shared",
            Self::IntervalNotReached { .. } => "interval_not_reached",
            Self::FewIterations { .. } => "few_iterations",
            Self::Bimodal { .. } => "bimodal",
            Self::TwoLevels { .. } => "two_levels",
            Self::NotCounted { .. } => "not_counted",
            Self::UserSpaceOnly { .. } => "user_space_only",
            Self::OptionUnused { .. } => "option_unused",
        }
    }

    /// Returns whether the test did not apply an option as requested.
    pub fn is_unmet_request(&self) -> bool {
        matches!(
            self,
            Self::NotInForce { .. }
                | Self::PortReplaced { .. }
                | Self::PacingNotHeld { .. }
                | Self::NotPaced
                | Self::NotSpinning
                | Self::FellBack
                | Self::NoDataInSyn
        )
    }

    /// Returns a warning if the results of several iterations fall into two groups.
    pub fn bimodal(results: &[f64]) -> Option<Self> {
        let modes = stats::find_modes(results)?;
        Some(Self::Bimodal {
            low: modes.low_samples,
            high: modes.high_samples,
            difference_percent: 100.0 * (modes.high / modes.low - 1.0),
        })
    }

    /// Returns the warnings for the results of several iterations. `reached` is whether the
    /// confidence intervals are as narrow as requested.
    pub fn from_iterations(results: &[f64], goal: &ConfidenceGoal, reached: bool) -> Vec<Self> {
        /// Up to this number of iterations, the interval covers the true mean much less often than
        /// the confidence level promises: `bench/confidence`.
        const MAX_FEW_ITERATIONS: u32 = 5;
        let iterations = u32::try_from(results.len()).unwrap_or(u32::MAX);
        let mut warnings = Vec::new();
        if !reached {
            warnings.push(Self::IntervalNotReached { iterations });
        } else if iterations <= MAX_FEW_ITERATIONS && iterations < goal.max_samples {
            warnings.push(Self::FewIterations { iterations });
        }
        warnings.extend(Self::bimodal(results));
        warnings
    }

    /// Returns the text without the figure, which may differ from test to test.
    #[expect(clippy::too_many_lines, reason = "one arm per warning")]
    pub fn summary(&self) -> String {
        match self {
            Self::SameHost => {
                "both ends run on one machine: each CPU figure contains both".to_owned()
            }
            Self::SelfConnection => {
                "the data connection was connected to itself; the result measures only this socket"
                    .to_owned()
            }
            Self::CpuSaturated { end, .. } => {
                format!("a CPU of {end} was almost never idle; it may have limited the result")
            }
            Self::StealTime { end, .. } => format!(
                "the hypervisor took CPU time from {end}; rates are too low and latencies too long"
            ),
            Self::SenderLimited { .. } => {
                "the sending thread limited the rate; it never waited for the path".to_owned()
            }
            Self::BufferClipped {
                end,
                buffer,
                requested_bytes,
                granted_bytes: given_bytes,
            } => format!(
                "{end} has a {buffer} of {given_bytes} bytes instead of twice the requested \
                 {requested_bytes}; the kernel limits it ({})",
                buffer.limiting_sysctl()
            ),
            Self::ClockStepped { .. } => {
                "the wall clock was set during the test: times of day are wrong, durations are not"
                    .to_owned()
            }
            Self::Stalled { .. } => {
                "the last request was never answered; a lost datagram stops this test, and \
                 the figures include the time until its end (test option -e resends it)"
                    .to_owned()
            }
            Self::PortsReused { ports, .. } => format!(
                "the test opened more connections than its {ports} ports; it reused ports in \
                 TIME_WAIT, which the kernel may delay"
            ),
            Self::PacingNotHeld { end, .. } => format!("{end} fell behind its schedule; the result is for a lower rate"),
            Self::PacingUneven { end, .. } => format!(
                "the pace of {end} was uneven: intervals started after the next one was due"
            ),
            Self::NotPaced => "the peer does not pace; it ran without pauses".to_owned(),
            Self::NotSpinning => {
                "the peer did not spin between its intervals; it slept (a linerate server spins only \
                 with netserver --allow-spin)"
                    .to_owned()
            }
            Self::NotReportedByPeer { figure } => format!("the peer did not report {figure}"),
            Self::EndedEarly { .. } => {
                "the test ended early; the figures cover the time until then".to_owned()
            }
            Self::LateDatagrams { .. } => {
                "datagrams arrived after the test's time; the throughput does not include them"
                    .to_owned()
            }
            Self::SenderOverflow { .. } => {
                "the sender's local queue overflowed (ENOBUFS); part of the loss is local"
                    .to_owned()
            }
            Self::NotInForce {
                end,
                setting,
                requested,
                in_force,
                reason,
            } => {
                let reason = format_reason(reason.as_deref(), in_force.as_deref());
                format!("{end} did not apply {setting} {requested}{reason}")
            }
            Self::PortReplaced { port } => {
                format!("the peer on this host uses port {port}; this end used another port")
            }
            Self::FellBack => {
                "Multipath TCP fell back to TCP: the peer or the path does not support it \
                 (net.mptcp.enabled)"
                    .to_owned()
            }
            Self::NoDataInSyn => {
                "TCP Fast Open sent no data with the first segment; a first connection only fetches \
                 the cookie (net.ipv4.tcp_fastopen needs bit 1 on this host and bit 2 on the peer)"
                    .to_owned()
            }
            Self::IntervalNotReached { .. } => {
                "the confidence interval is wider than requested".to_owned()
            }
            Self::FewIterations { .. } => {
                "the confidence interval was reached after few iterations; its true confidence level \
                 is lower (a fixed number of iterations avoids this)"
                    .to_owned()
            }
            Self::Bimodal { .. } => {
                "the iterations fall into two groups: their mean represents neither".to_owned()
            }
            Self::TwoLevels { .. } => {
                "the rate had two levels within the test: its mean represents neither".to_owned()
            }
            Self::HostShared { .. } => {
                "other tests ran on this host at the same time: CPU figures and service demands include them"
                    .to_owned()
            }
            Self::PeerShared { .. } => "the peer served other tests at the same time".to_owned(),
            Self::NotCounted { counters, reason } => {
                format!("not counted: {} ({reason})", counters.join(", "))
            }
            Self::UserSpaceOnly { counters } => format!(
                "counted in user space only: {} (kernel.perf_event_paranoid)",
                counters.join(", ")
            ),
            Self::OptionUnused { option, reason } => format!("{option}: {reason}"),
        }
    }

    /// Returns whether both warnings are equal except for their figures.
    pub fn equals_except_figure(&self, other: &Self) -> bool {
        self.summary() == other.summary()
    }

    /// Returns the figure and the text that follows it: a space and a unit, or nothing.
    pub fn figure(&self) -> Option<(f64, &'static str)> {
        match self {
            Self::CpuSaturated { busy_percent, .. } => Some((*busy_percent, " % busy")),
            Self::StealTime { steal_percent, .. } => Some((*steal_percent, " %")),
            Self::SenderLimited { thread_percent } => Some((*thread_percent, " % busy")),
            Self::ClockStepped { by_seconds } => Some((*by_seconds, " s")),
            Self::Stalled {
                waited: Some(waited),
            } => Some((waited.as_secs_f64(), " s")),
            Self::PortsReused { connections, .. } => Some((*connections as f64, " connections")),
            Self::EndedEarly { after } => Some((after.as_secs_f64(), " s")),
            Self::LateDatagrams { datagrams } => Some((*datagrams as f64, "")),
            Self::SenderOverflow { failed_sends } => Some((*failed_sends as f64, " times")),
            Self::HostShared { tests } | Self::PeerShared { tests } => {
                Some((f64::from(*tests), ""))
            }
            Self::PacingNotHeld {
                requested_per_second,
                achieved_per_second,
                ..
            } => Some((
                100.0 * achieved_per_second / requested_per_second,
                " % of the requested rate",
            )),
            Self::PacingUneven { late_percent, .. } => Some((*late_percent, " % of the intervals")),
            Self::IntervalNotReached { iterations } | Self::FewIterations { iterations } => {
                Some((f64::from(*iterations), " iterations"))
            }
            Self::Bimodal {
                difference_percent, ..
            } => Some((*difference_percent, " % apart")),
            Self::TwoLevels { low_percent } => {
                Some((*low_percent, " % of the time at the lower level"))
            }
            Self::SameHost
            | Self::SelfConnection
            | Self::NotPaced
            | Self::NotSpinning
            | Self::BufferClipped { .. }
            | Self::Stalled { waited: None }
            | Self::NotReportedByPeer { .. }
            | Self::NotInForce { .. }
            | Self::FellBack
            | Self::NoDataInSyn
            | Self::PortReplaced { .. }
            | Self::NotCounted { .. }
            | Self::UserSpaceOnly { .. }
            | Self::OptionUnused { .. } => None,
        }
    }
}

/// Returns the suffix of the text that gives the reason, or else the value in force.
fn format_reason(reason: Option<&str>, in_force: Option<&str>) -> String {
    match (reason, in_force) {
        (Some(reason), _) => format!(": {reason}"),
        (None, Some(value)) => format!(" (in force: {value})"),
        (None, None) => String::new(),
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        match self.figure() {
            Some((figure, unit)) if figure.fract() == 0.0 => write!(f, " ({figure:.0}{unit})"),
            Some((figure, unit)) => write!(f, " ({figure:.2}{unit})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "this host",
            Self::Remote => "the peer",
        })
    }
}

impl SocketBuffer {
    /// Returns the sysctl that limits the buffer of an unprivileged program: socket(7).
    fn limiting_sysctl(self) -> &'static str {
        match self {
            Self::Send => "net.core.wmem_max",
            Self::Receive => "net.core.rmem_max",
        }
    }
}

impl fmt::Display for SocketBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send buffer",
            Self::Receive => "receive buffer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_the_name_in_json() {
        for warning in [
            Warning::SameHost,
            Warning::NotInForce {
                end: End::Local,
                setting: "CPU".to_owned(),
                requested: "99".to_owned(),
                in_force: None,
                reason: None,
            },
        ] {
            let json = serde_json::to_value(&warning).unwrap();
            assert_eq!(json["kind"], warning.kind());
        }
    }
}
