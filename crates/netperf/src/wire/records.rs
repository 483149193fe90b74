//! The fields of the messages of tests. Each test has some of them, in an order of its own: `layouts.rs`.

use std::ops::BitOr;

use codec::Order;
use model::{Transport, with_defaults};

use super::frame::{Field, SwappedText};
use super::{Address, FAMILY_IPV4, FAMILY_VSOCK, Text, UNSET};

with_defaults! {
    /// What the client asks of the server. Sizes and offsets are bytes; a signed word of
    /// [`UNSET`] leaves the choice to the server.
    ///
    /// The default is an omni request for a TCP test without direction or limit, and whatever the stock client sends
    /// when nobody asks for anything.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TestRequest {
        /// SO_SNDBUF to set; 0 is set as such, but is the default in Unix domain tests.
        pub send_buffer: i32 = UNSET,
        /// Bytes a send call of a bulk transfer.
        pub send_size: i32 = UNSET,
        /// Send buffers start at a multiple of this power of two …
        pub send_alignment: u32 = 8,
        /// … and this many bytes further.
        pub send_offset: u32 = 0,
        /// Buffers in the send ring; 0 leaves the choice to the server.
        pub send_width: u32 = 0,
        /// Bytes a request; positive makes an omni test a request/response test.
        pub request_size: i32 = UNSET,
        /// SO_RCVBUF to set, as for sending.
        pub receive_buffer: i32 = UNSET,
        /// Bytes a receive call of a bulk transfer. In classic tests 0 leaves the choice to the server, TCP_MAERTS has the
        /// bytes a send call here, and of datagrams and frames it is the payload of each; one of another length ends
        /// the test.
        pub receive_size: i32 = UNSET,
        /// As for sending; in classic bulk transfers that of the direction there is.
        pub receive_alignment: u32 = 8,
        /// Likewise.
        pub receive_offset: u32 = 0,
        /// As for sending.
        pub receive_width: u32 = 0,
        /// Bytes a response.
        pub response_size: i32 = UNSET,
        /// See [`Flags`]. Classic messages have a word for each that they know.
        pub flags: Flags = Flags::ROUTING_ALLOWED,
        /// The server's calibration as the client knows it (see
        /// [`CalibrateResponse`](super::CalibrateResponse)); 0 is unknown.
        pub cpu_rate: f32 = 0.0,
        /// Positive: seconds. Negative: that many bytes of a bulk transfer, or transactions. Zero:
        /// no limit. A classic stream with a byte limit has the positive number of bytes here, and no sign that it is one.
        pub test_length: i32 = 0,
        /// 1 to receive without a copy; no effect on Linux.
        pub receive_copy_avoidance: u32 = 0,
        /// 1 to send without a copy; no effect on Linux.
        pub send_copy_avoidance: u32 = 0,
        /// Bytes to write into a buffer before each send.
        pub send_dirty: i32 = UNSET,
        /// Bytes to write into a buffer before each receive.
        pub receive_dirty: i32 = UNSET,
        /// Bytes to read from a buffer before each receive.
        pub receive_clean: i32 = UNSET,
        /// The port to bind; 0 is any. From the second iteration on the stock client asks for
        /// the port that served the first.
        pub data_port: u32 = 0,
        /// [`FAMILY_IPV4`], [`FAMILY_IPV6`](super::FAMILY_IPV6), or what no linerate serves.
        pub family: u32 = FAMILY_IPV4,
        /// See [`TestRequest::STREAM`].
        pub socket_type: i32 = TestRequest::STREAM,
        /// IANA's number: 6 is TCP, 17 UDP.
        pub protocol: u32 = TestRequest::TCP,
        /// What the server shall do: [`TestRequest::TRANSMIT`], [`TestRequest::RECEIVE`], both for
        /// request/response, none for connect/close.
        pub direction: u32 = 0,
        /// The port of the client's bound data socket.
        pub client_port: u32 = 0,
        /// Sends an interval on the server.
        pub interval_burst: u32 = 0,
        /// Length of an interval, microseconds.
        pub interval_us: u32 = 0,
        /// Where the client's data socket is bound; none for the wildcard.
        pub client_address: Address = Address::default(),
        /// What the server shall bind; none unless the user gave one.
        pub server_address: Address = Address::default(),
        /// SO_PRIORITY to set.
        pub priority: i32 = UNSET,
        /// IP_TOS or IPV6_TCLASS to set.
        pub type_of_service: i32 = UNSET,
        /// The algorithm to set; empty leaves the host's.
        pub congestion_control: Text<16> = Text::default(),
        /// A path on the server whose contents shall fill its buffers.
        pub fill_file: Text<32> = Text::default(),
        /// Classic UDP_STREAM: connect the receiving socket to the sender of the datagrams.
        pub connect: bool = false,
        /// Classic UDP_STREAM: switch the UDP checksum off; no client does.
        pub checksum_off: bool = false,
        /// Wait in poll(2) instead of in the calls of the socket: SCTP's test option `-B`.
        pub non_blocking: bool = false,
        /// Classic streams: bytes to dirty in each buffer before a call. Servers do not read it.
        pub dirty: i32 = 0,
        /// Bytes to read of it, likewise.
        pub clean: i32 = 0,
        /// Unix domain: a path that the client proposes; the stock client leaves it empty. The word with its length
        /// before it is never set.
        pub path: SwappedText<32> = SwappedText::default(),
        /// DLPI: frames that the peer may have on their way to the server before it waits; 0 leaves it.
        pub receive_window: i32 = 0,
        /// DLPI: frames that the server may have on their way; 0 leaves it.
        pub send_window: i32 = 0,
        /// DLPI: the service access point of the test, 802.2's port.
        pub sap: i32 = 0,
        /// DLPI: the PPA (physical point of attachment), the number of the interface; −1 is none, and `device` is the whole
        /// name.
        pub ppa: i32 = 0,
        /// Length of the device's name.
        pub device_len: i32 = 0,
        /// DLPI: name of the interface; empty is none. It lies in the converted part but is turned round before, so that it
        /// stands in natural order.
        pub device: Text<32> = Text::default(),
    }
}

impl TestRequest {
    /// A classic request that leaves everything to the server.
    pub fn classic() -> Self {
        Self {
            receive_size: 0,
            request_size: 1,
            response_size: 1,
            ..Self::default()
        }
    }

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

    /// Sets or clears `flags`.
    pub(crate) fn set(&mut self, flags: Self, on: bool) {
        self.0 = if on {
            self.0 | flags.0
        } else {
            self.0 & !flags.0
        };
    }

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

impl Field for Flags {
    const LEN: usize = u32::LEN;

    fn read(bytes: &[u8], at: usize, order: Order) -> Self {
        Self(u32::read(bytes, at, order))
    }

    fn write(&self, bytes: &mut [u8], at: usize, order: Order) {
        self.0.write(bytes, at, order);
    }
}

/// What the server has set up. A field that its message does not have is 0.
///
/// In an omni response the test length has a place but is neither set nor read by anybody. The words on the host
/// (`cpu_mhz`, `security`, the texts) are leftovers of a stock server, and no stock client looks at them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestResponse {
    /// SO_RCVBUF, as the kernel gives it; over LLC connections the receive window in frames.
    pub receive_buffer: i32,
    /// Bytes a receive call (classic TCP_MAERTS: a send call), or what was asked if the server does not receive.
    pub receive_size: i32,
    /// Buffers in the receive ring, or what was asked.
    pub receive_width: i32,
    /// SO_SNDBUF or the send window, likewise.
    pub send_buffer: i32,
    /// Bytes a send call, or what was asked if the server does not send.
    pub send_size: i32,
    /// Buffers in the send ring, or what was asked.
    pub send_width: i32,
    /// [`Flags::NO_DELAY`] and [`Flags::MEASURE_CPU`] tell what is in force; of a stock server
    /// the other bits are leftovers.
    pub flags: Flags,
    /// Whether the socket waits in poll(2).
    pub non_blocking: bool,
    /// As asked. A stock server sets it for TCP_RR and over datagrams only.
    pub test_length: i32,
    /// The server's calibration if it measures, else 0.
    pub cpu_rate: f32,
    /// As asked.
    pub receive_copy_avoidance: u32,
    /// As asked.
    pub send_copy_avoidance: u32,
    /// The port of the data socket.
    pub data_port: u32,
    /// Sends an interval in force; 0 without pacing.
    pub interval_burst: u32,
    /// Microseconds an interval in force; 0 without pacing.
    pub interval_us: u32,
    /// The CPUs' frequency in MHz; 0 is unknown.
    pub cpu_mhz: u32,
    /// The security module's number times 65,536, and whether it forbids: 0, 1. As the selectors
    /// *_SECURITY_TYPE_ID and *_SECURITY_ENABLED_NUM have them; 0 is unknown.
    pub security: u32,
    /// SO_PRIORITY as read back; −1 if none was asked for, −2 if it could not be set.
    pub priority: i32,
    /// Likewise.
    pub type_of_service: i32,
    /// The machine's model.
    pub system_model: Text<33>,
    /// The CPUs' model.
    pub cpu_model: Text<80>,
    /// The security module's name.
    pub security_type: Text<16>,
    /// Unix domain: where the server listens or receives.
    pub path: SwappedText<32>,
    /// DLPI: the service access point that the server listens or receives at.
    pub sap: i32,
    /// How many bytes of `station` there are.
    pub station_len: u32,
    /// DLPI: the station (MAC) address of the server's interface.
    pub station: [u8; 8],
}

/// What the server has counted. A field that its message does not have is 0.
///
/// In omni results the failed sends (P+32) and the service demand (P+68) have a place but are neither set nor read by
/// anybody. What there is on the interface is leftovers of a stock server, and no stock client looks at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestResults {
    /// Payload received, bytes.
    pub bytes_received: u64,
    /// Receive calls, the low 32 bits of their number.
    pub receive_calls: u32,
    /// SO_RCVBUF at the end.
    pub receive_buffer: i32,
    /// Payload sent, bytes.
    pub bytes_sent: u64,
    /// Send calls, the low 32 bits of their number.
    pub send_calls: u32,
    /// SO_SNDBUF at the end.
    pub send_buffer: i32,
    /// Classic: payload of a TCP or SCTP stream, bytes.
    pub bytes: f64,
    /// Of other classic tests the payload modulo 2³²: of transactions their number × (request size + response size). Of
    /// datagrams, the one that ends the test counts here.
    pub bytes_low: u32,
    /// Classic: calls in the direction of the data; of datagrams and frames those of the message size.
    pub calls: u32,
    /// Transactions, or connections; 0 for a bulk transfer.
    pub transactions: u32,
    /// Seconds, on the server's clock.
    pub elapsed: f32,
    /// CPU busy, percent of all CPUs; only if measured. Of classic datagrams −1 if it was not. In omni results this and
    /// the following are leftovers of a stock server that does not measure.
    pub cpu_utilisation: f32,
    /// Of it in user mode.
    pub cpu_user: f32,
    /// Of it in the kernel.
    pub cpu_system: f32,
    /// Waiting for storage, percent.
    pub cpu_iowait: f32,
    /// In hard interrupts, percent.
    pub cpu_irq: f32,
    /// In soft interrupts, percent.
    pub cpu_softirq: f32,
    /// How CPU was measured: 8 is /proc/stat, 0 not at all. Of classic tests a stock server sets it for streams, TCP_RR
    /// and UDP only.
    pub cpu_method: u32,
    /// CPUs that are online, 0 when not measured. A stock server does not set it for TCP_CRR and Unix domain tests.
    pub cpus: u32,
    /// The busiest CPU …
    pub peak_cpu: i32,
    /// … and how busy it was, percent.
    pub peak_cpu_utilisation: f32,
    /// The PCI vendor of the interface that the data goes by; −1 is none. This and what follows on
    /// the interface is told when it was asked for ([`Flags::INTERFACE`]).
    pub pci_vendor: i32,
    /// Its PCI device.
    pub pci_device: i32,
    /// Its PCI subsystem's vendor.
    pub pci_subvendor: i32,
    /// Its PCI subsystem's device.
    pub pci_subdevice: i32,
    /// TCP segments retransmitted on the data connection; −1 when unknown or not TCP.
    pub retransmits: i32,
    /// The interface's name.
    pub interface: Text<16>,
    /// Its driver.
    pub driver: Text<32>,
    /// Its driver's version.
    pub driver_version: Text<32>,
    /// Its firmware.
    pub firmware: Text<32>,
    /// Its place on the bus.
    pub bus: Text<32>,
    /// Its slot.
    pub slot: Text<16>,
    /// The algorithm in force; "TCP Only" for other connected protocols, empty when it was not
    /// asked for ([`Flags::ROUTING_ALLOWED`]) or the connection is closed.
    pub congestion_control: Text<16>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::word;
    use crate::wire::{OMNI, Received, Request};

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
            let request = TestRequest {
                socket_type,
                protocol,
                ..TestRequest::default()
            };
            assert_eq!(request.transport(), transport, "{words:?}");
        }
        let vsock = TestRequest {
            family: FAMILY_VSOCK,
            protocol: 0,
            ..TestRequest::default()
        };
        assert_eq!(vsock.transport(), Some(Transport::Vsock));
        let tcp = TestRequest {
            protocol: TestRequest::TCP,
            ..vsock
        };
        assert_eq!(tcp.transport(), None);
        // A stock server spins at 262.
        assert_eq!(TestRequest::words_of(Transport::Mptcp), (1, 6));
    }

    #[test]
    fn every_request_word_has_its_place() {
        let request = TestRequest {
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
            ..TestRequest::default()
        };
        let frame = Request::Omni(request.clone()).encode(Some(1));
        let given = (0..40).filter(|index| !matches!(index, 31..=33 | 35..=37));
        for index in given.skip(2) {
            assert_eq!(word(&frame, index), index as i32);
        }
        assert_eq!([word(&frame, 0), word(&frame, 1)], [97, 1]);
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
        let request = TestRequest {
            send_size: 0,
            receive_size: i32::MIN,
            send_alignment: 0,
            receive_width: u32::MAX,
            data_port: 65_536,
            family: 7,
            socket_type: -1,
            protocol: 132,
            direction: u32::MAX,
            ..TestRequest::default()
        };
        let request = Request::Omni(request);
        assert_eq!(Request::decode(&request.encode(None)).request, request);
    }

    #[test]
    fn replies_have_their_places() {
        let response = TestResponse {
            receive_size: UNSET,
            data_port: 40_175,
            priority: -2,
            ..TestResponse::default()
        };
        let frame = OMNI.encode_response(&response);
        assert_eq!([word(&frame, 0), word(&frame, 13)], [98, 40_175]);
        assert_eq!(OMNI.response(&frame), Ok(response));

        let results = TestResults {
            bytes_received: 0x0001_0000_0002,
            elapsed: 1.25,
            retransmits: -1,
            congestion_control: Text::new("bbr"),
            ..TestResults::default()
        };
        let mut frame = OMNI.encode_results(&results);
        let words = [0, 2, 3, 28].map(|at| word(&frame, at));
        assert_eq!(words, [99, 1, 2, -1]);
        // A stock server leaves the type of its previous message, reversed.
        frame[..4].copy_from_slice(&[0x62, 0, 0, 0]);
        assert_eq!(OMNI.results(&frame), Ok(results));
    }

    #[test]
    fn flags_and_directions() {
        let flags = Flags::ROUTING_ALLOWED | Flags::CONNECTION_TEST;
        assert_eq!(flags, Flags(0x24));
        assert!(flags.has(Flags::CONNECTION_TEST));
        assert!(!flags.has(Flags::CONNECTION_TEST | Flags::NO_DELAY));
        for (direction, ways) in [
            (0, (false, false)),
            (2, (true, false)),
            (4, (false, true)),
            (6, (true, true)),
        ] {
            let request = TestRequest {
                direction,
                ..TestRequest::default()
            };
            assert_eq!((request.transmits(), request.receives()), ways);
        }
    }
}
