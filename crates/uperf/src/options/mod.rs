//! Parses the arguments of `uperf` into [`Settings`], in the stock tool's getopt grammar.
//!
//! One table (`table`) drives the parser, the usage text (`usage`) and the manual ([`manual`]).
//! It collects the given options; `settings` checks them and derives the settings.

mod counter;
pub mod manual;
mod settings;
mod table;
mod usage;
mod value;

use std::ffi::OsString;

use getopt::{ExitTexts, scan, utf8_words};

pub use counter::CpuCounter;
pub use getopt::Exit;
pub use settings::{MasterSettings, PrintOptions, Role, Settings, SlaveLimits, TlsFiles};
use table::GivenOptions;

/// Parses the command line. `program` is argv\[0\], `args` the arguments after it.
pub fn uperf(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Settings, Exit> {
    let words = utf8_words(program, args)?;
    if words.is_empty() {
        return Err(usage_after(program, ""));
    }
    let mut given = GivenOptions::default();
    let operands = scan(program, &table::SECTION, &words, &mut given).map_err(|quit| {
        quit.into_exit(ExitTexts {
            help: Exit::stdout(usage::text(program), 0),
            version: usage::version(),
            syntax_error: usage_after(program, ""),
        })
    })?;
    if let Some(word) = operands.first() {
        let text = format!("{program}: '{word}' belongs to no option; name the profile with -m\n");
        return Err(Exit::stderr(text, 1));
    }
    settings::settings(program, given)
}

/// Returns stock's exit for an unclear command line: an optional line and the usage text.
fn usage_after(program: &str, line: &str) -> Exit {
    Exit::stdout(line.to_owned() + &usage::text(program), 1)
}
