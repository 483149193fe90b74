//! What the programs measured.

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
    /// What was sent.
    pub load: Load,
    /// Both ends' figures. The responder's counts are the corrected ones where they are known.
    pub outcome: Outcome,
    /// Datagrams that send calls took.
    pub sent: u64,
    /// From before the first departure to after the last, with the last gap.
    pub send_time: Duration,
    /// Control messages that were sent again for want of a reply.
    pub timeouts: u32,
    /// The responder's counts by stock's rule.
    pub received: ByOrder,
    /// What became of the datagrams, where that is known beyond stock's rule.
    pub fate: Option<Fate>,
    /// The responder's histograms in the order of their numbers: the first alone without `-H`.
    pub histograms: Vec<Histogram>,
    /// What this host did meanwhile.
    pub here: HostUse,
    /// What the responder's host did meanwhile.
    pub there: HostUse,
    /// Per-packet records: `-G`, `-L`.
    pub records: Option<Records>,
    /// The arrival times of the records and histograms.
    pub arrivals: Option<StampSource>,
    /// Exact figures of a responder that is a linerate.
    pub details: Option<Details>,
}

impl Throughput {
    /// What became of the datagrams. Without a late or repeated one, stock's own sums show it.
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
    /// What was sent.
    pub load: Load,
    /// This end's figures.
    pub outcome: Outcome,
    /// Datagrams that send calls took.
    pub sent: u64,
    /// From before the first departure to after the last, with the last gap.
    pub send_time: Duration,
    /// What this host did meanwhile.
    pub here: HostUse,
}

/// The requests of `udpmon_req` for one response length.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Payload of a request.
    pub request_bytes: u32,
    /// Payload of a response.
    pub response_bytes: u32,
    /// This end's figures: `here.latency` has the times.
    pub outcome: Outcome,
    /// Requests that were answered.
    pub requests: u32,
    /// Requests that were not answered in time.
    pub timeouts: u32,
    /// Wall time of all of them, with pauses.
    pub elapsed: Duration,
    /// The times in whole microseconds.
    pub times: Histogram,
}

/// What `udpmon_recv` received over some time.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Counts by stock's rule.
    pub received: ByOrder,
    /// Payload of them.
    pub bytes: u64,
    /// The corrected counts.
    pub counts: DatagramCounts,
    /// What this host did meanwhile.
    pub host: HostUse,
}

/// A look of `udpmon_recv` at its counts.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When, by the wall clock.
    pub at: SystemTime,
    /// Since the look before.
    pub delta: Interval,
    /// Since the start.
    pub total: Interval,
    /// Histograms 0 to 4, at a look that prints them.
    pub histograms: Vec<Histogram>,
    /// Per-packet records, at a look that prints them.
    pub records: Option<Records>,
}

/// Counts of a receiver that keeps nothing but the highest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByOrder {
    /// Datagrams, with repeated ones.
    pub received: u64,
    /// Numbers that were passed over, whether or not they came later.
    pub lost: u64,
    /// Datagrams with a number that was not above the highest.
    pub bad_order: u64,
    /// From the first arrival to the last.
    pub elapsed: Duration,
}

impl ByOrder {
    /// Numbers above the highest one that came. With repeated datagrams among `bad_order` this is exact all the same:
    /// each late or repeated one is counted once there and once in `received`.
    pub fn lost_at_end(&self, sent: u64) -> u64 {
        let came_or_passed = self.received.saturating_add(self.lost);
        sent.saturating_add(self.bad_order)
            .saturating_sub(came_or_passed)
    }
}

/// What became of the datagrams of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Came, each counted once.
    pub received: u64,
    /// Did not come, though a later one did.
    pub lost: u64,
    /// Did not come, nor did any later one.
    pub lost_at_end: u64,
    /// Came after one with a higher number: RFC 4737.
    pub late: u64,
    /// Came again: RFC 5560.
    pub repeated: u64,
    /// Where the numbers are from.
    pub source: FateSource,
}

/// Where a [`Fate`] is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FateSource {
    /// The responder keeps each number's arrival.
    #[default]
    Responder,
    /// The per-packet records have each number.
    Records,
    /// The sums of a responder that received all in order.
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
    /// Datagrams with a lower number have none.
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
    /// `-L`: one per number that was passed over.
    Lost(Vec<LostRecord>),
}

/// What a host did over a test, of all its programs.
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
    /// The socket before its options were set.
    pub default: Buffers,
    /// The socket after that.
    pub set: Buffers,
    /// The peer's name, as typed; empty of a receiver.
    pub peer_name: String,
    /// The peer's address.
    pub peer_address: String,
    /// This end's address, towards the peer.
    pub local_address: String,
    /// This host's name.
    pub node: String,
    /// The local port, if one was picked.
    pub bound_port: Option<u16>,
}

/// A socket's buffers and type of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// SO_RCVBUF in bytes: of `default` as getsockopt(2) has it, of `set` half of that, which is what was granted.
    pub receive: u32,
    /// SO_SNDBUF in bytes, likewise.
    pub send: u32,
    /// IP_TOS or IPV6_TCLASS.
    pub type_of_service: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of the relay that drops 3 and 4, swaps 6 and 7 and doubles 8, and of loss at the end.
    #[test]
    fn loss_at_the_end_follows_from_the_sums() {
        for (sent, received, lost, bad_order, at_end) in [
            (12, 11, 3, 2, 0),
            (100, 95, 0, 0, 5),
            (200, 104, 0, 0, 96),
            (10, 10, 0, 0, 0),
            (10, 13, 0, 3, 0),
            // Nonsense from a peer.
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
