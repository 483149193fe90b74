//! The options of all programs that name a file, with FIFOs, devices and pipes, and with text that
//! controls a terminal.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{Profile, Server, TestProcess, free_port, linerate_with_args, run, wait_until};

pub(crate) fn test_cases() -> Vec<testkit::TestCase> {
    testkit::test_cases![
        fifo_without_other_end_is_refused,
        iperf_reads_streams_until_the_stop,
        pid_file_may_be_a_stream,
        standard_output_is_not_emptied,
        full_device_is_reported,
        ended_process_leaves_no_file,
        text_of_files_is_escaped,
    ]
}

/// Longer than the wait for the other end of a FIFO, which is 5 s.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Servers of all dialects that have servers of their own.
struct Servers {
    netperf: Server,
    iperf3: Server,
    iperf: Server,
    udpmon: Server,
    uperf: Server,
    directory: tempfile::TempDir,
}

impl Servers {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for strands in ["nthreads=1", "nprocs=1"] {
            let name = strands.split('=').next().unwrap();
            fs::write(directory.path().join(name), profile(strands)).unwrap();
        }
        fs::write(directory.path().join("users"), "user,digest").unwrap();
        Self {
            netperf: Server::start(""),
            iperf3: Server::start_with(|port| format!("iperf3 -s -p {port}")),
            iperf: Server::start_with(|port| format!("iperf -s -p {port}")),
            udpmon: Server::start_with(|port| format!("udpmon_resp -u {port}")),
            uperf: Server::start_slave(""),
            directory,
        }
    }

    /// Replaces the names in `<>` of a command line.
    fn command(&self, line: &str, file: &Path) -> Command {
        let key = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../iperf3/src/login/private.pem"
        );
        let line = [
            (
                "<netperf>",
                format!("-H 127.0.0.1 -p {}", self.netperf.port),
            ),
            ("<iperf3>", format!("-c 127.0.0.1 -p {}", self.iperf3.port)),
            ("<iperf>", format!("-c 127.0.0.1 -p {}", self.iperf.port)),
            (
                "<udpmon>",
                format!("-d 127.0.0.1 -u {} -p 100 -l 10 -G 10", self.udpmon.port),
            ),
            ("<uperf>", format!("-P {}", self.uperf.port)),
            ("<port>", free_port().to_string()),
            ("<key>", key.to_owned()),
            ("<dir>", self.directory.path().display().to_string()),
            ("<file>", file.display().to_string()),
        ]
        .into_iter()
        .fold(line.to_owned(), |line, (name, value)| {
            line.replace(name, &value)
        });
        let mut command = linerate_with_args(&line);
        command.env("IPERF3_PASSWORD", "secret");
        command
    }
}

/// Returns a profile with a connection, and with some passes for `-X`.
fn profile(strands: &str) -> String {
    let flowops = [
        "connect remotehost=127.0.0.1 protocol=tcp",
        "write size=64 count=10",
        "disconnect",
    ];
    Profile::new("p")
        .group(strands)
        .transaction("iterations=1", &flowops)
        .text()
}

fn create_fifo(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    let mut mkfifo = Command::new("mkfifo");
    mkfifo.args(["-m", "600"]).arg(&path);
    run(mkfifo, TIMEOUT).unwrap().assert_success();
    path
}

fn fifo_without_other_end_is_refused() {
    const NO_WRITER: &str = "no program writes to it";
    const NO_READER: &str = "no program reads from it";
    let servers = Servers::start();
    let processes: Vec<_> = [
        ("netperf <netperf> -l 1 -F <file>", "it is a FIFO"),
        ("netperf <netperf> -l 1 -- -k <file>", NO_WRITER),
        ("netserver -D -p <port> -Z @<file>", NO_WRITER),
        ("serve --auth <file>", NO_WRITER),
        ("iperf3 <iperf3> -t 1 -F <file>", "it is a FIFO"),
        ("iperf3 <iperf3> -t 1 -R -F <file>", NO_READER),
        ("iperf3 <iperf3> -t 1 -I <file>", NO_READER),
        (
            "iperf3 <iperf3> -t 1 --username u --rsa-public-key-path <file>",
            NO_WRITER,
        ),
        (
            "iperf3 -s -p <port> --rsa-private-key-path <file> --authorized-users-path <dir>/users",
            NO_WRITER,
        ),
        (
            "iperf3 -s -p <port> --rsa-private-key-path <key> --authorized-users-path <file>",
            NO_WRITER,
        ),
        ("uperf -m <file>", NO_WRITER),
        ("uperf --check <file>", NO_WRITER),
        ("uperf -s -P <port> --tls-cert <file>", NO_WRITER),
        ("histogram <file>", NO_WRITER),
        ("udpmon_bw_mon <udpmon> --packets <file>", NO_READER),
    ]
    .into_iter()
    .enumerate()
    .map(|(number, (line, reason))| {
        let fifo = create_fifo(servers.directory.path(), &number.to_string());
        let process = TestProcess::start(&mut servers.command(line, &fifo));
        (line, reason, process)
    })
    .collect();
    for (line, reason, process) in processes {
        let output = process.finish(TIMEOUT);
        assert_eq!(output.code, Some(1), "{line}: {output:?}");
        let text = [&*output.stdout, &output.stderr].concat();
        assert_eq!(text.matches(reason).count(), 1, "{line}: {output:?}");
    }
}

/// A FIFO or pipe is read until its end, the end of the test or a signal.
fn iperf_reads_streams_until_the_stop() {
    let servers = Servers::start();
    let fifo = create_fifo(servers.directory.path(), "fifo");
    for (line, signal) in [
        ("iperf <iperf> -t 1 -F <file>", None),
        ("iperf <iperf> -t 1 -I", None),
        ("iperf <iperf> -t 60 -F <file>", Some(Signal::INT)),
        ("iperf <iperf> -t 60 -I", Some(Signal::INT)),
        ("iperf <iperf> -t 60 -I", Some(Signal::TERM)),
    ] {
        let (input, _idle) = std::io::pipe().unwrap();
        let mut command = servers.command(line, &fifo);
        let process = TestProcess::start_with_input(&mut command, input.into());
        if let Some(signal) = signal {
            let is_connected = || process.stdout().contains("connected with");
            assert!(wait_until(TIMEOUT, is_connected), "{line}");
            process.signal(signal);
        }
        let output = process.finish(TIMEOUT);
        assert!(output.stdout.contains("Bytes"), "{line}: {output:?}");
    }
    for line in ["iperf <iperf> -F <file>", "iperf <iperf> -I"] {
        let (input, mut writer) = std::io::pipe().unwrap();
        let fifo = fifo.clone();
        let is_fifo = line.contains("-F");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut fifo_writer = is_fifo.then(|| fs::File::create(fifo).unwrap());
                let writer: &mut dyn Write = match &mut fifo_writer {
                    Some(fifo) => fifo,
                    None => &mut writer,
                };
                for _ in 0..2 {
                    writer.write_all(&vec![7; 1 << 20]).unwrap();
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
            let fifo = servers.directory.path().join("fifo");
            let mut command = servers.command(line, &fifo);
            let process = TestProcess::start_with_input(&mut command, input.into());
            let output = process.finish(TIMEOUT);
            assert_eq!(output.code, Some(0), "{line}: {output:?}");
            assert!(output.stdout.contains("2.00 MBytes"), "{line}: {output:?}");
        });
    }
}

fn pid_file_may_be_a_stream() {
    let servers = Servers::start();
    let command = |file| servers.command("iperf3 <iperf3> -t 1 -I <file>", Path::new(file));
    run(command("/dev/null"), TIMEOUT).unwrap().assert_success();
    let mut command = command("/dev/stdout");
    let (mut read, write) = std::io::pipe().unwrap();
    let mut child = command.stdout(write).spawn().unwrap();
    // The command keeps the pipe open.
    drop(command);
    let pid = child.id();
    let text = std::thread::spawn(move || std::io::read_to_string(&mut read).unwrap());
    let is_ended = wait_until(TIMEOUT, || matches!(child.try_wait(), Ok(Some(_))));
    let _ = child.kill();
    assert!(is_ended, "the client waits for its own pipe");
    let text = text.join().unwrap();
    assert!(text.starts_with(&pid.to_string()), "{text}");
}

/// A file that standard output is redirected to keeps its contents.
fn standard_output_is_not_emptied() {
    let servers = Servers::start();
    for line in [
        "iperf3 <iperf3> -t 1 -I <file>",
        "udpmon_bw_mon <udpmon> --packets <file>",
    ] {
        let mut redirected = tempfile::NamedTempFile::new().unwrap();
        redirected.write_all(b"before\n").unwrap();
        let mut command = servers.command(line, Path::new("/dev/stdout"));
        let file = fs::File::options().append(true).open(&redirected).unwrap();
        let status = command.stdout(file).status().unwrap();
        assert!(status.success(), "{line}: {status}");
        let text = fs::read_to_string(&redirected).unwrap();
        assert!(text.starts_with("before\n"), "{line}: {text}");
        assert!(text.lines().count() > 3, "{line}: {text}");
    }
    assert!(fs::symlink_metadata("/dev/stdout").is_ok());
}

fn full_device_is_reported() {
    const REASON: &str = "No space left on device";
    let servers = Servers::start();
    for line in [
        "netperf <netperf> -t TCP_RR -l 1 --histogram <file>",
        "netperf <netperf> -t TCP_RR -l 1 --html <file>",
        "run -t TCP_RR -l 1 --histogram <file>",
        "run -t TCP_RR -l 1 --html <file>",
        "iperf3 <iperf3> -t 1 --logfile <file>",
        "iperf3 <iperf3> -t 1 --linerate-json <file>",
        "iperf3 <iperf3> -t 1 --html <file>",
        "iperf3 <iperf3> -t 1 -R -F <file>",
        "iperf3 <iperf3> -t 1 -I <file>",
        "iperf <iperf> -t 1 -o <file>",
        "iperf <iperf> -t 1 --html <file>",
        "udpmon_bw_mon <udpmon> --packets <file>",
        "udpmon_bw_mon <udpmon> --html <file>",
        "uperf -m <dir>/nthreads <uperf> --html <file>",
        "uperf -m <dir>/nthreads <uperf> -X <file>",
        "uperf -m <dir>/nprocs <uperf> -X <file>",
    ] {
        let output = run(servers.command(line, Path::new("/dev/full")), TIMEOUT).unwrap();
        assert_eq!(output.code, Some(1), "{line}: {output:?}");
        let text = [&*output.stdout, &output.stderr].concat();
        assert!(text.contains(REASON), "{line}: {output:?}");
    }
    let line = "uperf -m <dir>/nthreads <uperf> --json -X <file>";
    let output = run(servers.command(line, Path::new("/dev/full")), TIMEOUT).unwrap();
    let document: serde_json::Value = serde_json::from_str(&output.stdout).expect("a document");
    assert_eq!(
        document["tests"][0]["error"],
        format!("first error: -X: {REASON}")
    );
}

/// Signals that end the process at once.
fn ended_process_leaves_no_file() {
    let servers = Servers::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    for line in [
        "netperf <netperf> -t TCP_RR -l 60 --histogram <file>",
        "netperf <netperf> -t TCP_RR -l 60 --html <file>",
        "iperf <iperf> -t 60 --html <file>",
    ] {
        for signal in [Signal::HUP, Signal::KILL] {
            let mut process = TestProcess::start(&mut servers.command(line, &file));
            process.wait_for_data_phase();
            process.signal(signal);
            process.finish(TIMEOUT);
            let names: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
            assert!(names.is_empty(), "{line}: {signal:?}: {names:?}");
        }
    }
}

fn text_of_files_is_escaped() {
    const TEXT: &str = "a\u{1b}[31mb\u{202e}";
    let directory = tempfile::tempdir().unwrap();
    let path_of = |name: &str| directory.path().join(name).display().to_string();
    let log = {
        let server = Server::start("");
        let line = format!(
            "netperf -H 127.0.0.1 -p {} -t TCP_RR -l 1 --histogram {}",
            server.port,
            path_of("log")
        );
        run(linerate_with_args(&line), TIMEOUT)
            .unwrap()
            .assert_success();
        fs::read_to_string(path_of("log")).unwrap()
    };
    let tag = log.split("Tag=").nth(1).unwrap().split(',').next().unwrap();
    let tagged = log.replace(&format!("Tag={tag},"), &format!("Tag={TEXT},"));
    fs::write(path_of("log"), tagged).unwrap();
    fs::write(path_of("selectors"), TEXT).unwrap();
    let listener = UnixListener::bind(path_of("socket")).unwrap();
    std::thread::spawn(move || {
        let text = TEXT.replace('\u{1b}', "\\u001b");
        let document = format!(
            r#"{{"version":"{text}","process":1,"started":"{text}","stopping":false,"tests":[
            {{"started":"2026-01-01T00:00:00Z","peer":"{text}","dialect":"{text}","test":"{text}",
            "seconds":1.0,"received_bytes":1,"sent_bytes":1,"bits_per_second":1.0,
            "overlapping_tests":0,"overlapped_with":[],"is_complete":false,"end":null}}]}}"#
        );
        // The last answer is no status.
        for answer in [&document, &document, &format!("\"{text}\"")] {
            let _ = listener.accept().unwrap().0.write_all(answer.as_bytes());
        }
    });
    for (line, code) in [
        (format!("histogram {}", path_of("log")), 0),
        (format!("histogram --json {}", path_of("log")), 0),
        (
            format!("netperf -H 127.0.0.1 -- -k {}", path_of("selectors")),
            1,
        ),
        (format!("status --status {}", path_of("socket")), 0),
        (format!("status --json --status {}", path_of("socket")), 0),
        (format!("status --status {}", path_of("socket")), 1),
    ] {
        let output = run(linerate_with_args(&line), TIMEOUT).unwrap();
        assert_eq!(output.code, Some(code), "{line}: {output:?}");
        let text = [&*output.stdout, &output.stderr].concat();
        assert!(text.contains("[31m"), "{line}: {output:?}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{line}: {output:?}");
    }
}
