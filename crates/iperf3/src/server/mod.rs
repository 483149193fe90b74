//! A server: any number of tests at a time on one port.

mod lobby;
mod screen;
mod session;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{Budget, Promise, Reason, Stop};
use model::{SocketOptions, Transport};
use server::{
    DatagramDoor, Dialect, Server as Listening, ServerConfig, ServerContext, Service, listen,
};
use sys::Address;
use sys::resolve::{Wanted, resolve};

use crate::login::Guard;
use crate::options::{Common, Server};
use crate::wire::error::{self, Fault};
use crate::wire::{Cookie, State, is_greeting};
use lobby::Lobby;
use screen::Screen;

/// How long a connection may stay silent that is to say whose it is.
const INTRODUCTION: Duration = Duration::from_secs(10);

/// Bytes of all buffers.
const MEMORY: u64 = 1 << 30;

/// What sessions share.
struct Iperf3 {
    common: Common,
    settings: Server,
    lobby: Arc<Lobby>,
    /// A listener for SCTP associations has been opened, by the first such test.
    has_associations: Mutex<bool>,
    /// Where UDP streams come to, from the first such test on.
    door: Mutex<Option<Arc<DatagramDoor>>>,
    screen: Arc<Screen>,
    guard: Option<Guard>,
    service: Service,
    /// The end of one that waits for its one test.
    idle: Mutex<Option<Promise<'static>>>,
    /// What the streams of all tests have together.
    memory: Budget,
    /// Tests that were admitted, from their cookies on.
    admitted: AtomicU32,
}

/// Listens, and serves until `stop` if `begin` says so, which is called before a thread is started; errors are one line.
pub fn run(
    common: &Common,
    settings: &Server,
    stop: &Stop,
    out: Box<dyn io::Write + Send>,
    begin: &dyn Fn() -> Result<bool, String>,
) -> Result<(), String> {
    let guard = Guard::of(settings)?;
    let listeners = listeners(common).map_err(|error| {
        format!(
            "unable to start listener for connections: {}",
            sys::describe(&error)
        )
    })?;
    if !begin()? {
        return Ok(());
    }
    let screen = Arc::new(Screen::new(common, out));
    screen.waits();
    let service = Service::new(config(settings), stop.follower());
    let dialect = Iperf3::new(common, settings, guard, screen, &service);
    dialect.await_test();
    Listening::of(dialect, &service).run(listeners);
    Ok(())
}

/// The server of iperf3's clients among those of a service. Errors are one line.
pub fn among(
    service: &Service,
    common: &Common,
    settings: &Server,
    errors: Box<dyn io::Write + Send>,
) -> Result<Arc<Listening<impl Dialect + use<>>>, String> {
    let guard = Guard::of(settings)?;
    let screen = Arc::new(Screen::of_errors(common, errors));
    let dialect = Iperf3::new(common, settings, guard, screen, service);
    Ok(Listening::of(dialect, service))
}

fn config(settings: &Server) -> ServerConfig {
    ServerConfig {
        networks: settings.networks.clone(),
        // Each stream begins as a client of its own.
        clients: 4096,
        ..ServerConfig::default()
    }
}

/// The sockets to listen at. One of Multipath TCP gives plain TCP to clients that ask for that.
fn listeners(common: &Common) -> io::Result<Vec<sys::Socket>> {
    listeners_of(common, Transport::Mptcp).or_else(|_| listeners_of(common, Transport::Tcp))
}

/// `-B`, or every address.
fn listeners_of(common: &Common, transport: Transport) -> io::Result<Vec<sys::Socket>> {
    let [v6, v4] = Address::wildcards(common.port);
    let unresolved = |error: sys::resolve::Unresolved| io::Error::other(error.to_string());
    let listeners = match (&common.bind, common.family) {
        (Some(host), family) => {
            let mut addresses = resolve(host, family).map_err(unresolved)?.at(common.port);
            addresses.truncate(1);
            listen(transport, &addresses, true)
        }
        (None, Wanted::V4) => listen(transport, &[v4], false),
        (None, Wanted::V6) => listen(transport, &[v6], true),
        // IPv4 too; a host without IPv6 has that alone.
        (None, Wanted::Any) => {
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

/// Where UDP streams come to: as [`listeners`].
fn datagram_addresses(common: &Common) -> Vec<Address> {
    let [v6, v4] = Address::wildcards(common.port);
    match (&common.bind, common.family) {
        (Some(host), family) => {
            let resolved = resolve(host, family);
            resolved.map_or_else(|_| Vec::new(), |resolved| resolved.at(common.port))
        }
        (None, Wanted::V4) => vec![v4],
        (None, Wanted::V6) => vec![v6],
        (None, Wanted::Any) => vec![v6, v4],
    }
}

impl Dialect for Iperf3 {
    const NAME: &'static str = "iperf3";

    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()> {
        let mut cookie = Cookie([0; Cookie::LEN]);
        control.fill(&mut cookie.0, Instant::now() + INTRODUCTION)?;
        if self.lobby.deliver(&cookie, control, server.before)? {
            return Ok(());
        }
        if server.stop.is_set() || !self.admit() {
            let _ = control.write(&[State::AccessDenied.byte()], INTRODUCTION);
            return Ok(());
        }
        drop(self.idle().take());
        let was_test = session::serve(self, control, cookie, server);
        if !was_test {
            self.await_test();
        } else if self.settings.one_off {
            self.stop().pull(Reason::Cancelled);
        }
        self.admitted.fetch_sub(1, SeqCst);
        Ok(())
    }

    fn tell(&self, control: &ControlConnection, _: &str) {
        deny(control);
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.screen.warn(&line.to_string());
    }
}

/// The server of SCTP associations, each of which belongs to a session.
struct Associations {
    lobby: Arc<Lobby>,
    screen: Arc<Screen>,
}

impl Dialect for Associations {
    const NAME: &'static str = "iperf3";

    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()> {
        let mut cookie = Cookie([0; Cookie::LEN]);
        control.fill(&mut cookie.0, Instant::now() + INTRODUCTION)?;
        if !self.lobby.deliver(&cookie, control, server.before)? {
            self.tell(control, "");
        }
        Ok(())
    }

    fn tell(&self, control: &ControlConnection, _: &str) {
        deny(control);
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.screen.warn(&line.to_string());
    }
}

fn deny(control: &ControlConnection) {
    let _ = control.write(&[State::AccessDenied.byte()], Duration::ZERO);
}

impl Iperf3 {
    fn new(
        common: &Common,
        settings: &Server,
        guard: Option<Guard>,
        screen: Arc<Screen>,
        service: &Service,
    ) -> Self {
        Self {
            common: common.clone(),
            settings: settings.clone(),
            lobby: Arc::default(),
            has_associations: Mutex::default(),
            door: Mutex::default(),
            screen,
            guard,
            service: service.clone(),
            idle: Mutex::default(),
            memory: Budget::new(MEMORY),
            admitted: AtomicU32::new(0),
        }
    }

    fn stop(&self) -> &Stop {
        self.service.stop()
    }

    /// Listens for SCTP associations from the first test on that has some.
    fn listen_for_associations(&self) -> Result<(), Fault> {
        let fault = |error| Fault::io(error::STREAM_LISTEN, &error);
        let mut is_open = (self.has_associations.lock()).unwrap_or_else(PoisonError::into_inner);
        if *is_open {
            return Ok(());
        }
        let listeners = listeners_of(&self.common, Transport::Sctp).map_err(fault)?;
        let dialect = Associations {
            lobby: Arc::clone(&self.lobby),
            screen: Arc::clone(&self.screen),
        };
        let server = Listening::of(dialect, &self.service);
        let thread = std::thread::Builder::new().name("sctp".to_owned());
        thread.spawn(move || server.run(listeners)).map_err(fault)?;
        *is_open = true;
        Ok(())
    }

    /// With `-1`, ends the server if no test comes within `--idle-timeout`.
    fn await_test(&self) {
        let time = self.settings.idle_timeout.filter(|_| self.settings.one_off);
        let end = |time| engine::deadline_thread().at(Instant::now() + time, self.stop());
        *self.idle() = time.map(end);
    }

    fn idle(&self) -> MutexGuard<'_, Option<Promise<'static>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the socket of UDP streams at the first test that has some.
    fn door(&self) -> Result<Arc<DatagramDoor>, Fault> {
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(door) = &*door {
            return Ok(Arc::clone(door));
        }
        let mut fault = Fault::of(error::LISTEN);
        for address in datagram_addresses(&self.common) {
            match DatagramDoor::open(&address, &SocketOptions::default()) {
                Ok(opened) => {
                    let opened = opened.beginning_with(is_greeting);
                    return Ok(Arc::clone(door.insert(Arc::new(opened))));
                }
                Err(error) => fault = Fault::io(error::LISTEN, error.error()),
            }
        }
        Err(fault)
    }

    /// Whether a further test may begin, which then counts. One that just ends may still count for a moment.
    fn admit(&self) -> bool {
        const MOMENT: Duration = Duration::from_millis(200);
        let until = Instant::now() + MOMENT;
        let most = if self.settings.one_off {
            1
        } else {
            self.settings.tests
        };
        let one_more = |tests: u32| (tests < most).then_some(tests + 1);
        let counts = || self.admitted.fetch_update(SeqCst, SeqCst, one_more).is_ok();
        while !counts() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(MOMENT / 20);
        }
        true
    }
}
