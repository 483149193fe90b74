//! Scripted clients and servers of iperf3, which send one message at a time.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use testkit::{Receive, ReceiveFrom};

use iperf3::wire::{ControlState, Cookie, GREETING, add_length_prefix, reply_to};
use socket2::{Domain, Socket, Type};

/// Timeout of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Valid results of a test of one stream.
pub(crate) const RESULTS: &str = r#"{"cpu_util_total":1,"cpu_util_user":0.5,"cpu_util_system":0.5,"sender_has_retransmits":1,"streams":[{"id":1,"bytes":0,"retransmits":0,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1}]}"#;

/// A control connection of either end.
pub(crate) struct Control(pub(crate) TcpStream);

impl Control {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream
            .set_read_timeout(Some(READ_TIMEOUT))
            .expect("not zero");
        stream.set_nodelay(true).expect("a TCP socket");
        Self(stream)
    }

    /// Sends bytes. Ignores errors, because the peer may have disconnected.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    pub(crate) fn send_state(&mut self, state: ControlState) {
        self.send(&[state.byte()]);
    }

    /// Waits for the next message, which must be this state.
    #[track_caller]
    pub(crate) fn await_state(&mut self, state: ControlState) {
        let mut byte = [0];
        let result = self.0.read_exact(&mut byte);
        assert_eq!(
            (result.is_ok(), ControlState::from_byte(byte[0])),
            (true, Some(state))
        );
    }

    /// Returns whether no message of the peer waits.
    pub(crate) fn is_silent(&self) -> bool {
        self.0.set_nonblocking(true).expect("a TCP socket");
        let result = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).expect("a TCP socket");
        result.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Reads a JSON text.
    #[track_caller]
    pub(crate) fn read_json(&mut self) -> String {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).expect("a length");
        let mut text = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut text).expect("a JSON text");
        String::from_utf8(text).expect("UTF-8")
    }
}

/// A client of a server on loopback.
pub(crate) struct Client {
    pub(crate) control: Control,
    port: u16,
    pub(crate) cookie: Cookie,
}

impl Client {
    pub(crate) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a listening server");
        Self {
            control: Control::new(stream),
            port,
            cookie: Cookie::random(),
        }
    }

    /// Sends the cookie, and waits until the server requests parameters.
    #[track_caller]
    pub(crate) fn send_cookie(&mut self) {
        self.control.send(&self.cookie.0);
        self.control.await_state(ControlState::ParamExchange);
    }

    /// Sends parameters, and waits until the server requests streams.
    #[track_caller]
    pub(crate) fn send_parameters(&mut self, parameters: &str) {
        self.control.send(&add_length_prefix(parameters));
        self.control.await_state(ControlState::CreateStreams);
    }

    /// Opens a TCP stream.
    pub(crate) fn open_tcp_stream(&self) -> TcpStream {
        self.open_tcp_stream_from(Ipv4Addr::LOCALHOST)
    }

    /// Opens a TCP stream from another address of this host.
    pub(crate) fn open_tcp_stream_from(&self, source: Ipv4Addr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let [source, server] = [(source, 0), (Ipv4Addr::LOCALHOST, self.port)]
            .map(|address| SocketAddr::from(address).into());
        socket.bind(&source).expect("loopback");
        socket.connect(&server).expect("a listening server");
        let mut stream = TcpStream::from(socket);
        stream.write_all(&self.cookie.0).expect("a new connection");
        stream
    }

    /// Opens a UDP stream.
    #[track_caller]
    pub(crate) fn open_udp_stream(&self) -> UdpSocket {
        let socket = self.send_greeting(&GREETING);
        await_reply(&socket);
        socket
    }

    /// Sends this greeting from a new socket.
    pub(crate) fn send_greeting(&self, greeting: &[u8]) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        socket
            .connect((Ipv4Addr::LOCALHOST, self.port))
            .expect("loopback");
        socket
            .set_read_timeout(Some(READ_TIMEOUT))
            .expect("not zero");
        socket.send(greeting).expect("loopback");
        socket
    }

    #[track_caller]
    pub(crate) fn await_running(&mut self) {
        self.control.await_state(ControlState::TestStart);
        self.control.await_state(ControlState::TestRunning);
    }
}

/// Waits for the reply to a greeting.
#[track_caller]
pub(crate) fn await_reply(socket: &UdpSocket) {
    let mut reply = [0; 16];
    let count = socket.receive(&mut reply).expect("a reply");
    assert_eq!(reply[..count], reply_to(&GREETING));
}

/// A server for one client on loopback.
pub(crate) struct Server {
    listener: TcpListener,
    pub(crate) port: u16,
}

/// The server's end of a test.
pub(crate) struct Session {
    pub(crate) control: Control,
    pub(crate) cookie: [u8; Cookie::LEN],
}

impl Server {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("the socket is bound").port();
        Self { listener, port }
    }

    /// Accepts a connection, and reads the cookie.
    #[track_caller]
    pub(crate) fn accept(&self) -> Session {
        let (stream, _) = self.listener.accept().expect("a client");
        let mut control = Control::new(stream);
        let mut cookie = [0; Cookie::LEN];
        control.0.read_exact(&mut cookie).expect("a cookie");
        Session { control, cookie }
    }

    /// Requests and accepts the next TCP stream of this client.
    #[track_caller]
    pub(crate) fn accept_tcp_stream(&self, session: &mut Session) -> TcpStream {
        session.control.send_state(ControlState::CreateStreams);
        let stream = self.accept();
        assert_eq!(stream.cookie, session.cookie);
        stream.control.0
    }

    /// Requests and accepts the next UDP stream of this client. Returns the greeting, too.
    #[track_caller]
    pub(crate) fn accept_udp_stream(&self, session: &mut Session) -> (UdpSocket, Vec<u8>) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, self.port)).expect("a free port");
        socket
            .set_read_timeout(Some(READ_TIMEOUT))
            .expect("not zero");
        session.control.send_state(ControlState::CreateStreams);
        let mut greeting = vec![0; 64];
        let (count, client) = socket.receive_from(&mut greeting).expect("a greeting");
        greeting.truncate(count);
        socket
            .send_to(&reply_to(&greeting), client)
            .expect("loopback");
        socket.connect(client).expect("loopback");
        (socket, greeting)
    }
}

impl Session {
    pub(crate) fn start_test(&mut self) {
        self.control.send_state(ControlState::TestStart);
        self.control.send_state(ControlState::TestRunning);
    }
}
