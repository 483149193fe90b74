//! `--html`: the result as one page, which needs nothing but itself.

mod figures;
mod plot;
mod style;
mod table;
mod text;

use std::time::{Duration, SystemTime};

use model::{HostFacts, Series};

use super::line::printable;
use crate::transaction_name;
pub use figures::*;
use table::{Cell, table};
use text::{amount, duration, escaped};

/// What the page is made of.
#[derive(Clone, Debug)]
pub struct Page {
    /// What was typed.
    pub command_line: String,
    /// The profile's name.
    pub name: String,
    /// The profile, as it was read.
    pub profile: String,
    /// What came of it.
    pub measured: Measured,
}

/// What was measured, whole.
#[derive(Clone, Debug)]
pub struct Measured {
    /// When the run began: the handshake had ended.
    pub begun: SystemTime,
    /// What is printed, too.
    pub report: Report,
    /// The transactions one after the other, as far as their progress was sampled.
    pub series: Vec<Series>,
    /// The times that were kept, if any were.
    pub distributions: Vec<Distribution>,
    /// This host and those of the slaves, as far as they told.
    pub hosts: Vec<Host>,
    /// What makes the result doubtful.
    pub doubts: Vec<String>,
    /// Each transaction of each group.
    pub parts: Vec<Part>,
    /// This host, where somebody asked for more than text.
    pub here: HostFacts,
    /// What the first slave is: `linerate` or `uperf`.
    pub peer: Option<&'static str>,
    /// One of the doubts: a slave is on this host.
    pub shares_host: bool,
    /// A signal has ended the run at this end.
    pub is_interrupted: bool,
}

/// Times by how many were shorter.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// What was timed.
    pub name: String,
    /// How often.
    pub count: u64,
    /// Per cent of the times, ascending, and the time that so many did not exceed.
    pub percentiles: Vec<(f64, Duration)>,
}

/// Facts of one host.
#[derive(Clone, Debug)]
pub struct Host {
    /// As the profile or the host itself names it.
    pub name: String,
    /// What is known, and what it is.
    pub facts: Vec<(String, String)>,
}

/// The page.
pub fn page(page: &Page) -> String {
    let name = escaped(&printable(&page.name));
    let sections: String = [
        status(page),
        headline(page),
        doubts(page),
        over_time(page),
        latencies(page),
        groups(page),
        executions(page),
        counters(page),
        beginnings(page),
        ends(page),
        interfaces(page),
        hosts(page),
        log(page),
        profile(page),
    ]
    .concat();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         img-src data:; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>uperf: {name}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n\
         <h1>{name}</h1>\n<p class=\"soft\">{}<br><code>{}</code></p>\n{sections}</main>\n</body>\n\
         </html>\n",
        style::SHEET,
        text::utc(page.measured.begun),
        escaped(&page.command_line),
    )
}

/// What keeps the figures from being those of a whole run.
fn status(page: &Page) -> String {
    let failures = page.measured.report.failures;
    let words = if page.measured.is_interrupted {
        "The run was interrupted: the figures are those of its part until then.".to_owned()
    } else if failures > 0 {
        format!("The run failed: {failures} strands or slaves failed; the log says how.")
    } else {
        return String::new();
    };
    format!("<p class=\"failed\">{words}</p>\n")
}

/// The figures that come first: rates over active time.
fn headline(page: &Page) -> String {
    let Report {
        total,
        active,
        failures,
        ..
    } = &page.measured.report;
    let tile = |label: &str, value: &str, note: &str| {
        format!("<div class=\"tile\"><b>{value}</b><span>{label}</span><small>{note}</small></div>")
    };
    let bits = active.all.bit_rate();
    let tiles = [
        tile(
            "throughput over active time",
            &amount(bits, "bit/s"),
            &format!(
                "{} over all of the time",
                amount(total.totals.bit_rate(), "bit/s")
            ),
        ),
        tile(
            "operations over active time",
            &amount(active.all.operation_rate(), "op/s"),
            &format!("{} in all", total.totals.operations),
        ),
        tile(
            "active time",
            &duration(active.all.elapsed),
            &format!("of {}", duration(total.totals.elapsed)),
        ),
        tile("failures", &failures.to_string(), "strands and slaves"),
    ];
    format!("<div class=\"tiles\">{}</div>\n", tiles.concat())
}

fn doubts(page: &Page) -> String {
    let item = |doubt: &String| format!("<li>{}</li>", escaped(doubt));
    let items: String = page.measured.doubts.iter().map(item).collect();
    section_if(!items.is_empty(), "Doubts", || format!("<ul>{items}</ul>"))
}

fn over_time(page: &Page) -> String {
    let series = &page.measured.series;
    let samples = || series.iter().flat_map(|series| &series.samples);
    let is_moved = samples().any(|sample| sample.bytes().0 > 0);
    let throughput = || plot::series("bit/s", series, |sample| sample.bytes().0 as f64 * 8.0);
    let operations = || plot::series("op/s", series, |sample| sample.operations as f64);
    section_if(is_moved, "Throughput over time", throughput)
        + &section_if(
            samples().next().is_some(),
            "Operations over time",
            operations,
        )
}

fn latencies(page: &Page) -> String {
    let shown: Vec<_> = page
        .measured
        .distributions
        .iter()
        .filter(|distribution| !distribution.percentiles.is_empty())
        .collect();
    let body = || {
        let percents = shown[0].percentiles.iter().map(|(percent, _)| *percent);
        let labels: Vec<String> = percents.map(|percent| format!("{percent} %")).collect();
        let header = ["", "times"]
            .into_iter()
            .chain(labels.iter().map(String::as_str));
        let rows = shown.iter().map(|distribution| {
            let times = distribution.percentiles.iter();
            let times = times.map(|(_, time)| Cell::Number(duration(*time)));
            let name = Cell::Text(distribution.name.clone());
            let count = Cell::Number(distribution.count.to_string());
            [name, count].into_iter().chain(times).collect()
        });
        plot::percentiles(&shown) + &table(&header.collect::<Vec<_>>(), rows.collect())
    };
    section_if(!shown.is_empty(), "Latency", body)
}

/// Each group over its own active time, then each strand.
fn groups(page: &Page) -> String {
    let header = ["", "active", "data", "throughput", "", "operations"];
    let groups = &page.measured.report.active.groups;
    let strands = page.measured.report.strands.iter();
    let strands: Vec<_> = strands
        .map(|strand| (strand.name.clone(), strand.totals))
        .collect();
    section_if(!groups.is_empty(), "Groups", || {
        table(&header, by_rate(groups))
    }) + &section_if(!strands.is_empty(), "Strands", || {
        let table = table(
            &["", "time", "data", "throughput", "", "operations"],
            by_rate(&strands),
        );
        format!(
            "<details><summary>all of them: {}</summary>{table}</details>",
            strands.len()
        )
    })
}

fn by_rate(rows: &[(String, Totals)]) -> Vec<Vec<Cell>> {
    let rates = rows.iter().map(|(_, totals)| totals.bit_rate());
    let most = rates.fold(0.0, f64::max);
    let row = |(name, totals): &(String, Totals)| {
        vec![
            Cell::Text(name.clone()),
            Cell::Number(duration(totals.elapsed)),
            Cell::Number(amount(totals.bytes as f64, "B")),
            Cell::Number(amount(totals.bit_rate(), "bit/s")),
            Cell::bar(totals.bit_rate(), most),
            Cell::Number(amount(totals.operation_rate(), "op/s")),
        ]
    };
    rows.iter().map(row).collect()
}

fn executions(page: &Page) -> String {
    let report = &page.measured.report;
    [
        ("Transactions", &report.transactions),
        ("Flowops", &report.flowops),
    ]
    .map(|(title, all)| {
        let done: Vec<_> = all.iter().filter(|executed| executed.count > 0).collect();
        section_if(!done.is_empty(), title, || executed(page, &done))
    })
    .concat()
}

fn executed(page: &Page, done: &[&Executions]) -> String {
    let mean = |time: Duration, count: u64| time.as_nanos() as f64 / count as f64;
    let means = done.iter().map(|each| mean(each.time, each.count));
    let most = means.fold(0.0, f64::max);
    let row = |each: &&Executions| {
        let cpu = each.cpu.map(|cpu| text::nanoseconds(mean(cpu, each.count)));
        let time = mean(each.time, each.count);
        vec![
            Cell::Text(each.name.clone()),
            Cell::Text(place(page, each)),
            Cell::Number(each.count.to_string()),
            Cell::Number(text::nanoseconds(time)),
            Cell::bar(time, most),
            Cell::Number(cpu.unwrap_or_else(|| "–".to_owned())),
            Cell::Number(duration(each.longest)),
            Cell::Number(duration(each.shortest)),
        ]
    };
    let header = [
        "",
        "of",
        "count",
        "mean",
        "",
        "CPU",
        "longest pass",
        "shortest pass",
    ];
    table(&header, done.iter().map(row).collect())
}

/// What was counted in each flowop.
fn counters(page: &Page) -> String {
    let flowops = page.measured.report.flowops.iter();
    let done = flowops.filter(|flowop| flowop.count > 0);
    let rows = done.flat_map(|flowop| {
        flowop.counters.iter().map(|(counter, value)| {
            let each = value.map(|value| format!("{:.2}", value as f64 / flowop.count as f64));
            let value = value.map(|value| value.to_string());
            let known = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
            vec![
                Cell::Text(flowop.name.clone()),
                Cell::Text(place(page, flowop)),
                Cell::Text(counter.clone()),
                Cell::Number(known(value)),
                Cell::Number(known(each)),
            ]
        })
    });
    let rows: Vec<_> = rows.collect();
    let header = ["", "of", "counter", "in all", "each"];
    section_if(!rows.is_empty(), "Counters", || table(&header, rows))
}

/// The group and transaction that something is of.
fn place(page: &Page, executed: &Executions) -> String {
    let group = group_name(page, executed.group);
    let transaction = transaction_name(executed.transaction);
    if transaction == executed.name {
        return group;
    }
    format!("{transaction} of {group}")
}

fn group_name(page: &Page, number: usize) -> String {
    let group = page.measured.report.groups.get(number);
    group.map_or_else(String::new, |group| group.name.clone())
}

/// How far the strands were apart that a barrier lets begin together.
fn beginnings(page: &Page) -> String {
    let starts = page.measured.report.starts.iter();
    let rows: Vec<_> = starts
        .map(|start| {
            vec![
                Cell::Text(transaction_name(start.transaction)),
                Cell::Number(start.strands.to_string()),
                Cell::Number(duration(start.spread)),
            ]
        })
        .collect();
    let header = ["", "strands", "first to last"];
    section_if(!rows.is_empty(), "Beginnings", || table(&header, rows))
}

/// Both ends of each control connection.
fn ends(page: &Page) -> String {
    let report = &page.measured.report;
    let told = report.slaves.iter().map(|slave| {
        let group = group_name(page, slave.group);
        (slave.host.clone(), group, slave.totals)
    });
    let here = ("master".to_owned(), String::new(), Some(report.master));
    let row = |(name, group, totals): (String, String, Option<Totals>)| {
        let figure = |shown: &dyn Fn(Totals) -> String| {
            Cell::Number(totals.map_or_else(|| "–".to_owned(), shown))
        };
        vec![
            Cell::Text(name),
            Cell::Text(group),
            figure(&|totals| duration(totals.elapsed)),
            figure(&|totals| amount(totals.bytes as f64, "B")),
            figure(&|totals| amount(totals.bit_rate(), "bit/s")),
            figure(&|totals| totals.operations.to_string()),
            figure(&|totals| totals.errors.to_string()),
        ]
    };
    let rows = told.chain([here]).map(row).collect();
    let header = [
        "",
        "of",
        "time",
        "data",
        "throughput",
        "operations",
        "errors",
    ];
    section_if(true, "Both ends", || table(&header, rows))
}

fn interfaces(page: &Page) -> String {
    let interfaces = &page.measured.report.interfaces;
    let rate = |amount: u64| figures::per_second(amount as f64, interfaces.elapsed);
    let rows: Vec<Vec<Cell>> = interfaces
        .each
        .iter()
        .filter(|traffic| traffic.packets_in > 0 || traffic.packets_out > 0)
        .map(|traffic| {
            vec![
                Cell::Text(traffic.name.clone()),
                Cell::Number(amount(rate(traffic.packets_out), "/s")),
                Cell::Number(amount(rate(traffic.packets_in), "/s")),
                Cell::Number(amount(rate(traffic.bytes_out) * 8.0, "bit/s")),
                Cell::Number(amount(rate(traffic.bytes_in) * 8.0, "bit/s")),
            ]
        })
        .collect();
    let header = ["", "packets out", "packets in", "out", "in"];
    section_if(!rows.is_empty(), "Interfaces", || table(&header, rows))
}

fn hosts(page: &Page) -> String {
    let host = |host: &Host| {
        let facts = host.facts.iter();
        let facts =
            facts.map(|(name, value)| vec![Cell::Text(name.clone()), Cell::Text(value.clone())]);
        format!(
            "<h3>{}</h3>{}",
            escaped(&host.name),
            table(&[], facts.collect())
        )
    };
    let hosts: String = page.measured.hosts.iter().map(host).collect();
    section_if(!hosts.is_empty(), "Hosts", || hosts)
}

fn log(page: &Page) -> String {
    let log = super::log(&page.measured.report.log);
    section_if(!log.is_empty(), "Log", || {
        format!("<pre>{}</pre>", escaped(&log))
    })
}

fn profile(page: &Page) -> String {
    section_if(!page.profile.is_empty(), "Profile", || {
        format!("<pre>{}</pre>", escaped(&page.profile))
    })
}

fn section_if(is_shown: bool, title: &str, body: impl FnOnce() -> String) -> String {
    if !is_shown {
        return String::new();
    }
    format!("<section><h2>{title}</h2>\n{}</section>\n", body())
}
