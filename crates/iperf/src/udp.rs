//! Datagrams, at both ends: numbered, stamped, and ended by a negative number, which the receiver answers with its
//! report.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use engine::{
    Budget, Buffers, DataSocket, Early, Flow, Holder, Loop, MeasuredPhase, Memory, PhaseSettings,
    Share, Stop, datagram_branch, datagram_listener,
};
use model::{DatagramCounts, Ended, FlowPlan, Limit, Side, SizeRule, Transport};
use sys::{Address, Socket, call};

use crate::client::Run;
use crate::connection::{self, Numbers};
use crate::event::{Connection, Event, FlowId, Observer};
use crate::options::{Direction, Serve, Settings, flow, numbering};
use crate::server::{Begin, addresses, announce, end_after};
use crate::traffic::{Company, Leg, Went};
use crate::wire::flags::{self, upper};
use crate::wire::{
    Amount, DatagramHeader, Hello, LatencyReport, Over, ServerReport, WallTime, version_name,
};

/// The largest payload of a datagram.
const LARGEST: u32 = 65_507;

/// How often the last datagram is sent, and how long each answer is waited for.
const LAST_TRIES: u32 = 200;
const ANSWER: Duration = Duration::from_millis(10);

/// How often a client asks for data, and how long it waits in between.
const ASK_TRIES: u32 = 100;
const ASK: Duration = Duration::from_millis(20);

/// How long a server answers more of the last datagrams.
const MORE: Duration = Duration::from_millis(250);
const MOST_ANSWERS: u32 = 200;

/// How long a flow may stand still: a datagram a minute is the slowest rate.
const IDLE: Duration = Duration::from_secs(70);

/// How much longer than its time a receiver waits for a sender that says nothing.
const SLACK: Duration = Duration::from_secs(2);

/// Runs one direction of a connected datagram socket. A sender marks its end afterwards.
struct OneWay<'a> {
    flow: &'a FlowPlan,
    data: &'a DataSocket,
    pattern: &'a [u8],
    early: Early,
    stop: &'a Stop,
    /// A sender waits for the other end's report.
    wants_report: bool,
    wide: bool,
}

impl OneWay<'_> {
    fn run(self, leg: &Leg, company: &Arc<Company>) -> Result<Went, String> {
        let Self { flow, data, .. } = self;
        let memory = Memory::new(64 << 20, 64 << 20);
        let buffers = Buffers::new(
            &flow.here,
            &flow.workload,
            flow.transport,
            &data.facts,
            None,
            self.pattern,
            &memory,
        );
        let mut buffers = buffers.map_err(|error| error.to_string())?;
        let time = match flow.limit {
            Limit::Time(time) if leg.sends => Some(time),
            Limit::Time(time) => Some(time + SLACK),
            _ => None,
        };
        let settings = PhaseSettings {
            counters: &leg.counters,
            cancel: self.stop,
            control: None,
            time,
            idle: Some(IDLE),
            group: None,
        };
        let limit = match flow.limit {
            Limit::Bytes(_) if !leg.sends => Limit::Unlimited,
            // Datagrams are whole.
            Limit::Bytes(bytes) => {
                Limit::Messages(bytes.div_ceil(self.pattern.len().max(1) as u64))
            }
            other => other,
        };
        let mut phase = MeasuredPhase::start(&flow.here, settings);
        company.enter(leg);
        let early = RefCell::new(self.early);
        let path = if leg.sends {
            Flow::Connected(data.socket.as_fd())
        } else {
            Flow::Early(data.socket.as_fd(), &early)
        };
        let ran = phase.run(limit, Loop::of(flow, &mut buffers), path);
        let mut answer = None;
        if leg.sends {
            let sent = leg.counters.counts().send_calls;
            let mut last = self.pattern.to_vec();
            answer = self::end(data, &mut last, sent, self.wide, self.wants_report, leg)?;
            phase.stop_clock();
        }
        let ended = ran.ended.clone();
        let facts = data.facts_at_end(&data.socket);
        let mut side = phase.side(ran, data, &buffers, facts);
        side.datagrams = side.datagrams.or(leg.counters.datagrams());
        let series = company.leave(leg, &side);
        // Reports count the datagram that marks the end apart; peers count it as one of all.
        side.counts.send_calls += u64::from(leg.sends);
        let has_come = !leg.sends && ended == Ended::PeerClosed;
        let there = match answer {
            Some(report) => Some(told(&report)),
            None => has_come.then(|| sender_of(&side)).flatten(),
        };
        if let Some(report) = answer {
            company.tell(&leg.id, report);
        }
        Ok(Went {
            side,
            there,
            ended,
            series,
        })
    }
}

/// Sends the last datagram until it is answered, and returns the answer.
fn end(
    data: &DataSocket,
    last: &mut [u8],
    sent: u64,
    wide: bool,
    wants_report: bool,
    leg: &Leg,
) -> Result<Option<ServerReport>, String> {
    if last.len() < DatagramHeader::NARROW {
        return Ok(None);
    }
    leg.counters.count_sent(last.len(), 0);
    let socket = data.socket.as_fd();
    let mut answer = [0; 2048];
    let tries = if wants_report { LAST_TRIES } else { 1 };
    let mut refused = None;
    for number in 1..=u64::from(tries) {
        let number = -i64::try_from(sent + number).unwrap_or(i64::MAX);
        DatagramHeader {
            number,
            sent: now(),
        }
        .write(last, wide);
        match call::send_without_waiting(socket, last) {
            Ok(_) | Err(call::Error::AGAIN | call::Error::NOBUFS) => {}
            Err(error) => refused = Some(sys::describe(&std::io::Error::from(error))),
        }
        if !wants_report {
            return Ok(None);
        }
        let until = Instant::now() + ANSWER;
        while let Ok(true) =
            call::wait_readable(socket, until.saturating_duration_since(Instant::now()))
        {
            match call::receive_without_waiting(socket, &mut answer) {
                // Echoes of what was sent, as stock has them after its first answer, are no report.
                Ok(received) => match ServerReport::decode(&answer[..received]) {
                    Some(report)
                        if report.is_possible(
                            leg.counters.counts().sent.0,
                            sent + number.unsigned_abs(),
                        ) =>
                    {
                        return Ok(Some(report));
                    }
                    Some(_) => {
                        return Err(
                            "the server's report is not possible: it is not shown".to_owned()
                        );
                    }
                    None => {}
                },
                Err(error) => refused = Some(sys::describe(&std::io::Error::from(error))),
            }
        }
        if number.unsigned_abs() > sent + 10
            && let Some(why) = refused
        {
            return Err(format!("read failed: {why}"));
        }
    }
    let line = format!("WARNING: did not receive ack of last datagram after {LAST_TRIES} tries.");
    Err(format!("[{:>3}] {line}", leg.id.number))
}

/// The server's figures as a side.
fn told(report: &ServerReport) -> Side {
    let mut side = Side {
        elapsed: Some(report.elapsed),
        ..Side::default()
    };
    side.counts.received = units::Bytes(report.bytes);
    side.counts.receive_calls = report.datagrams.saturating_sub(report.lost);
    let mut counts = DatagramCounts {
        received: report.datagrams.saturating_sub(report.lost),
        lost: report.lost,
        jitter: Some(report.jitter),
        ..DatagramCounts::default()
    };
    counts.by_order.highest = report.datagrams;
    counts.by_order.out_of_order = report.out_of_order;
    counts.by_order.passed_over = report.lost + report.out_of_order;
    side.datagrams = Some(counts);
    side
}

/// What the other end has sent, of which the last datagram has come: its number is that of all.
fn sender_of(receiver: &Side) -> Option<Side> {
    let sent = receiver.datagrams?.by_order.highest;
    let (bytes, datagrams) = (receiver.counts.received.0, receiver.counts.receive_calls);
    let length = bytes.checked_div(datagrams)?;
    let mut side = Side::default();
    side.counts.send_calls = sent;
    side.counts.sent = units::Bytes(sent.saturating_mul(length));
    Some(side)
}

fn now() -> WallTime {
    WallTime::after_epoch(
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default(),
    )
}

/// Runs a client's flows.
pub(crate) fn run_client(run: &Run<'_>) {
    let direction = run.client.direction;
    if direction.has_connection_back() {
        return run.fail("iperf: not supported yet: -d and -r with -u");
    }
    std::thread::scope(|scope| {
        for flow in 0..run.client.plan.flows() {
            scope.spawn(move || {
                if let Err(why) = client_flow(run, flow) {
                    run.fail(why);
                }
            });
        }
    });
    run.company.tell_all();
}

fn client_flow(run: &Run<'_>, flow: u32) -> Result<(), String> {
    let number = run.numbers.next();
    let data = run.open(flow)?;
    run.announce(Some(&data));
    engine::connect(&data.socket, &run.to, run.stop)
        .map_err(|error| format!("udp connect failed: {error}"))?;
    let direction = run.client.direction;
    let hello = run.hello();
    let no_fin = hello.has(upper::NO_FIN);
    let mut connection =
        connection::of_socket(run.id(number, false), &data, run.to.clone(), Transport::Udp);
    connection.is_reverse = direction == Direction::Reverse;
    connection.is_full_duplex = direction == Direction::FullDuplex;
    connection.has_trip_times = run.client.trip_times;
    connection.no_udp_fin = no_fin;
    run.observer.see(&Event::Connected(&connection));
    let mut pattern = connection::pattern(run.settings.length, &[]);
    if !run.settings.compatible {
        let hello = hello.encode(Over::Datagram);
        let room = pattern
            .len()
            .saturating_sub(DatagramHeader::WIDE)
            .min(hello.len());
        if room > 0 {
            pattern[DatagramHeader::WIDE..][..room].copy_from_slice(&hello[..room]);
        }
    }
    if direction == Direction::Reverse {
        ask(&data, &mut pattern.clone(), run.stop)?;
    }
    let groups = &run.client.plan.groups;
    std::thread::scope(|scope| {
        for plan in groups.iter().filter_map(|group| group.flow()) {
            let (data, pattern, connection) = (&data, &pattern, &connection);
            scope.spawn(move || {
                let inbound = !plan.workload.sends();
                let mut plan = plan.clone();
                plan.here.receive = model::BufferPlan::message(LARGEST);
                let one_way = OneWay {
                    flow: &plan,
                    data,
                    pattern,
                    early: Early::default(),
                    stop: run.stop,
                    wants_report: !no_fin,
                    wide: true,
                };
                let leg = connection::leg(run.id(number, inbound), &plan, data, connection);
                let went = leg.map_err(|error| sys::describe(&error));
                match went.and_then(|leg| one_way.run(&leg, &run.company)) {
                    Ok(went) if inbound && went.side.counts.received.0 == 0 => {
                        run.fail("recvn failed: the server sent nothing");
                        run.keep(&plan, went);
                    }
                    Ok(went) => run.keep(&plan, went),
                    Err(why) => run.fail(why),
                }
            });
        }
    });
    Ok(())
}

/// Asks for data until some comes.
fn ask(data: &DataSocket, request: &mut [u8], stop: &Stop) -> Result<(), String> {
    for _ in 0..ASK_TRIES {
        DatagramHeader {
            number: 1,
            sent: now(),
        }
        .write(request, true);
        if let Err(error) = call::send_without_waiting(data.socket.as_fd(), request) {
            return Err(format!(
                "recvn failed: {}",
                sys::describe(&std::io::Error::from(error))
            ));
        }
        if stop
            .wait_readable(data.socket.as_fd(), Instant::now() + ASK)
            .unwrap_or(true)
        {
            return Ok(());
        }
    }
    Err("recvn failed: the server sent nothing".to_owned())
}

/// A server of datagrams.
struct Door<'a> {
    settings: &'a Settings,
    serve: &'a Serve,
    observer: &'a Arc<dyn Observer>,
    stop: &'a Stop,
    listener: &'a Socket,
    bind: Address,
    numbers: Numbers,
    companies: std::sync::Mutex<std::collections::HashMap<std::net::IpAddr, Arc<Company>>>,
    places: Budget,
}

/// What a client's first datagrams are.
struct Caller {
    from: Address,
    datagrams: Vec<Vec<u8>>,
    socket: Socket,
    _place: Share,
}

pub(crate) fn run_server(
    settings: &Arc<Settings>,
    serve: &Serve,
    observer: &Arc<dyn Observer>,
    stop: &Stop,
    begin: &Begin<'_>,
) -> Result<(), String> {
    let address = addresses(settings)?.into_iter().next();
    let address = address.ok_or("listener bind failed: no address")?;
    if address.ip().is_some_and(|ip| ip.is_multicast()) {
        return Err("iperf: not supported yet: multicast groups".to_owned());
    }
    let listener = datagram_listener(Transport::Udp, &address, &settings.socket);
    let listener = listener
        .map_err(|error| format!("listener bind failed: {}", sys::describe(error.error())))?;
    if !begin()? {
        return Ok(());
    }
    announce(observer, std::slice::from_ref(&listener));
    let _ends = end_after(serve.time, stop);
    let door = Door {
        settings,
        serve,
        observer,
        stop,
        bind: Address::of(&listener).map_err(|error| sys::describe(&error))?,
        listener: &listener,
        numbers: Numbers::default(),
        companies: std::sync::Mutex::default(),
        places: Budget::new(serve.config.clients.into()),
    };
    door.open();
    Ok(())
}

impl Door<'_> {
    /// Gives each client a socket and a thread, until the stop.
    fn open(&self) {
        std::thread::scope(|scope| {
            let mut strangers: VecDeque<(Address, Vec<u8>)> = VecDeque::new();
            while !self.stop.is_set() {
                let Some((from, datagram)) = strangers.pop_front().or_else(|| self.wait()) else {
                    continue;
                };
                let is_first =
                    DatagramHeader::read(&datagram, false).is_some_and(|header| header.number >= 0);
                if !is_first || !self.admits(&from) {
                    continue;
                }
                match self.branch(from, datagram, &mut strangers) {
                    Ok(caller) => {
                        scope.spawn(move || self.attend(caller));
                    }
                    Err(why) => self.observer.see(&Event::Trouble(why)),
                }
            }
        });
    }

    fn admits(&self, from: &Address) -> bool {
        let networks = &self.serve.config.networks;
        let is_inside = |ip| networks.iter().any(|network| network.contains(ip));
        networks.is_empty() || from.ip().is_some_and(is_inside)
    }

    fn wait(&self) -> Option<(Address, Vec<u8>)> {
        let until = Instant::now() + Duration::from_secs(3600);
        self.stop.wait_readable(self.listener.as_fd(), until).ok()?;
        self.next()
    }

    fn next(&self) -> Option<(Address, Vec<u8>)> {
        let mut buffer = vec![0; LARGEST as usize];
        let (received, from) =
            call::receive_from_without_waiting(self.listener.as_fd(), &mut buffer).ok()?;
        Some((from?, buffer[..received].to_vec()))
    }

    /// Makes a socket for a client, and takes what else of it has come.
    fn branch(
        &self,
        from: Address,
        first: Vec<u8>,
        strangers: &mut VecDeque<(Address, Vec<u8>)>,
    ) -> Result<Caller, String> {
        /// Datagrams that may come while a socket is made.
        const MOST_EARLY: usize = 4096;
        let place = self.places.take(Holder::of(&from), 1);
        let place = place.map_err(|_| format!("{from}: refused a client: all places are taken"))?;
        let made = datagram_branch(
            (self.listener, &self.bind),
            Transport::Udp,
            &from,
            &self.settings.socket,
        );
        let socket = made.map_err(|error| error.to_string())?;
        let mut datagrams = vec![first];
        let (mut mine, mut others) = (Vec::new(), VecDeque::new());
        for (other, datagram) in strangers.drain(..) {
            if other == from {
                mine.push(datagram);
            } else {
                others.push_back((other, datagram));
            }
        }
        *strangers = others;
        datagrams.extend(mine);
        for _ in 0..MOST_EARLY {
            match self.next() {
                Some((other, datagram)) if other == from => datagrams.push(datagram),
                Some(other) => strangers.push_back(other),
                None => break,
            }
        }
        Ok(Caller {
            from,
            datagrams,
            socket,
            _place: place,
        })
    }

    fn company(&self, peer: &Address) -> Arc<Company> {
        let new = || Company::new(Arc::clone(self.observer), self.settings.print.interval);
        let Some(ip) = peer.ip() else {
            return new();
        };
        let mut companies = self
            .companies
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        companies.retain(|other, company| *other == ip || !company.is_idle());
        Arc::clone(companies.entry(ip).or_insert_with(new))
    }

    fn attend(&self, caller: Caller) {
        if let Err(why) = self.test(caller) {
            self.observer.see(&Event::Trouble(why));
        }
    }

    fn test(&self, caller: Caller) -> Result<(), String> {
        let first = &caller.datagrams[0];
        let word_at = |at: usize| {
            first
                .get(at..at + 4)
                .and_then(|word| word.try_into().ok())
                .map_or(0, u32::from_be_bytes)
        };
        // The flags stand behind the number, whose high word older clients do not have.
        let wide = word_at(DatagramHeader::WIDE) & flags::WIDE_NUMBERS != 0
            && word_at(DatagramHeader::NARROW) == 0;
        let head = if wide {
            DatagramHeader::WIDE
        } else {
            DatagramHeader::NARROW
        };
        let hello = first
            .get(head..)
            .and_then(|bytes| Hello::decode(bytes, Over::Datagram).ok());
        let hello = hello.unwrap_or_default();
        let data = DataSocket::of_accepted(caller.socket, Transport::Udp, &self.settings.socket);
        let data = data.map_err(|error| error.to_string())?;
        let number = self.numbers.next();
        let id = |is_opposite| FlowId {
            number,
            is_opposite,
            key: None,
        };
        let (is_reverse, is_duplex) = (hello.has(upper::REVERSE), hello.has(upper::FULL_DUPLEX));
        let mut connection =
            connection::of_socket(id(false), &data, caller.from.clone(), Transport::Udp);
        connection.is_reverse = is_reverse;
        connection.is_full_duplex = is_duplex;
        connection.has_trip_times = hello.has(upper::TRIP_TIMES);
        connection.no_udp_fin = is_reverse || hello.has(upper::NO_FIN);
        connection.peer_version = hello
            .extension
            .and_then(|extension| version_name(extension.version));
        if is_reverse || is_duplex {
            connection.started = None;
        }
        self.observer.see(&Event::Connected(&connection));
        let company = self.company(&caller.from);
        let mut early = Early::default();
        for datagram in &caller.datagrams {
            early.push(datagram);
        }
        let first_number = DatagramHeader::read(first, wide).map_or(1, |header| header.number);
        let mut receiver = flow(
            Transport::Udp,
            LARGEST,
            None,
            Limit::Unlimited,
            &self.settings.socket,
        )
        .turned();
        let mut format = numbering(wide);
        format.first = u32::from(first_number != 0);
        receiver.datagrams = Some(format);
        let sender = self.sender(&hello);
        let send = || self.send(&sender, &data, id(is_duplex), &connection, &company);
        if is_reverse {
            return send();
        }
        let receive = || {
            let one_way = OneWay {
                flow: &receiver,
                data: &data,
                pattern: &[],
                early,
                stop: self.stop,
                wants_report: false,
                wide,
            };
            let leg = connection::leg(id(false), &receiver, &data, &connection);
            let leg = leg.map_err(|error| sys::describe(&error))?;
            let went = one_way.run(&leg, &company)?;
            if !connection.no_udp_fin {
                self.answer(&data, &went, first, wide, connection.has_trip_times);
            }
            match went.ended {
                Ended::Failed(why) => Err(why),
                _ => Ok(()),
            }
        };
        if is_duplex {
            return std::thread::scope(|scope| {
                let sends = scope.spawn(send);
                let got = receive();
                sends.join().unwrap_or(Ok(())).and(got)
            });
        }
        receive()
    }

    /// What a client has this end send.
    fn sender(&self, hello: &Hello) -> FlowPlan {
        let length = match hello.length {
            0 => self.settings.length,
            length => length.clamp(DatagramHeader::WIDE as u32, LARGEST),
        };
        let limit = match hello.amount {
            Amount::Bytes(0) => Limit::Time(Duration::from_secs(10)),
            Amount::Bytes(bytes) => Limit::Bytes(bytes.into()),
            Amount::Time(time) => Limit::Time(time),
        };
        let rate = hello
            .extension
            .map(|extension| extension.rate as f64)
            .filter(|rate| *rate > 0.0);
        flow(Transport::Udp, length, rate, limit, &self.settings.socket)
    }

    fn send(
        &self,
        plan: &FlowPlan,
        data: &DataSocket,
        id: FlowId,
        connection: &Connection,
        company: &Arc<Company>,
    ) -> Result<(), String> {
        let length = if let SizeRule::Bytes(length) = plan.here.send.size {
            length
        } else {
            0
        };
        let pattern = connection::pattern(length, &[]);
        let one_way = OneWay {
            flow: plan,
            data,
            pattern: &pattern,
            early: Early::default(),
            stop: self.stop,
            wants_report: false,
            wide: true,
        };
        let leg = connection::leg(id, plan, data, connection);
        let leg = leg.map_err(|error| sys::describe(&error))?;
        match one_way.run(&leg, company)?.ended {
            Ended::Failed(why) => Err(why),
            _ => Ok(()),
        }
    }

    /// Answers the last datagram, and each that follows it soon.
    fn answer(
        &self,
        data: &DataSocket,
        went: &Went,
        last: &[u8],
        wide: bool,
        has_trip_times: bool,
    ) {
        let is_enhanced = self.settings.print.enhanced || has_trip_times;
        let report = report(&went.side, is_enhanced);
        let bytes = if wide {
            report.encode().to_vec()
        } else {
            report.encode_narrow(last)
        };
        let socket = data.socket.as_fd();
        let mut scrap = [0; 64];
        for _ in 0..MOST_ANSWERS {
            if call::send_without_waiting(socket, &bytes).is_err() {
                return;
            }
            match call::wait_readable(socket, MORE) {
                Ok(true) => {}
                _ => return,
            }
            if call::receive_without_waiting(socket, &mut scrap).is_err() {
                return;
            }
        }
    }
}

/// The figures of a receiver for its sender.
fn report(side: &Side, is_enhanced: bool) -> ServerReport {
    let counts = side.datagrams.unwrap_or_default();
    let order = counts.by_order;
    let elapsed = side.elapsed.unwrap_or_default();
    let nanos = |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    let (mean, deviation) = counts.delays.mean_and_deviation_ns().unwrap_or_default();
    let (least, most) = counts.delays.extremes_ns.unwrap_or_default();
    let squares_us2 = (deviation / 1e3).powi(2) * counts.delays.count as f64;
    let seconds = elapsed.as_secs_f64();
    ServerReport {
        bytes: side.counts.received.0,
        elapsed,
        lost: order.passed_over.saturating_sub(order.out_of_order),
        out_of_order: order.out_of_order,
        datagrams: order.highest,
        jitter: counts.jitter.unwrap_or_default(),
        latency: Some(LatencyReport {
            min: nanos(least),
            max: nanos(most),
            sum: nanos(counts.delays.sum_ns),
            mean: nanos(mean as i64),
            squares: [squares_us2 as u32, (squares_us2.fract() * 1e6) as u32],
            variance_delta: [0; 2],
            count: u32::try_from(counts.delays.count).unwrap_or(u32::MAX),
            packets_per_second: if seconds > 0.0 {
                (counts.received as f64 / seconds) as u32
            } else {
                0
            },
        }),
        is_enhanced,
    }
}
