//! The messages of the Unix domain tests: STREAM_STREAM, STREAM_RR, DG_STREAM, DG_RR.
//!
//! They are the classic ones, each with its fields in an order of its own. The path lies in the
//! converted part, and the word with its length before it is never set. Buffer sizes that the client
//! leaves open are 0.

use super::frame::{SwappedText, blank, layout, reply};
use super::{DO_DG_RR, DO_DG_STREAM, DO_STREAM_RR, DO_STREAM_STREAM, Frame};

layout! {
    /// STREAM_STREAM: what the client asks of the server, which receives. Sizes are bytes.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StreamStreamRequest {
        /// SO_RCVBUF in bytes: to set, 0 for the default.
        [0] receive_buffer: i32,
        /// SO_SNDBUF in bytes: to set, 0 for the default.
        [4] send_buffer: i32,
        /// Bytes a receive call; 0 leaves the choice to the server.
        [8] receive_size: i32,
        /// Receive buffers start at a multiple of this power of two …
        [12] receive_alignment: i32,
        /// … and this many bytes further.
        [16] receive_offset: i32,
        /// 1 to receive without a copy; no effect on Linux.
        [20] receive_copy_avoidance: i32,
        /// 1 to send without a copy; no effect on Linux.
        [24] send_copy_avoidance: i32,
        /// Measure the server's CPU.
        [28] measure_cpu: bool,
        /// The server's calibration as the client knows it; 0 is unknown.
        [32] cpu_rate: f32,
        /// Seconds. A test with a byte limit has the positive number of bytes here, and no sign that it
        /// is one.
        [36] test_length: i32,
        /// Bytes to dirty in each buffer before a call.
        [40] dirty: i32,
        /// Bytes to read of it.
        [44] clean: i32,
        /// A path that the client proposes; the stock one leaves it empty.
        [52] path: SwappedText<32>,
    }
}

layout! {
    /// STREAM_STREAM: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StreamStreamResponse {
        /// SO_RCVBUF, as the kernel gives it.
        [0] receive_buffer: i32,
        /// SO_SNDBUF, as the kernel gives it.
        [4] send_buffer: i32,
        /// Bytes a receive call in force.
        [8] receive_size: i32,
        /// As asked.
        [12] receive_copy_avoidance: i32,
        /// As asked.
        [16] send_copy_avoidance: i32,
        /// The server will measure its CPU.
        [20] measure_cpu: bool,
        /// Not set by a stock server.
        [24] test_length: i32,
        /// The server's calibration if it measures, else 0.
        [32] cpu_rate: f32,
        /// Where the server listens.
        [40] path: SwappedText<32>,
    }
}

layout! {
    /// STREAM_STREAM: what the server has counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StreamStreamResults {
        /// Payload received, bytes modulo 2³².
        [0] bytes: u32,
        /// Receive calls.
        [4] receive_calls: u32,
        /// Seconds, on the server's clock.
        [8] elapsed: f32,
        /// CPU busy, percent of all CPUs; only if measured.
        [12] cpu_utilisation: f32,
        /// CPUs that are online. A stock server does not set it.
        [20] cpus: i32,
    }
}

layout! {
    /// STREAM_RR: what the client asks of the server. Sizes are bytes.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StreamRrRequest {
        /// SO_RCVBUF in bytes: to set, 0 for the default.
        [0] receive_buffer: i32,
        /// SO_SNDBUF in bytes: to set, 0 for the default.
        [4] send_buffer: i32,
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
        /// 1 to receive without a copy; no effect on Linux.
        [32] receive_copy_avoidance: i32,
        /// 1 to send without a copy; no effect on Linux.
        [36] send_copy_avoidance: i32,
        /// Measure the server's CPU.
        [40] measure_cpu: bool,
        /// The server's calibration as the client knows it; 0 is unknown.
        [44] cpu_rate: f32,
        /// Positive: seconds. Negative: that many transactions.
        [48] test_length: i32,
        /// A path that the client proposes; the stock one leaves it empty.
        [56] path: SwappedText<32>,
    }
}

layout! {
    /// STREAM_RR: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StreamRrResponse {
        /// SO_RCVBUF, as the kernel gives it.
        [0] receive_buffer: i32,
        /// SO_SNDBUF, as the kernel gives it.
        [4] send_buffer: i32,
        /// As asked.
        [8] receive_copy_avoidance: i32,
        /// As asked.
        [12] send_copy_avoidance: i32,
        /// The server will measure its CPU.
        [16] measure_cpu: bool,
        /// Not set by a stock server.
        [20] test_length: i32,
        /// The server's calibration if it measures, else 0.
        [24] cpu_rate: f32,
        /// Where the server listens.
        [32] path: SwappedText<32>,
    }
}

layout! {
    /// STREAM_RR and DG_RR: what the server has counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct UnixTransactionResults {
        /// Transactions × (request size + response size), modulo 2³².
        [0] bytes: u32,
        /// Transactions.
        [8] transactions: u32,
        /// Seconds, on the server's clock.
        [12] elapsed: f32,
        /// CPU busy, percent of all CPUs; only if measured.
        [16] cpu_utilisation: f32,
        /// CPUs that are online. A stock server does not set it.
        [24] cpus: i32,
    }
}

layout! {
    /// DG_STREAM: what the client asks of the server, which receives. Sizes are bytes.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DgStreamRequest {
        /// SO_RCVBUF in bytes: to set, 0 for the default.
        [0] receive_buffer: i32,
        /// Payload of a datagram; one of another length ends the test.
        [4] message_size: i32,
        /// Receive buffers start at a multiple of this power of two …
        [8] receive_alignment: i32,
        /// … and this many bytes further.
        [12] receive_offset: i32,
        /// Measure the server's CPU.
        [16] measure_cpu: bool,
        /// The server's calibration as the client knows it; 0 is unknown.
        [20] cpu_rate: f32,
        /// Seconds.
        [24] test_length: i32,
        /// 1 to receive without a copy; no effect on Linux.
        [28] receive_copy_avoidance: i32,
        /// 1 to send without a copy; no effect on Linux.
        [32] send_copy_avoidance: i32,
        /// A path that the client proposes; the stock one leaves it empty.
        [40] path: SwappedText<32>,
    }
}

layout! {
    /// DG_STREAM: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DgStreamResponse {
        /// SO_RCVBUF, as the kernel gives it.
        [0] receive_buffer: i32,
        /// SO_SNDBUF, as the kernel gives it.
        [4] send_buffer: i32,
        /// The server will measure its CPU.
        [8] measure_cpu: bool,
        /// As asked.
        [12] test_length: i32,
        /// The server's calibration if it measures, else 0.
        [16] cpu_rate: f32,
        /// As asked.
        [20] receive_copy_avoidance: i32,
        /// As asked.
        [24] send_copy_avoidance: i32,
        /// Where the server receives.
        [32] path: SwappedText<32>,
    }
}

layout! {
    /// DG_STREAM: what the server has counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DgStreamResults {
        /// Datagrams of the message size.
        [0] messages: u32,
        /// Payload received, bytes modulo 2³².
        [4] bytes: u32,
        /// Seconds, on the server's clock.
        [8] elapsed: f32,
        /// CPU busy, percent of all CPUs; −1 when it was not measured.
        [12] cpu_utilisation: f32,
        /// CPUs that are online. A stock server does not set it.
        [16] cpus: i32,
    }
}

layout! {
    /// DG_RR: what the client asks of the server. Sizes are bytes.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DgRrRequest {
        /// SO_RCVBUF in bytes: to set, 0 for the default.
        [0] receive_buffer: i32,
        /// SO_SNDBUF in bytes: to set, 0 for the default.
        [4] send_buffer: i32,
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
        /// A path that the client proposes; the stock one leaves it empty.
        [56] path: SwappedText<32>,
    }
}

layout! {
    /// DG_RR: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DgRrResponse {
        /// SO_RCVBUF, as the kernel gives it.
        [0] receive_buffer: i32,
        /// SO_SNDBUF, as the kernel gives it.
        [4] send_buffer: i32,
        /// Without a meaning here.
        [8] no_delay: bool,
        /// The server will measure its CPU.
        [12] measure_cpu: bool,
        /// As asked.
        [16] test_length: i32,
        /// The server's calibration if it measures, else 0.
        [20] cpu_rate: f32,
        /// As asked.
        [24] receive_copy_avoidance: i32,
        /// As asked.
        [28] send_copy_avoidance: i32,
        /// Where the server receives.
        [36] path: SwappedText<32>,
    }
}

/// Replies with a number of their own.
macro_rules! numbered {
    ($($message:ident: $number:expr,)+) => {$(
        reply!($message);

        impl $message {
            /// The frame to send.
            pub fn encode(&self) -> Frame {
                let mut frame = blank($number);
                self.write(&mut frame);
                frame
            }
        }
    )+};
}

numbered! {
    StreamStreamResponse: DO_STREAM_STREAM + 1,
    StreamStreamResults: DO_STREAM_STREAM + 2,
    StreamRrResponse: DO_STREAM_RR + 1,
    DgStreamResponse: DO_DG_STREAM + 1,
    DgStreamResults: DO_DG_STREAM + 2,
    DgRrResponse: DO_DG_RR + 1,
}

reply!(UnixTransactionResults);

impl UnixTransactionResults {
    /// The results of a request of that type.
    pub fn encode(&self, request: i32) -> Frame {
        let mut frame = blank(request.wrapping_add(2));
        self.write(&mut frame);
        frame
    }
}
