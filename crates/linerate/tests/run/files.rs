//! The options of all programs that write files. They do not touch another user's file of that
//! name, and they write to streams.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{ProcessOutput, Profile, Server, free_port, linerate_with_args, run};

pub(crate) fn test_cases() -> Vec<testkit::TestCase> {
    testkit::test_cases![
        refuses_link_and_keeps_target,
        replaces_old_file_completely,
        failed_test_keeps_old_file,
        refuses_directory,
        writes_to_streams,
    ]
}

const TIMEOUT: Duration = Duration::from_secs(60);

/// Debian's `nobody`.
const OTHER_USER: u32 = 65_534;

/// The peers and files that the options need: a netserver, a slave, a profile, a histogram log.
struct Environment {
    server: Server,
    slave: Server,
    directory: tempfile::TempDir,
}

impl Environment {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start("");
        fs::write(directory.path().join("profile.xml"), profile()).unwrap();
        let environment = Self {
            server,
            slave: Server::start_slave(""),
            directory,
        };
        let log = environment.directory.path().join("log");
        let [(netperf, _), ..] = environment.options();
        let output = run(
            linerate_with_args(&netperf.replace('@', log.to_str().unwrap())),
            TIMEOUT,
        )
        .unwrap();
        assert_eq!(output.code, Some(0), "{output:?}");
        environment
    }

    /// Returns command lines with `@` in place of the file, and a part of the file's contents.
    fn options(&self) -> [(String, &'static str); 5] {
        let directory = self.directory.path().display();
        let (server, slave) = (self.server.port, self.slave.port);
        let master = format!("uperf -m {directory}/profile.xml -P {slave}");
        [
            (
                format!("netperf -H 127.0.0.1 -p {server} -t TCP_RR -l 1 --histogram @"),
                "Histogram log format",
            ),
            (
                "run -t TCP_RR -l 1 --histogram @".to_owned(),
                "Histogram log format",
            ),
            (
                format!("histogram {directory}/log -o @"),
                "Histogram log format",
            ),
            (format!("{master} --html @"), "<html"),
            (format!("{master} -X @"), ""),
        ]
    }

    /// Runs the command line with this file.
    fn run(line: &str, file: &Path) -> ProcessOutput {
        let line = line.replace('@', file.to_str().unwrap());
        run(linerate_with_args(&line), TIMEOUT).unwrap()
    }
}

/// In a directory like /tmp, another user links the output name to a third user's file.
fn refuses_link_and_keeps_target() {
    let environment = Environment::new();
    let sticky = tempfile::tempdir().unwrap();
    fs::set_permissions(sticky.path(), Permissions::from_mode(0o1777)).unwrap();
    let victim = sticky.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    let man = tempfile::tempdir().unwrap();
    let mut options = environment.options().to_vec();
    options.push((format!("man {}", man.path().display()), ""));
    for (line, _) in options {
        for (target, name) in [
            (victim.clone(), "link"),
            (sticky.path().join("none"), "gone"),
        ] {
            let link = if line.starts_with("man") {
                man.path().join("netserver.1")
            } else {
                sticky.path().join(name)
            };
            symlink(&target, &link).unwrap();
            // Only root can change the owner. The link is refused in any case.
            let _ = lchown(&link, Some(OTHER_USER), Some(OTHER_USER));
            let output = Environment::run(&line, &link);
            assert_eq!(output.code, Some(1), "{line}: {output:?}");
            assert!(
                output.stderr.contains("symbolic link"),
                "{line}: {output:?}"
            );
            assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched", "{line}");
            assert!(!sticky.path().join("none").exists(), "{line}");
            assert!(link.is_symlink(), "{line}");
            fs::remove_file(&link).unwrap();
        }
    }
}

fn replaces_old_file_completely() {
    let environment = Environment::new();
    let path = environment.directory.path().join("out");
    for (line, expected_part) in environment.options() {
        for old in [None, Some("old contents, longer than nothing")] {
            let _ = fs::remove_file(&path);
            if let Some(old) = old {
                fs::write(&path, old).unwrap();
            }
            let output = Environment::run(&line, &path);
            assert_eq!(output.code, Some(0), "{line}: {output:?}");
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                text.contains(expected_part) && !text.contains("old contents"),
                "{line}: {text}"
            );
        }
        let names = fs::read_dir(environment.directory.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        let is_hidden = |name: &std::ffi::OsString| name.to_string_lossy().starts_with('.');
        assert!(!names.iter().any(is_hidden), "{line}: {names:?}");
    }
}

fn failed_test_keeps_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    fs::write(&path, "old").unwrap();
    let closed_port = free_port();
    let line = format!("netperf -H 127.0.0.1 -p {closed_port} --histogram @");
    let output = Environment::run(&line, &path);
    assert_ne!(output.code, Some(0), "{output:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

fn refuses_directory() {
    let environment = Environment::new();
    for (line, _) in environment.options() {
        let output = Environment::run(&line, environment.directory.path());
        assert_eq!(output.code, Some(1), "{line}: {output:?}");
        assert!(output.stderr.contains("directory"), "{line}: {output:?}");
    }
}

fn writes_to_streams() {
    let environment = Environment::new();
    let fifo = environment.directory.path().join("fifo");
    let status = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(status.success());
    for (line, expected_part) in environment.options() {
        let output = Environment::run(&line, Path::new("/dev/null"));
        assert_eq!(output.code, Some(0), "{line}: {output:?}");
        for stdout in ["/dev/stdout", "/dev/fd/1"] {
            let output = Environment::run(&line, Path::new(stdout));
            assert_eq!(output.code, Some(0), "{line}: {output:?}");
            assert!(output.stdout.contains(expected_part), "{line}: {output:?}");
        }
        let reader = {
            let fifo = fifo.clone();
            std::thread::spawn(move || fs::read_to_string(fifo).unwrap())
        };
        let output = Environment::run(&line, &fifo);
        assert_eq!(output.code, Some(0), "{line}: {output:?}");
        let text = reader.join().unwrap();
        assert!(text.contains(expected_part), "{line}: {text}");
    }
}

/// Returns a profile with a connection, and with some passes for `-X`.
fn profile() -> String {
    let flowops = [
        "connect remotehost=127.0.0.1 protocol=tcp",
        "write size=64 count=10",
        "disconnect",
    ];
    Profile::new("p")
        .group("nthreads=1")
        .transaction("iterations=1", &flowops)
        .text()
}
