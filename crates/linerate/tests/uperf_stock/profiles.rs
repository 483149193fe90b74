//! Cases from the workloads, from profiles modelled on the uperf distribution's, and from profiles
//! of harnesses.

use testkit::read_profiles;

use super::case::{Case, CheckedFigures, ComparedText};

/// Profiles that linerate refuses or that need a rare transport (see `tests/uperf/shipped.rs`), or
/// that stock cannot run.
const SKIPPED_PROFILES: [&str; 8] = [
    "oraclerac",
    "rdstest",
    "sctp",
    "sctp-over-udp",
    "sctp_flowop_test",
    "tcp-freebsd-change-stack",
    "vsock",
    // Its flowops do not name their hosts, so they fail at the other host in stock.
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
        let case = Case::new(format!("workload {name}"), "-i 100ms -a", shorten(&text));
        // Each end keeps the rate and ends at its deadline independently.
        let case = if is_paced {
            case.check_figures(CheckedFigures::Nothing)
        } else {
            case
        };
        limit_comparison(case, &text)
    });
    cases.collect()
}

fn shipped() -> Vec<Case> {
    let cases = read_profiles("crates/uperf/tests/data/profiles").into_iter();
    let cases = cases.filter(|(name, _)| !SKIPPED_PROFILES.contains(&name.as_str()));
    let cases = cases.map(|(name, text)| {
        let case = Case::new(format!("profile {name}"), "-i 100ms -a", shorten(&text));
        limit_comparison(case, &text)
    });
    cases.collect()
}

/// Excludes text that depends on chance. A stock slave warns twice about the buffers of each
/// connection.
fn limit_comparison(case: Case, text: &str) -> Case {
    if text.contains("wndsz") || case.has_several_groups() {
        case.compare_only(ComparedText::WithoutFigures)
    } else {
        case
    }
}

/// Reduces the strands and iterations of a profile. Replaces durations with iterations, except for
/// paced transactions.
fn shorten(profile: &str) -> String {
    let mut text = profile.to_owned();
    for duration in ["10s", "30s", "60s", "100s", "120s"] {
        let duration = format!("duration=\"{duration}\"");
        text = text.replace(&format!("{duration} rate"), "duration=\"1s\" rate");
        text = text.replace(&duration, "iterations=\"20\"");
    }
    for count in [
        "10", "16", "20", "50", "75", "100", "200", "500", "750", "1000",
    ] {
        text = text.replace(&format!("nthreads=\"{count}\""), "nthreads=\"3\"");
    }
    for count in ["250", "1000"] {
        text = text.replace(&format!("iterations=\"{count}\""), "iterations=\"20\"");
    }
    if text.contains("protocol=ssl") {
        // Stock's TLS sometimes fails with several threads.
        text = text.replace("nthreads=\"4\"", "nthreads=\"1\"");
    }
    text.replace("\"$conn\"", "\"2\"")
        .replace("duration=1s", "duration=10ms")
}

/// Profiles in the style of k8s-netperf: not valid XML, with processes and a fixed port.
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
            let case = Case::new(name, "-v -a -R -i 1", profile).for_all_versions();
            let case = match (kind, protocol) {
                ("stream", "udp") => case.check_figures(CheckedFigures::Nothing),
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
