//! A running test, and its record.

use std::fmt::Display;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use engine::{BudgetHolder, Counters, ResourceAmounts, ResourceShare, Stop, StopReason};
use model::EndCause;
use serde::{Deserialize, Serialize};
use sys::Address;

use super::{MAX_LISTED_OVERLAPS, Registry, Tests, lock};
use crate::Refusal;

/// The minimum time over which a current rate is measured.
const MIN_RATE_INTERVAL: Duration = Duration::from_secs(1);

/// The tolerance for the duration of a complete test. A client starts its clock before this end
/// does. The difference is large on a busy host.
const DURATION_TOLERANCE: Duration = Duration::from_millis(300);

/// The time without data after which a test of an unproven client ends if another one needs its slot.
/// A test whose data all came before the first check yields earlier: its source may be forged.
const MAX_SILENCE: Duration = Duration::from_secs(1);
pub(super) const MAX_INITIAL_SILENCE: Duration = Duration::from_millis(100);

/// A client's request.
#[derive(Clone, Debug, Default)]
pub struct ClientTest {
    /// The test, in the terms of the dialect.
    pub name: String,
    /// The requested duration, if known.
    pub duration: Option<Duration>,
    /// The resources of the test beyond those of its session.
    pub resources: ResourceAmounts,
    /// Whether the client has a slot of [`Service::admit_unproven`](crate::Service::admit_unproven).
    pub is_unproven: bool,
}

/// A running test. When this value is dropped, the test ends and its record is logged.
#[derive(Debug)]
pub struct RunningTest {
    pub(super) registry: Registry,
    pub(super) number: u64,
    pub(super) address: BudgetHolder,
    pub(super) started: Instant,
    /// The number of tests that were running at its start.
    pub(super) initial_overlaps: u32,
    pub(super) requested_duration: Option<Duration>,
    pub(super) is_unproven: bool,
    pub(super) cancel_stop: Stop,
    pub(super) state: Mutex<State>,
    pub(super) _resources: ResourceShare,
}

/// The part of a test that changes.
#[derive(Debug)]
pub(super) struct State {
    record: TestRecord,
    counters: Vec<Arc<Counters>>,
    message_counters: Vec<Arc<Counters>>,
    /// The number of directions of data that have not ended.
    directions: u32,
    ended: Option<Instant>,
    /// The bytes already counted in the excess of its address.
    counted_bytes: u64,
    /// When the last of them were counted.
    pub(super) counted_at: Instant,
    /// Whether some of them were counted later than others.
    is_continuous: bool,
    /// The time of the last rate measurement, and the bytes at that time.
    last_measurement: (Instant, u64),
}

/// The record of a test.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TestRecord {
    /// The start time.
    #[serde(with = "rfc3339")]
    pub started: SystemTime,
    /// The client's address and port.
    pub peer: String,
    /// The dialect.
    pub dialect: String,
    /// The test, in the terms of the dialect.
    pub test: String,
    /// The duration so far.
    pub seconds: f64,
    /// Payload received by this end.
    pub received_bytes: u64,
    /// Payload sent by this end.
    pub sent_bytes: u64,
    /// The rate of sent and received payload; for a running test, that of the last second.
    pub bits_per_second: f64,
    /// The number of other tests on this host that overlapped with it.
    pub overlapping_tests: u32,
    /// The dialects and peers of the first overlapping tests.
    pub overlapped_with: Vec<String>,
    /// Whether the test completed as its client requested.
    pub is_complete: bool,
    /// How the test ended: complete, or the reason of the failure; `None` while it runs.
    pub end: Option<String>,
}

impl RunningTest {
    /// Adds counters to the test.
    pub fn add_counters(&self, counters: &Arc<Counters>) {
        self.state().counters.push(Arc::clone(counters));
    }

    /// Adds counters of messages other than data. The limits apply to them as well.
    pub fn add_message_counters(&self, counters: &Arc<Counters>) {
        self.state().message_counters.push(Arc::clone(counters));
    }

    /// Adds another direction of data. The test ends with its last direction.
    pub fn add_direction(&self) {
        self.state().directions += 1;
    }

    /// Replaces the name of the test. It is for dialects in which only a later request describes the
    /// test.
    pub fn rename(&self, name: &str) {
        name.clone_into(&mut self.state().record.test);
    }

    /// Marks the test as completed by its client. A test shorter than its requested duration does
    /// not count as complete.
    pub fn complete(&self) {
        let elapsed = self.elapsed();
        if let Some(requested) = self.requested_duration
            && elapsed.mul_f64(1.01) + DURATION_TOLERANCE < requested
        {
            let [elapsed, requested] = [elapsed, requested].map(|time| time.as_secs_f64());
            self.fail(&format_args!(
                "the client ended the test after {elapsed:.1} of {requested:.1} s"
            ));
        }
        self.end("complete".to_owned(), true);
    }

    /// Records that the test failed. Only the first reason is recorded. If the server was stopped,
    /// that is the reason.
    pub fn fail(&self, reason: &dyn Display) {
        self.end(self.failure(reason), false);
    }

    /// Records a reason why the test is incomplete, although it continues.
    pub fn record_failure(&self, reason: &dyn Display) {
        let failure = self.failure(reason);
        self.state().record.end.get_or_insert(failure);
    }

    fn failure(&self, reason: &dyn Display) -> String {
        match self.cancel_stop.reason() {
            Some(StopReason::Cancelled) => "the server was stopped".to_owned(),
            _ => reason.to_string(),
        }
    }

    /// Records the end of one direction of data.
    pub fn record_end(&self, ended: &EndCause) {
        match ended {
            EndCause::Failed(reason) => self.record_failure(reason),
            // The code that cancelled the run records the reason.
            EndCause::Cancelled => return,
            EndCause::Deadline | EndCause::Count | EndCause::PeerClosed => {}
        }
        let directions = {
            let mut state = self.state();
            state.directions = state.directions.saturating_sub(1);
            state.directions
        };
        if directions == 0 {
            self.complete();
        }
    }

    /// Ends the test because it exceeds a limit.
    pub(crate) fn cancel_for(&self, reason: &Refusal) {
        self.fail(reason);
        self.cancel_stop.set(StopReason::Cancelled);
    }

    /// Returns the stop that ends the test early.
    pub fn cancel_stop(&self) -> &Stop {
        &self.cancel_stop
    }

    /// Returns the number of other tests that have overlapped with this one.
    pub fn overlapping_tests(&self) -> u32 {
        self.record().overlapping_tests
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the time since the last rate measurement that found new bytes.
    pub(super) fn silence(&self) -> Duration {
        self.state().counted_at.elapsed()
    }

    pub(super) fn max_silence(&self) -> Duration {
        if self.state().is_continuous {
            MAX_SILENCE
        } else {
            MAX_INITIAL_SILENCE
        }
    }

    fn end(&self, end: String, is_complete: bool) {
        let mut state = self.state();
        if state.ended.is_none() {
            state.ended = Some(Instant::now());
            state.record.is_complete = is_complete && state.record.end.is_none();
            state.record.end.get_or_insert(end);
            let mut tests = lock(&self.registry.0.tests);
            tests.remove(self);
            state.record.overlapping_tests = self.count_overlaps(&tests);
        }
    }

    /// Returns the number of tests that have overlapped with this one, if it is running.
    fn count_overlaps(&self, tests: &Tests) -> u32 {
        let later = tests.last_number - self.number;
        self.initial_overlaps
            .saturating_add(later.try_into().unwrap_or(u32::MAX))
    }

    pub(super) fn list_overlap(&self, other: &Self) {
        let name = {
            let other = &other.state().record;
            format!("{} {}", other.dialect, other.peer)
        };
        let names = &mut self.state().record.overlapped_with;
        if names.len() < MAX_LISTED_OVERLAPS {
            names.push(name);
        }
    }

    /// Updates the current rate, and adds the new bytes to the excess of the address.
    pub(super) fn update_rate(&self) {
        let mut state = self.state();
        let (bytes, now) = (state.bytes(), Instant::now());
        let added = bytes - std::mem::replace(&mut state.counted_bytes, bytes);
        if added > 0 {
            state.is_continuous = added < bytes;
            state.counted_at = now;
        }
        let (measured_at, bytes_then) = state.last_measurement;
        if now - measured_at >= MIN_RATE_INTERVAL {
            state.record.bits_per_second = bits_per_second(bytes - bytes_then, now - measured_at);
            state.last_measurement = (now, bytes);
        }
        drop(state);
        if !self.registry.0.has_limit_enforcer.load(Relaxed) {
            return;
        }
        let mut excess_bytes = lock(&self.registry.0.excess_bytes);
        if added > 0 {
            *excess_bytes.entry(self.address).or_default() += added;
        }
    }

    pub(super) fn record(&self) -> TestRecord {
        let state = self.state();
        let elapsed = state.ended.unwrap_or_else(Instant::now) - self.started;
        let is_average = state.ended.is_some() || state.last_measurement.0 == self.started;
        let mut record = state.record.clone();
        for counters in &state.counters {
            let counts = counters.counts();
            record.received_bytes += counts.received.0;
            record.sent_bytes += counts.sent.0;
        }
        if is_average {
            record.bits_per_second =
                bits_per_second(record.received_bytes + record.sent_bytes, elapsed);
        }
        record.seconds = elapsed.as_secs_f64();
        if state.ended.is_none() {
            record.overlapping_tests = self.count_overlaps(&lock(&self.registry.0.tests));
        }
        record
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for RunningTest {
    fn drop(&mut self) {
        self.fail(&"the connection to the client ended before the test was complete");
        self.update_rate();
        if let Some(log) = self.registry.0.write_record {
            log(&self.record());
        }
    }
}

impl State {
    pub(super) fn new(started: Instant, (dialect, peer): (&str, &Address), test: String) -> Self {
        Self {
            record: TestRecord {
                started: SystemTime::now(),
                peer: peer.to_string(),
                dialect: dialect.to_owned(),
                test,
                seconds: 0.0,
                received_bytes: 0,
                sent_bytes: 0,
                bits_per_second: 0.0,
                overlapping_tests: 0,
                overlapped_with: Vec::new(),
                is_complete: false,
                end: None,
            },
            counters: Vec::new(),
            message_counters: Vec::new(),
            directions: 1,
            ended: None,
            counted_bytes: 0,
            counted_at: started,
            is_continuous: false,
            last_measurement: (started, 0),
        }
    }

    /// Returns the bytes of data and of messages so far.
    fn bytes(&self) -> u64 {
        let all_counters = self.counters.iter().chain(&self.message_counters);
        let counts = all_counters.map(|counters| counters.counts());
        counts.map(|counts| counts.bytes()).sum()
    }
}

mod rfc3339 {
    use std::time::SystemTime;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_rfc3339_millis(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(from)?;
        humantime::parse_rfc3339(&text).map_err(D::Error::custom)
    }
}

fn bits_per_second(bytes: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}
