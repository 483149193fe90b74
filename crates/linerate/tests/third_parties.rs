//! Requests with forged source addresses: the bytes that each server sends to the third host.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use iperf::wire::flags::{self, upper};
use iperf::wire::{DatagramHeader, Extension, Hello, HelloTransport, SendAmount, WallTime};
use socket2::{Domain, Protocol, Socket, Type};
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, Receive, Server, TestCase, TestProcess, add_link, kernel_counter,
    linerate_with_args, wait_until,
};
use udpmon::wire::{Command, LinerateExtension, MessageBlock};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        needing &[Namespaces];
        iperf_server,
        udpmon_responder,
        serve,
        servers_with_control_connections,
        proven_addresses_get_data,
    ];
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

const TIMEOUT: Duration = Duration::from_secs(30);

const SERVER: &str = "198.51.100.1";
/// Addresses of the third host: behind the server's router, and in the prefix of its interface.
const BEHIND_ROUTER: &str = "203.0.113.9";
const ALLOWED: &str = "203.0.113.10";
const ON_LINK: &str = "198.51.100.9";

const ALLOW: &str = "--allow-third-party 203.0.113.10,192.0.2.0/24";
const REASON: &str = "its address is not proven (--allow-third-party accepts it)";

/// Each source, and whether the server may send it more than three times the received bytes.
const SOURCES: [(&str, bool); 3] = [(BEHIND_ROUTER, false), (ON_LINK, true), (ALLOWED, true)];

/// A server, its router, and a third host behind the router. The router sends the forged datagrams.
struct Network {
    server: Namespace,
    router: Namespace,
    third: Namespace,
}

/// A request: its datagrams, and whether an unlimited answer exceeds three times their bytes.
struct Request {
    name: String,
    datagrams: Vec<Vec<u8>>,
    amplifies: bool,
    /// Whether the log names the option if the answer is limited.
    is_logged: bool,
}

impl Network {
    fn new() -> Self {
        let [server, router, third] = [(); 3].map(|()| Namespace::with_loopback_only());
        add_link(
            (&server, "lan", &format!("{SERVER}/24")),
            (&router, "lan", "198.51.100.2/24"),
        );
        add_link(
            (&router, "far", "192.0.2.1/24"),
            (&third, "far", "192.0.2.2/24"),
        );
        server.ip("route add default via 198.51.100.2");
        third.ip("route add default via 192.0.2.1");
        for address in [BEHIND_ROUTER, ALLOWED, ON_LINK] {
            third.ip(&format!("address add {address}/32 dev far"));
            router.ip(&format!("route add {address}/32 dev far"));
        }
        router.enter(|| {
            for (file, value) in [
                ("ip_forward", "1"),
                ("conf/lan/proxy_arp", "1"),
                ("conf/all/rp_filter", "0"),
                ("conf/lan/rp_filter", "0"),
            ] {
                let file = format!("/proc/sys/net/ipv4/{file}");
                std::fs::write(file, value).expect("root may write");
            }
        });
        Self {
            server,
            router,
            third,
        }
    }

    fn start(&self, port: u16, line: &str) -> Server {
        (self.server).enter(|| Server::start_at(port, linerate_with_args(line)))
    }

    /// Returns the payload bytes that have arrived at the third host.
    fn arrived(&self) -> u64 {
        self.third.enter(|| {
            loop {
                let packets = kernel_counter("Ip", "InReceives");
                let bytes = kernel_counter("IpExt", "InOctets");
                if kernel_counter("Ip", "InReceives") == packets {
                    return bytes - 28 * packets;
                }
            }
        })
    }

    /// Sends datagrams from the router to the server, with a source address of the third host.
    /// Returns their bytes.
    fn forge(&self, source: SocketAddr, port: u16, datagrams: &[Vec<u8>]) -> u64 {
        self.router.enter(|| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP));
            let socket = socket.expect("a socket");
            socket.set_ip_transparent_v4(true).expect("root may");
            // A process that another test is starting may still hold the last socket.
            let is_bound = || socket.bind(&source.into()).is_ok();
            assert!(wait_until(TIMEOUT, is_bound), "a transparent address");
            let socket = UdpSocket::from(socket);
            for datagram in datagrams {
                // A connected socket would also receive the server's datagrams.
                socket.send_to(datagram, (SERVER, port)).expect("a route");
                // The responder answers a request before the next one.
                std::thread::sleep(Duration::from_millis(2));
            }
            datagrams.iter().map(|datagram| datagram.len() as u64).sum()
        })
    }

    /// Sends each request from each source to a server that allows one of them. Fails if an address
    /// behind the router gets more than three times the sent bytes, or another one does not.
    fn check(&self, server: &Server, port: u16, requests: &[Request]) {
        for (index, request) in requests.iter().enumerate() {
            for (source, is_exempt) in SOURCES {
                // An open port: the third host does not refuse the datagrams by ICMP.
                let address = format!("{source}:{}", 30_000 + index);
                let address: SocketAddr = address.parse().expect("an address");
                let _victim = self
                    .third
                    .enter(|| UdpSocket::bind(address).expect("a port"));
                let measure = || {
                    let before = self.arrived();
                    let sent = self.forge(address, port, &request.datagrams);
                    self.await_silence();
                    (sent, self.arrived() - before)
                };
                let what = || format!("{} from {address}: {}", request.name, server.stderr());
                if is_exempt {
                    // A busy host may lose a datagram.
                    let exceeds = || {
                        let (sent, arrived) = measure();
                        arrived > if request.amplifies { 3 * sent } else { 0 }
                    };
                    assert!(wait_until(TIMEOUT, exceeds), "{}", what());
                    continue;
                }
                // The log has no line about a lost datagram.
                let is_limited = || {
                    let (sent, arrived) = measure();
                    assert!(arrived <= 3 * sent, "{sent}, {arrived}: {}", what());
                    let log = server.stderr();
                    let is_line =
                        |line: &str| line.contains(&address.to_string()) && line.contains(REASON);
                    !request.is_logged || log.lines().any(is_line)
                };
                assert!(wait_until(TIMEOUT, is_limited), "{}", what());
            }
        }
    }

    /// Waits until no datagrams arrive at the third host any more.
    fn await_silence(&self) {
        let mut last = self.arrived();
        let is_silent = wait_until(TIMEOUT, || {
            std::thread::sleep(Duration::from_millis(300));
            std::mem::replace(&mut last, self.arrived()) == last
        });
        assert!(is_silent);
    }
}

/// A datagram of an iperf 2 client, with this header.
fn iperf_datagram(number: i64, length: usize, hello: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; length];
    let sent = WallTime::now();
    DatagramHeader { number, sent }.write(&mut datagram, true);
    let end = length.min(16 + hello.len());
    datagram[16..end].copy_from_slice(&hello[..end - 16]);
    datagram
}

/// Requests of iperf 2, each with two datagrams.
fn iperf_requests() -> Vec<Request> {
    let request = |name: &str, own_flags, upper, port: u16, last: i64| {
        let hello = Hello {
            flags: own_flags | flags::EXTEND | flags::UDP_TESTS | flags::WIDE_NUMBERS,
            port: port.into(),
            length: 1000,
            amount: SendAmount::Bytes(60_000),
            extension: Some(Extension {
                upper,
                rate: 50_000_000,
                ..Extension::default()
            }),
            ..Hello::default()
        };
        let hello = hello.encode(HelloTransport::Datagram);
        let datagram = |number| iperf_datagram(number, 16 + hello.len(), &hello);
        Request {
            name: format!("iperf {name}"),
            datagrams: vec![datagram(1), datagram(last)],
            amplifies: name != "upload",
            is_logged: name != "upload",
        }
    };
    // The digits that fill a datagram without a header.
    let short = |number| iperf_datagram(number, 20, b"6789");
    vec![
        request("upload", 0, 0, 0, -2),
        request("-R", flags::VERSION2, upper::REVERSE, 0, 1),
        request("--full-duplex", flags::VERSION2, upper::FULL_DUPLEX, 0, -2),
        request("-d", flags::VERSION1 | flags::RUN_NOW, 0, 30_003, -2),
        request("-r", flags::VERSION1, 0, 30_004, -2),
        Request {
            name: "iperf report".to_owned(),
            datagrams: vec![short(1), short(-2)],
            amplifies: true,
            is_logged: true,
        },
    ]
}

/// Requests of UDPmon, each in a test of its own.
fn udpmon_requests() -> Vec<Request> {
    let commands = [
        (Command::Request, 1472),
        (Command::GetHistogram, 9000),
        (Command::GetCounters, 9000),
        (Command::GetCpuLoad, 9000),
        (Command::GetNic, 9000),
        (Command::GetRecords, 9000),
        (Command::Fetch, 9000),
        (Command::GetStats, 0),
        (Command::ZeroStats, 0),
    ];
    let request = |(command, length)| {
        let encode = |command| {
            let block = MessageBlock {
                length,
                low: i32::from(command == Command::Fetch),
                ..MessageBlock::with_command(command)
            };
            let mut bytes = block.encode();
            if command == Command::Fetch {
                LinerateExtension::default().write_into(&mut bytes);
            }
            bytes.to_vec()
        };
        let mut datagrams = vec![encode(Command::ZeroStats)];
        datagrams.extend((0..10).map(|_| encode(command)));
        datagrams.push(encode(Command::TestEnd));
        let amplifies = length > 0 && command != Command::Fetch;
        Request {
            name: format!("UDPmon {command}"),
            datagrams,
            amplifies,
            is_logged: amplifies,
        }
    };
    commands.into_iter().map(request).collect()
}

fn iperf_server() {
    let network = Network::new();
    let server = network.start(5001, &format!("iperf -s -u {ALLOW}"));
    network.check(&server, 5001, &iperf_requests());
    assert_few_answers_to_repeated_ends(&network);
}

/// A client that repeats its last datagram keeps its slot. One whose address is not proven gets only
/// a few answers, however much it has sent.
fn assert_few_answers_to_repeated_ends(network: &Network) {
    let address = format!("{BEHIND_ROUTER}:30100");
    let address: SocketAddr = address.parse().expect("an address");
    let bind = || UdpSocket::bind(address).expect("a port");
    let _victim = network.third.enter(bind);
    let numbers = (1..40).chain([-40; 100]);
    let datagrams: Vec<_> = numbers
        .map(|number| iperf_datagram(number, 1000, b""))
        .collect();
    let answers = || network.third.enter(|| kernel_counter("Ip", "InReceives"));
    let before = answers();
    network.forge(address, 5001, &datagrams);
    network.await_silence();
    let answers = answers() - before;
    assert!((1..=10).contains(&answers), "{answers}");
}

fn udpmon_responder() {
    let network = Network::new();
    let server = network.start(14233, &format!("udpmon_resp --max-tests 99 {ALLOW}"));
    network.check(&server, 14233, &udpmon_requests());
}

fn serve() {
    let network = Network::new();
    let directory = testkit::short_path_dir();
    let status = directory.path().join("status");
    let line = format!("serve --status {} {ALLOW}", status.display());
    let server = network.start(14233, &line);
    network.check(&server, 5001, &iperf_requests());
    network.check(&server, 14233, &udpmon_requests());
}

/// netserver, the uperf slave and iperf3's server send datagrams only to the address of a control
/// connection, which forged datagrams do not have.
fn servers_with_control_connections() {
    let network = Network::new();
    let (router, third) = (&network.router, &network.third);
    let victim = third.enter(|| UdpSocket::bind(("0.0.0.0", 30_000)).expect("a port"));
    victim.set_nonblocking(true).expect("a socket");
    let profile = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        r#"<profile name="p"><group nthreads="1">
<transaction iterations="1"><flowop type="connect" options="remotehost={SERVER} protocol=udp port=5002"/></transaction>
<transaction duration="2s"><flowop type="write" options="size=64"/><flowop type="read" options="size=64"/></transaction>
<transaction iterations="1"><flowop type="disconnect"/></transaction></group></profile>"#
    );
    std::fs::write(profile.path(), text).expect("a file");
    let uperf = format!("uperf -m {}", profile.path().display());
    for (port, server, data_port, client) in [
        (
            12865,
            "netserver -D",
            5002,
            format!("netperf -H {SERVER} -t UDP_RR -l 2 -- -P ,5002"),
        ),
        (20000, "uperf -s", 0, uperf),
        (
            5201,
            "iperf3 -s",
            5201,
            format!("iperf3 -c {SERVER} -u -R -t 2 -b 1M"),
        ),
    ] {
        let server = network.start(port, server);
        let client = router.enter(|| TestProcess::start(&mut linerate_with_args(&client)));
        let mut ports = Vec::new();
        let has_port = wait_until(TIMEOUT, || {
            ports = udp_ports(&network.server);
            !ports.is_empty() && (data_port == 0 || ports.contains(&data_port))
        });
        assert!(has_port, "{}", server.stderr());
        for (source, _) in SOURCES {
            let source = format!("{source}:30000").parse().expect("an address");
            let datagrams: Vec<_> = [4, 16, 64, 1000].map(|length| vec![1; length]).to_vec();
            for port in &ports {
                network.forge(source, *port, &datagrams);
            }
        }
        client.finish(TIMEOUT).assert_success();
        let received = victim.receive(&mut [0; 2048]);
        assert!(received.is_err(), "port {port} sent {received:?} bytes");
    }
}

/// Two linerates prove an address, also behind a router.
fn proven_addresses_get_data() {
    let network = Network::new();
    let run = |line: &str| {
        let client = (network.third).enter(|| TestProcess::start(&mut linerate_with_args(line)));
        client.finish(TIMEOUT)
    };
    let iperf = network.start(5001, "iperf -s -u");
    let before = network.arrived();
    run(&format!("iperf -c {SERVER} -u -R -t 1")).assert_success();
    assert!(network.arrived() - before > 50_000, "{}", iperf.stderr());
    // A datagram of 100 bytes has no room for the nonce.
    let unproven = run(&format!("iperf -c {SERVER} -u -R -t 1 -l 100"));
    assert_ne!(unproven.code, Some(0), "{unproven:#?}");
    assert!(iperf.stderr().contains(REASON), "{}", iperf.stderr());
    let udpmon = network.start(14233, "udpmon_resp");
    let before = network.arrived();
    run(&format!(
        "udpmon_req -d {SERVER} -r 1400 -e 1472 -i 36 -l 20"
    ))
    .assert_success();
    assert!(network.arrived() - before > 20_000, "{}", udpmon.stderr());
    assert!(!udpmon.stderr().contains(REASON), "{}", udpmon.stderr());
}

/// Returns the ports of the datagram sockets of a namespace.
fn udp_ports(namespace: &Namespace) -> Vec<u16> {
    namespace.enter(|| {
        let tables = ["udp", "udp6"].map(|table| format!("/proc/thread-self/net/{table}"));
        let text = tables.map(|table| std::fs::read_to_string(table).unwrap_or_default());
        let port = |line: &str| {
            let local = line.split_whitespace().nth(1)?;
            u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()
        };
        text.concat().lines().filter_map(port).collect()
    })
}
