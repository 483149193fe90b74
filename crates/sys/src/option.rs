//! Socket options that `socket2` has no function for, and TCP's own report.

use std::io;
use std::mem::size_of;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// SO_RCVTIMEO and SO_SNDTIMEO, without end where none is set. socket(7).
pub fn timeouts(socket: BorrowedFd<'_>) -> (Duration, Duration) {
    use rustix::net::sockopt::{Timeout, socket_timeout};
    let patience = |which| {
        let timeout = socket_timeout(socket, which).ok().flatten();
        timeout.unwrap_or(Duration::MAX)
    };
    (patience(Timeout::Recv), patience(Timeout::Send))
}

/// SO_RCVTIMEO: how long a receive call waits, at least a microsecond. socket(7).
pub fn set_receive_timeout(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    let timeout = timeout.max(Duration::from_micros(1));
    Ok(set_socket_timeout(socket, Timeout::Recv, Some(timeout))?)
}

/// SO_DONTROUTE: send only to directly connected hosts. socket(7).
pub fn set_dont_route(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_DONTROUTE, 1)
}

/// SO_PRIORITY. socket(7); above 6 needs CAP_NET_ADMIN.
pub fn set_priority(socket: BorrowedFd<'_>, priority: i32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
}

/// SO_PRIORITY in force.
pub fn priority(socket: BorrowedFd<'_>) -> io::Result<i32> {
    int(socket, libc::SOL_SOCKET, libc::SO_PRIORITY)
}

/// SO_DEBUG; needs CAP_NET_ADMIN. socket(7).
pub fn set_debug(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_DEBUG, 1)
}

/// IP_TOS, and IPV6_TCLASS as well when `v6`: such a socket sends to a mapped address by IPv4. ip(7), ipv6(7).
pub fn set_type_of_service(socket: BorrowedFd<'_>, v6: bool, tos: u8) -> io::Result<()> {
    for family in [false, true].into_iter().take(1 + usize::from(v6)) {
        let (level, name) = tos_option(family);
        set_int(socket, level, name, tos.into())?;
    }
    Ok(())
}

/// IP_TOS or IPV6_TCLASS in force.
pub fn type_of_service(socket: BorrowedFd<'_>, v6: bool) -> io::Result<i32> {
    let (level, name) = tos_option(v6);
    int(socket, level, name)
}

fn tos_option(v6: bool) -> (i32, i32) {
    if v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
    } else {
        (libc::IPPROTO_IP, libc::IP_TOS)
    }
}

/// IP_MULTICAST_TTL, or IPV6_MULTICAST_HOPS when `v6`.
pub fn set_multicast_ttl(socket: BorrowedFd<'_>, v6: bool, ttl: u8) -> io::Result<()> {
    if v6 {
        set_int(
            socket,
            libc::IPPROTO_IPV6,
            libc::IPV6_MULTICAST_HOPS,
            ttl.into(),
        )
    } else {
        set_int(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, ttl.into())
    }
}

/// IP_RECVERR or IPV6_RECVERR: an overflow of the interface's queue is then ENOBUFS at the sender.
pub fn set_receive_errors(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    if v6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set_int(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    }
}

/// Makes a datagram socket, which must not be bound yet, the one that receives what comes from no peer of the
/// connected sockets that share its address: SO_ATTACH_REUSEPORT_CBPF, socket(7). Without it a socket that is to be
/// connected receives everything between bind(2) and connect(2).
///
/// Other sockets can bind to its address only while SO_REUSEPORT is set, which it is not afterwards.
pub fn set_first_of_address(socket: BorrowedFd<'_>) -> io::Result<()> {
    /// Returns 0: the index of the socket that was bound first.
    const RETURN_0: [libc::sock_filter; 1] = [libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    }];
    let program = libc::sock_fprog {
        len: RETURN_0.len() as u16,
        filter: RETURN_0.as_ptr().cast_mut(),
    };
    set_int(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    set(socket, libc::SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program)?;
    set_int(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 0)
}

/// SO_MAX_PACING_RATE, in bytes per second. socket(7); 64 bits since Linux 4.20.
pub fn set_max_pacing_rate(socket: BorrowedFd<'_>, bytes_per_second: u64) -> io::Result<()> {
    set(
        socket,
        libc::SOL_SOCKET,
        SO_MAX_PACING_RATE,
        &bytes_per_second,
    )
}

/// SO_TXTIME: the socket's datagrams have launch times, by this clock (`libc::CLOCK_*`), and the error queue tells of
/// those that were missed. Another clock than the monotonic one needs CAP_NET_ADMIN. tc-etf(8), tc-fq(8).
pub fn set_launch_clock(socket: BorrowedFd<'_>, clock: i32) -> io::Result<()> {
    let launch = libc::sock_txtime {
        clockid: clock,
        flags: libc::SOF_TXTIME_REPORT_ERRORS,
    };
    set(socket, libc::SOL_SOCKET, SO_TXTIME, &launch)
}

/// IP_MTU_DISCOVER, and IPV6_MTU_DISCOVER as well when `v6`: IP_PMTUDISC_DO. ip(7), ipv6(7).
pub fn set_do_not_fragment(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    use libc::{IP_MTU_DISCOVER, IPPROTO_IP, IPPROTO_IPV6, IPV6_MTU_DISCOVER};
    set_int(socket, IPPROTO_IP, IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
    if v6 {
        let only = libc::IPV6_PMTUDISC_DO;
        set_int(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, only)?;
    }
    Ok(())
}

/// Options of TCP whose value is a number: tcp(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// TCP_USER_TIMEOUT, in milliseconds.
    UserTimeoutMs,
    /// TCP_WINDOW_CLAMP, in bytes.
    WindowClampBytes,
    /// TCP_NOTSENT_LOWAT, in bytes.
    UnsentLowWaterBytes,
    /// TCP_QUICKACK.
    QuickAck,
}

impl TcpOption {
    /// What setting it is called in a message.
    pub fn call(self) -> &'static str {
        match self {
            Self::UserTimeoutMs => "set TCP_USER_TIMEOUT",
            Self::WindowClampBytes => "set TCP_WINDOW_CLAMP",
            Self::UnsentLowWaterBytes => "set TCP_NOTSENT_LOWAT",
            Self::QuickAck => "set TCP_QUICKACK",
        }
    }
}

/// Sets an option of TCP.
pub fn set_tcp(socket: BorrowedFd<'_>, option: TcpOption, value: u32) -> io::Result<()> {
    let name = match option {
        TcpOption::UserTimeoutMs => libc::TCP_USER_TIMEOUT,
        TcpOption::WindowClampBytes => libc::TCP_WINDOW_CLAMP,
        TcpOption::UnsentLowWaterBytes => libc::TCP_NOTSENT_LOWAT,
        TcpOption::QuickAck => libc::TCP_QUICKACK,
    };
    set_int(socket, libc::IPPROTO_TCP, name, value as i32)
}

/// UDP_SEGMENT: what is sent at once is cut into datagrams of so many bytes; 0 for one datagram. udp(7), since
/// Linux 4.18.
pub fn set_udp_segment(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into())
}

/// UDP_GRO: datagrams of one size may be received at once. udp(7), since Linux 5.0.
pub fn set_udp_receive_offload(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_GRO, on.into())
}

/// IP_BIND_ADDRESS_NO_PORT: a socket that is bound to an address and any port gets its port by connect(2), which
/// knows which are free for that peer. ip(7), since Linux 4.2; of TCP.
pub fn set_late_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// TCP_DEFER_ACCEPT: a connection is accepted when its first data came. tcp(7).
pub fn set_defer_accept(socket: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    set_int(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_DEFER_ACCEPT,
        seconds as i32,
    )
}

/// TCP_FASTOPEN on a listener, with room for this many unfinished connections. tcp(7).
pub fn set_fast_open(socket: BorrowedFd<'_>, queue: u32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, queue as i32)
}

/// TCP_FASTOPEN_CONNECT: connect(2) returns at once, and the first data leaves with the first
/// segment. tcp(7), since Linux 4.11.
pub fn set_fast_open_connect(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)
}

/// Bytes of payload in a full segment: `tcpi_snd_mss` of TCP_INFO, tcp(7). TCP_MAXSEG is the same until
/// the connection has ended, and then again what was asked for.
pub fn max_segment(socket: BorrowedFd<'_>) -> io::Result<u32> {
    tcp_info(socket).map(|info| info.segment_bytes)
}

/// SO_KEEPALIVE with a patience of half a minute: a peer that vanishes without a word (a power cut, a
/// pulled cable) is then a hang-up like any other, whether or not something is on its way there. tcp(7);
/// the kernel's own patience is two hours for silence, and a quarter of one for what is not acknowledged.
pub fn set_vanishing_peer_notice(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 30_000)?;
    set_keep_alive(socket, [15, 5, 3])
}

/// SO_KEEPALIVE after so many seconds of silence, then each so many seconds, so often. tcp(7); a time of 0 is the
/// system's.
pub fn set_keep_alive(socket: BorrowedFd<'_>, [idle, interval, count]: [u32; 3]) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    for (name, value) in [
        (libc::TCP_KEEPIDLE, idle),
        (libc::TCP_KEEPINTVL, interval),
        (libc::TCP_KEEPCNT, count),
    ] {
        if value > 0 {
            set_int(socket, libc::IPPROTO_TCP, name, value as i32)?;
        }
    }
    Ok(())
}

/// IPV6_FLOWLABEL_MGR, IPV6_FLOWINFO_SEND: the label of packets to `to`, which connect(2) must name too. Of
/// linux/in6.h; other sockets may have the same one.
pub fn set_flow_label(socket: BorrowedFd<'_>, to: Ipv6Addr, label: u32) -> io::Result<()> {
    /// IPV6_FL_S_ANY.
    const ANY: u8 = 255;
    /// IPV6_FL_F_CREATE.
    const CREATE: u16 = 1;
    /// Of linux/in6.h; libc has them for some systems only.
    const IPV6_FLOWLABEL_MGR: i32 = 32;
    const IPV6_FLOWINFO_SEND: i32 = 33;
    // `struct in6_flowlabel_req`: what is left out is 0, of which the action is IPV6_FL_A_GET.
    let mut request = [0_u8; 32];
    request[..16].copy_from_slice(&to.octets());
    request[16..20].copy_from_slice(&label.to_be_bytes());
    request[21] = ANY;
    request[22..24].copy_from_slice(&CREATE.to_ne_bytes());
    set(socket, libc::IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request)?;
    set_int(socket, libc::IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1)
}

/// Segments that TCP has sent again on this connection: `tcpi_total_retrans` of TCP_INFO, tcp(7).
pub fn retransmits(socket: BorrowedFd<'_>) -> io::Result<u32> {
    tcp_info(socket).map(|info| info.total_retransmits)
}

/// What TCP says of a connection: part of `struct tcp_info`, tcp(7). Times are microseconds, windows
/// and counts are segments unless they are named bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// The retransmission timeout.
    pub retransmit_timeout_us: u32,
    /// The time that a delayed acknowledgement may wait.
    pub ack_timeout_us: u32,
    /// Payload of a full segment on its way out.
    pub segment_bytes: u32,
    /// The path's MTU.
    pub path_mtu_bytes: u32,
    /// The most that the receive window may be at present.
    pub receive_threshold_bytes: u32,
    /// The smoothed round-trip time, RFC 6298.
    pub rtt_us: u32,
    /// Its mean deviation.
    pub rtt_variation_us: u32,
    /// The slow start threshold.
    pub send_threshold: u32,
    /// The congestion window.
    pub congestion_window: u32,
    /// How far segments may be out of order before one counts as lost.
    pub reordering: u32,
    /// Segments sent again since the connection was opened.
    pub total_retransmits: u32,
    /// The window that the peer has advertised; `None` before Linux 5.4.
    pub send_window_bytes: Option<u32>,
    /// Whether the data that was sent with the first segment was acknowledged with it (RFC 7413).
    pub data_in_syn: bool,
}

/// TCP_INFO of a connection.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut raw = [0_u8; 256];
    let written = bytes(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw)?;
    TcpInfo::parse(written).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Whether a Multipath TCP socket still is one, and has not fallen back to TCP: MPTCP_INFO, RFC 8684,
/// section 3.7.
pub fn is_multipath(socket: BorrowedFd<'_>) -> io::Result<bool> {
    const SOL_MPTCP: libc::c_int = 284;
    const MPTCP_INFO: libc::c_int = 1;
    /// `mptcpi_flags` of `struct mptcp_info`, linux/mptcp.h.
    const FLAGS: std::ops::Range<usize> = 8..12;
    const FALLBACK: u32 = 1;
    let mut raw = [0_u8; 128];
    match bytes(socket, SOL_MPTCP, MPTCP_INFO, &mut raw) {
        Ok(written) => {
            let flags = written.get(FLAGS).and_then(|word| word.try_into().ok());
            let flags = flags.map(u32::from_ne_bytes);
            flags
                .map(|flags| flags & FALLBACK == 0)
                .ok_or_else(|| io::ErrorKind::Unsupported.into())
        }
        // What has fallen back, or was accepted as plain TCP, has none.
        Err(error)
            if [libc::EOPNOTSUPP, libc::ENOPROTOOPT]
                .map(Some)
                .contains(&error.raw_os_error()) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// SCTP_NODELAY: small messages do not wait for more. RFC 6458, section 8.1.5.
pub fn set_sctp_no_delay(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_SCTP, SCTP_NODELAY, 1)
}

/// SCTP_NODELAY in force.
pub fn sctp_no_delay(socket: BorrowedFd<'_>) -> io::Result<bool> {
    int(socket, libc::IPPROTO_SCTP, SCTP_NODELAY).map(|on| on != 0)
}

/// linux/sctp.h.
const SCTP_NODELAY: libc::c_int = 3;

/// The bytes of an option's value that the kernel wrote.
fn bytes<'a>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    buffer: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let mut length = buffer.len() as libc::socklen_t;
    // SAFETY: the buffer is as long as `length` says, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(&buffer[..(length as usize).min(buffer.len())])
    } else {
        Err(io::Error::last_os_error())
    }
}

impl TcpInfo {
    /// `struct tcp_info` of linux/tcp.h is part of the kernel's interface and only ever grows at its
    /// end.
    fn parse(raw: &[u8]) -> Option<Self> {
        /// TCPI_OPT_SYN_DATA of `tcpi_options`.
        const SYN_DATA: u8 = 32;
        let word = |at: usize| {
            let word = raw.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(word))
        };
        Some(Self {
            retransmit_timeout_us: word(8)?,
            ack_timeout_us: word(12)?,
            segment_bytes: word(16)?,
            path_mtu_bytes: word(60)?,
            receive_threshold_bytes: word(64)?,
            rtt_us: word(68)?,
            rtt_variation_us: word(72)?,
            send_threshold: word(76)?,
            congestion_window: word(80)?,
            reordering: word(88)?,
            total_retransmits: word(100)?,
            send_window_bytes: word(228),
            data_in_syn: raw[5] & SYN_DATA != 0,
        })
    }
}

pub(crate) fn set_int(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    set(socket, level, name, &value)
}

/// Sets an option to a value that is laid out as the kernel has it.
pub(crate) fn set<T: Copy>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the option value is live, its length is given as such, and the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn int(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into a live int.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// SCTP_EVENTS: a socket's messages are then told between its data when an association comes up or
/// goes, RFC 6458, section 6.2.1.
pub fn set_association_events(socket: BorrowedFd<'_>) -> io::Result<()> {
    /// The first two members of `struct sctp_event_subscribe`: what is told with each message, not;
    /// associations, yes. What is left out is off.
    const SUBSCRIBED: [u8; 2] = [0, 1];
    set(socket, libc::IPPROTO_SCTP, SCTP_EVENTS, &SUBSCRIBED)
}

/// SCTP_SOCKOPT_PEELOFF: an association of many gets a socket of its own, with what it has sent that
/// was not received yet. RFC 6458, section 9.2.
pub fn peel_off(socket: BorrowedFd<'_>, association: i32) -> io::Result<OwnedFd> {
    // `sctp_peeloff_arg_t` of linux/sctp.h: the association, and its new socket.
    let mut argument: [libc::c_int; 2] = [association, -1];
    let mut length = size_of_val(&argument) as libc::socklen_t;
    // SAFETY: the argument is as long as `length` says, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_SCTP,
            SCTP_SOCKOPT_PEELOFF,
            argument.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has opened it for this call alone.
    Ok(unsafe { OwnedFd::from_raw_fd(argument[1]) })
}

/// LLC_OPT_TX_WIN: frames that may be on their way, of linux/llc.h.
pub fn set_llc_send_window(socket: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set_int(socket, SOL_LLC, LLC_OPT_TX_WIN, frames as i32)
}

/// LLC_OPT_TX_WIN in force.
pub fn llc_send_window(socket: BorrowedFd<'_>) -> io::Result<u32> {
    int(socket, SOL_LLC, LLC_OPT_TX_WIN).map(|frames| frames as u32)
}

/// LLC_OPT_RX_WIN: frames that the peer may have on their way.
pub fn set_llc_receive_window(socket: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set_int(socket, SOL_LLC, LLC_OPT_RX_WIN, frames as i32)
}

/// LLC_OPT_RX_WIN in force.
pub fn llc_receive_window(socket: BorrowedFd<'_>) -> io::Result<u32> {
    int(socket, SOL_LLC, LLC_OPT_RX_WIN).map(|frames| frames as u32)
}

/// SO_RCVBUFFORCE: as SO_RCVBUF, beyond the limit; needs CAP_NET_ADMIN. socket(7).
pub fn force_receive_buffer(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes as i32)
}

/// SIOCOUTQ: what TCP has not been acknowledged yet, sent or not, in bytes; the end of the stream is
/// one more. tcp(7), which leaves out what was sent.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut count: libc::c_int = 0;
    // SAFETY: the kernel writes one int, into a live one.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if result == 0 {
        Ok(count.unsigned_abs())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Bytes of memory that hold what is still to be sent, or acknowledged: SK_MEMINFO_WMEM_ALLOC.
pub fn queued_to_send(socket: BorrowedFd<'_>) -> io::Result<u32> {
    memory_info(socket).map(|words| words[2])
}

/// Packets that came for this socket and that the kernel dropped, above all for want of room in the
/// receive buffer: SK_MEMINFO_DROPS, since Linux 4.12.
pub fn dropped(socket: BorrowedFd<'_>) -> io::Result<u32> {
    memory_info(socket).map(|words| words[8])
}

/// SO_MEMINFO: words whose indices are those of sock_diag(7). What a kernel does not have is 0.
fn memory_info(socket: BorrowedFd<'_>) -> io::Result<[u32; 16]> {
    let mut words = [0_u32; 16];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the buffer is as long as `length` says, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(words)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Of asm/socket.h; libc has it for some systems only. SPARC and PA-RISC have numbers of their own.
const SO_ATTACH_REUSEPORT_CBPF: i32 = if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
    0x35
} else {
    51
};

/// Of asm/socket.h, likewise.
const SO_MAX_PACING_RATE: i32 = if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
    0x31
} else {
    47
};

/// Of asm/socket.h, likewise; also the kind of control message that has a launch time.
pub(crate) const SO_TXTIME: i32 = if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
    0x3f
} else {
    61
};

/// Of linux/sctp.h.
const SCTP_EVENTS: i32 = 11;
const SCTP_SOCKOPT_PEELOFF: i32 = 102;

/// Of linux/socket.h and linux/llc.h.
const SOL_LLC: i32 = 268;
const LLC_OPT_TX_WIN: i32 = 7;
const LLC_OPT_RX_WIN: i32 = 8;
