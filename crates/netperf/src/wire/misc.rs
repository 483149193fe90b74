//! The answers that belong to no test.

use super::frame::{PAYLOAD, blank, layout, reply};
use super::{CPU_CALIBRATE, DEBUG_OK, Frame, SYSINFO_RESPONSE};

layout! {
    /// The answer to [`CPU_CALIBRATE`].
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct CalibrateResponse {
        /// What the method counts in a second on one idle CPU: on Linux clock ticks, 100.
        [0] rate: f32,
        /// CPUs that are online.
        [4] cpus: i32,
    }
}

reply!(CalibrateResponse);

impl CalibrateResponse {
    /// The frame to send.
    pub fn encode(&self) -> Frame {
        let mut frame = blank(CPU_CALIBRATE);
        self.write(&mut frame);
        frame
    }
}

/// The answer to a change of the debug level.
pub fn debug_response() -> Frame {
    blank(DEBUG_OK)
}

/// The answer to [`DO_SYSINFO`](super::DO_SYSINFO): 2.7.0 no longer describes its host.
pub fn sysinfo_response() -> Frame {
    const DESCRIPTION: &[u8] = b",Deprecated,Deprecated,Deprecated,Deprecated";
    let mut frame = blank(SYSINFO_RESPONSE);
    frame[PAYLOAD..][..DESCRIPTION.len()].copy_from_slice(DESCRIPTION);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibration_round_trip() {
        let sent = CalibrateResponse {
            rate: 100.0,
            cpus: 2,
        };
        let frame = sent.encode();
        assert_eq!(
            frame[..16],
            [0, 0, 0, 5, 0, 0, 0, 0, 0x42, 0xc8, 0, 0, 0, 0, 0, 2]
        );
        assert_eq!(CalibrateResponse::decode(&frame), Ok(sent));
    }

    #[test]
    fn fixed_answers() {
        assert_eq!(debug_response()[..8], [0, 0, 0, 3, 0, 0, 0, 0]);
        let sysinfo = sysinfo_response();
        assert_eq!(sysinfo[..4], [0, 0, 2, 0x59]);
        assert_eq!(sysinfo[8..20], *b",Deprecated,");
    }
}
