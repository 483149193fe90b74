//! UDP flows at both ends.
//!
//! Datagrams carry a number and a timestamp. A negative number ends the flow; the receiver answers
//! it with its report.

pub(crate) mod client;
mod end_timeout;
mod first_datagram;
mod frames;
mod group;
pub(crate) mod server;

use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use engine::{
    BudgetHolder, BufferMemory, Buffers, DataSocket, DatagramObserver, FirstDatagram, FlowLoop,
    FlowSockets, LoopResult, MeasuredPhase, PhaseSettings, ResourceBudget, Stop,
};
use model::{DatagramCounts, EndCause, FlowPlan, Limit, Side, Warning};
use sys::{Address, call};

use self::frames::{DatagramSender, TimingObserver};
use crate::flow::bits_per_second;
use crate::options::SendMode;
use crate::peer_checks::{self, Request};
use crate::report_group::{MeasuredFlow, ReportGroup};
use crate::traffic::{FlowResult, MAX_RING_BYTES};
use crate::wire::{DatagramHeader, LatencyReport, ServerReport, WallTime};

/// The largest payload of a datagram, in bytes.
pub(crate) const MAX_PAYLOAD_BYTES: u32 = 65_507;

/// The maximum number of copies of the last datagram, and the wait for an answer to each.
const MAX_END_TRIES: u32 = 200;
const ANSWER_TIMEOUT: Duration = Duration::from_millis(10);

/// The pause after a refused datagram, and the number of refusals that a client tolerates.
///
/// A stock server refuses datagrams of a flow while it opens a socket for another flow.
const REFUSAL_PAUSE: Duration = Duration::from_millis(10);
pub(crate) const MAX_REFUSALS: u32 = 20;

/// A report may cover this much less time than the client has sent for, without a warning.
const MAX_UNREPORTED_TIME: Duration = Duration::from_millis(100);

/// A flow fails if no datagram moves for this time. The slowest rate is one datagram per minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(70);

/// The time that a receiver waits beyond the test time for a sender that does not end.
///
/// [`end_timeout::stop_if_silent`] ends the receiver earlier if the sender falls silent near the
/// end of its time.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// One direction of a flow on a connected datagram socket.
struct OneWay<'a> {
    flow: &'a FlowPlan,
    data: &'a DataSocket,
    pattern: &'a [u8],
    send_mode: &'a SendMode,
    /// Datagrams received before the test started.
    early_datagrams: &'a [FirstDatagram],
    stop: &'a Stop,
    /// Whether a sender waits for the other end's report.
    expects_report: bool,
    /// The number of refused datagrams that a sender tolerates. The next one ends the test.
    max_refusals: u32,
    /// Whether datagram numbers have 64 bits.
    has_wide_numbers: bool,
    /// When this end requested the flow from the other end, and the longest pause between two of
    /// its datagrams; `None` if the other end decides the length of the flow.
    requested: Option<(Instant, Duration)>,
}

impl OneWay<'_> {
    /// Runs the direction to its end. A sender then sends the datagram that marks the end.
    #[expect(clippy::too_many_lines, reason = "the phases of a flow, in order")]
    fn run(
        self,
        measured: &MeasuredFlow,
        reports: &Arc<ReportGroup>,
    ) -> Result<FlowResult, String> {
        let Self { flow, data, .. } = self;
        let peer = Address::peer(&data.socket).ok();
        let holder = peer.as_ref().map(BudgetHolder::for_address);
        let memory = BufferMemory::from_budget(
            &ResourceBudget::process().memory,
            holder.unwrap_or(BudgetHolder::Local),
            MAX_RING_BYTES,
        );
        let buffers = Buffers::new(
            &flow.local,
            &flow.workload,
            flow.transport,
            &data.facts,
            None,
            self.pattern,
            &memory,
        );
        let mut buffers = buffers.map_err(|error| error.to_string())?;
        let _shares = measured
            .all_timings()
            .map(|timings| timings.reserve(&memory))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|exceeded| exceeded.to_string())?;
        let duration = match flow.limit {
            Limit::Time(time) if measured.sends => Some(time),
            Limit::Time(time) => Some(time + END_TIMEOUT),
            _ => None,
        };
        let bursts = self.send_mode.periodic_bursts;
        let frame_period = bursts.map_or(Duration::ZERO, |bursts| bursts.period);
        let settings = PhaseSettings {
            counters: &measured.counters,
            cancel: self.stop,
            control: None,
            duration,
            idle_timeout: Some(IDLE_TIMEOUT + 2 * frame_period),
            group: None,
        };
        let limit = loop_limit(flow, measured.sends, self.pattern.len());
        let mut phase = MeasuredPhase::start(&flow.local, settings);
        phase.include_first(self.early_datagrams.first());
        let _registered = reports.begin(measured, phase.started());
        let observer = TimingObserver::new(measured).filter(|_| !measured.sends);
        let (result, time_before_silence) = if measured.sends && !self.send_mode.is_default() {
            (self.run_sender(&mut phase, limit, measured), None)
        } else {
            let flow_loop = FlowLoop {
                first_datagrams: self.early_datagrams,
                observer: observer
                    .as_ref()
                    .map(|observer| observer as &dyn DatagramObserver),
                ..FlowLoop::for_flow(flow, &mut buffers)
            };
            self.run_loop(&mut phase, limit, flow_loop, measured)
        };
        let result = self.resume_after_refusals(result, &mut phase, &mut buffers, measured, limit);
        if let Some(observer) = observer {
            observer.finish();
        }
        let (mut answer, mut missing_answer) = (None, None);
        let sending_time = phase.times.elapsed;
        if measured.sends && !matches!(result.ended, EndCause::Failed(_)) {
            let sent = measured.counters.counts().send_calls;
            let mut end_datagram = self.pattern.to_vec();
            let result = send_end(
                data,
                &mut end_datagram,
                (sent, phase.started()),
                self.has_wide_numbers,
                self.expects_report,
                measured,
            );
            match result {
                Ok(report) => answer = report,
                Err(reason) => missing_answer = Some(EndCause::Failed(reason)),
            }
            phase.stop_clock();
        }
        let ended = match (&result.ended, flow.limit) {
            (EndCause::Deadline, Limit::Time(_))
                if !measured.sends && time_before_silence.is_none() =>
            {
                EndCause::Failed("recvn failed: the peer's last datagram did not arrive".to_owned())
            }
            (ended, _) => missing_answer.unwrap_or_else(|| ended.clone()),
        };
        let facts = data.current_facts(&data.socket);
        let mut side = phase.side(result, data, &buffers, facts);
        // The silence at the end is not part of the flow.
        side.elapsed = time_before_silence.or(side.elapsed);
        side.datagrams = side.datagrams.or(measured.counters.datagrams());
        let request = self.requested.map(|(at, pause)| Request {
            age: at.elapsed(),
            pause: pause + 2 * frame_period,
        });
        let checked = if measured.sends || matches!(ended, EndCause::Failed(_)) {
            Ok(())
        } else {
            let (elapsed, has_trip_times) = (phase.started().elapsed(), measured.has_trip_times);
            peer_checks::datagrams(&side, (flow, &ended), elapsed, has_trip_times, request)
        };
        let ended = checked.map_or_else(EndCause::Failed, |()| ended);
        if let Some(timings) = &measured.timings {
            side.latency = timings.histogram();
        }
        if let EndCause::Failed(reason) = &ended {
            reports.fail(reason.clone());
        }
        reports.end(measured, &side);
        // The peer counts the datagram that marks the end; the reports above do not.
        side.counts.send_calls += u64::from(measured.sends);
        let has_received_end = !measured.sends && ended == EndCause::PeerClosed;
        let remote = match answer {
            Some(report) => Some(receiver_side(&report)),
            None => has_received_end.then(|| sender_side(&side)).flatten(),
        };
        if let Some(report) = answer {
            reports.defer_server_report(&measured.id, report);
        }
        let missing_figure = match answer {
            Some(report) => missing_part(&report, sending_time),
            None => time_before_silence.map(|_| {
                "the number of datagrams that it sent: its last one did not arrive".to_owned()
            }),
        };
        let warning = missing_figure.map(|figure| Warning::NotReportedByPeer { figure });
        Ok(FlowResult {
            warning,
            ..FlowResult::new(phase.started(), side, remote, ended)
        })
    }
}

/// Returns the limit of the engine's loop, for datagrams of `length` bytes.
fn loop_limit(flow: &FlowPlan, sends: bool, length: usize) -> Limit {
    match flow.limit {
        Limit::Bytes(_) if !sends => Limit::Unlimited,
        // The sender sends whole datagrams only.
        Limit::Bytes(bytes) => Limit::Messages(bytes.div_ceil(length.max(1) as u64)),
        // The datagram that marks the end counts towards the rate.
        Limit::Time(time) if sends => {
            let pacing = flow.local.pacing;
            let interval = pacing.map_or(Duration::ZERO, |pacing| pacing.interval);
            Limit::Time(time.saturating_sub(interval))
        }
        other => other,
    }
}

impl OneWay<'_> {
    /// Runs the loop of a send mode that the engine lacks.
    fn run_sender(
        &self,
        phase: &mut MeasuredPhase<'_>,
        limit: Limit,
        measured: &MeasuredFlow,
    ) -> LoopResult {
        phase.run_dialect_loop(false, |stop| {
            let sender = DatagramSender {
                socket: self.data.socket.as_fd(),
                send_mode: self.send_mode,
                counters: &measured.counters,
                timings: measured.timings.as_deref(),
                rate: bits_per_second(self.flow),
                max_refusals: self.max_refusals,
                stop,
            };
            sender.run(self.pattern, limit)
        })
    }

    /// Runs the engine's loop.
    ///
    /// If silence ended the receiver of a timed flow, also returns the test time of that flow.
    fn run_loop(
        &self,
        phase: &mut MeasuredPhase<'_>,
        limit: Limit,
        flow_loop: FlowLoop<'_>,
        measured: &MeasuredFlow,
    ) -> (LoopResult, Option<Duration>) {
        let path = FlowSockets::Connected(self.data.socket.as_fd());
        let (Limit::Time(time), false) = (self.flow.limit, measured.sends) else {
            return (phase.run(limit, flow_loop, path), None);
        };
        let (end_sender, end_receiver) = mpsc::channel();
        let (counters, stop) = (&measured.counters, phase.stop.clone());
        std::thread::scope(|scope| {
            let silence_check = scope
                .spawn(move || end_timeout::stop_if_silent(&end_receiver, counters, time, &stop));
            let result = phase.run(limit, flow_loop, path);
            drop(end_sender);
            let is_silent = silence_check.join().unwrap_or(false);
            (result, is_silent.then_some(time))
        })
    }

    /// Continues after each refused datagram, with the next number.
    fn resume_after_refusals(
        &self,
        mut result: LoopResult,
        phase: &mut MeasuredPhase<'_>,
        buffers: &mut Buffers,
        measured: &MeasuredFlow,
        limit: Limit,
    ) -> LoopResult {
        let refused = call::Error::CONNREFUSED.raw_os_error();
        for _ in 0..self.max_refusals {
            if !matches!(result.failure, Some((_, errno)) if errno == refused) {
                break;
            }
            std::thread::sleep(REFUSAL_PAUSE);
            let sent = measured.counters.counts().send_calls;
            let mut flow = self.flow.clone();
            if let Some(format) = &mut flow.datagrams {
                format.first_number = u32::try_from(sent + 1).unwrap_or(u32::MAX);
            }
            let limit = match limit {
                Limit::Messages(count) => Limit::Messages(count.saturating_sub(sent).max(1)),
                other => other,
            };
            let path = FlowSockets::Connected(self.data.socket.as_fd());
            result = phase.run(limit, FlowLoop::for_flow(&flow, buffers), path);
        }
        result
    }
}

/// Sends the last datagram until the peer answers it, and returns the answer.
fn send_end(
    data: &DataSocket,
    end_datagram: &mut [u8],
    (sent, started): (u64, Instant),
    has_wide_numbers: bool,
    expects_report: bool,
    measured: &MeasuredFlow,
) -> Result<Option<ServerReport>, String> {
    if end_datagram.len() < DatagramHeader::NARROW_LEN {
        return Ok(None);
    }
    measured.counters.count_sent(end_datagram.len(), 0);
    let socket = data.socket.as_fd();
    let mut answer = [0; 2048];
    let tries = if expects_report { MAX_END_TRIES } else { 1 };
    let mut last_error = None;
    for attempt in 1..=u64::from(tries) {
        let number = -i64::try_from(sent + attempt).unwrap_or(i64::MAX);
        DatagramHeader {
            number,
            sent: WallTime::now(),
        }
        .write(end_datagram, has_wide_numbers);
        match call::send_without_waiting(socket, end_datagram) {
            Ok(_) | Err(call::Error::AGAIN | call::Error::NOBUFS) => {}
            Err(error) => last_error = Some(sys::describe(&std::io::Error::from(error))),
        }
        if !expects_report {
            return Ok(None);
        }
        let answer_deadline = Instant::now() + ANSWER_TIMEOUT;
        while let Ok(true) = call::wait_readable(
            socket,
            answer_deadline.saturating_duration_since(Instant::now()),
        ) {
            match call::receive_without_waiting(socket, &mut answer) {
                // After its first answer, stock echoes datagrams; an echo is not a report.
                Ok(received) => match ServerReport::decode(&answer[..received]) {
                    Some(report)
                        if peer_checks::is_possible_report(
                            &report,
                            (measured.counters.counts().sent.0, number.unsigned_abs()),
                            started.elapsed(),
                        ) =>
                    {
                        return Ok(Some(report));
                    }
                    Some(_) => {
                        return Err(
                            "the server's report contradicts the sent data; it is not shown"
                                .to_owned(),
                        );
                    }
                    None => {}
                },
                // A pending error makes a socket readable without data.
                Err(error) => {
                    last_error = Some(sys::describe(&std::io::Error::from(error)));
                    std::thread::sleep(answer_deadline.saturating_duration_since(Instant::now()));
                    break;
                }
            }
        }
        if number.unsigned_abs() > sent + 10
            && let Some(reason) = last_error
        {
            return Err(format!("read failed: {reason}"));
        }
    }
    let line =
        format!("WARNING: did not receive ack of last datagram after {MAX_END_TRIES} tries.");
    Err(format!("[{:>3}] {line}", measured.id.number))
}

/// Describes the missing part of a report that covers less than half of the time of a flow. Its
/// server may have begun late; its rate is then not that of the flow.
fn missing_part(report: &ServerReport, sending_time: Duration) -> Option<String> {
    let missing_time = sending_time.saturating_sub(report.elapsed);
    (missing_time > report.elapsed.max(MAX_UNREPORTED_TIME)).then(|| {
        let [reported, sent] = [report.elapsed, sending_time].map(|time| time.as_secs_f64());
        format!("most of the flow: its figures cover {reported:.3} of {sent:.3} s")
    })
}

/// Converts the server's report to the receiver's side of the result.
fn receiver_side(report: &ServerReport) -> Side {
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
    counts.highest_number_counts.highest = report.datagrams;
    counts.highest_number_counts.out_of_order = report.out_of_order;
    counts.highest_number_counts.skipped = report.lost + report.out_of_order;
    side.datagrams = Some(counts);
    side
}

/// Returns the sender's side of the result. The number of its last datagram is its datagram count.
fn sender_side(receiver: &Side) -> Option<Side> {
    let sent = receiver.datagrams?.highest_number_counts.highest;
    let (bytes, datagrams) = (receiver.counts.received.0, receiver.counts.receive_calls);
    let length = bytes.checked_div(datagrams)?;
    let mut side = Side::default();
    side.counts.send_calls = sent;
    side.counts.sent = units::Bytes(sent.saturating_mul(length));
    Some(side)
}

/// Returns the report of a receiver for its sender.
fn server_report(side: &Side, is_enhanced: bool) -> ServerReport {
    let counts = side.datagrams.unwrap_or_default();
    let number_counts = counts.highest_number_counts;
    let elapsed = side.elapsed.unwrap_or_default();
    let delays = &counts.delays;
    let (_, deviation) = delays.mean_and_deviation_ns().unwrap_or_default();
    let sum_ns = i128::from(delays.first_ns) * i128::from(delays.count) + i128::from(delays.sum_ns);
    let mean_ns = sum_ns / i128::from(delays.count.max(1));
    let (min_ns, max_ns) = counts.delays.extremes_ns.unwrap_or_default();
    let squares_us2 = (deviation / 1e3).powi(2) * counts.delays.count as f64;
    let seconds = elapsed.as_secs_f64();
    ServerReport {
        bytes: side.counts.received.0,
        elapsed,
        lost: number_counts
            .skipped
            .saturating_sub(number_counts.out_of_order),
        out_of_order: number_counts.out_of_order,
        datagrams: number_counts.highest,
        jitter: counts.jitter.unwrap_or_default(),
        latency: Some(LatencyReport {
            min_us: min_ns / 1000,
            max_us: max_ns / 1000,
            sum_us: (sum_ns / 1000) as i64,
            mean_us: (mean_ns / 1000) as i64,
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
    fn pacing_reserves_time_for_the_last_datagram() {
        let mut flow = FlowPlan::new(Transport::Udp, Workload::send());
        for (rate, requested, expected) in [
            // One datagram per 10 ms.
            (1_000_000, Limit::Time(ms(500)), Limit::Time(ms(490))),
            (1_000, Limit::Time(ms(500)), Limit::Time(ms(0))),
            (0, Limit::Time(ms(500)), Limit::Time(ms(500))),
            (1_000_000, Limit::Bytes(2501), Limit::Messages(3)),
        ] {
            flow.limit = requested;
            flow.local.pacing = Pacing::from_bit_rate(rate, 1250, 1);
            assert_eq!(loop_limit(&flow, true, 1250), expected, "{rate}");
        }
        flow.limit = Limit::Time(ms(500));
        assert_eq!(loop_limit(&flow, false, 1250), flow.limit);
    }

    #[test]
    fn a_report_of_a_part_of_the_flow_is_noticed() {
        for (reported, sent, expected) in [
            (1, 1000, Some("0.001 of 1.000 s")),
            (499, 1000, Some("0.499 of 1.000 s")),
            (500, 1000, None),
            (1, 90, None),
            (2000, 1000, None),
        ] {
            let report = ServerReport {
                elapsed: ms(reported),
                ..ServerReport::default()
            };
            let part = missing_part(&report, ms(sent));
            let expected =
                expected.map(|times| format!("most of the flow: its figures cover {times}"));
            assert_eq!(part, expected);
        }
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }
}
