//! One test from the request to the results.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::{
    Cell, Clock, Connector, Contents, DataSocket, Finish, Job, MAX_DATAGRAM, Memory, Path,
    PortRange, Ring, Role, SendFile, Stop, Times, connect, facts_at_end, keeper, run,
};
use model::{
    BuffersUsed, CpuUse, Ended, Limit, Outcome, Plan, Side, SocketFacts, Transport, Workload,
};
use rand::Rng;
use sys::call;

use super::control::{ANSWER_PATIENCE, Established};
use super::endpoints::with_port;
use super::request::{Own, request};
use super::{ClientError, Endpoints, TestRun, Told};
use crate::PATTERN;
use crate::details::Details;
use crate::options::{ConnectionPorts, Settings, Test};
use crate::warnings;
use crate::wire::{
    Capability, DETAILS_MAX, DetailsResponse, Frame, OmniResponse, OmniResults, Request,
    StreamResponse, StreamResults, TransactionResponse, TransactionResults,
};

/// How long the peer may take to read what is on its way when the time is up.
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);

/// How much longer than its time a receiver waits for the end of the peer's stream.
const LAST_DATA: Duration = Duration::from_millis(200);

/// All memory that one test's buffers may have at this end, in bytes: a slip of the keyboard should
/// not take the machine.
const MAX_BUFFER_BYTES: u64 = 4 << 30;

/// Runs the test; an error is a test without a result.
pub(super) fn test(
    settings: &Settings,
    control: &mut Established,
    endpoints: Endpoints,
    cancel: &Stop,
    cell: &Arc<Cell>,
) -> Result<TestRun, ClientError> {
    let plan = &settings.plan;
    if let Some(cpu) = plan.here.cpu
        && let Err(error) = sys::cpu::bind_thread(cpu)
    {
        eprintln!("netperf: could not bind to CPU {cpu}: {error}");
    }
    let mut end = End::prepare(plan, &endpoints)?;
    let asked = request(settings, &endpoints, end.own());
    let mut frame = asked.encode(settings.plan.there.cpu);
    own_capability().put(&mut frame);
    control.send(&frame)?;

    let answer = control.receive()?;
    let peer = Capability::find(&answer);
    let (mut told, port) = response(&asked, &answer)?;
    let dest = with_port(endpoints.dest, port);

    let started = SystemTime::now();
    let measured = end.run(settings, dest, control, cancel, cell)?;
    let Measured { mut here, ended } = measured;
    here.buffers = end.used;

    if settings.test != Test::TcpMss {
        match results(&asked, &mut told, control, cancel) {
            // A peer that sends or accepts goes by its own clock, or has been cut off: it has no
            // results when a test is ended here, and ours are what there is.
            Err(_) if cancel.is_set() && (plan.workload.receives() || plan.workload.connects()) => {
            }
            other => other?,
        }
    }
    let details = match peer {
        Some(peer)
            if peer.has(Capability::DETAILS)
                && settings.test != Test::TcpMss
                && ended != Ended::Cancelled =>
        {
            details(control)
        }
        _ => None,
    };
    here.host = Some(engine::facts(Some(local_ip(control))));
    here.program = Some(crate::PROGRAM.to_owned());
    let mut outcome = Outcome {
        plan: plan.clone(),
        started,
        here,
        there: Some(told.side()),
        ended,
        warnings: Vec::new(),
    };
    warnings::of_peer(
        &mut outcome,
        peer.map(|peer| peer.shares_host_with(&own_capability())),
        details,
    );
    Ok(TestRun {
        outcome,
        told,
        endpoints,
    })
}

/// This end of the data connection: socket, buffers.
struct End<'a> {
    plan: &'a Plan,
    source: SocketAddr,
    /// For a connection test only a sample: its sockets come and go.
    data: DataSocket,
    used: BuffersUsed,
    send: Option<Ring>,
    send_file: Option<SendFile>,
    receive: Option<Ring>,
}

/// What a flow left: why it ended, its socket's facts, how long it took and what the CPUs did.
type Moved = (Times, SocketFacts, (Duration, Option<CpuUse>));

/// What this end measured.
struct Measured {
    here: Side,
    ended: Ended,
}

impl<'a> End<'a> {
    fn prepare(plan: &'a Plan, endpoints: &Endpoints) -> Result<Self, ClientError> {
        let half = &plan.here;
        let bind = if plan.workload.connects() || is_the_peers(endpoints) {
            with_port(endpoints.source, 0)
        } else {
            endpoints.source
        };
        let data = DataSocket::open(plan.transport, bind, &half.socket, Role::Initiator).map_err(
            |error| ClientError::DataSocket {
                address: bind,
                error,
            },
        )?;
        let contents = half
            .fill
            .as_deref()
            .map_or(Contents::Pattern(PATTERN), Contents::File);
        let largest = (plan.transport == Transport::Udp).then_some(MAX_DATAGRAM);
        let memory = Memory::new(MAX_BUFFER_BYTES, MAX_BUFFER_BYTES);
        let send_buffer = data.facts.send_buffer_bytes;
        let send_file = half
            .send_from_file
            .then(|| SendFile::new(&half.send, send_buffer, half.fill.as_deref()))
            .transpose()?;
        let send = (plan.workload.sends() && send_file.is_none())
            .then(|| Ring::new(&half.send, largest, send_buffer, contents, &memory))
            .transpose()?;
        let receive = plan
            .workload
            .receives()
            .then(|| {
                Ring::new(
                    &half.receive,
                    None,
                    data.facts.receive_buffer_bytes,
                    Contents::Nothing,
                    &memory,
                )
            })
            .transpose()?;
        let used = BuffersUsed {
            send_bytes: send
                .as_ref()
                .map(Ring::size)
                .or(send_file.as_ref().map(SendFile::size)),
            send_width: send
                .as_ref()
                .map(Ring::width)
                .or(send_file.as_ref().map(SendFile::width)),
            receive_bytes: receive.as_ref().map(Ring::size),
            receive_width: receive.as_ref().map(Ring::width),
        };
        Ok(Self {
            plan,
            source: endpoints.source,
            data,
            used,
            send,
            send_file,
            receive,
        })
    }

    fn own(&self) -> Own {
        let bound = self
            .data
            .socket
            .local_addr()
            .ok()
            .and_then(|address| address.as_socket());
        Own {
            port: bound.map_or(0, |address| address.port()),
            send_width: self.used.send_width.unwrap_or(0),
            receive_width: self.used.receive_width.unwrap_or(0),
        }
    }

    fn run(
        &mut self,
        settings: &Settings,
        dest: SocketAddr,
        control: &Established,
        cancel: &Stop,
        cell: &Arc<Cell>,
    ) -> Result<Measured, ClientError> {
        wait(self.plan.phases.wait, control, cancel);
        let stop = cancel.follower();
        let _watch = keeper().on_hang_up(control.stream.as_fd(), &stop);
        let clock = Clock::start(self.plan.here.measure_cpu);
        let _deadline = match self.plan.limit {
            Limit::Time(length) => {
                // A sender that keeps the same time ends the stream a moment later, with all that it
                // sent; one that does not is not waited for.
                let streams_here = self.plan.workload == Workload::receive()
                    && self.plan.transport == Transport::Tcp;
                let moment = if streams_here {
                    LAST_DATA
                } else {
                    Duration::ZERO
                };
                Some(keeper().at(clock.started + length + moment, &stop))
            }
            _ => None,
        };
        let (times, facts, clocked) = if settings.test == Test::TcpMss {
            self.open(dest, &stop)?;
            (Times::nothing(), self.facts(), clock.stop())
        } else if self.plan.workload.connects() {
            let mut connector = self.connector(dest, settings.ports);
            let times = run(&mut self.job(&stop, cell), Path::Connector(&mut connector));
            let mut facts = self.data.facts.clone();
            if let Some(first) = connector.first_facts() {
                facts.send_buffer_end_bytes = first.send_buffer_end_bytes;
                facts.receive_buffer_end_bytes = first.receive_buffer_end_bytes;
                facts.max_segment_bytes = first.max_segment_bytes;
            }
            (times, facts, clock.stop())
        } else {
            self.run_on_one(dest, &stop, cell, &clock)?
        };
        if let Some(error) = failure(&times, self.plan, dest) {
            return Err(error);
        }
        let (elapsed, cpu) = clocked;
        let here = Side {
            counts: cell.counts(),
            elapsed: Some(elapsed),
            socket: facts,
            latency: times.latency,
            send_times: times.send_times,
            receive_times: times.receive_times,
            cpu,
            ..Side::default()
        };
        Ok(Measured {
            here,
            ended: times.ended,
        })
    }

    /// Runs on the one connection, or datagram socket, of a flow, and finishes it.
    fn run_on_one(
        &mut self,
        dest: SocketAddr,
        stop: &Stop,
        cell: &Arc<Cell>,
        clock: &Clock,
    ) -> Result<Moved, ClientError> {
        let datagrams = self.plan.transport == Transport::Udp;
        let connects = !datagrams || self.plan.here.socket.connect_datagrams;
        if connects && let Some(ended) = self.open(dest, stop)? {
            return Ok((ended, self.facts(), clock.stop()));
        }
        let socket = self
            .data
            .socket
            .try_clone()
            .map_err(|error| data_socket(self.source, error))?;
        let path = || {
            if connects {
                Path::Connected(socket.as_fd())
            } else {
                Path::Addressed(socket.as_fd(), dest.into())
            }
        };
        let times = run(&mut self.job(stop, cell), path());
        let facts = self.facts();
        let sends_only = !self.plan.workload.receives();
        // A stream has moved when the peer has read it: the drain is part of the time. Everything
        // else had moved when the loop ended.
        let moved = (!sends_only || datagrams).then(|| clock.stop());
        if datagrams {
            Finish::EmptyDatagrams(if self.plan.workload.sends() { 3 } else { 0 })
                .say(&path(), Duration::ZERO);
        } else if sends_only || self.plan.workload.sends() {
            Finish::HalfClose.say(&path(), DRAIN_PATIENCE);
        } else if times.ended == Ended::Cancelled {
            // The sender has its own clock and would go on to its end.
            let _ = call::shutdown(socket.as_fd());
        } else {
            Finish::AwaitClose.say(&path(), DRAIN_PATIENCE);
        }
        Ok((times, facts, moved.unwrap_or_else(|| clock.stop())))
    }

    /// Opens the connection; `Some` when its time was up before it stood.
    fn open(&mut self, dest: SocketAddr, stop: &Stop) -> Result<Option<Times>, ClientError> {
        if let Some(times) = connect(&self.data.socket, dest, stop) {
            return match times.failure {
                Some((_, errno)) => {
                    let error = io::Error::from_raw_os_error(errno);
                    Err(ClientError::DataConnect {
                        address: dest,
                        error,
                    })
                }
                None => Ok(Some(times)),
            };
        }
        Ok(None)
    }

    fn connector(&self, dest: SocketAddr, ports: ConnectionPorts) -> Connector {
        let range = PortRange {
            min: ports.min,
            max: ports.max,
        };
        let first = rand::rng().random();
        let options = self.plan.here.socket.clone();
        Connector::new(dest, self.source, range, first, options, ports.retry_all)
    }

    fn facts(&self) -> SocketFacts {
        let mut facts = self.data.facts.clone();
        facts_at_end(&self.data.socket, self.plan.transport, &mut facts);
        facts
    }

    fn job<'b>(&'b mut self, stop: &'b Stop, cell: &'b Arc<Cell>) -> Job<'b> {
        Job {
            workload: &self.plan.workload,
            limit: self.plan.limit,
            burst: self.plan.burst,
            timing: self.plan.timing,
            send: self.send.take(),
            send_file: self.send_file.take(),
            receive: self.receive.take(),
            discard_in_kernel: self.plan.here.discard_in_kernel
                && self.plan.transport == Transport::Tcp,
            write_instead_of_send: self.plan.here.write_instead_of_send,
            stop,
            drain: None,
            cell,
        }
    }
}

/// Whether the local port that was asked for is the peer's own, on this host: the two would talk to
/// themselves.
fn is_the_peers(endpoints: &Endpoints) -> bool {
    let port = endpoints.source.port();
    let same =
        port != 0 && port == endpoints.dest.port() && sys::facts::is_own(endpoints.dest.ip());
    if same {
        eprintln!("netperf: port {port} is the peer's on this host; using another one here");
    }
    same
}

/// What of a run's end is no end of a test, but a failure of it.
fn failure(times: &Times, plan: &Plan, dest: SocketAddr) -> Option<ClientError> {
    let (call, errno) = times.failure?;
    let gone = times.ended == Ended::PeerClosed;
    // A peer that counts closes when it has what it counted, whatever is still on its way.
    if gone && matches!(plan.limit, Limit::Bytes(_) | Limit::Transactions(_)) {
        return None;
    }
    let error = io::Error::from_raw_os_error(errno);
    Some(match call {
        "connect" => ClientError::DataConnect {
            address: dest,
            error,
        },
        call => ClientError::Data { call, error },
    })
}

/// The pause before the data, ended early by a cancel or a server that gives up.
fn wait(pause: Duration, control: &Established, cancel: &Stop) {
    if !pause.is_zero() {
        let _attending = cancel.attend();
        let _ = call::wait_readable(control.stream.as_fd(), pause);
    }
}

fn response(asked: &Request, answer: &Frame) -> Result<(Told, u16), ClientError> {
    let (told, port) = match asked {
        Request::TcpStream(_) => {
            let response = StreamResponse::decode(answer)?;
            (Told::from(&response), response.data_port)
        }
        Request::TcpCc(_) => {
            let response = TransactionResponse::decode(answer)?;
            (Told::from(&response), response.data_port)
        }
        _ => {
            let response = OmniResponse::decode(answer)?;
            (Told::from(&response), response.data_port as i32)
        }
    };
    let port = u16::try_from(port).map_err(|_| ClientError::BadPort(port.to_string()))?;
    Ok((told, port))
}

fn results(
    asked: &Request,
    told: &mut Told,
    control: &mut Established,
    cancel: &Stop,
) -> Result<(), ClientError> {
    let frame = if cancel.is_set() {
        control.receive_soon()?
    } else {
        control.receive()?
    };
    match asked {
        Request::TcpStream(_) => told.add_stream(&StreamResults::decode(&frame)?),
        Request::TcpCc(_) => told.add_transactions(&TransactionResults::decode(&frame)?),
        _ => told.add_omni(&OmniResults::decode(&frame)?),
    }
    Ok(())
}

/// What a linerate adds to its results; nothing when it does not.
fn details(control: &mut Established) -> Option<Details> {
    control.send(&Request::Details.encode(None)).ok()?;
    let length = DetailsResponse::decode(&control.receive().ok()?).ok()?.len;
    let mut document = vec![0; length.min(DETAILS_MAX) as usize];
    control.receive_exact(&mut document, ANSWER_PATIENCE).ok()?;
    Details::from_json(&document)
}

fn own_capability() -> Capability {
    Capability {
        features: Capability::DETAILS,
        host: sys::facts::boot_id().unwrap_or_default(),
    }
}

fn local_ip(control: &Established) -> std::net::IpAddr {
    let wildcard = std::net::Ipv4Addr::UNSPECIFIED.into();
    control
        .stream
        .local_addr()
        .map_or(wildcard, |address| address.ip().to_canonical())
}

fn data_socket(address: SocketAddr, error: io::Error) -> ClientError {
    ClientError::DataSocket { address, error }
}
