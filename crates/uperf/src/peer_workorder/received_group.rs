//! Conversion of received records to the group of a slave. Every value is checked.

use std::mem::swap;
use std::time::Duration;

use crate::profile::memory::MIN_BUFFER_BYTES;
use crate::wire::{
    AsField, FlowopRecord, GroupRecord, TransactionWork, WorkRecords, WorkRefusal,
    protocol_from_number,
};
use crate::{Amount, DataProtocol, Flowop, GroupSpec, StrandCount, TransactionSpec, WorkLimits};

/// Returns the group that a slave runs. Its name is a default, because a master sends none.
///
/// `peer` is the master's address on the control connection. All connections are opened to it
/// unless the master sends another address. Fails for unsupported protocols, invalid values, and
/// values above the `limits`.
pub fn group_from_work(
    work: &WorkRecords,
    peer: &str,
    limits: &WorkLimits,
    is_supported: impl Fn(DataProtocol) -> bool,
) -> Result<GroupSpec, WorkRefusal> {
    let transactions = work.transactions.iter().enumerate();
    let transactions = transactions
        .map(|(index, work)| transaction(index, work, peer, limits, &is_supported))
        .collect::<Result<Vec<_>, _>>()?;
    check_total_duration(&transactions, limits)?;
    let group = GroupSpec {
        name: "Group0".to_owned(),
        strands: strand_count(&work.group, limits)?,
        transactions,
    };
    check_memory(&group, limits)?;
    Ok(group)
}

fn strand_count(record: &GroupRecord, limits: &WorkLimits) -> Result<StrandCount, WorkRefusal> {
    if record.strands == 0 || record.strands > limits.strands {
        let words = format!(
            "{} strands: this slave accepts 1 to {}",
            record.strands, limits.strands
        );
        return Err(WorkRefusal::Workorder(words));
    }
    let (threads, processes) = match record.strand_kind {
        2 => (false, true),
        4 => (true, false),
        6 => (true, true),
        kind => {
            return Err(WorkRefusal::Workorder(format!(
                "unknown strand kind {kind}"
            )));
        }
    };
    Ok(StrandCount {
        count: record.strands,
        threads,
        processes,
    })
}

fn transaction(
    index: usize,
    work: &TransactionWork,
    peer: &str,
    limits: &WorkLimits,
    is_supported: impl Fn(DataProtocol) -> bool,
) -> Result<TransactionSpec, WorkRefusal> {
    let record = &work.record;
    let refuse =
        |message: String| WorkRefusal::Workorder(format!("transaction {}: {message}", index + 1));
    if record.number as usize != index {
        let number = record.number;
        return Err(refuse(format!(
            "its record has the number {number}, not {index}"
        )));
    }
    let duration = AsField::from_field(&record.duration_ns, "duration", limits).map_err(refuse)?;
    let rate_text = AsField::from_field(&record.rate_text, "rate", limits).map_err(refuse)?;
    let flowops = work.flowops.iter().enumerate();
    let flowops = flowops.map(|(number, record)| {
        flowop(record, peer, limits, &is_supported).map_err(|refusal| match refusal {
            WorkRefusal::Workorder(message) => WorkRefusal::Workorder(format!(
                "flowop {} of transaction {}: {message}",
                number + 1,
                index + 1
            )),
            other => other,
        })
    });
    Ok(TransactionSpec {
        iterations: record.iterations,
        duration,
        rate: record.rate,
        rate_text,
        flowops: flowops.collect::<Result<_, _>>()?,
    })
}

fn flowop(
    record: &FlowopRecord,
    peer: &str,
    limits: &WorkLimits,
    is_supported: impl Fn(DataProtocol) -> bool,
) -> Result<Flowop, WorkRefusal> {
    let mut flowop = record.to_flowop(limits).map_err(WorkRefusal::Workorder)?;
    let checked = check_counts(&flowop).and_then(|()| check_size(&flowop));
    checked.map_err(WorkRefusal::Workorder)?;
    if flowop.kind.opens() {
        check_opening(record, is_supported)?;
    }
    flowop.slave_size = 0;
    // Masters send these fields to readers too, but only senders of files need them.
    if !flowop.kind.sends_files() {
        flowop.files = 0;
        flowop.directory.clear();
    }
    // The master's remote host is this slave.
    let endpoint = &mut flowop.endpoint;
    swap(&mut endpoint.remote_host, &mut endpoint.local_host);
    if endpoint.remote_host.is_empty() {
        peer.clone_into(&mut endpoint.remote_host);
        endpoint.local_host.clear();
    }
    Ok(flowop)
}

fn check_counts(flowop: &Flowop) -> Result<(), String> {
    let (kind, repeat, batch_size) = (flowop.kind, flowop.transfer.repeat, flowop.batch_size);
    for (option, number) in [
        ("count", flowop.count),
        ("repeat", repeat),
        ("batch_size", batch_size),
    ] {
        if i64::try_from(number).is_err() {
            return Err(format!("{option}={} is negative", number as i64));
        }
        if number == 0 && option != "count" && kind.transfers() {
            return Err(format!("{kind} with {option}=0"));
        }
    }
    Ok(())
}

/// Checks the values that a slave needs for opening or accepting a connection.
fn check_opening(
    record: &FlowopRecord,
    is_supported: impl Fn(DataProtocol) -> bool,
) -> Result<(), WorkRefusal> {
    let number = record.protocol;
    if !protocol_from_number(number).is_some_and(is_supported) {
        return Err(WorkRefusal::Protocol(number));
    }
    for (option, port) in [("port", record.port), ("encaps", record.encapsulation_port)] {
        if port > u32::from(u16::MAX) {
            return Err(WorkRefusal::Workorder(format!(
                "{option}={port} is not a valid port"
            )));
        }
    }
    if i32::try_from(record.window).is_err() {
        let words = format!("wndsz={} is too large", record.window);
        return Err(WorkRefusal::Workorder(words));
    }
    Ok(())
}

fn check_size(flowop: &Flowop) -> Result<(), String> {
    if let Amount::Between { min, max } = flowop.transfer.amount
        && (min == 0 || min > max)
    {
        return Err(format!(
            "size=rand({min},{max}): the minimum must be from 1 to the maximum"
        ));
    }
    let kind = flowop.kind;
    // For a file, 0 means the whole file.
    let needs_size = kind.uses_buffer() && flowop.count > 0;
    if needs_size && flowop.transfer.amount.max_bytes() == 0 {
        return Err(format!("{kind} of 0 bytes"));
    }
    Ok(())
}

/// Checks the total duration of the transactions, which is the minimum duration of the run.
fn check_total_duration(
    transactions: &[TransactionSpec],
    limits: &WorkLimits,
) -> Result<(), WorkRefusal> {
    let durations = transactions.iter().filter_map(|txn| txn.duration);
    let total = durations.fold(Duration::ZERO, Duration::saturating_add);
    if total <= limits.duration {
        return Ok(());
    }
    let limit = limits.duration;
    let words = format!("transactions of {total:?} in all: this slave accepts at most {limit:?}");
    Err(WorkRefusal::Workorder(words))
}

/// Checks the memory for buffers: each strand has one for the largest transfer.
fn check_memory(group: &GroupSpec, limits: &WorkLimits) -> Result<(), WorkRefusal> {
    let sizes = group
        .flowops()
        .filter(|flowop| flowop.kind.transfers())
        .map(|flowop| flowop.transfer.amount.max_bytes());
    let buffer = sizes.max().unwrap_or(0).max(MIN_BUFFER_BYTES);
    let strands = group.strands.count;
    let memory = u64::from(strands) * u64::from(buffer);
    if memory <= limits.memory {
        return Ok(());
    }
    Err(WorkRefusal::Workorder(format!(
        "{strands} strands with buffers of {buffer} bytes: this slave accepts at most {} bytes in all",
        limits.memory
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::TransactionRecord;
    use crate::{FlowopKind, peer_workorder};

    #[test]
    fn a_slave_does_the_opposite() {
        let mut group = group(&[
            FlowopKind::Connect,
            FlowopKind::Write,
            FlowopKind::Recv,
            FlowopKind::Sendfile,
        ]);
        group.transactions[0].flowops[3].directory = "files".to_owned();
        let slave = assigned_transaction(&group).expect("an assignment");
        let kinds: Vec<FlowopKind> = slave.flowops.iter().map(|flowop| flowop.kind).collect();
        assert_eq!(
            kinds,
            [
                FlowopKind::Accept,
                FlowopKind::Read,
                FlowopKind::Send,
                FlowopKind::Read
            ]
        );
        assert_eq!(slave.flowops[1].transfer.amount, Amount::Exactly(64));
        assert_eq!(slave.flowops[3].transfer.amount, Amount::Exactly(65_536));
        assert_eq!(slave.flowops[3].directory, "");
    }

    #[test]
    fn hosts_are_swapped() {
        let mut group = group(&[FlowopKind::Accept]);
        let hosts = |group: &GroupSpec| {
            let slave = assigned_transaction(group).expect("an assignment");
            let endpoint = slave.flowops[0].endpoint.clone();
            [endpoint.remote_host, endpoint.local_host]
        };
        assert_eq!(hosts(&group), ["::ffff:192.0.2.1", ""]);
        group.transactions[0].flowops[0].endpoint.local_host = "master".to_owned();
        assert_eq!(hosts(&group), ["master", "slave"]);
    }

    /// Change that makes a workorder invalid, and the expected refusal.
    type Case = (fn(&mut WorkRecords), &'static str);

    #[test]
    fn invalid_groups_are_refused_with_the_reason() {
        const LONGEST_NS: u64 = 604_800_000_000_000;
        let cases: [Case; 6] = [
            (
                |work| work.group.strands = 0,
                "0 strands: this slave accepts 1 to 10000",
            ),
            (
                |work| work.group.strands = 1_000_000_000,
                "1000000000 strands: this slave accepts 1 to 10000",
            ),
            (|work| work.group.strand_kind = 9, "unknown strand kind 9"),
            (
                |work| first_record(work).number = 3,
                "transaction 1: its record has the number 3, not 0",
            ),
            (
                |work| first_record(work).duration_ns = u64::MAX,
                "transaction 1: a duration of 18446744073.709551615s: this slave accepts at most 604800s",
            ),
            (
                |work| {
                    first_record(work).duration_ns = LONGEST_NS;
                    work.transactions.push(work.transactions[0].clone());
                    work.transactions[1].record.number = 1;
                },
                "transactions of 1209600s in all: this slave accepts at most 604800s",
            ),
        ];
        check_refusals("", &cases);
        let cases: [Case; 3] = [
            (|work| connect(work).protocol = 0, "Unknown"),
            (|work| connect(work).protocol = 4, "RDS"),
            (|work| connect(work).protocol = 77, "Unknown"),
        ];
        check_refusals("Unsupported protocol:", &cases);
        let cases: [Case; 4] = [
            (|work| connect(work).kind = 12, "12 is not a flowop number"),
            (
                |work| connect(work).port = 65_536,
                "port=65536 is not a valid port",
            ),
            (
                |work| connect(work).encapsulation_port = 65_536,
                "encaps=65536 is not a valid port",
            ),
            (
                |work| connect(work).window = 1 << 31,
                "wndsz=2147483648 is too large",
            ),
        ];
        check_refusals("flowop 1 of transaction 1: ", &cases);
    }

    #[test]
    fn invalid_transfers_are_refused_with_the_reason() {
        let cases: [Case; 8] = [
            (|work| read(work).size = 0, "read of 0 bytes"),
            (|work| read(work).count = u64::MAX, "count=-1 is negative"),
            (|work| read(work).repeat = 0, "read with repeat=0"),
            (|work| read(work).batch_size = 0, "read with batch_size=0"),
            (
                |work| set_random_size(work, 9, 8),
                "size=rand(9,8): the minimum must be from 1 to the maximum",
            ),
            (
                |work| set_random_size(work, 0, 0),
                "size=rand(0,0): the minimum must be from 1 to the maximum",
            ),
            (|work| read(work).flags = 0x201, "unknown flags 0x201"),
            (
                |work| read(work).timeout_ns = 604_800_000_000_001,
                "a timeout of 604800.000000001s: this slave accepts at most 604800s",
            ),
        ];
        check_refusals("flowop 2 of transaction 1: ", &cases);
        let words = "bytes: this slave accepts at most 1073741824 bytes in all";
        let cases: [Case; 2] = [
            (|work| read(work).size = u32::MAX, words),
            (|work| set_random_size(work, 1, u32::MAX), words),
        ];
        check_refusals("2 strands with buffers of 4294967295 ", &cases);
    }

    fn check_refusals(prefix: &str, cases: &[Case]) {
        let good = peer_workorder::records_for_host(
            &group(&[FlowopKind::Connect, FlowopKind::Write]),
            "slave",
        )
        .expect("sendable");
        assert!(assign_work(&good).is_ok());
        for (corrupt, words) in cases {
            let mut work = good.clone();
            corrupt(&mut work);
            let refusal = assign_work(&work).expect_err(words);
            assert_eq!(refusal.to_string(), format!("{prefix}{words}"));
        }
    }

    #[test]
    fn unused_values_are_not_checked() {
        let mut work = WorkRecords::minimal();
        assert!(assign_work(&work).is_ok());
        let nop = &mut work.transactions[0].flowops[0];
        (nop.size, nop.protocol, nop.repeat, nop.port) = (u32::MAX, 99, 0, 70_000);
        assert!(assign_work(&work).is_ok());
        // A transfer with count 0 needs no size.
        let mut work = peer_workorder::records_for_host(
            &group(&[FlowopKind::Connect, FlowopKind::Write]),
            "slave",
        )
        .expect("fits");
        (read(&mut work).size, read(&mut work).count) = (0, 0);
        assert!(assign_work(&work).is_ok());
    }

    #[test]
    fn texts_must_be_plain() {
        let work = peer_workorder::records_for_host(&group(&[FlowopKind::Connect]), "slave")
            .expect("sendable");
        let layout = crate::wire::FlowopLayout::WithBatchSize;
        let order = crate::wire::Endian::Little;
        let mut bytes = work.transactions[0].flowops[0].encode(layout, order);
        bytes[144] = 0xFF;
        let mut work = work;
        let record = FlowopRecord::decode(&bytes, layout, order).expect("long enough");
        work.transactions[0].flowops[0] = record;
        let refusal = assign_work(&work).expect_err("no text");
        let words = r"flowop 1 of transaction 1: cc=\xff is not a plain text";
        assert_eq!(refusal.to_string(), words);
    }

    fn first_record(work: &mut WorkRecords) -> &mut TransactionRecord {
        &mut work.transactions[0].record
    }

    fn set_random_size(work: &mut WorkRecords, min: u32, max: u32) {
        let read = read(work);
        (read.flags, read.random_min, read.random_max) = (64, min, max);
    }

    fn connect(work: &mut WorkRecords) -> &mut FlowopRecord {
        &mut work.transactions[0].flowops[0]
    }

    fn read(work: &mut WorkRecords) -> &mut FlowopRecord {
        &mut work.transactions[0].flowops[1]
    }

    fn assigned_transaction(group: &GroupSpec) -> Result<TransactionSpec, WorkRefusal> {
        let work = peer_workorder::records_for_host(group, "slave").expect("sendable");
        Ok(assign_work(&work)?.transactions.remove(0))
    }

    fn assign_work(work: &WorkRecords) -> Result<GroupSpec, WorkRefusal> {
        let is_supported = |protocol| protocol == DataProtocol::Tcp;
        group_from_work(
            work,
            "::ffff:192.0.2.1",
            &WorkLimits::default(),
            is_supported,
        )
    }

    fn group(kinds: &[FlowopKind]) -> GroupSpec {
        let flowops = kinds.iter().map(|kind| {
            let mut flowop = Flowop::with_size(*kind, 64);
            flowop.endpoint.protocol = Some(DataProtocol::Tcp);
            flowop.endpoint.remote_host = "slave".to_owned();
            flowop
        });
        let mut group = GroupSpec::with_flowops(flowops);
        (group.strands.count, group.strands.threads) = (2, true);
        group
    }
}
