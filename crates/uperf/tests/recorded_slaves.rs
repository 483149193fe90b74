//! Plays recorded stock slaves against the master. Its messages must match the recorded master.

#[expect(dead_code, reason = "each test program uses only a part of it")]
mod data;
mod peer;

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::thread;

use data::{Recording, Sender, recordings};
use engine::Stop;
use peer::{Script, play, play_with_data};
use uperf::options::{self, Role, Settings};
use uperf::output::Width;
use uperf::profile::{ProfileContext, ProfileSource, parse};
use uperf::wire::{Endian, Phase1Answer, Phase2Answer};

/// Recordings that cannot be played against this master, with the reason.
const SKIPPED: [(&str, &str); 6] = [
    (
        "all-options",
        "the recorded master was killed during the run",
    ),
    ("refused-version", "this master sends another version"),
    ("two-hosts-failing", "this master does not fail"),
    ("abort-by-master", "the recorded master fails on its own"),
    ("big-endian-master", "this master is little-endian"),
    (
        "rand-udp",
        "this master sends the maximum as the size of a random transfer",
    ),
];

#[test]
fn master_sends_recorded_messages() {
    // The profiles name the directory `sf`.
    let directory = tempfile::tempdir().expect("the directory is created");
    let files = directory.path().join("sf");
    fs::create_dir(&files).expect("the directory is writable");
    fs::write(files.join("f"), vec![7; 65_536]).expect("the directory is writable");
    env::set_current_dir(directory.path()).expect("the directory exists");

    let recordings = recordings();
    let played_recordings = recordings
        .iter()
        .filter(|recording| SKIPPED.iter().all(|(name, _)| *name != recording.name));
    let differences: Vec<String> = thread::scope(|scope| {
        let runs: Vec<_> = played_recordings
            .map(|recording| scope.spawn(|| run(recording)))
            .collect();
        assert!(runs.len() >= 14, "{} recordings played", runs.len());
        let differences = runs.into_iter().map(|run| run.join().expect("no panic"));
        differences.flatten().collect()
    });
    assert_eq!(differences, Vec::<String>::new());
}

/// Runs the recorded profile with the recorded slaves. Returns the differences.
fn run(recording: &Recording) -> Vec<String> {
    let listeners = bind_listeners(recording);
    let control = local_port(&listeners[0].1);
    thread::scope(|scope| {
        let master = scope.spawn(move || run_master(recording, control));
        let slaves = recording
            .hosts
            .iter()
            .enumerate()
            .map(|(connection, host)| {
                let host: IpAddr = host.parse().expect("the host is an address");
                let (_, listener) = listeners
                    .iter()
                    .find(|(address, _)| *address == host)
                    .expect("the host has a listener");
                let (stream, _) = listener.accept().expect("the master connects");
                scope.spawn(move || play_slave(recording, connection, &stream))
            });
        // The master connects to all slaves before it sends its first message.
        let slaves: Vec<_> = slaves.collect();
        for (_, listener) in &listeners {
            let listener = listener.try_clone().expect("a descriptor is free");
            let flowop_len = recording.layout.record_len();
            // The thread accepts connections until the process ends.
            thread::spawn(move || answer_probes(&listener, flowop_len));
        }
        let slaves = slaves
            .into_iter()
            .map(|slave| slave.join().expect("no panic"));
        let mut differences: Vec<String> = slaves.flatten().collect();
        let master_result = master.join().expect("no panic");
        if !differences.is_empty() {
            differences.push(master_result);
        }
        differences
    })
}

/// Binds one listener per host of the recording, all at the same port.
///
/// Tries another port if one of the addresses already uses it.
fn bind_listeners(recording: &Recording) -> Vec<(IpAddr, TcpListener)> {
    let hosts = recording.hosts.iter();
    let mut hosts: Vec<IpAddr> = hosts
        .map(|host| host.parse().expect("the host is an address"))
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    let bind_all = || -> io::Result<Vec<_>> {
        let mut port = 0;
        let mut listeners = Vec::new();
        for host in &hosts {
            let listener = TcpListener::bind((*host, port))?;
            port = local_port(&listener);
            listeners.push((*host, listener));
        }
        Ok(listeners)
    };
    let mut attempts = (0..100).map(|_| bind_all());
    attempts
        .find_map(Result::ok)
        .expect("a port is free at each address")
}

/// Answers the master's layout probes. A slave answers a workorder when it is complete.
fn answer_probes(listener: &TcpListener, flowop_len: usize) {
    while let Ok((mut control, _)) = listener.accept() {
        let mut hello = [0; 352];
        let mut work = vec![0; 352 + 24 + 168 + flowop_len];
        let answered = control
            .read_exact(&mut hello)
            .and_then(|()| control.write_all(&Phase1Answer::Ok.encode()))
            .and_then(|()| control.read_exact(&mut work));
        if answered.is_ok() {
            let ok = Phase2Answer::Ok { slave_infos: 0 };
            let _ = control.write_all(&ok.encode(Endian::NATIVE));
        }
    }
}

/// Returns the first difference from the recording.
fn play_slave(recording: &Recording, connection: usize, stream: &TcpStream) -> Option<String> {
    let played = if recording.workorder(connection).is_some() && recording.name != "refused-port" {
        play_with_data(recording, connection, Sender::Slave, stream)
    } else {
        play(&Script::new(recording, connection), Sender::Slave, stream)
    };
    played.err().map(|difference| difference.to_string())
}

/// Runs the master. Returns its exit code and output.
fn run_master(recording: &Recording, control: u16) -> String {
    let arguments = recording.master.split(' ');
    let options = arguments.skip_while(|word| *word != "uperf").skip(1);
    let control = control.to_string();
    let args = ["-P", &control].into_iter().chain(options);
    let settings: Settings =
        options::uperf("uperf", args.map(Into::into)).expect("the options are valid");
    let Role::Master(master) = &settings.role else {
        panic!("not a master: {settings:?}");
    };
    let environment = |name: &str| recording.environment(name);
    let source = ProfileSource {
        name: recording.name,
        bytes: recording.profile.as_bytes(),
    };
    let context = ProfileContext {
        environment: &environment,
        directory: &|_| Ok(()),
    };
    let parsed = parse(&source, &context);
    let workorder = parsed.workorder.expect("the profile is valid");
    let mut output = Vec::new();
    let stop = Stop::new();
    let width = Width::for_terminal(None);
    let finished = uperf::run(&settings, master, &workorder, width, &stop, &mut output);
    let code = finished.code;
    format!("{code}: {}", String::from_utf8_lossy(&output))
}

fn local_port(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("the listener is bound").port()
}
