//! The tests and the three messages of each: request, response and results. Besides omni, there are
//! the classic tests, which predate it, and the tests over Unix domain, SCTP and LLC sockets.
//!
//! TCP_SENDFILE, TCP_MSS and TCP_CC still use classic messages. Servers accept the other classic
//! requests from older clients. No stock build for Linux has the DLPI tests, so only two linerates
//! use them.
//!
//! The type of a response is that of its request plus 1; that of the results is plus 2.

use model::Transport;

use super::frame::new_frame;
use super::layouts::{self, Layout};
use super::{DO_OMNI, Frame, RemoteError, TestRequest, TestResponse, TestResults, check_error};

/// The three messages of a test.
pub struct TestMessages {
    request_type: i32,
    pub(super) request: &'static Layout<TestRequest>,
    response: &'static Layout<TestResponse>,
    results: &'static Layout<TestResults>,
}

/// The messages of omni tests. They serve every kind of socket test.
pub static OMNI: TestMessages = TestMessages {
    request_type: DO_OMNI,
    request: &layouts::OMNI_REQUEST,
    response: &layouts::OMNI_RESPONSE,
    results: &layouts::OMNI_RESULTS,
};

impl TestMessages {
    /// Returns the type of the request.
    pub fn request_type(&self) -> i32 {
        self.request_type
    }

    /// Reads the fields of a response and ignores its type. Fails if the reply contains an error.
    pub fn parse_response(&self, frame: &Frame) -> Result<TestResponse, RemoteError> {
        check_error(frame)?;
        Ok(self.response.read(TestResponse::default(), frame))
    }

    /// Encodes a response.
    pub fn encode_response(&self, response: &TestResponse) -> Frame {
        let mut frame = new_frame(self.request_type + 1);
        self.response.write(response, &mut frame);
        frame
    }

    /// Reads the fields of results. Ignores their type, which stock servers do not set.
    pub fn parse_results(&self, frame: &Frame) -> Result<TestResults, RemoteError> {
        check_error(frame)?;
        Ok(self.results.read(TestResults::default(), frame))
    }

    /// Encodes results.
    pub fn encode_results(&self, results: &TestResults) -> Frame {
        let mut frame = new_frame(self.request_type + 2);
        self.results.write(results, &mut frame);
        frame
    }
}

/// The role of the server in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTask {
    /// Receives a stream.
    Receive,
    /// Sends a stream.
    Send,
    /// Receives datagrams of one size. A datagram of another size ends the test.
    Datagrams,
    /// Answers requests.
    Answer,
    /// Accepts a connection for each request and answers the request.
    AcceptAndAnswer,
    /// Accepts connections that transfer no data.
    AcceptAndClose,
}

impl ServerTask {
    /// Whether the test counts transactions.
    pub fn is_transactional(self) -> bool {
        !matches!(self, Self::Receive | Self::Send | Self::Datagrams)
    }
}

/// A row of the table of tests.
struct TestRow {
    test: Classic,
    transport: Transport,
    task: ServerTask,
    messages: TestMessages,
}

macro_rules! tests {
    ($($test:ident $request_type:literal $transport:ident $task:ident
        $request:ident $response:ident $results:ident,)+) => {
        /// A test with messages other than omni's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Classic {
            $(
                #[doc = concat!("Requests of type ", $request_type)]
                $test,
            )+
        }

        /// The rows, in the order of the variants of [`Classic`].
        static TABLE: &[TestRow] = &[$(TestRow {
            test: Classic::$test,
            transport: Transport::$transport,
            task: ServerTask::$task,
            messages: TestMessages {
                request_type: $request_type,
                request: &layouts::$request,
                response: &layouts::$response,
                results: &layouts::$results,
            },
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
    /// Iterates over all tests.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.test)
    }

    /// Returns the test whose requests have this type.
    pub fn from_request_type(request_type: i32) -> Option<Self> {
        Self::all().find(|test| test.messages().request_type == request_type)
    }

    /// Returns the messages of the test.
    pub fn messages(self) -> &'static TestMessages {
        &self.row().messages
    }

    /// Returns the transport of the data.
    pub fn transport(self) -> Transport {
        self.row().transport
    }

    /// Returns the role of the server.
    pub fn task(self) -> ServerTask {
        self.row().task
    }

    fn row(self) -> &'static TestRow {
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Flags;
    use crate::wire::frame::read_word;

    #[test]
    fn response_types_follow_the_request_type() {
        let classic = Classic::all().map(|test| {
            assert_eq!(
                Classic::from_request_type(test.messages().request_type),
                Some(test)
            );
            test.messages()
        });
        for test in classic.chain([&OMNI]) {
            let kind = test.request_type();
            let response = test.encode_response(&TestResponse::default());
            let results = test.encode_results(&TestResults::default());
            assert_eq!(
                [read_word(&response, 0), read_word(&response, 1)],
                [kind + 1, 0]
            );
            assert_eq!(
                [read_word(&results, 0), read_word(&results, 1)],
                [kind + 2, 0]
            );
        }
    }

    /// Each field has a different value. Each message lacks some fields, and has the data port at a
    /// known index.
    #[test]
    fn responses_round_trip() {
        let response = TestResponse {
            receive_buffer: 131_072,
            send_buffer: 16_384,
            receive_size: 65_536,
            flags: Flags::NO_DELAY | Flags::MEASURE_CPU,
            test_length: -20,
            cpu_rate: 100.0,
            receive_copy_avoidance: 1,
            send_copy_avoidance: 2,
            data_port: 5,
            ..TestResponse::default()
        };
        let without_length = TestResponse {
            test_length: 0,
            ..response
        };
        let without_size = TestResponse {
            receive_size: 0,
            ..response
        };
        let without_delay = TestResponse {
            flags: Flags::MEASURE_CPU,
            ..without_size
        };
        for (test, port_at, expected) in [
            (Classic::TcpStream.messages(), 8, without_length.clone()),
            (Classic::TcpRr.messages(), 7, without_size),
            (Classic::UdpStream.messages(), 6, without_delay),
            (&OMNI, 13, without_length),
        ] {
            let frame = test.encode_response(&response);
            assert_eq!(read_word(&frame, port_at), 5, "{}", test.request_type);
            assert_eq!(
                test.parse_response(&frame),
                Ok(expected),
                "{}",
                test.request_type
            );
        }
    }

    #[test]
    fn results_round_trip() {
        let results = TestResults {
            bytes_low: 46,
            calls: 7,
            transactions: 23,
            elapsed: -3.5,
            cpu_utilisation: 12.5,
            cpu_method: 8,
            cpus: 2,
            ..TestResults::default()
        };
        let [stream, rr, udp] = [Classic::TcpStream, Classic::TcpRr, Classic::UdpStream];
        let frame = stream.messages().encode_results(&TestResults {
            bytes: 1e12,
            ..results.clone()
        });
        assert_eq!(frame[8..16], 1e12_f64.to_be_bytes());
        let without_calls = TestResults {
            calls: 0,
            ..results.clone()
        };
        let without_transactions = TestResults {
            transactions: 0,
            ..results.clone()
        };
        for (test, count_index, count, expected) in [
            (rr, 4, 23, without_calls),
            (udp, 2, 7, without_transactions),
        ] {
            let frame = test.messages().encode_results(&results);
            assert_eq!(read_word(&frame, count_index), count, "{test:?}");
            assert_eq!(
                test.messages().parse_results(&frame),
                Ok(expected),
                "{test:?}"
            );
        }
    }
}
