//! The table of options, and the given options.

use std::path::PathBuf;
use std::time::Duration;

use getopt::Argument::{Nothing, OptionalAttached, Value};
use getopt::stock_version::StockVersion;
use getopt::{EarlyExit, Exit, Section, linerate_long, refuse, stock_letter, stock_long};
use model::{SocketOptions, with_defaults};
use server::{Network, ServerConfig};
use units::iperf::parse_real;

use super::send_mode::{Input, SendMode};
use super::settings::{
    ConnectOnly, Direction, ExcludedReports, Format, Increments, PermitKey, StartTime,
};
use super::value::{self, RateSetting};
use crate::timing::HistogramBins;
use crate::version::Version;
use crate::wire::flags::upper;

with_defaults! {
    /// The given options.
    pub(super) struct GivenOptions {
        /// `-c` or `-s`.
        pub(super) role: Option<GivenRole> = None,
        pub(super) ports: (u16, u16) = (crate::wire::DEFAULT_PORT, crate::wire::DEFAULT_PORT),
        pub(super) udp: bool = false,
        /// `-t`: `Some(None)` is no time limit. A later `-t` clears `bytes`.
        pub(super) time: Option<Option<Duration>> = None,
        pub(super) bytes: Option<u64> = None,
        pub(super) interval: Option<Duration> = None,
        pub(super) length: Option<u32> = None,
        pub(super) rate: Option<RateSetting> = None,
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
        pub(super) exclude: ExcludedReports = ExcludedReports::default(),
        pub(super) csv: bool = false,
        pub(super) hide_ips: bool = false,
        pub(super) sum_only: bool = false,
        pub(super) sum_by_destination: bool = false,
        pub(super) single_udp: bool = false,
        pub(super) source: Option<String> = None,
        pub(super) print_mss: bool = false,
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
        pub(super) retry_time: Option<Duration> = None,
        pub(super) retry_interval: Option<Duration> = None,
        pub(super) starts_together: bool = true,
        pub(super) send_mode: SendMode = SendMode::default(),
        pub(super) isochronous: Option<(f64, value::FrameLoad, f64)> = None,
        pub(super) burst_period: Option<Duration> = None,
        pub(super) burst_size: Option<u32> = None,
        /// With a count of 0 for the version's default.
        pub(super) bins: Option<HistogramBins> = None,
        pub(super) jitter_bins: Option<HistogramBins> = None,
        pub(super) reports_bursts: bool = false,
        /// Upper flags for the header.
        pub(super) request_flags: u16 = 0,
        pub(super) start_time: StartTime = StartTime::default(),
        pub(super) connect_only: Option<ConnectOnly> = None,
        /// `--bounceback-congest`: the direction and the number of flows.
        pub(super) congestion_load: Option<(Direction, u32)> = None,
        pub(super) bounce_delay: Option<Duration> = None,
        pub(super) bounce_reply: Option<u32> = None,
        pub(super) tos_override: Option<u8> = None,
        pub(super) real_time: bool = false,
        pub(super) increments: Increments = Increments::default(),
        pub(super) server: ServerConfig = ServerConfig::default(),
        pub(super) json: bool = false,
        pub(super) html: Option<PathBuf> = None,
        pub(super) strict: bool = false,
        pub(super) version: Version = Version::default(),
        pub(super) utc: bool = false,
        pub(super) dscp: bool = false,
        pub(super) tx_delay: Option<Duration> = None,
        pub(super) skips_receive_copy: bool = false,
        /// `--fq-rate-step`, in bytes per second.
        pub(super) pacing_step: Option<u64> = None,
        pub(super) pacing_step_interval: Option<Duration> = None,
        pub(super) ignores_shutdown: bool = false,
        pub(super) exchange_timeout: Option<Duration> = None,
        pub(super) syncs_transfer_id: bool = false,
        /// `--working-load`: the direction, and the number of flows if given.
        pub(super) working_load: Option<(Direction, Option<u32>)> = None,
        pub(super) working_load_congestion_control: Option<String> = None,
        /// Whether these are the options of the second client of `--working-load`.
        pub(super) is_working_load: bool = false,
        /// Warnings, which go to standard error before all other output.
        pub(super) notices: Vec<String> = Vec::new(),
        /// The given client-only options, each with the form of stock's warning if the program is a
        /// server.
        pub(super) client_only: Vec<(&'static str, ClientOnlyWarning)> = Vec::new(),
    }
}

/// The role as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GivenRole {
    Client(String),
    Server,
}

/// The form of stock's warning about a client-only option on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientOnlyWarning {
    NotValid,
    NotSupported,
    SettingNotSupported,
}

/// The shortest interval of `-i`. linerate replaces a shorter one by this, with stock's warning.
const MIN_INTERVAL: Duration = Duration::from_micros(100);

/// All options: stock's in the order of its manual, then the options of linerate.
///
/// The rows of stock's options have no usage text, because `usage.rs` has stock's recorded one.
#[rustfmt::skip]
pub(super) static SECTION: Section<GivenOptions> = Section {
    title: "OPTIONS",
    heading: "",
    scope: "",
    options: &[
    stock_letter('b', Value("rate"), &[],
        "Send at this rate in bits per second (k, m, g of 1000; K, M, G of 1024), or with the suffix pps in datagrams per second. With a standard deviation after a comma, the sender draws a new rate each second. The schedule is fixed: late sends catch up. Default 1048576 for UDP; no limit for TCP.",
        |t: &mut GivenOptions, v| { t.rate = Some(value::rate(v)?); Ok(()) }).with_long("bandwidth").with_variable("IPERF_BANDWIDTH"),
    stock_letter('e', Nothing, &[], "Report more: write and read calls, retransmissions, window, round-trip time, latency.",
        |t: &mut GivenOptions, _| { t.enhanced = true; Ok(()) }).with_long("enhanced"),
    stock_letter('f', Value("letter"), &[],
        "The unit of figures: b, k, m, g, t for bits, B, K, M, G, T for bytes, a or A for the unit that fits.", set_format).with_long("format").with_variable("IPERF_FORMAT"),
    stock_long("hide-ips", Nothing, &[], "Show only the last number of each address.",
        |t: &mut GivenOptions, _| { t.hide_ips = true; Ok(()) }),
    stock_letter('i', Value("seconds"), &[], "Report every N seconds, at least 0.0001. With f, a server reports each burst; for tests of bursts it always does. Default: report at the end only.",
        set_interval).with_long("interval").with_variable("IPERF_INTERVAL"),
    stock_letter('l', Value("bytes"), &[], "Bytes per write or read call, or per datagram. Default 128K for TCP, 1470 for UDP over IPv4, 1450 for UDP over IPv6, 100 for a bounceback test.",
        |t: &mut GivenOptions, v| { t.length = Some(value::size(v)?); Ok(()) }).with_long("len").with_variable("IPERF_LEN"),
    stock_letter('m', Nothing, &[], "Print TCP's maximum segment size.",
        |t: &mut GivenOptions, _| { t.print_mss = true; Ok(()) }).with_long("print_mss").with_variable("IPERF_PRINT_MSS"),
    stock_letter('o', Value("file"), &[], "Write reports and errors to this file.",
        |t: &mut GivenOptions, v| { t.output = Some(v.into()); Ok(()) }).with_long("output"),
    stock_letter('p', Value("port"), &[], "The port of the server, or a range FIRST-LAST: a server listens on each port, and a client runs one flow to each. Default 5001.",
        set_ports).with_long("port").with_variable("IPERF_PORT"),
    stock_long("permit-key", OptionalAttached("key"), &[],
        "The key of a TCP test. A server refuses tests with another key or without one. Without a value, a server generates a key. The key is sent in clear text.", set_permit_key).with_secret_value(),
    stock_long("sum-only", Nothing, &[], "Report the sum of several flows only, not each flow.",
        |t: &mut GivenOptions, _| { t.sum_only = true; Ok(()) }),
    stock_letter('u', Nothing, &[], "Use UDP.", |t: &mut GivenOptions, _| { t.udp = true; Ok(()) }).with_long("udp").with_variable("IPERF_UDP"),
    stock_long("tcp-tx-delay", Value("milliseconds"), &[], "Delay sent TCP data by N milliseconds (TCP_TX_DELAY). Without the fq scheduler, the kernel delays nothing.", set_tx_delay),
    stock_long("utc", Nothing, &[], "Print times in UTC.", |t: &mut GivenOptions, _| { t.utc = true; Ok(()) }),
    stock_letter('w', Value("bytes"), &[], "The size of the socket buffers. Linux doubles it.",
        set_window).with_long("window").with_variable("TCP_WINDOW_SIZE"),
    stock_letter('z', Nothing, &[], "Run with real-time scheduling (SCHED_RR), ahead of all ordinary programs. It needs a privilege.", |t: &mut GivenOptions, _| { t.real_time = true; Ok(()) }).with_long("realtime"),
    stock_letter('B', Value("address"), &[], "Bind to this address, and with :PORT to this port; [ADDRESS]:PORT for IPv6.",
        |t: &mut GivenOptions, v| { t.bind = Some(v.to_owned()); Ok(()) }).with_long("bind").with_variable("IPERF_BIND"),
    stock_letter('C', Nothing, &[], "Send no header, and answer none.", |t: &mut GivenOptions, _| { t.compatible = true; Ok(()) }).with_long("compatibility"),
    stock_letter('M', Value("bytes"), &[], "TCP's maximum segment size.",
        |t: &mut GivenOptions, v| { t.socket.max_segment_bytes = Some(value::size(v)?); Ok(()) }).with_long("mss").with_variable("IPERF_MSS"),
    stock_letter('N', Nothing, &[], "Send small segments without delay (TCP_NODELAY).",
        |t: &mut GivenOptions, _| { t.socket.no_delay = true; Ok(()) }).with_long("nodelay"),
    stock_letter('S', Value("type"), &[], "The type of service of sent data: a number, or a name such as af11, cs1, ef, lowdelay.",
        set_type_of_service).with_long("tos").with_variable("IPERF_TOS"),
    stock_letter('Z', Value("name"), &[], "The congestion control algorithm of TCP.",
        |t: &mut GivenOptions, v| { t.socket.congestion_control = Some(v.to_owned()); Ok(()) }).with_long("tcp-congestion"),
    stock_letter('s', Nothing, &[], "Run as a server.", |t: &mut GivenOptions, _| { set_server(t); Ok(()) }).with_long("server").with_variable("IPERF_SERVER"),
    stock_letter('1', Nothing, &[], "Serve one client at a time.",
        |t: &mut GivenOptions, _| { t.server.serves_one_at_a_time = true; Ok(()) }).with_long("singleclient").with_variable("IPERF_SINGLECLIENT"),
    stock_long("histograms", OptionalAttached("bins"), &[], "Keep histograms. A server counts latencies of tests with --trip-times; a client counts the durations of its writes. WIDTH[u|m],COUNT,LOW,HIGH: width (in microseconds, or with m in milliseconds) and number of bins, and two percentages. Default 100u,100000,5,95.",
        |t: &mut GivenOptions, v| { t.bins = Some(value::bins(v)?); Ok(()) }),
    stock_long("jitter-histograms", OptionalAttached("width"), &[], "A server of UDP prints how many times the delays of successive datagrams differ by how much, in bins of this width in microseconds. Default 100.",
        |t: &mut GivenOptions, v| { t.jitter_bins = Some(value::jitter_bins(v)?); Ok(()) }),
    stock_long("permit-key-timeout", Value("seconds"), &[], "How long a server waits for a test with its permit key; 0 is no limit. Default 20.",
        |t: &mut GivenOptions, v| { t.permit_key_timeout = Some(value::time(v)?).filter(|time| !time.is_zero()); Ok(()) }),
    stock_long("skip-rx-copy", Nothing, &[], "Do not copy received TCP data from the kernel (MSG_TRUNC), except in tests with --trip-times or bursts, whose data has times.",
        |t: &mut GivenOptions, _| { t.skips_receive_copy = true; Ok(()) }),
    stock_long("test-exchange-timeout", Value("seconds"), &[], "How long a server waits for the header of a test; 0 is no limit. Default 20.",
        |t: &mut GivenOptions, v| { t.exchange_timeout = Some(value::time(v)?); Ok(()) }),
    stock_long("tcp-rx-window-clamp", Value("bytes"), &[], "The largest receive window of a server.",
        |t: &mut GivenOptions, v| { t.socket.window_clamp_bytes = Some(value::size(v)?); Ok(()) }),
    stock_long("tap-dev", OptionalAttached("device"), &[], "Refused: linerate receives from sockets only.", |_, _| refuse(NO_SOCKET)),
    stock_long("tun-dev", OptionalAttached("device"), &[], "Refused: linerate receives from sockets only.", |_, _| refuse(NO_SOCKET)),
    stock_letter('t', Value("seconds"), &[], "A client sends for N seconds, with 0 until it is interrupted. Default 10. A server stops after N seconds. Default: no limit.",
        set_time).with_long("time").with_variable("IPERF_TIME"),
    stock_long("udp-histogram", OptionalAttached("bins"), &[], "As --histograms.",
        |t: &mut GivenOptions, v| { t.bins = Some(value::bins(v)?); Ok(()) }),
    stock_letter('U', Nothing, &[], "Use UDP, and serve one flow at a time.",
        |t: &mut GivenOptions, _| { (t.udp, t.single_udp, t.server.serves_one_at_a_time) = (true, true, true); Ok(()) }).with_long("single_udp").with_variable("IPERF_SINGLE_UDP"),
    stock_long("sum-dstip", Nothing, &[], "Sum flows by destination address instead of source address.",
        |t: &mut GivenOptions, _| { t.sum_by_destination = true; Ok(()) }),
    stock_letter('D', Nothing, &[], "Serve in the background.", |t: &mut GivenOptions, _| { t.daemon = true; Ok(()) }).with_long("daemon").with_variable("IPERF_DAEMON"),
    stock_letter('V', Nothing, &[], "Use IPv6. A server also accepts IPv4.",
        |t: &mut GivenOptions, _| { t.v6 = true; Ok(()) }).with_long("ipv6_domain").with_variable("IPERF_IPV6_DOMAIN"),
    stock_long("bounceback", OptionalAttached("count"), &[], "Send N requests per period, which the server answers, and report the response times. Default 10.", set_bounceback),
    stock_long("bounceback-congest", OptionalAttached("direction"), &[], "Load the path during the test: up, down or bidir, and after a comma the number of flows. Default bidir,1.", set_congestion_load),
    stock_long("bounceback-hold", Value("milliseconds"), &[], "The time that the server delays each response. Default 0.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--bounceback-hold", ClientOnlyWarning::SettingNotSupported); t.bounce_hold = value::milliseconds(v)?; Ok(()) }),
    stock_long("bounceback-period", Value("seconds"), &[], "The time from one burst of requests to the next; 0 is no pause. Default 1.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--bounceback-period", ClientOnlyWarning::SettingNotSupported); t.bounce_period = value::time(v)?; Ok(()) }),
    stock_long("bounceback-no-quickack", Nothing, &[], "Let the server delay its acknowledgements.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--bounceback-no-quickack", ClientOnlyWarning::SettingNotSupported); t.bounce_quick_ack = false; Ok(()) }),
    stock_long("bounceback-reply", Value("bytes"), &[], "The size of a reply, if it differs from that of a request; at least 64.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--bounceback-reply", ClientOnlyWarning::SettingNotSupported); t.bounce_reply = Some(value::size(v)?); Ok(()) }),
    stock_long("bounceback-txdelay", Value("seconds"), &[], "Start N seconds after the connection is established.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--bounceback-txdelay", ClientOnlyWarning::SettingNotSupported); t.bounce_delay = Some(delay(v, "--bounceback-txdelay")?); Ok(()) }),
    stock_letter('c', Value("host"), &[], "Run as a client of this host.", set_client).with_long("client").with_variable("IPERF_CLIENT"),
    stock_long("connect-only", OptionalAttached("count"), &[], "Connect and close N times; 0 means without end. Default 10. With -i, connect once per interval for the time of -t.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--connect-only", ClientOnlyWarning::SettingNotSupported); let count = if v.is_empty() { 10 } else { value::count(v)? }; t.connect_only = Some(ConnectOnly { count: Some(count).filter(|count| *count > 0) }); Ok(()) }),
    stock_long("connect-retries", Value("count"), &[], "The number of retries of a refused connection. Default 0.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--connect-retries", ClientOnlyWarning::SettingNotSupported); t.connect_retries = value::count(v)?; Ok(()) }),
    stock_long("connect-retry-time", Value("seconds"), &[], "Try to connect for N seconds. Default: once; with --connect-retry-timer 10.",
        |t: &mut GivenOptions, v| { t.retry_time = Some(retry_delay(v, "--connect-retry-time")?); Ok(()) }),
    stock_long("connect-retry-timer", Value("seconds"), &[], "The time from one attempt to connect to the next. Default 1.",
        |t: &mut GivenOptions, v| { t.retry_interval = Some(retry_delay(v, "--connect-retry-timer")?); Ok(()) }),
    stock_long("dscp", Value("value"), &[], "The DSCP of sent data, from 0 to 63.", set_dscp),
    stock_letter('d', Nothing, &[], "Test both directions at the same time. The server opens its own connection to the client.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "-d", ClientOnlyWarning::NotValid); t.direction.add(Direction::Dual) }).with_long("dualtest"),
    stock_long("fq-rate", Value("rate"), &[], "Let the kernel pace the client's sockets at this rate, in bits per second, or in bytes per second with an upper-case suffix.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--fq-rate", ClientOnlyWarning::SettingNotSupported); t.socket.max_pacing_bytes_per_second = Some(value::bytes_per_second(v)?); Ok(()) }),
    stock_long("fq-rate-step", Value("rate"), &[], "Raise the rate of --fq-rate by this much after each interval, from the step itself without --fq-rate.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--fq-rate-step", ClientOnlyWarning::NotSupported); t.pacing_step = Some(pacing_step(v)?); Ok(()) }),
    stock_long("fq-rate-step-interval", Value("seconds"), &[], "The interval of --fq-rate-step. Default 1.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--fq-rate-step-interval", ClientOnlyWarning::NotSupported); t.pacing_step_interval = Some(retry_delay(v, "--fq-rate-step-interval")?); Ok(()) }),
    stock_long("full-duplex", Nothing, &[], "Test both directions at the same time on the same connection.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--full-duplex", ClientOnlyWarning::NotSupported); t.direction.add(Direction::FullDuplex) }),
    stock_long("ipg", Value("milliseconds"), &[], "The gap between the datagrams of a frame. Without --isochronous, the gap between all datagrams, instead of -b.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--ipg", ClientOnlyWarning::SettingNotSupported); t.send_mode.gap = Some(value::gap(v)?); Ok(()) }),
    stock_long("isochronous", OptionalAttached("frames"), &[], "Send frames. RATE:MEAN,DEVIATION: frames per second, then mean and standard deviation of the load in bits per second (bytes with an upper-case suffix). With the suffix p, MEAN is in buffers per frame. Default 60:20m,0.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--isochronous", ClientOnlyWarning::NotSupported); t.isochronous = Some(value::frames(v)?); Ok(()) }),
    stock_long("burst-period", Value("seconds"), &[], "Send a burst every N seconds; with 0, run an ordinary test. Default 1.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--burst-period", ClientOnlyWarning::SettingNotSupported); t.burst_period = Some(value::time(v)?); Ok(()) }),
    stock_long("burst-size", Value("bytes"), &[], "The size of a burst. Default 1M.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--burst-size", ClientOnlyWarning::SettingNotSupported); t.burst_size = Some(value::size(v)?); Ok(()) }),
    stock_long("ignore-shutdown", Nothing, &[], "End a TCP test with the last write, without a wait for the server.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--ignore-shutdown", ClientOnlyWarning::NotSupported); t.ignores_shutdown = true; Ok(()) }),
    stock_long("incr-dstip", Nothing, &[], "Each further flow goes to the next address.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--incr-dstip", ClientOnlyWarning::SettingNotSupported); t.increments.host = true; Ok(()) }),
    stock_long("incr-dstport", Nothing, &[], "Each further flow goes to the next port.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--incr-dstport", ClientOnlyWarning::SettingNotSupported); t.increments.port = true; Ok(()) }),
    stock_long("incr-srcip", Nothing, &[], "Each further flow uses the next source address (-B).",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--incr-srcip", ClientOnlyWarning::SettingNotSupported); t.increments.source = true; Ok(()) }),
    stock_long("incr-srcport", Nothing, &[], "Each further flow uses the next source port (-B ADDRESS:PORT). This is also the default.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--incr-srcport", ClientOnlyWarning::SettingNotSupported); t.increments.source_port = true; Ok(()) }),
    stock_long("l2checks", Nothing, &[], "Let the server warn about datagrams that arrive with another length than they were sent with.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--l2checks", ClientOnlyWarning::SettingNotSupported); t.request_flags |= upper::L2_LENGTH; Ok(()) }),
    stock_long("local-only", OptionalAttached("bool"), &[], "Send to hosts on directly connected networks only; 0 is off.",
        |t: &mut GivenOptions, v| { t.socket.dont_route = v != "0"; Ok(()) }),
    stock_long("near-congestion", OptionalAttached("weight"), &[], "Wait after each write for this number of round-trip times. Default 0.5.", set_near_congestion),
    stock_long("no-connect-sync", Nothing, &[], "Start each of several flows as soon as it is connected.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--no-connect-sync", ClientOnlyWarning::SettingNotSupported); t.starts_together = false; Ok(()) }),
    stock_long("no-udp-fin", Nothing, &[], "Request no server report at the end of a UDP test.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--no-udp-fin", ClientOnlyWarning::SettingNotSupported); t.no_udp_fin = true; Ok(()) }),
    stock_letter('n', Value("bytes"), &[], "Send this number of bytes; the test has no time limit. If both -n and -t are given, the last one counts.", set_bytes).with_long("num"),
    stock_letter('r', Nothing, &[], "Test one direction and then the other. The server opens its own connection to the client.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "-r", ClientOnlyWarning::NotValid); t.direction.add(Direction::TradeOff) }).with_long("tradeoff"),
    stock_long("sync-transfer-id", Nothing, &[], "Let the server give the flows the same numbers as this client. Only servers of 2.2.1 or later understand it.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--sync-transfer-id", ClientOnlyWarning::NotSupported); t.syncs_transfer_id = true; Ok(()) }),
    stock_long("tcp-quickack", Nothing, &[], "Do not delay TCP's acknowledgements, at both ends.",
        |t: &mut GivenOptions, _| { t.request_flags |= upper::QUICK_ACK; t.socket.quick_ack = true; Ok(()) }),
    stock_long("tcp-write-prefetch", Value("bytes"), &[], "Write only while fewer bytes than this are unsent.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--tcp-write-prefetch", ClientOnlyWarning::SettingNotSupported); t.send_mode.prefetch = Some(value::size(v)?); Ok(()) }),
    stock_long("tcp-write-times", Nothing, &[], "Report the durations of writes.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--tcp-write-times", ClientOnlyWarning::SettingNotSupported); t.send_mode.times_writes = true; Ok(()) }),
    stock_long("tos-override", Value("type"), &[], "The type of service of the data that a server sends for -R and --full-duplex, instead of the client's.", set_tos_override),
    stock_long("trip-times", Nothing, &[], "Put the send time into the data, to measure latencies. Both clocks must be synchronised.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--trip-times", ClientOnlyWarning::SettingNotSupported); t.trip_times = true; Ok(()) }),
    stock_long("txdelay-time", Value("seconds"), &[], "Start N seconds after the connections are established.", set_delay),
    stock_long("txstart-time", Value("time"), &[], "Start at this time: seconds since 1970, with a fraction.", set_start_time),
    stock_long("udp-l4s", Nothing, &[], "Not supported, as in Debian's build of iperf 2.2.1, which prints the same warning.",
        |t: &mut GivenOptions, _| { t.notices.push("WARN: UDP L4S --udp-l4s not supported".to_owned()); Ok(()) }),
    stock_long("udp-l4s-video", Nothing, &[], "Not supported, as --udp-l4s.",
        |t: &mut GivenOptions, _| { t.notices.push("WARN: UDP L4S --udp-l4s-video not supported".to_owned()); Ok(()) }),
    stock_long("working-load", OptionalAttached("direction"), &[], "Load the path with TCP flows during the test: up, down or bidir, and after a comma the number of flows. Default bidir,1.", set_working_load),
    stock_long("working-load-cca", Value("name"), &[], "The congestion control of the flows of --working-load.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "--working-load-cca", ClientOnlyWarning::NotSupported); t.working_load_congestion_control = Some(v.to_owned()); Ok(()) }),
    stock_letter('F', Value("file"), &[], "Send this file, once.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "-F", ClientOnlyWarning::NotValid); t.send_mode.input = Some(Input::File(v.into())); Ok(()) }).with_long("fileinput"),
    stock_letter('H', Value("address"), &[], "Receive a multicast group (-B) from this source address only.",
        |t: &mut GivenOptions, v| { t.source = Some(v.to_owned()); Ok(()) }).with_long("ssm-host"),
    stock_letter('I', Nothing, &[], "Send standard input.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "-I", ClientOnlyWarning::NotValid); t.send_mode.input = Some(Input::Standard); Ok(()) }).with_long("stdin"),
    stock_letter('L', Value("port"), &[], "The local port for the server's connection of -d and -r. Default: the server's port.",
        |t: &mut GivenOptions, v| { mark_client_only(t, "-L", ClientOnlyWarning::NotValid); t.listen_port = Some(value::ports(v)?.0); Ok(()) }).with_long("listenport"),
    stock_letter('P', Value("count"), &[], "Run N flows at the same time. Default 1.",
        |t: &mut GivenOptions, v| { t.flows = value::count(v)?.max(1); Ok(()) }).with_long("parallel"),
    stock_letter('R', Nothing, &[], "Reverse the direction: the server sends.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "--reverse", ClientOnlyWarning::NotSupported); t.direction.add(Direction::Reverse) }).with_long("reverse"),
    stock_letter('T', Value("hops"), &[], "The time to live of multicast datagrams. Default 1.",
        |t: &mut GivenOptions, v| { t.socket.multicast_ttl = Some(value::count(v)?.min(255) as u8); Ok(()) }).with_long("ttl"),
    stock_letter('X', Nothing, &[], "Wait for the server's version before sending data.",
        |t: &mut GivenOptions, _| { mark_client_only(t, "-X or --peer-detect", ClientOnlyWarning::NotSupported); t.peer_detect = true; Ok(()) }).with_long("peer-detect"),
    stock_letter('x', Value("letters"), &[], "Exclude reports: C connections, D data, M multicast, S settings, V server report.",
        exclude_reports).with_long("reportexclude").with_variable("IPERF_REPORTEXCLUDE"),
    stock_letter('y', Value("style"), &[], "With C, print reports as comma-separated values.",
        set_report_style).with_long("reportstyle").with_variable("IPERF_REPORTSTYLE"),
    stock_letter('h', Nothing, &[], "Print the usage text and exit.", |_, _| Err(EarlyExit::Help)).with_long("help"),
    stock_letter('v', Nothing, &[], "Print the version and exit.", |_, _| Err(EarlyExit::Version)).with_long("version"),
    stock_long("NUM_REPORT_STRUCTS", Value("count"), &[], "Refused: linerate's reports need no such buffers.",
        |_, _| refuse("linerate's reports need no such buffers")),
    linerate_long("stock-version", Value("version"), "Print as this version of iperf 2", "2.2.1",
        "Print the texts of this version of iperf 2: 2.1.8 or 2.2.1. The environment variable LINERATE_STOCK_VERSION also selects versions, such as 'iperf=2.1.8,iperf3=3.12'. Default {default}.",
        |t: &mut GivenOptions, v| { t.version = Version::from_name(v).or_else(refuse)?; Ok(()) }),
    linerate_long("allow-peers", Value("network"), "Serve clients from this network only (repeatable)", "",
        "Serve only clients from this network: 10.0.0.0/8, fd00::/8, or one address. Repeatable.",
        |t: &mut GivenOptions, v| { t.server.networks.push(Network::parse(v).or_else(refuse)?); Ok(()) }),
    linerate_long("allow-third-party", Value("network"), "Send UDP data to unproven addresses in this network (repeatable)", "",
        "Send UDP data to clients in this network although their address is not proven: 10.0.0.0/8, fd00::/8, or one address. Repeatable. Without it, only addresses of this host or on its links, and linerate clients that prove their address, get more than three times the bytes that they sent.",
        |t: &mut GivenOptions, v| t.server.third_parties.allow(v).or_else(refuse)),
    linerate_long("max-clients", Value("count"), "Serve at most N TCP connections or UDP flows at a time", "1024",
        "Serve at most N TCP connections or UDP flows at a time. One client address gets at most 15/16 of them. Default {default}.",
        |t: &mut GivenOptions, v| { t.server.max_clients = value::count(v)?.max(1); Ok(()) }),
    linerate_long("json", Nothing, "Print the result as a JSON document only", "",
        "Print a client's result as one JSON document instead of text, in the format of linerate run.",
        |t: &mut GivenOptions, _| { t.json = true; Ok(()) }),
    linerate_long("html", Value("file"), "Write the result as an HTML page with plots", "",
        "Write a client's result as one self-contained HTML page with plots.",
        |t: &mut GivenOptions, v| { t.html = Some(v.into()); Ok(()) }),
    linerate_long("strict", Nothing, "Print reasons to doubt the result; exit with 3 if there are any", "",
        "Print reasons to doubt a client's result on standard error. Exit with 3 if there are any.",
        |t: &mut GivenOptions, _| { t.strict = true; Ok(()) }),
]};

/// The reason for the refusal of `--tap-dev` and `--tun-dev`.
const NO_SOCKET: &str =
    "linerate receives from sockets only; to receive from one device, use -B ADDRESS%DEVICE";

fn stock_error(line: String) -> EarlyExit {
    EarlyExit::Exit(Exit::stderr(line + "\n", 1))
}

fn mark_client_only(given: &mut GivenOptions, name: &'static str, warning: ClientOnlyWarning) {
    given.client_only.push((name, warning));
}

fn set_server(given: &mut GivenOptions) {
    match given.role {
        Some(GivenRole::Client(_)) => given
            .notices
            .push("WARNING: option -s is not valid for client mode".to_owned()),
        _ => given.role = Some(GivenRole::Server),
    }
}

fn set_client(given: &mut GivenOptions, host: &str) -> Result<(), EarlyExit> {
    if given.role == Some(GivenRole::Server) {
        return refuse("-s already selects a server");
    }
    given.role = Some(GivenRole::Client(host.to_owned()));
    Ok(())
}

fn set_format(given: &mut GivenOptions, letter: &str) -> Result<(), EarlyExit> {
    let letter = letter.chars().next().unwrap_or('a');
    match Format::from_letter(letter) {
        Some(format) => given.format = format,
        None => return refuse("unknown unit: use one of a, b, k, m, g, t, A, B, K, M, G, T"),
    }
    Ok(())
}

fn set_interval(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    if text == "f" {
        given.reports_bursts = true;
        return Ok(());
    }
    let Some(interval) = value::seconds(text) else {
        return Err(stock_error(format!(
            "Invalid value of '{text}' for -i interval"
        )));
    };
    if !interval.is_zero() && interval < MIN_INTERVAL {
        let warning = "WARNING: interval too small, increasing to 0.1000 milliseconds.";
        given.notices.push(warning.to_owned());
    }
    given.interval = Some(interval.max(MIN_INTERVAL)).filter(|_| !interval.is_zero());
    Ok(())
}

fn set_near_congestion(given: &mut GivenOptions, weight: &str) -> Result<(), EarlyExit> {
    mark_client_only(
        given,
        "--near-congestion",
        ClientOnlyWarning::SettingNotSupported,
    );
    given.send_mode.near_congestion = Some(match parse_real(weight, "") {
        _ if weight.is_empty() => 0.5,
        Some(weight) if weight < 1000.0 => {
            if weight < 0.0 {
                0.5
            } else {
                weight
            }
        }
        _ => return refuse("not a number of round-trip times below 1000"),
    });
    Ok(())
}

fn set_congestion_load(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    mark_client_only(
        given,
        "--bounceback-congest",
        ClientOnlyWarning::SettingNotSupported,
    );
    let (direction, flows) = load(text, "bounceback-congestion")?;
    given.congestion_load = Some((direction, flows.unwrap_or(1)));
    Ok(())
}

fn set_working_load(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    mark_client_only(given, "--working-load", ClientOnlyWarning::NotSupported);
    given.working_load = Some(load(text, "--working-load")?);
    Ok(())
}

/// Parses the direction of a load, and the number of flows after a comma.
fn load(text: &str, option: &str) -> Result<(Direction, Option<u32>), EarlyExit> {
    let (direction, flows) = match text.split_once(',') {
        Some((direction, flows)) => (direction, Some(value::count(flows)?.max(1))),
        None => (text, None),
    };
    let direction = match direction {
        "up" => Direction::Forward,
        "down" => Direction::Reverse,
        "bidir" | "" => Direction::FullDuplex,
        _ => {
            return Err(stock_error(format!(
                "Unrecoginized value of {direction} for {option}, use 'up', 'down' or 'bidir'"
            )));
        }
    };
    Ok((direction, flows))
}

fn set_tx_delay(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    /// The kernel's limit of TCP_TX_DELAY is 2^31 ns.
    const MAX_DELAY: Duration = Duration::from_nanos(1 << 31);
    let delay = value::seconds(text).map(|seconds| seconds / 1000);
    given.tx_delay = delay.filter(|delay| *delay < MAX_DELAY);
    if given.tx_delay.is_none() {
        let line = format!("ERROR: Invalid value of '{text}' for --tcp-tx-delay");
        return Err(stock_error(line));
    }
    Ok(())
}

fn set_dscp(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let dscp = value::type_of_service(text).filter(|dscp| *dscp < 64);
    let is_number = text.starts_with(|first: char| first.is_ascii_digit());
    let Some(dscp) = dscp.filter(|_| is_number) else {
        return refuse("not a number from 0 to 63");
    };
    (given.dscp, given.socket.type_of_service) = (true, Some(dscp << 2));
    Ok(())
}

fn set_tos_override(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let Some(service) = value::type_of_service(text) else {
        return Err(stock_error(format!(
            "Invalid --tos-overide value of {text}"
        )));
    };
    given.tos_override = Some(service);
    Ok(())
}

fn set_delay(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    mark_client_only(
        given,
        "--txdelay-time",
        ClientOnlyWarning::SettingNotSupported,
    );
    given.start_time.delay = Some(delay(text, "--txdelay-time")?);
    Ok(())
}

fn delay(text: &str, option: &str) -> Result<Duration, EarlyExit> {
    value::seconds(text)
        .ok_or_else(|| stock_error(format!("Invalid value of '{text}' for {option} time")))
}

fn pacing_step(text: &str) -> Result<u64, EarlyExit> {
    match value::bytes_per_second(text)? {
        0 => refuse("the step is below 8 bit/s"),
        step => Ok(step),
    }
}

/// Parses a time of more than 0: without a pause, attempts would never end.
fn retry_delay(text: &str, option: &str) -> Result<Duration, EarlyExit> {
    value::seconds(text)
        .filter(|delay| !delay.is_zero())
        .ok_or_else(|| stock_error(format!("Invalid value of '{text}' for {option}")))
}

fn set_start_time(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    /// The maximum delay of the start, as in stock.
    const MAX_AHEAD: Duration = Duration::from_secs(3600);
    mark_client_only(
        given,
        "--txstart-time",
        ClientOnlyWarning::SettingNotSupported,
    );
    let at = parse_real(text, "s").and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let Some(at) = at.filter(|at| at.as_secs() <= u32::MAX.into()) else {
        return Err(stock_error(
            "WARNING: invalid --txstart-time format".to_owned(),
        ));
    };
    let now = Duration::from_nanos(sys::clock::wall_ns());
    if at > now + MAX_AHEAD {
        return Err(stock_error(format!(
            "ERROR: --txstart-time ({}.{}) exceeds max scheduled delay of 3600 secs",
            at.as_secs(),
            at.subsec_micros()
        )));
    }
    given.start_time.at = Some(at);
    Ok(())
}

fn set_ports(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    given.ports = value::ports(text)?;
    Ok(())
}

fn set_permit_key(given: &mut GivenOptions, key: &str) -> Result<(), EarlyExit> {
    given.permit_key = Some(match key {
        "" => PermitKey::Any,
        _ if key.len() < 4 => {
            let line = "ERROR: value for --permit-key must have at least 4 characters";
            return Err(stock_error(line.to_owned()));
        }
        _ if key.len() > crate::wire::MAX_KEY_BYTES => return refuse("longer than 128 bytes"),
        _ => PermitKey::Key(key.to_owned()),
    });
    Ok(())
}

fn set_window(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let size = value::size(text)?;
    if size < 2048 {
        given.notices.push(format!(
            "WARNING: TCP window size set to {size} bytes. A small window size\n\
             will give poor performance. See the Iperf documentation."
        ));
    }
    given.socket.send_buffer_bytes = Some(size);
    given.socket.receive_buffer_bytes = Some(size);
    Ok(())
}

fn set_type_of_service(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let Some(service) = value::type_of_service(text) else {
        return Err(stock_error(format!("Invalid --tos value of {text}")));
    };
    given.socket.type_of_service = Some(service);
    Ok(())
}

fn set_time(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let Some(time) = value::seconds(text) else {
        return Err(stock_error(format!(
            "ERROR: -t value of '{text}' not recognized"
        )));
    };
    given.time = Some(Some(time).filter(|time| !time.is_zero()));
    given.bytes = None;
    Ok(())
}

fn set_bytes(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    match value::bytes(text) {
        Ok(bytes @ 1..) => given.bytes = Some(bytes),
        _ => {
            return Err(stock_error(format!(
                "Invalid value for -n amount of '{text}'"
            )));
        }
    }
    Ok(())
}

fn set_bounceback(given: &mut GivenOptions, count: &str) -> Result<(), EarlyExit> {
    given.bounceback = Some(match count {
        "" => 10,
        _ => value::count(count)?.max(1),
    });
    Ok(())
}

fn exclude_reports(given: &mut GivenOptions, letters: &str) -> Result<(), EarlyExit> {
    for letter in letters.chars() {
        match letter.to_ascii_uppercase() {
            'C' => given.exclude.connections = true,
            'D' => given.exclude.data = true,
            'M' => given.exclude.multicast = true,
            'S' => given.exclude.settings = true,
            'V' => given.exclude.server_report = true,
            _ => return refuse(format!("unknown report '{letter}': use C, D, M, S or V")),
        }
    }
    Ok(())
}

fn set_report_style(given: &mut GivenOptions, style: &str) -> Result<(), EarlyExit> {
    match style {
        "C" | "c" => given.csv = true,
        _ => return refuse("the only style is C"),
    }
    Ok(())
}
