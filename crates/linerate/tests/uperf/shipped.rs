//! Profiles modelled on those of the uperf distribution. Each runs in a shortened form.

use testkit::{Server, TestCase, read_profiles};

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![runs_each_shipped_profile,]
}

/// Profiles that cannot run on any machine, with the expected errors.
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

/// Profiles that need a kernel with SCTP and VSOCK. `lab/suite/uperf.sh` runs them.
const LAB_ONLY: [&str; 4] = ["sctp", "sctp-over-udp", "sctp_flowop_test", "vsock"];

fn runs_each_shipped_profile() {
    let slave = Server::start_slave("");
    let mut run_count = 0;
    for (name, profile) in read_profiles("crates/uperf/tests/data/profiles") {
        if LAB_ONLY.contains(&&*name) {
            continue;
        }
        let output = slave.run_profile("", &shorten(&profile));
        if let Some((_, expected)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            assert_eq!(output.code, Some(1), "{name}: {output:?}");
            assert!(output.stderr.contains(expected), "{name}: {output:?}");
            continue;
        }
        assert_eq!(output.code, Some(0), "{name}: {output:?}");
        let has_failed = output.stdout.contains("Errors detected");
        assert!(!has_failed, "{name}: {output:?}");
        assert_ne!(output.statistics("master")[4], "0", "{name}: {output:?}");
        run_count += 1;
    }
    assert_eq!(run_count, 17);
}

/// Reduces the strands and durations of a profile, and sets the variable of one profile.
fn shorten(profile: &str) -> String {
    let mut text = profile.to_owned();
    for duration in ["10s", "30s", "60s", "100s", "120s"] {
        text = text.replace(&format!("\"{duration}\""), "\"200ms\"");
    }
    for count in ["75", "100", "200", "750", "1000"] {
        text = text.replace(&format!("nthreads=\"{count}\""), "nthreads=\"3\"");
    }
    text.replace("\"1000\"", "\"20\"")
        .replace("\"$conn\"", "\"2\"")
}
