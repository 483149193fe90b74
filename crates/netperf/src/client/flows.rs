//! Runs several flows in one test. Each has a control connection and a thread; all share a start
//! barrier, and their results are summed.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use engine::{
    BudgetHolder, Counters, FlowGroup, GroupMember, ResourceAmounts, ResourceBudget, ResourceShare,
    Stop,
};
use model::{EndCause, Outcome, Warning};
use sys::Address;
use sys::instances::Instances;

use super::answer::AnswerMonitor;
use super::control::ServerConnection;
use super::interim::{Interim, Progress};
use super::{ClientError, measure, uncontrolled};
use crate::options::{Settings, Test};
use crate::result::{Endpoints, FinishedTest};

/// Name under which running tests of this program find each other on a host.
const INSTANCE_KIND: &str = "linerate-test";

/// The flows of a test, each with an established control connection.
#[derive(Debug)]
pub struct Flows {
    /// The first flow's settings and endpoints are the test's.
    flows: Vec<Flow>,
    _threads: ResourceShare,
}

#[derive(Debug)]
struct Flow {
    settings: Settings,
    /// `None` with `-N`.
    control: Option<ServerConnection>,
    endpoints: Endpoints,
    /// Ends this flow; the test's cancel ends all flows.
    stop: Stop,
    /// Whether another test needs a new control connection, because the server exits after this
    /// test or a late response may still arrive.
    needs_reconnect: bool,
}

impl Flows {
    /// Opens one control connection per flow. `cancel` ends every wait and every test.
    pub fn connect(settings: &Settings, cancel: &Stop) -> Result<Self, ClientError> {
        let flows_per_direction = settings.flows.max(1);
        let directions = 1 + u64::from(settings.reverse.is_some());
        let amounts = ResourceAmounts {
            threads: u64::from(flows_per_direction) * directions,
            ..ResourceAmounts::default()
        };
        let threads = ResourceBudget::process().reserve(BudgetHolder::Local, amounts);
        let threads = threads.map_err(|exceeded| ClientError::Failed(exceeded.to_string()))?;
        let mut flows = Vec::new();
        for direction in [Some(settings), settings.reverse.as_deref()]
            .into_iter()
            .flatten()
        {
            for _ in 0..flows_per_direction {
                let mut settings = direction.clone();
                let stop = cancel.child();
                let control = if settings.no_control {
                    None
                } else {
                    Some(ServerConnection::connect(&settings.control, &stop)?)
                };
                let mut endpoints = Endpoints::resolve(&settings, control.as_ref())?;
                endpoints.add_to_ports(flows.len())?;
                // CPU time covers the whole host, so only the first flow measures it.
                settings.flow.remote.measure_cpu &= flows.is_empty();
                flows.push(Flow {
                    settings,
                    control,
                    endpoints,
                    stop,
                    needs_reconnect: false,
                });
            }
        }
        Ok(Self {
            flows,
            _threads: threads,
        })
    }

    /// The server's address; `None` without a control connection.
    pub fn remote(&self) -> Option<&Address> {
        Some(&self.flows[0].control.as_ref()?.remote)
    }

    /// Returns the endpoints of the first flow.
    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.flows[0].endpoints
    }

    /// Returns each flow's settings, which can change between tests.
    pub fn settings_mut(&mut self) -> impl Iterator<Item = &mut Settings> {
        self.flows.iter_mut().map(|flow| &mut flow.settings)
    }

    /// Returns new counters, one set per flow.
    pub fn counters(&self) -> Vec<Arc<Counters>> {
        self.flows.iter().map(|_| Arc::default()).collect()
    }

    /// Runs the test once and sums the flows. The counters, one set per flow, can be read during
    /// the test.
    pub fn measure(&mut self, counters: &[Arc<Counters>]) -> Result<FinishedTest, ClientError> {
        self.measure_with_interim(counters, None)
    }

    /// Runs the test like [`Flows::measure`], with interim results.
    pub(crate) fn measure_with_interim(
        &mut self,
        counters: &[Arc<Counters>],
        interim: Option<&Interim>,
    ) -> Result<FinishedTest, ClientError> {
        // If linerate cannot look for other tests, it does not warn.
        let instances = Instances::register(INSTANCE_KIND);
        let mut run = self.run(counters, interim)?;
        let other_tests = instances.map_or(0, |mut instances| instances.count_others());
        if other_tests > 0 {
            run.outcome.warnings.push(Warning::HostShared {
                tests: other_tests as u32,
            });
        }
        Ok(run)
    }

    fn run(
        &mut self,
        counters: &[Arc<Counters>],
        interim: Option<&Interim>,
    ) -> Result<FinishedTest, ClientError> {
        let answers = AnswerMonitor::start(counters, self.flows[0].settings.unanswered_policy);
        let progress = |index: usize| Progress {
            counters: &counters[index],
            all_counters: if index == 0 { counters } else { &[] },
            interim,
            answer: &answers[index],
        };
        if let [flow] = &mut self.flows[..] {
            let (run, _) = flow.measure(progress(0), None)?;
            return Ok(run);
        }
        let local = &self.flows[0].settings.flow.local;
        let measure_cpu = local.measure_cpu;
        let group = FlowGroup::new(self.flows.len(), local.clone());
        let results: Vec<Result<_, ClientError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .flows
                .iter_mut()
                .enumerate()
                .map(|(index, flow)| flow.start(scope, progress(index), &group))
                .collect();
            threads.into_iter().map(join).collect()
        });
        let runs = collect_results(results)?;
        let mut sum = sum_flows(runs)?;
        // The plan of each flow had CPU measurement off, because the group measured CPU time.
        if let Some(flow) = sum.outcome.plan.flow_mut() {
            flow.local.measure_cpu = measure_cpu;
        }
        sum.outcome.local.cpu = group.cpu();
        let derived = sum.outcome.derive_warnings();
        for warning in derived {
            if !sum
                .outcome
                .warnings
                .iter()
                .any(|known| known.equals_except_figure(&warning))
            {
                sum.outcome.warnings.push(warning);
            }
        }
        Ok(sum)
    }

    /// Closes the control connections as the stock tool does.
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
    ) -> io::Result<ScopedJoinHandle<'scope, Result<(FinishedTest, Instant), ClientError>>> {
        let member = group.member();
        Builder::new()
            .name("flow".to_owned())
            .spawn_scoped(scope, move || self.measure(progress, Some(member)))
    }

    fn measure(
        &mut self,
        progress: Progress<'_>,
        member: Option<GroupMember<'_>>,
    ) -> Result<(FinishedTest, Instant), ClientError> {
        let stop = &self.stop;
        if self.needs_reconnect {
            let new_control = ServerConnection::connect(&self.settings.control, stop)?;
            if let Some(previous) = self.control.replace(new_control) {
                previous.close();
            }
        }
        let mut settings = self.settings.clone();
        settings.flow.local.measure_cpu &= member.is_none();
        let endpoints = self.endpoints.clone();
        let result = match &mut self.control {
            Some(control) => {
                measure::run_test(&settings, control, endpoints, stop, progress, member)
            }
            None => uncontrolled::run_test(&settings, endpoints, stop, progress, member),
        };
        let peer_received = |(run, _): &(FinishedTest, Instant)| {
            let remote = run.outcome.remote.as_ref().map(|remote| remote.counts);
            remote.is_some_and(|counts| counts.receive_calls.max(counts.receive_calls_late) > 0)
        };
        if result.as_ref().is_ok_and(peer_received) {
            progress.answer.record_answer();
        }
        let (run, started) = progress.answer.check_result(result, stop)?;
        if let EndCause::Failed(reason) = run.outcome.ended {
            return Err(ClientError::Failed(reason));
        }
        self.prepare_next(&run);
        Ok((run, started))
    }

    /// Prepares the next run of the test. As with the stock client, the next request contains the
    /// data port and the calibration value of the last response.
    fn prepare_next(&mut self, run: &FinishedTest) {
        let Some(control) = &self.control else {
            return;
        };
        let response = &run.peer.response;
        if response.cpu_rate > 0.0 {
            self.settings.cpu_rate.remote = response.cpu_rate;
        }

        let port = Some(response.data_port).filter(|port| *port != 0);
        if let Some(dest) = port.and_then(|port| self.endpoints.dest.with_port(port)) {
            self.endpoints.dest = dest;
        }
        // A stock server leaves the timer of TCP_SENDFILE running, and dies in a second test.
        let remote = run.outcome.remote.as_ref();
        let is_stock = remote.is_none_or(|remote| remote.program.is_none());
        let server_exits = self.settings.test == Test::TcpSendfile && is_stock;
        self.needs_reconnect = server_exits || control.has_pending_response;
    }
}

fn join<T>(
    thread: io::Result<ScopedJoinHandle<'_, Result<T, ClientError>>>,
) -> Result<T, ClientError> {
    match thread.map(ScopedJoinHandle::join) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(ClientError::Failed(
            "internal error: the thread of a flow ended unexpectedly".to_owned(),
        )),
        Err(error) => Err(ClientError::Failed(format!(
            "cannot start the thread of a flow: {}",
            sys::describe(&error)
        ))),
    }
}

/// Returns all results, or the error that caused the others.
fn collect_results<T>(results: Vec<Result<T, ClientError>>) -> Result<Vec<T>, ClientError> {
    let mut cause = None;
    let mut values = Vec::new();
    for result in results {
        match (result, &cause) {
            (Ok(result), _) => values.push(result),
            (Err(error), None | Some(ClientError::Abandoned)) => cause = Some(error),
            (Err(_), Some(_)) => {}
        }
    }
    cause.map_or(Ok(values), Err)
}

fn sum_flows(runs: Vec<(FinishedTest, Instant)>) -> Result<FinishedTest, ClientError> {
    let first_start = runs.iter().map(|(_, started)| *started).min();
    let Some((((run, _), other_runs), first_start)) = runs.split_first().zip(first_start) else {
        return Err(ClientError::Failed("no flow was run".to_owned()));
    };
    let (mut peer, endpoints) = (run.peer.clone(), run.endpoints.clone());
    for (run, _) in other_runs {
        peer.add_flow(&run.peer);
    }
    let outcomes = runs
        .into_iter()
        .map(|(run, started)| (run.outcome, started - first_start))
        .collect();
    let Some(outcome) = Outcome::sum(outcomes) else {
        return Err(ClientError::Failed("no flow was run".to_owned()));
    };
    Ok(FinishedTest {
        outcome,
        peer,
        endpoints,
        repetition_means: None,
    })
}
