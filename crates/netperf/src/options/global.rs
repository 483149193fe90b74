//! The options before `--`: what they are, and what was typed.

use std::time::Duration;

use getopt::Argument::{MaybeAttached, MaybeRate, Nothing, Value};
use getopt::{Exit, Quit, Section, flag, long, refuse};
use model::{Half, IoMethod, Touch, with_defaults};

use super::repeat::RepeatWords;
use super::value::{
    alignment, count, count_or_default, family, number, passphrase, port, seconds, set, set_first,
    type_of_service, width, word,
};
use super::{Family, Settings, Unit};

with_defaults! {
    /// The options before `--`, as typed.
    #[derive(Clone)]
    pub(super) struct Global {
        /// What one option says alone, but for the halves of the flow. A host without a name is the default.
        pub(super) settings: Settings = Settings::default(),
        /// What the options that concern one end say of this one.
        pub(super) here: Half = Half::default(),
        /// The same of the peer.
        pub(super) there: Half = Half::default(),
        /// `--cpu-method looper`.
        pub(super) by_looper: bool = false,
        /// `-f`.
        pub(super) unit: Option<Unit> = None,
        /// `-i`, `-I`, `-r`.
        pub(super) repeat: RepeatWords = RepeatWords::default(),
        /// `-l`.
        pub(super) length: Length = Length::Seconds(10),
        /// `-t`, in upper case.
        pub(super) test: String = "TCP_STREAM".to_owned(),
        /// `-b`: local, remote; 0 is no pacing.
        pub(super) pace_burst: [u64; 2] = [0; 2],
        /// `-w`, in microseconds: local, remote; 0 is the default.
        pub(super) pace_interval_us: [u32; 2] = [0; 2],
        /// `--spin`: local, remote.
        pub(super) spin: [bool; 2] = [false; 2],
        /// `--bidirectional`.
        pub(super) bidirectional: bool = false,
        /// `--histogram-buckets`.
        pub(super) histogram_buckets: Option<u32> = None,
    }
}

/// `-l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Seconds(u32),
    /// Bytes or transactions, by the test.
    Amount(u32),
    Unlimited,
}

/// In the order of the stock tool's usage text.
#[rustfmt::skip]
pub(super) static SECTION: Section<Global> = Section {
    title: "GLOBAL OPTIONS",
    heading: "Global options:",
    scope: "",
    flags: &[
    flag('a', Value("send[,recv]"), &["-a send,recv      Set the local send,recv buffer alignment"],
        "Alignment of the local send and receive buffers, a power of two in bytes. Default 8.",
        |g, v| set([&mut g.here.send.alignment, &mut g.here.receive.alignment], v, alignment)),
    flag('A', Value("send[,recv]"), &["-A send,recv      Set the remote send,recv buffer alignment"],
        "Alignment of the remote send and receive buffers. Default 8.",
        |g, v| set([&mut g.there.send.alignment, &mut g.there.receive.alignment], v, alignment)),
    flag('B', Value("text"), &["-B brandstr       Specify a string to be emitted with brief output"],
        "A brand, which the selector RESULT_BRAND prints, and with -P 0 the tables that have room for it.",
        |g, v| { g.settings.print.brand = Some(v.to_owned()); Ok(()) }),
    flag('c', MaybeRate("rate"), &["-c [cpu_rate]     Report local CPU usage"],
        "Report the local host's CPU utilisation and service demand. The next word is a calibration value if it starts with a digit.",
        |g, v| measure(&mut g.here.measure_cpu, &mut g.settings.cpu_rate.local, v)),
    flag('C', MaybeRate("rate"), &["-C [cpu_rate]     Report remote CPU usage"],
        "The same for the remote host.", |g, v| measure(&mut g.there.measure_cpu, &mut g.settings.cpu_rate.remote, v)),
    flag('d', Nothing, &["-d                Increase debugging output"],
        "Print the plan of the test on standard error.", |g, _| { g.settings.debug = g.settings.debug.saturating_add(1); Ok(()) }),
    flag('D', Value("seconds[,units]"), &[
        "-D time,[units] * Display interim results at least every time interval",
        "                  using units as the initial guess for units per second",
        "                  A negative value for time will make heavy use of the",
        "                  system's timestamping functionality",
    ], "Interim results, one an interval of so many seconds (a fraction will do). A negative value is for tools that ask for a clock read a pass; here both are exact and cost the test nothing. The units, stock's first guess of the work in an interval, are not needed.",
        interim),
    flag('f', Value("unit"), &["-f G|M|K|g|m|k    Set the output units"],
        "Unit of throughput: g m k for 10^9, 10^6, 10^3 bits a second, G M K for 2^30, 2^20, 2^10 bytes a second, B and b for bytes, x for transactions, u for microseconds a byte. Default m, or x in request/response tests.",
        unit),
    flag('F', Value("local[,remote]"), &["-F lfill[,rfill]* Pre-fill buffers with data from specified file"],
        "Files whose contents fill the buffers; TCP_SENDFILE sends the local one. A linerate netserver reads the remote one only below a directory of --allow-fill-dir.",
        fill),
    flag('h', Nothing, &["-h                Display this text"],
        "Print the usage text and exit with 1.", |_, _| Err(Quit::Help)),
    flag('H', Value("name[,family]"), &["-H name|ip,fam *  Specify the target machine and/or local ip and family"],
        "The netserver's host. The data connection goes there too unless the test option -H says otherwise. Default localhost.",
        |g, v| { host(&mut g.settings, v); Ok(()) }),
    flag('i', Value("max[,min]"), &["-i max,min        Specify the max and min number of iterations (15,1)"],
        "At most and at least so many iterations of the test, 3 to 30, until the confidence interval of -I is reached.",
        |g, v| g.repeat.iterations(v)),
    flag('I', Value("level[,width]"), &[
        "-I lvl[,intvl]    Specify confidence level (95 or 99) (99) ",
        "                  and confidence interval in percentage (10)",
    ], "Confidence level, 95 or 99, and the width of the interval in per cent of the mean (the full width, 5 by default). A lone value sets both, as in the stock tool: write -I 99,5.",
        |g, v| g.repeat.confidence(v)),
    flag('j', Nothing, &["-j                Keep additional timing statistics"],
        "Keep statistics of times: of whole transactions, or of single calls in one-way tests.",
        |g, _| { g.settings.print.latency = true; Ok(()) }),
    flag('l', Value("length"), &["-l testlen        Specify test duration (>0 secs) (<0 bytes|trans)"],
        "Length of the test: seconds, or a negative number of bytes or transactions; 0 runs until an interrupt. A duration of whole seconds, such as 1m30s, is one. Default 10.",
        |g, v| { g.length = length(v)?; Ok(()) }),
    flag('L', Value("name[,family]"), &["-L name|ip,fam *  Specify the local ip|name and address family"],
        "Local address of the control connection, and of the data connection unless the test option -L says otherwise.",
        |g, v| { local_host(&mut g.settings, v); Ok(()) }),
    flag('o', Value("send[,recv]"), &["-o send,recv      Set the local send,recv buffer offsets"],
        "Offset of the local buffers from their alignment, in bytes. Default 0.",
        |g, v| set([&mut g.here.send.offset, &mut g.here.receive.offset], v, count)),
    flag('O', Value("send[,recv]"), &["-O send,recv      Set the remote send,recv buffer offset"],
        "Offset of the remote buffers. Default 0.",
        |g, v| set([&mut g.there.send.offset, &mut g.there.receive.offset], v, count)),
    // Linux tells how many there are, so that the stock tool has no use for the number either.
    flag('n', Value("cpus"), &["-n numcpu         Set the number of processors for CPU util"],
        "Number of CPUs. Linux tells it, so that the value is accepted and not used, as in the stock tool.",
        |_, v| count(v).map(drop)),
    flag('N', Nothing, &["-N                Establish no control connection, do 'send' side only"],
        "No control connection: the test runs against whatever listens, by default the services discard, chargen or echo by the test's direction. What only a netserver could tell is unknown.",
        |g, _| { g.settings.no_control = true; Ok(()) }),
    flag('p', Value("port[,local]"), &["-p port,lport*    Specify netserver port number and/or local port"],
        "The netserver's port (12865), and the local port of the control connection.",
        |g, v| { let g = &mut g.settings.control; set_first([&mut g.port, &mut g.local_port], v, port) }),
    flag('P', Value("0|1"), &["-P 0|1            Don't/Do display test headers"],
        "0 leaves out the banner and the column headers. Default 1.", |g, v| { g.settings.print.headers = word(v)? != 0; Ok(()) }),
    flag('r', Nothing, &["-r                Allow confidence to be hit on result only"],
        "Reach the confidence interval on the result alone, whatever the CPU utilisations do.",
        |g, _| { g.repeat.throughput_only = true; Ok(()) }),
    flag('s', Value("seconds"), &["-s seconds        Wait seconds between test setup and test start"],
        "Wait between the agreement with the server and the first data. Default 0.",
        |g, v| { g.settings.wait = Duration::from_secs(count(v)?.into()); Ok(()) }),
    flag('S', Nothing, &["-S                Set SO_KEEPALIVE on the data connection"],
        "Set SO_KEEPALIVE on the data sockets of both ends.",
        |g, _| { (g.here.socket.keep_alive, g.there.socket.keep_alive) = (true, true); Ok(()) }),
    flag('t', Value("test"), &["-t testname       Specify test to perform"],
        "The test, in any case: see TESTS. Default TCP_STREAM.", |g, v| { g.test = v.to_ascii_uppercase(); Ok(()) }),
    flag('T', Value("local[,remote]"), &["-T lcpu,rcpu      Request netperf/netserver be bound to local/remote cpu"],
        "Bind the threads of this test to a CPU, at this end and at the other.",
        |g, v| set([&mut g.here.cpu, &mut g.there.cpu], v, count_or_default)),
    flag('v', Value("level"), &["-v verbosity      Specify the verbosity level"],
        "Verbosity. 0 prints the single figure, 1 the table, 2 adds a block of details and the histogram, 3 the block alone. Default 1.",
        |g, v| { g.settings.print.verbosity = word(v)?; Ok(()) }),
    // The stock text has -v twice.
    flag('W', Value("send[,recv]"), &[
        "-W send,recv      Set the number of send,recv buffers",
        "-v level          Set the verbosity level (default 1, min 0)",
    ], "Number of buffers in the send and receive rings of both ends. Without it, one more than fill the socket's buffer.",
        widths),
    flag('V', Nothing, &["-V                Display the netperf version and exit"],
        "Print the version and exit.", |_, _| Err(Quit::Version)),
    flag('y', Value("local[,remote]"), &["-y local,remote   Set the socket priority"],
        "SO_PRIORITY of the data sockets. Without it, the kernel's. One that the system refuses is reported on standard error.",
        priority),
    flag('Y', Value("local[,remote]"), &["-Y local,remote   Set the IP_TOS. Use hexadecimal."],
        "Type of service or traffic class of the data sockets: a number 0 to 255, or a name such as cs1, af42, ef, lowdelay.",
        |g, v| set([&mut g.here.socket.type_of_service, &mut g.there.socket.type_of_service], v, type_of_service)),
    flag('Z', Value("text"), &["-Z passphrase     Set and pass to netserver a passphrase"],
        "The passphrase that the server expects. @FILE reads it from the first line of a file, so that ps(1) does not show it. It crosses the network in clear text.",
        |g, v| { g.settings.control.passphrase = Some(passphrase(v)?); Ok(()) }),
    flag('4', Nothing, &[], "IPv4 only.", |g, _| { both_families(g, Family::V4); Ok(()) }),
    flag('6', Nothing, &[], "IPv6 only.", |g, _| { both_families(g, Family::V6); Ok(()) }),
    flag('b', Value("local[,remote]"), &[],
        "Sends (receives, transactions) an interval of -w: pacing, at this end and, behind the comma, at the other. Without -w an interval is a millisecond. The schedule does not move: what is late is caught up with at once, and a pace that was not held is said on standard error.",
        |g, v| set_first(g.pace_burst.each_mut(), v, passes)),
    flag('w', Value("local[,remote]"), &[],
        "Length of a pacing interval: an integer with the suffix s, m (milliseconds, also without a suffix) or u (microseconds). Default 1.",
        |g, v| set_first(g.pace_interval_us.each_mut(), v, microseconds)),
    long("spin", MaybeAttached("end"), "Wait for -b/-w intervals by reading the clock, at both ends or END (local, remote)", "",
        "Wait for the next -w interval by looking at the clock instead of sleeping: right to a fraction of a microsecond, and it takes a CPU. Of an interval above 2 milliseconds the last 2 are awaited so. At each end that has a pace (-b), or with an end, local or remote, at that one. The peer must be a linerate that allows it (netserver --allow-spin), and spins for at most half of an interval.",
        spin),
    flag('k', Value("dirty[,clean]"), &[],
        "Change the first dirty bytes of a buffer before each local send, and after each local receive of what came, and then read the next clean ones.",
        |g, v| touch(&mut g.here.touch, v)),
    flag('K', Value("dirty[,clean]"), &[],
        "The same at the remote end.", |g, v| touch(&mut g.there.touch, v)),
    long("parallel", Value("flows"), "Run this many flows at once, and report their sum", "1",
        "Run so many flows in one test, which start together, and report their sum and how they compare. CPU utilisation and service demand are those of the whole. Default {default}.",
        |g, v| { g.settings.flows = number(v, 1..=MAX_FLOWS)?; Ok(()) }),
    long("bidirectional", Nothing, "Run as many flows the other way at the same time (one-way tests)", "",
        "In one-way tests, run as many flows the other way at the same time; the throughput is the total.",
        |g, _| { g.bidirectional = true; Ok(()) }),
    long("histogram", Value("file"), "Time every transaction or call, and write the times as a histogram log", "",
        "Time every transaction, or in one-way tests every call, and write the times as a histogram log in HdrHistogram's compressed V2 encoding, in nanoseconds.",
        |g, v| { g.settings.histogram = Some(v.into()); Ok(()) }),
    long("histogram-buckets", Value("n"), "Print the histogram of -v 2 with N buckets per decade", "10",
        "With -v 2, print the histogram with n buckets per decade, a multiple of 10 up to 1000. Default {default}, the stock form. Times are recorded to within 0.8 %; each counts in one bucket, so that of narrower ones some stay empty.",
        |g, v| { g.histogram_buckets = Some(buckets(v)?); Ok(()) }),
    long("io", Value("method"), "Move one-way datagrams by plain calls, or mmsg (several per call)", "plain",
        "Move one-way datagrams (UDP, UDP-Lite) by this method. plain: one call per datagram. mmsg: sendmmsg(2) and recvmmsg(2), one call for a batch of up to 64 datagrams; a paced sender (-b) begins a batch with each interval. A linerate server uses the method, too; any other server receives as usual. Each datagram counts as one call in the figures. Not with -j, -v 2 and --histogram, which time single calls. Default {default}.",
        io_method),
    long("cpu-method", Value("method"), "Measure CPU time by procstat, or by looper (soak up idle cycles)", "",
        "Measure CPU time by procstat, the kernel's counters (default), or by looper: threads of the lowest priority count what idle cycles are left. LOC_CPU and REM_CPU calibrate that, and -c and -C take the value.",
        cpu_method),
    long("data-idle", Value("seconds"), "Fail if data stops for this long in a test that no time ends", "60",
        "How long data may stop before a test that a count ends is given up. Default {default}.",
        |g, v| { g.settings.data_idle = seconds(v)?; Ok(()) }),
    long("strict", Nothing, "Say what makes a result doubtful, and exit with 3 if anything does", "",
        "Say on standard error what makes the result doubtful, and exit with 3 if anything does.",
        |g, _| { g.settings.strict = true; Ok(()) }),
    long("json", Nothing, "Print the result as a JSON document, and nothing else", "",
        "Print one JSON document on standard output in place of the text: the one that linerate run --json prints. Options that print something else (-o, -O and -k of omni output, -D, -v, -B, -f) are refused. What the stock tool prints as an error goes to standard error.",
        |g, _| { g.settings.json = true; Ok(()) }),
    long("html", Value("file"), "Write the result as a page with plots", "",
        "Write the result as an HTML page with plots of the rate over time and of latencies (-j). The page loads nothing from a network.",
        |g, v| { g.settings.html = Some(v.into()); Ok(()) }),
]};

/// As many threads, and control connections, as anybody measures with.
const MAX_FLOWS: i64 = 512;

/// Reads `name,family`, where either may be missing, and returns the name; a lone word is the name.
pub(super) fn endpoint(
    family_in_force: &mut Family,
    notices: &mut Vec<String>,
    text: &str,
) -> Option<String> {
    let (name, word) = text.split_once(',').unwrap_or((text, ""));
    if !word.is_empty() {
        let (family, warning) = family(word);
        *family_in_force = family;
        notices.extend(warning);
    }
    (!name.is_empty()).then(|| name.to_owned())
}

fn host(
    Settings {
        control, notices, ..
    }: &mut Settings,
    text: &str,
) {
    if let Some(name) = endpoint(&mut control.family, notices, text) {
        control.host = name;
    }
}

fn local_host(
    Settings {
        control, notices, ..
    }: &mut Settings,
    text: &str,
) {
    let name = endpoint(&mut control.local_family, notices, text);
    control.local_host = name.or(control.local_host.take());
}

fn both_families(global: &mut Global, family: Family) {
    let control = &mut global.settings.control;
    (control.family, control.local_family) = (family, family);
}

fn spin(global: &mut Global, text: &str) -> Result<(), Quit> {
    match text {
        "" => global.spin = [true; 2],
        "local" => global.spin[0] = true,
        "remote" => global.spin[1] = true,
        _ => return refuse("an end is local or remote"),
    }
    Ok(())
}

fn io_method(global: &mut Global, text: &str) -> Result<(), Quit> {
    let method = match text {
        "plain" => IoMethod::Plain,
        "mmsg" => IoMethod::Mmsg,
        _ => return refuse("a method is plain or mmsg"),
    };
    (global.here.io, global.there.io) = (method, method);
    Ok(())
}

fn cpu_method(global: &mut Global, text: &str) -> Result<(), Quit> {
    global.by_looper = match text {
        "procstat" => false,
        "looper" => true,
        _ => return refuse("a method is procstat or looper"),
    };
    Ok(())
}

fn measure(on: &mut bool, rate: &mut f32, text: &str) -> Result<(), Quit> {
    if !text.is_empty() {
        *rate = match text.parse::<f32>() {
            Ok(rate) if rate.is_finite() => rate,
            _ => return refuse(format!("'{text}' is not a calibration value")),
        };
    }
    *on = true;
    Ok(())
}

/// `time,units`. A negative time is stock's way to have the clock looked at in every pass, and units
/// its guess of how many passes to let go between two looks: nothing is to be guessed where another
/// thread keeps the time.
fn interim(global: &mut Global, text: &str) -> Result<(), Quit> {
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
    if interval < SHORTEST_INTERIM {
        return refuse("interim results come at most once a millisecond");
    }
    global.settings.print.interim = Some(interval.min(LONGEST_INTERIM));
    Ok(())
}

/// What the manual promises where no time is given.
const DEFAULT_INTERIM: Duration = Duration::from_secs(1);

/// What the lines' own times can tell apart.
const SHORTEST_INTERIM: Duration = Duration::from_millis(1);

/// Never, to any test, and a time that the clock can still name.
const LONGEST_INTERIM: Duration = Duration::from_secs(u32::MAX as u64);

fn unit(global: &mut Global, text: &str) -> Result<(), Quit> {
    let Some(letter) = text.chars().next() else {
        return refuse("no unit given");
    };
    global.unit = Some(Unit(letter));
    Ok(())
}

fn fill(global: &mut Global, text: &str) -> Result<(), Quit> {
    let (here, there) = (&mut global.here.fill, &mut global.there.fill);
    set_first([here, &mut *there], text, |path| {
        Ok((!path.is_empty()).then(|| path.into()))
    })?;
    // The protocol's field is 32 bytes with the closing NUL.
    if there
        .as_ref()
        .is_some_and(|path| path.as_os_str().len() > 31)
    {
        let why = "Remote fill file name must be less than 32 characters\n";
        return Err(Quit::Exit(Exit::stderr(why, 255)));
    }
    Ok(())
}

/// Global `-W`: the same at both ends.
fn widths(global: &mut Global, text: &str) -> Result<(), Quit> {
    let (here, there) = (&mut global.here, &mut global.there);
    set([&mut here.send.width, &mut here.receive.width], text, width)?;
    (there.send.width, there.receive.width) = (here.send.width, here.receive.width);
    Ok(())
}

fn priority(global: &mut Global, text: &str) -> Result<(), Quit> {
    let (here, there) = (&mut global.here.socket, &mut global.there.socket);
    set([&mut here.priority, &mut there.priority], text, |half| {
        Ok(count_or_default(half)?.map(u32::cast_signed))
    })
}

/// `-k` or `-K`: the same for both directions, but that nothing is read before it is sent.
fn touch(touch: &mut Touch, text: &str) -> Result<(), Quit> {
    let (dirty, clean) = (&mut touch.send_dirty_bytes, &mut touch.receive_clean_bytes);
    set([dirty, clean], text, count_or_default)?;
    touch.receive_dirty_bytes = touch.send_dirty_bytes;
    Ok(())
}

/// `-l` of a test that only a time ends: the seconds, 0 for none; an error is the reason.
pub fn test_seconds(text: &str) -> Result<u32, String> {
    match length(text) {
        Ok(Length::Seconds(seconds)) => Ok(seconds),
        Ok(Length::Unlimited) => Ok(0),
        Ok(Length::Amount(_)) => Err(format!("'{text}' is no number of seconds")),
        Err(Quit::Refused(why)) => Err(why),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}

fn length(text: &str) -> Result<Length, Quit> {
    if let Some(duration) = units::go_duration(text) {
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
    // i32::MIN has no positive counterpart for the classic messages, which drop the sign.
    let length: i32 = number(text, i64::from(-i32::MAX)..=i64::from(i32::MAX))?;
    Ok(match length {
        0 => Length::Unlimited,
        1.. => Length::Seconds(length.unsigned_abs()),
        _ => Length::Amount(length.unsigned_abs()),
    })
}

/// Buckets per decade: whole units lie between buckets only with multiples of ten.
fn buckets(text: &str) -> Result<u32, Quit> {
    let buckets: u32 = number(text, 10..=MAX_BUCKETS)?;
    if !buckets.is_multiple_of(10) {
        return refuse("a decade has a multiple of 10 buckets");
    }
    Ok(buckets)
}

/// More per decade than the histogram tells apart.
const MAX_BUCKETS: i64 = 1000;

/// A count of passes. The stock tool's 32 bits would turn `10G`, which is in use, into something else.
fn passes(text: &str) -> Result<u64, Quit> {
    number(text, 0..=i64::MAX)
}

/// An interval: milliseconds, or by suffix `s`, `m` (milliseconds), `u` (microseconds).
fn microseconds(text: &str) -> Result<u32, Quit> {
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
    fn lengths() {
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
            assert_eq!(length(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn interim_intervals() {
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
            ("1e19", Some(LONGEST_INTERIM)),
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
            let mut global = Global::default();
            let parsed = interim(&mut global, text);
            let parsed = parsed.ok().and(global.settings.print.interim);
            assert_eq!(parsed, expected, "{text:?}");
        }
    }

    #[test]
    fn intervals() {
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
            assert_eq!(microseconds(text).ok(), expected, "{text}");
        }
    }

    #[rustfmt::skip]
    #[test]
    fn pacing_and_dirtying_in_halves() {
        for (line, burst, interval_us, touch) in [
            ("-b 6", (6, 0), (0, 0), [None; 4]),
            ("-b ,6 -w ,7u", (0, 6), (0, 7), [None; 4]),
            ("-w 5,6 -b 5,6", (5, 6), (5_000, 6_000), [None; 4]),
            ("-b 10G", (10 << 30, 0), (0, 0), [None; 4]),
            ("-k 1,2 -K ,3", (0, 0), (0, 0), [Some(1), Some(2), None, Some(3)]),
            ("-k 4", (0, 0), (0, 0), [Some(4), Some(4), None, None]),
        ] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let mut global = Global::default();
            getopt::scan("p", &SECTION, &words, &mut global).unwrap();
            let touched = [&global.here, &global.there].map(|half| {
                assert_eq!(half.touch.receive_dirty_bytes, half.touch.send_dirty_bytes);
                [half.touch.send_dirty_bytes, half.touch.receive_clean_bytes]
            });
            assert_eq!(<(_, _)>::from(global.pace_burst), burst, "{line}");
            assert_eq!(<(_, _)>::from(global.pace_interval_us), interval_us, "{line}");
            assert_eq!(touched.concat(), touch, "{line}");
        }
    }

    #[test]
    fn who_spins() {
        const TEN: Length = Length::Seconds(10);
        let scan = |line: &str| {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let mut global = Global::default();
            getopt::scan("p", &SECTION, &words, &mut global)
                .map(|_| (global.spin[0], global.spin[1], global.length))
        };
        for (line, expected) in [
            ("-v 1", (false, false, TEN)),
            ("--spin", (true, true, TEN)),
            ("--spin=local", (true, false, TEN)),
            ("--spin=remote", (false, true, TEN)),
            ("--spin=remote --spin=local", (true, true, TEN)),
            // What stands behind a blank is no value of it.
            ("--spin -l 7", (true, true, Length::Seconds(7))),
            ("--spin local", (true, true, TEN)),
        ] {
            assert_eq!(scan(line).unwrap(), expected, "{line}");
        }
        assert!(scan("--spin=here").is_err());
    }
}
