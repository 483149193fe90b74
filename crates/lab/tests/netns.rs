//! Real packets through a real network: what the receiver counts is what the schedule says and what
//! the log says. Needs root, iproute2 and ethtool; see `testkit::trial` for where they are missing.

use std::collections::HashMap;
use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use lab::{CLIENT, Journal, Link, Network, SERVER, Schedule, Stop};
use testkit::Need::{Namespaces, Path as Device, Program};
use testkit::{Finished, Trial, eventually, run_suites, trial};

/// Datagrams a test: as many of this size fit into a socket's buffer with the kernel's defaults, so
/// that none is lost however late the receiver comes.
const DATAGRAMS: u32 = 200;

/// What a busy machine may take for anything here.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let needs = &[
        Namespaces,
        Program("ethtool"),
        Program("tc"),
        Device("/dev/net/tun"),
    ];
    let trials = vec![
        trial("counts_are_the_schedules", needs, counts_are_the_schedules),
        trial("back_is_not_forth", needs, back_is_not_forth),
        trial("delays_are_added", needs, delays_are_added),
        trial("the_log_has_every_packet", needs, the_log_has_every_packet),
        trial("a_command_between_hosts", needs, a_command_between_hosts),
        trial("rates_and_ipv6", needs, rates_and_ipv6),
        trial("servers_end_with_it", needs, servers_end_with_it),
        trial("nothing_is_left", needs, nothing_is_left),
    ];
    // They compare rates and delays.
    let trials = trials.into_iter().map(Trial::quiet).collect();
    run_suites(vec![("netns", trials)])
}

fn counts_are_the_schedules() {
    let schedule = "delay 2ms\nforth udp drop every 10\nforth udp duplicate every 7\nforth udp reorder every 9 by 100ms";
    // 20 of 200 dropped; 28 are a 7th, of which 2 (70 and 140) are dropped as well.
    let (arrived, doubled) = (DATAGRAMS - 20, 26);
    let (seen, journal) = exchange(schedule, arrived + doubled, None);
    let dropped: Vec<u32> = (1..=DATAGRAMS)
        .filter(|number| !seen.contains(number))
        .collect();
    assert_eq!(
        dropped,
        (1..=20).map(|tenth| tenth * 10).collect::<Vec<_>>()
    );
    let mut times: HashMap<u32, u32> = HashMap::new();
    for number in &seen {
        *times.entry(*number).or_default() += 1;
    }
    assert_eq!(
        times.values().filter(|times| **times == 2).count() as u32,
        doubled
    );

    let sums = &journal.forth;
    assert_eq!((sums.dropped, sums.copies), (20, u64::from(doubled)));
    assert_eq!(sums.departed, u64::from(arrived + doubled));
    // 22 are a 9th, of which 2 (90 and 180) are dropped.
    assert_eq!(sums.held, 20);
    // By RFC 4737 each time that a smaller number comes than one that was there; a held packet's
    // copy comes late too, but is no packet of its own.
    let mut largest = 0;
    let mut reordered = Vec::new();
    for number in seen {
        if number < largest {
            reordered.push(number);
        }
        largest = largest.max(number);
    }
    reordered.dedup();
    assert_eq!(sums.reordered, reordered.len() as u64);
    assert!(sums.reordered > 0, "nothing was overtaken within 100 ms");
}

fn back_is_not_forth() {
    let (seen, journal) = exchange("back drop every 1\nback duplicate every 1", DATAGRAMS, None);
    assert_eq!(seen, (1..=DATAGRAMS).collect::<Vec<_>>());
    assert_eq!((journal.forth.dropped, journal.forth.copies), (0, 0));
    assert_eq!(journal.forth.departed, u64::from(DATAGRAMS));
}

fn delays_are_added() {
    let (_, journal) = exchange("forth delay 30ms", DATAGRAMS, None);
    let added = journal.forth.added.summary().expect("packets have left");
    assert!(added.min_ns >= 30_000_000, "{added:?}");
    let late = journal.forth.lateness.summary().expect("packets have left");
    // The one is the other less what was due: to within a bucket and its rounding.
    assert!(
        added.mean_ns - 30e6 - late.mean_ns < 1.0,
        "{added:?}, {late:?}"
    );
}

fn the_log_has_every_packet() {
    let log = tempfile::NamedTempFile::new().expect("a place for files");
    let schedule = "seed 5\nudp drop 20%\nudp duplicate 20%\ndelay uniform 0s 2ms";
    // What the seed decides, it decides beforehand.
    let mut course = Schedule::parse(schedule)
        .expect("a schedule")
        .course(lab::Direction::Forth);
    let mut packet = [0; 28];
    (packet[0], packet[9]) = (0x45, 17);
    let fates: Vec<_> = (0..DATAGRAMS).map(|_| course.fate(&packet, 0)).collect();
    let dropped: Vec<u32> = numbers(fates.iter().map(|fate| fate.dropped));
    let copies: Vec<u32> = numbers(fates.iter().map(|fate| fate.doubled && !fate.dropped));

    let expected = DATAGRAMS - dropped.len() as u32 + copies.len() as u32;
    let (seen, journal) = exchange(schedule, expected, Some(log.path()));
    assert_eq!(seen.len() as u32, expected);
    let text = std::fs::read_to_string(log.path()).expect("it was written");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let of = |verdict: &str| {
        let rows = rows
            .iter()
            .filter(|row| row[0] == "forth" && row[7] == verdict);
        let mut numbers: Vec<u32> = rows.map(|row| row[1].parse().expect("a number")).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(of("dropped"), dropped);
    assert_eq!(of("copy"), copies);
    assert_eq!(
        of("sent").len() as u64,
        journal.forth.departed - journal.forth.copies
    );
    for row in rows.iter().skip(1).filter(|row| row[7] == "sent") {
        let [arrival, due, departure] =
            [4, 5, 6].map(|column| row[column].parse::<u64>().expect("ns"));
        assert!(arrival <= due && due <= departure, "{row:?}");
        // IPv4 and UDP headers and four bytes.
        assert_eq!((row[2], row[3]), ("17", "32"));
    }
}

fn a_command_between_hosts() {
    let script = "echo $LAB_CLIENT $LAB_SERVER; cat /proc/sys/net/ipv6/conf/client0/disable_ipv6; \
        ethtool -k client0 | grep -c 'segmentation-offload: on'; \
        nsenter --net=$LAB_SERVER_NET ip -o -4 address show server0 | grep -o 198.19.0.1; exit 7";
    for link in [&[][..], &["--rate", "10mbit"], &["--delay", "1ms"]] {
        let finished = netns(link, &["sh", "-c", script]);
        assert_eq!(
            finished.stdout,
            format!("{CLIENT} {SERVER}\n1\n0\n{SERVER}\n"),
            "{finished:?}"
        );
        assert_eq!(finished.code, Some(7), "{finished:?}");
    }
    for (link, words, code) in [
        (
            &["--quiet", "--loss", "every 2"][..],
            &["sh", "-c", "kill -TERM $$"][..],
            143,
        ),
        (&[], &["/no/such/program"], 127),
        (&["--loss", "often"], &["true"], 125),
        (&["--netserver", "/bin/false"], &["true"], 125),
    ] {
        let finished = netns(link, words);
        assert_eq!(finished.code, Some(code), "{link:?}: {finished:?}");
        assert!(
            finished.stderr.lines().count() <= 1,
            "{link:?}: {finished:?}"
        );
    }
}

fn rates_and_ipv6() {
    let script = "for net in $LAB_CLIENT_NET $LAB_SERVER_NET; do nsenter --net=$net ip -6 -o route get $ROUTE >/dev/null || exit 1; done";
    let both = script.replace("$ROUTE", "$LAB_SERVER6");
    for link in [
        &["--ipv6"][..],
        &["--ipv6", "--rate", "10mbit"],
        &["--ipv6", "--delay", "1ms"],
    ] {
        let finished = netns(link, &["sh", "-c", &both]);
        assert_eq!(finished.code, Some(0), "{link:?}: {finished:?}");
    }
}

/// A server that is not the first process of its command line also ends with the lab.
fn servers_end_with_it() {
    let serve = "sleep 100 & echo $! >&2; exec sleep 100";
    let finished = netns(&["--serve", serve], &["sleep", "0.5"]);
    let pid = finished.stderr.trim();
    assert!(pid.parse::<u32>().is_ok(), "{finished:?}");
    // Its new parent may take a moment to collect it.
    let path = format!("/proc/{pid}");
    assert!(eventually(Duration::from_secs(5), || !Path::new(&path).exists()));
}

/// Killed without a chance to clean up, it takes its command along, and with the last process and
/// descriptor the kernel takes the namespaces.
fn nothing_is_left() {
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
        .expect("it starts");
    let mut line = String::new();
    let mut output = io::BufReader::new(child.stdout.take().expect("a pipe"));
    io::BufRead::read_line(&mut output, &mut line).expect("it prints a number");
    let command = format!("/proc/{}", line.trim());
    assert!(Path::new(&command).exists());
    child.kill().expect("it runs");
    child.wait().expect("it is ours");
    assert!(eventually(PATIENCE, || !Path::new(&command).exists()));
    let named = Command::new("ip")
        .args(["netns", "list"])
        .output()
        .expect("iproute2");
    let named = String::from_utf8_lossy(&named.stdout);
    let ours = format!("testkit-{}-", child.id());
    assert!(!named.contains(&ours), "{named}");
}

/// Sends numbered datagrams from client to server over an impaired network; the numbers in the order
/// of their arrival, until `expected` came and a while longer, and the journal.
fn exchange(schedule: &str, expected: u32, log: Option<&Path>) -> (Vec<u32>, Journal) {
    let link = Link {
        schedule: Some(Schedule::parse(schedule).expect("a schedule")),
        limit: 10_000,
        ..Link::default()
    };
    let network = Network::new(&link).expect("root may");
    let stop = Stop::new().expect("a descriptor");
    thread::scope(|scope| {
        let forwarder = scope.spawn(|| network.forward(&stop, log));
        let seen = send_and_receive(&network, expected);
        stop.pull().expect("it is open");
        let journal = forwarder.join().expect("it does not panic");
        (seen, journal.expect("devices work"))
    })
}

fn send_and_receive(network: &Network, expected: u32) -> Vec<u32> {
    let bind = |address: &str| UdpSocket::bind((address, 0)).expect("the host has the address");
    let receiver = network.server.enter(|| bind(SERVER));
    let sender = network.client.enter(|| bind(CLIENT));
    let to = receiver.local_addr().expect("it is bound");
    for number in 1..=DATAGRAMS {
        sender
            .send_to(&number.to_be_bytes(), to)
            .expect("there is a route");
    }
    let mut seen = Vec::new();
    let next = |patience| {
        receiver.set_read_timeout(Some(patience)).expect("not zero");
        let mut number = [0; 4];
        let length = receiver.recv(&mut number).ok()?;
        assert_eq!(length, number.len());
        Some(u32::from_be_bytes(number))
    };
    while (seen.len() as u32) < expected {
        let patience = PATIENCE;
        seen.push(next(patience).unwrap_or_else(|| panic!("after {seen:?} nothing comes")));
    }
    // More would be wrong; what the schedule holds back would be here by now.
    assert_eq!(next(Duration::from_millis(200)), None);
    seen
}

fn netns(link: &[&str], words: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-lab"));
    command.arg("netns").args(link).arg("--").args(words);
    testkit::run(command, PATIENCE).expect("it ends")
}

/// The positions, from 1, of what is true.
fn numbers(are: impl Iterator<Item = bool>) -> Vec<u32> {
    (1..)
        .zip(are)
        .filter_map(|(number, is)| is.then_some(number))
        .collect()
}
