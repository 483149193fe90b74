//! Datagrams, at both ends: numbered, stamped, and ended by a negative number, which the receiver answers with its
//! report.

pub(crate) mod client;
mod frames;
mod group;
pub(crate) mod server;
mod silence;

use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use engine::{
    Buffers, DataSocket, DatagramWatch, FirstDatagram, Flow, Loop, MeasuredPhase, Memory,
    PhaseSettings, Ran, Stop,
};
use model::{DatagramCounts, Ended, FlowPlan, Limit, Side, Warning};
use sys::call;

use self::frames::{Sender, Watch};
use crate::flow::bits_per_second;
use crate::options::Shape;
use crate::report_group::{Leg, ReportGroup};
use crate::traffic::Went;
use crate::wire::{DatagramHeader, LatencyReport, ServerReport, WallTime};

/// The largest payload of a datagram.
const LARGEST: u32 = 65_507;

/// The most copies of the last datagram, and the wait for an answer to each.
const LAST_TRIES: u32 = 200;
const ANSWER: Duration = Duration::from_millis(10);

/// The pause after a refusal, and the most refusals: a stock server refuses a flow's datagrams while it makes a socket
/// for another flow.
const REFUSED: Duration = Duration::from_millis(10);
pub(crate) const MOST_REFUSALS: u32 = 20;

/// The longest time in which a flow may not move: the slowest rate is a datagram per minute.
const IDLE: Duration = Duration::from_secs(70);

/// How much longer than its time a receiver waits for a sender that does not end. [`silence::ends`] takes less.
const SLACK: Duration = Duration::from_secs(3);

/// Runs one direction of a connected datagram socket. A sender marks its end afterwards.
struct OneWay<'a> {
    flow: &'a FlowPlan,
    data: &'a DataSocket,
    pattern: &'a [u8],
    /// The way of sending.
    shape: &'a Shape,
    /// Datagrams that were received before.
    first: &'a [FirstDatagram],
    stop: &'a Stop,
    /// Whether a sender waits for the other end's report.
    wants_report: bool,
    /// The most refusals of the peer after which a sender goes on.
    most_refusals: u32,
    wide: bool,
}

impl OneWay<'_> {
    fn run(self, leg: &Leg, reports: &Arc<ReportGroup>) -> Result<Went, String> {
        let Self { flow, data, .. } = self;
        let memory = Memory::new(64 << 20, 64 << 20);
        let buffers = Buffers::new(
            &flow.here,
            &flow.workload,
            flow.transport,
            &data.facts,
            None,
            self.pattern,
            &memory,
        );
        let mut buffers = buffers.map_err(|error| error.to_string())?;
        let time = match flow.limit {
            Limit::Time(time) if leg.sends => Some(time),
            Limit::Time(time) => Some(time + SLACK),
            _ => None,
        };
        let settings = PhaseSettings {
            counters: &leg.counters,
            cancel: self.stop,
            control: None,
            time,
            idle: Some(IDLE + 2 * self.shape.frames.map_or(Duration::ZERO, |one| one.period)),
            group: None,
        };
        let limit = limit(flow, leg.sends, self.pattern.len());
        let mut phase = MeasuredPhase::start(&flow.here, settings);
        reports.begin(leg);
        let watch = leg
            .tallies
            .as_deref()
            .filter(|_| !leg.sends)
            .map(Watch::new);
        let (ran, silent_after) = if leg.sends && !self.shape.is_plain() {
            let ran = phase.run_own(false, |stop| {
                let sender = Sender {
                    socket: data.socket.as_fd(),
                    shape: self.shape,
                    counters: &leg.counters,
                    tallies: leg.tallies.as_deref(),
                    rate: bits_per_second(flow),
                    most_refusals: self.most_refusals,
                    stop,
                };
                sender.run(self.pattern, limit)
            });
            (ran, None)
        } else {
            let body = Loop {
                first: self.first,
                watch: watch.as_ref().map(|watch| watch as &dyn DatagramWatch),
                ..Loop::of(flow, &mut buffers)
            };
            self.run_loop(&mut phase, limit, body, leg)
        };
        let ran = self.go_on(ran, &mut phase, &mut buffers, leg, limit);
        if let Some(watch) = watch {
            watch.end();
        }
        let mut answer = None;
        if leg.sends && !matches!(ran.ended, Ended::Failed(_)) {
            let sent = leg.counters.counts().send_calls;
            let mut last = self.pattern.to_vec();
            answer = self::end(data, &mut last, sent, self.wide, self.wants_report, leg)?;
            phase.stop_clock();
        }
        let ended = match (&ran.ended, flow.limit) {
            (Ended::Deadline, Limit::Time(_)) if !leg.sends && silent_after.is_none() => {
                Ended::Failed("recvn failed: the peer's last datagram did not come".to_owned())
            }
            (ended, _) => ended.clone(),
        };
        let facts = data.facts_at_end(&data.socket);
        let mut side = phase.side(ran, data, &buffers, facts);
        // The silence is no part of the flow.
        side.elapsed = silent_after.or(side.elapsed);
        side.datagrams = side.datagrams.or(leg.counters.datagrams());
        if let Some(tallies) = &leg.tallies {
            side.latency = tallies.times();
        }
        if let Ended::Failed(why) = &ended {
            reports.fail(why.clone());
        }
        reports.end(leg, &side);
        // Reports count the datagram that marks the end apart; peers count it as one of all.
        side.counts.send_calls += u64::from(leg.sends);
        let has_come = !leg.sends && ended == Ended::PeerClosed;
        let there = match answer {
            Some(report) => Some(told(&report)),
            None => has_come.then(|| sender_of(&side)).flatten(),
        };
        if let Some(report) = answer {
            reports.keep_report(&leg.id, report);
        }
        let doubt = silent_after.map(|_| Warning::PeerCannotTell {
            figure: "the number of datagrams that it sent: its last one did not arrive".to_owned(),
        });
        Ok(Went {
            doubt,
            ..Went::new(side, there, ended)
        })
    }
}

/// Returns the limit of the loop of a flow with datagrams of `length` bytes.
fn limit(flow: &FlowPlan, sends: bool, length: usize) -> Limit {
    match flow.limit {
        Limit::Bytes(_) if !sends => Limit::Unlimited,
        // Datagrams are whole.
        Limit::Bytes(bytes) => Limit::Messages(bytes.div_ceil(length.max(1) as u64)),
        // The datagram that marks the end is one of the rate, too.
        Limit::Time(time) if sends => {
            let pacing = flow.here.pacing;
            let interval = pacing.map_or(Duration::ZERO, |pacing| pacing.interval);
            Limit::Time(time.saturating_sub(interval))
        }
        other => other,
    }
}

impl OneWay<'_> {
    /// Runs the engine's loop. Silence ends the receiver of a timed flow; returns that time if it did.
    fn run_loop(
        &self,
        phase: &mut MeasuredPhase<'_>,
        limit: Limit,
        body: Loop<'_>,
        leg: &Leg,
    ) -> (Ran, Option<Duration>) {
        let path = Flow::Connected(self.data.socket.as_fd());
        let (Limit::Time(time), false) = (self.flow.limit, leg.sends) else {
            return (phase.run(limit, body, path), None);
        };
        let (running, ended) = mpsc::channel();
        let (counters, stop) = (&leg.counters, phase.stop.clone());
        std::thread::scope(|scope| {
            let silence = scope.spawn(move || silence::ends(&ended, counters, time, &stop));
            let ran = phase.run(limit, body, path);
            drop(running);
            let is_silent = silence.join().unwrap_or(false);
            (ran, is_silent.then_some(time))
        })
    }

    /// Goes on after refusals, with the next number.
    fn go_on(
        &self,
        mut ran: Ran,
        phase: &mut MeasuredPhase<'_>,
        buffers: &mut Buffers,
        leg: &Leg,
        limit: Limit,
    ) -> Ran {
        let refused = call::Error::CONNREFUSED.raw_os_error();
        for _ in 0..self.most_refusals {
            if !matches!(ran.failure, Some((_, errno)) if errno == refused) {
                break;
            }
            std::thread::sleep(REFUSED);
            let sent = leg.counters.counts().send_calls;
            let mut flow = self.flow.clone();
            if let Some(format) = &mut flow.datagrams {
                format.first = u32::try_from(sent + 1).unwrap_or(u32::MAX);
            }
            let limit = match limit {
                Limit::Messages(count) => Limit::Messages(count.saturating_sub(sent).max(1)),
                other => other,
            };
            let path = Flow::Connected(self.data.socket.as_fd());
            ran = phase.run(limit, Loop::of(&flow, buffers), path);
        }
        ran
    }
}

/// Sends the last datagram until it is answered, and returns the answer.
fn end(
    data: &DataSocket,
    last: &mut [u8],
    sent: u64,
    wide: bool,
    wants_report: bool,
    leg: &Leg,
) -> Result<Option<ServerReport>, String> {
    if last.len() < DatagramHeader::NARROW {
        return Ok(None);
    }
    leg.counters.count_sent(last.len(), 0);
    let socket = data.socket.as_fd();
    let mut answer = [0; 2048];
    let tries = if wants_report { LAST_TRIES } else { 1 };
    let mut refused = None;
    for number in 1..=u64::from(tries) {
        let number = -i64::try_from(sent + number).unwrap_or(i64::MAX);
        DatagramHeader {
            number,
            sent: WallTime::now(),
        }
        .write(last, wide);
        match call::send_without_waiting(socket, last) {
            Ok(_) | Err(call::Error::AGAIN | call::Error::NOBUFS) => {}
            Err(error) => refused = Some(sys::describe(&std::io::Error::from(error))),
        }
        if !wants_report {
            return Ok(None);
        }
        let until = Instant::now() + ANSWER;
        while let Ok(true) =
            call::wait_readable(socket, until.saturating_duration_since(Instant::now()))
        {
            match call::receive_without_waiting(socket, &mut answer) {
                // Stock sends echoes after its first answer; an echo is no report.
                Ok(received) => match ServerReport::decode(&answer[..received]) {
                    Some(report)
                        if report.is_possible(
                            leg.counters.counts().sent.0,
                            sent + number.unsigned_abs(),
                        ) =>
                    {
                        return Ok(Some(report));
                    }
                    Some(_) => {
                        return Err(
                            "the server's report is not possible: it is not shown".to_owned()
                        );
                    }
                    None => {}
                },
                // A pending error makes a socket ready, without anything to receive.
                Err(error) => {
                    refused = Some(sys::describe(&std::io::Error::from(error)));
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    break;
                }
            }
        }
        if number.unsigned_abs() > sent + 10
            && let Some(why) = refused
        {
            return Err(format!("read failed: {why}"));
        }
    }
    let line = format!("WARNING: did not receive ack of last datagram after {LAST_TRIES} tries.");
    Err(format!("[{:>3}] {line}", leg.id.number))
}

/// Returns the server's figures as a side.
fn told(report: &ServerReport) -> Side {
    let mut side = Side {
        elapsed: Some(report.elapsed),
        ..Side::default()
    };
    side.counts.received = units::Bytes(report.bytes);
    side.counts.receive_calls = report.datagrams.saturating_sub(report.lost);
    let mut counts = DatagramCounts {
        received: report.datagrams.saturating_sub(report.lost),
        lost: report.lost,
        jitter: Some(report.jitter),
        ..DatagramCounts::default()
    };
    counts.by_order.highest = report.datagrams;
    counts.by_order.out_of_order = report.out_of_order;
    counts.by_order.passed_over = report.lost + report.out_of_order;
    side.datagrams = Some(counts);
    side
}

/// Returns the sender's side. The number of its last datagram is its count.
fn sender_of(receiver: &Side) -> Option<Side> {
    let sent = receiver.datagrams?.by_order.highest;
    let (bytes, datagrams) = (receiver.counts.received.0, receiver.counts.receive_calls);
    let length = bytes.checked_div(datagrams)?;
    let mut side = Side::default();
    side.counts.send_calls = sent;
    side.counts.sent = units::Bytes(sent.saturating_mul(length));
    Some(side)
}

/// The figures of a receiver for its sender.
fn report(side: &Side, is_enhanced: bool) -> ServerReport {
    let counts = side.datagrams.unwrap_or_default();
    let order = counts.by_order;
    let elapsed = side.elapsed.unwrap_or_default();
    let nanos = |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    let (mean, deviation) = counts.delays.mean_and_deviation_ns().unwrap_or_default();
    let (least, most) = counts.delays.extremes_ns.unwrap_or_default();
    let squares_us2 = (deviation / 1e3).powi(2) * counts.delays.count as f64;
    let seconds = elapsed.as_secs_f64();
    ServerReport {
        bytes: side.counts.received.0,
        elapsed,
        lost: order.passed_over.saturating_sub(order.out_of_order),
        out_of_order: order.out_of_order,
        datagrams: order.highest,
        jitter: counts.jitter.unwrap_or_default(),
        latency: Some(LatencyReport {
            min: nanos(least),
            max: nanos(most),
            sum: nanos(counts.delays.sum_ns),
            mean: nanos(mean as i64),
            squares: [squares_us2 as u32, (squares_us2.fract() * 1e6) as u32],
            variance_delta: [0; 2],
            count: u32::try_from(counts.delays.count).unwrap_or(u32::MAX),
            packets_per_second: if seconds > 0.0 {
                (counts.received as f64 / seconds) as u32
            } else {
                0
            },
        }),
        is_enhanced,
    }
}

#[cfg(test)]
mod tests {
    use model::{Pacing, Transport, Workload};

    use super::*;

    #[test]
    fn a_pace_leaves_room_for_the_last_datagram() {
        let mut flow = FlowPlan::of(Transport::Udp, Workload::send());
        for (rate, ours, loops) in [
            // One per 10 ms.
            (1_000_000, Limit::Time(ms(500)), Limit::Time(ms(490))),
            (1_000, Limit::Time(ms(500)), Limit::Time(ms(0))),
            (0, Limit::Time(ms(500)), Limit::Time(ms(500))),
            (1_000_000, Limit::Bytes(2501), Limit::Messages(3)),
        ] {
            flow.limit = ours;
            flow.here.pacing = Pacing::of_bits(rate, 1250, 1);
            assert_eq!(limit(&flow, true, 1250), loops, "{rate}");
        }
        flow.limit = Limit::Time(ms(500));
        assert_eq!(limit(&flow, false, 1250), flow.limit);
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }
}
