//! Datagrams, at both ends.

use std::sync::Arc;

use engine::Stop;

use crate::client::Run;
use crate::event::Observer;
use crate::options::{Serve, Settings};

pub(crate) fn run_client(run: &Run<'_>) {
    run.fail("iperf: not supported yet: -u");
}

pub(crate) fn run_server(
    _settings: &Arc<Settings>,
    _serve: &Serve,
    _observer: &Arc<dyn Observer>,
    _stop: &Stop,
) -> Result<(), String> {
    Err("iperf: not supported yet: -u".to_owned())
}
