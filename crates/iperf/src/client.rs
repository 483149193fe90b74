//! The client's run, and the functions that all kinds of tests use. `udp/client.rs` runs UDP flows.

mod addresses;
mod bounceback;
mod connect_only;
mod request;
mod results;
mod reverse_connection;
mod stream;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime};

use engine::{
    BudgetHolder, BufferMemory, DataSocket, ResourceAmounts, ResourceBudget, ResourceShare, Stop,
};
use model::{FlowPlan, Limit, Outcome, Series};
use sys::Address;

use crate::connection::FlowNumbers;
use crate::event::{ConnectionInfo, FlowId, Observer, TestEvent};
use crate::options::{ClientSettings, PermitKey, Role, Settings};
use crate::report_group::ReportGroup;
use crate::traffic::MAX_RING_BYTES;

/// The timeout for the server to finish a flow. In a longer test, the timeout is the test time.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time from the end of the client's flows until the server connects back (`-d`, `-r`).
pub(crate) const REVERSE_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A running client.
pub(crate) struct ClientRun<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) client: &'a ClientSettings,
    pub(crate) observer: &'a Arc<dyn Observer>,
    pub(crate) stop: &'a Stop,
    pub(crate) server_address: Address,
    pub(crate) flow_numbers: Arc<FlowNumbers>,
    pub(crate) reports: Arc<ReportGroup>,
    first_failure: OnceLock<String>,
    connect_times: Mutex<Vec<Option<Duration>>>,
    started: (Instant, SystemTime),
    /// The outcome of each flow, and its start relative to [`Self::started`].
    results: Mutex<Vec<(Outcome, Duration)>>,
    series: Mutex<Vec<Series>>,
    has_printed_banner: Mutex<bool>,
}

/// The result of a client's run.
pub struct ClientResult {
    /// The measured outcome; `None` if nothing was measured.
    pub outcome: Option<Outcome>,
    /// The first failure.
    pub error: Option<String>,
    /// The server's address, if resolved.
    pub peer: Option<Address>,
}

/// The threads of a flow: one that connects, and per direction one for the data and one that samples
/// it.
const THREADS_PER_FLOW: u64 = 5;

/// Runs a client's test to its end.
pub fn run(
    settings: &Settings,
    client: &ClientSettings,
    observer: &Arc<dyn Observer>,
    stop: &Stop,
) -> ClientResult {
    let ready = addresses::resolve_server(settings, client)
        .and_then(|address| Ok((address, reserve_threads(client)?)));
    let (server_address, _threads) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            observer.observe(&TestEvent::Error(error.clone()));
            return ClientResult {
                outcome: None,
                error: Some(error),
                peer: None,
            };
        }
    };
    let run = ClientRun {
        settings,
        client,
        observer,
        stop,
        server_address,
        flow_numbers: Arc::default(),
        reports: ReportGroup::new(Arc::clone(observer), settings.output.interval),
        first_failure: OnceLock::new(),
        connect_times: Mutex::default(),
        started: (Instant::now(), SystemTime::now()),
        results: Mutex::default(),
        series: Mutex::default(),
        has_printed_banner: Mutex::default(),
    };
    if let Some(connect_settings) = client.connect_only {
        connect_only::run(&run, connect_settings);
    } else {
        run.run_flows();
    }
    run.finish()
}

/// Reserves the threads of all flows, or returns the reason for the refusal.
fn reserve_threads(client: &ClientSettings) -> Result<ResourceShare, String> {
    let load_flows = match client.load.as_ref().map(|load| &load.role) {
        Some(Role::Client(load)) => load.plan.flows(),
        _ => 0,
    };
    let amounts = ResourceAmounts {
        threads: u64::from(client.plan.flows() + load_flows) * THREADS_PER_FLOW,
        ..ResourceAmounts::default()
    };
    let reserved = ResourceBudget::process().reserve(BudgetHolder::Local, amounts);
    reserved.map_err(|exceeded| exceeded.to_string())
}

impl ClientRun<'_> {
    pub(crate) fn fail(&self, reason: impl Into<String>) {
        let reason = reason.into();
        let _ = self.first_failure.set(reason.clone());
        self.observer.observe(&TestEvent::Error(reason));
    }

    /// Waits for the end of a thread. If it panicked, the test fails.
    pub(crate) fn join<T>(&self, thread: ScopedJoinHandle<'_, T>) -> Option<T> {
        thread
            .join()
            .inspect_err(|_| self.fail("internal error: a thread ended unexpectedly"))
            .ok()
    }

    /// Starts a thread. If the system refuses it, the test fails.
    pub(crate) fn spawn<'scope, T: Send + 'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        run: impl FnOnce() -> T + Send + 'scope,
    ) -> Option<ScopedJoinHandle<'scope, T>> {
        Builder::new()
            .spawn_scoped(scope, run)
            .inspect_err(|error| {
                self.fail(format!("cannot start a thread: {}", sys::describe(error)));
            })
            .ok()
    }

    pub(crate) fn flow_id(&self, number: u32, is_starred: bool) -> FlowId {
        let key = match &self.settings.permit_key {
            Some(PermitKey::Key(key)) => Some(key.clone()),
            _ => None,
        };
        FlowId {
            number,
            is_starred,
            key,
        }
    }

    /// Reports an established connection.
    pub(crate) fn report_connected(&self, connection: &ConnectionInfo) {
        self.observer.observe(&TestEvent::Connected(connection));
    }

    /// Reports the settings and the first socket's window. Later calls do nothing.
    pub(crate) fn report_connecting(&self, data: Option<&DataSocket>) {
        let mut was_printed = self
            .has_printed_banner
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *was_printed, true) {
            return;
        }
        self.observer.observe(&TestEvent::Connecting {
            host: &self.client.host,
            port: self.server_address.port() as u16,
            window: data.and_then(|data| data.facts.send_buffer_bytes),
            flows: self.client.plan.flows(),
            length: self.settings.length,
            rate: self.settings.rate,
            congestion_control: data.and_then(|data| engine::congestion_control(&data.socket)),
            is_client: true,
        });
    }

    /// Runs the flows of the test, and its load in parallel.
    fn run_flows(&self) {
        let load_settings = self.client.load.as_deref();
        let load_run = load_settings.and_then(|settings| match &settings.role {
            Role::Client(client) => Some(self.with_settings(settings, client)),
            Role::Server(_) => None,
        });
        let flows = self.client.plan.flows();
        std::thread::scope(|scope| {
            if let Some(load_run) = &load_run {
                self.spawn(scope, move || load_run.run_streams());
            }
            if self.client.bounceback.is_some() {
                for flow in 0..flows {
                    self.spawn(scope, move || bounceback::run(self, flow));
                }
            } else if self.settings.is_udp() {
                crate::udp::client::run(self);
            } else {
                self.run_streams();
            }
        });
        if let Some(reason) = load_run.and_then(|load_run| load_run.first_failure.into_inner()) {
            let _ = self.first_failure.set(reason);
        }
        if self.client.bounceback.is_some() && (flows > 1 || load_settings.is_some()) {
            self.report_connect_times();
        }
    }

    /// Returns a run with other settings whose flows join the report group of this run.
    fn with_settings<'b>(
        &'b self,
        settings: &'b Settings,
        client: &'b ClientSettings,
    ) -> ClientRun<'b> {
        ClientRun {
            settings,
            client,
            observer: self.observer,
            stop: self.stop,
            server_address: self.server_address.clone(),
            flow_numbers: Arc::clone(&self.flow_numbers),
            reports: if client.is_working_load {
                ReportGroup::new(Arc::clone(self.observer), settings.output.interval)
            } else {
                Arc::clone(&self.reports)
            },
            first_failure: OnceLock::new(),
            connect_times: Mutex::default(),
            started: self.started,
            results: Mutex::default(),
            series: Mutex::default(),
            has_printed_banner: Mutex::new(true),
        }
    }

    /// Waits until the deadline. Returns `false` if the test stops first.
    pub(crate) fn sleep_until(&self, deadline: Instant) -> bool {
        let _registration = self.stop.register_thread();
        while !self.stop.is_set() {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return true;
            }
            let until_ns = sys::clock::monotonic_ns().saturating_add(remaining.as_nanos() as u64);
            // The stop interrupts this call.
            let _ = sys::clock::sleep_until(until_ns);
        }
        false
    }

    /// Reports the start time of a flow's traffic (`--txstart-time`, `--txdelay-time`), and waits
    /// until then.
    pub(crate) fn wait_for_start_time(&self, number: u32) {
        let start_time = self.client.start_time;
        let delay = start_time.delay.unwrap_or_default();
        if start_time.at.is_none() && delay.is_zero() {
            return;
        }
        let now = SystemTime::now();
        let at = start_time.at.map_or(now, |at| SystemTime::UNIX_EPOCH + at) + delay;
        let id = self.flow_id(number, false);
        self.observer
            .observe(&TestEvent::StartTime { id: &id, at, now });
        if let Ok(remaining) = at.duration_since(now) {
            self.sleep_until(Instant::now() + remaining);
        }
    }

    /// Returns the plan of each direction of a connection, from the client's side.
    pub(crate) fn connection_plans(&self) -> Vec<FlowPlan> {
        let groups = &self.client.plan.groups;
        let groups_on_connection = if self.client.direction.has_connection_back() {
            1
        } else {
            groups.len()
        };
        groups
            .iter()
            .take(groups_on_connection)
            .filter_map(|group| group.flow().cloned())
            .collect()
    }

    /// Returns the memory limits of a flow's buffers.
    fn memory() -> BufferMemory {
        BufferMemory::new(MAX_RING_BYTES, 4 * MAX_RING_BYTES)
    }

    fn finish_timeout(&self) -> Duration {
        match self.client.plan.flow().map(|flow| flow.limit) {
            Some(Limit::Time(time)) => time.max(FINISH_TIMEOUT),
            _ => FINISH_TIMEOUT,
        }
    }
}
