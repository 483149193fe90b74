//! sendmmsg(2) and recvmmsg(2): one-way datagrams in batches.

use std::os::fd::BorrowedFd;

use sys::batch::Batch;
use sys::buffer::BufferRing;
use sys::call::{Error, Peer};
use sys::message::{ControlMessage, Moved};

use super::flow::Flow;
use super::method::Io;
use crate::counters::Counter;
use crate::end::Bounds;
use crate::hooks::Hooks;

/// Datagrams in one call, at most.
const BATCH: usize = 64;

/// A datagram socket, and the peer that an unconnected one sends to.
pub(super) struct Mmsg<'a> {
    socket: BorrowedFd<'a>,
    to: Option<Peer>,
    from: Option<ControlMessage>,
}

impl<'a> Mmsg<'a> {
    /// `None` if the flow has more than one peer.
    pub(super) fn of(flow: &Flow<'a>) -> Option<Self> {
        let (socket, to, from) = match flow {
            Flow::Connected(socket) => (*socket, None, None),
            Flow::Addressed(socket, to) => (*socket, Some(to.clone()), None),
            Flow::AddressedFrom(socket, to, from) => (
                *socket,
                Some(to.clone()),
                Some(ControlMessage::source(*from)),
            ),
            Flow::InTurn(_) | Flow::OneToMany(_) => return None,
        };
        Some(Self { socket, to, from })
    }

    fn batches<'b>(&'b self, ring: &'b mut BufferRing, bounds: Bounds<'b>) -> Batches<'b> {
        Batches {
            socket: self.socket,
            batch: Batch::new(BATCH, self.to.clone(), self.from.clone()),
            ring,
            bounds,
            has_ended: false,
        }
    }
}

impl Io for Mmsg<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn peer(&self) -> Option<&Peer> {
        self.to.as_ref()
    }

    fn source<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        bounds: Bounds<'a>,
    ) -> impl FnMut(&mut H) -> Result<Moved, Error> {
        let mut batches = self.batches(ring, bounds);
        move |hooks: &mut H| batches.send(hooks)
    }

    fn sink<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        bounds: Bounds<'a>,
    ) -> impl FnMut(&mut H) -> Result<Moved, Error> {
        let mut batches = self.batches(ring, bounds);
        move |hooks: &mut H| batches.receive(hooks)
    }
}

/// One batch per call: at most [`BATCH`] datagrams, the rest of the limit, and of a paced sender the rest
/// of the interval's burst.
struct Batches<'a> {
    socket: BorrowedFd<'a>,
    batch: Batch,
    ring: &'a mut BufferRing,
    bounds: Bounds<'a>,
    /// An empty datagram, the end mark, came behind others.
    has_ended: bool,
}

impl Batches<'_> {
    /// Datagrams that may go in the next call.
    #[inline]
    fn most(&self, hooks: &impl Hooks) -> u64 {
        let of_limit = self.bounds.budget.messages(self.ring.size());
        hooks.turns_left().min(of_limit)
    }

    /// Keeps the limit.
    #[inline]
    fn note(&mut self, moved: Moved) -> Moved {
        self.bounds.budget.spend(moved.bytes as u64);
        moved
    }

    #[inline]
    fn send(&mut self, hooks: &mut impl Hooks) -> Result<Moved, Error> {
        let (most, ring) = (self.most(hooks), &mut *self.ring);
        let prepare = |buffer: &mut [u8]| hooks.before_send(buffer);
        let moved = self.batch.send(self.socket, ring, most, prepare)?;
        self.bounds.counters.add(Counter::SendBatches, 1);
        Ok(self.note(moved))
    }

    /// Datagrams behind an end mark are not counted, as in other methods, which do not receive them.
    #[inline]
    fn receive(&mut self, hooks: &mut impl Hooks) -> Result<Moved, Error> {
        let mut data = Moved::default();
        if self.has_ended {
            return Ok(data);
        }
        let (most, ring, has_ended) = (self.most(hooks), &mut *self.ring, &mut self.has_ended);
        let taken = |datagram: &mut [u8]| {
            *has_ended |= datagram.is_empty();
            if !*has_ended {
                hooks.after_receive(datagram);
                data.messages += 1;
                data.bytes += datagram.len();
            }
        };
        self.batch.receive(self.socket, ring, most, taken)?;
        if data.messages > 0 {
            self.bounds.counters.add(Counter::ReceiveBatches, 1);
        }
        Ok(self.note(data))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    use model::Transport::Udp;
    use model::{
        BufferPlan, Ended, Half, IoMethod, Limit, Pacing, SocketFacts, Timing, Wait, WidthRule,
        Workload,
    };

    use super::*;
    use crate::{Buffers, Counters, Job, JobBody, Loop, Memory, Ran, Stop, run};

    const SIZE: u32 = 10;

    fn half(pacing: Option<Pacing>) -> Half {
        let ring = BufferPlan {
            width: WidthRule::Buffers(3),
            ..BufferPlan::message(SIZE)
        };
        Half {
            send: ring,
            receive: ring,
            io: IoMethod::Mmsg,
            pacing,
            ..Half::default()
        }
    }

    fn ran(
        socket: &UdpSocket,
        workload: &Workload,
        limit: Limit,
        half: &Half,
        counters: &Counters,
    ) -> Ran {
        let memory = Memory::new(1 << 20, 1 << 20);
        let facts = SocketFacts::default();
        let buffers = Buffers::new(half, workload, Udp, &facts, None, b"x", &memory);
        let mut buffers = buffers.unwrap();
        let mut job = Job {
            body: JobBody::Loop(Loop {
                workload,
                burst: 0,
                timing: Timing::default(),
                datagrams: None,
                first: &[],
                watch: None,
                warm_up: Duration::ZERO,
                half,
                buffers: &mut buffers,
                drain: None,
            }),
            limit,
            stop: &Stop::new(),
            counters,
        };
        run(&mut job, Flow::Connected(socket.as_fd()))
    }

    fn pair() -> [UdpSocket; 2] {
        let pair = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        pair[0].connect(pair[1].local_addr().unwrap()).unwrap();
        pair
    }

    #[test]
    fn both_ends_count_each_datagram_and_each_call() {
        let [near, far] = pair();
        let (sent, received) = (Counters::default(), Counters::default());
        // Two whole batches, and one of what is left.
        let limit = Limit::Messages(150);
        let ended = ran(&near, &Workload::send(), limit, &half(None), &sent).ended;
        assert_eq!(ended, Ended::Count);
        // A shorter datagram counts what it has, and nothing counts behind the end mark.
        for datagram in [&b"abc"[..], b"", b"behind"] {
            near.send(datagram).unwrap();
        }
        let ended = ran(
            &far,
            &Workload::receive(),
            Limit::Unlimited,
            &half(None),
            &received,
        )
        .ended;
        assert_eq!(ended, Ended::PeerClosed);
        let (sent, received) = (sent.counts(), received.counts());
        assert_eq!(
            (sent.sent.0, sent.send_calls, sent.send_batches),
            (1500, 150, 3)
        );
        assert_eq!((received.received.0, received.receive_calls), (1503, 151));
        assert_eq!(received.receive_batches, 3);
    }

    #[test]
    fn a_burst_is_sent_in_batches_of_its_own() {
        let [near, _far] = pair();
        let pacing = Pacing {
            burst: 70,
            interval: Duration::from_millis(1),
            wait: Wait::Sleep,
        };
        let counters = Counters::default();
        let limit = Limit::Messages(210);
        let ran = ran(
            &near,
            &Workload::send(),
            limit,
            &half(Some(pacing)),
            &counters,
        );
        assert_eq!(ran.ended, Ended::Count);
        let paced = ran.paced.expect("it was paced");
        assert_eq!((paced.passes, paced.intervals), (210, 3));
        // 64 and 6 per interval.
        assert_eq!(
            (counters.counts().send_calls, counters.counts().send_batches),
            (210, 6)
        );
    }
}
