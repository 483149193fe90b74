//! Bytes on iperf3's control connection ↔ messages.

pub mod error;
#[cfg(test)]
mod fixtures;
pub mod parameters;
mod results;

use rand::TryRngCore;
use rand::rngs::OsRng;

pub use error::Fault;
pub use parameters::{Direction, Parameters, Protocol};
pub use results::{Results, ServerOutput, StreamResult};

/// What a state byte means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum State {
    /// The server: create timers.
    TestStart = 1,
    /// The server: data may flow.
    TestRunning = 2,
    /// The client: the test's end condition holds.
    TestEnd = 4,
    /// The server: send the parameters.
    ParamExchange = 9,
    /// The server: open the data streams.
    CreateStreams = 10,
    /// The server got a signal.
    ServerTerminate = 11,
    /// The client got a signal.
    ClientTerminate = 12,
    /// The server: send the results.
    ExchangeResults = 13,
    /// The server: print.
    DisplayResults = 14,
    /// The client has finished.
    IperfDone = 16,
    /// The server is busy, or a data connection has the wrong cookie.
    AccessDenied = -1,
    /// The server failed; two numbers follow.
    ServerError = -2,
}

impl State {
    const ALL: [Self; 12] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::IperfDone,
        Self::AccessDenied,
        Self::ServerError,
    ];

    /// Returns the state of a byte.
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.byte() == byte)
    }

    /// Returns its byte.
    pub fn byte(self) -> u8 {
        self as i8 as u8
    }
}

/// What a test's connections begin with: printable characters and a NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie(pub [u8; Cookie::LEN]);

impl Cookie {
    /// Bytes of a cookie.
    pub const LEN: usize = 37;

    /// A new one.
    pub fn random() -> Self {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut bytes = [0; Self::LEN];
        OsRng
            .try_fill_bytes(&mut bytes)
            .expect("the system has random numbers");
        for byte in &mut bytes {
            *byte = ALPHABET[usize::from(*byte) % ALPHABET.len()];
        }
        bytes[Self::LEN - 1] = 0;
        Self(bytes)
    }

    /// Returns its characters.
    pub fn text(&self) -> String {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Puts the length of a JSON text before it.
pub fn framed(json: &str) -> Vec<u8> {
    let mut message = (json.len() as u32).to_be_bytes().to_vec();
    message.extend_from_slice(json.as_bytes());
    message
}

/// The first datagram of a UDP stream, from the client.
pub const HELLO: [u8; 4] = *b"9876";

/// The server's answer.
const REPLY: [u8; 4] = *b"6789";

/// Greetings of versions that write integers, 123456789 and 987654321, or texts, in the order of their host.
const OTHER_GREETINGS: [([u8; 4], [u8; 4]); 3] = [
    (*b"6789", *b"9876"),
    ([0x15, 0xcd, 0x5b, 0x07], [0xb1, 0x68, 0xde, 0x3a]),
    ([0x07, 0x5b, 0xcd, 0x15], [0x3a, 0xde, 0x68, 0xb1]),
];

/// Whether a datagram opens a stream.
pub fn is_greeting(datagram: &[u8]) -> bool {
    datagram == HELLO || OTHER_GREETINGS.iter().any(|(other, _)| other == datagram)
}

/// Returns the answer that the sender of this first datagram expects.
pub fn reply_to(hello: &[u8]) -> [u8; 4] {
    let known = OTHER_GREETINGS.iter().find(|(other, _)| other == hello);
    known.map_or(REPLY, |(_, reply)| *reply)
}

/// Whether a datagram answers [`HELLO`].
pub fn is_reply(datagram: &[u8]) -> bool {
    datagram == REPLY || OTHER_GREETINGS.iter().any(|(_, reply)| reply == datagram)
}

/// Returns the number of the stream that is opened as the `at`th, from 0: 1, 3, 4, 5, …
pub fn stream_number(at: usize) -> u32 {
    at as u32 + if at == 0 { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_their_bytes() {
        for state in State::ALL {
            assert_eq!(State::of(state.byte()), Some(state));
        }
        assert_eq!(State::of(0xff), Some(State::AccessDenied));
        assert_eq!(State::of(0xfe), Some(State::ServerError));
        for byte in [0, 3, 5, 15, 17, 0x80] {
            assert_eq!(State::of(byte), None);
        }
    }

    #[test]
    fn cookies_are_texts() {
        let cookie = Cookie::random();
        assert_eq!(cookie.text().len(), Cookie::LEN - 1);
        assert_ne!(cookie, Cookie::random());
    }

    #[test]
    fn greetings_of_all_versions_are_known() {
        for (hello, reply) in [
            (*b"9876", *b"6789"),
            (*b"6789", *b"9876"),
            (*b"\x15\xcd\x5b\x07", *b"\xb1\x68\xde\x3a"),
            (*b"none", *b"6789"),
        ] {
            assert_eq!(reply_to(&hello), reply);
            assert!(is_reply(&reply));
        }
        assert!(!is_reply(b"678"));
    }

    #[test]
    fn the_number_2_is_left_out() {
        let numbers: Vec<_> = (0..4).map(stream_number).collect();
        assert_eq!(numbers, [1, 3, 4, 5]);
    }
}
