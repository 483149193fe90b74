//! Option table, and the given options.

#![expect(
    clippy::unnecessary_wraps,
    reason = "all functions in the table return a result, though some cannot fail"
)]

use std::path::PathBuf;
use std::time::Duration;

use getopt::Argument::{Nothing, OptionalAttached, Value};
use getopt::OptionName::Letter;
use getopt::{EarlyExit, Exit, Section, linerate_long, linerate_option, refuse, stock_letter};
use model::with_defaults;
use server::{Network, PeerPolicy};

use super::CpuCounter;
use super::settings::{MasterSettings, PrintOptions, SlaveLimits, TlsFiles};
use super::value::{integer, number, seconds, time};
use crate::DataProtocol;

with_defaults! {
    /// Options as typed.
    pub(super) struct GivenOptions {
        /// `-m`; the last one counts.
        pub(super) profile: Option<PathBuf> = None,
        /// `-s`.
        pub(super) slave: bool = false,
        /// `--check`.
        pub(super) check: Option<PathBuf> = None,
        /// `-S`.
        pub(super) control: DataProtocol = DataProtocol::Tcp,
        /// `-P`.
        pub(super) port: u32 = 20_000,
        /// `-v`.
        pub(super) verbose: bool = false,
        /// `--tls-*`.
        pub(super) tls: TlsFiles = TlsFiles::default(),
        /// `--strict-peers`, `--allow-third-party`.
        pub(super) policy: PeerPolicy = PeerPolicy::default(),
        /// Options of a master, except the profile.
        pub(super) master: MasterSettings = MasterSettings::default(),
        /// Limits of a slave.
        pub(super) limits: SlaveLimits = SlaveLimits::default(),
        /// Options for a master and a slave, as typed.
        pub(super) common_options: Vec<&'static str> = Vec::new(),
        /// Options for a master only, as typed.
        pub(super) master_options: Vec<&'static str> = Vec::new(),
        /// Options for a slave only, as typed.
        pub(super) slave_options: Vec<&'static str> = Vec::new(),
    }
}

/// Minimum interval of progress lines; more frequent ones would disturb the measurement.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// All options, in the order of the stock tool's usage text; linerate's own follow.
#[rustfmt::skip]
pub(super) static SECTION: Section<GivenOptions> = Section {
    title: "OPTIONS",
    heading: "",
    scope: "",
    options: &[
    stock_letter('m', Value("profile"), &["-m <profile>\t Run uperf with this profile"],
        "Run this profile as the master. If given several times, the last one counts.",
        |t, v| { t.profile = Some(v.into()); Ok(()) }),
    stock_letter('s', Nothing, &["-s\t\t Slave"],
        "Run as a slave: take part in the profiles of all masters that connect, until a signal.",
        |t, _| { t.slave = true; Ok(()) }),
    stock_letter('S', Value("protocol"), &["-S <protocol>\t Protocol type for the control Socket [def: tcp]"],
        "Protocol of the control connection, the same at both ends: tcp, sctp or vsock. Default tcp.", control_protocol),
    stock_letter('n', Nothing, &["-n\t\t No statistics"],
        "No statistics: print no progress and no report, and do not exchange totals at the end. It cancels -R and sections that precede it; sections that follow it are printed.",
        no_statistics),
    stock_letter('T', Nothing, &["-T\t\t Print Thread statistics"],
        "Print a line for each strand.", |t, _| { t.for_master("-T").print.strands = true; Ok(()) }),
    stock_letter('t', Nothing, &["-t\t\t Print Transaction averages"],
        "Print the number of executions of each transaction, and their time: mean, CPU time, longest and shortest.",
        |t, _| { t.for_master("-t").print.transactions = true; Ok(()) }),
    stock_letter('f', Nothing, &["-f\t\t Print Flowop averages"],
        "Print the same as -t for each flowop.", |t, _| { t.for_master("-f").print.flowops = true; Ok(()) }),
    stock_letter('g', Nothing, &["-g\t\t Print Group statistics"],
        "Print a line for each group.", |t, _| { t.for_master("-g").print.groups = true; Ok(()) }),
    stock_letter('k', Nothing, &["-k\t\t Collect kstat statistics"],
        "Print the traffic of the network interfaces during the run. This is the default; use -k after -n to print it nevertheless.",
        |t, _| { t.for_master("-k").print.interfaces = true; Ok(()) }),
    stock_letter('p', Nothing, &["-p\t\t Collect CPU utilization for flowops [-f assumed]"],
        "Measure the CPU time of each flowop, at the cost of a system call before and after it. Implies -f.",
        flowop_cpu),
    stock_letter('e', Nothing, &["-e\t\t Collect default CPU counters for flowops [-f assumed]"],
        "Count cycles, instructions, task-clock and context-switches of each flowop. Implies -f.",
        default_counters),
    stock_letter('E', Value("counter,..."), &["-E <ev1,ev2>\t Collect CPU counters for flowops [-f assumed]"],
        "Count these events, by their perf(1) names, in the strands of the master. A system call reads them after each flowop; each count includes a part of that call. Counters that the machine lacks or forbids are reported as unavailable. Implies -f.",
        counters),
    stock_letter('a', Nothing, &["-a\t\t Collect all statistics"],
        "Print all sections: -f, -t, -g and -T. After -n also -k and Run Statistics.", all_sections),
    stock_letter('X', Value("file"), &["-X <file>\t Collect response times"],
        "Write the response time of each pass of each flowop to a file. Columns: process, thread, 0, time of the end (nanoseconds since 1970), response time (nanoseconds).",
        |t, v| { t.for_master("-X").response_times = Some(v.into()); Ok(()) }),
    stock_letter('i', Value("interval"), &["-i <interval>\t Collect throughput every <interval>"],
        "Interval of progress lines: seconds, or a number with the suffix ms, us or ns. As in profiles, a single m means milliseconds. Default 1.",
        interval),
    stock_letter('P', Value("port"), &["-P <port>\t Set the master port (defaults to 20000)"],
        "Control port. Default 20000. 20k is 20480. With 0, a slave uses any free port and prints it. VSOCK has ports up to 4294967294.",
        port),
    stock_letter('R', Nothing, &["-R\t\t Emit raw (not transformed), time-stamped (ms) statistics"],
        "Print progress, totals, groups and strands as lines for programs, with time stamps in milliseconds.",
        |t, _| { t.for_master("-R").print.raw = true; Ok(()) }),
    stock_letter('v', Nothing, &["-v\t\t Verbose"],
        "Print the steps of the protocol.", |t, _| { t.for_both("-v").verbose = true; Ok(()) }),
    stock_letter('V', Nothing, &["-V\t\t Version"], "Print the version and exit.", |_, _| Err(EarlyExit::Version)),
    stock_letter('h', Nothing, &["-h\t\t Print usage"], "Print the usage text and exit.", |_, _| Err(EarlyExit::Help)),
    stock_letter('x', Nothing, &[],
        "Refused. It requested output for Fenxi, which uperf no longer produces; --html writes a page with plots.",
        |_, _| refuse("there is no output for Fenxi; --html FILE writes a page with plots")),
    // From the fork of uperf that k8s-netperf uses.
    linerate_option(Letter('H'), Value("stdout"), "Print mean, median and 99th percentile of the latencies", "",
        "Measure each execution of transactions with a duration. Print mean, median and 99th percentile in microseconds, in the format of a fork of uperf.",
        latencies),
    linerate_long("check", Value("profile"), "Print what this profile would run, and its errors and warnings", "",
        "Print what this profile would run: groups, strands, transactions, flowops, hosts and memory. Print errors and warnings with line and column. Nothing is run.",
        |t, v| { t.check = Some(v.into()); Ok(()) }),
    linerate_long("html", Value("file"), "Write the result as a page with plots", "",
        "Write the result as a self-contained HTML page with plots. This measures the times of transactions and flowops, as -t, -f and -H do: it reads a clock after each flowop. The file is replaced only when the page is complete.",
        |t, v| { t.for_master("--html").html = Some(v.into()); Ok(()) }),
    linerate_long("json", Nothing, "Print the result as a JSON document only", "",
        "Print the result as a JSON document instead of text. It is the document of linerate run, with an additional member profile for groups, strands and flowops. It contains the times that -t, -f, -p, -e and -H request. Errors and -v lines go to stderr. A run that does not start has no document.",
        |t, _| { t.for_master("--json").json = true; Ok(()) }),
    linerate_long("tls-cert", Value("file"), "PEM file with the certificate for SSL connections", "",
        "PEM file with the certificate of this end's SSL connections. Without it, server.pem (master) or client.pem (slave) is used from the working directory or its parent, as by stock. If there is none, a certificate is generated; -v reports this. An end that connects sends its certificate to an end with --tls-verify, but not a generated one.",
        |t, v| { t.for_both("--tls-cert").tls.certificate = Some(v.into()); Ok(()) }),
    linerate_long("tls-key", Value("file"), "PEM file with its key (the certificate's file)", "",
        "PEM file with the key of the certificate. Without it, the certificate's file must contain the key.",
        |t, v| { t.for_both("--tls-key").tls.key = Some(v.into()); Ok(()) }),
    linerate_long("tls-pass-file", Value("file"), "File with the pass phrase of the key (password)", "",
        "File whose first line is the pass phrase of an encrypted key. Without it, the pass phrase is that of stock's files, password.",
        |t, v| { t.tls.pass_phrase = Some(v.into()); Ok(()) }),
    linerate_long("tls-verify", Value("file"), "PEM file with authorities; verify the peer's certificate", "",
        "PEM file with authorities, one of which must have signed the peer's certificate. The certificate of an accepting peer must also match the name or address in the profile; for a connecting peer no name is known. Without this option any certificate is accepted, as by stock. A stock uperf verifies no certificate, but it sends its own at both ends, so that linerate can verify it.",
        |t, v| { t.tls.authorities = Some(v.into()); Ok(()) }),
    linerate_long("strict-peers", Nothing, "Accept data connections from the control peer's address only", "",
        "Accept data connections only from the address of the control connection. Without it, the first one of a strand may come from another address, as from a host with several addresses. It is accepted if none has come from the control connection's address for 0.1 seconds; a warning names the address.",
        |t, _| { t.for_both("--strict-peers").policy.is_strict = true; Ok(()) }),
    linerate_long("allow-third-party", OptionalAttached("cidr"), "Send UDP datagrams to any address that sends a handshake", "",
        "Answer UDP handshakes from any address. With =cidr, only from addresses in this network: 10.0.0.0/8, fd00::/8, or one address; repeatable. Without it, a slave answers only the address of its master, because a handshake with a forged source address would direct the test's datagrams to another host. A master answers an address other than its slave's after 0.1 seconds, with a warning.",
        |t, v| t.for_both("--allow-third-party").policy.third_parties.allow(v).or_else(refuse)),
    linerate_long("allow-dir", Value("dir"), "Let masters request files below <dir> (repeatable)", "",
        "Let masters request files below this directory; links are not followed. A master that runs a profile never requests files, because in a profile the slave receives the files that sendfile sends. Repeatable; by default there is none.",
        |t, v| { t.for_slave("--allow-dir").directories.push(v.into()); Ok(()) }),
    linerate_long("allow-peers", Value("cidr"), "Serve only masters from this network (repeatable)", "",
        "Serve only masters from this network: 10.0.0.0/8, fd00::/8, or one address. Repeatable; by default masters from all networks are served. With it, no master is served over VSOCK.",
        |t, v| { t.for_slave("--allow-peers").server.networks.push(Network::parse(v).or_else(refuse)?); Ok(()) }),
    linerate_long("allow-modules", Nothing, "Let workorders load kernel modules (protocols, cc=)", "",
        "Let workorders load kernel modules for protocols and congestion control. Without it, the slave refuses modules that are not loaded.",
        |t, _| { t.for_slave("--allow-modules").permissions.allows_modules = true; Ok(()) }),
    linerate_long("allow-privileged-ports", Nothing, "Let workorders listen on privileged ports", "",
        "Let workorders listen on ports below 1024, or below the sysctl net.ipv4.ip_unprivileged_port_start.",
        |t, _| { t.for_slave("--allow-privileged-ports").permissions.allows_privileged_ports = true; Ok(()) }),
    linerate_long("user", Value("name"), "Change to this user after opening the port (needs root)", "",
        "Change to this user, with its groups and without privileges, after opening the control port and the directories of --allow-dir. It cannot be combined with --allow-privileged-ports. This needs root.",
        |t, v| { t.for_slave("--user").user = Some(v.to_owned()); Ok(()) }),
    linerate_long("max-masters", Value("n"), "Serve at most <n> control connections at a time", "1024",
        "Maximum number of control connections at a time. Default {default}.",
        |t, v| { t.for_slave("--max-masters").server.max_clients = number(v, 1..=1 << 20)?; Ok(()) }),
    linerate_long("max-connections", Value("n"), "Open at most <n> connections, listeners and files per master", "32768",
        "Maximum number of connections, listeners and files per master at a time. Default {default}. All masters together are limited by the descriptors of the process (RLIMIT_NOFILE).",
        |t, v| { t.for_slave("--max-connections").connections = number(v, 1..=1 << 20)?; Ok(()) }),
    linerate_long("max-strands", Value("n"), "Run at most <n> strands for all masters", "10000",
        "Maximum number of strands for all masters together. Default {default}. Masters from one address get at most 15/16 of the strands, memory, descriptors and control connections; the rest is for other masters.",
        |t, v| { t.for_slave("--max-strands").work.strands = number(v, 1..=1 << 20)?; Ok(()) }),
    linerate_long("max-memory", Value("bytes"), "Use at most <bytes> of memory for all masters", "1g",
        "Maximum memory for all masters together: received workorders, and strands with stacks, buffers and connections. Socket buffers belong to the kernel and are not included. Default {default}.",
        |t, v| { t.for_slave("--max-memory").work.memory = number(v, 1 << 16..=1 << 40)?; Ok(()) }),
    linerate_long("max-length", Value("seconds"), "End a run after <seconds>", "604800, seven days",
        "Maximum duration of a run, from the end of its handshake to its statistics. The slave refuses a run whose transactions last longer. Default {default}.",
        |t, v| { t.for_slave("--max-length").work.duration = seconds(v)?; Ok(()) }),
    linerate_long("control-idle", Value("seconds"), "Wait <seconds> for a master's next message before its run", "120",
        "Time to wait for a master's next message before its run starts. Default {default}.",
        |t, v| { t.for_slave("--control-idle").control_idle = seconds(v)?; Ok(()) }),
    linerate_long("drain-on-exit", Value("seconds"), "Let runs continue for <seconds> after a signal", "0",
        "Time for which runs may continue after SIGINT or SIGTERM. New masters are refused. After that time, or at a second signal, the slave reports to the masters that their runs are interrupted, and exits. Default {default}.",
        |t, v| { t.for_slave("--drain-on-exit").server.drain_time = Duration::from_secs(number(v, 0..=86_400)?); Ok(()) }),
]};

impl GivenOptions {
    /// Records an option for a master and a slave.
    fn for_both(&mut self, option: &'static str) -> &mut Self {
        self.common_options.push(option);
        self
    }

    /// Records an option for a master only.
    fn for_master(&mut self, option: &'static str) -> &mut MasterSettings {
        self.master_options.push(option);
        &mut self.master
    }

    /// Records an option for a slave only.
    fn for_slave(&mut self, option: &'static str) -> &mut SlaveLimits {
        self.slave_options.push(option);
        &mut self.limits
    }
}

/// Sets `-S`. Other protocols cannot carry the handshake on a plain descriptor.
fn control_protocol(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    match DataProtocol::from_name(&text.to_ascii_lowercase()) {
        Some(protocol @ (DataProtocol::Tcp | DataProtocol::Sctp | DataProtocol::Vsock)) => {
            given.for_both("-S").control = protocol;
            Ok(())
        }
        Some(_) => refuse("the control connection goes over tcp, sctp or vsock"),
        None => exit_with_line(format!("Protocol {text} not supported")),
    }
}

pub(super) const INVALID_PORT: &str = "not a port from 0 to 65535";

/// Sets `-n`: cancels statistics and `-R` that precede it; options that follow it count.
fn no_statistics(given: &mut GivenOptions, _: &str) -> Result<(), EarlyExit> {
    let master = given.for_master("-n");
    master.print = PrintOptions::default();
    master.flowop_cpu = false;
    master.counters.clear();
    master.response_times = None;
    master.latencies = false;
    Ok(())
}

fn all_sections(given: &mut GivenOptions, _: &str) -> Result<(), EarlyExit> {
    let print = &mut given.for_master("-a").print;
    print.groups = true;
    print.strands = true;
    print.transactions = true;
    print.flowops = true;
    print.interfaces = true;
    print.statistics = true;
    Ok(())
}

fn flowop_cpu(given: &mut GivenOptions, _: &str) -> Result<(), EarlyExit> {
    let master = given.for_master("-p");
    master.flowop_cpu = true;
    master.print.flowops = true;
    Ok(())
}

fn default_counters(given: &mut GivenOptions, _: &str) -> Result<(), EarlyExit> {
    let master = given.for_master("-e");
    master.counters = CpuCounter::defaults();
    master.print.flowops = true;
    Ok(())
}

fn counters(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let counters = CpuCounter::from_names(text.split(',')).or_else(|name| {
        let known = CpuCounter::known_names();
        refuse(format!("unknown counter '{name}'; available: {known}"))
    })?;
    let master = given.for_master("-E");
    master.counters = counters;
    master.print.flowops = true;
    Ok(())
}

fn interval(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    let Some(interval) = time(text).filter(|time| !time.is_zero()) else {
        return exit_with_line(format!("Incorrect interval: {text}"));
    };
    if interval < MIN_INTERVAL {
        return exit_with_line(format!("Incorrect interval: {text} (1 ms is the shortest)"));
    }
    given.for_master("-i").interval = interval;
    Ok(())
}

fn port(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    // The valid range depends on the control connection's protocol and is checked later.
    let port = integer(text).and_then(|port| u32::try_from(port).ok());
    let Some(port) = port.filter(|port| *port < u32::MAX) else {
        return refuse(INVALID_PORT);
    };
    given.for_both("-P").port = port;
    Ok(())
}

fn latencies(given: &mut GivenOptions, text: &str) -> Result<(), EarlyExit> {
    if text != "stdout" {
        return refuse("latencies can only go to stdout");
    }
    given.for_master("-H").latencies = true;
    Ok(())
}

/// Exits with a line of the stock tool, which it prints on stdout.
fn exit_with_line<T>(line: String) -> Result<T, EarlyExit> {
    Err(EarlyExit::Exit(Exit::stdout(line + "\n", 1)))
}
