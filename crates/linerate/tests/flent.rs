//! Debian's flent with only our netperf and netserver in its path. Its tests finish, every series
//! has data, and flent draws the plots.
//!
//! Without flent, ping(8), or permission to create network namespaces, the tests are skipped and
//! print the reason. With `LINERATE_REQUIRE_PEERS=1` in the environment they fail.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::{Namespace, ProcessOutput, Server, TestCase};

/// Maximum time of a test of a few seconds and its plot. matplotlib is slow on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Programs that flent runs besides netperf: ping(8) for its ICMP series, the others to probe
/// features.
const HELPERS: [&str; 3] = ["ping", "dd", "ss"];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let missing = ["flent", "ping"]
        .into_iter()
        .find(|program| find_program(program).is_none())
        .map(|program| format!("{program} is not installed"))
        .or_else(Namespace::missing_reason);
    // Test, number of series, and number of series over TCP.
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
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = link_programs(directory.path())?;
    let namespace = Namespace::new();
    let server = namespace.enter(|| Server::start("-4"));

    let plot = directory.path().join("plot.png");
    let mut flent = Command::new(find_program("flent").expect("flent is installed"));
    flent
        .args([name, "-4", "-H", "127.0.0.1", "-l", "3", "--delay", "1"])
        .args(["--netperf-control-port", &server.port.to_string()])
        .args(["-f", "plot", "-t", "ours"])
        .arg("-D")
        .arg(directory.path())
        .arg("-o")
        .arg(&plot)
        .env("PATH", &programs)
        .env("HOME", directory.path())
        .env("MPLBACKEND", "Agg");
    let finished = namespace
        .enter(|| testkit::run(flent, TIME_LIMIT))
        .map_err(|error| error.to_string())?;
    let fail = |reason: &str| Err(format!("{name}: {reason}: {finished:?}"));
    if finished.code != Some(0) || reports_error(&finished) {
        return fail("flent reports an error");
    }

    let data = read_data(directory.path())?;
    let results = data["results"].as_object().ok_or("no results")?;
    if results.len() != series {
        return fail(&format!("{} series", results.len()));
    }
    for (key, values) in results {
        let values = values.as_array().ok_or("a series is not a list")?;
        if values.iter().filter_map(Value::as_f64).count() < 5 {
            return fail(&format!("'{key}' has no data"));
        }
    }
    let metadata = data["metadata"]["SERIES_META"].as_object();
    let tcp_series = metadata.into_iter().flatten().filter(|(_, meta)| {
        // From the result's selectors and the output of DUMP_TCP_INFO.
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
    if tcp_series.count() != connections {
        return fail(&format!(
            "TCP information is missing: {}",
            data["metadata"]["SERIES_META"]
        ));
    }
    let image = fs::read(&plot).unwrap_or_default();
    if !image.starts_with(b"\x89PNG\r\n") || image.len() < 10_000 {
        return fail("no plot");
    }
    Ok(())
}

/// Creates a directory that contains only our programs and [`HELPERS`].
fn link_programs(parent: &Path) -> Result<PathBuf, String> {
    let directory = parent.join("bin");
    let link = |target: &Path, name: &str| {
        symlink(target, directory.join(name)).map_err(|error| error.to_string())
    };
    fs::create_dir(&directory).map_err(|error| error.to_string())?;
    for name in ["netperf", "netserver"] {
        link(&testkit::linerate_path(), name)?;
    }
    for name in HELPERS {
        if let Some(program) = find_program(name) {
            link(&program, name)?;
        }
    }
    Ok(directory)
}

fn reports_error(finished: &ProcessOutput) -> bool {
    [
        "exited non-zero",
        "Missing required netperf metadata",
        "Duplicate key",
        "ERROR",
        "Traceback",
    ]
    .iter()
    .any(|text| finished.stdout.contains(text) || finished.stderr.contains(text))
}

/// Reads the data file that flent wrote.
fn read_data(directory: &Path) -> Result<Value, String> {
    let files = fs::read_dir(directory).map_err(|error| error.to_string())?;
    let file = files
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(".flent.gz"))
        .ok_or("no data file")?;
    let mut gzip = Command::new("gzip");
    gzip.arg("-dc").arg(file);
    let text = testkit::run(gzip, TIME_LIMIT).map_err(|error| error.to_string())?;
    serde_json::from_str(&text.stdout).map_err(|error| error.to_string())
}

/// Returns the path of a program in the PATH.
fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}
