//! Numbered datagrams between two loops.

use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use engine::{
    BufferMemory, Buffers, Counters, FirstDatagram, FlowLoop, FlowSockets, Job, JobBody,
    LoopResult, SharedLimit, Stop, StopReason, run,
};
use model::{
    BufferPlan, ByteOrder, Counts, DatagramCounts, DatagramFormat, EndCause, FlowPlan, IoMethod,
    Limit, Pacing, SocketFacts, Stamp, StampClock, StampUnit, Transport, WidthRule, Workload,
};

const FORMAT: DatagramFormat = DatagramFormat {
    number_offset: 0,
    high_word_offset: Some(12),
    first_number: 1,
    stamp: Some(Stamp {
        offset: 4,
        clock: StampClock::Wall,
        unit: StampUnit::SecondsAndMicros,
    }),
    ends_negative: true,
    byte_order: ByteOrder::BigEndian,
};

const SIZE: u32 = 100;

fn pair() -> (UdpSocket, UdpSocket) {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    (near, far)
}

fn plan(workload: Workload, io: IoMethod) -> FlowPlan {
    let mut flow = FlowPlan::new(Transport::Udp, workload).with_buffers(BufferPlan::message(SIZE));
    flow.datagrams = Some(FORMAT);
    flow.local.io = io;
    flow
}

fn run_flow(
    socket: BorrowedFd<'_>,
    flow: &FlowPlan,
    limit: Limit,
    stop: &Stop,
) -> (LoopResult, Counters) {
    run_flow_with(&[], None, socket, flow, limit, stop)
}

fn run_flow_with(
    first: &[FirstDatagram],
    shared_limit: Option<&SharedLimit>,
    socket: BorrowedFd<'_>,
    flow: &FlowPlan,
    limit: Limit,
    stop: &Stop,
) -> (LoopResult, Counters) {
    let (memory, counters) = (BufferMemory::new(1 << 20, 1 << 20), Counters::default());
    let facts = SocketFacts::default();
    let (endpoint, workload) = (&flow.local, &flow.workload);
    let buffers = Buffers::new(
        endpoint,
        workload,
        flow.transport,
        &facts,
        None,
        b"x",
        &memory,
    );
    let mut buffers = buffers.unwrap();
    let mut job = Job {
        body: JobBody::Loop(FlowLoop {
            first_datagrams: first,
            shared_limit,
            ..FlowLoop::for_flow(flow, &mut buffers)
        }),
        limit,
        stop,
        counters: &counters,
    };
    let result = run(&mut job, FlowSockets::Connected(socket));
    (result, counters)
}

/// Receives until the end mark.
fn receive_to_end(socket: &UdpSocket, io: IoMethod) -> (Counts, DatagramCounts, LoopResult) {
    let mut flow = plan(Workload::receive(), io);
    flow.timing.passes = true;
    let (result, counters) = run_flow(socket.as_fd(), &flow, Limit::Unlimited, &Stop::new());
    assert_eq!(result.ended, EndCause::PeerClosed);
    (counters.counts(), counters.datagrams().unwrap(), result)
}

#[test]
fn senders_share_a_limit_with_each_io_method() {
    const DATAGRAMS: u64 = 1000;
    for io in [IoMethod::OnePerCall, IoMethod::Mmsg, IoMethod::Gso] {
        let limit = SharedLimit::new(DATAGRAMS * u64::from(SIZE) - 1, SIZE, 3);
        limit.begin(0);
        let run_sender = || {
            let ((near, _far), flow) = (pair(), plan(Workload::send(), io));
            let (no_limit, stop) = (Limit::Unlimited, Stop::new());
            let socket = near.as_fd();
            let (result, counters) =
                run_flow_with(&[], Some(&limit), socket, &flow, no_limit, &stop);
            assert_eq!(result.ended, EndCause::Count, "{io:?}");
            counters.counts().send_calls
        };
        let datagrams: u64 = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..3).map(|_| scope.spawn(run_sender)).collect();
            let counts = senders.into_iter().map(|sender| sender.join().unwrap());
            counts.sum()
        });
        assert_eq!(datagrams, DATAGRAMS, "{io:?}");
    }
}

/// The own limit of a sender applies, too. At a reached limit, a sender sends nothing.
#[test]
fn a_sender_has_its_own_limit_beside_a_shared_one() {
    let (near, _far) = pair();
    let flow = plan(Workload::send(), IoMethod::OnePerCall);
    let limit = SharedLimit::new(10 * u64::from(SIZE), SIZE, 2);
    limit.begin(0);
    for (own, expected) in [(4, 4), (20, 6), (20, 0)] {
        let (own, stop) = (Limit::Messages(own), Stop::new());
        let socket = near.as_fd();
        let (result, counters) = run_flow_with(&[], Some(&limit), socket, &flow, own, &stop);
        assert_eq!(result.ended, EndCause::Count);
        assert_eq!(counters.counts().send_calls, expected);
    }
}

fn send_end_mark(socket: &UdpSocket, number: i64) {
    let mut last = [0; SIZE as usize];
    FORMAT.write_number(&mut last, -number);
    FORMAT.write_stamp(&mut last, sys::clock::wall_ns());
    socket.send(&last).unwrap();
}

#[test]
fn each_io_method_numbers_and_counts_datagrams() {
    for (send_method, receive_method) in [
        (IoMethod::OnePerCall, IoMethod::OnePerCall),
        (IoMethod::Mmsg, IoMethod::Trunc),
        (IoMethod::Gso, IoMethod::OnePerCall),
        (IoMethod::OnePerCall, IoMethod::Gso),
        (IoMethod::Gso, IoMethod::Gso),
    ] {
        let (near, far) = pair();
        let mut flow = plan(Workload::send(), send_method);
        // A batch of two buffers has two datagrams.
        flow.local.send.width = WidthRule::Buffers(2);
        let limit = Limit::Messages(150);
        let receiver = std::thread::spawn(move || receive_to_end(&far, receive_method));
        let (sent, counters) = run_flow(near.as_fd(), &flow, limit, &Stop::new());
        assert_eq!(sent.ended, EndCause::Count, "{send_method:?}");
        assert_eq!(counters.counts().send_calls, 150);
        assert_eq!(counters.datagrams(), None, "a sender counts no datagrams");
        send_end_mark(&near, 151);
        let (counts, datagrams, result) = receiver.join().unwrap();
        let context = format!("{send_method:?} {receive_method:?} {datagrams:?}");
        assert_eq!(datagrams.highest_number_counts.highest, 151, "{context}");
        // The socket buffer has room for all of them.
        assert_eq!((datagrams.received, datagrams.lost), (151, 0), "{context}");
        assert_eq!(
            (datagrams.reordered, datagrams.duplicated),
            (0, 0),
            "{context}"
        );
        assert_eq!(
            (counts.received.0, counts.receive_calls),
            (15_100, 151),
            "{context}"
        );
        assert!(datagrams.jitter < Some(Duration::from_secs(1)), "{context}");
        let delays = datagrams.delays;
        assert_eq!(delays.count, 151);
        let (min, max) = delays.extremes_ns.unwrap();
        assert!(
            (-1_000..10_000_000_000).contains(&min) && max >= min,
            "{context}"
        );
        assert!(result.latency.is_some_and(|delays| delays.len() > 140));
    }
}

#[test]
fn a_burst_limits_datagrams_per_call() {
    let (near, far) = pair();
    let mut flow = plan(Workload::send(), IoMethod::Gso);
    flow.local.pacing = Pacing::from_packet_rate(1000, 5);
    let receiver = std::thread::spawn(move || receive_to_end(&far, IoMethod::OnePerCall));
    let (sent, counters) = run_flow(near.as_fd(), &flow, Limit::Messages(23), &Stop::new());
    assert_eq!(sent.pacing_result.unwrap().intervals, 5);
    assert_eq!(counters.counts().send_batches, 5);
    send_end_mark(&near, 24);
    assert_eq!(receiver.join().unwrap().1.received, 24);
}

/// A datagram that is too short or not part of the flow counts as bytes only. An empty one does not
/// end the flow.
#[test]
fn datagrams_without_a_number_count_as_bytes() {
    let (near, far) = pair();
    for data in [&b""[..], b"abc", &[0; 16], b"\0\0\0\x02then"] {
        near.send(data).unwrap();
    }
    send_end_mark(&near, 3);
    let (counts, datagrams, _) = receive_to_end(&far, IoMethod::OnePerCall);
    assert_eq!(
        (counts.received.0, counts.receive_calls),
        (3 + 16 + 8 + 100, 5)
    );
    assert_eq!((datagrams.received, datagrams.lost), (2, 1));
}

/// Datagrams that arrived before the loop count first, with their own arrival times.
#[test]
fn first_datagrams_count_before_the_loop() {
    let (near, far) = pair();
    let first = [1, 3].map(|number| {
        let mut datagram = [0; 20];
        FORMAT.write_number(&mut datagram, number);
        FORMAT.write_stamp(&mut datagram, sys::clock::wall_ns());
        FirstDatagram::received_now(&datagram)
    });
    send_end_mark(&near, 4);
    let flow = plan(Workload::receive(), IoMethod::OnePerCall);
    let (result, counters) = run_flow_with(
        &first,
        None,
        far.as_fd(),
        &flow,
        Limit::Unlimited,
        &Stop::new(),
    );
    assert_eq!(result.ended, EndCause::PeerClosed);
    let datagrams = counters.datagrams().unwrap();
    assert_eq!((datagrams.received, datagrams.lost), (3, 1));
    assert_eq!(counters.counts().received.0, 140);
    let (min, max) = datagrams.delays.extremes_ns.unwrap();
    assert!(min > -1_000_000 && max < 10_000_000_000, "{min} {max}");
}

#[test]
fn a_stop_ends_a_receiver() {
    let (_near, far) = pair();
    let stop = Stop::new();
    let thread_stop = stop.clone();
    let thread = std::thread::spawn(move || thread_stop.set(StopReason::Deadline));
    let flow = plan(Workload::receive(), IoMethod::OnePerCall);
    let (result, counters) = run_flow(far.as_fd(), &flow, Limit::Unlimited, &stop);
    assert_eq!(result.ended, EndCause::Deadline);
    assert_eq!(counters.datagrams().map(|counts| counts.jitter), Some(None));
    thread.join().unwrap();
}

#[test]
fn receive_calls_are_counted_by_their_sizes() {
    let (near, far) = pair();
    for size in [1, 12, 14, 14, 50, 99, 100, 0] {
        near.send(&[0; 100][..size]).unwrap();
    }
    let mut flow = plan(Workload::receive(), IoMethod::OnePerCall);
    flow.datagrams = None;
    flow.local.count_receive_sizes = true;
    let (result, counters) = run_flow(far.as_fd(), &flow, Limit::Unlimited, &Stop::new());
    assert_eq!(result.ended, EndCause::PeerClosed);
    assert_eq!(counters.receive_sizes(), Some([2, 2, 0, 1, 0, 0, 0, 2]));
    assert_eq!(counters.counts().receive_calls, 7);
}

/// `MSG_TRUNC` discards the data of a stream in the kernel.
#[test]
fn discarded_stream_data_is_counted() {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.write_all(&[7; 1000]).unwrap();
    drop(near);
    let mut flow = FlowPlan::new(Transport::Tcp, Workload::receive());
    flow = flow.with_buffers(BufferPlan::message(SIZE));
    flow.local.io = IoMethod::Trunc;
    let (result, counters) = run_flow(far.as_fd(), &flow, Limit::Unlimited, &Stop::new());
    assert_eq!(result.ended, EndCause::PeerClosed);
    assert_eq!(counters.counts().received.0, 1000);
}
