//! Where the fields of a flowop stand: uperf has moved them four times, twice without another data
//! version.

use std::fmt;

use super::bytes::{Field, Order};
use super::{FlowopRecord, Version};
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
        self.places().kind + 16
    }

    /// The data version of masters that have it.
    pub fn version(self) -> Version {
        match self {
            Self::V1_0_7 => Version::V0_3,
            _ => Version::V0_3_1,
        }
    }

    /// Whatever is not at one place in all of them.
    pub(super) fn places(self) -> Places {
        match self {
            Self::V1_0_7 => Places {
                encapsulation_port: 32,
                duration: 40,
                repeat: None,
                batch_size: None,
                timeout: 64,
                black_box_log: None,
                sctp: 72,
                kind: 912,
            },
            Self::V1_0_8 => Places {
                encapsulation_port: 64,
                duration: 32,
                repeat: None,
                batch_size: None,
                timeout: 56,
                black_box_log: None,
                sctp: 68,
                kind: 912,
            },
            Self::BlackBoxLog => Places {
                encapsulation_port: 64,
                duration: 32,
                repeat: None,
                batch_size: None,
                timeout: 56,
                black_box_log: Some(68),
                sctp: 72,
                kind: 912,
            },
            Self::Repeat => Places {
                encapsulation_port: 72,
                duration: 32,
                repeat: Some(56),
                batch_size: None,
                timeout: 64,
                black_box_log: Some(76),
                sctp: 80,
                kind: 920,
            },
            Self::BatchSize => Places {
                encapsulation_port: 80,
                duration: 32,
                repeat: Some(56),
                batch_size: Some(64),
                timeout: 72,
                black_box_log: Some(84),
                sctp: 88,
                kind: 928,
            },
        }
    }
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

/// The places of a [`Layout`], in bytes from the start of a record.
pub(super) struct Places {
    pub(super) encapsulation_port: usize,
    /// The window and the count come right behind it.
    pub(super) duration: usize,
    pub(super) repeat: Option<usize>,
    pub(super) batch_size: Option<usize>,
    pub(super) timeout: usize,
    pub(super) black_box_log: Option<usize>,
    /// The first of SCTP's options, behind which all others and the texts have fixed distances.
    pub(super) sctp: usize,
    /// What the flowop does; the connection's name is behind it.
    pub(super) kind: usize,
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
        let kind = u32::read(start, layout.places().kind, order);
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
    let start = |layout: Layout| layout.places().sctp + FlowopRecord::REMOTE_HOST;
    let (early, late) = (start(Layout::V1_0_8), start(Layout::BlackBoxLog));
    let text_at = |at: usize| record[at] != 0;
    if text_at(early - 1) {
        // The directory is so long that it reaches this far in both; it begins as far apart.
        let directory = early - (FlowopRecord::REMOTE_HOST - FlowopRecord::DIRECTORY);
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
    use crate::wire::Text;

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
