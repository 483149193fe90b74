//! Sends datagrams ahead of their times; the kernel or the NIC holds them until then.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{DepartureClock, Spacing, SpacingMethod};
use sys::call::{self, Error, Peer};
use sys::clock::{ahead_ns, monotonic_ns, sleep_until, wall_ahead_ns};
use sys::interface::{self, Qdisc};
use sys::message::{self, ControlMessage};
use sys::stamped::{self, Departure, StampedBatch};
use sys::{Address, SockRef, option};

use crate::end::LoopEnd;
use crate::spacing::{Outgoing, Schedule, Sent};
use crate::stop::Stop;

/// Most datagrams in the kernel ahead of their times. fq drops a flow's datagrams beyond 100 (`flow_limit`).
const MOST_AHEAD: u64 = 64;

/// Longest time by which a datagram is sent ahead, in nanoseconds.
const LONGEST_AHEAD_NS: u64 = 4_000_000;

/// Margin of a late datagram's new launch time, in nanoseconds; etf drops datagrams after their launch time.
const MARGIN_NS: u64 = 100_000;

/// Priority of datagrams with launch times for etf. etf must be below a discipline that separates this traffic by
/// priority. The examples in tc-etf(8) use this value.
const ETF_PRIORITY: i32 = 3;

/// Longest wait for the kernel's last departure reports.
const SETTLE: Duration = Duration::from_millis(50);

/// A socket whose datagrams the kernel holds until their times.
pub(crate) struct Holder<'a> {
    socket: BorrowedFd<'a>,
    launch: Option<Launch>,
    /// Departure times as reported by the kernel.
    departures: Departures,
}

/// Settings for one launch time per datagram.
struct Launch {
    /// By how much the queueing discipline's clock is ahead of the monotonic one.
    ahead_ns: i64,
    margin_ns: u64,
    /// The socket's former priority, if etf needs another one.
    old: Option<OldPriority>,
}

struct OldPriority {
    priority: i32,
    peer: Peer,
}

impl<'a> Holder<'a> {
    /// Prepares a connected socket. Returns `None` if the sender itself waits.
    pub(crate) fn prepare(
        method: SpacingMethod,
        socket: BorrowedFd<'a>,
        spacing: &Spacing,
        bytes: usize,
    ) -> Result<Option<Self>, String> {
        let launch = match method {
            SpacingMethod::Spin => return Ok(None),
            SpacingMethod::LaunchTime => Some(launch(socket)?),
            SpacingMethod::PacingRate => {
                pace(socket, spacing, bytes)?;
                None
            }
        };
        Ok(Some(Self {
            socket,
            launch,
            departures: Departures::begin(socket),
        }))
    }

    /// Sends the datagrams due within the next few milliseconds, then sleeps until half of that time has passed.
    pub(crate) fn send(
        &mut self,
        mut outgoing: Outgoing<'_>,
        mut schedule: Schedule,
        sent: &mut Sent,
        stop: &Stop,
    ) -> (LoopEnd, u64) {
        let lead_ns = (schedule.gap_ns.saturating_mul(MOST_AHEAD)).min(LONGEST_AHEAD_NS);
        if self.launch.is_some() {
            schedule.due_ns += lead_ns;
        }
        sent.spaced.clock = DepartureClock::Driver;
        let mut handed_ns = None;
        let end = loop {
            if schedule.is_over() {
                break LoopEnd::Count;
            }
            if stop.is_set() {
                break LoopEnd::Stopped;
            }
            let now_ns = monotonic_ns();
            if schedule.due_ns > now_ns + lead_ns {
                self.departures.note(self.socket, sent);
                // The next clock read covers an interrupted sleep.
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
                    outgoing.took(bytes, at_ns);
                    handed_ns = Some((handed_ns.map_or(at_ns, |(first_ns, _)| first_ns), at_ns));
                    let expected = (schedule.due_ns, schedule.begins_burst());
                    self.departures.expect(sent.spaced.sent, expected);
                    sent.spaced.sent += 1;
                    if sent.spaced.sent.is_multiple_of(MOST_AHEAD) {
                        self.departures.note(self.socket, sent);
                    }
                    schedule.took(at_ns, &mut sent.spaced.skipped);
                }
                Err(error) => {
                    let failed = outgoing.failed(error, &mut schedule, &mut sent.spaced);
                    if let Err(end) = failed {
                        break end;
                    }
                }
            }
        };
        self.departures.settle(self.socket, sent);
        // Without departure reports of the driver, these are the requested times.
        sent.times_ns = sent.times_ns.or(handed_ns);
        let last_ns = sent.times_ns.map_or(0, |(_, last_ns)| last_ns);
        (end, last_ns + schedule.gap_ns)
    }

    fn send_at(&self, datagram: &[u8], at_ns: u64) -> Result<usize, Error> {
        match &self.launch {
            None => call::send(self.socket, datagram),
            Some(launch) => {
                let at_ns = at_ns.wrapping_add_signed(launch.ahead_ns);
                let at = ControlMessage::launch_time(at_ns);
                message::send_with(self.socket, datagram, None, &at, true)
            }
        }
    }
}

impl Drop for Holder<'_> {
    /// Removes the pacing rate, or restores the priority, and disables departure reports. It ignores errors.
    fn drop(&mut self) {
        let _ = stamped::tell_nothing(self.socket);
        match &self.launch {
            None => {
                let _ = option::set_max_pacing_rate(self.socket, u64::MAX);
            }
            Some(launch) => {
                if let Some(OldPriority { priority, peer }) = &launch.old {
                    let _ = set_priority(self.socket, *priority, peer);
                }
            }
        }
    }
}

/// Enables launch times, by the clock of the queueing discipline that the datagrams pass.
fn launch(socket: BorrowedFd<'_>) -> Result<Launch, String> {
    let path = Path::of(socket)?;
    let holds = |qdisc: &Qdisc| qdisc.launch_clock.is_some();
    let Some((qdisc, clock)) = path
        .qdisc(holds)
        .and_then(|qdisc| Some((qdisc, qdisc.launch_clock?)))
    else {
        return Err(path.refusal("SO_TXTIME", "fq or etf"));
    };
    let failed = |error| format!("set SO_TXTIME: {}", sys::describe(&error));
    option::set_launch_clock(socket, clock).map_err(failed)?;
    let is_etf = qdisc.kind == "etf";
    let old = is_etf.then(|| {
        let peer = Peer::try_from(&Address::Inet(path.peer))?;
        let priority = option::priority(socket)?;
        set_priority(socket, ETF_PRIORITY, &peer)?;
        Ok(OldPriority { priority, peer })
    });
    let failed = |error: io::Error| format!("set SO_PRIORITY: {}", sys::describe(&error));
    Ok(Launch {
        ahead_ns: ahead_ns(clock),
        margin_ns: if is_etf { MARGIN_NS } else { 0 },
        old: old.transpose().map_err(failed)?,
    })
}

/// Sets the priority of a connected socket's future datagrams. It also reconnects the socket: otherwise the socket
/// keeps the device queue of its first datagram.
fn set_priority(socket: BorrowedFd<'_>, priority: i32, peer: &Peer) -> io::Result<()> {
    option::set_priority(socket, priority)?;
    Ok(call::connect(socket, peer)?)
}

/// Makes the kernel pace the socket's datagrams at one per gap.
fn pace(socket: BorrowedFd<'_>, spacing: &Spacing, bytes: usize) -> Result<(), String> {
    /// fq counts the link header; nearly every device has an Ethernet header. In bytes.
    const ETHERNET: usize = 14;
    let path = Path::of(socket)?;
    if path.qdisc(|qdisc| qdisc.kind == "fq").is_none() {
        return Err(path.refusal("SO_MAX_PACING_RATE of datagrams", "fq"));
    }
    let is_v4 = path.peer.ip().to_canonical().is_ipv4();
    let headers = ETHERNET + if is_v4 { 28 } else { 48 };
    let rate = (bytes + headers) as u128 * 1_000_000_000 / spacing.gap.as_nanos().max(1);
    let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
    option::set_max_pacing_rate(socket, rate)
        .map_err(|error| format!("set SO_MAX_PACING_RATE: {}", sys::describe(&error)))
}

/// The interface through which a socket's datagrams leave.
struct Path {
    interface: String,
    qdiscs: Vec<Qdisc>,
    peer: SocketAddr,
}

impl Path {
    fn of(socket: BorrowedFd<'_>) -> Result<Self, String> {
        let found = || {
            let Address::Inet(peer) = Address::of_peer(&SockRef::from(&socket))? else {
                return Err(Error::AFNOSUPPORT.into());
            };
            let index = interface::index_towards(peer)?;
            Ok(Self {
                interface: interface::link(index)?.name,
                qdiscs: interface::qdiscs(index)?,
                peer,
            })
        };
        found().map_err(|error: io::Error| {
            format!(
                "find the queueing discipline towards the peer: {}",
                sys::describe(&error)
            )
        })
    }

    /// Returns the queueing discipline that the datagrams pass, if it is a wanted one. It is the root, or it is below a
    /// root that only has one discipline per device queue.
    fn qdisc(&self, is_wanted: impl Fn(&Qdisc) -> bool) -> Option<&Qdisc> {
        let root = self.qdiscs.iter().find(|qdisc| qdisc.is_root)?;
        if is_wanted(root) {
            return Some(root);
        }
        let mut below = self
            .qdiscs
            .iter()
            .filter(|qdisc| !qdisc.is_root && !["ingress", "clsact"].contains(&&*qdisc.kind));
        match &*root.kind {
            "mq" if below.clone().all(&is_wanted) => below.next(),
            "mqprio" | "taprio" => below.find(|qdisc| is_wanted(qdisc)),
            _ => None,
        }
    }

    fn refusal(&self, what: &str, wanted: &str) -> String {
        let root = self.qdiscs.iter().find(|qdisc| qdisc.is_root);
        let root = root.map_or("none", |qdisc| &qdisc.kind);
        format!(
            "{what} needs the queueing discipline {wanted}, and {} has {root}",
            self.interface
        )
    }
}

/// Departure times of a socket's datagrams, as reported by the kernel.
struct Departures {
    /// `None` if departure reports are unavailable.
    batch: Option<StampedBatch>,
    wall_ahead_ns: i64,
    /// Due time of each datagram that has not left, and whether it begins a burst. The index is the low bits of the
    /// datagram's index.
    expected: Box<[(u64, bool); EXPECTED]>,
    last: Option<u32>,
}

/// More datagrams than can be waiting.
const EXPECTED: usize = 1024;

impl Departures {
    fn begin(socket: BorrowedFd<'_>) -> Self {
        let is_told = stamped::tell_departures(socket).is_ok();
        Self {
            batch: is_told.then(|| StampedBatch::new(64, 1)).flatten(),
            wall_ahead_ns: wall_ahead_ns(),
            expected: Box::new([(0, false); EXPECTED]),
            last: None,
        }
    }

    fn expect(&mut self, index: u64, expected: (u64, bool)) {
        self.expected[index as usize % EXPECTED] = expected;
    }

    /// Records the datagrams that have left.
    fn note(&mut self, socket: BorrowedFd<'_>, sent: &mut Sent) {
        let Some(batch) = &mut self.batch else {
            return;
        };
        while let Ok(count) = batch.receive_departures(socket)
            && count > 0
        {
            for at in 0..count {
                match batch.departure(at) {
                    Some(Departure::Left { index, kernel_ns }) => {
                        let (due_ns, begins_burst) = self.expected[index as usize % EXPECTED];
                        let follows = self.last == index.checked_sub(1);
                        self.last = Some(index);
                        let at_ns = kernel_ns.wrapping_sub(self.wall_ahead_ns as u64);
                        sent.left(at_ns, Some(due_ns), begins_burst || !follows);
                    }
                    Some(Departure::Missed) => sent.spaced.missed += 1,
                    None => {}
                }
            }
        }
    }

    /// Waits briefly for the last departure reports.
    fn settle(&mut self, socket: BorrowedFd<'_>, sent: &mut Sent) {
        let until_ns = monotonic_ns() + LONGEST_AHEAD_NS + SETTLE.as_nanos() as u64;
        loop {
            self.note(socket, sent);
            let told = sent.spaced.lateness.len() + sent.spaced.missed;
            let now_ns = monotonic_ns();
            if told >= sent.spaced.sent || now_ns >= until_ns {
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

    fn path(qdiscs: &[(&str, bool)]) -> Path {
        let qdisc = |(kind, is_root): &(&str, bool)| Qdisc {
            kind: (*kind).to_owned(),
            is_root: *is_root,
            launch_clock: ["fq", "etf"].contains(kind).then_some(1),
        };
        Path {
            interface: "eth0".to_owned(),
            qdiscs: qdiscs.iter().map(qdisc).collect(),
            peer: "192.0.2.1:9".parse().unwrap(),
        }
    }

    #[test]
    fn what_datagrams_pass_decides() {
        for (qdiscs, found) in [
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
            let path = path(qdiscs);
            let qdisc = path.qdisc(|qdisc| qdisc.launch_clock.is_some());
            assert_eq!(qdisc.map(|qdisc| &*qdisc.kind), found, "{qdiscs:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_there() {
        for (qdiscs, root) in [
            (&[][..], "none"),
            (&[("fq", false), ("prio", true)], "prio"),
        ] {
            assert_eq!(
                path(qdiscs).refusal("SO_TXTIME", "fq or etf"),
                format!("SO_TXTIME needs the queueing discipline fq or etf, and eth0 has {root}")
            );
        }
    }
}
