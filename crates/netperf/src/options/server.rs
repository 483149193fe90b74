//! argv of `netserver` → [`ServerSettings`].

#![expect(
    clippy::unnecessary_wraps,
    reason = "what an option does may fail, and one that does not still goes into the table"
)]

use std::path::PathBuf;
use std::time::Duration;

use getopt::Argument::{Nothing, Value};
use getopt::{Exit, Quit, Section, flag, long, refuse};
use model::with_defaults;
use server::{Network, Permissions, Policy, ServerConfig};

use super::Family;
use super::global::endpoint;
use super::settings::DEFAULT_PORT;
use super::value::{count, number, passphrase, port, seconds, word};

with_defaults! {
    /// The settings in force for one netserver.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ServerSettings {
        /// `-L`: the name or address to listen on; `None` is the wildcard.
        pub listen_host: Option<String> = None,
        /// `-4`, `-6`, `-L`: the last wins.
        pub family: Family = Family::Unspecified,
        /// `-p`, as typed.
        pub port: String = DEFAULT_PORT.to_owned(),
        /// `-D`: stay in the foreground.
        pub foreground: bool = false,
        /// `-N`: no debug output, even if a client asks.
        pub suppress_debug: bool = false,
        /// `-d`, how often.
        pub debug: u32 = 0,
        /// `-v`; nothing depends on it.
        pub verbosity: i32 = 1,
        /// `--user`: the user to change to.
        pub user: Option<String> = None,
        /// `-Z`: what a client has to send first.
        pub passphrase: Option<String> = None,
        /// None of `-D`, `-f`, `-L` and `-p` was given, so that a socket on descriptor 0 is inetd's.
        pub may_be_inetd: bool = true,
        /// What a client may take.
        pub limits: Limits = Limits::default(),
        /// Lines for stdout before anything else happens.
        pub notices: Vec<String> = Vec::new(),
    }
}

with_defaults! {
    /// What a netserver does for whoever connects, and no more. It is open to the network: one object
    /// with every bound, handed to all that waits, allocates, reads or sends for a peer. No deadline is
    /// shorter than a valid test of the stock client needs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// `--allow-peers`, `--max-clients`, `--drain-on-exit`, `-f`: which clients are accepted.
        pub server: ServerConfig = ServerConfig::default(),
        /// `--control-idle`: a control connection without a request, or with results that nobody fetches.
        pub control_idle: Duration = Duration::from_secs(120),
        /// `--data-wait`: a request that no data follows. The stock client can wait before it sends
        /// (`-s`), and does not say how long.
        pub data_wait: Duration = Duration::from_secs(60),
        /// `--data-idle`: data that stopped; without a byte for this long it will not go on.
        pub data_idle: Duration = Duration::from_secs(60),
        /// `--drain`: how long after its time a test may still drain what is on its way.
        pub drain: Duration = Duration::from_secs(15),
        /// `--passphrase-wait`: the first message of a client that must have a passphrase.
        pub passphrase_wait: Duration = Duration::from_secs(20),
        /// `--max-buffer`: bytes of one test's buffers in one direction.
        pub max_buffer_bytes: u64 = 256 << 20,
        /// `--max-memory`: bytes of all tests' buffers together.
        pub max_memory_bytes: u64 = 1 << 30,
        /// `--max-length`: the longest test.
        pub max_length: Duration = Duration::from_secs(7 * 86_400),
        /// `--allow-fill-dir`: directories below which a client may name a fill file (`-F ,FILE`).
        pub fill_directories: Vec<PathBuf> = Vec::new(),
        /// `--allow-third-party`, `--strict-peers`: which peers a test accepts data from and sends datagrams to.
        pub peers: Policy = Policy::default(),
        /// `--allow-modules`, `--allow-privileged-ports`: what requests may change on this host.
        pub permissions: Permissions = Permissions::default(),
        /// `--allow-looper`: take all idle cycles of this host when a client wants CPU time measured so.
        pub looper: bool = false,
        /// `--allow-spin`: spin at the end of a test's pacing intervals.
        pub spin: bool = false,
        /// `--unix-dir`: below it Unix domain tests have their sockets.
        pub unix_directory: PathBuf = PathBuf::from("/tmp"),
    }
}

/// In the order of the stock tool's usage text, our own after it.
#[rustfmt::skip]
pub(super) static SECTION: Section<ServerSettings> = Section {
    title: "OPTIONS",
    heading: "Options:",
    scope: "",
    flags: &[
    flag('h', Nothing, &["-h                Display this text"],
        "Print the usage text and exit with 1.", |_, _| Err(Quit::Help)),
    flag('D', Nothing, &["-D                Do not daemonize"],
        "Stay in the foreground.", |s, _| { s.foreground = true; s.may_be_inetd = false; Ok(()) }),
    flag('d', Nothing, &["-d                Increase debugging output"],
        "Write what happens to standard error, when in the foreground (-D, or with a socket from systemd). Without it, only warnings are written there: refused clients, and data from another address than the client's. A daemon and a server of inetd write nothing.",
        |s, _| { s.debug = s.debug.saturating_add(1); Ok(()) }),
    flag('f', Nothing, &["-f                Do not spawn chilren for each test, run serially"],
        "Serve one client at a time; others wait.", |s, _| { s.limits.server.serial = true; s.may_be_inetd = false; Ok(()) }),
    flag('L', Value("name[,family]"), &["-L name,family    Use name to pick listen address and family for family"],
        "Listen on this address.", listen),
    flag('N', Nothing, &["-N                No debugging output, even if netperf asks"],
        "No debug output (-d), even if a client asks for it. Warnings are written.", |s, _| { s.suppress_debug = true; Ok(()) }),
    flag('p', Value("port"), &["-p portnum        Listen for connect requests on portnum."],
        "Listen on this port. Default 12865.", |s, v| { s.port = port(v)?; s.may_be_inetd = false; Ok(()) }),
    flag('4', Nothing, &["-4                Do IPv4"],
        "Listen on IPv4 only.", |s, _| { s.family = Family::V4; Ok(()) }),
    flag('6', Nothing, &["-6                Do IPv6"],
        "Listen on IPv6 only.", |s, _| { s.family = Family::V6; Ok(()) }),
    flag('v', Value("level"), &["-v verbosity      Specify the verbosity level"],
        "Verbosity, without effect, as in the stock tool.", |s, v| { s.verbosity = word(v)?; Ok(()) }),
    flag('V', Nothing, &["-V                Display version information and exit"],
        "Print the version and exit.", |_, _| Err(Quit::Version)),
    flag('Z', Value("text"), &["-Z passphrase     Expect passphrase as the first thing received"],
        "Serve only clients that send this passphrase first. @FILE reads it from the first line of a file, so that ps(1) does not show it. It crosses the network in clear text. After a wrong passphrase, further attempts from the same address are delayed by up to 8 seconds.",
        |s, v| { s.passphrase = Some(passphrase(v)?); Ok(()) }),
    flag('n', Value("cpus"), &[], "Number of CPUs. Linux tells it: accepted up to 256, and not used.", cpus),
    long("allow-fill-dir", Value("DIR"), "Let clients fill buffers from files below DIR (repeatable)", "",
        "Let clients name fill files below this directory. May be given several times; without it no file is read. The directory is opened when the server starts. Only regular files are read, by paths without links (openat2(2), Linux 5.6).",
        |s, v| { s.limits.fill_directories.push(PathBuf::from(v)); Ok(()) }),
    long("allow-looper", Nothing, "Let clients have CPU time measured by a looper", "",
        "Let clients have CPU time measured by a looper (--cpu-method looper), which keeps every CPU of this host from idling as long as a test or calibration needs it. Without it CPU time is measured by /proc/stat, and a calibration is refused.",
        |s, _| { s.limits.looper = true; Ok(()) }),
    long("allow-modules", Nothing, "Let requests load kernel modules (protocols, congestion control)", "",
        "Let requests load kernel modules for transports and congestion control. Without it, the server refuses a transport that is not loaded, and ignores a congestion control that is not loaded; the results name the one in force.",
        |s, _| { s.limits.permissions.modules = true; Ok(()) }),
    long("allow-peers", Value("CIDR"), "Serve clients from this network only (repeatable)", "",
        "Serve clients from this network, and no others: 10.0.0.0/8, fd00::/8, or one address. May be given several times; by default clients connect from any address. With it, no client is served over VSOCK.",
        |s, v| { s.limits.server.networks.push(Network::parse(v).or_else(refuse)?); Ok(()) }),
    long("allow-privileged-ports", Nothing, "Let clients request data ports that need a privilege", "",
        "Let clients request data ports below 1024, or below the sysctl net.ipv4.ip_unprivileged_port_start. Without it, such requests are refused, whatever the server's privileges. With it, they are refused if the server has no privilege for the port.",
        |s, _| { s.limits.permissions.privileged_ports = true; Ok(()) }),
    long("allow-spin", Nothing, "Let clients request spinning between intervals (-b, -w)", "",
        "Let clients request that the server spins at the end of each pacing interval (--spin), for at most half of it and at most 2 milliseconds, which takes up to half of a CPU. Without it, the server sleeps, and a linerate client warns.",
        |s, _| { s.limits.spin = true; Ok(()) }),
    long("allow-third-party", Nothing, "Let clients have datagrams sent to other hosts", "",
        "Let a client have datagrams sent to another host than its own, and have other hosts' SCTP associations in a test of many.",
        |s, _| { s.limits.peers.third_party = true; Ok(()) }),
    long("strict-peers", Nothing, "Accept a test's data from the client's address only", "",
        "Accept a test's data only from the client's address: that of its control connection, or the one that its request names. Without it, a connection from another address is accepted if none from the client's arrives within 2 seconds, by which the test is shorter; datagrams from another address count if they arrive first. A linerate client proves its connection with a nonce, so that its address does not matter.",
        |s, _| { s.limits.peers.strict = true; Ok(()) }),
    long("control-idle", Value("SECONDS"), "Wait so long for a client's next request", "120",
        "How long a control connection may be silent. Default {default}.",
        |s, v| { s.limits.control_idle = seconds(v)?; Ok(()) }),
    long("data-wait", Value("SECONDS"), "Wait so long for a test's data to begin", "60",
        "How long a test's data may take to begin. Default {default}.",
        |s, v| { s.limits.data_wait = seconds(v)?; Ok(()) }),
    long("data-idle", Value("SECONDS"), "Give data up that stopped for so long", "60",
        "How long data may stop before it is given up. Default {default}.",
        |s, v| { s.limits.data_idle = seconds(v)?; Ok(()) }),
    long("drain", Value("SECONDS"), "Wait so long beyond a test's length for its end", "15",
        "How long beyond its length a test may drain what is on its way. Default {default}.",
        |s, v| { s.limits.drain = seconds(v)?; Ok(()) }),
    long("drain-on-exit", Value("SECONDS"), "When stopped, let running tests finish for at most this long", "",
        "On SIGTERM or SIGINT, let running tests finish for at most this long; no test begins meanwhile. Without it, running tests end at once without a result, and their clients fail. A second signal ends the server at once.",
        |s, v| { s.limits.server.drain = seconds(v)?; Ok(()) }),
    long("passphrase-wait", Value("SECONDS"), "Wait so long for a passphrase", "20",
        "How long to wait for a passphrase. Default {default}.",
        |s, v| { s.limits.passphrase_wait = seconds(v)?; Ok(()) }),
    long("max-clients", Value("N"), "Serve so many clients at a time", "1024",
        "Control connections at a time. Default {default}.",
        |s, v| { s.limits.server.clients = number(v, 1..=1 << 20)?; Ok(()) }),
    long("max-buffer", Value("BYTES"), "Give a test's buffers so much memory", "256M",
        "Memory of one test's buffers in one direction. Default {default}.",
        |s, v| { s.limits.max_buffer_bytes = number(v, 1 << 16..=1 << 40)?; Ok(()) }),
    long("max-memory", Value("BYTES"), "Give all tests' buffers so much memory", "1G",
        "Memory of all tests' buffers together. Default {default}.",
        |s, v| { s.limits.max_memory_bytes = number(v, 1 << 16..=1 << 40)?; Ok(()) }),
    long("user", Value("NAME"), "Change to this user once the port is open (needs root)", "",
        "Change to this user, with its groups and without privileges, once the control port, the directories of --allow-fill-dir and the file of -Z are open. Requests that need a privilege then fail or have no effect: DLPI tests, -y above 6, and ports below 1024, so that --allow-privileged-ports is refused. This needs root.",
        |s, v| { s.user = Some(v.to_owned()); Ok(()) }),
    long("unix-dir", Value("DIR"), "Make the sockets of Unix domain tests below DIR", "/tmp",
        "Below this directory, an absolute path of at most 17 bytes, are the sockets of Unix domain tests. Default {default}.",
        unix_directory),
    long("max-length", Value("SECONDS"), "Run a test for so long", "604800, seven days",
        "The longest test. Default {default}.", |s, v| { s.limits.max_length = seconds(v)?; Ok(()) }),
]};

fn listen(settings: &mut ServerSettings, text: &str) -> Result<(), Quit> {
    settings.may_be_inetd = false;
    let host = endpoint(&mut settings.family, &mut settings.notices, text);
    settings.listen_host = host.or(settings.listen_host.take());
    Ok(())
}

/// The protocol has 32 bytes for the path of a socket.
fn unix_directory(settings: &mut ServerSettings, text: &str) -> Result<(), Quit> {
    let directory = PathBuf::from(text);
    if !directory.is_absolute() || text.len() > crate::place::MAX_DIRECTORY {
        return refuse(format!(
            "not an absolute path of at most {} bytes",
            crate::place::MAX_DIRECTORY
        ));
    }
    settings.limits.unix_directory = directory;
    Ok(())
}

/// The number has no use on Linux, but the stock tool's limit stands.
fn cpus(_: &mut ServerSettings, text: &str) -> Result<(), Quit> {
    if count(text)? > 256 {
        let why = "netserver: This version can only support 256 CPUs. Pleaseincrease MAXCPUS in netlib.h \
                   and recompile.\n";
        return Err(Quit::Exit(Exit::stderr(why, 1)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::netserver;

    #[rustfmt::skip]
    #[test]
    fn every_option_has_its_field() {
        let with = |change: fn(&mut ServerSettings)| {
            let mut settings = ServerSettings::default();
            change(&mut settings);
            settings
        };
        for (line, expected) in [
            ("", with(|_| ())),
            ("-4 -6", with(|s| s.family = Family::V6)),
            ("-6 -4", with(|s| s.family = Family::V4)),
            ("-D", with(|s| (s.foreground, s.may_be_inetd) = (true, false))),
            ("-f", with(|s| (s.limits.server.serial, s.may_be_inetd) = (true, false))),
            ("--user nobody", with(|s| s.user = Some("nobody".to_owned()))),
            ("-ddN", with(|s| (s.debug, s.suppress_debug) = (2, true))),
            ("-v 3 -n 256", with(|s| s.verbosity = 3)),
            ("-Zsecret", with(|s| s.passphrase = Some("secret".to_owned()))),
            ("-p 30000", with(|s| (s.port, s.may_be_inetd) = ("30000".to_owned(), false))),
            (
                "-L fe80::1%eth0,6",
                with(|s| {
                    s.listen_host = Some("fe80::1%eth0".to_owned());
                    (s.family, s.may_be_inetd) = (Family::V6, false);
                }),
            ),
            (
                "--allow-fill-dir /a --allow-fill-dir=/b --allow-third-party --allow-looper \
                 --strict-peers --allow-spin --allow-modules --allow-privileged-ports",
                with(|s| {
                    s.limits.fill_directories = vec!["/a".into(), "/b".into()];
                    s.limits.peers.third_party = true;
                    s.limits.peers.strict = true;
                    s.limits.spin = true;
                    s.limits.permissions = Permissions {
                        modules: true,
                        privileged_ports: true,
                    };
                    s.limits.looper = true;
                }),
            ),
            (
                "--control-idle 5 --data-wait 1m0s --data-idle 7 --drain 3 --drain-on-exit 6 \
                 --passphrase-wait 4 --allow-peers 10.0.0.0/8 --allow-peers ::1 \
                 --max-clients 8 --max-buffer 1M --max-length 9",
                with(|s| {
                    s.limits = Limits {
                        server: ServerConfig {
                            networks: ["10.0.0.0/8", "::1"]
                                .map(|text| Network::parse(text).unwrap())
                                .to_vec(),
                            clients: 8,
                            drain: Duration::from_secs(6),
                            ..ServerConfig::default()
                        },
                        control_idle: Duration::from_secs(5),
                        data_wait: Duration::from_secs(60),
                        data_idle: Duration::from_secs(7),
                        drain: Duration::from_secs(3),
                        passphrase_wait: Duration::from_secs(4),
                        max_buffer_bytes: 1 << 20,
                        max_length: Duration::from_secs(9),
                        ..Limits::default()
                    }
                }),
            ),
        ] {
            assert_eq!(run(line), Ok(expected), "{line}");
        }
    }

    #[rustfmt::skip]
    #[test]
    fn wrong_values_are_one_line_that_names_them() {
        for (line, stderr) in [
            ("-p 1234567890", "netserver: -p 1234567890: '1234567890' is not a port\n"),
            ("-v x", "netserver: -v x: 'x' is not a number\n"),
            ("--data-wait 0", "netserver: --data-wait 0: 0 is not from 1 to 4294967295\n"),
            ("--max-clients x", "netserver: --max-clients x: 'x' is not a number\n"),
            (
                "--allow-peers 10/8",
                "netserver: --allow-peers 10/8: not an address, nor one with a prefix length \
                 (10.0.0.0/8, fd00::/8)\n",
            ),
            (
                "-n 257",
                "netserver: This version can only support 256 CPUs. Pleaseincrease MAXCPUS in \
                 netlib.h and recompile.\n",
            ),
        ] {
            let exit = run(line).unwrap_err();
            assert_eq!((exit.stderr.as_str(), exit.code), (stderr, 1), "{line}");
        }
    }

    fn run(line: &str) -> Result<ServerSettings, Exit> {
        netserver("netserver", line.split_whitespace().map(Into::into))
    }
}
