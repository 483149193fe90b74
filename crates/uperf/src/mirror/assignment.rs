//! What a slave makes of the records that it was sent: nothing is believed.

use std::mem::swap;
use std::time::Duration;

use crate::profile::memory::LEAST_BUFFER;
use crate::wire::{
    AsField, FlowopRecord, GroupRecord, Refusal, TransactionWork, Work, protocol_numbered,
};
use crate::{Amount, Flowop, Group, Protocol, Strands, Transaction, WorkLimits};

/// The one group that a slave runs, with defaults for the names that a master does not send.
///
/// `peer` is the master's address on the control connection: what every connection is opened to,
/// unless the master has said which of its addresses it is. A protocol that is not `supported` is
/// refused, and so is whatever makes no sense or is more than the `limits` allow.
pub fn assignment(
    work: &Work,
    peer: &str,
    limits: &WorkLimits,
    supported: impl Fn(Protocol) -> bool,
) -> Result<Group, Refusal> {
    let transactions = work.transactions.iter().enumerate();
    let transactions = transactions
        .map(|(index, work)| transaction(index, work, peer, limits, &supported))
        .collect::<Result<Vec<_>, _>>()?;
    check_length(&transactions, limits)?;
    let group = Group {
        name: "Group0".to_owned(),
        strands: strands(&work.group, limits)?,
        transactions,
    };
    check_memory(&group, limits)?;
    Ok(group)
}

fn strands(record: &GroupRecord, limits: &WorkLimits) -> Result<Strands, Refusal> {
    if record.strands == 0 || record.strands > limits.strands {
        let words = format!(
            "{} strands: this slave takes 1 to {}",
            record.strands, limits.strands
        );
        return Err(Refusal::Workorder(words));
    }
    let (threads, processes) = match record.strand_kind {
        2 => (false, true),
        4 => (true, false),
        6 => (true, true),
        kind => {
            return Err(Refusal::Workorder(format!(
                "strands of the unknown kind {kind}"
            )));
        }
    };
    Ok(Strands {
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
    supported: impl Fn(Protocol) -> bool,
) -> Result<Transaction, Refusal> {
    let record = &work.record;
    let wrong = |what: String| Refusal::Workorder(format!("transaction {}: {what}", index + 1));
    if record.number as usize != index {
        return Err(wrong(format!("it has the number {}", record.number)));
    }
    let duration = AsField::of_field(&record.duration_ns, "duration", limits).map_err(wrong)?;
    let rate_text = AsField::of_field(&record.rate_text, "rate", limits).map_err(wrong)?;
    let flowops = work.flowops.iter().enumerate();
    let flowops = flowops.map(|(number, record)| {
        flowop(record, peer, limits, &supported).map_err(|wrong| match wrong {
            Refusal::Workorder(what) => Refusal::Workorder(format!(
                "flowop {} of transaction {}: {what}",
                number + 1,
                index + 1
            )),
            other => other,
        })
    });
    Ok(Transaction {
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
    supported: impl Fn(Protocol) -> bool,
) -> Result<Flowop, Refusal> {
    let mut flowop = record.flowop(limits).map_err(Refusal::Workorder)?;
    let checked = check_counts(&flowop).and_then(|()| check_size(&flowop));
    checked.map_err(Refusal::Workorder)?;
    if flowop.kind.opens() {
        check_opening(record, supported)?;
    }
    flowop.slave_size = 0;
    // What only a sender of files needs is said to its reader too.
    if !flowop.kind.sends_files() {
        flowop.files = 0;
        flowop.directory.clear();
    }
    // Who the master calls remote is this slave.
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

/// What a slave that opens a connection, or waits for one, goes by.
fn check_opening(
    record: &FlowopRecord,
    supported: impl Fn(Protocol) -> bool,
) -> Result<(), Refusal> {
    let number = record.protocol;
    if !protocol_numbered(number).is_some_and(supported) {
        return Err(Refusal::Protocol(number));
    }
    for (option, port) in [("port", record.port), ("encaps", record.encapsulation_port)] {
        if port > u32::from(u16::MAX) {
            return Err(Refusal::Workorder(format!("{option}={port} is no port")));
        }
    }
    if i32::try_from(record.window).is_err() {
        let words = format!("wndsz={} is too much", record.window);
        return Err(Refusal::Workorder(words));
    }
    Ok(())
}

fn check_size(flowop: &Flowop) -> Result<(), String> {
    if let Amount::Between { min, max } = flowop.transfer.amount
        && (min == 0 || min > max)
    {
        return Err(format!("size=rand({min},{max})"));
    }
    let kind = flowop.kind;
    // Of a file 0 is all of it.
    let needs_size = kind.goes_through_a_buffer() && flowop.count > 0;
    if needs_size && flowop.transfer.amount.largest() == 0 {
        return Err(format!("{kind} of 0 bytes"));
    }
    Ok(())
}

/// The run is as long as its transactions are, at least.
fn check_length(transactions: &[Transaction], limits: &WorkLimits) -> Result<(), Refusal> {
    let durations = transactions.iter().filter_map(|txn| txn.duration);
    let all = durations.fold(Duration::ZERO, Duration::saturating_add);
    if all <= limits.duration {
        return Ok(());
    }
    let limit = limits.duration;
    let words = format!("transactions of {all:?} in all: this slave takes {limit:?}");
    Err(Refusal::Workorder(words))
}

/// Each strand has a buffer for the largest transfer.
fn check_memory(group: &Group, limits: &WorkLimits) -> Result<(), Refusal> {
    let sizes = group
        .flowops()
        .filter(|flowop| flowop.kind.transfers())
        .map(|flowop| flowop.transfer.amount.largest());
    let buffer = sizes.max().unwrap_or(0).max(LEAST_BUFFER);
    let strands = group.strands.count;
    let memory = u64::from(strands) * u64::from(buffer);
    if memory <= limits.memory {
        return Ok(());
    }
    Err(Refusal::Workorder(format!(
        "{strands} strands with buffers of {buffer} bytes: this slave takes {} bytes in all",
        limits.memory
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::TransactionRecord;
    use crate::{Kind, mirror};

    #[test]
    fn a_slave_does_the_opposite() {
        let mut group = group(&[Kind::Connect, Kind::Write, Kind::Recv, Kind::Sendfile]);
        group.transactions[0].flowops[3].directory = "files".to_owned();
        let slave = assign(&group).expect("an assignment");
        let kinds: Vec<Kind> = slave.flowops.iter().map(|flowop| flowop.kind).collect();
        assert_eq!(kinds, [Kind::Accept, Kind::Read, Kind::Send, Kind::Read]);
        assert_eq!(slave.flowops[1].transfer.amount, Amount::Exactly(64));
        assert_eq!(slave.flowops[3].transfer.amount, Amount::Exactly(65_536));
        assert_eq!(slave.flowops[3].directory, "");
    }

    #[test]
    fn hosts_change_places() {
        let mut group = group(&[Kind::Accept]);
        let hosts = |group: &Group| {
            let slave = assign(group).expect("an assignment");
            let endpoint = slave.flowops[0].endpoint.clone();
            [endpoint.remote_host, endpoint.local_host]
        };
        assert_eq!(hosts(&group), ["::ffff:192.0.2.1", ""]);
        group.transactions[0].flowops[0].endpoint.local_host = "master".to_owned();
        assert_eq!(hosts(&group), ["master", "slave"]);
    }

    /// What is spoilt in a good workorder, and how it is refused.
    type Case = (fn(&mut Work), &'static str);

    #[test]
    fn groups_that_make_no_sense_are_refused_by_name() {
        const LONGEST_NS: u64 = 604_800_000_000_000;
        let cases: [Case; 6] = [
            (
                |work| work.group.strands = 0,
                "0 strands: this slave takes 1 to 10000",
            ),
            (
                |work| work.group.strands = 1_000_000_000,
                "1000000000 strands: this slave takes 1 to 10000",
            ),
            (
                |work| work.group.strand_kind = 9,
                "strands of the unknown kind 9",
            ),
            (
                |work| first(work).number = 3,
                "transaction 1: it has the number 3",
            ),
            (
                |work| first(work).duration_ns = u64::MAX,
                "transaction 1: a duration of 18446744073.709551615s: this slave takes 604800s",
            ),
            (
                |work| {
                    first(work).duration_ns = LONGEST_NS;
                    work.transactions.push(work.transactions[0].clone());
                    work.transactions[1].record.number = 1;
                },
                "transactions of 1209600s in all: this slave takes 604800s",
            ),
        ];
        check("", &cases);
        let cases: [Case; 3] = [
            (|work| connect(work).protocol = 0, "Unknown"),
            (|work| connect(work).protocol = 4, "RDS"),
            (|work| connect(work).protocol = 77, "Unknown"),
        ];
        check("Unsupported protocol:", &cases);
        let cases: [Case; 4] = [
            (
                |work| connect(work).kind = 12,
                "12 is the number of no flowop",
            ),
            (|work| connect(work).port = 65_536, "port=65536 is no port"),
            (
                |work| connect(work).encapsulation_port = 65_536,
                "encaps=65536 is no port",
            ),
            (
                |work| connect(work).window = 1 << 31,
                "wndsz=2147483648 is too much",
            ),
        ];
        check("flowop 1 of transaction 1: ", &cases);
    }

    #[test]
    fn transfers_that_make_no_sense_are_refused_by_name() {
        let cases: [Case; 8] = [
            (|work| read(work).size = 0, "read of 0 bytes"),
            (|work| read(work).count = u64::MAX, "count=-1 is negative"),
            (|work| read(work).repeat = 0, "read with repeat=0"),
            (|work| read(work).batch_size = 0, "read with batch_size=0"),
            (|work| random(work, 9, 8), "size=rand(9,8)"),
            (|work| random(work, 0, 0), "size=rand(0,0)"),
            (
                |work| read(work).flags = 0x201,
                "the flags 0x201 have no meaning",
            ),
            (
                |work| read(work).timeout_ns = 604_800_000_000_001,
                "a timeout of 604800.000000001s: this slave takes 604800s",
            ),
        ];
        check("flowop 2 of transaction 1: ", &cases);
        let words = "bytes: this slave takes 1073741824 bytes in all";
        let cases: [Case; 2] = [
            (|work| read(work).size = u32::MAX, words),
            (|work| random(work, 1, u32::MAX), words),
        ];
        check("2 strands with buffers of 4294967295 ", &cases);
    }

    fn check(begin: &str, cases: &[Case]) {
        let good = mirror::work(&group(&[Kind::Connect, Kind::Write]), "slave").expect("sendable");
        assert!(assign_work(&good).is_ok());
        for (spoil, words) in cases {
            let mut work = good.clone();
            spoil(&mut work);
            let refusal = assign_work(&work).expect_err(words);
            assert_eq!(refusal.to_string(), format!("{begin}{words}"));
        }
    }

    #[test]
    fn what_does_nothing_may_be_anything() {
        let mut work = Work::probe();
        assert!(assign_work(&work).is_ok());
        let nop = &mut work.transactions[0].flowops[0];
        (nop.size, nop.protocol, nop.repeat, nop.port) = (u32::MAX, 99, 0, 70_000);
        assert!(assign_work(&work).is_ok());
        // A transfer that is never done may have no size.
        let mut work = mirror::work(&group(&[Kind::Connect, Kind::Write]), "slave").expect("fits");
        (read(&mut work).size, read(&mut work).count) = (0, 0);
        assert!(assign_work(&work).is_ok());
    }

    #[test]
    fn texts_have_to_be_texts() {
        let work = mirror::work(&group(&[Kind::Connect]), "slave").expect("sendable");
        let layout = crate::wire::Layout::BatchSize;
        let order = crate::wire::Order::Little;
        let mut bytes = work.transactions[0].flowops[0].encode(layout, order);
        bytes[144] = 0xFF;
        let mut work = work;
        let record = FlowopRecord::decode(&bytes, layout, order).expect("long enough");
        work.transactions[0].flowops[0] = record;
        let refusal = assign_work(&work).expect_err("no text");
        let words = r"flowop 1 of transaction 1: cc=\xff is not a plain text";
        assert_eq!(refusal.to_string(), words);
    }

    fn first(work: &mut Work) -> &mut TransactionRecord {
        &mut work.transactions[0].record
    }

    fn random(work: &mut Work, min: u32, max: u32) {
        let read = read(work);
        (read.flags, read.random_min, read.random_max) = (64, min, max);
    }

    fn connect(work: &mut Work) -> &mut FlowopRecord {
        &mut work.transactions[0].flowops[0]
    }

    fn read(work: &mut Work) -> &mut FlowopRecord {
        &mut work.transactions[0].flowops[1]
    }

    fn assign(group: &Group) -> Result<Transaction, Refusal> {
        let work = mirror::work(group, "slave").expect("sendable");
        Ok(assign_work(&work)?.transactions.remove(0))
    }

    fn assign_work(work: &Work) -> Result<Group, Refusal> {
        let supported = |protocol| protocol == Protocol::Tcp;
        assignment(work, "::ffff:192.0.2.1", &WorkLimits::default(), supported)
    }

    fn group(kinds: &[Kind]) -> Group {
        let flowops = kinds.iter().map(|kind| {
            let mut flowop = Flowop::of_bytes(*kind, 64);
            flowop.endpoint.protocol = Some(Protocol::Tcp);
            flowop.endpoint.remote_host = "slave".to_owned();
            flowop
        });
        let mut group = Group::of(flowops);
        (group.strands.count, group.strands.threads) = (2, true);
        group
    }
}
