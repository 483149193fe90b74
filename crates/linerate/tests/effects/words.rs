//! Options that are words between the two ends or to the reader: -Z, -B, -d, the UUID.

use std::time::SystemTime;

use testkit::{Server, TestCase, test_case};

use super::{PATIENCE, finish, start, values};

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
    for (options, passes) in [("-Z secret", true), ("-Z Secret", false), ("", false)] {
        let client = start(&server, &format!("-t TCP_RR -l -5 {options}"));
        let code = client.finish(PATIENCE).code;
        assert_eq!(code == Some(0), passes, "{options}: {code:?}");
    }
    // A server that asks for none does not mind.
    finish(&Server::start(""), "-t TCP_RR -l -5 -Z secret");
}

fn brand() {
    let server = Server::start("");
    let said = finish(&server, "-t TCP_RR -l -5 -P 0 -v 0 -B mark");
    assert!(said.stdout.trim_end().ends_with(" mark"), "{said:#?}");
    let said = finish(&server, "-t TCP_RR -l -5 -B mark -- -k RESULT_BRAND");
    assert_eq!(values(&said, ["RESULT_BRAND"]), ["\"mark\""]);
    let said = finish(&server, "-t TCP_RR -l -5 -- -k RESULT_BRAND,UUID");
    assert!(!said.stdout.contains("RESULT_BRAND"), "{said:#?}");
}

/// On standard error, and nothing else is another.
fn plan() {
    let server = Server::start("");
    let said = finish(&server, "-t TCP_RR -l -5 -P 0 -v 0 -d -- -r 700,500");
    for part in ["netperf: Plan {", "name: \"TCP_RR\"", "700,", "500,"] {
        assert!(said.stderr.contains(part), "no {part} in {said:#?}");
    }
    assert_eq!(said.stdout.lines().count(), 1, "{said:#?}");
    let said = finish(&server, "-t TCP_RR -l -5 -P 0 -v 0");
    assert_eq!(said.stderr, "");
}

/// One that is given is that; one that is not is of version 1 (RFC 9562): this moment, and a random
/// node, which its multicast bit says.
fn uuid() {
    let server = Server::start("");
    let said = finish(&server, "-t TCP_RR -l -5 -- -u my-own -k UUID");
    assert_eq!(values(&said, ["UUID"]), ["my-own"]);

    let generated = [
        values(&finish(&server, "-t TCP_RR -l -5 -- -k UUID"), ["UUID"])[0].clone(),
        finish(&server, "-t UUID").stdout,
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
        assert!(now.abs_diff(seconds) < 60, "{uuid}: {seconds} is not {now}");
    }
}
