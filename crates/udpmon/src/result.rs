//! The results of the programs.

use std::time::{Duration, SystemTime};

use model::{DatagramCounts, Outcome};
use stats::ClockFit;

use crate::options::TestLoad;
use crate::wire::{
    ArrivalRecord, CpuLoad, HostCounters, LinearHistogram, LostRecord, NicCounters,
    ResponderDetails,
};

/// One test of `udpmon_bw_mon`.
#[derive(Clone, Debug)]
pub struct ThroughputResult {
    /// The sent load.
    pub load: TestLoad,
    /// Both ends' figures. The responder's counts are the corrected ones if available.
    pub outcome: Outcome,
    /// Datagrams accepted by send calls.
    pub sent: u64,
    /// The time from before the first departure to after the last one, including the last gap.
    pub send_time: Duration,
    /// Control messages sent again because no reply arrived.
    pub timeouts: u32,
    /// The responder's counts by stock's rule.
    pub receiver_counts: StockCounts,
    /// The delivered, lost, late and repeated datagrams; `None` if only stock's counts are
    /// available.
    pub delivery: Option<DeliveryCounts>,
    /// The responder's histograms in the order of their IDs. Without `-H`, only the first.
    pub histograms: Vec<LinearHistogram>,
    /// The activity of this host during the test.
    pub local_host: HostActivity,
    /// The activity of the responder's host during the test.
    pub remote_host: HostActivity,
    /// Per-packet records: `-G`, `-L`.
    pub records: Option<Records>,
    /// The clock of the arrival times in records and histograms.
    pub arrival_clock: Option<StampSource>,
    /// Exact figures from a linerate responder.
    pub details: Option<ResponderDetails>,
}

impl ThroughputResult {
    /// Returns the delivery counts. If no datagram was late or repeated, stock's counts are
    /// sufficient to compute them.
    pub fn delivery_counts(&self) -> Option<DeliveryCounts> {
        let sums = || {
            (self.receiver_counts.bad_order == 0).then(|| DeliveryCounts {
                received: self.receiver_counts.received,
                lost: self.receiver_counts.lost,
                lost_at_end: self.receiver_counts.lost_at_end(self.sent),
                source: DeliverySource::Sums,
                ..DeliveryCounts::default()
            })
        };
        self.delivery.or_else(sums)
    }
}

/// One test of `udpmon_send`.
#[derive(Clone, Debug)]
pub struct SendResult {
    /// The sent load.
    pub load: TestLoad,
    /// This end's figures.
    pub outcome: Outcome,
    /// Datagrams accepted by send calls.
    pub sent: u64,
    /// The time from before the first departure to after the last one, including the last gap.
    pub send_time: Duration,
    /// The activity of this host during the test.
    pub local_host: HostActivity,
}

/// One test of `udpmon_req`: the requests for one response length.
#[derive(Clone, Debug)]
pub struct LatencyResult {
    /// Payload of a request.
    pub request_bytes: u32,
    /// Payload of a response.
    pub response_bytes: u32,
    /// This end's figures; `local.latency` contains the round-trip times.
    pub outcome: Outcome,
    /// Answered requests.
    pub requests: u32,
    /// Requests without an answer before the timeout.
    pub timeouts: u32,
    /// The elapsed time of all requests, including pauses.
    pub elapsed: Duration,
    /// The round-trip times in whole microseconds.
    pub times: LinearHistogram,
}

/// The data received by `udpmon_recv` in an interval.
#[derive(Clone, Debug, Default)]
pub struct IntervalCounts {
    /// Counts by stock's rule.
    pub received: StockCounts,
    /// The payload of the received datagrams.
    pub bytes: u64,
    /// The corrected counts, which distinguish late, repeated and lost datagrams.
    pub counts: DatagramCounts,
    /// The activity of this host in the interval.
    pub host: HostActivity,
}

/// A snapshot of the counts of `udpmon_recv`.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The wall-clock time of the snapshot.
    pub taken_at: SystemTime,
    /// The counts since the previous snapshot.
    pub delta: IntervalCounts,
    /// The counts since the start.
    pub total: IntervalCounts,
    /// Histograms 0 to 4, in a snapshot that prints them.
    pub histograms: Vec<LinearHistogram>,
    /// Per-packet records, in a snapshot that prints them.
    pub records: Option<Records>,
}

/// Counts by stock's rule: the receiver stores only the highest received number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StockCounts {
    /// Datagrams, including repeated ones.
    pub received: u64,
    /// Skipped numbers, even if they arrived later.
    pub lost: u64,
    /// Datagrams with a number not above the highest received one.
    pub bad_order: u64,
    /// The time from the first arrival to the last.
    pub elapsed: Duration,
}

impl StockCounts {
    /// Returns the number of sent datagrams above the highest received number. The result is exact
    /// even if `bad_order` includes repeated datagrams. Each late or repeated datagram counts once
    /// in `bad_order` and once in `received`.
    pub fn lost_at_end(&self, sent: u64) -> u64 {
        let received_or_skipped = self.received.saturating_add(self.lost);
        sent.saturating_add(self.bad_order)
            .saturating_sub(received_or_skipped)
    }
}

/// Delivery counts of a test's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Datagrams that arrived, each counted once.
    pub received: u64,
    /// Datagrams that did not arrive, although a later one did.
    pub lost: u64,
    /// Lost datagrams with numbers above the highest received one.
    pub lost_at_end: u64,
    /// Datagrams that arrived after one with a higher number: RFC 4737.
    pub late: u64,
    /// Datagrams that arrived again: RFC 5560.
    pub repeated: u64,
    /// The source of these counts.
    pub source: DeliverySource,
}

/// The source of [`DeliveryCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliverySource {
    /// The counts of a responder that stores the arrival of each number.
    #[default]
    Responder,
    /// Per-packet records of all numbers.
    Records,
    /// Stock's counts, if all received datagrams arrived in order.
    Sums,
}

/// The clock of arrival times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampSource {
    /// The network interface.
    Hardware,
    /// The kernel, at the reception of the datagram.
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
    /// The responder's clock relative to this end's; `None` without clock exchanges.
    pub clock: Option<ClockFit>,
}

/// The rows of one kind of record.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordRows {
    /// `-G`: one row per number.
    All(Vec<ArrivalRecord>),
    /// `-L`: one row per skipped number.
    Lost(Vec<LostRecord>),
}

/// The activity of a host during a test, caused by all its programs.
#[derive(Clone, Debug, Default)]
pub struct HostActivity {
    /// CPU time: first of all CPUs together, then of each CPU; empty if unknown.
    pub cpus: Vec<CpuLoad>,
    /// Counters of the interfaces and the protocols.
    pub counters: HostCounters,
    /// Hardware counters of one interface.
    pub nic: NicCounters,
}

/// The socket and process of a program. The lines before the first result print them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointInfo {
    /// Masks of the CPUs that the process may run on: before and after `-a`.
    pub cpus: (u64, u64),
    /// The socket options before the program sets them.
    pub default_buffers: SocketBuffers,
    /// The socket options afterwards.
    pub set_buffers: SocketBuffers,
    /// The peer's name as given on the command line; empty for a receiver.
    pub peer_name: String,
    /// The peer's address.
    pub peer_address: String,
    /// This end's address on the path to the peer.
    pub local_address: String,
    /// This host's name.
    pub node: String,
    /// The local port, if `-U` sets one.
    pub bound_port: Option<u16>,
}

/// A socket's buffers and type of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketBuffers {
    /// SO_RCVBUF in bytes. In `default_buffers`, the value of getsockopt(2); in `set_buffers`, half
    /// of it, which is the granted size.
    pub receive: u32,
    /// SO_SNDBUF in bytes, with the same two meanings.
    pub send: u32,
    /// IP_TOS or IPV6_TCLASS.
    pub type_of_service: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first counts are from a relay that drops 3 and 4, swaps 6 and 7, and duplicates 8.
    #[test]
    fn lost_at_end_follows_from_stocks_counts() {
        for (sent, received, lost, bad_order, lost_at_end) in [
            (12, 11, 3, 2, 0),
            (100, 95, 0, 0, 5),
            (200, 104, 0, 0, 96),
            (10, 10, 0, 0, 0),
            (10, 13, 0, 3, 0),
            // Invalid values from a peer.
            (0, u64::from(u32::MAX), u64::from(u32::MAX), 0, 0),
        ] {
            let counts = StockCounts {
                received,
                lost,
                bad_order,
                elapsed: Duration::ZERO,
            };
            assert_eq!(counts.lost_at_end(sent), lost_at_end, "{counts:?}");
        }
    }
}
