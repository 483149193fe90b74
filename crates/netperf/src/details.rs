//! Details that a linerate server sends after the results: facts without a field in netperf's
//! messages.

use std::net::IpAddr;

use model::Side;
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

    /// Parses the document; `None` if it is invalid.
    pub(crate) fn from_json(bytes: &[u8]) -> Option<Self> {
        let mut document = serde_json::from_slice(bytes).ok()?;
        escape(&mut document);
        serde_json::from_value(document).ok()
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
    use model::{HostFacts, Interface, Traffic};

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
    fn invalid_documents_are_refused() {
        for bytes in [&b""[..], b"{", b"[]", b"{\"version\":1}", &[b'['; 1 << 13]] {
            assert!(Details::from_json(bytes).is_none());
        }
    }
}
