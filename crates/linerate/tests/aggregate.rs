//! The manual's chapter on aggregate performance, as printed but for names and times, in a shell; and
//! the programs in `examples/` that do the jobs of its helper scripts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use testkit::{Requirement, Server, TestCase, figures, program, test_case};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let python = &[Requirement::Program("python3")];
    vec![
        test_case(
            "concurrent_runs_print_a_row_each",
            &[],
            concurrent_runs_print_a_row_each,
        ),
        test_case(
            "each_row_can_be_told_by_its_brand",
            &[],
            each_row_can_be_told_by_its_brand,
        ),
        test_case(
            "bursts_one_after_the_other_and_many_at_once",
            &[],
            bursts_one_after_the_other_and_many_at_once,
        ),
        test_case(
            "interim_results_come_in_three_layouts",
            &[],
            interim_results_come_in_three_layouts,
        ),
        test_case(
            "the_aggregate_example_adds_up_what_ran_together",
            python,
            the_aggregate_example_adds_up_what_ran_together,
        ),
        test_case(
            "interim_results_become_updates_on_one_grid",
            python,
            interim_results_become_updates_on_one_grid,
        ),
    ]
}

/// Ours under netperf's name, and a server of its own.
struct Ground {
    directory: TempDir,
    server: Server,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        symlink(program(), directory.path().join("netperf")).unwrap();
        let server = Server::start("");
        Self { directory, server }
    }

    /// A command with netperf in its search path, and the server's `HOST` options in its environment.
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

    /// What a shell prints that runs this.
    fn sh(&self, script: &str) -> String {
        let output = self.command("/bin/sh").args(["-c", script]).output();
        said(&output.unwrap(), script)
    }
}

fn said(output: &Output, what: &str) -> String {
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{what}: {stdout}{stderr}");
    stdout.into_owned()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

fn concurrent_runs_print_a_row_each() {
    let ground = Ground::new();
    for (options, words) in [("-P 0", 5), ("-P 0 -c -C", 9), ("-P 0 -i 3,3 -I 95,90", 5)] {
        let text = ground.sh(&format!(
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
        let whole = rows.iter().filter(|row| row.len() == words).count();
        assert_eq!(whole, 4, "{options}: {text}");
    }
}

fn each_row_can_be_told_by_its_brand() {
    let ground = Ground::new();
    let text = ground.sh("for i in 1 2 3 4
         do
         netperf $SERVER -t TCP_STREAM -B \"this is test $i\" -l 1 -P 0 &
         done
         wait");
    for number in 1..=4 {
        let brand = format!("this is test {number}");
        let rows = text.lines().filter(|row| row.trim_end().ends_with(&brand));
        assert_eq!(rows.count(), 1, "{brand}: {text}");
    }
    let text = ground.sh("for i in 1
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

fn bursts_one_after_the_other_and_many_at_once() {
    let ground = Ground::new();
    for test_options in ["", "-D"] {
        let text = ground.sh(&format!(
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
    let text = ground.sh("for i in 1 2 3 4
         do
         netperf $SERVER -v 0 -P 0 -l 1 -B \"aggregate $i -b 8 -D\" -t TCP_RR -- -b 8 -D &
         done
         wait");
    assert_eq!(text.matches("aggregate ").count(), 4, "{text}");
}

fn interim_results_come_in_three_layouts() {
    let ground = Ground::new();
    for (options, line) in [
        ("", "Interim result: "),
        ("-- -o throughput", ",10^6bits/s,"),
        ("-- -k throughput", "NETPERF_INTERIM_RESULT[2]="),
    ] {
        let text = ground.sh(&format!("netperf $SERVER -D 0.25 -l 1 {options}"));
        assert!(text.contains(line), "{options}: {text}");
    }
}

fn the_aggregate_example_adds_up_what_ran_together() {
    let ground = Ground::new();
    for test in [&[][..], &["-t", "TCP_RR", "--", "-b", "4"]] {
        let port = ground.server.port.to_string();
        let output = ground
            .command(example("aggregate"))
            .args(["-n", "3", "-s", "1", "-i", "0.1", "127.0.0.1", "--"])
            .args(["-p", &port])
            .args(test)
            .output()
            .unwrap();
        let text = said(&output, "aggregate");
        let (sum, instances) = text
            .lines()
            .collect::<Vec<_>>()
            .split_last()
            .map(|(sum, instances)| (figures(sum), instances.to_vec()))
            .unwrap();
        assert_eq!(instances.len(), 3, "{text}");
        // "sum of 3 RATE UNIT over SECONDS s, Jain's index INDEX"
        let all: f64 = instances.iter().map(|row| figures(row)[0]).sum();
        assert!((sum[1] - all).abs() < 0.05 && all > 0.0, "{text}");
        let (seconds, index) = (sum[2], sum[3]);
        // Longer on a busy machine.
        assert!((0.5..60.0).contains(&seconds), "{text}");
        assert!((0.33..=1.0).contains(&index), "{text}");
    }

    // Nobody there: one line, and no sum.
    let output = ground
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

/// Two instances in two layouts. On a grid of whole seconds the first is 100 in its first second and
/// 300 in its second; the second, which lies half a second across the grid, has the means of its
/// neighbours.
const ONE: &str = "\
MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo
Interim result:  100.00 10^6bits/s over 1.000 seconds ending at 1001.000
Interim result:  300.00 10^6bits/s over 1.000 seconds ending at 1002.000
Interim result:  500.00 10^6bits/s over 1.000 seconds ending at 1003.000
Recv   Send    Send
";
const TWO: &str = "\
  10.00,10^6bits/s,1.000,1000.500
  20.00,10^6bits/s,1.000,1001.500
  40.00,10^6bits/s,1.000,1002.500
  60.00,10^6bits/s,0.500,1003.000
Throughput
 37.5
";
/// The middle second is missing.
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

fn interim_results_become_updates_on_one_grid() {
    let ground = Ground::new();
    let directory = ground.directory.path();
    let rrd = |files: &[(&str, &str)], options: &[&str]| {
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
        let mut command = ground.command(example("interim-to-rrd"));
        command.args(options).current_dir(directory);
        command.args(files.iter().map(|(name, _)| name));
        command.output().unwrap()
    };
    let text = said(
        &rrd(&[("one", ONE), ("two", TWO)], &["--rrd", "a b.rrd"]),
        "interim-to-rrd",
    );
    let create = "rrdtool create 'a b.rrd' --start 1000 --step 1 \\\n    DS:total:GAUGE:2:0:U \\\n";
    assert!(text.contains(create), "{text}");
    let update = "rrdtool update 'a b.rrd' --template total:instance0:instance1 \
        1001:115.00:100.00:15.00 1002:330.00:300.00:30.00 1003:550.00:500.00:50.00\n";
    assert!(text.ends_with(update), "{text}");

    let text = said(&rrd(&[("one", ONE), ("gap", GAP)], &[]), "a gap");
    let update = "1001:107.00:100.00:7.00 1002:U:300.00:U 1003:509.00:500.00:9.00\n";
    assert!(text.ends_with(update), "{text}");

    let text = said(&rrd(&[("one", ONE)], &["--step", "2"]), "a wider grid");
    assert!(
        text.ends_with("1002:200.00:200.00 1004:500.00:500.00\n"),
        "{text}"
    );

    let other = ONE.replace("10^6bits/s", "KBytes/s");
    for (files, why) in [
        (&[("none", "nothing\n")][..], "no interim results"),
        (&[("one", ONE), ("other", &other)], "2 units"),
        (
            &[("one", ONE), ("late", &ONE.replace("at 100", "at 900"))],
            "same time",
        ),
    ] {
        let output = rrd(files, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{output:?}"
        );
        let expected = stderr.contains(why) || stderr.contains("0 units");
        assert!(expected && stderr.lines().count() == 1, "{why}: {stderr}");
    }

    // What a real one prints is read, too.
    let live = ground.sh("netperf $SERVER -D 0.2 -l 2 -- -k throughput");
    let text = said(&rrd(&[("live", &live)], &[]), "a live one");
    let last = text.lines().last().unwrap_or_default();
    let rates = last.split(' ').filter(|word| word.split(':').count() == 3);
    assert!(rates.count() >= 1 && !last.ends_with('U'), "{text}");
}
