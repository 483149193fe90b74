//! Tests with recorded objects of iperf3 3.12 and later. Each line of the recording has the name of
//! a run, a kind and an object.

use rand::Rng;
use rand::rngs::SmallRng;
use testkit::fuzz;

use super::{Parameters, Results, error};

const RECORDED: &str = include_str!("fixtures.txt");

fn recorded(kind: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    RECORDED.lines().filter_map(move |line| {
        let mut words = line.splitn(3, ' ');
        let (run, line_kind) = (words.next()?, words.next()?);
        (line_kind == kind).then_some((run, words.next()?))
    })
}

#[test]
fn parameters_are_written_as_they_were_read() {
    // Later clients always send their offload settings, here all off.
    const OFF: &str = r#""gso":0,"gso_dg_size":0,"gso_bf_size":65507,"gro":0,"gro_bf_size":65507,"#;
    for (run, text) in recorded("parameters") {
        let parameters = Parameters::decode(text.as_bytes()).unwrap();
        assert_eq!(parameters.encode(), text.replace(OFF, ""), "{run}");
    }
}

#[test]
fn results_are_written_as_they_were_read() {
    for (run, text) in recorded("results") {
        let results = Results::decode(text.as_bytes()).unwrap();
        // Later versions write -1 for unknown values.
        let text = text.replace(":-1,", ":18446744073709551615,");
        assert_eq!(results.encode(), text, "{run}");
    }
}

/// Returns a random value: numbers of any size, texts of any length, lists of any depth.
fn random_value(rng: &mut SmallRng) -> String {
    const NUMBERS: [&str; 14] = [
        "0",
        "1",
        "-1",
        "128",
        "129",
        "65507",
        "65508",
        "86400",
        "86401",
        "1e308",
        "-1e-308",
        "18446744073709551615",
        "99999999999999999999999999999999999999999",
        "1.5",
    ];
    const OTHERS: [&str; 8] = [
        "true",
        "false",
        "null",
        "NaN",
        "Infinity",
        "\"\"",
        "\"\\u001b[2J\"",
        "\"x\"",
    ];
    match rng.random_range(0..12) {
        0..=4 => (*fuzz::choose(rng, &NUMBERS)).to_owned(),
        5..=8 => (*fuzz::choose(rng, &OTHERS)).to_owned(),
        9 => {
            let depth = rng.random_range(0..300);
            "[".repeat(depth) + &"]".repeat(depth)
        }
        10 => format!("\"{}\"", "x".repeat(rng.random_range(0..9000))),
        _ => rng.random::<i64>().to_string(),
    }
}

/// Decodes parameters with random values. Accepted values must be within the limits; each refusal
/// must have one of stock's error numbers.
#[test]
fn random_parameters_have_stocks_errors() {
    const KEYS: [&str; 27] = [
        "tcp",
        "udp",
        "sctp",
        "omit",
        "server_affinity",
        "time",
        "num",
        "blockcount",
        "MSS",
        "nodelay",
        "parallel",
        "reverse",
        "bidirectional",
        "window",
        "len",
        "bandwidth",
        "fqrate",
        "pacing_timer",
        "burst",
        "TOS",
        "flowlabel",
        "title",
        "congestion",
        "zerocopy",
        "authtoken",
        "client_version",
        "udp_cookie",
    ];
    const CODES: [i32; 12] = [
        error::DURATION,
        error::STREAMS,
        error::BLOCK_SIZE,
        error::BUFFER_SIZE,
        error::MSS,
        error::OMIT,
        error::BURST,
        error::UDP_BLOCK_SIZE,
        error::BAD_TOS,
        error::RECEIVE_PARAMETERS,
        error::AFFINITY,
        error::FLOW_LABEL,
    ];
    fuzz::run_inputs("parameters", 1..=99, |rng| {
        let members = (0..rng.random_range(0..4)).map(|_| {
            let key = fuzz::choose(rng, &KEYS);
            format!("\"{key}\":{}", random_value(rng))
        });
        let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        match Parameters::decode(text.as_bytes()) {
            Ok(parameters) => {
                let limits = [
                    (parameters.parallel, 128),
                    (parameters.block_size(), 1 << 20),
                    (parameters.time, 86_400),
                    (parameters.omit, 600),
                ];
                assert!(limits.iter().all(|(value, max)| value <= max), "{text}");
                true
            }
            Err(fault) => {
                assert!(CODES.contains(&fault.code), "{text}: {fault:?}");
                assert!(
                    !fault.to_string().contains(char::is_control),
                    "{text}: {fault}"
                );
                false
            }
        }
    });
}

#[test]
fn damaged_objects_do_not_panic_decoders() {
    let objects: Vec<_> = recorded("parameters").chain(recorded("results")).collect();
    fuzz::run_inputs("objects", 1..=99, |rng| {
        let (_, text) = objects[rng.random_range(0..objects.len())];
        let bytes = fuzz::damage(rng, text.as_bytes());
        let parameters = Parameters::decode(&bytes).map(|parameters| parameters.encode());
        let results = Results::decode(&bytes).map(|results| results.encode());
        parameters.is_ok() || results.is_ok()
    });
}
