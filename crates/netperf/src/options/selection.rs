//! Which selectors test options `-o`, `-O` and `-k` ask for.

use std::fs::File;
use std::io::Read;

use getopt::{Exit, Quit, refuse};

use super::Selection;
use crate::selector::{Needs, Selector};

/// A selection, and what has to be measured for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) selection: Selection,
    pub(super) needs: Needs,
}

/// The selection that an option's value describes: "" for the test's default columns, `?`, `all`,
/// a list of names, or else a file.
pub(super) fn select(text: &str) -> Result<Selected, Quit> {
    let without_needs = |selection| Selected {
        selection,
        needs: Needs::default(),
    };
    let blocks = match text {
        "" => return Ok(without_needs(Selection::Default)),
        "?" => return Ok(without_needs(Selection::List)),
        _ if text.eq_ignore_ascii_case("all") => all(),
        _ if text.contains([',', ';']) || Selector::by_name(text).is_some() => from_list(text)?,
        _ => {
            let blocks = from_file(text)?;
            // The stock tool measures nothing for what a file asks. Ours have no such habit.
            let mut needs: Needs = blocks.iter().flatten().collect();
            let is_ours = |selector: &&Selector| !matches!(selector, Selector::Stock(_));
            let of_ours: Needs = blocks.iter().flatten().filter(is_ours).collect();
            needs.latency = of_ours.latency;
            needs.retransmits = of_ours.retransmits;
            needs.peer_congestion_control = of_ours.peer_congestion_control;
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

/// What `all` prints, in four blocks: the stock tool's.
fn all() -> Vec<Vec<Selector>> {
    [
        ("SOCKET_TYPE", "RESPONSE_SIZE"),
        ("LOCAL_CPU_UTIL", "TRANSPORT_MSS"),
        ("LOCAL_SEND_THROUGHPUT", "REMOTE_CORK"),
        ("LOCAL_SYSNAME", "COMMAND_LINE"),
    ]
    .map(|(first, last)| Selector::between(first, last).collect())
    .into()
}

/// Names separated by commas and blanks, in blocks separated by semicolons. An empty block counts:
/// the stock tool prints nothing for it, but the blocks after it as if it were there.
fn from_list(text: &str) -> Result<Vec<Vec<Selector>>, Quit> {
    text.split(';')
        .take(MAX_BLOCKS)
        .map(|block| {
            block
                .split([',', ' ', '\t', '\r', '\n'])
                .filter(|name| !name.is_empty())
                .map(|name| match Selector::by_name(name) {
                    Some(selector) => Ok(selector),
                    None => refuse(format!("no selector is called '{name}' ('?' lists them)")),
                })
                .collect()
        })
        .collect()
}

/// Each line of a file is a block, its entries separated by commas.
fn from_file(path: &str) -> Result<Vec<Vec<Selector>>, Quit> {
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
                Some(selector) => block.push(selector),
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

/// An entry of a file: a name, or the lines of a column header joined by blanks. An empty one is
/// the placeholder.
fn by_name_or_header(entry: &str) -> Option<Selector> {
    if entry.is_empty() {
        return Selector::by_name("OUTPUT_NONE");
    }
    Selector::by_name(entry).or_else(|| Selector::by_header(entry))
}

fn stock<T>(stdout: String) -> Result<T, Quit> {
    Err(Quit::Exit(Exit::stdout(stdout, 255)))
}

const MAX_BLOCKS: usize = 4;

/// Bytes from which on the stock tool finds an entry too long.
const MAX_ENTRY: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    #[test]
    fn selections() {
        for (text, blocks) in [
            ("THROUGHPUT", &[&["THROUGHPUT"] as &[&str]] as &[&[&str]]),
            ("throughput,Elapsed_Time", &[&["THROUGHPUT", "ELAPSED_TIME"]]),
            ("THROUGHPUT, UUID", &[&["THROUGHPUT", "UUID"]]),
            ("throughput ,,UUID", &[&["THROUGHPUT", "UUID"]]),
            ("UUID;THROUGHPUT UUID", &[&["UUID"], &["THROUGHPUT", "UUID"]]),
            (" ;UUID;;UUID;UUID;NOSUCH", &[&[], &["UUID"], &[], &["UUID"]]),
        ] {
            assert_eq!(names(&select(text).unwrap().selection), blocks, "{text}");
        }
        assert_eq!(select("").unwrap().selection, Selection::Default);
        assert_eq!(select("?").unwrap().selection, Selection::List);
    }

    #[test]
    fn all_is_four_blocks() {
        let Selected { selection, needs } = select("All").unwrap();
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
        assert_eq!(names.concat().len(), Selector::stock().count() - 2);
        assert!(needs.latency && needs.peer_congestion_control);
    }

    #[test]
    fn what_a_list_asks_for_is_measured() {
        for (text, latency, congestion_control) in [
            ("P50_LATENCY", true, false),
            ("THROUGHPUT,stddev_latency", true, false),
            ("RT_LATENCY", false, false),
            ("LOCAL_CONG_CONTROL,UUID", false, false),
            ("UUID;REMOTE_CONG_CONTROL", false, true),
            ("p99.9_latency", true, false),
        ] {
            let needs = select(text).unwrap().needs;
            let got = (needs.latency, needs.peer_congestion_control);
            assert_eq!(got, (latency, congestion_control), "{text}");
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
        assert!(!selected.needs.latency, "a file measures nothing");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn files_with_ours_are_measured() {
        let path = file("ours", "P99.9_LATENCY,Latency Samples\n");
        let selected = select(&path).unwrap();
        assert_eq!(
            names(&selected.selection),
            [["P99.9_LATENCY", "LATENCY_SAMPLES"]]
        );
        assert!(selected.needs.latency);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_cannot_be_selected_is_refused() {
        match select("THROUGHPUT,NOSUCH") {
            Err(Quit::Refused(why)) => {
                assert_eq!(why, "no selector is called 'NOSUCH' ('?' lists them)");
            }
            other => panic!("{other:?}"),
        }
        match select("NOSUCH") {
            Err(Quit::Exit(exit)) => assert_eq!(
                (exit.stdout.as_str(), exit.code),
                (
                    "Could not open output selection file 'NOSUCH' errno 2\n",
                    255
                )
            ),
            other => panic!("{other:?}"),
        }
        let path = file("entry", "UUID,NOSUCH\n");
        assert!(matches!(select(&path), Err(Quit::Refused(_))));
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
                Err(Quit::Exit(exit)) => assert_eq!(
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

    fn file(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("netperf-sel-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    }
}
