//! What the kernel counts, for whichever namespace the calling thread is in.

use std::time::{Duration, Instant};

/// How often the counters are read: 0.02 % of ten seconds.
const LOOK: Duration = Duration::from_millis(2);

/// What an interface has received since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    /// Bytes, Ethernet headers included.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}

impl Received {
    /// The counters of an interface: proc(5), `/proc/net/dev`.
    pub(crate) fn by(interface: &str) -> Self {
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let line = table
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
        let mut words = line.unwrap_or_default().split_whitespace();
        let mut next = || {
            words
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or_default()
        };
        Self {
            bytes: next(),
            packets: next(),
        }
    }

    /// What is left of it without so many bytes of headers a packet.
    pub(crate) fn payload(self, headers: u64) -> u64 {
        self.bytes.saturating_sub(self.packets * headers)
    }

    fn since(self, start: Self) -> Self {
        Self {
            bytes: self.bytes - start.bytes,
            packets: self.packets - start.packets,
        }
    }
}

/// The course of an interface's counters.
#[derive(Debug, Default)]
pub(crate) struct Course(Vec<(Instant, Received)>);

impl Course {
    /// Reads an interface's counters while `running` says so.
    pub(crate) fn of(interface: &str, running: impl Fn() -> bool) -> Self {
        let mut readings = Vec::new();
        loop {
            readings.push((Instant::now(), Received::by(interface)));
            if !running() {
                return Self(readings);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// All that came.
    pub(crate) fn total(&self) -> Received {
        match (self.0.first(), self.0.last()) {
            (Some((_, first)), Some((_, last))) => last.since(*first),
            _ => Received::default(),
        }
    }

    /// What came within `length` from the first packet of the data on: the control messages before
    /// it are fewer packets than `before`.
    pub(crate) fn within(&self, length: Duration, before: u64) -> Received {
        let Some((_, first)) = self.0.first() else {
            return Received::default();
        };
        let begun = self
            .0
            .iter()
            .position(|(_, now)| now.since(*first).packets > before);
        let Some((start, _)) = begun.map(|at| self.0[at]) else {
            return Received::default();
        };
        let inside = self
            .0
            .iter()
            .take_while(|(when, _)| *when <= start + length);
        inside
            .last()
            .map_or(Received::default(), |(_, last)| last.since(*first))
    }
}
