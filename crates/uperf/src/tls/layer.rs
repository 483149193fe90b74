//! TLS as a layer of a script's connection.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::Stop;
use engine::script::{Connection, Layer, StepFailure};
use sys::call::{self, Error};

use super::error_text;

/// Maximum payload of a TLS record in bytes (RFC 8446 §5.1). Each send encrypts one record. If the
/// run ends within a record, neither end counts it, because the peer cannot decrypt a part.
const MAX_RECORD_BYTES: usize = 1 << 14;

/// Timeout of a handshake. Even slow machines need less, so a peer that exceeds it is not going to
/// reply.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum wait of one close for space in the socket's buffer, for the close_notify alert.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum total wait of a strand's closes. It limits the end of a strand with many connections
/// whose peers do not read.
const THREAD_CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

thread_local! {
    /// Remainder of [`THREAD_CLOSE_TIMEOUT`] for this thread, which is a strand.
    static CLOSE_TIME_LEFT: Cell<Duration> = const { Cell::new(THREAD_CLOSE_TIMEOUT) };
}

/// TLS connection over a blocking socket.
#[derive(Debug)]
pub(super) struct TlsLayer {
    socket: Rc<OwnedFd>,
    session: rustls::Connection,
    /// Decrypted bytes that the caller has not received yet.
    decrypted_bytes: usize,
    /// Payload bytes that are encrypted, but not reported to the caller because a signal
    /// interrupted the send.
    unreported_bytes: usize,
    /// The peer will send no more data.
    has_ended: bool,
    /// Error that ended the data, if any.
    failure: Option<Error>,
}

/// Error of a TLS connection.
enum TlsFailure {
    System(Error),
    Tls(rustls::Error),
    Closed,
}

impl TlsLayer {
    /// Completes the handshake, or fails when `stop` is set. Returns the encrypted connection.
    pub(super) fn handshake(
        session: rustls::Connection,
        socket: OwnedFd,
        stop: &Stop,
    ) -> Result<Connection, StepFailure> {
        let socket = Rc::new(socket);
        let mut this = Self {
            socket: Rc::clone(&socket),
            session,
            decrypted_bytes: 0,
            unreported_bytes: 0,
            has_ended: false,
            failure: None,
        };
        this.complete_handshake(stop)
            .map_err(|failure| match failure {
                TlsFailure::System(error) => StepFailure::from_call("ssl: handshake failed", error),
                TlsFailure::Tls(error) => {
                    // The text may quote the peer's certificate.
                    let description = error_text::describe(&error);
                    StepFailure::from_text(format!(
                        "ssl: handshake failed: {}",
                        codec::escaped(&description)
                    ))
                }
                TlsFailure::Closed => StepFailure::from_text(
                    "ssl: the peer closed the connection during the handshake",
                ),
            })?;
        Ok(Connection::Layered(RefCell::new(Box::new(this)), socket))
    }

    fn complete_handshake(&mut self, stop: &Stop) -> Result<(), TlsFailure> {
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        while self.session.is_handshaking() || self.session.wants_write() {
            match self.run_handshake_step(deadline) {
                Err(TlsFailure::System(Error::INTR)) if !stop.is_set() => {}
                Err(failure) => return Err(failure),
                Ok(()) if self.has_ended && self.session.is_handshaking() => {
                    return Err(TlsFailure::Closed);
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn run_handshake_step(&mut self, deadline: Instant) -> Result<(), TlsFailure> {
        if self.session.wants_write() {
            return self.flush(Blocking::Yes).map_err(TlsFailure::System);
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        match call::wait_readable(self.socket.as_fd(), remaining) {
            Ok(true) => self.fill(Blocking::Yes),
            Ok(false) => Err(TlsFailure::System(Error::TIMEDOUT)),
            Err(error) => Err(TlsFailure::System(error)),
        }
    }

    /// Sends encrypted data. Without blocking, it stops when the socket's buffer is full.
    fn flush(&mut self, blocking: Blocking) -> Result<(), Error> {
        let mut socket_io = SocketIo(self.socket.as_fd(), blocking);
        while self.session.wants_write() {
            self.session
                .write_tls(&mut socket_io)
                .map_err(|error| errno(&error))?;
        }
        Ok(())
    }

    /// Receives once, and decrypts the complete records.
    fn fill(&mut self, blocking: Blocking) -> Result<(), TlsFailure> {
        let mut socket_io = SocketIo(self.socket.as_fd(), blocking);
        match self.session.read_tls(&mut socket_io) {
            // The end counts with or without close_notify: a killed peer sends none.
            Ok(0) => self.has_ended = true,
            Ok(_) => {}
            Err(error) => return Err(TlsFailure::System(errno(&error))),
        }
        match self.session.process_new_packets() {
            Ok(state) => {
                self.decrypted_bytes = state.plaintext_bytes_to_read();
                self.has_ended |= state.peer_has_closed();
                Ok(())
            }
            Err(error) => {
                self.has_ended = true;
                self.failure = Some(Error::PROTO);
                // Send the peer an alert with the reason, if possible.
                let _ = self.flush(Blocking::No);
                Err(TlsFailure::Tls(error))
            }
        }
    }

    /// Sends close_notify.
    fn close(&mut self) {
        self.session.send_close_notify();
        let mut remaining = CLOSE_TIMEOUT;
        while let Err(error) = self.flush(Blocking::No) {
            let may_retry = matches!(error, Error::AGAIN | Error::INTR);
            if !may_retry || !self.wait_for_capacity(&mut remaining) {
                return;
            }
        }
        // Unread data would turn the close into a reset, which discards sent data. The unread data
        // are session tickets, which OpenSSL's servers send without a request.
        let mut unread = [0; 4096];
        let _ = call::receive_without_waiting(self.socket.as_fd(), &mut unread);
    }

    /// Waits for space in the socket's buffer, or an interruption. Returns false on timeout.
    /// Subtracts the wait from `remaining` and from the thread's time.
    fn wait_for_capacity(&self, remaining: &mut Duration) -> bool {
        let timeout = CLOSE_TIME_LEFT.get().min(*remaining);
        if timeout.is_zero() {
            return false;
        }
        let started_at = Instant::now();
        let ready = call::wait_writable(self.socket.as_fd(), timeout);
        let waited = started_at.elapsed();
        *remaining = remaining.saturating_sub(waited);
        CLOSE_TIME_LEFT.set(CLOSE_TIME_LEFT.get().saturating_sub(waited));
        ready != Ok(false)
    }
}

impl Layer for TlsLayer {
    fn send(&mut self, data: &[u8]) -> Result<usize, Error> {
        if self.unreported_bytes == 0 {
            let part = &data[..data.len().min(MAX_RECORD_BYTES)];
            let written = self.session.writer().write(part);
            self.unreported_bytes = written.map_err(|error| errno(&error))?;
        }
        self.flush(Blocking::Yes)?;
        let reported = self.unreported_bytes.min(data.len());
        self.unreported_bytes -= reported;
        Ok(reported)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        // Finish an interrupted send first; the peer may wait for it.
        if self.session.wants_write() {
            self.flush(Blocking::Yes)?;
        }
        while self.decrypted_bytes == 0 {
            if self.has_ended {
                return self.failure.map_or(Ok(0), Err);
            }
            if let Err(TlsFailure::System(error)) = self.fill(Blocking::Yes) {
                return Err(error);
            }
        }
        let received = self.session.reader().read(buffer);
        let received = received.map_err(|error| errno(&error))?;
        self.decrypted_bytes -= received;
        Ok(received)
    }

    fn has_input(&mut self) -> bool {
        while self.decrypted_bytes == 0 && !self.has_ended {
            if let Err(TlsFailure::System(error)) = self.fill(Blocking::No) {
                // receive() reports any other error.
                return !matches!(error, Error::AGAIN | Error::INTR);
            }
        }
        true
    }
}

impl Drop for TlsLayer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Socket calls of rustls.
struct SocketIo<'a>(BorrowedFd<'a>, Blocking);

/// Whether a call waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocking {
    Yes,
    No,
}

impl Read for SocketIo<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(match self.1 {
            Blocking::Yes => call::receive(self.0, buffer),
            Blocking::No => call::receive_without_waiting(self.0, buffer),
        }?)
    }
}

impl Write for SocketIo<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        Ok(match self.1 {
            Blocking::Yes => call::send(self.0, data),
            Blocking::No => call::send_without_waiting(self.0, data),
        }?)
    }

    /// Sends all parts in one call. A handshake has many small messages; if sent separately, each
    /// would wait for the acknowledgement of the previous one.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.1 == Blocking::No {
            let first = parts.iter().find(|part| !part.is_empty());
            return self.write(first.map_or(&[], |part| part));
        }
        Ok(call::send_parts(self.0, parts)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn errno(error: &io::Error) -> Error {
    Error::from_io_error(error).unwrap_or(Error::PROTO)
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpStream};
    use std::thread;

    use engine::StopReason;
    use rustls::{ClientConnection, StreamOwned};
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::tls::TlsSettings;
    use crate::tls::tests::{establish, prepare_contexts, ssl_flowop, tcp_pair, tls_layer};
    use crate::workorder::FlowopKind;

    /// Accepts a TLS connection.
    fn accept(socket: impl Into<OwnedFd>, stop: &Stop) -> Result<Connection, StepFailure> {
        let flowop = ssl_flowop(FlowopKind::Accept, "", "");
        let contexts = prepare_contexts(&TlsSettings::default(), &flowop).expect("contexts");
        let _registration = stop.register_thread();
        establish(socket, &contexts, &flowop, stop)
    }

    /// Returns a TLS client without a socket.
    fn new_client() -> ClientConnection {
        let flowop = ssl_flowop(FlowopKind::Connect, "", "");
        let contexts = prepare_contexts(&TlsSettings::default(), &flowop).expect("contexts");
        contexts.client(&flowop)
    }

    /// Connects with rustls alone.
    fn connect_client(mut stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
        let mut client = new_client();
        while client.is_handshaking() {
            client.complete_io(&mut stream).expect("a handshake");
        }
        StreamOwned::new(client, stream)
    }

    /// Returns both ends of a connection.
    fn connected_pair() -> (Connection, StreamOwned<ClientConnection, TcpStream>) {
        let (one, other) = tcp_pair();
        let one = thread::spawn(|| connect_client(one));
        let connection = accept(other, &Stop::new()).expect("a handshake");
        (connection, one.join().expect("no panic"))
    }

    /// Waits until the socket is readable. Returns whether the layer has input.
    fn has_input_after_wait(connection: &Connection) -> bool {
        let timeout = Duration::from_secs(10);
        assert_eq!(call::wait_readable(connection.socket(), timeout), Ok(true));
        tls_layer(connection).has_input()
    }

    #[test]
    fn received_data_is_reported_as_input() {
        let (connection, mut client) = connected_pair();
        assert!(!tls_layer(&connection).has_input());
        for _ in 0..3 {
            client.write_all(&[7; 100]).expect("room");
        }
        let mut buffer = [0; 1000];
        let mut left = 300;
        while left > 0 {
            let taken = tls_layer(&connection)
                .receive(&mut buffer[..30])
                .expect("bytes");
            assert!(buffer[..taken].iter().all(|byte| *byte == 7));
            left -= taken;
            // The rest of a record.
            if left % 100 != 0 {
                assert!(tls_layer(&connection).has_input(), "{left} left");
            }
        }
        assert!(!tls_layer(&connection).has_input());
        client.conn.send_close_notify();
        client.flush().expect("room");
        assert_eq!(tls_layer(&connection).receive(&mut buffer), Ok(0));
        assert!(
            tls_layer(&connection).has_input(),
            "the end counts as input"
        );
    }

    #[test]
    fn a_partial_record_is_no_input() {
        let (connection, mut client) = connected_pair();
        client.conn.writer().write_all(b"whole").expect("room");
        let mut record = Vec::new();
        client.conn.write_tls(&mut record).expect("room");
        let (part, rest) = record.split_at(10);
        client.sock.write_all(part).expect("room");
        assert!(!has_input_after_wait(&connection));
        client.sock.write_all(rest).expect("room");
        assert!(has_input_after_wait(&connection));
        assert_eq!(tls_layer(&connection).receive(&mut [0; 10]), Ok(5));
    }

    #[test]
    fn invalid_records_are_errors() {
        let (connection, mut client) = connected_pair();
        client.sock.write_all(&[9; 100]).expect("room");
        assert!(has_input_after_wait(&connection), "a failure");
        let received = tls_layer(&connection).receive(&mut [0; 10]);
        assert_eq!(received, Err(Error::PROTO));
    }

    #[test]
    fn close_notify_is_sent_but_not_required() {
        let (connection, client) = connected_pair();
        client.sock.shutdown(Shutdown::Both).expect("it is open");
        assert_eq!(tls_layer(&connection).receive(&mut [0; 10]), Ok(0));
        let (connection, mut client) = connected_pair();
        drop(connection);
        // Without close_notify, this would be an error.
        assert_eq!(client.read(&mut [0; 10]).expect("an end"), 0);
    }

    #[test]
    fn interrupted_sends_are_reported_once() {
        let (connection, mut client) = connected_pair();
        socket2::SockRef::from(&connection.socket())
            .set_nonblocking(true)
            .expect("a flag");
        let data = vec![7; 50_000];
        let mut reported = 0;
        while let Ok(bytes) = tls_layer(&connection).send(&data) {
            assert!((1..=MAX_RECORD_BYTES).contains(&bytes));
            reported += bytes;
        }
        assert_eq!(tls_layer(&connection).send(&data), Err(Error::AGAIN));
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            client.read_to_end(&mut all).expect("bytes and an end");
            all.len()
        });
        for _ in 0..10 {
            let sent = loop {
                match tls_layer(&connection).send(&data) {
                    Err(Error::AGAIN) => thread::yield_now(),
                    other => break other,
                }
            };
            reported += sent.expect("room");
        }
        drop(connection);
        assert_eq!(reader.join().expect("no panic"), reported);
    }

    #[test]
    fn unread_close_notifies_share_a_timeout() {
        let ends: Vec<_> = (0..12).map(|_| connected_pair()).collect();
        let data = vec![0; 50_000];
        // Data in flight frees buffer space when it arrives, so fill the buffers repeatedly.
        for _ in 0..20 {
            for (connection, _) in &ends {
                while call::send_without_waiting(connection.socket(), &data).is_ok() {}
            }
            thread::sleep(Duration::from_millis(10));
        }
        let started_at = Instant::now();
        let (connections, _clients): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        drop(connections);
        let took = started_at.elapsed();
        assert!(
            (2 * CLOSE_TIMEOUT..10 * CLOSE_TIMEOUT).contains(&took),
            "{took:?}"
        );
    }

    /// Uses a socket that preserves the boundaries of calls.
    #[test]
    fn handshake_messages_are_sent_in_one_call() {
        let pair = Socket::pair(Domain::UNIX, Type::SEQPACKET, None);
        let (one, other) = pair.expect("two sockets");
        let accepting = thread::spawn(|| accept(other, &Stop::new()).map(drop));
        let mut client = new_client();
        let send_pending = |client: &mut ClientConnection| {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("room");
            one.send(&bytes).expect("it listens");
        };
        send_pending(&mut client);
        let mut answer = [0; 4096];
        let length = (&one).read(&mut answer).expect("an answer");
        client.read_tls(&mut &answer[..length]).expect("room");
        client.process_new_packets().expect("TLS");
        assert!(!client.is_handshaking(), "only {length} bytes");
        send_pending(&mut client);
        assert_eq!(accepting.join().expect("no panic"), Ok(()));
    }

    #[test]
    fn peers_without_tls_are_refused() {
        let corrupt = "ssl: handshake failed: received corrupt message";
        let refused = "ssl: handshake failed: ";
        let closed = "ssl: the peer closed the connection during the handshake";
        for (bytes, expected) in [
            (&b"GET / HTTP/1.0\r\n\r\n"[..], corrupt),
            (&[0; 100], refused),
            (&[0x16, 3, 1, 0xFF, 0xFF, 1, 0, 0xFF], refused),
            (&[0x16, 3, 1, 0, 4, 1, 0, 0, 0], refused),
            (&[0x16, 3, 1, 0, 100, 1, 0, 0, 96], closed),
            (b"", closed),
        ] {
            let (mut one, other) = tcp_pair();
            one.write_all(bytes).expect("room");
            one.shutdown(Shutdown::Write).expect("it is open");
            let failure = accept(other, &Stop::new()).expect_err("no handshake");
            assert!(
                failure.action.starts_with(expected),
                "{bytes:?}: {failure:?}"
            );
        }
    }

    #[test]
    fn a_stop_ends_a_stalled_handshake() {
        let (_one, other) = tcp_pair();
        let stop = Stop::new();
        let started_at = Instant::now();
        let ended = thread::scope(|scope| {
            let accepting = scope.spawn(|| accept(other, &stop).map(drop));
            thread::sleep(Duration::from_millis(50));
            stop.set(StopReason::Deadline);
            accepting.join().expect("no panic")
        });
        assert_eq!(
            ended.expect_err("no handshake").errno,
            Error::INTR.raw_os_error()
        );
        assert!(started_at.elapsed() < Duration::from_secs(5));
    }
}
