//! The table of options, and the typed values.

use std::path::PathBuf;
use std::time::Duration;

use getopt::Argument::{MaybeAttached, Nothing, Value};
use getopt::{Exit, Quit, Section, flag, long, refuse, stock_long};
use model::{SocketOptions, with_defaults};
use server::{Network, ServerConfig};

use super::settings::{Begins, ConnectOnly, Direction, Exclude, Format, Increments, PermitKey};
use super::shape::{Input, Shape};
use super::value::{self, Rate};
use crate::tally::Bins;
use crate::wire::flags::upper;

with_defaults! {
    /// The options as typed.
    pub(super) struct Typed {
        /// `-c` or `-s`: the first one.
        pub(super) role: Option<Role> = None,
        pub(super) ports: (u16, u16) = (crate::wire::DEFAULT_PORT, crate::wire::DEFAULT_PORT),
        pub(super) udp: bool = false,
        /// `-t`, and `-n` if it came later.
        pub(super) time: Option<Option<Duration>> = None,
        pub(super) bytes: Option<u64> = None,
        pub(super) interval: Option<Duration> = None,
        pub(super) length: Option<u32> = None,
        pub(super) rate: Option<Rate> = None,
        pub(super) socket: SocketOptions = SocketOptions::default(),
        pub(super) bind: Option<String> = None,
        pub(super) v6: bool = false,
        pub(super) flows: u32 = 1,
        pub(super) direction: Direction = Direction::Forward,
        pub(super) listen_port: Option<u16> = None,
        pub(super) compatible: bool = false,
        pub(super) peer_detect: bool = false,
        pub(super) enhanced: bool = false,
        pub(super) format: Format = Format::Adaptive { bytes: false },
        pub(super) output: Option<PathBuf> = None,
        pub(super) exclude: Exclude = Exclude::default(),
        pub(super) csv: bool = false,
        pub(super) hide_ips: bool = false,
        pub(super) sum_only: bool = false,
        pub(super) sum_by_destination: bool = false,
        pub(super) single: bool = false,
        pub(super) source: Option<String> = None,
        pub(super) print_segment: bool = false,
        pub(super) daemon: bool = false,
        pub(super) permit_key: Option<PermitKey> = None,
        pub(super) permit_key_timeout: Option<Duration> = Some(Duration::from_secs(20)),
        pub(super) no_udp_fin: bool = false,
        pub(super) trip_times: bool = false,
        pub(super) bounceback: Option<u32> = None,
        pub(super) bounce_hold: Duration = Duration::ZERO,
        pub(super) bounce_period: Duration = Duration::from_secs(1),
        pub(super) bounce_quick_ack: bool = true,
        pub(super) connect_retries: u32 = 0,
        pub(super) together: bool = true,
        pub(super) shape: Shape = Shape::default(),
        pub(super) isochronous: Option<(f64, value::Load, f64)> = None,
        pub(super) burst_period: Option<Duration> = None,
        pub(super) burst_size: Option<u32> = None,
        pub(super) bins: Option<Bins> = None,
        pub(super) by_frames: bool = false,
        /// Upper flags of the header.
        pub(super) asks: u16 = 0,
        pub(super) begin: Begins = Begins::default(),
        pub(super) connect_only: Option<ConnectOnly> = None,
        /// `--bounceback-congest`: which way, and how many flows.
        pub(super) load: Option<(Direction, u32)> = None,
        pub(super) bounce_delay: Option<Duration> = None,
        pub(super) service_of_senders: Option<u8> = None,
        pub(super) real_time: bool = false,
        pub(super) increments: Increments = Increments::default(),
        pub(super) server: ServerConfig = ServerConfig::default(),
        pub(super) json: bool = false,
        pub(super) html: Option<PathBuf> = None,
        pub(super) strict: bool = false,
        /// Lines for standard error before anything else.
        pub(super) notices: Vec<String> = Vec::new(),
        /// Options of clients only, with stock's kind of complaint on a server.
        pub(super) of_client: Vec<(&'static str, Wrong)> = Vec::new(),
    }
}

/// Which end was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client(String),
    Server,
}

/// How stock complains of an option of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    NotValid,
    NotSupported,
    SettingNotSupported,
}

/// The shortest interval.
const SHORTEST: Duration = Duration::from_micros(100);

/// In the order of the stock tool's manual, our own after it. The usage text is stock's own: see `usage.rs`.
#[rustfmt::skip]
pub(super) static SECTION: Section<Typed> = Section {
    title: "OPTIONS",
    heading: "",
    scope: "",
    flags: &[
    flag('b', Value("rate"), &[],
        "Send at this rate in bits per second (k, m, g of 1000; K, M, G of 1024), or with the suffix pps in datagrams per second. With a standard deviation after a comma, the rate is drawn anew each second. The schedule does not move: late sends catch up. Default 1048576 for UDP; TCP has no limit.",
        |t: &mut Typed, v| { t.rate = Some(value::rate(v)?); Ok(()) }).or("bandwidth").from_environment("IPERF_BANDWIDTH"),
    flag('e', Nothing, &[], "Report more: write and read calls, retransmissions, window, round-trip time, latency.",
        |t: &mut Typed, _| { t.enhanced = true; Ok(()) }).or("enhanced"),
    flag('f', Value("letter"), &[],
        "The unit of figures: b, k, m, g, t for bits, B, K, M, G, T for bytes, a or A for whatever fits.", format).or("format").from_environment("IPERF_FORMAT"),
    stock_long("hide-ips", Nothing, &[], "Show only the last number of addresses.",
        |t: &mut Typed, _| { t.hide_ips = true; Ok(()) }),
    flag('i', Value("seconds"), &[], "Report every N seconds, at least 0.0001. With f a server reports each burst, as it does for bursts anyway. Default: report at the end only.",
        interval).or("interval").from_environment("IPERF_INTERVAL"),
    flag('l', Value("bytes"), &[], "Bytes of a write or read call, or of a datagram. Without it 128K for TCP, 1470 for UDP over IPv4, 1450 over IPv6, 100 for a bounceback test.",
        |t: &mut Typed, v| { t.length = Some(value::size(v)?); Ok(()) }).or("len").from_environment("IPERF_LEN"),
    flag('m', Nothing, &[], "Print TCP's maximum segment size.",
        |t: &mut Typed, _| { t.print_segment = true; Ok(()) }).or("print_mss").from_environment("IPERF_PRINT_MSS"),
    flag('o', Value("file"), &[], "Write reports and errors to this file.",
        |t: &mut Typed, v| { t.output = Some(v.into()); Ok(()) }).or("output"),
    flag('p', Value("port"), &[], "The port that the server listens at, or a range FIRST-LAST: a server listens at all of them, and a client has a flow to each. Default 5001.",
        ports).or("port").from_environment("IPERF_PORT"),
    stock_long("permit-key", MaybeAttached("key"), &[],
        "A key, which is sent in clear text, that a server takes TCP tests with, and no others. A server without a value makes one.", permit_key),
    stock_long("sum-only", Nothing, &[], "Report the sum of several flows, and not each.",
        |t: &mut Typed, _| { t.sum_only = true; Ok(()) }),
    flag('u', Nothing, &[], "Use UDP.", |t: &mut Typed, _| { t.udp = true; Ok(()) }).or("udp").from_environment("IPERF_UDP"),
    flag('w', Value("bytes"), &[], "The socket buffers' size. Linux doubles it.",
        window).or("window").from_environment("TCP_WINDOW_SIZE"),
    flag('z', Nothing, &[], "Run before all ordinary programs (SCHED_RR), which needs a privilege.", |t: &mut Typed, _| { t.real_time = true; Ok(()) }).or("realtime"),
    flag('B', Value("address"), &[], "Bind to this address, or with :PORT to this port: [ADDRESS]:PORT for IPv6.",
        |t: &mut Typed, v| { t.bind = Some(v.to_owned()); Ok(()) }).or("bind").from_environment("IPERF_BIND"),
    flag('C', Nothing, &[], "Send no header, and answer none.", |t: &mut Typed, _| { t.compatible = true; Ok(()) }).or("compatibility"),
    flag('M', Value("bytes"), &[], "TCP's maximum segment size.",
        |t: &mut Typed, v| { t.socket.max_segment_bytes = Some(value::size(v)?); Ok(()) }).or("mss").from_environment("IPERF_MSS"),
    flag('N', Nothing, &[], "Send small segments at once (TCP_NODELAY).",
        |t: &mut Typed, _| { t.socket.no_delay = true; Ok(()) }).or("nodelay"),
    flag('S', Value("type"), &[], "The type of service of what is sent: a number, or a name such as af11, cs1, ef, lowdelay.",
        type_of_service).or("tos").from_environment("IPERF_TOS"),
    flag('Z', Value("name"), &[], "TCP's congestion control.",
        |t: &mut Typed, v| { t.socket.congestion_control = Some(v.to_owned()); Ok(()) }).or("tcp-congestion"),
    flag('s', Nothing, &[], "Be a server.", |t: &mut Typed, _| { server(t); Ok(()) }).or("server").from_environment("IPERF_SERVER"),
    flag('1', Nothing, &[], "Serve one client at a time.",
        |t: &mut Typed, _| { t.server.serial = true; Ok(()) }).or("singleclient").from_environment("IPERF_SINGLECLIENT"),
    stock_long("histograms", MaybeAttached("bins"), &[], "Keep histograms: a server of latencies (of tests with --trip-times), a client of how long its writes take. WIDTH[u|m],COUNT,LOW,HIGH: width and number of bins, and two percentages; 100u,10000,5,95 without.",
        |t: &mut Typed, v| { t.bins = Some(value::bins(v)?); Ok(()) }),
    stock_long("permit-key-timeout", Value("seconds"), &[], "How long a server waits for a test with its permit key; 0 is no limit. Default 20.",
        |t: &mut Typed, v| { t.permit_key_timeout = Some(value::time(v)?).filter(|time| !time.is_zero()); Ok(()) }),
    stock_long("tcp-rx-window-clamp", Value("bytes"), &[], "The most that a server's receive window may be.",
        |t: &mut Typed, v| { t.socket.window_clamp_bytes = Some(value::size(v)?); Ok(()) }),
    stock_long("tap-dev", MaybeAttached("device"), &[], "Refused: datagrams are received from sockets, and such a device has none.", |_, _| refuse(NO_SOCKET)),
    stock_long("tun-dev", MaybeAttached("device"), &[], "Refused: datagrams are received from sockets, and such a device has none.", |_, _| refuse(NO_SOCKET)),
    flag('t', Value("seconds"), &[], "A client sends for so long, and with 0 until it is interrupted; without it 10. A server ends after so long; without it it does not.",
        time).or("time").from_environment("IPERF_TIME"),
    stock_long("udp-histogram", MaybeAttached("bins"), &[], "The same.",
        |t: &mut Typed, v| { t.bins = Some(value::bins(v)?); Ok(()) }),
    flag('U', Nothing, &[], "Use UDP, and serve one flow at a time.",
        |t: &mut Typed, _| { (t.udp, t.single, t.server.serial) = (true, true, true); Ok(()) }).or("single_udp").from_environment("IPERF_SINGLE_UDP"),
    stock_long("sum-dstip", Nothing, &[], "Sum flows by the address that they come to, and not by their client's.",
        |t: &mut Typed, _| { t.sum_by_destination = true; Ok(()) }),
    flag('D', Nothing, &[], "Serve in the background.", |t: &mut Typed, _| { t.daemon = true; Ok(()) }).or("daemon").from_environment("IPERF_DAEMON"),
    flag('V', Nothing, &[], "Use IPv6. A server takes IPv4 as well.",
        |t: &mut Typed, _| { t.v6 = true; Ok(()) }).or("ipv6_domain").from_environment("IPERF_IPV6_DOMAIN"),
    stock_long("bounceback", MaybeAttached("count"), &[], "Send requests that the server answers, 10 or this many each period, and report how long they take.", bounceback),
    stock_long("bounceback-congest", MaybeAttached("direction"), &[], "Load the path meanwhile: up, down or bidir, and after a comma by how many flows. bidir,1 without.", congest),
    stock_long("bounceback-hold", Value("milliseconds"), &[], "How long the server keeps a request. Default 0.",
        |t: &mut Typed, v| { of_client(t, "--bounceback-hold", Wrong::SettingNotSupported); t.bounce_hold = value::time(v)? / 1000; Ok(()) }),
    stock_long("bounceback-period", Value("seconds"), &[], "From one burst of requests to the next; with 0 without pause. Default 1.",
        |t: &mut Typed, v| { of_client(t, "--bounceback-period", Wrong::SettingNotSupported); t.bounce_period = value::time(v)?; Ok(()) }),
    stock_long("bounceback-no-quickack", Nothing, &[], "Let the server delay its acknowledgements.",
        |t: &mut Typed, _| { of_client(t, "--bounceback-no-quickack", Wrong::SettingNotSupported); t.bounce_quick_ack = false; Ok(()) }),
    stock_long("bounceback-txdelay", Value("seconds"), &[], "Begin so long after the connection is there.",
        |t: &mut Typed, v| { of_client(t, "--bounceback-txdelay", Wrong::SettingNotSupported); t.bounce_delay = Some(value::time(v)?); Ok(()) }),
    flag('c', Value("host"), &[], "Be a client of this host.", client).or("client").from_environment("IPERF_CLIENT"),
    stock_long("connect-only", MaybeAttached("count"), &[], "Connect and close, 10 times or so often, 0 for ever; with -i once an interval for the time of -t.",
        |t: &mut Typed, v| { of_client(t, "--connect-only", Wrong::SettingNotSupported); let count = if v.is_empty() { 10 } else { value::count(v)? }; t.connect_only = Some(ConnectOnly { count: Some(count).filter(|count| *count > 0) }); Ok(()) }),
    stock_long("connect-retries", Value("count"), &[], "How often a refused connection is tried again. Default 0.",
        |t: &mut Typed, v| { of_client(t, "--connect-retries", Wrong::SettingNotSupported); t.connect_retries = value::count(v)?; Ok(()) }),
    flag('d', Nothing, &[], "Test both directions at once, by a connection of the server's.",
        |t: &mut Typed, _| { of_client(t, "-d", Wrong::NotValid); t.direction.add(Direction::Dual) }).or("dualtest"),
    stock_long("fq-rate", Value("rate"), &[], "Have the kernel pace the client's sockets: bits per second, with an upper-case suffix bytes.",
        |t: &mut Typed, v| { of_client(t, "--fq-rate", Wrong::SettingNotSupported); t.socket.max_pacing_bytes_per_second = Some(value::rate_of_letters(v)?); Ok(()) }),
    stock_long("full-duplex", Nothing, &[], "Test both directions at once on the same connection.",
        |t: &mut Typed, _| { of_client(t, "--full-duplex", Wrong::NotSupported); t.direction.add(Direction::FullDuplex) }),
    stock_long("ipg", Value("milliseconds"), &[], "The gap between the datagrams of a frame; without --isochronous between all datagrams, in the place of -b.",
        |t: &mut Typed, v| { of_client(t, "--ipg", Wrong::SettingNotSupported); t.shape.gap = Some(value::gap(v)?); Ok(()) }),
    stock_long("isochronous", MaybeAttached("frames"), &[], "Send frames: RATE:MEAN,DEVIATION, frames per second and their bits per second (with an upper-case suffix bytes), or with the suffix p buffers per frame. Default 60:20m,0.",
        |t: &mut Typed, v| { of_client(t, "--isochronous", Wrong::NotSupported); t.isochronous = Some(value::frames(v)?); Ok(()) }),
    stock_long("burst-period", Value("seconds"), &[], "Send a burst every N seconds; 0 is an ordinary test. Default 1.",
        |t: &mut Typed, v| { of_client(t, "--burst-period", Wrong::SettingNotSupported); t.burst_period = Some(value::time(v)?); Ok(()) }),
    stock_long("burst-size", Value("bytes"), &[], "The size of a burst. Default 1M.",
        |t: &mut Typed, v| { of_client(t, "--burst-size", Wrong::SettingNotSupported); t.burst_size = Some(value::size(v)?); Ok(()) }),
    stock_long("incr-dstip", Nothing, &[], "Each further flow goes to the next address.",
        |t: &mut Typed, _| { of_client(t, "--incr-dstip", Wrong::SettingNotSupported); t.increments.host = true; Ok(()) }),
    stock_long("incr-dstport", Nothing, &[], "Each further flow goes to the next port.",
        |t: &mut Typed, _| { of_client(t, "--incr-dstport", Wrong::SettingNotSupported); t.increments.port = true; Ok(()) }),
    stock_long("incr-srcip", Nothing, &[], "Each further flow comes from the next address (-B).",
        |t: &mut Typed, _| { of_client(t, "--incr-srcip", Wrong::SettingNotSupported); t.increments.source = true; Ok(()) }),
    stock_long("incr-srcport", Nothing, &[], "Each further flow comes from the next port (-B ADDRESS:PORT), as it does in any case.",
        |t: &mut Typed, _| { of_client(t, "--incr-srcport", Wrong::SettingNotSupported); t.increments.source_port = true; Ok(()) }),
    stock_long("l2checks", Nothing, &[], "Have the server complain of datagrams that come in other lengths than they were sent in.",
        |t: &mut Typed, _| { of_client(t, "--l2checks", Wrong::SettingNotSupported); t.asks |= upper::L2_LENGTH; Ok(()) }),
    stock_long("local-only", MaybeAttached("bool"), &[], "Send to hosts on directly connected networks only; 0 is off.",
        |t: &mut Typed, v| { t.socket.dont_route = v != "0"; Ok(()) }),
    stock_long("near-congestion", MaybeAttached("weight"), &[], "Wait after each write for this number of round-trip times. Default 0.5.", near_congestion),
    stock_long("no-connect-sync", Nothing, &[], "Start each of several flows as soon as it is connected.",
        |t: &mut Typed, _| { of_client(t, "--no-connect-sync", Wrong::SettingNotSupported); t.together = false; Ok(()) }),
    stock_long("no-udp-fin", Nothing, &[], "Ask for no report at the end of a UDP test.",
        |t: &mut Typed, _| { of_client(t, "--no-udp-fin", Wrong::SettingNotSupported); t.no_udp_fin = true; Ok(()) }),
    flag('n', Value("bytes"), &[], "Send this number of bytes, not for a time. Of -n and -t the last one counts.", number).or("num"),
    flag('r', Nothing, &[], "Test one direction and then the other, by a connection of the server's.",
        |t: &mut Typed, _| { of_client(t, "-r", Wrong::NotValid); t.direction.add(Direction::TradeOff) }).or("tradeoff"),
    stock_long("tcp-quickack", Nothing, &[], "Do not delay TCP's acknowledgements, at both ends.",
        |t: &mut Typed, _| { t.asks |= upper::QUICK_ACK; t.socket.quick_ack = true; Ok(()) }),
    stock_long("tcp-write-prefetch", Value("bytes"), &[], "Write only while fewer bytes than this are unsent.",
        |t: &mut Typed, v| { of_client(t, "--tcp-write-prefetch", Wrong::SettingNotSupported); t.shape.prefetch = Some(value::size(v)?); Ok(()) }),
    stock_long("tcp-write-times", Nothing, &[], "Report how long writes take.",
        |t: &mut Typed, _| { of_client(t, "--tcp-write-times", Wrong::SettingNotSupported); t.shape.times_writes = true; Ok(()) }),
    stock_long("tos-override", Value("type"), &[], "The type of service of what a server sends for -R and --full-duplex, in the place of the client's.", service_of_senders),
    stock_long("trip-times", Nothing, &[], "Stamp what is sent, for latencies by synchronised clocks.",
        |t: &mut Typed, _| { of_client(t, "--trip-times", Wrong::SettingNotSupported); t.trip_times = true; Ok(()) }),
    stock_long("txdelay-time", Value("seconds"), &[], "Begin so long after the connections are there.", delay),
    stock_long("txstart-time", Value("time"), &[], "Begin at this time: seconds since 1970, with a fraction.", start),
    flag('F', Value("file"), &[], "Send this file, once.",
        |t: &mut Typed, v| { of_client(t, "-F", Wrong::NotValid); t.shape.input = Some(Input::File(v.into())); Ok(()) }).or("fileinput"),
    flag('H', Value("address"), &[], "Of a group (-B), receive only what this address sends.",
        |t: &mut Typed, v| { t.source = Some(v.to_owned()); Ok(()) }).or("ssm-host"),
    flag('I', Nothing, &[], "Send what comes from standard input.",
        |t: &mut Typed, _| { of_client(t, "-I", Wrong::NotValid); t.shape.input = Some(Input::Standard); Ok(()) }).or("stdin"),
    flag('L', Value("port"), &[], "The port that the server's connection of -d and -r comes to. Without it the server's port.",
        |t: &mut Typed, v| { of_client(t, "-L", Wrong::NotValid); t.listen_port = Some(value::ports(v)?.0); Ok(()) }).or("listenport"),
    flag('P', Value("count"), &[], "So many flows at once. Default 1.",
        |t: &mut Typed, v| { t.flows = value::count(v)?.max(1); Ok(()) }).or("parallel"),
    flag('R', Nothing, &[], "Let the server send.",
        |t: &mut Typed, _| { of_client(t, "--reverse", Wrong::NotSupported); t.direction.add(Direction::Reverse) }).or("reverse"),
    flag('T', Value("hops"), &[], "The time to live of multicast datagrams. Default 1.",
        |t: &mut Typed, v| { t.socket.multicast_ttl = Some(value::count(v)?.min(255) as u8); Ok(()) }).or("ttl"),
    flag('X', Nothing, &[], "Wait for the server's version before any data is sent.",
        |t: &mut Typed, _| { of_client(t, "-X or --peer-detect", Wrong::NotSupported); t.peer_detect = true; Ok(()) }).or("peer-detect"),
    flag('x', Value("letters"), &[], "Leave out reports: C of connections, D of data, M of multicast, S of settings, V of the server's.",
        exclude).or("reportexclude").from_environment("IPERF_REPORTEXCLUDE"),
    flag('y', Value("style"), &[], "With C, reports are comma-separated values.",
        report_style).or("reportstyle").from_environment("IPERF_REPORTSTYLE"),
    flag('h', Nothing, &[], "Print the usage text and exit.", |_, _| Err(Quit::Help)).or("help"),
    flag('v', Nothing, &[], "Print the version and exit.", |_, _| Err(Quit::Version)).or("version"),
    stock_long("NUM_REPORT_STRUCTS", Value("count"), &[], "Refused: reports need no such buffers here.",
        |_, _| refuse("reports need no such buffers here")),
    long("allow-peers", Value("network"), "Serve clients from this network only (repeatable)", "",
        "Serve clients from this network, and no others: 10.0.0.0/8, fd00::/8, or one address. May be given several times.",
        |t: &mut Typed, v| { t.server.networks.push(Network::parse(v).or_else(refuse)?); Ok(()) }),
    long("max-clients", Value("count"), "Serve at most this number of connections or flows at once", "1024",
        "So many connections or UDP flows at once, of which one address gets at most 15/16. Default {default}.",
        |t: &mut Typed, v| { t.server.clients = value::count(v)?.max(1); Ok(()) }),
    long("json", Nothing, "Print the result as a JSON document, and nothing else", "",
        "Print a client's result as a JSON document in the place of all text: that of linerate run.",
        |t: &mut Typed, _| { t.json = true; Ok(()) }),
    long("html", Value("file"), "Write the result as a page with plots", "",
        "Write a client's result as one page, with plots, that needs nothing from the network.",
        |t: &mut Typed, v| { t.html = Some(v.into()); Ok(()) }),
    long("strict", Nothing, "Say what makes a result doubtful, and exit with 3 if anything does", "",
        "Print what makes a client's result doubtful on standard error, and exit with 3 if anything does.",
        |t: &mut Typed, _| { t.strict = true; Ok(()) }),
]};

/// Why there is no `--tap-dev` and no `--tun-dev`.
const NO_SOCKET: &str = "datagrams are received from sockets, and such a device has none: -B ADDRESS%DEVICE receives what comes from one";

fn own_words(line: String) -> Quit {
    Quit::Exit(Exit::stderr(line + "\n", 1))
}

fn of_client(typed: &mut Typed, name: &'static str, wrong: Wrong) {
    typed.of_client.push((name, wrong));
}

fn server(typed: &mut Typed) {
    match typed.role {
        Some(Role::Client(_)) => typed
            .notices
            .push("WARNING: option -s is not valid for client mode".to_owned()),
        _ => typed.role = Some(Role::Server),
    }
}

fn client(typed: &mut Typed, host: &str) -> Result<(), Quit> {
    if typed.role == Some(Role::Server) {
        return refuse("-s makes this a server");
    }
    typed.role = Some(Role::Client(host.to_owned()));
    Ok(())
}

fn format(typed: &mut Typed, letter: &str) -> Result<(), Quit> {
    let letter = letter.chars().next().unwrap_or('a');
    match Format::of_letter(letter) {
        Some(format) => typed.format = format,
        None => return refuse("it is none of a, b, k, m, g, t, A, B, K, M, G, T"),
    }
    Ok(())
}

fn interval(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    if text == "f" {
        typed.by_frames = true;
        return Ok(());
    }
    let Some(interval) = value::seconds(text) else {
        return Err(own_words(format!(
            "Invalid value of '{text}' for -i interval"
        )));
    };
    if !interval.is_zero() && interval < SHORTEST {
        let warning = "WARNING: interval too small, increasing to 0.1000 milliseconds.";
        typed.notices.push(warning.to_owned());
    }
    typed.interval = Some(interval.max(SHORTEST)).filter(|_| !interval.is_zero());
    Ok(())
}

fn near_congestion(typed: &mut Typed, weight: &str) -> Result<(), Quit> {
    of_client(typed, "--near-congestion", Wrong::SettingNotSupported);
    typed.shape.near_congestion = Some(match weight.parse::<f64>() {
        _ if weight.is_empty() => 0.5,
        Ok(weight) if weight.is_finite() && weight < 1000.0 => {
            if weight < 0.0 {
                0.5
            } else {
                weight
            }
        }
        _ => return refuse("it is not a number of round-trip times"),
    });
    Ok(())
}

fn congest(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    of_client(typed, "--bounceback-congest", Wrong::SettingNotSupported);
    let (way, flows) = text.split_once(',').unwrap_or((text, "1"));
    let way = match way {
        "up" => Direction::Forward,
        "down" => Direction::Reverse,
        "bidir" | "" => Direction::FullDuplex,
        _ => {
            return Err(own_words(format!(
                "Unrecoginized value of {way} for bounceback-congestion, use 'up', 'down' or 'bidir'"
            )));
        }
    };
    typed.load = Some((way, value::count(flows)?.max(1)));
    Ok(())
}

fn service_of_senders(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    let Some(service) = value::type_of_service(text) else {
        return Err(own_words(format!("Invalid --tos-overide value of {text}")));
    };
    typed.service_of_senders = Some(service);
    Ok(())
}

fn delay(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    of_client(typed, "--txdelay-time", Wrong::SettingNotSupported);
    let Some(delay) = value::seconds(text) else {
        return Err(own_words(format!(
            "Invalid value of '{text}' for --txdelay-time time"
        )));
    };
    typed.begin.delay = Some(delay);
    Ok(())
}

fn start(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    /// How far ahead it may be.
    const MOST: Duration = Duration::from_secs(3600);
    of_client(typed, "--txstart-time", Wrong::SettingNotSupported);
    let seconds = text.parse::<f64>().ok();
    let at = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let Some(at) = at.filter(|at| at.as_secs() <= u32::MAX.into()) else {
        return Err(own_words(
            "WARNING: invalid --txstart-time format".to_owned(),
        ));
    };
    let now = Duration::from_nanos(sys::clock::wall_ns());
    if at > now + MOST {
        return Err(own_words(format!(
            "ERROR: --txstart-time ({}.{}) exceeds max scheduled delay of 3600 secs",
            at.as_secs(),
            at.subsec_micros()
        )));
    }
    typed.begin.at = Some(at);
    Ok(())
}

fn ports(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    typed.ports = value::ports(text)?;
    Ok(())
}

fn permit_key(typed: &mut Typed, key: &str) -> Result<(), Quit> {
    typed.permit_key = Some(match key {
        "" => PermitKey::Any,
        _ if key.len() < 4 => {
            let line = "ERROR: value for --permit-key must have at least 4 characters";
            return Err(own_words(line.to_owned()));
        }
        _ if key.len() > crate::wire::MOST_KEY => return refuse("it has more than 128 bytes"),
        _ => PermitKey::This(key.to_owned()),
    });
    Ok(())
}

fn window(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    let size = value::size(text)?;
    if size < 2048 {
        typed.notices.push(format!(
            "WARNING: TCP window size set to {size} bytes. A small window size\n\
             will give poor performance. See the Iperf documentation."
        ));
    }
    typed.socket.send_buffer_bytes = Some(size);
    typed.socket.receive_buffer_bytes = Some(size);
    Ok(())
}

fn type_of_service(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    let Some(service) = value::type_of_service(text) else {
        return Err(own_words(format!("Invalid --tos value of {text}")));
    };
    typed.socket.type_of_service = Some(service);
    Ok(())
}

fn time(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    let Some(time) = value::seconds(text) else {
        return Err(own_words(format!(
            "ERROR: -t value of '{text}' not recognized"
        )));
    };
    typed.time = Some(Some(time).filter(|time| !time.is_zero()));
    typed.bytes = None;
    Ok(())
}

fn number(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    match value::bytes(text) {
        Ok(bytes @ 1..) => typed.bytes = Some(bytes),
        _ => {
            return Err(own_words(format!(
                "Invalid value for -n amount of '{text}'"
            )));
        }
    }
    Ok(())
}

fn bounceback(typed: &mut Typed, count: &str) -> Result<(), Quit> {
    typed.bounceback = Some(match count {
        "" => 10,
        _ => value::count(count)?.max(1),
    });
    Ok(())
}

fn exclude(typed: &mut Typed, letters: &str) -> Result<(), Quit> {
    for letter in letters.chars() {
        match letter.to_ascii_uppercase() {
            'C' => typed.exclude.connections = true,
            'D' => typed.exclude.data = true,
            'M' => typed.exclude.multicast = true,
            'S' => typed.exclude.settings = true,
            'V' => typed.exclude.server_report = true,
            _ => return refuse(format!("{letter} is none of C, D, M, S, V")),
        }
    }
    Ok(())
}

fn report_style(typed: &mut Typed, style: &str) -> Result<(), Quit> {
    match style {
        "C" | "c" => typed.csv = true,
        _ => return refuse("it is not C"),
    }
    Ok(())
}
