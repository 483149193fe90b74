//! The private answer in which a linerate tells another one what the results have no room for.

use super::frame::{Field, ORDER, PAYLOAD, blank, word};
use super::{DETAILS_RESPONSE, Frame, RemoteError, check};

/// The longest document that a reader accepts, in bytes.
pub const DETAILS_MAX: u32 = 1 << 20;

/// The answer to [`DETAILS_REQUEST`](super::DETAILS_REQUEST); the document, JSON in UTF-8,
/// follows it on the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailsResponse {
    /// Length of the document in bytes.
    pub len: u32,
}

impl DetailsResponse {
    /// The frame to send before the document.
    pub fn encode(&self) -> Frame {
        let mut frame = blank(DETAILS_RESPONSE);
        self.len.write(&mut frame, PAYLOAD, ORDER);
        frame
    }

    /// The length of the document to read next. Unlike for netperf's own replies the type is
    /// looked at: taking another message for this one would read the rest of the stream wrongly.
    pub fn decode(frame: &Frame) -> Result<Self, DetailsError> {
        check(frame)?;
        let kind = word(frame, 0);
        if kind != DETAILS_RESPONSE {
            return Err(DetailsError::NotDetails(kind));
        }
        let len = u32::read(frame, PAYLOAD, ORDER);
        if len > DETAILS_MAX {
            return Err(DetailsError::TooLong(len));
        }
        Ok(Self { len })
    }
}

/// Why there are no details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetailsError {
    /// The peer refused, or does not know the message.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Another message came.
    #[error("a message of type {0} in place of the peer's details")]
    NotDetails(i32),
    /// More than [`DETAILS_MAX`].
    #[error("the peer's details have {0} bytes, more than the {DETAILS_MAX} that are accepted")]
    TooLong(u32),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{UNKNOWN_REQUEST, debug_response, error_response};

    #[test]
    fn the_length_is_limited() {
        for (len, decoded) in [
            (0, Ok(DetailsResponse { len: 0 })),
            (DETAILS_MAX, Ok(DetailsResponse { len: DETAILS_MAX })),
            (DETAILS_MAX + 1, Err(DetailsError::TooLong(DETAILS_MAX + 1))),
            (u32::MAX, Err(DetailsError::TooLong(u32::MAX))),
        ] {
            let frame = DetailsResponse { len }.encode();
            assert_eq!(DetailsResponse::decode(&frame), decoded);
        }
    }

    #[test]
    fn other_answers() {
        assert_eq!(
            DetailsResponse::decode(&error_response(UNKNOWN_REQUEST)),
            Err(DetailsError::Remote(RemoteError(998)))
        );
        assert_eq!(
            DetailsResponse::decode(&debug_response()),
            Err(DetailsError::NotDetails(3))
        );
    }
}
