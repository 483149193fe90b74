//! One control connection, from its first message to its end.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::{ControlConnection, is_stopped};
use engine::{Holder, InterfaceMeter, Looper, Memory, Stop};
use model::{Ended, IdleLoop, IoMethod, Refused, Side, Transport, Wait};
use rand::rngs::OsRng;
use rand::{Rng, TryRngCore};
use server::{ServerContext, Test};
use sys::Address;
use sys::call::Error;

use super::assignment::{Assignment, Refusal};
use super::data::Proof;
use super::log::{log, warn};
use super::passphrase::Attempt;
use super::test::Prepared;
use super::{Netserver, reply};
use crate::conventions::TICKS_A_SECOND;
use crate::details::Details;
use crate::wire::{
    CalibrateResponse, Capability, DETAILS_MAX, DetailsResponse, Frame, MESSAGE_LEN, Received,
    Request, SysInfo, UNKNOWN_REQUEST, debug_response, error_response,
};

/// While the server drains: how long a client whose test has finished may take to request its details.
const LAST_QUESTION: Duration = Duration::from_secs(1);

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
        last: None,
        refused: None,
    }
    .run()
}

struct Session<'a> {
    control: &'a mut ControlConnection,
    /// The address that the client reached us by.
    local: Address,
    netserver: &'a Netserver,
    server: ServerContext<'a>,
    /// The last test, for a client that asks for more than the results had room for.
    last: Option<(Side, u32)>,
    /// The CPU that the request named, if this thread could not be bound to it.
    refused: Option<Refused>,
}

impl Session<'_> {
    fn run(mut self) -> io::Result<()> {
        let Netserver {
            limits, passphrase, ..
        } = self.netserver;
        if let Some(passphrase) = passphrase {
            let patience = limits.passphrase_wait;
            let Some(frame) = self.read_request(patience, self.server.stop)? else {
                return Ok(());
            };
            let request = Request::decode(&frame).request;
            let offered = match &request {
                Request::Passphrase(offered) => Some(&offered[..]),
                _ => None,
            };
            let from = Holder::of(self.control.peer());
            // A wrong one gets no answer: the stock client finds out by the end of the connection.
            let why = match passphrase.attempt(from, offered, self.server.stop) {
                Attempt::Right => None,
                Attempt::Wrong => Some("wrong or missing passphrase"),
                Attempt::Refused => Some("too many wrong passphrases from this address"),
            };
            if let Some(why) = why {
                warn(format_args!("{}: refused, {why}", self.control.peer()));
                return Ok(());
            }
        }
        while let Some(frame) = self.next_request()? {
            let Received { cpu, request } = Request::decode(&frame);
            if self.server.stop.is_set() && request != Request::Details {
                return Ok(());
            }
            self.refused = cpu.and_then(|cpu| self.bind(cpu));
            match request {
                Request::DebugOn | Request::DebugOff => self.write(&debug_response())?,
                Request::CpuCalibrate => self.calibrate(&frame)?,
                Request::SysInfo => self.describe(&frame)?,
                // No answer, whether it was needed or not.
                Request::Passphrase(_) => {}
                Request::Details => self.tell_details()?,
                ref request => {
                    match Assignment::of(request, self.control.peer(), &self.local, limits) {
                        Some(assignment) => {
                            if !self.test(request, Capability::find(&frame), assignment)? {
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

    /// Binds this thread to the CPU. The test goes on where that fails, and its details say so.
    fn bind(&self, cpu: u32) -> Option<Refused> {
        let why = sys::describe(&sys::cpu::bind_thread(cpu).err()?);
        self.log(format_args!("could not bind to CPU {cpu}: {why}"));
        Some(Refused {
            setting: "CPU".to_owned(),
            asked: cpu.to_string(),
            why,
        })
    }

    /// One test; whether the connection goes on afterwards.
    fn test(
        &mut self,
        request: &Request,
        asker: Option<Capability>,
        assignment: Result<Assignment, Refusal>,
    ) -> io::Result<bool> {
        let Netserver { limits, files, .. } = self.netserver;
        let wants = |feature| asker.is_some_and(|asker| asker.has(feature));
        // Where it is not allowed /proc/stat measures, and the client sees that.
        let by_looper = wants(Capability::ASKS_LOOPER) && limits.looper;
        let spins = wants(Capability::ASKS_SPIN) && limits.spin;
        let prepared = assignment
            .map(|mut assignment| {
                if let Some(pacing) = &mut assignment.half.pacing
                    && spins
                {
                    pacing.wait = Wait::SpinHalf;
                }
                if wants(Capability::ASKS_MMSG) && assignment.has_one_way_datagrams() {
                    assignment.half.io = IoMethod::Mmsg;
                }
                if by_looper {
                    let given = request.test().map(|(_, asked)| f64::from(asked.cpu_rate));
                    let rate = given.filter(|rate| *rate > 0.0);
                    assignment.half.idle_loop = Some(IdleLoop { rate });
                }
                if wants(Capability::ASKS_MULTIPATH) && assignment.transport == Transport::Tcp {
                    assignment.transport = Transport::Mptcp;
                }
                assignment
            })
            .and_then(|assignment| Prepared::new(assignment, &self.memory(), files, limits));
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
        if let Some(asker) = asker {
            prepared.timing.calls = asker.has(Capability::ASKS_TIMES);
            prepared.proof = proof(asker, transport);
            Capability {
                nonce: prepared.proof.map(|proof| proof.nonce),
                ..self.capability()
            }
            .put(&mut response);
        }
        let tells_congestion = prepared.assignment.tells_congestion;
        // Once the client has the response the data may come.
        let meter = prepared.assignment.tells_interface.then(|| {
            let client = prepared.assignment.client.as_ref();
            InterfaceMeter::start(client.unwrap_or(self.control.peer()))
        });
        let test = prepared.assignment.test();
        let running = match self.server.begin(self.control.peer(), test) {
            Ok(running) => running,
            Err(why) => {
                warn(format_args!(
                    "{}: refused a test: {why}",
                    self.control.peer()
                ));
                self.write(&error_response(Error::DQUOT.raw_os_error()))?;
                return Ok(true);
            }
        };
        running.count(&prepared.counters);
        self.write(&response)?;

        let stop = self.server.cut.follower();
        let finished = prepared.run(self.control.as_fd(), self.control.peer(), &stop, limits);
        if self.server.cut.is_set() {
            // Results would describe a part of the test. Clients of either make treat the end of the connection as a
            // failure.
            self.log(format_args!("ended the test"));
            return Ok(false);
        }
        let mut finished = match finished {
            Ok(finished) => finished,
            // The client hung up: nobody is there to be told.
            Err(why) if why == Refusal::from(Error::CANCELED) => return Ok(false),
            Err(why) => {
                self.log(format_args!("test failed: {why}"));
                running.fail(&why);
                self.write(&error_response(why.0))?;
                return Ok(false);
            }
        };
        finished.side.interface = meter.flatten().map(InterfaceMeter::finish);
        finished.side.refused.extend(self.refused.take());
        let results = reply::results(request, transport, tells_congestion, &finished);
        self.write(&results)?;
        if let Some(dump) = finished
            .tcp_info
            .filter(|_| matches!(request, Request::Omni(_)))
        {
            dump.print();
        }
        running.ended(&finished.ended);
        // Only now: a server that is told to end waits for the tests that are entered.
        self.last = Some((finished.side, running.others()));
        drop(running);
        Ok(finished.ended != Ended::Cancelled)
    }

    /// The capability of this server, as far as the operator allows.
    fn capability(&self) -> Capability {
        let mut own = Capability::own();
        if !self.netserver.limits.spin {
            own.features &= !Capability::SPINS;
        }
        own
    }

    /// The memory of this client's buffers.
    fn memory(&self) -> Memory {
        let per_ring = self.netserver.limits.max_buffer_bytes;
        Memory::within(
            &self.netserver.memory,
            Holder::of(self.control.peer()),
            per_ring,
        )
    }

    /// What an idle CPU counts, or where ticks are counted how many there are.
    fn calibrate(&mut self, asked: &Frame) -> io::Result<()> {
        let by_looper =
            Capability::find(asked).is_some_and(|asker| asker.has(Capability::ASKS_LOOPER));
        if by_looper && !self.netserver.limits.looper {
            return self.write(&error_response(Error::PERM.raw_os_error()));
        }
        let rate = if by_looper {
            // It is in the way of others' tests like a test.
            let test = Test {
                name: "calibration".to_owned(),
                length: None,
            };
            let Ok(running) = self.server.begin(self.control.peer(), test) else {
                return self.write(&error_response(Error::DQUOT.raw_os_error()));
            };
            running.complete();
            Looper::shared()
                .and_then(|looper| looper.calibrate())
                .map(|rate| rate as f32)
        } else {
            Ok(TICKS_A_SECOND)
        };
        let cpus = sys::cpu::online() as i32;
        match rate {
            Ok(rate) => self.write(&CalibrateResponse { rate, cpus }.encode()),
            Err(error) => self.write(&error_response(Refusal::from_io(&error).0)),
        }
    }

    /// Describes this host. It is also how a linerate client finds out whom it talks to before it asks
    /// for a test.
    fn describe(&mut self, asked: &Frame) -> io::Result<()> {
        let uname = sys::facts::uname();
        let mut answer = SysInfo {
            sysname: uname.sysname,
            release: uname.release,
            machine: uname.machine,
            version: uname.version,
        }
        .encode();
        if Capability::find(asked).is_some() {
            self.capability().put(&mut answer);
        }
        self.write(&answer)
    }

    fn tell_details(&mut self) -> io::Result<()> {
        let Some((side, others)) = self.last.take() else {
            return self.write(&error_response(UNKNOWN_REQUEST));
        };
        let document = Details::of(side, others, self.local.ip()).to_json();
        if document.len() > DETAILS_MAX as usize {
            return self.write(&error_response(sys::call::Error::TOOBIG.raw_os_error()));
        }
        let len = document.len() as u32;
        self.write(&DetailsResponse { len }.encode())?;
        self.write(&document)
    }

    /// The next request, or `None` at the end of the connection or of the server.
    fn next_request(&mut self) -> io::Result<Option<Frame>> {
        let ServerContext { stop, cut, .. } = self.server;
        if stop.is_set() && self.last.is_some() {
            return self.read_request(LAST_QUESTION, cut);
        }
        self.read_request(self.netserver.limits.control_idle, stop)
    }

    /// The next message, or `None` at the end of the connection or at the stop. A message must be whole within
    /// `patience`, however slowly its bytes come.
    fn read_request(&self, patience: Duration, stop: &Stop) -> io::Result<Option<Frame>> {
        let mut frame = [0; MESSAGE_LEN];
        let until = Instant::now() + patience;
        match self.control.receive(&mut frame, until, stop) {
            Ok(0) => Ok(None),
            Ok(MESSAGE_LEN) => Ok(Some(frame)),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            // Nothing is running here: a server that is told to end does not wait for a client.
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

/// Draws a nonce for a client that can prove its data connection.
fn proof(asker: Capability, transport: Transport) -> Option<Proof> {
    let is_apart = asker.has(Capability::PROVES_APART);
    let proves = is_apart || asker.has(Capability::PROVES);
    let one_a_socket = transport.has_connections() && transport != Transport::SctpMany;
    (proves && one_a_socket).then(|| Proof {
        nonce: OsRng.unwrap_err().random(),
        is_apart,
    })
}
