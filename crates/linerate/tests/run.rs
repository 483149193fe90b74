//! What people meet in `linerate run` and in the messages and files of all programs.

mod datagrams;
mod early;
mod files;
mod firewall;
mod messages;
mod settings;

use testkit::{Trial, within};

pub(crate) fn trials() -> Vec<Trial> {
    [
        ("datagrams", datagrams::trials()),
        ("early", early::trials()),
        ("files", files::trials()),
        ("firewall", firewall::trials()),
        ("messages", messages::trials()),
        ("settings", settings::trials()),
    ]
    .into_iter()
    .flat_map(|(part, trials)| within(part, trials))
    .collect()
}
