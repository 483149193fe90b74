//! A master that asks for files, as none that reads a profile does: it gets those below `--allow-dir`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use engine::{Reason, Stop};
use uperf::slave::{Shelf, Slave, Terms};
use uperf::wire::{Ack2, Command, END, Goodbye, Header, Layout, Order, SlaveInfo, Text, Version};
use uperf::{Amount, Flowop, Group, Kind, Protocol, Strands, Transaction, mirror};

#[test]
fn files_are_sent_from_below_an_allowed_directory_alone() {
    let outside = tempfile::tempdir().expect("a directory");
    let allowed = outside.path().join("allowed");
    fs::create_dir_all(allowed.join("below")).expect("ours");
    fs::write(allowed.join("below/file"), "twelve bytes").expect("ours");
    fs::write(outside.path().join("secret"), "no").expect("ours");
    std::os::unix::fs::symlink(outside.path(), allowed.join("link")).expect("ours");

    let with = Terms {
        shelf: Arc::new(Shelf::open(from_ref(&allowed)).expect("it is there")),
        ..Terms::default()
    };
    serving(with, |port| {
        let below = asked(port, &allowed.join("below"));
        assert_eq!(below, Ok("twelve bytes".repeat(3)));
        for refused in ["..", "link", "below/../../allowed/../", "/"] {
            let why = asked(port, &allowed.join(refused)).expect_err(refused);
            let expected = "it is below no directory of --allow-dir";
            assert!(why.ends_with(expected), "{refused}: {why}");
        }
    });
    serving(Terms::default(), |port| {
        assert!(asked(port, &allowed.join("below")).is_err());
    });
}

fn serving(terms: Terms, work: impl FnOnce(u16)) {
    let stop = Stop::new();
    let slave = Slave::listen(Protocol::Tcp, 0, terms, stop.clone()).expect("a port");
    let port = u16::try_from(slave.port().expect("it is bound")).expect("a port");
    let serving = thread::spawn(move || slave.serve());
    work(port);
    stop.pull(Reason::Cancelled);
    serving.join().expect("no panic");
}

/// What a slave sends when it is asked for the files of a directory, three times; or why it does not.
fn asked(port: u16, directory: &Path) -> Result<String, String> {
    let mut control = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let patience = Some(Duration::from_secs(10));
    control.set_read_timeout(patience).expect("a time");
    let mut message = Header::of_phase_2(Version::V0_3_1, 0).encode(Order::NATIVE);
    message.extend(workorder(directory));
    control.write_all(&message).expect("it reads");
    if let Ack2::Refused(why) = Ack2::decode(&read(&mut control), Order::NATIVE) {
        return Err(why.to_string());
    }
    let info = SlaveInfo::decode(&read(&mut control), Order::NATIVE);
    let data = u16::try_from(info.port(Protocol::Tcp).expect("a port")).expect("a port");
    control.write_all(&END).expect("it reads");
    let _: [u8; END.len()] = read(&mut control);
    let mut data = TcpStream::connect(("127.0.0.1", data)).expect("it listens");
    let tell = |command: Command| {
        let bytes = command.encode(Order::NATIVE);
        (&control).write_all(&bytes).expect("it reads");
    };
    tell(Command::NextTransaction(0));
    let mut text = [0; 36];
    data.read_exact(&mut text).expect("three times twelve");
    tell(Command::SendStatistics);
    let goodbye = Goodbye::decode(&read(&mut control), Order::NATIVE).expect("a goodbye");
    // An accept, three files, and the end of the strand.
    assert_eq!((goodbye.bytes, goodbye.operations), (36, 5));
    Ok(String::from_utf8(text.to_vec()).expect("letters"))
}

/// One that no profile comes to: accept, and then send files.
fn workorder(directory: &Path) -> Vec<u8> {
    let mut connect = Flowop::new(Kind::Connect);
    connect.endpoint.protocol = Some(Protocol::Tcp);
    "127.0.0.1".clone_into(&mut connect.endpoint.remote_host);
    let mut read = Flowop::new(Kind::Read);
    read.size = Amount::Exactly(12);
    read.count = 3;
    let group = Group {
        strands: Strands {
            count: 1,
            threads: true,
            processes: false,
        },
        transactions: vec![Transaction {
            iterations: 1,
            flowops: vec![connect, read],
            ..Transaction::default()
        }],
        ..Group::default()
    };
    let mut work = mirror::work(&group, "127.0.0.1").expect("it fits");
    let send = &mut work.transactions[0].flowops[1];
    send.kind = Kind::Sendfile as u32;
    send.size = 0;
    send.directory = Text::cut(directory.to_str().expect("UTF-8"));
    work.encode(Layout::BatchSize, Order::NATIVE)
}

fn read<const N: usize>(control: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    control.read_exact(&mut bytes).expect("an answer");
    bytes
}
