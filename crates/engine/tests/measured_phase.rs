//! Both ends of a stream, each in its measured phase, as a dialect runs them.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    Buffers, DataSocket, Finish, Flow, Loop, MeasuredPhase, Memory, PhaseSettings, Reason, Role,
    Stop, deadline_thread, open_stream, run_stream,
};
use model::{
    BufferPlan, Ended, FlowPlan, Half, Limit, Side, SocketOptions, Timing, Transport, Workload,
};
use sys::{Address, Socket};

/// How long a sender sends.
const TIME: Duration = Duration::from_millis(30);

/// More than a busy machine needs.
const LONG: Duration = Duration::from_secs(30);

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// One end of a stream: a sender has a deadline, a receiver reads to the end.
fn run_end(
    data: &TcpStream,
    workload: &Workload,
    control: Option<BorrowedFd<'_>>,
    idle: Duration,
) -> (Side, Ended) {
    let half = Half {
        send: BufferPlan::message(100),
        receive: BufferPlan::message(100),
        ..Half::default()
    };
    let any = Address::from(data.local_addr().unwrap()).with_any_port();
    let options = SocketOptions::default();
    let socket = DataSocket::open(Transport::Tcp, &any, &options, Role::Initiator).unwrap();
    let memory = Memory::new(1 << 16, 1 << 16);
    let facts = &socket.facts;
    let buffers = Buffers::new(&half, workload, Transport::Tcp, facts, None, b"x", &memory);
    let mut buffers = buffers.unwrap();
    let counters = Arc::default();
    let settings = PhaseSettings {
        counters: &counters,
        cancel: &Stop::new(),
        control,
        time: workload.sends().then_some(TIME),
        idle: Some(idle),
        group: None,
    };
    let mut phase = MeasuredPhase::start(&half, settings);
    let body = Loop {
        workload,
        burst: 0,
        timing: Timing::default(),
        datagrams: None,
        first: &[],
        watch: None,
        warm_up: Duration::ZERO,
        half: &half,
        buffers: &mut buffers,
        drain: None,
    };
    let path = || Flow::Connected(data.as_fd());
    let ran = phase.run(Limit::Unlimited, body, path());
    if workload.sends() {
        let loop_ended = phase.passed.elapsed;
        phase.finish(Finish::HalfClose, &path(), LONG).unwrap();
        assert!(
            phase.passed.elapsed > loop_ended,
            "the drain belongs to the time"
        );
    }
    let (ended, facts) = (ran.ended.clone(), socket.facts.clone());
    (phase.side(ran, &socket, &buffers, facts), ended)
}

#[test]
fn both_ends_of_a_stream_agree() {
    let (near, far) = pair();
    let ((sender, time_up), (receiver, read_all)) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| run_end(&near, &Workload::send(), None, LONG));
        let receiver = run_end(&far, &Workload::receive(), None, LONG);
        drop(far);
        (sender.join().unwrap(), receiver)
    });
    assert_eq!((time_up, read_all), (Ended::Deadline, Ended::PeerClosed));
    assert_eq!(sender.counts.sent, receiver.counts.received);
    assert!(sender.counts.sent.0 > 0 && sender.elapsed >= Some(TIME));
}

/// One end of a stream, by one call.
fn run_whole(data: TcpStream, workload: Workload, patience: Duration) -> io::Result<(Side, Ended)> {
    let flow = FlowPlan {
        limit: Limit::Time(TIME),
        ..FlowPlan::of(Transport::Tcp, workload).with_buffers(BufferPlan::message(100))
    };
    let any = Address::from(data.local_addr().unwrap()).with_any_port();
    let memory = Memory::new(1 << 16, 1 << 16);
    let (socket, mut buffers) = open_stream(&flow, Role::Initiator, &any, b"x", &memory)?;
    let ends = (&socket, &Socket::from(data));
    run_stream(&flow, ends, &mut buffers, None, patience, &Stop::new())
}

#[test]
fn a_stream_runs_in_one_call() {
    let (near, far) = pair();
    let ((sender, time_up), (receiver, read_all)) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| run_whole(near, Workload::send(), LONG));
        let receiver = run_whole(far, Workload::receive(), LONG);
        (sender.join().unwrap().unwrap(), receiver.unwrap())
    });
    assert_eq!((time_up, read_all), (Ended::Deadline, Ended::PeerClosed));
    assert_eq!(sender.counts.sent, receiver.counts.received);
    assert!(sender.counts.sent.0 > 0 && sender.elapsed >= Some(TIME));
}

/// Resets a connection instead of ending it.
fn reset(connection: TcpStream) {
    let connection = Socket::from(connection);
    connection.set_linger(Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_reset_is_no_end_of_a_stream() {
    for workload in [Workload::send(), Workload::receive()] {
        let (near, far) = pair();
        reset(far);
        let failed = run_whole(near, workload, LONG).unwrap_err();
        assert_eq!(failed.to_string(), "the peer reset the stream");
    }
    let (near, mut far) = pair();
    let drained = std::thread::spawn(move || {
        io::copy(&mut far, &mut io::sink()).unwrap();
        reset(far);
    });
    let failed = run_whole(near, Workload::send(), LONG).unwrap_err();
    let expected = "the peer did not read all of the stream: Connection reset by peer";
    assert_eq!(failed.to_string(), expected);
    drained.join().unwrap();
}

#[test]
fn a_long_call_is_no_silence() {
    const MUCH: u32 = 32 << 20;
    let flow = FlowPlan {
        limit: Limit::Bytes(MUCH.into()),
        ..FlowPlan::of(Transport::Tcp, Workload::send()).with_buffers(BufferPlan::message(MUCH))
    };
    let (near, mut far) = pair();
    let slow = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while far.read(&mut buffer).unwrap() > 0 {
            std::thread::sleep(Duration::from_millis(4));
        }
    });
    let any = Address::from(near.local_addr().unwrap()).with_any_port();
    let memory = Memory::new(u64::MAX, u64::MAX);
    let (socket, mut buffers) = open_stream(&flow, Role::Initiator, &any, b"x", &memory).unwrap();
    let (ends, stop) = ((&socket, &Socket::from(near)), Stop::new());
    let patience = Duration::from_millis(200);
    let (side, ended) = run_stream(&flow, ends, &mut buffers, None, patience, &stop).unwrap();
    assert_eq!((side.counts.sent.0, ended), (MUCH.into(), Ended::Count));
    slow.join().unwrap();
}

#[test]
fn a_slow_drain_is_no_silence() {
    let flow = FlowPlan {
        limit: Limit::Bytes(2 << 20),
        ..FlowPlan::of(Transport::Tcp, Workload::send()).with_buffers(BufferPlan::message(1 << 16))
    };
    let (near, far) = pair();
    let slow = std::thread::spawn(move || {
        let mut far = Socket::from(far);
        far.set_recv_buffer_size(1 << 16).unwrap();
        while far.read(&mut [0; 1 << 12]).unwrap() > 0 {
            std::thread::sleep(Duration::from_millis(8));
        }
    });
    let any = Address::from(near.local_addr().unwrap()).with_any_port();
    let memory = Memory::new(1 << 20, 1 << 20);
    let (socket, mut buffers) = open_stream(&flow, Role::Initiator, &any, b"x", &memory).unwrap();
    let (ends, stop) = ((&socket, &Socket::from(near)), Stop::new());
    let patience = Duration::from_secs(1);
    let (side, ended) = run_stream(&flow, ends, &mut buffers, None, patience, &stop).unwrap();
    assert_eq!((side.counts.sent.0, ended), (2 << 20, Ended::Count));
    assert!(side.elapsed > Some(2 * patience), "{side:?}");
    slow.join().unwrap();
}

#[test]
fn a_receiver_does_not_read_for_ever() {
    let (mut near, far) = pair();
    let sender = std::thread::spawn(move || while near.write_all(&[0; 100]).is_ok() {});
    let ended = run_whole(far, Workload::receive(), Duration::from_secs(2)).unwrap_err();
    assert_eq!(ended.to_string(), "the stream did not end in time");
    sender.join().unwrap();
}

#[test]
fn a_phase_ends_with_its_control_connection_or_in_silence() {
    let (near, _far) = pair();
    let receive = |control, idle| run_end(&near, &Workload::receive(), control, idle).1;
    let (control, peer) = UnixStream::pair().unwrap();
    drop(peer);
    assert_eq!(receive(Some(control.as_fd()), LONG), Ended::PeerClosed);
    assert_eq!(receive(None, TIME), Ended::from(Reason::Silence));
}

#[test]
fn each_watch_of_a_connection_sees_its_end() {
    let (near, far) = UnixStream::pair().unwrap();
    let stops = [(); 4].map(|()| Stop::new());
    let watch = |at: usize| deadline_thread().on_hang_up(near.as_fd(), &stops[at]);
    let (first, _second, _third) = (watch(0), watch(1), watch(2));
    drop(first);
    drop(far);
    let pulled_in_time = |stop: &Stop| {
        let begun = Instant::now();
        while !stop.is_set() && begun.elapsed() < LONG {
            std::thread::yield_now();
        }
        stop.reason() == Some(Reason::PeerClosed)
    };
    assert!(stops[1..3].iter().all(pulled_in_time));
    let _late = watch(3);
    assert!(pulled_in_time(&stops[3]));
    assert!(!stops[0].is_set());
}
