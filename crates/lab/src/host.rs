//! Processes on a host of the test network.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Namespace, is_listening, wait_until};

/// The default port of netserver.
const NETSERVER_PORT: u16 = 12865;

/// The maximum time until a server listens, and until killed processes are gone.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a netserver and waits until it listens.
pub(crate) fn start_netserver(host: &Namespace, program: &Path) -> io::Result<Child> {
    let mut command = Command::new(program);
    if program.file_name().is_some_and(|name| name == "linerate") {
        command.arg("netserver");
    }
    command.args(["-D", "-p", &NETSERVER_PORT.to_string()]);
    // netserver prints only its listening address, which is fixed.
    let mut child = start(host, &command, Stdio::null())?;
    wait_for_port(host, NETSERVER_PORT, Some(&mut child)).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{}: {}", program.display(), sys::describe(&error)),
        )
    })?;
    Ok(child)
}

/// Starts a shell command without input. Its output goes to standard error.
pub(crate) fn start_shell_command(host: &Namespace, line: &str) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    start(host, &command, io::stderr().into())
}

/// Waits until a server listens on a TCP port of the host. Fails as soon as `server` exits.
pub(crate) fn wait_for_port(
    host: &Namespace,
    port: u16,
    mut server: Option<&mut Child>,
) -> io::Result<()> {
    let mut exit_status = None;
    let is_in_time = wait_until(TIMEOUT, || {
        exit_status = server
            .as_mut()
            .and_then(|child| child.try_wait().ok().flatten());
        exit_status.is_some() || host.enter(|| is_listening(port))
    });
    match exit_status {
        Some(status) => Err(io::Error::other(format!("server exited: {status}"))),
        None if is_in_time => Ok(()),
        None => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no server listens on port {port}"),
        )),
    }
}

/// Kills all processes on these hosts, including children of servers, and waits until they are
/// gone.
pub(crate) fn kill_processes(hosts: &[&Namespace]) {
    // Repeats, because a process can start another one before it is killed.
    wait_until(TIMEOUT, || {
        let pids: Vec<_> = hosts.iter().flat_map(|host| host.processes()).collect();
        for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // Fails if the process has just exited.
            let _ = kill_process(pid, Signal::KILL);
        }
        pids.is_empty()
    });
}

fn start(host: &Namespace, command: &Command, output: Stdio) -> io::Result<Child> {
    host.dependent_command(command)
        .stdin(Stdio::null())
        .stdout(output)
        .spawn()
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("{command:?}: {}", sys::describe(&error)),
            )
        })
}
