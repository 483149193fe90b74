//! A master that asks for files, as none that reads a profile does: it gets those below `--allow-dir`.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;

use uperf::slave::{ServedFiles, SlaveConfig};
use uperf::wire::{MasterCommand, Text, WorkRecords};
use uperf::{DataProtocol, FlowopKind, TransactionSpec};

use super::{Master, connect, read, serving, work};

#[test]
fn files_are_sent_from_below_an_allowed_directory_alone() {
    let outside = tempfile::tempdir().expect("a directory");
    let allowed = outside.path().join("allowed");
    fs::create_dir_all(allowed.join("below")).expect("ours");
    fs::write(allowed.join("below/file"), "twelve bytes").expect("ours");
    fs::write(outside.path().join("secret"), "no").expect("ours");
    std::os::unix::fs::symlink(outside.path(), allowed.join("link")).expect("ours");

    let with = SlaveConfig {
        served_files: Arc::new(ServedFiles::open(from_ref(&allowed)).expect("it is there")),
        ..SlaveConfig::default()
    };
    serving(with, |port| {
        let below = asked(port, &allowed.join("below"));
        assert_eq!(below, Ok("twelve bytes".repeat(3)));
        for refused in ["..", "link", "below/../../allowed/../", "/"] {
            let why = asked(port, &allowed.join(refused)).expect_err(refused);
            let expected = "it is not below a directory of --allow-dir";
            assert!(why.ends_with(expected), "{refused}: {why}");
        }
    });
    serving(SlaveConfig::default(), |port| {
        assert!(asked(port, &allowed.join("below")).is_err());
    });
}

/// What a slave sends when it is asked for the files of a directory, three times; or why it does not.
fn asked(port: u16, directory: &Path) -> Result<String, String> {
    let mut master = Master::begin(port, DataProtocol::Tcp, &sends_files(directory))?;
    let mut data = TcpStream::connect(("127.0.0.1", master.data)).expect("it listens");
    master.command(MasterCommand::NextTransaction(0));
    let mut text = [0; 36];
    data.read_exact(&mut text).expect("three times twelve");
    let goodbye = master.goodbye();
    // An accept, three files, and the end of the strand.
    assert_eq!((goodbye.bytes, goodbye.operations), (36, 5));
    Ok(String::from_utf8(text.to_vec()).expect("letters"))
}

/// One that no profile comes to: accept, and then send files.
fn sends_files(directory: &Path) -> WorkRecords {
    let mut three = read(12);
    three.count = 3;
    let mut work = work(vec![TransactionSpec {
        iterations: 1,
        flowops: vec![connect(DataProtocol::Tcp), three],
        ..TransactionSpec::default()
    }]);
    let send = &mut work.transactions[0].flowops[1];
    send.kind = FlowopKind::Sendfile as u32;
    send.size = 0;
    send.directory = Text::truncated(directory.to_str().expect("UTF-8"));
    work
}
