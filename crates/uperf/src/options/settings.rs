//! Derives [`Settings`] from the given options.

use std::path::PathBuf;
use std::time::Duration;

use getopt::Exit;
use model::with_defaults;
use server::{PeerPolicy, Permissions, ServerConfig};

use super::table::{GivenOptions, INVALID_PORT};
use super::{CpuCounter, usage_after};
use crate::{DataProtocol, WorkLimits};

/// Settings of one uperf process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Role of the process.
    pub role: Role,
    /// `-S`: protocol of the control connection: TCP, SCTP or VSOCK.
    pub control: DataProtocol,
    /// `-P`: control port; for a slave 0 means any. VSOCK ports have 32 bits.
    pub port: u32,
    /// `-v`.
    pub verbose: bool,
    /// Certificates and keys of SSL connections.
    pub tls: TlsFiles,
    /// `--strict-peers`, `--allow-third-party`: addresses of data connections and datagrams.
    pub policy: PeerPolicy,
    /// Notices to print on stderr at the start, without line ends.
    pub notices: Vec<String>,
}

/// Role of a process: `-m`, `-s` or `--check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs a profile.
    Master(MasterSettings),
    /// Takes part in masters' profiles, within these limits.
    Slave(SlaveLimits),
    /// Prints what this profile would run.
    Check(PathBuf),
}

with_defaults! {
    /// Options of a master.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MasterSettings {
        /// `-m`: file of the profile.
        pub profile: PathBuf = PathBuf::new(),
        /// `-i`: interval of progress lines.
        pub interval: Duration = Duration::from_secs(1),
        /// Parts of the output to print.
        pub print: PrintOptions = PrintOptions::default_sections(),
        /// `-p`: measure the CPU time of flowops.
        pub flowop_cpu: bool = false,
        /// `-e`, `-E`: CPU counters to read for flowops.
        pub counters: Vec<CpuCounter> = Vec::new(),
        /// `-X`: file for the response time of each pass of each flowop.
        pub response_times: Option<PathBuf> = None,
        /// `-H stdout`: print mean, median and 99th percentile of the latencies.
        pub latencies: bool = false,
        /// `--html`: file for the HTML page.
        pub html: Option<PathBuf> = None,
        /// `--json`: print only the result, as a JSON document on stdout.
        pub json: bool = false,
    }
}

/// Parts of a master's output. The `Default` prints nothing, as after `-n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a section or an option without a value"
)]
pub struct PrintOptions {
    /// Progress and its total; off with `-n`.
    pub progress: bool,
    /// Run Statistics; after `-n` only with `-a`.
    pub statistics: bool,
    /// `-g`: groups.
    pub groups: bool,
    /// `-T`: strands.
    pub strands: bool,
    /// `-t`: transactions.
    pub transactions: bool,
    /// `-f`, and options that imply it: flowops.
    pub flowops: bool,
    /// `-k`: network interfaces; on unless `-n` is given.
    pub interfaces: bool,
    /// `-R`: progress, totals, groups and strands as raw lines with time stamps.
    pub raw: bool,
}

/// Files for SSL connections.
///
/// Without a certificate file, stock's `server.pem` (master) or `client.pem` (slave) is used if it
/// exists; otherwise a certificate is generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// `--tls-cert`: PEM file with the certificate.
    pub certificate: Option<PathBuf>,
    /// `--tls-key`: PEM file with its key; by default the certificate's file.
    pub key: Option<PathBuf>,
    /// `--tls-pass-file`: file whose first line is the key's pass phrase; by default the pass
    /// phrase is stock's, `password`.
    pub pass_phrase: Option<PathBuf>,
    /// `--tls-verify`: PEM file with authorities, one of which must have signed the peer's
    /// certificate; without it any certificate is accepted.
    pub authorities: Option<PathBuf>,
}

with_defaults! {
    /// Limits and permissions of a slave.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SlaveLimits {
        /// `--allow-dir`: directories from which masters may request files; by default none.
        pub directories: Vec<PathBuf> = Vec::new(),
        /// `--allow-peers`, `--max-masters`, `--drain-on-exit`: which masters are accepted.
        pub server: ServerConfig = ServerConfig::default(),
        /// `--allow-modules`, `--allow-privileged-ports`: permissions of workorders on this host.
        pub permissions: Permissions = Permissions::default(),
        /// `--user`: user to change to.
        pub user: Option<String> = None,
        /// `--max-connections`: connections, listeners and files per master at a time.
        pub connections: u64 = 32_768,
        /// `--max-strands`, `--max-memory`, `--max-length`: limits of each workorder. The limits of
        /// strands and memory apply to all masters together.
        pub work: WorkLimits = WorkLimits::default(),
        /// `--control-idle`: timeout for a master's next message before its run starts.
        pub control_idle: Duration = Duration::from_secs(120),
    }
}

impl MasterSettings {
    /// Returns true if the output needs statistics that the text does not print.
    pub(crate) fn needs_all_statistics(&self) -> bool {
        self.html.is_some() || self.json
    }
}

impl PrintOptions {
    /// Returns the parts that stock prints without options.
    pub fn default_sections() -> Self {
        Self {
            progress: true,
            statistics: true,
            interfaces: true,
            ..Self::default()
        }
    }
}

/// Derives the settings; refuses options that do not apply to the role.
pub(super) fn settings(program: &str, given: GivenOptions) -> Result<Settings, Exit> {
    let refuse = |reason: &str| Err(Exit::stderr(format!("{program}: {reason}\n"), 1));
    let notices = check_inapplicable_options(program, &given)?;
    if given.tls.key.is_some() && given.tls.certificate.is_none() {
        return refuse("--tls-key requires --tls-cert");
    }
    if given.control != DataProtocol::Vsock && given.port > u16::MAX.into() {
        return refuse(&format!("-P {}: {INVALID_PORT}", given.port));
    }
    let role = match (given.profile, given.slave, given.check) {
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
            return refuse("--check cannot be combined with -m or -s");
        }
        (None, true, None)
            if given.limits.user.is_some() && given.limits.permissions.allows_privileged_ports =>
        {
            return refuse(Permissions::NOT_WITH_USER);
        }
        (None, true, None) => Role::Slave(given.limits),
        (None, false, Some(_)) if given.tls != TlsFiles::default() => {
            return refuse("--check opens no connections; remove --tls-*");
        }
        (None, false, Some(profile)) => Role::Check(profile),
        (Some(profile), false, None) => {
            let master = MasterSettings {
                profile,
                ..given.master
            };
            if given.port == 0 {
                return refuse("-P 0: a master needs the slaves' port");
            }
            if master.json && (master.print.raw || !master.print.progress) {
                return refuse("--json cannot be combined with -R or -n");
            }
            if master.html.is_some() && !master.print.progress {
                return refuse("--html cannot be combined with -n");
            }
            Role::Master(master)
        }
    };
    Ok(Settings {
        role,
        control: given.control,
        port: given.port,
        verbose: given.verbose,
        tls: given.tls,
        policy: given.policy,
        notices,
    })
}

/// Checks for options that do not apply to the role.
///
/// Returns a notice for each of stock's options, which stock silently ignores. Refuses linerate's
/// own options.
fn check_inapplicable_options(program: &str, given: &GivenOptions) -> Result<Vec<String>, Exit> {
    let (inapplicable, role) = match (given.slave, &given.check) {
        (true, _) => (given.master_options.clone(), "a slave"),
        (false, None) => (given.slave_options.clone(), "a master"),
        (false, Some(_)) => (
            [
                &given.common_options[..],
                &given.master_options,
                &given.slave_options,
            ]
            .concat(),
            "--check",
        ),
    };
    let mut notices = Vec::new();
    for option in inapplicable {
        if option.starts_with("--") {
            let text = format!("{program}: {option} is not for {role}\n");
            return Err(Exit::stderr(text, 1));
        }
        let notice = format!("{program}: {option} has no effect on {role}");
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
    Ok(notices)
}
