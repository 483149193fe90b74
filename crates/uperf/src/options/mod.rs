//! argv of `uperf` → [`Settings`], in the stock tool's getopt grammar.
//!
//! One table ([`table`]) drives the parser, the usage text ([`usage`]) and the manual ([`manual`]). It
//! yields what was typed; [`settings`] says what comes of it.

mod counter;
pub mod manual;
mod settings;
mod table;
mod usage;
mod value;

use std::ffi::OsString;

use getopt::{Endings, scan, utf8};

pub use counter::Counter;
pub use getopt::Exit;
pub use settings::{Limits, Master, Print, Role, Settings, Tls};
use table::Typed;

/// What the command line asks for. `program` is argv\[0\], `args` the words after it.
pub fn uperf(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Settings, Exit> {
    let words = utf8(program, args)?;
    if words.is_empty() {
        return Err(usage_after(program, ""));
    }
    let mut typed = Typed::default();
    let rest = scan(program, &table::SECTION, &words, &mut typed).map_err(|quit| {
        quit.exit(Endings {
            help: Exit::stdout(usage::text(program), 0),
            version: usage::version(),
            complaint: usage_after(program, ""),
        })
    })?;
    if let Some(word) = rest.first() {
        let why = format!("{program}: '{word}' belongs to no option; a profile is named with -m\n");
        return Err(Exit::stderr(why, 1));
    }
    settings::settings(program, typed)
}

/// What the stock tool prints when it cannot tell what is wanted: a line, if any, and its usage text.
fn usage_after(program: &str, line: &str) -> Exit {
    Exit::stdout(line.to_owned() + &usage::text(program), 1)
}
