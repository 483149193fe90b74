//! Counts and delays over a network with known loss, order, duplicates, rate and queue.

use std::path::Path;
use std::thread;

use lab::{
    ForwarderStop, ImpairmentSchedule, LinkOptions, SERVER_ADDRESS, TestNetwork, TokenBucket,
};
use serde_json::Value;
use testkit::Requirement::{Namespaces, Path as Device, Program};
use testkit::{ProcessOutput, Server, TestCase, test_case};

use super::checks::corrected_counts;
use super::{TIMEOUT, bw_mon, packet_counts};

/// Payload of data packets in bytes. No control message has this length.
const PAYLOAD_LEN: usize = 300;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let needs = &[
        Namespaces,
        Program("ethtool"),
        Program("tc"),
        Device("/dev/net/tun"),
    ];
    vec![
        test_case(
            "counts_match_impairment_schedule",
            needs,
            counts_match_impairment_schedule,
        )
        .allow_many_at_once(),
        test_case(
            "delay_and_rate_match_queue",
            needs,
            delay_and_rate_match_queue,
        )
        .run_alone(),
    ]
}

/// The data packets in the log of the forwarder.
struct ForwarderLog {
    sent: u64,
    /// Numbers of the forwarded packets, in order of departure.
    forwarded: Vec<u64>,
}

impl ForwarderLog {
    /// Reads the log of the forwarder. It recognises data packets by their length.
    fn read(log: &Path) -> Self {
        let text = std::fs::read_to_string(log).expect("the log");
        let length = (PAYLOAD_LEN + 28).to_string();
        let mut sent = 0;
        let mut numbers = std::collections::HashMap::new();
        let mut departures = Vec::new();
        let rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let mut data: Vec<Vec<&str>> = rows
            .filter(|line| line[0] == "forth" && line[3] == length)
            .collect();
        // The log is in order of departure. Sort it by arrival number.
        data.sort_by_key(|line| line[1].parse::<u64>().expect("a number"));
        for line in &data {
            let number = *numbers.entry(line[1]).or_insert_with(|| {
                sent += 1;
                sent - 1
            });
            if matches!(line[7], "sent" | "held" | "copy") {
                departures.push((line[6].parse::<u64>().expect("a time"), number));
            }
        }
        departures.sort_by_key(|(departure, _)| *departure);
        Self {
            sent,
            forwarded: departures.into_iter().map(|(_, number)| number).collect(),
        }
    }

    /// Returns the counts by stock's rule: received, skipped, not above the highest.
    fn stock_counts(&self) -> [u64; 3] {
        let mut highest = -1;
        let [mut lost, mut bad_order] = [0, 0];
        for number in self.forwarded.iter().map(|number| *number as i64) {
            match number - highest {
                ..1 => bad_order += 1,
                ahead => lost += ahead as u64 - 1,
            }
            highest = highest.max(number);
        }
        [self.forwarded.len() as u64, lost, bad_order]
    }

    /// Returns the corrected counts: lost, lost at the end, late, repeated.
    fn corrected_counts(&self) -> [u64; 4] {
        let mut is_forwarded = vec![false; self.sent as usize];
        let [mut late, mut repeated, mut next] = [0, 0, 0];
        for number in &self.forwarded {
            if std::mem::replace(&mut is_forwarded[*number as usize], true) {
                repeated += 1;
            } else if *number < next {
                late += 1;
            } else {
                next = number + 1;
            }
        }
        let count_lost = |flags: &[bool]| flags.iter().filter(|flag| !**flag).count() as u64;
        let (before, end) = is_forwarded.split_at(next as usize);
        [count_lost(before), count_lost(end), late, repeated]
    }
}

/// Runs a test between two hosts, again if a receiver's socket dropped datagrams: the log of the
/// link does not contain these losses. On a busy machine, many runs in a row may have some.
fn run_test(link: &LinkOptions, log: Option<&Path>, options: &str) -> ProcessOutput {
    for _ in 0..100 {
        let (client, socket_drops) = run_test_once(link, log, options);
        if socket_drops == 0 {
            return client;
        }
    }
    panic!("the sockets dropped datagrams in each run");
}

/// Runs a test. Returns the client's output, and the number of datagrams that sockets dropped.
fn run_test_once(link: &LinkOptions, log: Option<&Path>, options: &str) -> (ProcessOutput, u64) {
    let network = TestNetwork::new(link).expect("root permissions");
    let stop = ForwarderStop::new().expect("a free descriptor");
    thread::scope(|scope| {
        let forwarder = scope.spawn(|| network.forward(&stop, log));
        let server = network
            .server
            .enter(|| Server::start_with(|port| format!("udpmon_resp -u {port} -S 0")));
        let arguments = format!("-d {SERVER_ADDRESS} -u {} -S 0 {options}", server.port);
        let client = network
            .client
            .enter(|| testkit::run(bw_mon(&arguments), TIMEOUT));
        stop.trigger().expect("an open descriptor");
        forwarder
            .join()
            .expect("a forwarder without a panic")
            .expect("working devices");
        let client = client.expect("the client ends");
        client.assert_success();
        let drops = || testkit::kernel_counter("Udp", "RcvbufErrors");
        let socket_drops = network.server.enter(drops) + network.client.enter(drops);
        (client, socket_drops)
    })
}

fn counts_match_impairment_schedule() {
    let schedule = "forth udp drop packets 301,350-353,600
        forth udp duplicate packets 400,500,501
        forth udp reorder packets 450,700,800-802 by 20ms
        forth udp drop packets 1195-1210";
    for options in ["", "-G 1000"] {
        let link = LinkOptions {
            schedule: Some(ImpairmentSchedule::parse(schedule).expect("a schedule")),
            queue_limit: 10_000,
            ..LinkOptions::default()
        };
        let log = tempfile::NamedTempFile::new().expect("a temporary file");
        // At this rate a socket's buffer holds the packets of 0.1 s.
        let options = format!("-p {PAYLOAD_LEN} -l 1000 -w 1000 {options}");
        let client = run_test(&link, Some(log.path()), &options);
        let forwarder = ForwarderLog::read(log.path());
        assert_eq!(forwarder.sent, 1000);
        let corrected = forwarder.corrected_counts();
        let [lost, _, late, repeated] = corrected;
        assert!(lost >= 6 && late > 0 && repeated == 3, "{corrected:?}");
        let expected = forwarder.stock_counts();
        assert_eq!(packet_counts(&client.stdout), expected, "{client:#?}");
        let printed = corrected_counts(&client.stdout);
        assert_eq!(printed, Some(corrected), "{client:#?}");
    }
}

/// A burst at three times the rate fills a queue of 50 ms at 20 Mbit/s.
fn delay_and_rate_match_queue() {
    /// Rate of the link in bits per second, including Ethernet headers.
    const RATE: f64 = 20e6;
    let rate = TokenBucket {
        rate: "20mbit".to_owned(),
        burst: "16kb".to_owned(),
        latency: "50ms".to_owned(),
    };
    // As tc computes the size: the data of one latency, and the bucket.
    let queue_bytes = RATE / 8.0 * 0.05 + 16.0 * 1024.0;
    let link = LinkOptions {
        rates: [Some(rate), None],
        ..LinkOptions::default()
    };
    let expected = queue_bytes * 8.0 / RATE * 1e9;
    let payload = RATE * 1472.0 / 1514.0;
    // A pause of a program adds to the delays, and moves packets together.
    let is_exact = || {
        let client = run_test(&link, None, "-p 1472 -l 1000 -w 200 -G 1000 --json");
        let document: Value = serde_json::from_str(&client.stdout).expect("a document");
        let figures = &document["tests"][0]["runs"][0]["packet_figures"];
        let peak = figures["peak_relative_delay_ns"].as_f64().expect("a delay");
        let bottleneck = figures["bottleneck"]["rate_bps"].as_f64().expect("a rate");
        println!("{peak} ns of {expected}, {bottleneck} bit/s of {payload}");
        assert!(peak > expected * 0.95, "{figures:#}");
        peak < expected * 1.05 && (bottleneck / payload - 1.0).abs() < 0.02
    };
    assert!((0..20).any(|_| is_exact()), "no run without a pause");
}
