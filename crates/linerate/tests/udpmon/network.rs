//! Counts and delays over a network whose loss, order, copies, rate and queue are known.

use std::path::Path;
use std::thread;

use lab::{
    ForwarderStop, ImpairmentSchedule, LinkOptions, SERVER_ADDRESS, TestNetwork, TokenBucket,
};
use serde_json::Value;
use testkit::Requirement::{Namespaces, Path as Device, Program};
use testkit::{ProcessOutput, Server, TestCase, test_case};

use super::checks::corrected;
use super::{LIMIT, bw_mon, counts};

/// Payload of the packets of data: no control message is as long.
const BYTES: usize = 300;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let needs = &[
        Namespaces,
        Program("ethtool"),
        Program("tc"),
        Device("/dev/net/tun"),
    ];
    vec![
        test_case("counts_are_the_schedules", needs, counts_are_the_schedules).allow_many(),
        test_case(
            "delay_and_rate_are_the_queues",
            needs,
            delay_and_rate_are_the_queues,
        )
        .run_alone(),
    ]
}

/// What the passing did to the packets of a test.
struct Truth {
    sent: u64,
    /// The packets' numbers in the order in which they left.
    arrivals: Vec<u64>,
}

impl Truth {
    /// Reads the passing's log, where data is known by its length.
    fn read(log: &Path) -> Self {
        let text = std::fs::read_to_string(log).expect("the log");
        let length = (BYTES + 28).to_string();
        let mut sent = 0;
        let mut numbers = std::collections::HashMap::new();
        let mut left = Vec::new();
        let rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let mut data: Vec<Vec<&str>> = rows
            .filter(|line| line[0] == "forth" && line[3] == length)
            .collect();
        // The log is in the order of departures.
        data.sort_by_key(|line| line[1].parse::<u64>().expect("a number"));
        for line in &data {
            let number = *numbers.entry(line[1]).or_insert_with(|| {
                sent += 1;
                sent - 1
            });
            if matches!(line[7], "sent" | "held" | "copy") {
                left.push((line[6].parse::<u64>().expect("a time"), number));
            }
        }
        left.sort_by_key(|(departure, _)| *departure);
        Self {
            sent,
            arrivals: left.into_iter().map(|(_, number)| number).collect(),
        }
    }

    /// By stock's rule: received, passed over, not above the highest.
    fn by_order(&self) -> [u64; 3] {
        let mut highest = -1;
        let [mut lost, mut bad_order] = [0, 0];
        for number in self.arrivals.iter().map(|number| *number as i64) {
            match number - highest {
                ..1 => bad_order += 1,
                ahead => lost += ahead as u64 - 1,
            }
            highest = highest.max(number);
        }
        [self.arrivals.len() as u64, lost, bad_order]
    }

    /// Lost, lost at the end, late, repeated.
    fn corrected(&self) -> [u64; 4] {
        let mut seen = vec![false; self.sent as usize];
        let [mut late, mut repeated, mut next] = [0, 0, 0];
        for number in &self.arrivals {
            if std::mem::replace(&mut seen[*number as usize], true) {
                repeated += 1;
            } else if *number < next {
                late += 1;
            } else {
                next = number + 1;
            }
        }
        let missing = |seen: &[bool]| seen.iter().filter(|seen| !**seen).count() as u64;
        let (before, end) = seen.split_at(next as usize);
        [missing(before), missing(end), late, repeated]
    }
}

/// Runs a test between two hosts, with a responder of ours on the other one.
fn run(lab: &LinkOptions, log: Option<&Path>, options: &str) -> ProcessOutput {
    let network = TestNetwork::new(lab).expect("root may");
    let stop = ForwarderStop::new().expect("a descriptor");
    thread::scope(|scope| {
        let passing = scope.spawn(|| network.forward(&stop, log));
        let server = network
            .server
            .enter(|| Server::start_with(|port| format!("udpmon_resp -u {port} -S 0")));
        let asked = format!("-d {SERVER_ADDRESS} -u {} -S 0 {options}", server.port);
        let ended = network.client.enter(|| testkit::run(bw_mon(&asked), LIMIT));
        stop.trigger().expect("it is open");
        passing
            .join()
            .expect("it does not panic")
            .expect("devices work");
        let ended = ended.expect("it ends");
        ended.assert_success();
        ended
    })
}

fn counts_are_the_schedules() {
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
        let log = tempfile::NamedTempFile::new().expect("a place for files");
        // A socket's buffer has room for a tenth of a second at this spacing.
        let options = format!("-p {BYTES} -l 1000 -w 1000 {options}");
        let client = run(&link, Some(log.path()), &options);
        let truth = Truth::read(log.path());
        assert_eq!(truth.sent, 1000);
        let [lost, _, late, repeated] = truth.corrected();
        assert!(
            lost >= 6 && late > 0 && repeated == 3,
            "{:?}",
            truth.corrected()
        );
        assert_eq!(counts(&client.stdout), truth.by_order(), "{client:#?}");
        assert_eq!(
            corrected(&client.stdout),
            Some(truth.corrected()),
            "{client:#?}"
        );
    }
}

/// A queue of 50 ms at 20 Mbit/s, which a burst at three times the rate fills.
fn delay_and_rate_are_the_queues() {
    /// Of the link, in bits per second with Ethernet headers.
    const RATE: f64 = 20e6;
    let rate = TokenBucket {
        rate: "20mbit".to_owned(),
        burst: "16kb".to_owned(),
        latency: "50ms".to_owned(),
    };
    // As tc computes it: what passes in the latency, and the bucket.
    let queue = RATE / 8.0 * 0.05 + 16.0 * 1024.0;
    let link = LinkOptions {
        rates: [Some(rate), None],
        ..LinkOptions::default()
    };
    let client = run(&link, None, "-p 1472 -l 1000 -w 200 -G 1000 --json");
    let document: Value = serde_json::from_str(&client.stdout).expect("a document");
    let figures = &document["tests"][0]["runs"][0]["packet_figures"];
    let peak = figures["peak_relative_delay_ns"].as_f64().expect("a delay");
    let expected = queue * 8.0 / RATE * 1e9;
    assert!(
        (peak / expected - 1.0).abs() < 0.05,
        "{peak} ns, {expected} ns expected: {figures:#}"
    );
    let payload = RATE * 1472.0 / 1514.0;
    let bottleneck = figures["bottleneck"]["rate_bps"].as_f64().expect("a rate");
    assert!(
        (bottleneck / payload - 1.0).abs() < 0.02,
        "{bottleneck}, {payload} expected: {figures:#}"
    );
}
