//! Performance counters of the CPU and the kernel for the calling thread: perf_event_open(2).
//!
//! This module uses libc because the existing crates support neither 32-bit ARM nor big-endian
//! machines.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

/// Maximum number of counters in a group.
pub const MAX_COUNTERS: usize = 16;

/// An event to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfEvent {
    kind: u32,
    config: u64,
    /// Whether the event occurs only in the kernel, so that a count of user space alone is always
    /// 0.
    is_kernel_only: bool,
}

/// Result of opening the counter of an event.
#[derive(Debug)]
pub enum CounterPermission {
    /// The counter includes user space and the kernel.
    Full,
    /// The counter includes user space only, because this user may not count the kernel.
    UserSpace,
    /// The counter is unavailable, with the reason. `ENOENT`: the machine lacks it, like many
    /// virtual machines. `EACCES`: kernel.perf_event_paranoid forbids it.
    Unavailable(io::Error),
}

/// Counters of the thread that opened them. One call reads all of them.
#[derive(Debug)]
pub struct EventCounters {
    /// A dummy event, which is available on every machine.
    leader: OwnedFd,
    members: Vec<OwnedFd>,
}

impl PerfEvent {
    /// CPU cycles.
    pub const CYCLES: Self = Self::hardware(0);
    /// Completed instructions.
    pub const INSTRUCTIONS: Self = Self::hardware(1);
    /// Accesses to the last-level cache.
    pub const CACHE_REFERENCES: Self = Self::hardware(2);
    /// Misses of the last-level cache.
    pub const CACHE_MISSES: Self = Self::hardware(3);
    /// Branch instructions.
    pub const BRANCHES: Self = Self::hardware(4);
    /// Mispredicted branches.
    pub const BRANCH_MISSES: Self = Self::hardware(5);
    /// Cycles at a fixed rate, independent of the CPU's frequency.
    pub const REFERENCE_CYCLES: Self = Self::hardware(9);
    /// CPU time in nanoseconds, in user space and in the kernel.
    pub const TASK_CLOCK: Self = Self::software(1, false);
    /// Page faults.
    pub const PAGE_FAULTS: Self = Self::software(2, false);
    /// Context switches from this thread to another.
    pub const CONTEXT_SWITCHES: Self = Self::software(3, true);
    /// Migrations to another CPU.
    pub const MIGRATIONS: Self = Self::software(4, true);

    const DUMMY: Self = Self::software(9, false);

    /// An event of PERF_TYPE_HARDWARE.
    const fn hardware(config: u64) -> Self {
        Self {
            kind: 0,
            config,
            is_kernel_only: false,
        }
    }

    /// An event of PERF_TYPE_SOFTWARE.
    const fn software(config: u64, is_kernel_only: bool) -> Self {
        Self {
            kind: 1,
            config,
            is_kernel_only,
        }
    }
}

impl EventCounters {
    /// Opens and starts the counters that the system allows. Returns a permission for each event,
    /// in order. Fails if the system allows no counters at all.
    ///
    /// # Panics
    /// With more than [`MAX_COUNTERS`] events.
    pub fn open(events: &[PerfEvent]) -> io::Result<(Self, Vec<CounterPermission>)> {
        assert!(events.len() <= MAX_COUNTERS, "at most 16 counters");
        let leader = open(PerfEvent::DUMMY, false, None)?;
        let mut members = Vec::with_capacity(events.len());
        let permissions = events.iter().map(|event| {
            let (opened, permission) = open_member(*event, &leader);
            members.extend(opened);
            permission
        });
        let permissions = permissions.collect();
        // The group starts after all members have joined. A member of a running group may not count
        // until the thread is next scheduled.
        // SAFETY: the request takes no argument.
        unsafe { rustix::ioctl::ioctl(&leader, Enable::new())? };
        Ok((Self { leader, members }, permissions))
    }

    /// Returns the number of open counters.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether no counter is open.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Reads the counts of the open counters since they were opened, in order. Returns false if the
    /// CPU counted other events at times, so that the counts are too low.
    pub fn read(&self, counts: &mut [u64; MAX_COUNTERS]) -> Result<bool, Errno> {
        let mut bytes = [0; (READ_HEADER_WORDS + 1 + MAX_COUNTERS) * 8];
        let len = rustix::io::read(&self.leader, &mut bytes)?;
        let mut words = bytes[..len].chunks_exact(8).map(|word| {
            let mut number = [0; 8];
            number.copy_from_slice(word);
            u64::from_ne_bytes(number)
        });
        let mut header = [0; READ_HEADER_WORDS];
        header.fill_with(|| words.next().unwrap_or_default());
        let [_, enabled_ns, running_ns] = header;
        // The first word is the leader's.
        for (count, word) in counts.iter_mut().zip(words.skip(1)) {
            *count = word;
        }
        Ok(running_ns >= enabled_ns)
    }
}

/// Words before the counts: the number of counts, the time enabled, and the time running.
const READ_HEADER_WORDS: usize = 3;

fn open_member(event: PerfEvent, leader: &OwnedFd) -> (Option<OwnedFd>, CounterPermission) {
    match open(event, true, Some(leader)) {
        Ok(opened) => (Some(opened), CounterPermission::Full),
        Err(error) if is_forbidden(&error) && !event.is_kernel_only => {
            match open(event, false, Some(leader)) {
                // The task clock includes kernel time even if the kernel is excluded.
                Ok(opened) if event == PerfEvent::TASK_CLOCK => {
                    (Some(opened), CounterPermission::Full)
                }
                Ok(opened) => (Some(opened), CounterPermission::UserSpace),
                Err(error) => (None, CounterPermission::Unavailable(error)),
            }
        }
        Err(error) => (None, CounterPermission::Unavailable(error)),
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// First version of `struct perf_event_attr`: PERF_ATTR_SIZE_VER0.
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

// Bits of `read_format`.
const TOTAL_TIME_ENABLED: u64 = 1;
const TOTAL_TIME_RUNNING: u64 = 1 << 1;
const GROUP: u64 = 1 << 3;
// Bit-field numbers in `flags`.
const DISABLED_BIT: u64 = 0;
const EXCLUDE_KERNEL_BIT: u64 = 5;
const EXCLUDE_HYPERVISOR_BIT: u64 = 6;
// PERF_FLAG_FD_CLOEXEC.
const CLOEXEC: libc::c_ulong = 1 << 3;

/// PERF_EVENT_IOC_ENABLE; on a leader it starts the whole group.
type Enable = rustix::ioctl::NoArg<{ rustix::ioctl::opcode::none(b'$', 0) }>;

fn open(event: PerfEvent, with_kernel: bool, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let exclude_kernel = if with_kernel {
        0
    } else {
        bit_flag(EXCLUDE_KERNEL_BIT)
    };
    let disabled = match leader {
        None => bit_flag(DISABLED_BIT),
        Some(_) => 0,
    };
    let attributes = Attributes {
        kind: event.kind,
        size: size_of::<Attributes>() as u32,
        config: event.config,
        read_format: TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING | GROUP,
        flags: disabled | exclude_kernel | bit_flag(EXCLUDE_HYPERVISOR_BIT),
        ..Attributes::default()
    };
    let leader: RawFd = leader.map_or(-1, AsRawFd::as_raw_fd);
    let (this_thread, any_cpu): (libc::pid_t, libc::c_int) = (0, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes, which is their true size. The other
    // arguments are numbers.
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
    // SAFETY: the call succeeded, so this is a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(opened as RawFd) })
}

/// Returns a word with this bit of a C bit-field set. Compilers start at the lowest bit on
/// little-endian machines and at the highest bit on big-endian ones.
fn bit_flag(number: u64) -> u64 {
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

    /// Opens counters of this thread, or prints why the test is skipped.
    fn open_counters(events: &[PerfEvent]) -> Option<(EventCounters, Vec<CounterPermission>)> {
        match EventCounters::open(events) {
            Ok(opened) => Some(opened),
            Err(error) => {
                eprintln!("SKIPPED: no counters here: {error}");
                None
            }
        }
    }

    #[test]
    fn software_counters_count_this_thread() {
        let events = [
            PerfEvent::TASK_CLOCK,
            PerfEvent::PAGE_FAULTS,
            PerfEvent::CONTEXT_SWITCHES,
        ];
        let Some((counters, permissions)) = open_counters(&events) else {
            return;
        };
        let (mut before, mut after) = ([0; MAX_COUNTERS], [0; MAX_COUNTERS]);
        let start = thread_cpu_ns();
        assert_eq!(counters.read(&mut before), Ok(true));
        let cpu = thread_cpu_ns();
        while thread_cpu_ns() < cpu + 20_000_000 {}
        let touched_pages = vec![1_u8; 8 << 20];
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(counters.read(&mut after), Ok(true));
        let spent = thread_cpu_ns() - start;
        assert!(touched_pages.iter().all(|byte| *byte == 1));
        let ran = after[0] - before[0];
        // The two clocks may differ by the time of interrupts.
        let plausible = 18_000_000..=spent + spent / 10;
        assert!(plausible.contains(&ran), "{ran} of {spent} ns");
        assert!(after[1] > before[1], "{before:?} {after:?}");
        if matches!(permissions[2], CounterPermission::Full) {
            assert!(after[2] > before[2], "{before:?} {after:?}");
        }
    }

    #[test]
    fn an_unavailable_counter_is_reported_and_the_others_count() {
        let unknown_event = PerfEvent::hardware(77);
        let events = [unknown_event, PerfEvent::TASK_CLOCK];
        let Some((counters, permissions)) = open_counters(&events) else {
            return;
        };
        assert!(matches!(
            &permissions[..],
            [CounterPermission::Unavailable(_), CounterPermission::Full]
        ));
        assert_eq!(counters.len(), 1);
        let mut counts = [0; MAX_COUNTERS];
        counters.read(&mut counts).unwrap();
        assert!(counts[0] > 0 && counts[1] == 0, "{counts:?}");
    }
}
