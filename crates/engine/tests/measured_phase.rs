//! Both ends of a stream, each in its measured phase, as a dialect runs them.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    Buffers, DataSocket, Flow, Loop, MeasuredPhase, Memory, PhaseSettings, Reason, Role, Stop,
    deadline_thread,
};
use model::{BufferPlan, Ended, FlowPlan, Limit, Side, SocketOptions, Transport, Workload};
use sys::{Address, Socket};

/// How long a sender sends.
const TIME: Duration = Duration::from_millis(30);

/// More than a busy machine needs.
const LONG: Duration = Duration::from_secs(30);

fn pair() -> (Socket, Socket) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near.into(), listener.accept().unwrap().0.into())
}

/// The end of a stream at one of its ends.
struct Went {
    side: Side,
    ended: Ended,
    /// The loop ended with an error of the connection.
    has_failed: bool,
    /// A sender's drain.
    drained: Option<io::Result<()>>,
}

fn flow(workload: Workload, limit: Limit, size: u32) -> FlowPlan {
    let flow = FlowPlan::of(Transport::Tcp, workload).with_buffers(BufferPlan::message(size));
    FlowPlan { limit, ..flow }
}

fn sender() -> FlowPlan {
    flow(Workload::send(), Limit::Time(TIME), 100)
}

fn receiver() -> FlowPlan {
    flow(Workload::receive(), Limit::Unlimited, 100)
}

/// Runs one end of a stream, and drains it if it sends.
fn run_end(
    flow: &FlowPlan,
    data: &Socket,
    control: Option<BorrowedFd<'_>>,
    patience: Duration,
) -> Went {
    let any = Address::of(data).unwrap().with_any_port();
    let options = SocketOptions::default();
    let socket = DataSocket::open(Transport::Tcp, &any, &options, Role::Initiator).unwrap();
    let memory = Memory::new(u64::MAX, u64::MAX);
    let (half, workload, facts) = (&flow.here, &flow.workload, socket.facts.clone());
    let buffers = Buffers::new(half, workload, Transport::Tcp, &facts, None, b"x", &memory);
    let mut buffers = buffers.unwrap();
    let patience = buffers.patience(patience, half);
    let counters = Arc::default();
    let sends = workload.sends();
    let settings = PhaseSettings {
        counters: &counters,
        cancel: &Stop::new(),
        control,
        time: match flow.limit {
            Limit::Time(time) => Some(time),
            _ => None,
        },
        idle: (!sends).then_some(patience),
        group: None,
    };
    let mut phase = MeasuredPhase::start(half, settings);
    if sends {
        // Not the drain, in which nothing is counted.
        deadline_thread().on_silence(&counters, patience, &phase.stop);
    }
    let path = Flow::Connected(data.as_fd());
    let ran = phase.run(flow.limit, Loop::of(flow, &mut buffers), path);
    let loop_ended = phase.passed.elapsed;
    let drained = sends.then(|| phase.drain(data, patience));
    assert!(
        !sends || phase.passed.elapsed > loop_ended,
        "the drain belongs to the time"
    );
    Went {
        ended: ran.ended.clone(),
        has_failed: ran.failure.is_some(),
        drained,
        side: phase.side(ran, &socket, &buffers, facts),
    }
}

#[test]
fn both_ends_of_a_stream_agree() {
    let (near, far) = pair();
    let (sent, received) = std::thread::scope(|scope| {
        let sent = scope.spawn(|| run_end(&sender(), &near, None, LONG));
        let received = run_end(&receiver(), &far, None, LONG);
        drop(far);
        (sent.join().unwrap(), received)
    });
    let ended = (sent.ended, received.ended);
    assert_eq!(ended, (Ended::Deadline, Ended::PeerClosed));
    assert!(!received.has_failed);
    sent.drained.unwrap().unwrap();
    let (sent, received) = (sent.side, received.side);
    assert_eq!(sent.counts.sent, received.counts.received);
    assert!(sent.counts.sent.0 > 0 && sent.elapsed >= Some(TIME));
}

/// Resets a connection instead of ending it.
fn reset(connection: Socket) {
    connection.set_linger(Some(Duration::ZERO)).unwrap();
    drop(connection);
}

#[test]
fn a_reset_is_no_end_of_a_stream() {
    for flow in [sender(), receiver()] {
        let (near, far) = pair();
        reset(far);
        let went = run_end(&flow, &near, None, LONG);
        assert_eq!((went.ended, went.has_failed), (Ended::PeerClosed, true));
    }
    let (near, mut far) = pair();
    let drained = std::thread::spawn(move || {
        io::copy(&mut far, &mut io::sink()).unwrap();
        reset(far);
    });
    let went = run_end(&sender(), &near, None, LONG);
    let failed = went.drained.unwrap().unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::ConnectionReset);
    drained.join().unwrap();
}

#[test]
fn a_long_call_is_no_silence() {
    const MUCH: u32 = 32 << 20;
    let (near, mut far) = pair();
    let slow = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while far.read(&mut buffer).unwrap() > 0 {
            std::thread::sleep(Duration::from_millis(4));
        }
    });
    let flow = flow(Workload::send(), Limit::Bytes(MUCH.into()), MUCH);
    let went = run_end(&flow, &near, None, Duration::from_millis(200));
    went.drained.unwrap().unwrap();
    let sent = went.side.counts.sent.0;
    assert_eq!((sent, went.ended), (MUCH.into(), Ended::Count));
    slow.join().unwrap();
}

#[test]
fn a_slow_drain_is_no_silence() {
    let (near, mut far) = pair();
    let slow = std::thread::spawn(move || {
        far.set_recv_buffer_size(1 << 16).unwrap();
        while far.read(&mut [0; 1 << 12]).unwrap() > 0 {
            std::thread::sleep(Duration::from_millis(8));
        }
    });
    let flow = flow(Workload::send(), Limit::Bytes(2 << 20), 1 << 16);
    let patience = Duration::from_secs(1);
    let Went {
        side,
        ended,
        drained,
        ..
    } = run_end(&flow, &near, None, patience);
    drained.unwrap().unwrap();
    assert_eq!((side.counts.sent.0, ended), (2 << 20, Ended::Count));
    assert!(side.elapsed > Some(2 * patience), "{side:?}");
    slow.join().unwrap();
}

#[test]
fn a_phase_ends_with_its_control_connection_or_in_silence() {
    let (near, _far) = pair();
    let receive = |control, idle| run_end(&receiver(), &near, control, idle).ended;
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
