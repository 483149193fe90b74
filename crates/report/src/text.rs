//! The report as text for a terminal.

use model::{ClockFacts, HostFacts, Limit, SizeRule};

use units::BitRate;

use crate::number::{format_significant, format_thousands};
use crate::table::table;
use crate::{PaceLimit, Report, TestFigures, TestReport, warnings};

/// The maximum width of a line. Longer lines are hard to read.
const MAX_COLUMNS: usize = 110;

/// The minimum width of a line. A smaller width would break every line.
const MIN_COLUMNS: usize = 40;

/// Returns the report: the peer, the table, notes, warnings and failures. Lines have at most
/// `columns` characters, unless a single word is longer.
pub fn text(report: &Report, columns: usize) -> String {
    let columns = columns.clamp(MIN_COLUMNS, MAX_COLUMNS);
    let wrap = |text: &str, indent: &str| wrap(text, indent, columns);
    let mut lines: Vec<String> = heading(report)
        .iter()
        .flat_map(|line| wrap(line, "      "))
        .collect();
    if report.tests.iter().any(|test| !test.runs.is_empty()) {
        let table = table(&report.tests, columns);
        lines.push(String::new());
        lines.extend(table.lines);
        lines.push(String::new());
        let notes = notes(report, &table.omitted_columns);
        lines.extend(notes.iter().flat_map(|note| wrap(note, "")));
    }
    let warnings = warnings::lines(&report.tests);
    if !warnings.is_empty() {
        lines.push(String::new());
        lines.push("warnings:".to_owned());
        lines.extend(
            warnings
                .iter()
                .flat_map(|warning| wrap(&format!("- {warning}"), "  ")),
        );
    }
    let failures = failures(report);
    if !failures.is_empty() {
        lines.push(String::new());
        lines.extend(failures.iter().flat_map(|failure| wrap(failure, "  ")));
    }
    lines.join("\n") + "\n"
}

fn heading(report: &Report) -> Vec<String> {
    let peer = &report.peer;
    let embedded = if peer.embedded {
        " (a server in this process)"
    } else {
        ""
    };
    let port = peer
        .port
        .map_or_else(String::new, |port| format!(" port {port}"));
    let mut lines = vec![format!(
        "linerate {} to {}{port}{embedded}",
        report.version, peer.host
    )];
    let local = report.find_in_sides(|run| Some(&run.local), |side| side.host.as_ref());
    if let Some(local) = local {
        lines.push(format!("here  {}", describe_host(local)));
    }
    if report.tests.iter().all(|test| test.runs.is_empty()) {
        return lines;
    }
    let program = report.find_in_sides(|run| run.remote.as_ref(), |side| side.program.clone());
    let program = program.unwrap_or_else(|| match peer.kind {
        Some(kind) => format!("a stock {kind}, which does not report its host"),
        None => "does not report its host".to_owned(),
    });
    let facts = match report.find_in_sides(|run| run.remote.as_ref(), |side| side.host.as_ref()) {
        Some(remote)
            if local.is_some_and(|local| {
                local.boot_id.is_some() && local.boot_id == remote.boot_id
            }) =>
        {
            ", on the same machine".to_owned()
        }
        Some(remote) => format!(" on {}", describe_host(remote)),
        None => String::new(),
    };
    lines.push(format!("peer  {program}{facts}"));
    lines
}

fn describe_host(facts: &HostFacts) -> String {
    let kernel = [facts.kernel.as_deref(), facts.machine.as_deref()];
    let cpus = facts.cpus.map(|cpus| match &facts.cpu_model {
        Some(model) => format!("{cpus} × {model}"),
        None => format!("{cpus} CPUs"),
    });
    [
        Some(kernel.into_iter().flatten().collect::<Vec<_>>().join(" ")),
        cpus,
        facts.mtu_bytes.map(|mtu| format!("MTU {mtu}")),
        facts.congestion_control.clone(),
        facts
            .virtual_guest
            .filter(|guest| *guest)
            .map(|_| "virtual guest".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

/// Returns notes that explain the figures of the table.
fn notes(report: &Report, omitted_columns: &[String]) -> Vec<String> {
    let measured = || report.tests.iter().filter(|test| !test.runs.is_empty());
    let mut notes = Vec::new();
    if let Some(test) = measured().next() {
        let without_goal = measured().filter(|test| test.goal.is_none());
        let runs = without_goal.map(|test| test.runs.len()).max().unwrap_or(1);
        let plan = &test.runs[0].plan;
        let (flows, is_bidirectional) = (plan.flows(), plan.is_bidirectional());
        let warm_up = test.plan.phases.warm_up;
        let clauses = [
            test.plan.flow().map(|flow| describe_limit(flow.limit)),
            (flows > 1 || is_bidirectional).then(|| describe_flows(flows, is_bidirectional)),
            (!warm_up.is_zero()).then(|| format!("after a warm-up of {} s", warm_up.as_secs())),
            (runs > 1).then(|| format!("the median of {runs} runs, their range below it")),
        ];
        notes.push(clauses.into_iter().flatten().collect::<Vec<_>>().join(", ") + ".");
    }
    notes.extend(measured().filter_map(spread_note));
    notes.extend(confidence_note(report));
    notes.extend(measured().filter_map(levels_note));
    notes.extend(measured().filter_map(|test| datagram_note(report, test)));
    if let Some(clock) = measured().find_map(latency_clock) {
        notes.push(format!(
            "Each latency includes one clock read ({:.0} ns; resolution {} ns).",
            clock.cost_ns, clock.resolution_ns
        ));
    }
    let shows_demand = !omitted_columns.iter().any(|name| name == "service demand");
    notes.extend(shows_demand.then(|| {
        "Service demand: µs of CPU time, of all CPUs of a host, per KB (1024 bytes) or per transaction."
            .to_owned()
    }));
    if !omitted_columns.is_empty() {
        notes.push(format!(
            "Columns left out: {}; --json has them.",
            omitted_columns.join(", ")
        ));
    }
    notes
}

/// Returns a note about one-way datagrams: their size, their rate limit and the meaning of the
/// loss.
fn datagram_note(report: &Report, test: &TestReport) -> Option<String> {
    let figures = TestFigures::from_outcome(&test.runs[test.median_run_index()?]);
    let datagrams = figures.datagrams?;
    let SizeRule::Bytes(bytes) = test.plan.flow()?.local.send.size else {
        return None;
    };
    let pace = match &test.pace_limit {
        None => "unpaced".to_owned(),
        Some(PaceLimit {
            rate,
            reference_test: None,
        }) => format!("paced to {rate}"),
        Some(PaceLimit {
            rate,
            reference_test: Some(reference_test),
        }) => {
            let is_listed = report
                .tests
                .iter()
                .any(|test| test.plan.name == *reference_test);
            let length = if is_listed { "" } else { "1 s of " };
            format!(
                "paced to {rate}, the rate of {length}{reference_test} (--udp-rate sets another one)"
            )
        }
    };
    let loss_note = match datagrams.dropped_by_receiver {
        _ if datagrams.lost == 0 => "",
        Some(0) => " Lost on the path.",
        Some(_) => " \"socket\": dropped by the receiver's own socket, not lost on the path.",
        None => " Whether the path or the receiver's socket lost them is unknown.",
    };
    let run = &test.runs[test.median_run_index()?];
    let sides = [
        Some(("here", &run.local)),
        run.remote.as_ref().map(|side| ("there", side)),
    ];
    let batches = sides.into_iter().flatten().filter_map(|(end, side)| {
        let batch = side.counts.mean_batch_size()?;
        Some(format!(", {batch:.1} per call {end}"))
    });
    let batches: String = batches.collect();
    let name = &test.plan.name;
    Some(format!(
        "{name}: datagrams of {bytes} bytes, {pace}{batches}; the rate counts those received before the test ended.{loss_note}"
    ))
}

/// Returns a note about two rate levels within the run.
fn levels_note(test: &TestReport) -> Option<String> {
    let levels = TestFigures::from_outcome(&test.runs[test.median_run_index()?]).levels?;
    let changes_text = match levels.changes {
        1 => "changed once".to_owned(),
        changes => format!("changed {changes} times"),
    };
    Some(format!(
        "{}: the rate {changes_text} between two levels within the run; each is shown with its share of the time.",
        test.plan.name
    ))
}

/// Returns the clock of a test with latencies.
fn latency_clock(test: &TestReport) -> Option<ClockFacts> {
    let local = &test.runs[test.median_run_index()?].local;
    local.clock.filter(|_| local.latency.is_some())
}

fn describe_flows(flows: u32, is_bidirectional: bool) -> String {
    let (plural, direction) = (
        if flows == 1 { "" } else { "s" },
        if is_bidirectional {
            " in each direction"
        } else {
            ""
        },
    );
    format!("{flows} flow{plural}{direction} at once")
}

/// Returns a note that compares the flows of the run that the table shows.
fn spread_note(test: &TestReport) -> Option<String> {
    let figures = TestFigures::from_outcome(&test.runs[test.median_run_index()?]);
    let spread = figures.flow_spread?;
    let format_rate = |rate: f64| match figures.transactions_per_s {
        Some(_) => format!("{} tran/s", format_thousands(rate)),
        None => BitRate(rate).to_string(),
    };
    let directions = spread.outbound_bps.zip(spread.inbound_bps);
    let directions = directions.map(|(out, inbound)| format!("{out} out and {inbound} in; "));
    Some(format!(
        "{}: {}per flow from {} to {}, Jain's index {}, started within {} ms.",
        test.plan.name,
        directions.unwrap_or_default(),
        format_rate(spread.slowest_rate),
        format_rate(spread.fastest_rate),
        spread
            .jain_index
            .map_or("–".to_owned(), |index| format!("{index:.3}")),
        format_significant(spread.start_spread_ns as f64 / 1e6),
    ))
}

/// Returns a note about the confidence intervals of the rates.
fn confidence_note(report: &Report) -> Option<String> {
    let with_goal = report.tests.iter().filter(|test| test.goal.is_some());
    let confidences: Vec<_> = with_goal
        .filter_map(|test| Some((&test.plan.name, test.confidence()?)))
        .collect();
    let level = confidences.first()?.1.level.percent();
    let runs: Vec<String> = confidences
        .iter()
        .map(|(name, confidence)| format!("{name} {}", confidence.iterations))
        .collect();
    Some(format!(
        "Each rate is the mean of all runs; below it is half the width of its {level} % confidence interval. \
         The other figures are those of the run with the median rate. Runs: {}.",
        runs.join(", ")
    ))
}

fn describe_limit(limit: Limit) -> String {
    match limit {
        Limit::Time(length) => format!("{} s per test", length.as_secs()),
        Limit::Bytes(bytes) => format!("{bytes} bytes per test"),
        Limit::Transactions(count) => format!("{count} transactions per test"),
        Limit::Messages(count) => format!("{count} messages per test"),
        Limit::Unlimited => "no time limit".to_owned(),
    }
}

/// Returns the failures: each reason once, with the tests that it affected.
fn failures(report: &Report) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for test in &report.tests {
        let Some(reason) = test.error.as_deref() else {
            continue;
        };
        match reasons.iter_mut().find(|(listed, _)| *listed == reason) {
            Some((_, names)) => names.push(&test.plan.name),
            None => reasons.push((reason, vec![&test.plan.name])),
        }
    }
    let failure_line =
        |(reason, names): (&str, Vec<&str>)| format!("{} failed: {reason}", names.join(", "));
    let mut lines: Vec<String> = reasons.into_iter().map(failure_line).collect();
    lines.extend(
        report
            .failure
            .iter()
            .map(|reason| format!("failed: {reason}")),
    );
    if report.interrupted {
        lines.push("interrupted: the figures cover the time until then".to_owned());
    }
    if !report.not_run.is_empty() {
        lines.push(format!("not run: {}", report.not_run.join(", ")));
    }
    lines
}

/// Breaks a line at spaces to fit into `columns`. Continuation lines begin with `indent`.
fn wrap(text: &str, indent: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut remaining = text;
    let mut line_indent = "";
    loop {
        let available = columns - line_indent.len();
        let Some((limit, _)) = remaining.char_indices().nth(available) else {
            lines.push(format!("{line_indent}{remaining}"));
            return lines;
        };
        let min_break = indent.len().max(1);
        let Some(break_index) = remaining[..limit]
            .rfind(' ')
            .filter(|index| *index > min_break)
            .or_else(|| remaining[limit..].find(' ').map(|offset| limit + offset))
        else {
            lines.push(format!("{line_indent}{remaining}"));
            return lines;
        };
        lines.push(format!(
            "{line_indent}{}",
            remaining[..break_index].trim_end()
        ));
        remaining = remaining[break_index..].trim_start();
        line_indent = indent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        let words = "µs word ".repeat(40);
        let lines = wrap(words.trim_end(), "    ", 80);
        assert!(lines.len() > 2);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{lines:?}"
        );
        assert_eq!(lines.concat().matches("word").count(), 40);
        let long = "x".repeat(300);
        assert_eq!(wrap(&long, " ", 80), [&long[..]]);
        assert_eq!(wrap(&format!("{long} y"), " ", 80), [long, " y".to_owned()]);
    }
}
