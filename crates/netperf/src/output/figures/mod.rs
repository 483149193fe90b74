//! The figures to print for a run. They are computed once, with the stock tool's arithmetic.

mod processor;
mod sizes;
mod socket;

use model::{ClockFacts, Confidence, Counts, EndpointPlan, FlowPlan, HostFacts, SocketFacts};
use stats::{Histogram, HistogramSummary};
use units::Bytes;

use super::values::interface;
use crate::options::{Settings, Test, TestDirection, ThroughputUnit};
use crate::result::{FinishedTest, MainFigures};
use crate::wire::{SysInfo, TestResponse};

pub(super) use processor::CpuFigures;

/// The number printed for a figure that was not measured.
pub(super) const NOT_MEASURED: f64 = -1.0;

/// The figures to print for one run.
pub(crate) struct Figures<'a> {
    pub(super) settings: &'a Settings,
    pub(super) run: &'a FinishedTest,
    /// The unit in force. Bulk transfers do not use transactions.
    pub(super) unit: ThroughputUnit,
    /// Elapsed seconds by this host's clock; the mean if there are several iterations.
    pub(super) elapsed: f64,
    /// Elapsed seconds of the last iteration, to which the counts belong.
    last_elapsed: f64,
    /// The throughput, in `unit`.
    pub(super) throughput: f64,
    /// Transactions per second; 1 in bulk tests.
    pub(super) transaction_rate: f64,
    /// Microseconds from request to response; −1 in bulk tests.
    pub(super) round_trip_us: f64,
    pub(super) local: CpuFigures,
    pub(super) remote: CpuFigures,
    /// Latencies of transactions, or in bulk tests times of single calls.
    pub(super) times: Option<&'a Histogram>,
    /// Percentiles, mean and extremes of `times`.
    pub(super) summary: Option<HistogramSummary>,
}

impl<'a> Figures<'a> {
    pub(super) fn new(settings: &'a Settings, run: &'a FinishedTest) -> Self {
        let mut figures = Self::for_last_iteration(settings, run);
        if let Some(repeated) = &run.repetition_means {
            figures.show_means(&repeated.means);
        }
        figures
    }

    /// The figures of the last iteration.
    pub(super) fn for_last_iteration(settings: &'a Settings, run: &'a FinishedTest) -> Self {
        let local = &run.outcome.local;
        let times = local
            .latency
            .as_ref()
            .or(local.send_times.as_ref())
            .or(local.receive_times.as_ref());
        let elapsed = local.elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f64());
        let mut figures = Self {
            settings,
            run,
            unit: effective_unit(settings),
            elapsed,
            last_elapsed: elapsed,
            throughput: 0.0,
            transaction_rate: 1.0,
            round_trip_us: NOT_MEASURED,
            // In the stock tool, unmeasured shares of CPU time are 0 for the local host. For the
            // peer, they are leftovers in its message.
            local: local
                .cpu
                .as_ref()
                .map_or(CpuFigures::unmeasured(0.0), CpuFigures::new),
            remote: run
                .peer
                .cpu
                .as_ref()
                .map_or(CpuFigures::unmeasured(NOT_MEASURED), CpuFigures::new),
            times,
            summary: times.and_then(Histogram::summary),
        };
        if figures.is_transactional() {
            figures.transaction_rate = ratio(figures.transactions(), figures.elapsed);
            figures.round_trip_us = figures.round_trip();
        }
        figures.throughput = if figures.unit == ThroughputUnit::TRANSACTIONS {
            figures.transaction_rate
        } else {
            figures
                .unit
                .scale(ratio(figures.delivered_bytes(), figures.elapsed))
        };
        figures.local.demand = figures.service_demand(&figures.local);
        figures.remote.demand = figures.service_demand(&figures.remote);
        figures
    }

    pub(super) fn main_figures(&self) -> MainFigures {
        let if_measured = |end: &CpuFigures, figure: f64| end.measured.then_some(figure);
        MainFigures {
            throughput: self.throughput,
            elapsed: self.elapsed,
            local_cpu: if_measured(&self.local, self.local.busy),
            remote_cpu: if_measured(&self.remote, self.remote.busy),
            local_demand: if_measured(&self.local, self.local.demand),
            remote_demand: if_measured(&self.remote, self.remote.demand),
        }
    }

    /// Replaces the figures of the last iteration with the means of several.
    fn show_means(&mut self, means: &MainFigures) {
        self.throughput = means.throughput;
        self.elapsed = means.elapsed;
        self.local.busy = means.local_cpu.unwrap_or(NOT_MEASURED);
        self.remote.busy = means.remote_cpu.unwrap_or(NOT_MEASURED);
        self.local.demand = means.local_demand.unwrap_or(NOT_MEASURED);
        self.remote.demand = means.remote_demand.unwrap_or(NOT_MEASURED);
    }

    pub(super) fn flow(&self) -> &FlowPlan {
        &self.settings.flow
    }

    pub(super) fn local_plan(&self) -> &EndpointPlan {
        &self.flow().local
    }

    pub(super) fn remote_plan(&self) -> &EndpointPlan {
        &self.flow().remote
    }

    /// The peer's response with its setup.
    pub(super) fn peer_response(&self) -> &TestResponse {
        &self.run.peer.response
    }

    pub(super) fn peer_counts(&self) -> &Counts {
        &self.run.peer.counts
    }

    pub(super) fn local_host(&self) -> Option<&HostFacts> {
        self.run.outcome.local.host.as_ref()
    }

    /// The facts that the peer reported about its host; a stock peer reports none.
    pub(super) fn remote_host(&self) -> Option<&HostFacts> {
        self.run.outcome.remote.as_ref()?.host.as_ref()
    }

    pub(super) fn local_interface(&self) -> interface::InterfaceReport<'_> {
        interface::InterfaceReport::for_side(&self.run.outcome.local)
    }

    pub(super) fn remote_interface(&self) -> interface::InterfaceReport<'_> {
        let remote = self.run.outcome.remote.as_ref();
        remote.map_or(
            interface::InterfaceReport::NotReported,
            interface::InterfaceReport::for_side,
        )
    }

    /// The cost and the resolution of the clock, if measured.
    pub(super) fn clock(&self) -> Option<ClockFacts> {
        self.run.outcome.local.clock
    }

    /// Packets of the local interface per transaction, received and sent. −1 in tests without
    /// transactions or without interface counters.
    pub(super) fn packets_per_transaction(&self) -> f64 {
        match interface::count_packets(self.local_interface()) {
            Some(packets) if self.is_transactional() => ratio(packets as f64, self.transactions()),
            _ => NOT_MEASURED,
        }
    }

    pub(super) fn local_system(&self) -> Option<SysInfo> {
        self.local_host().and_then(system)
    }

    pub(super) fn remote_system(&self) -> Option<SysInfo> {
        self.remote_host()
            .and_then(system)
            .or_else(|| self.run.peer.system.clone())
    }

    /// The confidence of the means; `None` after a single iteration.
    pub(super) fn confidence(&self) -> Option<&Confidence> {
        self.run
            .repetition_means
            .as_ref()
            .map(|repeated| &repeated.confidence)
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.run.outcome.local.counts
    }

    fn socket(&self) -> &SocketFacts {
        &self.run.outcome.local.socket
    }

    fn is_transactional(&self) -> bool {
        self.settings.direction.is_transactional()
    }

    fn transactions(&self) -> f64 {
        self.counts().transactions as f64
    }

    /// Returns the bytes on which the throughput is based: those delivered to the receiver.
    ///
    /// The local host counts if it only receives; otherwise the peer counts. In request/response
    /// tests in units of bytes, the peer counts both directions.
    fn delivered_bytes(&self) -> f64 {
        if self.settings.reverse.is_some() {
            return self.peer_counts().received.0 as f64 + self.counts().received.0 as f64;
        }
        match self.settings.direction {
            TestDirection {
                transmit: false,
                receive: true,
                ..
            } => self.bytes_moved(),
            // Without a control connection, the peer does not report its counts.
            _ if self.settings.no_control => self.counts().sent.0 as f64,
            _ => self.remote_bytes_moved(),
        }
    }

    /// Returns the mean round trip time in microseconds.
    ///
    /// With a burst or several flows, N requests are in flight. Each then takes N times the time
    /// between two responses.
    fn round_trip(&self) -> f64 {
        let paused = match &self.run.outcome.local.pacing_result {
            None => 0.0,
            // With both pacing and a burst, the number in flight varies: use the recorded times.
            Some(_) if self.flow().burst > 0 => {
                return self
                    .summary
                    .map_or(NOT_MEASURED, |times| times.mean_ns / 1000.0);
            }
            Some(paced) => paced.waited.as_secs_f64(),
        };
        let in_flight = if self.settings.direction.connection {
            1.0
        } else {
            1.0 + f64::from(self.flow().burst)
        };
        let in_flight = in_flight * f64::from(self.settings.flows);
        let waited = paused / f64::from(self.settings.flows);
        ratio(
            1e6 * (self.elapsed - waited) * in_flight,
            self.transactions(),
        )
    }

    /// Computes the service demand like the stock client. Both hosts are charged for the same work.
    /// As in the stock tool, a host without CPU use or a CPU count gets the local value.
    fn service_demand(&self, end: &CpuFigures) -> f64 {
        if !end.measured {
            return NOT_MEASURED;
        }
        let per_second = match self.settings.test {
            Test::TcpSendfile => ratio(self.delivered_bytes() / 1024.0, self.elapsed),
            Test::TcpCc => self.transaction_rate,
            _ if self.unit == ThroughputUnit::TRANSACTIONS => self.transaction_rate,
            _ => ratio(self.bytes_moved() / 1024.0, self.elapsed),
        };
        let busy = if end.busy == 0.0 {
            self.local.busy.max(0.0)
        } else {
            end.busy
        };
        let cpus = if end.cpus == 0 {
            self.local.cpus
        } else {
            end.cpus
        };
        ratio(busy * 10_000.0 * f64::from(cpus), per_second)
    }

    pub(super) fn service_demand_unit(&self) -> &'static str {
        if self.unit == ThroughputUnit::TRANSACTIONS {
            "usec/Tran"
        } else {
            "usec/KB"
        }
    }

    /// Converts bytes to a rate over the duration of the test, in [`Self::rate_unit`].
    pub(super) fn rate_of(&self, bytes: u64) -> f64 {
        self.rate_unit()
            .scale(ratio(bytes as f64, self.last_elapsed))
    }

    /// Returns the unit of [`Self::rate_of`].
    pub(super) fn rate_unit(&self) -> ThroughputUnit {
        if self.unit == ThroughputUnit::TRANSACTIONS {
            ThroughputUnit::MEGABITS
        } else {
            self.unit
        }
    }

    /// Returns the figure of verbosity 0: the sent rate of a stream of datagrams, else the
    /// throughput.
    pub(super) fn verbosity_0_rate(&self) -> f64 {
        if self.flow().transport.has_datagrams() && !self.is_transactional() {
            self.rate_of(self.counts().sent.0)
        } else {
            self.throughput
        }
    }

    pub(super) fn bytes_moved(&self) -> f64 {
        self.counts().sent.0 as f64 + self.counts().received.0 as f64
    }

    pub(super) fn remote_bytes_moved(&self) -> f64 {
        self.peer_counts().sent.0 as f64 + self.peer_counts().received.0 as f64
    }

    /// Returns a value requested of the peer; −1 without a control connection.
    pub(super) fn requested_or_unknown(&self, value: impl Into<i64>) -> i64 {
        if self.settings.no_control {
            -1
        } else {
            value.into()
        }
    }

    pub(super) fn bytes_per_send(&self) -> f64 {
        bytes_per_call(self.counts().sent, self.counts().send_calls)
    }

    pub(super) fn bytes_per_receive(&self) -> f64 {
        bytes_per_call(self.counts().received, self.counts().receive_calls)
    }

    pub(super) fn bytes_per_remote_send(&self) -> f64 {
        bytes_per_call(self.peer_counts().sent, self.peer_counts().send_calls)
    }

    pub(super) fn bytes_per_remote_receive(&self) -> f64 {
        let remote = self.peer_counts();
        bytes_per_call(remote.received, remote.receive_calls)
    }

    /// Returns the bytes sent locally per receive call of the peer, as printed in stream tables.
    pub(super) fn sent_bytes_per_remote_receive(&self) -> f64 {
        bytes_per_call(self.counts().sent, self.peer_counts().receive_calls)
    }

    pub(super) fn direction(&self) -> &'static str {
        match self.settings.reverse {
            Some(_) => "Send|Recv",
            None => self.settings.direction.name(),
        }
    }
}

impl TestDirection {
    /// Returns the stock tool's name of the direction.
    pub(super) fn name(self) -> &'static str {
        match (self.transmit, self.receive, self.connection) {
            (true, true, true) => "Connect|Send|Recv",
            (true, true, false) => "Send|Recv",
            (true, false, _) => "Send",
            (false, true, _) => "Receive",
            (false, false, _) => "Connection",
        }
    }
}

/// Returns the fields of uname(2) for a host.
fn system(host: &HostFacts) -> Option<SysInfo> {
    let (sysname, release) = host.kernel.as_ref()?.split_once(' ')?;
    Some(SysInfo {
        sysname: sysname.to_owned(),
        release: release.to_owned(),
        machine: host.machine.clone()?,
        version: host.kernel_version.clone()?,
    })
}

/// Returns the unit in force: 10⁶ bits if transactions are selected for a bulk transfer.
pub(super) fn effective_unit(settings: &Settings) -> ThroughputUnit {
    match settings.print.unit {
        ThroughputUnit::TRANSACTIONS if !settings.direction.is_transactional() => {
            ThroughputUnit::MEGABITS
        }
        unit => unit,
    }
}

fn or_minus_one(value: Option<u32>) -> i64 {
    value.map_or(-1, i64::from)
}

/// Returns the mean bytes per call; 0 without calls.
fn bytes_per_call(bytes: Bytes, calls: u64) -> f64 {
    ratio(bytes.0 as f64, calls as f64)
}

/// Returns `dividend / divisor`, or 0 if it is not finite.
fn ratio(dividend: f64, divisor: f64) -> f64 {
    let quotient = dividend / divisor;
    if quotient.is_finite() { quotient } else { 0.0 }
}
