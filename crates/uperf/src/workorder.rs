//! What is to be run, in uperf's terms: what a profile says, and what a slave is asked for.

use std::time::Duration;

pub use model::{Amount, Transfer};

use crate::words::words;

/// A whole profile; of a slave, the one group that its master asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workorder {
    /// The profile's name, of the start line; may be empty.
    pub name: String,
    /// In the order of the profile.
    pub groups: Vec<Group>,
}

/// Strands that all do the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// `name=`, or `Group0`, `Group1`, …
    pub name: String,
    /// How many do it, and what they are.
    pub strands: Strands,
    /// One after the other, with a barrier of all groups before each.
    pub transactions: Vec<Transaction>,
}

impl Group {
    /// One with a transaction of these.
    #[cfg(test)]
    pub(crate) fn of(flowops: impl IntoIterator<Item = Flowop>) -> Self {
        let transaction = Transaction {
            iterations: 1,
            flowops: flowops.into_iter().collect(),
            ..Transaction::default()
        };
        Self {
            transactions: vec![transaction],
            ..Self::default()
        }
    }

    /// The flowops of all transactions, in order.
    pub fn flowops(&self) -> impl Iterator<Item = &Flowop> {
        self.transactions.iter().flat_map(|txn| &txn.flowops)
    }

    /// The flowops that open connections.
    pub fn openings(&self) -> impl Iterator<Item = &Flowop> {
        self.flowops().filter(|flowop| flowop.kind.opens())
    }
}

/// `nthreads=`, `nprocs=`. With both the last count is in force, the strands are processes, and both
/// words are in the start line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strands {
    /// How many.
    pub count: u32,
    /// `nthreads=` was there.
    pub threads: bool,
    /// `nprocs=` was there.
    pub processes: bool,
}

/// A list of flowops that is repeated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction {
    /// How often, where no duration ends it. 1 unless the profile says; 0 only takes part in the barrier.
    pub iterations: u64,
    /// How long; in force before [`Self::iterations`].
    pub duration: Option<Duration>,
    /// Executions a second and strand, 0 for as fast as it goes; only with a duration.
    pub rate: u32,
    /// The rate as it was written.
    pub rate_text: String,
    /// One after the other.
    pub flowops: Vec<Flowop>,
}

impl Transaction {
    /// Whether it has a flowop of such a kind.
    pub fn has(&self, is: fn(Kind) -> bool) -> bool {
        self.flowops.iter().any(|flowop| is(flowop.kind))
    }

    /// Whether it takes what comes for as long as it lasts, and does nothing else.
    pub fn only_receives(&self) -> bool {
        let mut all = self.flowops.iter().map(|flowop| flowop.kind);
        self.duration.is_some()
            && self.has(Kind::receives)
            && all.all(|kind| kind.receives() || kind == Kind::Nop)
    }
}

/// One operation, and how it is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Flowop {
    /// What is done.
    pub kind: Kind,
    /// `count=`: executions a pass; 0 does nothing.
    pub count: u64,
    /// What an execution moves, as the engine takes it: `size=`, 0 where the profile does not say (of sendfile the
    /// chunk, 0 the whole file); `repeat=` (UDP and SCTP); `timeout=`, `poll_timeout=`, which is for accepts too.
    pub transfer: Transfer,
    /// `batch_size=`: messages a call (SCTP, UDP).
    pub batch_size: u64,
    /// `rsize=`, what the slave does with, 0 for the same.
    pub slave_size: u32,
    /// `conn=`; 0 is anonymous.
    pub connection: u32,
    /// Words without a value.
    pub flags: Flags,
    /// `duration=`, of think.
    pub duration: Duration,
    /// `remotehost=`, `protocol=` and what else is said of a connection.
    pub endpoint: Endpoint,
    /// `nfiles=`: files a call of sendfilev.
    pub files: u32,
    /// `dir=`: what sendfile sends; empty where there is none.
    pub directory: String,
    /// Bytes of its longest execution, of sendfile and sendfilev, where the slave is to read as many.
    pub file_bytes: Option<u32>,
}

/// What a connection is opened with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Endpoint {
    /// `protocol=`; a connect or accept must have one.
    pub protocol: Option<Protocol>,
    /// `remotehost=`, empty where there is none. Of any other flowop than connect and accept: the slave
    /// that takes part in it.
    pub remote_host: String,
    /// `localhost=`, empty where there is none.
    pub local_host: String,
    /// `port=` of the listening side, 0 for any.
    pub port: u32,
    /// `wndsz=`, bytes of SO_SNDBUF and SO_RCVBUF, 0 for the system's.
    pub window: u64,
    /// `cc=`: TCP_CONGESTION, empty for the system's.
    pub congestion_control: String,
    /// `stack=`: the TCP stack (FreeBSD), empty for the system's.
    pub stack: String,
    /// `bblog=`: TCP black-box logging (FreeBSD).
    pub black_box_log: u32,
    /// `encaps=`: the port of the UDP encapsulation, 0 for none.
    pub encapsulation_port: u32,
    /// `sctp_*=`.
    pub sctp: Sctp,
    /// `engine=` (SSL).
    pub engine: String,
    /// `cipher=` (SSL).
    pub cipher: String,
    /// `method=` (SSL).
    pub method: String,
}

/// SCTP's own options; 0 and empty are the system's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sctp {
    /// `sctp_rto_min=`, ms.
    pub rto_min_ms: u32,
    /// `sctp_rto_max=`, ms.
    pub rto_max_ms: u32,
    /// `sctp_rto_initial=`, ms.
    pub rto_initial_ms: u32,
    /// `sctp_sack_delay=`, ms.
    pub sack_delay_ms: u32,
    /// `sctp_sack_frequency=`, packets.
    pub sack_frequency: u32,
    /// `sctp_max_burst_size=`, packets.
    pub max_burst: u32,
    /// `sctp_max_fragment_size=`, bytes.
    pub max_fragment_bytes: u32,
    /// `sctp_hb_interval=`, ms.
    pub heartbeat_ms: u32,
    /// `sctp_path_mtu=`, bytes.
    pub path_mtu_bytes: u32,
    /// `sctp_out_streams=`.
    pub out_streams: u16,
    /// `sctp_in_streams=`.
    pub in_streams: u16,
    /// `sctp_stream_id=`.
    pub stream: u16,
    /// `sctp_pr_policy=`: `ttl`, `rtx` or `buf`; uperf ignores any other word.
    pub partial_reliability: String,
    /// `sctp_pr_value=`.
    pub partial_reliability_value: u32,
}

words! {
    /// What a flowop does, by its number on the wire.
    pub enum Kind {
        /// Receives with read(2).
        Read = 1 "read",
        /// Sends with write(2).
        Write = 2 "write",
        /// Opens a connection to the other end.
        Connect = 3 "connect",
        /// Closes one.
        Disconnect = 4 "disconnect",
        /// Waits for one from the other end.
        Accept = 5 "accept",
        /// Nothing.
        Nop = 6 "nop",
        /// Sleeps, or spins.
        Think = 7 "think",
        /// Sends with send(2).
        Send = 8 "send",
        /// Receives with recv(2).
        Recv = 9 "recv",
        /// Sends several files.
        Sendfilev = 10 "sendfilev",
        /// Sends a file.
        Sendfile = 11 "sendfile",
    }
}

impl Kind {
    /// The one of this number.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// What the other end does meanwhile.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write | Self::Sendfile | Self::Sendfilev => Self::Read,
            Self::Connect => Self::Accept,
            Self::Accept => Self::Connect,
            Self::Send => Self::Recv,
            Self::Recv => Self::Send,
            Self::Disconnect | Self::Nop | Self::Think => self,
        }
    }

    /// Whether it moves bytes over a connection.
    pub fn transfers(self) -> bool {
        self.sends() || self.receives()
    }

    /// Whether it sends.
    pub fn sends(self) -> bool {
        matches!(self, Self::Write | Self::Send) || self.sends_files()
    }

    /// Whether it receives.
    pub fn receives(self) -> bool {
        matches!(self, Self::Read | Self::Recv)
    }

    /// Whether it sends files.
    pub fn sends_files(self) -> bool {
        matches!(self, Self::Sendfile | Self::Sendfilev)
    }

    /// Whether it moves bytes through a buffer of the strand.
    pub fn goes_through_a_buffer(self) -> bool {
        self.transfers() && !self.sends_files()
    }

    /// Whether it needs a connection that is open.
    pub fn uses_a_connection(self) -> bool {
        self.transfers() || self == Self::Disconnect
    }

    /// Whether it begins a connection.
    pub fn opens(self) -> bool {
        matches!(self, Self::Connect | Self::Accept)
    }
}

words! {
    /// What data goes over, by its number on the wire.
    ///
    /// 2 was meant for uDAPL, which no build ever had: Multipath TCP has it here. Unix domain sockets
    /// have the first number beyond uperf's.
    pub enum Protocol {
        /// TCP.
        Tcp = 1 "tcp",
        /// UDP.
        Udp = 3 "udp",
        /// TLS over TCP.
        Ssl = 5 "ssl",
        /// One-to-one SCTP.
        Sctp = 6 "sctp",
        /// Sockets between a machine and its guests.
        Vsock = 7 "vsock",
        /// Reliable datagram sockets; listed so that they can be refused by name.
        Rds = 4 "rds",
        /// Unix domain stream sockets, on one host; linerate's own.
        Unix = 8 "unix",
        /// Multipath TCP; linerate's own.
        Mptcp = 2 "mptcp",
    }
}

/// Words of a flowop's options without a value, as bits of a word on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// `tcp_nodelay`.
    pub const NO_DELAY: Self = Self(2);
    /// `canfail`: an execution that fails counts, with 0 bytes.
    pub const CAN_FAIL: Self = Self(4);
    /// `non_blocking`: of UDP and VSOCK.
    pub const NON_BLOCKING: Self = Self(8);
    /// `idle`: think sleeps, as it does anyway.
    pub const IDLE: Self = Self(16);
    /// `busy`: think spins.
    pub const BUSY: Self = Self(32);
    /// The size is random: on the wire only, a flowop's size says so.
    pub const RANDOM: Self = Self(64);
    /// `sctp_unordered`.
    pub const SCTP_UNORDERED: Self = Self(128);
    /// `sctp_nodelay`.
    pub const SCTP_NO_DELAY: Self = Self(256);
    /// All of these.
    pub(crate) const ALL: Self = Self(510);

    /// Whether all of `flags` are set.
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// With these as well.
    #[must_use]
    pub fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

impl Flowop {
    /// One that opens a connection.
    pub(crate) fn opening(kind: Kind, protocol: Protocol) -> Self {
        let mut flowop = Self::new(kind);
        flowop.endpoint.protocol = Some(protocol);
        flowop
    }

    /// One that moves this many bytes.
    #[cfg(test)]
    pub(crate) fn of_bytes(kind: Kind, bytes: u32) -> Self {
        let mut flowop = Self::new(kind);
        flowop.transfer.amount = Amount::Exactly(bytes);
        flowop
    }

    /// One with uperf's defaults.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            count: 1,
            transfer: Transfer::PLAIN,
            batch_size: 1,
            slave_size: 0,
            connection: 0,
            flags: Flags::default(),
            duration: Duration::ZERO,
            endpoint: Endpoint::default(),
            files: 0,
            directory: String::new(),
            file_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_receives_has_an_end_that_it_does_not_know() {
        let of = |kinds: &[Kind], duration| Transaction {
            duration,
            flowops: kinds.iter().map(|kind| Flowop::new(*kind)).collect(),
            ..Transaction::default()
        };
        let second = Some(Duration::from_secs(1));
        assert!(of(&[Kind::Read, Kind::Nop, Kind::Recv], second).only_receives());
        assert!(!of(&[Kind::Read], None).only_receives());
        assert!(!of(&[Kind::Read, Kind::Write], second).only_receives());
        assert!(!of(&[Kind::Nop], second).only_receives());
    }
}
