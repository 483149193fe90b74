//! Which CPU the threads may run on: -T.

use std::fs;
use std::time::Duration;

use testkit::{Requirement, Server, TestCase, TestProcess, test_case, wait_until};

use super::start;

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![test_case("binding", &[Requirement::Processors(2)], binding)]
}

/// The thread that moves the data is where it was asked to be, at the end that was asked; the thread
/// that keeps the time is not held there.
fn binding() {
    let all = allowed("/proc/self/status");
    let known: Vec<u32> = listed(&all);
    let (first, last) = (known[0], known[known.len() - 1]);
    let (first, last) = (first.to_string(), last.to_string());
    for (option, here, there) in [
        (format!("-T {first},{last}"), &first, &last),
        (format!("-T {last}"), &last, &last),
        (format!("-T {first},"), &first, &all),
        (format!("-T ,{first}"), &all, &first),
    ] {
        let server = Server::start("");
        let mut client = start(&server, &format!("-t TCP_RR -l 30 {option}"));
        client.wait_for_data_phase();
        seen(client.pid(), here, &all, &option, &client);
        seen(server.pid(), there, &all, &option, &client);
    }
}

/// Waits until the thread that works is bound to `expected` and the others to `all`.
fn seen(pid: u32, expected: &str, all: &str, option: &str, client: &TestProcess) {
    let mut threads = Vec::new();
    let found = wait_until(Duration::from_secs(10), || {
        threads = tasks(pid);
        let bound = threads.iter().filter(|(_, cpus)| cpus == expected).count();
        let others = threads.iter().filter(|(_, cpus)| cpus == all).count();
        // The busiest one is first.
        let worker = threads.first().is_some_and(|(_, cpus)| cpus == expected);
        worker && (expected == all || (bound == 1 && bound + others == threads.len()))
    });
    assert!(
        found,
        "{option}: {pid} is to run on {expected}: {threads:?} {}",
        client.stderr()
    );
}

/// CPU time and allowed CPUs of each thread, the busiest first.
fn tasks(pid: u32) -> Vec<(u64, String)> {
    let directory = fs::read_dir(format!("/proc/{pid}/task"));
    let mut tasks: Vec<_> = directory
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let path = entry.path();
            let stat = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            let busy = stat
                .split_whitespace()
                .next()
                .and_then(|time| time.parse().ok());
            let status = path.join("status").to_string_lossy().into_owned();
            (busy.unwrap_or(0), allowed(&status))
        })
        .collect();
    tasks.sort_by_key(|(busy, _)| std::cmp::Reverse(*busy));
    tasks
}

/// `Cpus_allowed_list` of a status, proc(5).
fn allowed(status: &str) -> String {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

/// The CPUs in a list: `0-3,8`.
fn listed(text: &str) -> Vec<u32> {
    text.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}
