//! Clocks: the monotonic one as cheap as it is to be had, and what else is asked now and then.

/// Nanoseconds of CLOCK_MONOTONIC: 30 to 40 ns a read, without a system call. `Instant` reads the
/// same clock, but spends as much again on taking it apart.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel, or its page in this process, writes one timespec. It cannot fail: the
    // clock exists on every Linux and the pointer is good. clock_gettime(2).
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time of the calling thread, in nanoseconds: CLOCK_THREAD_CPUTIME_ID, clock_gettime(2).
pub fn thread_cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How far the wall clock is ahead of the monotonic one, in nanoseconds. It changes only when somebody
/// sets the wall clock: what NTP slews is in both.
pub fn wall_ahead_ns() -> i64 {
    use rustix::time::{ClockId, clock_gettime};
    /// Two readings this near to each other are one moment.
    const TOGETHER_NS: u64 = 100_000;
    let mut ahead = 0;
    for _ in 0..10 {
        let before = monotonic_ns();
        let wall = clock_gettime(ClockId::Realtime);
        let after = monotonic_ns();
        ahead = wall.tv_sec * 1_000_000_000 + wall.tv_nsec - (before + (after - before) / 2) as i64;
        if after - before < TOGETHER_NS {
            break;
        }
    }
    ahead
}
