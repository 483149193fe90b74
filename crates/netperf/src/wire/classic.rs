//! The messages of tests that have their own: those from before omni, and those over Unix domain, SCTP and LLC sockets.
//!
//! TCP_SENDFILE, TCP_MSS and TCP_CC still use those from before omni; servers accept the others from older clients. No
//! build of the stock tool for Linux has the DLPI tests, so only two linerates speak those.
//!
//! All of these tests exchange the same fields, each in an order of its own. So a record here has the fields of every
//! test, a [`Layout`] says which of them one message has and where, and [`Classic`] has one row per test. A response
//! has the number after its request, the results the one after that.

use codec::Field;
use model::Transport;

use super::frame::{ORDER, PAYLOAD, SwappedText, Text, blank};
use super::{FAMILY_IPV4, Frame, RemoteError, UNSET, check};
use crate::defaults::with_defaults;

with_defaults! {
    /// What the client asks of the server. Sizes are bytes. The default leaves everything to the server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ClassicRequest {
        /// SO_RCVBUF to set, or [`UNSET`]; in Unix domain tests 0 is the default, too.
        pub receive_buffer: i32 = UNSET,
        /// SO_SNDBUF, likewise.
        pub send_buffer: i32 = UNSET,
        /// DLPI: frames that the peer may have on their way to the server before it waits; 0 leaves it.
        pub receive_window: i32 = 0,
        /// DLPI: frames that the server may have on their way; 0 leaves it.
        pub send_window: i32 = 0,
        /// Bytes per receive call (TCP_MAERTS: send call), where 0 leaves the choice to the server. Of datagrams and frames
        /// the payload of each; one of another length ends the test.
        pub receive_size: i32 = 0,
        /// Receive buffers (TCP_MAERTS: send buffers) start at a multiple of this power of two …
        pub receive_alignment: i32 = 8,
        /// … and this many bytes further.
        pub receive_offset: i32 = 0,
        /// As for receiving.
        pub send_alignment: i32 = 8,
        /// As for receiving.
        pub send_offset: i32 = 0,
        /// Bytes per request.
        pub request_size: i32 = 1,
        /// Bytes per response.
        pub response_size: i32 = 1,
        /// TCP_NODELAY, SCTP_NODELAY; without a meaning over LLC.
        pub no_delay: bool = false,
        /// Connect the receiving socket to the sender of the datagrams.
        pub connect: bool = false,
        /// Switch the UDP checksum off; no client does.
        pub checksum_off: bool = false,
        /// Wait in poll(2) instead of in the calls of the socket: SCTP's test option `-B`.
        pub non_blocking: bool = false,
        /// Measure the server's CPU.
        pub measure_cpu: bool = false,
        /// The server's calibration as the client knows it; 0 is unknown.
        pub cpu_rate: f32 = 0.0,
        /// Positive: seconds. Negative: that many transactions. A stream with a byte limit has the positive number of bytes
        /// here, and no sign that it is one.
        pub test_length: i32 = 0,
        /// 1 to receive without a copy; no effect on Linux.
        pub receive_copy_avoidance: i32 = 0,
        /// 1 to send without a copy; no effect on Linux.
        pub send_copy_avoidance: i32 = 0,
        /// Bytes to dirty in each buffer before a call.
        pub dirty: i32 = 0,
        /// Bytes to read of it.
        pub clean: i32 = 0,
        /// The port to bind; 0 is any.
        pub data_port: i32 = 0,
        /// As in [`OmniRequest::family`](super::OmniRequest::family).
        pub family: u32 = FAMILY_IPV4,
        /// Unix domain: a path that the client proposes; the stock client leaves it empty. The word with its length
        /// before it is never set.
        pub path: SwappedText<32> = SwappedText::default(),
        /// DLPI: the service access point of the test, 802.2's port.
        pub sap: i32 = 0,
        /// DLPI: the PPA (physical point of attachment), the number of the interface; −1 is none, and `device` is the whole
        /// name.
        pub ppa: i32 = 0,
        /// Length of the device's name.
        pub device_len: i32 = 0,
        /// DLPI: name of the interface; empty is none. It lies in the converted part but is turned round before, so that it
        /// stands in natural order.
        pub device: Text<32> = Text::default(),
    }
}

/// What the server has set up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicResponse {
    /// SO_RCVBUF, as the kernel gives it; over LLC connections the receive window in frames.
    pub receive_buffer: i32,
    /// SO_SNDBUF or the send window, likewise.
    pub send_buffer: i32,
    /// Bytes per receive call (TCP_MAERTS: send call) in force.
    pub receive_size: i32,
    /// TCP_NODELAY is on.
    pub no_delay: bool,
    /// Whether the socket waits in poll(2).
    pub non_blocking: bool,
    /// The server will measure its CPU.
    pub measure_cpu: bool,
    /// As asked. A stock server sets it for TCP_RR and over datagrams only.
    pub test_length: i32,
    /// The server's calibration if it measures, else 0.
    pub cpu_rate: f32,
    /// As asked.
    pub receive_copy_avoidance: i32,
    /// As asked.
    pub send_copy_avoidance: i32,
    /// The port of the data socket.
    pub data_port: i32,
    /// Unix domain: where the server listens or receives.
    pub path: SwappedText<32>,
    /// DLPI: the service access point that the server listens or receives at.
    pub sap: i32,
    /// How many bytes of `station` there are.
    pub station_len: u32,
    /// DLPI: the station (MAC) address of the server's interface.
    pub station: [u8; 8],
}

/// What the server has counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicResults {
    /// Payload of a TCP or SCTP stream, bytes.
    pub bytes: f64,
    /// Of other tests the payload modulo 2³²: of transactions their number × (request size + response size). Of
    /// datagrams, the one that ends the test counts here.
    pub bytes_low: u32,
    /// Calls in the direction of the data; of datagrams and frames those of the message size.
    pub calls: u32,
    /// Transactions, or connections.
    pub transactions: u32,
    /// Seconds, on the server's clock.
    pub elapsed: f32,
    /// CPU busy, percent of all CPUs; only if measured. Of datagrams −1 if it was not.
    pub cpu_utilisation: f32,
    /// As in [`OmniResults::cpu_method`](super::OmniResults::cpu_method). A stock server sets it for streams, TCP_RR
    /// and UDP only.
    pub cpu_method: i32,
    /// CPUs that are online. A stock server does not set it for TCP_CRR and Unix domain tests.
    pub cpus: i32,
}

/// The fields of one message, and where they stand in the payload.
pub(super) struct Layout<R: 'static> {
    /// The message's name in `docs/src/requests.md`.
    pub(super) name: &'static str,
    /// The message that it extends.
    base: &'static [&'static Self],
    /// The names of the fields.
    pub(super) fields: &'static [&'static str],
    read: fn(&mut R, &Frame),
    write: fn(&R, &mut Frame),
}

impl<R: Default> Layout<R> {
    /// The fields of any frame at all; those that the message does not have keep their default.
    pub(super) fn read(&self, frame: &Frame) -> R {
        let mut record = R::default();
        for layout in self.base {
            (layout.read)(&mut record, frame);
        }
        (self.read)(&mut record, frame);
        record
    }

    /// Puts the fields into a frame.
    pub(super) fn write(&self, record: &R, frame: &mut Frame) {
        for layout in self.base {
            (layout.write)(record, frame);
        }
        (self.write)(record, frame);
    }
}

/// Declares the layouts of a record's messages. That fields ascend and do not overlap is checked on compiling.
macro_rules! layouts {
    ($record:ident: $(
        $layout:ident $name:ident $(extends $base:ident)? { $($at:literal $field:ident,)+ }
    )+) => {$(
        static $layout: Layout<$record> = Layout {
            name: stringify!($name),
            base: &[$(&$base)?],
            fields: &[$(stringify!($field),)+],
            read: |record, frame| {
                $(record.$field = Field::read(frame, PAYLOAD + $at, ORDER);)+
            },
            write: |record, frame| {
                $(record.$field.write(frame, PAYLOAD + $at, ORDER);)+
            },
        };

        const _: () = {
            let mut end = 0;
            $(
                assert!(end <= $at, "the fields overlap");
                end = $at + length(|record: &$record| &record.$field);
            )+
            assert!(PAYLOAD + end <= super::MESSAGE_LEN, "a field lies outside");
        };
    )+};
}

/// The length of a record's field, in bytes.
const fn length<R, F: Field>(_: fn(&R) -> &F) -> usize {
    F::LEN
}

layouts! { ClassicRequest:
    STREAM_REQUEST StreamRequest {
        0 send_buffer, 4 receive_buffer, 8 receive_size, 12 receive_alignment, 16 receive_offset,
        20 no_delay, 24 measure_cpu, 28 cpu_rate, 32 test_length,
        36 receive_copy_avoidance, 40 send_copy_avoidance, 52 data_port, 56 family,
    }
    TRANSACTION_REQUEST TransactionRequest {
        0 receive_buffer, 4 send_buffer, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 no_delay, 36 measure_cpu, 40 cpu_rate, 44 test_length,
        48 receive_copy_avoidance, 52 send_copy_avoidance, 56 data_port, 60 family,
    }
    DATAGRAM_REQUEST DatagramRequest {
        0 receive_buffer, 4 receive_size, 8 connect, 12 receive_alignment, 16 receive_offset,
        20 checksum_off, 24 measure_cpu, 28 cpu_rate, 32 test_length,
        36 receive_copy_avoidance, 40 send_copy_avoidance, 44 data_port, 48 family,
    }
    STREAM_STREAM_REQUEST StreamStreamRequest {
        0 receive_buffer, 4 send_buffer, 8 receive_size, 12 receive_alignment, 16 receive_offset,
        20 receive_copy_avoidance, 24 send_copy_avoidance, 28 measure_cpu, 32 cpu_rate,
        36 test_length, 40 dirty, 44 clean, 52 path,
    }
    STREAM_RR_REQUEST StreamRrRequest {
        0 receive_buffer, 4 send_buffer, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 receive_copy_avoidance, 36 send_copy_avoidance, 40 measure_cpu, 44 cpu_rate,
        48 test_length, 56 path,
    }
    DG_STREAM_REQUEST DgStreamRequest {
        0 receive_buffer, 4 receive_size, 8 receive_alignment, 12 receive_offset,
        16 measure_cpu, 20 cpu_rate, 24 test_length,
        28 receive_copy_avoidance, 32 send_copy_avoidance, 40 path,
    }
    DG_RR_REQUEST DgRrRequest {
        0 receive_buffer, 4 send_buffer, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 measure_cpu, 36 cpu_rate, 40 test_length,
        44 receive_copy_avoidance, 48 send_copy_avoidance, 56 path,
    }
    SCTP_STREAM_REQUEST SctpStreamRequest extends STREAM_REQUEST { 60 non_blocking, }
    SCTP_TRANSACTION_REQUEST SctpTransactionRequest extends TRANSACTION_REQUEST { 64 non_blocking, }
    DLCO_STREAM_REQUEST DlcoStreamRequest {
        0 receive_window, 4 send_window, 8 receive_size, 12 receive_alignment, 16 receive_offset,
        20 measure_cpu, 24 cpu_rate, 28 test_length,
        32 receive_copy_avoidance, 36 send_copy_avoidance, 40 dirty, 44 clean,
        48 sap, 52 ppa, 56 device_len, 60 device,
    }
    DLCO_RR_REQUEST DlcoRrRequest {
        0 receive_window, 4 send_window, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 measure_cpu, 36 cpu_rate, 40 test_length,
        44 receive_copy_avoidance, 48 send_copy_avoidance,
        52 ppa, 56 sap, 60 device_len, 64 device,
    }
    DLCL_STREAM_REQUEST DlclStreamRequest {
        0 receive_window, 4 receive_size, 8 receive_alignment, 12 receive_offset,
        16 checksum_off, 20 measure_cpu, 24 cpu_rate, 28 test_length,
        32 receive_copy_avoidance, 36 send_copy_avoidance,
        40 ppa, 44 sap, 48 device_len, 52 device,
    }
    DLCL_RR_REQUEST DlclRrRequest {
        0 receive_window, 4 send_window, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 no_delay, 36 measure_cpu, 40 cpu_rate, 44 test_length,
        48 receive_copy_avoidance, 52 send_copy_avoidance,
        56 ppa, 60 sap, 64 device_len, 68 device,
    }
}

layouts! { ClassicResponse:
    STREAM_RESPONSE StreamResponse {
        0 receive_buffer, 4 receive_size, 8 no_delay, 12 measure_cpu, 20 send_buffer,
        24 data_port, 28 cpu_rate, 32 receive_copy_avoidance, 36 send_copy_avoidance,
    }
    TRANSACTION_RESPONSE TransactionResponse {
        0 receive_buffer, 4 no_delay, 8 measure_cpu, 12 test_length, 16 send_buffer,
        20 data_port, 24 cpu_rate, 28 receive_copy_avoidance, 32 send_copy_avoidance,
    }
    DATAGRAM_RESPONSE DatagramResponse {
        0 receive_buffer, 4 send_buffer, 8 measure_cpu, 12 test_length, 16 data_port,
        20 cpu_rate, 24 receive_copy_avoidance, 28 send_copy_avoidance,
    }
    STREAM_STREAM_RESPONSE StreamStreamResponse {
        0 receive_buffer, 4 send_buffer, 8 receive_size,
        12 receive_copy_avoidance, 16 send_copy_avoidance,
        20 measure_cpu, 24 test_length, 32 cpu_rate, 40 path,
    }
    STREAM_RR_RESPONSE StreamRrResponse {
        0 receive_buffer, 4 send_buffer, 8 receive_copy_avoidance, 12 send_copy_avoidance,
        16 measure_cpu, 20 test_length, 24 cpu_rate, 32 path,
    }
    DG_STREAM_RESPONSE DgStreamResponse {
        0 receive_buffer, 4 send_buffer, 8 measure_cpu, 12 test_length, 16 cpu_rate,
        20 receive_copy_avoidance, 24 send_copy_avoidance, 32 path,
    }
    // TCP_NODELAY would stand at 8.
    DG_RR_RESPONSE DgRrResponse {
        0 receive_buffer, 4 send_buffer, 12 measure_cpu, 16 test_length, 20 cpu_rate,
        24 receive_copy_avoidance, 28 send_copy_avoidance, 36 path,
    }
    SCTP_STREAM_RESPONSE SctpStreamResponse extends STREAM_RESPONSE { 40 non_blocking, }
    SCTP_TRANSACTION_RESPONSE SctpTransactionResponse extends TRANSACTION_RESPONSE { 36 non_blocking, }
    DLCO_STREAM_RESPONSE DlcoStreamResponse {
        0 receive_buffer, 4 send_buffer, 8 receive_size, 12 measure_cpu, 16 test_length, 20 sap,
        24 cpu_rate, 28 receive_copy_avoidance, 32 send_copy_avoidance, 36 station_len, 40 station,
    }
    // These two have places for what was asked, too: the length at 12, copy avoidance at 24 and 28 …
    DL_RESPONSE DlResponse {
        0 receive_buffer, 4 send_buffer, 8 measure_cpu, 16 sap, 20 cpu_rate,
        32 station_len, 36 station,
    }
    // … and the length at 16, copy avoidance at 28 and 32; TCP_NODELAY would stand at 8.
    DLCL_RR_RESPONSE DlclRrResponse {
        0 receive_buffer, 4 send_buffer, 12 measure_cpu, 20 sap, 24 cpu_rate,
        36 station_len, 40 station,
    }
}

layouts! { ClassicResults:
    STREAM_RESULTS StreamResults {
        0 bytes, 8 calls, 12 elapsed, 16 cpu_utilisation, 24 cpu_method, 28 cpus,
    }
    TRANSACTION_RESULTS TransactionResults {
        0 bytes_low, 8 transactions, 12 elapsed, 16 cpu_utilisation, 24 cpu_method, 28 cpus,
    }
    DATAGRAM_RESULTS DatagramResults {
        0 calls, 4 bytes_low, 8 elapsed, 12 cpu_utilisation, 16 cpu_method, 20 cpus,
    }
    STREAM_STREAM_RESULTS StreamStreamResults {
        0 bytes_low, 4 calls, 8 elapsed, 12 cpu_utilisation, 20 cpus,
    }
    UNIX_TRANSACTION_RESULTS UnixTransactionResults {
        0 bytes_low, 8 transactions, 12 elapsed, 16 cpu_utilisation, 24 cpus,
    }
    MESSAGE_RESULTS MessageResults {
        0 calls, 4 bytes_low, 8 elapsed, 12 cpu_utilisation, 16 cpus,
    }
    DLCO_STREAM_RESULTS DlcoStreamResults {
        0 bytes_low, 4 calls, 8 elapsed, 12 cpu_utilisation, 20 cpu_method, 24 cpus,
    }
    DL_TRANSACTION_RESULTS DlTransactionResults {
        0 bytes_low, 4 calls, 8 transactions, 12 elapsed, 16 cpu_utilisation, 24 cpu_method, 28 cpus,
    }
}

/// What the server does in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It receives a stream.
    Receive,
    /// It sends a stream.
    Send,
    /// It receives datagrams of one size; one of another size ends them.
    Datagrams,
    /// It answers requests.
    Answer,
    /// It accepts a connection for each request, and answers it.
    AcceptAndAnswer,
    /// It accepts connections that move no data.
    AcceptAndClose,
}

impl Task {
    /// Whether transactions are counted.
    pub fn is_transactional(self) -> bool {
        !matches!(self, Self::Receive | Self::Send | Self::Datagrams)
    }
}

/// A row of the table of tests.
struct Row {
    test: Classic,
    request_type: i32,
    transport: Transport,
    task: Task,
    request: &'static Layout<ClassicRequest>,
    response: &'static Layout<ClassicResponse>,
    results: &'static Layout<ClassicResults>,
}

macro_rules! tests {
    ($($test:ident $request_type:literal $transport:ident $task:ident
        $request:ident $response:ident $results:ident,)+) => {
        /// A test with messages of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Classic {
            $(
                #[doc = concat!("Requests of type ", $request_type)]
                $test,
            )+
        }

        /// In the order of the tests.
        static TABLE: &[Row] = &[$(Row {
            test: Classic::$test,
            request_type: $request_type,
            transport: Transport::$transport,
            task: Task::$task,
            request: &$request,
            response: &$response,
            results: &$results,
        },)+];
    };
}

tests! {
    TcpStream 10 Tcp Receive STREAM_REQUEST STREAM_RESPONSE STREAM_RESULTS,
    TcpMaerts 94 Tcp Send STREAM_REQUEST STREAM_RESPONSE STREAM_RESULTS,
    TcpRr 13 Tcp Answer TRANSACTION_REQUEST TRANSACTION_RESPONSE TRANSACTION_RESULTS,
    TcpCrr 34 Tcp AcceptAndAnswer TRANSACTION_REQUEST TRANSACTION_RESPONSE TRANSACTION_RESULTS,
    TcpCc 300 Tcp AcceptAndClose TRANSACTION_REQUEST TRANSACTION_RESPONSE TRANSACTION_RESULTS,
    UdpRr 19 Udp Answer TRANSACTION_REQUEST TRANSACTION_RESPONSE TRANSACTION_RESULTS,
    UdpStream 16 Udp Datagrams DATAGRAM_REQUEST DATAGRAM_RESPONSE DATAGRAM_RESULTS,
    StreamStream 37 UnixStream Receive
        STREAM_STREAM_REQUEST STREAM_STREAM_RESPONSE STREAM_STREAM_RESULTS,
    StreamRr 40 UnixStream Answer STREAM_RR_REQUEST STREAM_RR_RESPONSE UNIX_TRANSACTION_RESULTS,
    DgStream 43 UnixDatagram Datagrams DG_STREAM_REQUEST DG_STREAM_RESPONSE MESSAGE_RESULTS,
    DgRr 46 UnixDatagram Answer DG_RR_REQUEST DG_RR_RESPONSE UNIX_TRANSACTION_RESULTS,
    DlcoStream 22 LlcStream Receive DLCO_STREAM_REQUEST DLCO_STREAM_RESPONSE DLCO_STREAM_RESULTS,
    DlcoRr 25 LlcStream Answer DLCO_RR_REQUEST DL_RESPONSE DL_TRANSACTION_RESULTS,
    DlclStream 28 LlcDatagram Datagrams DLCL_STREAM_REQUEST DL_RESPONSE MESSAGE_RESULTS,
    DlclRr 31 LlcDatagram Answer DLCL_RR_REQUEST DLCL_RR_RESPONSE DL_TRANSACTION_RESULTS,
    SctpStream 500 Sctp Receive SCTP_STREAM_REQUEST SCTP_STREAM_RESPONSE STREAM_RESULTS,
    SctpStreamMany 510 SctpMany Receive
        SCTP_STREAM_REQUEST SCTP_STREAM_RESPONSE STREAM_RESULTS,
    SctpRr 520 Sctp Answer
        SCTP_TRANSACTION_REQUEST SCTP_TRANSACTION_RESPONSE TRANSACTION_RESULTS,
    SctpRrMany 530 SctpMany Answer
        SCTP_TRANSACTION_REQUEST SCTP_TRANSACTION_RESPONSE TRANSACTION_RESULTS,
}

impl Classic {
    /// Every test.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.test)
    }

    /// The test with requests of this type.
    pub fn of_request(request_type: i32) -> Option<Self> {
        Self::all().find(|test| test.request_type() == request_type)
    }

    /// The type of its request.
    pub fn request_type(self) -> i32 {
        self.row().request_type
    }

    /// What carries the data.
    pub fn transport(self) -> Transport {
        self.row().transport
    }

    /// What the server does.
    pub fn task(self) -> Task {
        self.row().task
    }

    /// The fields of a response, whatever type it claims.
    pub fn response(self, frame: &Frame) -> Result<ClassicResponse, RemoteError> {
        check(frame)?;
        Ok(self.row().response.read(frame))
    }

    /// The response to send.
    pub fn encode_response(self, response: &ClassicResponse) -> Frame {
        let mut frame = blank(self.request_type() + 1);
        self.row().response.write(response, &mut frame);
        frame
    }

    /// The fields of results, whatever type they claim: stock servers do not set it.
    pub fn results(self, frame: &Frame) -> Result<ClassicResults, RemoteError> {
        check(frame)?;
        Ok(self.row().results.read(frame))
    }

    /// The results to send.
    pub fn encode_results(self, results: &ClassicResults) -> Frame {
        let mut frame = blank(self.request_type() + 2);
        self.row().results.write(results, &mut frame);
        frame
    }

    pub(super) fn request_layout(self) -> &'static Layout<ClassicRequest> {
        self.row().request
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::word;

    #[test]
    fn replies_follow_their_request() {
        for test in Classic::all() {
            let kind = test.request_type();
            assert_eq!(Classic::of_request(kind), Some(test));
            let response = test.encode_response(&ClassicResponse::default());
            let results = test.encode_results(&ClassicResults::default());
            assert_eq!([word(&response, 0), word(&response, 1)], [kind + 1, 0]);
            assert_eq!([word(&results, 0), word(&results, 1)], [kind + 2, 0]);
        }
    }

    /// With another value in each field.
    #[test]
    fn replies_come_back() {
        let response = ClassicResponse {
            receive_buffer: 131_072,
            send_buffer: 16_384,
            receive_size: 65_536,
            no_delay: true,
            measure_cpu: true,
            test_length: -20,
            cpu_rate: 100.0,
            receive_copy_avoidance: 1,
            send_copy_avoidance: 2,
            data_port: 5,
            ..ClassicResponse::default()
        };
        let results = ClassicResults {
            bytes_low: 46,
            calls: 7,
            transactions: 23,
            elapsed: -3.5,
            cpu_utilisation: 12.5,
            cpu_method: 8,
            cpus: 2,
            ..ClassicResults::default()
        };
        for (test, port_at, lacks) in [
            (
                Classic::TcpStream,
                8,
                ClassicResponse {
                    test_length: 0,
                    ..response.clone()
                },
            ),
            (
                Classic::TcpRr,
                7,
                ClassicResponse {
                    receive_size: 0,
                    ..response.clone()
                },
            ),
            (
                Classic::UdpStream,
                6,
                ClassicResponse {
                    receive_size: 0,
                    no_delay: false,
                    ..response.clone()
                },
            ),
        ] {
            let frame = test.encode_response(&response);
            assert_eq!(word(&frame, port_at), 5, "{test:?}");
            assert_eq!(test.response(&frame), Ok(lacks), "{test:?}");
        }
        let frame = Classic::TcpStream.encode_results(&ClassicResults {
            bytes: 1e12,
            ..results.clone()
        });
        assert_eq!(frame[8..16], 1e12_f64.to_be_bytes());
        let frame = Classic::TcpRr.encode_results(&results);
        assert_eq!(word(&frame, 4), 23);
        let known = ClassicResults {
            calls: 0,
            ..results.clone()
        };
        assert_eq!(Classic::TcpRr.results(&frame), Ok(known));
        let frame = Classic::UdpStream.encode_results(&results);
        assert_eq!(word(&frame, 2), 7);
        let known = ClassicResults {
            transactions: 0,
            ..results
        };
        assert_eq!(Classic::UdpStream.results(&frame), Ok(known));
    }
}
