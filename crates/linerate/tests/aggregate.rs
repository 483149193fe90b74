//! The shell commands of the manual's chapter on aggregate performance, with other names and times.
//! Also the programs in `examples/` that replace its helper scripts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use testkit::{Requirement, Server, TestCase, figures, linerate_path};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        concurrent_runs_print_one_row_each,
        brand_identifies_each_row,
        sequential_and_concurrent_bursts,
        interim_results_have_three_layouts,
    ];
    test_cases.extend(testkit::test_cases![
        needing &[Requirement::Program("python3")];
        aggregate_example_sums_concurrent_runs,
        interim_to_rrd_aligns_instances,
    ]);
    test_cases
}

/// A directory with ours as `netperf`, and a server.
struct Setup {
    directory: TempDir,
    server: Server,
}

impl Setup {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        symlink(linerate_path(), directory.path().join("netperf")).unwrap();
        let server = Server::start("");
        Self { directory, server }
    }

    /// Returns a command with netperf in its search path. The variable `SERVER` has the options
    /// that name the server.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut path = self.directory.path().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new(program.as_ref());
        command
            .env("PATH", path)
            .env("SERVER", format!("-H 127.0.0.1 -p {}", self.server.port))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Runs a shell script and returns its stdout.
    fn sh(&self, script: &str) -> String {
        let output = self.command("/bin/sh").args(["-c", script]).output();
        stdout_of(&output.unwrap(), script)
    }
}

/// Returns the stdout. Panics unless the command succeeded.
fn stdout_of(output: &Output, command: &str) -> String {
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{command}: {stdout}{stderr}");
    stdout.into_owned()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

fn concurrent_runs_print_one_row_each() {
    let setup = Setup::new();
    for (options, columns) in [("-P 0", 5), ("-P 0 -c -C", 9), ("-P 0 -i 3,3 -I 95,90", 5)] {
        let text = setup.sh(&format!(
            "for i in 1 2 3 4
             do
             netperf -t TCP_STREAM $SERVER {options} -l 1 &
             done
             wait"
        ));
        let rows: Vec<Vec<f64>> = text
            .lines()
            .map(figures)
            .filter(|row| !row.is_empty())
            .collect();
        let complete = rows.iter().filter(|row| row.len() == columns).count();
        assert_eq!(complete, 4, "{options}: {text}");
    }
}

fn brand_identifies_each_row() {
    let setup = Setup::new();
    let text = setup.sh("for i in 1 2 3 4
         do
         netperf $SERVER -t TCP_STREAM -B \"this is test $i\" -l 1 -P 0 &
         done
         wait");
    for number in 1..=4 {
        let brand = format!("this is test {number}");
        let rows = text.lines().filter(|row| row.trim_end().ends_with(&brand));
        assert_eq!(rows.count(), 1, "{brand}: {text}");
    }
    let text = setup.sh("for i in 1
         do
         netperf $SERVER -t TCP_STREAM -B \"outbound\" -l 1 -P 0 -v 0 -- -s 256K -S 256K &
         netperf $SERVER -t TCP_MAERTS -B \"inbound\" -l 1 -P 0 -v 0 -- -s 256K -S 256K &
         done
         wait");
    assert_eq!(figures(&text).len(), 2, "{text}");
    assert!(
        text.contains("outbound") && text.contains(" inbound"),
        "{text}"
    );
}

fn sequential_and_concurrent_bursts() {
    let setup = Setup::new();
    for test_options in ["", "-D"] {
        let text = setup.sh(&format!(
            "for b in 0 1 2 4 8 16 32
             do
             netperf -v 0 -t TCP_RR -B \"-b $b {test_options}\" $SERVER -P 0 -l -500 -- -b $b {test_options}
             done"
        ));
        let brands: Vec<_> = text
            .lines()
            .filter_map(|row| row.split_once(" -b "))
            .collect();
        let bursts: Vec<f64> = brands
            .iter()
            .flat_map(|(_, brand)| figures(brand))
            .collect();
        assert_eq!(bursts, [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0], "{text}");
        assert!(
            brands.iter().all(|(rate, _)| figures(rate)[0] > 0.0),
            "{text}"
        );
    }
    let text = setup.sh("for i in 1 2 3 4
         do
         netperf $SERVER -v 0 -P 0 -l 1 -B \"aggregate $i -b 8 -D\" -t TCP_RR -- -b 8 -D &
         done
         wait");
    assert_eq!(text.matches("aggregate ").count(), 4, "{text}");
}

fn interim_results_have_three_layouts() {
    let setup = Setup::new();
    for (options, expected) in [
        ("", "Interim result: "),
        ("-- -o throughput", ",10^6bits/s,"),
        ("-- -k throughput", "NETPERF_INTERIM_RESULT[2]="),
    ] {
        let text = setup.sh(&format!("netperf $SERVER -D 0.25 -l 1 {options}"));
        assert!(text.contains(expected), "{options}: {text}");
    }
}

fn aggregate_example_sums_concurrent_runs() {
    let setup = Setup::new();
    for test in [&[][..], &["-t", "TCP_RR", "--", "-b", "4"]] {
        let port = setup.server.port.to_string();
        let output = setup
            .command(example("aggregate"))
            .args(["-n", "3", "-s", "1", "-i", "0.1", "127.0.0.1", "--"])
            .args(["-p", &port])
            .args(test)
            .output()
            .unwrap();
        let text = stdout_of(&output, "aggregate");
        let (sum, instances) = text
            .lines()
            .collect::<Vec<_>>()
            .split_last()
            .map(|(sum, instances)| (figures(sum), instances.to_vec()))
            .unwrap();
        assert_eq!(instances.len(), 3, "{text}");
        // "sum of 3 RATE UNIT over SECONDS s, Jain's index INDEX"
        let expected: f64 = instances.iter().map(|row| figures(row)[0]).sum();
        assert!((sum[1] - expected).abs() < 0.05 && expected > 0.0, "{text}");
        let (seconds, index) = (sum[2], sum[3]);
        // Longer on a busy machine.
        assert!((0.5..60.0).contains(&seconds), "{text}");
        assert!((0.33..=1.0).contains(&index), "{text}");
    }

    // Without a server, the example prints one line on stderr and no sum.
    let output = setup
        .command(example("aggregate"))
        .args(["-n", "1", "-s", "1", "127.0.0.1", "--", "-p", "1"])
        .output()
        .unwrap();
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// Output of two instances in two layouts. On a grid of whole seconds, the first has 100 in its
/// first second and 300 in its second. The second is half a second off the grid, so each second has
/// the mean of two intervals.
const FIRST: &str = "\
MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo
Interim result:  100.00 10^6bits/s over 1.000 seconds ending at 1001.000
Interim result:  300.00 10^6bits/s over 1.000 seconds ending at 1002.000
Interim result:  500.00 10^6bits/s over 1.000 seconds ending at 1003.000
Recv   Send    Send
";
const SECOND: &str = "\
  10.00,10^6bits/s,1.000,1000.500
  20.00,10^6bits/s,1.000,1001.500
  40.00,10^6bits/s,1.000,1002.500
  60.00,10^6bits/s,0.500,1003.000
Throughput
 37.5
";
/// Output without the middle second.
const GAP: &str = "\
NETPERF_INTERIM_RESULT[0]=7.00
NETPERF_UNITS[0]=10^6bits/s
NETPERF_INTERVAL[0]=1.000
NETPERF_ENDING[0]=1001.000
NETPERF_INTERIM_RESULT[1]=9.00
NETPERF_UNITS[1]=10^6bits/s
NETPERF_INTERVAL[1]=1.000
NETPERF_ENDING[1]=1003.000
NETPERF_INTERIM_RESULT[2]=11.00
NETPERF_UNITS[2]=10^6bits/s
";

fn interim_to_rrd_aligns_instances() {
    let setup = Setup::new();
    let directory = setup.directory.path();
    let convert = |files: &[(&str, &str)], options: &[&str]| {
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
        let mut command = setup.command(example("interim-to-rrd"));
        command.args(options).current_dir(directory);
        command.args(files.iter().map(|(name, _)| name));
        command.output().unwrap()
    };
    let text = stdout_of(
        &convert(
            &[("first", FIRST), ("second", SECOND)],
            &["--rrd", "a b.rrd"],
        ),
        "interim-to-rrd",
    );
    let create = "rrdtool create 'a b.rrd' --start 1000 --step 1 \\\n    DS:total:GAUGE:2:0:U \\\n";
    assert!(text.contains(create), "{text}");
    let update = "rrdtool update 'a b.rrd' --template total:instance0:instance1 \
        1001:115.00:100.00:15.00 1002:330.00:300.00:30.00 1003:550.00:500.00:50.00\n";
    assert!(text.ends_with(update), "{text}");

    let text = stdout_of(&convert(&[("first", FIRST), ("gap", GAP)], &[]), "a gap");
    let update = "1001:107.00:100.00:7.00 1002:U:300.00:U 1003:509.00:500.00:9.00\n";
    assert!(text.ends_with(update), "{text}");

    let text = stdout_of(
        &convert(&[("first", FIRST)], &["--step", "2"]),
        "a wider grid",
    );
    assert!(
        text.ends_with("1002:200.00:200.00 1004:500.00:500.00\n"),
        "{text}"
    );

    let other_unit = FIRST.replace("10^6bits/s", "KBytes/s");
    for (files, error) in [
        (&[("none", "nothing\n")][..], "0 units"),
        (&[("first", FIRST), ("other", &other_unit)], "2 units"),
        (
            &[
                ("first", FIRST),
                ("late", &FIRST.replace("at 100", "at 900")),
            ],
            "same time",
        ),
    ] {
        let output = convert(files, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{output:?}"
        );
        assert!(
            stderr.contains(error) && stderr.lines().count() == 1,
            "{error}: {stderr}"
        );
    }

    // The output of a real run is valid input.
    let live = setup.sh("netperf $SERVER -D 0.2 -l 2 -- -k throughput");
    let text = stdout_of(&convert(&[("live", &live)], &[]), "a real run");
    let last = text.lines().last().unwrap_or_default();
    let rates = last.split(' ').filter(|word| word.split(':').count() == 3);
    assert!(rates.count() >= 1 && !last.ends_with('U'), "{text}");
}
