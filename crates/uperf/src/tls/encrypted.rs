//! A TLS connection as a layer of a script's connection.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::Stop;
use engine::script::{Connection, Failure, Layer};

use sys::call::{self, Error};

use super::reason;

/// The most that a record carries, bytes (RFC 8446 §5.1). So much is encrypted at a time: of a record
/// that has gone in part when the run ends, the other end can count nothing, and nor does this one.
const RECORD: usize = 1 << 14;

/// How long the other end may take for a handshake. No machine is that slow; who says nothing for so
/// long does not mean to speak.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// How long the last word may wait for room in the socket's buffer.
const LAST_WORD: Duration = Duration::from_millis(100);

/// How long all of a strand's may: where nobody reads, its end does not wait for one after the other.
const LAST_WORDS: Duration = Duration::from_millis(300);

thread_local! {
    /// What is left of [`LAST_WORDS`]; a thread is a strand.
    static PATIENCE: Cell<Duration> = const { Cell::new(LAST_WORDS) };
}

/// A TLS connection over a socket that blocks.
#[derive(Debug)]
pub(super) struct Encrypted {
    socket: Rc<OwnedFd>,
    session: rustls::Connection,
    /// Bytes that have come and are decrypted.
    ready: usize,
    /// Bytes that are encrypted and on their way, of which the caller was not told: it was interrupted.
    untold: usize,
    /// Nothing will come any more.
    ended: bool,
    /// Why not, if it was no end.
    broken: Option<Error>,
}

/// Why a handshake came to nothing.
enum Broken {
    System(Error),
    Tls(rustls::Error),
    HungUp,
}

impl Encrypted {
    /// Does the handshake; the stop ends it.
    pub(super) fn begin(
        session: rustls::Connection,
        socket: OwnedFd,
        stop: &Stop,
    ) -> Result<Connection, Failure> {
        let socket = Rc::new(socket);
        let mut this = Self {
            socket: Rc::clone(&socket),
            session,
            ready: 0,
            untold: 0,
            ended: false,
            broken: None,
        };
        this.shake_hands(stop).map_err(|why| match why {
            Broken::System(error) => Failure::of_call("ssl: no handshake", error),
            Broken::Tls(error) => {
                // It may quote a certificate.
                let why = reason::describe(&error);
                Failure::of_sense(format!("ssl: no handshake: {}", codec::escaped(&why)))
            }
            Broken::HungUp => Failure::of_sense("ssl: the other end hung up in the handshake"),
        })?;
        Ok(Connection::Layered(RefCell::new(Box::new(this)), socket))
    }

    fn shake_hands(&mut self, stop: &Stop) -> Result<(), Broken> {
        let until = Instant::now() + HANDSHAKE;
        while self.session.is_handshaking() || self.session.wants_write() {
            match self.step(until) {
                Err(Broken::System(Error::INTR)) if !stop.is_set() => {}
                Err(why) => return Err(why),
                Ok(()) if self.ended && self.session.is_handshaking() => {
                    return Err(Broken::HungUp);
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn step(&mut self, until: Instant) -> Result<(), Broken> {
        if self.session.wants_write() {
            return self.flush(Waits::Yes).map_err(Broken::System);
        }
        let left = until.saturating_duration_since(Instant::now());
        match call::wait_readable(self.socket.as_fd(), left) {
            Ok(true) => self.fill(Waits::Yes),
            Ok(false) => Err(Broken::System(Error::TIMEDOUT)),
            Err(error) => Err(Broken::System(error)),
        }
    }

    /// Sends what is encrypted, or as much of it as there is room for.
    fn flush(&mut self, waits: Waits) -> Result<(), Error> {
        let mut wire = Wire(self.socket.as_fd(), waits);
        while self.session.wants_write() {
            self.session
                .write_tls(&mut wire)
                .map_err(|error| errno(&error))?;
        }
        Ok(())
    }

    /// Receives once, and decrypts what is complete.
    fn fill(&mut self, waits: Waits) -> Result<(), Broken> {
        let mut wire = Wire(self.socket.as_fd(), waits);
        match self.session.read_tls(&mut wire) {
            // With or without a word that this is the end: whoever was killed says none.
            Ok(0) => self.ended = true,
            Ok(_) => {}
            Err(error) => return Err(Broken::System(errno(&error))),
        }
        match self.session.process_new_packets() {
            Ok(state) => {
                self.ready = state.plaintext_bytes_to_read();
                self.ended |= state.peer_has_closed();
                Ok(())
            }
            Err(error) => {
                self.ended = true;
                self.broken = Some(Error::PROTO);
                // The other end is told why, if it listens.
                let _ = self.flush(Waits::No);
                Err(Broken::Tls(error))
            }
        }
    }

    /// Tells the other end that no more will come.
    fn take_leave(&mut self) {
        self.session.send_close_notify();
        let mut left = LAST_WORD;
        while let Err(error) = self.flush(Waits::No) {
            let may_go = matches!(error, Error::AGAIN | Error::INTR);
            if !may_go || !self.has_room_within(&mut left) {
                return;
            }
        }
        // What is left unread would make of the close a reset, which takes back what was sent:
        // OpenSSL's servers send tickets that nobody asked for.
        let mut unread = [0; 4096];
        let _ = call::receive_without_waiting(self.socket.as_fd(), &mut unread);
    }

    /// Waits for room, or an interruption; false if there is no patience left for it, which is taken from.
    fn has_room_within(&self, left: &mut Duration) -> bool {
        let patience = PATIENCE.get().min(*left);
        if patience.is_zero() {
            return false;
        }
        let from = Instant::now();
        let ready = call::wait_writable(self.socket.as_fd(), patience);
        let waited = from.elapsed();
        *left = left.saturating_sub(waited);
        PATIENCE.set(PATIENCE.get().saturating_sub(waited));
        ready != Ok(false)
    }
}

impl Layer for Encrypted {
    fn send(&mut self, data: &[u8]) -> Result<usize, Error> {
        if self.untold == 0 {
            let part = &data[..data.len().min(RECORD)];
            let taken = self.session.writer().write(part);
            self.untold = taken.map_err(|error| errno(&error))?;
        }
        self.flush(Waits::Yes)?;
        let told = self.untold.min(data.len());
        self.untold -= told;
        Ok(told)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        // What a stop has interrupted; the other end may wait for it.
        if self.session.wants_write() {
            self.flush(Waits::Yes)?;
        }
        while self.ready == 0 {
            if self.ended {
                return self.broken.map_or(Ok(0), Err);
            }
            if let Err(Broken::System(error)) = self.fill(Waits::Yes) {
                return Err(error);
            }
        }
        let taken = self.session.reader().read(buffer);
        let taken = taken.map_err(|error| errno(&error))?;
        self.ready -= taken;
        Ok(taken)
    }

    fn has_input(&mut self) -> bool {
        while self.ready == 0 && !self.ended {
            if let Err(Broken::System(error)) = self.fill(Waits::No) {
                // What else is wrong shows when it is received.
                return !matches!(error, Error::AGAIN | Error::INTR);
            }
        }
        true
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        self.take_leave();
    }
}

/// The calls by which rustls sends and receives.
struct Wire<'a>(BorrowedFd<'a>, Waits);

/// Whether they wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Yes,
    No,
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(match self.1 {
            Waits::Yes => call::receive(self.0, buffer),
            Waits::No => call::receive_without_waiting(self.0, buffer),
        }?)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        Ok(match self.1 {
            Waits::Yes => call::send(self.0, data),
            Waits::No => call::send_without_waiting(self.0, data),
        }?)
    }

    /// The messages of a handshake are many and small: each by itself would wait for the one before to
    /// be acknowledged.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.1 == Waits::No {
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

    use engine::Reason;
    use rustls::{ClientConnection, StreamOwned};
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::tls::Security;
    use crate::tls::tests::{connected, contexts, flowop, layer, over};
    use crate::workorder::Kind;

    /// The end that accepts.
    fn accepted(socket: impl Into<OwnedFd>, stop: &Stop) -> Result<Connection, Failure> {
        let flowop = flowop(Kind::Accept, "", "");
        let contexts = contexts(&Security::default(), &flowop).expect("contexts");
        let _attending = stop.attend();
        over(socket, &contexts, &flowop, stop)
    }

    /// The client's side by itself.
    fn new_client() -> ClientConnection {
        let flowop = flowop(Kind::Connect, "", "");
        let contexts = contexts(&Security::default(), &flowop).expect("contexts");
        contexts.client(&flowop)
    }

    /// rustls by itself.
    fn client(mut stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
        let mut client = new_client();
        while client.is_handshaking() {
            client.complete_io(&mut stream).expect("a handshake");
        }
        StreamOwned::new(client, stream)
    }

    /// Both ends of a connection.
    fn both() -> (Connection, StreamOwned<ClientConnection, TcpStream>) {
        let (one, other) = connected();
        let one = thread::spawn(|| client(one));
        let connection = accepted(other, &Stop::new()).expect("a handshake");
        (connection, one.join().expect("no panic"))
    }

    /// Whether there is input once the socket has something.
    fn has_input_then(connection: &Connection) -> bool {
        let patience = Duration::from_secs(10);
        assert_eq!(call::wait_readable(connection.socket(), patience), Ok(true));
        layer(connection).has_input()
    }

    #[test]
    fn what_has_come_is_known() {
        let (connection, mut client) = both();
        assert!(!layer(&connection).has_input());
        for _ in 0..3 {
            client.write_all(&[7; 100]).expect("room");
        }
        let mut buffer = [0; 1000];
        let mut left = 300;
        while left > 0 {
            let taken = layer(&connection)
                .receive(&mut buffer[..30])
                .expect("bytes");
            assert!(buffer[..taken].iter().all(|byte| *byte == 7));
            left -= taken;
            // Of one record.
            if left % 100 != 0 {
                assert!(layer(&connection).has_input(), "{left} left");
            }
        }
        assert!(!layer(&connection).has_input());
        client.conn.send_close_notify();
        client.flush().expect("room");
        assert_eq!(layer(&connection).receive(&mut buffer), Ok(0));
        assert!(
            layer(&connection).has_input(),
            "the end is something to receive"
        );
    }

    #[test]
    fn a_part_of_a_record_is_nothing_yet() {
        let (connection, mut client) = both();
        client.conn.writer().write_all(b"whole").expect("room");
        let mut record = Vec::new();
        client.conn.write_tls(&mut record).expect("room");
        let (part, rest) = record.split_at(10);
        client.sock.write_all(part).expect("room");
        assert!(!has_input_then(&connection));
        client.sock.write_all(rest).expect("room");
        assert!(has_input_then(&connection));
        assert_eq!(layer(&connection).receive(&mut [0; 10]), Ok(5));
    }

    #[test]
    fn what_is_no_record_is_no_end() {
        let (connection, mut client) = both();
        client.sock.write_all(&[9; 100]).expect("room");
        assert!(has_input_then(&connection), "a failure");
        let received = layer(&connection).receive(&mut [0; 10]);
        assert_eq!(received, Err(Error::PROTO));
    }

    #[test]
    fn an_end_without_a_word_is_one_and_ours_has_one() {
        let (connection, client) = both();
        client.sock.shutdown(Shutdown::Both).expect("it is open");
        assert_eq!(layer(&connection).receive(&mut [0; 10]), Ok(0));
        let (connection, mut client) = both();
        drop(connection);
        // Without it this would be an error.
        assert_eq!(client.read(&mut [0; 10]).expect("an end"), 0);
    }

    #[test]
    fn what_was_interrupted_is_sent_and_told_once() {
        let (connection, mut client) = both();
        socket2::SockRef::from(&connection.socket())
            .set_nonblocking(true)
            .expect("a flag");
        let data = vec![7; 50_000];
        let mut told = 0;
        while let Ok(bytes) = layer(&connection).send(&data) {
            assert!((1..=RECORD).contains(&bytes));
            told += bytes;
        }
        assert_eq!(layer(&connection).send(&data), Err(Error::AGAIN));
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            client.read_to_end(&mut all).expect("bytes and an end");
            all.len()
        });
        for _ in 0..10 {
            let sent = loop {
                match layer(&connection).send(&data) {
                    Err(Error::AGAIN) => thread::yield_now(),
                    other => break other,
                }
            };
            told += sent.expect("room");
        }
        drop(connection);
        assert_eq!(reader.join().expect("no panic"), told);
    }

    #[test]
    fn last_words_that_nobody_reads_are_not_waited_for_one_by_one() {
        let ends: Vec<_> = (0..12).map(|_| both()).collect();
        let data = vec![0; 50_000];
        // What is on its way makes room once it has come.
        for _ in 0..20 {
            for (connection, _) in &ends {
                while call::send_without_waiting(connection.socket(), &data).is_ok() {}
            }
            thread::sleep(Duration::from_millis(10));
        }
        let from = Instant::now();
        let (lines, _clients): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        drop(lines);
        let took = from.elapsed();
        assert!((2 * LAST_WORD..10 * LAST_WORD).contains(&took), "{took:?}");
    }

    /// Over a socket that keeps what is sent at once apart.
    #[test]
    fn a_handshakes_messages_are_sent_at_once() {
        let pair = Socket::pair(Domain::UNIX, Type::SEQPACKET, None);
        let (one, other) = pair.expect("two sockets");
        let accepting = thread::spawn(|| accepted(other, &Stop::new()).map(drop));
        let mut client = new_client();
        let say = |client: &mut ClientConnection| {
            let mut words = Vec::new();
            client.write_tls(&mut words).expect("room");
            one.send(&words).expect("it listens");
        };
        say(&mut client);
        let mut answer = [0; 4096];
        let length = (&one).read(&mut answer).expect("an answer");
        client.read_tls(&mut &answer[..length]).expect("room");
        client.process_new_packets().expect("TLS");
        assert!(!client.is_handshaking(), "only {length} bytes");
        say(&mut client);
        assert_eq!(accepting.join().expect("no panic"), Ok(()));
    }

    #[test]
    fn who_speaks_no_tls_is_refused() {
        let corrupt = "ssl: no handshake: received corrupt message";
        let refused = "ssl: no handshake: ";
        let hung_up = "ssl: the other end hung up in the handshake";
        for (words, expected) in [
            (&b"GET / HTTP/1.0\r\n\r\n"[..], corrupt),
            (&[0; 100], refused),
            (&[0x16, 3, 1, 0xFF, 0xFF, 1, 0, 0xFF], refused),
            (&[0x16, 3, 1, 0, 4, 1, 0, 0, 0], refused),
            (&[0x16, 3, 1, 0, 100, 1, 0, 0, 96], hung_up),
            (b"", hung_up),
        ] {
            let (mut one, other) = connected();
            one.write_all(words).expect("room");
            one.shutdown(Shutdown::Write).expect("it is open");
            let failure = accepted(other, &Stop::new()).expect_err("no handshake");
            assert!(failure.what.starts_with(expected), "{words:?}: {failure:?}");
        }
    }

    #[test]
    fn a_silent_one_is_left_with_the_run() {
        let (_one, other) = connected();
        let stop = Stop::new();
        let from = Instant::now();
        let ended = thread::scope(|scope| {
            let accepting = scope.spawn(|| accepted(other, &stop).map(drop));
            thread::sleep(Duration::from_millis(50));
            stop.pull(Reason::Deadline);
            accepting.join().expect("no panic")
        });
        assert_eq!(
            ended.expect_err("no handshake").errno,
            Error::INTR.raw_os_error()
        );
        assert!(from.elapsed() < Duration::from_secs(5));
    }
}
