//! Runs that end before their time: by the user, or by the server.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Server, TestProcess, linerate_with_args, wait_until};

pub(crate) fn test_cases() -> Vec<testkit::TestCase> {
    testkit::test_cases![
        an_interrupted_test_is_a_part_of_one,
        no_progress_stays_on_the_screen,
        a_test_that_the_server_ends_has_failed,
    ]
}

const LIMIT: Duration = Duration::from_secs(60);

/// Each kind of test: what the server reports at an interrupt differs.
const TESTS: [&str; 7] = [
    "TCP_STREAM",
    "TCP_MAERTS",
    "TCP_RR",
    "TCP_CRR",
    "TCP_CC",
    "UDP_STREAM",
    "UDP_RR",
];

/// The part that was measured is there, marked as a part, and the peer is what it is.
fn an_interrupted_test_is_a_part_of_one() {
    for test in TESTS {
        for form in ["--json", ""] {
            let pace = pace(test);
            let line = format!("run -l 60 -t {test},TCP_SENDFILE {pace} {form}");
            let mut child = TestProcess::start(&mut linerate_with_args(&line));
            child.wait_for_cpu_ticks(20);
            child.signal(Signal::INT);
            let ended = child.finish(LIMIT);
            assert_eq!(ended.code, Some(130), "{ended:?}");
            if form.is_empty() {
                let text = ended.stdout;
                assert!(!text.contains("stock"), "{text}");
                assert!(text.contains("peer  linerate"), "{text}");
                assert!(text.contains("interrupted: "), "{text}");
                continue;
            }
            let document: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(document["peer"]["kind"], "linerate", "{test}");
            assert_eq!(document["interrupted"], true, "{test}");
            assert!(kinds(&document).contains(&"ended_early"), "{test}");
            let figures = &document["tests"][0]["figures"];
            let rates = ["throughput_bps", "transactions_per_s"];
            let has_rate = rates.iter().any(|rate| figures[rate].as_f64() > Some(0.0));
            assert!(has_rate, "{test}: {figures}");
        }
    }
}

/// At a terminal nothing of the progress line is left, although the terminal echoes the interrupt.
fn no_progress_stays_on_the_screen() {
    let program = testkit::program();
    for columns in [50, 80, 120] {
        let line = format!(
            "stty cols {columns}; exec {} run -l 60 -t TCP_RR",
            program.display()
        );
        let mut terminal = Command::new("script");
        let arguments = [
            "--quiet",
            "--flush",
            "--return",
            "--command",
            &line,
            "/dev/null",
        ];
        terminal.args(arguments).env("SHELL", "/bin/sh");
        let (input, mut keyboard) = std::io::pipe().unwrap();
        let child = TestProcess::start_with_input(&mut terminal, Stdio::from(input));
        let is_shown = || child.stdout().contains('━');
        assert!(wait_until(LIMIT, is_shown), "{}", child.stdout());
        keyboard.write_all(b"\x03").unwrap();
        let ended = child.finish(LIMIT);
        assert_eq!(ended.code, Some(130), "{ended:?}");
        let screen = screen(&ended.stdout, columns);
        assert!(screen.contains("interrupted"), "{screen}");
        assert!(!screen.contains('━'), "{screen}");
    }
}

/// A server that is told to end, or dies, leaves no test that looks whole.
fn a_test_that_the_server_ends_has_failed() {
    for signal in [Signal::TERM, Signal::KILL] {
        for test in TESTS {
            let server = Server::start("");
            let (port, pace) = (server.port, pace(test));
            let line =
                format!("run 127.0.0.1 --port {port} -l 60 -t {test},TCP_SENDFILE {pace} --json");
            let mut child = TestProcess::start(&mut linerate_with_args(&line));
            child.wait_for_cpu_ticks(20);
            server.signal(signal);
            let ended = child.finish(LIMIT);
            let what = format!("{test} {signal:?}: {}", ended.stderr);
            assert_eq!(ended.code, Some(1), "{what}");
            let document: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(document["interrupted"], false, "{what}");
            assert!(document["tests"][0]["error"].is_string(), "{what}");
            assert!(kinds(&document).contains(&"ended_early"), "{what}");
            assert_eq!(document["not_run"][0], "TCP_SENDFILE", "{what}");
        }
    }
}

/// Without a test before this one that it is paced by.
fn pace(test: &str) -> &str {
    if test == "UDP_STREAM" {
        "--udp-rate 1gbit"
    } else {
        ""
    }
}

/// What the first test's result is warned of.
fn kinds(document: &Value) -> Vec<&str> {
    let warnings = document["tests"][0]["warnings"].as_array().unwrap();
    let kinds = warnings
        .iter()
        .filter_map(|warning| warning["kind"].as_str());
    kinds.collect()
}

/// What a terminal of this width shows in the end: returns, new lines, cleared lines and long ones.
fn screen(output: &str, columns: usize) -> String {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let mut column = 0;
    let mut rest = output.chars();
    while let Some(char) = rest.next() {
        match char {
            '\r' => column = 0,
            '\n' => lines.push(Vec::new()),
            '\x1b' => {
                assert_eq!((rest.next(), rest.next()), (Some('['), Some('K')));
                lines.last_mut().unwrap().truncate(column);
            }
            char => {
                if column == columns {
                    lines.push(Vec::new());
                    column = 0;
                }
                let line = lines.last_mut().unwrap();
                line.resize(line.len().max(column + 1), ' ');
                line[column] = char;
                column += 1;
            }
        }
    }
    let lines: Vec<String> = lines.into_iter().map(String::from_iter).collect();
    lines.join("\n")
}
