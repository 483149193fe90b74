//! `linerate run`, and the messages and files of all programs.

mod datagrams;
mod early;
mod files;
mod firewall;
mod messages;
mod settings;
mod special_files;

use testkit::{TestCase, with_prefix};

pub(crate) fn test_cases() -> Vec<TestCase> {
    [
        ("datagrams", datagrams::test_cases()),
        ("early", early::test_cases()),
        ("files", files::test_cases()),
        ("firewall", firewall::test_cases()),
        ("messages", messages::test_cases()),
        ("settings", settings::test_cases()),
        ("special_files", special_files::test_cases()),
    ]
    .into_iter()
    .flat_map(|(part, test_cases)| with_prefix(part, test_cases))
    .collect()
}
