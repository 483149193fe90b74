//! The options, and what was typed.

#![expect(
    clippy::unnecessary_wraps,
    reason = "what an option does may fail, and one that does not still goes into the table"
)]

use std::ffi::CString;
use std::time::Duration;

use getopt::Argument::{MaybeAttached, Nothing, Value};
use getopt::Name::Both;
use getopt::{Quit, Section, flag, long, own, refuse, stock_long};
use server::Network;
use sys::resolve::Wanted;
use units::iperf::Scale;

use super::parameter_error;
use super::settings::{Client, Common, Server};
use super::value::{code_point, rate, seconds, size, type_of_service, whole};
use crate::wire::parameters::{LARGEST_WINDOW, LONGEST_OMIT, LONGEST_TIME, MOST_STREAMS};
use crate::wire::{Direction, Protocol};

/// The options as typed.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one option")]
pub(super) struct Typed {
    pub(super) common: Common,
    pub(super) client: Client,
    pub(super) server: Server,
    /// `-s`.
    pub(super) is_server: bool,
    /// `-c`.
    pub(super) is_client: bool,
    /// An option that only a client has.
    pub(super) of_client: bool,
    /// An option that only a server has.
    pub(super) of_server: bool,
    /// `-R`.
    pub(super) reverse: bool,
    /// `--bidir`.
    pub(super) both: bool,
    /// `-b`: whether it was typed.
    pub(super) has_rate: bool,
    /// `--rcv-timeout`: whether it was typed.
    pub(super) has_receive_timeout: bool,
    /// The end conditions: -t, -n, -k.
    pub(super) ends: Vec<&'static str>,
    /// Warnings.
    pub(super) notices: Vec<String>,
}

impl Typed {
    fn client(&mut self, set: impl FnOnce(&mut Client)) -> Result<(), Quit> {
        self.of_client = true;
        set(&mut self.client);
        Ok(())
    }

    fn server(&mut self, set: impl FnOnce(&mut Server)) -> Result<(), Quit> {
        self.of_server = true;
        set(&mut self.server);
        Ok(())
    }
}

/// In the order of the stock tool's usage text, our own after it.
#[rustfmt::skip]
pub(super) static SECTION: Section<Typed> = Section {
    title: "OPTIONS",
    heading: "",
    scope: "",
    flags: &[
    flag::<Typed>('p', Value("port"), &["Server or Client:", "  -p, --port      #         server port to listen on/connect to"],
        "The port of the control connection and of all data. Default 5201.",
        |t, v| { t.common.port = whole(v, 1..=65535, "port number must be between 1 and 65535 inclusive")? as u16; Ok(()) }).or("port"),
    flag::<Typed>('f', Value("letter"), &["  -f, --format   [kmgtKMGT] format to report: Kbits, Mbits, Gbits, Tbits"],
        "The unit of rates: k, m, g or t for bits, K, M, G or T for bytes. Without it each rate has the unit that fits.",
        format).or("format"),
    flag::<Typed>('i', Value("seconds"), &["  -i, --interval  #         seconds between periodic throughput reports"],
        "From one interval line to the next; 0 for none. Default 1.",
        interval).or("interval"),
    flag::<Typed>('I', Value("file"), &["  -I, --pidfile file        write PID file"],
        "Write the process number to this file.",
        |t, v| { t.common.pid_file = Some(v.into()); Ok(()) }).or("pidfile"),
    flag::<Typed>('F', Value("file"), &["  -F, --file name           xmit/recv the specified file"],
        "Send this file once, or write received data to it; of each end by itself, and of TCP and SCTP in one direction. Without -t, -n and -k a client's test ends with the file. A server with a file serves one test at a time.",
        |t, v| { t.common.file = Some(v.into()); Ok(()) }).or("file"),
    flag::<Typed>('A', Value("n[,m]"), &["  -A, --affinity n/n,m      set CPU affinity"],
        "Run this end on CPU n; of a client, run the server on CPU m.",
        affinity).or("affinity"),
    flag::<Typed>('B', Value("host[%dev]"), &["  -B, --bind <host>[%<dev>] bind to the interface associated with the address <host>", "                            (optional <dev> equivalent to `--bind-dev <dev>`)"],
        "The local address, and the interface, of all connections.",
        |t, v| { (t.common.bind, t.common.device) = host_and_device(t, v); Ok(()) }).or("bind"),
    stock_long("bind-dev", Value("dev"), &["  --bind-dev <dev>          bind to the network interface with SO_BINDTODEVICE"],
        "The interface of all connections.",
        |t, v| { t.common.device = Some(v.to_owned()); Ok(()) }),
    flag::<Typed>('V', Nothing, &["  -V, --verbose             more detailed output"],
        "Print more: versions, the cookie, CPU times, congestion control algorithms.",
        |t, _| { t.common.verbose = true; Ok(()) }).or("verbose"),
    flag::<Typed>('J', Nothing, &["  -J, --json                output in JSON format"],
        "Print one JSON document per test instead of text.",
        |t, _| { t.common.json = true; Ok(()) }).or("json"),
    stock_long("logfile", Value("file"), &["  --logfile f               send output to a log file"],
        "Append all output to this file.",
        |t, v| { t.common.log_file = Some(v.into()); Ok(()) }),
    stock_long("forceflush", Nothing, &["  --forceflush              force flushing output at every interval"],
        "Nothing: every line is written at once.",
        |_, _| Ok(())),
    stock_long("timestamps", MaybeAttached("format"), &["  --timestamps<=format>     emit a timestamp at the start of each output line", "                            (optional \"=\" and format string as per strftime(3))"],
        "Begin each line with the local time, in a format of strftime(3). Default '%c '.",
        timestamps),
    stock_long("rcv-timeout", Value("ms"), &["  --rcv-timeout #           idle timeout for receiving data (default 120000 ms)"],
        "How long a receiver waits for data. Default 120000.",
        receive_timeout),
    stock_long("snd-timeout", Value("ms"), &["  --snd-timeout #           timeout for unacknowledged TCP data", "                            (in ms, default is system settings)"],
        "How long sent data may stay unacknowledged: TCP_USER_TIMEOUT.",
        |t, v| { t.common.send_timeout_ms = Some(whole(v, 0..=86_400_000, "send timeout value is incorrect or not in range: ")? as u32); Ok(()) }),
    flag::<Typed>('d', Nothing, &["  -d, --debug[=#]           emit debugging output", "                            (optional optional \"=\" and debug level: 1-4. Default is 4 - all messages)"],
        "Print parameters and results as they are sent and received, and what sockets are given. JSON goes without: these lines then go to standard error.",
        |t, _| { t.common.debug = true; Ok(()) }),
    stock_long("debug", MaybeAttached("level"), &[], "As -d. Levels 1 to 4 are one.",
        |t, v| { t.common.debug = v.is_empty() || whole(v, 0..=4, "debug level is out of range (0 to 4)")? > 0; Ok(()) }),
    flag::<Typed>('v', Nothing, &["  -v, --version             show version information and quit"],
        "Print the version, and end.",
        |_, _| Err(Quit::Version)).or("version"),
    flag::<Typed>('h', Nothing, &["  -h, --help                show this message and quit"],
        "Print the usage text, and end.",
        |_, _| Err(Quit::Help)).or("help"),
    flag::<Typed>('s', Nothing, &["Server specific:", "  -s, --server              run in server mode"],
        "Be the server: serve any number of tests at a time.",
        |t, _| { t.is_server = true; Ok(()) }).or("server"),
    flag::<Typed>('D', Nothing, &["  -D, --daemon              run the server as a daemon"],
        "Go to the background.",
        |t, _| t.server(|s| s.daemon = true)).or("daemon"),
    flag::<Typed>('1', Nothing, &["  -1, --one-off             handle one client connection then exit"],
        "Serve one test, then end.",
        |t, _| t.server(|s| s.one_off = true)).or("one-off"),
    stock_long("server-bitrate-limit", Value("rate[/seconds]"), &["  --server-bitrate-limit #[KMG][/#]   server's total bit rate limit (default 0 = no limit)", "                            (optional slash and number of secs interval for averaging", "                            total data rate.  Default is 5 seconds)"],
        "Refuse or end a test with a higher rate of all its streams, averaged over 5 seconds, or these.",
        rate_limit),
    stock_long("idle-timeout", Value("seconds"), &["  --idle-timeout #          restart idle server after # seconds in case it", "                            got stuck (default - no timeout)"],
        "With -1, end if no test comes for this long. Another server has nothing that a restart would mend.",
        idle_timeout),
    stock_long("rsa-private-key-path", Value("file"), &["  --rsa-private-key-path    path to the RSA private key used to decrypt", "                            authentication credentials"],
        "The RSA key, in PEM, of a server that serves known users only.",
        |t, v| t.server(|s| s.private_key = Some(v.into()))),
    stock_long("authorized-users-path", Value("file"), &["  --authorized-users-path   path to the configuration file containing user", "                            credentials"],
        "The users: a line each, the name, a comma, and the SHA-256 of {name}password in hexadecimal digits.",
        |t, v| t.server(|s| s.users = Some(v.into()))),
    stock_long("time-skew-threshold", Value("seconds"), &["  --time-skew-threshold     time skew threshold (in seconds) between the server", "                            and client during the authentication process"],
        "How far the clock of a client that logs in may be off. Default 10.",
        |t, v| { let skew = whole(v, 1..=86_400, "skew threshold must be a positive number")?; t.server(|s| s.skew = Duration::from_secs(skew)) }),
    flag::<Typed>('c', Value("host[%dev]"), &["Client specific:", "  -c, --client <host>[%<dev>] run in client mode, connecting to <host>", "                              (option <dev> equivalent to `--bind-dev <dev>`)"],
        "Be the client of the server on this host.",
        client).or("client"),
    stock_long("sctp", Nothing, &["  --sctp                    use SCTP rather than TCP"],
        "SCTP instead of TCP, one association per stream.",
        |t, _| t.client(|c| c.parameters.protocol = Protocol::Sctp)),
    flag::<Typed>('X', Value("name"), &["  -X, --xbind <name>        bind SCTP association to links"],
        "A local address of each SCTP association, beside that of -B; may be repeated.",
        |t, v| t.client(|c| c.links.push(v.to_owned()))).or("xbind"),
    stock_long("nstreams", Value("n"), &["  --nstreams      #         number of SCTP streams"],
        "Streams to ask for per SCTP association. The data goes over the first one.",
        |t, v| { let streams = whole(v, 1..=65_535, "number of SCTP streams is out of range")?; t.client(|c| c.association_streams = Some(streams as u16)) }),
    flag::<Typed>('u', Nothing, &["  -u, --udp                 use UDP rather than TCP"],
        "UDP instead of TCP.",
        |t, _| t.client(|c| c.parameters.protocol = Protocol::Udp)).or("udp"),
    stock_long("connect-timeout", Value("ms"), &["  --connect-timeout #       timeout for control connection setup (ms)"],
        "How long the control connection may take; 0 for the kernel's time.",
        |t, v| { let ms = whole(v, 0..=86_400_000, "connect timeout is out of range")?; t.client(|c| c.connect_timeout = (ms > 0).then(|| Duration::from_millis(ms))) }),
    flag::<Typed>('b', Value("rate[/blocks]"), &["  -b, --bitrate #[KMG][/#]  target bitrate in bits/sec (0 for unlimited)", "                            (default 1 Mbit/sec for UDP, unlimited for TCP)", "                            (optional slash and packet count for burst mode)"],
        "The rate of each stream, in bits per second of payload; 0 for no limit. The schedule does not move: what is late is caught up with. After a slash, so many blocks at a time. Default 1048576 for UDP, and no limit for others.",
        bitrate).or("bitrate"),
    stock_long("pacing-timer", Value("us"), &["  --pacing-timer #[KMG]     set the timing for pacing, in microseconds (default 1000)"],
        "Sent to the server. linerate waits for each block or burst by itself. Default 1000.",
        |t, v| { let us = size(v, u32::MAX.into(), "pacing timer is out of range")?; t.client(|c| c.parameters.pacing_timer = us as u32) }),
    stock_long("fq-rate", Value("rate"), &["  --fq-rate #[KMG]          enable fair-queuing based socket pacing in", "                            bits/sec (Linux only)"],
        "Have the kernel pace each stream to this rate: SO_MAX_PACING_RATE.",
        |t, v| { let bits = rate(v)?; t.client(|c| c.parameters.fq_rate = Some(bits)) }),
    flag::<Typed>('t', Value("seconds"), &["  -t, --time      #         time in seconds to transmit for (default 10 secs)"],
        "How long the test takes after the omitted time; 0 for no end. Default 10.",
        |t, v| { let time = whole(v, 0..=LONGEST_TIME.into(), "test duration too long (maximum = 86400 seconds)")?; t.ends.push("-t"); t.client(|c| c.parameters.time = time as u32) }).or("time"),
    flag::<Typed>('n', Value("bytes"), &["  -n, --bytes     #[KMG]    number of bytes to transmit (instead of -t)"],
        "End after these bytes of all streams together.",
        |t, v| { let bytes = size(v, 1 << 62, "too many bytes")?; t.ends.push("-n"); t.client(|c| c.parameters.bytes = bytes) }).or("bytes"),
    flag::<Typed>('k', Value("blocks"), &["  -k, --blockcount #[KMG]   number of blocks (packets) to transmit (instead of -t or -n)"],
        "End after these blocks of all streams together.",
        |t, v| { let blocks = size(v, 1 << 62, "too many blocks")?; t.ends.push("-k"); t.client(|c| c.parameters.blocks = blocks) }).or("blockcount"),
    flag::<Typed>('l', Value("bytes"), &["  -l, --length    #[KMG]    length of buffer to read or write", "                            (default 128 KB for TCP, dynamic or 1460 for UDP)"],
        "Bytes per block or datagram. Default 128K for TCP, the segment size of the control connection for UDP, 64K for SCTP.",
        |t, v| { let bytes = size(v, u32::MAX.into(), BLOCK_TOO_LARGE)?; t.client(|c| c.parameters.block_bytes = Some(bytes as u32).filter(|bytes| *bytes > 0)) }).or("length"),
    stock_long("cport", Value("port"), &["  --cport         <port>    bind to a specific client port (TCP and UDP, default: ephemeral port)"],
        "The local port of the first stream; further streams have the ports after it.",
        |t, v| { let port = whole(v, 1..=65535, "port number must be between 1 and 65535 inclusive")?; t.client(|c| c.local_port = Some(port as u16)) }),
    flag::<Typed>('P', Value("n"), &["  -P, --parallel  #         number of parallel client streams to run"],
        "Streams per direction. Default 1.",
        |t, v| { let streams = whole(v, 1..=MOST_STREAMS.into(), "number of parallel streams too large (maximum = 128)")?; t.client(|c| c.parameters.parallel = streams as u32) }).or("parallel"),
    flag::<Typed>('R', Nothing, &["  -R, --reverse             run in reverse mode (server sends, client receives)"],
        "The server sends.",
        |t, _| { t.reverse = true; t.client(|c| c.parameters.direction = Direction::Reverse) }).or("reverse"),
    stock_long("bidir", Nothing, &["  --bidir                   run in bidirectional mode.", "                            Client and server send and receive data."],
        "Both ends send, each over streams of its own.",
        |t, _| { t.both = true; t.client(|c| c.parameters.direction = Direction::Both) }),
    flag::<Typed>('w', Value("bytes"), &["  -w, --window    #[KMG]    set send/receive socket buffer sizes", "                            (indirectly sets TCP window size)"],
        "The socket buffers at both ends.",
        |t, v| { let bytes = size(v, LARGEST_WINDOW.into(), "socket buffer size too large (maximum = 536870912 bytes)")?; t.client(|c| c.parameters.window = Some(bytes as u32).filter(|bytes| *bytes > 0)) }).or("window"),
    flag::<Typed>('C', Value("algorithm"), &["  -C, --congestion <algo>   set TCP congestion control algorithm (Linux and FreeBSD only)"],
        "The congestion control algorithm at both ends.",
        |t, v| t.client(|c| c.parameters.congestion = Some(v.to_owned()))).or("congestion"),
    flag::<Typed>('M', Value("bytes"), &["  -M, --set-mss   #         set TCP/SCTP maximum segment size (MTU - 40 bytes)"],
        "The most bytes of a segment.",
        |t, v| { let bytes = whole(v, 0..=9216, "TCP MSS too large (maximum = 9216 bytes)")?; t.client(|c| c.parameters.max_segment = Some(bytes as u32).filter(|bytes| *bytes > 0)) }).or("set-mss"),
    flag::<Typed>('N', Nothing, &["  -N, --no-delay            set TCP/SCTP no delay, disabling Nagle's Algorithm"],
        "Send small blocks at once: TCP_NODELAY.",
        |t, _| t.client(|c| c.parameters.no_delay = true)).or("no-delay"),
    flag::<Typed>('4', Nothing, &["  -4, --version4            only use IPv4"],
        "IPv4 only.",
        |t, _| { t.common.family = Wanted::V4; Ok(()) }).or("version4"),
    flag::<Typed>('6', Nothing, &["  -6, --version6            only use IPv6"],
        "IPv6 only.",
        |t, _| { t.common.family = Wanted::V6; Ok(()) }).or("version6"),
    flag::<Typed>('S', Value("octet"), &["  -S, --tos N               set the IP type of service, 0-255.", "                            The usual prefixes for octal and hex can be used,", "                            i.e. 52, 064 and 0x34 all specify the same value."],
        "The type of service: decimal, octal with 0, hexadecimal with 0x. Default 0.",
        |t, v| { let tos = type_of_service(v)?; t.client(|c| c.parameters.type_of_service = Some(tos)) }).or("tos"),
    stock_long("dscp", Value("point"), &["  --dscp N or --dscp val    set the IP dscp value, either 0-63 or symbolic.", "                            Numeric values can be specified in decimal,", "                            octal and hex (see --tos above)."],
        "The same as a code point: a number up to 63, or a name such as af41, cs5 or ef.",
        |t, v| { let tos = code_point(v)?; t.client(|c| c.parameters.type_of_service = Some(tos)) }),
    flag::<Typed>('L', Value("label"), &["  -L, --flowlabel N         set the IPv6 flow label (only supported on Linux)"],
        "The label of this end's packets, over IPv6.",
        flow_label).or("flowlabel"),
    flag::<Typed>('Z', Nothing, &["  -Z, --zerocopy            use a 'zero copy' method of sending data"],
        "Send from a file by sendfile(2). UDP has no such call, and sends as ever.",
        |t, _| t.client(|c| c.parameters.zero_copy = true)).or("zerocopy"),
    flag::<Typed>('O', Value("seconds"), &["  -O, --omit N              perform pre-test for N seconds and omit the pre-test statistics"],
        "Run this long first, and leave it out of all figures. Default 0.",
        |t, v| { let omit = whole(v, 0..=LONGEST_OMIT.into(), "bogus value for --omit")?; t.client(|c| c.parameters.omit = omit as u32) }).or("omit"),
    flag::<Typed>('T', Value("text"), &["  -T, --title str           prefix every output line with this string"],
        "Begin every line of the client with this.",
        |t, v| t.client(|c| c.parameters.title = Some(v.to_owned()))).or("title"),
    stock_long("extra-data", Value("text"), &["  --extra-data str          data string to include in client and server JSON"],
        "Put this into the JSON documents of both ends.",
        |t, v| t.client(|c| c.parameters.extra_data = Some(v.to_owned()))),
    stock_long("get-server-output", Nothing, &["  --get-server-output       get results from server"],
        "Print what the server prints, too.",
        |t, _| t.client(|c| c.parameters.server_output = true)),
    stock_long("udp-counters-64bit", Nothing, &["  --udp-counters-64bit      use 64-bit counters in UDP test packets"],
        "Number datagrams with 64 bits instead of 32.",
        |t, _| t.client(|c| c.parameters.wide_counters = true)),
    stock_long("repeating-payload", Nothing, &["  --repeating-payload       use repeating pattern in payload, instead of", "                            randomized payload (like in iperf2)"],
        "Send the digits 0 to 9 over and over instead of random bytes.",
        |t, _| t.client(|c| c.parameters.repeating_payload = true)),
    stock_long("dont-fragment", Nothing, &["  --dont-fragment           set IPv4 Don't Fragment flag"],
        "Send datagrams over IPv4 unfragmented.",
        |t, _| t.client(|c| c.parameters.do_not_fragment = true)),
    stock_long("username", Value("name"), &["  --username                username for authentication"],
        "The user to log in as. The password is in the environment variable IPERF3_PASSWORD.",
        |t, v| t.client(|c| c.user = Some(v.to_owned()))),
    stock_long("rsa-public-key-path", Value("file"), &["  --rsa-public-key-path     path to the RSA public key used to encrypt", "                            authentication credentials"],
        "The public key, in PEM, of the server to log in at.",
        |t, v| t.client(|c| c.public_key = Some(v.into()))),
    // Names of older versions, and of later ones.
    stock_long("bandwidth", Value("rate"), &[], "As -b.", bitrate),
    stock_long("no-fq-socket-pacing", Nothing, &[], "Nothing: a name of earlier versions.", |t, _| {
        t.notices.push("warning: --no-fq-socket-pacing is deprecated".to_owned());
        t.client(|c| c.parameters.fq_rate = None)
    }),
    long("json-stream", Nothing, "print JSON, a line per event", "",
        "Print a JSON object per line and event: start, interval, error, end.",
        |t, _| { t.common.json_stream = true; Ok(()) }),
    long("json-stream-full-output", Nothing, "the same, and the whole document at the end", "",
        "As --json-stream, and the document of -J at the end.",
        |t, _| { (t.common.json_stream, t.common.full_output) = (true, true); Ok(()) }),
    long("cntl-ka", MaybeAttached("idle/interval/count"), "probe the control connection", "",
        "Probe a silent control connection after so many seconds, then each so many seconds, so often. Without it, or without numbers, 15/5/3.",
        keep_alive),
    own(Both('m', "mptcp"), Nothing, "Multipath TCP", "", "Multipath TCP instead of TCP.", multipath),
    long("multipath", Nothing, "the same", "", "As -m.", multipath),
    long("skip-rx-copy", Nothing, "receive without copying", "",
        "Receive without copying the data: MSG_TRUNC.",
        |t, _| t.client(|c| c.parameters.skip_copy = true)),
    long("gsro", Nothing, "segmentation and receive offload of UDP", "",
        "Send and receive many datagrams per call: UDP_SEGMENT and UDP_GRO.",
        |t, _| t.client(|c| c.parameters.offload = true)),
    long("server-max-duration", Value("seconds"), "the longest test", "",
        "Refuse tests that take longer, or have no end.",
        |t, v| { let most = whole(v, 1..=LONGEST_TIME.into(), "test duration too long (maximum = 86400 seconds)")?; t.server(|s| s.longest_test = Some(most as u32)) }),
    long("use-pkcs1-padding", Nothing, "logins of iperf3 3.16 and before", "",
        "Log in, or take logins, with the padding of iperf3 3.16 and before.",
        |t, _| { t.client.old_padding = true; t.server.old_padding = true; Ok(()) }),
    long("max-tests", Value("n"), "tests at a time", "1024",
        "Serve N tests at a time, and refuse further ones. Default {default}.",
        |t, v| { let tests = whole(v, 1..=65_535, "number of tests is out of range")?; t.server(|s| s.tests = tests as u32) }),
    long("allow-peers", Value("network,..."), "networks that clients may be in", "",
        "Serve clients in these networks only.", allow_peers),
    long("html", Value("file"), "write a page", "",
        "Write the result of a client as an HTML page.",
        |t, v| { t.common.html = Some(v.into()); t.client(|_| ()) }),
    long("linerate-json", Value("file"), "write linerate's own document", "",
        "Write linerate's own JSON document of a client to this file, or with - to standard output, in the place of all text.",
        |t, v| { t.common.report = Some(v.into()); t.client(|_| ()) }),
    long("strict", Nothing, "exit with 3 for a doubtful result", "",
        "Print what makes a client's result doubtful on standard error, and exit with 3 if anything does.",
        |t, _| { t.common.strict = true; t.client(|_| ()) }),
    ],
};

pub(super) const BLOCK_TOO_LARGE: &str = "block size too large (maximum = 1048576 bytes)";

fn format(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    let mut letters = value.chars();
    let scale = letters.next().and_then(Scale::of_letter);
    if scale.is_none() || letters.next().is_some() {
        return Err(parameter_error(
            "bad format specifier (valid formats are in the set [kmgtKMGT])",
        ));
    }
    typed.common.format = scale;
    Ok(())
}

fn interval(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    const RANGE: &str = "invalid report interval (min = 0.1, max = 60 seconds)";
    typed.common.interval = match seconds(value, 0.0..=60.0, RANGE)? {
        Duration::ZERO => None,
        short if short < Duration::from_millis(100) => return Err(parameter_error(RANGE)),
        interval => Some(interval),
    };
    Ok(())
}

fn affinity(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    const WRONG: &str = "unable to set CPU affinity: ";
    let cpu = |text: &str| match text.parse::<u32>() {
        Ok(cpu) if cpu <= 1024 => Ok(cpu),
        _ => Err(parameter_error(WRONG)),
    };
    let Some((here, there)) = value.split_once(',') else {
        typed.common.cpu = Some(cpu(value)?);
        return Ok(());
    };
    if !here.is_empty() {
        typed.common.cpu = Some(cpu(here)?);
    }
    let there = cpu(there)?;
    typed.client(|client| client.parameters.server_affinity = Some(there))
}

fn receive_timeout(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    const WRONG: &str = "receive timeout value is incorrect or not in range: ";
    let ms = whole(value, 100..=86_400_000, WRONG)?;
    typed.common.receive_timeout = Duration::from_millis(ms);
    typed.has_receive_timeout = true;
    Ok(())
}

fn rate_limit(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    const WRONG: &str =
        "averaging interval of the bit rate limit is out of range (min = 0.1, max = 60 seconds)";
    let (bits, over) = value.split_once('/').unwrap_or((value, "5"));
    let (bits, over) = (rate(bits)?, seconds(over, 0.1..=60.0, WRONG)?);
    typed.server(|server| server.rate_limit = Some((bits, over)).filter(|(bits, _)| *bits > 0))
}

fn idle_timeout(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    const WRONG: &str = "idle timeout parameter is not positive or larger than allowed limit";
    let idle = whole(value, 1..=86_400, WRONG)?;
    typed.server(|server| server.idle_timeout = Some(Duration::from_secs(idle)))
}

fn client(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    typed.is_client = true;
    let (host, device) = host_and_device(typed, value);
    typed.common.device = device;
    typed.client.host = host.unwrap_or_default();
    Ok(())
}

/// The host before `%`, and the interface after it. The scope of an IPv6 address stays with it, too.
fn host_and_device(typed: &Typed, value: &str) -> (Option<String>, Option<String>) {
    match value.split_once('%') {
        Some((host, device)) if host.contains(':') => {
            (Some(value.to_owned()), Some(device.to_owned()))
        }
        Some((host, device)) => (
            Some(host.to_owned()).filter(|host| !host.is_empty()),
            Some(device.to_owned()),
        ),
        None => (Some(value.to_owned()), typed.common.device.clone()),
    }
}

fn bitrate(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    let (bits, burst) = match value.split_once('/') {
        Some((bits, burst)) => {
            let burst = whole(burst, 1..=1000, "invalid burst count (maximum = 1000)")?;
            (bits, Some(burst as u32))
        }
        None => (value, None),
    };
    let bits = rate(bits)?;
    typed.has_rate = true;
    typed.client(|client| (client.parameters.rate, client.parameters.burst) = (bits, burst))
}

fn flow_label(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    match units::c_number(value) {
        Some(label @ 1..=0xf_ffff) => typed.client(|c| c.parameters.flow_label = Some(label)),
        _ => Err(parameter_error("unable to set IPv6 flow label")),
    }
}

fn timestamps(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    let format = if value.is_empty() { "%c " } else { value };
    typed.common.timestamps = CString::new(format).ok();
    Ok(())
}

fn keep_alive(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    const WRONG: &str = "control connection keepalive is out of range";
    if value.is_empty() {
        return Ok(());
    }
    let mut numbers = [0; 3];
    let words: Vec<_> = value.split('/').collect();
    if words.len() > numbers.len() {
        return Err(parameter_error(WRONG));
    }
    for (number, word) in numbers.iter_mut().zip(words) {
        if !word.is_empty() {
            *number = whole(word, 0..=32_767, WRONG)? as u32;
        }
    }
    let [idle, interval, count] = numbers;
    if idle > 0 && idle <= interval * count {
        return Err(parameter_error(
            "control connection keepalive: the idle time must be longer than all probes take",
        ));
    }
    typed.common.keep_alive = Some(numbers);
    Ok(())
}

fn multipath(typed: &mut Typed, _: &str) -> Result<(), Quit> {
    typed.client(|client| client.parameters.multipath = true)
}

fn allow_peers(typed: &mut Typed, value: &str) -> Result<(), Quit> {
    for text in value.split(',') {
        let network = Network::parse(text).or_else(refuse)?;
        typed.server(|server| server.networks.push(network))?;
    }
    Ok(())
}
