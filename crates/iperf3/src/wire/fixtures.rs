//! Recorded objects of iperf3 3.12 and of its later versions: a line each, with the run that it is of.

use rand::Rng;
use testkit::fuzz;

use super::{Parameters, Results};

const RECORDED: &str = include_str!("fixtures.txt");

fn recorded(kind: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    RECORDED.lines().filter_map(move |line| {
        let mut words = line.splitn(3, ' ');
        let (run, found) = (words.next()?, words.next()?);
        (found == kind).then_some((run, words.next()?))
    })
}

#[test]
fn parameters_are_written_as_they_were_read() {
    // Later clients always name their offloads, which are off.
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
        // Later versions write what is unknown in another way.
        let text = text.replace(":-1,", ":18446744073709551615,");
        assert_eq!(results.encode(), text, "{run}");
    }
}

#[test]
fn nothing_that_a_peer_sends_breaks_a_decoder() {
    let objects: Vec<_> = recorded("parameters").chain(recorded("results")).collect();
    fuzz::each("objects", 1..=99, |rng| {
        let (_, text) = objects[rng.random_range(0..objects.len())];
        let bytes = fuzz::damaged(rng, text.as_bytes());
        let parameters = Parameters::decode(&bytes).map(|parameters| parameters.encode());
        let results = Results::decode(&bytes).map(|results| results.encode());
        parameters.is_ok() || results.is_ok()
    });
}
