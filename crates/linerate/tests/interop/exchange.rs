//! One client against one server of its own.

use std::process::Command;
use std::time::Duration;

use testkit::{Finished, Make, Namespace, Peers, Role, Server};

/// No client here runs for longer, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(30);

/// Whose client against whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) client: Make,
    pub(crate) server: Make,
}

impl Pair {
    /// What the others are compared with.
    pub(crate) const CONTROL: Self = Self::new(Make::Stock, Make::Stock);
    /// Every pair with one of ours in it.
    pub(crate) const TESTED: [Self; 3] = [
        Self::new(Make::Ours, Make::Stock),
        Self::new(Make::Stock, Make::Ours),
        Self::OURS,
    ];
    /// Ours at both ends.
    pub(crate) const OURS: Self = Self::new(Make::Ours, Make::Ours);

    const fn new(client: Make, server: Make) -> Self {
        Self { client, server }
    }

    /// As it stands in a case's name.
    pub(crate) fn name(self) -> String {
        format!("{}-to-{}", self.client.name(), self.server.name())
    }
}

/// The family of both connections.
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

/// The surroundings of a client's run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) family: Family,
    /// Whether client and server have a network namespace of their own.
    pub(crate) namespace: bool,
    /// What the server gets besides its port and family.
    pub(crate) server_args: &'static [&'static str],
    /// What the client has in its environment, as name and value.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

impl Setting {
    /// IPv4 on this machine's loopback interface.
    pub(crate) const PLAIN: Self = Self {
        family: Family::V4,
        namespace: false,
        server_args: &[],
        environment: &[],
    };

    /// The same, in a network namespace if `namespace`.
    pub(crate) fn inside(mut self, namespace: bool) -> Self {
        self.namespace = namespace;
        self
    }
}

/// The programs under test.
pub(crate) fn peers() -> Peers {
    Peers::new()
}

/// Runs the client with `args` against a server of its own.
pub(crate) fn exchange(pair: Pair, setting: Setting, args: &[&str]) -> Result<Finished, String> {
    let peers = peers();
    let namespace = setting.namespace.then(Namespace::new);
    let serve = || {
        Server::of(|port| {
            let mut command = peers.command(pair.server, Role::Server);
            command
                .args(["-D", "-p", &port.to_string(), setting.family.option()])
                .args(setting.server_args);
            command
        })
    };
    let server = match &namespace {
        Some(namespace) => namespace.enter(serve),
        None => serve(),
    }
    .map_err(|error| format!("{} server: {error}", pair.server.name()))?;

    let mut client = peers.command(pair.client, Role::Client);
    client
        .args(["-H", setting.family.loopback()])
        .args(["-p", &server.port.to_string()])
        .args(args)
        .envs(setting.environment.iter().copied());
    run(match &namespace {
        Some(namespace) => namespace.command(&client),
        None => client,
    })
    .map_err(|error| format!("{}: netperf {}: {error}", pair.name(), args.join(" ")))
}

/// The same where only success will do; the standard output.
pub(crate) fn succeed(pair: Pair, setting: Setting, args: &[&str]) -> Result<String, String> {
    let finished = exchange(pair, setting, args)?;
    if finished.code == Some(0) {
        return Ok(finished.stdout);
    }
    let (pair, args) = (pair.name(), args.join(" "));
    Err(format!("{pair}: netperf {args}: {finished:?}"))
}

/// Runs a client that has no server of its own.
pub(crate) fn run(client: Command) -> Result<Finished, String> {
    testkit::run(client, LIMIT).map_err(|error| error.to_string())
}
