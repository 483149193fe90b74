use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace that is deleted with its owner, and with it its links.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// An empty one, its loopback interface up. It has one more address, because the stock netperf
    /// resolves no name, not even 127.0.0.1, on a host that has none.
    pub(crate) fn new() -> Self {
        let namespace = Self::bare();
        namespace.ip("link add v0 type veth peer name v1");
        namespace.ip("address add 192.0.2.1/24 dev v0");
        namespace.ip("link set v1 up");
        namespace.ip("link set v0 up");
        namespace
    }

    /// Only the loopback interface.
    pub(crate) fn bare() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Relaxed);
        let namespace = Self {
            name: format!("linerate-{}-{number}", std::process::id()),
        };
        sh(&format!("ip netns add {}", namespace.name));
        namespace.ip("link set lo up");
        namespace
    }

    /// `ip` within it.
    pub(crate) fn ip(&self, arguments: &str) {
        sh(&format!("ip -n {} {arguments}", self.name));
    }

    /// Does `work` on a thread of this namespace; processes that it starts are in it too.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).expect("the namespace exists");
        let enter_and_work = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter a namespace");
            work()
        };
        let done = std::thread::scope(|scope| scope.spawn(enter_and_work).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

/// Joins two namespaces by an Ethernet link, each end with its name and its address. IPv6 is off,
/// so that nothing travels that no test has sent.
pub(crate) fn link(here: (&Namespace, &str, &str), there: (&Namespace, &str, &str)) {
    let ((near, near_name, near_address), (far, far_name, far_address)) = (here, there);
    near.ip(&format!(
        "link add {near_name} type veth peer name {far_name} netns {}",
        far.name
    ));
    for (namespace, name, address) in [
        (near, near_name, near_address),
        (far, far_name, far_address),
    ] {
        namespace.enter(|| {
            // A kernel without IPv6 has no such file, and needs none.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        });
        namespace.ip(&format!("address add {address} dev {name}"));
        namespace.ip(&format!("link set {name} up"));
    }
}

fn sh(line: &str) {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a command has a name");
    let output = Command::new(program)
        .args(words)
        .output()
        .expect("iproute2 is installed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {stderr}");
}
