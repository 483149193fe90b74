//! Optional sections of the report.

use std::time::Duration;

use model::{ExecutionTimes, InterfaceTraffic, Interfaces, StepOutcome};

use super::line::{SampleLine, Width, printable_line, section_line};
use super::number::{align, nanoseconds, rate, time};

/// Returns a section of sample lines (`-g`, `-T`).
pub(super) fn samples<'s>(
    title: &str,
    is_raw: bool,
    width: Width,
    samples: impl Iterator<Item = SampleLine<'s>>,
) -> String {
    let lines: String = samples
        .map(|sample| section_line(is_raw, &sample))
        .collect();
    format!("\n{title}\n{}{lines}\n", width.rule())
}

/// Returns the section of `-t` or `-f`; it omits items that were never executed.
pub(super) fn executions<'o>(
    title: &str,
    width: Width,
    executed: impl Iterator<Item = (&'o str, Option<ExecutionTimes>)>,
) -> String {
    let mut text = format!(
        "\n{title:<15} {:>8} {:>11} {:>11} {:>11} {:>11} \n",
        "Count", "avg", "cpu", "max", "min"
    );
    text.push_str(&width.rule());
    let executed = executed.filter_map(|(name, times)| Some((name, times?)));
    text.extend(executed.map(|(name, times)| executed_line(name, &times)));
    text + "\n"
}

/// Returns the section of `-e` or `-E`, empty without counters. Stock on Linux lacks it.
pub(super) fn counters<'o>(width: Width, steps: impl Iterator<Item = &'o StepOutcome>) -> String {
    let lines: String = steps.filter_map(counter_lines).collect();
    if lines.is_empty() {
        return lines;
    }
    let header = format!(
        "\n{:<15} {:<18} {:>20} {:>20} \n",
        "Flowop", "Counter", "total", "each"
    );
    header + &width.rule() + &lines + "\n"
}

/// Returns the section of `-k`: interfaces with traffic; a line of dashes if it is unavailable.
pub(super) fn interfaces(width: Width, interfaces: Option<&Interfaces>) -> String {
    let rule = width.rule();
    let line = |words: [&str; 5]| {
        let [name, sent_packets, received_packets, sent, received] = words;
        format!(
            "{name:<5}  {sent_packets:>10}  {received_packets:>10}  {sent:>11}  {received:>11}\n"
        )
    };
    let header = line(["Nic", "opkts/s", "ipkts/s", "obits/s", "ibits/s"]);
    let lines = match interfaces {
        Some(interfaces) => (interfaces.interfaces.iter())
            .map(|traffic| traffic_lines(traffic, interfaces.elapsed))
            .collect(),
        None => line(["-"; 5]),
    };
    format!("\nNetstat statistics for this run\n{rule}{header}{lines}{rule}")
}

fn executed_line(name: &str, times: &ExecutionTimes) -> String {
    let count = times.executions;
    let mean = |time: Duration| nanoseconds(time.as_nanos() as f64 / count as f64, 11);
    let cpu = times.cpu.map_or_else(|| align("-", 11), mean);
    format!(
        "{:<15} {count:>8} {}{cpu}{}{}\n",
        printable_line(name),
        mean(times.total),
        time(times.longest, 11),
        time(times.shortest, 11),
    )
}

fn counter_lines(step: &StepOutcome) -> Option<String> {
    let (name, executions) = (printable_line(&step.name), step.times?.executions);
    let line = |(counter, value): &(String, Option<u64>)| {
        let each = value.map(|value| format!("{:.2}", value as f64 / executions as f64));
        let total = value.map(|value| value.to_string());
        format!(
            "{name:<15} {counter:<18} {:>20} {:>20} \n",
            total.as_deref().unwrap_or("-"),
            each.as_deref().unwrap_or("-"),
        )
    };
    Some(step.counters.iter().map(line).collect())
}

/// Returns the lines of an interface; without traffic, at most the line that it came online.
fn traffic_lines(interface: &InterfaceTraffic, elapsed: Duration) -> String {
    let InterfaceTraffic { name, traffic, .. } = interface;
    let online_line = if interface.was_missing_at_start {
        format!("Nic {name} came online\n")
    } else {
        String::new()
    };
    if traffic.sent_packets == 0 && traffic.received_packets == 0 {
        return online_line;
    }
    let packets = |packets: u64| per_second(packets as f64, elapsed);
    let bits = |bytes: u64| rate(per_second(bytes as f64 * 8.0, elapsed), 11);
    format!(
        "{online_line}{name:<5}  {:10.0}  {:10.0}  {} {}\n",
        packets(traffic.sent_packets),
        packets(traffic.received_packets),
        bits(traffic.sent_bytes),
        bits(traffic.received_bytes),
    )
}

/// Returns the amount per second; 0 if no time has passed.
fn per_second(amount: f64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    amount / elapsed.as_secs_f64()
}
