//! Structs whose fields have their defaults beside them.

pub(crate) use model::with_defaults;
