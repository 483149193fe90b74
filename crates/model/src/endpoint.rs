//! One end's part of a plan: socket options, buffers and system calls.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::nanos::OptionalNanos;
use crate::{Pacing, Spacing};

/// One end's part of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent choice of the user"
)]
pub struct EndpointPlan {
    /// Options of the data socket.
    pub socket: SocketOptions,
    /// Send buffers.
    pub send: BufferPlan,
    /// Receive buffers.
    pub receive: BufferPlan,
    /// A file whose contents fill the buffers; `None` uses the dialect's own pattern.
    pub fill: Option<PathBuf>,
    /// Send with sendfile(2) from the fill file (or a temporary one) instead of from memory.
    pub send_from_file: bool,
    /// With `send_from_file`: send the fill file once, to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send_file_once: bool,
    /// Receive with splice(2) to the null device instead of into memory.
    pub discard_in_kernel: bool,
    /// Use write(2) instead of send(2).
    pub write_instead_of_send: bool,
    /// System calls for one-way data.
    #[serde(default, skip_serializing_if = "IoMethod::is_one_per_call")]
    pub io: IoMethod,
    /// Schedule of the passes; `None` runs them without pauses.
    pub pacing: Option<Pacing>,
    /// Schedule of the datagrams, if each has its own send time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spacing: Option<Spacing>,
    /// Extra reads and writes of the data.
    pub touch: Touch,
    /// The CPU that this end's thread is bound to.
    pub cpu: Option<u32>,
    /// Measure the CPU time of the whole host during the measured phase.
    pub measure_cpu: bool,
    /// In connection tests, read each connection's retransmissions before the connecting end closes
    /// it. This costs one more call per connection. Other tests always read them at the end.
    pub count_retransmits: bool,
    /// Count the receive calls by the share of the buffer that they filled, in eighths.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_receive_sizes: bool,
    /// Measure CPU time with loops that count idle cycles, instead of the kernel's counters.
    pub idle_loop: Option<IdleLoop>,
}

/// System calls for one-way data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IoMethod {
    /// One datagram per call.
    #[default]
    #[serde(rename = "plain")]
    OnePerCall,
    /// Several datagrams per call: sendmmsg(2), recvmmsg(2).
    Mmsg,
    /// Several datagrams of one size in one buffer; the kernel splits or joins them: UDP_SEGMENT,
    /// UDP_GRO, udp(7).
    Gso,
    /// Do not copy received data: MSG_TRUNC, tcp(7). The beginning of a datagram is still copied.
    Trunc,
}

impl IoMethod {
    /// Returns whether each datagram has its own call.
    pub fn is_one_per_call(&self) -> bool {
        *self == Self::OnePerCall
    }
}

/// Extra reads and writes of the data, as in a program that uses it. Each value is a number of
/// bytes from the start of a buffer; `None` if not requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Touch {
    /// Bytes modified before a send call.
    pub send_dirty_bytes: Option<u32>,
    /// Bytes of the received data modified after a receive call.
    pub receive_dirty_bytes: Option<u32>,
    /// Bytes of the received data read after a receive call; they follow the modified bytes.
    pub receive_clean_bytes: Option<u32>,
}

impl Touch {
    /// Returns whether any access is requested.
    pub fn is_requested(&self) -> bool {
        [
            self.send_dirty_bytes,
            self.receive_dirty_bytes,
            self.receive_clean_bytes,
        ]
        .iter()
        .any(|bytes| bytes.is_some_and(|bytes| bytes > 0))
    }
}

/// A loop per CPU that counts while the CPU is otherwise idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleLoop {
    /// Counts per second of an idle CPU; `None` if it must be calibrated first.
    #[serde(rename = "rate_per_second")]
    pub rate: Option<f64>,
}

/// Options of a data socket; `None` or `false` keeps the kernel's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one socket option, as the manual pages list them"
)]
pub struct SocketOptions {
    /// SO_SNDBUF in bytes, as requested: socket(7).
    pub send_buffer_bytes: Option<u32>,
    /// SO_RCVBUF in bytes, as requested.
    pub receive_buffer_bytes: Option<u32>,
    /// TCP_NODELAY: tcp(7).
    pub no_delay: bool,
    /// TCP_CORK.
    pub cork: bool,
    /// TCP_MAXSEG in bytes.
    pub max_segment_bytes: Option<u32>,
    /// TCP_DEFER_ACCEPT in seconds.
    pub defer_accept_seconds: Option<u32>,
    /// TCP Fast Open: the first segment carries data.
    pub fast_open: bool,
    /// SO_KEEPALIVE.
    pub keep_alive: bool,
    /// SO_DONTROUTE: send only to directly connected networks.
    pub dont_route: bool,
    /// SO_PRIORITY.
    pub priority: Option<i32>,
    /// IP_TOS or IPV6_TCLASS.
    pub type_of_service: Option<u8>,
    /// TCP_CONGESTION: the algorithm's name.
    pub congestion_control: Option<String>,
    /// Connect a datagram socket, so that it receives only the peer's datagrams.
    pub connect_datagrams: bool,
    /// Answer each datagram from the address that it was sent to (IP_PKTINFO).
    pub reply_from_destination: bool,
    /// Maximum wait for a datagram. After it, the next request is sent.
    #[serde(rename = "receive_timeout_ns", with = "OptionalNanos")]
    pub receive_timeout: Option<Duration>,
    /// SO_DEBUG.
    pub debug: bool,
    /// IP_MULTICAST_TTL.
    pub multicast_ttl: Option<u8>,
    /// O_NONBLOCK, with poll(2) where a call would block.
    pub non_blocking: bool,
    /// LLC_OPT_TX_WIN: limit of unacknowledged frames of this end.
    pub send_window_frames: Option<u32>,
    /// LLC_OPT_RX_WIN: limit of unacknowledged frames of the peer.
    pub receive_window_frames: Option<u32>,
    /// SO_MAX_PACING_RATE in bytes per second: tc-fq(8) or TCP itself limits
    /// the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pacing_bytes_per_second: Option<u64>,
    /// SO_BINDTODEVICE: the interface's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// IP_MTU_DISCOVER: do not fragment packets (IPv4); too long ones are not sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub do_not_fragment: bool,
    /// TCP_USER_TIMEOUT in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_timeout_ms: Option<u32>,
    /// TCP_WINDOW_CLAMP in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_clamp_bytes: Option<u32>,
    /// TCP_NOTSENT_LOWAT in bytes: a socket with more unsent data is not writable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent_low_water_bytes: Option<u32>,
    /// TCP_QUICKACK: do not delay acknowledgements.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick_ack: bool,
}

/// The buffers of one direction: a ring, used round robin, one buffer per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BufferPlan {
    /// Bytes per call.
    pub size: SizeRule,
    /// Number of buffers.
    pub width: WidthRule,
    /// Alignment of each buffer: a power of two, in bytes.
    pub alignment: u32,
    /// Offset of each buffer from an aligned address, in bytes.
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
    /// Returns one buffer for a message of `bytes`.
    pub fn message(bytes: u32) -> Self {
        Self {
            size: SizeRule::Bytes(bytes),
            width: WidthRule::Buffers(1),
            ..Self::default()
        }
    }
}

/// Rule for the bytes per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SizeRule {
    /// A fixed number.
    Bytes(u32),
    /// The size of the socket's buffer as reported by the kernel (for UDP at most 65,507).
    SocketBuffer,
}

/// Rule for the number of buffers of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WidthRule {
    /// A fixed number.
    Buffers(u32),
    /// One more than the number that fills the socket's buffer, at least 2, so that data in flight
    /// is not overwritten.
    CoverSocketBuffer,
}
