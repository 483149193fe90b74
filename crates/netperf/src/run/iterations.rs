//! Repeats a test until its confidence intervals are narrow enough (`-i`, `-I`, `-r`).

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use engine::Stop;
use model::{Confidence, Limit, Outcome, Series, Warning};
use stats::confidence::{ConfidenceGoal, RunningMoments};

use crate::client::{ClientError, Flows, Interim};
use crate::options::{Repeat, Settings, Test};
use crate::output;
use crate::result::{FinishedTest, MainFigures, RepeatedResult};

/// Runs the test as often as the settings require. The result has the means and the warnings of all
/// iterations; everything else comes from the last one. `earlier_runs` gets the other ones, if the
/// settings require a report.
pub(super) fn run(
    settings: &Settings,
    flows: &mut Flows,
    cancel: &Stop,
    interim: Option<&Interim>,
    earlier_runs: &mut Vec<Outcome>,
) -> Result<FinishedTest, ClientError> {
    let mut measure_once = || {
        if settings.has_report() {
            measure_with_samples(settings, flows, interim)
        } else {
            flows.measure_with_interim(&flows.counters(), interim)
        }
    };
    let Some(repeat) = settings.repeat.filter(|_| can_repeat(settings.test)) else {
        return measure_once();
    };
    let goal = goal(repeat, settings.test);
    let mut warnings = Vec::new();
    let mut stats = IterationStats::default();
    let mut run = measure_once()?;
    let reached = loop {
        keep_worst(&mut warnings, &run.outcome.warnings);
        stats.add(&output::main_figures(settings, &run));
        let reached = stats.reaches_goal(&goal, repeat.throughput_only);
        if cancel.is_set() || !goal.needs_more(stats.iterations(), reached) {
            break reached;
        }
        let next = measure_once();
        // The user ended an iteration before it had a result; the earlier iterations count.
        if next.is_err() && cancel.is_set() {
            break reached;
        }
        if settings.has_report() {
            earlier_runs.push(run.outcome);
        }
        run = next?;
    };
    warnings.extend(stats.warnings(&goal, reached));
    run.repetition_means = Some(RepeatedResult {
        means: stats.means(),
        confidence: stats.confidence(repeat, reached),
        warnings,
    });
    Ok(run)
}

/// Measures once and samples the counters during the test, for a plot.
fn measure_with_samples(
    settings: &Settings,
    flows: &mut Flows,
    interim: Option<&Interim>,
) -> Result<FinishedTest, ClientError> {
    /// The number of samples per test, unless their interval would be below [`MIN_INTERVAL`].
    const SAMPLES: u32 = 200;
    const MIN_INTERVAL: Duration = Duration::from_millis(100);
    const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);
    let length = match settings.flow.limit {
        Limit::Time(length) => Some(length),
        _ => None,
    };
    let interval = length.map_or(DEFAULT_INTERVAL, |length| {
        (length / SAMPLES).max(MIN_INTERVAL)
    });
    let counters = flows.counters();
    // The test runs in the new thread because it may bind itself to a CPU. The sampler must not
    // share that CPU.
    let (run, samples) = thread::scope(|scope| {
        let (sender, test_end) = mpsc::channel();
        let counters = &counters;
        let test = scope.spawn(move || {
            // Ends the sampling when it is dropped.
            let _sender: mpsc::Sender<()> = sender;
            flows.measure_with_interim(counters, interim)
        });
        let samples = engine::sample_until(&test_end, counters, interval, length, |_, _| ());
        (test.join(), samples)
    });
    let panicked =
        |_| ClientError::Failed("internal error: the test thread ended unexpectedly".to_owned());
    let mut run = run.map_err(panicked)??;
    run.outcome.series = vec![Series {
        name: settings.name.clone(),
        samples,
        ..Series::default()
    }];
    Ok(run)
}

/// Whether `-i` applies to the test. The stock tool runs TCP_CC and TCP_MSS once.
fn can_repeat(test: Test) -> bool {
    !matches!(test, Test::TcpCc | Test::TcpMss)
}

/// Returns the goal of the test. In TCP_SENDFILE the stock tool stops one iteration before the
/// maximum.
fn goal(repeat: Repeat, test: Test) -> ConfidenceGoal {
    let ConfidenceGoal {
        min_samples: min,
        max_samples: max,
        ..
    } = repeat.goal;
    let max = match test {
        Test::TcpSendfile => min.max(max - 1),
        _ => max,
    };
    ConfidenceGoal {
        max_samples: max,
        ..repeat.goal
    }
}

/// Statistics of the iterations.
#[derive(Default)]
struct IterationStats {
    throughputs: Vec<f64>,
    throughput: RunningMoments,
    elapsed: RunningMoments,
    local_cpu: RunningMoments,
    remote_cpu: RunningMoments,
    local_demand: RunningMoments,
    remote_demand: RunningMoments,
}

impl IterationStats {
    fn add(&mut self, figures: &MainFigures) {
        self.throughputs.push(figures.throughput);
        self.throughput.add(figures.throughput);
        self.elapsed.add(figures.elapsed);
        self.local_cpu.extend(figures.local_cpu);
        self.remote_cpu.extend(figures.remote_cpu);
        self.local_demand.extend(figures.local_demand);
        self.remote_demand.extend(figures.remote_demand);
    }

    fn iterations(&self) -> u32 {
        self.throughput.samples()
    }

    fn reaches_goal(&self, goal: &ConfidenceGoal, throughput_only: bool) -> bool {
        let cpus = [&self.local_cpu, &self.remote_cpu];
        let mut measured = cpus.iter().filter(|cpu| cpu.samples() > 0);
        goal.is_reached_by(&self.throughput)
            && (throughput_only || measured.all(|cpu| goal.is_reached_by(cpu)))
    }

    fn means(&self) -> MainFigures {
        MainFigures {
            throughput: self.throughput.mean().unwrap_or(0.0),
            elapsed: self.elapsed.mean().unwrap_or(0.0),
            local_cpu: self.local_cpu.mean(),
            remote_cpu: self.remote_cpu.mean(),
            local_demand: self.local_demand.mean(),
            remote_demand: self.remote_demand.mean(),
        }
    }

    fn confidence(&self, repeat: Repeat, reached: bool) -> Confidence {
        let ConfidenceGoal {
            level,
            max_relative_width: width,
            ..
        } = repeat.goal;
        let percent =
            |moments: &RunningMoments| moments.relative_width(level).map(|width| 100.0 * width);
        Confidence {
            level,
            target_width_percent: Some(100.0 * width),
            iterations: self.iterations(),
            throughput_width_percent: percent(&self.throughput),
            local_cpu_width_percent: percent(&self.local_cpu),
            remote_cpu_width_percent: percent(&self.remote_cpu),
            is_reached: reached,
        }
    }

    fn warnings(&self, goal: &ConfidenceGoal, reached: bool) -> Vec<Warning> {
        Warning::from_iterations(&self.throughputs, goal, reached)
    }
}

/// Adds warnings. Of warnings that differ only in their figure, it keeps the one with the largest
/// figure.
fn keep_worst(warnings: &mut Vec<Warning>, new_warnings: &[Warning]) {
    let magnitude = |warning: &Warning| warning.figure().map_or(0.0, |(figure, _)| figure.abs());
    for warning in new_warnings {
        match warnings
            .iter_mut()
            .find(|known| known.equals_except_figure(warning))
        {
            Some(known) if magnitude(known) < magnitude(warning) => *known = warning.clone(),
            Some(_) => {}
            None => warnings.push(warning.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use stats::confidence::ConfidenceLevel;

    use super::*;

    fn repeat(min: u32, max: u32) -> Repeat {
        Repeat {
            goal: ConfidenceGoal {
                level: ConfidenceLevel::P99,
                max_relative_width: 0.05,
                min_samples: min,
                max_samples: max,
            },
            throughput_only: false,
        }
    }

    fn stats_of(throughputs: &[f64], cpus: &[f64]) -> IterationStats {
        let mut stats = IterationStats::default();
        for (index, throughput) in throughputs.iter().enumerate() {
            stats.add(&MainFigures {
                throughput: *throughput,
                elapsed: 1.0,
                local_cpu: cpus.get(index).copied(),
                remote_cpu: None,
                local_demand: cpus.get(index).map(|cpu| cpu * 2.0),
                remote_demand: None,
            });
        }
        stats
    }

    #[test]
    fn sendfile_stops_one_iteration_earlier() {
        for (min, max, sendfile_max) in [(3, 3, 3), (3, 4, 3), (3, 10, 9), (30, 30, 30)] {
            assert_eq!(
                goal(repeat(min, max), Test::TcpSendfile).max_samples,
                sendfile_max
            );
            assert_eq!(goal(repeat(min, max), Test::TcpStream).max_samples, max);
        }
    }

    #[test]
    fn cpu_intervals_count_if_cpu_time_was_measured() {
        let goal = goal(repeat(3, 10), Test::TcpRr);
        let steady = [10.0, 10.0, 10.0];
        for (cpus, throughput_only, reached) in [
            (&[][..], false, true),
            (&[50.0, 50.0, 50.1][..], false, true),
            (&[50.0, 90.0, 20.0][..], false, false),
            (&[50.0, 90.0, 20.0][..], true, true),
            // An idle CPU has no relative width. The stock tool treats its goal as reached.
            (&[0.0, 0.0, 0.0][..], false, true),
        ] {
            let stats = stats_of(&steady, cpus);
            assert_eq!(
                stats.reaches_goal(&goal, throughput_only),
                reached,
                "{cpus:?}"
            );
        }
        assert!(!stats_of(&[10.0, 20.0, 30.0], &[]).reaches_goal(&goal, true));
    }

    #[test]
    fn means_and_interval_widths_are_computed() {
        let stats = stats_of(&[9.0, 10.0, 11.0], &[50.0, 50.0, 50.0]);
        let means = stats.means();
        assert!((means.throughput - 10.0).abs() < 1e-12);
        assert_eq!(means.local_cpu, Some(50.0));
        assert_eq!(means.local_demand, Some(100.0));
        assert_eq!(means.remote_cpu, None);
        let confidence = stats.confidence(repeat(3, 10), false);
        // 2 t s / (sqrt(n) mean), with s = 1 and Student's t = 9.925 (99 %, n = 3).
        let width = 100.0 * 2.0 * 9.925 / 3.0_f64.sqrt() / 10.0;
        assert!((confidence.throughput_width_percent.unwrap() - width).abs() < 0.01);
        assert_eq!(confidence.local_cpu_width_percent, Some(0.0));
        assert_eq!(confidence.remote_cpu_width_percent, None);
    }

    #[test]
    fn few_or_scattered_iterations_cause_warnings() {
        let goal = goal(repeat(3, 10), Test::TcpRr);
        let few = Warning::FewIterations { iterations: 3 };
        assert_eq!(stats_of(&[1.0; 3], &[]).warnings(&goal, true), [few]);
        let missed = Warning::IntervalNotReached { iterations: 10 };
        assert_eq!(stats_of(&[1.0; 10], &[]).warnings(&goal, false), [missed]);
        assert_eq!(stats_of(&[1.0; 6], &[]).warnings(&goal, true), []);
        // The user fixed the number of iterations, so few of them cause no warning.
        let fixed = super::goal(repeat(3, 3), Test::TcpRr);
        assert_eq!(stats_of(&[1.0; 3], &[]).warnings(&fixed, true), []);
        let two_modes = [1.0, 1.0, 1.01, 2.0, 2.01, 2.0];
        assert!(matches!(
            stats_of(&two_modes, &[]).warnings(&goal, true)[..],
            [Warning::Bimodal { .. }]
        ));
    }

    #[test]
    fn the_largest_figure_of_a_warning_is_kept() {
        let mut warnings = vec![Warning::PeerShared { tests: 1 }];
        keep_worst(
            &mut warnings,
            &[Warning::PeerShared { tests: 3 }, Warning::SameHost],
        );
        keep_worst(&mut warnings, &[Warning::PeerShared { tests: 2 }]);
        assert_eq!(
            warnings,
            [Warning::PeerShared { tests: 3 }, Warning::SameHost]
        );
    }
}
