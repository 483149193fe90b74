//! Conversations with a UDPmon responder. All numbers of the protocol are little-endian.

use udpmon::wire::{Command, LinerateExtension, MessageBlock, ResultObject};

use super::conversation::{Answer, Channel, Conversation, Message};
use super::servers::attack_servers;
use super::target::Target;
use crate::hosts::network::PORT;

/// Length of a requested part.
const PART_BYTES: u32 = 200;

/// Length of the block of a 32-bit requester.
const SHORT_BLOCK_BYTES: usize = 204;

pub(super) fn run() {
    let conversations = conversations();
    let target = Target {
        conversations,
        complete: |message, last_answer| {
            if let (Some(request), Some(answer)) = (
                LinerateExtension::find(message),
                LinerateExtension::find(last_answer),
            ) {
                let nonce = answer.nonce;
                write_extension(message, LinerateExtension { nonce, ..request });
            }
        },
        repair: |message| {
            if message.get(88..96) == Some(b"linerate") {
                let nonce = message
                    .get(104..120)
                    .and_then(|bytes| bytes.try_into().ok());
                let request = message
                    .get(120..128)
                    .and_then(|bytes| bytes.try_into().ok());
                write_extension(
                    message,
                    LinerateExtension {
                        nonce: nonce.map_or(0, u128::from_le_bytes),
                        request: request.map_or(0, u64::from_le_bytes),
                    },
                );
            }
        },
        last_datagram: MessageBlock::with_command(Command::TestEnd)
            .encode()
            .to_vec(),
        ..Target::default()
    };
    attack_servers(
        &target,
        &["udpmon_resp -u PORT --max-tests 8192 --idle 5".to_owned()],
        &[format!(
            "udpmon_bw_mon -d SERVER -u {PORT} -p 100 -l 10 -G 10"
        )],
    );
}

fn write_extension(message: &mut [u8], extension: LinerateExtension) {
    if let Some(block) = message.first_chunk_mut() {
        extension.write_into(block);
    }
}

/// A requester.
#[derive(Clone, Copy)]
struct Requester {
    channel: Channel,
    is_linerate: bool,
    /// Length of ZEROSTATS.
    block_bytes: usize,
    /// The fields of ZEROSTATS that are not zero.
    settings: MessageBlock,
}

/// Returns conversations of several requesters with each command.
fn conversations() -> Vec<Conversation> {
    let channel = Channel::udp(PORT, 1);
    let zero_stats = MessageBlock {
        version: 0,
        ..MessageBlock::with_command(Command::ZeroStats)
    };
    let with_records = MessageBlock {
        length: 64_000,
        width: 10,
        skip: 1,
        ..zero_stats
    };
    let with_losses = MessageBlock {
        lost_only: 1,
        stamps: 1,
        ..with_records
    };
    let mut conversations = Vec::new();
    for settings in [zero_stats, with_records, with_losses] {
        for (channel, is_linerate, block_bytes) in [
            (channel, false, MessageBlock::LEN),
            (channel, false, SHORT_BLOCK_BYTES),
            (channel, true, MessageBlock::LEN),
            (channel.far(), true, MessageBlock::LEN),
        ] {
            let requester = Requester {
                channel,
                is_linerate,
                block_bytes,
                settings,
            };
            let tails = requester.tails();
            conversations.extend(tails.into_iter().map(|tail| Conversation {
                protocol: "udpmon",
                messages: requester.test_with(tail),
            }));
        }
    }
    conversations
}

impl Requester {
    /// Returns a test with all phases and this message before its end.
    fn test_with(self, message: Message) -> Vec<Message> {
        let block = |command| MessageBlock::with_command(command);
        let mut zero_stats = self.message(self.settings, Some(Answer::Datagram));
        zero_stats.bytes.truncate(self.block_bytes);
        zero_stats.answers = vec![(self.channel, Answer::Bytes(self.block_bytes))];
        let data = |number| {
            self.message(
                MessageBlock {
                    number,
                    sent: 100 * number,
                    ..block(Command::Data)
                },
                None,
            )
        };
        let whole = Some(Answer::Bytes(MessageBlock::LEN));
        // The answer to the first request of a linerate requester is the nonce for the second one.
        let mut messages = vec![zero_stats; 1 + usize::from(self.is_linerate)];
        messages.extend([
            self.response_request(),
            self.message(block(Command::Start), whole),
            data(0),
            data(1),
            data(4),
            data(3),
            self.message(block(Command::GetStats), whole),
            message,
            self.message(block(Command::TestEnd), whole),
        ]);
        messages
    }

    fn response_request(self) -> Message {
        let request = MessageBlock {
            length: PART_BYTES,
            ..MessageBlock::with_command(Command::Request)
        };
        self.message(request, Some(Answer::Bytes(PART_BYTES as usize)))
    }

    /// Returns each request for a part, and each command that no requester sends.
    fn tails(self) -> Vec<Message> {
        let part = |command, low| MessageBlock {
            length: PART_BYTES,
            low,
            ..MessageBlock::with_command(command)
        };
        let answer = Some(Answer::Bytes(PART_BYTES as usize));
        let mut tails = vec![
            self.message(part(Command::GetRecords, 0), answer),
            self.message(part(Command::GetCounters, 0), answer),
            self.message(part(Command::GetCpuLoad, 0), answer),
            self.message(part(Command::GetNic, 0), answer),
            self.response_request(),
        ];
        for histogram in 0..5 {
            tails.push(self.message(part(Command::GetHistogram, histogram), answer));
        }
        for command in [
            Command::Response,
            Command::Ok,
            Command::InUse,
            Command::Fetched,
            Command::Ended,
        ] {
            tails.push(self.message(MessageBlock::with_command(command), None));
        }
        if self.is_linerate {
            for object in (0..).map_while(ResultObject::from_number) {
                let fetch = part(Command::Fetch, object.number());
                tails.push(self.message(fetch, Some(Answer::Datagram)));
            }
        }
        tails
    }

    fn message(self, block: MessageBlock, answer: Option<Answer>) -> Message {
        let mut bytes = block.encode();
        let command = block.command().expect("a known command");
        if self.is_linerate {
            LinerateExtension::default().write_into(&mut bytes);
        }
        let message = Message::new(command.to_string(), self.channel, bytes);
        match answer {
            Some(answer) => message.answered(answer),
            None => message,
        }
    }
}
