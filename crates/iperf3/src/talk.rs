//! Whole messages on the control connection, each with a deadline.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::{ControlConnection, is_late};
use engine::Stop;

use crate::options::Common;
use crate::result::TestRun;
use crate::streams::IntervalEnd;
use crate::wire::error::{self, Fault};
use crate::wire::{Results, ServerOutput, State, framed};

/// How long a message may take that follows from the one before.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The longest results, which may hold a server's whole output.
const LONGEST_RESULTS: usize = 16 << 20;

/// A control connection as both ends use it.
#[derive(Debug)]
pub(crate) struct Talk<'a> {
    pub(crate) control: &'a ControlConnection,
    /// Ends every wait.
    pub(crate) stop: &'a Stop,
}

/// Has a silent connection probed as `--cntl-ka` says.
pub(crate) fn keep_alive(control: &ControlConnection, common: &Common) {
    if let Some(times) = common.keep_alive {
        // A connection without it has the deadlines.
        let _ = sys::option::set_keep_alive(control.as_fd(), times);
    }
}

impl Talk<'_> {
    /// Sends a state.
    pub(crate) fn say(&self, state: State) -> Result<(), Fault> {
        self.write(&[state.byte()])
    }

    /// Sends bytes.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Fault> {
        let written = self.control.write(bytes, PATIENCE);
        written.map_err(|error| Fault::io(error::CONTROL_WRITE, &error))
    }

    /// Sends a JSON text.
    pub(crate) fn send(&self, json: &str) -> Result<(), Fault> {
        self.write(&framed(json))
    }

    /// Receives the next byte; `None` if the peer has closed the connection.
    pub(crate) fn byte(&self, until: Instant) -> Result<Option<u8>, Fault> {
        let mut byte = [0];
        match self.control.receive(&mut byte, until, self.stop) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(Fault::io(error::CONTROL_READ, &error)),
        }
    }

    /// Receives exactly these bytes.
    pub(crate) fn fill(&self, buffer: &mut [u8], until: Instant, code: i32) -> Result<(), Fault> {
        match self.control.receive(buffer, until, self.stop) {
            Ok(count) if count == buffer.len() => Ok(()),
            Ok(_) => Err(Fault::of(error::CONTROL_CLOSED)),
            Err(error) if is_late(&error) => Err(Fault::because(code, "no answer in time")),
            Err(error) => Err(Fault::io(code, &error)),
        }
    }

    /// Receives a JSON text of at most so many bytes. Instead of its length a server may report an error.
    pub(crate) fn json(&self, most: usize, code: i32) -> Result<Vec<u8>, Fault> {
        let until = Instant::now() + PATIENCE;
        let mut length = [0; 4];
        self.fill(&mut length, until, code)?;
        if length[0] == State::ServerError.byte() {
            let mut rest = [0; 5];
            let _ = self.fill(&mut rest, until, code);
            let mut numbers = [0; 8];
            numbers[..3].copy_from_slice(&length[1..]);
            numbers[3..].copy_from_slice(&rest);
            return Err(Fault::of_server(&numbers));
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > most {
            let why = format!("{length} bytes are more than {most}");
            return Err(Fault::because(code, why));
        }
        let mut text = Vec::new();
        // As it comes: a length that is claimed is no reason to take memory.
        while text.len() < length {
            let begun = text.len();
            text.resize(length.min(begun + (64 << 10)), 0);
            self.fill(&mut text[begun..], until, code)?;
        }
        Ok(text)
    }

    /// Receives the other end's results.
    pub(crate) fn results(&self, events: &mut dyn Events) -> Result<Results, Fault> {
        let text = self.json(LONGEST_RESULTS, error::RECEIVE_RESULTS)?;
        events.debug("get_results", Some(&String::from_utf8_lossy(&text)));
        Results::decode(&text)
    }

    /// Sends this end's results.
    pub(crate) fn send_results(
        &self,
        mut results: Results,
        events: &mut dyn Events,
    ) -> Result<(), Fault> {
        let mut text = results.encode();
        if text.len() > LONGEST_RESULTS {
            // The other end would refuse them.
            results.output = None;
            text = results.encode();
        }
        events.debug("send_results", Some(&text));
        self.send(&text)
    }

    /// Receives the error behind SERVER_ERROR, of which a 3.12 server may send only a part.
    pub(crate) fn server_error(&self) -> Fault {
        let mut numbers = [0; 8];
        let until = Instant::now() + Duration::from_secs(1);
        let count = self
            .control
            .receive(&mut numbers, until, self.stop)
            .unwrap_or(8);
        Fault::of_server(&numbers[..count])
    }
}

/// Events of a test, for what prints them.
pub(crate) trait Events {
    /// A message of the control connection, or what a socket was given, for those who look for a fault.
    fn debug(&mut self, what: &str, json: Option<&str>);
    /// The control connection stands.
    fn connected(&mut self, run: &TestRun);
    /// The streams are open, and data flows.
    fn started(&mut self, run: &TestRun);
    /// An interval has ended.
    fn interval(&mut self, run: &TestRun, end: IntervalEnd<'_>);
    /// Everything that was measured is known here, but not the other end's results; what is printed from here on is the end.
    /// Returns what a server hands to a client that wants its output.
    fn output(&mut self, _run: &TestRun) -> Option<ServerOutput> {
        None
    }
}
