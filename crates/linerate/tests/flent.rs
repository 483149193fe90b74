//! flent, as Debian has it, with only our netperf and netserver in its path: its tests run to the end,
//! every series of them has data, and the plots are drawn.
//!
//! Without flent or ping(8), or the right to make a network namespace, it is skipped and says so; with
//! `LINERATE_REQUIRE_PEERS=1` in the environment it fails.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::{Namespace, ProcessOutput, Server, TestCase};

/// A test of a few seconds, and its plot; matplotlib takes its time on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// What flent calls besides netperf: ping(8) for its ICMP series, the others to find out what is there.
const HELPERS: [&str; 3] = ["ping", "dd", "ss"];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let missing = ["flent", "ping"]
        .into_iter()
        .find(|program| found(program).is_none())
        .map(|program| format!("{program} is not installed"))
        .or_else(Namespace::missing_reason);
    // A test, how many series it has, and how many of them are TCP connections.
    [
        ("rrul", 18, 8),
        ("tcp_download", 2, 1),
        ("tcp_upload", 2, 1),
        ("tcp_2up", 5, 2),
    ]
    .map(|(name, series, connections)| {
        testkit::test_case_unless(missing.clone(), name, move || {
            run(name, series, connections)
        })
        .run_alone()
    })
    .into()
}

fn run(name: &str, series: usize, connections: usize) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = programs(place.path())?;
    let namespace = Namespace::new();
    let server = namespace.enter(|| Server::start("-4"));

    let plot = place.path().join("plot.png");
    let mut flent = Command::new(found("flent").expect("looked for before"));
    flent
        .args([name, "-4", "-H", "127.0.0.1", "-l", "3", "--delay", "1"])
        .args(["--netperf-control-port", &server.port.to_string()])
        .args(["-f", "plot", "-t", "ours"])
        .arg("-D")
        .arg(place.path())
        .arg("-o")
        .arg(&plot)
        .env("PATH", &programs)
        .env("HOME", place.path())
        .env("MPLBACKEND", "Agg");
    let said = namespace
        .enter(|| testkit::run(flent, LIMIT))
        .map_err(|error| error.to_string())?;
    let wrong = |what: &str| Err(format!("{name}: {what}: {said:?}"));
    if said.code != Some(0) || complains(&said) {
        return wrong("flent is not content");
    }

    let data = data(place.path())?;
    let results = data["results"].as_object().ok_or("no results")?;
    if results.len() != series {
        return wrong(&format!("{} series", results.len()));
    }
    for (key, values) in results {
        let values = values.as_array().ok_or("a series is no list")?;
        if values.iter().filter_map(Value::as_f64).count() < 5 {
            return wrong(&format!("'{key}' has no data"));
        }
    }
    let about = data["metadata"]["SERIES_META"].as_object();
    let told = about.into_iter().flatten().filter(|(_, meta)| {
        // From the result's selectors, and from what DUMP_TCP_INFO says.
        [
            "TCP_MSS",
            "CONG_CONTROL",
            "BYTES_RECVD",
            "TCPI_RTT",
            "TCPI_TOTAL_RETRANS",
        ]
        .iter()
        .all(|key| !meta[key].is_null())
            && meta["MEAN_VALUE"].as_f64() > Some(0.0)
    });
    if told.count() != connections {
        return wrong(&format!(
            "facts of TCP are missing: {}",
            data["metadata"]["SERIES_META"]
        ));
    }
    let image = fs::read(&plot).unwrap_or_default();
    if !image.starts_with(b"\x89PNG\r\n") || image.len() < 10_000 {
        return wrong("no plot");
    }
    Ok(())
}

/// A directory with our programs, what flent calls besides, and nothing else.
fn programs(place: &Path) -> Result<PathBuf, String> {
    let directory = place.join("bin");
    let link = |target: &Path, name: &str| {
        symlink(target, directory.join(name)).map_err(|error| error.to_string())
    };
    fs::create_dir(&directory).map_err(|error| error.to_string())?;
    for name in ["netperf", "netserver"] {
        link(&testkit::program(), name)?;
    }
    for name in HELPERS {
        if let Some(program) = found(name) {
            link(&program, name)?;
        }
    }
    Ok(directory)
}

fn complains(said: &ProcessOutput) -> bool {
    [
        "exited non-zero",
        "Missing required netperf metadata",
        "Duplicate key",
        "ERROR",
        "Traceback",
    ]
    .iter()
    .any(|text| said.stdout.contains(text) || said.stderr.contains(text))
}

/// The data file that flent has left, of which there is one.
fn data(place: &Path) -> Result<Value, String> {
    let files = fs::read_dir(place).map_err(|error| error.to_string())?;
    let file = files
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(".flent.gz"))
        .ok_or("no data file")?;
    let mut gzip = Command::new("gzip");
    gzip.arg("-dc").arg(file);
    let text = testkit::run(gzip, LIMIT).map_err(|error| error.to_string())?;
    serde_json::from_str(&text.stdout).map_err(|error| error.to_string())
}

/// Where a program is.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}
