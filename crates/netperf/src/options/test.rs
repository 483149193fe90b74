//! The options after `--`: what they are, and what was typed.

#![expect(
    clippy::unnecessary_wraps,
    reason = "what an option does may fail, and one that does not still goes into the table"
)]

use std::time::Duration;

use model::Transport;

use super::Family;
use super::families::FamilyOptions;
use super::global::endpoint;
use super::grammar::Argument::{MaybeSelection, Nothing, Value};
use super::grammar::{Flag, Section, Stop, flag, refuse};
use super::selection::{Selected, select};
use super::value::{Pair, c_integer, count, count_or_default, number, port, word};

/// The options after `--`, as typed. What was not typed is `None`.
#[derive(Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one option without a value"
)]
pub(super) struct TestOptions {
    /// `-a`.
    pub(super) defer_accept: bool,
    /// `-b`.
    pub(super) burst: u32,
    /// `-B`.
    pub(super) answer_from_destination: bool,
    /// `-c`.
    pub(super) connection: bool,
    /// `-C`.
    pub(super) cork: bool,
    /// `-d`: transmit, receive.
    pub(super) direction: Option<(bool, bool)>,
    /// `-D`.
    pub(super) no_delay: bool,
    /// `-e`.
    pub(super) receive_timeout: Option<Duration>,
    /// `-F`.
    pub(super) fast_open: bool,
    /// `-g`.
    pub(super) debug: bool,
    /// `-G`.
    pub(super) max_segment: Option<u32>,
    /// `-H`.
    pub(super) remote: DataEnd,
    /// `-I`.
    pub(super) write_instead_of_send: bool,
    /// `-k`, `-o`, `-O`: the last of them.
    pub(super) output: Option<(Printed, Selected)>,
    /// `-K`: local, remote.
    pub(super) congestion_control: Pair<Option<String>>,
    /// `-l`.
    pub(super) multicast_ttl: Option<u8>,
    /// `-L`.
    pub(super) local: DataEnd,
    /// `-m`: local, remote; 0 is the default.
    pub(super) send_size: Pair<Option<u32>>,
    /// `-M`: **remote, local**; 0 is the default.
    pub(super) receive_size: Pair<Option<u32>>,
    /// `-n`.
    pub(super) connect_datagrams: bool,
    /// `-p`: first, last.
    pub(super) ports: Option<Pair<u16>>,
    /// `-P`: local, remote.
    pub(super) port: Pair<Option<String>>,
    /// `-r`: request, response.
    pub(super) sizes: Pair<Option<u32>>,
    /// `-R`.
    pub(super) routing: Option<bool>,
    /// `-s`: send, receive.
    pub(super) local_buffers: Pair<Option<u32>>,
    /// `-S`: send, receive.
    pub(super) remote_buffers: Pair<Option<u32>>,
    /// `-T`.
    pub(super) transport: Option<Transport>,
    /// `-t`, if it came after `-T`, which sets it too.
    pub(super) socket: Option<Socket>,
    /// `-u`.
    pub(super) uuid: Option<String>,
    /// `-U`.
    pub(super) retry_all: bool,
    /// `-V`.
    pub(super) copy_avoidance: bool,
    /// `-W`; 0 is the default.
    pub(super) width: u32,
    /// What only the Unix domain, SCTP and DLPI tests have.
    pub(super) of_family: FamilyOptions,
    /// Lines for stdout.
    pub(super) notices: Vec<String>,
    /// Lines for stderr.
    pub(super) warnings: Vec<String>,
}

/// One end of the data connection: `-H`, `-L`, `-4`, `-6`.
#[derive(Clone, Default)]
pub(super) struct DataEnd {
    pub(super) host: Option<String>,
    pub(super) bits: Option<u8>,
    pub(super) family: Family,
}

/// Which of `-O`, `-o`, `-k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    Human,
    Csv,
    KeyVal,
}

/// `-t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Socket {
    Stream,
    Datagram,
}

pub(super) static OMNI: Section<TestOptions> = Section {
    flags: OMNI_FLAGS,
    scope: SCOPE,
};

pub(super) static CLASSIC: Section<TestOptions> = Section {
    flags: CLASSIC_FLAGS,
    scope: SCOPE,
};

pub(super) const SCOPE: &str = "test option ";

/// Of the migrated tests and OMNI, in the order of the stock tool's help.
#[rustfmt::skip]
const OMNI_FLAGS: &[Flag<TestOptions>] = &[
    flag('b', Value, &["-b number         Send number requests at start of _RR tests"],
        |t, v| { t.burst = count(v)?; Ok(()) }),
    flag('c', Nothing, &[
        "-c                Explicitly declare this a connection test such as",
        "                  TCP_CRR or TCP_CC",
    ], |t, _| { t.connection = true; Ok(()) }),
    flag('C', Nothing, &["-C                Set TCP_CORK when available"],
        |t, _| { t.cork = true; Ok(()) }),
    flag('d', Value, &[
        "-d direction      Explicitly set test direction based on bitwise OR",
        "                  of 0x2 for transmit and 0x4 for receive. Default:",
        "                  based on test type",
    ], explicit_direction),
    // It takes no argument, whatever the stock help says.
    flag('D', Nothing, &["-D [L][,R]        Set TCP_NODELAY locally and/or remotely (TCP_*)"],
        |t, _| { t.no_delay = true; Ok(()) }),
    flag('h', Nothing, &["-h                Display this text"], |_, _| Err(Stop::Help)),
    flag('H', Value, &[
        "-H name[/mask],fam  Use name (or IP) and family as target of data connection",
        "                  A mask value will cause randomization of the IP used",
    ], |t, v| data_end(&mut t.remote, &mut t.notices, v)),
    flag('k', MaybeSelection, &[
        "-k [file]         Generate keyval output optionally based on file",
        "                  Use filename of '?' to get the list of choices",
    ], |t, v| { t.output = Some((Printed::KeyVal, select(v)?)); Ok(()) }),
    flag('K', Value, &[
        "-K loc[,rem]      Set the local and/or remote congestion control",
        "                  algorithm to use on those platforms where it can",
        "                  be set.",
    ], congestion_control),
    flag('L', Value, &[
        "-L name[/mask],fam  Use name (or IP) and family as source of data connection",
        "                  A mask value will cause randomization of the IP used",
    ], |t, v| data_end(&mut t.local, &mut t.notices, v)),
    flag('m', Value, &["-m local,remote   Set the send size for _STREAM/_MAERTS tests"], SEND_SIZE),
    flag('M', Value, &["-M local,remote   Set the recv size for _STREAM/_MAERTS tests"], RECEIVE_SIZE),
    flag('n', Nothing, &["-n                Use the connected socket for UDP locally"],
        |t, _| { t.connect_datagrams = true; Ok(()) }),
    flag('N', Nothing, &["-N                Use the connected socket for UDP remotely"], NO_EFFECT),
    flag('o', MaybeSelection, &[
        "-o [file]         Generate CSV output optionally based on file",
        "                  Use filename of '?' to get the list of choices",
    ], |t, v| { t.output = Some((Printed::Csv, select(v)?)); Ok(()) }),
    flag('O', MaybeSelection, &[
        "-O [file]         Generate classic-style output based on file",
        "                  Use filename of '?' to get the list of choices",
    ], |t, v| { t.output = Some((Printed::Human, select(v)?)); Ok(()) }),
    flag('p', Value, &["-p min[,max]      Set the min/max port numbers for TCP_CRR, TCP_TRR"], port_range),
    flag('P', Value, &["-P local[,remote] Set the local/remote port for the data socket"], DATA_PORT),
    flag('r', Value, &["-r req,[rsp]      Set request/response sizes (TCP_RR, UDP_RR)"], SIZES),
    flag('R', Value, &[
        "-R 0/1            Allow routing of traffic on data connection.",
        "                  Default: 0 (off) for UDP_STREAM, 1 (on) otherwise",
    ], ROUTING),
    flag('s', Value, &["-s send[,recv]    Set local socket send/recv buffer sizes"], LOCAL_BUFFERS),
    flag('S', Value, &["-S send[,recv]    Set remote socket send/recv buffer sizes"], REMOTE_BUFFERS),
    flag('t', Value, &[
        "-t type           Explicitly set socket type. Default is implicit",
        "                  based on other settings",
    ], socket),
    flag('T', Value, &[
        "-T protocol       Explicitly set data connection protocol. Default is",
        "                  implicit based on other settings",
    ], protocol),
    // The stock tool, too, keeps as much of a longer one.
    flag('u', Value, &["-u uuid           Use the supplied string as the UUID for this test."],
        |t, v| { t.uuid = Some(v.chars().take(37).collect()); Ok(()) }),
    flag('4', Nothing, &["-4                Use AF_INET (eg IPv4) on both ends of the data conn"], IPV4),
    flag('6', Nothing, &["-6                Use AF_INET6 (eg IPv6) on both ends of the data conn"], IPV6),
    flag('a', Nothing, &[], |t, _| { t.defer_accept = true; Ok(()) }),
    flag('B', Nothing, &[], |t, _| { t.answer_from_destination = true; Ok(()) }),
    flag('e', Value, &[], receive_timeout),
    flag('F', Nothing, &[], |t, _| { t.fast_open = true; Ok(()) }),
    flag('g', Nothing, &[], |t, _| { t.debug = true; Ok(()) }),
    flag('G', Value, &[], |t, v| { t.max_segment = count_or_default(v)?; Ok(()) }),
    flag('i', Value, &[], check_interval),
    flag('I', Nothing, &[], |t, _| { t.write_instead_of_send = true; Ok(()) }),
    // Parallel connections that the stock tool never came to open.
    flag('j', Value, &[], |_, v| count(v).map(drop)),
    flag('l', Value, &[], |t, v| { t.multicast_ttl = multicast_ttl(v)?; Ok(()) }),
    flag('U', Nothing, &[], |t, _| { t.retry_all = true; Ok(()) }),
    flag('V', Nothing, &[], |t, _| { t.copy_avoidance = true; Ok(()) }),
    flag('w', Value, &[], NO_EFFECT),
    flag('W', Value, &[], WIDTH),
];

/// Of TCP_SENDFILE, TCP_CC and TCP_MSS, in the order of the stock tool's help.
#[rustfmt::skip]
const CLASSIC_FLAGS: &[Flag<TestOptions>] = &[
    // No classic test sends requests ahead, but harnesses pass it with every test.
    flag('b', Value, &["-b number         Send number requests at start of _RR tests"],
        |_, v| count(v).map(drop)),
    flag('C', Nothing, &["-C                Set TCP_CORK when available"],
        |t, _| { t.cork = true; Ok(()) }),
    flag('D', Nothing, &["-D [L][,R]        Set TCP_NODELAY locally and/or remotely (TCP_*)"],
        |t, _| { t.no_delay = true; Ok(()) }),
    flag('h', Nothing, &["-h                Display this text"], |_, _| Err(Stop::Help)),
    flag('H', Value, &["-H name,fam       Use name (or IP) and family as target of data connection"],
        |t, v| data_end(&mut t.remote, &mut t.notices, v)),
    flag('L', Value, &["-L name,fam       Use name (or IP) and family as source of data connection"],
        |t, v| data_end(&mut t.local, &mut t.notices, v)),
    flag('m', Value, &["-m bytes          Set the send size (TCP_STREAM, UDP_STREAM)"], SEND_SIZE),
    flag('M', Value, &["-M bytes          Set the recv size (TCP_STREAM, UDP_STREAM)"], RECEIVE_SIZE),
    flag('n', Nothing, &["-n                Use the connected socket for UDP locally"], NO_EFFECT),
    flag('N', Nothing, &["-N                Use the connected socket for UDP remotely"], NO_EFFECT),
    flag('p', Value, &["-p min[,max]      Set the min/max port numbers for TCP_CRR, TCP_TRR"], port_range),
    flag('P', Value, &["-P local[,remote] Set the local/remote port for the data socket"], DATA_PORT),
    flag('r', Value, &["-r req,[rsp]      Set request/response sizes (TCP_RR, UDP_RR)"], SIZES),
    flag('s', Value, &["-s send[,recv]    Set local socket send/recv buffer sizes"], LOCAL_BUFFERS),
    flag('S', Value, &["-S send[,recv]    Set remote socket send/recv buffer sizes"], REMOTE_BUFFERS),
    flag('4', Nothing, &["-4                Use AF_INET (eg IPv4) on both ends of the data conn"], IPV4),
    flag('6', Nothing, &["-6                Use AF_INET6 (eg IPv6) on both ends of the data conn"], IPV6),
    flag('R', Value, &[], ROUTING),
    flag('V', Nothing, &[], no_copy_avoidance),
    flag('W', Value, &[], WIDTH),
    flag('T', Value, &[], NO_EFFECT),
    flag('w', Value, &[], NO_EFFECT),
    flag('z', Nothing, &[], NO_EFFECT),
];

pub(super) type Apply = super::grammar::Apply<TestOptions>;

pub(super) const SEND_SIZE: Apply = |t, v| t.send_size.set_first(v, |half| Ok(Some(count(half)?)));
pub(super) const RECEIVE_SIZE: Apply =
    |t, v| t.receive_size.set_first(v, |half| Ok(Some(count(half)?)));
pub(super) const DATA_PORT: Apply = |t, v| t.port.set(v, |half| Ok(Some(port(half)?)));
pub(super) const LOCAL_BUFFERS: Apply = |t, v| t.local_buffers.set(v, count_or_default);
pub(super) const REMOTE_BUFFERS: Apply = |t, v| t.remote_buffers.set(v, count_or_default);
pub(super) const SIZES: Apply = |t, v| {
    t.sizes
        .set(v, |half| Ok(Some(number(half, 1..=i64::from(i32::MAX))?)))
};
const ROUTING: Apply = |t, v| {
    t.routing = Some(word(v)? != 0);
    Ok(())
};
const WIDTH: Apply = |t, v| {
    t.width = count(v)?;
    Ok(())
};
pub(super) const IPV4: Apply = |t, _| {
    t.remote.family = Family::V4;
    t.local.family = Family::V4;
    Ok(())
};
pub(super) const IPV6: Apply = |t, _| {
    t.remote.family = Family::V6;
    t.local.family = Family::V6;
    Ok(())
};
/// What the stock tool takes and never looks at.
pub(super) const NO_EFFECT: Apply = |_, _| Ok(());

/// `name[/bits][,family]`.
pub(super) fn data_end(
    end: &mut DataEnd,
    notices: &mut Vec<String>,
    text: &str,
) -> Result<(), Stop> {
    let mut host = None;
    endpoint(&mut host, &mut end.family, notices, text);
    let Some(host) = host else {
        return Ok(());
    };
    let (name, bits) = match host.split_once('/') {
        Some((name, bits)) => (name, Some(number(bits, 0..=128)?)),
        None => (host.as_str(), None),
    };
    if name.is_empty() {
        return refuse("no name before the '/'");
    }
    end.host = Some(name.to_owned());
    end.bits = bits;
    Ok(())
}

/// `crr` is `rr` with `-c`; the stock tool takes it for 0.
fn explicit_direction(options: &mut TestOptions, text: &str) -> Result<(), Stop> {
    if text.eq_ignore_ascii_case("crr") {
        options.connection = true;
        options.direction = Some((true, true));
        return Ok(());
    }
    options.direction = Some(direction(text)?);
    Ok(())
}

/// Names of directions joined by `|`, or a number: 2 to transmit, 4 to receive.
fn direction(text: &str) -> Result<(bool, bool), Stop> {
    let mut direction = (false, false);
    for word in text.split('|') {
        let (transmit, receive) = match word.trim().to_ascii_lowercase().as_str() {
            "xmit" | "send" | "stream" | "transmit" => (true, false),
            "recv" | "receive" | "maerts" => (false, true),
            "rr" => (true, true),
            number => match c_integer(number) {
                Some(bits @ 0..=7) => (bits & 2 != 0, bits & 4 != 0),
                _ => return refuse(format!("'{word}' is not a direction")),
            },
        };
        direction.0 |= transmit;
        direction.1 |= receive;
    }
    Ok(direction)
}

/// The remote name counts from three characters on, as in the stock tool.
fn congestion_control(options: &mut TestOptions, text: &str) -> Result<(), Stop> {
    let mut names = Pair::of(None);
    names.set(text, |name| {
        // TCP_CA_NAME_MAX is 16 with the closing NUL.
        if name.len() > 15 {
            return refuse(format!("'{name}' has more than 15 characters"));
        }
        Ok(Some(name.to_owned()).filter(|name| !name.is_empty()))
    })?;
    names.second = names.second.filter(|name| name.len() >= 3);
    options.congestion_control = names;
    Ok(())
}

fn port_range(options: &mut TestOptions, text: &str) -> Result<(), Stop> {
    let mut ports = Pair {
        first: super::plan::DEFAULT_PORTS.0,
        second: super::plan::DEFAULT_PORTS.1,
    };
    ports.set(text, |half| number(half, 1..=i64::from(u16::MAX)))?;
    if ports.first > ports.second {
        return refuse(format!(
            "port {} is above port {}",
            ports.first, ports.second
        ));
    }
    if ports.first == u16::MAX {
        return refuse("no port is left above 65534");
    }
    options.ports = Some(ports);
    Ok(())
}

fn socket(options: &mut TestOptions, text: &str) -> Result<(), Stop> {
    options.socket = match text.to_ascii_lowercase().as_str() {
        "stream" => Some(Socket::Stream),
        "dgram" => Some(Socket::Datagram),
        _ => return refuse("not a socket type: stream or dgram"),
    };
    Ok(())
}

fn protocol(options: &mut TestOptions, text: &str) -> Result<(), Stop> {
    options.transport = match text.to_ascii_lowercase().as_str() {
        "tcp" => Some(Transport::Tcp),
        "udp" => Some(Transport::Udp),
        "udplite" => Some(Transport::UdpLite),
        "sctp" => Some(Transport::Sctp),
        "dccp" => Some(Transport::Dccp),
        "mptcp" => Some(Transport::Mptcp),
        "vsock" => Some(Transport::Vsock),
        "sdp" => return refuse("the Sockets Direct Protocol has no provider on Linux"),
        _ => return refuse("not a protocol: tcp, mptcp, udp, udplite, sctp, dccp or vsock"),
    };
    options.socket = None;
    Ok(())
}

fn receive_timeout(options: &mut TestOptions, text: &str) -> Result<(), Stop> {
    options.receive_timeout = count_or_default(text)?
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Duration::from_secs(seconds.into()));
    Ok(())
}

fn multicast_ttl(text: &str) -> Result<Option<u8>, Stop> {
    let ttl: i32 = number(text, -1..=255)?;
    Ok(u8::try_from(ttl).ok())
}

fn check_interval(options: &mut TestOptions, _: &str) -> Result<(), Stop> {
    options.warnings.push(
        "The support for check_interval has been removed because the contributing editor no longer \
         knew what it was for"
            .to_owned(),
    );
    Ok(())
}

pub(super) fn no_copy_avoidance(options: &mut TestOptions, _: &str) -> Result<(), Stop> {
    for which in ["send", "recv"] {
        options
            .notices
            .push(format!("Local {which} copy avoidance not available."));
    }
    // Its banner says so all the same, and its request asks the peer.
    options.copy_avoidance = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions() {
        for (text, expected) in [
            ("send", Some((true, false))),
            ("XMIT", Some((true, false))),
            ("transmit", Some((true, false))),
            ("maerts", Some((false, true))),
            ("recv|send", Some((true, true))),
            ("rr", Some((true, true))),
            ("2", Some((true, false))),
            ("0x4", Some((false, true))),
            ("6", Some((true, true))),
            ("0", Some((false, false))),
            ("8", None),
            ("crr", None),
            ("", None),
        ] {
            assert_eq!(direction(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn data_ends() {
        for (text, host, bits, family) in [
            ("a", Some("a"), None, Family::Unspecified),
            ("a,6", Some("a"), None, Family::V6),
            (",4", None, None, Family::V4),
            ("10.0.0.1/24,4", Some("10.0.0.1"), Some(24), Family::V4),
            (
                "fe80::1%eth0",
                Some("fe80::1%eth0"),
                None,
                Family::Unspecified,
            ),
            (
                "fe80::1%eth0/64,inet6",
                Some("fe80::1%eth0"),
                Some(64),
                Family::V6,
            ),
        ] {
            let mut end = DataEnd::default();
            data_end(&mut end, &mut Vec::new(), text).unwrap();
            assert_eq!(end.host.as_deref(), host, "{text}");
            assert_eq!(end.bits, bits, "{text}");
            assert_eq!(end.family, family, "{text}");
        }
        for text in ["a/x", "a/129", "/8"] {
            let mut end = DataEnd::default();
            assert!(data_end(&mut end, &mut Vec::new(), text).is_err(), "{text}");
        }
    }

    #[test]
    fn congestion_control_names() {
        for (text, local, remote) in [
            ("cubic", Some("cubic"), Some("cubic")),
            ("cubic,", Some("cubic"), None),
            (",reno", None, Some("reno")),
            ("cubic,ab", Some("cubic"), None),
        ] {
            let mut test = TestOptions::default();
            congestion_control(&mut test, text).unwrap();
            assert_eq!(test.congestion_control.first.as_deref(), local, "{text}");
            assert_eq!(test.congestion_control.second.as_deref(), remote, "{text}");
        }
    }
}
