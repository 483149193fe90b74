//! One client against one server of its own.

use std::cell::OnceCell;
use std::process::Command;
use std::time::Duration;

use testkit::{
    Implementation, LinkAddress, Namespace, NetperfPrograms, ProcessOutput, Role, Server, TwoHosts,
};

/// No client here runs for longer, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(30);

/// Whose client against whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) client: Implementation,
    pub(crate) server: Implementation,
}

impl Pair {
    /// What the others are compared with.
    pub(crate) const CONTROL: Self = Self::new(Implementation::Stock, Implementation::Stock);
    /// Every pair with one of ours in it.
    pub(crate) const TESTED: [Self; 3] = [
        Self::new(Implementation::Ours, Implementation::Stock),
        Self::new(Implementation::Stock, Implementation::Ours),
        Self::OURS,
    ];
    /// Ours at both ends.
    pub(crate) const OURS: Self = Self::new(Implementation::Ours, Implementation::Ours);

    const fn new(client: Implementation, server: Implementation) -> Self {
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
    /// Where client and server meet, if each is on a host of its own.
    pub(crate) place: Option<LinkAddress>,
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
        place: None,
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
pub(crate) fn peers() -> NetperfPrograms {
    NetperfPrograms::new()
}

thread_local! {
    /// This worker's hosts, for all cases that need two.
    static HOSTS: OnceCell<TwoHosts> = const { OnceCell::new() };
}

/// Runs the client with `args` against a server of its own. The original hangs now and then with itself, for example when
/// an end signal is lost: it gets a second attempt.
pub(crate) fn exchange(
    pair: Pair,
    setting: Setting,
    args: &[&str],
) -> Result<ProcessOutput, String> {
    match attempt(pair, setting, args) {
        Err(_) if pair == Pair::CONTROL => attempt(pair, setting, args),
        result => result,
    }
}

fn attempt(pair: Pair, setting: Setting, args: &[&str]) -> Result<ProcessOutput, String> {
    let Some(place) = setting.place else {
        let host = setting.namespace.then(Namespace::new);
        let to = ["-H", setting.family.loopback()].map(str::to_owned);
        return meet(pair, setting, [host.as_ref(); 2], &to, args);
    };
    HOSTS.with(|hosts| {
        let hosts = hosts.get_or_init(TwoHosts::new);
        let mut to = vec!["-H".to_owned(), place.server().to_string()];
        // A secondary address is nobody's choice but the user's.
        if place.address > 0 {
            to.extend(["-L".to_owned(), place.client().to_string()]);
        }
        let hosts = [&hosts.client, &hosts.server].map(Some);
        meet(pair, setting, hosts, &to, args)
    })
}

/// Runs server and client, each on its host if it has one of its own.
fn meet(
    pair: Pair,
    setting: Setting,
    [here, there]: [Option<&Namespace>; 2],
    to: &[String],
    args: &[&str],
) -> Result<ProcessOutput, String> {
    let peers = peers();
    let serve = || {
        Server::try_start_with(|port| {
            let mut command = peers.command(pair.server, Role::Server);
            command
                .args(["-D", "-p", &port.to_string(), setting.family.option()])
                .args(setting.server_args);
            command
        })
    };
    let server = match there {
        Some(host) => host.enter(serve),
        None => serve(),
    }
    .map_err(|error| format!("{} server: {error}", pair.server.name()))?;

    let mut client = peers.command(pair.client, Role::Client);
    client
        .args(to)
        .args(["-p", &server.port.to_string()])
        .args(args)
        .envs(setting.environment.iter().copied());
    run(match here {
        Some(host) => host.command(&client),
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
pub(crate) fn run(client: Command) -> Result<ProcessOutput, String> {
    testkit::run(client, LIMIT).map_err(|error| error.to_string())
}
