//! What a client may ask.

use super::frame::{MAX_TEXT, PAYLOAD, blank, put_word, until_nul, word};
use super::{
    CPU_CALIBRATE, DEBUG_OFF, DEBUG_ON, DETAILS_REQUEST, DO_DG_RR, DO_DG_STREAM, DO_DLCL_RR,
    DO_DLCL_STREAM, DO_DLCO_RR, DO_DLCO_STREAM, DO_OMNI, DO_SCTP_RR, DO_SCTP_RR_MANY,
    DO_SCTP_STREAM, DO_SCTP_STREAM_MANY, DO_STREAM_RR, DO_STREAM_STREAM, DO_SYSINFO, DO_TCP_CC,
    DO_TCP_CRR, DO_TCP_MAERTS, DO_TCP_RR, DO_TCP_STREAM, DO_UDP_RR, DO_UDP_STREAM, DatagramRequest,
    DgRrRequest, DgStreamRequest, DlclRrRequest, DlclStreamRequest, DlcoRrRequest,
    DlcoStreamRequest, Frame, NODE_IDENTIFY, OmniRequest, PASSPHRASE, Sctp, StreamRequest,
    StreamRrRequest, StreamStreamRequest, TransactionRequest, UNSET,
};

/// A request as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The CPU that the server's process shall bind itself to, whatever the request.
    pub cpu: Option<u32>,
    /// What is asked.
    pub request: Request,
}

/// The requests: those that are a type and no more, and those with a record.
macro_rules! requests {
    (
        $($plain:ident = $plain_kind:ident,)+;
        $($name:ident($record:ty) = $kind:ident,)+
    ) => {
        /// What a client asks of a server.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Request {
            $(
                #[doc = concat!("[`", stringify!($plain_kind), "`]")]
                $plain,
            )+
            /// [`PASSPHRASE`]: the first 647 bytes before a NUL.
            Passphrase(Vec<u8>),
            $(
                #[doc = concat!("[`", stringify!($kind), "`]")]
                $name($record),
            )+
            /// Any other type, to be answered with [`UNKNOWN_REQUEST`](super::UNKNOWN_REQUEST).
            Unknown(i32),
        }

        impl Request {
            /// Each request's name, and the name and the fields of its record, if it has one.
            pub const RECORDS: &'static [(&'static str, &'static str, &'static [&'static str])] = &[
                $((stringify!($plain), "", &[]),)+
                ("Passphrase", "Passphrase", &["passphrase"]),
                $((stringify!($name), stringify!($record), <$record>::FIELDS),)+
                ("Unknown", "", &[]),
            ];

            /// Any 656 bytes are a request.
            pub fn decode(frame: &Frame) -> Received {
                let request = match word(frame, 0) {
                    $($plain_kind => Self::$plain,)+
                    PASSPHRASE => {
                        Self::Passphrase(until_nul(&frame[PAYLOAD..][..MAX_TEXT]).to_vec())
                    }
                    $($kind => Self::$name(<$record>::read(frame)),)+
                    kind => Self::Unknown(kind),
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
                    $(Self::$name(request) => request.write(&mut frame),)+
                    $(Self::$plain)|+ | Self::Unknown(_) => {}
                }
                frame
            }

            /// Its number on the wire.
            pub fn kind(&self) -> i32 {
                match self {
                    $(Self::$plain => $plain_kind,)+
                    Self::Passphrase(_) => PASSPHRASE,
                    $(Self::$name(_) => $kind,)+
                    Self::Unknown(kind) => *kind,
                }
            }
        }
    };
}

requests! {
    DebugOn = DEBUG_ON,
    DebugOff = DEBUG_OFF,
    NodeIdentify = NODE_IDENTIFY,
    CpuCalibrate = CPU_CALIBRATE,
    SysInfo = DO_SYSINFO,
    Details = DETAILS_REQUEST,
    ;
    TcpStream(StreamRequest) = DO_TCP_STREAM,
    TcpMaerts(StreamRequest) = DO_TCP_MAERTS,
    TcpRr(TransactionRequest) = DO_TCP_RR,
    TcpCrr(TransactionRequest) = DO_TCP_CRR,
    TcpCc(TransactionRequest) = DO_TCP_CC,
    UdpRr(TransactionRequest) = DO_UDP_RR,
    UdpStream(DatagramRequest) = DO_UDP_STREAM,
    Omni(OmniRequest) = DO_OMNI,
    StreamStream(StreamStreamRequest) = DO_STREAM_STREAM,
    StreamRr(StreamRrRequest) = DO_STREAM_RR,
    DgStream(DgStreamRequest) = DO_DG_STREAM,
    DgRr(DgRrRequest) = DO_DG_RR,
    DlcoStream(DlcoStreamRequest) = DO_DLCO_STREAM,
    DlcoRr(DlcoRrRequest) = DO_DLCO_RR,
    DlclStream(DlclStreamRequest) = DO_DLCL_STREAM,
    DlclRr(DlclRrRequest) = DO_DLCL_RR,
    SctpStream(Sctp<StreamRequest>) = DO_SCTP_STREAM,
    SctpStreamMany(Sctp<StreamRequest>) = DO_SCTP_STREAM_MANY,
    SctpRr(Sctp<TransactionRequest>) = DO_SCTP_RR,
    SctpRrMany(Sctp<TransactionRequest>) = DO_SCTP_RR_MANY,
}

impl Request {
    /// The calibration value that a request for a test carries; 0 where none was given.
    pub fn cpu_rate(&self) -> f32 {
        match self {
            Self::Omni(asked) => asked.cpu_rate,
            Self::TcpStream(asked) | Self::TcpMaerts(asked) => asked.cpu_rate,
            Self::TcpRr(asked) | Self::TcpCrr(asked) | Self::TcpCc(asked) | Self::UdpRr(asked) => {
                asked.cpu_rate
            }
            Self::UdpStream(asked) => asked.cpu_rate,
            Self::StreamStream(asked) => asked.cpu_rate,
            Self::StreamRr(asked) => asked.cpu_rate,
            Self::DgStream(asked) => asked.cpu_rate,
            Self::DgRr(asked) => asked.cpu_rate,
            Self::SctpStream(asked) | Self::SctpStreamMany(asked) => asked.tcp.cpu_rate,
            Self::SctpRr(asked) | Self::SctpRrMany(asked) => asked.tcp.cpu_rate,
            Self::DlcoStream(asked) => asked.cpu_rate,
            Self::DlcoRr(asked) => asked.cpu_rate,
            Self::DlclStream(asked) => asked.cpu_rate,
            Self::DlclRr(asked) => asked.cpu_rate,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MESSAGE_LEN;

    #[test]
    fn round_trip() {
        let stream = StreamRequest::default();
        let transaction = TransactionRequest::default();
        for (request, kind) in [
            (Request::DebugOn, 1),
            (Request::DebugOff, 2),
            (Request::NodeIdentify, 4),
            (Request::CpuCalibrate, 5),
            (Request::Passphrase(b"open sesame".to_vec()), 6),
            (Request::TcpStream(stream.clone()), 10),
            (Request::TcpRr(transaction.clone()), 13),
            (Request::UdpStream(DatagramRequest::default()), 16),
            (Request::UdpRr(transaction.clone()), 19),
            (Request::TcpCrr(transaction.clone()), 34),
            (Request::TcpMaerts(stream), 94),
            (Request::Omni(OmniRequest::default()), 97),
            (Request::StreamStream(StreamStreamRequest::default()), 37),
            (Request::StreamRr(StreamRrRequest::default()), 40),
            (Request::DgStream(DgStreamRequest::default()), 43),
            (Request::DgRr(DgRrRequest::default()), 46),
            (Request::DlcoStream(DlcoStreamRequest::default()), 22),
            (Request::DlcoRr(DlcoRrRequest::default()), 25),
            (Request::DlclStream(DlclStreamRequest::default()), 28),
            (Request::DlclRr(DlclRrRequest::default()), 31),
            (Request::SctpStream(Sctp::default()), 500),
            (Request::SctpStreamMany(Sctp::default()), 510),
            (Request::SctpRr(Sctp::default()), 520),
            (Request::SctpRrMany(Sctp::default()), 530),
            (Request::TcpCc(transaction), 300),
            (Request::SysInfo, 600),
            (Request::Details, 0x6C72_0001),
            (Request::Unknown(540), 540),
            (Request::Unknown(i32::MIN), i32::MIN),
        ] {
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
        let Request::Passphrase(text) = Request::decode(&frame).request else {
            panic!("not a passphrase");
        };
        assert_eq!(text.len(), 647);

        let mut unended = [b'x'; MESSAGE_LEN];
        unended[..4].copy_from_slice(&PASSPHRASE.to_be_bytes());
        let Request::Passphrase(text) = Request::decode(&unended).request else {
            panic!("not a passphrase");
        };
        assert_eq!(text.len(), 647);
    }
}
