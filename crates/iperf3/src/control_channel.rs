//! Complete messages on the control connection, each with a deadline.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::{ControlConnection, is_timeout};
use engine::Stop;

use crate::options::CommonSettings;
use crate::result::TestRun;
use crate::streams::IntervalEnd;
use crate::wire::error::{self, Fault};
use crate::wire::{ControlState, Results, ServerOutput, add_length_prefix};

/// The timeout of an expected message, such as the answer to a request.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum length of results, which may contain a server's complete output.
pub(crate) const MAX_RESULTS_BYTES: usize = 16 << 20;

/// The timeout of the numbers that follow SERVER_ERROR.
const SERVER_ERROR_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends and receives iperf3's messages on a control connection.
#[derive(Debug)]
pub(crate) struct ControlChannel<'a> {
    pub(crate) control: &'a ControlConnection,
    /// Interrupts every wait.
    pub(crate) stop: &'a Stop,
}

/// Enables keep-alive probes on a connection as `--cntl-ka` requests.
pub(crate) fn enable_keep_alive(control: &ControlConnection, common: &CommonSettings) {
    if let Some(times) = common.keep_alive {
        // Without probes, the deadlines still detect a dead peer.
        let _ = sys::option::set_keep_alive(control.as_fd(), times);
    }
}

impl ControlChannel<'_> {
    /// Sends a state byte.
    pub(crate) fn send_state(&self, state: ControlState) -> Result<(), Fault> {
        self.send_bytes(&[state.byte()])
    }

    /// Sends bytes.
    pub(crate) fn send_bytes(&self, bytes: &[u8]) -> Result<(), Fault> {
        let written = self.control.write(bytes, MESSAGE_TIMEOUT);
        written.map_err(|error| Fault::io(error::CONTROL_WRITE, &error))
    }

    /// Sends a JSON text with its length.
    pub(crate) fn send_json(&self, json: &str) -> Result<(), Fault> {
        self.send_bytes(&add_length_prefix(json))
    }

    /// Receives the next byte; `None` if the peer has closed the connection.
    pub(crate) fn receive_byte(&self, until: Instant) -> Result<Option<u8>, Fault> {
        let mut byte = [0];
        match self.control.receive(&mut byte, until, self.stop) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(Fault::io(error::CONTROL_READ, &error)),
        }
    }

    /// Fills `buffer`; an error has the number `code`.
    pub(crate) fn receive_exact(
        &self,
        buffer: &mut [u8],
        until: Instant,
        code: i32,
    ) -> Result<(), Fault> {
        match self.control.receive(buffer, until, self.stop) {
            Ok(count) if count == buffer.len() => Ok(()),
            Ok(_) => Err(Fault::from_code(error::CONTROL_CLOSED)),
            Err(error) if is_timeout(&error) => {
                Err(Fault::with_reason(code, "no answer before the deadline"))
            }
            Err(error) => Err(Fault::io(code, &error)),
        }
    }

    /// Receives a JSON text of at most `max_bytes`.
    ///
    /// A server may send SERVER_ERROR instead of the length. Then the result is that error.
    pub(crate) fn receive_json(
        &self,
        max_bytes: usize,
        until: Instant,
        code: i32,
    ) -> Result<Vec<u8>, Fault> {
        let mut length = [0; 4];
        self.receive_exact(&mut length, until, code)?;
        if length[0] == ControlState::ServerError.byte() {
            return Err(self.receive_server_error(&length[1..]));
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > max_bytes {
            let reason = format!("{length} bytes exceed the limit of {max_bytes}");
            return Err(Fault::with_reason(code, reason));
        }
        let mut text = Vec::new();
        // Allocate as data arrives: the announced length may be false.
        while text.len() < length {
            let received = text.len();
            text.resize(length.min(received + (64 << 10)), 0);
            self.receive_exact(&mut text[received..], until, code)?;
        }
        Ok(text)
    }

    /// Receives the other end's results of at most `max_bytes`.
    pub(crate) fn receive_results(
        &self,
        max_bytes: usize,
        events: &mut dyn TestEvents,
    ) -> Result<Results, Fault> {
        let until = Instant::now() + MESSAGE_TIMEOUT;
        let text = self.receive_json(max_bytes, until, error::RECEIVE_RESULTS)?;
        events.debug("get_results", Some(&String::from_utf8_lossy(&text)));
        Results::decode(&text)
    }

    /// Sends this end's results.
    pub(crate) fn send_results(
        &self,
        mut results: Results,
        events: &mut dyn TestEvents,
    ) -> Result<(), Fault> {
        let mut text = results.encode();
        if text.len() > MAX_RESULTS_BYTES {
            // The other end would refuse longer results.
            results.output = None;
            text = results.encode();
        }
        events.debug("send_results", Some(&text));
        self.send_json(&text)
    }

    /// Receives the two numbers after SERVER_ERROR, of which `received` is the beginning.
    ///
    /// A 3.12 server may send only a part of them.
    pub(crate) fn receive_server_error(&self, received: &[u8]) -> Fault {
        let mut numbers = [0; 8];
        numbers[..received.len()].copy_from_slice(received);
        let until = Instant::now() + SERVER_ERROR_TIMEOUT;
        let mut count = received.len();
        for end in [4, 8] {
            match self
                .control
                .receive(&mut numbers[count..end], until, self.stop)
            {
                Ok(received) if count + received == end => count = end,
                _ => break,
            }
        }
        Fault::from_server(&numbers[..count])
    }
}

/// Receives the events of a test, in order to print them.
pub(crate) trait TestEvents {
    /// Debugging output: a control message, or the settings of a socket.
    fn debug(&mut self, message: &str, json: Option<&str>);
    /// The control connection is open, and the parameters are known.
    fn connected(&mut self, run: &TestRun);
    /// The streams are open, and data flows.
    fn started(&mut self, run: &TestRun);
    /// An interval has ended.
    fn interval(&mut self, run: &TestRun, end: IntervalEnd<'_>);
    /// The data has ended, and this end's results are complete.
    ///
    /// The other end's results are still missing. Returns the output that a server sends to a
    /// client that requests it.
    fn finished(&mut self, _run: &TestRun) -> Option<ServerOutput> {
        None
    }
}
