//! The messages of the tests as they were before omni.
//!
//! TCP_SENDFILE, TCP_MSS and TCP_CC still use them; servers take the others from older clients.
//! A response has the number after its request, the results the one after that: `encode` takes
//! the number of the request.

use super::frame::{blank, layout, reply};
use super::{DO_UDP_STREAM, FAMILY_IPV4, Frame, MESSAGE_LEN, UNSET};

layout! {
    /// TCP_STREAM and TCP_MAERTS: what the client asks of the server, which receives in the first
    /// and sends in the second. Sizes are bytes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct StreamRequest {
        /// SO_SNDBUF to set, or [`UNSET`].
        [0] send_buffer: i32,
        /// SO_RCVBUF to set, or [`UNSET`].
        [4] receive_buffer: i32,
        /// Bytes a receive call (TCP_MAERTS: send call); here 0 leaves the choice to the server.
        [8] size: i32,
        /// Buffers start at a multiple of this power of two …
        [12] alignment: i32,
        /// … and this many bytes further.
        [16] offset: i32,
        /// TCP_NODELAY.
        [20] no_delay: bool,
        /// Measure the server's CPU.
        [24] measure_cpu: bool,
        /// The server's calibration as the client knows it; 0 is unknown.
        [28] cpu_rate: f32,
        /// Seconds. A test with a byte limit has the positive number of bytes here, and no sign
        /// that it is one.
        [32] test_length: i32,
        /// 1 to receive without a copy; no effect on Linux.
        [36] receive_copy_avoidance: i32,
        /// 1 to send without a copy; no effect on Linux.
        [40] send_copy_avoidance: i32,
        /// The port to bind; 0 is any.
        [52] data_port: i32,
        /// As in [`OmniRequest::family`](super::OmniRequest::family).
        [56] family: u32,
    }
}

impl Default for StreamRequest {
    fn default() -> Self {
        Self {
            send_buffer: UNSET,
            receive_buffer: UNSET,
            alignment: 8,
            family: FAMILY_IPV4,
            ..Self::read(&[0; MESSAGE_LEN])
        }
    }
}

layout! {
    /// TCP_STREAM and TCP_MAERTS: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StreamResponse {
        /// SO_RCVBUF, as the kernel gives it.
        [0] receive_buffer: i32,
        /// Bytes a receive call (TCP_MAERTS: send call) in force.
        [4] size: i32,
        /// TCP_NODELAY is on.
        [8] no_delay: bool,
        /// The server will measure its CPU.
        [12] measure_cpu: bool,
        /// SO_SNDBUF, as the kernel gives it.
        [20] send_buffer: i32,
        /// The port of the data socket.
        [24] data_port: i32,
        /// The server's calibration if it measures, else 0.
        [28] cpu_rate: f32,
        /// As asked.
        [32] receive_copy_avoidance: i32,
        /// As asked.
        [36] send_copy_avoidance: i32,
    }
}

reply!(StreamResponse);

impl StreamResponse {
    /// The answer to a request of that type.
    pub fn encode(&self, request: i32) -> Frame {
        let mut frame = blank(request.wrapping_add(1));
        self.write(&mut frame);
        frame
    }
}

layout! {
    /// TCP_STREAM and TCP_MAERTS: what the server has counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StreamResults {
        /// Payload received (TCP_MAERTS: sent), bytes.
        [0] bytes: f64,
        /// Receive calls (TCP_MAERTS: send calls).
        [8] calls: u32,
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

reply!(StreamResults);

impl StreamResults {
    /// The results of a request of that type.
    pub fn encode(&self, request: i32) -> Frame {
        let mut frame = blank(request.wrapping_add(2));
        self.write(&mut frame);
        frame
    }
}

layout! {
    /// TCP_RR, TCP_CRR, TCP_CC and UDP_RR: what the client asks of the server. Sizes are bytes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TransactionRequest {
        /// SO_RCVBUF to set, or [`UNSET`].
        [0] receive_buffer: i32,
        /// SO_SNDBUF to set, or [`UNSET`].
        [4] send_buffer: i32,
        /// Receive buffers start at a multiple of this power of two …
        [8] receive_alignment: i32,
        /// … and this many bytes further.
        [12] receive_offset: i32,
        /// As for receiving.
        [16] send_alignment: i32,
        /// As for receiving.
        [20] send_offset: i32,
        /// Bytes a request.
        [24] request_size: i32,
        /// Bytes a response.
        [28] response_size: i32,
        /// TCP_NODELAY.
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
        /// The port to bind; 0 is any.
        [56] data_port: i32,
        /// As in [`OmniRequest::family`](super::OmniRequest::family).
        [60] family: u32,
    }
}

impl Default for TransactionRequest {
    fn default() -> Self {
        Self {
            receive_buffer: UNSET,
            send_buffer: UNSET,
            receive_alignment: 8,
            send_alignment: 8,
            request_size: 1,
            response_size: 1,
            family: FAMILY_IPV4,
            ..Self::read(&[0; MESSAGE_LEN])
        }
    }
}

layout! {
    /// TCP_RR, TCP_CRR, TCP_CC and UDP_RR: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct TransactionResponse {
        /// SO_RCVBUF, as the kernel gives it.
        [0] receive_buffer: i32,
        /// TCP_NODELAY is on.
        [4] no_delay: bool,
        /// The server will measure its CPU.
        [8] measure_cpu: bool,
        /// As asked; a stock server sets it for TCP_RR only.
        [12] test_length: i32,
        /// SO_SNDBUF, as the kernel gives it.
        [16] send_buffer: i32,
        /// The port of the data socket.
        [20] data_port: i32,
        /// The server's calibration if it measures, else 0.
        [24] cpu_rate: f32,
        /// As asked.
        [28] receive_copy_avoidance: i32,
        /// As asked.
        [32] send_copy_avoidance: i32,
    }
}

reply!(TransactionResponse);

impl TransactionResponse {
    /// The answer to a request of that type.
    pub fn encode(&self, request: i32) -> Frame {
        let mut frame = blank(request.wrapping_add(1));
        self.write(&mut frame);
        frame
    }
}

layout! {
    /// TCP_RR, TCP_CRR, TCP_CC and UDP_RR: what the server has counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct TransactionResults {
        /// Transactions × (request size + response size), modulo 2³².
        [0] bytes: u32,
        /// Transactions, or connections.
        [8] transactions: u32,
        /// Seconds, on the server's clock.
        [12] elapsed: f32,
        /// CPU busy, percent of all CPUs; only if measured.
        [16] cpu_utilisation: f32,
        /// As in [`OmniResults::cpu_method`](super::OmniResults::cpu_method); a stock server sets
        /// it for TCP_RR and UDP_RR only.
        [24] cpu_method: i32,
        /// CPUs that are online; a stock server does not set it for TCP_CRR.
        [28] cpus: i32,
    }
}

reply!(TransactionResults);

impl TransactionResults {
    /// The results of a request of that type.
    pub fn encode(&self, request: i32) -> Frame {
        let mut frame = blank(request.wrapping_add(2));
        self.write(&mut frame);
        frame
    }
}

layout! {
    /// UDP_STREAM: what the client asks of the server, which receives. Sizes are bytes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct DatagramRequest {
        /// SO_RCVBUF to set, or [`UNSET`].
        [0] receive_buffer: i32,
        /// Payload of a datagram; one of another length ends the test.
        [4] message_size: i32,
        /// Connect the receiving socket to the sender.
        [8] connect: bool,
        /// Buffers start at a multiple of this power of two …
        [12] receive_alignment: i32,
        /// … and this many bytes further.
        [16] receive_offset: i32,
        /// Switch the UDP checksum off; nobody does.
        [20] checksum_off: bool,
        /// Measure the server's CPU.
        [24] measure_cpu: bool,
        /// The server's calibration as the client knows it; 0 is unknown.
        [28] cpu_rate: f32,
        /// Seconds.
        [32] test_length: i32,
        /// 1 to receive without a copy; no effect on Linux.
        [36] receive_copy_avoidance: i32,
        /// 1 to send without a copy; no effect on Linux.
        [40] send_copy_avoidance: i32,
        /// The port to bind; 0 is any.
        [44] data_port: i32,
        /// As in [`OmniRequest::family`](super::OmniRequest::family).
        [48] family: u32,
    }
}

impl Default for DatagramRequest {
    fn default() -> Self {
        Self {
            receive_buffer: UNSET,
            receive_alignment: 8,
            family: FAMILY_IPV4,
            ..Self::read(&[0; MESSAGE_LEN])
        }
    }
}

layout! {
    /// UDP_STREAM: what the server has set up.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DatagramResponse {
        /// SO_RCVBUF, as the kernel gives it.
        [0] receive_buffer: i32,
        /// SO_SNDBUF, as the kernel gives it.
        [4] send_buffer: i32,
        /// The server will measure its CPU.
        [8] measure_cpu: bool,
        /// As asked.
        [12] test_length: i32,
        /// The port of the data socket.
        [16] data_port: i32,
        /// The server's calibration if it measures, else 0.
        [20] cpu_rate: f32,
        /// As asked.
        [24] receive_copy_avoidance: i32,
        /// As asked.
        [28] send_copy_avoidance: i32,
    }
}

reply!(DatagramResponse);

impl DatagramResponse {
    /// The frame to send.
    pub fn encode(&self) -> Frame {
        let mut frame = blank(DO_UDP_STREAM + 1);
        self.write(&mut frame);
        frame
    }
}

layout! {
    /// UDP_STREAM: what the server has counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DatagramResults {
        /// Datagrams of the message size.
        [0] messages: u32,
        /// Payload received, bytes modulo 2³²; the datagram that ends the test counts here.
        [4] bytes: u32,
        /// Seconds, on the server's clock.
        [8] elapsed: f32,
        /// CPU busy, percent of all CPUs; −1 when not measured.
        [12] cpu_utilisation: f32,
        /// As in [`OmniResults::cpu_method`](super::OmniResults::cpu_method).
        [16] cpu_method: i32,
        /// CPUs that are online.
        [20] cpus: i32,
    }
}

reply!(DatagramResults);

impl DatagramResults {
    /// The frame to send.
    pub fn encode(&self) -> Frame {
        let mut frame = blank(DO_UDP_STREAM + 2);
        self.write(&mut frame);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::word;
    use crate::wire::{DO_TCP_CC, DO_TCP_MAERTS, DO_TCP_RR, DO_TCP_STREAM};

    #[test]
    fn replies_follow_their_request() {
        for (frame, kind) in [
            (StreamResponse::default().encode(DO_TCP_STREAM), 11),
            (StreamResults::default().encode(DO_TCP_STREAM), 12),
            (StreamResponse::default().encode(DO_TCP_MAERTS), 95),
            (StreamResults::default().encode(DO_TCP_MAERTS), 96),
            (TransactionResponse::default().encode(DO_TCP_RR), 14),
            (TransactionResults::default().encode(DO_TCP_CC), 302),
            (DatagramResponse::default().encode(), 17),
            (DatagramResults::default().encode(), 18),
        ] {
            assert_eq!(word(&frame, 0), kind);
            assert_eq!(word(&frame, 1), 0);
        }
    }

    #[test]
    fn stream_round_trip() {
        let response = StreamResponse {
            receive_buffer: 131_072,
            size: 65_536,
            no_delay: true,
            measure_cpu: true,
            send_buffer: 16_384,
            data_port: 5,
            cpu_rate: 100.0,
            receive_copy_avoidance: 1,
            send_copy_avoidance: 2,
        };
        let frame = response.encode(DO_TCP_STREAM);
        assert_eq!(word(&frame, 8), 5);
        assert_eq!(StreamResponse::decode(&frame), Ok(response));

        let results = StreamResults {
            bytes: 1e12,
            calls: 7,
            elapsed: 10.0,
            cpu_utilisation: 50.0,
            cpu_method: 8,
            cpus: 2,
        };
        let frame = results.encode(DO_TCP_STREAM);
        assert_eq!(frame[8..16], 1e12_f64.to_be_bytes());
        assert_eq!(StreamResults::decode(&frame), Ok(results));
    }

    #[test]
    fn transaction_round_trip() {
        let response = TransactionResponse {
            receive_buffer: 1,
            no_delay: true,
            measure_cpu: false,
            test_length: -20,
            send_buffer: 2,
            data_port: 3,
            cpu_rate: 0.5,
            receive_copy_avoidance: 4,
            send_copy_avoidance: 5,
        };
        let frame = response.encode(DO_TCP_RR);
        assert_eq!(word(&frame, 7), 3);
        assert_eq!(TransactionResponse::decode(&frame), Ok(response));

        let results = TransactionResults {
            bytes: 46,
            transactions: 23,
            elapsed: -3.5,
            cpu_utilisation: 12.5,
            cpu_method: 8,
            cpus: 2,
        };
        let frame = results.encode(DO_TCP_RR);
        assert_eq!(word(&frame, 4), 23);
        assert_eq!(TransactionResults::decode(&frame), Ok(results));
    }

    #[test]
    fn datagram_round_trip() {
        let response = DatagramResponse {
            receive_buffer: 1,
            send_buffer: 2,
            measure_cpu: true,
            test_length: 3,
            data_port: 4,
            cpu_rate: 100.0,
            receive_copy_avoidance: 5,
            send_copy_avoidance: 6,
        };
        let frame = response.encode();
        assert_eq!(word(&frame, 6), 4);
        assert_eq!(DatagramResponse::decode(&frame), Ok(response));

        let results = DatagramResults {
            messages: 10,
            bytes: 10_004,
            elapsed: 0.25,
            cpu_utilisation: -1.0,
            cpu_method: 0,
            cpus: 0,
        };
        let frame = results.encode();
        assert_eq!(word(&frame, 2), 10);
        assert_eq!(DatagramResults::decode(&frame), Ok(results));
    }
}
