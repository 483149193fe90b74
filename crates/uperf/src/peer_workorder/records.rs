//! Records of a workorder for a slave.

use std::mem::swap;

use super::connections::{PartnerSlaves, partner_slaves};
use crate::profile::truncated;
use crate::wire::{
    AsField, FlowopRecord, GroupRecord, TransactionRecord, TransactionWork, WorkRecords,
};
use crate::{
    Amount, DataProtocol, Flowop, FlowopFlags, FlowopKind, GroupSpec, StrandCount, TransactionSpec,
};

/// Returns the records for the slave on `host`. Each flowop is the opposite of the master's, or a
/// nop if another slave takes part in it.
pub fn records_for_host(group: &GroupSpec, host: &str) -> Result<WorkRecords, UnsendableOption> {
    let transactions = group
        .transactions
        .iter()
        .zip(partner_slaves(group))
        .enumerate();
    let transactions = transactions
        .map(|(number, (transaction, partners))| {
            transaction_records(number, transaction, &partners, host)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(WorkRecords {
        group: GroupRecord {
            strand_kind: strand_kind(group.strands),
            strands: group.strands.count,
            transactions: transactions.len() as u32,
            number: 0,
        },
        transactions,
    })
}

/// Returns the protocols of the group's connections, without duplicates.
pub fn protocols(group: &GroupSpec) -> Vec<DataProtocol> {
    let mut protocols: Vec<_> = group
        .opening_flowops()
        .filter_map(|flowop| flowop.endpoint.protocol)
        .collect();
    protocols.sort_unstable();
    protocols.dedup();
    protocols
}

/// Whether the master accepts connections, and thus must report its ports.
pub fn accepts_connections(group: &GroupSpec) -> bool {
    group
        .opening_flowops()
        .any(|flowop| flowop.kind == FlowopKind::Accept)
}

/// Error: the value of an option does not fit into a workorder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {option}= does not fit into a workorder")]
pub struct UnsendableOption {
    /// Transaction and flowop, counted from 1.
    pub location: String,
    /// Name of the option in a profile.
    pub option: &'static str,
}

fn strand_kind(strands: StrandCount) -> u32 {
    let processes = if strands.processes { 2 } else { 0 };
    let threads = if strands.threads { 4 } else { 0 };
    processes | threads
}

fn transaction_records(
    number: usize,
    transaction: &TransactionSpec,
    partners: &[PartnerSlaves],
    host: &str,
) -> Result<TransactionWork, UnsendableOption> {
    let flowops = transaction.flowops.iter().zip(partners).enumerate();
    let flowops = flowops
        .map(|(flowop_number, (flowop, partner))| {
            let mut record = peer_record(flowop).map_err(|option| UnsendableOption {
                location: format!("flowop {} of transaction {}", flowop_number + 1, number + 1),
                option,
            })?;
            if let PartnerSlaves::Host(other) = partner
                && !other.eq_ignore_ascii_case(host)
            {
                record.kind = FlowopKind::Nop as u32;
            }
            Ok(record)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let unsendable = |option| UnsendableOption {
        location: format!("transaction {}", number + 1),
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

/// Returns the slave's counterpart of a master's flowop.
///
/// The changes and their order are those of stock masters, except for random sizes. For those,
/// stock masters send the size 0, for which stock slaves allocate too small a buffer.
fn peer_record(flowop: &Flowop) -> Result<FlowopRecord, &'static str> {
    let mut slave = flowop.clone();
    slave.kind = flowop.kind.peer_kind();
    let endpoint = &mut slave.endpoint;
    let sctp = &mut endpoint.sctp;
    swap(&mut sctp.out_streams, &mut sctp.in_streams);
    // The fields on the wire hold only 49 and 4 bytes. The master's TLS uses the full lists, and
    // the handshake selects from both.
    endpoint.cipher = truncated(fitting_names(&endpoint.cipher, 49), 49).to_owned();
    endpoint.method = truncated(&endpoint.method, 4).to_owned();
    let mut record = FlowopRecord::from_flowop(&slave)?;
    match flowop.transfer.amount {
        Amount::Between { min, max } => {
            (record.size, record.random_min, record.random_max) = (max, min, max);
            record.flags |= FlowopFlags::RANDOM.0;
        }
        Amount::Exactly(size) => {
            let size = if flowop.kind.sends_files() {
                flowop.file_bytes.unwrap_or(FILE_READ_BYTES)
            } else {
                size
            };
            if flowop.slave_size > size && flowop.count > 1 {
                // Keep the total number of bytes, rounded down to whole executions.
                let bytes = u128::from(size) * u128::from(flowop.count);
                record.count = (bytes / u128::from(flowop.slave_size)) as u64;
            }
            record.size = size.max(flowop.slave_size);
        }
    }
    Ok(record)
}

/// Bytes that a slave reads per execution if the length of the sent files is unknown, as in stock
/// uperf.
const FILE_READ_BYTES: u32 = 65_536;

/// Returns the first names of a colon-separated list that fit into `max_bytes`, but at least one.
fn fitting_names(list: &str, max_bytes: usize) -> &str {
    let ends = list.match_indices(':').map(|(at, _)| at);
    let ends = ends.chain([list.len()]);
    let fitting = ends.clone().take_while(|end| *end <= max_bytes).last();
    let end = fitting.or_else(|| ends.clone().next());
    &list[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::FlowopLayout;

    #[test]
    fn rsize_changes_size_and_count_of_the_slave() {
        // Master's size, rsize and count; slave's size and count.
        for ((size, slave_size, count), expected) in [
            ((64, 0, 1), (64, 1)),
            ((1536, 3072, 12), (3072, 6)),
            ((4096, 16_384, 8), (16_384, 2)),
            // Without a count, only the size changes.
            ((90, 900, 1), (900, 1)),
            // A smaller rsize changes nothing.
            ((900, 90, 10), (900, 10)),
            ((900, 900, 10), (900, 10)),
            // The remainder of the division is lost, even if that is everything.
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
                ..Flowop::with_size(FlowopKind::Write, size)
            };
            let record = peer_record(&flowop).expect("sendable");
            assert_eq!(
                (record.size, record.count),
                expected,
                "{size} {slave_size} {count}"
            );
            assert_eq!(record.slave_size, slave_size);
        }
    }

    #[test]
    fn files_are_read_in_the_default_size() {
        for (kind, size) in [(FlowopKind::Sendfile, 0), (FlowopKind::Sendfilev, 4096)] {
            let record = peer_record(&Flowop::with_size(kind, size)).expect("sendable");
            assert_eq!((record.kind, record.size), (1, 65_536));
        }
    }

    #[test]
    fn a_random_size_is_sent_as_its_bounds_and_maximum() {
        let mut flowop = Flowop {
            count: 3,
            slave_size: 20_000,
            ..Flowop::new(FlowopKind::Write)
        };
        flowop.transfer.amount = Amount::Between { min: 10, max: 9000 };
        let record = peer_record(&flowop).expect("sendable");
        let sizes = (record.random_min, record.random_max, record.size);
        assert_eq!(sizes, (10, 9000, 9000));
        assert_eq!((record.flags, record.count), (64, 3));
    }

    #[test]
    fn cipher_lists_are_cut_between_names() {
        for (list, max_bytes, expected) in [
            ("", 5, ""),
            ("ab", 5, "ab"),
            ("ab:cd", 5, "ab:cd"),
            ("ab:cd:ef", 5, "ab:cd"),
            ("ab:cd:ef", 4, "ab"),
            ("abcdef:g", 5, "abcdef"),
        ] {
            assert_eq!(
                fitting_names(list, max_bytes),
                expected,
                "{list} {max_bytes}"
            );
        }
    }

    #[test]
    fn sctp_streams_are_swapped() {
        let mut flowop = Flowop::new(FlowopKind::Connect);
        flowop.endpoint.sctp.out_streams = 111;
        flowop.endpoint.sctp.in_streams = 110;
        let record = peer_record(&flowop).expect("sendable");
        let streams = (record.sctp_out_streams, record.sctp_in_streams);
        assert_eq!(
            (record.kind, streams),
            (FlowopKind::Accept as u32, (110, 111))
        );
    }

    #[test]
    fn each_host_gets_its_flowops() {
        let group = group(&[
            (FlowopKind::Connect, 0, "a"),
            (FlowopKind::Accept, 7, "b"),
            (FlowopKind::Write, 0, ""),
            (FlowopKind::Read, 7, ""),
            (FlowopKind::Think, 0, ""),
            (FlowopKind::Disconnect, 7, "B"),
        ]);
        let kinds = |host| {
            let work = records_for_host(&group, host).expect("sendable");
            let flowops = work.transactions[0].flowops.iter();
            let kinds = flowops.filter_map(|flowop| FlowopKind::from_number(flowop.kind));
            kinds.map(FlowopKind::name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kinds("a"), "accept nop read nop think nop");
        assert_eq!(kinds("b"), "nop connect nop write think disconnect");
        assert_eq!(kinds("c"), "nop nop nop nop think nop");
        assert!(accepts_connections(&group));
        assert_eq!(protocols(&group), [DataProtocol::Tcp]);
    }

    #[test]
    fn options_that_do_not_fit_are_reported() {
        let mut group = group(&[(FlowopKind::Connect, 0, "a"), (FlowopKind::Connect, 0, "a")]);
        group.transactions[0].flowops[1].endpoint.congestion_control = "c".repeat(32);
        let unsendable = records_for_host(&group, "a").expect_err("too long");
        assert_eq!(
            unsendable.to_string(),
            "flowop 2 of transaction 1: cc= does not fit into a workorder"
        );
        group.transactions[0].duration = Some(Duration::MAX);
        group.transactions[0].flowops.pop();
        let unsendable = records_for_host(&group, "a").expect_err("too long");
        assert_eq!(
            unsendable.to_string(),
            "transaction 1: duration= does not fit into a workorder"
        );
    }

    #[test]
    fn every_layout_can_encode_a_plain_profile() {
        let group = group(&[(FlowopKind::Connect, 0, "a"), (FlowopKind::Write, 0, "")]);
        let work = records_for_host(&group, "a").expect("sendable");
        assert_eq!(work.check_layout(FlowopLayout::V1_0_7), Ok(()));
    }

    fn group(flowops: &[(FlowopKind, u32, &str)]) -> GroupSpec {
        let flowops = flowops.iter().map(|(kind, connection, host)| {
            let mut flowop = Flowop::new(*kind);
            flowop.connection = *connection;
            flowop.endpoint.remote_host = (*host).to_owned();
            if kind.opens() {
                flowop.endpoint.protocol = Some(DataProtocol::Tcp);
            }
            flowop
        });
        GroupSpec::with_flowops(flowops)
    }
}
