//! The report as people read it.

use model::{ClockFacts, HostFacts, Limit, Plan, SizeRule};

use units::BitRate;

use crate::number::{significant, thousands};
use crate::table::table;
use crate::{Figures, Report, Tested, warnings};

/// No line is longer, unless one word is.
const COLUMNS: usize = 110;

/// The whole report: whom it met, the table, failures, and doubts.
pub fn text(report: &Report) -> String {
    let mut lines = heading(report);
    if report.tests.iter().any(|test| !test.runs.is_empty()) {
        lines.push(String::new());
        lines.extend(table(&report.tests).lines().map(str::to_owned));
        lines.push(String::new());
        lines.extend(notes(report).iter().flat_map(|note| wrap(note, "")));
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
    let mut lines = vec![format!(
        "linerate {} to {} port {}{embedded}",
        report.version, peer.host, peer.port
    )];
    let here = report.first_of(|run| Some(&run.here), |side| side.host.as_ref());
    if let Some(here) = here {
        lines.extend(wrap(&format!("here  {}", host(here)), "      "));
    }
    if report.tests.iter().all(|test| test.runs.is_empty()) {
        return lines;
    }
    let program = report.first_of(|run| run.there.as_ref(), |side| side.program.clone());
    let program =
        program.unwrap_or_else(|| "a stock netserver, which does not tell its host".to_owned());
    let facts = match report.first_of(|run| run.there.as_ref(), |side| side.host.as_ref()) {
        Some(there)
            if here.is_some_and(|here| here.boot_id.is_some() && here.boot_id == there.boot_id) =>
        {
            ", on the same machine".to_owned()
        }
        Some(there) => format!(" on {}", host(there)),
        None => String::new(),
    };
    lines.extend(wrap(&format!("peer  {program}{facts}"), "      "));
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
fn notes(report: &Report) -> Vec<String> {
    let measured = || report.tests.iter().filter(|test| !test.runs.is_empty());
    let mut notes = Vec::new();
    if let Some(test) = measured().next() {
        let runs = measured().map(|test| test.runs.len()).max().unwrap_or(1);
        let plan = &test.runs[0].plan;
        let (flows, both_ways) = (plan.flows, plan.bidirectional);
        let warm_up = test.plan.phases.warm_up;
        let parts = [
            Some(length(&test.plan)),
            (flows > 1 || both_ways).then(|| flows_at_once(flows, both_ways)),
            (!warm_up.is_zero()).then(|| format!("after a warm-up of {} s", warm_up.as_secs())),
            (runs > 1).then(|| format!("the median of {runs} runs, their range below it")),
        ];
        notes.push(parts.into_iter().flatten().collect::<Vec<_>>().join(", ") + ".");
    }
    notes.extend(measured().filter_map(spread));
    notes.extend(measured().filter_map(confidence));
    let datagrams = measured().find(|test| test.plan.transport.has_datagrams() && is_bulk(test));
    if let Some(SizeRule::Bytes(bytes)) = datagrams.map(|test| test.plan.here.send.size) {
        notes.push(format!(
            "Datagrams of {bytes} bytes; their rate is what was received in time."
        ));
    }
    if let Some(clock) = measured().find_map(clock) {
        notes.push(format!(
            "Each latency has a reading of the clock in it: {:.0} ns, in steps of {} ns.",
            clock.cost_ns, clock.resolution_ns
        ));
    }
    notes
        .push("Service demand is CPU time of all of a host's CPUs; 1 KB is 1024 bytes.".to_owned());
    notes
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

/// How well a test's mean is known, if that was asked for.
fn confidence(test: &Tested) -> Option<String> {
    let found = test.confidence().filter(|_| test.goal.is_some())?;
    let transactional = test.plan.workload.is_transactional();
    let mean = match test.mean_rate()? {
        rate if transactional => format!("{} tran/s", thousands(rate)),
        rate => BitRate(rate).to_string(),
    };
    Some(format!(
        "{}: the mean of {} runs is {mean} ± {} %, with {} % confidence.",
        test.plan.name,
        found.iterations,
        significant(found.throughput_width_percent? / 2.0),
        found.level.percent(),
    ))
}

fn is_bulk(test: &Tested) -> bool {
    !test.plan.workload.is_transactional()
}

fn length(plan: &Plan) -> String {
    match plan.limit {
        Limit::Time(length) => format!("{} s a test", length.as_secs()),
        Limit::Bytes(bytes) => format!("{bytes} bytes a test"),
        Limit::Transactions(count) => format!("{count} transactions a test"),
        Limit::Messages(count) => format!("{count} messages a test"),
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

/// Breaks a line at blanks; what follows begins with `indent`.
fn wrap(text: &str, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    let mut start = "";
    loop {
        let room = COLUMNS - start.len();
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
        let lines = wrap(words.trim_end(), "    ");
        assert!(lines.len() > 2);
        assert!(
            lines.iter().all(|line| line.chars().count() <= COLUMNS),
            "{lines:?}"
        );
        assert_eq!(lines.concat().matches("word").count(), 40);
        let long = "x".repeat(300);
        assert_eq!(wrap(&long, " "), [&long[..]]);
        assert_eq!(wrap(&format!("{long} y"), " "), [long, " y".to_owned()]);
    }
}
