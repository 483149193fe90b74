//! Every pair of features of iperf3, compared with the newest stock iperf3 in both roles.

use testkit::{Feature, StockPeer, TestCase, feature_pairs};

use super::compare::compare_despite_delays;
use super::matrix::compare_with_stock;
use super::{NEWEST, login_options};

const FEATURES: [Feature; 18] = [
    ("udp", "", "-u -l 1000"),
    ("reverse", "", "-R"),
    ("bidir", "", "--bidir"),
    ("parallel", "", "-P 2"),
    ("ipv6", "", "-6"),
    ("bytes", "", "-n 300K"),
    ("blocks", "", "-k 30"),
    ("omit", "", "-O 1"),
    ("unpaced", "", "-b 0"),
    ("intervals", "-i 0.4", "-i 0.4"),
    ("no_intervals", "-i 0", "-i 0"),
    ("verbose", "-V", "-V"),
    ("json", "-J", "-J"),
    ("json_stream", "--json-stream", "--json-stream"),
    ("server_output", "", "--get-server-output"),
    ("login", "LOGIN", "LOGIN"),
    ("zero_copy", "", "-Z"),
    ("units", "-f k", "-f k"),
];

/// Features that exclude each other. Stock prints text before the document of a verbose test, and a
/// sized test without intervals never ends.
const EXCLUSIVE: [[&str; 2]; 9] = [
    ["reverse", "bidir"],
    ["bytes", "blocks"],
    ["intervals", "no_intervals"],
    ["json", "json_stream"],
    ["udp", "zero_copy"],
    ["verbose", "json"],
    ["verbose", "json_stream"],
    ["bytes", "no_intervals"],
    ["blocks", "no_intervals"],
];

pub(super) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = Vec::new();
    for [one, other] in feature_pairs(&FEATURES, &EXCLUSIVE) {
        let compare = move |stock| compare_despite_delays(|| compare_features(stock, [one, other]));
        let test_case = NEWEST.test_case(format!("pairs::{}_{}", one.0, other.0), compare);
        test_cases.push(test_case.allow_many_at_once());
    }
    test_cases
}

fn compare_features(stock: StockPeer, features: [&Feature; 2]) -> Result<(), String> {
    let is_sized = features
        .iter()
        .any(|feature| ["bytes", "blocks"].contains(&feature.0));
    let end = if is_sized { "" } else { "-t 1" };
    let directory = tempfile::tempdir().unwrap();
    let [server_login, client_login] = login_options(directory.path());
    let join = |options: [&str; 2], login: &str| options.join(" ").replace("LOGIN", login);
    let server = join(features.map(|feature| feature.1), &server_login);
    let client = join(features.map(|feature| feature.2), &client_login);
    let client = format!("-b 8M -l 16K {end} {client}");
    let format = ["-J", "--json-stream"]
        .into_iter()
        .find(|format| client.contains(format));
    compare_with_stock(stock, (&server, &client), format.unwrap_or_default())
}
