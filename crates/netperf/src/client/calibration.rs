//! What an idle CPU counts: LOC_CPU and REM_CPU.

use engine::Looper;

use super::control::Established;
use super::error::ClientError;
use crate::conventions::TICKS_A_SECOND;
use crate::options::Settings;
use crate::wire::{CalibrateResponse, Capability, RemoteError, Request};

/// What an idle CPU of this host counts in a second, or where ticks are counted how many there are.
pub(crate) fn of_this_host(settings: &Settings) -> Result<f32, ClientError> {
    if settings.flow.here.idle_loop.is_none() {
        return Ok(TICKS_A_SECOND);
    }
    let rate = Looper::shared().and_then(|looper| looper.calibrate());
    rate.map(|rate| rate as f32)
        .map_err(|error| no_looper(&error))
}

/// The same of the peer, and how many CPUs it has.
pub(crate) fn of_peer(
    settings: &Settings,
    control: &Established,
) -> Result<CalibrateResponse, ClientError> {
    let mut question = Request::CpuCalibrate.encode(None);
    if settings.flow.there.idle_loop.is_some() {
        let mut own = Capability::own();
        own.features |= Capability::ASKS_LOOPER;
        own.put(&mut question);
    }
    control.send(&question)?;
    CalibrateResponse::decode(&control.receive()?).map_err(|error| refused(settings, error))
}

fn refused(settings: &Settings, error: RemoteError) -> ClientError {
    let by_looper = settings.flow.there.idle_loop.is_some();
    if by_looper && error.0 == sys::call::Error::PERM.raw_os_error() {
        let why = "--cpu-method looper: the server does not allow it (netserver --allow-looper)";
        return ClientError::Ended(why.to_owned());
    }
    error.into()
}

/// The error of a looper that cannot run.
pub(crate) fn no_looper(error: &std::io::Error) -> ClientError {
    ClientError::Ended(format!("--cpu-method looper: {}", sys::describe(error)))
}
