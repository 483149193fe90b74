//! Session of one master: handshake, run and goodbye.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use control::{ControlConnection, describe_error};
use engine::{BudgetHolder, Stop, deadline_thread};
use server::{Dialect, ServerContext};
use sys::call::Error;

use super::commands::RunEnd;
use super::goodbye::{goodbye_from_log, interrupted_goodbye};
use super::{SlaveDialect, permit};
use crate::DataProtocol;
use crate::ProtocolStep;
use crate::options::SlaveLimits;
use crate::run_budget::RunBudget;
use crate::strand::{Log, StrandOutcome, ipv6_mapped_text, supports_protocol};
use crate::wire::{
    DataVersion, Endian, Goodbye, HANDSHAKE_END, Header, Phase1Answer, SHORT_HEADER_LEN,
    WorkRefusal,
};

/// Timeout for sending an answer to the master.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of headers per session. A master sends one header of phase 1 for each version
/// that it tries.
const MAX_HEADERS: usize = 16;

/// Memory use of a session above which freed memory is returned to the system, bytes.
pub(super) const RELEASE_THRESHOLD_BYTES: u64 = 4 << 20;

/// Serves one master until its session ends.
pub(super) fn serve(
    control: &ControlConnection,
    shared: &SlaveDialect,
    server: ServerContext<'_>,
) -> io::Result<()> {
    let session = Session {
        control,
        shared,
        limits: &shared.config.limits,
        cancel: server.cancel_stop.child(),
        server,
    };
    let _watch = deadline_thread().set_on_hang_up(control.as_fd(), &session.cancel);
    let budget = shared
        .budget
        .open_session(BudgetHolder::for_address(control.peer()));
    let run_budget = budget.map_err(io::Error::other)?;
    let peak_memory = run_budget.peak_memory();
    let (peer, port) = (ipv6_mapped_text(control.peer()), control.peer().port());
    session.print_step(&ProtocolStep::MasterAccepted(&format!("{peer}:{port}")));
    let result = session.run(run_budget);
    if peak_memory.load(Relaxed) > RELEASE_THRESHOLD_BYTES {
        sys::process::release_freed_memory();
    }
    match result {
        Ok(()) => {}
        Err(SessionEnd::Refused(refusal)) if shared.config.verbose => {
            session.log_line(format_args!("{refusal}"));
        }
        Err(SessionEnd::Refused(refusal)) => {
            let peer = control.peer();
            shared.warn(format_args!("{peer}: refused a master: {refusal}"));
        }
        // The server ignores this error: a client that connects and leaves is no lost master.
        Err(SessionEnd::ConnectionLost(error)) => return Err(error),
        Err(SessionEnd::RunLost(stage, error)) => {
            let (peer, reason) = (control.peer(), describe_error(&error));
            super::write_error(format_args!("{peer}: run lost {stage}: {reason}"));
        }
    }
    Ok(())
}

/// Session of one master.
pub(super) struct Session<'a> {
    pub(super) control: &'a ControlConnection,
    pub(super) shared: &'a SlaveDialect,
    pub(super) limits: &'a SlaveLimits,
    pub(super) server: ServerContext<'a>,
    /// Set when the master closes its connection, or when the server cancels its runs.
    pub(super) cancel: Stop,
}

/// Reason of an early end of a session.
pub(super) enum SessionEnd {
    Refused(WorkRefusal),
    ConnectionLost(io::Error),
    /// The master was lost while it had strands: the stage of the run, and the error.
    RunLost(String, io::Error),
}

impl From<WorkRefusal> for SessionEnd {
    fn from(refusal: WorkRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for SessionEnd {
    fn from(error: io::Error) -> Self {
        Self::ConnectionLost(error)
    }
}

/// Values of the master's header of phase 2.
pub(super) struct MasterHeader {
    pub(super) version: DataVersion,
    pub(super) order: Endian,
    pub(super) slave_info_count: u32,
}

impl Session<'_> {
    fn run(&self, budget: RunBudget) -> Result<(), SessionEnd> {
        let header = self.read_headers()?;
        let order = header.order;
        let (mut workers, strand_shares, running) = self.prepare(&header, &budget)?;
        let handshake_end = self
            .control
            .read::<{ HANDSHAKE_END.len() }>(self.idle_deadline());
        let echoed = handshake_end.and_then(|end| self.control.write(&end, WRITE_TIMEOUT));
        if let Err(error) = echoed {
            workers.abort();
            workers.finish();
            let stage = "at the end of the handshake".to_owned();
            return Err(SessionEnd::RunLost(stage, error));
        }
        let started_at = Instant::now();
        let run_end = self.run_commands(&mut workers, order, &running);
        if let RunEnd::Interrupted(stage) = &run_end {
            // Send the goodbye first: the master would take closed connections for a normal end.
            let goodbye = interrupted_goodbye(stage, &workers.counts(), started_at.elapsed());
            let written = self.control.write(&goodbye.encode(order), WRITE_TIMEOUT);
            workers.abort();
            workers.finish();
            return written.map_err(|error| SessionEnd::RunLost(stage.clone(), error));
        }
        let ended_at = match &run_end {
            RunEnd::Done(ended) => *ended,
            _ => Instant::now(),
        };
        // The master needs no more data.
        workers.abort();
        let counts = workers.counts();
        let transaction_count = workers.transactions_of_longest_group();
        let strands = workers.finish();
        let mut log = Log::default();
        for strand in &strands {
            log.merge(&strand.log);
        }
        let has_ended = |strand: &&StrandOutcome| {
            strand.failed || strand.transactions.len() == transaction_count
        };
        let ended_strands = strands.iter().filter(has_ended).count() as u64;
        // Release resources before the goodbye: the master may connect again right after it.
        drop((strands, strand_shares, budget));
        for text in log.stranger_warnings() {
            super::write_error(format_args!("{}: {text}", self.control.peer()));
        }
        match &run_end {
            RunEnd::BarrierTimedOut(stage) => {
                log.error(format!("Error waiting for strands at barrier {stage}"), 0);
            }
            RunEnd::TooLong => {
                let limit = self.limits.work.duration;
                log.error(
                    format!("the run is longer than {limit:?} (--max-length)"),
                    0,
                );
            }
            RunEnd::StrandsStillRunning(strands) => {
                log.warn(format!("{strands} strands had not ended"));
            }
            _ => {}
        }
        let goodbye = Goodbye {
            operations: counts.operations + ended_strands,
            ..goodbye_from_log(&log, &counts, ended_at - started_at)
        };
        if self.cancel.is_set() && !self.server.cancel_stop.is_set() {
            running.fail(&"the connection to the client ended before the test was complete");
        } else if goodbye.kind == Goodbye::ERROR {
            running.fail(&goodbye.message);
        } else if matches!(run_end, RunEnd::Done(_)) {
            running.complete();
        }
        if let RunEnd::InterruptedWithoutGoodbye(stage) = run_end {
            return Err(SessionEnd::RunLost(stage, Error::CANCELED.into()));
        }
        // The master may still receive, even if it sends nothing more.
        let written = self.control.write(&goodbye.encode(order), WRITE_TIMEOUT);
        match run_end {
            RunEnd::ConnectionLost(stage, error) => Err(SessionEnd::RunLost(stage, error)),
            _ => written.map_err(|error| SessionEnd::RunLost("at the goodbye".to_owned(), error)),
        }
    }

    /// Answers headers of phase 1 until the header of phase 2 arrives.
    fn read_headers(&self) -> Result<MasterHeader, SessionEnd> {
        let deadline = self.idle_deadline();
        for _ in 0..MAX_HEADERS {
            let mut bytes = [0; SHORT_HEADER_LEN];
            self.fill_before_run(&mut bytes, deadline)?;
            match self.decode_header(&bytes, deadline) {
                Ok((header, master)) if header.phase == 2 => return Ok(master),
                Ok(_) => self
                    .control
                    .write(&Phase1Answer::linerate_ok(), WRITE_TIMEOUT)?,
                Err(SessionEnd::Refused(refusal)) => {
                    let refused = Phase1Answer::Refused(refusal.reason());
                    self.control.write(&refused.encode(), WRITE_TIMEOUT)?;
                    return Err(SessionEnd::Refused(refusal));
                }
                Err(end) => return Err(end),
            }
        }
        let words = format!("more than {MAX_HEADERS} headers");
        Err(SessionEnd::Refused(WorkRefusal::Workorder(words)))
    }

    /// Fills the buffer; fails at the deadline, or when the slave is stopped.
    pub(super) fn fill_before_run(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
        match self.control.receive(buffer, deadline, self.server.stop)? {
            received if received == buffer.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn decode_header(
        &self,
        bytes: &[u8; SHORT_HEADER_LEN],
        deadline: Instant,
    ) -> Result<(Header, MasterHeader), SessionEnd> {
        let (header, order) = Header::decode(bytes)?;
        let version = header.version()?;
        let mut rest = vec![0; version.header_len() - SHORT_HEADER_LEN];
        self.fill_before_run(&mut rest, deadline)?;
        header.check_protocols(|protocol| self.is_supported(protocol))?;
        let master = MasterHeader {
            version,
            order,
            slave_info_count: header.slave_infos,
        };
        Ok((header, master))
    }

    /// Whether a protocol is permitted and available. It checks the permission first, because a
    /// probe of a protocol makes the kernel load its module.
    pub(super) fn is_supported(&self, protocol: DataProtocol) -> bool {
        let is_available = || match protocol {
            DataProtocol::Ssl => cfg!(feature = "tls"),
            other => supports_protocol(other),
        };
        permit::allows(self.limits.permissions, protocol) && is_available()
    }

    pub(super) fn idle_deadline(&self) -> Instant {
        Instant::now() + self.idle_timeout()
    }

    pub(super) fn idle_timeout(&self) -> Duration {
        self.limits.control_idle
    }

    pub(super) fn log_line(&self, line: fmt::Arguments<'_>) {
        self.shared.log(line);
    }

    pub(super) fn print_step(&self, step: &ProtocolStep<'_>) {
        if self.shared.config.verbose {
            let _ = write!(getopt::stdout(), "{step}");
        }
    }
}
