//! A netperf client that can stop at any point of the protocol.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use testkit::Receive;

use netperf::wire::{Flags, Frame, MESSAGE_BYTES, OMNI, Request, TestRequest, check_error};
use socket2::{Domain, Socket, Type};

/// Timeout of an answer that the server sends immediately.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A control connection.
#[derive(Debug)]
pub(crate) struct RawClient {
    pub(crate) control: TcpStream,
}

impl RawClient {
    pub(crate) fn connect(port: u16) -> Self {
        Self::connect_to((Ipv4Addr::LOCALHOST, port).into())
    }

    pub(crate) fn connect_to(server: SocketAddr) -> Self {
        let control = TcpStream::connect_timeout(&server, TIMEOUT).expect("the server listens");
        Self::new(control)
    }

    /// Connects from another address of this host.
    pub(crate) fn connect_from(source: Ipv4Addr, server: SocketAddr) -> Self {
        Self::new(stream_from(source, server).expect("the server listens"))
    }

    fn new(control: TcpStream) -> Self {
        control
            .set_read_timeout(Some(TIMEOUT))
            .expect("the timeout is not zero");
        Self { control }
    }

    pub(crate) fn send(&mut self, request: &Request) {
        self.control
            .write_all(&request.encode(None))
            .expect("the server reads");
    }

    pub(crate) fn receive(&mut self) -> io::Result<Frame> {
        let mut frame = [0; MESSAGE_BYTES];
        self.control.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// Requests a test that the server must accept, and returns the port of its data socket.
    pub(crate) fn request_test(&mut self, request: &TestRequest) -> u16 {
        self.send(&Request::Omni(request.clone()));
        let response = self.receive().expect("the server responds");
        let response = OMNI
            .parse_response(&response)
            .expect("the test is accepted");
        u16::try_from(response.data_port).expect("a valid port")
    }

    /// Sends a request that the server must refuse, and returns the error number.
    pub(crate) fn expect_refusal(&mut self, request: &Request) -> i32 {
        self.send(request);
        self.receive_refusal().expect("the server sends an error")
    }

    /// Returns whether the server sends a response without an error.
    pub(crate) fn is_answered(&mut self) -> bool {
        self.receive()
            .is_ok_and(|frame| check_error(&frame).is_ok())
    }

    /// Reads an error response and returns its error number.
    pub(crate) fn receive_refusal(&mut self) -> Result<i32, String> {
        let frame = self.receive().map_err(|error| error.to_string())?;
        match check_error(&frame) {
            Ok(()) => Err("the message is not an error response".to_owned()),
            Err(error) => Ok(error.0),
        }
    }

    /// Returns the time until the server closes the connection, or `None` after `timeout`. Discards
    /// all messages.
    pub(crate) fn time_until_closed(&mut self, timeout: Duration) -> Option<Duration> {
        let start = Instant::now();
        let mut discarded = [0; 4096];
        loop {
            let remaining = timeout
                .checked_sub(start.elapsed())
                .filter(|remaining| !remaining.is_zero())?;
            self.control
                .set_read_timeout(Some(remaining))
                .expect("the timeout is not zero");
            match self.control.receive(&mut discarded) {
                Ok(0) => return Some(start.elapsed()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Some(start.elapsed());
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// A kind of test, named after the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestKind {
    TcpStream,
    TcpMaerts,
    TcpRr,
    TcpCrr,
    UdpStream,
    UdpRr,
}

impl TestKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::TcpStream,
        Self::TcpMaerts,
        Self::TcpRr,
        Self::TcpCrr,
        Self::UdpStream,
        Self::UdpRr,
    ];

    /// Returns the test's name on netperf's command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TcpStream => "TCP_STREAM",
            Self::TcpMaerts => "TCP_MAERTS",
            Self::TcpRr => "TCP_RR",
            Self::TcpCrr => "TCP_CRR",
            Self::UdpStream => "UDP_STREAM",
            Self::UdpRr => "UDP_RR",
        }
    }

    /// Returns a request for such a test. `test_length` is in seconds, or −1 × bytes or
    /// transactions.
    pub(crate) fn request(self, test_length: i32) -> TestRequest {
        let base = TestRequest {
            test_length,
            ..TestRequest::default()
        };
        let transaction = TestRequest {
            direction: TestRequest::TRANSMIT | TestRequest::RECEIVE,
            request_size: 1,
            response_size: 1,
            ..base.clone()
        };
        let datagrams = |request: TestRequest| TestRequest {
            socket_type: TestRequest::DATAGRAM,
            protocol: TestRequest::UDP,
            ..request
        };
        match self {
            Self::TcpStream => TestRequest {
                direction: TestRequest::RECEIVE,
                ..base
            },
            Self::TcpMaerts => TestRequest {
                direction: TestRequest::TRANSMIT,
                ..base
            },
            Self::TcpRr => transaction,
            Self::TcpCrr => TestRequest {
                flags: Flags::ROUTING_ALLOWED | Flags::CONNECTION_TEST,
                ..transaction
            },
            Self::UdpStream => datagrams(TestRequest {
                direction: TestRequest::RECEIVE,
                ..base
            }),
            Self::UdpRr => datagrams(transaction),
        }
    }
}

/// Sets a flag when it is dropped, also by a failed assertion. The flag ends the test's helper
/// thread.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Opens a connection from `source`. It is close-on-exec, so programs of other test cases do not
/// keep it open.
pub(crate) fn stream_from(source: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// Opens a data connection to a test's port.
pub(crate) fn data_connection(port: u16) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the test listens")
}

/// Returns a datagram socket that sends to a test's port.
pub(crate) fn datagram_socket(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    socket
        .connect((Ipv4Addr::LOCALHOST, port))
        .expect("the loopback address is reachable");
    socket
}
