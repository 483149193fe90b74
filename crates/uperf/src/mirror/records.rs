//! What a slave is sent.

use std::mem::swap;

use super::connections::{Part, parts};
use crate::profile::shortened;
use crate::wire::{AsField, FlowopRecord, GroupRecord, TransactionRecord, TransactionWork, Work};
use crate::{Amount, Flags, Flowop, Group, Kind, Protocol, Strands, Transaction};

/// The records for the slave on `host`: what its master does, turned round, and nothing where another
/// slave takes part.
pub fn work(group: &Group, host: &str) -> Result<Work, Unsendable> {
    let transactions = group.transactions.iter().zip(parts(group)).enumerate();
    let transactions = transactions
        .map(|(number, (transaction, parts))| records(number, transaction, &parts, host))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Work {
        group: GroupRecord {
            strand_kind: strand_kind(group.strands),
            strands: group.strands.count,
            transactions: transactions.len() as u32,
            number: 0,
        },
        transactions,
    })
}

/// The protocols that the group opens connections of, each once.
pub fn protocols(group: &Group) -> Vec<Protocol> {
    let mut protocols: Vec<_> = group
        .openings()
        .filter_map(|flowop| flowop.endpoint.protocol)
        .collect();
    protocols.sort_unstable();
    protocols.dedup();
    protocols
}

/// Whether the master waits for connections, and so tells its ports.
pub fn listens(group: &Group) -> bool {
    group.openings().any(|flowop| flowop.kind == Kind::Accept)
}

/// What cannot be said in a workorder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {option}= does not fit into a workorder")]
pub struct Unsendable {
    /// Which transaction, and of it which flowop, counted from 1.
    pub place: String,
    /// As a profile has it.
    pub option: &'static str,
}

fn strand_kind(strands: Strands) -> u32 {
    let processes = if strands.processes { 2 } else { 0 };
    let threads = if strands.threads { 4 } else { 0 };
    processes | threads
}

fn records(
    number: usize,
    transaction: &Transaction,
    parts: &[Part],
    host: &str,
) -> Result<TransactionWork, Unsendable> {
    let flowops = transaction.flowops.iter().zip(parts).enumerate();
    let flowops = flowops
        .map(|(flowop_number, (flowop, part))| {
            let mut record = mirrored(flowop).map_err(|option| Unsendable {
                place: format!("flowop {} of transaction {}", flowop_number + 1, number + 1),
                option,
            })?;
            if let Part::Host(other) = part
                && !other.eq_ignore_ascii_case(host)
            {
                record.kind = Kind::Nop as u32;
            }
            Ok(record)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let unsendable = |option| Unsendable {
        place: format!("transaction {}", number + 1),
        option,
    };
    let duration_ns = transaction.duration.to_field();
    let rate_text = transaction.rate_text.to_field();
    Ok(TransactionWork {
        record: TransactionRecord {
            flowops: flowops.len() as u32,
            number: number as u32,
            rate: transaction.rate,
            iterations: transaction.iterations,
            duration_ns: duration_ns.ok_or_else(|| unsendable("duration"))?,
            rate_text: rate_text.ok_or_else(|| unsendable("rate"))?,
        },
        flowops,
    })
}

/// What the slave does while its master does this.
///
/// What is changed is what stock masters change, in their order, but for random sizes: they say 0 for
/// the size, which stock slaves have too small a buffer for.
fn mirrored(flowop: &Flowop) -> Result<FlowopRecord, &'static str> {
    let mut slave = flowop.clone();
    slave.kind = flowop.kind.mirrored();
    let endpoint = &mut slave.endpoint;
    let sctp = &mut endpoint.sctp;
    swap(&mut sctp.out_streams, &mut sctp.in_streams);
    // As much of both as uperf keeps: the TLS of this end has all of it, and the two settle it.
    endpoint.cipher = shortened(whole_names(&endpoint.cipher, 49), 49).to_owned();
    endpoint.method = shortened(&endpoint.method, 4).to_owned();
    let mut record = FlowopRecord::of(&slave)?;
    match flowop.transfer.amount {
        Amount::Between { min, max } => {
            (record.size, record.random_min, record.random_max) = (max, min, max);
            record.flags |= Flags::RANDOM.0;
        }
        Amount::Exactly(size) => {
            let size = if flowop.kind.sends_files() {
                flowop.file_bytes.unwrap_or(FILE_PIECE)
            } else {
                size
            };
            if flowop.slave_size > size && flowop.count > 1 {
                // As many bytes as here, as far as they can be divided.
                let bytes = u128::from(size) * u128::from(flowop.count);
                record.count = (bytes / u128::from(flowop.slave_size)) as u64;
            }
            record.size = size.max(flowop.slave_size);
        }
    }
    Ok(record)
}

/// What a slave reads of files in one execution, unless their length is known; stock's.
const FILE_PIECE: u32 = 65_536;

/// Those of the names with colons between them that have room in so many bytes; at least the first.
fn whole_names(list: &str, room: usize) -> &str {
    let ends = list.match_indices(':').map(|(at, _)| at);
    let ends = ends.chain([list.len()]);
    let fitting = ends.clone().take_while(|end| *end <= room).last();
    let end = fitting.or_else(|| ends.clone().next());
    &list[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::Layout;

    #[test]
    fn sizes_of_the_slave() {
        // size, rsize, count; what becomes of size and count.
        for ((size, slave_size, count), expected) in [
            ((64, 0, 1), (64, 1)),
            ((1536, 3072, 12), (3072, 6)),
            ((4096, 16_384, 8), (16_384, 2)),
            // Without a count only the size is another.
            ((90, 900, 1), (900, 1)),
            // A smaller one changes nothing.
            ((900, 90, 10), (900, 10)),
            ((900, 900, 10), (900, 10)),
            // What cannot be divided is lost, and so may be all of it.
            ((100, 300, 4), (300, 1)),
            ((100, 300, 2), (300, 0)),
            ((100, 300, 0), (300, 0)),
            (
                (u32::MAX - 1, u32::MAX, u64::MAX),
                (u32::MAX, 0xFFFF_FFFE_FFFF_FFFE),
            ),
        ] {
            let flowop = Flowop {
                count,
                slave_size,
                ..Flowop::of_bytes(Kind::Write, size)
            };
            let record = mirrored(&flowop).expect("sendable");
            assert_eq!(
                (record.size, record.count),
                expected,
                "{size} {slave_size} {count}"
            );
            assert_eq!(record.slave_size, slave_size);
        }
    }

    #[test]
    fn files_are_read_in_pieces() {
        for (kind, size) in [(Kind::Sendfile, 0), (Kind::Sendfilev, 4096)] {
            let record = mirrored(&Flowop::of_bytes(kind, size)).expect("sendable");
            assert_eq!((record.kind, record.size), (1, 65_536));
        }
    }

    #[test]
    fn a_random_size_has_room() {
        let mut flowop = Flowop {
            count: 3,
            slave_size: 20_000,
            ..Flowop::new(Kind::Write)
        };
        flowop.transfer.amount = Amount::Between { min: 10, max: 9000 };
        let record = mirrored(&flowop).expect("sendable");
        let sizes = (record.random_min, record.random_max, record.size);
        assert_eq!(sizes, (10, 9000, 9000));
        assert_eq!((record.flags, record.count), (64, 3));
    }

    #[test]
    fn ciphers_are_whole() {
        for (list, room, expected) in [
            ("", 5, ""),
            ("ab", 5, "ab"),
            ("ab:cd", 5, "ab:cd"),
            ("ab:cd:ef", 5, "ab:cd"),
            ("ab:cd:ef", 4, "ab"),
            ("abcdef:g", 5, "abcdef"),
        ] {
            assert_eq!(whole_names(list, room), expected, "{list} {room}");
        }
    }

    #[test]
    fn streams_are_those_of_the_other_end() {
        let mut flowop = Flowop::new(Kind::Connect);
        flowop.endpoint.sctp.out_streams = 111;
        flowop.endpoint.sctp.in_streams = 110;
        let record = mirrored(&flowop).expect("sendable");
        let streams = (record.sctp_out_streams, record.sctp_in_streams);
        assert_eq!((record.kind, streams), (Kind::Accept as u32, (110, 111)));
    }

    #[test]
    fn each_host_has_its_flowops() {
        let group = group(&[
            (Kind::Connect, 0, "a"),
            (Kind::Accept, 7, "b"),
            (Kind::Write, 0, ""),
            (Kind::Read, 7, ""),
            (Kind::Think, 0, ""),
            (Kind::Disconnect, 7, "B"),
        ]);
        let kinds = |host| {
            let work = work(&group, host).expect("sendable");
            let flowops = work.transactions[0].flowops.iter();
            let kinds = flowops.filter_map(|flowop| Kind::of(flowop.kind));
            kinds.map(Kind::name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kinds("a"), "accept nop read nop think nop");
        assert_eq!(kinds("b"), "nop connect nop write think disconnect");
        assert_eq!(kinds("c"), "nop nop nop nop think nop");
        assert!(listens(&group));
        assert_eq!(protocols(&group), [Protocol::Tcp]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut group = group(&[(Kind::Connect, 0, "a"), (Kind::Connect, 0, "a")]);
        group.transactions[0].flowops[1].endpoint.congestion_control = "c".repeat(32);
        let unsendable = work(&group, "a").expect_err("too long");
        assert_eq!(
            unsendable.to_string(),
            "flowop 2 of transaction 1: cc= does not fit into a workorder"
        );
        group.transactions[0].duration = Some(Duration::MAX);
        group.transactions[0].flowops.pop();
        let unsendable = work(&group, "a").expect_err("too long");
        assert_eq!(
            unsendable.to_string(),
            "transaction 1: duration= does not fit into a workorder"
        );
    }

    #[test]
    fn what_a_new_profile_leaves_out_every_slave_understands() {
        let group = group(&[(Kind::Connect, 0, "a"), (Kind::Write, 0, "")]);
        let work = work(&group, "a").expect("sendable");
        assert_eq!(work.check_layout(Layout::V1_0_7), Ok(()));
    }

    fn group(flowops: &[(Kind, u32, &str)]) -> Group {
        let flowops = flowops.iter().map(|(kind, connection, host)| {
            let mut flowop = Flowop::new(*kind);
            flowop.connection = *connection;
            flowop.endpoint.remote_host = (*host).to_owned();
            if kind.opens() {
                flowop.endpoint.protocol = Some(Protocol::Tcp);
            }
            flowop
        });
        Group::of(flowops)
    }
}
