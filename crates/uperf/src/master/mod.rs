//! The master: runs a profile with the slaves that the profile names.

mod connect;
mod counter_permissions;
mod files;
mod interfaces;
mod outcome;
mod peers;
mod probe;
mod run;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use engine::{BudgetHolder, ResourceAmounts, ResourceBudget, ResourceShare, Stop};
use model::{HostFacts, Interfaces, Outcome, PeerOutcome, Warning};

use crate::options::{self, CpuCounter, MasterSettings, Settings};
use crate::peer_workorder;
use crate::strand::{
    GroupSetup, Listeners, Log, MeasurementOptions, Peers, ResponseFile, StrandOutcome, Workers,
    unsupported_reason,
};
use crate::tls::{self, TlsContexts, TlsSettings};
use crate::wire::{Goodbye, MasterCommand};
use crate::{DataProtocol, GroupSpec, MasterEvent, ProtocolStep, Workorder};

use connect::{FAILED_GOODBYE_TIMEOUT, GOODBYE_TIMEOUT, Slave};
use interfaces::InterfaceCounters;
use run::Progress;

/// An error that prevents a master's run or ends it.
#[derive(Debug, thiserror::Error)]
pub enum MasterError {
    /// The control connection failed.
    #[error("Error connecting to {host}: {reason}")]
    Connecting {
        /// The slave's host.
        host: String,
        /// The error.
        reason: String,
    },
    /// A slave refused phase 1 or 2 of the handshake.
    #[error("{host} refuses phase {phase}: {reason}")]
    Refused {
        /// The slave's host.
        host: String,
        /// Phase of the handshake: 1 or 2.
        phase: u32,
        /// The slave's reason.
        reason: String,
    },
    /// The connection to a slave was lost in the handshake.
    #[error("{host} was lost in {stage}: {reason}")]
    Lost {
        /// The slave's host.
        host: String,
        /// Stage of the handshake.
        stage: String,
        /// The error.
        reason: String,
    },
    /// The connection to a slave was lost in the last phase of the handshake.
    #[error("{host} was lost at the end of the handshake: {reason}")]
    HandshakeEnd {
        /// The slave's host.
        host: String,
        /// The error.
        reason: String,
    },
    /// The profile cannot be sent to a slave.
    #[error("{host}: {reason}")]
    Unsendable {
        /// The slave's host.
        host: String,
        /// The unsupported part.
        reason: String,
    },
    /// The file of `-X` cannot be opened.
    #[error("{0}")]
    ResponseFile(String),
    /// The profile or the options cannot be used at this end.
    #[error("{0}")]
    Local(String),
}

/// How much longer than the master's strands the slaves' strands may take before their connections
/// are closed.
const GOODBYE_WAIT: Duration = Duration::from_secs(1);

/// Maximum time between two checks of the strands and slaves.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Program name of a slave that is a linerate.
const LINERATE: &str = "linerate";

/// Runs a profile and reports events meanwhile.
pub fn run(
    settings: &Settings,
    master: &MasterSettings,
    workorder: &Workorder,
    stop: &Stop,
    events: &mut dyn FnMut(&MasterEvent<'_>),
) -> Result<Outcome, MasterError> {
    // Started before the first strand, because threads inherit the CPU affinity of their creator.
    let _ = engine::deadline_thread();
    let session = Session {
        settings,
        master,
        workorder,
        stop,
    };
    session.run(&mut Progress::new(master.interval, events))
}

struct Session<'a> {
    settings: &'a Settings,
    master: &'a MasterSettings,
    workorder: &'a Workorder,
    stop: &'a Stop,
}

/// Ends the handshake with each slave. If one fails, ends the workers.
fn finish_handshakes(slaves: &[Slave], workers: Workers) -> Result<Workers, MasterError> {
    for slave in slaves {
        if let Err(error) = slave.finish_handshake() {
            workers.abort();
            workers.finish();
            return Err(error);
        }
    }
    Ok(workers)
}

impl Session<'_> {
    fn run(&self, progress: &mut Progress<'_>) -> Result<Outcome, MasterError> {
        self.check_supported()?;
        let (counters, mut warnings) =
            counter_permissions::permitted_counters(&self.master.counters);
        if !warnings.is_empty() {
            progress.report(&MasterEvent::Warnings(&warnings));
        }
        let measurements = self.measurements(&counters)?;
        let responses = measurements.responses.clone();
        let contexts = self.tls_contexts()?;
        if self.has_unused_tls_options(&contexts) {
            let warning = Warning::OptionUnused {
                option: "--tls-*".to_owned(),
                reason: "the profile has no SSL connections".to_owned(),
            };
            progress.report(&MasterEvent::Warnings(std::slice::from_ref(&warning)));
            warnings.push(warning);
        }
        let _threads = self.reserve_threads()?;
        let mut slaves = self.connect_slaves()?;
        for slave in &mut slaves {
            slave.negotiate(&self.workorder.groups[slave.group])?;
        }
        progress.report_step(&ProtocolStep::Phase1Done);
        probe_all(&mut slaves);
        progress.report_step(&ProtocolStep::Phase2);
        let setups = self.set_up_groups(&mut slaves, contexts, progress)?;
        progress.report_step(&ProtocolStep::Phase2Done);
        progress.report(&MasterEvent::Starting);
        let start = Instant::now();
        let workers = Workers::start(setups, &measurements, self.stop).map_err(|error| {
            MasterError::Local(format!("Error creating threads: {}", sys::describe(&error)))
        })?;
        progress.report(&MasterEvent::Started(start.elapsed()));
        let mut workers = finish_handshakes(&slaves, workers)?;
        let interfaces = InterfaceCounters::read();
        let (handshake_end, wall_clock) = (Instant::now(), SystemTime::now());
        let mut log = Log::default();
        let mut has_failed =
            run::run_transactions(&mut workers, &mut slaves, progress, self.stop, &mut log);
        let position = progress.describe_position();
        let final_interfaces = InterfaceCounters::read();
        let plan = workers.plan(self.workorder.name.clone(), self.master.interval);
        let expects_goodbyes = self.master.print.statistics || has_failed;
        let (strands, ended) = self.end_strands(workers, &mut slaves, has_failed, progress);
        let elapsed = ended - handshake_end;
        let failures = strands.iter().filter(|strand| strand.failed).count() as u64;
        for strand in &strands {
            log.merge(&strand.log);
        }
        let lacks_responses = responses.is_some_and(|file| !file.finish_with_log(&mut log));
        let mut peers = if expects_goodbyes {
            let timeout = if has_failed {
                FAILED_GOODBYE_TIMEOUT
            } else {
                GOODBYE_TIMEOUT
            };
            self.collect_goodbyes(&mut slaves, timeout, progress, &position, &mut log)
        } else {
            let outcomes = slaves
                .iter()
                .map(|slave| peers::peer_outcome(slave, None, None));
            outcomes.collect()
        };
        peers::discard_impossible_totals(
            &mut peers,
            &self.workorder.groups,
            &strands,
            elapsed,
            &mut log,
        );
        // A slave may be stopped just when the master requests its statistics.
        let is_interrupted = |slave: &Slave| {
            let goodbye = slave.goodbye.as_ref();
            goodbye.is_some_and(|goodbye| goodbye.as_ref().is_ok_and(Goodbye::is_interruption))
        };
        has_failed |= expects_goodbyes && peers.iter().any(|peer| peer.totals.is_none());
        has_failed |= slaves.iter().any(is_interrupted) || lacks_responses;
        warnings.extend(peers::has_local_slave(&slaves).then_some(Warning::SameHost));
        let interfaces =
            self.interface_traffic([&interfaces, &final_interfaces], &strands, progress);
        warnings.extend(interfaces.as_ref().err().cloned());
        let run = outcome::FinishedRun {
            master: self.master,
            workorder: self.workorder,
            plan,
            strands: &strands,
            handshake_end: (handshake_end, wall_clock),
            elapsed,
            host: self.host(&slaves),
            interfaces: interfaces.ok(),
            counters: &counters,
            peers,
            series: progress.series(handshake_end),
            log: &log,
            failures: failures.max(u64::from(has_failed)),
            is_interrupted: self.stop.is_set(),
            warnings,
        };
        Ok(run.outcome())
    }

    /// Returns the facts about this host for the JSON document and the HTML page.
    fn host(&self, slaves: &[Slave]) -> Option<HostFacts> {
        self.master.needs_all_statistics().then(|| {
            let local_address = slaves
                .first()
                .and_then(|slave| slave.control.local_address());
            engine::host_facts(local_address.and_then(|address| address.ip()))
        })
    }

    fn check_supported(&self) -> Result<(), MasterError> {
        if let Some(reason) = self.workorder.groups.iter().find_map(unsupported_reason) {
            return Err(MasterError::Local(reason));
        }
        let mut flowops = self.workorder.groups.iter().flat_map(GroupSpec::flowops);
        if flowops
            .any(|flowop| !flowop.endpoint.stack.is_empty() || flowop.endpoint.black_box_log != 0)
        {
            let text = "stack= and bblog= are for FreeBSD's TCP; Linux does not support them";
            return Err(MasterError::Local(text.to_owned()));
        }
        Ok(())
    }

    fn measurements(&self, counters: &[CpuCounter]) -> Result<MeasurementOptions, MasterError> {
        let responses = match &self.master.response_times {
            None => None,
            Some(path) => {
                let file = ResponseFile::create(path).map_err(|error| {
                    let reason = sys::describe(&error);
                    MasterError::ResponseFile(format!("cannot open {}: {reason}", path.display()))
                })?;
                Some(Arc::new(file))
            }
        };
        let (print, has_page) = (&self.master.print, self.master.html.is_some());
        Ok(MeasurementOptions {
            transactions: print.transactions || has_page,
            flowops: print.flowops || has_page,
            cpu: self.master.flowop_cpu,
            histogram: self.master.latencies || has_page,
            responses,
            counters: counters.iter().map(|counter| counter.event()).collect(),
        })
    }

    /// Returns the traffic between two readings, or the warning that it is unavailable.
    fn interface_traffic(
        &self,
        [before, after]: [&InterfaceCounters; 2],
        strands: &[StrandOutcome],
        progress: &mut Progress<'_>,
    ) -> Result<Interfaces, Warning> {
        let mut transactions = strands.iter().flat_map(|strand| &strand.transactions);
        let has_moved_data = transactions.any(|transaction| transaction.counts.bytes() > 0);
        let interfaces = after.since(before, has_moved_data && self.uses_ip());
        interfaces.ok_or_else(|| {
            let warning = Warning::NotCounted {
                counters: vec!["traffic of the interfaces".to_owned()],
                reason: "/proc/net/dev is masked or did not change".to_owned(),
            };
            if self.master.print.interfaces {
                progress.report(&MasterEvent::Warnings(std::slice::from_ref(&warning)));
            }
            warning
        })
    }

    /// Returns whether any flow of the profile passes an interface.
    fn uses_ip(&self) -> bool {
        let mut flowops = self.workorder.groups.iter().flat_map(GroupSpec::flowops);
        flowops.any(|flowop| {
            let protocol = flowop.endpoint.protocol;
            protocol.is_some_and(|protocol| {
                !matches!(protocol, DataProtocol::Vsock | DataProtocol::Unix)
            })
        })
    }

    /// Creates the TLS contexts of each group.
    fn tls_contexts(&self) -> Result<Vec<TlsContexts>, MasterError> {
        let local_error = |error: tls::TlsError| MasterError::Local(error.to_string());
        let Settings { tls, verbose, .. } = self.settings;
        let security = TlsSettings::for_master(tls, *verbose).map_err(local_error)?;
        let groups = self.workorder.groups.iter();
        let contexts = groups.map(|group| security.prepare(group).map_err(local_error));
        let contexts = contexts.collect::<Result<Vec<_>, _>>()?;
        Ok(contexts)
    }

    fn has_unused_tls_options(&self, contexts: &[TlsContexts]) -> bool {
        self.settings.tls != options::TlsFiles::default()
            && contexts.iter().all(TlsContexts::is_empty)
    }

    /// Opens a control connection for each group and host, in the order of the profile.
    fn connect_slaves(&self) -> Result<Vec<Slave>, MasterError> {
        let (control_protocol, port) = (self.settings.control, self.settings.port);
        let mut slaves = Vec::new();
        for (number, group) in self.workorder.groups.iter().enumerate() {
            for host in peer_workorder::hosts(group) {
                slaves.push(Slave::connect(
                    host,
                    number,
                    control_protocol,
                    port,
                    self.stop,
                )?);
            }
        }
        Ok(slaves)
    }

    /// Reserves the threads of all strands. A strand that is a process has a thread here as well.
    fn reserve_threads(&self) -> Result<ResourceShare, MasterError> {
        let threads = self.workorder.groups.iter().map(|group| {
            let per_strand = if group.strands.processes { 2 } else { 1 };
            u64::from(group.strands.count) * per_strand
        });
        let amounts = ResourceAmounts {
            threads: threads.sum(),
            ..ResourceAmounts::default()
        };
        ResourceBudget::process()
            .reserve(BudgetHolder::Local, amounts)
            .map_err(|exceeded| MasterError::Local(exceeded.to_string()))
    }

    /// Sends each slave its work, and sets up each group with the answers.
    fn set_up_groups(
        &self,
        slaves: &mut [Slave],
        contexts: Vec<TlsContexts>,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<GroupSetup>, MasterError> {
        let mut setups = Vec::new();
        for ((number, group), tls) in self.workorder.groups.iter().enumerate().zip(contexts) {
            let mut group = group.clone();
            let files = files::open_files(&group).map_err(MasterError::Local)?;
            files::set_read_sizes(&mut group, &files).map_err(MasterError::Local)?;
            let group_slaves = slaves.iter().filter(|slave| slave.group == number);
            let has_stock_slave = group_slaves.clone().any(|slave| !slave.is_linerate);
            // Slaves may reach this host at different addresses.
            let local_address = |host: &str| {
                let mut group_slaves = group_slaves.clone();
                let slave = group_slaves.find(|slave| slave.host.eq_ignore_ascii_case(host))?;
                slave.control.local_address()
            };
            let listeners = Listeners::open(&group, local_address)
                .map_err(|error| MasterError::Local(error.to_string()))?;
            let mut peers = Peers::default();
            // In reverse order of connection, as in stock masters.
            for slave in slaves
                .iter_mut()
                .rev()
                .filter(|slave| slave.group == number)
            {
                progress.report_step(&ProtocolStep::Phase2WithSlave(&slave.host));
                peers.add(slave.assign(&group, &listeners)?);
                progress.report_assigned(&slave.host, &group);
            }
            setups.push(GroupSetup {
                group,
                is_slave: false,
                has_stock_slave,
                peers,
                listeners,
                files: Arc::new(files),
                tls,
                policy: self.settings.policy.clone(),
                run_budget: None,
            });
        }
        Ok(setups)
    }

    /// Ends the strands in the master and in the slaves. Returns the outcome of each strand of the
    /// master, and the end of the run.
    fn end_strands(
        &self,
        workers: Workers,
        slaves: &mut [Slave],
        has_failed: bool,
        progress: &mut Progress<'_>,
    ) -> (Vec<StrandOutcome>, Instant) {
        let mut ended = Instant::now();
        let mut aborted = Vec::new();
        if has_failed {
            aborted = abort_all(slaves);
            workers.abort();
        } else {
            progress.end_samples();
            if self.master.print.statistics {
                self.request_statistics(slaves, progress);
            }
            // A stock slave ends late. As in a stock master, the run then includes that time.
            if slaves.iter().any(|slave| !slave.is_linerate) {
                ended = Instant::now();
            }
        }
        let strands = workers.finish();
        let failures = strands.iter().filter(|strand| strand.failed);
        for (number, _) in (1..).zip(failures) {
            progress.report(&MasterEvent::StrandFailed(number));
        }
        if has_failed {
            progress.end_samples();
        }
        for host in aborted {
            progress.report_step(&ProtocolStep::CommandSent(MasterCommand::Abort, &host));
        }
        (strands, ended)
    }

    /// Requests the statistics of all slaves.
    fn request_statistics(&self, slaves: &mut [Slave], progress: &mut Progress<'_>) {
        for slave in &mut *slaves {
            let strands = self.workorder.groups[slave.group].strands.count;
            for command in slave.final_commands(strands) {
                progress.send_command(slave, command);
            }
        }
        await_goodbyes(slaves);
    }

    /// Collects the goodbye messages of all slaves, within `timeout` in total.
    fn collect_goodbyes(
        &self,
        slaves: &mut [Slave],
        timeout: Duration,
        progress: &mut Progress<'_>,
        position: &str,
        log: &mut Log,
    ) -> Vec<PeerOutcome> {
        let deadline = Instant::now() + timeout;
        let outcomes = slaves
            .iter_mut()
            .map(|slave| self.collect_goodbye(slave, deadline, progress, position, log));
        outcomes.collect()
    }

    /// Collects the goodbye message of a slave. The outcome has no totals if the slave is lost.
    fn collect_goodbye(
        &self,
        slave: &mut Slave,
        deadline: Instant,
        progress: &mut Progress<'_>,
        position: &str,
        log: &mut Log,
    ) -> PeerOutcome {
        // A slave is not lost if a local signal ended the run.
        let is_newly_lost = slave.goodbye.is_none() && !self.stop.is_set();
        slave.await_goodbye(deadline);
        let host = &slave.host;
        let (message, totals) = match &slave.goodbye {
            Some(Ok(goodbye)) => {
                run::log_goodbye(log, host, goodbye);
                let text = goodbye.message.escaped_lines();
                let totals = peers::reported_totals(goodbye, slave.extra_operations);
                (self.settings.verbose.then_some(text), Some(totals))
            }
            lost => {
                progress.report(&MasterEvent::SlaveLost(host));
                if let (Some(Err(error)), true) = (lost, is_newly_lost) {
                    run::log_lost_slave(log, host, position, error);
                }
                (None, None)
            }
        };
        peers::peer_outcome(slave, message, totals)
    }
}

/// Sends an abort to the slaves that have not sent their goodbye message. Returns their hosts.
fn abort_all(slaves: &mut [Slave]) -> Vec<String> {
    let mut aborted = Vec::new();
    for slave in slaves {
        // A signal ends the run, but not the messages about its end.
        slave.control.detach_stop();
        if slave.goodbye.is_none() {
            slave.send_command(MasterCommand::Abort);
            aborted.push(slave.host.clone());
        }
    }
    aborted
}

/// Probes the layout of stock slaves, once per host.
fn probe_all(slaves: &mut [Slave]) {
    for index in 0..slaves.len() {
        let (probed, unprobed) = slaves.split_at_mut(index);
        let slave = &mut unprobed[0];
        match probed.iter().find(|other| other.host == slave.host) {
            Some(other) => slave.layout = other.layout,
            None => slave.probe_layout(),
        }
    }
}

/// Waits up to [`GOODBYE_WAIT`] until all slaves have ended their strands. The connections stay
/// open meanwhile, because the strands of a stock slave may end only with them.
fn await_goodbyes(slaves: &[Slave]) {
    let deadline = Instant::now() + GOODBYE_WAIT;
    while Instant::now() < deadline && !slaves.iter().all(Slave::has_message) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
