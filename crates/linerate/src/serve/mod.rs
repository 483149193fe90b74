//! `linerate serve`: one server process for the clients of all dialects.

mod config;
mod log;
mod sockets;
pub(crate) mod status;

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use clap::ValueEnum;
use engine::{ResourceBudget, Stop};
use server::{Dialect, Server, ServerConfig, Service, ThirdParties};
use sys::Socket;

use self::config::{AuthSecrets, LimitArgs};
use self::log::LogFormat;
use self::sockets::DialectSockets;

/// Arguments of `linerate serve`.
///
/// Serves the clients of all dialects at their usual ports, and writes one line per test to
/// standard output. SIGTERM ends the tests and the server. SIGHUP reads the limits file again.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Serve only these dialects
    #[arg(long, value_name = "DIALECT,...", value_delimiter = ',')]
    only: Vec<DialectName>,

    /// Listen on this address, or on the addresses of this host name [default: all]
    #[arg(long, value_name = "HOST")]
    bind: Option<String>,

    /// Port of netperf; 0 in any port option chooses a free port
    #[arg(long, value_name = "PORT", default_value_t = 12865)]
    netperf_port: u16,

    /// Port of uperf
    #[arg(long, value_name = "PORT", default_value_t = 20000)]
    uperf_port: u16,

    /// Port of iperf 2, TCP and UDP
    #[arg(long, value_name = "PORT", default_value_t = 5001)]
    iperf_port: u16,

    /// Port of iperf3
    #[arg(long, value_name = "PORT", default_value_t = 5201)]
    iperf3_port: u16,

    /// Port of UDPmon
    #[arg(long, value_name = "PORT", default_value_t = 14233)]
    udpmon_port: u16,

    /// Format of the log line of each test
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: LogFormat,

    /// Serve at most N connections and UDP flows at a time; one address gets at most 15/16 of them
    #[arg(long, value_name = "N", default_value_t = 4096)]
    max_clients: u32,

    #[command(flatten)]
    limits: LimitArgs,

    /// Read limits from this file, and again at each SIGHUP. Each line is an option without its
    /// dashes, such as "max-tests 4". Limits in the file override the options
    #[arg(long, value_name = "FILE")]
    limits_file: Option<PathBuf>,

    /// Require authentication in each dialect that has a line in this file: netperf-passphrase
    /// WORD, iperf-permit-key KEY, iperf3-rsa-private-key FILE and iperf3-authorized-users FILE.
    /// Other users must not have access to the file
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,

    /// Let running tests continue for up to SEC seconds after SIGTERM; 0 ends them immediately
    #[arg(long, value_name = "SEC", default_value = "0", value_parser = units::parse_duration)]
    drain_on_exit: Duration,

    /// Change to this user and drop all capabilities for good after opening the ports
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Path of the socket for `linerate status` [default: status.sock in $RUNTIME_DIRECTORY,
    /// /run/linerate or $XDG_RUNTIME_DIR/linerate]
    #[arg(long, value_name = "PATH")]
    status: Option<PathBuf>,
}

/// A dialect with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DialectName {
    Netperf,
    Uperf,
    Iperf,
    Iperf3,
    Udpmon,
}

/// Function that serves one dialect until the service stops.
type ServeJob = Box<dyn FnOnce() + Send>;

/// Serves until a signal ends the server.
pub(crate) fn run(args: &Args) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            sys::write_error_line(format_args!("linerate serve: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Args) -> Result<(), String> {
    if args.user.is_some() {
        sys::user::forbid_new_privileges().map_err(|error| format!("--user: {error}"))?;
    }
    let auth = args
        .auth
        .as_deref()
        .map_or(Ok(AuthSecrets::default()), AuthSecrets::read)?;
    let config = args.config()?;
    let has_drain_time = !config.drain_time.is_zero();
    let stop = Stop::new();
    let service = Service::with_log(config, stop.clone(), args.log.writer());
    // Install the handlers before any client can connect, so that a signal always ends the server
    // cleanly.
    if has_drain_time {
        crate::signals::stop_one_per_signal(vec![stop, service.cancel_stop().clone()]);
    } else {
        crate::signals::stop_on_signals(&stop);
    }
    let thread_error = |error| format!("cannot start a thread: {}", sys::describe(&error));
    reload_on_signals(args, &service).map_err(thread_error)?;
    let status = status::StatusListener::open(args.status.as_deref())?;
    let bound = sockets::open_sockets(args)?;
    let listening: Vec<_> = bound.iter().map(DialectSockets::describe).collect();
    let mut jobs = Vec::new();
    for dialect_sockets in bound {
        jobs.push(dialect_job(dialect_sockets, &service, &auth)?);
    }
    if let Some(name) = &args.user {
        note_lost_ports(args);
        sys::user::drop_to_user(name).map_err(|error| error.to_string())?;
    }
    let started = service
        .start_limit_enforcer()
        .and_then(|()| status.serve(&service));
    started.map_err(thread_error)?;
    log::write_operator_note(format_args!("resources: {}", ResourceBudget::process()));
    log::write_operator_note(format_args!("listening: {}", listening.join(", ")));
    std::thread::scope(|scope| {
        for job in jobs {
            scope.spawn(job);
        }
    });
    log::report_left_out_lines();
    Ok(())
}

/// Reports the UDP tests that `--user` prevents: each of their flows binds a socket to the port.
fn note_lost_ports(args: &Args) {
    let first_unprivileged = sys::facts::first_unprivileged_port();
    for (name, port) in [("iperf", args.iperf_port), ("iperf3", args.iperf3_port)] {
        if port != 0 && u32::from(port) < first_unprivileged {
            log::write_operator_note(format_args!(
                "{name}: UDP tests will fail, because --user drops the privilege to bind their \
                 sockets to port {port}; use a port from {first_unprivileged}"
            ));
        }
    }
}

fn dialect_job(
    bound: DialectSockets,
    service: &Service,
    auth: &AuthSecrets,
) -> Result<ServeJob, String> {
    match bound.name {
        #[cfg(feature = "netperf")]
        DialectName::Netperf => {
            let limits = netperf::options::ServerLimits::default();
            let passphrase = auth.netperf_passphrase.clone();
            let max_bytes = netperf::options::MAX_PASSPHRASE_BYTES;
            if (passphrase.as_ref()).is_some_and(|passphrase| passphrase.len() > max_bytes) {
                return Err(format!("netperf-passphrase: longer than {max_bytes} bytes"));
            }
            let server = netperf::server::server_for_service(service, limits, passphrase);
            Ok(server_job(
                server.map_err(|error| sys::describe(&error))?,
                bound.listeners,
            ))
        }
        #[cfg(feature = "uperf")]
        DialectName::Uperf => {
            let server =
                uperf::slave::server_for_service(service, uperf::slave::SlaveConfig::default());
            Ok(server_job(server, bound.listeners))
        }
        #[cfg(feature = "iperf")]
        DialectName::Iperf => iperf_job(bound, service, auth),
        #[cfg(feature = "iperf3")]
        DialectName::Iperf3 => {
            let settings = iperf3::options::ServerSettings {
                private_key: auth.iperf3_rsa_private_key.clone(),
                users_file: auth.iperf3_authorized_users.clone(),
                ..iperf3::options::ServerSettings::default()
            };
            let common = iperf3::options::CommonSettings {
                version: getopt::stock_version::StockVersion::from_environment()?,
                port: bound.port(),
                bind: bound.bind.clone(),
                ..iperf3::options::CommonSettings::default()
            };
            let errors = Box::new(log::NoteWriter);
            let server = iperf3::server::server_for_service(service, &common, &settings, errors)?;
            Ok(server_job(server, bound.listeners))
        }
        #[cfg(feature = "udpmon")]
        DialectName::Udpmon => Ok(udpmon_job(bound, service)),
        #[cfg(not(all(
            feature = "iperf",
            feature = "iperf3",
            feature = "udpmon",
            feature = "uperf"
        )))]
        _ => Err(format!("this build does not have {}", bound.describe())),
    }
}

fn server_job<D: Dialect>(server: Arc<Server<D>>, listeners: Vec<Socket>) -> ServeJob {
    Box::new(move || server.run(listeners))
}

/// Looks up the environment variable that selects stock versions, and no other.
#[cfg(feature = "iperf")]
fn stock_versions(name: &str) -> Option<String> {
    use getopt::stock_version;
    (name == stock_version::VARIABLE).then(stock_version::variable_value)?
}

/// Returns a job that runs two iperf servers: one for TCP and one for UDP, because an iperf server
/// serves only one of them.
#[cfg(feature = "iperf")]
fn iperf_job(
    bound: DialectSockets,
    service: &Service,
    auth: &AuthSecrets,
) -> Result<ServeJob, String> {
    let settings = |option: Option<String>| {
        let words = std::iter::once("-s".to_owned()).chain(option);
        let settings = iperf::options::parse_iperf("iperf", words.map(Into::into), stock_versions);
        settings.map_err(|exit| exit.stderr.trim_end().to_owned())
    };
    let key = auth.iperf_permit_key.as_ref();
    let tcp = Arc::new(settings(key.map(|key| format!("--permit-key={key}")))?);
    let udp = settings(Some("-u".to_owned()))?;
    let observer: Arc<dyn iperf::event::Observer> = Arc::new(log::NoteWriter);
    let tcp = iperf::server::server_for_service(service, &tcp, &observer);
    let mut acceptors = Vec::new();
    if key.is_some() {
        log::write_operator_note(format_args!(
            "iperf: UDP is not served, because it does not support permit keys"
        ));
    } else {
        for socket in bound.datagrams {
            acceptors.push(
                server::DatagramAcceptor::from_listener(socket)
                    .map_err(|error| sys::describe(&error))?,
            );
        }
    }
    let service = service.clone();
    Ok(Box::new(move || {
        std::thread::scope(|scope| {
            scope.spawn(|| iperf::server::serve_datagrams(acceptors, &udp, &observer, &service));
            tcp.run(bound.listeners);
        });
    }))
}

#[cfg(feature = "udpmon")]
fn udpmon_job(bound: DialectSockets, service: &Service) -> ServeJob {
    let mut settings = udpmon::options::RespSettings::default();
    settings.limits.server.max_clients = service.config().max_clients;
    let service = service.clone();
    let serve = move || {
        udpmon::server::serve(bound.datagrams, &settings, &service, &|line| {
            log::write_note(line);
        });
    };
    Box::new(serve)
}

impl Args {
    /// Returns the configuration. Each call reads the limits file again.
    fn config(&self) -> Result<ServerConfig, String> {
        let mut limits = self.limits.clone();
        if let Some(path) = &self.limits_file {
            limits.override_with(LimitArgs::read(path)?);
        }
        Ok(ServerConfig {
            max_clients: self.max_clients,
            is_shared: true,
            drain_time: self.drain_on_exit,
            networks: limits.allow_peers.clone(),
            third_parties: ThirdParties {
                allows_all: false,
                networks: limits.allow_third_party.clone(),
            },
            limits: limits.limits(),
            ..ServerConfig::default()
        })
    }
}

/// Reads the limits again at each SIGHUP. Keeps the current limits if the file is unusable.
fn reload_on_signals(args: &Args, service: &Service) -> std::io::Result<()> {
    let mut hangups = sys::signal::notify_each_hangup()?;
    let (args, service) = (args.clone(), service.clone());
    let reload = move || {
        while hangups.read_exact(&mut [0]).is_ok() {
            match args.config() {
                Ok(config) => {
                    service.reload(config);
                    log::write_operator_note(format_args!("limits were read again"));
                }
                Err(error) => {
                    log::write_operator_note(format_args!("limits stay as they are: {error}"));
                }
            }
        }
    };
    Builder::new()
        .name("reload".to_owned())
        .spawn(reload)
        .map(drop)
}
