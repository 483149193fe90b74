//! A relay on loopback that drops, doubles and swaps chosen datagrams of one client.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the threads wait for a datagram before they look whether they have ended.
const LOOK: Duration = Duration::from_millis(20);

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Forth,
    /// From the server to the client.
    Back,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Pass,
    /// It goes no further.
    Drop,
    /// It goes on twice.
    Double,
    /// It goes on after the next one of its way that passes.
    Swap,
}

/// A relay to a server, as long as this lives. Clients send to its port; the last one gets the answers.
#[derive(Debug)]
pub struct Relay {
    /// The port for clients.
    pub port: u16,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Starts a relay to `server`. `fate` decides on each datagram, and counts by itself.
    pub fn start<F>(server: u16, fate: F) -> Self
    where
        F: FnMut(Way, &[u8]) -> Fate + Clone + Send + 'static,
    {
        let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        far.connect((Ipv4Addr::LOCALHOST, server))
            .expect("loopback");
        let port = near.local_addr().expect("it is bound").port();
        let ended = Arc::new(AtomicBool::new(false));
        let client = Arc::new(Mutex::new(None));
        let threads = [Way::Forth, Way::Back].map(|way| {
            let (near, far) = (near.try_clone(), far.try_clone());
            let ends = Ends {
                near: near.expect("a descriptor"),
                far: far.expect("a descriptor"),
                client: Arc::clone(&client),
            };
            let (ended, fate) = (Arc::clone(&ended), fate.clone());
            std::thread::spawn(move || ends.run(way, &ended, fate))
        });
        Self {
            port,
            ended,
            threads: threads.into(),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Ends {
    near: UdpSocket,
    far: UdpSocket,
    /// The address of the client that sent last.
    client: Arc<Mutex<Option<SocketAddr>>>,
}

impl Ends {
    fn run(&self, way: Way, ended: &AtomicBool, mut fate: impl FnMut(Way, &[u8]) -> Fate) {
        let socket = match way {
            Way::Forth => &self.near,
            Way::Back => &self.far,
        };
        socket.set_read_timeout(Some(LOOK)).expect("not zero");
        let mut buffer = vec![0; 1 << 16];
        let mut swapped: Option<Vec<u8>> = None;
        while !ended.load(Relaxed) {
            // The time is up, or the other end refuses.
            let Ok((count, from)) = socket.recv_from(&mut buffer) else {
                continue;
            };
            if way == Way::Forth {
                *self.client.lock().expect("nothing panics with it") = Some(from);
            }
            let datagram = &buffer[..count];
            match fate(way, datagram) {
                Fate::Drop => continue,
                Fate::Swap => {
                    swapped = Some(datagram.to_vec());
                    continue;
                }
                Fate::Double => self.send(way, datagram),
                Fate::Pass => {}
            }
            self.send(way, datagram);
            if let Some(late) = swapped.take() {
                self.send(way, &late);
            }
        }
    }

    fn send(&self, way: Way, datagram: &[u8]) {
        let client = *self.client.lock().expect("nothing panics with it");
        let sent: io::Result<usize> = match (way, client) {
            (Way::Forth, _) => self.far.send(datagram),
            (Way::Back, Some(client)) => self.near.send_to(datagram, client),
            (Way::Back, None) => Ok(0),
        };
        // The other end may have gone.
        let _ = sent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fate() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let relay = Relay::start(port, |way, datagram| match (way, datagram[0]) {
            (Way::Forth, 1) => Fate::Drop,
            (Way::Forth, 2) => Fate::Double,
            (Way::Forth, 3) => Fate::Swap,
            _ => Fate::Pass,
        });
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.connect((Ipv4Addr::LOCALHOST, relay.port)).unwrap();
        let limit = Some(Duration::from_secs(20));
        client.set_read_timeout(limit).unwrap();
        server.set_read_timeout(limit).unwrap();
        for number in 0..=5 {
            client.send(&[number]).unwrap();
        }
        let mut datagram = [0; 8];
        let mut relayed = None;
        let came: Vec<u8> = (0..6)
            .map(|_| {
                relayed = Some(server.recv_from(&mut datagram).unwrap().1);
                datagram[0]
            })
            .collect();
        assert_eq!(came, [0, 2, 2, 4, 3, 5]);
        server.send_to(&[9], relayed.unwrap()).unwrap();
        assert_eq!(client.recv(&mut datagram).unwrap(), 1);
    }
}
