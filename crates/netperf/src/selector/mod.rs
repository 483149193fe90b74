//! What omni output can print: the names that `-o`, `-O` and `-k` know, with their column headers.
//!
//! Nothing here knows of figures: the options room looks names up, the output room has a value for
//! each (`output/values/`).
//!
//! A new selector is a line in `own.rs`, an arm in `output/values/own.rs`, and, if something has to be
//! measured for it, one in [`Selector::needs`].

mod own;
mod percentile;
mod stock;

use std::borrow::Cow;
use std::ops::BitOrAssign;

pub use own::Own;
pub use percentile::Percentile;
pub use stock::Stock;

/// One figure that can be asked for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// One that the stock tool has.
    Stock(Stock),
    /// One of our own.
    Own(Own),
    /// Any percentile of the latency: `P99.9_LATENCY`.
    Percentile(Percentile),
}

impl Selector {
    /// The selector of this name, in upper or lower case.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::listed()
            .find(|selector| selector.name().eq_ignore_ascii_case(name))
            .or_else(|| Percentile::by_name(name).map(Self::Percentile))
    }

    /// The selector whose header lines, joined by blanks, are this text.
    pub fn by_header(header: &str) -> Option<Self> {
        Self::listed().find(|selector| selector.one_line_header().eq_ignore_ascii_case(header))
    }

    /// All in the order of `?`, for what there is no end of a few: ours stand before the last of the
    /// stock tool's, which is called OUTPUT_END.
    pub fn listed() -> impl Iterator<Item = Self> {
        let stock = |all: &'static [Stock]| all.iter().copied().map(Self::Stock);
        let own = Own::ALL.iter().copied().map(Self::Own);
        let percentiles = Percentile::usual().map(Self::Percentile);
        let (last, others) = Stock::ALL.split_last().expect("there are 175");
        stock(others)
            .chain(own)
            .chain(percentiles)
            .chain(stock(std::slice::from_ref(last)))
    }

    /// Its name, upper case.
    pub fn name(&self) -> &str {
        match self {
            Self::Stock(selector) => selector.name(),
            Self::Own(selector) => selector.name(),
            Self::Percentile(percentile) => percentile.name(),
        }
    }

    /// The lines of its column header, at most [`HEADER_LINES`].
    pub fn header(&self) -> Vec<Cow<'static, str>> {
        match self {
            Self::Stock(selector) => borrowed(selector.header()),
            Self::Own(selector) => borrowed(selector.header()),
            Self::Percentile(percentile) => percentile.header(),
        }
    }

    /// The lines of its column header, joined by blanks.
    pub fn one_line_header(&self) -> String {
        self.header().join(" ")
    }

    /// What has to be measured, or asked of the peer, so that it has a value.
    pub fn needs(&self) -> Needs {
        match self {
            Self::Stock(selector) => of_stock(*selector),
            Self::Own(selector) => of_own(*selector),
            Self::Percentile(_) => Needs::LATENCY,
        }
    }
}

fn of_stock(selector: Stock) -> Needs {
    use Stock::{
        LocalInterfaceName, LocalInterfaceSlot, LocalTransportRetrans, MaxLatency, MeanLatency,
        MinLatency, P50Latency, P90Latency, P99Latency, RemoteCongControl, RemoteInterfaceName,
        RemoteInterfaceSlot, RemoteMachine, RemoteRelease, RemoteSysname, RemoteVersion,
        StddevLatency,
    };
    match selector {
        MinLatency | MaxLatency | P50Latency | P90Latency | P99Latency | MeanLatency
        | StddevLatency => Needs::LATENCY,
        LocalTransportRetrans => Needs {
            retransmits: true,
            ..Needs::default()
        },
        RemoteCongControl => Needs {
            peer_congestion_control: true,
            ..Needs::default()
        },
        RemoteSysname | RemoteRelease | RemoteVersion | RemoteMachine => Needs {
            peer_system: true,
            ..Needs::default()
        },
        // Name, ids, driver and slot stand together.
        selector
            if (LocalInterfaceName..=LocalInterfaceSlot).contains(&selector)
                || (RemoteInterfaceName..=RemoteInterfaceSlot).contains(&selector) =>
        {
            Needs::INTERFACE
        }
        _ => Needs::default(),
    }
}

fn of_own(selector: Own) -> Needs {
    match selector {
        Own::LatencySamples => Needs::LATENCY,
        Own::ClockCostNs | Own::ClockResolutionNs => Needs {
            clock: true,
            ..Needs::default()
        },
        Own::LocalInterfaceRxPackets
        | Own::LocalInterfaceRxBytes
        | Own::LocalInterfaceTxPackets
        | Own::LocalInterfaceTxBytes
        | Own::RemoteInterfaceRxPackets
        | Own::RemoteInterfaceRxBytes
        | Own::RemoteInterfaceTxPackets
        | Own::RemoteInterfaceTxBytes
        | Own::PacketsPerTransaction => Needs::INTERFACE,
        _ => Needs::default(),
    }
}

/// How many lines a column header has at most.
pub const HEADER_LINES: usize = 4;

/// What has to be measured, or asked of the peer, for a selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing to find out"
)]
pub struct Needs {
    /// Latency statistics.
    pub latency: bool,
    /// What each connection of a connection test has sent again.
    pub retransmits: bool,
    /// The peer's congestion control algorithm.
    pub peer_congestion_control: bool,
    /// The peer's operating system.
    pub peer_system: bool,
    /// The interfaces of both ends, and what they carry.
    pub interface: bool,
    /// What the clock adds to a time.
    pub clock: bool,
}

impl Needs {
    const LATENCY: Self = Self {
        latency: true,
        ..Self::NOTHING
    };

    const INTERFACE: Self = Self {
        interface: true,
        ..Self::NOTHING
    };

    const NOTHING: Self = Self {
        latency: false,
        retransmits: false,
        peer_congestion_control: false,
        peer_system: false,
        interface: false,
        clock: false,
    };
}

impl BitOrAssign for Needs {
    fn bitor_assign(&mut self, other: Self) {
        self.latency |= other.latency;
        self.retransmits |= other.retransmits;
        self.peer_congestion_control |= other.peer_congestion_control;
        self.peer_system |= other.peer_system;
        self.interface |= other.interface;
        self.clock |= other.clock;
    }
}

impl<'a> FromIterator<&'a Selector> for Needs {
    fn from_iter<I: IntoIterator<Item = &'a Selector>>(selectors: I) -> Self {
        let mut needs = Self::default();
        for selector in selectors {
            needs |= selector.needs();
        }
        needs
    }
}

fn borrowed(lines: &'static [&'static str]) -> Vec<Cow<'static, str>> {
    lines.iter().copied().map(Cow::Borrowed).collect()
}

/// A table of selectors: each line has the variant, its name on the command line, and the lines of its
/// column header.
macro_rules! selectors {
    (
        $(#[$about:meta])*
        pub enum $table:ident {
            $($variant:ident = $name:literal [$($line:literal),+],)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $table {
            $(#[doc = $name] $variant,)*
        }

        impl $table {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name, upper case.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The lines of its column header.
            pub fn header(self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant => &[$($line),+],)*
                }
            }
        }
    };
}

use selectors;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_upper_case_and_found() {
        let all: Vec<_> = Selector::listed().collect();
        assert!(all.len() > Stock::ALL.len() + Own::ALL.len());
        assert_eq!(all.first(), Some(&Selector::Stock(Stock::OutputNone)));
        assert_eq!(all.last(), Some(&Selector::Stock(Stock::OutputEnd)));
        for selector in all {
            let name = selector.name();
            assert!(
                name.bytes()
                    .all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.')),
                "{name}"
            );
            assert_eq!(Selector::by_name(name).as_ref(), Some(&selector), "{name}");
            let lower = name.to_ascii_lowercase();
            assert_eq!(Selector::by_name(&lower), Some(selector), "{lower}");
        }
    }

    #[test]
    fn headers_have_one_to_four_lines_and_name_their_selector() {
        for selector in Selector::listed() {
            let lines = selector.header();
            assert!(
                (1..=HEADER_LINES).contains(&lines.len())
                    && lines.iter().all(|line| !line.is_empty()),
                "{selector:?}"
            );
            // Some of the stock tool's have the header of another one.
            let found = Selector::by_header(&selector.one_line_header()).unwrap();
            if !matches!(selector, Selector::Stock(_)) {
                assert_eq!(found, selector);
            }
        }
    }

    #[test]
    fn what_a_selector_needs() {
        let congestion = Needs {
            peer_congestion_control: true,
            ..Needs::default()
        };
        let system = Needs {
            peer_system: true,
            ..Needs::default()
        };
        let clock = Needs {
            clock: true,
            ..Needs::default()
        };
        for (name, needs) in [
            ("THROUGHPUT", Needs::default()),
            ("RT_LATENCY", Needs::default()),
            ("MIN_LATENCY", Needs::LATENCY),
            ("STDDEV_LATENCY", Needs::LATENCY),
            ("P99.9_LATENCY", Needs::LATENCY),
            ("LATENCY_SAMPLES", Needs::LATENCY),
            ("LOCAL_CONG_CONTROL", Needs::default()),
            ("REMOTE_CONG_CONTROL", congestion),
            ("LOCAL_SYSNAME", Needs::default()),
            ("REMOTE_MACHINE", system),
            ("LOCAL_INTERFACE_NAME", Needs::INTERFACE),
            ("LOCAL_DRIVER_BUS", Needs::INTERFACE),
            ("REMOTE_INTERFACE_SUBDEVICE", Needs::INTERFACE),
            ("REMOTE_INTERFACE_SLOT", Needs::INTERFACE),
            ("LOCAL_INTERVAL_USECS", Needs::default()),
            ("PACKETS_PER_TRANSACTION", Needs::INTERFACE),
            ("CLOCK_COST_NS", clock),
        ] {
            assert_eq!(Selector::by_name(name).unwrap().needs(), needs, "{name}");
        }
    }
}
