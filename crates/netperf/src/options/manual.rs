//! The option chapters of the manual pages.
//!
//! They are generated from the tables in `super::global`, `super::test`, `super::families`
//! and `super::server`.

use getopt::manual::{Chapter, chapter};

use super::{families, global, server, test};

/// Returns the chapters of `netperf.1`.
pub fn client() -> Vec<Chapter> {
    let test_sections = [
        &test::OMNI,
        &test::CLASSIC,
        &families::UNIX,
        &families::SCTP,
        &families::DLPI,
    ];
    std::iter::once(chapter(&global::SECTION))
        .chain(test_sections.map(chapter))
        .collect()
}

/// Returns the chapters of `netserver.1`.
pub fn server() -> Vec<Chapter> {
    vec![chapter(&server::SECTION)]
}

#[cfg(test)]
mod tests {
    use getopt::OptionName::{self, Letter, Long};
    use getopt::manual::find_gaps;
    use getopt::{OptionRow, Section};

    use super::*;
    use crate::options::global::GlobalOptions;
    use crate::options::{ConnectionPorts, ControlOptions, ServerSettings};

    #[test]
    fn every_option_has_its_paragraph() {
        assert_eq!(find_gaps(&global::SECTION), [""; 0]);
        assert_eq!(find_gaps(&server::SECTION), [""; 0]);
        let family_sections = [&families::UNIX, &families::SCTP, &families::DLPI];
        for section in [&test::OMNI, &test::CLASSIC]
            .into_iter()
            .chain(family_sections)
        {
            assert_eq!(find_gaps(section), [""; 0], "{}", section.title);
        }
    }

    /// Applying a documented default leaves the settings unchanged.
    #[test]
    fn the_documented_server_defaults_are_in_force() {
        let mut checked = 0;
        for flag in server::SECTION.options {
            let Some(default) = flag.stated_default() else {
                continue;
            };
            let mut settings = ServerSettings::default();
            (flag.apply)(&mut settings, &default).unwrap();
            // -p rules out inetd even with the default port.
            settings.may_be_inetd = true;
            let name = flag.name;
            assert_eq!(settings, ServerSettings::default(), "{name} {default}");
            checked += 1;
        }
        assert_eq!(checked, 12);
    }

    #[test]
    fn the_documented_client_defaults_are_in_force() {
        let GlobalOptions { local, test, .. } = GlobalOptions::default();
        let port = ControlOptions::default().port;
        let row_of = |letter| row(&global::SECTION, letter);
        assert_eq!(
            row_of('a').stated_default(),
            Some(local.send.alignment.to_string())
        );
        assert_eq!(row_of('t').stated_default(), Some(test));
        assert!(row_of('p').paragraph.contains(&format!("({port})")));

        let mut checked = 0;
        for flag in global::SECTION.options {
            let Some(default) = flag.stated_default() else {
                continue;
            };
            let needed = match flag.name {
                Letter('w') => "-b 1",
                Long("histogram-buckets") => "-v 2",
                _ => "",
            };
            let typed = format!("{needed} {} {default}", flag.name);
            assert!(settings(&typed) == settings(needed), "{typed}");
            checked += 1;
        }
        assert_eq!(checked, 17);

        let ConnectionPorts {
            first: min,
            end: max,
            ..
        } = ConnectionPorts::default();
        let ports = format!("{min} to {max} by default");
        for section in [&test::OMNI, &test::CLASSIC] {
            assert!(row(section, 'p').paragraph.contains(&ports));
        }
        let associations = format!("{} by default", families::DEFAULT_ASSOCIATIONS);
        assert!(row(&families::SCTP, 'T').paragraph.contains(&associations));
        let (sap, flag) = (families::DEFAULT_SAP, row(&families::DLPI, 's'));
        assert_eq!(flag.stated_default(), Some(sap.to_string()));
        let usage = getopt::usage::stock_lines(&families::DLPI, "");
        assert!(usage.contains(&format!("an even number ({sap})")));
    }

    fn row<L>(section: &Section<L>, letter: char) -> &'static OptionRow<L> {
        let has_letter = |flag: &&OptionRow<L>| flag.name == OptionName::Letter(letter);
        section.options.iter().find(has_letter).unwrap()
    }

    /// Returns the settings of a command line without the parts that always differ.
    fn settings(line: &str) -> crate::options::Settings {
        let words = line.split_whitespace().map(Into::into);
        let mut settings = crate::options::parse_netperf("netperf", words).unwrap();
        settings.print.uuid.clear();
        settings.print.command_line.clear();
        settings
    }
}
