//! Conversion between a group of the profile and the workorder of a slave, which does the opposite
//! of its master.
//!
//! [`hosts`] lists the slaves of a group. [`records_for_host`] creates the records for one of them;
//! [`group_from_work`] converts received records to a group.

mod connections;
mod parking;
mod received_group;
mod records;

pub use connections::{PartnerSlaves, hosts, partner_slaves};
pub use parking::{park_strands, shares_listener};
pub use received_group::group_from_work;
pub use records::{UnsendableOption, accepts_connections, protocols, records_for_host};
