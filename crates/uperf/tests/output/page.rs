//! The HTML page of a profile run is complete and well-formed.

use report::html;

use crate::sample::{master_output, outcome, page};

#[test]
fn closes_every_tag() {
    let text = html(&page());
    assert_eq!(check_tags(&text), Ok(()));
    // Keep the page for inspection.
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/uperf-page.html");
    std::fs::write(path, text).expect("the temporary directory is writable");
}

#[test]
fn contains_every_section() {
    let text = html(&page());
    for title in [
        "Throughput over time (data counted when sent)",
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
fn marks_incomplete_run() {
    let mut page = page();
    assert!(!html(&page).contains("class=\"failed\""));
    page.tests[0].error = Some("2 strands or slaves failed".to_owned());
    assert!(html(&page).contains("failed: 2 strands or slaves failed"));
    page.interrupted = true;
    assert!(html(&page).contains("The run was interrupted; "));
}

#[test]
fn escapes_names() {
    let mut page = page();
    let tag = "</pre></script><script>&\"'";
    let rename = |text: &mut String| tag.clone_into(text);
    rename(&mut page.command_line);
    rename(&mut page.peer.host);
    rename(&mut page.tests[0].plan.name);
    let run = &mut page.tests[0].runs[0];
    rename(&mut run.series[1].name);
    rename(&mut run.groups[0].name);
    let transaction = &mut run.groups[0].transactions[1];
    rename(&mut transaction.name);
    rename(&mut transaction.steps[0].name);
    rename(&mut run.peers[0].host);
    rename(&mut run.log[0].text);
    page.tests[0].plan.source = Some(tag.to_owned());
    let text = html(&page);
    assert!(!text.contains("<script>&"), "{text}");
    assert_eq!(check_tags(&text), Ok(()));
}

#[test]
fn renders_empty_run() {
    let mut page = page();
    let run = &mut page.tests[0].runs[0];
    *run = outcome();
    (run.series, run.groups, run.local.host) = (Vec::new(), Vec::new(), None);
    page.tests[0].plan.source = None;
    let text = html(&page);
    assert_eq!(check_tags(&text), Ok(()));
    let (_, body) = text.split_once("<main>").expect("the page has a body");
    let (body, _) = body.split_once("</main>").expect("the body has an end");
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
    // The text output of the same run is unchanged.
    assert!(master_output("").contains("4.80Mb/s"));
}

/// Returns an error for the first tag whose end tag is missing or misplaced.
fn check_tags(text: &str) -> Result<(), String> {
    const VOID_TAGS: [&str; 4] = ["meta", "link", "br", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    // Skip the scripts, which contain no tags.
    let (text, _) = text.split_once("</main>").ok_or("no end")?;
    let (_, text) = text.split_once("<main>").ok_or("no start")?;
    for tag in text.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').ok_or(tag)?;
        let name = tag.split_whitespace().next().unwrap_or_default();
        if let Some(name) = name.strip_prefix('/') {
            let last = open.pop();
            if last != Some(name) {
                return Err(format!("{last:?} ends as {name}"));
            }
        } else if !tag.ends_with('/') && !VOID_TAGS.contains(&name) {
            open.push(name);
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    Err(format!("{open:?}"))
}
