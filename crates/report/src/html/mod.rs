//! The report as a self-contained HTML page.

mod groups;
mod plot;
mod policy;
mod table;
mod test;
mod text;

use model::HostFacts;

use self::table::{Cell, UNKNOWN, table};
use self::text::format_percent;
pub(crate) use self::text::{escape_html, format_nanoseconds};
use crate::plot::{NOTHING_TO_PLOT, picture};
use crate::{Report, TestFigures, TestReport, warnings};

/// Returns the page.
pub fn html(report: &Report) -> String {
    let tests = report.tests.iter();
    let sections = [
        failures(report),
        warning_list(report),
        summary(report),
        plots(report),
        tests
            .map(|test| test::section(test, report.tests.len() > 1))
            .collect(),
        hosts(report),
        sources(report),
    ];
    page(report, &sections.concat(), &policy::scripts())
}

/// Returns a page with the plots of [`crate::plots_svg`], without scripts.
pub fn plots_html(report: &Report) -> String {
    let plots = match plots(report) {
        plots if plots.is_empty() => format!("<p>{NOTHING_TO_PLOT}</p>\n"),
        plots => plots,
    };
    let sections = [failures(report), warning_list(report), plots];
    page(report, &sections.concat(), "")
}

fn page(report: &Report, sections: &str, scripts: &str) -> String {
    let title = escape_html(&title(report));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n{}</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n<p class=\"soft\">linerate {}, {}<br><code>{}</code></p>\n{sections}</main>\n{scripts}</body>\n\
         </html>\n",
        policy::content_security_policy(),
        policy::styles(),
        report.version,
        text::format_utc(report.started),
        escape_html(&report.command_line),
    )
}

fn plots(report: &Report) -> String {
    let pictures = crate::plot::plots(report);
    section_unless_empty("Plots", &pictures.iter().map(picture).collect::<String>())
}

fn title(report: &Report) -> String {
    let names: Vec<&str> = report.tests.iter().map(|test| &*test.plan.name).collect();
    let tests = match names[..] {
        [] => "no test".to_owned(),
        [name] => name.to_owned(),
        _ => format!("{} tests", names.len()),
    };
    match &*report.peer.host {
        "" => tests,
        host if report.peer.embedded => format!("{tests} on {host}"),
        host => match report.peer.port {
            Some(port) => format!("{tests} to {host} port {port}"),
            None => format!("{tests} to {host}"),
        },
    }
}

/// Returns paragraphs about interruption, failures and tests that did not run.
fn failures(report: &Report) -> String {
    let mut lines = Vec::new();
    if report.interrupted {
        lines.push("The run was interrupted; the figures cover the time until then.".to_owned());
    }
    let failed = report.tests.iter().filter_map(|test| {
        let reason = test.error.as_deref()?;
        Some(format!("{} failed: {reason}", test.plan.name))
    });
    lines.extend(failed);
    lines.extend(
        report
            .failure
            .iter()
            .map(|reason| format!("The run failed: {reason}")),
    );
    if !report.not_run.is_empty() {
        lines.push(format!("Not run: {}", report.not_run.join(", ")));
    }
    let paragraph = |line: &String| {
        format!(
            "<p class=\"failed\" role=\"alert\">{}</p>\n",
            escape_html(line)
        )
    };
    lines.iter().map(paragraph).collect()
}

fn warning_list(report: &Report) -> String {
    let item = |warning: &String| format!("<li>{}</li>", escape_html(warning));
    let items: String = warnings::lines(&report.tests).iter().map(item).collect();
    if items.is_empty() {
        return String::new();
    }
    format!("<div class=\"doubts\">Warnings<ul>{items}</ul></div>\n")
}

/// Returns a table with one row per test; empty for a single test.
fn summary(report: &Report) -> String {
    let measured: Vec<(&TestReport, TestFigures)> = (report.tests.iter())
        .filter_map(|test| {
            Some((
                test,
                TestFigures::from_outcome(&test.runs[test.median_run_index()?]),
            ))
        })
        .collect();
    if report.tests.len() < 2 || measured.is_empty() {
        return String::new();
    }
    let header = [
        "test",
        "rate",
        "p50",
        "p90",
        "p99",
        "max",
        "CPU here",
        "CPU peer",
        "loss",
        "retransmits",
    ];
    let row = |(test, figures): &(&TestReport, TestFigures)| {
        let run = &test.runs[test.median_run_index().unwrap_or_default()];
        let time = |value_of: fn(&stats::HistogramSummary) -> u64| {
            let time = figures.latency.as_ref().map(value_of);
            Cell::number_or_unknown(time.map(|time| format_nanoseconds(time as f64)))
        };
        let cpu = |side: Option<&model::Side>| {
            let cpu = side.and_then(|side| side.cpu.as_ref());
            Cell::number_or_unknown(cpu.map(|cpu| format_percent(cpu.busy_percent)))
        };
        let loss = figures
            .datagrams
            .and_then(|datagrams| datagrams.lost_percent);
        vec![
            Cell::Text(test.plan.name.clone()),
            Cell::number_or_unknown(test::rate(test, figures)),
            time(|times| times.p50_ns),
            time(|times| times.p90_ns),
            time(|times| times.p99_ns),
            time(|times| times.max_ns),
            cpu(Some(&run.local)),
            cpu(run.remote.as_ref()),
            Cell::number_or_unknown(loss.map(format_percent)),
            Cell::number_or_unknown(figures.retransmits.map(|count| count.to_string())),
        ]
    };
    section(
        "Summary",
        &table(&header, measured.iter().map(row).collect()),
    )
}

/// Returns a table with the known facts of each host.
fn hosts(report: &Report) -> String {
    let local = report.find_in_sides(|run| Some(&run.local), |side| side.host.as_ref());
    let remote = report.find_in_sides(|run| run.remote.as_ref(), |side| side.host.as_ref());
    let runs = report.tests.iter().flat_map(|test| &test.runs);
    let peers = runs.flat_map(|run| &run.peers).filter_map(|peer| {
        let facts = peer.side.as_ref()?.host.as_ref()?;
        Some((peer.host.clone(), facts))
    });
    let mut hosts: Vec<(String, &HostFacts)> = Vec::new();
    hosts.extend(local.map(|facts| ("this host".to_owned(), facts)));
    hosts.extend(remote.map(|facts| (format!("peer: {}", report.peer.host), facts)));
    for (name, facts) in peers {
        if hosts.iter().all(|(listed_name, _)| *listed_name != name) {
            hosts.push((name, facts));
        }
    }
    let facts: Vec<_> = hosts
        .iter()
        .map(|(_, facts)| test::flatten_fields(facts))
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in facts.iter().flatten() {
        if !names.contains(&&**name) {
            names.push(name);
        }
    }
    let row = |name: &&str| {
        let value = |facts: &Vec<(String, String)>| {
            let fact = facts.iter().find(|(fact_name, _)| fact_name == name);
            Cell::Text(fact.map_or_else(|| UNKNOWN.to_owned(), |(_, value)| value.clone()))
        };
        let cells = facts.iter().map(value);
        [Cell::Text((*name).to_owned())]
            .into_iter()
            .chain(cells)
            .collect()
    };
    if names.is_empty() {
        return String::new();
    }
    let header = [""]
        .into_iter()
        .chain(hosts.iter().map(|(name, _)| &**name));
    let rows = names.iter().map(row).collect();
    section("Hosts", &table(&header.collect::<Vec<_>>(), rows))
}

/// Returns the source texts of the plans, for example uperf profiles.
fn sources(report: &Report) -> String {
    let sources = report
        .tests
        .iter()
        .filter_map(|test| test.plan.source.as_deref());
    let text = |source: &str| format!("<pre>{}</pre>\n", escape_html(source));
    section_unless_empty("Profile", &sources.map(text).collect::<String>())
}

fn section_unless_empty(title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    section(title, body)
}

fn section(title: &str, body: &str) -> String {
    format!(
        "<section><h2>{}</h2>\n{body}</section>\n",
        escape_html(title)
    )
}
