//! The test options of the families that have a socket address family or a protocol of their own.

use std::path::PathBuf;

use getopt::Argument::{Nothing, Value};
use getopt::{Quit, Section, flag, refuse};
use model::SocketOptions;

use super::rings::{RECEIVE_SIZE, SEND_SIZE, SIZES};
use super::test::{
    HELP, IPV4, IPV6, LOCAL_BUFFERS, NO_DELAY_AT_BOTH_ENDS, NO_EFFECT, PORTS, REMOTE_BUFFERS,
    SCOPE, SOURCE, TARGET, TestOptions, no_copy_avoidance,
};
use super::value::{count, count_or_default, number, set};
use super::{Attachment, Special, Test, TestFamily};

/// What only these families have, as typed.
#[derive(Clone, Default)]
pub(super) struct FamilyOptions {
    /// Unix `-p`.
    pub(super) directory: Option<PathBuf>,
    /// SCTP `-N`; 0 is none.
    pub(super) messages: u32,
    /// SCTP `-T`.
    pub(super) associations: Option<u32>,
    /// DLPI `-D`: local, remote.
    pub(super) device: [Option<String>; 2],
    /// DLPI `-p`: local, remote.
    pub(super) ppa: [Option<u32>; 2],
    /// DLPI `-s`.
    pub(super) sap: Option<u8>,
}

impl FamilyOptions {
    /// What only the test's family asks for, or the reason why it cannot be had.
    pub(super) fn special(
        &self,
        test: Test,
        sockets: [&SocketOptions; 2],
    ) -> Result<Special, Quit> {
        Ok(match test.family() {
            TestFamily::Inet => Special::Inet,
            TestFamily::Unix => Special::Unix {
                directory: self.directory.clone(),
            },
            TestFamily::Sctp => Special::Sctp {
                associations: match (test, self.associations) {
                    (Test::SctpStreamMany | Test::SctpRrMany, associations) => {
                        associations.unwrap_or(DEFAULT_ASSOCIATIONS)
                    }
                    (_, None) => 1,
                    (_, Some(_)) => {
                        return refuse(
                            "test option -T needs a _MANY test: this one has one association",
                        );
                    }
                },
            },
            TestFamily::Dlpi => {
                let end = |device: &Option<String>, ppa| match (device.clone(), ppa) {
                    (None, None) => refuse(
                        "test option -D needs the names of the network interfaces, or -p their indices",
                    ),
                    (device, ppa) => Ok(Attachment { device, ppa }),
                };
                let has_window = |socket: &SocketOptions| {
                    socket.send_window_frames.is_some() || socket.receive_window_frames.is_some()
                };
                if matches!(test, Test::DlclStream | Test::DlclRr)
                    && sockets.into_iter().any(has_window)
                {
                    return refuse(
                        "test options -w and -W need a DLCO test: this one has no connection",
                    );
                }
                Special::Dlpi {
                    local: end(&self.device[0], self.ppa[0])?,
                    remote: end(&self.device[1], self.ppa[1])?,
                    sap: self.sap.unwrap_or(DEFAULT_SAP),
                }
            }
        })
    }
}

#[rustfmt::skip]
pub(super) static UNIX: Section<TestOptions> = Section {
    title: "TEST OPTIONS OF STREAM_STREAM, STREAM_RR, DG_STREAM AND DG_RR",
    heading: "Unix Domain Sockets Test Options:",
    scope: SCOPE,
    flags: &[
    HELP,
    flag('m', Value("bytes"), &["-m bytes          Set the send size (STREAM_STREAM, DG_STREAM)"],
        "Bytes a send call: by default the socket's buffer as the kernel gives it, of a datagram at most 65507.",
        SEND_SIZE),
    flag('M', Value("bytes"), &["-M bytes          Set the recv size (STREAM_STREAM, DG_STREAM)"],
        "Bytes a receive call of the remote end.", RECEIVE_SIZE),
    flag('p', Value("dir"), &["-p dir            Set the directory where this end makes its socket"],
        "Make the socket of this end below this directory, /tmp by default. Where the server makes its own is its --unix-dir.",
        directory),
    flag('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (STREAM_RR, DG_RR)"],
        "Bytes of a request and of a response, 1 by default.", SIZES),
    LOCAL_BUFFERS,
    REMOTE_BUFFERS,
]};

#[rustfmt::skip]
pub(super) static SCTP: Section<TestOptions> = Section {
    title: "TEST OPTIONS OF SCTP_STREAM, SCTP_RR AND THEIR _MANY FORMS",
    heading: "SCTP Sockets Test Options:",
    scope: SCOPE,
    flags: &[
    flag('B', Nothing, &["-B                Wait in poll() instead of in the data calls"],
        "Wait in poll(2) where a data call would wait, at both ends.",
        |t, _| { (t.here.socket.non_blocking, t.there.socket.non_blocking) = (true, true); Ok(()) }),
    flag('D', Nothing, &["-D                Set SCTP_NODELAY locally and remotely"],
        "Set SCTP_NODELAY at both ends.", NO_DELAY_AT_BOTH_ENDS),
    HELP,
    TARGET,
    SOURCE,
    flag('m', Value("bytes"), &["-m bytes          Set the send size (SCTP_STREAM, SCTP_STREAM_MANY)"],
        "Bytes of a message. Without it, the socket's buffer as the kernel gives it.", SEND_SIZE),
    flag('M', Value("bytes"), &["-M bytes          Set the recv size (SCTP_STREAM, SCTP_STREAM_MANY)"],
        "Bytes a receive call of the remote end.", RECEIVE_SIZE),
    flag('N', Value("number"), &["-N number         End after this many messages or transactions, not by time"],
        "End after so many messages or transactions instead of after a time.",
        |t, v| { t.of_family.messages = count(v)?; Ok(()) }),
    PORTS,
    flag('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (SCTP_RR, SCTP_RR_MANY)"],
        "Bytes of a request and of a response, 1 by default.", SIZES),
    LOCAL_BUFFERS,
    REMOTE_BUFFERS,
    flag('T', Value("number"), &["-T number         Set the number of associations (_MANY), 2 or more"],
        "Associations of a _MANY test, 2 by default. They are used in turn; at the server all are on one socket.",
        associations),
    IPV4,
    IPV6,
    flag('V', Nothing, &[], "Not available in these tests, which is said.", no_copy_avoidance),
    flag('I', Value("text"), &[], "Without effect, as in the stock tool.", NO_EFFECT),
]};

#[rustfmt::skip]
pub(super) static DLPI: Section<TestOptions> = Section {
    title: "TEST OPTIONS OF DLCO_STREAM, DLCO_RR, DLCL_STREAM AND DLCL_RR",
    heading: "DLPI Test Options, on Linux over LLC Sockets:",
    scope: SCOPE,
    flags: &[
    flag('D', Value("local[,remote]"), &["-D local[,remote] Set the network interfaces, as \"eth0\" or with -p as \"eth\""],
        "The network interface of each end: its name, or together with -p the name without its number. A path stands for its last part.",
        |t, v| set(t.of_family.device.each_mut(), v, |half| device(half).map(Some))),
    HELP,
    flag('m', Value("bytes"), &["-m bytes          Set the send size (DLCO_STREAM, DLCL_STREAM)"],
        "Bytes of a frame's payload, 1400 by default. More than the interface's MTU has room for is refused.",
        SEND_SIZE),
    flag('M', Value("bytes"), &["-M bytes          Set the recv size (DLCO_STREAM, DLCL_STREAM)"],
        "Bytes a receive call of the remote end.", RECEIVE_SIZE),
    flag('p', Value("local[,remote]"), &[
        "-p loc[,rem]      Set the local/remote PPA: the number behind the",
        "                  interface's name, or without -D its index",
    ], "The PPA: the number behind the interface's name, or without -D its index.",
        |t, v| set(t.of_family.ppa.each_mut(), v, |half| count(half).map(Some))),
    flag('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (DLCO_RR, DLCL_RR)"],
        "Bytes of a request and of a response, 1 by default.", SIZES),
    flag('s', Value("sap"), &["-s sap            Set the 802.2 service access point, an even number (84)"],
        "The 802.2 service access point, an even number. Default 84. At this end another one is used if it is taken.",
        sap),
    flag('w', Value("send[,recv]"), &["-w send[,recv]    Set local send/recv window sizes in frames (DLCO)"],
        "Windows of the local end in frames, at most 127 (DLCO tests).",
        |t, v| windows(&mut t.here.socket, v)),
    flag('W', Value("send[,recv]"), &["-W send[,recv]    Set remote send/recv window sizes in frames (DLCO)"],
        "Windows of the remote end.", |t, v| windows(&mut t.there.socket, v)),
]};

/// As few as a test of many can have.
pub(super) const DEFAULT_ASSOCIATIONS: u32 = 2;

/// The stock tool's.
pub(super) const DEFAULT_SAP: u8 = 84;

fn directory(options: &mut TestOptions, text: &str) -> Result<(), Quit> {
    if text.is_empty() {
        return refuse("no directory given");
    }
    options.of_family.directory = Some(PathBuf::from(text));
    Ok(())
}

/// The stock tool, too, ends on one that is not more than 1.
fn associations(options: &mut TestOptions, text: &str) -> Result<(), Quit> {
    options.of_family.associations = Some(number(text, 2..=MOST_ASSOCIATIONS)?);
    Ok(())
}

/// Each has a socket of its own at this end.
const MOST_ASSOCIATIONS: i64 = 1000;

/// An interface's name, or a device file of that name.
fn device(text: &str) -> Result<String, Quit> {
    let name = text.rsplit('/').next().unwrap_or(text);
    // IFNAMSIZ is 16 with the closing NUL: netdevice(7).
    if name.is_empty() || name.len() > 15 {
        return refuse(format!("'{text}' names no network interface"));
    }
    Ok(name.to_owned())
}

fn sap(options: &mut TestOptions, text: &str) -> Result<(), Quit> {
    let sap: u8 = number(text, 2..=254)?;
    if !sap.is_multiple_of(2) {
        return refuse("an odd service access point stands for a group");
    }
    options.of_family.sap = Some(sap);
    Ok(())
}

/// IEEE 802.2 counts its frames modulo 128.
fn windows(socket: &mut SocketOptions, text: &str) -> Result<(), Quit> {
    let (send, receive) = (
        &mut socket.send_window_frames,
        &mut socket.receive_window_frames,
    );
    set([send, receive], text, |half| {
        match count_or_default(half)? {
            Some(frames @ 128..) => refuse(format!("{frames} frames are more than 127")),
            frames => Ok(frames.filter(|frames| *frames > 0)),
        }
    })
}
