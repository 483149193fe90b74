//! The record of a flowop.

use codec::{Field, Order, Text};

use super::as_field::AsField;
use super::layout::{Layout, Run};
use crate::{Amount, Flags, Flowop, Kind, WorkLimits};

/// Declares the record by one row per field: its place, which is a distance from the start of a [`Run`], and, if it
/// travels as it is, what it is in a [`Flowop`] and its option.
macro_rules! flowop_record {
    ($(#[$about:meta])* pub struct $record:ident {
        $(
            $(#[$doc:meta])*
            [$run:ident + $offset:tt] $field:ident: $kind:ty $(= $option:literal $($place:ident).+)?,
        )+
    }) => {
        $(#[$about])*
        pub struct $record {
            $($(#[$doc])* pub $field: $kind,)+
        }

        impl $record {
            /// The names of the fields.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field),)+];

            /// The record that begins with these bytes; `None` if there are fewer than the layout has.
            pub fn decode(bytes: &[u8], layout: Layout, order: Order) -> Option<Self> {
                let bytes = bytes.get(..layout.record_len())?;
                let mut record = Self::blank();
                $(if let Some(start) = layout.start(Run::$run) {
                    record.$field = Field::read(bytes, start + $offset, order);
                })+
                Some(record)
            }

            /// As it travels in that layout; what the layout lacks is left out. See [`Self::lacking`].
            pub fn encode(&self, layout: Layout, order: Order) -> Vec<u8> {
                let mut bytes = vec![0; layout.record_len()];
                $(if let Some(start) = layout.start(Run::$run) {
                    self.$field.write(&mut bytes, start + $offset, order);
                })+
                bytes
            }

            /// Returns each field's name, place and length, if the layout has it.
            #[cfg(test)]
            fn places(layout: Layout) -> Vec<(&'static str, usize, usize)> {
                let mut places = Vec::new();
                $(if let Some(start) = layout.start(Run::$run) {
                    places.push((stringify!($field), start + $offset, <$kind as Field>::LEN));
                })+
                places
            }

            /// Returns the record of a flowop, without its size, which the two ends may have different. Fails with the
            /// option for whose value it has no room.
            pub(crate) fn of(flowop: &Flowop) -> Result<Self, &'static str> {
                Ok(Self {
                    $($($field: flowop.$($place).+.to_field().ok_or($option)?,)?)+
                    ..Self::default()
                })
            }

            /// What the fields are that travel as they are.
            fn heard(&self, limits: &WorkLimits) -> Result<Flowop, String> {
                let mut flowop = Flowop::new(Kind::Nop);
                $($(flowop.$($place).+ = AsField::of_field(&self.$field, $option, limits)?;)?)+
                Ok(flowop)
            }

            /// Returns the first option that has an effect here, and that the layout lacks.
            pub fn lacking(&self, layout: Layout) -> Option<&'static str> {
                let blank = Self::blank();
                $($(
                    if layout.start(Run::$run).is_none() && self.$field != blank.$field {
                        return Some($option);
                    }
                )?)+
                None
            }

            /// Returns the length of all texts, bytes.
            pub(crate) fn text_bytes(&self) -> usize {
                let flowop = Flowop::new(Kind::Nop);
                0 $($(+ flowop.$($place).+.text_bytes(&self.$field))?)+
            }
        }
    };
}

flowop_record! {
    /// One operation as it travels: already what the slave does. Numbers are as they were sent; see
    /// [`Flowop`](crate::Flowop) for what they mean.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FlowopRecord {
        /// Bytes an execution.
        [Size + 0] size: u32,
        /// Of a random size, the fewest bytes.
        [Size + 4] random_min: u32,
        /// Of a random size, the most bytes.
        [Size + 8] random_max: u32,
        /// `rsize=`.
        [Size + 12] slave_size: u32 = "rsize" slave_size,
        /// See [`protocol_number`].
        [Size + 16] protocol: u32 = "protocol" endpoint.protocol,
        /// `port=`.
        [Size + 20] port: u32 = "port" endpoint.port,
        /// Bits of [`Flags`](crate::Flags).
        [Size + 24] flags: u32 = "flags" flags,
        /// `nfiles=`.
        [Size + 28] files: u32 = "nfiles" files,
        /// `duration=` of think, ns.
        [Duration + 0] duration_ns: u64 = "duration" duration,
        /// `wndsz=`, bytes.
        [Duration + 8] window: u64 = "wndsz" endpoint.window,
        /// Executions a pass.
        [Duration + 16] count: u64 = "count" count,
        /// Transfers in one execution; 1 where the layout has none.
        [Repeat + 0] repeat: u64 = "repeat" transfer.repeat,
        /// Messages a call; 1 where the layout has none.
        [BatchSize + 0] batch_size: u64 = "batch_size" batch_size,
        /// `timeout=`, ns.
        [Timeout + 0] timeout_ns: u64 = "timeout" transfer.patience,
        /// `encaps=`.
        [Encapsulation + 0] encapsulation_port: u32 = "encaps" endpoint.encapsulation_port,
        /// `bblog=`; 0 where the layout has none.
        [BlackBoxLog + 0] black_box_log: u32 = "bblog" endpoint.black_box_log,
        /// `sctp_rto_min=`, ms.
        [Sctp + 0] sctp_rto_min_ms: u32 = "sctp_rto_min" endpoint.sctp.rto_min_ms,
        /// `sctp_rto_max=`, ms.
        [Sctp + 4] sctp_rto_max_ms: u32 = "sctp_rto_max" endpoint.sctp.rto_max_ms,
        /// `sctp_rto_initial=`, ms.
        [Sctp + 8] sctp_rto_initial_ms: u32 = "sctp_rto_initial" endpoint.sctp.rto_initial_ms,
        /// `sctp_sack_delay=`, ms.
        [Sctp + 12] sctp_sack_delay_ms: u32 = "sctp_sack_delay" endpoint.sctp.sack_delay_ms,
        /// `sctp_sack_frequency=`, packets.
        [Sctp + 16] sctp_sack_frequency: u32 = "sctp_sack_frequency" endpoint.sctp.sack_frequency,
        /// `sctp_max_burst_size=`, packets.
        [Sctp + 20] sctp_max_burst: u32 = "sctp_max_burst_size" endpoint.sctp.max_burst,
        /// `sctp_max_fragment_size=`, bytes.
        [Sctp + 24] sctp_max_fragment_bytes: u32 = "sctp_max_fragment_size" endpoint.sctp.max_fragment_bytes,
        /// `sctp_hb_interval=`, ms.
        [Sctp + 28] sctp_heartbeat_ms: u32 = "sctp_hb_interval" endpoint.sctp.heartbeat_ms,
        /// `sctp_path_mtu=`, bytes.
        [Sctp + 32] sctp_path_mtu_bytes: u32 = "sctp_path_mtu" endpoint.sctp.path_mtu_bytes,
        /// The slave's outgoing streams.
        [Sctp + 36] sctp_out_streams: u16 = "sctp_out_streams" endpoint.sctp.out_streams,
        /// The slave's incoming streams.
        [Sctp + 38] sctp_in_streams: u16 = "sctp_in_streams" endpoint.sctp.in_streams,
        /// `sctp_stream_id=`.
        [Sctp + 40] sctp_stream: u16 = "sctp_stream_id" endpoint.sctp.stream,
        /// `sctp_pr_value=`.
        [Sctp + 44] sctp_reliability_value: u32 = "sctp_pr_value" endpoint.sctp.partial_reliability_value,
        /// `sctp_pr_policy=`.
        [Sctp + 48] sctp_reliability: Text<8> = "sctp_pr_policy" endpoint.sctp.partial_reliability,
        /// `cc=`.
        [Sctp + 56] congestion_control: Text<32> = "cc" endpoint.congestion_control,
        /// `stack=`.
        [Sctp + 88] stack: Text<32> = "stack" endpoint.stack,
        /// `dir=`.
        [Sctp + DIRECTORY] directory: Text<128> = "dir" directory,
        /// `remotehost=`, as the master's profile has it.
        [Sctp + REMOTE_HOST] remote_host: Text<256> = "remotehost" endpoint.remote_host,
        /// `localhost=`, as the master's profile has it.
        [Sctp + 504] local_host: Text<256> = "localhost" endpoint.local_host,
        /// `engine=`.
        [Sctp + 760] engine: Text<20> = "engine" endpoint.engine,
        /// `cipher=`.
        [Sctp + 780] cipher: Text<50> = "cipher" endpoint.cipher,
        /// `method=`.
        [Sctp + 830] method: Text<5> = "method" endpoint.method,
        /// The number of a [`Kind`].
        [Kind + 0] kind: u32 = "type" kind,
        /// The connection's name.
        [Kind + 4] connection: u32 = "conn" connection,
    }
}

/// Distance of the directory from SCTP's options.
pub(super) const DIRECTORY: usize = 120;
/// Distance of the host's name from SCTP's options.
pub(super) const REMOTE_HOST: usize = 248;

impl FlowopRecord {
    /// Returns one of that kind with uperf's defaults.
    pub fn new(kind: Kind) -> Self {
        Self {
            count: 1,
            kind: kind as u32,
            ..Self::blank()
        }
    }

    /// Returns one without any option.
    fn blank() -> Self {
        Self {
            repeat: 1,
            batch_size: 1,
            ..Self::default()
        }
    }

    /// Returns the flowop of the record, or what is wrong with it. Only values that no flowop can have are wrong.
    pub fn flowop(&self, limits: &WorkLimits) -> Result<Flowop, String> {
        let mut flowop = self.heard(limits)?;
        let (min, max) = (self.random_min, self.random_max);
        flowop.transfer.amount = match self.flags & Flags::RANDOM.0 {
            0 => Amount::Exactly(self.size),
            _ => Amount::Between { min, max },
        };
        flowop.flags.0 &= !Flags::RANDOM.0;
        Ok(flowop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the tables of the protocol have them.
    #[test]
    fn fields_are_at_their_places() {
        // In the order of the layouts; 0 for what a layout has not.
        let table: [(&str, [usize; 5]); 23] = [
            ("encapsulation_port", [32, 64, 64, 72, 80]),
            ("duration_ns", [40, 32, 32, 32, 32]),
            ("window", [48, 40, 40, 40, 40]),
            ("count", [56, 48, 48, 48, 48]),
            ("repeat", [0, 0, 0, 56, 56]),
            ("batch_size", [0, 0, 0, 0, 64]),
            ("timeout_ns", [64, 56, 56, 64, 72]),
            ("black_box_log", [0, 0, 68, 76, 84]),
            ("sctp_rto_min_ms", [72, 68, 72, 80, 88]),
            ("sctp_path_mtu_bytes", [104, 100, 104, 112, 120]),
            ("sctp_out_streams", [108, 104, 108, 116, 124]),
            ("sctp_reliability_value", [116, 112, 116, 124, 132]),
            ("sctp_reliability", [120, 116, 120, 128, 136]),
            ("congestion_control", [128, 124, 128, 136, 144]),
            ("stack", [160, 156, 160, 168, 176]),
            ("directory", [192, 188, 192, 200, 208]),
            ("remote_host", [320, 316, 320, 328, 336]),
            ("local_host", [576, 572, 576, 584, 592]),
            ("engine", [832, 828, 832, 840, 848]),
            ("cipher", [852, 848, 852, 860, 868]),
            ("method", [902, 898, 902, 910, 918]),
            ("kind", [912, 912, 912, 920, 928]),
            ("connection", [916, 916, 916, 924, 932]),
        ];
        for (column, layout) in Layout::ALL.into_iter().enumerate() {
            let places = FlowopRecord::places(layout);
            let mut taken = vec![false; layout.record_len()];
            for (name, at, length) in &places {
                for byte in &mut taken[*at..at + length] {
                    assert!(!*byte, "{name} at {at} stands over another");
                    *byte = true;
                }
            }
            for (name, expected) in table {
                let found = places.iter().find(|(field, ..)| *field == name);
                let at = found.map_or(0, |(_, at, _)| *at);
                assert_eq!(at, expected[column], "{name} in {layout}");
            }
        }
    }

    #[test]
    fn what_a_layout_cannot_say() {
        type Set = fn(&mut FlowopRecord);
        let cases: [(&str, Set, usize); 4] = [
            ("repeat", |record| record.repeat = 2, 3),
            ("batch_size", |record| record.batch_size = 2, 4),
            ("bblog", |record| record.black_box_log = 2, 2),
            ("encaps", |record| record.encapsulation_port = 2, 0),
        ];
        for (option, set, lacking) in cases {
            let mut record = FlowopRecord::new(Kind::Nop);
            set(&mut record);
            for (number, layout) in Layout::ALL.into_iter().enumerate() {
                let expected = (number < lacking).then_some(option);
                assert_eq!(record.lacking(layout), expected, "{layout}");
                let bytes = record.encode(layout, Order::Big);
                let again = FlowopRecord::decode(&bytes, layout, Order::Big);
                assert_eq!(again == Some(record.clone()), expected.is_none());
                assert_eq!(FlowopRecord::decode(&bytes[1..], layout, Order::Big), None);
            }
        }
    }
}
