//! Master's run: runs a workorder and prints progress, report and errors.

use std::io::Write;

use engine::Stop;
use model::{EndCause, Outcome, Warning};
use sys::write_error_line;

use crate::master::{self, MasterError};
use crate::options::{MasterSettings, Settings};
use crate::output::{self, PROGRESS_END, SampleLine, Width};
use crate::{MasterEvent, ProtocolStep, Workorder, running_transaction_name};

/// The exit code after a signal.
pub const INTERRUPTED: u8 = 2;

/// Result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// Exit code.
    pub code: u8,
    /// Measured outcome; `None` if the run failed before it measured anything.
    pub outcome: Option<Outcome>,
}

/// Runs a workorder; writes progress and report to `out`.
pub fn run(
    settings: &Settings,
    master: &MasterSettings,
    workorder: &Workorder,
    width: Width,
    stop: &Stop,
    out: &mut dyn Write,
) -> RunResult {
    let mut printer = Printer {
        out,
        is_json: master.json,
        is_verbose: settings.verbose,
        master,
        workorder,
        width,
    };
    let result = master::run(settings, master, workorder, stop, &mut |event| {
        printer.handle(event);
    });
    let (code, outcome) = match result {
        Ok(outcome) => {
            printer.print(&output::report(master, width, &outcome));
            (exit_code(&outcome), Some(outcome))
        }
        Err(_) if stop.is_set() => (INTERRUPTED, None),
        Err(error) => {
            let code = printer.print_error(&error);
            sys::write_error_line(format_args!("uperf: {error}"));
            (code, None)
        }
    };
    if code == INTERRUPTED {
        sys::write_error(format_args!("\nGot SIGINT Aborting ...: Interrupt\n"));
    }
    RunResult { code, outcome }
}

fn exit_code(outcome: &Outcome) -> u8 {
    match outcome.ended {
        EndCause::Cancelled => INTERRUPTED,
        EndCause::Failed(_) => 1,
        _ => 0,
    }
}

/// Prints the events of a run.
///
/// Text goes to stdout. With `--json`, errors and `-v` lines go to stderr; other text is omitted,
/// because the document contains it.
struct Printer<'a> {
    out: &'a mut dyn Write,
    /// `--json`.
    is_json: bool,
    /// `-v`.
    is_verbose: bool,
    master: &'a MasterSettings,
    workorder: &'a Workorder,
    width: Width,
}

impl Printer<'_> {
    fn handle(&mut self, event: &MasterEvent<'_>) {
        let print = &self.master.print;
        let shows_progress = print.progress;
        match *event {
            MasterEvent::Step(step) => self.print_step(&step),
            MasterEvent::Warnings(warnings) => {
                let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
                write_error_line(format_args!("uperf: warning: {}", texts.join("; ")));
            }
            MasterEvent::Starting => self.print(&output::starting(self.workorder)),
            MasterEvent::Started(elapsed) => self.print(&output::started(elapsed)),
            MasterEvent::Sampled { stage, totals, at } if shows_progress => {
                let sample = SampleLine {
                    name: &running_transaction_name(stage),
                    totals,
                    ended: at,
                };
                self.print(&output::progress(print.raw, self.width, &sample));
            }
            MasterEvent::TransactionEnded if shows_progress => self.print(PROGRESS_END),
            MasterEvent::SamplesEnded { is_cut } if shows_progress => {
                // The progress line of a failed transaction still lacks its line end.
                if is_cut {
                    self.print(PROGRESS_END);
                }
                self.print(&self.width.rule());
            }
            MasterEvent::ConnectionsUnanswered(hosts) => write_error_line(format_args!(
                "uperf: the control connection to {} is up, but no data connection gets an answer; does a firewall \
                 drop them? (port= in the profile sets their port)",
                hosts.join(", ")
            )),
            MasterEvent::UnexpectedSlaveMessage => self.print_message("\n*** Slave aborted! ***\n"),
            MasterEvent::StrandFailed(number) => self.print_message(&format!(
                "flag_error:global_error={number}, Error executing transactions\n"
            )),
            // Run Statistics, if printed, show this line in place of the slave's totals.
            MasterEvent::SlaveLost(host) if self.is_json || !print.statistics => {
                self.print_message(&output::lost_slave_line(host));
            }
            _ => {}
        }
    }

    /// Prints text immediately, unless `--json` is given. A closed pipe is not an error.
    fn print(&mut self, text: &str) {
        if !self.is_json {
            let _ = self.out.write_all(text.as_bytes());
            let _ = self.out.flush();
        }
    }

    fn print_step(&mut self, step: &ProtocolStep<'_>) {
        if self.is_verbose {
            self.print_message(&step.to_string());
        }
    }

    /// Prints a line that is not part of the result; to stderr with `--json`.
    fn print_message(&mut self, line: &str) {
        if self.is_json {
            sys::write_error(format_args!("{line}"));
        } else {
            self.print(line);
        }
    }

    /// Prints an error in uperf's words; returns the exit code.
    fn print_error(&mut self, error: &MasterError) -> u8 {
        match error {
            MasterError::Connecting { host, reason } => {
                self.print_message(&format!("Error connecting to {host}\n\n** {reason}\n"));
            }
            MasterError::Refused {
                host,
                phase,
                reason,
            } => {
                let phase = if *phase == 1 { "" } else { " phase 2" };
                self.print_message(&format!(
                    "Error while handshaking{phase} with {host}\n\
                     {host} says: {reason}\n\
                     error handshaking with {host}\n\n"
                ));
            }
            MasterError::Lost { host, .. } => {
                self.print_message(&format!("error handshaking with {host}\n\n"));
            }
            MasterError::HandshakeEnd { host, .. } => {
                self.print_message(&format!("Error handshaking P3 with {host}\n"));
                return 255;
            }
            MasterError::ResponseFile(_) => self.print_message("Cannot open file\n"),
            MasterError::Unsendable { .. } | MasterError::Local(_) => {}
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_output_has_no_text() {
        let master = MasterSettings::default();
        let workorder = Workorder::default();
        let lines = "Starting 0 threads running profile: ... \n*** Slave aborted! ***\n";
        let with_step = format!("{lines}Completed handshake phase 1\n");
        for (is_json, is_verbose, expected) in [
            (false, false, lines),
            (false, true, &with_step),
            (true, true, ""),
        ] {
            let mut out = Vec::new();
            let mut printer = Printer {
                out: &mut out,
                is_json,
                is_verbose,
                master: &master,
                workorder: &workorder,
                width: Width::for_terminal(None),
            };
            for event in [
                MasterEvent::Starting,
                MasterEvent::UnexpectedSlaveMessage,
                MasterEvent::Step(ProtocolStep::Phase1Done),
            ] {
                printer.handle(&event);
            }
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
