//! The client: connects, says what it wants, and runs its ends of the flows. TCP; `udp/client.rs` has datagrams.

mod bounce;
mod connect_only;

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};

use engine::{DataSocket, FlowGroup, GroupMember, Reading, Reason, Role as End, Stop};
use model::{Ended, FlowPlan, Group, Half, Limit, Outcome, Plan, Sample, Series, Transport};
use sys::resolve::{Wanted, resolve};
use sys::{Address, call};

use crate::connection::{self, Numbers};
use crate::event::{Connection, Event, FlowId, Observer};
use crate::options::{Client, Direction, Frames, PermitKey, Role, Settings, Shape};
use crate::tally::{Kind, Tallies};
use crate::traffic::{self, Company, Leg, Orders, Went};
use crate::wire::{Acknowledgement, Amount, Extension, Hello, Over, Start, WallTime, flags};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(20);

/// How long the server's end is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the server's connection of `-d` and `-r` is waited for.
pub(crate) const BACK: Duration = Duration::from_secs(3);

/// How long an acknowledgement is waited for.
const ACKNOWLEDGED: Duration = Duration::from_secs(4);

/// A client at work.
pub(crate) struct Run<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) client: &'a Client,
    pub(crate) observer: &'a Arc<dyn Observer>,
    pub(crate) stop: &'a Stop,
    pub(crate) to: Address,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) company: Arc<Company>,
    failure: OnceLock<String>,
    connect_times: Mutex<Vec<Option<Duration>>>,
    started: (Instant, SystemTime),
    results: Mutex<Vec<(Outcome, Duration)>>,
    series: Mutex<Vec<Series>>,
    banner: Mutex<bool>,
}

/// How a client's run went.
pub struct Finished {
    /// What was measured; `None` if nothing was.
    pub outcome: Option<Outcome>,
    /// What failed first.
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
    let (host, _) = client.host.split_once('%').unwrap_or((&client.host, ""));
    let wanted = match (settings.v6, host.contains(':')) {
        (true, _) => Wanted::V6,
        (false, true) => Wanted::Any,
        (false, false) => Wanted::V4,
    };
    let found = resolve(host, wanted)
        .ok()
        .and_then(|found| found.at(settings.ports.0).into_iter().next())
        .ok_or_else(|| format!("{host}: Unknown host"))
        .and_then(|to| scoped(&to, client.host.split_once('%')));
    let to = match found {
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
        company: Company::new(Arc::clone(observer), settings.print.interval),
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

/// The address with the interface that `host%device` names, where IPv6 needs one: a group, or an address of a link.
fn scoped(to: &Address, named: Option<(&str, &str)>) -> Result<Address, String> {
    let (Address::Inet(SocketAddr::V6(address)), Some((_, device))) = (to, named) else {
        return Ok(to.clone());
    };
    let ip = address.ip();
    if !ip.is_multicast() && !ip.is_unicast_link_local() {
        return Ok(to.clone());
    }
    let index = sys::interface::index_of(device)
        .map_err(|error| format!("{device}: {}", sys::describe(&error)))?;
    let scoped = SocketAddrV6::new(*ip, address.port(), 0, index);
    Ok(Address::Inet(scoped.into()))
}

/// So many addresses further.
fn further(address: &Address, by: u32) -> Address {
    let Address::Inet(socket) = address else {
        return address.clone();
    };
    let mut next = *socket;
    next.set_ip(match socket.ip() {
        IpAddr::V4(ip) => IpAddr::V4(u32::from(ip).wrapping_add(by).into()),
        IpAddr::V6(ip) => IpAddr::V6(u128::from(ip).wrapping_add(by.into()).into()),
    });
    Address::Inet(next)
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

    /// Keeps how a flow went.
    pub(crate) fn keep(&self, flow: &FlowPlan, went: Went) {
        if let Ended::Failed(why) = &went.ended {
            let _ = self.failure.set(why.clone());
        }
        let (began, started) = self.started;
        let after = began
            .elapsed()
            .saturating_sub(went.side.elapsed.unwrap_or_default());
        let plan = Plan::of_flow("", self.client.host.clone(), flow.clone());
        let outcome = Outcome::of_flow(plan, started + after, went.side, went.there, went.ended);
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.push((outcome, after));
    }

    /// Runs a flow, which is looked at meanwhile if there is to be a document.
    pub(crate) fn sampled<T>(&self, leg: &Leg, run: impl FnOnce() -> T) -> T {
        const GRID: Duration = Duration::from_millis(100);
        if !self.client.json && self.client.html.is_none() {
            return run();
        }
        let look = |_: &Reading, sample: Option<&mut Sample>| {
            if let Some(sample) = sample {
                sample.path = engine::path_sample(leg.socket.as_fd());
                sample.datagrams = leg.counters.datagrams();
            }
        };
        let counters = [Arc::clone(&leg.counters)];
        let (running, ended) = mpsc::channel();
        std::thread::scope(|scope| {
            let samples = scope.spawn(|| {
                let ended = ended;
                engine::sample_until(&ended, &counters, GRID, None, look)
            });
            let done = run();
            drop(running);
            let series = Series {
                name: format!("flow {}", leg.id.number),
                begun: Duration::ZERO,
                samples: samples.join().unwrap_or_default(),
            };
            let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(series);
            done
        })
    }

    /// Where a flow goes: each port of a range has one.
    pub(crate) fn target(&self, flow: u32) -> Result<Address, String> {
        let (first, last) = self.settings.ports;
        let increments = self.client.increments;
        let is_next = first != last || increments.port;
        let port = u32::from(first) + if is_next { flow } else { 0 };
        let to = if increments.host {
            further(&self.to, flow)
        } else {
            self.to.clone()
        };
        let to = to.with_port(port);
        to.ok_or_else(|| format!("{port} is no port"))
    }

    /// Tells of a connection.
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

    /// Where the flow binds: `-B`, with a port of its own if one is given.
    pub(crate) fn local(&self, flow: u32) -> Result<Address, String> {
        let anywhere = self.to.anywhere().with_any_port();
        let Some(bind) = &self.settings.bind else {
            return Ok(anywhere);
        };
        let (bind, _) = bind.split_once('%').unwrap_or((bind, ""));
        let (host, port) = match bind.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None if bind.matches(':').count() == 1 => {
                let (host, port) = bind.split_once(':').unwrap_or((bind, ""));
                (host, Some(port))
            }
            None => (bind, None),
        };
        let port: u32 = match port.map(str::parse) {
            None => 0,
            Some(Ok(port)) => port,
            Some(Err(_)) => return Err(format!("{bind}: its port is not a number")),
        };
        let wanted = if self.to.is_ipv6() {
            Wanted::V6
        } else {
            Wanted::V4
        };
        let found = resolve(host, wanted).map_err(|_| format!("{host}: Unknown host"))?;
        let port = if port == 0 { 0 } else { port + flow };
        let address = found.addresses.into_iter().next().map(|address| {
            let is_next = self.client.increments.source;
            further(&address, if is_next { flow } else { 0 })
        });
        let address = address.and_then(|address| address.with_port(port));
        address.ok_or_else(|| format!("{bind}: no address with this port"))
    }

    /// Opens the socket of a flow.
    pub(crate) fn open(&self, flow: u32) -> Result<DataSocket, String> {
        let local = self.local(flow)?;
        let plan = self.client.plan.flow().map(|flow| flow.here.socket.clone());
        let options = plan.unwrap_or_default();
        let data = DataSocket::open(self.settings.transport, &local, &options, End::Initiator);
        let data = data.map_err(|error| match error.what() {
            "bind it" => format!("bind failed: {}", sys::describe(error.error())),
            _ => error.to_string(),
        })?;
        for refused in &data.refused {
            let (name, why) = (&refused.asked, &refused.why);
            let line = format!("Attempt to set '{name}' congestion control failed: {why}");
            self.observer.see(&Event::Trouble(line));
        }
        Ok(data)
    }

    /// Connects a flow's socket, if need be again.
    fn connect(&self, flow: u32) -> Option<(DataSocket, Duration)> {
        let mut tries = self.client.retries;
        loop {
            let data = match self.open(flow) {
                Ok(data) => data,
                Err(why) => {
                    self.announce(None);
                    self.fail(why);
                    return None;
                }
            };
            self.announce(Some(&data));
            let began = Instant::now();
            let (in_time, _deadline) = self.stop.follower_until(began + CONNECT);
            let to = self.target(flow).ok()?;
            let Err(error) = engine::connect(&data.socket, &to, &in_time) else {
                return Some((data, began.elapsed()));
            };
            let why = match error {
                engine::ConnectError::Failed(error) => sys::describe(&error),
                engine::ConnectError::Stopped(_) => "Connection timed out".to_owned(),
            };
            let line = format!("tcp connect failed: {why}");
            if tries == 0 || self.stop.is_set() {
                self.fail(line);
                return None;
            }
            self.observer.see(&Event::Trouble(line));
            tries -= 1;
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Keeps how long a connection took, `None` if there is none.
    fn connected_in(&self, time: Option<Duration>) {
        let times = self.connect_times.lock();
        times.unwrap_or_else(PoisonError::into_inner).push(time);
    }

    fn streams(&self) {
        let flows = self.client.plan.flows();
        let group = FlowGroup::new(flows as usize, Half::default());
        let back = match self.listen() {
            Ok(back) => back,
            Err(why) => return self.fail(why),
        };
        std::thread::scope(|scope| {
            let forward_done = Stop::new();
            let forwards: Vec<_> = (0..flows)
                .map(|flow| {
                    let member = self.client.together.then(|| group.member());
                    scope.spawn(move || self.stream(flow, member))
                })
                .collect();
            let receives = back.map(|listener| {
                let done = forward_done.clone();
                scope.spawn(move || self.receive_back(&listener, &done))
            });
            let mut any = false;
            for forward in forwards {
                any |= forward.join().unwrap_or(false);
            }
            forward_done.pull(if any {
                Reason::Deadline
            } else {
                Reason::Cancelled
            });
            receives.map(std::thread::ScopedJoinHandle::join)
        });
        if flows > 1 {
            self.tell_connect_times();
        }
    }

    fn tell_connect_times(&self) {
        let times = self.connect_times.lock();
        let times = times.unwrap_or_else(PoisonError::into_inner);
        self.observer.see(&Event::ConnectTimes(&times));
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
            self.tell_connect_times();
        }
    }

    /// A client with other settings, whose flows are reported with these.
    fn beside<'b>(&'b self, settings: &'b Settings, client: &'b Client) -> Run<'b> {
        Run {
            settings,
            client,
            observer: self.observer,
            stop: self.stop,
            to: self.to.clone(),
            numbers: Arc::clone(&self.numbers),
            company: Arc::clone(&self.company),
            failure: OnceLock::new(),
            connect_times: Mutex::default(),
            started: self.started,
            results: Mutex::default(),
            series: Mutex::default(),
            banner: Mutex::new(true),
        }
    }

    /// Waits until then; `false` at the stop.
    pub(crate) fn sleep_until(&self, until: Instant) -> bool {
        let _attending = self.stop.attend();
        while !self.stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let until_ns = sys::clock::monotonic_ns().saturating_add(left.as_nanos() as u64);
            // The stop interrupts it.
            let _ = sys::clock::sleep_until(until_ns);
        }
        false
    }

    /// Waits until a flow's traffic begins (`--txstart-time`, `--txdelay-time`), and says so.
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

    /// Runs one flow; whether it was connected.
    fn stream(&self, flow: u32, member: Option<GroupMember<'_>>) -> bool {
        let number = self.numbers.next();
        let connected = self.connect(flow);
        self.connected_in(connected.as_ref().map(|(_, time)| *time));
        let Some((data, connect_time)) = connected else {
            let connection = connection::unconnected(self.id(number, false), self.to.clone());
            self.observer.see(&Event::Connected(&connection));
            return false;
        };
        let direction = self.client.direction;
        let (is_reverse, is_duplex) = (
            direction == Direction::Reverse,
            direction == Direction::FullDuplex,
        );
        let id = self.id(number, false);
        let to = Address::of_peer(&data.socket).unwrap_or_else(|_| self.to.clone());
        let mut connection = connection::of_socket(id, &data, to, Transport::Tcp);
        connection.is_reverse = is_reverse;
        connection.is_full_duplex = is_duplex;
        connection.connect_time = Some(connect_time);
        self.note(&mut connection);
        self.see_connected(&connection);
        self.wait_to_begin(number);
        let group = match member {
            // The others start without one that could not be connected.
            Some(member) => member.start(),
            None => None,
        };
        let asked = self.hello();
        let started = asked.start.map_or_else(WallTime::now, |start| start.at);
        let hello = if self.settings.compatible {
            Vec::new()
        } else {
            asked.encode(Over::Stream)
        };
        if let Err(why) = self.greet(&data, &hello) {
            self.fail(why);
            return true;
        }
        let pattern = connection::pattern(self.settings.length, &hello);
        let plans = self.plans();
        std::thread::scope(|scope| {
            for plan in &plans {
                let (connection, data, pattern, hello) = (&connection, &data, &pattern, &hello);
                scope.spawn(move || {
                    let inbound = !plan.workload.sends();
                    let orders = Orders {
                        flow: plan,
                        data,
                        pattern,
                        group: group.filter(|_| !is_duplex),
                        patience: self.patience(),
                        is_duplex,
                        before: if inbound { 0 } else { hello.len() },
                        counts_reads: self.settings.print.enhanced,
                        shape: &self.client.shape,
                        receives_bursts: self.receives_bursts().then_some(true),
                        started,
                        stop: self.stop,
                    };
                    match connection::leg(self.id(number, inbound), plan, data, connection) {
                        Ok(mut leg) => {
                            leg.tallies = self.tallies(inbound);
                            let run = || traffic::run(&orders, &leg, &self.company);
                            self.keep(plan, self.sampled(&leg, run));
                        }
                        Err(error) => self.fail(sys::describe(&error)),
                    }
                });
            }
        });
        true
    }

    /// What connection lines say of what is asked for.
    pub(crate) fn note(&self, connection: &mut Connection) {
        let client = self.client;
        connection.has_trip_times = client.trip_times;
        connection.upper = self.upper() & !flags::upper::BURSTS;
        connection.prefetch = client.shape.prefetch;
        let service = self.settings.socket.type_of_service.unwrap_or(0);
        // Which of them it is said to be is stock's.
        connection.service = Some(if client.direction == Direction::Reverse {
            (0, service)
        } else {
            (service, 0)
        });
    }

    /// Whether the server's stream has bursts with records whose times are wanted.
    fn receives_bursts(&self) -> bool {
        let bursts = |frames: Frames| !frames.is_isochronous;
        self.client.trip_times || self.client.shape.frames.is_some_and(bursts)
    }

    /// What is kept of bursts, frames or calls.
    pub(crate) fn tallies(&self, inbound: bool) -> Option<Arc<Tallies>> {
        let (shape, is_udp) = (&self.client.shape, self.settings.is_udp());
        let period = shape
            .frames
            .map(|frames| (frames.is_isochronous, frames.period));
        let kind = match (inbound, period) {
            (false, Some((true, _))) => Kind::Frames,
            (false, _) if shape.times_writes => Kind::Writes,
            (true, Some((false, period))) if !is_udp => Kind::Bursts { period },
            (true, Some((true, _))) if self.client.trip_times => Kind::Frames,
            (true, _) if self.client.trip_times && !is_udp => Kind::TripTimes,
            (true, _) if is_udp && self.settings.print.bins.is_some() => Kind::Datagrams,
            _ => return None,
        };
        let width = self.settings.print.bins.map(|bins| bins.width);
        Some(Arc::new(Tallies::new(kind, width)))
    }

    /// What each direction of a connection does here.
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

    /// Sends the header, and waits for its acknowledgement if that is wanted.
    fn greet(&self, data: &DataSocket, hello: &[u8]) -> Result<(), String> {
        let until = Instant::now() + ACKNOWLEDGED;
        let mut left = hello;
        while !left.is_empty() {
            match call::send(data.socket.as_fd(), left) {
                Ok(sent) => left = &left[sent..],
                Err(call::Error::INTR) if !self.stop.is_set() => {}
                Err(error) => {
                    return Err(format!(
                        "write failed: {}",
                        sys::describe(&std::io::Error::from(error))
                    ));
                }
            }
        }
        if !self.client.peer_detect {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let mut wanted = Acknowledgement::SHORT;
        while bytes.len() < wanted {
            let mut rest = [0; Acknowledgement::LONG];
            let readable = self.stop.wait_readable(data.socket.as_fd(), until);
            if !readable.map_err(|error| format!("recvack failed: {error}"))? {
                return Err(
                    "recvack failed: the server sent no acknowledgement within 4 s".to_owned(),
                );
            }
            let most = wanted - bytes.len();
            match call::receive(data.socket.as_fd(), &mut rest[..most]) {
                Ok(0) => return Err("recvack failed: the server closed the connection".to_owned()),
                Ok(count) => {
                    bytes.extend_from_slice(&rest[..count]);
                    // With trip times it has times of the server.
                    let length = bytes.first_chunk();
                    wanted = length.and_then(Acknowledgement::length).unwrap_or(wanted);
                }
                Err(call::Error::INTR) => {}
                Err(error) => {
                    return Err(format!(
                        "recvack failed: {}",
                        sys::describe(&std::io::Error::from(error))
                    ));
                }
            }
        }
        match Acknowledgement::decode(&bytes) {
            Some(_) => Ok(()),
            None => Err("recvack failed: what the server sent is no acknowledgement".to_owned()),
        }
    }

    /// What this client asks for.
    pub(crate) fn hello(&self) -> Hello {
        use flags::upper;
        let (settings, client) = (self.settings, self.client);
        let is_udp = settings.is_udp();
        let mut bits = flags::EXTEND;
        let upper_bits = self.upper();
        bits |= match client.direction {
            Direction::Forward => 0,
            Direction::Reverse | Direction::FullDuplex => flags::VERSION2,
            Direction::Dual => flags::VERSION1 | flags::RUN_NOW,
            Direction::TradeOff => flags::VERSION1,
        };
        if client.peer_detect {
            bits |= flags::VERSION2 | flags::PEER_DETECT;
        }
        let fq_rate = settings.socket.max_pacing_bytes_per_second;
        let is_asked = client.direction.sends_from_server();
        let frames = client.shape.frames;
        let bursts = frames.filter(|frames| is_asked || !frames.is_isochronous);
        let has_start = upper_bits
            & (upper::TRIP_TIMES | upper::FQ_RATE | upper::ISOCHRONOUS | upper::EPOCH_START);
        let scheduled = client.begin.at.map(WallTime::after_epoch);
        if is_udp {
            bits |= flags::WIDE_NUMBERS;
            bits |= if upper_bits != 0 { flags::UDP_TESTS } else { 0 };
        }
        let key = match &settings.permit_key {
            Some(PermitKey::This(key)) => Some(key.clone().into_bytes()),
            _ => None,
        };
        bits |= if key.is_some() { flags::KEY } else { 0 };
        let limit = client.plan.flow().map(|flow| flow.limit);
        Hello {
            flags: bits,
            flows: client.plan.flows(),
            port: if client.direction.has_connection_back() {
                client.listen_port.into()
            } else {
                settings.ports.0.into()
            },
            length: if client.has_length {
                settings.length
            } else {
                0
            },
            window: 0,
            amount: match limit {
                Some(Limit::Bytes(bytes)) => {
                    Amount::Bytes(u32::try_from(bytes).unwrap_or(u32::MAX))
                }
                Some(Limit::Time(time)) => Amount::Time(time),
                _ => Amount::Time(Duration::MAX),
            },
            extension: Some(Extension {
                upper: upper_bits,
                type_of_service: settings.socket.type_of_service.unwrap_or(0),
                rate: client.asked_rate,
                prefetch: client.shape.prefetch.filter(|_| is_asked).unwrap_or(0),
                ..Extension::default()
            }),
            start: (has_start != 0).then(|| Start {
                at: scheduled.unwrap_or_else(WallTime::now),
                fq_rate: fq_rate.unwrap_or(0),
            }),
            bursts: bursts.as_ref().map(Frames::ask),
            key,
        }
    }

    /// The header's upper flags.
    fn upper(&self) -> u16 {
        use flags::upper;
        let (client, is_udp) = (self.client, self.settings.is_udp());
        let socket = &self.settings.socket;
        let is_asked = client.direction.sends_from_server();
        let isochronous = client.shape.frames.map(|frames| frames.is_isochronous);
        let is_duplex = client.direction == Direction::FullDuplex;
        let mut bits = client.asks;
        for (is_set, bit) in [
            (client.direction == Direction::Reverse, upper::REVERSE),
            (is_duplex, upper::FULL_DUPLEX),
            (client.no_udp_fin || (is_duplex && is_udp), upper::NO_FIN),
            (client.trip_times, upper::TRIP_TIMES),
            (socket.max_pacing_bytes_per_second.is_some(), upper::FQ_RATE),
            (isochronous == Some(true), upper::ISOCHRONOUS),
            (
                isochronous == Some(true) && is_udp && is_asked,
                upper::SETTINGS,
            ),
            (isochronous == Some(false), upper::BURSTS),
            (client.shape.prefetch.is_some() && is_asked, upper::PREFETCH),
            (client.begin.at.is_some(), upper::EPOCH_START),
        ] {
            bits |= if is_set { bit } else { 0 };
        }
        bits
    }

    /// Listens for the server's connection of `-d` and `-r`.
    fn listen(&self) -> Result<Option<sys::Socket>, String> {
        if !self.client.direction.has_connection_back() {
            return Ok(None);
        }
        let port = self.client.listen_port;
        let at = self.to.anywhere().with_port(port.into());
        let at = at.ok_or("listener bind failed: no such port")?;
        let listeners = server::listen(Transport::Tcp, &[at], false);
        let listeners = listeners
            .map_err(|error| format!("listener bind failed: {}", sys::describe(&error)))?;
        let listener = listeners.into_iter().next();
        let window = listener
            .as_ref()
            .and_then(|one| one.recv_buffer_size().ok());
        self.observer.see(&Event::Listening {
            ports: (port, port),
            window: window.unwrap_or(0) as u32,
            joins: None,
        });
        Ok(listener)
    }

    /// Takes the server's connections, one for each flow, and runs the receivers.
    fn receive_back(&self, listener: &sys::Socket, forward_done: &Stop) {
        // A client has no sum of both directions.
        let company = Company::new(Arc::clone(self.observer), self.settings.print.interval);
        for _ in 0..self.client.plan.flows() {
            let Some(socket) = self.accept_back(listener, forward_done) else {
                return self.fail("ERROR: expected reverse connect did not occur");
            };
            let options = self.settings.socket.clone();
            let Ok(data) = DataSocket::of_accepted(socket, Transport::Tcp, &options) else {
                continue;
            };
            let number = self.numbers.next();
            let Ok(peer) = Address::of_peer(&data.socket) else {
                continue;
            };
            let back = self.client.plan.groups.last();
            let Some(flow) = back.and_then(Group::flow) else {
                continue;
            };
            let mut connection =
                connection::of_socket(self.id(number, false), &data, peer, Transport::Tcp);
            connection.tcp = None;
            self.observer.see(&Event::Connected(&connection));
            let orders = Orders {
                flow,
                data: &data,
                pattern: &[],
                group: None,
                patience: self.patience(),
                is_duplex: false,
                before: 0,
                counts_reads: self.settings.print.enhanced,
                shape: &Shape::default(),
                receives_bursts: None,
                started: WallTime::now(),
                stop: self.stop,
            };
            match connection::leg(self.id(number, false), flow, &data, &connection) {
                Ok(leg) => {
                    let run = || traffic::run(&orders, &leg, &company);
                    self.keep(flow, self.sampled(&leg, run));
                }
                Err(error) => self.fail(sys::describe(&error)),
            }
        }
    }

    /// The next connection from the server's host, until some time after the forward flows.
    fn accept_back(&self, listener: &sys::Socket, forward_done: &Stop) -> Option<sys::Socket> {
        let mut until = None;
        while !self.stop.is_set() {
            if forward_done.is_set() {
                if forward_done.reason() == Some(Reason::Cancelled) {
                    return None;
                }
                until = until.or(Some(Instant::now() + BACK));
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            let look = Instant::now() + Duration::from_millis(50);
            if !self
                .stop
                .wait_readable(listener.as_fd(), look)
                .unwrap_or(false)
            {
                continue;
            }
            if let Ok((socket, from)) = call::accept_from(listener.as_fd()) {
                let from = from.and_then(|peer| peer.address());
                if from.is_some_and(|from| from.shares_host_with(&self.to)) {
                    return Some(socket.into());
                }
            }
        }
        None
    }

    fn finish(self) -> Finished {
        let results = self.results.into_inner();
        let mut results = results.unwrap_or_else(PoisonError::into_inner);
        // The plan begins with the flows that send.
        results.sort_by_key(|(outcome, _)| !outcome.plan.sends());
        let first = results.iter().map(|(_, after)| *after).min();
        for (_, after) in &mut results {
            *after -= first.unwrap_or_default();
        }
        let series = self.series.into_inner();
        let mut series = series.unwrap_or_else(PoisonError::into_inner);
        // A short flow has none.
        series.retain(|series| !series.samples.is_empty());
        series.sort_by(|one, other| one.name.cmp(&other.name));
        let outcome = Outcome::sum(results).map(|sum| {
            let mut plan = self.client.plan.clone();
            if let (Some(planned), Some(flow)) = (plan.flow_mut(), sum.plan.flow()) {
                planned.clone_from(flow);
            }
            Outcome {
                plan,
                series,
                ..sum
            }
        });
        Finished {
            error: match self.failure.into_inner() {
                None if outcome.is_none() && self.client.connect_only.is_none() => {
                    Some("nothing was measured".to_owned())
                }
                failure => failure,
            },
            outcome,
            peer: Some(self.to),
        }
    }
}
