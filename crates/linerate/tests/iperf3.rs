//! iperf3 against the stock one of Debian 12, in both roles: the same text and the same documents, but for the figures.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Finished, Process, Server, Trial, linerate, stock, unless};

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

pub(crate) fn trials() -> Vec<Trial> {
    let missing = || {
        let found = stock("iperf3", "-v").output();
        found
            .err()
            .map(|_| "iperf3 of Debian 12 is not installed".to_owned())
    };
    let mut trials = Vec::new();
    for (name, options) in CASES {
        for (form, option) in [("text", ""), ("verbose", "-V"), ("json", "-J")] {
            let case = move || matrix(options, option);
            trials.push(unless(missing(), format!("matrix::{name}::{form}"), case).waiting());
        }
    }
    trials.extend(testkit::trials![
        many_clients_at_once,
        a_second_test_is_refused_where_one_is_the_limit,
        errors_are_one_line_and_one_document,
        signals_end_a_test_with_its_results,
        silent_and_nonsense_clients_hold_nothing_up,
        logins,
        reports,
    ]);
    trials
}

/// What the two programs of a test printed.
struct Pair {
    client: Finished,
    server: Finished,
}

fn pair(
    server: fn(&str) -> Command,
    client: fn(&str) -> Command,
    options: &str,
    form: &str,
) -> Pair {
    let running = Server::of(|port| server(&format!("-s -1 -i 0.5 -p {port} {form}")));
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
        server: running.ended(PATIENCE),
    }
}

fn ours(line: &str) -> Command {
    linerate(&format!("iperf3 {line}"))
}

fn theirs(line: &str) -> Command {
    stock("iperf3", line)
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
            found.succeeded();
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
    Server::with(|port| format!("iperf3 -s -p {port} {options}"))
}

/// Stock clients in mixed directions, all at one port and at one time.
fn many_clients_at_once() {
    let Ok(_) = stock("iperf3", "-v").output() else {
        return;
    };
    let server = server("");
    let directions = [
        "",
        "-R",
        "--bidir",
        "-u -l 1000 -b 1M",
        "-u -l 1000 -b 1M -R",
    ];
    let clients: Vec<_> = (0..50)
        .map(|at| {
            let options = directions[at % directions.len()];
            let rate = if options.contains("-b") { "" } else { "-b 1M" };
            let line = format!(
                "-c 127.0.0.1 -p {} -t 1 -l 1000 {rate} {options}",
                server.port
            );
            Process::start(&mut theirs(&line))
        })
        .collect();
    for client in clients {
        client.finish(PATIENCE).succeeded();
    }
    let printed = server.terminate();
    assert_eq!(printed.stdout.matches("Accepted connection").count(), 50);
}

fn a_second_test_is_refused_where_one_is_the_limit() {
    let server = server("--max-tests 1");
    let line = format!("-c 127.0.0.1 -p {} -t 30 -b 1M", server.port);
    let mut first = Process::start(&mut ours(&line));
    testkit::eventually(PATIENCE, || first.stdout().contains("connected to"));
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
    let client = Process::start(&mut ours(&line));
    testkit::eventually(PATIENCE, || client.stdout().contains("Bytes"));
    client.signal(Signal::INT);
    let client = client.finish(PATIENCE);
    assert_eq!(
        client.stderr,
        "iperf3: interrupt - the client has terminated\n"
    );
    assert!(client.stdout.contains("  sender\n"), "{}", client.stdout);
    testkit::eventually(PATIENCE, || server.stdout().contains("  receiver\n"));
    testkit::eventually(PATIENCE, || {
        server
            .stderr()
            .contains("iperf3: the client has terminated\n")
    });
    let client = Process::start(&mut ours(&line));
    testkit::eventually(PATIENCE, || client.stdout().contains("Bytes"));
    server.signal(Signal::TERM);
    let client = client.finish(PATIENCE);
    assert_eq!(client.stderr, "iperf3: error - the server has terminated\n");
    assert_eq!(client.code, Some(1));
    let server = server.ended(PATIENCE);
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
    testkit::run(ours(&line), PATIENCE).unwrap().succeeded();
    server.terminate();
}

/// Both ends log in and serve logins, beside a stock end, which has the older padding, and beside each other.
fn logins() {
    use sha2::{Digest, Sha256};

    let Ok(_) = stock("iperf3", "-v").output() else {
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
        let running = Server::of(|port| {
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
    finished.succeeded();
    let json: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(json["tests"][0]["name"], "iperf3 TCP");
    assert!(std::fs::read_to_string(page).unwrap().contains("iperf3"));
    server.terminate();
}
