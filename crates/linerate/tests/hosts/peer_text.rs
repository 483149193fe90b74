//! What a peer says is printed, and moves no cursor, sets no clipboard and begins no line of its own.

use std::io::{Read, Write};

use testkit::Requirement::Namespaces;
use testkit::{Profile, TestCase, test_case};
use uperf::DataProtocol;
use uperf::wire::{Endian, Goodbye, Phase1Answer, Phase2Answer, Text};

use super::ground::{Hosts, SOON};
use super::scripted::{Master, Slave, work};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("words::of_a_slave", &[Namespaces], of_a_slave),
        test_case("words::of_a_master", &[Namespaces], of_a_master),
    ]
}

/// A clipboard (OSC 52), a screen (CSI, of eight bits, too), another direction, a line that looks like ours.
const WORDS: &str = "\u{1b}]52;c;eA==\u{7}\u{1b}[2J\u{9b}2J\u{202e}x\r\u{8}\nuperf: all is well";

/// As it is printed.
const SHOWN: &str = r"\x1b]52;c;eA==\x07\x1b[2J\u{9b}2J\u{202e}x\r\x08";

fn profile() -> String {
    Profile::new("words")
        .group("nthreads=1")
        .single_flowop("accept remotehost=198.18.0.2 protocol=tcp")
        .text()
}

/// Where a slave has something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Phase1,
    Phase2,
    Goodbye,
}

fn of_a_slave() {
    for place in [Place::Phase1, Place::Phase2, Place::Goodbye] {
        for options in ["-v", "--json -v"] {
            let hosts = Hosts::new(1);
            let slave = hosts.slaves[0].enter(Slave::listen);
            let ended = std::thread::scope(|scope| {
                scope.spawn(|| hosts.slaves[0].enter(|| say(&slave, place)));
                hosts.run(options, &profile()).finish_within(SOON)
            });
            assert_eq!(ended.code, Some(1), "{place:?}: {ended:#?}");
            for text in [&ended.stdout, &ended.stderr] {
                is_harmless(text);
            }
            let said = ended.stdout + &ended.stderr;
            // In a document a backslash is two.
            let shown = [SHOWN.to_owned(), SHOWN.replace('\\', r"\\")];
            assert!(
                shown.iter().any(|shown| said.contains(shown)),
                "{place:?}: {said}"
            );
        }
    }
}

fn say(slave: &Slave, place: Place) {
    let mut answer = match place {
        Place::Phase1 => {
            let mut control = slave.accept();
            let refused = Phase1Answer::Refused(Text::new(WORDS));
            control.write_all(&refused.encode()).expect("it listens");
            control
        }
        Place::Phase2 => {
            let mut control = slave.accept();
            control
                .write_all(&Phase1Answer::linerate_ok())
                .expect("it listens");
            let refused = Phase2Answer::Refused(Text::new(WORDS));
            let refused = refused.encode(Endian::NATIVE);
            control.write_all(&refused).expect("it listens");
            control
        }
        Place::Goodbye => {
            let (mut control, _) = slave.serve(&profile());
            let goodbye = Goodbye {
                kind: Goodbye::ERROR,
                message: Text::new(WORDS),
                ..Goodbye::default()
            };
            let goodbye = goodbye.encode(Endian::NATIVE);
            control.write_all(&goodbye).expect("it listens");
            control
        }
    };
    let _ = answer.read_to_end(&mut Vec::new());
}

fn of_a_master() {
    let hosts = Hosts::new(1);
    let slave = hosts.slave(0, "-v");
    for place in 0..3 {
        let refused = hosts.master.enter(|| {
            let mut master = Master::connect();
            master.greet(&[DataProtocol::Tcp]);
            let mut work = work(&profile());
            let flowop = &mut work.transactions[0].flowops[0];
            match place {
                0 => flowop.engine = Text::new(WORDS),
                1 => flowop.stack = Text::new(WORDS),
                _ => flowop.congestion_control = Text::new(WORDS),
            }
            master.assign(&work).expect_err("it is no text")
        });
        assert!(refused.contains("is not a plain text"), "{refused}");
        is_harmless(&refused);
    }
    let said = slave.stdout() + &slave.stderr();
    assert!(said.contains(r"engine=\x1b]52;c;eA==\x07"), "{said}");
    is_harmless(&said);
}

#[track_caller]
fn is_harmless(text: &str) {
    for line in text.split(['\n', '\r']) {
        assert!(codec::is_plain(line), "{text:?}");
    }
    assert!(
        !text.contains("\ruperf") && !text.starts_with("uperf: all"),
        "{text:?}"
    );
}
