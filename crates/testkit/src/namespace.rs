//! Network namespaces and the links between them. In a namespace of its own, a test is not affected
//! by other tests' sockets in TIME_WAIT.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Documentation addresses (RFC 5737, RFC 3849) for the loopback interface. Stock netperf calls
/// getaddrinfo(3) with `AI_ADDRCONFIG`, which ignores a family that has only loopback addresses.
const ADDRESSES: [&str; 2] = ["192.0.2.1/32", "2001:db8::1/128"];

/// Sizes of the socket tables of a namespace. The kernel's own TCP table has hundreds of thousands
/// of buckets, and each read of `/proc/net/tcp` visits all of them, which takes 5 to 10 ms.
const CHILD_TABLES: [(&str, &str); 2] = [
    ("tcp_child_ehash_entries", "4096"),
    ("udp_child_hash_entries", "1024"),
];

/// An unnamed network namespace. It needs root and iproute2.
///
/// The kernel removes the namespace and its links when this process and all processes inside have
/// ended, even after a crash.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Creates a namespace with only the loopback interface, which is up.
    pub fn create() -> io::Result<Self> {
        static PARENT: OnceLock<Option<Namespace>> = OnceLock::new();
        let namespace = match PARENT.get_or_init(|| Self::create_parent().ok()) {
            Some(parent) => {
                let child = parent.enter(Self::create_child)?;
                child.copy_limits(parent);
                child
            }
            None => Self::create_child()?,
        };
        namespace.run("ip link set lo up")?;
        Ok(namespace)
    }

    /// Creates the parent of the others. The namespaces that are created inside it have socket
    /// tables of their own, if the kernel has this setting (Linux 6.1).
    fn create_parent() -> io::Result<Self> {
        let parent = Self::create_child()?;
        parent.enter(|| {
            for (file, buckets) in CHILD_TABLES {
                let _ = std::fs::write(format!("/proc/sys/net/ipv4/{file}"), buckets);
            }
        });
        Ok(parent)
    }

    /// Creates a namespace from the one of this thread.
    fn create_child() -> io::Result<Self> {
        static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
        // The namespace has a name only until the file is open. Without a name, only a thread that
        // leaves its own namespace could create it.
        let number = NEXT_NUMBER.fetch_add(1, Relaxed);
        let name = format!("testkit-{}-{number}", std::process::id());
        run_line(&format!("ip netns add {name}"))?;
        let file = File::open(format!("/run/netns/{name}"));
        run_line(&format!("ip netns delete {name}"))?;
        Ok(Self { file: file? })
    }

    /// Copies the limits that the kernel derives from the size of the socket table.
    fn copy_limits(&self, parent: &Self) {
        for name in ["tcp_max_tw_buckets", "tcp_max_syn_backlog"] {
            let file = format!("/proc/sys/net/ipv4/{name}");
            let limit = parent.enter(|| std::fs::read(&file));
            let _ = limit.and_then(|limit| self.enter(|| std::fs::write(&file, limit)));
        }
    }

    /// Creates a namespace for stock programs, with an additional loopback address per family.
    ///
    /// # Panics
    ///
    /// If this machine cannot create namespaces; see [`Namespace::missing_reason`]. The other
    /// functions that do not return an error panic in the same case.
    #[expect(
        clippy::new_without_default,
        reason = "a system resource is not a default value"
    )]
    pub fn new() -> Self {
        let namespace = Self::with_loopback_only();
        for address in ADDRESSES {
            // A kernel without IPv6 refuses the IPv6 address.
            let _ = namespace.run(&format!("ip address add {address} dev lo"));
        }
        namespace
    }

    /// Creates a namespace as [`Namespace::new`] does, and moves this thread into it. Processes
    /// that the thread starts are inside too.
    pub fn enter_new() -> Self {
        let namespace = Self::new();
        namespace.enter_on_this_thread();
        namespace
    }

    /// Returns the namespace in which this process was started, with the interfaces of the machine.
    pub fn for_this_process() -> Self {
        // /proc/self has the namespace of the first thread, which never moves.
        let file = File::open("/proc/self/ns/net").expect("a process has a namespace");
        Self { file }
    }

    /// Creates a namespace with only the loopback interface, and panics on an error.
    pub fn with_loopback_only() -> Self {
        Self::create().expect("root can create a namespace")
    }

    /// Returns the reason if this machine cannot create namespaces, or else `None`.
    pub fn missing_reason() -> Option<String> {
        let error = Self::create().err()?;
        Some(format!("network namespaces are unavailable: {error}"))
    }

    /// Returns the ids of the processes inside, except this process.
    pub fn processes(&self) -> Vec<i32> {
        let Ok(metadata) = self.file.metadata() else {
            return Vec::new();
        };
        let is_inside = |pid: &i32| {
            std::fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|found| (found.dev(), found.ino()) == (metadata.dev(), metadata.ino()))
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // This process may be inside too.
        pids.filter(|pid| *pid != std::process::id() as i32 && is_inside(pid))
            .collect()
    }

    /// Returns a path of the namespace for other processes, such as nsenter(1), and for the `netns`
    /// argument of ip-link(8). It is valid while this value exists.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Returns a command that runs the program and arguments of `command` inside. nsenter(1) does
    /// not fork, so the started process becomes the program.
    pub fn command(&self, command: &Command) -> Command {
        self.command_by(&[], command)
    }

    /// Returns a command as [`Namespace::command`] does. The kernel kills its process when the thread
    /// that starts it ends, or when this process dies.
    pub fn dependent_command(&self, command: &Command) -> Command {
        // setpriv is part of util-linux. Without it, a kill -9 of this process leaves the command
        // running.
        let has_setpriv = ["/usr/bin/setpriv", "/bin/setpriv"]
            .iter()
            .any(|path| Path::new(path).exists());
        let setpriv = ["setpriv", "--pdeathsig", "KILL", "--"];
        self.command_by(if has_setpriv { &setpriv } else { &[] }, command)
    }

    /// Returns a command that runs `command` inside with these words before it.
    fn command_by(&self, prefix: &[&str], command: &Command) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter
            .arg(format!("--net={}", self.path()))
            .args(prefix)
            .arg(command.get_program())
            .args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => nsenter.env(key, value),
                None => nsenter.env_remove(key),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            nsenter.current_dir(directory);
        }
        nsenter
    }

    /// Runs `work` on a new thread inside the namespace. Processes that `work` starts are inside
    /// too.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let work_inside = || {
            self.enter_on_this_thread();
            work()
        };
        let result = std::thread::scope(|scope| scope.spawn(work_inside).join());
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn enter_on_this_thread(&self) {
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root can enter a namespace");
    }

    /// Runs a command line inside. Returns its standard output, or an error with its standard
    /// error.
    pub fn run(&self, line: &str) -> io::Result<String> {
        self.enter(|| run_line(line))
    }

    /// Runs `ip` inside the namespace. Panics if it fails.
    #[track_caller]
    pub fn ip(&self, arguments: &str) {
        self.run(&format!("ip {arguments}"))
            .unwrap_or_else(|error| panic!("{error}"));
    }
}

/// One end of a link: the namespace, the name of the interface, and its address with the prefix
/// length.
pub type LinkEnd<'a> = (&'a Namespace, &'a str, &'a str);

/// Joins two namespaces by an Ethernet link. IPv6 is disabled on the link, so that it carries only
/// packets of tests.
#[track_caller]
pub fn add_link(first: LinkEnd, second: LinkEnd) {
    try_add_link(first, second).unwrap_or_else(|error| panic!("{error}"));
}

/// Does the same as [`add_link`], but returns an error instead of panicking.
pub fn try_add_link(first: LinkEnd, second: LinkEnd) -> io::Result<()> {
    let ((first_host, first_name, _), (second_host, second_name, _)) = (first, second);
    first_host.run(&format!(
        "ip link add {first_name} type veth peer name {second_name} netns {}",
        second_host.path()
    ))?;
    for (namespace, name, address) in [first, second] {
        namespace.enter(|| {
            // A kernel without IPv6 has no such file.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        });
        namespace.run(&format!("ip address add {address} dev {name}"))?;
        namespace.run(&format!("ip link set {name} up"))?;
    }
    Ok(())
}

fn run_line(line: &str) -> io::Result<String> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{line}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{line}: {}", stderr.trim())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    use super::*;
    use crate::{Requirement, wait_until};

    #[test]
    fn dependent_command_ends_with_its_thread() {
        if let Some(reason) = Requirement::Namespaces.missing_reason() {
            return println!("SKIPPED: {reason}");
        }
        let namespace = Namespace::with_loopback_only();
        let mut sleep = Command::new("sleep");
        sleep.arg("1000");
        let start = || {
            let child = namespace.dependent_command(&sleep).spawn().unwrap();
            let command_line = format!("/proc/{}/cmdline", child.id());
            let is_sleep = || std::fs::read(&command_line).unwrap().starts_with(b"sleep");
            assert!(wait_until(Duration::from_secs(10), is_sleep));
            child
        };
        let child = std::thread::scope(|scope| scope.spawn(start).join());
        let status = child.unwrap().wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(rustix::process::Signal::KILL.as_raw())
        );
    }
}
