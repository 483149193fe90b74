//! Parts common to the wire formats of all dialects: records, fields and texts.
//!
//! A peer's text is printed to terminals, logs and documents. [`Text`] and [`escaped`] display it
//! with escapes, so that it cannot move the cursor, set the clipboard or begin a line.
//! Functions whose names begin with `raw` return the unescaped bytes, for comparisons and the wire.
//!
//! [`record!`] declares a message of fixed length: [`Field`]s at given offsets.

#![forbid(unsafe_code)]

mod field;
mod text;

pub use field::{Endian, Field, Record, array_at};
pub use text::{
    EscapedText, Text, escaped, escaped_json, is_plain, needs_escape, push_json_escape,
};
