//! Messages of a workorder: the records of one group in sequence.

use codec::Endian;

use super::layout::{DetectedLen, FlowopLayout, detect_layout, detect_record_len};
use super::{DataVersion, FlowopRecord, GroupRecord, SlaveInfo, TransactionRecord, WorkRefusal};
use crate::{FlowopKind, WorkLimits};

/// All records of a workorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkRecords {
    /// Group record.
    pub group: GroupRecord,
    /// Transactions after the group record.
    pub transactions: Vec<TransactionWork>,
}

/// A transaction and its flowops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionWork {
    /// Transaction record.
    pub record: TransactionRecord,
    /// Flowops after the transaction record.
    pub flowops: Vec<FlowopRecord>,
}

impl WorkRecords {
    /// Returns the smallest workorder that a slave answers: one strand that does nothing. A master
    /// sends it in each layout. The slave answers only to a layout with its own record length.
    pub fn minimal() -> Self {
        Self {
            group: GroupRecord {
                strand_kind: 4,
                strands: 1,
                transactions: 1,
                number: 0,
            },
            transactions: vec![TransactionWork::with_nop(0, 1)],
        }
    }

    /// Returns the message. The counts in the records are those of the lists, not the stored ones.
    pub fn encode(&self, layout: FlowopLayout, order: Endian) -> Vec<u8> {
        let mut group = self.group.clone();
        group.transactions = self.transactions.len() as u32;
        let mut bytes = group.encode(order).to_vec();
        for transaction in &self.transactions {
            let mut record = transaction.record.clone();
            record.flowops = transaction.flowops.len() as u32;
            bytes.extend(record.encode(order));
            for flowop in &transaction.flowops {
                bytes.extend(flowop.encode(layout, order));
            }
        }
        bytes
    }

    /// Fails with the first option that a slave of this layout does not support.
    pub fn check_layout(&self, layout: FlowopLayout) -> Result<(), String> {
        let transactions = self.transactions.iter().zip(1..);
        for (transaction, number) in transactions {
            for (record, flowop) in transaction.flowops.iter().zip(1..) {
                if let Some(option) = record.missing_option(layout) {
                    return Err(format!(
                        "flowop {flowop} of transaction {number}: slaves of {layout} and older do not \
                         support {option}="
                    ));
                }
            }
        }
        Ok(())
    }
}

impl TransactionWork {
    /// Returns a transaction with this number that does nothing.
    pub(crate) fn with_nop(number: u32, iterations: u64) -> Self {
        Self {
            record: TransactionRecord {
                flowops: 1,
                number,
                iterations,
                ..TransactionRecord::default()
            },
            flowops: vec![FlowopRecord::new(FlowopKind::Nop)],
        }
    }
}

/// A received workorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedWork {
    /// Its records.
    pub work: WorkRecords,
    /// Ports of the master's strands: one entry per strand, or none.
    pub slave_infos: Vec<SlaveInfo>,
    /// Layout of the flowops, if there are any.
    pub layout: Option<FlowopLayout>,
}

/// Record of a transaction, and the undecoded records of its flowops.
type RawTransaction = (TransactionRecord, Vec<Box<[u8]>>);

impl ReceivedWork {
    /// Receives the workorder after a header of phase 2. Version, byte order and the number of
    /// [`SlaveInfo`] records come from the header.
    ///
    /// The function trusts no count: it reads at most as much as the limits allow. It detects the
    /// layout of the flowops.
    ///
    /// `fill` fills a buffer with the next bytes. Its second argument is the maximum number of
    /// bytes of memory for keeping and decoding them. `fill` must time out: if a master uses an
    /// unknown layout, the function may request more bytes than the master sends.
    pub fn receive<E: From<WorkRefusal>>(
        version: DataVersion,
        order: Endian,
        slave_infos: u32,
        limits: &WorkLimits,
        mut fill: impl FnMut(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut bytes = [0; GroupRecord::LEN];
        fill(&mut bytes, 0)?;
        let group = GroupRecord::decode(&bytes, order)?;
        check_group(&group, slave_infos, limits)?;
        let (mut transactions, mut total_flowops, mut flowop_len) =
            (Vec::<RawTransaction>::new(), 0_u64, None);
        for _ in 0..group.transactions {
            let mut bytes = [0; TransactionRecord::LEN];
            let growth = 2 * size_of::<RawTransaction>() + size_of::<TransactionWork>();
            fill(&mut bytes, growth as u64)?;
            let record = TransactionRecord::decode(&bytes, order);
            total_flowops += u64::from(record.flowops);
            check_limit("flowops", total_flowops, limits.flowops)?;
            let mut flowops = Vec::new();
            for _ in 0..record.flowops {
                let flowop = read_flowop(version, order, flowop_len, &mut fill)?;
                flowop_len = Some(flowop.len());
                flowops.push(flowop);
            }
            transactions.push((record, flowops));
        }
        let mut infos = Vec::new();
        for _ in 0..slave_infos {
            let mut bytes = [0; SlaveInfo::LEN];
            fill(&mut bytes, 2 * size_of::<SlaveInfo>() as u64)?;
            infos.push(SlaveInfo::decode(&bytes, order));
        }
        let records = transactions.iter().flat_map(|(_, flowops)| flowops);
        let layout = detect_layout(
            version,
            flowop_len.unwrap_or_default(),
            records.map(|flowop| &**flowop),
        );
        let decode = |flowop: Box<[u8]>| FlowopRecord::decode(&flowop, layout?, order);
        let transactions = transactions.into_iter();
        let transactions = transactions.map(|(record, flowops)| TransactionWork {
            record,
            flowops: flowops.into_iter().filter_map(decode).collect(),
        });
        Ok(Self {
            work: WorkRecords {
                group,
                transactions: transactions.collect(),
            },
            slave_infos: infos,
            layout,
        })
    }
}

fn check_group(
    group: &GroupRecord,
    slave_infos: u32,
    limits: &WorkLimits,
) -> Result<(), WorkRefusal> {
    let strands = group.strands;
    check_limit("strands", strands, limits.strands)?;
    check_limit("transactions", group.transactions, limits.transactions)?;
    if slave_infos != 0 && slave_infos != strands {
        let words = format!("ports of {slave_infos} strands for {strands} strands");
        return Err(WorkRefusal::Workorder(words));
    }
    Ok(())
}

/// Reads the bytes of a flowop. `len` is the length of the records, `None` for the first one. The
/// first record is read in parts until its length is known.
fn read_flowop<E: From<WorkRefusal>>(
    version: DataVersion,
    order: Endian,
    len: Option<usize>,
    fill: &mut impl FnMut(&mut [u8], u64) -> Result<(), E>,
) -> Result<Box<[u8]>, E> {
    /// Memory per flowop besides its bytes. A growing list has up to twice its entries, and each
    /// allocation has a few bytes of overhead.
    const LIST_ENTRY_BYTES: usize = 2 * size_of::<Box<[u8]>>() + 16 + size_of::<FlowopRecord>();
    let mut bytes = Vec::new();
    let mut needed = len.unwrap_or_else(|| version.shortest_flowop());
    loop {
        let start = bytes.len();
        bytes.resize(needed, 0);
        fill(&mut bytes[start..], (needed + LIST_ENTRY_BYTES) as u64)?;
        needed = match detect_record_len(version, order, &bytes) {
            DetectedLen::Incomplete(more) if len.is_none() => more,
            DetectedLen::Unknown if len.is_none() => {
                let words = "the first flowop is invalid in every version of uperf";
                return Err(WorkRefusal::Workorder(words.to_owned()).into());
            }
            _ => return Ok(bytes.into()),
        };
    }
}

fn check_limit(item: &str, requested: impl Into<u64>, limit: u32) -> Result<(), WorkRefusal> {
    let requested = requested.into();
    if requested <= u64::from(limit) {
        return Ok(());
    }
    Err(WorkRefusal::Workorder(format!(
        "{requested} {item}: this slave accepts at most {limit}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataProtocol;
    use crate::wire::Text;

    #[test]
    fn workorders_round_trip_in_every_layout() {
        for layout in FlowopLayout::ALL {
            for order in [Endian::Little, Endian::Big] {
                let work = work();
                let mut bytes = work.encode(layout, order);
                let infos = infos();
                for info in &infos {
                    bytes.extend(info.encode(order));
                }
                bytes.extend(b"behind");
                let (mut rest, count) = (&bytes[..], infos.len() as u32);
                let limits = WorkLimits::default();
                let received = receive_from(&mut rest, (layout.version(), order, count), &limits);
                let received = received.expect("a workorder");
                assert_eq!(rest, b"behind");
                assert_eq!(received.work, work);
                assert_eq!(received.slave_infos, infos);
                assert_eq!(received.layout, Some(layout));
            }
        }
    }

    #[test]
    fn without_flowops_there_is_no_layout() {
        let mut work = work();
        work.transactions.truncate(1);
        work.group.transactions = 1;
        let received = receive(&work, &WorkLimits::default()).expect("a workorder");
        assert_eq!((received.work, received.layout), (work, None));
    }

    #[test]
    fn truncated_workorders_are_refused() {
        let bytes = work().encode(FlowopLayout::WithRepeat, Endian::Big);
        let limits = WorkLimits::default();
        for len in [0, 23, 24, 191, 192, 360, 1287, bytes.len() - 1] {
            let header = (DataVersion::V0_3_1, Endian::Big, 0);
            let refusal =
                receive_from(&mut &bytes[..len], header, &limits).expect_err("it is short");
            assert_eq!(refusal, too_short(), "{len}");
        }
    }

    #[test]
    fn work_above_the_limits_is_refused() {
        let limits = |strands, transactions, flowops| WorkLimits {
            strands,
            transactions,
            flowops,
            ..WorkLimits::default()
        };
        let work = work();
        assert!(receive(&work, &limits(2, 3, 3)).is_ok());
        for (limits, words) in [
            (limits(1, 3, 3), "2 strands: this slave accepts at most 1"),
            (
                limits(2, 2, 3),
                "3 transactions: this slave accepts at most 2",
            ),
            (limits(2, 3, 2), "3 flowops: this slave accepts at most 2"),
        ] {
            let refusal = receive(&work, &limits).expect_err("too much");
            assert_eq!(refusal.to_string(), words);
        }
        let bytes = work.encode(FlowopLayout::WithRepeat, Endian::Big);
        let header = (DataVersion::V0_3_1, Endian::Big, 3);
        let refusal = receive_from(&mut &bytes[..], header, &WorkLimits::default());
        let refusal = refusal.expect_err("a port too many");
        assert_eq!(refusal.to_string(), "ports of 3 strands for 2 strands");
    }

    #[test]
    fn an_unknown_first_flowop_is_refused() {
        let mut work = WorkRecords::minimal();
        work.transactions[0].flowops[0].kind = 12;
        let refusal = receive(&work, &WorkLimits::default()).expect_err("no flowop");
        let words = "the first flowop is invalid in every version of uperf";
        assert_eq!(refusal.to_string(), words);
    }

    #[test]
    fn options_that_an_old_layout_lacks_are_reported() {
        let mut work = work();
        assert_eq!(work.check_layout(FlowopLayout::V1_0_7), Ok(()));
        work.transactions[1].flowops[1].repeat = 4;
        assert_eq!(work.check_layout(FlowopLayout::WithRepeat), Ok(()));
        let error = work
            .check_layout(FlowopLayout::V1_0_8)
            .expect_err("repeat=");
        assert_eq!(
            error,
            "flowop 2 of transaction 2: slaves of uperf 1.0.8 and older do not support repeat="
        );
    }

    fn receive(work: &WorkRecords, limits: &WorkLimits) -> Result<ReceivedWork, WorkRefusal> {
        let bytes = work.encode(FlowopLayout::WithBatchSize, Endian::Little);
        let header = (DataVersion::V0_3_1, Endian::Little, 0);
        receive_from(&mut &bytes[..], header, limits)
    }

    /// Receives a workorder from the start of `bytes`, and removes it.
    fn receive_from(
        bytes: &mut &[u8],
        (version, order, slave_infos): (DataVersion, Endian, u32),
        limits: &WorkLimits,
    ) -> Result<ReceivedWork, WorkRefusal> {
        ReceivedWork::receive(version, order, slave_infos, limits, |buffer, _| {
            let (filled, remaining) = bytes.split_at_checked(buffer.len()).ok_or_else(too_short)?;
            buffer.copy_from_slice(filled);
            *bytes = remaining;
            Ok(())
        })
    }

    fn too_short() -> WorkRefusal {
        WorkRefusal::Workorder("it is short".to_owned())
    }

    /// Three transactions with 0, 2 and 1 flowops.
    fn work() -> WorkRecords {
        let accept = FlowopRecord {
            remote_host: Text::truncated("127.0.0.1"),
            protocol: 1,
            ..FlowopRecord::new(FlowopKind::Accept)
        };
        let read = FlowopRecord {
            size: 64,
            ..FlowopRecord::new(FlowopKind::Read)
        };
        let flowops = [
            vec![],
            vec![accept, read],
            vec![FlowopRecord::new(FlowopKind::Disconnect)],
        ];
        let transactions = flowops.into_iter().zip(0..);
        WorkRecords {
            group: GroupRecord {
                strand_kind: 4,
                strands: 2,
                transactions: 3,
                number: 0,
            },
            transactions: transactions
                .map(|(flowops, number)| TransactionWork {
                    record: TransactionRecord {
                        flowops: flowops.len() as u32,
                        number,
                        iterations: 1,
                        ..TransactionRecord::default()
                    },
                    flowops,
                })
                .collect(),
        }
    }

    fn infos() -> Vec<SlaveInfo> {
        let mut info = SlaveInfo::default();
        info.set_port(DataProtocol::Tcp, 5001);
        vec![info.clone(), info]
    }
}
