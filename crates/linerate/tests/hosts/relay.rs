//! A relay of control connections on a slave host that stops before a given message of the slave.
//! It holds a run in one stage of the protocol.

use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use testkit::{Namespace, Receive, wait_until};

use super::network::{PORT, SHORT_TIMEOUT};

/// Port at which the relay accepts masters.
pub(crate) const RELAY_PORT: u16 = PORT + 1;

/// A relay. It runs until the process ends.
pub(crate) struct LimitedRelay {
    is_closed: Arc<AtomicBool>,
}

impl LimitedRelay {
    /// Starts a relay that forwards the first `max_bytes` of a slave.
    pub(crate) fn new(host: &Namespace, max_bytes: usize) -> Self {
        let listener =
            host.enter(|| TcpListener::bind(("0.0.0.0", RELAY_PORT)).expect("a free port"));
        let is_closed = Arc::new(AtomicBool::new(false));
        let relay = Self {
            is_closed: Arc::clone(&is_closed),
        };
        host.enter(|| {
            thread::spawn(move || {
                for master in listener.incoming().map_while(Result::ok) {
                    let slave = TcpStream::connect(("127.0.0.1", PORT)).expect("the slave listens");
                    let (to, from) = (clone(&slave), clone(&master));
                    thread::spawn(move || forward(&from, &to, usize::MAX, &AtomicBool::default()));
                    let is_closed = Arc::clone(&is_closed);
                    thread::spawn(move || forward(&slave, &master, max_bytes, &is_closed));
                }
            });
        });
        relay
    }

    /// Waits until the slave has sent more than the relay forwards.
    #[track_caller]
    pub(crate) fn wait_until_closed(&self) {
        let is_closed = wait_until(SHORT_TIMEOUT, || self.is_closed.load(Relaxed));
        assert!(is_closed, "the slave does not reach the stage");
    }
}

/// Forwards at most `max_bytes`, and the end of the stream in any case.
fn forward(from: &TcpStream, mut to: &TcpStream, max_bytes: usize, is_closed: &AtomicBool) {
    let mut remaining = max_bytes;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.receive(&mut buffer) {
        let forwarded = count.min(remaining);
        remaining -= forwarded;
        if to.write_all(&buffer[..forwarded]).is_err() {
            break;
        }
        is_closed.fetch_or(forwarded < count, Relaxed);
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a free descriptor")
}
