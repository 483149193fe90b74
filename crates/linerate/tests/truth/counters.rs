//! Interface counters of the kernel, in the calling thread's network namespace.

use std::time::{Duration, Instant};

/// Interval between two reads of the counters: 0.02 % of ten seconds.
const READ_INTERVAL: Duration = Duration::from_millis(2);

/// Received bytes and packets of an interface since its creation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    /// Bytes, Ethernet headers included.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}

impl Received {
    /// Reads the counters of an interface from `/proc/net/dev`, proc(5).
    pub(crate) fn read(interface: &str) -> Self {
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let line = table
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
        let mut fields = line.unwrap_or_default().split_whitespace();
        let mut next = || {
            fields
                .next()
                .and_then(|field| field.parse().ok())
                .unwrap_or_default()
        };
        Self {
            bytes: next(),
            packets: next(),
        }
    }

    /// Returns the bytes without headers of `header_bytes` per packet.
    pub(crate) fn payload(self, header_bytes: u64) -> u64 {
        self.bytes.saturating_sub(self.packets * header_bytes)
    }

    fn since(self, start: Self) -> Self {
        Self {
            bytes: self.bytes - start.bytes,
            packets: self.packets - start.packets,
        }
    }
}

/// Readings of an interface's counters over time.
#[derive(Debug, Default)]
pub(crate) struct CounterSeries(Vec<(Instant, Received)>);

impl CounterSeries {
    /// Reads an interface's counters until `is_running` returns false.
    pub(crate) fn record(interface: &str, is_running: impl Fn() -> bool) -> Self {
        let mut readings = Vec::new();
        loop {
            readings.push((Instant::now(), Received::read(interface)));
            if !is_running() {
                return Self(readings);
            }
            std::thread::sleep(READ_INTERVAL);
        }
    }

    /// Returns the increase from the first to the last reading.
    pub(crate) fn total(&self) -> Received {
        match (self.0.first(), self.0.last()) {
            (Some((_, first)), Some((_, last))) => last.since(*first),
            _ => Received::default(),
        }
    }

    /// Returns the increase within `length` after the first data packet. Data starts when more than
    /// `control_packets` packets have arrived.
    pub(crate) fn within(&self, length: Duration, control_packets: u64) -> Received {
        let Some((_, first)) = self.0.first() else {
            return Received::default();
        };
        let data_start = self
            .0
            .iter()
            .position(|(_, now)| now.since(*first).packets > control_packets);
        let Some((start, _)) = data_start.map(|index| self.0[index]) else {
            return Received::default();
        };
        let readings = self
            .0
            .iter()
            .take_while(|(time, _)| *time <= start + length);
        readings
            .last()
            .map_or(Received::default(), |(_, last)| last.since(*first))
    }
}
