//! A profile's run as a JSON document: that of `linerate run` as far as it has words for it, and what only
//! a profile has (groups, strands, flowops) in a member of its own.

use std::time::SystemTime;

use model::HostFacts;
use serde::Serialize;
use serde_json::Value;
use stats::Summary;
use units::BitRate;

use crate::json::{Hosts, PeerDocument, SCHEMA, rfc3339, text};
use crate::{Demand, Figures, Peer};

/// The member `profile.schema` of a document that has a `profile`.
pub const PROFILE_SCHEMA: &str = "linerate-profile/1";

/// A run of a profile.
#[derive(Clone, Debug)]
pub struct ProfileReport<'a> {
    /// The version of the program that ran it.
    pub version: &'static str,
    /// When it began, by the wall clock; for labels only.
    pub started: SystemTime,
    /// The first slave; the others are in [`Profile::slaves`].
    pub peer: Peer,
    /// What the first slave is, if it is known: `linerate` or `uperf`.
    pub kind: Option<&'static str>,
    /// This host. Slaves do not tell of theirs.
    pub here: &'a HostFacts,
    /// Each transaction of each group as a test.
    pub tests: Vec<ProfileTest>,
    /// All the rest.
    pub profile: Profile,
    /// Somebody ended the run before its time.
    pub interrupted: bool,
    /// Why it failed, in one line.
    pub error: Option<String>,
}

/// A transaction of a group, all its strands together. What is not known is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileTest {
    /// The group and the transaction: `Group0/Txn1`.
    pub name: String,
    /// Payload that arrived, at either end, over the time; not of exchanges.
    pub throughput: Option<BitRate>,
    /// Payload that was sent in datagrams, over the time.
    pub offered: Option<BitRate>,
    /// Executions of the transaction a second, where they are exchanges or connections.
    pub transactions_per_s: Option<f64>,
    /// What an execution took.
    pub latency: Option<Summary>,
    /// Doubts, by their kind and in words.
    pub warnings: Vec<ProfileWarning>,
}

/// A doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProfileWarning {
    /// As [`model::Warning`] has it.
    pub kind: &'static str,
    /// In words.
    pub text: String,
}

/// What only a profile has. Bytes are payload of both directions, as this end's calls returned them;
/// operations are executions of flowops.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Profile {
    pub schema: &'static str,
    pub name: String,
    /// The file, as it was read.
    pub text: String,
    /// From the end of the handshake to the end of all strands.
    pub total: Totals,
    /// Over the time in which any transaction ran.
    pub active: Totals,
    pub groups: Vec<Group>,
    /// What each slave told of each of its groups.
    pub slaves: Vec<Slave>,
    pub interfaces: Vec<Interface>,
    /// The transactions one after the other, as far as their progress was sampled.
    pub course: Vec<Course>,
    pub log: Vec<Entry>,
    pub doubts: Vec<String>,
    /// Strands and slaves that failed.
    pub failures: u64,
}

/// Counts over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Totals {
    pub elapsed_ns: u64,
    pub bytes: u64,
    pub operations: u64,
    pub failed_operations: u64,
    pub rate_bps: f64,
    pub operations_per_s: f64,
}

/// One group.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Group {
    pub name: String,
    /// Over the time in which a transaction of its own ran.
    pub active: Totals,
    pub transactions: Vec<Transaction>,
    pub strands: Vec<Totals>,
}

/// One transaction of a group.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Transaction {
    pub name: String,
    /// From the first strand's beginning to the last one's end.
    pub elapsed_ns: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Executions from beginning to end.
    pub executions: u64,
    pub operations: u64,
    pub failed_operations: u64,
    /// From the first strand's beginning to the last one's.
    pub start_spread_ns: u64,
    /// Where times were kept.
    pub times: Option<Times>,
    pub flowops: Vec<Flowop>,
}

/// One flowop of a transaction.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Flowop {
    pub name: String,
    /// Where times were kept.
    pub times: Option<Times>,
    /// By their names; `null` is one that the machine has not or does not allow.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub counters: serde_json::Map<String, Value>,
}

/// Times of executions. A pass is all executions that `count=` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Times {
    pub executions: u64,
    pub total_ns: u64,
    pub cpu_ns: Option<u64>,
    pub longest_pass_ns: u64,
    pub shortest_pass_ns: u64,
}

/// A slave, of one group.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Slave {
    pub host: String,
    pub group: String,
    /// `null` if it was lost.
    pub totals: Option<Totals>,
}

/// What a network interface of this host carried.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Interface {
    pub name: String,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub received_bytes: u64,
}

/// How one transaction went, in all groups. Times are since the run began.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Course {
    pub name: String,
    pub begun_ns: u64,
    pub moments: Vec<Moment>,
}

/// What a transaction had done at one moment, since it began.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Moment {
    pub at_ns: u64,
    pub bytes: u64,
    pub operations: u64,
}

/// What went wrong, or may have, and how often.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the members say what they are, with their unit"
)]
pub struct Entry {
    pub is_warning: bool,
    pub text: String,
    pub reason: String,
    pub count: u64,
}

/// The document, indented, with its last newline.
pub fn profile_json(report: &ProfileReport<'_>) -> String {
    text(&Document {
        schema: SCHEMA,
        linerate: report.version,
        started: rfc3339(report.started),
        peer: PeerDocument {
            host: &report.peer.host,
            control_port: report.peer.port,
            embedded: report.peer.embedded,
            kind: report.kind,
            program: None,
        },
        hosts: Hosts {
            here: Some(report.here),
            there: None,
        },
        tests: report.tests.iter().map(TestDocument::of).collect(),
        interrupted: report.interrupted,
        not_run: [],
        error: report.error.as_deref(),
        profile: &report.profile,
    })
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    linerate: &'static str,
    started: Option<String>,
    peer: PeerDocument<'a>,
    hosts: Hosts<'a>,
    tests: Vec<TestDocument<'a>>,
    interrupted: bool,
    not_run: [String; 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    profile: &'a Profile,
}

/// As a test of `linerate run`. A profile is no Plan, and what its strands did is in the profile's part.
#[derive(Serialize)]
struct TestDocument<'a> {
    name: &'a str,
    plan: Option<()>,
    median_run: Option<usize>,
    figures: Figures,
    rate_range: Option<[f64; 2]>,
    warnings: &'a [ProfileWarning],
    runs: [(); 0],
}

impl<'a> TestDocument<'a> {
    fn of(test: &'a ProfileTest) -> Self {
        Self {
            name: &test.name,
            plan: None,
            median_run: None,
            figures: Figures {
                throughput_bps: test.throughput,
                offered_bps: test.offered,
                transactions_per_s: test.transactions_per_s,
                latency: test.latency,
                service_demand: Demand::unknown(test.transactions_per_s.is_some()),
                retransmits: None,
                datagrams: None,
                spread: None,
                levels: None,
            },
            rate_range: None,
            warnings: &test.warnings,
            runs: [],
        }
    }
}
