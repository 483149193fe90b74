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

/// Has one connection, and writes down what it is asked for.
#[derive(Default)]
struct Host {
    connection: Option<Rc<Connection>>,
    looked_up: Vec<usize>,
    performed: Vec<usize>,
    then: Option<Then>,
}

/// What the host does at a step of its own.
type Then = fn(&mut Host) -> Result<Performed, Failure>;

impl ConnectionManager for Host {
    fn connection(&mut self, step: usize) -> Result<Rc<Connection>, Failure> {
        self.looked_up.push(step);
        let connection = self.connection.as_ref().map(Rc::clone);
        connection.ok_or_else(|| Failure::of_sense("No such connection 0"))
    }

    fn perform(&mut self, step: usize, _: &Stop) -> Result<Performed, Failure> {
        self.performed.push(step);
        self.then
            .map_or(Ok(Performed::default()), |then| then(self))
    }
}

fn pair() -> (Host, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (near, _) = listener.accept().unwrap();
    let host = Host {
        connection: Some(Rc::new(Connection::Socket(OwnedFd::from(near)))),
        ..Host::default()
    };
    (host, far)
}

fn once(action: Action) -> Step {
    Step {
        name: "step".into(),
        action,
        count: 1,
        can_fail: false,
    }
}

fn exactly(bytes: u32) -> Transfer {
    Transfer {
        amount: Amount::Exactly(bytes),
        repeat: 1,
        patience: None,
        waits: true,
        batch: None,
    }
}

fn run(script: &mut Script, host: &mut Host, limit: Limit, stop: &Stop) -> (Ran, Counts) {
    watched(script, host, limit, stop, &mut ())
}

fn watched(
    script: &mut Script,
    host: &mut Host,
    limit: Limit,
    stop: &Stop,
    watch: &mut impl Watch,
) -> (Ran, Counts) {
    let counters = Counters::default();
    let orders = Orders {
        limit,
        pacing: None,
        stop,
        counters: &counters,
    };
    let _attending = stop.attend();
    let end = script.run(host, &orders, &mut [0; 1000], watch);
    (end, counters.counts())
}

#[test]
fn rounds_of_request_and_response() {
    let (mut host, mut far) = pair();
    let peer = thread::spawn(move || {
        let mut request = [0; 90];
        for _ in 0..50 {
            far.read_exact(&mut request).unwrap();
            // In two pieces, so that a receive has to go on.
            far.write_all(&[1; 100]).unwrap();
            far.write_all(&[1; 50]).unwrap();
        }
    });
    let write = Step {
        count: 3,
        ..once(Action::Send(exactly(30)))
    };
    let steps = vec![
        write,
        once(Action::Receive(exactly(150))),
        once(Action::Nothing),
    ];
    let mut script = Script::new(steps, 0);
    let (end, counts) = run(
        &mut script,
        &mut host,
        Limit::Transactions(50),
        &Stop::new(),
    );
    peer.join().unwrap();
    assert_eq!(end.ended, Ended::Count);
    let expected = Counts {
        operations: 50 * 5,
        sent: Bytes(50 * 90),
        received: Bytes(50 * 150),
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    assert_eq!(host.looked_up, [0, 1], "each step keeps its connection");
}

#[test]
fn random_sizes_are_within_their_bounds_and_of_one_call() {
    let (mut host, mut far) = pair();
    let random = Transfer {
        amount: Amount::Between { min: 5, max: 9 },
        ..exactly(0)
    };
    let mut script = Script::new(vec![once(Action::Send(random))], 7);
    let (end, counts) = run(
        &mut script,
        &mut host,
        Limit::Transactions(1000),
        &Stop::new(),
    );
    assert_eq!(end.ended, Ended::Count);
    assert!(
        (5000 + 1000..9000 - 1000).contains(&counts.sent.0),
        "{counts:?}"
    );
    drop((script, host));
    let mut seen = Vec::new();
    far.read_to_end(&mut seen).unwrap();
    assert_eq!(seen.len() as u64, counts.sent.0);
}

/// Takes ten bytes a call.
#[derive(Debug)]
struct Narrow;

impl Layer for Narrow {
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
fn random_sizes_go_whole_through_a_layer() {
    let (mut host, far) = pair();
    let layer = RefCell::new(Box::new(Narrow) as Box<dyn Layer>);
    host.connection = Some(Rc::new(Connection::Layered(layer, Rc::new(far.into()))));
    let random = Transfer {
        amount: Amount::Between { min: 95, max: 95 },
        ..exactly(0)
    };
    let mut script = Script::new(vec![once(Action::Send(random))], 0);
    let (end, counts) = run(&mut script, &mut host, Limit::Transactions(3), &Stop::new());
    assert_eq!(end.ended, Ended::Count);
    assert_eq!((counts.operations, counts.sent.0), (3, 3 * 95));
}

#[test]
fn the_end_of_a_stream_ends_it_and_what_came_before_counts() {
    let (mut host, mut far) = pair();
    far.write_all(&[1; 250]).unwrap();
    drop(far);
    let steps = vec![once(Action::Nothing), once(Action::Receive(exactly(100)))];
    let mut script = Script::new(steps, 0);
    let (end, counts) = run(&mut script, &mut host, Limit::Transactions(9), &Stop::new());
    assert_eq!(end.ended, Ended::PeerClosed);
    assert_eq!((counts.received.0, counts.operations), (250, 5));
}

#[test]
fn a_stop_ends_a_receive_that_waits() {
    let (mut host, _far) = pair();
    let stop = Stop::new();
    let begun = Instant::now();
    let _deadline = crate::deadline_thread().at(begun + Duration::from_millis(50), &stop);
    let mut script = Script::new(vec![once(Action::Receive(exactly(1)))], 0);
    let (end, counts) = run(&mut script, &mut host, Limit::Unlimited, &stop);
    assert_eq!(end.ended, Ended::Deadline);
    assert_eq!(counts, Counts::default());
    assert!(begun.elapsed() >= Duration::from_millis(50));
}

#[test]
fn what_may_fail_counts_and_what_may_not_ends_it() {
    let (mut host, _far) = pair();
    let impatient = Transfer {
        patience: Some(Duration::from_millis(1)),
        ..exactly(1)
    };
    let mut step = Step {
        can_fail: true,
        ..once(Action::Receive(impatient))
    };
    let mut script = Script::new(vec![step.clone()], 0);
    let (end, counts) = run(&mut script, &mut host, Limit::Transactions(3), &Stop::new());
    assert_eq!(end.ended, Ended::Count);
    assert_eq!((counts.operations, counts.failed_operations), (3, 3));

    step.can_fail = false;
    let mut script = Script::new(vec![step], 0);
    let (end, counts) = run(&mut script, &mut host, Limit::Transactions(3), &Stop::new());
    let why = Failure::of_call("receive", Error::TIMEDOUT);
    assert_eq!(end.failed_step, Some((0, why)));
    assert_eq!(counts, Counts::default());
}

#[test]
fn patience_outlasts_what_is_no_stop() {
    let (mut host, _far) = pair();
    let patience = Duration::from_millis(100);
    let patient = Transfer {
        patience: Some(patience),
        ..exactly(1)
    };
    // Of somebody else, who wakes this thread again and again.
    let other = Stop::new();
    let _attending = other.attend();
    let begun = Instant::now();
    let _deadline = crate::deadline_thread().at(begun + Duration::from_millis(10), &other);
    let mut script = Script::new(vec![once(Action::Receive(patient))], 0);
    let (end, _) = run(&mut script, &mut host, Limit::Transactions(1), &Stop::new());
    let late = Failure::of_call("receive", Error::TIMEDOUT);
    assert_eq!(end.failed_step, Some((0, late)));
    assert!(begun.elapsed() >= patience);
}

#[test]
fn own_steps_say_who_forgets_which_line() {
    let (mut host, _far) = pair();
    host.then = Some(|_| {
        Ok(Performed {
            later_forget: true,
            ..Performed::default()
        })
    });
    let send = || once(Action::Send(exactly(1)));
    let steps = vec![send(), once(Action::Own), send()];
    let mut script = Script::new(steps, 0);
    let (end, _) = run(&mut script, &mut host, Limit::Transactions(2), &Stop::new());
    assert_eq!(end.ended, Ended::Count);
    assert_eq!(
        host.looked_up,
        [0, 2, 2],
        "the step before keeps its connection"
    );

    host.looked_up.clear();
    host.then = Some(|host| {
        Ok(Performed {
            closed: [host.connection.as_ref().map(Rc::clone), None],
            ..Performed::default()
        })
    });
    let (end, _) = run(&mut script, &mut host, Limit::Transactions(2), &Stop::new());
    assert_eq!(end.ended, Ended::Count);
    assert_eq!(host.looked_up, [2, 0, 2], "whoever has it forgets it");

    host.then = Some(|_| {
        Ok(Performed {
            ends: true,
            ..Performed::default()
        })
    });
    host.performed.clear();
    let (end, _) = run(&mut script, &mut host, Limit::Transactions(2), &Stop::new());
    assert_eq!((end.ended, host.performed), (Ended::Count, vec![1]));
}

#[test]
fn without_a_line_a_transfer_fails() {
    let mut host = Host::default();
    let mut script = Script::new(vec![once(Action::Send(exactly(1)))], 0);
    let (end, _) = run(&mut script, &mut host, Limit::Transactions(1), &Stop::new());
    let why = Failure::of_sense("No such connection 0");
    assert_eq!(end.failed_step, Some((0, why)));
}

#[test]
fn thinking_takes_its_time_and_no_more_than_the_stop_allows() {
    for spins in [false, true] {
        let think = |milliseconds| {
            once(Action::Think {
                duration: Duration::from_millis(milliseconds),
                spins,
            })
        };
        let begun = Instant::now();
        let mut script = Script::new(vec![think(20)], 0);
        let mut host = Host::default();
        let (end, counts) = run(&mut script, &mut host, Limit::Transactions(2), &Stop::new());
        assert_eq!((end.ended, counts.operations), (Ended::Count, 2));
        assert!(begun.elapsed() >= Duration::from_millis(40));

        let stop = Stop::new();
        let _deadline =
            crate::deadline_thread().at(Instant::now() + Duration::from_millis(20), &stop);
        let mut script = Script::new(vec![think(3_600_000)], 0);
        let (end, _) = run(&mut script, &mut host, Limit::Transactions(1), &stop);
        assert_eq!(end.ended, Ended::Deadline);
    }
}

#[test]
fn times_of_steps_and_rounds() {
    let (mut host, _far) = pair();
    let think = Action::Think {
        duration: Duration::from_millis(2),
        spins: true,
    };
    let steps = vec![
        Step {
            count: 3,
            ..once(think)
        },
        once(Action::Send(exactly(10))),
    ];
    let mut script = Script::new(steps, 0);
    let mut times = StepTimes::new(2, true, true).with_histogram();
    let (limit, stop) = (Limit::Transactions(4), Stop::new());
    let (end, _) = watched(&mut script, &mut host, limit, &stop, &mut times);
    assert_eq!(end.ended, Ended::Count);
    let times = times.finish();
    let (thinks, sends) = (times.steps[0], times.steps[1]);
    assert_eq!((thinks.executions, sends.executions), (12, 4));
    assert!(thinks.shortest_ns >= 6_000_000 && thinks.cpu_ns > 0);
    assert!(thinks.longest_ns >= thinks.shortest_ns);
    let rounds = times.rounds;
    assert_eq!(rounds.executions, 4);
    assert_eq!(rounds.total_ns, thinks.total_ns + sends.total_ns);
    assert_eq!(times.histogram.unwrap().len(), 4);
}

#[test]
fn counters_are_read_from_step_to_step() {
    use sys::counter::{Event, EventCounters};
    let Ok((counters, _)) = EventCounters::open(&[Event::TASK_CLOCK]) else {
        eprintln!("SKIPPED: no counters here");
        return;
    };
    let think = |spins| {
        once(Action::Think {
            duration: Duration::from_millis(20),
            spins,
        })
    };
    let mut script = Script::new(vec![think(true), think(false)], 0);
    let mut times = StepTimes::new(2, true, false).with_counters(Rc::new(counters));
    let (limit, stop) = (Limit::Transactions(2), Stop::new());
    let (end, _) = watched(&mut script, &mut Host::default(), limit, &stop, &mut times);
    assert_eq!(end.ended, Ended::Count);
    let times = times.finish();
    let counts = times.events.unwrap();
    // One keeps the CPU, the other leaves it; on a busy machine it does not have all of it.
    assert!(counts[0][0] > 5 * counts[1][0], "{counts:?}");
    // The counters are read outside of the times, and reading them takes time of the CPU.
    assert!(counts[0][0] < 2 * times.steps[0].total_ns, "{counts:?}");
}

/// What is sent and received as bytes each, and how often a pass; whether it is sent.
type Shape = [(bool, u32, u64)];

#[test]
fn a_list_of_any_form_counts_what_the_peer_saw_though_it_comes_in_pieces() {
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
        let (mut host, far) = pair();
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
                ..once(if sends {
                    Action::Send(exactly(bytes))
                } else {
                    Action::Receive(exactly(bytes))
                })
            })
            .collect();
        let mut script = Script::new(steps, 0);
        let mut times = StepTimes::new(shape.len(), true, false);
        let (limit, stop) = (Limit::Transactions(ROUNDS), Stop::new());
        let (end, counts) = watched(&mut script, &mut host, limit, &stop, &mut times);
        assert_eq!(end.ended, Ended::Count, "{shape:?}");
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

fn datagrams() -> (Host, UdpSocket) {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    let host = Host {
        connection: Some(Rc::new(Connection::Socket(OwnedFd::from(near)))),
        ..Host::default()
    };
    (host, far)
}

/// Five messages of so many bytes, twice.
fn batches(bytes: u32) -> Transfer {
    Transfer {
        repeat: 2,
        batch: Some(Batch {
            count: 5,
            info: None,
        }),
        ..exactly(bytes)
    }
}

#[test]
fn a_batch_is_several_messages() {
    let (mut host, far) = datagrams();
    let mut script = Script::new(vec![once(Action::Send(batches(100)))], 0);
    let (end, counts) = run(&mut script, &mut host, Limit::Transactions(3), &Stop::new());
    assert_eq!(end.ended, Ended::Count);
    assert_eq!((counts.operations, counts.sent.0), (3, 3 * 2 * 5 * 100));
    let mut buffer = [0; 1000];
    for _ in 0..30 {
        assert_eq!(far.recv(&mut buffer).unwrap(), 100);
    }
}

#[test]
fn a_batch_is_received_to_its_last_byte() {
    let (mut host, far) = datagrams();
    // Five of fifty, and then as many bytes in other sizes: what is longer than a message is cut.
    for length in [50, 50, 50, 50, 50, 100, 10, 40, 50, 20, 10, 20, 50] {
        far.send(&vec![1; length]).unwrap();
    }
    let mut script = Script::new(vec![once(Action::Receive(batches(50)))], 0);
    let (end, counts) = run(&mut script, &mut host, Limit::Transactions(1), &Stop::new());
    assert_eq!(end.ended, Ended::Count);
    assert_eq!(counts.received.0, 500);
}

#[test]
fn a_batch_of_random_sizes_is_received_to_its_last_message() {
    let (mut host, far) = datagrams();
    let sizes = [7, 40, 50, 9, 21, 33, 50, 8, 12, 30];
    let late = Instant::now() + Duration::from_millis(20);
    let sender = thread::spawn(move || {
        for (at, size) in sizes.into_iter().enumerate() {
            if at == 3 {
                thread::sleep(late.saturating_duration_since(Instant::now()));
            }
            far.send(&vec![1; size]).unwrap();
        }
        far
    });
    let random = Transfer {
        amount: Amount::Between { min: 5, max: 50 },
        ..batches(0)
    };
    let mut script = Script::new(vec![once(Action::Receive(random))], 0);
    let (end, counts) = run(&mut script, &mut host, Limit::Transactions(1), &Stop::new());
    sender.join().unwrap();
    assert_eq!(end.ended, Ended::Count);
    assert_eq!(counts.received.0, sizes.iter().sum::<usize>() as u64);
}

#[test]
fn who_does_not_wait_fails_or_has_patience() {
    let (mut host, _far) = datagrams();
    let hasty = Transfer {
        waits: false,
        ..exactly(1)
    };
    let mut script = Script::new(vec![once(Action::Receive(hasty))], 0);
    let (end, _) = run(&mut script, &mut host, Limit::Transactions(1), &Stop::new());
    let again = Failure::of_call("receive", Error::AGAIN);
    assert_eq!(end.failed_step, Some((0, again)));
    for batch in [None, batches(1).batch] {
        let hasty = Transfer {
            patience: Some(Duration::from_millis(20)),
            batch,
            ..hasty
        };
        let begun = Instant::now();
        let mut script = Script::new(vec![once(Action::Receive(hasty))], 0);
        let (end, _) = run(&mut script, &mut host, Limit::Transactions(1), &Stop::new());
        let late = Failure::of_call("receive", Error::TIMEDOUT);
        assert_eq!(end.failed_step, Some((0, late)));
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }
}

#[test]
fn datagrams_that_came_early_are_received_first() {
    let patient = Transfer {
        patience: Some(Duration::from_secs(20)),
        ..exactly(4)
    };
    let batch = Transfer {
        batch: Some(Batch {
            count: 2,
            info: None,
        }),
        ..exactly(4)
    };
    for transfer in [exactly(4), patient, batch] {
        let (mut host, far) = datagrams();
        let connection = host.connection.take().expect("it has one");
        let Ok(Connection::Socket(socket)) = Rc::try_unwrap(connection) else {
            panic!("it is a socket");
        };
        let mut early = Early::default();
        // The last is longer than what is asked for.
        for datagram in [&b"1234"[..], b"12", b"34", b"123456"] {
            early.push(datagram);
        }
        host.connection = Some(Rc::new(Connection::Early(socket, RefCell::new(early))));
        for _ in 0..3 {
            far.send(b"1234").unwrap();
        }
        let steps = vec![
            once(Action::Receive(transfer)),
            once(Action::Send(exactly(4))),
        ];
        let mut script = Script::new(steps, 0);
        let rounds = if transfer.batch.is_some() { 3 } else { 6 };
        let stop = Stop::new();
        let (end, counts) = run(&mut script, &mut host, Limit::Transactions(rounds), &stop);
        assert_eq!(end.ended, Ended::Count);
        assert_eq!((counts.received.0, counts.sent.0), (24, 4 * rounds));
        assert_eq!(host.looked_up, [0, 1], "each step keeps its connection");
    }
}

/// The other socket of a connection whose datagrams do not all come to its own.
#[derive(Debug)]
struct Other(UdpSocket);

impl Elsewhere for Other {
    fn socket(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn collect(&self, early: &mut Early) {
        let mut datagram = [0; 100];
        while let Ok(length) = self.0.recv(&mut datagram) {
            early.push(&datagram[..length]);
        }
    }
}

#[test]
fn datagrams_that_come_elsewhere_are_received_too() {
    let patient = Transfer {
        patience: Some(Duration::from_secs(20)),
        ..exactly(4)
    };
    let batch = Transfer {
        batch: Some(Batch {
            count: 1,
            info: None,
        }),
        ..exactly(4)
    };
    for transfer in [exactly(4), patient, batch] {
        let (mut host, far) = datagrams();
        let connection = host.connection.take().expect("it has one");
        let Ok(Connection::Socket(socket)) = Rc::try_unwrap(connection) else {
            panic!("it is a socket");
        };
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        other.set_nonblocking(true).unwrap();
        let elsewhere = other.local_addr().unwrap();
        let early = Early::with_more(Box::new(Other(other)));
        host.connection = Some(Rc::new(Connection::Early(socket, RefCell::new(early))));
        let steps = vec![
            once(Action::Receive(transfer)),
            once(Action::Send(exactly(4))),
        ];
        let mut script = Script::new(steps, 0);
        let farther = UdpSocket::bind("127.0.0.1:0").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Each is sent when the last was answered.
                for is_elsewhere in [true, true, false, false] {
                    if is_elsewhere {
                        farther.send_to(b"1234", elsewhere).unwrap();
                    } else {
                        far.send(b"1234").unwrap();
                    }
                    far.recv(&mut [0; 9]).unwrap();
                }
            });
            let (end, counts) = run(&mut script, &mut host, Limit::Transactions(4), &Stop::new());
            assert_eq!(end.ended, Ended::Count);
            assert_eq!((counts.received.0, counts.sent.0), (16, 16));
        });
        let connection = host.connection.take().expect("it has one");
        assert!(connection.has_become_plain());
    }
}
