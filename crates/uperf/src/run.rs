//! A master's run from the profile to its Outcome, and what is printed meanwhile and at the end.

use std::io::Write;

use engine::Stop;
use model::{Ended, Outcome, Warning};
use sys::write_error_line;

use crate::master::{self, Trouble};
use crate::options::{Master, Settings};
use crate::output::{self, PROGRESS_END, Sample, Width};
use crate::{Event, Step, Workorder, running_name};

/// The exit code after a signal.
pub const INTERRUPTED: u8 = 2;

/// How a run ended.
#[derive(Debug)]
pub struct Finished {
    /// The exit code.
    pub code: u8,
    /// What was measured; `None` where it did not come to that.
    pub outcome: Option<Outcome>,
}

/// Runs a profile; what is printed goes to `out`.
pub fn run(
    settings: &Settings,
    master: &Master,
    workorder: &Workorder,
    width: Width,
    stop: &Stop,
    out: &mut dyn Write,
) -> Finished {
    let mut printer = Printer {
        out,
        is_mute: master.json,
        is_verbose: settings.verbose,
        master,
        workorder,
        width,
    };
    let ended = master::run(settings, master, workorder, stop, &mut |event| {
        printer.show(event);
    });
    let (code, outcome) = match ended {
        Ok(outcome) => {
            printer.print(&output::report(master, width, &outcome));
            (code(&outcome), Some(outcome))
        }
        Err(_) if stop.is_set() => (INTERRUPTED, None),
        Err(trouble) => {
            let code = printer.trouble(&trouble);
            sys::write_error_line(format_args!("uperf: {trouble}"));
            (code, None)
        }
    };
    if code == INTERRUPTED {
        sys::write_error(format_args!("\nGot SIGINT Aborting ...: Interrupt\n"));
    }
    Finished { code, outcome }
}

fn code(outcome: &Outcome) -> u8 {
    match outcome.ended {
        Ended::Cancelled => INTERRUPTED,
        Ended::Failed(_) => 1,
        _ => 0,
    }
}

/// Text goes to stdout; where a document has its place, what went wrong and what is being done goes to
/// stderr, and all else is in the document.
struct Printer<'a> {
    out: &'a mut dyn Write,
    /// `--json`.
    is_mute: bool,
    /// `-v`.
    is_verbose: bool,
    master: &'a Master,
    workorder: &'a Workorder,
    width: Width,
}

impl Printer<'_> {
    fn show(&mut self, event: &Event<'_>) {
        let print = &self.master.print;
        let shows_progress = print.progress;
        match *event {
            Event::Step(step) => self.step(&step),
            Event::Doubtful(warnings) => {
                let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
                write_error_line(format_args!("uperf: warning: {}", texts.join("; ")));
            }
            Event::Starting => self.print(&output::starting(self.workorder)),
            Event::Started(elapsed) => self.print(&output::started(elapsed)),
            Event::Sampled { stage, totals, at } if shows_progress => {
                let sample = Sample {
                    name: &running_name(stage),
                    totals,
                    ended: at,
                };
                self.print(&output::progress(print.raw, self.width, &sample));
            }
            Event::TransactionEnded if shows_progress => self.print(PROGRESS_END),
            Event::SamplesEnded { is_cut } if shows_progress => {
                // The line of a transaction that has failed has no end yet.
                if is_cut {
                    self.print(PROGRESS_END);
                }
                self.print(&self.width.rule());
            }
            Event::Unanswered(hosts) => write_error_line(format_args!(
                "uperf: the control connection to {} is up, but no data connection gets an answer; does a firewall \
                 drop them? (port= in the profile sets their port)",
                hosts.join(", ")
            )),
            Event::SlaveAborted => self.tell("\n*** Slave aborted! ***\n"),
            Event::StrandFailed(number) => self.tell(&format!(
                "flag_error:global_error={number}, Error executing transactions\n"
            )),
            // The statistics have it in the slave's place.
            Event::SlaveLost(host) if self.is_mute || !print.statistics => {
                self.tell(&output::lost(host));
            }
            _ => {}
        }
    }

    /// What somebody reads in time. A reader that has had enough is no failure.
    fn print(&mut self, text: &str) {
        if !self.is_mute {
            let _ = self.out.write_all(text.as_bytes());
            let _ = self.out.flush();
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        if self.is_verbose {
            self.tell(&step.to_string());
        }
    }

    /// A line that is not of the result.
    fn tell(&mut self, line: &str) {
        if self.is_mute {
            sys::write_error(format_args!("{line}"));
        } else {
            self.print(line);
        }
    }

    /// Says in uperf's words what went wrong; the exit code that it has then.
    fn trouble(&mut self, trouble: &Trouble) -> u8 {
        match trouble {
            Trouble::Connecting { host, why } => {
                self.tell(&format!("Error connecting to {host}\n\n** {why}\n"));
            }
            Trouble::Refused { host, phase, said } => {
                let phase = if *phase == 1 { "" } else { " phase 2" };
                self.tell(&format!(
                    "Error while handshaking{phase} with {host}\n\
                     {host} says: {said}\n\
                     error handshaking with {host}\n\n"
                ));
            }
            Trouble::Lost { host, .. } => {
                self.tell(&format!("error handshaking with {host}\n\n"));
            }
            Trouble::Phase3 { host, .. } => {
                self.tell(&format!("Error handshaking P3 with {host}\n"));
                return 255;
            }
            Trouble::ResponseFile(_) => self.tell("Cannot open file\n"),
            Trouble::Unsendable { .. } | Trouble::Here(_) => {}
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_stands_alone() {
        let master = Master::default();
        let workorder = Workorder::default();
        let lines = "Starting 0 threads running profile: ... \n*** Slave aborted! ***\n";
        let with_step = format!("{lines}Completed handshake phase 1\n");
        for (is_mute, is_verbose, expected) in [
            (false, false, lines),
            (false, true, &with_step),
            (true, true, ""),
        ] {
            let mut out = Vec::new();
            let mut printer = Printer {
                out: &mut out,
                is_mute,
                is_verbose,
                master: &master,
                workorder: &workorder,
                width: Width::of(None),
            };
            for event in [
                Event::Starting,
                Event::SlaveAborted,
                Event::Step(Step::Phase1Done),
            ] {
                printer.show(&event);
            }
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
