//! The state shared by the servers of one process: client admission, limits and the stop.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::{
    BudgetExceeded, BudgetHolder, BudgetShare, Resource, ResourceAmounts, ResourceBudget,
    ResourceExceeded, ResourceShare, SharedBudget, Stop,
};
use model::with_defaults;
use sys::Address;
use sys::call::Error;

use crate::freed_memory::release_freed_memory_soon;
use crate::registry::{ClientTest, RecordWriter, Registry, RunningTest};
use crate::third_party::LocalLinks;
use crate::{Network, ThirdParties};

/// The resources of a client's session: its thread, its control connection or UDP flow, and memory
/// for the used part of its stack and for its messages.
const SESSION_RESOURCES: ResourceAmounts = ResourceAmounts {
    threads: 1,
    streams: 0,
    descriptors: 1,
    memory_bytes: 32 << 10,
};

/// The interval at which the watcher compares the running tests with the limits.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// The slots of clients with an unproven address are this part of `max_clients`, and one network
/// gets this part of them.
const UNPROVEN_DIVISOR: u32 = 4;
const UNPROVEN_NETWORK_DIVISOR: u64 = 16;

/// The threads of a client with an unproven address: its session, and a flow.
const UNPROVEN_THREADS: u64 = 2;

/// The descriptors of such a client: its session, and two of each of two flows.
const UNPROVEN_DESCRIPTORS: u64 = 5;

/// This part of the slots for unproven clients is for continuous senders.
const CONTINUOUS_DIVISOR: u64 = 4;

/// The time that a test may take beyond [`AddressLimits::max_duration`], for its start and its end.
const GRACE_TIME: Duration = Duration::from_secs(10);

with_defaults! {
    /// The clients that a server accepts, and the effect of a stop on them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ServerConfig {
        /// `--allow-peers`: the networks that clients may connect from; empty for any address.
        pub networks: Vec<Network> = Vec::new(),
        /// `--max-clients`, `--max-masters`: the maximum number of control connections at a time.
        /// One address gets at most 15/16.
        pub max_clients: u32 = 1024,
        /// `--allow-third-party`: the addresses that may receive more than
        /// [`MAX_AMPLIFICATION`](crate::MAX_AMPLIFICATION) times the bytes that they sent, although
        /// they are unproven.
        pub third_parties: ThirdParties = ThirdParties::default(),
        /// `--drain-on-exit`: the time for which running tests may continue after a stop.
        pub drain_time: Duration = Duration::ZERO,
        /// Whether clients of several dialects share the slots. Clients with an unproven address
        /// then have slots of their own: see [`Service::admit_unproven`].
        pub is_shared: bool = false,
        /// Whether to serve one client at a time while others wait.
        pub serves_one_at_a_time: bool = false,
        /// The limits of `linerate serve`; other servers have none.
        pub limits: AddressLimits = AddressLimits::default(),
    }
}

/// Limits for one address. The first 64 bits of an IPv6 address count as one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressLimits {
    /// The maximum number of tests at a time.
    pub max_tests: Option<u32>,
    /// The maximum total payload rate of its tests in bits per second, in both directions. An
    /// address that exceeds it gets no new test until its bytes fit the rate again.
    pub max_bits_per_second: Option<u64>,
    /// The maximum duration of a test.
    pub max_duration: Option<Duration>,
}

impl AddressLimits {
    /// Returns the number of bytes that an address may move in `time` at its maximum rate.
    pub(crate) fn allowed_bytes(&self, time: Duration) -> u64 {
        self.max_bits_per_second.map_or(u64::MAX, |rate| {
            (rate as f64 / 8.0 * time.as_secs_f64()) as u64
        })
    }
}

impl ServerConfig {
    /// Returns whether clients may connect from this address.
    pub fn admits(&self, peer: &Address) -> bool {
        let is_in = |network: &Network| peer.ip().is_some_and(|ip| network.contains(ip));
        self.networks.is_empty() || self.networks.iter().any(is_in)
    }
}

/// The state shared by the servers of one process.
#[derive(Clone, Debug)]
pub struct Service(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: RwLock<Arc<ServerConfig>>,
    clients: SharedBudget,
    /// The slots of clients with an unproven address.
    unproven_clients: SharedBudget,
    /// The part of them for clients that are not continuous senders.
    burst_clients: SharedBudget,
    local_links: LocalLinks,
    running: Registry,
    stop: Stop,
    cancel_stop: Stop,
}

impl Service {
    /// Creates a service that accepts clients until `stop` is set.
    pub fn new(config: ServerConfig, stop: Stop) -> Self {
        Self::with_log(config, stop, None)
    }

    /// Creates a service like [`Self::new`] that also logs a record of each finished test.
    pub fn with_log(config: ServerConfig, stop: Stop, write_record: Option<RecordWriter>) -> Self {
        // Clients choose the sizes of buffers, which raise the allocator's own limits.
        sys::process::limit_memory_kept_by_allocator();
        // The first use of the budget raises the limit of descriptors.
        let budget = ResourceBudget::process();
        let clients = SharedBudget::new(config.max_clients.into());
        let unproven_clients = if config.is_shared {
            let slots = u64::from(config.max_clients / UNPROVEN_DIVISOR);
            let per_network = (slots / UNPROVEN_NETWORK_DIVISOR).max(1);
            // A slot whose client finds no thread or descriptor is of no use: only a lack of slots
            // ends a silent test, and leaves a part to continuous senders.
            let per_resource = [
                (&budget.threads, UNPROVEN_THREADS),
                (&budget.descriptors, UNPROVEN_DESCRIPTORS),
            ];
            let usable =
                per_resource.map(|(budget, each)| budget.maximum(BudgetHolder::Unproven) / each);
            let total = usable.into_iter().fold(slots, u64::min).max(1);
            SharedBudget::with_bounds(total, per_network.min(total))
        } else {
            clients.clone()
        };
        Self(Arc::new(Inner {
            burst_clients: SharedBudget::leaving(&unproven_clients, CONTINUOUS_DIVISOR),
            clients,
            unproven_clients,
            local_links: LocalLinks::default(),
            running: Registry::new(write_record),
            cancel_stop: stop.child_after(config.drain_time),
            config: RwLock::new(Arc::new(config)),
            stop,
        }))
    }

    /// Returns the stop that prevents new tests.
    pub fn stop(&self) -> &Stop {
        &self.0.stop
    }

    /// Returns the stop that ends running tests, after [`Self::stop`] and the time to drain.
    pub fn cancel_stop(&self) -> &Stop {
        &self.0.cancel_stop
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

    /// Replaces the configuration. A running server observes changes of networks and limits only.
    pub fn reload(&self, config: ServerConfig) {
        let mut current = self
            .0
            .config
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(config);
    }

    /// Admits a client, or returns the reason for the refusal.
    pub fn admit(&self, peer: &Address) -> Result<ClientSlot, Refusal> {
        let config = self.config();
        if !config.admits(peer) {
            return Err(Refusal::AddressNotAllowed);
        }
        let slot = self.0.clients.reserve(BudgetHolder::for_address(peer), 1);
        let share = slot.map_err(|exceeded| match exceeded {
            BudgetExceeded::Holder { .. } => Refusal::AddressFull(config.max_clients),
            _ => Refusal::Full(config.max_clients),
        })?;
        ClientSlot::charge(self.resource_holder(peer, false), share, false)
    }

    /// Admits a client whose address may be forged. In a shared service, it gets none of the slots of
    /// [`Self::admit`]: there are a quarter as many slots for such clients, and one /24 or /64 gets
    /// at most 1/16 of these.
    ///
    /// A quarter of the slots is for continuous senders, so that bursts of forged datagrams cannot
    /// take all.
    pub fn admit_unproven(
        &self,
        peer: &Address,
        is_continuous: bool,
    ) -> Result<ClientSlot, Refusal> {
        let config = self.config();
        if !config.admits(peer) {
            return Err(Refusal::AddressNotAllowed);
        }
        let slots = if is_continuous {
            &self.0.unproven_clients
        } else {
            &self.0.burst_clients
        };
        let address = BudgetHolder::for_address(peer);
        let holder = if config.is_shared {
            address.network()
        } else {
            address
        };
        let share =
            slots
                .reserve(holder, 1)
                .map_err(|exceeded| match (exceeded, config.is_shared) {
                    (BudgetExceeded::Holder { .. }, true) => Refusal::UnprovenNetworkFull,
                    (_, true) => Refusal::UnprovenFull,
                    (BudgetExceeded::Holder { .. }, false) => {
                        Refusal::AddressFull(config.max_clients)
                    }
                    (_, false) => Refusal::Full(config.max_clients),
                })?;
        ClientSlot::charge(self.resource_holder(peer, true), share, true)
    }

    /// Returns whom the threads, descriptors and sessions of a client are charged to.
    fn resource_holder(&self, peer: &Address, is_unproven: bool) -> BudgetHolder {
        if is_unproven && self.config().is_shared {
            BudgetHolder::Unproven
        } else {
            BudgetHolder::for_address(peer)
        }
    }

    /// Returns the slot of a client that has now proved its address.
    pub fn admit_proven(
        &self,
        peer: &Address,
        mut slot: ClientSlot,
    ) -> Result<ClientSlot, Refusal> {
        if self.config().is_shared {
            return self.admit(peer);
        }
        slot.is_unproven = false;
        Ok(slot)
    }

    /// Ends the unproven test that has been silent for longest, if `refusal` means that its slot would
    /// be of use to a client of this address. The client's next request finds the slot free. Returns
    /// whether there is such a test.
    pub fn end_silent_test(&self, peer: &Address, refusal: &Refusal) -> bool {
        let holder = BudgetHolder::for_address(peer);
        let running = &self.0.running;
        let test = match refusal {
            Refusal::Full(_) | Refusal::UnprovenFull => running.most_silent_unproven(|_| true),
            Refusal::AddressFull(_) => running.most_silent_unproven(|address| address == holder),
            Refusal::UnprovenNetworkFull => {
                running.most_silent_unproven(|address| address.network() == holder.network())
            }
            _ => None,
        };
        if let Some(test) = &test {
            test.cancel_for(&Refusal::Silent);
        }
        test.is_some()
    }

    /// Registers a test. It counts as running until the returned value is dropped. The service sets
    /// `cancel_stop` if the test exceeds a limit.
    pub fn begin(
        &self,
        dialect: &str,
        peer: &Address,
        test: ClientTest,
        cancel_stop: &Stop,
    ) -> Result<Arc<RunningTest>, Refusal> {
        let limits = &self.config().limits;
        if let (Some(max_duration), Some(requested)) = (limits.max_duration, test.duration)
            && requested > max_duration
        {
            return Err(Refusal::TooLong(max_duration));
        }
        let charged_to = self.resource_holder(peer, test.is_unproven);
        (self.0.running).register((dialect, peer), test, cancel_stop, limits, charged_to)
    }

    /// Returns whether a peer may receive more than
    /// [`MAX_AMPLIFICATION`](crate::MAX_AMPLIFICATION) times the bytes that it sent, although its
    /// address is unproven: an address of this host or of its links, or one that the operator
    /// allows.
    pub fn may_amplify(&self, peer: &Address) -> bool {
        self.config().third_parties.contain(peer) || self.0.local_links.contain(peer)
    }

    /// Starts the thread that ends tests beyond their limits and measures the current rates.
    pub fn start_limit_enforcer(&self) -> io::Result<()> {
        self.0.running.enable_limits();
        let service = self.clone();
        let watcher = std::thread::Builder::new().name("watcher".to_owned());
        watcher
            .spawn(move || service.watch_until_cancelled())
            .map(drop)
    }

    fn watch_until_cancelled(&self) {
        let mut last = Instant::now();
        while !self.0.cancel_stop.is_set() {
            std::thread::sleep(WATCH_INTERVAL);
            self.enforce_limits(std::mem::replace(&mut last, Instant::now()).elapsed());
        }
    }

    /// Ends the tests that exceed a limit. `elapsed` is the time since the previous call.
    fn enforce_limits(&self, elapsed: Duration) {
        let limits = &self.config().limits;
        for test in self.0.running.update_rates(limits, elapsed) {
            test.cancel_for(&Refusal::TooFast(limits.max_bits_per_second.unwrap_or(0)));
        }
        let Some(max_duration) = limits.max_duration else {
            return;
        };
        for test in self.0.running.tests() {
            if test.elapsed() > max_duration + GRACE_TIME {
                test.cancel_for(&Refusal::TooLong(max_duration));
            }
        }
    }
}

/// A client's share of the maximum number of clients. Dropping it releases the share.
#[derive(Debug)]
pub struct ClientSlot {
    is_unproven: bool,
    _share: BudgetShare,
    _resources: ResourceShare,
}

impl ClientSlot {
    /// Returns a slot for a client with this share, and charges `holder` for a session.
    fn charge(
        holder: BudgetHolder,
        share: BudgetShare,
        is_unproven: bool,
    ) -> Result<Self, Refusal> {
        let resources = ResourceBudget::process()
            .reserve(holder, SESSION_RESOURCES)
            .map_err(|exceeded| Refusal::for_resources(holder, exceeded))?;
        Ok(Self {
            is_unproven,
            _share: share,
            _resources: resources,
        })
    }

    /// Returns whether the client's address may be forged: see [`Service::admit_unproven`].
    pub fn is_unproven(&self) -> bool {
        self.is_unproven
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        release_freed_memory_soon();
    }
}

/// The reason why a server refuses a client or ends its test early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The address is outside the networks of `--allow-peers`.
    AddressNotAllowed,
    /// The maximum number of clients is reached.
    Full(u32),
    /// The address has its maximum share of this number of clients.
    AddressFull(u32),
    /// The process or the address has used up a resource.
    NoResources(ResourceExceeded),
    /// All slots for clients with an unproven address are taken.
    UnprovenFull,
    /// Clients with an unproven address of the same network have their share of the slots.
    UnprovenNetworkFull,
    /// The unproven client has been silent, and another one needed its slot.
    Silent,
    /// The address already has this number of tests: [`AddressLimits::max_tests`].
    TooManyTests(u32),
    /// The test exceeds this duration: [`AddressLimits::max_duration`].
    TooLong(Duration),
    /// The address exceeds this rate: [`AddressLimits::max_bits_per_second`].
    TooFast(u64),
    /// The earlier tests of the address moved more than this rate allows:
    /// [`AddressLimits::max_bits_per_second`].
    RateUsedUp {
        /// The rate in bits per second.
        rate: u64,
        /// The time until the address may start a test.
        seconds: u64,
    },
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// Returns the refusal of a client whose resources would be charged to `holder`.
    pub(crate) fn for_resources(holder: BudgetHolder, exceeded: ResourceExceeded) -> Self {
        match holder {
            BudgetHolder::Unproven => Self::UnprovenFull,
            _ => Self::NoResources(exceeded),
        }
    }

    /// Returns the system's error for a protocol whose messages have only a number.
    pub fn error(&self) -> Error {
        match self {
            Self::AddressNotAllowed => Error::ACCESS,
            Self::NoResources(exceeded) => match exceeded.resource {
                Resource::Threads => Error::AGAIN,
                Resource::Memory => Error::NOMEM,
                Resource::Streams | Resource::Descriptors => Error::MFILE,
            },
            _ => Error::DQUOT,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressNotAllowed => {
                f.write_str("its address is not in a network of --allow-peers")
            }
            Self::Full(1) => f.write_str("the maximum of 1 client is reached"),
            Self::Full(clients) => write!(f, "the maximum of {clients} clients is reached"),
            Self::AddressFull(clients) => {
                write!(
                    f,
                    "its address has reached its share of the maximum of {clients} clients"
                )
            }
            Self::NoResources(exceeded) => write!(f, "{exceeded}"),
            Self::UnprovenFull => f.write_str("the maximum of unproven addresses is reached"),
            Self::UnprovenNetworkFull => {
                f.write_str("its network has reached its share of the unproven addresses")
            }
            Self::Silent => f.write_str("it was silent, and another client needed its slot"),
            Self::TooManyTests(max) => write!(f, "limit of {max} tests at a time per address"),
            Self::TooLong(max) => write!(f, "limit of {} s per test", max.as_secs()),
            Self::TooFast(max) => write!(f, "limit of {max} bit/s per address"),
            Self::RateUsedUp { rate, seconds } => write!(
                f,
                "earlier tests exceeded the limit of {rate} bit/s per address; \
                 try again in {seconds} s"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn one_address_leaves_slots_to_others() {
        let config = ServerConfig {
            max_clients: 32,
            networks: vec![Network::parse("10.0.0.0/8").unwrap()],
            ..ServerConfig::default()
        };
        let service = Service::new(config, Stop::new());
        let admit = |from: &str| service.admit(&Address::Inet(from.parse().unwrap()));
        assert_eq!(
            admit("192.0.2.1:1").unwrap_err(),
            Refusal::AddressNotAllowed
        );
        let taken: Vec<_> = (0..30).map(|_| admit("10.0.0.1:1").unwrap()).collect();
        let refusal = admit("10.0.0.1:1").unwrap_err();
        assert_eq!(refusal, Refusal::AddressFull(32));
        let _others = [admit("10.0.0.2:1").unwrap(), admit("10.0.0.3:1").unwrap()];
        assert_eq!(admit("10.0.0.4:1").unwrap_err(), Refusal::Full(32));
        drop(taken);
        service.reload(ServerConfig::default());
        assert!(admit("192.0.2.1:1").is_ok());
    }

    /// Held by tests that use up the resources of unproven clients.
    static UNPROVEN_RESOURCES: Mutex<()> = Mutex::new(());

    #[test]
    fn each_unproven_client_can_begin_its_test() {
        let _lock = UNPROVEN_RESOURCES.lock();
        let config = ServerConfig {
            max_clients: 1 << 16,
            is_shared: true,
            ..ServerConfig::default()
        };
        let service = Service::new(config, Stop::new());
        let stop = Stop::new();
        let mut tests = Vec::new();
        for network in 0..=u8::MAX {
            let from = Address::Inet(([10, 0, network, 1], 1).into());
            while let Ok(slot) = service.admit_unproven(&from, true) {
                // A test of iperf 2 in both directions.
                let test = ClientTest {
                    resources: ResourceAmounts {
                        threads: 1,
                        streams: 2,
                        descriptors: 4,
                        memory_bytes: 0,
                    },
                    is_unproven: true,
                    ..ClientTest::default()
                };
                let begun = service.begin("iperf", &from, test, &stop);
                tests.push((slot, begun.unwrap()));
            }
        }
        assert!(!tests.is_empty());
    }

    #[test]
    fn unproven_clients_have_slots_of_their_own() {
        let _lock = UNPROVEN_RESOURCES.lock();
        let config = ServerConfig {
            max_clients: 256,
            is_shared: true,
            ..ServerConfig::default()
        };
        let service = Service::new(config, Stop::new());
        let address = |text: String| Address::Inet(text.parse().unwrap());
        let mut taken = Vec::new();
        // Bursts leave a quarter of the slots, and of those of each network, to continuous senders.
        for (is_continuous, hosts) in [(false, 1..=3), (true, 4..=4)] {
            for network in 0..16 {
                for host in hosts.clone() {
                    let from = address(format!("10.0.{network}.{host}:1"));
                    taken.push(service.admit_unproven(&from, is_continuous).unwrap());
                }
                if network < 15 {
                    let from = address(format!("10.0.{network}.5:1"));
                    let refusal = service.admit_unproven(&from, is_continuous).unwrap_err();
                    assert_eq!(refusal, Refusal::UnprovenNetworkFull);
                }
            }
            let from = address("192.0.2.1:1".to_owned());
            let refusal = service.admit_unproven(&from, is_continuous).unwrap_err();
            assert_eq!(refusal, Refusal::UnprovenFull);
        }
        let from = address("192.0.2.1:1".to_owned());
        let charged = ResourceBudget::process()
            .threads
            .used_by(BudgetHolder::Unproven);
        assert!(charged >= 64, "{charged}");
        for _ in 0..240 {
            taken.push(service.admit(&from).unwrap());
        }
    }

    #[test]
    fn networks_do_not_contain_vsock_addresses() {
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
