//! One test of `udpmon_bw_mon`: clock exchanges, sending, and fetching of the results.

use std::io;
use std::time::Duration;

use engine::Stop;
use model::{Counts, DatagramCounts, HighestNumberCounts, Side, SocketFacts};
use stats::clock::ClockExchange;
use sys::clock::monotonic_ns;
use units::Bytes;

use super::channel::Channel;
use super::departures::Departures;
use super::plausible;
use super::responder_records::ResponderRecords;
use crate::options::{BwMonSettings, RecordKind, RecordRequest, TestLoad};
use crate::result::{
    DeliveryCounts, DeliverySource, HostActivity, StampSource, StockCounts, ThroughputResult,
};
use crate::wire::{
    CountersObject, CpuLoad, HostCounters, LinearHistogram, MessageBlock, NicCounters,
    ResponderDetails, ResultObject,
};

/// The number of extra records requested from a stock responder. There, each late or repeated
/// packet shifts all later records by half a record.
const EXTRA_STOCK_RECORDS: u32 = 64;

/// One test that the responder has accepted.
pub(super) struct ThroughputTest<'a> {
    channel: &'a mut Channel,
    settings: &'a BwMonSettings,
    load: &'a TestLoad,
    /// The origin of the requester's times, in ns of the monotonic clock.
    zero_ns: u64,
    exchanges: Vec<ClockExchange>,
}

/// Returns the fields of ZEROSTATS and START. They request memory for the records and for
/// `extra_records` more.
pub(super) fn start_request(settings: &BwMonSettings, extra_records: u32) -> MessageBlock {
    let records = settings.records;
    MessageBlock {
        low: settings.bins.low,
        width: settings.bins.width,
        length: records.map_or(0, |request| record_bytes(&request, extra_records)),
        lost_only: records
            .is_some_and(|request| request.kind == RecordKind::Lost)
            .into(),
        skip: records.map_or(0, |request| request.skip),
        stamps: settings.records_kernel_and_nic_stamps.into(),
        ..MessageBlock::default()
    }
}

/// Returns the memory of the requested and the extra records, in bytes.
fn record_bytes(request: &RecordRequest, extra_records: u32) -> u32 {
    let enlarged = RecordRequest {
        count: request.count.saturating_add(extra_records),
        ..*request
    };
    u32::try_from(enlarged.bytes()).unwrap_or(u32::MAX)
}

impl<'a> ThroughputTest<'a> {
    pub(super) fn new(
        channel: &'a mut Channel,
        settings: &'a BwMonSettings,
        load: &'a TestLoad,
    ) -> Self {
        Self {
            channel,
            settings,
            load,
            zero_ns: monotonic_ns(),
            exchanges: Vec::new(),
        }
    }

    pub(super) fn run(mut self, stop: &Stop) -> io::Result<ThroughputResult> {
        let extra_records = if self.channel.is_linerate() {
            0
        } else {
            EXTRA_STOCK_RECORDS
        };
        let request = start_request(self.settings, extra_records);
        if self.settings.records.is_some() {
            self.exchanges = self.channel.exchange_clocks(self.zero_ns, stop)?;
            self.channel.start(&request, stop)?;
            self.check_memory(request.length, stop)?;
        }
        let is_v6 = self.channel.peer().is_ipv6();
        let kept_times = match self.settings.records {
            Some(request) if extra_records > 0 => {
                request.count.saturating_add(request.skip) as usize
            }
            _ => 0,
        };
        let (channel, load, zero_ns) = (&*self.channel, self.load, self.zero_ns);
        let departures = channel.run_watched(stop, |stop| {
            Departures::run(channel.socket(), load, zero_ns, kept_times, is_v6, stop)
        })??;
        // A stop ends only the sending. Fetch the results of the datagrams sent before it.
        let stop = &if stop.is_set() {
            Stop::new()
        } else {
            stop.clone()
        };
        let statistics = self.channel.fetch_statistics(stop)?;
        let elapsed = Duration::from_nanos(monotonic_ns() - self.zero_ns);
        let sent = departures.spacing.sent;
        let received = plausible::counts(&statistics, sent, elapsed)?;
        let details = self.fetch_details(stop)?;
        if let Some(details) = &details {
            plausible::check_details(details, sent)?;
        }
        if self.settings.records.is_some() {
            let later_exchanges = self.channel.exchange_clocks(self.zero_ns, stop)?;
            self.exchanges.extend(later_exchanges);
        }
        let histograms = self.fetch_histograms(stop)?;
        let remote_host = self.fetch_host_activity(stop)?;
        let records = match self.settings.records {
            Some(request) => {
                self.fetch_records(&request, &received, &departures.send_times, stop)?
            }
            None => ResponderRecords::default(),
        };
        let packets = records.packets(self.load.bytes, sent);
        let delivery = match &details {
            Some(details) => Some(delivery_counts(details, sent)),
            None => records.delivery_counts(&received, sent),
        };
        let remote = self.remote_side(&received, details.as_ref(), delivery.as_ref());
        let spacing = &departures.spacing;
        Ok(ThroughputResult {
            load: *self.load,
            sent,
            send_time: spacing.elapsed,
            timeouts: 0,
            receiver_counts: received,
            delivery,
            histograms,
            local_host: departures.host.clone(),
            remote_host,
            arrival_clock: Some(details.as_ref().map_or(StampSource::Program, stamp_source)),
            outcome: {
                let mut outcome = departures.outcome(self.settings.plan(self.load), Some(remote));
                outcome.packets = packets;
                outcome.clock_fit = records.clock;
                outcome
            },
            records: records.records,
            details,
        })
    }

    /// Fails if a linerate responder granted less memory for records than requested.
    fn check_memory(&mut self, requested: u32, stop: &Stop) -> io::Result<()> {
        match self.fetch_details(stop)? {
            Some(details) if details.record_bytes < requested => Err(io::Error::other(format!(
                "{}: the responder granted {} of {requested} bytes for records; request fewer records",
                self.channel.peer(),
                details.record_bytes
            ))),
            _ => Ok(()),
        }
    }

    fn fetch_records(
        &mut self,
        request: &RecordRequest,
        received: &StockCounts,
        send_times: &[i64],
        stop: &Stop,
    ) -> io::Result<ResponderRecords> {
        let object = match request.kind {
            RecordKind::All => ResultObject::ExactRecords,
            RecordKind::Lost => ResultObject::LostRecords,
        };
        let is_linerate = self.channel.is_linerate();
        let shifts = received
            .bad_order
            .div_ceil(2)
            .min(EXTRA_STOCK_RECORDS.into()) as u32;
        let extra_records = if is_linerate { 0 } else { shifts };
        let image =
            self.channel
                .fetch_object(object, record_bytes(request, extra_records), stop)?;
        let mut records = ResponderRecords::new(request, &image, is_linerate, &self.exchanges);
        if extra_records > 0 {
            let send_times = send_times.get(request.skip as usize..).unwrap_or_default();
            records.align(&image, send_times);
        }
        Ok(records)
    }

    /// Fetches the exact figures of a linerate responder; `None` from a stock responder.
    fn fetch_details(&mut self, stop: &Stop) -> io::Result<Option<ResponderDetails>> {
        if !self.channel.is_linerate() {
            return Ok(None);
        }
        let bytes = self
            .channel
            .fetch_object(ResultObject::Details, 4096, stop)?;
        Ok(ResponderDetails::decode(&bytes))
    }

    fn fetch_histograms(&mut self, stop: &Stop) -> io::Result<Vec<LinearHistogram>> {
        let count = match (
            self.settings.histograms,
            self.settings.records_kernel_and_nic_stamps,
        ) {
            (false, _) => 1,
            (true, false) => 3,
            (true, true) => LinearHistogram::COUNT,
        };
        let mut histograms = Vec::new();
        for id in 0..count {
            let image = self.channel.fetch_object(
                ResultObject::Histogram(id),
                LinearHistogram::LEN as u32,
                stop,
            )?;
            histograms.extend(LinearHistogram::decode(&image));
        }
        Ok(histograms)
    }

    /// Fetches the activity of the responder's host.
    fn fetch_host_activity(&mut self, stop: &Stop) -> io::Result<HostActivity> {
        let counters =
            self.channel
                .fetch_object(ResultObject::Counters, CountersObject::LEN as u32, stop)?;
        let nic = self
            .channel
            .fetch_object(ResultObject::Nic, NicCounters::LEN as u32, stop)?;
        let mut cpus = Vec::new();
        if self.settings.extended {
            let bytes = CpuLoad::LIST_BYTES as u32;
            cpus = self
                .channel
                .fetch_object(ResultObject::CpuLoad, bytes, stop)?;
        }
        Ok(HostActivity {
            cpus: CpuLoad::decode_all(&cpus),
            // The responder has received requests.
            counters: CountersObject::decode(&counters)
                .map_or_else(HostCounters::unavailable, HostCounters::without_frozen),
            nic: NicCounters::decode(&nic).unwrap_or_default(),
        })
    }

    /// Returns the responder's side of the outcome.
    fn remote_side(
        &self,
        received: &StockCounts,
        details: Option<&ResponderDetails>,
        delivery: Option<&DeliveryCounts>,
    ) -> Side {
        let bytes = received.received.saturating_mul(self.load.bytes.into());
        let highest_number_counts = HighestNumberCounts {
            highest: details.map_or(0, |details| details.end),
            skipped: received.lost,
            out_of_order: received.bad_order,
            missing: received.lost.saturating_sub(received.bad_order),
        };
        Side {
            counts: Counts {
                received: Bytes(details.map_or(bytes, |details| details.bytes)),
                receive_calls: received.received,
                ..Counts::default()
            },
            elapsed: Some(received.elapsed),
            datagrams: delivery.map(|delivery| DatagramCounts {
                received: delivery.received,
                lost: delivery.lost,
                reordered: delivery.late,
                duplicated: delivery.repeated,
                highest_number_counts,
                ..DatagramCounts::default()
            }),
            socket: SocketFacts {
                dropped: details.and_then(ResponderDetails::socket_drops),
                ..SocketFacts::default()
            },
            program: details.map(|_| "linerate".to_owned()),
            ..Side::default()
        }
    }
}

/// Converts a time in units of 0.1 µs.
pub(super) fn from_tenths(time: i64) -> Duration {
    Duration::from_nanos(u64::try_from(time).unwrap_or(0).saturating_mul(100))
}

fn delivery_counts(details: &ResponderDetails, sent: u64) -> DeliveryCounts {
    DeliveryCounts {
        received: details.received,
        lost: details.lost,
        lost_at_end: sent.saturating_sub(details.end),
        late: details.late,
        repeated: details.repeated,
        source: DeliverySource::Responder,
    }
}

fn stamp_source(details: &ResponderDetails) -> StampSource {
    match details.clock {
        0 => StampSource::Program,
        1 => StampSource::Kernel,
        _ => StampSource::Hardware,
    }
}
