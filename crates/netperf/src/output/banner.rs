//! The banner before the results: the test, its endpoints and its options.

use std::net::SocketAddr;

use std::fmt::Write;

use sys::Address;

use model::Wait;

use super::table::headers_first::{self, has_headers_before_test};
use crate::options::{Repeat, Settings, Test};
use crate::result::Endpoints;

/// The maximum length of the title of an OMNI test, from the stock tool's buffer.
const MAX_OMNI_TITLE_LEN: usize = 31;

/// Formats the banner with its line end. For some tests, column headers follow. Returns `None` if
/// headers are disabled.
pub fn format_banner(settings: &Settings, endpoints: &Endpoints) -> Option<String> {
    if !settings.print.headers {
        return None;
    }
    let title = test_title(settings);
    if has_headers_before_test(settings.test) {
        return Some(format!(
            "{title}\n{}",
            headers_first::headers_before_test(settings)
        ));
    }
    Some(format!(
        "{title} from {} to {}{}\n",
        format_endpoint(&endpoints.source_name, &endpoints.source),
        format_endpoint(&endpoints.dest_name, &endpoints.dest),
        format_options(settings, &title),
    ))
}

fn test_title(settings: &Settings) -> String {
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
            title.truncate(MAX_OMNI_TITLE_LEN);
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

/// Formats an endpoint: "NAME (ADDRESS) port PORT FAMILY".
fn format_endpoint(name: &str, address: &Address) -> String {
    let mut ip = address.ip().map(|ip| ip.to_string()).unwrap_or_default();
    // The stock tool takes the size of a pointer for that of its buffer, so it prints only short
    // addresses: in practice the wildcards and ::1.
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

fn format_options(settings: &Settings, title: &str) -> String {
    let plan = &settings.flow;
    let mut extras = String::new();
    if let Some(Repeat {
        goal,
        throughput_only,
    }) = settings.repeat
    {
        let scope_note = if throughput_only {
            " on result only"
        } else {
            ""
        };
        // As in the stock tool, a blank precedes `scope_note` even if it is empty.
        let half_width = 50.0 * goal.max_relative_width;
        let level = goal.level.percent();
        let _ = write!(
            extras,
            " : +/-{half_width:.3}% @ {level}% conf. {scope_note}"
        );
    }
    if plan.local.socket.no_delay || plan.remote.socket.no_delay {
        extras += " : nodelay";
    }
    if plan.local.discard_in_kernel || plan.remote.discard_in_kernel {
        extras += " : copy avoidance";
    }
    if !plan.local.io.is_one_per_call() {
        extras += " : mmsg";
    }
    if settings.no_control {
        extras += " : no control";
    }
    extras += match (plan.local.pacing, plan.remote.pacing) {
        (Some(pacing), _) | (None, Some(pacing)) if pacing.wait == Wait::Spin => " : spin interval",
        (None, None) => "",
        _ => " : interval",
    };
    if plan.local.touch.is_requested() || plan.remote.touch.is_requested() {
        extras += " : dirty data";
    }
    extras += " : demo";
    if title.contains("REQUEST/RESPONSE") {
        let _ = write!(extras, " : first burst {}", plan.burst);
    }
    if plan.local.cpu.is_some() || plan.remote.cpu.is_some() {
        extras += " : cpu bind";
    }
    extras
}
