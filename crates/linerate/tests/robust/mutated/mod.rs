//! Mutated messages within valid conversations over real connections, with each dialect's servers.
//!
//! In two of three conversations, only the last message is mutated. In the third, any two messages
//! are. The first mutated message follows valid ones that the server has answered: three of four
//! mutated messages do. The server has overflow checks and aborts if it panics.
//!
//! `FUZZ_ITERATIONS` sets the number of conversations, `FUZZ_SECONDS` a time limit, and `FUZZ_SEED`
//! repeats one conversation (`testkit::fuzz`). `LINERATE_FUZZ_BINARY` is the server's program.

mod iperf;
mod iperf3;
mod mutation;
mod netperf;
mod udpmon;
mod uperf;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use socket2::{Domain, Socket, Type};
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessUsage, Server, TestCase, TestProcess, add_link, fuzz, linerate_with_args,
    listener_count, short_path_dir, test_case_unless, wait_until,
};

use crate::hosts::network::{Hosts, PORT, master_address, slave_address};

/// Address of a host that the server can reach but must not send to.
const THIRD_HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);

/// Addresses of the client's host that are not on the link. The servers treat them as unproven, and
/// delay logins after a failure for each of them separately.
const FAR_NETWORK: &str = "10.9.0.0/16";

/// Default number of conversations per dialect; `FUZZ_ITERATIONS` sets another one. Three
/// conversations have four mutated messages.
const CONVERSATIONS: u64 = 2_000;

/// Number of conversations after which the server's memory no longer grows.
const WARM_UP: u64 = 600;

/// Number of concurrent conversations.
const CLIENTS: usize = 32;

/// Allowed growth of the resident memory after the warm-up, in KiB.
const GROWTH_KIB: u64 = 10 * 1024;

/// Timeout for the answer to a valid message on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout for an answer to a mutated message, which may never come.
const SHORT_TIMEOUT: Duration = Duration::from_millis(20);

/// Timeout for the server to release all resources. A slave waits up to 12 s for its strands.
const IDLE_TIMEOUT: Duration = Duration::from_secs(40);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases: [(&str, fn()); 5] = [
        ("mutated::netserver", netserver),
        ("mutated::uperf_slave", uperf_slave),
        ("mutated::iperf_servers", iperf::run),
        ("mutated::iperf3_servers", iperf3::run),
        ("mutated::udpmon_responder", udpmon::run),
    ];
    let has_overflow_checks = cfg!(debug_assertions) || std::env::var_os(FUZZ_BINARY).is_some();
    let no_overflow_checks =
        (!has_overflow_checks).then(|| "this build has no overflow checks".to_owned());
    let missing = no_overflow_checks.or_else(|| Namespaces.missing_reason());
    let test_cases = test_cases.into_iter().map(|(name, run)| {
        test_case_unless(missing.clone(), name, move || {
            run();
            Ok(())
        })
    });
    test_cases.collect()
}

/// Environment variable with the path of the server's program, instead of the one that cargo built
/// for the tests.
const FUZZ_BINARY: &str = "LINERATE_FUZZ_BINARY";

/// The messages of one client.
#[derive(Clone)]
struct Conversation {
    protocol: &'static str,
    messages: Vec<Message>,
}

/// A valid message.
#[derive(Clone)]
struct Message {
    /// The name in the protocol.
    name: String,
    channel: Channel,
    bytes: Vec<u8>,
    /// The answers of the server, each with its channel.
    answers: Vec<(Channel, Answer)>,
}

/// A TCP connection or UDP socket of a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Channel {
    is_udp: bool,
    port: u16,
    /// Distinguishes the channels of a conversation. Number 0 of TCP is the control connection.
    number: u8,
    /// The local address is in [`FAR_NETWORK`].
    is_far: bool,
}

/// One answer to a valid message.
#[derive(Clone, Copy)]
enum Answer {
    /// This number of bytes, or a datagram of this length.
    Bytes(usize),
    /// A datagram of any length.
    Datagram,
    /// A length of four bytes, and this number of bytes.
    Counted,
    /// A message of this length, and another after a transaction on a data connection.
    Test(usize),
}

impl Message {
    fn new(name: impl Into<String>, channel: Channel, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            channel,
            bytes: bytes.into(),
            answers: Vec::new(),
        }
    }

    /// Adds an answer on the message's own channel.
    fn answered(self, answer: Answer) -> Self {
        let channel = self.channel;
        self.answered_on(channel, answer)
    }

    fn answered_on(mut self, channel: Channel, answer: Answer) -> Self {
        self.answers.push((channel, answer));
        self
    }
}

impl Channel {
    const CONTROL: Self = Self::tcp(PORT, 0);

    const fn tcp(port: u16, number: u8) -> Self {
        Self {
            is_udp: false,
            port,
            number,
            is_far: false,
        }
    }

    const fn udp(port: u16, number: u8) -> Self {
        Self {
            is_udp: true,
            ..Self::tcp(port, number)
        }
    }

    const fn far(self) -> Self {
        Self {
            is_far: true,
            ..self
        }
    }

    /// Opens the connection or socket.
    fn open(self) -> io::Result<Socket> {
        let kind = if self.is_udp {
            Type::DGRAM
        } else {
            Type::STREAM
        };
        let socket = Socket::new(Domain::IPV4, kind, None)?;
        if self.is_far {
            // The last 16 bits are those of a counter.
            static NEXT_HOST: AtomicU16 = AtomicU16::new(256);
            let [third, fourth] = NEXT_HOST.fetch_add(1, Relaxed).to_be_bytes();
            socket.bind(&SocketAddr::from(([10, 9, third, fourth], 0)).into())?;
        }
        socket.connect_timeout(&server_address(self.port).into(), TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        if !self.is_udp {
            socket.set_tcp_nodelay(true)?;
        }
        Ok(socket)
    }
}

/// The data socket that an answer announces.
struct DataSocket {
    port: u16,
    /// First bytes to send on the data connection.
    first_bytes: Vec<u8>,
}

/// The conversations with the servers of one dialect.
struct Target {
    conversations: Vec<Conversation>,
    /// Parses the data socket in an answer.
    parse_data_socket: fn(&[u8]) -> Option<DataSocket>,
    /// Makes the messages of a conversation unique.
    make_unique: fn(&mut SmallRng, &mut [Message]),
    /// Completes a valid message with values from the last answer.
    complete: fn(&mut Vec<u8>, &[u8]),
    /// Repairs the lengths and checksums of a mutated message.
    repair: fn(&mut Vec<u8>),
    /// The datagram that ends a UDP session; empty if there is none.
    last_datagram: Vec<u8>,
    /// Expected percentage of conversations with an answer to a mutated message or a later one.
    answered_percent: std::ops::RangeInclusive<u64>,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            conversations: Vec::new(),
            parse_data_socket: |_| None,
            make_unique: |_, _| {},
            complete: |_, _| {},
            repair: |_| {},
            last_datagram: Vec::new(),
            answered_percent: 30..=100,
        }
    }
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
        ..Target::default()
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
            processes: vec![server.pid()],
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
        ..Target::default()
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
            processes: vec![slave.pid() as u32],
            resident_kib: &|| slave.resident_kib(),
            log: &|| slave.stderr(),
        },
    );
}

/// Starts a server per line, with consecutive ports in the place of `PORT`, and attacks them all.
/// The command lines in `clients` must succeed before and after the attack.
fn attack_servers(target: &Target, servers: &[String], clients: &[String]) {
    let hosts = Hosts::new(1);
    let host = &hosts.slaves[0];
    let third_host = ThirdHost::linked_to(host);
    hosts
        .master
        .ip(&format!("route add local {FAR_NETWORK} dev lo"));
    host.ip(&format!(
        "route add {FAR_NETWORK} via {}",
        master_address(0)
    ));
    let start = |(port, line): (u16, &String)| {
        let line = line.replace("PORT", &port.to_string());
        Server::start_at(port, without_backtraces(&line))
    };
    let servers: Vec<_> = host.enter(|| (PORT..).zip(servers).map(start).collect());
    let assert_serves = || {
        for client in clients {
            let line = client.replace("SERVER", &slave_address(0));
            let client =
                || TestProcess::start(linerate_with_args(&line).env("IPERF3_PASSWORD", "rossi"));
            hosts.master.enter(client).finish(TIMEOUT).assert_success();
        }
    };
    let usages = || {
        servers
            .iter()
            .map(Server::settled_usage)
            .fold(NO_USAGE, add)
    };
    let usage = || servers.iter().map(Server::usage).fold(NO_USAGE, add);
    let logs = || {
        servers
            .iter()
            .map(Server::log)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_serves();
    target.attack(
        &hosts,
        &third_host,
        &RunningServer {
            idle_usage: usages(),
            assert_cleaned_up_and_serves: &|idle_usage| {
                let is_idle = wait_until(IDLE_TIMEOUT, || usage().fits_within(idle_usage));
                assert!(
                    is_idle,
                    "{:?}, idle: {idle_usage:?}; log: {}",
                    usage(),
                    logs()
                );
                assert!(!servers.iter().any(Server::has_panicked), "{}", logs());
                assert_serves();
            },
            processes: servers.iter().map(Server::pid).collect(),
            resident_kib: &|| servers.iter().map(Server::resident_kib).sum(),
            log: &logs,
        },
    );
}

const NO_USAGE: ProcessUsage = ProcessUsage {
    descriptors: 0,
    threads: 0,
};

fn add(first: ProcessUsage, second: ProcessUsage) -> ProcessUsage {
    ProcessUsage {
        descriptors: first.descriptors + second.descriptors,
        threads: first.threads + second.threads,
    }
}

/// The running servers of one dialect.
struct RunningServer<'a> {
    /// Usage without clients.
    idle_usage: ProcessUsage,
    /// Fails the test unless the server serves clients and its usage returns to the idle one.
    assert_cleaned_up_and_serves: &'a dyn Fn(ProcessUsage),
    processes: Vec<u32>,
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
        let resident_kib = (server.resident_kib)();

        let start = Instant::now();
        let counts = self.run_conversations(hosts, server, seeds);
        let elapsed = start.elapsed().as_secs_f64();
        (server.assert_cleaned_up_and_serves)(server.idle_usage);
        // The server returns freed memory to the kernel after a while.
        let limit_kib = resident_kib + GROWTH_KIB;
        let has_limit = wait_until(IDLE_TIMEOUT, || (server.resident_kib)() <= limit_kib);
        let final_resident_kib = (server.resident_kib)();
        println!(
            "{} mutated messages in {elapsed:.1} s, {:.0} per second; \
             resident memory {resident_kib} KiB before, {final_resident_kib} KiB after; {:?}",
            counts.mutated,
            counts.mutated as f64 / elapsed,
            server.idle_usage,
        );
        counts.print_messages();
        assert!(has_limit, "the server's memory grew beyond {limit_kib} KiB");
        third_host.assert_received_nothing();
        fuzz::check_accepted_percent(
            "mutated messages after valid ones",
            counts.mutated,
            counts.after_valid,
            &(73..=75),
        );
        fuzz::check_accepted_percent(
            "conversations with an answer to a mutated message or a later one",
            counts.conversations,
            counts.answered,
            &self.answered_percent,
        );
        if counts.conversations >= CONVERSATIONS {
            self.assert_reached_all(&counts);
        }
    }

    /// Fails the test unless each message was mutated, and answered if it has an answer and was
    /// valid often enough.
    fn assert_reached_all(&self, counts: &Counts) {
        const OFTEN: u64 = 20;
        let conversations = self.conversations.iter();
        for message in conversations.flat_map(|conversation| &conversation.messages) {
            let name = &message.name;
            let reached = counts.messages.get(name).copied().unwrap_or_default();
            assert!(reached.mutated > 0, "no mutated message {name}");
            let is_answerable = !message.answers.is_empty() && reached.valid >= OFTEN;
            assert!(
                reached.answered > 0 || !is_answerable,
                "no answer to {name}"
            );
        }
    }
}

/// Counts of messages and conversations.
#[derive(Default)]
struct Counts {
    conversations: u64,
    mutated: u64,
    /// Mutated messages that follow only valid ones, all answered by the server.
    after_valid: u64,
    /// Conversations in which the server answered a mutated message or one after it.
    answered: u64,
    messages: BTreeMap<String, MessageCounts>,
}

/// Counts of one message of the protocol.
#[derive(Clone, Copy, Default)]
struct MessageCounts {
    mutated: u64,
    valid: u64,
    /// Messages of either kind that the server answered.
    answered: u64,
}

impl Counts {
    fn of(&mut self, message: &Message) -> &mut MessageCounts {
        self.messages.entry(message.name.clone()).or_default()
    }

    fn add(&mut self, other: Self) {
        self.conversations += other.conversations;
        self.mutated += other.mutated;
        self.after_valid += other.after_valid;
        self.answered += other.answered;
        for (name, counts) in other.messages {
            let total = self.messages.entry(name).or_default();
            total.mutated += counts.mutated;
            total.valid += counts.valid;
            total.answered += counts.answered;
        }
    }

    fn print_messages(&self) {
        println!(
            "{:>10} {:>10} {:>10}  message",
            "mutated", "valid", "answered"
        );
        for (name, counts) in &self.messages {
            let MessageCounts {
                mutated,
                valid,
                answered,
            } = counts;
            println!("{mutated:>10} {valid:>10} {answered:>10}  {name}");
        }
    }
}

impl Target {
    /// Holds one conversation per seed, up to the time limit. Fails the test if a server ends.
    fn run_conversations(
        &self,
        hosts: &Hosts,
        server: &RunningServer<'_>,
        seeds: Range<u64>,
    ) -> Counts {
        let next_seed = AtomicU64::new(seeds.start);
        let total = Mutex::new(Counts::default());
        let is_gone = AtomicBool::new(false);
        let end_time = fuzz::time_limit().map(|limit| Instant::now() + limit);
        // The last two seeds of each client.
        let last_seeds = Mutex::new(BTreeSet::new());
        let converse = |seed: u64| {
            let mut random = SmallRng::seed_from_u64(seed);
            self.converse(&mut random, !seed.is_multiple_of(3))
        };
        let processes = &server.processes;
        let are_running = || processes.iter().all(|pid| is_running(*pid));
        let run_client = || {
            let mut latest = [seeds.start; 2];
            while !is_gone.load(Relaxed) && end_time.is_none_or(|end| Instant::now() < end) {
                let seed = next_seed.fetch_add(1, Relaxed);
                if seed >= seeds.end {
                    break;
                }
                latest = [latest[1], seed];
                let Some(counts) = converse(seed).ok().filter(|_| are_running()) else {
                    is_gone.store(true, Relaxed);
                    break;
                };
                lock(&total).add(counts);
            }
            lock(&last_seeds).extend(latest);
        };
        hosts.master.enter(|| {
            thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(run_client);
                }
            });
        });
        let last_seeds = lock(&last_seeds);
        assert!(
            !is_gone.load(Relaxed) && are_running(),
            "a server has ended or no longer listens; FUZZ_SEED is one of {last_seeds:?}; log: {}",
            (server.log)()
        );
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds one conversation. Returns an error only if the server does not listen.
    fn converse(&self, random: &mut SmallRng, only_last: bool) -> io::Result<Counts> {
        let conversation = self.choose_conversation(random);
        let mut messages = conversation.messages.clone();
        let mutated = if only_last {
            if random.random_bool(0.8) {
                messages.truncate(random.random_range(1..=messages.len()));
            }
            vec![messages.len() - 1]
        } else {
            let first = random.random_range(0..messages.len());
            messages.extend_from_slice(&self.choose_conversation(random).messages);
            vec![first, random.random_range(first + 1..messages.len())]
        };
        (self.make_unique)(random, &mut messages);
        let inserted = messages
            .choose(random)
            .expect("the list is not empty")
            .clone();
        let mut session = Session {
            target: self,
            channels: Vec::new(),
            data_connections: Vec::new(),
            last_answer: Vec::new(),
            counts: Counts {
                conversations: 1,
                ..Counts::default()
            },
        };
        session.socket(messages[0].channel)?;
        let opening_len = mutated[0];
        let are_answered = messages[..opening_len]
            .iter()
            .all(|message| session.exchange(message, random.random()).is_ok());
        session.counts.after_valid = u64::from(are_answered);
        for (index, message) in messages.iter().enumerate().skip(opening_len) {
            let mut bytes = message.bytes.clone();
            (self.complete)(&mut bytes, &session.last_answer);
            if mutated.contains(&index) {
                session.counts.mutated += 1;
                session.counts.of(message).mutated += 1;
                bytes = mutation::mutate(random, &bytes, &inserted.bytes);
                if random.random_bool(0.8) {
                    (self.repair)(&mut bytes);
                }
                session.send(message.channel, &bytes)?;
            } else if let Ok(mut socket) = session.socket(message.channel) {
                // The server may have closed the connection.
                if socket.write_all(&bytes).is_ok() {
                    session.counts.of(message).valid += 1;
                }
            }
            let is_last_datagram = message.channel.is_udp && index + 1 == messages.len();
            if !message.answers.is_empty() && (is_last_datagram || random.random_bool(0.3)) {
                session.try_receive(message);
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
    target: &'a Target,
    channels: Vec<(Channel, Socket)>,
    /// Data connections, which stay open until the conversation ends.
    data_connections: Vec<TcpStream>,
    last_answer: Vec<u8>,
    counts: Counts,
}

impl Session<'_> {
    /// Returns the socket of a channel. Opens it if necessary.
    fn socket(&mut self, channel: Channel) -> io::Result<&Socket> {
        let known = self
            .channels
            .iter()
            .position(|(other, _)| *other == channel);
        if known.is_none() {
            self.channels.push((channel, channel.open()?));
        }
        Ok(&self.channels[known.unwrap_or(self.channels.len() - 1)].1)
    }

    /// Sends a message, on a new connection if the server has closed this one.
    fn send(&mut self, channel: Channel, bytes: &[u8]) -> io::Result<()> {
        if self.socket(channel)?.write_all(bytes).is_err() {
            self.channels.retain(|(other, _)| *other != channel);
            // A server at its client limit closes this connection, too.
            let _ = self.socket(channel)?.write_all(bytes);
        }
        Ok(())
    }

    /// Sends a valid message and reads its answers.
    fn exchange(&mut self, message: &Message, opens_data: bool) -> io::Result<()> {
        let mut bytes = message.bytes.clone();
        (self.target.complete)(&mut bytes, &self.last_answer);
        self.socket(message.channel)?.write_all(&bytes)?;
        self.counts.of(message).valid += 1;
        for (channel, answer) in &message.answers {
            self.last_answer = self.receive(*channel, *answer)?;
            if let Answer::Test(len) = answer {
                self.run_transaction()?;
                self.receive(*channel, Answer::Bytes(*len))?;
            } else if opens_data {
                self.open_data();
            }
        }
        if !message.answers.is_empty() {
            self.counts.of(message).answered += 1;
        }
        Ok(())
    }

    fn receive(&mut self, channel: Channel, answer: Answer) -> io::Result<Vec<u8>> {
        let mut socket = self.socket(channel)?;
        if channel.is_udp {
            let mut datagram = vec![0; 1 << 16];
            let len = socket.read(&mut datagram)?;
            datagram.truncate(len);
            return match answer {
                Answer::Bytes(expected) if expected != len => Err(ErrorKind::InvalidData.into()),
                _ => Ok(datagram),
            };
        }
        let len = match answer {
            Answer::Bytes(len) | Answer::Test(len) => len,
            Answer::Counted | Answer::Datagram => {
                let mut len = [0; 4];
                socket.read_exact(&mut len)?;
                u32::from_be_bytes(len) as usize
            }
        };
        let mut bytes = vec![0; len];
        socket.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Runs a transaction of one byte on the announced data connection.
    fn run_transaction(&self) -> io::Result<()> {
        let data = (self.target.parse_data_socket)(&self.last_answer);
        let data = data.ok_or(ErrorKind::InvalidData)?;
        let mut connection = stream(data.port, TIMEOUT)?;
        connection.write_all(&data.first_bytes)?;
        connection.read_exact(&mut [0])
    }

    /// Reads one answer to a message if it arrives within [`SHORT_TIMEOUT`].
    fn try_receive(&mut self, message: &Message) {
        let Ok(mut socket) = self.socket(message.answers[0].0) else {
            return;
        };
        let _ = socket.set_read_timeout(Some(SHORT_TIMEOUT));
        let mut answer = [0; 4096];
        if let Ok(len @ 1..) = socket.read(&mut answer) {
            self.last_answer = answer[..len].to_vec();
            self.counts.answered = 1;
            self.counts.of(message).answered += 1;
            self.open_data();
        }
    }

    /// Sends a few bytes to the data socket that the last answer announces.
    fn open_data(&mut self) {
        let Some(data) = (self.target.parse_data_socket)(&self.last_answer) else {
            return;
        };
        if let Ok(mut connection) = stream(data.port, SHORT_TIMEOUT) {
            let _ = connection.write(&data.first_bytes);
            self.data_connections.push(connection);
        } else if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
            let _ = socket.send_to(&data.first_bytes, server_address(data.port));
        }
    }

    /// Shuts down the sending direction of the first connection and reads until the server closes
    /// it or [`SHORT_TIMEOUT`] expires. Ends the UDP sessions.
    fn end(mut self) -> Counts {
        for (channel, socket) in &self.channels {
            let mut socket = socket;
            let _ = socket.set_read_timeout(Some(SHORT_TIMEOUT));
            let mut discarded = [0; 4096];
            if channel.is_udp && !self.target.last_datagram.is_empty() {
                let is_answered = |_| {
                    // The first send call may return an error of an earlier datagram.
                    let sent = socket.write(&self.target.last_datagram);
                    sent.or_else(|_| socket.write(&self.target.last_datagram))
                        .and_then(|_| socket.read(&mut discarded))
                        .is_ok()
                };
                // A busy host may lose a datagram.
                (0..2).any(is_answered);
            } else if !channel.is_udp && channel.number == 0 {
                let _ = socket.shutdown(Shutdown::Write);
                let begun = Instant::now();
                // A mutated message may request endless data.
                while begun.elapsed() < SHORT_TIMEOUT
                    && let Ok(1..) = socket.read(&mut discarded)
                {
                    self.counts.answered = 1;
                }
            }
        }
        self.counts
    }
}

/// Returns whether a process exists and has not ended.
fn is_running(process: u32) -> bool {
    std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn server_address(port: u16) -> SocketAddr {
    let server = slave_address(0).parse().expect("a valid address");
    SocketAddr::new(server, port)
}

fn stream(port: u16, timeout: Duration) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&server_address(port), timeout)
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

/// Returns the command of a server, without backtraces. A panic then ends the server immediately, so
/// one of the last seeds is the cause.
fn without_backtraces(arguments: &str) -> Command {
    let mut command = linerate_with_args(arguments);
    if let Some(program) = std::env::var_os(FUZZ_BINARY) {
        command = Command::new(program);
        command.args(arguments.split_whitespace());
    }
    command.env("RUST_BACKTRACE", "0");
    command
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
