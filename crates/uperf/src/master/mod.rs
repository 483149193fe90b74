//! The master: runs a profile with the slaves that it names.

mod connect;
mod counted;
mod files;
mod hosts;
mod interfaces;
mod outcome;
mod probe;
mod run;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use engine::Stop;
use model::{HostFacts, Outcome, PeerOutcome, Warning};

use crate::mirror;
use crate::options::{self, Counter, Master, Settings};
use crate::strand::{
    GroupSetup, Listeners, Log, Peers, ResponseFile, StrandOutcome, Watching, Workers, refusal,
};
use crate::tls::{self, Contexts, Security};
use crate::wire::{Command, Goodbye};
use crate::{Event, Group, Step, Workorder};

use connect::{GOODBYE, GOODBYE_AFTER_FAILURE, Slave};
use interfaces::InterfaceCounters;
use run::Progress;

/// What keeps a master from running, or ends its run.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// No control connection.
    #[error("Error connecting to {host}: {why}")]
    Connecting {
        /// The slave's host.
        host: String,
        /// Why not.
        why: String,
    },
    /// A slave will not.
    #[error("{host} refuses phase {phase}: {said}")]
    Refused {
        /// The slave's host.
        host: String,
        /// 1 or 2.
        phase: u32,
        /// Its reason.
        said: String,
    },
    /// A slave was lost in the handshake.
    #[error("{host} was lost in {stage}: {why}")]
    Lost {
        /// The slave's host.
        host: String,
        /// In which stage.
        stage: String,
        /// How.
        why: String,
    },
    /// A slave did not come to the end of the handshake.
    #[error("{host} was lost at the end of the handshake: {why}")]
    Phase3 {
        /// The slave's host.
        host: String,
        /// How.
        why: String,
    },
    /// What a slave cannot be told.
    #[error("{host}: {why}")]
    Unsendable {
        /// The slave's host.
        host: String,
        /// What.
        why: String,
    },
    /// The file of `-X` cannot be written.
    #[error("{0}")]
    ResponseFile(String),
    /// What cannot be had at this end.
    #[error("{0}")]
    Here(String),
}

/// How much longer than the master's the slaves' strands may take before their connections are closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long one round of looking at strands and slaves may take.
const TICK: Duration = Duration::from_millis(100);

/// What a slave is that is a linerate.
const LINERATE: &str = "linerate";

/// Runs a profile, and reports what happens meanwhile.
pub fn run(
    settings: &Settings,
    master: &Master,
    workorder: &Workorder,
    stop: &Stop,
    events: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, Trouble> {
    // Before the first strand: threads inherit what they are bound to.
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
    master: &'a Master,
    workorder: &'a Workorder,
    stop: &'a Stop,
}

impl Session<'_> {
    fn run(&self, progress: &mut Progress<'_>) -> Result<Outcome, Trouble> {
        self.refuse_what_cannot_be()?;
        let (counted, mut warnings) = counted::counted(&self.master.counters);
        if !warnings.is_empty() {
            progress.report(&Event::Doubtful(&warnings));
        }
        let watching = self.watching(&counted)?;
        let responses = watching.responses.clone();
        let contexts = self.contexts()?;
        if self.has_useless_tls(&contexts) {
            let useless = Warning::OptionUnused {
                option: "--tls-*".to_owned(),
                why: "the profile has no SSL connections".to_owned(),
            };
            progress.report(&Event::Doubtful(std::slice::from_ref(&useless)));
            warnings.push(useless);
        }
        let mut slaves = self.slaves()?;
        for slave in &mut slaves {
            slave.greet(&self.workorder.groups[slave.group])?;
        }
        progress.step(&Step::Phase1Done);
        probe_all(&mut slaves);
        progress.step(&Step::Phase2);
        let setups = self.setups(&mut slaves, contexts, progress)?;
        progress.step(&Step::Phase2Done);
        progress.report(&Event::Starting);
        let begun = Instant::now();
        let mut workers = Workers::start(setups, &watching, self.stop).map_err(|error| {
            Trouble::Here(format!("Error creating threads: {}", sys::describe(&error)))
        })?;
        progress.report(&Event::Started(begun.elapsed()));
        for slave in &slaves {
            if let Err(trouble) = slave.agree() {
                workers.abort();
                workers.finish();
                return Err(trouble);
            }
        }
        let counters = InterfaceCounters::now();
        let (agreed, wall) = (Instant::now(), SystemTime::now());
        let mut log = Log::default();
        let mut has_failed = run::stages(&mut workers, &mut slaves, progress, self.stop, &mut log);
        let place = progress.place();
        let traffic = counters.since();
        let plan = workers.plan(self.workorder.name.clone(), self.master.interval);
        let is_told = self.master.print.statistics || has_failed;
        let (strands, ended) = self.end(workers, &mut slaves, has_failed, progress);
        let elapsed = ended - agreed;
        let failures = strands.iter().filter(|strand| strand.failed).count() as u64;
        for strand in &strands {
            log.merge(&strand.log);
        }
        if let Some(Err(error)) = responses.map(|file| file.finish()) {
            log.say(format!("-X: {}", sys::describe(&error)), 0);
        }
        let peers = if is_told {
            let patience = if has_failed {
                GOODBYE_AFTER_FAILURE
            } else {
                GOODBYE
            };
            self.goodbyes(&mut slaves, patience, progress, &place, &mut log)
        } else {
            let silent = slaves.iter().map(|slave| hosts::peer(slave, None, None));
            silent.collect()
        };
        // A slave may be stopped just when it is asked for its figures.
        let is_interrupted = |slave: &Slave| {
            let goodbye = slave.last_word.as_ref();
            goodbye.is_some_and(|said| said.as_ref().is_ok_and(Goodbye::is_interruption))
        };
        has_failed |= is_told && peers.iter().any(|peer| peer.totals.is_none());
        has_failed |= slaves.iter().any(is_interrupted);
        warnings.extend(hosts::are_shared(&slaves).then_some(Warning::SameHost));
        let run = outcome::Run {
            master: self.master,
            workorder: self.workorder,
            plan,
            strands: &strands,
            agreed: (agreed, wall),
            elapsed,
            host: self.host(&slaves),
            interfaces: traffic,
            counted: &counted,
            peers,
            series: progress.series(agreed),
            log: &log,
            failures: failures.max(u64::from(has_failed)),
            is_interrupted: self.stop.is_set(),
            warnings,
        };
        Ok(run.outcome())
    }

    /// This host, which the JSON document and the page show.
    fn host(&self, slaves: &[Slave]) -> Option<HostFacts> {
        self.master.wants_all().then(|| {
            let first = slaves.first().and_then(|slave| slave.control.here());
            engine::facts(first.and_then(|here| here.ip()))
        })
    }

    fn refuse_what_cannot_be(&self) -> Result<(), Trouble> {
        if let Some(why) = self.workorder.groups.iter().find_map(refusal) {
            return Err(Trouble::Here(why));
        }
        let mut flowops = self.workorder.groups.iter().flat_map(Group::flowops);
        if flowops
            .any(|flowop| !flowop.endpoint.stack.is_empty() || flowop.endpoint.black_box_log != 0)
        {
            let words = "stack= and bblog= are for FreeBSD's TCP, which Linux has not";
            return Err(Trouble::Here(words.to_owned()));
        }
        Ok(())
    }

    fn watching(&self, counted: &[Counter]) -> Result<Watching, Trouble> {
        let responses = match &self.master.response_times {
            None => None,
            Some(path) => {
                let file = ResponseFile::create(path).map_err(|error| {
                    let why = sys::describe(&error);
                    Trouble::ResponseFile(format!("cannot open {}: {why}", path.display()))
                })?;
                Some(Arc::new(file))
            }
        };
        let (print, all) = (&self.master.print, self.master.html.is_some());
        Ok(Watching {
            transactions: print.transactions || all,
            flowops: print.flowops || all,
            cpu: self.master.flowop_cpu,
            histogram: self.master.latencies || all,
            responses,
            counters: counted.iter().map(|counter| counter.event()).collect(),
        })
    }

    /// What each group's TLS connections are made with.
    fn contexts(&self) -> Result<Vec<Contexts>, Trouble> {
        let here = |trouble: tls::Trouble| Trouble::Here(trouble.to_string());
        let Settings { tls, verbose, .. } = self.settings;
        let security = Security::of_master(tls, *verbose).map_err(here)?;
        let groups = self.workorder.groups.iter();
        let contexts = groups.map(|group| security.prepare(group).map_err(here));
        let contexts = contexts.collect::<Result<Vec<_>, _>>()?;
        Ok(contexts)
    }

    fn has_useless_tls(&self, contexts: &[Contexts]) -> bool {
        self.settings.tls != options::Tls::default() && contexts.iter().all(Contexts::is_empty)
    }

    /// A control connection for each group and host, in the order of the profile.
    fn slaves(&self) -> Result<Vec<Slave>, Trouble> {
        let (over, port) = (self.settings.control, self.settings.port);
        let mut slaves = Vec::new();
        for (number, group) in self.workorder.groups.iter().enumerate() {
            for host in mirror::hosts(group) {
                slaves.push(Slave::connect(host, number, over, port, self.stop)?);
            }
        }
        Ok(slaves)
    }

    /// Gives each slave its work, and settles each group with what they answer.
    fn setups(
        &self,
        slaves: &mut [Slave],
        contexts: Vec<Contexts>,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<GroupSetup>, Trouble> {
        let mut setups = Vec::new();
        for ((number, group), tls) in self.workorder.groups.iter().enumerate().zip(contexts) {
            let mut group = group.clone();
            let files = files::files(&group).map_err(Trouble::Here)?;
            files::settle_reads(&mut group, &files).map_err(Trouble::Here)?;
            let of_group = slaves.iter().filter(|slave| slave.group == number);
            let has_stock_slave = of_group.clone().any(|slave| !slave.is_ours);
            // Several slaves may reach this end at several addresses.
            let here = |host: &str| {
                let mut of_group = of_group.clone();
                let slave = of_group.find(|slave| slave.host.eq_ignore_ascii_case(host))?;
                slave.control.here()
            };
            let listeners =
                Listeners::open(&group, here).map_err(|error| Trouble::Here(error.to_string()))?;
            let mut peers = Peers::default();
            // The newest connection first, as stock masters do.
            for slave in slaves
                .iter_mut()
                .rev()
                .filter(|slave| slave.group == number)
            {
                progress.step(&Step::Phase2With(&slave.host));
                peers.add(slave.assign(&group, &listeners)?);
                progress.assigned(&slave.host, &group);
            }
            setups.push(GroupSetup {
                group,
                follows: false,
                has_stock_slave,
                peers,
                listeners,
                files: Arc::new(files),
                tls,
                policy: self.settings.policy,
                account: None,
            });
        }
        Ok(setups)
    }

    /// Ends the strands of both ends; what each of this one did, and when the run ended.
    fn end(
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
            progress.close();
            if self.master.print.statistics {
                self.ask_for_figures(slaves, progress);
            }
            // As stock masters, which take a while to see that the run is over: a stock slave ends after it.
            if slaves.iter().any(|slave| !slave.is_ours) {
                ended = Instant::now();
            }
        }
        let strands = workers.finish();
        let failures = strands.iter().filter(|strand| strand.failed);
        for (number, _) in (1..).zip(failures) {
            progress.report(&Event::StrandFailed(number));
        }
        if has_failed {
            progress.close();
        }
        for host in aborted {
            progress.step(&Step::Told(Command::Abort, &host));
        }
        (strands, ended)
    }

    /// Has all slaves report their figures.
    fn ask_for_figures(&self, slaves: &mut [Slave], progress: &mut Progress<'_>) {
        for slave in &mut *slaves {
            let strands = self.workorder.groups[slave.group].strands.count;
            for command in slave.end_of_run(strands) {
                progress.command(slave, command);
            }
        }
        await_last_words(slaves);
    }

    /// What each slave says at the end, all within so long.
    fn goodbyes(
        &self,
        slaves: &mut [Slave],
        patience: Duration,
        progress: &mut Progress<'_>,
        place: &str,
        log: &mut Log,
    ) -> Vec<PeerOutcome> {
        let until = Instant::now() + patience;
        let told = slaves
            .iter_mut()
            .map(|slave| self.goodbye(slave, until, progress, place, log));
        told.collect()
    }

    /// What a slave says at the end; without totals if it is lost.
    fn goodbye(
        &self,
        slave: &mut Slave,
        until: Instant,
        progress: &mut Progress<'_>,
        place: &str,
        log: &mut Log,
    ) -> PeerOutcome {
        // What a signal here has ended is not lost.
        let is_news = slave.last_word.is_none() && !self.stop.is_set();
        slave.hear(until);
        let host = &slave.host;
        let (said, totals) = match &slave.last_word {
            Some(Ok(goodbye)) => {
                run::note(log, host, goodbye);
                let words = goodbye.message.lines();
                let totals = hosts::reported(goodbye, slave.counted_ends);
                (self.settings.verbose.then_some(words), Some(totals))
            }
            lost => {
                progress.report(&Event::SlaveLost(host));
                if let (Some(Err(error)), true) = (lost, is_news) {
                    run::lost(log, host, place, error);
                }
                (None, None)
            }
        };
        hosts::peer(slave, said, totals)
    }
}

/// Aborts the run at the slaves that have not said their last word; their hosts.
fn abort_all(slaves: &mut [Slave]) -> Vec<String> {
    let mut aborted = Vec::new();
    for slave in slaves {
        // A signal ends the run, and not the talk about its end.
        slave.control.outlive_stop();
        if slave.last_word.is_none() {
            slave.tell(Command::Abort);
            aborted.push(slave.host.clone());
        }
    }
    aborted
}

/// Finds out what stock slaves understand, a host once.
fn probe_all(slaves: &mut [Slave]) {
    for at in 0..slaves.len() {
        let (known, rest) = slaves.split_at_mut(at);
        let slave = &mut rest[0];
        match known.iter().find(|other| other.host == slave.host) {
            Some(other) => slave.layout = other.layout,
            None => slave.probe(),
        }
    }
}

/// Waits, for a while, until all slaves have ended their strands: as long as they have not, the connections
/// stay open. A stock slave's may only end with them.
fn await_last_words(slaves: &[Slave]) {
    let until = Instant::now() + LAST_WORDS;
    while Instant::now() < until && !slaves.iter().all(Slave::speaks) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
