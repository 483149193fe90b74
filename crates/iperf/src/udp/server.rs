//! A server of datagrams; also the end of a client's that the server sends to (`-d`, `-r`).

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{DataSocket, FirstDatagram, Reason, Role as End, Stop};
use model::{Ended, FlowPlan, Limit, Transport};
use rand::rngs::OsRng;
use rand::{Rng, TryRngCore};
use server::{
    DatagramDoor, DatagramPeer, Dialect, ExpectedFlows, Place, Running, ServerConfig, Service,
};
use sys::{Address, Socket, call};

use super::client::SMALL;
use super::group::Group;
use super::{LARGEST, OneWay, report};
use crate::client::Run;
use crate::connection::{self, Numbers};
use crate::event::{Connection, Event, FlowId, Observer};
use crate::flow::{flow, length_of, numbering};
use crate::options::{Frames, Serve, Settings, Shape};
use crate::report_group::{ReportGroup, ReportGroups};
use crate::server::{Begin, Iperf, Sending, addresses, end_after, test_of};
use crate::tally::{Kind, Tallies};
use crate::traffic::Went;
use crate::wire::flags::{self, upper};
use crate::wire::{Amount, DatagramHeader, Hello, Over, proof, version_name};

/// How long a server answers more of the last datagrams.
const MORE: Duration = Duration::from_millis(250);
const MOST_ANSWERS: u32 = 200;

/// How long a client may take to prove its address.
const PROOF: Duration = Duration::from_secs(2);

/// Why a server sends nothing else to a client.
const UNPROVEN: &str = "nothing proves that its address asked for datagrams (--allow-third-party)";

/// Bytes that a client gets for each byte that it sent, if nothing proves its address.
const AMPLIFICATION: u64 = 3;

/// How long a server waits before it looks at its stop again.
const LOOK: Duration = Duration::from_secs(1);

/// The longest time that a client may have this end send, and the highest rate: nothing shows that it is the client
/// that asks for it.
const MOST_TIME: Duration = Duration::from_secs(3600);
const MOST_RATE: f64 = 10e9;

/// The defaults of stock's clients.
const USUAL_TIME: Duration = Duration::from_secs(10);
const USUAL_RATE: f64 = 1_048_576.0;

/// Receives flows of datagrams, and sends what they ask for.
pub(super) struct Receiver<'a> {
    settings: &'a Settings,
    observer: &'a Arc<dyn Observer>,
    service: Service,
    numbers: &'a Numbers,
    report_groups: &'a ReportGroups,
    sending: Sending,
    /// A client's: keeps what came.
    keeper: Option<&'a Run<'a>>,
}

/// Until when a client waits for the server's flows.
pub(super) struct Watch<'a> {
    /// Its own flows are done.
    pub(super) done: &'a Stop,
    /// So long after that.
    pub(super) after: Duration,
}

/// A flow's beginning.
struct Caller {
    from: Address,
    first: Vec<FirstDatagram>,
    socket: Socket,
    _place: Option<Place>,
}

/// Runs a server until `stop`.
pub(crate) fn run(
    settings: &Arc<Settings>,
    serve: &Serve,
    observer: &Arc<dyn Observer>,
    stop: &Stop,
    begin: &Begin<'_>,
) -> Result<(), String> {
    let (numbers, report_groups) = (Numbers::default(), ReportGroups::new(observer, settings));
    let receiver = Receiver {
        settings,
        observer,
        service: Service::new(serve.config.clone(), stop.clone()),
        numbers: &numbers,
        report_groups: &report_groups,
        sending: Sending {
            service: serve.service_of_senders,
        },
        keeper: None,
    };
    let at = addresses(settings)?;
    let first = at.first().ok_or("listener bind failed: no address")?;
    if first.ip().is_some_and(|ip| ip.is_multicast()) {
        let group = Group::of(settings, serve, first)?;
        return receiver.receive_group(&group, begin);
    }
    let mut doors = Vec::new();
    for address in &at {
        let door = DatagramDoor::open(address, &settings.socket);
        let door = door.map_err(|error| bind_failed(error.error()))?;
        doors.push(door.beginning_with(begins));
    }
    if !begin()? {
        return Ok(());
    }
    if let [first, ..] = &doors[..]
        && let [.., last] = &doors[..]
    {
        let window = first.receive_buffer_bytes();
        receiver.announce((first.address(), last.address()), window, None);
    }
    let _ends = end_after(serve.time, stop);
    receiver.serve(&doors);
    Ok(())
}

/// Serves flows among the servers of a service, until its stop.
pub fn serve_datagrams(
    doors: Vec<DatagramDoor>,
    settings: &Settings,
    observer: &Arc<dyn Observer>,
    service: &Service,
) {
    let doors = doors.into_iter().map(|door| door.beginning_with(begins));
    let doors: Vec<_> = doors.collect();
    Receiver {
        settings,
        observer,
        service: service.clone(),
        numbers: &Numbers::default(),
        report_groups: &ReportGroups::new(observer, settings),
        sending: Sending { service: None },
        keeper: None,
    }
    .serve(&doors);
}

pub(super) fn bind_failed(error: &std::io::Error) -> String {
    format!("listener bind failed: {}", sys::describe(error))
}

impl<'a> Receiver<'a> {
    /// A client's.
    pub(super) fn of_client(run: &'a Run<'a>, report_groups: &'a ReportGroups) -> Self {
        Self {
            settings: run.settings,
            observer: run.observer,
            service: Service::new(ServerConfig::default(), run.stop.clone()),
            numbers: &run.numbers,
            report_groups,
            sending: Sending { service: None },
            keeper: Some(run),
        }
    }

    /// Listens for the server's flows to a client.
    pub(super) fn listen_for(&self, run: &Run<'_>) -> Result<DatagramDoor, String> {
        let at = run.to.anywhere().with_port(run.client.listen_port.into());
        let at = at.ok_or("listener bind failed: no such port")?;
        let door = DatagramDoor::open(&at, &self.settings.socket);
        let door = door.map_err(|error| bind_failed(error.error()))?;
        let door = door.beginning_with(begins);
        self.announce(
            (door.address(), door.address()),
            door.receive_buffer_bytes(),
            None,
        );
        Ok(door)
    }

    /// Takes `flows` flows of the server; returns how many did not come.
    pub(super) fn take_back(&self, door: &DatagramDoor, flows: u32, watch: &Watch<'_>) -> u32 {
        let Ok(expected) = door.expect(None, Instant::now() + LOOK, self.service.stop()) else {
            return flows;
        };
        let mut until = None;
        let mut left = flows;
        std::thread::scope(|scope| {
            while left > 0 && !self.service.stop().is_set() {
                let now = Instant::now();
                if watch.done.is_set() {
                    until = until.or(Some(now + watch.after));
                }
                let is_over = until.is_some_and(|until| now >= until);
                if is_over || watch.done.reason() == Some(Reason::Cancelled) {
                    break;
                }
                let soon = now + Duration::from_millis(100);
                let stop = self.service.stop();
                if let Ok(peer) = expected.next(&self.settings.socket, true, soon, stop) {
                    left -= 1;
                    let expected = &expected;
                    scope.spawn(move || self.attend(Caller::of(peer, expected, None)));
                }
            }
        });
        left
    }

    fn announce(&self, (first, last): (&Address, &Address), window: u32, joins: Option<String>) {
        self.observer.see(&Event::Listening {
            ports: (first.port() as u16, last.port() as u16),
            window,
            joins,
        });
    }

    fn serve(&self, doors: &[DatagramDoor]) {
        std::thread::scope(|scope| {
            for door in doors {
                scope.spawn(move || self.open(door));
            }
        });
    }

    /// Gives each client a socket and a thread, until the stop.
    fn open(&self, door: &DatagramDoor) {
        let stop = self.service.stop();
        let Ok(expected) = door.expect(None, Instant::now() + LOOK, stop) else {
            return;
        };
        let is_serial = self.service.config().serial;
        std::thread::scope(|scope| {
            while !stop.is_set() {
                let until = Instant::now() + LOOK;
                let next = expected.next(&self.settings.socket, true, until, stop);
                let Ok(peer) = next else {
                    continue;
                };
                let place = match self.service.admit(&peer.from) {
                    Ok(place) => place,
                    Err(why) => {
                        let from = &peer.from;
                        self.trouble(format!("{from}: refused a client: {why}"));
                        continue;
                    }
                };
                let expected = &expected;
                let attend = move || self.attend(Caller::of(peer, expected, Some(place)));
                if is_serial {
                    attend();
                } else {
                    scope.spawn(attend);
                }
            }
        });
    }

    /// Receives the datagrams of a group, one flow at a time.
    fn receive_group(&self, group: &Group, begin: &Begin<'_>) -> Result<(), String> {
        let mut socket = group.join(&self.settings.socket)?;
        if !begin()? {
            return Ok(());
        }
        let window = socket.recv_buffer_size().unwrap_or(0) as u32;
        let at = &group.address;
        self.announce((at, at), window, Some(group.text()));
        let _ends = end_after(group.time, self.service.stop());
        while let Some((from, first)) = group.next(&socket, self.service.stop()) {
            self.attend(Caller {
                from,
                first,
                socket,
                _place: None,
            });
            socket = group.join(&self.settings.socket)?;
        }
        Ok(())
    }

    fn trouble(&self, line: String) {
        self.observer.see(&Event::Trouble(line));
    }

    fn attend(&self, caller: Caller) {
        if let Err(why) = self.test(caller) {
            self.trouble(why);
        }
    }

    /// Whether a client that can prove its address does so.
    fn is_proven(&self, socket: &Socket, first: &[u8]) -> bool {
        if proof::find(first).is_none() {
            return false;
        }
        let nonce: proof::Nonce = OsRng.unwrap_err().random();
        let _ = call::send_without_waiting(socket.as_fd(), &proof::challenge(nonce));
        let until = Instant::now() + PROOF;
        let mut datagram = vec![0; LARGEST as usize];
        while let Ok(true) = self.service.stop().wait_readable(socket.as_fd(), until) {
            let received = call::receive_without_waiting(socket.as_fd(), &mut datagram);
            if received.is_ok_and(|length| proof::find(&datagram[..length]) == Some(nonce)) {
                return true;
            }
        }
        false
    }

    fn begin(&self, from: &Address, hello: &Hello, cut: &Stop) -> Result<Arc<Running>, String> {
        let test = test_of("UDP", Some(hello));
        let running = self.service.begin(Iperf::NAME, from, test, cut);
        running.map_err(|why| format!("{from}: refused a test: {why}"))
    }

    fn test(&self, caller: Caller) -> Result<(), String> {
        let Caller {
            from,
            first: early,
            socket,
            _place,
        } = caller;
        let first = &*early[0].data;
        let (hello, wide) = asked_by(first);
        let may_send = self.service.may_amplify(&from);
        if hello.has(upper::REVERSE) && !may_send && !self.is_proven(&socket, first) {
            return Err(format!("{from}: refused a test: {UNPROVEN}"));
        }
        let data = DataSocket::of_accepted(socket, Transport::Udp, &self.settings.socket);
        let data = data.map_err(|error| error.to_string())?;
        let number = self.numbers.next();
        let cut = self.service.cut().follower();
        let running = &*self.begin(&from, &hello, &cut)?;
        let id = |is_opposite| FlowId {
            number,
            is_opposite,
            key: None,
        };
        let (is_reverse, is_duplex) = (hello.has(upper::REVERSE), hello.has(upper::FULL_DUPLEX));
        let connection = connection(&data, id(false), &from, &hello);
        let local = connection.local.as_ref().and_then(Address::ip);
        let is_group = local.is_some_and(|ip| ip.is_multicast());
        self.observer.see(&Event::Connected(&connection));
        let reports = self.report_groups.of(&from, connection.local.as_ref());
        let sender = self.sender(&hello);
        let shape = asked_shape(&hello);
        let answers = || {
            Sending::apply(data.socket.as_fd(), &sender.here.socket, from.is_ipv6());
            let path = (&data, &connection, id(is_duplex));
            send(&sender, &shape, path, false, &reports, running)
        };
        let receive = || {
            let receiver = self.receiver(first, wide);
            let one_way = OneWay {
                flow: &receiver,
                data: &data,
                pattern: &[],
                shape: &shape,
                first: &early,
                stop: &cut,
                wants_report: false,
                most_refusals: 0,
                wide,
            };
            let leg = connection::leg(id(false), &receiver, &data, &connection);
            let mut leg = leg.map_err(|error| sys::describe(&error))?;
            leg.tallies = self.tallies(&connection);
            running.count(&leg.counters);
            let ran = || one_way.run(&leg, &reports);
            let went = match self.keeper {
                Some(run) => run.sampled(&leg, ran)?,
                None => ran()?,
            };
            running.ended(&went.ended);
            if hello.has(upper::L2_LENGTH) {
                self.check_lengths(&went, first.len());
            }
            if !connection.no_udp_fin && !is_group {
                self.answer(
                    (&data, &from),
                    &went,
                    first,
                    wide,
                    connection.has_trip_times,
                );
            }
            if let Some(run) = self.keeper {
                run.keep(&receiver, went);
            }
            Ok(())
        };
        let asks_back = hello.flags & flags::VERSION1 != 0 && self.keeper.is_none() && !is_group;
        let back = || self.back(&from, &hello, &sender, &reports, running);
        if (is_duplex || asks_back) && !may_send {
            running.fail(&UNPROVEN);
            self.trouble(format!("{from}: sends nothing: {UNPROVEN}"));
            return receive();
        }
        if is_reverse && !is_group {
            answers()
        } else if is_duplex && !is_group {
            both(answers, receive)
        } else if asks_back && hello.flags & flags::RUN_NOW != 0 {
            let done = both(back, receive);
            reports.show_reports();
            done
        } else if asks_back {
            receive().and_then(|()| {
                let done = back();
                reports.show_reports();
                done
            })
        } else {
            receive()
        }
    }

    /// Returns new tallies of received datagrams.
    fn tallies(&self, connection: &Connection) -> Option<Arc<Tallies>> {
        let has_frames = connection.upper & upper::ISOCHRONOUS != 0 && connection.has_trip_times;
        let width = self.settings.print.bins.map(|bins| bins.width);
        let kind = match width {
            _ if has_frames => Kind::Frames,
            Some(_) => Kind::Datagrams,
            None => return None,
        };
        Some(Arc::new(Tallies::new(kind, width)))
    }

    /// Complains of datagrams that have not come whole, or not alone (`--l2checks`).
    fn check_lengths(&self, went: &Went, length: usize) {
        let counts = went.side.counts;
        let (bytes, datagrams) = (counts.received.0, counts.receive_calls);
        if bytes != datagrams * length as u64 {
            self.trouble(format!(
                "length check failed: {datagrams} datagrams of {length} bytes have {bytes} bytes"
            ));
        }
    }

    fn receiver(&self, first: &[u8], wide: bool) -> FlowPlan {
        let socket = &self.settings.socket;
        let sender = flow(Transport::Udp, LARGEST, None, Limit::Unlimited, socket);
        let mut receiver = sender.turned();
        let number = DatagramHeader::read(first, wide).map_or(1, |header| header.number);
        let mut format = numbering(wide);
        format.first = u32::from(number != 0);
        receiver.datagrams = Some(format);
        receiver
    }

    /// What a client has this end send.
    fn sender(&self, hello: &Hello) -> FlowPlan {
        let length = match hello.length {
            0 => self.settings.length,
            length => length.clamp(DatagramHeader::WIDE as u32, LARGEST),
        };
        let rate = hello
            .extension
            .map_or(0.0, |extension| extension.rate as f64);
        let rate = if rate > 0.0 { rate } else { USUAL_RATE }.min(MOST_RATE);
        let limit = match hello.amount {
            Amount::Bytes(0) => Limit::Time(USUAL_TIME),
            Amount::Bytes(bytes) => Limit::Bytes(bytes.into()),
            Amount::Time(time) => Limit::Time(time.min(MOST_TIME)),
        };
        let asked = hello.extension.map(|extension| extension.type_of_service);
        let socket = self.sending.with(&self.settings.socket, asked);
        flow(Transport::Udp, length, Some(rate), limit, &socket)
    }

    /// Sends to the client's port.
    fn back(
        &self,
        from: &Address,
        hello: &Hello,
        sender: &FlowPlan,
        reports: &Arc<ReportGroup>,
        running: &Running,
    ) -> Result<(), String> {
        let failed = |why: String| format!("udp connect failed: {why}");
        let to = from.with_port(hello.port).filter(|to| to.port() != 0);
        let to = to.ok_or_else(|| failed(format!("{} is no port", hello.port)))?;
        let local = to.anywhere().with_any_port();
        let options = &sender.here.socket;
        let data = DataSocket::open(Transport::Udp, &local, options, End::Initiator);
        let data = data.map_err(|error| failed(error.to_string()))?;
        let connected = engine::connect(&data.socket, &to, running.cut());
        connected.map_err(|error| failed(error.to_string()))?;
        let rate = hello.extension.map(|extension| extension.rate as f64);
        self.observer.see(&Event::Connecting {
            host: &to.ip().map(|ip| ip.to_string()).unwrap_or_default(),
            port: to.port() as u16,
            window: data.facts.send_buffer_bytes,
            flows: 1,
            length: length_of(sender),
            rate,
            is_own: false,
        });
        let id = FlowId {
            number: self.numbers.next(),
            is_opposite: true,
            key: None,
        };
        let mut connection = connection::of_socket(id.clone(), &data, to, Transport::Udp);
        connection.is_reverse = true;
        self.observer.see(&Event::Connected(&connection));
        let path = (&data, &connection, id);
        send(sender, &Shape::default(), path, true, reports, running)
    }

    /// Answers the last datagram, and each that follows it soon.
    fn answer(
        &self,
        (data, from): (&DataSocket, &Address),
        went: &Went,
        last: &[u8],
        wide: bool,
        has_trip_times: bool,
    ) {
        if matches!(went.ended, Ended::Failed(_)) {
            return;
        }
        let is_enhanced = self.settings.print.enhanced || has_trip_times;
        let report = report(&went.side, is_enhanced);
        let bytes = if wide {
            report.encode().to_vec()
        } else {
            report.encode_narrow(last)
        };
        let socket = data.socket.as_fd();
        let mut scrap = [0; 64];
        let most = if self.service.may_amplify(from) {
            MOST_ANSWERS.into()
        } else {
            AMPLIFICATION * went.side.counts.received.0 / bytes.len() as u64
        };
        for _ in 0..most {
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

impl Caller {
    fn of(mut peer: DatagramPeer, expected: &ExpectedFlows<'_>, place: Option<Place>) -> Self {
        expected.settle(&mut peer);
        Self {
            from: peer.from,
            first: peer.first,
            socket: peer.socket,
            _place: place,
        }
    }
}

/// Sends to a client.
fn send(
    plan: &FlowPlan,
    shape: &Shape,
    (data, connection, id): (&DataSocket, &Connection, FlowId),
    wants_report: bool,
    reports: &Arc<ReportGroup>,
    running: &Running,
) -> Result<(), String> {
    let one_way = OneWay {
        flow: plan,
        data,
        pattern: &connection::pattern(length_of(plan), &[]),
        shape,
        first: &[],
        stop: running.cut(),
        wants_report,
        most_refusals: 0,
        wide: true,
    };
    let leg = connection::leg(id, plan, data, connection);
    let mut leg = leg.map_err(|error| sys::describe(&error))?;
    let tallies = || Arc::new(Tallies::new(Kind::Frames, None));
    leg.tallies = shape.frames.map(|_| tallies());
    running.count(&leg.counters);
    running.ended(&one_way.run(&leg, reports)?.ended);
    Ok(())
}

/// Returns a flow's connection, by its first datagram.
fn connection(data: &DataSocket, id: FlowId, from: &Address, hello: &Hello) -> Connection {
    let (is_reverse, is_duplex) = (hello.has(upper::REVERSE), hello.has(upper::FULL_DUPLEX));
    let mut connection = connection::of_socket(id, data, from.clone(), Transport::Udp);
    connection.is_reverse = is_reverse;
    connection.is_full_duplex = is_duplex;
    connection.has_trip_times =
        hello.has(upper::TRIP_TIMES) || hello.flags & flags::SMALL_TRIP_TIMES != 0;
    connection.no_udp_fin = is_reverse || hello.has(upper::NO_FIN);
    connection.service = hello
        .extension
        .map(|extension| (extension.type_of_service, 0));
    connection.upper = hello.extension.map_or(0, |extension| extension.upper);
    connection.peer_version = hello
        .extension
        .and_then(|extension| version_name(extension.version));
    if is_reverse || is_duplex {
        connection.started = None;
    }
    connection
}

/// Returns the way of sending that a client requests.
fn asked_shape(hello: &Hello) -> Shape {
    let frames = hello.bursts.filter(|_| hello.has(upper::ISOCHRONOUS));
    let frames = frames.and_then(|bursts| Frames::asked(&bursts, true));
    let is_bounded = |frames: &Frames| frames.mean * 8.0 / frames.period.as_secs_f64() <= MOST_RATE;
    Shape {
        frames: frames.filter(is_bounded),
        ..Shape::default()
    }
}

/// Runs both to their ends.
fn both<E: Send>(
    one: impl FnOnce() -> Result<(), E> + Send,
    other: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        one.join().unwrap_or(Ok(())).and(other)
    })
}

/// Whether a flow may begin with this datagram, which is not the rest of another flow.
pub(super) fn begins(datagram: &[u8]) -> bool {
    let header = DatagramHeader::read(datagram, false);
    // All versions send a time here; what has none is no client's.
    header.is_some_and(|header| header.number >= 0 && header.sent.micros < 1_000_000)
}

/// Decodes a flow's first datagram: its header, and whether its numbers have 64 bits.
fn asked_by(first: &[u8]) -> (Hello, bool) {
    let word_at = |at: usize| {
        let word = first.get(at..at + 4).and_then(|word| word.try_into().ok());
        word.map_or(0, u32::from_be_bytes)
    };
    // The flags stand behind the number, whose high word older clients do not have.
    let behind = word_at(DatagramHeader::WIDE);
    let is_small = behind == flags::SMALL_TRIP_TIMES && first.len() < SMALL;
    // A sender without flags, which a server is and a client with -C, fills all behind the number with digits.
    let has_digits = behind == u32::from_be_bytes(*b"6789");
    let wide = (behind & flags::WIDE_NUMBERS != 0 || is_small || has_digits)
        && word_at(DatagramHeader::NARROW) == 0;
    if has_digits && wide {
        return (Hello::default(), wide);
    }
    if is_small && wide {
        let flags = flags::SMALL_TRIP_TIMES;
        return (
            Hello {
                flags,
                ..Hello::default()
            },
            wide,
        );
    }
    let head = if wide {
        DatagramHeader::WIDE
    } else {
        DatagramHeader::NARROW
    };
    let hello = first
        .get(head..)
        .map(|bytes| Hello::decode(bytes, Over::Datagram));
    (hello.and_then(Result::ok).unwrap_or_default(), wide)
}
