//! Network namespaces, so that one test's TIME_WAIT is not the next one's.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Documentation addresses (RFC 5737, RFC 3849) on the loopback interface: to getaddrinfo(3) with
/// `AI_ADDRCONFIG`, as the original calls it, a family has no addresses if it has but loopback's.
const ADDRESSES: [&str; 2] = ["192.0.2.1/32", "2001:db8::1/128"];

/// A network namespace with its loopback interface up, deleted when dropped.
///
/// Needs root and iproute2, see ip-netns(8).
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one under a name that no other process uses.
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("testkit-{}-{number}", std::process::id());
        ip(&["netns", "add", &name])?;
        let namespace = Self { name };
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        for address in ADDRESSES {
            ip(&[
                "-n",
                &namespace.name,
                "address",
                "add",
                address,
                "dev",
                "lo",
            ])?;
        }
        Ok(namespace)
    }

    /// Why this machine cannot make one; `None` if it can.
    pub fn missing() -> Option<String> {
        let error = Self::new().err()?;
        Some(format!("no network namespaces here: {error}"))
    }

    /// A command that runs `command`'s program and arguments inside, under the same process id.
    pub fn enter(&self, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside
            .args(["netns", "exec", &self.name])
            .arg(command.get_program())
            .args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(key, value),
                None => inside.env_remove(key),
            };
        }
        inside
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nothing to be done about a failure but to leave a name behind.
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

fn ip(args: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(args).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "ip {}: {}",
        args.join(" "),
        said.trim()
    )))
}
