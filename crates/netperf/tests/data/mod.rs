//! The recorded control connections in `transcripts.txt`, which describes how they were captured.

use netperf::wire::{Frame, MESSAGE_BYTES};

/// A control connection.
pub(crate) struct Connection {
    pub(crate) name: &'static str,
    pub(crate) messages: Vec<Message>,
}

/// A message and its sender.
pub(crate) struct Message {
    pub(crate) sender: Sender,
    pub(crate) frame: Frame,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Server,
}

/// Returns all connections in the order of the file.
pub(crate) fn connections() -> Vec<Connection> {
    let mut connections = Vec::<Connection>::new();
    for line in include_str!("transcripts.txt").lines() {
        if let Some(name) = line.strip_prefix('[') {
            connections.push(Connection {
                name: name.trim_end_matches(']'),
                messages: Vec::new(),
            });
            continue;
        }
        let (sender, words) = match line.split_once(' ') {
            Some((">", words)) => (Sender::Client, words),
            Some(("<", words)) => (Sender::Server, words),
            _ => continue,
        };
        if matches!(words, "FIN" | "RESET") {
            continue;
        }
        let connection = connections.last_mut().expect("a [name] line comes first");
        connection.messages.push(Message {
            sender,
            frame: parse_frame(words),
        });
    }
    connections
}

fn parse_frame(words: &str) -> Frame {
    let mut frame = [0; MESSAGE_BYTES];
    let mut at = 0;
    for word in words.split(' ') {
        if let Some(zeros) = word.strip_prefix('*') {
            at += 4 * zeros.parse::<usize>().expect("a number of zero words");
        } else {
            let word = u32::from_str_radix(word, 16).expect("a hexadecimal word");
            frame[at..at + 4].copy_from_slice(&word.to_be_bytes());
            at += 4;
        }
    }
    frame
}
