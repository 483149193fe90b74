//! Runs the book's examples: the `console` blocks of a chapter in order, in one network namespace.
//! Each command runs in its own shell. Its output must match the book except for figures. `BLESS=1`
//! writes the output into the chapters.
//!
//! A block that begins with "```xml NAME" is a file for all examples of the chapter.
//!
//! The first line of a block may have options:
//!
//! - `sketch`: the output depends on the machine, so only the exit code is checked.
//! - `numbers`: the output has numbers within words. Any run of digits or blanks matches any other.
//! - `exit=N`: the exit code of the last command, if not 0.
//! - `needs=FILE`: the block is skipped on a machine without this program.
//!
//! Further tests check the book's form: the summary, and the tables of docs/differences.md.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Namespace, ProcessOutput, TestCase, compare_masked, run, without_pace_warnings};

/// Time limit of one command.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The program names that the examples use.
const NAMES: [&str; 13] = [
    "iperf",
    "iperf3",
    "linerate",
    "netperf",
    "netserver",
    "super_netperf",
    "super-netperf",
    "udpmon_bw_mon",
    "udpmon_recv",
    "udpmon_req",
    "udpmon_resp",
    "udpmon_send",
    "uperf",
];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let missing = Namespace::missing_reason();
    let mut test_cases = vec![
        testkit::test_case_unless(
            None,
            "every_chapter_is_in_the_summary",
            every_chapter_is_in_the_summary,
        ),
        testkit::test_case_unless(
            None,
            "differences_are_one_table_per_tool",
            differences_are_one_table_per_tool,
        ),
    ];
    for path in chapters() {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        test_cases.push(testkit::test_case_unless(
            missing.clone(),
            name,
            move || run_chapter(&path),
        ));
    }
    test_cases
}

fn book_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src")
}

/// Returns the chapters with examples, sorted by name.
fn chapters() -> Vec<PathBuf> {
    let entries = fs::read_dir(book_directory()).expect("the book is in docs/src");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the entry is readable").path())
        .collect();
    paths.retain(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("```console")));
    paths.sort();
    paths
}

/// mdBook omits chapters that SUMMARY.md does not name, and makes empty pages for missing files.
/// Chapters name the pictures.
fn every_chapter_is_in_the_summary() -> Result<(), String> {
    let mut linked = links(&book_directory().join("SUMMARY.md"))?;
    for chapter in linked.clone() {
        let chapter_links = links(&book_directory().join(chapter))?;
        let is_picture = |link: &String| Path::new(link).extension() == Some("svg".as_ref());
        linked.extend(chapter_links.into_iter().filter(is_picture));
    }
    linked.sort_unstable();
    let entries = fs::read_dir(book_directory()).map_err(|error| error.to_string())?;
    let mut present: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name != "SUMMARY.md")
        .collect();
    present.sort_unstable();
    if linked == present {
        return Ok(());
    }
    Err(format!(
        "SUMMARY.md names {linked:?}; docs/src has {present:?}"
    ))
}

/// Returns the targets of a page's links.
fn links(page: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|target| target.split(')').next());
    Ok(targets.map(str::to_owned).collect())
}

/// The sections of docs/differences.md, in order.
const TOOLS: [&str; 5] = [
    "netperf and netserver",
    "uperf",
    "iperf3",
    "iperf (iperf 2)",
    "UDPmon",
];

/// The line below the head of a table of differences. The columns are: where, stock, linerate.
const RULE: &str = "|---|---|---|";

/// Maximum number of characters of a cell in a table of differences. Longer explanations belong in
/// a chapter.
const MAX_CELL_LENGTH: usize = 200;

fn differences_are_one_table_per_tool() -> Result<(), String> {
    let path = book_directory().join("../differences.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut parts = text.split("\n## ");
    let introduction = parts.next().unwrap_or_default();
    let sections: Vec<(&str, &str)> = parts
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .collect();
    let tools: Vec<&str> = sections.iter().map(|(tool, _)| *tool).collect();
    let mut failures = Vec::new();
    if tools != TOOLS {
        failures.push(format!("the sections are {tools:?}, not {TOOLS:?}"));
    }
    if introduction.contains("\n|") {
        failures.push("a table precedes the first section".to_owned());
    }
    for (tool, section) in sections {
        let errors = table_errors(section.trim());
        failures.extend(errors.into_iter().map(|error| format!("{tool}: {error}")));
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

/// Returns the reasons why a section is not one table of three columns with short cells.
fn table_errors(section: &str) -> Vec<String> {
    let lines: Vec<&str> = section.lines().collect();
    if lines.len() < 3 || lines[1] != RULE {
        return vec![format!("does not begin with a head and {RULE}")];
    }
    let mut errors = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(index, _)| *index != 1) {
        let cells = line
            .strip_prefix("| ")
            .and_then(|line| line.strip_suffix(" |"));
        let cells: Vec<&str> = cells.into_iter().flat_map(|row| row.split(" | ")).collect();
        if cells.len() != 3 {
            errors.push(format!(
                "line {}: not a row of three cells: {line}",
                index + 1
            ));
        }
        for cell in cells {
            let length = cell.chars().count();
            if length > MAX_CELL_LENGTH {
                errors.push(format!("line {}: {length} characters: {cell}", index + 1));
            }
        }
    }
    errors
}

fn run_chapter(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let environment = Environment::new()?;
    environment.add_files(&text)?;
    let mut failures = Vec::new();
    let mut blessed = String::new();
    let mut remaining = text.as_str();
    while let Some(start) = remaining.find("```console") {
        let (before, block) = remaining.split_at(start);
        let end = block[3..].find("\n```").ok_or("a block has no end")? + 3;
        let (block, after) = block.split_at(end);
        let (head, body) = block.split_once('\n').ok_or("a block has no lines")?;
        let printed = if lacks_program(head) {
            body.trim_start_matches('\n').to_owned()
        } else {
            environment.run_block(head, body, &mut failures)?
        };
        blessed += before;
        blessed += head;
        blessed += "\n";
        blessed += &printed;
        remaining = after.strip_prefix('\n').unwrap_or(after);
    }
    blessed += remaining;
    if std::env::var_os("BLESS").is_some() {
        return fs::write(path, blessed).map_err(|error| error.to_string());
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

/// Whether a block needs a program that this machine lacks.
fn lacks_program(head: &str) -> bool {
    let mut options = head.split_whitespace();
    let program = options.find_map(|option| option.strip_prefix("needs="));
    program.is_some_and(|path| !Path::new(path).exists())
}

/// A namespace and a directory for a chapter's examples. At first the directory has only links to
/// the program.
struct Environment {
    namespace: Namespace,
    directory: tempfile::TempDir,
}

impl Environment {
    fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        for name in NAMES {
            symlink(testkit::linerate_path(), directory.path().join(name))
                .map_err(|error| error.to_string())?;
        }
        let namespace = Namespace::new();
        Ok(Self {
            namespace,
            directory,
        })
    }

    /// Creates the files that the chapter shows.
    fn add_files(&self, text: &str) -> Result<(), String> {
        for block in text.split("```xml ").skip(1) {
            let (name, contents) = block.split_once('\n').ok_or("a file has no lines")?;
            let end = contents.find("```").ok_or("a file has no end")?;
            fs::write(self.directory.path().join(name), &contents[..end])
                .map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }

    /// Runs a block's commands. Returns the block with their output.
    fn run_block(
        &self,
        head: &str,
        body: &str,
        failures: &mut Vec<String>,
    ) -> Result<String, String> {
        let options: Vec<&str> = head.split_whitespace().skip(1).collect();
        let code = options
            .iter()
            .find_map(|option| option.strip_prefix("exit=")?.parse().ok())
            .unwrap_or(0);
        let (is_sketch, has_numbers) = (options.contains(&"sketch"), options.contains(&"numbers"));
        let mut printed = String::new();
        let commands = format!("\n{body}\n");
        let mut examples = commands.split("\n$ ").skip(1).peekable();
        while let Some(example) = examples.next() {
            let (command, expected_output) = example.split_once('\n').unwrap_or((example, ""));
            let finished = self.run_shell(command)?;
            let expected_code = if examples.peek().is_none() { code } else { 0 };
            if finished.code != Some(expected_code) {
                failures.push(format!("$ {command}\n{finished:?}"));
            }
            let output = finished.stdout + &finished.stderr;
            let output = if expected_output.contains(CONFIDENCE_WARNING) {
                output
            } else {
                without_chance_warnings(&output)
            };
            let normalize = |text: &str| {
                if has_numbers {
                    without_numbers(text.trim_end())
                } else {
                    text.trim_end().to_owned()
                }
            };
            if !is_sketch
                && let Err(difference) =
                    compare_masked(&normalize(&output), &normalize(expected_output))
            {
                failures.push(format!("$ {command}\n{difference}\n{output}"));
            }
            let mut lines = vec![format!("$ {command}")];
            lines.extend(output.trim_end().lines().map(str::to_owned));
            printed += &(lines.join("\n") + "\n");
        }
        Ok(printed)
    }

    fn run_shell(&self, command: &str) -> Result<ProcessOutput, String> {
        let mut path = OsString::from(self.directory.path());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .env("PATH", path)
            .env("LC_ALL", "C");
        let mut command_line = self.namespace.command(&shell);
        command_line.current_dir(self.directory.path());
        run(command_line, TIMEOUT).map_err(|error| format!("$ {command}\n{error}"))
    }
}

/// Returns the text with `#` for each run of digits and dots, one blank for each run of blanks, and
/// units without K, M and G. Repeated lines are removed, because a busy machine changes the number
/// of intervals.
fn without_numbers(text: &str) -> String {
    let mut masked = String::new();
    for char in text.chars() {
        let masked_char = match char {
            '0'..='9' | '.' => '#',
            _ => char,
        };
        if !(masked.ends_with(masked_char) && matches!(masked_char, '#' | ' ')) {
            masked.push(masked_char);
        }
    }
    for unit in ["Byte", "bit"] {
        for letter in ["K", "M", "G"] {
            masked = masked.replace(&format!(" {letter}{unit}"), &format!(" {unit}"));
        }
    }
    let mut lines: Vec<&str> = masked.lines().collect();
    lines.dedup();
    lines.join("\n")
}

/// Start of each line of the warning about an unreached confidence interval.
const CONFIDENCE_WARNING: &str = "!!!";

/// Returns the text without these warnings. A busy machine may cause them.
fn without_chance_warnings(text: &str) -> String {
    let text = without_pace_warnings(text);
    let Some(start) = text.find(CONFIDENCE_WARNING) else {
        return text;
    };
    let end = text[start..]
        .find("\n\n")
        .map_or(text.len(), |length| start + length + 2);
    text[..start].to_owned() + &text[end..]
}

impl Drop for Environment {
    /// Kills the processes that are left, such as a netserver in the background.
    fn drop(&mut self) {
        for pid in self.namespace.processes() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
