//! The section of one test: its figures, plots and details.

use model::{FlowOutcome, LogEntry, Outcome, Side, Traffic};
use serde::Serialize;
use serde_json::Value;

use super::table::{Cell, UNKNOWN, table};
use super::text::{
    escape_html, format_amount, format_duration, format_nanoseconds, format_percent,
};
use super::{groups, plot};
use crate::{TestFigures, TestReport};

/// The maximum number of flows that are shown without expanding them.
const MAX_VISIBLE_FLOWS: usize = 16;

/// Returns the section of a test. If the page has several tests, the section repeats its error.
pub(super) fn section(test: &TestReport, is_one_of_many: bool) -> String {
    let error = test.error.as_ref().filter(|_| is_one_of_many);
    let error =
        error.map(|reason| format!("<p class=\"failed\">failed: {}</p>\n", escape_html(reason)));
    let body = test
        .median_run_index()
        .map(|median_index| measured_body(test, median_index));
    let body = [
        error.unwrap_or_default(),
        body.unwrap_or_default(),
        settings_table(test),
    ];
    super::section(&test.plan.name, &body.concat())
}

/// Returns the results. All figures except the rate are of the run with the median rate.
fn measured_body(test: &TestReport, median_index: usize) -> String {
    let run = &test.runs[median_index];
    let figures = TestFigures::from_outcome(run);
    [
        tiles(test, run, &figures),
        plot::rate_plots(test),
        plot::latency_plot(run),
        latency_table(run),
        run_table(test, median_index),
        both_ends(run, &figures),
        flow_table(run),
        groups::sections(run),
        packet_tables(run),
        interface_table(run),
        log_table(run),
    ]
    .concat()
}

/// Returns the main figure of the test.
pub(super) fn rate(test: &TestReport, figures: &TestFigures) -> Option<String> {
    let median_rate = figures.rate()?;
    let rate = match test.goal {
        Some(_) => test.mean_rate().unwrap_or(median_rate),
        None => median_rate,
    };
    Some(format_rate(rate, figures.rate_unit()))
}

/// Formats a rate: bits with a decimal prefix, counts without.
pub(super) fn format_rate(rate: f64, unit: &str) -> String {
    if unit == "bit/s" {
        return format_amount(rate, unit);
    }
    format!("{} {unit}", crate::number::format_significant(rate))
}

fn tiles(test: &TestReport, run: &Outcome, figures: &TestFigures) -> String {
    let tile = |label: &str, value: Option<String>, note: String| {
        let value = value?;
        Some(format!(
            "<div class=\"tile\"><b>{}</b><span>{label}</span><small>{}</small></div>",
            escape_html(&value),
            escape_html(&note)
        ))
    };
    let format_time = |time: u64| format_nanoseconds(time as f64);
    let latency = figures.latency;
    let cpu = |side: Option<&Side>| Some(format_percent(side?.cpu.as_ref()?.busy_percent));
    let busiest_cpu = |side: Option<&Side>| {
        let peak = side.and_then(|side| side.cpu.as_ref()?.peak);
        peak.map(|(cpu, busy)| format!("CPU {cpu}: {}", format_percent(busy)))
    };
    let loss = figures.datagrams.filter(|datagrams| datagrams.sent > 0);
    let (local_demand, remote_demand) = figures.service_demand.local_and_remote();
    let format_demand = |demand: Option<f64>| {
        demand.map_or_else(|| UNKNOWN.to_owned(), crate::number::format_significant)
    };
    let tiles = [
        tile(rate_name(figures), rate(test, figures), compare_runs(test)),
        tile(
            "steps per second",
            (figures.operations_per_s).map(|rate| format_rate(rate, "op/s")),
            format!("{} in total", run.local.counts.operations),
        ),
        tile(
            "latency, median",
            latency.map(|times| format_time(times.p50_ns)),
            latency.map_or_else(String::new, |times| {
                format!(
                    "99 %: {}, longest: {}",
                    format_time(times.p99_ns),
                    format_time(times.max_ns)
                )
            }),
        ),
        tile(
            "CPU of this host",
            cpu(Some(&run.local)),
            busiest_cpu(Some(&run.local)).unwrap_or_default(),
        ),
        tile(
            "CPU of the peer",
            cpu(run.remote.as_ref()),
            busiest_cpu(run.remote.as_ref()).unwrap_or_default(),
        ),
        tile(
            "service demand here",
            local_demand.map(|demand| format_demand(Some(demand))),
            format!(
                "{}; peer: {}",
                figures.service_demand.unit(),
                format_demand(remote_demand)
            ),
        ),
        tile(
            "datagrams lost",
            loss.and_then(|datagrams| datagrams.lost_percent)
                .map(format_percent),
            loss.map_or_else(String::new, |datagrams| {
                format!("{} of {}", datagrams.lost, datagrams.sent)
            }),
        ),
        tile(
            "retransmitted segments",
            (figures.retransmits).map(|count| count.to_string()),
            "by TCP".to_owned(),
        ),
    ];
    let tiles: String = tiles.into_iter().flatten().collect();
    format!("<div class=\"tiles\">{tiles}</div>\n")
}

fn rate_name(figures: &TestFigures) -> &'static str {
    if figures.transactions_per_s.is_some() {
        "transaction rate"
    } else if figures.throughput_bps.is_some() {
        "throughput"
    } else {
        "throughput, both directions"
    }
}

/// Returns a note that compares the runs of a test.
fn compare_runs(test: &TestReport) -> String {
    if let (Some(_), Some(confidence)) = (test.goal, test.confidence()) {
        let half_width = confidence
            .throughput_width_percent
            .map(|width| format_percent(width / 2.0));
        return format!(
            "mean of {} runs, ± {} ({} % confidence)",
            confidence.iterations,
            half_width.unwrap_or_else(|| UNKNOWN.to_owned()),
            confidence.level.percent()
        );
    }
    let Some((low, high)) = test.rate_range() else {
        return String::new();
    };
    let unit = test
        .median_run_index()
        .map(|run| TestFigures::from_outcome(&test.runs[run]).rate_unit());
    let unit = unit.unwrap_or_default();
    format!(
        "median of {} runs, {} to {}",
        test.runs.len(),
        format_rate(low, unit),
        format_rate(high, unit)
    )
}

/// Returns a table of percentiles, as an alternative to the plot.
fn latency_table(run: &Outcome) -> String {
    const PERCENTS: [f64; 7] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 100.0];
    let histograms = plot::histograms(run);
    let row = |(name, times): &(String, &stats::Histogram)| {
        let percentiles = PERCENTS.iter().map(|percent| times.percentile(*percent));
        let cells = [
            Cell::Text(name.clone()),
            Cell::Number(times.len().to_string()),
            Cell::number_or_unknown(times.mean_ns().map(format_nanoseconds)),
        ];
        let percentiles =
            percentiles.map(|time| Cell::number_or_unknown(time.map(format_duration)));
        cells.into_iter().chain(percentiles).collect()
    };
    let labels = PERCENTS.map(|percent| format!("{percent} %"));
    let header = ["", "times", "mean"].into_iter();
    let header: Vec<&str> = header.chain(labels.iter().map(String::as_str)).collect();
    subsection(
        "Latency by percentile",
        &header,
        histograms.iter().map(row).collect(),
    )
}

/// Returns a table of runs; empty for a single run.
fn run_table(test: &TestReport, median_index: usize) -> String {
    if test.runs.len() < 2 {
        return String::new();
    }
    let row = |(index, run): (usize, &Outcome)| {
        let figures = TestFigures::from_outcome(run);
        let time = |value_of: fn(&stats::HistogramSummary) -> u64| {
            let time = figures.latency.as_ref().map(value_of);
            Cell::number_or_unknown(time.map(|time| format_nanoseconds(time as f64)))
        };
        let mark = if index == median_index {
            " (shown)"
        } else {
            ""
        };
        vec![
            Cell::Text(format!("{}{mark}", index + 1)),
            Cell::number_or_unknown(
                figures
                    .rate()
                    .map(|rate| format_rate(rate, figures.rate_unit())),
            ),
            time(|times| times.p50_ns),
            time(|times| times.p99_ns),
            time(|times| times.max_ns),
            Cell::number_or_unknown(run.local.elapsed.map(format_duration)),
        ]
    };
    let rows = test.runs.iter().enumerate().map(row).collect();
    subsection("Runs", &["run", "rate", "p50", "p99", "max", "time"], rows)
}

/// Returns a table of the values that each end measured locally.
fn both_ends(run: &Outcome, figures: &TestFigures) -> String {
    let (local_demand, remote_demand) = figures.service_demand.local_and_remote();
    let sides = [
        Some(("here", &run.local, local_demand)),
        run.remote
            .as_ref()
            .map(|side| ("peer", side, remote_demand)),
    ];
    let row = |(name, side, demand): (&str, &Side, Option<f64>)| {
        let cpu = side.cpu.as_ref();
        let bytes = |bytes: Option<u32>| {
            Cell::number_or_unknown(bytes.map(|bytes| format_amount(bytes.into(), "B")))
        };
        vec![
            Cell::Text(name.to_owned()),
            Cell::number_or_unknown(side.elapsed.map(format_duration)),
            Cell::Number(format_amount(side.counts.sent.0 as f64, "B")),
            Cell::Number(format_amount(side.counts.received.0 as f64, "B")),
            Cell::number_or_unknown(cpu.map(|cpu| format_percent(cpu.busy_percent))),
            Cell::number_or_unknown(cpu.map(|cpu| format_percent(cpu.user_percent))),
            Cell::number_or_unknown(cpu.map(|cpu| format_percent(cpu.system_percent))),
            Cell::number_or_unknown(
                cpu.map(|cpu| format_percent(cpu.irq_percent + cpu.softirq_percent)),
            ),
            Cell::number_or_unknown(demand.map(|demand| {
                format!(
                    "{} {}",
                    crate::number::format_significant(demand),
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
    subsection(
        "Both ends",
        &header,
        sides.into_iter().flatten().map(row).collect(),
    )
}

fn flow_table(run: &Outcome) -> String {
    let is_transactional = TestFigures::from_outcome(run).transactions_per_s.is_some();
    let rate = |flow: &FlowOutcome| {
        if is_transactional {
            flow.transactions_per_second()
        } else {
            flow.bytes_per_second().map(|bytes| bytes * 8.0)
        }
    };
    let unit = if is_transactional { "tran/s" } else { "bit/s" };
    let max_rate = run.flows.iter().filter_map(rate).fold(0.0, f64::max);
    let row = |(index, flow): (usize, &FlowOutcome)| {
        vec![
            Cell::Text((index + 1).to_string()),
            Cell::Text(if flow.inbound { "in" } else { "out" }.to_owned()),
            Cell::Number(format_duration(flow.started_after)),
            Cell::number_or_unknown(flow.elapsed.map(format_duration)),
            Cell::number_or_unknown(flow.arrived.map(|bytes| format_amount(bytes.0 as f64, "B"))),
            Cell::number_or_unknown(rate(flow).map(|rate| format_rate(rate, unit))),
            Cell::bar(rate(flow).unwrap_or(0.0), max_rate),
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
    if rows.len() <= MAX_VISIBLE_FLOWS {
        return subsection("Flows", &header, rows);
    }
    let count = rows.len();
    format!(
        "<details><summary>Flows: {count}</summary>\n{}</details>\n",
        table(&header, rows)
    )
}

/// Returns tables of the figures derived from packet records.
fn packet_tables(run: &Outcome) -> String {
    let Some(figures) = run.packet_figures() else {
        return String::new();
    };
    let format_time = |ns: f64| match format_nanoseconds(ns.abs()) {
        text if ns < 0.0 => format!("-{text}"),
        text => text,
    };
    let loss_runs = figures.loss_runs.iter();
    let loss_runs = loss_runs.map(|(length, count)| format!("{count} × {length}"));
    let max_lateness = figures.reordering.late_ns.map(|late| late.max as f64);
    let bottleneck = figures.bottleneck.as_ref();
    let queue = bottleneck.and_then(|bottleneck| bottleneck.queue_bytes);
    let fit = run.clock_fit.as_ref();
    let facts = [
        ("recorded numbers", Some(figures.numbers.to_string())),
        ("arrived", Some(figures.arrived.to_string())),
        ("lost", Some(figures.lost.to_string())),
        ("lost at the end", Some(figures.lost_at_end.to_string())),
        (
            "loss runs, by length",
            Some(loss_runs.collect::<Vec<_>>().join(", ")),
        ),
        ("duplicates", Some(figures.duplicates.to_string())),
        ("reordered", Some(figures.reordering.reordered.to_string())),
        ("reordered by at most", max_lateness.map(format_time)),
        (
            "peak relative delay",
            figures
                .peak_relative_delay_ns
                .map(|peak| format_time(peak as f64)),
        ),
        (
            "bottleneck rate",
            bottleneck.map(|bottleneck| format_amount(bottleneck.rate_bps, "bit/s")),
        ),
        (
            "bottleneck spacing",
            bottleneck.map(|bottleneck| format_time(bottleneck.spacing_ns)),
        ),
        (
            "bottleneck queue",
            queue.map(|bytes| format_amount(bytes, "B")),
        ),
        (
            "delay of a full queue",
            bottleneck.map(|bottleneck| format_time(bottleneck.queue_delay_ns as f64)),
        ),
        (
            "clock error",
            fit.map(|fit| format_time(fit.offset_error_ns as f64)),
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
        ("one-way delay", figures.delay_ns),
        ("PDV", figures.pdv_ns),
        ("IPDV", figures.ipdv_ns),
        ("send gaps", figures.send_gaps_ns),
        ("arrival gaps", figures.arrival_gaps_ns),
    ];
    let spreads = spreads.into_iter().filter_map(|(name, summary)| {
        let summary = summary?;
        let times = [
            summary.p50,
            summary.p95,
            summary.p99,
            summary.p999,
            summary.max,
        ]
        .map(|ns| ns as f64);
        let times = [summary.min as f64, summary.mean].into_iter().chain(times);
        let name = [
            Cell::Text(name.to_owned()),
            Cell::Number(summary.count.to_string()),
        ];
        Some(
            name.into_iter()
                .chain(times.map(|ns| Cell::Number(format_time(ns))))
                .collect(),
        )
    });
    let header = [
        "", "packets", "min", "mean", "p50", "p95", "p99", "p99.9", "max",
    ];
    subsection("Packets", &[], facts.collect())
        + &subsection("Delays and gaps of packets", &header, spreads.collect())
}

/// Returns a table of the traffic of interfaces, which includes the traffic of other programs.
fn interface_table(run: &Outcome) -> String {
    let sides = [
        Some(("here", &run.local)),
        run.remote.as_ref().map(|side| ("peer", side)),
    ];
    let row = |end: &str, name: &str, driver: Option<&String>, traffic: &Traffic| {
        vec![
            Cell::Text(end.to_owned()),
            Cell::Text(name.to_owned()),
            Cell::Text(driver.cloned().unwrap_or_default()),
            Cell::Number(traffic.sent_packets.to_string()),
            Cell::Number(format_amount(traffic.sent_bytes as f64, "B")),
            Cell::Number(traffic.received_packets.to_string()),
            Cell::Number(format_amount(traffic.received_bytes as f64, "B")),
        ]
    };
    let rows_of = |(end, side): (&str, &Side)| {
        let data_interface = side.interface.iter().filter_map(|interface| {
            let traffic = interface.traffic.as_ref()?;
            Some(row(
                end,
                &interface.name,
                interface.driver.as_ref(),
                traffic,
            ))
        });
        let interfaces = side
            .interfaces
            .iter()
            .flat_map(|interfaces| &interfaces.interfaces);
        let used = interfaces.filter(|interface| {
            interface.traffic.sent_packets + interface.traffic.received_packets > 0
        });
        let used_interfaces =
            used.map(|interface| row(end, &interface.name, None, &interface.traffic));
        data_interface.chain(used_interfaces).collect::<Vec<_>>()
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
    subsection(
        "Interfaces",
        &header,
        sides.into_iter().flatten().flat_map(rows_of).collect(),
    )
}

fn log_table(run: &Outcome) -> String {
    let row = |entry: &LogEntry| {
        vec![
            Cell::Text(if entry.is_warning { "warning" } else { "error" }.to_owned()),
            Cell::Text(entry.text.clone()),
            Cell::Text(entry.reason.clone()),
            Cell::Number(entry.count.to_string()),
        ]
    };
    subsection(
        "Log",
        &["", "message", "reason", "times"],
        run.log.iter().map(row).collect(),
    )
}

/// Returns the settings of the plan that are set, collapsed by default.
fn settings_table(test: &TestReport) -> String {
    let rows = flatten_fields(&test.plan).into_iter();
    let rows = rows.filter(|(name, _)| name != "source");
    let rows = rows.map(|(name, value)| vec![Cell::Text(name), Cell::Text(value)]);
    let rows = rows.collect();
    format!(
        "<details><summary>Settings</summary>\n{}</details>\n",
        table(&[], rows)
    )
}

/// Returns the set fields of a value and of its nested values, each with its path.
pub(super) fn flatten_fields(value: &impl Serialize) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    // Serialization of plain values with string keys cannot fail.
    let value = serde_json::to_value(value).unwrap_or_default();
    add_fields("", &value, &mut rows);
    rows
}

fn add_fields(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    let child_path = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    let text = match value {
        Value::Null | Value::Bool(false) => return,
        Value::Object(members) => {
            for (name, value) in members {
                add_fields(&child_path(name), value, rows);
            }
            return;
        }
        Value::Array(values)
            if values
                .iter()
                .any(|value| value.is_object() || value.is_array()) =>
        {
            for (index, value) in values.iter().enumerate() {
                add_fields(&child_path(&index.to_string()), value, rows);
            }
            return;
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(plain_text).collect();
            values.join(", ")
        }
        value => plain_text(value),
    };
    rows.push((path.replace('_', " "), text));
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        value => value.to_string(),
    }
}

pub(super) fn subsection(title: &str, header: &[&str], rows: Vec<Vec<Cell>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!("<h3>{title}</h3>\n{}", table(header, rows))
}
