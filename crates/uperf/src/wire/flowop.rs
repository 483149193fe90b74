//! Record of a flowop.

use codec::{Endian, Field, Text};

use super::as_field::AsField;
use super::layout::{FieldBlock, FlowopLayout};
use crate::{Amount, Flowop, FlowopFlags, FlowopKind, WorkLimits};

/// Declares the record with one row per field: its block and its offset from the block's start. For
/// a value that is sent unchanged, the row also has its option and its path in a [`Flowop`].
macro_rules! flowop_record {
    ($(#[$about:meta])* pub struct $record:ident {
        $(
            $(#[$doc:meta])*
            [$block:ident + $offset:tt] $field:ident: $kind:ty $(= $option:literal $($path:ident).+)?,
        )+
    }) => {
        $(#[$about])*
        pub struct $record {
            $($(#[$doc])* pub $field: $kind,)+
        }

        impl $record {
            /// Names of the fields.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field),)+];

            /// Decodes the record; returns `None` if the bytes are fewer than the layout's.
            pub fn decode(bytes: &[u8], layout: FlowopLayout, order: Endian) -> Option<Self> {
                let bytes = bytes.get(..layout.record_len())?;
                let mut record = Self::blank();
                $(if let Some(start) = layout.start(FieldBlock::$block) {
                    record.$field = Field::read(bytes, start + $offset, order);
                })+
                Some(record)
            }

            /// Returns the message in this layout. Fields that the layout lacks are omitted; see
            /// [`Self::missing_option`].
            pub fn encode(&self, layout: FlowopLayout, order: Endian) -> Vec<u8> {
                let mut bytes = vec![0; layout.record_len()];
                $(if let Some(start) = layout.start(FieldBlock::$block) {
                    self.$field.write(&mut bytes, start + $offset, order);
                })+
                bytes
            }

            /// Returns name, offset and length of each field that the layout has.
            #[cfg(test)]
            fn field_positions(layout: FlowopLayout) -> Vec<(&'static str, usize, usize)> {
                let mut positions = Vec::new();
                $(if let Some(start) = layout.start(FieldBlock::$block) {
                    positions.push((stringify!($field), start + $offset, <$kind as Field>::LEN));
                })+
                positions
            }

            /// Returns the record of a flowop without its size, which may differ between the two
            /// ends. Fails with the option of a value that does not fit.
            pub(crate) fn from_flowop(flowop: &Flowop) -> Result<Self, &'static str> {
                Ok(Self {
                    $($($field: flowop.$($path).+.to_field().ok_or($option)?,)?)+
                    ..Self::default()
                })
            }

            /// Returns a flowop with all values that are sent unchanged.
            fn unchanged_values(&self, limits: &WorkLimits) -> Result<Flowop, String> {
                let mut flowop = Flowop::new(FlowopKind::Nop);
                $($(flowop.$($path).+ = AsField::from_field(&self.$field, $option, limits)?;)?)+
                Ok(flowop)
            }

            /// Returns the first option that has an effect but no field in the layout.
            pub fn missing_option(&self, layout: FlowopLayout) -> Option<&'static str> {
                let blank = Self::blank();
                $($(
                    if layout.start(FieldBlock::$block).is_none() && self.$field != blank.$field {
                        return Some($option);
                    }
                )?)+
                None
            }

            /// Returns the total length of all texts in bytes.
            pub(crate) fn text_bytes(&self) -> usize {
                let flowop = Flowop::new(FlowopKind::Nop);
                0 $($(+ flowop.$($path).+.text_bytes(&self.$field))?)+
            }
        }
    };
}

flowop_record! {
    /// One operation of the slave. The numbers are unchecked; [`Flowop`](crate::Flowop) describes
    /// them.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FlowopRecord {
        /// Bytes per execution.
        [Size + 0] size: u32,
        /// Minimum of a random size, bytes.
        [Size + 4] random_min: u32,
        /// Maximum of a random size, bytes.
        [Size + 8] random_max: u32,
        /// `rsize=`.
        [Size + 12] slave_size: u32 = "rsize" slave_size,
        /// Number of the protocol; see [`protocol_number`](super::protocol_number).
        [Size + 16] protocol: u32 = "protocol" endpoint.protocol,
        /// `port=`.
        [Size + 20] port: u32 = "port" endpoint.port,
        /// Bits of [`FlowopFlags`].
        [Size + 24] flags: u32 = "flags" flags,
        /// `nfiles=`.
        [Size + 28] files: u32 = "nfiles" files,
        /// `duration=` of think, ns.
        [Duration + 0] duration_ns: u64 = "duration" duration,
        /// `wndsz=`, bytes.
        [Duration + 8] window: u64 = "wndsz" endpoint.window,
        /// Executions per pass.
        [Duration + 16] count: u64 = "count" count,
        /// Transfers per execution; 1 if the layout lacks the field.
        [Repeat + 0] repeat: u64 = "repeat" transfer.repeat,
        /// Messages per call; 1 if the layout lacks the field.
        [BatchSize + 0] batch_size: u64 = "batch_size" batch_size,
        /// `timeout=`, ns.
        [Timeout + 0] timeout_ns: u64 = "timeout" transfer.timeout,
        /// `encaps=`.
        [Encapsulation + 0] encapsulation_port: u32 = "encaps" endpoint.encapsulation_port,
        /// `bblog=`; 0 if the layout lacks the field.
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
        /// Outgoing streams of the slave.
        [Sctp + 36] sctp_out_streams: u16 = "sctp_out_streams" endpoint.sctp.out_streams,
        /// Incoming streams of the slave.
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
        /// `remotehost=` in the master's profile.
        [Sctp + REMOTE_HOST] remote_host: Text<256> = "remotehost" endpoint.remote_host,
        /// `localhost=` in the master's profile.
        [Sctp + 504] local_host: Text<256> = "localhost" endpoint.local_host,
        /// `engine=`.
        [Sctp + 760] engine: Text<20> = "engine" endpoint.engine,
        /// `cipher=`.
        [Sctp + 780] cipher: Text<50> = "cipher" endpoint.cipher,
        /// `method=`.
        [Sctp + 830] method: Text<5> = "method" endpoint.method,
        /// Number of a [`FlowopKind`].
        [Kind + 0] kind: u32 = "type" kind,
        /// `conn=`: number of the connection.
        [Kind + 4] connection: u32 = "conn" connection,
    }
}

/// Offset of the directory in [`FieldBlock::Sctp`], bytes.
pub(super) const DIRECTORY: usize = 120;
/// Offset of the host name in [`FieldBlock::Sctp`], bytes.
pub(super) const REMOTE_HOST: usize = 248;

impl FlowopRecord {
    /// Returns a record of this kind with uperf's defaults.
    pub fn new(kind: FlowopKind) -> Self {
        Self {
            count: 1,
            kind: kind as u32,
            ..Self::blank()
        }
    }

    /// Returns a record without options.
    fn blank() -> Self {
        Self {
            repeat: 1,
            batch_size: 1,
            ..Self::default()
        }
    }

    /// Returns the flowop of the record. Fails if a field has a value that no flowop can have.
    pub fn to_flowop(&self, limits: &WorkLimits) -> Result<Flowop, String> {
        let mut flowop = self.unchanged_values(limits)?;
        let (min, max) = (self.random_min, self.random_max);
        flowop.transfer.amount = match self.flags & FlowopFlags::RANDOM.0 {
            0 => Amount::Exactly(self.size),
            _ => Amount::Between { min, max },
        };
        flowop.flags.0 &= !FlowopFlags::RANDOM.0;
        Ok(flowop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_offsets_of_uperfs_versions() {
        // One column per layout; 0 if the layout lacks the field.
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
        for (column, layout) in FlowopLayout::ALL.into_iter().enumerate() {
            let positions = FlowopRecord::field_positions(layout);
            let mut taken = vec![false; layout.record_len()];
            for (name, at, length) in &positions {
                for byte in &mut taken[*at..at + length] {
                    assert!(!*byte, "{name} at {at} overlaps another field");
                    *byte = true;
                }
            }
            for (name, expected) in table {
                let found = positions.iter().find(|(field, ..)| *field == name);
                let at = found.map_or(0, |(_, at, _)| *at);
                assert_eq!(at, expected[column], "{name} in {layout}");
            }
        }
    }

    #[test]
    fn options_that_a_layout_lacks_are_reported() {
        type Set = fn(&mut FlowopRecord);
        let cases: [(&str, Set, usize); 4] = [
            ("repeat", |record| record.repeat = 2, 3),
            ("batch_size", |record| record.batch_size = 2, 4),
            ("bblog", |record| record.black_box_log = 2, 2),
            ("encaps", |record| record.encapsulation_port = 2, 0),
        ];
        for (option, set, first_layout) in cases {
            let mut record = FlowopRecord::new(FlowopKind::Nop);
            set(&mut record);
            for (number, layout) in FlowopLayout::ALL.into_iter().enumerate() {
                let expected = (number < first_layout).then_some(option);
                assert_eq!(record.missing_option(layout), expected, "{layout}");
                let bytes = record.encode(layout, Endian::Big);
                let decoded = FlowopRecord::decode(&bytes, layout, Endian::Big);
                assert_eq!(decoded == Some(record.clone()), expected.is_none());
                assert_eq!(FlowopRecord::decode(&bytes[1..], layout, Endian::Big), None);
            }
        }
    }
}
