//! Several flows in one test: a control connection and a thread for each, one start barrier,
//! one sum.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use engine::{Counters, FlowGroup, GroupMember, Stop};
use model::{Ended, Outcome, Warning};
use sys::Address;
use sys::neighbours::Neighbours;

use super::answer::Watch;
use super::control::Established;
use super::interim::{Interim, Progress};
use super::{ClientError, measure, uncontrolled};
use crate::options::{Settings, Test};
use crate::result::{Endpoints, TestRun};

/// What running tests of this program are known by on their host.
const TESTS: &str = "linerate-test";

/// The flows of a test, each with a control connection that stands.
#[derive(Debug)]
pub struct Flows {
    /// The first flow's are the test's.
    flows: Vec<Flow>,
}

#[derive(Debug)]
struct Flow {
    settings: Settings,
    /// `None` with `-N`.
    control: Option<Established>,
    endpoints: Endpoints,
    /// Ends this flow alone, or with all of them.
    stop: Stop,
    /// There is no other test on this control connection: the server's process would not outlive it, or
    /// an answer of the last one is still to come.
    spent: bool,
}

impl Flows {
    /// Connects as often as the settings have flows; `cancel` ends every wait, and every test.
    pub fn connect(settings: &Settings, cancel: &Stop) -> Result<Self, ClientError> {
        let a_direction = settings.flows.max(1);
        let mut flows = Vec::new();
        for direction in [Some(settings), settings.reverse.as_deref()]
            .into_iter()
            .flatten()
        {
            for _ in 0..a_direction {
                let mut settings = direction.clone();
                let stop = cancel.follower();
                let control = if settings.no_control {
                    None
                } else {
                    Some(Established::connect(&settings.control, &stop)?)
                };
                let mut endpoints = Endpoints::of(&settings, control.as_ref())?;
                endpoints.move_ports(flows.len())?;
                // CPU time is the whole host's: it is taken once for all.
                settings.flow.there.measure_cpu &= flows.is_empty();
                flows.push(Flow {
                    settings,
                    control,
                    endpoints,
                    stop,
                    spent: false,
                });
            }
        }
        Ok(Self { flows })
    }

    /// The server's address; `None` without a control connection.
    pub fn remote(&self) -> Option<&Address> {
        Some(&self.flows[0].control.as_ref()?.remote)
    }

    /// The first flow's data connection.
    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.flows[0].endpoints
    }

    /// Lets `change` have each flow's settings, which it may still change before they are run.
    pub fn settings_mut(&mut self) -> impl Iterator<Item = &mut Settings> {
        self.flows.iter_mut().map(|flow| &mut flow.settings)
    }

    /// New counters, one set per flow.
    pub fn counters(&self) -> Vec<Arc<Counters>> {
        self.flows.iter().map(|_| Arc::default()).collect()
    }

    /// Runs the test once and adds up what the flows did. The counts can be read from the counters, one set per
    /// flow, meanwhile.
    pub fn measure(&mut self, counters: &[Arc<Counters>]) -> Result<TestRun, ClientError> {
        self.measure_with(counters, None)
    }

    /// The same, with interim results.
    pub(crate) fn measure_with(
        &mut self,
        counters: &[Arc<Counters>],
        interim: Option<&Interim>,
    ) -> Result<TestRun, ClientError> {
        // Who cannot look for others warns of none.
        let neighbours = Neighbours::join(TESTS);
        let mut run = self.run(counters, interim)?;
        let others = neighbours.map_or(0, |mut neighbours| neighbours.count());
        if others > 0 {
            run.outcome.warnings.push(Warning::HostShared {
                tests: others as u32,
            });
        }
        Ok(run)
    }

    fn run(
        &mut self,
        counters: &[Arc<Counters>],
        interim: Option<&Interim>,
    ) -> Result<TestRun, ClientError> {
        let answers = Watch::over(counters, self.flows[0].settings.unanswered);
        let progress = |number: usize| Progress {
            counters: &counters[number],
            all: if number == 0 { counters } else { &[] },
            interim,
            answer: &answers[number],
        };
        if let [flow] = &mut self.flows[..] {
            let (run, _) = flow.measure(progress(0), None)?;
            return Ok(run);
        }
        let here = &self.flows[0].settings.flow.here;
        let measure_cpu = here.measure_cpu;
        let group = FlowGroup::new(self.flows.len(), here.clone());
        let results: Vec<Result<_, ClientError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .flows
                .iter_mut()
                .enumerate()
                .map(|(number, flow)| flow.start(scope, progress(number), &group))
                .collect();
            threads.into_iter().map(join).collect()
        });
        let runs = all_or_the_cause(results)?;
        let mut sum = sum(runs)?;
        // The first flow ran without: the clock of all flows has it.
        if let Some(flow) = sum.outcome.plan.flow_mut() {
            flow.here.measure_cpu = measure_cpu;
        }
        sum.outcome.here.cpu = group.cpu();
        let doubts = sum.outcome.doubts();
        for doubt in doubts {
            if !sum
                .outcome
                .warnings
                .iter()
                .any(|known| known.is_like(&doubt))
            {
                sum.outcome.warnings.push(doubt);
            }
        }
        Ok(sum)
    }

    /// Ends the control connections as the stock tool does.
    pub fn close(self) {
        for flow in self.flows {
            if let Some(control) = flow.control {
                control.close();
            }
        }
    }
}

impl Flow {
    fn start<'scope>(
        &'scope mut self,
        scope: &'scope Scope<'scope, '_>,
        progress: Progress<'scope>,
        group: &'scope FlowGroup,
    ) -> io::Result<ScopedJoinHandle<'scope, Result<(TestRun, Instant), ClientError>>> {
        let member = group.member();
        Builder::new()
            .name("flow".to_owned())
            .spawn_scoped(scope, move || self.measure(progress, Some(member)))
    }

    fn measure(
        &mut self,
        progress: Progress<'_>,
        member: Option<GroupMember<'_>>,
    ) -> Result<(TestRun, Instant), ClientError> {
        let stop = &self.stop;
        if self.spent {
            let next = Established::connect(&self.settings.control, stop)?;
            if let Some(last) = self.control.replace(next) {
                last.close();
            }
        }
        let mut settings = self.settings.clone();
        settings.flow.here.measure_cpu &= member.is_none();
        let endpoints = self.endpoints.clone();
        let ended = match &mut self.control {
            Some(control) => measure::test(&settings, control, endpoints, stop, progress, member),
            None => uncontrolled::test(&settings, endpoints, stop, progress, member),
        };
        let received = |(run, _): &(TestRun, Instant)| {
            let there = run.outcome.there.as_ref().map(|there| there.counts);
            there.is_some_and(|counts| counts.receive_calls + counts.receive_calls_late > 0)
        };
        if ended.as_ref().is_ok_and(received) {
            progress.answer.came();
        }
        let (run, begun) = progress.answer.conclude(ended, stop)?;
        if let Ended::Failed(why) = run.outcome.ended {
            return Err(ClientError::Ended(why));
        }
        self.prepare_next(&run);
        Ok((run, begun))
    }

    /// As the stock client does, another run of the test asks for the data port and the calibration
    /// value that the server has told.
    fn prepare_next(&mut self, run: &TestRun) {
        let Some(control) = &self.control else {
            return;
        };
        let told = &run.peer.response;
        if told.cpu_rate > 0.0 {
            self.settings.cpu_rate.remote = told.cpu_rate;
        }
        // Without a control connection nothing was told.
        let port = Some(told.data_port).filter(|port| *port != 0);
        if let Some(dest) = port.and_then(|port| self.endpoints.dest.with_port(port)) {
            self.endpoints.dest = dest;
        }
        // A stock server does not cancel the timer of this test's messages, and dies of a second one.
        let there = run.outcome.there.as_ref();
        let is_stock = there.is_none_or(|there| there.program.is_none());
        let dies = self.settings.test == Test::TcpSendfile && is_stock;
        self.spent = dies || control.out_of_step;
    }
}

fn join<T>(
    thread: io::Result<ScopedJoinHandle<'_, Result<T, ClientError>>>,
) -> Result<T, ClientError> {
    match thread.map(ScopedJoinHandle::join) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(ClientError::Ended("a flow's thread broke off".to_owned())),
        Err(error) => Err(ClientError::Ended(format!(
            "no thread for a flow: {}",
            sys::describe(&error)
        ))),
    }
}

/// All results, or the error that kept the others from starting.
fn all_or_the_cause<T>(results: Vec<Result<T, ClientError>>) -> Result<Vec<T>, ClientError> {
    let mut cause = None;
    let mut all = Vec::new();
    for result in results {
        match (result, &cause) {
            (Ok(result), _) => all.push(result),
            (Err(error), None | Some(ClientError::Abandoned)) => cause = Some(error),
            (Err(_), Some(_)) => {}
        }
    }
    cause.map_or(Ok(all), Err)
}

fn sum(runs: Vec<(TestRun, Instant)>) -> Result<TestRun, ClientError> {
    let first = runs.iter().map(|(_, begun)| *begun).min();
    let Some((((run, _), others), first)) = runs.split_first().zip(first) else {
        return Err(ClientError::Ended("no flow was run".to_owned()));
    };
    let (mut peer, endpoints) = (run.peer.clone(), run.endpoints.clone());
    for (run, _) in others {
        peer.add(&run.peer);
    }
    let outcomes = runs
        .into_iter()
        .map(|(run, at)| (run.outcome, at - first))
        .collect();
    let Some(outcome) = Outcome::sum(outcomes) else {
        return Err(ClientError::Ended("no flow was run".to_owned()));
    };
    Ok(TestRun {
        outcome,
        peer,
        endpoints,
        repeated: None,
    })
}
