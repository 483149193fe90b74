//! sendmmsg(2) and recvmmsg(2): one-way datagrams in batches.

use std::os::fd::BorrowedFd;

use sys::batch::DatagramBatch;
use sys::buffer::BufferRing;
use sys::call::{Error, KernelAddress};
use sys::message::{ControlMessage, MessageTotals};

use super::flow::FlowSockets;
use super::method::Io;
use crate::counters::{Counter, CounterWriter};
use crate::end::Budget;
use crate::hooks::Hooks;

/// Maximum datagrams per call.
const MAX_BATCH: usize = 64;

/// A datagram socket; if it is unconnected, also the address that it sends to.
pub(super) struct Mmsg<'a> {
    socket: BorrowedFd<'a>,
    to: Option<KernelAddress>,
    from: Option<ControlMessage>,
}

impl<'a> Mmsg<'a> {
    /// Returns the method for a flow; `None` if the flow has more than one peer.
    pub(super) fn for_flow(flow: &FlowSockets<'a>) -> Option<Self> {
        let (socket, to, from) = match flow {
            FlowSockets::Connected(socket) => (*socket, None, None),
            FlowSockets::Addressed(socket, to) => (*socket, Some(to.clone()), None),
            FlowSockets::AddressedFrom(socket, to, from) => (
                *socket,
                Some(to.clone()),
                Some(ControlMessage::for_source(*from)),
            ),
            FlowSockets::RoundRobin(_) | FlowSockets::OneToMany(_) => return None,
        };
        Some(Self { socket, to, from })
    }

    fn batches<'b>(&'b self, ring: &'b mut BufferRing, counters: CounterWriter<'b>) -> Batches<'b> {
        Batches {
            socket: self.socket,
            batch: DatagramBatch::new(MAX_BATCH, self.to.clone(), self.from.clone()),
            ring,
            counters,
            has_ended: false,
        }
    }
}

impl Io for Mmsg<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn peer(&self) -> Option<&KernelAddress> {
        self.to.as_ref()
    }

    fn send_call<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        counters: CounterWriter<'a>,
    ) -> impl FnMut(&mut H, Budget) -> Result<MessageTotals, Error> {
        let mut batches = self.batches(ring, counters);
        move |hooks: &mut H, budget| batches.send(hooks, budget)
    }

    fn receive_call<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        counters: CounterWriter<'a>,
    ) -> impl FnMut(&mut H, Budget) -> Result<MessageTotals, Error> {
        let mut batches = self.batches(ring, counters);
        move |hooks: &mut H, budget| batches.receive(hooks, budget)
    }
}

/// Moves one batch per call.
///
/// A batch has at most [`MAX_BATCH`] datagrams. It ends with the budget, and at the end of a paced
/// sender's burst.
struct Batches<'a> {
    socket: BorrowedFd<'a>,
    batch: DatagramBatch,
    ring: &'a mut BufferRing,
    counters: CounterWriter<'a>,
    /// Whether the end mark, an empty datagram, has arrived.
    has_ended: bool,
}

impl Batches<'_> {
    /// Returns the maximum number of datagrams for the next call.
    #[inline]
    fn max_datagrams(&self, hooks: &impl Hooks, budget: Budget) -> u64 {
        let limit = budget.messages(self.ring.size());
        hooks.passes_due().min(limit)
    }

    #[inline]
    fn send(&mut self, hooks: &mut impl Hooks, budget: Budget) -> Result<MessageTotals, Error> {
        let (max_datagrams, ring) = (self.max_datagrams(hooks, budget), &mut *self.ring);
        let prepare = |buffer: &mut [u8]| hooks.before_send(buffer);
        let moved = self.batch.send(self.socket, ring, max_datagrams, prepare)?;
        self.counters.add(Counter::SendBatches, 1);
        Ok(moved)
    }

    /// Receives a batch. It does not count datagrams after the end mark: other methods do not
    /// receive these.
    #[inline]
    fn receive(&mut self, hooks: &mut impl Hooks, budget: Budget) -> Result<MessageTotals, Error> {
        let mut data = MessageTotals::default();
        if self.has_ended {
            return Ok(data);
        }
        let (max_datagrams, ring, has_ended) = (
            self.max_datagrams(hooks, budget),
            &mut *self.ring,
            &mut self.has_ended,
        );
        let handle = |datagram: &mut [u8]| {
            *has_ended |= datagram.is_empty();
            if !*has_ended {
                hooks.after_receive(datagram);
                data.messages += 1;
                data.bytes += datagram.len();
            }
        };
        self.batch
            .receive(self.socket, ring, max_datagrams, handle)?;
        if data.messages > 0 {
            self.counters.add(Counter::ReceiveBatches, 1);
        }
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    use model::Transport::Udp;
    use model::{
        BufferPlan, EndCause, EndpointPlan, IoMethod, Limit, Pacing, SocketFacts, Timing, Wait,
        WidthRule, Workload,
    };

    use super::*;
    use crate::{BufferMemory, Buffers, Counters, FlowLoop, Job, JobBody, LoopResult, Stop, run};

    const SIZE: u32 = 10;

    fn endpoint(pacing: Option<Pacing>) -> EndpointPlan {
        let ring = BufferPlan {
            width: WidthRule::Buffers(3),
            ..BufferPlan::message(SIZE)
        };
        EndpointPlan {
            send: ring,
            receive: ring,
            io: IoMethod::Mmsg,
            pacing,
            ..EndpointPlan::default()
        }
    }

    fn run_loop(
        socket: &UdpSocket,
        workload: &Workload,
        limit: Limit,
        endpoint: &EndpointPlan,
        counters: &Counters,
    ) -> LoopResult {
        let memory = BufferMemory::new(1 << 20, 1 << 20);
        let facts = SocketFacts::default();
        let buffers = Buffers::new(endpoint, workload, Udp, &facts, None, b"x", &memory);
        let mut buffers = buffers.unwrap();
        let mut job = Job {
            body: JobBody::Loop(FlowLoop {
                workload,
                burst: 0,
                timing: Timing::default(),
                datagrams: None,
                first_datagrams: &[],
                observer: None,
                shared_limit: None,
                warm_up: Duration::ZERO,
                endpoint,
                buffers: &mut buffers,
                drain_stop: None,
            }),
            limit,
            stop: &Stop::new(),
            counters,
        };
        run(&mut job, FlowSockets::Connected(socket.as_fd()))
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
        // Two full batches and one of the remaining 22 datagrams.
        let limit = Limit::Messages(150);
        let ended = run_loop(&near, &Workload::send(), limit, &endpoint(None), &sent).ended;
        assert_eq!(ended, EndCause::Count);
        // A short datagram counts with its length; datagrams after the end mark do not count.
        for datagram in [&b"abc"[..], b"", b"behind"] {
            near.send(datagram).unwrap();
        }
        let ended = run_loop(
            &far,
            &Workload::receive(),
            Limit::Unlimited,
            &endpoint(None),
            &received,
        )
        .ended;
        assert_eq!(ended, EndCause::PeerClosed);
        let (sent, received) = (sent.counts(), received.counts());
        assert_eq!(
            (sent.sent.0, sent.send_calls, sent.send_batches),
            (1500, 150, 3)
        );
        assert_eq!((received.received.0, received.receive_calls), (1503, 151));
        assert_eq!(received.receive_batches, 3);
    }

    #[test]
    fn each_burst_is_sent_in_separate_batches() {
        let [near, _far] = pair();
        let pacing = Pacing {
            burst: 70,
            interval: Duration::from_millis(1),
            wait: Wait::Sleep,
        };
        let counters = Counters::default();
        let limit = Limit::Messages(210);
        let result = run_loop(
            &near,
            &Workload::send(),
            limit,
            &endpoint(Some(pacing)),
            &counters,
        );
        assert_eq!(result.ended, EndCause::Count);
        let paced = result
            .pacing_result
            .expect("a paced loop has a pacing result");
        assert_eq!((paced.passes, paced.intervals), (210, 3));
        // 64 and 6 per interval.
        assert_eq!(
            (counters.counts().send_calls, counters.counts().send_batches),
            (210, 6)
        );
    }
}
