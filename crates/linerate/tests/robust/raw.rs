//! A client made by hand, which stops wherever a test wants it to.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use netperf::wire::{Flags, Frame, MESSAGE_BYTES, OMNI, Request, TestRequest, check_error};
use socket2::{Domain, Socket, Type};

/// How long an answer may take that needs no waiting for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A control connection.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) control: TcpStream,
}

impl Raw {
    pub(crate) fn connect(port: u16) -> Self {
        Self::connect_to((Ipv4Addr::LOCALHOST, port).into())
    }

    pub(crate) fn connect_to(server: SocketAddr) -> Self {
        let control = TcpStream::connect_timeout(&server, PATIENCE).expect("the server listens");
        Self::on(control)
    }

    /// From another address of this host.
    pub(crate) fn connect_from(source: Ipv4Addr, server: SocketAddr) -> Self {
        Self::on(stream_from(source, server).expect("the server listens"))
    }

    fn on(control: TcpStream) -> Self {
        control
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout that is not zero");
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

    /// Asks for a test that the server is to accept, and returns the port of its data socket.
    pub(crate) fn ask(&mut self, request: &TestRequest) -> u16 {
        self.send(&Request::Omni(request.clone()));
        let response = self.receive().expect("a response");
        let response = OMNI
            .parse_response(&response)
            .expect("the test is accepted");
        u16::try_from(response.data_port).expect("a port")
    }

    /// Asks for something that the server is to refuse, and returns the error number.
    pub(crate) fn ask_in_vain(&mut self, request: &Request) -> i32 {
        self.send(request);
        self.refusal().expect("an error response")
    }

    /// The next message, which is to be an error response; the number in it.
    pub(crate) fn refusal(&mut self) -> Result<i32, String> {
        let frame = self.receive().map_err(|error| error.to_string())?;
        match check_error(&frame) {
            Ok(()) => Err("it is no error response".to_owned()),
            Err(error) => Ok(error.0),
        }
    }

    /// How long the server takes to end the connection, whatever it says before.
    pub(crate) fn time_to_end(&mut self, patience: Duration) -> Option<Duration> {
        let start = Instant::now();
        let mut scrap = [0; 4096];
        loop {
            let left = patience
                .checked_sub(start.elapsed())
                .filter(|left| !left.is_zero())?;
            self.control
                .set_read_timeout(Some(left))
                .expect("a timeout that is not zero");
            match self.control.read(&mut scrap) {
                Ok(0) => return Some(start.elapsed()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Some(start.elapsed());
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// A kind of test, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    TcpStream,
    TcpMaerts,
    TcpRr,
    TcpCrr,
    UdpStream,
    UdpRr,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::TcpStream,
        Self::TcpMaerts,
        Self::TcpRr,
        Self::TcpCrr,
        Self::UdpStream,
        Self::UdpRr,
    ];

    /// Its name on netperf's command line.
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

    /// Seconds, or −1 × bytes or transactions, as the request for such a test has them.
    pub(crate) fn request(self, test_length: i32) -> TestRequest {
        let plain = TestRequest {
            test_length,
            ..TestRequest::default()
        };
        let exchange = TestRequest {
            direction: TestRequest::TRANSMIT | TestRequest::RECEIVE,
            request_size: 1,
            response_size: 1,
            ..plain.clone()
        };
        let datagrams = |request: TestRequest| TestRequest {
            socket_type: TestRequest::DATAGRAM,
            protocol: TestRequest::UDP,
            ..request
        };
        match self {
            Self::TcpStream => TestRequest {
                direction: TestRequest::RECEIVE,
                ..plain
            },
            Self::TcpMaerts => TestRequest {
                direction: TestRequest::TRANSMIT,
                ..plain
            },
            Self::TcpRr => exchange,
            Self::TcpCrr => TestRequest {
                flags: Flags::ROUTING_ALLOWED | Flags::CONNECTION_TEST,
                ..exchange
            },
            Self::UdpStream => datagrams(TestRequest {
                direction: TestRequest::RECEIVE,
                ..plain
            }),
            Self::UdpRr => datagrams(exchange),
        }
    }
}

/// Set when this goes, also by a failed assertion: what runs beside a test ends with it.
pub(crate) struct Finally<'a>(pub(crate) &'a AtomicBool);

impl Drop for Finally<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A connection from this address. Programs that other test cases start do not inherit it and keep it open.
pub(crate) fn stream_from(source: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// A data connection to a test's port.
pub(crate) fn data_connection(port: u16) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the test listens")
}

/// A datagram socket that sends to a test's port.
pub(crate) fn datagram_socket(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    socket
        .connect((Ipv4Addr::LOCALHOST, port))
        .expect("a datagram socket needs no answer");
    socket
}
