//! The options that write files, of all programs: what another user has put under the name is not
//! touched, and streams are written to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{ProcessOutput, Profile, Server, free_port, linerate_with_args, run};

pub(crate) fn test_cases() -> Vec<testkit::TestCase> {
    testkit::test_cases![
        a_link_is_refused_and_its_target_stays,
        what_was_there_is_replaced_by_the_whole_of_the_new,
        a_failed_test_leaves_the_old_file,
        a_directory_is_no_file,
        streams_take_what_is_written,
    ]
}

const LIMIT: Duration = Duration::from_secs(60);

/// Debian's `nobody`.
const OTHER_USER: u32 = 65_534;

/// What the options need to write anything: a netserver, a slave, a profile, a histogram log.
struct Ground {
    server: Server,
    slave: Server,
    directory: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start("");
        fs::write(directory.path().join("profile.xml"), profile()).unwrap();
        let ground = Self {
            server,
            slave: Server::start_slave(""),
            directory,
        };
        let log = ground.directory.path().join("log");
        let [(netperf, _), ..] = ground.options();
        let ended = run(
            linerate_with_args(&netperf.replace('@', log.to_str().unwrap())),
            LIMIT,
        )
        .unwrap();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ground
    }

    /// Command lines with `@` in place of the file, and a piece of what is written to it.
    fn options(&self) -> [(String, &'static str); 5] {
        let here = self.directory.path().display();
        let (server, slave) = (self.server.port, self.slave.port);
        let master = format!("uperf -m {here}/profile.xml -P {slave}");
        [
            (
                format!("netperf -H 127.0.0.1 -p {server} -t TCP_RR -l 1 --histogram @"),
                "Histogram log format",
            ),
            (
                "run -t TCP_RR -l 1 --histogram @".to_owned(),
                "Histogram log format",
            ),
            (format!("histogram {here}/log -o @"), "Histogram log format"),
            (format!("{master} --html @"), "<html"),
            (format!("{master} -X @"), ""),
        ]
    }

    /// Runs the line with this file in its place.
    fn run(line: &str, file: &Path) -> ProcessOutput {
        let line = line.replace('@', file.to_str().unwrap());
        run(linerate_with_args(&line), LIMIT).unwrap()
    }
}

/// As root in a directory like /tmp, where another user has put a link to somebody's file.
fn a_link_is_refused_and_its_target_stays() {
    let ground = Ground::new();
    let sticky = tempfile::tempdir().unwrap();
    fs::set_permissions(sticky.path(), Permissions::from_mode(0o1777)).unwrap();
    let victim = sticky.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    let man = tempfile::tempdir().unwrap();
    let mut options = ground.options().to_vec();
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
            // Only root can do this; the link is refused in any case.
            let _ = lchown(&link, Some(OTHER_USER), Some(OTHER_USER));
            let ended = Ground::run(&line, &link);
            assert_eq!(ended.code, Some(1), "{line}: {ended:?}");
            assert!(ended.stderr.contains("symbolic link"), "{line}: {ended:?}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched", "{line}");
            assert!(!sticky.path().join("none").exists(), "{line}");
            assert!(link.is_symlink(), "{line}");
            fs::remove_file(&link).unwrap();
        }
    }
}

fn what_was_there_is_replaced_by_the_whole_of_the_new() {
    let ground = Ground::new();
    let path = ground.directory.path().join("out");
    for (line, word) in ground.options() {
        for old in [None, Some("old contents, longer than nothing")] {
            let _ = fs::remove_file(&path);
            if let Some(old) = old {
                fs::write(&path, old).unwrap();
            }
            let ended = Ground::run(&line, &path);
            assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                text.contains(word) && !text.contains("old contents"),
                "{line}: {text}"
            );
        }
        let names = fs::read_dir(ground.directory.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        let hidden = |name: &std::ffi::OsString| name.to_string_lossy().starts_with('.');
        assert!(!names.iter().any(hidden), "{line}: {names:?}");
    }
}

fn a_failed_test_leaves_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    fs::write(&path, "old").unwrap();
    let closed = free_port();
    let line = format!("netperf -H 127.0.0.1 -p {closed} --histogram @");
    let ended = Ground::run(&line, &path);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

fn a_directory_is_no_file() {
    let ground = Ground::new();
    for (line, _) in ground.options() {
        let ended = Ground::run(&line, ground.directory.path());
        assert_eq!(ended.code, Some(1), "{line}: {ended:?}");
        assert!(ended.stderr.contains("directory"), "{line}: {ended:?}");
    }
}

fn streams_take_what_is_written() {
    let ground = Ground::new();
    let fifo = ground.directory.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    for (line, word) in ground.options() {
        let ended = Ground::run(&line, Path::new("/dev/null"));
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
        for own in ["/dev/stdout", "/dev/fd/1"] {
            let ended = Ground::run(&line, Path::new(own));
            assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
            assert!(ended.stdout.contains(word), "{line}: {ended:?}");
        }
        let reader = {
            let fifo = fifo.clone();
            std::thread::spawn(move || fs::read_to_string(fifo).unwrap())
        };
        let ended = Ground::run(&line, &fifo);
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
        let text = reader.join().unwrap();
        assert!(text.contains(word), "{line}: {text}");
    }
}

/// A connection, and some passes for `-X`.
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
