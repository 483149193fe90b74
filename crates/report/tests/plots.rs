//! Plots of a simulated link: throughput bends at its rate, and losses and extremes survive any number of packets.

use std::time::{Duration, SystemTime};

use model::{
    BufferPlan, Ended, FlowPlan, Lateness, Outcome, PacketRecord, Plan, Side, Spaced, Spacing,
    SpacingMethod, Transport, Workload,
};
use report::{Figures, Peer, Report, Tested, plots_html, plots_svg};
use units::Bytes;

/// Time that the link takes for a packet of 1472 bytes.
const SERVICE_NS: u64 = 120_000;

/// Packets that its queue holds.
const QUEUE: u64 = 50;

/// What `count` packets do on the link, with a record of each if `is_recorded`.
fn test(bytes: u32, spacing_us: u64, count: u64, is_recorded: bool) -> Tested {
    let spacing = Spacing {
        gap: Duration::from_micros(spacing_us),
        bursts: None,
        lateness: Lateness::CatchUp,
        method: SpacingMethod::Spin,
    };
    let buffers = BufferPlan::message(bytes);
    let mut flow = FlowPlan::of(Transport::Udp, Workload::send()).with_buffers(buffers);
    flow.here.spacing = Some(spacing);
    let gap_ns = (spacing_us * 1000).max(2000);
    let service_ns = SERVICE_NS * u64::from(bytes) / 1472;
    let (mut free_ns, mut records) = (0, Vec::new());
    for number in 0..count {
        let sent_ns = number * gap_ns;
        let is_lost = free_ns > sent_ns + QUEUE * service_ns;
        if !is_lost {
            free_ns = free_ns.max(sent_ns) + service_ns;
        }
        records.push(PacketRecord {
            number,
            bytes,
            sent: Some(Duration::from_nanos(sent_ns)),
            received: (!is_lost).then_some(Duration::from_nanos(free_ns)),
            one_way_delay_ns: None,
        });
    }
    let arrivals = records.iter().filter_map(|record| record.received);
    let (received, last) = (arrivals.clone().count() as u64, arrivals.max());
    let elapsed = Duration::from_nanos(count * gap_ns);
    let mut here = Side {
        elapsed: Some(elapsed),
        spaced: Some(Spaced {
            sent: count,
            elapsed,
            ..Spaced::default()
        }),
        ..Side::default()
    };
    let mut there = Side {
        elapsed: last.map(|last| last.saturating_sub(Duration::from_nanos(service_ns))),
        ..Side::default()
    };
    (here.counts.sent, here.counts.send_calls) = (Bytes(count * u64::from(bytes)), count);
    (there.counts.received, there.counts.receive_calls) =
        (Bytes(received * u64::from(bytes)), received);
    let plan = Plan::of_flow("udpmon", "far <away>", flow);
    let started = SystemTime::UNIX_EPOCH;
    let mut run = Outcome::of_flow(plan, started, here, Some(there), Ended::Count);
    if is_recorded {
        run.packets = records;
    }
    Tested::of_run(run)
}

fn report(tests: Vec<Tested>) -> Report {
    Report {
        tests,
        ..Report::of(Peer::of("far <away>", 14233), SystemTime::UNIX_EPOCH)
    }
}

fn sweep() -> Report {
    let sizes = [1472, 736];
    let tests = sizes.map(|bytes| (0..=40).map(move |step| test(bytes, step * 5, 2000, false)));
    report(tests.into_iter().flatten().collect())
}

/// The titles of the pictures.
fn titles(svg: &str) -> Vec<&str> {
    let labels = svg.split("aria-label=\"").skip(1);
    labels.filter_map(|text| text.split('"').next()).collect()
}

/// The path of each curve's element that begins so.
fn paths<'a>(svg: &'a str, group: &str) -> Vec<&'a str> {
    let groups = svg.split(group).skip(1);
    let of_group = groups.filter_map(|text| text.split("</g>").next());
    let paths = of_group.flat_map(|text| text.split(" d=\"").skip(1));
    paths.filter_map(|text| text.split('"').next()).collect()
}

#[test]
fn a_sweep_has_rates_and_losses_against_spacing_and_size() {
    let report = sweep();
    let svg = plots_svg(&report);
    let against = ["spacing", "packet size"];
    let expected = against.map(|x| {
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
    // The rate in the flat part is the link's, whatever was sent.
    let link_bps = 1472.0 * 8e9 / SERVICE_NS as f64;
    for tested in &report.tests {
        let figures = Figures::of(&tested.runs[0]);
        let (offered, received) = (
            figures.offered_bps.unwrap().0,
            figures.throughput_bps.unwrap().0,
        );
        let error = received / offered.min(link_bps) - 1.0;
        assert!(error.abs() < 0.002, "{error}: {offered} {received}");
    }
}

#[test]
fn packets_have_delays_and_arrivals() {
    let svg = plots_svg(&report(vec![test(1472, 40, 3000, true)]));
    let arrival = "Arrival against sequence number: 1,472 B every 40 µs";
    assert_eq!(
        titles(&svg),
        ["Delay histogram", "Delay over time", arrival]
    );
    assert!(svg.contains("delay above the least one (ms)") && svg.contains("lost, at zero"));
    // All lost packets are at the height of the axis.
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

/// One late packet and one lost packet among 300,000 are in a small picture.
#[test]
fn many_packets_hide_nothing() {
    let mut tested = test(1472, 200, 300_000, true);
    let packets = &mut tested.runs[0].packets;
    packets[123_456].received = None;
    let late = packets[200_000]
        .received
        .map(|at| at + Duration::from_millis(7));
    packets[200_000].received = late;
    let svg = plots_svg(&report(vec![tested]));
    assert!(svg.len() < 40_000, "{} bytes", svg.len());
    assert_eq!(paths(&svg, "<g class=\"lost\"").len(), 1);
    let delays = svg.split("Delay over time").nth(2).unwrap();
    let highest = paths(delays, "<g class=\"c0\"")[0].split('M').skip(1);
    let highest = highest.filter_map(|dot| dot.split([' ', 'V']).nth(1)?.parse::<f64>().ok());
    assert!(
        highest.clone().fold(f64::MAX, f64::min) < 90.0,
        "{:?}",
        highest.collect::<Vec<_>>()
    );
}

#[test]
fn pages_have_pictures_and_no_scripts() {
    let page = plots_html(&sweep());
    assert_eq!(page.matches("<svg class=\"chart\" role=\"img\"").count(), 4);
    assert!(!page.contains("<script") && !page.contains("<away>"));
    // A page's policy forbids a style outside of its own elements.
    assert!(!page.contains(" style=\"") && page.matches("<style>").count() == 3);
    let whole = report::html(&report(vec![test(1472, 40, 500, true)]));
    for text in [
        "<h2>Plots</h2>",
        "peak relative delay",
        "bottleneck rate",
        ">PDV<",
    ] {
        assert!(whole.contains(text), "{text}");
    }
}

#[test]
fn nothing_to_plot_is_said() {
    let none = report(Vec::new());
    assert!(plots_svg(&none).contains("Nothing to plot"));
    assert!(plots_html(&none).contains("<p>Nothing to plot"));
    // A single test without records is no curve.
    let one = report(vec![test(1472, 40, 10, false)]);
    assert!(plots_svg(&one).contains("Nothing to plot"));
}
