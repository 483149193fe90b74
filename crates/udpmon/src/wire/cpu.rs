//! The image of a host's CPU load.

use codec::{Order, Record};

codec::record! {
    /// The time of one CPU or of all CPUs by kind, in whole per cent.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CpuLoad: 96 bytes {
        /// Programs.
        [0] user: u64,
        /// Programs of low priority.
        [8] nice: u64,
        /// The kernel, interrupts, and waiting for a disk.
        [16] system: u64,
        /// Idle.
        [24] idle: u64,
        /// Idle while waiting for a disk.
        [32] iowait: u64,
        /// Interrupts.
        [40] irq: u64,
        /// Interrupts, deferred: most of the network stack.
        [48] softirq: u64,
        /// The kernel for programs.
        [64] kernel: u64,
        /// In the first entry: the number of entries in use.
        [88] count: u32,
    }
}

impl CpuLoad {
    /// The length of the image.
    pub const IMAGE: usize = ENTRIES * Self::LEN;

    /// Reads an image: the load of all CPUs together, and then of each.
    pub fn decode_all(image: &[u8]) -> Vec<Self> {
        let entries = image.chunks_exact(Self::LEN).take(ENTRIES);
        let loads: Vec<Self> = entries
            .map(|entry| Self::of_bytes(entry, Order::Little))
            .collect();
        let count = loads.first().map_or(0, |all| all.count as usize);
        loads.into_iter().take(count).collect()
    }

    /// Encodes the image. CPUs that do not fit are left out.
    pub fn encode_all(loads: &[Self]) -> Vec<u8> {
        let mut image = vec![0; Self::IMAGE];
        let count = loads.len().min(ENTRIES);
        for (load, entry) in loads.iter().zip(image.chunks_exact_mut(Self::LEN)) {
            load.put(entry, Order::Little);
        }
        codec::Field::write(&(count as u32), &mut image, 88, Order::Little);
        image
    }
}

/// All CPUs together, and 128 of them.
const ENTRIES: usize = 129;

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
        let again = CpuLoad::decode_all(&image);
        assert_eq!((image.len(), again.len(), again[128]), (12_384, 129, load));
        assert_eq!(CpuLoad::decode_all(&[]), []);
    }
}
