//! Prints settings, connections, intervals and totals exactly as stock does.
//!
//! The modules only format the figures of events; they measure nothing.

mod banner;
mod connection;
mod csv;
mod line;
mod number;

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use server::{ErrorLog, SharedLogLimit};

use crate::event::{FlowId, Observer, TestEvent};
use crate::options::Settings;

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
}

struct State<'a> {
    out: Box<dyn Write + Send + 'a>,
    errors: Box<dyn Write + Send + 'a>,
    /// The headers printed since the current test began.
    headers: HashSet<&'static str>,
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
        let (connects_only, tos_override) = match &settings.role {
            Role::Client(client) => (client.connect_only.is_some(), None),
            Role::Server(serve) => (false, serve.tos_override),
        };
        let is_server = matches!(settings.role, Role::Server(_));
        Self {
            settings: PrintSettings {
                output: settings.output.clone(),
                is_udp: settings.is_udp(),
                is_server,
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
        if let TestEvent::Error(line) = event {
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
        let text = match event {
            _ if settings.output.csv => csv::text(settings, event, &mut state.csv_interval_ends),
            TestEvent::Listening { .. } | TestEvent::Connecting { .. } => {
                banner::text(settings, event)
            }
            TestEvent::Connected(connection) => {
                if std::mem::take(&mut state.flow_has_ended) {
                    state.headers.clear();
                }
                connection::text(settings, connection)
            }
            TestEvent::StartTime { id, at, now } => connection::start_time(id, *at, *now),
            TestEvent::Dropped(connection) => connection::dropped(settings, connection),
            TestEvent::DatagramsSent(id, count) => sent_line(settings, id, *count),
            TestEvent::ConnectTimes(times) if settings.output.enhanced => {
                connection::connect_times(times)
            }
            TestEvent::ConnectTimes(_) => String::new(),
            TestEvent::Message(line) => format!("{line}\n"),
            _ => {
                state.flow_has_ended |= matches!(event, TestEvent::Final(..));
                let headers = &mut state.headers;
                line::text(settings, event, |header| headers.insert(header))
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

/// Formats a flow's identification: `[  1]`, `[ *1]`, `[abcd(1)]`.
fn name(id: &FlowId) -> String {
    match &id.key {
        None if id.number == 0 => "(null)".to_owned(),
        Some(key) => format!("[{key}({})]", id.number),
        None if id.is_starred => format!("[{:>3}]", format!("*{}", id.number)),
        None => format!("[{:>3}]", id.number),
    }
}
