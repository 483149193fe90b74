//! What a dialect does in a script.

use std::rc::Rc;

use crate::end::Failure;
use crate::io::Connection;
use crate::stop::Stop;

/// The dialect's part of a script: it opens the connections of the steps, and executes the steps of its own.
pub trait ConnectionManager {
    /// The connection of a transfer step that has none, or no longer; the step keeps it until it has to forget it.
    fn connection(&mut self, step: usize) -> Result<Rc<Connection>, Failure>;
    /// Executes a step of its own; the bytes that it sent, and the steps that forget their connections.
    fn perform(&mut self, step: usize, stop: &Stop) -> Result<Performed, Failure>;
}

/// The result of a step of the manager's own.
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
