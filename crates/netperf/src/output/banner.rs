//! The line before the results: what is about to run, from where to where.

use std::net::SocketAddr;

use std::fmt::Write;

use sys::Address;

use model::Wait;

use super::table::early::{self, has_early_headers};
use crate::options::{Repeat, Settings, Test};
use crate::result::Endpoints;

/// The stock tool's room for the title of an OMNI test.
const OMNI_TITLE_MAX: usize = 31;

/// The banner with its line end, for some tests with the column headers; `None` when headers are not
/// wanted.
pub fn banner(settings: &Settings, endpoints: &Endpoints) -> Option<String> {
    if !settings.print.headers {
        return None;
    }
    let title = title(settings);
    if has_early_headers(settings.test) {
        return Some(format!("{title}\n{}", early::early_headers(settings)));
    }
    Some(format!(
        "{title} from {} to {}{}\n",
        end(&endpoints.source_name, &endpoints.source),
        end(&endpoints.dest_name, &endpoints.dest),
        extras(settings, &title),
    ))
}

fn title(settings: &Settings) -> String {
    let title = match settings.test {
        Test::TcpStream => "MIGRATED TCP STREAM TEST",
        Test::TcpMaerts => "MIGRATED TCP MAERTS TEST",
        Test::TcpRr => "MIGRATED TCP REQUEST/RESPONSE TEST",
        Test::TcpCrr => "MIGRATED TCP Connect/Request/Response TEST",
        Test::UdpStream => "MIGRATED UDP STREAM TEST",
        Test::UdpRr => "MIGRATED UDP REQUEST/RESPONSE TEST",
        Test::TcpSendfile => "TCP SENDFILE TEST",
        Test::TcpMss => "TCP MSS TEST",
        Test::TcpCc => "TCP Connect/Close TEST",
        Test::Omni => {
            let mut title = format!("OMNI {} TEST", settings.direction.name());
            title.truncate(OMNI_TITLE_MAX);
            return title;
        }
        Test::StreamStream => "STREAM STREAM TEST",
        Test::StreamRr => "STREAM REQUEST/RESPONSE TEST",
        Test::DgStream => "DG UNIDIRECTIONAL SEND TEST",
        Test::DgRr => "DG REQUEST/RESPONSE TEST",
        Test::SctpStream => "SCTP STREAM TEST",
        Test::SctpStreamMany => "SCTP 1-TO-MANY STREAM TEST",
        Test::SctpRr => "SCTP REQUEST/RESPONSE TEST",
        Test::SctpRrMany => "SCTP 1-TO-MANY REQUEST/RESPONSE TEST",
        Test::DlcoStream => "DLPI CO STREAM TEST",
        Test::DlcoRr => "DLPI CO REQUEST/RESPONSE TEST",
        Test::DlclStream => "DLPI CL UNIDIRECTIONAL SEND TEST",
        Test::DlclRr => "DLPI CL REQUEST/RESPONSE TEST",
        Test::Uuid | Test::LocCpu | Test::RemCpu => "",
    };
    title.to_owned()
}

/// "NAME (ADDRESS) port PORT FAMILY".
fn end(name: &str, address: &Address) -> String {
    let mut ip = address.ip().map(|ip| ip.to_string()).unwrap_or_default();
    // The stock tool's measure of the room for it is the size of a pointer: in practice the
    // wildcards and ::1 show.
    if ip.len() > 7 {
        ip.clear();
    }
    let family = match address {
        Address::Inet(SocketAddr::V6(_)) => "AF_INET6",
        Address::Vsock { .. } => "AF_VSOCK",
        _ => "AF_INET",
    };
    format!("{name} ({ip}) port {} {family}", address.port())
}

fn extras(settings: &Settings, title: &str) -> String {
    let plan = &settings.flow;
    let mut extras = String::new();
    if let Some(Repeat {
        goal,
        throughput_only,
    }) = settings.repeat
    {
        let only = if throughput_only {
            " on result only"
        } else {
            ""
        };
        // The stock tool has a blank between the two, whether or not the second is empty.
        let half_width = 50.0 * goal.width;
        let level = goal.level.percent();
        let _ = write!(extras, " : +/-{half_width:.3}% @ {level}% conf. {only}");
    }
    if plan.here.socket.no_delay || plan.there.socket.no_delay {
        extras += " : nodelay";
    }
    if plan.here.discard_in_kernel || plan.there.discard_in_kernel {
        extras += " : copy avoidance";
    }
    if !plan.here.io.is_plain() {
        extras += " : mmsg";
    }
    if settings.no_control {
        extras += " : no control";
    }
    extras += match (plan.here.pacing, plan.there.pacing) {
        (Some(pacing), _) | (None, Some(pacing)) if pacing.wait == Wait::Spin => " : spin interval",
        (None, None) => "",
        _ => " : interval",
    };
    if plan.here.touch.is_some() || plan.there.touch.is_some() {
        extras += " : dirty data";
    }
    extras += " : demo";
    if title.contains("REQUEST/RESPONSE") {
        let _ = write!(extras, " : first burst {}", plan.burst);
    }
    if plan.here.cpu.is_some() || plan.there.cpu.is_some() {
        extras += " : cpu bind";
    }
    extras
}
