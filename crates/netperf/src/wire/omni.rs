//! The messages of omni tests: one triple for every kind of socket test.

use std::ops::{BitOr, BitOrAssign};

use codec::Order;
use model::Transport;

use super::frame::{Field, blank, layout, reply};
use super::{Address, DO_OMNI, FAMILY_IPV4, FAMILY_VSOCK, Frame, MESSAGE_LEN, Text, UNSET};

layout! {
    /// What the client asks of the server. Sizes and offsets are bytes; a signed word of
    /// [`UNSET`] leaves the choice to the server.
    ///
    /// The default is a TCP test without direction or limit, and whatever the stock client sends
    /// when nobody asks for anything.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OmniRequest {
        /// SO_SNDBUF to set; 0 is set as such.
        [0] send_buffer: i32,
        /// Bytes a send call of a bulk transfer.
        [4] send_size: i32,
        /// Send buffers start at a multiple of this power of two …
        [8] send_alignment: u32,
        /// … and this many bytes further.
        [12] send_offset: u32,
        /// Buffers in the send ring; 0 leaves the choice to the server.
        [16] send_width: u32,
        /// Bytes a request; positive makes this a request/response test.
        [20] request_size: i32,
        /// SO_RCVBUF to set.
        [24] receive_buffer: i32,
        /// Bytes a receive call of a bulk transfer.
        [28] receive_size: i32,
        /// As for sending.
        [32] receive_alignment: u32,
        /// As for sending.
        [36] receive_offset: u32,
        /// As for sending.
        [40] receive_width: u32,
        /// Bytes a response.
        [44] response_size: i32,
        /// See [`Flags`].
        [48] flags: Flags,
        /// The server's calibration as the client knows it (see
        /// [`CalibrateResponse`](super::CalibrateResponse)); 0 is unknown.
        [52] cpu_rate: f32,
        /// Positive: seconds. Negative: that many bytes of a bulk transfer, or transactions. Zero:
        /// no limit.
        [56] test_length: i32,
        /// 1 to receive without a copy; no effect on Linux.
        [60] receive_copy_avoidance: u32,
        /// 1 to send without a copy; no effect on Linux.
        [64] send_copy_avoidance: u32,
        /// Bytes to write into a buffer before each send.
        [68] send_dirty: i32,
        /// Bytes to write into a buffer before each receive.
        [72] receive_dirty: i32,
        /// Bytes to read from a buffer before each receive.
        [76] receive_clean: i32,
        /// The port to bind; 0 is any. From the second iteration on the stock client asks for
        /// the port that served the first.
        [80] data_port: u32,
        /// [`FAMILY_IPV4`], [`FAMILY_IPV6`](super::FAMILY_IPV6), or what no linerate serves.
        [84] family: u32,
        /// See [`OmniRequest::STREAM`].
        [88] socket_type: i32,
        /// IANA's number: 6 is TCP, 17 UDP.
        [92] protocol: u32,
        /// What the server shall do: [`OmniRequest::TRANSMIT`], [`OmniRequest::RECEIVE`], both for
        /// request/response, none for connect/close.
        [96] direction: u32,
        /// The port of the client's bound data socket.
        [100] client_port: u32,
        /// Sends an interval on the server.
        [104] interval_burst: u32,
        /// Length of an interval, microseconds.
        [108] interval_us: u32,
        /// Where the client's data socket is bound; none for the wildcard.
        [112] client_address: Address,
        /// What the server shall bind; none unless the user gave one.
        [128] server_address: Address,
        /// SO_PRIORITY to set.
        [144] priority: i32,
        /// IP_TOS or IPV6_TCLASS to set.
        [148] type_of_service: i32,
        /// The algorithm to set; empty leaves the host's.
        [152] congestion_control: Text<16>,
        /// A path on the server whose contents shall fill its buffers.
        [168] fill_file: Text<32>,
    }
}

impl OmniRequest {
    /// Bit of [`direction`](Self::direction): the server sends.
    pub const TRANSMIT: u32 = 0x2;
    /// Bit of [`direction`](Self::direction): the server receives.
    pub const RECEIVE: u32 = 0x4;
    /// Value of [`socket_type`](Self::socket_type): a byte stream.
    pub const STREAM: i32 = 1;
    /// Value of [`socket_type`](Self::socket_type): datagrams.
    pub const DATAGRAM: i32 = 2;
    /// Value of [`socket_type`](Self::socket_type): DCCP's own.
    pub const DCCP_TYPE: i32 = 3;
    /// Value of [`protocol`](Self::protocol).
    pub const TCP: u32 = 6;
    /// Value of [`protocol`](Self::protocol).
    pub const UDP: u32 = 17;
    /// Value of [`protocol`](Self::protocol).
    pub const DCCP: u32 = 33;
    /// Value of [`protocol`](Self::protocol).
    pub const SCTP: u32 = 132;
    /// Value of [`protocol`](Self::protocol).
    pub const UDPLITE: u32 = 136;

    /// The socket type and the protocol that say what carries the data, beside the family. What is
    /// told apart by that alone has protocol 0.
    pub fn words_of(transport: Transport) -> (i32, u32) {
        match transport {
            // Multipath TCP is TCP to whoever does not know it; its own number, 262, would make a
            // stock server spin for ever.
            Transport::Tcp | Transport::Mptcp => (Self::STREAM, Self::TCP),
            Transport::Udp => (Self::DATAGRAM, Self::UDP),
            Transport::UdpLite => (Self::DATAGRAM, Self::UDPLITE),
            Transport::Sctp | Transport::SctpMany => (Self::STREAM, Self::SCTP),
            Transport::Dccp => (Self::DCCP_TYPE, Self::DCCP),
            Transport::UnixStream | Transport::Vsock | Transport::LlcStream => (Self::STREAM, 0),
            Transport::UnixDatagram | Transport::LlcDatagram => (Self::DATAGRAM, 0),
        }
    }

    /// What carries the data; `None` for what no linerate serves.
    pub fn transport(&self) -> Option<Transport> {
        if self.family == FAMILY_VSOCK {
            let words = Self::words_of(Transport::Vsock);
            return ((self.socket_type, self.protocol) == words).then_some(Transport::Vsock);
        }
        [
            Transport::Tcp,
            Transport::Udp,
            Transport::UdpLite,
            Transport::Sctp,
            Transport::Dccp,
        ]
        .into_iter()
        .find(|transport| Self::words_of(*transport) == (self.socket_type, self.protocol))
    }

    /// Whether the server is to send.
    pub fn transmits(&self) -> bool {
        self.direction & Self::TRANSMIT != 0
    }

    /// Whether the server is to receive.
    pub fn receives(&self) -> bool {
        self.direction & Self::RECEIVE != 0
    }
}

impl Default for OmniRequest {
    fn default() -> Self {
        Self {
            send_buffer: UNSET,
            send_size: UNSET,
            send_alignment: 8,
            request_size: UNSET,
            receive_buffer: UNSET,
            receive_size: UNSET,
            receive_alignment: 8,
            response_size: UNSET,
            flags: Flags::ROUTING_ALLOWED,
            send_dirty: UNSET,
            receive_dirty: UNSET,
            receive_clean: UNSET,
            family: FAMILY_IPV4,
            socket_type: Self::STREAM,
            protocol: Self::TCP,
            priority: UNSET,
            type_of_service: UNSET,
            ..Self::read(&[0; MESSAGE_LEN])
        }
    }
}

/// The bits of the flags word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// TCP_NODELAY on the server's data socket.
    pub const NO_DELAY: Self = Self(0x1);
    /// sendfile(2); servers take no notice.
    pub const SENDFILE: Self = Self(0x2);
    /// A new connection for each transaction.
    pub const CONNECTION_TEST: Self = Self(0x4);
    /// Measure the server's CPU.
    pub const MEASURE_CPU: Self = Self(0x8);
    /// No SO_DONTROUTE on the server, and the name of the congestion control algorithm in the
    /// results: one bit for both.
    pub const ROUTING_ALLOWED: Self = Self(0x20);
    /// Tell the interface: its name, its slot, its PCI numbers, its driver. Four bits, which 2.7.0 sets
    /// and takes no notice of.
    pub const INTERFACE: Self = Self(0x40 | 0x80 | 0x100 | 0x200);
    /// Accept data with a client's first segment (TCP Fast Open).
    pub const FAST_OPEN: Self = Self(0x800);
    /// Answer datagrams from the address that they were sent to.
    pub const PACKET_INFO: Self = Self(0x2000);
    /// TCP_DEFER_ACCEPT, 5 s.
    pub const DEFER_ACCEPT: Self = Self(0x8000);
    /// SO_KEEPALIVE on the server's data socket.
    pub const KEEP_ALIVE: Self = Self(0x8000_0000);

    /// Whether any of `flags` is set.
    pub fn has_any(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Whether all of `flags` are set.
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Field for Flags {
    const LEN: usize = u32::LEN;

    fn read(bytes: &[u8], at: usize, order: Order) -> Self {
        Self(u32::read(bytes, at, order))
    }

    fn write(&self, bytes: &mut [u8], at: usize, order: Order) {
        self.0.write(bytes, at, order);
    }
}

layout! {
    /// What the server has set up.
    ///
    /// The test length (P+32) has a place in the message but is neither set nor read by anybody. The
    /// words on the host (P+56, P+60, P+72 on) are leftovers of a stock server, and no stock client
    /// looks at them.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct OmniResponse {
        /// SO_RCVBUF, as the kernel gives it.
        [0] receive_buffer: i32,
        /// Bytes a receive call, or what was asked if the server does not receive.
        [4] receive_size: i32,
        /// Buffers in the receive ring, or what was asked.
        [8] receive_width: i32,
        /// SO_SNDBUF, as the kernel gives it.
        [12] send_buffer: i32,
        /// Bytes a send call, or what was asked if the server does not send.
        [16] send_size: i32,
        /// Buffers in the send ring, or what was asked.
        [20] send_width: i32,
        /// [`Flags::NO_DELAY`] and [`Flags::MEASURE_CPU`] tell what is in force; of a stock server
        /// the other bits are leftovers.
        [24] flags: Flags,
        /// The server's calibration if it measures, else 0.
        [28] cpu_rate: f32,
        /// As asked.
        [36] receive_copy_avoidance: u32,
        /// As asked.
        [40] send_copy_avoidance: u32,
        /// The port of the data socket.
        [44] data_port: u32,
        /// Sends an interval in force; 0 without pacing.
        [48] interval_burst: u32,
        /// Microseconds an interval in force; 0 without pacing.
        [52] interval_us: u32,
        /// The CPUs' frequency in MHz; 0 is unknown.
        [56] cpu_mhz: u32,
        /// The security module's number times 65,536, and whether it forbids: 0, 1. As the selectors
        /// *_SECURITY_TYPE_ID and *_SECURITY_ENABLED_NUM have them; 0 is unknown.
        [60] security: u32,
        /// SO_PRIORITY as read back; −1 if none was asked for, −2 if it could not be set.
        [64] priority: i32,
        /// Likewise.
        [68] type_of_service: i32,
        /// The machine's model.
        [72] system_model: Text<33>,
        /// The CPUs' model.
        [105] cpu_model: Text<80>,
        /// The security module's name.
        [185] security_type: Text<16>,
    }
}

reply!(OmniResponse);

impl OmniResponse {
    /// The frame to send.
    pub fn encode(&self) -> Frame {
        let mut frame = blank(DO_OMNI + 1);
        self.write(&mut frame);
        frame
    }
}

layout! {
    /// What the server has counted.
    ///
    /// The failed sends (P+32) and the service demand (P+68) have a place in the message but are
    /// neither set nor read by anybody. What there is on the interface (P+88 to P+100, P+108 on) is
    /// leftovers of a stock server, and no stock client looks at it.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct OmniResults {
        /// Payload received, bytes.
        [0] bytes_received: u64,
        /// Receive calls, the low 32 bits of their number.
        [8] receive_calls: u32,
        /// SO_RCVBUF at the end.
        [12] receive_buffer: i32,
        /// Payload sent, bytes.
        [16] bytes_sent: u64,
        /// Send calls, the low 32 bits of their number.
        [24] send_calls: u32,
        /// SO_SNDBUF at the end.
        [28] send_buffer: i32,
        /// Transactions, 0 for a bulk transfer.
        [36] transactions: u32,
        /// Seconds, on the server's clock.
        [40] elapsed: f32,
        /// CPU busy, percent of all CPUs. This and the following are leftovers of a stock server
        /// that does not measure.
        [44] cpu_utilisation: f32,
        /// Of it in user mode.
        [48] cpu_user: f32,
        /// Of it in the kernel.
        [52] cpu_system: f32,
        /// Waiting for storage, percent.
        [56] cpu_iowait: f32,
        /// In hard interrupts, percent.
        [60] cpu_irq: f32,
        /// In soft interrupts, percent.
        [64] cpu_softirq: f32,
        /// How CPU was measured: 8 is /proc/stat, 0 not at all.
        [72] cpu_method: u32,
        /// CPUs that are online, 0 when not measured.
        [76] cpus: u32,
        /// The busiest CPU …
        [80] peak_cpu: i32,
        /// … and how busy it was, percent.
        [84] peak_cpu_utilisation: f32,
        /// The PCI vendor of the interface that the data goes by; −1 is none. This and what follows on
        /// the interface is told when it was asked for ([`Flags::INTERFACE`]).
        [88] pci_vendor: i32,
        /// Its PCI device.
        [92] pci_device: i32,
        /// Its PCI subsystem's vendor.
        [96] pci_subvendor: i32,
        /// Its PCI subsystem's device.
        [100] pci_subdevice: i32,
        /// TCP segments retransmitted on the data connection; −1 when unknown or not TCP.
        [104] retransmits: i32,
        /// The interface's name.
        [108] interface: Text<16>,
        /// Its driver.
        [124] driver: Text<32>,
        /// Its driver's version.
        [156] driver_version: Text<32>,
        /// Its firmware.
        [188] firmware: Text<32>,
        /// Its place on the bus.
        [220] bus: Text<32>,
        /// Its slot.
        [252] slot: Text<16>,
        /// The algorithm in force; "TCP Only" for other connected protocols, empty when it was not
        /// asked for ([`Flags::ROUTING_ALLOWED`]) or the connection is closed.
        [268] congestion_control: Text<16>,
    }
}

reply!(OmniResults);

impl OmniResults {
    /// The frame to send.
    pub fn encode(&self) -> Frame {
        let mut frame = blank(DO_OMNI + 2);
        self.write(&mut frame);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_by_their_words() {
        for (words, transport) in [
            ((1, 6), Some(Transport::Tcp)),
            ((2, 17), Some(Transport::Udp)),
            ((2, 136), Some(Transport::UdpLite)),
            ((1, 132), Some(Transport::Sctp)),
            ((3, 33), Some(Transport::Dccp)),
            ((1, 262), None),
            ((2, 6), None),
            ((1, 17), None),
            ((6, 33), None),
            ((1, 0), None),
        ] {
            let (socket_type, protocol) = words;
            let request = OmniRequest {
                socket_type,
                protocol,
                ..OmniRequest::default()
            };
            assert_eq!(request.transport(), transport, "{words:?}");
        }
        let vsock = OmniRequest {
            family: FAMILY_VSOCK,
            protocol: 0,
            ..OmniRequest::default()
        };
        assert_eq!(vsock.transport(), Some(Transport::Vsock));
        let tcp = OmniRequest {
            protocol: OmniRequest::TCP,
            ..vsock
        };
        assert_eq!(tcp.transport(), None);
        // A stock server spins at 262.
        assert_eq!(OmniRequest::words_of(Transport::Mptcp), (1, 6));
    }
    use crate::wire::frame::word;
    use crate::wire::{FAMILY_IPV6, Received, Request};

    #[test]
    fn every_request_word_has_its_place() {
        let request = OmniRequest {
            send_buffer: 2,
            send_size: 3,
            send_alignment: 4,
            send_offset: 5,
            send_width: 6,
            request_size: 7,
            receive_buffer: 8,
            receive_size: 9,
            receive_alignment: 10,
            receive_offset: 11,
            receive_width: 12,
            response_size: 13,
            flags: Flags(14),
            cpu_rate: f32::from_bits(15),
            test_length: 16,
            receive_copy_avoidance: 17,
            send_copy_avoidance: 18,
            send_dirty: 19,
            receive_dirty: 20,
            receive_clean: 21,
            data_port: 22,
            family: 23,
            socket_type: 24,
            protocol: 25,
            direction: 26,
            client_port: 27,
            interval_burst: 28,
            interval_us: 29,
            client_address: Address::from(std::net::IpAddr::from([0, 0, 0, 30])),
            server_address: Address::from(std::net::IpAddr::from([0, 0, 0, 34])),
            priority: 38,
            type_of_service: 39,
            congestion_control: Text::new("cubic"),
            fill_file: Text::new("/etc/motd"),
        };
        let frame = Request::Omni(request.clone()).encode(Some(1));
        let given = (0..40).filter(|index| !matches!(index, 31..=33 | 35..=37));
        for index in given.skip(2) {
            assert_eq!(word(&frame, index), index as i32);
        }
        assert_eq!(word(&frame, 0), 97);
        assert_eq!(word(&frame, 1), 1);
        assert_eq!(frame[160..176], *b"cubic\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(frame[176..186], *b"/etc/motd\0");
        assert_eq!(
            Request::decode(&frame),
            Received {
                cpu: Some(1),
                request: Request::Omni(request)
            }
        );
    }

    #[test]
    fn what_a_server_must_refuse_arrives() {
        let request = OmniRequest {
            send_size: 0,
            receive_size: i32::MIN,
            send_alignment: 0,
            receive_width: u32::MAX,
            data_port: 65_536,
            family: 7,
            socket_type: -1,
            protocol: 132,
            direction: u32::MAX,
            ..OmniRequest::default()
        };
        let request = Request::Omni(request);
        assert_eq!(Request::decode(&request.encode(None)).request, request);
    }

    #[test]
    fn replies_round_trip() {
        let response = OmniResponse {
            receive_buffer: 131_072,
            receive_size: UNSET,
            flags: Flags::NO_DELAY | Flags::MEASURE_CPU,
            cpu_rate: 100.0,
            data_port: 40_175,
            priority: -2,
            ..OmniResponse::default()
        };
        let frame = response.encode();
        assert_eq!(word(&frame, 0), 98);
        assert_eq!(word(&frame, 13), 40_175);
        assert_eq!(OmniResponse::decode(&frame), Ok(response));

        let results = OmniResults {
            bytes_received: 0x0001_0000_0002,
            elapsed: 1.25,
            retransmits: -1,
            congestion_control: Text::new("bbr"),
            ..OmniResults::default()
        };
        let mut frame = results.encode();
        assert_eq!(word(&frame, 0), 99);
        assert_eq!((word(&frame, 2), word(&frame, 3)), (1, 2));
        assert_eq!(word(&frame, 28), -1);
        // A stock server leaves the type of its previous message, reversed.
        frame[..4].copy_from_slice(&[0x62, 0, 0, 0]);
        assert_eq!(OmniResults::decode(&frame), Ok(results));
    }

    #[test]
    fn flags_and_directions() {
        let flags = Flags::ROUTING_ALLOWED | Flags::CONNECTION_TEST;
        assert_eq!(flags, Flags(0x24));
        assert!(flags.has(Flags::CONNECTION_TEST));
        assert!(!flags.has(Flags::CONNECTION_TEST | Flags::NO_DELAY));
        for (direction, transmits, receives) in [
            (0, false, false),
            (2, true, false),
            (4, false, true),
            (6, true, true),
        ] {
            let request = OmniRequest {
                direction,
                family: FAMILY_IPV6,
                ..OmniRequest::default()
            };
            assert_eq!(request.transmits(), transmits);
            assert_eq!(request.receives(), receives);
        }
    }
}
