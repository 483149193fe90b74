//! What can go wrong, in the stock tool's words, on its streams, with its exit codes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use engine::{RingError, SocketError};
use model::Transport;
use sys::call::Error;
use sys::resolve::Unresolved;
use sys::{Address, describe};

use super::answer::Missing;
use super::endpoints::wildcard;
use crate::options::{Control, Exit, Family, Settings, TestFamily};
use crate::wire::RemoteError;

/// Why a test has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A name that stands for no address.
    #[error("could not resolve {}: {}", .0, .2.text)]
    Unresolved(String, Family, Unresolved),
    /// A port that is none.
    #[error("'{0}' is neither a port number nor a service")]
    BadPort(String),
    /// Nobody answers at the control port. With the family of the server's address, and the last attempt's error.
    #[error("no netserver answers at {} port {}: {}", .0.host, .0.port, describe(.2))]
    NotEstablished(Box<Control>, Family, io::Error),
    /// A VSOCK context that is none.
    #[error("'{0}' is not the number of a context")]
    BadContext(String),
    /// A server that would choke on the request.
    #[error("the original netserver cannot serve {}: the server must be a linerate", .0.name())]
    OnlyLinerate(Transport),
    /// A server whose path would be opened here.
    #[error("a test of Unix domain sockets needs a netserver at an address of this host")]
    OtherHost,
    /// The control connection ended within a message.
    #[error("{}", of_truncation(*.0))]
    Truncated(usize),
    /// The server did not answer within this many seconds.
    #[error("the server did not answer within {0} s")]
    NoAnswer(u64),
    /// The user wanted it to end before there was anything to report.
    #[error("interrupted before the test began")]
    Interrupted,
    /// The control connection failed.
    #[error("the control connection failed: {}", describe(.0))]
    Control(io::Error),
    /// The server said no.
    #[error("the server refused or failed: {}", describe(&io::Error::from_raw_os_error(.0.0)))]
    Remote(#[from] RemoteError),
    /// A data socket that could not be had.
    #[error("{}", of_socket(address, error))]
    DataSocket {
        /// Where it was to be bound.
        address: Address,
        /// Why not.
        error: SocketError,
    },
    /// A Unix domain socket that can have no name there.
    #[error("could not make a socket in {}: {}", path.display(), describe(error))]
    NoPlace {
        /// The directory.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A network interface that cannot be used.
    #[error("network interface {name}: {why}")]
    Interface {
        /// As it was asked for.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The data connection did not come about.
    #[error("data connection to {address}: {}", describe(error))]
    DataConnect {
        /// The peer's data address.
        address: Address,
        /// Why not.
        error: io::Error,
    },
    /// A call on the data connection failed.
    #[error("{call} on the data connection: {}", describe(error))]
    Data {
        /// send, receive, connect.
        call: &'static str,
        /// Why.
        error: io::Error,
    },
    /// Nothing ever came back on the data connection.
    #[error("{0}")]
    Unanswered(Missing),
    /// The peer ended a test before its time, and there are no results.
    #[error("the test was cut off after {:.2} s{}: {cause}", after.as_secs_f64(), of_length(*length))]
    Cut {
        /// How long it ran.
        after: Duration,
        /// How long it was to run.
        length: Option<Duration>,
        /// What became of it.
        cause: Box<Self>,
    },
    /// Nothing moved any more in a test that a count was to end.
    #[error("the data stopped: nothing has moved for {} s (--data-idle)", .0.as_secs_f64())]
    Silent(Duration),
    /// Buffers that cannot be had.
    #[error(transparent)]
    Buffers(#[from] RingError),
    /// The histogram's file.
    #[error("--histogram {}: {}", .0.display(), describe(.1))]
    Histogram(PathBuf, io::Error),
    /// Another of the test's flows could not start, so this one did not.
    #[error("another flow of the test could not start")]
    Abandoned,
    /// The engine could not go on.
    #[error("{0}")]
    Ended(String),
}

/// How much of a run over one path an error concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The one test.
    Test,
    /// Every test over the transport: its data does not get through.
    Transport,
    /// Every test: the server does not answer, or not as one.
    Peer,
}

impl ClientError {
    /// What else would fail for the same reason.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Unresolved(..)
            | Self::BadPort(_)
            | Self::NotEstablished(..)
            | Self::BadContext(_)
            | Self::Truncated(_)
            | Self::NoAnswer(_)
            | Self::Cut { .. }
            | Self::Control(_) => Scope::Peer,
            Self::DataConnect { .. } | Self::Unanswered(_) => Scope::Transport,
            _ => Scope::Test,
        }
    }

    /// What the stock tool would print, and its exit code.
    pub(crate) fn exit(&self, settings: &Settings) -> Exit {
        // The stock tool's omni tests leave with −1 where its classic ones leave with 1.
        let remote_code = if settings.test.is_classic() { 1 } else { 255 };
        match self {
            Self::Cut { cause, .. } => cause.exit(settings),
            Self::Unresolved(host, family, cause) => Exit::stdout(
                format!(
                    "resolve_host: could not resolve host '{host}' port '(null)' af {}\n\
                     \tgetaddrinfo returned {} {}\nNetperf could not resolve {host} as a host name\n",
                    family.af_name(),
                    cause.code,
                    cause.text
                ),
                255,
            ),
            Self::NotEstablished(control, family, _) => {
                Exit::stdout(not_established(control, *family), 255)
            }
            Self::Truncated(received) => Exit::stderr(
                format!("recv_response: partial response received: {received} bytes\n"),
                1,
            ),
            Self::Control(error) => {
                Exit::stderr(format!("recv_response: {}\n", describe(error)), 1)
            }
            Self::NoAnswer(seconds) => Exit {
                stdout: format!(
                    "recv_response_timed_n: no response received. errno {} counter 0\n",
                    sys::call::Error::TIMEDOUT.raw_os_error()
                ),
                stderr: format!("netperf: no answer within {seconds} s\n"),
                code: 1,
            },
            Self::Remote(RemoteError(number)) if settings.test.family() == TestFamily::Unix => {
                let why = describe(&io::Error::from_raw_os_error(*number));
                let test = settings.test.name().to_lowercase();
                Exit::stderr(format!("netperf: send_{test}: remote error: {why}\n"), 1)
            }
            Self::Remote(RemoteError(number)) => Exit {
                stdout: format!("netperf: remote error {number}"),
                stderr: format!(
                    "{}{}\n",
                    describe(&io::Error::from_raw_os_error(*number)),
                    lacking(*number, settings.flow.transport)
                ),
                code: remote_code,
            },
            Self::DataConnect { error, .. } => Exit::stderr(
                format!(
                    "netperf: send_omni: connect_data_socket failed: {}\n",
                    describe(error)
                ),
                1,
            ),
            Self::Data {
                call: "send",
                error,
            } => Exit {
                stdout: format!(
                    "send_data: data send error: {} (errno {})\n",
                    describe(error),
                    error.raw_os_error().unwrap_or(0)
                ),
                stderr: format!(
                    "netperf: send_omni: send_data failed: {}\n",
                    describe(error)
                ),
                code: 1,
            },
            // The stock tool says so and then crashes.
            Self::Buffers(RingError::File { path, error }) => Exit {
                stdout: format!("Could not open requested fill file: {}\n", describe(error)),
                stderr: format!("netperf: could not use fill file {}\n", path.display()),
                code: 1,
            },
            other => Exit::stderr(format!("netperf: {other}\n"), 1),
        }
    }
}

fn not_established(control: &Control, remote_family: Family) -> String {
    let any = || wildcard(remote_family).name;
    let (remote_host, remote_port) = (&control.host, &control.port);
    format!(
        "establish control: are you sure there is a netserver listening on {remote_host} at port \
         {remote_port}?\nestablish_control could not establish the control connection from {} port {} address \
         family {} to {remote_host} port {remote_port} address family {}\n",
        control.local_host.clone().unwrap_or_else(any),
        control.local_port,
        control.local_family.af_name(),
        remote_family.af_name(),
    )
}

fn of_truncation(received: usize) -> String {
    match received {
        0 => "the server closed the control connection without an answer".to_owned(),
        received => {
            format!("the server closed the control connection after {received} bytes of its answer")
        }
    }
}

fn of_length(length: Option<Duration>) -> String {
    length.map_or(String::new(), |length| {
        format!(" of {} s", length.as_secs())
    })
}

/// A kernel that has no such sockets at all has them at no address.
fn of_socket(address: &Address, error: &SocketError) -> String {
    match error {
        SocketError::Missing { .. } => error.to_string(),
        SocketError::Refused { .. } => format!("data socket for {address}: {error}"),
    }
}

/// What a server's refusal means where not every server has the transport.
fn lacking(errno: i32, transport: Transport) -> String {
    let missing = [
        Error::PROTONOSUPPORT,
        Error::SOCKTNOSUPPORT,
        Error::AFNOSUPPORT,
    ];
    let (name, needs) = (transport.name(), transport.needs());
    match transport {
        Transport::Tcp | Transport::Udp => String::new(),
        _ if missing.iter().any(|code| code.raw_os_error() == errno) => {
            format!(": the server has no {name}; its kernel needs {needs}")
        }
        _ if errno == Error::OPNOTSUPP.raw_os_error() => {
            format!(": the original netserver cannot serve {name}")
        }
        _ => String::new(),
    }
}
