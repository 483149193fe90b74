//! A test run over and over, until its means are known as well as was asked for: `-i`, `-I`, `-r`.

use std::sync::mpsc;
use std::time::Duration;
use std::{mem, thread};

use engine::Stop;
use model::{Confidence, Ended, Limit, Outcome, Series, Warning};
use stats::confidence::{Goal, Moments};

use crate::client::{ClientError, Flows, Interim};
use crate::options::{Repeat, Settings, Test};
use crate::output;
use crate::result::{Headline, Repeated, TestRun};

/// Runs the test as often as the settings say. All but the means is of the last iteration.
pub(super) fn run(
    settings: &Settings,
    flows: &mut Flows,
    cancel: &Stop,
    interim: Option<&Interim>,
    runs: &mut Vec<Outcome>,
) -> Result<TestRun, ClientError> {
    let mut once = || {
        if !settings.has_report() {
            return flows.measure_with(&flows.counters(), interim);
        }
        let run = sampled(settings, flows, interim)?;
        runs.push(run.outcome.clone());
        Ok(run)
    };
    let Some(repeat) = settings.repeat.filter(|_| may_repeat(settings.test)) else {
        return once();
    };
    let goal = goal(repeat, settings.test);
    let mut doubts = Vec::new();
    let mut found = Found::default();
    let mut run = once()?;
    let reached = loop {
        keep_worst(&mut doubts, mem::take(&mut run.outcome.warnings));
        found.add(&output::headline(settings, &run));
        let reached = found.reaches(&goal, repeat.throughput_only);
        if cancel.is_set() || !goal.wants_more(found.iterations(), reached) {
            break reached;
        }
        match once() {
            // The user has ended one that had no result yet: those before it have theirs.
            Err(_) if cancel.is_set() => {
                run.outcome.ended = Ended::Cancelled;
                break reached;
            }
            next => run = next?,
        }
    };
    doubts.extend(found.doubts(&goal, reached));
    run.outcome.warnings = doubts;
    run.repeated = Some(Repeated {
        means: found.means(),
        confidence: found.confidence(repeat, reached),
    });
    Ok(run)
}

/// Measures once, and samples the counters meanwhile, for a plot.
fn sampled(
    settings: &Settings,
    flows: &mut Flows,
    interim: Option<&Interim>,
) -> Result<TestRun, ClientError> {
    /// So many samples of a test, unless they are closer than [`SHORTEST`].
    const SAMPLES: u32 = 200;
    const SHORTEST: Duration = Duration::from_millis(10);
    const WITHOUT_LENGTH: Duration = Duration::from_millis(100);
    let length = match settings.flow.limit {
        Limit::Time(length) => Some(length),
        _ => None,
    };
    let grid = length.map_or(WITHOUT_LENGTH, |length| (length / SAMPLES).max(SHORTEST));
    let counters = flows.counters();
    // The test has the new thread: it may bind itself to a CPU, which the samples keep out of.
    let (run, samples) = thread::scope(|scope| {
        let (running, ended) = mpsc::channel();
        let counters = &counters;
        let test = scope.spawn(move || {
            let _running: mpsc::Sender<()> = running;
            flows.measure_with(counters, interim)
        });
        let samples = engine::sample_until(&ended, counters, grid, length, |_, _| ());
        (test.join(), samples)
    });
    let broken = |_| ClientError::Ended("the thread of the test broke off".to_owned());
    let mut run = run.map_err(broken)??;
    run.outcome.series = vec![Series {
        name: settings.name.clone(),
        samples,
        ..Series::default()
    }];
    Ok(run)
}

/// The stock tool runs these once, whatever is asked for.
fn may_repeat(test: Test) -> bool {
    !matches!(test, Test::TcpCc | Test::TcpMss)
}

/// In TCP_SENDFILE the stock tool stops one iteration earlier than it is allowed to.
fn goal(repeat: Repeat, test: Test) -> Goal {
    let Goal { min, max, .. } = repeat.goal;
    let max = match test {
        Test::TcpSendfile => min.max(max - 1),
        _ => max,
    };
    Goal { max, ..repeat.goal }
}

/// What the iterations gave so far.
#[derive(Default)]
struct Found {
    throughputs: Vec<f64>,
    throughput: Moments,
    elapsed: Moments,
    local_cpu: Moments,
    remote_cpu: Moments,
    local_demand: Moments,
    remote_demand: Moments,
}

impl Found {
    fn add(&mut self, headline: &Headline) {
        self.throughputs.push(headline.throughput);
        self.throughput.add(headline.throughput);
        self.elapsed.add(headline.elapsed);
        self.local_cpu.extend(headline.local_cpu);
        self.remote_cpu.extend(headline.remote_cpu);
        self.local_demand.extend(headline.local_demand);
        self.remote_demand.extend(headline.remote_demand);
    }

    fn iterations(&self) -> u32 {
        self.throughput.samples()
    }

    fn reaches(&self, goal: &Goal, throughput_only: bool) -> bool {
        let cpus = [&self.local_cpu, &self.remote_cpu];
        let mut measured = cpus.iter().filter(|cpu| cpu.samples() > 0);
        goal.is_reached_by(&self.throughput)
            && (throughput_only || measured.all(|cpu| goal.is_reached_by(cpu)))
    }

    fn means(&self) -> Headline {
        Headline {
            throughput: self.throughput.mean().unwrap_or(0.0),
            elapsed: self.elapsed.mean().unwrap_or(0.0),
            local_cpu: self.local_cpu.mean(),
            remote_cpu: self.remote_cpu.mean(),
            local_demand: self.local_demand.mean(),
            remote_demand: self.remote_demand.mean(),
        }
    }

    fn confidence(&self, repeat: Repeat, reached: bool) -> Confidence {
        let Goal { level, width, .. } = repeat.goal;
        let percent = |of: &Moments| of.relative_width(level).map(|width| 100.0 * width);
        Confidence {
            level,
            target_width_percent: Some(100.0 * width),
            iterations: self.iterations(),
            throughput_width_percent: percent(&self.throughput),
            local_cpu_width_percent: percent(&self.local_cpu),
            remote_cpu_width_percent: percent(&self.remote_cpu),
            reached,
        }
    }

    fn doubts(&self, goal: &Goal, reached: bool) -> Vec<Warning> {
        Warning::of_iterations(&self.throughputs, goal, reached)
    }
}

/// A doubt of several iterations is kept once, as it was when it was largest.
fn keep_worst(doubts: &mut Vec<Warning>, more: Vec<Warning>) {
    let size = |doubt: &Warning| doubt.figure().map_or(0.0, |(figure, _)| figure.abs());
    for doubt in more {
        match doubts.iter_mut().find(|known| known.is_like(&doubt)) {
            Some(known) if size(known) < size(&doubt) => *known = doubt,
            Some(_) => {}
            None => doubts.push(doubt),
        }
    }
}

#[cfg(test)]
mod tests {
    use stats::confidence::Level;

    use super::*;

    fn repeat(min: u32, max: u32) -> Repeat {
        Repeat {
            goal: Goal {
                level: Level::P99,
                width: 0.05,
                min,
                max,
            },
            throughput_only: false,
        }
    }

    fn found(throughputs: &[f64], cpus: &[f64]) -> Found {
        let mut found = Found::default();
        for (index, throughput) in throughputs.iter().enumerate() {
            found.add(&Headline {
                throughput: *throughput,
                elapsed: 1.0,
                local_cpu: cpus.get(index).copied(),
                remote_cpu: None,
                local_demand: cpus.get(index).map(|cpu| cpu * 2.0),
                remote_demand: None,
            });
        }
        found
    }

    #[test]
    fn sendfile_is_one_tighter() {
        for (min, max, sendfile) in [(3, 3, 3), (3, 4, 3), (3, 10, 9), (30, 30, 30)] {
            assert_eq!(goal(repeat(min, max), Test::TcpSendfile).max, sendfile);
            assert_eq!(goal(repeat(min, max), Test::TcpStream).max, max);
        }
    }

    #[test]
    fn the_cpu_has_to_be_known_too_unless_it_was_not_measured() {
        let goal = goal(repeat(3, 10), Test::TcpRr);
        let steady = [10.0, 10.0, 10.0];
        for (cpus, throughput_only, reached) in [
            (&[][..], false, true),
            (&[50.0, 50.0, 50.1][..], false, true),
            (&[50.0, 90.0, 20.0][..], false, false),
            (&[50.0, 90.0, 20.0][..], true, true),
            // An idle CPU has no relative width, and stock's is reached.
            (&[0.0, 0.0, 0.0][..], false, true),
        ] {
            let found = found(&steady, cpus);
            assert_eq!(found.reaches(&goal, throughput_only), reached, "{cpus:?}");
        }
        assert!(!found(&[10.0, 20.0, 30.0], &[]).reaches(&goal, true));
    }

    #[test]
    fn means_and_widths() {
        let found = found(&[9.0, 10.0, 11.0], &[50.0, 50.0, 50.0]);
        let means = found.means();
        assert!((means.throughput - 10.0).abs() < 1e-12);
        assert_eq!(means.local_cpu, Some(50.0));
        assert_eq!(means.local_demand, Some(100.0));
        assert_eq!(means.remote_cpu, None);
        let confidence = found.confidence(repeat(3, 10), false);
        // 2 t s / (sqrt(n) mean) with t = 9.925 of the table.
        let width = 100.0 * 2.0 * 9.925 / 3.0_f64.sqrt() / 10.0;
        assert!((confidence.throughput_width_percent.unwrap() - width).abs() < 0.01);
        assert_eq!(confidence.local_cpu_width_percent, Some(0.0));
        assert_eq!(confidence.remote_cpu_width_percent, None);
    }

    #[test]
    fn what_is_doubtful() {
        let goal = goal(repeat(3, 10), Test::TcpRr);
        let few = Warning::FewIterations { iterations: 3 };
        assert_eq!(found(&[1.0; 3], &[]).doubts(&goal, true), [few]);
        let missed = Warning::IntervalNotReached { iterations: 10 };
        assert_eq!(found(&[1.0; 10], &[]).doubts(&goal, false), [missed]);
        assert_eq!(found(&[1.0; 6], &[]).doubts(&goal, true), []);
        // Not the rule, but the user ended it.
        let fixed = super::goal(repeat(3, 3), Test::TcpRr);
        assert_eq!(found(&[1.0; 3], &[]).doubts(&fixed, true), []);
        let two = [1.0, 1.0, 1.01, 2.0, 2.01, 2.0];
        assert!(matches!(
            found(&two, &[]).doubts(&goal, true)[..],
            [Warning::Bimodal { .. }]
        ));
    }

    #[test]
    fn the_largest_of_a_doubt_is_kept() {
        let mut doubts = vec![Warning::PeerShared { tests: 1 }];
        keep_worst(
            &mut doubts,
            vec![Warning::PeerShared { tests: 3 }, Warning::SameHost],
        );
        keep_worst(&mut doubts, vec![Warning::PeerShared { tests: 2 }]);
        assert_eq!(
            doubts,
            [Warning::PeerShared { tests: 3 }, Warning::SameHost]
        );
    }
}
