//! The server of TCP tests; `udp/server.rs` has that of datagrams.

mod bounce;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{DataSocket, Promise, Role as End, Stop, deadline_thread};
use model::{FlowPlan, Limit, SocketOptions, Transport};
use server::{Dialect, Running, Server, ServerContext, Service, Test, listen};

pub use crate::udp::server::serve_datagrams;
use sys::{Address, Socket};

use crate::connection::{self, Numbers};
use crate::event::{Connection, Event, FlowId, Observer};
use crate::flow::{flow, length_of};
use crate::options::{Frames, PermitKey, Serve, Settings, Shape};
use crate::report_group::{ReportGroup, ReportGroups};
use crate::tally::{Kind, Tallies};
use crate::traffic::{self, Orders};
use crate::wire::flags::{self, upper};
use crate::wire::{Acknowledgement, Amount, Bounce, Hello, Over, WallTime, version_name};

/// How long the first bytes of a stream are waited for.
const GREETED: Duration = Duration::from_secs(20);

/// How long the end of a client's stream is waited for.
const PATIENCE: Duration = Duration::from_secs(4);

/// How far ahead a client may schedule its test.
const LATEST_START: Duration = Duration::from_secs(3610);

/// How long the connection back to a client may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The longest buffer that a client may have this end send.
const MOST_LENGTH: u32 = 16 << 20;

/// Called when the server listens, and before it starts a thread; whether it shall serve.
pub type Begin<'a> = dyn Fn() -> Result<bool, String> + 'a;

/// Runs a server until `stop`; an error is a line for standard error.
pub fn run(
    settings: &Arc<Settings>,
    serve: &Serve,
    observer: &Arc<dyn Observer>,
    stop: &Stop,
    begin: &Begin<'_>,
) -> Result<(), String> {
    if settings.is_udp() {
        return crate::udp::server::run(settings, serve, observer, stop, begin);
    }
    let addresses = addresses(settings)?;
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
    if !begin()? {
        return Ok(());
    }
    announce(observer, &listeners);
    let mut dialect = Iperf::new(settings, observer);
    let window = dialect.key.is_some().then_some(serve.key_timeout).flatten();
    let window = window.map(|window| deadline_thread().at(Instant::now() + window, stop));
    dialect.window = Mutex::new(window);
    dialect.sending.service = serve.service_of_senders;
    let _ends = end_after(serve.time, stop);
    Server::new(dialect, serve.config.clone(), stop.clone()).run(listeners);
    Ok(())
}

/// The server of TCP tests among those of a service.
pub fn among(
    service: &Service,
    settings: &Arc<Settings>,
    observer: &Arc<dyn Observer>,
) -> Arc<Server<impl Dialect + use<>>> {
    Server::of(Iperf::new(settings, observer), service)
}

/// Where the server listens: at each of its ports.
pub(crate) fn addresses(settings: &Settings) -> Result<Vec<Address>, String> {
    let (first, last) = settings.ports;
    let [v4, v6] = Address::wildcards(first);
    let (v4, v6) = if v4.is_ipv6() { (v6, v4) } else { (v4, v6) };
    let at = match &settings.bind {
        None if settings.v6 => v6,
        None => v4,
        Some(bind) => {
            let (host, _) = bind.split_once('%').unwrap_or((bind, ""));
            let found = sys::resolve::resolve(host, sys::resolve::Wanted::Any);
            let found = found.map_err(|_| format!("-B {host}: Unknown host"))?;
            let at = found.addresses.into_iter().next();
            at.ok_or_else(|| format!("-B {host}: Unknown host"))?
        }
    };
    Ok((first..=last)
        .filter_map(|port| at.with_port(port.into()))
        .collect())
}

fn announce(observer: &Arc<dyn Observer>, listeners: &[Socket]) {
    let port = |listener| Address::of(listener).map_or(0, |address| address.port()) as u16;
    if let ([first, ..], [.., last]) = (listeners, listeners) {
        observer.see(&Event::Listening {
            ports: (port(first), port(last)),
            window: first.recv_buffer_size().unwrap_or(0) as u32,
            joins: None,
        });
    }
}

/// What all sessions share.
pub(crate) struct Iperf {
    settings: Arc<Settings>,
    observer: Arc<dyn Observer>,
    numbers: Numbers,
    /// The flows of each client.
    report_groups: ReportGroups,
    key: Option<String>,
    sending: Sending,
    /// The time in which a client with the key must come.
    window: Mutex<Option<Promise<'static>>>,
}

/// What a server sets where it sends because a client asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    /// `--tos-override`.
    pub(crate) service: Option<u8>,
}

impl Sending {
    /// The options of such a socket. The type of service is `--tos-override`'s, this end's `-S`, or the client's.
    pub(crate) fn with(self, options: &SocketOptions, asked: Option<u8>) -> SocketOptions {
        let asked = asked.filter(|service| *service != 0);
        SocketOptions {
            type_of_service: self.service.or(options.type_of_service).or(asked),
            ..options.clone()
        }
    }

    /// Sets it on a connection that is there.
    pub(crate) fn apply(socket: BorrowedFd<'_>, options: &SocketOptions, is_ipv6: bool) {
        if let Some(service) = options.type_of_service {
            // Without it the data goes all the same.
            let _ = sys::option::set_type_of_service(socket, is_ipv6, service);
        }
    }
}

/// What a stream began with.
struct Greeting {
    /// `None` of a stream that is all data.
    hello: Option<Hello>,
    /// Its bytes, a key not included.
    bytes: usize,
}

impl Dialect for Iperf {
    const NAME: &'static str = "iperf";

    fn serve(&self, control: &mut ControlConnection, server: ServerContext<'_>) -> io::Result<()> {
        let mut first = [0; 4];
        let received = control.receive(&mut first, Instant::now() + GREETED, server.cut)?;
        if received < 4 {
            let how = if received == 0 { "peer close" } else { "runt" };
            self.trouble(format!("read tcp flags ({how}) failed"));
            let id = self.id(0, false);
            let mut connection = connection::unconnected(id, control.peer().clone());
            connection.local = control.here();
            connection.tcp = connection::handshake(control.as_fd());
            self.observer.see(&Event::Connected(&connection));
            return Ok(());
        }
        let number = self.numbers.next();
        let word = u32::from_be_bytes(first);
        let peer = control.peer().clone();
        if Bounce::is_begun_by(word) && !self.settings.compatible {
            return bounce::serve(self, control, number, first, server);
        }
        let greeting = match self.greeting(control, first) {
            Ok(greeting) => greeting,
            Err(why) => {
                self.trouble(why);
                return Ok(());
            }
        };
        let data =
            DataSocket::of_accepted(control.as_data()?, Transport::Tcp, &self.settings.socket);
        let data = data.map_err(|error| io::Error::from_raw_os_error(error.errno()))?;
        let running = server.begin(&peer, test_of("TCP", greeting.hello.as_ref()));
        let running = running.map_err(io::Error::other)?;
        self.test(&data, (&peer, number), &greeting, server, &running)
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.trouble(line.to_string());
    }
}

impl Iperf {
    fn new(settings: &Arc<Settings>, observer: &Arc<dyn Observer>) -> Self {
        Self {
            settings: Arc::clone(settings),
            observer: Arc::clone(observer),
            numbers: Numbers::default(),
            report_groups: ReportGroups::new(observer, settings),
            key: match &settings.permit_key {
                Some(PermitKey::This(key)) => Some(key.clone()),
                _ => None,
            },
            sending: Sending { service: None },
            window: Mutex::default(),
        }
    }

    fn trouble(&self, line: String) {
        self.observer.see(&Event::Trouble(line));
    }

    fn id(&self, number: u32, is_opposite: bool) -> FlowId {
        FlowId {
            number,
            is_opposite,
            key: self.key.clone(),
        }
    }

    /// Reads the rest of a header that begins with these bytes.
    fn greeting(&self, control: &ControlConnection, first: [u8; 4]) -> Result<Greeting, String> {
        let word = u32::from_be_bytes(first);
        let length = match Hello::length(word) {
            Some(length) if !self.settings.compatible => length,
            _ => {
                return Ok(Greeting {
                    hello: None,
                    bytes: 4,
                });
            }
        };
        let failed =
            |error: io::Error| format!("read tcp test info failed: {}", control::why(&error));
        let until = Instant::now() + GREETED;
        let mut bytes = first.to_vec();
        bytes.resize(length, 0);
        control.fill(&mut bytes[4..], until).map_err(failed)?;
        let key = Hello::key_length(&bytes).map_err(|error| error.to_string())?;
        bytes.resize(length + key, 0);
        control.fill(&mut bytes[length..], until).map_err(failed)?;
        let hello = Hello::decode(&bytes, Over::Stream).map_err(|error| error.to_string())?;
        Ok(Greeting {
            hello: Some(hello),
            bytes: length,
        })
    }

    fn is_permitted(&self, hello: Option<&Hello>) -> bool {
        let typed = hello.and_then(|hello| hello.key.as_deref());
        match &self.key {
            None => typed.is_none(),
            Some(key) => {
                let same = typed == Some(key.as_bytes());
                if same {
                    self.window
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take();
                }
                same
            }
        }
    }

    fn test(
        &self,
        data: &DataSocket,
        (peer, number): (&Address, u32),
        greeting: &Greeting,
        server: ServerContext<'_>,
        running: &Running,
    ) -> io::Result<()> {
        let hello = greeting.hello.as_ref();
        let has = |bits| hello.is_some_and(|hello| hello.has(bits));
        let (is_reverse, is_duplex) = (has(upper::REVERSE), has(upper::FULL_DUPLEX));
        let asked = hello.and_then(asked_frames);
        let connection = self.connection(data, peer, number, hello, asked);
        if !self.is_permitted(hello) {
            self.observer.see(&Event::Dropped(&connection));
            running.fail(&"its permit key is wrong");
            let _ = data.socket.set_linger(Some(Duration::ZERO));
            return Ok(());
        }
        self.acknowledge(data, hello, connection.has_trip_times)?;
        self.observer.see(&Event::Connected(&connection));
        heed(data, &connection, server.cut);
        let reports = self.report_groups.of(peer, connection.local.as_ref());
        let sender = hello.map(|hello| self.sender(hello));
        let shape = hello.map_or_else(Shape::default, |hello| asked_shape(hello, asked));
        let width = self.settings.print.bins.map(|bins| bins.width);
        let kind = received_kind(&connection, asked);
        let receiver = || self.receiver();
        let run = |plan: &FlowPlan, id: FlowId, before: usize| {
            let sends = plan.workload.sends();
            let head = match hello {
                Some(hello) if sends && has(upper::TRIP_TIMES | upper::BURSTS) => {
                    own_header(hello, is_reverse)
                }
                _ => Vec::new(),
            };
            let pattern = connection::pattern(length_of(plan), &head);
            let before = if sends { head.len() } else { before };
            if sends {
                let options = &plan.here.socket;
                Sending::apply(data.socket.as_fd(), options, peer.is_ipv6());
            }
            send_all(data.socket.as_fd(), &head)?;
            let orders = Orders {
                flow: plan,
                data,
                pattern: &pattern,
                group: None,
                patience: PATIENCE,
                is_duplex,
                before,
                counts_reads: self.settings.print.enhanced,
                shape: &shape,
                receives_bursts: kind.map(|_| false),
                started: WallTime::now(),
                ends_with_peer: true,
                stop: server.cut,
            };
            let mut leg = connection::leg(id, plan, data, &connection)?;
            let sent = shape.frames.filter(|frames| frames.is_isochronous);
            let kind = if sends {
                sent.map(|_| Kind::Frames)
            } else {
                kind
            };
            leg.tallies = kind.map(|kind| Arc::new(Tallies::new(kind, width)));
            running.count(&leg.counters);
            running.ended(&traffic::run(&orders, &leg, &reports).ended);
            io::Result::Ok(())
        };
        match &sender {
            Some(sender) if is_reverse => run(sender, self.id(number, false), 0),
            Some(sender) if is_duplex => std::thread::scope(|scope| {
                let sends = scope.spawn(|| run(sender, self.id(number, true), 0));
                let got = run(&receiver(), self.id(number, false), greeting.bytes);
                sends.join().unwrap_or(Ok(())).and(got)
            }),
            Some(sender) if hello.is_some_and(|hello| hello.flags & flags::VERSION1 != 0) => {
                let hello = hello.map_or(0, |hello| hello.flags);
                let port = greeting.hello.as_ref().map_or(0, |hello| hello.port);
                let back = || self.back((peer, port), sender, &reports, server, running);
                if hello & flags::RUN_NOW == 0 {
                    run(&receiver(), self.id(number, false), greeting.bytes)?;
                    // The client's clock runs until this end of the connection.
                    let _ = sys::call::shutdown_write(data.socket.as_fd());
                    back();
                    return Ok(());
                }
                std::thread::scope(|scope| {
                    scope.spawn(back);
                    run(&receiver(), self.id(number, false), greeting.bytes)
                })
            }
            _ => run(&receiver(), self.id(number, false), greeting.bytes),
        }
    }

    /// The connection line.
    fn connection(
        &self,
        data: &DataSocket,
        peer: &Address,
        number: u32,
        hello: Option<&Hello>,
        asked: Option<Frames>,
    ) -> Connection {
        let id = self.id(number, false);
        let mut connection = connection::of_socket(id, data, peer.clone(), Transport::Tcp);
        let version = hello.and_then(|hello| hello.extension);
        let upper = version.map_or(0, |extension| extension.upper);
        connection.is_reverse = upper & upper::REVERSE != 0;
        connection.is_full_duplex = upper & upper::FULL_DUPLEX != 0;
        connection.peer_version = version.and_then(|extension| version_name(extension.version));
        connection.upper = upper;
        let service = version.map(|extension| (extension.type_of_service, 0));
        connection.service = service.filter(|_| self.sending.service.is_none());
        connection.has_trip_times = self.trusts(hello, upper::TRIP_TIMES, "--trip-times");
        if !self.trusts(hello, upper::EPOCH_START, "--txstart-time") {
            connection.upper &= !upper::EPOCH_START;
        }
        connection.burst_period = asked
            .filter(|frames| !frames.is_isochronous && !connection.is_reverse)
            .map(|frames| frames.period);
        if connection.is_reverse || connection.is_full_duplex {
            connection.started = None;
        }
        if self.settings.compatible {
            connection.tcp = None;
        }
        connection
    }

    fn receiver(&self) -> FlowPlan {
        let settings = &self.settings;
        let plan = flow(
            Transport::Tcp,
            settings.length,
            settings.rate,
            Limit::Unlimited,
            &settings.socket,
        );
        let pacing = plan.here.pacing;
        let mut plan = plan.turned();
        plan.here.pacing = pacing;
        plan
    }

    /// What the client has this end send.
    fn sender(&self, hello: &Hello) -> FlowPlan {
        let length = match hello.length {
            0 => self.settings.length,
            length => length.min(MOST_LENGTH),
        };
        let limit = match hello.amount {
            Amount::Bytes(0) => Limit::Unlimited,
            Amount::Bytes(bytes) => Limit::Bytes(bytes.into()),
            Amount::Time(time) => Limit::Time(time),
        };
        let rate = hello
            .extension
            .map(|extension| extension.rate as f64)
            .filter(|rate| *rate > 0.0);
        let asked = hello.extension.map(|extension| extension.type_of_service);
        let socket = self.sending.with(&self.settings.socket, asked);
        flow(Transport::Tcp, length, rate, limit, &socket)
    }

    /// Whether a client's start is a time of a synchronised clock, of a header that asks for this.
    fn trusts(&self, hello: Option<&Hello>, bit: u16, name: &str) -> bool {
        /// The most that the clocks may differ by.
        const APART: Duration = Duration::from_secs(600);
        let Some(hello) = hello.filter(|hello| hello.has(bit)) else {
            return false;
        };
        let start = hello.start.unwrap_or_default().at.since_epoch();
        let now = WallTime::now().since_epoch();
        let ahead = if bit == upper::EPOCH_START {
            LATEST_START
        } else {
            APART
        };
        let trusts = start + APART > now && start < now + ahead;
        if !trusts {
            self.observer.see(&Event::Said(format!(
                "WARN: ignore {name} because client didn't provide valid start timestamp within 600 seconds of now"
            )));
        }
        trusts
    }

    /// Acknowledges a header, unless it is one of iperf 2.0.5 or older, or of a test that has no acknowledgement.
    fn acknowledge(
        &self,
        data: &DataSocket,
        hello: Option<&Hello>,
        has_trip_times: bool,
    ) -> io::Result<()> {
        let Some(hello) = hello.filter(|hello| hello.flags & flags::EXTEND != 0) else {
            return Ok(());
        };
        let is_quiet = hello.flags & flags::VERSION2 != 0 && hello.flags & flags::PEER_DETECT == 0;
        if is_quiet || self.settings.compatible {
            return Ok(());
        }
        let times = hello.start.filter(|_| has_trip_times);
        let bytes =
            Acknowledgement::new(times.map(|start| [start.at, WallTime::now(), WallTime::now()]))
                .encode();
        match sys::call::send_without_waiting(data.socket.as_fd(), &bytes) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects to the client's port, and sends.
    fn back(
        &self,
        (peer, port): (&Address, u32),
        sender: &FlowPlan,
        reports: &Arc<ReportGroup>,
        server: ServerContext<'_>,
        running: &Running,
    ) {
        let Some(to) = peer.with_port(port) else {
            return self.trouble(format!("tcp connect failed: {port} is no port"));
        };
        let local = to.anywhere().with_any_port();
        let data = DataSocket::open(
            Transport::Tcp,
            &local,
            &self.settings.socket,
            End::Initiator,
        );
        let data = match data {
            Ok(data) => data,
            Err(error) => return self.trouble(error.to_string()),
        };
        let (in_time, _deadline) = server.cut.follower_until(Instant::now() + CONNECT);
        if let Err(error) = engine::connect(&data.socket, &to, &in_time) {
            return self.trouble(format!("tcp connect failed: {error}"));
        }
        let number = self.numbers.next();
        let length = length_of(sender);
        self.observer.see(&Event::Connecting {
            host: &to.ip().map(|ip| ip.to_string()).unwrap_or_default(),
            port: port as u16,
            window: data.facts.send_buffer_bytes,
            flows: 1,
            length,
            rate: None,
            is_own: false,
        });
        let id = self.id(number, true);
        let mut connection: Connection =
            connection::of_socket(id.clone(), &data, to, Transport::Tcp);
        connection.is_reverse = true;
        self.observer.see(&Event::Connected(&connection));
        let pattern = connection::pattern(length, &[]);
        let orders = Orders {
            flow: sender,
            data: &data,
            pattern: &pattern,
            group: None,
            patience: PATIENCE,
            is_duplex: false,
            before: 0,
            counts_reads: self.settings.print.enhanced,
            shape: &Shape::default(),
            receives_bursts: None,
            started: WallTime::now(),
            ends_with_peer: true,
            stop: server.cut,
        };
        match connection::leg(id, sender, &data, &connection) {
            Ok(leg) => {
                running.count(&leg.counters);
                running.ended(&traffic::run(&orders, &leg, reports).ended);
            }
            Err(error) => self.trouble(sys::describe(&error)),
        }
    }
}

/// A test as the registry has it.
pub(crate) fn test_of(protocol: &str, hello: Option<&Hello>) -> Test {
    let has = |bits| hello.is_some_and(|hello| hello.has(bits));
    let direction = match hello {
        _ if has(upper::REVERSE) => " reverse",
        _ if has(upper::FULL_DUPLEX) => " full duplex",
        Some(hello) if hello.flags & flags::VERSION1 != 0 => " both ways",
        _ => "",
    };
    let length = hello.and_then(|hello| match hello.amount {
        Amount::Time(time) => Some(time),
        Amount::Bytes(_) => None,
    });
    Test {
        name: format!("{protocol}{direction}"),
        length,
    }
}

/// The frames or bursts that a header announces or asks for.
fn asked_frames(hello: &Hello) -> Option<Frames> {
    let is_isochronous = hello.has(upper::ISOCHRONOUS);
    Frames::asked(hello.bursts.as_ref()?, is_isochronous)
}

/// Returns the way of sending that a client requests.
fn asked_shape(hello: &Hello, frames: Option<Frames>) -> Shape {
    let extension = hello.extension.unwrap_or_default();
    let prefetch = hello.has(upper::PREFETCH) && extension.prefetch > 0;
    Shape {
        frames,
        prefetch: prefetch.then_some(extension.prefetch),
        has_records: frames.is_some() || hello.has(upper::TRIP_TIMES),
        ..Shape::default()
    }
}

/// Returns new tallies of received bursts, if their records have times.
fn received_kind(connection: &Connection, asked: Option<Frames>) -> Option<Kind> {
    match asked.filter(|frames| !frames.is_isochronous) {
        Some(Frames { period, .. }) => Some(Kind::Bursts { period }),
        None if !connection.has_trip_times => None,
        None if connection.upper & upper::ISOCHRONOUS != 0 => Some(Kind::Frames),
        None => Some(Kind::TripTimes),
    }
}

/// Does what a header asks for beside the test.
fn heed(data: &DataSocket, connection: &Connection, stop: &Stop) {
    if connection.upper & upper::QUICK_ACK != 0 {
        // It is a wish.
        let quick = sys::option::TcpOption::QuickAck;
        let _ = sys::option::set_tcp(data.socket.as_fd(), quick, 1);
    }
    if connection.upper & upper::EPOCH_START != 0 && !connection.is_reverse {
        // The time of the test begins with its data.
        let until = Instant::now() + LATEST_START;
        let _ = stop.wait_readable(data.socket.as_fd(), until);
    }
}

/// What a stream of this end's begins with whose bursts have records.
fn own_header(asked: &Hello, is_reverse: bool) -> Vec<u8> {
    let mut hello = asked.clone();
    if let (Some(extension), true) = (&mut hello.extension, is_reverse) {
        hello.flags &= !flags::VERSION2;
        extension.upper &= !upper::REVERSE;
    }
    if let Some(start) = &mut hello.start {
        start.at = WallTime::now();
    }
    hello.key = None;
    hello.flags &= !flags::KEY;
    hello.encode(Over::Stream)
}

fn send_all(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match sys::call::send(socket, bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(sys::call::Error::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Pulls a server's stop at the end of its time.
pub(crate) fn end_after(time: Option<Duration>, stop: &Stop) -> Option<Promise<'static>> {
    time.map(|time| deadline_thread().at(Instant::now() + time, stop))
}
