//! What is reported, against what the kernel counted: namespaces, a link of 100 Mbit/s, ten seconds,
//! but for what is sent again over a slow one.
//!
//! Segmentation offloads are off, or the interface would count one header for many segments; IPv6
//! is off, or its neighbour messages would count too.

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

use counters::Course;

const SERVER: &str = "198.51.100.2";

/// The test's length.
const LENGTH: Duration = Duration::from_secs(10);

/// How far a report may be from the counters: 0.2 %.
const TOLERANCE: f64 = 0.002;

/// Ethernet, IPv4, TCP with timestamps.
const TCP_HEADERS: u64 = 14 + 20 + 32;

/// Ethernet, IPv4, UDP.
const UDP_HEADERS: u64 = 14 + 20 + 8;

/// Bytes a datagram: they fill an Ethernet frame.
const DATAGRAM: u64 = 1472;

/// Fewer packets than this come before the data: two handshakes, the request, the response, ARP.
const BEFORE: u64 = 12;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let needs = &[Namespaces, Program("tc"), Program("ethtool")];
    vec![
        test_case("tcp_stream", needs, tcp_stream),
        test_case("tcp_maerts", needs, tcp_maerts),
        test_case("udp_stream", needs, udp_stream),
        test_case("sent_again_by_the_server", needs, sent_again_by_the_server),
    ]
    .into_iter()
    .map(TestCase::run_alone)
    .collect()
}

fn tcp_stream() {
    let path = Path::new();
    limit(&path.client, "100mbit burst 32kb latency 50ms");
    let seen = path.measure("TCP_STREAM", "-K cubic", &path.server);
    tcp_agrees(&seen, seen.there());
}

fn tcp_maerts() {
    let path = Path::new();
    limit(&path.server, "100mbit burst 32kb latency 50ms");
    let seen = path.measure("TCP_MAERTS", "-K cubic", &path.client);
    tcp_agrees(&seen, &seen.run.outcome.local);
}

fn tcp_agrees(seen: &Seen, receiver: &Side) {
    let elapsed = receiver.elapsed.expect("the receiver has a clock");
    let payload = seen.course.within(elapsed, BEFORE).payload(TCP_HEADERS) as f64;
    assert_close(receiver.counts.received.0 as f64, payload, "bytes received");
    let rate = payload * 8.0 / 1e6 / elapsed.as_secs_f64();
    assert_close(seen.rate, rate, "10^6 bit/s received");
}

/// The sender is held to 110 Mbit/s, which its socket buffer waits for, and loses nothing by itself;
/// the router on the way has room for 100 Mbit/s.
fn udp_stream() {
    let path = Path::over_a_router();
    limit(&path.client, "110mbit burst 32kb latency 50ms");
    let router = path.router.as_ref().expect("it has one");
    limit(router, "100mbit burst 32kb latency 5ms");
    // As much receive buffer as the kernel gives, for a machine that is busy.
    let seen = path.measure("UDP_STREAM", "-m 1472 -R 1 -S 1M", &path.server);
    let (sent, there) = (seen.run.outcome.local.counts, seen.there().counts);

    // What found the receiver's socket full has come to the interface and no further.
    let overflowed = path.server.enter(|| kernel_counter("Udp", "RcvbufErrors"));
    let to_socket = |at_interface: u64| (at_interface - overflowed * DATAGRAM) as f64;
    let elapsed = seen.there().elapsed.expect("the receiver has a clock");
    let in_time = to_socket(seen.course.within(elapsed, BEFORE).payload(UDP_HEADERS));
    assert_close(there.received.0 as f64, in_time, "bytes received in time");
    let rate = in_time * 8.0 / 1e6 / elapsed.as_secs_f64();
    assert_close(seen.rate, rate, "10^6 bit/s received in time");
    let all = there.received + there.received_late;
    let came = to_socket(seen.course.total().payload(UDP_HEADERS));
    assert_close(all.0 as f64, came, "bytes received");

    // Three counts that leave nothing over: what was sent came in time, came late, or was lost in
    // one of the two places that lose.
    let lost = dropped_by(router) + overflowed;
    println!(
        "{} sent, {} in time, {} late, {lost} lost",
        sent.send_calls, there.receive_calls, there.receive_calls_late
    );
    assert!(
        there.receive_calls_late > 0,
        "nothing was on its way when the time was up"
    );
    assert!(lost > 0, "the queue did not overflow");
    let arrived = there.receive_calls + there.receive_calls_late;
    assert_eq!(all.0, arrived * DATAGRAM, "only whole datagrams count");
    let lost_in_all = sent.send_calls - arrived;
    assert_eq!(
        seen.told(["LATE_DATAGRAMS", "LOST_DATAGRAMS"]),
        [there.receive_calls_late, lost_in_all].map(|count| count.to_string())
    );
    // What was dropped may be of the control connection, or a mark of the data's end, too.
    assert!(
        lost.abs_diff(lost_in_all) <= 3,
        "{lost_in_all} are missing, {lost} were dropped"
    );
}

/// A server's last data leaves long after its time here, and what is sent again then counts too.
fn sent_again_by_the_server() {
    let path = Path::over_a_router();
    let router = path.router.as_ref().expect("it has one");
    router.enter(|| run("tc qdisc add dev eth1 root tbf rate 1mbit burst 5kb latency 40ms"));
    let test = "TCP_MAERTS -l 1";
    let seen = path.measure(test, "-K cubic -S 200K", &path.client);
    let counted = path.server.enter(|| kernel_counter("Tcp", "RetransSegs"));
    let told = u64::try_from(seen.run.peer.results.retransmits).expect("the server knows");
    println!("{told} told, {counted} counted");
    assert_eq!(seen.there().socket.retransmits.map(u64::from), Some(told));
    assert!(told > 0, "the queue did not overflow");
    // The control connection's are in no figure. Its last message takes this path so long that TCP
    // probes for a loss once: RFC 8985, section 7.
    assert!(
        (told..=told + 1).contains(&counted),
        "{told} told, {counted} counted"
    );
}

/// Two hosts and what is between them.
struct Path {
    client: Namespace,
    server: Namespace,
    router: Option<Namespace>,
}

/// What was reported, and what the receiving interface saw meanwhile.
struct Seen {
    settings: Settings,
    run: FinishedTest,
    /// The last figure that is printed, 10^6 bit/s: what was received.
    rate: f64,
    course: Course,
}

impl Path {
    /// One link between the two.
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

    /// A router in the middle; its `eth0` is the one towards the server.
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
        router.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may"));
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

    /// Runs a test, of [`LENGTH`] unless it has another, while the receiver's interface is watched.
    fn measure(&self, test: &str, options: &str, receiver: &Namespace) -> Seen {
        let server = self.server.enter(|| Server::start(""));
        let running = AtomicBool::new(true);
        let line = format!(
            "-H {SERVER} -p {} -P 0 -l {} -t {test} -- {options}",
            server.port,
            LENGTH.as_secs()
        );
        let settings =
            parse_netperf("netperf", line.split_whitespace().map(Into::into)).expect("a good line");
        std::thread::scope(|scope| {
            let course =
                scope.spawn(|| receiver.enter(|| Course::of("eth0", || running.load(Relaxed))));
            let run = self.client.enter(|| {
                let stop = engine::Stop::new();
                let mut flows = Flows::connect(&settings, &stop)?;
                let run = flows.measure(&flows.counters())?;
                flows.close();
                Ok::<_, netperf::client::ClientError>(run)
            });
            running.store(false, Relaxed);
            let run = run.expect("the test succeeds");
            let printed = netperf::output::format_result(&settings, &run);
            println!("{test}:\n{}", printed.trim_end());
            let rate = printed
                .split_whitespace()
                .next_back()
                .and_then(|word| word.parse().ok());
            Seen {
                settings,
                run,
                rate: rate.expect("the last word is the rate"),
                course: course.join().expect("counters can be read"),
            }
        })
    }
}

impl Seen {
    /// What selectors print of the run.
    fn told<const N: usize>(&self, selectors: [&str; N]) -> [String; N] {
        let words = ["--", "-k", &selectors.join(",")].map(Into::into);
        let mut settings = self.settings.clone();
        settings.print = parse_netperf("netperf", words).expect("a good line").print;
        let text = netperf::output::format_result(&settings, &self.run);
        selectors.map(|selector| {
            let line =
                |line: &str| Some(line.strip_prefix(selector)?.strip_prefix('=')?.to_owned());
            text.lines().find_map(line).expect("it is printed")
        })
    }

    /// What the server measured.
    fn there(&self) -> &Side {
        self.run
            .outcome
            .remote
            .as_ref()
            .expect("the server is ours")
    }
}

/// Limits the rate that a host sends at: tc-tbf(8).
fn limit(sender: &Namespace, bucket: &str) {
    sender.enter(|| run(&format!("tc qdisc add dev eth0 root tbf rate {bucket}")));
}

/// Packets that a host's queue had no room for.
fn dropped_by(host: &Namespace) -> u64 {
    let text = host.enter(|| run("tc -s qdisc show dev eth0"));
    let after = text.split_once("(dropped ").map_or("", |(_, after)| after);
    let number: String = after.chars().take_while(char::is_ascii_digit).collect();
    number.parse().expect("tc shows the drops")
}

#[track_caller]
fn assert_close(reported: f64, counted: f64, what: &str) {
    let error = reported / counted - 1.0;
    println!(
        "{what}: {reported} reported, {counted} counted, {:+.3} %",
        error * 100.0
    );
    assert!(
        error.abs() <= TOLERANCE,
        "{what}: {reported} reported, {counted} counted"
    );
}

fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a command has a name");
    let output = Command::new(program).args(words).output();
    let output = output.unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
