//! The client: its run, and what all kinds of tests share. `udp/client.rs` runs datagrams.

mod addresses;
mod back;
mod bounce;
mod connect_only;
mod request;
mod results;
mod stream;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use engine::{DataSocket, Stop};
use model::{FlowPlan, Limit, Outcome, Series};
use sys::Address;

use crate::connection::Numbers;
use crate::event::{Connection, Event, FlowId, Observer};
use crate::options::{Client, PermitKey, Role, Settings};
use crate::report_group::ReportGroup;

/// The deadline of the server's end of a flow.
const PATIENCE: Duration = Duration::from_secs(10);

/// The deadline of the server's connection of `-d` and `-r`.
pub(crate) const BACK: Duration = Duration::from_secs(3);

/// A running client.
pub(crate) struct Run<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) client: &'a Client,
    pub(crate) observer: &'a Arc<dyn Observer>,
    pub(crate) stop: &'a Stop,
    pub(crate) to: Address,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) reports: Arc<ReportGroup>,
    failure: OnceLock<String>,
    connect_times: Mutex<Vec<Option<Duration>>>,
    started: (Instant, SystemTime),
    results: Mutex<Vec<(Outcome, Duration)>>,
    series: Mutex<Vec<Series>>,
    banner: Mutex<bool>,
}

/// The result of a client's run.
pub struct Finished {
    /// The figures; `None` if nothing was measured.
    pub outcome: Option<Outcome>,
    /// The first failure.
    pub error: Option<String>,
    /// The server's address, if it is known.
    pub peer: Option<Address>,
}

/// Runs a client's test to its end.
pub fn run(
    settings: &Settings,
    client: &Client,
    observer: &Arc<dyn Observer>,
    stop: &Stop,
) -> Finished {
    let to = match addresses::of_server(settings, client) {
        Ok(to) => to,
        Err(error) => {
            observer.see(&Event::Trouble(error.clone()));
            return Finished {
                outcome: None,
                error: Some(error),
                peer: None,
            };
        }
    };
    let run = Run {
        settings,
        client,
        observer,
        stop,
        to,
        numbers: Arc::default(),
        reports: ReportGroup::new(Arc::clone(observer), settings.print.interval),
        failure: OnceLock::new(),
        connect_times: Mutex::default(),
        started: (Instant::now(), SystemTime::now()),
        results: Mutex::default(),
        series: Mutex::default(),
        banner: Mutex::default(),
    };
    if let Some(only) = client.connect_only {
        connect_only::run(&run, only);
    } else if client.bounceback.is_some() {
        run.bounce();
    } else if settings.is_udp() {
        crate::udp::client::run(&run);
    } else {
        run.streams();
    }
    run.finish()
}

impl Run<'_> {
    pub(crate) fn fail(&self, why: impl Into<String>) {
        let why = why.into();
        let _ = self.failure.set(why.clone());
        self.observer.see(&Event::Trouble(why));
    }

    pub(crate) fn id(&self, number: u32, is_opposite: bool) -> FlowId {
        let key = match &self.settings.permit_key {
            Some(PermitKey::This(key)) => Some(key.clone()),
            _ => None,
        };
        FlowId {
            number,
            is_opposite,
            key,
        }
    }

    /// Reports a connection.
    pub(crate) fn see_connected(&self, connection: &Connection) {
        self.observer.see(&Event::Connected(connection));
    }

    /// Prints the settings block with the first socket's window, once.
    pub(crate) fn announce(&self, data: Option<&DataSocket>) {
        let mut was_printed = self.banner.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *was_printed, true) {
            return;
        }
        self.observer.see(&Event::Connecting {
            host: &self.client.host,
            port: self.to.port() as u16,
            window: data.and_then(|data| data.facts.send_buffer_bytes),
            flows: self.client.plan.flows(),
            length: self.settings.length,
            rate: self.settings.rate,
            is_own: true,
        });
    }

    /// Runs the flows of a bounceback test, and the load beside them.
    fn bounce(&self) {
        let load = self.client.load.as_deref();
        let load = load.and_then(|settings| match &settings.role {
            Role::Client(client) => Some(self.beside(settings, client)),
            Role::Server(_) => None,
        });
        let flows = self.client.plan.flows();
        std::thread::scope(|scope| {
            if let Some(load) = &load {
                scope.spawn(move || load.streams());
            }
            for flow in 0..flows {
                scope.spawn(move || bounce::run(self, flow));
            }
        });
        if let Some(why) = load.and_then(|load| load.failure.into_inner()) {
            let _ = self.failure.set(why);
        }
        if flows > 1 || self.client.load.is_some() {
            self.report_connect_times();
        }
    }

    /// Returns a client with other settings, whose flows are reported together with these.
    fn beside<'b>(&'b self, settings: &'b Settings, client: &'b Client) -> Run<'b> {
        Run {
            settings,
            client,
            observer: self.observer,
            stop: self.stop,
            to: self.to.clone(),
            numbers: Arc::clone(&self.numbers),
            reports: Arc::clone(&self.reports),
            failure: OnceLock::new(),
            connect_times: Mutex::default(),
            started: self.started,
            results: Mutex::default(),
            series: Mutex::default(),
            banner: Mutex::new(true),
        }
    }

    /// Waits until this time; returns `false` at the stop.
    pub(crate) fn sleep_until(&self, until: Instant) -> bool {
        let _attending = self.stop.attend();
        while !self.stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let until_ns = sys::clock::monotonic_ns().saturating_add(left.as_nanos() as u64);
            // The stop interrupts this call.
            let _ = sys::clock::sleep_until(until_ns);
        }
        false
    }

    /// Waits until a flow's traffic begins (`--txstart-time`, `--txdelay-time`), and reports that time.
    pub(crate) fn wait_to_begin(&self, number: u32) {
        let begin = self.client.begin;
        let delay = begin.delay.unwrap_or_default();
        if begin.at.is_none() && delay.is_zero() {
            return;
        }
        let now = SystemTime::now();
        let at = begin.at.map_or(now, |at| SystemTime::UNIX_EPOCH + at) + delay;
        let id = self.id(number, false);
        self.observer.see(&Event::Begins { id: &id, at, now });
        if let Ok(left) = at.duration_since(now) {
            self.sleep_until(Instant::now() + left);
        }
    }

    /// Returns this end's plan of each direction of a connection.
    pub(crate) fn plans(&self) -> Vec<FlowPlan> {
        let groups = &self.client.plan.groups;
        let on_connection = if self.client.direction.has_connection_back() {
            1
        } else {
            groups.len()
        };
        groups
            .iter()
            .take(on_connection)
            .filter_map(|group| group.flow().cloned())
            .collect()
    }

    fn patience(&self) -> Duration {
        match self.client.plan.flow().map(|flow| flow.limit) {
            Some(Limit::Time(time)) => time.max(PATIENCE),
            _ => PATIENCE,
        }
    }
}
