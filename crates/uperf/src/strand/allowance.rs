//! How many connections a strand may have.

use engine::script::Failure;

use crate::account::Account;
use crate::workorder::{Group, Protocol};

/// Bytes of a connection here.
const PLAIN: u64 = 512;

/// The same with TLS: its state and its buffers.
const ENCRYPTED: u64 = 16 << 10;

/// Connections of a strand that is a process. It cannot ask for more once it is forked.
const OF_PROCESS: u64 = 256;

/// The same with TLS.
const OF_ENCRYPTED_PROCESS: u64 = 16;

/// The connections that a strand has room for, as many as it ever had at a time.
#[derive(Debug)]
pub(super) struct Allowance {
    /// `None` for as many as there are.
    account: Option<Account>,
    room: u64,
    bytes_each: u64,
    /// A thread takes more when it needs them.
    may_grow: bool,
}

impl Allowance {
    /// That of a strand of this group. The memory of a process is taken before it is forked: [`process_bytes`].
    pub(super) fn new(account: Option<&Account>, group: &Group) -> Self {
        let (bytes_each, of_process) = costs(group);
        let may_grow = !group.strands.processes;
        Self {
            account: account.cloned(),
            room: if may_grow { 0 } else { of_process },
            bytes_each,
            may_grow,
        }
    }

    /// Makes room for one connection more than there are.
    pub(super) fn make_room(&mut self, there_are: usize) -> Result<(), Failure> {
        let Some(account) = &self.account else {
            return Ok(());
        };
        let (room, bytes_each) = (self.room, self.bytes_each);
        if (there_are as u64) < room {
            return Ok(());
        }
        if !self.may_grow {
            let what = format!("a process has at most {room} connections here");
            return Err(Failure::of_sense(what));
        }
        // Twice as many, so that this is rare; one, if that is too much.
        let mut more = room.max(1);
        if account.take_connections(more, bytes_each).is_err() {
            more = 1;
            let one = account.take_connections(more, bytes_each);
            one.map_err(|scarce| Failure::of_sense(scarce.to_string()))?;
        }
        self.room += more;
        Ok(())
    }
}

/// Bytes of the connections of a process.
pub(super) fn process_bytes(group: &Group) -> u64 {
    let (bytes_each, of_process) = costs(group);
    of_process * bytes_each
}

/// Bytes of a connection, and the connections of a process.
fn costs(group: &Group) -> (u64, u64) {
    if has_encryption(group) {
        (ENCRYPTED, OF_ENCRYPTED_PROCESS)
    } else {
        (PLAIN, OF_PROCESS)
    }
}

/// Whether a group opens TLS connections.
pub(super) fn has_encryption(group: &Group) -> bool {
    let mut openings = group.openings();
    openings.any(|flowop| flowop.endpoint.protocol == Some(Protocol::Ssl))
}

#[cfg(test)]
mod tests {
    use engine::{Budget, Holder};

    use super::*;

    #[test]
    fn connections_are_taken_as_they_are_needed() {
        let (memory, descriptors) = (Budget::new(1 << 20), Budget::new(1000));
        let account = Account::open(&memory, &descriptors, Holder::Local, 10).unwrap();
        let mut allowance = Allowance::new(Some(&account), &Group::default());
        for there_are in 0..10 {
            allowance.make_room(there_are).unwrap();
        }
        assert_eq!(memory.used(), 10 * PLAIN);
        // One that was closed makes room.
        allowance.make_room(9).unwrap();
        let refused = allowance.make_room(10).unwrap_err();
        assert!(refused.what.contains("--max-connections"), "{refused:?}");
        assert_eq!(descriptors.used(), 10);
        let mut group = Group::default();
        group.strands.processes = true;
        let mut forked = Allowance::new(Some(&account), &group);
        forked.make_room(255).unwrap();
        assert!(forked.make_room(256).is_err());
    }
}
