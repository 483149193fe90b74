//! The test options of the Unix domain, SCTP and DLPI tests.

use std::path::PathBuf;

use getopt::Argument::{Nothing, Value};
use getopt::{EarlyExit, Section, refuse, stock_letter};
use model::SocketOptions;

use super::rings::{MESSAGE_SIZES, RECEIVE_SIZE, SEND_SIZE};
use super::test::{
    HELP, IPV4, IPV6, LOCAL_BUFFERS, NO_DELAY_AT_BOTH_ENDS, NO_EFFECT, PORTS, REMOTE_BUFFERS,
    SCOPE, SOURCE, TARGET, TestOptions, report_no_copy_avoidance,
};
use super::value::{count, number, optional_count, set_both};
use super::{DlpiInterface, FamilySettings, Test, TestFamily};

/// The options that only these families have, as typed.
#[derive(Clone, Default)]
pub(super) struct FamilyOptions {
    /// Unix `-p`: the parent directory of the local socket.
    pub(super) directory: Option<PathBuf>,
    /// SCTP `-N`: the number of messages or transactions; 0 if not given.
    pub(super) messages: u32,
    /// SCTP `-T`: the number of associations.
    pub(super) associations: Option<u32>,
    /// DLPI `-D`: the local and the remote interface.
    pub(super) device: [Option<String>; 2],
    /// DLPI `-p`: the local and the remote interface number.
    pub(super) ppa: [Option<u32>; 2],
    /// DLPI `-s`: the service access point.
    pub(super) sap: Option<u8>,
}

impl FamilyOptions {
    /// Returns the settings of the test's family, or a refusal. `sockets` is local, remote.
    pub(super) fn family_settings(
        &self,
        test: Test,
        sockets: [&SocketOptions; 2],
    ) -> Result<FamilySettings, EarlyExit> {
        Ok(match test.family() {
            TestFamily::Inet => FamilySettings::Inet,
            TestFamily::Unix => FamilySettings::Unix {
                directory: self.directory.clone(),
            },
            TestFamily::Sctp => FamilySettings::Sctp {
                associations: match (test, self.associations) {
                    (Test::SctpStreamMany | Test::SctpRrMany, associations) => {
                        associations.unwrap_or(DEFAULT_ASSOCIATIONS)
                    }
                    (_, None) => 1,
                    (_, Some(_)) => {
                        return refuse(
                            "test option -T needs a _MANY test: this test has only one association",
                        );
                    }
                },
            },
            TestFamily::Dlpi => {
                let interface = |device: &Option<String>, ppa| match (device.clone(), ppa) {
                    (None, None) => refuse(
                        "specify the network interfaces by name (test option -D) or by index (test option -p)",
                    ),
                    (device, ppa) => Ok(DlpiInterface { device, ppa }),
                };
                let has_window = |socket: &SocketOptions| {
                    socket.send_window_frames.is_some() || socket.receive_window_frames.is_some()
                };
                if matches!(test, Test::DlclStream | Test::DlclRr)
                    && sockets.into_iter().any(has_window)
                {
                    return refuse(
                        "test options -w and -W need a DLCO test: this test has no connection",
                    );
                }
                FamilySettings::Dlpi {
                    local: interface(&self.device[0], self.ppa[0])?,
                    remote: interface(&self.device[1], self.ppa[1])?,
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
    options: &[
    HELP,
    stock_letter('m', Value("bytes"), &["-m bytes          Set the send size (STREAM_STREAM, DG_STREAM)"],
        "Bytes per send call, by default the size of the socket's send buffer; at most 65507 per datagram.",
        SEND_SIZE),
    stock_letter('M', Value("bytes"), &["-M bytes          Set the recv size (STREAM_STREAM, DG_STREAM)"],
        "Bytes per receive call of the remote end.", RECEIVE_SIZE),
    stock_letter('p', Value("dir"), &["-p dir            Set the directory where this end makes its socket"],
        "Create the local socket below this directory, /tmp by default. The server creates its socket below the directory of its option --unix-dir.",
        set_directory),
    stock_letter('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (STREAM_RR, DG_RR)"],
        "Bytes of a request and of a response, 1 by default.", MESSAGE_SIZES),
    LOCAL_BUFFERS,
    REMOTE_BUFFERS,
]};

#[rustfmt::skip]
pub(super) static SCTP: Section<TestOptions> = Section {
    title: "TEST OPTIONS OF SCTP_STREAM, SCTP_RR AND THEIR _MANY FORMS",
    heading: "SCTP Sockets Test Options:",
    scope: SCOPE,
    options: &[
    stock_letter('B', Nothing, &["-B                Wait in poll() instead of in the data calls"],
        "Wait in poll(2) where a data call would wait, at both ends.",
        |t, _| { (t.local.socket.non_blocking, t.remote.socket.non_blocking) = (true, true); Ok(()) }),
    stock_letter('D', Nothing, &["-D                Set SCTP_NODELAY locally and remotely"],
        "Set SCTP_NODELAY at both ends.", NO_DELAY_AT_BOTH_ENDS),
    HELP,
    TARGET,
    SOURCE,
    stock_letter('m', Value("bytes"), &["-m bytes          Set the send size (SCTP_STREAM, SCTP_STREAM_MANY)"],
        "Bytes per message: by default 32768, or the size of the socket's send buffer if that is smaller.", SEND_SIZE),
    stock_letter('M', Value("bytes"), &["-M bytes          Set the recv size (SCTP_STREAM, SCTP_STREAM_MANY)"],
        "Bytes per receive call of the remote end.", RECEIVE_SIZE),
    stock_letter('N', Value("number"), &["-N number         End after this many messages or transactions, not by time"],
        "End the test after this number of messages or transactions, not after a time.",
        |t, v| { t.family.messages = count(v)?; Ok(()) }),
    PORTS,
    stock_letter('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (SCTP_RR, SCTP_RR_MANY)"],
        "Bytes of a request and of a response, 1 by default.", MESSAGE_SIZES),
    LOCAL_BUFFERS,
    REMOTE_BUFFERS,
    stock_letter('T', Value("number"), &["-T number         Set the number of associations (_MANY), 2 or more"],
        "Number of associations of a _MANY test, 2 by default. The client uses them in turn. The server has all of them on one socket.",
        set_associations),
    IPV4,
    IPV6,
    stock_letter('V', Nothing, &[], "Not available in these tests; netperf prints a notice.", report_no_copy_avoidance),
    stock_letter('I', Value("text"), &[], "No effect, as in the stock tool.", NO_EFFECT),
]};

#[rustfmt::skip]
pub(super) static DLPI: Section<TestOptions> = Section {
    title: "TEST OPTIONS OF DLCO_STREAM, DLCO_RR, DLCL_STREAM AND DLCL_RR",
    heading: "DLPI Test Options, on Linux over LLC Sockets:",
    scope: SCOPE,
    options: &[
    stock_letter('D', Value("local[,remote]"), &["-D local[,remote] Set the network interfaces, as \"eth0\" or with -p as \"eth\""],
        "The network interface of each end: its name, or with -p the name without its number. The path of a device file, such as /dev/eth0, stands for its last component.",
        |t, v| set_both(t.family.device.each_mut(), v, |name| parse_interface_name(name).map(Some))),
    HELP,
    stock_letter('m', Value("bytes"), &["-m bytes          Set the send size (DLCO_STREAM, DLCL_STREAM)"],
        "Bytes of payload per frame, 1400 by default. A payload above the interface's MTU is refused.",
        SEND_SIZE),
    stock_letter('M', Value("bytes"), &["-M bytes          Set the recv size (DLCO_STREAM, DLCL_STREAM)"],
        "Bytes per receive call of the remote end.", RECEIVE_SIZE),
    stock_letter('p', Value("local[,remote]"), &[
        "-p loc[,rem]      Set the local/remote PPA: the number behind the",
        "                  interface's name, or without -D its index",
    ], "The PPA: the number after the interface's name, or without -D the interface's index.",
        |t, v| set_both(t.family.ppa.each_mut(), v, |word| count(word).map(Some))),
    stock_letter('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (DLCO_RR, DLCL_RR)"],
        "Bytes of a request and of a response, 1 by default.", MESSAGE_SIZES),
    stock_letter('s', Value("sap"), &["-s sap            Set the 802.2 service access point, an even number (84)"],
        "The 802.2 service access point, an even number. Default 84. The local end uses another access point if this one is in use.",
        set_sap),
    stock_letter('w', Value("send[,recv]"), &["-w send[,recv]    Set local send/recv window sizes in frames (DLCO)"],
        "Windows of the local end in frames, at most 127 (DLCO tests).",
        |t, v| set_windows(&mut t.local.socket, v)),
    stock_letter('W', Value("send[,recv]"), &["-W send[,recv]    Set remote send/recv window sizes in frames (DLCO)"],
        "Windows of the remote end.", |t, v| set_windows(&mut t.remote.socket, v)),
]};

/// The default number of associations of a `_MANY` test, which is also the minimum.
pub(super) const DEFAULT_ASSOCIATIONS: u32 = 2;

/// The default service access point, as in the stock tool.
pub(super) const DEFAULT_SAP: u8 = 84;

fn set_directory(options: &mut TestOptions, text: &str) -> Result<(), EarlyExit> {
    if text.is_empty() {
        return refuse("no directory given");
    }
    options.family.directory = Some(PathBuf::from(text));
    Ok(())
}

/// Applies SCTP `-T`. Like the stock tool, it refuses fewer than 2 associations.
fn set_associations(options: &mut TestOptions, text: &str) -> Result<(), EarlyExit> {
    options.family.associations = Some(number(text, 2..=MAX_ASSOCIATIONS)?);
    Ok(())
}

/// The maximum number of associations. Each one uses a local socket.
const MAX_ASSOCIATIONS: i64 = 1000;

/// Parses an interface's name. The path of a device file stands for its last component.
fn parse_interface_name(text: &str) -> Result<String, EarlyExit> {
    let name = text.rsplit('/').next().unwrap_or(text);
    // IFNAMSIZ is 16 with the closing NUL: netdevice(7).
    if name.is_empty() || name.len() > 15 {
        return refuse(format!("'{text}' is not the name of a network interface"));
    }
    Ok(name.to_owned())
}

fn set_sap(options: &mut TestOptions, text: &str) -> Result<(), EarlyExit> {
    let sap: u8 = number(text, 2..=254)?;
    if !sap.is_multiple_of(2) {
        return refuse("an odd service access point is a group address; use an even number");
    }
    options.family.sap = Some(sap);
    Ok(())
}

/// Applies `-w` or `-W`. IEEE 802.2 numbers frames modulo 128, so a window has at most 127.
fn set_windows(socket: &mut SocketOptions, text: &str) -> Result<(), EarlyExit> {
    let (send, receive) = (
        &mut socket.send_window_frames,
        &mut socket.receive_window_frames,
    );
    set_both([send, receive], text, |word| match optional_count(word)? {
        Some(frames @ 128..) => refuse(format!("a window of {frames} frames is larger than 127")),
        frames => Ok(frames.filter(|frames| *frames > 0)),
    })
}
