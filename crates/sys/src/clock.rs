//! Clocks: the monotonic one as cheap as it is to be had, sleeping by it, and what else is asked now
//! and then.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::thread::{
    ClockId, Timespec, clock_nanosleep_absolute, current_timer_slack, set_current_timer_slack,
};

/// Nanoseconds of CLOCK_MONOTONIC: 30 to 40 ns a read, without a system call. `Instant` reads the
/// same clock, but spends as much again on taking it apart.
#[inline]
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of CLOCK_REALTIME since 1970, as cheap.
#[inline]
pub fn wall_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// By the C library: `rustix` looks for the kernel's page by itself, and dies of not finding it under
/// valgrind, which hides it.
#[inline]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel, or its page in this process, writes one timespec. It cannot fail: the
    // clocks asked for exist on every Linux and the pointer is good. clock_gettime(2).
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time of the calling thread, in nanoseconds: CLOCK_THREAD_CPUTIME_ID, clock_gettime(2).
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How far the wall clock is ahead of the monotonic one, in nanoseconds. It changes only when somebody
/// sets the wall clock: what NTP slews is in both.
pub fn wall_ahead_ns() -> i64 {
    ahead_ns(libc::CLOCK_REALTIME)
}

/// How far a clock (`libc::CLOCK_*`) is ahead of the monotonic one, in nanoseconds.
pub fn ahead_ns(clock: i32) -> i64 {
    /// Two readings this near to each other are one moment.
    const TOGETHER_NS: u64 = 100_000;
    let mut ahead = 0;
    for _ in 0..10 {
        let before = monotonic_ns();
        let other = read_ns(clock);
        let after = monotonic_ns();
        ahead = other as i64 - (before + (after - before) / 2) as i64;
        if after - before < TOGETHER_NS {
            break;
        }
    }
    ahead
}

/// Sleeps until the clock of [`monotonic_ns`] shows `until_ns`, at once if it does already:
/// clock_nanosleep(2), absolute. EINTR is returned.
#[inline]
pub fn sleep_until(until_ns: u64) -> Result<(), Errno> {
    clock_nanosleep_absolute(ClockId::Monotonic, &timespec(until_ns))
}

/// While it lives, the calling thread's sleeps end when they are to: by default the kernel may make
/// them 50 us longer, to wake several threads at once (PR_SET_TIMERSLACK, prctl(2)).
#[derive(Debug)]
pub struct ExactSleep {
    before_ns: Option<NonZeroU64>,
    // It is the thread's own setting.
    _not_send: PhantomData<*const ()>,
}

impl ExactSleep {
    /// From now on; where the system refuses, sleeps stay as they were.
    pub fn begin() -> Self {
        let before_ns = current_timer_slack().ok().and_then(NonZeroU64::new);
        let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        Self {
            before_ns,
            _not_send: PhantomData,
        }
    }
}

impl Drop for ExactSleep {
    fn drop(&mut self) {
        // `None` is the thread's default.
        let _ = set_current_timer_slack(self.before_ns);
    }
}

/// While it lives, the calling thread runs before all ordinary ones when its sleep is over, where the
/// system lets it (SCHED_FIFO needs CAP_SYS_NICE, sched(7)): it must sleep, not work.
#[derive(Debug)]
pub struct Prompt {
    is_in_force: bool,
    // It is the thread's own setting.
    _not_send: PhantomData<*const ()>,
}

impl Prompt {
    /// From now on; where the system refuses, the thread stays an ordinary one.
    pub fn begin() -> Self {
        Self {
            // A policy that somebody chose for it stays.
            is_in_force: is_ordinary() && schedule(libc::SCHED_FIFO, 1),
            _not_send: PhantomData,
        }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if self.is_in_force {
            schedule(libc::SCHED_OTHER, 0);
        }
    }
}

/// Puts the calling thread, and those that it starts from now on, before all ordinary ones (SCHED_RR, sched(7)).
pub fn be_real_time() -> std::io::Result<()> {
    if schedule(libc::SCHED_RR, 1) {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Whether nobody has given the calling thread a policy.
fn is_ordinary() -> bool {
    // SAFETY: the call takes and gives numbers.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) == libc::SCHED_OTHER.into() }
}

/// Whether the calling thread is now under that policy.
fn schedule(policy: libc::c_int, priority: libc::c_int) -> bool {
    // SAFETY: all of the structure that there is is set; the call reads it.
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

/// Returns a moment in the local time zone, in a format of strftime(3); at most 255 bytes, else nothing.
pub fn local_time(format: &CStr, moment: SystemTime) -> String {
    // SAFETY: both pointers are to live values; localtime_r(3) keeps neither.
    formatted(format, moment, |seconds, tm| unsafe {
        libc::localtime_r(seconds, tm);
    })
}

/// The same in UTC.
pub fn utc(format: &CStr, moment: SystemTime) -> String {
    // SAFETY: both pointers are to live values; gmtime_r(3) keeps neither.
    formatted(format, moment, |seconds, tm| unsafe {
        libc::gmtime_r(seconds, tm);
    })
}

fn formatted(
    format: &CStr,
    moment: SystemTime,
    split: impl Fn(&libc::time_t, &mut libc::tm),
) -> String {
    let since_epoch = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    // SAFETY: a zeroed tm is a valid place for the result, and a valid result of failure.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    split(&(since_epoch.as_secs() as libc::time_t), &mut tm);
    let mut text = [0_u8; 256];
    let (room, size) = (text.as_mut_ptr().cast(), text.len());
    // SAFETY: the buffer is as long as it says, the format ends with its NUL, and `tm` is a valid moment.
    let length = unsafe { libc::strftime(room, size, format.as_ptr(), &raw const tm) };
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
    fn a_prompt_thread_is_an_ordinary_one_again() {
        let policy = || {
            let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // The policy is field 41, proc(5); the second ends with a parenthesis.
            let fields = text.rsplit_once(')').unwrap().1;
            fields.split_whitespace().nth(38).unwrap().to_owned()
        };
        assert_eq!(policy(), "0");
        let prompt = Prompt::begin();
        let is_allowed = prompt.is_in_force;
        assert_eq!(policy(), if is_allowed { "1" } else { "0" });
        drop(prompt);
        assert_eq!(policy(), "0");
    }

    #[test]
    fn moments_have_the_form_that_is_asked_for() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_795_210_094, "Fri, 20 Nov 2026 21:28:14 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        ] {
            let moment = UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            assert_eq!(utc(c"%a, %d %b %Y %H:%M:%S GMT", moment), text);
            let local = local_time(c"%s|%%", moment);
            assert_eq!(local, format!("{seconds}|%"));
        }
        assert_eq!(utc(c"", UNIX_EPOCH), "");
    }

    #[test]
    fn the_slack_is_put_back() {
        let before = current_timer_slack().unwrap();
        let exact = ExactSleep::begin();
        assert_eq!(current_timer_slack(), Ok(1));
        drop(exact);
        assert_eq!(current_timer_slack(), Ok(before));
    }
}
