//! CPU time of the host and of this process, CPU affinity, and scheduling priority.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::time::Duration;

thread_local! {
    static IS_THREAD_BOUND: Cell<bool> = const { Cell::new(false) };
}

/// Ticks of one CPU since boot, by their use: a `cpu` line of /proc/stat, proc(5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are proc(5)'s")]
pub struct CpuTicks {
    pub user: u64,
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    pub steal: u64,
}

impl CpuTicks {
    /// Returns the sum of all ticks. Guest time is part of user time and is not added again.
    pub fn total(&self) -> u64 {
        self.user
            + self.nice
            + self.system
            + self.idle
            + self.iowait
            + self.irq
            + self.softirq
            + self.steal
    }

    /// Returns the ticks since `earlier`. A counter that stepped back, as idle and iowait sometimes
    /// do, counts as 0.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            nice: self.nice.saturating_sub(earlier.nice),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            iowait: self.iowait.saturating_sub(earlier.iowait),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }
}

/// Several ticks of /proc/stat. If a CPU has none in this time, the file is frozen.
const FROZEN_AFTER: Duration = Duration::from_millis(100);

/// Returns the ticks of each CPU between two readings. Leaves out a CPU that went online or offline in
/// between, because it lacks one of the readings, and a CPU whose ticks are frozen.
pub fn elapsed_ticks(
    start_ticks: &[(u32, CpuTicks)],
    end_ticks: &[(u32, CpuTicks)],
    duration: Duration,
) -> Vec<(u32, CpuTicks)> {
    let elapsed = end_ticks.iter().filter_map(|(cpu, now)| {
        let (_, before) = start_ticks.iter().find(|(start_cpu, _)| start_cpu == cpu)?;
        let elapsed = now.since(before);
        (elapsed.total() > 0 || duration < FROZEN_AFTER).then_some((*cpu, elapsed))
    });
    elapsed.collect()
}

/// Returns the number and the ticks of every online CPU. A masked file, as in some containers, is
/// an error: it is missing or empty, or all its ticks are 0.
pub fn read_ticks() -> io::Result<Vec<(u32, CpuTicks)>> {
    read_ticks_from(Path::new("/proc/stat"))
}

fn read_ticks_from(path: &Path) -> io::Result<Vec<(u32, CpuTicks)>> {
    let ticks = parse_stat(&std::fs::read_to_string(path)?);
    if ticks.iter().all(|(_, ticks)| ticks.total() == 0) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(ticks)
}

fn parse_stat(text: &str) -> Vec<(u32, CpuTicks)> {
    text.lines()
        .filter_map(|line| line.strip_prefix("cpu"))
        // The line of the total has a blank instead of a CPU number.
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let number = line
                .starts_with(|c: char| c.is_ascii_digit())
                .then(|| words.next())??;
            let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            let ticks = CpuTicks {
                user: next(),
                nice: next(),
                system: next(),
                idle: next(),
                iowait: next(),
                irq: next(),
                softirq: next(),
                steal: next(),
            };
            Some((number.parse().ok()?, ticks))
        })
        .collect()
}

/// Returns the number of online CPUs. The C library reads it from /sys. If that is masked, the number
/// of CPUs that this process may use is a lower bound.
pub fn online_count() -> u32 {
    // SAFETY: sysconf takes no pointer.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let allowed = allowed_cpus().map_or(1, |cpus| cpus.len() as u32);
    u32::try_from(online).unwrap_or(1).max(allowed)
}

/// Returns the CPU time of this process in user space and in the kernel: getrusage(2).
pub fn process_times() -> (Duration, Duration) {
    // SAFETY: rusage consists of numbers, and the call fills it through a valid pointer.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// Binds the calling thread to one CPU: sched_setaffinity(2).
pub fn bind_thread(cpu: u32) -> io::Result<()> {
    bind_thread_to(&[cpu])
}

/// Binds the calling thread to these CPUs. Threads that it starts later inherit the binding.
pub fn bind_thread_to(cpus: &[u32]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus {
        if *cpu as usize >= rustix::thread::CpuSet::MAX_CPU {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        set.set(*cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &set)?;
    IS_THREAD_BOUND.set(true);
    Ok(())
}

/// Returns whether [`bind_thread_to`] has bound the calling thread. A binding that the thread
/// inherited does not count.
pub fn is_thread_bound() -> bool {
    IS_THREAD_BOUND.get()
}

/// Returns the CPUs that the process's first thread may run on: sched_getaffinity(2).
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()))?;
    let candidates = 0..rustix::thread::CpuSet::MAX_CPU;
    Ok(candidates
        .filter(|cpu| set.is_set(*cpu))
        .map(|cpu| cpu as u32)
        .collect())
}

/// Sets the time slice of the calling thread, which threads that it starts inherit; `None` for the
/// default. Of the threads that wait for a CPU, those with a shorter slice come first; all get the
/// same share: sched_setattr(2). Linux before 6.12, and real-time policies, ignore it.
pub fn set_time_slice(slice: Option<Duration>) {
    let nice = rustix::process::getpriority_process(None).unwrap_or(0);
    let attributes = SchedulingAttributes {
        size: size_of::<SchedulingAttributes>() as u32,
        flags: SCHED_FLAG_KEEP_POLICY,
        nice,
        runtime_ns: slice.map_or(0, |slice| slice.as_nanos() as u64),
        ..SchedulingAttributes::default()
    };
    // SAFETY: the kernel reads the struct, whose size it contains.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Returns the time slice of the calling thread: sched_getattr(2). It is 0 on Linux before 6.12.
pub fn time_slice() -> Duration {
    let mut attributes = SchedulingAttributes::default();
    let size = size_of::<SchedulingAttributes>();
    // SAFETY: the kernel writes at most this size.
    unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    Duration::from_nanos(attributes.runtime_ns)
}

/// From linux/sched.h.
const SCHED_FLAG_KEEP_POLICY: u64 = 0x08;

/// `struct sched_attr` of linux/sched/types.h, in its first version.
#[derive(Default)]
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Lets the calling thread run only when its CPU is otherwise idle: SCHED_IDLE, sched(7). Its CPU
/// time counts as nice time, which separates it from the time of other threads.
pub fn set_lowest_priority() -> io::Result<()> {
    // SAFETY: sched_param is a number, which must be 0 for SCHED_IDLE. The call only reads it.
    // Thread 0 is the calling thread.
    let result = unsafe {
        let param: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(rustix::process::nice(19).map(drop)?)
}

/// Returns whether the calling thread's CPU time counts as nice time.
pub fn is_nice() -> bool {
    rustix::process::getpriority_process(None).is_ok_and(|priority| priority > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_slice_is_set_and_reset() {
        let default = time_slice();
        set_time_slice(Some(Duration::from_millis(20)));
        let long = time_slice();
        set_time_slice(None);
        assert_eq!(time_slice(), default);
        // Before Linux 6.12, there is none.
        assert!(long == Duration::from_millis(20) || default.is_zero());
    }

    #[test]
    fn proc_stat_has_one_line_per_cpu() {
        let text = "cpu  30 0 30 60 0 0 0 0 0 0\ncpu0 10 1 2 3 4 5 6 7 8 9\ncpu3 20 0 28 57 0 0 0\nintr 5\n";
        let parsed = parse_stat(text);
        assert_eq!(parsed.len(), 2);
        assert_eq!(parsed[0].0, 0);
        assert_eq!(parsed[0].1.total(), 38);
        assert_eq!((parsed[1].0, parsed[1].1.steal), (3, 0));
    }

    #[test]
    fn a_masked_file_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stat");
        assert!(read_ticks_from(&path).is_err(), "it is missing");
        for text in [
            "",
            "intr 0\n",
            "cpu  1 0 0 9\n",
            "cpu  0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\n",
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(read_ticks_from(&path).is_err(), "{text:?}");
        }
        std::fs::write(&path, "cpu  1 0 0 9\ncpu0 1 0 0 9\ncpu1 0 0 0 0\n").unwrap();
        assert_eq!(read_ticks_from(&path).unwrap().len(), 2);
        assert!(read_ticks().is_ok());
    }

    #[test]
    fn hosts_with_one_cpu_and_with_many_are_parsed() {
        // The stock tool reads the line of the total on a host with one CPU, and fails with more
        // than 256 CPUs.
        for cpus in [1, 2, 257, 1024] {
            let lines = (0..cpus).map(|cpu| format!("cpu{cpu} 1 2 3 {cpu} 5 6 7 8 9 10\n"));
            let text = format!(
                "cpu  9 9 9 9 9 9 9 9 9 9\n{}intr 5 cpu7\n",
                lines.collect::<String>()
            );
            let parsed = parse_stat(&text);
            assert_eq!(parsed.len(), cpus as usize);
            let (last, ticks) = parsed[cpus as usize - 1];
            assert_eq!((last, ticks.idle), (cpus - 1, u64::from(cpus - 1)));
        }
        assert_eq!(parse_stat(""), []);
        assert_eq!(parse_stat("cpu0\ncpux 1\ncpu1 x y\n").len(), 2);
    }

    #[test]
    fn frozen_ticks_are_left_out() {
        let ticks = |user| CpuTicks {
            user,
            ..CpuTicks::default()
        };
        let (before, after) = (
            [(0, ticks(5)), (1, ticks(5)), (2, ticks(5))],
            [(0, ticks(5)), (1, ticks(7)), (3, ticks(9))],
        );
        let short = Duration::from_millis(1);
        assert_eq!(
            elapsed_ticks(&before, &after, short),
            [(0, ticks(0)), (1, ticks(2))]
        );
        assert_eq!(
            elapsed_ticks(&before, &after, FROZEN_AFTER),
            [(1, ticks(2))]
        );
    }

    #[test]
    fn a_counter_that_steps_back_counts_nothing() {
        let (old, new) = (
            CpuTicks {
                idle: 9,
                ..CpuTicks::default()
            },
            CpuTicks {
                idle: 8,
                user: 3,
                ..CpuTicks::default()
            },
        );
        assert_eq!(new.since(&old).total(), 3);
    }
}
