//! The test options of the families that have a socket address family or a protocol of their own.

use std::path::PathBuf;

use super::grammar::Argument::{Nothing, Value};
use super::grammar::{Flag, Section, Stop, flag, refuse};
use super::test::{
    Apply, DATA_PORT, IPV4, IPV6, LOCAL_BUFFERS, NO_EFFECT, RECEIVE_SIZE, REMOTE_BUFFERS, SCOPE,
    SEND_SIZE, SIZES, TestOptions, data_end, no_copy_avoidance,
};
use super::value::{Pair, count, count_or_default, number};
use super::{Attachment, Special, Test, TestFamily};

/// What only these families have, as typed.
#[derive(Clone, Default)]
pub(super) struct FamilyOptions {
    /// Unix `-p`.
    pub(super) directory: Option<PathBuf>,
    /// SCTP `-B`.
    pub(super) non_blocking: bool,
    /// SCTP `-N`; 0 is none.
    pub(super) messages: u32,
    /// SCTP `-T`.
    pub(super) associations: Option<u32>,
    /// DLPI `-D`: local, remote.
    pub(super) device: Pair<Option<String>>,
    /// DLPI `-p`: local, remote.
    pub(super) ppa: Pair<Option<u32>>,
    /// DLPI `-s`.
    pub(super) sap: Option<u8>,
    /// DLPI `-w`: send, receive, in frames.
    pub(super) local_window: Pair<Option<u32>>,
    /// DLPI `-W`: send, receive, in frames.
    pub(super) remote_window: Pair<Option<u32>>,
}

impl FamilyOptions {
    /// What only the test's family asks for, or the reason why it cannot be had.
    pub(super) fn special(&self, test: Test) -> Result<Special, Stop> {
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
                let windows = [&self.local_window, &self.remote_window];
                let has_window =
                    |window: &&Pair<Option<u32>>| window.first.is_some() || window.second.is_some();
                if matches!(test, Test::DlclStream | Test::DlclRr) && windows.iter().any(has_window)
                {
                    return refuse(
                        "test options -w and -W need a DLCO test: this one has no connection",
                    );
                }
                Special::Dlpi {
                    local: end(&self.device.first, self.ppa.first)?,
                    remote: end(&self.device.second, self.ppa.second)?,
                    sap: self.sap.unwrap_or(DEFAULT_SAP),
                }
            }
        })
    }
}

pub(super) static UNIX: Section<TestOptions> = Section {
    flags: UNIX_FLAGS,
    scope: SCOPE,
};

pub(super) static SCTP: Section<TestOptions> = Section {
    flags: SCTP_FLAGS,
    scope: SCOPE,
};

pub(super) static DLPI: Section<TestOptions> = Section {
    flags: DLPI_FLAGS,
    scope: SCOPE,
};

#[rustfmt::skip]
const UNIX_FLAGS: &[Flag<TestOptions>] = &[
    flag('h', Nothing, &["-h                Display this text"], HELP),
    flag('m', Value, &["-m bytes          Set the send size (STREAM_STREAM, DG_STREAM)"], SEND_SIZE),
    flag('M', Value, &["-M bytes          Set the recv size (STREAM_STREAM, DG_STREAM)"], RECEIVE_SIZE),
    flag('p', Value, &["-p dir            Set the directory where this end makes its socket"], directory),
    flag('r', Value, &["-r req,[rsp]      Set request/response sizes (STREAM_RR, DG_RR)"], SIZES),
    flag('s', Value, &["-s send[,recv]    Set local socket send/recv buffer sizes"], LOCAL_BUFFERS),
    flag('S', Value, &["-S send[,recv]    Set remote socket send/recv buffer sizes"], REMOTE_BUFFERS),
];

#[rustfmt::skip]
const SCTP_FLAGS: &[Flag<TestOptions>] = &[
    flag('B', Nothing, &["-B                Wait in poll() instead of in the data calls"],
        |t, _| { t.of_family.non_blocking = true; Ok(()) }),
    flag('D', Nothing, &["-D                Set SCTP_NODELAY locally and remotely"],
        |t, _| { t.no_delay = true; Ok(()) }),
    flag('h', Nothing, &["-h                Display this text"], HELP),
    flag('H', Value, &["-H name,fam       Use name (or IP) and family as target of data connection"],
        |t, v| data_end(&mut t.remote, &mut t.notices, v)),
    flag('L', Value, &["-L name,fam       Use name (or IP) and family as source of data connection"],
        |t, v| data_end(&mut t.local, &mut t.notices, v)),
    flag('m', Value, &["-m bytes          Set the send size (SCTP_STREAM, SCTP_STREAM_MANY)"], SEND_SIZE),
    flag('M', Value, &["-M bytes          Set the recv size (SCTP_STREAM, SCTP_STREAM_MANY)"], RECEIVE_SIZE),
    flag('N', Value, &["-N number         End after this many messages or transactions, not by time"],
        |t, v| { t.of_family.messages = count(v)?; Ok(()) }),
    flag('P', Value, &["-P local[,remote] Set the local/remote port for the data socket"], DATA_PORT),
    flag('r', Value, &["-r req,[rsp]      Set request/response sizes (SCTP_RR, SCTP_RR_MANY)"], SIZES),
    flag('s', Value, &["-s send[,recv]    Set local socket send/recv buffer sizes"], LOCAL_BUFFERS),
    flag('S', Value, &["-S send[,recv]    Set remote socket send/recv buffer sizes"], REMOTE_BUFFERS),
    flag('T', Value, &["-T number         Set the number of associations (_MANY), 2 or more"], associations),
    flag('4', Nothing, &["-4                Use AF_INET (eg IPv4) on both ends of the data conn"], IPV4),
    flag('6', Nothing, &["-6                Use AF_INET6 (eg IPv6) on both ends of the data conn"], IPV6),
    flag('V', Nothing, &[], no_copy_avoidance),
    flag('I', Value, &[], NO_EFFECT),
];

#[rustfmt::skip]
const DLPI_FLAGS: &[Flag<TestOptions>] = &[
    flag('D', Value, &["-D local[,remote] Set the network interfaces, as \"eth0\" or with -p as \"eth\""],
        |t, v| t.of_family.device.set(v, |half| device(half).map(Some))),
    flag('h', Nothing, &["-h                Display this text"], HELP),
    flag('m', Value, &["-m bytes          Set the send size (DLCO_STREAM, DLCL_STREAM)"], SEND_SIZE),
    flag('M', Value, &["-M bytes          Set the recv size (DLCO_STREAM, DLCL_STREAM)"], RECEIVE_SIZE),
    flag('p', Value, &[
        "-p loc[,rem]      Set the local/remote PPA: the number behind the",
        "                  interface's name, or without -D its index",
    ], |t, v| t.of_family.ppa.set(v, |half| count(half).map(Some))),
    flag('r', Value, &["-r req,[rsp]      Set request/response sizes (DLCO_RR, DLCL_RR)"], SIZES),
    flag('s', Value, &["-s sap            Set the 802.2 service access point, an even number (84)"], sap),
    flag('w', Value, &["-w send[,recv]    Set local send/recv window sizes in frames (DLCO)"],
        |t, v| t.of_family.local_window.set(v, window)),
    flag('W', Value, &["-W send[,recv]    Set remote send/recv window sizes in frames (DLCO)"],
        |t, v| t.of_family.remote_window.set(v, window)),
];

/// As few as a test of many can have.
pub(super) const DEFAULT_ASSOCIATIONS: u32 = 2;

/// The stock tool's.
pub(super) const DEFAULT_SAP: u8 = 84;

const HELP: Apply = |_, _| Err(Stop::Help);

fn directory(options: &mut TestOptions, text: &str) -> Result<(), Stop> {
    if text.is_empty() {
        return refuse("no directory given");
    }
    options.of_family.directory = Some(PathBuf::from(text));
    Ok(())
}

/// The stock tool, too, ends on one that is not more than 1.
fn associations(options: &mut TestOptions, text: &str) -> Result<(), Stop> {
    options.of_family.associations = Some(number(text, 2..=MOST_ASSOCIATIONS)?);
    Ok(())
}

/// Each has a socket of its own at this end.
const MOST_ASSOCIATIONS: i64 = 1000;

/// An interface's name, or a device file of that name.
fn device(text: &str) -> Result<String, Stop> {
    let name = text.rsplit('/').next().unwrap_or(text);
    // IFNAMSIZ is 16 with the closing NUL: netdevice(7).
    if name.is_empty() || name.len() > 15 {
        return refuse(format!("'{text}' names no network interface"));
    }
    Ok(name.to_owned())
}

fn sap(options: &mut TestOptions, text: &str) -> Result<(), Stop> {
    let sap: u8 = number(text, 2..=254)?;
    if !sap.is_multiple_of(2) {
        return refuse("an odd service access point stands for a group");
    }
    options.of_family.sap = Some(sap);
    Ok(())
}

/// IEEE 802.2 counts its frames modulo 128.
fn window(text: &str) -> Result<Option<u32>, Stop> {
    match count_or_default(text)? {
        Some(frames @ 128..) => refuse(format!("{frames} frames are more than 127")),
        frames => Ok(frames.filter(|frames| *frames > 0)),
    }
}
