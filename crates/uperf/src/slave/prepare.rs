//! From a workorder to strands that are ready, within what the slave allows.

use std::sync::Arc;

use engine::{Holder, Stop};
use model::Step as ScriptStep;
use server::{Running, Test};
use sys::Address;

use super::budget::Strands;
use super::session::{End, Hello, MUCH, Session, WRITE_DEADLINE};
use super::{Masters, permit};
use crate::account::Account;
use crate::mirror;
use crate::strand::{
    GroupSetup, Listeners, PeerHost, Peers, Watching, Workers, machine_text, obstacle, refusal,
    strand_bytes,
};
use crate::tls::NO_ENGINES;
use crate::wire::{Ack2, FlowopRecord, Received, Refusal, SlaveInfo, Work};
use crate::{Endpoint, Flowop, Group, Kind, Transaction};

/// What is ready for a master, and what it has taken.
pub(super) type Ready = (Workers, Strands, Arc<Running>);

/// The same, and where it listens.
type Prepared = (Ready, Vec<SlaveInfo>);

impl Session<'_> {
    /// Reads the workorder, and gets ready for it.
    pub(super) fn prepare(&self, hello: &Hello, account: &Account) -> Result<Ready, End> {
        let order = hello.order;
        let (ready, infos) = self.prepare_strands(hello, account).or_else(|end| {
            if let End::Refused(refusal) = &end {
                let refused = Ack2::Refused(refusal.reason());
                self.control.write(&refused.encode(order), WRITE_DEADLINE)?;
            }
            Err(end)
        })?;
        let ack = Ack2::Ok {
            slave_infos: infos.len() as u32,
        };
        let mut answer = ack.encode(order).to_vec();
        answer.extend(infos.iter().flat_map(|info| info.encode(order)));
        if let Err(error) = self.control.write(&answer, WRITE_DEADLINE) {
            ready.0.abort();
            ready.0.finish();
            return Err(End::Left("in phase 2".to_owned(), error));
        }
        Ok(ready)
    }

    fn prepare_strands(&self, hello: &Hello, account: &Account) -> Result<Prepared, End> {
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

    fn engage(
        &self,
        group: Group,
        masters: &[SlaveInfo],
        account: &Account,
    ) -> Result<Prepared, Refusal> {
        let mut protocols = mirror::protocols(&group).into_iter();
        let why = permit::refusal(self.limits.permissions, &group)
            .or_else(|| refusal(&group))
            .or_else(|| protocols.find_map(|protocol| obstacle(protocol, self.control)));
        if let Some(why) = why {
            return Err(Refusal::Workorder(why));
        }
        let Masters { budget, terms } = self.masters;
        let holder = Holder::of(self.control.peer());
        let strands = budget.take(&group, strand_bytes(&group), holder, account)?;
        account.take_memory(PORTS * masters.len() as u64)?;
        account.take_connections(Listeners::count(&group), LISTENER)?;
        let tls = (terms.tls.prepare(&group))
            .map_err(|trouble| Refusal::Workorder(trouble.to_string()))?;
        self.note_what_is_passed_over(&group);
        let files = terms.shelf.files(&group)?;
        let opened = files.iter().map(|(_, files)| files.len() as u64).sum();
        account.take_connections(opened, FILE)?;
        let here = self.control.here();
        let listeners = Listeners::open(&group, |_| here.clone())
            .map_err(|error| Refusal::Ports(sys::describe(&error.error)))?;
        let infos = slave_infos(&listeners, here.as_ref());
        let test = Test {
            name: format!("strands: {}", group.strands.count),
            length: None,
        };
        let setup = GroupSetup {
            peers: self.peers(&group, masters),
            group,
            follows: true,
            has_stock_slave: false,
            listeners,
            files,
            tls,
            policy: terms.policy,
            account: Some(account.clone()),
        };
        let running = (self.server)
            .begin(self.control.peer(), test)
            .map_err(|why| Refusal::Workorder(why.to_string()))?;
        // A stop here ends the strands when the master knows of it.
        let workers = Workers::start(vec![setup], &Watching::default(), &Stop::new())
            .map_err(|error| Refusal::Threads(sys::describe(&error)))
            .inspect_err(|refusal| running.fail(refusal))?;
        workers
            .counters()
            .for_each(|counters| running.count(counters));
        Ok(((workers, strands, running), infos))
    }

    /// The master, under every name that its flowops have for it.
    fn peers(&self, group: &Group, infos: &[SlaveInfo]) -> Peers {
        let names = group
            .openings()
            .map(|flowop| flowop.endpoint.remote_host.as_str());
        let master = PeerHost::new("", self.control, infos.into());
        Peers::of_one(&master, names.collect())
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

fn slave_infos(listeners: &[Listeners], here: Option<&Address>) -> Vec<SlaveInfo> {
    // A strand that listens for nothing reports no port.
    if listeners.iter().all(Listeners::is_empty) {
        return Vec::new();
    }
    listeners.iter().map(|strand| strand.ports(here)).collect()
}
