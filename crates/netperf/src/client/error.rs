//! Errors of the client, with the stock tool's texts, streams and exit codes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use engine::{BufferError, SocketError};
use model::Transport;
use sys::call::Error;
use sys::resolve::ResolveError;
use sys::{Address, describe};

use super::answer::AwaitedAnswer;
use super::endpoints::wildcard;
use crate::options::{ControlOptions, Exit, Family, Settings, TestFamily};
use crate::wire::RemoteError;

/// Reason why a test has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A name did not resolve.
    #[error("could not resolve {}: {}", .0, .2.text)]
    Unresolved(String, Family, ResolveError),
    /// Invalid port.
    #[error("invalid port or service: '{0}'")]
    BadPort(String),
    /// No server accepts at the control port. Has the family of the server's address and the last
    /// attempt's error.
    #[error("no netserver answers at {} port {}: {}", .0.host, .0.port, describe(.2))]
    ControlConnect(Box<ControlOptions>, Family, io::Error),
    /// Invalid VSOCK context.
    #[error("invalid VSOCK context: '{0}'")]
    BadContext(String),
    /// A stock server would fail on the request.
    #[error("a stock netserver cannot serve {}; use a linerate netserver", .0.name())]
    RequiresLinerate(Transport),
    /// The server of a Unix domain test is not on this host, where its path would be opened.
    #[error("a test of Unix domain sockets needs a netserver at an address of this host")]
    NotLocalHost,
    /// The control connection ended within a message.
    #[error("{}", describe_truncation(*.0))]
    Truncated(usize),
    /// The server did not answer within this many seconds.
    #[error("the server did not answer within {0} s")]
    NoAnswer(u64),
    /// The user cancelled the test before it had results.
    #[error("interrupted before the test began")]
    Interrupted,
    /// The control connection failed.
    #[error("the control connection failed: {}", describe(.0))]
    Control(io::Error),
    /// The server refused the request or reported a failure.
    #[error("the server reports an error: {}", describe(&io::Error::from_raw_os_error(.0.0)))]
    Remote(#[from] RemoteError),
    /// The data socket could not be opened.
    #[error("{}", describe_socket_error(address, error))]
    DataSocket {
        /// The address to bind.
        address: Address,
        /// The error.
        error: SocketError,
    },
    /// A Unix domain socket could not be created in the directory.
    #[error("cannot create a socket in {}: {}", path.display(), describe(error))]
    UnixSocket {
        /// The directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A network interface is unusable.
    #[error("network interface {name}: {reason}")]
    Interface {
        /// The interface's name, as typed.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The data connection failed.
    #[error("data connection to {address}: {}", describe(error))]
    DataConnect {
        /// The peer's data address.
        address: Address,
        /// The error.
        error: io::Error,
    },
    /// A call on the data connection failed.
    #[error("{call} on the data connection: {}", describe(error))]
    Data {
        /// The call: send, receive, connect, …
        call: &'static str,
        /// The error.
        error: io::Error,
    },
    /// The peer never answered on the data connection.
    #[error("{0}")]
    Unanswered(AwaitedAnswer),
    /// The peer ended the test before its time limit, without results.
    #[error("the test was cut off after {:.2} s{}: {cause}", after.as_secs_f64(), describe_length(*length))]
    CutShort {
        /// Duration until the end.
        after: Duration,
        /// Requested duration.
        length: Option<Duration>,
        /// The error at the end.
        cause: Box<Self>,
    },
    /// A test with a count as its limit moved no data for this time.
    #[error("no data has moved for {} s (--data-idle)", .0.as_secs_f64())]
    DataIdle(Duration),
    /// The buffers could not be allocated or filled.
    #[error(transparent)]
    Buffers(#[from] BufferError),
    /// The histogram's file could not be written.
    #[error("--histogram {}: {}", .0.display(), describe(.1))]
    Histogram(PathBuf, io::Error),
    /// Another of the test's flows could not start, so this one did not.
    #[error("another flow of the test could not start")]
    Abandoned,
    /// A thread or the engine failed.
    #[error("{0}")]
    Failed(String),
}

/// The tests that an error affects, in a run of several tests over one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureScope {
    /// Only this test.
    Test,
    /// Each test over this transport: its data does not arrive.
    Transport,
    /// Each test: the server does not answer, or is not a netserver.
    Peer,
}

impl ClientError {
    /// Returns which other tests would fail for the same reason.
    pub fn scope(&self) -> FailureScope {
        match self {
            Self::Unresolved(..)
            | Self::BadPort(_)
            | Self::ControlConnect(..)
            | Self::BadContext(_)
            | Self::Truncated(_)
            | Self::NoAnswer(_)
            | Self::CutShort { .. }
            | Self::Control(_) => FailureScope::Peer,
            Self::DataConnect { .. } | Self::Unanswered(_) => FailureScope::Transport,
            _ => FailureScope::Test,
        }
    }

    /// Returns the stock tool's output for this error, and its exit code.
    pub(crate) fn exit(&self, settings: &Settings) -> Exit {
        // The stock tool exits with −1 in omni tests and with 1 in classic tests.
        let remote_code = if settings.test.is_classic() { 1 } else { 255 };
        match self {
            Self::CutShort { cause, .. } => cause.exit(settings),
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
            Self::ControlConnect(control, family, _) => {
                Exit::stdout(control_connect_text(control, *family), 255)
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
            Self::Remote(RemoteError(errno)) if settings.test.family() == TestFamily::Unix => {
                let reason = describe(&io::Error::from_raw_os_error(*errno));
                let test = settings.test.name().to_lowercase();
                Exit::stderr(format!("netperf: send_{test}: remote error: {reason}\n"), 1)
            }
            Self::Remote(RemoteError(errno)) => Exit {
                stdout: format!("netperf: remote error {errno}"),
                stderr: format!(
                    "{}{}\n",
                    describe(&io::Error::from_raw_os_error(*errno)),
                    missing_transport_note(*errno, settings.flow.transport)
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
            // The stock tool prints this and then crashes.
            Self::Buffers(BufferError::File { path, error }) => Exit {
                stdout: format!("Could not open requested fill file: {}\n", describe(error)),
                stderr: format!("netperf: could not use fill file {}\n", path.display()),
                code: 1,
            },
            other => Exit::stderr(format!("netperf: {other}\n"), 1),
        }
    }
}

fn control_connect_text(control: &ControlOptions, remote_family: Family) -> String {
    let wildcard_name = || wildcard(remote_family).name;
    let (remote_host, remote_port) = (&control.host, &control.port);
    format!(
        "establish control: are you sure there is a netserver listening on {remote_host} at port \
         {remote_port}?\nestablish_control could not establish the control connection from {} port {} address \
         family {} to {remote_host} port {remote_port} address family {}\n",
        control.local_host.clone().unwrap_or_else(wildcard_name),
        control.local_port,
        control.local_family.af_name(),
        remote_family.af_name(),
    )
}

fn describe_truncation(received: usize) -> String {
    match received {
        0 => "the server closed the control connection without an answer".to_owned(),
        received => {
            format!("the server closed the control connection after {received} bytes of its answer")
        }
    }
}

fn describe_length(length: Option<Duration>) -> String {
    length.map_or(String::new(), |length| {
        format!(" of {} s", length.as_secs())
    })
}

/// Describes the error. The address is irrelevant if the kernel lacks the socket type.
fn describe_socket_error(address: &Address, error: &SocketError) -> String {
    match error {
        SocketError::Missing { .. } => error.to_string(),
        SocketError::Refused { .. } => format!("data socket for {address}: {error}"),
    }
}

/// Returns a note on a server's refusal of a transport that not every server has.
fn missing_transport_note(errno: i32, transport: Transport) -> String {
    let missing = [
        Error::PROTONOSUPPORT,
        Error::SOCKTNOSUPPORT,
        Error::AFNOSUPPORT,
    ];
    let (name, needs) = (transport.name(), transport.requirement());
    match transport {
        Transport::Tcp | Transport::Udp => String::new(),
        _ if missing.iter().any(|code| code.raw_os_error() == errno) => {
            format!(": the server has no {name}; its kernel needs {needs}")
        }
        _ if errno == Error::OPNOTSUPP.raw_os_error() => {
            format!(": a stock netserver cannot serve {name}")
        }
        _ => String::new(),
    }
}
