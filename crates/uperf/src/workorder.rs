//! Workorder: the groups, transactions and flowops that a profile or a master requests.

use std::time::Duration;

pub use model::{Amount, Transfer};

use crate::named_enum::named_enum;

/// Content of a profile; on a slave, the one group that its master requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workorder {
    /// Name of the profile, for the start line; may be empty.
    pub name: String,
    /// Groups, in the order of the profile.
    pub groups: Vec<GroupSpec>,
}

/// Group of strands that run the same transactions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSpec {
    /// `name=`, or `Group0`, `Group1`, …
    pub name: String,
    /// Number and kind of its strands.
    pub strands: StrandCount,
    /// Transactions in order; all groups meet at a barrier before each.
    pub transactions: Vec<TransactionSpec>,
}

impl GroupSpec {
    /// Returns a group with one transaction of these flowops.
    #[cfg(test)]
    pub(crate) fn with_flowops(flowops: impl IntoIterator<Item = Flowop>) -> Self {
        let transaction = TransactionSpec {
            iterations: 1,
            flowops: flowops.into_iter().collect(),
            ..TransactionSpec::default()
        };
        Self {
            transactions: vec![transaction],
            ..Self::default()
        }
    }

    /// Returns the flowops of all transactions, in order.
    pub fn flowops(&self) -> impl Iterator<Item = &Flowop> {
        self.transactions.iter().flat_map(|txn| &txn.flowops)
    }

    /// Returns the flowops that open connections.
    pub fn opening_flowops(&self) -> impl Iterator<Item = &Flowop> {
        self.flowops().filter(|flowop| flowop.kind.opens())
    }
}

/// Values of `nthreads=` and `nprocs=`.
///
/// With both, the last count applies, the strands are processes, and the start line shows both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrandCount {
    /// Number of strands.
    pub count: u32,
    /// The profile has `nthreads=`.
    pub threads: bool,
    /// The profile has `nprocs=`; the strands are processes.
    pub processes: bool,
}

/// List of flowops that each strand repeats.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransactionSpec {
    /// Passes if there is no duration; default 1. With 0, strands only wait at the barrier.
    pub iterations: u64,
    /// Duration; takes precedence over [`Self::iterations`].
    pub duration: Option<Duration>,
    /// Passes per second and strand, 0 for no limit; only with a duration.
    pub rate: u32,
    /// Rate as written.
    pub rate_text: String,
    /// Flowops in order.
    pub flowops: Vec<Flowop>,
}

impl TransactionSpec {
    /// Returns true if a flowop's kind satisfies the predicate.
    pub fn has_flowop(&self, predicate: fn(FlowopKind) -> bool) -> bool {
        self.flowops.iter().any(|flowop| predicate(flowop.kind))
    }

    /// Returns true if the transaction has a duration and only receives data.
    pub fn only_receives(&self) -> bool {
        let mut kinds = self.flowops.iter().map(|flowop| flowop.kind);
        self.duration.is_some()
            && self.has_flowop(FlowopKind::receives)
            && kinds.all(|kind| kind.receives() || kind == FlowopKind::Nop)
    }
}

/// One operation with its options.
#[derive(Clone, Debug, PartialEq)]
pub struct Flowop {
    /// Operation.
    pub kind: FlowopKind,
    /// `count=`: executions per pass; 0 does nothing.
    pub count: u64,
    /// Transfer of one execution, for the engine.
    ///
    /// `size=` (default 0; for sendfile the chunk, 0 for the complete file), `repeat=` (UDP and
    /// SCTP), and `timeout=` or `poll_timeout=`. The flowop accept uses the timeout, too.
    pub transfer: Transfer,
    /// `batch_size=`: messages per call (SCTP, UDP).
    pub batch_size: u64,
    /// `rsize=`: size that the slave uses, in bytes; 0 for the same size.
    pub slave_size: u32,
    /// `conn=`: number of the connection; 0 for the unnamed one.
    pub connection: u32,
    /// Options without a value.
    pub flags: FlowopFlags,
    /// `duration=` of think.
    pub duration: Duration,
    /// `remotehost=`, `protocol=` and other options of the connection.
    pub endpoint: Endpoint,
    /// `nfiles=`: files per call of sendfilev.
    pub files: u32,
    /// `dir=`: directory of the files that sendfile sends; empty if not given.
    pub directory: String,
    /// Read size of the slave for sendfile and sendfilev: the bytes of the largest execution;
    /// `None` for the default.
    pub file_bytes: Option<u32>,
}

/// Options with which a connection is opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Endpoint {
    /// `protocol=`; required for connect and accept.
    pub protocol: Option<DataProtocol>,
    /// `remotehost=`; empty if not given.
    ///
    /// For flowops other than connect and accept, this is the slave that takes part in the flowop.
    pub remote_host: String,
    /// `localhost=`; empty if not given.
    pub local_host: String,
    /// `port=` of the listening end; 0 for any.
    pub port: u32,
    /// `wndsz=`: SO_SNDBUF and SO_RCVBUF, in bytes; 0 for the system's default.
    pub window: u64,
    /// `cc=`: TCP_CONGESTION; empty for the system's default.
    pub congestion_control: String,
    /// `stack=`: TCP stack (FreeBSD); empty for the system's default.
    pub stack: String,
    /// `bblog=`: TCP black-box logging (FreeBSD).
    pub black_box_log: u32,
    /// `encaps=`: port of the UDP encapsulation; 0 for none.
    pub encapsulation_port: u32,
    /// `sctp_*=`.
    pub sctp: SctpOptions,
    /// `engine=` (SSL).
    pub engine: String,
    /// `cipher=` (SSL).
    pub cipher: String,
    /// `method=` (SSL).
    pub method: String,
}

/// SCTP options; 0 and empty mean the system's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SctpOptions {
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
    /// `sctp_pr_policy=`: `ttl`, `rtx` or `buf`; uperf ignores other values.
    pub partial_reliability: String,
    /// `sctp_pr_value=`.
    pub partial_reliability_value: u32,
}

named_enum! {
    /// Operation of a flowop, with its number on the wire.
    pub enum FlowopKind {
        /// Receives with read(2).
        Read = 1 "read",
        /// Sends with write(2).
        Write = 2 "write",
        /// Opens a connection to the peer.
        Connect = 3 "connect",
        /// Closes a connection.
        Disconnect = 4 "disconnect",
        /// Waits for a connection from the peer.
        Accept = 5 "accept",
        /// Does nothing.
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

impl FlowopKind {
    /// Returns the kind with this number on the wire.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// Returns the operation that the peer performs at the same time.
    #[must_use]
    pub fn peer_kind(self) -> Self {
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

    /// Returns true if it moves bytes over a connection.
    pub fn transfers(self) -> bool {
        self.sends() || self.receives()
    }

    /// Returns true if it sends.
    pub fn sends(self) -> bool {
        matches!(self, Self::Write | Self::Send) || self.sends_files()
    }

    /// Returns true if it receives.
    pub fn receives(self) -> bool {
        matches!(self, Self::Read | Self::Recv)
    }

    /// Returns true if it sends files.
    pub fn sends_files(self) -> bool {
        matches!(self, Self::Sendfile | Self::Sendfilev)
    }

    /// Returns true if it moves bytes through the strand's buffer.
    pub fn uses_buffer(self) -> bool {
        self.transfers() && !self.sends_files()
    }

    /// Returns true if it needs an open connection.
    pub fn uses_connection(self) -> bool {
        self.transfers() || self == Self::Disconnect
    }

    /// Returns true if it opens a connection.
    pub fn opens(self) -> bool {
        matches!(self, Self::Connect | Self::Accept)
    }
}

named_enum! {
    /// Protocol of a data connection, with its number on the wire.
    ///
    /// uperf reserved 2 for uDAPL, which no build supported; linerate uses it for Multipath TCP.
    /// Unix domain sockets have the first number after uperf's.
    pub enum DataProtocol {
        /// TCP.
        Tcp = 1 "tcp",
        /// UDP.
        Udp = 3 "udp",
        /// TLS over TCP.
        Ssl = 5 "ssl",
        /// One-to-one SCTP.
        Sctp = 6 "sctp",
        /// Sockets between a host and its virtual machines.
        Vsock = 7 "vsock",
        /// Reliable datagram sockets. linerate knows the name only to refuse it.
        Rds = 4 "rds",
        /// Unix domain stream sockets, on one host; a linerate extension.
        Unix = 8 "unix",
        /// Multipath TCP; a linerate extension.
        Mptcp = 2 "mptcp",
    }
}

/// Options of a flowop without a value, as bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowopFlags(pub u32);

impl FlowopFlags {
    /// `tcp_nodelay`.
    pub const NO_DELAY: Self = Self(2);
    /// `canfail`: a failed execution counts, with 0 bytes.
    pub const CAN_FAIL: Self = Self(4);
    /// `non_blocking`, for UDP and VSOCK.
    pub const NON_BLOCKING: Self = Self(8);
    /// `idle`: think sleeps, which is the default.
    pub const IDLE: Self = Self(16);
    /// `busy`: think spins.
    pub const BUSY: Self = Self(32);
    /// Marks on the wire that the size is a range. In memory, `Transfer::amount` holds the range.
    pub const RANDOM: Self = Self(64);
    /// `sctp_unordered`.
    pub const SCTP_UNORDERED: Self = Self(128);
    /// `sctp_nodelay`.
    pub const SCTP_NO_DELAY: Self = Self(256);
    /// All flags.
    pub(crate) const ALL: Self = Self(510);

    /// Returns true if all of `flags` are set.
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns these flags and `flags`.
    #[must_use]
    pub fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

impl Flowop {
    /// Returns a flowop that opens a connection.
    pub(crate) fn with_protocol(kind: FlowopKind, protocol: DataProtocol) -> Self {
        let mut flowop = Self::new(kind);
        flowop.endpoint.protocol = Some(protocol);
        flowop
    }

    /// Returns a flowop that moves this many bytes.
    #[cfg(test)]
    pub(crate) fn with_size(kind: FlowopKind, bytes: u32) -> Self {
        let mut flowop = Self::new(kind);
        flowop.transfer.amount = Amount::Exactly(bytes);
        flowop
    }

    /// Returns a flowop with uperf's defaults.
    pub fn new(kind: FlowopKind) -> Self {
        Self {
            kind,
            count: 1,
            transfer: Transfer::DEFAULT,
            batch_size: 1,
            slave_size: 0,
            connection: 0,
            flags: FlowopFlags::default(),
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
    fn only_receives_requires_a_duration_and_only_reads() {
        let transaction = |kinds: &[FlowopKind], duration| TransactionSpec {
            duration,
            flowops: kinds.iter().map(|kind| Flowop::new(*kind)).collect(),
            ..TransactionSpec::default()
        };
        let second = Some(Duration::from_secs(1));
        assert!(
            transaction(
                &[FlowopKind::Read, FlowopKind::Nop, FlowopKind::Recv],
                second
            )
            .only_receives()
        );
        assert!(!transaction(&[FlowopKind::Read], None).only_receives());
        assert!(!transaction(&[FlowopKind::Read, FlowopKind::Write], second).only_receives());
        assert!(!transaction(&[FlowopKind::Nop], second).only_receives());
    }
}
