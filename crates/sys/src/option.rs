//! Socket options that `socket2` lacks, and TCP_INFO.

use std::io;
use std::mem::size_of;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Returns SO_RCVTIMEO and SO_SNDTIMEO; `Duration::MAX` if unset. socket(7).
pub fn timeouts(socket: BorrowedFd<'_>) -> (Duration, Duration) {
    use rustix::net::sockopt::{Timeout, socket_timeout};
    let timeout_of = |which| {
        let timeout = socket_timeout(socket, which).ok().flatten();
        timeout.unwrap_or(Duration::MAX)
    };
    (timeout_of(Timeout::Recv), timeout_of(Timeout::Send))
}

/// SO_RCVTIMEO: longest wait of a receive call, at least 1 µs. socket(7).
pub fn set_receive_timeout(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    let timeout = timeout.max(Duration::from_micros(1));
    Ok(set_socket_timeout(socket, Timeout::Recv, Some(timeout))?)
}

/// SO_DONTROUTE: send only to directly connected hosts. socket(7).
pub fn set_dont_route(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_DONTROUTE, 1)
}

/// SO_PRIORITY. socket(7); values above 6 need CAP_NET_ADMIN.
pub fn set_priority(socket: BorrowedFd<'_>, priority: i32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
}

/// Returns the SO_PRIORITY in force.
pub fn priority(socket: BorrowedFd<'_>) -> io::Result<i32> {
    get_int(socket, libc::SOL_SOCKET, libc::SO_PRIORITY)
}

/// SO_DEBUG; needs CAP_NET_ADMIN. socket(7).
pub fn set_debug(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_DEBUG, 1)
}

/// IP_TOS, and also IPV6_TCLASS if `v6`, because an IPv6 socket uses IPv4 for mapped addresses.
/// ip(7), ipv6(7).
pub fn set_type_of_service(socket: BorrowedFd<'_>, v6: bool, tos: u8) -> io::Result<()> {
    for is_ipv6 in [false, true].into_iter().take(1 + usize::from(v6)) {
        let (level, name) = tos_option(is_ipv6);
        set_int(socket, level, name, tos.into())?;
    }
    Ok(())
}

/// Returns the IP_TOS or IPV6_TCLASS in force.
pub fn type_of_service(socket: BorrowedFd<'_>, v6: bool) -> io::Result<i32> {
    let (level, name) = tos_option(v6);
    get_int(socket, level, name)
}

fn tos_option(v6: bool) -> (i32, i32) {
    if v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
    } else {
        (libc::IPPROTO_IP, libc::IP_TOS)
    }
}

/// IP_MULTICAST_TTL, or IPV6_MULTICAST_HOPS if `v6`.
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

/// IP_RECVERR or IPV6_RECVERR: a send call then fails with ENOBUFS if the interface's queue
/// overflows.
pub fn set_receive_errors(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    if v6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set_int(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    }
}

/// Makes an unbound datagram socket the receiver of all datagrams that no connected socket of the
/// same address receives: SO_ATTACH_REUSEPORT_CBPF, socket(7). Without it, a new socket receives
/// every datagram to this address between its bind(2) and its connect(2).
///
/// Other sockets can bind to its address only while SO_REUSEPORT is set. This call leaves it unset.
pub fn set_default_receiver(socket: BorrowedFd<'_>) -> io::Result<()> {
    /// Returns 0, the index of the first bound socket.
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

/// SO_TXTIME: the socket's datagrams have launch times of this clock (`libc::CLOCK_*`). The error
/// queue reports missed launch times. Clocks other than the monotonic one need CAP_NET_ADMIN.
/// tc-etf(8), tc-fq(8).
pub fn set_launch_clock(socket: BorrowedFd<'_>, clock: i32) -> io::Result<()> {
    let launch = libc::sock_txtime {
        clockid: clock,
        flags: libc::SOF_TXTIME_REPORT_ERRORS,
    };
    set(socket, libc::SOL_SOCKET, SO_TXTIME, &launch)
}

/// IP_MTU_DISCOVER: IP_PMTUDISC_DO. It has no effect on IPv6 packets. ip(7).
pub fn set_do_not_fragment(socket: BorrowedFd<'_>) -> io::Result<()> {
    use libc::{IP_MTU_DISCOVER, IPPROTO_IP};
    set_int(socket, IPPROTO_IP, IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
}

/// TCP options with a numeric value: tcp(7).
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
    /// TCP_TX_DELAY, in microseconds.
    TxDelayUs,
}

impl TcpOption {
    /// Returns the name of the operation for messages.
    pub fn operation(self) -> &'static str {
        match self {
            Self::UserTimeoutMs => "set TCP_USER_TIMEOUT",
            Self::WindowClampBytes => "set TCP_WINDOW_CLAMP",
            Self::UnsentLowWaterBytes => "set TCP_NOTSENT_LOWAT",
            Self::QuickAck => "set TCP_QUICKACK",
            Self::TxDelayUs => "set TCP_TX_DELAY",
        }
    }
}

/// From linux/tcp.h.
const TCP_TX_DELAY: libc::c_int = 37;

/// Sets a TCP option.
pub fn set_tcp(socket: BorrowedFd<'_>, option: TcpOption, value: u32) -> io::Result<()> {
    let name = match option {
        TcpOption::UserTimeoutMs => libc::TCP_USER_TIMEOUT,
        TcpOption::WindowClampBytes => libc::TCP_WINDOW_CLAMP,
        TcpOption::UnsentLowWaterBytes => libc::TCP_NOTSENT_LOWAT,
        TcpOption::QuickAck => libc::TCP_QUICKACK,
        TcpOption::TxDelayUs => TCP_TX_DELAY,
    };
    set_int(socket, libc::IPPROTO_TCP, name, value as i32)
}

/// UDP_SEGMENT: the kernel splits each send into datagrams of this size; 0 disables the split.
/// udp(7), since Linux 4.18.
pub fn set_udp_segment(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into())
}

/// UDP_GRO: one call may receive several datagrams of the same size. udp(7), since Linux 5.0.
pub fn set_udp_receive_offload(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_GRO, on.into())
}

/// IP_BIND_ADDRESS_NO_PORT: connect(2), not bind(2), chooses the local port, so that it can reuse a
/// port that is free for this peer. TCP only. ip(7), since Linux 4.2.
pub fn set_bind_address_no_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// TCP_DEFER_ACCEPT: accept(2) returns a connection only after its first data has arrived. tcp(7).
pub fn set_defer_accept(socket: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    set_int(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_DEFER_ACCEPT,
        seconds as i32,
    )
}

/// TCP_FASTOPEN on a listener; `queue` limits the unfinished connections. tcp(7).
pub fn set_fast_open(socket: BorrowedFd<'_>, queue: u32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, queue as i32)
}

/// TCP_FASTOPEN_CONNECT: connect(2) returns immediately, and the first segment carries the first
/// data. tcp(7), since Linux 4.11.
pub fn set_fast_open_connect(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)
}

/// Returns the payload of a full segment in bytes: `tcpi_snd_mss` of TCP_INFO, tcp(7). TCP_MAXSEG
/// has the same value until the connection ends; then it is the requested value again.
pub fn max_segment_bytes(socket: BorrowedFd<'_>) -> io::Result<u32> {
    tcp_info(socket).map(|info| info.segment_bytes)
}

/// Sets SO_KEEPALIVE and TCP_USER_TIMEOUT to detect a dead peer (power cut, pulled cable) after
/// about 30 s, with or without unacknowledged data. tcp(7). The kernel's defaults are 2 h for a
/// silent peer and about 15 min for unacknowledged data.
pub fn set_dead_peer_detection(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 30_000)?;
    set_keep_alive(socket, [15, 5, 3])
}

/// SO_KEEPALIVE: first probe after `idle` seconds, then up to `count` probes, `interval` seconds
/// apart. A value of 0 keeps the system's default. tcp(7).
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

/// IPV6_FLOWLABEL_MGR, IPV6_FLOWINFO_SEND: sets the flow label of packets to this address.
/// connect(2) must pass the label too. Other sockets may use the same label. linux/in6.h.
pub fn set_flow_label(socket: BorrowedFd<'_>, to: Ipv6Addr, label: u32) -> io::Result<()> {
    /// IPV6_FL_S_ANY.
    const ANY: u8 = 255;
    /// IPV6_FL_F_CREATE.
    const CREATE: u16 = 1;
    /// From linux/in6.h; libc defines them for some systems only.
    const IPV6_FLOWLABEL_MGR: i32 = 32;
    const IPV6_FLOWINFO_SEND: i32 = 33;
    // `struct in6_flowlabel_req`: all other fields are 0, including the action, IPV6_FL_A_GET.
    let mut request = [0_u8; 32];
    request[..16].copy_from_slice(&to.octets());
    request[16..20].copy_from_slice(&label.to_be_bytes());
    request[21] = ANY;
    request[22..24].copy_from_slice(&CREATE.to_ne_bytes());
    set(socket, libc::IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request)?;
    set_int(socket, libc::IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1)
}

/// Returns the retransmitted segments of this connection: `tcpi_total_retrans` of TCP_INFO, tcp(7).
pub fn retransmits(socket: BorrowedFd<'_>) -> io::Result<u32> {
    tcp_info(socket).map(|info| info.total_retransmits)
}

/// TCP's report on a connection: part of `struct tcp_info`, tcp(7). Times are in microseconds.
/// Windows and counts are in segments unless the name says bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// The retransmission timeout.
    pub retransmit_timeout_us: u32,
    /// Timeout of delayed acknowledgements.
    pub ack_timeout_us: u32,
    /// Payload of a full outgoing segment.
    pub segment_bytes: u32,
    /// Segments sent and not yet acknowledged.
    pub unacknowledged: u32,
    /// The path's MTU.
    pub path_mtu_bytes: u32,
    /// Current limit of the receive window.
    pub receive_threshold_bytes: u32,
    /// The smoothed round-trip time, RFC 6298.
    pub rtt_us: u32,
    /// Mean deviation of the round-trip time.
    pub rtt_variation_us: u32,
    /// The slow start threshold.
    pub send_threshold: u32,
    /// The congestion window.
    pub congestion_window: u32,
    /// Reordering distance beyond which TCP treats a segment as lost.
    pub reordering: u32,
    /// Retransmitted segments since the connection was opened.
    pub total_retransmits: u32,
    /// Bytes that the peer acknowledged since the connection was opened; `None` before Linux 4.1.
    pub acknowledged_bytes: Option<u64>,
    /// The window that the peer advertised; `None` before Linux 5.4.
    pub send_window_bytes: Option<u32>,
    /// Reordering events since the connection was opened; `None` before Linux 4.19.
    pub reorder_events: Option<u32>,
    /// Whether the peer acknowledged data in the SYN (RFC 7413).
    pub is_syn_data_acknowledged: bool,
}

/// Reads TCP_INFO of a connection.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut raw = [0_u8; 256];
    let written = get_bytes(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw)?;
    TcpInfo::parse(written).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Returns whether a Multipath TCP socket still uses Multipath TCP, that is, has not fallen back to
/// TCP: MPTCP_INFO, RFC 8684, section 3.7.
pub fn is_multipath(socket: BorrowedFd<'_>) -> io::Result<bool> {
    const SOL_MPTCP: libc::c_int = 284;
    const MPTCP_INFO: libc::c_int = 1;
    /// `mptcpi_flags` of `struct mptcp_info`, linux/mptcp.h.
    const FLAGS: std::ops::Range<usize> = 8..12;
    const FALLBACK: u32 = 1;
    let mut raw = [0_u8; 128];
    match get_bytes(socket, SOL_MPTCP, MPTCP_INFO, &mut raw) {
        Ok(written) => {
            let flags = written.get(FLAGS).and_then(|word| word.try_into().ok());
            let flags = flags.map(u32::from_ne_bytes);
            flags
                .map(|flags| flags & FALLBACK == 0)
                .ok_or_else(|| io::ErrorKind::Unsupported.into())
        }
        // The option is unavailable after a fallback, or if the connection was accepted as plain
        // TCP.
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

/// Returns the SCTP_NODELAY in force.
pub fn sctp_no_delay(socket: BorrowedFd<'_>) -> io::Result<bool> {
    get_int(socket, libc::IPPROTO_SCTP, SCTP_NODELAY).map(|on| on != 0)
}

/// From linux/sctp.h.
const SCTP_NODELAY: libc::c_int = 3;

/// Reads an option and returns the bytes that the kernel wrote.
fn get_bytes<'a>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    buffer: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let mut length = buffer.len() as libc::socklen_t;
    // SAFETY: the buffer has this length, and the kernel writes no more than that.
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
    /// Parses `struct tcp_info` of linux/tcp.h. It is part of the kernel's interface and only grows
    /// at its end.
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
            unacknowledged: word(24)?,
            path_mtu_bytes: word(60)?,
            receive_threshold_bytes: word(64)?,
            rtt_us: word(68)?,
            rtt_variation_us: word(72)?,
            send_threshold: word(76)?,
            congestion_window: word(80)?,
            reordering: word(88)?,
            total_retransmits: word(100)?,
            acknowledged_bytes: raw
                .get(120..128)
                .and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?))),
            send_window_bytes: word(228),
            reorder_events: word(220),
            is_syn_data_acknowledged: raw[5] & SYN_DATA != 0,
        })
    }
}

pub(crate) fn set_int(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    set(socket, level, name, &value)
}

/// Sets an option; the value must have the kernel's layout.
pub(crate) fn set<T: Copy>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the option value is live and has this length; the kernel only reads it.
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

fn get_int(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
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

/// SCTP_EVENTS: the socket receives a notification between its data when an association starts or
/// ends. RFC 6458, section 6.2.1.
pub fn set_association_events(socket: BorrowedFd<'_>) -> io::Result<()> {
    /// The first two members of `struct sctp_event_subscribe`: data events off, association events
    /// on. The missing members are off.
    const SUBSCRIBED: [u8; 2] = [0, 1];
    set(socket, libc::IPPROTO_SCTP, SCTP_EVENTS, &SUBSCRIBED)
}

/// SCTP_SOCKOPT_PEELOFF: moves one association of a socket to a new socket, with its unread data.
/// RFC 6458, section 9.2.
pub fn peel_off(socket: BorrowedFd<'_>, association: i32) -> io::Result<OwnedFd> {
    // `sctp_peeloff_arg_t` of linux/sctp.h: the association and its new socket.
    let mut argument: [libc::c_int; 2] = [association, -1];
    let mut length = size_of_val(&argument) as libc::socklen_t;
    // SAFETY: the argument has this length, and the kernel writes no more than that.
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
    // SAFETY: this call has just opened the descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(argument[1]) })
}

/// LLC_OPT_TX_WIN: limit of unacknowledged outgoing frames, linux/llc.h.
pub fn set_llc_send_window(socket: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set_int(socket, SOL_LLC, LLC_OPT_TX_WIN, frames as i32)
}

/// Returns the LLC_OPT_TX_WIN in force.
pub fn llc_send_window(socket: BorrowedFd<'_>) -> io::Result<u32> {
    get_int(socket, SOL_LLC, LLC_OPT_TX_WIN).map(|frames| frames as u32)
}

/// LLC_OPT_RX_WIN: limit of unacknowledged incoming frames.
pub fn set_llc_receive_window(socket: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set_int(socket, SOL_LLC, LLC_OPT_RX_WIN, frames as i32)
}

/// Returns the LLC_OPT_RX_WIN in force.
pub fn llc_receive_window(socket: BorrowedFd<'_>) -> io::Result<u32> {
    get_int(socket, SOL_LLC, LLC_OPT_RX_WIN).map(|frames| frames as u32)
}

/// SO_RCVBUFFORCE: sets the receive buffer without the limit of SO_RCVBUF; needs CAP_NET_ADMIN.
/// socket(7).
pub fn force_receive_buffer(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes as i32)
}

/// Enlarges the receive buffer to this size; without CAP_NET_ADMIN, as far as net.core.rmem_max
/// allows. The default of 208 KiB holds some hundred small datagrams, too few if their reader waits
/// for a CPU.
pub fn enlarge_receive_buffer(socket: BorrowedFd<'_>, bytes: u32) {
    if force_receive_buffer(socket, bytes).is_err() {
        let _ = set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes as i32);
    }
}

/// SIOCOUTQ: bytes that the peer has not acknowledged, sent or unsent. The end of the stream counts
/// as one byte. tcp(7) mentions unsent data only.
pub fn unacknowledged_bytes(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut count: libc::c_int = 0;
    // SAFETY: the kernel writes one int into a live int.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if result == 0 {
        Ok(count.unsigned_abs())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the memory of unsent and unacknowledged data, in bytes: SK_MEMINFO_WMEM_ALLOC.
pub fn send_memory_bytes(socket: BorrowedFd<'_>) -> io::Result<u32> {
    memory_info(socket).map(|words| words[2])
}

/// Returns the number of packets for this socket that the kernel dropped, mostly because the
/// receive buffer was full: SK_MEMINFO_DROPS, since Linux 4.12.
pub fn dropped_packets(socket: BorrowedFd<'_>) -> io::Result<u32> {
    memory_info(socket).map(|words| words[8])
}

/// SO_MEMINFO: words indexed as in sock_diag(7). Words that the kernel lacks are 0.
fn memory_info(socket: BorrowedFd<'_>) -> io::Result<[u32; 16]> {
    let mut words = [0_u32; 16];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the buffer has this length, and the kernel writes no more than that.
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

/// From asm/socket.h; libc defines it for some systems only. SPARC and PA-RISC use other numbers.
const SO_ATTACH_REUSEPORT_CBPF: i32 = if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
    0x35
} else {
    51
};

/// From asm/socket.h, as above.
const SO_MAX_PACING_RATE: i32 = if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
    0x31
} else {
    47
};

/// From asm/socket.h, as above; also the type of the control message with a launch time.
pub(crate) const SO_TXTIME: i32 = if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
    0x3f
} else {
    61
};

/// From linux/sctp.h.
const SCTP_EVENTS: i32 = 11;
const SCTP_SOCKOPT_PEELOFF: i32 = 102;

/// From linux/socket.h and linux/llc.h.
const SOL_LLC: i32 = 268;
const LLC_OPT_TX_WIN: i32 = 7;
const LLC_OPT_RX_WIN: i32 = 8;
