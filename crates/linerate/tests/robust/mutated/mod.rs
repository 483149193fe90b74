//! Mutated messages within valid conversations over real connections: 50,000 per server.
//!
//! In two of three conversations, only the last message is mutated. In the third, any two messages
//! are. So half of the mutated messages follow valid ones that the server has answered. The server
//! has overflow checks and aborts if it panics. `FUZZ_ITERATIONS` sets the number of conversations,
//! and `FUZZ_SEED` repeats one of them (`testkit::fuzz`).

mod mutation;
mod netperf;
mod uperf;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessUsage, Server, TestCase, add_link, fuzz, linerate_with_args, listener_count,
    short_path_dir, test_case_unless, wait_until,
};

use crate::hosts::network::{Hosts, PORT, slave_address};

/// Address of a host that the server can reach but must not send to.
const THIRD_HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);

/// Default number of conversations per server; `FUZZ_ITERATIONS` sets another one. Three conversations
/// have four mutated messages.
const CONVERSATIONS: u64 = 10_000;

/// Number of conversations after which the server's memory no longer grows.
const WARM_UP: u64 = 3_000;

/// Number of concurrent conversations.
const CLIENTS: usize = 16;

/// Allowed growth of the resident memory after the warm-up, in KiB.
const GROWTH_KIB: u64 = 10 * 1024;

/// Timeout for the answer to a valid message on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout for an answer to a mutated message, which may never come.
const SHORT_TIMEOUT: Duration = Duration::from_millis(20);

/// Timeout for the server to release all resources. A slave waits up to 12 s for its strands.
const IDLE_TIMEOUT: Duration = Duration::from_secs(40);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases: [(&str, fn()); 2] = [
        ("mutated::netserver", netserver),
        ("mutated::uperf_slave", uperf_slave),
    ];
    let no_overflow_checks =
        (!cfg!(debug_assertions)).then(|| "this build has no overflow checks".to_owned());
    let missing = no_overflow_checks.or_else(|| Namespaces.missing_reason());
    let test_cases = test_cases.into_iter().map(|(name, run)| {
        test_case_unless(missing.clone(), name, move || {
            run();
            Ok(())
        })
    });
    test_cases.collect()
}

/// The messages of one control connection.
#[derive(Clone)]
struct Conversation {
    protocol: &'static str,
    messages: Vec<Message>,
}

/// A valid message.
#[derive(Clone)]
struct Message {
    bytes: Vec<u8>,
    answer: Answer,
}

/// The answer to a valid message.
#[derive(Clone, Copy)]
enum Answer {
    None,
    /// A message of this length.
    Bytes(usize),
    /// A message of this length, and another after a transaction on a data connection.
    Test(usize),
}

/// The data socket that an answer announces.
struct DataSocket {
    port: u16,
    /// First bytes to send on the data connection.
    first_bytes: Vec<u8>,
}

/// The conversations with one kind of server.
struct Target {
    conversations: Vec<Conversation>,
    /// Parses the data socket in an answer.
    parse_data_socket: fn(&[u8]) -> Option<DataSocket>,
}

fn netserver() {
    let hosts = Hosts::new(1);
    let third_host = ThirdHost::linked_to(&hosts.slaves[0]);
    let (files, sockets) = (short_path_dir(), short_path_dir());
    let file = files.path().join("f");
    std::fs::write(&file, b"fill").expect("the directory is writable");
    let target = Target {
        conversations: netperf::conversations(&file.display().to_string()),
        parse_data_socket: netperf::parse_data_socket,
    };
    netperf::assert_covers_all(&target.conversations);
    let server = hosts.slaves[0].enter(|| {
        let mut command = without_backtraces(&format!("netserver -D -d -p {PORT}"));
        command.args(
            "--control-idle 5 --data-wait 1 --data-idle 1 --drain 1 --max-length 1 --max-buffer 4194304"
                .split(' '),
        );
        command.arg("--allow-fill-dir").arg(files.path());
        command.arg("--unix-dir").arg(sockets.path());
        Server::start_at(PORT, command)
    });
    let host = &hosts.slaves[0];
    target.attack(
        &hosts,
        &third_host,
        &RunningServer {
            idle_usage: host.enter(|| server.idle_usage()),
            assert_cleaned_up_and_serves: &|idle_usage| {
                server.assert_usage_returns_to(idle_usage, IDLE_TIMEOUT, "the mutated messages");
                assert!(!server.has_panicked(), "{}", server.log());
                host.enter(|| server.assert_serves());
                assert_eq!(
                    host.enter(listener_count),
                    1,
                    "the server has data listeners"
                );
                let entries = std::fs::read_dir(sockets.path()).expect("the directory exists");
                assert_eq!(entries.count(), 0, "the server left sockets");
            },
            resident_kib: &|| server.resident_kib(),
            log: &|| server.log(),
        },
    );
}

fn uperf_slave() {
    let hosts = Hosts::new(1);
    let third_host = ThirdHost::linked_to(&hosts.slaves[0]);
    let files = short_path_dir();
    std::fs::write(files.path().join("f"), b"a file").expect("the directory is writable");
    let directory = files.path().display().to_string();
    let target = Target {
        conversations: uperf::conversations(&directory),
        parse_data_socket: uperf::parse_data_socket,
    };
    uperf::assert_covers_all(&target.conversations);
    let slave = hosts.start_slave_with(
        0,
        without_backtraces(&format!(
            "uperf -s -P {PORT} --control-idle 5 --max-length 1 --max-masters 8192 --max-strands 2048 \
             --allow-dir {directory}"
        )),
    );
    target.attack(
        &hosts,
        &third_host,
        &RunningServer {
            idle_usage: slave.idle_usage(),
            assert_cleaned_up_and_serves: &|idle_usage| {
                slave.assert_cleaned_up_and_serves(
                    idle_usage,
                    IDLE_TIMEOUT,
                    "the mutated messages",
                );
            },
            resident_kib: &|| slave.resident_kib(),
            log: &|| slave.stderr(),
        },
    );
}

/// A running server.
struct RunningServer<'a> {
    /// Usage without clients.
    idle_usage: ProcessUsage,
    /// Fails the test unless the server serves clients and its usage returns to the idle one.
    assert_cleaned_up_and_serves: &'a dyn Fn(ProcessUsage),
    resident_kib: &'a dyn Fn() -> u64,
    log: &'a dyn Fn() -> String,
}

impl Target {
    fn attack(&self, hosts: &Hosts, third_host: &ThirdHost, server: &RunningServer<'_>) {
        let seeds = fuzz::seeds(CONVERSATIONS);
        // The kernel reuses ports of closed connections after a second.
        hosts
            .master
            .enter(|| std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "1"))
            .expect("root can write the setting");
        let warm_up = 1 << 32..(1 << 32) + WARM_UP;
        self.run_conversations(hosts, server, warm_up);
        (server.assert_cleaned_up_and_serves)(server.idle_usage);
        let resident_kib = (server.resident_kib)();

        let start = Instant::now();
        let counts = self.run_conversations(hosts, server, seeds.clone());
        let elapsed = start.elapsed().as_secs_f64();
        (server.assert_cleaned_up_and_serves)(server.idle_usage);
        let final_resident_kib = (server.resident_kib)();
        println!(
            "{} mutated messages in {elapsed:.1} s, {:.0} per second; \
             resident memory {resident_kib} KiB before, {final_resident_kib} KiB after; {:?}",
            counts.mutated,
            counts.mutated as f64 / elapsed,
            server.idle_usage,
        );
        let growth_kib = final_resident_kib.saturating_sub(resident_kib);
        assert!(
            growth_kib <= GROWTH_KIB,
            "the server's memory grew by {growth_kib} KiB"
        );
        third_host.assert_received_nothing();
        let conversations = seeds.end - seeds.start;
        fuzz::check_accepted_percent(
            "mutated messages after valid ones",
            counts.mutated,
            counts.after_valid,
            &(49..=50),
        );
        fuzz::check_accepted_percent(
            "conversations with an answer to a mutated message or a later one",
            conversations,
            counts.answered,
            &(30..=100),
        );
    }
}

/// Counts of messages and conversations.
#[derive(Default)]
struct Counts {
    mutated: u64,
    /// Mutated messages that follow only valid ones, all answered by the server.
    after_valid: u64,
    /// Conversations in which the server answered a mutated message or one after it.
    answered: u64,
}

impl Target {
    /// Holds one conversation per seed. Fails the test if the server stops listening.
    fn run_conversations(
        &self,
        hosts: &Hosts,
        server: &RunningServer<'_>,
        seeds: Range<u64>,
    ) -> Counts {
        let next_seed = AtomicU64::new(seeds.start);
        let total = Mutex::new(Counts::default());
        let is_gone = AtomicBool::new(false);
        // The last two seeds of each client.
        let last_seeds = Mutex::new(BTreeSet::new());
        let converse = |seed: u64| {
            let mut random = SmallRng::seed_from_u64(seed);
            self.converse(&mut random, !seed.is_multiple_of(3))
        };
        let run_client = || {
            let mut latest = [seeds.start; 2];
            while !is_gone.load(Relaxed) {
                let seed = next_seed.fetch_add(1, Relaxed);
                if seed >= seeds.end {
                    break;
                }
                latest = [latest[1], seed];
                let Ok(counts) = converse(seed) else {
                    is_gone.store(true, Relaxed);
                    break;
                };
                let mut total = lock(&total);
                total.mutated += counts.mutated;
                total.after_valid += counts.after_valid;
                total.answered += counts.answered;
            }
            lock(&last_seeds).extend(latest);
        };
        hosts.master.enter(|| {
            thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(run_client);
                }
            });
            is_gone.fetch_or(connect().is_err(), Relaxed);
        });
        let last_seeds = lock(&last_seeds);
        assert!(
            !is_gone.load(Relaxed),
            "the server no longer listens; FUZZ_SEED is one of {last_seeds:?}; log: {}",
            (server.log)()
        );
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds one conversation. Returns an error only if the server does not listen.
    fn converse(&self, random: &mut SmallRng, only_last: bool) -> io::Result<Counts> {
        let conversation = self.choose_conversation(random);
        let mut messages = conversation.messages.clone();
        let mutated = if only_last {
            if random.random_bool(0.4) {
                messages.truncate(random.random_range(1..=messages.len()));
            }
            vec![messages.len() - 1]
        } else {
            messages.extend_from_slice(&self.choose_conversation(random).messages);
            let second = random.random_range(1..messages.len());
            vec![random.random_range(0..second), second]
        };
        let inserted = messages
            .choose(random)
            .expect("the list is not empty")
            .clone();
        let mut session = Session {
            control: connect()?,
            target: self,
            data_connections: Vec::new(),
            counts: Counts::default(),
        };
        let mut opening_len = 0;
        if only_last {
            opening_len = mutated[0];
            let are_answered = messages[..opening_len]
                .iter()
                .all(|message| session.exchange(message, random.random()).is_ok());
            session.counts.after_valid = u64::from(are_answered);
        }
        for (index, message) in messages.iter().enumerate().skip(opening_len) {
            if mutated.contains(&index) {
                session.counts.mutated += 1;
                session.send(&mutation::mutate(random, &message.bytes, &inserted.bytes))?;
            } else {
                // The server may have closed the connection.
                let _ = session.control.write_all(&message.bytes);
            }
            let has_answer = !matches!(message.answer, Answer::None);
            if has_answer && random.random_bool(0.3) {
                session.try_receive();
            }
        }
        Ok(session.end())
    }

    fn choose_conversation(&self, random: &mut SmallRng) -> &Conversation {
        self.conversations
            .choose(random)
            .expect("the list is not empty")
    }
}

/// A conversation in progress.
struct Session<'a> {
    control: TcpStream,
    target: &'a Target,
    /// Data connections, which stay open until the conversation ends.
    data_connections: Vec<TcpStream>,
    counts: Counts,
}

impl Session<'_> {
    /// Sends a message, on a new connection if the server has closed this one.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.control.write_all(bytes).is_err() {
            self.control = connect()?;
            // A server at its client limit closes this connection, too.
            let _ = self.control.write_all(bytes);
        }
        Ok(())
    }

    /// Sends a valid message and reads its answer.
    fn exchange(&mut self, message: &Message, opens_data: bool) -> io::Result<()> {
        self.control.write_all(&message.bytes)?;
        let (Answer::Bytes(len) | Answer::Test(len)) = message.answer else {
            return Ok(());
        };
        let answer = self.receive(len)?;
        if matches!(message.answer, Answer::Test(_)) {
            let data = (self.target.parse_data_socket)(&answer).ok_or(ErrorKind::InvalidData)?;
            let mut connection = stream(data.port, TIMEOUT)?;
            connection.write_all(&data.first_bytes)?;
            connection.read_exact(&mut [0])?;
            drop(connection);
            self.receive(len)?;
        } else if opens_data {
            self.open_data(&answer);
        }
        Ok(())
    }

    fn receive(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; len];
        self.control.read_exact(&mut answer)?;
        Ok(answer)
    }

    /// Reads one answer if it arrives within [`SHORT_TIMEOUT`].
    fn try_receive(&mut self) {
        let _ = self.control.set_read_timeout(Some(SHORT_TIMEOUT));
        let mut answer = [0; 4096];
        if let Ok(len @ 1..) = self.control.read(&mut answer) {
            self.counts.answered = 1;
            self.open_data(&answer[..len]);
        }
    }

    /// Sends a few bytes to the announced data socket.
    fn open_data(&mut self, answer: &[u8]) {
        let Some(data) = (self.target.parse_data_socket)(answer) else {
            return;
        };
        if let Ok(mut connection) = stream(data.port, SHORT_TIMEOUT) {
            let _ = connection.write(&data.first_bytes);
            self.data_connections.push(connection);
        } else if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
            let _ = socket.send_to(&data.first_bytes, (slave_address(0).as_str(), data.port));
        }
    }

    /// Shuts down the sending direction and reads until the server closes the connection or
    /// [`SHORT_TIMEOUT`] expires.
    fn end(mut self) -> Counts {
        let _ = self.control.shutdown(Shutdown::Write);
        let _ = self.control.set_read_timeout(Some(SHORT_TIMEOUT));
        let mut discarded = [0; 4096];
        while let Ok(1..) = self.control.read(&mut discarded) {
            self.counts.answered = 1;
        }
        self.counts
    }
}

/// Opens a control connection.
fn connect() -> io::Result<TcpStream> {
    let control = stream(PORT, TIMEOUT)?;
    control.set_read_timeout(Some(TIMEOUT))?;
    control.set_nodelay(true)?;
    Ok(control)
}

fn stream(port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let server = slave_address(0).parse().expect("a valid address");
    TcpStream::connect_timeout(&SocketAddr::new(server, port), timeout)
}

/// The host that the server must not send to.
struct ThirdHost {
    host: Namespace,
    /// Bytes that the interface received before the test.
    initial_bytes: u64,
}

impl ThirdHost {
    /// Creates the host and its link to the server's host. The neighbour entries are permanent, so
    /// the kernels themselves send nothing.
    fn linked_to(server: &Namespace) -> Self {
        let host = Namespace::with_loopback_only();
        add_link(
            (server, "third", "203.0.113.1/24"),
            (&host, "eth0", &format!("{THIRD_HOST}/24")),
        );
        host.ip("link set eth0 address 02:00:00:00:00:02");
        server.ip("link set third arp off");
        server.ip(&format!(
            "neighbour replace {THIRD_HOST} lladdr 02:00:00:00:00:02 dev third nud permanent"
        ));
        let mut third_host = Self {
            host,
            initial_bytes: 0,
        };
        // This datagram proves that the counter works.
        server.enter(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("the socket can be bound");
            socket
                .send_to(b"x", (THIRD_HOST, 9))
                .expect("the host has a route");
        });
        assert!(wait_until(IDLE_TIMEOUT, || third_host.received_bytes() > 0));
        third_host.initial_bytes = third_host.received_bytes();
        third_host
    }

    fn received_bytes(&self) -> u64 {
        let table = self
            .host
            .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let table = table.expect("/proc is mounted");
        let line = table
            .lines()
            .find_map(|line| line.trim().strip_prefix("eth0:"));
        let bytes = line.and_then(|line| line.split_whitespace().next());
        bytes
            .and_then(|bytes| bytes.parse().ok())
            .expect("the table has the interface")
    }

    #[track_caller]
    fn assert_received_nothing(&self) {
        let received = self.received_bytes() - self.initial_bytes;
        assert_eq!(received, 0, "the third host received {received} bytes");
    }
}

/// Returns a command without backtraces. A panic then ends the server immediately, so one of the
/// last seeds is the cause.
fn without_backtraces(arguments: &str) -> Command {
    let mut command = linerate_with_args(arguments);
    command.env("RUST_BACKTRACE", "0");
    command
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
