//! Reported results, compared with the kernel's counters. Tests of ten seconds use network
//! namespaces and a link of 100 Mbit/s. The test of retransmits uses a slower link.
//!
//! Segmentation offloads are off, because the interface would count one header for several
//! segments. IPv6 is off, because its neighbour messages would count too.

mod counters;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use model::Side;
use netperf::FinishedTest;
use netperf::client::Flows;
use netperf::options::{Settings, parse_netperf};
use testkit::Requirement::{Namespaces, Program};
use testkit::{Namespace, Server, TestCase, add_link, kernel_counter, test_case};

use counters::CounterSeries;

const SERVER: &str = "198.51.100.2";

/// Duration of a test.
const LENGTH: Duration = Duration::from_secs(10);

/// Largest permitted difference between report and counters: 0.2 %.
const TOLERANCE: f64 = 0.002;

/// Bytes per packet: Ethernet, IPv4, TCP with timestamps.
const TCP_HEADERS: u64 = 14 + 20 + 32;

/// Bytes per packet: Ethernet, IPv4, UDP.
const UDP_HEADERS: u64 = 14 + 20 + 8;

/// Bytes per datagram. A datagram fills an Ethernet frame.
const DATAGRAM: u64 = 1472;

/// Upper bound of the packets before the data: two handshakes, the request, the response, ARP.
const CONTROL_PACKETS: u64 = 12;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let needs = &[Namespaces, Program("tc"), Program("ethtool")];
    vec![
        test_case("tcp_stream", needs, tcp_stream),
        test_case("tcp_maerts", needs, tcp_maerts),
        test_case("udp_stream", needs, udp_stream),
        test_case("server_retransmits", needs, server_retransmits),
    ]
    .into_iter()
    .map(TestCase::run_alone)
    .collect()
}

fn tcp_stream() {
    let path = Path::new();
    limit_rate(&path.client, "100mbit burst 32kb latency 50ms");
    let measured = path.measure("TCP_STREAM", "-K cubic", &path.server);
    assert_tcp_matches(&measured, measured.server_side());
}

fn tcp_maerts() {
    let path = Path::new();
    limit_rate(&path.server, "100mbit burst 32kb latency 50ms");
    let measured = path.measure("TCP_MAERTS", "-K cubic", &path.client);
    assert_tcp_matches(&measured, &measured.run.outcome.local);
}

fn assert_tcp_matches(measured: &Measured, receiver: &Side) {
    let elapsed = receiver.elapsed.expect("the receiver has a clock");
    let payload = measured
        .series
        .within(elapsed, CONTROL_PACKETS)
        .payload(TCP_HEADERS) as f64;
    assert_close(receiver.counts.received.0 as f64, payload, "bytes received");
    let rate = payload * 8.0 / 1e6 / elapsed.as_secs_f64();
    assert_close(measured.rate, rate, "10^6 bit/s received");
}

/// A queue limits the sender to 110 Mbit/s and loses nothing, because the sender's socket buffer
/// blocks. The router forwards 100 Mbit/s and drops the excess.
fn udp_stream() {
    let path = Path::over_a_router();
    limit_rate(&path.client, "110mbit burst 32kb latency 50ms");
    let router = path.router.as_ref().expect("the path has a router");
    limit_rate(router, "100mbit burst 32kb latency 5ms");
    // The largest receive buffer, for busy machines.
    let measured = path.measure("UDP_STREAM", "-m 1472 -R 1 -S 1M", &path.server);
    let (sender, receiver) = (
        measured.run.outcome.local.counts,
        measured.server_side().counts,
    );

    // Datagrams that overflow the receiver's socket have reached the interface only.
    let overflowed = path.server.enter(|| kernel_counter("Udp", "RcvbufErrors"));
    let bytes_to_socket = |interface_bytes: u64| (interface_bytes - overflowed * DATAGRAM) as f64;
    let elapsed = measured
        .server_side()
        .elapsed
        .expect("the receiver has a clock");
    let in_time = bytes_to_socket(
        measured
            .series
            .within(elapsed, CONTROL_PACKETS)
            .payload(UDP_HEADERS),
    );
    assert_close(
        receiver.received.0 as f64,
        in_time,
        "bytes received in time",
    );
    let rate = in_time * 8.0 / 1e6 / elapsed.as_secs_f64();
    assert_close(measured.rate, rate, "10^6 bit/s received in time");
    let total = receiver.received + receiver.received_late;
    let counted = bytes_to_socket(measured.series.total().payload(UDP_HEADERS));
    assert_close(total.0 as f64, counted, "bytes received");

    // Each sent datagram arrived in time, arrived late, or was lost at the router or at the
    // receiver's socket.
    let lost = read_drops(router) + overflowed;
    println!(
        "{} sent, {} in time, {} late, {lost} lost",
        sender.send_calls, receiver.receive_calls, receiver.receive_calls_late
    );
    assert!(
        receiver.receive_calls_late > 0,
        "no datagram was in flight at the end of the test"
    );
    assert!(lost > 0, "the queue did not overflow");
    let arrived = receiver.receive_calls + receiver.receive_calls_late;
    assert_eq!(total.0, arrived * DATAGRAM, "a datagram is incomplete");
    let missing = sender.send_calls - arrived;
    assert_eq!(
        measured.selector_values(["LATE_DATAGRAMS", "LOST_DATAGRAMS"]),
        [receiver.receive_calls_late, missing].map(|count| count.to_string())
    );
    // The router may also drop control packets and end marks.
    assert!(
        lost.abs_diff(missing) <= 3,
        "{missing} datagrams are missing, {lost} were dropped"
    );
}

/// The server counts retransmits until its last data has left, long after the end of its test.
fn server_retransmits() {
    let path = Path::over_a_router();
    let router = path.router.as_ref().expect("the path has a router");
    router.enter(|| run("tc qdisc add dev eth1 root tbf rate 1mbit burst 5kb latency 40ms"));
    let test = "TCP_MAERTS -l 1";
    let measured = path.measure(test, "-K cubic -S 200K", &path.client);
    let counted = path.server.enter(|| kernel_counter("Tcp", "RetransSegs"));
    let reported = u64::try_from(measured.run.peer.results.retransmits)
        .expect("the server reports retransmits");
    println!("{reported} reported, {counted} counted");
    assert_eq!(
        measured.server_side().socket.retransmits.map(u64::from),
        Some(reported)
    );
    assert!(reported > 0, "the queue did not overflow");
    // The report excludes the control connection. Its last message is so slow that TCP probes
    // for a loss once: RFC 8985, section 7.
    assert!(
        (reported..=reported + 1).contains(&counted),
        "{reported} reported, {counted} counted"
    );
}

/// Two hosts, and a router between them if there is one.
struct Path {
    client: Namespace,
    server: Namespace,
    router: Option<Namespace>,
}

/// A finished test, and the counters of the receiving interface during it.
struct Measured {
    settings: Settings,
    run: FinishedTest,
    /// The last printed figure: the received rate in 10^6 bit/s.
    rate: f64,
    series: CounterSeries,
}

impl Path {
    /// Connects the two hosts by one link.
    fn new() -> Self {
        let (client, server) = (
            Namespace::with_loopback_only(),
            Namespace::with_loopback_only(),
        );
        add_link(
            (&client, "eth0", "198.51.100.1/24"),
            (&server, "eth0", "198.51.100.2/24"),
        );
        let path = Self {
            client,
            server,
            router: None,
        };
        path.without_offloads()
    }

    /// Connects the two hosts by a router. The router's `eth0` faces the server.
    fn over_a_router() -> Self {
        let (client, router, server) = (
            Namespace::with_loopback_only(),
            Namespace::with_loopback_only(),
            Namespace::with_loopback_only(),
        );
        add_link(
            (&client, "eth0", "203.0.113.1/24"),
            (&router, "eth1", "203.0.113.2/24"),
        );
        add_link(
            (&router, "eth0", "198.51.100.1/24"),
            (&server, "eth0", "198.51.100.2/24"),
        );
        client.ip("route add default via 203.0.113.2");
        server.ip("route add default via 198.51.100.1");
        router.enter(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")
                .expect("root may enable forwarding");
        });
        router.enter(|| run("ethtool -K eth1 tso off gso off gro off"));
        let path = Self {
            client,
            server,
            router: Some(router),
        };
        path.without_offloads()
    }

    fn without_offloads(self) -> Self {
        for namespace in [&self.client, &self.server].into_iter().chain(&self.router) {
            namespace.enter(|| run("ethtool -K eth0 tso off gso off gro off"));
        }
        self
    }

    /// Runs a test of [`LENGTH`], unless `test` has its own -l, and records the counters of the
    /// receiver's interface.
    fn measure(&self, test: &str, options: &str, receiver: &Namespace) -> Measured {
        let server = self.server.enter(|| Server::start(""));
        let is_running = AtomicBool::new(true);
        let line = format!(
            "-H {SERVER} -p {} -P 0 -l {} -t {test} -- {options}",
            server.port,
            LENGTH.as_secs()
        );
        let settings = parse_netperf("netperf", line.split_whitespace().map(Into::into))
            .expect("the options are valid");
        std::thread::scope(|scope| {
            let series = scope.spawn(|| {
                receiver.enter(|| CounterSeries::record("eth0", || is_running.load(Relaxed)))
            });
            let run = self.client.enter(|| {
                let stop = engine::Stop::new();
                let mut flows = Flows::connect(&settings, &stop)?;
                let run = flows.measure(&flows.counters())?;
                flows.close();
                Ok::<_, netperf::client::ClientError>(run)
            });
            is_running.store(false, Relaxed);
            let run = run.expect("the test succeeds");
            let printed = netperf::output::format_result(&settings, &run);
            println!("{test}:\n{}", printed.trim_end());
            let rate = printed
                .split_whitespace()
                .next_back()
                .and_then(|field| field.parse().ok());
            Measured {
                settings,
                run,
                rate: rate.expect("the last field is the rate"),
                series: series.join().expect("the counters are readable"),
            }
        })
    }
}

impl Measured {
    /// Returns the printed values of these selectors.
    fn selector_values<const N: usize>(&self, selectors: [&str; N]) -> [String; N] {
        let arguments = ["--", "-k", &selectors.join(",")].map(Into::into);
        let mut settings = self.settings.clone();
        settings.print = parse_netperf("netperf", arguments)
            .expect("the options are valid")
            .print;
        let text = netperf::output::format_result(&settings, &self.run);
        selectors.map(|selector| {
            let value =
                |line: &str| Some(line.strip_prefix(selector)?.strip_prefix('=')?.to_owned());
            text.lines()
                .find_map(value)
                .expect("the selector is printed")
        })
    }

    /// Returns the server's measurement.
    fn server_side(&self) -> &Side {
        self.run
            .outcome
            .remote
            .as_ref()
            .expect("the server is linerate")
    }
}

/// Limits a host's sending rate: tc-tbf(8).
fn limit_rate(sender: &Namespace, bucket: &str) {
    sender.enter(|| run(&format!("tc qdisc add dev eth0 root tbf rate {bucket}")));
}

/// Returns the number of packets that a host's queue dropped.
fn read_drops(host: &Namespace) -> u64 {
    let text = host.enter(|| run("tc -s qdisc show dev eth0"));
    let after = text.split_once("(dropped ").map_or("", |(_, after)| after);
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("tc shows the drops")
}

#[track_caller]
fn assert_close(reported: f64, counted: f64, quantity: &str) {
    let error = reported / counted - 1.0;
    println!(
        "{quantity}: {reported} reported, {counted} counted, {:+.3} %",
        error * 100.0
    );
    assert!(
        error.abs() <= TOLERANCE,
        "{quantity}: {reported} reported, {counted} counted"
    );
}

fn run(line: &str) -> String {
    let mut arguments = line.split_whitespace();
    let program = arguments.next().expect("the line has a program");
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
