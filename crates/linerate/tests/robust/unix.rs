//! Unix domain tests: each side removes its sockets, and the server uses only sockets of its
//! client.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use netperf::wire::{Classic, Request, TestRequest};
use rustix::process::Signal;
use testkit::{
    Receive, Requirement, Server, TestCase, TestProcess, copy_linerate, linerate_path,
    linerate_with_args, short_path_dir, wait_until, with_prefix,
};

use super::raw::{RawClient, SetOnDrop};

/// Timeout for a server to detect the end of a connection.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Only root can create a mount namespace or change its user.
const ROOT: Requirement = Requirement::Namespaces;

/// errno(3).
const EACCES: i32 = 13;

const TESTS: [&str; 4] = ["STREAM_STREAM", "STREAM_RR", "DG_STREAM", "DG_RR"];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        dead_clients_leave_no_socket,
        removes_sockets_of_killed_server,
        clients_remove_their_sockets,
        refuses_link,
        ignores_stranger_that_connects_first,
        refuses_invalid_requests,
    ];
    test_cases.extend(testkit::test_cases![
        needing &[ROOT];
        refuses_socket_of_another_user,
        refuses_path_of_another_namespace,
        serves_client_of_another_user,
    ]);
    with_prefix("unix", test_cases).collect()
}

fn start_server(directory: &Path) -> Server {
    Server::start(&format!("--unix-dir {}", directory.display()))
}

fn entry_count(directory: &Path) -> usize {
    directory.read_dir().map_or(0, Iterator::count)
}

#[track_caller]
fn assert_becomes_empty(directory: &Path, event: &str) {
    let is_empty = wait_until(SHORT_TIMEOUT, || entry_count(directory) == 0);
    assert!(is_empty, "{event}: {:?}", directory.read_dir());
}

fn start_client(server: &Server, test: &str, options: &str) -> TestProcess {
    let line = format!(
        "netperf -H 127.0.0.1 -p {} -t {test} -P 0 {options}",
        server.port
    );
    TestProcess::start(&mut linerate_with_args(&line))
}

fn stream_request() -> Request {
    Request::Classic(
        Classic::StreamStream,
        TestRequest {
            test_length: 10,
            ..TestRequest::classic()
        },
    )
}

fn dead_clients_leave_no_socket() {
    let directory = short_path_dir();
    let directory = directory.path();
    let mut server = start_server(directory);
    let idle_usage = server.idle_usage();

    let mut raw = RawClient::connect(server.port);
    raw.send(&stream_request());
    drop(raw);
    server.assert_usage_returns_to(idle_usage, SHORT_TIMEOUT, "a death before the response");
    assert_becomes_empty(directory, "a death before the response");

    let mut raw = RawClient::connect(server.port);
    raw.send(&stream_request());
    let response = raw.receive().expect("the server responds");
    // The server may still have to remove the previous session's socket.
    assert!(wait_until(SHORT_TIMEOUT, || entry_count(directory) == 1));
    drop(raw);
    server.assert_usage_returns_to(idle_usage, SHORT_TIMEOUT, "a death before the data");
    assert_becomes_empty(directory, "a death before the data");

    let mut raw = RawClient::connect(server.port);
    raw.send(&stream_request());
    let second_response = raw.receive().expect("the server responds");
    let path = |frame| {
        let response = Classic::StreamStream
            .messages()
            .parse_response(frame)
            .expect("the test is accepted");
        response.path.0.to_string()
    };
    assert_ne!(path(&response), path(&second_response));
    let data = UnixStream::connect(path(&second_response)).expect("the test receives");
    drop((data, raw));
    server.assert_usage_returns_to(idle_usage, SHORT_TIMEOUT, "a death before the results");
    assert_becomes_empty(directory, "a death before the results");

    for test in TESTS {
        // A killed client leaves its socket in this directory, which is then removed.
        let client_directory = short_path_dir();
        let options = format!("-l 20 -- -p {}", client_directory.path().display());
        let mut client = start_client(&server, test, &options);
        client.wait_for_data_phase();
        assert!(wait_until(SHORT_TIMEOUT, || entry_count(directory) == 1));
        client.signal(Signal::KILL);
        server.assert_usage_returns_to(
            idle_usage,
            SHORT_TIMEOUT,
            &format!("a death in the data, {test}"),
        );
        assert_becomes_empty(directory, test);
    }
    server.assert_serves();
    assert!(server.is_running() && !server.has_panicked());
}

fn removes_sockets_of_killed_server() {
    let directory = short_path_dir();
    let directory = directory.path();
    let server = start_server(directory);
    let mut client = start_client(&server, "STREAM_STREAM", "-l 20");
    client.wait_for_data_phase();
    server.kill_all();
    client.finish(SHORT_TIMEOUT);
    assert_eq!(entry_count(directory), 1);
    drop(server);

    let unrelated = directory.join("unrelated");
    std::fs::create_dir(&unrelated).expect("the directory is writable");
    let server = start_server(directory);
    start_client(&server, "STREAM_RR", "-l -10")
        .finish(SHORT_TIMEOUT)
        .assert_success();
    assert_eq!(entry_count(directory), 1);
    std::fs::remove_dir(unrelated).expect("the directory still exists");

    // A server that ends after SIGTERM removes its own sockets.
    let mut client = start_client(&server, "DG_RR", "-l 20");
    client.wait_for_data_phase();
    server.terminate().assert_success();
    assert_becomes_empty(directory, "the end of the server");
}

fn clients_remove_their_sockets() {
    let (client_directory, server_directory) = (short_path_dir(), short_path_dir());
    let server = start_server(server_directory.path());
    let options = format!("-l 20 -- -p {}", client_directory.path().display());
    for signal in [Signal::INT, Signal::TERM] {
        for test in TESTS {
            let mut client = start_client(&server, test, &options);
            client.wait_for_data_phase();
            assert_eq!(entry_count(client_directory.path()), 1, "{test}");
            client.signal(signal);
            client.finish(SHORT_TIMEOUT);
            assert_becomes_empty(client_directory.path(), test);
        }
    }
    let mut killed = start_client(&server, "DG_RR", &options);
    killed.wait_for_data_phase();
    killed.signal(Signal::KILL);
    drop(killed);
    let options = format!("-l -10 -- -p {}", client_directory.path().display());
    start_client(&server, "DG_RR", &options)
        .finish(SHORT_TIMEOUT)
        .assert_success();
    assert_becomes_empty(client_directory.path(), "a test after a killed client");
}

/// A client cannot use a link to make the server send to another socket.
fn refuses_link() {
    let (server_directory, client_directory) = (short_path_dir(), short_path_dir());
    let server = start_server(server_directory.path());
    let victim = UnixDatagram::bind(client_directory.path().join("victim"))
        .expect("the socket can be bound");
    let name = client_directory.path().join("client");
    let data = UnixDatagram::bind(&name).expect("the socket can be bound");

    let (mut raw, test_path) = request_dg_rr(&server);
    std::fs::rename(&name, client_directory.path().join("moved"))
        .expect("the file system supports renames");
    symlink(client_directory.path().join("victim"), &name).expect("the file system supports links");
    data.send_to(&[1; 10], &test_path)
        .expect("the test receives");
    assert_eq!(raw.receive_refusal(), Ok(EACCES));
    victim
        .set_nonblocking(true)
        .expect("the socket becomes non-blocking");
    assert!(victim.receive(&mut [0; 10]).is_err());
    assert_becomes_empty(server_directory.path(), "a refusal");
}

/// Requests a DG_RR. Returns the path of its socket, too.
fn request_dg_rr(server: &Server) -> (RawClient, String) {
    let mut raw = RawClient::connect(server.port);
    raw.send(&Request::Classic(
        Classic::DgRr,
        TestRequest {
            request_size: 10,
            response_size: 10,
            test_length: 10,
            ..TestRequest::classic()
        },
    ));
    let response = Classic::DgRr
        .messages()
        .parse_response(&raw.receive().expect("the server responds"))
        .expect("the test is accepted");
    (raw, response.path.0.to_string())
}

/// The socket at the sender's path belongs to another user.
fn refuses_socket_of_another_user() {
    let (server_directory, client_directory) = (short_path_dir(), short_path_dir());
    let server = start_server(server_directory.path());
    let name = client_directory.path().join("client");
    let data = UnixDatagram::bind(&name).expect("the socket can be bound");
    chown(&name, Some(65_534), None).expect("root can change the owner");
    let (mut raw, test_path) = request_dg_rr(&server);
    data.send_to(&[1; 10], test_path)
        .expect("the test receives");
    assert_eq!(raw.receive_refusal(), Ok(EACCES), "{}", server.log());
    data.set_nonblocking(true)
        .expect("the socket becomes non-blocking");
    assert!(data.receive(&mut [0; 10]).is_err());
}

/// The client's path leads to another file in the server's mount namespace.
fn refuses_path_of_another_namespace() {
    let (server_directory, client_directory) = (short_path_dir(), short_path_dir());
    let server = start_server(server_directory.path());
    let path = client_directory.path().display();
    let line = format!(
        "mount -t tmpfs none {path} && exec {} netperf -H 127.0.0.1 -p {} -t DG_RR -l 1 -- -p {path}",
        linerate_path().display(),
        server.port
    );
    let mut client = Command::new("unshare");
    client.args(["--mount", "sh", "-c", &line]);
    let client = TestProcess::start(&mut client).finish(SHORT_TIMEOUT);
    assert_eq!(client.code, Some(1), "{client:#?}");
    assert!(client.stderr.contains("Permission denied"), "{client:#?}");
}

/// The server runs as root, its client as another user.
fn serves_client_of_another_user() {
    let (server_directory, bin_directory) = (short_path_dir(), short_path_dir());
    for directory in [&server_directory, &bin_directory] {
        let mode = Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), mode).expect("the directory has this owner");
    }
    // Other users may not be able to read the build directory.
    let netperf = bin_directory.path().join("netperf");
    copy_linerate(&netperf);
    let server = start_server(server_directory.path());
    for test in TESTS {
        let line = format!("-H 127.0.0.1 -p {} -t {test} -l -10 -P 0", server.port);
        let mut client = Command::new("setpriv");
        client
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&netperf)
            .args(line.split_whitespace());
        TestProcess::start(&mut client)
            .finish(SHORT_TIMEOUT)
            .assert_success();
    }
}

/// A stranger connects to each socket as soon as it exists. The server
/// never mistakes the stranger for the client of the test.
fn ignores_stranger_that_connects_first() {
    let server_directory = short_path_dir();
    let server = start_server(server_directory.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut strangers = Vec::new();
            while !done.load(Relaxed) {
                let entries = server_directory
                    .path()
                    .read_dir()
                    .into_iter()
                    .flatten()
                    .flatten();
                for entry in entries {
                    if let Ok(mut stranger) = UnixStream::connect(entry.path().join("s")) {
                        let _ = stranger.write_all(b"data of a stranger");
                        strangers.push(stranger);
                    }
                }
                strangers.truncate(100);
            }
        });
        let _done_setter = SetOnDrop(&done);
        for test in ["STREAM_STREAM", "STREAM_RR"] {
            for _ in 0..5 {
                let client = start_client(&server, test, "-l -1000").finish(SHORT_TIMEOUT);
                assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
            }
        }
    });
}

fn refuses_invalid_requests() {
    let directory = short_path_dir();
    let mut server = start_server(directory.path());
    let mut raw = RawClient::connect(server.port);
    for request in [
        Request::Classic(
            Classic::StreamStream,
            TestRequest {
                receive_alignment: 3,
                test_length: 1,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::StreamStream,
            TestRequest {
                receive_size: -5,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::StreamRr,
            TestRequest {
                request_size: 0,
                response_size: 1,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::DgStream,
            TestRequest {
                receive_size: i32::MAX,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::DlcoStream,
            TestRequest {
                sap: 3,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::DlclRr,
            TestRequest {
                sap: 84,
                ppa: -1,
                device: netperf::wire::Text::new("../../etc"),
                ..TestRequest::classic()
            },
        ),
    ] {
        assert!(raw.expect_refusal(&request) > 0, "{request:?}");
    }
    assert_becomes_empty(directory.path(), "refusals");
    server.assert_serves();
    assert!(server.is_running() && !server.has_panicked());
}
