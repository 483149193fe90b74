//! The versions of stock iperf3 whose output linerate prints.
//!
//! They differ in the tables of this module only.

use getopt::stock_version::StockVersion;

use crate::json::Json;
use crate::wire::Protocol;
use crate::wire::parameters::MAX_SEGMENT_BYTES;

/// A version of stock iperf3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Debian 12's.
    V3_12,
    /// Debian 13's.
    V3_18,
    /// The newest one.
    #[default]
    V3_22,
}
use Version::{V3_18, V3_22};

impl StockVersion for Version {
    const PROGRAM: &'static str = "iperf3";
    const ALL: &'static [Self] = &[Self::V3_12, V3_18, V3_22];
}

/// Members of JSON documents that older versions lack: the key of the object, the key of the member,
/// and the first version with it. Elements of an array are objects of the array's key.
const MEMBERS: [(&str, &str, Version); 9] = [
    ("timestamp", "timemillisecs", V3_22),
    ("start", "fq_rate", V3_18),
    ("test_start", "bidir", V3_18),
    ("test_start", "fqrate", V3_18),
    ("test_start", "interval", V3_18),
    ("test_start", "gso", V3_22),
    ("test_start", "gro", V3_22),
    ("streams", "reorder", V3_22),
    ("sender", "reorder", V3_22),
];

/// What else differs between versions.
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub(crate) struct Layout {
    /// The numbers in brackets before the lines of a client's streams, which are stock's file
    /// descriptors: the first one, the second one and the step from there on.
    client_labels: [i32; 3],
    /// As `client_labels`, of a server's TCP and SCTP streams.
    server_labels: [i32; 3],
    /// As `client_labels`, of a server's UDP streams.
    udp_server_labels: [i32; 3],
    /// The blanks after the retransmissions in the summary line of a sender's stream.
    pub(crate) sender_padding: &'static str,
    /// Whether an end that a signal ends names the signal.
    pub(crate) names_signals: bool,
    /// Whether a client prints an error of the server twice, first as the server's.
    pub(crate) repeats_server_errors: bool,
    /// Whether a parameter error prints the complete usage text on standard output.
    pub(crate) prints_usage_with_errors: bool,
    /// Whether a server tells the client that its login failed, rather than only closing the connection.
    pub(crate) answers_failed_logins: bool,
    /// Whether a server answers an incomplete cookie with an error.
    pub(crate) answers_bad_cookies: bool,
    /// The maximum of `-M`, in bytes.
    pub(crate) max_segment_bytes: u32,
    /// Whether a size or a rate ends with its suffix: other text after the number is an error.
    pub(crate) checks_suffixes: bool,
    /// The features in the text of `-v`.
    pub(crate) features: &'static str,
}

const LAYOUT_3_12: Layout = Layout {
    client_labels: [5, 7, 2],
    server_labels: [5, 8, 2],
    udp_server_labels: [5, 6, 1],
    sender_padding: "             ",
    names_signals: false,
    repeats_server_errors: false,
    prints_usage_with_errors: true,
    answers_failed_logins: true,
    answers_bad_cookies: false,
    max_segment_bytes: 9216,
    checks_suffixes: false,
    features: "",
};

const LAYOUT_3_18: Layout = Layout {
    sender_padding: "            ",
    prints_usage_with_errors: false,
    features: ", POSIX threads",
    ..LAYOUT_3_12
};

const LAYOUT_3_22: Layout = Layout {
    client_labels: [4, 6, 2],
    server_labels: [5, 7, 2],
    names_signals: true,
    repeats_server_errors: true,
    answers_failed_logins: false,
    answers_bad_cookies: true,
    max_segment_bytes: MAX_SEGMENT_BYTES,
    checks_suffixes: true,
    features: ", POSIX threads, GSO/GRO support",
    ..LAYOUT_3_18
};

/// Texts of errors that older versions have in other words: the first version with the newest text,
/// the newest text, and the older one.
const TEXTS: [(Version, &str, &str); 9] = [
    (
        V3_22,
        "invalid number of parallel streams (min = 1, max = 128)",
        "number of parallel streams too large (maximum = 128)",
    ),
    (
        V3_18,
        "test duration valid values are 0 to 86400 seconds",
        "test duration too long (maximum = 86400 seconds)",
    ),
    (
        V3_22,
        "TCP MSS too large (maximum = 32767 bytes)",
        "TCP MSS too large (maximum = 9216 bytes)",
    ),
    (
        V3_18,
        "bogus value for --omit (maximum = 600 seconds)",
        "bogus value for --omit",
    ),
    (
        V3_22,
        "bad DSCP value (numeric: 0-63 inclusive, symbolic: one of [af11-13, af21-23, af31-33, af41-43, cs1-7, ef, va, lowdelay, throughput, reliability])",
        "bad TOS value (must be between 0 and 255 inclusive)",
    ),
    (
        V3_18,
        "unable to connect to server - server may have stopped running or use a different port, firewall issue, etc.",
        "unable to connect to server",
    ),
    (
        V3_18,
        "received an unknown control message (ensure other side is iperf3 and not iperf)",
        "received an unknown control message",
    ),
    (
        V3_18,
        "unable to send control message - port may not be available, the other side may have stopped running, etc.",
        "unable to send control message",
    ),
    (
        V3_18,
        "unable to receive control message - port may not be available, the other side may have stopped running, etc.",
        "unable to receive control message",
    ),
];

impl Version {
    /// Returns the version's name.
    pub fn name(self) -> &'static str {
        Self::name_at(self as usize)
    }

    /// Removes the members that this version's documents lack. `object` is the key of `json`.
    pub(crate) fn restrict(self, object: &str, json: Json) -> Json {
        let has_member = |key: &str| {
            let is_listed = |(parent, member, since): &(&str, &str, Self)| {
                *parent == object && *member == key && *since > self
            };
            !MEMBERS.iter().any(is_listed)
        };
        match json {
            Json::Object(members) => {
                let members = members.into_iter().filter(|(key, _)| has_member(key));
                let restricted = members.map(|(key, value)| {
                    let value = self.restrict(&key, value);
                    (key, value)
                });
                Json::Object(restricted.collect())
            }
            Json::List(items) => {
                let items = items.into_iter().map(|item| self.restrict(object, item));
                Json::List(items.collect())
            }
            other => other,
        }
    }

    /// Returns this version's words for an error with the newest `text`.
    pub(crate) fn text(self, text: &str) -> &str {
        let older = TEXTS
            .iter()
            .find(|(since, newest, _)| *since > self && *newest == text);
        older.map_or(text, |(_, _, older)| older)
    }

    /// Returns the version's layout.
    pub(crate) fn layout(self) -> &'static Layout {
        match self {
            Self::V3_12 => &LAYOUT_3_12,
            V3_18 => &LAYOUT_3_18,
            V3_22 => &LAYOUT_3_22,
        }
    }

    /// Returns the number in brackets of stream `index`.
    pub(crate) fn stream_label(self, is_server: bool, protocol: Protocol, index: usize) -> i32 {
        let layout = self.layout();
        let [first, second, step] = match (is_server, protocol) {
            (false, _) => layout.client_labels,
            (true, Protocol::Udp) => layout.udp_server_labels,
            (true, _) => layout.server_labels,
        };
        match index {
            0 => first,
            _ => second + step * (index as i32 - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_versions() {
        let names: Vec<_> = Version::ALL.iter().map(|version| version.name()).collect();
        assert_eq!(names, ["3.12", "3.18", "3.22"]);
        assert_eq!(Version::default().name(), "3.22");
    }

    #[test]
    fn older_documents_lack_newer_members() {
        let document =
            br#"{"start":{"fq_rate":0,"test_start":{"tos":0,"gso":0}},"streams":[{"reorder":1,"rtt":2}]}"#;
        for (version, expected) in [
            (
                Version::V3_12,
                r#"{"start":{"test_start":{"tos":0}},"streams":[{"rtt":2}]}"#,
            ),
            (
                V3_18,
                r#"{"start":{"fq_rate":0,"test_start":{"tos":0}},"streams":[{"rtt":2}]}"#,
            ),
            (V3_22, std::str::from_utf8(document).unwrap()),
        ] {
            let json = Json::parse(document).unwrap();
            assert_eq!(version.restrict("", json).compact(), expected);
        }
    }

    #[test]
    fn labels_are_descriptors_of_the_version() {
        for (version, client, server, udp_server) in [
            (Version::V3_12, [5, 7, 9, 11], [5, 8, 10, 12], [5, 6, 7, 8]),
            (V3_18, [5, 7, 9, 11], [5, 8, 10, 12], [5, 6, 7, 8]),
            (V3_22, [4, 6, 8, 10], [5, 7, 9, 11], [5, 6, 7, 8]),
        ] {
            let labels = |is_server, protocol| {
                [0, 1, 2, 3].map(|index| version.stream_label(is_server, protocol, index))
            };
            assert_eq!(labels(false, Protocol::Tcp), client);
            assert_eq!(labels(true, Protocol::Tcp), server);
            assert_eq!(labels(true, Protocol::Udp), udp_server);
        }
    }
}
