//! The options after `--`: what they are, and what was typed.

#![expect(
    clippy::unnecessary_wraps,
    reason = "what an option does may fail, and one that does not still goes into the table"
)]

use std::time::Duration;

use getopt::Argument::{MaybeSelection, Nothing, Value};
use getopt::{Flag, Quit, Section, flag, refuse};
use model::{Half, SocketOptions, Transport};

use super::families::FamilyOptions;
use super::global::endpoint;
use super::rings::{RECEIVE_SIZE, SEND_SIZE, SIZES, WIDTH};
use super::selection::{Selected, select};
use super::value::{c_integer, count, count_or_default, number, port, set, word};
use super::{ConnectionPorts, Family};
use crate::conventions::DEFER_ACCEPT_SECONDS;
use crate::selector::Needs;

/// The options after `--`, as typed. What was not typed is `None`.
#[derive(Clone, Default)]
pub(super) struct TestOptions {
    /// What the options that concern one end say of this one, the global ones too. A buffer's size of 0 bytes was
    /// typed, and is the default.
    pub(super) here: Half,
    /// The same of the peer.
    pub(super) there: Half,
    /// `-b`.
    pub(super) burst: u32,
    /// `-c`.
    pub(super) connection: bool,
    /// `-d`: transmit, receive.
    pub(super) direction: Option<(bool, bool)>,
    /// `-H`.
    pub(super) remote: DataEnd,
    /// `-k`, `-o`, `-O`: the last of them.
    pub(super) output: Option<(Printed, Selected)>,
    /// `-L`.
    pub(super) local: DataEnd,
    /// `-p`, `-U`.
    pub(super) ports: ConnectionPorts,
    /// `-P`: local, remote.
    pub(super) port: [Option<String>; 2],
    /// `-r`: request, response.
    pub(super) sizes: [Option<u32>; 2],
    /// `-R`.
    pub(super) routing: Option<bool>,
    /// `-T`.
    pub(super) transport: Option<Transport>,
    /// `-t`, if it came after `-T`, which sets it too.
    pub(super) socket: Option<Socket>,
    /// `-u`.
    pub(super) uuid: Option<String>,
    /// `-W`; 0 is the default.
    pub(super) width: u32,
    /// What only the Unix domain, SCTP and DLPI tests have.
    pub(super) of_family: FamilyOptions,
    /// Lines for stdout.
    pub(super) notices: Vec<String>,
    /// Lines for stderr.
    pub(super) warnings: Vec<String>,
}

impl TestOptions {
    /// Returns what the selected output needs.
    pub(super) fn needs(&self) -> Needs {
        let output = self.output.as_ref();
        output
            .map(|(_, selected)| selected.needs)
            .unwrap_or_default()
    }
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

pub(super) const SCOPE: &str = "test option ";

/// Of the migrated tests and OMNI, in the order of the stock tool's help.
#[rustfmt::skip]
pub(super) static OMNI: Section<TestOptions> = Section {
    title: "TEST OPTIONS",
    heading: "OMNI and Migrated BSD Sockets Test Options:",
    scope: SCOPE,
    flags: &[
    flag('b', Value("requests"), &["-b number         Send number requests at start of _RR tests"],
        "In request/response tests, keep so many requests in flight beyond the one. Default 0.",
        |t, v| { t.burst = count(v)?; Ok(()) }),
    flag('c', Nothing, &[
        "-c                Explicitly declare this a connection test such as",
        "                  TCP_CRR or TCP_CC",
    ], "A connection for each transaction.", |t, _| { t.connection = true; Ok(()) }),
    CORK,
    flag('d', Value("direction"), &[
        "-d direction      Explicitly set test direction based on bitwise OR",
        "                  of 0x2 for transmit and 0x4 for receive. Default:",
        "                  based on test type",
    ], "Direction of an OMNI test: words joined by | (send, recv, stream, maerts, rr, crr) or a number of bits, 2 to transmit and 4 to receive.",
        explicit_direction),
    // It takes no argument, whatever the stock help says.
    NO_DELAY,
    HELP,
    flag('H', Value("name[/bits][,family]"), &[
        "-H name[/mask],fam  Use name (or IP) and family as target of data connection",
        "                  A mask value will cause randomization of the IP used",
    ], "Where the data connection goes. With bits, the host part behind so many bits is drawn anew for each iteration.",
        |t, v| data_end(&mut t.remote, &mut t.notices, v)),
    flag('k', MaybeSelection("selection"), &[
        "-k [file]         Generate keyval output optionally based on file",
        "                  Use filename of '?' to get the list of choices",
    ], "Print NAME=value lines. See OUTPUT SELECTION.",
        |t, v| { t.output = Some((Printed::KeyVal, select(v)?)); Ok(()) }),
    flag('K', Value("local[,remote]"), &[
        "-K loc[,rem]      Set the local and/or remote congestion control",
        "                  algorithm to use on those platforms where it can",
        "                  be set.",
    ], "Congestion control of the data sockets. What was in force is what LOCAL_CONG_CONTROL and REMOTE_CONG_CONTROL print.",
        congestion_control),
    flag('L', Value("name[/bits][,family]"), &[
        "-L name[/mask],fam  Use name (or IP) and family as source of data connection",
        "                  A mask value will cause randomization of the IP used",
    ], "Where the data connection comes from.", |t, v| data_end(&mut t.local, &mut t.notices, v)),
    flag('m', Value("local[,remote]"), &["-m local,remote   Set the send size for _STREAM/_MAERTS tests"],
        "Bytes a send call. Without it, the socket's buffer as the kernel gives it.", SEND_SIZE),
    flag('M', Value("remote[,local]"), &["-M local,remote   Set the recv size for _STREAM/_MAERTS tests"],
        "Bytes a receive call, the remote end first.", RECEIVE_SIZE),
    flag('n', Nothing, &["-n                Use the connected socket for UDP locally"],
        "Connect the local datagram socket.", |t, _| { t.here.socket.connect_datagrams = true; Ok(()) }),
    flag('N', Nothing, &["-N                Use the connected socket for UDP remotely"],
        "Without effect, as in the stock tool.", NO_EFFECT),
    flag('o', MaybeSelection("selection"), &[
        "-o [file]         Generate CSV output optionally based on file",
        "                  Use filename of '?' to get the list of choices",
    ], "Print comma-separated values. See OUTPUT SELECTION.",
        |t, v| { t.output = Some((Printed::Csv, select(v)?)); Ok(()) }),
    flag('O', MaybeSelection("selection"), &[
        "-O [file]         Generate classic-style output based on file",
        "                  Use filename of '?' to get the list of choices",
    ], "Print columns. See OUTPUT SELECTION.", |t, v| { t.output = Some((Printed::Human, select(v)?)); Ok(()) }),
    flag('p', Value("min[,max]"), &["-p min[,max]      Set the min/max port numbers for TCP_CRR, TCP_TRR"],
        "Local ports of a connection test, 5000 to 65535 by default.", port_range),
    flag('P', Value("local[,remote]"), &["-P local[,remote] Set the local/remote port for the data socket"],
        "Ports of the data connection, for a path with a firewall: -P ,5001 is the server's alone. Default 0, any.",
        DATA_PORT),
    flag('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (TCP_RR, UDP_RR)"],
        "Bytes of a request and of a response, 1 by default.", SIZES),
    flag('R', Value("0|1"), &[
        "-R 0/1            Allow routing of traffic on data connection.",
        "                  Default: 0 (off) for UDP_STREAM, 1 (on) otherwise",
    ], "Whether datagrams may be routed; 0 sets SO_DONTROUTE. Default 0 for UDP tests that are not request/response, else 1.",
        ROUTING),
    LOCAL_BUFFERS,
    REMOTE_BUFFERS,
    flag('t', Value("type"), &[
        "-t type           Explicitly set socket type. Default is implicit",
        "                  based on other settings",
    ], "Socket type, stream or dgram.", socket),
    flag('T', Value("protocol"), &[
        "-T protocol       Explicitly set data connection protocol. Default is",
        "                  implicit based on other settings",
    ], "Protocol of the data connection.", protocol),
    // The stock tool, too, keeps as much of a longer one.
    flag('u', Value("text"), &["-u uuid           Use the supplied string as the UUID for this test."],
        "The UUID of this test; one is made otherwise.",
        |t, v| { t.uuid = Some(v.chars().take(37).collect()); Ok(()) }),
    IPV4,
    IPV6,
    flag('a', Nothing, &[],
        "Set TCP_DEFER_ACCEPT on the server's listening socket.", |t, _| { t.there.socket.defer_accept_seconds = Some(DEFER_ACCEPT_SECONDS); Ok(()) }),
    flag('B', Nothing, &[],
        "The server answers datagrams from the address that they were sent to. A linerate server always does.",
        |t, _| { t.there.socket.answer_from_destination = true; Ok(()) }),
    flag('e', Value("seconds"), &[],
        "Give up waiting for a datagram after so long, and send the next request.", receive_timeout),
    flag('F', Nothing, &[],
        "TCP Fast Open: the first data leaves with the first segment.",
        |t, _| { (t.here.socket.fast_open, t.there.socket.fast_open) = (true, true); Ok(()) }),
    flag('g', Nothing, &[], "Set SO_DEBUG on the local data socket.", |t, _| { t.here.socket.debug = true; Ok(()) }),
    flag('G', Value("bytes"), &[],
        "Set TCP_MAXSEG on the local data socket.", |t, v| { t.here.socket.max_segment_bytes = count_or_default(v)?; Ok(()) }),
    flag('i', Value("number"), &[], "Given up by the stock tool, which says so and goes on.", check_interval),
    flag('I', Nothing, &[],
        "Use write(2) where send(2) would do.", |t, _| { t.here.write_instead_of_send = true; Ok(()) }),
    // Parallel connections that the stock tool never came to open.
    flag('j', Value("number"), &[],
        "Parallel connections that the stock tool never came to open: accepted, without effect.",
        |_, v| count(v).map(drop)),
    flag('l', Value("ttl"), &[],
        "TTL of multicast datagrams.", |t, v| { t.here.socket.multicast_ttl = multicast_ttl(v)?; Ok(()) }),
    flag('U', Nothing, &[],
        "In connection tests, try the next port whatever a connect failed of.", |t, _| { t.ports.retry_all = true; Ok(()) }),
    flag('V', Nothing, &[],
        "Let the receiving ends throw the data away inside the kernel: splice(2) to /dev/null.",
        |t, _| { discard_in_kernel(t); Ok(()) }),
    flag('w', Value("text"), &[], "Without effect, as in the stock tool.", NO_EFFECT),
    flag('W', Value("buffers"), &[], "Number of buffers in the send ring.", WIDTH),
]};

/// Of TCP_SENDFILE, TCP_CC and TCP_MSS, in the order of the stock tool's help.
#[rustfmt::skip]
pub(super) static CLASSIC: Section<TestOptions> = Section {
    title: "TEST OPTIONS OF TCP_SENDFILE, TCP_CC AND TCP_MSS",
    heading: "TCP/UDP BSD Sockets Test Options:",
    scope: SCOPE,
    flags: &[
    // No classic test sends requests ahead, but harnesses pass it with every test.
    flag('b', Value("requests"), &["-b number         Send number requests at start of _RR tests"],
        "Without effect in these tests, as in the stock tool.", |_, v| count(v).map(drop)),
    CORK,
    NO_DELAY,
    HELP,
    TARGET,
    SOURCE,
    flag('m', Value("bytes"), &["-m bytes          Set the send size (TCP_STREAM, UDP_STREAM)"],
        "Bytes a send call.", SEND_SIZE),
    flag('M', Value("bytes"), &["-M bytes          Set the recv size (TCP_STREAM, UDP_STREAM)"],
        "Bytes a receive call of the remote end.", RECEIVE_SIZE),
    flag('n', Nothing, &["-n                Use the connected socket for UDP locally"],
        "Without effect in these tests.", NO_EFFECT),
    flag('N', Nothing, &["-N                Use the connected socket for UDP remotely"],
        "Without effect in these tests.", NO_EFFECT),
    flag('p', Value("min[,max]"), &["-p min[,max]      Set the min/max port numbers for TCP_CRR, TCP_TRR"],
        "Local ports of TCP_CC, 5000 to 65535 by default.", port_range),
    PORTS,
    flag('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (TCP_RR, UDP_RR)"],
        "Without effect in these tests, which move no requests.", SIZES),
    LOCAL_BUFFERS,
    REMOTE_BUFFERS,
    IPV4,
    IPV6,
    flag('R', Value("0|1"), &[], "Whether the data may be routed.", ROUTING),
    flag('V', Nothing, &[], "Not available in these tests, which is said.", no_copy_avoidance),
    flag('W', Value("buffers"), &[], "Number of buffers in the send ring.", WIDTH),
    flag('T', Value("text"), &[], "Without effect in these tests.", NO_EFFECT),
    flag('w', Value("text"), &[], "Without effect in these tests.", NO_EFFECT),
    flag('z', Nothing, &[], "Without effect in these tests.", NO_EFFECT),
]};

// Rows of several sections.

#[rustfmt::skip]
pub(super) const LOCAL_BUFFERS: Flag<TestOptions> = flag('s', Value("send[,recv]"), &["-s send[,recv]    Set local socket send/recv buffer sizes"],
    "SO_SNDBUF and SO_RCVBUF of the local data socket, in bytes.",
    |t, v| buffers(&mut t.here.socket, v));

#[rustfmt::skip]
pub(super) const REMOTE_BUFFERS: Flag<TestOptions> = flag('S', Value("send[,recv]"), &["-S send[,recv]    Set remote socket send/recv buffer sizes"],
    "The same of the remote one.",
    |t, v| buffers(&mut t.there.socket, v));

#[rustfmt::skip]
pub(super) const IPV4: Flag<TestOptions> = flag('4', Nothing, &["-4                Use AF_INET (eg IPv4) on both ends of the data conn"],
    "IPv4 for the data connection.",
    |t, _| { both_families(t, Family::V4); Ok(()) });

#[rustfmt::skip]
pub(super) const IPV6: Flag<TestOptions> = flag('6', Nothing, &["-6                Use AF_INET6 (eg IPv6) on both ends of the data conn"],
    "IPv6 for the data connection.",
    |t, _| { both_families(t, Family::V6); Ok(()) });

#[rustfmt::skip]
pub(super) const TARGET: Flag<TestOptions> = flag('H', Value("name[,family]"), &["-H name,fam       Use name (or IP) and family as target of data connection"],
    "Where the data connection goes.", |t, v| data_end(&mut t.remote, &mut t.notices, v));

#[rustfmt::skip]
pub(super) const SOURCE: Flag<TestOptions> = flag('L', Value("name[,family]"), &["-L name,fam       Use name (or IP) and family as source of data connection"],
    "Where the data connection comes from.", |t, v| data_end(&mut t.local, &mut t.notices, v));

#[rustfmt::skip]
pub(super) const PORTS: Flag<TestOptions> = flag('P', Value("local[,remote]"), &["-P local[,remote] Set the local/remote port for the data socket"],
    "Ports of the data connection.", DATA_PORT);

#[rustfmt::skip]
pub(super) const CORK: Flag<TestOptions> = flag('C', Nothing, &["-C                Set TCP_CORK when available"],
    "Set TCP_CORK on the local data socket.", |t, _| { t.here.socket.cork = true; Ok(()) });

#[rustfmt::skip]
pub(super) const NO_DELAY: Flag<TestOptions> = flag('D', Nothing, &["-D [L][,R]        Set TCP_NODELAY locally and/or remotely (TCP_*)"],
    "Set TCP_NODELAY at both ends.", NO_DELAY_AT_BOTH_ENDS);

#[rustfmt::skip]
pub(super) const HELP: Flag<TestOptions> = flag('h', Nothing, &["-h                Display this text"],
    "Print the help text and exit with 1.", |_, _| Err(Quit::Help));

type Apply = getopt::Apply<TestOptions>;

const DATA_PORT: Apply = |t, v| set(t.port.each_mut(), v, |half| Ok(Some(port(half)?)));
pub(super) const NO_DELAY_AT_BOTH_ENDS: Apply = |t, _| {
    (t.here.socket.no_delay, t.there.socket.no_delay) = (true, true);
    Ok(())
};
const ROUTING: Apply = |t, v| {
    t.routing = Some(word(v)? != 0);
    Ok(())
};
fn both_families(options: &mut TestOptions, family: Family) {
    options.remote.family = family;
    options.local.family = family;
}

/// `-s`, `-S`: send, receive.
fn buffers(socket: &mut SocketOptions, text: &str) -> Result<(), Quit> {
    let (send, receive) = (
        &mut socket.send_buffer_bytes,
        &mut socket.receive_buffer_bytes,
    );
    set([send, receive], text, count_or_default)
}

fn discard_in_kernel(options: &mut TestOptions) {
    (
        options.here.discard_in_kernel,
        options.there.discard_in_kernel,
    ) = (true, true);
}

/// What the stock tool takes and never looks at.
pub(super) const NO_EFFECT: Apply = |_, _| Ok(());

/// `name[/bits][,family]`.
fn data_end(end: &mut DataEnd, notices: &mut Vec<String>, text: &str) -> Result<(), Quit> {
    let Some(host) = endpoint(&mut end.family, notices, text) else {
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
fn explicit_direction(options: &mut TestOptions, text: &str) -> Result<(), Quit> {
    if text.eq_ignore_ascii_case("crr") {
        options.connection = true;
        options.direction = Some((true, true));
        return Ok(());
    }
    options.direction = Some(direction(text)?);
    Ok(())
}

/// Names of directions joined by `|`, or a number: 2 to transmit, 4 to receive.
fn direction(text: &str) -> Result<(bool, bool), Quit> {
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
fn congestion_control(options: &mut TestOptions, text: &str) -> Result<(), Quit> {
    let mut names = [None, None];
    set(names.each_mut(), text, |name| {
        // TCP_CA_NAME_MAX is 16 with the closing NUL.
        if name.len() > 15 {
            return refuse(format!("'{name}' has more than 15 characters"));
        }
        Ok(Some(name.to_owned()).filter(|name| !name.is_empty()))
    })?;
    let [here, there] = names;
    options.here.socket.congestion_control = here;
    options.there.socket.congestion_control = there.filter(|name: &String| name.len() >= 3);
    Ok(())
}

fn port_range(options: &mut TestOptions, text: &str) -> Result<(), Quit> {
    let ConnectionPorts {
        mut min, mut max, ..
    } = ConnectionPorts::default();
    set([&mut min, &mut max], text, |half| {
        number(half, 1..=i64::from(u16::MAX))
    })?;
    if min > max {
        return refuse(format!("port {min} is above port {max}"));
    }
    if min == u16::MAX {
        return refuse("no port is left above 65534");
    }
    // A lone port is both ends of its range and shall be used.
    (options.ports.min, options.ports.max) = (min, max.max(min + 1));
    Ok(())
}

fn socket(options: &mut TestOptions, text: &str) -> Result<(), Quit> {
    options.socket = match text.to_ascii_lowercase().as_str() {
        "stream" => Some(Socket::Stream),
        "dgram" => Some(Socket::Datagram),
        _ => return refuse("not a socket type: stream or dgram"),
    };
    Ok(())
}

fn protocol(options: &mut TestOptions, text: &str) -> Result<(), Quit> {
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

fn receive_timeout(options: &mut TestOptions, text: &str) -> Result<(), Quit> {
    options.here.socket.receive_timeout = count_or_default(text)?
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Duration::from_secs(seconds.into()));
    Ok(())
}

fn multicast_ttl(text: &str) -> Result<Option<u8>, Quit> {
    let ttl: i32 = number(text, -1..=255)?;
    Ok(u8::try_from(ttl).ok())
}

fn check_interval(options: &mut TestOptions, _: &str) -> Result<(), Quit> {
    options.warnings.push(
        "The support for check_interval has been removed because the contributing editor no longer \
         knew what it was for"
            .to_owned(),
    );
    Ok(())
}

pub(super) fn no_copy_avoidance(options: &mut TestOptions, _: &str) -> Result<(), Quit> {
    for which in ["send", "recv"] {
        options
            .notices
            .push(format!("Local {which} copy avoidance not available."));
    }
    // Its banner says so all the same, and its request asks the peer.
    discard_in_kernel(options);
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

    #[rustfmt::skip]
    #[test]
    fn data_ends() {
        for (text, host, bits, family) in [
            ("a", Some("a"), None, Family::Unspecified),
            ("a,6", Some("a"), None, Family::V6),
            (",4", None, None, Family::V4),
            ("10.0.0.1/24,4", Some("10.0.0.1"), Some(24), Family::V4),
            ("fe80::1%eth0", Some("fe80::1%eth0"), None, Family::Unspecified),
            ("fe80::1%eth0/64,inet6", Some("fe80::1%eth0"), Some(64), Family::V6),
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
            for (half, name) in [(test.here, local), (test.there, remote)] {
                assert_eq!(half.socket.congestion_control.as_deref(), name, "{text}");
            }
        }
    }
}
