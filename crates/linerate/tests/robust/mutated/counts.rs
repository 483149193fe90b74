//! Counts of mutated and valid messages.

use std::collections::BTreeMap;

use super::conversation::Message;

/// Counts of messages and conversations.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) conversations: u64,
    pub(super) mutated: u64,
    /// Mutated messages that follow only valid ones, all answered by the server.
    pub(super) after_valid: u64,
    /// Conversations in which the server answered a mutated message or one after it.
    pub(super) answered: u64,
    pub(super) messages: BTreeMap<String, MessageCounts>,
}

/// Counts of one message of the protocol.
#[derive(Clone, Copy, Default)]
pub(super) struct MessageCounts {
    pub(super) mutated: u64,
    pub(super) valid: u64,
    /// Messages of either kind that the server answered.
    pub(super) answered: u64,
}

impl Counts {
    pub(super) fn of(&mut self, message: &Message) -> &mut MessageCounts {
        self.messages.entry(message.name.clone()).or_default()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.conversations += other.conversations;
        self.mutated += other.mutated;
        self.after_valid += other.after_valid;
        self.answered += other.answered;
        for (name, counts) in other.messages {
            let total = self.messages.entry(name).or_default();
            total.mutated += counts.mutated;
            total.valid += counts.valid;
            total.answered += counts.answered;
        }
    }

    pub(super) fn print_messages(&self) {
        println!(
            "{:>10} {:>10} {:>10}  message",
            "mutated", "valid", "answered"
        );
        for (name, counts) in &self.messages {
            let MessageCounts {
                mutated,
                valid,
                answered,
            } = counts;
            println!("{mutated:>10} {valid:>10} {answered:>10}  {name}");
        }
    }
}
