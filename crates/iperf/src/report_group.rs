//! Groups of flows with common reports: intervals, final lines, and sums.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{CounterReading, Counters};
use model::{DatagramCounts, Side, Transport};
use sys::Address;

use crate::event::{FlowFigures, FlowId, Observer, TestEvent};
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
    /// The flows that have ended, until no flow is running.
    ended: Vec<(u32, FlowFigures)>,
    /// The start of the first flow; `None` if no flow is running.
    started: Option<Instant>,
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
    groups: Mutex<HashMap<IpAddr, Arc<ReportGroup>>>,
}

impl ReportGroups {
    pub(crate) fn new(observer: &Arc<dyn Observer>, settings: &Settings) -> Self {
        Self {
            observer: Arc::clone(observer),
            interval: settings.output.interval,
            is_keyed_by_local_address: settings.output.sums_by_destination,
            groups: Mutex::default(),
        }
    }

    /// Returns the group of a flow from `peer` to `local`.
    pub(crate) fn group_for(&self, peer: &Address, local: Option<&Address>) -> Arc<ReportGroup> {
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
        report_groups.retain(|group_ip, reports| *group_ip == ip || !reports.is_idle());
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
    /// The end of the last reported interval, a multiple of the interval.
    reported_until: Duration,
}

/// A measured flow, which is one direction of a connection.
#[derive(Clone)]
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
    /// Whether synchronised clocks allow one-way latencies (`--trip-times`).
    pub(crate) has_trip_times: bool,
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

    /// Adds a flow that begins.
    pub(crate) fn begin(self: &Arc<Self>, measured: &MeasuredFlow) {
        let started = CounterReading::now(std::slice::from_ref(&measured.counters));
        let mut state = self.state();
        state.started.get_or_insert(started.at);
        state.running.push(RunningFlow {
            measured: measured.clone(),
            start: CounterReading {
                counts: model::Counts::default(),
                ..started
            },
            last_reading: CounterReading {
                counts: model::Counts::default(),
                ..started
            },
            retransmits: 0,
            datagrams: DatagramCounts::default(),
            read_sizes: [0; 8],
            reported_until: Duration::ZERO,
        });
        if let Some(interval) = self.interval
            && !std::mem::replace(&mut state.has_interval_thread, true)
        {
            let reports = Arc::clone(self);
            let report_intervals = move || reports.run_interval_reports(interval);
            let spawned = std::thread::Builder::new().spawn(report_intervals);
            state.has_interval_thread = spawned.is_ok();
        }
    }

    /// Reports a failure.
    pub(crate) fn fail(&self, line: String) {
        self.observer.observe(&TestEvent::Error(line));
    }

    /// Returns whether no flow is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.state().running.is_empty()
    }

    /// Removes an ended flow, and reports its final figures.
    ///
    /// After the last flow, also reports the sum of all flows.
    pub(crate) fn end(&self, measured: &MeasuredFlow, side: &Side) {
        let mut state = self.state();
        let is_same_flow =
            |running: &RunningFlow| Arc::ptr_eq(&running.measured.counters, &measured.counters);
        let Some(index) = state.running.iter().position(is_same_flow) else {
            return;
        };
        let mut running = state.running.remove(index);
        let now = CounterReading::now(std::slice::from_ref(&measured.counters));
        if let Some(interval) = self.interval.filter(|_| !measured.reports_bursts()) {
            let mut last_interval = running.interval_figures(&now);
            last_interval.start = running.reported_until;
            let is_long_enough = last_interval.end.saturating_sub(last_interval.start)
                * MIN_LAST_INTERVAL_DIVISOR
                >= interval;
            if is_long_enough && last_interval.bytes > 0 && !running.reported_until.is_zero() {
                self.observer
                    .observe(&TestEvent::Interval(&measured.id, &last_interval));
            }
        }
        let mut figures = FlowFigures::from_side(side, measured.sends);
        running.add_connection_figures(&mut figures);
        figures.timing = measured
            .timings
            .as_ref()
            .map(|timings| (timings.kind, timings.test_total()));
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
        state.ended.push((measured.id.number, figures));
        if state.running.is_empty() {
            let ended = std::mem::take(&mut state.ended);
            state.started = None;
            self.report_sum(&ended, true);
            self.all_ended.notify_all();
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
            let mut interval_figures = Vec::new();
            for running in &mut state.running {
                let now = CounterReading::now(std::slice::from_ref(&running.measured.counters));
                let mut figures = running.interval_figures(&now);
                running.begin_interval(&now, &figures);
                running.reported_until = interval * intervals;
                // Interval times are multiples of the interval, because all flows of a group start
                // at almost the same time.
                (figures.start, figures.end) = (interval * (intervals - 1), interval * intervals);
                if running.measured.reports_bursts() {
                    continue;
                }
                self.observer
                    .observe(&TestEvent::Interval(&running.measured.id, &figures));
                interval_figures.push((running.measured.id.number, figures));
            }
            self.report_sum(&interval_figures, false);
        }
        state.has_interval_thread = false;
    }

    /// Reports the sum of several flows.
    fn report_sum(&self, flows: &[(u32, FlowFigures)], is_final: bool) {
        let [(number, first), others @ ..] = flows else {
            return;
        };
        if others.is_empty() {
            return;
        }
        let is_bidirectional = others.iter().any(|(_, other)| other.sends != first.sends);
        let mut figures = FlowFigures {
            calls: 0,
            ..first.clone()
        };
        for (_, other) in others {
            figures.add(other);
        }
        // A bidirectional sum counts received datagrams by their numbers, not by receive calls.
        let counts_calls =
            |flow: &&(u32, FlowFigures)| flow.1.sends || !flow.1.is_udp || !is_bidirectional;
        figures.calls = flows
            .iter()
            .filter(counts_calls)
            .map(|(_, flow)| flow.calls)
            .sum();
        figures.path = None;
        let is_one_connection = others.iter().all(|(other, _)| other == number);
        self.observer.observe(&TestEvent::Sum {
            flows: flows.len(),
            connection_number: is_one_connection.then_some(*number),
            is_bidirectional,
            is_final,
            figures: &figures,
        });
    }
}

impl MeasuredFlow {
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
        figures.read_sizes = self.measured.counters.receive_sizes();
        if !figures.is_udp {
            figures.path = engine::path_sample(self.measured.socket.as_fd());
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
