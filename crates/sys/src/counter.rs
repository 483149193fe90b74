//! Counters of the CPU and the kernel for the calling thread: perf_event_open(2).
//!
//! By libc and not by a crate: those that there are know neither 32-bit ARM nor any big-endian machine.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

/// How many can be counted at a time.
pub const MOST: usize = 16;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    kind: u32,
    config: u64,
    /// Without the kernel's part there is nothing of it.
    is_of_kernel: bool,
}

/// Whether an event is counted.
#[derive(Debug)]
pub enum Allowed {
    /// It is.
    Whole,
    /// What the thread does in user space is; the system does not let this user see the kernel's part.
    UserSpace,
    /// It is not, for this reason: most often there is no such counter (`ENOENT`, as in many virtual
    /// machines), or this user may not have it (`EACCES`, kernel.perf_event_paranoid).
    No(io::Error),
}

/// The counters of the thread that opened them, read together.
#[derive(Debug)]
pub struct EventCounters {
    /// Counts nothing, and is always there.
    leader: OwnedFd,
    members: Vec<OwnedFd>,
}

impl Event {
    /// Cycles of the CPU.
    pub const CYCLES: Self = Self::of_cpu(0);
    /// Instructions that were completed.
    pub const INSTRUCTIONS: Self = Self::of_cpu(1);
    /// Accesses to the last cache.
    pub const CACHE_REFERENCES: Self = Self::of_cpu(2);
    /// Those of them that went on to memory.
    pub const CACHE_MISSES: Self = Self::of_cpu(3);
    /// Branches.
    pub const BRANCHES: Self = Self::of_cpu(4);
    /// Those of them that were not foreseen.
    pub const BRANCH_MISSES: Self = Self::of_cpu(5);
    /// Cycles at a fixed rate, whatever the CPU's own is.
    pub const REFERENCE_CYCLES: Self = Self::of_cpu(9);
    /// Nanoseconds on a CPU, in user space and in the kernel.
    pub const TASK_CLOCK: Self = Self::of_kernel(1, false);
    /// Pages that were not there.
    pub const PAGE_FAULTS: Self = Self::of_kernel(2, false);
    /// Changes from this thread to another.
    pub const CONTEXT_SWITCHES: Self = Self::of_kernel(3, true);
    /// Moves to another CPU.
    pub const MIGRATIONS: Self = Self::of_kernel(4, true);

    const DUMMY: Self = Self::of_kernel(9, false);

    /// PERF_TYPE_HARDWARE.
    const fn of_cpu(config: u64) -> Self {
        Self {
            kind: 0,
            config,
            is_of_kernel: false,
        }
    }

    /// PERF_TYPE_SOFTWARE.
    const fn of_kernel(config: u64, is_of_kernel: bool) -> Self {
        Self {
            kind: 1,
            config,
            is_of_kernel,
        }
    }
}

impl EventCounters {
    /// Begins to count those of these events that the system allows, and says of each whether it does.
    /// Fails where it allows no counters at all.
    ///
    /// # Panics
    /// With more than [`MOST`] events.
    pub fn open(events: &[Event]) -> io::Result<(Self, Vec<Allowed>)> {
        assert!(events.len() <= MOST, "that many are not read at once");
        let leader = open(Event::DUMMY, false, None)?;
        let mut members = Vec::with_capacity(events.len());
        let allowed = events.iter().map(|event| {
            let (opened, allowed) = join(*event, &leader);
            members.extend(opened);
            allowed
        });
        let allowed = allowed.collect();
        // One that joins a group that counts already may be left out until the thread is next scheduled.
        // SAFETY: the request has no argument.
        unsafe { rustix::ioctl::ioctl(&leader, Enable::new())? };
        Ok((Self { leader, members }, allowed))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// What they have counted since they were opened, those that are allowed, in order; false where the
    /// CPU has counted for others meanwhile, so that something is missing.
    pub fn read(&self, counts: &mut [u64; MOST]) -> Result<bool, Errno> {
        let mut bytes = [0; (READ_HEADER + 1 + MOST) * 8];
        let len = rustix::io::read(&self.leader, &mut bytes)?;
        let mut words = bytes[..len].chunks_exact(8).map(|word| {
            let mut number = [0; 8];
            number.copy_from_slice(word);
            u64::from_ne_bytes(number)
        });
        let mut header = [0; READ_HEADER];
        header.fill_with(|| words.next().unwrap_or_default());
        let [_, enabled_ns, running_ns] = header;
        // The first is the leader's.
        for (count, word) in counts.iter_mut().zip(words.skip(1)) {
            *count = word;
        }
        Ok(running_ns >= enabled_ns)
    }
}

/// Number of values, and for how long they were to count and did.
const READ_HEADER: usize = 3;

fn join(event: Event, leader: &OwnedFd) -> (Option<OwnedFd>, Allowed) {
    match open(event, true, Some(leader)) {
        Ok(opened) => (Some(opened), Allowed::Whole),
        Err(error) if is_forbidden(&error) && !event.is_of_kernel => {
            match open(event, false, Some(leader)) {
                // A clock runs in the kernel, too, whatever one may see of it.
                Ok(opened) if event == Event::TASK_CLOCK => (Some(opened), Allowed::Whole),
                Ok(opened) => (Some(opened), Allowed::UserSpace),
                Err(error) => (None, Allowed::No(error)),
            }
        }
        Err(error) => (None, Allowed::No(error)),
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// `struct perf_event_attr` as the kernel first had it: PERF_ATTR_SIZE_VER0.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const TOTAL_TIME_ENABLED: u64 = 1;
const TOTAL_TIME_RUNNING: u64 = 1 << 1;
const GROUP: u64 = 1 << 3;
const DISABLED: u64 = 0;
const EXCLUDE_KERNEL: u64 = 5;
const EXCLUDE_HYPERVISOR: u64 = 6;
const CLOEXEC: libc::c_ulong = 1 << 3;

/// PERF_EVENT_IOC_ENABLE, of a leader and so of its group.
type Enable = rustix::ioctl::NoArg<{ rustix::ioctl::opcode::none(b'$', 0) }>;

fn open(event: Event, with_kernel: bool, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let kernel = if with_kernel { 0 } else { flag(EXCLUDE_KERNEL) };
    let begins = match leader {
        None => flag(DISABLED),
        Some(_) => 0,
    };
    let attributes = Attributes {
        kind: event.kind,
        size: size_of::<Attributes>() as u32,
        config: event.config,
        read_format: TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING | GROUP,
        flags: begins | kernel | flag(EXCLUDE_HYPERVISOR),
        ..Attributes::default()
    };
    let leader: RawFd = leader.map_or(-1, AsRawFd::as_raw_fd);
    let (this_thread, any_cpu): (libc::pid_t, libc::c_int) = (0, -1);
    // SAFETY: the kernel reads as many bytes of the attributes as they say that they have; all else is
    // numbers.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            leader,
            CLOEXEC,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(opened as RawFd) })
}

/// C's bit-field of this number in a word: compilers begin with the lowest bit, or with the highest.
fn flag(number: u64) -> u64 {
    if cfg!(target_endian = "big") {
        1 << (63 - number)
    } else {
        1 << number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::thread_cpu_ns;

    /// Counters of this thread, or why there are none here.
    fn opened(events: &[Event]) -> Option<(EventCounters, Vec<Allowed>)> {
        match EventCounters::open(events) {
            Ok(opened) => Some(opened),
            Err(error) => {
                eprintln!("SKIPPED: no counters here: {error}");
                None
            }
        }
    }

    #[test]
    fn the_kernels_own_counters_count_this_thread() {
        let events = [
            Event::TASK_CLOCK,
            Event::PAGE_FAULTS,
            Event::CONTEXT_SWITCHES,
        ];
        let Some((counters, allowed)) = opened(&events) else {
            return;
        };
        let (mut before, mut after) = ([0; MOST], [0; MOST]);
        let begun = thread_cpu_ns();
        assert_eq!(counters.read(&mut before), Ok(true));
        let cpu = thread_cpu_ns();
        while thread_cpu_ns() < cpu + 20_000_000 {}
        let fresh = vec![1_u8; 8 << 20];
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(counters.read(&mut after), Ok(true));
        let spent = thread_cpu_ns() - begun;
        assert!(fresh.iter().all(|byte| *byte == 1));
        let ran = after[0] - before[0];
        // Two clocks of the same time, which interrupts may be in or not.
        let plausible = 18_000_000..=spent + spent / 10;
        assert!(plausible.contains(&ran), "{ran} of {spent} ns");
        assert!(after[1] > before[1], "{before:?} {after:?}");
        if matches!(allowed[2], Allowed::Whole) {
            assert!(after[2] > before[2], "{before:?} {after:?}");
        }
    }

    #[test]
    fn what_there_is_not_is_said_and_the_others_count() {
        let nonsense = Event::of_cpu(77);
        let Some((counters, allowed)) = opened(&[nonsense, Event::TASK_CLOCK]) else {
            return;
        };
        assert!(matches!(&allowed[..], [Allowed::No(_), Allowed::Whole]));
        assert_eq!(counters.len(), 1);
        let mut counts = [0; MOST];
        counters.read(&mut counts).unwrap();
        assert!(counts[0] > 0 && counts[1] == 0, "{counts:?}");
    }
}
