//! iperf3's errors: their numbers, which SERVER_ERROR transmits, and their texts.

use std::fmt;

use super::ControlState;
use crate::Version;

/// An iperf3 error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// iperf3's error number.
    pub code: i32,
    /// The system's errno; 0 for none.
    pub errno: i32,
    /// A reason that replaces the text of `errno`, for example from getaddrinfo(3).
    pub reason: Option<String>,
    /// Whether the server reported it.
    pub is_of_server: bool,
}

impl Fault {
    /// Creates an error without a failed system call.
    pub const fn from_code(code: i32) -> Self {
        Self {
            code,
            errno: 0,
            reason: None,
            is_of_server: false,
        }
    }

    /// Creates an error with the errno or the text of an I/O error.
    pub fn io(code: i32, error: &std::io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(0);
        let reason = (errno == 0).then(|| control::describe_error(error));
        Self {
            errno,
            reason,
            ..Self::from_code(code)
        }
    }

    /// Returns this error, or the one with the number `code` if a stop of this end interrupted a
    /// wait.
    pub(crate) fn or_terminated(self, code: i32) -> Self {
        if self.errno == sys::call::Error::CANCELED.raw_os_error() {
            return Self::from_code(code);
        }
        self
    }

    /// Creates an error with linerate's reason.
    pub fn with_reason(code: i32, reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::from_code(code)
        }
    }

    /// Returns the message SERVER_ERROR.
    pub fn message(&self) -> Vec<u8> {
        let mut message = vec![ControlState::ServerError.byte()];
        message.extend(self.bytes());
        message
    }

    /// Returns the two numbers that follow SERVER_ERROR.
    pub fn bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.code.to_be_bytes());
        bytes[4..].copy_from_slice(&self.errno.to_be_bytes());
        bytes
    }

    /// Parses the numbers of SERVER_ERROR. A 3.12 server omits the errno of some errors.
    pub fn from_server(bytes: &[u8]) -> Self {
        let word = |at| {
            let word: Option<[u8; 4]> = bytes.get(at..at + 4)?.try_into().ok();
            word.map(i32::from_be_bytes)
        };
        let Some(code) = word(0).filter(|code| *code != 0) else {
            let reason = "the server reported an error without its number";
            return Self::with_reason(CONTROL_READ, reason);
        };
        Self {
            errno: word(4).unwrap_or(0),
            is_of_server: true,
            ..Self::from_code(code)
        }
    }
}

/// Defines each error: name, number, text, and whether the text of errno follows.
macro_rules! errors {
    ($($name:ident = $code:literal $text:literal $shows_errno:literal)*) => {
        $(#[doc = $text] pub const $name: i32 = $code;)*
        const TEXTS: &[(i32, &str, bool)] = &[$(($code, $text, $shows_errno)),*];
    };
}
errors! {
    DURATION = 5 "test duration valid values are 0 to 86400 seconds" false
    STREAMS = 6 "invalid number of parallel streams (min = 1, max = 128)" false
    BLOCK_SIZE = 7 "block size too large (maximum = 1048576 bytes)" false
    BUFFER_SIZE = 8 "socket buffer size too large (maximum = 536870912 bytes)" false
    MSS = 10 "TCP MSS too large (maximum = 32767 bytes)" false
    OMIT = 12 "bogus value for --omit (maximum = 600 seconds)" false
    FILE = 14 "unable to open -F file" true
    BURST = 15 "invalid burst count (maximum = 1000)" false
    UDP_BLOCK_SIZE = 20 "block size invalid (minimum = 16 bytes, maximum = 65507 bytes)" false
    BAD_TOS = 21 "bad TOS value (must be between 0 and 255 inclusive)" false
    TOTAL_RATE = 27 "total required bandwidth is larger than server limit" false
    AFFINITY = 36 "unable to set CPU affinity" true
    SERVER_DURATION = 37 "client's requested duration exceeds the server's maximum permitted limit" false
    LISTEN = 102 "unable to start listener for connections" true
    CONNECT = 103
        "unable to connect to server - server may have stopped running or use a different port, firewall issue, etc." true
    ACCEPT = 104 "unable to accept connection from client" true
    SEND_COOKIE = 105 "unable to send cookie to server" true
    COOKIE = 106 "unable to receive cookie at server" true
    CONTROL_READ = 107 "unable to read from the control socket" true
    CONTROL_WRITE = 108 "unable to write to the control socket" true
    CONTROL_CLOSED = 109 "control socket has closed unexpectedly" false
    UNKNOWN_MESSAGE = 110 "received an unknown control message (ensure other side is iperf3 and not iperf)" false
    SEND_MESSAGE = 111
        "unable to send control message - port may not be available, the other side may have stopped running, etc." true
    RECEIVE_MESSAGE = 112
        "unable to receive control message - port may not be available, the other side may have stopped running, etc." true
    SEND_PARAMETERS = 113 "unable to send parameters to server" true
    RECEIVE_PARAMETERS = 114 "unable to receive parameters from client" true
    SEND_RESULTS = 116 "unable to send results" true
    RECEIVE_RESULTS = 117 "unable to receive results" true
    SELECT = 118 "select failed" true
    CLIENT_TERMINATED = 119 "the client has terminated" false
    SERVER_TERMINATED = 120 "the server has terminated" false
    BUSY = 121 "the server is busy running a test. try again later" false
    NO_DELAY = 122 "unable to set TCP/SCTP NODELAY" true
    SEGMENT = 123 "unable to set TCP/SCTP MSS" true
    BUFFER = 124 "unable to set socket buffer size" true
    TOS = 125 "unable to set IP TOS" true
    FLOW_LABEL = 127 "unable to set IPv6 flow label" true
    PROTOCOL = 131 "protocol does not exist" false
    CONGESTION = 134
        "unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported on this host" false
    SCTP_STREAMS = 138 "unable to set SCTP_INIT num of SCTP streams" true
    SCTP_BINDX = 139 "unable to bind to the addresses of -X" true
    PACING = 140 "unable to set socket pacing" true
    BUFFER_READ_BACK = 141 "socket buffer size not set correctly" false
    AUTHORIZATION = 142 "test authorization failed" false
    DEVICE = 143 "unable to bind to device" true
    RECEIVE_TIMEOUT = 144 "idle timeout for receiving data" false
    DO_NOT_FRAGMENT = 145 "unable to set IP Do-Not-Fragment flag" true
    USER_TIMEOUT = 148 "unable to set TCP USER_TIMEOUT" true
    TEST_DURATION_EXPIRED = 160 "server test duration has expired" false
    STREAM_CREATE = 200 "unable to create a new stream" true
    STREAM_LISTEN = 202 "unable to start stream listener" true
    STREAM_CONNECT = 203 "unable to connect stream" true
    STREAM_ACCEPT = 204 "unable to accept stream connection" true
    STREAM_WRITE = 205 "unable to write to stream socket" true
    STREAM_READ = 206 "unable to read from stream socket" true
    STREAM_CLOSED = 207 "stream socket has closed unexpectedly" true
    STREAM_ID = 208 "stream ID does not exist" false
    TIMER = 300 "unable to create/update timer" true
}

impl Fault {
    /// Returns the text that a version of stock iperf3 prints.
    pub fn text(&self, version: Version) -> String {
        let Some((_, text, shows_errno)) = TEXTS.iter().find(|(code, ..)| *code == self.code)
        else {
            return format!("int_errno={}", self.code);
        };
        let text = version.text(text);
        match &self.reason {
            Some(reason) => format!("{text}: {reason}"),
            None if *shows_errno && self.errno > 0 => {
                let error = std::io::Error::from_raw_os_error(self.errno);
                format!("{text}: {}", sys::describe(&error))
            }
            None => text.to_owned(),
        }
    }

    /// As [`text`](Self::text), for the error of an end that its user's signal ended.
    pub fn interrupt_text(&self, version: Version) -> String {
        let text = self.text(version);
        let signal = sys::signal::last_signal().filter(|_| version.layout().names_signals);
        let by_signal = signal.map_or_else(String::new, |signal| {
            format!(" by signal {}({signal})", sys::signal::description(signal))
        });
        format!("interrupt - {text}{by_signal}")
    }
}

impl fmt::Display for Fault {
    /// Formats the newest version's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Version::default()))
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_encoded_and_have_texts() {
        let refused = Fault {
            errno: 111,
            is_of_server: true,
            ..Fault::from_code(CONNECT)
        };
        assert_eq!(Fault::from_server(&refused.bytes()), refused);
        assert_eq!(
            refused.text(Version::V3_12),
            "unable to connect to server: Connection refused"
        );
        assert_eq!(
            refused.to_string(),
            "unable to connect to server - server may have stopped running or use a different port, firewall issue, \
             etc.: Connection refused"
        );
        // A 3.12 server's answer to a failed login.
        let denied = Fault::from_server(&[0, 0, 0, 0x8e]);
        assert_eq!(denied.to_string(), "test authorization failed");
        for bytes in [&[][..], &[0; 3], &[0; 8]] {
            assert_eq!(
                Fault::from_server(bytes).to_string(),
                "unable to read from the control socket: the server reported an error without its number"
            );
        }
    }
}
