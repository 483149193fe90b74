//! The fields of the messages of tests. Each test uses some of them, at offsets that `layouts.rs`
//! declares.

use std::ops::BitOr;

use codec::Endian;
use model::{Transport, with_defaults};

use super::frame::{Field, SwappedText};
use super::{AddressWords, FAMILY_IPV4, FAMILY_VSOCK, Text, UNSET};

with_defaults! {
    /// The parameters of a test request. Sizes and offsets are in bytes. [`UNSET`] in a signed word
    /// leaves the choice to the server.
    ///
    /// The default is an omni request for a TCP test without direction or limit. Other fields have
    /// the values that the stock client sends by default.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TestRequest {
        /// SO_SNDBUF to set. In Unix domain tests, 0 leaves the default; in other tests, 0 is set.
        pub send_buffer: i32 = UNSET,
        /// Bytes per send call of a bulk transfer.
        pub send_size: i32 = UNSET,
        /// Alignment of the send buffers, a power of two.
        pub send_alignment: u32 = 8,
        /// Offset of the send buffers from the alignment.
        pub send_offset: u32 = 0,
        /// Number of buffers in the send ring; 0 leaves the choice to the server.
        pub send_width: u32 = 0,
        /// Bytes per request. A positive value makes an omni test a request/response test.
        pub request_size: i32 = UNSET,
        /// SO_RCVBUF to set; 0 as in `send_buffer`.
        pub receive_buffer: i32 = UNSET,
        /// Bytes per receive call of a bulk transfer.
        ///
        /// In classic tests, 0 leaves the choice to the server. In TCP_MAERTS, these are the bytes
        /// per send call. For datagrams and frames, it is the payload of each; a datagram or
        /// frame of another length ends the test.
        pub receive_size: i32 = UNSET,
        /// Alignment of the receive buffers. In classic bulk transfers: of the buffers in use.
        pub receive_alignment: u32 = 8,
        /// Offset of the receive buffers. In classic bulk transfers: of the buffers in use.
        pub receive_offset: u32 = 0,
        /// Number of buffers in the receive ring; 0 leaves the choice to the server.
        pub receive_width: u32 = 0,
        /// Bytes per response.
        pub response_size: i32 = UNSET,
        /// See [`Flags`]. Classic messages have one word for each flag that they support.
        pub flags: Flags = Flags::ROUTING_ALLOWED,
        /// The server's CPU calibration that the client has
        /// ([`CalibrateResponse`](super::CalibrateResponse)); 0 is unknown.
        pub cpu_rate: f32 = 0.0,
        /// The limit of the test. Positive: seconds. Negative: bytes of a bulk transfer, or
        /// transactions. Zero: no limit.
        ///
        /// A classic stream with a byte limit sends the positive number of bytes, which the server
        /// cannot distinguish from seconds.
        pub test_length: i32 = 0,
        /// 1 requests to receive without a copy; no effect on Linux.
        pub receive_copy_avoidance: u32 = 0,
        /// 1 requests to send without a copy; no effect on Linux.
        pub send_copy_avoidance: u32 = 0,
        /// Bytes to write into a buffer before each send.
        pub send_dirty: i32 = UNSET,
        /// Bytes to write into a buffer before each receive.
        pub receive_dirty: i32 = UNSET,
        /// Bytes to read from a buffer before each receive.
        pub receive_clean: i32 = UNSET,
        /// The port to bind; 0 is any. From the second iteration on, the stock client requests the
        /// port of the first.
        pub data_port: u32 = 0,
        /// The address family: [`FAMILY_IPV4`], [`FAMILY_IPV6`](super::FAMILY_IPV6),
        /// [`FAMILY_VSOCK`], or an unsupported one.
        pub family: u32 = FAMILY_IPV4,
        /// The socket type, for example [`TestRequest::STREAM`].
        pub socket_type: i32 = TestRequest::STREAM,
        /// The IANA protocol number: 6 is TCP, 17 is UDP.
        pub protocol: u32 = TestRequest::TCP,
        /// The server's direction: [`TestRequest::TRANSMIT`], [`TestRequest::RECEIVE`], both bits
        /// for request/response, none for connect/close.
        pub direction: u32 = 0,
        /// The port of the client's bound data socket.
        pub client_port: u32 = 0,
        /// Sends per interval on the server.
        pub interval_burst: u32 = 0,
        /// Length of an interval in microseconds.
        pub interval_us: u32 = 0,
        /// The address to which the client's data socket is bound; zero for the wildcard.
        pub client_address: AddressWords = AddressWords::default(),
        /// The address that the server binds; zero unless the user specified one.
        pub server_address: AddressWords = AddressWords::default(),
        /// SO_PRIORITY to set.
        pub priority: i32 = UNSET,
        /// IP_TOS or IPV6_TCLASS to set.
        pub type_of_service: i32 = UNSET,
        /// The congestion control algorithm to set; empty leaves the host's default.
        pub congestion_control: Text<16> = Text::default(),
        /// The path of a file on the server that fills its buffers.
        pub fill_file: Text<32> = Text::default(),
        /// Classic UDP_STREAM: connect the receiving socket to the sender of the datagrams.
        pub connect: bool = false,
        /// Classic UDP_STREAM: disable the UDP checksum. No client sets it.
        pub checksum_off: bool = false,
        /// Wait in poll(2) instead of in socket calls: test option `-B` of the SCTP tests.
        pub non_blocking: bool = false,
        /// Classic streams: bytes to dirty in each buffer before a call. Servers ignore it.
        pub dirty: i32 = 0,
        /// Classic streams: bytes to read in each buffer before a call. Servers ignore it.
        pub clean: i32 = 0,
        /// Unix domain: the path that the client proposes. The stock client leaves it empty. The
        /// preceding word for its length is never set.
        pub path: SwappedText<32> = SwappedText::default(),
        /// DLPI: the window of frames from the peer to the server; 0 leaves the default.
        pub receive_window: i32 = 0,
        /// DLPI: the window of frames from the server to the peer; 0 leaves the default.
        pub send_window: i32 = 0,
        /// DLPI: the service access point of the test. In 802.2, it serves as a port.
        pub sap: i32 = 0,
        /// DLPI: the PPA (physical point of attachment), the number of the interface. With −1,
        /// `device` is the complete name.
        pub ppa: i32 = 0,
        /// DLPI: the length of `device` in bytes.
        pub device_len: i32 = 0,
        /// DLPI: the name of the interface; empty is none. Stock converts this part of the message
        /// by words, but reverses the name first. So the name is in natural order.
        pub device: Text<32> = Text::default(),
    }
}

impl TestRequest {
    /// Creates a classic request that leaves all choices to the server.
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
    /// Value of [`socket_type`](Self::socket_type): DCCP.
    pub const DCCP_TYPE: i32 = 3;
    /// Value of [`protocol`](Self::protocol): TCP.
    pub const TCP: u32 = 6;
    /// Value of [`protocol`](Self::protocol): UDP.
    pub const UDP: u32 = 17;
    /// Value of [`protocol`](Self::protocol): DCCP.
    pub const DCCP: u32 = 33;
    /// Value of [`protocol`](Self::protocol): SCTP.
    pub const SCTP: u32 = 132;
    /// Value of [`protocol`](Self::protocol): UDP-Lite.
    pub const UDPLITE: u32 = 136;

    /// Returns the socket type and the protocol for a transport. The protocol is 0 for transports
    /// that the family alone identifies.
    pub fn socket_words(transport: Transport) -> (i32, u32) {
        match transport {
            // Multipath TCP falls back to TCP. Its protocol number, 262, makes a stock server spin
            // forever.
            Transport::Tcp | Transport::Mptcp => (Self::STREAM, Self::TCP),
            Transport::Udp => (Self::DATAGRAM, Self::UDP),
            Transport::UdpLite => (Self::DATAGRAM, Self::UDPLITE),
            Transport::Sctp | Transport::SctpMany => (Self::STREAM, Self::SCTP),
            Transport::Dccp => (Self::DCCP_TYPE, Self::DCCP),
            Transport::UnixStream | Transport::Vsock | Transport::LlcStream => (Self::STREAM, 0),
            Transport::UnixDatagram | Transport::LlcDatagram => (Self::DATAGRAM, 0),
        }
    }

    /// Returns the transport of the data, or `None` if it is unsupported.
    pub fn transport(&self) -> Option<Transport> {
        if self.family == FAMILY_VSOCK {
            let words = Self::socket_words(Transport::Vsock);
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
        .find(|transport| Self::socket_words(*transport) == (self.socket_type, self.protocol))
    }

    /// Whether the server sends.
    pub fn transmits(&self) -> bool {
        self.direction & Self::TRANSMIT != 0
    }

    /// Whether the server receives.
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
    /// The client uses sendfile(2). Servers ignore it.
    pub const SENDFILE: Self = Self(0x2);
    /// A new connection for each transaction.
    pub const CONNECTION_TEST: Self = Self(0x4);
    /// Measure the server's CPU.
    pub const MEASURE_CPU: Self = Self(0x8);
    /// No SO_DONTROUTE on the server. The same bit requests the name of the congestion control
    /// algorithm in the results.
    pub const ROUTING_ALLOWED: Self = Self(0x20);
    /// Report the interface: its name, its slot, its PCI IDs and its driver, one bit each. netperf
    /// 2.7.0 sets the bits, but ignores them.
    pub const INTERFACE: Self = Self(0x40 | 0x80 | 0x100 | 0x200);
    /// Accept data with a client's first segment (TCP Fast Open).
    pub const FAST_OPEN: Self = Self(0x800);
    /// Answer datagrams from the address to which they were sent.
    pub const PACKET_INFO: Self = Self(0x2000);
    /// TCP_DEFER_ACCEPT, 5 s.
    pub const DEFER_ACCEPT: Self = Self(0x8000);
    /// IP_MTU_DISCOVER, IP_PMTUDISC_DO. netperf 2.7.0 ignores it.
    pub const DO_NOT_FRAGMENT: Self = Self(0x1_0000);
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
    pub fn has_all(self, flags: Self) -> bool {
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

    fn read(bytes: &[u8], at: usize, order: Endian) -> Self {
        Self(u32::read(bytes, at, order))
    }

    fn write(&self, bytes: &mut [u8], at: usize, order: Endian) {
        self.0.write(bytes, at, order);
    }
}

/// The server's setup for a test. A field that the message lacks is 0.
///
/// An omni response reserves a word for the test length, but no program sets or reads it. From a
/// stock server, the fields about the host (`cpu_mhz`, `security`, the texts) are leftovers. Stock
/// clients ignore them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestResponse {
    /// SO_RCVBUF as reported by the kernel. Over LLC connections: the receive window in frames.
    pub receive_buffer: i32,
    /// Bytes per receive call (classic TCP_MAERTS: per send call). The requested value if the
    /// server does not receive.
    pub receive_size: i32,
    /// Number of buffers in the receive ring. The requested value if the server does not receive.
    pub receive_width: i32,
    /// SO_SNDBUF as reported by the kernel. Over LLC connections: the send window in frames.
    pub send_buffer: i32,
    /// Bytes per send call. The requested value if the server does not send.
    pub send_size: i32,
    /// Number of buffers in the send ring. The requested value if the server does not send.
    pub send_width: i32,
    /// [`Flags::NO_DELAY`] and [`Flags::MEASURE_CPU`] are those in force. From a stock server, the
    /// other bits are leftovers.
    pub flags: Flags,
    /// Whether the socket waits in poll(2).
    pub non_blocking: bool,
    /// The requested test length. A stock server sets it for TCP_RR and over datagrams only.
    pub test_length: i32,
    /// The server's CPU calibration if it measures CPU time, else 0.
    pub cpu_rate: f32,
    /// The requested value.
    pub receive_copy_avoidance: u32,
    /// The requested value.
    pub send_copy_avoidance: u32,
    /// The port of the data socket.
    pub data_port: u32,
    /// Sends per interval in force; 0 without pacing.
    pub interval_burst: u32,
    /// Length of an interval in force, in microseconds; 0 without pacing.
    pub interval_us: u32,
    /// The CPUs' frequency in MHz; 0 is unknown.
    pub cpu_mhz: u32,
    /// The security module: its number times 65,536, plus 1 if it enforces its policy. Both values
    /// are those of the selectors *_SECURITY_TYPE_ID and *_SECURITY_ENABLED_NUM. 0 is unknown.
    pub security: u32,
    /// SO_PRIORITY as read back; −1 if none was requested, −2 if it could not be set.
    pub priority: i32,
    /// The type of service as read back; −1 if none was requested, −2 if it could not be set.
    pub type_of_service: i32,
    /// The model of the machine.
    pub system_model: Text<33>,
    /// The model of the CPUs.
    pub cpu_model: Text<80>,
    /// The name of the security module.
    pub security_type: Text<16>,
    /// Unix domain: the path at which the server listens or receives.
    pub path: SwappedText<32>,
    /// DLPI: the service access point at which the server listens or receives.
    pub sap: i32,
    /// DLPI: the length of `station` in bytes.
    pub station_len: u32,
    /// DLPI: the station (MAC) address of the server's interface.
    pub station: [u8; 8],
}

/// The server's counts of a test. A field that the message lacks is 0.
///
/// Omni results reserve words for failed sends (payload offset 32) and service demand (68), but no
/// program sets or reads them. From a stock server, the fields about the interface are leftovers.
/// Stock clients ignore them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestResults {
    /// Received payload in bytes.
    pub bytes_received: u64,
    /// The number of receive calls, low 32 bits.
    pub receive_calls: u32,
    /// SO_RCVBUF at the end.
    pub receive_buffer: i32,
    /// Sent payload in bytes.
    pub bytes_sent: u64,
    /// The number of send calls, low 32 bits.
    pub send_calls: u32,
    /// SO_SNDBUF at the end.
    pub send_buffer: i32,
    /// Classic TCP and SCTP streams: payload in bytes.
    pub bytes: f64,
    /// Other classic tests: payload in bytes, modulo 2³². For transactions, it is their number ×
    /// (request size + response size). For datagrams, it includes the one that ends the test.
    pub bytes_low: u32,
    /// Classic: calls in the direction of the data. For datagrams and frames, only those that
    /// transfer one message size.
    pub calls: u32,
    /// The number of transactions or connections; 0 for a bulk transfer.
    pub transactions: u32,
    /// Elapsed seconds by the server's clock.
    pub elapsed: f32,
    /// Busy CPU time in percent of all CPUs, if measured; −1 if not measured for classic datagrams.
    /// In omni results of a stock server without CPU measurement, this and the next fields are
    /// leftovers.
    pub cpu_utilisation: f32,
    /// CPU time in user mode, percent.
    pub cpu_user: f32,
    /// CPU time in the kernel, percent.
    pub cpu_system: f32,
    /// CPU time waiting for storage, percent.
    pub cpu_iowait: f32,
    /// CPU time in hard interrupts, percent.
    pub cpu_irq: f32,
    /// CPU time in soft interrupts, percent.
    pub cpu_softirq: f32,
    /// The method of CPU measurement: 8 is /proc/stat, 0 is none. In classic tests, a stock server
    /// sets it for streams, TCP_RR and UDP only.
    pub cpu_method: u32,
    /// The number of online CPUs; 0 if CPU time is not measured. A stock server does not set it for
    /// TCP_CRR and Unix domain tests.
    pub cpus: u32,
    /// The number of the busiest CPU.
    pub peak_cpu: i32,
    /// The utilisation of the busiest CPU, percent.
    pub peak_cpu_utilisation: f32,
    /// The PCI vendor of the interface that carries the data; −1 is none. [`Flags::INTERFACE`]
    /// requests this and the other fields about the interface.
    pub pci_vendor: i32,
    /// The PCI device of the interface.
    pub pci_device: i32,
    /// The PCI subsystem vendor of the interface.
    pub pci_subvendor: i32,
    /// The PCI subsystem device of the interface.
    pub pci_subdevice: i32,
    /// TCP segments retransmitted on the data connection; −1 if unknown or not TCP.
    pub retransmits: i32,
    /// The name of the interface.
    pub interface: Text<16>,
    /// The driver of the interface.
    pub driver: Text<32>,
    /// The version of the driver.
    pub driver_version: Text<32>,
    /// The firmware of the interface.
    pub firmware: Text<32>,
    /// The bus address of the interface.
    pub bus: Text<32>,
    /// The slot of the interface.
    pub slot: Text<16>,
    /// The congestion control algorithm in force; "TCP Only" for other connected protocols. Empty
    /// if not requested ([`Flags::ROUTING_ALLOWED`]) or if the connection is closed.
    pub congestion_control: Text<16>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::read_word;
    use crate::wire::{OMNI, ReceivedRequest, Request};

    #[test]
    fn transports_from_socket_words() {
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
        // A stock server spins forever if it receives protocol 262.
        assert_eq!(TestRequest::socket_words(Transport::Mptcp), (1, 6));
    }

    #[test]
    fn every_request_word_has_its_index() {
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
            client_address: AddressWords::from(std::net::IpAddr::from([0, 0, 0, 30])),
            server_address: AddressWords::from(std::net::IpAddr::from([0, 0, 0, 34])),
            priority: 38,
            type_of_service: 39,
            congestion_control: Text::new("cubic"),
            fill_file: Text::new("/etc/motd"),
            ..TestRequest::default()
        };
        let frame = Request::Omni(request.clone()).encode(Some(1));
        let indices = (0..40).filter(|index| !matches!(index, 31..=33 | 35..=37));
        for index in indices.skip(2) {
            assert_eq!(read_word(&frame, index), index as i32);
        }
        assert_eq!([read_word(&frame, 0), read_word(&frame, 1)], [97, 1]);
        assert_eq!(frame[160..176], *b"cubic\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(frame[176..186], *b"/etc/motd\0");
        assert_eq!(
            Request::decode(&frame),
            ReceivedRequest {
                cpu: Some(1),
                request: Request::Omni(request)
            }
        );
    }

    #[test]
    fn invalid_values_are_decoded() {
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
    fn reply_fields_have_their_offsets() {
        let response = TestResponse {
            receive_size: UNSET,
            data_port: 40_175,
            priority: -2,
            ..TestResponse::default()
        };
        let frame = OMNI.encode_response(&response);
        assert_eq!([read_word(&frame, 0), read_word(&frame, 13)], [98, 40_175]);
        assert_eq!(OMNI.parse_response(&frame), Ok(response));

        let results = TestResults {
            bytes_received: 0x0001_0000_0002,
            elapsed: 1.25,
            retransmits: -1,
            congestion_control: Text::new("bbr"),
            ..TestResults::default()
        };
        let mut frame = OMNI.encode_results(&results);
        let words = [0, 2, 3, 28].map(|at| read_word(&frame, at));
        assert_eq!(words, [99, 1, 2, -1]);
        // A stock server leaves the type of its previous message, reversed.
        frame[..4].copy_from_slice(&[0x62, 0, 0, 0]);
        assert_eq!(OMNI.parse_results(&frame), Ok(results));
    }

    #[test]
    fn flags_and_directions_are_sets_of_bits() {
        let flags = Flags::ROUTING_ALLOWED | Flags::CONNECTION_TEST;
        assert_eq!(flags, Flags(0x24));
        assert!(flags.has_all(Flags::CONNECTION_TEST));
        assert!(!flags.has_all(Flags::CONNECTION_TEST | Flags::NO_DELAY));
        for (direction, expected) in [
            (0, (false, false)),
            (2, (true, false)),
            (4, (false, true)),
            (6, (true, true)),
        ] {
            let request = TestRequest {
                direction,
                ..TestRequest::default()
            };
            assert_eq!((request.transmits(), request.receives()), expected);
        }
    }
}
