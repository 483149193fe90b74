//! What can only be seen of a whole profile: what it lacks, what contradicts, what is too much.
//!
//! uperf looks at none of it before a run, and then crashes, hangs or is refused by its slave.

use std::collections::HashMap;

use crate::tls::{self, NO_ENGINES};
use crate::workorder::{Amount, Kind, Protocol};

use super::build::{Draft, FlowopDraft, GroupDraft, TransactionDraft};
use super::memory;
use super::note::Notes;
use super::options;

/// Threads of all groups together.
pub const MOST_THREADS: u64 = 10_000;
/// Processes of all groups together.
pub const MOST_PROCESSES: u64 = 1_000;
/// Bytes that all strands together are expected to need: beyond it a size or a count is a slip.
pub const MOST_MEMORY: u64 = 64 << 30;

pub(super) fn check(draft: &Draft, notes: &mut Notes) {
    if draft.groups.is_empty() {
        let text = "No profile found: there is no group in it, and nothing to run";
        notes.error(&(0..0), text);
    }
    for group in &draft.groups {
        check_group(group, notes);
    }
    check_limits(draft, notes);
}

fn check_group(group: &GroupDraft, notes: &mut Notes) {
    if group.settings.strands.count == 0 {
        let text = if group.settings.strands.threads || group.settings.strands.processes {
            "a group of no strands, which never ends"
        } else {
            "a group without nthreads= or nprocs= has no strands, and never ends"
        };
        notes.error(&group.span, text);
    }
    if group.transactions.is_empty() {
        let text = "a group without transactions";
        notes.warn(&group.span, text, "its strands do nothing");
    }
    let mut opened = Opened::new();
    for transaction in &group.transactions {
        check_transaction(transaction, &mut opened, notes);
    }
}

/// The protocol of each connection that a strand has opened so far, by its name.
type Opened = HashMap<u32, Option<Protocol>>;

fn check_transaction(transaction: &TransactionDraft, opened: &mut Opened, notes: &mut Notes) {
    let settings = &transaction.settings;
    if transaction.flowops.is_empty() {
        let text = "a transaction without flowops";
        notes.warn(&transaction.span, text, "it does nothing");
    }
    if settings.duration.is_some() {
        if let Some(span) = &transaction.iterations {
            notes.warn(span, "iterations= beside duration=", "the duration alone");
        }
    } else if let Some(span) = &transaction.rate {
        let text = "rate= without duration= does nothing";
        notes.warn(span, text, "as fast as it goes");
    }
    let runs = settings.duration.is_some() || settings.iterations > 0;
    for flowop in &transaction.flowops {
        match flowop.kind {
            Some(kind) if !flowop.is_refused => {
                check_flowop(flowop, kind, runs, notes);
                check_size(flowop, kind, runs, opened, notes);
                check_connection(flowop, kind, opened, notes);
            }
            None if !flowop.is_refused => {
                notes.error(&flowop.span, "a flowop without type=");
            }
            _ => {}
        }
    }
}

fn check_flowop(flowop: &FlowopDraft, kind: Kind, runs: bool, notes: &mut Notes) {
    let (span, settings) = (&flowop.span, &flowop.settings);
    let last = |key: &str| flowop.words.iter().rfind(|word| word.key == key);
    // What stands there and was refused is not missed as well.
    let is_refused = |key: &str| last(key).is_some_and(|word| word.is_refused);
    for word in flowop.words.iter().filter(|word| !word.is_refused) {
        if !options::is_used(&word.key, kind) {
            let text = format!("{kind} does nothing with {}", word.key);
            notes.warn(&word.place, text, "it is not there");
        }
    }
    if kind.opens() {
        if settings.endpoint.remote_host.is_empty() && !is_refused("remotehost") {
            let text = format!("remotehost not specified. Check profile: {kind} needs one");
            notes.error(span, text);
        }
        check_tls(flowop, notes);
        if settings.endpoint.protocol.is_none() && !is_refused("protocol") {
            let text = format!("Unsupported protocol:Unknown: {kind} has no protocol=");
            notes.error(span, text);
        }
    }
    let executes = runs && settings.count > 0;
    if kind.sends_files() && executes && settings.directory.is_empty() && !is_refused("dir") {
        notes.error(span, format!("{kind} has no dir= to take files from"));
    }
}

fn check_size(flowop: &FlowopDraft, kind: Kind, runs: bool, opened: &Opened, notes: &mut Notes) {
    const LARGEST_DATAGRAM: u32 = 65_507;
    let (span, settings) = (&flowop.span, &flowop.settings);
    let last = |key: &str| flowop.words.iter().rfind(|word| word.key == key);
    let executes = runs && settings.count > 0;
    match settings.transfer.amount {
        Amount::Exactly(0) if kind.goes_through_a_buffer() && executes => match last("size") {
            None => notes.error(span, format!("{kind} has no size=")),
            Some(word) if word.is_refused => {}
            Some(word) => notes.error(&word.place, format!("{kind} of no bytes")),
        },
        Amount::Exactly(size) if (1..=size).contains(&settings.slave_size) => {
            let text = format!("rsize={} is not more than the size", settings.slave_size);
            notes.warn(span, text, format!("{size} at both ends"));
        }
        Amount::Between { .. } if settings.slave_size > 0 => {
            let place = last("rsize").map_or(span, |word| &word.place);
            let text = format!("rsize={} beside a random size", settings.slave_size);
            notes.warn(place, text, "the random size at both ends");
        }
        _ => {}
    }
    if settings.count == 0 {
        let text = format!("{kind} with count=0");
        notes.warn(span, text, "nothing is done");
    }
    let is_datagram = opened.get(&settings.connection) == Some(&Some(Protocol::Udp));
    if kind.uses_a_connection()
        && is_datagram
        && settings.transfer.amount.largest() > LARGEST_DATAGRAM
    {
        let text = "no datagram has more than 65507 bytes";
        notes.warn(span, text, "it will be refused");
    }
}

/// What is said of SSL: uperf passes over all of it, but for an engine that it knows.
fn check_tls(flowop: &FlowopDraft, notes: &mut Notes) {
    let endpoint = &flowop.settings.endpoint;
    if endpoint.protocol != Some(Protocol::Ssl) {
        return;
    }
    let said = flowop.words.iter().filter(|word| !word.is_refused);
    let place = |option| said.clone().rfind(|word| word.key == option);
    if let Some(word) = place("engine") {
        let text = format!("engine={}: {NO_ENGINES}", endpoint.engine);
        let assumed = "none, as by uperf where it does not know the engine";
        notes.warn(&word.place, text, assumed);
    }
    if let Some((option, why)) = tls::objection(&endpoint.method, &endpoint.cipher)
        && let Some(word) = place(option)
    {
        notes.error(&word.place, why);
    }
}

/// What of a flowop depends on the protocol of its connection, which is the last one opened so far.
fn check_connection(flowop: &FlowopDraft, kind: Kind, opened: &mut Opened, notes: &mut Notes) {
    let (settings, name) = (&flowop.settings, flowop.settings.connection);
    let is_call = matches!(kind, Kind::Send | Kind::Recv);
    if kind.opens() {
        opened.insert(name, settings.endpoint.protocol);
    }
    match opened.get(&name) {
        None if kind.uses_a_connection() => {
            let text = format!("No such connection {name}: nothing before this opens it");
            notes.warn(&flowop.span, text, "it will be refused, or is not reached");
        }
        Some(Some(protocol)) if is_call && *protocol != Protocol::Tcp => {
            let text = format!("uperf has {kind} over TCP only");
            notes.warn(
                &flowop.span,
                text,
                format!("the call is {kind} here as well"),
            );
        }
        _ => {}
    }
    if let Some(Some(protocol)) = opened.get(&name) {
        check_words(flowop, kind, *protocol, notes);
    }
}

/// Words that mean something, but over another protocol: uperf passes over them.
fn check_words(flowop: &FlowopDraft, kind: Kind, protocol: Protocol, notes: &mut Notes) {
    for word in flowop.words.iter().filter(|word| !word.is_refused) {
        let key = &word.key;
        let others = options::only_for(key);
        // What the flowop never has a use for has been said.
        if !options::is_used(key, kind) || others.is_empty() || others.contains(&protocol) {
            continue;
        }
        let others: Vec<_> = others.iter().map(|protocol| protocol.name()).collect();
        let text = format!("{key} is for {}, and this is {protocol}", others.join(", "));
        notes.warn(&word.place, text, "it is not there");
    }
    let sctp = &flowop.settings.endpoint.sctp;
    if sctp.partial_reliability.is_empty()
        && let Some(word) = flowop
            .words
            .iter()
            .rfind(|word| word.key == "sctp_pr_value")
        && !flowop.words.iter().any(|word| word.key == "sctp_pr_policy")
    {
        let text = "sctp_pr_value without sctp_pr_policy";
        notes.warn(&word.place, text, "no policy");
    }
}

fn check_limits(draft: &Draft, notes: &mut Notes) {
    let (mut threads, mut processes, mut bytes) = (0, 0, 0_u64);
    for group in &draft.groups {
        let count = u64::from(group.settings.strands.count);
        let (all, most, what) = if group.settings.strands.processes {
            processes += count;
            (processes, MOST_PROCESSES, "processes")
        } else {
            threads += count;
            (threads, MOST_THREADS, "threads")
        };
        if all > most {
            let text = format!("{all} {what} up to this group: more than {most}");
            notes.error(&group.span, text);
        }
        bytes = bytes.saturating_add(memory::of_group(&group.of_workorder()));
        if bytes > MOST_MEMORY {
            let text = format!("{bytes} bytes of memory up to this group: more than {MOST_MEMORY}");
            notes.error(&group.span, text);
            return;
        }
    }
}
