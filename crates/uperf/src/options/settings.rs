//! What was typed → [`Settings`].

use std::path::PathBuf;
use std::time::Duration;

use getopt::Exit;
use model::with_defaults;
use server::{Permissions, Policy, ServerConfig};

use super::table::{NO_PORT, Typed};
use super::{Counter, usage_after};
use crate::{Protocol, WorkLimits};

/// The settings in force for one uperf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who it is.
    pub role: Role,
    /// `-S`: what the control connection goes over: TCP, SCTP or VSOCK.
    pub control: Protocol,
    /// `-P`: the control port; of a slave 0 is any. VSOCK has ports of 32 bits.
    pub port: u32,
    /// `-v`.
    pub verbose: bool,
    /// What SSL connections are made with.
    pub tls: Tls,
    /// `--strict-peers`, `--allow-third-party`: whose data is taken, and where datagrams go.
    pub policy: Policy,
    /// Lines for stderr before anything else happens, without their line ends.
    pub notices: Vec<String>,
}

/// `-m`, `-s`, `--check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs a profile.
    Master(Master),
    /// Takes part in others' profiles, within these limits.
    Slave(Limits),
    /// Says what this profile would run.
    Check(PathBuf),
}

with_defaults! {
    /// What a master is asked for.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Master {
        /// `-m`: the profile's file.
        pub profile: PathBuf = PathBuf::new(),
        /// `-i`: from one progress line to the next.
        pub interval: Duration = Duration::from_secs(1),
        /// What is printed.
        pub print: Print = Print::usual(),
        /// `-p`: CPU time a flowop.
        pub flowop_cpu: bool = false,
        /// `-e`, `-E`: CPU counters a flowop.
        pub counters: Vec<Counter> = Vec::new(),
        /// `-X`: the file for the time of each pass of each flowop.
        pub response_times: Option<PathBuf> = None,
        /// `-H stdout`: latencies are kept, and their mean, median and 99th percentile printed.
        pub latencies: bool = false,
        /// `--html`: the file for the page.
        pub html: Option<PathBuf> = None,
        /// `--json`: the result is a JSON document on stdout, and the only thing there.
        pub json: bool = false,
    }
}

/// What a master prints; by default nothing, as after `-n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a section, or one option without a value"
)]
pub struct Print {
    /// Progress and its total: not with `-n`.
    pub progress: bool,
    /// Run Statistics: after `-n` only with `-a`.
    pub statistics: bool,
    /// `-g`.
    pub groups: bool,
    /// `-T`.
    pub strands: bool,
    /// `-t`.
    pub transactions: bool,
    /// `-f`, and what assumes it.
    pub flowops: bool,
    /// `-k`; in force unless `-n` is.
    pub interfaces: bool,
    /// `-R`: lines with time stamps in the place of progress, totals, groups and strands.
    pub raw: bool,
}

/// What SSL connections are made with. Where there is no file, stock's `server.pem` (master) or
/// `client.pem` (slave) is looked for, and then a certificate is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// `--tls-cert`: PEM with the certificate.
    pub certificate: Option<PathBuf>,
    /// `--tls-key`: PEM with its key; by default it is in the certificate's file.
    pub key: Option<PathBuf>,
    /// `--tls-pass-file`: a file whose first line is the key's pass phrase; by default it is stock's,
    /// `password`.
    pub pass_phrase: Option<PathBuf>,
    /// `--tls-verify`: PEM with the authorities that the other end's certificate must come from; without
    /// it any is taken.
    pub authorities: Option<PathBuf>,
}

with_defaults! {
    /// What a slave does for whoever connects, and no more.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// `--allow-dir`: directories below which a master may name files to send; by default none.
        pub directories: Vec<PathBuf> = Vec::new(),
        /// `--allow-peers`, `--max-masters`, `--drain-on-exit`: which masters are accepted.
        pub server: ServerConfig = ServerConfig::default(),
        /// `--allow-modules`, `--allow-privileged-ports`: what a workorder may change on this host.
        pub permissions: Permissions = Permissions::default(),
        /// `--user`: the user to change to.
        pub user: Option<String> = None,
        /// `--max-connections`: connections, listeners and files of one master at a time.
        pub connections: u64 = 32_768,
        /// `--max-strands`, `--max-memory`, `--max-length`: bounds of each workorder; strands and memory are those
        /// of all masters together.
        pub work: WorkLimits = WorkLimits::default(),
        /// `--control-idle`: the longest silence of a master before its run begins.
        pub control_idle: Duration = Duration::from_secs(120),
    }
}

impl Master {
    /// Whether there is somebody who reads more than the text.
    pub(crate) fn wants_all(&self) -> bool {
        self.html.is_some() || self.json
    }
}

impl Print {
    /// Without options.
    pub fn usual() -> Self {
        Self {
            progress: true,
            statistics: true,
            interfaces: true,
            ..Self::default()
        }
    }
}

/// One role, and nothing that it has no use for.
pub(super) fn settings(program: &str, typed: Typed) -> Result<Settings, Exit> {
    let refuse = |why: &str| Err(Exit::stderr(format!("{program}: {why}\n"), 1));
    let notices = strangers(program, &typed)?;
    if typed.tls.key.is_some() && typed.tls.certificate.is_none() {
        return refuse("--tls-key without --tls-cert");
    }
    if typed.control != Protocol::Vsock && typed.port > u16::MAX.into() {
        return refuse(&format!("-P {}: {NO_PORT}", typed.port));
    }
    let role = match (typed.profile, typed.slave, typed.check) {
        (None, false, None) => {
            return Err(usage_after(program, "Please specify server or client.\n"));
        }
        (Some(_), true, _) => {
            return Err(usage_after(
                program,
                "Can only be server or client. Not both!\n",
            ));
        }
        (Some(_), _, Some(_)) | (_, true, Some(_)) => {
            return refuse("--check runs nothing: without -m and -s");
        }
        (None, true, None)
            if typed.limits.user.is_some() && typed.limits.permissions.privileged_ports =>
        {
            return refuse(Permissions::NOT_WITH_USER);
        }
        (None, true, None) => Role::Slave(typed.limits),
        (None, false, Some(_)) if typed.tls != Tls::default() => {
            return refuse("--check opens no connections: --tls-* has no use");
        }
        (None, false, Some(profile)) => Role::Check(profile),
        (Some(profile), false, None) => {
            let master = Master {
                profile,
                ..typed.master
            };
            if typed.port == 0 {
                return refuse("-P 0: a master has to know the slaves' port");
            }
            if master.json && (master.print.raw || !master.print.progress) {
                return refuse("--json has the place of the text that -R and -n are about");
            }
            if master.html.is_some() && !master.print.progress {
                return refuse("--html has nothing to show with -n");
            }
            Role::Master(master)
        }
    };
    Ok(Settings {
        role,
        control: typed.control,
        port: typed.port,
        verbose: typed.verbose,
        tls: typed.tls,
        policy: typed.policy,
        notices,
    })
}

/// Options of another role than the one that was asked for. Of stock's, which takes them without a
/// word, it is said that they have no effect; our own are refused.
fn strangers(program: &str, typed: &Typed) -> Result<Vec<String>, Exit> {
    let (strangers, role) = match (typed.slave, &typed.check) {
        (true, _) => (typed.of_master.clone(), "a slave"),
        (false, None) => (typed.of_slave.clone(), "a master"),
        (false, Some(_)) => (
            [&typed.of_both[..], &typed.of_master, &typed.of_slave].concat(),
            "--check",
        ),
    };
    let mut notices = Vec::new();
    for option in strangers {
        if option.starts_with("--") {
            let why = format!("{program}: {option} is not for {role}\n");
            return Err(Exit::stderr(why, 1));
        }
        let notice = format!("{program}: {option} has no effect on {role}");
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
    Ok(notices)
}
