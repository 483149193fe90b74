//! Reads from sockets that wait again after an interruption.
//!
//! A read from a socket with a time limit ends with EINTR, without any signal handler, if the
//! process is stopped or frozen while it waits: signal(7). Whatever runs the tests may do so.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, recv};

/// Reads from a socket, as its own `recv`, `read` and `recv_from` do.
pub trait Receive {
    /// Reads a datagram, or what has arrived of a stream. Returns its length.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl<S: AsFd> Receive for S {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (length, _) = retry_on_intr(|| recv(self, &mut *buffer, RecvFlags::empty()))?;
        Ok(length)
    }
}

/// Reads from a UDP socket without a peer, as its own `recv_from` does.
pub trait ReceiveFrom {
    /// Reads a datagram. Returns its length and its sender.
    fn receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
}

impl ReceiveFrom for UdpSocket {
    fn receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        loop {
            match self.recv_from(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}
