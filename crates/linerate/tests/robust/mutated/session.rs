//! A conversation in progress.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use socket2::Socket;

use super::conversation::{Answer, Channel, Message, server_address, stream};
use super::counts::Counts;
use super::target::Target;

/// Timeout for the answer to a valid message on a busy machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// Interval at which a client repeats a datagram that has no answer yet.
const REPEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout for an answer to a mutated message, which may never come.
pub(super) const SHORT_TIMEOUT: Duration = Duration::from_millis(20);

/// A conversation in progress.
pub(super) struct Session<'a> {
    pub(super) target: &'a Target,
    pub(super) channels: Vec<(Channel, Socket)>,
    /// Data connections, which stay open until the conversation ends.
    pub(super) data_connections: Vec<TcpStream>,
    pub(super) last_answer: Vec<u8>,
    pub(super) counts: Counts,
}

impl Session<'_> {
    /// Returns the socket of a channel. Opens it if necessary.
    pub(super) fn socket(&mut self, channel: Channel) -> io::Result<&Socket> {
        let known = self
            .channels
            .iter()
            .position(|(other, _)| *other == channel);
        if known.is_none() {
            self.channels.push((channel, channel.open()?));
        }
        Ok(&self.channels[known.unwrap_or(self.channels.len() - 1)].1)
    }

    /// Sends a message, on a new connection if the server has closed this one.
    pub(super) fn send(&mut self, channel: Channel, bytes: &[u8]) -> io::Result<()> {
        if self.socket(channel)?.write_all(bytes).is_err() {
            self.channels.retain(|(other, _)| *other != channel);
            // A server at its client limit closes this connection, too.
            let _ = self.socket(channel)?.write_all(bytes);
        }
        Ok(())
    }

    /// Sends a valid message and reads its answers.
    pub(super) fn exchange(&mut self, message: &Message, opens_data: bool) -> io::Result<()> {
        let mut bytes = message.bytes.clone();
        (self.target.complete)(&mut bytes, &self.last_answer);
        self.socket(message.channel)?.write_all(&bytes)?;
        self.counts.of(message).valid += 1;
        for (channel, answer) in &message.answers {
            self.last_answer = if channel.is_udp {
                self.receive_datagram(*channel, *answer, &bytes)?
            } else {
                self.receive(*channel, *answer)?
            };
            if let Answer::Test(len) = answer {
                self.run_transaction()?;
                self.receive(*channel, Answer::Bytes(*len))?;
            } else if opens_data {
                self.open_data();
            }
        }
        if !message.answers.is_empty() {
            self.counts.of(message).answered += 1;
        }
        Ok(())
    }

    /// Reads an answer to `request`. Repeats the request every [`REPEAT_INTERVAL`], because a busy
    /// server drops datagrams.
    fn receive_datagram(
        &mut self,
        channel: Channel,
        answer: Answer,
        request: &[u8],
    ) -> io::Result<Vec<u8>> {
        let mut socket = self.socket(channel)?;
        socket.set_read_timeout(Some(REPEAT_INTERVAL))?;
        let mut datagram = vec![0; 1 << 16];
        let begun = Instant::now();
        let mut is_repeated = false;
        while begun.elapsed() < TIMEOUT {
            match socket.read(&mut datagram) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    socket.write_all(request)?;
                    is_repeated = true;
                }
                Ok(len) if !matches!(answer, Answer::Bytes(expected) if expected != len) => {
                    datagram.truncate(len);
                    return Ok(datagram);
                }
                // The second answer to a repeated request.
                Ok(_) if is_repeated => {}
                Ok(_) => return Err(ErrorKind::InvalidData.into()),
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    fn receive(&mut self, channel: Channel, answer: Answer) -> io::Result<Vec<u8>> {
        let mut socket = self.socket(channel)?;
        let len = match answer {
            Answer::Bytes(len) | Answer::Test(len) => len,
            Answer::Counted | Answer::Datagram => {
                let mut len = [0; 4];
                socket.read_exact(&mut len)?;
                u32::from_be_bytes(len) as usize
            }
        };
        let mut bytes = vec![0; len];
        socket.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Runs a transaction of one byte on the announced data connection.
    fn run_transaction(&self) -> io::Result<()> {
        let data = (self.target.parse_data_socket)(&self.last_answer);
        let data = data.ok_or(ErrorKind::InvalidData)?;
        let mut connection = stream(data.port, TIMEOUT)?;
        connection.write_all(&data.first_bytes)?;
        connection.read_exact(&mut [0])
    }

    /// Reads one answer to a message if it arrives within [`SHORT_TIMEOUT`].
    pub(super) fn try_receive(&mut self, message: &Message) {
        let Ok(mut socket) = self.socket(message.answers[0].0) else {
            return;
        };
        let _ = socket.set_read_timeout(Some(SHORT_TIMEOUT));
        let mut answer = [0; 4096];
        if let Ok(len @ 1..) = socket.read(&mut answer) {
            self.last_answer = answer[..len].to_vec();
            self.counts.answered = 1;
            self.counts.of(message).answered += 1;
            self.open_data();
        }
    }

    /// Sends a few bytes to the data socket that the last answer announces.
    fn open_data(&mut self) {
        let Some(data) = (self.target.parse_data_socket)(&self.last_answer) else {
            return;
        };
        if let Ok(mut connection) = stream(data.port, SHORT_TIMEOUT) {
            let _ = connection.write(&data.first_bytes);
            self.data_connections.push(connection);
        } else if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
            let _ = socket.send_to(&data.first_bytes, server_address(data.port));
        }
    }

    /// Shuts down the sending direction of the first connection and reads until the server closes
    /// it or [`SHORT_TIMEOUT`] expires. Ends the UDP sessions.
    pub(super) fn end(mut self) -> Counts {
        for (channel, socket) in &self.channels {
            let mut socket = socket;
            let _ = socket.set_read_timeout(Some(SHORT_TIMEOUT));
            let mut discarded = [0; 4096];
            if channel.is_udp && !self.target.last_datagram.is_empty() {
                let is_answered = |_| {
                    // The first send call may return an error of an earlier datagram.
                    let sent = socket.write(&self.target.last_datagram);
                    sent.or_else(|_| socket.write(&self.target.last_datagram))
                        .and_then(|_| socket.read(&mut discarded))
                        .is_ok()
                };
                // A busy host may lose a datagram.
                (0..2).any(is_answered);
            } else if !channel.is_udp && channel.number == 0 {
                let _ = socket.shutdown(Shutdown::Write);
                let begun = Instant::now();
                // A mutated message may request endless data.
                while begun.elapsed() < SHORT_TIMEOUT
                    && let Ok(1..) = socket.read(&mut discarded)
                {
                    self.counts.answered = 1;
                }
            }
        }
        self.counts
    }
}
