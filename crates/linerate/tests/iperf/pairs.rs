//! Every pair of features of iperf 2, compared with the newest stock iperf in both roles.

use testkit::{Feature, StockPeer, TestCase, feature_pairs};

use super::NEWEST;
use super::matrix::prints_lines_of_stock;

const FEATURES: [Feature; 16] = [
    ("udp", "-u", "-u -b 400k -l 1470"),
    ("reverse", "", "-R"),
    ("full_duplex", "", "--full-duplex"),
    ("dual", "", "-d -L FREE"),
    ("trade_off", "", "-r -L FREE"),
    ("parallel", "", "-P 2"),
    ("ipv6", "-V", "-V"),
    ("sized", "", "-n 100K"),
    ("more", "-e", "-e"),
    ("intervals", "-i 0.3", "-t 0.8 -i 0.3"),
    ("csv", "-y C", "-y C"),
    ("sum_only", "--sum-only", "--sum-only -P 2"),
    ("trip_times", "", "--trip-times"),
    ("permit_key", "--permit-key=abcd", "--permit-key=abcd"),
    ("units", "-f k", "-f K"),
    ("window", "-w 64K", "-w 64K"),
];

/// Features that exclude each other, or that stock does not run or reports falsely together:
/// `docs/differences.md`.
const EXCLUSIVE: [[&str; 2]; 15] = [
    ["reverse", "full_duplex"],
    ["reverse", "dual"],
    ["reverse", "trade_off"],
    ["full_duplex", "dual"],
    ["full_duplex", "trade_off"],
    ["dual", "trade_off"],
    ["udp", "permit_key"],
    ["dual", "permit_key"],
    ["trade_off", "permit_key"],
    ["dual", "trip_times"],
    ["trade_off", "trip_times"],
    ["full_duplex", "trip_times"],
    ["full_duplex", "csv"],
    ["csv", "sum_only"],
    ["trade_off", "sum_only"],
];

pub(super) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = Vec::new();
    for [one, other] in feature_pairs(&FEATURES, &EXCLUSIVE) {
        let compare = move |stock| compare_features(stock, [one, other]);
        let name = format!("pairs::{}_{}", one.0, other.0);
        test_cases.push(NEWEST.test_case(name, compare).allow_many_at_once());
    }
    test_cases
}

fn compare_features(stock: StockPeer, features: [&Feature; 2]) -> Result<(), String> {
    let server = features.map(|feature| feature.1).join(" ");
    let client = features.map(|feature| feature.2).join(" ");
    let is_sized = features.iter().any(|feature| feature.0 == "sized");
    let end = if is_sized { "" } else { "-t 0.4" };
    let client = format!("-b 8m -l 10000 {end} {client}");
    prints_lines_of_stock([stock, stock], (&server, &client))
}
