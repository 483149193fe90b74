//! The report as people read it.

use model::{ClockFacts, HostFacts, Limit, SizeRule};

use units::BitRate;

use crate::number::{significant, thousands};
use crate::table::table;
use crate::{Figures, Pace, Report, Tested, warnings};

/// Longer lines are hard to read, however wide the terminal is.
const WIDEST: usize = 110;

/// Below this every line would break.
const NARROWEST: usize = 40;

/// The whole report: the peer, the table, failures, and doubts. No line has more than `columns`
/// characters, unless one word has.
pub fn text(report: &Report, columns: usize) -> String {
    let columns = columns.clamp(NARROWEST, WIDEST);
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
        let notes = notes(report, &table.left_out);
        lines.extend(notes.iter().flat_map(|note| wrap(note, "")));
    }
    let doubts = warnings::lines(&report.tests);
    if !doubts.is_empty() {
        lines.push(String::new());
        lines.push("warnings:".to_owned());
        lines.extend(
            doubts
                .iter()
                .flat_map(|doubt| wrap(&format!("- {doubt}"), "  ")),
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
    let here = report.first_of(|run| Some(&run.here), |side| side.host.as_ref());
    if let Some(here) = here {
        lines.push(format!("here  {}", host(here)));
    }
    if report.tests.iter().all(|test| test.runs.is_empty()) {
        return lines;
    }
    let program = report.first_of(|run| run.there.as_ref(), |side| side.program.clone());
    let program = program.unwrap_or_else(|| match peer.kind {
        Some(kind) => format!("a stock {kind}, which does not report its host"),
        None => "does not report its host".to_owned(),
    });
    let facts = match report.first_of(|run| run.there.as_ref(), |side| side.host.as_ref()) {
        Some(there)
            if here.is_some_and(|here| here.boot_id.is_some() && here.boot_id == there.boot_id) =>
        {
            ", on the same machine".to_owned()
        }
        Some(there) => format!(" on {}", host(there)),
        None => String::new(),
    };
    lines.push(format!("peer  {program}{facts}"));
    lines
}

fn host(facts: &HostFacts) -> String {
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

/// What the table's figures are of.
fn notes(report: &Report, left_out: &[String]) -> Vec<String> {
    let measured = || report.tests.iter().filter(|test| !test.runs.is_empty());
    let mut notes = Vec::new();
    if let Some(test) = measured().next() {
        let without_goal = measured().filter(|test| test.goal.is_none());
        let runs = without_goal.map(|test| test.runs.len()).max().unwrap_or(1);
        let plan = &test.runs[0].plan;
        let (flows, both_ways) = (plan.flows(), plan.is_bidirectional());
        let warm_up = test.plan.phases.warm_up;
        let parts = [
            test.plan.flow().map(|flow| length(flow.limit)),
            (flows > 1 || both_ways).then(|| flows_at_once(flows, both_ways)),
            (!warm_up.is_zero()).then(|| format!("after a warm-up of {} s", warm_up.as_secs())),
            (runs > 1).then(|| format!("the median of {runs} runs, their range below it")),
        ];
        notes.push(parts.into_iter().flatten().collect::<Vec<_>>().join(", ") + ".");
    }
    notes.extend(measured().filter_map(spread));
    notes.extend(confidence(report));
    notes.extend(measured().filter_map(levels));
    notes.extend(measured().filter_map(datagrams));
    if let Some(clock) = measured().find_map(clock) {
        notes.push(format!(
            "Each latency includes one clock read ({:.0} ns; resolution {} ns).",
            clock.cost_ns, clock.resolution_ns
        ));
    }
    let has_demand = !left_out.iter().any(|name| name == "service demand");
    notes.extend(has_demand.then(|| {
        "Service demand: µs of CPU time, of all CPUs of a host, per KB (1024 bytes) or per transaction."
            .to_owned()
    }));
    if !left_out.is_empty() {
        notes.push(format!(
            "No room for: {}; --json has all figures.",
            left_out.join(", ")
        ));
    }
    notes
}

/// Of one-way datagrams: their size, their pace, and what the table's loss is.
fn datagrams(test: &Tested) -> Option<String> {
    let figures = Figures::of(&test.runs[test.median()?]);
    let found = figures.datagrams?;
    let SizeRule::Bytes(bytes) = test.plan.flow()?.here.send.size else {
        return None;
    };
    let pace = match &test.pace {
        None => "as fast as they go".to_owned(),
        Some(Pace { rate, of: None }) => format!("paced to {rate}"),
        Some(Pace { rate, of: Some(of) }) => {
            format!("paced to {rate}, the rate of {of} (--udp-rate sets another one)")
        }
    };
    let lost = match found.dropped_by_receiver {
        _ if found.lost == 0 => "",
        Some(0) => " Lost on the path.",
        Some(_) => " \"socket\": dropped by the receiver's own socket, not lost on the path.",
        None => " Whether the path or the receiver's socket lost them is unknown.",
    };
    let run = &test.runs[test.median()?];
    let sides = [
        Some(("here", &run.here)),
        run.there.as_ref().map(|side| ("there", side)),
    ];
    let batches = sides.into_iter().flatten().filter_map(|(end, side)| {
        let batch = side.counts.batch()?;
        Some(format!(", {batch:.1} per call {end}"))
    });
    let batches: String = batches.collect();
    let name = &test.plan.name;
    Some(format!(
        "{name}: datagrams of {bytes} bytes, {pace}{batches}; the rate counts those received before the test ended.{lost}"
    ))
}

/// Two rates within the run.
fn levels(test: &Tested) -> Option<String> {
    let levels = Figures::of(&test.runs[test.median()?]).levels?;
    let how = match levels.changes {
        1 => "changed once".to_owned(),
        changes => format!("changed {changes} times"),
    };
    Some(format!(
        "{}: the rate {how} between two levels within the run; each is shown with its share of the time.",
        test.plan.name
    ))
}

/// The clock of a test whose latencies are shown.
fn clock(test: &Tested) -> Option<ClockFacts> {
    let here = &test.runs[test.median()?].here;
    here.clock.filter(|_| here.latency.is_some())
}

fn flows_at_once(flows: u32, both_ways: bool) -> String {
    let (plural, direction) = (
        if flows == 1 { "" } else { "s" },
        if both_ways { " in each direction" } else { "" },
    );
    format!("{flows} flow{plural}{direction} at once")
}

/// How the flows of a test compare, of the run whose figures the table shows.
fn spread(test: &Tested) -> Option<String> {
    let figures = Figures::of(&test.runs[test.median()?]);
    let spread = figures.spread?;
    let rate = |rate: f64| match figures.transactions_per_s {
        Some(_) => format!("{} tran/s", thousands(rate)),
        None => BitRate(rate).to_string(),
    };
    let ways = spread.outbound_bps.zip(spread.inbound_bps);
    let ways = ways.map(|(out, back)| format!("{out} out and {back} in; "));
    Some(format!(
        "{}: {}a flow from {} to {}, Jain's index {}, started within {} ms.",
        test.plan.name,
        ways.unwrap_or_default(),
        rate(spread.slowest_rate),
        rate(spread.fastest_rate),
        spread
            .jain_index
            .map_or("–".to_owned(), |index| format!("{index:.3}")),
        significant(spread.start_spread_ns as f64 / 1e6),
    ))
}

/// What the rates are where their confidence was asked for.
fn confidence(report: &Report) -> Option<String> {
    let asked = report.tests.iter().filter(|test| test.goal.is_some());
    let found: Vec<_> = asked
        .filter_map(|test| Some((&test.plan.name, test.confidence()?)))
        .collect();
    let level = found.first()?.1.level.percent();
    let runs: Vec<String> = found
        .iter()
        .map(|(name, found)| format!("{name} {}", found.iterations))
        .collect();
    Some(format!(
        "Each rate is the mean of all runs, with half of its {level} % confidence interval below it; the other \
         figures are of the run with the median rate. Runs: {}.",
        runs.join(", ")
    ))
}

fn length(limit: Limit) -> String {
    match limit {
        Limit::Time(length) => format!("{} s per test", length.as_secs()),
        Limit::Bytes(bytes) => format!("{bytes} bytes per test"),
        Limit::Transactions(count) => format!("{count} transactions per test"),
        Limit::Messages(count) => format!("{count} messages per test"),
        Limit::Unlimited => "no limit of time".to_owned(),
    }
}

/// Why there is not more: each reason once, with the tests that it kept from a result.
fn failures(report: &Report) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for test in &report.tests {
        let Some(why) = test.error.as_deref() else {
            continue;
        };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&test.plan.name),
            None => reasons.push((why, vec![&test.plan.name])),
        }
    }
    let failed = |(why, names): (&str, Vec<&str>)| format!("{} failed: {why}", names.join(", "));
    let mut lines: Vec<String> = reasons.into_iter().map(failed).collect();
    lines.extend(report.failure.iter().map(|why| format!("failed: {why}")));
    if report.interrupted {
        lines.push("interrupted: this is what was measured until then".to_owned());
    }
    if !report.not_run.is_empty() {
        lines.push(format!("not run: {}", report.not_run.join(", ")));
    }
    lines
}

/// Breaks a line of more than so many columns at blanks; what follows begins with `indent`.
fn wrap(text: &str, indent: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    let mut start = "";
    loop {
        let room = columns - start.len();
        let Some((limit, _)) = rest.char_indices().nth(room) else {
            lines.push(format!("{start}{rest}"));
            return lines;
        };
        let head = indent.len().max(1);
        let Some(at) = rest[..limit]
            .rfind(' ')
            .filter(|at| *at > head)
            .or_else(|| rest[limit..].find(' ').map(|at| limit + at))
        else {
            lines.push(format!("{start}{rest}"));
            return lines;
        };
        lines.push(format!("{start}{}", rest[..at].trim_end()));
        rest = rest[at..].trim_start();
        start = indent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks() {
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
