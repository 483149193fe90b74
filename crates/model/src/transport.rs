//! What carries data, and what each transport has.

use serde::{Deserialize, Serialize};

/// What carries the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP, a byte stream: tcp(7).
    Tcp,
    /// Multipath TCP, a byte stream over one or more TCP connections: RFC 8684.
    Mptcp,
    /// UDP, datagrams: udp(7).
    Udp,
    /// UDP-Lite, datagrams whose checksum need not cover all: udplite(7).
    UdpLite,
    /// SCTP, one association a socket (RFC 6458, section 4): messages, in order, none lost.
    Sctp,
    /// SCTP, many associations on a socket (RFC 6458, section 3).
    SctpMany,
    /// DCCP, datagrams under a congestion control, on a connection: RFC 4340.
    Dccp,
    /// A byte stream within one host: unix(7).
    UnixStream,
    /// Datagrams within one host: unix(7).
    UnixDatagram,
    /// A byte stream between a virtual machine and its host: vsock(7).
    Vsock,
    /// The logical link control with connections (802.2 type 2): messages, in order, none lost.
    LlcStream,
    /// The logical link control without connections (802.2 type 1): datagrams.
    LlcDatagram,
}

impl Transport {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Mptcp => "MPTCP",
            Self::Udp => "UDP",
            Self::UdpLite => "UDPLite",
            Self::Sctp | Self::SctpMany => "SCTP",
            Self::Dccp => "DCCP",
            Self::UnixStream => "UNIX",
            Self::UnixDatagram => "UNIX datagram",
            Self::Vsock => "VSOCK",
            Self::LlcStream => "LLC2",
            Self::LlcDatagram => "LLC",
        }
    }

    /// Whether one end listens and the other connects.
    pub fn has_connections(self) -> bool {
        !matches!(
            self,
            Self::Udp | Self::UdpLite | Self::UnixDatagram | Self::LlcDatagram
        )
    }

    /// Whether a send call is one datagram, which may be lost, and an empty one can be told from the
    /// end of a stream.
    pub fn has_datagrams(self) -> bool {
        !self.has_connections() || self == Self::Dccp
    }

    /// Whether it has the socket options of TCP: tcp(7).
    pub fn has_tcp_options(self) -> bool {
        matches!(self, Self::Tcp | Self::Mptcp)
    }

    /// Whether splice(2) and sendfile(2) move its data without loss: streams of bytes.
    pub fn has_bytes(self) -> bool {
        matches!(
            self,
            Self::Tcp | Self::Mptcp | Self::UnixStream | Self::Vsock
        )
    }

    /// Whether small sends can be told not to wait for more (TCP_NODELAY, SCTP_NODELAY).
    pub fn has_no_delay(self) -> bool {
        self.has_tcp_options() || matches!(self, Self::Sctp | Self::SctpMany)
    }

    /// What a kernel without it lacks.
    pub fn needs(self) -> &'static str {
        match self {
            Self::Tcp | Self::Udp => "CONFIG_INET",
            Self::Mptcp => "CONFIG_MPTCP, with sysctl net.mptcp.enabled=1",
            Self::UdpLite => "CONFIG_IP_UDPLITE, which is part of any IPv4 that has UDP-Lite",
            Self::Sctp | Self::SctpMany => "the module sctp",
            Self::Dccp => {
                "the module dccp_ipv4 or dccp_ipv6 (Linux 6.15 was the last to have them)"
            }
            Self::UnixStream | Self::UnixDatagram => "the module unix",
            Self::Vsock => {
                "the module vsock, and for its own host vsock_loopback, for guests vhost_vsock, in a \
                 guest vmw_vsock_virtio_transport"
            }
            Self::LlcStream | Self::LlcDatagram => "the module llc2",
        }
    }

    /// Whether both ends are always on one host.
    pub fn is_of_one_host(self) -> bool {
        matches!(self, Self::UnixStream | Self::UnixDatagram)
    }

    /// Whether its addresses are those of IP.
    pub fn has_ip(self) -> bool {
        matches!(
            self,
            Self::Tcp
                | Self::Mptcp
                | Self::Udp
                | Self::UdpLite
                | Self::Sctp
                | Self::SctpMany
                | Self::Dccp
        )
    }

    /// The most bytes that one send call may have when nobody asks for a size; `None` where the
    /// socket's buffer bounds it.
    pub fn largest_send(self) -> Option<u32> {
        match self {
            // netperf's own bound, too, for datagrams within a host, which fit into the socket's buffer
            // with a header of their own.
            Self::Udp | Self::UdpLite | Self::UnixDatagram => Some(MAX_UDP_PAYLOAD),
            Self::Dccp | Self::LlcStream | Self::LlcDatagram => Some(SAFE_FRAME_PAYLOAD),
            Self::Sctp | Self::SctpMany => Some(SAFE_SCTP_MESSAGE),
            Self::Tcp | Self::Mptcp | Self::UnixStream | Self::Vsock => None,
        }
    }
}

/// The largest payload of a UDP datagram over IPv4: RFC 768 and 791.
pub const MAX_UDP_PAYLOAD: u32 = 65_535 - 8 - 20;

/// A third of the window that Linux gives a peer of SCTP by default: half of a socket buffer's 212,992
/// bytes. A message that does not fit into it comes in parts, and between these both ends stand still until
/// an acknowledgement is no longer delayed (200 ms), or the retransmission timer expires (1 s).
const SAFE_SCTP_MESSAGE: u32 = 32 * 1024;

/// What an Ethernet frame carries of a protocol that does not fragment, with room for IPv6's and
/// DCCP's headers and options: RFC 4340, section 14.
const SAFE_FRAME_PAYLOAD: u32 = 1400;
