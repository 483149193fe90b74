//! The version of a stock program whose layout a dialect prints.

use std::fmt::Display;

/// The environment variable that selects versions, such as `iperf=2.1.8,iperf3=3.12`.
pub const VARIABLE: &str = "LINERATE_STOCK_VERSION";

/// Returns the value of [`VARIABLE`] in this process's environment.
pub fn variable_value() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// The programs that have several versions.
const PROGRAMS: [&str; 3] = ["iperf", "iperf3", "netperf"];

/// A version of one stock program. The default is the newest one.
pub trait StockVersion: Copy + Default + 'static {
    /// The program's name in [`VARIABLE`].
    const PROGRAM: &'static str;
    /// All versions with their names, oldest first.
    const ALL: &'static [(Self, &'static str)];

    /// Returns the version with this name. The error contains the known names.
    fn from_name(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(version, _)| *version).ok_or_else(|| {
            format!(
                "'{name}' is not a known version of {}; known are {}",
                Self::PROGRAM,
                join(Self::ALL.iter().map(|(_, name)| name))
            )
        })
    }

    /// Returns the version that the value of [`VARIABLE`] selects; the newest one if it has no
    /// entry for this program.
    fn from_variable(value: Option<&str>) -> Result<Self, String> {
        let mut selected = Self::default();
        let entries = value.unwrap_or_default().split(',').map(str::trim);
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let (program, name) = entry.split_once('=').unwrap_or((entry, ""));
            if !PROGRAMS.contains(&program) {
                return Err(format!(
                    "'{program}' is not a program with several versions; those are {}",
                    join(PROGRAMS)
                ));
            }
            if program == Self::PROGRAM {
                selected = Self::from_name(name)?;
            }
        }
        Ok(selected)
    }

    /// Returns the version that [`VARIABLE`] selects in this process's environment.
    fn from_environment() -> Result<Self, String> {
        let selected = Self::from_variable(variable_value().as_deref());
        selected.map_err(|reason| format!("{VARIABLE}: {reason}"))
    }
}

fn join(names: impl IntoIterator<Item = impl Display>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    enum Version {
        Old,
        #[default]
        New,
    }

    impl StockVersion for Version {
        const PROGRAM: &'static str = "iperf3";
        const ALL: &'static [(Self, &'static str)] = &[(Self::Old, "3.12"), (Self::New, "3.22")];
    }

    #[test]
    fn a_variable_selects_versions_of_several_programs() {
        for (value, expected) in [
            (None, Ok(Version::New)),
            (Some(""), Ok(Version::New)),
            (Some("iperf3=3.12"), Ok(Version::Old)),
            (Some("iperf=2.1.8, iperf3=3.12,"), Ok(Version::Old)),
            (Some("netperf=2.7.0"), Ok(Version::New)),
            (
                Some("iperf3=3.1"),
                Err("'3.1' is not a known version of iperf3; known are 3.12, 3.22"),
            ),
            (
                Some("iperf3"),
                Err("'' is not a known version of iperf3; known are 3.12, 3.22"),
            ),
            (
                Some("uperf=1.0.8"),
                Err(
                    "'uperf' is not a program with several versions; those are iperf, iperf3, netperf",
                ),
            ),
        ] {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(Version::from_variable(value), expected, "{value:?}");
        }
    }
}
