//! Processes on a host.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Namespace, eventually, is_listening};

/// netserver's usual port.
const NETSERVER_PORT: u16 = 12865;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// The command on a host, which ends with this process if that is killed.
pub(crate) fn on(host: &Namespace, program: &Command) -> Command {
    // util-linux's; without it a kill -9 of this process leaves its command.
    if !["/usr/bin/setpriv", "/bin/setpriv"]
        .iter()
        .any(|path| Path::new(path).exists())
    {
        return host.command(program);
    }
    let mut bound = Command::new("setpriv");
    bound
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program.get_program())
        .args(program.get_args());
    for (key, value) in program.get_envs() {
        if let Some(value) = value {
            bound.env(key, value);
        }
    }
    host.command(&bound)
}

/// Starts a netserver, and returns when it listens.
pub(crate) fn netserver(host: &Namespace, program: &Path) -> io::Result<Child> {
    let mut command = Command::new(program);
    if program.file_name().is_some_and(|name| name == "linerate") {
        command.arg("netserver");
    }
    command.args(["-D", "-p", &NETSERVER_PORT.to_string()]);
    // It says where it listens, which is known here.
    let mut child = start(host, &command, Stdio::null())?;
    await_port(host, NETSERVER_PORT, Some(&mut child)).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{}: {}", program.display(), sys::describe(&error)),
        )
    })?;
    Ok(child)
}

/// Starts a shell command without input, its output going where errors go.
pub(crate) fn serve(host: &Namespace, line: &str) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    start(host, &command, io::stderr().into())
}

/// Waits until something listens at a TCP port of the host.
pub(crate) fn await_port(
    host: &Namespace,
    port: u16,
    mut by: Option<&mut Child>,
) -> io::Result<()> {
    let mut ended = None;
    let listening = eventually(PATIENCE, || {
        ended = by
            .as_mut()
            .and_then(|child| child.try_wait().ok().flatten());
        ended.is_some() || host.enter(|| is_listening(port))
    });
    match ended {
        Some(status) => Err(io::Error::other(format!("it ended: {status}"))),
        None if listening => Ok(()),
        None => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("nothing listens at port {port}"),
        )),
    }
}

/// Kills all processes in these hosts, not only the first process of each server, and waits until they are gone.
pub(crate) fn clear(hosts: &[&Namespace]) {
    // A process may start another one while it is killed.
    eventually(PATIENCE, || {
        let inside: Vec<_> = hosts.iter().flat_map(|host| host.processes()).collect();
        for pid in inside.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // It may just have ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        inside.is_empty()
    });
}

fn start(host: &Namespace, command: &Command, output: Stdio) -> io::Result<Child> {
    on(host, command)
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
