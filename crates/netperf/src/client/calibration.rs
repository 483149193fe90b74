//! Calibration of CPU measurement: LOC_CPU and REM_CPU.

use engine::Looper;

use super::control::ServerConnection;
use super::error::ClientError;
use crate::options::Settings;
use crate::protocol_conventions::TICKS_PER_SECOND;
use crate::wire::{CalibrateResponse, Capability, RemoteError, Request};

/// Measures the idle cycles per second of a CPU of this host. Without a looper, returns clock ticks
/// per second.
pub(crate) fn measure_local_rate(settings: &Settings) -> Result<f32, ClientError> {
    if settings.flow.local.idle_loop.is_none() {
        return Ok(TICKS_PER_SECOND);
    }
    let rate = Looper::shared().and_then(|looper| looper.measure_idle_rate());
    rate.map(|rate| rate as f32)
        .map_err(|error| looper_error(&error))
}

/// Requests the calibration of the peer and its number of CPUs.
pub(crate) fn request_peer_rate(
    settings: &Settings,
    control: &ServerConnection,
) -> Result<CalibrateResponse, ClientError> {
    let mut frame = Request::CpuCalibrate.encode(None);
    if settings.flow.remote.idle_loop.is_some() {
        let mut capability = Capability::of_this_process();
        capability.features |= Capability::REQUESTS_LOOPER;
        capability.write_into(&mut frame);
    }
    control.send(&frame)?;
    CalibrateResponse::decode(&control.receive()?)
        .map_err(|error| calibration_error(settings, error))
}

fn calibration_error(settings: &Settings, error: RemoteError) -> ClientError {
    let uses_looper = settings.flow.remote.idle_loop.is_some();
    if uses_looper && error.0 == sys::call::Error::PERM.raw_os_error() {
        let reason = "--cpu-method looper: the server does not allow it (netserver --allow-looper)";
        return ClientError::Failed(reason.to_owned());
    }
    error.into()
}

/// Returns the error of a looper that cannot run.
pub(crate) fn looper_error(error: &std::io::Error) -> ClientError {
    ClientError::Failed(format!("--cpu-method looper: {}", sys::describe(error)))
}
