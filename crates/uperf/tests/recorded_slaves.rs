//! The master against recorded stock slaves: what it says is what the recorded master said.

#[expect(dead_code, reason = "only the test of the transcripts needs all of it")]
mod data;
mod peer;

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::thread;

use data::{Recording, Sender, recordings};
use engine::Stop;
use peer::{Script, play, play_whole};
use uperf::options::{self, Role, Settings};
use uperf::output::Width;
use uperf::profile::{ProfileContext, ProfileSource, parse};
use uperf::wire::{Endian, Phase1Answer, Phase2Answer};

/// Recordings that cannot be played against this master, and why.
const NOT_HERE: [(&str, &str); 6] = [
    ("all-options", "the recorded master was killed on its way"),
    ("refused-version", "this master says another version"),
    ("two-hosts-failing", "this master does not fail"),
    ("abort-by-master", "the recorded master fails by itself"),
    ("big-endian-master", "this master is none"),
    ("rand-udp", "the size of a random one is its largest here"),
];

#[test]
fn the_master_says_what_the_recorded_one_said() {
    // Profiles name this directory.
    let directory = tempfile::tempdir().expect("a directory");
    let files = directory.path().join("sf");
    fs::create_dir(&files).expect("it is ours");
    fs::write(files.join("f"), vec![7; 65_536]).expect("it is ours");
    env::set_current_dir(directory.path()).expect("it is there");

    let recordings = recordings();
    let here = recordings
        .iter()
        .filter(|recording| NOT_HERE.iter().all(|(name, _)| *name != recording.name));
    let differences: Vec<String> = thread::scope(|scope| {
        let played: Vec<_> = here
            .map(|recording| scope.spawn(|| run(recording)))
            .collect();
        assert!(played.len() >= 14, "{} recordings", played.len());
        let played = played.into_iter().map(|one| one.join().expect("no panic"));
        played.flatten().collect()
    });
    assert_eq!(differences, Vec::<String>::new());
}

/// Runs the recorded profile with the recorded slaves; where they differ.
fn run(recording: &Recording) -> Vec<String> {
    let listeners = listeners(recording);
    let control = port(&listeners[0].1);
    thread::scope(|scope| {
        let master = scope.spawn(move || master(recording, control));
        let slaves = recording
            .hosts
            .iter()
            .enumerate()
            .map(|(connection, host)| {
                let host: IpAddr = host.parse().expect("an address");
                let (_, listener) = listeners
                    .iter()
                    .find(|(known, _)| *known == host)
                    .expect("it listens");
                let (stream, _) = listener.accept().expect("a master");
                scope.spawn(move || slave(recording, connection, &stream))
            });
        // All of them are connected before the first is spoken to.
        let slaves: Vec<_> = slaves.collect();
        for (_, listener) in &listeners {
            let listener = listener.try_clone().expect("a descriptor");
            let flowop = recording.layout.record_len();
            // It waits for connections to the end of the process.
            thread::spawn(move || answer_probes(&listener, flowop));
        }
        let slaves = slaves.into_iter().map(|one| one.join().expect("no panic"));
        let mut differences: Vec<String> = slaves.flatten().collect();
        let said = master.join().expect("no panic");
        if !differences.is_empty() {
            differences.push(said);
        }
        differences
    })
}

/// One listener for each host of the recording, all at one port.
///
/// Another program may hold that port at one of the addresses: then another port serves.
fn listeners(recording: &Recording) -> Vec<(IpAddr, TcpListener)> {
    let hosts = recording.hosts.iter();
    let mut hosts: Vec<IpAddr> = hosts
        .map(|host| host.parse().expect("an address"))
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    let bind_all = || -> io::Result<Vec<_>> {
        let mut free = 0;
        let mut listeners = Vec::new();
        for host in &hosts {
            let listener = TcpListener::bind((*host, free))?;
            free = port(&listener);
            listeners.push((*host, listener));
        }
        Ok(listeners)
    };
    let mut tries = (0..100).map(|_| bind_all());
    tries
        .find_map(Result::ok)
        .expect("a port that is free at each address")
}

/// What the master finds out the layout with: a slave answers a workorder when it has all of it.
fn answer_probes(listener: &TcpListener, flowop: usize) {
    while let Ok((mut control, _)) = listener.accept() {
        let mut hello = [0; 352];
        let mut work = vec![0; 352 + 24 + 168 + flowop];
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

fn slave(recording: &Recording, connection: usize, stream: &TcpStream) -> Option<String> {
    let played = if recording.workorder(connection).is_some() && recording.name != "refused-port" {
        play_whole(recording, connection, Sender::Slave, stream)
    } else {
        play(&Script::new(recording, connection), Sender::Slave, stream)
    };
    played.err().map(|difference| difference.to_string())
}

/// The master's own words.
fn master(recording: &Recording, control: u16) -> String {
    let words = recording.master.split(' ');
    let options = words.skip_while(|word| *word != "uperf").skip(1);
    let control = control.to_string();
    let args = ["-P", &control].into_iter().chain(options);
    let settings: Settings = options::uperf("uperf", args.map(Into::into)).expect("good options");
    let Role::Master(master) = &settings.role else {
        panic!("no master: {settings:?}");
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
    let workorder = parsed.workorder.expect("a profile");
    let mut out = Vec::new();
    let stop = Stop::new();
    let width = Width::for_terminal(None);
    let finished = uperf::run(&settings, master, &workorder, width, &stop, &mut out);
    let code = finished.code;
    format!("{code}: {}", String::from_utf8_lossy(&out))
}

fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("it is bound").port()
}
