//! The data connections of a scripted peer: strands that do what the records of a recorded workorder
//! say, or as its master the opposite, with plain blocking calls over TCP, TLS and UDP.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use uperf::wire::{FlowopRecord, SlaveInfo, TransactionWork, WorkRecords, protocol_from_number};
use uperf::{DataProtocol, FlowopFlags, FlowopKind};

use super::tls::Tls;
use crate::data::Sender;

/// Strands of one side that stand before the first transaction.
///
/// Those of a slave behave as stock's: a transaction with a duration ends at the slave's next look at its clock,
/// once per second, and an order that comes before that cuts it off.
pub(crate) struct Strands {
    stage: Arc<Stage>,
    threads: Vec<JoinHandle<()>>,
    /// Time that a slave's transactions take by its own clock, `None` for those without a duration.
    lengths: Vec<Option<Duration>>,
}

/// Where each strand of one side listens.
pub(crate) struct Listeners(Vec<Vec<Listener>>);

enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener),
    Udp(UdpSocket),
}

impl Listeners {
    /// One a strand and protocol that `side` waits for.
    pub(crate) fn new(work: &WorkRecords, side: Sender, address: IpAddr) -> Self {
        let flowops = work.transactions.iter().flat_map(|work| &work.flowops);
        let accepts = flowops.filter(|flowop| kind(flowop, side) == FlowopKind::Accept);
        let mut protocols: Vec<_> = accepts.map(|flowop| flowop.protocol).collect();
        protocols.sort_unstable();
        protocols.dedup();
        let any = SocketAddr::new(address, 0);
        let tcp = || {
            let listener = TcpListener::bind(any).expect("a port");
            listener.set_nonblocking(true).expect("a flag");
            listener
        };
        let one = |number: &u32| match protocol_from_number(*number) {
            Some(DataProtocol::Tcp) => Listener::Tcp(tcp()),
            Some(DataProtocol::Ssl) => Listener::Tls(tcp()),
            Some(DataProtocol::Udp) => Listener::Udp(UdpSocket::bind(any).expect("a port")),
            other => panic!("data over {other:?} cannot be played"),
        };
        let strands = 0..work.group.strands;
        Self(
            strands
                .map(|_| protocols.iter().map(one).collect())
                .collect(),
        )
    }

    /// What the other side is told of them.
    pub(crate) fn ports(&self) -> Vec<SlaveInfo> {
        let ports = self.0.iter().map(|strand| {
            let mut info = SlaveInfo::default();
            for listener in strand {
                let (protocol, address) = match listener {
                    Listener::Tcp(socket) => (DataProtocol::Tcp, socket.local_addr()),
                    Listener::Tls(socket) => (DataProtocol::Ssl, socket.local_addr()),
                    Listener::Udp(socket) => (DataProtocol::Udp, socket.local_addr()),
                };
                info.set_port(protocol, address.expect("it is bound").port().into());
            }
            info
        });
        ports.collect()
    }
}

impl Strands {
    /// As many as the workorder has; those that connect find the other side's at `peer`.
    pub(crate) fn start(
        work: &WorkRecords,
        side: Sender,
        listeners: Listeners,
        peer: IpAddr,
        ports: &[SlaveInfo],
    ) -> Self {
        let stage = Arc::<Stage>::default();
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
                    stage: Arc::clone(&stage),
                    connections: Vec::new(),
                };
                let transactions = work.transactions.clone();
                thread::spawn(move || strand.run(&transactions))
            });
        let threads = threads.collect();
        let length = |work: &TransactionWork| {
            let nanoseconds = work.record.duration_ns;
            (nanoseconds > 0).then(|| ticks(nanoseconds))
        };
        Self {
            stage,
            threads,
            lengths: work.transactions.iter().map(length).collect(),
        }
    }

    /// Lets them begin with this transaction; whoever is still in one before leaves it soon.
    pub(crate) fn release(&self, transaction: u32) {
        let now = Instant::now();
        let length = self.lengths.get(transaction as usize).copied().flatten();
        self.stage.change(|state| {
            state.released = transaction + 1;
            state.patience = Some(now + PATIENCE);
            state.due = length.map(|length| now + length);
        });
    }

    /// The transaction that runs, while a slave has not seen yet that its time is up.
    pub(crate) fn before_tick(&self) -> Option<u32> {
        let state = self.stage.lock();
        let is_before = state.due.is_some_and(|due| Instant::now() < due);
        is_before.then_some(state.released)
    }

    /// Waits until a slave has seen that.
    pub(crate) fn await_tick(&self) {
        let due = self.stage.lock().due;
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        thread::sleep(left.unwrap_or_default());
    }

    /// Waits until all of them are through with so many transactions.
    pub(crate) fn wait(&self, transactions: u32) {
        let all = self.threads.len() as u32 * transactions;
        drop(self.stage.wait(|state| state.through >= all));
    }

    /// Ends them wherever they are.
    pub(crate) fn stop(self) {
        self.stage.change(|state| state.stopped = true);
        for thread in self.threads {
            thread.join().expect("a strand does not panic");
        }
    }
}

/// How far the strands may go, and have gone.
#[derive(Default)]
struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Transactions that may be begun.
    released: u32,
    /// Until when strands may be in an earlier one.
    patience: Option<Instant>,
    /// Transactions that strands have ended, all strands together.
    through: u32,
    stopped: bool,
    /// When a slave ends the running transaction by its own clock.
    due: Option<Instant>,
}

impl Stage {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.lock();
        let waited = self.changed.wait_while(state, |state| !until(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

struct Strand {
    side: Sender,
    listeners: Vec<Listener>,
    peer: IpAddr,
    ports: SlaveInfo,
    stage: Arc<Stage>,
    /// With their names.
    connections: Vec<(u32, Connection)>,
}

enum Connection {
    Tcp(TcpStream),
    Tls(Box<Tls>),
    Udp(UdpSocket),
}

/// Why a transaction ends before it is through: time, the end of the stream, or an error.
struct Ended;

/// Up to the tick at which a stock slave sees that so many nanoseconds have passed.
fn ticks(nanoseconds: u64) -> Duration {
    // A profile's 30 s are a little more (single precision).
    let whole = (nanoseconds - nanoseconds / 10_000).div_ceil(1_000_000_000);
    Duration::from_nanos(whole * TICK_NS)
}

impl Strand {
    fn run(mut self, transactions: &[TransactionWork]) {
        for (number, transaction) in (0..).zip(transactions) {
            let stopped = {
                let state = self
                    .stage
                    .wait(|state| state.released > number || state.stopped);
                state.stopped
            };
            if stopped {
                return;
            }
            // However it ends: the peer sees what is wrong by what it says itself.
            let _: Result<(), Ended> = self.transaction(number, transaction);
            self.stage.change(|state| state.through += 1);
        }
    }

    fn transaction(&mut self, number: u32, work: &TransactionWork) -> Result<(), Ended> {
        let record = &work.record;
        let timed = record.duration_ns > 0;
        let length = match self.side {
            Sender::Slave => ticks(record.duration_ns),
            Sender::Master => Duration::from_nanos(record.duration_ns),
        };
        let end = Instant::now() + length;
        let stage = Arc::clone(&self.stage);
        let over = move || {
            let (at, now) = (stage.lock(), Instant::now());
            let late = at.released > number + 1 && at.patience.is_none_or(|end| now >= end);
            at.stopped || late || (timed && now >= end)
        };
        let mut passes = 0;
        while timed || passes < record.iterations {
            for flowop in &work.flowops {
                for _ in 0..flowop.count {
                    if over() {
                        return Ok(());
                    }
                    let done = self.flowop(flowop, &over);
                    if !FlowopFlags(flowop.flags).has(FlowopFlags::CAN_FAIL) {
                        done?;
                    }
                }
            }
            passes += 1;
        }
        Ok(())
    }

    fn flowop(&mut self, flowop: &FlowopRecord, over: &impl Fn() -> bool) -> Result<(), Ended> {
        let kind = kind(flowop, self.side);
        if kind.opens() {
            let connection = match kind {
                FlowopKind::Accept => self.accept(flowop.protocol, over)?,
                _ => self.connect(flowop.protocol, over)?,
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
        let found = connections.position(|(name, _)| *name == flowop.connection);
        let found = found.ok_or(Ended)?;
        if kind == FlowopKind::Disconnect {
            self.connections.remove(found);
            return Ok(());
        }
        let connection = &mut self.connections[found].1;
        let patience = match flowop.timeout_ns {
            0 => None,
            nanoseconds => Some(Instant::now() + Duration::from_nanos(nanoseconds)),
        };
        let over = || over() || patience.is_some_and(|end| Instant::now() >= end);
        connection.transfer(kind.sends(), flowop, over)
    }

    fn accept(&self, number: u32, over: impl Fn() -> bool) -> Result<Connection, Ended> {
        for listener in &self.listeners {
            match (listener, protocol_from_number(number)) {
                (Listener::Tcp(listener), Some(DataProtocol::Tcp)) => {
                    return Ok(Connection::Tcp(accepted(listener, over)?));
                }
                (Listener::Tls(listener), Some(DataProtocol::Ssl)) => {
                    let tls = Tls::server(accepted(listener, &over)?);
                    return Connection::tls(tls, over);
                }
                (Listener::Udp(socket), Some(DataProtocol::Udp)) => {
                    let socket = socket.try_clone().map_err(|_| Ended)?;
                    socket.set_read_timeout(Some(TICK)).map_err(|_| Ended)?;
                    let mut hello = [0; 64];
                    let (len, from) = repeated(|| socket.recv_from(&mut hello), over)?;
                    assert_eq!(&hello[..len], HANDSHAKE);
                    socket.connect(from).map_err(|_| Ended)?;
                    return Ok(Connection::Udp(socket));
                }
                _ => {}
            }
        }
        Err(Ended)
    }

    fn connect(&self, number: u32, over: impl Fn() -> bool) -> Result<Connection, Ended> {
        let protocol = protocol_from_number(number).ok_or(Ended)?;
        let port = self.ports.port(protocol).ok_or(Ended)?;
        let address = SocketAddr::new(self.peer, port.try_into().map_err(|_| Ended)?);
        let tcp = || ticking(TcpStream::connect(address).map_err(|_| Ended)?);
        let connection = match protocol {
            DataProtocol::Tcp => Connection::Tcp(tcp()?),
            DataProtocol::Ssl => Connection::tls(Tls::client(tcp()?), over)?,
            DataProtocol::Udp => {
                let any = SocketAddr::new(self.peer, 0);
                let socket = UdpSocket::bind(any).map_err(|_| Ended)?;
                socket.set_read_timeout(Some(TICK)).map_err(|_| Ended)?;
                socket.connect(address).map_err(|_| Ended)?;
                socket.send(HANDSHAKE).map_err(|_| Ended)?;
                Connection::Udp(socket)
            }
            other => panic!("data over {other} cannot be played"),
        };
        Ok(connection)
    }
}

impl Connection {
    fn tls(mut tls: Tls, over: impl Fn() -> bool) -> Result<Self, Ended> {
        repeated(|| tls.shake_hands(), over)?;
        Ok(Self::Tls(Box::new(tls)))
    }

    /// All bytes of one execution over TCP, or one datagram.
    fn transfer(
        &mut self,
        sends: bool,
        flowop: &FlowopRecord,
        over: impl Fn() -> bool,
    ) -> Result<(), Ended> {
        let mut buffer = vec![0; flowop.size.max(flowop.random_max) as usize];
        let random = FlowopFlags(flowop.flags).has(FlowopFlags::RANDOM);
        let mut moved = 0;
        while moved < buffer.len() {
            let rest = &mut buffer[moved..];
            let once = || match self {
                Self::Tcp(stream) if sends => stream.write(rest),
                Self::Tcp(stream) => stream.read(rest),
                Self::Tls(stream) if sends => stream.write(rest),
                Self::Tls(stream) => stream.read(rest),
                Self::Udp(socket) if sends => socket.send(rest),
                Self::Udp(socket) => socket.recv(rest),
            };
            match repeated(once, &over)? {
                0 => return Err(Ended),
                bytes => moved += bytes,
            }
            if random {
                break;
            }
        }
        Ok(())
    }
}

fn accepted(listener: &TcpListener, over: impl Fn() -> bool) -> Result<TcpStream, Ended> {
    let accept = || listener.accept().map(|(stream, _)| stream);
    let stream = repeated(accept, over)?;
    stream.set_nonblocking(false).map_err(|_| Ended)?;
    ticking(stream)
}

/// That waits for no longer than a tick at a time.
fn ticking(stream: TcpStream) -> Result<TcpStream, Ended> {
    stream.set_read_timeout(Some(TICK)).map_err(|_| Ended)?;
    stream.set_write_timeout(Some(TICK)).map_err(|_| Ended)?;
    Ok(stream)
}

/// What the record's flowop is on this side.
fn kind(flowop: &FlowopRecord, side: Sender) -> FlowopKind {
    let kind = FlowopKind::from_number(flowop.kind).unwrap_or(FlowopKind::Nop);
    match side {
        Sender::Slave => kind,
        Sender::Master => kind.peer_kind(),
    }
}

/// Makes the call until it can be done; it waits for no longer than a tick at a time.
fn repeated<T>(
    mut call: impl FnMut() -> std::io::Result<T>,
    over: impl Fn() -> bool,
) -> Result<T, Ended> {
    loop {
        match call() {
            Ok(done) => return Ok(done),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if over() {
                    return Err(Ended);
                }
                // A listener does not wait at all.
                thread::sleep(Duration::from_micros(200));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Ended),
        }
    }
}

/// The other side's strands may be through with a connection before this side's have accepted it.
const PATIENCE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(10);
/// Time between a stock slave's looks at its orders and its clock: poll(2) takes 0.1 % longer than it is asked to.
const TICK_NS: u64 = 1_001_000_000;
const HANDSHAKE: &[u8] = b"uperf udp handshake";
