//! The dialect's part of a script.

use std::rc::Rc;

use crate::end::StepFailure;
use crate::io::Connection;
use crate::stop::Stop;

/// Opens the connections of a script and executes the steps of the dialect.
pub trait ConnectionManager {
    /// Returns the connection for a transfer step that has none. The step keeps the connection
    /// until a `OwnStepResult` clears it.
    fn connection(&mut self, step: usize) -> Result<Rc<Connection>, StepFailure>;
    /// Executes a step of the dialect. Returns the sent bytes and the connections to clear.
    fn perform(&mut self, step: usize, stop: &Stop) -> Result<DialectStepResult, StepFailure>;
}

/// The result of [`ConnectionManager::perform`].
#[derive(Debug, Default)]
pub struct DialectStepResult {
    /// Sent bytes.
    pub sent: u64,
    /// Whether this step and all later ones look up their connections again.
    pub rebinds_this_and_later_steps: bool,
    /// Closed connections; they are cleared in all steps that use them.
    pub closed_connections: [Option<Rc<Connection>>; 2],
    /// Whether the script ends here as if it had completed.
    pub is_script_done: bool,
}
