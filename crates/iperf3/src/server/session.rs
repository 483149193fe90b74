//! A session with one client: from its cookie to its last message.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{Counters, DataSocket, Holder, Memory};
use model::FlowPlan;
use server::{Permissions, Refusal, Running, ServerContext, Test};
use sys::call::{self, Error};
use sys::{Address, Socket};

use super::Iperf3;
use super::screen::Page;
use crate::options::{Server, no_file};
use crate::output::host_and_port;
use crate::plan::{self, Own};
use crate::print::{Printer, Sink};
use crate::result::TestRun;
use crate::streams::{self, Course, End, IntervalEnd, Lead, Stream, Verdict};
use crate::talk::{Events, PATIENCE, Talk};
use crate::wire::error::{self, Fault};
use crate::wire::{
    Cookie, Direction, Parameters, Protocol, Results, State, reply_to, stream_number,
};

/// The longest parameters, as later versions have it.
const LONGEST_PARAMETERS: usize = 8192;

/// How much longer than its time a test may go on.
const GRACE: Duration = Duration::from_secs(40);

/// How long a client's UDP streams may take: others from its address wait meanwhile.
const UDP_PATIENCE: Duration = Duration::from_secs(10);

/// How often the control connection is looked at while streams are awaited.
const LOOK: Duration = Duration::from_millis(50);

/// Serves a client. Returns whether there was a test.
pub(super) fn serve(
    dialect: &Iperf3,
    control: &mut ControlConnection,
    cookie: Cookie,
    server: ServerContext<'_>,
) -> bool {
    // What ends the server ends the waits; the last messages are sent all the same.
    control.outlive_stop();
    crate::talk::keep_alive(control, &dialect.common);
    let session = Session {
        dialect,
        control,
        server,
    };
    let agreed = (session.agree()).and_then(|parameters| {
        session
            .begin(&parameters)
            .map(|running| (parameters, running))
    });
    let (parameters, running) = match agreed {
        Ok(agreed) => agreed,
        Err(fault) => {
            session.fail(&fault);
            let mut page = dialect.screen.page();
            Printer::new(&dialect.common, Sink::Page(&mut page), false).failed(&fault);
            page.end(!dialect.settings.one_off && !dialect.stop().is_set());
            return fault.code != error::AUTHORIZATION;
        }
    };
    let mut page = dialect.screen.page();
    let mut run = session.run(&parameters, cookie);
    match session.test(&mut run, &mut page, &running) {
        Ok(()) => running.complete(),
        Err(fault) => {
            session.fail(&fault);
            running.fail(&fault);
        }
    }
    page.end(!dialect.settings.one_off && !dialect.stop().is_set());
    true
}

struct Session<'a> {
    dialect: &'a Iperf3,
    control: &'a ControlConnection,
    server: ServerContext<'a>,
}

impl Session<'_> {
    fn talk(&self) -> Talk<'_> {
        Talk {
            control: self.control,
            stop: self.server.cut,
        }
    }

    /// Receives the parameters, and checks them against what the server allows.
    fn agree(&self) -> Result<Parameters, Fault> {
        self.talk().say(State::ParamExchange)?;
        let text = self
            .talk()
            .json(LONGEST_PARAMETERS, error::RECEIVE_PARAMETERS)?;
        let mut parameters = Parameters::decode(&text)?;
        let block = parameters.block();
        parameters.block_bytes.get_or_insert(block);
        let settings = &self.dialect.settings;
        if let Some(guard) = &self.dialect.guard {
            guard.check(&parameters)?;
        }
        check_limits(settings, &parameters)?;
        let has_file = self.dialect.common.file.is_some();
        if let Some(why) = no_file(&parameters).filter(|_| has_file) {
            return Err(Fault::because(error::FILE, why));
        }
        let permissions = Permissions::default();
        if !permissions.allows_transport(plan::transport(&parameters), self.control.peer()) {
            let why = "this kernel has not loaded it";
            return Err(Fault::because(error::PROTOCOL, why));
        }
        // An unknown algorithm is only a warning here, as with stock.
        let congestion = &mut parameters.congestion;
        if congestion
            .as_ref()
            .is_some_and(|name| !permissions.allows_congestion_control(name))
        {
            *congestion = None;
        }
        Ok(parameters)
    }

    /// Begins the test, if the limits of one address leave room for it.
    fn begin(&self, parameters: &Parameters) -> Result<Arc<Running>, Fault> {
        let (receives, sends) = parameters.streams();
        let direction = match parameters.direction {
            Direction::Forward => "",
            Direction::Reverse => " reverse",
            Direction::Both => " bidirectional",
        };
        let protocol = plan::transport(parameters).name();
        let is_timed = parameters.time > 0 && crate::total_bytes(parameters).is_none();
        let seconds = parameters.time.saturating_add(parameters.omit);
        let test = Test {
            name: format!("{protocol}{direction}, streams: {}", receives + sends),
            length: is_timed.then(|| Duration::from_secs(seconds.into())),
        };
        let running = self.server.begin(self.control.peer(), test);
        running.map_err(|why| match why {
            Refusal::Long(_) => Fault::of(error::SERVER_DURATION),
            _ => Fault::because(error::BUSY, why.to_string()),
        })
    }

    fn run(&self, parameters: &Parameters, cookie: Cookie) -> TestRun {
        let (host, port) = host_and_port(self.control.peer());
        let peer = (host, port as u16);
        TestRun {
            is_server: true,
            ..TestRun::new(&self.dialect.common, parameters, cookie, peer)
        }
    }

    /// Ends the session with an error, which the client is told.
    fn fail(&self, fault: &Fault) {
        let is_ours = !matches!(
            fault.code,
            error::CLIENT_TERMINATED
                | error::CONTROL_CLOSED
                | error::CONTROL_READ
                | error::CONTROL_WRITE
                | error::SERVER_TERMINATED
        );
        if is_ours {
            let mut message = vec![State::ServerError.byte()];
            message.extend(fault.bytes());
            let _ = self.talk().write(&message);
        }
        if self.dialect.common.prints_json() {
            return;
        }
        let line = match fault.code {
            error::CLIENT_TERMINATED => fault.to_string(),
            error::CONTROL_CLOSED => "the client has unexpectedly closed the connection".to_owned(),
            error::SERVER_TERMINATED => format!("interrupt - {fault}"),
            _ => format!("error - {fault}"),
        };
        self.dialect.screen.warn(&line);
    }

    /// Opens the streams, runs them, and exchanges results.
    fn test(&self, run: &mut TestRun, page: &mut Page<'_>, running: &Running) -> Result<(), Fault> {
        let common = &self.dialect.common;
        let wants_output = run.parameters.server_output;
        let mut printer = Printer::new(common, Sink::Page(page), wants_output);
        let done = self.measure(run, &mut printer, running);
        if let Err(fault) = &done {
            run.error = Some(format!("error - {fault}"));
            if matches!(
                fault.code,
                error::CLIENT_TERMINATED | error::SERVER_TERMINATED
            ) || common.prints_json()
            {
                printer.output(run);
            }
        }
        done
    }

    fn measure(
        &self,
        run: &mut TestRun,
        printer: &mut Printer<'_>,
        running: &Running,
    ) -> Result<(), Fault> {
        let parameters = run.parameters.clone();
        printer.debug("get_parameters:", Some(&parameters.encode()));
        printer.connected(run);
        let streams = self.streams(&parameters, run.cookie)?;
        streams::describe(&streams, printer);
        run.open(&streams);
        for stream in &streams {
            running.count(&stream.counters);
        }
        printer.started(run);
        self.talk()
            .write(&[State::TestStart.byte(), State::TestRunning.byte()])?;
        let payload = crate::payload(&parameters, parameters.direction != Direction::Forward);
        let holder = Holder::of(self.control.peer());
        let memory = Memory::within(&self.dialect.memory, holder, streams::STREAM_MEMORY);
        let common = &self.dialect.common;
        let course = Course {
            hangs_up: true,
            ..Course::of(common, &parameters, self.server.cut, &payload, &memory)
        };
        let meter = crate::cpu::CpuMeter::start();
        let mut lead = Leader {
            session: self,
            run,
            printer,
            fault: None,
            results: None,
            window: (Duration::ZERO, 0),
        };
        let data = streams::run(&streams, course, self.control, &mut lead);
        let Leader { fault, results, .. } = lead;
        let fault = fault.or_else(|| data.end.fault(error::SERVER_TERMINATED));
        run.take(data);
        run.cpu = meter.percent();
        run.others = running.others();
        fault.map_or(Ok(()), Err)?;
        let output = printer.output(run);
        let results = match results {
            Some(results) => results,
            None => self.talk().results(printer)?,
        };
        let output = output.filter(|_| parameters.server_output);
        self.talk().send_results(run.to_results(output), printer)?;
        run.believe(results)?;
        self.talk().say(State::DisplayResults)?;
        // IPERF_DONE, or the end of the connection.
        let _ = self.talk().byte(Instant::now() + PATIENCE);
        Ok(())
    }

    fn streams(&self, parameters: &Parameters, cookie: Cookie) -> Result<Vec<Stream>, Fault> {
        let common = &self.dialect.common;
        let own = Own {
            // The listener has it.
            device: None,
            cpu: common.cpu.or(parameters.server_affinity),
            ..Own::of(common)
        };
        streams::bind(own.cpu)?;
        let is_udp = parameters.protocol == Protocol::Udp;
        let (receives, sends) = parameters.streams();
        let count = receives + sends;
        if parameters.protocol == Protocol::Sctp {
            self.dialect.listen_for_associations()?;
        }
        let sockets = if is_udp {
            self.datagram_streams(count, &plan::flow(parameters, true, &own))?
        } else {
            self.connections(count, cookie)?
        };
        let mut streams = Vec::new();
        for (at, socket) in (0..).zip(sockets) {
            let plan = plan::flow(parameters, at >= receives, &own);
            let data = DataSocket::of_accepted(socket, plan.transport, &plan.here.socket);
            let data = data.map_err(|error| crate::socket_fault(&error))?;
            let fault = |error| Fault::io(error::STREAM_ACCEPT, &error);
            streams.push(Stream {
                number: stream_number(at as usize),
                // As the descriptors of stock are.
                label: match at {
                    0 => 5,
                    _ if is_udp => 5 + at as i32,
                    _ => 6 + 2 * at as i32,
                },
                sends: at >= receives,
                local: Address::of(&data.socket).map_err(fault)?,
                peer: Address::of_peer(&data.socket).map_err(fault)?,
                file: streams::open_file(&plan, own.file.as_deref())?,
                data,
                plan,
                counters: Arc::new(Counters::default()),
            });
        }
        Ok(streams)
    }

    /// Waits for the streams with this cookie.
    fn connections(&self, count: u32, cookie: Cookie) -> Result<Vec<Socket>, Fault> {
        let unknown = || Fault::because(error::COOKIE, "another test has the same");
        let place = self.dialect.lobby.enter(cookie).ok_or_else(unknown)?;
        self.talk().say(State::CreateStreams)?;
        let until = Instant::now() + PATIENCE;
        let mut sockets = Vec::new();
        while sockets.len() < count as usize {
            match place.streams.recv_timeout(LOOK) {
                Ok(stream) => sockets.push(stream),
                Err(RecvTimeoutError::Disconnected) => return Err(Fault::of(error::STREAM_ACCEPT)),
                Err(RecvTimeoutError::Timeout) => self.still_waits(until)?,
            }
        }
        // Both ends number them as they were opened.
        sockets.sort_by_key(|(number, _)| *number);
        Ok(sockets.into_iter().map(|(_, socket)| socket).collect())
    }

    /// Waits for UDP streams from the client's address.
    fn datagram_streams(&self, count: u32, plan: &FlowPlan) -> Result<Vec<Socket>, Fault> {
        let fault = |error: Error| Fault::io(error::STREAM_ACCEPT, &error.into());
        let (peer, stop) = (self.control.peer(), self.server.cut);
        let door = self.dialect.door()?;
        let turn = Instant::now() + PATIENCE;
        let expected = door.expect(Some(peer), turn, stop).map_err(fault)?;
        self.talk().say(State::CreateStreams)?;
        let until = Instant::now() + UDP_PATIENCE;
        let mut sockets = Vec::new();
        while sockets.len() < count as usize {
            match expected.next(&plan.here.socket, false, Instant::now() + LOOK, stop) {
                Ok(flow) => {
                    let hello = flow.first.first().map_or(&[][..], |first| &first.data);
                    call::send(flow.socket.as_fd(), &reply_to(hello)).map_err(fault)?;
                    sockets.push(flow.socket);
                }
                Err(Error::TIMEDOUT) => self.still_waits(until)?,
                Err(error) => return Err(fault(error)),
            }
        }
        Ok(sockets)
    }

    /// Whether streams may still come: the client is there, and the time is not over.
    fn still_waits(&self, until: Instant) -> Result<(), Fault> {
        if self.server.cut.is_set() {
            return Err(Fault::of(error::SERVER_TERMINATED));
        }
        let has_word = call::wait_readable(self.control.as_fd(), Duration::ZERO);
        if matches!(has_word, Ok(true)) {
            return Err(said(self.talk().byte(Instant::now())));
        }
        if Instant::now() >= until {
            return Err(Fault::because(error::STREAM_ACCEPT, "a stream is missing"));
        }
        Ok(())
    }
}

/// What a byte of the client means that ends the test.
fn said(byte: Result<Option<u8>, Fault>) -> Fault {
    match byte.map(|byte| byte.map(State::of)) {
        Ok(None | Some(Some(State::IperfDone))) => Fault::of(error::CONTROL_CLOSED),
        Ok(Some(Some(State::ClientTerminate))) => Fault::of(error::CLIENT_TERMINATED),
        Ok(_) => Fault::of(error::UNKNOWN_MESSAGE),
        Err(fault) => fault,
    }
}

/// Whether the server allows a test of this rate and length.
fn check_limits(settings: &Server, parameters: &Parameters) -> Result<(), Fault> {
    let (forward, backward) = parameters.streams();
    let rate = parameters
        .rate
        .saturating_mul(u64::from(forward + backward));
    if settings.rate_limit.is_some_and(|(most, _)| rate > most) {
        return Err(Fault::of(error::TOTAL_RATE));
    }
    let length = parameters.time.saturating_add(parameters.omit);
    if settings
        .longest_test
        .is_some_and(|most| parameters.time == 0 || length > most)
    {
        return Err(Fault::of(error::SERVER_DURATION));
    }
    Ok(())
}

/// What the client and the server's limits have to say while data flows.
struct Leader<'a, 'p> {
    session: &'a Session<'a>,
    run: &'a TestRun,
    printer: &'a mut Printer<'p>,
    fault: Option<Fault>,
    /// The client's, if they came before the data's end.
    results: Option<Results>,
    /// When the rate was last looked at, and the bytes until then.
    window: (Duration, u64),
}

impl Leader<'_, '_> {
    fn end(&mut self, fault: Fault) -> Verdict {
        self.fault = Some(fault);
        Verdict::End
    }

    /// A test of a number of bytes has them all: those that the end message has overtaken are on their way.
    fn rest(&mut self) -> Result<Verdict, Fault> {
        let parameters = &self.run.parameters;
        let is_sized = crate::total_bytes(parameters).is_some() && parameters.omit == 0;
        let receives = parameters.direction == Direction::Forward;
        if !is_sized || !receives {
            return Ok(Verdict::End);
        }
        let talk = self.session.talk();
        talk.say(State::ExchangeResults)?;
        let results = talk.results(self.printer)?;
        let sent = results.streams.iter().map(|stream| stream.bytes);
        let sent = sent.fold(0, u64::saturating_add);
        self.results = Some(results);
        Ok(Verdict::EndAfter(sent))
    }
}

impl Lead for Leader<'_, '_> {
    fn on_control(&mut self) -> Verdict {
        let byte = self.session.talk().byte(Instant::now());
        match byte {
            Ok(Some(byte)) if State::of(byte) == Some(State::TestEnd) => match self.rest() {
                Ok(verdict) => verdict,
                Err(fault) => self.end(fault),
            },
            Ok(Some(byte)) if State::of(byte) == Some(State::TestStart) => Verdict::GoOn,
            byte => {
                let fault = said(byte);
                self.end(fault)
            }
        }
    }

    fn on_interval(&mut self, interval: IntervalEnd<'_>) {
        self.printer.interval(self.run, interval);
    }

    fn on_tick(&mut self, at: Duration, bytes: u64) -> Verdict {
        let Parameters { time, omit, .. } = self.run.parameters;
        let length = Duration::from_secs(u64::from(time) + u64::from(omit));
        if time > 0 && at > length + GRACE {
            return self.end(Fault::of(error::TEST_DURATION_EXPIRED));
        }
        if let Some((most, window)) = self.session.dialect.settings.rate_limit {
            let (begun, before) = self.window;
            let passed = at.saturating_sub(begun);
            if passed >= window {
                let rate = (bytes - before) as f64 * 8.0 / passed.as_secs_f64();
                if rate > most as f64 {
                    return self.end(Fault::of(error::TOTAL_RATE));
                }
                self.window = (at, bytes);
            }
        }
        Verdict::GoOn
    }

    fn on_end(&mut self, end: &End) {
        if self.fault.is_some() {
            return;
        }
        let talk = self.session.talk();
        let said = match end {
            End::Regular if self.results.is_none() => talk.say(State::ExchangeResults),
            End::Cancelled => talk.say(State::ServerTerminate),
            _ => return,
        };
        self.fault = said.err();
    }
}
