//! Positions of the fields in a flowop record. uperf has moved them four times, three times
//! without a new data version.

use std::fmt;

use codec::{Endian, Field};

use super::DataVersion;
use super::flowop::{DIRECTORY, REMOTE_HOST};
use crate::FlowopKind;

/// Layout of a flowop record, from oldest to newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowopLayout {
    /// uperf 1.0.6 and 1.0.7: 928 bytes.
    V1_0_7,
    /// Release 1.0.8: 928 bytes.
    V1_0_8,
    /// After 1.0.8, with `bblog=`: 928 bytes.
    BlackBoxLog,
    /// With `repeat=`: 936 bytes.
    WithRepeat,
    /// With `batch_size=`: 944 bytes.
    WithBatchSize,
}

impl FlowopLayout {
    /// All layouts, from oldest to newest.
    pub const ALL: [Self; 5] = [
        Self::V1_0_7,
        Self::V1_0_8,
        Self::BlackBoxLog,
        Self::WithRepeat,
        Self::WithBatchSize,
    ];

    /// Length of a record in bytes.
    pub fn record_len(self) -> usize {
        self.kind_offset() + 16
    }

    /// Data version of masters with this layout.
    pub fn version(self) -> DataVersion {
        match self {
            Self::V1_0_7 => DataVersion::V0_3,
            _ => DataVersion::V0_3_1,
        }
    }

    /// Returns the offset of a block from the start of a record, in bytes; `None` if the layout
    /// lacks the block.
    pub(super) fn start(self, block: FieldBlock) -> Option<usize> {
        let starts: [usize; 5] = match block {
            FieldBlock::Size => [0; 5],
            FieldBlock::Duration => [40, 32, 32, 32, 32],
            FieldBlock::Repeat => [ABSENT, ABSENT, ABSENT, 56, 56],
            FieldBlock::BatchSize => [ABSENT, ABSENT, ABSENT, ABSENT, 64],
            FieldBlock::Timeout => [64, 56, 56, 64, 72],
            FieldBlock::Encapsulation => [32, 64, 64, 72, 80],
            FieldBlock::BlackBoxLog => [ABSENT, ABSENT, 68, 76, 84],
            FieldBlock::Sctp => [72, 68, 72, 80, 88],
            FieldBlock::Kind => [912, 912, 912, 920, 928],
        };
        Some(starts[self as usize]).filter(|start| *start != ABSENT)
    }

    /// Returns the offset of the flowop's kind. Every layout has this field.
    fn kind_offset(self) -> usize {
        self.start(FieldBlock::Kind).unwrap_or(ABSENT)
    }
}

/// Offset of a block that a layout lacks.
const ABSENT: usize = usize::MAX;

/// Block of fields with the same relative positions in every [`FlowopLayout`].
#[derive(Clone, Copy)]
pub(super) enum FieldBlock {
    Size,
    /// Duration, window and count.
    Duration,
    Repeat,
    BatchSize,
    Timeout,
    Encapsulation,
    BlackBoxLog,
    /// SCTP options, all other options, and the texts.
    Sctp,
    /// Kind of the flowop, and the connection's number.
    Kind,
}

impl fmt::Display for FlowopLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_0_7 => "uperf 1.0.7",
            Self::V1_0_8 => "uperf 1.0.8",
            Self::BlackBoxLog => "uperf 1.0.8 with bblog=",
            Self::WithRepeat => "uperf 1.0.8 with repeat=",
            Self::WithBatchSize => "uperf 1.0.8 with batch_size=",
        })
    }
}

/// Length of a workorder's first flowop record, detected from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DetectedLen {
    /// Too few bytes: this number of bytes is needed.
    Incomplete(usize),
    /// Length of the record in bytes.
    Known(usize),
    /// No layout has a flowop number at its position.
    Unknown,
}

/// Searches for a flowop number at the position of each layout. A record with a longer layout has a
/// text or zeros at the positions of the shorter ones, which are not flowop numbers.
pub(super) fn detect_record_len(version: DataVersion, order: Endian, start: &[u8]) -> DetectedLen {
    let layouts = FlowopLayout::ALL.into_iter();
    for layout in layouts.filter(|layout| layout.version() == version) {
        if start.len() < layout.record_len() {
            return DetectedLen::Incomplete(layout.record_len());
        }
        let kind = u32::read(start, layout.kind_offset(), order);
        if FlowopKind::from_number(kind).is_some() {
            return DetectedLen::Known(layout.record_len());
        }
    }
    DetectedLen::Unknown
}

/// Returns the layout of complete records with this length and data version.
///
/// Two layouts of version `0.3.1` have the same length. They differ in the position of the texts.
/// If no record has texts, no flowop opens a connection. All other fields then have the same
/// positions in both layouts.
pub(super) fn detect_layout<'a>(
    version: DataVersion,
    len: usize,
    mut records: impl Iterator<Item = &'a [u8]>,
) -> Option<FlowopLayout> {
    let mut candidates = FlowopLayout::ALL
        .into_iter()
        .filter(|layout| layout.version() == version && layout.record_len() == len);
    let first = candidates.next()?;
    if candidates.next().is_none() {
        return Some(first);
    }
    Some(records.find_map(layout_from_texts).unwrap_or(first))
}

/// Returns which of the two layouts of version `0.3.1` with 928 bytes this record has, from the
/// start of the host name.
fn layout_from_texts(record: &[u8]) -> Option<FlowopLayout> {
    let start = |layout: FlowopLayout| {
        layout
            .start(FieldBlock::Sctp)
            .map(|sctp| sctp + REMOTE_HOST)
    };
    let (release_host, newer_host) = (
        start(FlowopLayout::V1_0_8)?,
        start(FlowopLayout::BlackBoxLog)?,
    );
    let has_text_at = |at: usize| record[at] != 0;
    if has_text_at(release_host - 1) {
        // In both layouts, a long directory can reach this byte. Its start differs between them.
        let directory = release_host - (REMOTE_HOST - DIRECTORY);
        return Some(if has_text_at(directory) {
            FlowopLayout::V1_0_8
        } else {
            FlowopLayout::BlackBoxLog
        });
    }
    if has_text_at(release_host) {
        return Some(FlowopLayout::V1_0_8);
    }
    has_text_at(newer_host).then_some(FlowopLayout::BlackBoxLog)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FlowopRecord, Text};

    #[test]
    fn layouts_have_uperfs_lengths_and_versions() {
        let lengths = FlowopLayout::ALL.map(FlowopLayout::record_len);
        assert_eq!(lengths, [928, 928, 928, 936, 944]);
        assert_eq!(FlowopLayout::V1_0_7.version(), DataVersion::V0_3);
        assert_eq!(FlowopLayout::WithBatchSize.version(), DataVersion::V0_3_1);
    }

    #[test]
    fn each_layout_is_recognised() {
        for layout in FlowopLayout::ALL {
            for order in [Endian::Little, Endian::Big] {
                for (host, directory) in [("h", ""), ("h", "d"), ("::1", &"d".repeat(127))] {
                    let record = FlowopRecord {
                        remote_host: Text::truncated(host),
                        directory: Text::truncated(directory),
                        cipher: Text::truncated(&"c".repeat(49)),
                        method: Text::truncated("tls"),
                        ..FlowopRecord::new(FlowopKind::Accept)
                    };
                    let bytes = record.encode(layout, order);
                    let found = recognise(layout.version(), order, &bytes);
                    assert_eq!(found, Some(layout), "{order:?} {host} {directory}");
                }
            }
        }
    }

    #[test]
    fn bytes_are_requested_in_steps() {
        let bytes =
            FlowopRecord::new(FlowopKind::Nop).encode(FlowopLayout::WithBatchSize, Endian::Big);
        for (given, needed) in [(0, 928), (927, 928), (928, 936), (936, 944)] {
            let length = detect_record_len(DataVersion::V0_3_1, Endian::Big, &bytes[..given]);
            assert_eq!(length, DetectedLen::Incomplete(needed), "{given}");
        }
        let known = detect_record_len(DataVersion::V0_3_1, Endian::Big, &bytes);
        assert_eq!(known, DetectedLen::Known(944));
    }

    #[test]
    fn records_without_a_flowop_number_are_unknown() {
        for number in [0, 12, u32::MAX] {
            let record = FlowopRecord {
                kind: number,
                ..FlowopRecord::default()
            };
            let bytes = record.encode(FlowopLayout::WithBatchSize, Endian::Little);
            let length = detect_record_len(DataVersion::V0_3_1, Endian::Little, &bytes);
            assert_eq!(length, DetectedLen::Unknown, "{number}");
        }
    }

    #[test]
    fn records_without_texts_have_the_release_layout() {
        let record =
            FlowopRecord::new(FlowopKind::Think).encode(FlowopLayout::BlackBoxLog, Endian::Little);
        let found = recognise(DataVersion::V0_3_1, Endian::Little, &record);
        assert_eq!(found, Some(FlowopLayout::V1_0_8));
    }

    fn recognise(version: DataVersion, order: Endian, record: &[u8]) -> Option<FlowopLayout> {
        let mut given = 0;
        loop {
            match detect_record_len(version, order, &record[..given]) {
                DetectedLen::Incomplete(needed) => given = needed,
                DetectedLen::Known(len) => {
                    assert_eq!(len, record.len());
                    return detect_layout(version, len, [record].into_iter());
                }
                DetectedLen::Unknown => return None,
            }
        }
    }
}
