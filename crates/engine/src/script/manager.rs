//! What a dialect does in a script.

use std::rc::Rc;

use sys::call::Error;

use crate::io::Connection;
use crate::stop::Stop;

/// The dialect's part of a script: it opens the connections of the steps, and executes the steps of its own.
pub trait ConnectionManager {
    /// The connection of a transfer step that has none, or no longer; it keeps it until it is told to forget.
    fn connection(&mut self, step: usize) -> Result<Rc<Connection>, Failure>;
    /// Executes a step of its own; the bytes that it sent, and the steps that forget their connections.
    fn perform(&mut self, step: usize, stop: &Stop) -> Result<Performed, Failure>;
}

/// What a step of the manager's own came to.
#[derive(Debug, Default)]
pub struct Performed {
    /// Bytes that it sent.
    pub sent: u64,
    /// This step and all behind it forget their connections.
    pub later_forget: bool,
    /// Whatever step has one of these connections forgets it: they are closed.
    pub closed: [Option<Rc<Connection>>; 2],
    /// There is no more to do: the script ends here, as if it had been done.
    pub ends: bool,
}

/// Why an execution failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was tried, in the dialect's words or as the call's name.
    pub what: String,
    /// The error number, 0 for none.
    pub errno: i32,
}

impl Failure {
    /// A failure of a call.
    pub fn of_call(what: &str, error: Error) -> Self {
        Self {
            what: what.to_owned(),
            errno: error.raw_os_error(),
        }
    }

    /// One that no call is to blame for.
    pub fn of_sense(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            errno: 0,
        }
    }

    /// Whether the peer has closed the connection with something unread.
    pub fn is_reset(&self) -> bool {
        [Error::CONNRESET, Error::PIPE]
            .map(Error::raw_os_error)
            .contains(&self.errno)
    }

    /// Whether nobody has the port any more that datagrams were sent to.
    pub fn is_refused(&self) -> bool {
        self.errno == Error::CONNREFUSED.raw_os_error()
    }

    pub(super) fn is_interruption(&self) -> bool {
        self.errno == Error::INTR.raw_os_error()
    }
}
