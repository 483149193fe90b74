//! Serves one control connection.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::{ControlConnection, is_stopped};
use engine::{BudgetHolder, BufferMemory, InterfaceMeter, Looper, Stop};
use model::{EndCause, IdleLoop, IoMethod, RefusedSetting, Side, Transport, Wait};
use rand::rngs::OsRng;
use rand::{Rng, TryRngCore};
use server::{Attempt, ClientTest, ServerContext};
use sys::Address;
use sys::call::{self, Error};

use super::assignment::{Assignment, TestError};
use super::data::ConnectionProof;
use super::log::{log, warn};
use super::test::PreparedTest;
use super::{Netserver, reply};
use crate::details::Details;
use crate::protocol_conventions::TICKS_PER_SECOND;
use crate::wire::{
    CalibrateResponse, Capability, DetailsResponse, Frame, MAX_DETAILS_BYTES, MESSAGE_BYTES,
    ReceivedRequest, Request, SysInfo, UNKNOWN_REQUEST, debug_response, error_response,
};

/// While the server drains: time for a client with a finished test to request its details.
const DETAILS_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves a control connection to its end.
pub(super) fn serve(
    control: &mut ControlConnection,
    netserver: &Netserver,
    server: ServerContext<'_>,
) -> io::Result<()> {
    Session {
        local: control.data_address()?,
        control,
        netserver,
        server,
        last_test: None,
        refused_cpu: None,
    }
    .run()
}

struct Session<'a> {
    control: &'a mut ControlConnection,
    /// The local address of the control connection.
    local: Address,
    netserver: &'a Netserver,
    server: ServerContext<'a>,
    /// The last test's measurements and overlapping tests, for a details request.
    last_test: Option<(Side, u32)>,
    /// The requested CPU, if this thread could not be bound to it.
    refused_cpu: Option<RefusedSetting>,
}

impl Session<'_> {
    fn run(mut self) -> io::Result<()> {
        let Netserver {
            limits, passphrase, ..
        } = self.netserver;
        if let Some(passphrase) = passphrase {
            let timeout = limits.passphrase_wait;
            let Some(frame) = self.read_request(timeout, self.server.stop)? else {
                return Ok(());
            };
            let request = Request::decode(&frame).request;
            let passphrase_text = match &request {
                Request::Passphrase(offered) => Some(&offered[..]),
                _ => None,
            };
            let from = BudgetHolder::for_address(self.control.peer());
            // A wrong passphrase gets no response: the stock client detects the end of the
            // connection.
            let reason = match passphrase.check(from, passphrase_text, self.server.stop) {
                Attempt::Right => None,
                Attempt::Wrong => Some("wrong or missing passphrase"),
                Attempt::Refused => Some("too many wrong passphrases from this address"),
            };
            if let Some(reason) = reason {
                warn(format_args!("{}: refused, {reason}", self.control.peer()));
                return Ok(());
            }
        }
        while let Some(frame) = self.next_request()? {
            let ReceivedRequest { cpu, request } = Request::decode(&frame);
            if self.server.stop.is_set() && request != Request::Details {
                return Ok(());
            }
            self.refused_cpu = cpu.and_then(|cpu| self.bind_thread(cpu));
            match request {
                Request::DebugOn | Request::DebugOff => self.write(&debug_response())?,
                Request::CpuCalibrate => self.calibrate(&frame)?,
                Request::SysInfo => self.send_system_info(&frame)?,
                // A passphrase gets no response, even if the server does not require one.
                Request::Passphrase(_) => {}
                Request::Details => self.send_details()?,
                ref request => {
                    match Assignment::from_request(
                        request,
                        self.control.peer(),
                        &self.local,
                        limits,
                    ) {
                        Some(assignment) => {
                            if !self.run_test(request, Capability::find(&frame), assignment)? {
                                return Ok(());
                            }
                        }
                        None => self.write(&error_response(UNKNOWN_REQUEST))?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Binds this thread to the CPU. If that fails, the test continues, and its details report it.
    fn bind_thread(&self, cpu: u32) -> Option<RefusedSetting> {
        let reason = sys::describe(&sys::cpu::bind_thread(cpu).err()?);
        self.log(format_args!("could not bind to CPU {cpu}: {reason}"));
        Some(RefusedSetting {
            setting: "CPU".to_owned(),
            requested: cpu.to_string(),
            reason,
        })
    }

    /// Runs one test. Returns whether the connection stays open.
    fn run_test(
        &mut self,
        request: &Request,
        client: Option<Capability>,
        assignment: Result<Assignment, TestError>,
    ) -> io::Result<bool> {
        let Netserver {
            limits, fill_files, ..
        } = self.netserver;
        let prepared = assignment
            .map(|assignment| self.with_client_requests(assignment, request, client))
            .and_then(|assignment| {
                PreparedTest::new(assignment, &self.memory(), fill_files, limits)
            });
        let mut prepared = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => {
                self.log(format_args!("refused: {refusal}"));
                self.write(&error_response(refusal.0))?;
                return Ok(true);
            }
        };
        let mut response = reply::response(request, &prepared);
        let transport = prepared.assignment.transport;
        if let Some(client) = client {
            prepared.timing.calls = client.has_all(Capability::REQUESTS_DURATIONS);
            prepared.proof = new_proof(client, transport);
            Capability {
                nonce: prepared.proof.map(|proof| proof.nonce),
                ..self.allowed_capability()
            }
            .write_into(&mut response);
        }
        let reports_congestion_control = prepared.assignment.reports_congestion_control;
        // The meter starts before the response, because the data may follow it immediately.
        let meter = prepared.assignment.reports_interface.then(|| {
            let client = prepared.assignment.client_data.as_ref();
            InterfaceMeter::start(client.unwrap_or(self.control.peer()))
        });
        let test = prepared.assignment.client_test();
        let running = match self.server.begin(self.control.peer(), test) {
            Ok(running) => running,
            Err(refusal) => {
                warn(format_args!(
                    "{}: refused a test: {refusal}",
                    self.control.peer()
                ));
                self.write(&error_response(refusal.error().raw_os_error()))?;
                return Ok(true);
            }
        };
        running.add_counters(&prepared.counters);
        self.write(&response)?;

        let stop = self.server.cancel_stop.child();
        let finished = prepared.run(self.control.as_fd(), self.control.peer(), &stop, limits);
        if self.server.cancel_stop.is_set() {
            // Results would cover only a part of the test. Both the stock client and linerate's
            // treat the end of the connection as a failure.
            self.log(format_args!("ended the test"));
            return Ok(false);
        }
        let mut finished = match finished {
            Ok(finished) => finished,
            // The client has closed the control connection.
            Err(error) if error == TestError::from(Error::CANCELED) => return Ok(false),
            Err(error) => {
                self.log(format_args!("test failed: {error}"));
                running.fail(&error);
                self.write(&error_response(error.0))?;
                return Ok(false);
            }
        };
        if finished.ended == EndCause::PeerClosed && !call::is_open(self.control.as_fd()) {
            // The client has ended, not its test.
            return Ok(false);
        }
        let has_moved_data = finished.side.counts.bytes() > 0;
        finished.side.interface = meter.flatten().map(|meter| meter.finish(has_moved_data));
        finished.side.refused.extend(self.refused_cpu.take());
        let results = reply::results(request, transport, reports_congestion_control, &finished);
        self.write(&results)?;
        if let Some(dump) = finished
            .tcp_info
            .filter(|_| matches!(request, Request::Omni(_)))
        {
            dump.print();
        }
        running.record_end(&finished.ended);
        // The test counts as running until here: a server waits for running tests before it exits.
        self.last_test = Some((finished.side, running.overlapping_tests()));
        drop(running);
        Ok(finished.ended != EndCause::Cancelled)
    }

    /// Returns the assignment with the features that a linerate client requests and the operator
    /// allows.
    fn with_client_requests(
        &self,
        mut assignment: Assignment,
        request: &Request,
        client: Option<Capability>,
    ) -> Assignment {
        let limits = &self.netserver.limits;
        let requests = |feature| client.is_some_and(|client| client.has_all(feature));
        if let Some(pacing) = &mut assignment.endpoint.pacing
            && requests(Capability::REQUESTS_SPIN)
            && limits.allow_spin
        {
            pacing.wait = Wait::SpinHalf;
        }
        if requests(Capability::REQUESTS_MMSG) && assignment.has_one_way_datagrams() {
            assignment.endpoint.io = IoMethod::Mmsg;
        }
        // Without permission, the server measures by /proc/stat. The results report that method.
        if requests(Capability::REQUESTS_LOOPER) && limits.allow_looper {
            let rate = request
                .test()
                .map(|(_, request)| f64::from(request.cpu_rate));
            let rate = rate.filter(|rate| *rate > 0.0);
            assignment.endpoint.idle_loop = Some(IdleLoop { rate });
        }
        if requests(Capability::REQUESTS_MULTIPATH) && assignment.transport == Transport::Tcp {
            assignment.transport = Transport::Mptcp;
        }
        assignment
    }

    /// Returns the capability of this server, restricted to the operator's permissions.
    fn allowed_capability(&self) -> Capability {
        let mut capability = Capability::of_this_process();
        if !self.netserver.limits.allow_spin {
            capability.features &= !Capability::CAN_SPIN;
        }
        capability
    }

    /// Returns the memory budget for this client's buffers.
    fn memory(&self) -> BufferMemory {
        let per_ring = self.netserver.limits.max_buffer_bytes;
        BufferMemory::from_budget(
            &self.netserver.memory,
            BudgetHolder::for_address(self.control.peer()),
            per_ring,
        )
    }

    /// Sends the calibration value: the idle rate of a CPU if the client requests a looper, else
    /// the clock ticks per second.
    fn calibrate(&mut self, request: &Frame) -> io::Result<()> {
        let uses_looper = Capability::find(request)
            .is_some_and(|client| client.has_all(Capability::REQUESTS_LOOPER));
        if uses_looper && !self.netserver.limits.allow_looper {
            return self.write(&error_response(Error::PERM.raw_os_error()));
        }
        let rate = if uses_looper {
            // A calibration disturbs other tests like a test.
            let test = ClientTest {
                name: "calibration".to_owned(),
                ..ClientTest::default()
            };
            let running = match self.server.begin(self.control.peer(), test) {
                Ok(running) => running,
                Err(refusal) => {
                    return self.write(&error_response(refusal.error().raw_os_error()));
                }
            };
            running.complete();
            Looper::shared()
                .and_then(|looper| looper.measure_idle_rate())
                .map(|rate| rate as f32)
        } else {
            Ok(TICKS_PER_SECOND)
        };
        let cpus = sys::cpu::online_count() as i32;
        match rate {
            Ok(rate) => self.write(&CalibrateResponse { rate, cpus }.encode()),
            Err(error) => self.write(&error_response(TestError::from_io(&error).0)),
        }
    }

    /// Sends a description of this host. A linerate client also identifies the server by it before
    /// a test.
    fn send_system_info(&mut self, request: &Frame) -> io::Result<()> {
        let uname = sys::facts::uname();
        let mut response = SysInfo {
            sysname: uname.sysname,
            release: uname.release,
            machine: uname.machine,
            version: uname.version,
        }
        .encode();
        if Capability::find(request).is_some() {
            self.allowed_capability().write_into(&mut response);
        }
        self.write(&response)
    }

    fn send_details(&mut self) -> io::Result<()> {
        let Some((side, overlapping_tests)) = self.last_test.take() else {
            return self.write(&error_response(UNKNOWN_REQUEST));
        };
        let document = Details::from_side(side, overlapping_tests, self.local.ip()).to_json();
        if document.len() > MAX_DETAILS_BYTES as usize {
            return self.write(&error_response(sys::call::Error::TOOBIG.raw_os_error()));
        }
        let len = document.len() as u32;
        self.write(&DetailsResponse { len }.encode())?;
        self.write(&document)
    }

    /// Returns the next request; `None` at the end of the connection or of the server.
    fn next_request(&mut self) -> io::Result<Option<Frame>> {
        let ServerContext {
            stop, cancel_stop, ..
        } = self.server;
        if stop.is_set() && self.last_test.is_some() {
            return self.read_request(DETAILS_TIMEOUT, cancel_stop);
        }
        self.read_request(self.netserver.limits.control_idle, stop)
    }

    /// Returns the next message; `None` at the end of the connection or at the stop. The full
    /// message must arrive within `timeout`.
    fn read_request(&self, timeout: Duration, stop: &Stop) -> io::Result<Option<Frame>> {
        let mut frame = [0; MESSAGE_BYTES];
        let deadline = Instant::now() + timeout;
        match self.control.receive(&mut frame, deadline, stop) {
            Ok(0) => Ok(None),
            Ok(MESSAGE_BYTES) => Ok(Some(frame)),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            // No test is running: a server that ends does not wait for a client.
            Err(error) if is_stopped(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        log(format_args!("{}: {line}", self.control.peer()));
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.control
            .write(bytes, self.netserver.limits.control_idle)
    }
}

/// Creates a nonce for a client that can prove its data connection.
fn new_proof(client: Capability, transport: Transport) -> Option<ConnectionProof> {
    let is_separate = client.has_all(Capability::SENDS_NONCE_SEPARATELY);
    let sends_nonce = is_separate || client.has_all(Capability::SENDS_NONCE);
    let has_one_connection_per_socket =
        transport.has_connections() && transport != Transport::SctpMany;
    (sends_nonce && has_one_connection_per_socket).then(|| ConnectionProof {
        nonce: OsRng.unwrap_err().random(),
        is_separate,
    })
}
