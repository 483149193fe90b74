//! The data connections of a scripted peer. The strands of a slave execute a recorded workorder,
//! those of a master its mirror image, with plain blocking calls over TCP, TLS and UDP.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use uperf::wire::{FlowopRecord, SlaveInfo, TransactionWork, WorkRecords, protocol_from_number};
use uperf::{DataProtocol, FlowopFlags, FlowopKind};

use super::tls::Tls;
use crate::data::Sender;

/// The running strands of one side.
///
/// The strands of a slave behave like stock's. A transaction with a duration ends when the slave
/// next checks its clock, once per second. A command that arrives earlier interrupts the
/// transaction.
pub(crate) struct Strands {
    coordinator: Arc<Coordinator>,
    threads: Vec<JoinHandle<()>>,
    /// Durations of a slave's transactions by its own clock; `None` without a duration.
    durations: Vec<Option<Duration>>,
}

/// The listeners of each strand of one side.
pub(crate) struct Listeners(Vec<Vec<Listener>>);

enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener),
    Udp(UdpSocket),
}

impl Listeners {
    /// Opens one listener per strand and per protocol that `side` accepts.
    pub(crate) fn new(work: &WorkRecords, side: Sender, address: IpAddr) -> Self {
        let flowops = work.transactions.iter().flat_map(|work| &work.flowops);
        let accepts = flowops.filter(|flowop| kind_on_side(flowop, side) == FlowopKind::Accept);
        let mut protocols: Vec<_> = accepts.map(|flowop| flowop.protocol).collect();
        protocols.sort_unstable();
        protocols.dedup();
        let any = SocketAddr::new(address, 0);
        let bind_tcp = || {
            let listener = TcpListener::bind(any).expect("a port is free");
            listener
                .set_nonblocking(true)
                .expect("the listener is open");
            listener
        };
        let bind = |number: &u32| match protocol_from_number(*number) {
            Some(DataProtocol::Tcp) => Listener::Tcp(bind_tcp()),
            Some(DataProtocol::Ssl) => Listener::Tls(bind_tcp()),
            Some(DataProtocol::Udp) => Listener::Udp(UdpSocket::bind(any).expect("a port is free")),
            other => panic!("unsupported data protocol: {other:?}"),
        };
        let strands = 0..work.group.strands;
        Self(
            strands
                .map(|_| protocols.iter().map(bind).collect())
                .collect(),
        )
    }

    /// Returns the ports to report to the other side.
    pub(crate) fn ports(&self) -> Vec<SlaveInfo> {
        let ports = self.0.iter().map(|strand| {
            let mut info = SlaveInfo::default();
            for listener in strand {
                let (protocol, address) = match listener {
                    Listener::Tcp(socket) => (DataProtocol::Tcp, socket.local_addr()),
                    Listener::Tls(socket) => (DataProtocol::Ssl, socket.local_addr()),
                    Listener::Udp(socket) => (DataProtocol::Udp, socket.local_addr()),
                };
                info.set_port(
                    protocol,
                    address.expect("the socket is bound").port().into(),
                );
            }
            info
        });
        ports.collect()
    }
}

impl Strands {
    /// Starts the strands of the workorder. They connect to `ports` at `peer`.
    pub(crate) fn start(
        work: &WorkRecords,
        side: Sender,
        listeners: Listeners,
        peer: IpAddr,
        ports: &[SlaveInfo],
    ) -> Self {
        let coordinator = Arc::<Coordinator>::default();
        let threads = listeners
            .0
            .into_iter()
            .enumerate()
            .map(|(number, listeners)| {
                let strand = Strand {
                    side,
                    listeners,
                    peer,
                    ports: ports.get(number).cloned().unwrap_or_default(),
                    coordinator: Arc::clone(&coordinator),
                    connections: Vec::new(),
                };
                let transactions = work.transactions.clone();
                thread::spawn(move || strand.run(&transactions))
            });
        let threads = threads.collect();
        let duration = |work: &TransactionWork| {
            let nanoseconds = work.record.duration_ns;
            (nanoseconds > 0).then(|| duration_in_ticks(nanoseconds))
        };
        Self {
            coordinator,
            threads,
            durations: work.transactions.iter().map(duration).collect(),
        }
    }

    /// Lets the strands start this transaction. Strands in an earlier one leave it after a grace
    /// time.
    pub(crate) fn release(&self, transaction: u32) {
        let now = Instant::now();
        let duration = self.durations.get(transaction as usize).copied().flatten();
        self.coordinator.change(|state| {
            state.released = transaction + 1;
            state.grace_end = Some(now + GRACE_TIME);
            state.slave_tick = duration.map(|duration| now + duration);
        });
    }

    /// Returns the running transaction if the slave has not yet noticed its end.
    pub(crate) fn transaction_before_tick(&self) -> Option<u32> {
        let state = self.coordinator.lock();
        let is_before = state.slave_tick.is_some_and(|tick| Instant::now() < tick);
        is_before.then_some(state.released)
    }

    /// Waits until the slave has noticed the end of the transaction.
    pub(crate) fn wait_for_tick(&self) {
        let tick = self.coordinator.lock().slave_tick;
        let remaining = tick.map(|tick| tick.saturating_duration_since(Instant::now()));
        thread::sleep(remaining.unwrap_or_default());
    }

    /// Waits until each strand has finished this number of transactions.
    pub(crate) fn wait_until_finished(&self, transactions: u32) {
        let total = self.threads.len() as u32 * transactions;
        drop(self.coordinator.wait(|state| state.finished >= total));
    }

    /// Stops the strands in any state and joins their threads.
    pub(crate) fn stop(self) {
        self.coordinator.change(|state| state.stopped = true);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
    }
}

/// Synchronizes the strands with the script.
#[derive(Default)]
struct Coordinator {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of transactions that strands may start.
    released: u32,
    /// Time until which strands may remain in an earlier transaction.
    grace_end: Option<Instant>,
    /// Number of finished transactions, summed over all strands.
    finished: u32,
    stopped: bool,
    /// Time at which a slave ends the running transaction by its own clock.
    slave_tick: Option<Instant>,
}

impl Coordinator {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.lock();
        let result = self.changed.wait_while(state, |state| !until(state));
        result.unwrap_or_else(PoisonError::into_inner)
    }
}

struct Strand {
    side: Sender,
    listeners: Vec<Listener>,
    peer: IpAddr,
    ports: SlaveInfo,
    coordinator: Arc<Coordinator>,
    /// Connections with their numbers.
    connections: Vec<(u32, Connection)>,
}

enum Connection {
    Tcp(TcpStream),
    Tls(Box<Tls>),
    Udp(UdpSocket),
}

/// The early end of a transaction: by a deadline, the end of the stream, or an error.
struct EarlyEnd;

/// Returns the time until the tick at which a stock slave notices the end of this duration.
fn duration_in_ticks(nanoseconds: u64) -> Duration {
    // The wire value of 30 s is slightly larger (single precision).
    let ticks = (nanoseconds - nanoseconds / 10_000).div_ceil(1_000_000_000);
    Duration::from_nanos(ticks * CLOCK_CHECK_NS)
}

impl Strand {
    fn run(mut self, transactions: &[TransactionWork]) {
        for (number, transaction) in (0..).zip(transactions) {
            let stopped = {
                let state = self
                    .coordinator
                    .wait(|state| state.released > number || state.stopped);
                state.stopped
            };
            if stopped {
                return;
            }
            // Ignore errors: the other side detects a failure by its own messages.
            let _: Result<(), EarlyEnd> = self.run_transaction(number, transaction);
            self.coordinator.change(|state| state.finished += 1);
        }
    }

    fn run_transaction(&mut self, number: u32, work: &TransactionWork) -> Result<(), EarlyEnd> {
        let record = &work.record;
        let is_timed = record.duration_ns > 0;
        let duration = match self.side {
            Sender::Slave => duration_in_ticks(record.duration_ns),
            Sender::Master => Duration::from_nanos(record.duration_ns),
        };
        let end = Instant::now() + duration;
        let coordinator = Arc::clone(&self.coordinator);
        let is_over = move || {
            let (state, now) = (coordinator.lock(), Instant::now());
            let is_late =
                state.released > number + 1 && state.grace_end.is_none_or(|end| now >= end);
            state.stopped || is_late || (is_timed && now >= end)
        };
        let mut passes = 0;
        while is_timed || passes < record.iterations {
            for flowop in &work.flowops {
                for _ in 0..flowop.count {
                    if is_over() {
                        return Ok(());
                    }
                    let result = self.run_flowop(flowop, &is_over);
                    if !FlowopFlags(flowop.flags).has(FlowopFlags::CAN_FAIL) {
                        result?;
                    }
                }
            }
            passes += 1;
        }
        Ok(())
    }

    fn run_flowop(
        &mut self,
        flowop: &FlowopRecord,
        is_over: &impl Fn() -> bool,
    ) -> Result<(), EarlyEnd> {
        let kind = kind_on_side(flowop, self.side);
        if kind.opens() {
            let connection = match kind {
                FlowopKind::Accept => self.accept(flowop.protocol, is_over)?,
                _ => self.connect(flowop.protocol, is_over)?,
            };
            self.connections.insert(0, (flowop.connection, connection));
            return Ok(());
        }
        if kind == FlowopKind::Think {
            thread::sleep(Duration::from_nanos(flowop.duration_ns));
        }
        if !(kind.transfers() || kind == FlowopKind::Disconnect) {
            return Ok(());
        }
        let mut connections = self.connections.iter();
        let index = connections.position(|(number, _)| *number == flowop.connection);
        let index = index.ok_or(EarlyEnd)?;
        if kind == FlowopKind::Disconnect {
            self.connections.remove(index);
            return Ok(());
        }
        let connection = &mut self.connections[index].1;
        let timeout = match flowop.timeout_ns {
            0 => None,
            nanoseconds => Some(Instant::now() + Duration::from_nanos(nanoseconds)),
        };
        let is_over = || is_over() || timeout.is_some_and(|end| Instant::now() >= end);
        connection.transfer(kind.sends(), flowop, is_over)
    }

    fn accept(&self, number: u32, is_over: impl Fn() -> bool) -> Result<Connection, EarlyEnd> {
        for listener in &self.listeners {
            match (listener, protocol_from_number(number)) {
                (Listener::Tcp(listener), Some(DataProtocol::Tcp)) => {
                    return Ok(Connection::Tcp(accept_stream(listener, is_over)?));
                }
                (Listener::Tls(listener), Some(DataProtocol::Ssl)) => {
                    let tls = Tls::server(accept_stream(listener, &is_over)?);
                    return Connection::from_tls(tls, is_over);
                }
                (Listener::Udp(socket), Some(DataProtocol::Udp)) => {
                    let socket = socket.try_clone().map_err(|_| EarlyEnd)?;
                    socket
                        .set_read_timeout(Some(POLL_INTERVAL))
                        .map_err(|_| EarlyEnd)?;
                    let mut datagram = [0; 64];
                    let (len, from) = retry(|| socket.recv_from(&mut datagram), is_over)?;
                    assert_eq!(&datagram[..len], HANDSHAKE);
                    socket.connect(from).map_err(|_| EarlyEnd)?;
                    return Ok(Connection::Udp(socket));
                }
                _ => {}
            }
        }
        Err(EarlyEnd)
    }

    fn connect(&self, number: u32, is_over: impl Fn() -> bool) -> Result<Connection, EarlyEnd> {
        let protocol = protocol_from_number(number).ok_or(EarlyEnd)?;
        let port = self.ports.port(protocol).ok_or(EarlyEnd)?;
        let address = SocketAddr::new(self.peer, port.try_into().map_err(|_| EarlyEnd)?);
        let connect_tcp = || with_timeouts(TcpStream::connect(address).map_err(|_| EarlyEnd)?);
        let connection = match protocol {
            DataProtocol::Tcp => Connection::Tcp(connect_tcp()?),
            DataProtocol::Ssl => Connection::from_tls(Tls::client(connect_tcp()?), is_over)?,
            DataProtocol::Udp => {
                let any = SocketAddr::new(self.peer, 0);
                let socket = UdpSocket::bind(any).map_err(|_| EarlyEnd)?;
                socket
                    .set_read_timeout(Some(POLL_INTERVAL))
                    .map_err(|_| EarlyEnd)?;
                socket.connect(address).map_err(|_| EarlyEnd)?;
                socket.send(HANDSHAKE).map_err(|_| EarlyEnd)?;
                Connection::Udp(socket)
            }
            other => panic!("unsupported data protocol: {other}"),
        };
        Ok(connection)
    }
}

impl Connection {
    fn from_tls(mut tls: Tls, is_over: impl Fn() -> bool) -> Result<Self, EarlyEnd> {
        retry(|| tls.complete_handshake(), is_over)?;
        Ok(Self::Tls(Box::new(tls)))
    }

    /// Transfers all bytes of one execution over TCP, or one datagram.
    fn transfer(
        &mut self,
        sends: bool,
        flowop: &FlowopRecord,
        is_over: impl Fn() -> bool,
    ) -> Result<(), EarlyEnd> {
        let mut buffer = vec![0; flowop.size.max(flowop.random_max) as usize];
        let is_random = FlowopFlags(flowop.flags).has(FlowopFlags::RANDOM);
        let mut moved = 0;
        while moved < buffer.len() {
            let remaining = &mut buffer[moved..];
            let transfer = || match self {
                Self::Tcp(stream) if sends => stream.write(remaining),
                Self::Tcp(stream) => stream.read(remaining),
                Self::Tls(stream) if sends => stream.write(remaining),
                Self::Tls(stream) => stream.read(remaining),
                Self::Udp(socket) if sends => socket.send(remaining),
                Self::Udp(socket) => socket.recv(remaining),
            };
            match retry(transfer, &is_over)? {
                0 => return Err(EarlyEnd),
                bytes => moved += bytes,
            }
            if is_random {
                break;
            }
        }
        Ok(())
    }
}

fn accept_stream(
    listener: &TcpListener,
    is_over: impl Fn() -> bool,
) -> Result<TcpStream, EarlyEnd> {
    let accept = || listener.accept().map(|(stream, _)| stream);
    let stream = retry(accept, is_over)?;
    stream.set_nonblocking(false).map_err(|_| EarlyEnd)?;
    with_timeouts(stream)
}

/// Sets timeouts of one poll interval on the stream.
fn with_timeouts(stream: TcpStream) -> Result<TcpStream, EarlyEnd> {
    stream
        .set_read_timeout(Some(POLL_INTERVAL))
        .map_err(|_| EarlyEnd)?;
    stream
        .set_write_timeout(Some(POLL_INTERVAL))
        .map_err(|_| EarlyEnd)?;
    Ok(stream)
}

/// Returns the kind of the flowop on this side.
fn kind_on_side(flowop: &FlowopRecord, side: Sender) -> FlowopKind {
    let kind = FlowopKind::from_number(flowop.kind).unwrap_or(FlowopKind::Nop);
    match side {
        Sender::Slave => kind,
        Sender::Master => kind.peer_kind(),
    }
}

/// Repeats a call that would block until it succeeds, fails or `is_over` returns true. Panics after
/// [`MAX_WAIT`].
fn retry<T>(
    mut call: impl FnMut() -> std::io::Result<T>,
    is_over: impl Fn() -> bool,
) -> Result<T, EarlyEnd> {
    let end = Instant::now() + MAX_WAIT;
    loop {
        match call() {
            Ok(value) => return Ok(value),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if is_over() {
                    return Err(EarlyEnd);
                }
                assert!(
                    Instant::now() < end,
                    "the peer did nothing for {MAX_WAIT:?}"
                );
                // A listener is nonblocking.
                thread::sleep(Duration::from_micros(200));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(EarlyEnd),
        }
    }
}

/// Grace time for strands in an earlier transaction. The other side may have finished with a
/// connection before this side has accepted it.
const GRACE_TIME: Duration = Duration::from_millis(500);
/// Longest wait for one transfer or connection. No test profile has longer pauses.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Timeout of one blocking call.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Interval between a stock slave's checks of its commands and its clock. poll(2) takes 0.1 %
/// longer than requested.
const CLOCK_CHECK_NS: u64 = 1_001_000_000;
const HANDSHAKE: &[u8] = b"uperf udp handshake";
