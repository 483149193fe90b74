//! A netserver among many clients, dying clients, hostile clients; clients of dying servers.
//!
//! Each test is bounded in time and cleans up after itself, on failure too. They run one after the
//! other, because they count descriptors and measure deadlines. Tests that need root, iproute2 or
//! the stock netperf are skipped where it is missing, and fail there if
//! `LINERATE_REQUIRE_PEERS=1`.

mod bounds;
mod clients;
mod content;
mod datagrams;
mod deadlines;
mod death;
mod doubts;
mod fields;
mod files;
mod hostile;
mod iterations;
mod late;
mod lifecycle;
mod mutated;
mod options;
mod peers;
mod privileges;
mod raw;
mod server_death;
mod stop;
mod unix;

use testkit::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    [
        bounds::trials(),
        clients::trials(),
        content::trials(),
        datagrams::trials(),
        death::trials(),
        doubts::trials(),
        fields::trials(),
        files::trials(),
        deadlines::trials(),
        server_death::trials(),
        stop::trials(),
        lifecycle::trials(),
        options::trials(),
        peers::trials(),
        privileges::trials(),
        hostile::trials(),
        iterations::trials(),
        mutated::trials(),
        late::trials(),
        unix::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
