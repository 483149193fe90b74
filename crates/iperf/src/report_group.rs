//! Groups of flows with common reports: intervals, final lines, and sums.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use engine::{BudgetHolder, CounterReading, Counters};
use model::{DatagramCounts, Side, Transport};
use sys::Address;

use crate::event::{FlowFigures, FlowId, Observer, SumScope, TestEvent};
use crate::options::Settings;
use crate::timing::{FlowTimings, TimingKind, TimingStats};
use crate::wire::ServerReport;

/// Flows with common reports: all flows of a client, or a server's flows from one client.
pub(crate) struct ReportGroup {
    observer: Arc<dyn Observer>,
    /// `-i`.
    interval: Option<Duration>,
    state: Mutex<State>,
    /// Signals the end of the last flow.
    all_ended: Condvar,
}

#[derive(Default)]
struct State {
    running: Vec<RunningFlow>,
    /// The sum of the flows that have ended, until no flow is running.
    ended: FlowSum,
    /// The sum of the flows that have ended since the last report of intervals.
    ended_in_interval: FlowSum,
    /// The ended direction of full-duplex connections whose other direction is running.
    half_ended: HashMap<u32, FlowSum>,
    /// The start of the first flow; `None` if no flow is running.
    started: Option<Instant>,
    /// The end of the last reported interval.
    reported_until: Duration,
    /// The number of [`HeldGroup`]s.
    holders: usize,
    /// Whether a thread reports the intervals.
    has_interval_thread: bool,
    /// The reports of UDP servers, which are printed last.
    server_reports: Vec<(FlowId, ServerReport)>,
}

/// The groups of a server: one per client address, or one per local address (`--sum-dstip`).
pub(crate) struct ReportGroups {
    observer: Arc<dyn Observer>,
    interval: Option<Duration>,
    is_keyed_by_local_address: bool,
    /// The group of all flows, instead of one per address.
    shared: Option<Arc<ReportGroup>>,
    groups: Mutex<HashMap<IpAddr, Arc<ReportGroup>>>,
}

impl ReportGroups {
    pub(crate) fn new(observer: &Arc<dyn Observer>, settings: &Settings) -> Self {
        Self {
            observer: Arc::clone(observer),
            interval: settings.output.interval,
            is_keyed_by_local_address: settings.output.sums_by_destination,
            shared: None,
            groups: Mutex::default(),
        }
    }

    /// Puts all flows into one group.
    pub(crate) fn with_shared(mut self, group: Option<Arc<ReportGroup>>) -> Self {
        self.shared = group;
        self
    }

    /// Returns the group of a flow from `peer` to `local`.
    pub(crate) fn group_for(&self, peer: &Address, local: Option<&Address>) -> Arc<ReportGroup> {
        if let Some(group) = &self.shared {
            return Arc::clone(group);
        }
        let new_group = || ReportGroup::new(Arc::clone(&self.observer), self.interval);
        let address = if self.is_keyed_by_local_address {
            local
        } else {
            Some(peer)
        };
        let Some(ip) = address.and_then(Address::ip) else {
            return new_group();
        };
        let mut report_groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        // Each flow holds its group, from before its start.
        report_groups.retain(|_, group| Arc::strong_count(group) > 1);
        Arc::clone(report_groups.entry(ip).or_insert_with(new_group))
    }
}

/// A running flow, with its counts at the start of the current interval.
struct RunningFlow {
    measured: MeasuredFlow,
    start: CounterReading,
    last_reading: CounterReading,
    retransmits: u64,
    datagrams: DatagramCounts,
    read_sizes: [u64; 8],
    /// The time from which the intervals of the flow count. Flows that begin within the first
    /// interval of their group count from its start, so that all have the same intervals.
    origin: Instant,
    /// The end of the last reported interval.
    reported_until: Duration,
}

/// The sum of several flows, from the start of the first one to the end of the last one.
#[derive(Default)]
struct FlowSum {
    flows: usize,
    /// The figures; `None` without flows.
    figures: Option<FlowFigures>,
    /// The start of the first flow and the end of the last one.
    times: Option<(Instant, Instant)>,
    /// The number of the first flow's connection, and whether all flows have it.
    number: (u32, bool),
    is_bidirectional: bool,
    /// Whether a flow is no direction of a full-duplex connection.
    has_simplex: bool,
    /// Receive calls of all flows.
    receive_calls: u64,
}

impl FlowSum {
    /// Adds the figures of a flow that ran from `started` to `ended`.
    fn add(
        &mut self,
        measured: &MeasuredFlow,
        figures: &FlowFigures,
        (started, ended): (Instant, Instant),
    ) {
        let number = measured.id.number;
        self.flows += 1;
        self.has_simplex |= !measured.is_full_duplex;
        if !figures.sends {
            self.receive_calls += figures.calls;
        }
        let (first_start, last_end) = self.times.unwrap_or((started, ended));
        self.times = Some((first_start.min(started), last_end.max(ended)));
        match &mut self.figures {
            None => {
                self.number = (number, true);
                self.figures = Some(FlowFigures {
                    path: None,
                    ..figures.clone()
                });
            }
            Some(sum) => {
                self.number.1 &= self.number.0 == number;
                self.is_bidirectional |= sum.sends != figures.sends;
                sum.add(figures);
            }
        }
    }

    /// Reports the sum of at least two flows. `interval` is the interval of the sum; without it,
    /// the sum is final.
    fn report(self, observer: &dyn Observer, interval: Option<(Duration, Duration)>) {
        let scope = match self.number {
            (_, true) => SumScope::OneConnection,
            _ if self.has_simplex => SumScope::All,
            _ => SumScope::Connections,
        };
        self.report_as(scope, observer, interval);
    }

    fn report_as(
        self,
        scope: SumScope,
        observer: &dyn Observer,
        interval: Option<(Duration, Duration)>,
    ) {
        let (Some(mut figures), Some((started, ended))) = (self.figures, self.times) else {
            return;
        };
        if self.flows < 2 {
            return;
        }
        // A bidirectional sum has send calls only. It counts received datagrams by their numbers.
        if self.is_bidirectional {
            figures.calls -= self.receive_calls;
        }
        (figures.start, figures.end) =
            interval.unwrap_or((Duration::ZERO, ended.saturating_duration_since(started)));
        observer.observe(&TestEvent::Sum {
            flows: self.flows,
            scope,
            is_bidirectional: self.is_bidirectional,
            is_final: interval.is_none(),
            figures: &figures,
        });
    }
}

/// A measured flow, which is one direction of a connection.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent")]
pub(crate) struct MeasuredFlow {
    pub(crate) id: FlowId,
    pub(crate) sends: bool,
    pub(crate) transport: Transport,
    pub(crate) counters: Arc<Counters>,
    /// The socket, to read TCP statistics from the kernel.
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) endpoints: Option<(Address, Address)>,
    /// The timings of bursts, frames, datagrams or send calls.
    pub(crate) timings: Option<Arc<FlowTimings>>,
    /// The differences between the delays of successive datagrams.
    pub(crate) jitter_times: Option<Arc<FlowTimings>>,
    /// Whether synchronised clocks allow one-way latencies (`--trip-times`).
    pub(crate) has_trip_times: bool,
    /// Whether a server reports the flow in the form of `-e`.
    pub(crate) is_detailed: bool,
    /// Whether the flow is a direction of a full-duplex connection.
    pub(crate) is_full_duplex: bool,
}

/// A last interval that is shorter than the interval divided by this number is not reported.
const MIN_LAST_INTERVAL_DIVISOR: u32 = 10;

impl ReportGroup {
    pub(crate) fn new(observer: Arc<dyn Observer>, interval: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            observer,
            interval,
            state: Mutex::default(),
            all_ended: Condvar::new(),
        })
    }

    /// Adds a flow that began at `started`. It is removed by [`Self::end`], or when the returned value
    /// is dropped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        measured: &MeasuredFlow,
        started: Instant,
    ) -> RegisteredFlow {
        let start = CounterReading {
            at: started,
            counts: model::Counts::default(),
        };
        let mut state = self.state();
        if self.interval.is_some() && state.running.is_empty() {
            // The intervals of flows after others begin with them.
            state.started = None;
            state.reported_until = Duration::ZERO;
            state.ended_in_interval = FlowSum::default();
            if state.ended.flows < 2 {
                // As in stock, two single flows, one after the other, have no sum.
                state.ended = FlowSum::default();
            }
        }
        let group_started = *state.started.get_or_insert(started);
        let is_in_first_interval = self
            .interval
            .is_none_or(|interval| started < group_started + interval);
        state.running.push(RunningFlow {
            measured: measured.clone(),
            start,
            last_reading: start,
            retransmits: 0,
            datagrams: DatagramCounts::default(),
            read_sizes: [0; 8],
            origin: if is_in_first_interval {
                group_started
            } else {
                started
            },
            reported_until: Duration::ZERO,
        });
        if let Some(interval) = self.interval
            && !std::mem::replace(&mut state.has_interval_thread, true)
        {
            let reports = Arc::clone(self);
            let report_intervals = move || reports.run_interval_reports(interval);
            let spawned = engine::spawn(Builder::new(), BudgetHolder::Local, report_intervals);
            state.has_interval_thread = spawned.is_ok();
        }
        RegisteredFlow {
            reports: Arc::clone(self),
            counters: Arc::clone(&measured.counters),
        }
    }

    /// Delays the sum of all flows until the returned value is dropped, because more flows follow.
    pub(crate) fn hold(self: &Arc<Self>) -> HeldGroup {
        self.state().holders += 1;
        HeldGroup(Arc::clone(self))
    }

    /// Reports a failure.
    pub(crate) fn fail(&self, line: String) {
        self.observer.observe(&TestEvent::Error(line));
    }

    /// Reports the failure of a TCP flow.
    pub(crate) fn fail_stream(&self, id: &FlowId, reason: &str) {
        self.observer.observe(&TestEvent::StreamFailed(id, reason));
    }

    /// Removes an ended flow, and reports its final figures.
    ///
    /// After the last flow, also reports the sum of all flows.
    pub(crate) fn end(&self, measured: &MeasuredFlow, side: &Side) {
        let mut state = self.state();
        let Some(mut running) = state.remove(&measured.counters) else {
            return;
        };
        let now = CounterReading::now(std::slice::from_ref(&measured.counters));
        if let Some(interval) = self.interval.filter(|_| !measured.reports_bursts()) {
            let mut last_interval = running.interval_figures(&now);
            last_interval.start = running.reported_until;
            last_interval.end = now.at.saturating_duration_since(running.origin);
            let is_long_enough = last_interval.end.saturating_sub(last_interval.start)
                * MIN_LAST_INTERVAL_DIVISOR
                >= interval;
            if is_long_enough && last_interval.bytes > 0 && !running.reported_until.is_zero() {
                self.observer
                    .observe(&TestEvent::Interval(&measured.id, &last_interval));
            }
            let times = (running.last_reading.at, now.at);
            state.ended_in_interval.add(measured, &last_interval, times);
        }
        let mut figures = FlowFigures::from_side(side, measured.sends);
        running.add_connection_figures(&mut figures);
        figures.timing = measured
            .timings
            .as_ref()
            .map(|timings| (timings.kind, timings.test_total()));
        let jitter_times = measured.jitter_times.as_ref();
        figures.jitter_times = jitter_times.map(|times| times.test_total());
        if let Some((TimingKind::Bursts { .. } | TimingKind::TripTimes | TimingKind::Frames, stats)) =
            &figures.timing
            && !figures.sends
            && !figures.is_udp
        {
            figures.read_sizes = Some(stats.read_sizes);
        }
        self.observer
            .observe(&TestEvent::Final(&measured.id, &figures));
        if figures.is_udp && figures.sends {
            // The count includes the final datagram, which marks the end.
            let sent = TestEvent::DatagramsSent(&measured.id, figures.calls + 1);
            self.observer.observe(&sent);
        }
        let started = running.start.at;
        let times = (started, started + figures.end);
        if let Some(sum) = state.add_direction(measured, &figures, times) {
            let scope = SumScope::Connection(measured.id.number);
            sum.report_as(scope, &*self.observer, None);
        }
        state.ended.add(measured, &figures, times);
        self.end_if_idle(&mut state);
    }

    /// After the last flow, reports the sum of all flows that have ended.
    fn end_if_idle(&self, state: &mut State) {
        if state.running.is_empty() && state.holders == 0 {
            let ended = std::mem::take(&mut state.ended);
            self.report_last_interval(state);
            state.half_ended = HashMap::new();
            state.started = None;
            ended.report(&*self.observer, None);
            self.all_ended.notify_all();
        }
    }

    /// Reports the sum of the flows that have ended since the last interval.
    fn report_last_interval(&self, state: &mut State) {
        let start = std::mem::take(&mut state.reported_until);
        let sum = std::mem::take(&mut state.ended_in_interval);
        let ends = self.interval.zip(state.started).zip(sum.times);
        let Some(((interval, started), (_, ended))) = ends.filter(|_| !start.is_zero()) else {
            return;
        };
        let end = ended.saturating_duration_since(started);
        if end.saturating_sub(start) * MIN_LAST_INTERVAL_DIVISOR >= interval {
            sum.report(&*self.observer, Some((start, end)));
        }
    }

    /// Reports a received burst of `bytes` bytes and its transfer time.
    pub(crate) fn report_burst(
        &self,
        measured: &MeasuredFlow,
        timing_stats: &TimingStats,
        bytes: u32,
        duration: Duration,
    ) {
        let mut state = self.state();
        let is_same_flow = |running: &&mut RunningFlow| {
            Arc::ptr_eq(&running.measured.counters, &measured.counters)
        };
        let (Some(running), Some(timings)) = (
            state.running.iter_mut().find(is_same_flow),
            &measured.timings,
        ) else {
            return;
        };
        let end = running.start.at.elapsed();
        let figures = FlowFigures {
            start: end.saturating_sub(duration),
            end,
            bytes: bytes.into(),
            read_sizes: Some(timing_stats.read_sizes),
            timing: Some((timings.kind, timing_stats.clone())),
            has_trip_times: measured.has_trip_times,
            is_detailed: measured.is_detailed,
            endpoints: measured.endpoints.clone(),
            ..FlowFigures::default()
        };
        self.observer
            .observe(&TestEvent::Interval(&measured.id, &figures));
    }

    /// Keeps a UDP server's report of a flow until [`Self::print_server_reports`].
    pub(crate) fn defer_server_report(&self, id: &FlowId, report: ServerReport) {
        self.state().server_reports.push((id.clone(), report));
    }

    /// Prints the reports of UDP servers.
    pub(crate) fn print_server_reports(&self) {
        let reports = std::mem::take(&mut self.state().server_reports);
        for (id, report) in &reports {
            self.observer.observe(&TestEvent::ServerReport(id, report));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports intervals until no flow is running.
    fn run_interval_reports(&self, interval: Duration) {
        let mut state = self.state();
        let mut intervals = 0_u32;
        while let Some(started) = state.started {
            intervals += 1;
            let next_report = started + interval * intervals;
            while state.started == Some(started) {
                let wait = next_report.saturating_duration_since(Instant::now());
                if wait.is_zero() {
                    break;
                }
                let waited = self.all_ended.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.started != Some(started) {
                intervals = 0;
                continue;
            }
            let tick = started + interval * intervals;
            let mut sum = std::mem::take(&mut state.ended_in_interval);
            let interval_of_sum = (interval * (intervals - 1), interval * intervals);
            let mut connections: HashMap<u32, FlowSum> = HashMap::new();
            for running in &mut state.running {
                let now = CounterReading::now(std::slice::from_ref(&running.measured.counters));
                let mut figures = running.interval_figures(&now);
                let times = (running.last_reading.at, now.at);
                running.begin_interval(&now, &figures);
                // The intervals end at multiples of the interval, not at the time of the reading.
                figures.start = running.reported_until;
                figures.end = tick.saturating_duration_since(running.origin);
                running.reported_until = figures.end;
                if running.measured.reports_bursts() {
                    continue;
                }
                self.observer
                    .observe(&TestEvent::Interval(&running.measured.id, &figures));
                let number = running.measured.id.number;
                sum.add(&running.measured, &figures, times);
                if running.measured.is_full_duplex {
                    let mut directions = connections.remove(&number).unwrap_or_default();
                    directions.add(&running.measured, &figures, times);
                    if directions.flows == 2 {
                        let scope = SumScope::Connection(number);
                        directions.report_as(scope, &*self.observer, Some(interval_of_sum));
                    } else {
                        connections.insert(number, directions);
                    }
                }
            }
            sum.report(&*self.observer, Some(interval_of_sum));
            state.reported_until = interval_of_sum.1;
        }
        state.has_interval_thread = false;
    }
}

impl State {
    /// Adds an ended direction of a full-duplex connection. Returns the sum of both directions if
    /// the other one has ended, too.
    fn add_direction(
        &mut self,
        measured: &MeasuredFlow,
        figures: &FlowFigures,
        times: (Instant, Instant),
    ) -> Option<FlowSum> {
        let number = measured.id.number;
        if !measured.is_full_duplex {
            return None;
        }
        let mut sum = self.half_ended.remove(&number).unwrap_or_default();
        sum.add(measured, figures, times);
        if sum.flows == 2 {
            return Some(sum);
        }
        // A direction that has failed does not end.
        let running = self.running.iter().map(|it| it.measured.id.number);
        let running: HashSet<u32> = running.collect();
        self.half_ended.retain(|number, _| running.contains(number));
        self.half_ended.insert(number, sum);
        None
    }

    /// Removes a running flow with these counters.
    fn remove(&mut self, counters: &Arc<Counters>) -> Option<RunningFlow> {
        let is_same_flow =
            |running: &RunningFlow| Arc::ptr_eq(&running.measured.counters, counters);
        let index = self.running.iter().position(is_same_flow)?;
        let removed = self.running.remove(index);
        if self.running.is_empty() {
            // A group may live on, and should not keep the memory of thousands of flows.
            self.running = Vec::new();
        }
        Some(removed)
    }
}

/// A group whose sum waits for further flows.
#[must_use]
pub(crate) struct HeldGroup(Arc<ReportGroup>);

impl Drop for HeldGroup {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.holders -= 1;
        self.0.end_if_idle(&mut state);
    }
}

/// A flow of a group. Dropping it removes a flow that has failed, which has no final figures.
#[must_use]
pub(crate) struct RegisteredFlow {
    reports: Arc<ReportGroup>,
    counters: Arc<Counters>,
}

impl Drop for RegisteredFlow {
    fn drop(&mut self) {
        let mut state = self.reports.state();
        if state.remove(&self.counters).is_some() {
            self.reports.end_if_idle(&mut state);
        }
    }
}

impl MeasuredFlow {
    /// Returns the timings that the flow records.
    pub(crate) fn all_timings(&self) -> impl Iterator<Item = &FlowTimings> {
        [&self.timings, &self.jitter_times]
            .into_iter()
            .flatten()
            .map(|timings| &**timings)
    }

    /// Returns whether the flow reports each burst instead of intervals.
    pub(crate) fn reports_bursts(&self) -> bool {
        let kind = self.timings.as_ref().map(|timings| timings.kind);
        !self.sends && matches!(kind, Some(TimingKind::Bursts { .. }))
    }
}

impl RunningFlow {
    /// Returns the figures since the last interval.
    fn interval_figures(&mut self, now: &CounterReading) -> FlowFigures {
        let mut figures =
            FlowFigures::between(self.start, &self.last_reading, now, self.measured.sends);
        let retransmits_before = self.retransmits;
        if let Some(counts) = self.measured.counters.datagrams() {
            figures.datagrams = Some(counts.since(&self.datagrams));
            let (highest, earlier) = (
                counts.highest_number_counts.highest,
                self.datagrams.highest_number_counts.highest,
            );
            figures.expected_datagrams = highest.saturating_sub(earlier);
        }
        self.add_connection_figures(&mut figures);
        let jitter_times = self.measured.jitter_times.as_ref();
        figures.jitter_times = jitter_times.map(|times| times.take_interval());
        if let Some(timings) = &self.measured.timings {
            let stats = timings.take_interval();
            if !figures.sends && !figures.is_udp {
                figures.read_sizes = Some(stats.read_sizes);
            }
            figures.timing = Some((timings.kind, stats));
            figures.retransmits = self.retransmits.saturating_sub(retransmits_before);
            return figures;
        }
        for (count, earlier) in figures.read_sizes.iter_mut().flatten().zip(self.read_sizes) {
            *count -= earlier;
        }
        figures.retransmits = self.retransmits.saturating_sub(retransmits_before);
        figures
    }

    /// Adds the addresses and the TCP statistics of the connection to the figures.
    fn add_connection_figures(&mut self, figures: &mut FlowFigures) {
        figures.is_udp = self.measured.transport == Transport::Udp;
        figures.endpoints.clone_from(&self.measured.endpoints);
        figures.has_trip_times = self.measured.has_trip_times;
        figures.is_detailed = self.measured.is_detailed;
        figures.read_sizes = self.measured.counters.receive_sizes();
        if !figures.is_udp {
            figures.path = engine::path_sample(self.measured.socket.as_fd());
            figures.segments = crate::connection::segments(self.measured.socket.as_fd());
            let retransmits = figures.path.and_then(|path| path.retransmits);
            self.retransmits = retransmits.unwrap_or(self.retransmits);
            figures.retransmits = self.retransmits;
        }
    }

    /// Makes `now` the start of the next interval.
    fn begin_interval(&mut self, now: &CounterReading, figures: &FlowFigures) {
        self.last_reading = *now;
        self.datagrams = self.measured.counters.datagrams().unwrap_or_default();
        for (total, count) in self
            .read_sizes
            .iter_mut()
            .zip(figures.read_sizes.unwrap_or_default())
        {
            *total += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Sender, channel};

    use units::Bytes;

    use super::*;

    /// Times and bytes of a sum, and whether it is final.
    type Sum = (Duration, Duration, u64, bool);

    struct SumObserver(Mutex<Sender<Sum>>);

    impl Observer for SumObserver {
        fn observe(&self, event: &TestEvent<'_>) {
            if let TestEvent::Sum {
                figures, is_final, ..
            } = event
            {
                let sums = self.0.lock().unwrap();
                let _ = sums.send((figures.start, figures.end, figures.bytes, *is_final));
            }
        }
    }

    fn measured_flow(number: u32) -> MeasuredFlow {
        MeasuredFlow {
            id: FlowId {
                number,
                is_starred: false,
                key: None,
            },
            sends: false,
            transport: Transport::Tcp,
            counters: Arc::default(),
            socket: Arc::new(TcpListener::bind("127.0.0.1:0").unwrap().into()),
            endpoints: None,
            timings: None,
            jitter_times: None,
            has_trip_times: false,
            is_detailed: false,
            is_full_duplex: false,
        }
    }

    fn side(seconds: u64, bytes: u64) -> Side {
        let mut side = Side {
            elapsed: Some(Duration::from_secs(seconds)),
            ..Side::default()
        };
        side.counts.received = Bytes(bytes);
        side
    }

    #[test]
    fn a_group_without_flows_keeps_no_memory() {
        let (sender, _receiver) = channel();
        let group = ReportGroup::new(Arc::new(SumObserver(Mutex::new(sender))), None);
        let flows: Vec<_> = (0..10).map(measured_flow).collect();
        let begin = |flow| group.begin(flow, Instant::now());
        let registered: Vec<_> = flows.iter().map(begin).collect();
        assert!(group.state().running.capacity() >= flows.len());
        drop(registered);
        assert_eq!(group.state().running.capacity(), 0);
    }

    #[test]
    fn a_sum_covers_the_time_from_the_first_start_to_the_last_end() {
        let start = Instant::now();
        let second = |count| start + Duration::from_secs(count);
        let mut sum = FlowSum::default();
        for (from, to) in [(1, 3), (0, 1), (4, 5)] {
            let figures = FlowFigures::from_side(&side(to - from, 1_000_000), false);
            sum.add(
                &measured_flow(from as u32),
                &figures,
                (second(from), second(to)),
            );
        }
        let (sender, sums) = channel();
        sum.report(&SumObserver(Mutex::new(sender)), None);
        let (from, to, bytes, _) = sums.recv().unwrap();
        assert_eq!((from, to), (Duration::ZERO, Duration::from_secs(5)));
        assert_eq!(bytes, 3_000_000);
    }

    #[test]
    fn the_sum_of_an_interval_includes_flows_that_ended_in_it() {
        let (sender, sums) = channel();
        let interval = Some(Duration::from_millis(300));
        let reports = ReportGroup::new(Arc::new(SumObserver(Mutex::new(sender))), interval);
        let [first, second] = [1, 2].map(measured_flow);
        let _flows = [&first, &second].map(|flow| reports.begin(flow, Instant::now()));
        first.counters.count_received(1000, 1);
        second.counters.count_received(500, 1);
        reports.end(&first, &side(1, 1000));
        let mut bytes = 0;
        while bytes < 1500 {
            let (_, _, sum, is_final) = sums.recv_timeout(Duration::from_secs(20)).unwrap();
            assert!(!is_final);
            bytes += sum;
        }
        assert_eq!(bytes, 1500);
        reports.end(&second, &side(9, 500));
        let is_last = |sum: &Sum| sum.3;
        let (_, end, bytes, _) = sums.iter().find(is_last).unwrap();
        assert!(end >= Duration::from_secs(9), "{end:?}");
        assert_eq!(bytes, 1500);
    }

    #[test]
    fn a_group_lasts_while_it_is_held() {
        let words = ["-s"].map(Into::into);
        let settings = crate::options::parse_iperf("iperf", words, |_| None).unwrap();
        let observer: Arc<dyn Observer> = Arc::new(SumObserver(Mutex::new(channel().0)));
        let groups = ReportGroups::new(&observer, &settings);
        let group_of = |host: &str| {
            let peer = Address::Inet(format!("{host}:1").parse().unwrap());
            groups.group_for(&peer, None)
        };
        // A flow has its group before it starts.
        let first = group_of("127.0.0.1");
        drop(group_of("127.0.0.2"));
        assert!(Arc::ptr_eq(&first, &group_of("127.0.0.1")));
        let addresses: Vec<_> = groups.groups.lock().unwrap().keys().copied().collect();
        assert_eq!(addresses, [IpAddr::from([127, 0, 0, 1])]);
    }

    #[test]
    fn a_failed_flow_leaves_its_group_and_closes_its_socket() {
        let (sender, sums) = channel();
        let reports = ReportGroup::new(Arc::new(SumObserver(Mutex::new(sender))), None);
        let [first, second, failed] = [1, 2, 3].map(measured_flow);
        let _flows = [&first, &second].map(|flow| reports.begin(flow, Instant::now()));
        let socket = Arc::downgrade(&failed.socket);
        let failed_flow = reports.begin(&failed, Instant::now());
        drop(failed);
        reports.end(&first, &side(1, 1000));
        reports.end(&second, &side(1, 500));
        assert!(sums.try_recv().is_err());
        drop(failed_flow);
        assert_eq!(socket.strong_count(), 0);
        let (_, _, bytes, is_final) = sums.try_recv().unwrap();
        assert_eq!((bytes, is_final), (1500, true));
    }
}
