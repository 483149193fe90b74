//! Which selectors test options `-o`, `-O` and `-k` ask for.

use std::fs::File;
use std::io::Read;

use super::getopt::{Stop, refuse};
use super::{Exit, Selection};
use crate::output::SELECTORS;

/// A selection, and what has to be measured for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) selection: Selection,
    /// It asks for latency statistics.
    pub(super) wants_latency: bool,
    /// It asks for the peer's congestion control algorithm.
    pub(super) wants_congestion_control: bool,
}

/// The selection that an option's value describes: "" for the test's default columns, `?`, `all`,
/// a list of names, or else a file.
pub(super) fn select(text: &str) -> Result<Selected, Stop> {
    let blocks = match text {
        "" => return Ok(unmeasured(Selection::Default)),
        "?" => return Ok(unmeasured(Selection::List)),
        _ if text.eq_ignore_ascii_case("all") => all(),
        _ if text.contains([',', ';']) || by_name(text).is_some() => from_list(text)?,
        _ => return from_file(text).map(|blocks| unmeasured(Selection::Blocks(blocks))),
    };
    let asks = |name: &str| {
        blocks
            .iter()
            .flatten()
            .any(|&index| SELECTORS[index].name == name)
    };
    Ok(Selected {
        wants_latency: LATENCY.iter().any(|name| asks(name)),
        wants_congestion_control: asks("REMOTE_CONG_CONTROL"),
        selection: Selection::Blocks(blocks),
    })
}

/// A selection that switches nothing on. A file's does not, as in the stock tool.
fn unmeasured(selection: Selection) -> Selected {
    Selected {
        selection,
        wants_latency: false,
        wants_congestion_control: false,
    }
}

/// What `all` prints, in four blocks.
fn all() -> Vec<Vec<usize>> {
    [
        ("SOCKET_TYPE", "RESPONSE_SIZE"),
        ("LOCAL_CPU_UTIL", "TRANSPORT_MSS"),
        ("LOCAL_SEND_THROUGHPUT", "REMOTE_CORK"),
        ("LOCAL_SYSNAME", "COMMAND_LINE"),
    ]
    .into_iter()
    .filter_map(|(first, last)| Some((by_name(first)?..=by_name(last)?).collect()))
    .collect()
}

/// Names separated by commas and blanks, in blocks separated by semicolons. An empty block counts:
/// the stock tool prints nothing for it, but the blocks after it as if it were there.
fn from_list(text: &str) -> Result<Vec<Vec<usize>>, Stop> {
    text.split(';')
        .take(MAX_BLOCKS)
        .map(|block| {
            block
                .split([',', ' ', '\t', '\r', '\n'])
                .filter(|name| !name.is_empty())
                .map(|name| match by_name(name) {
                    Some(index) => Ok(index),
                    None => refuse(format!("no selector is called '{name}' ('?' lists them)")),
                })
                .collect()
        })
        .collect()
}

/// Each line of a file is a block, its entries separated by commas.
fn from_file(path: &str) -> Result<Vec<Vec<usize>>, Stop> {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or_default();
            return stock(format!(
                "Could not open output selection file '{path}' errno {errno}\n"
            ));
        }
    };
    let mut blocks = Vec::new();
    // The stock message counts from the start of the file and swaps the two numbers.
    let mut start = 0;
    for (number, line) in text.lines().enumerate().take(MAX_BLOCKS) {
        let mut block = Vec::new();
        for entry in line.split(',') {
            if entry.len() >= MAX_ENTRY {
                return stock(format!(
                    "Output selection starting column {} on line {} is too long\n",
                    number + 1,
                    start + MAX_ENTRY + 1
                ));
            }
            start += entry.len() + 1;
            match by_name_or_header(entry.trim()) {
                Some(index) => block.push(index),
                None => return refuse(format!("it has no selector called '{}'", entry.trim())),
            }
        }
        blocks.push(block);
    }
    Ok(blocks)
}

/// At most as much as four lines of every selector's header can fill.
fn read(path: &str) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(64 << 10).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn by_name(name: &str) -> Option<usize> {
    SELECTORS
        .iter()
        .position(|selector| selector.name.eq_ignore_ascii_case(name))
}

/// An entry of a file: a name, or the lines of a column header joined by blanks. An empty one is
/// the placeholder, which is the first selector.
fn by_name_or_header(entry: &str) -> Option<usize> {
    if entry.is_empty() {
        return Some(0);
    }
    by_name(entry).or_else(|| {
        SELECTORS.iter().position(|selector| {
            let lines: Vec<_> = selector
                .header
                .into_iter()
                .filter(|line| !line.is_empty())
                .collect();
            lines.join(" ").eq_ignore_ascii_case(entry)
        })
    })
}

fn stock<T>(stdout: String) -> Result<T, Stop> {
    Err(Stop::Exit(Exit {
        stdout,
        code: 255,
        ..Exit::default()
    }))
}

const MAX_BLOCKS: usize = 4;

/// Bytes from which on the stock tool finds an entry too long.
const MAX_ENTRY: usize = 80;

/// Selectors that keep latency statistics.
const LATENCY: [&str; 7] = [
    "MIN_LATENCY",
    "MAX_LATENCY",
    "P50_LATENCY",
    "P90_LATENCY",
    "P99_LATENCY",
    "MEAN_LATENCY",
    "STDDEV_LATENCY",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections() {
        for (text, blocks) in [
            ("THROUGHPUT", &[&["THROUGHPUT"] as &[&str]] as &[&[&str]]),
            (
                "throughput,Elapsed_Time",
                &[&["THROUGHPUT", "ELAPSED_TIME"]],
            ),
            ("THROUGHPUT, UUID", &[&["THROUGHPUT", "UUID"]]),
            ("throughput ,,UUID", &[&["THROUGHPUT", "UUID"]]),
            (
                "UUID;THROUGHPUT UUID",
                &[&["UUID"], &["THROUGHPUT", "UUID"]],
            ),
            (
                " ;UUID;;UUID;UUID;NOSUCH",
                &[&[], &["UUID"], &[], &["UUID"]],
            ),
        ] {
            assert_eq!(names(&select(text).unwrap().selection), blocks, "{text}");
        }
        assert_eq!(select("").unwrap().selection, Selection::Default);
        assert_eq!(select("?").unwrap().selection, Selection::List);
    }

    #[test]
    fn all_is_four_blocks() {
        let Selected {
            selection,
            wants_latency,
            wants_congestion_control,
        } = select("All").unwrap();
        let names = names(&selection);
        let ends: Vec<_> = names.iter().map(|b| (b[0], b[b.len() - 1])).collect();
        assert_eq!(
            ends,
            [
                ("SOCKET_TYPE", "RESPONSE_SIZE"),
                ("LOCAL_CPU_UTIL", "TRANSPORT_MSS"),
                ("LOCAL_SEND_THROUGHPUT", "REMOTE_CORK"),
                ("LOCAL_SYSNAME", "COMMAND_LINE"),
            ]
        );
        assert!(wants_latency && wants_congestion_control);
    }

    #[test]
    fn what_a_list_asks_for_is_measured() {
        for (text, latency, congestion_control) in [
            ("P50_LATENCY", true, false),
            ("THROUGHPUT,stddev_latency", true, false),
            ("RT_LATENCY", false, false),
            ("LOCAL_CONG_CONTROL,UUID", false, false),
            ("UUID;REMOTE_CONG_CONTROL", false, true),
        ] {
            let selected = select(text).unwrap();
            assert_eq!(selected.wants_latency, latency, "{text}");
            assert_eq!(
                selected.wants_congestion_control, congestion_control,
                "{text}"
            );
        }
    }

    #[test]
    fn files_hold_names_and_headers() {
        let path = file(
            "names",
            "throughput,elapsed time (sec)\n\nUUID,\nP50_LATENCY\nNOSUCH\n",
        );
        let selected = select(&path).unwrap();
        assert_eq!(
            names(&selected.selection),
            [
                &["THROUGHPUT", "ELAPSED_TIME"] as &[&str],
                &["OUTPUT_NONE"],
                &["UUID", "OUTPUT_NONE"],
                &["P50_LATENCY"],
            ]
        );
        assert!(!selected.wants_latency, "a file measures nothing");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_cannot_be_selected_is_refused() {
        match select("THROUGHPUT,NOSUCH") {
            Err(Stop::Refused(why)) => {
                assert_eq!(why, "no selector is called 'NOSUCH' ('?' lists them)");
            }
            other => panic!("{other:?}"),
        }
        match select("NOSUCH") {
            Err(Stop::Exit(exit)) => assert_eq!(
                (exit.stdout.as_str(), exit.code),
                (
                    "Could not open output selection file 'NOSUCH' errno 2\n",
                    255
                )
            ),
            other => panic!("{other:?}"),
        }
        let path = file("entry", "UUID,NOSUCH\n");
        assert!(matches!(select(&path), Err(Stop::Refused(_))));
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
            let path = file("long", &text);
            match select(&path) {
                Err(Stop::Exit(exit)) => assert_eq!(
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

    fn names(selection: &Selection) -> Vec<Vec<&'static str>> {
        let Selection::Blocks(blocks) = selection else {
            panic!("{selection:?}");
        };
        blocks
            .iter()
            .map(|block| block.iter().map(|&index| SELECTORS[index].name).collect())
            .collect()
    }

    fn file(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("netperf-sel-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    }
}
