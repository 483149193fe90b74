//! The hot loops. Each is compiled for each I/O method, with and without a timer, and with and
//! without hooks.

pub(crate) mod bulk;
pub(crate) mod connections;
pub(crate) mod exchange;
pub(crate) mod fast_path;
pub(crate) mod numbered;
pub(crate) mod pipelined;
pub(crate) mod request_response;
