//! What the wire formats of all dialects have in common.
//!
//! Text that a peer sends ends on terminals, in logs and in documents. [`Text`] and [`escaped`] show it so that it
//! moves no cursor, sets no clipboard and begins no line of its own. Its bytes are to be had by functions whose names
//! begin with `raw`, for comparisons and for the wire.
//!
//! A message of fixed length is a [`record!`] of [`Field`]s at given places.

#![forbid(unsafe_code)]

mod field;
mod text;

pub use field::{Field, Order, Record, part};
pub use text::{Escaped, Text, escaped, escaped_json, is_plain};
