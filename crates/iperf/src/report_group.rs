//! Groups of flows that are reported together: intervals, final lines, and sums.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{Counters, Reading};
use model::{DatagramCounts, Side, Transport};
use sys::Address;

use crate::event::{Event, Figures, FlowId, Observer};
use crate::options::Settings;
use crate::tally::{Kind, Tallies, Tally};
use crate::wire::ServerReport;

/// Flows that are reported together: all flows of a client, or the flows of one client at a server.
pub(crate) struct ReportGroup {
    observer: Arc<dyn Observer>,
    /// `-i`.
    interval: Option<Duration>,
    state: Mutex<State>,
    /// Signals that the last flow has ended.
    empty: Condvar,
}

#[derive(Default)]
struct State {
    running: Vec<Running>,
    /// Flows that have ended since the first one began.
    ended: Vec<(u32, Figures)>,
    /// When the first flow began.
    begun: Option<Instant>,
    /// Whether a thread reports the intervals.
    has_ticker: bool,
    /// Server reports, which are printed last.
    server_reports: Vec<(FlowId, ServerReport)>,
}

/// The groups of a server: one per client address, or one per local address (`--sum-dstip`).
pub(crate) struct ReportGroups {
    observer: Arc<dyn Observer>,
    interval: Option<Duration>,
    by_destination: bool,
    by_address: Mutex<HashMap<IpAddr, Arc<ReportGroup>>>,
}

impl ReportGroups {
    pub(crate) fn new(observer: &Arc<dyn Observer>, settings: &Settings) -> Self {
        Self {
            observer: Arc::clone(observer),
            interval: settings.print.interval,
            by_destination: settings.print.sums_by_destination,
            by_address: Mutex::default(),
        }
    }

    /// Returns the group of a flow from `peer` to `local`.
    pub(crate) fn of(&self, peer: &Address, local: Option<&Address>) -> Arc<ReportGroup> {
        let new = || ReportGroup::new(Arc::clone(&self.observer), self.interval);
        let end = if self.by_destination {
            local
        } else {
            Some(peer)
        };
        let Some(ip) = end.and_then(Address::ip) else {
            return new();
        };
        let mut report_groups = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        report_groups.retain(|other, reports| *other == ip || !reports.is_idle());
        Arc::clone(report_groups.entry(ip).or_insert_with(new))
    }
}

/// A running flow.
struct Running {
    leg: Leg,
    begun: Reading,
    last: Reading,
    retransmits: u64,
    datagrams: DatagramCounts,
    reads: [u64; 8],
    /// The end of the last interval that was reported, on the grid.
    reported: Duration,
}

/// One direction of a flow.
#[derive(Clone)]
pub(crate) struct Leg {
    pub(crate) id: FlowId,
    pub(crate) sends: bool,
    pub(crate) transport: Transport,
    pub(crate) counters: Arc<Counters>,
    /// The socket, for the kernel's figures of the connection.
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) ends: Option<(Address, Address)>,
    /// Tallies of bursts, frames or calls.
    pub(crate) tallies: Option<Arc<Tallies>>,
    /// Whether latencies rest on synchronised clocks (`--trip-times`).
    pub(crate) has_trip_times: bool,
}

/// A last, incomplete interval is reported if it lasted at least one `SHORTEST_REST`th of an interval.
const SHORTEST_REST: u32 = 10;

impl ReportGroup {
    pub(crate) fn new(observer: Arc<dyn Observer>, interval: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            observer,
            interval,
            state: Mutex::default(),
            empty: Condvar::new(),
        })
    }

    /// Adds a flow that begins.
    pub(crate) fn begin(self: &Arc<Self>, leg: &Leg) {
        let begun = Reading::now(std::slice::from_ref(&leg.counters));
        let mut state = self.state();
        state.begun.get_or_insert(begun.at);
        state.running.push(Running {
            leg: leg.clone(),
            begun: Reading {
                counts: model::Counts::default(),
                ..begun
            },
            last: Reading {
                counts: model::Counts::default(),
                ..begun
            },
            retransmits: 0,
            datagrams: DatagramCounts::default(),
            reads: [0; 8],
            reported: Duration::ZERO,
        });
        if let Some(interval) = self.interval
            && !std::mem::replace(&mut state.has_ticker, true)
        {
            let reports = Arc::clone(self);
            let ticks = move || reports.tick(interval);
            let spawned = std::thread::Builder::new().spawn(ticks);
            state.has_ticker = spawned.is_ok();
        }
    }

    /// Reports a failure.
    pub(crate) fn fail(&self, line: String) {
        self.observer.see(&Event::Trouble(line));
    }

    /// Whether no flow is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.state().running.is_empty()
    }

    /// Removes a flow that has ended, and reports its final figures; after the last flow, their sum.
    pub(crate) fn end(&self, leg: &Leg, side: &Side) {
        let mut state = self.state();
        let is_it = |running: &Running| Arc::ptr_eq(&running.leg.counters, &leg.counters);
        let Some(at) = state.running.iter().position(is_it) else {
            return;
        };
        let mut running = state.running.remove(at);
        let now = Reading::now(std::slice::from_ref(&leg.counters));
        if let Some(interval) = self.interval.filter(|_| !leg.reports_bursts()) {
            let mut rest = running.figures(&now);
            rest.from = running.reported;
            let is_long = rest.to.saturating_sub(rest.from) * SHORTEST_REST >= interval;
            if is_long && rest.bytes > 0 && !running.reported.is_zero() {
                self.observer.see(&Event::Interval(&leg.id, &rest));
            }
        }
        let mut figures = Figures::of_side(side, leg.sends);
        running.complete(&mut figures);
        figures.tally = leg.tallies.as_ref().map(|all| (all.kind, all.whole()));
        if let Some((Kind::Bursts { .. } | Kind::TripTimes | Kind::Frames, tally)) = &figures.tally
            && !figures.sends
            && !figures.is_udp
        {
            figures.reads = Some(tally.reads);
        }
        self.observer.see(&Event::Final(&leg.id, &figures));
        if figures.is_udp && figures.sends {
            // The count includes the datagram that marks the end.
            let sent = Event::Sent(&leg.id, figures.calls + 1);
            self.observer.see(&sent);
        }
        state.ended.push((leg.id.number, figures));
        if state.running.is_empty() {
            let ended = std::mem::take(&mut state.ended);
            state.begun = None;
            self.sum(&ended, true);
            self.empty.notify_all();
        }
    }

    /// Reports a received burst and how long it took to arrive.
    pub(crate) fn report_burst(&self, leg: &Leg, tally: &Tally, size: u32, took: Duration) {
        let mut state = self.state();
        let is_it = |running: &&mut Running| Arc::ptr_eq(&running.leg.counters, &leg.counters);
        let (Some(running), Some(tallies)) = (state.running.iter_mut().find(is_it), &leg.tallies)
        else {
            return;
        };
        let to = running.begun.at.elapsed();
        let figures = Figures {
            from: to.saturating_sub(took),
            to,
            bytes: size.into(),
            reads: Some(tally.reads),
            tally: Some((tallies.kind, tally.clone())),
            has_trip_times: leg.has_trip_times,
            ends: leg.ends.clone(),
            ..Figures::default()
        };
        self.observer.see(&Event::Interval(&leg.id, &figures));
    }

    /// Keeps a UDP server's report of a flow until [`Self::show_reports`].
    pub(crate) fn keep_report(&self, id: &FlowId, report: ServerReport) {
        self.state().server_reports.push((id.clone(), report));
    }

    /// Prints the reports of UDP servers.
    pub(crate) fn show_reports(&self) {
        let reports = std::mem::take(&mut self.state().server_reports);
        for (id, report) in &reports {
            self.observer.see(&Event::Report(id, report));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports intervals until no flow is running.
    fn tick(&self, interval: Duration) {
        let mut state = self.state();
        let mut passed = 0_u32;
        while let Some(begun) = state.begun {
            passed += 1;
            let due = begun + interval * passed;
            while state.begun == Some(begun) {
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let waited = self.empty.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.begun != Some(begun) {
                passed = 0;
                continue;
            }
            let mut sums = Vec::new();
            for running in &mut state.running {
                let now = Reading::now(std::slice::from_ref(&running.leg.counters));
                let mut figures = running.figures(&now);
                running.sampled(&now, &figures);
                running.reported = interval * passed;
                // Intervals are printed on the group's grid; the flows began at almost the same time.
                (figures.from, figures.to) = (interval * (passed - 1), interval * passed);
                if running.leg.reports_bursts() {
                    continue;
                }
                self.observer
                    .see(&Event::Interval(&running.leg.id, &figures));
                sums.push((running.leg.id.number, figures));
            }
            self.sum(&sums, false);
        }
        state.has_ticker = false;
    }

    /// Reports the sum of several flows.
    fn sum(&self, flows: &[(u32, Figures)], is_final: bool) {
        let [(number, first), rest @ ..] = flows else {
            return;
        };
        if rest.is_empty() {
            return;
        }
        let both_ways = rest.iter().any(|(_, other)| other.sends != first.sends);
        let mut figures = Figures {
            calls: 0,
            ..first.clone()
        };
        for (_, other) in rest {
            figures.add(other);
        }
        // With both directions, received datagrams are counted by their numbers.
        let counts = |one: &&(u32, Figures)| one.1.sends || !one.1.is_udp || !both_ways;
        figures.calls = flows.iter().filter(counts).map(|(_, one)| one.calls).sum();
        figures.path = None;
        let is_one = rest.iter().all(|(other, _)| other == number);
        self.observer.see(&Event::Sum {
            flows: flows.len(),
            of_connection: is_one.then_some(*number),
            both_ways,
            is_final,
            figures: &figures,
        });
    }
}

impl Leg {
    /// Whether each burst is reported instead of intervals.
    pub(crate) fn reports_bursts(&self) -> bool {
        let kind = self.tallies.as_ref().map(|tallies| tallies.kind);
        !self.sends && matches!(kind, Some(Kind::Bursts { .. }))
    }
}

impl Running {
    /// Returns the figures since the last interval.
    fn figures(&mut self, now: &Reading) -> Figures {
        let mut figures = Figures::between(self.begun, &self.last, now, self.leg.sends);
        let before = self.retransmits;
        if let Some(counts) = self.leg.counters.datagrams() {
            figures.datagrams = Some(counts.since(&self.datagrams));
            let (highest, earlier) = (counts.by_order.highest, self.datagrams.by_order.highest);
            figures.due = highest.saturating_sub(earlier);
        }
        self.complete(&mut figures);
        if let Some(tallies) = &self.leg.tallies {
            let tally = tallies.take_interval();
            if !figures.sends && !figures.is_udp {
                figures.reads = Some(tally.reads);
            }
            figures.tally = Some((tallies.kind, tally));
            figures.retransmits = self.retransmits.saturating_sub(before);
            return figures;
        }
        for (count, earlier) in figures.reads.iter_mut().flatten().zip(self.reads) {
            *count -= earlier;
        }
        figures.retransmits = self.retransmits.saturating_sub(before);
        figures
    }

    /// Adds the figures of the connection.
    fn complete(&mut self, figures: &mut Figures) {
        figures.is_udp = self.leg.transport == Transport::Udp;
        figures.ends.clone_from(&self.leg.ends);
        figures.has_trip_times = self.leg.has_trip_times;
        figures.reads = self.leg.counters.receive_sizes();
        if !figures.is_udp {
            figures.path = engine::path_sample(self.leg.socket.as_fd());
            let sent_again = figures.path.and_then(|path| path.retransmits);
            self.retransmits = sent_again.unwrap_or(self.retransmits);
            figures.retransmits = self.retransmits;
        }
    }

    /// Makes `now` the start of the next interval.
    fn sampled(&mut self, now: &Reading, figures: &Figures) {
        self.last = *now;
        self.datagrams = self.leg.counters.datagrams().unwrap_or_default();
        for (total, count) in self.reads.iter_mut().zip(figures.reads.unwrap_or_default()) {
            *total += count;
        }
    }
}
