//! Fill files on the server (`-F ,FILE`): the server opens only regular files below a directory of
//! `--allow-fill-dir`, and opens them once.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use netperf::wire::{OMNI, Request, TestRequest, Text};
use testkit::{
    Server, TestCase, free_port, is_listening, linerate_with_args, run, short_path_dir, with_prefix,
};

use super::lifecycle::Daemon;
use super::raw::{RawClient, SetOnDrop, TestKind, data_connection};

/// errno(3).
const EACCES: i32 = 13;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        resolves_relative_directory,
        rejects_missing_directory,
        refuses_fifo_and_device,
        refuses_file_replaced_by_link,
    ];
    with_prefix("files", test_cases).collect()
}

fn fill_file_request(path: &Path) -> TestRequest {
    TestRequest {
        fill_file: Text::new(path.as_os_str().as_encoded_bytes()),
        ..TestKind::TcpMaerts.request(1)
    }
}

/// Returns the error number if the server refuses the file.
fn fill_file_error(port: u16, path: &Path) -> Option<i32> {
    let mut raw = RawClient::connect(port);
    raw.send(&Request::Omni(fill_file_request(path)));
    raw.receive_refusal().ok()
}

/// Returns the first bytes that the server sends from buffers filled from this file.
fn first_bytes(port: u16, path: &Path) -> [u8; 4] {
    let mut raw = RawClient::connect(port);
    let mut data = data_connection(raw.request_test(&fill_file_request(path)));
    let mut seen = [0; 4];
    data.read_exact(&mut seen).expect("the server sends");
    seen
}

/// A daemon works in `/`, but resolves options against the directory that it was started in.
fn resolves_relative_directory() {
    let allowed = short_path_dir();
    std::fs::write(allowed.path().join("f"), "mine").expect("the directory is writable");
    let port = free_port();
    let mut command = linerate_with_args(&format!("netserver -p {port} --allow-fill-dir ."));
    command.current_dir(allowed.path());
    run(command, Duration::from_secs(5))
        .expect("the process ends")
        .assert_success();
    let _daemon = Daemon::find(&["netserver", "-p", &port.to_string()]);
    assert!(is_listening(port));
    assert_eq!(
        fill_file_error(port, Path::new("/etc/passwd")),
        Some(EACCES)
    );
    assert_eq!(first_bytes(port, &allowed.path().join("f")), *b"mine");
}

fn rejects_missing_directory() {
    let port = free_port();
    let line = format!("netserver -D -p {port} --allow-fill-dir /no/such/directory");
    let output = run(linerate_with_args(&line), Duration::from_secs(5)).expect("the process ends");
    let expected = "netserver: --allow-fill-dir /no/such/directory: No such file or directory";
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert_eq!(output.stderr.trim_end(), expected);
}

/// To open a FIFO blocks until it has a writer.
fn refuses_fifo_and_device() {
    let allowed = short_path_dir();
    let fifo = allowed.path().join("fifo");
    let mut mkfifo = Command::new("mkfifo");
    mkfifo.arg(&fifo);
    run(mkfifo, Duration::from_secs(5))
        .expect("the process ends")
        .assert_success();
    symlink("/dev/zero", allowed.path().join("zero")).expect("the directory is writable");
    let server = Server::start(&format!("--allow-fill-dir {}", allowed.path().display()));
    let idle_usage = server.idle_usage();
    for _ in 0..8 {
        assert_eq!(fill_file_error(server.port, &fifo), Some(EACCES));
    }
    assert_eq!(
        fill_file_error(server.port, &allowed.path().join("zero")),
        Some(EACCES)
    );
    server.assert_usage_returns_to(idle_usage, Duration::from_secs(5), "a FIFO");
    drop(server);
    let devices = Server::start("--allow-fill-dir /dev");
    assert_eq!(
        fill_file_error(devices.port, Path::new("/dev/zero")),
        Some(EACCES)
    );
}

/// The server sends only the permitted file while its name alternates between that file and a link
/// to a forbidden one.
fn refuses_file_replaced_by_link() {
    let (allowed, outside) = (short_path_dir(), short_path_dir());
    let [name, file, link] = ["f", "file", "link"].map(|name| allowed.path().join(name));
    std::fs::write(outside.path().join("s"), "them").expect("the directory is writable");
    std::fs::write(&file, "mine").expect("the directory is writable");
    let server = Server::start(&format!("--allow-fill-dir {}", allowed.path().display()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                // Each rename replaces the previous file or link.
                let _ = std::fs::hard_link(&file, &link);
                let _ = std::fs::rename(&link, &name);
                let _ = symlink(outside.path().join("s"), &link);
                let _ = std::fs::rename(&link, &name);
            }
        });
        let _done_setter = SetOnDrop(&done);
        let deadline = Instant::now() + Duration::from_secs(3);
        let mut times_sent = 0;
        for _ in 0..2000 {
            if Instant::now() > deadline {
                break;
            }
            let mut raw = RawClient::connect(server.port);
            raw.send(&Request::Omni(fill_file_request(&name)));
            let answer = raw.receive().expect("the server responds");
            let Ok(response) = OMNI.parse_response(&answer) else {
                continue;
            };
            let mut data = data_connection(response.data_port as u16);
            let mut seen = [0; 4];
            data.read_exact(&mut seen).expect("the server sends");
            assert_eq!(&seen, b"mine", "after {times_sent} others");
            times_sent += 1;
        }
        assert!(times_sent > 0, "the server never sent the file");
    });
}
