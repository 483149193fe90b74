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

use clap::ValueEnum;
use engine::Stop;
use server::{Dialect, Server, ServerConfig, Service};
use sys::Socket;

use self::config::{Auth, LimitArgs};
use self::log::Format;
use self::sockets::Bound;

/// Arguments of `linerate serve`.
///
/// Serves the clients of all dialects at their usual ports, and writes one line per test to standard output. SIGTERM
/// ends the tests and the server. SIGHUP reads the limits file again.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Serve only these dialects
    #[arg(long, value_name = "DIALECT,...", value_delimiter = ',')]
    only: Vec<Name>,

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
    log: Format,

    /// Serve at most N connections and UDP flows at a time; one address gets at most 15/16 of them
    #[arg(long, value_name = "N", default_value_t = 4096)]
    max_clients: u32,

    #[command(flatten)]
    limits: LimitArgs,

    /// Read limits from this file, and again at each SIGHUP. Each line is an option without its dashes, such as
    /// "max-tests 4". Limits in the file override the options
    #[arg(long, value_name = "FILE")]
    limits_file: Option<PathBuf>,

    /// Require authentication in each dialect that has a line in this file: netperf-passphrase WORD, iperf-permit-key
    /// KEY, iperf3-rsa-private-key FILE and iperf3-authorized-users FILE. Other users must not have access to the file
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,

    /// Let running tests continue for up to SEC seconds after SIGTERM; 0 ends them at once
    #[arg(long, value_name = "SEC", default_value_t = 0)]
    drain_on_exit: u64,

    /// Change to this user and drop all capabilities after opening the ports
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Path of the socket for `linerate status` [default: status.sock in $RUNTIME_DIRECTORY, /run/linerate or
    /// $XDG_RUNTIME_DIR/linerate]
    #[arg(long, value_name = "PATH")]
    status: Option<PathBuf>,
}

/// A dialect with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    Netperf,
    Uperf,
    Iperf,
    Iperf3,
    Udpmon,
}

/// Serves one dialect until the stop.
type Job = Box<dyn FnOnce() + Send>;

/// Serves until a signal.
pub(crate) fn run(args: &Args) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            sys::write_error_line(format_args!("linerate serve: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Args) -> Result<(), String> {
    sys::process::raise_descriptor_limit();
    let auth = args
        .auth
        .as_deref()
        .map_or(Ok(Auth::default()), Auth::read)?;
    let config = args.config()?;
    let is_drained = !config.drain.is_zero();
    let stop = Stop::new();
    let service = Service::with_log(config, stop.clone(), args.log.writer());
    // Install the handlers before any client can connect, so that a signal always ends the server in order.
    if is_drained {
        crate::signals::stop_in_turn(vec![stop, service.cut().clone()]);
    } else {
        crate::signals::stop_on_signals(&stop);
    }
    let no_thread = |error| format!("cannot start a thread: {}", sys::describe(&error));
    reload_on_signals(args, &service).map_err(no_thread)?;
    let status = status::Listener::open(args.status.as_deref())?;
    let bound = sockets::bind(args)?;
    let listening: Vec<_> = bound.iter().map(Bound::describe).collect();
    let mut jobs = Vec::new();
    for bound in bound {
        jobs.push(job(bound, &service, &auth)?);
    }
    if let Some(name) = &args.user {
        sys::user::become_for_good(name).map_err(|error| error.to_string())?;
    }
    let threads = service.watch().and_then(|()| status.serve(&service));
    threads.map_err(no_thread)?;
    log::note(format_args!("listening: {}", listening.join(", ")));
    std::thread::scope(|scope| {
        for job in jobs {
            scope.spawn(job);
        }
    });
    Ok(())
}

fn job(bound: Bound, service: &Service, auth: &Auth) -> Result<Job, String> {
    match bound.name {
        #[cfg(feature = "netperf")]
        Name::Netperf => {
            let limits = netperf::options::Limits::default();
            let passphrase = auth.netperf_passphrase.clone();
            let server = netperf::server::among(service, limits, passphrase);
            Ok(of_server(
                server.map_err(|error| sys::describe(&error))?,
                bound.listeners,
            ))
        }
        #[cfg(feature = "uperf")]
        Name::Uperf => {
            let server = uperf::slave::among(service, uperf::slave::Terms::default());
            Ok(of_server(server, bound.listeners))
        }
        #[cfg(feature = "iperf")]
        Name::Iperf => iperf(bound, service, auth),
        #[cfg(feature = "iperf3")]
        Name::Iperf3 => {
            let settings = iperf3::options::Server {
                private_key: auth.iperf3_rsa_private_key.clone(),
                users: auth.iperf3_authorized_users.clone(),
                ..iperf3::options::Server::default()
            };
            let common = iperf3::options::Common {
                port: bound.port(),
                bind: bound.bind.clone(),
                ..iperf3::options::Common::default()
            };
            let errors = Box::new(log::Notes);
            let server = iperf3::server::among(service, &common, &settings, errors)?;
            Ok(of_server(server, bound.listeners))
        }
        #[cfg(feature = "udpmon")]
        Name::Udpmon => Ok(udpmon(bound, service)),
        #[cfg(not(all(
            feature = "iperf",
            feature = "iperf3",
            feature = "udpmon",
            feature = "uperf"
        )))]
        _ => Err(format!("this build does not have {}", bound.describe())),
    }
}

fn of_server<D: Dialect>(server: Arc<Server<D>>, listeners: Vec<Socket>) -> Job {
    Box::new(move || server.run(listeners))
}

/// Serves TCP and UDP. The dialect's own server serves only one of them.
#[cfg(feature = "iperf")]
fn iperf(bound: Bound, service: &Service, auth: &Auth) -> Result<Job, String> {
    let settings = |option: Option<String>| {
        let words = std::iter::once("-s".to_owned()).chain(option);
        let settings = iperf::options::iperf("iperf", words.map(Into::into), |_| None);
        settings.map_err(|exit| exit.stderr.trim_end().to_owned())
    };
    let key = auth.iperf_permit_key.as_ref();
    let tcp = Arc::new(settings(key.map(|key| format!("--permit-key={key}")))?);
    let udp = settings(Some("-u".to_owned()))?;
    let observer: Arc<dyn iperf::event::Observer> = Arc::new(log::Notes);
    let tcp = iperf::server::among(service, &tcp, &observer);
    let mut doors = Vec::new();
    if key.is_some() {
        log::note(format_args!("iperf: no UDP, which has no permit keys"));
    } else {
        for socket in bound.datagrams {
            doors.push(server::DatagramDoor::of(socket).map_err(|error| sys::describe(&error))?);
        }
    }
    let service = service.clone();
    Ok(Box::new(move || {
        std::thread::scope(|scope| {
            scope.spawn(|| iperf::server::serve_datagrams(doors, &udp, &observer, &service));
            tcp.run(bound.listeners);
        });
    }))
}

#[cfg(feature = "udpmon")]
fn udpmon(bound: Bound, service: &Service) -> Job {
    let mut settings = udpmon::options::Resp::default();
    settings.limits.server.clients = service.config().clients;
    let service = service.clone();
    let serve = move || {
        udpmon::server::serve(bound.datagrams, &settings, &service, &|line| {
            log::note(line);
        });
    };
    Box::new(serve)
}

impl Args {
    /// Returns the configuration, with limits read from the file now.
    fn config(&self) -> Result<ServerConfig, String> {
        let mut limits = self.limits.clone();
        if let Some(path) = &self.limits_file {
            limits.replace_by(LimitArgs::read(path)?);
        }
        Ok(ServerConfig {
            clients: self.max_clients,
            drain: std::time::Duration::from_secs(self.drain_on_exit),
            networks: limits.allow_peers.clone(),
            limits: limits.limits(),
            ..ServerConfig::default()
        })
    }
}

/// Reads the limits again at each SIGHUP. Keeps the current limits if the file is unusable.
fn reload_on_signals(args: &Args, service: &Service) -> std::io::Result<()> {
    let mut bell = sys::signal::each_hangup()?;
    let (args, service) = (args.clone(), service.clone());
    let reload = move || {
        while bell.read_exact(&mut [0]).is_ok() {
            match args.config() {
                Ok(config) => {
                    service.reload(config);
                    log::note(format_args!("limits were read again"));
                }
                Err(why) => log::note(format_args!("limits stay as they are: {why}")),
            }
        }
    };
    Builder::new()
        .name("reload".to_owned())
        .spawn(reload)
        .map(drop)
}
