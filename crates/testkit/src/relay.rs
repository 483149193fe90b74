//! A relay on loopback that drops, duplicates or swaps selected datagrams of one client.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::receive::ReceiveFrom;

/// Interval at which the threads check whether the relay has stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayDirection {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// Action for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayAction {
    /// Forward the datagram.
    Pass,
    /// Drop the datagram.
    Drop,
    /// Forward the datagram twice.
    Double,
    /// Forward the datagram after the next forwarded datagram of the same direction.
    Swap,
}

/// A relay to a server. Clients send to its port. The client that sent last receives the answers.
/// Dropping this value stops the relay.
#[derive(Debug)]
pub struct Relay {
    /// The port for clients.
    pub port: u16,
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Starts a relay to a port on loopback. Each direction has its own clone of `choose_action`,
    /// which returns the action for a datagram.
    pub fn start<F>(server_port: u16, choose_action: F) -> Self
    where
        F: FnMut(RelayDirection, &[u8]) -> RelayAction + Clone + Send + 'static,
    {
        let client_side = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let server_side = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        server_side
            .connect((Ipv4Addr::LOCALHOST, server_port))
            .expect("loopback");
        let port = client_side.local_addr().expect("it is bound").port();
        let stopped = Arc::new(AtomicBool::new(false));
        let client = Arc::new(Mutex::new(None));
        let threads = [RelayDirection::ToServer, RelayDirection::ToClient].map(|direction| {
            let (client_side, server_side) = (client_side.try_clone(), server_side.try_clone());
            let sockets = RelaySockets {
                client_side: client_side.expect("a descriptor"),
                server_side: server_side.expect("a descriptor"),
                client: Arc::clone(&client),
            };
            let (stopped, choose_action) = (Arc::clone(&stopped), choose_action.clone());
            std::thread::spawn(move || sockets.run(direction, &stopped, choose_action))
        });
        Self {
            port,
            stopped,
            threads: threads.into(),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stopped.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct RelaySockets {
    client_side: UdpSocket,
    server_side: UdpSocket,
    /// The address of the client that sent last.
    client: Arc<Mutex<Option<SocketAddr>>>,
}

impl RelaySockets {
    fn run(
        &self,
        direction: RelayDirection,
        stopped: &AtomicBool,
        mut choose_action: impl FnMut(RelayDirection, &[u8]) -> RelayAction,
    ) {
        let socket = match direction {
            RelayDirection::ToServer => &self.client_side,
            RelayDirection::ToClient => &self.server_side,
        };
        socket
            .set_read_timeout(Some(POLL_INTERVAL))
            .expect("the timeout is not zero");
        let mut buffer = vec![0; 1 << 16];
        let mut delayed: Option<Vec<u8>> = None;
        while !stopped.load(Relaxed) {
            // The receive timed out, or the other end refused a datagram.
            let Ok((count, from)) = socket.receive_from(&mut buffer) else {
                continue;
            };
            if direction == RelayDirection::ToServer {
                *self
                    .client
                    .lock()
                    .expect("no thread panics while it holds the lock") = Some(from);
            }
            let datagram = &buffer[..count];
            match choose_action(direction, datagram) {
                RelayAction::Drop => continue,
                RelayAction::Swap => {
                    delayed = Some(datagram.to_vec());
                    continue;
                }
                RelayAction::Double => self.send(direction, datagram),
                RelayAction::Pass => {}
            }
            self.send(direction, datagram);
            if let Some(datagram) = delayed.take() {
                self.send(direction, &datagram);
            }
        }
    }

    fn send(&self, direction: RelayDirection, datagram: &[u8]) {
        let client = *self
            .client
            .lock()
            .expect("no thread panics while it holds the lock");
        let sent: io::Result<usize> = match (direction, client) {
            (RelayDirection::ToServer, _) => self.server_side.send(datagram),
            (RelayDirection::ToClient, Some(client)) => self.client_side.send_to(datagram, client),
            (RelayDirection::ToClient, None) => Ok(0),
        };
        // The other end may be closed.
        let _ = sent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Receive;

    #[test]
    fn applies_each_action() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let relay = Relay::start(port, |direction, datagram| match (direction, datagram[0]) {
            (RelayDirection::ToServer, 1) => RelayAction::Drop,
            (RelayDirection::ToServer, 2) => RelayAction::Double,
            (RelayDirection::ToServer, 3) => RelayAction::Swap,
            _ => RelayAction::Pass,
        });
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.connect((Ipv4Addr::LOCALHOST, relay.port)).unwrap();
        let timeout = Some(Duration::from_secs(20));
        client.set_read_timeout(timeout).unwrap();
        server.set_read_timeout(timeout).unwrap();
        for number in 0..=5 {
            client.send(&[number]).unwrap();
        }
        let mut datagram = [0; 8];
        let mut relay_address = None;
        let received: Vec<u8> = (0..6)
            .map(|_| {
                relay_address = Some(server.receive_from(&mut datagram).unwrap().1);
                datagram[0]
            })
            .collect();
        assert_eq!(received, [0, 2, 2, 4, 3, 5]);
        server.send_to(&[9], relay_address.unwrap()).unwrap();
        assert_eq!(client.receive(&mut datagram).unwrap(), 1);
    }
}
