//! Figures → the stock tool's text, to the character, and our own lines beside it.
//!
//! Where a stock figure is wrong by the way in which it is computed, the line is stock's and the figure
//! is what happened.

mod figures;
pub mod html;
mod latency;
mod line;
mod log;
mod message;
mod number;
mod progress;
mod response;
mod sections;
mod statistics;
mod step;

pub use figures::{
    Active, Executions, Interfaces, Latencies, Part, Report, Sample, Slave, Start, Totals, Traffic,
    strand_name,
};
pub use line::Width;
pub use log::{goodbye, log};
pub use message::Message;
pub(crate) use number::size;
pub use progress::{PROGRESS_END, progress, running_name, started, starting};
pub use response::Response;
pub use step::Step;

use crate::options::Print;

/// What is printed when a run has ended, after its progress and a rule.
pub fn report(print: &Print, width: Width, report: &Report) -> String {
    let mut text = String::new();
    if print.progress {
        text += &line::section_line(print.raw, &report.total);
    }
    if print.groups {
        text += &sections::groups(print.raw, width, &report.groups);
    }
    if print.strands {
        text += &sections::strands(print.raw, width, &report.strands);
    }
    if print.transactions {
        text += &sections::executions("Txn", width, &report.transactions);
    }
    if print.flowops {
        text += &sections::executions("Flowop", width, &report.flowops);
        text += &sections::counters(width, &report.flowops);
    }
    if print.interfaces {
        text += &sections::interfaces(width, &report.interfaces);
    }
    if print.statistics {
        text += &statistics::run_statistics(width, &report.slaves, &report.master);
        text += &statistics::active(width, &report.active);
        text += &statistics::hosts(width, &report.slaves);
        text += &statistics::starts(width, &report.starts);
    }
    if let Some(latencies) = &report.latencies {
        text += &latency::latencies(latencies);
    }
    text += &log(&report.log);
    if report.failures > 0 {
        text += &Message::Failures(report.failures).to_string();
    }
    text.push('\n');
    text
}

/// The transaction of this number, from 0, in the report.
pub fn transaction_name(number: usize) -> String {
    format!("Txn{number}")
}
