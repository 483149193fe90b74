//! The report as one page, which needs nothing but itself.

mod groups;
mod plot;
mod policy;
mod table;
mod test;
mod text;

use model::HostFacts;

use self::table::{Cell, UNKNOWN, table};
use self::text::percent;
pub(crate) use self::text::{escaped, nanoseconds};
use crate::plot::{NOTHING, picture};
use crate::{Figures, Report, Tested, warnings};

/// The page.
pub fn html(report: &Report) -> String {
    let tests = report.tests.iter();
    let sections = [
        status(report),
        doubts(report),
        summary(report),
        plots(report),
        tests
            .map(|tested| test::section(tested, report.tests.len() > 1))
            .collect(),
        hosts(report),
        sources(report),
    ];
    page(report, &sections.concat(), &policy::scripts())
}

/// A page of the plots of [`crate::plots_svg`], without scripts.
pub fn plots_html(report: &Report) -> String {
    let plots = match plots(report) {
        none if none.is_empty() => format!("<p>{NOTHING}</p>\n"),
        plots => plots,
    };
    let sections = [status(report), doubts(report), plots];
    page(report, &sections.concat(), "")
}

fn page(report: &Report, sections: &str, scripts: &str) -> String {
    let title = escaped(&title(report));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n{}</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n<p class=\"soft\">linerate {}, {}<br><code>{}</code></p>\n{sections}</main>\n{scripts}</body>\n\
         </html>\n",
        policy::policy(),
        policy::styles(),
        report.version,
        text::utc(report.started),
        escaped(&report.command_line),
    )
}

fn plots(report: &Report) -> String {
    let pictures = crate::plot::plots(report);
    section_if("Plots", &pictures.iter().map(picture).collect::<String>())
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

/// What keeps the figures from being those of a whole run.
fn status(report: &Report) -> String {
    let mut lines = Vec::new();
    if report.interrupted {
        lines.push(
            "The run was interrupted: the figures are those of its part until then.".to_owned(),
        );
    }
    let failed = report.tests.iter().filter_map(|test| {
        let why = test.error.as_deref()?;
        Some(format!("{} failed: {why}", test.plan.name))
    });
    lines.extend(failed);
    lines.extend(
        report
            .failure
            .iter()
            .map(|why| format!("The run failed: {why}")),
    );
    if !report.not_run.is_empty() {
        lines.push(format!("Not run: {}", report.not_run.join(", ")));
    }
    let line =
        |line: &String| format!("<p class=\"failed\" role=\"alert\">{}</p>\n", escaped(line));
    lines.iter().map(line).collect()
}

fn doubts(report: &Report) -> String {
    let item = |doubt: &String| format!("<li>{}</li>", escaped(doubt));
    let items: String = warnings::lines(&report.tests).iter().map(item).collect();
    if items.is_empty() {
        return String::new();
    }
    format!("<div class=\"doubts\">Warnings<ul>{items}</ul></div>\n")
}

/// Of several tests, the figures of each in a row.
fn summary(report: &Report) -> String {
    let measured: Vec<(&Tested, Figures)> = (report.tests.iter())
        .filter_map(|test| Some((test, Figures::of(&test.runs[test.median()?]))))
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
    let row = |(tested, figures): &(&Tested, Figures)| {
        let run = &tested.runs[tested.median().unwrap_or_default()];
        let time = |of: fn(&stats::Summary) -> u64| {
            let time = figures.latency.as_ref().map(of);
            Cell::known(time.map(|time| nanoseconds(time as f64)))
        };
        let cpu = |side: Option<&model::Side>| {
            let cpu = side.and_then(|side| side.cpu.as_ref());
            Cell::known(cpu.map(|cpu| percent(cpu.busy_percent)))
        };
        let loss = figures
            .datagrams
            .and_then(|datagrams| datagrams.lost_percent);
        vec![
            Cell::Text(tested.plan.name.clone()),
            Cell::known(test::rate(tested, figures)),
            time(|times| times.p50_ns),
            time(|times| times.p90_ns),
            time(|times| times.p99_ns),
            time(|times| times.max_ns),
            cpu(Some(&run.here)),
            cpu(run.there.as_ref()),
            Cell::known(loss.map(percent)),
            Cell::known(figures.retransmits.map(|count| count.to_string())),
        ]
    };
    section(
        "Summary",
        &table(&header, measured.iter().map(row).collect()),
    )
}

/// Each host once, with what is known of it.
fn hosts(report: &Report) -> String {
    let here = report.first_of(|run| Some(&run.here), |side| side.host.as_ref());
    let there = report.first_of(|run| run.there.as_ref(), |side| side.host.as_ref());
    let runs = report.tests.iter().flat_map(|test| &test.runs);
    let peers = runs.flat_map(|run| &run.peers).filter_map(|peer| {
        let facts = peer.side.as_ref()?.host.as_ref()?;
        Some((peer.host.clone(), facts))
    });
    let mut hosts: Vec<(String, &HostFacts)> = Vec::new();
    hosts.extend(here.map(|facts| ("this host".to_owned(), facts)));
    hosts.extend(there.map(|facts| (format!("peer: {}", report.peer.host), facts)));
    for (name, facts) in peers {
        if hosts.iter().all(|(known, _)| *known != name) {
            hosts.push((name, facts));
        }
    }
    let facts: Vec<_> = hosts
        .iter()
        .map(|(_, facts)| test::members(facts))
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in facts.iter().flatten() {
        if !names.contains(&&**name) {
            names.push(name);
        }
    }
    let row = |name: &&str| {
        let value = |facts: &Vec<(String, String)>| {
            let fact = facts.iter().find(|(known, _)| known == name);
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

/// The files that the plans were made from.
fn sources(report: &Report) -> String {
    let sources = report
        .tests
        .iter()
        .filter_map(|test| test.plan.source.as_deref());
    let text = |source: &str| format!("<pre>{}</pre>\n", escaped(source));
    section_if("Profile", &sources.map(text).collect::<String>())
}

fn section_if(title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    section(title, body)
}

fn section(title: &str, body: &str) -> String {
    format!("<section><h2>{}</h2>\n{body}</section>\n", escaped(title))
}
