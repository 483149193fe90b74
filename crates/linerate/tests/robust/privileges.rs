//! A server that runs as root gives clients no privilege, and can drop its own.

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
    free_port, linerate_with_args, program, run, test_case, wait_until,
};

use super::lifecycle::Daemon;
use super::raw::{Kind, Raw, data_connection};
use testkit::Requirement::Namespaces;

/// How long a server may take for what it does at once.
const SOON: Duration = Duration::from_secs(5);

/// errno(3).
const EACCES: i32 = 13;
const EPROTONOSUPPORT: i32 = 93;

pub(crate) fn test_cases() -> Vec<TestCase> {
    // To become another user is root's, as namespaces are.
    let root = &[Namespaces];
    vec![
        test_case("privileges::congestion_controls", &[], congestion_controls),
        test_case("privileges::protocols", &[], protocols),
        test_case("privileges::ports", root, ports),
        test_case("privileges::another_user", root, another_user),
        test_case("privileges::another_user_as_a_daemon", root, daemon),
        test_case("privileges::another_user_under_inetd", root, inetd),
        test_case("privileges::another_user_by_socket", root, by_socket),
        test_case("privileges::another_user_of_a_slave", root, slave),
        test_case("privileges::who_cannot_be_had", root, cannot_be_had),
    ]
}

/// One that is not loaded is not asked of the kernel, and the client sees which one is in force.
fn congestion_controls() {
    for (options, left_out) in [("", true), ("--allow-modules", false)] {
        let server = Server::start(options);
        let mut raw = Raw::connect(server.port);
        let port = raw.ask(&TestRequest {
            congestion_control: Text::new("nosuchone"),
            ..Kind::TcpStream.request(1)
        });
        drop(data_connection(port));
        let results = OMNI
            .parse_results(&raw.receive().expect("the results"))
            .expect("results");
        let in_force = results.congestion_control.to_string();
        assert!(!in_force.is_empty() && in_force != "nosuchone");
        let said = server
            .log()
            .contains("left out congestion control \"nosuchone\"");
        assert_eq!(said, left_out, "{options}: {}", server.log());
    }
}

/// Where this kernel has SCTP there is nothing to refuse.
fn protocols() {
    let known = std::fs::read_to_string("/proc/net/protocols").expect("/proc is there");
    let has_sctp = known.lines().any(|line| line.starts_with("SCTP "));
    let server = Server::start("");
    let request = Request::Omni(TestRequest {
        protocol: TestRequest::SCTP,
        ..Kind::TcpStream.request(1)
    });
    let mut raw = Raw::connect(server.port);
    raw.send(&request);
    let refused = raw.refusal().ok();
    assert_eq!(refused, (!has_sctp).then_some(EPROTONOSUPPORT));
    let said = server
        .log()
        .contains("refused SCTP: it needs the module sctp");
    assert_eq!(said, !has_sctp, "{}", server.log());
}

fn ports() {
    Namespace::new().enter(|| {
        let on = |port: u32, kind: Kind| {
            Request::Omni(TestRequest {
                data_port: port,
                ..kind.request(1)
            })
        };
        let strict = Server::start("");
        for kind in Kind::ALL {
            let errno = Raw::connect(strict.port).ask_in_vain(&on(443, kind));
            assert_eq!(errno, EACCES, "{}", kind.name());
        }
        assert!(
            strict.log().contains("refused port 443"),
            "{}",
            strict.log()
        );
        let lenient = Server::start("--allow-privileged-ports");
        let granted = |server: u16, port: u32| {
            let Request::Omni(request) = on(port, Kind::TcpRr) else {
                unreachable!("it is an omni request")
            };
            u32::from(Raw::connect(server).ask(&request))
        };
        for (server, port) in [(&strict, 40_443), (&lenient, 443)] {
            assert_eq!(granted(server.port, port), port);
        }
        // Another port for one that is taken, as stock has it, but not for one that this user may not have.
        let _taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 40_444)).expect("a new namespace");
        assert_ne!(granted(strict.port, 40_444), 40_444);
        let place = place_for_all();
        let unprivileged = Server::try_start_with(|port| {
            let options = format!("-D -d -p {port} --allow-privileged-ports");
            let mut netserver = as_nobody(place.path());
            netserver.args(options.split(' '));
            netserver
        });
        let port = unprivileged.as_ref().expect("it listens").port;
        for kind in Kind::ALL {
            let errno = Raw::connect(port).ask_in_vain(&on(443, kind));
            assert_eq!(errno, EACCES, "{}", kind.name());
        }
    });
}

/// A directory that every user can read.
fn place_for_all() -> TempDir {
    let place = tempfile::tempdir_in("/tmp").expect("/tmp is writable");
    let open = Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).expect("a directory of ours");
    place
}

/// Our netserver, started by a user without privileges from a copy in this directory.
fn as_nobody(place: &Path) -> Command {
    let copy = place.join("netserver");
    copy_linerate(&copy);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy);
    command
}

/// The numbers of a user, by id(1).
fn id(of: &str, user: &str) -> String {
    let mut id = Command::new("id");
    id.args([of, user]);
    let said = run(id, SOON).expect("it ends");
    said.stdout.trim().to_owned()
}

/// Whether a process is nobody, with its groups and without any capability, in all its threads.
#[track_caller]
fn is_nobody(pid: u32) {
    let [user, group, groups] = ["-u", "-g", "-G"].map(|of| id(of, "nobody"));
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    for thread in threads {
        let path = thread.expect("it runs").path().join("status");
        let status = std::fs::read_to_string(path).expect("it runs");
        let words = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let words: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
            words.join(" ")
        };
        assert_eq!(words("Uid:"), [&*user; 4].join(" "));
        assert_eq!(words("Gid:"), [&*group; 4].join(" "));
        assert_eq!(words("Groups:"), groups);
        for set in ["CapPrm:", "CapEff:"] {
            assert_eq!(words(set).trim_matches('0'), "", "{status}");
        }
    }
}

fn test_at(port: u16) -> String {
    format!("netperf -H 127.0.0.1 -p {port} -P 0 -l -50 -t")
}

#[track_caller]
fn serves(port: u16) {
    for test in ["TCP_RR", "TCP_CRR", "UDP_RR", "STREAM_RR", "DG_RR"] {
        let client = linerate_with_args(&format!("{} {test}", test_at(port)));
        run(client, SOON).expect("it ends").assert_success();
    }
}

/// At a port that root alone may have.
fn another_user() {
    let place = tempfile::tempdir_in("/tmp").expect("/tmp is writable");
    std::fs::write(place.path().join("f"), "x").expect("a new directory");
    Namespace::new().enter(|| {
        let options = format!(
            "netserver -D -p 443 --user nobody --allow-fill-dir {}",
            place.path().display()
        );
        let server = Server::start_at(443, linerate_with_args(&options));
        is_nobody(server.pid());
        serves(443);
        // While it serves, too.
        let mut client = TestProcess::start(&mut linerate_with_args(&format!(
            "{} TCP_RR -l 10",
            test_at(443)
        )));
        client.wait_for_data_phase();
        is_nobody(server.pid());
    });
}

fn daemon() {
    let port = free_port();
    let line = format!("netserver -p {port} --user nobody");
    run(linerate_with_args(&line), SOON)
        .expect("it goes to the background")
        .assert_success();
    let daemon = Daemon::find(&["netserver", "-p", &port.to_string()]);
    is_nobody(daemon.pid());
    serves(port);
}

fn inetd() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let client = format!("netperf -H 127.0.0.1 -p {port} -P 0 -l 3 -t TCP_RR");
    let mut client = TestProcess::start(&mut linerate_with_args(&client));
    let (control, _) = listener.accept().expect("the client connects");
    let control = Stdio::from(OwnedFd::from(control));
    let server =
        TestProcess::start_with_input(&mut linerate_with_args("netserver --user nobody"), control);
    client.wait_for_data_phase();
    is_nobody(server.pid());
    client.finish(SOON * 2).assert_success();
}

fn by_socket() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let script =
        "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" netserver -D --user nobody 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(program());
    let server = TestProcess::start_with_input(&mut command, Stdio::from(OwnedFd::from(listener)));
    serves(port);
    is_nobody(server.pid());
}

/// The slave has threads when it changes its user.
fn slave() {
    Namespace::new().enter(|| {
        let slave = Server::start_at(443, linerate_with_args("uperf -s -P 443 --user nobody"));
        assert!(
            wait_until(SOON, || user_of(slave.pid()) != "0"),
            "{}",
            slave.stderr()
        );
        is_nobody(slave.pid());
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
        is_nobody(slave.pid());
    });
}

/// The user's number of a process.
fn user_of(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let user = line.and_then(|line| line.split_whitespace().next());
    user.unwrap_or("0").to_owned()
}

fn cannot_be_had() {
    let (port, place) = (free_port(), place_for_all());
    let ours = linerate_with_args(&format!("netserver -D -p {port} --user no-such-user"));
    let root = linerate_with_args(&format!("netserver -D -p {port} --user root"));
    let mut nobody = as_nobody(place.path());
    nobody.args(["-D", "-p", &port.to_string(), "--user", "daemon"]);
    for (command, why) in [
        (ours, "cannot become user no-such-user: no such user"),
        (root, "cannot become user root: it keeps all privileges"),
        (
            nobody,
            "cannot become user daemon: only root can become another user",
        ),
    ] {
        let ended = run(command, SOON).expect("it ends");
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        assert_eq!(ended.stderr.trim_end(), format!("netserver: {why}"));
    }
    for server in ["netserver -D -p", "uperf -s -P"] {
        let line = format!("{server} {port} --user nobody --allow-privileged-ports");
        let ended = run(linerate_with_args(&line), SOON).expect("it ends");
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        let why = "--allow-privileged-ports has no effect with --user";
        assert!(ended.stderr.contains(why), "{ended:#?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
    }
}
