//! Per-packet records of a responder.

use codec::{Endian, Record};

codec::record! {
    /// The record of a packet (`-G`). All fields are zero if the packet did not arrive.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ArrivalRecord: 32 bytes {
        /// The arrival time relative to the responder's time zero, in 0.1 µs. In
        /// [`ResultObject::ExactRecords`](super::ResultObject::ExactRecords), it is in ns.
        [0] arrival: i64,
        /// The send time in the packet, relative to the requester's time zero, in 0.1 µs.
        [8] sent: i64,
        /// The kernel's receive time since 1970, in ns; 0 if unavailable.
        [16] kernel_ns: u64,
        /// The network interface's receive time by the interface's clock, in ns; 0 if unavailable.
        [24] hardware_ns: u64,
    }
}

codec::record! {
    /// The record of a skipped number (`-L`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LostRecord: 24 bytes {
        /// The arrival time of the packet before the skipped number, in 0.1 µs.
        [0] arrival: i64,
        /// The send time of that packet, in 0.1 µs.
        [8] sent: i64,
        /// The skipped number.
        [16] number: i64,
    }
}

macro_rules! images {
    ($($record:ident),+) => {$(
        impl $record {
            /// Decodes an object of records. Ignores an incomplete record at its end.
            pub fn decode_all(image: &[u8]) -> Vec<Self> {
                let records = image.chunks_exact(Self::LEN);
                records.map(|record| Self::from_bytes(record, Endian::Little)).collect()
            }

            /// Encodes the record into `bytes`.
            pub fn write(&self, bytes: &mut [u8]) {
                self.write_to(bytes, Endian::Little);
            }
        }
    )+};
}

images!(ArrivalRecord, LostRecord);

/// Decodes the records of a stock responder, and assigns them to their numbers. In its memory, each
/// late or repeated packet shifts the later records by half a record. `sent` has the send time of
/// each recorded packet in 0.1 µs, in ascending order.
pub fn align_records(image: &[u8], sent: &[i64]) -> Vec<ArrivalRecord> {
    let halves: Vec<[i64; 2]> = image
        .chunks_exact(ArrivalRecord::LEN / 2)
        .map(|half| [0, 8].map(|offset| i64::from_le_bytes(codec::array_at(half, offset))))
        .collect();
    let mut records = vec![ArrivalRecord::default(); halves.len() / 2];
    let number_of = |[arrival, sent_time]: [i64; 2]| match arrival {
        0 => None,
        _ => sent
            .binary_search(&sent_time)
            .ok()
            .filter(|index| *index < records.len()),
    };
    let numbers: Vec<_> = halves.iter().map(|half| number_of(*half)).collect();
    for (index, number) in numbers.iter().enumerate() {
        let Some(number) = *number else { continue };
        let [arrival, sent] = halves[index];
        // The time stamps of a late packet are not in the next half record, and those there may
        // belong to another packet.
        let is_in_order = numbers[..index]
            .iter()
            .flatten()
            .all(|earlier| *earlier < number);
        let stamps = match (halves.get(index + 1), numbers.get(index + 1)) {
            (Some([kernel, hardware]), Some(None)) if is_in_order => [*kernel, *hardware],
            _ => [0; 2],
        };
        records[number] = ArrivalRecord {
            arrival,
            sent,
            kernel_ns: stamps[0] as u64,
            hardware_ns: stamps[1] as u64,
        };
    }
    records
}
