//! The server's connections to a client (`-d`, `-r`).

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{DataSocket, Reason, Stop};
use model::{Group, Transport};
use sys::{Address, call};

use super::{BACK, Run};
use crate::connection;
use crate::event::Event;
use crate::options::Shape;
use crate::report_group::ReportGroup;
use crate::traffic::{self, Orders};
use crate::wire::WallTime;

impl Run<'_> {
    /// Listens for the server's connection of `-d` and `-r`.
    pub(super) fn listen(&self) -> Result<Option<sys::Socket>, String> {
        if !self.client.direction.has_connection_back() {
            return Ok(None);
        }
        let port = self.client.listen_port;
        let at = self.to.anywhere().with_port(port.into());
        let at = at.ok_or("listener bind failed: no such port")?;
        let listeners = server::listen(Transport::Tcp, &[at], false);
        let listeners = listeners
            .map_err(|error| format!("listener bind failed: {}", sys::describe(&error)))?;
        let listener = listeners.into_iter().next();
        let window = listener
            .as_ref()
            .and_then(|one| one.recv_buffer_size().ok());
        self.observer.see(&Event::Listening {
            ports: (port, port),
            window: window.unwrap_or(0) as u32,
            joins: None,
        });
        Ok(listener)
    }

    /// Accepts the server's connections, one per flow, and runs their receivers.
    pub(super) fn receive_back(&self, listener: &sys::Socket, forward_done: &Stop) {
        // A client prints no sum of both directions.
        let reports = ReportGroup::new(Arc::clone(self.observer), self.settings.print.interval);
        for _ in 0..self.client.plan.flows() {
            let Some(socket) = self.accept_back(listener, forward_done) else {
                return self.fail("ERROR: expected reverse connect did not occur");
            };
            let options = self.settings.socket.clone();
            let Ok(data) = DataSocket::of_accepted(socket, Transport::Tcp, &options) else {
                continue;
            };
            let number = self.numbers.next();
            let Ok(peer) = Address::of_peer(&data.socket) else {
                continue;
            };
            let back = self.client.plan.groups.last();
            let Some(flow) = back.and_then(Group::flow) else {
                continue;
            };
            let mut connection =
                connection::of_socket(self.id(number, false), &data, peer, Transport::Tcp);
            connection.tcp = None;
            self.observer.see(&Event::Connected(&connection));
            let orders = Orders {
                flow,
                data: &data,
                pattern: &[],
                group: None,
                patience: self.patience(),
                is_duplex: false,
                before: 0,
                counts_reads: self.settings.print.enhanced,
                shape: &Shape::default(),
                receives_bursts: None,
                started: WallTime::now(),
                ends_with_peer: false,
                stop: self.stop,
            };
            match connection::leg(self.id(number, false), flow, &data, &connection) {
                Ok(leg) => {
                    let run = || traffic::run(&orders, &leg, &reports);
                    self.keep(flow, self.sampled(&leg, run));
                }
                Err(error) => self.fail(sys::describe(&error)),
            }
        }
    }

    /// Accepts the next connection from the server's host; `None` if none comes within [`BACK`] after the forward flows.
    fn accept_back(&self, listener: &sys::Socket, forward_done: &Stop) -> Option<sys::Socket> {
        let mut until = None;
        while !self.stop.is_set() {
            if forward_done.is_set() {
                if forward_done.reason() == Some(Reason::Cancelled) {
                    return None;
                }
                until = until.or(Some(Instant::now() + BACK));
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            let look = Instant::now() + Duration::from_millis(50);
            if !self
                .stop
                .wait_readable(listener.as_fd(), look)
                .unwrap_or(false)
            {
                continue;
            }
            if let Ok((socket, from)) = call::accept_from(listener.as_fd()) {
                let from = from.and_then(|peer| peer.address());
                if from.is_some_and(|from| from.shares_host_with(&self.to)) {
                    return Some(socket.into());
                }
            }
        }
        None
    }
}
