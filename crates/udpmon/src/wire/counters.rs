//! The object with a host's counters: two snapshots, each as kernel texts and as numbers.

use std::ops::Range;

use codec::{Endian, Record, Text};

/// The value of an unavailable counter.
pub const UNAVAILABLE: i64 = -1;

codec::record! {
    /// The counters of an interface.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct InterfaceCounters: 80 bytes {
        /// The interface's name. Stock sends it as in the kernel's table: 6 characters wide, with a
        /// colon.
        [0] name: Text<16>,
        /// Packets, bytes, errors and drops: first received, then sent.
        [16] values: [i64; 8],
    }
}

codec::record! {
    /// The counters of the protocols, with the names of their MIBs.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the fields have the kernel's names")]
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
        /// 1: IPv4; 2: IPv6.
        [152] mode: u32,
        /// A bit for each counter that is unavailable, in the order of the counters. Stock has unused
        /// bytes here, so 0 means that all counters are known.
        [156] unavailable: u32,
    }
}

/// The counters of a host, or the difference of two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// The counters of each interface; empty if unavailable.
    pub interfaces: Vec<InterfaceCounters>,
    /// The counters of the protocols; [`UNAVAILABLE`] or a count.
    pub protocols: ProtocolCounters,
    /// Whether the test uses IPv6.
    pub is_v6: bool,
}

/// The encoding of a host's counters.
#[derive(Debug)]
pub struct CountersObject;

/// The kernel's text files with the counters.
#[derive(Clone, Copy, Debug)]
pub struct KernelTexts<'a> {
    /// `/proc/net/dev`.
    pub interfaces: &'a str,
    /// `/proc/net/snmp`.
    pub protocols: &'a str,
    /// `/proc/net/snmp6`.
    pub protocols6: &'a str,
}

const TEXT_BYTES: usize = 4000;
/// The number of interfaces that fit in the object.
pub(crate) const MAX_INTERFACES: usize = 16;
const INTERFACES_OFFSET: usize = 3 * TEXT_BYTES;
const PROTOCOLS_OFFSET: usize = INTERFACES_OFFSET + MAX_INTERFACES * InterfaceCounters::LEN;
const SNAPSHOT_BYTES: usize = PROTOCOLS_OFFSET + ProtocolCounters::LEN;
const MODE_OFFSET: usize = 2 * SNAPSHOT_BYTES + 4;

impl CountersObject {
    /// The length of the object in bytes.
    pub const LEN: usize = MODE_OFFSET + 4;

    /// Decodes the object. Returns the difference of its two snapshots.
    pub fn decode(image: &[u8]) -> Option<HostCounters> {
        let image = image.get(..Self::LEN)?;
        let is_v6 = u32::from_le_bytes(codec::array_at(image, MODE_OFFSET)) == 2;
        let [first, second] = [0, SNAPSHOT_BYTES]
            .map(|offset| decode_snapshot(&image[offset..offset + SNAPSHOT_BYTES]));
        Some(second.since(&first, is_v6))
    }

    /// Encodes the object without texts. The first snapshot is zero. The object omits interfaces
    /// that do not fit.
    pub fn encode(counters: &HostCounters) -> Vec<u8> {
        let mut image = vec![0; Self::LEN];
        let snapshot = &mut image[SNAPSHOT_BYTES..2 * SNAPSHOT_BYTES];
        let entries =
            snapshot[INTERFACES_OFFSET..PROTOCOLS_OFFSET].chunks_exact_mut(InterfaceCounters::LEN);
        for (interface, entry) in counters.interfaces.iter().zip(entries) {
            let name = format!("{:>6}:", interface.name);
            let padded = InterfaceCounters {
                name: Text::truncated(&name),
                values: interface.values,
            };
            padded.write_to(entry, Endian::Little);
        }
        let mode = if counters.is_v6 { 2 } else { 1 };
        let protocols = ProtocolCounters {
            mode,
            ..counters.protocols.marked()
        };
        protocols.write_to(&mut snapshot[PROTOCOLS_OFFSET..], Endian::Little);
        image[MODE_OFFSET..].copy_from_slice(&mode.to_le_bytes());
        image
    }
}

/// Decodes one snapshot: its texts, or its numbers if there are no texts.
fn decode_snapshot(bytes: &[u8]) -> HostCounters {
    let text = |offset: usize| {
        let text = bytes[offset..offset + TEXT_BYTES]
            .split(|byte| *byte == 0)
            .next();
        std::str::from_utf8(text.unwrap_or_default()).unwrap_or_default()
    };
    let texts = KernelTexts {
        interfaces: text(0),
        protocols: text(TEXT_BYTES),
        protocols6: text(2 * TEXT_BYTES),
    };
    if texts.interfaces.contains('\n') {
        return texts.parse();
    }
    let entries = bytes[INTERFACES_OFFSET..PROTOCOLS_OFFSET].chunks_exact(InterfaceCounters::LEN);
    let interfaces = entries.map(|entry| InterfaceCounters::from_bytes(entry, Endian::Little));
    HostCounters {
        interfaces: interfaces
            .map(InterfaceCounters::with_plain_name)
            .take_while(|interface| !interface.name.is_empty())
            .collect(),
        protocols: ProtocolCounters::from_bytes(&bytes[PROTOCOLS_OFFSET..], Endian::Little)
            .unmarked(),
        is_v6: false,
    }
}

impl InterfaceCounters {
    /// Removes the blanks and the colon of the kernel's table from the name.
    fn with_plain_name(self) -> Self {
        let name = self.name.raw_str().unwrap_or_default();
        Self {
            name: Text::truncated(name.trim().trim_end_matches(':')),
            values: self.values,
        }
    }
}

impl KernelTexts<'_> {
    /// Parses the counters. Ignores incomplete lines.
    pub fn parse(&self) -> HostCounters {
        let lines = self.interfaces.lines().filter_map(parse_interface);
        HostCounters {
            interfaces: lines.take(MAX_INTERFACES).collect(),
            protocols: self.protocols(),
            is_v6: false,
        }
    }

    fn protocols(&self) -> ProtocolCounters {
        let snmp =
            |protocol, name| table_value(self.protocols, protocol, name).unwrap_or(UNAVAILABLE);
        let snmp6 = |name| line_value(self.protocols6, name).unwrap_or(UNAVAILABLE);
        ProtocolCounters {
            ip_in_discards: snmp("Ip:", "InDiscards"),
            ip_in_receives: snmp("Ip:", "InReceives"),
            ip_out_discards: snmp("Ip:", "OutDiscards"),
            ip_out_requests: snmp("Ip:", "OutRequests"),
            udp_in_datagrams: snmp("Udp:", "InDatagrams"),
            udp_in_errors: snmp("Udp:", "InErrors"),
            udp_out_datagrams: snmp("Udp:", "OutDatagrams"),
            tcp_in_segs: snmp("Tcp:", "InSegs"),
            tcp_out_segs: snmp("Tcp:", "OutSegs"),
            tcp_retrans_segs: snmp("Tcp:", "RetransSegs"),
            tcp_in_errs: snmp("Tcp:", "InErrs"),
            tcp_out_rsts: snmp("Tcp:", "OutRsts"),
            ip6_in_discards: snmp6("Ip6InDiscards"),
            ip6_in_receives: snmp6("Ip6InReceives"),
            ip6_out_discards: snmp6("Ip6OutDiscards"),
            ip6_out_requests: snmp6("Ip6OutRequests"),
            udp6_in_datagrams: snmp6("Udp6InDatagrams"),
            udp6_in_errors: snmp6("Udp6InErrors"),
            udp6_out_datagrams: snmp6("Udp6OutDatagrams"),
            mode: 0,
            unavailable: 0,
        }
    }
}

/// Parses a line of `/proc/net/dev`. It has eight values for reception, then eight for sending.
/// Each group begins with bytes, packets, errors and drops.
fn parse_interface(line: &str) -> Option<InterfaceCounters> {
    let (name, values) = line.split_once(':')?;
    let values: Vec<i64> = values
        .split_ascii_whitespace()
        .map_while(|value| value.parse::<u64>().ok())
        .map(|value| value as i64)
        .collect();
    let value = |index: usize| values.get(index).copied();
    Some(InterfaceCounters {
        name: Text::truncated(name.trim()),
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
fn table_value(text: &str, protocol: &str, name: &str) -> Option<i64> {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut columns = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace());
    let (_, value) = columns.find(|(column_name, _)| *column_name == name)?;
    value.parse().ok()
}

/// Finds a value in `/proc/net/snmp6`, which has one value per line.
fn line_value(text: &str, name: &str) -> Option<i64> {
    let mut pairs = text
        .lines()
        .filter_map(|line| line.split_once(char::is_whitespace));
    let (_, value) = pairs.find(|(column_name, _)| *column_name == name)?;
    value.trim().parse().ok()
}

impl HostCounters {
    /// Returns the counts since `earlier`. A new interface counts from zero.
    #[must_use]
    pub fn since(&self, earlier: &Self, is_v6: bool) -> Self {
        let interfaces = self.interfaces.iter().map(|current| {
            let mut before = earlier.interfaces.iter();
            let before = before.find(|before| before.name == current.name);
            let before = before.map_or([0; 8], |before| before.values);
            InterfaceCounters {
                name: current.name,
                values: std::array::from_fn(|index| {
                    difference(current.values[index], before[index])
                }),
            }
        });
        let [current, before] = [self, earlier].map(|counters| counters.protocols.numbers());
        let differences = std::array::from_fn(|index| difference(current[index], before[index]));
        Self {
            interfaces: interfaces.collect(),
            protocols: ProtocolCounters::from_numbers(&differences),
            is_v6,
        }
    }

    /// Returns the datagrams that UDP of a version of IP dropped; `None` if unavailable.
    pub fn udp_in_errors(&self, is_v6: bool) -> Option<u64> {
        let errors = if is_v6 {
            self.protocols.udp6_in_errors
        } else {
            self.protocols.udp_in_errors
        };
        u64::try_from(errors).ok()
    }

    /// Returns counters of which none is known.
    pub fn unavailable() -> Self {
        Self::default().without_frozen()
    }

    /// Marks counters as unavailable that did not move, although the host sent or received datagrams:
    /// the kernel's files were masked.
    #[must_use]
    pub fn without_frozen(mut self) -> Self {
        // The first four values are received, the others sent packets and their parts.
        let have_moved =
            |interface: &InterfaceCounters| interface.values[0] > 0 || interface.values[4] > 0;
        if !self.interfaces.iter().any(have_moved) {
            self.interfaces.clear();
        }
        // A socket of IPv6 may carry IPv4.
        let numbers = self.protocols.numbers();
        let v4 = &numbers[ProtocolCounters::V4];
        let v6 = numbers[ProtocolCounters::V6].iter().filter(|_| self.is_v6);
        if !v4.iter().chain(v6).any(|number| *number > 0) {
            self.protocols = ProtocolCounters::from_numbers(&[UNAVAILABLE; 19]);
        }
        self
    }
}

impl ProtocolCounters {
    /// The counters of IP and UDP for each version of IP.
    const V4: Range<usize> = 0..7;
    const V6: Range<usize> = 12..19;

    /// Replaces [`UNAVAILABLE`] by 0 and a bit.
    fn marked(&self) -> Self {
        let mut numbers = self.numbers();
        let mut unavailable = 0;
        for (index, number) in numbers.iter_mut().enumerate() {
            if *number < 0 {
                *number = 0;
                unavailable |= 1 << index;
            }
        }
        Self {
            unavailable,
            ..Self::from_numbers(&numbers)
        }
    }

    /// Reverts [`Self::marked`].
    fn unmarked(&self) -> Self {
        let mut numbers = self.numbers();
        for (index, number) in numbers.iter_mut().enumerate() {
            if self.unavailable & 1 << index != 0 {
                *number = UNAVAILABLE;
            }
        }
        Self::from_numbers(&numbers)
    }

    fn numbers(&self) -> [i64; 19] {
        let bytes: [u8; Self::LEN] = self.to_bytes(Endian::Little);
        std::array::from_fn(|index| i64::from_le_bytes(codec::array_at(&bytes, 8 * index)))
    }

    fn from_numbers(numbers: &[i64; 19]) -> Self {
        let mut bytes = [0; Self::LEN];
        for (slot, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        Self::from_bytes(&bytes, Endian::Little)
    }
}

/// Returns the difference of two readings of a counter; [`UNAVAILABLE`] if it ran backwards. A
/// counter of an old kernel has 32 bits and may have wrapped once.
fn difference(current: i64, before: i64) -> i64 {
    const HALF: i64 = 1 << 31;
    if current < 0 || before < 0 {
        return UNAVAILABLE;
    }
    match current - before {
        difference @ 0.. => difference,
        negative if (HALF..2 * HALF).contains(&before) && current < HALF => negative + 2 * HALF,
        _ => UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed \
        multicast|bytes packets errs drop fifo colls carrier compressed\n    lo:     236       1    2    3    0     0 \
        0         0      237       4    5    6    0     0       0          0\nveth0: 1 2\n";
    const SNMP: &str = "Ip: Forwarding InReceives\nIp: 2 41\nUdp: InErrors\nUdp: 5\n";

    fn texts(interfaces: &str) -> KernelTexts<'_> {
        KernelTexts {
            interfaces,
            protocols: SNMP,
            protocols6: "Ip6InReceives                   \t7\n",
        }
    }

    #[test]
    fn texts_of_the_kernel_are_read() {
        let counters = texts(DEV).parse();
        assert_eq!(
            counters.interfaces.len(),
            1,
            "the incomplete line of veth0 is ignored"
        );
        let lo = &counters.interfaces[0];
        assert!(lo.name == *"lo", "{lo:?}");
        assert_eq!(lo.values, [1, 236, 2, 3, 4, 237, 5, 6]);
        let protocols = &counters.protocols;
        let values = [
            protocols.ip_in_receives,
            protocols.udp_in_errors,
            protocols.ip6_in_receives,
        ];
        assert_eq!(values, [41, 5, 7]);
        assert_eq!(protocols.udp_in_datagrams, UNAVAILABLE);
        assert_eq!(texts("").parse().interfaces, []);
        let damaged = KernelTexts {
            protocols: "Ip: InReceives\nIp: many\nUdp: InErrors\n",
            protocols6: "0",
            ..texts(DEV)
        };
        assert_eq!(damaged.parse().protocols.numbers(), [UNAVAILABLE; 19]);
    }

    #[test]
    fn counters_that_run_backwards_are_unavailable() {
        for (current, before, expected) in [
            (9, 4, 5),
            (4, 4, 0),
            (4, 9, UNAVAILABLE),
            (5, i64::from(u32::MAX), 6),
            (5, 1 << 31, (1 << 31) + 5),
            (5, (1 << 31) - 1, UNAVAILABLE),
            (5, 1 << 32, UNAVAILABLE),
            (UNAVAILABLE, 4, UNAVAILABLE),
            (4, UNAVAILABLE, UNAVAILABLE),
            (i64::MIN, i64::MAX, UNAVAILABLE),
        ] {
            assert_eq!(difference(current, before), expected, "{current} {before}");
        }
    }

    #[test]
    fn counters_that_do_not_move_are_unavailable() {
        let counters = texts(DEV).parse();
        let frozen = counters.since(&counters, false).without_frozen();
        assert_eq!(frozen.interfaces, []);
        assert_eq!(frozen.protocols.numbers(), [UNAVAILABLE; 19]);

        let mut later = counters.clone();
        later.interfaces[0].values[4] += 1;
        later.protocols.ip6_in_receives += 1;
        let moved = later.since(&counters, true).without_frozen();
        assert_eq!(moved.interfaces[0].values[4], 1);
        assert_eq!(moved.protocols.ip6_in_receives, 1);
        let other_family = later.since(&counters, false).without_frozen();
        assert_eq!(other_family.protocols.numbers(), [UNAVAILABLE; 19]);
    }

    #[test]
    fn encoded_counters_round_trip() {
        let counters = HostCounters {
            is_v6: true,
            ..texts(DEV).parse()
        };
        let image = CountersObject::encode(&counters);
        assert_eq!(image.len(), 26_888);
        // Stock requesters subtract these numbers, so an unavailable one is 0 for them.
        let sent = ProtocolCounters::from_bytes(
            &image[SNAPSHOT_BYTES + PROTOCOLS_OFFSET..],
            Endian::Little,
        );
        assert_eq!((sent.udp_in_datagrams, sent.udp_in_errors), (0, 5));
        assert_eq!(CountersObject::decode(&image), Some(counters));
    }
}
