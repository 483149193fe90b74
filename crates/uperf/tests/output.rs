//! What stock uperf printed, and the same figures printed by us.
//!
//! `output/reports.txt` holds cases: a line `# uperf …` with what was asked for, lines `> name …` with
//! figures, then the text, each line after a `|`. The texts were recorded from uperf's development head
//! (and 1.0.8) on the loopback interface, each line as a terminal shows it at the end, without blanks at
//! its end but in the first case. The figures were read off them and are as exact as what is printed
//! needs. Our own lines over active time are not in them.

#[path = "output/harnesses.rs"]
mod harnesses;
#[path = "output/page.rs"]
mod page;
#[path = "output/rules.rs"]
mod rules;
#[path = "output/sample.rs"]
mod sample;

use std::time::{Duration, UNIX_EPOCH};

use model::LogEntry;
use sample::{figures, master, printed};
use uperf::output::{
    Active, Executions, Interfaces, PROGRESS_END, Report, Sample, Slave, Totals, Traffic, Width,
    progress, report, started, starting,
};
use uperf::{Group, Strands, Workorder};

#[test]
fn recorded_reports() {
    let mut cases = 0;
    for case in include_str!("output/reports.txt").split("\n# ").skip(1) {
        let mut lines = case.lines();
        let options = lines.next().unwrap().strip_prefix("uperf").unwrap();
        let (figures, text): (Vec<_>, Vec<_>) = lines
            .filter(|line| !line.is_empty())
            .partition(|line| line.starts_with("> "));
        let text: Vec<_> = text.iter().map(|line| &line[1..]).collect();
        let print = master(options).print;
        let run = Run::of(&figures);
        let width = Width::of(None);
        let rule = if print.progress {
            width.rule()
        } else {
            String::new()
        };
        let printed = run.before + &rule + &report(&print, width, &run.report);
        let printed = without_own_lines(&printed);
        let printed: Vec<_> = printed.lines().map(last_written).collect();
        let is_exact = text.iter().any(|line| line.ends_with(' '));
        let shown = |lines: &[&str]| {
            let without_end = |line: &&str| {
                let line = if is_exact { *line } else { line.trim_end() };
                line.to_owned()
            };
            let lines: Vec<String> = lines.iter().map(without_end).collect();
            lines.join("\n").trim_end_matches('\n').to_owned()
        };
        assert_eq!(shown(&printed), shown(&text), "{options}");
        cases += 1;
    }
    assert_eq!(cases, 9);
}

#[test]
fn our_own_lines_are_below_the_differences() {
    let text = printed("-a -e");
    let rule = "-".repeat(79);
    let active = format!(
        "\n\nOver active time\n{rule}\n\
         All        2.86MB /   3.00(s) =     8.00Mb/s         501op/s \n\
         Group0     2.86MB /   3.00(s) =     8.00Mb/s         501op/s \n\n\
         Beginnings of strands\n{rule}\n\
         transaction 1           2 strands within    12.35us \n\n\
         ** Warning: Send buffer: 128.00KB (Requested:64.00KB)  \n\n"
    );
    assert!(text.ends_with(&active), "{text}");
    let counters = format!(
        "\nFlowop          Counter                           total                 each \n{rule}\n\
         connect         cycles                                -                    - \n\
         connect         task-clock                            7                 7.00 \n\
         write           cycles                                -                    - \n\
         write           task-clock                         3500                 7.00 \n"
    );
    assert!(text.contains(&counters), "{text}");
}

/// A host has a line for each group, and then one of its own.
#[test]
fn hosts_with_several_groups_have_a_sum() {
    let mut figures = figures();
    let first = figures.slaves[0].clone();
    let mut second = first.clone();
    second.group = 1;
    let mut other = first;
    "10.0.0.2".clone_into(&mut other.host);
    figures.slaves.extend([second, other]);
    let text = report(&master("").print, Width::of(None), &figures);
    let rule = "-".repeat(79);
    let section = format!(
        "501op/s \n\nEach host, all its groups\n{rule}\n\
         127.0.0.1          5.00s     5.72MB     9.60Mb/s         3006        0.00\n\
         10.0.0.2           5.00s     2.86MB     4.80Mb/s         1503        0.00\n\n\
         Beginnings of strands\n"
    );
    assert!(text.contains(&section), "{text}");
}

#[test]
fn a_figure_that_was_not_measured_is_no_number() {
    let mut figures = figures();
    figures.flowops[1].cpu = None;
    let text = report(&master("-f").print, Width::of(None), &figures);
    let line = text
        .lines()
        .find(|line| line.starts_with("write "))
        .unwrap();
    assert_eq!(
        line,
        "write                500     20.00us           -      1.00ms    781.00ns "
    );
}

#[test]
fn a_slave_that_was_lost_has_no_figures() {
    let mut figures = figures();
    figures.slaves[0].totals = None;
    let text = report(&master("").print, Width::of(None), &figures);
    let lost = "-\n\nError saying goodbye with 127.0.0.1\nmaster ";
    assert!(text.contains(lost), "{text}");
    let difference = "Difference(%)      0.00%      0.00%        0.00%        0.00%       0.00%\n";
    assert!(text.contains(difference), "{text}");
    figures.slaves.push(Slave {
        host: "10.0.0.2".to_owned(),
        group: 0,
        said: Some("Success".to_owned()),
        totals: Some(figures.master),
    });
    let text = report(&master("").print, Width::of(None), &figures);
    let lines = "[10.0.0.2] Success10.0.0.2           5.00s     2.86MB     4.80Mb/s         1503        \
                 0.00\nTotal              5.00s     2.86MB     4.80Mb/s         1503        0.00\n";
    assert!(text.contains(lines), "{text}");
}

#[test]
fn what_this_end_has_not_got_differs_without_end() {
    let mut figures = figures();
    figures.master.bytes = 0;
    figures.master.errors = 15;
    let text = report(&master("").print, Width::of(None), &figures);
    let difference = "Difference(%)     -0.02%      -inf%        -inf%        0.00%       1.00%\n";
    assert!(text.contains(difference), "{text}");
}

#[test]
fn no_statistics_prints_what_is_asked_for_afterwards() {
    let mut figures = figures();
    figures.latencies = None;
    let text = |options| report(&master(options).print, Width::of(None), &figures);
    let log = "** Warning: Send buffer: 128.00KB (Requested:64.00KB)  \n";
    assert_eq!(text("-a -n"), format!("{log}\n"));
    let with_interfaces = text("-n -k");
    assert!(with_interfaces.starts_with("\nNetstat statistics for this run\n"));
    assert!(!with_interfaces.contains("Run Statistics"));
    assert!(text("-n -T").starts_with("\nStrand Details\n"));
    let all = text("-n -a");
    assert!(all.starts_with("\nGroup Details\n"), "{all}");
    for section in ["Netstat statistics", "Run Statistics", "Difference(%)"] {
        assert!(all.contains(section), "{section}: {all}");
    }
}

#[test]
fn an_interface_may_come_and_one_without_traffic_is_left_out() {
    let mut figures = figures();
    let interfaces = &mut figures.interfaces;
    interfaces.each.push(Traffic {
        name: "veth1".to_owned(),
        packets_in: 5,
        bytes_in: 500,
        came_online: true,
        ..Traffic::default()
    });
    interfaces.each.push(Traffic {
        name: "idle0".to_owned(),
        ..Traffic::default()
    });
    let text = report(&master("").print, Width::of(Some(60)), &figures);
    let rule = "-".repeat(59);
    let section = format!(
        "\nNetstat statistics for this run\n{rule}\n\
         Nic       opkts/s     ipkts/s      obits/s      ibits/s\n\
         lo           2000        2000     6.40Mb/s     6.40Mb/s \n\
         Nic veth1 came online\n\
         veth1           0           1            0    800.00b/s \n{rule}\n"
    );
    assert!(text.contains(&section), "{text}");
}

/// A case's figures, and what was printed before the report.
struct Run {
    before: String,
    report: Report,
}

impl Run {
    fn of(lines: &[&str]) -> Self {
        let mut run = Self {
            before: String::new(),
            report: empty(),
        };
        let mut profile = Workorder::default();
        for line in lines {
            let (name, rest) = line[2..].split_once(' ').unwrap();
            let words: Vec<_> = rest.split(' ').collect();
            let report = &mut run.report;
            match name {
                "strands" => profile.groups.push(group(words[0], words[1])),
                "profile" => {
                    rest.clone_into(&mut profile.name);
                    run.before = starting(&profile) + &started(Duration::ZERO);
                }
                "progress" => {
                    run.before += &progress(false, Width::of(None), &sample(&words));
                    run.before += PROGRESS_END;
                }
                "total" => report.total = sample(&words),
                "group" => report.groups.push(sample(&words)),
                "strand" => report.strands.push(sample(&words)),
                "txn" => report.transactions.push(executions(&words)),
                "flowop" => report.flowops.push(executions(&words)),
                "interfaces" => report.interfaces.elapsed = nanoseconds(words[0]),
                "interface" => report.interfaces.each.push(traffic(&words)),
                "slave" => report.slaves.push(Slave {
                    host: words[0].to_owned(),
                    group: 0,
                    said: None,
                    totals: Some(totals(&words[1..])),
                }),
                "master" => report.master = totals(&words),
                "error" | "warning" => {
                    let (count, rest) = rest.split_once(' ').unwrap();
                    let (text, reason) = rest.split_once(" | ").unwrap_or((rest, ""));
                    report.log.push(LogEntry {
                        is_warning: name == "warning",
                        text: text.replace("\\n", "\n"),
                        reason: reason.to_owned(),
                        count: number(count),
                    });
                }
                "failures" => report.failures = number(words[0]),
                other => panic!("{other}"),
            }
        }
        run
    }
}

fn empty() -> Report {
    Report {
        total: sample(&["Total", "0", "0", "0"]),
        groups: Vec::new(),
        strands: Vec::new(),
        transactions: Vec::new(),
        flowops: Vec::new(),
        interfaces: Interfaces::default(),
        slaves: Vec::new(),
        master: Totals::default(),
        active: Active::default(),
        starts: Vec::new(),
        latencies: None,
        log: Vec::new(),
        failures: 0,
    }
}

fn group(count: &str, kind: &str) -> Group {
    let strands = Strands {
        count: count.parse().unwrap(),
        threads: kind == "threads",
        processes: kind == "processes",
    };
    Group {
        strands,
        ..Group::default()
    }
}

/// Name, bytes, operations, nanoseconds.
fn sample(words: &[&str]) -> Sample {
    Sample {
        name: words[0].to_owned(),
        totals: totals(&words[1..]),
        ended: UNIX_EPOCH,
    }
}

/// Bytes, operations, nanoseconds.
fn totals(words: &[&str]) -> Totals {
    Totals {
        bytes: number(words[0]),
        operations: number(words[1]),
        errors: 0,
        elapsed: nanoseconds(words[2]),
    }
}

/// Name, count, and in nanoseconds all together, CPU time, longest, shortest.
fn executions(words: &[&str]) -> Executions {
    Executions {
        name: words[0].to_owned(),
        group: 0,
        transaction: 0,
        count: number(words[1]),
        time: nanoseconds(words[2]),
        cpu: Some(nanoseconds(words[3])),
        longest: nanoseconds(words[4]),
        shortest: nanoseconds(words[5]),
        counters: Vec::new(),
    }
}

/// Name, packets out and in, bytes out and in.
fn traffic(words: &[&str]) -> Traffic {
    Traffic {
        name: words[0].to_owned(),
        packets_out: number(words[1]),
        packets_in: number(words[2]),
        bytes_out: number(words[3]),
        bytes_in: number(words[4]),
        came_online: false,
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect(text)
}

fn nanoseconds(text: &str) -> Duration {
    Duration::from_nanos(number(text))
}

/// Stock's lines alone.
fn without_own_lines(text: &str) -> String {
    let mut stocks = text.to_owned();
    for title in [
        "Over active time\n",
        "Each host, all its groups\n",
        "Beginnings of strands\n",
    ] {
        if let Some((before, own)) = stocks.split_once(title) {
            let (_, after) = own.split_once("\n\n").unwrap();
            stocks = before.to_owned() + after;
        }
    }
    stocks
}

/// What is left of a line that was written over.
fn last_written(line: &str) -> &str {
    line.rsplit('\r').next().unwrap_or_default()
}
