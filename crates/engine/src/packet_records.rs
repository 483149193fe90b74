//! The data of a received datagram, and bounded records of all or of the lost datagrams of a flow.

use model::DatagramFormat;
use sys::stamped::ArrivalStamps;

use crate::numbers::ArrivalOrder;

/// Arrival times of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketTimes {
    /// Best known arrival time, in nanoseconds of the monotonic clock. It is the kernel's stamp,
    /// corrected for steps of the wall clock; without a stamp it is `user_ns`.
    pub arrival_ns: u64,
    /// Time at which the receive call returned, by the monotonic clock.
    pub user_ns: u64,
    /// The original stamps; 0 if missing.
    pub stamps: ArrivalStamps,
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketArrival {
    /// Its number; without one, that of the datagram before.
    pub number: i64,
    /// Its number relative to the earlier numbers.
    pub order: ArrivalOrder,
    /// Its number minus the highest number before it; 0 or less if it is out of order.
    pub step: i64,
    /// The send time that it carries, in nanoseconds.
    pub sent_ns: i64,
    /// Bytes of its payload.
    pub bytes: u32,
    /// Its arrival times.
    pub times: PacketTimes,
    /// Time since the previous arrival, of any number; `None` for the first.
    pub gap_ns: Option<u64>,
}

/// Which datagrams are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// None.
    #[default]
    None,
    /// Numbers from `skip` up to, but not including, `skip + limit`.
    All {
        /// The first number.
        skip: u64,
        /// How many numbers.
        limit: u64,
    },
    /// Numbers that were passed over, from `skip` on.
    Lost {
        /// The first number.
        skip: u64,
        /// Maximum number of records.
        limit: u64,
    },
}

/// The record of one number: the first datagram with this number. [`ReceivedPacket::is_missing`]
/// marks the record of a number that has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedPacket {
    /// Its number.
    pub number: u64,
    /// Bytes of its payload.
    pub bytes: u32,
    /// The send time that it carries, in nanoseconds.
    pub sent_ns: i64,
    /// Its arrival times.
    pub times: PacketTimes,
}

/// A number in a gap of the numbers, whether or not it arrived later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedNumber {
    /// The number.
    pub number: u64,
    /// Arrival time of the datagram that had the highest number before the gap.
    pub previous_arrival_ns: u64,
    /// The send time in that datagram, in nanoseconds.
    pub previous_sent_ns: i64,
}

/// The records of a [`Recording`].
#[derive(Debug)]
pub struct PacketRecords {
    recording: Recording,
    packets: Vec<ReceivedPacket>,
    /// Records in use in `packets`, up to the highest number that has arrived.
    used: usize,
    lost: Vec<SkippedNumber>,
    /// Arrival and send time of the last datagram with a new highest number.
    last_highest: (u64, i64),
}

impl Recording {
    /// Returns the memory of the records in bytes; `None` on overflow.
    pub(crate) fn footprint(self) -> Option<usize> {
        match self {
            Self::None => Some(0),
            Self::All { limit, .. } => usize::try_from(limit)
                .ok()?
                .checked_mul(size_of::<ReceivedPacket>()),
            Self::Lost { limit, .. } => usize::try_from(limit)
                .ok()?
                .checked_mul(size_of::<SkippedNumber>()),
        }
    }
}

impl PacketArrival {
    /// Returns the state before a flow's first datagram.
    pub(crate) fn initial(format: DatagramFormat) -> Self {
        Self {
            number: i64::from(format.first_number) - 1,
            order: ArrivalOrder::Invalid,
            step: 0,
            sent_ns: 0,
            bytes: 0,
            times: PacketTimes::default(),
            gap_ns: None,
        }
    }
}

impl ReceivedPacket {
    const MISSING: Self = Self {
        number: u64::MAX,
        bytes: 0,
        sent_ns: 0,
        times: PacketTimes {
            arrival_ns: 0,
            user_ns: 0,
            stamps: ArrivalStamps {
                kernel_ns: 0,
                nic_ns: 0,
            },
        },
    };

    /// Returns whether this is the record of a number that has not arrived.
    pub fn is_missing(&self) -> bool {
        self.number == u64::MAX
    }
}

impl PacketRecords {
    /// Allocates all memory and writes to it, so that the first datagrams do not wait for page
    /// faults. Returns `None` if there is not enough memory.
    pub(crate) fn new(recording: Recording) -> Option<Self> {
        let (mut packets, mut lost) = (Vec::new(), Vec::new());
        match recording {
            Recording::None => {}
            Recording::All { limit, .. } => {
                let limit = usize::try_from(limit).ok()?;
                packets.try_reserve_exact(limit).ok()?;
                packets.resize(limit, ReceivedPacket::MISSING);
            }
            Recording::Lost { limit, .. } => {
                lost.try_reserve_exact(usize::try_from(limit).ok()?).ok()?;
            }
        }
        Some(Self {
            recording,
            packets,
            used: 0,
            lost,
            last_highest: (0, 0),
        })
    }

    /// Records a datagram of the flow.
    #[inline]
    pub(crate) fn record(&mut self, arrival: &PacketArrival) {
        match self.recording {
            Recording::None => {}
            Recording::All { skip, .. } => self.record_packet(arrival, skip),
            Recording::Lost { skip, limit } => self.record_lost(arrival, skip, limit),
        }
    }

    #[inline]
    fn record_packet(&mut self, arrival: &PacketArrival, skip: u64) {
        let number = arrival.number as u64;
        let Some(index) = number.checked_sub(skip) else {
            return;
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(record) = self.packets.get_mut(index)
            && record.is_missing()
        {
            *record = ReceivedPacket {
                number,
                bytes: arrival.bytes,
                sent_ns: arrival.sent_ns,
                times: arrival.times,
            };
            self.used = self.used.max(index + 1);
        }
    }

    #[inline]
    fn record_lost(&mut self, arrival: &PacketArrival, skip: u64, limit: u64) {
        if let ArrivalOrder::Ahead { passed_over } = arrival.order {
            let number = arrival.number as u64;
            let (previous_arrival_ns, previous_sent_ns) = self.last_highest;
            let first = (number - passed_over).max(skip);
            let capacity = limit - self.lost.len() as u64;
            for number in (first..number).take(usize::try_from(capacity).unwrap_or(usize::MAX)) {
                self.lost.push(SkippedNumber {
                    number,
                    previous_arrival_ns,
                    previous_sent_ns,
                });
            }
        }
        if arrival.step > 0 {
            self.last_highest = (arrival.times.arrival_ns, arrival.sent_ns);
        }
    }

    /// Returns the records of the numbers from `skip` up to the highest that has arrived; the index
    /// is the number minus `skip`.
    pub fn packets(&self) -> &[ReceivedPacket] {
        &self.packets[..self.used]
    }

    /// Returns the numbers that were passed over.
    pub fn lost(&self) -> &[SkippedNumber] {
        &self.lost
    }
}
