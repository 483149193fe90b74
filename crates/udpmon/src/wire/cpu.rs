//! The object with a host's CPU load.

use codec::{Endian, Record};

codec::record! {
    /// The shares of CPU time of one CPU or of all CPUs together, in whole per cent.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CpuLoad: 96 bytes {
        /// Programs.
        [0] user: u64,
        /// Programs of low priority.
        [8] nice: u64,
        /// The kernel, interrupts, and idle time while waiting for a disk.
        [16] system: u64,
        /// Idle.
        [24] idle: u64,
        /// Idle while waiting for a disk.
        [32] iowait: u64,
        /// Interrupts.
        [40] irq: u64,
        /// Deferred interrupts: most of the network stack.
        [48] softirq: u64,
        /// The kernel in system calls, without interrupts.
        [64] kernel: u64,
        /// In the first entry: the number of entries in use.
        [88] count: u32,
    }
}

impl CpuLoad {
    /// The length of the object.
    pub const LIST_BYTES: usize = MAX_ENTRIES * Self::LEN;

    /// Returns whether any time passed between the two readings of the ticks.
    pub fn has_ticks(&self) -> bool {
        [self.user, self.nice, self.system, self.idle]
            .iter()
            .any(|share| *share > 0)
    }

    /// Decodes the object: the load of all CPUs together, then of each CPU.
    pub fn decode_all(image: &[u8]) -> Vec<Self> {
        let entries = image.chunks_exact(Self::LEN).take(MAX_ENTRIES);
        let loads: Vec<Self> = entries
            .map(|entry| Self::from_bytes(entry, Endian::Little))
            .collect();
        let count = loads.first().map_or(0, |total| total.count as usize);
        loads.into_iter().take(count).collect()
    }

    /// Encodes the object. It omits CPUs that do not fit.
    pub fn encode_all(loads: &[Self]) -> Vec<u8> {
        let mut image = vec![0; Self::LIST_BYTES];
        let count = loads.len().min(MAX_ENTRIES);
        for (load, entry) in loads.iter().zip(image.chunks_exact_mut(Self::LEN)) {
            load.write_to(entry, Endian::Little);
        }
        codec::Field::write(&(count as u32), &mut image, 88, Endian::Little);
        image
    }
}

/// The number of entries: one for all CPUs together, and 128 for single CPUs.
const MAX_ENTRIES: usize = 129;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_room_for_128_cpus() {
        let load = CpuLoad {
            user: 10,
            idle: 90,
            ..CpuLoad::default()
        };
        let image = CpuLoad::encode_all(&vec![load; 200]);
        let decoded = CpuLoad::decode_all(&image);
        assert_eq!(
            (image.len(), decoded.len(), decoded[128]),
            (12_384, 129, load)
        );
        assert_eq!(CpuLoad::decode_all(&[]), []);
    }
}
