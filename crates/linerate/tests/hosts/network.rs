//! One host for the master, and slave hosts with a link each to the master's host.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{
    Namespace, ProcessUsage, Profile, Server, UperfMaster, add_link, is_listening,
    linerate_with_args, listener_count, wait_until,
};

use super::relay::RELAY_PORT;

/// Control port of all slaves. Each namespace has its own ports.
pub(crate) const PORT: u16 = 20_000;

/// Timeout for an operation that is fast on an idle machine.
pub(crate) const SHORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a short run.
const RUN_TIMEOUT: Duration = Duration::from_secs(40);

/// The hosts. They exist until this is dropped.
pub(crate) struct Hosts {
    pub(crate) master: Namespace,
    pub(crate) slaves: Vec<Namespace>,
}

impl Hosts {
    /// Creates a master host and `slaves` slave hosts.
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
                    (&slave, "eth0", &format!("{}/24", slave_address(number))),
                );
                slave
            })
            .collect();
        Self { master, slaves }
    }

    /// Starts a slave on slave host `number`.
    pub(crate) fn start_slave(&self, number: usize, options: &str) -> Slave<'_> {
        self.start_slave_with(
            number,
            &linerate_with_args(&format!("uperf -s -P {PORT} {options}")),
        )
    }

    /// Starts a slave with `command` on slave host `number`.
    pub(crate) fn start_slave_with(&self, number: usize, command: &Command) -> Slave<'_> {
        let command = self.slaves[number].dependent_command(command);
        let server = Server::start_at(PORT, command);
        Slave {
            hosts: self,
            number,
            server,
        }
    }

    /// Starts a master on the master host.
    pub(crate) fn start_master(&self, options: &str, profile: &str) -> UperfMaster {
        start_master_on(&self.master, options, profile)
    }

    /// Cuts the link to a slave. The link drops all packets, and no host gets an error.
    pub(crate) fn cut_link(&self, number: usize) {
        self.slaves[number].ip("link set eth0 down");
    }

    /// Restores the link to a slave.
    pub(crate) fn restore_link(&self, number: usize) {
        self.slaves[number].ip("link set eth0 up");
        // The link carries packets only after a delay.
        let is_up = || match TcpStream::connect((slave_address(number), 9)) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionRefused,
        };
        let is_restored = self.master.enter(|| wait_until(SHORT_TIMEOUT, is_up));
        assert!(is_restored, "the link is still down");
    }
}

/// Starts a master on `host`. In the profile, `$h` and `$h1` are the first slave, `$h2` the second.
pub(crate) fn start_master_on(host: &Namespace, options: &str, profile: &str) -> UperfMaster {
    host.enter(|| {
        UperfMaster::start(
            PORT,
            options,
            &[slave_address(0), slave_address(1)],
            profile,
        )
    })
}

/// Returns the address of a slave host, as profiles use it.
pub(crate) fn slave_address(number: usize) -> String {
    format!("198.18.{number}.2")
}

/// Returns the address of the master host on the link to slave `number`.
pub(crate) fn master_address(number: usize) -> String {
    format!("198.18.{number}.1")
}

/// A running slave.
pub(crate) struct Slave<'a> {
    hosts: &'a Hosts,
    number: usize,
    server: Server,
}

impl Slave<'_> {
    /// Returns the usage of the slave when it is idle after a run.
    pub(crate) fn idle_usage(&self) -> ProcessUsage {
        self.assert_serves_run();
        let mut last_usage = self.server.usage();
        // The session ends shortly after its master.
        wait_until(SHORT_TIMEOUT, || {
            std::thread::sleep(Duration::from_millis(100));
            std::mem::replace(&mut last_usage, self.server.usage()) == last_usage
        });
        last_usage
    }

    /// Checks that the slave returns to `idle_usage` within `timeout`, leaves no listeners and
    /// processes behind, and serves the next master.
    #[track_caller]
    pub(crate) fn assert_cleaned_up_and_serves(
        &self,
        idle_usage: ProcessUsage,
        timeout: Duration,
        event: &str,
    ) {
        self.server
            .assert_usage_returns_to(idle_usage, timeout, event);
        assert!(!self.server.has_panicked(), "{}", self.server.stderr());
        let host = &self.hosts.slaves[self.number];
        let (listeners, relays) =
            host.enter(|| (listener_count(), usize::from(is_listening(RELAY_PORT))));
        assert_eq!(listeners, 1 + relays, "listeners remain after {event}");
        assert_eq!(
            host.processes(),
            [self.server.pid() as i32],
            "processes remain after {event}"
        );
        self.assert_serves_run();
    }

    /// Checks that a short run with the slave succeeds.
    #[track_caller]
    pub(crate) fn assert_serves_run(&self) {
        let profile = Profile::new("short")
            .group("nthreads=2")
            .single_flowop("connect remotehost=$h protocol=tcp port=7000")
            .transaction("iterations=20", &["write size=64", "read size=64"])
            .single_flowop("disconnect")
            .text()
            .replace("$h", &slave_address(self.number));
        let output = self
            .hosts
            .start_master("", &profile)
            .finish_within(RUN_TIMEOUT);
        assert_eq!(output.code, Some(0), "{output:#?}");
    }

    /// Waits until the slave serves a master.
    #[track_caller]
    pub(crate) fn wait_until_serving(&self, idle_usage: ProcessUsage) {
        let is_serving = wait_until(SHORT_TIMEOUT, || {
            !self.server.usage().fits_within(idle_usage)
        });
        assert!(is_serving, "the slave serves no master");
    }

    /// Checks that the slave returns to `idle_usage` within `timeout`.
    #[track_caller]
    pub(crate) fn assert_usage_returns_to(
        &self,
        timeout: Duration,
        idle_usage: ProcessUsage,
        event: &str,
    ) {
        self.server
            .assert_usage_returns_to(idle_usage, timeout, event);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.server.signal(signal);
    }

    /// Returns the current number of descriptors and threads.
    pub(crate) fn usage(&self) -> ProcessUsage {
        self.server.usage()
    }

    /// Returns the resident memory in KiB.
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
