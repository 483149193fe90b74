//! The answers that belong to no test.

use super::frame::{Field, ORDER, PAYLOAD, blank, until_nul};
use super::{CPU_CALIBRATE, DEBUG_OK, Frame, RemoteError, SYSINFO_RESPONSE, check};

/// The answer to [`CPU_CALIBRATE`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibrateResponse {
    /// What the method counts in a second on one idle CPU: on Linux clock ticks, 100.
    pub rate: f32,
    /// CPUs that are online.
    pub cpus: i32,
}

impl CalibrateResponse {
    /// The fields of a reply, whatever type it claims.
    pub fn decode(frame: &Frame) -> Result<Self, RemoteError> {
        check(frame)?;
        Ok(Self {
            rate: Field::read(frame, PAYLOAD, ORDER),
            cpus: Field::read(frame, PAYLOAD + 4, ORDER),
        })
    }

    /// The frame to send.
    pub fn encode(&self) -> Frame {
        let mut frame = blank(CPU_CALIBRATE);
        self.rate.write(&mut frame, PAYLOAD, ORDER);
        self.cpus.write(&mut frame, PAYLOAD + 4, ORDER);
        frame
    }
}

/// The answer to a change of the debug level.
pub fn debug_response() -> Frame {
    blank(DEBUG_OK)
}

/// The answer to [`DO_SYSINFO`](super::DO_SYSINFO): the server's host, in the words of uname(2). Those
/// of a stock server are all "Deprecated".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SysInfo {
    /// The system's name ("Linux").
    pub sysname: String,
    /// Its release.
    pub release: String,
    /// The machine's architecture.
    pub machine: String,
    /// The release's build.
    pub version: String,
}

impl SysInfo {
    /// The frame to send: one text, each word after a comma. What has no room is cut.
    pub fn encode(&self) -> Frame {
        let mut text = String::new();
        for word in [&self.sysname, &self.release, &self.machine] {
            text = text + "," + &word.replace(',', " ");
        }
        text = text + "," + &self.version;
        let mut frame = blank(SYSINFO_RESPONSE);
        for (byte, char) in frame[PAYLOAD..][..MAX_DESCRIPTION]
            .iter_mut()
            .zip(text.chars())
        {
            *byte = printable(char) as u8;
        }
        frame
    }

    /// The words of an answer; those that are not there are empty.
    pub fn decode(frame: &Frame) -> Result<Self, RemoteError> {
        check(frame)?;
        let bytes = until_nul(&frame[PAYLOAD..][..MAX_DESCRIPTION]);
        let text: String = bytes
            .iter()
            .map(|byte| printable(char::from(*byte)))
            .collect();
        let mut words = text.splitn(5, ',').skip(1).map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        Ok(Self {
            sysname: next(),
            release: next(),
            machine: next(),
            version: next(),
        })
    }
}

/// The words end on a terminal, and are ASCII wherever there is a Linux.
fn printable(char: char) -> char {
    if char == ' ' || char.is_ascii_graphic() {
        char
    } else {
        '?'
    }
}

/// Behind it stands the [`Capability`](super::Capability) block, or a NUL.
const MAX_DESCRIPTION: usize = 200;

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
    }

    #[test]
    fn descriptions() {
        let info = |words: [&str; 4]| {
            let [sysname, release, machine, version] = words.map(str::to_owned);
            SysInfo {
                sysname,
                release,
                machine,
                version,
            }
        };
        let long = "v".repeat(500);
        let room = 200 - ",Linux,6.1,x86_64,".len();
        for (given, told) in [
            (["Deprecated"; 4], ["Deprecated"; 4]),
            ([""; 4], [""; 4]),
            (
                ["Li,nux", "6.1", "x86_64", "#1, SMP"],
                ["Li nux", "6.1", "x86_64", "#1, SMP"],
            ),
            (
                ["Linux", "6.1", "x86_64", &long],
                ["Linux", "6.1", "x86_64", &long[..room]],
            ),
        ] {
            let frame = info(given).encode();
            let text = format!(",{}", told.join(","));
            assert_eq!(frame[..8], [0, 0, 2, 0x59, 0, 0, 0, 0]);
            assert_eq!(&frame[8..8 + text.len()], text.as_bytes());
            assert_eq!(SysInfo::decode(&frame), Ok(info(told)), "{text}");
        }
        for (text, told) in [("", [""; 4]), ("x", [""; 4]), (",a,b", ["a", "b", "", ""])] {
            let mut frame = blank(SYSINFO_RESPONSE);
            frame[8..8 + text.len()].copy_from_slice(text.as_bytes());
            assert_eq!(SysInfo::decode(&frame), Ok(info(told)), "{text}");
        }
    }
}
