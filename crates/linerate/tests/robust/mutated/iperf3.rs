//! Conversations with iperf3 servers: one without and one with logins.

use std::time::SystemTime;

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use iperf3::wire::{
    ControlState, Cookie, Direction, GREETING, Parameters, Protocol, Results, StreamResult,
    add_length_prefix, stream_number,
};
use rand::Rng;
use rand::rngs::SmallRng;
use sha2::{Digest, Sha256};

use super::conversation::{Answer, Channel, Conversation, Message, replace};
use super::servers::attack_servers;
use super::target::Target;
use crate::hosts::network::PORT;

/// Port of the server that requires logins.
const LOGIN_PORT: u16 = PORT + 1;

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../iperf3/src/login");

/// Stands for the cookie of a conversation.
const COOKIE: [u8; Cookie::LEN] = *b"cookie-of-a-mutated-conversation----\0";

/// Stands for the login token of a conversation. It is as long as a token.
const TOKEN: [u8; 344] = [b'T'; 344];

/// Bytes per block or datagram.
const BLOCK_BYTES: u32 = 128;

pub(super) fn run() {
    let directory = tempfile::tempdir().expect("a directory");
    let users = directory.path().join("users");
    let digest = Sha256::digest("{mario}rossi");
    std::fs::write(&users, format!("mario,{digest:x}\n")).expect("the directory is writable");
    let options = "--max-tests 8192 --rcv-timeout 2000";
    let login = format!(
        "--rsa-private-key-path {KEYS}/private.pem --authorized-users-path {}",
        users.display()
    );
    let client = |port, options: &str| format!("iperf3 -c SERVER -p {port} -n 100K {options}");
    let login_options = format!("--username mario --rsa-public-key-path {KEYS}/public.pem");
    let target = Target {
        conversations: conversations(),
        make_unique,
        repair: |message| {
            if message.get(4) == Some(&b'{') {
                let len = (message.len() - 4) as u32;
                message[..4].copy_from_slice(&len.to_be_bytes());
            }
        },
        ..Target::default()
    };
    attack_servers(
        &target,
        &[
            format!("iperf3 -s -p PORT {options}"),
            format!("iperf3 -s -p PORT {options} {login}"),
        ],
        &[
            client(PORT, ""),
            client(PORT, "-u -b 100M"),
            client(LOGIN_PORT, &login_options),
        ],
    );
}

/// Gives the messages a cookie and a login token of their own.
fn make_unique(random: &mut SmallRng, messages: &mut [Message]) {
    let cookie: [u8; Cookie::LEN] = std::array::from_fn(|_| random.random_range(b'a'..=b'z'));
    for message in messages {
        replace(&mut message.bytes, &COOKIE, &cookie);
        if message.channel.port == LOGIN_PORT && message.bytes.len() > TOKEN.len() {
            replace(&mut message.bytes, &TOKEN, token().as_bytes());
        }
    }
}

/// Returns a login token. Each is valid once.
fn token() -> String {
    let pem = std::fs::read_to_string(format!("{KEYS}/public.pem")).expect("the file exists");
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let key = BASE64_STANDARD.decode(base64).expect("a PEM file");
    let key = PublicEncryptingKey::from_der(&key).expect("a public key");
    let mut cipher = vec![0; key.key_size_bytes()];
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
    let text = format!("user: mario\npwd:  rossi\nts:   {}", now.as_secs());
    let key = OaepPublicEncryptingKey::new(key).expect("a key for OAEP");
    let encrypted = key.encrypt(&OAEP_SHA1_MGF1SHA1, text.as_bytes(), &mut cipher, None);
    BASE64_STANDARD.encode(encrypted.expect("a short text"))
}

/// Returns conversations with each protocol and direction, and with each way to end a test.
///
/// Tests without the cookie in the greetings of their UDP streams run one after the other, so few
/// conversations have them.
fn conversations() -> Vec<Conversation> {
    let mut conversations = Vec::new();
    let mut add = |count, name, parameters: &Parameters, end, port| {
        let conversation = conversation(name, parameters, end, port);
        conversations.extend(std::iter::repeat_n(conversation, count));
    };
    let base = Parameters {
        time: 10,
        block_bytes: Some(BLOCK_BYTES),
        rate: 100_000,
        client_version: Some("3.21".to_owned()),
        ..Parameters::default()
    };
    let udp = Parameters {
        protocol: Protocol::Udp,
        udp_cookie: true,
        ..base.clone()
    };
    let end = ControlState::TestEnd;
    for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
        for parallel in [1, 3] {
            let with = |parameters: &Parameters| Parameters {
                direction,
                parallel,
                ..parameters.clone()
            };
            add(10, "tcp", &with(&base), end, PORT);
            add(10, "udp", &with(&udp), end, PORT);
            add(2, "tcp", &with(&base), ControlState::ClientTerminate, PORT);
        }
    }
    let without_cookie = Parameters {
        udp_cookie: false,
        ..udp.clone()
    };
    add(2, "udp without cookie", &without_cookie, end, PORT);
    let with_token = Parameters {
        token: Some(TOKEN.escape_ascii().to_string()),
        ..base.clone()
    };
    add(8, "login", &with_token, end, LOGIN_PORT);
    let limited = Parameters {
        time: 0,
        bytes: BLOCK_BYTES.into(),
        ..base.clone()
    };
    add(10, "tcp", &limited, end, PORT);
    let blocks = Parameters {
        time: 0,
        blocks: 1,
        udp_counters_64bit: true,
        ..udp
    };
    add(10, "udp", &blocks, end, PORT);
    let all = Parameters {
        omit: 1,
        server_affinity: Some(0),
        max_segment: Some(1000),
        no_delay: true,
        multipath: true,
        window: Some(65_536),
        fq_rate: Some(1_000_000),
        burst: Some(2),
        type_of_service: Some(8),
        title: Some("title".to_owned()),
        extra_data: Some("extra".to_owned()),
        congestion: Some("reno".to_owned()),
        server_output: true,
        repeating_payload: true,
        zero_copy: true,
        do_not_fragment: true,
        skip_copy: true,
        offload: true,
        ..base.clone()
    };
    add(10, "tcp", &all, end, PORT);
    let sctp = Parameters {
        protocol: Protocol::Sctp,
        ..base
    };
    add(2, "sctp", &sctp, end, PORT);
    conversations
}

fn conversation(
    name: &'static str,
    parameters: &Parameters,
    end: ControlState,
    port: u16,
) -> Conversation {
    let is_udp = parameters.protocol == Protocol::Udp;
    let control = if port == LOGIN_PORT {
        Channel::tcp(port, 0).far()
    } else {
        Channel::tcp(port, 0)
    };
    let (forward, backward) = parameters.stream_counts();
    let count = (forward + backward) as u8;
    let states = if parameters.udp_cookie { 2 } else { 1 };
    let mut messages = vec![
        Message::new("cookie", control, COOKIE).answered(Answer::Bytes(1)),
        Message::new(
            format!("parameters, {name}"),
            control,
            add_length_prefix(&parameters.encode()),
        )
        .answered(Answer::Bytes(states)),
    ];
    if parameters.protocol == Protocol::Sctp {
        // This host may lack the protocol.
        messages[1].answers.clear();
        return Conversation {
            protocol: name,
            messages,
        };
    }
    let stream = |number| {
        if is_udp {
            Channel::udp(port, number)
        } else {
            Channel { number, ..control }
        }
    };
    for number in 1..=count {
        let mut message = match (is_udp, parameters.udp_cookie) {
            (false, _) => Message::new("cookie of a stream", stream(number), COOKIE),
            (true, true) => {
                let greeting = [&GREETING[..], &COOKIE].concat();
                Message::new("greeting with cookie", stream(number), greeting)
            }
            (true, false) => Message::new("greeting", stream(number), GREETING),
        };
        if is_udp {
            message = message.answered(Answer::Bytes(4));
        }
        if number == count {
            message = message.answered_on(control, Answer::Bytes(2));
        }
        messages.push(message);
    }
    if forward > 0 {
        let (kind, block) = if is_udp {
            ("datagram", datagram(parameters.udp_counters_64bit))
        } else {
            ("block", vec![b'0'; BLOCK_BYTES as usize])
        };
        messages.push(Message::new(kind, stream(1), block));
    }
    let end_message = Message::new(format!("{end:?}"), control, [end.byte()]);
    if end == ControlState::ClientTerminate {
        messages.push(end_message);
    } else {
        let start = ControlState::TestStart;
        messages.extend([
            Message::new(format!("{start:?}"), control, [start.byte()]),
            end_message.answered(Answer::Bytes(1)),
            Message::new(
                "results",
                control,
                add_length_prefix(&results(forward, backward)),
            )
            .answered(Answer::Counted)
            .answered(Answer::Bytes(1)),
            Message::new("IperfDone", control, [ControlState::IperfDone.byte()]),
        ]);
    }
    Conversation {
        protocol: name,
        messages,
    }
}

fn datagram(has_wide_number: bool) -> Vec<u8> {
    let mut datagram = vec![0; BLOCK_BYTES as usize];
    datagram[if has_wide_number { 15 } else { 11 }] = 1;
    datagram
}

/// Returns the results of a client that sent one block, and received none.
fn results(forward: u32, backward: u32) -> String {
    let stream = |index: u32| StreamResult {
        number: stream_number(index as usize),
        bytes: if index == 0 && forward > 0 {
            BLOCK_BYTES.into()
        } else {
            0
        },
        packets: u64::from(index == 0 && forward > 0),
        omitted_errors: Some(0),
        omitted_packets: Some(0),
        end_time: Some(0.1),
        ..StreamResult::default()
    };
    Results {
        cpu: [1.0, 0.5, 0.5],
        sender_has_retransmits: (forward > 0).then_some(true),
        congestion: Some("cubic".to_owned()),
        streams: (0..forward + backward).map(stream).collect(),
        ..Results::default()
    }
    .encode()
}
