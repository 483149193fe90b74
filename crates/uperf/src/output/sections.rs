//! The sections of the report that options ask for (spec section 6.3).

use std::time::Duration;

use super::figures::{Executions, Interfaces, Sample, Traffic, per_second};
use super::line::{Width, printable, section_line};
use super::number::{column, nanoseconds, rate, time};
use crate::options::Counter;

/// `-g`.
pub(super) fn groups(is_raw: bool, width: Width, groups: &[Sample]) -> String {
    samples("Group Details", is_raw, width, groups)
}

/// `-T`.
pub(super) fn strands(is_raw: bool, width: Width, strands: &[Sample]) -> String {
    samples("Strand Details", is_raw, width, strands)
}

/// `-t`, `-f`: what was executed at all.
pub(super) fn executions(title: &str, width: Width, executions: &[Executions]) -> String {
    let mut text = format!(
        "\n{title:<15} {:>8} {:>11} {:>11} {:>11} {:>11} \n",
        "Count", "avg", "cpu", "max", "min"
    );
    text.push_str(&width.rule());
    let executed = executions.iter().filter(|executed| executed.count > 0);
    text.extend(executed.map(executed_line));
    text + "\n"
}

/// `-e`, `-E`: nothing where nothing was to be counted. Stock has no such section on Linux.
pub(super) fn counters(width: Width, flowops: &[Executions]) -> String {
    let executed = flowops.iter().filter(|flowop| flowop.count > 0);
    let lines: String = executed.map(counter_lines).collect();
    if lines.is_empty() {
        return lines;
    }
    let header = format!(
        "\n{:<15} {:<18} {:>20} {:>20} \n",
        "Flowop", "Counter", "total", "each"
    );
    header + &width.rule() + &lines + "\n"
}

/// `-k`: interfaces with traffic.
pub(super) fn interfaces(width: Width, interfaces: &Interfaces) -> String {
    let rule = width.rule();
    let mut text = format!(
        "\nNetstat statistics for this run\n{rule}{:<5}  {:>10}  {:>10}  {:>11}  {:>11}\n",
        "Nic", "opkts/s", "ipkts/s", "obits/s", "ibits/s"
    );
    let lines = interfaces.each.iter();
    text.extend(lines.map(|traffic| traffic_lines(traffic, interfaces.elapsed)));
    text + &rule
}

fn samples(title: &str, is_raw: bool, width: Width, samples: &[Sample]) -> String {
    let lines: String = samples
        .iter()
        .map(|sample| section_line(is_raw, sample))
        .collect();
    format!("\n{title}\n{}{lines}\n", width.rule())
}

fn executed_line(executed: &Executions) -> String {
    let mean = |time: Duration| nanoseconds(time.as_nanos() as f64 / executed.count as f64, 11);
    let cpu = executed.cpu.map_or_else(|| column("-", 11), mean);
    format!(
        "{:<15} {:>8} {}{cpu}{}{}\n",
        printable(&executed.name),
        executed.count,
        mean(executed.time),
        time(executed.longest, 11),
        time(executed.shortest, 11),
    )
}

fn counter_lines(flowop: &Executions) -> String {
    let name = printable(&flowop.name);
    let line = |(counter, value): &(Counter, Option<u64>)| {
        let each = value.map(|value| format!("{:.2}", value as f64 / flowop.count as f64));
        let total = value.map(|value| value.to_string());
        format!(
            "{name:<15} {:<18} {:>20} {:>20} \n",
            counter.name(),
            total.as_deref().unwrap_or("-"),
            each.as_deref().unwrap_or("-"),
        )
    };
    flowop.counters.iter().map(line).collect()
}

/// None where there was no traffic.
fn traffic_lines(traffic: &Traffic, elapsed: Duration) -> String {
    let name = &traffic.name;
    let news = if traffic.came_online {
        format!("Nic {name} came online\n")
    } else {
        String::new()
    };
    if traffic.packets_out == 0 && traffic.packets_in == 0 {
        return news;
    }
    let packets = |packets: u64| per_second(packets as f64, elapsed);
    let bits = |bytes: u64| rate(per_second(bytes as f64 * 8.0, elapsed), 11);
    format!(
        "{news}{name:<5}  {:10.0}  {:10.0}  {} {}\n",
        packets(traffic.packets_out),
        packets(traffic.packets_in),
        bits(traffic.bytes_out),
        bits(traffic.bytes_in),
    )
}
