//! Files that sendfile and sendfilev send.

use std::fs::{self, File};
use std::path::Path;

use crate::strand::Files;
use crate::{Flowop, Group, Kind};

/// How deep directories are searched.
const DEPTH: usize = 32;

/// How many files of a directory are opened.
const MOST_FILES: usize = 4096;

/// Largest size of a read that every slave understands.
const LARGEST_READ: u64 = i32::MAX as u64;

/// What the group's sendfiles send: all readable files below each directory.
pub(super) fn files(group: &Group) -> Result<Files, String> {
    let mut all = Files::new();
    for flowop in (group.flowops()).filter(|flowop| !flowop.directory.is_empty()) {
        let directory = Path::new(&flowop.directory);
        if all.iter().any(|(known, _)| known == directory) {
            continue;
        }
        let mut files = Vec::new();
        let refused = |why: String| {
            let name = directory.display();
            format!("Error initializing dir: {name}: {why}")
        };
        find(directory, DEPTH, &mut files).map_err(|error| refused(sys::describe(&error)))?;
        if files.is_empty() {
            return Err(refused("no readable file".to_owned()));
        }
        all.push((directory.to_owned(), files));
    }
    Ok(all)
}

fn find(directory: &Path, depth: usize, files: &mut Vec<File>) -> std::io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        // Links are not followed: a directory may contain itself.
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 0 {
            let _ = find(&entry.path(), depth - 1, files);
        } else if kind.is_file() && files.len() < MOST_FILES {
            files.extend(File::open(entry.path()));
        }
    }
    Ok(())
}

/// Sets the size of what a slave reads while files are sent a number of times: all that one execution sends. Stock
/// masters have 65536 bytes read, whatever is sent; more than that is never read, and blocks them for ever.
pub(super) fn settle_reads(group: &mut Group, files: &Files) -> Result<(), String> {
    let transactions = group.transactions.iter_mut();
    for transaction in transactions.filter(|transaction| transaction.duration.is_none()) {
        for flowop in &mut transaction.flowops {
            let bytes = longest_execution(flowop, files)?;
            flowop.file_bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        }
    }
    Ok(())
}

/// Bytes of the longest execution of a flowop that sends files.
fn longest_execution(flowop: &Flowop, files: &Files) -> Result<u64, String> {
    let count = match flowop.kind {
        Kind::Sendfile => 1,
        Kind::Sendfilev => flowop.files.max(1) as usize,
        _ => return Ok(0),
    };
    let directory = &flowop.directory;
    let found = files
        .iter()
        .find(|(known, _)| known == Path::new(directory));
    let files = found.map(|(_, files)| files.as_slice()).unwrap_or_default();
    let length = |file: &File| file.metadata().map(|data| data.len()).unwrap_or_default();
    let lengths: Vec<u64> = files.iter().map(length).collect();
    let bytes = longest_run(&lengths, count);
    if bytes > LARGEST_READ {
        return Err(format!(
            "dir={directory}: {} sends up to {bytes} bytes in one execution, and a slave reads at most \
             {LARGEST_READ}; use duration= instead of iterations=",
            flowop.kind
        ));
    }
    Ok(bytes)
}

/// The largest sum of so many lengths in turn, which go round and round.
fn longest_run(lengths: &[u64], count: usize) -> u64 {
    if lengths.is_empty() {
        return 0;
    }
    let rounds = (count / lengths.len()) as u64;
    let all = lengths
        .iter()
        .fold(0, |sum: u64, length| sum.saturating_add(*length));
    let rest = count % lengths.len();
    let from = |start: usize| {
        let rest = lengths.iter().cycle().skip(start).take(rest);
        rest.fold(0, |sum: u64, length| sum.saturating_add(*length))
    };
    let longest = (0..lengths.len()).map(from).max().unwrap_or(0);
    all.saturating_mul(rounds).saturating_add(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sent_in_turn() {
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
            assert_eq!(longest_run(lengths, count), expected, "{lengths:?} {count}");
        }
    }
}
