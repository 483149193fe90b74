//! What a test leaves: the client returns it, and the output room prints it.

use std::time::SystemTime;

use model::{Confidence, Outcome};
use sys::Address;

use crate::peer_report::PeerReport;

/// One finished test.
#[derive(Clone, Debug)]
pub struct TestRun {
    /// What both ends measured, as far as it is known.
    pub outcome: Outcome,
    /// What the peer reported, word by word.
    pub peer: PeerReport,
    /// The data connection.
    pub endpoints: Endpoints,
    /// The means, when the test was run several times.
    pub repeated: Option<Repeated>,
}

/// What several iterations came to.
#[derive(Clone, Copy, Debug)]
pub struct Repeated {
    /// The means, which are what is printed.
    pub means: Headline,
    /// How well they are known.
    pub confidence: Confidence,
}

/// The figures of a test that several iterations have means of.
#[derive(Clone, Copy, Debug)]
pub struct Headline {
    /// In the unit in force.
    pub throughput: f64,
    /// Seconds by this end's clock.
    pub elapsed: f64,
    /// CPU utilisation here, in percent of all CPUs' time; `None` when it was not measured.
    pub local_cpu: Option<f64>,
    /// The peer's.
    pub remote_cpu: Option<f64>,
    /// Service demand here: microseconds of CPU time a transaction or a KB.
    pub local_demand: Option<f64>,
    /// The peer's.
    pub remote_demand: Option<f64>,
}

/// Names and addresses for the banner and the selectors SOURCE_* and DEST_*.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The resolver's canonical name of the local data address ("0.0.0.0" for the wildcard).
    pub source_name: String,
    /// The local data address and requested port (0 when none was).
    pub source: Address,
    /// The resolver's canonical name of the destination.
    pub dest_name: String,
    /// The destination's address and requested port (0 when none was).
    pub dest: Address,
}

/// An interval of a test that runs (`-D`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct InterimResult {
    pub(crate) interval: engine::Interval,
    /// Its end, for the label only: the wall clock may be set while a test runs.
    pub(crate) ended: SystemTime,
    /// What was left when the loop ended, which may be nothing.
    pub(crate) is_rest: bool,
}
