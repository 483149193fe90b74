//! Converts between bytes on iperf3's control connection and messages.

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

/// The states of a test. Each is a message of one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ControlState {
    /// From the server: create timers.
    TestStart = 1,
    /// From the server: data may flow.
    TestRunning = 2,
    /// From the client: the test's end condition is met.
    TestEnd = 4,
    /// From a linerate server, before CREATE_STREAMS: append the cookie to the greeting of each UDP
    /// stream. The server sends it only to a client that offers this. Stock reserves the number.
    StreamBegin = 5,
    /// From the server: send the parameters.
    ParamExchange = 9,
    /// From the server: open the data streams.
    CreateStreams = 10,
    /// From the server: a signal ended it.
    ServerTerminate = 11,
    /// From the client: a signal ended it.
    ClientTerminate = 12,
    /// From the server: send the results.
    ExchangeResults = 13,
    /// From the server: print the results.
    DisplayResults = 14,
    /// From the client: the test is complete.
    IperfDone = 16,
    /// From the server: it is busy, or a data connection has the wrong cookie.
    AccessDenied = -1,
    /// From the server: it failed; two numbers follow.
    ServerError = -2,
}

impl ControlState {
    const ALL: [Self; 13] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::StreamBegin,
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
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.byte() == byte)
    }

    /// Returns the byte of the state.
    pub fn byte(self) -> u8 {
        self as i8 as u8
    }
}

/// The first bytes of each connection of a test: printable characters and a NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie(pub [u8; Cookie::LEN]);

impl Cookie {
    /// The length of a cookie, in bytes.
    pub const LEN: usize = 37;

    /// Creates a random cookie.
    pub fn random() -> Self {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut bytes = [0; Self::LEN];
        OsRng
            .try_fill_bytes(&mut bytes)
            .expect("the system provides random numbers");
        for byte in &mut bytes {
            *byte = ALPHABET[usize::from(*byte) % ALPHABET.len()];
        }
        bytes[Self::LEN - 1] = 0;
        Self(bytes)
    }

    /// Returns the characters before the NUL.
    pub fn text(&self) -> String {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Prefixes a JSON text with its length: 4 bytes, big-endian.
pub fn add_length_prefix(json: &str) -> Vec<u8> {
    let mut message = (json.len() as u32).to_be_bytes().to_vec();
    message.extend_from_slice(json.as_bytes());
    message
}

/// The first datagram of a UDP stream, from the client. Between two linerates, the cookie follows.
pub const GREETING: [u8; 4] = *b"9876";

/// The server's reply to [`GREETING`].
const REPLY: [u8; 4] = *b"6789";

/// Greetings and replies of other versions and byte orders.
///
/// These versions send texts, or the integers 123456789 and 987654321 in host byte order.
const OTHER_GREETINGS: [([u8; 4], [u8; 4]); 3] = [
    (*b"6789", *b"9876"),
    ([0x15, 0xcd, 0x5b, 0x07], [0xb1, 0x68, 0xde, 0x3a]),
    ([0x07, 0x5b, 0xcd, 0x15], [0x3a, 0xde, 0x68, 0xb1]),
];

/// Returns whether a datagram opens a stream.
pub fn is_greeting(datagram: &[u8]) -> bool {
    let is_known = datagram.starts_with(&GREETING)
        || OTHER_GREETINGS
            .iter()
            .any(|(greeting, _)| datagram.starts_with(greeting));
    is_known && [0, Cookie::LEN].contains(&greeting_cookie(datagram).len())
}

/// Returns the cookie in a greeting; empty if it has none.
pub fn greeting_cookie(greeting: &[u8]) -> &[u8] {
    greeting.get(GREETING.len()..).unwrap_or_default()
}

/// Returns the reply that the sender of this greeting expects.
pub fn reply_to(greeting: &[u8]) -> [u8; 4] {
    let pair = OTHER_GREETINGS
        .iter()
        .find(|(known_greeting, _)| greeting.starts_with(known_greeting));
    pair.map_or(REPLY, |(_, reply)| *reply)
}

/// Returns whether a datagram is a reply to a greeting.
pub fn is_reply(datagram: &[u8]) -> bool {
    datagram == REPLY || OTHER_GREETINGS.iter().any(|(_, reply)| reply == datagram)
}

/// Returns the number of the stream at `index` in the order of opening: 1, 3, 4, 5, …
pub fn stream_number(index: usize) -> u32 {
    index as u32 + if index == 0 { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_bytes_are_converted() {
        for state in ControlState::ALL {
            assert_eq!(ControlState::from_byte(state.byte()), Some(state));
        }
        assert_eq!(
            ControlState::from_byte(0xff),
            Some(ControlState::AccessDenied)
        );
        assert_eq!(
            ControlState::from_byte(0xfe),
            Some(ControlState::ServerError)
        );
        for byte in [0, 3, 6, 15, 17, 0x80] {
            assert_eq!(ControlState::from_byte(byte), None);
        }
    }

    #[test]
    fn cookies_are_random_texts_of_36_characters() {
        let cookie = Cookie::random();
        assert_eq!(cookie.text().len(), Cookie::LEN - 1);
        assert_ne!(cookie, Cookie::random());
    }

    #[test]
    fn greetings_of_all_versions_are_known() {
        for (greeting, reply) in [
            (*b"9876", *b"6789"),
            (*b"6789", *b"9876"),
            (*b"\x15\xcd\x5b\x07", *b"\xb1\x68\xde\x3a"),
            (*b"none", *b"6789"),
        ] {
            assert_eq!(reply_to(&greeting), reply);
            assert!(is_reply(&reply));
            assert_eq!(is_greeting(&greeting), greeting != *b"none");
            assert_eq!(greeting_cookie(&greeting), b"");
            let cookie = Cookie::random().0;
            let mut with_cookie = [&greeting[..], &cookie].concat();
            assert_eq!(reply_to(&with_cookie), reply);
            assert_eq!(is_greeting(&with_cookie), greeting != *b"none");
            assert_eq!(greeting_cookie(&with_cookie), cookie);
            with_cookie.pop();
            assert!(!is_greeting(&with_cookie) && !is_greeting(&greeting[..3]));
        }
        assert!(!is_reply(b"678"));
    }

    #[test]
    fn stream_numbers_skip_2() {
        let numbers: Vec<_> = (0..4).map(stream_number).collect();
        assert_eq!(numbers, [1, 3, 4, 5]);
    }
}
