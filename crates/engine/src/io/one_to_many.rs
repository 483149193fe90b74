//! One SCTP socket with many associations: RFC 6458, section 3.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::call::{self, Error, Peer, SctpReceived};
use sys::{Address, Socket, option};

use super::method::Io;

/// A socket with many SCTP associations, which receives from all of them and answers the one that was
/// heard last. When all that were there have gone its data is at its end.
///
/// Whoever reaches the socket may associate with it. Those who are not admitted are sent away as they
/// come: they are neither heard nor counted, and their going ends nothing.
pub struct Associations<'a> {
    socket: BorrowedFd<'a>,
    admits: &'a dyn Fn(&Address) -> bool,
    from: RefCell<Option<Peer>>,
    open: Cell<u32>,
    /// Not admitted, and already gone when we heard of them: what they left comes before their end.
    strangers: RefCell<Vec<Address>>,
}

/// `struct sctp_assoc_change` of linux/sctp.h begins with its type; behind flags and length stand the
/// new state and, at last, the association's number.
const ASSOCIATION_CHANGE: u16 = 0x8001;
const STATE_AT: usize = 8;
const NUMBER_AT: usize = 16;

impl<'a> Associations<'a> {
    /// The socket must tell of its associations. `admits` says by an association's address whether it
    /// takes part.
    pub fn new(socket: BorrowedFd<'a>, admits: &'a dyn Fn(&Address) -> bool) -> Self {
        Self {
            socket,
            admits,
            from: RefCell::default(),
            open: Cell::default(),
            strangers: RefCell::default(),
        }
    }

    /// Whether the next message is of one who is admitted; it stays. Another's is thrown away. EAGAIN
    /// when none is there.
    pub fn next_is_admitted(&self) -> Result<bool, Error> {
        if call::next_source(self.socket)?.is_some_and(|source| (self.admits)(&source)) {
            return Ok(true);
        }
        let mut scrap = [0; 4096];
        let received = call::receive_sctp_without_waiting(self.socket, &mut scrap)?;
        if received.is_notification {
            self.note(&scrap, &received)?;
        }
        Ok(false)
    }

    /// Receives data; notifications that come before it are noted.
    #[inline]
    fn receive_by(
        &self,
        call: impl Fn(BorrowedFd<'_>, &mut [u8]) -> Result<SctpReceived, Error>,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        loop {
            let received = call(self.socket, buffer)?;
            if received.is_notification {
                if self.note(buffer, &received)? {
                    return Ok(0);
                }
            } else if self.strangers.borrow().is_empty() || !self.is_strangers(&received) {
                self.from.replace(received.from);
                return Ok(received.length);
            }
        }
    }

    #[cold]
    fn is_strangers(&self, received: &SctpReceived) -> bool {
        let from = received.from.as_ref().and_then(Peer::address);
        from.is_some_and(|from| self.strangers.borrow().contains(&from))
    }

    /// Notes what a notification says, whose beginning is in `buffer`; whether all associations have
    /// gone.
    #[cold]
    fn note(&self, buffer: &[u8], received: &SctpReceived) -> Result<bool, Error> {
        let told = self.whole(&buffer[..received.length], received.is_end)?;
        let word = |at: usize| u16::from_ne_bytes([told[at], told[at + 1]]);
        if word(0) != ASSOCIATION_CHANGE {
            return Ok(false);
        }
        let from = received.from.as_ref().and_then(Peer::address);
        let open = self.open.get();
        match word(STATE_AT) {
            0 if from.as_ref().is_some_and(|from| (self.admits)(from)) => self.open.set(open + 1),
            0 => {
                let [a, b, c, d] = [0, 1, 2, 3].map(|at| told[NUMBER_AT + at]);
                self.send_away(i32::from_ne_bytes([a, b, c, d]), from);
            }
            // Lost, shut down, not come up; 2 is a restart.
            1 | 3 | 4 if !self.forgets(from.as_ref()) => {
                self.open.set(open.saturating_sub(1));
                return Ok(open <= 1);
            }
            _ => {}
        }
        Ok(false)
    }

    /// A notification's bytes, of which `first` has been read: a buffer for data can be shorter.
    fn whole(&self, first: &[u8], mut is_end: bool) -> Result<[u8; 64], Error> {
        let mut told = [0; 64];
        let mut length = first.len().min(told.len());
        told[..length].copy_from_slice(&first[..length]);
        while !is_end {
            let mut rest = [0; 64];
            let more = match call::receive_sctp(self.socket, &mut rest) {
                Err(Error::INTR) => continue,
                other => other?,
            };
            let room = more.length.min(told.len() - length);
            told[length..length + room].copy_from_slice(&rest[..room]);
            length += room;
            is_end = more.is_end || more.length == 0;
        }
        Ok(told)
    }

    /// Aborts an association that is not admitted, and all that it has sent. One that has gone by
    /// itself cannot be, and is remembered until its end.
    fn send_away(&self, number: i32, from: Option<Address>) {
        match option::peel_off(self.socket, number) {
            Ok(own) => {
                // Closed with this it aborts: RFC 6458, section 8.1.4.
                let _ = Socket::from(own).set_linger(Some(Duration::ZERO));
            }
            Err(_) => self.strangers.borrow_mut().extend(from),
        }
    }

    /// Whether it is a stranger's end, after which nothing of him comes.
    fn forgets(&self, from: Option<&Address>) -> bool {
        let mut strangers = self.strangers.borrow_mut();
        let known = strangers.iter().position(|known| Some(known) == from);
        known.map(|at| strangers.swap_remove(at)).is_some()
    }
}

impl fmt::Debug for Associations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Associations")
            .field("socket", &self.socket)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl Io for &Associations<'_> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        match &*self.from.borrow() {
            Some(to) => call::send_to(self.socket, data, to),
            None => Err(Error::DESTADDRREQ),
        }
    }

    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        match &*self.from.borrow() {
            Some(to) => call::send_to_without_waiting(self.socket, data, to),
            None => Err(Error::DESTADDRREQ),
        }
    }

    fn is_connected(&self) -> bool {
        false
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.receive_by(call::receive_sctp, buffer)
    }

    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.receive_by(call::receive_sctp_without_waiting, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    const CLIENT: &str = "192.0.2.1:1000";
    const STRANGER: &str = "192.0.2.2:1000";

    /// A socket's messages; without SCTP in the kernel nobody can be sent away.
    struct Script(RefCell<VecDeque<(Vec<u8>, SctpReceived)>>);

    impl Script {
        fn new(messages: impl IntoIterator<Item = (&'static str, Message)>) -> Self {
            let messages = messages.into_iter().map(|(from, message)| {
                let (bytes, is_notification) = match message {
                    Message::Data(bytes) => (vec![b'x'; bytes], false),
                    Message::Up => (change(0), true),
                    Message::Gone => (change(3), true),
                };
                let from = Address::Inet(from.parse().unwrap());
                let received = SctpReceived {
                    length: bytes.len(),
                    from: Some(Peer::try_from(&from).unwrap()),
                    is_notification,
                    is_end: true,
                };
                (bytes, received)
            });
            Self(RefCell::new(messages.collect()))
        }

        fn next(&self, buffer: &mut [u8]) -> Result<SctpReceived, Error> {
            let (bytes, received) = self.0.borrow_mut().pop_front().ok_or(Error::AGAIN)?;
            buffer[..bytes.len()].copy_from_slice(&bytes);
            Ok(received)
        }
    }

    enum Message {
        Up,
        Data(usize),
        Gone,
    }

    fn change(state: u16) -> Vec<u8> {
        let mut told = vec![0; 20];
        told[..2].copy_from_slice(&ASSOCIATION_CHANGE.to_ne_bytes());
        told[STATE_AT..][..2].copy_from_slice(&state.to_ne_bytes());
        told
    }

    #[test]
    fn strangers_are_neither_heard_nor_do_they_end_anything() {
        use Message::{Data, Gone, Up};
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client: Address = Address::Inet(CLIENT.parse().unwrap());
        let admits = |source: &Address| source.shares_host_with(&client);
        let associations = Associations::new(socket.as_fd(), &admits);
        let script = Script::new([
            (STRANGER, Up),
            (STRANGER, Data(7)),
            (STRANGER, Gone),
            (CLIENT, Up),
            (STRANGER, Up),
            (CLIENT, Data(4)),
            (STRANGER, Data(7)),
            (CLIENT, Data(5)),
            (STRANGER, Gone),
            (CLIENT, Data(6)),
            (CLIENT, Gone),
        ]);
        for length in [4, 5, 6, 0] {
            let heard = associations.receive_by(|_, buffer| script.next(buffer), &mut [0; 64]);
            assert_eq!(heard, Ok(length));
            let answered = associations.from.borrow().as_ref().and_then(Peer::address);
            assert_eq!(answered.as_ref(), Some(&client), "{length}");
        }
        assert!(script.0.borrow().is_empty());
    }

    #[test]
    fn a_test_begins_with_the_first_who_is_admitted() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let [client, stranger] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = u32::from(client.local_addr().unwrap().port());
        let admits = |source: &Address| source.port() == port;
        let associations = Associations::new(socket.as_fd(), &admits);
        for sender in [&stranger, &stranger, &client] {
            sender.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        for admitted in [false, false, true, true] {
            assert_eq!(associations.next_is_admitted(), Ok(admitted));
        }
    }
}
