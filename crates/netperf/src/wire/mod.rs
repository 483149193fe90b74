//! The wire format of the control connection: conversion between bytes and messages, without I/O.
//!
//! Every message in either direction has 656 bytes: a type, a second word and 648 bytes of payload.
//! In a request, the second word is the CPU to which the server binds itself; in a reply, it is an
//! error number.
//!
//! Stock programs do not clear their buffers: bytes that a message does not define are leftovers of
//! its predecessor. Decoding therefore ignores the type of a reply. Encoding writes zeros to all
//! undefined bytes.
//!
//! Decoding a request cannot fail and keeps every word. The server validates them, for example a
//! size of 0 or a family of 9.

mod capability;
mod classic;
mod details;
mod frame;
mod layouts;
mod misc;
mod records;
mod request;

pub use capability::Capability;
pub use classic::{Classic, OMNI, ServerTask, TestMessages};
pub use details::{DetailsError, DetailsResponse, MAX_DETAILS_BYTES};
pub use frame::{AddressWords, SwappedText, Text};
pub use misc::{CalibrateResponse, SysInfo, debug_response};
pub use records::{Flags, TestRequest, TestResponse, TestResults};
pub use request::{ReceivedRequest, Request};

/// The length of every message in bytes, since netperf 2.6.0.
pub const MESSAGE_BYTES: usize = 656;

/// An encoded message.
pub type Frame = [u8; MESSAGE_BYTES];

/// Request to raise the server's debug level.
pub const DEBUG_ON: i32 = 1;
/// Request to lower the server's debug level.
pub const DEBUG_OFF: i32 = 2;
/// Response to [`DEBUG_ON`] and [`DEBUG_OFF`].
pub const DEBUG_OK: i32 = 3;
/// Defined by every netperf, but answered by none.
pub const NODE_IDENTIFY: i32 = 4;
/// Request for the server's CPU calibration. The response has the same type.
pub const CPU_CALIBRATE: i32 = 5;
/// The shared secret. It has no response.
pub const PASSPHRASE: i32 = 6;
/// Request for an omni test; [`Classic`] has the types of the other tests. The response has the
/// next number, the results the one after it.
pub const DO_OMNI: i32 = 97;
/// Request for the description of the server's host.
pub const DO_SYSINFO: i32 = 600;
/// Response to [`DO_SYSINFO`].
pub const SYSINFO_RESPONSE: i32 = 601;
/// Request for measured details that do not fit into the results. It is private to linerate; stock
/// servers answer [`UNKNOWN_REQUEST`].
pub const DETAILS_REQUEST: i32 = 0x6C72_0001;
/// Response to [`DETAILS_REQUEST`].
pub const DETAILS_RESPONSE: i32 = 0x6C72_0002;

/// The error number for an unknown request type. Other error numbers are errno values of the
/// server's host.
pub const UNKNOWN_REQUEST: i32 = 998;

/// In most signed words of a request: the server uses its default.
pub const UNSET: i32 = -1;

/// The address family word for IPv4.
pub const FAMILY_IPV4: u32 = 4;
/// The address family word for IPv6.
pub const FAMILY_IPV6: u32 = 6;
/// The address family word for VSOCK. A stock server exits without a reply.
pub const FAMILY_VSOCK: u32 = 40;

/// An error number from the peer: [`UNKNOWN_REQUEST`] or an errno of the peer's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("remote error {0}")]
pub struct RemoteError(pub i32);

/// Encodes a reply that refuses a request. `error` is [`UNKNOWN_REQUEST`] or an errno of this host.
pub fn error_response(error: i32) -> Frame {
    let mut frame = frame::new_frame(0);
    frame::write_word(&mut frame, 1, error);
    frame
}

/// Fails if a reply contains an error number.
pub fn check_error(frame: &Frame) -> Result<(), RemoteError> {
    match frame::read_word(frame, 1) {
        0 => Ok(()),
        error => Err(RemoteError(error)),
    }
}

/// Returns a float of a reply, or `None` if it is NaN or infinite, thus a leftover of another
/// message.
///
/// A finite leftover cannot be recognised: first check that the peer reports a measurement.
pub fn finite(value: f32) -> Option<f32> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_are_in_word_one() {
        for error in [95, 104, UNKNOWN_REQUEST, -1, i32::MIN] {
            let frame = error_response(error);
            assert_eq!(check_error(&frame), Err(RemoteError(error)));
            assert_eq!(OMNI.parse_response(&frame), Err(RemoteError(error)));
            assert_eq!(OMNI.parse_results(&frame), Err(RemoteError(error)));
        }
        assert_eq!(check_error(&[0; MESSAGE_BYTES]), Ok(()));
    }

    #[test]
    fn non_finite_floats_are_discarded() {
        assert_eq!(finite(f32::NAN), None);
        assert_eq!(finite(f32::NEG_INFINITY), None);
        assert_eq!(finite(12.5), Some(12.5));
    }
}
