//! Compares our reports with recorded reports of stock uperf.
//!
//! `output/reports.txt` holds the cases. Each has a line `# uperf …` with the options, lines
//! `> name …` with figures, and the text, each line after a `|`. The texts were recorded from
//! uperf's development head (and 1.0.8) on the loopback interface. Each line is the final state of
//! a terminal line. Only the first case keeps trailing blanks. The figures were read from the texts,
//! as precisely as the output needs. The texts do not contain our own lines over active time.

#[path = "output/harness_parsers.rs"]
mod harness_parsers;
#[path = "output/harnesses.rs"]
mod harnesses;
#[path = "output/page.rs"]
mod page;
#[path = "output/sample.rs"]
mod sample;

use std::time::{Duration, UNIX_EPOCH};

use model::{
    CombinedTotals, Counts, EndCause, ExecutionTimes, GroupOutcome, InterfaceTraffic, LogEntry,
    Outcome, Side, StepOutcome, Totals, Traffic, TransactionOutcome,
};
use sample::{master_output, master_settings, outcome, peer, plan};
use units::Bytes;
use uperf::output::{PROGRESS_END, SampleLine, Width, progress, report, started, starting};
use uperf::{GroupSpec, StrandCount, Workorder};

#[test]
fn matches_recorded_reports() {
    let mut cases = 0;
    for case in include_str!("output/reports.txt").split("\n# ").skip(1) {
        let mut lines = case.lines();
        let options = lines.next().unwrap().strip_prefix("uperf").unwrap();
        let (figures, text): (Vec<_>, Vec<_>) = lines
            .filter(|line| !line.is_empty())
            .partition(|line| line.starts_with("> "));
        let text: Vec<_> = text.iter().map(|line| &line[1..]).collect();
        let mut master = master_settings(options);
        let run = Run::parse(&figures);
        let width = Width::for_terminal(None);
        let total_line = if master.print.progress {
            // Stock samples the figures of its first and last line at different times.
            master.print.progress = false;
            let mut progress_only = master_settings("-n");
            progress_only.print.progress = true;
            let text = report(&progress_only, width, &run.total);
            let line = text.lines().next().expect("the report has a first line");
            format!("{}{line}\n", width.rule())
        } else {
            String::new()
        };
        let printed = run.text_before_report + &total_line + &report(&master, width, &run.outcome);
        let printed = without_own_lines(&printed);
        let printed: Vec<_> = printed.lines().map(after_last_cr).collect();
        let is_exact = text.iter().any(|line| line.ends_with(' '));
        let normalize = |lines: &[&str]| {
            let trim_line = |line: &&str| {
                let line = if is_exact { *line } else { line.trim_end() };
                line.to_owned()
            };
            let lines: Vec<String> = lines.iter().map(trim_line).collect();
            lines.join("\n").trim_end_matches('\n').to_owned()
        };
        assert_eq!(normalize(&printed), normalize(&text), "{options}");
        cases += 1;
    }
    assert_eq!(cases, 9);
}

#[test]
fn prints_own_lines_below_differences() {
    let text = master_output("-a -e");
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

/// A host has a line per group and one line for all its groups.
#[test]
fn sums_groups_per_host() {
    let mut outcome = outcome();
    let first = outcome.peers[0].clone();
    let mut second = first.clone();
    second.group = Some(1);
    let mut second_host = first;
    "10.0.0.2".clone_into(&mut second_host.host);
    outcome.peers.extend([second, second_host]);
    let text = report(&master_settings(""), Width::for_terminal(None), &outcome);
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
fn prints_dash_for_unmeasured_figure() {
    let mut outcome = outcome();
    let times = &mut outcome.groups[0].transactions[1].steps[0].times;
    times.as_mut().expect("the step has times").cpu = None;
    let text = report(&master_settings("-f"), Width::for_terminal(None), &outcome);
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
fn prints_no_figures_for_lost_slave() {
    let mut outcome = outcome();
    outcome.peers[0].totals = None;
    let text = report(&master_settings(""), Width::for_terminal(None), &outcome);
    let lost = "-\n\nError saying goodbye with 127.0.0.1\nmaster ";
    assert!(text.contains(lost), "{text}");
    let difference = "Difference(%)      0.00%      0.00%        0.00%        0.00%       0.00%\n";
    assert!(text.contains(difference), "{text}");
    let mut second = peer("10.0.0.2", outcome.groups[0].totals.combined());
    second.message = Some("Success".to_owned());
    outcome.peers.push(second);
    let text = report(&master_settings(""), Width::for_terminal(None), &outcome);
    let lines = "[10.0.0.2] Success10.0.0.2           5.00s     2.86MB     4.80Mb/s         1503        \
                 0.00\nTotal              5.00s     2.86MB     4.80Mb/s         1503        0.00\n";
    assert!(text.contains(lines), "{text}");
}

#[test]
fn prints_infinite_difference_for_zero_local_bytes() {
    let mut outcome = outcome();
    outcome.local.counts.sent = Bytes(0);
    outcome.local.counts.failed_operations = 15;
    let text = report(&master_settings(""), Width::for_terminal(None), &outcome);
    let difference = "Difference(%)     -0.02%      -inf%        -inf%        0.00%       1.00%\n";
    assert!(text.contains(difference), "{text}");
}

#[test]
fn no_statistics_keeps_sections_requested_after_it() {
    let outcome = outcome();
    let text = |options| {
        report(
            &master_settings(options),
            Width::for_terminal(None),
            &outcome,
        )
    };
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
fn prints_new_interface_and_omits_idle_interface() {
    let mut outcome = outcome();
    let interfaces = outcome
        .local
        .interfaces
        .as_mut()
        .expect("the sample has interfaces");
    interfaces.interfaces.push(InterfaceTraffic {
        name: "veth1".to_owned(),
        traffic: Traffic {
            received_packets: 5,
            received_bytes: 500,
            ..Traffic::default()
        },
        was_missing_at_start: true,
    });
    interfaces.interfaces.push(InterfaceTraffic {
        name: "idle0".to_owned(),
        ..InterfaceTraffic::default()
    });
    let text = report(
        &master_settings(""),
        Width::for_terminal(Some(60)),
        &outcome,
    );
    let rule = "-".repeat(59);
    let section = format!(
        "\nNetstat statistics for this run\n{rule}\n\
         Nic       opkts/s     ipkts/s      obits/s      ibits/s\n\
         lo           2000        2000     6.40Mb/s     6.40Mb/s \n\
         Nic veth1 came online\n\
         veth1           0           1            0    800.00b/s \n{rule}\n"
    );
    assert!(text.contains(&section), "{text}");

    outcome.local.interfaces = None;
    let text = report(
        &master_settings("-n -k"),
        Width::for_terminal(None),
        &outcome,
    );
    let line = "-               -           -            -            -\n";
    assert!(text.contains(line), "{text}");
}

/// The figures of a case, and the text printed before the report.
struct Run {
    text_before_report: String,
    outcome: Outcome,
    /// An outcome with the figures of the first line.
    total: Outcome,
}

impl Run {
    fn parse(lines: &[&str]) -> Self {
        let empty = || {
            Outcome::for_flow(
                plan(),
                UNIX_EPOCH,
                Side::default(),
                None,
                EndCause::Deadline,
            )
        };
        let (mut text_before_report, mut outcome, mut total) = (String::new(), empty(), empty());
        let mut profile = Workorder::default();
        // The lines of strands are in the order of their groups.
        let mut strands = 0;
        for line in lines {
            let (name, value) = line[2..].split_once(' ').unwrap();
            let fields: Vec<_> = value.split(' ').collect();
            match name {
                "strands" => profile.groups.push(group_spec(fields[0], fields[1])),
                "profile" => {
                    value.clone_into(&mut profile.name);
                    text_before_report = starting(&profile) + &started(Duration::ZERO);
                }
                "progress" => {
                    let sample = SampleLine {
                        name: fields[0],
                        totals: totals(&fields[1..]).combined(),
                        ended: UNIX_EPOCH,
                    };
                    text_before_report += &progress(false, Width::for_terminal(None), &sample);
                    text_before_report += PROGRESS_END;
                }
                "total" => total.local = side(&fields[1..]),
                "group" => outcome.groups.push(GroupOutcome {
                    name: fields[0].to_owned(),
                    totals: totals(&fields[1..]),
                    ..GroupOutcome::default()
                }),
                "strand" => {
                    strands += usize::from(fields[0] == "Thr0");
                    let group = get_or_push(&mut outcome.groups, strands - 1);
                    group.workers.push(totals(&fields[1..]));
                }
                "txn" => {
                    get_or_push(&mut outcome.groups, 0)
                        .transactions
                        .push(TransactionOutcome {
                            name: fields[0].to_owned(),
                            times: Some(execution_times(&fields)),
                            ..TransactionOutcome::default()
                        });
                }
                "flowop" => {
                    let transactions = &mut get_or_push(&mut outcome.groups, 0).transactions;
                    get_or_push(transactions, 0).steps.push(StepOutcome {
                        name: fields[0].to_owned(),
                        times: Some(execution_times(&fields)),
                        counters: Vec::new(),
                    });
                }
                "interfaces" | "interface" => {
                    let interfaces = outcome.local.interfaces.get_or_insert_default();
                    if name == "interface" {
                        interfaces.interfaces.push(interface_traffic(&fields));
                    } else {
                        interfaces.elapsed = parse_nanoseconds(fields[0]);
                    }
                }
                "slave" => outcome
                    .peers
                    .push(peer(fields[0], combined_totals(&fields[1..]))),
                "master" => {
                    outcome.local = Side {
                        interfaces: outcome.local.interfaces.take(),
                        ..side(&fields)
                    }
                }
                "error" | "warning" => {
                    let (count, entry) = value.split_once(' ').unwrap();
                    let (text, reason) = entry.split_once(" | ").unwrap_or((entry, ""));
                    outcome.log.push(LogEntry {
                        is_warning: name == "warning",
                        text: text.replace("\\n", "\n"),
                        reason: reason.to_owned(),
                        count: parse_number(count),
                    });
                }
                "failures" => outcome.failures = parse_number(fields[0]),
                unknown => panic!("unknown line: {unknown}"),
            }
        }
        Self {
            text_before_report,
            outcome,
            total,
        }
    }
}

/// Returns the element at `index`, which is at most the length. Appends a default element if
/// needed.
fn get_or_push<T: Default>(items: &mut Vec<T>, index: usize) -> &mut T {
    if items.len() <= index {
        items.push(T::default());
    }
    &mut items[index]
}

fn group_spec(count: &str, kind: &str) -> GroupSpec {
    let strands = StrandCount {
        count: count.parse().unwrap(),
        threads: kind == "threads",
        processes: kind == "processes",
    };
    GroupSpec {
        strands,
        ..GroupSpec::default()
    }
}

/// Parses bytes, operations and nanoseconds.
fn totals(fields: &[&str]) -> Totals {
    Totals {
        counts: Counts {
            sent: Bytes(parse_number(fields[0])),
            operations: parse_number(fields[1]),
            ..Counts::default()
        },
        elapsed: parse_nanoseconds(fields[2]),
    }
}

fn combined_totals(fields: &[&str]) -> CombinedTotals {
    totals(fields).combined()
}

fn side(fields: &[&str]) -> Side {
    let Totals { counts, elapsed } = totals(fields);
    Side {
        counts,
        elapsed: Some(elapsed),
        ..Side::default()
    }
}

/// Parses name, count, and in nanoseconds total, CPU, longest and shortest time.
fn execution_times(fields: &[&str]) -> ExecutionTimes {
    ExecutionTimes {
        executions: parse_number(fields[1]),
        total: parse_nanoseconds(fields[2]),
        cpu: Some(parse_nanoseconds(fields[3])),
        longest: parse_nanoseconds(fields[4]),
        shortest: parse_nanoseconds(fields[5]),
    }
}

/// Parses name, sent and received packets, sent and received bytes.
fn interface_traffic(fields: &[&str]) -> InterfaceTraffic {
    InterfaceTraffic {
        name: fields[0].to_owned(),
        traffic: Traffic {
            sent_packets: parse_number(fields[1]),
            received_packets: parse_number(fields[2]),
            sent_bytes: parse_number(fields[3]),
            received_bytes: parse_number(fields[4]),
        },
        was_missing_at_start: false,
    }
}

fn parse_number(text: &str) -> u64 {
    text.parse().expect(text)
}

fn parse_nanoseconds(text: &str) -> Duration {
    Duration::from_nanos(parse_number(text))
}

/// Removes the sections that stock uperf does not print.
fn without_own_lines(text: &str) -> String {
    let mut stock_text = text.to_owned();
    for title in [
        "Over active time\n",
        "Each host, all its groups\n",
        "Beginnings of strands\n",
    ] {
        if let Some((before, own)) = stock_text.split_once(title) {
            let (_, after) = own.split_once("\n\n").unwrap();
            stock_text = before.to_owned() + after;
        }
    }
    stock_text
}

/// Returns the part of a line after its last carriage return.
fn after_last_cr(line: &str) -> &str {
    line.rsplit('\r').next().unwrap_or_default()
}
