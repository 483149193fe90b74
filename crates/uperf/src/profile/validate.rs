//! Checks of a complete profile: missing elements, contradictions, limits.
//!
//! uperf checks none of these before a run; it then crashes, hangs, or its slave refuses the work.

use std::collections::HashMap;

use crate::tls::{self, NO_ENGINES};
use crate::workorder::{Amount, DataProtocol, FlowopKind};

use super::build::{FlowopDraft, GroupDraft, ProfileDraft, TransactionDraft};
use super::memory;
use super::note::Notes;
use super::options;

/// Maximum number of threads in all groups.
pub const MAX_THREADS: u64 = 10_000;
/// Maximum number of processes in all groups.
pub const MAX_PROCESSES: u64 = 1_000;
/// Maximum memory of all strands, in bytes; more indicates a mistake in a size or count.
pub const MAX_MEMORY_BYTES: u64 = 64 << 30;

/// Checks the profile; adds errors and warnings to `notes`.
pub(super) fn validate(draft: &ProfileDraft, notes: &mut Notes) {
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
            "a group with no strands never ends"
        } else {
            "a group without nthreads= or nprocs= has no strands and never ends"
        };
        notes.error(&group.span, text);
    }
    if group.transactions.is_empty() {
        let text = "a group without transactions";
        notes.warn(&group.span, text, "its strands do nothing");
    }
    let mut opened = OpenedConnections::new();
    for transaction in &group.transactions {
        check_transaction(transaction, &mut opened, notes);
    }
}

/// Protocol of each connection that a strand has opened so far, by `conn=` number.
type OpenedConnections = HashMap<u32, Option<DataProtocol>>;

fn check_transaction(
    transaction: &TransactionDraft,
    opened: &mut OpenedConnections,
    notes: &mut Notes,
) {
    let settings = &transaction.settings;
    if transaction.flowops.is_empty() {
        let text = "a transaction without flowops";
        notes.warn(&transaction.span, text, "it does nothing");
    }
    if settings.duration.is_some() {
        if let Some(span) = &transaction.iterations {
            notes.warn(
                span,
                "iterations= together with duration=",
                "only the duration",
            );
        }
    } else if let Some(span) = &transaction.rate {
        let text = "rate= without duration= has no effect";
        notes.warn(span, text, "no rate limit");
    }
    let is_executed = settings.duration.is_some() || settings.iterations > 0;
    for flowop in &transaction.flowops {
        match flowop.kind {
            Some(kind) if !flowop.is_refused => {
                check_flowop(flowop, kind, is_executed, notes);
                check_size(flowop, kind, is_executed, opened, notes);
                check_connection(flowop, kind, opened, notes);
            }
            None if !flowop.is_refused => {
                notes.error(&flowop.span, "a flowop without type=");
            }
            _ => {}
        }
    }
}

fn check_flowop(flowop: &FlowopDraft, kind: FlowopKind, is_executed: bool, notes: &mut Notes) {
    let (span, settings) = (&flowop.span, &flowop.settings);
    let last_word = |key: &str| flowop.words.iter().rfind(|word| word.key == key);
    // An invalid option does not also count as missing.
    let is_refused = |key: &str| last_word(key).is_some_and(|word| word.is_refused);
    for word in flowop.words.iter().filter(|word| !word.is_refused) {
        if !options::is_used(&word.key, kind) {
            let text = format!("{kind} ignores {}", word.key);
            notes.warn(&word.span, text, "absent");
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
    let executes = is_executed && settings.count > 0;
    if kind.sends_files() && executes && settings.directory.is_empty() && !is_refused("dir") {
        notes.error(span, format!("{kind} has no dir= to take files from"));
    }
}

fn check_size(
    flowop: &FlowopDraft,
    kind: FlowopKind,
    is_executed: bool,
    opened: &OpenedConnections,
    notes: &mut Notes,
) {
    const MAX_DATAGRAM_BYTES: u32 = 65_507;
    let (span, settings) = (&flowop.span, &flowop.settings);
    let last_word = |key: &str| flowop.words.iter().rfind(|word| word.key == key);
    let executes = is_executed && settings.count > 0;
    match settings.transfer.amount {
        Amount::Exactly(0) if kind.uses_buffer() && executes => match last_word("size") {
            None => notes.error(span, format!("{kind} has no size=")),
            Some(word) if word.is_refused => {}
            Some(word) => notes.error(&word.span, format!("{kind} of 0 bytes")),
        },
        Amount::Exactly(size) if (1..=size).contains(&settings.slave_size) => {
            let text = format!("rsize={} is not more than the size", settings.slave_size);
            notes.warn(span, text, format!("{size} at both ends"));
        }
        Amount::Between { .. } if settings.slave_size > 0 => {
            let span = last_word("rsize").map_or(span, |word| &word.span);
            let text = format!("rsize={} together with a random size", settings.slave_size);
            notes.warn(span, text, "the random size at both ends");
        }
        _ => {}
    }
    if settings.count == 0 {
        let text = format!("{kind} with count=0");
        notes.warn(span, text, "nothing is done");
    }
    let is_datagram = opened.get(&settings.connection) == Some(&Some(DataProtocol::Udp));
    if kind.uses_connection()
        && is_datagram
        && settings.transfer.amount.max_bytes() > MAX_DATAGRAM_BYTES
    {
        let text = "no datagram has more than 65507 bytes";
        notes.warn(span, text, "it will be refused");
    }
}

/// Checks the SSL options. uperf ignores all of them except an engine that it knows.
fn check_tls(flowop: &FlowopDraft, notes: &mut Notes) {
    let endpoint = &flowop.settings.endpoint;
    if endpoint.protocol != Some(DataProtocol::Ssl) {
        return;
    }
    let accepted_words = flowop.words.iter().filter(|word| !word.is_refused);
    let find_word = |option| accepted_words.clone().rfind(|word| word.key == option);
    if let Some(word) = find_word("engine") {
        let text = format!("engine={}: {NO_ENGINES}", endpoint.engine);
        let assumed = "none, as in uperf if it does not know the engine";
        notes.warn(&word.span, text, assumed);
    }
    if let Some((option, reason)) = tls::find_invalid_option(&endpoint.method, &endpoint.cipher)
        && let Some(word) = find_word(option)
    {
        notes.error(&word.span, reason);
    }
}

/// Checks that depend on the protocol of the flowop's connection, as last opened.
fn check_connection(
    flowop: &FlowopDraft,
    kind: FlowopKind,
    opened: &mut OpenedConnections,
    notes: &mut Notes,
) {
    let (settings, number) = (&flowop.settings, flowop.settings.connection);
    let is_send_or_recv = matches!(kind, FlowopKind::Send | FlowopKind::Recv);
    if kind.opens() {
        opened.insert(number, settings.endpoint.protocol);
    }
    match opened.get(&number) {
        None if kind.uses_connection() => {
            let text = format!("No such connection {number}: no earlier flowop opens it");
            notes.warn(&flowop.span, text, "to be an intended failure");
        }
        Some(Some(protocol)) if is_send_or_recv && *protocol != DataProtocol::Tcp => {
            let text = format!("uperf has {kind} over TCP only, and this is {protocol}");
            notes.warn(&flowop.span, text, format!("{kind} over {protocol}"));
        }
        _ => {}
    }
    if let Some(Some(protocol)) = opened.get(&number) {
        check_protocol_options(flowop, kind, *protocol, notes);
    }
}

/// Warns of options that belong to another protocol, which uperf ignores.
fn check_protocol_options(
    flowop: &FlowopDraft,
    kind: FlowopKind,
    protocol: DataProtocol,
    notes: &mut Notes,
) {
    for word in flowop.words.iter().filter(|word| !word.is_refused) {
        let key = &word.key;
        let protocols = options::protocols(key);
        // `check_flowop` has already reported options that the flowop never uses.
        if !options::is_used(key, kind) || protocols.is_empty() || protocols.contains(&protocol) {
            continue;
        }
        let protocols: Vec<_> = protocols.iter().map(|protocol| protocol.name()).collect();
        let text = format!(
            "{key} is for {}, and this is {protocol}",
            protocols.join(", ")
        );
        notes.warn(&word.span, text, "absent");
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
        notes.warn(&word.span, text, "no policy");
    }
}

fn check_limits(draft: &ProfileDraft, notes: &mut Notes) {
    let (mut threads, mut processes, mut bytes) = (0, 0, 0_u64);
    for group in &draft.groups {
        let count = u64::from(group.settings.strands.count);
        let (total, max, unit) = if group.settings.strands.processes {
            processes += count;
            (processes, MAX_PROCESSES, "processes")
        } else {
            threads += count;
            (threads, MAX_THREADS, "threads")
        };
        if total > max {
            let text = format!("{total} {unit} up to this group: more than {max}");
            notes.error(&group.span, text);
        }
        bytes = bytes.saturating_add(memory::group_memory(&group.to_spec()));
        if bytes > MAX_MEMORY_BYTES {
            let text =
                format!("{bytes} bytes of memory up to this group: more than {MAX_MEMORY_BYTES}");
            notes.error(&group.span, text);
            return;
        }
    }
}
