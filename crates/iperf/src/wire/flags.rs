//! Bits of the flags word and of the upper flags of a [`Hello`](super::Hello).

/// The server also sends, on its own connection back to the client (`-d`, `-r`).
pub const VERSION1: u32 = 0x8000_0000;
/// The header has the 36 bytes of the extension.
pub const EXTEND: u32 = 0x4000_0000;
/// UDP: the upper flags are valid.
pub const UDP_TESTS: u32 = 0x2000_0000;
/// A permit key follows.
pub const KEY: u32 = 0x1000_0000;
/// UDP: sequence numbers have 64 bits.
pub const WIDE_NUMBERS: u32 = 0x0800_0000;
/// The test is reverse or full duplex, or [`PEER_DETECT`] is set.
pub const VERSION2: u32 = 0x0400_0000;
/// The client waits for the acknowledgement (`-X`).
pub const PEER_DETECT: u32 = 0x0200_0000;
/// The message is a [`BounceMessage`](super::BounceMessage), not a [`Hello`](super::Hello).
pub const BOUNCE: u32 = 0x0080_0000;
/// UDP: the datagrams have trip times but are too small for a [`Hello`](super::Hello).
pub const SMALL_TRIP_TIMES: u32 = 0x0002_0000;
/// The flags word contains the length of the header.
pub const HAS_LENGTH: u32 = 0x0001_0000;
/// The bits of that length, shifted left by one.
pub const LENGTH: u32 = 0x0000_01fe;
/// The flow on the connection back runs at the same time (`-d`).
pub const RUN_NOW: u32 = 0x0000_0001;

/// In the word of the upper flags: the name of a congestion control follows.
pub const CONGESTION_CONTROL: u32 = 0x0000_8000;

/// The upper flags, which request features of a test.
pub mod upper {
    /// The sender sends isochronous frames.
    pub const ISOCHRONOUS: u16 = 0x0001;
    /// The receiver checks the lengths of datagrams (`--l2checks`).
    pub const L2_LENGTH: u16 = 0x0004;
    /// UDP: no report at the end.
    pub const NO_FIN: u16 = 0x0008;
    /// Sent data carries timestamps of synchronised clocks.
    pub const TRIP_TIMES: u16 = 0x0010;
    /// UDP: the header has the parameters of the isochronous frames.
    pub const SETTINGS: u16 = 0x0040;
    /// UDP: the rate is in datagrams per second. iperf 2.1.8 does not set this flag.
    pub const RATE_IN_DATAGRAMS: u16 = 0x0080;
    /// The kernel paces the sender's socket.
    pub const FQ_RATE: u16 = 0x0200;
    /// The server sends.
    pub const REVERSE: u16 = 0x0400;
    /// Both ends send on the same connection.
    pub const FULL_DUPLEX: u16 = 0x0800;
    /// The start time is scheduled (`--txstart-time`).
    pub const EPOCH_START: u16 = 0x1000;
    /// The sender sends periodic bursts.
    pub const BURSTS: u16 = 0x2000;
    /// The sender writes only while few bytes are unsent (`--tcp-write-prefetch`).
    pub const PREFETCH: u16 = 0x4000;
    /// The receiver acknowledges without delay.
    pub const QUICK_ACK: u16 = 0x8000;
}
