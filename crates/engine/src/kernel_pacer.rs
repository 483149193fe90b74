//! Sends datagrams ahead of their times; the kernel or the NIC holds them until then.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{DepartureClock, Spacing, SpacingMethod};
use sys::call::{self, Error, KernelAddress};
use sys::clock::{clock_offset_ns, monotonic_ns, sleep_until, wall_clock_offset_ns};
use sys::interface::{self, Qdisc};
use sys::message::{self, ControlMessage};
use sys::stamped::{self, Departure, StampedBatch};
use sys::{Address, SockRef, option};

use crate::end::LoopEnd;
use crate::spacing::{DepartureStatistics, OutgoingDatagram, SendSchedule};
use crate::stop::Stop;

/// Maximum datagrams in the kernel ahead of their times. fq drops a flow's datagrams beyond 100
/// (`flow_limit`).
const MAX_AHEAD: u64 = 64;

/// Maximum time by which a datagram is sent ahead, in nanoseconds.
const MAX_AHEAD_NS: u64 = 4_000_000;

/// Time from now to the new launch time of a late datagram, in nanoseconds. etf drops datagrams
/// after their launch time.
const LAUNCH_MARGIN_NS: u64 = 100_000;

/// Priority of datagrams with launch times for etf. etf must be below a discipline that separates
/// this traffic by priority. The examples in tc-etf(8) use this value.
const ETF_PRIORITY: i32 = 3;

/// Maximum wait for the kernel's last departure reports.
const MAX_REPORT_WAIT: Duration = Duration::from_millis(50);

/// A socket whose datagrams the kernel holds until their times.
pub(crate) struct KernelPacer<'a> {
    socket: BorrowedFd<'a>,
    launch: Option<LaunchSettings>,
    /// Departure times as reported by the kernel.
    reports: DepartureReports,
}

/// Settings for one launch time per datagram.
struct LaunchSettings {
    /// The queueing discipline's clock minus the monotonic clock.
    clock_offset_ns: i64,
    margin_ns: u64,
    /// The socket's former priority, if etf needs another one.
    former: Option<FormerPriority>,
}

/// The socket's priority before the test, and the peer, for [`set_priority`] after the test.
struct FormerPriority {
    priority: i32,
    peer: KernelAddress,
}

impl<'a> KernelPacer<'a> {
    /// Prepares a connected socket. Returns `None` for [`SpacingMethod::Spin`].
    pub(crate) fn prepare(
        method: SpacingMethod,
        socket: BorrowedFd<'a>,
        spacing: &Spacing,
        datagram_bytes: usize,
    ) -> Result<Option<Self>, String> {
        let launch = match method {
            SpacingMethod::Spin => return Ok(None),
            SpacingMethod::LaunchTime => Some(enable_launch_times(socket)?),
            SpacingMethod::PacingRate => {
                enable_pacing_rate(socket, spacing, datagram_bytes)?;
                None
            }
        };
        Ok(Some(Self {
            socket,
            launch,
            reports: DepartureReports::begin(socket),
        }))
    }

    /// Sends all datagrams of the schedule. Repeatedly sends those due within the next few
    /// milliseconds, then sleeps for half of that time.
    ///
    /// Returns the reason of the end, and the time when the next datagram would be due.
    pub(crate) fn send(
        &mut self,
        mut outgoing: OutgoingDatagram<'_>,
        mut schedule: SendSchedule,
        statistics: &mut DepartureStatistics,
        stop: &Stop,
    ) -> (LoopEnd, u64) {
        let lead_ns = (schedule.gap_ns.saturating_mul(MAX_AHEAD)).min(MAX_AHEAD_NS);
        if self.launch.is_some() {
            schedule.due_ns += lead_ns;
        }
        statistics.spacing_result.clock = DepartureClock::Driver;
        let mut requested_ns = None;
        let end = loop {
            if schedule.is_over() {
                break LoopEnd::Count;
            }
            if stop.is_set() {
                break LoopEnd::Stopped;
            }
            let now_ns = monotonic_ns();
            if schedule.due_ns > now_ns + lead_ns {
                self.reports.record(self.socket, statistics);
                // An interrupted sleep needs no handling, because the clock is read next.
                let _ = sleep_until(schedule.due_ns - lead_ns / 2);
                continue;
            }
            let earliest_ns = match &self.launch {
                Some(launch) => now_ns + launch.margin_ns,
                None => 0,
            };
            let at_ns = schedule.due_ns.max(earliest_ns);
            outgoing.prepare(at_ns);
            match self.send_at(outgoing.datagram, at_ns) {
                Ok(bytes) => {
                    outgoing.count_sent(bytes, at_ns);
                    requested_ns =
                        Some((requested_ns.map_or(at_ns, |(first_ns, _)| first_ns), at_ns));
                    let expected = (schedule.due_ns, schedule.begins_burst());
                    self.reports
                        .expect(statistics.spacing_result.sent, expected);
                    statistics.spacing_result.sent += 1;
                    if statistics.spacing_result.sent.is_multiple_of(MAX_AHEAD) {
                        self.reports.record(self.socket, statistics);
                    }
                    schedule.advance(at_ns, &mut statistics.spacing_result.skipped);
                }
                Err(error) => {
                    let spacing_result = &mut statistics.spacing_result;
                    if let Err(end) = outgoing.handle_error(error, &mut schedule, spacing_result) {
                        break end;
                    }
                }
            }
        };
        self.reports.wait_for_last(self.socket, statistics);
        // Without departure reports of the driver, these are the requested times.
        statistics.first_and_last_ns = statistics.first_and_last_ns.or(requested_ns);
        let last_ns = statistics
            .first_and_last_ns
            .map_or(0, |(_, last_ns)| last_ns);
        (end, last_ns + schedule.gap_ns)
    }

    fn send_at(&self, datagram: &[u8], at_ns: u64) -> Result<usize, Error> {
        match &self.launch {
            None => call::send(self.socket, datagram),
            Some(launch) => {
                let at_ns = at_ns.wrapping_add_signed(launch.clock_offset_ns);
                let control = ControlMessage::for_launch_time(at_ns);
                message::send_with_control(self.socket, datagram, None, &control, true)
            }
        }
    }
}

impl Drop for KernelPacer<'_> {
    /// Removes the pacing rate, or restores the priority, and disables departure reports. It
    /// ignores errors.
    fn drop(&mut self) {
        let _ = stamped::disable_stamps(self.socket);
        match &self.launch {
            None => {
                let _ = option::set_max_pacing_rate(self.socket, u64::MAX);
            }
            Some(launch) => {
                if let Some(FormerPriority { priority, peer }) = &launch.former {
                    let _ = set_priority(self.socket, *priority, peer);
                }
            }
        }
    }
}

/// Enables launch times, by the clock of the queueing discipline that the datagrams pass.
fn enable_launch_times(socket: BorrowedFd<'_>) -> Result<LaunchSettings, String> {
    let egress = Egress::for_socket(socket)?;
    let has_launch_times = |qdisc: &Qdisc| qdisc.launch_clock.is_some();
    let Some((qdisc, clock)) = egress
        .qdisc(has_launch_times)
        .and_then(|qdisc| Some((qdisc, qdisc.launch_clock?)))
    else {
        return Err(egress.describe_unsupported("SO_TXTIME", "fq or etf"));
    };
    let failed = |error| format!("set SO_TXTIME: {}", sys::describe(&error));
    option::set_launch_clock(socket, clock).map_err(failed)?;
    let is_etf = qdisc.kind == "etf";
    let former = is_etf.then(|| {
        let peer = KernelAddress::try_from(&Address::Inet(egress.peer))?;
        let priority = option::priority(socket)?;
        set_priority(socket, ETF_PRIORITY, &peer)?;
        Ok(FormerPriority { priority, peer })
    });
    let failed = |error: io::Error| format!("set SO_PRIORITY: {}", sys::describe(&error));
    Ok(LaunchSettings {
        clock_offset_ns: clock_offset_ns(clock),
        margin_ns: if is_etf { LAUNCH_MARGIN_NS } else { 0 },
        former: former.transpose().map_err(failed)?,
    })
}

/// Sets the priority of a connected socket's future datagrams. It also reconnects the socket:
/// otherwise the socket keeps the device queue of its first datagram.
fn set_priority(socket: BorrowedFd<'_>, priority: i32, peer: &KernelAddress) -> io::Result<()> {
    option::set_priority(socket, priority)?;
    Ok(call::connect(socket, peer)?)
}

/// Makes the kernel pace the socket's datagrams, one per gap. fq must be the queueing discipline.
fn enable_pacing_rate(
    socket: BorrowedFd<'_>,
    spacing: &Spacing,
    datagram_bytes: usize,
) -> Result<(), String> {
    /// Link header, which fq also counts. Nearly every device has an Ethernet header.
    const ETHERNET_HEADER_BYTES: usize = 14;
    let egress = Egress::for_socket(socket)?;
    if egress.qdisc(|qdisc| qdisc.kind == "fq").is_none() {
        return Err(egress.describe_unsupported("SO_MAX_PACING_RATE of datagrams", "fq"));
    }
    let is_v4 = egress.peer.ip().to_canonical().is_ipv4();
    let headers = ETHERNET_HEADER_BYTES + if is_v4 { 28 } else { 48 };
    let rate = (datagram_bytes + headers) as u128 * 1_000_000_000 / spacing.gap.as_nanos().max(1);
    let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
    option::set_max_pacing_rate(socket, rate)
        .map_err(|error| format!("set SO_MAX_PACING_RATE: {}", sys::describe(&error)))
}

/// The interface through which a socket's datagrams leave.
struct Egress {
    interface: String,
    qdiscs: Vec<Qdisc>,
    peer: SocketAddr,
}

impl Egress {
    fn for_socket(socket: BorrowedFd<'_>) -> Result<Self, String> {
        let find = || {
            let Address::Inet(peer) = Address::peer(&SockRef::from(&socket))? else {
                return Err(Error::AFNOSUPPORT.into());
            };
            let index = interface::index_for_remote(peer)?;
            Ok(Self {
                interface: interface::link(index)?.name,
                qdiscs: interface::qdiscs(index)?,
                peer,
            })
        };
        find().map_err(|error: io::Error| {
            format!(
                "find the queueing discipline towards the peer: {}",
                sys::describe(&error)
            )
        })
    }

    /// Returns the queueing discipline that the datagrams pass, if it is suitable. It is the root,
    /// or it is below a root that only has one discipline per device queue.
    fn qdisc(&self, is_suitable: impl Fn(&Qdisc) -> bool) -> Option<&Qdisc> {
        let root = self.qdiscs.iter().find(|qdisc| qdisc.is_root)?;
        if is_suitable(root) {
            return Some(root);
        }
        let mut children = self
            .qdiscs
            .iter()
            .filter(|qdisc| !qdisc.is_root && !["ingress", "clsact"].contains(&&*qdisc.kind));
        match &*root.kind {
            "mq" if children.clone().all(&is_suitable) => children.next(),
            "mqprio" | "taprio" => children.find(|qdisc| is_suitable(qdisc)),
            _ => None,
        }
    }

    /// Describes an option that needs another queueing discipline.
    fn describe_unsupported(&self, option: &str, required: &str) -> String {
        let root = self.qdiscs.iter().find(|qdisc| qdisc.is_root);
        let root = root.map_or("none", |qdisc| &qdisc.kind);
        format!(
            "{option} needs the queueing discipline {required}, and {} has {root}",
            self.interface
        )
    }
}

/// Departure times of a socket's datagrams, as reported by the kernel.
struct DepartureReports {
    /// `None` if departure reports are unavailable.
    batch: Option<StampedBatch>,
    wall_offset_ns: i64,
    /// Due time of each datagram that has not left, and whether it begins a burst. The position is
    /// the datagram's index modulo the capacity.
    expected: Box<[(u64, bool); EXPECTED_CAPACITY]>,
    last_index: Option<u32>,
}

/// Capacity of [`DepartureReports::expected`]: more datagrams than can be in the kernel at once.
const EXPECTED_CAPACITY: usize = 1024;

impl DepartureReports {
    fn begin(socket: BorrowedFd<'_>) -> Self {
        let is_enabled = stamped::enable_departure_reports(socket).is_ok();
        Self {
            batch: is_enabled.then(|| StampedBatch::new(64, 1)).flatten(),
            wall_offset_ns: wall_clock_offset_ns(),
            expected: Box::new([(0, false); EXPECTED_CAPACITY]),
            last_index: None,
        }
    }

    fn expect(&mut self, index: u64, expected: (u64, bool)) {
        self.expected[index as usize % EXPECTED_CAPACITY] = expected;
    }

    /// Records the datagrams that have left, from the available departure reports.
    fn record(&mut self, socket: BorrowedFd<'_>, statistics: &mut DepartureStatistics) {
        let Some(batch) = &mut self.batch else {
            return;
        };
        while let Ok(count) = batch.receive_departures(socket)
            && count > 0
        {
            for report in 0..count {
                match batch.parse_departure(report) {
                    Some(Departure::Sent { index, kernel_ns }) => {
                        let (due_ns, begins_burst) =
                            self.expected[index as usize % EXPECTED_CAPACITY];
                        let is_successor = self.last_index == index.checked_sub(1);
                        self.last_index = Some(index);
                        let at_ns = kernel_ns.wrapping_sub(self.wall_offset_ns as u64);
                        let begins_burst = begins_burst || !is_successor;
                        statistics.record_departure(at_ns, Some(due_ns), begins_burst);
                    }
                    Some(Departure::Missed) => statistics.spacing_result.missed += 1,
                    None => {}
                }
            }
        }
    }

    /// Waits briefly for the last departure reports.
    fn wait_for_last(&mut self, socket: BorrowedFd<'_>, statistics: &mut DepartureStatistics) {
        let until_ns = monotonic_ns() + MAX_AHEAD_NS + MAX_REPORT_WAIT.as_nanos() as u64;
        loop {
            self.record(socket, statistics);
            let result = &statistics.spacing_result;
            let reported = result.lateness.len() + result.missed;
            let now_ns = monotonic_ns();
            if reported >= result.sent || now_ns >= until_ns {
                return;
            }
            let _ = sleep_until(now_ns + 200_000);
        }
    }
}

#[cfg(test)]
mod tests {
    use sys::interface::Qdisc;

    use super::*;

    fn egress(qdiscs: &[(&str, bool)]) -> Egress {
        let qdisc = |(kind, is_root): &(&str, bool)| Qdisc {
            kind: (*kind).to_owned(),
            is_root: *is_root,
            launch_clock: ["fq", "etf"].contains(kind).then_some(1),
        };
        Egress {
            interface: "eth0".to_owned(),
            qdiscs: qdiscs.iter().map(qdisc).collect(),
            peer: "192.0.2.1:9".parse().unwrap(),
        }
    }

    #[test]
    fn the_qdisc_that_datagrams_pass_is_found() {
        for (qdiscs, expected) in [
            (&[("fq", true)][..], Some("fq")),
            (&[("ingress", false), ("etf", true)], Some("etf")),
            (&[("mq", true), ("fq", false), ("fq", false)], Some("fq")),
            (
                &[("fq", false), ("mq", true), ("clsact", false)],
                Some("fq"),
            ),
            (&[("mq", true), ("fq", false), ("pfifo_fast", false)], None),
            (
                &[("mqprio", true), ("pfifo_fast", false), ("etf", false)],
                Some("etf"),
            ),
            (&[("prio", true), ("fq", false)], None),
            (&[("mq", true)], None),
            (&[], None),
        ] {
            let egress = egress(qdiscs);
            let qdisc = egress.qdisc(|qdisc| qdisc.launch_clock.is_some());
            assert_eq!(qdisc.map(|qdisc| &*qdisc.kind), expected, "{qdiscs:?}");
        }
    }

    #[test]
    fn the_error_names_the_root_qdisc() {
        for (qdiscs, root) in [
            (&[][..], "none"),
            (&[("fq", false), ("prio", true)], "prio"),
        ] {
            assert_eq!(
                egress(qdiscs).describe_unsupported("SO_TXTIME", "fq or etf"),
                format!("SO_TXTIME needs the queueing discipline fq or etf, and eth0 has {root}")
            );
        }
    }
}
