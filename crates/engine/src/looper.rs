//! CPU time by what idle cycles are left: a thread of the lowest priority on each CPU counts in a loop,
//! and what it does not count somebody else has used (netperf's method L).
//!
//! It sees work that no counter of the kernel is charged with, and costs what counters do not: no CPU
//! sleeps, a sibling thread of the same core is slowed, and the clock frequency is that of a busy
//! machine.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use model::Half;

/// One count is so many turns of the loop: a counter is written about once a microsecond.
const TURNS: u32 = 1000;

/// How long a calibration takes, and how many counts each of its windows has. A window is timed by the
/// thread's own CPU time, so that the machine need not be idle for it; interrupts and a hypervisor may
/// still take from that, and the best of all windows is what an idle CPU counts.
const CALIBRATION: Duration = Duration::from_secs(1);
const WINDOW: u64 = 1000;

/// The only looper of this host: two would take each other's idle cycles for work. The name is one of
/// the network namespace, the nearest thing to a host that needs no file.
const NAME: &[u8] = b"linerate-cpu-looper";

/// The threads that count, as long as anybody in this process holds them.
#[derive(Debug)]
pub struct Looper {
    counters: Vec<(u32, Arc<Counter>)>,
    // What goes first stands first: the threads, the name, and then the way is free for the next.
    _threads: Threads,
    _only_one: UnixDatagram,
    _ended: Ended,
}

/// They are stopped and joined when this is dropped.
#[derive(Debug, Default)]
struct Threads {
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

/// Its drop says that a looper and its name have gone.
#[derive(Debug)]
struct Ended;

/// On a cache line of its own, and the next one's.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter {
    counted: AtomicU64,
    calibrating: AtomicBool,
    /// Of all calibrations, in counts a second; the bits of an f64.
    best_rate: AtomicU64,
}

/// What the CPUs had counted at a time.
#[derive(Debug)]
pub(crate) struct Count {
    at: Instant,
    counts: Vec<(u32, u64)>,
}

/// One that nobody holds any more stands here until its name is free.
static CURRENT: Mutex<Option<Weak<Looper>>> = Mutex::new(None);
static ENDED: Condvar = Condvar::new();

/// How many this process has started.
static STARTED: AtomicU64 = AtomicU64::new(0);

impl Looper {
    /// Starts the threads, or joins those of another test, when a half's CPU time is to be measured so;
    /// the rate is the half's own, or else calibrated, in counts a second of one CPU.
    pub fn of(half: &mut Half) -> io::Result<Option<Arc<Self>>> {
        let Some(idle_loop) = half.idle_loop.as_mut().filter(|_| half.measure_cpu) else {
            return Ok(None);
        };
        let looper = Self::shared()?;
        if idle_loop.rate.is_none() {
            idle_loop.rate = Some(looper.calibrate()?);
        }
        Ok(Some(looper))
    }

    /// The threads of this process.
    pub fn shared() -> io::Result<Arc<Self>> {
        let mut current = lock_current();
        while let Some(last) = &*current {
            if let Some(looper) = last.upgrade() {
                return Ok(looper);
            }
            current = ENDED.wait(current).unwrap_or_else(PoisonError::into_inner);
        }
        let looper = Arc::new(Self::start()?);
        *current = Some(Arc::downgrade(&looper));
        Ok(looper)
    }

    pub(crate) fn current() -> Option<Arc<Self>> {
        lock_current().as_ref()?.upgrade()
    }

    /// Whether one counts on this host, in whatever process.
    pub(crate) fn counts_here() -> bool {
        let connect =
            || UnixDatagram::unbound()?.connect_addr(&SocketAddr::from_abstract_name(NAME)?);
        connect().is_ok()
    }

    /// How many this process has started: more than before, and one counted meanwhile, if only for a
    /// time.
    pub(crate) fn started() -> u64 {
        STARTED.load(Relaxed)
    }

    fn start() -> io::Result<Self> {
        let only_one =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(NAME)?).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        io::Error::new(error.kind(), "another looper counts on this host")
                    }
                    _ => error,
                }
            })?;
        STARTED.fetch_add(1, Relaxed);
        let mut counters = Vec::new();
        let mut threads = Threads::default();
        let (placed, answers) = channel();
        for cpu in sys::cpu::allowed()? {
            let placed = placed.clone();
            let counter = Arc::new(Counter::default());
            let (stop, count) = (Arc::clone(&threads.stop), Arc::clone(&counter));
            let thread = Builder::new()
                .name("looper".to_owned())
                .stack_size(64 * 1024)
                .spawn(move || {
                    sys::process::own_descriptors(&[]);
                    let place =
                        sys::cpu::bind_thread(cpu).and_then(|()| sys::cpu::lowest_priority());
                    let counts = place.is_ok();
                    let _ = placed.send(place);
                    if counts {
                        count.up(&stop);
                    }
                })?;
            threads.handles.push(thread);
            counters.push((cpu, counter));
        }
        // A CPU on which nobody counts would look as if it never idled.
        for _ in &threads.handles {
            answers.recv().map_err(io::Error::other)??;
        }
        Ok(Self {
            counters,
            _threads: threads,
            _only_one: only_one,
            _ended: Ended,
        })
    }

    /// Counts a second of one idle CPU, in the mean of all.
    pub fn calibrate(&self) -> io::Result<f64> {
        let say = |calibrating| {
            for (_, counter) in &self.counters {
                counter.calibrating.store(calibrating, Relaxed);
            }
        };
        say(true);
        sleep(CALIBRATION);
        say(false);
        let rates = self
            .counters
            .iter()
            .map(|(_, counter)| f64::from_bits(counter.best_rate.load(Relaxed)));
        // A CPU that others left nothing of in all that time has no rate.
        let rates: Vec<f64> = rates.filter(|rate| *rate > 0.0).collect();
        if rates.is_empty() {
            return Err(io::Error::other("the CPUs are too busy to be calibrated"));
        }
        Ok(rates.iter().sum::<f64>() / rates.len() as f64)
    }

    pub(crate) fn count(&self) -> Count {
        Count {
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

impl Drop for Ended {
    fn drop(&mut self) {
        *lock_current() = None;
        ENDED.notify_all();
    }
}

fn lock_current() -> MutexGuard<'static, Option<Weak<Looper>>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counter {
    fn up(&self, stop: &AtomicBool) {
        let mut best = 0.0_f64;
        while !stop.load(Relaxed) {
            if !self.calibrating.load(Relaxed) {
                self.once();
                continue;
            }
            let before = sys::clock::thread_cpu_ns();
            for _ in 0..WINDOW {
                self.once();
            }
            let cpu_ns = sys::clock::thread_cpu_ns().saturating_sub(before).max(1);
            best = best.max(WINDOW as f64 * 1e9 / cpu_ns as f64);
            self.best_rate.store(best.to_bits(), Relaxed);
        }
    }

    fn once(&self) {
        for turn in 0..TURNS {
            std::hint::black_box(turn);
        }
        // Nobody else writes.
        let counted = self.counted.load(Relaxed);
        self.counted.store(counted + 1, Relaxed);
    }
}

impl Count {
    /// Counts a second since `before`, CPU by CPU.
    fn rates(&self, before: &Self) -> impl Iterator<Item = (u32, f64)> {
        let seconds = (self.at - before.at).as_secs_f64();
        let pairs = self.counts.iter().zip(&before.counts);
        pairs.map(move |((cpu, now), (_, then))| (*cpu, (now - then) as f64 / seconds))
    }

    /// Each CPU's share of time, in percent, that is missing of what an idle one counts.
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
    fn what_is_not_counted_was_used() {
        let at = Instant::now();
        let count = |seconds, counts: [u64; 2]| Count {
            at: at + Duration::from_secs(seconds),
            counts: vec![(0, counts[0]), (3, counts[1])],
        };
        let missing = count(2, [1_500, 2_100]).missing_percent(&count(0, [500, 100]), 1000.0);
        assert_eq!(missing, [(0, 50.0), (3, 0.0)]);
        // A frequency above that of the calibration is no negative use.
        let fast = count(1, [2_000, 0]).missing_percent(&count(0, [0, 0]), 1000.0);
        assert_eq!(fast, [(0, 0.0), (3, 100.0)]);
    }

    /// Function, not precision: what keeps a CPU busy is missing from its counts and from no other's.
    #[test]
    fn it_counts_and_stops_and_there_is_one() {
        let Ok(looper) = Looper::shared() else {
            println!("SKIPPED: another looper counts on this host");
            return;
        };
        assert_eq!(looper.counters.len(), sys::cpu::allowed().unwrap().len());
        assert!(Arc::ptr_eq(&looper, &Looper::shared().unwrap()));
        assert!(Looper::counts_here() && Looper::started() > 0);
        let before = looper.count();
        while looper
            .count()
            .counts
            .iter()
            .zip(&before.counts)
            .any(|(now, then)| now == then)
        {
            sleep(Duration::from_millis(1));
        }
        let second = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(NAME).unwrap());
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(looper.calibrate().is_ok_and(|rate| rate > 0.0));
        // Who comes while the last one ends waits for it.
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
