//! Numbered datagrams from one loop to another.

use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use engine::{
    Buffers, Counters, FirstDatagram, Flow, Job, JobBody, Loop, Memory, Ran, Reason, Stop, run,
};
use model::{
    BufferPlan, ByteOrder, Counts, DatagramCounts, DatagramFormat, Ended, FlowPlan, IoMethod,
    Limit, Pacing, SocketFacts, Stamp, StampClock, StampUnit, Transport, WidthRule, Workload,
};

const FORMAT: DatagramFormat = DatagramFormat {
    number_at: 0,
    high_word_at: Some(12),
    first: 1,
    stamp: Some(Stamp {
        at: 4,
        clock: StampClock::Wall,
        unit: StampUnit::SecondsAndMicros,
    }),
    ends_negative: true,
    order: ByteOrder::BigEndian,
};

const SIZE: u32 = 100;

fn pair() -> (UdpSocket, UdpSocket) {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    (near, far)
}

fn plan(workload: Workload, io: IoMethod) -> FlowPlan {
    let mut flow = FlowPlan::of(Transport::Udp, workload).with_buffers(BufferPlan::message(SIZE));
    flow.datagrams = Some(FORMAT);
    flow.here.io = io;
    flow
}

fn ran(socket: BorrowedFd<'_>, flow: &FlowPlan, limit: Limit, stop: &Stop) -> (Ran, Counters) {
    ran_after(&[], socket, flow, limit, stop)
}

fn ran_after(
    first: &[FirstDatagram],
    socket: BorrowedFd<'_>,
    flow: &FlowPlan,
    limit: Limit,
    stop: &Stop,
) -> (Ran, Counters) {
    let (memory, counters) = (Memory::new(1 << 20, 1 << 20), Counters::default());
    let facts = SocketFacts::default();
    let (half, workload) = (&flow.here, &flow.workload);
    let buffers = Buffers::new(half, workload, flow.transport, &facts, None, b"x", &memory);
    let mut buffers = buffers.unwrap();
    let mut job = Job {
        body: JobBody::Loop(Loop {
            first,
            ..Loop::of(flow, &mut buffers)
        }),
        limit,
        stop,
        counters: &counters,
    };
    let ran = run(&mut job, Flow::Connected(socket));
    (ran, counters)
}

/// Receives to the end mark.
fn received(socket: &UdpSocket, io: IoMethod) -> (Counts, DatagramCounts, Ran) {
    let mut flow = plan(Workload::receive(), io);
    flow.timing.passes = true;
    let (ran, counters) = ran(socket.as_fd(), &flow, Limit::Unlimited, &Stop::new());
    assert_eq!(ran.ended, Ended::PeerClosed);
    (counters.counts(), counters.datagrams().unwrap(), ran)
}

fn end(socket: &UdpSocket, number: i64) {
    let mut last = [0; SIZE as usize];
    FORMAT.write_number(&mut last, -number);
    FORMAT.write_stamp(&mut last, sys::clock::wall_ns());
    socket.send(&last).unwrap();
}

#[test]
fn each_method_numbers_and_counts_what_it_moves() {
    for (sends, receives) in [
        (IoMethod::Plain, IoMethod::Plain),
        (IoMethod::Mmsg, IoMethod::Trunc),
        (IoMethod::Gso, IoMethod::Plain),
        (IoMethod::Plain, IoMethod::Gso),
        (IoMethod::Gso, IoMethod::Gso),
    ] {
        let (near, far) = pair();
        let mut flow = plan(Workload::send(), sends);
        // A batch of two buffers has two datagrams.
        flow.here.send.width = WidthRule::Buffers(2);
        let limit = Limit::Messages(150);
        let receiver = std::thread::spawn(move || received(&far, receives));
        let (sent, counters) = ran(near.as_fd(), &flow, limit, &Stop::new());
        assert_eq!(sent.ended, Ended::Count, "{sends:?}");
        assert_eq!(counters.counts().send_calls, 150);
        assert_eq!(counters.datagrams(), None, "a sender counts none");
        end(&near, 151);
        let (counts, datagrams, ran) = receiver.join().unwrap();
        let what = format!("{sends:?} {receives:?} {datagrams:?}");
        assert_eq!(datagrams.by_order.highest, 151, "{what}");
        // A buffer of loopback has room for all of them.
        assert_eq!((datagrams.received, datagrams.lost), (151, 0), "{what}");
        assert_eq!(
            (datagrams.reordered, datagrams.duplicated),
            (0, 0),
            "{what}"
        );
        assert_eq!(
            (counts.received.0, counts.receive_calls),
            (15_100, 151),
            "{what}"
        );
        assert!(datagrams.jitter < Some(Duration::from_secs(1)), "{what}");
        let delays = datagrams.delays;
        assert_eq!(delays.count, 151);
        let (least, most) = delays.extremes_ns.unwrap();
        assert!(
            (-1_000..10_000_000_000).contains(&least) && most >= least,
            "{what}"
        );
        assert!(ran.latency.is_some_and(|delays| delays.len() > 140));
    }
}

#[test]
fn a_burst_bounds_what_a_call_takes() {
    let (near, far) = pair();
    let mut flow = plan(Workload::send(), IoMethod::Gso);
    flow.here.pacing = Pacing::of_packets(1000, 5);
    let receiver = std::thread::spawn(move || received(&far, IoMethod::Plain));
    let (sent, counters) = ran(near.as_fd(), &flow, Limit::Messages(23), &Stop::new());
    assert_eq!(sent.paced.unwrap().intervals, 5);
    assert_eq!(counters.counts().send_batches, 5);
    end(&near, 24);
    assert_eq!(receiver.join().unwrap().1.received, 24);
}

/// What is too short, or none of the flow's, is bytes and no datagram; an empty one is no end.
#[test]
fn what_has_no_number_is_counted_as_bytes() {
    let (near, far) = pair();
    for data in [&b""[..], b"abc", &[0; 16], b"\0\0\0\x02then"] {
        near.send(data).unwrap();
    }
    end(&near, 3);
    let (counts, datagrams, _) = received(&far, IoMethod::Plain);
    assert_eq!(
        (counts.received.0, counts.receive_calls),
        (3 + 16 + 8 + 100, 5)
    );
    assert_eq!((datagrams.received, datagrams.lost), (2, 1));
}

/// What came before the loop counts first, with its own time.
#[test]
fn first_datagrams_come_first() {
    let (near, far) = pair();
    let first = [1, 3].map(|number| {
        let mut datagram = [0; 20];
        FORMAT.write_number(&mut datagram, number);
        FORMAT.write_stamp(&mut datagram, sys::clock::wall_ns());
        FirstDatagram::now(&datagram)
    });
    end(&near, 4);
    let flow = plan(Workload::receive(), IoMethod::Plain);
    let (ran, counters) = ran_after(&first, far.as_fd(), &flow, Limit::Unlimited, &Stop::new());
    assert_eq!(ran.ended, Ended::PeerClosed);
    let datagrams = counters.datagrams().unwrap();
    assert_eq!((datagrams.received, datagrams.lost), (3, 1));
    assert_eq!(counters.counts().received.0, 140);
    let (least, most) = datagrams.delays.extremes_ns.unwrap();
    assert!(
        least > -1_000_000 && most < 10_000_000_000,
        "{least} {most}"
    );
}

#[test]
fn a_stop_ends_a_receiver() {
    let (_near, far) = pair();
    let stop = Stop::new();
    let puller = stop.clone();
    let thread = std::thread::spawn(move || puller.pull(Reason::Deadline));
    let flow = plan(Workload::receive(), IoMethod::Plain);
    let (ran, counters) = ran(far.as_fd(), &flow, Limit::Unlimited, &stop);
    assert_eq!(ran.ended, Ended::Deadline);
    assert_eq!(counters.datagrams().map(|counts| counts.jitter), Some(None));
    thread.join().unwrap();
}

#[test]
fn receive_calls_are_counted_by_their_sizes() {
    let (near, far) = pair();
    for size in [1, 12, 14, 14, 50, 99, 100, 0] {
        near.send(&[0; 100][..size]).unwrap();
    }
    let mut flow = plan(Workload::receive(), IoMethod::Plain);
    flow.datagrams = None;
    flow.here.count_receive_sizes = true;
    let (ran, counters) = ran(far.as_fd(), &flow, Limit::Unlimited, &Stop::new());
    assert_eq!(ran.ended, Ended::PeerClosed);
    assert_eq!(counters.receive_sizes(), Some([2, 2, 0, 1, 0, 0, 0, 2]));
    assert_eq!(counters.counts().receive_calls, 7);
}

/// A stream's data is counted without being copied.
#[test]
fn truncated_data_is_not_copied() {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.write_all(&[7; 1000]).unwrap();
    drop(near);
    let mut flow = FlowPlan::of(Transport::Tcp, Workload::receive());
    flow = flow.with_buffers(BufferPlan::message(SIZE));
    flow.here.io = IoMethod::Trunc;
    let (ran, counters) = ran(far.as_fd(), &flow, Limit::Unlimited, &Stop::new());
    assert_eq!(ran.ended, Ended::PeerClosed);
    assert_eq!(counters.counts().received.0, 1000);
}
