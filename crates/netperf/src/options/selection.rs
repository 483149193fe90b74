//! The selectors of test options `-o`, `-O` and `-k`.

use getopt::{EarlyExit, Exit, refuse};

use super::Selection;
use crate::selector::{RequiredMeasurements, Selector};

/// A selection and the measurements that it requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) selection: Selection,
    pub(super) needs: RequiredMeasurements,
}

/// Parses the value of `-o`, `-O` or `-k`.
///
/// The value is "" (the test's default columns), `?`, `all`, a list of names, or else a file.
pub(super) fn parse_selection(text: &str) -> Result<Selected, EarlyExit> {
    let without_needs = |selection| Selected {
        selection,
        needs: RequiredMeasurements::default(),
    };
    let blocks = match text {
        "" => return Ok(without_needs(Selection::Default)),
        "?" => return Ok(without_needs(Selection::List)),
        _ if text.eq_ignore_ascii_case("all") => all_blocks(),
        _ if text.contains([',', ';']) || Selector::by_name(text).is_some() => parse_list(text)?,
        _ => {
            let blocks = parse_file(text)?;
            // Stock measures nothing extra for the selectors in a file. linerate does the same for
            // stock selectors only.
            let mut needs: RequiredMeasurements = blocks.iter().flatten().collect();
            let is_linerate = |selector: &&Selector| !matches!(selector, Selector::Stock(_));
            let linerate_needs: RequiredMeasurements =
                blocks.iter().flatten().filter(is_linerate).collect();
            needs.latency = linerate_needs.latency;
            needs.retransmits = linerate_needs.retransmits;
            needs.peer_congestion_control = linerate_needs.peer_congestion_control;
            return Ok(Selected {
                needs,
                selection: Selection::Blocks(blocks),
            });
        }
    };
    Ok(Selected {
        needs: blocks.iter().flatten().collect(),
        selection: Selection::Blocks(blocks),
    })
}

/// Returns the selectors of `all`, in four blocks like the stock tool.
fn all_blocks() -> Vec<Vec<Selector>> {
    [
        ("SOCKET_TYPE", "RESPONSE_SIZE"),
        ("LOCAL_CPU_UTIL", "TRANSPORT_MSS"),
        ("LOCAL_SEND_THROUGHPUT", "REMOTE_CORK"),
        ("LOCAL_SYSNAME", "COMMAND_LINE"),
    ]
    .map(|(first, last)| Selector::stock_between(first, last).collect())
    .into()
}

/// Parses names separated by commas and blanks, in blocks separated by semicolons.
///
/// An empty block prints nothing but counts as a block, as in the stock tool.
fn parse_list(text: &str) -> Result<Vec<Vec<Selector>>, EarlyExit> {
    text.split(';')
        .take(MAX_BLOCKS)
        .map(|block| {
            block
                .split([',', ' ', '\t', '\r', '\n'])
                .filter(|name| !name.is_empty())
                .map(|name| match Selector::by_name(name) {
                    Some(selector) => Ok(selector),
                    None => refuse(format!("unknown selector '{name}' ('?' lists them)")),
                })
                .collect()
        })
        .collect()
}

/// Parses a file: one block per line, with entries separated by commas.
fn parse_file(path: &str) -> Result<Vec<Vec<Selector>>, EarlyExit> {
    let text = match sys::input_file::read(path.as_ref()) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            let Some(errno) = error.raw_os_error() else {
                let reason = sys::describe(&error);
                return refuse(format!("output selection file '{path}': {reason}"));
            };
            return stock_error(format!(
                "Could not open output selection file '{path}' errno {errno}\n"
            ));
        }
    };
    let mut blocks = Vec::new();
    // The stock message swaps the line and the column, and counts the column from the start of
    // the file.
    let mut entry_start = 0;
    for (index, line) in text.lines().enumerate().take(MAX_BLOCKS) {
        let mut block = Vec::new();
        for entry in line.split(',') {
            if entry.len() >= MAX_ENTRY_BYTES {
                return stock_error(format!(
                    "Output selection starting column {} on line {} is too long\n",
                    index + 1,
                    entry_start + MAX_ENTRY_BYTES + 1
                ));
            }
            entry_start += entry.len() + 1;
            let Some(selector) = by_name_or_header(entry.trim()) else {
                let entry = codec::escaped(entry.trim());
                return refuse(format!("unknown selector '{entry}' in the file"));
            };
            block.push(selector);
        }
        blocks.push(block);
    }
    Ok(blocks)
}

/// Returns the selector of a file's entry.
///
/// The entry is a name, or the lines of a column header joined by blanks, or empty (OUTPUT_NONE).
fn by_name_or_header(entry: &str) -> Option<Selector> {
    if entry.is_empty() {
        return Selector::by_name("OUTPUT_NONE");
    }
    Selector::by_name(entry).or_else(|| Selector::by_header(entry))
}

fn stock_error<T>(stdout: String) -> Result<T, EarlyExit> {
    Err(EarlyExit::Exit(Exit::stdout(stdout, 255)))
}

/// The maximum number of blocks in a selection, as in the stock tool.
const MAX_BLOCKS: usize = 4;

/// The length in bytes from which the stock tool refuses an entry.
const MAX_ENTRY_BYTES: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    #[test]
    fn lists_are_parsed_into_blocks() {
        for (text, blocks) in [
            ("THROUGHPUT", &[&["THROUGHPUT"] as &[&str]] as &[&[&str]]),
            ("throughput,Elapsed_Time", &[&["THROUGHPUT", "ELAPSED_TIME"]]),
            ("THROUGHPUT, UUID", &[&["THROUGHPUT", "UUID"]]),
            ("throughput ,,UUID", &[&["THROUGHPUT", "UUID"]]),
            ("UUID;THROUGHPUT UUID", &[&["UUID"], &["THROUGHPUT", "UUID"]]),
            (" ;UUID;;UUID;UUID;NOSUCH", &[&[], &["UUID"], &[], &["UUID"]]),
        ] {
            assert_eq!(names(&parse_selection(text).unwrap().selection), blocks, "{text}");
        }
        assert_eq!(parse_selection("").unwrap().selection, Selection::Default);
        assert_eq!(parse_selection("?").unwrap().selection, Selection::List);
    }

    #[test]
    fn all_is_four_blocks() {
        let Selected { selection, needs } = parse_selection("All").unwrap();
        let names = names(&selection);
        let ends: Vec<_> = names
            .iter()
            .map(|block| (block[0], block[block.len() - 1]))
            .collect();
        assert_eq!(
            ends,
            [
                ("SOCKET_TYPE", "RESPONSE_SIZE"),
                ("LOCAL_CPU_UTIL", "TRANSPORT_MSS"),
                ("LOCAL_SEND_THROUGHPUT", "REMOTE_CORK"),
                ("LOCAL_SYSNAME", "COMMAND_LINE"),
            ]
        );
        assert_eq!(names.concat().len(), Selector::stock().count() - 2);
        assert!(needs.latency && needs.peer_congestion_control);
    }

    #[test]
    fn selectors_in_a_list_are_measured() {
        for (text, latency, congestion_control) in [
            ("P50_LATENCY", true, false),
            ("THROUGHPUT,stddev_latency", true, false),
            ("RT_LATENCY", false, false),
            ("LOCAL_CONG_CONTROL,UUID", false, false),
            ("UUID;REMOTE_CONG_CONTROL", false, true),
            ("p99.9_latency", true, false),
        ] {
            let needs = parse_selection(text).unwrap().needs;
            let measured = (needs.latency, needs.peer_congestion_control);
            assert_eq!(measured, (latency, congestion_control), "{text}");
        }
    }

    #[test]
    fn files_hold_names_and_headers() {
        let path = write_file(
            "names",
            "throughput,elapsed time (sec)\n\nUUID,\nP50_LATENCY\nNOSUCH\n",
        );
        let selected = parse_selection(&path).unwrap();
        assert_eq!(
            names(&selected.selection),
            [
                &["THROUGHPUT", "ELAPSED_TIME"] as &[&str],
                &["OUTPUT_NONE"],
                &["UUID", "OUTPUT_NONE"],
                &["P50_LATENCY"],
            ]
        );
        assert!(
            !selected.needs.latency,
            "stock selectors in a file require no measurement"
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn linerate_selectors_in_files_are_measured() {
        let path = write_file("linerate", "P99.9_LATENCY,Latency Samples\n");
        let selected = parse_selection(&path).unwrap();
        assert_eq!(
            names(&selected.selection),
            [["P99.9_LATENCY", "LATENCY_SAMPLES"]]
        );
        assert!(selected.needs.latency);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn unknown_selectors_are_refused() {
        match parse_selection("THROUGHPUT,NOSUCH") {
            Err(EarlyExit::Refused(reason)) => {
                assert_eq!(reason, "unknown selector 'NOSUCH' ('?' lists them)");
            }
            other => panic!("{other:?}"),
        }
        match parse_selection("NOSUCH") {
            Err(EarlyExit::Exit(exit)) => assert_eq!(
                (exit.stdout.as_str(), exit.code),
                (
                    "Could not open output selection file 'NOSUCH' errno 2\n",
                    255
                )
            ),
            other => panic!("{other:?}"),
        }
        let path = write_file("entry", "UUID,NOSUCH\n");
        assert!(matches!(parse_selection(&path), Err(EarlyExit::Refused(_))));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn long_entries_get_the_stock_message() {
        let long = "A".repeat(80);
        for (text, column, line) in [
            (format!("{long},UUID"), 1, 81),
            (format!("THROUGHPUT,{long}"), 1, 92),
            (format!("UUID\nTHROUGHPUT,{long}AAAA"), 2, 97),
        ] {
            let path = write_file("long", &text);
            match parse_selection(&path) {
                Err(EarlyExit::Exit(exit)) => assert_eq!(
                    exit.stdout,
                    format!(
                        "Output selection starting column {column} on line {line} is too long\n"
                    )
                ),
                other => panic!("{text}: {other:?}"),
            }
            std::fs::remove_file(path).unwrap();
        }
    }

    fn names(selection: &Selection) -> Vec<Vec<&str>> {
        let Selection::Blocks(blocks) = selection else {
            panic!("{selection:?}");
        };
        blocks
            .iter()
            .map(|block| block.iter().map(Selector::name).collect())
            .collect()
    }

    fn write_file(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("netperf-sel-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    }
}
