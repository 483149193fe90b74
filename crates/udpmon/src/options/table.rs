//! The table of options: one row per option, and one section of rows per program.

#![expect(
    clippy::unnecessary_wraps,
    reason = "all rows need functions of one type, also those that cannot fail"
)]

use std::path::PathBuf;
use std::time::Duration;

use getopt::Argument::{Nothing, Value};
use getopt::{EarlyExit, OptionRow, Section, linerate_long, refuse, stock_letter};
use model::{Lateness, SpacingMethod};
use server::Network;

use super::settings::{
    CommonSettings, DocumentOptions, MIN_NUMBERED_BYTES, RecordKind, RecordRequest,
    ResponderLimits, SearchSettings,
};
use super::value::{
    bytes, hexadecimal, integer, list, mask, megabits, micros, percent, records, seconds,
    set_bin_width, set_low_edge, set_rate_bounds,
};
use crate::wire::Binning;

/// The options of a command line, for any of the programs.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each field is one option")]
pub(super) struct GivenOptions {
    pub(super) common: CommonSettings,
    /// `-P`, `-T`, `-Q`: the TOS byte; each option adds its bits.
    pub(super) type_of_service: Option<u8>,
    pub(super) host: String,
    pub(super) local_port: Option<u16>,
    /// `-p`: the payload of a datagram or request.
    pub(super) bytes: Option<u32>,
    /// `-l`: the number of datagrams or requests.
    pub(super) count: Option<u64>,
    /// `-w`: the gap, or the pause of `udpmon_req`.
    pub(super) gap: Option<Duration>,
    /// `-e`, `-i` of the programs with gaps.
    pub(super) last_gap: Option<Duration>,
    pub(super) gap_step: Option<Duration>,
    /// `-r`: bits per second.
    pub(super) rate: Option<f64>,
    /// `-r`, `-e`, `-i` of `udpmon_req`: response lengths in bytes.
    pub(super) first_response: Option<u32>,
    pub(super) last_response: u32,
    pub(super) response_step: u32,
    /// `-t`: the sending time, or the duration of `udpmon_recv`.
    pub(super) time: Option<Duration>,
    /// `-g`, `-n`: the pause between bursts, and their number.
    pub(super) pause: Option<Duration>,
    pub(super) bursts: Option<u64>,
    pub(super) records: Option<RecordRequest>,
    pub(super) histograms: bool,
    pub(super) bins: Binning,
    pub(super) records_kernel_and_nic_stamps: bool,
    pub(super) extended: bool,
    pub(super) method: SpacingMethod,
    pub(super) lateness: Lateness,
    pub(super) sizes: Option<Vec<u32>>,
    pub(super) gaps: Option<Vec<Duration>>,
    pub(super) preset: Option<Preset>,
    pub(super) early_stop: Option<u32>,
    pub(super) search: Option<SearchSettings>,
    /// `--precision`, `--tolerate`.
    pub(super) precision: Option<f64>,
    pub(super) tolerated_loss: Option<f64>,
    pub(super) documents: DocumentOptions,
    pub(super) interval: Option<Duration>,
    pub(super) printing_cpus: Option<u64>,
    pub(super) interface: Option<String>,
    pub(super) uses_program_clock: bool,
    pub(super) daemon: bool,
    pub(super) limits: ResponderLimits,
}

/// The sweeps of stock's scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preset {
    Throughput,
    Jitter,
    Delay,
}

type Row = OptionRow<GivenOptions>;

macro_rules! rows {
    ($($name:ident = $row:expr;)+) => {
        $(const $name: Row = $row;)+
    };
}

#[rustfmt::skip]
rows! {
    PORT = stock_letter('u', Value("port"), &["-u port        UDP port of the responder (14233)"],
        "The UDP port of the responder. Default 14233.",
        |t, v| { t.common.port = integer(v, 1..=65535)?; Ok(()) });
    RECEIVE_PORT = stock_letter('u', Value("port"), &["-u port        UDP port to receive at (14233)"],
        "The UDP port to receive at. Default 14233.",
        |t, v| { t.common.port = integer(v, 1..=65535)?; Ok(()) });
    HOST = stock_letter('d', Value("host"), &["-d host        Destination; an address with a colon sets -6"],
        "The destination: a name or an address. An address with a colon sets -6.",
        |t, v| { v.clone_into(&mut t.host); t.common.is_v6 |= v.contains(':'); Ok(()) });
    SHOWN_SENDER = stock_letter('d', Value("address"), &["-d address     Refused: -v prints the datagrams of all senders"],
        "Refused. In the stock tool it selects the sender whose datagrams -v prints. Here -v prints the datagrams of all senders.",
        |_, _| refuse("not supported; -v prints the datagrams of all senders"));
    LOCAL_PORT = stock_letter('U', Value("port"), &["-U port        UDP port to send from"],
        "The UDP port to send from. Without it the system picks one.",
        |t, v| { t.local_port = Some(integer(v, 1..=65535)?); Ok(()) });
    LENGTH = stock_letter('p', Value("bytes"), &["-p bytes       UDP payload of a datagram (64)"],
        "The UDP payload of a datagram: at least 16 bytes, which the sequence number needs. Records need 24 bytes. Default 64.",
        |t, v| { t.bytes = Some(size(v)?); Ok(()) });
    REQUEST = stock_letter('p', Value("bytes"), &["-p bytes       UDP payload of a request, at least 64 (64)"],
        "The UDP payload of a request; less than 64 is raised to 64. Default 64.",
        |t, v| { t.bytes = Some(integer::<u32>(v, 1..=65507)?.max(64)); Ok(()) });
    PACKETS = stock_letter('l', Value("n"), &["-l n           Datagrams to send, per burst (2)"],
        "The number of datagrams; with -g, per burst. Default 2.",
        |t, v| { t.count = Some(integer(v, 1..=i64::from(u32::MAX))?); Ok(()) });
    REQUESTS = stock_letter('l', Value("n"), &["-l n           Requests per response length (10)"],
        "The number of requests for each response length. Default 10.",
        |t, v| { t.count = Some(integer(v, 1..=i64::from(u32::MAX))?); Ok(()) });
    GAP = stock_letter('w', Value("us"), &["-w us          Time from one departure to the next (0: as fast as possible)"],
        "The time from one departure to the next in microseconds; resolution 1 ns. Default 0, which is as fast as possible.",
        |t, v| { t.gap = Some(micros(v)?); Ok(()) });
    PAUSE = stock_letter('w', Value("us"), &["-w us          Pause after each request (0)"],
        "The pause after each request in microseconds. Default 0.",
        |t, v| { t.gap = Some(micros(v)?); Ok(()) });
    LAST_GAP = stock_letter('e', Value("us"), &["-e us          Repeat the test with longer gaps, up to this one"],
        "Repeat the test with longer gaps, up to this one.",
        |t, v| { t.last_gap = Some(micros(v)?); Ok(()) });
    GAP_STEP = stock_letter('i', Value("us"), &["-i us          Step of the gap (0.8)"],
        "The step from one gap to the next, with -e. Default 0.8.",
        |t, v| { t.gap_step = Some(micros(v)?); Ok(()) });
    RATE = stock_letter('r', Value("Mbit/s"), &["-r Mbit/s      Rate of payload, in the place of -w"],
        "The payload rate, which sets the gap; resolution 1 ns.",
        |t, v| { t.rate = Some(megabits(v)?); Ok(()) });
    RESPONSE = stock_letter('r', Value("bytes"), &["-r bytes       UDP payload of a response (1472)"],
        "The UDP payload of a response. Default 1472.",
        |t, v| { t.first_response = Some(integer(v, 16..=65507)?); Ok(()) });
    LAST_RESPONSE = stock_letter('e', Value("bytes"), &["-e bytes       Repeat with longer responses, up to this length"],
        "Repeat the requests for longer responses, up to this length.",
        |t, v| { t.last_response = integer(v, 0..=65507)?; Ok(()) });
    RESPONSE_STEP = stock_letter('i', Value("bytes"), &["-i bytes       Step of the response length"],
        "The step from one response length to the next, with -e.",
        |t, v| { t.response_step = integer(v, 0..=65507)?; Ok(()) });
    TIME = stock_letter('t', Value("s"), &["-t s           Send for s seconds, and ignore -l"],
        "Send for this number of seconds. -l then has no effect.",
        |t, v| { t.time = Some(seconds(v)?); Ok(()) });
    END = stock_letter('t', Value("s"), &["-t s           End after this long (0: never)"],
        "Exit after this many seconds; with -T, at the first line after that time. Default 0, which is never.",
        |t, v| { t.time = seconds_or_none(v)?; Ok(()) });
    BURST_GAP = stock_letter('g', Value("us"), &["-g us          Send bursts of -l datagrams, this long apart"],
        "Send bursts of -l datagrams with pauses of this many microseconds between them.",
        |t, v| { t.pause = Some(micros(v)?); Ok(()) });
    BURSTS = stock_letter('n', Value("n"), &["-n n           Number of bursts (1)"],
        "The number of bursts, with -g. Default 1.",
        |t, v| { t.bursts = Some(integer(v, 1..=i64::from(u32::MAX))?); Ok(()) });
    RECORDS = stock_letter('G', Value("[skip:]n"), &["-G [skip:]n    Record the times of n datagrams, after the first skip"],
        "Record and print the times of n datagrams at the receiver, after the first skip. The responder limits the memory for records with --max-records.",
        |t, v| { t.records = Some(records(v, RecordKind::All)?); Ok(()) });
    LOST = stock_letter('L', Value("[skip:]n"), &["-L [skip:]n    Record n lost datagrams instead"],
        "Record the first n lost datagrams, with the times of the datagram before each. If both -G and -L are given, the last one counts.",
        |t, v| { t.records = Some(records(v, RecordKind::Lost)?); Ok(()) });
    HISTOGRAMS = stock_letter('H', Nothing, &["-H             Print histograms"],
        "Print the histograms.",
        |t, _| { t.histograms = true; Ok(()) });
    WIDTH = stock_letter('B', Value("n"), &["-B n           Width of a bin of the first histogram, in 0.1 us (1)"],
        "The width of a bin of the histogram of arrivals, in units of 0.1 microseconds. Default 1.",
        |t, v| set_bin_width(&mut t.bins, v));
    LOW = stock_letter('M', Value("n"), &["-M n           Low edge of the first histogram, in 0.1 us (0)"],
        "The low edge of the histogram of arrivals, in units of 0.1 microseconds. Default 0.",
        |t, v| set_low_edge(&mut t.bins, v));
    WIDTH_US = stock_letter('b', Value("us"), &["-b us          Width of a bin of the histogram (1)"],
        "The width of a bin of the histogram in microseconds. Default 1.",
        |t, v| set_bin_width(&mut t.bins, v));
    LOW_US = stock_letter('m', Value("us"), &["-m us          Low edge of the histogram (0)"],
        "The low edge of the histogram in microseconds. Default 0.",
        |t, v| set_low_edge(&mut t.bins, v));
    KERNEL_STAMPS = stock_letter('N', Nothing, &["-N             Record time stamps of the kernel and of the interface"],
        "Let the receiver record time stamps of its kernel and of its interface.",
        |t, _| { t.records_kernel_and_nic_stamps = true; Ok(()) });
    ACKS = stock_letter('A', Value("n"), &["-A n           Acknowledgements: 0"],
        "Acknowledgements; only 0 is allowed. Responders of this protocol version send none, and the stock requester waits forever for them.",
        |_, v| if integer::<u32>(v, 0..=i64::from(u32::MAX))? == 0 { Ok(()) } else { refuse("responders do not send acknowledgements") });
    BUFFER = stock_letter('S', Value("bytes"), &["-S bytes       Socket buffers, granted in full or refused; 0: the system's (65535)"],
        "The sizes of the socket's send and receive buffers. The program ends if they are not granted in full. 0 leaves the system's default. Default 65535. Without this option, a receiver of datagrams enlarges its receive buffer to up to 4 MiB.",
        |t, v| {
            t.common.buffer_bytes = Some(integer(v, 0..=1 << 30)?).filter(|bytes| *bytes > 0);
            t.common.sets_buffer_bytes = true;
            Ok(())
        });
    PRECEDENCE = stock_letter('P', Value("x"), &["-P x           IP precedence, hexadecimal"],
        "The IP precedence, a hexadecimal number up to 7.",
        |t, v| add_tos_bits(t, (hexadecimal(v, 7)? as u8) << 5));
    TOS = stock_letter('T', Value("x"), &["-T x           TOS bits, hexadecimal"],
        "The four TOS bits, a hexadecimal number up to f.",
        |t, v| add_tos_bits(t, (hexadecimal(v, 15)? as u8) << 1));
    INTERVAL = stock_letter('T', Value("s"), &["-T s           Print a line this often"],
        "Print a line every N seconds.",
        |t, v| { t.interval = seconds_or_none(v)?; Ok(()) });
    TOS_BYTE = stock_letter('Q', Value("x"), &["-Q x           Whole TOS byte, hexadecimal: b8 is EF"],
        "The whole TOS byte, a hexadecimal number up to ff. The code point EF (46) is b8.",
        |t, v| { t.type_of_service = Some(hexadecimal(v, 0xff)? as u8); Ok(()) });
    CPUS = stock_letter('a', Value("mask"), &["-a mask        CPUs to run on, hexadecimal"],
        "The CPUs to run on: a hexadecimal mask.",
        |t, v| { t.common.cpus = Some(mask(v)?); Ok(()) });
    TWO_CPUS = stock_letter('a', Value("mask[:mask]"), &["-a mask[:mask] CPUs to receive on, and to print on, hexadecimal"],
        "The CPUs to run on: a hexadecimal mask. The second mask sets the CPUs of the thread that prints.",
        |t, v| {
            let (main, printing) = v.split_once(':').map_or((v, None), |(main, printing)| (main, Some(printing)));
            t.common.cpus = Some(mask(main)?);
            t.printing_cpus = printing.map(mask).transpose()?;
            Ok(())
        });
    V6 = stock_letter('6', Nothing, &["-6             IPv6"],
        "Use IPv6. A receiver also accepts IPv4.",
        |t, _| { t.common.is_v6 = true; Ok(()) });
    EXTENDED = stock_letter('x', Nothing, &["-x             Long result lines, with CPU, interface and SNMP counters"],
        "Print long result lines, with the counters of the CPUs, the interfaces, IP and UDP.",
        |t, _| { t.extended = true; Ok(()) });
    INTERFACE = stock_letter('I', Value("name"), &["-I name        Interface whose hardware counters are reported"],
        "The interface whose hardware counters are reported.",
        |t, v| { t.interface = Some(v.to_owned()); Ok(()) });
    DAEMON = stock_letter('D', Nothing, &["-D             Run as a daemon"],
        "Run in the background, with the null device as standard streams.",
        |t, _| { t.daemon = true; Ok(()) });
    QUIET = stock_letter('q', Nothing, &["-q             Result lines only"],
        "Print result lines only.",
        |t, _| { t.common.quiet = true; Ok(()) });
    VERBOSE = stock_letter('v', Nothing, &["-v             Debugging output"],
        "Print each sent and received message on standard error, which disturbs the timing.",
        |t, _| { t.common.verbose = true; Ok(()) });
    VERSION = stock_letter('V', Nothing, &["-V             Print the version"],
        "Print the version and exit.",
        |_, _| Err(EarlyExit::Version));
    HELP = stock_letter('h', Nothing, &["-h             Print this text"],
        "Print the usage text and exit.",
        |_, _| Err(EarlyExit::Help));
    PACING = linerate_long("pacing", Value("how"), "How to space datagrams: spin, txtime or kernel", "spin",
        "How to space datagrams. spin waits for each departure time in a busy loop. txtime passes each datagram with its departure time to the queueing discipline of the interface, which must be etf or fq. kernel sets a pacing rate for the queueing discipline fq. Default {default}.",
        set_pacing);
    LATENESS = linerate_long("lateness", Value("how"), "How to send late datagrams: catch-up, skip or stretch", "catch-up",
        "How to handle a departure time that has passed. catch-up sends the datagram immediately and keeps all later times. skip omits the times that have passed. stretch moves all later times, as the stock tool does. Default {default}.",
        set_lateness);
    SIZES = linerate_long("sizes", Value("list"), "Repeat the test with these payloads: 1400,100 or 64:1472:64", "",
        "Repeat the test with each of these payloads: a comma-separated list of numbers and ranges FIRST:LAST:STEP.",
        |t, v| { t.sizes = Some(list(v, size)?); Ok(()) });
    GAPS = linerate_long("gaps", Value("list"), "Repeat the test of each size with these gaps in us: 0:40:1,100", "",
        "Repeat the test of each size with each of these gaps in microseconds: a comma-separated list of numbers and ranges FIRST:LAST:STEP.",
        |t, v| { t.gaps = Some(list(v, micros)?); Ok(()) });
    SWEEP = linerate_long("sweep", Value("name"), "Use sizes and gaps of stock's scripts: throughput, jitter or delay", "",
        "Sweep over the sizes and gaps of stock's scripts. throughput sends 10000 datagrams of 1400 to 50 bytes at gaps of 0 to 40 us, with -x. jitter sends 100000 datagrams of 1472 and 100 bytes at gaps of 1 to 100 us, with -H and -x. delay sends 10000 datagrams of 1472 bytes at gaps of 11 to 300 us, with -G. --sizes, --gaps, -l, -t and -G override the sweep.",
        set_sweep);
    EARLY_STOP = linerate_long("early-stop", Value("n"), "Skip the remaining gaps of a size after n tests without loss", "",
        "Skip the remaining gaps of a size after n consecutive tests without loss in which datagrams arrived at the rate of their departure. List the gaps in ascending order.",
        |t, v| { t.early_stop = Some(integer(v, 1..=1000)?); Ok(()) });
    SEARCH = linerate_long("search", Value("low:high"), "Search for the highest rate without loss between these, in Mbit/s", "",
        "Search for the highest rate of payload without loss. Either bound may be empty; without an upper bound, the search starts as fast as possible. Each step sends for -t or -l; default 1 second. The path carries a rate if it loses no datagram and delivers the datagrams at the rate of their departure. If the responder is linerate, drops at its own socket are reported separately and do not count as loss on the path. A token bucket on the path raises the result; a longer -t reduces this effect.",
        |t, v| set_rate_bounds(v, t.search.get_or_insert_default()));
    PRECISION = linerate_long("precision", Value("percent"), "End the search when its bounds differ by at most this percentage", "0.5",
        "End the search when the bounds differ by at most this percentage of the rate. Default {default} per cent.",
        |t, v| { t.precision = Some(percent(v, 0.01)?); Ok(()) });
    TOLERATE = linerate_long("tolerate", Value("percent"), "Loss that the search ignores", "0",
        "Treat a rate as free of loss if at most this percentage of its datagrams is lost. Default {default} per cent.",
        |t, v| { t.tolerated_loss = Some(percent(v, 0.0)?); Ok(()) });
    JSON = linerate_long("json", Nothing, "Print only the results, as a JSON document", "",
        "Print the results as a JSON document instead of text. The format is that of linerate run.",
        |t, _| { t.documents.json = true; Ok(()) });
    CSV = linerate_long("csv", Nothing, "Print only the results, as comma-separated values", "",
        "Print a title line and one line of comma-separated values per test, instead of text. Times are in seconds, rates in bits per second.",
        |t, _| { t.documents.csv = true; Ok(()) });
    HTML = linerate_long("html", Value("file"), "Write the results to this file as an HTML page with plots", "",
        "Write the results to this file as an HTML page with plots. The page loads nothing from the network.",
        |t, v| { t.documents.html = Some(v.into()); Ok(()) });
    PLOT = linerate_long("plot", Value("file"), "Plot the results to FILE.svg or FILE.html", "",
        "Plot throughput and loss against the gap and the size of a sweep, which needs several tests. With -G, also plot the delay and the arrival of each datagram. The file name must end in .svg or .html. Plots, HTML page and JSON document contain at most 2097152 records of all tests together.",
        set_plot);
    PACKETS_FILE = linerate_long("packets", Value("file"), "Write the records of -G to this file, one per line", "",
        "Write the records of -G to this file after each test, as comma-separated values: the number of the test, the number of the datagram, its bytes, the times of departure and arrival by each end's clock, and the one-way delay. Times are in nanoseconds. The file contains the records of all tests.",
        |t, v| { t.documents.packets = Some(v.into()); Ok(()) });
    STRICT = linerate_long("strict", Nothing, "Print warnings about a result, and exit with 3 if there are any", "",
        "Print warnings about a result on standard error. Exit with 3 if there are any.",
        |t, _| { t.documents.strict = true; Ok(()) });
    STAMP_SOURCE = linerate_long("stamps", Value("whose"), "Source of arrival times: kernel or program", "kernel",
        "Source of arrival times. kernel uses the time stamps of the receiving host's kernel (SO_TIMESTAMPING). program reads the clock after each receive call, as the stock tool does. Default {default}.",
        |t, v| { t.uses_program_clock = one_of(v, &[("kernel", false), ("program", true)])?; Ok(()) });
    PEERS = linerate_long("allow-peers", Value("CIDR"), "Serve only requesters from this network (repeatable)", "",
        "Serve only requesters from this network: 10.0.0.0/8, fd00::/8, or one address. The option is repeatable.",
        |t, v| { t.limits.server.networks.push(Network::parse(v).or_else(refuse)?); Ok(()) });
    THIRD_PARTY = linerate_long("allow-third-party", Value("CIDR"), "Send long replies to unproven addresses in this network (repeatable)", "",
        "Send requesters in this network more than three times the bytes that they sent, although their address is not proven: 10.0.0.0/8, fd00::/8, or one address. The option is repeatable. Without it, only addresses of this host or on its links, and linerate requesters, which prove their address, get more.",
        |t, v| t.limits.server.third_parties.allow(v).or_else(refuse));
    TESTS = linerate_long("max-tests", Value("n"), "Run at most n tests at a time", "1",
        "Run at most n tests at a time; refuse further requesters. Default {default}, as in the stock tool.",
        |t, v| { t.limits.server.max_clients = integer(v, 1..=1 << 16)?; Ok(()) });
    MAX_RECORDS = linerate_long("max-records", Value("bytes"), "Memory for the records of one test", "64M",
        "Memory for the records of one test. A linerate requester that asks for more fails before it sends data. A stock requester receives zeros for the records that do not fit. Default {default}.",
        |t, v| { t.limits.record_bytes = bytes(v, 0..=1 << 32)?; Ok(()) });
    MAX_MEMORY = linerate_long("max-memory", Value("bytes"), "Memory for all tests and their records", "256M",
        "Memory for all tests together: 232 KiB per requester, and the records. One address gets at most 15/16 of it. Default {default}.",
        |t, v| { t.limits.memory_bytes = bytes(v, 1 << 20..=1 << 40)?; Ok(()) });
    MAX_RESPONSE = linerate_long("max-response", Value("bytes"), "Maximum length of a response", "65507",
        "The maximum length of a response to a request, in bytes. Before a test starts, a response is at most as long as its request. Default {default}.",
        |t, v| { t.limits.response_bytes = integer(v, 64..=65507)?; Ok(()) });
    IDLE = linerate_long("idle", Value("s"), "End a test after this many seconds without datagrams", "60",
        "End a test after this many seconds without requests and data. Default {default}.",
        |t, v| { t.limits.idle = seconds(v)?; Ok(()) });
    DRAIN = linerate_long("drain-on-exit", Value("s"), "After a stop, let running tests continue for up to this long", "",
        "After SIGTERM or SIGINT, let running tests continue for up to this many seconds. Without this option, running tests end immediately.",
        |t, v| { t.limits.server.drain_time = seconds(v)?; Ok(()) });
}

/// Returns a section with these rows.
const fn section(flags: &'static [Row]) -> Section<GivenOptions> {
    Section {
        title: "OPTIONS",
        heading: "",
        scope: "",
        options: flags,
    }
}

#[rustfmt::skip]
pub(super) static BW_MON: Section<GivenOptions> = section(&[
    HOST, PORT, LOCAL_PORT, LENGTH, PACKETS, GAP, LAST_GAP, GAP_STEP, RATE, TIME, BURST_GAP, BURSTS, RECORDS, LOST,
    HISTOGRAMS, WIDTH, LOW, KERNEL_STAMPS, ACKS, BUFFER, PRECEDENCE, TOS, TOS_BYTE, CPUS, V6, EXTENDED, QUIET, VERBOSE, VERSION,
    HELP, PACING, LATENESS, SIZES, GAPS, SWEEP, EARLY_STOP, SEARCH, PRECISION, TOLERATE, JSON, CSV, HTML, PLOT,
    PACKETS_FILE, STRICT,
]);

#[rustfmt::skip]
pub(super) static REQ: Section<GivenOptions> = section(&[
    HOST, PORT, REQUEST, RESPONSE, LAST_RESPONSE, RESPONSE_STEP, REQUESTS, PAUSE, HISTOGRAMS, WIDTH_US, LOW_US, BUFFER,
    PRECEDENCE, TOS, TOS_BYTE, CPUS, V6, QUIET, VERBOSE, VERSION, HELP, JSON, CSV, HTML, STRICT,
]);

#[rustfmt::skip]
pub(super) static SEND: Section<GivenOptions> = section(&[
    HOST, PORT, LOCAL_PORT, LENGTH, PACKETS, GAP, LAST_GAP, GAP_STEP, RATE, TIME, BURST_GAP, BURSTS, BUFFER, PRECEDENCE,
    TOS, TOS_BYTE, CPUS, V6, EXTENDED, QUIET, VERBOSE, VERSION, HELP, PACING, LATENESS, SIZES, GAPS, JSON, CSV, HTML,
    PLOT, STRICT,
]);

#[rustfmt::skip]
pub(super) static RECV: Section<GivenOptions> = section(&[
    RECEIVE_PORT, END, INTERVAL, RECORDS, LOST, HISTOGRAMS, WIDTH, LOW, KERNEL_STAMPS, INTERFACE, BUFFER, TOS_BYTE, V6, TWO_CPUS,
    SHOWN_SENDER, QUIET, VERBOSE, VERSION, HELP, STAMP_SOURCE, JSON, CSV, HTML, PLOT, PACKETS_FILE, STRICT,
]);

#[rustfmt::skip]
pub(super) static RESP: Section<GivenOptions> = section(&[
    RECEIVE_PORT, INTERFACE, DAEMON, V6, BUFFER, PRECEDENCE, TOS, TOS_BYTE, CPUS, VERBOSE, VERSION, HELP, STAMP_SOURCE, PEERS, THIRD_PARTY,
    TESTS, MAX_RECORDS, MAX_MEMORY, MAX_RESPONSE, IDLE, DRAIN,
]);

/// Parses the payload of a datagram in bytes.
fn size(text: &str) -> Result<u32, EarlyExit> {
    integer(text, i64::from(MIN_NUMBERED_BYTES)..=65507)
}

/// Parses seconds. Returns `None` for 0.
fn seconds_or_none(text: &str) -> Result<Option<Duration>, EarlyExit> {
    match text {
        "0" => Ok(None),
        _ => seconds(text).map(Some),
    }
}

/// Adds these bits to the TOS byte.
fn add_tos_bits(given: &mut GivenOptions, bits: u8) -> Result<(), EarlyExit> {
    given.type_of_service = Some(given.type_of_service.unwrap_or(0) | bits);
    Ok(())
}

fn set_pacing(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let choices = [
        ("spin", SpacingMethod::Spin),
        ("txtime", SpacingMethod::LaunchTime),
        ("kernel", SpacingMethod::PacingRate),
    ];
    given.method = one_of(text, &choices)?;
    Ok(())
}

fn set_lateness(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let choices = [
        ("catch-up", Lateness::CatchUp),
        ("skip", Lateness::Skip),
        ("stretch", Lateness::Stretch),
    ];
    given.lateness = one_of(text, &choices)?;
    Ok(())
}

fn set_sweep(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let choices = [
        ("throughput", Preset::Throughput),
        ("jitter", Preset::Jitter),
        ("delay", Preset::Delay),
    ];
    given.preset = Some(one_of(text, &choices)?);
    Ok(())
}

/// Returns the value of the choice with this name.
fn one_of<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, EarlyExit> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    refuse(format!("not one of {}", names.join(", ")))
}

fn set_plot(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let path = PathBuf::from(text);
    if !path
        .extension()
        .is_some_and(|end| end == "svg" || end == "html")
    {
        return refuse("the name must end in .svg or .html");
    }
    given.documents.plot = Some(path);
    Ok(())
}
