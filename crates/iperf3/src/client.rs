//! A client: asks for a test, opens its streams, runs them, and exchanges results.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{ConnectError, Counters, DataSocket, Memory, Role, Stop, connect};
use model::Transport;
use sys::call;
use sys::resolve::resolve;
use sys::{Address, option};

use crate::login::Padding;
use crate::options::{Client, Common};
use crate::plan::{self, Own};
use crate::result::TestRun;
use crate::streams::{self, Course, End, IntervalEnd, Lead, Stream, Verdict};
use crate::talk::{Events, PATIENCE, Talk};
use crate::wire::error::{self, Fault};
use crate::wire::{Cookie, Direction, HELLO, Parameters, Protocol, State, is_reply, stream_number};

/// How long a stock server needs to listen again after a failed login: it closes its listener meanwhile.
const RELISTEN: Duration = Duration::from_millis(300);

/// The longest datagram.
const LONGEST_DATAGRAM: usize = 65_507;

/// What a client's test came to.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The test, as far as it came.
    pub(crate) run: Option<TestRun>,
    /// Why it failed.
    pub(crate) fault: Option<Fault>,
    /// A signal ended it.
    pub(crate) interrupted: bool,
}

/// Runs a test.
pub(crate) fn run(
    common: &Common,
    client: &Client,
    stop: &Stop,
    events: &mut dyn Events,
) -> Finished {
    let mut run = None;
    let mut fault = test(common, client, stop, Padding::Oaep, &mut run, events);
    // A server of 3.16 and before has the other padding, and says no more than that the login failed.
    let is_refused =
        |fault: &Fault| [error::AUTHORIZATION, error::CONTROL_CLOSED].contains(&fault.code);
    let has_streams = run.as_ref().is_some_and(|run| !run.streams.is_empty());
    if client.user.is_some()
        && !client.old_padding
        && !has_streams
        && fault.as_ref().is_some_and(is_refused)
    {
        std::thread::sleep(RELISTEN);
        fault = test(common, client, stop, Padding::Old, &mut run, events);
    }
    if let (Some(run), Some(fault)) = (&mut run, &fault) {
        run.error = Some(fault.to_string());
    }
    Finished {
        run,
        fault,
        interrupted: stop.is_set(),
    }
}

/// Runs a test with this padding of the login; returns why it failed.
fn test(
    common: &Common,
    client: &Client,
    stop: &Stop,
    padding: Padding,
    run: &mut Option<TestRun>,
    events: &mut dyn Events,
) -> Option<Fault> {
    let padding = if client.old_padding {
        Padding::Old
    } else {
        padding
    };
    Session::connect(common, client, stop)
        .and_then(|mut session| {
            let done = session.test(run, padding, events);
            if done.is_err() && !session.has_said_end {
                let _ = session.talk().say(State::IperfDone);
            }
            done
        })
        .err()
}

struct Session<'a> {
    common: &'a Common,
    client: &'a Client,
    stop: &'a Stop,
    control: ControlConnection,
    /// The last state has been sent.
    has_said_end: bool,
}

impl<'a> Session<'a> {
    fn connect(common: &'a Common, client: &'a Client, stop: &'a Stop) -> Result<Self, Fault> {
        let unresolved =
            |error: sys::resolve::Unresolved| Fault::because(error::CONNECT, error.text);
        let to = resolve(&client.host, common.family)
            .map_err(unresolved)?
            .at(common.port);
        let from = match &common.bind {
            Some(host) => resolve(host, common.family).map_err(unresolved)?.addresses,
            None => Vec::new(),
        };
        let in_time = stop.follower();
        let _deadline = client
            .connect_timeout
            .map(|time| engine::deadline_thread().at(Instant::now() + time, &in_time));
        let mut fault = Fault::because(error::CONNECT, "no address of its family to bind to");
        for to in &to {
            let local = from.iter().find(|from| from.is_ipv6() == to.is_ipv6());
            let local = match local {
                Some(local) => local.clone(),
                None if from.is_empty() => to.anywhere().with_any_port(),
                None => continue,
            };
            match ControlConnection::connect(Transport::Tcp, &local, to, &in_time) {
                Ok(mut control) => {
                    control.outlive_stop();
                    crate::talk::keep_alive(&control, common);
                    return Ok(Self {
                        common,
                        client,
                        stop,
                        control,
                        has_said_end: false,
                    });
                }
                Err(_) if in_time.is_set() && !stop.is_set() => {
                    let late = std::io::Error::from(call::Error::TIMEDOUT);
                    return Err(Fault::io(error::CONNECT, &late));
                }
                Err(error) => fault = Fault::io(error::CONNECT, &error),
            }
        }
        Err(fault)
    }

    fn talk(&self) -> Talk<'_> {
        Talk {
            control: &self.control,
            stop: self.stop,
        }
    }

    fn test(
        &mut self,
        run: &mut Option<TestRun>,
        padding: Padding,
        events: &mut dyn Events,
    ) -> Result<(), Fault> {
        let cookie = Cookie::random();
        self.talk().write(&cookie.0)?;
        let segment = option::max_segment(self.control.as_fd()).unwrap_or(0);
        let parameters = self.parameters(segment, padding)?;
        self.expect(State::ParamExchange)?;
        let peer = (self.client.host.clone(), self.common.port);
        let run = run.insert(TestRun {
            control_segment: segment,
            ..TestRun::new(self.common, &parameters, cookie, peer)
        });
        let text = parameters.encode();
        events.debug("send_parameters:", Some(&text));
        events.connected(run);
        self.talk().send(&text)?;
        self.expect(State::CreateStreams)?;
        let streams = self.open(&parameters, &cookie)?;
        streams::describe(&streams, events);
        run.open(&streams);
        self.expect(State::TestStart)?;
        self.expect(State::TestRunning)?;
        events.started(run);
        self.measure(run, &streams, events)
    }

    /// The parameters, with what the connection decides.
    fn parameters(&self, segment: u32, padding: Padding) -> Result<Parameters, Fault> {
        let mut parameters = self.client.parameters.clone();
        let protocol = parameters.protocol;
        let default = match protocol {
            Protocol::Udp if segment > 0 => segment,
            _ => protocol.block_bytes(),
        };
        parameters.block_bytes.get_or_insert(default);
        if let Some(path) = (self.common.file.as_ref()).filter(|_| self.client.sends_whole_file) {
            let length = std::fs::metadata(path).map(|metadata| metadata.len());
            parameters.bytes = length.map_err(|error| Fault::io(error::FILE, &error))?;
            parameters.time = 0;
        }
        parameters.token = crate::login::token(self.client, padding)?;
        Ok(parameters)
    }

    /// Waits for this state.
    fn expect(&self, expected: State) -> Result<(), Fault> {
        let byte = self.talk().byte(Instant::now() + PATIENCE)?;
        if byte == Some(expected.byte()) {
            return Ok(());
        }
        Err(self.unexpected(byte))
    }

    /// What another byte means than the one that should come.
    fn unexpected(&self, byte: Option<u8>) -> Fault {
        let Some(byte) = byte else {
            return Fault::of(error::CONTROL_CLOSED);
        };
        match State::of(byte) {
            Some(State::AccessDenied) => Fault::of(error::BUSY),
            Some(State::ServerError) => self.talk().server_error(),
            Some(State::ServerTerminate) => Fault::of(error::SERVER_TERMINATED),
            _ => Fault::of(error::UNKNOWN_MESSAGE),
        }
    }

    /// Opens the streams, one after the other.
    fn open(&self, parameters: &Parameters, cookie: &Cookie) -> Result<Vec<Stream>, Fault> {
        let own = Own::of(self.common);
        streams::bind(own.cpu)?;
        let (forward, backward) = parameters.streams();
        let mut streams = Vec::new();
        for at in 0..forward + backward {
            let sends = at < forward;
            let plan = plan::flow(parameters, sends, &own);
            let file = streams::open_file(&plan, own.file.as_deref())?;
            let data = self.socket(&plan, at)?;
            let to = self.prepared(&data, parameters)?;
            let fault = |error| Fault::io(error::STREAM_CONNECT, &error);
            let in_time = self.stop.follower_until(Instant::now() + PATIENCE);
            connect(&data.socket, &to, &in_time.0).map_err(|error| match error {
                ConnectError::Failed(error) => fault(error),
                ConnectError::Stopped(_) => fault(call::Error::TIMEDOUT.into()),
            })?;
            if plan.transport == Transport::Udp {
                self.greet(&data, parameters)?;
            } else {
                let sent = call::send(data.socket.as_fd(), &cookie.0);
                sent.map_err(|error| Fault::io(error::STREAM_WRITE, &error.into()))?;
            }
            let address = |address: std::io::Result<Address>| address.map_err(fault);
            streams.push(Stream {
                number: stream_number(at as usize),
                label: 5 + 2 * at as i32,
                sends,
                local: address(Address::of(&data.socket))?,
                peer: address(Address::of_peer(&data.socket))?,
                file,
                data,
                plan,
                counters: Arc::new(Counters::default()),
            });
        }
        Ok(streams)
    }

    fn socket(&self, plan: &model::FlowPlan, at: u32) -> Result<DataSocket, Fault> {
        let local = self.control.data_address();
        let local = local.map_err(|error| Fault::io(error::STREAM_CREATE, &error))?;
        let wildcard = local.anywhere().with_any_port();
        let bind = if self.common.bind.is_some() {
            local
        } else {
            wildcard
        };
        let port = self
            .client
            .local_port
            .map_or(0, |port| u32::from(port) + at);
        let bind = bind.with_port(port).unwrap_or(bind);
        let data = DataSocket::open(plan.transport, &bind, &plan.here.socket, Role::Initiator);
        let data = data.map_err(|error| crate::socket_fault(&error))?;
        if data
            .refused
            .iter()
            .any(|refused| refused.setting == "TCP_CONGESTION")
        {
            return Err(Fault::of(error::CONGESTION));
        }
        let facts = &data.facts;
        let given = [facts.send_buffer_bytes, facts.receive_buffer_bytes];
        let asked = plan.here.socket.send_buffer_bytes.unwrap_or(0);
        if given.into_iter().flatten().any(|given| given < asked) {
            return Err(Fault::of(error::BUFFER_READ_BACK));
        }
        Ok(data)
    }

    /// Sets what a stream's connection needs before it is opened; returns where it goes.
    fn prepared(&self, data: &DataSocket, parameters: &Parameters) -> Result<Address, Fault> {
        let socket = data.socket.as_fd();
        let fault = |code| move |error| Fault::io(code, &error);
        if let Some(streams) = self.client.association_streams {
            sys::sctp::set_streams(socket, streams, 0).map_err(fault(error::SCTP_STREAMS))?;
        }
        for name in &self.client.links {
            let links = resolve(name, self.common.family);
            let links =
                links.map_err(|unresolved| Fault::because(error::SCTP_BINDX, unresolved.text))?;
            for link in links.addresses {
                sys::sctp::bind_also(socket, &link).map_err(fault(error::SCTP_BINDX))?;
            }
        }
        let to = self.control.peer().clone();
        let Some(label) = parameters.flow_label else {
            return Ok(to);
        };
        let Address::Inet(SocketAddr::V6(mut to)) = to else {
            return Err(Fault::because(error::FLOW_LABEL, "not an IPv6 address"));
        };
        sys::option::set_flow_label(socket, *to.ip(), label).map_err(fault(error::FLOW_LABEL))?;
        to.set_flowinfo(label.to_be());
        Ok(Address::Inet(SocketAddr::V6(to)))
    }

    /// Introduces a UDP stream. Of a server that sends, data may overtake the answer.
    fn greet(&self, data: &DataSocket, parameters: &Parameters) -> Result<(), Fault> {
        let socket = data.socket.as_fd();
        let fault = |code, error: call::Error| Fault::io(code, &error.into());
        call::send(socket, &HELLO).map_err(|error| fault(error::STREAM_WRITE, error))?;
        let until = Instant::now() + PATIENCE;
        let mut early = if parameters.direction == Direction::Forward {
            0
        } else {
            2
        };
        let mut datagram = vec![0; LONGEST_DATAGRAM];
        loop {
            match self.stop.wait_readable(socket, until) {
                Ok(true) => {}
                Ok(false) => return Err(fault(error::STREAM_READ, call::Error::TIMEDOUT)),
                Err(error) => return Err(fault(error::STREAM_READ, error)),
            }
            match call::receive_without_waiting(socket, &mut datagram) {
                Ok(count) if is_reply(&datagram[..count]) => return Ok(()),
                Ok(_) if early > 0 => early -= 1,
                Ok(_) => {
                    return Err(Fault::because(
                        error::STREAM_READ,
                        "not the answer of iperf3",
                    ));
                }
                Err(call::Error::AGAIN | call::Error::INTR) => {}
                Err(error) => return Err(fault(error::STREAM_READ, error)),
            }
        }
    }

    /// Runs the streams and exchanges results.
    fn measure(
        &mut self,
        run: &mut TestRun,
        streams: &[Stream],
        events: &mut dyn Events,
    ) -> Result<(), Fault> {
        let parameters = run.parameters.clone();
        let payload = crate::payload(&parameters, parameters.direction != Direction::Reverse);
        let most = streams::STREAM_MEMORY;
        let memory = Memory::new(most, most * streams.len() as u64);
        let course = Course {
            time: (parameters.time > 0).then(|| Duration::from_secs(parameters.time.into())),
            bytes: crate::total_bytes(&parameters),
            ..Course::of(self.common, &parameters, self.stop, &payload, &memory)
        };
        let meter = crate::cpu::CpuMeter::start();
        let mut lead = Leader {
            session: self,
            run,
            events,
            fault: None,
        };
        let data = streams::run(streams, course, &self.control, &mut lead);
        let fault = (lead.fault).or_else(|| data.end.fault(error::CLIENT_TERMINATED));
        self.has_said_end = data.end == End::Cancelled;
        run.take(data);
        run.cpu = meter.percent();
        fault.map_or(Ok(()), Err)?;
        self.talk().send_results(run.to_results(None), events)?;
        run.believe(self.talk().results(events)?)?;
        self.expect(State::DisplayResults)?;
        self.has_said_end = true;
        self.talk().say(State::IperfDone)
    }
}

/// What the control connection has to say while data flows.
struct Leader<'a, 'b> {
    session: &'a Session<'b>,
    run: &'a TestRun,
    events: &'a mut dyn Events,
    fault: Option<Fault>,
}

impl Lead for Leader<'_, '_> {
    fn on_control(&mut self) -> Verdict {
        let byte = self.session.talk().byte(Instant::now());
        self.fault = Some(match byte {
            Ok(byte) => self.session.unexpected(byte),
            Err(fault) => fault,
        });
        Verdict::End
    }

    fn on_interval(&mut self, interval: IntervalEnd<'_>) {
        self.events.interval(self.run, interval);
    }

    fn on_end(&mut self, end: &End) {
        if self.fault.is_some() {
            return;
        }
        let talk = self.session.talk();
        let said = match end {
            End::Regular => talk
                .say(State::TestEnd)
                .and_then(|()| self.session.expect(State::ExchangeResults)),
            End::Cancelled => talk.say(State::ClientTerminate),
            _ => return,
        };
        self.fault = said.err();
    }
}
