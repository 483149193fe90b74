//! The selectors of omni output (`-o`, `-O`, `-k`): their names and column headers.
//!
//! This module contains no values. The option parser uses the names. The output module expands
//! the values from the same tables (`output/values/`).
//!
//! A new selector is a row in `linerate.rs`. If it requires a measurement, it also needs an arm in
//! [`Selector::required_measurements`].

mod linerate;
mod percentile;
mod stock;

use std::borrow::Cow;

pub(crate) use linerate::linerate_selectors;
pub use percentile::Percentile;
pub(crate) use stock::stock_selectors;

/// One value of omni output, selected by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A selector of netperf 2.7.0.
    Stock(RowIndex),
    /// A selector that stock lacks.
    Linerate(RowIndex),
    /// Any percentile of the latency: `P99.9_LATENCY`.
    Percentile(Percentile),
}

/// The index of a row in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowIndex(pub(crate) usize);

impl Selector {
    /// Returns the selector with this name, in upper or lower case.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::list()
            .find(|selector| selector.name().eq_ignore_ascii_case(name))
            .or_else(|| Percentile::by_name(name).map(Self::Percentile))
    }

    /// Returns the selector whose header lines, joined by blanks, equal `header`.
    pub fn by_header(header: &str) -> Option<Self> {
        Self::list().find(|selector| selector.one_line_header().eq_ignore_ascii_case(header))
    }

    /// Returns the selectors in the order of `?`, with only a few of the percentiles.
    ///
    /// linerate's selectors precede the stock tool's last one, OUTPUT_END.
    pub fn list() -> impl Iterator<Item = Self> {
        let mut stock = Self::stock();
        let last = stock.next_back();
        let percentiles = Percentile::listed().map(Self::Percentile);
        let linerate = (0..LINERATE.len()).map(|row| Self::Linerate(RowIndex(row)));
        stock.chain(linerate).chain(percentiles).chain(last)
    }

    /// Returns all stock selectors in the stock tool's order.
    pub fn stock() -> impl DoubleEndedIterator<Item = Self> {
        (0..STOCK.len()).map(|row| Self::Stock(RowIndex(row)))
    }

    /// Returns the stock selectors from the name `first` to the name `last`, inclusive.
    pub fn stock_between(first: &str, last: &str) -> impl Iterator<Item = Self> {
        let position = |name| STOCK.iter().position(|row| row.name == name);
        let ends = position(first).zip(position(last));
        let (start, end) = ends.map_or((0, 0), |(first, last)| (first, last + 1));
        Self::stock().skip(start).take(end.saturating_sub(start))
    }

    /// Returns the name in upper case.
    pub fn name(&self) -> &str {
        match self {
            Self::Stock(RowIndex(row)) => STOCK[*row].name,
            Self::Linerate(RowIndex(row)) => LINERATE[*row].name,
            Self::Percentile(percentile) => percentile.name(),
        }
    }

    /// Returns the lines of the column header, at most [`HEADER_LINES`].
    pub fn header(&self) -> Vec<Cow<'static, str>> {
        match self {
            Self::Stock(RowIndex(row)) => STOCK[*row].header(),
            Self::Linerate(RowIndex(row)) => LINERATE[*row].header(),
            Self::Percentile(percentile) => percentile.header(),
        }
    }

    /// Returns the lines of the column header, joined by blanks.
    pub fn one_line_header(&self) -> String {
        self.header().join(" ")
    }

    /// Returns the measurements, and requests to the peer, that the selector's value needs.
    pub fn required_measurements(&self) -> RequiredMeasurements {
        let name = self.name();
        let needs_latency = matches!(
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
        // These cover the interface's name, IDs, driver, slot and traffic.
        let needs_interface = name.contains("_INTERFACE_") || name.contains("_DRIVER_");
        RequiredMeasurements {
            latency: needs_latency || matches!(self, Self::Percentile(_)),
            retransmits: name == "LOCAL_TRANSPORT_RETRANS",
            peer_congestion_control: name == "REMOTE_CONG_CONTROL",
            peer_system: matches!(
                name,
                "REMOTE_SYSNAME" | "REMOTE_RELEASE" | "REMOTE_VERSION" | "REMOTE_MACHINE"
            ),
            interface: needs_interface || name == "PACKETS_PER_TRANSACTION",
            clock: matches!(name, "CLOCK_COST_NS" | "CLOCK_RESOLUTION_NS"),
        }
    }
}

/// The maximum number of lines of a column header.
pub const HEADER_LINES: usize = 4;

/// The measurements, and requests to the peer, that a selection needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent measurement"
)]
pub struct RequiredMeasurements {
    /// Latency statistics.
    pub latency: bool,
    /// The retransmissions of each connection of a connection test.
    pub retransmits: bool,
    /// The peer's congestion control algorithm.
    pub peer_congestion_control: bool,
    /// The peer's operating system.
    pub peer_system: bool,
    /// The network interfaces of both ends and their traffic.
    pub interface: bool,
    /// The cost and the resolution of the clock.
    pub clock: bool,
}

impl<'a> FromIterator<&'a Selector> for RequiredMeasurements {
    fn from_iter<I: IntoIterator<Item = &'a Selector>>(selectors: I) -> Self {
        let each = selectors.into_iter().map(Selector::required_measurements);
        each.fold(Self::default(), |a, b| Self {
            latency: a.latency || b.latency,
            retransmits: a.retransmits || b.retransmits,
            peer_congestion_control: a.peer_congestion_control || b.peer_congestion_control,
            peer_system: a.peer_system || b.peer_system,
            interface: a.interface || b.interface,
            clock: a.clock || b.clock,
        })
    }
}

/// A row of a selector table, without its value.
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
static LINERATE: &[Row] = linerate_selectors!(rows);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_upper_case_and_found() {
        let selectors: Vec<_> = Selector::list().collect();
        assert!(selectors.len() > STOCK.len() + LINERATE.len());
        assert_eq!(selectors.first().map(Selector::name), Some("OUTPUT_NONE"));
        assert_eq!(selectors.last().map(Selector::name), Some("OUTPUT_END"));
        for selector in selectors {
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
        for selector in Selector::list() {
            let lines = selector.header();
            assert!(
                (1..=HEADER_LINES).contains(&lines.len())
                    && lines.iter().all(|line| !line.is_empty()),
                "{selector:?}"
            );
            // Some stock selectors have the same header.
            let by_header = Selector::by_header(&selector.one_line_header()).unwrap();
            if !matches!(selector, Selector::Stock(_)) {
                assert_eq!(by_header, selector);
            }
        }
    }

    #[test]
    fn selectors_require_their_measurements() {
        type Change = fn(&mut RequiredMeasurements);
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
            let mut needs = RequiredMeasurements::default();
            change(&mut needs);
            assert_eq!(
                Selector::by_name(name).unwrap().required_measurements(),
                needs,
                "{name}"
            );
        }
    }
}
