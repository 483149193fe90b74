//! The messages of the DLPI tests, here over LLC sockets: DLCO_STREAM, DLCO_RR, DLCL_STREAM, DLCL_RR.
//!
//! No build of the stock tool for Linux has them, so only two linerates speak these. A device name
//! lies in the converted part but is turned round before, so that it stands in natural order. A device
//! is a network interface; a PPA (physical point of attachment) of −1 is none, and the device's name
//! is all of its name.

use super::Frame;
use super::frame::{Text, blank, layout, reply};

layout! {
    /// DLCO_STREAM: what the client asks of the server, which receives. Sizes are bytes.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlcoStreamRequest {
        /// Frames that the peer may have on their way to the server before it waits; 0 leaves it.
        [0] receive_window: i32,
        /// Frames that the server may have on their way; 0 leaves it.
        [4] send_window: i32,
        /// Bytes a receive call; 0 leaves the choice to the server.
        [8] receive_size: i32,
        /// Receive buffers start at a multiple of this power of two …
        [12] receive_alignment: i32,
        /// … and this many bytes further.
        [16] receive_offset: i32,
        /// Measure the server's CPU.
        [20] measure_cpu: bool,
        /// The server's calibration as the client knows it; 0 is unknown.
        [24] cpu_rate: f32,
        /// Seconds. A test with a byte limit has the positive number of bytes here, and no sign that it
        /// is one.
        [28] test_length: i32,
        /// 1 to receive without a copy; no effect on Linux.
        [32] receive_copy_avoidance: i32,
        /// 1 to send without a copy; no effect on Linux.
        [36] send_copy_avoidance: i32,
        /// Bytes to dirty in each buffer before a call.
        [40] dirty: i32,
        /// Bytes to read of it.
        [44] clean: i32,
        /// The service access point of the test, 802.2's port.
        [48] sap: i32,
        /// Number of the interface; −1 is none.
        [52] ppa: i32,
        /// Length of the device's name.
        [56] device_len: i32,
        /// Name of the interface; empty is none.
        [60] device: Text<32>,
    }
}

layout! {
    /// DLCO_STREAM: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlcoStreamResponse {
        /// Receive window in force, in frames.
        [0] receive_window: i32,
        /// Send window in force, in frames.
        [4] send_window: i32,
        /// Bytes a receive call in force.
        [8] receive_size: i32,
        /// The server will measure its CPU.
        [12] measure_cpu: bool,
        /// As asked.
        [16] test_length: i32,
        /// The service access point that the server listens at.
        [20] sap: i32,
        /// The server's calibration if it measures, else 0.
        [24] cpu_rate: f32,
        /// As asked.
        [28] receive_copy_avoidance: i32,
        /// As asked.
        [32] send_copy_avoidance: i32,
        /// How many bytes of `station` there are.
        [36] station_len: u32,
        /// The station (MAC) address of the server's interface.
        [40] station: [u8; 8],
    }
}

layout! {
    /// DLCO_STREAM: what the server has counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlcoStreamResults {
        /// Payload received, bytes modulo 2³².
        [0] bytes: u32,
        /// Receive calls.
        [4] receive_calls: u32,
        /// Seconds, on the server's clock.
        [8] elapsed: f32,
        /// CPU busy, percent of all CPUs; only if measured.
        [12] cpu_utilisation: f32,
        /// As in [`OmniResults::cpu_method`](super::OmniResults::cpu_method).
        [20] cpu_method: i32,
        /// CPUs that are online.
        [24] cpus: i32,
    }
}

layout! {
    /// DLCO_RR: what the client asks of the server. Sizes are bytes.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlcoRrRequest {
        /// Frames that the peer may have on their way to the server before it waits; 0 leaves it.
        [0] receive_window: i32,
        /// Frames that the server may have on their way; 0 leaves it.
        [4] send_window: i32,
        /// Receive buffers start at a multiple of this power of two …
        [8] receive_alignment: i32,
        /// … and this many bytes further.
        [12] receive_offset: i32,
        /// Send buffers start at a multiple of this power of two …
        [16] send_alignment: i32,
        /// … and this many bytes further.
        [20] send_offset: i32,
        /// Bytes a request.
        [24] request_size: i32,
        /// Bytes a response.
        [28] response_size: i32,
        /// Measure the server's CPU.
        [32] measure_cpu: bool,
        /// The server's calibration as the client knows it; 0 is unknown.
        [36] cpu_rate: f32,
        /// Positive: seconds. Negative: that many transactions.
        [40] test_length: i32,
        /// 1 to receive without a copy; no effect on Linux.
        [44] receive_copy_avoidance: i32,
        /// 1 to send without a copy; no effect on Linux.
        [48] send_copy_avoidance: i32,
        /// Number of the interface; −1 is none.
        [52] ppa: i32,
        /// The service access point of the test, 802.2's port.
        [56] sap: i32,
        /// Length of the device's name.
        [60] device_len: i32,
        /// Name of the interface; empty is none.
        [64] device: Text<32>,
    }
}

layout! {
    /// DLCO_RR and DLCL_STREAM: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlResponse {
        /// Receive window in force, in frames.
        [0] receive_window: i32,
        /// Send window in force, in frames.
        [4] send_window: i32,
        /// The server will measure its CPU.
        [8] measure_cpu: bool,
        /// As asked.
        [12] test_length: i32,
        /// The service access point that the server receives at.
        [16] sap: i32,
        /// The server's calibration if it measures, else 0.
        [20] cpu_rate: f32,
        /// As asked.
        [24] receive_copy_avoidance: i32,
        /// As asked.
        [28] send_copy_avoidance: i32,
        /// How many bytes of `station` there are.
        [32] station_len: u32,
        /// The station (MAC) address of the server's interface.
        [36] station: [u8; 8],
    }
}

layout! {
    /// DLCO_RR and DLCL_RR: what the server has counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlTransactionResults {
        /// Transactions × (request size + response size), modulo 2³².
        [0] bytes: u32,
        /// Receive calls.
        [4] receive_calls: u32,
        /// Transactions.
        [8] transactions: u32,
        /// Seconds, on the server's clock.
        [12] elapsed: f32,
        /// CPU busy, percent of all CPUs; only if measured.
        [16] cpu_utilisation: f32,
        /// As in [`OmniResults::cpu_method`](super::OmniResults::cpu_method).
        [24] cpu_method: i32,
        /// CPUs that are online.
        [28] cpus: i32,
    }
}

layout! {
    /// DLCL_STREAM: what the client asks of the server, which receives. Sizes are bytes.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlclStreamRequest {
        /// Frames that the peer may have on their way to the server before it waits; 0 leaves it.
        [0] receive_window: i32,
        /// Payload of a frame; one of another length ends the test.
        [4] message_size: i32,
        /// Receive buffers start at a multiple of this power of two …
        [8] receive_alignment: i32,
        /// … and this many bytes further.
        [12] receive_offset: i32,
        /// Without a meaning here.
        [16] checksum_off: bool,
        /// Measure the server's CPU.
        [20] measure_cpu: bool,
        /// The server's calibration as the client knows it; 0 is unknown.
        [24] cpu_rate: f32,
        /// Seconds.
        [28] test_length: i32,
        /// 1 to receive without a copy; no effect on Linux.
        [32] receive_copy_avoidance: i32,
        /// 1 to send without a copy; no effect on Linux.
        [36] send_copy_avoidance: i32,
        /// Number of the interface; −1 is none.
        [40] ppa: i32,
        /// The service access point of the test, 802.2's port.
        [44] sap: i32,
        /// Length of the device's name.
        [48] device_len: i32,
        /// Name of the interface; empty is none.
        [52] device: Text<32>,
    }
}

layout! {
    /// DLCL_STREAM: what the server has counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlclStreamResults {
        /// Frames of the message size.
        [0] messages: u32,
        /// Payload received, bytes modulo 2³².
        [4] bytes: u32,
        /// Seconds, on the server's clock.
        [8] elapsed: f32,
        /// CPU busy, percent of all CPUs; −1 when it was not measured.
        [12] cpu_utilisation: f32,
        /// CPUs that are online.
        [16] cpus: i32,
    }
}

layout! {
    /// DLCL_RR: what the client asks of the server. Sizes are bytes.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlclRrRequest {
        /// Frames that the peer may have on their way to the server before it waits; 0 leaves it.
        [0] receive_window: i32,
        /// Frames that the server may have on their way; 0 leaves it.
        [4] send_window: i32,
        /// Receive buffers start at a multiple of this power of two …
        [8] receive_alignment: i32,
        /// … and this many bytes further.
        [12] receive_offset: i32,
        /// Send buffers start at a multiple of this power of two …
        [16] send_alignment: i32,
        /// … and this many bytes further.
        [20] send_offset: i32,
        /// Bytes a request.
        [24] request_size: i32,
        /// Bytes a response.
        [28] response_size: i32,
        /// Without a meaning here.
        [32] no_delay: bool,
        /// Measure the server's CPU.
        [36] measure_cpu: bool,
        /// The server's calibration as the client knows it; 0 is unknown.
        [40] cpu_rate: f32,
        /// Positive: seconds. Negative: that many transactions.
        [44] test_length: i32,
        /// 1 to receive without a copy; no effect on Linux.
        [48] receive_copy_avoidance: i32,
        /// 1 to send without a copy; no effect on Linux.
        [52] send_copy_avoidance: i32,
        /// Number of the interface; −1 is none.
        [56] ppa: i32,
        /// The service access point of the test, 802.2's port.
        [60] sap: i32,
        /// Length of the device's name.
        [64] device_len: i32,
        /// Name of the interface; empty is none.
        [68] device: Text<32>,
    }
}

layout! {
    /// DLCL_RR: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DlclRrResponse {
        /// Receive window in force, in frames.
        [0] receive_window: i32,
        /// Send window in force, in frames.
        [4] send_window: i32,
        /// Without a meaning here.
        [8] no_delay: bool,
        /// The server will measure its CPU.
        [12] measure_cpu: bool,
        /// As asked.
        [16] test_length: i32,
        /// The service access point that the server receives at.
        [20] sap: i32,
        /// The server's calibration if it measures, else 0.
        [24] cpu_rate: f32,
        /// As asked.
        [28] receive_copy_avoidance: i32,
        /// As asked.
        [32] send_copy_avoidance: i32,
        /// How many bytes of `station` there are.
        [36] station_len: u32,
        /// The station (MAC) address of the server's interface.
        [40] station: [u8; 8],
    }
}

/// Replies: a response has the number after its request, results the one after that. `encode` takes
/// the number of the request.
macro_rules! replies {
    ($($message:ident: $after:literal,)+) => {$(
        reply!($message);

        impl $message {
            /// The answer to a request of that type.
            pub fn encode(&self, request: i32) -> Frame {
                let mut frame = blank(request.wrapping_add($after));
                self.write(&mut frame);
                frame
            }
        }
    )+};
}

replies! {
    DlcoStreamResponse: 1,
    DlcoStreamResults: 2,
    DlResponse: 1,
    DlTransactionResults: 2,
    DlclStreamResults: 2,
    DlclRrResponse: 1,
}
