//! Creates the network, runs the command, and removes everything.

use std::error::Error;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use lab::{ForwarderStop, PacketSums, TestNetwork};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sys::OutputFile;

use crate::command_line::NetnsArgs;
use crate::host;

/// Runs the command in a new network and returns its exit code.
pub(crate) fn run(arguments: &NetnsArgs) -> Result<u8, Box<dyn Error>> {
    let link = arguments.link_options()?;
    // From here on, signals are forwarded to the command and do not end this process.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let network = TestNetwork::new(&link)?;
    let stop = ForwarderStop::new()?;
    let (status, sums) = thread::scope(|scope| {
        let forwarder = scope.spawn(|| network.forward(&stop, arguments.log.as_deref()));
        let status = run_command(arguments, &network, signals);
        host::kill_processes(&[&network.client, &network.server]);
        let trigger_result = stop.trigger();
        let sums = forwarder.join().expect("the forwarder does not panic");
        trigger_result.map(|()| (status, sums))
    })?;
    let status = status?;
    if network.is_impaired() {
        write_summary(arguments, &sums?)?;
    }
    Ok(exit_code(status))
}

/// Starts the servers, runs the command, and stops the servers.
fn run_command(
    arguments: &NetnsArgs,
    network: &TestNetwork,
    signals: Signals,
) -> Result<ExitStatus, Box<dyn Error>> {
    let _servers = ServerProcesses(vec![
        arguments
            .netserver
            .as_ref()
            .map(|program| host::start_netserver(&network.server, program))
            .transpose()?,
        arguments
            .serve
            .as_ref()
            .map(|line| host::start_shell_command(&network.server, line))
            .transpose()?,
    ]);
    if let Some(port) = arguments.await_port {
        host::wait_for_port(&network.server, port, None)?;
    }

    let (program, command_arguments) = arguments.command.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command
        .args(command_arguments)
        .env("LAB_CLIENT", lab::CLIENT_ADDRESS)
        .env("LAB_SERVER", lab::SERVER_ADDRESS)
        .env("LAB_CLIENT_NET", network.client.path())
        .env("LAB_SERVER_NET", network.server.path());
    if arguments.ipv6 {
        command
            .env("LAB_CLIENT6", lab::CLIENT_ADDRESS6)
            .env("LAB_SERVER6", lab::SERVER_ADDRESS6);
    }
    let mut child = network.client.dependent_command(&command).spawn()?;
    let signals_handle = forward_signals(signals, &child);
    let status = child.wait()?;
    signals_handle.close();
    Ok(status)
}

/// Forwards signals to the command until the returned handle is closed. A terminal sends SIGINT to
/// the command directly.
fn forward_signals(mut signals: Signals, child: &Child) -> signal_hook::iterator::Handle {
    let handle = signals.handle();
    let pid = Pid::from_child(child);
    let has_terminal = std::io::stdin().is_terminal();
    thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGINT && has_terminal {
                continue;
            }
            let signal = match signal {
                SIGINT => Signal::INT,
                SIGHUP => Signal::HUP,
                _ => Signal::TERM,
            };
            // Fails if the command has just exited.
            let _ = kill_process(pid, signal);
        }
    });
    handle
}

/// Server processes, killed when this value is dropped.
struct ServerProcesses(Vec<Option<Child>>);

impl Drop for ServerProcesses {
    fn drop(&mut self) {
        for child in self.0.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn write_summary(arguments: &NetnsArgs, sums: &PacketSums) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &arguments.summary {
        let text = format!("{:#}\n", sums.to_json());
        OutputFile::begin(path)
            .and_then(|file| file.write(text.as_bytes()))
            .map_err(|error| format!("{}: {}", path.display(), sys::describe(&error)))?;
    }
    if !arguments.quiet {
        eprint!("{}", sums.to_text());
    }
    Ok(())
}

/// Returns the exit code as a shell reports it: 128 + N for signal N.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}
