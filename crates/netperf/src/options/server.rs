//! The command line of netserver: its table and [`ServerSettings`].

#![expect(
    clippy::unnecessary_wraps,
    reason = "each function in the table must return a Result"
)]

use std::path::PathBuf;
use std::time::Duration;

use getopt::Argument::{Nothing, OptionalAttached, Value};
use getopt::stock_version::StockVersion;
use getopt::{EarlyExit, Exit, Section, linerate_long, refuse, stock_letter};
use model::with_defaults;
use server::{Network, PeerPolicy, Permissions, ServerConfig};

use super::Family;
use super::global::parse_endpoint;
use super::settings::DEFAULT_PORT;
use super::value::{count, int32, number, passphrase, port, seconds};
use crate::version::Version;

with_defaults! {
    /// The settings in force for one netserver.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ServerSettings {
        /// `--stock-version`.
        pub version: Version = Version::default(),
        /// `-L`: the name or address to listen on; `None` is the wildcard.
        pub listen_host: Option<String> = None,
        /// `-4`, `-6`, `-L`: the last wins.
        pub family: Family = Family::Unspecified,
        /// `-p`: the port or service name, as typed.
        pub port: String = DEFAULT_PORT.to_owned(),
        /// `-D`: stay in the foreground.
        pub foreground: bool = false,
        /// `-N`: write no debug output, even if a client requests it.
        pub suppress_debug: bool = false,
        /// `-d`: the number of times it was given.
        pub debug: u32 = 0,
        /// `-v`; it has no effect.
        pub verbosity: i32 = 1,
        /// `--user`: the user to run as once the port is open.
        pub user: Option<String> = None,
        /// `-Z`: the passphrase that a client must send first.
        pub passphrase: Option<String> = None,
        /// Whether a socket on descriptor 0 is inetd's: none of `-D`, `-f`, `-L`, `-p` was given.
        pub may_be_inetd: bool = true,
        /// The limits and permissions of clients.
        pub limits: ServerLimits = ServerLimits::default(),
        /// Lines to print on stdout first.
        pub notices: Vec<String> = Vec::new(),
    }
}

with_defaults! {
    /// The limits and permissions of a netserver's clients.
    ///
    /// The server is open to the network. All code that waits, allocates, reads or sends for a peer
    /// respects these limits. No timeout is shorter than a valid test of the stock client needs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ServerLimits {
        /// `--allow-peers`, `--max-clients`, `--drain-on-exit`, `-f`: which clients are accepted.
        pub server: ServerConfig = ServerConfig::default(),
        /// `--control-idle`: how long a control connection may be idle, or a reply stay unread.
        pub control_idle: Duration = Duration::from_secs(120),
        /// `--data-wait`: the maximum time from a request to its first data. The stock client can
        /// wait before it sends (`-s`) and does not announce how long.
        pub data_wait: Duration = Duration::from_secs(60),
        /// `--data-idle`: how long data may stop before the test fails.
        pub data_idle: Duration = Duration::from_secs(60),
        /// `--drain`: the time after the end of a test in which it still receives data in flight.
        pub drain: Duration = Duration::from_secs(15),
        /// `--passphrase-wait`: the maximum time to a client's passphrase.
        pub passphrase_wait: Duration = Duration::from_secs(20),
        /// `--max-buffer`: the maximum bytes of one test's buffers per direction.
        pub max_buffer_bytes: u64 = 256 << 20,
        /// `--max-memory`: the maximum bytes of all tests' buffers together.
        pub max_memory_bytes: u64 = 1 << 30,
        /// `--max-length`: the maximum length of a test.
        pub max_length: Duration = Duration::from_secs(7 * 86_400),
        /// `--allow-fill-dir`: the directories of fill files for clients (`-F ,FILE`).
        pub fill_directories: Vec<PathBuf> = Vec::new(),
        /// `--allow-third-party`, `--strict-peers`: the peers that a test may exchange data with.
        pub peers: PeerPolicy = PeerPolicy::default(),
        /// `--allow-modules`, `--allow-privileged-ports`: the changes to this host that requests
        /// may cause.
        pub permissions: Permissions = Permissions::default(),
        /// `--allow-looper`: whether a client may request CPU measurement by looper, which takes
        /// all idle cycles of the host.
        pub allow_looper: bool = false,
        /// `--allow-spin`: whether a client may request spinning at the end of pacing intervals.
        pub allow_spin: bool = false,
        /// `--unix-dir`: the parent directory for the sockets of Unix domain tests.
        pub unix_directory: PathBuf = PathBuf::from("/tmp"),
    }
}

/// The options in the order of the stock tool's usage text, then the options that stock lacks.
#[rustfmt::skip]
pub(super) static SECTION: Section<ServerSettings> = Section {
    title: "OPTIONS",
    heading: "Options:",
    scope: "",
    options: &[
    stock_letter('h', Nothing, &["-h                Display this text"],
        "Print the usage text and exit with 1.", |_, _| Err(EarlyExit::Help)),
    stock_letter('D', Nothing, &["-D                Do not daemonize"],
        "Stay in the foreground.", |s, _| { s.foreground = true; s.may_be_inetd = false; Ok(()) }),
    stock_letter('d', Nothing, &["-d                Increase debugging output"],
        "Log events to standard error, in the foreground only (-D, or with a socket from systemd). Without it, only warnings are logged: refused clients, and data from an address that is not the client's. A daemon or a server started by inetd logs nothing.",
        |s, _| { s.debug = s.debug.saturating_add(1); Ok(()) }),
    stock_letter('f', Nothing, &["-f                Do not spawn chilren for each test, run serially"],
        "Serve one client at a time. Other clients wait.", |s, _| { s.limits.server.serves_one_at_a_time = true; s.may_be_inetd = false; Ok(()) }),
    stock_letter('L', Value("name[,family]"), &["-L name,family    Use name to pick listen address and family for family"],
        "Listen on this address.", set_listen_host),
    stock_letter('N', Nothing, &["-N                No debugging output, even if netperf asks"],
        "Write no debug output (-d), even if a client requests it. Warnings are still written.", |s, _| { s.suppress_debug = true; Ok(()) }),
    stock_letter('p', Value("port"), &["-p portnum        Listen for connect requests on portnum."],
        "Listen on this port. Default 12865.", |s, v| { s.port = port(v)?; s.may_be_inetd = false; Ok(()) }),
    stock_letter('4', Nothing, &["-4                Do IPv4"],
        "Listen on IPv4 only.", |s, _| { s.family = Family::V4; Ok(()) }),
    stock_letter('6', Nothing, &["-6                Do IPv6"],
        "Listen on IPv6 only.", |s, _| { s.family = Family::V6; Ok(()) }),
    stock_letter('v', Value("level"), &["-v verbosity      Specify the verbosity level"],
        "Verbosity. No effect, as in the stock tool.", |s, v| { s.verbosity = int32(v)?; Ok(()) }),
    stock_letter('V', Nothing, &["-V                Display version information and exit"],
        "Print the version and exit.", |_, _| Err(EarlyExit::Version)),
    stock_letter('Z', Value("text"), &["-Z passphrase     Expect passphrase as the first thing received"],
        "Serve only clients that send this passphrase first. @FILE reads it from the first line of a file, so that ps(1) does not show it. It is sent in clear text. After a wrong passphrase, further attempts from the same address are delayed by up to 8 seconds.",
        |s: &mut ServerSettings, v| { s.passphrase = Some(passphrase(v)?); Ok(()) }).with_secret_value(),
    stock_letter('n', Value("cpus"), &[], "Number of CPUs. Accepted up to 256 and ignored: Linux reports the number.", check_cpu_count),
    linerate_long("allow-fill-dir", Value("DIR"), "Let clients fill buffers from files below DIR (repeatable)", "",
        "Let clients request fill files from this directory and its subdirectories. May be given several times; without it, no file is read. The server opens the directory when it starts. It reads only regular files, by paths without links (openat2(2), Linux 5.6).",
        |s, v| { s.limits.fill_directories.push(PathBuf::from(v)); Ok(()) }),
    linerate_long("allow-looper", Nothing, "Let clients request CPU measurement by looper", "",
        "Let clients request CPU measurement by looper (--cpu-method looper), which keeps all CPUs of the host busy during a test or a calibration. Without it, the server measures CPU time by /proc/stat and refuses a calibration.",
        |s, _| { s.limits.allow_looper = true; Ok(()) }),
    linerate_long("allow-modules", Nothing, "Let requests load kernel modules (protocols, congestion control)", "",
        "Let requests load kernel modules for transports and congestion control. Without it, the server refuses a transport that is not loaded, and ignores a congestion control that is not loaded; the results name the one in force.",
        |s, _| { s.limits.permissions.allows_modules = true; Ok(()) }),
    linerate_long("allow-peers", Value("CIDR"), "Serve only clients from this network (repeatable)", "",
        "Serve only clients from this network: 10.0.0.0/8, fd00::/8, or one address. May be given several times. By default, clients may connect from any address. With it, the server refuses clients over VSOCK.",
        |s, v| { s.limits.server.networks.push(Network::parse(v).or_else(refuse)?); Ok(()) }),
    linerate_long("allow-privileged-ports", Nothing, "Let clients request privileged data ports", "",
        "Let clients request data ports below 1024, or below the sysctl net.ipv4.ip_unprivileged_port_start. Without it, the server refuses such requests even if it has the privilege. With it, the server refuses them only if it lacks the privilege.",
        |s, _| { s.limits.permissions.allows_privileged_ports = true; Ok(()) }),
    linerate_long("allow-spin", Nothing, "Let clients request spinning between intervals (-b, -w)", "",
        "Let clients request that the server spins at the end of each pacing interval (--spin), for at most half of the interval and at most 2 milliseconds. This takes up to half of a CPU. Without it, the server sleeps and a linerate client prints a warning.",
        |s, _| { s.limits.allow_spin = true; Ok(()) }),
    linerate_long("allow-third-party", OptionalAttached("CIDR"), "Let clients request datagrams to other hosts (repeatable)", "",
        "Let a client request datagrams to a host other than its own, and let SCTP associations from other hosts take part in a _MANY test. With =CIDR, only to hosts in this network: 10.0.0.0/8, fd00::/8, or one address. May be given several times.",
        |s, v| s.limits.peers.third_parties.allow(v).or_else(refuse)),
    linerate_long("strict-peers", Nothing, "Accept a test's data only from the client's address", "",
        "Accept a test's data only from the client's address: the source of its control connection, or the address in its request. Without it, the server accepts a connection from another address if none from the client's address arrives within 0.1 seconds, and logs it. The test fails if this wait takes more than 5 % of it. Datagrams from another address count if they arrive first. A linerate client proves its connection with a nonce, so its address does not matter.",
        |s, _| { s.limits.peers.is_strict = true; Ok(()) }),
    linerate_long("control-idle", Value("SECONDS"), "Maximum wait for a client's next request", "120",
        "Close a control connection after this many seconds without a request. Default {default}.",
        |s, v| { s.limits.control_idle = seconds(v)?; Ok(()) }),
    linerate_long("data-wait", Value("SECONDS"), "Maximum wait for the first data of a test", "60",
        "End a test without data after this many seconds. Default {default}.",
        |s, v| { s.limits.data_wait = seconds(v)?; Ok(()) }),
    linerate_long("data-idle", Value("SECONDS"), "Maximum pause in the data of a test", "60",
        "End a test if its data stops for this many seconds. Default {default}.",
        |s, v| { s.limits.data_idle = seconds(v)?; Ok(()) }),
    linerate_long("drain", Value("SECONDS"), "Maximum wait for data in flight after a test", "15",
        "Seconds after the end of a test in which it still receives data in flight. Default {default}.",
        |s, v| { s.limits.drain = seconds(v)?; Ok(()) }),
    linerate_long("drain-on-exit", Value("SECONDS"), "On a signal, let running tests finish for at most this long", "",
        "On SIGTERM or SIGINT, let running tests finish for at most this many seconds and start no new tests. Without it, running tests end immediately without a result, and their clients fail. A second signal ends the server immediately.",
        |s, v| { s.limits.server.drain_time = seconds(v)?; Ok(()) }),
    linerate_long("passphrase-wait", Value("SECONDS"), "Maximum wait for a passphrase", "20",
        "Maximum seconds to wait for a passphrase. Default {default}.",
        |s, v| { s.limits.passphrase_wait = seconds(v)?; Ok(()) }),
    linerate_long("max-clients", Value("N"), "Maximum number of clients at a time", "1024",
        "Maximum number of control connections at a time. Default {default}.",
        |s, v| { s.limits.server.max_clients = number(v, 1..=1 << 20)?; Ok(()) }),
    linerate_long("max-buffer", Value("BYTES"), "Maximum memory for the buffers of one test", "256M",
        "Maximum memory for one test's buffers in one direction. Default {default}.",
        |s, v| { s.limits.max_buffer_bytes = number(v, 1 << 16..=1 << 40)?; Ok(()) }),
    linerate_long("max-memory", Value("BYTES"), "Maximum memory for the buffers of all tests", "1G",
        "Maximum memory for the buffers of all tests together. Default {default}.",
        |s, v| { s.limits.max_memory_bytes = number(v, 1 << 16..=1 << 40)?; Ok(()) }),
    linerate_long("user", Value("NAME"), "Run as this user once the port is open (needs root)", "",
        "Run as this user, with its groups and without privileges, once the control port, the directories of --allow-fill-dir and the file of -Z are open. Requests that need a privilege then fail or have no effect: DLPI tests, -y above 6, and ports below 1024. It therefore contradicts --allow-privileged-ports. This needs root.",
        |s, v| { s.user = Some(v.to_owned()); Ok(()) }),
    linerate_long("unix-dir", Value("DIR"), "Create the sockets of Unix domain tests below DIR", "/tmp",
        "Create the sockets of Unix domain tests below this directory, an absolute path of at most 17 bytes. Default {default}.",
        set_unix_directory),
    linerate_long("max-length", Value("SECONDS"), "Maximum length of a test", "604800, seven days",
        "Maximum length of a test in seconds. Default {default}.", |s, v| { s.limits.max_length = seconds(v)?; Ok(()) }),
    linerate_long("stock-version", Value("version"), "Print the version of this netserver with -V", "2.7.1",
        "Print this version of netserver with -V: 2.7.0 or 2.7.1. The environment variable LINERATE_STOCK_VERSION also selects it, such as 'netperf=2.7.0'. Default {default}.",
        |s, v| { s.version = Version::from_name(v).or_else(refuse)?; Ok(()) }),
]};

fn set_listen_host(settings: &mut ServerSettings, text: &str) -> Result<(), EarlyExit> {
    settings.may_be_inetd = false;
    let host = parse_endpoint(&mut settings.family, &mut settings.notices, text);
    settings.listen_host = host.or(settings.listen_host.take());
    Ok(())
}

/// Applies `--unix-dir`. The protocol carries only 32 bytes of a socket's path.
fn set_unix_directory(settings: &mut ServerSettings, text: &str) -> Result<(), EarlyExit> {
    let directory = PathBuf::from(text);
    if !directory.is_absolute() || text.len() > crate::socket_directory::MAX_PARENT_BYTES {
        return refuse(format!(
            "not an absolute path of at most {} bytes",
            crate::socket_directory::MAX_PARENT_BYTES
        ));
    }
    settings.limits.unix_directory = directory;
    Ok(())
}

/// Checks `-n` against the stock tool's limit. The number has no effect on Linux.
fn check_cpu_count(_: &mut ServerSettings, text: &str) -> Result<(), EarlyExit> {
    if count(text)? > 256 {
        let message = "netserver: This version can only support 256 CPUs. Pleaseincrease MAXCPUS in netlib.h \
                   and recompile.\n";
        return Err(EarlyExit::Exit(Exit::stderr(message, 1)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse_netserver;

    #[rustfmt::skip]
    #[test]
    fn every_option_sets_its_field() {
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
            ("-f", with(|s| (s.limits.server.serves_one_at_a_time, s.may_be_inetd) = (true, false))),
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
                    s.limits.peers.third_parties.allows_all = true;
                    s.limits.peers.is_strict = true;
                    s.limits.allow_spin = true;
                    s.limits.permissions = Permissions {
                        allows_modules: true,
                        allows_privileged_ports: true,
                    };
                    s.limits.allow_looper = true;
                }),
            ),
            (
                "--control-idle 5 --data-wait 1m0s --data-idle 7 --drain 3 --drain-on-exit 6 \
                 --passphrase-wait 4 --allow-peers 10.0.0.0/8 --allow-peers ::1 \
                 --max-clients 8 --max-buffer 1M --max-length 9",
                with(|s| {
                    s.limits = ServerLimits {
                        server: ServerConfig {
                            networks: ["10.0.0.0/8", "::1"]
                                .map(|text| Network::parse(text).unwrap())
                                .to_vec(),
                            max_clients: 8,
                            drain_time: Duration::from_secs(6),
                            ..ServerConfig::default()
                        },
                        control_idle: Duration::from_secs(5),
                        data_wait: Duration::from_secs(60),
                        data_idle: Duration::from_secs(7),
                        drain: Duration::from_secs(3),
                        passphrase_wait: Duration::from_secs(4),
                        max_buffer_bytes: 1 << 20,
                        max_length: Duration::from_secs(9),
                        ..ServerLimits::default()
                    }
                }),
            ),
        ] {
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
    }

    #[rustfmt::skip]
    #[test]
    fn wrong_values_are_refused_in_one_line_that_names_them() {
        for (line, stderr) in [
            ("-p 1234567890", "netserver: -p 1234567890: '1234567890' is not a port\n"),
            ("-v x", "netserver: -v x: 'x' is not a number\n"),
            ("--data-wait 0", "netserver: --data-wait 0: 0 is not from 1 to 4294967295\n"),
            ("--max-clients x", "netserver: --max-clients x: 'x' is not a number\n"),
            (
                "--allow-peers 10/8",
                "netserver: --allow-peers 10/8: not an address or a network (10.0.0.0/8, fd00::/8)\n",
            ),
            (
                "-n 257",
                "netserver: This version can only support 256 CPUs. Pleaseincrease MAXCPUS in \
                 netlib.h and recompile.\n",
            ),
        ] {
            let exit = parse(line).unwrap_err();
            assert_eq!((exit.stderr.as_str(), exit.code), (stderr, 1), "{line}");
        }
    }

    fn parse(line: &str) -> Result<ServerSettings, Exit> {
        parse_netserver("netserver", line.split_whitespace().map(Into::into))
    }
}
