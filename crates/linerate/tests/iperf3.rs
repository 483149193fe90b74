//! Options, signals and files of iperf3, and its output compared with stock.

pub(crate) mod compare;
mod ends;
mod matrix;
mod pairs;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::Requirement::Program;
use testkit::{
    Release, Server, StockPeer, TestCase, TestProcess, linerate_with_args, stock_with_args,
    without_pace_warnings,
};

/// Timeout of a short test on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = matrix::test_cases();
    test_cases.extend(ends::test_cases());
    test_cases.extend(pairs::test_cases());
    test_cases.extend(STOCK_VERSIONS.map(|stock| {
        let version = stock.version.replace('.', "_");
        let name = format!("accepts_only_valid_logins::{version}");
        stock.test_case(name, |stock| {
            accepts_only_valid_logins(stock);
            Ok(())
        })
    }));
    test_cases.push(NEWEST.test_case("usage_is_that_of_stock", usage_is_that_of_stock));
    test_cases.extend(testkit::test_cases![
        refuses_second_test_at_limit_of_one,
        reports_error_in_line_or_document,
        selects_stock_version,
        signals_end_test_with_results,
        hangup_ends_test_with_results,
        hangup_ends_other_programs,
        daemon_resolves_relative_paths,
        reports_block_above_segment_size,
        do_not_fragment_does_not_apply_to_ipv6,
        serves_beside_silent_and_invalid_clients,
        writes_linerate_json_and_html,
        timestamps_each_line,
        separates_debug_output_from_document,
        applies_socket_options,
        idle_timeout_does_not_end_test,
    ]);
    test_cases.extend(testkit::test_cases![needing &[Program("iperf3")];
        frees_client_port_for_next_test,
        transfers_file_unchanged,
    ]);
    test_cases
}

/// The versions of stock iperf3, oldest first.
pub(crate) const STOCK_VERSIONS: [StockPeer; 3] = [
    stock_version(Release::Debian12, "3.12"),
    stock_version(Release::Debian13, "3.18"),
    stock_version(Release::Unstable, "3.22"),
];

const NEWEST: StockPeer = STOCK_VERSIONS[2];

/// The password of the user that [`login_options`] creates.
const PASSWORD: &str = "rossi";

const fn stock_version(release: Release, version: &'static str) -> StockPeer {
    StockPeer {
        program: "iperf3",
        release,
        version,
    }
}

/// Builds a command of linerate or of the stock program from a line of arguments.
type CommandBuilder = fn(&str) -> Command;

/// As [`CommandBuilder`], with a selected version.
type VersionBuilder<'a> = &'a dyn Fn(&str) -> Command;

fn ours(line: &str) -> Command {
    linerate_with_args(&format!("iperf3 {line}"))
}

fn stock(line: &str) -> Command {
    stock_with_args("iperf3", line)
}

fn start_server(options: &str) -> Server {
    Server::start_with(|port| format!("iperf3 -s -p {port} {options}"))
}

fn refuses_second_test_at_limit_of_one() {
    let server = start_server("--max-tests 1");
    let line = format!("-c 127.0.0.1 -p {} -t 30 -b 1M", server.port);
    let mut first = TestProcess::start(&mut ours(&line));
    testkit::wait_until(TIMEOUT, || first.stdout().contains("connected to"));
    let second = testkit::run(ours(&line), TIMEOUT).unwrap();
    assert_eq!(second.code, Some(1));
    assert_eq!(
        second.stderr,
        "iperf3: error - the server is busy running a test. try again later\n"
    );
    assert!(first.is_running());
    first.signal(Signal::INT);
    assert_eq!(first.finish(TIMEOUT).code, Some(0));
    server.terminate();
}

fn reports_error_in_line_or_document() {
    let port = testkit::free_port();
    let refused = testkit::run(ours(&format!("-c 127.0.0.1 -p {port}")), TIMEOUT).unwrap();
    assert_eq!(refused.code, Some(1));
    let expected = "unable to connect to server - server may have stopped running or use a different port, firewall issue, etc.: Connection refused";
    assert_eq!(refused.stderr, format!("iperf3: error - {expected}\n"));
    let refused = testkit::run(ours(&format!("-c 127.0.0.1 -p {port} -J")), TIMEOUT).unwrap();
    assert_eq!(refused.code, Some(1));
    let json: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(json["error"], expected);
    assert_eq!(refused.stderr, "");
}

fn usage_is_that_of_stock(stock: StockPeer) -> Result<(), String> {
    let [stock, ours] = [stock.with_args("--help"), ours("--help")]
        .map(|command| testkit::run(command, TIMEOUT).unwrap().stdout);
    // Then stock names its home page.
    let end = stock
        .find("\niperf3 homepage")
        .ok_or("stock's text has changed")?;
    let is_same = ours.starts_with(&stock[..end]);
    is_same
        .then_some(())
        .ok_or(format!("{ours}\nstock:\n{stock}"))
}

/// The option precedes the environment variable. Both select the texts of a version.
fn selects_stock_version() {
    let port = testkit::free_port();
    let run = |options: &str, variable: &str| {
        let mut command = ours(&format!("{options} -c 127.0.0.1 -p {port}"));
        command.env("LINERATE_STOCK_VERSION", variable);
        testkit::run(command, TIMEOUT).unwrap()
    };
    let older = "iperf3: error - unable to connect to server: Connection refused\n";
    assert_eq!(run("--stock-version 3.12", "").stderr, older);
    assert_eq!(run("", "iperf=2.1.8,iperf3=3.12").stderr, older);
    assert_eq!(run("--stock-version=3.12", "iperf3=3.22").stderr, older);
    assert_ne!(run("", "netperf=2.7.0").stderr, older);
    for (options, variable, expected) in [
        (
            "--stock-version 3.9",
            "",
            "iperf3: --stock-version 3.9: '3.9' is not a known version of iperf3; known are 3.12, 3.18, 3.22\n",
        ),
        (
            "",
            "iperf3=3.9",
            "linerate: LINERATE_STOCK_VERSION: '3.9' is not a known version of iperf3; known are 3.12, 3.18, 3.22\n",
        ),
        (
            "",
            "netperf=2.6.0",
            "linerate: LINERATE_STOCK_VERSION: '2.6.0' is not a known version of netperf; known are 2.7.0, 2.7.1\n",
        ),
        (
            "",
            "uperf=1",
            "linerate: LINERATE_STOCK_VERSION: 'uperf' is not a program with several versions; those are iperf, iperf3, netperf\n",
        ),
    ] {
        let refused = run(options, variable);
        assert_eq!((refused.code, refused.stderr.as_str()), (Some(1), expected));
    }
}

fn signals_end_test_with_results() {
    let server = start_server("");
    let line = format!("-c 127.0.0.1 -p {} -t 30 -b 8M -l 8K -i 0.1", server.port);
    let client = TestProcess::start(&mut ours(&line));
    testkit::wait_until(TIMEOUT, || client.stdout().contains("Bytes"));
    client.signal(Signal::INT);
    let client = client.finish(TIMEOUT);
    assert_eq!(
        without_pace_warnings(&client.stderr),
        "iperf3: interrupt - the client has terminated by signal Interrupt(2)\n"
    );
    assert!(client.stdout.contains("  sender\n"), "{}", client.stdout);
    let has_reported = || {
        server.stdout().contains("  receiver\n")
            && server
                .stderr()
                .contains("iperf3: the client has terminated\n")
    };
    assert!(
        testkit::wait_until(TIMEOUT, has_reported),
        "{} {}",
        server.stdout(),
        server.stderr()
    );
    let client = TestProcess::start(&mut ours(&line));
    testkit::wait_until(TIMEOUT, || client.stdout().contains("Bytes"));
    server.signal(Signal::TERM);
    let client = client.finish(TIMEOUT);
    assert_eq!(
        without_pace_warnings(&client.stderr),
        "iperf3: error - the server has terminated\n"
    );
    assert_eq!(client.code, Some(1));
    let server = server.wait(TIMEOUT);
    assert_eq!(server.code, Some(0), "{}", server.stderr);
}

/// SIGHUP ends a client or a server as SIGINT does. A process that ignores it, as after nohup(1),
/// continues.
fn hangup_ends_test_with_results() {
    let server = start_server("");
    let line = format!("-c 127.0.0.1 -p {} -t 30 -b 8M -l 8K -i 0.1", server.port);
    let client = TestProcess::start(&mut ours(&line));
    testkit::wait_until(TIMEOUT, || client.stdout().contains("Bytes"));
    client.signal(Signal::HUP);
    let client = client.finish(TIMEOUT);
    assert_eq!(
        without_pace_warnings(&client.stderr),
        "iperf3: interrupt - the client has terminated by signal Hangup(1)\n"
    );
    assert_eq!(client.code, Some(0));
    assert!(client.stdout.contains("  sender\n"), "{}", client.stdout);
    let client = TestProcess::start(&mut ours(&line));
    testkit::wait_until(TIMEOUT, || client.stdout().contains("Bytes"));
    server.signal(Signal::HUP);
    let client = client.finish(TIMEOUT);
    assert_eq!(
        without_pace_warnings(&client.stderr),
        "iperf3: error - the server has terminated\n"
    );
    let server = server.wait(TIMEOUT);
    assert_eq!(server.code, Some(0), "{}", server.stderr);
    assert!(server.stdout.contains("  receiver\n"), "{}", server.stdout);

    let ignoring = Server::try_start_with(|port| {
        let program = testkit::linerate_path();
        let script = format!(
            "trap '' HUP; exec {} iperf3 -s -p {port}",
            program.display()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    });
    let ignoring = ignoring.unwrap();
    ignoring.signal(Signal::HUP);
    let line = format!("-c 127.0.0.1 -p {} -n 1M", ignoring.port);
    testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    ignoring.terminate();
}

/// SIGHUP ends the servers of other dialects at once, as in their stock programs.
fn hangup_ends_other_programs() {
    for arguments in [
        "iperf -s -p",
        "iperf -s -u -p",
        "netserver -D -p",
        "udpmon_resp -u",
    ] {
        let server = Server::start_with(|port| format!("{arguments} {port}"));
        server.signal(Signal::HUP);
        let server = server.wait(TIMEOUT);
        assert_eq!(server.code, None, "{arguments}: {server:#?}");
    }
}

/// A daemon resolves the paths of `-I`, `-F` and `--logfile` in the directory of its start. It
/// removes its PID file at its end.
fn daemon_resolves_relative_paths() {
    let directory = tempfile::tempdir().unwrap();
    let contents: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let [pid_path, sent_path, received_path] =
        ["relative.pid", "sent", "received"].map(|name| directory.path().join(name));
    std::fs::write(&sent_path, &contents).unwrap();
    let port = testkit::free_port();
    let start = |options: &str| {
        let mut command = ours(&format!("-s -D -p {port} {options}"));
        command.current_dir(directory.path());
        testkit::run(command, TIMEOUT).unwrap()
    };
    let refused = start("-I missing/relative.pid");
    assert_eq!(refused.code, Some(1));
    assert_eq!(
        refused.stderr,
        "iperf3: error - unable to write PID file missing/relative.pid: No such file or directory\n"
    );
    start("-I relative.pid -F received --logfile log").assert_success();
    let read_pid = || std::fs::read_to_string(&pid_path).unwrap_or_default();
    assert!(testkit::wait_until(TIMEOUT, || !read_pid().is_empty()));
    // As stock, without a newline.
    let pid: i32 = read_pid().parse().unwrap();
    let line = format!("-c 127.0.0.1 -p {port} -F {}", sent_path.display());
    testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    assert!(testkit::wait_until(TIMEOUT, || {
        std::fs::read(&received_path).is_ok_and(|received| received == contents)
    }));
    assert!(directory.path().join("log").exists());
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(testkit::wait_until(TIMEOUT, || !pid_path.exists()));
}

fn reports_block_above_segment_size() {
    let server = start_server("");
    let line = format!("-c 127.0.0.1 -p {} -u -n 60000 -l 60000", server.port);
    let client = testkit::run(ours(&line), TIMEOUT).unwrap();
    client.assert_success();
    let warning = "warning: UDP block size 60000 exceeds TCP MSS ";
    let end = ", may result in fragmentation / drops\n";
    assert!(
        client.stderr.starts_with(warning) && client.stderr.ends_with(end),
        "{}",
        client.stderr
    );
    server.terminate();
}

/// On loopback, the default block of a UDP test is larger than one packet. IPv6 fragments it.
fn do_not_fragment_does_not_apply_to_ipv6() {
    let server = start_server("");
    let line = format!(
        "-6 -c ::1 -p {} -u -n 65000 -l 65000 --dont-fragment",
        server.port
    );
    testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    server.terminate();
}

/// Two tests with the same `--cport` succeed without a pause. Stock clients bind their port without
/// SO_REUSEADDR, so TIME_WAIT must be at the server.
fn frees_client_port_for_next_test() {
    let server = start_server("");
    let port = server.port;
    let options = [
        "-n 1M",
        "-n 1M -R",
        "-t 1 -P 4",
        "-t 1 -R -P 4",
        "-t 1 --bidir -P 2",
        "-u -n 10K",
        "-u -n 10K -R",
    ];
    for options in options {
        for client in [stock as CommandBuilder, ours] {
            let line = format!("-c 127.0.0.1 -p {port} --cport {} {options}", free_ports());
            for _ in 0..2 {
                testkit::run(client(&line), TIMEOUT)
                    .unwrap()
                    .assert_success();
            }
        }
    }
    server.terminate();
}

/// Returns the first of 8 ports that no other test case uses: they are below those of
/// [`testkit::free_port`].
fn free_ports() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT_PORT: AtomicU16 = AtomicU16::new(21_100);
    NEXT_PORT.fetch_add(8, Ordering::Relaxed)
}

/// The server serves a test beside silent connections and clients with invalid parameters.
fn serves_beside_silent_and_invalid_clients() {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    let server = start_server("");
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let _silent: Vec<_> = (0..20).map(|_| connect()).collect();
    for (text, code) in [
        (r#"{"parallel":129}"#, 6),
        (r#"{"len":"x"}"#, 7),
        (r#"{"time":1e99}"#, 5),
        ("nonsense", 114),
    ] {
        let mut client = connect();
        client.write_all(&[b'a'; 36]).unwrap();
        client.write_all(&[0]).unwrap();
        let mut state = [0];
        client.read_exact(&mut state).unwrap();
        assert_eq!(state, [9]);
        client
            .write_all(&(text.len() as u32).to_be_bytes())
            .unwrap();
        client.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(answer[..5], [0xfe, 0, 0, 0, code], "{text}");
    }
    let line = format!("-c 127.0.0.1 -p {} -n 1M", server.port);
    testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    server.terminate();
}

/// Creates a file of a user in the directory. Returns the options of a server and of a client for
/// logins of that user.
fn login_options(directory: &Path) -> [String; 2] {
    use sha2::{Digest, Sha256};

    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../iperf3/src/login");
    let users = directory.join("users");
    let digest = Sha256::digest(format!("{{mario}}{PASSWORD}"));
    std::fs::write(&users, format!("mario,{digest:x}\n")).unwrap();
    let users = users.display();
    [
        format!("--rsa-private-key-path {keys}/private.pem --authorized-users-path {users}"),
        format!("--username mario --rsa-public-key-path {keys}/public.pem"),
    ]
}

/// linerate logs in to linerate and stock servers, and accepts logins of both. Stock has the older
/// padding.
fn accepts_only_valid_logins(stock: StockPeer) {
    let directory = tempfile::tempdir().unwrap();
    let [server_login, client_login] = login_options(directory.path());
    let ours = |line: &str| ours(&format!("--stock-version {} {line}", stock.version));
    let stock = |line: &str| stock.with_args(line);
    let (ours, stock): (VersionBuilder<'_>, VersionBuilder<'_>) = (&ours, &stock);
    let pairs = [(stock, stock), (ours, stock), (stock, ours), (ours, ours)];
    let mut expected_errors = None;
    for (pair, (server, client)) in pairs.into_iter().enumerate() {
        let server_process =
            Server::try_start_with(|port| server(&format!("-s -p {port} {server_login}")));
        let server_process = server_process.unwrap_or_else(|error| panic!("{error}"));
        let line = format!(
            "-c 127.0.0.1 -p {} -n 100K {client_login}",
            server_process.port
        );
        for (password, code) in [(PASSWORD, 0), ("verdi", 1)] {
            let mut client = client(&line);
            client.env("IPERF3_PASSWORD", password);
            let output = testkit::run(client, TIMEOUT).unwrap();
            assert_eq!(output.code, Some(code), "{output:?}");
            if code == 1 {
                let expected = expected_errors.get_or_insert_with(|| output.stderr.clone());
                // A stock server may answer with the error of an earlier connection, such as the one
                // that only tried its port.
                let is_leftover = pair == 2
                    && output
                        .stderr
                        .starts_with("iperf3: SERVER ERROR - unable to re");
                if !is_leftover {
                    assert_eq!(output.stderr, *expected, "pair {pair}");
                }
            }
        }
    }
}

/// linerate writes its own JSON document and HTML page.
fn writes_linerate_json_and_html() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let server = start_server("");
    let line = format!(
        "-c 127.0.0.1 -p {} -P 2 --bidir -n 2M --linerate-json - --html {} --logfile /dev/null",
        server.port,
        page.display()
    );
    let output = testkit::run(ours(&line), TIMEOUT).unwrap();
    output.assert_success();
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json["tests"][0]["name"], "iperf3 TCP");
    assert!(std::fs::read_to_string(page).unwrap().contains("iperf3"));
    server.terminate();
}

/// A file arrives unchanged in both directions, and both ends print the same as stock.
fn transfers_file_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let sent_path = directory.path().join("sent");
    let received_path = directory.path().join("received");
    let contents: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&sent_path, &contents).unwrap();
    let (sent, received) = (sent_path.display(), received_path.display());
    // A stock server writes only data that it has read before the client's end message.
    for (server, client, options) in [
        (ours as CommandBuilder, ours as CommandBuilder, ""),
        (ours, stock, ""),
        (ours, ours, "-R -t 1"),
        (stock, ours, "-R -t 1"),
        (ours, stock, "-R -t 1"),
    ] {
        let _ = std::fs::remove_file(&received_path);
        let (server_options, client_options) = match options {
            "" => (format!("-F {received}"), format!("-F {sent}")),
            _ => (format!("-F {sent}"), format!("-F {received} {options}")),
        };
        let server_process =
            Server::try_start_with(|port| server(&format!("-s -1 -p {port} {server_options}")));
        let server_process = server_process.unwrap_or_else(|error| panic!("{error}"));
        let line = format!(
            "-c 127.0.0.1 -i 0 -p {} {client_options}",
            server_process.port
        );
        let output = testkit::run(client(&line), TIMEOUT).unwrap();
        output.assert_success();
        let server = server_process.wait(TIMEOUT);
        assert!(std::fs::read(&received_path).unwrap() == contents, "{line}");
        for text in [&output.stdout, &server.stdout] {
            assert!(
                text.contains("        Sent 1.14 MByte / 1.14 MByte (100%) of "),
                "{text}"
            );
        }
    }
    let server_process = start_server(&format!("-1 -F {received}"));
    let line = format!("-c 127.0.0.1 -J -p {} -F {sent}", server_process.port);
    let output = testkit::run(ours(&line), TIMEOUT).unwrap();
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    let expected = format!(
        r#"{{"sent": 1200000, "received": 1200000, "size": 1200000, "percent_sent": 100, "percent_received": 100, "filename": "{sent}"}}"#
    );
    let expected: Value = serde_json::from_str(&expected).unwrap();
    assert_eq!(json["end"]["streams"][0]["diskfile"], expected);
    server_process.wait(TIMEOUT);
    for (options, error) in [
        (
            "-F /nonexistent",
            "unable to open -F file: No such file or directory",
        ),
        ("-F /dev/null", "unable to open -F file: it is empty"),
    ] {
        let server_process = start_server("-1");
        let line = format!("-c 127.0.0.1 -p {} {options}", server_process.port);
        let refused = testkit::run(ours(&line), TIMEOUT).unwrap();
        assert_eq!(refused.stderr, format!("iperf3: error - {error}\n"));
        assert_eq!(refused.code, Some(1));
        server_process.terminate();
    }
}

/// Each line of both ends starts with the time, and each line of the client also with the title.
fn timestamps_each_line() {
    let options = "-i 0 --timestamps=%Y|";
    let server_process = start_server(&format!("-1 -V {options}"));
    let line = format!(
        "-c 127.0.0.1 -p {} -n 100K -T title {options} --get-server-output",
        server_process.port
    );
    let output = testkit::run(ours(&line), TIMEOUT).unwrap();
    output.assert_success();
    let (start, end) = output.stdout.split_once("Server output:\n").unwrap();
    let (server_output, end) = end.split_once("\n\n").unwrap();
    let is_stamped = |line: &str, title: &str| {
        let has_year = line
            .get(..4)
            .is_some_and(|year| year.parse::<u16>().is_ok());
        has_year && line[4..].starts_with(&format!("|{title}"))
    };
    assert!(
        start
            .lines()
            .chain(end.lines())
            .all(|line| is_stamped(line, "title:  ")),
        "{start}"
    );
    assert!(
        server_output.lines().all(|line| is_stamped(line, "")),
        "{server_output}"
    );
    let server = server_process.wait(TIMEOUT).stdout;
    assert!(server.lines().all(|line| is_stamped(line, "")), "{server}");
    let refused = format!("-c 127.0.0.1 -p {} --timestamps=%%", testkit::free_port());
    let refused = testkit::run(ours(&refused), TIMEOUT).unwrap();
    assert!(
        refused.stderr.starts_with("%iperf3: error - "),
        "{refused:?}"
    );
}

/// With `-d`, linerate prints the messages of the control connection. With `-J`, it prints them to
/// standard error.
fn separates_debug_output_from_document() {
    let server_process = start_server("-d");
    let line = format!("-c 127.0.0.1 -p {} -n 100K -d", server_process.port);
    let text = testkit::run(ours(&line), TIMEOUT).unwrap();
    let json = testkit::run(ours(&format!("{line} -J")), TIMEOUT).unwrap();
    serde_json::from_str::<Value>(&json.stdout).unwrap();
    let server = server_process.terminate().stdout;
    for (text, messages) in [
        (
            &text.stdout,
            ["send_parameters:\n{\n\t\"tcp\":\ttrue,", "get_results\n{"],
        ),
        (
            &json.stderr,
            ["send_parameters:\n{\n\t\"tcp\":\ttrue,", "get_results\n{"],
        ),
        (
            &server,
            ["get_parameters:\n{\n\t\"tcp\":\ttrue,", "send_results\n{"],
        ),
    ] {
        for message in messages {
            assert!(text.contains(message), "{message}: {text}");
        }
    }
}

/// Flow labels, Multipath TCP, and unavailable options.
fn applies_socket_options() {
    let server = start_server("");
    for protocol in ["", "-u"] {
        let line = format!(
            "-6 -c ::1 -p {} -t 30 -b 1M -L 0x12345 {protocol}",
            server.port
        );
        let mut client = TestProcess::start(&mut ours(&line));
        testkit::wait_until(TIMEOUT, || client.stdout().contains("connected to"));
        let labels = std::fs::read_to_string("/proc/thread-self/net/ip6_flowlabel").unwrap();
        assert!(
            labels.lines().any(|line| line.starts_with("12345 ")),
            "{labels}"
        );
        assert!(client.is_running());
        client.signal(Signal::INT);
        client.finish(TIMEOUT);
    }
    let run_client = |options: &str| {
        let line = format!("-c 127.0.0.1 -p {} -n 100K {options}", server.port);
        testkit::run(ours(&line), TIMEOUT).unwrap()
    };
    for (options, error) in [
        ("-L 5", "unable to set IPv6 flow label: not an IPv6 address"),
        ("-A 1000", "unable to set CPU affinity: Invalid argument"),
        ("-A ,1000", "unable to set CPU affinity: Invalid argument"),
        (
            "--bind-dev nosuch0",
            "unable to bind to device: No such device",
        ),
    ] {
        let refused = run_client(options);
        let mut expected = format!("iperf3: error - {error}\n");
        if options == "-A ,1000" {
            expected.insert_str(0, &format!("iperf3: SERVER ERROR - {error}\n"));
        }
        assert_eq!(refused.stderr, expected, "{options}");
        assert_eq!(refused.code, Some(1));
    }
    let mptcp = std::fs::read_to_string("/proc/sys/net/mptcp/enabled");
    if mptcp.is_ok_and(|value| value == "1\n") {
        run_client("-m -S 8 -N -M 1000 -C cubic -w 100K -Z").assert_success();
        let multipath = run_client("-m --linerate-json - --cntl-ka=10/2/3");
        multipath.assert_success();
        assert!(
            multipath.stdout.contains("\"multipath\": true"),
            "{}",
            multipath.stdout
        );
    }
    server.terminate();
}

/// The idle timeout of a server with one test ends when the test starts.
fn idle_timeout_does_not_end_test() {
    loop {
        let server = start_server("-1 --idle-timeout 1");
        let line = format!("-c 127.0.0.1 -p {} -b 1M -t 2", server.port);
        let client = testkit::run(ours(&line), TIMEOUT).unwrap();
        server.wait(TIMEOUT).assert_success();
        // On a busy machine the client may start too late.
        if !client.stderr.contains("Connection refused") {
            return client.assert_success();
        }
    }
}
