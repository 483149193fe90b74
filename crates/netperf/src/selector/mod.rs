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

pub(crate) use own::own_selectors;
pub use percentile::Percentile;
pub(crate) use stock::stock_selectors;

/// One figure that can be asked for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// One that netperf 2.7.0 has.
    Stock(Place),
    /// One of our own.
    Own(Place),
    /// Any percentile of the latency: `P99.9_LATENCY`.
    Percentile(Percentile),
}

/// A row's place in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub(crate) usize);

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
        let mut stock = Self::stock();
        let last = stock.next_back();
        let percentiles = Percentile::usual().map(Self::Percentile);
        let own = (0..OWN.len()).map(|row| Self::Own(Place(row)));
        stock.chain(own).chain(percentiles).chain(last)
    }

    /// All that the stock tool has, in its order.
    pub fn stock() -> impl DoubleEndedIterator<Item = Self> {
        (0..STOCK.len()).map(|row| Self::Stock(Place(row)))
    }

    /// The stock tool's from the one name to the other.
    pub fn between(first: &str, last: &str) -> impl Iterator<Item = Self> {
        let place = |name| STOCK.iter().position(|row| row.name == name);
        let ends = place(first).zip(place(last));
        let (start, end) = ends.map_or((0, 0), |(first, last)| (first, last + 1));
        Self::stock().skip(start).take(end.saturating_sub(start))
    }

    /// Its name, upper case.
    pub fn name(&self) -> &str {
        match self {
            Self::Stock(Place(row)) => STOCK[*row].name,
            Self::Own(Place(row)) => OWN[*row].name,
            Self::Percentile(percentile) => percentile.name(),
        }
    }

    /// The lines of its column header, at most [`HEADER_LINES`].
    pub fn header(&self) -> Vec<Cow<'static, str>> {
        match self {
            Self::Stock(Place(row)) => STOCK[*row].header(),
            Self::Own(Place(row)) => OWN[*row].header(),
            Self::Percentile(percentile) => percentile.header(),
        }
    }

    /// The lines of its column header, joined by blanks.
    pub fn one_line_header(&self) -> String {
        self.header().join(" ")
    }

    /// What has to be measured, or asked of the peer, so that it has a value.
    pub fn needs(&self) -> Needs {
        let name = self.name();
        let of_latency = matches!(
            name,
            "MIN_LATENCY"
                | "MAX_LATENCY"
                | "P50_LATENCY"
                | "P90_LATENCY"
                | "P99_LATENCY"
                | "MEAN_LATENCY"
                | "STDDEV_LATENCY"
                | "LATENCY_SAMPLES"
        );
        // Name, ids, driver, slot and traffic stand together.
        let of_interface = name.contains("_INTERFACE_") || name.contains("_DRIVER_");
        Needs {
            latency: of_latency || matches!(self, Self::Percentile(_)),
            retransmits: name == "LOCAL_TRANSPORT_RETRANS",
            peer_congestion_control: name == "REMOTE_CONG_CONTROL",
            peer_system: matches!(
                name,
                "REMOTE_SYSNAME" | "REMOTE_RELEASE" | "REMOTE_VERSION" | "REMOTE_MACHINE"
            ),
            interface: of_interface || name == "PACKETS_PER_TRANSACTION",
            clock: matches!(name, "CLOCK_COST_NS" | "CLOCK_RESOLUTION_NS"),
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

impl<'a> FromIterator<&'a Selector> for Needs {
    fn from_iter<I: IntoIterator<Item = &'a Selector>>(selectors: I) -> Self {
        let each = selectors.into_iter().map(Selector::needs);
        each.fold(Self::default(), |all, one| Self {
            latency: all.latency || one.latency,
            retransmits: all.retransmits || one.retransmits,
            peer_congestion_control: all.peer_congestion_control || one.peer_congestion_control,
            peer_system: all.peer_system || one.peer_system,
            interface: all.interface || one.interface,
            clock: all.clock || one.clock,
        })
    }
}

/// A row of a table, without its value.
struct Row {
    name: &'static str,
    header: &'static [&'static str],
}

impl Row {
    fn header(&self) -> Vec<Cow<'static, str>> {
        self.header.iter().copied().map(Cow::Borrowed).collect()
    }
}

macro_rules! rows {
    ($($name:literal [$($line:literal),+] $value:expr,)+) => {
        &[$(Row {
            name: $name,
            header: &[$($line),+],
        },)+]
    };
}

static STOCK: &[Row] = stock_selectors!(rows);
static OWN: &[Row] = own_selectors!(rows);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_upper_case_and_found() {
        let all: Vec<_> = Selector::listed().collect();
        assert!(all.len() > STOCK.len() + OWN.len());
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
        type Change = fn(&mut Needs);
        let nothing: Change = |_| ();
        let latency: Change = |needs| needs.latency = true;
        let congestion: Change = |needs| needs.peer_congestion_control = true;
        let system: Change = |needs| needs.peer_system = true;
        let interface: Change = |needs| needs.interface = true;
        let clock: Change = |needs| needs.clock = true;
        for (name, change) in [
            ("THROUGHPUT", nothing),
            ("RT_LATENCY", nothing),
            ("MIN_LATENCY", latency),
            ("STDDEV_LATENCY", latency),
            ("P99.9_LATENCY", latency),
            ("LATENCY_SAMPLES", latency),
            ("LOCAL_CONG_CONTROL", nothing),
            ("REMOTE_CONG_CONTROL", congestion),
            ("LOCAL_SYSNAME", nothing),
            ("REMOTE_MACHINE", system),
            ("LOCAL_INTERFACE_NAME", interface),
            ("LOCAL_DRIVER_BUS", interface),
            ("REMOTE_INTERFACE_SUBDEVICE", interface),
            ("REMOTE_INTERFACE_SLOT", interface),
            ("LOCAL_INTERVAL_USECS", nothing),
            ("PACKETS_PER_TRANSACTION", interface),
            ("CLOCK_COST_NS", clock),
        ] {
            let mut needs = Needs::default();
            change(&mut needs);
            assert_eq!(Selector::by_name(name).unwrap().needs(), needs, "{name}");
        }
    }
}
