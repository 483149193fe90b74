//! Runs both ends of a stream through the measured phase, like a dialect.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    BufferMemory, Buffers, DataSocket, FlowLoop, FlowSockets, MeasuredPhase, PhaseSettings, Role,
    Stop, StopReason, deadline_thread,
};
use model::{BufferPlan, EndCause, FlowPlan, Limit, Side, SocketOptions, Transport, Workload};
use sys::{Address, Socket};

/// Duration of a sender.
const SEND_TIME: Duration = Duration::from_millis(30);

/// Timeout that even a busy machine does not reach.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);

fn pair() -> (Socket, Socket) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near.into(), listener.accept().unwrap().0.into())
}

/// Result of one end of a stream.
struct EndResult {
    side: Side,
    ended: EndCause,
    /// Whether the loop ended with an error of the connection.
    has_failed: bool,
    /// Result of a sender's drain.
    drained: Option<io::Result<()>>,
}

fn flow(workload: Workload, limit: Limit, size: u32) -> FlowPlan {
    let flow = FlowPlan::new(Transport::Tcp, workload).with_buffers(BufferPlan::message(size));
    FlowPlan { limit, ..flow }
}

fn sender() -> FlowPlan {
    flow(Workload::send(), Limit::Time(SEND_TIME), 100)
}

fn receiver() -> FlowPlan {
    flow(Workload::receive(), Limit::Unlimited, 100)
}

/// Runs one end of a stream, and drains it if it sends.
fn run_end(
    flow: &FlowPlan,
    data: &Socket,
    control: Option<BorrowedFd<'_>>,
    timeout: Duration,
) -> EndResult {
    let local = Address::local(data).unwrap().with_any_port();
    let options = SocketOptions::default();
    let socket = DataSocket::open(Transport::Tcp, &local, &options, Role::Initiator).unwrap();
    let memory = BufferMemory::new(u64::MAX, u64::MAX);
    let (endpoint, workload, facts) = (&flow.local, &flow.workload, socket.facts.clone());
    let buffers = Buffers::new(
        endpoint,
        workload,
        Transport::Tcp,
        &facts,
        None,
        b"x",
        &memory,
    );
    let mut buffers = buffers.unwrap();
    let timeout = buffers.idle_timeout(timeout, endpoint);
    let counters = Arc::default();
    let sends = workload.sends();
    let settings = PhaseSettings {
        counters: &counters,
        cancel: &Stop::new(),
        control,
        duration: match flow.limit {
            Limit::Time(time) => Some(time),
            _ => None,
        },
        idle_timeout: (!sends).then_some(timeout),
        group: None,
    };
    let mut phase = MeasuredPhase::start(endpoint, settings);
    // The timeout excludes the drain, during which the counters do not change.
    let _idle_watch = sends.then(|| deadline_thread().set_on_idle(&counters, timeout, &phase.stop));
    let sockets = FlowSockets::Connected(data.as_fd());
    let result = phase.run(flow.limit, FlowLoop::for_flow(flow, &mut buffers), sockets);
    let loop_ended = phase.times.elapsed;
    let drained = sends.then(|| phase.drain(data, timeout));
    assert!(
        !sends || phase.times.elapsed > loop_ended,
        "the time includes the drain"
    );
    EndResult {
        ended: result.ended.clone(),
        has_failed: result.failure.is_some(),
        drained,
        side: phase.side(result, &socket, &buffers, facts),
    }
}

#[test]
fn both_ends_of_a_stream_agree() {
    let (near, far) = pair();
    let (sent, received) = std::thread::scope(|scope| {
        let sent = scope.spawn(|| run_end(&sender(), &near, None, LONG_TIMEOUT));
        let received = run_end(&receiver(), &far, None, LONG_TIMEOUT);
        drop(far);
        (sent.join().unwrap(), received)
    });
    let ended = (sent.ended, received.ended);
    assert_eq!(ended, (EndCause::Deadline, EndCause::PeerClosed));
    assert!(!received.has_failed);
    sent.drained.unwrap().unwrap();
    let (sent, received) = (sent.side, received.side);
    assert_eq!(sent.counts.sent, received.counts.received);
    assert!(sent.counts.sent.0 > 0 && sent.elapsed >= Some(SEND_TIME));
}

/// Closes a connection with a reset.
fn reset(connection: Socket) {
    connection.set_linger(Some(Duration::ZERO)).unwrap();
    drop(connection);
}

#[test]
fn a_reset_is_a_failure() {
    for flow in [sender(), receiver()] {
        let (near, far) = pair();
        reset(far);
        let result = run_end(&flow, &near, None, LONG_TIMEOUT);
        assert_eq!(
            (result.ended, result.has_failed),
            (EndCause::PeerClosed, true)
        );
    }
    let (near, mut far) = pair();
    let peer = std::thread::spawn(move || {
        io::copy(&mut far, &mut io::sink()).unwrap();
        reset(far);
    });
    let result = run_end(&sender(), &near, None, LONG_TIMEOUT);
    let error = result.drained.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    peer.join().unwrap();
}

#[test]
fn a_long_call_is_not_idle() {
    const SIZE: u32 = 32 << 20;
    let (near, mut far) = pair();
    let slow_reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while far.read(&mut buffer).unwrap() > 0 {
            std::thread::sleep(Duration::from_millis(4));
        }
    });
    let flow = flow(Workload::send(), Limit::Bytes(SIZE.into()), SIZE);
    let result = run_end(&flow, &near, None, Duration::from_millis(200));
    result.drained.unwrap().unwrap();
    let sent = result.side.counts.sent.0;
    assert_eq!((sent, result.ended), (SIZE.into(), EndCause::Count));
    slow_reader.join().unwrap();
}

#[test]
fn a_slow_drain_is_not_idle() {
    let (near, mut far) = pair();
    let slow_reader = std::thread::spawn(move || {
        far.set_recv_buffer_size(1 << 16).unwrap();
        while far.read(&mut [0; 1 << 12]).unwrap() > 0 {
            std::thread::sleep(Duration::from_millis(8));
        }
    });
    let flow = flow(Workload::send(), Limit::Bytes(2 << 20), 1 << 16);
    let timeout = Duration::from_secs(1);
    let EndResult {
        side,
        ended,
        drained,
        ..
    } = run_end(&flow, &near, None, timeout);
    drained.unwrap().unwrap();
    assert_eq!((side.counts.sent.0, ended), (2 << 20, EndCause::Count));
    assert!(side.elapsed > Some(2 * timeout), "{side:?}");
    slow_reader.join().unwrap();
}

#[test]
fn a_phase_ends_with_its_control_connection_or_when_idle() {
    let (near, _far) = pair();
    let receive = |control, timeout| run_end(&receiver(), &near, control, timeout).ended;
    let (control, peer) = UnixStream::pair().unwrap();
    drop(peer);
    assert_eq!(
        receive(Some(control.as_fd()), LONG_TIMEOUT),
        EndCause::PeerClosed
    );
    assert_eq!(
        receive(None, SEND_TIME),
        EndCause::from(StopReason::IdleTimeout)
    );
}

#[test]
fn each_watch_of_a_connection_sees_its_hang_up() {
    let (near, far) = UnixStream::pair().unwrap();
    let stops = [(); 4].map(|()| Stop::new());
    let watch = |index: usize| deadline_thread().set_on_hang_up(near.as_fd(), &stops[index]);
    let (first, _second, _third) = (watch(0), watch(1), watch(2));
    drop(first);
    drop(far);
    let is_set_in_time = |stop: &Stop| {
        let start = Instant::now();
        while !stop.is_set() && start.elapsed() < LONG_TIMEOUT {
            std::thread::yield_now();
        }
        stop.reason() == Some(StopReason::PeerClosed)
    };
    assert!(stops[1..3].iter().all(is_set_in_time));
    let _late_watch = watch(3);
    assert!(is_set_in_time(&stops[3]));
    assert!(!stops[0].is_set());
}
