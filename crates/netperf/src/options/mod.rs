//! argv → [`Settings`] and [`ServerSettings`], in the stock tools' getopt grammar.
//!
//! One table a command ([`global`], [`test`], [`server`]) drives the parser ([`grammar`]) and the
//! usage text ([`usage`]). It yields low-level arguments, what was typed; [`plan`] makes the
//! settings of them.

mod families;
mod global;
mod grammar;
mod halves;
pub mod manual;
mod many;
mod plan;
mod print;
mod refusals;
mod repeat;
mod selection;
mod server;
mod settings;
mod test;
mod uncontrolled;
mod usage;
mod uuid;
mod value;

use std::ffi::OsString;

use ::server::Permissions;
use global::Global;
use grammar::{Section, Stop, scan};
use test::TestOptions;

pub use crate::attachment::Attachment;
pub use global::test_seconds;
pub use many::{super_netperf, super_netperf_on_ports};
pub use server::{Limits, ServerSettings};
pub use settings::*;

/// How a program ends: what is left to print, and the exit code. A command line can end so before
/// there is anything to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// For stdout, complete with its last newline.
    pub stdout: String,
    /// For stderr, likewise.
    pub stderr: String,
    /// The process's exit code.
    pub code: u8,
}

/// What the client's command line asks for. `program` is argv\[0\], `args` the words after it.
pub fn netperf(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Settings, Exit> {
    let words = utf8(program, args)?;
    let mut global = Global::default();
    let rest = scan(program, &global::SECTION, &words, &mut global)
        .map_err(|stop| exit(stop, on_stderr(usage::netperf), &global.notices))?;
    let Some(test) = by_name(&global.test) else {
        return Err(after(&global.notices, unknown_test(&global.test)));
    };

    let mut options = TestOptions::default();
    if let Some((section, usage)) = test_section(test) {
        scan(program, section, rest.behind, &mut options).map_err(|stop| {
            let help = Exit {
                stdout: usage(),
                code: 1,
                ..Exit::default()
            };
            // An unknown test option gets getopt's complaint alone, in the other families the help,
            // too.
            let complaint = Exit {
                stdout: if test.family() == TestFamily::Inet {
                    String::new()
                } else {
                    usage()
                },
                code: 1,
                ..Exit::default()
            };
            let ending = Ending { help, complaint };
            exit(
                stop,
                ending,
                &[&global.notices[..], &options.notices].concat(),
            )
        })?;
    }

    let notices = [&global.notices[..], &options.notices].concat();
    let command_line = [&[program.to_owned()], &words[..]].concat().join(" ");
    plan::settings(test, global, options, command_line).map_err(|stop| {
        let stop = match stop {
            Stop::Refused(why) => Stop::Refused(format!("{program}: {why}\n")),
            other => other,
        };
        exit(stop, on_stderr(usage::netperf), &notices)
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
        .map_err(|stop| exit(stop, on_stderr(usage::netserver), &settings.notices))?;
    if settings.user.is_some() && settings.limits.permissions.privileged_ports {
        return Err(Exit {
            stderr: format!("{program}: {}\n", Permissions::NOT_WITH_USER),
            code: 1,
            ..Exit::default()
        });
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

/// A help text, made when somebody wants it.
type Usage = fn() -> String;

/// The test's own options and their help. The calibration tests look at none.
fn test_section(test: Test) -> Option<(&'static Section<TestOptions>, Usage)> {
    match test {
        Test::LocCpu | Test::RemCpu => None,
        _ => Some(match test.family() {
            TestFamily::Unix => (&families::UNIX, usage::unix),
            TestFamily::Sctp => (&families::SCTP, usage::sctp),
            TestFamily::Dlpi => (&families::DLPI, usage::dlpi),
            TestFamily::Inet if test.is_classic() => (&test::CLASSIC, usage::classic),
            TestFamily::Inet => (&test::OMNI, usage::omni),
        }),
    }
}

/// The stock tool opens the control connection before it says so; it needs none for that.
fn unknown_test(name: &str) -> Exit {
    if let Some((_, what)) = WITHOUT_PROVIDER
        .iter()
        .find(|(tests, _)| tests.contains(&name))
    {
        return Exit {
            stderr: format!("netperf: {name} cannot run: {what} has no provider on Linux\n"),
            code: 1,
            ..Exit::default()
        };
    }
    Exit {
        stdout: format!(
            "The test you requested ({name}) is unknown to this netperf.\n\
             Please verify that you have the correct test name, \n\
             and that test family has been compiled into this netperf.\n"
        ),
        code: 1,
        ..Exit::default()
    }
}

fn utf8(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Vec<String>, Exit> {
    args.into_iter()
        .map(|arg| {
            arg.into_string().map_err(|arg| Exit {
                stderr: format!(
                    "{program}: argument '{}' is not valid UTF-8\n",
                    arg.display()
                ),
                code: 1,
                ..Exit::default()
            })
        })
        .collect()
}

/// What `-h` prints, and what follows getopt's complaint.
struct Ending {
    help: Exit,
    complaint: Exit,
}

/// Both print the usage text on stderr.
fn on_stderr(usage: Usage) -> Ending {
    let text = Exit {
        stderr: usage(),
        code: 1,
        ..Exit::default()
    };
    Ending {
        help: text.clone(),
        complaint: text,
    }
}

fn exit(stop: Stop, ending: Ending, notices: &[String]) -> Exit {
    let exit = match stop {
        Stop::Help => ending.help,
        Stop::Version => Exit {
            stdout: format!(
                "Netperf version 2.7.0\nlinerate {}\n",
                env!("CARGO_PKG_VERSION")
            ),
            ..Exit::default()
        },
        Stop::Complaint(line) => Exit {
            stderr: line + &ending.complaint.stderr,
            ..ending.complaint
        },
        Stop::Refused(line) => Exit {
            stderr: line,
            code: 1,
            ..Exit::default()
        },
        Stop::Exit(exit) => exit,
    };
    after(notices, exit)
}

/// The stock tool has printed these by the time that it gives up.
fn after(notices: &[String], exit: Exit) -> Exit {
    let mut stdout: String = notices.iter().flat_map(|line| [line, "\n"]).collect();
    stdout.push_str(&exit.stdout);
    Exit { stdout, ..exit }
}
