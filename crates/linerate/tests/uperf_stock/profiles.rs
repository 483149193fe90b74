//! The workloads, the likes of the profiles that uperf is shipped with, and those that harnesses write.

use testkit::read_profiles;

use super::case::{Case, Hold, Like};

/// Those that need a transport which few kernels have, or are refused: `tests/uperf/shipped.rs`.
const NOT_HERE: [&str; 8] = [
    "oraclerac",
    "rdstest",
    "sctp",
    "sctp-over-udp",
    "sctp_flowop_test",
    "tcp-freebsd-change-stack",
    "vsock",
    // Its flowops do not name their hosts, and fail at the others in stock.
    "two-hosts",
];

pub(crate) fn cases() -> Vec<Case> {
    [workloads(), shipped(), harnesses()]
        .into_iter()
        .flatten()
        .collect()
}

fn workloads() -> Vec<Case> {
    let cases = read_profiles("workloads").into_iter().map(|(name, text)| {
        let is_paced = text.contains("rate=");
        let case = Case::new(format!("workload {name}"), "-i 100ms -a", shortened(&text));
        // Both ends keep the rate by themselves, and stop when their own time is up.
        let case = if is_paced {
            case.hold(Hold::Nothing)
        } else {
            case
        };
        compared(case, &text)
    });
    cases.collect()
}

fn shipped() -> Vec<Case> {
    let cases = read_profiles("crates/uperf/tests/data/profiles").into_iter();
    let cases = cases.filter(|(name, _)| !NOT_HERE.contains(&name.as_str()));
    let cases = cases.map(|(name, text)| {
        let case = Case::new(format!("profile {name}"), "-i 100ms -a", shortened(&text));
        compared(case, &text)
    });
    cases.collect()
}

/// As much of the text is compared as is not chance: a slave of stock's warns twice of each connection's buffers.
fn compared(case: Case, text: &str) -> Case {
    if text.contains("wndsz") || case.has_groups() {
        case.like(Like::Titles)
    } else {
        case
    }
}

/// Fewer strands and iterations, and these instead of durations, unless a rate needs one.
fn shortened(profile: &str) -> String {
    let mut text = profile.to_owned();
    for long in ["10s", "30s", "60s", "100s", "120s"] {
        let long = format!("duration=\"{long}\"");
        text = text.replace(&format!("{long} rate"), "duration=\"1s\" rate");
        text = text.replace(&long, "iterations=\"20\"");
    }
    for many in [
        "10", "16", "20", "50", "75", "100", "200", "500", "750", "1000",
    ] {
        text = text.replace(&format!("nthreads=\"{many}\""), "nthreads=\"3\"");
    }
    for many in ["250", "1000"] {
        text = text.replace(&format!("iterations=\"{many}\""), "iterations=\"20\"");
    }
    if text.contains("protocol=ssl") {
        // Stock's TLS fails now and then with several threads.
        text = text.replace("nthreads=\"4\"", "nthreads=\"1\"");
    }
    text.replace("\"$conn\"", "\"2\"")
        .replace("duration=1s", "duration=10ms")
}

/// As k8s-netperf writes them: no XML, processes, and always a port.
fn harnesses() -> Vec<Case> {
    let mut cases = Vec::new();
    for (kind, flowops) in [
        (
            "stream",
            "<flowop type=write options=\"count=16 size=1024\"/>",
        ),
        (
            "rr",
            "<flowop type=write options=\"size=1024\"/>\n<flowop type=read  options=\"size=1024\"/>",
        ),
    ] {
        for (protocol, strands) in [("tcp", 1), ("tcp", 2), ("udp", 1)] {
            let profile = format!(
                r#"<?xml version=1.0?>
<profile name="{kind}-{protocol}-1024-{strands}-1">
<group nprocs="{strands}">
<transaction iterations="1">
<flowop type="connect" options="remotehost=$h protocol={protocol} port=30001"/>
</transaction>
<transaction duration="1">
{flowops}
</transaction>
<transaction iterations="1">
<flowop type=disconnect />
</transaction>
</group>
</profile>
"#
            );
            let name = format!("k8s-netperf {kind} {protocol} {strands}");
            let case = Case::new(name, "-v -a -R -i 1", profile).for_all();
            let case = match (kind, protocol) {
                ("stream", "udp") => case.hold(Hold::Nothing),
                _ => case,
            };
            cases.push(match strands {
                1 => case,
                _ => case.without_control("a stock slave crashes"),
            });
        }
    }
    cases
}
