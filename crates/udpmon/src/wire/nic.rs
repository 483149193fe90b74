//! The image of the counters of a network interface card.

use codec::{Order, Record, Text};

codec::record! {
    /// Counters of a network interface card; -1 marks a missing counter.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NicCounters: 136 bytes {
        /// In the order of [`NicCounters::NAMES`].
        [0] values: [i64; 12],
        /// The interface.
        [96] name: Text<32>,
        /// The values in use.
        [128] count: u32,
    }
}

impl NicCounters {
    /// The counters as the mlx5 driver names them. The last one counts drops for lack of buffers.
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

    /// Reads an image.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        Some(Self::of_bytes(bytes, Order::Little))
    }

    /// The image.
    pub fn encode(&self) -> [u8; Self::LEN] {
        self.to_bytes(Order::Little)
    }

    /// Returns the values sent; `None` marks a missing counter.
    pub fn values(&self) -> impl Iterator<Item = Option<i64>> + '_ {
        let count = (self.count as usize).min(Self::NAMES.len());
        let values = self.values[..count].iter();
        values.map(|value| (*value != -1).then_some(*value))
    }
}
