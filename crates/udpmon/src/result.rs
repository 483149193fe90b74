//! The results of the programs.

use std::time::{Duration, SystemTime};

use model::{DatagramCounts, Outcome};
use stats::ClockFit;

use crate::options::Load;
use crate::wire::{
    CpuLoad, Details, Histogram, HostCounters, LostRecord, NicCounters, PacketRecord,
};

/// One test of `udpmon_bw_mon`.
#[derive(Clone, Debug)]
pub struct Throughput {
    /// The sent load.
    pub load: Load,
    /// Both ends' figures. The responder's counts are corrected if the correct ones are known.
    pub outcome: Outcome,
    /// Datagrams accepted by send calls.
    pub sent: u64,
    /// The time from before the first departure to after the last one, including the last gap.
    pub send_time: Duration,
    /// Control messages repeated for lack of a reply.
    pub timeouts: u32,
    /// The responder's counts by stock's rule.
    pub received: ByOrder,
    /// The fate of the datagrams, if more is known than stock's rule shows.
    pub fate: Option<Fate>,
    /// The responder's histograms in the order of their numbers; only the first without `-H`.
    pub histograms: Vec<Histogram>,
    /// The activity of this host meanwhile.
    pub here: HostUse,
    /// The activity of the responder's host meanwhile.
    pub there: HostUse,
    /// Per-packet records: `-G`, `-L`.
    pub records: Option<Records>,
    /// The source of the arrival times in records and histograms.
    pub arrivals: Option<StampSource>,
    /// Exact figures of a linerate responder.
    pub details: Option<Details>,
}

impl Throughput {
    /// Returns the fate of the datagrams. If none was late or repeated, stock's own sums show it.
    pub fn fate(&self) -> Option<Fate> {
        let sums = || {
            (self.received.bad_order == 0).then(|| Fate {
                received: self.received.received,
                lost: self.received.lost,
                lost_at_end: self.received.lost_at_end(self.sent),
                source: FateSource::Sums,
                ..Fate::default()
            })
        };
        self.fate.or_else(sums)
    }
}

/// One test of `udpmon_send`.
#[derive(Clone, Debug)]
pub struct Sending {
    /// The sent load.
    pub load: Load,
    /// This end's figures.
    pub outcome: Outcome,
    /// Datagrams accepted by send calls.
    pub sent: u64,
    /// The time from before the first departure to after the last one, including the last gap.
    pub send_time: Duration,
    /// The activity of this host meanwhile.
    pub here: HostUse,
}

/// The requests of `udpmon_req` for one response length.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Payload of a request.
    pub request_bytes: u32,
    /// Payload of a response.
    pub response_bytes: u32,
    /// This end's figures; `here.latency` contains the times.
    pub outcome: Outcome,
    /// Answered requests.
    pub requests: u32,
    /// Requests without an answer before the timeout.
    pub timeouts: u32,
    /// The wall time of all requests, including pauses.
    pub elapsed: Duration,
    /// The times in whole microseconds.
    pub times: Histogram,
}

/// The data received by `udpmon_recv` over some time.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Counts by stock's rule.
    pub received: ByOrder,
    /// The payload of these datagrams.
    pub bytes: u64,
    /// The corrected counts.
    pub counts: DatagramCounts,
    /// The activity of this host meanwhile.
    pub host: HostUse,
}

/// A snapshot of the counts of `udpmon_recv`.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The wall-clock time of the snapshot.
    pub at: SystemTime,
    /// The counts since the previous snapshot.
    pub delta: Interval,
    /// The counts since the start.
    pub total: Interval,
    /// Histograms 0 to 4, in a snapshot that prints them.
    pub histograms: Vec<Histogram>,
    /// Per-packet records, in a snapshot that prints them.
    pub records: Option<Records>,
}

/// Counts of a receiver that stores only the highest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByOrder {
    /// Datagrams, including repeated ones.
    pub received: u64,
    /// Skipped numbers, even if they arrived later.
    pub lost: u64,
    /// Datagrams with a number not above the highest one.
    pub bad_order: u64,
    /// The time from the first arrival to the last.
    pub elapsed: Duration,
}

impl ByOrder {
    /// Returns the count of numbers above the highest received one. The result is exact even if `bad_order` includes
    /// repeated datagrams: each late or repeated datagram counts once in `bad_order` and once in `received`.
    pub fn lost_at_end(&self, sent: u64) -> u64 {
        let came_or_passed = self.received.saturating_add(self.lost);
        sent.saturating_add(self.bad_order)
            .saturating_sub(came_or_passed)
    }
}

/// The fate of a test's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Datagrams that arrived, each counted once.
    pub received: u64,
    /// Datagrams that did not arrive, although a later one did.
    pub lost: u64,
    /// Datagrams that did not arrive; nor did any later one.
    pub lost_at_end: u64,
    /// Datagrams that arrived after one with a higher number: RFC 4737.
    pub late: u64,
    /// Datagrams that arrived again: RFC 5560.
    pub repeated: u64,
    /// The source of the numbers.
    pub source: FateSource,
}

/// The source of a [`Fate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FateSource {
    /// The responder stores each number's arrival.
    #[default]
    Responder,
    /// The per-packet records contain each number.
    Records,
    /// The sums of a responder that received all datagrams in order.
    Sums,
}

/// The clock that took arrival times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampSource {
    /// The network interface.
    Hardware,
    /// The kernel, when it received the datagram.
    Kernel,
    /// The program, after its receive call.
    Program,
}

/// Per-packet records.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// The lowest recorded number.
    pub skip: u32,
    /// The records.
    pub rows: RecordRows,
    /// The responder's clock relative to this end's; `None` without exchanges.
    pub clock: Option<ClockFit>,
}

/// The rows of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordRows {
    /// `-G`: one per number.
    All(Vec<PacketRecord>),
    /// `-L`: one per skipped number.
    Lost(Vec<LostRecord>),
}

/// The activity of a host during a test, by all its programs.
#[derive(Clone, Debug, Default)]
pub struct HostUse {
    /// CPU time: the sum over all CPUs, then each CPU; empty if unknown.
    pub cpus: Vec<CpuLoad>,
    /// The interfaces and the protocols.
    pub counters: HostCounters,
    /// The hardware of one interface.
    pub nic: NicCounters,
}

/// A program's socket and process, for the lines before the first result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// CPUs that the process may run on: before and after `-a`.
    pub cpus: (u64, u64),
    /// The socket options before the program sets them.
    pub default: Buffers,
    /// The socket options afterwards.
    pub set: Buffers,
    /// The peer's name as given on the command line; empty for a receiver.
    pub peer_name: String,
    /// The peer's address.
    pub peer_address: String,
    /// This end's address, towards the peer.
    pub local_address: String,
    /// This host's name.
    pub node: String,
    /// The local port, if the system picked one.
    pub bound_port: Option<u16>,
}

/// A socket's buffers and type of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// SO_RCVBUF in bytes. `default` is the value of getsockopt(2); `set` is half of it, the granted size.
    pub receive: u32,
    /// SO_SNDBUF in bytes, in the same way.
    pub send: u32,
    /// IP_TOS or IPV6_TCLASS.
    pub type_of_service: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of the relay that drops 3 and 4, swaps 6 and 7 and duplicates 8, and of loss at the end.
    #[test]
    fn loss_at_the_end_follows_from_the_sums() {
        for (sent, received, lost, bad_order, at_end) in [
            (12, 11, 3, 2, 0),
            (100, 95, 0, 0, 5),
            (200, 104, 0, 0, 96),
            (10, 10, 0, 0, 0),
            (10, 13, 0, 3, 0),
            // Invalid values from a peer.
            (0, u64::from(u32::MAX), u64::from(u32::MAX), 0, 0),
        ] {
            let counts = ByOrder {
                received,
                lost,
                bad_order,
                elapsed: Duration::ZERO,
            };
            assert_eq!(counts.lost_at_end(sent), at_end, "{counts:?}");
        }
    }
}
