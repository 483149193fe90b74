//! Where the fields of a flowop stand: uperf has moved them four times, twice without another data
//! version.

use std::fmt;

use codec::{Field, Order};

use super::Version;
use super::flowop::{DIRECTORY, REMOTE_HOST};
use crate::Kind;

/// The form of a flowop's record, in the order in which uperf had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// That of 1.0.6 and 1.0.7, 928 bytes.
    V1_0_7,
    /// That of the release 1.0.8, 928 bytes.
    V1_0_8,
    /// After 1.0.8, with `bblog=`, 928 bytes.
    BlackBoxLog,
    /// With `repeat=`, 936 bytes.
    Repeat,
    /// With `batch_size=`, 944 bytes.
    BatchSize,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::V1_0_7,
        Self::V1_0_8,
        Self::BlackBoxLog,
        Self::Repeat,
        Self::BatchSize,
    ];

    /// Length of a record in bytes.
    pub fn record_len(self) -> usize {
        self.kind() + 16
    }

    /// The data version of masters that have it.
    pub fn version(self) -> Version {
        match self {
            Self::V1_0_7 => Version::V0_3,
            _ => Version::V0_3_1,
        }
    }

    /// Where a run begins, bytes from the start of a record; `None` if the layout has no such run.
    pub(super) fn start(self, run: Run) -> Option<usize> {
        let starts: [usize; 5] = match run {
            Run::Size => [0; 5],
            Run::Duration => [40, 32, 32, 32, 32],
            Run::Repeat => [NONE, NONE, NONE, 56, 56],
            Run::BatchSize => [NONE, NONE, NONE, NONE, 64],
            Run::Timeout => [64, 56, 56, 64, 72],
            Run::Encapsulation => [32, 64, 64, 72, 80],
            Run::BlackBoxLog => [NONE, NONE, 68, 76, 84],
            Run::Sctp => [72, 68, 72, 80, 88],
            Run::Kind => [912, 912, 912, 920, 928],
        };
        Some(starts[self as usize]).filter(|start| *start != NONE)
    }

    /// Where what the flowop does stands, which every layout has.
    fn kind(self) -> usize {
        self.start(Run::Kind).unwrap_or(NONE)
    }
}

const NONE: usize = usize::MAX;

/// Fields that stand at the same distance from each other in every [`Layout`].
#[derive(Clone, Copy)]
pub(super) enum Run {
    Size,
    /// Duration, window and count.
    Duration,
    Repeat,
    BatchSize,
    Timeout,
    Encapsulation,
    BlackBoxLog,
    /// SCTP's options, and behind them all others and the texts.
    Sctp,
    /// What the flowop does, and the connection's name.
    Kind,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_0_7 => "uperf 1.0.7",
            Self::V1_0_8 => "uperf 1.0.8",
            Self::BlackBoxLog => "uperf 1.0.8 with bblog=",
            Self::Repeat => "uperf 1.0.8 with repeat=",
            Self::BatchSize => "uperf 1.0.8 with batch_size=",
        })
    }
}

/// What the first bytes of a workorder's first flowop say of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Not enough: as many bytes as these are needed from its start.
    More(usize),
    /// That of a record.
    Known(usize),
    /// No layout has the number of a flowop where it should be.
    Unknown,
}

/// Looks for the number of a flowop where each layout has it. In longer layouts the places of the
/// shorter ones hold a text or zeros, which are no such number.
pub(super) fn length(version: Version, order: Order, start: &[u8]) -> Length {
    let layouts = Layout::ALL.into_iter();
    for layout in layouts.filter(|layout| layout.version() == version) {
        if start.len() < layout.record_len() {
            return Length::More(layout.record_len());
        }
        let kind = u32::read(start, layout.kind(), order);
        if Kind::of(kind).is_some() {
            return Length::Known(layout.record_len());
        }
    }
    Length::Unknown
}

/// The layout of whole records of this length, of a master of this version.
///
/// Two of version `0.3.1` are equally long; where the texts stand tells which it is. If there are
/// none, nothing opens a connection, and all that remains is at one place in both.
pub(super) fn layout<'a>(
    version: Version,
    len: usize,
    mut records: impl Iterator<Item = &'a [u8]>,
) -> Option<Layout> {
    let mut candidates = Layout::ALL
        .into_iter()
        .filter(|layout| layout.version() == version && layout.record_len() == len);
    let first = candidates.next()?;
    if candidates.next().is_none() {
        return Some(first);
    }
    Some(records.find_map(told_by_texts).unwrap_or(first))
}

/// Which of the two of 928 bytes this record has, by the start of the host's name.
fn told_by_texts(record: &[u8]) -> Option<Layout> {
    let start = |layout: Layout| layout.start(Run::Sctp).map(|sctp| sctp + REMOTE_HOST);
    let (early, late) = (start(Layout::V1_0_8)?, start(Layout::BlackBoxLog)?);
    let text_at = |at: usize| record[at] != 0;
    if text_at(early - 1) {
        // The directory is so long that it reaches this far in both; it begins as far apart.
        let directory = early - (REMOTE_HOST - DIRECTORY);
        return Some(if text_at(directory) {
            Layout::V1_0_8
        } else {
            Layout::BlackBoxLog
        });
    }
    if text_at(early) {
        return Some(Layout::V1_0_8);
    }
    text_at(late).then_some(Layout::BlackBoxLog)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FlowopRecord, Text};

    #[test]
    fn lengths_and_versions() {
        let lengths = Layout::ALL.map(Layout::record_len);
        assert_eq!(lengths, [928, 928, 928, 936, 944]);
        assert_eq!(Layout::V1_0_7.version(), Version::V0_3);
        assert_eq!(Layout::BatchSize.version(), Version::V0_3_1);
    }

    #[test]
    fn each_layout_is_recognised() {
        for layout in Layout::ALL {
            for order in [Order::Little, Order::Big] {
                for (host, directory) in [("h", ""), ("h", "d"), ("::1", &"d".repeat(127))] {
                    let record = FlowopRecord {
                        remote_host: Text::cut(host),
                        directory: Text::cut(directory),
                        cipher: Text::cut(&"c".repeat(49)),
                        method: Text::cut("tls"),
                        ..FlowopRecord::new(Kind::Accept)
                    };
                    let bytes = record.encode(layout, order);
                    let found = recognise(layout.version(), order, &bytes);
                    assert_eq!(found, Some(layout), "{order:?} {host} {directory}");
                }
            }
        }
    }

    #[test]
    fn more_is_asked_for_in_steps() {
        let bytes = FlowopRecord::new(Kind::Nop).encode(Layout::BatchSize, Order::Big);
        for (given, needed) in [(0, 928), (927, 928), (928, 936), (936, 944)] {
            let length = length(Version::V0_3_1, Order::Big, &bytes[..given]);
            assert_eq!(length, Length::More(needed), "{given}");
        }
        let known = length(Version::V0_3_1, Order::Big, &bytes);
        assert_eq!(known, Length::Known(944));
    }

    #[test]
    fn what_has_no_number_is_no_flowop() {
        for number in [0, 12, u32::MAX] {
            let record = FlowopRecord {
                kind: number,
                ..FlowopRecord::default()
            };
            let bytes = record.encode(Layout::BatchSize, Order::Little);
            let length = length(Version::V0_3_1, Order::Little, &bytes);
            assert_eq!(length, Length::Unknown, "{number}");
        }
    }

    #[test]
    fn without_texts_it_is_that_of_the_release() {
        let record = FlowopRecord::new(Kind::Think).encode(Layout::BlackBoxLog, Order::Little);
        let found = recognise(Version::V0_3_1, Order::Little, &record);
        assert_eq!(found, Some(Layout::V1_0_8));
    }

    fn recognise(version: Version, order: Order, record: &[u8]) -> Option<Layout> {
        let mut given = 0;
        loop {
            match length(version, order, &record[..given]) {
                Length::More(needed) => given = needed,
                Length::Known(len) => {
                    assert_eq!(len, record.len());
                    return layout(version, len, [record].into_iter());
                }
                Length::Unknown => return None,
            }
        }
    }
}
