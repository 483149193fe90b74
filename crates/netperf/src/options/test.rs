//! The test options, after `--`: their tables, parsers and typed values.

#![expect(
    clippy::unnecessary_wraps,
    reason = "each function in the table must return a Result"
)]

use std::time::Duration;

use getopt::Argument::{Nothing, OptionalWord, Value};
use getopt::{EarlyExit, OptionRow, Section, refuse, stock_letter};
use model::{EndpointPlan, SocketOptions, Transport};

use super::families::FamilyOptions;
use super::global::parse_endpoint;
use super::rings::{MESSAGE_SIZES, RECEIVE_SIZE, SEND_SIZE, SEND_WIDTH};
use super::selection::{Selected, parse_selection};
use super::value::{count, int32, number, optional_count, port, set_both};
use super::{ConnectionPorts, Family};
use crate::protocol_conventions::DEFER_ACCEPT_SECONDS;
use crate::selector::RequiredMeasurements;
use crate::version::{
    ASYNCHRONOUS_RECEIVE_LINE, ASYNCHRONOUS_SEND_LINE, DO_NOT_FRAGMENT_LINE, FAST_OPEN_LINE,
    Version,
};

/// The options after `--`, as typed; `None` if not typed.
#[derive(Clone, Default)]
pub(super) struct TestOptions {
    /// `--stock-version`.
    pub(super) version: Version,
    /// The local endpoint plan, with the global options. A typed buffer size of 0 bytes means
    /// the default.
    pub(super) local: EndpointPlan,
    /// The remote endpoint plan.
    pub(super) remote: EndpointPlan,
    /// `-b`: requests in flight beyond the first.
    pub(super) burst: u32,
    /// `-c`: one connection per transaction.
    pub(super) connection: bool,
    /// `-d`: transmit, receive.
    pub(super) transmit_receive: Option<(bool, bool)>,
    /// `-H`.
    pub(super) destination: DataEndpoint,
    /// `-k`, `-o`, `-O`: the last one wins.
    pub(super) output: Option<(SelectorFormat, Selected)>,
    /// `-L`.
    pub(super) source: DataEndpoint,
    /// `-p`, `-U`.
    pub(super) ports: ConnectionPorts,
    /// `-P`: the local and the remote port.
    pub(super) data_ports: [Option<String>; 2],
    /// `-r`: the bytes of a request and of a response.
    pub(super) message_sizes: [Option<u32>; 2],
    /// `-R`: whether datagrams may be routed.
    pub(super) routing: Option<bool>,
    /// `-T`.
    pub(super) transport: Option<Transport>,
    /// `-t`, unless a later `-T` overrides it.
    pub(super) socket_type: Option<SocketType>,
    /// `-u`.
    pub(super) uuid: Option<String>,
    /// `-W`: buffers in the send ring; 0 is the default.
    pub(super) send_width: u32,
    /// The options of the Unix domain, SCTP and DLPI tests.
    pub(super) family: FamilyOptions,
    /// Lines to print on stdout.
    pub(super) notices: Vec<String>,
    /// Lines to print on stderr.
    pub(super) warnings: Vec<String>,
}

impl TestOptions {
    /// Returns the measurements that the selected output requires.
    pub(super) fn needs(&self) -> RequiredMeasurements {
        let output = self.output.as_ref();
        output
            .map(|(_, selected)| selected.needs)
            .unwrap_or_default()
    }
}

/// One end of the data connection: `-H`, `-L`, `-4`, `-6`.
#[derive(Clone, Default)]
pub(super) struct DataEndpoint {
    pub(super) host: Option<String>,
    pub(super) prefix_bits: Option<u8>,
    pub(super) family: Family,
}

/// The output format of selectors: `-O`, `-o` or `-k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectorFormat {
    Human,
    Csv,
    KeyVal,
}

/// The socket type, from `-t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketType {
    Stream,
    Datagram,
}

pub(super) const SCOPE: &str = "test option ";

/// The options of the migrated tests and OMNI, in the order of the stock tool's help.
#[rustfmt::skip]
pub(super) static OMNI: Section<TestOptions> = Section {
    title: "TEST OPTIONS",
    heading: "OMNI and Migrated BSD Sockets Test Options:",
    scope: SCOPE,
    options: &[
    stock_letter('b', Value("requests"), &["-b number         Send number requests at start of _RR tests"],
        "In request/response tests, keep this number of requests in flight in addition to the first. Default 0.",
        |t, v| { t.burst = count(v)?; Ok(()) }),
    stock_letter('c', Nothing, &[
        "-c                Explicitly declare this a connection test such as",
        "                  TCP_CRR or TCP_CC",
    ], "Open one connection per transaction.", |t, _| { t.connection = true; Ok(()) }),
    CORK,
    stock_letter('d', Value("direction"), &[
        "-d direction      Explicitly set test direction based on bitwise OR",
        "                  of 0x2 for transmit and 0x4 for receive. Default:",
        "                  based on test type",
    ], "Direction of an OMNI test: words joined by | (send, recv, stream, maerts, rr, crr), or a number whose bits are 2 to transmit and 4 to receive.",
        set_direction),
    // `-D` takes no argument, although the stock help lists one.
    NO_DELAY,
    stock_letter('f', Nothing, &[DO_NOT_FRAGMENT_LINE],
        "Set IP_MTU_DISCOVER to IP_PMTUDISC_DO on both data sockets: datagrams that exceed the path's MTU are not fragmented, and sending them fails. Since 2.7.1; an older netserver ignores it.",
        set_do_not_fragment),
    stock_letter('F', Nothing, &[FAST_OPEN_LINE],
        "Use TCP Fast Open: send the first data with the first segment.",
        |t, _| { (t.local.socket.fast_open, t.remote.socket.fast_open) = (true, true); Ok(()) }),
    HELP,
    stock_letter('H', Value("name[/bits][,family]"), &[
        "-H name[/mask],fam  Use name (or IP) and family as target of data connection",
        "                  A mask value will cause randomization of the IP used",
    ], "Destination of the data connection. With bits, each iteration uses a random host part after this number of address bits.",
        |t, v| set_data_endpoint(&mut t.destination, &mut t.notices, v)),
    stock_letter('k', OptionalWord("selection"), &[
        "-k [file]         Generate keyval output optionally based on file",
        "                  Use filename of '?' to get the list of choices",
    ], "Print NAME=value lines. See OUTPUT SELECTION.",
        |t, v| { t.output = Some((SelectorFormat::KeyVal, parse_selection(v)?)); Ok(()) }),
    stock_letter('K', Value("local[,remote]"), &[
        "-K loc[,rem]      Set the local and/or remote congestion control",
        "                  algorithm to use on those platforms where it can",
        "                  be set.",
    ], "Congestion control of the data sockets. The selectors LOCAL_CONG_CONTROL and REMOTE_CONG_CONTROL print the one in force.",
        set_congestion_control),
    stock_letter('L', Value("name[/bits][,family]"), &[
        "-L name[/mask],fam  Use name (or IP) and family as source of data connection",
        "                  A mask value will cause randomization of the IP used",
    ], "Source of the data connection, with bits as for -H.", |t, v| set_data_endpoint(&mut t.source, &mut t.notices, v)),
    stock_letter('m', Value("local[,remote]"), &["-m local,remote   Set the send size for _STREAM/_MAERTS tests"],
        "Bytes per send call, by default the size of the socket's send buffer.", SEND_SIZE),
    stock_letter('M', Value("remote[,local]"), &["-M local,remote   Set the recv size for _STREAM/_MAERTS tests"],
        "Bytes per receive call, the remote end first.", RECEIVE_SIZE),
    stock_letter('n', Nothing, &["-n                Use the connected socket for UDP locally"],
        "Connect the local datagram socket.", |t, _| { t.local.socket.connect_datagrams = true; Ok(()) }),
    stock_letter('N', Nothing, &["-N                Use the connected socket for UDP remotely"],
        "No effect, as in the stock tool.", NO_EFFECT),
    stock_letter('o', OptionalWord("selection"), &[
        "-o [file]         Generate CSV output optionally based on file",
        "                  Use filename of '?' to get the list of choices",
    ], "Print comma-separated values. See OUTPUT SELECTION.",
        |t, v| { t.output = Some((SelectorFormat::Csv, parse_selection(v)?)); Ok(()) }),
    stock_letter('O', OptionalWord("selection"), &[
        "-O [file]         Generate classic-style output based on file",
        "                  Use filename of '?' to get the list of choices",
    ], "Print columns. See OUTPUT SELECTION.", |t, v| { t.output = Some((SelectorFormat::Human, parse_selection(v)?)); Ok(()) }),
    stock_letter('p', Value("min[,max]"), &["-p min[,max]      Set the min/max port numbers for TCP_CRR, TCP_TRR"],
        "Local ports of a connection test, 5000 to 65535 by default.", set_port_range),
    stock_letter('P', Value("local[,remote]"), &["-P local[,remote] Set the local/remote port for the data socket"],
        "Ports of the data connection, for a path with a firewall: -P ,5001 sets the server's port only. Default 0, any port.",
        DATA_PORT),
    stock_letter('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (TCP_RR, UDP_RR)"],
        "Bytes of a request and of a response, 1 by default.", MESSAGE_SIZES),
    stock_letter('R', Value("0|1"), &[
        "-R 0/1            Allow routing of traffic on data connection.",
        "                  Default: 0 (off) for UDP_STREAM, 1 (on) otherwise",
    ], "Whether datagrams may be routed; 0 sets SO_DONTROUTE. Default 0 for UDP tests that are not request/response, else 1.",
        ROUTING),
    LOCAL_BUFFERS,
    REMOTE_BUFFERS,
    stock_letter('t', Value("type"), &[
        "-t type           Explicitly set socket type. Default is implicit",
        "                  based on other settings",
    ], "Socket type: stream or dgram.", set_socket_type),
    stock_letter('T', Value("protocol"), &[
        "-T protocol       Explicitly set data connection protocol. Default is",
        "                  implicit based on other settings",
    ], "Protocol of the data connection: tcp, mptcp, udp, udplite, sctp, dccp or vsock.", set_protocol),
    // The stock tool, too, truncates a longer text to 37 characters.
    stock_letter('u', Value("text"), &["-u uuid           Use the supplied string as the UUID for this test."],
        "The UUID of this test. Without it, netperf generates one.",
        |t, v| { t.uuid = Some(v.chars().take(37).collect()); Ok(()) }),
    IPV4,
    IPV6,
    stock_letter('a', Nothing, &[],
        "Set TCP_DEFER_ACCEPT on the server's listening socket.", |t, _| { t.remote.socket.defer_accept_seconds = Some(DEFER_ACCEPT_SECONDS); Ok(()) }),
    stock_letter('B', Nothing, &[],
        "Let the server answer a datagram from the address that it was sent to. A linerate server always does so.",
        |t, _| { t.remote.socket.reply_from_destination = true; Ok(()) }),
    stock_letter('e', Value("seconds"), &[],
        "Wait at most this number of seconds for a datagram, then send the next request.", set_receive_timeout),
    stock_letter('g', Nothing, &[], "Set SO_DEBUG on the local data socket.", |t, _| { t.local.socket.debug = true; Ok(()) }),
    stock_letter('G', Value("bytes"), &[],
        "Set TCP_MAXSEG on the local data socket.", |t, v| { t.local.socket.max_segment_bytes = optional_count(v)?; Ok(()) }),
    stock_letter('i', Value("number"), &[], "Removed from the stock tool: it prints a message and continues.", warn_check_interval),
    stock_letter('I', Nothing, &[],
        "Use write(2) instead of send(2).", |t, _| { t.local.write_instead_of_send = true; Ok(()) }),
    stock_letter('j', Value("number"), &[],
        "Number of parallel connections. Accepted without effect: the stock tool never opens them.",
        |_, v| count(v).map(drop)),
    stock_letter('l', Value("ttl"), &[],
        "TTL of multicast datagrams.", |t, v| { t.local.socket.multicast_ttl = parse_multicast_ttl(v)?; Ok(()) }),
    stock_letter('U', Nothing, &[],
        "In connection tests, try the next port after any failed connect, not only after a lack of ports.", |t, _| { t.ports.retry_after_any_error = true; Ok(()) }),
    stock_letter('V', Nothing, &[],
        "Let the receiving ends discard the data inside the kernel: splice(2) to /dev/null.",
        |t, _| { discard_in_kernel(t); Ok(()) }),
    stock_letter('w', Value("text"), &[], "No effect, as in the stock tool.", NO_EFFECT),
    stock_letter('W', Value("buffers"), &[], "Number of buffers in the send ring.", SEND_WIDTH),
]};

/// The options of TCP_SENDFILE, TCP_CC and TCP_MSS, in the order of the stock tool's help.
#[rustfmt::skip]
pub(super) static CLASSIC: Section<TestOptions> = Section {
    title: "TEST OPTIONS OF TCP_SENDFILE, TCP_CC AND TCP_MSS",
    heading: "TCP/UDP BSD Sockets Test Options:",
    scope: SCOPE,
    options: &[
    stock_letter('a', Nothing, &[ASYNCHRONOUS_SEND_LINE],
        "Refused: linerate does not send by aio_write(2), and nor does the stock tool.", |t, _| refuse_asynchronous(t, 'a')),
    stock_letter('A', Nothing, &[ASYNCHRONOUS_RECEIVE_LINE],
        "Refused: linerate does not receive by aio_read(2).", |t, _| refuse_asynchronous(t, 'A')),
    // No classic test sends requests ahead, but test harnesses pass -b with every test.
    stock_letter('b', Value("requests"), &["-b number         Send number requests at start of _RR tests"],
        "No effect in these tests, as in the stock tool.", |_, v| count(v).map(drop)),
    CORK,
    NO_DELAY,
    HELP,
    TARGET,
    SOURCE,
    stock_letter('m', Value("bytes"), &["-m bytes          Set the send size (TCP_STREAM, UDP_STREAM)"],
        "Bytes per send call.", SEND_SIZE),
    stock_letter('M', Value("bytes"), &["-M bytes          Set the recv size (TCP_STREAM, UDP_STREAM)"],
        "Bytes per receive call of the remote end.", RECEIVE_SIZE),
    stock_letter('n', Nothing, &["-n                Use the connected socket for UDP locally"],
        "No effect in these tests.", NO_EFFECT),
    stock_letter('N', Nothing, &["-N                Use the connected socket for UDP remotely"],
        "No effect in these tests.", NO_EFFECT),
    stock_letter('p', Value("min[,max]"), &["-p min[,max]      Set the min/max port numbers for TCP_CRR, TCP_TRR"],
        "Local ports of TCP_CC, 5000 to 65535 by default.", set_port_range),
    PORTS,
    stock_letter('r', Value("request[,response]"), &["-r req,[rsp]      Set request/response sizes (TCP_RR, UDP_RR)"],
        "No effect in these tests, which send no requests.", MESSAGE_SIZES),
    LOCAL_BUFFERS,
    REMOTE_BUFFERS,
    IPV4,
    IPV6,
    stock_letter('R', Value("0|1"), &[], "Whether the data may be routed.", ROUTING),
    stock_letter('V', Nothing, &[], "Not available in these tests; netperf prints a notice.", report_no_copy_avoidance),
    stock_letter('W', Value("buffers"), &[], "Number of buffers in the send ring.", SEND_WIDTH),
    stock_letter('T', Value("text"), &[], "No effect in these tests.", NO_EFFECT),
    stock_letter('w', Value("text"), &[], "No effect in these tests.", NO_EFFECT),
    stock_letter('z', Nothing, &[], "No effect in these tests.", NO_EFFECT),
]};

// Rows that several sections share.

#[rustfmt::skip]
pub(super) const LOCAL_BUFFERS: OptionRow<TestOptions> = stock_letter('s', Value("send[,recv]"), &["-s send[,recv]    Set local socket send/recv buffer sizes"],
    "SO_SNDBUF and SO_RCVBUF of the local data socket, in bytes.",
    |t, v| set_buffers(&mut t.local.socket, v));

#[rustfmt::skip]
pub(super) const REMOTE_BUFFERS: OptionRow<TestOptions> = stock_letter('S', Value("send[,recv]"), &["-S send[,recv]    Set remote socket send/recv buffer sizes"],
    "SO_SNDBUF and SO_RCVBUF of the remote data socket, in bytes.",
    |t, v| set_buffers(&mut t.remote.socket, v));

#[rustfmt::skip]
pub(super) const IPV4: OptionRow<TestOptions> = stock_letter('4', Nothing, &["-4                Use AF_INET (eg IPv4) on both ends of the data conn"],
    "IPv4 for the data connection.",
    |t, _| { set_families(t, Family::V4); Ok(()) });

#[rustfmt::skip]
pub(super) const IPV6: OptionRow<TestOptions> = stock_letter('6', Nothing, &["-6                Use AF_INET6 (eg IPv6) on both ends of the data conn"],
    "IPv6 for the data connection.",
    |t, _| { set_families(t, Family::V6); Ok(()) });

#[rustfmt::skip]
pub(super) const TARGET: OptionRow<TestOptions> = stock_letter('H', Value("name[,family]"), &["-H name,fam       Use name (or IP) and family as target of data connection"],
    "Destination of the data connection.", |t, v| set_data_endpoint(&mut t.destination, &mut t.notices, v));

#[rustfmt::skip]
pub(super) const SOURCE: OptionRow<TestOptions> = stock_letter('L', Value("name[,family]"), &["-L name,fam       Use name (or IP) and family as source of data connection"],
    "Source of the data connection.", |t, v| set_data_endpoint(&mut t.source, &mut t.notices, v));

#[rustfmt::skip]
pub(super) const PORTS: OptionRow<TestOptions> = stock_letter('P', Value("local[,remote]"), &["-P local[,remote] Set the local/remote port for the data socket"],
    "Ports of the data connection.", DATA_PORT);

#[rustfmt::skip]
pub(super) const CORK: OptionRow<TestOptions> = stock_letter('C', Nothing, &["-C                Set TCP_CORK when available"],
    "Set TCP_CORK on the local data socket.", |t, _| { t.local.socket.cork = true; Ok(()) });

#[rustfmt::skip]
pub(super) const NO_DELAY: OptionRow<TestOptions> = stock_letter('D', Nothing, &["-D [L][,R]        Set TCP_NODELAY locally and/or remotely (TCP_*)"],
    "Set TCP_NODELAY at both ends.", NO_DELAY_AT_BOTH_ENDS);

#[rustfmt::skip]
pub(super) const HELP: OptionRow<TestOptions> = stock_letter('h', Nothing, &["-h                Display this text"],
    "Print the help text and exit with 1.", |_, _| Err(EarlyExit::Help));

type Apply = getopt::ApplyOption<TestOptions>;

const DATA_PORT: Apply = |t, v| set_both(t.data_ports.each_mut(), v, |word| Ok(Some(port(word)?)));
pub(super) const NO_DELAY_AT_BOTH_ENDS: Apply = |t, _| {
    (t.local.socket.no_delay, t.remote.socket.no_delay) = (true, true);
    Ok(())
};
const ROUTING: Apply = |t, v| {
    t.routing = Some(int32(v)? != 0);
    Ok(())
};
fn set_families(options: &mut TestOptions, family: Family) {
    options.destination.family = family;
    options.source.family = family;
}

fn set_do_not_fragment(options: &mut TestOptions, _: &str) -> Result<(), EarlyExit> {
    options.version.check_has_option('f', Version::V2_7_1)?;
    for end in [&mut options.local, &mut options.remote] {
        end.socket.do_not_fragment = true;
    }
    Ok(())
}

fn refuse_asynchronous(options: &TestOptions, letter: char) -> Result<(), EarlyExit> {
    options.version.check_has_option(letter, Version::V2_7_1)?;
    refuse("asynchronous calls (aio_read, aio_write) are not available")
}

/// Applies `-s` or `-S`: the sizes of the send and the receive buffer.
fn set_buffers(socket: &mut SocketOptions, text: &str) -> Result<(), EarlyExit> {
    let (send, receive) = (
        &mut socket.send_buffer_bytes,
        &mut socket.receive_buffer_bytes,
    );
    set_both([send, receive], text, optional_count)
}

fn discard_in_kernel(options: &mut TestOptions) {
    (
        options.local.discard_in_kernel,
        options.remote.discard_in_kernel,
    ) = (true, true);
}

/// An option that the stock tool accepts and ignores.
pub(super) const NO_EFFECT: Apply = |_, _| Ok(());

/// Parses `name[/bits][,family]`.
fn set_data_endpoint(
    end: &mut DataEndpoint,
    notices: &mut Vec<String>,
    text: &str,
) -> Result<(), EarlyExit> {
    let Some(host) = parse_endpoint(&mut end.family, notices, text) else {
        return Ok(());
    };
    let (name, bits) = match host.split_once('/') {
        Some((name, bits)) => (name, Some(number(bits, 0..=128)?)),
        None => (host.as_str(), None),
    };
    if name.is_empty() {
        return refuse("missing name before the '/'");
    }
    end.host = Some(name.to_owned());
    end.prefix_bits = bits;
    Ok(())
}

/// Applies `-d`. `crr` is `rr` with `-c`; the stock tool reads `crr` as 0.
fn set_direction(options: &mut TestOptions, text: &str) -> Result<(), EarlyExit> {
    if text.eq_ignore_ascii_case("crr") {
        options.connection = true;
        options.transmit_receive = Some((true, true));
        return Ok(());
    }
    options.transmit_receive = Some(parse_direction(text)?);
    Ok(())
}

/// Parses names of directions joined by `|`, or a number: 2 to transmit, 4 to receive.
///
/// Returns (transmit, receive).
fn parse_direction(text: &str) -> Result<(bool, bool), EarlyExit> {
    let mut direction = (false, false);
    for word in text.split('|') {
        let (transmit, receive) = match word.trim().to_ascii_lowercase().as_str() {
            "xmit" | "send" | "stream" | "transmit" => (true, false),
            "recv" | "receive" | "maerts" => (false, true),
            "rr" => (true, true),
            number => match units::parse_strict_c_integer(number) {
                Some(bits @ 0..=7) => (bits & 2 != 0, bits & 4 != 0),
                _ => return refuse(format!("'{word}' is not a direction")),
            },
        };
        direction.0 |= transmit;
        direction.1 |= receive;
    }
    Ok(direction)
}

/// Applies `-K`. As in the stock tool, a remote name below three characters is ignored.
fn set_congestion_control(options: &mut TestOptions, text: &str) -> Result<(), EarlyExit> {
    let mut names = [None, None];
    set_both(names.each_mut(), text, |name| {
        // TCP_CA_NAME_MAX is 16, including the final NUL.
        if name.len() > 15 {
            return refuse(format!("'{name}' is longer than 15 characters"));
        }
        Ok(Some(name.to_owned()).filter(|name| !name.is_empty()))
    })?;
    let [local, remote] = names;
    options.local.socket.congestion_control = local;
    options.remote.socket.congestion_control = remote.filter(|name: &String| name.len() >= 3);
    Ok(())
}

fn set_port_range(options: &mut TestOptions, text: &str) -> Result<(), EarlyExit> {
    let ConnectionPorts {
        first: mut min,
        end: mut max,
        ..
    } = ConnectionPorts::default();
    set_both([&mut min, &mut max], text, |word| {
        number(word, 1..=i64::from(u16::MAX))
    })?;
    if min > max {
        return refuse(format!("the first port {min} is above the last port {max}"));
    }
    if min == u16::MAX {
        return refuse("the first port must be below 65535");
    }
    // The range excludes its last port, but a lone port sets both and must be used.
    (options.ports.first, options.ports.end) = (min, max.max(min + 1));
    Ok(())
}

fn set_socket_type(options: &mut TestOptions, text: &str) -> Result<(), EarlyExit> {
    options.socket_type = match text.to_ascii_lowercase().as_str() {
        "stream" => Some(SocketType::Stream),
        "dgram" => Some(SocketType::Datagram),
        _ => return refuse("not a socket type: stream or dgram"),
    };
    Ok(())
}

fn set_protocol(options: &mut TestOptions, text: &str) -> Result<(), EarlyExit> {
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
    options.socket_type = None;
    Ok(())
}

fn set_receive_timeout(options: &mut TestOptions, text: &str) -> Result<(), EarlyExit> {
    options.local.socket.receive_timeout = optional_count(text)?
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Duration::from_secs(seconds.into()));
    Ok(())
}

fn parse_multicast_ttl(text: &str) -> Result<Option<u8>, EarlyExit> {
    let ttl: i32 = number(text, -1..=255)?;
    Ok(u8::try_from(ttl).ok())
}

fn warn_check_interval(options: &mut TestOptions, _: &str) -> Result<(), EarlyExit> {
    options.warnings.push(
        "The support for check_interval has been removed because the contributing editor no longer \
         knew what it was for"
            .to_owned(),
    );
    Ok(())
}

pub(super) fn report_no_copy_avoidance(
    options: &mut TestOptions,
    _: &str,
) -> Result<(), EarlyExit> {
    for direction in ["send", "recv"] {
        options
            .notices
            .push(format!("Local {direction} copy avoidance not available."));
    }
    // Stock prints the option in its banner and requests it from the peer nevertheless.
    discard_in_kernel(options);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_parsed_or_refused() {
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
            assert_eq!(parse_direction(text).ok(), expected, "{text}");
        }
    }

    #[rustfmt::skip]
    #[test]
    fn data_endpoints_are_parsed_or_refused() {
        for (text, host, bits, family) in [
            ("a", Some("a"), None, Family::Unspecified),
            ("a,6", Some("a"), None, Family::V6),
            (",4", None, None, Family::V4),
            ("10.0.0.1/24,4", Some("10.0.0.1"), Some(24), Family::V4),
            ("fe80::1%eth0", Some("fe80::1%eth0"), None, Family::Unspecified),
            ("fe80::1%eth0/64,inet6", Some("fe80::1%eth0"), Some(64), Family::V6),
        ] {
            let mut end = DataEndpoint::default();
            set_data_endpoint(&mut end, &mut Vec::new(), text).unwrap();
            assert_eq!(end.host.as_deref(), host, "{text}");
            assert_eq!(end.prefix_bits, bits, "{text}");
            assert_eq!(end.family, family, "{text}");
        }
        for text in ["a/x", "a/129", "/8"] {
            let mut end = DataEndpoint::default();
            assert!(set_data_endpoint(&mut end, &mut Vec::new(), text).is_err(), "{text}");
        }
    }

    #[test]
    fn congestion_control_is_set_per_end() {
        for (text, local, remote) in [
            ("cubic", Some("cubic"), Some("cubic")),
            ("cubic,", Some("cubic"), None),
            (",reno", None, Some("reno")),
            ("cubic,ab", Some("cubic"), None),
        ] {
            let mut test = TestOptions::default();
            set_congestion_control(&mut test, text).unwrap();
            for (endpoint, name) in [(test.local, local), (test.remote, remote)] {
                assert_eq!(
                    endpoint.socket.congestion_control.as_deref(),
                    name,
                    "{text}"
                );
            }
        }
    }
}
