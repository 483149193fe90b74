//! A case: its options and profile, and the comparison with its reference.

use std::net::TcpListener;
use std::time::Duration;

use testkit::{ProcessOutput, StockUperf, wait_until};

use super::Outcome;
use super::pair::{Pairing, Program};
use super::text::{
    comparable_lines, compare_lines, has_running_strands, master_seconds, reported_differences,
};

/// Maximum difference between the two ends, in percent.
const MAX_DIFFERENCE: f64 = 1.0;

/// Difference between the times of the two ends that a busy machine can cause, in seconds.
const MAX_TIME_DIFFERENCE: f64 = 0.12;

/// Data port of the case whose port is in use. No other run uses it.
pub(crate) const PORT: u16 = 30_002;

/// A case.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) options: &'static str,
    pub(crate) profile: String,
    pub(crate) has_slave: bool,
    /// Whether another program uses [`PORT`].
    pub(crate) is_port_in_use: bool,
    pub(crate) compared_text: ComparedText,
    pub(crate) checked_figures: CheckedFigures,
    /// Reason why stock fails with itself. linerate must succeed, and the text is not compared.
    pub(crate) no_reference: Option<&'static str>,
    /// Skipped pairings with the reasons.
    pub(crate) skipped: &'static [(SkippedPairing, &'static str)],
    /// Whether the oldest version runs the case as well.
    pub(crate) is_for_all_versions: bool,
}

/// The part of the text that must match the reference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparedText {
    All,
    /// The lines without figures.
    WithoutFigures,
    /// The lines after the progress. The progress of a failing run depends on chance.
    Report,
    Nothing,
}

/// The figures that must agree between the two ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckedFigures {
    /// Time, data and operations.
    All,
    /// Data and operations.
    Counts,
    /// As [`Self::All`], but the master may close with unread data, which only its slave counts.
    AllButUnread,
    /// No figures: datagrams are lost, or the ends count nothing.
    Nothing,
}

/// A pairing that a case skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkippedPairing {
    StockMaster,
    StockSlave,
    Ours,
}

/// Listens on [`PORT`]. A process that another thread has just forked may still hold the port.
fn occupy_port() -> TcpListener {
    let mut listener = None;
    wait_until(Duration::from_secs(20), || {
        listener = TcpListener::bind(("::", PORT)).ok();
        listener.is_some()
    });
    listener.expect("a free port")
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, options: &'static str, profile: String) -> Self {
        Self {
            name: name.into(),
            options,
            profile,
            has_slave: true,
            is_port_in_use: false,
            compared_text: ComparedText::All,
            checked_figures: CheckedFigures::Counts,
            no_reference: None,
            skipped: &[],
            is_for_all_versions: false,
        }
    }

    pub(crate) fn compare_only(mut self, compared_text: ComparedText) -> Self {
        self.compared_text = compared_text;
        self
    }

    pub(crate) fn check_figures(mut self, checked_figures: CheckedFigures) -> Self {
        self.checked_figures = checked_figures;
        self
    }

    pub(crate) fn without_control(mut self, reason: &'static str) -> Self {
        self.no_reference = Some(reason);
        self
    }

    pub(crate) fn skipping(mut self, skipped: &'static [(SkippedPairing, &'static str)]) -> Self {
        self.skipped = skipped;
        self
    }

    pub(crate) fn without_slave(mut self) -> Self {
        self.has_slave = false;
        self.checked_figures = CheckedFigures::Nothing;
        self
    }

    pub(crate) fn with_port_in_use(mut self) -> Self {
        self.is_port_in_use = true;
        self.checked_figures = CheckedFigures::Nothing;
        self
    }

    pub(crate) fn for_all_versions(mut self) -> Self {
        self.is_for_all_versions = true;
        self
    }

    /// Whether the case runs in a pairing.
    pub(crate) fn runs_in(&self, pairing: Pairing) -> bool {
        let kind = match (pairing.has_stock_master(), pairing.has_stock()) {
            (true, _) => SkippedPairing::StockMaster,
            (false, true) => SkippedPairing::StockSlave,
            (false, false) => SkippedPairing::Ours,
        };
        // Without a slave, only the program of the master matters.
        (self.has_slave || kind == SkippedPairing::Ours)
            && self.skipped.iter().all(|(skipped, _)| *skipped != kind)
    }

    /// Returns a line with the reason per skipped pairing and for a missing reference.
    pub(crate) fn omissions(&self) -> Vec<String> {
        let skipped = self.skipped.iter();
        let skipped =
            skipped.map(|(pairing, reason)| format!("{}: not in {pairing:?}: {reason}", self.name));
        let no_reference = self.no_reference.iter();
        let no_reference =
            no_reference.map(|reason| format!("{}: no reference: {reason}", self.name));
        skipped.chain(no_reference).collect()
    }

    pub(crate) fn check(&self, version: StockUperf, pairings: &[Pairing]) -> Outcome {
        let stock = Program::Stock(version);
        let reference = match self.no_reference {
            None => Some(self.run_until_complete(Pairing::new(stock, stock))),
            Some(_) => None,
        };
        for pairing in pairings {
            let mut output = self.run_until_complete(*pairing);
            let agreement = self.check_agreement(*pairing, &output, reference.as_ref());
            if self.is_late(&output) || agreement.is_err() {
                // The machine may have been busy. A stock slave then leaves data unread.
                output = self.run_until_complete(*pairing);
            }
            self.check_output(*pairing, &output, reference.as_ref())
                .map_err(|error| {
                    format!("{pairing}: {error}\n{output:#?}\nreference: {reference:#?}")
                })?;
        }
        Ok(())
    }

    /// Whether the profile has several groups. A stock master sometimes kills the strands of one
    /// group at the end of another, and loses their counts.
    pub(crate) fn has_several_groups(&self) -> bool {
        self.profile.matches("<group").count() > 1
    }

    /// Runs a pairing at most 5 times, until its output is complete. On a busy machine, a stock
    /// master sometimes crashes, or prints before its strands have ended.
    fn run_until_complete(&self, pairing: Pairing) -> ProcessOutput {
        let mut output = self.run(pairing);
        for _ in 0..4 {
            let is_complete = output.signal.is_none() && !has_running_strands(&output.stdout);
            if is_complete || !pairing.has_stock_master() {
                break;
            }
            output = self.run(pairing);
        }
        output
    }

    fn run(&self, pairing: Pairing) -> ProcessOutput {
        // The port belongs to the namespace of this thread.
        let _listener = self.is_port_in_use.then(occupy_port);
        pairing.run(self.options, &self.profile, self.has_slave)
    }

    fn check_output(
        &self,
        pairing: Pairing,
        output: &ProcessOutput,
        reference: Option<&ProcessOutput>,
    ) -> Outcome {
        self.check_text(output, reference)?;
        self.check_agreement(pairing, output, reference)
    }

    fn check_text(&self, output: &ProcessOutput, reference: Option<&ProcessOutput>) -> Outcome {
        let expected = reference.map_or(Some(0), |reference| reference.code);
        if output.code != expected {
            return Err(format!(
                "exit code {:?}, expected {expected:?}",
                output.code
            ));
        }
        let Some(reference) = reference else {
            return Ok(());
        };
        let compared_lines = |text: &str| -> Vec<String> {
            let mut lines = comparable_lines(text);
            match self.compared_text {
                ComparedText::All => {}
                ComparedText::WithoutFigures => lines.retain(|line| !line.contains('#')),
                ComparedText::Report => {
                    let rule = lines.iter().position(|line| line.starts_with("---"));
                    lines.drain(..rule.unwrap_or_default());
                }
                ComparedText::Nothing => lines.clear(),
            }
            lines
        };
        compare_lines(
            &compared_lines(&output.stdout),
            &compared_lines(&reference.stdout),
        )
    }

    fn check_agreement(
        &self,
        pairing: Pairing,
        output: &ProcessOutput,
        reference: Option<&ProcessOutput>,
    ) -> Outcome {
        let loses_counts = self.has_several_groups() && pairing.has_stock_master();
        if loses_counts || self.checked_figures == CheckedFigures::Nothing {
            return Ok(());
        }
        let differences = reported_differences(&output.stdout).ok_or("no differences")?;
        let [_, data, _, operations, _] = differences[..] else {
            return Err(format!("unexpected differences: {differences:?}"));
        };
        // With several hosts, each slave also counts operations that it does not do for the others,
        // so the difference may match the reference's.
        let reference = reference.and_then(|reference| reported_differences(&reference.stdout));
        let control_difference =
            |index: usize| reference.as_ref().map_or(0.0, |reference| reference[index]);
        for (figure, difference, reference) in [
            ("data", data, control_difference(1)),
            ("operations", operations, control_difference(3)),
        ] {
            let is_near = |value: f64| (difference - value).abs() <= MAX_DIFFERENCE;
            // If the run gets little CPU time, the socket buffers hold a large part of the data.
            if self.checked_figures == CheckedFigures::AllButUnread && difference <= MAX_DIFFERENCE
            {
                continue;
            }
            if !is_near(0.0) && !is_near(reference) {
                return Err(format!("{figure} differ by {difference} %"));
            }
        }
        if self.is_late(output) {
            return Err(format!("times differ by {} %", differences[0]));
        }
        Ok(())
    }

    /// Whether a goodbye was late, or the checked times of the ends differ too much.
    fn is_late(&self, output: &ProcessOutput) -> bool {
        if output.stdout.contains("Error saying goodbye") {
            return true;
        }
        if !matches!(
            self.checked_figures,
            CheckedFigures::All | CheckedFigures::AllButUnread
        ) {
            return false;
        }
        let differences = reported_differences(&output.stdout);
        let Some((differences, seconds)) = differences.zip(master_seconds(&output.stdout)) else {
            return false;
        };
        let percent = differences[0].abs();
        percent > MAX_DIFFERENCE && seconds * percent / 100.0 > MAX_TIME_DIFFERENCE
    }
}
