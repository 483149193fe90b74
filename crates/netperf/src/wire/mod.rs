//! Bytes ↔ messages of the control connection; no I/O.
//!
//! Every message in either direction is 656 bytes: a type, a word whose meaning depends on the
//! direction (the CPU the server shall bind itself to, or an error number), and 648 bytes of
//! payload. Stock programs do not clear their buffers: what a message does not define is whatever
//! its predecessor left there. So a reply's type is never looked at on decoding, and encoding
//! sends zeros in all that is not defined.
//!
//! Decoding a request cannot fail and loses nothing: every word is what the peer sent, and whether
//! a size of 0 or a family of 9 is acceptable is for the server room to say.

mod capability;
mod classic;
mod details;
mod frame;
mod layouts;
mod misc;
mod records;
mod request;

pub use capability::Capability;
pub use classic::{Classic, Messages, OMNI, Task};
pub use details::{DETAILS_MAX, DetailsError, DetailsResponse};
pub use frame::{Address, SwappedText, Text};
pub use misc::{CalibrateResponse, SysInfo, debug_response};
pub use records::{Flags, TestRequest, TestResponse, TestResults};
pub use request::{Received, Request};

/// Length of every message in bytes, since 2.6.0.
pub const MESSAGE_LEN: usize = 656;

/// One message as it travels.
pub type Frame = [u8; MESSAGE_LEN];

/// Raise the server's debug level.
pub const DEBUG_ON: i32 = 1;
/// Lower the server's debug level.
pub const DEBUG_OFF: i32 = 2;
/// The answer to [`DEBUG_ON`] and [`DEBUG_OFF`].
pub const DEBUG_OK: i32 = 3;
/// Listed in every netperf, answered by none.
pub const NODE_IDENTIFY: i32 = 4;
/// The server's CPU calibration; the answer has the same type.
pub const CPU_CALIBRATE: i32 = 5;
/// The shared secret; it has no answer.
pub const PASSPHRASE: i32 = 6;
/// An omni test; [`Classic`] has the other ones. The next number is its response, the one after that its
/// results.
pub const DO_OMNI: i32 = 97;
/// The server's description of its host.
pub const DO_SYSINFO: i32 = 600;
/// The answer to [`DO_SYSINFO`].
pub const SYSINFO_RESPONSE: i32 = 601;
/// Private to linerate: what the peer measured beyond what the results have room for. Stock
/// servers answer [`UNKNOWN_REQUEST`].
pub const DETAILS_REQUEST: i32 = 0x6C72_0001;
/// The answer to [`DETAILS_REQUEST`].
pub const DETAILS_RESPONSE: i32 = 0x6C72_0002;

/// The error number that means "unknown request type"; other ones are errno values of the
/// server's host.
pub const UNKNOWN_REQUEST: i32 = 998;

/// In most signed words of a request: the peer shall do as it would by itself.
pub const UNSET: i32 = -1;

/// Address family words.
pub const FAMILY_IPV4: u32 = 4;
/// See [`FAMILY_IPV4`].
pub const FAMILY_IPV6: u32 = 6;
/// Of VSOCK, which a stock server does not know: it ends without an answer.
pub const FAMILY_VSOCK: u32 = 40;

/// The peer answered with this error number: [`UNKNOWN_REQUEST`] or an errno of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("remote error {0}")]
pub struct RemoteError(pub i32);

/// The reply that refuses: `error` is [`UNKNOWN_REQUEST`] or an errno of this host.
pub fn error_response(error: i32) -> Frame {
    let mut frame = frame::blank(0);
    frame::put_word(&mut frame, 1, error);
    frame
}

/// Whether a reply carries an error instead of what was asked for.
pub fn check(frame: &Frame) -> Result<(), RemoteError> {
    match frame::word(frame, 1) {
        0 => Ok(()),
        error => Err(RemoteError(error)),
    }
}

/// A float of a reply, unless it is the leftover of another message: NaN or infinite.
///
/// A finite leftover cannot be told from a figure; look first at whether the peer said that it
/// measured.
pub fn finite(value: f32) -> Option<f32> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_travel_in_word_one() {
        for error in [95, 104, UNKNOWN_REQUEST, -1, i32::MIN] {
            let frame = error_response(error);
            assert_eq!(check(&frame), Err(RemoteError(error)));
            assert_eq!(OMNI.response(&frame), Err(RemoteError(error)));
            assert_eq!(OMNI.results(&frame), Err(RemoteError(error)));
        }
        assert_eq!(check(&[0; MESSAGE_LEN]), Ok(()));
    }

    #[test]
    fn leftovers_are_no_figures() {
        assert_eq!(finite(f32::NAN), None);
        assert_eq!(finite(f32::NEG_INFINITY), None);
        assert_eq!(finite(12.5), Some(12.5));
    }
}
