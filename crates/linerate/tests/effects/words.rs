//! Options that exchange or print text: -Z, -B, -d, the UUID.

use std::time::SystemTime;

use testkit::{Server, TestCase, test_case};

use super::{TIMEOUT, run_client, selector_values, start_client};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("passphrase", &[], passphrase),
        test_case("brand", &[], brand),
        test_case("plan", &[], plan),
        test_case("uuid", &[], uuid),
    ]
}

fn passphrase() {
    let server = Server::start("-Z secret");
    for (options, is_accepted) in [("-Z secret", true), ("-Z Secret", false), ("", false)] {
        let client = start_client(&server, &format!("-t TCP_RR -l -5 {options}"));
        let code = client.finish(TIMEOUT).code;
        assert_eq!(code == Some(0), is_accepted, "{options}: {code:?}");
    }
    // A server without a passphrase accepts any.
    run_client(&Server::start(""), "-t TCP_RR -l -5 -Z secret");
}

fn brand() {
    let server = Server::start("");
    let output = run_client(&server, "-t TCP_RR -l -5 -P 0 -v 0 -B mark");
    assert!(output.stdout.trim_end().ends_with(" mark"), "{output:#?}");
    let output = run_client(&server, "-t TCP_RR -l -5 -B mark -- -k RESULT_BRAND");
    assert_eq!(selector_values(&output, ["RESULT_BRAND"]), ["\"mark\""]);
    let output = run_client(&server, "-t TCP_RR -l -5 -- -k RESULT_BRAND,UUID");
    assert!(!output.stdout.contains("RESULT_BRAND"), "{output:#?}");
}

/// -d prints the plan on standard error and does not change the other output.
fn plan() {
    let server = Server::start("");
    let output = run_client(&server, "-t TCP_RR -l -5 -P 0 -v 0 -d -- -r 700,500");
    for part in ["netperf: Plan {", "name: \"TCP_RR\"", "700,", "500,"] {
        assert!(output.stderr.contains(part), "no {part} in {output:#?}");
    }
    assert_eq!(output.stdout.lines().count(), 1, "{output:#?}");
    let output = run_client(&server, "-t TCP_RR -l -5 -P 0 -v 0");
    assert_eq!(output.stderr, "");
}

/// linerate prints the requested UUID, or generates one of version 1 (RFC 9562). A generated UUID
/// has the current time and a random node, marked by its multicast bit.
fn uuid() {
    let server = Server::start("");
    let output = run_client(&server, "-t TCP_RR -l -5 -- -u my-own -k UUID");
    assert_eq!(selector_values(&output, ["UUID"]), ["my-own"]);

    let generated = [
        selector_values(&run_client(&server, "-t TCP_RR -l -5 -- -k UUID"), ["UUID"])[0].clone(),
        run_client(&server, "-t UUID").stdout,
    ];
    assert_ne!(generated[0], generated[1]);
    for uuid in generated {
        let fields: Vec<_> = uuid
            .split('-')
            .map(|field| (field.len(), u64::from_str_radix(field, 16).unwrap()))
            .collect();
        let lengths: Vec<_> = fields.iter().map(|(length, _)| *length).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        let [low, middle, high, sequence, node] =
            [0, 1, 2, 3, 4].map(|field: usize| fields[field].1);
        assert_eq!(high >> 12, 1, "version: {uuid}");
        assert_eq!(sequence >> 14, 2, "variant: {uuid}");
        assert_eq!(node >> 40 & 1, 1, "multicast bit: {uuid}");
        assert_eq!(uuid, uuid.to_lowercase());
        // Ticks of 100 ns since 15 October 1582, 12,219,292,800 s before 1970.
        let ticks = (high & 0xfff) << 48 | middle << 32 | low;
        let seconds = ticks / 10_000_000 - 12_219_292_800;
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        assert!(
            now.abs_diff(seconds) < 60,
            "{uuid}: {seconds} is not close to {now}"
        );
    }
}
