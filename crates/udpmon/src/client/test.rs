//! One test of `udpmon_bw_mon`, from the exchanges that fit the clocks to the records.

use std::io;
use std::time::Duration;

use engine::Stop;
use model::{Counts, DatagramCounts, OrderCounts, Side, SocketFacts};
use stats::clock::Exchange;
use sys::clock::monotonic_ns;
use units::Bytes;

use super::channel::Channel;
use super::departures::Departures;
use super::recorded::Recorded;
use crate::options::{BwMon, Load, RecordKind, RecordsWanted};
use crate::result::{ByOrder, Fate, FateSource, HostUse, StampSource, Throughput};
use crate::wire::{Block, CounterImage, CpuLoad, Details, Histogram, NicCounters, Object};

/// Extra records in the memory of a stock responder. Each late or repeated packet moves all later records by half a
/// record.
const STOCK_SHIFTS: u32 = 64;

/// One test that the responder has accepted.
pub(super) struct Test<'a> {
    channel: &'a mut Channel,
    settings: &'a BwMon,
    load: &'a Load,
    /// The requester's time zero, in ns of the monotonic clock.
    zero_ns: u64,
    exchanges: Vec<Exchange>,
}

/// Returns the fields of ZEROSTATS and START, with memory for the extra records.
pub(super) fn request(settings: &BwMon, further: u32) -> Block {
    let records = settings.records;
    Block {
        low: settings.bins.low,
        width: settings.bins.width,
        length: records.map_or(0, |wanted| record_bytes(&wanted, further)),
        lost_only: records
            .is_some_and(|wanted| wanted.kind == RecordKind::Lost)
            .into(),
        skip: records.map_or(0, |wanted| wanted.skip),
        stamps: settings.kernel_stamps.into(),
        ..Block::default()
    }
}

/// Returns the bytes of the records, including extra ones.
fn record_bytes(wanted: &RecordsWanted, further: u32) -> u32 {
    let more = RecordsWanted {
        count: wanted.count.saturating_add(further),
        ..*wanted
    };
    u32::try_from(more.bytes()).unwrap_or(u32::MAX)
}

impl<'a> Test<'a> {
    pub(super) fn new(channel: &'a mut Channel, settings: &'a BwMon, load: &'a Load) -> Self {
        Self {
            channel,
            settings,
            load,
            zero_ns: monotonic_ns(),
            exchanges: Vec::new(),
        }
    }

    pub(super) fn run(mut self, stop: &Stop) -> io::Result<Throughput> {
        let further = if self.channel.is_ours() {
            0
        } else {
            STOCK_SHIFTS
        };
        let request = request(self.settings, further);
        if self.settings.records.is_some() {
            self.exchanges = self.channel.exchanges(self.zero_ns, stop)?;
            self.channel.start(&request, stop)?;
            self.check_memory(request.length, stop)?;
        }
        let is_v6 = self.channel.peer().is_ipv6();
        let kept = match self.settings.records {
            Some(wanted) if further > 0 => wanted.count.saturating_add(wanted.skip) as usize,
            _ => 0,
        };
        let (channel, load, zero_ns) = (&*self.channel, self.load, self.zero_ns);
        let departures = channel.watched(stop, |stop| {
            Departures::run(channel.socket(), load, zero_ns, kept, is_v6, stop)
        })??;
        // Datagrams sent before a stop are measured.
        let stop = &if stop.is_set() {
            Stop::new()
        } else {
            stop.clone()
        };
        let statistics = self.channel.statistics(stop)?;
        let received = by_order(&statistics);
        let details = self.details(stop)?;
        if self.settings.records.is_some() {
            let after = self.channel.exchanges(self.zero_ns, stop)?;
            self.exchanges.extend(after);
        }
        let sent = departures.spaced.sent;
        let histograms = self.histograms(stop)?;
        let there = self.host(stop)?;
        let recorded = match self.settings.records {
            Some(wanted) => self.recorded(&wanted, &received, &departures.times, stop)?,
            None => Recorded::default(),
        };
        let packets = recorded.packets(self.load.bytes, sent);
        let fate = match &details {
            Some(details) => Some(fate_of(details, sent)),
            None => recorded.fate(&received, sent),
        };
        let side = self.there(&received, details.as_ref(), fate.as_ref());
        let spaced = &departures.spaced;
        Ok(Throughput {
            load: *self.load,
            sent,
            send_time: spaced.elapsed,
            timeouts: 0,
            received,
            fate,
            histograms,
            here: departures.host.clone(),
            there,
            arrivals: Some(details.as_ref().map_or(StampSource::Program, clock_of)),
            outcome: {
                let mut outcome = departures.outcome(self.settings.plan(self.load), Some(side));
                outcome.packets = packets;
                outcome.clock_fit = recorded.clock;
                outcome
            },
            records: recorded.records,
            details,
        })
    }

    /// Fails if a linerate lacks memory for the records.
    fn check_memory(&mut self, asked: u32, stop: &Stop) -> io::Result<()> {
        match self.details(stop)? {
            Some(details) if details.record_bytes < asked => Err(io::Error::other(format!(
                "{}: {} of {asked} bytes for records granted; ask for fewer records",
                self.channel.peer(),
                details.record_bytes
            ))),
            _ => Ok(()),
        }
    }

    /// Fetches the records.
    fn recorded(
        &mut self,
        wanted: &RecordsWanted,
        received: &ByOrder,
        times: &[i64],
        stop: &Stop,
    ) -> io::Result<Recorded> {
        let object = match wanted.kind {
            RecordKind::All => Object::ExactRecords,
            RecordKind::Lost => Object::LostRecords,
        };
        let is_ours = self.channel.is_ours();
        let shifts = received.bad_order.div_ceil(2).min(STOCK_SHIFTS.into()) as u32;
        let further = if is_ours { 0 } else { shifts };
        let image = self
            .channel
            .object(object, record_bytes(wanted, further), stop)?;
        let mut recorded = Recorded::new(wanted, &image, is_ours, &self.exchanges);
        if further > 0 {
            let times = times.get(wanted.skip as usize..).unwrap_or_default();
            recorded.align(&image, times);
        }
        Ok(recorded)
    }

    /// Fetches the exact figures of a linerate.
    fn details(&mut self, stop: &Stop) -> io::Result<Option<Details>> {
        if !self.channel.is_ours() {
            return Ok(None);
        }
        let bytes = self.channel.object(Object::Details, 4096, stop)?;
        Ok(Details::decode(&bytes))
    }

    fn histograms(&mut self, stop: &Stop) -> io::Result<Vec<Histogram>> {
        let count = match (self.settings.histograms, self.settings.kernel_stamps) {
            (false, _) => 1,
            (true, false) => 3,
            (true, true) => Histogram::COUNT,
        };
        let mut histograms = Vec::new();
        for id in 0..count {
            let image = self
                .channel
                .object(Object::Histogram(id), Histogram::LEN as u32, stop)?;
            histograms.extend(Histogram::decode(&image));
        }
        Ok(histograms)
    }

    /// Fetches the activity of the responder's host.
    fn host(&mut self, stop: &Stop) -> io::Result<HostUse> {
        let counters = self
            .channel
            .object(Object::Counters, CounterImage::LEN as u32, stop)?;
        let nic = self
            .channel
            .object(Object::Nic, NicCounters::LEN as u32, stop)?;
        let mut cpus = Vec::new();
        if self.settings.extended {
            let image = CpuLoad::IMAGE as u32;
            cpus = self.channel.object(Object::CpuLoad, image, stop)?;
        }
        Ok(HostUse {
            cpus: CpuLoad::decode_all(&cpus),
            counters: CounterImage::decode(&counters).unwrap_or_default(),
            nic: NicCounters::decode(&nic).unwrap_or_default(),
        })
    }

    /// Builds the responder's part of the outcome.
    fn there(&self, received: &ByOrder, details: Option<&Details>, fate: Option<&Fate>) -> Side {
        let bytes = received.received.saturating_mul(self.load.bytes.into());
        let by_order = OrderCounts {
            highest: details.map_or(0, |details| details.end),
            passed_over: received.lost,
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
            datagrams: fate.map(|fate| DatagramCounts {
                received: fate.received,
                lost: fate.lost,
                reordered: fate.late,
                duplicated: fate.repeated,
                by_order,
                ..DatagramCounts::default()
            }),
            socket: SocketFacts {
                dropped: details.map(|details| details.socket_drops),
                ..SocketFacts::default()
            },
            program: details.map(|_| "linerate".to_owned()),
            ..Side::default()
        }
    }
}

fn by_order(statistics: &Block) -> ByOrder {
    ByOrder {
        received: statistics.received.into(),
        lost: statistics.lost.into(),
        bad_order: statistics.bad_order.into(),
        elapsed: tenths(statistics.first_to_last),
    }
}

/// Converts a time in 0.1 µs.
pub(super) fn tenths(time: i64) -> Duration {
    Duration::from_nanos(u64::try_from(time).unwrap_or(0).saturating_mul(100))
}

fn fate_of(details: &Details, sent: u64) -> Fate {
    Fate {
        received: details.received,
        lost: details.lost,
        lost_at_end: sent.saturating_sub(details.end),
        late: details.late,
        repeated: details.repeated,
        source: FateSource::Responder,
    }
}

fn clock_of(details: &Details) -> StampSource {
    match details.clock {
        0 => StampSource::Program,
        1 => StampSource::Kernel,
        _ => StampSource::Hardware,
    }
}
