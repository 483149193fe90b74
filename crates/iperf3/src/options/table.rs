//! The table of options, and the values of a command line.

#![expect(
    clippy::unnecessary_wraps,
    reason = "all options of the table have one function type, and some can fail"
)]

use std::ffi::CString;
use std::time::Duration;

use getopt::Argument::{Nothing, OptionalAttached, Value};
use getopt::stock_version::StockVersion;
use getopt::{EarlyExit, Section, linerate_long, refuse, stock_letter, stock_long};
use server::Network;
use sys::resolve::AddressFamily;
use units::iperf::Scale;

use super::parameter_error;
use super::settings::{ClientSettings, CommonSettings, ServerSettings};
use super::value::{
    parse_code_point, parse_integer, parse_pacing_timer, parse_rate, parse_seconds, parse_size,
    parse_type_of_service,
};
use crate::Version;
use crate::wire::parameters::{MAX_OMIT_SECONDS, MAX_STREAMS, MAX_TIME_SECONDS, MAX_WINDOW_BYTES};
use crate::wire::{Direction, Protocol};

/// The options of a command line, before they are checked against each other.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one option")]
pub(super) struct GivenOptions {
    pub(super) common: CommonSettings,
    pub(super) client: ClientSettings,
    pub(super) server: ServerSettings,
    /// `-s`.
    pub(super) is_server: bool,
    /// `-c`.
    pub(super) is_client: bool,
    /// Whether a client-only option was given.
    pub(super) has_client_option: bool,
    /// Whether a server-only option was given.
    pub(super) has_server_option: bool,
    /// `-R`.
    pub(super) reverse: bool,
    /// `--bidir`.
    pub(super) bidirectional: bool,
    /// `-b`: whether it was given.
    pub(super) has_rate: bool,
    /// `--rcv-timeout`: whether it was given.
    pub(super) has_receive_timeout: bool,
    /// `-t`: whether it was given.
    pub(super) has_time: bool,
    /// Warnings.
    pub(super) notices: Vec<String>,
}

impl GivenOptions {
    fn set_client(&mut self, set: impl FnOnce(&mut ClientSettings)) -> Result<(), EarlyExit> {
        self.has_client_option = true;
        set(&mut self.client);
        Ok(())
    }

    fn set_server(&mut self, set: impl FnOnce(&mut ServerSettings)) -> Result<(), EarlyExit> {
        self.has_server_option = true;
        set(&mut self.server);
        Ok(())
    }
}

/// All options, in the order of the stock tool's usage text, then those that stock lacks.
#[rustfmt::skip]
pub(super) static SECTION: Section<GivenOptions> = Section {
    title: "OPTIONS",
    heading: "",
    scope: "",
    options: &[
    stock_letter::<GivenOptions>('p', Value("port"), &["Server or Client:", "  -p, --port      #         server port to listen on/connect to"],
        "The port of the control connection and of all data. Default 5201.",
        |t, v| { t.common.port = parse_integer(v, "", 1..=65535, "port number must be between 1 and 65535 inclusive")? as u16; Ok(()) }).with_long("port"),
    stock_letter::<GivenOptions>('f', Value("letter"), &["  -f, --format   [kmgtKMGT] format to report: Kbits, Mbits, Gbits, Tbits"],
        "The unit of rates: k, m, g or t for bits, K, M, G or T for bytes. Without -f, each rate has a suitable unit.",
        apply_format).with_long("format"),
    stock_letter::<GivenOptions>('i', Value("seconds"), &["  -i, --interval  #         seconds between periodic throughput reports"],
        "The time between two interval lines; 0 disables them. Default 1.",
        apply_interval).with_long("interval"),
    stock_letter::<GivenOptions>('I', Value("file"), &["  -I, --pidfile file        write PID file"],
        "Write the process ID to this file. The file is removed at the end.",
        |t, v| { t.common.pid_file = Some(v.into()); Ok(()) }).with_long("pidfile"),
    stock_letter::<GivenOptions>('F', Value("file"), &["  -F, --file name           xmit/recv the specified file"],
        "Send this file once, or write received data to it. Applies to this end only, for TCP and SCTP in one direction. Without -t, -n and -k, a client's test ends with the file. A server with a file serves one test at a time.",
        |t, v| { t.common.file = Some(v.into()); Ok(()) }).with_long("file"),
    stock_letter::<GivenOptions>('A', Value("n[,m]"), &["  -A, --affinity n[,m]      set CPU affinity core number to n (the core the process will use)", "                             (optional Client only m - the Server's core number for this test)"],
        "Run this end on CPU n. A client's m is the server's CPU.",
        apply_affinity).with_long("affinity"),
    stock_letter::<GivenOptions>('B', Value("host[%dev]"), &["  -B, --bind <host>[%<dev>] bind to the interface associated with the address <host>", "                            (optional <dev> equivalent to `--bind-dev <dev>`)"],
        "The local address, and the interface, of all connections.",
        |t, v| { (t.common.bind, t.common.device) = split_device(t, v); Ok(()) }).with_long("bind"),
    stock_long("bind-dev", Value("dev"), &["  --bind-dev <dev>          bind to the network interface with SO_BINDTODEVICE"],
        "The interface of all connections.",
        |t, v| { t.common.device = Some(v.to_owned()); Ok(()) }),
    stock_letter::<GivenOptions>('V', Nothing, &["  -V, --verbose             more detailed output"],
        "Print more: versions, the cookie, CPU times, congestion control algorithms.",
        |t, _| { t.common.verbose = true; Ok(()) }).with_long("verbose"),
    stock_letter::<GivenOptions>('J', Nothing, &["  -J, --json                output in JSON format"],
        "Print one JSON document per test instead of text.",
        |t, _| { t.common.json = true; Ok(()) }).with_long("json"),
    stock_long("json-stream", Nothing, &["  --json-stream             output in line-delimited JSON format"],
        "Print one JSON object per line and event: start, interval, error, end.",
        |t, _| { t.common.json_stream = true; Ok(()) }),
    stock_long("json-stream-full-output", Nothing, &["  --json-stream-full-output output in JSON format with JSON streams enabled"],
        "As --json-stream, and the document of -J at the end.",
        |t, _| { (t.common.json_stream, t.common.json_stream_full_output) = (true, true); Ok(()) }),
    stock_long("logfile", Value("file"), &["  --logfile f               send output to a log file"],
        "Append all output to this file.",
        |t, v| { t.common.log_file = Some(v.into()); Ok(()) }),
    stock_long("forceflush", Nothing, &["  --forceflush              force flushing output at every interval"],
        "No effect: linerate always writes each line at once.",
        |_, _| Ok(())),
    stock_long("timestamps", OptionalAttached("format"), &["  --timestamps<=format>     emit a timestamp at the start of each output line", "                            (optional \"=\" and format string as per strftime(3))"],
        "Begin each line with the local time, in a format of strftime(3). Default '%c '.",
        apply_timestamps),
    stock_long("rcv-timeout", Value("ms"), &["  --rcv-timeout #           idle timeout for receiving data (default 120000 ms)"],
        "Milliseconds that a receiver waits for data. Default 120000.",
        apply_receive_timeout),
    stock_long("snd-timeout", Value("ms"), &["  --snd-timeout #           timeout for unacknowledged TCP data", "                            (in ms, default is system settings)"],
        "Milliseconds that sent data may remain unacknowledged: TCP_USER_TIMEOUT.",
        |t, v| { t.common.send_timeout_ms = Some(parse_integer(v, "ms", 0..=86_400_000, "send timeout value is incorrect or not in range: ")? as u32); Ok(()) }),
    stock_long("cntl-ka", OptionalAttached("idle/interval/count"), &["  --cntl-ka[=#/#/#]         use control connection TCP keepalive - KEEPIDLE/KEEPINTV/KEEPCNT", "                            each value is optional with system settings default"],
        "Probe a silent control connection after idle seconds, then every interval seconds, count times. Without this option, or without numbers, 15/5/3.",
        apply_keep_alive),
    stock_letter::<GivenOptions>('m', Nothing, &["  -m, --mptcp               use MPTCP rather than plain TCP"], "Multipath TCP instead of TCP. No effect on a server, which accepts both.", apply_multipath).with_long("mptcp"),
    stock_letter::<GivenOptions>('d', Nothing, &["  -d, --debug[=#]           emit debugging output", "                            (optional \"=\" and debug level: 1-4. Default is 4 - all messages)"],
        "Print sent and received parameters and results, and socket settings. With JSON output, print them on standard error.",
        |t, _| { t.common.debug = true; Ok(()) }),
    stock_long("debug", OptionalAttached("level"), &[], "As -d. Levels 1 to 4 have the same effect.",
        |t, v| { t.common.debug = v.is_empty() || parse_integer(v, "", 0..=u64::MAX, "debug level is out of range")? > 0; Ok(()) }),
    stock_letter::<GivenOptions>('v', Nothing, &["  -v, --version             show version information and quit"],
        "Print the version and exit.",
        |_, _| Err(EarlyExit::Version)).with_long("version"),
    stock_letter::<GivenOptions>('h', Nothing, &["  -h, --help                show this message and quit"],
        "Print the usage text and exit.",
        |_, _| Err(EarlyExit::Help)).with_long("help"),
    stock_letter::<GivenOptions>('s', Nothing, &["Server specific:", "  -s, --server              run in server mode"],
        "Run as a server, which serves any number of tests at a time.",
        |t, _| { t.is_server = true; Ok(()) }).with_long("server"),
    stock_letter::<GivenOptions>('D', Nothing, &["  -D, --daemon              run the server as a daemon"],
        "Go to the background.",
        |t, _| t.set_server(|s| s.daemon = true)).with_long("daemon"),
    stock_letter::<GivenOptions>('1', Nothing, &["  -1, --one-off             handle one client connection then exit"],
        "Serve one test, then exit.",
        |t, _| t.set_server(|s| s.one_off = true)).with_long("one-off"),
    stock_long("server-bitrate-limit", Value("rate[/seconds]"), &["  --server-bitrate-limit #[KMG][/#]   server's total bit rate limit (default 0 = no limit)", "                            (optional slash and number of secs interval for averaging", "                            total data rate.  Default is 5 seconds)"],
        "Refuse or end a test whose streams together exceed this rate. The rate is averaged over 5 seconds, or over the given seconds.",
        apply_rate_limit),
    stock_long("idle-timeout", Value("seconds"), &["  --idle-timeout #          restart idle server after # seconds in case it", "                            got stuck (default - no timeout)"],
        "With -1, exit if no test starts within this time. Without -1, no effect: linerate's server needs no restarts.",
        apply_idle_timeout),
    stock_long("server-max-duration", Value("seconds"), &["  --server-max-duration #   max time, in seconds, that an iperf test can run against the server"],
        "Refuse tests that are longer or have no end.",
        |t, v| { let max = parse_integer(v, "s", 1..=MAX_TIME_SECONDS.into(), "test duration valid values are 0 to 86400 seconds")?; t.set_server(|s| s.max_test_seconds = Some(max as u32)) }),
    stock_long("rsa-private-key-path", Value("file"), &["  --rsa-private-key-path    path to the RSA private key used to decrypt", "                            authentication credentials"],
        "The RSA key, in PEM, of a server that serves known users only.",
        |t, v| t.set_server(|s| s.private_key = Some(v.into()))),
    stock_long("authorized-users-path", Value("file"), &["  --authorized-users-path   path to the configuration file containing user", "                            credentials"],
        "The users, one per line: the name, a comma, and the SHA-256 of {name}password in hexadecimal digits.",
        |t, v| t.set_server(|s| s.users_file = Some(v.into()))),
    stock_long("time-skew-threshold", Value("seconds"), &["  --time-skew-threshold     time skew threshold (in seconds) between the server", "                            and client during the authentication process"],
        "The maximum difference between the clocks of server and client at a login. Default 10.",
        |t, v| { let skew = parse_integer(v, "s", 1..=86_400, "skew threshold must be a positive number")?; t.set_server(|s| s.max_clock_skew = Duration::from_secs(skew)) }),
    stock_long("use-pkcs1-padding", Nothing, &["  --use-pkcs1-padding       use pkcs1 padding at your own risk"],
        "Send or accept logins with the padding of iperf3 3.16 and earlier.",
        |t, _| { t.client.pkcs1_padding = true; t.server.pkcs1_padding = true; Ok(()) }),
    stock_letter::<GivenOptions>('c', Value("host[%dev]"), &["Client specific:", "  -c, --client <host>[%<dev>] run in client mode, connecting to <host>", "                              (option <dev> equivalent to `--bind-dev <dev>`)"],
        "Run as a client of the server on this host.",
        apply_client).with_long("client"),
    stock_long("sctp", Nothing, &["  --sctp                    use SCTP rather than TCP"],
        "SCTP instead of TCP, one association per stream.",
        |t, _| t.set_client(|c| c.parameters.protocol = Protocol::Sctp)),
    stock_letter::<GivenOptions>('X', Value("name"), &["  -X, --xbind <name>        bind SCTP association to links"],
        "A local address of each SCTP association, in addition to that of -B; may be repeated.",
        |t, v| t.set_client(|c| c.extra_local_addresses.push(v.to_owned()))).with_long("xbind"),
    stock_long("nstreams", Value("n"), &["  --nstreams      #         number of SCTP streams"],
        "Streams to request per SCTP association. The data uses the first one.",
        |t, v| { let streams = parse_integer(v, "", 1..=65_535, "number of SCTP streams is out of range")?; t.set_client(|c| c.association_streams = Some(streams as u16)) }),
    stock_letter::<GivenOptions>('u', Nothing, &["  -u, --udp                 use UDP rather than TCP"],
        "UDP instead of TCP.",
        |t, _| t.set_client(|c| c.parameters.protocol = Protocol::Udp)).with_long("udp"),
    stock_long("connect-timeout", Value("ms"), &["  --connect-timeout #       timeout for control connection setup (ms)"],
        "Timeout for opening the control connection; 0 for the kernel's timeout.",
        |t, v| { let ms = parse_integer(v, "ms", 0..=86_400_000, "connect timeout is out of range")?; t.set_client(|c| c.connect_timeout = (ms > 0).then(|| Duration::from_millis(ms))) }),
    stock_letter::<GivenOptions>('b', Value("rate[/blocks]"), &["  -b, --bitrate #[KMG][/#]  target bitrate in bits/sec (0 for unlimited)", "                            (default 1 Mbit/sec for UDP, unlimited for TCP)", "                            (optional slash and packet count for burst mode)"],
        "The rate of each stream, in bits per second of payload; 0 for no limit. The schedule is fixed: linerate catches up after a delay. A number after a slash is the number of blocks per burst. Default 1048576 for UDP, and no limit for others.",
        apply_bitrate).with_long("bitrate"),
    stock_long("pacing-timer", Value("us"), &["  --pacing-timer #[KMG]     set the Server timing for pacing, in microseconds (default 1000)", "                            (deprecated - for servers using older versions backward compatibility)"],
        "Sent to the server. linerate times each block or burst without this timer. Default 1000.",
        |t, v| { let us = parse_pacing_timer(t.common.version, v)?; t.set_client(|c| c.parameters.pacing_timer = us) }),
    stock_long("fq-rate", Value("rate"), &["  --fq-rate #[KMG]          enable fair-queuing based socket pacing in", "                            bits/sec (Linux only)"],
        "Let the kernel pace each stream to this rate: SO_MAX_PACING_RATE.",
        |t, v| { let bits = parse_rate(t.common.version, v)?; t.set_client(|c| c.parameters.fq_rate = Some(bits)) }),
    stock_letter::<GivenOptions>('t', Value("seconds"), &["  -t, --time      #         time in seconds to transmit for (default 10 secs)"],
        "Duration of the test after the omitted time; 0 for no end. Default 10.",
        |t, v| { let time = parse_integer(v, "s", 0..=MAX_TIME_SECONDS.into(), "test duration valid values are 0 to 86400 seconds")?; t.has_time = true; t.set_client(|c| c.parameters.time = time as u32) }).with_long("time"),
    stock_letter::<GivenOptions>('n', Value("bytes"), &["  -n, --bytes     #[KMG]    transmit until the end of the interval when the client sent or received", "                            (per direction) at least this number of bytes (instead of -t or -k)"],
        "End when all streams of one direction together have moved these bytes, in whole blocks, after the omitted time.",
        |t, v| { let bytes = parse_size(t.common.version, v, 1 << 62, "too many bytes")?; t.set_client(|c| c.parameters.bytes = bytes) }).with_long("bytes"),
    stock_letter::<GivenOptions>('k', Value("blocks"), &["  -k, --blockcount #[KMG]   transmit until the end of the interval when the client sent or received", "                            (per direction) at least this number of blocks (instead of -t or -n)"],
        "End when all streams of one direction together have moved these blocks after the omitted time.",
        |t, v| { let blocks = parse_size(t.common.version, v, 1 << 62, "too many blocks")?; t.set_client(|c| c.parameters.blocks = blocks) }).with_long("blockcount"),
    stock_letter::<GivenOptions>('l', Value("bytes"), &["  -l, --length    #[KMG]    length of buffer to read or write", "                            (default 128 KB for TCP, dynamic or 1460 for UDP)"],
        "Bytes per block or datagram. Default 128K for TCP, the segment size of the control connection for UDP, 64K for SCTP.",
        |t, v| { let bytes = parse_size(t.common.version, v, u32::MAX.into(), BLOCK_TOO_LARGE)?; t.set_client(|c| c.parameters.block_bytes = Some(bytes as u32).filter(|bytes| *bytes > 0)) }).with_long("length"),
    stock_long("cport", Value("port"), &["  --cport         <port>    bind to a specific client port (TCP and UDP, default: ephemeral port)"],
        "The local port of the first stream; further streams have the ports after it.",
        |t, v| { let port = parse_integer(v, "", 1..=65535, "port number must be between 1 and 65535 inclusive")?; t.set_client(|c| c.local_port = Some(port as u16)) }),
    stock_letter::<GivenOptions>('P', Value("n"), &["  -P, --parallel  #         number of parallel client streams to run"],
        "Streams per direction. Default 1.",
        |t, v| { let streams = parse_integer(v, "", 1..=MAX_STREAMS.into(), "invalid number of parallel streams (min = 1, max = 128)")?; t.set_client(|c| c.parameters.parallel = streams as u32) }).with_long("parallel"),
    stock_letter::<GivenOptions>('R', Nothing, &["  -R, --reverse             run in reverse mode (server sends, client receives)"],
        "The server sends.",
        |t, _| { t.reverse = true; t.set_client(|c| c.parameters.direction = Direction::Reverse) }).with_long("reverse"),
    stock_long("bidir", Nothing, &["  --bidir                   run in bidirectional mode.", "                            Client and server send and receive data."],
        "Both ends send, each over its own streams.",
        |t, _| { t.bidirectional = true; t.set_client(|c| c.parameters.direction = Direction::Both) }),
    stock_letter::<GivenOptions>('w', Value("bytes"), &["  -w, --window    #[KMG]    set send/receive socket buffer sizes", "                            (indirectly sets TCP window size)"],
        "The socket buffers at both ends.",
        |t, v| { let bytes = parse_size(t.common.version, v, MAX_WINDOW_BYTES.into(), "socket buffer size too large (maximum = 536870912 bytes)")?; t.set_client(|c| c.parameters.window = Some(bytes as u32).filter(|bytes| *bytes > 0)) }).with_long("window"),
    stock_letter::<GivenOptions>('C', Value("algorithm"), &["  -C, --congestion <algo>   set TCP congestion control algorithm (Linux and FreeBSD only)"],
        "The congestion control algorithm at both ends.",
        |t, v| t.set_client(|c| c.parameters.congestion = Some(v.to_owned()))).with_long("congestion"),
    stock_letter::<GivenOptions>('M', Value("bytes"), &["  -M, --set-mss   #         set TCP/SCTP maximum segment size (MTU - 40 bytes)"],
        "The maximum segment size.",
        |t, v| { let max = t.common.version.layout().max_segment_bytes; let bytes = parse_integer(v, "", 0..=max.into(), "TCP MSS too large (maximum = 32767 bytes)")?; t.set_client(|c| c.parameters.max_segment = Some(bytes as u32).filter(|bytes| *bytes > 0)) }).with_long("set-mss"),
    stock_letter::<GivenOptions>('N', Nothing, &["  -N, --no-delay            set TCP/SCTP no delay, disabling Nagle's Algorithm"],
        "Send small blocks at once: TCP_NODELAY.",
        |t, _| t.set_client(|c| c.parameters.no_delay = true)).with_long("no-delay"),
    stock_letter::<GivenOptions>('4', Nothing, &["  -4, --version4            only use IPv4"],
        "IPv4 only.",
        |t, _| { t.common.family = AddressFamily::V4; Ok(()) }).with_long("version4"),
    stock_letter::<GivenOptions>('6', Nothing, &["  -6, --version6            only use IPv6"],
        "IPv6 only.",
        |t, _| { t.common.family = AddressFamily::V6; Ok(()) }).with_long("version6"),
    stock_letter::<GivenOptions>('S', Value("octet"), &["  -S, --tos N               set the IP type of service, 0-255.", "                            The usual prefixes for octal and hex can be used,", "                            i.e. 52, 064 and 0x34 all specify the same value."],
        "The type of service: decimal, octal with 0, hexadecimal with 0x. Default 0.",
        |t, v| { let tos = parse_type_of_service(v)?; t.set_client(|c| c.parameters.type_of_service = Some(tos)) }).with_long("tos"),
    stock_long("dscp", Value("point"), &["  --dscp N or --dscp val    set the IP dscp value, either 0-63 or symbolic (one of: af11-13, af21-23,", "                            af31-33, af41-43, cs1-7, ef, va, lowdelay, throughput, reliability).", "                            Numeric values can be decimal, octal and hex (see --tos above)."],
        "The type of service as a code point: a number up to 63, or a name such as af41, cs5 or ef.",
        |t, v| { let tos = parse_code_point(v)?; t.set_client(|c| c.parameters.type_of_service = Some(tos)) }),
    stock_letter::<GivenOptions>('L', Value("label"), &["  -L, --flowlabel N         set the IPv6 flow label (only supported on Linux)"],
        "The flow label of this end's IPv6 packets.",
        apply_flow_label).with_long("flowlabel"),
    stock_letter::<GivenOptions>('Z', Nothing, &["  -Z, --zerocopy            use a 'zero copy' method of sending data"],
        "Send from a file by sendfile(2). No effect with UDP.",
        |t, _| t.set_client(|c| c.parameters.zero_copy = true)).with_long("zerocopy"),
    stock_long("skip-rx-copy", Nothing, &["  --skip-rx-copy            ignore received messages using MSG_TRUNC option"],
        "Receive without copying the data: MSG_TRUNC.",
        |t, _| t.set_client(|c| c.parameters.skip_copy = true)),
    stock_letter::<GivenOptions>('O', Value("seconds"), &["  -O, --omit N              perform pre-test for N seconds and omit the pre-test statistics"],
        "Run the test for this time first, and exclude that time from all figures. Default 0.",
        |t, v| { let omit = parse_integer(v, "s", 0..=MAX_OMIT_SECONDS.into(), "bogus value for --omit (maximum = 600 seconds)")?; t.set_client(|c| c.parameters.omit = omit as u32) }).with_long("omit"),
    stock_letter::<GivenOptions>('T', Value("text"), &["  -T, --title str           prefix every output line with this string"],
        "Begin every line of the client's output with this text.",
        |t, v| t.set_client(|c| c.parameters.title = Some(v.to_owned()))).with_long("title"),
    stock_long("extra-data", Value("text"), &["  --extra-data str          data string to include in client and server JSON"],
        "Add this text to the JSON documents of both ends.",
        |t, v| t.set_client(|c| c.parameters.extra_data = Some(v.to_owned()))),
    stock_long("get-server-output", Nothing, &["  --get-server-output       get results from server"],
        "Print the server's output, too.",
        |t, _| t.set_client(|c| c.parameters.server_output = true)),
    stock_long("udp-counters-64bit", Nothing, &["  --udp-counters-64bit      use 64-bit counters in UDP test packets"],
        "Number datagrams with 64 bits instead of 32.",
        |t, _| t.set_client(|c| c.parameters.udp_counters_64bit = true)),
    stock_long("gsro", Nothing, &["  --gsro                    enable UDP GSO/GRO on both client and server (client-only option)"],
        "Send and receive many datagrams per call: UDP_SEGMENT and UDP_GRO.",
        |t, _| t.set_client(|c| c.parameters.offload = true)),
    stock_long("repeating-payload", Nothing, &["  --repeating-payload       use repeating pattern in payload, instead of", "                            randomized payload (like in iperf2)"],
        "Send the digits 0 to 9 over and over instead of random bytes.",
        |t, _| t.set_client(|c| c.parameters.repeating_payload = true)),
    stock_long("dont-fragment", Nothing, &["  --dont-fragment           set IPv4 Don't Fragment flag"],
        "Send datagrams over IPv4 unfragmented.",
        |t, _| t.set_client(|c| c.parameters.do_not_fragment = true)),
    stock_long("username", Value("name"), &["  --username                username for authentication"],
        "The user to log in as. The password is in the environment variable IPERF3_PASSWORD.",
        |t, v| t.set_client(|c| c.user = Some(v.to_owned()))),
    stock_long("rsa-public-key-path", Value("file"), &["  --rsa-public-key-path     path to the RSA public key used to encrypt", "                            authentication credentials"],
        "The public key, in PEM, of the server.",
        |t, v| t.set_client(|c| c.public_key = Some(v.into()))),
    // Options of older and later versions, and of linerate.
    stock_long("bandwidth", Value("rate"), &[], "As -b.", apply_bitrate),
    stock_long("no-fq-socket-pacing", Nothing, &[], "No effect: an option of earlier versions.", |t, _| {
        t.notices.push("warning: --no-fq-socket-pacing is deprecated".to_owned());
        t.set_client(|c| c.parameters.fq_rate = None)
    }),
    linerate_long("multipath", Nothing, "as -m", "", "As -m.", apply_multipath),
    linerate_long("stock-version", Value("version"), "print as this version of iperf3", "3.22",
        "Print the texts and documents of this version of iperf3: 3.12, 3.18 or 3.22. The environment variable LINERATE_STOCK_VERSION also selects versions, such as 'iperf3=3.12,iperf=2.1.8'. Default {default}.",
        |t, v| { t.common.version = Version::from_name(v).or_else(refuse)?; Ok(()) }),
    linerate_long("max-tests", Value("n"), "tests at a time", "1024",
        "Serve N tests at a time, and refuse others. Default {default}.",
        |t, v| { let tests = parse_integer(v, "", 1..=65_535, "number of tests is out of range")?; t.set_server(|s| s.max_tests = tests as u32) }),
    linerate_long("allow-peers", Value("network,..."), "networks of allowed clients", "",
        "Serve clients in these networks only.", apply_allow_peers),
    linerate_long("allow-third-party", Value("network,..."), "networks of other UDP sources", "",
        "Accept UDP streams also from addresses in these networks. Without it, they must come from the address of the control connection.",
        |t, v| { let mut added = Ok(()); t.set_server(|s| added = s.third_parties.allow(v))?; added.or_else(refuse) }),
    linerate_long("html", Value("file"), "write an HTML page", "",
        "Write the result of a client as an HTML page.",
        |t, v| { t.common.html = Some(v.into()); t.set_client(|_| ()) }),
    linerate_long("linerate-json", Value("file"), "write linerate's JSON document", "",
        "Write linerate's own JSON document of a client to this file, or with - to standard output instead of text.",
        |t, v| { t.common.linerate_json = Some(v.into()); t.set_client(|_| ()) }),
    linerate_long("strict", Nothing, "exit with 3 if there are warnings", "",
        "Print warnings about a client's result on standard error, and exit with 3 if there are any.",
        |t, _| { t.common.strict = true; t.set_client(|_| ()) }),
    ],
};

pub(super) const BLOCK_TOO_LARGE: &str = "block size too large (maximum = 1048576 bytes)";

fn apply_format(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    // Only the first letter counts: `Mbits` is `M`.
    let scale = value.chars().next().and_then(Scale::from_letter);
    if scale.is_none() {
        return Err(parameter_error(
            "bad format specifier (valid formats are in the set [kmgtKMGT])",
        ));
    }
    given.common.format = scale;
    Ok(())
}

fn apply_interval(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    const RANGE_ERROR: &str = "invalid report interval (min = 0.1, max = 60 seconds)";
    given.common.interval = match parse_seconds(value, 0.0..=60.0, RANGE_ERROR)? {
        Duration::ZERO => None,
        short if short < Duration::from_millis(100) => return Err(parameter_error(RANGE_ERROR)),
        interval => Some(interval),
    };
    Ok(())
}

fn apply_affinity(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    const CPU_ERROR: &str = "unable to set CPU affinity: ";
    let cpu = |text: &str| match units::iperf::parse_integer(text, "") {
        Some(cpu @ 0..=1024) => Ok(cpu as u32),
        _ => Err(parameter_error(CPU_ERROR)),
    };
    let Some((local, remote)) = value.split_once(',') else {
        given.common.cpu = Some(cpu(value)?);
        return Ok(());
    };
    if !local.is_empty() {
        given.common.cpu = Some(cpu(local)?);
    }
    let server_cpu = cpu(remote)?;
    given.set_client(|client| client.parameters.server_affinity = Some(server_cpu))
}

fn apply_receive_timeout(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    const RANGE_ERROR: &str = "receive timeout value is incorrect or not in range: ";
    let ms = parse_integer(value, "ms", 100..=86_400_000, RANGE_ERROR)?;
    given.common.receive_timeout = Duration::from_millis(ms);
    given.has_receive_timeout = true;
    Ok(())
}

fn apply_rate_limit(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    const RANGE_ERROR: &str =
        "averaging interval of the bit rate limit is out of range (min = 0.1, max = 60 seconds)";
    let (bits, window) = value.split_once('/').unwrap_or((value, "5"));
    let (bits, averaged_over) = (
        parse_rate(given.common.version, bits)?,
        parse_seconds(window, 0.1..=60.0, RANGE_ERROR)?,
    );
    given.set_server(|server| {
        server.rate_limit = Some((bits, averaged_over)).filter(|(bits, _)| *bits > 0);
    })
}

fn apply_idle_timeout(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    const RANGE_ERROR: &str = "idle timeout parameter is not positive or larger than allowed limit";
    let idle = parse_integer(value, "s", 1..=86_400, RANGE_ERROR)?;
    given.set_server(|server| server.idle_timeout = Some(Duration::from_secs(idle)))
}

fn apply_client(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    given.is_client = true;
    let (host, device) = split_device(given, value);
    given.common.device = device;
    given.client.host = host.unwrap_or_default();
    Ok(())
}

/// Splits `host%device`.
///
/// An IPv6 address also keeps its `%scope` in the host.
fn split_device(given: &GivenOptions, value: &str) -> (Option<String>, Option<String>) {
    match value.split_once('%') {
        Some((host, device)) if host.contains(':') => {
            (Some(value.to_owned()), Some(device.to_owned()))
        }
        Some((host, device)) => (
            Some(host.to_owned()).filter(|host| !host.is_empty()),
            Some(device.to_owned()),
        ),
        None => (Some(value.to_owned()), given.common.device.clone()),
    }
}

fn apply_bitrate(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    let (bits, burst) = match value.split_once('/') {
        Some((bits, burst)) => {
            let burst = parse_integer(burst, "", 1..=1000, "invalid burst count (maximum = 1000)")?;
            (bits, Some(burst as u32))
        }
        None => (value, None),
    };
    let bits = parse_rate(given.common.version, bits)?;
    given.has_rate = true;
    given.set_client(|client| (client.parameters.rate, client.parameters.burst) = (bits, burst))
}

fn apply_flow_label(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    match units::iperf::parse_c_integer(value) {
        Some(label @ 1..=0xf_ffff) => {
            given.set_client(|client| client.parameters.flow_label = Some(label as u32))
        }
        _ => Err(parameter_error("unable to set IPv6 flow label")),
    }
}

fn apply_timestamps(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    let format = if value.is_empty() { "%c " } else { value };
    given.common.timestamps = CString::new(format).ok();
    Ok(())
}

fn apply_keep_alive(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    const RANGE_ERROR: &str = "control connection keepalive is out of range";
    if value.is_empty() {
        return Ok(());
    }
    let mut numbers = [0; 3];
    let words: Vec<_> = value.split('/').collect();
    if words.len() > numbers.len() {
        return Err(parameter_error(RANGE_ERROR));
    }
    for (number, word) in numbers.iter_mut().zip(words) {
        if !word.is_empty() {
            *number = parse_integer(word, "", 0..=32_767, RANGE_ERROR)? as u32;
        }
    }
    let [idle, interval, count] = numbers;
    if idle > 0 && idle <= interval * count {
        return Err(parameter_error(
            "control connection keepalive: the idle time must be longer than all probes take",
        ));
    }
    given.common.keep_alive = Some(numbers);
    Ok(())
}

/// Sets Multipath TCP for a client; a server accepts it without the option.
fn apply_multipath(given: &mut GivenOptions, _: &str) -> Result<(), EarlyExit> {
    given.client.parameters.multipath = true;
    Ok(())
}

fn apply_allow_peers(given: &mut GivenOptions, value: &str) -> Result<(), EarlyExit> {
    for text in value.split(',') {
        let network = Network::parse(text).or_else(refuse)?;
        given.set_server(|server| server.allowed_networks.push(network))?;
    }
    Ok(())
}
