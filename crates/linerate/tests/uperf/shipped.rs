//! The likes of the profiles that uperf is shipped with, each run, shortened, where its transport exists.

use testkit::{Server, TestCase, read_profiles};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![each_of_the_shipped_ones_runs,]
}

/// Those that cannot run anywhere, with the words of their refusal.
const REFUSED: [(&str, &str); 3] = [
    (
        "oraclerac",
        "Protocol udapl not supported: no build of uperf ever supported it",
    ),
    (
        "rdstest",
        "Protocol rds not supported: linerate has no reliable datagram sockets",
    ),
    (
        "tcp-freebsd-change-stack",
        "stack= and bblog= are for FreeBSD's TCP",
    ),
];

/// Those that `lab/suite/uperf.sh` runs, where there is a kernel with SCTP and VSOCK.
const ELSEWHERE: [&str; 4] = ["sctp", "sctp-over-udp", "sctp_flowop_test", "vsock"];

fn each_of_the_shipped_ones_runs() {
    let slave = Server::start_slave("");
    let mut ran = 0;
    for (name, profile) in read_profiles("crates/uperf/tests/data/profiles") {
        if ELSEWHERE.contains(&&*name) {
            continue;
        }
        let ended = slave.run_profile("", &shortened(&profile));
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            assert_eq!(ended.code, Some(1), "{name}: {ended:?}");
            assert!(ended.stderr.contains(why), "{name}: {ended:?}");
            continue;
        }
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        let failed = ended.stdout.contains("Errors detected");
        assert!(!failed, "{name}: {ended:?}");
        assert_ne!(ended.statistics("master")[4], "0", "{name}: {ended:?}");
        ran += 1;
    }
    assert_eq!(ran, 17);
}

/// Fewer strands, for less long; and a variable that other profiles lack.
fn shortened(profile: &str) -> String {
    let mut text = profile.to_owned();
    for long in ["10s", "30s", "60s", "100s", "120s"] {
        text = text.replace(&format!("\"{long}\""), "\"200ms\"");
    }
    for many in ["75", "100", "200", "750", "1000"] {
        text = text.replace(&format!("nthreads=\"{many}\""), "nthreads=\"3\"");
    }
    text.replace("\"1000\"", "\"20\"")
        .replace("\"$conn\"", "\"2\"")
}
