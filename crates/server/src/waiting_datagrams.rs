//! Datagrams that have arrived at a server's socket and wait until a session accepts their flow.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use engine::FirstDatagram;
use sys::Address;

use crate::flow_sessions::Owner;

/// The maximum numbers of datagrams of accepted flows, and of their bytes, that wait for a session.
/// Further datagrams are dropped.
pub(crate) const MAX_WAITING: usize = 1024;
const MAX_WAITING_BYTES: usize = 4 << 20;

/// The maximum number of sources that may begin a flow with their next datagram. Each takes some
/// 300 bytes, in addition to its datagrams. A flood of 100 Mbit/s has that many in 0.1 s.
pub(crate) const MAX_UNCONFIRMED: usize = 16_384;

/// The maximum number of kept datagrams of one such source.
pub(crate) const MAX_UNCONFIRMED_DATAGRAMS: usize = 64;

/// The time for which a source must send to be more than a burst of forged datagrams.
const MIN_CONTINUOUS_TIME: Duration = Duration::from_millis(100);

/// Datagrams by source. The sources are in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct DatagramQueue {
    sources: HashMap<Address, WaitingSource>,
    order: BTreeMap<u64, Address>,
    last_position: u64,
    pub(crate) datagrams: usize,
    bytes: usize,
}

/// A source, and its datagrams in the order of their arrival.
#[derive(Debug)]
pub(crate) struct WaitingSource {
    pub(crate) owner: Owner,
    pub(crate) datagrams: Vec<FirstDatagram>,
    position: u64,
}

impl DatagramQueue {
    /// Adds a datagram of a source that is in the queue, or adds a source.
    pub(crate) fn push(&mut self, from: &Address, owner: Owner, datagram: FirstDatagram) {
        match self.sources.get_mut(from) {
            Some(source) => {
                self.datagrams += 1;
                self.bytes += datagram.data.len();
                source.datagrams.push(datagram);
            }
            None => self.insert(from.clone(), WaitingSource::new(owner, datagram)),
        }
    }

    /// Adds a source that is not in the queue, as the last one.
    pub(crate) fn insert(&mut self, from: Address, mut source: WaitingSource) {
        self.last_position += 1;
        source.position = self.last_position;
        self.datagrams += source.datagrams.len();
        self.bytes += source.bytes();
        self.order.insert(source.position, from.clone());
        self.sources.insert(from, source);
    }

    /// Removes and returns a source.
    pub(crate) fn remove(&mut self, from: &Address) -> Option<WaitingSource> {
        let source = self.sources.remove(from)?;
        self.order.remove(&source.position);
        self.datagrams -= source.datagrams.len();
        self.bytes -= source.bytes();
        if self.sources.is_empty() {
            // The table of a flood takes some megabytes.
            self.sources.shrink_to_fit();
        }
        Some(source)
    }

    pub(crate) fn get(&self, from: &Address) -> Option<&WaitingSource> {
        self.sources.get(from)
    }

    /// Returns the sources in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Address, &WaitingSource)> {
        let sources = self.order.values();
        sources.filter_map(|from| self.sources.get_key_value(from))
    }

    pub(crate) fn lacks_room_for(&self, length: usize) -> bool {
        self.datagrams > 0
            && (self.datagrams >= MAX_WAITING || self.bytes + length > MAX_WAITING_BYTES)
    }

    /// Adds a source that may begin a flow with its next datagram. The sources that have been silent
    /// for longest make room for it.
    pub(crate) fn insert_unconfirmed(&mut self, from: Address, mut source: WaitingSource) {
        if source.datagrams.len() > MAX_UNCONFIRMED_DATAGRAMS
            && let Some(last) = source.datagrams.pop()
        {
            source.datagrams.truncate(MAX_UNCONFIRMED_DATAGRAMS - 1);
            source.datagrams.push(last);
        }
        let length = source.bytes();
        while self.sources.len() >= MAX_UNCONFIRMED
            || (!self.order.is_empty() && self.bytes + length > MAX_WAITING_BYTES)
        {
            self.pop_first();
        }
        self.insert(from, source);
    }

    /// Removes the sources whose last datagrams are older than `max_age`, if the sources are in the
    /// order of these datagrams.
    pub(crate) fn remove_older(&mut self, max_age: Duration) {
        let first_age = |queue: &Self| queue.iter().next()?.1.last_age();
        while first_age(self) > Some(max_age) {
            self.pop_first();
        }
    }

    fn pop_first(&mut self) {
        if let Some(from) = self.order.values().next().cloned() {
            self.remove(&from);
        }
    }

    /// Changes the owners of all sources. Removes those for which `owner` returns `None`.
    pub(crate) fn set_owners(
        &mut self,
        mut owner: impl FnMut(&Address, &WaitingSource) -> Option<Owner>,
    ) {
        let sources: Vec<Address> = self.order.values().cloned().collect();
        for from in sources {
            let Some(source) = self.sources.get_mut(&from) else {
                continue;
            };
            match owner(&from, source) {
                Some(owner) => source.owner = owner,
                None => drop(self.remove(&from)),
            }
        }
    }
}

impl WaitingSource {
    pub(crate) fn new(owner: Owner, datagram: FirstDatagram) -> Self {
        Self {
            owner,
            datagrams: vec![datagram],
            position: 0,
        }
    }

    /// Returns whether the source has sent for longer than a burst of datagrams takes.
    pub(crate) fn is_continuous(&self) -> bool {
        let first_age = self.datagrams.first().map(FirstDatagram::age);
        first_age >= self.last_age().map(|age| age + MIN_CONTINUOUS_TIME)
    }

    fn last_age(&self) -> Option<Duration> {
        self.datagrams.last().map(FirstDatagram::age)
    }

    fn bytes(&self) -> usize {
        let lengths = self.datagrams.iter().map(|datagram| datagram.data.len());
        lengths.sum()
    }
}
