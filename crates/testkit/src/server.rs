//! A server in the foreground, from the moment that it listens until it is dropped.

use std::io;
use std::net::{Ipv6Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::command::POLL;
use crate::namespace::Namespace;
use crate::sockets::listens;

/// How long a server may take to listen, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server, killed with all its processes when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts what `program` makes of a free port, inside `namespace` if there is one, and returns
    /// when it listens there.
    ///
    /// Another process can take the port before the server does; then another port is tried.
    pub fn start(
        namespace: Option<&Namespace>,
        program: impl Fn(u16) -> Command,
    ) -> io::Result<Self> {
        let mut last = None;
        for _ in 0..3 {
            let port = free_port()?;
            let plain = program(port);
            let mut command = match namespace {
                Some(namespace) => namespace.command(&plain),
                None => plain,
            };
            let child = command
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            let mut server = Self { child, port };
            match server.wait_until_listening() {
                Ok(()) => return Ok(server),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("three tries leave an error"))
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn wait_until_listening(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended: {status}")));
            }
            if self.listens() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("nothing listens on port {} after {PATIENCE:?}", self.port),
        ))
    }

    /// By the kernel's table: a connection would be one more client, and could not be made from
    /// outside its namespace.
    fn listens(&self) -> bool {
        listens(&self.child.id().to_string(), self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The original has a process a connection, and some outlive their client: the whole group
        // goes. It may have ended by itself.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A port that was free for both families a moment ago.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| TcpListener::bind(("127.0.0.1", 0)))?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ends_is_no_server() {
        let started = Server::start(None, |_| Command::new("true"));
        assert!(started.is_err());
    }
}
