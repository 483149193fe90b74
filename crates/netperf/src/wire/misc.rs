//! The responses to requests other than tests.

use super::frame::{BYTE_ORDER, Field, PAYLOAD_START, new_frame, trim_at_nul};
use super::{CPU_CALIBRATE, DEBUG_OK, Frame, RemoteError, SYSINFO_RESPONSE, check_error};

/// The response to [`CPU_CALIBRATE`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibrateResponse {
    /// Counts per second of the CPU method on one idle CPU. On Linux: clock ticks, 100.
    pub rate: f32,
    /// The number of CPUs that are online.
    pub cpus: i32,
}

impl CalibrateResponse {
    /// Reads the fields of a reply and ignores its type. Fails if the reply contains an error.
    pub fn decode(frame: &Frame) -> Result<Self, RemoteError> {
        check_error(frame)?;
        Ok(Self {
            rate: Field::read(frame, PAYLOAD_START, BYTE_ORDER),
            cpus: Field::read(frame, PAYLOAD_START + 4, BYTE_ORDER),
        })
    }

    /// Encodes the response.
    pub fn encode(&self) -> Frame {
        let mut frame = new_frame(CPU_CALIBRATE);
        self.rate.write(&mut frame, PAYLOAD_START, BYTE_ORDER);
        self.cpus.write(&mut frame, PAYLOAD_START + 4, BYTE_ORDER);
        frame
    }
}

/// Encodes the response to a change of the debug level.
pub fn debug_response() -> Frame {
    new_frame(DEBUG_OK)
}

/// The response to [`DO_SYSINFO`](super::DO_SYSINFO): the fields of uname(2) on the server's host.
/// A stock server sends "Deprecated" for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SysInfo {
    /// The name of the operating system ("Linux").
    pub sysname: String,
    /// The release of the kernel.
    pub release: String,
    /// The architecture of the machine.
    pub machine: String,
    /// The build of the kernel.
    pub version: String,
}

impl SysInfo {
    /// Encodes the response: one text with a comma before each field. Truncates a long text.
    pub fn encode(&self) -> Frame {
        let mut text = String::new();
        for field in [&self.sysname, &self.release, &self.machine] {
            text = text + "," + &field.replace(',', " ");
        }
        text = text + "," + &self.version;
        let mut frame = new_frame(SYSINFO_RESPONSE);
        for (byte, char) in frame[PAYLOAD_START..][..MAX_DESCRIPTION_LEN]
            .iter_mut()
            .zip(text.chars())
        {
            *byte = to_printable(char) as u8;
        }
        frame
    }

    /// Reads the fields of a response. Missing fields are empty.
    pub fn decode(frame: &Frame) -> Result<Self, RemoteError> {
        check_error(frame)?;
        let bytes = trim_at_nul(&frame[PAYLOAD_START..][..MAX_DESCRIPTION_LEN]);
        let text: String = bytes
            .iter()
            .map(|byte| to_printable(char::from(*byte)))
            .collect();
        let mut fields = text.splitn(5, ',').skip(1).map(str::to_owned);
        let mut next_field = || fields.next().unwrap_or_default();
        Ok(Self {
            sysname: next_field(),
            release: next_field(),
            machine: next_field(),
            version: next_field(),
        })
    }
}

/// Replaces characters outside of printable ASCII: the fields are printed to a terminal. On Linux,
/// all fields are ASCII.
fn to_printable(char: char) -> char {
    if char == ' ' || char.is_ascii_graphic() {
        char
    } else {
        '?'
    }
}

/// The maximum length of the text. The [`Capability`](super::Capability) block or a NUL follows.
const MAX_DESCRIPTION_LEN: usize = 200;

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
    fn the_debug_response_has_known_bytes() {
        assert_eq!(debug_response()[..8], [0, 0, 0, 3, 0, 0, 0, 0]);
    }

    #[test]
    fn system_descriptions_round_trip() {
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
        let capacity = 200 - ",Linux,6.1,x86_64,".len();
        for (given, expected) in [
            (["Deprecated"; 4], ["Deprecated"; 4]),
            ([""; 4], [""; 4]),
            (
                ["Li,nux", "6.1", "x86_64", "#1, SMP"],
                ["Li nux", "6.1", "x86_64", "#1, SMP"],
            ),
            (
                ["Linux", "6.1", "x86_64", &long],
                ["Linux", "6.1", "x86_64", &long[..capacity]],
            ),
        ] {
            let frame = info(given).encode();
            let text = format!(",{}", expected.join(","));
            assert_eq!(frame[..8], [0, 0, 2, 0x59, 0, 0, 0, 0]);
            assert_eq!(&frame[8..8 + text.len()], text.as_bytes());
            assert_eq!(SysInfo::decode(&frame), Ok(info(expected)), "{text}");
        }
        for (text, expected) in [("", [""; 4]), ("x", [""; 4]), (",a,b", ["a", "b", "", ""])] {
            let mut frame = new_frame(SYSINFO_RESPONSE);
            frame[8..8 + text.len()].copy_from_slice(text.as_bytes());
            assert_eq!(SysInfo::decode(&frame), Ok(info(expected)), "{text}");
        }
    }
}
