//! A workorder as it travels: the records of one group, one after the other.

use std::mem::take;

use super::bytes::Order;
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
        let transaction = TransactionWork {
            record: TransactionRecord {
                flowops: 1,
                iterations: 1,
                ..TransactionRecord::default()
            },
            flowops: vec![FlowopRecord::new(Kind::Nop)],
        };
        Self {
            group: GroupRecord {
                strand_kind: 4,
                strands: 1,
                transactions: 1,
                number: 0,
            },
            transactions: vec![transaction],
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
    pub fn check_layout(&self, layout: Layout) -> Result<(), Lacking> {
        for (transaction, work) in self.transactions.iter().enumerate() {
            for (flowop, record) in work.flowops.iter().enumerate() {
                if let Some(option) = record.lacking(layout) {
                    return Err(Lacking {
                        transaction,
                        flowop,
                        option,
                        layout,
                    });
                }
            }
        }
        Ok(())
    }
}

/// An option that cannot be said to a slave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "flowop {} of transaction {}: {option}= is not known to a slave of {layout} and older",
    .flowop + 1,
    .transaction + 1
)]
pub struct Lacking {
    /// Its index in the group.
    pub transaction: usize,
    /// Its index in the transaction.
    pub flowop: usize,
    /// As a profile has it.
    pub option: &'static str,
    /// The slave's.
    pub layout: Layout,
}

/// A workorder that comes in, without trust: it is taken in bits, no more is asked for than what the
/// limits allow, and the layout of the flowops is found out.
///
/// A master whose layout is none of ours may have sent all when more is asked for. So whoever reads
/// for this must not wait for ever.
#[derive(Debug)]
pub struct Assembly {
    version: Version,
    order: Order,
    limits: WorkLimits,
    /// Announced by the header.
    slave_infos: u32,
    group: GroupRecord,
    transactions: Vec<(TransactionRecord, Vec<Box<[u8]>>)>,
    infos: Vec<SlaveInfo>,
    /// Length of a flowop, once it is known.
    flowop_len: Option<usize>,
    /// So many flowops of the last transaction are still to come.
    flowops_left: u32,
    next: Next,
    /// The beginning of what comes next, and how long that is.
    partial: Vec<u8>,
    needed: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Group,
    Transaction,
    Flowop,
    SlaveInfo,
    Nothing,
}

/// A workorder that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its records.
    pub work: Work,
    /// Where the master's strands listen: one for each, or none.
    pub slave_infos: Vec<SlaveInfo>,
    /// That of its flowops, if there are any.
    pub layout: Option<Layout>,
}

impl Assembly {
    /// For what comes behind the header of phase 2, which says version, order and how many
    /// [`SlaveInfo`] there will be.
    pub fn new(version: Version, order: Order, slave_infos: u32, limits: WorkLimits) -> Self {
        Self {
            version,
            order,
            limits,
            slave_infos,
            group: GroupRecord::default(),
            transactions: Vec::new(),
            infos: Vec::new(),
            flowop_len: None,
            flowops_left: 0,
            next: Next::Group,
            partial: Vec::new(),
            needed: GroupRecord::LEN,
        }
    }

    /// How many bytes to read next; 0 when the workorder is whole.
    pub fn needs(&self) -> usize {
        self.needed - self.partial.len()
    }

    /// Bytes of memory that it takes, at most, to keep what it needs next, and then to give the workorder.
    pub fn growth(&self) -> u64 {
        /// A list that grows has up to twice the places, and each piece of memory has a few bytes more.
        const PLACE: usize = 2 * size_of::<Box<[u8]>>() + 16;
        let bytes = match self.next {
            Next::Group | Next::Nothing => 0,
            Next::Transaction => {
                2 * size_of::<(TransactionRecord, Vec<Box<[u8]>>)>() + size_of::<TransactionWork>()
            }
            Next::Flowop => self.needed + PLACE + size_of::<FlowopRecord>(),
            Next::SlaveInfo => 2 * size_of::<SlaveInfo>(),
        };
        bytes as u64
    }

    /// Takes what it needs off the front of `bytes`, and gives the rest.
    pub fn take<'a>(&mut self, mut bytes: &'a [u8]) -> Result<&'a [u8], Refusal> {
        while self.needs() > 0 && !bytes.is_empty() {
            let (now, later) = bytes.split_at(self.needs().min(bytes.len()));
            self.partial.extend(now);
            bytes = later;
            if self.needs() == 0 {
                self.step()?;
            }
        }
        Ok(bytes)
    }

    /// The workorder, if it is whole.
    pub fn finish(self) -> Option<Received> {
        if self.next != Next::Nothing {
            return None;
        }
        let len = self.flowop_len.unwrap_or(usize::MAX);
        let records = self.transactions.iter();
        let records = records.flat_map(|(_, flowops)| flowops.iter().map(|flowop| &**flowop));
        let layout = layout(self.version, len, records);
        let transactions = self.transactions.into_iter();
        let transactions = transactions.map(|(record, flowops)| TransactionWork {
            record,
            flowops: flowops
                .into_iter()
                .filter_map(|flowop| FlowopRecord::decode(&flowop, layout?, self.order))
                .collect(),
        });
        Some(Received {
            work: Work {
                group: self.group,
                transactions: transactions.collect(),
            },
            slave_infos: self.infos,
            layout,
        })
    }

    /// What was needed is there.
    fn step(&mut self) -> Result<(), Refusal> {
        let partial = take(&mut self.partial);
        match self.next {
            Next::Group => self.take_group(&partial)?,
            Next::Transaction => self.take_transaction(&partial)?,
            Next::Flowop => {
                if self.flowop_len.is_none() && !self.find_length(&partial)? {
                    self.partial = partial;
                    return Ok(());
                }
                if let Some((_, flowops)) = self.transactions.last_mut() {
                    flowops.push(partial.into());
                }
                self.flowops_left -= 1;
            }
            Next::SlaveInfo => {
                if let Some(bytes) = partial.first_chunk() {
                    self.infos.push(SlaveInfo::decode(bytes, self.order));
                }
            }
            Next::Nothing => {}
        }
        self.advance();
        Ok(())
    }

    fn take_group(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let bytes = bytes.first_chunk().ok_or(Refusal::Magic)?;
        self.group = GroupRecord::decode(bytes, self.order)?;
        let (strands, limits) = (self.group.strands, &self.limits);
        at_most("strands", strands, limits.strands)?;
        at_most("transactions", self.group.transactions, limits.transactions)?;
        if self.slave_infos != 0 && self.slave_infos != strands {
            return Err(Refusal::Workorder(format!(
                "ports of {} strands for {strands} strands",
                self.slave_infos
            )));
        }
        Ok(())
    }

    fn take_transaction(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let bytes = bytes.first_chunk().ok_or(Refusal::Magic)?;
        let record = TransactionRecord::decode(bytes, self.order);
        let before: u64 = self
            .transactions
            .iter()
            .map(|(record, _)| u64::from(record.flowops))
            .sum();
        let all = before + u64::from(record.flowops);
        at_most("flowops", all, self.limits.flowops)?;
        self.flowops_left = record.flowops;
        self.transactions.push((record, Vec::new()));
        Ok(())
    }

    /// Whether these bytes are a whole flowop; if not, more are needed.
    fn find_length(&mut self, bytes: &[u8]) -> Result<bool, Refusal> {
        match length(self.version, self.order, bytes) {
            Length::More(needed) => {
                self.needed = needed;
                Ok(false)
            }
            Length::Known(len) => {
                self.flowop_len = Some(len);
                Ok(true)
            }
            Length::Unknown => Err(Refusal::Workorder(
                "the first flowop is of no kind, in no version of uperf".to_owned(),
            )),
        }
    }

    fn advance(&mut self) {
        (self.next, self.needed) = if self.flowops_left > 0 {
            let shortest = self.version.shortest_flowop();
            (Next::Flowop, self.flowop_len.unwrap_or(shortest))
        } else if self.transactions.len() < self.group.transactions as usize {
            (Next::Transaction, TransactionRecord::LEN)
        } else if self.infos.len() < self.slave_infos as usize {
            (Next::SlaveInfo, SlaveInfo::LEN)
        } else {
            (Next::Nothing, 0)
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
                // All at once, byte by byte, and in odd lengths.
                for step in [usize::MAX, 1, 333] {
                    let work = work();
                    let mut bytes = work.encode(layout, order);
                    let infos = infos();
                    for info in &infos {
                        bytes.extend(info.encode(order));
                    }
                    bytes.extend(b"behind");

                    let (version, count) = (layout.version(), infos.len() as u32);
                    let mut assembly = Assembly::new(version, order, count, WorkLimits::default());
                    let mut behind = Vec::<u8>::new();
                    for bytes in bytes.chunks(step) {
                        behind.extend(assembly.take(bytes).expect("a workorder"));
                    }
                    assert_eq!(behind, b"behind");
                    assert_eq!(assembly.needs(), 0);
                    let received = assembly.finish().expect("it is whole");
                    assert_eq!(received.work, work);
                    assert_eq!(received.slave_infos, infos);
                    assert_eq!(received.layout, Some(layout));
                }
            }
        }
    }

    #[test]
    fn without_flowops_there_is_no_layout() {
        let mut work = work();
        work.transactions.truncate(1);
        work.group.transactions = 1;
        let received = receive(&work, WorkLimits::default()).expect("a workorder");
        assert_eq!((received.work, received.layout), (work, None));
    }

    #[test]
    fn what_is_not_whole_is_none() {
        let bytes = work().encode(Layout::Repeat, Order::Big);
        for len in [0, 23, 24, 191, 192, 360, 1287, bytes.len() - 1] {
            let limits = WorkLimits::default();
            let mut assembly = Assembly::new(Version::V0_3_1, Order::Big, 0, limits);
            assert_eq!(assembly.take(&bytes[..len]), Ok(&[][..]));
            assert!(assembly.needs() > 0, "{len}");
            assert_eq!(assembly.finish(), None, "{len}");
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
        assert!(receive(&work, limits(2, 3, 3)).is_ok());
        for (limits, words) in [
            (limits(1, 3, 3), "2 strands: this slave takes 1"),
            (limits(2, 2, 3), "3 transactions: this slave takes 2"),
            (limits(2, 3, 2), "3 flowops: this slave takes 2"),
        ] {
            let refusal = receive(&work, limits).expect_err("too much");
            assert_eq!(refusal.to_string(), words);
        }
        let mut assembly = Assembly::new(Version::V0_3_1, Order::Big, 3, WorkLimits::default());
        let refusal = assembly
            .take(&work.encode(Layout::Repeat, Order::Big))
            .expect_err("a port too many");
        assert_eq!(refusal.to_string(), "ports of 3 strands for 2 strands");
    }

    #[test]
    fn a_first_flowop_of_no_kind() {
        let mut work = Work::probe();
        work.transactions[0].flowops[0].kind = 12;
        let refusal = receive(&work, WorkLimits::default()).expect_err("no flowop");
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
            lacking.to_string(),
            "flowop 2 of transaction 2: repeat= is not known to a slave of uperf 1.0.8 and older"
        );
    }

    fn receive(work: &Work, limits: WorkLimits) -> Result<Received, Refusal> {
        let order = Order::Little;
        let mut assembly = Assembly::new(Version::V0_3_1, order, 0, limits);
        assembly.take(&work.encode(Layout::BatchSize, order))?;
        Ok(assembly.finish().expect("it is whole"))
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
