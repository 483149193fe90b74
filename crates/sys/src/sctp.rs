//! SCTP socket options: RFC 6458, linux/sctp.h. They are set before a socket connects or listens
//! and apply to all its later associations.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use model::{ReliabilityPolicy, SendInfo};

use crate::Address;

/// SCTP_INITMSG: number of outgoing streams to request and maximum number of incoming streams; 0
/// keeps the system's default. Section 8.1.3.
pub fn set_streams(socket: BorrowedFd<'_>, outgoing: u16, incoming: u16) -> io::Result<()> {
    // `struct sctp_initmsg`: these two fields; attempts and their timeout stay at the default.
    let mut value = OptionValue::<8>::new();
    value.write(0, outgoing.to_ne_bytes());
    value.write(2, incoming.to_ne_bytes());
    value.set(socket, SCTP_INITMSG)
}

/// SCTP_RTOINFO: initial, maximum and minimum retransmission timeout in milliseconds; 0 keeps the
/// system's default. Section 8.1.1.
pub fn set_retransmission_times(
    socket: BorrowedFd<'_>,
    initial_ms: u32,
    max_ms: u32,
    min_ms: u32,
) -> io::Result<()> {
    let mut value = OptionValue::<16>::new();
    value.write(4, initial_ms.to_ne_bytes());
    value.write(8, max_ms.to_ne_bytes());
    value.write(12, min_ms.to_ne_bytes());
    value.set(socket, SCTP_RTOINFO)
}

/// SCTP_DELAYED_SACK: maximum delay of an acknowledgement in milliseconds and in packets; 0 keeps
/// the system's default. Section 8.1.19.
pub fn set_delayed_acknowledgements(
    socket: BorrowedFd<'_>,
    delay_ms: u32,
    packets: u32,
) -> io::Result<()> {
    let mut value = OptionValue::<12>::new();
    value.write(4, delay_ms.to_ne_bytes());
    value.write(8, packets.to_ne_bytes());
    value.set(socket, SCTP_DELAYED_SACK)
}

/// SCTP_MAX_BURST: maximum number of packets in a burst. Section 8.1.24.
pub fn set_max_burst(socket: BorrowedFd<'_>, packets: u32) -> io::Result<()> {
    set_for_associations(socket, SCTP_MAX_BURST, packets)
}

/// SCTP_MAXSEG: maximum size of a message fragment, in bytes. Section 8.1.16.
pub fn set_max_fragment(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_for_associations(socket, SCTP_MAXSEG, bytes)
}

/// SCTP_PEER_ADDR_PARAMS: time between heartbeats in milliseconds, and the path MTU in bytes, which
/// disables its discovery. 0 keeps the system's default. Section 8.1.12.
pub fn set_path_parameters(
    socket: BorrowedFd<'_>,
    heartbeat_ms: u32,
    mtu_bytes: u32,
) -> io::Result<()> {
    const SPP_HB_ENABLE: u32 = 1;
    const SPP_PMTUD_DISABLE: u32 = 1 << 4;
    let mut flags = 0;
    if heartbeat_ms != 0 {
        flags |= SPP_HB_ENABLE;
    }
    if mtu_bytes != 0 {
        flags |= SPP_PMTUD_DISABLE;
    }
    // `struct sctp_paddrparams`, packed: association and address, then these fields. Fields that
    // later kernels added at the end may be missing.
    let mut value = OptionValue::<152>::new();
    value.write(132, heartbeat_ms.to_ne_bytes());
    value.write(138, mtu_bytes.to_ne_bytes());
    value.write(146, flags.to_ne_bytes());
    value.set(socket, SCTP_PEER_ADDR_PARAMS)
}

/// SCTP_REMOTE_UDP_ENCAPS_PORT: the peer's UDP port for SCTP packets in UDP datagrams. It has an
/// effect only if [`encapsulation_port`] is not 0. RFC 6951, section 6.1, since Linux 5.11.
pub fn set_encapsulation_port(socket: BorrowedFd<'_>, port: u16) -> io::Result<()> {
    /// Alignment of the address: that of a pointer.
    const WORD: usize = size_of::<usize>();
    /// Offset of the port in `struct sctp_udpencaps`, after association and address.
    const PORT: usize = WORD + size_of::<libc::sockaddr_storage>();
    let mut value = OptionValue::<{ PORT + WORD }>::new();
    value.write(PORT, port.to_be_bytes());
    value.set(socket, SCTP_REMOTE_UDP_ENCAPS_PORT)
}

/// Returns the local UDP port for SCTP in UDP datagrams in this network namespace; 0 if disabled:
/// net.sctp.udp_port, ip-sysctl.
pub fn encapsulation_port() -> io::Result<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/sctp/udp_port")?;
    text.trim()
        .parse()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Returns the kernel's number of a policy.
pub(crate) fn policy_number(policy: ReliabilityPolicy) -> u16 {
    match policy {
        ReliabilityPolicy::Lifetime => 0x10,
        ReliabilityPolicy::Retransmissions => 0x20,
        ReliabilityPolicy::Priority => 0x30,
    }
}

/// Sets the options of messages that are sent without options: SCTP_DEFAULT_SNDINFO,
/// SCTP_DEFAULT_PRINFO. Sections 8.1.31 and 8.1.32; RFC 7496, section 4.4.
pub fn set_default_send_info(socket: BorrowedFd<'_>, info: SendInfo) -> io::Result<()> {
    let mut value = OptionValue::<16>::new();
    value.write(0, info.stream.to_ne_bytes());
    value.write(2, send_flags(info).to_ne_bytes());
    value.set(socket, SCTP_DEFAULT_SNDINFO)?;
    let Some(reliability) = info.reliability else {
        return Ok(());
    };
    let mut value = OptionValue::<12>::new();
    value.write(4, reliability.value.to_ne_bytes());
    value.write(8, policy_number(reliability.policy).to_ne_bytes());
    value.set(socket, SCTP_DEFAULT_PRINFO)
}

/// Returns `snd_flags` of `struct sctp_sndinfo`.
pub(crate) fn send_flags(info: SendInfo) -> u16 {
    const SCTP_UNORDERED: u16 = 1;
    if info.is_unordered { SCTP_UNORDERED } else { 0 }
}

/// SCTP_SOCKOPT_BINDX_ADD: adds a local address with the port of the first one. sctp_bindx(3).
pub fn bind_additional(socket: BorrowedFd<'_>, address: &Address) -> io::Result<()> {
    let address = address.to_kernel()?;
    // SAFETY: the address is live and has this length.
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

/// Sets an option with a `struct sctp_assoc_value` for future associations.
fn set_for_associations(socket: BorrowedFd<'_>, name: i32, assoc_value: u32) -> io::Result<()> {
    let mut value = OptionValue::<8>::new();
    value.write(4, assoc_value.to_ne_bytes());
    value.set(socket, name)
}

/// Value of an option. Zero bytes stand for future associations and any address.
struct OptionValue<const N: usize>([u8; N]);

impl<const N: usize> OptionValue<N> {
    fn new() -> Self {
        Self([0; N])
    }

    fn write<const M: usize>(&mut self, offset: usize, bytes: [u8; M]) {
        self.0[offset..offset + M].copy_from_slice(&bytes);
    }

    fn set(&self, socket: BorrowedFd<'_>, name: i32) -> io::Result<()> {
        // SAFETY: the option value is live and has this length.
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
