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
    /// [`PASSPHRASE`]: the first 647 bytes before a NUL.
    Passphrase(Vec<u8>),
    /// [`DO_TCP_STREAM`]
    TcpStream(StreamRequest),
    /// [`DO_TCP_MAERTS`]
    TcpMaerts(StreamRequest),
    /// [`DO_TCP_RR`]
    TcpRr(TransactionRequest),
    /// [`DO_TCP_CRR`]
    TcpCrr(TransactionRequest),
    /// [`DO_TCP_CC`]
    TcpCc(TransactionRequest),
    /// [`DO_UDP_RR`]
    UdpRr(TransactionRequest),
    /// [`DO_UDP_STREAM`]
    UdpStream(DatagramRequest),
    /// [`DO_OMNI`]
    Omni(OmniRequest),
    /// [`DO_STREAM_STREAM`]
    StreamStream(StreamStreamRequest),
    /// [`DO_STREAM_RR`]
    StreamRr(StreamRrRequest),
    /// [`DO_DG_STREAM`]
    DgStream(DgStreamRequest),
    /// [`DO_DG_RR`]
    DgRr(DgRrRequest),
    /// [`DO_DLCO_STREAM`]
    DlcoStream(DlcoStreamRequest),
    /// [`DO_DLCO_RR`]
    DlcoRr(DlcoRrRequest),
    /// [`DO_DLCL_STREAM`]
    DlclStream(DlclStreamRequest),
    /// [`DO_DLCL_RR`]
    DlclRr(DlclRrRequest),
    /// [`DO_SCTP_STREAM`]
    SctpStream(Sctp<StreamRequest>),
    /// [`DO_SCTP_STREAM_MANY`]
    SctpStreamMany(Sctp<StreamRequest>),
    /// [`DO_SCTP_RR`]
    SctpRr(Sctp<TransactionRequest>),
    /// [`DO_SCTP_RR_MANY`]
    SctpRrMany(Sctp<TransactionRequest>),
    /// [`DO_SYSINFO`]
    SysInfo,
    /// [`DETAILS_REQUEST`]
    Details,
    /// Any other type, to be answered with [`UNKNOWN_REQUEST`](super::UNKNOWN_REQUEST).
    Unknown(i32),
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

    /// Any 656 bytes are a request.
    pub fn decode(frame: &Frame) -> Received {
        let request = match word(frame, 0) {
            DEBUG_ON => Self::DebugOn,
            DEBUG_OFF => Self::DebugOff,
            NODE_IDENTIFY => Self::NodeIdentify,
            CPU_CALIBRATE => Self::CpuCalibrate,
            PASSPHRASE => Self::Passphrase(until_nul(&frame[PAYLOAD..][..MAX_TEXT]).to_vec()),
            DO_TCP_STREAM => Self::TcpStream(StreamRequest::read(frame)),
            DO_TCP_MAERTS => Self::TcpMaerts(StreamRequest::read(frame)),
            DO_TCP_RR => Self::TcpRr(TransactionRequest::read(frame)),
            DO_TCP_CRR => Self::TcpCrr(TransactionRequest::read(frame)),
            DO_TCP_CC => Self::TcpCc(TransactionRequest::read(frame)),
            DO_UDP_RR => Self::UdpRr(TransactionRequest::read(frame)),
            DO_UDP_STREAM => Self::UdpStream(DatagramRequest::read(frame)),
            DO_OMNI => Self::Omni(OmniRequest::read(frame)),
            DO_STREAM_STREAM => Self::StreamStream(StreamStreamRequest::read(frame)),
            DO_STREAM_RR => Self::StreamRr(StreamRrRequest::read(frame)),
            DO_DG_STREAM => Self::DgStream(DgStreamRequest::read(frame)),
            DO_DG_RR => Self::DgRr(DgRrRequest::read(frame)),
            DO_DLCO_STREAM => Self::DlcoStream(DlcoStreamRequest::read(frame)),
            DO_DLCO_RR => Self::DlcoRr(DlcoRrRequest::read(frame)),
            DO_DLCL_STREAM => Self::DlclStream(DlclStreamRequest::read(frame)),
            DO_DLCL_RR => Self::DlclRr(DlclRrRequest::read(frame)),
            DO_SCTP_STREAM => Self::SctpStream(Sctp::<StreamRequest>::read(frame)),
            DO_SCTP_STREAM_MANY => Self::SctpStreamMany(Sctp::<StreamRequest>::read(frame)),
            DO_SCTP_RR => Self::SctpRr(Sctp::<TransactionRequest>::read(frame)),
            DO_SCTP_RR_MANY => Self::SctpRrMany(Sctp::<TransactionRequest>::read(frame)),
            DO_SYSINFO => Self::SysInfo,
            DETAILS_REQUEST => Self::Details,
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
            Self::TcpStream(request) | Self::TcpMaerts(request) => request.write(&mut frame),
            Self::TcpRr(request)
            | Self::TcpCrr(request)
            | Self::TcpCc(request)
            | Self::UdpRr(request) => request.write(&mut frame),
            Self::UdpStream(request) => request.write(&mut frame),
            Self::Omni(request) => request.write(&mut frame),
            Self::StreamStream(request) => request.write(&mut frame),
            Self::StreamRr(request) => request.write(&mut frame),
            Self::DgStream(request) => request.write(&mut frame),
            Self::DgRr(request) => request.write(&mut frame),
            Self::DlcoStream(request) => request.write(&mut frame),
            Self::DlcoRr(request) => request.write(&mut frame),
            Self::DlclStream(request) => request.write(&mut frame),
            Self::DlclRr(request) => request.write(&mut frame),
            Self::SctpStream(request) | Self::SctpStreamMany(request) => request.write(&mut frame),
            Self::SctpRr(request) | Self::SctpRrMany(request) => request.write(&mut frame),
            Self::DebugOn
            | Self::DebugOff
            | Self::NodeIdentify
            | Self::CpuCalibrate
            | Self::SysInfo
            | Self::Details
            | Self::Unknown(_) => {}
        }
        frame
    }

    /// Its number on the wire.
    pub fn kind(&self) -> i32 {
        match self {
            Self::DebugOn => DEBUG_ON,
            Self::DebugOff => DEBUG_OFF,
            Self::NodeIdentify => NODE_IDENTIFY,
            Self::CpuCalibrate => CPU_CALIBRATE,
            Self::Passphrase(_) => PASSPHRASE,
            Self::TcpStream(_) => DO_TCP_STREAM,
            Self::TcpMaerts(_) => DO_TCP_MAERTS,
            Self::TcpRr(_) => DO_TCP_RR,
            Self::TcpCrr(_) => DO_TCP_CRR,
            Self::TcpCc(_) => DO_TCP_CC,
            Self::UdpRr(_) => DO_UDP_RR,
            Self::UdpStream(_) => DO_UDP_STREAM,
            Self::Omni(_) => DO_OMNI,
            Self::StreamStream(_) => DO_STREAM_STREAM,
            Self::StreamRr(_) => DO_STREAM_RR,
            Self::DgStream(_) => DO_DG_STREAM,
            Self::DgRr(_) => DO_DG_RR,
            Self::DlcoStream(_) => DO_DLCO_STREAM,
            Self::DlcoRr(_) => DO_DLCO_RR,
            Self::DlclStream(_) => DO_DLCL_STREAM,
            Self::DlclRr(_) => DO_DLCL_RR,
            Self::SctpStream(_) => DO_SCTP_STREAM,
            Self::SctpStreamMany(_) => DO_SCTP_STREAM_MANY,
            Self::SctpRr(_) => DO_SCTP_RR,
            Self::SctpRrMany(_) => DO_SCTP_RR_MANY,
            Self::SysInfo => DO_SYSINFO,
            Self::Details => DETAILS_REQUEST,
            Self::Unknown(kind) => *kind,
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
