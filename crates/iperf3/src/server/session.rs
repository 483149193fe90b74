//! A session with one client, from its cookie to its last message.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{BudgetHolder, BudgetShare, BufferMemory, Counters, DataSocket, ResourceAmounts};
use model::FlowPlan;
use server::{ClientTest, Permissions, Refusal, RunningTest, ServerContext};
use sys::call::{self, Error};
use sys::{Address, Socket};

use super::Iperf3Dialect;
use super::console::TestOutput;
use crate::control_channel::{ControlChannel, MESSAGE_TIMEOUT, TestEvents};
use crate::options::{ServerSettings, file_conflict};
use crate::output::host_and_port;
use crate::plan::{self, LocalSettings};
use crate::print::{MAX_KEPT_BYTES, OutputTarget, Printer};
use crate::result::TestRun;
use crate::streams::{
    self, IntervalEnd, NextStep, Stream, TransferEnd, TransferHandler, TransferSettings,
};
use crate::wire::error::{self, Fault};
use crate::wire::parameters::MAX_TIME_SECONDS;
use crate::wire::{
    ControlState, Cookie, Direction, Parameters, Protocol, Results, reply_to, stream_number,
};

/// The maximum length of parameters, which is the limit of later versions.
const MAX_PARAMETERS_BYTES: usize = 8192;

/// The memory of a stream's histogram and of the used part of its stack, in bytes.
const STREAM_BYTES: u64 = 32 << 10;

/// The maximum length of a client's results, and of its part for one stream. Those of stock have a
/// quarter of that.
const RESULTS_BYTES: usize = 4096;
const STREAM_RESULT_BYTES: usize = 1024;

/// The memory that parsed JSON may use per byte of its text: a value of 32 bytes for two bytes, in a
/// list that grows by doubling.
const VALUE_BYTES_PER_BYTE: usize = 48;

/// The maximum time by which a test may exceed its duration.
const OVERTIME_LIMIT: Duration = Duration::from_secs(40);

/// The timeout for a client's UDP streams, from its turn on.
const UDP_STREAMS_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval between checks of the control connection while waiting for streams.
const CONTROL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A connection that has no valid parameters yet.
pub(super) struct NewConnection {
    /// The deadline of the parameters.
    pub(super) deadline: Instant,
    /// The share of the connections without parameters.
    pub(super) share: BudgetShare,
}

/// Serves a client. Returns `false` if it did not count as a test: after a failed login, or if the
/// maximum number of tests is reached.
pub(super) fn serve(
    dialect: &Iperf3Dialect,
    control: &mut ControlConnection,
    cookie: Cookie,
    server: ServerContext<'_>,
    connection: NewConnection,
) -> bool {
    // A stop of the server ends all waits, but the last messages are still sent.
    control.detach_stop();
    crate::control_channel::enable_keep_alive(control, &dialect.common);
    let session = Session {
        dialect,
        control,
        server,
        requested_rate: Cell::default(),
    };
    let parameters = session.receive_parameters(connection.deadline);
    let admit = |_| dialect.admit_test(control.peer());
    let test_share = parameters.as_ref().ok().and_then(admit);
    if parameters.is_ok() && test_share.is_none() {
        super::send_access_denied(control);
        return false;
    }
    drop(connection.share);
    let accepted = parameters.and_then(|parameters| {
        session
            .begin_test(&parameters)
            .map(|running_test| (parameters, running_test))
    });
    let accepted = accepted.map_err(|fault| fault.or_terminated(error::SERVER_TERMINATED));
    let (parameters, running_test) = match accepted {
        Ok(accepted) => accepted,
        Err(fault) => {
            session.report_failure(&fault);
            let mut output = dialect.console.begin_test();
            Printer::new(
                &dialect.common,
                OutputTarget::ServerConsole(&mut output),
                false,
            )
            .print_failure(&session.failure_text(&fault), session.requested_rate.get());
            output.end(!dialect.settings.one_off && !dialect.stop().is_set());
            return fault.code != error::AUTHORIZATION;
        }
    };
    let mut output = dialect.console.begin_test();
    let mut run = session.new_run(&parameters, cookie);
    match session.run_test(&mut run, &mut output, &running_test) {
        Ok(()) => running_test.complete(),
        Err(fault) => {
            session.report_failure(&fault);
            running_test.fail(&fault);
        }
    }
    output.end(!dialect.settings.one_off && !dialect.stop().is_set());
    drop(test_share);
    true
}

struct Session<'a> {
    dialect: &'a Iperf3Dialect,
    control: &'a ControlConnection,
    server: ServerContext<'a>,
    /// The rate that the client requests, in bits per second; 0 for none.
    requested_rate: Cell<u64>,
}

impl Session<'_> {
    fn channel(&self) -> ControlChannel<'_> {
        ControlChannel {
            control: self.control,
            stop: self.server.cancel_stop,
        }
    }

    /// Receives the parameters and checks them against the server's limits.
    fn receive_parameters(&self, deadline: Instant) -> Result<Parameters, Fault> {
        self.channel().send_state(ControlState::ParamExchange)?;
        let text =
            self.channel()
                .receive_json(MAX_PARAMETERS_BYTES, deadline, error::RECEIVE_PARAMETERS);
        if let Some(verifier) = &self.dialect.login_verifier {
            let is_silent =
                |fault: &Fault| fault.code == error::CONTROL_CLOSED || Instant::now() >= deadline;
            let token = match &text {
                Ok(text) => Parameters::decode_token(text),
                Err(fault) if is_silent(fault) => return Err(fault.clone()),
                // A text that is too long has no valid login.
                Err(_) => String::new(),
            };
            // Before the login, nothing else about the request is answered.
            let from = BudgetHolder::for_address(self.control.peer());
            verifier.check(&token, from, self.server.cancel_stop)?;
        }
        let text = text?;
        let mut parameters = Parameters::decode(&text)?;
        self.requested_rate.set(parameters.rate);
        let block = parameters.block_size();
        parameters.block_bytes.get_or_insert(block);
        check_limits(&self.dialect.settings, &parameters)?;
        let has_file = self.dialect.common.file.is_some();
        if let Some(reason) = file_conflict(&parameters).filter(|_| has_file) {
            return Err(Fault::with_reason(error::FILE, reason));
        }
        let permissions = Permissions::default();
        if !permissions.allows_transport(plan::transport(&parameters), self.control.peer()) {
            let reason = "this kernel has not loaded it";
            return Err(Fault::with_reason(error::PROTOCOL, reason));
        }
        // As with stock, an unknown algorithm is not an error; the default remains.
        let congestion = &mut parameters.congestion;
        if congestion
            .as_ref()
            .is_some_and(|name| !permissions.allows_congestion_control(name))
        {
            *congestion = None;
        }
        Ok(parameters)
    }

    /// Registers the test, if the limits per client address allow it.
    fn begin_test(&self, parameters: &Parameters) -> Result<Arc<RunningTest>, Fault> {
        let (receiving_count, sending_count) = parameters.stream_counts();
        let streams = u64::from(receiving_count + sending_count);
        let direction = match parameters.direction {
            Direction::Forward => "",
            Direction::Reverse => " reverse",
            Direction::Both => " bidirectional",
        };
        let protocol = plan::transport(parameters).name();
        let is_timed = parameters.time > 0 && crate::total_bytes(parameters).is_none();
        let seconds = parameters.time.saturating_add(parameters.omit);
        let test = ClientTest {
            name: format!("{protocol}{direction}, streams: {streams}"),
            duration: is_timed.then(|| Duration::from_secs(seconds.into())),
            resources: ResourceAmounts {
                threads: streams,
                streams,
                descriptors: streams,
                memory_bytes: streams * STREAM_BYTES,
            },
            ..ClientTest::default()
        };
        let running_test = self.server.begin(self.control.peer(), test);
        running_test.map_err(|refusal| match refusal {
            Refusal::TooLong(_) => Fault::from_code(error::SERVER_DURATION),
            _ => Fault::with_reason(error::BUSY, refusal.to_string()),
        })
    }

    fn new_run(&self, parameters: &Parameters, cookie: Cookie) -> TestRun {
        let (host, port) = host_and_port(self.control.peer());
        let peer = (host, port as u16);
        TestRun {
            is_server: true,
            ..TestRun::new(&self.dialect.common, parameters, cookie, peer)
        }
    }

    /// Prints an error, and sends it to the client unless the client or the connection caused it.
    fn report_failure(&self, fault: &Fault) {
        let version = self.dialect.common.version;
        match fault.code {
            error::CLIENT_TERMINATED
            | error::CONTROL_CLOSED
            | error::CONTROL_READ
            | error::CONTROL_WRITE => {}
            error::AUTHORIZATION if !version.layout().answers_failed_logins => {}
            error::SERVER_TERMINATED => {
                self.dialect.console.set_interrupt_reported();
                let _ = self.channel().send_state(ControlState::ServerTerminate);
            }
            _ => {
                let _ = self.channel().send_bytes(&fault.message());
            }
        }
        if self.dialect.common.prints_json() {
            return;
        }
        self.dialect.console.warn(&self.failure_text(fault));
    }

    /// Returns a failed test's error as the server prints it.
    fn failure_text(&self, fault: &Fault) -> String {
        let version = self.dialect.common.version;
        match fault.code {
            error::CLIENT_TERMINATED => fault.text(version),
            error::CONTROL_CLOSED => "the client has unexpectedly closed the connection".to_owned(),
            error::SERVER_TERMINATED => fault.interrupt_text(version),
            _ => format!("error - {}", fault.text(version)),
        }
    }

    /// Opens the streams, runs them, and exchanges results.
    fn run_test(
        &self,
        run: &mut TestRun,
        output: &mut TestOutput<'_>,
        running_test: &RunningTest,
    ) -> Result<(), Fault> {
        let common = &self.dialect.common;
        let sends_output = run.parameters.server_output;
        let kept_bytes = if sends_output { MAX_KEPT_BYTES } else { 0 };
        let _output_share = self.reserve_memory(kept_bytes)?;
        let mut printer = Printer::new(common, OutputTarget::ServerConsole(output), sends_output);
        let result = self.measure(run, &mut printer, running_test);
        let result = result.map_err(|fault| fault.or_terminated(error::SERVER_TERMINATED));
        if let Err(fault) = &result {
            run.error = Some(self.failure_text(fault));
            let terminations = [error::CLIENT_TERMINATED, error::SERVER_TERMINATED];
            run.is_interrupted = terminations.contains(&fault.code);
        }
        printer.print_server_end(run);
        result
    }

    fn measure(
        &self,
        run: &mut TestRun,
        printer: &mut Printer<'_>,
        running_test: &RunningTest,
    ) -> Result<(), Fault> {
        let parameters = run.parameters.clone();
        printer.debug("get_parameters:", Some(&parameters.encode()));
        printer.connected(run);
        let streams = self.open_streams(&parameters, run.cookie)?;
        let streams_count = streams.len() as u32;
        streams::log_socket_settings(&streams, printer);
        run.set_streams(&streams);
        for stream in &streams {
            running_test.add_counters(&stream.counters);
        }
        run.has_started = true;
        printer.started(run);
        self.channel().send_bytes(&[
            ControlState::TestStart.byte(),
            ControlState::TestRunning.byte(),
        ])?;
        let sends = parameters.direction != Direction::Forward;
        let payload_bytes = if sends { parameters.block_size() } else { 0 };
        let _payload_share = self.reserve_memory(payload_bytes as usize)?;
        let payload = crate::payload(&parameters, sends);
        let holder = BudgetHolder::for_address(self.control.peer());
        let memory =
            BufferMemory::from_budget(&self.dialect.memory, holder, streams::STREAM_MEMORY);
        let common = &self.dialect.common;
        let transfer = TransferSettings {
            is_server: true,
            ..TransferSettings::from_settings(
                common,
                &parameters,
                self.server.cancel_stop,
                &payload,
                &memory,
            )
        };
        let meter = crate::cpu::ProcessCpuMeter::start();
        let mut handler = ServerHandler {
            session: self,
            run,
            printer,
            fault: None,
            results: None,
            rate_window: (Duration::ZERO, 0),
        };
        server::order_thread(BudgetHolder::for_address(self.control.peer()));
        let data = streams::run_transfer(&streams, transfer, self.control, &mut handler);
        // The end that closes first keeps the addresses in TIME_WAIT. A client needs its port for
        // the next test with the same `--cport`.
        drop(streams);
        let ServerHandler { fault, results, .. } = handler;
        let fault = fault.or_else(|| data.end.fault(error::SERVER_TERMINATED));
        run.set_transfer_result(data);
        run.cpu = meter.percent();
        run.overlapping_tests = running_test.overlapping_tests();
        fault.map_or(Ok(()), Err)?;
        if results.is_none() {
            self.channel().send_state(ControlState::ExchangeResults)?;
        }
        let output = printer.finished(run);
        let results = match results {
            Some(results) => results,
            None => self.receive_results(streams_count, printer)?,
        };
        let output = output.filter(|_| parameters.server_output);
        self.channel()
            .send_results(run.to_results(output), printer)?;
        run.apply_peer_results(results)?;
        self.channel().send_state(ControlState::DisplayResults)?;
        // Wait for IPERF_DONE or the end of the connection.
        let _ = self
            .channel()
            .receive_byte(Instant::now() + MESSAGE_TIMEOUT);
        Ok(())
    }

    /// Receives the client's results, which have no output. Charges the memory for their values.
    fn receive_results(&self, streams: u32, events: &mut dyn TestEvents) -> Result<Results, Fault> {
        let max_bytes = RESULTS_BYTES + streams as usize * STREAM_RESULT_BYTES;
        let _share = self.reserve_memory(max_bytes * VALUE_BYTES_PER_BYTE)?;
        let results = self.channel().receive_results(max_bytes, events)?;
        Ok(Results {
            output: None,
            ..results
        })
    }

    /// Charges memory to the client's address.
    fn reserve_memory(&self, bytes: usize) -> Result<BudgetShare, Fault> {
        let holder = BudgetHolder::for_address(self.control.peer());
        let share = self.dialect.memory.reserve(holder, bytes as u64);
        share.map_err(|exceeded| Fault::with_reason(error::BUSY, exceeded.to_string()))
    }

    fn open_streams(&self, parameters: &Parameters, cookie: Cookie) -> Result<Vec<Stream>, Fault> {
        let common = &self.dialect.common;
        let local_settings = LocalSettings {
            // The listener is already bound to the device.
            device: None,
            cpu: common.cpu.or(parameters.server_affinity),
            ..LocalSettings::from_settings(common)
        };
        streams::bind_cpu(local_settings.cpu)?;
        let is_udp = parameters.protocol == Protocol::Udp;
        let (receiving_count, sending_count) = parameters.stream_counts();
        let count = receiving_count + sending_count;
        if parameters.protocol == Protocol::Sctp {
            self.dialect.listen_for_sctp()?;
        }
        let sockets = if is_udp {
            let cookie = parameters.udp_cookie.then_some(cookie);
            let plan = plan::flow(parameters, true, &local_settings);
            self.accept_udp_streams(count, cookie, &plan)?
        } else {
            self.accept_streams(count, cookie)?
        };
        let version = common.version;
        let mut streams = Vec::new();
        for (index, socket) in (0..).zip(sockets) {
            let plan = plan::flow(parameters, index >= receiving_count, &local_settings);
            let data = DataSocket::from_accepted(socket, plan.transport, &plan.local.socket);
            let data = data.map_err(|error| crate::socket_fault(&error))?;
            let fault = |error| Fault::io(error::STREAM_ACCEPT, &error);
            streams.push(Stream {
                number: stream_number(index as usize),
                label: version.stream_label(true, parameters.protocol, index as usize),
                sends: index >= receiving_count,
                local: Address::local(&data.socket).map_err(fault)?,
                peer: Address::peer(&data.socket).map_err(fault)?,
                file: streams::open_file(&plan, local_settings.file.as_deref())?,
                data,
                plan,
                counters: Arc::new(Counters::default()),
            });
        }
        Ok(streams)
    }

    /// Accepts `count` streams with this cookie.
    fn accept_streams(&self, count: u32, cookie: Cookie) -> Result<Vec<Socket>, Fault> {
        let duplicate = || Fault::with_reason(error::COOKIE, "another test uses the same cookie");
        let pending = self
            .dialect
            .pending
            .register(cookie)
            .ok_or_else(duplicate)?;
        self.channel().send_state(ControlState::CreateStreams)?;
        let until = Instant::now() + MESSAGE_TIMEOUT;
        let mut sockets = Vec::new();
        while sockets.len() < count as usize {
            match pending.streams.recv_timeout(CONTROL_POLL_INTERVAL) {
                Ok(stream) => {
                    self.log_other_address(&stream.1);
                    sockets.push(stream);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Fault::from_code(error::STREAM_ACCEPT));
                }
                Err(RecvTimeoutError::Timeout) => self.check_still_waiting(Some(until))?,
            }
        }
        // Both ends number the streams in the order of opening.
        sockets.sort_by_key(|(number, _)| *number);
        Ok(sockets.into_iter().map(|(_, socket)| socket).collect())
    }

    /// Logs a stream that has the right cookie, but comes from another address than the control
    /// connection.
    fn log_other_address(&self, stream: &Socket) {
        let (control, from) = (self.control.peer(), Address::peer(stream));
        if let Ok(from) = from
            && !from.shares_host_with(control)
        {
            let line =
                format!("{control}: a stream of the test comes from another address, {from}");
            self.dialect.console.warn(&line);
        }
    }

    /// Accepts `count` UDP streams from the client's address, with its cookie if it sends that. Those
    /// without a cookie need the session's turn.
    fn accept_udp_streams(
        &self,
        count: u32,
        cookie: Option<Cookie>,
        plan: &FlowPlan,
    ) -> Result<Vec<Socket>, Fault> {
        let fault = |error: Error| Fault::io(error::STREAM_ACCEPT, &error.into());
        let (peer, stop) = (self.control.peer(), self.server.cancel_stop);
        let acceptor = self.dialect.udp_acceptor()?;
        let token = cookie.as_ref().map_or(&[][..], |cookie| &cookie.0);
        let expected = acceptor.expect_flows(peer, token);
        let next_check = || Instant::now() + CONTROL_POLL_INTERVAL;
        while expected.await_turn(next_check(), stop).is_err() {
            self.check_still_waiting(None)?;
        }
        if cookie.is_some() {
            self.channel().send_state(ControlState::StreamBegin)?;
        }
        self.channel().send_state(ControlState::CreateStreams)?;
        let until = Instant::now() + UDP_STREAMS_TIMEOUT;
        let mut sockets = Vec::new();
        while sockets.len() < count as usize {
            match expected.accept(&plan.local.socket, false, next_check(), stop) {
                Ok(flow) => {
                    if flow.candidates > 1 {
                        let (from, tests) = (&flow.from, flow.candidates);
                        let line = format!(
                            "{peer}: this test gets the stream of {from}, which could belong to \
                             any of {tests} tests of that address"
                        );
                        self.dialect.console.warn(&line);
                    }
                    let greeting = flow
                        .first_datagrams
                        .first()
                        .map_or(&[][..], |first| &first.data);
                    call::send(flow.socket.as_fd(), &reply_to(greeting)).map_err(fault)?;
                    sockets.push(flow.socket);
                }
                Err(Error::TIMEDOUT | Error::CANCELED) => self.check_still_waiting(Some(until))?,
                Err(error) => return Err(fault(error)),
            }
        }
        Ok(sockets)
    }

    /// Fails if no more streams can arrive: the client left, the server stops, or time is up.
    fn check_still_waiting(&self, until: Option<Instant>) -> Result<(), Fault> {
        if self.server.cancel_stop.is_set() {
            return Err(Fault::from_code(error::SERVER_TERMINATED));
        }
        let is_readable = call::wait_readable(self.control.as_fd(), Duration::ZERO);
        if matches!(is_readable, Ok(true)) {
            return Err(client_fault(self.channel().receive_byte(Instant::now())));
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(Fault::with_reason(
                error::STREAM_ACCEPT,
                "a stream is missing",
            ));
        }
        Ok(())
    }
}

/// Returns the error for a message of the client that ends the test.
fn client_fault(byte: Result<Option<u8>, Fault>) -> Fault {
    match byte.map(|byte| byte.map(ControlState::from_byte)) {
        Ok(None | Some(Some(ControlState::IperfDone))) => Fault::from_code(error::CONTROL_CLOSED),
        Ok(Some(Some(ControlState::ClientTerminate))) => Fault::from_code(error::CLIENT_TERMINATED),
        Ok(_) => Fault::from_code(error::UNKNOWN_MESSAGE),
        Err(fault) => fault,
    }
}

/// Fails if the server does not allow a test of this rate and length.
fn check_limits(settings: &ServerSettings, parameters: &Parameters) -> Result<(), Fault> {
    let (forward, backward) = parameters.stream_counts();
    let rate = parameters
        .rate
        .saturating_mul(u64::from(forward + backward));
    if settings.rate_limit.is_some_and(|(limit, _)| rate > limit) {
        return Err(Fault::from_code(error::TOTAL_RATE));
    }
    let length = parameters.time.saturating_add(parameters.omit);
    if settings
        .max_test_seconds
        .is_some_and(|limit| parameters.time == 0 || length > limit)
    {
        return Err(Fault::from_code(error::SERVER_DURATION));
    }
    Ok(())
}

/// Handles the control connection and enforces the server's limits while data flows.
struct ServerHandler<'a, 'p> {
    session: &'a Session<'a>,
    run: &'a TestRun,
    printer: &'a mut Printer<'p>,
    fault: Option<Fault>,
    /// The client's results, if they arrived before the end of the data.
    results: Option<Results>,
    /// The time of the last rate check, and the bytes until then.
    rate_window: (Duration, u64),
}

impl ServerHandler<'_, '_> {
    fn end_with(&mut self, fault: Fault) -> NextStep {
        self.fault = Some(fault);
        NextStep::End
    }

    /// Decides when a transfer ends after the client's TEST_END.
    ///
    /// A test with a byte limit must receive all bytes, but TEST_END may overtake the last ones.
    /// Then the server requests the client's results, which contain the number of sent bytes.
    fn wait_for_remaining_data(&mut self) -> Result<NextStep, Fault> {
        let parameters = &self.run.parameters;
        let has_byte_limit = crate::total_bytes(parameters).is_some() && parameters.omit == 0;
        let receives = parameters.direction == Direction::Forward;
        if !has_byte_limit || !receives {
            return Ok(NextStep::End);
        }
        let channel = self.session.channel();
        channel.send_state(ControlState::ExchangeResults)?;
        let (receiving_count, sending_count) = parameters.stream_counts();
        let results = self
            .session
            .receive_results(receiving_count + sending_count, self.printer)?;
        let sent = results.streams.iter().map(|stream| stream.bytes);
        let sent = sent.fold(0, u64::saturating_add);
        self.results = Some(results);
        Ok(NextStep::EndAfter(sent))
    }
}

impl TransferHandler for ServerHandler<'_, '_> {
    fn on_control(&mut self) -> NextStep {
        let byte = self.session.channel().receive_byte(Instant::now());
        match byte {
            Ok(Some(byte)) if ControlState::from_byte(byte) == Some(ControlState::TestEnd) => {
                match self.wait_for_remaining_data() {
                    Ok(next_step) => next_step,
                    Err(fault) => self.end_with(fault),
                }
            }
            Ok(Some(byte)) if ControlState::from_byte(byte) == Some(ControlState::TestStart) => {
                NextStep::Continue
            }
            byte => {
                let fault = client_fault(byte);
                self.end_with(fault)
            }
        }
    }

    fn on_interval(&mut self, interval: IntervalEnd<'_>) {
        self.printer.interval(self.run, interval);
    }

    fn on_tick(&mut self, elapsed_time: Duration, bytes: u64) -> NextStep {
        if elapsed_time > max_length(&self.run.parameters) {
            return self.end_with(Fault::from_code(error::TEST_DURATION_EXPIRED));
        }
        if let Some((limit, window)) = self.session.dialect.settings.rate_limit {
            let (window_start, bytes_before) = self.rate_window;
            let elapsed = elapsed_time.saturating_sub(window_start);
            // The clock of a client whose test ends with the window may be ahead by a tick.
            if elapsed + streams::MAX_TICK >= window {
                let rate = (bytes - bytes_before) as f64 * 8.0 / elapsed.as_secs_f64();
                if rate > limit as f64 {
                    return self.end_with(Fault::from_code(error::TOTAL_RATE));
                }
                self.rate_window = (elapsed_time, bytes);
            }
        }
        NextStep::Continue
    }

    fn on_end(&mut self, end: &TransferEnd) -> bool {
        *end == TransferEnd::Regular && self.fault.is_none()
    }
}

/// Returns the time after which the server ends a test. Without a time, the client ends it, within
/// the longest time that a client may request.
fn max_length(parameters: &Parameters) -> Duration {
    let Parameters { time, omit, .. } = *parameters;
    let time = if time == 0 { MAX_TIME_SECONDS } else { time };
    Duration::from_secs(u64::from(time) + u64::from(omit)) + OVERTIME_LIMIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_without_a_time_ends_within_a_day() {
        for (time, omit, expected) in [(10, 2, 12), (0, 0, 24 * 3600)] {
            let parameters = Parameters {
                omit,
                time,
                ..Parameters::default()
            };
            let expected = Duration::from_secs(expected) + OVERTIME_LIMIT;
            assert_eq!(max_length(&parameters), expected);
        }
    }
}
