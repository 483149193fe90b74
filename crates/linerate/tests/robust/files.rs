//! Files on the server that a client names (`-F ,FILE`): below a directory of `--allow-fill-dir`, opened
//! once, and nothing but regular files.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use netperf::wire::{OMNI, Request, TestRequest, Text};
use testkit::{
    Server, TestCase, free_port, is_listening, linerate_with_args, run, short_directory, test_case,
};

use super::lifecycle::Daemon;
use super::raw::{Finally, Kind, Raw, data_connection};

/// errno(3).
const EACCES: i32 = 13;

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("files::a_relative_directory", &[], relative_directory),
        test_case("files::no_directory", &[], no_directory),
        test_case("files::a_fifo_or_a_device", &[], fifo_or_device),
        test_case("files::a_file_that_becomes_a_link", &[], becomes_a_link),
    ]
}

fn filled_from(path: &Path) -> TestRequest {
    TestRequest {
        fill_file: Text::new(path.as_os_str().as_encoded_bytes()),
        ..Kind::TcpMaerts.request(1)
    }
}

/// The error number, if the server refuses to send this file.
fn refusal(port: u16, path: &Path) -> Option<i32> {
    let mut raw = Raw::connect(port);
    raw.send(&Request::Omni(filled_from(path)));
    raw.refusal().ok()
}

/// The first bytes that the server sends if it may fill its buffers from this file.
fn sent(port: u16, path: &Path) -> [u8; 4] {
    let mut raw = Raw::connect(port);
    let mut data = data_connection(raw.ask(&filled_from(path)));
    let mut seen = [0; 4];
    data.read_exact(&mut seen).expect("the server sends");
    seen
}

/// A daemon works in `/`, but an option means what it meant when it was typed.
fn relative_directory() {
    let allowed = short_directory();
    std::fs::write(allowed.path().join("f"), "mine").expect("a new directory");
    let port = free_port();
    let mut command = linerate_with_args(&format!("netserver -p {port} --allow-fill-dir ."));
    command.current_dir(allowed.path());
    let started = run(command, Duration::from_secs(5)).expect("it goes to the background");
    started.assert_success();
    let _daemon = Daemon::find(&["netserver", "-p", &port.to_string()]);
    assert!(is_listening(port));
    assert_eq!(refusal(port, Path::new("/etc/passwd")), Some(EACCES));
    assert_eq!(sent(port, &allowed.path().join("f")), *b"mine");
}

fn no_directory() {
    let port = free_port();
    let line = format!("netserver -D -p {port} --allow-fill-dir /no/such/directory");
    let ended = run(linerate_with_args(&line), Duration::from_secs(5)).expect("it ends");
    let expected = "netserver: --allow-fill-dir /no/such/directory: No such file or directory";
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert_eq!(ended.stderr.trim_end(), expected);
}

/// To open a FIFO waits for its writer, for ever.
fn fifo_or_device() {
    let allowed = short_directory();
    let fifo = allowed.path().join("fifo");
    let mut mkfifo = Command::new("mkfifo");
    mkfifo.arg(&fifo);
    run(mkfifo, Duration::from_secs(5))
        .expect("it ends")
        .assert_success();
    symlink("/dev/zero", allowed.path().join("zero")).expect("a new directory");
    let server = Server::start(&format!("--allow-fill-dir {}", allowed.path().display()));
    let rest = server.idle_usage();
    for _ in 0..8 {
        assert_eq!(refusal(server.port, &fifo), Some(EACCES));
    }
    assert_eq!(
        refusal(server.port, &allowed.path().join("zero")),
        Some(EACCES)
    );
    server.assert_usage_returns_to(rest, Duration::from_secs(5), "a FIFO");
    drop(server);
    let devices = Server::start("--allow-fill-dir /dev");
    assert_eq!(refusal(devices.port, Path::new("/dev/zero")), Some(EACCES));
}

/// While the name goes back and forth between a file and a link to one that must not be read, only the
/// file is ever sent.
fn becomes_a_link() {
    let (allowed, outside) = (short_directory(), short_directory());
    let [name, file, link] = ["f", "file", "link"].map(|name| allowed.path().join(name));
    std::fs::write(outside.path().join("s"), "them").expect("a new directory");
    std::fs::write(&file, "mine").expect("a new directory");
    let server = Server::start(&format!("--allow-fill-dir {}", allowed.path().display()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                // Each takes the place of what had the name.
                let _ = std::fs::hard_link(&file, &link);
                let _ = std::fs::rename(&link, &name);
                let _ = symlink(outside.path().join("s"), &link);
                let _ = std::fs::rename(&link, &name);
            }
        });
        let _ends = Finally(&done);
        let until = Instant::now() + Duration::from_secs(3);
        let mut sent_at_all = 0;
        for _ in 0..2000 {
            if Instant::now() > until {
                break;
            }
            let mut raw = Raw::connect(server.port);
            raw.send(&Request::Omni(filled_from(&name)));
            let answer = raw.receive().expect("an answer");
            let Ok(response) = OMNI.parse_response(&answer) else {
                continue;
            };
            let mut data = data_connection(response.data_port as u16);
            let mut seen = [0; 4];
            data.read_exact(&mut seen).expect("the server sends");
            assert_eq!(&seen, b"mine", "after {sent_at_all} others");
            sent_at_all += 1;
        }
        assert!(sent_at_all > 0, "the file was never found");
    });
}
