//! Records of single packets, as a responder keeps them.

use codec::{Order, Record};

codec::record! {
    /// A packet (`-G`). One that did not come has zeros.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PacketRecord: 32 bytes {
        /// When it came, since the responder's time zero, in 0.1 µs; in ns in [`Object::ExactRecords`].
        ///
        /// [`Object::ExactRecords`]: super::Object::ExactRecords
        [0] came: i64,
        /// When it was sent, as it says, since the requester's time zero, in 0.1 µs.
        [8] sent: i64,
        /// When the kernel received it, since 1970, in ns; 0 is unknown.
        [16] kernel_ns: u64,
        /// When the network interface received it, by a clock of its own, in ns; 0 is unknown.
        [24] hardware_ns: u64,
    }
}

codec::record! {
    /// A number that was passed over (`-L`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LostRecord: 24 bytes {
        /// When the last packet before it came, in 0.1 µs.
        [0] came: i64,
        /// When that one was sent, in 0.1 µs.
        [8] sent: i64,
        /// The number.
        [16] number: i64,
    }
}

macro_rules! images {
    ($($record:ident),+) => {$(
        impl $record {
            /// Reads an image. A part of a record at its end is left out.
            pub fn decode_all(image: &[u8]) -> Vec<Self> {
                let records = image.chunks_exact(Self::LEN);
                records.map(|record| Self::of_bytes(record, Order::Little)).collect()
            }

            /// Writes a record to its place in an image.
            pub fn write(&self, place: &mut [u8]) {
                self.put(place, Order::Little);
            }
        }
    )+};
}

images!(PacketRecord, LostRecord);

/// Reads the records of a stock responder, whose later records lie half a record further for each packet that was late
/// or repeated. `sent` has the send time of each packet that is recorded, in ascending order, in 0.1 µs.
pub fn aligned(image: &[u8], sent: &[i64]) -> Vec<PacketRecord> {
    let halves: Vec<[i64; 2]> = image
        .chunks_exact(PacketRecord::LEN / 2)
        .map(|half| [0, 8].map(|at| i64::from_le_bytes(codec::part(half, at))))
        .collect();
    let mut records = vec![PacketRecord::default(); halves.len() / 2];
    let number_of = |[came, time]: [i64; 2]| match came {
        0 => None,
        _ => sent
            .binary_search(&time)
            .ok()
            .filter(|at| *at < records.len()),
    };
    let numbers: Vec<_> = halves.iter().map(|half| number_of(*half)).collect();
    for (at, number) in numbers.iter().enumerate() {
        let Some(number) = *number else { continue };
        let [came, sent] = halves[at];
        // A late packet's stamps are elsewhere, and those behind it may be another packet's.
        let is_in_order = numbers[..at]
            .iter()
            .flatten()
            .all(|before| *before < number);
        let stamps = match (halves.get(at + 1), numbers.get(at + 1)) {
            (Some([kernel, hardware]), Some(None)) if is_in_order => [*kernel, *hardware],
            _ => [0; 2],
        };
        records[number] = PacketRecord {
            came,
            sent,
            kernel_ns: stamps[0] as u64,
            hardware_ns: stamps[1] as u64,
        };
    }
    records
}
