//! The global options, before `--`: their table, parsers and typed values.

use std::time::Duration;

use getopt::Argument::{Nothing, OptionalAttached, OptionalNumber, Value};
use getopt::stock_version::StockVersion;
use getopt::{EarlyExit, Exit, Section, linerate_long, refuse, stock_letter};
use model::{EndpointPlan, IoMethod, Touch, with_defaults};

use super::repeat::RepeatOptions;
use super::value::{
    alignment, count, family, int32, number, optional_count, passphrase, port, seconds, set_both,
    set_pair, type_of_service, width,
};
use super::{Family, Settings, ThroughputUnit};
use crate::version::Version;

with_defaults! {
    /// The options before `--`, as typed.
    #[derive(Clone)]
    pub(super) struct GlobalOptions {
        /// `--stock-version`.
        pub(super) version: Version = Version::default(),
        /// The settings that one option determines alone. An empty host name means the default.
        pub(super) settings: Settings = Settings::default(),
        /// The local endpoint plan.
        pub(super) local: EndpointPlan = EndpointPlan::default(),
        /// The remote endpoint plan.
        pub(super) remote: EndpointPlan = EndpointPlan::default(),
        /// `--cpu-method looper`.
        pub(super) use_looper: bool = false,
        /// `-f`.
        pub(super) unit: Option<ThroughputUnit> = None,
        /// `-i`, `-I`, `-r`.
        pub(super) repeat: RepeatOptions = RepeatOptions::default(),
        /// `-l`.
        pub(super) length: Length = Length::Seconds(10),
        /// `-t`, in upper case.
        pub(super) test: String = "TCP_STREAM".to_owned(),
        /// `-b`: operations per interval, local and remote; 0 is no pacing.
        pub(super) pace_burst: [u64; 2] = [0; 2],
        /// `-w`: the pacing interval in microseconds, local and remote; 0 is the default.
        pub(super) pace_interval_us: [u32; 2] = [0; 2],
        /// `--spin`: local and remote.
        pub(super) spin: [bool; 2] = [false; 2],
        /// `--bidirectional`.
        pub(super) bidirectional: bool = false,
        /// `--histogram-buckets`.
        pub(super) histogram_buckets: Option<u32> = None,
    }
}

/// The length of a test, from `-l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Seconds(u32),
    /// A number of transactions in request/response tests, of bytes in others.
    Amount(u32),
    Unlimited,
}

/// The global options, in the order of the stock tool's usage text.
#[rustfmt::skip]
pub(super) static SECTION: Section<GlobalOptions> = Section {
    title: "GLOBAL OPTIONS",
    heading: "Global options:",
    scope: "",
    options: &[
    stock_letter('a', Value("send[,recv]"), &["-a send,recv      Set the local send,recv buffer alignment"],
        "Alignment of the local send and receive buffers, a power of two in bytes. Default 8.",
        |g, v| set_both([&mut g.local.send.alignment, &mut g.local.receive.alignment], v, alignment)),
    stock_letter('A', Value("send[,recv]"), &["-A send,recv      Set the remote send,recv buffer alignment"],
        "Alignment of the remote send and receive buffers. Default 8.",
        |g, v| set_both([&mut g.remote.send.alignment, &mut g.remote.receive.alignment], v, alignment)),
    stock_letter('B', Value("text"), &["-B brandstr       Specify a string to be emitted with brief output"],
        "A tag for the result. The selector RESULT_BRAND prints it. With -P 0, some tables print it, too.",
        |g, v| { g.settings.print.brand = Some(v.to_owned()); Ok(()) }),
    stock_letter('c', OptionalNumber("rate"), &["-c [cpu_rate]     Report local CPU usage"],
        "Report the local host's CPU utilisation and service demand. The next word is a calibration value if it starts with a digit.",
        |g, v| set_cpu_measurement(&mut g.local.measure_cpu, &mut g.settings.cpu_rate.local, v)),
    stock_letter('C', OptionalNumber("rate"), &["-C [cpu_rate]     Report remote CPU usage"],
        "Report the remote host's CPU utilisation and service demand, with a calibration value as for -c.", |g, v| set_cpu_measurement(&mut g.remote.measure_cpu, &mut g.settings.cpu_rate.remote, v)),
    stock_letter('d', Nothing, &["-d                Increase debugging output"],
        "Print the plan of the test on standard error.", |g, _| { g.settings.debug = g.settings.debug.saturating_add(1); Ok(()) }),
    stock_letter('D', Value("seconds[,units]"), &[
        "-D time,[units] * Display interim results at least every time interval",
        "                  using units as the initial guess for units per second",
        "                  A negative value for time will make heavy use of the",
        "                  system's timestamping functionality",
    ], "Print interim results at this interval in seconds; fractions are allowed. A negative value makes stock read the clock in each pass; linerate ignores the sign, because its intervals are exact anyway and do not slow the test. The units, stock's first guess of the work per interval, are ignored.",
        set_interim),
    stock_letter('f', Value("unit"), &["-f G|M|K|g|m|k    Set the output units"],
        "Unit of throughput: g, m, k for 10^9, 10^6, 10^3 bits per second; G, M, K for 2^30, 2^20, 2^10 bytes per second; B and b for bytes, x for transactions, u for microseconds per byte. Default m, or x in request/response tests.",
        set_unit),
    stock_letter('F', Value("local[,remote]"), &["-F lfill[,rfill]* Pre-fill buffers with data from specified file"],
        "Files whose contents fill the buffers. TCP_SENDFILE sends the local one. A linerate netserver reads the remote one only from a directory of its option --allow-fill-dir.",
        set_fill_files),
    stock_letter('h', Nothing, &["-h                Display this text"],
        "Print the usage text and exit with 1.", |_, _| Err(EarlyExit::Help)),
    stock_letter('H', Value("name[,family]"), &["-H name|ip,fam *  Specify the target machine and/or local ip and family"],
        "The netserver's host. The data connection uses the same host unless test option -H sets another. Default localhost.",
        |g, v| { set_host(&mut g.settings, v); Ok(()) }),
    stock_letter('i', Value("max[,min]"), &["-i max,min        Specify the max and min number of iterations (15,1)"],
        "Maximum and minimum number of iterations of the test, 3 to 30. netperf stops when the confidence interval of -I is reached.",
        |g, v| g.repeat.set_iterations(v)),
    stock_letter('I', Value("level[,width]"), &[
        "-I lvl[,intvl]    Specify confidence level (95 or 99) (99) ",
        "                  and confidence interval in percentage (10)",
    ], "Confidence level, 95 or 99, and the full width of the interval in percent of the mean (5 by default). As in the stock tool, a single value sets both: write -I 99,5.",
        |g, v| g.repeat.set_confidence(v)),
    stock_letter('j', Nothing, &["-j                Keep additional timing statistics"],
        "Keep latency statistics: of transactions, or in one-way tests of single calls.",
        |g, _| { g.settings.print.latency = true; Ok(()) }),
    stock_letter('l', Value("length"), &["-l testlen        Specify test duration (>0 secs) (<0 bytes|trans)"],
        "Length of the test: seconds, a duration of whole seconds such as 1m30s, or a negative number of bytes or transactions. 0 runs until an interrupt. Default 10.",
        |g, v| { g.length = parse_length(v)?; Ok(()) }),
    stock_letter('L', Value("name[,family]"), &["-L name|ip,fam *  Specify the local ip|name and address family"],
        "Local address of the control connection, and of the data connection unless test option -L sets another.",
        |g, v| { set_local_host(&mut g.settings, v); Ok(()) }),
    stock_letter('o', Value("send[,recv]"), &["-o send,recv      Set the local send,recv buffer offsets"],
        "Offset of the local buffers from their alignment, in bytes. Default 0.",
        |g, v| set_both([&mut g.local.send.offset, &mut g.local.receive.offset], v, count)),
    stock_letter('O', Value("send[,recv]"), &["-O send,recv      Set the remote send,recv buffer offset"],
        "Offset of the remote buffers. Default 0.",
        |g, v| set_both([&mut g.remote.send.offset, &mut g.remote.receive.offset], v, count)),
    // The stock tool ignores the value on Linux, too: the kernel reports the number.
    stock_letter('n', Value("cpus"), &["-n numcpu         Set the number of processors for CPU util"],
        "Number of CPUs. Accepted and ignored, as in the stock tool: Linux reports the number.",
        |_, v| count(v).map(drop)),
    stock_letter('N', Nothing, &["-N                Establish no control connection, do 'send' side only"],
        "Run without a control connection, against any service; by default discard, chargen or echo, by the test's direction. Results that only a netserver can report are unavailable.",
        |g, _| { g.settings.no_control = true; Ok(()) }),
    stock_letter('p', Value("port[,local]"), &["-p port,lport*    Specify netserver port number and/or local port"],
        "The netserver's port (12865), and the local port of the control connection.",
        |g, v| { let g = &mut g.settings.control; set_pair([&mut g.port, &mut g.local_port], v, port) }),
    stock_letter('P', Value("0|1"), &["-P 0|1            Don't/Do display test headers"],
        "0 leaves out the banner and the column headers. Default 1.", |g, v| { g.settings.print.headers = int32(v)? != 0; Ok(()) }),
    stock_letter('r', Nothing, &["-r                Allow confidence to be hit on result only"],
        "Require the confidence interval of -I for the throughput only, not for the CPU utilisations.",
        |g, _| { g.repeat.throughput_only = true; Ok(()) }),
    stock_letter('s', Value("seconds"), &["-s seconds        Wait seconds between test setup and test start"],
        "Seconds to wait between test setup and the first data. Default 0.",
        |g, v| { g.settings.wait = Duration::from_secs(count(v)?.into()); Ok(()) }),
    stock_letter('S', Nothing, &["-S                Set SO_KEEPALIVE on the data connection"],
        "Set SO_KEEPALIVE on the data sockets of both ends.",
        |g, _| { (g.local.socket.keep_alive, g.remote.socket.keep_alive) = (true, true); Ok(()) }),
    stock_letter('t', Value("test"), &["-t testname       Specify test to perform"],
        "The test, in any case: see TESTS. Default TCP_STREAM.", |g, v| { g.test = v.to_ascii_uppercase(); Ok(()) }),
    stock_letter('T', Value("local[,remote]"), &["-T lcpu,rcpu      Request netperf/netserver be bound to local/remote cpu"],
        "Bind the threads of the test to a CPU, at the local and the remote end.",
        |g, v| set_both([&mut g.local.cpu, &mut g.remote.cpu], v, optional_count)),
    stock_letter('v', Value("level"), &["-v verbosity      Specify the verbosity level"],
        "Verbosity. 0 prints one figure, 1 the table, 2 the table, a block of details and the histogram, 3 the block of details only. Default 1.",
        |g, v| { g.settings.print.verbosity = int32(v)?; Ok(()) }),
    // The stock text has -v twice.
    stock_letter('W', Value("send[,recv]"), &[
        "-W send,recv      Set the number of send,recv buffers",
        "-v level          Set the verbosity level (default 1, min 0)",
    ], "Number of buffers in the send and receive rings of both ends. Without it, one more than are needed to fill the socket's buffer.",
        set_widths),
    stock_letter('V', Nothing, &["-V                Display the netperf version and exit"],
        "Print the version and exit.", |_, _| Err(EarlyExit::Version)),
    stock_letter('y', Value("local[,remote]"), &["-y local,remote   Set the socket priority"],
        "SO_PRIORITY of the data sockets. Without it, the kernel's default. If the system refuses it, netperf prints a warning on standard error.",
        set_priority),
    stock_letter('Y', Value("local[,remote]"), &["-Y local,remote   Set the IP_TOS. Use hexadecimal."],
        "Type of service or traffic class of the data sockets: a number 0 to 255, or a name such as cs1, af42, ef, lowdelay.",
        |g, v| set_both([&mut g.local.socket.type_of_service, &mut g.remote.socket.type_of_service], v, type_of_service)),
    stock_letter('Z', Value("text"), &["-Z passphrase     Set and pass to netserver a passphrase"],
        "The passphrase that the server expects. @FILE reads it from the first line of a file, so that ps(1) does not show it. It is sent in clear text.",
        |g: &mut GlobalOptions, v| { g.settings.control.passphrase = Some(passphrase(v)?); Ok(()) }).with_secret_value(),
    stock_letter('4', Nothing, &[], "IPv4 only.", |g, _| { set_families(g, Family::V4); Ok(()) }),
    stock_letter('6', Nothing, &[], "IPv6 only.", |g, _| { set_families(g, Family::V6); Ok(()) }),
    stock_letter('b', Value("local[,remote]"), &[],
        "Pacing: the number of sends (receives, transactions) per interval of -w, at the local and the remote end. Without -w, an interval is one millisecond. The schedule is fixed: a late end catches up immediately. If an end cannot hold the pace, netperf prints a warning on standard error.",
        |g, v| set_pair(g.pace_burst.each_mut(), v, parse_pace_burst)),
    stock_letter('w', Value("local[,remote]"), &[],
        "Length of a pacing interval: an integer with the suffix s, m (milliseconds, also without a suffix) or u (microseconds). Default 1.",
        |g, v| set_pair(g.pace_interval_us.each_mut(), v, parse_interval_us)),
    linerate_long("spin", OptionalAttached("end"), "Wait for -b/-w intervals by reading the clock, at both ends or END (local, remote)", "",
        "Wait for the next -w interval by reading the clock instead of sleeping. This is accurate to a fraction of a microsecond and occupies a CPU. In intervals above 2 milliseconds, only the last 2 milliseconds are spun. It applies to each paced end (-b), or only to the given end, local or remote. A remote end must be a linerate netserver with --allow-spin; it spins for at most half of each interval.",
        set_spin),
    stock_letter('k', Value("dirty[,clean]"), &[],
        "Before each local send, write to the first dirty bytes of the buffer. After each local receive, write to the first dirty bytes of the received data and read the next clean bytes.",
        |g, v| set_touch(&mut g.local.touch, v)),
    stock_letter('K', Value("dirty[,clean]"), &[],
        "Like -k, at the remote end.", |g, v| set_touch(&mut g.remote.touch, v)),
    linerate_long("parallel", Value("flows"), "Run N flows in parallel and report their sum", "1",
        "Run this number of flows in one test. They start together; netperf reports their sum and how they compare. CPU utilisation and service demand are those of all flows. Default {default}.",
        |g, v| { g.settings.flows = number(v, 1..=MAX_FLOWS)?; Ok(()) }),
    linerate_long("bidirectional", Nothing, "Run the same number of flows in the other direction, too (one-way tests)", "",
        "In one-way tests, run the same number of flows in the other direction at the same time. The throughput is the total.",
        |g, _| { g.bidirectional = true; Ok(()) }),
    linerate_long("histogram", Value("file"), "Time each transaction or call and write the times to a histogram log", "",
        "Time each transaction, or in one-way tests each call, and write the times to this file: a histogram log in HdrHistogram's compressed V2 encoding, in nanoseconds.",
        |g, v| { g.settings.histogram = Some(v.into()); Ok(()) }),
    linerate_long("histogram-buckets", Value("n"), "Print the histogram of -v 2 with N buckets per decade", "10",
        "With -v 2, print the histogram with n buckets per decade, a multiple of 10 up to 1000. Default {default}, as in stock. Times are recorded to within 0.8 %, so some of the buckets stay empty if they are narrower than that.",
        |g, v| { g.histogram_buckets = Some(parse_buckets(v)?); Ok(()) }),
    linerate_long("io", Value("method"), "Move one-way datagrams by plain calls or mmsg (several per call)", "plain",
        "Move one-way datagrams (UDP, UDP-Lite) by this method. plain: one call per datagram. mmsg: sendmmsg(2) and recvmmsg(2), one call per batch of up to 64 datagrams. A paced sender (-b) begins a batch with each interval. A linerate server uses the same method; any other server receives one datagram per call. Each datagram counts as one call in the results. Not allowed with -j, -v 2 and --histogram, which time single calls. Default {default}.",
        set_io_method),
    linerate_long("cpu-method", Value("method"), "Measure CPU time by procstat (/proc/stat) or looper (count idle cycles)", "",
        "Measure CPU time by procstat, the kernel's counters (the default), or by looper: threads of the lowest priority count the idle cycles. LOC_CPU and REM_CPU print a calibration value for looper, to use with -c and -C.",
        set_cpu_method),
    linerate_long("data-idle", Value("seconds"), "Fail if data stops for this long in a test without a time limit", "60",
        "Fail if data stops for this many seconds in a test without a time limit. Default {default}.",
        |g, v| { g.settings.data_idle = seconds(v)?; Ok(()) }),
    linerate_long("strict", Nothing, "Exit with code 3 if the result has warnings, and print them", "",
        "Print each warning about the result on standard error, and exit with code 3 if there is one.",
        |g, _| { g.settings.strict = true; Ok(()) }),
    linerate_long("stock-version", Value("version"), "Have the options and the texts of this netperf", "2.7.1",
        "Have the options and the texts of this version of netperf: 2.7.0 or 2.7.1. The environment variable LINERATE_STOCK_VERSION also selects versions, such as 'netperf=2.7.0'. Default {default}.",
        |g, v| { g.version = Version::from_name(v).or_else(refuse)?; Ok(()) }),
    linerate_long("json", Nothing, "Print the result as a JSON document and nothing else", "",
        "Print one JSON document on standard output instead of the text, in the format of linerate run --json. Options for text output (-D, -v, -B, -f, test options -o, -O and -k) are refused. Errors that the stock tool prints on standard output go to standard error.",
        |g, _| { g.settings.json = true; Ok(()) }),
    linerate_long("html", Value("file"), "Write the result to an HTML page with plots", "",
        "Write the result to an HTML page with plots of the rate over time and of the latencies (-j). The page needs no network access.",
        |g, v| { g.settings.html = Some(v.into()); Ok(()) }),
]};

/// The maximum number of flows. Each one uses a thread and a control connection.
const MAX_FLOWS: i64 = 512;

/// Parses `name,family` and returns the name. Either part may be missing; a lone word is the name.
pub(super) fn parse_endpoint(
    family_in_force: &mut Family,
    notices: &mut Vec<String>,
    text: &str,
) -> Option<String> {
    let (name, family_word) = text.split_once(',').unwrap_or((text, ""));
    if !family_word.is_empty() {
        let (family, warning) = family(family_word);
        *family_in_force = family;
        notices.extend(warning);
    }
    (!name.is_empty()).then(|| name.to_owned())
}

fn set_host(
    Settings {
        control, notices, ..
    }: &mut Settings,
    text: &str,
) {
    if let Some(name) = parse_endpoint(&mut control.family, notices, text) {
        control.host = name;
    }
}

fn set_local_host(
    Settings {
        control, notices, ..
    }: &mut Settings,
    text: &str,
) {
    let name = parse_endpoint(&mut control.local_family, notices, text);
    control.local_host = name.or(control.local_host.take());
}

fn set_families(global: &mut GlobalOptions, family: Family) {
    let control = &mut global.settings.control;
    (control.family, control.local_family) = (family, family);
}

fn set_spin(global: &mut GlobalOptions, text: &str) -> Result<(), EarlyExit> {
    match text {
        "" => global.spin = [true; 2],
        "local" => global.spin[0] = true,
        "remote" => global.spin[1] = true,
        _ => return refuse("the end must be local or remote"),
    }
    Ok(())
}

fn set_io_method(global: &mut GlobalOptions, text: &str) -> Result<(), EarlyExit> {
    let method = match text {
        "plain" => IoMethod::OnePerCall,
        "mmsg" => IoMethod::Mmsg,
        _ => return refuse("a method is plain or mmsg"),
    };
    (global.local.io, global.remote.io) = (method, method);
    Ok(())
}

fn set_cpu_method(global: &mut GlobalOptions, text: &str) -> Result<(), EarlyExit> {
    global.use_looper = match text {
        "procstat" => false,
        "looper" => true,
        _ => return refuse("the method must be procstat or looper"),
    };
    Ok(())
}

fn set_cpu_measurement(enable: &mut bool, rate: &mut f32, text: &str) -> Result<(), EarlyExit> {
    if !text.is_empty() {
        *rate = match text.parse::<f32>() {
            Ok(rate) if rate.is_finite() => rate,
            _ => return refuse(format!("'{text}' is not a calibration value")),
        };
    }
    *enable = true;
    Ok(())
}

/// Parses `-D time,units`. Both the sign of `time` and `units` are ignored.
///
/// In stock, a negative time reads the clock in each pass, and `units` is the first guess of the
/// passes between two reads. linerate needs neither: another thread keeps the time.
fn set_interim(global: &mut GlobalOptions, text: &str) -> Result<(), EarlyExit> {
    let (time, units) = text.split_once(',').unwrap_or((text, ""));
    if !units.is_empty() {
        count(units)?;
    }
    let interval = match time {
        "" => DEFAULT_INTERIM,
        time => match time.parse().map(f64::abs).map(Duration::try_from_secs_f64) {
            Ok(Ok(interval)) => interval,
            _ => return refuse(format!("'{time}' is not a number of seconds")),
        },
    };
    if interval < MIN_INTERIM {
        return refuse("the interval of interim results must be at least one millisecond");
    }
    global.settings.print.interim = Some(interval.min(MAX_INTERIM));
    Ok(())
}

/// The interval of interim results if `-D` has no time, as in the stock manual.
const DEFAULT_INTERIM: Duration = Duration::from_secs(1);

/// The minimum interval, the resolution of the times in the interim lines.
const MIN_INTERIM: Duration = Duration::from_millis(1);

/// The maximum interval, longer than any test and within the range of the clock.
const MAX_INTERIM: Duration = Duration::from_secs(u32::MAX as u64);

fn set_unit(global: &mut GlobalOptions, text: &str) -> Result<(), EarlyExit> {
    let Some(letter) = text.chars().next() else {
        return refuse("no unit given");
    };
    global.unit = Some(ThroughputUnit(letter));
    Ok(())
}

fn set_fill_files(global: &mut GlobalOptions, text: &str) -> Result<(), EarlyExit> {
    let (local, remote) = (&mut global.local.fill, &mut global.remote.fill);
    set_pair([local, &mut *remote], text, |path| {
        Ok((!path.is_empty()).then(|| path.into()))
    })?;
    // The protocol's field has 32 bytes, including the final NUL.
    if remote
        .as_ref()
        .is_some_and(|path| path.as_os_str().len() > 31)
    {
        let reason = "Remote fill file name must be less than 32 characters\n";
        return Err(EarlyExit::Exit(Exit::stderr(reason, 255)));
    }
    Ok(())
}

/// Applies global `-W` to both ends.
fn set_widths(global: &mut GlobalOptions, text: &str) -> Result<(), EarlyExit> {
    let (local, remote) = (&mut global.local, &mut global.remote);
    set_both(
        [&mut local.send.width, &mut local.receive.width],
        text,
        width,
    )?;
    (remote.send.width, remote.receive.width) = (local.send.width, local.receive.width);
    Ok(())
}

fn set_priority(global: &mut GlobalOptions, text: &str) -> Result<(), EarlyExit> {
    let (local, remote) = (&mut global.local.socket, &mut global.remote.socket);
    set_both([&mut local.priority, &mut remote.priority], text, |word| {
        Ok(optional_count(word)?.map(u32::cast_signed))
    })
}

/// Applies `-k` or `-K`: the dirty count to both directions, the clean count to receives only.
fn set_touch(touch: &mut Touch, text: &str) -> Result<(), EarlyExit> {
    let (dirty, clean) = (&mut touch.send_dirty_bytes, &mut touch.receive_clean_bytes);
    set_both([dirty, clean], text, optional_count)?;
    touch.receive_dirty_bytes = touch.send_dirty_bytes;
    Ok(())
}

fn parse_length(text: &str) -> Result<Length, EarlyExit> {
    if let Some(duration) = units::parse_go_duration(text) {
        if duration.as_secs() == 0 {
            return refuse("a test takes at least one second");
        }
        return match u32::try_from(duration.as_secs()) {
            _ if duration.subsec_nanos() != 0 => refuse("the protocol carries whole seconds only"),
            Ok(seconds) if i32::try_from(seconds).is_ok() => Ok(Length::Seconds(seconds)),
            _ => refuse("more seconds than the protocol can carry"),
        };
    }
    if text
        .parse::<f64>()
        .is_ok_and(|seconds| seconds.fract() != 0.0)
    {
        return refuse("the protocol carries whole seconds only");
    }
    // The classic messages drop the sign, and i32::MIN has no positive counterpart.
    let length: i32 = number(text, i64::from(-i32::MAX)..=i64::from(i32::MAX))?;
    Ok(match length {
        0 => Length::Unlimited,
        1.. => Length::Seconds(length.unsigned_abs()),
        _ => Length::Amount(length.unsigned_abs()),
    })
}

/// Parses a number of buckets per decade. Bucket limits fall on whole units only with a multiple of
/// ten.
fn parse_buckets(text: &str) -> Result<u32, EarlyExit> {
    let buckets: u32 = number(text, 10..=MAX_BUCKETS)?;
    if !buckets.is_multiple_of(10) {
        return refuse("the number of buckets per decade must be a multiple of 10");
    }
    Ok(buckets)
}

/// The maximum number of buckets per decade, more than the histogram's resolution.
const MAX_BUCKETS: i64 = 1000;

/// Parses the operations per interval. Common values such as `10G` overflow stock's 32 bits.
fn parse_pace_burst(text: &str) -> Result<u64, EarlyExit> {
    number(text, 0..=i64::MAX)
}

/// Parses an interval. Returns microseconds. Suffixes: `s`, `m` (milliseconds, the default), `u`.
fn parse_interval_us(text: &str) -> Result<u32, EarlyExit> {
    let (digits, factor) = match text.chars().last() {
        Some('s') => (&text[..text.len() - 1], 1_000_000),
        Some('m') => (&text[..text.len() - 1], 1_000),
        Some('u') => (&text[..text.len() - 1], 1),
        _ => (text, 1_000),
    };
    match digits
        .parse::<u32>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
    {
        Some(microseconds) if i32::try_from(microseconds).is_ok() => Ok(microseconds),
        _ => refuse(format!("'{text}' is not an interval")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_parsed_or_refused() {
        for (text, expected) in [
            ("10", Some(Length::Seconds(10))),
            ("10s", Some(Length::Seconds(10))),
            ("1m0s", Some(Length::Seconds(60))),
            ("1h0m0s", Some(Length::Seconds(3600))),
            ("10m", Some(Length::Seconds(600))),
            ("1000ms", Some(Length::Seconds(1))),
            ("2k", Some(Length::Seconds(2000))),
            ("0", Some(Length::Unlimited)),
            ("-5", Some(Length::Amount(5))),
            ("-1G", Some(Length::Amount(1 << 30))),
            ("1.5s", None),
            ("500ms", None),
            ("0.5", None),
            ("999999h", None),
            ("3g", None),
            ("-3g", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(parse_length(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn interim_intervals_are_parsed_or_refused() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("1", Some(ms(1_000))),
            ("0.2", Some(ms(200))),
            ("-0.20", Some(ms(200))),
            ("1.35,100", Some(ms(1_350))),
            ("2,1M", Some(ms(2_000))),
            (",100", Some(ms(1_000))),
            ("", Some(ms(1_000))),
            ("0.001", Some(ms(1))),
            ("1e19", Some(MAX_INTERIM)),
            ("0", None),
            ("-0", None),
            ("0.0001", None),
            ("x", None),
            ("1,x", None),
            ("1,-5", None),
            ("nan", None),
            ("inf", None),
            ("1e30", None),
        ] {
            let mut global = GlobalOptions::default();
            let parsed = set_interim(&mut global, text);
            let parsed = parsed.ok().and(global.settings.print.interim);
            assert_eq!(parsed, expected, "{text:?}");
        }
    }

    #[test]
    fn pacing_intervals_are_parsed_or_refused() {
        for (text, expected) in [
            ("6", Some(6_000)),
            ("6m", Some(6_000)),
            ("7u", Some(7)),
            ("1s", Some(1_000_000)),
            ("9999s", None),
            ("s", None),
            ("é", None),
            ("-1", None),
        ] {
            assert_eq!(parse_interval_us(text).ok(), expected, "{text}");
        }
    }

    #[rustfmt::skip]
    #[test]
    fn pacing_and_touching_are_set_per_end() {
        for (line, burst, interval_us, touch) in [
            ("-b 6", (6, 0), (0, 0), [None; 4]),
            ("-b ,6 -w ,7u", (0, 6), (0, 7), [None; 4]),
            ("-w 5,6 -b 5,6", (5, 6), (5_000, 6_000), [None; 4]),
            ("-b 10G", (10 << 30, 0), (0, 0), [None; 4]),
            ("-k 1,2 -K ,3", (0, 0), (0, 0), [Some(1), Some(2), None, Some(3)]),
            ("-k 4", (0, 0), (0, 0), [Some(4), Some(4), None, None]),
        ] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let mut global = GlobalOptions::default();
            getopt::scan("p", &SECTION, &words, &mut global).unwrap();
            let touched = [&global.local, &global.remote].map(|EndpointPlan { touch, .. }| {
                assert_eq!(touch.receive_dirty_bytes, touch.send_dirty_bytes);
                [touch.send_dirty_bytes, touch.receive_clean_bytes]
            });
            assert_eq!(<(_, _)>::from(global.pace_burst), burst, "{line}");
            assert_eq!(<(_, _)>::from(global.pace_interval_us), interval_us, "{line}");
            assert_eq!(touched.concat(), touch, "{line}");
        }
    }

    #[test]
    fn spin_applies_to_both_ends_or_the_given_one() {
        const TEN: Length = Length::Seconds(10);
        let scan = |line: &str| {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let mut global = GlobalOptions::default();
            getopt::scan("p", &SECTION, &words, &mut global)
                .map(|_| (global.spin[0], global.spin[1], global.length))
        };
        for (line, expected) in [
            ("-v 1", (false, false, TEN)),
            ("--spin", (true, true, TEN)),
            ("--spin=local", (true, false, TEN)),
            ("--spin=remote", (false, true, TEN)),
            ("--spin=remote --spin=local", (true, true, TEN)),
            // The value needs a `=`: the next word is not the value.
            ("--spin -l 7", (true, true, Length::Seconds(7))),
            ("--spin local", (true, true, TEN)),
        ] {
            assert_eq!(scan(line).unwrap(), expected, "{line}");
        }
        assert!(scan("--spin=here").is_err());
    }
}
