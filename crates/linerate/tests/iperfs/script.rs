//! iperf3's messages, said one by one: a client and a server that stop wherever a test wants.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use iperf3::wire::{ControlState, Cookie, GREETING, add_length_prefix, reply_to};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Results of any test of one stream.
pub(crate) const RESULTS: &str = r#"{"cpu_util_total":1,"cpu_util_user":0.5,"cpu_util_system":0.5,"sender_has_retransmits":1,"streams":[{"id":1,"bytes":0,"retransmits":0,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1}]}"#;

/// Either end's control connection.
pub(crate) struct Control(pub(crate) TcpStream);

impl Control {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LIMIT)).expect("not zero");
        stream.set_nodelay(true).expect("it is TCP");
        Self(stream)
    }

    /// Sends bytes; a peer that is gone does not take them.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    pub(crate) fn state(&mut self, state: ControlState) {
        self.say(&[state.byte()]);
    }

    /// Waits for this state.
    #[track_caller]
    pub(crate) fn await_state(&mut self, state: ControlState) {
        let mut byte = [0];
        let read = self.0.read_exact(&mut byte);
        assert_eq!(
            (read.is_ok(), ControlState::from_byte(byte[0])),
            (true, Some(state))
        );
    }

    /// Reads a JSON text.
    #[track_caller]
    pub(crate) fn json(&mut self) -> String {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).expect("a length");
        let mut text = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut text).expect("a text");
        String::from_utf8(text).expect("a text")
    }
}

/// A client of a server at loopback.
pub(crate) struct Client {
    pub(crate) control: Control,
    port: u16,
    cookie: Cookie,
}

impl Client {
    pub(crate) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        Self {
            control: Control::new(stream),
            port,
            cookie: Cookie::random(),
        }
    }

    /// Sends the cookie, and waits until the server wants parameters.
    #[track_caller]
    pub(crate) fn introduce(&mut self) {
        self.control.say(&self.cookie.0);
        self.control.await_state(ControlState::ParamExchange);
    }

    /// Sends parameters, and waits until the server wants streams.
    #[track_caller]
    pub(crate) fn ask(&mut self, parameters: &str) {
        self.control.say(&add_length_prefix(parameters));
        self.control.await_state(ControlState::CreateStreams);
    }

    /// Opens a TCP stream.
    pub(crate) fn stream(&self) -> TcpStream {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.write_all(&self.cookie.0).expect("a new connection");
        stream
    }

    /// Opens a UDP stream.
    #[track_caller]
    pub(crate) fn datagrams(&self) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        socket
            .connect((Ipv4Addr::LOCALHOST, self.port))
            .expect("loopback");
        socket.set_read_timeout(Some(LIMIT)).expect("not zero");
        socket.send(&GREETING).expect("loopback");
        let mut answer = [0; 16];
        let count = socket.recv(&mut answer).expect("an answer");
        assert_eq!(answer[..count], reply_to(&GREETING));
        socket
    }

    #[track_caller]
    pub(crate) fn await_running(&mut self) {
        self.control.await_state(ControlState::TestStart);
        self.control.await_state(ControlState::TestRunning);
    }
}

/// A server, for one client at loopback.
pub(crate) struct Server {
    listener: TcpListener,
    pub(crate) port: u16,
}

/// A client's test as the server has it.
pub(crate) struct Session {
    pub(crate) control: Control,
    pub(crate) cookie: [u8; Cookie::LEN],
}

impl Server {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        Self { listener, port }
    }

    /// A connection, and the cookie that comes first.
    #[track_caller]
    pub(crate) fn accept(&self) -> Session {
        let (stream, _) = self.listener.accept().expect("a client");
        let mut control = Control::new(stream);
        let mut cookie = [0; Cookie::LEN];
        control.0.read_exact(&mut cookie).expect("a cookie");
        Session { control, cookie }
    }

    /// The next stream of this client.
    #[track_caller]
    pub(crate) fn stream(&self, session: &mut Session) -> TcpStream {
        session.control.state(ControlState::CreateStreams);
        let stream = self.accept();
        assert_eq!(stream.cookie, session.cookie);
        stream.control.0
    }

    /// The next UDP stream of this client.
    #[track_caller]
    pub(crate) fn datagrams(&self, session: &mut Session) -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, self.port)).expect("a free port");
        socket.set_read_timeout(Some(LIMIT)).expect("not zero");
        session.control.state(ControlState::CreateStreams);
        let mut hello = [0; 16];
        let (count, from) = socket.recv_from(&mut hello).expect("a hello");
        socket
            .send_to(&reply_to(&hello[..count]), from)
            .expect("loopback");
        socket.connect(from).expect("loopback");
        (socket, from)
    }
}

impl Session {
    pub(crate) fn run(&mut self) {
        self.control.state(ControlState::TestStart);
        self.control.state(ControlState::TestRunning);
    }
}
