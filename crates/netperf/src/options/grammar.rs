//! The words of `getopt`'s grammar, as the tables here have them.

pub(super) use getopt::{Argument, Name, flag, long, refuse, scan};

use super::Exit;

/// One row of a table whose options fill `L`.
pub(super) type Flag<L> = getopt::Flag<L, Exit>;

/// A table.
pub(super) type Section<L> = getopt::Section<L, Exit>;

/// What an option does.
pub(super) type Apply<L> = getopt::Apply<L, Exit>;

/// Why parsing ended early. To the letter what the stock tool says and does is an [`Exit`].
pub(super) type Stop = getopt::Stop<Exit>;
