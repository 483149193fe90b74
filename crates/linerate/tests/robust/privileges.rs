//! A server that runs as root grants clients no privileges, and can drop its own.

use std::fs::Permissions;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use netperf::wire::{OMNI, Request, TestRequest, Text};
use tempfile::TempDir;
use testkit::{
    LOOPBACK_HOSTS, Namespace, Profile, Server, TestCase, TestProcess, UperfMaster, copy_linerate,
    free_port, linerate_path, linerate_with_args, run, wait_until, with_prefix,
};

use super::lifecycle::Daemon;
use super::raw::{RawClient, TestKind, data_connection};
use testkit::Requirement::Namespaces;

/// Timeout of an action that needs no wait.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

/// errno(3).
const EACCES: i32 = 13;
const EPROTONOSUPPORT: i32 = 93;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        leaves_out_unloaded_congestion_control,
        refuses_unloaded_protocol,
        reports_exposed_secrets,
    ];
    // Only root can change its user or create a namespace.
    test_cases.extend(testkit::test_cases![
        needing &[Namespaces];
        refuses_privileged_ports,
        changes_user,
        changes_user_as_daemon,
        changes_user_under_inetd,
        changes_user_with_activated_socket,
        slave_changes_user,
        rejects_unavailable_user,
    ]);
    with_prefix("privileges", test_cases).collect()
}

/// The server does not request an unloaded algorithm from the kernel. It reports the algorithm in
/// use.
fn leaves_out_unloaded_congestion_control() {
    for (options, is_left_out) in [("", true), ("--allow-modules", false)] {
        let server = Server::start(options);
        let mut raw = RawClient::connect(server.port);
        let port = raw.request_test(&TestRequest {
            congestion_control: Text::new("nosuchone"),
            ..TestKind::TcpStream.request(1)
        });
        drop(data_connection(port));
        let results = OMNI
            .parse_results(&raw.receive().expect("the server sends results"))
            .expect("the test succeeds");
        let in_force = results.congestion_control.to_string();
        assert!(!in_force.is_empty() && in_force != "nosuchone");
        let is_logged = server
            .log()
            .contains("left out congestion control \"nosuchone\"");
        assert_eq!(is_logged, is_left_out, "{options}: {}", server.log());
    }
}

/// A kernel that has SCTP loaded has nothing to refuse.
fn refuses_unloaded_protocol() {
    let protocols = std::fs::read_to_string("/proc/net/protocols").expect("/proc is mounted");
    let has_sctp = protocols.lines().any(|line| line.starts_with("SCTP "));
    let server = Server::start("");
    let request = Request::Omni(TestRequest {
        protocol: TestRequest::SCTP,
        ..TestKind::TcpStream.request(1)
    });
    let mut raw = RawClient::connect(server.port);
    raw.send(&request);
    let errno = raw.receive_refusal().ok();
    assert_eq!(errno, (!has_sctp).then_some(EPROTONOSUPPORT));
    let is_logged = server
        .log()
        .contains("refused SCTP: it needs the module sctp");
    assert_eq!(is_logged, !has_sctp, "{}", server.log());
}

/// The servers accept files with any permissions, as stock does. They report those to which other
/// users have access.
fn reports_exposed_secrets() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path_of = |name: &str| directory.path().join(name);
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for (name, file) in [
        ("key", "iperf3/src/login/private.pem"),
        ("certificate", "uperf/tests/data/tls/server.pem"),
    ] {
        std::fs::copy(format!("{crates}/{file}"), path_of(name)).expect("a test file");
    }
    for (name, text) in [("users", "mario,0\n"), ("phrase", "password\n")] {
        std::fs::write(path_of(name), text).expect("a writable directory");
    }
    for (options, files) in [
        (
            "iperf3 -s --rsa-private-key-path DIR/key --authorized-users-path DIR/users -p",
            ["key", "users"],
        ),
        (
            "uperf -s --tls-cert DIR/certificate --tls-pass-file DIR/phrase -P",
            ["certificate", "phrase"],
        ),
    ] {
        for modes in [
            [0o600, 0o600],
            [0o644, 0o600],
            [0o600, 0o620],
            [0o400, 0o602],
        ] {
            for (name, mode) in files.into_iter().zip(modes) {
                let mode = Permissions::from_mode(mode);
                std::fs::set_permissions(path_of(name), mode).expect("the file has this owner");
            }
            let options = options.replace("DIR", &directory.path().display().to_string());
            let server =
                Server::try_start_with(|port| linerate_with_args(&format!("{options} {port}")));
            let server = server.expect("the server listens");
            let output = server.terminate();
            for (name, mode) in files.into_iter().zip(modes) {
                let line = format!("other users have access to {}", path_of(name).display());
                let is_exposed = mode & 0o077 != 0;
                assert_eq!(output.stderr.contains(&line), is_exposed, "{output:#?}");
            }
            let lines = modes.iter().filter(|mode| *mode & 0o077 != 0).count();
            // iperf3 also reports the signal that ends it.
            let other_lines = output.stderr.lines();
            let other_lines = other_lines.filter(|line| !line.contains(": interrupt - "));
            assert_eq!(other_lines.count(), lines, "{output:#?}");
        }
    }
}

fn refuses_privileged_ports() {
    Namespace::new().enter(|| {
        let request_for = |port: u32, kind: TestKind| {
            Request::Omni(TestRequest {
                data_port: port,
                ..kind.request(1)
            })
        };
        let strict = Server::start("");
        for kind in TestKind::ALL {
            let errno = RawClient::connect(strict.port).expect_refusal(&request_for(443, kind));
            assert_eq!(errno, EACCES, "{}", kind.name());
        }
        assert!(
            strict.log().contains("refused port 443"),
            "{}",
            strict.log()
        );
        let lenient = Server::start("--allow-privileged-ports");
        let assigned_port = |server: u16, port: u32| {
            let Request::Omni(request) = request_for(port, TestKind::TcpRr) else {
                unreachable!("the request is an omni request")
            };
            u32::from(RawClient::connect(server).request_test(&request))
        };
        for (server, port) in [(&strict, 40_443), (&lenient, 443)] {
            assert_eq!(assigned_port(server.port, port), port);
        }
        // As in stock, the server assigns another port if the requested one is in use. It does not
        // do so for a port that its user is not permitted to bind.
        let _taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 40_444)).expect("the port is free");
        assert_ne!(assigned_port(strict.port, 40_444), 40_444);
        let directory = world_readable_directory();
        let unprivileged = Server::try_start_with(|port| {
            let options = format!("-D -d -p {port} --allow-privileged-ports");
            let mut netserver = unprivileged_netserver(directory.path());
            netserver.args(options.split(' '));
            netserver
        });
        let port = unprivileged.as_ref().expect("the server listens").port;
        for kind in TestKind::ALL {
            let errno = RawClient::connect(port).expect_refusal(&request_for(443, kind));
            assert_eq!(errno, EACCES, "{}", kind.name());
        }
    });
}

/// Creates a directory that every user can read.
fn world_readable_directory() -> TempDir {
    let directory = tempfile::tempdir_in("/tmp").expect("/tmp is writable");
    let mode = Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), mode).expect("the directory has this owner");
    directory
}

/// Returns a command that starts netserver as a user without privileges, from a copy in
/// `directory`.
fn unprivileged_netserver(directory: &Path) -> Command {
    let copy = directory.join("netserver");
    copy_linerate(&copy);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy);
    command
}

/// Returns a user's numeric ids, as id(1) prints them with `option`.
fn user_ids(option: &str, user: &str) -> String {
    let mut id = Command::new("id");
    id.args([option, user]);
    let output = run(id, SHORT_TIMEOUT).expect("the process ends");
    output.stdout.trim().to_owned()
}

/// Fails the test unless each thread of a process runs as nobody, with nobody's groups, without
/// capabilities, and without a way to gain some.
#[track_caller]
pub(crate) fn assert_runs_as_nobody(pid: u32) {
    let [user, group, groups] = ["-u", "-g", "-G"].map(|option| user_ids(option, "nobody"));
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    for thread in threads {
        let path = thread.expect("the process runs").path().join("status");
        let status = std::fs::read_to_string(path).expect("the process runs");
        let value = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let values: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
            values.join(" ")
        };
        assert_eq!(value("Uid:"), [&*user; 4].join(" "));
        assert_eq!(value("Gid:"), [&*group; 4].join(" "));
        assert_eq!(value("Groups:"), groups);
        for set in ["CapPrm:", "CapEff:", "CapAmb:", "CapBnd:"] {
            assert_eq!(value(set).trim_matches('0'), "", "{status}");
        }
        assert_eq!(value("NoNewPrivs:"), "1", "{status}");
    }
}

fn netperf_line(port: u16) -> String {
    format!("netperf -H 127.0.0.1 -p {port} -P 0 -l -50 -t")
}

#[track_caller]
fn assert_serves(port: u16) {
    for test in ["TCP_RR", "TCP_CRR", "UDP_RR", "STREAM_RR", "DG_RR"] {
        let client = linerate_with_args(&format!("{} {test}", netperf_line(port)));
        run(client, SHORT_TIMEOUT)
            .expect("the process ends")
            .assert_success();
    }
}

/// The port is privileged.
fn changes_user() {
    let directory = tempfile::tempdir_in("/tmp").expect("/tmp is writable");
    std::fs::write(directory.path().join("f"), "x").expect("the directory is writable");
    Namespace::new().enter(|| {
        let options = format!(
            "netserver -D -p 443 --user nobody --allow-fill-dir {}",
            directory.path().display()
        );
        let server = Server::start_at(443, linerate_with_args(&options));
        assert_runs_as_nobody(server.pid());
        assert_serves(443);
        // Also while it serves a client.
        let mut client = TestProcess::start(&mut linerate_with_args(&format!(
            "{} TCP_RR -l 10",
            netperf_line(443)
        )));
        client.wait_for_data_phase();
        assert_runs_as_nobody(server.pid());
    });
}

fn changes_user_as_daemon() {
    let port = free_port();
    let line = format!("netserver -p {port} --user nobody");
    run(linerate_with_args(&line), SHORT_TIMEOUT)
        .expect("the command ends")
        .assert_success();
    let daemon = Daemon::find(&["netserver", "-p", &port.to_string()]);
    assert_runs_as_nobody(daemon.pid());
    assert_serves(port);
}

fn changes_user_under_inetd() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("the socket is bound").port();
    let client = format!("netperf -H 127.0.0.1 -p {port} -P 0 -l 3 -t TCP_RR");
    let mut client = TestProcess::start(&mut linerate_with_args(&client));
    let (control, _) = listener.accept().expect("the client connects");
    let control = Stdio::from(OwnedFd::from(control));
    let server =
        TestProcess::start_with_input(&mut linerate_with_args("netserver --user nobody"), control);
    client.wait_for_data_phase();
    assert_runs_as_nobody(server.pid());
    client.finish(SHORT_TIMEOUT * 2).assert_success();
}

fn changes_user_with_activated_socket() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("the socket is bound").port();
    let script =
        "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" netserver -D --user nobody 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(linerate_path());
    let server = TestProcess::start_with_input(&mut command, Stdio::from(OwnedFd::from(listener)));
    assert_serves(port);
    assert_runs_as_nobody(server.pid());
}

/// The slave already has threads when it changes its user.
fn slave_changes_user() {
    Namespace::new().enter(|| {
        let slave = Server::start_at(443, linerate_with_args("uperf -s -P 443 --user nobody"));
        assert!(
            wait_until(SHORT_TIMEOUT, || user_id(slave.pid()) != "0"),
            "{}",
            slave.stderr()
        );
        assert_runs_as_nobody(slave.pid());
        let profile = Profile::new("p")
            .group("nthreads=2")
            .single_flowop("connect remotehost=127.0.0.1 protocol=tcp")
            .transaction("iterations=100", &["write size=64", "read size=64"])
            .single_flowop("disconnect")
            .text();
        let master = UperfMaster::start(443, "", &LOOPBACK_HOSTS, &profile);
        master
            .finish_within(Duration::from_secs(20))
            .assert_success();
        assert_runs_as_nobody(slave.pid());
    });
}

/// Returns the user id of a process, or `0` if it is unavailable.
fn user_id(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let user = line.and_then(|line| line.split_whitespace().next());
    user.unwrap_or("0").to_owned()
}

fn rejects_unavailable_user() {
    let (port, directory) = (free_port(), world_readable_directory());
    let ours = linerate_with_args(&format!("netserver -D -p {port} --user no-such-user"));
    let root = linerate_with_args(&format!("netserver -D -p {port} --user root"));
    let mut nobody = unprivileged_netserver(directory.path());
    nobody.args(["-D", "-p", &port.to_string(), "--user", "daemon"]);
    for (command, reason) in [
        (ours, "cannot become user no-such-user: no such user"),
        (root, "cannot become user root: it keeps all privileges"),
        (
            nobody,
            "cannot become user daemon: only root can become another user",
        ),
    ] {
        let output = run(command, SHORT_TIMEOUT).expect("the process ends");
        assert_eq!(output.code, Some(1), "{output:#?}");
        assert_eq!(output.stderr.trim_end(), format!("netserver: {reason}"));
    }
    for server in ["netserver -D -p", "uperf -s -P"] {
        let line = format!("{server} {port} --user nobody --allow-privileged-ports");
        let output = run(linerate_with_args(&line), SHORT_TIMEOUT).expect("the process ends");
        assert_eq!(output.code, Some(1), "{output:#?}");
        let warning = "--allow-privileged-ports contradicts --user";
        assert!(output.stderr.contains(warning), "{output:#?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:#?}");
    }
}
