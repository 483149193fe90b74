//! argv of `netserver` → [`ServerSettings`].

#![expect(
    clippy::unnecessary_wraps,
    reason = "what an option does may fail, and one that does not still goes into the table"
)]

use std::path::PathBuf;
use std::time::Duration;

use server::{Permissions, Policy};

use super::grammar::Argument::{Nothing, Value};
use super::grammar::{Flag, Section, Stop, flag, long, refuse};
use super::value::{count, number, passphrase, port, seconds, word};
use super::{Exit, Family, global};

/// The settings in force for one netserver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one option without a value"
)]
pub struct ServerSettings {
    /// `-L`: the name or address to listen on; `None` is the wildcard.
    pub listen_host: Option<String>,
    /// `-4`, `-6`, `-L`: the last wins.
    pub family: Family,
    /// `-p`, as typed.
    pub port: String,
    /// `-D`: stay in the foreground.
    pub foreground: bool,
    /// `-f`: one client at a time.
    pub serial: bool,
    /// `-N`: no debug output, even if a client asks.
    pub suppress_debug: bool,
    /// `-d`, how often.
    pub debug: u32,
    /// `-v`; nothing depends on it.
    pub verbosity: i32,
    /// `--user`: the user to change to.
    pub user: Option<String>,
    /// `-Z`: what a client has to send first.
    pub passphrase: Option<String>,
    /// None of `-D`, `-f`, `-L` and `-p` was given, so that a socket on descriptor 0 is inetd's.
    pub may_be_inetd: bool,
    /// What a client may take.
    pub limits: Limits,
    /// Lines for stdout before anything else happens.
    pub notices: Vec<String>,
}

/// What a netserver does for whoever connects, and no more. It is open to the network: one object
/// with every bound, handed to all that waits, allocates, reads or sends for a peer. No deadline is
/// shorter than a valid test of the stock client needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `--control-idle`: a control connection without a request, or with results that nobody fetches.
    pub control_idle: Duration,
    /// `--data-wait`: a request that no data follows. The stock client can wait before it sends
    /// (`-s`), and does not say how long.
    pub data_wait: Duration,
    /// `--data-idle`: data that stopped; without a byte for this long it will not go on.
    pub data_idle: Duration,
    /// `--drain`: how long after its time a test may still drain what is on its way.
    pub drain: Duration,
    /// `--drain-on-exit`: how long running tests may go on when the server is stopped; zero ends them at once.
    pub drain_on_exit: Duration,
    /// `--passphrase-wait`: the first message of a client that must have a passphrase.
    pub passphrase_wait: Duration,
    /// `--max-clients`: control connections at a time.
    pub max_clients: usize,
    /// `--max-buffer`: bytes of one test's buffers in one direction.
    pub max_buffer_bytes: u64,
    /// `--max-memory`: bytes of all tests' buffers together.
    pub max_memory_bytes: u64,
    /// `--max-length`: the longest test.
    pub max_length: Duration,
    /// `--allow-fill-dir`: directories below which a client may name a fill file (`-F ,FILE`).
    pub fill_directories: Vec<PathBuf>,
    /// `--allow-third-party`, `--strict-peers`: which peers a test accepts data from and sends datagrams to.
    pub peers: Policy,
    /// `--allow-modules`, `--allow-privileged-ports`: what requests may change on this host.
    pub permissions: Permissions,
    /// `--allow-looper`: take all idle cycles of this host when a client wants CPU time measured so.
    pub looper: bool,
    /// `--allow-spin`: spin at the end of a test's pacing intervals.
    pub spin: bool,
    /// `--unix-dir`: below it Unix domain tests have their sockets.
    pub unix_directory: PathBuf,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            control_idle: Duration::from_secs(120),
            data_wait: Duration::from_secs(60),
            data_idle: Duration::from_secs(60),
            drain: Duration::from_secs(15),
            drain_on_exit: Duration::ZERO,
            passphrase_wait: Duration::from_secs(20),
            max_clients: 1024,
            max_buffer_bytes: 256 << 20,
            max_memory_bytes: 1 << 30,
            max_length: Duration::from_secs(7 * 86_400),
            fill_directories: Vec::new(),
            peers: Policy::default(),
            permissions: Permissions::default(),
            looper: false,
            spin: false,
            unix_directory: PathBuf::from("/tmp"),
        }
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen_host: None,
            family: Family::Unspecified,
            port: global::DEFAULT_PORT.to_owned(),
            foreground: false,
            serial: false,
            suppress_debug: false,
            debug: 0,
            verbosity: 1,
            user: None,
            passphrase: None,
            may_be_inetd: true,
            limits: Limits::default(),
            notices: Vec::new(),
        }
    }
}

pub(super) static SECTION: Section<ServerSettings> = Section {
    flags: FLAGS,
    scope: "",
};

/// In the order of the stock tool's usage text, our own after it.
#[rustfmt::skip]
const FLAGS: &[Flag<ServerSettings>] = &[
    flag('h', Nothing, &["-h                Display this text"], |_, _| Err(Stop::Help)),
    flag('D', Nothing, &["-D                Do not daemonize"],
        |s, _| { s.foreground = true; s.may_be_inetd = false; Ok(()) }),
    flag('d', Nothing, &["-d                Increase debugging output"],
        |s, _| { s.debug = s.debug.saturating_add(1); Ok(()) }),
    flag('f', Nothing, &["-f                Do not spawn chilren for each test, run serially"],
        |s, _| { s.serial = true; s.may_be_inetd = false; Ok(()) }),
    flag('L', Value, &["-L name,family    Use name to pick listen address and family for family"], listen),
    flag('N', Nothing, &["-N                No debugging output, even if netperf asks"],
        |s, _| { s.suppress_debug = true; Ok(()) }),
    flag('p', Value, &["-p portnum        Listen for connect requests on portnum."],
        |s, v| { s.port = port(v)?; s.may_be_inetd = false; Ok(()) }),
    flag('4', Nothing, &["-4                Do IPv4"], |s, _| { s.family = Family::V4; Ok(()) }),
    flag('6', Nothing, &["-6                Do IPv6"], |s, _| { s.family = Family::V6; Ok(()) }),
    flag('v', Value, &["-v verbosity      Specify the verbosity level"],
        |s, v| { s.verbosity = word(v)?; Ok(()) }),
    flag('V', Nothing, &["-V                Display version information and exit"], |_, _| Err(Stop::Version)),
    flag('Z', Value, &["-Z passphrase     Expect passphrase as the first thing received"],
        |s, v| { s.passphrase = Some(passphrase(v)?); Ok(()) }),
    flag('n', Value, &[], cpus),
    long("allow-fill-dir", Value, &["--allow-fill-dir DIR      Let clients fill buffers from files below DIR (repeatable)"],
        |s, v| { s.limits.fill_directories.push(PathBuf::from(v)); Ok(()) }),
    long("allow-looper", Nothing, &["--allow-looper            Let clients have CPU time measured by a looper"],
        |s, _| { s.limits.looper = true; Ok(()) }),
    long("allow-modules", Nothing, &["--allow-modules           Let requests load kernel modules (protocols, congestion control)"],
        |s, _| { s.limits.permissions.modules = true; Ok(()) }),
    long("allow-privileged-ports", Nothing, &["--allow-privileged-ports  Let clients request data ports that need a privilege"],
        |s, _| { s.limits.permissions.privileged_ports = true; Ok(()) }),
    long("allow-spin", Nothing, &["--allow-spin              Let clients request spinning between intervals (-b, -w)"],
        |s, _| { s.limits.spin = true; Ok(()) }),
    long("allow-third-party", Nothing, &["--allow-third-party       Let clients have datagrams sent to other hosts"],
        |s, _| { s.limits.peers.third_party = true; Ok(()) }),
    long("strict-peers", Nothing, &["--strict-peers            Accept a test's data from the client's address only"],
        |s, _| { s.limits.peers.strict = true; Ok(()) }),
    long("control-idle", Value, &["--control-idle SECONDS    Wait so long for a client's next request (120)"],
        |s, v| { s.limits.control_idle = seconds(v)?; Ok(()) }),
    long("data-wait", Value, &["--data-wait SECONDS       Wait so long for a test's data to begin (60)"],
        |s, v| { s.limits.data_wait = seconds(v)?; Ok(()) }),
    long("data-idle", Value, &["--data-idle SECONDS       Give data up that stopped for so long (60)"],
        |s, v| { s.limits.data_idle = seconds(v)?; Ok(()) }),
    long("drain", Value, &["--drain SECONDS           Wait so long beyond a test's length for its end (15)"],
        |s, v| { s.limits.drain = seconds(v)?; Ok(()) }),
    long("drain-on-exit", Value, &["--drain-on-exit SECONDS   When stopped, let running tests finish for at most this long"],
        |s, v| { s.limits.drain_on_exit = seconds(v)?; Ok(()) }),
    long("passphrase-wait", Value, &["--passphrase-wait SECONDS Wait so long for a passphrase (20)"],
        |s, v| { s.limits.passphrase_wait = seconds(v)?; Ok(()) }),
    long("max-clients", Value, &["--max-clients N           Serve so many clients at a time (1024)"],
        |s, v| { s.limits.max_clients = number::<u32>(v, 1..=1 << 20)? as usize; Ok(()) }),
    long("max-buffer", Value, &["--max-buffer BYTES        Give a test's buffers so much memory (256M)"],
        |s, v| { s.limits.max_buffer_bytes = number(v, 1 << 16..=1 << 40)?; Ok(()) }),
    long("max-memory", Value, &["--max-memory BYTES        Give all tests' buffers so much memory (1G)"],
        |s, v| { s.limits.max_memory_bytes = number(v, 1 << 16..=1 << 40)?; Ok(()) }),
    long("user", Value, &["--user NAME               Change to this user once the port is open (needs root)"],
        |s, v| { s.user = Some(v.to_owned()); Ok(()) }),
    long("unix-dir", Value, &["--unix-dir DIR            Make the sockets of Unix domain tests below DIR (/tmp)"], unix_directory),
    long("max-length", Value, &["--max-length SECONDS      Run a test for so long (604800, seven days)"],
        |s, v| { s.limits.max_length = seconds(v)?; Ok(()) }),
];

fn listen(settings: &mut ServerSettings, text: &str) -> Result<(), Stop> {
    settings.may_be_inetd = false;
    global::endpoint(
        &mut settings.listen_host,
        &mut settings.family,
        &mut settings.notices,
        text,
    );
    Ok(())
}

/// The protocol has 32 bytes for the path of a socket.
fn unix_directory(settings: &mut ServerSettings, text: &str) -> Result<(), Stop> {
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
fn cpus(_: &mut ServerSettings, text: &str) -> Result<(), Stop> {
    if count(text)? > 256 {
        return Err(Stop::Exit(Exit {
            stderr: "netserver: This version can only support 256 CPUs. Pleaseincrease MAXCPUS in \
                     netlib.h and recompile.\n"
                .to_owned(),
            code: 1,
            ..Exit::default()
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::netserver;

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
            (
                "-D",
                with(|s| (s.foreground, s.may_be_inetd) = (true, false)),
            ),
            ("-f", with(|s| (s.serial, s.may_be_inetd) = (true, false))),
            (
                "--user nobody",
                with(|s| s.user = Some("nobody".to_owned())),
            ),
            ("-ddN", with(|s| (s.debug, s.suppress_debug) = (2, true))),
            ("-v 3 -n 256", with(|s| s.verbosity = 3)),
            (
                "-Zsecret",
                with(|s| s.passphrase = Some("secret".to_owned())),
            ),
            (
                "-p 30000",
                with(|s| (s.port, s.may_be_inetd) = ("30000".to_owned(), false)),
            ),
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
                 --passphrase-wait 4 \
                 --max-clients 8 --max-buffer 1M --max-length 9",
                with(|s| {
                    s.limits = Limits {
                        control_idle: Duration::from_secs(5),
                        data_wait: Duration::from_secs(60),
                        data_idle: Duration::from_secs(7),
                        drain: Duration::from_secs(3),
                        drain_on_exit: Duration::from_secs(6),
                        passphrase_wait: Duration::from_secs(4),
                        max_clients: 8,
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

    #[test]
    fn wrong_values_are_one_line_that_names_them() {
        for (line, stderr) in [
            (
                "-p 1234567890",
                "netserver: -p 1234567890: '1234567890' is not a port\n",
            ),
            ("-v x", "netserver: -v x: 'x' is not a number\n"),
            (
                "--data-wait 0",
                "netserver: --data-wait 0: 0 is not from 1 to 4294967295\n",
            ),
            (
                "--max-clients x",
                "netserver: --max-clients x: 'x' is not a number\n",
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
