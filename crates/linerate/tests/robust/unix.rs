//! Unix domain sockets have names, and no name may be left behind.

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
    Requirement, Server, TestCase, TestProcess, copy_linerate, linerate_with_args, program,
    short_directory, test_case, wait_until,
};

use super::raw::{Finally, Raw};

/// How long a server may take to see the end of a connection.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Mount namespaces, and other users, are root's.
const ROOT: Requirement = Requirement::Namespaces;

/// errno(3).
const EACCES: i32 = 13;

const TESTS: [&str; 4] = ["STREAM_STREAM", "STREAM_RR", "DG_STREAM", "DG_RR"];

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("unix::dead_clients_leave_no_socket", &[], dead_clients),
        test_case(
            "unix::a_killed_server_is_cleaned_up_after",
            &[],
            killed_server,
        ),
        test_case("unix::own_sockets_of_clients_go", &[], own_sockets),
        test_case("unix::a_link_is_not_followed", &[], links),
        test_case("unix::a_stranger_that_connects_first", &[], connects_first),
        test_case("unix::a_socket_of_another_user", &[ROOT], other_user),
        test_case(
            "unix::a_path_of_another_namespace",
            &[ROOT],
            other_namespace,
        ),
        test_case(
            "unix::a_client_of_another_user",
            &[ROOT],
            client_of_another_user,
        ),
        test_case("unix::nonsense_is_refused", &[], nonsense),
    ]
}

fn server(directory: &Path) -> Server {
    Server::start(&format!("--unix-dir {}", directory.display()))
}

fn entries(directory: &Path) -> usize {
    directory.read_dir().map_or(0, Iterator::count)
}

#[track_caller]
fn is_empty(directory: &Path, after: &str) {
    let empty = wait_until(AT_ONCE, || entries(directory) == 0);
    assert!(empty, "{after}: {:?}", directory.read_dir());
}

fn client(server: &Server, test: &str, rest: &str) -> TestProcess {
    let options = format!("-H 127.0.0.1 -p {} -t {test} -P 0 {rest}", server.port);
    TestProcess::start(&mut linerate_with_args(&format!("netperf {options}")))
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

fn dead_clients() {
    let directory = short_directory();
    let directory = directory.path();
    let mut server = server(directory);
    let rest = server.idle_usage();

    let mut raw = Raw::connect(server.port);
    raw.send(&stream_request());
    drop(raw);
    server.assert_usage_returns_to(rest, AT_ONCE, "a death before the response");
    is_empty(directory, "a death before the response");

    let mut raw = Raw::connect(server.port);
    raw.send(&stream_request());
    let response = raw.receive().expect("a response");
    // The session before may only have begun by now.
    assert!(wait_until(AT_ONCE, || entries(directory) == 1));
    drop(raw);
    server.assert_usage_returns_to(rest, AT_ONCE, "a death before the data");
    is_empty(directory, "a death before the data");

    let mut raw = Raw::connect(server.port);
    raw.send(&stream_request());
    let again = raw.receive().expect("a response");
    let path = |frame| {
        let response = Classic::StreamStream
            .messages()
            .parse_response(frame)
            .expect("accepted");
        response.path.0.to_string()
    };
    assert_ne!(path(&response), path(&again));
    let data = UnixStream::connect(path(&again)).expect("the test receives");
    drop((data, raw));
    server.assert_usage_returns_to(rest, AT_ONCE, "a death before the results");
    is_empty(directory, "a death before the results");

    for test in TESTS {
        // Nobody is left to remove a killed client's own socket: it goes with this directory.
        let own = short_directory();
        let rest_of_line = format!("-l 20 -- -p {}", own.path().display());
        let mut client = client(&server, test, &rest_of_line);
        client.wait_for_data_phase();
        assert!(wait_until(AT_ONCE, || entries(directory) == 1));
        client.signal(Signal::KILL);
        server.assert_usage_returns_to(rest, AT_ONCE, &format!("a death in the data, {test}"));
        is_empty(directory, test);
    }
    server.assert_serves();
    assert!(server.is_running() && !server.has_panicked());
}

fn killed_server() {
    let directory = short_directory();
    let directory = directory.path();
    let server = self::server(directory);
    let mut client = client(&server, "STREAM_STREAM", "-l 20");
    client.wait_for_data_phase();
    server.kill_all();
    client.finish(AT_ONCE);
    assert_eq!(entries(directory), 1);
    drop(server);

    let other = directory.join("of-somebody-else");
    std::fs::create_dir(&other).expect("a directory");
    let server = self::server(directory);
    self::client(&server, "STREAM_RR", "-l -10")
        .finish(AT_ONCE)
        .assert_success();
    assert_eq!(entries(directory), 1);
    std::fs::remove_dir(other).expect("it is still there");

    // One that is told to end cleans up itself.
    let mut client = self::client(&server, "DG_RR", "-l 20");
    client.wait_for_data_phase();
    server.terminate().assert_success();
    is_empty(directory, "the end of the server");
}

fn own_sockets() {
    let (ours, theirs) = (short_directory(), short_directory());
    let server = server(theirs.path());
    let rest = format!("-l 20 -- -p {}", ours.path().display());
    for signal in [Signal::INT, Signal::TERM] {
        for test in TESTS {
            let mut client = client(&server, test, &rest);
            client.wait_for_data_phase();
            assert_eq!(entries(ours.path()), 1, "{test}");
            client.signal(signal);
            client.finish(AT_ONCE);
            is_empty(ours.path(), test);
        }
    }
    let mut killed = client(&server, "DG_RR", &rest);
    killed.wait_for_data_phase();
    killed.signal(Signal::KILL);
    drop(killed);
    let again = format!("-l -10 -- -p {}", ours.path().display());
    client(&server, "DG_RR", &again)
        .finish(AT_ONCE)
        .assert_success();
    is_empty(ours.path(), "a killed client's successor");
}

/// A client cannot have a server send to a socket that it could not send to itself.
fn links() {
    let (theirs, mine) = (short_directory(), short_directory());
    let server = server(theirs.path());
    let victim = UnixDatagram::bind(mine.path().join("victim")).expect("a socket");
    let name = mine.path().join("client");
    let data = UnixDatagram::bind(&name).expect("a socket");

    let (mut raw, test) = ask_for_answers(&server);
    std::fs::rename(&name, mine.path().join("moved")).expect("a rename");
    symlink(mine.path().join("victim"), &name).expect("a link");
    data.send_to(&[1; 10], &test).expect("the test receives");
    assert_eq!(raw.refusal(), Ok(EACCES));
    victim.set_nonblocking(true).expect("a socket");
    assert!(victim.recv(&mut [0; 10]).is_err());
    is_empty(theirs.path(), "a refusal");
}

/// A DG_RR, and the path of its socket.
fn ask_for_answers(server: &Server) -> (Raw, String) {
    let mut raw = Raw::connect(server.port);
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
        .parse_response(&raw.receive().expect("a response"))
        .expect("accepted");
    (raw, response.path.0.to_string())
}

/// What the sender's path leads to is not the sender's.
fn other_user() {
    let (theirs, mine) = (short_directory(), short_directory());
    let server = server(theirs.path());
    let name = mine.path().join("client");
    let data = UnixDatagram::bind(&name).expect("a socket");
    chown(&name, Some(65_534), None).expect("root may do that");
    let (mut raw, test) = ask_for_answers(&server);
    data.send_to(&[1; 10], test).expect("the test receives");
    assert_eq!(raw.refusal(), Ok(EACCES), "{}", server.log());
    data.set_nonblocking(true).expect("a socket");
    assert!(data.recv(&mut [0; 10]).is_err());
}

/// The client's path means something else at the server.
fn other_namespace() {
    let (theirs, mine) = (short_directory(), short_directory());
    let server = server(theirs.path());
    let at = mine.path().display();
    let line = format!(
        "mount -t tmpfs none {at} && exec {} netperf -H 127.0.0.1 -p {} -t DG_RR -l 1 -- -p {at}",
        program().display(),
        server.port
    );
    let mut client = Command::new("unshare");
    client.args(["--mount", "sh", "-c", &line]);
    let client = TestProcess::start(&mut client).finish(AT_ONCE);
    assert_eq!(client.code, Some(1), "{client:#?}");
    assert!(client.stderr.contains("Permission denied"), "{client:#?}");
}

/// Another user's tests work as they do as root.
fn client_of_another_user() {
    let (theirs, bin) = (short_directory(), short_directory());
    for directory in [&theirs, &bin] {
        let open = Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).expect("a directory of ours");
    }
    // The build may be where others cannot go.
    let netperf = bin.path().join("netperf");
    copy_linerate(&netperf);
    let server = server(theirs.path());
    for test in TESTS {
        let line = format!("-H 127.0.0.1 -p {} -t {test} -l -10 -P 0", server.port);
        let mut client = Command::new("setpriv");
        client
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&netperf)
            .args(line.split_whitespace());
        TestProcess::start(&mut client)
            .finish(AT_ONCE)
            .assert_success();
    }
}

/// A stranger connects to each socket as soon as it exists. A linerate server never takes it for a linerate client.
fn connects_first() {
    let theirs = short_directory();
    let server = server(theirs.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut taken = Vec::new();
            while !done.load(Relaxed) {
                let places = theirs.path().read_dir().into_iter().flatten().flatten();
                for place in places {
                    if let Ok(mut stranger) = UnixStream::connect(place.path().join("s")) {
                        let _ = stranger.write_all(b"what a stranger would send");
                        taken.push(stranger);
                    }
                }
                taken.truncate(100);
            }
        });
        let _ends = Finally(&done);
        for test in ["STREAM_STREAM", "STREAM_RR"] {
            for _ in 0..5 {
                let ended = client(&server, test, "-l -1000").finish(AT_ONCE);
                assert_eq!(ended.code, Some(0), "{ended:#?}; log: {}", server.log());
            }
        }
    });
}

fn nonsense() {
    let directory = short_directory();
    let mut server = server(directory.path());
    let mut raw = Raw::connect(server.port);
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
        assert!(raw.ask_in_vain(&request) > 0, "{request:?}");
    }
    is_empty(directory.path(), "refusals");
    server.assert_serves();
    assert!(server.is_running() && !server.has_panicked());
}
