//! Clock reads, sleeping until a time, timer slack, real-time scheduling, and formatted times.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::thread::{
    ClockId, Timespec, clock_nanosleep_absolute, current_timer_slack, set_current_timer_slack,
};

/// Returns CLOCK_MONOTONIC in nanoseconds. A read takes 30 to 40 ns, without a system call.
/// `Instant` reads the same clock, but converting its value takes the same time again.
#[inline]
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Returns CLOCK_REALTIME in nanoseconds since 1970, at the same cost.
#[inline]
pub fn wall_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// Reads a clock through the C library. `rustix` panics under valgrind, because valgrind hides the
/// kernel's vDSO page from it.
#[inline]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel, or its vDSO page, writes one timespec. The call cannot fail: these clocks
    // exist on every Linux and the pointer is valid. clock_gettime(2).
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the CPU time of the calling thread in nanoseconds: CLOCK_THREAD_CPUTIME_ID,
/// clock_gettime(2).
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the wall clock minus the monotonic clock, in nanoseconds. The difference changes only
/// when the wall clock is set; NTP slews both clocks.
pub fn wall_clock_offset_ns() -> i64 {
    clock_offset_ns(libc::CLOCK_REALTIME)
}

/// Returns a clock (`libc::CLOCK_*`) minus the monotonic clock, in nanoseconds.
pub fn clock_offset_ns(clock: i32) -> i64 {
    /// Reads of the monotonic clock this close together count as simultaneous.
    const MAX_READ_GAP_NS: u64 = 100_000;
    let mut offset = 0;
    for _ in 0..10 {
        let before = monotonic_ns();
        let other = read_ns(clock);
        let after = monotonic_ns();
        offset = other as i64 - (before + (after - before) / 2) as i64;
        if after - before < MAX_READ_GAP_NS {
            break;
        }
    }
    offset
}

/// Sleeps until [`monotonic_ns`] reaches `until_ns`, with an absolute clock_nanosleep(2). Returns
/// immediately if that time has passed. Returns EINTR if a signal interrupts it.
#[inline]
pub fn sleep_until(until_ns: u64) -> Result<(), Errno> {
    clock_nanosleep_absolute(ClockId::Monotonic, &timespec(until_ns))
}

/// Guard that sets the calling thread's timer slack to the minimum. By default the kernel may
/// prolong a sleep by 50 µs to wake several threads together (PR_SET_TIMERSLACK, prctl(2)).
#[derive(Debug)]
pub struct ExactSleep {
    previous_slack_ns: Option<NonZeroU64>,
    // The setting belongs to one thread.
    _not_send: PhantomData<*const ()>,
}

impl ExactSleep {
    /// Sets the slack. If the system refuses, the slack stays as it was.
    pub fn begin() -> Self {
        let previous_slack_ns = current_timer_slack().ok().and_then(NonZeroU64::new);
        let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        Self {
            previous_slack_ns,
            _not_send: PhantomData,
        }
    }
}

impl Drop for ExactSleep {
    fn drop(&mut self) {
        // `None` restores the thread's default.
        let _ = set_current_timer_slack(self.previous_slack_ns);
    }
}

/// Guard that lets the calling thread run before all ordinary threads when its sleep ends. The
/// thread must sleep most of the time. SCHED_FIFO needs CAP_SYS_NICE, sched(7).
#[derive(Debug)]
pub struct PriorityWakeup {
    is_active: bool,
    // The setting belongs to one thread.
    _not_send: PhantomData<*const ()>,
}

impl PriorityWakeup {
    /// Sets the policy. If the system refuses, the thread keeps its policy.
    pub fn begin() -> Self {
        Self {
            // A policy that the user chose stays in force.
            is_active: has_default_policy() && set_policy(libc::SCHED_FIFO, 1),
            _not_send: PhantomData,
        }
    }
}

impl Drop for PriorityWakeup {
    fn drop(&mut self) {
        if self.is_active {
            set_policy(libc::SCHED_OTHER, 0);
        }
    }
}

/// Gives the calling thread, and the threads that it starts later, a real-time policy: SCHED_RR,
/// sched(7).
pub fn set_real_time() -> std::io::Result<()> {
    if set_policy(libc::SCHED_RR, 1) {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Returns whether the calling thread has the default policy.
fn has_default_policy() -> bool {
    // SAFETY: the call takes and returns numbers.
    unsafe {
        libc::syscall(libc::SYS_sched_getscheduler, 0) == libc::c_long::from(libc::SCHED_OTHER)
    }
}

/// Sets the calling thread's policy and returns whether that succeeded.
fn set_policy(policy: libc::c_int, priority: libc::c_int) -> bool {
    // SAFETY: the structure is fully initialised; the call only reads it.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = priority;
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            policy,
            &raw const parameters,
        ) == 0
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

/// Formats a time in the local time zone with a strftime(3) format. A result of more than 255 bytes
/// is returned empty.
pub fn local_time(format: &CStr, moment: SystemTime) -> String {
    // SAFETY: both pointers are to live values; localtime_r(3) keeps neither.
    format_time(format, moment, |seconds, tm| unsafe {
        libc::localtime_r(seconds, tm);
    })
}

/// Formats a time in UTC, like [`local_time`].
pub fn utc_time(format: &CStr, moment: SystemTime) -> String {
    // SAFETY: both pointers are to live values; gmtime_r(3) keeps neither.
    format_time(format, moment, |seconds, tm| unsafe {
        libc::gmtime_r(seconds, tm);
    })
}

fn format_time(
    format: &CStr,
    moment: SystemTime,
    to_calendar: impl Fn(&libc::time_t, &mut libc::tm),
) -> String {
    let since_epoch = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    // SAFETY: a zeroed tm is a valid value, also if the conversion fails.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    to_calendar(&(since_epoch.as_secs() as libc::time_t), &mut tm);
    let mut text = [0_u8; 256];
    let (buffer, size) = (text.as_mut_ptr().cast(), text.len());
    // SAFETY: the buffer has this size, the format ends with a NUL, and `tm` is a valid time.
    let length = unsafe { libc::strftime(buffer, size, format.as_ptr(), &raw const tm) };
    String::from_utf8_lossy(&text[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_at_its_time_and_not_before() {
        let _exact = ExactSleep::begin();
        for pause_ns in [0, 1_000, 2_000_000] {
            let until_ns = monotonic_ns() + pause_ns;
            sleep_until(until_ns).unwrap();
            assert!(monotonic_ns() >= until_ns);
        }
    }

    #[test]
    fn a_thread_returns_to_the_default_policy() {
        let policy = || {
            let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // The policy is field 41, proc(5). Field 2 ends with a parenthesis.
            let fields = text.rsplit_once(')').unwrap().1;
            fields.split_whitespace().nth(38).unwrap().to_owned()
        };
        assert_eq!(policy(), "0");
        let wakeup = PriorityWakeup::begin();
        let is_allowed = wakeup.is_active;
        assert_eq!(policy(), if is_allowed { "1" } else { "0" });
        drop(wakeup);
        assert_eq!(policy(), "0");
    }

    #[test]
    fn times_have_the_requested_format() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_795_210_094, "Fri, 20 Nov 2026 21:28:14 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        ] {
            let moment = UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            assert_eq!(utc_time(c"%a, %d %b %Y %H:%M:%S GMT", moment), text);
            let local = local_time(c"%s|%%", moment);
            assert_eq!(local, format!("{seconds}|%"));
        }
        assert_eq!(utc_time(c"", UNIX_EPOCH), "");
    }

    #[test]
    fn the_timer_slack_is_restored() {
        let before = current_timer_slack().unwrap();
        let exact = ExactSleep::begin();
        assert_eq!(current_timer_slack(), Ok(1));
        drop(exact);
        assert_eq!(current_timer_slack(), Ok(before));
    }
}
