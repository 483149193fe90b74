//! The messages of the Unix domain, SCTP and DLPI tests at this end: settings → request, replies →
//! what was told.

mod dlpi;
mod sctp;
mod unix;

use model::{BufferPlan, Counts, SizeRule};
use sys::Address;

use super::{ClientError, Endpoints, Told};
use crate::options::{Settings, TestFamily};
use crate::wire::{Frame, RemoteError, Request};

/// The request for the settings' test, `None` if it is of no such family. `send_size` is the size of
/// the datagrams, which this end's socket settles.
pub(super) fn request(settings: &Settings, ends: &Endpoints, send_size: u32) -> Option<Request> {
    match settings.test.family() {
        TestFamily::Inet => None,
        TestFamily::Unix => unix::request(settings, send_size),
        TestFamily::Sctp => sctp::request(settings, ends),
        TestFamily::Dlpi => dlpi::request(settings, send_size),
    }
}

/// Where the server's data socket is.
pub(super) enum Location {
    /// At this port of the host that is known.
    Port(u32),
    /// Here.
    At(Address),
}

/// What a response told, and where the server's data socket is. `None` if the request is of no such
/// family.
pub(super) fn response(
    asked: &Request,
    answer: &Frame,
) -> Option<Result<(Told, Location), ClientError>> {
    unix::response(asked, answer)
        .or_else(|| sctp::response(asked, answer))
        .or_else(|| dlpi::response(asked, answer))
        .map(|read| read.map_err(ClientError::from))
}

/// Adds what the results told, with this end's counts where a word has lost what was above it. `None`
/// if the request is of no such family.
pub(super) fn results(
    asked: &Request,
    told: &mut Told,
    counts: &Counts,
    answer: &Frame,
) -> Option<Result<(), ClientError>> {
    let read: Option<Result<(), RemoteError>> = unix::results(asked, told, counts, answer)
        .or_else(|| sctp::results(asked, told, answer))
        .or_else(|| dlpi::results(asked, told, counts, answer));
    read.map(|read| read.map_err(ClientError::from))
}

/// Here 0 is the default.
fn size(rule: SizeRule) -> i32 {
    match rule {
        SizeRule::Bytes(bytes) => bytes as i32,
        SizeRule::SocketBuffer => 0,
    }
}

/// Alignment and offset.
fn place_of(buffer: &BufferPlan) -> (i32, i32) {
    (buffer.alignment as i32, buffer.offset as i32)
}

/// The number with these low 32 bits that is nearest below `near`, which is what was sent.
fn widened(low: u32, near: u64) -> u64 {
    let missing = u64::from((near as u32).wrapping_sub(low));
    near.checked_sub(missing).unwrap_or(low.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_wrapped_are_widened() {
        for (low, near, wide) in [
            (0, 0, 0),
            (100, 100, 100),
            (90, 100, 90),
            (0x8454_fb00, 0x1_8454_fb00, 0x1_8454_fb00),
            (0xffff_fff0, 0x1_0000_0010, 0xffff_fff0),
            // More than was sent: the peer's own word.
            (200, 100, 200),
        ] {
            assert_eq!(widened(low, near), wide, "{low} near {near}");
        }
    }
}
