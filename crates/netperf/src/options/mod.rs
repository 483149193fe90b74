//! argv → [`Settings`] and [`ServerSettings`], in the stock tools' getopt grammar.
//!
//! One table per command ([`global`], [`test`], [`server`]) drives the parser, the usage text
//! ([`usage`]) and the manual page ([`manual`]). It yields low-level arguments, as typed; [`plan`] makes
//! the settings of them.

mod families;
mod global;
mod halves;
pub mod manual;
mod many;
mod of_plan;
mod plan;
mod print;
mod refusals;
mod repeat;
mod rings;
mod selection;
mod server;
mod settings;
mod test;
mod uncontrolled;
mod usage;
mod uuid;
mod value;

use std::ffi::OsString;
use std::mem;

use ::server::Permissions;
use getopt::{Endings, Quit, Section, scan, utf8};

use global::Global;
use test::TestOptions;

pub use crate::attachment::Attachment;
pub use getopt::Exit;
pub use global::test_seconds;
pub use many::{super_netperf, super_netperf_on_ports};
pub use of_plan::of_plan;
pub use server::{Limits, ServerSettings};
pub use settings::*;

/// What the client's command line asks for. `program` is argv\[0\], `args` the words after it.
pub fn netperf(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Settings, Exit> {
    let words = utf8(program, args)?;
    let mut global = Global::default();
    let rest = scan(program, &global::SECTION, &words, &mut global)
        .map_err(|quit| with_usage(quit, usage::netperf, &global.settings.notices))?;
    let Some(test) = by_name(&global.test) else {
        return Err(after(&global.settings.notices, unknown_test(&global.test)));
    };

    let mut options = TestOptions {
        here: mem::take(&mut global.here),
        there: mem::take(&mut global.there),
        ..TestOptions::default()
    };
    if let Some(section) = test_section(test) {
        scan(program, section, rest.behind, &mut options).map_err(|quit| {
            let help = Exit::stdout(usage::of_test(section), 1);
            // An unknown test option gets getopt's complaint alone, in the other families the help,
            // too.
            let complaint = match test.family() {
                TestFamily::Inet => Exit::stdout("", 1),
                _ => help.clone(),
            };
            let notices = [&global.settings.notices[..], &options.notices].concat();
            exit(quit, help, complaint, &notices)
        })?;
    }

    let notices = [&global.settings.notices[..], &options.notices].concat();
    let command_line = [&[program.to_owned()], &words[..]].concat().join(" ");
    plan::settings(test, global, options, command_line).map_err(|quit| {
        let quit = match quit {
            Quit::Refused(why) => Quit::Refused(format!("{program}: {why}\n")),
            other => other,
        };
        with_usage(quit, usage::netperf, &notices)
    })
}

/// What the server's command line asks for. `program` is argv\[0\], `args` the words after it.
pub fn netserver(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<ServerSettings, Exit> {
    let words = utf8(program, args)?;
    let mut settings = ServerSettings::default();
    scan(program, &server::SECTION, &words, &mut settings)
        .map_err(|quit| with_usage(quit, usage::netserver, &settings.notices))?;
    if settings.user.is_some() && settings.limits.permissions.privileged_ports {
        let why = Permissions::NOT_WITH_USER;
        return Err(Exit::stderr(format!("{program}: {why}\n"), 1));
    }
    Ok(settings)
}

fn by_name(name: &str) -> Option<Test> {
    Test::ALL
        .iter()
        .find(|(_, known)| *known == name)
        .map(|(test, _)| *test)
}

/// Tests of netperf's over interfaces that nothing on Linux provides.
const WITHOUT_PROVIDER: [(&[&str], &str); 2] = [
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

/// The test's own options. The calibration tests look at none.
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

/// The stock tool opens the control connection before it says so; it needs none for that.
fn unknown_test(name: &str) -> Exit {
    if let Some((_, what)) = WITHOUT_PROVIDER
        .iter()
        .find(|(tests, _)| tests.contains(&name))
    {
        let why = format!("netperf: {name} cannot run: {what} has no provider on Linux\n");
        return Exit::stderr(why, 1);
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

/// The usage text on stderr, for `-h` and after getopt's complaint.
fn with_usage(quit: Quit, usage: fn() -> String, notices: &[String]) -> Exit {
    let text = Exit::stderr(usage(), 1);
    exit(quit, text.clone(), text, notices)
}

fn exit(quit: Quit, help: Exit, complaint: Exit, notices: &[String]) -> Exit {
    const OURS: &str = env!("CARGO_PKG_VERSION");
    let version = format!("Netperf version 2.7.0\nlinerate {OURS}\n");
    let endings = Endings {
        help,
        version,
        complaint,
    };
    after(notices, quit.exit(endings))
}

/// The stock tool has printed these by the time that it gives up.
fn after(notices: &[String], exit: Exit) -> Exit {
    let mut stdout: String = notices.iter().flat_map(|line| [line, "\n"]).collect();
    stdout.push_str(&exit.stdout);
    Exit { stdout, ..exit }
}
