//! The options, and what was typed.

#![expect(
    clippy::unnecessary_wraps,
    reason = "what an option does may fail, and one that does not still goes into the table"
)]

use std::path::PathBuf;
use std::time::Duration;

use getopt::Argument::{Nothing, Value};
use getopt::Name::Letter;
use getopt::{Exit, Quit, Section, flag, long, own, refuse};
use model::with_defaults;
use server::{Network, Policy};

use super::Counter;
use super::settings::{Limits, Master, Print, Tls};
use super::value::{integer, number, seconds, time};
use crate::Protocol;

with_defaults! {
    /// The options as typed.
    pub(super) struct Typed {
        /// `-m`: the last one.
        pub(super) profile: Option<PathBuf> = None,
        /// `-s`.
        pub(super) slave: bool = false,
        /// `--check`.
        pub(super) check: Option<PathBuf> = None,
        /// `-S`.
        pub(super) control: Protocol = Protocol::Tcp,
        /// `-P`.
        pub(super) port: u32 = 20_000,
        /// `-v`.
        pub(super) verbose: bool = false,
        /// `--tls-*`.
        pub(super) tls: Tls = Tls::default(),
        /// `--strict-peers`, `--allow-third-party`.
        pub(super) policy: Policy = Policy::default(),
        /// What a master is asked for, but for the profile.
        pub(super) master: Master = Master::default(),
        /// What a slave is held to.
        pub(super) limits: Limits = Limits::default(),
        /// Options that are for whoever runs something, as they were typed.
        pub(super) of_both: Vec<&'static str> = Vec::new(),
        /// Options that are for a master alone.
        pub(super) of_master: Vec<&'static str> = Vec::new(),
        /// Options that are for a slave alone.
        pub(super) of_slave: Vec<&'static str> = Vec::new(),
    }
}

/// A progress line more often is no measurement of the network any more.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// In the order of the stock tool's usage text, our own after it.
#[rustfmt::skip]
pub(super) static SECTION: Section<Typed> = Section {
    title: "OPTIONS",
    heading: "",
    scope: "",
    flags: &[
    flag('m', Value("profile"), &["-m <profile>\t Run uperf with this profile"],
        "Be the master, and run this profile. Of several the last one counts.",
        |t, v| { t.profile = Some(v.into()); Ok(()) }),
    flag('s', Nothing, &["-s\t\t Slave"],
        "Be a slave: take part in the profiles of whatever master connects, until a signal.",
        |t, _| { t.slave = true; Ok(()) }),
    flag('S', Value("protocol"), &["-S <protocol>\t Protocol type for the control Socket [def: tcp]"],
        "What the control connection goes over, the same at both ends: tcp, sctp or vsock. Default tcp.", control),
    flag('n', Nothing, &["-n\t\t No statistics"],
        "No statistics: no progress, no report, and no exchange of totals at the end. It forgets -R and the sections that were asked for before it; those that come after it are printed.",
        no_statistics),
    flag('T', Nothing, &["-T\t\t Print Thread statistics"],
        "A line for each strand.", |t, _| { t.master("-T").print.strands = true; Ok(()) }),
    flag('t', Nothing, &["-t\t\t Print Transaction averages"],
        "For each transaction how often it was executed, and how long that took: mean, CPU time, longest and shortest.",
        |t, _| { t.master("-t").print.transactions = true; Ok(()) }),
    flag('f', Nothing, &["-f\t\t Print Flowop averages"],
        "The same for each flowop.", |t, _| { t.master("-f").print.flowops = true; Ok(()) }),
    flag('g', Nothing, &["-g\t\t Print Group statistics"],
        "A line for each group.", |t, _| { t.master("-g").print.groups = true; Ok(()) }),
    flag('k', Nothing, &["-k\t\t Collect kstat statistics"],
        "What the network interfaces carried meanwhile. It is printed anyway; after -n it is asked for by this.",
        |t, _| { t.master("-k").print.interfaces = true; Ok(()) }),
    flag('p', Nothing, &["-p\t\t Collect CPU utilization for flowops [-f assumed]"],
        "Measure the CPU time of each flowop, which costs a system call before and after it. Prints what -f does.",
        flowop_cpu),
    flag('e', Nothing, &["-e\t\t Collect default CPU counters for flowops [-f assumed]"],
        "Count cycles, instructions, task-clock and context-switches of each flowop. Prints what -f does, too.",
        default_counters),
    flag('E', Value("counter,..."), &["-E <ev1,ev2>\t Collect CPU counters for flowops [-f assumed]"],
        "Count these, by the names that perf(1) has for them, in the strands of the master. They are read by a system call after each flowop, a part of which is in each count. What the machine has not or does not allow is said, and is no number.",
        counters),
    flag('a', Nothing, &["-a\t\t Collect all statistics"],
        "All sections: -f, -t, -g and -T. After -n also -k and Run Statistics.", all),
    flag('X', Value("file"), &["-X <file>\t Collect response times"],
        "Write the time of each pass of each flowop to a file: process, thread, 0, the end (nanoseconds since 1970), and the time (nanoseconds).",
        |t, v| { t.master("-X").response_times = Some(v.into()); Ok(()) }),
    flag('i', Value("interval"), &["-i <interval>\t Collect throughput every <interval>"],
        "From one progress line to the next: seconds, or a number with the suffix ms, us or ns; as in profiles a lone m is a millisecond. Default 1.",
        interval),
    flag('P', Value("port"), &["-P <port>\t Set the master port (defaults to 20000)"],
        "The control port. Default 20000. 20k is 20480. A slave takes any free port with 0, and says which. VSOCK has ports up to 4294967294.",
        port),
    flag('R', Nothing, &["-R\t\t Emit raw (not transformed), time-stamped (ms) statistics"],
        "Lines for programs, with time stamps in milliseconds, in the place of progress, totals, groups and strands.",
        |t, _| { t.master("-R").print.raw = true; Ok(()) }),
    flag('v', Nothing, &["-v\t\t Verbose"],
        "Say what is being done.", |t, _| { t.both("-v").verbose = true; Ok(()) }),
    flag('V', Nothing, &["-V\t\t Version"], "Print the version and exit.", |_, _| Err(Quit::Version)),
    flag('h', Nothing, &["-h\t\t Print usage"], "Print the usage text and exit.", |_, _| Err(Quit::Help)),
    flag('x', Nothing, &[],
        "Refused. It asked for output for Fenxi, which uperf has not made for long; --html makes a page with plots.",
        |_, _| refuse("there is no output for Fenxi; --html FILE writes a page with plots")),
    // Of a fork that k8s-netperf has.
    own(Letter('H'), Value("stdout"), "Keep latencies, and print their mean, median and 99th percentile", "",
        "Keep the time of each execution of the transactions with a duration, and print their mean, median and 99th percentile, in microseconds, as a fork of uperf does.",
        latencies),
    long("check", Value("profile"), "Say what this profile would run, and what is odd about it", "",
        "Say what this profile would run: groups, strands, transactions, flowops, hosts and memory; and what is odd about it, with line and column. Nothing is run.",
        |t, v| { t.check = Some(v.into()); Ok(()) }),
    long("html", Value("file"), "Write the result as a page with plots", "",
        "Write the result as one page, with plots, that needs nothing from the network. For it the times of transactions and flowops are kept, as by -t, -f and -H: a clock is read after each flowop. The file is there whole or as it was before.",
        |t, v| { t.master("--html").html = Some(v.into()); Ok(()) }),
    long("json", Nothing, "Print the result as a JSON document, and nothing else", "",
        "Print the result as a JSON document in the place of all text: that of linerate run, with a member profile for groups, strands and flowops. It has the times that -t, -f, -p, -e and -H ask for; what went wrong, and -v, go to stderr. A run that does not begin has no document.",
        |t, _| { t.master("--json").json = true; Ok(()) }),
    long("tls-cert", Value("file"), "PEM with the certificate of SSL connections", "",
        "PEM with the certificate of this end's SSL connections. Without it server.pem (master) or client.pem (slave) is looked for in the working directory and its parent, as stock does, and then a certificate is made, which -v says. An end that connects shows its certificate, but none that was made, to an end with --tls-verify.",
        |t, v| { t.both("--tls-cert").tls.certificate = Some(v.into()); Ok(()) }),
    long("tls-key", Value("file"), "PEM with its key (the certificate's file)", "",
        "PEM with its key; without this it is in the certificate's file.",
        |t, v| { t.both("--tls-key").tls.key = Some(v.into()); Ok(()) }),
    long("tls-pass-file", Value("file"), "File with the key's pass phrase (password)", "",
        "A file whose first line is the pass phrase of an encrypted key. Without it the pass phrase is that of stock's files, password.",
        |t, v| { t.tls.pass_phrase = Some(v.into()); Ok(()) }),
    long("tls-verify", Value("file"), "PEM with authorities; verify the other end's certificate, whichever end accepts", "",
        "PEM with authorities: the other end's certificate must be signed by one of them. That of an end that accepts connections must also be for the name or address that the profile has; of an end that connects no name is known. Without this option any certificate is taken, as by stock. A stock uperf verifies nothing, but shows its certificate at either end, so that it is verified as a linerate is.",
        |t, v| { t.tls.authorities = Some(v.into()); Ok(()) }),
    long("strict-peers", Nothing, "Accept data connections from the control peer's address only", "",
        "Accept no data connection from another address than the control connection's. Without it the first one of a strand may come from elsewhere, as from a host with several addresses, if none has come from the control connection's address for two seconds; a warning names the address.",
        |t, _| { t.both("--strict-peers").policy.strict = true; Ok(()) }),
    long("allow-third-party", Nothing, "Send UDP datagrams to any address that sends a handshake", "",
        "Answer a UDP handshake whatever address it comes from. Without it a slave answers its master's address only: anybody can send a handshake in the name of a host that then gets the test's datagrams. A master answers another address than its slave's after two seconds, with a warning.",
        |t, _| { t.both("--allow-third-party").policy.third_party = true; Ok(()) }),
    long("allow-dir", Value("dir"), "Let masters have files below <dir> sent (repeatable)", "",
        "Let masters have files below this directory sent to them; no link is followed there. No master asks for it that reads a profile, in which a slave receives what sendfile sends. Repeatable; by default there is none.",
        |t, v| { t.slave("--allow-dir").directories.push(v.into()); Ok(()) }),
    long("allow-peers", Value("cidr"), "Serve masters from this network alone (repeatable)", "",
        "Serve masters from this network, and no others: 10.0.0.0/8, fd00::/8, or one address. Repeatable; by default masters come from everywhere. With it nobody is served over VSOCK.",
        |t, v| { t.slave("--allow-peers").server.networks.push(Network::parse(v).or_else(refuse)?); Ok(()) }),
    long("allow-modules", Nothing, "Let workorders load kernel modules (protocols, cc=)", "",
        "Let workorders load kernel modules for protocols and congestion control. Without it, the slave refuses those that are not loaded.",
        |t, _| { t.slave("--allow-modules").permissions.modules = true; Ok(()) }),
    long("allow-privileged-ports", Nothing, "Let workorders listen on ports that need a privilege", "",
        "Let workorders listen on ports below 1024, or below the sysctl net.ipv4.ip_unprivileged_port_start.",
        |t, _| { t.slave("--allow-privileged-ports").permissions.privileged_ports = true; Ok(()) }),
    long("user", Value("name"), "Change to this user once the port is open (needs root)", "",
        "Change to this user, with its groups and without privileges, once the control port and the directories of --allow-dir are open. --allow-privileged-ports is refused with it. This needs root.",
        |t, v| { t.slave("--user").user = Some(v.to_owned()); Ok(()) }),
    long("max-masters", Value("n"), "Serve so many control connections at a time", "1024",
        "Control connections at a time. Default {default}.",
        |t, v| { t.slave("--max-masters").server.clients = number(v, 1..=1 << 20)?; Ok(()) }),
    long("max-connections", Value("n"), "Open so many connections, listeners and files for one master", "32768",
        "Connections, listeners and files that one master has at a time. Default {default}. All masters together have as many as the process has descriptors (RLIMIT_NOFILE).",
        |t, v| { t.slave("--max-connections").connections = number(v, 1..=1 << 20)?; Ok(()) }),
    long("max-strands", Value("n"), "Run so many strands, all masters' together", "10000",
        "Strands of all masters together. Default {default}. Of strands, memory, descriptors and control connections masters of one address get 15/16 at most, so that others are served as well.",
        |t, v| { t.slave("--max-strands").work.strands = number(v, 1..=1 << 20)?; Ok(()) }),
    long("max-memory", Value("bytes"), "Take so much memory for all masters", "1g",
        "Memory that all masters have together: their workorders, as they arrive, and their strands with stacks, buffers and connections. Socket buffers are the kernel's and not in it. Default {default}.",
        |t, v| { t.slave("--max-memory").work.memory = number(v, 1 << 16..=1 << 40)?; Ok(()) }),
    long("max-length", Value("seconds"), "End a run after so long", "604800, seven days",
        "The longest run, from the end of its handshake to its statistics; one whose transactions have longer durations is refused. Default {default}.",
        |t, v| { t.slave("--max-length").work.duration = seconds(v)?; Ok(()) }),
    long("control-idle", Value("seconds"), "Wait so long for a master's next word before its run", "120",
        "How long to wait for a master's next word before its run begins. Default {default}.",
        |t, v| { t.slave("--control-idle").control_idle = seconds(v)?; Ok(()) }),
    long("drain-on-exit", Value("seconds"), "Let runs go on for so long after a signal", "0",
        "How long runs may go on after SIGINT or SIGTERM. Masters that come then are refused. When the time is up, or at a second signal, the slave tells the masters that their runs are interrupted, and ends. Default {default}.",
        |t, v| { t.slave("--drain-on-exit").server.drain = Duration::from_secs(number(v, 0..=86_400)?); Ok(()) }),
]};

impl Typed {
    /// For an option that a master and a slave have a use for.
    fn both(&mut self, option: &'static str) -> &mut Self {
        self.of_both.push(option);
        self
    }

    /// For an option that a master alone has a use for.
    fn master(&mut self, option: &'static str) -> &mut Master {
        self.of_master.push(option);
        &mut self.master
    }

    /// For an option that a slave alone has a use for.
    fn slave(&mut self, option: &'static str) -> &mut Limits {
        self.of_slave.push(option);
        &mut self.limits
    }
}

/// Other protocols have no handshake that could begin on the bare descriptor.
fn control(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    match Protocol::named(&text.to_ascii_lowercase()) {
        Some(protocol @ (Protocol::Tcp | Protocol::Sctp | Protocol::Vsock)) => {
            typed.both("-S").control = protocol;
            Ok(())
        }
        Some(_) => refuse("the control connection goes over tcp, sctp or vsock"),
        None => exit(format!("Protocol {text} not supported")),
    }
}

pub(super) const NO_PORT: &str = "not a port from 0 to 65535";

/// It forgets the statistics, and `-R`, that were asked for before it; what comes after it counts.
fn no_statistics(typed: &mut Typed, _: &str) -> Result<(), Quit> {
    let master = typed.master("-n");
    master.print = Print::default();
    master.flowop_cpu = false;
    master.counters.clear();
    master.response_times = None;
    master.latencies = false;
    Ok(())
}

fn all(typed: &mut Typed, _: &str) -> Result<(), Quit> {
    let print = &mut typed.master("-a").print;
    print.groups = true;
    print.strands = true;
    print.transactions = true;
    print.flowops = true;
    print.interfaces = true;
    print.statistics = true;
    Ok(())
}

fn flowop_cpu(typed: &mut Typed, _: &str) -> Result<(), Quit> {
    let master = typed.master("-p");
    master.flowop_cpu = true;
    master.print.flowops = true;
    Ok(())
}

fn default_counters(typed: &mut Typed, _: &str) -> Result<(), Quit> {
    let master = typed.master("-e");
    master.counters = Counter::defaults();
    master.print.flowops = true;
    Ok(())
}

fn counters(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    let counters = Counter::named(text.split(',')).or_else(|name| {
        let known = Counter::known();
        refuse(format!("'{name}' is no counter; there are {known}"))
    })?;
    let master = typed.master("-E");
    master.counters = counters;
    master.print.flowops = true;
    Ok(())
}

fn interval(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    let Some(interval) = time(text).filter(|time| !time.is_zero()) else {
        return exit(format!("Incorrect interval: {text}"));
    };
    if interval < SHORTEST_INTERVAL {
        return exit(format!("Incorrect interval: {text} (1 ms is the shortest)"));
    }
    typed.master("-i").interval = interval;
    Ok(())
}

fn port(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    // Which of them are ports depends on what the control connection goes over.
    let port = integer(text).and_then(|port| u32::try_from(port).ok());
    let Some(port) = port.filter(|port| *port < u32::MAX) else {
        return refuse(NO_PORT);
    };
    typed.both("-P").port = port;
    Ok(())
}

fn latencies(typed: &mut Typed, text: &str) -> Result<(), Quit> {
    if text != "stdout" {
        return refuse("they go to stdout");
    }
    typed.master("-H").latencies = true;
    Ok(())
}

/// A line of the stock tool's own, which it has on stdout.
fn exit<T>(line: String) -> Result<T, Quit> {
    Err(Quit::Exit(Exit::stdout(line + "\n", 1)))
}
