//! The client: requests a test, opens its streams, runs them, and exchanges results.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{
    BufferMemory, ConnectError, Counters, DataSocket, Role, Stop, connect, deadline_thread,
};
use model::Transport;
use sys::call;
use sys::resolve::resolve;
use sys::{Address, option};

use crate::control_channel::{ControlChannel, MAX_RESULTS_BYTES, MESSAGE_TIMEOUT, TestEvents};
use crate::login::Padding;
use crate::options::{ClientSettings, CommonSettings};
use crate::plan::{self, LocalSettings};
use crate::result::TestRun;
use crate::streams::{
    self, IntervalEnd, NextStep, Stream, TransferEnd, TransferHandler, TransferSettings,
};
use crate::wire::error::{self, Fault};
use crate::wire::{
    ControlState, Cookie, Direction, GREETING, Parameters, Protocol, is_reply, stream_number,
};

/// The delay before a second login attempt: a stock server closes its listener for a moment.
const RELISTEN_DELAY: Duration = Duration::from_millis(300);

/// The maximum UDP payload over IPv4.
const MAX_DATAGRAM_BYTES: usize = 65_507;

/// The end of a client's test.
#[derive(Debug)]
pub(crate) struct FinishedClient {
    /// The test; incomplete if it failed, `None` if it failed before the parameters were known.
    pub(crate) run: Option<TestRun>,
    /// The error with which it failed.
    pub(crate) fault: Option<Fault>,
    /// The error's texts, of which the last one is in the test as well.
    pub(crate) errors: Vec<String>,
    /// Whether a signal ended it.
    pub(crate) interrupted: bool,
}

/// Runs a test.
pub(crate) fn run(
    common: &CommonSettings,
    client: &ClientSettings,
    stop: &Stop,
    events: &mut dyn TestEvents,
) -> FinishedClient {
    let mut run = None;
    let mut fault = run_with_padding(common, client, stop, Padding::Oaep, &mut run, events);
    // A server of 3.16 or earlier expects the other padding, and reports only a failed login. A
    // fault with a reason is of this end.
    let is_refused = |fault: &Fault| {
        fault.reason.is_none()
            && [error::AUTHORIZATION, error::CONTROL_CLOSED].contains(&fault.code)
    };
    let has_streams = run.as_ref().is_some_and(|run| !run.streams.is_empty());
    if client.user.is_some()
        && !client.pkcs1_padding
        && !has_streams
        && fault.as_ref().is_some_and(is_refused)
    {
        std::thread::sleep(RELISTEN_DELAY);
        fault = run_with_padding(common, client, stop, Padding::Pkcs1, &mut run, events);
    }
    let interrupted = stop.is_set();
    let errors = fault.as_ref().map_or_else(Vec::new, |fault| {
        let text = fault.text(common.version);
        if interrupted {
            return vec![fault.interrupt_text(common.version)];
        }
        let is_repeated = fault.is_of_server && common.version.layout().repeats_server_errors;
        let of_server = is_repeated.then(|| format!("SERVER ERROR - {text}"));
        of_server.into_iter().chain([text]).collect()
    });
    if let Some(run) = &mut run {
        run.error = errors.last().cloned();
        run.is_interrupted = interrupted && fault.is_some();
    }
    FinishedClient {
        run,
        fault,
        errors,
        interrupted,
    }
}

/// Runs a test with this login padding; returns the error if it fails.
fn run_with_padding(
    common: &CommonSettings,
    client: &ClientSettings,
    stop: &Stop,
    padding: Padding,
    run: &mut Option<TestRun>,
    events: &mut dyn TestEvents,
) -> Option<Fault> {
    let padding = if client.pkcs1_padding {
        Padding::Pkcs1
    } else {
        padding
    };
    Session::connect(common, client, stop)
        .and_then(|mut session| {
            let result = session.run_test(run, padding, events);
            if result.is_err() && !session.has_sent_end {
                let _ = session.channel().send_state(ControlState::IperfDone);
            }
            result
        })
        .err()
        .map(|fault| fault.or_terminated(error::CLIENT_TERMINATED))
}

struct Session<'a> {
    common: &'a CommonSettings,
    client: &'a ClientSettings,
    stop: &'a Stop,
    control: ControlConnection,
    /// Whether the final state has been sent.
    has_sent_end: bool,
}

impl<'a> Session<'a> {
    fn connect(
        common: &'a CommonSettings,
        client: &'a ClientSettings,
        stop: &'a Stop,
    ) -> Result<Self, Fault> {
        let unresolved =
            |error: sys::resolve::ResolveError| Fault::with_reason(error::CONNECT, error.text);
        let remote_addresses = resolve(&client.host, common.family)
            .map_err(unresolved)?
            .with_port(common.port);
        let local_addresses = match &common.bind {
            Some(host) => resolve(host, common.family).map_err(unresolved)?.addresses,
            None => Vec::new(),
        };
        let connect_stop = stop.child();
        let _deadline = client
            .connect_timeout
            .map(|time| deadline_thread().set_at(Instant::now() + time, &connect_stop));
        let mut fault = Fault::with_reason(
            error::CONNECT,
            "no local address (-B) has the family of the server's address",
        );
        for remote in &remote_addresses {
            let local = local_addresses
                .iter()
                .find(|from| from.is_ipv6() == remote.is_ipv6());
            let local = match local {
                Some(local) => local.clone(),
                None if local_addresses.is_empty() => remote.with_any_host().with_any_port(),
                None => continue,
            };
            match ControlConnection::connect(Transport::Tcp, &local, remote, &connect_stop) {
                Ok(mut control) => {
                    control.detach_stop();
                    crate::control_channel::enable_keep_alive(&control, common);
                    return Ok(Self {
                        common,
                        client,
                        stop,
                        control,
                        has_sent_end: false,
                    });
                }
                Err(_) if connect_stop.is_set() && !stop.is_set() => {
                    let timeout = std::io::Error::from(call::Error::TIMEDOUT);
                    return Err(Fault::io(error::CONNECT, &timeout));
                }
                Err(error) => fault = Fault::io(error::CONNECT, &error),
            }
        }
        Err(fault)
    }

    fn channel(&self) -> ControlChannel<'_> {
        ControlChannel {
            control: &self.control,
            stop: self.stop,
        }
    }

    fn run_test(
        &mut self,
        run: &mut Option<TestRun>,
        padding: Padding,
        events: &mut dyn TestEvents,
    ) -> Result<(), Fault> {
        let cookie = Cookie::random();
        self.channel().send_bytes(&cookie.0)?;
        let segment = option::max_segment_bytes(self.control.as_fd()).unwrap_or(0);
        let parameters = self.parameters(segment, padding)?;
        self.expect_state(ControlState::ParamExchange)?;
        let peer = (self.client.host.clone(), self.common.port);
        let run = run.insert(TestRun {
            control_segment: segment,
            ..TestRun::new(self.common, &parameters, cookie, peer)
        });
        let text = requested_parameters(&parameters).encode();
        events.debug("send_parameters:", Some(&text));
        events.connected(run);
        self.channel().send_json(&text)?;
        let mut first_bytes = match parameters.protocol {
            Protocol::Udp => GREETING.to_vec(),
            _ => cookie.0.to_vec(),
        };
        let mut states = vec![ControlState::CreateStreams];
        if parameters.udp_cookie {
            states.push(ControlState::StreamBegin);
        }
        if self.expect_one_of(&states)? == ControlState::StreamBegin {
            first_bytes.extend(cookie.0);
            self.expect_state(ControlState::CreateStreams)?;
        }
        let streams = self.open_streams(&parameters, &first_bytes)?;
        streams::log_socket_settings(&streams, events);
        run.set_streams(&streams);
        self.expect_state(ControlState::TestStart)?;
        run.has_started = true;
        self.expect_state(ControlState::TestRunning)?;
        events.started(run);
        self.measure(run, &streams, events)
    }

    /// Returns the parameters, with the values that depend on the connection.
    fn parameters(&self, segment: u32, padding: Padding) -> Result<Parameters, Fault> {
        let mut parameters = self.client.parameters.clone();
        let protocol = parameters.protocol;
        let default = match protocol {
            Protocol::Udp if segment > 0 => segment,
            _ => protocol.default_block_bytes(),
        };
        parameters.block_bytes.get_or_insert(default);
        if let Some(path) = (self.common.file.as_ref()).filter(|_| self.client.sends_whole_file) {
            let length = std::fs::metadata(path).map(|metadata| metadata.len());
            parameters.bytes = length.map_err(|error| Fault::io(error::FILE, &error))?;
            parameters.time = 0;
        }
        parameters.token = crate::login::token(self.client, padding)?;
        parameters.udp_cookie = protocol == Protocol::Udp;
        Ok(parameters)
    }

    /// Waits for the state `expected`; fails on any other.
    fn expect_state(&self, expected: ControlState) -> Result<(), Fault> {
        self.expect_one_of(&[expected]).map(drop)
    }

    /// Waits for one of these states; fails on any other.
    fn expect_one_of(&self, expected: &[ControlState]) -> Result<ControlState, Fault> {
        let byte = self
            .channel()
            .receive_byte(Instant::now() + MESSAGE_TIMEOUT)?;
        let state = byte.and_then(ControlState::from_byte);
        let state = state.filter(|state| expected.contains(state));
        state.ok_or_else(|| self.unexpected_fault(byte))
    }

    /// Returns the error for an unexpected byte, or for a closed connection.
    fn unexpected_fault(&self, byte: Option<u8>) -> Fault {
        let Some(byte) = byte else {
            return Fault::from_code(error::CONTROL_CLOSED);
        };
        match ControlState::from_byte(byte) {
            Some(ControlState::AccessDenied) => Fault::from_code(error::BUSY),
            Some(ControlState::ServerError) => self.channel().receive_server_error(&[]),
            Some(ControlState::ServerTerminate) => Fault::from_code(error::SERVER_TERMINATED),
            _ => Fault::from_code(error::UNKNOWN_MESSAGE),
        }
    }

    /// Opens the streams one by one. Each begins with `first_bytes`.
    fn open_streams(
        &self,
        parameters: &Parameters,
        first_bytes: &[u8],
    ) -> Result<Vec<Stream>, Fault> {
        let local_settings = LocalSettings::from_settings(self.common);
        streams::bind_cpu(local_settings.cpu)?;
        let (version, protocol) = (self.common.version, parameters.protocol);
        let (forward, backward) = parameters.stream_counts();
        let mut streams = Vec::new();
        for index in 0..forward + backward {
            let sends = index < forward;
            let plan = plan::flow(parameters, sends, &local_settings);
            let file = streams::open_file(&plan, local_settings.file.as_deref())?;
            let data = self.open_socket(&plan, index)?;
            let destination = self.prepare_socket(&data, parameters)?;
            let fault = |error| Fault::io(error::STREAM_CONNECT, &error);
            let connect_stop = self.stop.child_until(Instant::now() + MESSAGE_TIMEOUT);
            connect(&data.socket, &destination, &connect_stop.0).map_err(|error| match error {
                ConnectError::Failed(error) => fault(error),
                ConnectError::Stopped(_) if self.stop.is_set() => {
                    fault(call::Error::CANCELED.into())
                }
                ConnectError::Stopped(_) => fault(call::Error::TIMEDOUT.into()),
            })?;
            let sent = call::send(data.socket.as_fd(), first_bytes);
            sent.map_err(|error| Fault::io(error::STREAM_WRITE, &error.into()))?;
            if plan.transport == Transport::Udp {
                self.await_reply(&data, parameters)?;
            }
            let address = |address: std::io::Result<Address>| address.map_err(fault);
            streams.push(Stream {
                number: stream_number(index as usize),
                label: version.stream_label(false, protocol, index as usize),
                sends,
                local: address(Address::local(&data.socket))?,
                peer: address(Address::peer(&data.socket))?,
                file,
                data,
                plan,
                counters: Arc::new(Counters::default()),
            });
        }
        Ok(streams)
    }

    fn open_socket(&self, plan: &model::FlowPlan, index: u32) -> Result<DataSocket, Fault> {
        let local = self.control.data_address();
        let local = local.map_err(|error| Fault::io(error::STREAM_CREATE, &error))?;
        let any_address = local.with_any_host().with_any_port();
        let bind = if self.common.bind.is_some() {
            local
        } else {
            any_address
        };
        let port = self
            .client
            .local_port
            .map_or(0, |port| u32::from(port) + index);
        let bind = bind.with_port(port).unwrap_or(bind);
        let data = DataSocket::open(plan.transport, &bind, &plan.local.socket, Role::Initiator);
        let data = data.map_err(|error| crate::socket_fault(&error))?;
        if data
            .refused
            .iter()
            .any(|refused| refused.setting == "TCP_CONGESTION")
        {
            return Err(Fault::from_code(error::CONGESTION));
        }
        let facts = &data.facts;
        let granted = [facts.send_buffer_bytes, facts.receive_buffer_bytes];
        let requested = plan.local.socket.send_buffer_bytes.unwrap_or(0);
        if granted.into_iter().flatten().any(|bytes| bytes < requested) {
            return Err(Fault::from_code(error::BUFFER_READ_BACK));
        }
        Ok(data)
    }

    /// Sets the socket options that must precede connect(2); returns the destination address.
    fn prepare_socket(&self, data: &DataSocket, parameters: &Parameters) -> Result<Address, Fault> {
        let socket = data.socket.as_fd();
        let fault = |code| move |error| Fault::io(code, &error);
        if let Some(streams) = self.client.association_streams {
            sys::sctp::set_streams(socket, streams, 0).map_err(fault(error::SCTP_STREAMS))?;
        }
        for name in &self.client.extra_local_addresses {
            let resolved = resolve(name, self.common.family);
            let addresses = resolved
                .map_err(|unresolved| Fault::with_reason(error::SCTP_BINDX, unresolved.text))?;
            for address in addresses.addresses {
                sys::sctp::bind_additional(socket, &address).map_err(fault(error::SCTP_BINDX))?;
            }
        }
        let destination = self.control.peer().clone();
        let Some(label) = parameters.flow_label else {
            return Ok(destination);
        };
        let Address::Inet(SocketAddr::V6(mut destination)) = destination else {
            return Err(Fault::with_reason(error::FLOW_LABEL, "not an IPv6 address"));
        };
        sys::option::set_flow_label(socket, *destination.ip(), label)
            .map_err(fault(error::FLOW_LABEL))?;
        destination.set_flowinfo(label.to_be());
        Ok(Address::Inet(SocketAddr::V6(destination)))
    }

    /// Waits for the reply to the greeting of a UDP stream.
    ///
    /// If the server sends, up to two data datagrams may arrive before its reply.
    fn await_reply(&self, data: &DataSocket, parameters: &Parameters) -> Result<(), Fault> {
        let socket = data.socket.as_fd();
        let fault = |error: call::Error| Fault::io(error::STREAM_READ, &error.into());
        let until = Instant::now() + MESSAGE_TIMEOUT;
        let mut early_datagrams = if parameters.direction == Direction::Forward {
            0
        } else {
            2
        };
        let mut datagram = vec![0; MAX_DATAGRAM_BYTES];
        // A server that ends now drops the greeting without an error.
        let stop = self.stop.child();
        let _watch = deadline_thread().set_on_hang_up(self.control.as_fd(), &stop);
        loop {
            match stop.wait_readable(socket, until) {
                Ok(true) => {}
                Err(_) if stop.is_set() && !self.stop.is_set() => {
                    let byte = self.channel().receive_byte(until)?;
                    return Err(self.unexpected_fault(byte));
                }
                Ok(false) => return Err(fault(call::Error::TIMEDOUT)),
                Err(error) => return Err(fault(error)),
            }
            match call::receive_without_waiting(socket, &mut datagram) {
                Ok(count) if is_reply(&datagram[..count]) => return Ok(()),
                Ok(_) if early_datagrams > 0 => early_datagrams -= 1,
                Ok(_) => {
                    return Err(Fault::with_reason(error::STREAM_READ, "not iperf3's reply"));
                }
                Err(call::Error::AGAIN) => call::discard_errors(socket),
                Err(call::Error::INTR) => {}
                Err(error) => return Err(fault(error)),
            }
        }
    }

    /// Runs the streams and exchanges results.
    fn measure(
        &mut self,
        run: &mut TestRun,
        streams: &[Stream],
        events: &mut dyn TestEvents,
    ) -> Result<(), Fault> {
        let parameters = run.parameters.clone();
        let payload = crate::payload(&parameters, parameters.direction != Direction::Reverse);
        let stream_bytes = streams::STREAM_MEMORY;
        let memory = BufferMemory::new(stream_bytes, stream_bytes * streams.len() as u64);
        let transfer = TransferSettings {
            time: (parameters.time > 0).then(|| Duration::from_secs(parameters.time.into())),
            ..TransferSettings::from_settings(
                self.common,
                &parameters,
                self.stop,
                &payload,
                &memory,
            )
        };
        let meter = crate::cpu::ProcessCpuMeter::start();
        let mut handler = ClientHandler {
            session: self,
            run,
            events,
            fault: None,
        };
        let data = streams::run_transfer(streams, transfer, &self.control, &mut handler);
        let fault = (handler.fault).or_else(|| data.end.fault(error::CLIENT_TERMINATED));
        self.has_sent_end = data.end == TransferEnd::Cancelled;
        run.set_transfer_result(data);
        run.cpu = meter.percent();
        fault.map_or(Ok(()), Err)?;
        self.channel().send_results(run.to_results(None), events)?;
        run.apply_peer_results(self.channel().receive_results(MAX_RESULTS_BYTES, events)?)?;
        self.expect_state(ControlState::DisplayResults)?;
        self.has_sent_end = true;
        self.channel().send_state(ControlState::IperfDone)
    }
}

/// Returns the parameters that the server gets.
///
/// Without a limit of bytes, a server sends until the client ends the test. A server that stops at
/// the limit may have sent too little: it also counts lost datagrams, and bytes that the client
/// omits, because the omitted time of the server ends earlier.
fn requested_parameters(parameters: &Parameters) -> Parameters {
    let is_received = parameters.direction != Direction::Forward;
    let may_fall_short = parameters.protocol == Protocol::Udp || parameters.omit > 0;
    let mut requested = parameters.clone();
    if is_received && may_fall_short {
        (requested.bytes, requested.blocks) = (0, 0);
    }
    requested
}

/// Handles the control connection while data flows.
struct ClientHandler<'a, 'b> {
    session: &'a Session<'b>,
    run: &'a TestRun,
    events: &'a mut dyn TestEvents,
    fault: Option<Fault>,
}

impl TransferHandler for ClientHandler<'_, '_> {
    fn on_control(&mut self) -> NextStep {
        let byte = self.session.channel().receive_byte(Instant::now());
        self.fault = Some(match byte {
            Ok(byte) => self.session.unexpected_fault(byte),
            Err(fault) => fault,
        });
        NextStep::End
    }

    fn on_interval(&mut self, interval: IntervalEnd<'_>) {
        self.events.interval(self.run, interval);
    }

    fn on_end(&mut self, end: &TransferEnd) -> bool {
        if self.fault.is_some() {
            return false;
        }
        let channel = self.session.channel();
        let sent = match end {
            TransferEnd::Regular => channel
                .send_state(ControlState::TestEnd)
                .and_then(|()| self.session.expect_state(ControlState::ExchangeResults)),
            TransferEnd::Cancelled => channel.send_state(ControlState::ClientTerminate),
            _ => return false,
        };
        self.fault = sent.err();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_stops_at_a_limit_only_if_all_its_bytes_count() {
        for (protocol, direction, omit, is_sent) in [
            (Protocol::Tcp, Direction::Forward, 1, true),
            (Protocol::Udp, Direction::Forward, 0, true),
            (Protocol::Tcp, Direction::Reverse, 0, true),
            (Protocol::Tcp, Direction::Both, 0, true),
            (Protocol::Tcp, Direction::Reverse, 1, false),
            (Protocol::Tcp, Direction::Both, 1, false),
            (Protocol::Udp, Direction::Reverse, 0, false),
        ] {
            let parameters = Parameters {
                protocol,
                direction,
                omit,
                blocks: 5,
                time: 0,
                ..Parameters::default()
            };
            let requested = requested_parameters(&parameters);
            assert_eq!((requested.blocks == 5, requested.time), (is_sent, 0));
        }
    }
}
