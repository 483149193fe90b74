//! Measures CPU time by idle cycles (netperf's method L). A thread of the lowest priority counts in
//! a loop on each CPU. Other work has used the time of the missing counts.
//!
//! The method also measures work that the kernel's counters do not charge. It has costs that those
//! counters do not have: no CPU sleeps, a sibling thread of the same core slows down, and the clock
//! frequency is that of a busy machine.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use model::EndpointPlan;

/// Turns of the loop per count. A counter is written about once per microsecond.
const TURNS_PER_COUNT: u32 = 1000;

/// Duration of a calibration.
const CALIBRATION_TIME: Duration = Duration::from_secs(1);

/// Counts per window of a calibration. A window is timed by the thread's own CPU time, so the
/// machine need not be idle. Interrupts and a hypervisor may take part of that time. The best
/// window therefore gives the rate of an idle CPU.
const COUNTS_PER_WINDOW: u64 = 1000;

/// Name of the socket that only one looper of a host can bind. Two loopers would count each other's
/// cycles as work. The name belongs to the network namespace, the closest match to a host that
/// needs no file.
const SOCKET_NAME: &[u8] = b"linerate-cpu-looper";

/// The counting threads. They run while this process holds a reference.
#[derive(Debug)]
pub struct Looper {
    counters: Vec<(u32, Arc<IdleCounter>)>,
    // Fields drop in this order: the threads end, the name becomes free, the next looper may start.
    _threads: Threads,
    _name_socket: UnixDatagram,
    _end_notice: EndNotice,
}

/// The threads, which are stopped and joined on drop.
#[derive(Debug, Default)]
struct Threads {
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

/// Reports on drop that a looper has ended and its name is free.
#[derive(Debug)]
struct EndNotice;

/// Counter of one CPU, on its own pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct IdleCounter {
    counted: AtomicU64,
    calibrating: AtomicBool,
    /// Best rate of all calibrations, in counts per second, as the bits of an f64.
    best_rate: AtomicU64,
}

/// Counts of all CPUs at one time.
#[derive(Debug)]
pub(crate) struct IdleCounts {
    at: Instant,
    counts: Vec<(u32, u64)>,
}

/// The looper of this process. A dropped looper stays here until its name is free.
static CURRENT: Mutex<Option<Weak<Looper>>> = Mutex::new(None);
static NAME_FREED: Condvar = Condvar::new();

/// Number of loopers that this process has started.
static STARTED: AtomicU64 = AtomicU64::new(0);

impl Looper {
    /// Starts a looper, or shares that of another test, if the endpoint measures CPU time with it.
    /// If the endpoint has no idle rate, a calibration sets it, in counts per second per CPU.
    pub fn for_endpoint(endpoint: &mut EndpointPlan) -> io::Result<Option<Arc<Self>>> {
        let Some(idle_loop) = endpoint.idle_loop.as_mut().filter(|_| endpoint.measure_cpu) else {
            return Ok(None);
        };
        let looper = Self::shared()?;
        if idle_loop.rate.is_none() {
            idle_loop.rate = Some(looper.measure_idle_rate()?);
        }
        Ok(Some(looper))
    }

    /// Returns the looper of this process. Starts one if none runs.
    pub fn shared() -> io::Result<Arc<Self>> {
        let mut current = lock_current();
        while let Some(current_looper) = &*current {
            if let Some(looper) = current_looper.upgrade() {
                return Ok(looper);
            }
            current = NAME_FREED
                .wait(current)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let looper = Arc::new(Self::start()?);
        *current = Some(Arc::downgrade(&looper));
        Ok(looper)
    }

    pub(crate) fn current() -> Option<Arc<Self>> {
        lock_current().as_ref()?.upgrade()
    }

    /// Returns whether a looper runs on this host, in any process.
    pub(crate) fn is_running_on_host() -> bool {
        let connect =
            || UnixDatagram::unbound()?.connect_addr(&SocketAddr::from_abstract_name(SOCKET_NAME)?);
        connect().is_ok()
    }

    /// Returns the number of loopers that this process has started. If it has grown, a looper has
    /// run meanwhile.
    pub(crate) fn started_count() -> u64 {
        STARTED.load(Relaxed)
    }

    fn start() -> io::Result<Self> {
        let name_socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(SOCKET_NAME)?)
            .map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse => {
                    io::Error::new(error.kind(), "another looper runs on this host")
                }
                _ => error,
            })?;
        STARTED.fetch_add(1, Relaxed);
        let mut counters = Vec::new();
        let mut threads = Threads::default();
        let (ready, results) = channel();
        for cpu in sys::cpu::allowed_cpus()? {
            let ready = ready.clone();
            let counter = Arc::new(IdleCounter::default());
            let (stop, thread_counter) = (Arc::clone(&threads.stop), Arc::clone(&counter));
            let thread = Builder::new()
                .name("looper".to_owned())
                .stack_size(64 * 1024)
                .spawn(move || {
                    sys::process::use_private_descriptors(&[]);
                    let bound =
                        sys::cpu::bind_thread(cpu).and_then(|()| sys::cpu::set_lowest_priority());
                    let is_bound = bound.is_ok();
                    let _ = ready.send(bound);
                    if is_bound {
                        thread_counter.run(&stop);
                    }
                })?;
            threads.handles.push(thread);
            counters.push((cpu, counter));
        }
        // A CPU without a counting thread would appear to be always busy.
        for _ in &threads.handles {
            results.recv().map_err(io::Error::other)??;
        }
        Ok(Self {
            counters,
            _threads: threads,
            _name_socket: name_socket,
            _end_notice: EndNotice,
        })
    }

    /// Measures the counts per second of one idle CPU, averaged over all CPUs.
    pub fn measure_idle_rate(&self) -> io::Result<f64> {
        let set_calibrating = |calibrating| {
            for (_, counter) in &self.counters {
                counter.calibrating.store(calibrating, Relaxed);
            }
        };
        set_calibrating(true);
        sleep(CALIBRATION_TIME);
        set_calibrating(false);
        let rates = self
            .counters
            .iter()
            .map(|(_, counter)| f64::from_bits(counter.best_rate.load(Relaxed)));
        // A CPU that was busy all that time has no rate.
        let rates: Vec<f64> = rates.filter(|rate| *rate > 0.0).collect();
        if rates.is_empty() {
            return Err(io::Error::other("the CPUs are too busy to be calibrated"));
        }
        Ok(rates.iter().sum::<f64>() / rates.len() as f64)
    }

    pub(crate) fn counts(&self) -> IdleCounts {
        IdleCounts {
            at: Instant::now(),
            counts: self
                .counters
                .iter()
                .map(|(cpu, counter)| (*cpu, counter.counted.load(Relaxed)))
                .collect(),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.handles.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        *lock_current() = None;
        NAME_FREED.notify_all();
    }
}

fn lock_current() -> MutexGuard<'static, Option<Weak<Looper>>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IdleCounter {
    fn run(&self, stop: &AtomicBool) {
        let mut best = 0.0_f64;
        while !stop.load(Relaxed) {
            if !self.calibrating.load(Relaxed) {
                self.count_once();
                continue;
            }
            let before = sys::clock::thread_cpu_ns();
            for _ in 0..COUNTS_PER_WINDOW {
                self.count_once();
            }
            let cpu_ns = sys::clock::thread_cpu_ns().saturating_sub(before).max(1);
            best = best.max(COUNTS_PER_WINDOW as f64 * 1e9 / cpu_ns as f64);
            self.best_rate.store(best.to_bits(), Relaxed);
        }
    }

    fn count_once(&self) {
        for turn in 0..TURNS_PER_COUNT {
            std::hint::black_box(turn);
        }
        // This thread is the only writer.
        let counted = self.counted.load(Relaxed);
        self.counted.store(counted + 1, Relaxed);
    }
}

impl IdleCounts {
    /// Returns each CPU's counts per second since `before`.
    fn rates(&self, before: &Self) -> impl Iterator<Item = (u32, f64)> {
        let seconds = (self.at - before.at).as_secs_f64();
        let pairs = self.counts.iter().zip(&before.counts);
        pairs.map(move |((cpu, last), (_, first))| (*cpu, (last - first) as f64 / seconds))
    }

    /// Returns the percentage of each CPU's time that is missing, compared with the counts of an
    /// idle CPU.
    pub(crate) fn missing_percent(&self, before: &Self, idle_rate: f64) -> Vec<(u32, f64)> {
        self.rates(before)
            .map(|(cpu, rate)| (cpu, (100.0 - 100.0 * rate / idle_rate).clamp(0.0, 100.0)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_counts_are_busy_time() {
        let at = Instant::now();
        let counts_at = |seconds, counts: [u64; 2]| IdleCounts {
            at: at + Duration::from_secs(seconds),
            counts: vec![(0, counts[0]), (3, counts[1])],
        };
        let before = counts_at(0, [500, 100]);
        let missing = counts_at(2, [1_500, 2_100]).missing_percent(&before, 1000.0);
        assert_eq!(missing, [(0, 50.0), (3, 0.0)]);
        // A higher clock frequency than in the calibration does not make the use negative.
        let fast = counts_at(1, [2_000, 0]).missing_percent(&counts_at(0, [0, 0]), 1000.0);
        assert_eq!(fast, [(0, 0.0), (3, 100.0)]);
    }

    /// Checks that a looper counts, but not how precisely.
    #[test]
    fn a_looper_counts_and_stops_and_a_host_has_only_one() {
        let Ok(looper) = Looper::shared() else {
            println!("SKIPPED: another looper runs on this host");
            return;
        };
        assert_eq!(
            looper.counters.len(),
            sys::cpu::allowed_cpus().unwrap().len()
        );
        assert!(Arc::ptr_eq(&looper, &Looper::shared().unwrap()));
        assert!(Looper::is_running_on_host() && Looper::started_count() > 0);
        let before = looper.counts();
        while looper
            .counts()
            .counts
            .iter()
            .zip(&before.counts)
            .any(|(last, first)| last == first)
        {
            sleep(Duration::from_millis(1));
        }
        let name = SocketAddr::from_abstract_name(SOCKET_NAME).unwrap();
        let second_bind = UnixDatagram::bind_addr(&name);
        assert_eq!(second_bind.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // While other work uses the CPUs, a calibration has no result. The counting threads get a
        // small part of the time, so a later one has.
        let calibrated = (0..60).find_map(|_| looper.measure_idle_rate().ok());
        assert!(calibrated.is_some_and(|rate| rate > 0.0));
        // A new looper waits until the last one has ended.
        let mut looper = looper;
        for _ in 0..20 {
            let ending = std::thread::spawn(move || drop(looper));
            looper = Looper::shared().unwrap();
            ending.join().unwrap();
        }
        drop(looper);
        assert!(Looper::current().is_none());
    }
}
