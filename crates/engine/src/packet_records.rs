//! What is known of a datagram that came, and bounded records of each of a flow or of each that was lost.

use model::DatagramFormat;
use sys::stamped::Stamps;

use crate::numbers::Order;

/// When a datagram came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketTimes {
    /// The best that is known, in nanoseconds of the monotonic clock: the kernel's stamp if there is one, which is as right
    /// after a step of the wall clock, or else `user_ns`.
    pub came_ns: u64,
    /// When the call returned that received it, by the monotonic clock.
    pub user_ns: u64,
    /// The stamps as they are; 0 where nobody stamped.
    pub stamps: Stamps,
}

/// One datagram that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketArrival {
    /// Its number, or that of the datagram before if it has none.
    pub number: i64,
    /// What that is to the numbers before.
    pub order: Order,
    /// How far its number is above the highest before it; 0 and less is out of order.
    pub step: i64,
    /// The time of sending that it carries, in nanoseconds.
    pub sent_ns: i64,
    /// Its payload.
    pub bytes: u32,
    /// When it came.
    pub times: PacketTimes,
    /// The time since the one before it came, whichever that was; `None` of the first.
    pub gap_ns: Option<u64>,
}

/// Which datagrams are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// None.
    #[default]
    None,
    /// Those with the numbers from `skip` to before `skip + limit`.
    All {
        /// The first number.
        skip: u64,
        /// How many numbers.
        limit: u64,
    },
    /// Numbers that were passed over, of those from `skip` on.
    Lost {
        /// The first number.
        skip: u64,
        /// How many of them.
        limit: u64,
    },
}

/// One datagram that was received, the first of its number. The record of a number that has not come is [`ReceivedPacket::is_missing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedPacket {
    /// Its number.
    pub number: u64,
    /// Its payload.
    pub bytes: u32,
    /// The time of sending that it carries, in nanoseconds.
    pub sent_ns: i64,
    /// When it came.
    pub times: PacketTimes,
}

/// A number that was passed over, whether or not it came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The number.
    pub number: u64,
    /// When the last datagram before it in turn came.
    pub came_ns: u64,
    /// The time of sending that this one carries.
    pub sent_ns: i64,
}

/// What a [`Recording`] has kept.
#[derive(Debug)]
pub struct PacketRecords {
    recording: Recording,
    packets: Vec<ReceivedPacket>,
    /// Numbers up to the highest that has come, in `packets`.
    used: usize,
    lost: Vec<PassedOver>,
    /// The last datagram in turn.
    last: (u64, i64),
}

impl Recording {
    /// Bytes that its records take; `None` is more than there can be.
    pub(crate) fn footprint(self) -> Option<usize> {
        match self {
            Self::None => Some(0),
            Self::All { limit, .. } => usize::try_from(limit)
                .ok()?
                .checked_mul(size_of::<ReceivedPacket>()),
            Self::Lost { limit, .. } => usize::try_from(limit)
                .ok()?
                .checked_mul(size_of::<PassedOver>()),
        }
    }
}

impl PacketArrival {
    /// What is before a flow's first datagram.
    pub(crate) fn before(format: DatagramFormat) -> Self {
        Self {
            number: i64::from(format.first) - 1,
            order: Order::Alien,
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
            came_ns: 0,
            user_ns: 0,
            stamps: Stamps {
                kernel_ns: 0,
                nic_ns: 0,
            },
        },
    };

    /// Whether it is the record of a number that has not come.
    pub fn is_missing(&self) -> bool {
        self.number == u64::MAX
    }
}

impl PacketRecords {
    /// All memory at once, and written to, so that the first datagrams do not wait for it. `None` if there is none.
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
            last: (0, 0),
        })
    }

    /// A datagram of the flow has come.
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
        let Some(at) = number.checked_sub(skip) else {
            return;
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(place) = self.packets.get_mut(at)
            && place.is_missing()
        {
            *place = ReceivedPacket {
                number,
                bytes: arrival.bytes,
                sent_ns: arrival.sent_ns,
                times: arrival.times,
            };
            self.used = self.used.max(at + 1);
        }
    }

    #[inline]
    fn record_lost(&mut self, arrival: &PacketArrival, skip: u64, limit: u64) {
        if let Order::Ahead { passed_over } = arrival.order {
            let number = arrival.number as u64;
            let (came_ns, sent_ns) = self.last;
            let first = (number - passed_over).max(skip);
            let room = limit - self.lost.len() as u64;
            for number in (first..number).take(usize::try_from(room).unwrap_or(usize::MAX)) {
                self.lost.push(PassedOver {
                    number,
                    came_ns,
                    sent_ns,
                });
            }
        }
        if arrival.step > 0 {
            self.last = (arrival.times.came_ns, arrival.sent_ns);
        }
    }

    /// The records of the numbers from `skip` on, up to the highest that has come; each at its number less `skip`.
    pub fn packets(&self) -> &[ReceivedPacket] {
        &self.packets[..self.used]
    }

    /// Numbers that were passed over.
    pub fn lost(&self) -> &[PassedOver] {
        &self.lost
    }
}
