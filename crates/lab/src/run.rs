//! Makes the network, runs the command, takes everything down.

use std::error::Error;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use lab::{Journal, Network, Stop};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sys::WholeFile;

use crate::command_line::NetnsArgs;
use crate::host;

/// Runs the command; its exit code.
pub(crate) fn run(arguments: &NetnsArgs) -> Result<u8, Box<dyn Error>> {
    let link = arguments.link()?;
    // From here on a signal ends the command, not this process.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let network = Network::new(&link)?;
    let stop = Stop::new()?;
    let (status, journal) = thread::scope(|scope| {
        let forwarder = scope.spawn(|| network.forward(&stop, arguments.log.as_deref()));
        let status = command(arguments, &network, signals);
        host::clear(&[&network.client, &network.server]);
        let stopped = stop.pull();
        let journal = forwarder.join().expect("it returns its errors");
        stopped.map(|()| (status, journal))
    })?;
    let status = status?;
    if network.is_impaired() {
        report(arguments, &journal?)?;
    }
    Ok(code(status))
}

/// The servers, then the command.
fn command(
    arguments: &NetnsArgs,
    network: &Network,
    signals: Signals,
) -> Result<ExitStatus, Box<dyn Error>> {
    let _servers = Servers(vec![
        arguments
            .netserver
            .as_ref()
            .map(|program| host::netserver(&network.server, program))
            .transpose()?,
        arguments
            .serve
            .as_ref()
            .map(|line| host::serve(&network.server, line))
            .transpose()?,
    ]);
    if let Some(port) = arguments.await_port {
        host::await_port(&network.server, port, None)?;
    }

    let (program, words) = arguments.command.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command
        .args(words)
        .env("LAB_CLIENT", lab::CLIENT)
        .env("LAB_SERVER", lab::SERVER)
        .env("LAB_CLIENT_NET", network.client.path())
        .env("LAB_SERVER_NET", network.server.path());
    if arguments.ipv6 {
        command
            .env("LAB_CLIENT6", lab::CLIENT6)
            .env("LAB_SERVER6", lab::SERVER6);
    }
    let mut child = host::on(&network.client, &command).spawn()?;
    let handle = pass_on(signals, &child);
    let status = child.wait()?;
    handle.close();
    Ok(status)
}

/// Hands signals to the command. What comes from a terminal it has got itself.
fn pass_on(mut signals: Signals, child: &Child) -> signal_hook::iterator::Handle {
    let handle = signals.handle();
    let pid = Pid::from_child(child);
    let at_a_terminal = std::io::stdin().is_terminal();
    thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGINT && at_a_terminal {
                continue;
            }
            let signal = match signal {
                SIGINT => Signal::INT,
                SIGHUP => Signal::HUP,
                _ => Signal::TERM,
            };
            // It may just have ended.
            let _ = kill_process(pid, signal);
        }
    });
    handle
}

/// Killed when the command has ended.
struct Servers(Vec<Option<Child>>);

impl Drop for Servers {
    fn drop(&mut self) {
        for child in self.0.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn report(arguments: &NetnsArgs, journal: &Journal) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &arguments.summary {
        let text = format!("{:#}\n", journal.json());
        WholeFile::begin(path)
            .and_then(|file| file.write(text.as_bytes()))
            .map_err(|error| format!("{}: {}", path.display(), sys::describe(&error)))?;
    }
    if !arguments.quiet {
        eprint!("{}", journal.text());
    }
    Ok(())
}

/// As a shell has it.
fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}
