//! The running tests of a server.

mod running_test;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use engine::{BudgetHolder, ResourceBudget, Stop};
use sys::Address;

use self::running_test::State;
pub use self::running_test::{ClientTest, RunningTest, TestRecord};
use crate::{AddressLimits, Refusal};

/// The maximum number of overlapping tests listed in a record. All are counted.
const MAX_LISTED_OVERLAPS: usize = 8;

/// The allowed burst of an address, as a duration at its maximum rate.
const BURST_TIME: Duration = Duration::from_secs(1);

/// The tests that are running.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tests: Mutex<Tests>,
    /// Bytes that each address has moved beyond its rate limit, including those of finished tests.
    excess_bytes: Mutex<HashMap<BudgetHolder, u64>>,
    /// Whether the limit enforcer runs and reduces `excess_bytes`. Without it, none are added.
    has_limit_enforcer: AtomicBool,
    write_record: Option<RecordWriter>,
}

/// The tests that have not ended. Each operation takes a short time, because every client waits for
/// the lock.
#[derive(Debug, Default)]
struct Tests {
    /// The tests with their numbers, in the order of their starts.
    running: Vec<(u64, Weak<RunningTest>)>,
    /// The number of tests of each address.
    per_address: HashMap<BudgetHolder, u32>,
    /// The number of the last started test.
    last_number: u64,
}

/// Tests that overlap with a new one.
struct Overlaps {
    /// Those whose names the new one lists.
    listed: Vec<Arc<RunningTest>>,
    /// Those that list the name of the new one.
    listing: Vec<Arc<RunningTest>>,
}

/// Writes the record of a finished test.
pub type RecordWriter = fn(&TestRecord);

impl Registry {
    pub(crate) fn new(write_record: Option<RecordWriter>) -> Self {
        Self(Arc::new(Inner {
            write_record,
            ..Inner::default()
        }))
    }

    /// Registers a test of a client, and charges its resources to `charged_to`.
    pub(crate) fn register(
        &self,
        (dialect, peer): (&str, &Address),
        test: ClientTest,
        cancel_stop: &Stop,
        limits: &AddressLimits,
        charged_to: BudgetHolder,
    ) -> Result<Arc<RunningTest>, Refusal> {
        let holder = BudgetHolder::for_address(peer);
        self.check_rate(holder, limits)?;
        let mut tests = lock(&self.0.tests);
        let running = tests.per_address.get(&holder).copied().unwrap_or(0);
        if let Some(max_tests) = limits.max_tests.filter(|max| running >= *max) {
            return Err(Refusal::TooManyTests(max_tests));
        }
        let resources = ResourceBudget::process()
            .reserve(charged_to, test.resources)
            .map_err(|exceeded| Refusal::for_resources(charged_to, exceeded))?;
        let started = Instant::now();
        let running = Arc::new(RunningTest {
            registry: self.clone(),
            number: tests.last_number + 1,
            initial_overlaps: tests.running.len().try_into().unwrap_or(u32::MAX),
            address: holder,
            started,
            requested_duration: test.duration,
            is_unproven: test.is_unproven,
            cancel_stop: cancel_stop.clone(),
            state: Mutex::new(State::new(started, (dialect, peer), test.name)),
            _resources: resources,
        });
        let Overlaps { listed, listing } = tests.add(&running);
        drop(tests);
        for other in &listed {
            running.list_overlap(other);
        }
        for other in &listing {
            other.list_overlap(&running);
        }
        Ok(running)
    }

    /// Returns an error if the address has used up its rate.
    fn check_rate(&self, holder: BudgetHolder, limits: &AddressLimits) -> Result<(), Refusal> {
        let Some(rate) = limits.max_bits_per_second else {
            return Ok(());
        };
        for test in self.tests().iter().filter(|test| test.address == holder) {
            test.update_rate();
        }
        let burst_bytes = limits.allowed_bytes(BURST_TIME);
        match self.excess_bytes(holder).checked_sub(burst_bytes) {
            Some(bytes) => Err(Refusal::RateUsedUp {
                rate,
                seconds: (bytes * 8).div_ceil(rate.max(1)).max(1),
            }),
            None => Ok(()),
        }
    }

    /// Returns the records of the running tests.
    pub fn records(&self) -> Vec<TestRecord> {
        self.tests().iter().map(|test| test.record()).collect()
    }

    /// Returns the running tests.
    pub(crate) fn tests(&self) -> Vec<Arc<RunningTest>> {
        let tests = lock(&self.0.tests);
        let running = tests.running.iter().map(|(_, test)| test);
        // The caller drops them without the lock: the end of a test takes it.
        running.filter_map(Weak::upgrade).collect()
    }

    /// Counts the bytes of each address from now on. The caller then calls
    /// [`Registry::update_rates`] regularly.
    pub(crate) fn enable_limits(&self) {
        self.0.has_limit_enforcer.store(true, Relaxed);
    }

    /// Updates the rates of all tests. `elapsed` is the time since the previous call. Returns the
    /// tests of addresses that exceed their rate limit.
    pub(crate) fn update_rates(
        &self,
        limits: &AddressLimits,
        elapsed: Duration,
    ) -> Vec<Arc<RunningTest>> {
        let allowed_bytes = limits.allowed_bytes(elapsed);
        let burst_bytes = limits.allowed_bytes(BURST_TIME);
        let mut tests = self.tests();
        for test in &tests {
            test.update_rate();
        }
        lock(&self.0.excess_bytes).retain(|_, bytes| {
            *bytes = bytes.saturating_sub(allowed_bytes);
            *bytes > 0
        });
        tests.retain(|test| self.excess_bytes(test.address) > burst_bytes);
        tests
    }

    /// Returns the test of an unproven client that has moved no data for longest, and at least for
    /// the time that [`RunningTest::max_silence`] returns. `is_of_use` selects addresses.
    pub(crate) fn most_silent_unproven(
        &self,
        is_of_use: impl Fn(BudgetHolder) -> bool,
    ) -> Option<Arc<RunningTest>> {
        let mut tests = self.tests();
        tests.retain(|test| {
            test.is_unproven && is_of_use(test.address) && {
                test.update_rate();
                test.silence() >= test.max_silence()
            }
        });
        tests.into_iter().max_by_key(|test| test.silence())
    }

    fn excess_bytes(&self, holder: BudgetHolder) -> u64 {
        lock(&self.0.excess_bytes)
            .get(&holder)
            .copied()
            .unwrap_or(0)
    }
}

impl Tests {
    /// Adds a test. Returns the earlier tests that list it, or that it lists.
    fn add(&mut self, test: &Arc<RunningTest>) -> Overlaps {
        let upgrade = |tests: &[(u64, Weak<RunningTest>)]| {
            let tests = tests.iter().take(MAX_LISTED_OVERLAPS);
            tests.filter_map(|(_, test)| test.upgrade()).collect()
        };
        // The lists of earlier tests are full: each later start has added a name.
        let recent = self.running.len().saturating_sub(MAX_LISTED_OVERLAPS);
        let overlaps = Overlaps {
            listed: upgrade(&self.running),
            listing: upgrade(&self.running[recent..]),
        };
        self.running.push((test.number, Arc::downgrade(test)));
        *self.per_address.entry(test.address).or_default() += 1;
        self.last_number = test.number;
        overlaps
    }

    /// Removes a test that has ended.
    fn remove(&mut self, test: &RunningTest) {
        let is_earlier = |(number, _): &(u64, _)| *number < test.number;
        let index = self.running.partition_point(is_earlier);
        self.running.remove(index);
        if let Entry::Occupied(mut count) = self.per_address.entry(test.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Sums and lists are complete even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use engine::Counters;
    use model::EndCause;

    use super::running_test::MAX_INITIAL_SILENCE;
    use super::*;

    #[test]
    fn tests_record_overlaps_and_the_bytes_of_their_address() {
        let registry = Registry::default();
        let limits = AddressLimits {
            max_tests: Some(2),
            ..AddressLimits::default()
        };
        let with_burst = |bytes: u64| AddressLimits {
            max_bits_per_second: Some(bytes * 8),
            ..AddressLimits::default()
        };
        let start_test = |dialect, from: &str| {
            let peer = Address::Inet(from.parse().unwrap());
            let test = registry.register(
                (dialect, &peer),
                ClientTest::default(),
                &Stop::new(),
                &limits,
                BudgetHolder::Local,
            )?;
            let counters = Arc::new(Counters::default());
            counters.count_received(100, 1);
            test.add_counters(&counters);
            Ok::<_, Refusal>(test)
        };
        registry.enable_limits();
        let first = start_test("netperf", "127.0.0.1:1").unwrap();
        let second = start_test("uperf", "127.0.0.1:2").unwrap();
        assert_eq!(
            start_test("uperf", "127.0.0.1:3").unwrap_err(),
            Refusal::TooManyTests(2)
        );
        let third = start_test("iperf3", "127.0.0.2:3").unwrap();
        assert_eq!(registry.records().len(), 3);
        assert_eq!(
            [&first, &second, &third].map(|test| test.overlapping_tests()),
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
        let count_above = |burst| {
            registry
                .update_rates(&with_burst(burst), Duration::ZERO)
                .len()
        };
        assert_eq!(
            [count_above(99), count_above(100), count_above(200)],
            [2, 1, 0]
        );
        third.cancel_for(&Refusal::TooFast(8));
        assert_eq!(third.record().end.unwrap(), "limit of 8 bit/s per address");
        assert!(third.cancel_stop().is_set() && !first.cancel_stop().is_set());
        drop((first, third));
        assert!(lock(&registry.0.tests).per_address.is_empty());
        assert_eq!(
            start_test("iperf", "127.0.0.1:1")
                .unwrap()
                .overlapping_tests(),
            0
        );
    }

    fn start_test(registry: &Registry, port: u16) -> Arc<RunningTest> {
        let peer = Address::Inet(([127, 0, 0, 1], port).into());
        let (stop, limits) = (Stop::new(), AddressLimits::default());
        let test = ClientTest::default();
        let started =
            registry.register(("iperf", &peer), test, &stop, &limits, BudgetHolder::Local);
        started.unwrap()
    }

    #[test]
    fn a_test_lists_the_first_overlapping_tests() {
        let registry = Registry::default();
        let mut tests: Vec<_> = (1..=20).map(|port| start_test(&registry, port)).collect();
        drop(tests.remove(4));
        tests.push(start_test(&registry, 21));
        for (index, others, listed) in [
            (0, 20, vec![2, 3, 4, 5, 6, 7, 8, 9]),
            (9, 20, vec![1, 2, 3, 4, 5, 6, 7, 8]),
            (18, 20, vec![1, 2, 3, 4, 5, 6, 7, 8]),
            (19, 19, vec![1, 2, 3, 4, 6, 7, 8, 9]),
        ] {
            let record = tests[index].record();
            let names: Vec<_> = (listed.iter())
                .map(|port| format!("iperf 127.0.0.1:{port}"))
                .collect();
            assert_eq!(record.overlapped_with, names, "{index}");
            assert_eq!(record.overlapping_tests, others, "{index}");
        }
    }

    #[test]
    fn limits_apply_to_messages() {
        let registry = Registry::default();
        registry.enable_limits();
        let test = start_test(&registry, 1);
        let [data, messages] = [(); 2].map(|()| Arc::new(Counters::default()));
        test.add_counters(&data);
        test.add_message_counters(&messages);
        data.count_sent(100, 1);
        messages.count_sent(1000, 1);
        let record = test.record();
        assert_eq!((record.sent_bytes, record.received_bytes), (100, 0));
        test.update_rate();
        assert_eq!(registry.excess_bytes(test.address), 1100);
    }

    #[test]
    fn a_test_ends_with_its_last_direction() {
        let registry = Registry::default();
        let end = |test: &RunningTest| test.record().end;
        let complete = Some("complete".to_owned());
        let test = start_test(&registry, 1);
        test.add_direction();
        test.record_end(&EndCause::PeerClosed);
        assert_eq!((end(&test), registry.records().len()), (None, 1));
        test.record_end(&EndCause::Count);
        assert_eq!((end(&test), registry.records().len()), (complete, 0));

        let test = start_test(&registry, 1);
        test.add_direction();
        test.record_end(&EndCause::Failed("reset".to_owned()));
        test.record_end(&EndCause::Deadline);
        let record = test.record();
        assert_eq!(record.end.as_deref(), Some("reset"));
        assert!(!record.is_complete && registry.records().is_empty());
    }

    #[test]
    fn an_address_in_excess_gets_no_new_test() {
        let registry = Registry::default();
        let limits = AddressLimits {
            max_bits_per_second: Some(8000),
            ..AddressLimits::default()
        };
        let run_test = |from: &str, bytes| {
            let peer = Address::Inet(from.parse().unwrap());
            let client = ("iperf3", &peer);
            let test = registry.register(
                client,
                ClientTest::default(),
                &Stop::new(),
                &limits,
                BudgetHolder::Local,
            )?;
            let counters = Arc::new(Counters::default());
            counters.count_received(bytes, 1);
            test.add_counters(&counters);
            test.complete();
            Ok::<_, Refusal>(())
        };
        registry.enable_limits();
        // The burst is 1,000 bytes. Each second pays for another 1,000.
        assert_eq!(run_test("127.0.0.1:1", 900), Ok(()));
        assert_eq!(run_test("127.0.0.1:2", 2000), Ok(()));
        for seconds in [0, 1] {
            registry.update_rates(&limits, Duration::from_secs(seconds));
            let refusal = run_test("127.0.0.1:3", 1).unwrap_err().to_string();
            let wait = format!("try again in {} s", 2 - seconds);
            assert!(refusal.ends_with(&wait), "{refusal}");
        }
        assert_eq!(run_test("127.0.0.2:1", 1), Ok(()));
        registry.update_rates(&limits, Duration::from_secs(1));
        assert_eq!(run_test("127.0.0.1:4", 1), Ok(()));
    }

    #[test]
    fn the_most_silent_unproven_test_yields() {
        let registry = Registry::default();
        let start_test = |from: &str, is_unproven, seconds| {
            let peer = Address::Inet(from.parse().unwrap());
            let test = ClientTest {
                is_unproven,
                ..ClientTest::default()
            };
            let test = registry
                .register(
                    ("iperf", &peer),
                    test,
                    &Stop::new(),
                    &AddressLimits::default(),
                    BudgetHolder::Local,
                )
                .unwrap();
            test.state().counted_at -= Duration::from_secs(seconds);
            test
        };
        let [_active, silent, _proven, most_silent] = [
            start_test("10.0.0.1:1", true, 0),
            start_test("10.0.0.2:1", true, 5),
            start_test("10.0.0.3:1", false, 9),
            start_test("10.0.1.1:1", true, 8),
        ];
        let holder = |text: &str| BudgetHolder::for_address(&Address::Inet(text.parse().unwrap()));
        let find = |network: Option<BudgetHolder>| {
            registry.most_silent_unproven(|address| {
                network.is_none_or(|network| address.network() == network)
            })
        };
        let is_same = |found: Option<Arc<_>>, test| found.is_some_and(|it| Arc::ptr_eq(&it, test));
        assert!(is_same(find(None), &most_silent));
        let network = |text| Some(holder(text).network());
        assert!(is_same(find(network("10.0.0.99:1")), &silent));
        assert!(find(network("10.0.2.1:1")).is_none());
        let counters = Arc::new(Counters::default());
        counters.count_received(100, 1);
        most_silent.add_counters(&counters);
        assert!(is_same(find(None), &silent));
        // All its data came before the first check, until more arrive.
        most_silent.state().counted_at -= 2 * MAX_INITIAL_SILENCE;
        silent.cancel_for(&Refusal::Silent);
        assert!(is_same(find(None), &most_silent));
        // A test without the requested data continues, so it still yields.
        most_silent.record_failure(&"no data for an unproven address");
        assert!(is_same(find(None), &most_silent));
        counters.count_received(100, 1);
        most_silent.update_rate();
        most_silent.state().counted_at -= 2 * MAX_INITIAL_SILENCE;
        assert!(find(None).is_none());
        most_silent.complete();
        let record = most_silent.record();
        assert_eq!(
            record.end.as_deref(),
            Some("no data for an unproven address")
        );
        assert!(!record.is_complete);
    }

    #[test]
    fn a_server_without_a_watcher_keeps_no_addresses() {
        let registry = Registry::default();
        let peer = Address::Inet("127.0.0.1:1".parse().unwrap());
        let client = ("udpmon", &peer);
        let test = registry.register(
            client,
            ClientTest::default(),
            &Stop::new(),
            &AddressLimits::default(),
            BudgetHolder::Local,
        );
        let counters = Arc::new(Counters::default());
        counters.count_received(100, 1);
        test.unwrap().add_counters(&counters);
        assert!(lock(&registry.0.excess_bytes).is_empty());
    }
}
