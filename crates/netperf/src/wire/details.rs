//! The private response with which a linerate reports details that do not fit into the results.

use super::frame::{BYTE_ORDER, Field, PAYLOAD_START, new_frame, read_word};
use super::{DETAILS_RESPONSE, Frame, RemoteError, check_error};

/// The longest document that a reader accepts, in bytes.
pub const MAX_DETAILS_BYTES: u32 = 1 << 20;

/// The response to [`DETAILS_REQUEST`](super::DETAILS_REQUEST). The document, JSON in UTF-8,
/// follows it on the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailsResponse {
    /// Length of the document in bytes.
    pub len: u32,
}

impl DetailsResponse {
    /// Encodes the frame that precedes the document.
    pub fn encode(&self) -> Frame {
        let mut frame = new_frame(DETAILS_RESPONSE);
        self.len.write(&mut frame, PAYLOAD_START, BYTE_ORDER);
        frame
    }

    /// Reads the length of the document that follows. Unlike replies of netperf, this one must have
    /// the right type: otherwise the rest of the connection would be misread.
    pub fn decode(frame: &Frame) -> Result<Self, DetailsError> {
        check_error(frame)?;
        let kind = read_word(frame, 0);
        if kind != DETAILS_RESPONSE {
            return Err(DetailsError::NotDetails(kind));
        }
        let len = u32::read(frame, PAYLOAD_START, BYTE_ORDER);
        if len > MAX_DETAILS_BYTES {
            return Err(DetailsError::TooLong(len));
        }
        Ok(Self { len })
    }
}

/// The reason for which details are unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetailsError {
    /// The peer refused the request, or does not support it.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The peer sent a message of this other type.
    #[error("expected the peer's details, received a message of type {0}")]
    NotDetails(i32),
    /// The document is longer than [`MAX_DETAILS_BYTES`].
    #[error("the peer's details have {0} bytes, more than the maximum of {MAX_DETAILS_BYTES}")]
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
            (
                MAX_DETAILS_BYTES,
                Ok(DetailsResponse {
                    len: MAX_DETAILS_BYTES,
                }),
            ),
            (
                MAX_DETAILS_BYTES + 1,
                Err(DetailsError::TooLong(MAX_DETAILS_BYTES + 1)),
            ),
            (u32::MAX, Err(DetailsError::TooLong(u32::MAX))),
        ] {
            let frame = DetailsResponse { len }.encode();
            assert_eq!(DetailsResponse::decode(&frame), decoded);
        }
    }

    #[test]
    fn other_responses_are_rejected() {
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
