//! A master that requests files, which no profile can do. The slave sends only files below
//! `--allow-dir`.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;

use uperf::slave::{ServedFiles, SlaveConfig};
use uperf::wire::{MasterCommand, Text, WorkRecords};
use uperf::{DataProtocol, FlowopKind, TransactionSpec};

use super::{Master, connect_flowop, read_flowop, records, with_slave};

#[test]
fn sends_only_files_below_allowed_directories() {
    let outside = tempfile::tempdir().expect("the directory is created");
    let allowed = outside.path().join("allowed");
    fs::create_dir_all(allowed.join("below")).expect("the directory is writable");
    fs::write(allowed.join("below/file"), "twelve bytes").expect("the directory is writable");
    fs::write(outside.path().join("secret"), "no").expect("the directory is writable");
    std::os::unix::fs::symlink(outside.path(), allowed.join("link"))
        .expect("the directory is writable");

    let config = SlaveConfig {
        served_files: Arc::new(
            ServedFiles::open(from_ref(&allowed)).expect("the directory exists"),
        ),
        ..SlaveConfig::default()
    };
    with_slave(config, |port| {
        let received = request_files(port, &allowed.join("below"));
        assert_eq!(received, Ok("twelve bytes".repeat(3)));
        for refused in ["..", "link", "below/../../allowed/../", "/"] {
            let error = request_files(port, &allowed.join(refused)).expect_err(refused);
            let expected = "it is not below a directory of --allow-dir";
            assert!(error.ends_with(expected), "{refused}: {error}");
        }
    });
    with_slave(SlaveConfig::default(), |port| {
        assert!(request_files(port, &allowed.join("below")).is_err());
    });
}

/// Requests the files of a directory three times. Returns the received text, or the reason for a
/// refusal.
fn request_files(port: u16, directory: &Path) -> Result<String, String> {
    let mut master = Master::start(port, DataProtocol::Tcp, &sendfile_work(directory))?;
    let mut data = TcpStream::connect(("127.0.0.1", master.data_port)).expect("the slave listens");
    master.send_command(MasterCommand::NextTransaction(0));
    let mut text = [0; 36];
    data.read_exact(&mut text)
        .expect("the slave sends the file three times");
    let goodbye = master.goodbye();
    // One accept, three files, and the end of the strand.
    assert_eq!((goodbye.bytes, goodbye.operations), (36, 5));
    Ok(String::from_utf8(text.to_vec()).expect("the text is ASCII"))
}

/// Returns work that no profile can express: accept a connection, then send files.
fn sendfile_work(directory: &Path) -> WorkRecords {
    let mut transfer = read_flowop(12);
    transfer.count = 3;
    let mut work = records(vec![TransactionSpec {
        iterations: 1,
        flowops: vec![connect_flowop(DataProtocol::Tcp), transfer],
        ..TransactionSpec::default()
    }]);
    let send = &mut work.transactions[0].flowops[1];
    send.kind = FlowopKind::Sendfile as u32;
    send.size = 0;
    send.directory = Text::truncated(directory.to_str().expect("UTF-8"));
    work
}
