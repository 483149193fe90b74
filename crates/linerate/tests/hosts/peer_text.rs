//! linerate escapes the text of peers, so that it cannot control the terminal or forge a line.

use std::io::{Read, Write};

use testkit::Requirement::Namespaces;
use testkit::{Profile, TestCase, test_case};
use uperf::DataProtocol;
use uperf::wire::{Endian, Goodbye, Phase1Answer, Phase2Answer, Text};

use super::network::{Hosts, SHORT_TIMEOUT};
use super::scripted::{Master, Slave, work_records};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "peer_text::escapes_text_of_slave",
            &[Namespaces],
            escapes_text_of_slave,
        ),
        test_case(
            "peer_text::refuses_and_escapes_text_of_master",
            &[Namespaces],
            refuses_and_escapes_text_of_master,
        ),
    ]
}

/// Sets the clipboard (OSC 52), clears the screen (CSI of 7 and of 8 bits), reverses the direction
/// of the text, and imitates a line of linerate.
const HOSTILE_TEXT: &str =
    "\u{1b}]52;c;eA==\u{7}\u{1b}[2J\u{9b}2J\u{202e}x\r\u{8}\nuperf: all is well";

/// [`HOSTILE_TEXT`] up to the end of the line, as linerate prints it.
const ESCAPED_TEXT: &str = r"\x1b]52;c;eA==\x07\x1b[2J\u{9b}2J\u{202e}x\r\x08";

fn profile() -> String {
    Profile::new("words")
        .group("nthreads=1")
        .single_flowop("accept remotehost=198.18.0.2 protocol=tcp")
        .text()
}

/// The message of a slave that contains text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlaveMessage {
    Phase1,
    Phase2,
    Goodbye,
}

fn escapes_text_of_slave() {
    for message in [
        SlaveMessage::Phase1,
        SlaveMessage::Phase2,
        SlaveMessage::Goodbye,
    ] {
        for options in ["-v", "--json -v"] {
            let hosts = Hosts::new(1);
            let slave = hosts.slaves[0].enter(Slave::listen);
            let output = std::thread::scope(|scope| {
                scope.spawn(|| hosts.slaves[0].enter(|| send_text(&slave, message)));
                hosts
                    .start_master(options, &profile())
                    .finish_within(SHORT_TIMEOUT)
            });
            assert_eq!(output.code, Some(1), "{message:?}: {output:#?}");
            for text in [&output.stdout, &output.stderr] {
                assert_harmless(text);
            }
            let printed = output.stdout + &output.stderr;
            // JSON escapes the backslashes.
            let expected = [ESCAPED_TEXT.to_owned(), ESCAPED_TEXT.replace('\\', r"\\")];
            assert!(
                expected.iter().any(|expected| printed.contains(expected)),
                "{message:?}: {printed}"
            );
        }
    }
}

fn send_text(slave: &Slave, message: SlaveMessage) {
    let mut control = match message {
        SlaveMessage::Phase1 => {
            let mut control = slave.accept();
            let refused = Phase1Answer::Refused(Text::new(HOSTILE_TEXT));
            control
                .write_all(&refused.encode())
                .expect("the master reads");
            control
        }
        SlaveMessage::Phase2 => {
            let mut control = slave.accept();
            control
                .write_all(&Phase1Answer::linerate_ok())
                .expect("the master reads");
            let refused = Phase2Answer::Refused(Text::new(HOSTILE_TEXT));
            let refused = refused.encode(Endian::NATIVE);
            control.write_all(&refused).expect("the master reads");
            control
        }
        SlaveMessage::Goodbye => {
            let (mut control, _) = slave.serve_handshake(&profile());
            let goodbye = Goodbye {
                kind: Goodbye::ERROR,
                message: Text::new(HOSTILE_TEXT),
                ..Goodbye::default()
            };
            let goodbye = goodbye.encode(Endian::NATIVE);
            control.write_all(&goodbye).expect("the master reads");
            control
        }
    };
    let _ = control.read_to_end(&mut Vec::new());
}

fn refuses_and_escapes_text_of_master() {
    let hosts = Hosts::new(1);
    let slave = hosts.start_slave(0, "-v");
    for field in 0..3 {
        let refused = hosts.master.enter(|| {
            let mut master = Master::connect();
            master.exchange_phase_1(&[DataProtocol::Tcp]);
            let mut work = work_records(&profile());
            let flowop = &mut work.transactions[0].flowops[0];
            match field {
                0 => flowop.engine = Text::new(HOSTILE_TEXT),
                1 => flowop.stack = Text::new(HOSTILE_TEXT),
                _ => flowop.congestion_control = Text::new(HOSTILE_TEXT),
            }
            master
                .exchange_phase_2(&work)
                .expect_err("control characters")
        });
        assert!(refused.contains("is not a plain text"), "{refused}");
        assert_harmless(&refused);
    }
    let printed = slave.stdout() + &slave.stderr();
    assert!(printed.contains(r"engine=\x1b]52;c;eA==\x07"), "{printed}");
    assert_harmless(&printed);
}

#[track_caller]
fn assert_harmless(text: &str) {
    for line in text.split(['\n', '\r']) {
        assert!(codec::is_plain(line), "{text:?}");
    }
    assert!(
        !text.contains("\ruperf") && !text.starts_with("uperf: all"),
        "{text:?}"
    );
}
