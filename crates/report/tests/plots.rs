//! Plots of a simulated link. Throughput is limited by the link rate; losses and extremes stay
//! visible for any number of packets.

use std::time::{Duration, SystemTime};

use model::{
    BufferPlan, EndCause, FlowPlan, Lateness, Outcome, PacketRecord, Plan, Side, Spacing,
    SpacingMethod, SpacingResult, Transport, Workload,
};
use report::{PeerInfo, Report, TestFigures, TestReport, plots_html, plots_svg};
use units::Bytes;

/// The time that the link takes for a packet of 1472 bytes, in nanoseconds.
const SERVICE_NS: u64 = 120_000;

/// The capacity of the link's queue, in packets.
const QUEUE: u64 = 50;

/// Simulates a test with `count` packets. The result contains packet records if `is_recorded`.
fn simulate_test(bytes: u32, spacing_us: u64, count: u64, is_recorded: bool) -> TestReport {
    let spacing = Spacing {
        gap: Duration::from_micros(spacing_us),
        bursts: None,
        lateness: Lateness::CatchUp,
        method: SpacingMethod::Spin,
    };
    let buffers = BufferPlan::message(bytes);
    let mut flow = FlowPlan::new(Transport::Udp, Workload::send()).with_buffers(buffers);
    flow.local.spacing = Some(spacing);
    let gap_ns = (spacing_us * 1000).max(2000);
    let service_ns = SERVICE_NS * u64::from(bytes) / 1472;
    let (mut link_free_ns, mut records) = (0, Vec::new());
    for number in 0..count {
        let sent_ns = number * gap_ns;
        let is_lost = link_free_ns > sent_ns + QUEUE * service_ns;
        if !is_lost {
            link_free_ns = link_free_ns.max(sent_ns) + service_ns;
        }
        records.push(PacketRecord {
            number,
            bytes,
            sent: Some(Duration::from_nanos(sent_ns)),
            received: (!is_lost).then_some(Duration::from_nanos(link_free_ns)),
            one_way_delay_ns: None,
        });
    }
    let arrivals = records.iter().filter_map(|record| record.received);
    let (received, last) = (arrivals.clone().count() as u64, arrivals.max());
    let elapsed = Duration::from_nanos(count * gap_ns);
    let mut local = Side {
        elapsed: Some(elapsed),
        spacing_result: Some(SpacingResult {
            sent: count,
            elapsed,
            ..SpacingResult::default()
        }),
        ..Side::default()
    };
    let mut remote = Side {
        elapsed: last.map(|last| last.saturating_sub(Duration::from_nanos(service_ns))),
        ..Side::default()
    };
    (local.counts.sent, local.counts.send_calls) = (Bytes(count * u64::from(bytes)), count);
    (remote.counts.received, remote.counts.receive_calls) =
        (Bytes(received * u64::from(bytes)), received);
    let plan = Plan::for_flow("udpmon", "far <away>", flow);
    let started = SystemTime::UNIX_EPOCH;
    let mut run = Outcome::for_flow(plan, started, local, Some(remote), EndCause::Count);
    if is_recorded {
        run.packets = records;
    }
    TestReport::from_run(run)
}

fn report(tests: Vec<TestReport>) -> Report {
    Report {
        tests,
        ..Report::new(PeerInfo::new("far <away>", 14233), SystemTime::UNIX_EPOCH)
    }
}

fn sweep() -> Report {
    let sizes = [1472, 736];
    let tests =
        sizes.map(|bytes| (0..=40).map(move |step| simulate_test(bytes, step * 5, 2000, false)));
    report(tests.into_iter().flatten().collect())
}

/// Returns the titles of the plots.
fn titles(svg: &str) -> Vec<&str> {
    let labels = svg.split("aria-label=\"").skip(1);
    labels.filter_map(|text| text.split('"').next()).collect()
}

/// Returns the paths in each element that starts with `group`.
fn paths<'a>(svg: &'a str, group: &str) -> Vec<&'a str> {
    let groups = svg.split(group).skip(1);
    let groups_text = groups.filter_map(|text| text.split("</g>").next());
    let paths = groups_text.flat_map(|text| text.split(" d=\"").skip(1));
    paths.filter_map(|text| text.split('"').next()).collect()
}

#[test]
fn a_sweep_is_plotted_against_spacing_and_size() {
    let report = sweep();
    let svg = plots_svg(&report);
    let x_quantities = ["spacing", "packet size"];
    let expected = x_quantities.map(|x| {
        [
            format!("Throughput against {x}"),
            format!("Packet loss against {x}"),
        ]
    });
    assert_eq!(titles(&svg), expected.concat());
    for text in [
        "spacing (µs)",
        "payload of a packet (B)",
        "throughput (Mbit/s)",
        "1,472 B received",
        "55 µs sent",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(svg.len() < 40_000, "{} bytes", svg.len());
    // The received rate is the sent rate, but at most the rate of the link.
    let link_bps = 1472.0 * 8e9 / SERVICE_NS as f64;
    for tested in &report.tests {
        let figures = TestFigures::from_outcome(&tested.runs[0]);
        let (offered, received) = (
            figures.offered_bps.unwrap().0,
            figures.throughput_bps.unwrap().0,
        );
        let deviation = received / offered.min(link_bps) - 1.0;
        assert!(deviation.abs() < 0.002, "{deviation}: {offered} {received}");
    }
}

#[test]
fn plots_delays_and_arrivals_of_packets() {
    let svg = plots_svg(&report(vec![simulate_test(1472, 40, 3000, true)]));
    let arrival = "Arrival against sequence number: 1,472 B every 40 µs";
    assert_eq!(
        titles(&svg),
        ["Delay histogram", "Delay over time", arrival]
    );
    assert!(svg.contains("delay above the minimum (ms)") && svg.contains("lost, at zero"));
    // All lost packets are drawn on the x axis.
    let lost = paths(&svg, "<g class=\"lost\"").concat();
    let heights: Vec<&str> = lost
        .split('M')
        .skip(1)
        .filter_map(|dot| dot.split(' ').nth(1))
        .collect();
    assert!(
        heights.len() > 100 && heights.iter().all(|height| *height == "340V340"),
        "{lost}"
    );
}

/// A small file shows one late and one lost packet among 300,000.
#[test]
fn outliers_stay_visible_among_many_packets() {
    let mut tested = simulate_test(1472, 200, 300_000, true);
    let packets = &mut tested.runs[0].packets;
    packets[123_456].received = None;
    let late_arrival = packets[200_000]
        .received
        .map(|at| at + Duration::from_millis(7));
    packets[200_000].received = late_arrival;
    let svg = plots_svg(&report(vec![tested]));
    assert!(svg.len() < 40_000, "{} bytes", svg.len());
    assert_eq!(paths(&svg, "<g class=\"lost\"").len(), 1);
    let delays = svg.split("Delay over time").nth(2).unwrap();
    let dots = paths(delays, "<g class=\"c0\"")[0].split('M').skip(1);
    let heights = dots.filter_map(|dot| dot.split([' ', 'V']).nth(1)?.parse::<f64>().ok());
    assert!(
        heights.clone().fold(f64::MAX, f64::min) < 90.0,
        "{:?}",
        heights.collect::<Vec<_>>()
    );
}

#[test]
fn pages_have_plots_and_no_scripts() {
    let page = plots_html(&sweep());
    assert_eq!(page.matches("<svg class=\"chart\" role=\"img\"").count(), 4);
    assert!(!page.contains("<script") && !page.contains("<away>"));
    // The security policy of the page forbids style attributes.
    assert!(!page.contains(" style=\"") && page.matches("<style>").count() == 3);
    let page = report::html(&report(vec![simulate_test(1472, 40, 500, true)]));
    for text in [
        "<h2>Plots</h2>",
        "peak relative delay",
        "bottleneck rate",
        ">PDV<",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn empty_plots_contain_a_note() {
    let empty = report(Vec::new());
    assert!(plots_svg(&empty).contains("Nothing to plot"));
    assert!(plots_html(&empty).contains("<p>Nothing to plot"));
    // A single test without records does not make a curve.
    let single = report(vec![simulate_test(1472, 40, 10, false)]);
    assert!(plots_svg(&single).contains("Nothing to plot"));
}
