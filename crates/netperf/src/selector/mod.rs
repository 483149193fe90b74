//! What omni output can print: the names that `-o`, `-O` and `-k` know, with their column headers.
//!
//! Nothing here knows of figures: the options room looks names up, and the output room expands the values of the
//! tables (`output/values/`).
//!
//! A new selector is a row in `own.rs`, and, if something has to be measured for it, an arm in [`Selector::needs`].

mod own;
mod percentile;
mod stock;

use std::borrow::Cow;
use std::ops::BitOrAssign;

pub(crate) use own::own_selectors;
pub use percentile::Percentile;
pub(crate) use stock::stock_selectors;

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
        let mut stock = Stock::all().map(Self::Stock);
        let last = stock.next_back();
        let percentiles = Percentile::usual().map(Self::Percentile);
        let own = Own::all().map(Self::Own);
        stock.chain(own).chain(percentiles).chain(last)
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
        let nothing = Needs::default();
        match self.name() {
            _ if matches!(self, Self::Percentile(_)) => Needs::LATENCY,
            "MIN_LATENCY" | "MAX_LATENCY" | "P50_LATENCY" | "P90_LATENCY" | "P99_LATENCY"
            | "MEAN_LATENCY" | "STDDEV_LATENCY" | "LATENCY_SAMPLES" => Needs::LATENCY,
            "LOCAL_TRANSPORT_RETRANS" => Needs {
                retransmits: true,
                ..nothing
            },
            "REMOTE_CONG_CONTROL" => Needs {
                peer_congestion_control: true,
                ..nothing
            },
            "REMOTE_SYSNAME" | "REMOTE_RELEASE" | "REMOTE_VERSION" | "REMOTE_MACHINE" => Needs {
                peer_system: true,
                ..nothing
            },
            "CLOCK_COST_NS" | "CLOCK_RESOLUTION_NS" => Needs {
                clock: true,
                ..nothing
            },
            "PACKETS_PER_TRANSACTION" => Needs::INTERFACE,
            // Name, ids, driver, slot and traffic stand together.
            name if name.contains("_INTERFACE_") || name.contains("_DRIVER_") => Needs::INTERFACE,
            _ => nothing,
        }
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

/// A row of a table, without its value.
struct Row {
    name: &'static str,
    header: &'static [&'static str],
}

macro_rules! names {
    ($($name:literal [$($line:literal),+] $value:expr,)+) => {
        &[$(Row {
            name: $name,
            header: &[$($line),+],
        },)+]
    };
}

/// The type of a table's selectors.
macro_rules! selectors {
    ($(#[$about:meta])* $table:ident: $rows:ident) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $table(usize);

        impl $table {
            const ROWS: &'static [Row] = $rows!(names);

            /// All of them, in order.
            pub fn all() -> impl DoubleEndedIterator<Item = Self> {
                (0..Self::ROWS.len()).map(Self)
            }

            /// Its name, upper case.
            pub fn name(self) -> &'static str {
                Self::ROWS[self.0].name
            }

            /// The lines of its column header.
            pub fn header(self) -> &'static [&'static str] {
                Self::ROWS[self.0].header
            }

            /// Its row in the table.
            pub(crate) fn place(self) -> usize {
                self.0
            }
        }
    };
}

selectors! {
    /// A selector of netperf 2.7.0.
    Stock: stock_selectors
}

selectors! {
    /// A selector of our own.
    Own: own_selectors
}

impl Stock {
    /// Those from the one name to the other.
    pub fn between(first: &str, last: &str) -> impl Iterator<Item = Self> {
        let place = |name| Self::all().find(|stock| stock.name() == name);
        let (first, last) = (place(first), place(last));
        let range = first
            .zip(last)
            .map_or(0..0, |(first, last)| first.0..last.0 + 1);
        range.map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_upper_case_and_found() {
        let all: Vec<_> = Selector::listed().collect();
        assert!(all.len() > Stock::all().count() + Own::all().count());
        assert_eq!(all.first().map(Selector::name), Some("OUTPUT_NONE"));
        assert_eq!(all.last().map(Selector::name), Some("OUTPUT_END"));
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
