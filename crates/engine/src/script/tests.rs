//! Tests of scripts over real sockets.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use model::{Action, Amount, Batch, Counts, Transfer};
use sys::call::Error;
use units::Bytes;

use super::*;

/// A manager with one connection. It records the steps for which it is called.
#[derive(Default)]
struct TestManager {
    connection: Option<Rc<Connection>>,
    requested_steps: Vec<usize>,
    dialect_steps: Vec<usize>,
    run_dialect_step: Option<DialectStep>,
}

/// The manager's action at a step of the dialect.
type DialectStep = fn(&mut TestManager) -> Result<DialectStepResult, StepFailure>;

impl ConnectionManager for TestManager {
    fn connection(&mut self, step: usize) -> Result<Rc<Connection>, StepFailure> {
        self.requested_steps.push(step);
        let connection = self.connection.as_ref().map(Rc::clone);
        connection.ok_or_else(|| StepFailure::from_text("No such connection 0"))
    }

    fn perform(&mut self, step: usize, _: &Stop) -> Result<DialectStepResult, StepFailure> {
        self.dialect_steps.push(step);
        self.run_dialect_step
            .map_or(Ok(DialectStepResult::default()), |run_step| run_step(self))
    }
}

fn stream_pair() -> (TestManager, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (near, _) = listener.accept().unwrap();
    let manager = TestManager {
        connection: Some(Rc::new(Connection::Socket(OwnedFd::from(near)))),
        ..TestManager::default()
    };
    (manager, far)
}

fn step_once(action: Action) -> Step {
    Step {
        name: "step".into(),
        action,
        count: 1,
        can_fail: false,
    }
}

fn transfer_of(bytes: u32) -> Transfer {
    Transfer {
        amount: Amount::Exactly(bytes),
        repeat: 1,
        timeout: None,
        is_blocking: true,
        batch: None,
    }
}

fn run(
    script: &mut Script,
    manager: &mut TestManager,
    limit: Limit,
    stop: &Stop,
) -> (LoopResult, Counts) {
    run_timed(script, manager, limit, stop, &mut ())
}

fn run_timed(
    script: &mut Script,
    manager: &mut TestManager,
    limit: Limit,
    stop: &Stop,
    timer: &mut impl StepTimer,
) -> (LoopResult, Counts) {
    let counters = Counters::default();
    let settings = ScriptSettings {
        limit,
        pacing: None,
        stop,
        counters: &counters,
    };
    let _registration = stop.register_thread();
    let result = script.run(manager, &settings, &mut [0; 1000], timer);
    (result, counters.counts())
}

#[test]
fn steps_count_all_bytes_in_spite_of_partial_receives() {
    let (mut manager, mut far) = stream_pair();
    let peer = thread::spawn(move || {
        let mut request = [0; 90];
        for _ in 0..50 {
            far.read_exact(&mut request).unwrap();
            // Two pieces, so that a receive needs more than one call.
            far.write_all(&[1; 100]).unwrap();
            far.write_all(&[1; 50]).unwrap();
        }
    });
    let write = Step {
        count: 3,
        ..step_once(Action::Send(transfer_of(30)))
    };
    let steps = vec![
        write,
        step_once(Action::Receive(transfer_of(150))),
        step_once(Action::Nothing),
    ];
    let mut script = Script::new(steps, 0);
    let (result, counts) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(50),
        &Stop::new(),
    );
    peer.join().unwrap();
    assert_eq!(result.ended, EndCause::Count);
    let expected = Counts {
        operations: 50 * 5,
        sent: Bytes(50 * 90),
        received: Bytes(50 * 150),
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    assert_eq!(
        manager.requested_steps,
        [0, 1],
        "each step keeps its connection"
    );
}

#[test]
fn random_sizes_are_within_bounds_and_take_one_call() {
    let (mut manager, mut far) = stream_pair();
    let random = Transfer {
        amount: Amount::Between { min: 5, max: 9 },
        ..transfer_of(0)
    };
    let mut script = Script::new(vec![step_once(Action::Send(random))], 7);
    let (result, counts) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(1000),
        &Stop::new(),
    );
    assert_eq!(result.ended, EndCause::Count);
    assert!(
        (5000 + 1000..9000 - 1000).contains(&counts.sent.0),
        "{counts:?}"
    );
    drop((script, manager));
    let mut received = Vec::new();
    far.read_to_end(&mut received).unwrap();
    assert_eq!(received.len() as u64, counts.sent.0);
}

/// A layer that sends at most 10 bytes per call.
#[derive(Debug)]
struct TenByteLayer;

impl Layer for TenByteLayer {
    fn send(&mut self, data: &[u8]) -> Result<usize, Error> {
        Ok(data.len().min(10))
    }

    fn receive(&mut self, _: &mut [u8]) -> Result<usize, Error> {
        Ok(0)
    }

    fn has_input(&mut self) -> bool {
        true
    }
}

#[test]
fn a_layer_sends_all_bytes_of_random_sizes() {
    let (mut manager, far) = stream_pair();
    let layer = RefCell::new(Box::new(TenByteLayer) as Box<dyn Layer>);
    manager.connection = Some(Rc::new(Connection::Layered(layer, Rc::new(far.into()))));
    let random = Transfer {
        amount: Amount::Between { min: 95, max: 95 },
        ..transfer_of(0)
    };
    let mut script = Script::new(vec![step_once(Action::Send(random))], 0);
    let (result, counts) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(3),
        &Stop::new(),
    );
    assert_eq!(result.ended, EndCause::Count);
    assert_eq!((counts.operations, counts.sent.0), (3, 3 * 95));
}

#[test]
fn the_end_of_a_stream_ends_a_script_and_earlier_data_counts() {
    let (mut manager, mut far) = stream_pair();
    far.write_all(&[1; 250]).unwrap();
    drop(far);
    let steps = vec![
        step_once(Action::Nothing),
        step_once(Action::Receive(transfer_of(100))),
    ];
    let mut script = Script::new(steps, 0);
    let (result, counts) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(9),
        &Stop::new(),
    );
    assert_eq!(result.ended, EndCause::PeerClosed);
    assert_eq!((counts.received.0, counts.operations), (250, 5));
}

#[test]
fn a_stop_ends_a_receive_that_waits() {
    let (mut manager, _far) = stream_pair();
    let stop = Stop::new();
    let begun = Instant::now();
    let _deadline = crate::deadline_thread().set_at(begun + Duration::from_millis(50), &stop);
    let mut script = Script::new(vec![step_once(Action::Receive(transfer_of(1)))], 0);
    let (result, counts) = run(&mut script, &mut manager, Limit::Unlimited, &stop);
    assert_eq!(result.ended, EndCause::Deadline);
    assert_eq!(counts, Counts::default());
    assert!(begun.elapsed() >= Duration::from_millis(50));
}

#[test]
fn only_a_step_that_cannot_fail_ends_a_script() {
    let (mut manager, _far) = stream_pair();
    let with_timeout = Transfer {
        timeout: Some(Duration::from_millis(1)),
        ..transfer_of(1)
    };
    let mut step = Step {
        can_fail: true,
        ..step_once(Action::Receive(with_timeout))
    };
    let mut script = Script::new(vec![step.clone()], 0);
    let (result, counts) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(3),
        &Stop::new(),
    );
    assert_eq!(result.ended, EndCause::Count);
    assert_eq!((counts.operations, counts.failed_operations), (3, 3));

    step.can_fail = false;
    let mut script = Script::new(vec![step], 0);
    let (result, counts) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(3),
        &Stop::new(),
    );
    let failure = StepFailure::from_call("receive", Error::TIMEDOUT);
    assert_eq!(result.failed_step, Some((0, failure)));
    assert_eq!(counts, Counts::default());
}

#[test]
fn other_wakeups_do_not_shorten_a_timeout() {
    let (mut manager, _far) = stream_pair();
    let timeout = Duration::from_millis(100);
    let with_timeout = Transfer {
        timeout: Some(timeout),
        ..transfer_of(1)
    };
    // Another stop, which wakes this thread repeatedly.
    let other_stop = Stop::new();
    let _registration = other_stop.register_thread();
    let begun = Instant::now();
    let _deadline = crate::deadline_thread().set_at(begun + Duration::from_millis(10), &other_stop);
    let mut script = Script::new(vec![step_once(Action::Receive(with_timeout))], 0);
    let (result, _) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(1),
        &Stop::new(),
    );
    let timed_out = StepFailure::from_call("receive", Error::TIMEDOUT);
    assert_eq!(result.failed_step, Some((0, timed_out)));
    assert!(begun.elapsed() >= timeout);
}

#[test]
fn dialect_steps_clear_connections() {
    let (mut manager, _far) = stream_pair();
    manager.run_dialect_step = Some(|_| {
        Ok(DialectStepResult {
            rebinds_this_and_later_steps: true,
            ..DialectStepResult::default()
        })
    });
    let send = || step_once(Action::Send(transfer_of(1)));
    let steps = vec![send(), step_once(Action::DialectSpecific), send()];
    let mut script = Script::new(steps, 0);
    let (result, _) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(2),
        &Stop::new(),
    );
    assert_eq!(result.ended, EndCause::Count);
    assert_eq!(
        manager.requested_steps,
        [0, 2, 2],
        "the earlier step keeps its connection"
    );

    manager.requested_steps.clear();
    manager.run_dialect_step = Some(|manager| {
        Ok(DialectStepResult {
            closed_connections: [manager.connection.as_ref().map(Rc::clone), None],
            ..DialectStepResult::default()
        })
    });
    let (result, _) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(2),
        &Stop::new(),
    );
    assert_eq!(result.ended, EndCause::Count);
    assert_eq!(
        manager.requested_steps,
        [2, 0, 2],
        "a closed connection is cleared"
    );

    manager.run_dialect_step = Some(|_| {
        Ok(DialectStepResult {
            is_script_done: true,
            ..DialectStepResult::default()
        })
    });
    manager.dialect_steps.clear();
    let (result, _) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(2),
        &Stop::new(),
    );
    assert_eq!(
        (result.ended, manager.dialect_steps),
        (EndCause::Count, vec![1])
    );
}

#[test]
fn a_transfer_without_a_connection_fails() {
    let mut manager = TestManager::default();
    let mut script = Script::new(vec![step_once(Action::Send(transfer_of(1)))], 0);
    let (result, _) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(1),
        &Stop::new(),
    );
    let failure = StepFailure::from_text("No such connection 0");
    assert_eq!(result.failed_step, Some((0, failure)));
}

#[test]
fn a_think_step_lasts_its_time_unless_stopped() {
    for spins in [false, true] {
        let think = |milliseconds| {
            step_once(Action::Think {
                duration: Duration::from_millis(milliseconds),
                spins,
            })
        };
        let begun = Instant::now();
        let mut script = Script::new(vec![think(20)], 0);
        let mut manager = TestManager::default();
        let (result, counts) = run(
            &mut script,
            &mut manager,
            Limit::Transactions(2),
            &Stop::new(),
        );
        assert_eq!((result.ended, counts.operations), (EndCause::Count, 2));
        assert!(begun.elapsed() >= Duration::from_millis(40));

        let stop = Stop::new();
        let _deadline =
            crate::deadline_thread().set_at(Instant::now() + Duration::from_millis(20), &stop);
        let mut script = Script::new(vec![think(3_600_000)], 0);
        let (result, _) = run(&mut script, &mut manager, Limit::Transactions(1), &stop);
        assert_eq!(result.ended, EndCause::Deadline);
    }
}

#[test]
fn each_step_and_each_round_is_timed() {
    let (mut manager, _far) = stream_pair();
    let think = Action::Think {
        duration: Duration::from_millis(2),
        spins: true,
    };
    let steps = vec![
        Step {
            count: 3,
            ..step_once(think)
        },
        step_once(Action::Send(transfer_of(10))),
    ];
    let mut script = Script::new(steps, 0);
    let mut times = StepTimes::new(2, true, true).with_histogram();
    let (limit, stop) = (Limit::Transactions(4), Stop::new());
    let (result, _) = run_timed(&mut script, &mut manager, limit, &stop, &mut times);
    assert_eq!(result.ended, EndCause::Count);
    let times = times.finish();
    let (thinks, sends) = (times.steps[0], times.steps[1]);
    assert_eq!((thinks.executions, sends.executions), (12, 4));
    // All figures are of one execution, not of a pass of three.
    let mean_ns = thinks.total_ns / thinks.executions;
    assert!(thinks.shortest_ns >= 2_000_000 && thinks.cpu_ns > 0);
    assert!((thinks.shortest_ns..=thinks.longest_ns).contains(&mean_ns));
    let rounds = times.rounds;
    assert_eq!(rounds.executions, 4);
    assert_eq!(rounds.total_ns, thinks.total_ns + sends.total_ns);
    assert_eq!(times.histogram.unwrap().len(), 4);
}

#[test]
fn events_are_counted_for_the_step_in_which_they_occur() {
    use sys::counter::{EventCounters, PerfEvent};
    let Ok((counters, _)) = EventCounters::open(&[PerfEvent::TASK_CLOCK]) else {
        eprintln!("SKIPPED: event counters are unavailable");
        return;
    };
    let think = |spins| {
        step_once(Action::Think {
            duration: Duration::from_millis(20),
            spins,
        })
    };
    let mut script = Script::new(vec![think(true), think(false)], 0);
    let mut times = StepTimes::new(2, true, false).with_counters(Rc::new(counters));
    let (limit, stop) = (Limit::Transactions(2), Stop::new());
    let (result, _) = run_timed(
        &mut script,
        &mut TestManager::default(),
        limit,
        &stop,
        &mut times,
    );
    assert_eq!(result.ended, EndCause::Count);
    let times = times.finish();
    let counts = times.events.unwrap();
    // The first step spins and the second sleeps. A busy machine reduces the first step's CPU time.
    assert!(counts[0][0] > 5 * counts[1][0], "{counts:?}");
    // Reads of the counters take CPU time, but are not part of a step's time.
    assert!(counts[0][0] < 2 * times.steps[0].total_ns, "{counts:?}");
}

/// Per step: whether it sends, bytes per execution, and executions per round.
type Shape = [(bool, u32, u64)];

#[test]
fn counts_match_the_peers_for_any_list_of_steps() {
    const ROUNDS: u64 = 300;
    let shapes: [&Shape; 10] = [
        &[(true, 700, 1)],
        &[(false, 700, 1)],
        &[(true, 70, 9)],
        &[(false, 70, 9)],
        &[(true, 33, 1), (false, 500, 1)],
        &[(false, 33, 1), (true, 500, 1)],
        &[(true, 5, 0), (false, 500, 2)],
        &[(true, 5, 1), (true, 50, 1)],
        &[(true, 8, 1), (false, 90, 3), (true, 700, 2)],
        &[(false, 1, 1), (false, 90, 1), (true, 7, 1), (false, 400, 1)],
    ];
    for shape in shapes {
        let (mut manager, far) = stream_pair();
        let sum = |sent: bool, amount: fn(&(bool, u32, u64)) -> u64| -> u64 {
            let steps = shape.iter().filter(|(sends, ..)| *sends == sent);
            steps.map(amount).sum::<u64>() * ROUNDS
        };
        let bytes = |sent| sum(sent, |(_, bytes, count)| u64::from(*bytes) * count);
        let (to_peer, from_peer) = (bytes(true), bytes(false));
        let mut reader = far.try_clone().unwrap();
        let reads = thread::spawn(move || {
            std::io::copy(&mut (&mut reader).take(to_peer), &mut std::io::sink()).unwrap()
        });
        let writes = thread::spawn(move || {
            let mut left = from_peer as usize;
            let mut piece = 1;
            while left > 0 {
                piece = (piece * 7 % 701).min(left).max(1);
                (&far).write_all(&vec![0; piece]).unwrap();
                left -= piece;
            }
        });
        let steps: Vec<Step> = shape
            .iter()
            .map(|&(sends, bytes, count)| Step {
                count,
                ..step_once(if sends {
                    Action::Send(transfer_of(bytes))
                } else {
                    Action::Receive(transfer_of(bytes))
                })
            })
            .collect();
        let mut script = Script::new(steps, 0);
        let mut times = StepTimes::new(shape.len(), true, false);
        let (limit, stop) = (Limit::Transactions(ROUNDS), Stop::new());
        let (result, counts) = run_timed(&mut script, &mut manager, limit, &stop, &mut times);
        assert_eq!(result.ended, EndCause::Count, "{shape:?}");
        writes.join().unwrap();
        assert_eq!(reads.join().unwrap(), to_peer, "{shape:?}");
        let executions = |sent| sum(sent, |(.., count)| *count);
        let expected = Counts {
            operations: executions(true) + executions(false),
            sent: Bytes(to_peer),
            received: Bytes(from_peer),
            ..Counts::default()
        };
        assert_eq!(counts, expected, "{shape:?}");
        let times = times.finish();
        assert_eq!(times.rounds.executions, ROUNDS, "{shape:?}");
        for (step, (.., count)) in times.steps.iter().zip(shape) {
            assert_eq!(step.executions, count * ROUNDS, "{shape:?}");
        }
    }
}

fn datagram_pair() -> (TestManager, UdpSocket) {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    let manager = TestManager {
        connection: Some(Rc::new(Connection::Socket(OwnedFd::from(near)))),
        ..TestManager::default()
    };
    (manager, far)
}

/// Returns a transfer of two batches, each with 5 messages of `bytes` bytes.
fn batch_transfer(bytes: u32) -> Transfer {
    Transfer {
        repeat: 2,
        batch: Some(Batch {
            count: 5,
            info: None,
        }),
        ..transfer_of(bytes)
    }
}

#[test]
fn a_batch_is_several_messages() {
    let (mut manager, far) = datagram_pair();
    let mut script = Script::new(vec![step_once(Action::Send(batch_transfer(100)))], 0);
    let (result, counts) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(3),
        &Stop::new(),
    );
    assert_eq!(result.ended, EndCause::Count);
    assert_eq!((counts.operations, counts.sent.0), (3, 3 * 2 * 5 * 100));
    let mut buffer = [0; 1000];
    for _ in 0..30 {
        assert_eq!(far.recv(&mut buffer).unwrap(), 100);
    }
}

#[test]
fn a_batch_is_received_completely() {
    let (mut manager, far) = datagram_pair();
    // Five messages of 50 bytes, then 250 bytes in other sizes: the datagram of 100 is truncated.
    for length in [50, 50, 50, 50, 50, 100, 10, 40, 50, 20, 10, 20, 50] {
        far.send(&vec![1; length]).unwrap();
    }
    let mut script = Script::new(vec![step_once(Action::Receive(batch_transfer(50)))], 0);
    let (result, counts) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(1),
        &Stop::new(),
    );
    assert_eq!(result.ended, EndCause::Count);
    assert_eq!(counts.received.0, 500);
}

#[test]
fn a_batch_of_random_sizes_is_received_to_its_last_message() {
    let (mut manager, far) = datagram_pair();
    let sizes = [7, 40, 50, 9, 21, 33, 50, 8, 12, 30];
    let pause_end = Instant::now() + Duration::from_millis(20);
    let sender = thread::spawn(move || {
        for (index, size) in sizes.into_iter().enumerate() {
            if index == 3 {
                thread::sleep(pause_end.saturating_duration_since(Instant::now()));
            }
            far.send(&vec![1; size]).unwrap();
        }
        far
    });
    let random = Transfer {
        amount: Amount::Between { min: 5, max: 50 },
        ..batch_transfer(0)
    };
    let mut script = Script::new(vec![step_once(Action::Receive(random))], 0);
    let (result, counts) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(1),
        &Stop::new(),
    );
    sender.join().unwrap();
    assert_eq!(result.ended, EndCause::Count);
    assert_eq!(counts.received.0, sizes.iter().sum::<usize>() as u64);
}

#[test]
fn a_non_blocking_step_fails_or_times_out() {
    let (mut manager, _far) = datagram_pair();
    let non_blocking = Transfer {
        is_blocking: false,
        ..transfer_of(1)
    };
    let mut script = Script::new(vec![step_once(Action::Receive(non_blocking))], 0);
    let (result, _) = run(
        &mut script,
        &mut manager,
        Limit::Transactions(1),
        &Stop::new(),
    );
    let would_block = StepFailure::from_call("receive", Error::AGAIN);
    assert_eq!(result.failed_step, Some((0, would_block)));
    for batch in [None, batch_transfer(1).batch] {
        let non_blocking = Transfer {
            timeout: Some(Duration::from_millis(20)),
            batch,
            ..non_blocking
        };
        let begun = Instant::now();
        let mut script = Script::new(vec![step_once(Action::Receive(non_blocking))], 0);
        let (result, _) = run(
            &mut script,
            &mut manager,
            Limit::Transactions(1),
            &Stop::new(),
        );
        let timed_out = StepFailure::from_call("receive", Error::TIMEDOUT);
        assert_eq!(result.failed_step, Some((0, timed_out)));
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }
}

#[test]
fn early_datagrams_are_received_first() {
    let with_timeout = Transfer {
        timeout: Some(Duration::from_secs(20)),
        ..transfer_of(4)
    };
    let batch = Transfer {
        batch: Some(Batch {
            count: 2,
            info: None,
        }),
        ..transfer_of(4)
    };
    for transfer in [transfer_of(4), with_timeout, batch] {
        let (mut manager, far) = datagram_pair();
        let connection = manager
            .connection
            .take()
            .expect("the manager has a connection");
        let Ok(Connection::Socket(socket)) = Rc::try_unwrap(connection) else {
            panic!("the connection is not a plain socket");
        };
        let mut early = EarlyDatagrams::default();
        // The last datagram is longer than the receive buffer.
        for datagram in [&b"1234"[..], b"12", b"34", b"123456"] {
            early.push(datagram);
        }
        manager.connection = Some(Rc::new(Connection::Early(socket, RefCell::new(early))));
        for _ in 0..3 {
            far.send(b"1234").unwrap();
        }
        let steps = vec![
            step_once(Action::Receive(transfer)),
            step_once(Action::Send(transfer_of(4))),
        ];
        let mut script = Script::new(steps, 0);
        let rounds = if transfer.batch.is_some() { 3 } else { 6 };
        let stop = Stop::new();
        let (result, counts) = run(
            &mut script,
            &mut manager,
            Limit::Transactions(rounds),
            &stop,
        );
        assert_eq!(result.ended, EndCause::Count);
        assert_eq!((counts.received.0, counts.sent.0), (24, 4 * rounds));
        assert_eq!(
            manager.requested_steps,
            [0, 1],
            "each step keeps its connection"
        );
    }
}

/// Another socket at which datagrams of a connection arrive.
#[derive(Debug)]
struct OtherSocket(UdpSocket);

impl EarlySocket for OtherSocket {
    fn socket(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn collect(&self, early: &mut EarlyDatagrams) {
        let mut datagram = [0; 100];
        while let Ok(length) = self.0.recv(&mut datagram) {
            early.push(&datagram[..length]);
        }
    }
}

#[test]
fn datagrams_of_the_other_socket_are_received_too() {
    let with_timeout = Transfer {
        timeout: Some(Duration::from_secs(20)),
        ..transfer_of(4)
    };
    let batch = Transfer {
        batch: Some(Batch {
            count: 1,
            info: None,
        }),
        ..transfer_of(4)
    };
    for transfer in [transfer_of(4), with_timeout, batch] {
        let (mut manager, far) = datagram_pair();
        let connection = manager
            .connection
            .take()
            .expect("the manager has a connection");
        let Ok(Connection::Socket(socket)) = Rc::try_unwrap(connection) else {
            panic!("the connection is not a plain socket");
        };
        let other_socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        other_socket.set_nonblocking(true).unwrap();
        let other_address = other_socket.local_addr().unwrap();
        let early = EarlyDatagrams::with_socket(Box::new(OtherSocket(other_socket)));
        manager.connection = Some(Rc::new(Connection::Early(socket, RefCell::new(early))));
        let steps = vec![
            step_once(Action::Receive(transfer)),
            step_once(Action::Send(transfer_of(4))),
        ];
        let mut script = Script::new(steps, 0);
        let early_peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Each datagram is sent after the response to the previous one.
                for to_other_socket in [true, true, false, false] {
                    if to_other_socket {
                        early_peer.send_to(b"1234", other_address).unwrap();
                    } else {
                        far.send(b"1234").unwrap();
                    }
                    far.recv(&mut [0; 9]).unwrap();
                }
            });
            let (result, counts) = run(
                &mut script,
                &mut manager,
                Limit::Transactions(4),
                &Stop::new(),
            );
            assert_eq!(result.ended, EndCause::Count);
            assert_eq!((counts.received.0, counts.sent.0), (16, 16));
        });
        let connection = manager
            .connection
            .take()
            .expect("the manager has a connection");
        assert!(connection.has_used_up_early_datagrams());
    }
}
