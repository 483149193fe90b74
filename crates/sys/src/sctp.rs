//! SCTP's own socket options: RFC 6458, linux/sctp.h. All are set before a socket connects or listens,
//! and are those of every association that it then has.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use model::{ReliabilityPolicy, SendInfo};

use crate::Address;

/// Streams of an association to ask for and to take, 0 for the system's: SCTP_INITMSG, section 8.1.3.
pub fn set_streams(socket: BorrowedFd<'_>, outgoing: u16, incoming: u16) -> io::Result<()> {
    // `struct sctp_initmsg`: these two, and attempts and their time-out, which stay.
    let mut value = Value::<8>::new();
    value.put(0, outgoing.to_ne_bytes());
    value.put(2, incoming.to_ne_bytes());
    value.set(socket, SCTP_INITMSG)
}

/// The retransmission timer's first value and its bounds, in milliseconds, 0 for the system's:
/// SCTP_RTOINFO, section 8.1.1.
pub fn set_retransmission_times(
    socket: BorrowedFd<'_>,
    initial_ms: u32,
    max_ms: u32,
    min_ms: u32,
) -> io::Result<()> {
    let mut value = Value::<16>::new();
    value.put(4, initial_ms.to_ne_bytes());
    value.put(8, max_ms.to_ne_bytes());
    value.put(12, min_ms.to_ne_bytes());
    value.set(socket, SCTP_RTOINFO)
}

/// How long an acknowledgement may wait, in milliseconds, and for how many packets; 0 for the system's:
/// SCTP_DELAYED_SACK, section 8.1.19.
pub fn set_acknowledgements(socket: BorrowedFd<'_>, delay_ms: u32, packets: u32) -> io::Result<()> {
    let mut value = Value::<12>::new();
    value.put(4, delay_ms.to_ne_bytes());
    value.put(8, packets.to_ne_bytes());
    value.set(socket, SCTP_DELAYED_SACK)
}

/// Packets that leave at once, at most: SCTP_MAX_BURST, section 8.1.24.
pub fn set_max_burst(socket: BorrowedFd<'_>, packets: u32) -> io::Result<()> {
    set_for_associations(socket, SCTP_MAX_BURST, packets)
}

/// Bytes of the largest piece of a message: SCTP_MAXSEG, section 8.1.16.
pub fn set_max_fragment(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_for_associations(socket, SCTP_MAXSEG, bytes)
}

/// The time between heartbeats, in milliseconds, and the path's MTU, which is then not looked for; 0 for
/// the system's: SCTP_PEER_ADDR_PARAMS, section 8.1.12.
pub fn set_paths(socket: BorrowedFd<'_>, heartbeat_ms: u32, mtu_bytes: u32) -> io::Result<()> {
    const SPP_HB_ENABLE: u32 = 1;
    const SPP_PMTUD_DISABLE: u32 = 1 << 4;
    let mut flags = 0;
    if heartbeat_ms != 0 {
        flags |= SPP_HB_ENABLE;
    }
    if mtu_bytes != 0 {
        flags |= SPP_PMTUD_DISABLE;
    }
    // `struct sctp_paddrparams`, packed: association, address, then these. What later kernels have
    // added behind them may be left out.
    let mut value = Value::<152>::new();
    value.put(132, heartbeat_ms.to_ne_bytes());
    value.put(138, mtu_bytes.to_ne_bytes());
    value.put(146, flags.to_ne_bytes());
    value.set(socket, SCTP_PEER_ADDR_PARAMS)
}

/// The UDP port of the peer that packets are sent to within datagrams, as long as [`encapsulation_port`]
/// is one: SCTP_REMOTE_UDP_ENCAPS_PORT, RFC 6951, section 6.1. Since Linux 5.11.
pub fn set_encapsulation_port(socket: BorrowedFd<'_>, port: u16) -> io::Result<()> {
    /// An address has the alignment of a pointer.
    const WORD: usize = size_of::<usize>();
    /// `struct sctp_udpencaps`: association, address, and here the port.
    const PORT: usize = WORD + size_of::<libc::sockaddr_storage>();
    let mut value = Value::<{ PORT + WORD }>::new();
    value.put(PORT, port.to_be_bytes());
    value.set(socket, SCTP_REMOTE_UDP_ENCAPS_PORT)
}

/// The UDP port at which this host, or network namespace, takes SCTP within datagrams, and from which it
/// sends it; 0 for none: net.sctp.udp_port, ip-sysctl.
pub fn encapsulation_port() -> io::Result<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/sctp/udp_port")?;
    text.trim()
        .parse()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The kernel's number of a policy.
pub(crate) fn policy_number(policy: ReliabilityPolicy) -> u16 {
    match policy {
        ReliabilityPolicy::Lifetime => 0x10,
        ReliabilityPolicy::Retransmissions => 0x20,
        ReliabilityPolicy::Priority => 0x30,
    }
}

/// What is said of each message with which nothing is said: SCTP_DEFAULT_SNDINFO, SCTP_DEFAULT_PRINFO,
/// sections 8.1.31 and 8.1.32 (RFC 7496, section 4.4).
pub fn set_default_send_info(socket: BorrowedFd<'_>, info: SendInfo) -> io::Result<()> {
    let mut value = Value::<16>::new();
    value.put(0, info.stream.to_ne_bytes());
    value.put(2, send_flags(info).to_ne_bytes());
    value.set(socket, SCTP_DEFAULT_SNDINFO)?;
    let Some(reliability) = info.reliability else {
        return Ok(());
    };
    let mut value = Value::<12>::new();
    value.put(4, reliability.value.to_ne_bytes());
    value.put(8, policy_number(reliability.policy).to_ne_bytes());
    value.set(socket, SCTP_DEFAULT_PRINFO)
}

/// `snd_flags` of `struct sctp_sndinfo`.
pub(crate) fn send_flags(info: SendInfo) -> u16 {
    const SCTP_UNORDERED: u16 = 1;
    if info.is_unordered { SCTP_UNORDERED } else { 0 }
}

/// SCTP_SOCKOPT_BINDX_ADD: one more local address of the association to come, at the port of those before.
/// sctp_bindx(3).
pub fn bind_also(socket: BorrowedFd<'_>, address: &Address) -> io::Result<()> {
    let address = address.to_kernel()?;
    // SAFETY: the address is live and as long as it says.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_SCTP,
            SCTP_SOCKOPT_BINDX_ADD,
            address.as_ptr().cast(),
            address.len(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `struct sctp_assoc_value`, of the associations to come.
fn set_for_associations(socket: BorrowedFd<'_>, name: i32, number: u32) -> io::Result<()> {
    let mut value = Value::<8>::new();
    value.put(4, number.to_ne_bytes());
    value.set(socket, name)
}

/// An option's value, zero where nothing is put: the association to come, and any address.
struct Value<const N: usize>([u8; N]);

impl<const N: usize> Value<N> {
    fn new() -> Self {
        Self([0; N])
    }

    fn put<const M: usize>(&mut self, at: usize, bytes: [u8; M]) {
        self.0[at..at + M].copy_from_slice(&bytes);
    }

    fn set(&self, socket: BorrowedFd<'_>, name: i32) -> io::Result<()> {
        // SAFETY: the option value is live and its length is given as such.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_SCTP,
                name,
                self.0.as_ptr().cast(),
                N as libc::socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

const SCTP_RTOINFO: i32 = 0;
const SCTP_INITMSG: i32 = 2;
const SCTP_PEER_ADDR_PARAMS: i32 = 9;
const SCTP_MAXSEG: i32 = 13;
const SCTP_DELAYED_SACK: i32 = 16;
const SCTP_MAX_BURST: i32 = 20;
const SCTP_SOCKOPT_BINDX_ADD: i32 = 100;
const SCTP_DEFAULT_SNDINFO: i32 = 34;
const SCTP_DEFAULT_PRINFO: i32 = 114;
const SCTP_REMOTE_UDP_ENCAPS_PORT: i32 = 132;
