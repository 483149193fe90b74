//! What the man pages say of each option. The tables of [`super::global`], [`super::test`] and
//! [`super::server`] say what the options are; tests see to it that none is missing here, or here
//! alone, and that the defaults told are those in force. It stands apart because a program that
//! makes no man pages does not carry their text.

pub use getopt::manual::{Chapter, Described};
use getopt::manual::{Paragraph, chapter};

use super::grammar::Name::{Letter, Long};
use super::{families, global, server, test};

/// The chapters of `netperf.1`.
pub fn client() -> Vec<Chapter> {
    vec![
        chapter("GLOBAL OPTIONS", &global::SECTION, GLOBAL),
        chapter("TEST OPTIONS", &test::OMNI, OMNI),
        chapter(
            "TEST OPTIONS OF TCP_SENDFILE, TCP_CC AND TCP_MSS",
            &test::CLASSIC,
            CLASSIC,
        ),
        chapter(
            "TEST OPTIONS OF STREAM_STREAM, STREAM_RR, DG_STREAM AND DG_RR",
            &families::UNIX,
            UNIX,
        ),
        chapter(
            "TEST OPTIONS OF SCTP_STREAM, SCTP_RR AND THEIR _MANY FORMS",
            &families::SCTP,
            SCTP,
        ),
        chapter(
            "TEST OPTIONS OF DLCO_STREAM, DLCO_RR, DLCL_STREAM AND DLCL_RR",
            &families::DLPI,
            DLPI,
        ),
    ]
}

/// The chapters of `netserver.1`.
pub fn server() -> Vec<Chapter> {
    vec![chapter("OPTIONS", &server::SECTION, SERVER)]
}

#[rustfmt::skip]
const GLOBAL: &[Paragraph] = &[
    (Letter('a'), "-a send[,recv]", "Alignment of the local send and receive buffers, a power of two in bytes. Default 8."),
    (Letter('A'), "-A send[,recv]", "Alignment of the remote send and receive buffers. Default 8."),
    (Letter('b'), "-b local[,remote]", "Sends (receives, transactions) an interval of -w: pacing, at this end and, behind the comma, at the other. Without -w an interval is a millisecond. The schedule does not move: what is late is caught up with at once, and a pace that was not held is said on standard error."),
    (Letter('B'), "-B text", "A brand, which the selector RESULT_BRAND prints, and with -P 0 the tables that have room for it."),
    (Letter('c'), "-c [rate]", "Report the local host's CPU utilisation and service demand. The next word is a calibration value if it starts with a digit."),
    (Letter('C'), "-C [rate]", "The same for the remote host."),
    (Letter('d'), "-d", "Print the plan of the test on standard error."),
    (Letter('D'), "-D seconds[,units]", "Interim results, one an interval of so many seconds (a fraction will do). A negative value is for tools that ask for a clock read a pass; here both are exact and cost the test nothing. The units, stock's first guess of the work in an interval, are not needed."),
    (Letter('f'), "-f unit", "Unit of throughput: g m k for 10^9, 10^6, 10^3 bits a second, G M K for 2^30, 2^20, 2^10 bytes a second, B and b for bytes, x for transactions, u for microseconds a byte. Default m, or x in request/response tests."),
    (Letter('F'), "-F local[,remote]", "Files whose contents fill the buffers; TCP_SENDFILE sends the local one. A linerate netserver reads the remote one only below a directory of --allow-fill-dir."),
    (Letter('h'), "-h", "Print the usage text and exit with 1."),
    (Letter('H'), "-H name[,family]", "The netserver's host. The data connection goes there too unless the test option -H says otherwise. Default localhost."),
    (Letter('i'), "-i max[,min]", "At most and at least so many iterations of the test, 3 to 30, until the confidence interval of -I is reached."),
    (Letter('I'), "-I level[,width]", "Confidence level, 95 or 99, and the width of the interval in per cent of the mean (the full width, 5 by default). A lone value sets both, as in the stock tool: write -I 99,5."),
    (Letter('j'), "-j", "Keep statistics of times: of whole transactions, or of single calls in one-way tests."),
    (Letter('k'), "-k dirty[,clean]", "Change the first dirty bytes of a buffer before each local send, and after each local receive of what came, and then read the next clean ones."),
    (Letter('K'), "-K dirty[,clean]", "The same at the remote end."),
    (Letter('l'), "-l length", "Length of the test: seconds, or a negative number of bytes or transactions; 0 runs until an interrupt. A duration of whole seconds, such as 1m30s, is one. Default 10."),
    (Letter('L'), "-L name[,family]", "Local address of the control connection, and of the data connection unless the test option -L says otherwise."),
    (Letter('n'), "-n cpus", "Number of CPUs. Linux tells it, so that the value is accepted and not used, as in the stock tool."),
    (Letter('N'), "-N", "No control connection: the test runs against whatever listens, by default the services discard, chargen or echo by the test's direction. What only a netserver could tell is unknown."),
    (Letter('o'), "-o send[,recv]", "Offset of the local buffers from their alignment, in bytes. Default 0."),
    (Letter('O'), "-O send[,recv]", "Offset of the remote buffers. Default 0."),
    (Letter('p'), "-p port[,local]", "The netserver's port (12865), and the local port of the control connection."),
    (Letter('P'), "-P 0|1", "0 leaves out the banner and the column headers. Default 1."),
    (Letter('r'), "-r", "Reach the confidence interval on the result alone, whatever the CPU utilisations do."),
    (Letter('s'), "-s seconds", "Wait between the agreement with the server and the first data. Default 0."),
    (Letter('S'), "-S", "Set SO_KEEPALIVE on the data sockets of both ends."),
    (Letter('t'), "-t test", "The test, in any case: see TESTS. Default TCP_STREAM."),
    (Letter('T'), "-T local[,remote]", "Bind the threads of this test to a CPU, at this end and at the other."),
    (Letter('v'), "-v level", "Verbosity. 0 prints the single figure, 1 the table, 2 adds a block of details and the histogram, 3 the block alone. Default 1."),
    (Letter('V'), "-V", "Print the version and exit."),
    (Letter('w'), "-w local[,remote]", "Length of a pacing interval: an integer with the suffix s, m (milliseconds, also without a suffix) or u (microseconds). Default 1."),
    (Letter('W'), "-W send[,recv]", "Number of buffers in the send and receive rings of both ends. Without it, one more than fill the socket's buffer."),
    (Letter('y'), "-y local[,remote]", "SO_PRIORITY of the data sockets. Without it, the kernel's. One that the system refuses is reported on standard error."),
    (Letter('Y'), "-Y local[,remote]", "Type of service or traffic class of the data sockets: a number 0 to 255, or a name such as cs1, af42, ef, lowdelay."),
    (Letter('Z'), "-Z text", "The passphrase that the server expects. @FILE reads it from the first line of a file, so that ps(1) does not show it. It crosses the network in clear text."),
    (Letter('4'), "-4", "IPv4 only."),
    (Letter('6'), "-6", "IPv6 only."),
    (Long("spin"), "--spin[=end]", "Wait for the next -w interval by looking at the clock instead of sleeping: right to a fraction of a microsecond, and it takes a CPU. Of an interval above 2 milliseconds the last 2 are awaited so. At each end that has a pace (-b), or with an end, local or remote, at that one. The peer must be a linerate that allows it (netserver --allow-spin), and spins for at most half of an interval."),
    (Long("parallel"), "--parallel flows", "Run so many flows in one test, which start together, and report their sum and how they compare. CPU utilisation and service demand are those of the whole. Default 1."),
    (Long("bidirectional"), "--bidirectional", "In one-way tests, run as many flows the other way at the same time; the throughput is the total."),
    (Long("histogram"), "--histogram file", "Time every transaction, or in one-way tests every call, and write the times as a histogram log in HdrHistogram's compressed V2 encoding, in nanoseconds."),
    (Long("histogram-buckets"), "--histogram-buckets n", "With -v 2, print the histogram with n buckets per decade, a multiple of 10 up to 1000. Default 10, the stock form. Times are recorded to within 0.8 %; each counts in one bucket, so that of narrower ones some stay empty."),
    (Long("cpu-method"), "--cpu-method method", "Measure CPU time by procstat, the kernel's counters (default), or by looper: threads of the lowest priority count what idle cycles are left. LOC_CPU and REM_CPU calibrate that, and -c and -C take the value."),
    (Long("data-idle"), "--data-idle seconds", "How long data may stop before a test that a count ends is given up. Default 60."),
    (Long("strict"), "--strict", "Say on standard error what makes the result doubtful, and exit with 3 if anything does."),
];

#[rustfmt::skip]
const OMNI: &[Paragraph] = &[
    (Letter('a'), "-a", "Set TCP_DEFER_ACCEPT on the server's listening socket."),
    (Letter('b'), "-b requests", "In request/response tests, keep so many requests in flight beyond the one. Default 0."),
    (Letter('B'), "-B", "The server answers datagrams from the address that they were sent to. A linerate server always does."),
    (Letter('c'), "-c", "A connection for each transaction."),
    (Letter('C'), "-C", "Set TCP_CORK on the local data socket."),
    (Letter('d'), "-d direction", "Direction of an OMNI test: words joined by | (send, recv, stream, maerts, rr, crr) or a number of bits, 2 to transmit and 4 to receive."),
    (Letter('D'), "-D", "Set TCP_NODELAY at both ends."),
    (Letter('e'), "-e seconds", "Give up waiting for a datagram after so long, and send the next request."),
    (Letter('F'), "-F", "TCP Fast Open: the first data leaves with the first segment."),
    (Letter('g'), "-g", "Set SO_DEBUG on the local data socket."),
    (Letter('G'), "-G bytes", "Set TCP_MAXSEG on the local data socket."),
    (Letter('h'), "-h", "Print the help text and exit with 1."),
    (Letter('H'), "-H name[/bits][,family]", "Where the data connection goes. With bits, the host part behind so many bits is drawn anew for each iteration."),
    (Letter('i'), "-i number", "Given up by the stock tool, which says so and goes on."),
    (Letter('I'), "-I", "Use write(2) where send(2) would do."),
    (Letter('j'), "-j number", "Parallel connections that the stock tool never came to open: accepted, without effect."),
    (Letter('k'), "-k [selection]", "Print NAME=value lines. See OUTPUT SELECTION."),
    (Letter('K'), "-K local[,remote]", "Congestion control of the data sockets. What was in force is what LOCAL_CONG_CONTROL and REMOTE_CONG_CONTROL print."),
    (Letter('l'), "-l ttl", "TTL of multicast datagrams."),
    (Letter('L'), "-L name[/bits][,family]", "Where the data connection comes from."),
    (Letter('m'), "-m local[,remote]", "Bytes a send call. Without it, the socket's buffer as the kernel gives it."),
    (Letter('M'), "-M remote[,local]", "Bytes a receive call, the remote end first."),
    (Letter('n'), "-n", "Connect the local datagram socket."),
    (Letter('N'), "-N", "Without effect, as in the stock tool."),
    (Letter('o'), "-o [selection]", "Print comma-separated values. See OUTPUT SELECTION."),
    (Letter('O'), "-O [selection]", "Print columns. See OUTPUT SELECTION."),
    (Letter('p'), "-p min[,max]", "Local ports of a connection test, 5000 to 65535 by default."),
    (Letter('P'), "-P local[,remote]", "Ports of the data connection, for a path with a firewall: -P ,5001 is the server's alone. Default 0, any."),
    (Letter('r'), "-r request[,response]", "Bytes of a request and of a response, 1 by default."),
    (Letter('R'), "-R 0|1", "Whether datagrams may be routed; 0 sets SO_DONTROUTE. Default 0 for UDP tests that are not request/response, else 1."),
    (Letter('s'), "-s send[,recv]", "SO_SNDBUF and SO_RCVBUF of the local data socket, in bytes."),
    (Letter('S'), "-S send[,recv]", "The same of the remote one."),
    (Letter('t'), "-t type", "Socket type, stream or dgram."),
    (Letter('T'), "-T protocol", "Protocol of the data connection."),
    (Letter('u'), "-u text", "The UUID of this test; one is made otherwise."),
    (Letter('U'), "-U", "In connection tests, try the next port whatever a connect failed of."),
    (Letter('V'), "-V", "Let the receiving ends throw the data away inside the kernel: splice(2) to /dev/null."),
    (Letter('w'), "-w text", "Without effect, as in the stock tool."),
    (Letter('W'), "-W buffers", "Number of buffers in the send ring."),
    (Letter('4'), "-4", "IPv4 for the data connection."),
    (Letter('6'), "-6", "IPv6 for the data connection."),
];

#[rustfmt::skip]
const CLASSIC: &[Paragraph] = &[
    (Letter('b'), "-b requests", "Without effect in these tests, as in the stock tool."),
    (Letter('C'), "-C", "Set TCP_CORK on the local data socket."),
    (Letter('D'), "-D", "Set TCP_NODELAY at both ends."),
    (Letter('h'), "-h", "Print the help text and exit with 1."),
    (Letter('H'), "-H name[,family]", "Where the data connection goes."),
    (Letter('L'), "-L name[,family]", "Where the data connection comes from."),
    (Letter('m'), "-m bytes", "Bytes a send call."),
    (Letter('M'), "-M bytes", "Bytes a receive call of the remote end."),
    (Letter('n'), "-n", "Without effect in these tests."),
    (Letter('N'), "-N", "Without effect in these tests."),
    (Letter('p'), "-p min[,max]", "Local ports of TCP_CC, 5000 to 65535 by default."),
    (Letter('P'), "-P local[,remote]", "Ports of the data connection."),
    (Letter('r'), "-r request[,response]", "Without effect in these tests, which move no requests."),
    (Letter('R'), "-R 0|1", "Whether the data may be routed."),
    (Letter('s'), "-s send[,recv]", "SO_SNDBUF and SO_RCVBUF of the local data socket, in bytes."),
    (Letter('S'), "-S send[,recv]", "The same of the remote one."),
    (Letter('T'), "-T text", "Without effect in these tests."),
    (Letter('V'), "-V", "Not available in these tests, which is said."),
    (Letter('w'), "-w text", "Without effect in these tests."),
    (Letter('W'), "-W buffers", "Number of buffers in the send ring."),
    (Letter('z'), "-z", "Without effect in these tests."),
    (Letter('4'), "-4", "IPv4 for the data connection."),
    (Letter('6'), "-6", "IPv6 for the data connection."),
];

#[rustfmt::skip]
const UNIX: &[Paragraph] = &[
    (Letter('h'), "-h", "Print the help text and exit with 1."),
    (Letter('m'), "-m bytes", "Bytes a send call: by default the socket's buffer as the kernel gives it, of a datagram at most 65507."),
    (Letter('M'), "-M bytes", "Bytes a receive call of the remote end."),
    (Letter('p'), "-p dir", "Make the socket of this end below this directory, /tmp by default. Where the server makes its own is its --unix-dir."),
    (Letter('r'), "-r request[,response]", "Bytes of a request and of a response, 1 by default."),
    (Letter('s'), "-s send[,recv]", "SO_SNDBUF and SO_RCVBUF of the local data socket, in bytes."),
    (Letter('S'), "-S send[,recv]", "The same of the remote one."),
];

#[rustfmt::skip]
const SCTP: &[Paragraph] = &[
    (Letter('B'), "-B", "Wait in poll(2) where a data call would wait, at both ends."),
    (Letter('D'), "-D", "Set SCTP_NODELAY at both ends."),
    (Letter('h'), "-h", "Print the help text and exit with 1."),
    (Letter('H'), "-H name[,family]", "Where the data connection goes."),
    (Letter('I'), "-I text", "Without effect, as in the stock tool."),
    (Letter('L'), "-L name[,family]", "Where the data connection comes from."),
    (Letter('m'), "-m bytes", "Bytes of a message. Without it, the socket's buffer as the kernel gives it."),
    (Letter('M'), "-M bytes", "Bytes a receive call of the remote end."),
    (Letter('N'), "-N number", "End after so many messages or transactions instead of after a time."),
    (Letter('P'), "-P local[,remote]", "Ports of the data connection."),
    (Letter('r'), "-r request[,response]", "Bytes of a request and of a response, 1 by default."),
    (Letter('s'), "-s send[,recv]", "SO_SNDBUF and SO_RCVBUF of the local data socket, in bytes."),
    (Letter('S'), "-S send[,recv]", "The same of the remote one."),
    (Letter('T'), "-T number", "Associations of a _MANY test, 2 by default. They are used in turn; at the server all are on one socket."),
    (Letter('V'), "-V", "Not available in these tests, which is said."),
    (Letter('4'), "-4", "IPv4 for the data connection."),
    (Letter('6'), "-6", "IPv6 for the data connection."),
];

#[rustfmt::skip]
const DLPI: &[Paragraph] = &[
    (Letter('D'), "-D local[,remote]", "The network interface of each end: its name, or together with -p the name without its number. A path stands for its last part."),
    (Letter('h'), "-h", "Print the help text and exit with 1."),
    (Letter('m'), "-m bytes", "Bytes of a frame's payload, 1400 by default. More than the interface's MTU has room for is refused."),
    (Letter('M'), "-M bytes", "Bytes a receive call of the remote end."),
    (Letter('p'), "-p local[,remote]", "The PPA: the number behind the interface's name, or without -D its index."),
    (Letter('r'), "-r request[,response]", "Bytes of a request and of a response, 1 by default."),
    (Letter('s'), "-s sap", "The 802.2 service access point, an even number. Default 84. At this end another one is used if it is taken."),
    (Letter('w'), "-w send[,recv]", "Windows of the local end in frames, at most 127 (DLCO tests)."),
    (Letter('W'), "-W send[,recv]", "Windows of the remote end."),
];

#[rustfmt::skip]
const SERVER: &[Paragraph] = &[
    (Letter('h'), "-h", "Print the usage text and exit with 1."),
    (Letter('D'), "-D", "Stay in the foreground."),
    (Letter('d'), "-d", "Write what happens to standard error, when in the foreground (-D, or with a socket from systemd). Without it, only warnings are written there: refused clients, and data from another address than the client's. A daemon and a server of inetd write nothing."),
    (Letter('f'), "-f", "Serve one client at a time; others wait."),
    (Letter('L'), "-L name[,family]", "Listen on this address."),
    (Letter('N'), "-N", "No debug output (-d), even if a client asks for it. Warnings are written."),
    (Letter('p'), "-p port", "Listen on this port. Default 12865."),
    (Letter('4'), "-4", "Listen on IPv4 only."),
    (Letter('6'), "-6", "Listen on IPv6 only."),
    (Letter('v'), "-v level", "Verbosity, without effect, as in the stock tool."),
    (Letter('V'), "-V", "Print the version and exit."),
    (Letter('Z'), "-Z text", "Serve only clients that send this passphrase first. @FILE reads it from the first line of a file, so that ps(1) does not show it. It crosses the network in clear text. After a wrong passphrase, further attempts from the same address are delayed by up to 8 seconds."),
    (Letter('n'), "-n cpus", "Number of CPUs. Linux tells it: accepted up to 256, and not used."),
    (Long("allow-fill-dir"), "--allow-fill-dir DIR", "Let clients name fill files below this directory. May be given several times; without it no file is read. The directory is opened when the server starts. Only regular files are read, by paths without links (openat2(2), Linux 5.6)."),
    (Long("allow-looper"), "--allow-looper", "Let clients have CPU time measured by a looper (--cpu-method looper), which keeps every CPU of this host from idling as long as a test or calibration needs it. Without it CPU time is measured by /proc/stat, and a calibration is refused."),
    (Long("allow-modules"), "--allow-modules", "Let requests load kernel modules for transports and congestion control. Without it, the server refuses a transport that is not loaded, and ignores a congestion control that is not loaded; the results name the one in force."),
    (Long("allow-privileged-ports"), "--allow-privileged-ports", "Let clients request data ports below 1024, or below the sysctl net.ipv4.ip_unprivileged_port_start. Without it, such requests are refused, whatever the server's privileges. With it, they are refused if the server has no privilege for the port."),
    (Long("allow-spin"), "--allow-spin", "Let clients request that the server spins at the end of each pacing interval (--spin), for at most half of it and at most 2 milliseconds, which takes up to half of a CPU. Without it, the server sleeps, and a linerate client warns."),
    (Long("allow-third-party"), "--allow-third-party", "Let a client have datagrams sent to another host than its own, and have other hosts' SCTP associations in a test of many."),
    (Long("strict-peers"), "--strict-peers", "Accept a test's data only from the client's address: that of its control connection, or the one that its request names. Without it, a connection from another address is accepted if none from the client's arrives within 2 seconds, by which the test is shorter; datagrams from another address count if they arrive first. A linerate client proves its connection with a nonce, so that its address does not matter."),
    (Long("control-idle"), "--control-idle SECONDS", "How long a control connection may be silent. Default 120."),
    (Long("data-wait"), "--data-wait SECONDS", "How long a test's data may take to begin. Default 60."),
    (Long("data-idle"), "--data-idle SECONDS", "How long data may stop before it is given up. Default 60."),
    (Long("drain"), "--drain SECONDS", "How long beyond its length a test may drain what is on its way. Default 15."),
    (Long("drain-on-exit"), "--drain-on-exit SECONDS", "On SIGTERM or SIGINT, let running tests finish for at most this long; no test begins meanwhile. Without it, running tests end at once without a result, and their clients fail. A second signal ends the server at once."),
    (Long("passphrase-wait"), "--passphrase-wait SECONDS", "How long to wait for a passphrase. Default 20."),
    (Long("max-clients"), "--max-clients N", "Control connections at a time. Default 1024."),
    (Long("max-buffer"), "--max-buffer BYTES", "Memory of one test's buffers in one direction. Default 256M."),
    (Long("max-memory"), "--max-memory BYTES", "Memory of all tests' buffers together. Default 1G."),
    (Long("user"), "--user NAME", "Change to this user, with its groups and without privileges, once the control port, the directories of --allow-fill-dir and the file of -Z are open. Requests that need a privilege then fail or have no effect: DLPI tests, -y above 6, and ports below 1024, so that --allow-privileged-ports is refused. This needs root."),
    (Long("unix-dir"), "--unix-dir DIR", "Below this directory, an absolute path of at most 17 bytes, are the sockets of Unix domain tests. Default /tmp."),
    (Long("max-length"), "--max-length SECONDS", "The longest test. Default 604800, seven days."),
];

#[cfg(test)]
mod tests {
    use getopt::manual::gaps;

    use super::*;
    use crate::options::ServerSettings;
    use crate::options::global::Global;
    use crate::options::grammar::Name;
    use crate::options::plan::DEFAULT_PORTS;

    #[test]
    fn every_option_has_its_paragraph_and_no_other_has_one() {
        for (what, gaps) in [
            ("global", gaps(&global::SECTION, GLOBAL)),
            ("omni", gaps(&test::OMNI, OMNI)),
            ("classic", gaps(&test::CLASSIC, CLASSIC)),
            ("unix", gaps(&families::UNIX, UNIX)),
            ("sctp", gaps(&families::SCTP, SCTP)),
            ("dlpi", gaps(&families::DLPI, DLPI)),
            ("server", gaps(&server::SECTION, SERVER)),
        ] {
            assert_eq!(gaps, [""; 0], "{what}");
        }
    }

    /// Who types a default has changed nothing; the help says the same.
    #[test]
    fn the_servers_defaults_are_those_in_force() {
        let mut told_of = 0;
        for flag in server::SECTION
            .flags
            .iter()
            .filter(|flag| flag.name.is_long())
        {
            let Some(default) = told_default(paragraph(SERVER, flag.name)) else {
                continue;
            };
            let mut settings = ServerSettings::default();
            (flag.apply)(&mut settings, default).unwrap();
            let name = flag.name;
            assert_eq!(settings, ServerSettings::default(), "{name:?} {default}");
            let in_help = format!("({default}");
            let is_there = flag.help.iter().any(|line| line.contains(&in_help));
            assert!(is_there, "{name:?} {default}: {:?}", flag.help);
            told_of += 1;
        }
        assert_eq!(told_of, 10);
        let port = told_default(paragraph(SERVER, Letter('p')));
        assert_eq!(port, Some(&*ServerSettings::default().port));
    }

    #[test]
    fn the_clients_defaults_are_those_in_force() {
        let Global {
            local_alignment,
            port,
            test,
            ..
        } = Global::default();
        let of = |name| told_default(paragraph(GLOBAL, Letter(name)));
        assert_eq!(of('a'), Some(&*local_alignment.first.to_string()));
        assert_eq!(of('t'), Some(&*test));
        assert!(paragraph(GLOBAL, Letter('p')).contains(&format!("({})", port.first)));

        let mut told_of = 0;
        for (name, _, text) in GLOBAL {
            let Some(default) = told_default(text) else {
                continue;
            };
            let needed = match name {
                Letter('w') => "-b 1",
                Long("histogram-buckets") => "-v 2",
                _ => "",
            };
            let typed = format!("{needed} {name} {default}");
            assert!(settings(&typed) == settings(needed), "{typed}");
            told_of += 1;
        }
        assert_eq!(told_of, 15);

        let (first, last) = DEFAULT_PORTS;
        let ports = format!("{first} to {last} by default");
        for test_options in [OMNI, CLASSIC] {
            assert!(paragraph(test_options, Letter('p')).contains(&ports));
        }
        let associations = format!("{} by default", families::DEFAULT_ASSOCIATIONS);
        assert!(paragraph(SCTP, Letter('T')).contains(&associations));
        let sap = families::DEFAULT_SAP.to_string();
        assert_eq!(told_default(paragraph(DLPI, Letter('s'))), Some(&*sap));
        let flag = families::DLPI
            .flags
            .iter()
            .find(|flag| flag.name == Letter('s'));
        assert!(flag.unwrap().help[0].contains(&format!("({sap})")));
    }

    /// What a command line asks for, without what differs between any two.
    fn settings(line: &str) -> crate::options::Settings {
        let words = line.split_whitespace().map(Into::into);
        let mut settings = crate::options::netperf("netperf", words).unwrap();
        settings.print.uuid.clear();
        settings.print.command_line.clear();
        settings
    }

    fn paragraph(paragraphs: &[Paragraph], name: Name) -> &'static str {
        let found = paragraphs.iter().find(|(known, ..)| *known == name);
        found.map(|(_, _, text)| *text).unwrap()
    }

    /// The word after "Default".
    fn told_default(text: &'static str) -> Option<&'static str> {
        let (_, rest) = text.split_once("Default ")?;
        let word = rest.split([' ', ',']).next()?;
        Some(word.trim_end_matches('.'))
    }
}
