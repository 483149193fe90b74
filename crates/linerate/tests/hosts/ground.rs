//! A host for the master and some for slaves, each with a link to the master's.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{
    Namespace, ProcessUsage, Profile, Server, UperfMaster, add_link, is_listening,
    linerate_with_args, listener_count, wait_until,
};

use super::gate::GATE;

/// The control port of all slaves; a namespace's ports are its own.
pub(crate) const PORT: u16 = 20_000;

/// What a busy machine may take for what needs no deadline.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// What a short run may take.
const A_RUN: Duration = Duration::from_secs(40);

/// The hosts, as long as this lives.
pub(crate) struct Hosts {
    pub(crate) master: Namespace,
    pub(crate) slaves: Vec<Namespace>,
}

impl Hosts {
    /// A master's host and so many slaves'.
    pub(crate) fn new(slaves: usize) -> Self {
        let master = Namespace::with_loopback_only();
        let slaves: Vec<_> = (0..slaves)
            .map(|number| {
                let slave = Namespace::with_loopback_only();
                add_link(
                    (
                        &master,
                        &format!("to{number}"),
                        &format!("{}/24", master_address(number)),
                    ),
                    (&slave, "eth0", &format!("{}/24", address(number))),
                );
                slave
            })
            .collect();
        Self { master, slaves }
    }

    /// Starts a slave on one of them.
    pub(crate) fn slave(&self, number: usize, options: &str) -> Slave<'_> {
        self.slave_of(
            number,
            linerate_with_args(&format!("uperf -s -P {PORT} {options}")),
        )
    }

    /// The same, by another command.
    pub(crate) fn slave_of(&self, number: usize, command: Command) -> Slave<'_> {
        let host = &self.slaves[number];
        let server = host.enter(|| Server::start_at(PORT, command));
        Slave {
            hosts: self,
            number,
            server,
        }
    }

    /// Starts a master on its host.
    pub(crate) fn run(&self, options: &str, profile: &str) -> UperfMaster {
        run_on(&self.master, options, profile)
    }

    /// Takes the link to a slave away: not a word comes through, and nobody is told.
    pub(crate) fn cut(&self, number: usize) {
        self.slaves[number].ip("link set eth0 down");
    }

    /// Gives it back.
    pub(crate) fn mend(&self, number: usize) {
        self.slaves[number].ip("link set eth0 up");
        // Both ends take a while to believe it.
        let answers = || match TcpStream::connect((address(number), 9)) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionRefused,
        };
        let mended = self.master.enter(|| wait_until(SOON, answers));
        assert!(mended, "the link does not come up again");
    }
}

/// Starts a master on any host: `$h` and `$h1` is the first slave, `$h2` the second.
pub(crate) fn run_on(host: &Namespace, options: &str, profile: &str) -> UperfMaster {
    host.enter(|| UperfMaster::start(PORT, options, &[address(0), address(1)], profile))
}

/// A slave's host, as profiles name it.
pub(crate) fn address(number: usize) -> String {
    format!("198.18.{number}.2")
}

/// The master's host, as this slave's sees it.
pub(crate) fn master_address(number: usize) -> String {
    format!("198.18.{number}.1")
}

/// A slave that runs.
pub(crate) struct Slave<'a> {
    hosts: &'a Hosts,
    number: usize,
    server: Server,
}

impl Slave<'_> {
    /// What it has of the system when it serves nobody, but has served.
    pub(crate) fn at_rest(&self) -> ProcessUsage {
        self.serves();
        let mut last = self.server.usage();
        // The session ends just after its master.
        wait_until(SOON, || {
            std::thread::sleep(Duration::from_millis(100));
            std::mem::replace(&mut last, self.server.usage()) == last
        });
        last
    }

    /// Fails the test unless it is as it was at rest within so long, and serves the next master.
    #[track_caller]
    pub(crate) fn is_itself_again(&self, rest: ProcessUsage, patience: Duration, after: &str) {
        self.server.assert_usage_returns_to(rest, patience, after);
        assert!(!self.server.has_panicked(), "{}", self.server.stderr());
        let host = &self.hosts.slaves[self.number];
        let (listening, gates) = host.enter(|| (listener_count(), usize::from(is_listening(GATE))));
        assert_eq!(listening, 1 + gates, "after {after}: listeners are left");
        assert_eq!(
            host.processes(),
            [self.server.pid() as i32],
            "after {after}"
        );
        self.serves();
    }

    /// Fails the test unless a short run with it succeeds.
    #[track_caller]
    pub(crate) fn serves(&self) {
        let profile = Profile::new("short")
            .group("nthreads=2")
            .single_flowop("connect remotehost=$h protocol=tcp port=7000")
            .transaction("iterations=20", &["write size=64", "read size=64"])
            .single_flowop("disconnect")
            .text()
            .replace("$h", &address(self.number));
        let ended = self.hosts.run("", &profile).finish_within(A_RUN);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
    }

    /// Waits until somebody is served.
    #[track_caller]
    pub(crate) fn serves_somebody(&self, rest: ProcessUsage) {
        let begun = wait_until(SOON, || !self.server.usage().fits_within(rest));
        assert!(begun, "nobody is served");
    }

    /// Fails the test unless it has no more than at rest within so long.
    #[track_caller]
    pub(crate) fn is_at_rest_within(&self, patience: Duration, rest: ProcessUsage, after: &str) {
        self.server.assert_usage_returns_to(rest, patience, after);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.server.signal(signal);
    }

    /// Its resident memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.server.resident_kib()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.server.pid() as i32
    }

    pub(crate) fn stdout(&self) -> String {
        self.server.stdout()
    }

    pub(crate) fn stderr(&self) -> String {
        self.server.stderr()
    }
}
