//! Clients of the five dialects, and how their results are compared with the server's log.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{ProcessOutput, Profile, Requirement, linerate_with_args, stock_with_args};

/// A client of one dialect, and what its result says.
#[derive(Clone, Copy)]
pub(super) struct Client {
    pub(super) dialect: &'static str,
    pub(super) name: &'static str,
    /// The stock program that it is; `None` of ours.
    pub(super) stock: Option<&'static str>,
    /// The command line behind the program's name; SECONDS and PROFILE are replaced.
    line: &'static str,
    /// What the client tells of the bytes that the server has received.
    account: fn(&str) -> Account,
}

/// What a client tells of the bytes that the server has received.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Account {
    Exactly(u64),
    /// What it has sent, of which some may be lost.
    AtMost(u64),
    None,
}

/// Of each dialect those that measure different things.
pub(super) const CLIENTS: [Client; 12] = [
    Client {
        dialect: "netperf",
        name: "TCP_STREAM",
        stock: Some("netperf"),
        line: "-H 127.0.0.1 -l SECONDS -P 0 -t omni -- -d send -m 32K -o remote_bytes_recvd",
        account: first_number,
    },
    Client {
        dialect: "netperf",
        name: "TCP_RR",
        stock: Some("netperf"),
        line: "-H 127.0.0.1 -l SECONDS -P 0 -t omni -- -d rr -o remote_bytes_recvd",
        account: first_number,
    },
    Client {
        dialect: "iperf",
        name: "TCP",
        stock: Some("iperf"),
        line: "-c 127.0.0.1 -t SECONDS -b 50m -l 10000 -y C",
        account: csv_bytes,
    },
    Client {
        dialect: "iperf",
        name: "UDP",
        stock: Some("iperf"),
        line: "-c 127.0.0.1 -t SECONDS -u -b 8m -l 1000 -y C",
        account: csv_sent,
    },
    Client {
        dialect: "iperf3",
        name: "TCP",
        stock: Some("iperf3"),
        line: "-c 127.0.0.1 -t SECONDS -b 50M -l 10000 -J",
        account: sum_received,
    },
    Client {
        dialect: "iperf3",
        name: "UDP",
        stock: Some("iperf3"),
        line: "-c 127.0.0.1 -t SECONDS -u -b 8M -l 1000 -J",
        account: sum_received,
    },
    Client {
        dialect: "uperf",
        name: "requests",
        stock: None,
        line: "uperf -m PROFILE",
        account: |_| Account::None,
    },
    Client {
        dialect: "udpmon",
        name: "packets",
        stock: None,
        line: "udpmon_bw_mon -d 127.0.0.1 -p 1000 -t SECONDS -w 1000",
        account: packets,
    },
    Client {
        dialect: "netperf",
        name: "our TCP_RR",
        stock: None,
        line: "netperf -H 127.0.0.1 -l SECONDS -P 0 -t TCP_RR -- -o remote_bytes_recvd",
        account: first_number,
    },
    Client {
        dialect: "iperf",
        name: "our TCP",
        stock: None,
        line: "iperf -c 127.0.0.1 -t SECONDS -b 50m -l 10000 -y C",
        account: csv_bytes,
    },
    Client {
        dialect: "iperf3",
        name: "our TCP",
        stock: None,
        line: "iperf3 -c 127.0.0.1 -t SECONDS -b 50M -l 10000 -J",
        account: sum_received,
    },
    Client {
        dialect: "udpmon",
        name: "requests",
        stock: None,
        line: "udpmon_req -d 127.0.0.1 -r 64 -l REQUESTS -w 10000",
        account: |_| Account::None,
    },
];

impl Client {
    /// Why it cannot run here.
    pub(super) fn missing(&self) -> Option<String> {
        self.stock
            .and_then(|program| Requirement::Program(program).missing_reason())
    }

    /// Its command, for a test of so many seconds; a profile is written to `directory`.
    pub(super) fn command(&self, seconds: u32, directory: &Path) -> Command {
        let profile = directory.join(format!("{seconds}.xml"));
        if self.dialect == "uperf" && !profile.exists() {
            std::fs::write(&profile, requests(seconds)).expect("a directory of the test");
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

    /// What it tells of the bytes that the server has received.
    pub(super) fn account(&self, finished: &ProcessOutput) -> Account {
        (self.account)(&finished.stdout)
    }

    /// Why the server's line is not that of this client's test.
    pub(super) fn differs(
        &self,
        finished: &ProcessOutput,
        seconds: u32,
        line: &Value,
    ) -> Option<&'static str> {
        let counted = line["received_bytes"].as_u64().unwrap_or(0);
        let fits = match self.account(finished) {
            Account::Exactly(bytes) => counted == bytes,
            Account::AtMost(bytes) => counted <= bytes,
            Account::None => true,
        };
        // Tests of a count take longer on a busy machine.
        let least = f64::from(seconds) * 0.98;
        let peer = line["peer"].as_str().unwrap_or_default();
        [
            (line["is_complete"] != true, "it is not complete"),
            (counted == 0 || !fits, "the bytes are not the client's"),
            (line["seconds"].as_f64() < Some(least), "it is shorter"),
            (!peer.contains("127.0.0.1"), "the peer is another one"),
        ]
        .into_iter()
        .find_map(|(differs, why)| differs.then_some(why))
    }
}

/// A strand of the master asks a slave for this long.
fn requests(seconds: u32) -> String {
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

/// The first number on a line of its own.
fn first_number(stdout: &str) -> Account {
    let number = stdout.lines().find_map(|line| line.trim().parse().ok());
    number.map_or(Account::None, Account::Exactly)
}

/// The bytes of iperf 2's last line of values.
fn csv_bytes(stdout: &str) -> Account {
    let line = stdout.lines().rfind(|line| line.matches(',').count() >= 8);
    let bytes = line.and_then(|line| line.split(',').nth(7)?.parse().ok());
    bytes.map_or(Account::None, Account::Exactly)
}

fn csv_sent(stdout: &str) -> Account {
    match csv_bytes(stdout) {
        Account::Exactly(bytes) => Account::AtMost(bytes),
        other => other,
    }
}

fn sum_received(stdout: &str) -> Account {
    let document: Value = serde_json::from_str(stdout).unwrap_or_default();
    let end = &document["end"];
    let count = |name: &str| end["sum"][name].as_u64();
    // A sum of datagrams counts those that were sent, of 1000 bytes each. The last ones may be lost
    // without a trace: stock takes the highest number that arrived for the number sent.
    if let (Some(packets), Some(lost)) = (count("packets"), count("lost_packets")) {
        return Account::AtMost((packets - lost) * 1000);
    }
    let received = end["sum_received"]["bytes"].as_u64();
    received.map_or(Account::None, Account::Exactly)
}

/// Received datagrams of 1000 bytes.
fn packets(stdout: &str) -> Account {
    let [received, ..] = crate::udpmon::counts(stdout);
    Account::Exactly(received * 1000)
}
