//! What is printed of a run, computed once: the tool's own arithmetic over counts and times.

mod processor;
mod sizes;
mod socket;

use model::{ClockFacts, Confidence, Counts, FlowPlan, Half, HostFacts, SocketFacts};
use stats::{Histogram, Summary};
use units::Bytes;

use super::values::interface;
use crate::options::{Direction, Settings, Test, Unit};
use crate::result::{Headline, TestRun};
use crate::wire::{SysInfo, TestResponse};

pub(super) use processor::Processor;

/// What is printed for a figure that was not measured.
pub(super) const NONE: f64 = -1.0;

/// The figures of one run, as they are printed.
pub(crate) struct Figures<'a> {
    pub(super) settings: &'a Settings,
    pub(super) run: &'a TestRun,
    /// The unit in force: transactions are no unit of a bulk transfer.
    pub(super) unit: Unit,
    /// Seconds by this end's clock …
    pub(super) elapsed: f64,
    /// … and those of the last iteration, whose counts the others are of.
    last_elapsed: f64,
    /// In `unit`.
    pub(super) throughput: f64,
    /// Transactions a second; 1 in bulk tests.
    pub(super) transaction_rate: f64,
    /// Microseconds from request to response; −1 in bulk tests.
    pub(super) round_trip_us: f64,
    pub(super) local: Processor,
    pub(super) remote: Processor,
    /// Latencies of transactions, or in bulk tests times of single calls.
    pub(super) times: Option<&'a Histogram>,
    /// The usual figures of them.
    pub(super) summary: Option<Summary>,
}

impl<'a> Figures<'a> {
    pub(super) fn new(settings: &'a Settings, run: &'a TestRun) -> Self {
        let mut figures = Self::of_last(settings, run);
        if let Some(repeated) = &run.repeated {
            figures.show(&repeated.means);
        }
        figures
    }

    /// The figures of the last iteration.
    pub(super) fn of_last(settings: &'a Settings, run: &'a TestRun) -> Self {
        let here = &run.outcome.here;
        let times = here
            .latency
            .as_ref()
            .or(here.send_times.as_ref())
            .or(here.receive_times.as_ref());
        let elapsed = here.elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f64());
        let mut figures = Self {
            settings,
            run,
            unit: unit_in_force(settings),
            elapsed,
            last_elapsed: elapsed,
            throughput: 0.0,
            transaction_rate: 1.0,
            round_trip_us: NONE,
            // The shares of CPU time that were not measured here are 0 in the stock tool; those of
            // the peer are whatever its message happened to hold.
            local: here
                .cpu
                .as_ref()
                .map_or(Processor::unmeasured(0.0), Processor::new),
            remote: run
                .peer
                .cpu
                .as_ref()
                .map_or(Processor::unmeasured(NONE), Processor::new),
            times,
            summary: times.and_then(Histogram::summary),
        };
        if figures.is_transactional() {
            figures.transaction_rate = ratio(figures.transactions(), figures.elapsed);
            figures.round_trip_us = figures.round_trip();
        }
        figures.throughput = if figures.unit == Unit::TRANSACTIONS {
            figures.transaction_rate
        } else {
            figures
                .unit
                .of(ratio(figures.bytes_that_arrived(), figures.elapsed))
        };
        figures.local.demand = figures.demand(&figures.local);
        figures.remote.demand = figures.demand(&figures.remote);
        figures
    }

    pub(super) fn headline(&self) -> Headline {
        let measured = |end: &Processor, figure: f64| end.measured.then_some(figure);
        Headline {
            throughput: self.throughput,
            elapsed: self.elapsed,
            local_cpu: measured(&self.local, self.local.busy),
            remote_cpu: measured(&self.remote, self.remote.busy),
            local_demand: measured(&self.local, self.local.demand),
            remote_demand: measured(&self.remote, self.remote.demand),
        }
    }

    /// Shows the means of several iterations in place of the last one's figures.
    fn show(&mut self, means: &Headline) {
        self.throughput = means.throughput;
        self.elapsed = means.elapsed;
        self.local.busy = means.local_cpu.unwrap_or(NONE);
        self.remote.busy = means.remote_cpu.unwrap_or(NONE);
        self.local.demand = means.local_demand.unwrap_or(NONE);
        self.remote.demand = means.remote_demand.unwrap_or(NONE);
    }

    pub(super) fn flow(&self) -> &FlowPlan {
        &self.settings.flow
    }

    pub(super) fn here(&self) -> &Half {
        &self.flow().here
    }

    pub(super) fn there(&self) -> &Half {
        &self.flow().there
    }

    /// What the peer has set up.
    pub(super) fn peer(&self) -> &TestResponse {
        &self.run.peer.response
    }

    pub(super) fn peer_counts(&self) -> &Counts {
        &self.run.peer.counts
    }

    pub(super) fn local_host(&self) -> Option<&HostFacts> {
        self.run.outcome.here.host.as_ref()
    }

    /// What the peer told of its host; a stock one tells nothing.
    pub(super) fn remote_host(&self) -> Option<&HostFacts> {
        self.run.outcome.there.as_ref()?.host.as_ref()
    }

    pub(super) fn local_interface(&self) -> interface::Known<'_> {
        interface::Known::of(&self.run.outcome.here)
    }

    pub(super) fn remote_interface(&self) -> interface::Known<'_> {
        let there = self.run.outcome.there.as_ref();
        there.map_or(interface::Known::NotTold, interface::Known::of)
    }

    /// What the clock adds to a time, where times are kept.
    pub(super) fn clock(&self) -> Option<ClockFacts> {
        self.run.outcome.here.clock
    }

    /// Packets of this end's interface, in and out; −1 where there are no transactions, or no counts.
    pub(super) fn packets_a_transaction(&self) -> f64 {
        match interface::packets(self.local_interface()) {
            Some(packets) if self.is_transactional() => ratio(packets as f64, self.transactions()),
            _ => NONE,
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

    /// How well the means are known; `None` when one iteration was all.
    pub(super) fn confidence(&self) -> Option<&Confidence> {
        self.run
            .repeated
            .as_ref()
            .map(|repeated| &repeated.confidence)
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.run.outcome.here.counts
    }

    fn socket(&self) -> &SocketFacts {
        &self.run.outcome.here.socket
    }

    fn is_transactional(&self) -> bool {
        self.settings.direction.is_transactional()
    }

    fn transactions(&self) -> f64 {
        self.counts().transactions as f64
    }

    /// What counts is what arrived: here when this end only receives, else at the peer, which in
    /// request/response tests in units of bytes means both directions.
    fn bytes_that_arrived(&self) -> f64 {
        if self.settings.reverse.is_some() {
            return self.peer_counts().received.0 as f64 + self.counts().received.0 as f64;
        }
        match self.settings.direction {
            Direction {
                transmit: false,
                receive: true,
                ..
            } => self.bytes_moved(),
            // Nobody says what became of it.
            _ if self.settings.no_control => self.counts().sent.0 as f64,
            _ => self.remote_bytes_moved(),
        }
    }

    /// A burst, and several flows, keep several requests in flight, each of which takes that many times
    /// as long as the time between two responses.
    fn round_trip(&self) -> f64 {
        let waited = match &self.run.outcome.here.paced {
            None => 0.0,
            // How many were in flight is then the pace's business: only the times themselves tell.
            Some(_) if self.flow().burst > 0 => {
                return self.summary.map_or(NONE, |times| times.mean_ns / 1000.0);
            }
            Some(paced) => paced.waited.as_secs_f64(),
        };
        let in_flight = if self.settings.direction.connection {
            1.0
        } else {
            1.0 + f64::from(self.flow().burst)
        };
        let in_flight = in_flight * f64::from(self.settings.flows);
        let waited = waited / f64::from(self.settings.flows);
        ratio(
            1e6 * (self.elapsed - waited) * in_flight,
            self.transactions(),
        )
    }

    /// Service demand as the stock client computes it. Both ends are charged for the same work; an
    /// end whose use or count of CPUs is 0 has the other one's, as in the stock tool.
    fn demand(&self, end: &Processor) -> f64 {
        if !end.measured {
            return NONE;
        }
        let per_second = match self.settings.test {
            Test::TcpSendfile => ratio(self.bytes_that_arrived() / 1024.0, self.elapsed),
            Test::TcpCc => self.transaction_rate,
            _ if self.unit == Unit::TRANSACTIONS => self.transaction_rate,
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

    pub(super) fn demand_unit(&self) -> &'static str {
        if self.unit == Unit::TRANSACTIONS {
            "usec/Tran"
        } else {
            "usec/KB"
        }
    }

    /// So many bytes over the test's time, in the unit of throughput.
    pub(super) fn rate_of(&self, bytes: u64) -> f64 {
        self.rate_unit().of(ratio(bytes as f64, self.last_elapsed))
    }

    /// The unit that [`Figures::rate_of`] has.
    pub(super) fn rate_unit(&self) -> Unit {
        if self.unit == Unit::TRANSACTIONS {
            Unit::MEGABITS
        } else {
            self.unit
        }
    }

    /// The one figure of a test: of a stream of datagrams what was sent, else the throughput.
    pub(super) fn one_way_rate(&self) -> f64 {
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

    /// What was asked of the peer; −1 where nobody can be asked.
    pub(super) fn asked_there(&self, word: impl Into<i64>) -> i64 {
        if self.settings.no_control {
            -1
        } else {
            word.into()
        }
    }

    pub(super) fn bytes_a_send(&self) -> f64 {
        a_call(self.counts().sent, self.counts().send_calls)
    }

    pub(super) fn bytes_a_receive(&self) -> f64 {
        a_call(self.counts().received, self.counts().receive_calls)
    }

    pub(super) fn bytes_a_remote_send(&self) -> f64 {
        a_call(self.peer_counts().sent, self.peer_counts().send_calls)
    }

    pub(super) fn bytes_a_remote_receive(&self) -> f64 {
        let there = self.peer_counts();
        a_call(there.received, there.receive_calls)
    }

    /// What was sent here over the peer's receive calls, which is what the stream tables print.
    pub(super) fn sent_a_remote_receive(&self) -> f64 {
        a_call(self.counts().sent, self.peer_counts().receive_calls)
    }

    pub(super) fn direction(&self) -> &'static str {
        match self.settings.reverse {
            Some(_) => "Send|Recv",
            None => self.settings.direction.name(),
        }
    }
}

impl Direction {
    /// What the stock tool calls it.
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

/// What a host runs, in the words of uname(2).
fn system(host: &HostFacts) -> Option<SysInfo> {
    let (sysname, release) = host.kernel.as_ref()?.split_once(' ')?;
    Some(SysInfo {
        sysname: sysname.to_owned(),
        release: release.to_owned(),
        machine: host.machine.clone()?,
        version: host.kernel_version.clone()?,
    })
}

pub(super) fn unit_in_force(settings: &Settings) -> Unit {
    match settings.print.unit {
        Unit::TRANSACTIONS if !settings.direction.is_transactional() => Unit::MEGABITS,
        unit => unit,
    }
}

fn known(value: Option<u32>) -> i64 {
    value.map_or(-1, i64::from)
}

fn a_call(bytes: Bytes, calls: u64) -> f64 {
    ratio(bytes.0 as f64, calls as f64)
}

/// A quotient to print: 0 where there is none.
fn ratio(amount: f64, per: f64) -> f64 {
    let quotient = amount / per;
    if quotient.is_finite() { quotient } else { 0.0 }
}
