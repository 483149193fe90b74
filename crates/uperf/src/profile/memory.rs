//! Estimate of the memory that a workorder needs.

use sys::message::{HEADER_BYTES, MAX_MESSAGES};

use crate::workorder::{DataProtocol, Flowop, GroupSpec, Workorder};

/// Minimum buffer of a strand, in bytes, as in uperf.
pub(crate) const MIN_BUFFER_BYTES: u32 = 8192;
/// Maximum stack that a thread uses, in bytes; threads use half of it in measurements.
const STACK_BYTES: u64 = 64 << 10;
/// Memory of a TLS connection, in bytes, with the stack of its handshake.
///
/// Measurements show 26 to 41 KiB for the first of a strand, and 8 KiB for each further one.
pub(crate) const TLS_BYTES: u64 = 48 << 10;
/// Additional memory of a process, in bytes: pages of the program that it has written to.
pub(crate) const PROCESS_BYTES: u64 = 256 << 10;
/// Counters of a flowop or transaction in a strand, in bytes, on separate cache lines.
const STATISTICS_BYTES: u64 = 256;

/// Returns the expected memory of a workorder's strands at this end, in bytes.
///
/// Each strand has:
///
/// - a buffer of 8192 bytes or the largest size in its group, whichever is more (files do not pass
///   through it),
/// - 64 KiB of stack,
/// - 256 bytes of statistics for each of its transactions and flowops,
/// - a header for each message of its largest batch, up to 1024 messages per call,
/// - 48 KiB for each flowop that opens an SSL connection,
/// - 256 KiB if it is a process.
///
/// Socket buffers and the kernel's data for threads and processes are not included.
pub fn expected_memory(workorder: &Workorder) -> u64 {
    let bytes = workorder.groups.iter().map(group_memory);
    bytes.fold(0, u64::saturating_add)
}

/// Returns the expected memory of one group, in bytes.
pub(super) fn group_memory(group: &GroupSpec) -> u64 {
    let buffer = u64::from(buffer_bytes(group));
    let statistics = STATISTICS_BYTES * (group.transactions.len() + group.flowops().count()) as u64;
    let batches = group.flowops().map(|flowop| flowop.batch_size);
    let batch = batches.filter(|batch| *batch > 1).max().unwrap_or(0);
    let headers = batch.min(MAX_MESSAGES as u64) * HEADER_BYTES as u64;
    let encrypted = group
        .opening_flowops()
        .filter(|flowop| is_encrypted(flowop));
    let strand = buffer + STACK_BYTES + headers + statistics + TLS_BYTES * encrypted.count() as u64;
    let process = if group.strands.processes {
        PROCESS_BYTES
    } else {
        0
    };
    (strand + process).saturating_mul(group.strands.count.into())
}

/// Returns the size of a strand's buffer: the largest transfer of the group, in bytes.
pub(crate) fn buffer_bytes(group: &GroupSpec) -> u32 {
    let buffered = group.flowops().filter(|flowop| flowop.kind.uses_buffer());
    let sizes = buffered.map(|flowop| flowop.transfer.amount.max_bytes());
    sizes.max().unwrap_or(0).max(MIN_BUFFER_BYTES)
}

fn is_encrypted(flowop: &Flowop) -> bool {
    flowop.endpoint.protocol == Some(DataProtocol::Ssl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workorder::FlowopKind;

    #[test]
    fn buffers_stacks_and_statistics_are_counted() {
        let flowop = Flowop::with_size;
        let group = |count, flowops| {
            let mut group = GroupSpec::with_flowops(flowops);
            group.strands.count = count;
            group
        };
        let small = group(3, vec![flowop(FlowopKind::Write, 90)]);
        let large = group(
            1,
            vec![
                flowop(FlowopKind::Read, 65_536),
                flowop(FlowopKind::Sendfile, 1 << 20),
            ],
        );
        let mut processes = small.clone();
        processes.strands.processes = true;
        assert_eq!(
            group_memory(&processes) - group_memory(&small),
            3 * (256 << 10)
        );
        assert_eq!(group_memory(&small), 3 * (8192 + 65_536 + 2 * 256));
        assert_eq!(group_memory(&large), 65_536 + 65_536 + 3 * 256);
        let encrypted = group(
            2,
            vec![Flowop::with_protocol(
                FlowopKind::Connect,
                DataProtocol::Ssl,
            )],
        );
        assert_eq!(
            group_memory(&encrypted),
            2 * (8192 + 65_536 + 2 * 256 + 49_152)
        );
        let mut batch = flowop(FlowopKind::Write, 90);
        batch.batch_size = 5000;
        let batches = group(1, vec![batch]);
        let header = HEADER_BYTES as u64;
        assert_eq!(
            group_memory(&batches),
            8192 + 65_536 + 1024 * header + 2 * 256
        );
        let workorder = Workorder {
            groups: vec![small, large],
            ..Workorder::default()
        };
        assert_eq!(expected_memory(&workorder), 222_720 + 131_840);
    }
}
