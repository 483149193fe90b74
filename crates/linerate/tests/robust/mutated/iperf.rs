//! Conversations with iperf 2 servers: of TCP, of TCP with a permit key, and of UDP.

use std::time::Duration;

use iperf::wire::flags::{self, upper};
use iperf::wire::{
    Acknowledgement, BounceMessage, BurstParameters, BurstRecord, DatagramHeader, Extension,
    FrameRecord, Hello, HelloTransport, SendAmount, ServerReport, TestStart, WallTime,
    fill_with_digits, proof,
};

use super::conversation::{Answer, Channel, Conversation, Message, replace};
use super::servers::attack_servers;
use super::target::Target;
use crate::hosts::network::PORT;

const KEY_PORT: u16 = PORT + 1;
const UDP_PORT: u16 = PORT + 2;

/// Stands for the start time of a test. Servers ignore a start more than 600 s ago.
const START: WallTime = WallTime {
    seconds: u32::from_be_bytes(*b"TIME"),
    micros: 999_999,
};

const KEY: &str = "open-sesame";

/// A port where the client's host does not listen.
const CLOSED_PORT: u32 = 9;

/// Length of a datagram with all parts of the header and a nonce.
const DATAGRAM_BYTES: usize = 256;

/// Length of a server's datagram.
const SENT_BYTES: u32 = 64;

pub(super) fn run() {
    let target = Target {
        conversations: conversations(),
        make_unique: |_, messages| {
            let bytes = |time: WallTime| [time.seconds, time.micros].map(u32::to_be_bytes).concat();
            let now = bytes(WallTime::now());
            for message in messages {
                replace(&mut message.bytes, &bytes(START), &now);
            }
        },
        complete: |message, last_answer| {
            let nonce = proof::challenge_nonce(last_answer);
            if let (Some(nonce), Some(_)) = (nonce, proof::find_nonce(message)) {
                proof::write_nonce(message, 0, nonce);
            }
        },
        last_datagram: datagram(-8, &[]),
        // Only the last datagram of a UDP flow and some TCP headers have an answer.
        answered_percent: 10..=100,
        ..Target::default()
    };
    attack_servers(
        &target,
        &[
            "iperf -s -p PORT --max-clients 8192".to_owned(),
            format!("iperf -s -p PORT --max-clients 8192 --permit-key={KEY}"),
            "iperf -s -u -p PORT --max-clients 8192".to_owned(),
        ],
        &[
            format!("iperf -c SERVER -p {PORT} -n 100K"),
            format!("iperf -c SERVER -p {KEY_PORT} -n 100K --permit-key={KEY}"),
            format!("iperf -c SERVER -u -p {UDP_PORT} -n 100K -b 100M"),
        ],
    );
}

fn conversations() -> Vec<Conversation> {
    let mut conversations = Vec::new();
    let mut add = |count, protocol, messages: Vec<Message>| {
        let conversation = Conversation { protocol, messages };
        conversations.extend(std::iter::repeat_n(conversation, count));
    };
    for kind in kinds() {
        add(2, "tcp", kind.stream(PORT, None));
        add(2, "tcp", kind.stream(KEY_PORT, Some(KEY)));
        add(4, "udp", kind.datagrams(false));
    }
    for kind in kinds().into_iter().filter(|kind| kind.name == "-R") {
        add(4, "udp", kind.datagrams(true));
    }
    add(
        2,
        "tcp",
        vec![Message::new("data without header", CHANNEL, digits(64))],
    );
    for size in [64, 1000] {
        add(4, "bounceback", bounceback(size));
    }
    for length in [DatagramHeader::NARROW_LEN, 52] {
        add(2, "udp", narrow_datagrams(length));
    }
    conversations
}

const CHANNEL: Channel = Channel::tcp(PORT, 0);

/// A kind of test that a client requests.
struct Kind {
    name: &'static str,
    hello: Hello,
    /// The server sends without a connection of its own.
    server_sends: bool,
}

/// Returns one test per option that the header describes.
fn kinds() -> Vec<Kind> {
    let start = Some(TestStart {
        at: START,
        fq_rate: 1_000_000,
    });
    let bursts = Some(BurstParameters {
        rate: [50, 0],
        mean: [64, 0],
        variance: [1, 500_000],
        gap: [0, 10],
    });
    let kind = |name, flags, upper, (start, bursts)| Kind {
        name,
        hello: Hello {
            flags: flags | flags::EXTEND,
            flows: 1,
            port: CLOSED_PORT,
            length: SENT_BYTES,
            amount: SendAmount::Bytes(SENT_BYTES),
            extension: Some(Extension {
                upper,
                type_of_service: 8,
                rate: 1_000_000,
                ..Extension::default()
            }),
            start,
            bursts,
            ..Hello::default()
        },
        server_sends: upper & (upper::REVERSE | upper::FULL_DUPLEX) != 0,
    };
    let version2 = flags::VERSION2 | flags::PEER_DETECT;
    let isochronous = upper::ISOCHRONOUS | upper::TRIP_TIMES | upper::SETTINGS;
    let mut plain_old = kind("of iperf 2.0.5", flags::VERSION1, 0, (None, None));
    plain_old.hello.flags = flags::VERSION1;
    plain_old.hello.extension = None;
    vec![
        plain_old,
        kind("plain", 0, 0, (None, None)),
        kind("-X", flags::PEER_DETECT, upper::QUICK_ACK, (None, None)),
        kind("-d", flags::VERSION1 | flags::RUN_NOW, 0, (None, None)),
        kind("-r", flags::VERSION1, 0, (None, None)),
        kind("-R", version2, upper::REVERSE, (None, None)),
        kind("--full-duplex", version2, upper::FULL_DUPLEX, (None, None)),
        kind("--trip-times", 0, upper::TRIP_TIMES, (start, None)),
        kind(
            "--fq-rate",
            0,
            upper::FQ_RATE | upper::L2_LENGTH,
            (start, None),
        ),
        kind("--txstart-time", 0, upper::EPOCH_START, (start, None)),
        kind("--isochronous", 0, isochronous, (start, bursts)),
        kind(
            "--burst-period",
            0,
            upper::BURSTS | upper::TRIP_TIMES,
            (start, bursts),
        ),
        kind(
            "-R --tcp-write-prefetch",
            version2,
            upper::REVERSE | upper::PREFETCH,
            (None, None),
        ),
        kind("--no-udp-fin", 0, upper::NO_FIN, (None, None)),
    ]
}

impl Kind {
    fn stream(&self, port: u16, key: Option<&str>) -> Vec<Message> {
        let channel = Channel::tcp(port, 0);
        let mut hello = self.hello.clone();
        // Only a header with a length can have a key.
        let key = key.filter(|_| hello.extension.is_some());
        if let Some(key) = key {
            hello.flags |= flags::KEY;
            hello.key = Some(key.into());
        }
        let is_permitted = key.is_some() == (port == KEY_PORT);
        let bytes = hello.encode(HelloTransport::Stream);
        let mut header = Message::new(format!("TCP header {}", self.name), channel, bytes);
        if is_permitted && hello.extension.is_some() {
            let has_times = hello.has_any_flag(upper::TRIP_TIMES);
            header = header.answered(Answer::Bytes(if has_times {
                Acknowledgement::LONG_LEN
            } else {
                Acknowledgement::SHORT_LEN
            }));
            if self.server_sends {
                header = header.answered(Answer::Bytes(SENT_BYTES as usize));
            }
        }
        let mut burst = digits(BurstRecord::LEN + 8);
        BurstRecord {
            started: WallTime::now(),
            written: WallTime::now(),
            period: Some(Duration::from_millis(20)),
            number: 1,
            size: burst.len() as u32,
            cumulative: burst.len() as u64,
        }
        .write(&mut burst);
        vec![
            header,
            Message::new("burst", channel, burst),
            Message::new("data", channel, digits(64)),
        ]
    }

    /// Returns the datagrams of a test. From a far address, a client that requests data proves its
    /// address with a nonce.
    fn datagrams(&self, is_far: bool) -> Vec<Message> {
        let channel = Channel::udp(UDP_PORT, 1);
        let channel = if is_far { channel.far() } else { channel };
        let mut hello = self.hello.clone();
        hello.flags |= flags::WIDE_NUMBERS | flags::UDP_TESTS;
        let hello = hello.encode(HelloTransport::Datagram);
        let with_header = |number| {
            let mut datagram = datagram(number, &hello);
            if is_far {
                proof::write_nonce(&mut datagram, 0, [0; 16]);
            }
            datagram
        };
        // A flow begins with the second datagram.
        let first = format!("UDP header {}", self.name);
        let mut second = Message::new(first.clone(), channel, with_header(2));
        let mut data = with_header(3);
        FrameRecord {
            period: Duration::from_millis(20),
            started: WallTime::now(),
            previous: 1,
            number: 2,
            size: 1000,
            remaining: 500,
        }
        .write(&mut data);
        let mut last = Message::new("last datagram", channel, with_header(-4));
        if is_far {
            second = second.answered(Answer::Bytes(proof::challenge([0; 16]).len()));
            let proof = Message::new("nonce", channel, data).answered(Answer::Datagram);
            return vec![Message::new(first, channel, with_header(1)), second, proof];
        } else if self.hello.has_any_flag(upper::REVERSE) {
            second = second.answered(Answer::Bytes(SENT_BYTES as usize));
        } else if !self.hello.has_any_flag(upper::NO_FIN) && !self.server_sends {
            last = last.answered(Answer::Bytes(ServerReport::LEN));
        }
        vec![
            Message::new(first, channel, with_header(1)),
            second,
            Message::new("datagram", channel, data),
            last,
        ]
    }
}

/// Returns the messages of a bounceback test of two transactions.
fn bounceback(size: u32) -> Vec<Message> {
    let message = |number, stop| {
        let mut bytes = vec![0; size as usize];
        BounceMessage {
            size,
            number,
            quick_ack: true,
            synchronised: true,
            type_of_service: Some(8),
            stop,
            sent: WallTime::now(),
            served: None,
            hold: Duration::from_micros(100),
            reply_bytes: None,
        }
        .write(&mut bytes);
        bytes
    };
    let answered =
        |name, bytes| Message::new(name, CHANNEL, bytes).answered(Answer::Bytes(size as usize));
    vec![
        answered("first bounce message", message(1, false)),
        answered("bounce message", message(2, false)),
        answered("last bounce message", message(3, true)),
    ]
}

/// Returns the datagrams of a client of iperf 2.0.5 or older.
fn narrow_datagrams(length: usize) -> Vec<Message> {
    let channel = Channel::udp(UDP_PORT, 1);
    let datagram = |number| {
        let mut datagram = vec![0; length];
        let sent = WallTime::now();
        DatagramHeader { number, sent }.write(&mut datagram, false);
        datagram
    };
    vec![
        Message::new("datagram of iperf 2.0.5", channel, datagram(0)),
        Message::new("datagram of iperf 2.0.5", channel, datagram(1)),
        Message::new("last datagram of iperf 2.0.5", channel, datagram(-2))
            .answered(Answer::Bytes(52)),
    ]
}

/// Returns a datagram with a 64-bit number and a header.
fn datagram(number: i64, hello: &[u8]) -> Vec<u8> {
    let mut datagram = digits(DATAGRAM_BYTES);
    let sent = WallTime::now();
    DatagramHeader { number, sent }.write(&mut datagram, true);
    datagram[DatagramHeader::WIDE_LEN..][..hello.len()].copy_from_slice(hello);
    datagram
}

fn digits(len: usize) -> Vec<u8> {
    let mut digits = vec![0; len];
    fill_with_digits(&mut digits);
    digits
}
