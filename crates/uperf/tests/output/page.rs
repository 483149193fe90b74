//! The page of a profile's run is whole, and needs nothing but itself.

use report::html;

use crate::sample::{outcome, page, printed};

#[test]
fn every_tag_is_closed() {
    let text = html(&page());
    assert_eq!(unclosed(&text), Ok(()));
    // For whoever wants to look at it.
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/uperf-page.html");
    std::fs::write(path, text).expect("a file of our own");
}

#[test]
fn every_section_is_there() {
    let text = html(&page());
    for title in [
        "Throughput over time",
        "Steps over time",
        "Latency",
        "Latency by percentile",
        "Both ends",
        "Groups",
        "Transactions",
        "Steps",
        "Counters",
        "Peers",
        "Interfaces",
        "Log",
    ] {
        assert!(text.contains(&format!("<h3>{title}</h3>")), "{title}");
    }
    for part in [
        "<h2>Hosts</h2>",
        "<h2>Profile</h2>",
        ">Warnings<",
        "8.00 Mbit/s",
        "501 op/s",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_part_of_a_run_is_marked() {
    let mut cut = page();
    assert!(!html(&cut).contains("class=\"failed\""));
    cut.tests[0].error = Some("2 strands or slaves failed".to_owned());
    assert!(html(&cut).contains("failed: 2 strands or slaves failed"));
    cut.interrupted = true;
    assert!(html(&cut).contains("The run was interrupted; "));
}

#[test]
fn names_are_no_tags() {
    let mut page = page();
    let tag = "</pre></script><script>&\"'";
    let named = |text: &mut String| tag.clone_into(text);
    named(&mut page.command_line);
    named(&mut page.peer.host);
    named(&mut page.tests[0].plan.name);
    let run = &mut page.tests[0].runs[0];
    named(&mut run.series[1].name);
    named(&mut run.groups[0].name);
    let transaction = &mut run.groups[0].transactions[1];
    named(&mut transaction.name);
    named(&mut transaction.steps[0].name);
    named(&mut run.peers[0].host);
    named(&mut run.log[0].text);
    page.tests[0].plan.source = Some(tag.to_owned());
    let text = html(&page);
    assert!(!text.contains("<script>&"), "{text}");
    assert_eq!(unclosed(&text), Ok(()));
}

#[test]
fn a_run_without_anything_has_a_page() {
    let mut page = page();
    let run = &mut page.tests[0].runs[0];
    *run = outcome();
    (run.series, run.groups, run.local.host) = (Vec::new(), Vec::new(), None);
    page.tests[0].plan.source = None;
    let text = html(&page);
    assert_eq!(unclosed(&text), Ok(()));
    let (_, body) = text.split_once("<main>").expect("a body");
    let (body, _) = body.split_once("</main>").expect("an end");
    for title in [
        "Latency",
        "over time</h3>",
        "Hosts",
        "Profile",
        "Steps</h3>",
        "NaN",
        "inf ",
    ] {
        assert!(!body.contains(title), "{title}");
    }
    // What the text reports of the same run is no other figure.
    assert!(printed("").contains("4.80Mb/s"));
}

/// Whether each tag that wants an end has one where it belongs; if not, at which.
fn unclosed(text: &str) -> Result<(), String> {
    const WITHOUT_END: [&str; 4] = ["meta", "link", "br", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    // A script is no place of tags.
    let (text, _) = text.split_once("</main>").ok_or("no end")?;
    let (_, text) = text.split_once("<main>").ok_or("no beginning")?;
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
