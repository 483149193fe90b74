use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use model::{CpuUse, Half};

use crate::clock::{Clock, Passed};
use crate::cpu::CpuMeter;
use crate::gate::{Gate, Ticket};

/// What flows that run together share: the gate that they start at, and the host's CPU time.
#[derive(Debug)]
pub struct Company {
    gate: Gate,
    /// Whose CPU time is measured, if it is.
    here: Half,
    /// Flows whose data still moves.
    moving: AtomicUsize,
    meter: Mutex<Option<CpuMeter>>,
    used: Mutex<Option<CpuUse>>,
}

/// One flow's place in a [`Company`].
#[derive(Debug)]
pub struct Member<'a> {
    company: &'a Company,
    ticket: Ticket<'a>,
}

impl Company {
    /// A company of so many flows, with the half that says whether CPU time is measured, and how.
    pub fn new(flows: usize, here: Half) -> Self {
        Self {
            gate: Gate::new(flows),
            here,
            moving: AtomicUsize::new(flows),
            meter: Mutex::default(),
            used: Mutex::default(),
        }
    }

    /// A place for one of the flows.
    pub fn member(&self) -> Member<'_> {
        Member {
            company: self,
            ticket: self.gate.ticket(),
        }
    }

    /// The CPU time that the host used until the last flow's clock stopped; `None` before that.
    pub fn used(&self) -> Option<CpuUse> {
        lock(&self.used).clone()
    }

    /// A flow's clock has stopped, for the first time or again. The last word of all flows counts.
    fn stopped(&self, first: bool) {
        if first {
            self.moving.fetch_sub(1, SeqCst);
        }
        if self.moving.load(SeqCst) == 0 {
            let meter = lock(&self.meter);
            *lock(&self.used) = meter.as_ref().and_then(CpuMeter::finish);
        }
    }
}

/// A flow's clock, which also ends the time of its company.
#[derive(Debug)]
pub struct FlowClock<'a> {
    clock: Clock,
    company: Option<&'a Company>,
    runs: AtomicBool,
}

impl<'a> FlowClock<'a> {
    /// Begins, as [`Clock::start`] has it.
    pub fn start(half: &Half, company: Option<&'a Company>) -> Self {
        Self {
            clock: Clock::start(half),
            company,
            runs: AtomicBool::new(true),
        }
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.clock.started
    }

    /// May be stopped again, when what follows turns out to belong to the time.
    pub fn stop(&self) -> Passed {
        let passed = self.clock.stop();
        if let Some(company) = self.company {
            company.stopped(self.runs.swap(false, SeqCst));
        }
        passed
    }
}

impl<'a> Member<'a> {
    /// Waits until every flow is ready for its data; `None` if one of them cannot be.
    pub fn start(self) -> Option<&'a Company> {
        let company = self.company;
        let first = || {
            *lock(&company.meter) = CpuMeter::start(&company.here);
        };
        self.ticket.pass(first).then_some(company)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_is_over_with_the_last_flow() {
        let here = Half {
            measure_cpu: true,
            ..Half::default()
        };
        let company = Company::new(2, here);
        let (one, two) = (company.member(), company.member());
        std::thread::scope(|scope| {
            scope.spawn(|| one.start());
            assert!(two.start().is_some());
        });
        let clocks = [(); 2].map(|()| FlowClock::start(&Half::default(), Some(&company)));
        clocks[0].stop();
        clocks[0].stop();
        assert_eq!(company.used(), None);
        clocks[1].stop();
        assert!(company.used().is_some());
    }
}
