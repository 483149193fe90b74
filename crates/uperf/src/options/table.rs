//! The options, and what was typed.

#![expect(
    clippy::unnecessary_wraps,
    reason = "what an option does may fail, and one that does not still goes into the table"
)]

use std::path::PathBuf;
use std::time::Duration;

use getopt::Argument::{Nothing, Value};
use getopt::{Flag, Section, flag, long, refuse};
use server::Policy;

use super::settings::{Limits, Master, Print, Tls};
use super::value::{integer, number, seconds, time};
use super::{Counter, Exit, Network, Stop};
use crate::Protocol;

/// The options as typed.
pub(super) struct Typed {
    /// `-m`: the last one.
    pub(super) profile: Option<PathBuf>,
    /// `-s`.
    pub(super) slave: bool,
    /// `--check`.
    pub(super) check: Option<PathBuf>,
    /// `-S`.
    pub(super) control: Protocol,
    /// `-P`.
    pub(super) port: u32,
    /// `-v`.
    pub(super) verbose: bool,
    /// `--tls-*`.
    pub(super) tls: Tls,
    /// `--strict-peers`, `--allow-third-party`.
    pub(super) policy: Policy,
    /// What a master is asked for, but for the profile.
    pub(super) master: Master,
    /// What a slave is held to.
    pub(super) limits: Limits,
    /// Options that are for whoever runs something, as they were typed.
    pub(super) of_both: Vec<&'static str>,
    /// Options that are for a master alone.
    pub(super) of_master: Vec<&'static str>,
    /// Options that are for a slave alone.
    pub(super) of_slave: Vec<&'static str>,
}

impl Default for Typed {
    fn default() -> Self {
        Self {
            profile: None,
            slave: false,
            check: None,
            control: Protocol::Tcp,
            port: DEFAULT_PORT,
            verbose: false,
            tls: Tls::default(),
            policy: Policy::default(),
            master: Master {
                profile: PathBuf::new(),
                interval: DEFAULT_INTERVAL,
                print: Print::default(),
                flowop_cpu: false,
                counters: Vec::new(),
                response_times: None,
                latencies: false,
                html: None,
                json: false,
            },
            limits: Limits::default(),
            of_both: Vec::new(),
            of_master: Vec::new(),
            of_slave: Vec::new(),
        }
    }
}

pub(super) const DEFAULT_PORT: u32 = 20_000;
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// A progress line more often is no measurement of the network any more.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

pub(super) static SECTION: Section<Typed, Exit> = Section {
    flags: FLAGS,
    scope: "",
};

/// In the order of the stock tool's usage text, our own after it.
#[rustfmt::skip]
const FLAGS: &[Flag<Typed, Exit>] = &[
    flag('m', Value, &["-m <profile>     Run uperf with this profile"],
        |t, v| { t.profile = Some(v.into()); Ok(()) }),
    flag('s', Nothing, &["-s               Slave"], |t, _| { t.slave = true; Ok(()) }),
    flag('S', Value, &["-S <protocol>    Protocol type for the control Socket [def: tcp]"], control),
    flag('n', Nothing, &["-n               No statistics"], no_statistics),
    flag('T', Nothing, &["-T               Print Thread statistics"],
        |t, _| { t.master("-T").print.strands = true; Ok(()) }),
    flag('t', Nothing, &["-t               Print Transaction averages"],
        |t, _| { t.master("-t").print.transactions = true; Ok(()) }),
    flag('f', Nothing, &["-f               Print Flowop averages"],
        |t, _| { t.master("-f").print.flowops = true; Ok(()) }),
    flag('g', Nothing, &["-g               Print Group statistics"],
        |t, _| { t.master("-g").print.groups = true; Ok(()) }),
    flag('k', Nothing, &["-k               Collect kstat statistics"],
        |t, _| { t.master("-k").print.interfaces = true; Ok(()) }),
    flag('p', Nothing, &["-p               Collect CPU utilization for flowops [-f assumed]"], flowop_cpu),
    flag('e', Nothing, &["-e               Collect default CPU counters for flowops [-f assumed]"], default_counters),
    flag('E', Value, &["-E <ev1,ev2>     Collect CPU counters for flowops [-f assumed]"], counters),
    flag('a', Nothing, &["-a               Collect all statistics"], all),
    flag('X', Value, &["-X <file>        Collect response times"],
        |t, v| { t.master("-X").response_times = Some(v.into()); Ok(()) }),
    flag('i', Value, &["-i <interval>    Collect throughput every <interval>"], interval),
    flag('P', Value, &["-P <port>        Set the master port (defaults to 20000)"], port),
    flag('R', Nothing, &["-R               Emit raw (not transformed), time-stamped (ms) statistics"],
        |t, _| { t.master("-R").print.raw = true; Ok(()) }),
    flag('v', Nothing, &["-v               Verbose"], |t, _| { t.both("-v").verbose = true; Ok(()) }),
    flag('V', Nothing, &["-V               Version"], |_, _| Err(Stop::Version)),
    flag('h', Nothing, &["-h               Print usage"], |_, _| Err(Stop::Help)),
    flag('x', Nothing, &[], |_, _| refuse("there is no output for Fenxi; --html FILE writes a page with plots")),
    flag('H', Value, &["-H stdout               Keep latencies, and print their mean, median and 99th percentile"], latencies),
    long("check", Value, &["--check <profile>       Say what this profile would run, and what is odd about it"],
        |t, v| { t.check = Some(v.into()); Ok(()) }),
    long("html", Value, &["--html <file>           Write the result as a page with plots"],
        |t, v| { t.master("--html").html = Some(v.into()); Ok(()) }),
    long("json", Nothing, &["--json                  Print the result as a JSON document, and nothing else"],
        |t, _| { t.master("--json").json = true; Ok(()) }),
    long("tls-cert", Value, &["--tls-cert <file>       PEM with the certificate of SSL connections"],
        |t, v| { t.both("--tls-cert").tls.certificate = Some(v.into()); Ok(()) }),
    long("tls-key", Value, &["--tls-key <file>        PEM with its key (the certificate's file)"],
        |t, v| { t.both("--tls-key").tls.key = Some(v.into()); Ok(()) }),
    long("tls-pass-file", Value, &["--tls-pass-file <file>  File with the key's pass phrase (password)"],
        |t, v| { t.tls.pass_phrase = Some(v.into()); Ok(()) }),
    long("tls-verify", Value, &["--tls-verify <file>     PEM with authorities; verify the other end's certificate, whichever end accepts"],
        |t, v| { t.tls.authorities = Some(v.into()); Ok(()) }),
    long("strict-peers", Nothing, &["--strict-peers          Accept data connections from the control peer's address only"],
        |t, _| { t.both("--strict-peers").policy.strict = true; Ok(()) }),
    long("allow-third-party", Nothing, &["--allow-third-party     Send UDP datagrams to any address that sends a handshake"],
        |t, _| { t.both("--allow-third-party").policy.third_party = true; Ok(()) }),
    long("allow-dir", Value, &["--allow-dir <dir>       Let masters have files below <dir> sent (repeatable)"],
        |t, v| { t.slave("--allow-dir").directories.push(v.into()); Ok(()) }),
    long("allow-peers", Value, &["--allow-peers <cidr>    Serve masters from this network alone (repeatable)"], peers),
    long("allow-modules", Nothing, &["--allow-modules         Let workorders load kernel modules (protocols, cc=)"],
        |t, _| { t.slave("--allow-modules").permissions.modules = true; Ok(()) }),
    long("allow-privileged-ports", Nothing, &["--allow-privileged-ports Let workorders listen on ports that need a privilege"],
        |t, _| { t.slave("--allow-privileged-ports").permissions.privileged_ports = true; Ok(()) }),
    long("user", Value, &["--user <name>           Change to this user once the port is open (needs root)"],
        |t, v| { t.slave("--user").user = Some(v.to_owned()); Ok(()) }),
    long("max-masters", Value, &["--max-masters <n>       Serve so many control connections at a time (1024)"],
        |t, v| { t.slave("--max-masters").masters = number(v, 1..=1 << 20)? as usize; Ok(()) }),
    long("max-connections", Value, &["--max-connections <n>   Open so many connections, listeners and files for one master (32768)"],
        |t, v| { t.slave("--max-connections").connections = number(v, 1..=1 << 20)?; Ok(()) }),
    long("max-strands", Value, &["--max-strands <n>       Run so many strands, all masters' together (10000)"],
        |t, v| { t.slave("--max-strands").strands = number(v, 1..=1 << 20)? as u32; Ok(()) }),
    long("max-memory", Value, &["--max-memory <bytes>    Take so much memory for all masters (1g)"],
        |t, v| { t.slave("--max-memory").memory_bytes = number(v, 1 << 16..=1 << 40)?; Ok(()) }),
    long("max-length", Value, &["--max-length <seconds>  End a run after so long (604800, seven days)"],
        |t, v| { t.slave("--max-length").length = seconds(v)?; Ok(()) }),
    long("control-idle", Value, &["--control-idle <seconds> Wait so long for a master's next word before its run (120)"],
        |t, v| { t.slave("--control-idle").control_idle = seconds(v)?; Ok(()) }),
    long("drain-on-exit", Value, &["--drain-on-exit <seconds> Let runs go on for so long after a signal (0)"],
        |t, v| { t.slave("--drain-on-exit").drain = Duration::from_secs(number(v, 0..=86_400)?); Ok(()) }),
];

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
fn control(typed: &mut Typed, text: &str) -> Result<(), Stop> {
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
fn no_statistics(typed: &mut Typed, _: &str) -> Result<(), Stop> {
    let master = typed.master("-n");
    master.print = Print::NOTHING;
    master.flowop_cpu = false;
    master.counters.clear();
    master.response_times = None;
    master.latencies = false;
    Ok(())
}

fn all(typed: &mut Typed, _: &str) -> Result<(), Stop> {
    let print = &mut typed.master("-a").print;
    print.groups = true;
    print.strands = true;
    print.transactions = true;
    print.flowops = true;
    print.interfaces = true;
    print.statistics = true;
    Ok(())
}

fn flowop_cpu(typed: &mut Typed, _: &str) -> Result<(), Stop> {
    let master = typed.master("-p");
    master.flowop_cpu = true;
    master.print.flowops = true;
    Ok(())
}

fn default_counters(typed: &mut Typed, _: &str) -> Result<(), Stop> {
    let master = typed.master("-e");
    master.counters = Counter::DEFAULTS.to_vec();
    master.print.flowops = true;
    Ok(())
}

fn counters(typed: &mut Typed, text: &str) -> Result<(), Stop> {
    let mut counters = Vec::new();
    for name in text.split(',') {
        let Some(counter) = Counter::named(name) else {
            let known: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
            let known = known.join(", ");
            return refuse(format!("'{name}' is no counter; there are {known}"));
        };
        if !counters.contains(&counter) {
            counters.push(counter);
        }
    }
    let master = typed.master("-E");
    master.counters = counters;
    master.print.flowops = true;
    Ok(())
}

fn interval(typed: &mut Typed, text: &str) -> Result<(), Stop> {
    let Some(interval) = time(text).filter(|time| !time.is_zero()) else {
        return exit(format!("Incorrect interval: {text}"));
    };
    if interval < SHORTEST_INTERVAL {
        return exit(format!("Incorrect interval: {text} (1 ms is the shortest)"));
    }
    typed.master("-i").interval = interval;
    Ok(())
}

fn port(typed: &mut Typed, text: &str) -> Result<(), Stop> {
    // Which of them are ports depends on what the control connection goes over.
    let port = integer(text).and_then(|port| u32::try_from(port).ok());
    let Some(port) = port.filter(|port| *port < u32::MAX) else {
        return refuse(NO_PORT);
    };
    typed.both("-P").port = port;
    Ok(())
}

fn latencies(typed: &mut Typed, text: &str) -> Result<(), Stop> {
    if text != "stdout" {
        return refuse("they go to stdout");
    }
    typed.master("-H").latencies = true;
    Ok(())
}

fn peers(typed: &mut Typed, text: &str) -> Result<(), Stop> {
    let Some(network) = Network::parse(text) else {
        return refuse("not an address, nor one with a prefix length (10.0.0.0/8, fd00::/8)");
    };
    typed.slave("--allow-peers").peers.push(network);
    Ok(())
}

/// A line of the stock tool's own, which it has on stdout.
fn exit<T>(line: String) -> Result<T, Stop> {
    Err(Stop::Exit(Exit {
        stdout: line + "\n",
        code: 1,
        ..Exit::default()
    }))
}
