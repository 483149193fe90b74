//! The TCP flows of a client, from the connect call to the end.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use engine::{DataSocket, FlowGroup, GroupMember, Stop, StopReason};
use model::{EndpointPlan, Transport};
use sys::{Address, call};

use super::ClientRun;
use crate::connection;
use crate::event::TestEvent;
use crate::options::Direction;
use crate::traffic::{self, ReceivedBursts, StreamTransfer};
use crate::wire::{Acknowledgement, HelloTransport, WallTime};

/// The maximum time until the server acknowledges the test header.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(4);

impl ClientRun<'_> {
    /// Runs all TCP flows, and receives the server's flows for `-d` and `-r`.
    pub(super) fn run_streams(&self) {
        let flows = self.client.plan.flows();
        let group = FlowGroup::new(flows as usize, EndpointPlan::default());
        let listener = match self.listen_for_server() {
            Ok(listener) => listener,
            Err(reason) => return self.fail(reason),
        };
        std::thread::scope(|scope| {
            let forward_done = Stop::new();
            let reverse_reports = self.reverse_reports();
            let held = listener.is_some().then(|| reverse_reports.hold());
            let forward_flows: Vec<_> = (0..flows)
                .filter_map(|flow| {
                    let member = self.client.starts_together.then(|| group.member());
                    self.spawn(scope, move || self.run_stream(flow, member))
                })
                .collect();
            let reverse_flows = listener.and_then(|listener| {
                let done = forward_done.clone();
                self.spawn(scope, move || {
                    self.receive_reverse_flows(&listener, &reverse_reports, &done);
                })
            });
            let mut has_connected = false;
            for flow in forward_flows {
                has_connected |= self.join(flow).unwrap_or(false);
            }
            forward_done.set(if has_connected {
                StopReason::Deadline
            } else {
                StopReason::Cancelled
            });
            reverse_flows.map(|flows| self.join(flows));
            drop(held);
        });
        if flows > 1 {
            self.report_connect_times();
        }
    }

    /// Runs one flow. Returns whether it connected.
    fn run_stream(&self, flow: u32, member: Option<GroupMember<'_>>) -> bool {
        let number = self.flow_numbers.next();
        let connected = self.connect(flow, number);
        self.record_connect_time(connected.as_ref().map(|(_, time)| *time));
        let Some((data, connect_time)) = connected else {
            let connection =
                connection::unconnected(self.flow_id(number, false), self.server_address.clone());
            self.observer.observe(&TestEvent::Connected(&connection));
            return false;
        };
        let direction = self.client.direction;
        let (is_reverse, is_duplex) = (
            direction == Direction::Reverse,
            direction == Direction::FullDuplex,
        );
        let id = self.flow_id(number, false);
        let server_address =
            Address::peer(&data.socket).unwrap_or_else(|_| self.server_address.clone());
        let mut connection = connection::from_socket(id, &data, server_address, Transport::Tcp);
        connection.is_reverse = is_reverse;
        connection.is_full_duplex = is_duplex;
        connection.connect_time = Some(connect_time);
        self.add_requested_features(&mut connection);
        self.report_connected(&connection);
        self.wait_for_start_time(number);
        let group = match member {
            // If another flow failed to connect, this flow runs without the group.
            Some(member) => member.start(),
            None => None,
        };
        let request = self.hello(number);
        let started = request.start.map_or_else(WallTime::now, |start| start.at);
        let hello = if self.settings.compatible {
            Vec::new()
        } else {
            request.encode(HelloTransport::Stream)
        };
        let requested = Instant::now();
        if let Err(reason) = self.send_hello(&data, &hello) {
            self.fail(reason);
            return true;
        }
        let pattern = connection::pattern(self.settings.length, &hello);
        let plans = self.connection_plans();
        std::thread::scope(|scope| {
            for plan in &plans {
                let (connection, data, pattern, hello) = (&connection, &data, &pattern, &hello);
                self.spawn(scope, move || {
                    let inbound = !plan.workload.sends();
                    let transfer = StreamTransfer {
                        flow: plan,
                        data,
                        pattern,
                        group: group.filter(|_| !is_duplex),
                        finish_timeout: self.finish_timeout(),
                        is_duplex,
                        bytes_before_start: if inbound { 0 } else { hello.len() },
                        counts_reads: self.settings.output.enhanced,
                        send_mode: &self.client.send_mode,
                        received_bursts: self.receives_bursts().then_some(ReceivedBursts {
                            stream_has_test_header: true,
                        }),
                        requested,
                        started,
                        ends_on_reset: false,
                        ignores_shutdown: self.client.ignores_shutdown,
                        memory: &Self::memory(),
                        stop: self.stop,
                    };
                    match connection::measured_flow(
                        self.flow_id(number, inbound),
                        plan,
                        data,
                        connection,
                    ) {
                        Ok(mut measured) => {
                            measured.timings = self.new_timings(inbound);
                            let run = || traffic::run(&transfer, &measured, &self.reports);
                            self.record_result(plan, self.run_flow(&measured, run));
                        }
                        Err(error) => self.fail(sys::describe(&error)),
                    }
                });
            }
        });
        true
    }

    /// Sends the test header. With `-X`, waits for its acknowledgement.
    fn send_hello(&self, data: &DataSocket, hello: &[u8]) -> Result<(), String> {
        let mut remaining = hello;
        while !remaining.is_empty() {
            match call::send(data.socket.as_fd(), remaining) {
                Ok(sent) => remaining = &remaining[sent..],
                Err(call::Error::INTR) if !self.stop.is_set() => {}
                Err(error) => {
                    return Err(format!(
                        "write failed: {}",
                        sys::describe(&std::io::Error::from(error))
                    ));
                }
            }
        }
        if self.client.peer_detect {
            self.await_acknowledgement(data)?;
        }
        Ok(())
    }

    fn await_acknowledgement(&self, data: &DataSocket) -> Result<(), String> {
        let deadline = Instant::now() + ACKNOWLEDGEMENT_TIMEOUT;
        let mut bytes = Vec::new();
        let mut expected_len = Acknowledgement::SHORT_LEN;
        while bytes.len() < expected_len {
            let mut received = [0; Acknowledgement::MAX_LEN];
            let readable = self.stop.wait_readable(data.socket.as_fd(), deadline);
            if !readable.map_err(|error| format!("recvack failed: {error}"))? {
                return Err(
                    "recvack failed: the server sent no acknowledgement within 4 s".to_owned(),
                );
            }
            let missing = expected_len - bytes.len();
            match call::receive(data.socket.as_fd(), &mut received[..missing]) {
                Ok(0) => return Err("recvack failed: the server closed the connection".to_owned()),
                Ok(count) => {
                    bytes.extend_from_slice(&received[..count]);
                    // The long form contains times of the server, for --trip-times.
                    let first_bytes = bytes.first_chunk();
                    expected_len = first_bytes
                        .and_then(Acknowledgement::length)
                        .unwrap_or(expected_len);
                }
                Err(call::Error::INTR) => {}
                Err(error) => {
                    return Err(format!(
                        "recvack failed: {}",
                        sys::describe(&std::io::Error::from(error))
                    ));
                }
            }
        }
        match Acknowledgement::decode(&bytes) {
            Some(_) => Ok(()),
            None => Err("recvack failed: the server sent an invalid acknowledgement".to_owned()),
        }
    }
}
