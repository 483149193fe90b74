//! The object with the counters of a network interface card.

use codec::{Endian, Record, Text};

use super::UNAVAILABLE;

codec::record! {
    /// Counters of a network interface card; [`UNAVAILABLE`] marks a missing counter.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NicCounters: 136 bytes {
        /// The counters in the order of [`NicCounters::NAMES`].
        [0] values: [i64; 12],
        /// The name of the interface.
        [96] name: Text<32>,
        /// The number of values in use.
        [128] count: u32,
    }
}

impl NicCounters {
    /// The names of the counters in the mlx5 driver. The last one counts drops because of missing
    /// buffers.
    pub const NAMES: [&str; 9] = [
        "rx_packets",
        "tx_packets",
        "rx_packets_phy",
        "tx_packets_phy",
        "rx_pause_ctrl_phy",
        "tx_pause_ctrl_phy",
        "tx_global_pause_duration",
        "rx_crc_errors_phy",
        "rx_out_of_buffer",
    ];

    /// Decodes the object.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        Some(Self::from_bytes(bytes, Endian::Little))
    }

    /// Encodes the object.
    pub fn encode(&self) -> [u8; Self::LEN] {
        self.to_bytes(Endian::Little)
    }

    /// Returns the values in use; `None` marks a missing counter.
    pub fn values(&self) -> impl Iterator<Item = Option<i64>> + '_ {
        let count = (self.count as usize).min(Self::NAMES.len());
        let values = self.values[..count].iter();
        values.map(|value| (*value != UNAVAILABLE).then_some(*value))
    }
}
