//! The page is whole, and needs nothing but itself.

use std::time::Duration;

use uperf::output::html::{self, Measured};

use crate::sample::{outcome, page, printed};

#[test]
fn every_tag_is_closed() {
    let text = html::page(&page());
    assert_eq!(unclosed(&text), Ok(()));
    // For whoever wants to look at it.
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/uperf-page.html");
    std::fs::write(path, text).expect("a file of our own");
}

#[test]
fn every_section_is_there() {
    let text = html::page(&page());
    for title in [
        "Doubts",
        "Throughput over time",
        "Operations over time",
        "Latency",
        "Groups",
        "Strands",
        "Transactions",
        "Flowops",
        "Counters",
        "Beginnings",
        "Both ends",
        "Interfaces",
        "Hosts",
        "Log",
        "Profile",
    ] {
        assert!(text.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    for figure in [
        "8.00 Mbit/s",
        "4.80 Mbit/s over all of the time",
        "501 op/s",
        "12.0 ms",
    ] {
        assert!(text.contains(figure), "{figure}: {text}");
    }
}

#[test]
fn a_part_of_a_run_is_marked() {
    let mut cut = page();
    assert!(!html::page(&cut).contains("class=\"failed\""));
    cut.measured.report.failures = 2;
    assert!(html::page(&cut).contains("The run failed: 2 strands or slaves failed"));
    cut.measured.is_interrupted = true;
    assert!(html::page(&cut).contains("The run was interrupted: "));
}

#[test]
fn nothing_comes_over_the_network() {
    let text = html::page(&page());
    for way in [
        "http:", "https:", "src=", "url(", "@import", "<script", "<iframe", "<form", "<base",
    ] {
        assert!(!text.contains(way), "{way}");
    }
    assert!(text.contains("default-src 'none'"));
    assert_eq!(text.matches("href=").count(), 1);
    assert!(text.contains("href=\"data:,\""));
}

#[test]
fn names_are_no_tags() {
    let mut page = page();
    let tag = "</pre><script>&\"'";
    let [first, second] = &mut page.measured.hosts[..] else {
        panic!("two hosts");
    };
    for text in [
        &mut page.command_line,
        &mut page.name,
        &mut page.profile,
        &mut page.measured.series[1].name,
        &mut page.measured.distributions[0].name,
        &mut first.name,
        &mut second.facts[0].1,
        &mut page.measured.doubts[0],
        &mut page.measured.report.groups[0].name,
        &mut page.measured.report.strands[0].name,
        &mut page.measured.report.active.groups[0].0,
        &mut page.measured.report.flowops[0].name,
        &mut page.measured.report.slaves[0].host,
        &mut page.measured.report.interfaces.each[0].name,
        &mut page.measured.report.log[0].text,
    ] {
        tag.clone_into(text);
    }
    let text = html::page(&page);
    assert!(!text.contains("<script"), "{text}");
    assert_eq!(unclosed(&text), Ok(()));
}

#[test]
fn a_run_without_anything_has_a_page() {
    let mut page = page();
    page.measured.series.clear();
    page.measured.distributions[0].percentiles.clear();
    page.measured.distributions.truncate(1);
    page.measured.hosts.clear();
    page.measured.doubts.clear();
    page.profile.clear();
    page.measured.report = Measured::of(&outcome()).report;
    page.measured.report.active.all.elapsed = Duration::ZERO;
    for executions in [
        &mut page.measured.report.transactions,
        &mut page.measured.report.flowops,
    ] {
        executions.clear();
    }
    let text = html::page(&page);
    assert_eq!(unclosed(&text), Ok(()));
    for title in [
        "Latency",
        "over time</h2>",
        "Hosts",
        "Profile",
        "Flowops",
        "NaN",
        "inf",
    ] {
        assert!(!text.contains(title), "{title}");
    }
    // What the text tells of the same run is no other figure.
    assert!(printed("").contains("4.80Mb/s") && text.contains("4.80 Mbit/s"));
}

/// Whether each tag that wants an end has one where it belongs; if not, at which.
fn unclosed(text: &str) -> Result<(), String> {
    const WITHOUT_END: [&str; 4] = ["meta", "link", "br", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').ok_or(tag)?;
        let name = tag.split_whitespace().next().unwrap_or_default();
        if let Some(name) = name.strip_prefix('/') {
            let last = open.pop();
            if last != Some(name) {
                return Err(format!("{last:?} ends as {name}"));
            }
        } else if !tag.ends_with('/') && !WITHOUT_END.contains(&name) {
            open.push(name);
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    Err(format!("{open:?}"))
}
