//! What stock prints, to the character: settings, connections, intervals, totals. It only reads figures.

mod banner;
mod connection;
mod csv;
mod line;
mod number;

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::event::{Event, FlowId, Observer};
use crate::options::Settings;

/// Prints what happens.
pub struct Printer<'a> {
    settings: Facts,
    state: Mutex<State<'a>>,
}

/// What of the settings the texts depend on.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
struct Facts {
    print: crate::options::Print,
    is_udp: bool,
    is_server: bool,
    socket: model::SocketOptions,
    length: u32,
    serial: bool,
    key: Option<(String, Option<std::time::Duration>)>,
    bounce: Option<crate::options::Bounceback>,
    shape: crate::options::Shape,
    connects_only: bool,
    service_of_senders: Option<u8>,
    segment: Option<u32>,
    is_quiet: bool,
}

struct State<'a> {
    out: Box<dyn Write + Send + 'a>,
    errors: Box<dyn Write + Send + 'a>,
    /// Headers that were printed since the last test began.
    headers: HashSet<&'static str>,
    /// A flow has ended since.
    has_ended: bool,
    csv: csv::Stamps,
}

/// What frames a settings block.
const RULE: &str = "------------------------------------------------------------";

impl<'a> Printer<'a> {
    /// A printer of reports to `out` and of trouble to `errors`. `is_quiet` leaves out all reports.
    pub fn new(
        settings: &Settings,
        key: Option<String>,
        is_quiet: bool,
        out: Box<dyn Write + Send + 'a>,
        errors: Box<dyn Write + Send + 'a>,
    ) -> Self {
        use crate::options::Role;
        let (bounce, shape, serial, timeout) = match &settings.role {
            Role::Client(client) => (client.bounceback, client.shape.clone(), false, None),
            Role::Server(serve) => {
                let shape = crate::options::Shape::default();
                (None, shape, serve.config.serial, serve.key_timeout)
            }
        };
        let (connects_only, service_of_senders) = match &settings.role {
            Role::Client(client) => (client.connect_only.is_some(), None),
            Role::Server(serve) => (false, serve.service_of_senders),
        };
        let is_server = matches!(settings.role, Role::Server(_));
        Self {
            settings: Facts {
                print: settings.print.clone(),
                is_udp: settings.is_udp(),
                is_server,
                socket: settings.socket.clone(),
                length: settings.length,
                serial,
                key: key.filter(|_| is_server).map(|key| (key, timeout)),
                bounce,
                shape,
                connects_only,
                service_of_senders,
                segment: settings.socket.max_segment_bytes,
                is_quiet,
            },
            state: Mutex::new(State {
                out,
                errors,
                headers: HashSet::new(),
                has_ended: false,
                csv: csv::Stamps::default(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Printer<'_> {
    fn see(&self, event: &Event<'_>) {
        let facts = &self.settings;
        let mut state = self.state();
        if let Event::Trouble(line) = event {
            // A reader that has had enough is no failure.
            let _ = writeln!(state.errors, "{line}");
            return;
        }
        if facts.is_quiet {
            return;
        }
        let text = match event {
            _ if facts.print.csv => csv::text(facts, event, &mut state.csv),
            Event::Listening { .. } | Event::Connecting { .. } => banner::text(facts, event),
            Event::Connected(connection) => {
                if std::mem::take(&mut state.has_ended) {
                    state.headers.clear();
                }
                connection::text(facts, connection)
            }
            Event::Begins { id, at, now } => connection::begins(id, *at, *now),
            Event::Dropped(connection) => connection::dropped(facts, connection),
            Event::Sent(id, count) => sent(facts, id, *count),
            Event::ConnectTimes(times) if facts.print.enhanced => connection::times(times),
            Event::ConnectTimes(_) => String::new(),
            Event::Said(line) => format!("{line}\n"),
            _ => {
                state.has_ended |= matches!(event, Event::Final(..));
                let headers = &mut state.headers;
                line::text(facts, event, |header| headers.insert(header))
            }
        };
        let _ = state.out.write_all(text.as_bytes());
        let _ = state.out.flush();
    }
}

fn sent(facts: &Facts, id: &FlowId, count: u64) -> String {
    if facts.print.sum_only {
        return String::new();
    }
    let id = FlowId {
        is_opposite: false,
        ..id.clone()
    };
    format!("{} Sent {count} datagrams\n", name(&id))
}

/// `[  1]`, `[ *1]`, `[abcd(1)]`.
fn name(id: &FlowId) -> String {
    match &id.key {
        None if id.number == 0 => "(null)".to_owned(),
        Some(key) => format!("[{key}({})]", id.number),
        None if id.is_opposite => format!("[{:>3}]", format!("*{}", id.number)),
        None => format!("[{:>3}]", id.number),
    }
}
