//! The client: connections and messages. It returns what both ends measured; [`run`](crate::run()) prints it.

mod answer;
pub(crate) mod calibration;
mod control;
mod endpoints;
mod error;
mod flows;
mod histogram;
mod interim;
mod local;
mod measure;
mod request;
mod uncontrolled;

pub use control::Established;
pub use error::{ClientError, Scope};
pub use flows::Flows;
pub use histogram::HistogramFile;
pub(crate) use interim::Interim;
