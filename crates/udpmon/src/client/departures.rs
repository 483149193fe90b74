//! The departures of a test, and the activity of this host meanwhile.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant, SystemTime};

use engine::{Counters, PacketSender, Stop};
use model::{Counts, Ended, Outcome, Plan, Side, Spaced};

use crate::host::HostMeter;
use crate::options::{FORMAT, Load};
use crate::result::HostUse;
use crate::wire::{Block, Command};

/// The wait for late datagrams and for the counters of both hosts.
const SETTLE: Duration = Duration::from_secs(1);

/// The sent data of a test.
pub(super) struct Departures {
    started: SystemTime,
    ended: Ended,
    counts: Counts,
    pub(super) spaced: Spaced,
    pub(super) host: HostUse,
    /// The send time in each datagram, in 0.1 µs, for the requested number of datagrams.
    pub(super) times: Vec<i64>,
}

impl Departures {
    /// Sends the datagrams and waits until late ones have arrived. Times in the datagrams are relative to `zero_ns` of
    /// the monotonic clock. The result contains the times of the first `kept` datagrams.
    pub(super) fn run(
        socket: BorrowedFd<'_>,
        load: &Load,
        zero_ns: u64,
        kept: usize,
        is_v6: bool,
        stop: &Stop,
    ) -> io::Result<Self> {
        let mut times = Vec::with_capacity(kept);
        let mut datagram = template(load.bytes as usize);
        let counters = Counters::default();
        let meter = HostMeter::start(None, is_v6);
        let started = SystemTime::now();
        let (stop, _promise) = match load.time {
            Some(time) => {
                let (stop, promise) = stop.follower_until(Instant::now() + time);
                (stop, Some(promise))
            }
            None => (stop.clone(), None),
        };
        let sender = PacketSender {
            socket,
            datagram: &mut datagram,
            format: FORMAT,
            zero_ns,
            spacing: &load.spacing,
            count: load.time.is_none().then_some(load.datagrams),
            counters: &counters,
            log: (kept > 0).then_some(&mut times),
        };
        let sent = sender.run(&stop);
        if let Ended::Failed(why) = &sent.ran.ended {
            return Err(io::Error::other(format!(
                "cannot send {} bytes: {why}",
                load.bytes
            )));
        }
        let cpus = meter.since_start().cpus;
        std::thread::sleep(SETTLE);
        Ok(Self {
            started,
            ended: sent.ran.ended,
            counts: counters.counts(),
            spaced: sent.spaced,
            times: times.into_iter().map(|time_ns| time_ns / 100).collect(),
            host: HostUse {
                cpus,
                ..meter.since_start()
            },
        })
    }

    /// Returns the outcome of this test.
    pub(super) fn outcome(self, plan: Plan, there: Option<Side>) -> Outcome {
        let here = Side {
            counts: self.counts,
            elapsed: Some(self.spaced.elapsed),
            spaced: Some(self.spaced),
            ..Side::default()
        };
        Outcome::of_flow(plan, self.started, here, there, self.ended)
    }
}

/// A datagram without number and time. Its payload cannot be compressed.
fn template(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let mut datagram: Vec<u8> = (0..bytes).map(|_| next()).collect();
    Block::request(Command::Data).write(&mut datagram);
    datagram
}
