//! Runs one client against its own server.

use std::cell::OnceCell;
use std::process::Command;
use std::time::Duration;

use testkit::{
    Implementation, LinkAddress, Namespace, NetperfPrograms, ProcessOutput, Release, Role, Server,
    TwoHosts,
};

/// Maximum time of a client, including on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The implementations of a client and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) client: Implementation,
    pub(crate) server: Implementation,
}

impl Pair {
    /// The reference for the other pairs.
    pub(crate) const STOCK: Self = Self::new(Implementation::Stock, Implementation::Stock);
    pub(crate) const OURS: Self = Self::new(Implementation::Ours, Implementation::Ours);
    pub(crate) const OURS_TO_STOCK: Self = Self::new(Implementation::Ours, Implementation::Stock);
    pub(crate) const STOCK_TO_OURS: Self = Self::new(Implementation::Stock, Implementation::Ours);
    /// Every pair with ours at one end or both.
    pub(crate) const TESTED: [Self; 3] = [Self::OURS_TO_STOCK, Self::STOCK_TO_OURS, Self::OURS];

    const fn new(client: Implementation, server: Implementation) -> Self {
        Self { client, server }
    }

    /// Returns the name for use in case names.
    pub(crate) fn name(self) -> String {
        format!("{}-to-{}", self.client.name(), self.server.name())
    }
}

/// Address family of both connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    pub(crate) fn loopback(self) -> &'static str {
        match self {
            Self::V4 => "127.0.0.1",
            Self::V6 => "::1",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }
}

/// Environment of a client's run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Release of the stock programs.
    pub(crate) release: Release,
    pub(crate) family: Family,
    /// Whether client and server run in a new network namespace.
    pub(crate) namespace: bool,
    /// Address of the server if client and server run on separate hosts.
    pub(crate) link_address: Option<LinkAddress>,
    /// Server arguments besides the port and the family.
    pub(crate) server_args: &'static [&'static str],
    /// Environment variables of the client: name and value.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

impl Setting {
    /// IPv4 on this machine's loopback interface.
    pub(crate) const PLAIN: Self = Self {
        release: Release::Debian12,
        family: Family::V4,
        namespace: false,
        link_address: None,
        server_args: &[],
        environment: &[],
    };

    /// Sets whether client and server run in a new network namespace.
    pub(crate) fn in_namespace(mut self, namespace: bool) -> Self {
        self.namespace = namespace;
        self
    }
}

/// The releases of the stock programs, and the suffixes of their cases' names.
pub(crate) const RELEASES: [(Release, &str); 2] =
    [(Release::Debian12, ""), (Release::Debian13, "::2_7_1")];

/// Returns the reason if the stock programs of a release are missing.
pub(crate) fn missing_reason(release: Release) -> Option<String> {
    NetperfPrograms::of_release(release).missing_reason()
}

/// Returns the locations of both implementations.
pub(crate) fn programs() -> NetperfPrograms {
    NetperfPrograms::new()
}

thread_local! {
    /// Hosts of this worker thread, shared by all its cases that need two hosts.
    static HOSTS: OnceCell<TwoHosts> = const { OnceCell::new() };
}

/// Runs the client with `args` against a new server. The stock pair sometimes hangs, for example
/// when an end signal is lost, so it gets a second attempt.
pub(crate) fn run_pair(
    pair: Pair,
    setting: Setting,
    args: &[&str],
) -> Result<ProcessOutput, String> {
    match run_pair_once(pair, setting, args) {
        Err(_) if pair == Pair::STOCK => run_pair_once(pair, setting, args),
        result => result,
    }
}

fn run_pair_once(pair: Pair, setting: Setting, args: &[&str]) -> Result<ProcessOutput, String> {
    let Some(link_address) = setting.link_address else {
        let host = setting.namespace.then(Namespace::new);
        let destination = ["-H", setting.family.loopback()].map(str::to_owned);
        return run_on_hosts(pair, setting, [host.as_ref(); 2], &destination, args);
    };
    HOSTS.with(|hosts| {
        let hosts = hosts.get_or_init(TwoHosts::new);
        let mut destination = vec!["-H".to_owned(), link_address.server().to_string()];
        // The kernel never chooses a secondary address.
        if link_address.index > 0 {
            destination.extend(["-L".to_owned(), link_address.client().to_string()]);
        }
        let hosts = [&hosts.client, &hosts.server].map(Some);
        run_on_hosts(pair, setting, hosts, &destination, args)
    })
}

/// Runs the server and the client, each in its namespace if it has one.
fn run_on_hosts(
    pair: Pair,
    setting: Setting,
    [client_host, server_host]: [Option<&Namespace>; 2],
    destination: &[String],
    args: &[&str],
) -> Result<ProcessOutput, String> {
    let programs = NetperfPrograms::of_release(setting.release);
    let start = || {
        Server::try_start_with(|port| {
            let mut command = programs.command(pair.server, Role::Server);
            command
                .args(["-D", "-p", &port.to_string(), setting.family.option()])
                .args(setting.server_args);
            command
        })
    };
    let server = match server_host {
        Some(host) => host.enter(start),
        None => start(),
    }
    .map_err(|error| format!("{} server: {error}", pair.server.name()))?;

    let mut client = programs.command(pair.client, Role::Client);
    client
        .args(destination)
        .args(["-p", &server.port.to_string()])
        .args(args)
        .envs(setting.environment.iter().copied());
    run(match client_host {
        Some(host) => host.command(&client),
        None => client,
    })
    .map_err(|error| format!("{}: netperf {}: {error}", pair.name(), args.join(" ")))
}

/// Returns the stdout of [`run_pair`]; fails unless the client exits with 0.
pub(crate) fn stdout_of(pair: Pair, setting: Setting, args: &[&str]) -> Result<String, String> {
    let finished = run_pair(pair, setting, args)?;
    if finished.code == Some(0) {
        return Ok(finished.stdout);
    }
    let (pair, args) = (pair.name(), args.join(" "));
    Err(format!("{pair}: netperf {args}: {finished:?}"))
}

/// Runs a command with a time limit.
pub(crate) fn run(command: Command) -> Result<ProcessOutput, String> {
    testkit::run(command, TIME_LIMIT).map_err(|error| error.to_string())
}
