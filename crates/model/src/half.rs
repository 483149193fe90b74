//! One end's part of a plan: its socket, its buffers and its calls.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Pacing, Spacing};

/// One end's part of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one choice of the user's, independent of the others"
)]
pub struct Half {
    /// What is set on the data socket.
    pub socket: SocketOptions,
    /// What is sent.
    pub send: BufferPlan,
    /// What is received into.
    pub receive: BufferPlan,
    /// A file whose contents fill the buffers; `None` is the dialect's own pattern.
    pub fill: Option<PathBuf>,
    /// Send with sendfile(2) from the fill file (or a temporary one) instead of from memory.
    pub send_from_file: bool,
    /// With it: send the fill file once, to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send_file_once: bool,
    /// Receive with splice(2) to the null device instead of into memory.
    pub discard_in_kernel: bool,
    /// Use write(2) where send(2) would do.
    pub write_instead_of_send: bool,
    /// Which calls move one-way datagrams.
    #[serde(default, skip_serializing_if = "IoMethod::is_plain")]
    pub io: IoMethod,
    /// How many passes an interval; `None` is as fast as it goes.
    pub pacing: Option<Pacing>,
    /// When each datagram is sent, where each has a time of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spacing: Option<Spacing>,
    /// What is done with the data beside moving it.
    pub touch: Touch,
    /// The CPU that this end's thread is bound to.
    pub cpu: Option<u32>,
    /// Account the CPU time of the whole host over the measured phase.
    pub measure_cpu: bool,
    /// In a connection test of the connecting end, ask each connection before it closes what it has
    /// sent again: a call more a connection. A connection that lasts is asked at its end anyway.
    pub count_retransmits: bool,
    /// Count receive calls by how much of their buffer they filled, in eighths.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_receive_sizes: bool,
    /// Do so by soaking up idle cycles, instead of by the kernel's counters.
    pub idle_loop: Option<IdleLoop>,
}

/// Calls that move one-way data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMethod {
    /// One datagram per call.
    #[default]
    Plain,
    /// Several datagrams per call: sendmmsg(2), recvmmsg(2).
    Mmsg,
    /// Several datagrams of one size in one buffer, which the kernel cuts or joins: UDP_SEGMENT, UDP_GRO, udp(7).
    Gso,
    /// Received data is not copied: MSG_TRUNC, tcp(7). Of a datagram the beginning is.
    Trunc,
}

impl IoMethod {
    /// Whether each datagram has its own call.
    pub fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// What an end does with the data beside moving it, as a program that uses its data would: so many
/// bytes from the beginning of a buffer. `None` where nothing was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    /// Modified before a send call.
    pub send_dirty_bytes: Option<u32>,
    /// Modified after a receive call, of what it gave.
    pub receive_dirty_bytes: Option<u32>,
    /// Read after a receive call, of what it gave: behind what was modified.
    pub receive_clean_bytes: Option<u32>,
}

impl Touch {
    /// Whether it is anything at all.
    pub fn is_some(&self) -> bool {
        [
            self.send_dirty_bytes,
            self.receive_dirty_bytes,
            self.receive_clean_bytes,
        ]
        .iter()
        .any(|bytes| bytes.is_some_and(|bytes| bytes > 0))
    }
}

/// A loop that counts on each CPU when nothing else runs there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleLoop {
    /// What an idle CPU counts in a second; `None` is to be found out first.
    #[serde(rename = "counts_per_second")]
    pub rate: Option<f64>,
}

/// What is set on a data socket; a `None` or `false` leaves the kernel's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one socket option, as the manual pages list them"
)]
pub struct SocketOptions {
    /// SO_SNDBUF in bytes, as asked for: socket(7).
    pub send_buffer_bytes: Option<u32>,
    /// SO_RCVBUF in bytes, as asked for.
    pub receive_buffer_bytes: Option<u32>,
    /// TCP_NODELAY: tcp(7).
    pub no_delay: bool,
    /// TCP_CORK.
    pub cork: bool,
    /// TCP_MAXSEG in bytes.
    pub max_segment_bytes: Option<u32>,
    /// TCP_DEFER_ACCEPT, with this many seconds.
    pub defer_accept_seconds: Option<u32>,
    /// TCP Fast Open: data with the first segment.
    pub fast_open: bool,
    /// SO_KEEPALIVE.
    pub keep_alive: bool,
    /// SO_DONTROUTE: only to hosts on a directly connected network.
    pub dont_route: bool,
    /// SO_PRIORITY.
    pub priority: Option<i32>,
    /// IP_TOS or IPV6_TCLASS.
    pub type_of_service: Option<u8>,
    /// TCP_CONGESTION: the algorithm's name.
    pub congestion_control: Option<String>,
    /// Connect a datagram socket, so that only the peer's datagrams are taken.
    pub connect_datagrams: bool,
    /// Answer a datagram from the address that it was sent to (IP_PKTINFO).
    pub answer_from_destination: bool,
    /// Give up waiting for a datagram after this long and send the next request.
    #[serde(rename = "receive_timeout_ns", with = "crate::outcome::optional_nanos")]
    pub receive_timeout: Option<Duration>,
    /// SO_DEBUG.
    pub debug: bool,
    /// IP_MULTICAST_TTL.
    pub multicast_ttl: Option<u8>,
    /// O_NONBLOCK, with poll(2) where a call would wait.
    pub non_blocking: bool,
    /// LLC_OPT_TX_WIN: frames that this end may have on their way.
    pub send_window_frames: Option<u32>,
    /// LLC_OPT_RX_WIN: frames that the peer may have on their way.
    pub receive_window_frames: Option<u32>,
    /// SO_MAX_PACING_RATE in bytes per second: the kernel paces (tc-fq(8), or TCP itself).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pacing_bytes_per_second: Option<u64>,
    /// SO_BINDTODEVICE: the interface's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// IP_MTU_DISCOVER: packets go unfragmented (IPv4), or not at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub do_not_fragment: bool,
    /// TCP_USER_TIMEOUT in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_timeout_ms: Option<u32>,
    /// TCP_WINDOW_CLAMP in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_clamp_bytes: Option<u32>,
    /// TCP_NOTSENT_LOWAT in bytes: a socket with more unsent is not writable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent_low_water_bytes: Option<u32>,
    /// TCP_QUICKACK: acknowledgements are not delayed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick_ack: bool,
}

/// The buffers of one direction: a ring, used round robin, one buffer a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferPlan {
    /// Bytes a call.
    pub size: SizeRule,
    /// How many buffers.
    pub width: WidthRule,
    /// Each buffer starts at a multiple of this power of two, in bytes …
    pub alignment: u32,
    /// … and this many bytes further.
    pub offset: u32,
}

impl Default for BufferPlan {
    fn default() -> Self {
        Self {
            size: SizeRule::SocketBuffer,
            width: WidthRule::CoverSocketBuffer,
            alignment: 8,
            offset: 0,
        }
    }
}

impl BufferPlan {
    /// One buffer that holds a message of `bytes`.
    pub fn message(bytes: u32) -> Self {
        Self {
            size: SizeRule::Bytes(bytes),
            width: WidthRule::Buffers(1),
            ..Self::default()
        }
    }
}

/// How many bytes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeRule {
    /// This many.
    Bytes(u32),
    /// As many as the socket's buffer has, as the kernel gives it (for UDP at most 65,507).
    SocketBuffer,
}

/// How many buffers a ring has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WidthRule {
    /// This many.
    Buffers(u32),
    /// One more than fill the socket's buffer, at least two: what is being sent is not touched.
    CoverSocketBuffer,
}
