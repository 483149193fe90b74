//! Clients of the five dialects, and the comparison of their results with the server's log.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{ProcessOutput, Profile, Requirement, linerate_with_args, stock_with_args};

/// A client of one dialect.
#[derive(Clone, Copy)]
pub(super) struct Client {
    pub(super) dialect: &'static str,
    pub(super) name: &'static str,
    /// The stock program; `None` for linerate.
    pub(super) stock: Option<&'static str>,
    /// The arguments. The test replaces `SECONDS`, `REQUESTS` and `PROFILE`.
    line: &'static str,
    /// Parses the number of bytes that the server received.
    received_bytes: fn(&str) -> ReceivedBytes,
}

/// The number of bytes that the server received, as far as the client reports it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReceivedBytes {
    Exactly(u64),
    /// The client only reports sent bytes. Some may be lost.
    AtMost(u64),
    None,
}

/// Clients of each dialect with different measurements.
pub(super) const CLIENTS: [Client; 12] = [
    Client {
        dialect: "netperf",
        name: "TCP_STREAM",
        stock: Some("netperf"),
        line: "-H 127.0.0.1 -l SECONDS -P 0 -t omni -- -d send -m 32K -o remote_bytes_recvd",
        received_bytes: first_number,
    },
    Client {
        dialect: "netperf",
        name: "TCP_RR",
        stock: Some("netperf"),
        line: "-H 127.0.0.1 -l SECONDS -P 0 -t omni -- -d rr -o remote_bytes_recvd",
        received_bytes: first_number,
    },
    Client {
        dialect: "iperf",
        name: "TCP",
        stock: Some("iperf"),
        line: "-c 127.0.0.1 -t SECONDS -b 50m -l 10000 -y C",
        received_bytes: csv_bytes,
    },
    Client {
        dialect: "iperf",
        name: "UDP",
        stock: Some("iperf"),
        line: "-c 127.0.0.1 -t SECONDS -u -b 8m -l 1000 -y C",
        received_bytes: csv_sent_bytes,
    },
    Client {
        dialect: "iperf3",
        name: "TCP",
        stock: Some("iperf3"),
        line: "-c 127.0.0.1 -t SECONDS -b 50M -l 10000 -J",
        received_bytes: sum_received_bytes,
    },
    Client {
        dialect: "iperf3",
        name: "UDP",
        stock: Some("iperf3"),
        line: "-c 127.0.0.1 -t SECONDS -u -b 8M -l 1000 -J",
        received_bytes: sum_received_bytes,
    },
    Client {
        dialect: "uperf",
        name: "requests",
        stock: None,
        line: "uperf -m PROFILE",
        received_bytes: |_| ReceivedBytes::None,
    },
    Client {
        dialect: "udpmon",
        name: "packets",
        stock: None,
        line: "udpmon_bw_mon -d 127.0.0.1 -p 1000 -t SECONDS -w 1000",
        received_bytes: packet_bytes,
    },
    Client {
        dialect: "netperf",
        name: "our TCP_RR",
        stock: None,
        line: "netperf -H 127.0.0.1 -l SECONDS -P 0 -t TCP_RR -- -o remote_bytes_recvd",
        received_bytes: first_number,
    },
    Client {
        dialect: "iperf",
        name: "our TCP",
        stock: None,
        line: "iperf -c 127.0.0.1 -t SECONDS -b 50m -l 10000 -y C",
        received_bytes: csv_bytes,
    },
    Client {
        dialect: "iperf3",
        name: "our TCP",
        stock: None,
        line: "iperf3 -c 127.0.0.1 -t SECONDS -b 50M -l 10000 -J",
        received_bytes: sum_received_bytes,
    },
    Client {
        dialect: "udpmon",
        name: "requests",
        stock: None,
        line: "udpmon_req -d 127.0.0.1 -r 64 -l REQUESTS -w 10000",
        received_bytes: |_| ReceivedBytes::None,
    },
];

impl Client {
    /// Returns the reason if the program is not installed.
    pub(super) fn missing_reason(&self) -> Option<String> {
        self.stock
            .and_then(|program| Requirement::Program(program).missing_reason())
    }

    /// Returns the command of a test of `seconds`. Writes a profile to `directory` if necessary.
    pub(super) fn command(&self, seconds: u32, directory: &Path) -> Command {
        let profile = directory.join(format!("{seconds}.xml"));
        if self.dialect == "uperf" && !profile.exists() {
            std::fs::write(&profile, uperf_profile(seconds)).expect("a writable directory");
        }
        let line = self
            .line
            .replace("SECONDS", &seconds.to_string())
            .replace("REQUESTS", &(seconds * 100).to_string())
            .replace("PROFILE", &profile.display().to_string());
        match self.stock {
            Some(program) => stock_with_args(program, &line),
            None => linerate_with_args(&line),
        }
    }

    /// Returns the number of bytes that the server received, as far as the client reports it.
    pub(super) fn received_bytes(&self, output: &ProcessOutput) -> ReceivedBytes {
        (self.received_bytes)(&output.stdout)
    }

    /// Returns the reason if the server's log line does not match this client's test.
    pub(super) fn mismatch(
        &self,
        output: &ProcessOutput,
        seconds: u32,
        line: &Value,
    ) -> Option<&'static str> {
        let logged_bytes = line["received_bytes"].as_u64().unwrap_or(0);
        let is_equal = match self.received_bytes(output) {
            ReceivedBytes::Exactly(bytes) => logged_bytes == bytes,
            ReceivedBytes::AtMost(bytes) => logged_bytes <= bytes,
            ReceivedBytes::None => true,
        };
        // On a busy machine tests with a count of requests take longer.
        let min_seconds = f64::from(seconds) * 0.98;
        let peer = line["peer"].as_str().unwrap_or_default();
        [
            (line["is_complete"] != true, "the test is not complete"),
            (logged_bytes == 0 || !is_equal, "the byte count differs"),
            (
                line["seconds"].as_f64() < Some(min_seconds),
                "the test is too short",
            ),
            (!peer.contains("127.0.0.1"), "the peer differs"),
        ]
        .into_iter()
        .find_map(|(differs, reason)| differs.then_some(reason))
    }
}

/// Returns a profile in which one strand sends requests for `seconds`.
fn uperf_profile(seconds: u32) -> String {
    Profile::new("requests")
        .group("nthreads=1")
        .single_flowop("connect remotehost=127.0.0.1 protocol=tcp")
        .transaction(
            &format!("duration={seconds}s"),
            &["write size=64", "read size=200"],
        )
        .single_flowop("disconnect")
        .text()
}

/// Returns the first line that is a number.
fn first_number(stdout: &str) -> ReceivedBytes {
    let number = stdout.lines().find_map(|line| line.trim().parse().ok());
    number.map_or(ReceivedBytes::None, ReceivedBytes::Exactly)
}

/// Returns the bytes in iperf 2's last CSV line.
fn csv_bytes(stdout: &str) -> ReceivedBytes {
    let line = stdout.lines().rfind(|line| line.matches(',').count() >= 8);
    let bytes = line.and_then(|line| line.split(',').nth(7)?.parse().ok());
    bytes.map_or(ReceivedBytes::None, ReceivedBytes::Exactly)
}

/// Returns the same number as sent bytes.
fn csv_sent_bytes(stdout: &str) -> ReceivedBytes {
    match csv_bytes(stdout) {
        ReceivedBytes::Exactly(bytes) => ReceivedBytes::AtMost(bytes),
        unknown => unknown,
    }
}

/// Returns the bytes of the sums of an iperf3 document.
fn sum_received_bytes(stdout: &str) -> ReceivedBytes {
    let document: Value = serde_json::from_str(stdout).unwrap_or_default();
    let end = &document["end"];
    let count = |name: &str| end["sum"][name].as_u64();
    // A UDP sum counts sent datagrams of 1000 bytes. Losses at the end may be missing, because
    // stock uses the highest received number as the number of sent datagrams.
    if let (Some(packets), Some(lost)) = (count("packets"), count("lost_packets")) {
        return ReceivedBytes::AtMost((packets - lost) * 1000);
    }
    let received = end["sum_received"]["bytes"].as_u64();
    received.map_or(ReceivedBytes::None, ReceivedBytes::Exactly)
}

/// Returns the bytes of received UDPmon packets of 1000 bytes.
fn packet_bytes(stdout: &str) -> ReceivedBytes {
    let [received, ..] = crate::udpmon::packet_counts(stdout);
    ReceivedBytes::Exactly(received * 1000)
}
