//! The tests, and the three messages of each: omni, those from before it, and those over Unix domain, SCTP and LLC
//! sockets.
//!
//! TCP_SENDFILE, TCP_MSS and TCP_CC still use those from before omni; servers accept the others from older clients. No
//! build of the stock tool for Linux has the DLPI tests, so only two linerates speak those.
//!
//! A response has the number after its request, the results the one after that.

use model::Transport;

use super::frame::blank;
use super::layouts::{self, Layout};
use super::{DO_OMNI, Frame, RemoteError, TestRequest, TestResponse, TestResults, check};

/// The three messages of a test.
pub struct Messages {
    request_type: i32,
    pub(super) request: &'static Layout<TestRequest>,
    response: &'static Layout<TestResponse>,
    results: &'static Layout<TestResults>,
}

/// The messages of omni tests: one triple for every kind of socket test.
pub static OMNI: Messages = Messages {
    request_type: DO_OMNI,
    request: &layouts::OMNI_REQUEST,
    response: &layouts::OMNI_RESPONSE,
    results: &layouts::OMNI_RESULTS,
};

impl Messages {
    /// The type of the request.
    pub fn request_type(&self) -> i32 {
        self.request_type
    }

    /// The fields of a response, whatever type it claims.
    pub fn response(&self, frame: &Frame) -> Result<TestResponse, RemoteError> {
        check(frame)?;
        Ok(self.response.read(TestResponse::default(), frame))
    }

    /// The response to send.
    pub fn encode_response(&self, response: &TestResponse) -> Frame {
        let mut frame = blank(self.request_type + 1);
        self.response.write(response, &mut frame);
        frame
    }

    /// The fields of results, whatever type they claim: stock servers do not set it.
    pub fn results(&self, frame: &Frame) -> Result<TestResults, RemoteError> {
        check(frame)?;
        Ok(self.results.read(TestResults::default(), frame))
    }

    /// The results to send.
    pub fn encode_results(&self, results: &TestResults) -> Frame {
        let mut frame = blank(self.request_type + 2);
        self.results.write(results, &mut frame);
        frame
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
    transport: Transport,
    task: Task,
    messages: Messages,
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
            transport: Transport::$transport,
            task: Task::$task,
            messages: Messages {
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
    /// Every test.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.test)
    }

    /// The test with requests of this type.
    pub fn of_request(request_type: i32) -> Option<Self> {
        Self::all().find(|test| test.messages().request_type == request_type)
    }

    /// Its messages.
    pub fn messages(self) -> &'static Messages {
        &self.row().messages
    }

    /// What carries the data.
    pub fn transport(self) -> Transport {
        self.row().transport
    }

    /// What the server does.
    pub fn task(self) -> Task {
        self.row().task
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Flags;
    use crate::wire::frame::word;

    #[test]
    fn replies_follow_their_request() {
        let classic = Classic::all().map(|test| {
            assert_eq!(
                Classic::of_request(test.messages().request_type),
                Some(test)
            );
            test.messages()
        });
        for test in classic.chain([&OMNI]) {
            let kind = test.request_type();
            let response = test.encode_response(&TestResponse::default());
            let results = test.encode_results(&TestResults::default());
            assert_eq!([word(&response, 0), word(&response, 1)], [kind + 1, 0]);
            assert_eq!([word(&results, 0), word(&results, 1)], [kind + 2, 0]);
        }
    }

    /// With another value in each field. A message lacks some of them, and has one at a known word.
    #[test]
    fn responses_come_back() {
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
        for (test, port_at, known) in [
            (Classic::TcpStream.messages(), 8, without_length.clone()),
            (Classic::TcpRr.messages(), 7, without_size),
            (Classic::UdpStream.messages(), 6, without_delay),
            (&OMNI, 13, without_length),
        ] {
            let frame = test.encode_response(&response);
            assert_eq!(word(&frame, port_at), 5, "{}", test.request_type);
            assert_eq!(test.response(&frame), Ok(known), "{}", test.request_type);
        }
    }

    #[test]
    fn results_come_back() {
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
        let known = TestResults {
            calls: 0,
            ..results.clone()
        };
        let without_transactions = TestResults {
            transactions: 0,
            ..results.clone()
        };
        for (test, at, count, known) in [(rr, 4, 23, known), (udp, 2, 7, without_transactions)] {
            let frame = test.messages().encode_results(&results);
            assert_eq!(word(&frame, at), count, "{test:?}");
            assert_eq!(test.messages().results(&frame), Ok(known), "{test:?}");
        }
    }
}
