//! Details that a linerate server sends after the results: facts without a field in netperf's
//! messages.

use std::net::IpAddr;

use model::{CpuUse, Side};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The JSON document of a details message. Readers ignore unknown members.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Details {
    /// The server's version.
    pub(crate) version: String,
    /// The server's measurements.
    pub(crate) side: Side,
    /// Number of other tests that the server ran at the same time.
    pub(crate) overlapping_tests: u32,
}

impl Details {
    /// Returns the details of a finished test, with the facts of this host.
    pub(crate) fn from_side(mut side: Side, overlapping_tests: u32, local: Option<IpAddr>) -> Self {
        side.host = Some(engine::host_facts(local));
        side.program = Some(crate::PROGRAM.to_owned());
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            side,
            overlapping_tests,
        }
    }

    /// Returns the document's bytes.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses the document; `None` if it is invalid. Impossible CPU time is unavailable.
    pub(crate) fn from_json(bytes: &[u8]) -> Option<Self> {
        let mut document = serde_json::from_slice(bytes).ok()?;
        escape(&mut document);
        let mut details: Self = serde_json::from_value(document).ok()?;
        details.side.cpu = details.side.cpu.filter(CpuUse::is_possible);
        Some(details)
    }
}

/// Escapes control characters in the peer's texts, because terminals and scripts read them.
fn escape(value: &mut Value) {
    match value {
        Value::String(text) => *text = codec::escaped(text).to_string(),
        Value::Array(values) => values.iter_mut().for_each(escape),
        Value::Object(members) => members.values_mut().for_each(escape),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use model::{CpuMethod, HostFacts, Interface, Traffic};

    use super::*;

    #[test]
    fn details_survive_encoding_and_decoding() {
        let traffic = Traffic {
            received_bytes: u64::MAX,
            ..Traffic::default()
        };
        let side = Side {
            interface: Some(Interface {
                name: "eth0".to_owned(),
                traffic: Some(traffic),
                ..Interface::default()
            }),
            ..Side::default()
        };
        let local = Some(std::net::Ipv4Addr::LOCALHOST.into());
        let sent = Details::from_side(side, 3, local);
        let received =
            Details::from_json(&sent.to_json()).expect("a document of this program is valid");
        assert_eq!(received.to_json(), sent.to_json());
        assert_eq!(
            received.side.host.and_then(|host| host.kernel),
            sent.side.host.and_then(|host| host.kernel)
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let mut details = Details::from_side(Side::default(), 0, None);
        details.side.host = Some(HostFacts {
            cpu_model: Some("a\nTHROUGHPUT=1\u{1b}[2J\u{7f}\u{9b}".to_owned()),
            ..HostFacts::default()
        });
        let received = Details::from_json(&details.to_json()).expect("the document is valid");
        let model = received.side.host.and_then(|host| host.cpu_model);
        assert_eq!(model.as_deref(), Some(r"a\nTHROUGHPUT=1\x1b[2J\x7f\u{9b}"));
    }

    #[test]
    fn impossible_cpu_time_is_unavailable() {
        for (busy_percent, is_available) in [(99.5, true), (1e30, false), (-3.0, false)] {
            let cpu = CpuUse {
                busy_percent,
                user_percent: 0.0,
                system_percent: 0.0,
                iowait_percent: 0.0,
                irq_percent: 0.0,
                softirq_percent: 0.0,
                steal_percent: None,
                cpus: 1,
                peak: None,
                method: CpuMethod::ProcStat,
                busy_percent_per_cpu: Vec::new(),
            };
            let side = Side {
                cpu: Some(cpu),
                ..Side::default()
            };
            let received = Details::from_json(&Details::from_side(side, 0, None).to_json());
            let cpu = received.expect("a valid document").side.cpu;
            assert_eq!(cpu.is_some(), is_available, "{busy_percent}");
        }
    }

    #[test]
    fn invalid_documents_are_refused() {
        for bytes in [&b""[..], b"{", b"[]", b"{\"version\":1}", &[b'['; 1 << 13]] {
            assert!(Details::from_json(bytes).is_none());
        }
    }
}
