//! A gate on a slave's host that control connections pass, and that closes before a message of the slave's:
//! whatever happens then, happens in that stage.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use testkit::{Namespace, wait_until};

use super::ground::{PORT, SOON};

/// Where masters come to it.
pub(crate) const GATE: u16 = PORT + 1;

/// The gate, which is there as long as the process.
pub(crate) struct Gate {
    is_closed: Arc<AtomicBool>,
}

impl Gate {
    /// Lets so many bytes of the slave's pass.
    pub(crate) fn new(host: &Namespace, bytes: usize) -> Self {
        let listener = host.enter(|| TcpListener::bind(("0.0.0.0", GATE)).expect("a port"));
        let is_closed = Arc::new(AtomicBool::new(false));
        let gate = Self {
            is_closed: Arc::clone(&is_closed),
        };
        host.enter(|| {
            thread::spawn(move || {
                for master in listener.incoming().map_while(Result::ok) {
                    let slave = TcpStream::connect(("127.0.0.1", PORT)).expect("it listens");
                    let (to, from) = (clone(&slave), clone(&master));
                    thread::spawn(move || pass(&from, &to, usize::MAX, &AtomicBool::default()));
                    let is_closed = Arc::clone(&is_closed);
                    thread::spawn(move || pass(&slave, &master, bytes, &is_closed));
                }
            });
        });
        gate
    }

    /// Waits until the slave has said what is not let through.
    #[track_caller]
    pub(crate) fn closes(&self) {
        let closed = wait_until(SOON, || self.is_closed.load(Relaxed));
        assert!(closed, "the slave does not come so far");
    }
}

/// Until the end of the stream, which passes in any case.
fn pass(mut from: &TcpStream, mut to: &TcpStream, bytes: usize, is_closed: &AtomicBool) {
    let mut left = bytes;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let passing = count.min(left);
        left -= passing;
        if to.write_all(&buffer[..passing]).is_err() {
            break;
        }
        is_closed.fetch_or(passing < count, Relaxed);
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("there are descriptors left")
}
