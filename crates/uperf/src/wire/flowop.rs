//! The record of a flowop.

use codec::Text;

use super::bytes::{Field, Order};
use super::layout::Layout;
use crate::Kind;

/// A struct that knows the names of its fields.
macro_rules! named {
    ($(#[$about:meta])* pub struct $record:ident {
        $($(#[$doc:meta])* pub $field:ident: $kind:ty,)+
    }) => {
        $(#[$about])*
        pub struct $record {
            $($(#[$doc])* pub $field: $kind,)+
        }

        impl $record {
            /// The names of the fields.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field),)+];
        }
    };
}

named! {
    /// One operation as it travels: already what the slave does. Numbers are as they were sent; see
    /// [`Flowop`](crate::Flowop) for what they mean.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FlowopRecord {
        /// Bytes an execution.
        pub size: u32,
        /// Of a random size, the fewest bytes.
        pub random_min: u32,
        /// Of a random size, the most bytes.
        pub random_max: u32,
        /// `rsize=`.
        pub slave_size: u32,
        /// See [`protocol_number`](super::protocol_number).
        pub protocol: u32,
        /// `port=`.
        pub port: u32,
        /// Bits of [`Flags`](crate::Flags).
        pub flags: u32,
        /// `nfiles=`.
        pub files: u32,
        /// `duration=` of think, ns.
        pub duration_ns: u64,
        /// `wndsz=`, bytes.
        pub window: u64,
        /// Executions a pass.
        pub count: u64,
        /// Transfers in one execution; 1 where the layout has none.
        pub repeat: u64,
        /// Messages a call; 1 where the layout has none.
        pub batch_size: u64,
        /// `timeout=`, ns.
        pub timeout_ns: u64,
        /// `encaps=`.
        pub encapsulation_port: u32,
        /// `bblog=`; 0 where the layout has none.
        pub black_box_log: u32,
        /// `sctp_rto_min=`, ms.
        pub sctp_rto_min_ms: u32,
        /// `sctp_rto_max=`, ms.
        pub sctp_rto_max_ms: u32,
        /// `sctp_rto_initial=`, ms.
        pub sctp_rto_initial_ms: u32,
        /// `sctp_sack_delay=`, ms.
        pub sctp_sack_delay_ms: u32,
        /// `sctp_sack_frequency=`, packets.
        pub sctp_sack_frequency: u32,
        /// `sctp_max_burst_size=`, packets.
        pub sctp_max_burst: u32,
        /// `sctp_max_fragment_size=`, bytes.
        pub sctp_max_fragment_bytes: u32,
        /// `sctp_hb_interval=`, ms.
        pub sctp_heartbeat_ms: u32,
        /// `sctp_path_mtu=`, bytes.
        pub sctp_path_mtu_bytes: u32,
        /// The slave's outgoing streams.
        pub sctp_out_streams: u16,
        /// The slave's incoming streams.
        pub sctp_in_streams: u16,
        /// `sctp_stream_id=`.
        pub sctp_stream: u16,
        /// `sctp_pr_value=`.
        pub sctp_reliability_value: u32,
        /// `sctp_pr_policy=`.
        pub sctp_reliability: Text<8>,
        /// `cc=`.
        pub congestion_control: Text<32>,
        /// `stack=`.
        pub stack: Text<32>,
        /// `dir=`.
        pub directory: Text<128>,
        /// `remotehost=`, as the master's profile has it.
        pub remote_host: Text<256>,
        /// `localhost=`, as the master's profile has it.
        pub local_host: Text<256>,
        /// `engine=`.
        pub engine: Text<20>,
        /// `cipher=`.
        pub cipher: Text<50>,
        /// `method=`.
        pub method: Text<5>,
        /// The number of a [`Kind`].
        pub kind: u32,
        /// The connection's name.
        pub connection: u32,
    }
}

impl FlowopRecord {
    /// Distance of the directory from SCTP's options.
    pub(super) const DIRECTORY: usize = 120;
    /// Distance of the host's name from SCTP's options.
    pub(super) const REMOTE_HOST: usize = 248;

    /// One of that kind with uperf's defaults.
    pub fn new(kind: Kind) -> Self {
        Self {
            count: 1,
            kind: kind as u32,
            ..Self::default()
        }
    }

    /// The record that begins with these bytes; `None` if there are fewer than the layout has.
    pub fn decode(bytes: &[u8], layout: Layout, order: Order) -> Option<Self> {
        let bytes = bytes.get(..layout.record_len())?;
        let mut record = Self::default();
        record.pass(layout, &mut Reading { bytes, order });
        Some(record)
    }

    /// As it travels in that layout; what the layout lacks is left out. See [`Self::lacking`].
    pub fn encode(&self, layout: Layout, order: Order) -> Vec<u8> {
        let mut bytes = vec![0; layout.record_len()];
        let mut writing = Writing {
            bytes: &mut bytes,
            order,
        };
        self.clone().pass(layout, &mut writing);
        bytes
    }

    /// An option that is in force here, and that the layout cannot say.
    pub fn lacking(&self, layout: Layout) -> Option<&'static str> {
        let places = layout.places();
        if self.repeat != 1 && places.repeat.is_none() {
            return Some("repeat=");
        }
        if self.batch_size != 1 && places.batch_size.is_none() {
            return Some("batch_size=");
        }
        let logs = self.black_box_log != 0;
        (logs && places.black_box_log.is_none()).then_some("bblog=")
    }

    /// Length of all its texts, bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        [
            self.sctp_reliability.raw_bytes(),
            self.congestion_control.raw_bytes(),
            self.stack.raw_bytes(),
            self.directory.raw_bytes(),
            self.remote_host.raw_bytes(),
            self.local_host.raw_bytes(),
            self.engine.raw_bytes(),
            self.cipher.raw_bytes(),
            self.method.raw_bytes(),
        ]
        .iter()
        .map(|text| text.len())
        .sum()
    }

    /// Takes each field past `pass` with its place: the one list of both directions.
    fn pass(&mut self, layout: Layout, pass: &mut impl Pass) {
        let places = layout.places();
        pass.field(0, &mut self.size);
        pass.field(4, &mut self.random_min);
        pass.field(8, &mut self.random_max);
        pass.field(12, &mut self.slave_size);
        pass.field(16, &mut self.protocol);
        pass.field(20, &mut self.port);
        pass.field(24, &mut self.flags);
        pass.field(28, &mut self.files);
        pass.field(places.duration, &mut self.duration_ns);
        pass.field(places.duration + 8, &mut self.window);
        pass.field(places.duration + 16, &mut self.count);
        if let Some(repeat) = places.repeat {
            pass.field(repeat, &mut self.repeat);
        }
        if let Some(batch_size) = places.batch_size {
            pass.field(batch_size, &mut self.batch_size);
        }
        pass.field(places.timeout, &mut self.timeout_ns);
        pass.field(places.encapsulation_port, &mut self.encapsulation_port);
        if let Some(black_box_log) = places.black_box_log {
            pass.field(black_box_log, &mut self.black_box_log);
        }
        pass.field(places.sctp, &mut self.sctp_rto_min_ms);
        pass.field(places.sctp + 4, &mut self.sctp_rto_max_ms);
        pass.field(places.sctp + 8, &mut self.sctp_rto_initial_ms);
        pass.field(places.sctp + 12, &mut self.sctp_sack_delay_ms);
        pass.field(places.sctp + 16, &mut self.sctp_sack_frequency);
        pass.field(places.sctp + 20, &mut self.sctp_max_burst);
        pass.field(places.sctp + 24, &mut self.sctp_max_fragment_bytes);
        pass.field(places.sctp + 28, &mut self.sctp_heartbeat_ms);
        pass.field(places.sctp + 32, &mut self.sctp_path_mtu_bytes);
        pass.field(places.sctp + 36, &mut self.sctp_out_streams);
        pass.field(places.sctp + 38, &mut self.sctp_in_streams);
        pass.field(places.sctp + 40, &mut self.sctp_stream);
        pass.field(places.sctp + 44, &mut self.sctp_reliability_value);
        pass.field(places.sctp + 48, &mut self.sctp_reliability);
        pass.field(places.sctp + 56, &mut self.congestion_control);
        pass.field(places.sctp + 88, &mut self.stack);
        pass.field(places.sctp + Self::DIRECTORY, &mut self.directory);
        pass.field(places.sctp + Self::REMOTE_HOST, &mut self.remote_host);
        pass.field(places.sctp + 504, &mut self.local_host);
        pass.field(places.sctp + 760, &mut self.engine);
        pass.field(places.sctp + 780, &mut self.cipher);
        pass.field(places.sctp + 830, &mut self.method);
        pass.field(places.kind, &mut self.kind);
        pass.field(places.kind + 4, &mut self.connection);
    }
}

impl Default for FlowopRecord {
    /// Of no kind; nothing is said but what is said by leaving an option out.
    fn default() -> Self {
        Self {
            size: 0,
            random_min: 0,
            random_max: 0,
            slave_size: 0,
            protocol: 0,
            port: 0,
            flags: 0,
            files: 0,
            duration_ns: 0,
            window: 0,
            count: 0,
            repeat: 1,
            batch_size: 1,
            timeout_ns: 0,
            encapsulation_port: 0,
            black_box_log: 0,
            sctp_rto_min_ms: 0,
            sctp_rto_max_ms: 0,
            sctp_rto_initial_ms: 0,
            sctp_sack_delay_ms: 0,
            sctp_sack_frequency: 0,
            sctp_max_burst: 0,
            sctp_max_fragment_bytes: 0,
            sctp_heartbeat_ms: 0,
            sctp_path_mtu_bytes: 0,
            sctp_out_streams: 0,
            sctp_in_streams: 0,
            sctp_stream: 0,
            sctp_reliability_value: 0,
            sctp_reliability: Text::default(),
            congestion_control: Text::default(),
            stack: Text::default(),
            directory: Text::default(),
            remote_host: Text::default(),
            local_host: Text::default(),
            engine: Text::default(),
            cipher: Text::default(),
            method: Text::default(),
            kind: 0,
            connection: 0,
        }
    }
}

/// Reads or writes what it is shown.
trait Pass {
    fn field<F: Field>(&mut self, at: usize, field: &mut F);
}

struct Reading<'a> {
    bytes: &'a [u8],
    order: Order,
}

impl Pass for Reading<'_> {
    fn field<F: Field>(&mut self, at: usize, field: &mut F) {
        *field = F::read(self.bytes, at, self.order);
    }
}

struct Writing<'a> {
    bytes: &'a mut [u8],
    order: Order,
}

impl Pass for Writing<'_> {
    fn field<F: Field>(&mut self, at: usize, field: &mut F) {
        field.write(self.bytes, at, self.order);
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
            ("encaps", [32, 64, 64, 72, 80]),
            ("duration", [40, 32, 32, 32, 32]),
            ("wndsz", [48, 40, 40, 40, 40]),
            ("count", [56, 48, 48, 48, 48]),
            ("repeat", [0, 0, 0, 56, 56]),
            ("batch_size", [0, 0, 0, 0, 64]),
            ("timeout", [64, 56, 56, 64, 72]),
            ("bblog", [0, 0, 68, 76, 84]),
            ("sctp_rto_min", [72, 68, 72, 80, 88]),
            ("sctp_path_mtu", [104, 100, 104, 112, 120]),
            ("sctp_out_streams", [108, 104, 108, 116, 124]),
            ("sctp_pr_value", [116, 112, 116, 124, 132]),
            ("sctp_pr_policy", [120, 116, 120, 128, 136]),
            ("cc", [128, 124, 128, 136, 144]),
            ("stack", [160, 156, 160, 168, 176]),
            ("dir", [192, 188, 192, 200, 208]),
            ("remotehost", [320, 316, 320, 328, 336]),
            ("localhost", [576, 572, 576, 584, 592]),
            ("engine", [832, 828, 832, 840, 848]),
            ("cipher", [852, 848, 852, 860, 868]),
            ("method", [902, 898, 902, 910, 918]),
            ("id", [912, 912, 912, 920, 928]),
            ("conn", [916, 916, 916, 924, 932]),
        ];
        for (column, layout) in Layout::ALL.into_iter().enumerate() {
            let blank = FlowopRecord::default().encode(layout, Order::Little);
            for (name, places) in table {
                let set = with(name).encode(layout, Order::Little);
                let at = set.iter().zip(&blank).position(|(set, blank)| set != blank);
                assert_eq!(at.unwrap_or(0), places[column], "{name} in {layout}");
            }
        }
    }

    fn with(option: &str) -> FlowopRecord {
        let mut record = FlowopRecord::default();
        match option {
            "encaps" => record.encapsulation_port = 2,
            "duration" => record.duration_ns = 2,
            "wndsz" => record.window = 2,
            "count" => record.count = 2,
            "repeat" => record.repeat = 2,
            "batch_size" => record.batch_size = 2,
            "timeout" => record.timeout_ns = 2,
            "bblog" => record.black_box_log = 2,
            "sctp_rto_min" => record.sctp_rto_min_ms = 2,
            "sctp_path_mtu" => record.sctp_path_mtu_bytes = 2,
            "sctp_out_streams" => record.sctp_out_streams = 2,
            "sctp_pr_value" => record.sctp_reliability_value = 2,
            "sctp_pr_policy" => record.sctp_reliability = Text::cut("x"),
            "cc" => record.congestion_control = Text::cut("x"),
            "stack" => record.stack = Text::cut("x"),
            "dir" => record.directory = Text::cut("x"),
            "remotehost" => record.remote_host = Text::cut("x"),
            "localhost" => record.local_host = Text::cut("x"),
            "engine" => record.engine = Text::cut("x"),
            "cipher" => record.cipher = Text::cut("x"),
            "method" => record.method = Text::cut("x"),
            "id" => record.kind = 2,
            "conn" => record.connection = 2,
            other => panic!("{other}"),
        }
        record
    }

    #[test]
    fn no_field_is_written_over_another() {
        struct Taken(Vec<bool>);
        impl Pass for Taken {
            fn field<F: Field>(&mut self, at: usize, _: &mut F) {
                for taken in &mut self.0[at..at + F::LEN] {
                    assert!(!*taken, "byte of the field at {at}");
                    *taken = true;
                }
            }
        }
        for layout in Layout::ALL {
            let mut taken = Taken(vec![false; layout.record_len()]);
            FlowopRecord::default().pass(layout, &mut taken);
        }
    }

    #[test]
    fn what_a_layout_cannot_say() {
        for (option, lacking) in [
            ("repeat", 3),
            ("batch_size", 4),
            ("bblog", 2),
            ("encaps", 0),
        ] {
            let record = with(option);
            let option = format!("{option}=");
            for (number, layout) in Layout::ALL.into_iter().enumerate() {
                let expected = (number < lacking).then_some(option.as_str());
                assert_eq!(record.lacking(layout), expected, "{layout}");
                let bytes = record.encode(layout, Order::Big);
                let again = FlowopRecord::decode(&bytes, layout, Order::Big);
                assert_eq!(again == Some(record.clone()), expected.is_none());
                assert_eq!(FlowopRecord::decode(&bytes[1..], layout, Order::Big), None);
            }
        }
    }
}
