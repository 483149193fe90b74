//! CPU binding of threads: -T.

use std::fs;
use std::time::Duration;

use testkit::{Requirement, Server, TestCase, TestProcess, test_case, wait_until};

use super::start_client;

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![test_case("binding", &[Requirement::Processors(2)], binding)]
}

/// -T binds the data thread of the requested end to the requested CPU. It does not bind other
/// threads.
fn binding() {
    let all = allowed_cpus("/proc/self/status");
    let cpus: Vec<u32> = parse_cpu_list(&all);
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let (first, last) = (first.to_string(), last.to_string());
    for (option, client_cpus, server_cpus) in [
        (format!("-T {first},{last}"), &first, &last),
        (format!("-T {last}"), &last, &last),
        (format!("-T {first},"), &first, &all),
        (format!("-T ,{first}"), &all, &first),
    ] {
        let server = Server::start("");
        let mut client = start_client(&server, &format!("-t TCP_RR -l 30 {option}"));
        client.wait_for_data_phase();
        wait_for_binding(client.pid(), client_cpus, &all, &option, &client);
        wait_for_binding(server.pid(), server_cpus, &all, &option, &client);
    }
}

/// Waits until the busiest thread is bound to `expected` and the others to `all`.
fn wait_for_binding(pid: u32, expected: &str, all: &str, option: &str, client: &TestProcess) {
    let mut threads = Vec::new();
    let is_bound = wait_until(Duration::from_secs(10), || {
        threads = threads_by_cpu_time(pid);
        let bound = threads.iter().filter(|(_, cpus)| cpus == expected).count();
        let unbound = threads.iter().filter(|(_, cpus)| cpus == all).count();
        let is_busiest_bound = threads.first().is_some_and(|(_, cpus)| cpus == expected);
        is_busiest_bound && (expected == all || (bound == 1 && bound + unbound == threads.len()))
    });
    assert!(
        is_bound,
        "{option}: process {pid} does not run on CPU {expected}: {threads:?} {}",
        client.stderr()
    );
}

/// Returns the CPU time and the allowed CPUs of each thread, the busiest first.
fn threads_by_cpu_time(pid: u32) -> Vec<(u64, String)> {
    let directory = fs::read_dir(format!("/proc/{pid}/task"));
    let mut threads: Vec<_> = directory
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let path = entry.path();
            let stat = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            let cpu_time = stat
                .split_whitespace()
                .next()
                .and_then(|time| time.parse().ok());
            let status = path.join("status").to_string_lossy().into_owned();
            (cpu_time.unwrap_or(0), allowed_cpus(&status))
        })
        .collect();
    threads.sort_by_key(|(cpu_time, _)| std::cmp::Reverse(*cpu_time));
    threads
}

/// Returns `Cpus_allowed_list` of a status file, proc(5).
fn allowed_cpus(status: &str) -> String {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

/// Parses a list of CPUs: `0-3,8`.
fn parse_cpu_list(text: &str) -> Vec<u32> {
    text.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}
