//! One case: what is run, and what its control says of it.

use std::net::TcpListener;
use std::time::Duration;

use testkit::{ProcessOutput, StockUperf, wait_until};

use super::Outcome;
use super::pair::{Make, Pairing};
use super::text::{compare, differences, has_running_strands, seconds, shown};

/// Per cent by which both ends may differ.
const PER_CENT: f64 = 1.0;

/// Seconds that a busy machine may make of them in the time of a short run.
const SECONDS: f64 = 0.12;

/// The data port of the profile whose port is taken: no other run has it.
pub(crate) const PORT: u16 = 30_002;

/// One of them.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) options: &'static str,
    pub(crate) profile: String,
    pub(crate) has_slave: bool,
    /// Whether the port of the profile is another program's.
    pub(crate) is_taken: bool,
    pub(crate) like: Like,
    pub(crate) hold: Hold,
    /// Why stock does not come through it with itself: then ours must, and has nothing to compare with.
    pub(crate) no_control: Option<&'static str>,
    /// Why one of the pairings is left out.
    pub(crate) left_out: &'static [(Left, &'static str)],
    /// Whether the oldest version runs it as well.
    pub(crate) is_for_all: bool,
}

/// Which text is the control's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Like {
    /// All of it.
    All,
    /// That without figures.
    Titles,
    /// What follows the progress: it shows how far the ends of a failing run were by chance.
    Report,
    /// None of it.
    Nothing,
}

/// What both ends must agree in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Time, data and operations.
    All,
    /// Data and operations.
    Counts,
    /// As [`Self::All`], but a master may close with data unread, which only its slave has counted.
    AllRead,
    /// Nothing: datagrams are lost, or nothing is counted.
    Nothing,
}

/// A pairing that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    StockMaster,
    StockSlave,
    Ours,
}

/// A process that another thread has forked has what this one closed, until it executes its program.
fn take_port() -> TcpListener {
    let mut taken = None;
    wait_until(Duration::from_secs(20), || {
        taken = TcpListener::bind(("::", PORT)).ok();
        taken.is_some()
    });
    taken.expect("nobody else has it")
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, options: &'static str, profile: String) -> Self {
        Self {
            name: name.into(),
            options,
            profile,
            has_slave: true,
            is_taken: false,
            like: Like::All,
            hold: Hold::Counts,
            no_control: None,
            left_out: &[],
            is_for_all: false,
        }
    }

    pub(crate) fn like(mut self, like: Like) -> Self {
        self.like = like;
        self
    }

    pub(crate) fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    pub(crate) fn without_control(mut self, why: &'static str) -> Self {
        self.no_control = Some(why);
        self
    }

    pub(crate) fn leaving_out(mut self, left_out: &'static [(Left, &'static str)]) -> Self {
        self.left_out = left_out;
        self
    }

    pub(crate) fn alone(mut self) -> Self {
        self.has_slave = false;
        self.hold = Hold::Nothing;
        self
    }

    pub(crate) fn with_taken_port(mut self) -> Self {
        self.is_taken = true;
        self.hold = Hold::Nothing;
        self
    }

    pub(crate) fn for_all(mut self) -> Self {
        self.is_for_all = true;
        self
    }

    /// Whether it is run in a pairing.
    pub(crate) fn runs_with(&self, pairing: Pairing) -> bool {
        let left = match (pairing.has_stock_master(), pairing.has_stock()) {
            (true, _) => Left::StockMaster,
            (false, true) => Left::StockSlave,
            (false, false) => Left::Ours,
        };
        // Without a slave only the master's make matters.
        (self.has_slave || left == Left::Ours)
            && self.left_out.iter().all(|(other, _)| *other != left)
    }

    /// What is not run of it, and why.
    pub(crate) fn gaps(&self) -> Vec<String> {
        let left_out = self.left_out.iter();
        let left_out =
            left_out.map(|(left, why)| format!("{}: not with {left:?}: {why}", self.name));
        let no_control = self.no_control.iter();
        let no_control = no_control.map(|why| format!("{}: no control: {why}", self.name));
        left_out.chain(no_control).collect()
    }

    pub(crate) fn check(&self, version: StockUperf, pairings: &[Pairing]) -> Outcome {
        let stock = Make::Stock(version);
        let control = match self.no_control {
            None => Some(self.run_alive(Pairing::new(stock, stock))),
            Some(_) => None,
        };
        for pairing in pairings {
            let mut ended = self.run_alive(*pairing);
            if self.is_late(&ended) {
                // A busy machine may have been.
                ended = self.run_alive(*pairing);
            }
            self.judge(*pairing, &ended, control.as_ref())
                .map_err(|why| format!("{pairing}: {why}\n{ended:#?}\ncontrol: {control:#?}"))?;
        }
        Ok(())
    }

    /// A stock master kills strands of one group now and then when another has ended: it has lost their counts.
    pub(crate) fn has_groups(&self) -> bool {
        self.profile.matches("<group").count() > 1
    }

    /// A stock master on a busy machine crashes now and then, or prints before its strands have ended: then there is
    /// nothing to compare with.
    fn run_alive(&self, pairing: Pairing) -> ProcessOutput {
        let mut ended = self.run(pairing);
        for _ in 0..4 {
            let is_whole = ended.signal.is_none() && !has_running_strands(&ended.stdout);
            if is_whole || !pairing.has_stock_master() {
                break;
            }
            ended = self.run(pairing);
        }
        ended
    }

    fn run(&self, pairing: Pairing) -> ProcessOutput {
        // Of this lane's host.
        let _taken = self.is_taken.then(take_port);
        pairing.run(self.options, &self.profile, self.has_slave)
    }

    fn judge(
        &self,
        pairing: Pairing,
        ended: &ProcessOutput,
        control: Option<&ProcessOutput>,
    ) -> Outcome {
        self.compare(ended, control)?;
        if self.has_groups() && pairing.has_stock_master() {
            return Ok(());
        }
        self.agree(ended, control)
    }

    fn compare(&self, ended: &ProcessOutput, control: Option<&ProcessOutput>) -> Outcome {
        let expected = control.map_or(Some(0), |control| control.code);
        if ended.code != expected {
            return Err(format!("exit code {:?}, expected {expected:?}", ended.code));
        }
        let Some(control) = control else {
            return Ok(());
        };
        let part = |text: &str| -> Vec<String> {
            let mut lines = shown(text);
            match self.like {
                Like::All => {}
                Like::Titles => lines.retain(|line| !line.contains('#')),
                Like::Report => {
                    let rule = lines.iter().position(|line| line.starts_with("---"));
                    lines.drain(..rule.unwrap_or_default());
                }
                Like::Nothing => lines.clear(),
            }
            lines
        };
        compare(&part(&ended.stdout), &part(&control.stdout))
    }

    fn agree(&self, ended: &ProcessOutput, control: Option<&ProcessOutput>) -> Outcome {
        if self.hold == Hold::Nothing {
            return Ok(());
        }
        let found = differences(&ended.stdout).ok_or("no differences")?;
        let [_, data, _, operations, _] = found[..] else {
            return Err(format!("differences are {found:?}"));
        };
        // Of several hosts each counts what it does not do for the others as well.
        let control = control.and_then(|control| differences(&control.stdout));
        let controls = |at: usize| control.as_ref().map_or(0.0, |control| control[at]);
        for (what, found, control) in [
            ("data", data, controls(1)),
            ("operations", operations, controls(3)),
        ] {
            let is_near = |to: f64| (found - to).abs() <= PER_CENT;
            // Of a run that was hardly given a CPU, what is in the sockets' buffers is a large part.
            if self.hold == Hold::AllRead && found <= PER_CENT {
                continue;
            }
            if !is_near(0.0) && !is_near(control) {
                return Err(format!("{what} differ by {found} %"));
            }
        }
        if self.is_late(ended) {
            return Err(format!("times differ by {} %", found[0]));
        }
        Ok(())
    }

    /// Whether one end took longer than the other, where that matters, or too long for a goodbye.
    fn is_late(&self, ended: &ProcessOutput) -> bool {
        if ended.stdout.contains("Error saying goodbye") {
            return true;
        }
        let found = differences(&ended.stdout).zip(seconds(&ended.stdout));
        let Some((found, lasted)) =
            found.filter(|_| matches!(self.hold, Hold::All | Hold::AllRead))
        else {
            return false;
        };
        let time = found[0].abs();
        time > PER_CENT && lasted * time / 100.0 > SECONDS
    }
}
