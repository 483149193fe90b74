//! The sending part of a test, and the activity of this host during it.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant, SystemTime};

use engine::{Counters, PacketSender, Stop};
use model::{Counts, EndCause, Outcome, Plan, Side, SpacingResult};

use crate::host::HostMeter;
use crate::options::{DATAGRAM_FORMAT, TestLoad};
use crate::result::HostActivity;
use crate::wire::{Command, MessageBlock};

/// The wait after the last departure, for late datagrams and for the counters of both hosts.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// The sent datagrams of a test.
pub(super) struct Departures {
    started: SystemTime,
    ended: EndCause,
    counts: Counts,
    pub(super) spacing: SpacingResult,
    pub(super) host: HostActivity,
    /// The send time in each datagram, in 0.1 µs, for the first datagrams.
    pub(super) send_times: Vec<i64>,
}

impl Departures {
    /// Sends the datagrams, and then waits 1 s for late arrivals. Send times in the datagrams are
    /// relative to `zero_ns` of the monotonic clock. The result has the send times of the first
    /// `kept_times` datagrams.
    pub(super) fn run(
        socket: BorrowedFd<'_>,
        load: &TestLoad,
        zero_ns: u64,
        kept_times: usize,
        is_v6: bool,
        stop: &Stop,
    ) -> io::Result<Self> {
        let mut times = Vec::with_capacity(kept_times);
        let mut datagram = datagram_template(load.bytes as usize);
        let counters = Counters::default();
        let meter = HostMeter::start(None, is_v6);
        let started = SystemTime::now();
        let (stop, _deadline) = match load.time {
            Some(time) => {
                let (stop, deadline) = stop.child_until(Instant::now() + time);
                (stop, Some(deadline))
            }
            None => (stop.clone(), None),
        };
        let sender = PacketSender {
            socket,
            datagram: &mut datagram,
            format: DATAGRAM_FORMAT,
            zero_ns,
            spacing: &load.spacing,
            count: load.time.is_none().then_some(load.datagrams),
            counters: &counters,
            log: (kept_times > 0).then_some(&mut times),
        };
        let sent = sender.run(&stop);
        if let EndCause::Failed(reason) = &sent.loop_result.ended {
            return Err(io::Error::other(format!(
                "cannot send {} bytes: {reason}",
                load.bytes
            )));
        }
        let has_sent = counters.counts().sent.0 > 0;
        let cpus = meter.since_start(has_sent).cpus;
        std::thread::sleep(SETTLE_TIME);
        Ok(Self {
            started,
            ended: sent.loop_result.ended,
            counts: counters.counts(),
            spacing: sent.spacing_result,
            send_times: times.into_iter().map(|time_ns| time_ns / 100).collect(),
            host: HostActivity {
                cpus,
                ..meter.since_start(has_sent)
            },
        })
    }

    /// Returns the outcome of this test.
    pub(super) fn outcome(self, plan: Plan, remote: Option<Side>) -> Outcome {
        let local = Side {
            counts: self.counts,
            elapsed: Some(self.spacing.elapsed),
            spacing_result: Some(self.spacing),
            ..Side::default()
        };
        Outcome::for_flow(plan, self.started, local, remote, self.ended)
    }
}

/// Returns a datagram with zeros for its number and send time. Its payload cannot be compressed.
fn datagram_template(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next_byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let mut datagram: Vec<u8> = (0..bytes).map(|_| next_byte()).collect();
    MessageBlock::with_command(Command::Data).write(&mut datagram);
    datagram
}
