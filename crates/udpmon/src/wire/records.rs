//! Records of single packets, as stored by a responder.

use codec::{Order, Record};

codec::record! {
    /// A packet (`-G`). A packet that did not arrive is all zeros.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PacketRecord: 32 bytes {
        /// The arrival time relative to the responder's time zero, in 0.1 µs; in [`Object::ExactRecords`], in ns.
        ///
        /// [`Object::ExactRecords`]: super::Object::ExactRecords
        [0] came: i64,
        /// The send time in the packet, relative to the requester's time zero, in 0.1 µs.
        [8] sent: i64,
        /// The kernel's receive time since 1970, in ns; 0 if unknown.
        [16] kernel_ns: u64,
        /// The network interface's receive time by its own clock, in ns; 0 if unknown.
        [24] hardware_ns: u64,
    }
}

codec::record! {
    /// A skipped number (`-L`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LostRecord: 24 bytes {
        /// The arrival time of the last packet before it, in 0.1 µs.
        [0] came: i64,
        /// The send time of that packet, in 0.1 µs.
        [8] sent: i64,
        /// The number.
        [16] number: i64,
    }
}

macro_rules! images {
    ($($record:ident),+) => {$(
        impl $record {
            /// Reads an image. An incomplete record at its end is left out.
            pub fn decode_all(image: &[u8]) -> Vec<Self> {
                let records = image.chunks_exact(Self::LEN);
                records.map(|record| Self::of_bytes(record, Order::Little)).collect()
            }

            /// Writes a record at its place in an image.
            pub fn write(&self, place: &mut [u8]) {
                self.put(place, Order::Little);
            }
        }
    )+};
}

images!(PacketRecord, LostRecord);

/// Reads the records of a stock responder. Each late or repeated packet moves its later records by half a record.
/// `sent` contains the send time of each recorded packet, in ascending order, in 0.1 µs.
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
        // A late packet's stamps are elsewhere, and the stamps after it may belong to another packet.
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
