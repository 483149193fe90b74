//! A workorder as it travels: the records of one group, one after the other.

use codec::Order;

use super::layout::{Layout, Length, layout, length};
use super::{FlowopRecord, GroupRecord, Refusal, SlaveInfo, TransactionRecord, Version};
use crate::{Kind, WorkLimits};

/// All records of a workorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The first record.
    pub group: GroupRecord,
    /// What comes behind it.
    pub transactions: Vec<TransactionWork>,
}

/// A transaction and its flowops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionWork {
    /// The first record.
    pub record: TransactionRecord,
    /// What comes behind it.
    pub flowops: Vec<FlowopRecord>,
}

impl Work {
    /// The least that a slave answers: a strand that does nothing. From whether it does answer, once
    /// it has this in a layout, a master learns how long the slave takes a flowop to be.
    pub fn probe() -> Self {
        Self {
            group: GroupRecord {
                strand_kind: 4,
                strands: 1,
                transactions: 1,
                number: 0,
            },
            transactions: vec![TransactionWork::of_nothing(0, 1)],
        }
    }

    /// As it travels; what the records say of how many follow is what follows.
    pub fn encode(&self, layout: Layout, order: Order) -> Vec<u8> {
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

    /// Fails with the first option that a slave of this layout does not know.
    pub fn check_layout(&self, layout: Layout) -> Result<(), String> {
        let transactions = self.transactions.iter().zip(1..);
        for (transaction, number) in transactions {
            for (record, flowop) in transaction.flowops.iter().zip(1..) {
                if let Some(option) = record.lacking(layout) {
                    return Err(format!(
                        "flowop {flowop} of transaction {number}: {option}= is not known to a slave of {layout} \
                         and older"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl TransactionWork {
    /// The transaction of this number, which does nothing.
    pub(crate) fn of_nothing(number: u32, iterations: u64) -> Self {
        Self {
            record: TransactionRecord {
                flowops: 1,
                number,
                iterations,
                ..TransactionRecord::default()
            },
            flowops: vec![FlowopRecord::new(Kind::Nop)],
        }
    }
}

/// A workorder that has come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its records.
    pub work: Work,
    /// Where the master's strands listen: one for each, or none.
    pub slave_infos: Vec<SlaveInfo>,
    /// That of its flowops, if there are any.
    pub layout: Option<Layout>,
}

/// A record of a transaction, and those of its flowops before their layout is known.
type Unread = (TransactionRecord, Vec<Box<[u8]>>);

impl Received {
    /// Receives what comes behind a header of phase 2 which says version, order and how many [`SlaveInfo`] there
    /// will be. Nothing is believed: no more is asked for than what the limits allow, and the layout of the flowops
    /// is found out.
    ///
    /// `fill` fills a buffer with what comes next, and receives the number of bytes of memory that it takes, at most, to keep
    /// that, and then to give the workorder. A master whose layout is none of ours may have sent all when more is
    /// asked for: so `fill` must not wait for ever.
    pub fn receive<E: From<Refusal>>(
        version: Version,
        order: Order,
        slave_infos: u32,
        limits: &WorkLimits,
        mut fill: impl FnMut(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut bytes = [0; GroupRecord::LEN];
        fill(&mut bytes, 0)?;
        let group = GroupRecord::decode(&bytes, order)?;
        check_group(&group, slave_infos, limits)?;
        let (mut transactions, mut all, mut len) = (Vec::<Unread>::new(), 0_u64, None);
        for _ in 0..group.transactions {
            let mut bytes = [0; TransactionRecord::LEN];
            let growth = 2 * size_of::<Unread>() + size_of::<TransactionWork>();
            fill(&mut bytes, growth as u64)?;
            let record = TransactionRecord::decode(&bytes, order);
            all += u64::from(record.flowops);
            at_most("flowops", all, limits.flowops)?;
            let mut flowops = Vec::new();
            for _ in 0..record.flowops {
                let flowop = flowop(version, order, len, &mut fill)?;
                len = Some(flowop.len());
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
        let layout = layout(
            version,
            len.unwrap_or_default(),
            records.map(|flowop| &**flowop),
        );
        let decode = |flowop: Box<[u8]>| FlowopRecord::decode(&flowop, layout?, order);
        let transactions = transactions.into_iter();
        let transactions = transactions.map(|(record, flowops)| TransactionWork {
            record,
            flowops: flowops.into_iter().filter_map(decode).collect(),
        });
        Ok(Self {
            work: Work {
                group,
                transactions: transactions.collect(),
            },
            slave_infos: infos,
            layout,
        })
    }
}

fn check_group(group: &GroupRecord, slave_infos: u32, limits: &WorkLimits) -> Result<(), Refusal> {
    let strands = group.strands;
    at_most("strands", strands, limits.strands)?;
    at_most("transactions", group.transactions, limits.transactions)?;
    if slave_infos != 0 && slave_infos != strands {
        let words = format!("ports of {slave_infos} strands for {strands} strands");
        return Err(Refusal::Workorder(words));
    }
    Ok(())
}

/// The bytes of a flowop. Those of the first one come bit by bit, until its layout's length is known.
fn flowop<E: From<Refusal>>(
    version: Version,
    order: Order,
    len: Option<usize>,
    fill: &mut impl FnMut(&mut [u8], u64) -> Result<(), E>,
) -> Result<Box<[u8]>, E> {
    /// A list that grows has up to twice the places, and each piece of memory has a few bytes more.
    const PLACE: usize = 2 * size_of::<Box<[u8]>>() + 16 + size_of::<FlowopRecord>();
    let mut bytes = Vec::new();
    let mut needed = len.unwrap_or_else(|| version.shortest_flowop());
    loop {
        let start = bytes.len();
        bytes.resize(needed, 0);
        fill(&mut bytes[start..], (needed + PLACE) as u64)?;
        needed = match length(version, order, &bytes) {
            Length::More(more) if len.is_none() => more,
            Length::Unknown if len.is_none() => {
                let words = "the first flowop is of no kind, in no version of uperf";
                return Err(Refusal::Workorder(words.to_owned()).into());
            }
            _ => return Ok(bytes.into()),
        };
    }
}

fn at_most(what: &str, asked: impl Into<u64>, limit: u32) -> Result<(), Refusal> {
    let asked = asked.into();
    if asked <= u64::from(limit) {
        return Ok(());
    }
    Err(Refusal::Workorder(format!(
        "{asked} {what}: this slave takes {limit}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;
    use crate::wire::Text;

    #[test]
    fn workorders_come_back_in_every_layout() {
        for layout in Layout::ALL {
            for order in [Order::Little, Order::Big] {
                let work = work();
                let mut bytes = work.encode(layout, order);
                let infos = infos();
                for info in &infos {
                    bytes.extend(info.encode(order));
                }
                bytes.extend(b"behind");
                let (mut rest, count) = (&bytes[..], infos.len() as u32);
                let limits = WorkLimits::default();
                let received = taken(&mut rest, (layout.version(), order, count), &limits);
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
    fn what_is_not_whole_is_none() {
        let bytes = work().encode(Layout::Repeat, Order::Big);
        let limits = WorkLimits::default();
        for len in [0, 23, 24, 191, 192, 360, 1287, bytes.len() - 1] {
            let hello = (Version::V0_3_1, Order::Big, 0);
            let refusal = taken(&mut &bytes[..len], hello, &limits).expect_err("it is short");
            assert_eq!(refusal, short(), "{len}");
        }
    }

    #[test]
    fn no_more_than_the_limits() {
        let limits = |strands, transactions, flowops| WorkLimits {
            strands,
            transactions,
            flowops,
            ..WorkLimits::default()
        };
        let work = work();
        assert!(receive(&work, &limits(2, 3, 3)).is_ok());
        for (limits, words) in [
            (limits(1, 3, 3), "2 strands: this slave takes 1"),
            (limits(2, 2, 3), "3 transactions: this slave takes 2"),
            (limits(2, 3, 2), "3 flowops: this slave takes 2"),
        ] {
            let refusal = receive(&work, &limits).expect_err("too much");
            assert_eq!(refusal.to_string(), words);
        }
        let bytes = work.encode(Layout::Repeat, Order::Big);
        let hello = (Version::V0_3_1, Order::Big, 3);
        let refusal = taken(&mut &bytes[..], hello, &WorkLimits::default());
        let refusal = refusal.expect_err("a port too many");
        assert_eq!(refusal.to_string(), "ports of 3 strands for 2 strands");
    }

    #[test]
    fn a_first_flowop_of_no_kind() {
        let mut work = Work::probe();
        work.transactions[0].flowops[0].kind = 12;
        let refusal = receive(&work, &WorkLimits::default()).expect_err("no flowop");
        let words = "the first flowop is of no kind, in no version of uperf";
        assert_eq!(refusal.to_string(), words);
    }

    #[test]
    fn options_that_an_old_slave_lacks() {
        let mut work = work();
        assert_eq!(work.check_layout(Layout::V1_0_7), Ok(()));
        work.transactions[1].flowops[1].repeat = 4;
        assert_eq!(work.check_layout(Layout::Repeat), Ok(()));
        let lacking = work.check_layout(Layout::V1_0_8).expect_err("repeat=");
        assert_eq!(
            lacking,
            "flowop 2 of transaction 2: repeat= is not known to a slave of uperf 1.0.8 and older"
        );
    }

    fn receive(work: &Work, limits: &WorkLimits) -> Result<Received, Refusal> {
        let bytes = work.encode(Layout::BatchSize, Order::Little);
        let hello = (Version::V0_3_1, Order::Little, 0);
        taken(&mut &bytes[..], hello, limits)
    }

    /// Takes a workorder off the front of `bytes`.
    fn taken(
        bytes: &mut &[u8],
        (version, order, slave_infos): (Version, Order, u32),
        limits: &WorkLimits,
    ) -> Result<Received, Refusal> {
        Received::receive(version, order, slave_infos, limits, |buffer, _| {
            let (now, later) = bytes.split_at_checked(buffer.len()).ok_or_else(short)?;
            buffer.copy_from_slice(now);
            *bytes = later;
            Ok(())
        })
    }

    fn short() -> Refusal {
        Refusal::Workorder("it is short".to_owned())
    }

    /// Three transactions with none, two and one flowops.
    fn work() -> Work {
        let accept = FlowopRecord {
            remote_host: Text::cut("127.0.0.1"),
            protocol: 1,
            ..FlowopRecord::new(Kind::Accept)
        };
        let read = FlowopRecord {
            size: 64,
            ..FlowopRecord::new(Kind::Read)
        };
        let flowops = [
            vec![],
            vec![accept, read],
            vec![FlowopRecord::new(Kind::Disconnect)],
        ];
        let transactions = flowops.into_iter().zip(0..);
        Work {
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
        info.set_port(Protocol::Tcp, 5001);
        vec![info.clone(), info]
    }
}
