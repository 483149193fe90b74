//! Conversations: the valid messages of one client, and the channels that carry them.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::session::TIMEOUT;
use crate::hosts::network::{PORT, slave_address};

/// The messages of one client.
#[derive(Clone)]
pub(super) struct Conversation {
    pub(super) protocol: &'static str,
    pub(super) messages: Vec<Message>,
}

/// A valid message.
#[derive(Clone)]
pub(super) struct Message {
    /// The name in the protocol.
    pub(super) name: String,
    pub(super) channel: Channel,
    pub(super) bytes: Vec<u8>,
    /// The answers of the server, each with its channel.
    pub(super) answers: Vec<(Channel, Answer)>,
}

/// A TCP connection or UDP socket of a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) is_udp: bool,
    pub(super) port: u16,
    /// Distinguishes the channels of a conversation. Number 0 of TCP is the control connection.
    pub(super) number: u8,
    /// The local address is in [`FAR_NETWORK`](super::servers::FAR_NETWORK).
    pub(super) is_far: bool,
}

/// One answer to a valid message.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// This number of bytes, or a datagram of this length.
    Bytes(usize),
    /// A datagram of any length.
    Datagram,
    /// A length of four bytes, and this number of bytes.
    Counted,
    /// A message of this length, and another after a transaction on a data connection.
    Test(usize),
}

impl Message {
    pub(super) fn new(
        name: impl Into<String>,
        channel: Channel,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            name: name.into(),
            channel,
            bytes: bytes.into(),
            answers: Vec::new(),
        }
    }

    /// Adds an answer on the message's own channel.
    pub(super) fn answered(self, answer: Answer) -> Self {
        let channel = self.channel;
        self.answered_on(channel, answer)
    }

    pub(super) fn answered_on(mut self, channel: Channel, answer: Answer) -> Self {
        self.answers.push((channel, answer));
        self
    }
}

impl Channel {
    pub(super) const CONTROL: Self = Self::tcp(PORT, 0);

    pub(super) const fn tcp(port: u16, number: u8) -> Self {
        Self {
            is_udp: false,
            port,
            number,
            is_far: false,
        }
    }

    pub(super) const fn udp(port: u16, number: u8) -> Self {
        Self {
            is_udp: true,
            ..Self::tcp(port, number)
        }
    }

    pub(super) const fn far(self) -> Self {
        Self {
            is_far: true,
            ..self
        }
    }

    /// Opens the connection or socket.
    pub(super) fn open(self) -> io::Result<Socket> {
        let kind = if self.is_udp {
            Type::DGRAM
        } else {
            Type::STREAM
        };
        let socket = Socket::new(Domain::IPV4, kind, None)?;
        if self.is_far {
            // The last 16 bits are those of a counter.
            static NEXT_HOST: AtomicU16 = AtomicU16::new(256);
            let [third, fourth] = NEXT_HOST.fetch_add(1, Relaxed).to_be_bytes();
            socket.bind(&SocketAddr::from(([10, 9, third, fourth], 0)).into())?;
        }
        socket.connect_timeout(&server_address(self.port).into(), TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        if !self.is_udp {
            socket.set_tcp_nodelay(true)?;
        }
        Ok(socket)
    }
}

/// The data socket that an answer announces.
pub(super) struct DataSocket {
    pub(super) port: u16,
    /// First bytes to send on the data connection.
    pub(super) first_bytes: Vec<u8>,
}

pub(super) fn server_address(port: u16) -> SocketAddr {
    let server = slave_address(0).parse().expect("a valid address");
    SocketAddr::new(server, port)
}

pub(super) fn stream(port: u16, timeout: Duration) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&server_address(port), timeout)
}

/// Replaces the first occurrence of `old` by `new`, which has the same length.
pub(super) fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let found = bytes.windows(old.len()).position(|window| window == old);
    if let Some(at) = found {
        bytes[at..at + old.len()].copy_from_slice(new);
    }
}
