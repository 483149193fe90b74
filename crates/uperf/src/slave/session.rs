//! One master's control connection.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use engine::{BarrierStatus, Holder, Stop};
use model::{Counts, Step as ScriptStep};
use server::{Dialect, ServerContext};
use sys::Address;
use sys::call::Error;

use super::room::Strands;
use super::{Masters, permit};
use crate::account::Account;
use crate::mirror;
use crate::options::Limits;
use crate::output::{self, Step};
use crate::strand::{
    GroupSetup, Listeners, Log, PeerHost, Peers, Ports, StrandOutcome, Watching, Workers, has,
    machine_text, obstacle, refusal, strand_bytes,
};
use crate::tls::NO_ENGINES;
use crate::wire::{
    Ack1, Ack2, Command, END, FlowopRecord, Goodbye, Header, Order, Received, Refusal,
    SHORT_HEADER, SlaveInfo, Text, Version, Work,
};
use crate::{Endpoint, Flowop, Group, Kind, Protocol, Transaction};
use control::{ControlConnection, why};

/// How often strands are looked at that finish by themselves what the master's have finished already: its
/// word may come before the last data.
const QUIET_LOOK: Duration = Duration::from_millis(10);

/// So many looks in turn must find that nothing is done: a second. By looks, as whoever gets no CPU for so
/// long does nothing either, and is not at its end.
const GRACE_LOOKS: u32 = 100;

/// The same of what only receives: the shortest time in which TCP sends again.
const QUIET_LOOKS: u32 = 20;

/// How long strands may take that do something, and how long they may then take to come to a barrier; a stock
/// slave's patience.
const BARRIER: Duration = Duration::from_secs(6);

/// How long strands may go on when the master wants its figures: less than the 15 s that a stock master
/// waits for them.
const LAST_STRANDS: Duration = Duration::from_secs(12);

/// How often the strands are looked at while the master says nothing.
const LOOK: Duration = Duration::from_millis(50);

/// How long the master of a run that has come to its end may take to ask for the figures, if this slave is stopped.
const LAST_COMMAND: Duration = Duration::from_secs(1);

/// How long the master may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Headers of phase 1 that a master may send: one for each of its attempts.
const MOST_HELLOS: usize = 16;

/// Commands that a master may send: of the longest group of all that it has, each transaction, and more.
const MOST_COMMANDS: usize = 4096;

/// What a session has used when its freed memory is worth giving back, bytes.
const MUCH: u64 = 4 << 20;

/// Serves one master to its end, whatever that is.
pub(super) fn serve(control: &ControlConnection, masters: &Masters, server: ServerContext<'_>) {
    let session = Session {
        control,
        masters,
        limits: &masters.terms.limits,
        server,
    };
    let account = match masters.room.admit(Holder::of(control.peer())) {
        Ok(account) => account,
        Err(scarce) => return session.note(format_args!("{}: {scarce}", control.peer())),
    };
    let peak = account.peak();
    let (peer, port) = (machine_text(control.peer()), control.peer().port());
    session.step(&Step::Accepted(&format!("{peer}:{port}")));
    match session.run(account) {
        Ok(()) => {}
        Err(End::Refused(refusal)) => session.note(format_args!("{refusal}")),
        // Whoever connects and goes again is no master.
        Err(End::Lost(error)) => session.note(format_args!("{}: {}", control.peer(), why(&error))),
        Err(End::Left(place, error)) => {
            eprintln!("uperf: {} lost {place}: {}", control.peer(), why(&error));
        }
    }
    if peak.load(Relaxed) > MUCH {
        sys::process::release_freed_memory();
    }
}

struct Session<'a> {
    control: &'a ControlConnection,
    masters: &'a Masters,
    limits: &'a Limits,
    server: ServerContext<'a>,
}

/// Why a session ended before its time.
enum End {
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

/// What is ready for a master, what it has taken, and where it listens.
type Mustered = (Workers, Strands, Vec<SlaveInfo>);

/// What phase 2 begins with.
struct Hello {
    version: Version,
    order: Order,
    slave_infos: u32,
}

impl Session<'_> {
    fn run(&self, account: Account) -> Result<(), End> {
        let hello = self.hello()?;
        let order = hello.order;
        let (mut workers, share) = self.muster(&hello, &account)?;
        let _running = self.server.running.enter(self.control.peer());
        let agreed = self
            .control
            .read::<{ END.len() }>(self.soon())
            .and_then(|end| self.control.write(&end, PATIENCE));
        if let Err(error) = agreed {
            workers.abort();
            workers.finish();
            let place = "at the end of the handshake".to_owned();
            return Err(End::Left(place, error));
        }
        let begun = Instant::now();
        let outcome = self.obey(&mut workers, order);
        if let Obeyed::Interrupted(place) = &outcome {
            // Before the connections close: their end would look like the end of the work.
            let goodbye = interruption(place, &workers.counts(), begun.elapsed());
            let said = self.control.write(&goodbye.encode(order), PATIENCE);
            workers.abort();
            workers.finish();
            return said.map_err(|error| End::Left(place.clone(), error));
        }
        let ended = match &outcome {
            Obeyed::Done(ended) => *ended,
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
            eprintln!("uperf: {}: {text}", self.control.peer());
        }
        match &outcome {
            Obeyed::Late(stage) => {
                log.say(format!("Error waiting for strands at barrier {stage}"), 0);
            }
            Obeyed::Long => {
                let most = self.limits.work.duration;
                log.say(format!("the run is longer than {most:?} (--max-length)"), 0);
            }
            Obeyed::Unended(strands) => log.warn(format!("{strands} strands had not ended")),
            _ => {}
        }
        let goodbye = Goodbye {
            operations: counts.operations + ends,
            ..farewell(&log, &counts, ended - begun)
        };
        if let Obeyed::Broken(place) = outcome {
            return Err(End::Left(place, Error::CANCELED.into()));
        }
        // The master may still read, whatever has become of its own words.
        let said = self.control.write(&goodbye.encode(order), PATIENCE);
        match outcome {
            Obeyed::Lost(place, error) => Err(End::Left(place, error)),
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
                Ok(_) => self.control.write(&Ack1::of_linerate(), PATIENCE)?,
                Err(End::Refused(refusal)) => {
                    let refused = Ack1::Refused(refusal.reason());
                    self.control.write(&refused.encode(), PATIENCE)?;
                    return Err(End::Refused(refusal));
                }
                Err(end) => return Err(end),
            }
        }
        let words = format!("more than {MOST_HELLOS} headers");
        Err(End::Refused(Refusal::Workorder(words)))
    }

    /// Fills the buffer. A stopped slave does not wait for a master without a run.
    fn fill_before_run(&self, buffer: &mut [u8], until: Instant) -> io::Result<()> {
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

    /// Reads the workorder, and gets ready for it.
    fn muster(&self, hello: &Hello, account: &Account) -> Result<(Workers, Strands), End> {
        let order = hello.order;
        let (workers, strands, infos) = self.try_muster(hello, account).or_else(|end| {
            if let End::Refused(refusal) = &end {
                let refused = Ack2::Refused(refusal.reason());
                self.control.write(&refused.encode(order), PATIENCE)?;
            }
            Err(end)
        })?;
        let ack = Ack2::Ok {
            slave_infos: infos.len() as u32,
        };
        let mut answer = ack.encode(order).to_vec();
        answer.extend(infos.iter().flat_map(|info| info.encode(order)));
        if let Err(error) = self.control.write(&answer, PATIENCE) {
            workers.abort();
            workers.finish();
            return Err(End::Left("in phase 2".to_owned(), error));
        }
        Ok((workers, strands))
    }

    fn try_muster(&self, hello: &Hello, account: &Account) -> Result<Mustered, End> {
        let limits = &self.limits.work;
        let until = self.soon();
        let mut records = 0;
        let fill = |buffer: &mut [u8], growth| -> Result<(), End> {
            account.take_memory(growth).map_err(Refusal::from)?;
            records += growth;
            Ok(self.fill_before_run(buffer, until)?)
        };
        let received =
            Received::receive(hello.version, hello.order, hello.slave_infos, limits, fill)?;
        let bytes = group_bytes(&received.work);
        account.take_memory(bytes).map_err(Refusal::from)?;
        let peer = machine_text(self.control.peer());
        let is_supported = |protocol| self.is_supported(protocol);
        let assigned = mirror::assignment(&received.work, &peer, limits, is_supported);
        drop(received.work);
        account.give_memory_back(records);
        if records > MUCH {
            sys::process::release_freed_memory();
        }
        Ok(self.engage(assigned?, &received.slave_infos, account)?)
    }

    /// Checks the permission first: a trial of a protocol makes the kernel load its module.
    fn is_supported(&self, protocol: Protocol) -> bool {
        permit::allows(self.limits.permissions, protocol) && is_supported(protocol)
    }

    fn engage(
        &self,
        group: Group,
        masters: &[SlaveInfo],
        account: &Account,
    ) -> Result<Mustered, Refusal> {
        if let Some(why) = permit::refusal(self.limits.permissions, &group) {
            return Err(Refusal::Workorder(why));
        }
        if let Some(why) = refusal(&group) {
            return Err(Refusal::Workorder(why));
        }
        let mut protocols = mirror::protocols(&group).into_iter();
        if let Some(why) = protocols.find_map(|protocol| obstacle(protocol, self.control)) {
            return Err(Refusal::Workorder(why));
        }
        let holder = Holder::of(self.control.peer());
        let strands = self
            .masters
            .room
            .take(&group, strand_bytes(&group), holder, account)?;
        account.take_memory(PORTS * masters.len() as u64)?;
        account.take_connections(Listeners::count(&group), LISTENER)?;
        let tls = self
            .masters
            .terms
            .tls
            .prepare(&group)
            .map_err(|trouble| Refusal::Workorder(trouble.to_string()))?;
        self.note_what_is_passed_over(&group);
        let files = self.masters.terms.shelf.files(&group)?;
        let opened = files.iter().map(|(_, files)| files.len() as u64).sum();
        account.take_connections(opened, FILE)?;
        let here = self.control.here();
        let listeners = Listeners::open(&group, |_| here.clone())
            .map_err(|error| Refusal::Ports(sys::describe(&error.error)))?;
        let infos = slave_infos(&listeners, here.as_ref());
        let setup = GroupSetup {
            peers: self.peers(&group, masters),
            group,
            follows: true,
            has_stock_slave: false,
            listeners,
            files,
            tls,
            policy: self.masters.terms.policy,
            account: Some(account.clone()),
        };
        // A stop here ends the strands when the master knows of it.
        let workers = Workers::start(vec![setup], &Watching::default(), &Stop::new())
            .map_err(|error| Refusal::Threads(sys::describe(&error)))?;
        Ok((workers, strands, infos))
    }

    /// The master, under every name that its flowops have for it.
    fn peers(&self, group: &Group, infos: &[SlaveInfo]) -> Peers {
        let ports: Arc<[Ports]> = infos.iter().map(Ports::of_info).collect();
        let names = group
            .openings()
            .map(|flowop| flowop.endpoint.remote_host.as_str());
        Peers::of_one(&PeerHost::new("", self.control, ports), names.collect())
    }

    /// Does what the master says until it wants the figures, is gone, or a strand fails.
    fn obey(&self, workers: &mut Workers, order: Order) -> Obeyed {
        let mut opened = None;
        let longest = Instant::now() + self.limits.work.duration + self.idle();
        for _ in 0..MOST_COMMANDS {
            let command = match self.next_command(workers, opened, order, longest) {
                Ok(command) => command,
                Err(outcome) => return outcome,
            };
            self.step(&Step::Heard(command, &machine_text(self.control.peer())));
            match command {
                Command::NextTransaction(number) => {
                    let stage = number as usize;
                    if stage >= workers.stages() || opened.is_some_and(|opened| stage <= opened) {
                        continue;
                    }
                    let status = self.await_barrier(workers, opened, stage);
                    if self.server.cut.is_set() {
                        return Obeyed::Interrupted(place(opened));
                    }
                    if status.failed {
                        return Obeyed::Failed;
                    }
                    if !status.complete && status.running > 0 {
                        return Obeyed::Late(stage);
                    }
                    workers.release(stage);
                    self.step(&Step::Unlocked(number));
                    opened = Some(stage);
                }
                Command::SendStatistics => return self.await_last_strands(workers, opened),
                Command::Abort | Command::Error | Command::Other(..) => {
                    return Obeyed::Done(Instant::now());
                }
            }
        }
        let words = format!("more than {MOST_COMMANDS} commands");
        let error = io::Error::new(io::ErrorKind::InvalidData, words);
        Obeyed::Lost(place(opened), error)
    }

    /// The master has all that it wanted but the figures.
    fn await_last_strands(&self, workers: &Workers, opened: Option<usize>) -> Obeyed {
        let place = || "at the statistics".to_owned();
        let until = Instant::now() + LAST_STRANDS;
        if let Some(last) = opened.filter(|last| workers.awaits_end(*last)) {
            let (status, last_news) = self.await_quiet(workers, None, until, QUIET_LOOKS);
            if status.running > 0 {
                workers.interrupt(last);
                return Obeyed::Done(last_news);
            }
        }
        loop {
            let now = Instant::now();
            let status = workers.wait(None, until.min(now + LOOK));
            if status.running == 0 {
                return Obeyed::Done(Instant::now());
            }
            if self.server.cut.is_set() {
                return Obeyed::Broken(place());
            }
            if now >= until {
                return Obeyed::Unended(status.running);
            }
            let gone = self.control.is_readable(now).and_then(|speaks| {
                // There is nothing more for it to say but that it wants no figures either.
                let _: Option<[u8; Command::LEN]> =
                    speaks.then(|| self.control.read(self.soon())).transpose()?;
                Ok(speaks)
            });
            match gone {
                Ok(false) => {}
                Ok(true) => return Obeyed::Done(Instant::now()),
                Err(error) => return Obeyed::Lost(place(), error),
            }
        }
    }

    /// Waits for the master's next word, as long as no strand fails.
    fn next_command(
        &self,
        workers: &Workers,
        opened: Option<usize>,
        order: Order,
        longest: Instant,
    ) -> Result<Command, Obeyed> {
        let lost = |error| Obeyed::Lost(place(opened), error);
        let until = match opened {
            None => self.soon(),
            // Strands that only wait meanwhile do so for as long as the longest transaction.
            Some(_) => self.soon() + self.limits.work.duration,
        };
        loop {
            match self.control.is_readable(Instant::now() + LOOK) {
                Ok(true) => break,
                Ok(false) if workers.wait(None, Instant::now()).failed => {
                    return Err(Obeyed::Failed);
                }
                Ok(false) if Instant::now() >= longest => return Err(Obeyed::Long),
                Ok(false) if Instant::now() >= until => {
                    return Err(lost(io::ErrorKind::TimedOut.into()));
                }
                Ok(false) => {}
                Err(_) if self.server.cut.is_set() => {
                    return self.last_command(workers, opened, order);
                }
                Err(error) => return Err(lost(error)),
            }
        }
        if Instant::now() >= longest {
            return Err(Obeyed::Long);
        }
        let bytes = self.control.read::<{ Command::LEN }>(self.soon());
        let bytes = bytes.map_err(lost)?;
        Command::decode(&bytes, order).map_err(|_| {
            lost(io::Error::new(
                io::ErrorKind::InvalidData,
                "Wrong command magic",
            ))
        })
    }

    /// The word of a master whose run has just come to its end when this slave is stopped.
    fn last_command(
        &self,
        workers: &Workers,
        opened: Option<usize>,
        order: Order,
    ) -> Result<Command, Obeyed> {
        let interrupted = || Obeyed::Interrupted(place(opened));
        let is_last = opened.is_some_and(|opened| opened + 1 == workers.stages());
        if !is_last || workers.wait(None, Instant::now()).running > 0 {
            return Err(interrupted());
        }
        let mut bytes = [0; Command::LEN];
        let until = Instant::now() + LAST_COMMAND;
        let received = self.control.receive(&mut bytes, until, &Stop::new());
        if received.ok() != Some(bytes.len()) {
            return Err(interrupted());
        }
        Command::decode(&bytes, order).map_err(|_| interrupted())
    }

    /// Waits for the strands at a barrier, and ends what they do if they do not come by themselves.
    fn await_barrier(
        &self,
        workers: &Workers,
        opened: Option<usize>,
        stage: usize,
    ) -> BarrierStatus {
        let until = Instant::now() + BARRIER;
        let Some(opened) = opened else {
            return self.await_quiet(workers, Some(stage), until, u32::MAX).0;
        };
        let looks = if workers.awaits_end(opened) {
            QUIET_LOOKS
        } else {
            GRACE_LOOKS
        };
        let (status, _) = self.await_quiet(workers, Some(stage), until, looks);
        if status.complete {
            return status;
        }
        workers.interrupt(opened);
        let until = Instant::now() + BARRIER;
        self.await_quiet(workers, Some(stage), until, u32::MAX).0
    }

    /// Waits as long as something is done, or until the stop; and when the last was.
    fn await_quiet(
        &self,
        workers: &Workers,
        stage: Option<usize>,
        until: Instant,
        looks: u32,
    ) -> (BarrierStatus, Instant) {
        let done = || {
            let counts = workers.counts();
            (counts.bytes(), counts.operations)
        };
        let (mut before, mut last_news, mut quiet_looks) = (done(), Instant::now(), 0);
        loop {
            let status = workers.wait(stage, until.min(Instant::now() + QUIET_LOOK));
            let (now, after) = (Instant::now(), done());
            if after == before && status.selecting == 0 {
                quiet_looks += 1;
            } else {
                (before, last_news, quiet_looks) = (after, now, 0);
            }
            let is_over = status.is_settled() || self.server.cut.is_set();
            if is_over || quiet_looks >= looks || now >= until {
                return (status, last_news);
            }
        }
    }

    /// A stock slave takes an engine that it does not know for none, and on Linux has no other stack of TCP
    /// either: what its master asks of itself by that is no reason to refuse.
    fn note_what_is_passed_over(&self, group: &Group) {
        for flowop in group.openings() {
            let Endpoint {
                engine,
                stack,
                black_box_log,
                ..
            } = &flowop.endpoint;
            if !engine.is_empty() {
                self.note(format_args!("engine={engine}: {NO_ENGINES}"));
            }
            if !stack.is_empty() || *black_box_log != 0 {
                let words = "is for FreeBSD's TCP, and passed over";
                self.note(format_args!("stack={stack} bblog={black_box_log} {words}"));
            }
        }
    }

    fn soon(&self) -> Instant {
        Instant::now() + self.idle()
    }

    fn idle(&self) -> Duration {
        self.limits.control_idle
    }

    fn note(&self, line: fmt::Arguments<'_>) {
        self.masters.log(line);
    }

    fn step(&self, step: &Step<'_>) {
        if self.masters.terms.verbose {
            let _ = write!(io::stdout(), "{step}");
        }
    }
}

/// Why nothing more is done for the master.
enum Obeyed {
    /// It has what it wanted, since then.
    Done(Instant),
    /// A strand has failed.
    Failed,
    /// The run takes longer than this slave lets it.
    Long,
    /// Strands did not come to this barrier.
    Late(usize),
    /// So many strands went on after the master's had ended.
    Unended(usize),
    /// Somebody here wants it to end, and where it was.
    Interrupted(String),
    /// The same at a place where a goodbye would be that of a run that came to its end.
    Broken(String),
    /// The connection is of no use any more, since it was there.
    Lost(String, io::Error),
}

/// Where a run is, for whoever reads of its end.
fn place(opened: Option<usize>) -> String {
    match opened {
        None => "before Txn1".to_owned(),
        Some(stage) => format!("in {}", output::running_name(stage)),
    }
}

/// Bytes of what is known of one strand of the master's.
const PORTS: u64 = 256;

/// Bytes of a listener, of a file.
const LISTENER: u64 = 512;
const FILE: u64 = 64;

/// Bytes of the group that a workorder becomes, and of its lists.
fn group_bytes(work: &Work) -> u64 {
    /// A name and its place in memory, which each flowop has.
    const NAME: usize = 64;
    /// Other texts, and a name of the master, which those have that open connections.
    const OPENING: usize = 8 * 16 + size_of::<PeerHost>();
    /// A stop, and places at its barrier.
    const TRANSACTION: usize = size_of::<Transaction>() + 512;
    let flowops = work.transactions.iter().flat_map(|txn| &txn.flowops);
    let of_flowop = |record: &FlowopRecord| {
        let opens = Kind::of(record.kind).is_some_and(Kind::opens);
        let opening = if opens { OPENING } else { 0 };
        size_of::<Flowop>() + size_of::<ScriptStep>() + NAME + opening + record.text_bytes()
    };
    let bytes: usize = flowops.map(of_flowop).sum();
    (bytes + TRANSACTION * work.transactions.len()) as u64
}

/// What this end can open.
fn is_supported(protocol: Protocol) -> bool {
    match protocol {
        Protocol::Ssl => cfg!(feature = "tls"),
        other => has(other),
    }
}

/// The last word, its kind and text by uperf's rule.
fn farewell(log: &Log, counts: &Counts, elapsed: Duration) -> Goodbye {
    let (kind, message) = if log.is_empty() {
        (Goodbye::INFO, Text::cut("Success"))
    } else {
        let text = output::goodbye(log.entries());
        (Goodbye::ERROR, Text::cut(&text))
    };
    Goodbye {
        kind,
        message,
        elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        errors: counts.failed_operations,
        bytes: counts.bytes(),
        operations: counts.operations,
    }
}

/// The last word of a run that ends before its time.
fn interruption(place: &str, counts: &Counts, elapsed: Duration) -> Goodbye {
    let mut log = Log::default();
    log.say(format!("{}{place}", Goodbye::INTERRUPTED), 0);
    farewell(&log, counts, elapsed)
}

fn slave_infos(listeners: &[Listeners], here: Option<&Address>) -> Vec<SlaveInfo> {
    // Who listens for nothing tells nothing.
    if listeners.iter().all(Listeners::is_empty) {
        return Vec::new();
    }
    let infos = listeners.iter().map(|strand| strand.ports(here).info());
    infos.collect()
}
