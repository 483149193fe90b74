//! iperf3 against the stock one of Debian 12, in both roles: the same text and the same documents, but for the figures.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{
    ProcessOutput, Server, TestCase, TestProcess, linerate_with_args, stock_with_args,
    test_case_unless,
};

/// How long a test of half a second may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Options, which both makes of client get. The rates are small, so that a busy machine holds them.
const CASES: [(&str, &str); 14] = [
    ("tcp", "-b 8M -l 16K -t 1 -i 0.5"),
    ("reverse", "-R -b 8M -l 16K -t 1 -i 0.5"),
    ("bidir", "--bidir -b 8M -l 16K -t 1 -i 0.5"),
    ("parallel", "-P 3 -b 8M -l 16K -t 1 -i 0.5"),
    ("bidir_parallel", "--bidir -P 2 -b 8M -l 16K -t 1 -i 0.5"),
    ("bytes", "-n 4M"),
    ("blocks_reverse", "-k 20 -R"),
    ("omit", "-O 1 -b 8M -l 16K -t 1 -i 0.5"),
    ("zero_copy", "-Z -b 8M -l 16K -t 1 -i 0.5"),
    ("udp", "-u -b 8M -l 1000 -t 1 -i 0.5"),
    ("udp_reverse", "-u -R -b 8M -l 1000 -t 1 -i 0.5"),
    ("udp_bidir", "-u --bidir -b 8M -l 1000 -t 1 -i 0.5"),
    (
        "udp_parallel",
        "-u -P 2 -b 8M -l 1000 -t 1 -i 0.5 --udp-counters-64bit",
    ),
    ("ipv6", "-6 -b 8M -l 16K -t 1 -i 0.5"),
];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let missing = || {
        let found = stock_with_args("iperf3", "-v").output();
        found
            .err()
            .map(|_| "iperf3 of Debian 12 is not installed".to_owned())
    };
    let mut test_cases = Vec::new();
    for (name, options) in CASES {
        for (form, option) in [("text", ""), ("verbose", "-V"), ("json", "-J")] {
            let case = move || matrix(options, option);
            test_cases.push(
                test_case_unless(missing(), format!("matrix::{name}::{form}"), case).allow_many(),
            );
        }
    }
    test_cases.extend(testkit::test_cases![
        a_second_test_is_refused_where_one_is_the_limit,
        errors_are_one_line_and_one_document,
        signals_end_a_test_with_its_results,
        silent_and_nonsense_clients_hold_nothing_up,
        logins,
        reports,
        files,
        lines_begin_with_the_time,
        debugging_output_is_beside_the_document,
        sockets_have_what_was_asked_for,
        an_idle_timeout_ends_no_test,
    ]);
    test_cases
}

/// What the two programs of a test printed.
struct Pair {
    client: ProcessOutput,
    server: ProcessOutput,
}

fn pair(
    server: fn(&str) -> Command,
    client: fn(&str) -> Command,
    options: &str,
    form: &str,
) -> Pair {
    let running = Server::try_start_with(|port| server(&format!("-s -1 -i 0.5 -p {port} {form}")));
    let running = running.unwrap_or_else(|error| panic!("{error}"));
    let host = if options.starts_with("-6") {
        "::1"
    } else {
        "127.0.0.1"
    };
    let line = format!("-c {host} -p {} {options} {form}", running.port);
    let client = testkit::run(client(&line), PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    Pair {
        client,
        server: running.wait(PATIENCE),
    }
}

fn ours(line: &str) -> Command {
    linerate_with_args(&format!("iperf3 {line}"))
}

fn theirs(line: &str) -> Command {
    stock_with_args("iperf3", line)
}

/// Ours has the place of each role, and of both, and prints what the control prints.
fn matrix(options: &str, form: &str) -> Result<(), String> {
    let control = pair(theirs, theirs, options, form);
    for (name, found) in [
        ("our server", pair(ours, theirs, options, form)),
        ("our client", pair(theirs, ours, options, form)),
        ("both ours", pair(ours, ours, options, form)),
    ] {
        for (role, found, control) in [
            ("client", &found.client, &control.client),
            ("server", &found.server, &control.server),
        ] {
            found.assert_success();
            let same = if form == "-J" {
                shape(&found.stdout) == shape(&control.stdout)
            } else {
                masked(&found.stdout) == masked(&control.stdout)
            };
            if !same {
                return Err(format!(
                    "{name}, {role}:\n{}\ncontrol:\n{}",
                    found.stdout, control.stdout
                ));
            }
        }
    }
    Ok(())
}

/// The lines of a text without figures and without units that depend on them, each once: how many intervals there are is
/// chance on a busy machine.
fn masked(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines().map(mask) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn mask(line: &str) -> String {
    // Stock prints the sender's columns of a receiver's intervals if its first interval ends after the test.
    let line = line.strip_suffix("         Retr  Cwnd").unwrap_or(line);
    if line.starts_with("Linux ") || line.starts_with("Time: ") || line.contains("Cookie: ") {
        return line
            .split(' ')
            .take(7)
            .filter(|word| !word.is_empty())
            .take(1)
            .collect();
    }
    let mut text = String::new();
    for word in line.split_whitespace() {
        let digits = word.chars().any(|c| c.is_ascii_digit());
        let unit = ["KBytes", "MBytes", "GBytes"].contains(&word);
        let rate = word.ends_with("bits/sec");
        text += match (digits, unit, rate) {
            (true, ..) => "#",
            (_, true, _) => "Bytes",
            (_, _, true) => "bits/sec",
            _ => word,
        };
        text.push(' ');
    }
    text
}

/// The paths of all members of a document, but for those that linerate adds.
fn shape(text: &str) -> BTreeSet<String> {
    let json: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut paths = BTreeSet::new();
    walk(&json, String::new(), &mut paths);
    paths
}

fn walk(json: &Value, path: String, paths: &mut BTreeSet<String>) {
    match json {
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| *key != "smoothed_rtt_us") {
                walk(value, format!("{path}.{key}"), paths);
            }
        }
        Value::Array(items) => {
            for item in items {
                walk(item, format!("{path}[]"), paths);
            }
        }
        Value::String(_) => drop(paths.insert(path + " text")),
        Value::Number(_) => drop(paths.insert(path + " number")),
        _ => drop(paths.insert(path + " other")),
    }
}

fn server(options: &str) -> Server {
    Server::start_with(|port| format!("iperf3 -s -p {port} {options}"))
}

fn a_second_test_is_refused_where_one_is_the_limit() {
    let server = server("--max-tests 1");
    let line = format!("-c 127.0.0.1 -p {} -t 30 -b 1M", server.port);
    let mut first = TestProcess::start(&mut ours(&line));
    testkit::wait_until(PATIENCE, || first.stdout().contains("connected to"));
    let second = testkit::run(ours(&line), PATIENCE).unwrap();
    assert_eq!(second.code, Some(1));
    assert_eq!(
        second.stderr,
        "iperf3: error - the server is busy running a test. try again later\n"
    );
    assert!(first.is_running());
    first.signal(Signal::INT);
    assert_eq!(first.finish(PATIENCE).code, Some(0));
    server.terminate();
}

fn errors_are_one_line_and_one_document() {
    let port = testkit::free_port();
    let refused = testkit::run(ours(&format!("-c 127.0.0.1 -p {port}")), PATIENCE).unwrap();
    assert_eq!(refused.code, Some(1));
    let expected = "iperf3: error - unable to connect to server: Connection refused\n";
    assert_eq!(refused.stderr, expected);
    let refused = testkit::run(ours(&format!("-c 127.0.0.1 -p {port} -J")), PATIENCE).unwrap();
    assert_eq!(refused.code, Some(1));
    let json: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(
        json["error"],
        "unable to connect to server: Connection refused"
    );
    assert_eq!(refused.stderr, "");
}

fn signals_end_a_test_with_its_results() {
    let server = server("");
    let line = format!("-c 127.0.0.1 -p {} -t 30 -b 8M -l 8K -i 0.1", server.port);
    let client = TestProcess::start(&mut ours(&line));
    testkit::wait_until(PATIENCE, || client.stdout().contains("Bytes"));
    client.signal(Signal::INT);
    let client = client.finish(PATIENCE);
    assert_eq!(
        client.stderr,
        "iperf3: interrupt - the client has terminated\n"
    );
    assert!(client.stdout.contains("  sender\n"), "{}", client.stdout);
    testkit::wait_until(PATIENCE, || server.stdout().contains("  receiver\n"));
    testkit::wait_until(PATIENCE, || {
        server
            .stderr()
            .contains("iperf3: the client has terminated\n")
    });
    let client = TestProcess::start(&mut ours(&line));
    testkit::wait_until(PATIENCE, || client.stdout().contains("Bytes"));
    server.signal(Signal::TERM);
    let client = client.finish(PATIENCE);
    assert_eq!(client.stderr, "iperf3: error - the server has terminated\n");
    assert_eq!(client.code, Some(1));
    let server = server.wait(PATIENCE);
    assert_eq!(server.code, Some(0), "{}", server.stderr);
}

/// Connections without a word, and parameters without sense, beside which a test runs as ever.
fn silent_and_nonsense_clients_hold_nothing_up() {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    let server = server("");
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
    testkit::run(ours(&line), PATIENCE)
        .unwrap()
        .assert_success();
    server.terminate();
}

/// Both ends log in and serve logins, beside a stock end, which has the older padding, and beside each other.
fn logins() {
    use sha2::{Digest, Sha256};

    let Ok(_) = stock_with_args("iperf3", "-v").output() else {
        return;
    };
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../iperf3/src/login");
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users");
    let digest = Sha256::digest("{mario}rossi");
    std::fs::write(&users, format!("mario,{digest:x}\n")).unwrap();
    for (server, client) in [
        (ours as fn(&str) -> Command, theirs as fn(&str) -> Command),
        (theirs, ours),
        (ours, ours),
    ] {
        let users = users.display();
        let running = Server::try_start_with(|port| {
            let login = format!(
                "--rsa-private-key-path {keys}/private.pem --authorized-users-path {users}"
            );
            server(&format!("-s -p {port} {login}"))
        });
        let running = running.unwrap_or_else(|error| panic!("{error}"));
        let login = format!("--username mario --rsa-public-key-path {keys}/public.pem");
        let line = format!("-c 127.0.0.1 -p {} -n 100K {login}", running.port);
        for (password, code) in [("rossi", 0), ("verdi", 1)] {
            let mut client = client(&line);
            client.env("IPERF3_PASSWORD", password);
            let finished = testkit::run(client, PATIENCE).unwrap();
            assert_eq!(finished.code, Some(code), "{finished:?}");
        }
    }
}

/// Our own document and page have the figures of all streams.
fn reports() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let server = server("");
    let line = format!(
        "-c 127.0.0.1 -p {} -P 2 --bidir -n 2M --linerate-json - --html {} --logfile /dev/null",
        server.port,
        page.display()
    );
    let finished = testkit::run(ours(&line), PATIENCE).unwrap();
    finished.assert_success();
    let json: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(json["tests"][0]["name"], "iperf3 TCP");
    assert!(std::fs::read_to_string(page).unwrap().contains("iperf3"));
    server.terminate();
}

/// A file arrives as it was, in both directions, and both ends print what stock prints.
fn files() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    let contents: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&from, &contents).unwrap();
    let (from, to) = (from.display(), to.display());
    // A stock server writes only what it has read before the client's end message.
    for (server, client, options) in [
        (ours as fn(&str) -> Command, ours as fn(&str) -> Command, ""),
        (ours, theirs, ""),
        (ours, ours, "-R -t 1"),
        (theirs, ours, "-R -t 1"),
        (ours, theirs, "-R -t 1"),
    ] {
        if stock_with_args("iperf3", "-v").output().is_err()
            && [server, client].contains(&(theirs as _))
        {
            continue;
        }
        let _ = std::fs::remove_file(to.to_string());
        let (sends, receives) = match options {
            "" => (format!("-F {to}"), format!("-F {from}")),
            _ => (format!("-F {from}"), format!("-F {to} {options}")),
        };
        let running = Server::try_start_with(|port| server(&format!("-s -1 -p {port} {sends}")));
        let running = running.unwrap_or_else(|error| panic!("{error}"));
        let line = format!("-c 127.0.0.1 -i 0 -p {} {receives}", running.port);
        let finished = testkit::run(client(&line), PATIENCE).unwrap();
        finished.assert_success();
        let server = running.wait(PATIENCE);
        assert!(std::fs::read(to.to_string()).unwrap() == contents, "{line}");
        for text in [&finished.stdout, &server.stdout] {
            assert!(
                text.contains("        Sent 1.14 MByte / 1.14 MByte (100%) of "),
                "{text}"
            );
        }
    }
    let running = server(&format!("-1 -F {to}"));
    let line = format!("-c 127.0.0.1 -J -p {} -F {from}", running.port);
    let finished = testkit::run(ours(&line), PATIENCE).unwrap();
    let json: Value = serde_json::from_str(&finished.stdout).unwrap();
    let expected = format!(
        r#"{{"sent": 1200000, "received": 1200000, "size": 1200000, "percent_sent": 100, "percent_received": 100, "filename": "{from}"}}"#
    );
    let expected: Value = serde_json::from_str(&expected).unwrap();
    assert_eq!(json["end"]["streams"][0]["diskfile"], expected);
    running.wait(PATIENCE);
    for (options, why) in [
        (
            "-F /nonexistent",
            "unable to open -F file: No such file or directory",
        ),
        ("-F /dev/null", "unable to open -F file: it is empty"),
    ] {
        let running = server("-1");
        let line = format!("-c 127.0.0.1 -p {} {options}", running.port);
        let refused = testkit::run(ours(&line), PATIENCE).unwrap();
        assert_eq!(refused.stderr, format!("iperf3: error - {why}\n"));
        assert_eq!(refused.code, Some(1));
        running.terminate();
    }
}

/// Of both ends each line has the time before it, and the title after that.
fn lines_begin_with_the_time() {
    let format = "-i 0 --timestamps=%Y|";
    let running = server(&format!("-1 -V {format}"));
    let line = format!(
        "-c 127.0.0.1 -p {} -n 100K -T title {format} --get-server-output",
        running.port
    );
    let finished = testkit::run(ours(&line), PATIENCE).unwrap();
    finished.assert_success();
    let (own, rest) = finished.stdout.split_once("Server output:\n").unwrap();
    let (servers, end) = rest.split_once("\n\n").unwrap();
    let is_stamped = |line: &str, title: &str| {
        let year = line
            .get(..4)
            .is_some_and(|year| year.parse::<u16>().is_ok());
        year && line[4..].starts_with(&format!("|{title}"))
    };
    assert!(
        own.lines()
            .chain(end.lines())
            .all(|line| is_stamped(line, "title:  ")),
        "{own}"
    );
    assert!(
        servers.lines().all(|line| is_stamped(line, "")),
        "{servers}"
    );
    let server = running.wait(PATIENCE).stdout;
    assert!(server.lines().all(|line| is_stamped(line, "")), "{server}");
    let refused = format!("-c 127.0.0.1 -p {} --timestamps=%%", testkit::free_port());
    let refused = testkit::run(ours(&refused), PATIENCE).unwrap();
    assert!(
        refused.stderr.starts_with("%iperf3: error - "),
        "{refused:?}"
    );
}

/// The messages of the control connection are printed, but not into a document.
fn debugging_output_is_beside_the_document() {
    let running = server("-d");
    let line = format!("-c 127.0.0.1 -p {} -n 100K -d", running.port);
    let text = testkit::run(ours(&line), PATIENCE).unwrap();
    let json = testkit::run(ours(&format!("{line} -J")), PATIENCE).unwrap();
    serde_json::from_str::<Value>(&json.stdout).unwrap();
    let server = running.terminate().stdout;
    for (text, words) in [
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
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

/// A flow label, Multipath TCP, and what cannot be had.
fn sockets_have_what_was_asked_for() {
    let server = server("");
    for protocol in ["", "-u"] {
        let line = format!(
            "-6 -c ::1 -p {} -t 30 -b 1M -L 0x12345 {protocol}",
            server.port
        );
        let mut client = TestProcess::start(&mut ours(&line));
        testkit::wait_until(PATIENCE, || client.stdout().contains("connected to"));
        let labels = std::fs::read_to_string("/proc/thread-self/net/ip6_flowlabel").unwrap();
        assert!(
            labels.lines().any(|line| line.starts_with("12345 ")),
            "{labels}"
        );
        assert!(client.is_running());
        client.signal(Signal::INT);
        client.finish(PATIENCE);
    }
    let asked = |options: &str| {
        let line = format!("-c 127.0.0.1 -p {} -n 100K {options}", server.port);
        testkit::run(ours(&line), PATIENCE).unwrap()
    };
    for (options, why) in [
        ("-L 5", "unable to set IPv6 flow label: not an IPv6 address"),
        ("-A 1000", "unable to set CPU affinity: Invalid argument"),
        ("-A ,1000", "unable to set CPU affinity: Invalid argument"),
        (
            "--bind-dev nosuch0",
            "unable to bind to device: No such device",
        ),
    ] {
        let refused = asked(options);
        assert_eq!(
            refused.stderr,
            format!("iperf3: error - {why}\n"),
            "{options}"
        );
        assert_eq!(refused.code, Some(1));
    }
    let is_on = std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|on| on == "1\n");
    if is_on {
        asked("-m -S 8 -N -M 1000 -C cubic -w 100K -Z").assert_success();
        let multipath = asked("-m --linerate-json - --cntl-ka=10/2/3");
        multipath.assert_success();
        assert!(
            multipath.stdout.contains("\"multipath\": true"),
            "{}",
            multipath.stdout
        );
    }
    server.terminate();
}

/// The time that a server waits for its one test is over when that begins.
fn an_idle_timeout_ends_no_test() {
    loop {
        let server = server("-1 --idle-timeout 1");
        let line = format!("-c 127.0.0.1 -p {} -b 1M -t 2", server.port);
        let client = testkit::run(ours(&line), PATIENCE).unwrap();
        server.wait(PATIENCE).assert_success();
        // On a busy machine it may come too late.
        if !client.stderr.contains("Connection refused") {
            return client.assert_success();
        }
    }
}
