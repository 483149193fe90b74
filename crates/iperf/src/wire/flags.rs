//! The bits of a [`Hello`](super::Hello)'s flags word, and of its upper flags.

/// The 24 bytes ask for a test back to the client (`-d`, `-r`).
pub const VERSION1: u32 = 0x8000_0000;
/// The 36 bytes of the extension are there.
pub const EXTEND: u32 = 0x4000_0000;
/// UDP: the upper flags are valid.
pub const UDP_TESTS: u32 = 0x2000_0000;
/// A permit key follows.
pub const KEY: u32 = 0x1000_0000;
/// UDP: sequence numbers have 64 bits.
pub const WIDE_NUMBERS: u32 = 0x0800_0000;
/// Reverse or full duplex, or [`PEER_DETECT`].
pub const VERSION2: u32 = 0x0400_0000;
/// The client waits for the acknowledgement (`-X`).
pub const PEER_DETECT: u32 = 0x0200_0000;
/// A [`Bounce`](super::Bounce) instead of a [`Hello`](super::Hello).
pub const BOUNCE: u32 = 0x0080_0000;
/// UDP: datagrams too small for a [`Hello`](super::Hello), with trip times.
pub const SMALL_TRIP_TIMES: u32 = 0x0002_0000;
/// The flags have the length of what follows.
pub const HAS_LENGTH: u32 = 0x0001_0000;
/// That length, shifted by one.
pub const LENGTH: u32 = 0x0000_01fe;
/// The test back runs at once (`-d`).
pub const RUN_NOW: u32 = 0x0000_0001;

/// The upper flags.
pub mod upper {
    /// Frames at a rate.
    pub const ISOCHRONOUS: u16 = 0x0001;
    /// The receiver checks the length of frames on the link.
    pub const L2_LENGTH: u16 = 0x0004;
    /// UDP: no report at the end.
    pub const NO_FIN: u16 = 0x0008;
    /// Sent data has stamps of synchronised clocks.
    pub const TRIP_TIMES: u16 = 0x0010;
    /// The settings of [`ISOCHRONOUS`] are there.
    pub const SETTINGS: u16 = 0x0040;
    /// The sender's socket is paced by the kernel.
    pub const FQ_RATE: u16 = 0x0200;
    /// The server sends.
    pub const REVERSE: u16 = 0x0400;
    /// Both send on the one connection.
    pub const FULL_DUPLEX: u16 = 0x0800;
    /// The start time is a scheduled one.
    pub const EPOCH_START: u16 = 0x1000;
    /// Bursts at a period.
    pub const BURSTS: u16 = 0x2000;
    /// The sender waits for a nearly empty queue.
    pub const PREFETCH: u16 = 0x4000;
    /// The receiver acknowledges at once.
    pub const QUICK_ACK: u16 = 0x8000;
}
