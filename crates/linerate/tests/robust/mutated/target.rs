//! The attack on the servers of one dialect.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use testkit::{datagram_connections, fuzz, wait_until};

use super::conversation::{Conversation, DataSocket, Message, server_address};
use super::counts::Counts;
use super::mutation;
use super::servers::{IDLE_TIMEOUT, RunningServer};
use super::session::Session;
use super::third_host::ThirdHost;
use crate::hosts::network::Hosts;

/// Default number of conversations per dialect; `FUZZ_ITERATIONS` sets another one. Three
/// conversations have four mutated messages.
const CONVERSATIONS: u64 = 2_000;

/// Number of conversations after which the server's memory no longer grows.
const WARM_UP: u64 = 600;

/// Number of concurrent conversations.
const CLIENTS: usize = 32;

/// Allowed growth of the resident memory after the warm-up, in KiB.
const GROWTH_KIB: u64 = 10 * 1024;

/// Time between two attempts to end the remaining UDP sessions.
const SWEEP_INTERVAL: Duration = Duration::from_millis(400);

/// The conversations with the servers of one dialect.
pub(super) struct Target {
    pub(super) conversations: Vec<Conversation>,
    /// Parses the data socket in an answer.
    pub(super) parse_data_socket: fn(&[u8]) -> Option<DataSocket>,
    /// Makes the messages of a conversation unique.
    pub(super) make_unique: fn(&mut SmallRng, &mut [Message]),
    /// Completes a valid message with values from the last answer.
    pub(super) complete: fn(&mut Vec<u8>, &[u8]),
    /// Repairs the lengths and checksums of a mutated message.
    pub(super) repair: fn(&mut Vec<u8>),
    /// The datagram that ends a UDP session; empty if there is none.
    pub(super) last_datagram: Vec<u8>,
    /// Expected percentage of conversations with an answer to a mutated message or a later one.
    pub(super) answered_percent: std::ops::RangeInclusive<u64>,
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

impl Target {
    pub(super) fn attack(&self, hosts: &Hosts, third_host: &ThirdHost, server: &RunningServer<'_>) {
        let seeds = fuzz::seeds(CONVERSATIONS);
        for (setting, value) in [
            // The kernel reuses ports of closed connections after a second.
            ("tcp_tw_reuse", "1"),
            // Each datagram to a closed socket is refused. By default, only one per second is, so
            // that thousands of reverse flows would run until their end.
            ("icmp_ratelimit", "0"),
        ] {
            hosts
                .master
                .enter(|| std::fs::write(format!("/proc/sys/net/ipv4/{setting}"), value))
                .expect("root can write the setting");
        }
        let warm_up = 1 << 32..(1 << 32) + WARM_UP;
        self.run_conversations(hosts, server, warm_up);
        let resident_kib = (server.resident_kib)();

        let start = Instant::now();
        let counts = self.run_conversations(hosts, server, seeds);
        let elapsed = start.elapsed().as_secs_f64();
        println!(
            "{} mutated messages in {elapsed:.1} s, {:.0} per second; {} after valid ones",
            counts.mutated,
            counts.mutated as f64 / elapsed,
            counts.after_valid,
        );
        counts.print_messages();
        let start = Instant::now();
        // The server returns freed memory to the kernel after a while.
        let limit_kib = resident_kib + GROWTH_KIB;
        let has_limit = wait_until(IDLE_TIMEOUT, || (server.resident_kib)() <= limit_kib);
        let is_idle = wait_until(IDLE_TIMEOUT, || {
            self.end_datagram_sessions(hosts);
            (server.usage)().fits_within(server.idle_usage)
        });
        println!(
            "{:?} and {resident_kib} KiB before; {:?} and {} KiB {:.1} s after the messages",
            server.idle_usage,
            (server.usage)(),
            (server.resident_kib)(),
            start.elapsed().as_secs_f64(),
        );
        assert!(is_idle, "the server keeps resources: {}", (server.log)());
        (server.assert_serves)();
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

    /// Ends the UDP sessions whose last datagram the server has dropped. It drops datagrams of new
    /// sessions while too many others wait.
    fn end_datagram_sessions(&self, hosts: &Hosts) {
        let connections = hosts.slaves[0].enter(datagram_connections);
        if self.last_datagram.is_empty() || connections.is_empty() {
            return;
        }
        for (port, peer) in connections {
            let end = || UdpSocket::bind(peer)?.send_to(&self.last_datagram, server_address(port));
            // The session may have ended.
            let _ = hosts.master.enter(end);
        }
        // A server answers a repeated last datagram for a while.
        thread::sleep(SWEEP_INTERVAL);
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

/// Returns whether a process exists and has not ended.
fn is_running(process: u32) -> bool {
    std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
