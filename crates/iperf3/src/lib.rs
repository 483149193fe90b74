//! The iperf3 dialect: client and server, with the output of a selected version of stock iperf3.
//!
//! The modules:
//!
//! - [`options`] turns argv into settings.
//! - [`wire`] converts between bytes and messages.
//! - `client` and [`server`] exchange the messages in order.
//! - `output` turns results into text and JSON documents; `print` prints them during a test.
//! - `control_channel` sends and receives messages with deadlines.
//! - `streams` moves the data.
//! - [`TestRun`] holds the results of a test.
//! - [`Version`] has the tables of what differs between the versions of stock iperf3.

#![forbid(unsafe_code)]

mod client;
mod control_channel;
mod cpu;
pub mod json;
#[cfg_attr(not(feature = "rsa"), path = "no_login.rs")]
mod login;
pub mod options;
mod output;
mod plan;
mod print;
mod result;
pub mod server;
mod streams;
mod version;
pub mod wire;

use std::time::SystemTime;

use rand::TryRngCore;
use rand::rngs::OsRng;

use engine::SocketError;
use model::Plan;
pub use print::{ClientResult, run};
pub use result::{StreamRun, TestRun};
pub use version::Version;
use wire::Parameters;
use wire::error::{self, Fault};

/// Returns the plan of the test that a client requests.
pub fn test_plan(client: &options::ClientSettings) -> Plan {
    let parameters = &client.parameters;
    let sends = parameters.direction != wire::Direction::Reverse;
    let name = format!("iperf3 {}", parameters.protocol.name());
    let flow = plan::flow(parameters, sends, &plan::LocalSettings::default());
    Plan::for_flow(name, client.host.clone(), flow)
}

/// Returns the words of uname(2), joined as in iperf3's JSON documents.
pub(crate) fn system_info() -> String {
    let uname = sys::facts::uname();
    let words = [
        uname.sysname,
        uname.nodename,
        uname.release,
        uname.version,
        uname.machine,
    ];
    words.join(" ")
}

/// Returns the seconds since 1970; 0 for earlier times.
pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.map_or(0, |since_epoch| since_epoch.as_secs())
}

/// Returns the pattern that fills sent blocks, repeated as needed: random bytes or digits.
///
/// Returns an empty pattern if this end does not send.
pub(crate) fn payload(parameters: &Parameters, sends: bool) -> Vec<u8> {
    if !sends {
        return Vec::new();
    }
    if parameters.repeating_payload {
        return b"0123456789".to_vec();
    }
    let mut bytes = vec![0; parameters.block_size().max(1) as usize];
    // On failure the block keeps its zeros, which is harmless.
    let _ = OsRng.try_fill_bytes(&mut bytes);
    bytes
}

/// Returns the bytes of one direction after which a test ends, in whole blocks, if there is a limit.
pub(crate) fn total_bytes(parameters: &Parameters) -> Option<u64> {
    let block = u64::from(parameters.block_size().max(1));
    let blocks = match (parameters.bytes, parameters.blocks) {
        (0, 0) => return None,
        (0, blocks) => blocks,
        (bytes, _) => bytes.div_ceil(block),
    };
    Some(blocks.saturating_mul(block))
}

/// Converts a socket error to the iperf3 error with the matching number.
pub(crate) fn socket_fault(socket: &SocketError) -> Fault {
    let code = match socket.action() {
        "set SO_SNDBUF" | "set SO_RCVBUF" => error::BUFFER,
        "set TCP_NODELAY" => error::NO_DELAY,
        "set TCP_MAXSEG" | "set SCTP_MAXSEG" => error::SEGMENT,
        "set IP_TOS" => error::TOS,
        "set SO_MAX_PACING_RATE" => error::PACING,
        "set SO_BINDTODEVICE" => error::DEVICE,
        "set IP_MTU_DISCOVER" => error::DO_NOT_FRAGMENT,
        "set TCP_USER_TIMEOUT" => error::USER_TIMEOUT,
        _ if matches!(socket, SocketError::Missing { .. }) => error::PROTOCOL,
        _ => error::STREAM_CREATE,
    };
    Fault::io(code, socket.error())
}
