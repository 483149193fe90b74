//! The command lines of netperf and netserver, parsed to [`Settings`] and [`ServerSettings`].
//!
//! The grammar is the stock tools' getopt grammar. One table per command (`global`, `test`,
//! `server`) drives the parser, the usage text (`usage`) and the manual page ([`manual`]).
//! The parser stores the arguments as typed; `plan` converts them to settings.

mod endpoint_plans;
mod families;
mod from_plan;
mod global;
pub mod manual;
mod no_control;
mod plan;
mod print;
mod refusals;
mod repeat;
mod rings;
mod selection;
mod server;
mod settings;
mod super_netperf;
mod test;
mod usage;
mod uuid;
mod value;

use std::ffi::OsString;
use std::mem;

use ::server::Permissions;
use getopt::stock_version::StockVersion;
use getopt::{EarlyExit, ExitTexts, Grammar, Section, mask_secrets, scan, utf8_words};

use global::GlobalOptions;
use test::TestOptions;

use crate::version::Version;

pub use crate::dlpi_interface::DlpiInterface;
pub use from_plan::settings_for_plan;
pub use getopt::Exit;
pub use server::{ServerLimits, ServerSettings};
pub use settings::*;
pub use super_netperf::{parse_super_netperf, parse_super_netperf_on_ports};
pub use value::MAX_PASSPHRASE_BYTES;

/// Returns the words of a valid command line of the client for display: without secrets.
pub fn displayed_words(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    mask_secrets(Grammar::Getopt, &global::SECTION, args)
}

/// Parses the client's command line. `program` is argv\[0\], `args` the words after it.
pub fn parse_netperf(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Settings, Exit> {
    let words = utf8_words(program, args)?;
    let mut global = GlobalOptions {
        version: version_of_environment(program)?,
        ..GlobalOptions::default()
    };
    let test_words = scan(program, &global::SECTION, &words, &mut global);
    let test_words = test_words.map_err(|early_exit| {
        let notices = &global.settings.notices;
        with_usage(early_exit, global.version, usage::netperf, notices)
    })?;
    let Some(test) = test_by_name(&global.test) else {
        return Err(with_notices(
            &global.settings.notices,
            unknown_test(&global.test),
        ));
    };

    let version = global.version;
    let mut options = TestOptions {
        version,
        local: mem::take(&mut global.local),
        remote: mem::take(&mut global.remote),
        ..TestOptions::default()
    };
    if let Some(section) = test_section(test) {
        scan(program, section, test_words.after_dashes, &mut options).map_err(|early_exit| {
            let help = version.edit_test_help(&usage::test_help(section));
            let help = Exit::stdout(help, 1);
            // For an unknown test option, stock prints getopt's message. Families other than Inet
            // print the help after it.
            let syntax_error = match test.family() {
                TestFamily::Inet => Exit::stdout("", 1),
                _ => help.clone(),
            };
            let notices = [&global.settings.notices[..], &options.notices].concat();
            into_exit(early_exit, version, help, syntax_error, &notices)
        })?;
    }

    let notices = [&global.settings.notices[..], &options.notices].concat();
    let command_line = [&[program.to_owned()], &words[..]].concat().join(" ");
    plan::settings(test, global, options, command_line).map_err(|early_exit| {
        let early_exit = match early_exit {
            EarlyExit::Refused(reason) => EarlyExit::Refused(format!("{program}: {reason}\n")),
            other => other,
        };
        with_usage(early_exit, version, usage::netperf, &notices)
    })
}

/// Parses the server's command line. `program` is argv\[0\], `args` the words after it.
pub fn parse_netserver(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<ServerSettings, Exit> {
    let words = utf8_words(program, args)?;
    let mut settings = ServerSettings {
        version: version_of_environment(program)?,
        ..ServerSettings::default()
    };
    scan(program, &server::SECTION, &words, &mut settings).map_err(|early_exit| {
        let notices = &settings.notices;
        with_usage(early_exit, settings.version, usage::netserver, notices)
    })?;
    if settings.user.is_some() && settings.limits.permissions.allows_privileged_ports {
        let reason = Permissions::NOT_WITH_USER;
        return Err(Exit::stderr(format!("{program}: {reason}\n"), 1));
    }
    Ok(settings)
}

fn version_of_environment(program: &str) -> Result<Version, Exit> {
    Version::from_environment().map_err(|reason| Exit::stderr(format!("{program}: {reason}\n"), 1))
}

fn test_by_name(name: &str) -> Option<Test> {
    Test::ALL
        .iter()
        .find(|(_, known)| *known == name)
        .map(|(test, _)| *test)
}

/// Stock tests over interfaces that Linux lacks, with the interface's name.
const TESTS_WITHOUT_PROVIDER: [(&[&str], &str); 2] = [
    (
        &[
            "XTI_TCP_STREAM",
            "XTI_TCP_RR",
            "XTI_TCP_CC",
            "XTI_TCP_CRR",
            "XTI_UDP_STREAM",
            "XTI_UDP_RR",
        ],
        "the X/Open Transport Interface",
    ),
    (
        &["SDP_STREAM", "SDP_MAERTS", "SDP_RR", "SDP_CRR", "SDP_CC"],
        "the Sockets Direct Protocol",
    ),
];

/// Returns the test options of `test`; `None` for the calibration tests, which ignore them.
fn test_section(test: Test) -> Option<&'static Section<TestOptions>> {
    match test {
        Test::LocCpu | Test::RemCpu => None,
        _ => Some(match test.family() {
            TestFamily::Unix => &families::UNIX,
            TestFamily::Sctp => &families::SCTP,
            TestFamily::Dlpi => &families::DLPI,
            TestFamily::Inet if test.is_classic() => &test::CLASSIC,
            TestFamily::Inet => &test::OMNI,
        }),
    }
}

/// Returns the error for an unknown test. Unlike stock, linerate reports it before it connects.
fn unknown_test(name: &str) -> Exit {
    if let Some((_, interface)) = TESTS_WITHOUT_PROVIDER
        .iter()
        .find(|(tests, _)| tests.contains(&name))
    {
        let message = format!("netperf: {name} cannot run: {interface} has no provider on Linux\n");
        return Exit::stderr(message, 1);
    }
    Exit::stdout(
        format!(
            "The test you requested ({name}) is unknown to this netperf.\n\
             Please verify that you have the correct test name, \n\
             and that test family has been compiled into this netperf.\n"
        ),
        1,
    )
}

/// Returns the exit with the usage text on stderr: for `-h` and after getopt's error message.
fn with_usage(
    early_exit: EarlyExit,
    version: Version,
    usage: fn() -> String,
    notices: &[String],
) -> Exit {
    let text = Exit::stderr(usage(), 1);
    into_exit(early_exit, version, text.clone(), text, notices)
}

fn into_exit(
    early_exit: EarlyExit,
    version: Version,
    help: Exit,
    syntax_error: Exit,
    notices: &[String],
) -> Exit {
    const LINERATE_VERSION: &str = env!("CARGO_PKG_VERSION");
    let name = version.name();
    let version = format!("Netperf version {name}\nlinerate {LINERATE_VERSION}\n");
    let texts = ExitTexts {
        help,
        version,
        syntax_error,
    };
    with_notices(notices, early_exit.into_exit(texts))
}

/// Returns `exit` with `notices` first on stdout. The stock tool prints them before it exits.
fn with_notices(notices: &[String], exit: Exit) -> Exit {
    let mut stdout: String = notices.iter().flat_map(|line| [line, "\n"]).collect();
    stdout.push_str(&exit.stdout);
    Exit { stdout, ..exit }
}
