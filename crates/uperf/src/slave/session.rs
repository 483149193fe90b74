//! One master's session: its handshake, its run and the last word.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use control::{ControlConnection, why};
use engine::{Holder, Stop, deadline_thread};
use server::{Dialect, ServerContext};
use sys::call::Error;
use sys::write_error_line;

use super::commands::Ending;
use super::goodbye::{farewell, interruption};
use super::{Masters, permit};
use crate::Protocol;
use crate::Step;
use crate::account::Account;
use crate::options::Limits;
use crate::strand::{Log, StrandOutcome, has, machine_text};
use crate::wire::{Ack1, END, Goodbye, Header, Order, Refusal, SHORT_HEADER, Version};

/// How long the master may take to read an answer.
pub(super) const WRITE_DEADLINE: Duration = Duration::from_secs(20);

/// Headers of phase 1 that a master may send: one for each of its attempts.
const MOST_HELLOS: usize = 16;

/// What a session has used when its freed memory is worth giving back, bytes.
pub(super) const MUCH: u64 = 4 << 20;

/// Serves one master to its end, whatever that is.
pub(super) fn serve(
    control: &ControlConnection,
    masters: &Masters,
    server: ServerContext<'_>,
) -> io::Result<()> {
    let session = Session {
        control,
        masters,
        limits: &masters.terms.limits,
        gone: server.cut.follower(),
        server,
    };
    let _watch = deadline_thread().on_hang_up(control.as_fd(), &session.gone);
    let account = masters.budget.admit(Holder::of(control.peer()));
    let account = account.map_err(io::Error::other)?;
    let peak = account.peak();
    let (peer, port) = (machine_text(control.peer()), control.peer().port());
    session.step(&Step::Accepted(&format!("{peer}:{port}")));
    let ended = session.run(account);
    if peak.load(Relaxed) > MUCH {
        sys::process::release_freed_memory();
    }
    match ended {
        Ok(()) => {}
        Err(End::Refused(refusal)) => session.note(format_args!("{refusal}")),
        // Whoever connects and goes again is no master.
        Err(End::Lost(error)) => return Err(error),
        Err(End::Left(place, error)) => {
            let (peer, why) = (control.peer(), why(&error));
            write_error_line(format_args!("uperf: {peer} lost {place}: {why}"));
        }
    }
    Ok(())
}

pub(super) struct Session<'a> {
    pub(super) control: &'a ControlConnection,
    pub(super) masters: &'a Masters,
    pub(super) limits: &'a Limits,
    pub(super) server: ServerContext<'a>,
    /// The master has left, or its run is to end for the server.
    pub(super) gone: Stop,
}

/// Why a session ended before its time.
pub(super) enum End {
    Refused(Refusal),
    Lost(io::Error),
    /// There were strands for this master, who is lost, and where they were.
    Left(String, io::Error),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// What phase 2 begins with.
pub(super) struct Hello {
    pub(super) version: Version,
    pub(super) order: Order,
    pub(super) slave_infos: u32,
}

impl Session<'_> {
    fn run(&self, account: Account) -> Result<(), End> {
        let hello = self.hello()?;
        let order = hello.order;
        let (mut workers, share, running) = self.prepare(&hello, &account)?;
        let end = self.control.read::<{ END.len() }>(self.soon());
        let agreed = end.and_then(|end| self.control.write(&end, WRITE_DEADLINE));
        if let Err(error) = agreed {
            workers.abort();
            workers.finish();
            let place = "at the end of the handshake".to_owned();
            return Err(End::Left(place, error));
        }
        let begun = Instant::now();
        let outcome = self.obey(&mut workers, order, &running);
        if let Ending::Interrupted(place) = &outcome {
            // Before the connections close: their end would look like the end of the work.
            let goodbye = interruption(place, &workers.counts(), begun.elapsed());
            let said = self.control.write(&goodbye.encode(order), WRITE_DEADLINE);
            workers.abort();
            workers.finish();
            return said.map_err(|error| End::Left(place.clone(), error));
        }
        let ended = match &outcome {
            Ending::Done(ended) => *ended,
            _ => Instant::now(),
        };
        // Whatever still runs has nobody to run for.
        workers.abort();
        let counts = workers.counts();
        let stages = workers.stages();
        let strands = workers.finish();
        let mut log = Log::default();
        for strand in &strands {
            log.merge(&strand.log);
        }
        let has_ended =
            |strand: &&StrandOutcome| strand.failed || strand.transactions.len() == stages;
        let ends = strands.iter().filter(has_ended).count() as u64;
        // Before the last word, after which the master may come again.
        drop((strands, share, account));
        for text in log.strangers() {
            write_error_line(format_args!("uperf: {}: {text}", self.control.peer()));
        }
        match &outcome {
            Ending::Late(stage) => {
                log.say(format!("Error waiting for strands at barrier {stage}"), 0);
            }
            Ending::Long => {
                let most = self.limits.work.duration;
                log.say(format!("the run is longer than {most:?} (--max-length)"), 0);
            }
            Ending::Unended(strands) => log.warn(format!("{strands} strands had not ended")),
            _ => {}
        }
        let goodbye = Goodbye {
            operations: counts.operations + ends,
            ..farewell(&log, &counts, ended - begun)
        };
        if self.gone.is_set() && !self.server.cut.is_set() {
            running.fail(&"the client left");
        } else if goodbye.kind == Goodbye::ERROR {
            running.fail(&goodbye.message);
        } else if matches!(outcome, Ending::Done(_)) {
            running.complete();
        }
        if let Ending::Broken(place) = outcome {
            return Err(End::Left(place, Error::CANCELED.into()));
        }
        // The master may still read, whatever has become of its own words.
        let said = self.control.write(&goodbye.encode(order), WRITE_DEADLINE);
        match outcome {
            Ending::Lost(place, error) => Err(End::Left(place, error)),
            _ => said.map_err(|error| End::Left("at the goodbye".to_owned(), error)),
        }
    }

    /// Phase 1, as often as the master likes, up to the header of phase 2.
    fn hello(&self) -> Result<Hello, End> {
        let until = self.soon();
        for _ in 0..MOST_HELLOS {
            let mut bytes = [0; SHORT_HEADER];
            self.fill_before_run(&mut bytes, until)?;
            match self.understand(&bytes, until) {
                Ok((header, hello)) if header.phase == 2 => return Ok(hello),
                Ok(_) => self.control.write(&Ack1::of_linerate(), WRITE_DEADLINE)?,
                Err(End::Refused(refusal)) => {
                    let refused = Ack1::Refused(refusal.reason());
                    self.control.write(&refused.encode(), WRITE_DEADLINE)?;
                    return Err(End::Refused(refusal));
                }
                Err(end) => return Err(end),
            }
        }
        let words = format!("more than {MOST_HELLOS} headers");
        Err(End::Refused(Refusal::Workorder(words)))
    }

    /// Fills the buffer. A stopped slave does not wait for a master without a run.
    pub(super) fn fill_before_run(&self, buffer: &mut [u8], until: Instant) -> io::Result<()> {
        match self.control.receive(buffer, until, self.server.stop)? {
            received if received == buffer.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn understand(
        &self,
        bytes: &[u8; SHORT_HEADER],
        until: Instant,
    ) -> Result<(Header, Hello), End> {
        let (header, order) = Header::decode(bytes)?;
        let version = header.version()?;
        let mut rest = vec![0; version.header_len() - SHORT_HEADER];
        self.fill_before_run(&mut rest, until)?;
        header.check_protocols(|protocol| self.is_supported(protocol))?;
        let hello = Hello {
            version,
            order,
            slave_infos: header.slave_infos,
        };
        Ok((header, hello))
    }

    /// Checks the permission first: a trial of a protocol makes the kernel load its module.
    pub(super) fn is_supported(&self, protocol: Protocol) -> bool {
        let is_here = || match protocol {
            Protocol::Ssl => cfg!(feature = "tls"),
            other => has(other),
        };
        permit::allows(self.limits.permissions, protocol) && is_here()
    }

    pub(super) fn soon(&self) -> Instant {
        Instant::now() + self.idle()
    }

    pub(super) fn idle(&self) -> Duration {
        self.limits.control_idle
    }

    pub(super) fn note(&self, line: fmt::Arguments<'_>) {
        self.masters.log(line);
    }

    pub(super) fn step(&self, step: &Step<'_>) {
        if self.masters.terms.verbose {
            let _ = write!(io::stdout(), "{step}");
        }
    }
}
