//! The image of a host's counters: two snapshots, each as kernel texts and as numbers.

use codec::{Order, Record, Text};

codec::record! {
    /// The counters of an interface.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct InterfaceCounters: 80 bytes {
        /// The name. Stock prints it as in the kernel's table: 6 characters wide, with a colon.
        [0] name: Text<16>,
        /// Packets, bytes, errors and drops, received and then sent.
        [16] values: [i64; 8],
    }
}

codec::record! {
    /// The counters of the protocols, named as in their MIBs.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the fields are the kernel's")]
    pub struct ProtocolCounters: 160 bytes {
        [0] ip_in_discards: i64,
        [8] ip_in_receives: i64,
        [16] ip_out_discards: i64,
        [24] ip_out_requests: i64,
        [32] udp_in_datagrams: i64,
        [40] udp_in_errors: i64,
        [48] udp_out_datagrams: i64,
        [56] tcp_in_segs: i64,
        [64] tcp_out_segs: i64,
        [72] tcp_retrans_segs: i64,
        [80] tcp_in_errs: i64,
        [88] tcp_out_rsts: i64,
        [96] ip6_in_discards: i64,
        [104] ip6_in_receives: i64,
        [112] ip6_out_discards: i64,
        [120] ip6_out_requests: i64,
        [128] udp6_in_datagrams: i64,
        [136] udp6_in_errors: i64,
        [144] udp6_out_datagrams: i64,
        [152] mode: u32,
    }
}

/// The counters of a host, or the difference of two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// The counters of each interface.
    pub interfaces: Vec<InterfaceCounters>,
    /// The counters of the protocols.
    pub protocols: ProtocolCounters,
    /// Whether the test uses IPv6.
    pub is_v6: bool,
}

/// The image sent by a responder.
#[derive(Debug)]
pub struct CounterImage;

/// Kernel texts that contain the counters.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// `/proc/net/dev`.
    pub interfaces: &'a str,
    /// `/proc/net/snmp`.
    pub protocols: &'a str,
    /// `/proc/net/snmp6`.
    pub protocols6: &'a str,
}

const TEXT: usize = 4000;
const MOST_INTERFACES: usize = 16;
const ENTRIES_AT: usize = 3 * TEXT;
const PROTOCOLS_AT: usize = ENTRIES_AT + MOST_INTERFACES * InterfaceCounters::LEN;
const READING: usize = PROTOCOLS_AT + ProtocolCounters::LEN;
const MODE_AT: usize = 2 * READING + 4;

impl CounterImage {
    /// Length in bytes.
    pub const LEN: usize = MODE_AT + 4;

    /// Reads an image. Returns the difference of its two snapshots.
    pub fn decode(image: &[u8]) -> Option<HostCounters> {
        let image = image.get(..Self::LEN)?;
        let is_v6 = u32::from_le_bytes(codec::part(image, MODE_AT)) == 2;
        let [first, second] = [0, READING].map(|at| reading(&image[at..at + READING]));
        Some(second.since(&first, is_v6))
    }

    /// Creates an image without texts. The first snapshot is zero. Interfaces that do not fit are left out.
    pub fn encode(counters: &HostCounters) -> Vec<u8> {
        let mut image = vec![0; Self::LEN];
        let reading = &mut image[READING..2 * READING];
        let entries = reading[ENTRIES_AT..PROTOCOLS_AT].chunks_exact_mut(InterfaceCounters::LEN);
        for (interface, entry) in counters.interfaces.iter().zip(entries) {
            let name = format!("{:>6}:", interface.name);
            let shown = InterfaceCounters {
                name: Text::cut(&name),
                values: interface.values,
            };
            shown.put(entry, Order::Little);
        }
        let mode = if counters.is_v6 { 2 } else { 1 };
        let protocols = ProtocolCounters {
            mode,
            ..counters.protocols.clone()
        };
        protocols.put(&mut reading[PROTOCOLS_AT..], Order::Little);
        image[MODE_AT..].copy_from_slice(&mode.to_le_bytes());
        image
    }
}

/// Reads one snapshot of an image: its texts, or its numbers if there are no texts.
fn reading(bytes: &[u8]) -> HostCounters {
    let text = |at: usize| {
        let text = bytes[at..at + TEXT].split(|byte| *byte == 0).next();
        std::str::from_utf8(text.unwrap_or_default()).unwrap_or_default()
    };
    let texts = Texts {
        interfaces: text(0),
        protocols: text(TEXT),
        protocols6: text(2 * TEXT),
    };
    if texts.interfaces.contains('\n') {
        return texts.parse();
    }
    let entries = bytes[ENTRIES_AT..PROTOCOLS_AT].chunks_exact(InterfaceCounters::LEN);
    let interfaces = entries.map(|entry| InterfaceCounters::of_bytes(entry, Order::Little));
    HostCounters {
        interfaces: interfaces
            .map(InterfaceCounters::with_plain_name)
            .take_while(|interface| !interface.name.is_empty())
            .collect(),
        protocols: ProtocolCounters::of_bytes(&bytes[PROTOCOLS_AT..], Order::Little),
        is_v6: false,
    }
}

impl InterfaceCounters {
    /// Returns the name without the blanks and the colon of the kernel's table.
    fn with_plain_name(self) -> Self {
        let name = self.name.raw_str().unwrap_or_default();
        Self {
            name: Text::cut(name.trim().trim_end_matches(':')),
            values: self.values,
        }
    }
}

impl Texts<'_> {
    /// Parses the counters of the texts. Incomplete lines are left out.
    pub fn parse(&self) -> HostCounters {
        let lines = self.interfaces.lines().filter_map(interface);
        HostCounters {
            interfaces: lines.take(MOST_INTERFACES).collect(),
            protocols: self.protocols(),
            is_v6: false,
        }
    }

    fn protocols(&self) -> ProtocolCounters {
        let old = |protocol, name| table_value(self.protocols, protocol, name);
        let new = |name| line_value(self.protocols6, name);
        ProtocolCounters {
            ip_in_discards: old("Ip:", "InDiscards"),
            ip_in_receives: old("Ip:", "InReceives"),
            ip_out_discards: old("Ip:", "OutDiscards"),
            ip_out_requests: old("Ip:", "OutRequests"),
            udp_in_datagrams: old("Udp:", "InDatagrams"),
            udp_in_errors: old("Udp:", "InErrors"),
            udp_out_datagrams: old("Udp:", "OutDatagrams"),
            tcp_in_segs: old("Tcp:", "InSegs"),
            tcp_out_segs: old("Tcp:", "OutSegs"),
            tcp_retrans_segs: old("Tcp:", "RetransSegs"),
            tcp_in_errs: old("Tcp:", "InErrs"),
            tcp_out_rsts: old("Tcp:", "OutRsts"),
            ip6_in_discards: new("Ip6InDiscards"),
            ip6_in_receives: new("Ip6InReceives"),
            ip6_out_discards: new("Ip6OutDiscards"),
            ip6_out_requests: new("Ip6OutRequests"),
            udp6_in_datagrams: new("Udp6InDatagrams"),
            udp6_in_errors: new("Udp6InErrors"),
            udp6_out_datagrams: new("Udp6OutDatagrams"),
            mode: 0,
        }
    }
}

/// A line of `/proc/net/dev`: bytes, packets, errors, drops and four more received, and the same sent.
fn interface(line: &str) -> Option<InterfaceCounters> {
    let (name, values) = line.split_once(':')?;
    let values: Vec<i64> = values
        .split_ascii_whitespace()
        .map_while(|value| value.parse::<u64>().ok())
        .map(|value| value as i64)
        .collect();
    let value = |at: usize| values.get(at).copied();
    Some(InterfaceCounters {
        name: Text::cut(name.trim()),
        values: [
            value(1)?,
            value(0)?,
            value(2)?,
            value(3)?,
            value(9)?,
            value(8)?,
            value(10)?,
            value(11)?,
        ],
    })
}

/// Finds a value in `/proc/net/snmp`, which has a line of names above each line of values.
fn table_value(text: &str, protocol: &str, name: &str) -> i64 {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return 0;
    };
    let mut columns = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace());
    let found = columns.find(|(found, _)| *found == name);
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Finds a value in `/proc/net/snmp6`, which has one value per line.
fn line_value(text: &str, name: &str) -> i64 {
    let mut pairs = text
        .lines()
        .filter_map(|line| line.split_once(char::is_whitespace));
    let found = pairs.find(|(found, _)| *found == name);
    found
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

impl HostCounters {
    /// Returns the counts since `earlier`. A new interface counts from zero.
    #[must_use]
    pub fn since(&self, earlier: &Self, is_v6: bool) -> Self {
        let interfaces = self.interfaces.iter().map(|now| {
            let mut before = earlier.interfaces.iter();
            let before = before.find(|before| before.name == now.name);
            let before = before.map_or([0; 8], |before| before.values);
            InterfaceCounters {
                name: now.name,
                values: std::array::from_fn(|at| difference(now.values[at], before[at])),
            }
        });
        let [now, before] = [self, earlier].map(|reading| reading.protocols.numbers());
        let differences = std::array::from_fn(|at| difference(now[at], before[at]));
        Self {
            interfaces: interfaces.collect(),
            protocols: ProtocolCounters::of_numbers(&differences),
            is_v6,
        }
    }
}

impl ProtocolCounters {
    fn numbers(&self) -> [i64; 19] {
        let bytes: [u8; Self::LEN] = self.to_bytes(Order::Little);
        std::array::from_fn(|at| i64::from_le_bytes(codec::part(&bytes, 8 * at)))
    }

    fn of_numbers(numbers: &[i64; 19]) -> Self {
        let mut bytes = [0; Self::LEN];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        Self::of_bytes(&bytes, Order::Little)
    }
}

/// Returns a difference of counters. Those of an old kernel have 32 bits and may have wrapped once.
fn difference(now: i64, before: i64) -> i64 {
    let difference = now.wrapping_sub(before);
    match difference {
        less if less < 0 && before <= i64::from(u32::MAX) => less.wrapping_add(1 << 32),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed \
        multicast|bytes packets errs drop fifo colls carrier compressed\n    lo:     236       1    2    3    0     0 \
        0         0      237       4    5    6    0     0       0          0\nveth0: 1 2\n";
    const SNMP: &str = "Ip: Forwarding InReceives\nIp: 2 41\nUdp: InErrors\nUdp: 5\n";

    fn texts(interfaces: &str) -> Texts<'_> {
        Texts {
            interfaces,
            protocols: SNMP,
            protocols6: "Ip6InReceives                   \t7\n",
        }
    }

    #[test]
    fn texts_of_the_kernel_are_read() {
        let found = texts(DEV).parse();
        assert_eq!(
            found.interfaces.len(),
            1,
            "a line that is not whole is left out"
        );
        let lo = &found.interfaces[0];
        assert!(lo.name == *"lo", "{lo:?}");
        assert_eq!(lo.values, [1, 236, 2, 3, 4, 237, 5, 6]);
        let protocols = &found.protocols;
        let values = [
            protocols.ip_in_receives,
            protocols.udp_in_errors,
            protocols.ip6_in_receives,
        ];
        assert_eq!(values, [41, 5, 7]);
        assert_eq!(texts("").parse().interfaces, []);
    }

    #[test]
    fn differences_come_back() {
        let counters = HostCounters {
            is_v6: true,
            ..texts(DEV).parse()
        };
        let image = CounterImage::encode(&counters);
        assert_eq!(image.len(), 26_888);
        assert_eq!(CounterImage::decode(&image), Some(counters));
        assert_eq!(difference(5, i64::from(u32::MAX)), 6);
    }
}
