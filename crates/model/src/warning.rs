//! Doubts about a result, as values: what kind, which end, and the evidence.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stats::confidence::Goal;

use crate::plan::nanos;

/// A doubt about a result, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// Both ends ran on one machine, in one network namespace or several: each CPU figure contains both.
    SameHost,
    /// The data connection's two ends were one socket: TCP's simultaneous open with itself.
    SelfConnection,
    /// A CPU had no idle time left, so that the CPU may be what was measured.
    CpuSaturated {
        /// Which end.
        end: End,
        /// The busiest CPU's share.
        busy_percent: f64,
    },
    /// A hypervisor gave this guest's time to others.
    StealTime {
        /// Which end.
        end: End,
        /// The share that was taken.
        steal_percent: f64,
    },
    /// The sending thread never waited: its CPU, not the path, set the rate.
    SenderLimited {
        /// The thread's own CPU time, of the time that passed.
        thread_percent: f64,
    },
    /// The kernel gave a socket buffer smaller than was asked for (`net.core.wmem_max`, `rmem_max`).
    BufferClipped {
        /// Which end.
        end: End,
        /// Which of the two buffers.
        buffer: SocketBuffer,
        /// What was asked for, in bytes.
        asked_bytes: u32,
        /// What the kernel gave, in bytes of its own account: twice what it allows to be asked.
        given_bytes: u32,
    },
    /// The wall clock was set while the test ran; durations are not concerned, labels are.
    ClockStepped {
        /// How far, in seconds; forward is positive.
        by_seconds: f64,
    },
    /// The last request of a datagram test was never answered: what was lost stopped the test, and the
    /// time until its end is in the figures.
    Stalled {
        /// How long nothing was answered, where the times of the transactions tell.
        #[serde(rename = "for_ns", with = "crate::outcome::optional_nanos")]
        waited: Option<Duration>,
    },
    /// A connection test used ports again within TIME_WAIT, which the kernel may refuse or delay.
    PortsReused {
        /// Connections that were opened.
        connections: u64,
        /// Ports that there were for them.
        ports: u32,
    },
    /// An end fell behind its schedule: the rate that was asked for was not reached.
    PacingNotHeld {
        /// Which end.
        end: End,
        /// Passes a second that were asked for.
        asked_per_second: f64,
        /// Passes a second as they were.
        reached_per_second: f64,
    },
    /// Intervals of an end's schedule began when the next one was already due: the rate was as asked
    /// for over the whole test, but what was to be spaced ran together.
    PacingUneven {
        /// Which end.
        end: End,
        /// Of all intervals.
        late_percent: f64,
        /// How late the latest began.
        #[serde(rename = "worst_ns", with = "nanos")]
        worst: Duration,
    },
    /// The peer was asked to keep to a pace and did not: it cannot, or was not told.
    NotPaced,
    /// The peer lets its intervals pass by sleeping, though it was asked to look at the clock.
    NotSpinning,
    /// The peer's protocol or version has no place for a figure.
    PeerCannotTell {
        /// What is missing.
        figure: String,
    },
    /// The test was ended before its time; the figures are of what was done until then.
    EndedEarly {
        /// How long it ran.
        #[serde(rename = "after_ns", with = "nanos")]
        after: Duration,
    },
    /// Datagrams came after the test's time. They are not in the throughput.
    LateDatagrams {
        /// How many.
        datagrams: u64,
    },
    /// The sender's own queue overflowed (ENOBUFS): it, not the path, dropped data.
    SenderOverflow {
        /// How often.
        failed_sends: u64,
    },
    /// A setting that was asked for is not in force.
    NotInForce {
        /// Which end.
        end: End,
        /// The setting's name, as the manual pages have it.
        setting: String,
        /// The value that was asked for.
        asked: String,
        /// The value in force, if it is known.
        in_force: Option<String>,
        /// Why, in the system's words, if it refused the setting.
        why: Option<String>,
    },
    /// The local port that was asked for is the peer's own on this host; another one was taken.
    PortReplaced {
        /// The port.
        port: u16,
    },
    /// Multipath TCP was asked for, and it was plain TCP that was measured.
    FellBack,
    /// TCP Fast Open was asked for, and no data was taken with the first segment.
    NoDataInSyn,
    /// Other tests ran on this host at the same time: each one's CPU figures contain them all.
    HostShared {
        /// How many others, at least.
        tests: u32,
    },
    /// The peer served other tests at the same time.
    PeerShared {
        /// How many others.
        tests: u32,
    },
    /// The means of several iterations are not known as well as was asked for.
    IntervalNotReached {
        /// How many iterations there were.
        iterations: u32,
    },
    /// Few iterations were enough, as they lay close together. That they do by chance, too, so that
    /// such an interval covers the true mean less often than its level says.
    FewIterations {
        /// How many there were.
        iterations: u32,
    },
    /// The results of several iterations fall into two groups: their mean stands for neither.
    Bimodal {
        /// How many are in the lower group …
        low: usize,
        /// … and in the upper one, …
        high: usize,
        /// … whose mean is this much larger.
        apart_percent: f64,
    },
    /// The rate had two levels within a run: its mean stands for neither.
    TwoLevels {
        /// The share of the time that it was at the lower one.
        low_percent: f64,
    },
    /// Counters of the CPU or the kernel that were asked for, and that the machine does not have or allow.
    NotCounted {
        /// By their names.
        counters: Vec<String>,
        /// Why not.
        why: String,
    },
    /// Counters that the machine allows in user space alone: the kernel's part is missing.
    UserSpaceOnly {
        /// By their names.
        counters: Vec<String>,
    },
    /// An option that had no effect on this run.
    OptionUnused {
        /// The option.
        option: String,
        /// Why.
        why: String,
    },
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The end that reports.
    Here,
    /// Its peer.
    There,
}

/// One of a socket's two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketBuffer {
    /// SO_SNDBUF.
    Send,
    /// SO_RCVBUF.
    Receive,
}

impl Warning {
    /// What kind of doubt it is: the member `kind` of its JSON.
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
            Self::PeerCannotTell { .. } => "peer_cannot_tell",
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

    /// Whether an option was not carried out as it was given.
    pub fn is_of_a_request(&self) -> bool {
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

    /// The doubt that several results of one test give by falling into two groups.
    pub fn bimodal(results: &[f64]) -> Option<Self> {
        let modes = stats::modes(results)?;
        Some(Self::Bimodal {
            low: modes.low_samples,
            high: modes.high_samples,
            apart_percent: 100.0 * (modes.high / modes.low - 1.0),
        })
    }

    /// What several iterations give to doubt, of which these are the results; whether the rule that ends
    /// them was satisfied by them.
    pub fn of_iterations(results: &[f64], goal: &Goal, reached: bool) -> Vec<Self> {
        /// A run that the rule ends at so few covers much less than its level says: `bench/confidence`.
        const FEW: u32 = 5;
        let iterations = u32::try_from(results.len()).unwrap_or(u32::MAX);
        let mut doubts = Vec::new();
        if !reached {
            doubts.push(Self::IntervalNotReached { iterations });
        } else if iterations <= FEW && iterations < goal.max {
            doubts.push(Self::FewIterations { iterations });
        }
        doubts.extend(Self::bimodal(results));
        doubts
    }

    /// What the doubt is, without its figure: equal for all tests that have it.
    #[expect(clippy::too_many_lines, reason = "one text for each kind")]
    pub fn gist(&self) -> String {
        match self {
            Self::SameHost => {
                "both ends run on one machine: each CPU figure contains both".to_owned()
            }
            Self::SelfConnection => {
                "the data connection was connected to itself: nothing but this socket was measured".to_owned()
            }
            Self::CpuSaturated { end, .. } => {
                format!("a CPU of {end} had next to no idle time: it may be what was measured")
            }
            Self::StealTime { end, .. } => format!(
                "the hypervisor took CPU time of {end} away: rates are too low and latencies too long"
            ),
            Self::SenderLimited { .. } => {
                "the sending thread was the limit: it never had to wait for the path".to_owned()
            }
            Self::BufferClipped {
                end,
                buffer,
                asked_bytes,
                given_bytes,
            } => format!(
                "{end} has a {buffer} of {given_bytes} bytes, not twice the {asked_bytes} that were asked for: \
                 the kernel's maximum ({})",
                buffer.maximum()
            ),
            Self::ClockStepped { .. } => {
                "the wall clock was set during the test: times of day are wrong, durations are not".to_owned()
            }
            Self::Stalled { .. } => {
                "the last request was never answered: a lost datagram stops this test, and the time that it stood \
                 still is in the figures (test option -e asks again)"
                    .to_owned()
            }
            Self::PortsReused { ports, .. } => format!(
                "more connections than its {ports} ports: ports were used again within TIME_WAIT, which the kernel may \
                 delay"
            ),
            Self::PacingNotHeld { end, .. } => format!("the pace of {end} was not held"),
            Self::PacingUneven { end, .. } => format!(
                "the pace of {end} was uneven: intervals began when the next one was due already"
            ),
            Self::NotPaced => "the peer does not pace: it went as fast as it could".to_owned(),
            Self::NotSpinning => {
                "the peer did not spin: it slept between its intervals; a linerate spins if it allows that \
                 (netserver --allow-spin)"
                    .to_owned()
            }
            Self::PeerCannotTell { figure } => format!("the peer cannot tell {figure}"),
            Self::EndedEarly { .. } => {
                "ended early: the figures are of the time until then".to_owned()
            }
            Self::LateDatagrams { .. } => {
                "datagrams came after the test's time and are not in the throughput".to_owned()
            }
            Self::SenderOverflow { .. } => {
                "the sender's own queue overflowed (ENOBUFS): not all loss is the path's".to_owned()
            }
            Self::NotInForce {
                end,
                setting,
                asked,
                in_force,
                why,
            } => {
                let reason = reason(why.as_deref(), in_force.as_deref());
                format!("{end} did not take {setting} {asked}{reason}")
            }
            Self::PortReplaced { port } => {
                format!("port {port} is the peer's own on this host: another one was used at this end")
            }
            Self::FellBack => {
                "Multipath TCP fell back to TCP: the peer, or the path, does not take it (net.mptcp.enabled)".to_owned()
            }
            Self::NoDataInSyn => {
                "TCP Fast Open took no data with the first segment: a first connection fetches the cookie, and the \
                 peer needs bit 2 of net.ipv4.tcp_fastopen, this host bit 1"
                    .to_owned()
            }
            Self::IntervalNotReached { .. } => {
                "the confidence interval is wider than was asked for".to_owned()
            }
            Self::FewIterations { .. } => {
                "the confidence interval was reached with few iterations, and covers less often than its level says \
                 (a number that is fixed beforehand does not let chance end the test)"
                    .to_owned()
            }
            Self::Bimodal { .. } => {
                "the iterations fall into two groups: their mean stands for neither".to_owned()
            }
            Self::TwoLevels { .. } => {
                "the rate had two levels within the test: its mean stands for neither".to_owned()
            }
            Self::HostShared { .. } => {
                "other tests ran on this host at the same time: CPU figures and service demands contain them"
                    .to_owned()
            }
            Self::PeerShared { .. } => "the peer served other tests at the same time".to_owned(),
            Self::NotCounted { counters, why } => {
                format!("not counted: {} ({why})", counters.join(", "))
            }
            Self::UserSpaceOnly { counters } => format!(
                "counted in user space alone: {} (kernel.perf_event_paranoid)",
                counters.join(", ")
            ),
            Self::OptionUnused { option, why } => format!("{option}: {why}"),
        }
    }

    /// Whether both are the same doubt, about the same end, whatever their figures are.
    pub fn is_like(&self, other: &Self) -> bool {
        self.gist() == other.gist()
    }

    /// The doubt's figure, with what stands behind it (a unit with its blank, or nothing).
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
                asked_per_second,
                reached_per_second,
                ..
            } => Some((
                100.0 * reached_per_second / asked_per_second,
                " % of the rate that was asked for",
            )),
            Self::PacingUneven { late_percent, .. } => Some((*late_percent, " % of them")),
            Self::IntervalNotReached { iterations } | Self::FewIterations { iterations } => {
                Some((f64::from(*iterations), " iterations"))
            }
            Self::Bimodal { apart_percent, .. } => Some((*apart_percent, " % apart")),
            Self::TwoLevels { low_percent } => {
                Some((*low_percent, " % of the time at the lower one"))
            }
            Self::SameHost
            | Self::SelfConnection
            | Self::NotPaced
            | Self::NotSpinning
            | Self::BufferClipped { .. }
            | Self::Stalled { waited: None }
            | Self::PeerCannotTell { .. }
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

/// Why a setting is not in force, or what is.
fn reason(why: Option<&str>, in_force: Option<&str>) -> String {
    match (why, in_force) {
        (Some(why), _) => format!(": {why}"),
        (None, Some(value)) => format!(" (in force: {value})"),
        (None, None) => String::new(),
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.gist())?;
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
            Self::Here => "this host",
            Self::There => "the peer",
        })
    }
}

impl SocketBuffer {
    /// The setting that bounds what an unprivileged program gets: socket(7).
    fn maximum(self) -> &'static str {
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
                end: End::Here,
                setting: "CPU".to_owned(),
                asked: "99".to_owned(),
                in_force: None,
                why: None,
            },
        ] {
            let json = serde_json::to_value(&warning).unwrap();
            assert_eq!(json["kind"], warning.kind());
        }
    }
}
