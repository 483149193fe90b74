//! What comes of the options that were typed.

use std::path::PathBuf;
use std::time::Duration;

use getopt::{Exit, Quit};
use model::{
    BufferPlan, DatagramFormat, FlowPlan, Group, Limit, Pacing, Plan, SizeRule, SocketOptions,
    Stamp, StampClock, Transport, Workload,
};
use server::ServerConfig;

use super::table::{Role as TypedRole, Typed, Wrong};
use super::usage;
use super::value::{Load, Rate};
use crate::tally::Bins;
use crate::wire::{Bursts, flags};

/// The settings in force for one iperf.
#[derive(Debug)]
pub struct Settings {
    /// Which end it is.
    pub role: Role,
    /// `-p`: the first and the last port.
    pub ports: (u16, u16),
    /// TCP or UDP.
    pub transport: Transport,
    /// `-B`.
    pub bind: Option<String>,
    /// `-V`.
    pub v6: bool,
    /// What is set on data sockets.
    pub socket: SocketOptions,
    /// Bytes a call, or a datagram.
    pub length: u32,
    /// Bits of payload a second, if that is bounded.
    pub rate: Option<f64>,
    /// `--permit-key`.
    pub permit_key: Option<PermitKey>,
    /// `-C`: without a header.
    pub compatible: bool,
    /// `-z`.
    pub real_time: bool,
    /// What is printed.
    pub print: Print,
    /// Lines for standard error before anything else.
    pub notices: Vec<String>,
}

/// Which end this is, with its own settings.
#[derive(Debug)]
pub enum Role {
    /// It connects.
    Client(Box<Client>),
    /// It listens.
    Server(Serve),
}

/// A client's settings.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Client {
    /// The server, as it was typed, and the device that leads to it.
    pub host: String,
    /// What is run: a group for each direction. A direction is turned when the server sends alone.
    pub plan: Plan,
    /// Which way data goes.
    pub direction: Direction,
    /// `-l` was typed.
    pub has_length: bool,
    /// `-L`.
    pub listen_port: u16,
    /// `-b` as a server is asked to send: 0 is no bound.
    pub asked_rate: u64,
    /// `-X`.
    pub peer_detect: bool,
    /// `--no-udp-fin`.
    pub no_udp_fin: bool,
    /// `--trip-times`.
    pub trip_times: bool,
    /// How it sends.
    pub shape: Shape,
    /// What the header asks for beside that: `--tcp-quickack`, `--l2checks`, `--txstart-time`.
    pub asks: u16,
    /// When traffic begins.
    pub begin: Begins,
    /// `--bounceback-congest`: the settings of another client, which runs beside.
    pub load: Option<Box<Settings>>,
    /// `--connect-only`.
    pub connect_only: Option<ConnectOnly>,
    /// `--incr-dstip` and the like.
    pub increments: Increments,
    /// `--bounceback`.
    pub bounceback: Option<Bounceback>,
    /// `--connect-retries`.
    pub retries: u32,
    /// Flows start together.
    pub together: bool,
    /// `--json`.
    pub json: bool,
    /// `--html`.
    pub html: Option<PathBuf>,
    /// `--strict`.
    pub strict: bool,
}

/// A server's settings.
#[derive(Debug)]
pub struct Serve {
    /// Which clients it accepts.
    pub config: ServerConfig,
    /// `-t`.
    pub time: Option<Duration>,
    /// `-D`.
    pub daemon: bool,
    /// `--tos-override`.
    pub service_of_senders: Option<u8>,
    /// `-H`: what a group is received from.
    pub source: Option<String>,
    /// `--permit-key-timeout`.
    pub key_timeout: Option<Duration>,
}

/// How a sender sends, where that is not one buffer after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// `-F` or `-I`.
    pub input: Option<Input>,
    /// `--isochronous`, `--burst-period`.
    pub frames: Option<Frames>,
    /// `--ipg`: from one datagram to the next.
    pub gap: Option<Duration>,
    /// The standard deviation of the rate, in bits a second.
    pub deviation: Option<f64>,
    /// `--near-congestion`: waits after each buffer for so many round-trip times.
    pub near_congestion: Option<f64>,
    /// `--tcp-write-prefetch`: bytes that are not sent yet.
    pub prefetch: Option<u32>,
    /// `--tcp-write-times`, `--histograms`.
    pub times_writes: bool,
    /// Each burst of a stream begins with a record.
    pub has_records: bool,
}

/// Where what is sent comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Standard,
}

/// Bursts or frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frames {
    /// Frames: those whose time has passed are left out.
    pub is_isochronous: bool,
    /// From one to the next.
    pub period: Duration,
    /// Their mean size in bytes.
    pub mean: f64,
    /// The standard deviation of their sizes.
    pub deviation: f64,
}

/// When traffic begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begins {
    /// `--txstart-time`, since 1970.
    pub at: Option<Duration>,
    /// `--txdelay-time`, after the connections are there.
    pub delay: Option<Duration>,
}

/// Connections without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOnly {
    /// So many; `None` is for ever.
    pub count: Option<u32>,
}

/// What each further flow has one more of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Increments {
    /// `--incr-dstip`.
    pub host: bool,
    /// `--incr-dstport`.
    pub port: bool,
    /// `--incr-srcip`.
    pub source: bool,
    /// `--incr-srcport`.
    pub source_port: bool,
}

impl Shape {
    /// Whether it is more than one buffer after the other.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl Frames {
    /// What a header says; `None` of nonsense.
    pub(crate) fn asked(bursts: &Bursts, is_isochronous: bool) -> Option<Self> {
        let whole = |[whole, fraction]: [u32; 2]| f64::from(whole) + f64::from(fraction) / 1e6;
        let rate = whole(bursts.rate);
        let period = Duration::try_from_secs_f64(1.0 / rate).ok()?;
        let per_frame = if is_isochronous { rate * 8.0 } else { 1.0 };
        let sane = period >= Duration::from_micros(1) && period < Duration::from_secs(3600);
        sane.then(|| Self {
            is_isochronous,
            period,
            mean: whole(bursts.mean) / per_frame,
            deviation: whole(bursts.variance).sqrt() / per_frame,
        })
    }

    /// As a header says it.
    pub(crate) fn ask(&self) -> Bursts {
        let words = |number: f64| [number as u32, (number.fract() * 1e6) as u32];
        let rate = 1.0 / self.period.as_secs_f64();
        let per_second = if self.is_isochronous { rate * 8.0 } else { 1.0 };
        Bursts {
            rate: words(rate),
            mean: words(self.mean * per_second),
            variance: words((self.deviation * per_second).powi(2)),
            gap: [0; 2],
        }
    }

    /// When the next is due after one that has been sent by now; frames that are left out, and whether this one took
    /// longer than its time.
    pub(crate) fn next(&self, now_ns: u64, due_ns: &mut u64) -> (u64, u64) {
        let period_ns = self.period.as_nanos() as u64;
        *due_ns += period_ns;
        if !self.is_isochronous || now_ns <= *due_ns {
            return (0, 0);
        }
        let missed = (now_ns - *due_ns) / period_ns;
        *due_ns += missed * period_ns;
        (missed, 1)
    }
}

/// A test of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounceback {
    /// Requests a period.
    pub burst: u32,
    /// From one burst to the next; 0 is without pause.
    pub period: Duration,
    /// How long the server keeps a request.
    pub hold: Duration,
    /// Neither end delays its acknowledgements.
    pub quick_ack: bool,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Forward,
    /// `-R`.
    Reverse,
    /// `--full-duplex`.
    FullDuplex,
    /// `-d`.
    Dual,
    /// `-r`.
    TradeOff,
}

/// `--permit-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitKey {
    /// A server makes one.
    Any,
    /// This one.
    This(String),
}

/// What is printed, and how.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Print {
    /// `-e`, or an option that implies it.
    pub enhanced: bool,
    /// `-f`.
    pub format: Format,
    /// `-i`.
    pub interval: Option<Duration>,
    /// `-y C`.
    pub csv: bool,
    /// `--hide-ips`.
    pub hide_ips: bool,
    /// `--sum-only`.
    pub sum_only: bool,
    /// `--sum-dstip`: sums are of the flows to an address.
    pub sums_by_destination: bool,
    /// `-U`.
    pub single: bool,
    /// `--histograms`.
    pub bins: Option<Bins>,
    /// `-i f`.
    pub by_frames: bool,
    /// `-m`.
    pub segment: bool,
    /// `-x`.
    pub exclude: Exclude,
    /// `-o`.
    pub file: Option<PathBuf>,
}

/// `-x`: reports that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a letter of the option"
)]
pub struct Exclude {
    /// C: who is connected with whom.
    pub connections: bool,
    /// D: figures.
    pub data: bool,
    /// M: groups that are joined.
    pub multicast: bool,
    /// S: the settings.
    pub settings: bool,
    /// V: what a UDP server reports.
    pub server_report: bool,
}

/// `-f`: the units of amounts and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What fits, as bytes or bits a second.
    Adaptive {
        /// Rates are bytes a second.
        bytes: bool,
    },
    /// This power of 1000 or 1024.
    Fixed {
        /// 0 is no prefix.
        power: u32,
        /// Rates are bytes a second.
        bytes: bool,
    },
}

impl Format {
    /// Reads the letter.
    pub fn of_letter(letter: char) -> Option<Self> {
        let bytes = letter.is_ascii_uppercase();
        if letter.eq_ignore_ascii_case(&'a') {
            return Some(Self::Adaptive { bytes });
        }
        let power = "bkmgt".find(letter.to_ascii_lowercase())? as u32;
        Some(Self::Fixed { power, bytes })
    }
}

impl Direction {
    /// Adds what another option asks for; of the last four directions one may be asked for.
    pub(super) fn add(&mut self, other: Self) -> Result<(), Quit> {
        if *self != Self::Forward && *self != other {
            let line =
                "ERROR: options of --full-duplex, --reverse, -d and -r are mutually exclusive\n";
            return Err(Quit::Exit(Exit::stderr(line, 1)));
        }
        *self = other;
        Ok(())
    }

    /// Whether the server sends on the client's own connection.
    pub fn sends_from_server(self) -> bool {
        matches!(self, Self::Reverse | Self::FullDuplex)
    }

    /// Whether the server sends to a port of the client's.
    pub fn has_connection_back(self) -> bool {
        matches!(self, Self::Dual | Self::TradeOff)
    }
}

impl Settings {
    /// Whether it is UDP.
    pub fn is_udp(&self) -> bool {
        self.transport == Transport::Udp
    }
}

/// The layout of a UDP test's datagrams, with numbers of 64 bits if `wide`.
pub(crate) fn numbering(wide: bool) -> DatagramFormat {
    let clock = StampClock::Wall;
    DatagramFormat {
        number_at: 0,
        high_word_at: wide.then_some(12),
        first: 1,
        stamp: Some(Stamp { at: 4, clock }),
        ends_negative: true,
    }
}

/// A flow of such a length and rate, whose sender ends it. Both ends do the same in their directions.
pub(crate) fn flow(
    transport: Transport,
    length: u32,
    rate: Option<f64>,
    limit: Limit,
    socket: &SocketOptions,
) -> FlowPlan {
    let mut flow =
        FlowPlan::of(transport, Workload::send()).with_buffers(BufferPlan::message(length));
    flow.limit = limit;
    flow.here.socket = socket.clone();
    flow.here.pacing = rate.and_then(|bits| Pacing::of_bits(bits as u64, length, 1));
    if transport == Transport::Udp {
        flow.datagrams = Some(numbering(true));
    }
    flow
}

/// Bytes of a send call of such a flow.
pub(crate) fn length_of(flow: &FlowPlan) -> u32 {
    match flow.here.send.size {
        SizeRule::Bytes(length) => length,
        SizeRule::SocketBuffer => 0,
    }
}

/// Stock's own words, and the end.
fn error<T>(line: impl std::fmt::Display) -> Result<T, Exit> {
    Err(Exit::stderr(format!("{line}\n"), 1))
}

pub(super) fn settings(mut typed: Typed) -> Result<Settings, Exit> {
    let Some(role) = typed.role.take() else {
        return Err(Exit::stderr(usage::SHORT, 1));
    };
    let transport = if typed.udp {
        Transport::Udp
    } else {
        Transport::Tcp
    };
    if typed.udp && typed.permit_key.is_some() {
        return error("ERROR: Option of --permit-key not supported with UDP");
    }
    let length =
        typed
            .length
            .unwrap_or(match (typed.bounceback, typed.udp, is_v6(&typed, &role)) {
                (Some(_), ..) => 100,
                (_, false, _) => 128 << 10,
                (_, true, false) => 1470,
                (_, true, true) => 1450,
            });
    if typed.udp && length > 65_507 {
        return error("iperf: -l: a datagram has at most 65507 bytes");
    }
    let rate = rate(&typed, length)?;
    let role = match role {
        TypedRole::Client(host) => Role::Client(Box::new(client(
            &mut typed, &host, transport, length, rate,
        )?)),
        TypedRole::Server => Role::Server(serve(&mut typed)?),
    };
    let is_client = matches!(role, Role::Client(_));
    let bounces = typed.bounceback.is_some();
    let implied = bounces
        || typed.isochronous.is_some()
        || typed.burst_period.is_some()
        || typed.shape.prefetch.is_some()
        || typed.begin.at.is_some()
        || (typed.trip_times && typed.direction.sends_from_server());
    let interval = typed.interval.or(bounces.then_some(Duration::from_secs(1)));
    Ok(Settings {
        ports: typed.ports,
        transport,
        bind: typed.bind,
        v6: typed.v6,
        socket: typed.socket,
        length,
        rate,
        permit_key: typed.permit_key,
        compatible: typed.compatible,
        real_time: typed.real_time,
        print: Print {
            enhanced: typed.enhanced
                || typed.bins.is_some()
                || typed.by_frames
                || (is_client && implied),
            format: typed.format,
            interval,
            csv: typed.csv,
            hide_ips: typed.hide_ips,
            sum_only: typed.sum_only,
            sums_by_destination: typed.sum_by_destination,
            single: typed.single,
            bins: typed.bins,
            by_frames: typed.by_frames,
            segment: typed.print_segment,
            exclude: typed.exclude,
            file: typed.output,
        },
        notices: typed.notices,
        role,
    })
}

/// Whether datagrams go over IPv6, as far as the words tell.
fn is_v6(typed: &Typed, role: &TypedRole) -> bool {
    let names_v6 = matches!(role, TypedRole::Client(host) if host.contains(':'));
    names_v6 || (typed.v6 && matches!(role, TypedRole::Client(_)))
}

/// UDP's default is a rate; TCP's is none.
fn rate(typed: &Typed, length: u32) -> Result<Option<f64>, Exit> {
    const UDP_DEFAULT: f64 = 1_048_576.0;
    let bits = f64::from(length) * 8.0;
    match (typed.rate, typed.udp) {
        (None, true) => Ok(Some(UDP_DEFAULT)),
        (None, false) => Ok(None),
        (Some(Rate::Datagrams(_)), false) => error("ERROR: units of pps not supported with TCP"),
        (Some(Rate::Datagrams(count)), true) => Ok(Some(count * bits).filter(|rate| *rate > 0.0)),
        (Some(Rate::Varying { mean, .. }), _) => Ok(Some(mean)),
        (Some(Rate::Bits(rate)), false) if rate > 0.0 && rate / 8.0 < f64::from(length) => {
            let most = (rate / 8.0) as u64;
            error(format!(
                "ERROR: option -b and -l of {length} are incompatible, consider setting -l to {most} or lower"
            ))
        }
        (Some(Rate::Bits(rate)), true) if (0.0..bits / 60.0).contains(&rate) && rate > 0.0 => {
            error(format!(
                "ERROR: IPG delay target of {:.0} secs too large (max value is 60 secs)",
                bits / rate
            ))
        }
        (Some(Rate::Bits(rate)), _) => Ok(Some(rate).filter(|rate| *rate > 0.0)),
    }
}

fn client(
    typed: &mut Typed,
    host: &str,
    transport: Transport,
    length: u32,
    rate: Option<f64>,
) -> Result<Client, Exit> {
    check_client(typed, host)?;
    let shape = shape(typed, length, rate)?;
    let limit = match (typed.bytes, typed.time) {
        (Some(bytes), _) => Limit::Bytes(bytes),
        (None, Some(None)) => Limit::Unlimited,
        (None, Some(Some(time))) => Limit::Time(time),
        // A file ends.
        (None, None) if shape.input.is_some() => Limit::Unlimited,
        (None, None) => Limit::Time(Duration::from_secs(10)),
    };
    let named = |text: &str| text.split_once('%').map(|(_, device)| device.to_owned());
    let bound = typed.bind.as_deref().and_then(named);
    typed.socket.device = named(host).or(bound);
    let mut forward = flow(transport, length, rate, limit, &typed.socket);
    forward.here.measure_cpu = true;
    let mut back = forward.clone().turned();
    // The sender keeps the rate.
    back.here.pacing = None;
    let flows = match typed.direction {
        Direction::Forward => vec![forward],
        Direction::Reverse => vec![back],
        _ => vec![forward, back],
    };
    let group = |flow| Group {
        peers: vec![host.to_owned()],
        ..Group::of_flows(typed.flows, flow)
    };
    let plan = Plan {
        name: name(typed),
        groups: flows.into_iter().map(group).collect(),
        sampling: typed.interval,
        ..Plan::default()
    };
    Ok(Client {
        host: host.to_owned(),
        plan,
        shape,
        asks: typed.asks,
        begin: typed.begin,
        load: load(typed, host)?.map(Box::new),
        connect_only: typed.connect_only,
        increments: typed.increments,
        direction: typed.direction,
        has_length: typed.length.is_some(),
        listen_port: typed.listen_port.unwrap_or(typed.ports.0),
        asked_rate: match typed.rate {
            // The stock client sends the bare number here.
            Some(Rate::Datagrams(count)) if typed.direction == Direction::Forward => count as u64,
            Some(_) => rate.unwrap_or(0.0) as u64,
            None if typed.udp => rate.unwrap_or(0.0) as u64,
            None => 0,
        },
        peer_detect: typed.peer_detect,
        no_udp_fin: typed.no_udp_fin,
        trip_times: typed.trip_times,
        bounceback: typed.bounceback.map(|burst| Bounceback {
            burst,
            period: typed.bounce_period,
            hold: typed.bounce_hold,
            quick_ack: typed.bounce_quick_ack,
        }),
        retries: typed.connect_retries,
        together: typed.together,
        json: typed.json,
        html: typed.html.take(),
        strict: typed.strict,
    })
}

/// What a client refuses, and what it warns of.
fn check_client(typed: &mut Typed, host: &str) -> Result<(), Exit> {
    if typed.daemon {
        return error("Iperf client cannot be run as a daemon");
    }
    if typed.permit_key == Some(PermitKey::Any) {
        return error("ERROR: option of --permit-key requires a value on the client");
    }
    if typed.udp && typed.peer_detect {
        return error("ERROR: option of -X or --peer-detect not supported with -u UDP");
    }
    if !typed.udp && typed.no_udp_fin {
        return error("ERROR: option --no-udp-fin requires -u UDP");
    }
    if typed.json && (typed.csv || typed.output.is_some()) {
        return error("iperf: --json: stands in the place of all text: it contradicts -y and -o");
    }
    if typed.bounceback.is_some() && typed.udp {
        return error("iperf: --bounceback: it needs TCP, without -u");
    }
    if typed.bounceback.is_some() && typed.direction != Direction::Forward {
        return error("iperf: --bounceback: not with -R, --full-duplex, -d or -r");
    }
    if typed.load.is_some() && typed.bounceback.is_none() {
        return error("iperf: --bounceback-congest: it needs --bounceback");
    }
    if typed.bounceback.is_some() && typed.bounce_delay.is_some() {
        typed.begin.delay = typed.bounce_delay;
    }
    if typed.connect_only.is_some() && typed.udp {
        return error("ERROR: option of --connect-only not supported with -u UDP");
    }
    if typed.asks & flags::upper::QUICK_ACK != 0 && typed.udp {
        let line = "WARN: setting of option --tcp-quickack is not supported with -u UDP";
        typed.notices.push(line.to_owned());
        typed.asks &= !flags::upper::QUICK_ACK;
    }
    if typed.asks & flags::upper::L2_LENGTH != 0 && !typed.udp {
        return error("iperf: --l2checks: it needs -u");
    }
    if typed.increments.source && typed.bind.is_none() {
        return error("ERROR: option of --incr-srcip requires -B bind option to be set");
    }
    if typed.increments.source_port && !typed.bind.as_deref().is_some_and(|bind| bind.contains(':'))
    {
        let line = "WARN: option of --incr-srcport requires -B bind option w/port to be set";
        typed.notices.push(line.to_owned());
    }
    if typed.service_of_senders.is_some() {
        let line = "WARN: option of --tos-override not supported on the client";
        typed.notices.push(line.to_owned());
    }
    if typed.source.is_some() {
        let line = "WARNING: option -H is not valid for client mode";
        typed.notices.push(line.to_owned());
    }
    if typed.sum_by_destination {
        let line = "WARN: option of --sum-dstip not supported on the client";
        typed.notices.push(line.to_owned());
    }
    let is_multicast = is_group(host);
    if is_multicast && typed.direction != Direction::Forward {
        return error(
            "iperf: a group of receivers does not send: not with -R, --full-duplex, -d or -r",
        );
    }
    if is_multicast && !typed.udp {
        return error("Multicast requires -u option  failed");
    }
    let (first, last) = typed.ports;
    let ports = u32::from(last - first) + 1;
    if first != last && typed.flows != ports {
        let line = format!("WARNING: port-range and -P mismatch (adjusting -P to {ports})");
        typed.notices.push(line);
        typed.flows = ports;
    }
    if typed.time == Some(None) && typed.bytes.is_none() {
        typed.notices.push(
            "WARNING: client will send traffic forever or until an external signal (e.g. SIGINT or SIGTERM) occurs to stop it".to_owned(),
        );
    }
    Ok(())
}

/// How a client sends.
fn shape(typed: &mut Typed, length: u32, rate: Option<f64>) -> Result<Shape, Exit> {
    let mut shape = typed.shape.clone();
    if let Some(Rate::Varying { deviation, .. }) = typed.rate {
        shape.deviation = Some(deviation);
    }
    if typed.isochronous.is_some() && typed.rate.is_some() {
        return error("ERROR: options of --b and --isochronous cannot be applied together");
    }
    if typed.isochronous.is_some() && typed.burst_period.is_some() {
        return error(
            "ERROR: options of --burst-period and --isochronous cannot be applied together",
        );
    }
    if let Some((per_second, load, deviation)) = typed.isochronous {
        shape.frames = Some(Frames {
            is_isochronous: true,
            period: Duration::from_secs_f64(1.0 / per_second),
            mean: match load {
                Load::Bits(bits) => bits / 8.0 / per_second,
                Load::Datagrams(count) => count * f64::from(length),
            },
            deviation: deviation / 8.0 / per_second,
        });
    }
    if typed.burst_size.is_some() && typed.burst_period.is_none() {
        typed.burst_period = Some(Duration::from_secs(1));
    }
    if let Some(period) = typed.burst_period.filter(|period| !period.is_zero()) {
        let size = typed.burst_size.unwrap_or(1 << 20);
        if typed.udp {
            return error("iperf: --burst-period: UDP has frames, --isochronous");
        }
        if size < length {
            return error(format!(
                "ERROR: option of --burst-size {size} must be equal or larger to write length (-l) {length}"
            ));
        }
        shape.frames = Some(Frames {
            is_isochronous: false,
            period,
            mean: size.into(),
            deviation: 0.0,
        });
    }
    if shape.near_congestion.is_some() && typed.udp {
        return error("ERROR: option of --near-congestion not supported with -u UDP");
    }
    if shape.near_congestion.is_some() && rate.is_some() {
        return error(
            "ERROR: option of --near-congestion and -b rate limited are mutually exclusive",
        );
    }
    if typed.udp && shape.prefetch.take().is_some() {
        let line = "WARN: setting of option --tcp-write-prefetch is not supported with -u UDP";
        typed.notices.push(line.to_owned());
    }
    if shape.gap.is_some() && !typed.udp {
        return error("iperf: --ipg: it is the gap between datagrams: it needs -u");
    }
    if typed.udp && shape.times_writes {
        return error("iperf: --tcp-write-times: it needs TCP");
    }
    shape.has_records =
        !typed.udp && (typed.trip_times || shape.frames.is_some() || shape.prefetch.is_some());
    if shape.has_records && typed.compatible {
        return error("ERROR: compatibility mode not supported with the requested with options");
    }
    if shape.has_records && length < 92 {
        return error("iperf: -l: records of bursts need at least 92 bytes");
    }
    if shape.input.is_some() && (shape.has_records || shape.frames.is_some()) {
        return error(
            "iperf: -F, -I: a file has no room for the records of --trip-times, --isochronous, --burst-period or --tcp-write-prefetch",
        );
    }
    let for_senders = [
        (shape.input.is_some(), "-F, -I"),
        (shape.gap.is_some(), "--ipg"),
        (shape.deviation.is_some(), "-b with a deviation"),
        (shape.near_congestion.is_some(), "--near-congestion"),
        (shape.times_writes, "--tcp-write-times"),
    ];
    if typed.direction == Direction::Reverse
        && let Some((_, what)) = for_senders.iter().find(|(is_asked, _)| *is_asked)
    {
        return error(format!("iperf: {what}: with -R this end sends nothing"));
    }
    shape.times_writes |= typed.bins.is_some() && typed.direction != Direction::Reverse;
    if let Some(input) = &shape.input
        && let Err(why) = crate::bursts::Source::open(input)
    {
        return error(why);
    }
    typed.socket.unsent_low_water_bytes = shape.prefetch;
    Ok(shape)
}

/// The load beside a bounceback test: a client of its own.
fn load(typed: &mut Typed, host: &str) -> Result<Option<Settings>, Exit> {
    let Some((direction, flows)) = typed.load.take() else {
        return Ok(None);
    };
    let other = Typed {
        role: Some(TypedRole::Client(host.to_owned())),
        ports: typed.ports,
        time: typed.time,
        bytes: typed.bytes,
        interval: typed.interval.or(Some(Duration::from_secs(1))),
        length: typed.length,
        rate: typed.rate,
        socket: typed.socket.clone(),
        bind: typed.bind.clone(),
        v6: typed.v6,
        flows,
        direction,
        enhanced: true,
        asks: flags::upper::QUICK_ACK,
        ..Typed::default()
    };
    settings(other).map(Some)
}

/// Whether an address, with a device or not, is a group.
fn is_group(address: &str) -> bool {
    let (address, _) = address.split_once('%').unwrap_or((address, ""));
    let ip = address.parse::<std::net::IpAddr>();
    ip.is_ok_and(|ip| ip.is_multicast())
}

fn name(typed: &Typed) -> String {
    let transport = if typed.udp { "UDP" } else { "TCP" };
    let direction = match typed.direction {
        Direction::Forward if typed.bounceback.is_some() => " --bounceback",
        Direction::Forward => "",
        Direction::Reverse => " -R",
        Direction::FullDuplex => " --full-duplex",
        Direction::Dual => " -d",
        Direction::TradeOff => " -r",
    };
    format!("{transport}{direction}")
}

/// A key as stock makes one: the time, and 16 letters and digits.
fn made_key() -> String {
    use rand::TryRngCore;
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let mut bytes = [0; 16];
    rand::rngs::OsRng
        .try_fill_bytes(&mut bytes)
        .expect("the system has random numbers");
    let letters = bytes.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
    let letters: String = letters.iter().collect();
    format!("{}.{:06}-{letters}", now.as_secs(), now.subsec_micros())
}

fn serve(typed: &mut Typed) -> Result<Serve, Exit> {
    if typed.bounceback.is_some() {
        return error("ERROR: setting of option --bounce-back is not supported on the server");
    }
    if typed.json || typed.html.is_some() || typed.strict {
        return error("iperf: --json, --html, --strict: only a client has them");
    }
    let group = typed.bind.as_deref().is_some_and(is_group);
    if group && !typed.udp {
        return error("Multicast requires -u option  failed");
    }
    if typed.source.is_some() && !group {
        return error("iperf: -H: it needs a group to receive, -B GROUP");
    }
    if typed.permit_key == Some(PermitKey::Any) {
        typed.permit_key = Some(PermitKey::This(made_key()));
    }
    if let Some((_, device)) = typed.bind.as_deref().and_then(|bind| bind.split_once('%')) {
        typed.socket.device = Some(device.to_owned());
    }
    for (name, wrong) in &typed.of_client {
        typed.notices.push(match wrong {
            Wrong::NotValid => format!("WARNING: option {name} is not valid for server mode"),
            Wrong::NotSupported => format!("WARN: option of {name} is not supported on the server"),
            Wrong::SettingNotSupported => {
                format!("WARN: setting of option {name} is not supported on the server")
            }
        });
    }
    Ok(Serve {
        config: typed.server.clone(),
        time: typed.time.flatten(),
        daemon: typed.daemon,
        service_of_senders: typed.service_of_senders,
        source: typed.source.take(),
        key_timeout: typed.permit_key_timeout,
    })
}
