//! Network namespaces, so that one test's TIME_WAIT is not the next one's, and the links between them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Documentation addresses (RFC 5737, RFC 3849) on the loopback interface: to getaddrinfo(3) with
/// `AI_ADDRCONFIG`, as the original calls it, a family has no addresses if it has but loopback's.
const ADDRESSES: [&str; 2] = ["192.0.2.1/32", "2001:db8::1/128"];

/// A network namespace without a name. The kernel removes it and its links when this process and
/// those that were started in it are gone, however they end.
///
/// Needs root and iproute2.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// One with only the loopback interface, which is up.
    pub fn create() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // It has a name just until it is open: making one without needs a thread that leaves its
        // own for good.
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("testkit-{}-{number}", std::process::id());
        run(&format!("ip netns add {name}"))?;
        let file = File::open(format!("/run/netns/{name}"));
        run(&format!("ip netns delete {name}"))?;
        let namespace = Self { file: file? };
        namespace.run("ip link set lo up")?;
        Ok(namespace)
    }

    /// A host that original programs can work on: with an address of each family beside loopback's.
    ///
    /// # Panics
    ///
    /// Where [`Namespace::missing`] has a reason, as the other functions that return no error.
    #[expect(
        clippy::new_without_default,
        reason = "a system's resource is no default"
    )]
    pub fn new() -> Self {
        let namespace = Self::bare();
        for address in ADDRESSES {
            // Without IPv6 in the kernel there is nothing that would need its address.
            let _ = namespace.run(&format!("ip address add {address} dev lo"));
        }
        namespace
    }

    /// The same, which this thread is in from now on, and what it starts.
    pub fn of_this_thread() -> Self {
        let namespace = Self::new();
        namespace.move_in();
        namespace
    }

    /// The one that this process was started in, with the interfaces of the machine.
    pub fn of_this_process() -> Self {
        // Threads move, the first one never does.
        let file = File::open("/proc/self/ns/net").expect("a process has a namespace");
        Self { file }
    }

    /// Only the loopback interface.
    pub fn bare() -> Self {
        Self::create().expect("root may make a namespace")
    }

    /// Why this machine cannot make one; `None` if it can.
    pub fn missing() -> Option<String> {
        let error = Self::create().err()?;
        Some(format!("no network namespaces here: {error}"))
    }

    /// The processes inside, by their numbers.
    pub fn processes(&self) -> Vec<i32> {
        let Ok(own) = self.file.metadata() else {
            return Vec::new();
        };
        let is_inside = |pid: &i32| {
            std::fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|its| (its.dev(), its.ino()) == (own.dev(), own.ino()))
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // This one may be among them, on a thread of its own.
        pids.filter(|pid| *pid != std::process::id() as i32 && is_inside(pid))
            .collect()
    }

    /// Where other processes find it as long as this one keeps it: for nsenter(1), or the `netns`
    /// argument of ip-link(8).
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// A command that runs `command`'s program and arguments inside, under the same process id.
    pub fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside
            .arg(format!("--net={}", self.path()))
            .arg(command.get_program())
            .args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(key, value),
                None => inside.env_remove(key),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            inside.current_dir(directory);
        }
        inside
    }

    /// Does `work` on a thread of this namespace; processes that it starts are in it too.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let enter_and_work = || {
            self.move_in();
            work()
        };
        let done = std::thread::scope(|scope| scope.spawn(enter_and_work).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn move_in(&self) {
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may enter a namespace");
    }

    /// A line of words run inside to its end; what it printed, or what it complained of.
    pub fn run(&self, line: &str) -> io::Result<String> {
        self.enter(|| run(line))
    }

    /// `ip` within it.
    #[track_caller]
    pub fn ip(&self, arguments: &str) {
        self.run(&format!("ip {arguments}"))
            .unwrap_or_else(|error| panic!("{error}"));
    }
}

/// One end of a link: the host, the interface's name there, its address with the prefix's length.
pub type End<'a> = (&'a Namespace, &'a str, &'a str);

/// Joins two namespaces by an Ethernet link. IPv6 is off on it, so that nothing travels that no test
/// has sent.
#[track_caller]
pub fn link(here: End, there: End) {
    try_link(here, there).unwrap_or_else(|error| panic!("{error}"));
}

/// The same, with an error in place of a panic.
pub fn try_link(here: End, there: End) -> io::Result<()> {
    let ((near, near_name, _), (far, far_name, _)) = (here, there);
    near.run(&format!(
        "ip link add {near_name} type veth peer name {far_name} netns {}",
        far.path()
    ))?;
    for (namespace, name, address) in [here, there] {
        namespace.enter(|| {
            // A kernel without IPv6 has no such file, and needs none.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        });
        namespace.run(&format!("ip address add {address} dev {name}"))?;
        namespace.run(&format!("ip link set {name} up"))?;
    }
    Ok(())
}

fn run(line: &str) -> io::Result<String> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{line}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{line}: {}", said.trim())))
}
