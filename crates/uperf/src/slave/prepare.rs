//! Preparation of a run: converts a workorder to ready strands within the limits of the slave.

use std::sync::Arc;

use engine::{BudgetHolder, Stop};
use model::Step as ScriptStep;
use server::{ClientTest, RunningTest};
use sys::Address;

use super::budget::StrandShares;
use super::session::{MasterHeader, RELEASE_THRESHOLD_BYTES, Session, SessionEnd, WRITE_TIMEOUT};
use super::{SlaveDialect, permit};
use crate::peer_workorder;
use crate::run_budget::RunBudget;
use crate::strand::{
    GroupSetup, Listeners, MeasurementOptions, PeerHost, Peers, Workers, ipv6_mapped_text,
    strand_bytes, unreachable_reason, unsupported_reason,
};
use crate::tls::NO_ENGINES;
use crate::wire::{FlowopRecord, Phase2Answer, ReceivedWork, SlaveInfo, WorkRecords, WorkRefusal};
use crate::{Endpoint, Flowop, FlowopKind, GroupSpec, TransactionSpec};

/// Strands that are ready for a master, their reservation, and the running test.
pub(super) type PreparedRun = (Workers, StrandShares, Arc<RunningTest>);

/// Prepared run, and the ports of its strands.
type PreparedRunAndPorts = (PreparedRun, Vec<SlaveInfo>);

impl Session<'_> {
    /// Reads the workorder, prepares the run, and sends the answer.
    pub(super) fn prepare(
        &self,
        header: &MasterHeader,
        budget: &RunBudget,
    ) -> Result<PreparedRun, SessionEnd> {
        let byte_order = header.order;
        let (ready, infos) = self.prepare_strands(header, budget).or_else(|end| {
            if let SessionEnd::Refused(refusal) = &end {
                let refused = Phase2Answer::Refused(refusal.reason());
                self.control
                    .write(&refused.encode(byte_order), WRITE_TIMEOUT)?;
            }
            Err(end)
        })?;
        let ack = Phase2Answer::Ok {
            slave_infos: infos.len() as u32,
        };
        let mut answer = ack.encode(byte_order).to_vec();
        answer.extend(infos.iter().flat_map(|info| info.encode(byte_order)));
        if let Err(error) = self.control.write(&answer, WRITE_TIMEOUT) {
            ready.0.abort();
            ready.0.finish();
            return Err(SessionEnd::RunLost("in phase 2".to_owned(), error));
        }
        Ok(ready)
    }

    fn prepare_strands(
        &self,
        header: &MasterHeader,
        budget: &RunBudget,
    ) -> Result<PreparedRunAndPorts, SessionEnd> {
        let limits = &self.limits.work;
        let deadline = self.idle_deadline();
        let mut record_bytes = 0;
        let fill = |buffer: &mut [u8], growth| -> Result<(), SessionEnd> {
            budget.reserve_memory(growth).map_err(WorkRefusal::from)?;
            record_bytes += growth;
            Ok(self.fill_before_run(buffer, deadline)?)
        };
        let received = ReceivedWork::receive(
            header.version,
            header.order,
            header.slave_info_count,
            limits,
            fill,
        )?;
        let bytes = group_bytes(&received.work);
        budget.reserve_memory(bytes).map_err(WorkRefusal::from)?;
        let peer = ipv6_mapped_text(self.control.peer());
        let is_supported = |protocol| self.is_supported(protocol);
        let group = peer_workorder::group_from_work(&received.work, &peer, limits, is_supported);
        drop(received.work);
        budget.release_memory(record_bytes);
        if record_bytes > RELEASE_THRESHOLD_BYTES {
            sys::process::release_freed_memory();
        }
        Ok(self.start_strands(group?, &received.slave_infos, budget)?)
    }

    fn start_strands(
        &self,
        group: GroupSpec,
        master_ports: &[SlaveInfo],
        run_budget: &RunBudget,
    ) -> Result<PreparedRunAndPorts, WorkRefusal> {
        let mut protocols = peer_workorder::protocols(&group).into_iter();
        let reason = permit::refusal_reason(self.limits.permissions, &group)
            .or_else(|| unsupported_reason(&group))
            .or_else(|| protocols.find_map(|protocol| unreachable_reason(protocol, self.control)));
        if let Some(reason) = reason {
            return Err(WorkRefusal::Workorder(reason));
        }
        let SlaveDialect { budget, config } = self.shared;
        let holder = BudgetHolder::for_address(self.control.peer());
        let shares = budget.reserve_strands(&group, strand_bytes(&group), holder, run_budget)?;
        run_budget.reserve_memory(MASTER_PORTS_BYTES * master_ports.len() as u64)?;
        run_budget.reserve_connections(Listeners::max_descriptors(&group), LISTENER_BYTES)?;
        let tls = (config.tls.prepare(&group))
            .map_err(|error| WorkRefusal::Workorder(error.to_string()))?;
        self.log_ignored_options(&group);
        let files = config.served_files.open_files(&group)?;
        let file_count = files.iter().map(|(_, files)| files.len() as u64).sum();
        run_budget.reserve_connections(file_count, FILE_BYTES)?;
        let local_address = self.control.local_address();
        let listeners = Listeners::open(&group, |_| local_address.clone())
            .map_err(|error| WorkRefusal::Ports(sys::describe(&error.error)))?;
        let infos = slave_infos(&listeners, local_address.as_ref());
        let test = ClientTest {
            name: format!("strands: {}", group.strands.count),
            ..ClientTest::default()
        };
        let setup = GroupSetup {
            peers: self.peers(&group, master_ports),
            group,
            is_slave: true,
            has_stock_slave: false,
            listeners,
            files,
            tls,
            policy: config.policy.clone(),
            run_budget: Some(run_budget.clone()),
        };
        let running = (self.server)
            .begin(self.control.peer(), test)
            .map_err(|error| WorkRefusal::Workorder(error.to_string()))?;
        server::order_thread(holder);
        // A stopped slave sends its goodbye first. So its strands have a stop of their own.
        let workers = Workers::start(vec![setup], &MeasurementOptions::default(), &Stop::new())
            .map_err(|error| WorkRefusal::Threads(sys::describe(&error)))
            .inspect_err(|refusal| running.fail(refusal))?;
        workers
            .counters()
            .for_each(|counters| running.add_counters(counters));
        Ok(((workers, shares, running), infos))
    }

    /// Returns the group's peers: each host name in its flowops stands for the master.
    fn peers(&self, group: &GroupSpec, infos: &[SlaveInfo]) -> Peers {
        let names = group
            .opening_flowops()
            .map(|flowop| flowop.endpoint.remote_host.as_str());
        let master = PeerHost::new("", self.control, infos.into());
        Peers::from_host(&master, names.collect())
    }

    /// Logs ignored options. A stock slave also ignores an unknown engine, and stack= and bblog= on
    /// Linux. So they are no reason to refuse a group.
    fn log_ignored_options(&self, group: &GroupSpec) {
        for flowop in group.opening_flowops() {
            let Endpoint {
                engine,
                stack,
                black_box_log,
                ..
            } = &flowop.endpoint;
            if !engine.is_empty() {
                self.log_line(format_args!("engine={engine}: {NO_ENGINES}"));
            }
            if !stack.is_empty() || *black_box_log != 0 {
                let words = "ignored, for FreeBSD's TCP only";
                self.log_line(format_args!("stack={stack} bblog={black_box_log}: {words}"));
            }
        }
    }
}

/// Memory for the ports of one strand of the master.
const MASTER_PORTS_BYTES: u64 = 256;

/// Memory of a listener.
const LISTENER_BYTES: u64 = 512;
/// Memory of an open file.
const FILE_BYTES: u64 = 64;

/// Returns the memory that the converted workorder needs, in bytes: the group and its lists.
fn group_bytes(work: &WorkRecords) -> u64 {
    /// Name of a flowop and its allocation.
    const NAME_BYTES: usize = 64;
    /// Other texts and a peer entry of a flowop that opens connections.
    const OPENING_FLOWOP_BYTES: usize = 8 * 16 + size_of::<PeerHost>();
    /// Transaction with its stop and barrier.
    const TRANSACTION_BYTES: usize = size_of::<TransactionSpec>() + 512;
    let flowops = work.transactions.iter().flat_map(|txn| &txn.flowops);
    let flowop_bytes = |record: &FlowopRecord| {
        let opens = FlowopKind::from_number(record.kind).is_some_and(FlowopKind::opens);
        let opening = if opens { OPENING_FLOWOP_BYTES } else { 0 };
        size_of::<Flowop>() + size_of::<ScriptStep>() + NAME_BYTES + opening + record.text_bytes()
    };
    let bytes: usize = flowops.map(flowop_bytes).sum();
    (bytes + TRANSACTION_BYTES * work.transactions.len()) as u64
}

fn slave_infos(listeners: &[Listeners], local_address: Option<&Address>) -> Vec<SlaveInfo> {
    // Slaves without listeners report no ports.
    if listeners.iter().all(Listeners::is_empty) {
        return Vec::new();
    }
    listeners
        .iter()
        .map(|strand| strand.ports(local_address))
        .collect()
}
