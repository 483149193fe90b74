//! What all masters have taken together, so that one cannot take another's share.

use std::sync::{Arc, Mutex, PoisonError};

use crate::profile::MOST_PROCESSES;
use crate::wire::Refusal;
use crate::{Group, WorkLimits};

/// Strands and buffers in use.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Used>);

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    strands: u64,
    processes: u64,
    bytes: u64,
}

/// One master's part; dropped, it is free again.
#[derive(Debug)]
pub(super) struct Share {
    room: Arc<Room>,
    taken: Used,
}

impl Room {
    /// Takes what a group needs, if the limits leave as much.
    pub(super) fn take(
        self: &Arc<Self>,
        group: &Group,
        strand_bytes: usize,
        limits: &WorkLimits,
    ) -> Result<Share, Refusal> {
        let strands = u64::from(group.strands.count);
        let taken = Used {
            strands,
            processes: if group.strands.processes { strands } else { 0 },
            bytes: strands.saturating_mul(strand_bytes as u64),
        };
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = u64::from(limits.strands).saturating_sub(used.strands);
        if taken.strands > left {
            let words = format!("{strands} strands: other masters leave {left}");
            return Err(Refusal::Workorder(words));
        }
        if taken.bytes > limits.memory.saturating_sub(used.bytes) {
            return Err(Refusal::Memory);
        }
        let left = MOST_PROCESSES.saturating_sub(used.processes);
        if taken.processes > left {
            let words =
                format!("{strands} processes: at most {MOST_PROCESSES}, of which {left} are left");
            return Err(Refusal::Workorder(words));
        }
        used.strands += taken.strands;
        used.processes += taken.processes;
        used.bytes += taken.bytes;
        Ok(Share {
            room: Arc::clone(self),
            taken,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.room.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.strands -= self.taken.strands;
        used.processes -= self.taken.processes;
        used.bytes -= self.taken.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Strands;

    #[test]
    fn what_one_has_another_has_not() {
        let room = Arc::new(Room::default());
        let limits = WorkLimits {
            strands: 10,
            memory: 100,
            ..WorkLimits::default()
        };
        let group = |count| Group {
            strands: Strands {
                count,
                ..Strands::default()
            },
            ..Group::default()
        };
        let first = room.take(&group(6), 10, &limits).unwrap();
        let refused = room.take(&group(5), 1, &limits).unwrap_err();
        assert_eq!(refused.to_string(), "5 strands: other masters leave 4");
        assert_eq!(
            room.take(&group(4), 11, &limits).unwrap_err(),
            Refusal::Memory
        );
        let second = room.take(&group(4), 10, &limits).unwrap();
        drop((first, second));
        assert!(room.take(&group(10), 10, &limits).is_ok());
    }
}
