//! The server of TCP tests. `udp/server.rs` serves UDP tests.

mod bounceback;
mod connect_back;
mod requested;
mod stream_test;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant, SystemTime};

use control::ControlConnection;
use engine::{
    BudgetHolder, BufferMemory, DataSocket, DeadlineGuard, ResourceBudget, SharedBudget, Stop,
    deadline_thread,
};
use model::{SocketOptions, Transport};
use server::{Dialect, RunningTest, Server, ServerContext, Service, listen};

pub use crate::udp::server::serve_datagrams;
pub(crate) use connect_back::connect_back;
use requested::requested_bursts;
pub(crate) use requested::{SenderOptions, describe_test, udp_send_mode};
use stream_test::StreamTest;
use sys::{Address, Socket};

use crate::connection::{self, FlowNumbers};
use crate::event::{ConnectionInfo, FlowId, Observer, TestEvent};
use crate::options::{PeriodicBursts, PermitKey, Role, ServerSettings, Settings};
use crate::report_group::ReportGroups;
use crate::traffic;
use crate::wire::flags::{self, upper};
use crate::wire::{Acknowledgement, BounceMessage, Hello, HelloTransport, WallTime, version_name};

/// The maximum time until the test header of a stream arrives.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum memory of the buffers of all clients.
const MAX_MEMORY_BYTES: u64 = 1 << 30;

/// The maximum time until a client acknowledges or reads sent data (`TCP_USER_TIMEOUT`).
const ACKNOWLEDGEMENT_TIMEOUT_MS: u32 = 60_000;

/// The maximum time from now to a test start that a client schedules.
const MAX_START_DELAY: Duration = Duration::from_secs(3610);

/// A callback that runs after the server starts to listen and before it starts a thread.
///
/// Returns whether to serve.
pub type OnListening<'a> = dyn Fn() -> Result<bool, String> + 'a;

/// Runs a server until `stop`. An error is a line for standard error.
pub fn run(
    settings: &Arc<Settings>,
    server_settings: &ServerSettings,
    observer: &Arc<dyn Observer>,
    stop: &Stop,
    on_listening: &OnListening<'_>,
) -> Result<(), String> {
    if settings.is_udp() {
        return crate::udp::server::run(settings, server_settings, observer, stop, on_listening);
    }
    let addresses = listen_addresses(settings)?;
    let mut listeners = Vec::new();
    for address in &addresses {
        let listener = listen(Transport::Tcp, std::slice::from_ref(address), false);
        listeners.extend(
            listener.map_err(|error| format!("listener bind failed: {}", sys::describe(&error)))?,
        );
    }
    for listener in &listeners {
        if let Some(bytes) = settings.socket.receive_buffer_bytes {
            let _ = listener.set_recv_buffer_size(bytes as usize);
        }
        if let Some(bytes) = settings.socket.send_buffer_bytes {
            let _ = listener.set_send_buffer_size(bytes as usize);
        }
    }
    if !on_listening()? {
        return Ok(());
    }
    report_listening(observer, &listeners);
    let mut dialect = IperfDialect::new(settings, observer);
    let key_timeout = dialect
        .permit_key
        .is_some()
        .then_some(server_settings.key_timeout)
        .flatten();
    let key_deadline =
        key_timeout.map(|timeout| deadline_thread().set_at(Instant::now() + timeout, stop));
    dialect.key_deadline = Mutex::new(key_deadline);
    dialect.sender_options.tos_override = server_settings.tos_override;
    let _time_limit = stop_after(server_settings.time, stop);
    Server::new(dialect, server_settings.config.clone(), stop.clone()).run(listeners);
    Ok(())
}

/// Returns the server of TCP tests as part of a service with several servers.
pub fn server_for_service(
    service: &Service,
    settings: &Arc<Settings>,
    observer: &Arc<dyn Observer>,
) -> Arc<Server<impl Dialect + use<>>> {
    Server::with_service(IperfDialect::new(settings, observer), service)
}

/// Returns the addresses to listen on, one per port.
pub(crate) fn listen_addresses(settings: &Settings) -> Result<Vec<Address>, String> {
    let (first, last) = settings.ports;
    let [v6, v4] = Address::wildcards(first);
    let address = match &settings.bind {
        None if settings.v6 => v6,
        None => v4,
        Some(bind) => {
            let (host, _) = bind.split_once('%').unwrap_or((bind, ""));
            let resolved = sys::resolve::resolve(host, sys::resolve::AddressFamily::Any);
            let resolved = resolved.map_err(|_| format!("-B {host}: Unknown host"))?;
            let address = resolved.addresses.into_iter().next();
            address.ok_or_else(|| format!("-B {host}: Unknown host"))?
        }
    };
    Ok((first..=last)
        .filter_map(|port| address.with_port(port.into()))
        .collect())
}

fn report_listening(observer: &Arc<dyn Observer>, listeners: &[Socket]) {
    let port = |listener| Address::local(listener).map_or(0, |address| address.port()) as u16;
    if let ([first, ..], [.., last]) = (listeners, listeners) {
        observer.observe(&TestEvent::Listening {
            ports: (port(first), port(last)),
            window: first.recv_buffer_size().unwrap_or(0) as u32,
            congestion_control: engine::congestion_control(first),
            join_line: None,
        });
    }
}

/// The state that all sessions share.
pub(crate) struct IperfDialect {
    settings: Arc<Settings>,
    observer: Arc<dyn Observer>,
    flow_numbers: FlowNumbers,
    /// The report groups of all clients.
    report_groups: ReportGroups,
    permit_key: Option<String>,
    sender_options: SenderOptions,
    /// Stops the server if no client with the permit key connects in time
    /// (`--permit-key-timeout`).
    key_deadline: Mutex<Option<DeadlineGuard<'static>>>,
    /// The memory of the buffers of all clients.
    memory: SharedBudget,
}

/// The first bytes of a stream.
struct StreamStart {
    /// The test header; `None` for a stream without a header.
    hello: Option<Hello>,
    /// The number of bytes read, without the permit key.
    header_bytes: usize,
}

impl Dialect for IperfDialect {
    const NAME: &'static str = "iperf";

    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()> {
        let mut first_bytes = [0; 4];
        let received = control.receive(
            &mut first_bytes,
            Instant::now() + self.hello_timeout(),
            server.cancel_stop,
        )?;
        if received < 4 {
            let cause = if received == 0 { "peer close" } else { "runt" };
            self.report_error(format!("read tcp flags ({cause}) failed"));
            let id = flow_id(0, false, None);
            let mut connection = connection::unconnected(id, control.peer().clone());
            connection.local = control.local_address();
            connection.initial_tcp_state = connection::initial_tcp_state(control.as_fd());
            self.observer.observe(&TestEvent::Connected(&connection));
            return Ok(());
        }
        let number = self.flow_numbers.next();
        let word = u32::from_be_bytes(first_bytes);
        let peer = control.peer().clone();
        if BounceMessage::begins_with(word) && !self.settings.compatible {
            return bounceback::serve(self, control, number, first_bytes, server);
        }
        let stream_start = match self.read_stream_start(control, first_bytes) {
            Ok(stream_start) => stream_start,
            Err(reason) => {
                self.report_error(reason);
                return Ok(());
            }
        };
        let running = server.begin(&peer, describe_test("TCP", stream_start.hello.as_ref()));
        let running = running.map_err(io::Error::other)?;
        let data = DataSocket::from_accepted(
            control.to_data_socket()?,
            Transport::Tcp,
            &self.socket_options(),
        );
        let data = data.map_err(|error| {
            running.fail(&error);
            io::Error::from_raw_os_error(error.errno())
        })?;
        if let Err(reason) = connection::set_tx_delay(&data, self.settings.tx_delay) {
            self.report_error(reason);
        }
        self.run_test(&data, (&peer, number), &stream_start, server, &running)
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.report_error(line.to_string());
    }
}

impl IperfDialect {
    fn new(settings: &Arc<Settings>, observer: &Arc<dyn Observer>) -> Self {
        Self {
            settings: Arc::clone(settings),
            observer: Arc::clone(observer),
            flow_numbers: FlowNumbers::default(),
            report_groups: ReportGroups::new(observer, settings),
            permit_key: match &settings.permit_key {
                Some(PermitKey::Key(key)) => Some(key.clone()),
                _ => None,
            },
            sender_options: SenderOptions { tos_override: None },
            key_deadline: Mutex::default(),
            memory: SharedBudget::within(&ResourceBudget::process().memory, MAX_MEMORY_BYTES),
        }
    }

    /// Returns the options of a data socket. The kernel ends a connection to a client that has gone
    /// or does not read.
    fn socket_options(&self) -> SocketOptions {
        SocketOptions {
            user_timeout_ms: Some(ACKNOWLEDGEMENT_TIMEOUT_MS),
            ..self.settings.socket.clone()
        }
    }

    /// Returns the memory limits of a client's buffers.
    fn memory_for(&self, peer: &Address) -> BufferMemory {
        BufferMemory::from_budget(
            &self.memory,
            BudgetHolder::for_address(peer),
            traffic::MAX_RING_BYTES,
        )
    }

    /// Returns how long a client may take to send its header (`--test-exchange-timeout`).
    fn hello_timeout(&self) -> Duration {
        /// No limit.
        const FOREVER: Duration = Duration::from_secs(100 * 366 * 86_400);
        let Role::Server(server) = &self.settings.role else {
            return HELLO_TIMEOUT;
        };
        match server.exchange_timeout {
            Some(timeout) if timeout.is_zero() => FOREVER,
            Some(timeout) => timeout,
            None => HELLO_TIMEOUT,
        }
    }

    fn report_error(&self, line: String) {
        self.observer.observe(&TestEvent::Error(line));
    }

    /// Reads the rest of a header that starts with `first_bytes`.
    fn read_stream_start(
        &self,
        control: &ControlConnection,
        first_bytes: [u8; 4],
    ) -> Result<StreamStart, String> {
        let word = u32::from_be_bytes(first_bytes);
        let length = match Hello::length(word) {
            Some(length) if !self.settings.compatible => length,
            _ => {
                return Ok(StreamStart {
                    hello: None,
                    header_bytes: 4,
                });
            }
        };
        let describe_failure = |error: io::Error| {
            format!(
                "read tcp test info failed: {}",
                control::describe_error(&error)
            )
        };
        let deadline = Instant::now() + self.hello_timeout();
        let mut bytes = first_bytes.to_vec();
        bytes.resize(length, 0);
        control
            .read_exact(&mut bytes[4..], deadline)
            .map_err(describe_failure)?;
        let key_len = Hello::key_length(&bytes).map_err(|error| error.to_string())?;
        bytes.resize(length + key_len, 0);
        control
            .read_exact(&mut bytes[length..], deadline)
            .map_err(describe_failure)?;
        let hello =
            Hello::decode(&bytes, HelloTransport::Stream).map_err(|error| error.to_string())?;
        Ok(StreamStart {
            hello: Some(hello),
            header_bytes: length,
        })
    }

    /// Returns whether to run a test with this key of the client. A message without a field for
    /// the key has none.
    fn is_permitted(&self, received_key: Option<&[u8]>) -> bool {
        match &self.permit_key {
            None => received_key.is_none(),
            Some(key) => {
                let is_equal = received_key == Some(key.as_bytes());
                if is_equal {
                    self.key_deadline
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take();
                }
                is_equal
            }
        }
    }

    /// Ends the test of a client without the right key. The client's connection is reset.
    fn drop_client(
        &self,
        connection: &ConnectionInfo,
        running: &RunningTest,
        socket: BorrowedFd<'_>,
    ) {
        self.observer.observe(&TestEvent::Dropped(connection));
        running.fail(&"its permit key is missing or wrong");
        let _ = sys::SockRef::from(&socket).set_linger(Some(Duration::ZERO));
    }

    fn run_test(
        &self,
        data: &DataSocket,
        (peer, number): (&Address, u32),
        stream_start: &StreamStart,
        server: ServerContext<'_>,
        running: &RunningTest,
    ) -> io::Result<()> {
        let hello = stream_start.hello.as_ref();
        let requested_bursts = hello.and_then(requested_bursts);
        let mut connection = self.connection_info(data, peer, number, hello, requested_bursts);
        if !self.is_permitted(hello.and_then(|hello| hello.key.as_deref())) {
            self.drop_client(&connection, running, data.socket.as_fd());
            return Ok(());
        }
        self.send_acknowledgement(data, hello, connection.has_trip_times)?;
        connection.congestion_control = self.use_requested_congestion_control(data, hello);
        self.observer.observe(&TestEvent::Connected(&connection));
        use_transfer_id(&mut connection, hello, &*self.observer);
        let start = hello.and_then(|hello| hello.start);
        let scheduled_start = start.map(|start| start.at);
        self.report_scheduled_start(&connection, scheduled_start);
        apply_requests(data, &connection, scheduled_start, server.cancel_stop);
        StreamTest {
            dialect: self,
            running,
            stop: server.cancel_stop,
            reports: self
                .report_groups
                .group_for(peer, connection.local.as_ref()),
            peer,
            stream_start,
            requested_bursts,
            data,
            connection,
        }
        .run()
        .inspect_err(|reason| running.fail(reason))
        .map_err(io::Error::other)
    }

    /// Names the scheduled start of a client's traffic, if it is ahead.
    fn report_scheduled_start(&self, connection: &ConnectionInfo, start: Option<WallTime>) {
        let layout = self.settings.output.version.layout();
        let is_flagged = connection.upper_flags & upper::EPOCH_START != 0;
        let now = SystemTime::now();
        let at = start.map(|start| SystemTime::UNIX_EPOCH + start.since_epoch());
        if let Some(at) = at.filter(|at| is_flagged && *at > now && layout.names_scheduled_start) {
            let id = &connection.id;
            self.observer.observe(&TestEvent::StartTime { id, at, now });
        }
    }

    /// Sets the congestion control that a client requests. Returns its name.
    ///
    /// No client can make the kernel load a module.
    fn use_requested_congestion_control(
        &self,
        data: &DataSocket,
        hello: Option<&Hello>,
    ) -> Option<String> {
        let name = hello?.congestion_control.as_ref()?;
        if !self
            .settings
            .output
            .version
            .layout()
            .sends_congestion_control
        {
            return None;
        }
        let set = || data.socket.set_tcp_congestion(name.as_bytes());
        if sys::facts::has_congestion_control(name) && set().is_ok() {
            return Some(name.clone());
        }
        self.report_error(format!(
            "this host does not have the client's congestion control '{name}' or does not allow it"
        ));
        None
    }

    /// Returns the connection facts for the report.
    fn connection_info(
        &self,
        data: &DataSocket,
        peer: &Address,
        number: u32,
        hello: Option<&Hello>,
        requested: Option<PeriodicBursts>,
    ) -> ConnectionInfo {
        let id = flow_id(number, false, hello);
        let mut connection = connection::from_socket(id, data, peer.clone(), Transport::Tcp);
        let extension = hello.and_then(|hello| hello.extension);
        let upper = extension.map_or(0, |extension| extension.upper);
        let layout = self.settings.output.version.layout();
        connection.is_reverse = upper & upper::REVERSE != 0;
        connection.is_full_duplex = upper & upper::FULL_DUPLEX != 0;
        connection.peer_version = extension.and_then(|extension| version_name(extension.version));
        connection.upper_flags = upper;
        connection.prefetch = extension
            .filter(|extension| layout.has_early_prefetch && extension.prefetch > 0)
            .map(|extension| extension.prefetch);
        let type_of_service = extension.map(|extension| extension.type_of_service);
        connection.type_of_service =
            type_of_service.filter(|_| self.sender_options.tos_override.is_none());
        connection.has_trip_times = self.has_valid_start(hello, upper::TRIP_TIMES, "--trip-times");
        if !self.has_valid_start(hello, upper::EPOCH_START, "--txstart-time") {
            connection.upper_flags &= !upper::EPOCH_START;
        }
        connection.burst_period = requested
            .filter(|bursts| !bursts.is_isochronous && !connection.is_reverse)
            .map(|bursts| bursts.period);
        let is_undated_duplex = connection.is_full_duplex && !layout.dates_full_duplex;
        if connection.is_reverse || is_undated_duplex {
            connection.started = None;
        }
        if self.settings.compatible {
            connection.initial_tcp_state = None;
        }
        connection
    }

    /// Returns whether the header has the flag `bit` and a plausible start time.
    ///
    /// Prints a warning about option `name` if the clocks of client and server differ too much.
    fn has_valid_start(&self, hello: Option<&Hello>, bit: u16, name: &str) -> bool {
        /// The maximum difference between the clocks.
        const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(600);
        let Some(hello) = hello.filter(|hello| hello.has_any_flag(bit)) else {
            return false;
        };
        let start = hello.start.unwrap_or_default().at.since_epoch();
        let now = WallTime::now().since_epoch();
        let max_ahead = if bit == upper::EPOCH_START {
            MAX_START_DELAY
        } else {
            MAX_CLOCK_DIFFERENCE
        };
        let is_valid = start + MAX_CLOCK_DIFFERENCE > now && start < now + max_ahead;
        if !is_valid {
            self.observer.observe(&TestEvent::Message(format!(
                "WARN: ignore {name} because client didn't provide valid start timestamp within 600 seconds of now"
            )));
        }
        is_valid
    }

    /// Acknowledges a header.
    ///
    /// iperf 2.0.5 and older, and some tests, expect no acknowledgement.
    fn send_acknowledgement(
        &self,
        data: &DataSocket,
        hello: Option<&Hello>,
        has_trip_times: bool,
    ) -> io::Result<()> {
        let Some(hello) = hello.filter(|hello| hello.flags & flags::EXTEND != 0) else {
            return Ok(());
        };
        let is_unacknowledged =
            hello.flags & flags::VERSION2 != 0 && hello.flags & flags::PEER_DETECT == 0;
        if is_unacknowledged || self.settings.compatible {
            return Ok(());
        }
        let times = hello.start.filter(|_| has_trip_times);
        let bytes = Acknowledgement {
            version: self.settings.output.version.wire_version(),
            times: times.map(|start| [start.at, WallTime::now(), WallTime::now()]),
        }
        .encode();
        match sys::call::send_without_waiting(data.socket.as_fd(), &bytes) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Gives a flow the number that it has at the client (`--sync-transfer-id`).
pub(crate) fn use_transfer_id(
    connection: &mut ConnectionInfo,
    hello: Option<&Hello>,
    observer: &dyn Observer,
) {
    let number = connection.id.number;
    if let Some(id) = hello.and_then(|hello| hello.transfer_id)
        && id != number
    {
        let line = format!("[{number:>3}] Transfer ID {number} remapped to {id}");
        observer.observe(&TestEvent::Message(line));
        connection.id.number = id;
    }
}

/// Returns the identification of a flow, with the key that the client has given.
pub(crate) fn flow_id(number: u32, is_starred: bool, hello: Option<&Hello>) -> FlowId {
    let key = hello.and_then(|hello| hello.key.as_deref());
    FlowId {
        number,
        is_starred,
        key: key.map(|key| String::from_utf8_lossy(key).into_owned()),
    }
}

/// Applies a header's requests for quick acknowledgements and for a scheduled start.
fn apply_requests(
    data: &DataSocket,
    connection: &ConnectionInfo,
    scheduled_start: Option<WallTime>,
    stop: &Stop,
) {
    if connection.upper_flags & upper::QUICK_ACK != 0 {
        // The option is only a hint, so a failure is ignored.
        let quick = sys::option::TcpOption::QuickAck;
        let _ = sys::option::set_tcp(data.socket.as_fd(), quick, 1);
    }
    let is_scheduled = connection.upper_flags & upper::EPOCH_START != 0
        || scheduled_start.is_some_and(|start| start > WallTime::now());
    if is_scheduled && !connection.is_reverse {
        // The measured time starts with the first data.
        let deadline = Instant::now() + MAX_START_DELAY;
        let _ = stop.wait_readable(data.socket.as_fd(), deadline);
    }
}

/// Runs both functions at the same time. Returns the first error.
pub(crate) fn run_both(
    first: impl FnOnce() -> Result<(), String> + Send,
    second: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let first_thread = Builder::new()
            .spawn_scoped(scope, first)
            .map_err(|error| thread_error(&error))?;
        let second_result = second();
        let first_result = first_thread.join().unwrap_or_else(|_| {
            Err("internal error: the thread of a flow ended unexpectedly".to_owned())
        });
        first_result.and(second_result)
    })
}

pub(crate) fn thread_error(error: &io::Error) -> String {
    format!("cannot start a thread: {}", sys::describe(error))
}

/// Stops a server after `time` (`-t`).
pub(crate) fn stop_after(time: Option<Duration>, stop: &Stop) -> Option<DeadlineGuard<'static>> {
    time.map(|time| deadline_thread().set_at(Instant::now() + time, stop))
}
