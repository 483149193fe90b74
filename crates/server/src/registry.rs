//! The running tests of a server, and the record of each finished test.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use engine::{Counters, Holder, Reason, Stop};
use model::Ended;
use serde::{Deserialize, Serialize};
use sys::Address;

use crate::{Limits, Refusal};

/// The maximum number of overlapping tests listed in a record. All are counted.
const MOST_NAMED: usize = 8;

/// The minimum time over which a current rate is measured.
const RATE: Duration = Duration::from_secs(1);

/// The tolerance for the duration of a complete test. A client starts its clock before this end does; on a busy host
/// the difference is large.
const TOLERANCE: Duration = Duration::from_millis(300);

/// The tests that are running.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tests: Mutex<Vec<Weak<Running>>>,
    /// Bytes that each address has moved beyond its rate limit, including finished tests.
    beyond: Mutex<HashMap<Holder, u64>>,
    /// Whether a watcher reduces `beyond`. Without one, it would only grow.
    is_measured: AtomicBool,
    log: Option<Log>,
}

/// Writes the record of a finished test.
pub type Log = fn(&TestRecord);

/// A client's request.
#[derive(Clone, Debug, Default)]
pub struct Test {
    /// The test, in the terms of the dialect.
    pub name: String,
    /// The requested duration, if known.
    pub length: Option<Duration>,
}

/// A test, which runs until this value is dropped. Its record is then logged.
#[derive(Debug)]
pub struct Running {
    registry: Registry,
    holder: Holder,
    since: Instant,
    length: Option<Duration>,
    cut: Stop,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    record: TestRecord,
    counters: Vec<Arc<Counters>>,
    ended: Option<Instant>,
    /// The bytes already counted in [`Inner::beyond`].
    counted: u64,
    /// The time of the last rate measurement, and the bytes until then.
    last: (Instant, u64),
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
    /// The end of the test; `None` while it runs.
    pub end: Option<String>,
}

impl Registry {
    pub(crate) fn new(log: Option<Log>) -> Self {
        Self(Arc::new(Inner {
            log,
            ..Inner::default()
        }))
    }

    /// Registers a test of a client.
    pub(crate) fn enter(
        &self,
        (dialect, peer): (&str, &Address),
        test: Test,
        cut: &Stop,
        limits: &Limits,
    ) -> Result<Arc<Running>, Refusal> {
        let holder = Holder::of(peer);
        let mut tests = lock(&self.0.tests);
        tests.retain(|test| test.strong_count() > 0);
        let others = upgraded(&tests);
        let same = others
            .iter()
            .filter(|other| other.holder == holder && other.is_running());
        if let Some(most) = limits.tests.filter(|most| same.count() >= *most as usize) {
            drop(tests);
            return Err(Refusal::Tests(most));
        }
        let record = TestRecord {
            started: SystemTime::now(),
            peer: peer.to_string(),
            dialect: dialect.to_owned(),
            test: test.name,
            seconds: 0.0,
            received_bytes: 0,
            sent_bytes: 0,
            bits_per_second: 0.0,
            overlapping_tests: 0,
            overlapped_with: Vec::new(),
            is_complete: false,
            end: None,
        };
        let since = Instant::now();
        let running = Arc::new(Running {
            registry: self.clone(),
            holder,
            since,
            length: test.length,
            cut: cut.clone(),
            state: Mutex::new(State {
                record,
                counters: Vec::new(),
                ended: None,
                counted: 0,
                last: (since, 0),
            }),
        });
        tests.push(Arc::downgrade(&running));
        drop(tests);
        for other in others.iter().filter(|other| other.is_running()) {
            other.overlaps(&running);
            running.overlaps(other);
        }
        Ok(running)
    }

    /// Returns the records of the running tests.
    pub fn records(&self) -> Vec<TestRecord> {
        self.tests().iter().map(|test| test.record()).collect()
    }

    pub(crate) fn tests(&self) -> Vec<Arc<Running>> {
        let mut tests = upgraded(&lock(&self.0.tests));
        tests.retain(|test| test.is_running());
        tests
    }

    /// Measures all tests. `allowed` is the number of bytes that an address may move since the previous call. Returns
    /// the tests of addresses whose excess is more than `burst` bytes.
    pub(crate) fn measure(&self, allowed: u64, burst: u64) -> Vec<Arc<Running>> {
        self.0.is_measured.store(true, Relaxed);
        let mut tests = self.tests();
        for test in &tests {
            test.measure();
        }
        lock(&self.0.beyond).retain(|_, bytes| {
            *bytes = bytes.saturating_sub(allowed);
            *bytes > 0
        });
        tests.retain(|test| self.beyond(test.holder) > burst);
        tests
    }

    fn beyond(&self, holder: Holder) -> u64 {
        lock(&self.0.beyond).get(&holder).copied().unwrap_or(0)
    }
}

/// Returns the tests that still exist. Do not drop the result while holding a lock: dropping the last reference logs
/// the test.
fn upgraded(tests: &[Weak<Running>]) -> Vec<Arc<Running>> {
    tests.iter().filter_map(Weak::upgrade).collect()
}

impl Running {
    /// Adds counters to the test.
    pub fn count(&self, counters: &Arc<Counters>) {
        self.state().counters.push(Arc::clone(counters));
    }

    /// Renames the test, if the client's first request does not describe it.
    pub fn rename(&self, name: &str) {
        name.clone_into(&mut self.state().record.test);
    }

    /// Marks the test as completed by its client. A test shorter than its requested duration does not count as
    /// complete.
    pub fn complete(&self) {
        let elapsed = self.elapsed();
        if let Some(length) = self.length
            && elapsed.mul_f64(1.01) + TOLERANCE < length
        {
            let [elapsed, length] = [elapsed, length].map(|time| time.as_secs_f64());
            self.fail(&format_args!(
                "the client ended it after {elapsed:.1} of {length:.1} s"
            ));
        }
        self.end("complete".to_owned(), true);
    }

    /// Ends the test early. The first reason counts; a stop of the server is a reason too.
    pub fn fail(&self, why: &dyn Display) {
        let is_cut = self.cut.reason() == Some(Reason::Cancelled);
        let why = if is_cut {
            &"the server was stopped"
        } else {
            why
        };
        self.end(why.to_string(), false);
    }

    /// Records the end of an engine run.
    pub fn ended(&self, ended: &Ended) {
        match ended {
            Ended::Failed(why) => self.fail(why),
            // The code that cancelled the run records the reason.
            Ended::Cancelled => {}
            Ended::Deadline | Ended::Count | Ended::PeerClosed => self.complete(),
        }
    }

    /// Ends the test because it exceeds a limit.
    pub(crate) fn cut_for(&self, why: &Refusal) {
        self.fail(why);
        self.cut.pull(Reason::Cancelled);
    }

    /// Ends the test early.
    pub fn cut(&self) -> &Stop {
        &self.cut
    }

    /// Returns the number of other tests that have overlapped with this one.
    pub fn others(&self) -> u32 {
        self.state().record.overlapping_tests
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    fn is_running(&self) -> bool {
        self.state().ended.is_none()
    }

    fn end(&self, end: String, is_complete: bool) {
        let mut state = self.state();
        if state.ended.is_none() {
            state.ended = Some(Instant::now());
            (state.record.end, state.record.is_complete) = (Some(end), is_complete);
        }
    }

    fn overlaps(&self, other: &Self) {
        let named = {
            let other = &other.state().record;
            format!("{} {}", other.dialect, other.peer)
        };
        let record = &mut self.state().record;
        record.overlapping_tests += 1;
        if record.overlapped_with.len() < MOST_NAMED {
            record.overlapped_with.push(named);
        }
    }

    /// Measures the current rate, and adds the bytes to those of the address.
    fn measure(&self) {
        let mut state = self.state();
        let (bytes, now) = (state.bytes(), Instant::now());
        let new = bytes - std::mem::replace(&mut state.counted, bytes);
        let (at, before) = state.last;
        if now - at >= RATE {
            state.record.bits_per_second = rate(bytes - before, now - at);
            state.last = (now, bytes);
        }
        drop(state);
        if !self.registry.0.is_measured.load(Relaxed) {
            return;
        }
        let mut beyond = lock(&self.registry.0.beyond);
        let before = beyond.get(&self.holder).copied().unwrap_or(0);
        beyond.insert(self.holder, before + new);
    }

    fn record(&self) -> TestRecord {
        let state = self.state();
        let elapsed = state.ended.unwrap_or_else(Instant::now) - self.since;
        let is_whole = state.ended.is_some() || state.last.0 == self.since;
        let mut record = state.record.clone();
        for counters in &state.counters {
            let counts = counters.counts();
            record.received_bytes += counts.received.0;
            record.sent_bytes += counts.sent.0;
        }
        if is_whole {
            record.bits_per_second = rate(record.received_bytes + record.sent_bytes, elapsed);
        }
        record.seconds = elapsed.as_secs_f64();
        record
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.fail(&"the client left");
        self.measure();
        if let Some(log) = self.registry.0.log {
            log(&self.record());
        }
    }
}

impl State {
    fn bytes(&self) -> u64 {
        let counts = self.counters.iter().map(|counters| counters.counts());
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

fn rate(bytes: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Sums and lists are complete even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_know_those_that_overlap_and_what_their_address_moved() {
        let registry = Registry::default();
        let limits = Limits {
            tests: Some(2),
            ..Limits::default()
        };
        let enter = |dialect, from: &str| {
            let peer = Address::Inet(from.parse().unwrap());
            let test = registry.enter((dialect, &peer), Test::default(), &Stop::new(), &limits)?;
            let counters = Arc::new(Counters::default());
            counters.count_received(100, 1);
            test.count(&counters);
            Ok::<_, Refusal>(test)
        };
        registry.measure(0, 0);
        let first = enter("netperf", "127.0.0.1:1").unwrap();
        let second = enter("uperf", "127.0.0.1:2").unwrap();
        assert_eq!(
            enter("uperf", "127.0.0.1:3").unwrap_err(),
            Refusal::Tests(2)
        );
        let third = enter("iperf3", "127.0.0.2:3").unwrap();
        assert_eq!(registry.records().len(), 3);
        assert_eq!(
            [&first, &second, &third].map(|test| test.others()),
            [2, 2, 2]
        );
        second.complete();
        let record = second.record();
        assert_eq!(
            record.overlapped_with,
            ["netperf 127.0.0.1:1", "iperf3 127.0.0.2:3"]
        );
        assert_eq!(
            (record.end.as_deref(), record.received_bytes),
            (Some("complete"), 100)
        );
        drop(second);
        let over = |burst| registry.measure(0, burst).len();
        assert_eq!([over(99), over(100), over(200)], [2, 1, 0]);
        third.cut_for(&Refusal::Fast(8));
        assert_eq!(third.record().end.unwrap(), "limit of 8 bit/s per address");
        assert!(third.cut().is_set() && !first.cut().is_set());
        drop((first, third));
        assert_eq!(enter("iperf", "127.0.0.1:1").unwrap().others(), 0);
    }

    #[test]
    fn a_server_that_measures_no_rates_keeps_no_addresses() {
        let registry = Registry::default();
        let peer = Address::Inet("127.0.0.1:1".parse().unwrap());
        let peer = ("udpmon", &peer);
        let test = registry.enter(peer, Test::default(), &Stop::new(), &Limits::default());
        let counters = Arc::new(Counters::default());
        counters.count_received(100, 1);
        test.unwrap().count(&counters);
        assert!(lock(&registry.0.beyond).is_empty());
    }
}
