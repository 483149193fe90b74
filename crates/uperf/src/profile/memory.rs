//! What a workorder is expected to take of memory.

use sys::message::{HEADER_BYTES, MOST};

use crate::workorder::{Flowop, Group, Protocol, Workorder};

/// Bytes that every strand has for what it sends and receives, at least; uperf's.
pub(crate) const LEAST_BUFFER: u32 = 8192;
/// What a thread uses of its stack, at most; half of it as measured.
const STACK: u64 = 64 << 10;
/// What a TLS connection takes, with the stack of its handshake: 26 to 41 KiB were measured, 8 of which
/// each further one of the same strand.
pub(crate) const TLS: u64 = 48 << 10;
/// What a process has for itself beside that: pages of the program's that it has written to.
pub(crate) const PROCESS: u64 = 256 << 10;
/// The counters of a flowop or a transaction in a strand, on cache lines of their own.
const STATISTICS: u64 = 256;

/// Bytes that the strands of a workorder are expected to take at this end: of each
///
/// - a buffer of 8192 bytes or the largest size in its group, whichever is more (what is sent from files goes
///   through none),
/// - 64 KiB of its stack,
/// - 256 bytes of statistics for each of its transactions and flowops,
/// - a header for each message of its largest batch, of which one call takes 1024,
/// - 48 KiB for each flowop that opens an SSL connection,
/// - 256 KiB for a process.
///
/// Socket buffers, and what the kernel keeps of a thread or process, are not in it.
pub fn expected_memory(workorder: &Workorder) -> u64 {
    let bytes = workorder.groups.iter().map(of_group);
    bytes.fold(0, u64::saturating_add)
}

/// The same of one group.
pub(super) fn of_group(group: &Group) -> u64 {
    let buffer = u64::from(buffer_bytes(group));
    let statistics = STATISTICS * (group.transactions.len() + group.flowops().count()) as u64;
    let batches = group.flowops().map(|flowop| flowop.batch_size);
    let batch = batches.filter(|batch| *batch > 1).max().unwrap_or(0);
    let headers = batch.min(MOST as u64) * HEADER_BYTES as u64;
    let encrypted = group.openings().filter(|flowop| is_encrypted(flowop));
    let strand = buffer + STACK + headers + statistics + TLS * encrypted.count() as u64;
    let process = if group.strands.processes { PROCESS } else { 0 };
    (strand + process).saturating_mul(group.strands.count.into())
}

/// Bytes of a strand's buffer: the most that a flowop of the group moves through it at once.
pub(crate) fn buffer_bytes(group: &Group) -> u32 {
    let buffered = group
        .flowops()
        .filter(|flowop| flowop.kind.goes_through_a_buffer());
    let sizes = buffered.map(|flowop| flowop.transfer.amount.largest());
    sizes.max().unwrap_or(0).max(LEAST_BUFFER)
}

fn is_encrypted(flowop: &Flowop) -> bool {
    flowop.endpoint.protocol == Some(Protocol::Ssl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workorder::Kind;

    #[test]
    fn buffers_stacks_and_statistics_are_counted() {
        let flowop = Flowop::of_bytes;
        let group = |count, flowops| {
            let mut group = Group::of(flowops);
            group.strands.count = count;
            group
        };
        let small = group(3, vec![flowop(Kind::Write, 90)]);
        let large = group(
            1,
            vec![flowop(Kind::Read, 65_536), flowop(Kind::Sendfile, 1 << 20)],
        );
        let mut processes = small.clone();
        processes.strands.processes = true;
        assert_eq!(of_group(&processes) - of_group(&small), 3 * (256 << 10));
        assert_eq!(of_group(&small), 3 * (8192 + 65_536 + 2 * 256));
        assert_eq!(of_group(&large), 65_536 + 65_536 + 3 * 256);
        let encrypted = group(2, vec![Flowop::opening(Kind::Connect, Protocol::Ssl)]);
        assert_eq!(of_group(&encrypted), 2 * (8192 + 65_536 + 2 * 256 + 49_152));
        let mut batch = flowop(Kind::Write, 90);
        batch.batch_size = 5000;
        let batches = group(1, vec![batch]);
        let header = HEADER_BYTES as u64;
        assert_eq!(of_group(&batches), 8192 + 65_536 + 1024 * header + 2 * 256);
        let workorder = Workorder {
            groups: vec![small, large],
            ..Workorder::default()
        };
        assert_eq!(expected_memory(&workorder), 222_720 + 131_840);
    }
}
