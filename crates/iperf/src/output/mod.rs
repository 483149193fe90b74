//! Prints settings, connections, intervals and totals exactly as stock does.
//!
//! The modules only format the figures of events; they measure nothing.

mod banner;
mod connection;
mod csv;
mod line;
mod number;
mod sum;

use std::collections::HashSet;
use std::ffi::CStr;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use server::{ErrorLog, SharedLogLimit};

use crate::event::{FlowId, Observer, TestEvent};
use crate::options::Settings;
use crate::version::Layout;

/// Prints the events of a test.
pub struct Printer<'a> {
    settings: PrintSettings,
    error_limit: SharedLogLimit,
    state: Mutex<State<'a>>,
}

/// The settings that affect the printed text.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent setting"
)]
struct PrintSettings {
    output: crate::options::OutputSettings,
    is_udp: bool,
    is_server: bool,
    v6: bool,
    has_trip_times: bool,
    socket: model::SocketOptions,
    length: u32,
    serves_one_at_a_time: bool,
    key: Option<(String, Option<std::time::Duration>)>,
    bounceback: Option<crate::options::Bounceback>,
    send_mode: crate::options::SendMode,
    connects_only: bool,
    tos_override: Option<u8>,
    max_segment_bytes: Option<u32>,
    is_quiet: bool,
    load_flows: u32,
    load_congestion_control: Option<String>,
    pacing_steps: Option<crate::options::PacingSteps>,
    tx_delay: Option<std::time::Duration>,
    skips_receive_copy: bool,
}

impl PrintSettings {
    /// Formats a time in the local time zone, or in UTC (`--utc`).
    fn format_time(&self, format: &CStr, moment: SystemTime) -> String {
        if self.output.utc {
            sys::clock::utc_time(format, moment)
        } else {
            sys::clock::local_time(format, moment)
        }
    }

    /// Returns the layout of the printed version.
    fn layout(&self) -> &'static Layout {
        self.output.version.layout()
    }
}

struct State<'a> {
    out: Box<dyn Write + Send + 'a>,
    errors: Box<dyn Write + Send + 'a>,
    /// The headers printed since the current test began.
    headers: HashSet<String>,
    /// Whether a flow of the current test has ended. If so, the next connection starts a new
    /// test.
    flow_has_ended: bool,
    csv_interval_ends: csv::LastIntervalEnds,
}

/// The line above and below a settings block.
const RULE: &str = "------------------------------------------------------------";

impl<'a> Printer<'a> {
    /// Creates a printer of reports to `out` and of errors to `errors`.
    ///
    /// With `is_quiet`, it prints no reports. `key` is the server's permit key.
    pub fn new(
        settings: &Settings,
        key: Option<String>,
        is_quiet: bool,
        out: Box<dyn Write + Send + 'a>,
        errors: Box<dyn Write + Send + 'a>,
    ) -> Self {
        use crate::options::Role;
        let (bounceback, send_mode, serves_one_at_a_time, timeout) = match &settings.role {
            Role::Client(client) => (client.bounceback, client.send_mode.clone(), false, None),
            Role::Server(serve) => {
                let send_mode = crate::options::SendMode::default();
                (
                    None,
                    send_mode,
                    serve.config.serves_one_at_a_time,
                    serve.key_timeout,
                )
            }
        };
        let (connects_only, tos_override, has_trip_times) = match &settings.role {
            Role::Client(client) => (client.connect_only.is_some(), None, client.trip_times),
            Role::Server(serve) => (false, serve.tos_override, false),
        };
        let (load_flows, load_congestion_control, pacing_steps) = match &settings.role {
            Role::Client(client) => (
                client.load_flows.unwrap_or(0),
                client.load_congestion_control.clone(),
                client.pacing_steps,
            ),
            Role::Server(_) => (0, None, None),
        };
        let is_server = matches!(settings.role, Role::Server(_));
        Self {
            settings: PrintSettings {
                output: settings.output.clone(),
                is_udp: settings.is_udp(),
                is_server,
                v6: settings.v6,
                has_trip_times,
                socket: settings.socket.clone(),
                length: settings.length,
                serves_one_at_a_time,
                key: key.filter(|_| is_server).map(|key| (key, timeout)),
                bounceback,
                send_mode,
                connects_only,
                tos_override,
                max_segment_bytes: settings.socket.max_segment_bytes,
                is_quiet,
                load_flows,
                load_congestion_control,
                pacing_steps,
                tx_delay: settings.tx_delay,
                skips_receive_copy: settings.skips_receive_copy,
            },
            error_limit: SharedLogLimit::default(),
            state: Mutex::new(State {
                out,
                errors,
                headers: HashSet::new(),
                flow_has_ended: false,
                csv_interval_ends: csv::LastIntervalEnds::default(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Printer<'_> {
    fn observe(&self, event: &TestEvent<'_>) {
        let settings = &self.settings;
        let mut state = self.state();
        let error = match event {
            TestEvent::Error(line) => Some(line.clone()),
            TestEvent::StreamFailed(id, reason) => {
                let is_named =
                    reason.starts_with("recv failed") && settings.layout().names_failed_receivers;
                Some(if is_named {
                    format!("{} tcp {reason}", name(id))
                } else {
                    (*reason).to_owned()
                })
            }
            TestEvent::ConnectFailed {
                id,
                peer,
                reason,
                has_expired,
            } => {
                let line = connection::connect_failed(settings, id, peer, reason, *has_expired);
                Some(line)
            }
            _ => None,
        };
        if let Some(line) = error {
            // Clients must not fill a server's disk.
            let max_lines = if settings.is_server {
                ErrorLog::MAX_WARNINGS
            } else {
                u32::MAX
            };
            let Some(left_out) = self.error_limit.admit(max_lines) else {
                return;
            };
            let mut text = format!("{line}\n");
            if left_out > 0 {
                text.insert_str(0, &format!("{left_out} log lines left out\n"));
            }
            // One write keeps lines of several processes apart. A closed pipe is not a failure.
            let _ = state.errors.write_all(text.as_bytes());
            return;
        }
        if settings.is_quiet {
            return;
        }
        if let Some(line) = line::schedule_errors(settings, event) {
            let _ = state.errors.write_all(line.as_bytes());
        }
        let text = match event {
            _ if settings.output.csv => {
                let State {
                    headers,
                    csv_interval_ends,
                    ..
                } = &mut *state;
                let is_new = |header: &str| headers.insert(header.to_owned());
                csv::text(settings, event, csv_interval_ends, is_new)
            }
            TestEvent::Listening { .. } | TestEvent::Connecting { .. } => {
                banner::text(settings, event)
            }
            TestEvent::Connected(connection) => {
                if std::mem::take(&mut state.flow_has_ended) {
                    state.headers.clear();
                }
                connection::text(settings, connection)
            }
            TestEvent::StartTime { id, at, now } => connection::start_time(settings, id, *at, *now),
            TestEvent::Dropped(connection) => connection::dropped(settings, connection),
            TestEvent::DatagramsSent(id, count) => sent_line(settings, id, *count),
            TestEvent::ConnectTimes(times)
                if settings.output.enhanced
                    && (settings.connects_only || settings.layout().summarizes_connect_times) =>
            {
                connection::connect_times(times)
            }
            TestEvent::ConnectTimes(_) => String::new(),
            TestEvent::Message(line) => format!("{line}\n"),
            _ => {
                state.flow_has_ended |= matches!(event, TestEvent::Final(..));
                let headers = &mut state.headers;
                let is_new = |header: &'static str| headers.insert(header.to_owned());
                match event {
                    TestEvent::Sum { .. } if !settings.output.exclude.data => {
                        sum::text(settings, event, is_new)
                    }
                    _ => line::text(settings, event, is_new),
                }
            }
        };
        let _ = state.out.write_all(text.as_bytes());
        let _ = state.out.flush();
    }
}

fn sent_line(settings: &PrintSettings, id: &FlowId, count: u64) -> String {
    if settings.output.sum_only {
        return String::new();
    }
    let id = FlowId {
        is_starred: false,
        ..id.clone()
    };
    format!("{} Sent {count} datagrams\n", name(&id))
}

/// Formats a flow's identification: `[  1]`, `[ *1]`, `[abcd(1)]`, `[abcd(*1)]`.
fn name(id: &FlowId) -> String {
    let star = if id.is_starred { "*" } else { "" };
    match &id.key {
        None if id.number == 0 => "(null)".to_owned(),
        Some(key) => format!("[{key}({star}{})]", id.number),
        None => format!("[{:>3}]", format!("{star}{}", id.number)),
    }
}
