//! The server's connections to the client (`-d`, `-r`).

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{DataSocket, Stop, StopReason};
use model::{Group, Transport};
use sys::{Address, call};

use super::{ClientRun, REVERSE_CONNECT_TIMEOUT};
use crate::connection;
use crate::event::TestEvent;
use crate::options::SendMode;
use crate::report_group::ReportGroup;
use crate::traffic::{self, StreamTransfer};
use crate::wire::WallTime;

/// The maximum time from the server's start to the accept of its connection.
const MAX_START_LEAD: Duration = Duration::from_secs(1);

impl ClientRun<'_> {
    /// Listens for the server's connections. Returns `None` unless the test has them.
    pub(super) fn listen_for_server(&self) -> Result<Option<sys::Socket>, String> {
        if !self.client.direction.has_connection_back() {
            return Ok(None);
        }
        let port = self.client.listen_port;
        let address = self.server_address.with_any_host().with_port(port.into());
        let address = address.ok_or("listener bind failed: no such port")?;
        let listeners = server::listen(Transport::Tcp, &[address], false);
        let listeners = listeners
            .map_err(|error| format!("listener bind failed: {}", sys::describe(&error)))?;
        let listener = listeners.into_iter().next();
        let window = listener
            .as_ref()
            .and_then(|listener| listener.recv_buffer_size().ok());
        self.observer.observe(&TestEvent::Listening {
            ports: (port, port),
            window: window.unwrap_or(0) as u32,
            congestion_control: listener.as_ref().and_then(engine::congestion_control),
            join_line: None,
        });
        Ok(listener)
    }

    /// Returns the group for the reports of the server's flows.
    pub(crate) fn reverse_reports(&self) -> Arc<ReportGroup> {
        if self.settings.output.version.layout().sums_both_directions {
            return Arc::clone(&self.reports);
        }
        ReportGroup::new(Arc::clone(self.observer), self.settings.output.interval)
    }

    /// Accepts the server's connections, one per flow, and receives their data.
    pub(super) fn receive_reverse_flows(
        &self,
        listener: &sys::Socket,
        reports: &Arc<ReportGroup>,
        forward_done: &Stop,
    ) {
        std::thread::scope(|scope| {
            for _ in 0..self.client.plan.flows() {
                let Some(socket) = self.accept_reverse_connection(listener, forward_done) else {
                    return self.fail("ERROR: expected reverse connect did not occur");
                };
                let number = self.flow_numbers.next();
                self.spawn(scope, move || {
                    self.receive_reverse_flow(socket, number, reports);
                });
            }
        });
    }

    fn receive_reverse_flow(&self, socket: sys::Socket, number: u32, reports: &Arc<ReportGroup>) {
        let accepted = Instant::now();
        let options = &self.settings.socket;
        let data = match DataSocket::from_accepted(socket, Transport::Tcp, options) {
            Ok(data) => data,
            Err(error) => return self.fail(error.to_string()),
        };
        let peer = match Address::peer(&data.socket) {
            Ok(peer) => peer,
            Err(error) => {
                return self.fail(format!("reverse connect failed: {}", sys::describe(&error)));
            }
        };
        let last_group = self.client.plan.groups.last();
        let Some(flow) = last_group.and_then(Group::flow) else {
            return;
        };
        let mut connection =
            connection::from_socket(self.flow_id(number, false), &data, peer, Transport::Tcp);
        connection.initial_tcp_state = None;
        self.observer.observe(&TestEvent::Connected(&connection));
        let transfer = StreamTransfer {
            flow,
            data: &data,
            pattern: &[],
            group: None,
            finish_timeout: self.finish_timeout(),
            is_duplex: false,
            bytes_before_start: 0,
            counts_reads: self.settings.output.enhanced,
            send_mode: &SendMode::default(),
            received_bursts: None,
            requested: accepted.checked_sub(MAX_START_LEAD).unwrap_or(accepted),
            started: WallTime::now(),
            ends_on_reset: false,
            ignores_shutdown: false,
            memory: &Self::memory(),
            stop: self.stop,
        };
        match connection::measured_flow(self.flow_id(number, false), flow, &data, &connection) {
            Ok(measured) => {
                let run = || traffic::run(&transfer, &measured, reports);
                self.record_result(flow, self.run_flow(&measured, run));
            }
            Err(error) => self.fail(sys::describe(&error)),
        }
    }

    /// Accepts the next connection from the server's host.
    ///
    /// Returns `None` if none arrives within [`REVERSE_CONNECT_TIMEOUT`] after the client's own
    /// flows. If all of those failed to connect, returns `None` at once.
    fn accept_reverse_connection(
        &self,
        listener: &sys::Socket,
        forward_done: &Stop,
    ) -> Option<sys::Socket> {
        let mut deadline = None;
        while !self.stop.is_set() {
            if forward_done.is_set() {
                if forward_done.reason() == Some(StopReason::Cancelled) {
                    return None;
                }
                deadline = deadline.or(Some(Instant::now() + REVERSE_CONNECT_TIMEOUT));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            let next_check = Instant::now() + Duration::from_millis(50);
            if !self
                .stop
                .wait_readable(listener.as_fd(), next_check)
                .unwrap_or(false)
            {
                continue;
            }
            if let Ok((socket, from)) = call::accept_from(listener.as_fd()) {
                let from = from.and_then(|peer| peer.address());
                if from.is_some_and(|from| from.shares_host_with(&self.server_address)) {
                    return Some(socket.into());
                }
            }
        }
        None
    }
}
