//! The chapters of the manual pages, which the rows of the tables in [`super::global`], [`super::test`],
//! [`super::families`] and [`super::server`] are made into.

use getopt::manual::{Chapter, chapter};

use super::{families, global, server, test};

/// The chapters of `netperf.1`.
pub fn client() -> Vec<Chapter> {
    let of_tests = [
        &test::OMNI,
        &test::CLASSIC,
        &families::UNIX,
        &families::SCTP,
        &families::DLPI,
    ];
    std::iter::once(chapter(&global::SECTION))
        .chain(of_tests.map(chapter))
        .collect()
}

/// The chapters of `netserver.1`.
pub fn server() -> Vec<Chapter> {
    vec![chapter(&server::SECTION)]
}

#[cfg(test)]
mod tests {
    use getopt::Name::{self, Letter, Long};
    use getopt::manual::gaps;
    use getopt::{Flag, Section};

    use super::*;
    use crate::options::global::Global;
    use crate::options::{ConnectionPorts, Control, ServerSettings};

    #[test]
    fn every_option_has_its_paragraph() {
        assert_eq!(gaps(&global::SECTION), [""; 0]);
        assert_eq!(gaps(&server::SECTION), [""; 0]);
        let of_families = [&families::UNIX, &families::SCTP, &families::DLPI];
        for section in [&test::OMNI, &test::CLASSIC].into_iter().chain(of_families) {
            assert_eq!(gaps(section), [""; 0], "{}", section.title);
        }
    }

    /// Typing a default changes nothing.
    #[test]
    fn the_servers_defaults_are_those_in_force() {
        let mut told_of = 0;
        for flag in server::SECTION.flags {
            let Some(default) = flag.told_default() else {
                continue;
            };
            let mut settings = ServerSettings::default();
            (flag.apply)(&mut settings, &default).unwrap();
            // A port that is typed is none of inetd's.
            settings.may_be_inetd = true;
            let name = flag.name;
            assert_eq!(settings, ServerSettings::default(), "{name} {default}");
            told_of += 1;
        }
        assert_eq!(told_of, 11);
    }

    #[test]
    fn the_clients_defaults_are_those_in_force() {
        let Global { here, test, .. } = Global::default();
        let port = Control::default().port;
        let of = |letter| row(&global::SECTION, letter);
        assert_eq!(
            of('a').told_default(),
            Some(here.send.alignment.to_string())
        );
        assert_eq!(of('t').told_default(), Some(test));
        assert!(of('p').paragraph.contains(&format!("({port})")));

        let mut told_of = 0;
        for flag in global::SECTION.flags {
            let Some(default) = flag.told_default() else {
                continue;
            };
            let needed = match flag.name {
                Letter('w') => "-b 1",
                Long("histogram-buckets") => "-v 2",
                _ => "",
            };
            let typed = format!("{needed} {} {default}", flag.name);
            assert!(settings(&typed) == settings(needed), "{typed}");
            told_of += 1;
        }
        assert_eq!(told_of, 16);

        let ConnectionPorts { min, max, .. } = ConnectionPorts::default();
        let ports = format!("{min} to {max} by default");
        for section in [&test::OMNI, &test::CLASSIC] {
            assert!(row(section, 'p').paragraph.contains(&ports));
        }
        let associations = format!("{} by default", families::DEFAULT_ASSOCIATIONS);
        assert!(row(&families::SCTP, 'T').paragraph.contains(&associations));
        let (sap, flag) = (families::DEFAULT_SAP, row(&families::DLPI, 's'));
        assert_eq!(flag.told_default(), Some(sap.to_string()));
        let usage = getopt::usage::stock(&families::DLPI, "");
        assert!(usage.contains(&format!("an even number ({sap})")));
    }

    fn row<L>(section: &Section<L>, letter: char) -> &'static Flag<L> {
        let is_it = |flag: &&Flag<L>| flag.name == Name::Letter(letter);
        section.flags.iter().find(is_it).unwrap()
    }

    /// What a command line asks for, without what differs between any two.
    fn settings(line: &str) -> crate::options::Settings {
        let words = line.split_whitespace().map(Into::into);
        let mut settings = crate::options::netperf("netperf", words).unwrap();
        settings.print.uuid.clear();
        settings.print.command_line.clear();
        settings
    }
}
