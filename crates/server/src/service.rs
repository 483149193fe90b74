//! The state shared by the servers of one process: client admission, limits and the stop.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::{Budget, Exceeded, Holder, Share, Stop};
use model::with_defaults;
use sys::Address;

use crate::Network;
use crate::registry::{Log, Registry, Running, Test};

/// The interval at which the watcher compares the running tests with the limits.
const TICK: Duration = Duration::from_millis(200);

/// The allowed burst of an address, as a duration at its maximum rate.
const BURST: Duration = Duration::from_secs(1);

/// The extra time of a test beyond [`Limits::length`], for its start and its end.
const GRACE: Duration = Duration::from_secs(10);

with_defaults! {
    /// The clients that a server accepts, and the effect of a stop on them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ServerConfig {
        /// `--allow-peers`: the networks that clients may connect from; empty for any address.
        pub networks: Vec<Network> = Vec::new(),
        /// `--max-clients`, `--max-masters`: the maximum number of control connections at a time. One address gets at
        /// most 15/16.
        pub clients: u32 = 1024,
        /// `--drain-on-exit`: the time for which running tests may continue after a stop.
        pub drain: Duration = Duration::ZERO,
        /// Whether to serve one client at a time while others wait.
        pub serial: bool = false,
        /// The limits of `linerate serve`; otherwise none.
        pub limits: Limits = Limits::default(),
    }
}

/// Limits for one address. The first 64 bits of an IPv6 address count as one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of tests at a time.
    pub tests: Option<u32>,
    /// The maximum total payload rate of its tests in bits per second, in both directions.
    pub rate: Option<u64>,
    /// The maximum duration of a test.
    pub length: Option<Duration>,
    /// Networks of addresses that may receive more than three times the bytes that they sent, although their address is
    /// unproven; `None` means all.
    pub unproven: Option<Vec<Network>>,
}

impl ServerConfig {
    /// Whether clients may come from this address.
    pub fn admits(&self, peer: &Address) -> bool {
        self.networks.is_empty() || is_in(peer, &self.networks)
    }
}

fn is_in(peer: &Address, networks: &[Network]) -> bool {
    peer.ip()
        .is_some_and(|ip| networks.iter().any(|network| network.contains(ip)))
}

/// The state shared by the servers of one process.
#[derive(Clone, Debug)]
pub struct Service(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: RwLock<Arc<ServerConfig>>,
    clients: Budget,
    running: Registry,
    stop: Stop,
    cut: Stop,
}

impl Service {
    /// A service that accepts clients until `stop`.
    pub fn new(config: ServerConfig, stop: Stop) -> Self {
        Self::with_log(config, stop, None)
    }

    /// Creates the same, and logs a record of each finished test.
    pub fn with_log(config: ServerConfig, stop: Stop, log: Option<Log>) -> Self {
        Self(Arc::new(Inner {
            clients: Budget::new(config.clients.into()),
            running: Registry::new(log),
            cut: stop.follower_after(config.drain),
            config: RwLock::new(Arc::new(config)),
            stop,
        }))
    }

    /// Prevents new tests.
    pub fn stop(&self) -> &Stop {
        &self.0.stop
    }

    /// Ends running tests, after the stop and the time to drain.
    pub fn cut(&self) -> &Stop {
        &self.0.cut
    }

    /// Returns the running tests.
    pub fn running(&self) -> &Registry {
        &self.0.running
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> Arc<ServerConfig> {
        let config = self.0.config.read();
        Arc::clone(&config.unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the networks and the limits. All other settings remain as they were at the start.
    pub fn reload(&self, config: ServerConfig) {
        let mut current = self
            .0
            .config
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(config);
    }

    /// Assigns a place to a client.
    pub fn admit(&self, peer: &Address) -> Result<Place, Refusal> {
        let config = self.config();
        if !config.admits(peer) {
            return Err(Refusal::Network);
        }
        let place = self.0.clients.take(Holder::of(peer), 1);
        let share = place.map_err(|exceeded| match exceeded {
            Exceeded::Holder { .. } => Refusal::AddressFull(config.clients),
            _ => Refusal::Full(config.clients),
        })?;
        Ok(Place {
            share: Some(share),
            clients: self.0.clients.clone(),
        })
    }

    /// Starts a test, which runs until the result is dropped. `cut` ends it early, by the dialect's own means.
    pub fn begin(
        &self,
        dialect: &str,
        peer: &Address,
        test: Test,
        cut: &Stop,
    ) -> Result<Arc<Running>, Refusal> {
        let limits = &self.config().limits;
        if let (Some(most), Some(asked)) = (limits.length, test.length)
            && asked > most
        {
            return Err(Refusal::Long(most));
        }
        (self.0.running).enter((dialect, peer), test, cut, limits)
    }

    /// Whether a peer may receive more than three times the bytes that it sent, although its address is unproven.
    pub fn may_amplify(&self, peer: &Address) -> bool {
        let config = self.config();
        let networks = config.limits.unproven.as_ref();
        networks.is_none_or(|networks| is_in(peer, networks))
    }

    /// Starts the thread that ends tests beyond their limits and updates the rates of the status.
    pub fn watch(&self) -> io::Result<()> {
        let service = self.clone();
        let watcher = std::thread::Builder::new().name("watcher".to_owned());
        watcher.spawn(move || service.watch_until_cut()).map(drop)
    }

    fn watch_until_cut(&self) {
        let mut last = Instant::now();
        while !self.0.cut.is_set() {
            std::thread::sleep(TICK);
            self.compare(std::mem::replace(&mut last, Instant::now()).elapsed());
        }
    }

    /// Ends the tests that exceed a limit. `passed` is the time since the previous call.
    fn compare(&self, passed: Duration) {
        let Limits { rate, length, .. } = self.config().limits;
        let allowed = |time: Duration| {
            let bytes = |rate| (rate as f64 / 8.0 * time.as_secs_f64()) as u64;
            rate.map_or(u64::MAX, bytes)
        };
        let fast = self.0.running.measure(allowed(passed), allowed(BURST));
        for test in fast {
            test.cut_for(&Refusal::Fast(rate.unwrap_or(0)));
        }
        let Some(most) = length else {
            return;
        };
        for test in self.0.running.tests() {
            if test.elapsed() > most + GRACE {
                test.cut_for(&Refusal::Long(most));
            }
        }
    }
}

/// A client's place, released when dropped.
#[derive(Debug)]
pub struct Place {
    /// `None` only during the drop.
    share: Option<Share>,
    clients: Budget,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.share = None;
        // Otherwise the allocator would keep the memory freed by many clients.
        if self.clients.used() == 0 {
            sys::process::release_freed_memory();
        }
    }
}

/// The reason why a server refuses a client or ends it early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The address is outside the networks of `--allow-peers`.
    Network,
    /// All places are taken; the value is their number.
    Full(u32),
    /// The address holds the maximum share of this number of places.
    AddressFull(u32),
    /// The address already has this number of tests: [`Limits::tests`].
    Tests(u32),
    /// The test exceeds this duration: [`Limits::length`].
    Long(Duration),
    /// The address exceeds this rate: [`Limits::rate`].
    Fast(u64),
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("no network of --allow-peers has its address"),
            Self::Full(1) => f.write_str("the only place is taken"),
            Self::Full(places) => write!(f, "all {places} places are taken"),
            Self::AddressFull(places) => {
                write!(
                    f,
                    "all places for one address are taken, of {places} in all"
                )
            }
            Self::Tests(most) => write!(f, "limit of {most} tests at a time per address"),
            Self::Long(most) => write!(f, "limit of {} s per test", most.as_secs()),
            Self::Fast(most) => write!(f, "limit of {most} bit/s per address"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_places_to_others() {
        let config = ServerConfig {
            clients: 32,
            networks: vec![Network::parse("10.0.0.0/8").unwrap()],
            ..ServerConfig::default()
        };
        let service = Service::new(config, Stop::new());
        let place = |from: &str| service.admit(&Address::Inet(from.parse().unwrap()));
        assert_eq!(place("192.0.2.1:1").unwrap_err(), Refusal::Network);
        let taken: Vec<_> = (0..30).map(|_| place("10.0.0.1:1").unwrap()).collect();
        let refusal = place("10.0.0.1:1").unwrap_err();
        assert_eq!(refusal, Refusal::AddressFull(32));
        let _others = [place("10.0.0.2:1").unwrap(), place("10.0.0.3:1").unwrap()];
        assert_eq!(place("10.0.0.4:1").unwrap_err(), Refusal::Full(32));
        drop(taken);
        service.reload(ServerConfig::default());
        assert!(place("192.0.2.1:1").is_ok());
    }

    #[test]
    fn networks_have_no_vsock() {
        let mut config = ServerConfig::default();
        let vsock = Address::Vsock {
            context: 3,
            port: 1,
        };
        let inet = Address::Inet("[::ffff:10.1.2.3]:1".parse().unwrap());
        assert!(config.admits(&vsock) && config.admits(&inet));
        config.networks = vec![Network::parse("10.0.0.0/8").unwrap()];
        assert!(!config.admits(&vsock) && config.admits(&inet));
    }
}
