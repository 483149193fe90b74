//! The TCP flows of a client, from the connection to the end.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use engine::{DataSocket, FlowGroup, GroupMember, Reason, Stop};
use model::{Half, Transport};
use sys::{Address, call};

use super::Run;
use crate::connection;
use crate::event::Event;
use crate::options::Direction;
use crate::traffic::{self, Orders};
use crate::wire::{Acknowledgement, Over, WallTime};

/// The deadline of an acknowledgement.
const ACKNOWLEDGED: Duration = Duration::from_secs(4);

impl Run<'_> {
    pub(super) fn streams(&self) {
        let flows = self.client.plan.flows();
        let group = FlowGroup::new(flows as usize, Half::default());
        let back = match self.listen() {
            Ok(back) => back,
            Err(why) => return self.fail(why),
        };
        std::thread::scope(|scope| {
            let forward_done = Stop::new();
            let forwards: Vec<_> = (0..flows)
                .map(|flow| {
                    let member = self.client.together.then(|| group.member());
                    scope.spawn(move || self.stream(flow, member))
                })
                .collect();
            let receives = back.map(|listener| {
                let done = forward_done.clone();
                scope.spawn(move || self.receive_back(&listener, &done))
            });
            let mut any = false;
            for forward in forwards {
                any |= forward.join().unwrap_or(false);
            }
            forward_done.pull(if any {
                Reason::Deadline
            } else {
                Reason::Cancelled
            });
            receives.map(std::thread::ScopedJoinHandle::join)
        });
        if flows > 1 {
            self.report_connect_times();
        }
    }

    /// Runs one flow; returns whether it was connected.
    fn stream(&self, flow: u32, member: Option<GroupMember<'_>>) -> bool {
        let number = self.numbers.next();
        let connected = self.connect(flow);
        self.keep_connect_time(connected.as_ref().map(|(_, time)| *time));
        let Some((data, connect_time)) = connected else {
            let connection = connection::unconnected(self.id(number, false), self.to.clone());
            self.observer.see(&Event::Connected(&connection));
            return false;
        };
        let direction = self.client.direction;
        let (is_reverse, is_duplex) = (
            direction == Direction::Reverse,
            direction == Direction::FullDuplex,
        );
        let id = self.id(number, false);
        let to = Address::of_peer(&data.socket).unwrap_or_else(|_| self.to.clone());
        let mut connection = connection::of_socket(id, &data, to, Transport::Tcp);
        connection.is_reverse = is_reverse;
        connection.is_full_duplex = is_duplex;
        connection.connect_time = Some(connect_time);
        self.note(&mut connection);
        self.see_connected(&connection);
        self.wait_to_begin(number);
        let group = match member {
            // The other flows start without one that failed to connect.
            Some(member) => member.start(),
            None => None,
        };
        let asked = self.hello();
        let started = asked.start.map_or_else(WallTime::now, |start| start.at);
        let hello = if self.settings.compatible {
            Vec::new()
        } else {
            asked.encode(Over::Stream)
        };
        if let Err(why) = self.greet(&data, &hello) {
            self.fail(why);
            return true;
        }
        let pattern = connection::pattern(self.settings.length, &hello);
        let plans = self.plans();
        std::thread::scope(|scope| {
            for plan in &plans {
                let (connection, data, pattern, hello) = (&connection, &data, &pattern, &hello);
                scope.spawn(move || {
                    let inbound = !plan.workload.sends();
                    let orders = Orders {
                        flow: plan,
                        data,
                        pattern,
                        group: group.filter(|_| !is_duplex),
                        patience: self.patience(),
                        is_duplex,
                        before: if inbound { 0 } else { hello.len() },
                        counts_reads: self.settings.print.enhanced,
                        shape: &self.client.shape,
                        receives_bursts: self.receives_bursts().then_some(true),
                        started,
                        ends_with_peer: false,
                        stop: self.stop,
                    };
                    match connection::leg(self.id(number, inbound), plan, data, connection) {
                        Ok(mut leg) => {
                            leg.tallies = self.tallies(inbound);
                            let run = || traffic::run(&orders, &leg, &self.reports);
                            self.keep(plan, self.sampled(&leg, run));
                        }
                        Err(error) => self.fail(sys::describe(&error)),
                    }
                });
            }
        });
        true
    }

    /// Sends the header, and waits for its acknowledgement if `-X` requests one.
    fn greet(&self, data: &DataSocket, hello: &[u8]) -> Result<(), String> {
        let mut left = hello;
        while !left.is_empty() {
            match call::send(data.socket.as_fd(), left) {
                Ok(sent) => left = &left[sent..],
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
        let until = Instant::now() + ACKNOWLEDGED;
        let mut bytes = Vec::new();
        let mut wanted = Acknowledgement::SHORT;
        while bytes.len() < wanted {
            let mut rest = [0; Acknowledgement::LONG];
            let readable = self.stop.wait_readable(data.socket.as_fd(), until);
            if !readable.map_err(|error| format!("recvack failed: {error}"))? {
                return Err(
                    "recvack failed: the server sent no acknowledgement within 4 s".to_owned(),
                );
            }
            let most = wanted - bytes.len();
            match call::receive(data.socket.as_fd(), &mut rest[..most]) {
                Ok(0) => return Err("recvack failed: the server closed the connection".to_owned()),
                Ok(count) => {
                    bytes.extend_from_slice(&rest[..count]);
                    // The long form has times of the server (trip times).
                    let length = bytes.first_chunk();
                    wanted = length.and_then(Acknowledgement::length).unwrap_or(wanted);
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
            None => Err("recvack failed: what the server sent is no acknowledgement".to_owned()),
        }
    }
}
