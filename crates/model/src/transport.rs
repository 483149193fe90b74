//! Transport protocols and their properties.

use serde::{Deserialize, Serialize};

/// The transport protocol of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP, a byte stream: tcp(7).
    Tcp,
    /// Multipath TCP, a byte stream over one or more TCP connections: RFC 8684.
    Mptcp,
    /// UDP, datagrams: udp(7).
    Udp,
    /// UDP-Lite, datagrams with a checksum that may cover only a part: udplite(7).
    UdpLite,
    /// SCTP, one association per socket (RFC 6458, section 4): reliable messages, in order.
    Sctp,
    /// SCTP, many associations per socket (RFC 6458, section 3).
    SctpMany,
    /// DCCP, datagrams on a connection with congestion control: RFC 4340.
    Dccp,
    /// A byte stream within one host: unix(7).
    UnixStream,
    /// Datagrams within one host: unix(7).
    UnixDatagram,
    /// A byte stream between a virtual machine and its host: vsock(7).
    Vsock,
    /// Logical link control with connections (802.2 type 2): reliable messages, in order.
    LlcStream,
    /// Logical link control without connections (802.2 type 1): datagrams.
    LlcDatagram,
}

impl Transport {
    /// Returns the transport's name.
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

    /// Returns whether one end listens and the other connects.
    pub fn has_connections(self) -> bool {
        !matches!(
            self,
            Self::Udp | Self::UdpLite | Self::UnixDatagram | Self::LlcDatagram
        )
    }

    /// Returns whether a send call is one datagram, which may be lost. If so, a receive of 0 bytes
    /// is an empty datagram, not the end of a stream.
    pub fn has_datagrams(self) -> bool {
        !self.has_connections() || self == Self::Dccp
    }

    /// Returns whether the transport has the socket options of TCP: tcp(7).
    pub fn has_tcp_options(self) -> bool {
        matches!(self, Self::Tcp | Self::Mptcp)
    }

    /// Returns whether the transport is a byte stream, for which splice(2) and sendfile(2) lose no
    /// data.
    pub fn is_byte_stream(self) -> bool {
        matches!(
            self,
            Self::Tcp | Self::Mptcp | Self::UnixStream | Self::Vsock
        )
    }

    /// Returns whether an option disables the delay of small sends (TCP_NODELAY, SCTP_NODELAY).
    pub fn has_nodelay_option(self) -> bool {
        self.has_tcp_options() || matches!(self, Self::Sctp | Self::SctpMany)
    }

    /// Returns the kernel option or module that the transport needs.
    pub fn requirement(self) -> &'static str {
        match self {
            Self::Tcp | Self::Udp => "CONFIG_INET",
            Self::Mptcp => "CONFIG_MPTCP, with sysctl net.mptcp.enabled=1",
            Self::UdpLite => "CONFIG_IP_UDPLITE, part of IPv4 in kernels with UDP-Lite",
            Self::Sctp | Self::SctpMany => "the module sctp",
            Self::Dccp => "the module dccp_ipv4 or dccp_ipv6 (last included in Linux 6.15)",
            Self::UnixStream | Self::UnixDatagram => "the module unix",
            Self::Vsock => {
                "the module vsock, with vsock_loopback for this host, vhost_vsock for guests, or \
                 vmw_vsock_virtio_transport in a guest"
            }
            Self::LlcStream | Self::LlcDatagram => "the module llc2",
        }
    }

    /// Returns whether both ends are always on one host.
    pub fn is_local(self) -> bool {
        matches!(self, Self::UnixStream | Self::UnixDatagram)
    }

    /// Returns whether the transport uses IP addresses.
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

    /// Returns the maximum bytes per send call if no size is requested; `None` if only the socket's
    /// buffer limits it.
    pub fn max_default_send_bytes(self) -> Option<u32> {
        match self {
            // The kernel's header of a UNIX datagram also needs space in the socket's buffer, so
            // the bound is not the buffer's size. Stock netperf has the same bound.
            Self::Udp | Self::UdpLite | Self::UnixDatagram => Some(MAX_UDP_PAYLOAD),
            Self::Dccp | Self::LlcStream | Self::LlcDatagram => Some(SAFE_FRAME_PAYLOAD),
            Self::Sctp | Self::SctpMany => Some(SAFE_SCTP_MESSAGE),
            Self::Tcp | Self::Mptcp | Self::UnixStream | Self::Vsock => None,
        }
    }
}

/// The largest payload of a UDP datagram over IPv4: RFC 768 and 791.
pub const MAX_UDP_PAYLOAD: u32 = 65_535 - 8 - 20;

/// An SCTP message that surely fits into the receive window: about one third of it. By default,
/// Linux grants an SCTP peer a window of 106,496 bytes, half of the socket buffer. A message above
/// the window is split. Between the parts, both ends wait for a delayed acknowledgement (200 ms) or
/// the retransmission timer (1 s).
const SAFE_SCTP_MESSAGE: u32 = 32 * 1024;

/// A payload that fits into one Ethernet frame, for protocols that do not fragment. It leaves space
/// for the headers and options of IPv6 and DCCP: RFC 4340, section 14.
const SAFE_FRAME_PAYLOAD: u32 = 1400;
