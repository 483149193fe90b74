//! Tests with real packets through a test network: the counts of the receiver must match the
//! schedule and the log. They need root, iproute2 and ethtool. `testkit::test_case` skips them
//! elsewhere.

use std::collections::HashMap;
use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use lab::{
    CLIENT_ADDRESS, ForwarderStop, ImpairmentSchedule, LinkOptions, PacketSums, SERVER_ADDRESS,
    TestNetwork,
};
use testkit::Requirement::{Namespaces, Path as Device, Program};
use testkit::{ProcessOutput, TestCase, run_suites, test_case, wait_until};

/// Datagrams per test. A socket buffer of default size holds all of them, so that a late receiver
/// loses none.
const DATAGRAMS: u32 = 200;

/// The time limit of each operation, sufficient for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let requirements = &[
        Namespaces,
        Program("ethtool"),
        Program("tc"),
        Device("/dev/net/tun"),
    ];
    let tests = vec![
        test_case(
            "counts_match_the_schedule",
            requirements,
            counts_match_the_schedule,
        ),
        test_case(
            "back_rules_do_not_affect_forth_packets",
            requirements,
            back_rules_do_not_affect_forth_packets,
        ),
        test_case("delays_are_added", requirements, delays_are_added),
        test_case(
            "the_log_has_every_packet",
            requirements,
            the_log_has_every_packet,
        ),
        test_case(
            "runs_a_command_between_hosts",
            requirements,
            runs_a_command_between_hosts,
        ),
        test_case(
            "ipv6_routes_exist_on_each_kind_of_link",
            requirements,
            ipv6_routes_exist_on_each_kind_of_link,
        ),
        test_case(
            "servers_end_with_the_lab",
            requirements,
            servers_end_with_the_lab,
        ),
        test_case(
            "killed_lab_leaves_no_process",
            requirements,
            killed_lab_leaves_no_process,
        ),
    ];
    // The tests compare rates and delays, so each one runs alone.
    let tests = tests.into_iter().map(TestCase::run_alone).collect();
    run_suites(vec![("netns", tests)])
}

fn counts_match_the_schedule() {
    let schedule = "delay 2ms\nforth udp drop every 10\nforth udp duplicate every 7\nforth udp reorder every 9 by 100ms";
    // 20 of 200 are dropped. 28 are a multiple of 7; 2 of these (70 and 140) are dropped as well.
    let (arrived, duplicated) = (DATAGRAMS - 20, 26);
    let (received, sums) = send_datagrams(schedule, arrived + duplicated, None);
    let dropped: Vec<u32> = (1..=DATAGRAMS)
        .filter(|number| !received.contains(number))
        .collect();
    assert_eq!(
        dropped,
        (1..=20).map(|index| index * 10).collect::<Vec<_>>()
    );
    let mut arrivals: HashMap<u32, u32> = HashMap::new();
    for number in &received {
        *arrivals.entry(*number).or_default() += 1;
    }
    assert_eq!(
        arrivals.values().filter(|count| **count == 2).count() as u32,
        duplicated
    );

    let sums = &sums.to_server;
    assert_eq!((sums.dropped, sums.copies), (20, u64::from(duplicated)));
    assert_eq!(sums.departed, u64::from(arrived + duplicated));
    // 22 are a multiple of 9; 2 of these (90 and 180) are dropped.
    assert_eq!(sums.held, 20);
    // By RFC 4737, a packet is reordered if its number is smaller than a previous one. The copy of
    // a held packet is late too, but does not count.
    let mut largest = 0;
    let mut reordered = Vec::new();
    for number in received {
        if number < largest {
            reordered.push(number);
        }
        largest = largest.max(number);
    }
    reordered.dedup();
    assert_eq!(sums.reordered, reordered.len() as u64);
    assert!(sums.reordered > 0, "nothing was overtaken within 100 ms");
}

fn back_rules_do_not_affect_forth_packets() {
    let (received, sums) =
        send_datagrams("back drop every 1\nback duplicate every 1", DATAGRAMS, None);
    assert_eq!(received, (1..=DATAGRAMS).collect::<Vec<_>>());
    assert_eq!((sums.to_server.dropped, sums.to_server.copies), (0, 0));
    assert_eq!(sums.to_server.departed, u64::from(DATAGRAMS));
}

fn delays_are_added() {
    let (_, sums) = send_datagrams("forth delay 30ms", DATAGRAMS, None);
    let added_delay = sums
        .to_server
        .added_delay
        .summary()
        .expect("packets have left");
    assert!(added_delay.min_ns >= 30_000_000, "{added_delay:?}");
    let lateness = sums
        .to_server
        .lateness
        .summary()
        .expect("packets have left");
    // The lateness is the added delay minus the due delay, up to the resolution of a histogram.
    assert!(
        added_delay.mean_ns - 30e6 - lateness.mean_ns < 1.0,
        "{added_delay:?}, {lateness:?}"
    );
}

fn the_log_has_every_packet() {
    let log = tempfile::NamedTempFile::new().expect("temporary files can be created");
    let schedule = "seed 5\nudp drop 20%\nudp duplicate 20%\ndelay uniform 0s 2ms";
    // The seed determines all decisions in advance.
    let mut impairer = ImpairmentSchedule::parse(schedule)
        .expect("the schedule is valid")
        .impairer(lab::LinkDirection::ToServer);
    let mut packet = [0; 28];
    (packet[0], packet[9]) = (0x45, 17);
    let decisions: Vec<_> = (0..DATAGRAMS)
        .map(|_| impairer.decide(&packet, 0))
        .collect();
    let dropped: Vec<u32> = true_positions(decisions.iter().map(|decision| decision.is_dropped));
    let copies: Vec<u32> = true_positions(
        decisions
            .iter()
            .map(|decision| decision.is_duplicated && !decision.is_dropped),
    );

    let expected = DATAGRAMS - dropped.len() as u32 + copies.len() as u32;
    let (received, sums) = send_datagrams(schedule, expected, Some(log.path()));
    assert_eq!(received.len() as u32, expected);
    let text = std::fs::read_to_string(log.path()).expect("the log exists");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let numbers_with_verdict = |verdict: &str| {
        let rows = rows
            .iter()
            .filter(|row| row[0] == "forth" && row[7] == verdict);
        let mut numbers: Vec<u32> = rows.map(|row| row[1].parse().expect("a number")).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers_with_verdict("dropped"), dropped);
    assert_eq!(numbers_with_verdict("copy"), copies);
    assert_eq!(
        numbers_with_verdict("sent").len() as u64,
        sums.to_server.departed - sums.to_server.copies
    );
    for row in rows.iter().skip(1).filter(|row| row[7] == "sent") {
        let [arrival, due, departure] =
            [4, 5, 6].map(|column| row[column].parse::<u64>().expect("ns"));
        assert!(arrival <= due && due <= departure, "{row:?}");
        // IPv4 and UDP headers, and four bytes of payload.
        assert_eq!((row[2], row[3]), ("17", "32"));
    }
}

fn runs_a_command_between_hosts() {
    let script = "echo $LAB_CLIENT $LAB_SERVER; cat /proc/sys/net/ipv6/conf/client0/disable_ipv6; \
        ethtool -k client0 | grep -c 'segmentation-offload: on'; \
        nsenter --net=$LAB_SERVER_NET ip -o -4 address show server0 | grep -o 198.19.0.1; exit 7";
    for link in [&[][..], &["--rate", "10mbit"], &["--delay", "1ms"]] {
        let finished = netns(link, &["sh", "-c", script]);
        assert_eq!(
            finished.stdout,
            format!("{CLIENT_ADDRESS} {SERVER_ADDRESS}\n1\n0\n{SERVER_ADDRESS}\n"),
            "{finished:?}"
        );
        assert_eq!(finished.code, Some(7), "{finished:?}");
    }
    for (link, command, code) in [
        (
            &["--quiet", "--loss", "every 2"][..],
            &["sh", "-c", "kill -TERM $$"][..],
            143,
        ),
        (&[], &["/no/such/program"], 127),
        (&["--loss", "often"], &["true"], 125),
        (&["--netserver", "/bin/false"], &["true"], 125),
    ] {
        let finished = netns(link, command);
        assert_eq!(finished.code, Some(code), "{link:?}: {finished:?}");
        assert!(
            finished.stderr.lines().count() <= 1,
            "{link:?}: {finished:?}"
        );
    }
}

fn ipv6_routes_exist_on_each_kind_of_link() {
    let script = "for net in $LAB_CLIENT_NET $LAB_SERVER_NET; do nsenter --net=$net ip -6 -o route get $ROUTE >/dev/null || exit 1; done";
    let script = script.replace("$ROUTE", "$LAB_SERVER6");
    for link in [
        &["--ipv6"][..],
        &["--ipv6", "--rate", "10mbit"],
        &["--ipv6", "--delay", "1ms"],
    ] {
        let finished = netns(link, &["sh", "-c", &script]);
        assert_eq!(finished.code, Some(0), "{link:?}: {finished:?}");
    }
}

/// The lab also stops servers that are not the first process of their command line.
fn servers_end_with_the_lab() {
    let serve = "sleep 100 & echo $! >&2; exec sleep 100";
    let finished = netns(&["--serve", serve], &["sleep", "0.5"]);
    let pid = finished.stderr.trim();
    assert!(pid.parse::<u32>().is_ok(), "{finished:?}");
    // The new parent may take a moment to reap it.
    let path = format!("/proc/{pid}");
    assert!(wait_until(Duration::from_secs(5), || !Path::new(&path).exists()));
}

/// The command ends if the lab is killed without cleaning up. The kernel removes the namespaces
/// with their last process and descriptor.
fn killed_lab_leaves_no_process() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_linerate-lab"))
        .args([
            "netns",
            "--delay",
            "1ms",
            "--",
            "sh",
            "-c",
            "echo $$; exec sleep 60",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the lab starts");
    let mut line = String::new();
    let mut output = io::BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    io::BufRead::read_line(&mut output, &mut line).expect("the command prints its process number");
    let command = format!("/proc/{}", line.trim());
    assert!(Path::new(&command).exists());
    child.kill().expect("the lab is running");
    child.wait().expect("the lab is a child process");
    assert!(wait_until(TIMEOUT, || !Path::new(&command).exists()));
    let namespaces = Command::new("ip")
        .args(["netns", "list"])
        .output()
        .expect("iproute2 is installed");
    let namespaces = String::from_utf8_lossy(&namespaces.stdout);
    let prefix = format!("testkit-{}-", child.id());
    assert!(!namespaces.contains(&prefix), "{namespaces}");
}

/// Sends numbered datagrams from client to server over an impaired network. Returns the received
/// numbers in order of arrival, and the totals. Receives `expected` datagrams and waits 200 ms for
/// more.
fn send_datagrams(schedule: &str, expected: u32, log: Option<&Path>) -> (Vec<u32>, PacketSums) {
    let link = LinkOptions {
        schedule: Some(ImpairmentSchedule::parse(schedule).expect("the schedule is valid")),
        queue_limit: 10_000,
        ..LinkOptions::default()
    };
    let network = TestNetwork::new(&link).expect("root can create networks");
    let stop = ForwarderStop::new().expect("an eventfd can be created");
    thread::scope(|scope| {
        let forwarder = scope.spawn(|| network.forward(&stop, log));
        let received = send_and_receive(&network, expected);
        stop.trigger().expect("the eventfd is open");
        let sums = forwarder.join().expect("the forwarder does not panic");
        (received, sums.expect("the forwarder succeeds"))
    })
}

fn send_and_receive(network: &TestNetwork, expected: u32) -> Vec<u32> {
    let bind = |address: &str| UdpSocket::bind((address, 0)).expect("the host has the address");
    let receiver = network.server.enter(|| bind(SERVER_ADDRESS));
    let sender = network.client.enter(|| bind(CLIENT_ADDRESS));
    let address = receiver.local_addr().expect("the socket is bound");
    for number in 1..=DATAGRAMS {
        sender
            .send_to(&number.to_be_bytes(), address)
            .expect("there is a route");
    }
    let mut numbers = Vec::new();
    let next = |timeout| {
        receiver
            .set_read_timeout(Some(timeout))
            .expect("the timeout is not zero");
        let mut number = [0; 4];
        let length = receiver.recv(&mut number).ok()?;
        assert_eq!(length, number.len());
        Some(u32::from_be_bytes(number))
    };
    while (numbers.len() as u32) < expected {
        numbers.push(next(TIMEOUT).unwrap_or_else(|| panic!("no datagram after {numbers:?}")));
    }
    // Held packets have arrived by now, so no more may follow.
    assert_eq!(next(Duration::from_millis(200)), None);
    numbers
}

fn netns(link: &[&str], arguments: &[&str]) -> ProcessOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-lab"));
    command.arg("netns").args(link).arg("--").args(arguments);
    testkit::run(command, TIMEOUT).expect("the lab exits in time")
}

/// Returns the positions, from 1, of true values.
fn true_positions(values: impl Iterator<Item = bool>) -> Vec<u32> {
    (1..)
        .zip(values)
        .filter_map(|(number, is_true)| is_true.then_some(number))
        .collect()
}
