//! The iperf3 dialect: `iperf3` of version 3.12, client and server, with options of later versions.
//!
//! Five rooms: [`options`] (argv → settings and plans), [`wire`] (bytes ↔ messages), `client` and [`server`] (the
//! order of messages), `output` (results → text and documents). `print` stands above them. Beside them are what both ends
//! need: `talk` (messages with deadlines), `streams` (the data), [`TestRun`] (what a test came to).

#![forbid(unsafe_code)]

mod client;
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
mod talk;
pub mod wire;

use std::time::SystemTime;

use rand::TryRngCore;
use rand::rngs::OsRng;

use engine::SocketError;
use model::Plan;
pub use print::{Finished, run};
pub use result::{StreamRun, TestRun};
use wire::Parameters;
use wire::error::{self, Fault};

/// The iperf3 that this one stands in for.
pub const VERSION: &str = "3.12";

/// What a client asks for, as a plan.
pub fn planned(client: &options::Client) -> Plan {
    let parameters = &client.parameters;
    let sends = parameters.direction != wire::Direction::Reverse;
    let name = format!("iperf3 {}", parameters.protocol.name());
    let flow = plan::flow(parameters, sends, &plan::Own::default());
    Plan::of_flow(name, client.host.clone(), flow)
}

/// The running system, as iperf3's documents have it.
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

/// Seconds since 1970.
pub(crate) fn unix(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// What the blocks of an end that sends hold, over and over: random bytes, or digits.
pub(crate) fn payload(parameters: &Parameters, sends: bool) -> Vec<u8> {
    if !sends {
        return Vec::new();
    }
    if parameters.repeating_payload {
        return b"0123456789".to_vec();
    }
    let mut bytes = vec![0; parameters.block().max(1) as usize];
    // Any other content sends as well.
    let _ = OsRng.try_fill_bytes(&mut bytes);
    bytes
}

/// Bytes of all streams after which a test ends.
pub(crate) fn total_bytes(parameters: &Parameters) -> Option<u64> {
    match (parameters.bytes, parameters.blocks) {
        (0, 0) => None,
        (0, blocks) => Some(blocks.saturating_mul(parameters.block().into())),
        (bytes, _) => Some(bytes),
    }
}

/// A socket that could not be had, in iperf3's words.
pub(crate) fn socket_fault(socket: &SocketError) -> Fault {
    let code = match socket.what() {
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
