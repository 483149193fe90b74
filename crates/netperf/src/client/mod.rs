//! The client: connections and messages. It returns the measurements of both ends;
//! [`run`](crate::run()) prints them.

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

pub use control::ServerConnection;
pub use error::{ClientError, FailureScope};
pub use flows::Flows;
pub use histogram::HistogramFile;
pub(crate) use interim::Interim;
