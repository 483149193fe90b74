//! The requests of a client.

use super::classic::{Classic, OMNI, TestMessages};
use super::frame::{MAX_TEXT_LEN, PAYLOAD_START, new_frame, read_word, trim_at_nul, write_word};
use super::{
    CPU_CALIBRATE, DEBUG_OFF, DEBUG_ON, DETAILS_REQUEST, DO_OMNI, DO_SYSINFO, Frame, NODE_IDENTIFY,
    PASSPHRASE, TestRequest, UNSET,
};

/// A decoded request.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedRequest {
    /// The CPU to which the server's process binds itself. Any request can contain it.
    pub cpu: Option<u32>,
    /// The request itself.
    pub request: Request,
}

/// Requests that consist of a type without a payload.
static WITHOUT_PAYLOAD: [(Request, i32); 6] = [
    (Request::DebugOn, DEBUG_ON),
    (Request::DebugOff, DEBUG_OFF),
    (Request::NodeIdentify, NODE_IDENTIFY),
    (Request::CpuCalibrate, CPU_CALIBRATE),
    (Request::SysInfo, DO_SYSINFO),
    (Request::Details, DETAILS_REQUEST),
];

/// A request from a client to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// [`DEBUG_ON`]
    DebugOn,
    /// [`DEBUG_OFF`]
    DebugOff,
    /// [`NODE_IDENTIFY`]
    NodeIdentify,
    /// [`CPU_CALIBRATE`]
    CpuCalibrate,
    /// [`DO_SYSINFO`]
    SysInfo,
    /// [`DETAILS_REQUEST`]
    Details,
    /// [`PASSPHRASE`]: at most 647 bytes, without a NUL.
    Passphrase(Vec<u8>),
    /// [`DO_OMNI`]
    Omni(TestRequest),
    /// A test with messages other than omni's.
    Classic(Classic, TestRequest),
    /// Any other type. The server answers [`UNKNOWN_REQUEST`](super::UNKNOWN_REQUEST).
    Unknown(i32),
}

impl Request {
    /// Returns the name of each request with the name and the fields of its message. Both are empty
    /// for a request without a payload.
    pub fn messages() -> Vec<(String, &'static str, &'static [&'static str])> {
        let without_payload = WITHOUT_PAYLOAD
            .iter()
            .map(|(request, _)| (format!("{request:?}"), "", &[][..]));
        let tests = Classic::all().map(|test| (format!("{test:?}"), test.messages()));
        let tests = tests
            .chain([("Omni".to_owned(), &OMNI)])
            .map(|(test, messages)| (test, messages.request.name, messages.request.fields));
        let others = [
            ("Passphrase", "Passphrase", &["passphrase"][..]),
            ("Unknown", "", &[]),
        ];
        let others = others.map(|(request, message, fields)| (request.to_owned(), message, fields));
        without_payload.chain(tests).chain(others).collect()
    }

    /// Decodes a request. Any 656 bytes are a valid request.
    pub fn decode(frame: &Frame) -> ReceivedRequest {
        let kind = read_word(frame, 0);
        let without_payload = WITHOUT_PAYLOAD.iter().find(|(_, number)| *number == kind);
        let request = match (kind, without_payload, Classic::from_request_type(kind)) {
            (_, Some((request, _)), _) => request.clone(),
            (_, _, Some(test)) => {
                let request = test.messages().request;
                Self::Classic(test, request.read(TestRequest::classic(), frame))
            }
            (PASSPHRASE, ..) => {
                Self::Passphrase(trim_at_nul(&frame[PAYLOAD_START..][..MAX_TEXT_LEN]).to_vec())
            }
            (DO_OMNI, ..) => Self::Omni(OMNI.request.read(TestRequest::default(), frame)),
            (kind, ..) => Self::Unknown(kind),
        };
        ReceivedRequest {
            cpu: u32::try_from(read_word(frame, 1)).ok(),
            request,
        }
    }

    /// Encodes the request, with the CPU to which the server binds itself.
    ///
    /// A passphrase longer than 647 bytes is truncated: the payload has no space for more.
    pub fn encode(&self, cpu: Option<u32>) -> Frame {
        let mut frame = new_frame(self.kind());
        let cpu = cpu.and_then(|cpu| i32::try_from(cpu).ok());
        write_word(&mut frame, 1, cpu.unwrap_or(UNSET));
        match self {
            Self::Passphrase(text) => {
                let text = trim_at_nul(text);
                let text = &text[..text.len().min(MAX_TEXT_LEN)];
                frame[PAYLOAD_START..][..text.len()].copy_from_slice(text);
            }
            other => {
                if let Some((test, request)) = other.test() {
                    test.request.write(request, &mut frame);
                }
            }
        }
        frame
    }

    /// Returns the request's type on the wire.
    pub fn kind(&self) -> i32 {
        match self {
            Self::Passphrase(_) => PASSPHRASE,
            Self::Omni(_) => DO_OMNI,
            Self::Classic(test, _) => test.messages().request_type(),
            Self::Unknown(kind) => *kind,
            other => {
                let row = WITHOUT_PAYLOAD.iter().find(|(request, _)| request == other);
                row.map_or(0, |(_, number)| *number)
            }
        }
    }

    /// Returns the messages and the parameters of the requested test, if this requests a test.
    pub fn test(&self) -> Option<(&'static TestMessages, &TestRequest)> {
        match self {
            Self::Omni(request) => Some((&OMNI, request)),
            Self::Classic(test, request) => Some((test.messages(), request)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MESSAGE_BYTES;

    #[test]
    fn requests_round_trip() {
        let classic = Classic::all().zip([
            10, 94, 13, 34, 300, 19, 16, 37, 40, 43, 46, 22, 25, 28, 31, 500, 510, 520, 530,
        ]);
        let classic =
            classic.map(|(test, kind)| (Request::Classic(test, TestRequest::classic()), kind));
        let others = [
            (Request::DebugOn, 1),
            (Request::DebugOff, 2),
            (Request::NodeIdentify, 4),
            (Request::CpuCalibrate, 5),
            (Request::Passphrase(b"open sesame".to_vec()), 6),
            (Request::Omni(TestRequest::default()), 97),
            (Request::SysInfo, 600),
            (Request::Details, 0x6C72_0001),
            (Request::Unknown(540), 540),
            (Request::Unknown(i32::MIN), i32::MIN),
        ];
        for (request, kind) in classic.chain(others) {
            let frame = request.encode(Some(3));
            assert_eq!(read_word(&frame, 0), kind);
            let cpu = Some(3);
            assert_eq!(Request::decode(&frame), ReceivedRequest { cpu, request });
        }
    }

    /// Linux provides neither XTI nor SDP. Like stock, linerate does not know their tests.
    #[test]
    fn xti_and_sdp_tests_are_unknown() {
        for kind in (55..=67).chain(540..=552) {
            let frame = new_frame(kind);
            assert_eq!(Request::decode(&frame).request, Request::Unknown(kind));
        }
    }

    #[test]
    fn valid_cpu_numbers_round_trip() {
        for (requested, sent, received) in [
            (None, -1, None),
            (Some(0), 0, Some(0)),
            (Some(i32::MAX as u32), i32::MAX, Some(i32::MAX as u32)),
            (Some(u32::MAX), -1, None),
        ] {
            let frame = Request::DebugOn.encode(requested);
            assert_eq!(read_word(&frame, 1), sent);
            assert_eq!(Request::decode(&frame).cpu, received);
        }
        let mut frame = new_frame(DEBUG_ON);
        write_word(&mut frame, 1, i32::MIN);
        assert_eq!(Request::decode(&frame).cpu, None);
    }

    #[test]
    fn long_passphrases_are_cut() {
        let frame = Request::Passphrase(vec![b'x'; 2000]).encode(None);
        assert_eq!(frame[MESSAGE_BYTES - 2..], *b"x\0");
        let mut unterminated = [b'x'; MESSAGE_BYTES];
        unterminated[..4].copy_from_slice(&PASSPHRASE.to_be_bytes());
        for frame in [frame, unterminated] {
            let decoded = Request::decode(&frame).request;
            assert_eq!(decoded, Request::Passphrase(vec![b'x'; 647]));
        }
    }
}
