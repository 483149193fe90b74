//! Runs that the user or the server ends early.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Server, TestProcess, linerate_with_args, wait_until};

pub(crate) fn test_cases() -> Vec<testkit::TestCase> {
    testkit::test_cases![
        interrupted_test_reports_partial_result,
        clears_progress_from_screen,
        test_fails_if_server_ends,
    ]
}

const TIMEOUT: Duration = Duration::from_secs(60);

/// One test of each kind. The kinds differ in the server's report at an interrupt.
const TESTS: [&str; 7] = [
    "TCP_STREAM",
    "TCP_MAERTS",
    "TCP_RR",
    "TCP_CRR",
    "TCP_CC",
    "UDP_STREAM",
    "UDP_RR",
];

/// The partial result is reported and marked as partial. The peer is identified correctly.
fn interrupted_test_reports_partial_result() {
    for test in TESTS {
        for output_option in ["--json", ""] {
            let pace = pace_option(test);
            let line = format!("run -l 60 -t {test},TCP_SENDFILE {pace} {output_option}");
            let mut child = TestProcess::start(&mut linerate_with_args(&line));
            child.wait_for_cpu_ticks(20);
            child.signal(Signal::INT);
            let output = child.finish(TIMEOUT);
            assert_eq!(output.code, Some(130), "{output:?}");
            if output_option.is_empty() {
                let text = output.stdout;
                assert!(!text.contains("stock"), "{text}");
                assert!(text.contains("peer  linerate"), "{text}");
                assert!(text.contains("interrupted: "), "{text}");
                continue;
            }
            let document: Value = serde_json::from_str(&output.stdout).unwrap();
            assert_eq!(document["peer"]["kind"], "linerate", "{test}");
            assert_eq!(document["interrupted"], true, "{test}");
            assert!(warning_kinds(&document).contains(&"ended_early"), "{test}");
            let figures = &document["tests"][0]["figures"];
            let rates = ["throughput_bps", "transactions_per_s"];
            let has_rate = rates.iter().any(|rate| figures[rate].as_f64() > Some(0.0));
            assert!(has_rate, "{test}: {figures}");
        }
    }
}

/// At a terminal, linerate clears the progress line, although the terminal echoes the interrupt.
fn clears_progress_from_screen() {
    let program = testkit::linerate_path();
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
        let has_progress = || child.stdout().contains('━');
        assert!(wait_until(TIMEOUT, has_progress), "{}", child.stdout());
        keyboard.write_all(b"\x03").unwrap();
        let output = child.finish(TIMEOUT);
        assert_eq!(output.code, Some(130), "{output:?}");
        let screen = render_screen(&output.stdout, columns);
        assert!(screen.contains("interrupted"), "{screen}");
        assert!(!screen.contains('━'), "{screen}");
    }
}

/// A test fails if its server is terminated or killed.
fn test_fails_if_server_ends() {
    for signal in [Signal::TERM, Signal::KILL] {
        for test in TESTS {
            let server = Server::start("");
            let (port, pace) = (server.port, pace_option(test));
            let line =
                format!("run 127.0.0.1 --port {port} -l 60 -t {test},TCP_SENDFILE {pace} --json");
            let mut child = TestProcess::start(&mut linerate_with_args(&line));
            child.wait_for_cpu_ticks(20);
            server.signal(signal);
            let output = child.finish(TIMEOUT);
            let context = format!("{test} {signal:?}: {}", output.stderr);
            assert_eq!(output.code, Some(1), "{context}");
            let document: Value = serde_json::from_str(&output.stdout).unwrap();
            assert_eq!(document["interrupted"], false, "{context}");
            assert!(document["tests"][0]["error"].is_string(), "{context}");
            assert!(
                warning_kinds(&document).contains(&"ended_early"),
                "{context}"
            );
            assert_eq!(document["not_run"][0], "TCP_SENDFILE", "{context}");
        }
    }
}

/// Returns a rate for UDP_STREAM, which otherwise needs a preceding test for its pace.
fn pace_option(test: &str) -> &str {
    if test == "UDP_STREAM" {
        "--udp-rate 1gbit"
    } else {
        ""
    }
}

/// Returns the kinds of the first test's warnings.
fn warning_kinds(document: &Value) -> Vec<&str> {
    let warnings = document["tests"][0]["warnings"].as_array().unwrap();
    let kinds = warnings
        .iter()
        .filter_map(|warning| warning["kind"].as_str());
    kinds.collect()
}

/// Returns the final screen of a terminal of this width. Handles carriage returns, line feeds,
/// clearing and wrapping of lines.
fn render_screen(output: &str, columns: usize) -> String {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let mut column = 0;
    let mut chars = output.chars();
    while let Some(char) = chars.next() {
        match char {
            '\r' => column = 0,
            '\n' => lines.push(Vec::new()),
            '\x1b' => {
                assert_eq!((chars.next(), chars.next()), (Some('['), Some('K')));
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
