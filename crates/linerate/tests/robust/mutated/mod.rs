//! Mutated messages over real connections, within valid conversations: 50,000 to each server.
//!
//! Of three conversations two are valid up to the last message, which is mutated; in the third, two messages are
//! mutated anywhere. So half of the mutated messages follow valid ones that the server has answered. The server is
//! built with overflow checks and aborts at a panic. `FUZZ_ITERATIONS` sets the number of conversations, and
//! `FUZZ_SEED` repeats one of them (`testkit::fuzz`).

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
    short_directory, test_case_unless, wait_until,
};

use crate::hosts::ground::{Hosts, PORT, address};

/// A host that the server can reach and must send nothing to.
const THIRD: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);

/// Number of conversations per server; three of them have four mutated messages.
const CONVERSATIONS: u64 = 37_500;

/// Number of conversations after which the server has allocated what it keeps.
const WARM_UP: u64 = 3_000;

/// Number of conversations at a time.
const CLIENTS: usize = 16;

/// Allowed growth of the resident memory after the warm-up, in KiB.
const GROWTH_KIB: u64 = 10 * 1024;

/// Time to answer a valid message, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time to wait for an answer to a mutated message.
const A_MOMENT: Duration = Duration::from_millis(20);

/// Time for the server to release everything: a slave gives strands 12 s to end.
const REST: Duration = Duration::from_secs(40);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases: [(&str, fn()); 2] = [
        ("mutated::netserver", netserver),
        ("mutated::uperf_slave", uperf_slave),
    ];
    let unchecked =
        (!cfg!(debug_assertions)).then(|| "no overflow checks in this build".to_owned());
    let missing = unchecked.or_else(|| Namespaces.missing_reason());
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
    /// Nothing.
    None,
    /// A message of this length.
    Bytes(usize),
    /// A message of this length, and another one after a transaction on a data connection.
    Test(usize),
}

/// A data connection, as an answer announces it.
struct Data {
    port: u16,
    /// The first bytes.
    first: Vec<u8>,
}

/// A server and how to talk to it.
struct Target {
    conversations: Vec<Conversation>,
    /// Reads the place of the data connection from an answer.
    data: fn(&[u8]) -> Option<Data>,
}

fn netserver() {
    let hosts = Hosts::new(1);
    let third = ThirdHost::beside(&hosts.slaves[0]);
    let (files, sockets) = (short_directory(), short_directory());
    let file = files.path().join("f");
    std::fs::write(&file, b"fill").expect("a new directory");
    let target = Target {
        conversations: netperf::conversations(&file.display().to_string()),
        data: netperf::data,
    };
    netperf::covers_all(&target.conversations);
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
        &third,
        &Victim {
            rest: host.enter(|| server.idle_usage()),
            is_itself_again: &|rest| {
                server.assert_usage_returns_to(rest, REST, "all that");
                assert!(!server.has_panicked(), "{}", server.log());
                host.enter(|| server.assert_serves());
                assert_eq!(host.enter(listener_count), 1, "listeners are left");
                let left = std::fs::read_dir(sockets.path()).expect("a directory");
                assert_eq!(left.count(), 0, "sockets are left");
            },
            resident_kib: &|| server.resident_kib(),
            log: &|| server.log(),
        },
    );
}

fn uperf_slave() {
    let hosts = Hosts::new(1);
    let third = ThirdHost::beside(&hosts.slaves[0]);
    let files = short_directory();
    std::fs::write(files.path().join("f"), b"a file").expect("a new directory");
    let directory = files.path().display().to_string();
    let target = Target {
        conversations: uperf::conversations(&directory),
        data: uperf::data,
    };
    uperf::covers_all(&target.conversations);
    let slave = hosts.slave_of(
        0,
        without_backtraces(&format!(
            "uperf -s -P {PORT} --control-idle 5 --max-length 1 --max-masters 8192 --max-strands 2048 \
             --allow-dir {directory}"
        )),
    );
    target.attack(
        &hosts,
        &third,
        &Victim {
            rest: slave.at_rest(),
            is_itself_again: &|rest| slave.is_itself_again(rest, REST, "all that"),
            resident_kib: &|| slave.resident_kib(),
            log: &|| slave.stderr(),
        },
    );
}

/// A server that runs.
struct Victim<'a> {
    /// What it has when it serves nobody.
    rest: ProcessUsage,
    /// Fails the test unless it serves others, and has no more than at rest.
    is_itself_again: &'a dyn Fn(ProcessUsage),
    resident_kib: &'a dyn Fn() -> u64,
    log: &'a dyn Fn() -> String,
}

impl Target {
    fn attack(&self, hosts: &Hosts, third: &ThirdHost, victim: &Victim<'_>) {
        let seeds = fuzz::seeds(CONVERSATIONS);
        // Ports of connections that have ended are used again after a second.
        hosts
            .master
            .enter(|| std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "1"))
            .expect("root may");
        let warm_up = 1 << 32..(1 << 32) + WARM_UP;
        self.talk(hosts, victim, warm_up);
        (victim.is_itself_again)(victim.rest);
        let resident = (victim.resident_kib)();

        let begun = Instant::now();
        let told = self.talk(hosts, victim, seeds.clone());
        let took = begun.elapsed();
        (victim.is_itself_again)(victim.rest);
        let now = (victim.resident_kib)();
        println!(
            "{} mutated messages in {:.1} s, {:.0} per second; resident memory {resident} KiB before, {now} KiB after; {:?}",
            told.mutated,
            took.as_secs_f64(),
            told.mutated as f64 / took.as_secs_f64(),
            victim.rest,
        );
        let grown = now.saturating_sub(resident);
        assert!(grown <= GROWTH_KIB, "the server keeps {grown} KiB");
        third.has_received_nothing();
        let conversations = seeds.end - seeds.start;
        fuzz::check_accepted_percent(
            "messages behind valid ones",
            told.mutated,
            told.behind_valid,
            &(49..=50),
        );
        fuzz::check_accepted_percent(
            "conversations with an answer to the end",
            conversations,
            told.answered,
            &(30..=100),
        );
    }
}

/// Counts of what was sent and answered.
#[derive(Default)]
struct Told {
    mutated: u64,
    /// Mutated messages after valid ones that the server has all answered.
    behind_valid: u64,
    /// Conversations in which the server answered a mutated message or one after it.
    answered: u64,
}

impl Target {
    /// Holds one conversation per seed. Fails the test if the server stops listening.
    fn talk(&self, hosts: &Hosts, victim: &Victim<'_>, seeds: Range<u64>) -> Told {
        let next = AtomicU64::new(seeds.start);
        let all = Mutex::new(Told::default());
        let is_gone = AtomicBool::new(false);
        // Of each client.
        let last = Mutex::new(BTreeSet::new());
        let converse = |seed: u64| {
            let mut random = SmallRng::seed_from_u64(seed);
            self.converse(&mut random, !seed.is_multiple_of(3))
        };
        let work = || {
            let mut latest = [seeds.start; 2];
            while !is_gone.load(Relaxed) {
                let seed = next.fetch_add(1, Relaxed);
                if seed >= seeds.end {
                    break;
                }
                latest = [latest[1], seed];
                let Ok(told) = converse(seed) else {
                    is_gone.store(true, Relaxed);
                    break;
                };
                let mut all = lock(&all);
                all.mutated += told.mutated;
                all.behind_valid += told.behind_valid;
                all.answered += told.answered;
            }
            lock(&last).extend(latest);
        };
        hosts.master.enter(|| {
            thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(work);
                }
            });
            is_gone.fetch_or(connect().is_err(), Relaxed);
        });
        let last = lock(&last);
        assert!(
            !is_gone.load(Relaxed),
            "the server does not listen any more; FUZZ_SEED is one of {last:?}; log: {}",
            (victim.log)()
        );
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if the server does not listen. No answer makes it fail.
    fn converse(&self, random: &mut SmallRng, only_last: bool) -> io::Result<Told> {
        let conversation = self.any(random);
        let mut messages = conversation.messages.clone();
        let mutated = if only_last {
            if random.random_bool(0.4) {
                messages.truncate(random.random_range(1..=messages.len()));
            }
            vec![messages.len() - 1]
        } else {
            messages.extend_from_slice(&self.any(random).messages);
            let second = random.random_range(1..messages.len());
            vec![random.random_range(0..second), second]
        };
        let other = messages.choose(random).expect("there are some").clone();
        let mut talk = Talk {
            control: connect()?,
            target: self,
            data: Vec::new(),
            told: Told::default(),
        };
        let mut begun = 0;
        if only_last {
            begun = mutated[0];
            let mut beginning = messages[..begun].iter();
            let is_valid =
                beginning.all(|message| talk.say_and_hear(message, random.random()).is_ok());
            talk.told.behind_valid = u64::from(is_valid);
        }
        for (index, message) in messages.iter().enumerate().skip(begun) {
            if mutated.contains(&index) {
                talk.told.mutated += 1;
                talk.say(&mutation::mutate(random, &message.bytes, &other.bytes))?;
            } else {
                // The server may have had enough.
                let _ = talk.control.write_all(&message.bytes);
            }
            let is_answered = !matches!(message.answer, Answer::None);
            if is_answered && random.random_bool(0.3) {
                talk.hear_anything();
            }
        }
        Ok(talk.end())
    }

    fn any(&self, random: &mut SmallRng) -> &Conversation {
        self.conversations.choose(random).expect("there are some")
    }
}

/// A conversation that is going on.
struct Talk<'a> {
    control: TcpStream,
    target: &'a Target,
    /// Data connections, as long as the conversation lasts.
    data: Vec<TcpStream>,
    told: Told,
}

impl Talk<'_> {
    /// Sends a message, on another connection if the server has closed this one.
    fn say(&mut self, words: &[u8]) -> io::Result<()> {
        if self.control.write_all(words).is_err() {
            self.control = connect()?;
            // A server without room for another client closes the connection.
            let _ = self.control.write_all(words);
        }
        Ok(())
    }

    /// Sends a valid message and reads its answer.
    fn say_and_hear(&mut self, message: &Message, opens_data: bool) -> io::Result<()> {
        self.control.write_all(&message.bytes)?;
        let (Answer::Bytes(len) | Answer::Test(len)) = message.answer else {
            return Ok(());
        };
        let answer = self.hear(len)?;
        if matches!(message.answer, Answer::Test(_)) {
            let data = (self.target.data)(&answer).ok_or(ErrorKind::InvalidData)?;
            let mut connection = stream(data.port, PATIENCE)?;
            connection.write_all(&data.first)?;
            connection.read_exact(&mut [0])?;
            drop(connection);
            self.hear(len)?;
        } else if opens_data {
            self.open_data(&answer);
        }
        Ok(())
    }

    fn hear(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; len];
        self.control.read_exact(&mut answer)?;
        Ok(answer)
    }

    /// Reads one answer, if it comes soon.
    fn hear_anything(&mut self) {
        let _ = self.control.set_read_timeout(Some(A_MOMENT));
        let mut answer = [0; 4096];
        if let Ok(len @ 1..) = self.control.read(&mut answer) {
            self.told.answered = 1;
            self.open_data(&answer[..len]);
        }
    }

    /// Sends a few bytes to the announced data socket.
    fn open_data(&mut self, answer: &[u8]) {
        let Some(data) = (self.target.data)(answer) else {
            return;
        };
        if let Ok(mut connection) = stream(data.port, A_MOMENT) {
            let _ = connection.write(&data.first);
            self.data.push(connection);
        } else if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
            let _ = socket.send_to(&data.first, (address(0).as_str(), data.port));
        }
    }

    /// Shuts down this direction and reads up to the server's end, if that comes soon.
    fn end(mut self) -> Told {
        let _ = self.control.shutdown(Shutdown::Write);
        let _ = self.control.set_read_timeout(Some(A_MOMENT));
        let mut scrap = [0; 4096];
        while let Ok(1..) = self.control.read(&mut scrap) {
            self.told.answered = 1;
        }
        self.told
    }
}

/// Opens a control connection.
fn connect() -> io::Result<TcpStream> {
    let control = stream(PORT, PATIENCE)?;
    control.set_read_timeout(Some(PATIENCE))?;
    control.set_nodelay(true)?;
    Ok(control)
}

fn stream(port: u16, patience: Duration) -> io::Result<TcpStream> {
    let server = address(0).parse().expect("an address");
    TcpStream::connect_timeout(&SocketAddr::new(server, port), patience)
}

/// The host that the server must send nothing to.
struct ThirdHost {
    host: Namespace,
    /// Bytes that the interface has received before the test.
    before: u64,
}

impl ThirdHost {
    /// Links the host to the server's, with fixed neighbours, so that the kernels send nothing by themselves.
    fn beside(server: &Namespace) -> Self {
        let host = Namespace::with_loopback_only();
        add_link(
            (server, "third", "203.0.113.1/24"),
            (&host, "eth0", &format!("{THIRD}/24")),
        );
        host.ip("link set eth0 address 02:00:00:00:00:02");
        server.ip("link set third arp off");
        server.ip(&format!(
            "neighbour replace {THIRD} lladdr 02:00:00:00:00:02 dev third nud permanent"
        ));
        let mut third = Self { host, before: 0 };
        // Proves that the counter works.
        server.enter(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            socket.send_to(b"x", (THIRD, 9)).expect("there is a route");
        });
        assert!(wait_until(REST, || third.received() > 0));
        third.before = third.received();
        third
    }

    fn received(&self) -> u64 {
        let table = self
            .host
            .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let table = table.expect("/proc is there");
        let line = table
            .lines()
            .find_map(|line| line.trim().strip_prefix("eth0:"));
        let bytes = line.and_then(|line| line.split_whitespace().next());
        bytes
            .and_then(|bytes| bytes.parse().ok())
            .expect("an interface")
    }

    #[track_caller]
    fn has_received_nothing(&self) {
        let received = self.received() - self.before;
        assert_eq!(received, 0, "bytes that the third host has received");
    }
}

/// A server that ends at once when it panics, so that one of the last seeds is the cause.
fn without_backtraces(arguments: &str) -> Command {
    let mut command = linerate_with_args(arguments);
    command.env("RUST_BACKTRACE", "0");
    command
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
