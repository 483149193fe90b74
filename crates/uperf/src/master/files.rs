//! Files that the sendfile and sendfilev flowops send.

use std::fs::{self, File};
use std::path::Path;

use crate::strand::Files;
use crate::{Flowop, FlowopKind, GroupSpec};

/// Maximum depth of the directory search.
const MAX_DEPTH: usize = 32;

/// Maximum number of files that are opened below a directory.
const MAX_FILES: usize = 4096;

/// Maximum read size that every slave supports, bytes.
const MAX_READ_BYTES: u64 = i32::MAX as u64;

/// Opens the files that a group sends: all readable files below each directory.
pub(super) fn open_files(group: &GroupSpec) -> Result<Files, String> {
    let mut opened = Files::new();
    for flowop in (group.flowops()).filter(|flowop| !flowop.directory.is_empty()) {
        let directory = Path::new(&flowop.directory);
        if opened.iter().any(|(known, _)| known == directory) {
            continue;
        }
        let mut files = Vec::new();
        let directory_error = |reason: String| {
            let name = directory.display();
            format!("Error initializing dir: {name}: {reason}")
        };
        find_files(directory, MAX_DEPTH, &mut files)
            .map_err(|error| directory_error(sys::describe(&error)))?;
        if files.is_empty() {
            return Err(directory_error("no readable file".to_owned()));
        }
        opened.push((directory.to_owned(), files));
    }
    Ok(opened)
}

fn find_files(directory: &Path, levels_left: usize, files: &mut Vec<File>) -> std::io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        // Symbolic links are not followed, so there are no endless loops.
        let kind = entry.file_type()?;
        if kind.is_dir() && levels_left > 0 {
            let _ = find_files(&entry.path(), levels_left - 1, files);
        } else if kind.is_file() && files.len() < MAX_FILES {
            files.extend(File::open(entry.path()));
        }
    }
    Ok(())
}

/// Sets the slave's read size for files in transactions with `iterations=`: the bytes of one
/// execution. Stock masters always request reads of 65536 bytes. Data beyond that is never read, so
/// the master blocks forever.
pub(super) fn set_read_sizes(group: &mut GroupSpec, files: &Files) -> Result<(), String> {
    let transactions = group.transactions.iter_mut();
    for transaction in transactions.filter(|transaction| transaction.duration.is_none()) {
        for flowop in &mut transaction.flowops {
            let bytes = max_execution_bytes(flowop, files)?;
            flowop.file_bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        }
    }
    Ok(())
}

/// Returns the bytes of the largest execution of a flowop that sends files; 0 for other flowops.
fn max_execution_bytes(flowop: &Flowop, files: &Files) -> Result<u64, String> {
    let count = match flowop.kind {
        FlowopKind::Sendfile => 1,
        FlowopKind::Sendfilev => flowop.files.max(1) as usize,
        _ => return Ok(0),
    };
    let directory = &flowop.directory;
    let entry = files
        .iter()
        .find(|(known, _)| known == Path::new(directory));
    let files = entry.map(|(_, files)| files.as_slice()).unwrap_or_default();
    let length = |file: &File| file.metadata().map(|data| data.len()).unwrap_or_default();
    let lengths: Vec<u64> = files.iter().map(length).collect();
    let bytes = max_consecutive_bytes(&lengths, count);
    if bytes > MAX_READ_BYTES {
        return Err(format!(
            "dir={directory}: {} sends up to {bytes} bytes in one execution, \
             and a slave reads at most {MAX_READ_BYTES}; use duration= instead of iterations=",
            flowop.kind
        ));
    }
    Ok(bytes)
}

/// Returns the largest sum of `count` consecutive lengths of the endlessly repeated list.
fn max_consecutive_bytes(lengths: &[u64], count: usize) -> u64 {
    if lengths.is_empty() {
        return 0;
    }
    let rounds = (count / lengths.len()) as u64;
    let sum = lengths
        .iter()
        .fold(0, |sum: u64, length| sum.saturating_add(*length));
    let remainder = count % lengths.len();
    let sum_from = |start: usize| {
        let partial_round = lengths.iter().cycle().skip(start).take(remainder);
        partial_round.fold(0, |sum: u64, length| sum.saturating_add(*length))
    };
    let max_partial = (0..lengths.len()).map(sum_from).max().unwrap_or(0);
    sum.saturating_mul(rounds).saturating_add(max_partial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_execution_wraps_around_the_list() {
        for (lengths, count, expected) in [
            (&[][..], 3, 0),
            (&[5], 1, 5),
            (&[5], 3, 15),
            (&[1, 7, 2], 1, 7),
            (&[1, 7, 2], 2, 9),
            (&[1, 7, 2], 3, 10),
            (&[9, 1, 8], 2, 17),
            (&[9, 1, 8], 5, 35),
            (&[u64::MAX, 1], 4, u64::MAX),
        ] {
            assert_eq!(
                max_consecutive_bytes(lengths, count),
                expected,
                "{lengths:?} {count}"
            );
        }
    }
}
