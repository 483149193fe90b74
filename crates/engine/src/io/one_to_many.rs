//! One-to-many SCTP sockets: one socket with many associations (RFC 6458, section 3).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::call::{self, Error, KernelAddress, SctpReceived};
use sys::{Address, Socket, option};

use super::method::Io;

/// A socket with many SCTP associations. It receives from all of them and sends to the source of
/// the last message. Its data ends when all associations have ended.
///
/// Any host can associate with the socket. An association that is not admitted is aborted: its data
/// is neither received nor counted, and its end is not the end of the data.
pub struct Associations<'a> {
    socket: BorrowedFd<'a>,
    is_admitted: &'a dyn Fn(&Address) -> bool,
    last_source: RefCell<Option<KernelAddress>>,
    open_count: Cell<u32>,
    /// Peers that are not admitted and whose association ended before it could be aborted. Their
    /// data arrives before the notification of the end.
    rejected: RefCell<Vec<Address>>,
}

/// `sac_type` of a `struct sctp_assoc_change` (linux/sctp.h), at offset 0.
const ASSOCIATION_CHANGE: u16 = 0x8001;
/// Offset of `sac_state`.
const STATE_OFFSET: usize = 8;
/// Offset of `sac_assoc_id`.
const ID_OFFSET: usize = 16;

impl<'a> Associations<'a> {
    /// Wraps a socket that has association events enabled. `is_admitted` decides by the peer's
    /// address whether an association takes part in the test.
    pub fn new(socket: BorrowedFd<'a>, is_admitted: &'a dyn Fn(&Address) -> bool) -> Self {
        Self {
            socket,
            is_admitted,
            last_source: RefCell::default(),
            open_count: Cell::default(),
            rejected: RefCell::default(),
        }
    }

    /// Returns whether the next message is from an admitted peer; such a message stays in the
    /// queue. Other messages are discarded. Fails with EAGAIN if there is no message.
    pub fn next_is_admitted(&self) -> Result<bool, Error> {
        if call::next_source(self.socket)?.is_some_and(|source| (self.is_admitted)(&source)) {
            return Ok(true);
        }
        let mut discarded = [0; 4096];
        let received = call::receive_sctp_without_waiting(self.socket, &mut discarded)?;
        if received.is_notification {
            self.handle_notification(&discarded, &received)?;
        }
        Ok(false)
    }

    /// Receives data, and handles the notifications before it. Returns 0 when all associations have
    /// ended.
    #[inline]
    fn receive_with(
        &self,
        call: impl Fn(BorrowedFd<'_>, &mut [u8]) -> Result<SctpReceived, Error>,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        loop {
            let received = call(self.socket, buffer)?;
            if received.is_notification {
                if self.handle_notification(buffer, &received)? {
                    return Ok(0);
                }
            } else if self.rejected.borrow().is_empty() || !self.is_from_rejected(&received) {
                self.last_source.replace(received.from);
                return Ok(received.length);
            }
        }
    }

    #[cold]
    fn is_from_rejected(&self, received: &SctpReceived) -> bool {
        let from = received.from.as_ref().and_then(KernelAddress::address);
        from.is_some_and(|from| self.rejected.borrow().contains(&from))
    }

    /// Handles a notification that begins in `buffer`. Returns whether all associations have ended.
    #[cold]
    fn handle_notification(&self, buffer: &[u8], received: &SctpReceived) -> Result<bool, Error> {
        let notification =
            self.read_notification(&buffer[..received.length], received.is_complete)?;
        let read_u16 =
            |offset: usize| u16::from_ne_bytes([notification[offset], notification[offset + 1]]);
        if read_u16(0) != ASSOCIATION_CHANGE {
            return Ok(false);
        }
        let from = received.from.as_ref().and_then(KernelAddress::address);
        let open_count = self.open_count.get();
        match read_u16(STATE_OFFSET) {
            0 if from.as_ref().is_some_and(|from| (self.is_admitted)(from)) => {
                self.open_count.set(open_count + 1);
            }
            0 => {
                let [a, b, c, d] = [0, 1, 2, 3].map(|index| notification[ID_OFFSET + index]);
                self.abort_association(i32::from_ne_bytes([a, b, c, d]), from);
            }
            // Lost, shut down, or not established; 2 is a restart.
            1 | 3 | 4 if !self.remove_rejected(from.as_ref()) => {
                self.open_count.set(open_count.saturating_sub(1));
                return Ok(open_count <= 1);
            }
            _ => {}
        }
        Ok(false)
    }

    /// Reads a notification to its end, after its first part. Returns its first 64 bytes. A data
    /// buffer can be shorter than a notification.
    fn read_notification(&self, first: &[u8], mut is_complete: bool) -> Result<[u8; 64], Error> {
        let mut notification = [0; 64];
        let mut length = first.len().min(notification.len());
        notification[..length].copy_from_slice(&first[..length]);
        while !is_complete {
            let mut next = [0; 64];
            let received = match call::receive_sctp(self.socket, &mut next) {
                Err(Error::INTR) => continue,
                other => other?,
            };
            let added = received.length.min(notification.len() - length);
            notification[length..length + added].copy_from_slice(&next[..added]);
            length += added;
            is_complete = received.is_complete || received.length == 0;
        }
        Ok(notification)
    }

    /// Aborts an association that is not admitted, and discards its data. If it has already ended,
    /// its peer is kept in `rejected` until the notification of the end.
    fn abort_association(&self, id: i32, from: Option<Address>) {
        match option::peel_off(self.socket, id) {
            Ok(association) => {
                // With a linger time of 0, close(2) aborts: RFC 6458, section 8.1.4.
                let _ = Socket::from(association).set_linger(Some(Duration::ZERO));
            }
            Err(_) => self.rejected.borrow_mut().extend(from),
        }
    }

    /// Removes a peer from `rejected` at the end of its association. Returns whether it was
    /// rejected.
    fn remove_rejected(&self, from: Option<&Address>) -> bool {
        let mut rejected = self.rejected.borrow_mut();
        let index = rejected.iter().position(|peer| Some(peer) == from);
        index.map(|index| rejected.swap_remove(index)).is_some()
    }
}

impl fmt::Debug for Associations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Associations")
            .field("socket", &self.socket)
            .field("open", &self.open_count)
            .finish_non_exhaustive()
    }
}

impl Io for &Associations<'_> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        match &*self.last_source.borrow() {
            Some(to) => call::send_to(self.socket, data, to),
            None => Err(Error::DESTADDRREQ),
        }
    }

    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        match &*self.last_source.borrow() {
            Some(to) => call::send_to_without_waiting(self.socket, data, to),
            None => Err(Error::DESTADDRREQ),
        }
    }

    fn is_connected(&self) -> bool {
        false
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.receive_with(call::receive_sctp, buffer)
    }

    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.receive_with(call::receive_sctp_without_waiting, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    const CLIENT: &str = "192.0.2.1:1000";
    const REJECTED: &str = "192.0.2.2:1000";

    /// The messages of a simulated SCTP socket. The real socket is UDP, so no association can be
    /// aborted.
    struct MessageScript(RefCell<VecDeque<(Vec<u8>, SctpReceived)>>);

    impl MessageScript {
        fn new(messages: impl IntoIterator<Item = (&'static str, Message)>) -> Self {
            let messages = messages.into_iter().map(|(from, message)| {
                let (bytes, is_notification) = match message {
                    Message::Data(bytes) => (vec![b'x'; bytes], false),
                    Message::Up => (association_change(0), true),
                    Message::Gone => (association_change(3), true),
                };
                let from = Address::Inet(from.parse().unwrap());
                let received = SctpReceived {
                    length: bytes.len(),
                    from: Some(KernelAddress::try_from(&from).unwrap()),
                    is_notification,
                    is_complete: true,
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

    fn association_change(state: u16) -> Vec<u8> {
        let mut notification = vec![0; 20];
        notification[..2].copy_from_slice(&ASSOCIATION_CHANGE.to_ne_bytes());
        notification[STATE_OFFSET..][..2].copy_from_slice(&state.to_ne_bytes());
        notification
    }

    #[test]
    fn rejected_associations_are_ignored() {
        use Message::{Data, Gone, Up};
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client: Address = Address::Inet(CLIENT.parse().unwrap());
        let is_admitted = |source: &Address| source.shares_host_with(&client);
        let associations = Associations::new(socket.as_fd(), &is_admitted);
        let script = MessageScript::new([
            (REJECTED, Up),
            (REJECTED, Data(7)),
            (REJECTED, Gone),
            (CLIENT, Up),
            (REJECTED, Up),
            (CLIENT, Data(4)),
            (REJECTED, Data(7)),
            (CLIENT, Data(5)),
            (REJECTED, Gone),
            (CLIENT, Data(6)),
            (CLIENT, Gone),
        ]);
        for length in [4, 5, 6, 0] {
            let received = associations.receive_with(|_, buffer| script.next(buffer), &mut [0; 64]);
            assert_eq!(received, Ok(length));
            let reply_address = associations
                .last_source
                .borrow()
                .as_ref()
                .and_then(KernelAddress::address);
            assert_eq!(reply_address.as_ref(), Some(&client), "{length}");
        }
        assert!(script.0.borrow().is_empty());
    }

    #[test]
    fn messages_before_the_first_admitted_one_are_discarded() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let [client, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = u32::from(client.local_addr().unwrap().port());
        let is_admitted = |source: &Address| source.port() == port;
        let associations = Associations::new(socket.as_fd(), &is_admitted);
        for sender in [&other, &other, &client] {
            sender.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        for admitted in [false, false, true, true] {
            assert_eq!(associations.next_is_admitted(), Ok(admitted));
        }
    }
}
