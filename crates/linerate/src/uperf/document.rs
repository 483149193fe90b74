//! What a master measured → the document of `--json`.

use std::time::Duration;

use model::{Sample, Series, Warning};
use report::profile::{
    Course, Entry, Flowop, Group, Interface, Moment, PROFILE_SCHEMA, Profile, ProfileReport,
    ProfileTest, ProfileWarning, Slave, Times, Totals, Transaction,
};
use report::{Peer, profile_json};
use serde_json::{Map, Value};
use units::Bytes;
use uperf::output::html::{self as output, Executions, Page, Part};
use uperf::{Protocol, Workorder, transaction_name};

/// The document, of a run with this control port that ended with this code.
pub(super) fn document(page: &Page, workorder: &Workorder, port: u32, code: u8) -> String {
    let measured = &page.measured;
    let report = &measured.report;
    let host = report.slaves.first().map(|slave| slave.host.clone());
    let interrupted = code == uperf::INTERRUPTED;
    let failed = format!("{} strands or slaves failed", report.failures);
    profile_json(&ProfileReport {
        version: env!("CARGO_PKG_VERSION"),
        started: measured.begun,
        peer: Peer {
            host: host.unwrap_or_default(),
            port,
            embedded: false,
        },
        kind: measured.peer,
        here: &measured.here,
        tests: tests(page, workorder),
        profile: profile(page, workorder),
        interrupted,
        error: (report.failures > 0 && !interrupted).then_some(failed),
    })
}

fn tests(page: &Page, workorder: &Workorder) -> Vec<ProfileTest> {
    let same_host = ProfileWarning {
        kind: "same_host",
        text: Warning::SameHost.to_string(),
    };
    let shares_host = page.measured.shares_host;
    let test = |part: &Part| {
        let group = &workorder.groups[part.group];
        let rate = |bytes: u64| Bytes(bytes).over(part.elapsed);
        let arrived = part.arrived.filter(|_| !part.is_exchange);
        let moves = part.sent > 0 || part.received > 0;
        let offered = is_of_datagrams(group) && !part.is_exchange && part.sent > 0;
        ProfileTest {
            name: format!("{}/{}", group.name, transaction_name(part.transaction)),
            throughput: arrived.filter(|_| moves).and_then(rate),
            offered: offered.then(|| rate(part.sent)).flatten(),
            transactions_per_s: (part.is_exchange && !part.elapsed.is_zero())
                .then(|| part.executions as f64 / part.elapsed.as_secs_f64()),
            latency: part.latency,
            warnings: shares_host.then(|| same_host.clone()).into_iter().collect(),
        }
    };
    page.measured.parts.iter().map(test).collect()
}

fn is_of_datagrams(group: &uperf::Group) -> bool {
    let flowops = group.transactions.iter().flat_map(|txn| &txn.flowops);
    let mut protocols = flowops.filter_map(|flowop| flowop.endpoint.protocol);
    protocols.any(|protocol| protocol == Protocol::Udp)
}

fn profile(page: &Page, workorder: &Workorder) -> Profile {
    let measured = &page.measured;
    let report = &measured.report;
    let mut strands = report.strands.iter();
    let groups = report.active.groups.iter().enumerate();
    let groups = groups.map(|(number, (name, active))| {
        let count = workorder.groups[number].strands.count as usize;
        let parts = measured.parts.iter();
        Group {
            name: name.clone(),
            active: totals(active),
            transactions: parts
                .filter(|part| part.group == number)
                .map(|part| transaction(part, report))
                .collect(),
            strands: (strands.by_ref().take(count))
                .map(|strand| totals(&strand.totals))
                .collect(),
        }
    });
    Profile {
        schema: PROFILE_SCHEMA,
        name: page.name.clone(),
        text: page.profile.clone(),
        total: totals(&report.total.totals),
        active: totals(&report.active.all),
        groups: groups.collect(),
        slaves: report
            .slaves
            .iter()
            .map(|told| slave(told, workorder))
            .collect(),
        interfaces: report.interfaces.each.iter().map(interface).collect(),
        course: measured.series.iter().map(course).collect(),
        log: report.log.iter().map(entry).collect(),
        doubts: measured.doubts.clone(),
        failures: report.failures,
    }
}

fn transaction(part: &Part, report: &output::Report) -> Transaction {
    let is_of = |executed: &&Executions| {
        (executed.group, executed.transaction) == (part.group, part.transaction)
    };
    let flowops = report.flowops.iter().filter(is_of);
    Transaction {
        name: transaction_name(part.transaction),
        elapsed_ns: nanoseconds(part.elapsed),
        sent_bytes: part.sent,
        received_bytes: part.received,
        executions: part.executions,
        operations: part.operations,
        failed_operations: part.failures,
        start_spread_ns: nanoseconds(part.start_spread),
        times: report.transactions.iter().find(is_of).and_then(times),
        flowops: flowops
            .map(|flowop| Flowop {
                name: flowop.name.clone(),
                times: times(flowop),
                counters: counters(flowop),
            })
            .collect(),
    }
}

/// Without executions no times were kept.
fn times(executed: &Executions) -> Option<Times> {
    (executed.count > 0).then(|| Times {
        executions: executed.count,
        total_ns: nanoseconds(executed.time),
        cpu_ns: executed.cpu.map(nanoseconds),
        longest_pass_ns: nanoseconds(executed.longest),
        shortest_pass_ns: nanoseconds(executed.shortest),
    })
}

fn counters(flowop: &Executions) -> Map<String, Value> {
    let counters = flowop.counters.iter();
    counters
        .map(|(counter, value)| (counter.clone(), Value::from(*value)))
        .collect()
}

fn totals(totals: &output::Totals) -> Totals {
    Totals {
        elapsed_ns: nanoseconds(totals.elapsed),
        bytes: totals.bytes,
        operations: totals.operations,
        failed_operations: totals.errors,
        rate_bps: totals.bit_rate(),
        operations_per_s: totals.operation_rate(),
    }
}

fn slave(slave: &output::Slave, workorder: &Workorder) -> Slave {
    Slave {
        host: slave.host.clone(),
        group: workorder.groups[slave.group].name.clone(),
        totals: slave.totals.as_ref().map(totals),
    }
}

fn interface(traffic: &output::Traffic) -> Interface {
    Interface {
        name: traffic.name.clone(),
        sent_packets: traffic.packets_out,
        sent_bytes: traffic.bytes_out,
        received_packets: traffic.packets_in,
        received_bytes: traffic.bytes_in,
    }
}

fn course(series: &Series) -> Course {
    let moment = |sample: &Sample| Moment {
        at_ns: nanoseconds(series.begun + sample.at),
        bytes: sample.bytes().0,
        operations: sample.operations,
    };
    Course {
        name: series.name.clone(),
        begun_ns: nanoseconds(series.begun),
        moments: series.samples.iter().map(moment).collect(),
    }
}

fn entry(entry: &model::LogEntry) -> Entry {
    Entry {
        is_warning: entry.is_warning,
        text: entry.text.clone(),
        reason: entry.reason.clone(),
        count: entry.count,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
