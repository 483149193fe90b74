//! One test: its figures, its plots, and what stands behind them.

use model::{FlowShare, LogEntry, Outcome, Side, Traffic};
use serde::Serialize;
use serde_json::Value;

use super::table::{Cell, UNKNOWN, table};
use super::text::{amount, duration, escaped, nanoseconds, percent};
use super::{groups, plot};
use crate::{Figures, Tested};

/// More flows than this are shown on request.
const FLOWS_AT_ONCE: usize = 16;

/// The section; of several, each repeats its failure.
pub(super) fn section(tested: &Tested, is_one_of_many: bool) -> String {
    let error = tested.error.as_ref().filter(|_| is_one_of_many);
    let error = error.map(|why| format!("<p class=\"failed\">failed: {}</p>\n", escaped(why)));
    let body = tested.median().map(|median| measured(tested, median));
    let body = [
        error.unwrap_or_default(),
        body.unwrap_or_default(),
        settings(tested),
    ];
    super::section(&tested.plan.name, &body.concat())
}

/// What was measured; all but the rate is of the run with the median rate.
fn measured(tested: &Tested, median: usize) -> String {
    let run = &tested.runs[median];
    let figures = Figures::of(run);
    [
        tiles(tested, run, &figures),
        plot::rates(tested),
        plot::latencies(run),
        latencies(run),
        runs(tested, median),
        ends(run, &figures),
        flows(run),
        groups::sections(run),
        packets(run),
        traffic(run),
        log(run),
    ]
    .concat()
}

/// The one figure that the test is for.
pub(super) fn rate(tested: &Tested, figures: &Figures) -> Option<String> {
    let of_run = figures.rate()?;
    let rate = match tested.goal {
        Some(_) => tested.mean_rate().unwrap_or(of_run),
        None => of_run,
    };
    Some(shown(rate, figures.rate_unit()))
}

/// Bits have decimal prefixes; what is counted is written out.
pub(super) fn shown(rate: f64, unit: &str) -> String {
    if unit == "bit/s" {
        return amount(rate, unit);
    }
    format!("{} {unit}", crate::number::significant(rate))
}

fn tiles(tested: &Tested, run: &Outcome, figures: &Figures) -> String {
    let tile = |label: &str, value: Option<String>, note: String| {
        let value = value?;
        Some(format!(
            "<div class=\"tile\"><b>{}</b><span>{label}</span><small>{}</small></div>",
            escaped(&value),
            escaped(&note)
        ))
    };
    let long = |time: u64| nanoseconds(time as f64);
    let latency = figures.latency;
    let cpu = |side: Option<&Side>| Some(percent(side?.cpu.as_ref()?.busy_percent));
    let busiest = |side: Option<&Side>| {
        let peak = side.and_then(|side| side.cpu.as_ref()?.peak);
        peak.map(|(cpu, busy)| format!("CPU {cpu}: {}", percent(busy)))
    };
    let loss = figures.datagrams.filter(|datagrams| datagrams.sent > 0);
    let (ours, theirs) = figures.service_demand.both();
    let demand =
        |demand: Option<f64>| demand.map_or_else(|| UNKNOWN.to_owned(), crate::number::significant);
    let tiles = [
        tile(rate_name(figures), rate(tested, figures), spread(tested)),
        tile(
            "steps per second",
            (figures.operations_per_s).map(|rate| shown(rate, "op/s")),
            format!("{} in all", run.here.counts.operations),
        ),
        tile(
            "latency, median",
            latency.map(|times| long(times.p50_ns)),
            latency.map_or_else(String::new, |times| {
                format!(
                    "99 %: {}, longest: {}",
                    long(times.p99_ns),
                    long(times.max_ns)
                )
            }),
        ),
        tile(
            "CPU of this host",
            cpu(Some(&run.here)),
            busiest(Some(&run.here)).unwrap_or_default(),
        ),
        tile(
            "CPU of the peer",
            cpu(run.there.as_ref()),
            busiest(run.there.as_ref()).unwrap_or_default(),
        ),
        tile(
            "service demand here",
            ours.map(|here| demand(Some(here))),
            format!(
                "{}; peer: {}",
                figures.service_demand.unit(),
                demand(theirs)
            ),
        ),
        tile(
            "datagrams lost",
            loss.and_then(|datagrams| datagrams.lost_percent)
                .map(percent),
            loss.map_or_else(String::new, |datagrams| {
                format!("{} of {}", datagrams.lost, datagrams.sent)
            }),
        ),
        tile(
            "segments sent again",
            (figures.retransmits).map(|count| count.to_string()),
            "by TCP".to_owned(),
        ),
    ];
    let tiles: String = tiles.into_iter().flatten().collect();
    format!("<div class=\"tiles\">{tiles}</div>\n")
}

fn rate_name(figures: &Figures) -> &'static str {
    if figures.transactions_per_s.is_some() {
        "transaction rate"
    } else if figures.throughput_bps.is_some() {
        "throughput"
    } else {
        "throughput, both directions"
    }
}

/// How the runs of a test compare.
fn spread(tested: &Tested) -> String {
    if let (Some(_), Some(found)) = (tested.goal, tested.confidence()) {
        let half = found
            .throughput_width_percent
            .map(|width| percent(width / 2.0));
        return format!(
            "mean of {} runs, ± {} ({} % confidence)",
            found.iterations,
            half.unwrap_or_else(|| UNKNOWN.to_owned()),
            found.level.percent()
        );
    }
    let Some((low, high)) = tested.spread() else {
        return String::new();
    };
    let unit = tested
        .median()
        .map(|run| Figures::of(&tested.runs[run]).rate_unit());
    let unit = unit.unwrap_or_default();
    format!(
        "median of {} runs, {} to {}",
        tested.runs.len(),
        shown(low, unit),
        shown(high, unit)
    )
}

/// The times in figures, for readers who do not see the plot.
fn latencies(run: &Outcome) -> String {
    const PERCENTS: [f64; 7] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 100.0];
    let kept = plot::histograms(run);
    let row = |(name, times): &(String, &stats::Histogram)| {
        let times_of = PERCENTS.iter().map(|percent| times.percentile(*percent));
        let cells = [
            Cell::Text(name.clone()),
            Cell::Number(times.len().to_string()),
            Cell::known(times.mean_ns().map(nanoseconds)),
        ];
        let more = times_of.map(|time| Cell::known(time.map(duration)));
        cells.into_iter().chain(more).collect()
    };
    let labels = PERCENTS.map(|percent| format!("{percent} %"));
    let header = ["", "times", "mean"].into_iter();
    let header: Vec<&str> = header.chain(labels.iter().map(String::as_str)).collect();
    part_if(
        "Latency by percentile",
        &header,
        kept.iter().map(row).collect(),
    )
}

/// Each of several runs.
fn runs(tested: &Tested, median: usize) -> String {
    if tested.runs.len() < 2 {
        return String::new();
    }
    let row = |(number, run): (usize, &Outcome)| {
        let figures = Figures::of(run);
        let time = |of: fn(&stats::Summary) -> u64| {
            let time = figures.latency.as_ref().map(of);
            Cell::known(time.map(|time| nanoseconds(time as f64)))
        };
        let name = if number == median { " (shown)" } else { "" };
        vec![
            Cell::Text(format!("{}{name}", number + 1)),
            Cell::known(figures.rate().map(|rate| shown(rate, figures.rate_unit()))),
            time(|times| times.p50_ns),
            time(|times| times.p99_ns),
            time(|times| times.max_ns),
            Cell::known(run.here.elapsed.map(duration)),
        ]
    };
    let rows = tested.runs.iter().enumerate().map(row).collect();
    part_if("Runs", &["run", "rate", "p50", "p99", "max", "time"], rows)
}

/// What both ends measured of themselves.
fn ends(run: &Outcome, figures: &Figures) -> String {
    let (ours, theirs) = figures.service_demand.both();
    let sides = [
        Some(("here", &run.here, ours)),
        run.there.as_ref().map(|side| ("peer", side, theirs)),
    ];
    let row = |(name, side, demand): (&str, &Side, Option<f64>)| {
        let cpu = side.cpu.as_ref();
        let bytes = |bytes: Option<u32>| Cell::known(bytes.map(|bytes| amount(bytes.into(), "B")));
        vec![
            Cell::Text(name.to_owned()),
            Cell::known(side.elapsed.map(duration)),
            Cell::Number(amount(side.counts.sent.0 as f64, "B")),
            Cell::Number(amount(side.counts.received.0 as f64, "B")),
            Cell::known(cpu.map(|cpu| percent(cpu.busy_percent))),
            Cell::known(cpu.map(|cpu| percent(cpu.user_percent))),
            Cell::known(cpu.map(|cpu| percent(cpu.system_percent))),
            Cell::known(cpu.map(|cpu| percent(cpu.irq_percent + cpu.softirq_percent))),
            Cell::known(demand.map(|demand| {
                format!(
                    "{} {}",
                    crate::number::significant(demand),
                    figures.service_demand.unit()
                )
            })),
            bytes(
                side.socket
                    .send_buffer_end_bytes
                    .or(side.socket.send_buffer_bytes),
            ),
            bytes(
                side.socket
                    .receive_buffer_end_bytes
                    .or(side.socket.receive_buffer_bytes),
            ),
        ]
    };
    let header = [
        "",
        "time",
        "sent",
        "received",
        "CPU",
        "user",
        "system",
        "interrupts",
        "demand",
        "send buffer",
        "receive buffer",
    ];
    part_if(
        "Both ends",
        &header,
        sides.into_iter().flatten().map(row).collect(),
    )
}

fn flows(run: &Outcome) -> String {
    let is_transactional = Figures::of(run).transactions_per_s.is_some();
    let rate = |flow: &FlowShare| {
        if is_transactional {
            flow.transactions_per_second()
        } else {
            flow.bytes_per_second().map(|bytes| bytes * 8.0)
        }
    };
    let unit = if is_transactional { "tran/s" } else { "bit/s" };
    let most = run.flows.iter().filter_map(rate).fold(0.0, f64::max);
    let row = |(number, flow): (usize, &FlowShare)| {
        vec![
            Cell::Text((number + 1).to_string()),
            Cell::Text(if flow.inbound { "in" } else { "out" }.to_owned()),
            Cell::Number(duration(flow.started_after)),
            Cell::known(flow.elapsed.map(duration)),
            Cell::known(flow.arrived.map(|bytes| amount(bytes.0 as f64, "B"))),
            Cell::known(rate(flow).map(|rate| shown(rate, unit))),
            Cell::bar(rate(flow).unwrap_or(0.0), most),
        ]
    };
    let header = [
        "flow",
        "direction",
        "started after",
        "time",
        "arrived",
        "rate",
        "",
    ];
    let rows: Vec<_> = run.flows.iter().enumerate().map(row).collect();
    if rows.len() <= FLOWS_AT_ONCE {
        return part_if("Flows", &header, rows);
    }
    let count = rows.len();
    format!(
        "<details><summary>Flows: {count}</summary>\n{}</details>\n",
        table(&header, rows)
    )
}

/// What the records of packets show.
fn packets(run: &Outcome) -> String {
    let Some(of) = run.packet_figures() else {
        return String::new();
    };
    let time = |ns: f64| match nanoseconds(ns.abs()) {
        text if ns < 0.0 => format!("-{text}"),
        text => text,
    };
    let runs = of.loss_runs.iter();
    let runs = runs.map(|(length, count)| format!("{count} × {length}"));
    let late = of.reordering.late_ns.map(|late| late.max as f64);
    let bottleneck = of.bottleneck.as_ref();
    let queue = bottleneck.and_then(|found| found.queue_bytes);
    let fit = run.clock_fit.as_ref();
    let facts = [
        ("recorded numbers", Some(of.numbers.to_string())),
        ("arrived", Some(of.arrived.to_string())),
        ("lost", Some(of.lost.to_string())),
        ("lost at the end", Some(of.lost_at_end.to_string())),
        (
            "loss runs, by length",
            Some(runs.collect::<Vec<_>>().join(", ")),
        ),
        ("duplicates", Some(of.duplicates.to_string())),
        ("reordered", Some(of.reordering.reordered.to_string())),
        ("reordered by at most", late.map(time)),
        (
            "peak relative delay",
            of.peak_relative_delay_ns.map(|peak| time(peak as f64)),
        ),
        (
            "bottleneck rate",
            bottleneck.map(|found| amount(found.rate_bps, "bit/s")),
        ),
        (
            "bottleneck spacing",
            bottleneck.map(|found| time(found.spacing_ns)),
        ),
        ("bottleneck queue", queue.map(|bytes| amount(bytes, "B"))),
        (
            "delay of a full queue",
            bottleneck.map(|found| time(found.queue_delay_ns as f64)),
        ),
        (
            "clock error",
            fit.map(|fit| time(fit.offset_error_ns as f64)),
        ),
        (
            "clock skew",
            fit.and_then(|fit| fit.skew_ppm)
                .map(|skew| format!("{skew:.3} ppm")),
        ),
    ];
    let facts = facts.into_iter().filter_map(|(name, value)| {
        let value = value.filter(|value| !value.is_empty())?;
        Some(vec![Cell::Text(name.to_owned()), Cell::Text(value)])
    });
    let spreads = [
        ("one-way delay", of.delay_ns),
        ("PDV", of.pdv_ns),
        ("IPDV", of.ipdv_ns),
        ("send gaps", of.send_gaps_ns),
        ("arrival gaps", of.arrival_gaps_ns),
    ];
    let spreads = spreads.into_iter().filter_map(|(name, of)| {
        let of = of?;
        let times = [of.p50, of.p95, of.p99, of.p999, of.max].map(|ns| ns as f64);
        let times = [of.min as f64, of.mean].into_iter().chain(times);
        let name = [
            Cell::Text(name.to_owned()),
            Cell::Number(of.count.to_string()),
        ];
        Some(
            name.into_iter()
                .chain(times.map(|ns| Cell::Number(time(ns))))
                .collect(),
        )
    });
    let header = [
        "", "packets", "min", "mean", "p50", "p95", "p99", "p99.9", "max",
    ];
    part_if("Packets", &[], facts.collect())
        + &part_if("Delays and gaps of packets", &header, spreads.collect())
}

/// What the interfaces carried, of all programs.
fn traffic(run: &Outcome) -> String {
    let sides = [
        Some(("here", &run.here)),
        run.there.as_ref().map(|side| ("peer", side)),
    ];
    let row = |end: &str, name: &str, driver: Option<&String>, traffic: &Traffic| {
        vec![
            Cell::Text(end.to_owned()),
            Cell::Text(name.to_owned()),
            Cell::Text(driver.cloned().unwrap_or_default()),
            Cell::Number(traffic.sent_packets.to_string()),
            Cell::Number(amount(traffic.sent_bytes as f64, "B")),
            Cell::Number(traffic.received_packets.to_string()),
            Cell::Number(amount(traffic.received_bytes as f64, "B")),
        ]
    };
    let rows_of = |(end, side): (&str, &Side)| {
        let of_data = side.interface.iter().filter_map(|interface| {
            let traffic = interface.traffic.as_ref()?;
            Some(row(
                end,
                &interface.name,
                interface.driver.as_ref(),
                traffic,
            ))
        });
        let all = side.interfaces.iter().flat_map(|all| &all.each);
        let used = all.filter(|one| one.traffic.sent_packets + one.traffic.received_packets > 0);
        let all = used.map(|one| row(end, &one.name, None, &one.traffic));
        of_data.chain(all).collect::<Vec<_>>()
    };
    let header = [
        "",
        "interface",
        "driver",
        "packets out",
        "out",
        "packets in",
        "in",
    ];
    part_if(
        "Interfaces",
        &header,
        sides.into_iter().flatten().flat_map(rows_of).collect(),
    )
}

fn log(run: &Outcome) -> String {
    let row = |entry: &LogEntry| {
        vec![
            Cell::Text(if entry.is_warning { "warning" } else { "error" }.to_owned()),
            Cell::Text(entry.text.clone()),
            Cell::Text(entry.reason.clone()),
            Cell::Number(entry.count.to_string()),
        ]
    };
    part_if(
        "Log",
        &["", "message", "reason", "times"],
        run.log.iter().map(row).collect(),
    )
}

/// The plan, on request: what was left as it was is not in it.
fn settings(tested: &Tested) -> String {
    let rows = members(&tested.plan).into_iter();
    let rows = rows.filter(|(name, _)| name != "source");
    let rows = rows.map(|(name, value)| vec![Cell::Text(name), Cell::Text(value)]);
    let rows = rows.collect();
    format!(
        "<details><summary>Settings</summary>\n{}</details>\n",
        table(&[], rows)
    )
}

/// Each known member of a value and of what it has, with its path.
pub(super) fn members(value: &impl Serialize) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    // A tree of plain values with text keys always has one of JSON.
    let value = serde_json::to_value(value).unwrap_or_default();
    add_members("", &value, &mut rows);
    rows
}

fn add_members(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    let shown = match value {
        Value::Null | Value::Bool(false) => return,
        Value::Object(members) => {
            for (name, value) in members {
                add_members(&below(name), value, rows);
            }
            return;
        }
        Value::Array(values)
            if values
                .iter()
                .any(|value| value.is_object() || value.is_array()) =>
        {
            for (number, value) in values.iter().enumerate() {
                add_members(&below(&number.to_string()), value, rows);
            }
            return;
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(plain).collect();
            values.join(", ")
        }
        value => plain(value),
    };
    rows.push((path.replace('_', " "), shown));
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        value => value.to_string(),
    }
}

pub(super) fn part_if(title: &str, header: &[&str], rows: Vec<Vec<Cell>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!("<h3>{title}</h3>\n{}", table(header, rows))
}
