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

use model::{
    CombinedTotals, Counts, EndCause, ExecutionTimes, GroupOutcome, InterfaceTraffic, LogEntry,
    Outcome, Side, StepOutcome, Totals, Traffic, TransactionOutcome,
};
use sample::{master, outcome, peer, plan, printed};
use units::Bytes;
use uperf::output::{PROGRESS_END, SampleLine, Width, progress, report, started, starting};
use uperf::{GroupSpec, StrandCount, Workorder};

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
        let mut master = master(options);
        let run = Run::of(&figures);
        let width = Width::for_terminal(None);
        let head = if master.print.progress {
            // Stock takes the figures of its first line and those of its last one at different times.
            master.print.progress = false;
            let mut only_total = self::master("-n");
            only_total.print.progress = true;
            let text = report(&only_total, width, &run.total);
            let line = text.lines().next().expect("a line");
            format!("{}{line}\n", width.rule())
        } else {
            String::new()
        };
        let printed = run.before + &head + &report(&master, width, &run.outcome);
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
    let mut outcome = outcome();
    let first = outcome.peers[0].clone();
    let mut second = first.clone();
    second.group = Some(1);
    let mut other = first;
    "10.0.0.2".clone_into(&mut other.host);
    outcome.peers.extend([second, other]);
    let text = report(&master(""), Width::for_terminal(None), &outcome);
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
    let mut outcome = outcome();
    let times = &mut outcome.groups[0].transactions[1].steps[0].times;
    times.as_mut().expect("times").cpu = None;
    let text = report(&master("-f"), Width::for_terminal(None), &outcome);
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
    let mut outcome = outcome();
    outcome.peers[0].totals = None;
    let text = report(&master(""), Width::for_terminal(None), &outcome);
    let lost = "-\n\nError saying goodbye with 127.0.0.1\nmaster ";
    assert!(text.contains(lost), "{text}");
    let difference = "Difference(%)      0.00%      0.00%        0.00%        0.00%       0.00%\n";
    assert!(text.contains(difference), "{text}");
    let mut second = peer("10.0.0.2", outcome.groups[0].totals.combined());
    second.message = Some("Success".to_owned());
    outcome.peers.push(second);
    let text = report(&master(""), Width::for_terminal(None), &outcome);
    let lines = "[10.0.0.2] Success10.0.0.2           5.00s     2.86MB     4.80Mb/s         1503        \
                 0.00\nTotal              5.00s     2.86MB     4.80Mb/s         1503        0.00\n";
    assert!(text.contains(lines), "{text}");
}

#[test]
fn what_this_end_has_not_got_differs_without_end() {
    let mut outcome = outcome();
    outcome.local.counts.sent = Bytes(0);
    outcome.local.counts.failed_operations = 15;
    let text = report(&master(""), Width::for_terminal(None), &outcome);
    let difference = "Difference(%)     -0.02%      -inf%        -inf%        0.00%       1.00%\n";
    assert!(text.contains(difference), "{text}");
}

#[test]
fn no_statistics_prints_what_is_asked_for_afterwards() {
    let outcome = outcome();
    let text = |options| report(&master(options), Width::for_terminal(None), &outcome);
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
    let mut outcome = outcome();
    let interfaces = outcome.local.interfaces.as_mut().expect("interfaces");
    interfaces.each.push(InterfaceTraffic {
        name: "veth1".to_owned(),
        traffic: Traffic {
            received_packets: 5,
            received_bytes: 500,
            ..Traffic::default()
        },
        came_online: true,
    });
    interfaces.each.push(InterfaceTraffic {
        name: "idle0".to_owned(),
        ..InterfaceTraffic::default()
    });
    let text = report(&master(""), Width::for_terminal(Some(60)), &outcome);
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
    outcome: Outcome,
    /// With the figures of the first line.
    total: Outcome,
}

impl Run {
    fn of(lines: &[&str]) -> Self {
        let nothing = Side::default;
        let empty = || Outcome::for_flow(plan(), UNIX_EPOCH, nothing(), None, EndCause::Deadline);
        let (mut before, mut outcome, mut total) = (String::new(), empty(), empty());
        let mut profile = Workorder::default();
        // Lines of strands are in the order of the groups.
        let mut strands = 0;
        for line in lines {
            let (name, rest) = line[2..].split_once(' ').unwrap();
            let words: Vec<_> = rest.split(' ').collect();
            match name {
                "strands" => profile.groups.push(group(words[0], words[1])),
                "profile" => {
                    rest.clone_into(&mut profile.name);
                    before = starting(&profile) + &started(Duration::ZERO);
                }
                "progress" => {
                    let sample = SampleLine {
                        name: words[0],
                        totals: totals(&words[1..]).combined(),
                        ended: UNIX_EPOCH,
                    };
                    before += &progress(false, Width::for_terminal(None), &sample);
                    before += PROGRESS_END;
                }
                "total" => total.local = side(&words[1..]),
                "group" => outcome.groups.push(GroupOutcome {
                    name: words[0].to_owned(),
                    totals: totals(&words[1..]),
                    ..GroupOutcome::default()
                }),
                "strand" => {
                    strands += usize::from(words[0] == "Thr0");
                    let group = at(&mut outcome.groups, strands - 1);
                    group.workers.push(totals(&words[1..]));
                }
                "txn" => at(&mut outcome.groups, 0)
                    .transactions
                    .push(TransactionOutcome {
                        name: words[0].to_owned(),
                        times: Some(times(&words)),
                        ..TransactionOutcome::default()
                    }),
                "flowop" => {
                    let transactions = &mut at(&mut outcome.groups, 0).transactions;
                    at(transactions, 0).steps.push(StepOutcome {
                        name: words[0].to_owned(),
                        times: Some(times(&words)),
                        counters: Vec::new(),
                    });
                }
                "interfaces" | "interface" => {
                    let interfaces = outcome.local.interfaces.get_or_insert_default();
                    if name == "interface" {
                        interfaces.each.push(traffic(&words));
                    } else {
                        interfaces.elapsed = nanoseconds(words[0]);
                    }
                }
                "slave" => outcome.peers.push(peer(words[0], reported(&words[1..]))),
                "master" => {
                    outcome.local = Side {
                        interfaces: outcome.local.interfaces.take(),
                        ..side(&words)
                    }
                }
                "error" | "warning" => {
                    let (count, rest) = rest.split_once(' ').unwrap();
                    let (text, reason) = rest.split_once(" | ").unwrap_or((rest, ""));
                    outcome.log.push(LogEntry {
                        is_warning: name == "warning",
                        text: text.replace("\\n", "\n"),
                        reason: reason.to_owned(),
                        count: number(count),
                    });
                }
                "failures" => outcome.failures = number(words[0]),
                other => panic!("{other}"),
            }
        }
        Self {
            before,
            outcome,
            total,
        }
    }
}

/// That of this number, which may be the next one.
fn at<T: Default>(all: &mut Vec<T>, number: usize) -> &mut T {
    if all.len() <= number {
        all.push(T::default());
    }
    &mut all[number]
}

fn group(count: &str, kind: &str) -> GroupSpec {
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

/// Bytes, operations, nanoseconds.
fn totals(words: &[&str]) -> Totals {
    Totals {
        counts: Counts {
            sent: Bytes(number(words[0])),
            operations: number(words[1]),
            ..Counts::default()
        },
        elapsed: nanoseconds(words[2]),
    }
}

fn reported(words: &[&str]) -> CombinedTotals {
    totals(words).combined()
}

fn side(words: &[&str]) -> Side {
    let Totals { counts, elapsed } = totals(words);
    Side {
        counts,
        elapsed: Some(elapsed),
        ..Side::default()
    }
}

/// Name, count, and in nanoseconds all together, CPU time, longest, shortest.
fn times(words: &[&str]) -> ExecutionTimes {
    ExecutionTimes {
        executions: number(words[1]),
        total: nanoseconds(words[2]),
        cpu: Some(nanoseconds(words[3])),
        longest: nanoseconds(words[4]),
        shortest: nanoseconds(words[5]),
    }
}

/// Name, packets out and in, bytes out and in.
fn traffic(words: &[&str]) -> InterfaceTraffic {
    InterfaceTraffic {
        name: words[0].to_owned(),
        traffic: Traffic {
            sent_packets: number(words[1]),
            received_packets: number(words[2]),
            sent_bytes: number(words[3]),
            received_bytes: number(words[4]),
        },
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
