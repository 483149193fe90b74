//! The servers of one dialect, and their checks.

use std::process::Command;
use std::time::Duration;

use testkit::{ProcessUsage, Server, TestProcess, linerate_with_args};

use super::session::TIMEOUT;
use super::target::Target;
use super::third_host::ThirdHost;
use crate::hosts::network::{Hosts, PORT, master_address, slave_address};

/// Addresses of the client's host that are not on the link. The servers treat them as unproven, and
/// delay logins after a failure for each of them separately.
pub(super) const FAR_NETWORK: &str = "10.9.0.0/16";

/// Timeout for the server to release all resources. A slave waits up to 12 s for its strands.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(40);

/// Environment variable with the path of the server's program, instead of the one that cargo built
/// for the tests.
pub(super) const FUZZ_BINARY: &str = "LINERATE_FUZZ_BINARY";

/// The running servers of one dialect.
pub(super) struct RunningServer<'a> {
    /// Usage without clients.
    pub(super) idle_usage: ProcessUsage,
    pub(super) usage: &'a dyn Fn() -> ProcessUsage,
    /// Fails the test unless the server serves clients and has left nothing behind.
    pub(super) assert_serves: &'a dyn Fn(),
    pub(super) processes: Vec<u32>,
    pub(super) resident_kib: &'a dyn Fn() -> u64,
    pub(super) log: &'a dyn Fn() -> String,
}

/// Starts a server per line, with consecutive ports in the place of `PORT`, and attacks them all.
/// The command lines in `clients` must succeed before and after the attack.
pub(super) fn attack_servers(target: &Target, servers: &[String], clients: &[String]) {
    let hosts = Hosts::new(1);
    let host = &hosts.slaves[0];
    let third_host = ThirdHost::linked_to(host);
    hosts
        .master
        .ip(&format!("route add local {FAR_NETWORK} dev lo"));
    host.ip(&format!(
        "route add {FAR_NETWORK} via {}",
        master_address(0)
    ));
    let start = |(port, line): (u16, &String)| {
        let command = without_backtraces(&line.replace("PORT", &port.to_string()));
        Server::start_at(port, host.dependent_command(&command))
    };
    let servers: Vec<_> = (PORT..).zip(servers).map(start).collect();
    let assert_serves = || {
        for client in clients {
            let line = client.replace("SERVER", &slave_address(0));
            let client =
                || TestProcess::start(linerate_with_args(&line).env("IPERF3_PASSWORD", "rossi"));
            hosts.master.enter(client).finish(TIMEOUT).assert_success();
        }
    };
    let usages = || {
        servers
            .iter()
            .map(Server::settled_usage)
            .fold(NO_USAGE, add)
    };
    let usage = || servers.iter().map(Server::usage).fold(NO_USAGE, add);
    let logs = || {
        let describe = |server: &Server| format!("{:?}\n{}", server.thread_names(), server.log());
        servers.iter().map(describe).collect::<Vec<_>>().join("\n")
    };
    assert_serves();
    target.attack(
        &hosts,
        &third_host,
        &RunningServer {
            idle_usage: usages(),
            usage: &usage,
            assert_serves: &|| {
                assert!(!servers.iter().any(Server::has_panicked), "{}", logs());
                assert_serves();
            },
            processes: servers.iter().map(Server::pid).collect(),
            resident_kib: &|| servers.iter().map(Server::resident_kib).sum(),
            log: &logs,
        },
    );
}

const NO_USAGE: ProcessUsage = ProcessUsage {
    descriptors: 0,
    threads: 0,
};

fn add(first: ProcessUsage, second: ProcessUsage) -> ProcessUsage {
    ProcessUsage {
        descriptors: first.descriptors + second.descriptors,
        threads: first.threads + second.threads,
    }
}

/// Returns the command of a server, without backtraces. A panic then ends the server immediately, so
/// one of the last seeds is the cause.
pub(super) fn without_backtraces(arguments: &str) -> Command {
    let mut command = linerate_with_args(arguments);
    if let Some(program) = std::env::var_os(FUZZ_BINARY) {
        command = Command::new(program);
        command.args(arguments.split_whitespace());
    }
    command.env("RUST_BACKTRACE", "0");
    command
}
