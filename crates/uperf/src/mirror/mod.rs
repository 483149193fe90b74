//! What is to be run ↔ the records of a workorder: a slave does the opposite of what its master
//! does.
//!
//! [`hosts`] says which slaves a group has. [`work`] is what one of them is sent; [`assignment`] is
//! what a slave makes of it.

mod assignment;
mod connections;
mod parking;
mod records;

pub use assignment::assignment;
pub use connections::{Part, hosts, parts};
pub use parking::{park, shares_listener};
pub use records::{Unsendable, listens, protocols, work};
