//! The server: runs several tests at a time on one port.

mod console;
mod pending_sessions;
mod session;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{
    BudgetHolder, BudgetShare, DeadlineGuard, ResourceBudget, SharedBudget, Stop, StopReason,
};
use model::{SocketOptions, Transport};
use server::{DatagramAcceptor, Dialect, Server, ServerConfig, ServerContext, Service, listen};
use sys::Address;
use sys::resolve::{AddressFamily, resolve};

use crate::login::LoginVerifier;
use crate::options::{CommonSettings, ServerSettings};
use crate::print::{OutputTarget, Printer};
use crate::wire::error::{self, Fault};
use crate::wire::{ControlState, Cookie, greeting_cookie, is_greeting};
use console::ServerConsole;
use pending_sessions::PendingSessions;
use session::NewConnection;

/// The timeout for the cookie and the parameters of a new connection.
const PARAMETERS_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of connections of one address that have not sent valid parameters, nor the
/// cookie of a test.
const MAX_NEW_CONNECTIONS: u64 = 512;

/// The maximum bytes of the buffers of all tests.
const MAX_BUFFER_BYTES: u64 = 1 << 30;

/// The state that all sessions share.
struct Iperf3Dialect {
    common: CommonSettings,
    settings: ServerSettings,
    pending: Arc<PendingSessions>,
    /// Whether the listener for SCTP associations is open; the first SCTP test opens it.
    has_sctp_listener: Mutex<bool>,
    /// Accepts UDP streams; the first UDP test opens it.
    udp_acceptor: Mutex<Option<Arc<DatagramAcceptor>>>,
    console: Arc<ServerConsole>,
    login_verifier: Option<LoginVerifier>,
    service: Service,
    /// With `-1`, ends the server if no test starts in time.
    idle_deadline: Mutex<Option<DeadlineGuard<'static>>>,
    /// The memory budget of the streams of all tests.
    memory: SharedBudget,
    /// The budget of the tests with valid parameters.
    tests: SharedBudget,
    /// The budget of the connections without valid parameters.
    new_connections: SharedBudget,
}

/// Listens, and serves until `stop` is set.
///
/// Calls `before_start` before any thread starts; returns early if that returns `false`. An error
/// is one line of text.
pub fn run(
    common: &CommonSettings,
    settings: &ServerSettings,
    stop: &Stop,
    out: Box<dyn io::Write + Send>,
    before_start: &dyn Fn() -> Result<bool, String>,
) -> Result<(), String> {
    let login_verifier = LoginVerifier::from_settings(settings)?;
    let listeners = open_listeners(common).map_err(|error| {
        format!(
            "unable to start listener for connections: {}",
            sys::describe(&error)
        )
    })?;
    if !before_start()? {
        return Ok(());
    }
    let console = Arc::new(ServerConsole::new(common, out));
    console.print_start();
    let service = Service::new(server_config(settings), stop.child());
    let dialect = Iperf3Dialect::new(
        common,
        settings,
        login_verifier,
        Arc::clone(&console),
        &service,
    );
    dialect.arm_idle_deadline();
    Server::with_service(dialect, &service).run(listeners);
    if sys::signal::last_signal().is_some() && !console.has_reported_interrupt() {
        report_interrupt(common, &console);
    }
    Ok(())
}

/// Prints that a signal ended a server without a test.
fn report_interrupt(common: &CommonSettings, console: &ServerConsole) {
    let fault = Fault::from_code(error::SERVER_TERMINATED);
    let text = fault.interrupt_text(common.version);
    if common.prints_json() {
        let mut output = console.begin_test();
        let target = OutputTarget::ServerConsole(&mut output);
        Printer::new(common, target, false).print_failure(&text, 0);
        output.end(false);
    } else {
        console.warn(&text);
    }
}

/// Creates a server for iperf3 clients within a service of several dialects.
///
/// An error is one line of text.
pub fn server_for_service(
    service: &Service,
    common: &CommonSettings,
    settings: &ServerSettings,
    errors: Box<dyn io::Write + Send>,
) -> Result<Arc<Server<impl Dialect + use<>>>, String> {
    let login_verifier = LoginVerifier::from_settings(settings)?;
    let console = Arc::new(ServerConsole::for_errors_only(common, errors));
    let dialect = Iperf3Dialect::new(common, settings, login_verifier, console, service);
    // The process may lose the privilege to bind the port. If this fails, the first test retries it.
    let _ = dialect.udp_acceptor();
    if sys::facts::has_protocol("SCTP") {
        let _ = dialect.listen_for_sctp();
    }
    Ok(Server::with_service(dialect, service))
}

fn server_config(settings: &ServerSettings) -> ServerConfig {
    ServerConfig {
        networks: settings.allowed_networks.clone(),
        third_parties: settings.third_parties.clone(),
        // Each stream counts as a client until its cookie has arrived.
        max_clients: 4096,
        ..ServerConfig::default()
    }
}

/// Opens the listening sockets, for Multipath TCP if possible; these accept plain TCP as well.
fn open_listeners(common: &CommonSettings) -> io::Result<Vec<sys::Socket>> {
    open_listeners_for(common, Transport::Mptcp)
        .or_else(|_| open_listeners_for(common, Transport::Tcp))
}

/// Opens listening sockets at the address of `-B`, or at every address.
fn open_listeners_for(
    common: &CommonSettings,
    transport: Transport,
) -> io::Result<Vec<sys::Socket>> {
    let [v6, v4] = Address::wildcards(common.port);
    let unresolved = |error: sys::resolve::ResolveError| io::Error::other(error.to_string());
    let listeners = match (&common.bind, common.family) {
        (Some(host), family) => {
            let mut addresses = resolve(host, family)
                .map_err(unresolved)?
                .with_port(common.port);
            addresses.truncate(1);
            listen(transport, &addresses, true)
        }
        (None, AddressFamily::V4) => listen(transport, &[v4], false),
        (None, AddressFamily::V6) => listen(transport, &[v6], true),
        // Dual-stack; a host without IPv6 gets IPv4 only.
        (None, AddressFamily::Any) => {
            listen(transport, &[v6], false).or_else(|_| listen(transport, &[v4], false))
        }
    }?;
    if let Some(device) = &common.device {
        for listener in &listeners {
            listener.bind_device(Some(device.as_bytes()))?;
        }
    }
    Ok(listeners)
}

/// Returns the addresses for UDP streams, by the rules of [`open_listeners_for`].
fn datagram_addresses(common: &CommonSettings) -> Vec<Address> {
    let [v6, v4] = Address::wildcards(common.port);
    match (&common.bind, common.family) {
        (Some(host), family) => {
            let resolved = resolve(host, family);
            resolved.map_or_else(|_| Vec::new(), |resolved| resolved.with_port(common.port))
        }
        (None, AddressFamily::V4) => vec![v4],
        (None, AddressFamily::V6) => vec![v6],
        (None, AddressFamily::Any) => vec![v6, v4],
    }
}

impl Dialect for Iperf3Dialect {
    const NAME: &'static str = "iperf3";

    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()> {
        let deadline = Instant::now() + PARAMETERS_TIMEOUT;
        let holder = BudgetHolder::for_address(control.peer());
        let share = self.new_connections.reserve(holder, 1).map_err(|_| {
            let reason = "its address has too many connections without parameters";
            io::Error::other(reason)
        })?;
        let mut cookie = Cookie([0; Cookie::LEN]);
        if let Err(error) = control.read_exact(&mut cookie.0, deadline) {
            return self.refuse_cookie(control, error);
        }
        if self
            .pending
            .deliver_stream(&cookie, control, server.client_number)?
        {
            return Ok(());
        }
        // As in stock, a busy server does not ask for the parameters.
        if server.stop.is_set() || self.reserve_test(control.peer()).is_none() {
            send_access_denied(control);
            return Ok(());
        }
        let connection = NewConnection { deadline, share };
        let had_test = session::serve(self, control, cookie, server, connection);
        if had_test && self.settings.one_off {
            self.stop().set(StopReason::Cancelled);
        }
        Ok(())
    }

    fn send_refusal(&self, control: &ControlConnection, _: &str) {
        send_access_denied(control);
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.console.warn(&line.to_string());
    }
}

/// Accepts SCTP associations, and passes each to the session with its cookie.
struct SctpDialect {
    pending: Arc<PendingSessions>,
    console: Arc<ServerConsole>,
}

impl Dialect for SctpDialect {
    const NAME: &'static str = "iperf3";

    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()> {
        let mut cookie = Cookie([0; Cookie::LEN]);
        control.read_exact(&mut cookie.0, Instant::now() + PARAMETERS_TIMEOUT)?;
        if !self
            .pending
            .deliver_stream(&cookie, control, server.client_number)?
        {
            self.send_refusal(control, "");
        }
        Ok(())
    }

    fn send_refusal(&self, control: &ControlConnection, _: &str) {
        send_access_denied(control);
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.console.warn(&line.to_string());
    }
}

fn send_access_denied(control: &ControlConnection) {
    let _ = control.write(&[ControlState::AccessDenied.byte()], Duration::ZERO);
}

impl Iperf3Dialect {
    fn new(
        common: &CommonSettings,
        settings: &ServerSettings,
        login_verifier: Option<LoginVerifier>,
        console: Arc<ServerConsole>,
        service: &Service,
    ) -> Self {
        Self {
            common: common.clone(),
            settings: settings.clone(),
            pending: Arc::default(),
            has_sctp_listener: Mutex::default(),
            udp_acceptor: Mutex::default(),
            console,
            login_verifier,
            service: service.clone(),
            idle_deadline: Mutex::default(),
            memory: SharedBudget::within(&ResourceBudget::process().memory, MAX_BUFFER_BYTES),
            tests: SharedBudget::new(if settings.one_off {
                1
            } else {
                settings.max_tests.into()
            }),
            new_connections: SharedBudget::with_bounds(u64::MAX, MAX_NEW_CONNECTIONS),
        }
    }

    /// Answers an incomplete cookie as the selected version does.
    fn refuse_cookie(&self, control: &ControlConnection, error: io::Error) -> io::Result<()> {
        if !self.common.version.layout().answers_bad_cookies {
            return Err(error);
        }
        let _ = control.write(&Fault::from_code(error::COOKIE).message(), Duration::ZERO);
        self.log(format_args!(
            "{}: {}",
            control.peer(),
            control::describe_error(&error)
        ));
        Ok(())
    }

    fn stop(&self) -> &Stop {
        self.service.stop()
    }

    /// Opens the listener for SCTP associations at the first SCTP test.
    fn listen_for_sctp(&self) -> Result<(), Fault> {
        let fault = |error| Fault::io(error::STREAM_LISTEN, &error);
        let mut is_open = (self.has_sctp_listener.lock()).unwrap_or_else(PoisonError::into_inner);
        if *is_open {
            return Ok(());
        }
        let listeners = open_listeners_for(&self.common, Transport::Sctp).map_err(fault)?;
        let dialect = SctpDialect {
            pending: Arc::clone(&self.pending),
            console: Arc::clone(&self.console),
        };
        let server = Server::with_service(dialect, &self.service);
        let thread = std::thread::Builder::new().name("sctp".to_owned());
        thread.spawn(move || server.run(listeners)).map_err(fault)?;
        *is_open = true;
        Ok(())
    }

    /// With `-1`, ends the server if no test starts within `--idle-timeout`.
    fn arm_idle_deadline(&self) {
        let time = self.settings.idle_timeout.filter(|_| self.settings.one_off);
        let end = |time| engine::deadline_thread().set_at(Instant::now() + time, self.stop());
        *self.idle_deadline() = time.map(end);
    }

    fn idle_deadline(&self) -> MutexGuard<'_, Option<DeadlineGuard<'static>>> {
        self.idle_deadline
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the acceptor of UDP streams; opens it at the first UDP test.
    fn udp_acceptor(&self) -> Result<Arc<DatagramAcceptor>, Fault> {
        let mut acceptor = self
            .udp_acceptor
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*acceptor {
            return Ok(Arc::clone(open));
        }
        let mut fault = Fault::from_code(error::LISTEN);
        for address in datagram_addresses(&self.common) {
            match DatagramAcceptor::open(&address, &SocketOptions::default()) {
                Ok(opened) => {
                    let third_parties = self.service.config().third_parties.clone();
                    let opened = (opened.with_first_datagram_check(is_greeting))
                        .with_tokens(greeting_cookie)
                        .with_large_buffer()
                        .with_third_parties(third_parties);
                    return Ok(Arc::clone(acceptor.insert(Arc::new(opened))));
                }
                Err(error) => fault = Fault::io(error::LISTEN, error.error()),
            }
        }
        Err(fault)
    }

    /// Admits a test with valid parameters, if the limits of all tests and of its address allow it.
    fn admit_test(&self, peer: &Address) -> Option<BudgetShare> {
        let share = self.reserve_test(peer)?;
        drop(self.idle_deadline().take());
        Some(share)
    }

    /// Counts a test within the limits, as long as the returned share exists.
    ///
    /// Waits up to 200 ms, because a test that is just ending may still be counted.
    fn reserve_test(&self, peer: &Address) -> Option<BudgetShare> {
        const MAX_WAIT: Duration = Duration::from_millis(200);
        let until = Instant::now() + MAX_WAIT;
        loop {
            if let Ok(share) = self.tests.reserve(BudgetHolder::for_address(peer), 1) {
                return Some(share);
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(MAX_WAIT / 20);
        }
    }
}
