//! What a client may ask.

use super::classic::{Classic, Messages, OMNI};
use super::frame::{MAX_TEXT, PAYLOAD, blank, put_word, until_nul, word};
use super::{
    CPU_CALIBRATE, DEBUG_OFF, DEBUG_ON, DETAILS_REQUEST, DO_OMNI, DO_SYSINFO, Frame, NODE_IDENTIFY,
    PASSPHRASE, TestRequest, UNSET,
};

/// A request as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The CPU that the server's process shall bind itself to, whatever the request.
    pub cpu: Option<u32>,
    /// What is asked.
    pub request: Request,
}

/// Requests that are a type and no more.
static PLAIN: [(Request, i32); 6] = [
    (Request::DebugOn, DEBUG_ON),
    (Request::DebugOff, DEBUG_OFF),
    (Request::NodeIdentify, NODE_IDENTIFY),
    (Request::CpuCalibrate, CPU_CALIBRATE),
    (Request::SysInfo, DO_SYSINFO),
    (Request::Details, DETAILS_REQUEST),
];

/// What a client asks of a server.
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
    /// [`PASSPHRASE`]: the first 647 bytes before a NUL.
    Passphrase(Vec<u8>),
    /// [`DO_OMNI`]
    Omni(TestRequest),
    /// A test with messages of its own.
    Classic(Classic, TestRequest),
    /// Any other type, to be answered with [`UNKNOWN_REQUEST`](super::UNKNOWN_REQUEST).
    Unknown(i32),
}

impl Request {
    /// Each request's name, and the name and the fields of its message, if it has any.
    pub fn messages() -> Vec<(String, &'static str, &'static [&'static str])> {
        let plain = PLAIN
            .iter()
            .map(|(request, _)| (format!("{request:?}"), "", &[][..]));
        let tests = Classic::all().map(|test| (format!("{test:?}"), test.messages()));
        let tests = tests
            .chain([("Omni".to_owned(), &OMNI)])
            .map(|(test, messages)| (test, messages.request.name, messages.request.fields));
        let own = [
            ("Passphrase", "Passphrase", &["passphrase"][..]),
            ("Unknown", "", &[]),
        ];
        let own = own.map(|(request, message, fields)| (request.to_owned(), message, fields));
        plain.chain(tests).chain(own).collect()
    }

    /// Any 656 bytes are a request.
    pub fn decode(frame: &Frame) -> Received {
        let kind = word(frame, 0);
        let plain = PLAIN.iter().find(|(_, number)| *number == kind);
        let request = match (kind, plain, Classic::of_request(kind)) {
            (_, Some((plain, _)), _) => plain.clone(),
            (_, _, Some(test)) => {
                let request = test.messages().request;
                Self::Classic(test, request.read(TestRequest::classic(), frame))
            }
            (PASSPHRASE, ..) => Self::Passphrase(until_nul(&frame[PAYLOAD..][..MAX_TEXT]).to_vec()),
            (DO_OMNI, ..) => Self::Omni(OMNI.request.read(TestRequest::default(), frame)),
            (kind, ..) => Self::Unknown(kind),
        };
        Received {
            cpu: u32::try_from(word(frame, 1)).ok(),
            request,
        }
    }

    /// The frame to send, with the CPU that the server shall bind itself to.
    ///
    /// A passphrase longer than 647 bytes is cut: there is no room for more.
    pub fn encode(&self, cpu: Option<u32>) -> Frame {
        let mut frame = blank(self.kind());
        let cpu = cpu.and_then(|cpu| i32::try_from(cpu).ok());
        put_word(&mut frame, 1, cpu.unwrap_or(UNSET));
        match self {
            Self::Passphrase(text) => {
                let text = until_nul(text);
                let text = &text[..text.len().min(MAX_TEXT)];
                frame[PAYLOAD..][..text.len()].copy_from_slice(text);
            }
            other => {
                if let Some((test, request)) = other.test() {
                    test.request.write(request, &mut frame);
                }
            }
        }
        frame
    }

    /// Its number on the wire.
    pub fn kind(&self) -> i32 {
        match self {
            Self::Passphrase(_) => PASSPHRASE,
            Self::Omni(_) => DO_OMNI,
            Self::Classic(test, _) => test.messages().request_type(),
            Self::Unknown(kind) => *kind,
            plain => {
                let row = PLAIN.iter().find(|(request, _)| request == plain);
                row.map_or(0, |(_, number)| *number)
            }
        }
    }

    /// The messages of the test that is asked for, and what is asked of it.
    pub fn test(&self) -> Option<(&'static Messages, &TestRequest)> {
        match self {
            Self::Omni(asked) => Some((&OMNI, asked)),
            Self::Classic(test, asked) => Some((test.messages(), asked)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MESSAGE_LEN;

    #[test]
    fn round_trip() {
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
            assert_eq!(word(&frame, 0), kind);
            let cpu = Some(3);
            assert_eq!(Request::decode(&frame), Received { cpu, request });
        }
    }

    /// The tests over XTI and SDP, which nothing on Linux provides, are as unknown as to stock.
    #[test]
    fn without_a_provider() {
        for kind in (55..=67).chain(540..=552) {
            let frame = blank(kind);
            assert_eq!(Request::decode(&frame).request, Request::Unknown(kind));
        }
    }

    #[test]
    fn cpus() {
        for (asked, sent, received) in [
            (None, -1, None),
            (Some(0), 0, Some(0)),
            (Some(i32::MAX as u32), i32::MAX, Some(i32::MAX as u32)),
            (Some(u32::MAX), -1, None),
        ] {
            let frame = Request::DebugOn.encode(asked);
            assert_eq!(word(&frame, 1), sent);
            assert_eq!(Request::decode(&frame).cpu, received);
        }
        let mut frame = blank(DEBUG_ON);
        put_word(&mut frame, 1, i32::MIN);
        assert_eq!(Request::decode(&frame).cpu, None);
    }

    #[test]
    fn long_passphrases_are_cut() {
        let frame = Request::Passphrase(vec![b'x'; 2000]).encode(None);
        assert_eq!(frame[MESSAGE_LEN - 2..], *b"x\0");
        let mut unended = [b'x'; MESSAGE_LEN];
        unended[..4].copy_from_slice(&PASSPHRASE.to_be_bytes());
        for frame in [frame, unended] {
            let decoded = Request::decode(&frame).request;
            assert_eq!(decoded, Request::Passphrase(vec![b'x'; 647]));
        }
    }
}
