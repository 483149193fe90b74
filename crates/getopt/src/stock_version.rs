//! The version of a stock program whose layout a dialect prints.

/// The environment variable that selects versions, such as `iperf=2.1.8,iperf3=3.12`.
pub const VARIABLE: &str = "LINERATE_STOCK_VERSION";

/// Returns the value of [`VARIABLE`] in this process's environment.
pub fn variable_value() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Checks the versions of all programs in this process's environment.
pub fn check_environment() -> Result<(), String> {
    let value = variable_value().unwrap_or_default();
    let checked = entries(&value).try_for_each(|(program, name)| check_entry(program, name));
    checked.map_err(|reason| format!("{VARIABLE}: {reason}"))
}

/// The programs, and their versions whose output linerate has, oldest first.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("iperf", &["2.1.8", "2.2.1"]),
    ("iperf3", &["3.12", "3.18", "3.22"]),
    ("netperf", &["2.7.0", "2.7.1"]),
];

fn entries(value: &str) -> impl Iterator<Item = (&str, &str)> {
    let entries = value.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    entries.map(|entry| entry.split_once('=').unwrap_or((entry, "")))
}

/// Returns the names of a program's versions.
fn version_names(program: &str) -> Result<&'static [&'static str], String> {
    let known = PROGRAMS.iter().find(|(known, _)| *known == program);
    known.map(|(_, names)| *names).ok_or_else(|| {
        let programs = PROGRAMS.map(|(program, _)| program).join(", ");
        format!("'{program}' is not a program with several versions; those are {programs}")
    })
}

/// Fails if linerate does not have the output of this version. The error contains the known names.
fn check_entry(program: &str, name: &str) -> Result<(), String> {
    let names = version_names(program)?;
    if names.contains(&name) {
        return Ok(());
    }
    let known = names.join(", ");
    Err(format!(
        "'{name}' is not a known version of {program}; known are {known}"
    ))
}

/// A version of one stock program. The default is the newest one.
pub trait StockVersion: Copy + Default + 'static {
    /// The program's name in [`VARIABLE`].
    const PROGRAM: &'static str;
    /// All versions, oldest first.
    const ALL: &'static [Self];

    /// Returns the version with this name. The error contains the known names.
    fn from_name(name: &str) -> Result<Self, String> {
        check_entry(Self::PROGRAM, name)?;
        let names = version_names(Self::PROGRAM)?;
        let mut versions = Self::ALL.iter().zip(names);
        let selected = versions.find(|(_, known)| **known == name);
        Ok(selected.map_or_else(Self::default, |(version, _)| *version))
    }

    /// Returns the name of version `index` of [`ALL`](Self::ALL).
    fn name_at(index: usize) -> &'static str {
        version_names(Self::PROGRAM).map_or("", |names| names[index])
    }

    /// Returns the version that the value of [`VARIABLE`] selects; the newest one if it has no
    /// entry for this program.
    fn from_variable(value: Option<&str>) -> Result<Self, String> {
        let mut selected = Self::default();
        for (program, name) in entries(value.unwrap_or_default()) {
            if program == Self::PROGRAM {
                selected = Self::from_name(name)?;
            } else {
                check_entry(program, name)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    enum Version {
        Old,
        Middle,
        #[default]
        New,
    }

    impl StockVersion for Version {
        const PROGRAM: &'static str = "iperf3";
        const ALL: &'static [Self] = &[Self::Old, Self::Middle, Self::New];
    }

    #[test]
    fn a_variable_selects_versions_of_several_programs() {
        for (value, expected) in [
            (None, Ok(Version::New)),
            (Some(""), Ok(Version::New)),
            (Some("iperf3=3.12"), Ok(Version::Old)),
            (Some("iperf=2.1.8, iperf3=3.12,"), Ok(Version::Old)),
            (Some("netperf=2.7.0"), Ok(Version::New)),
            (Some("iperf3=3.18"), Ok(Version::Middle)),
            (
                Some("iperf=2.2.0"),
                Err("'2.2.0' is not a known version of iperf; known are 2.1.8, 2.2.1"),
            ),
            (
                Some("iperf3=3.1"),
                Err("'3.1' is not a known version of iperf3; known are 3.12, 3.18, 3.22"),
            ),
            (
                Some("iperf3"),
                Err("'' is not a known version of iperf3; known are 3.12, 3.18, 3.22"),
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
