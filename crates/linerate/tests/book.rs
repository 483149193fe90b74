//! The book's examples, run: each chapter's `console` blocks in one network namespace, one shell a
//! block, in order. What a command prints must be what the book says, figures aside. `BLESS=1`
//! writes what was printed into the chapters.
//!
//! A block that begins "```xml NAME" is that file, for all of the chapter's examples.
//!
//! A block's first line may say more: `sketch` for output that depends on the machine, so that only the
//! exit code counts; `numbers` for output with numbers within words, of which any run of digits and blanks is as good as
//! any other; `exit=N` when the last command's is not 0; `needs=FILE` for a block that is passed over on a
//! machine without this program.
//!
//! Further test cases check the book's form: the summary, and the tables of docs/differences.md.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Namespace, ProcessOutput, TestCase, compare_masked, run};

/// How long one block may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The names that the examples use.
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
        testkit::test_case_unless(None, "every_chapter_is_in_the_summary", summary),
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
            move || chapter(&path),
        ));
    }
    test_cases
}

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src")
}

/// The chapters that have examples, by name.
fn chapters() -> Vec<PathBuf> {
    let entries = fs::read_dir(book()).expect("the book stands in docs/src");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    paths.retain(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("```console")));
    paths.sort();
    paths
}

/// mdBook leaves out what SUMMARY.md does not name, and makes an empty page of what is not there. Pictures are named by
/// chapters.
fn summary() -> Result<(), String> {
    let mut named = links(&book().join("SUMMARY.md"))?;
    for chapter in named.clone() {
        let of_chapter = links(&book().join(chapter))?;
        let is_picture = |link: &String| Path::new(link).extension() == Some("svg".as_ref());
        named.extend(of_chapter.into_iter().filter(is_picture));
    }
    named.sort_unstable();
    let entries = fs::read_dir(book()).map_err(|error| error.to_string())?;
    let mut there: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name != "SUMMARY.md")
        .collect();
    there.sort_unstable();
    if named == there {
        return Ok(());
    }
    Err(format!("SUMMARY.md names {named:?}; there are {there:?}"))
}

/// The targets of a page's links.
fn links(page: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split(')').next());
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

/// The line below the head of a table of differences: where, stock, linerate.
const RULE: &str = "|---|---|---|";

/// The most characters of a cell in a table of differences. Longer explanations belong in a chapter.
const LONGEST_CELL: usize = 200;

fn differences_are_one_table_per_tool() -> Result<(), String> {
    let path = book().join("../differences.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut parts = text.split("\n## ");
    let introduction = parts.next().unwrap_or_default();
    let sections: Vec<(&str, &str)> = parts
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .collect();
    let tools: Vec<&str> = sections.iter().map(|(tool, _)| *tool).collect();
    let mut wrong = Vec::new();
    if tools != TOOLS {
        wrong.push(format!("the sections are {tools:?}, not {TOOLS:?}"));
    }
    if introduction.contains("\n|") {
        wrong.push("a table stands above the first section".to_owned());
    }
    for (tool, section) in sections {
        let faults = table_faults(section.trim());
        wrong.extend(faults.into_iter().map(|fault| format!("{tool}: {fault}")));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// Returns what keeps a section from being one table of three columns with short cells.
fn table_faults(section: &str) -> Vec<String> {
    let lines: Vec<&str> = section.lines().collect();
    if lines.len() < 3 || lines[1] != RULE {
        return vec![format!("does not begin with a head and {RULE}")];
    }
    let mut faults = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| *at != 1) {
        let cells = line
            .strip_prefix("| ")
            .and_then(|line| line.strip_suffix(" |"));
        let cells: Vec<&str> = cells.into_iter().flat_map(|row| row.split(" | ")).collect();
        if cells.len() != 3 {
            faults.push(format!("line {}: no row of three cells: {line}", at + 1));
        }
        for cell in cells {
            let length = cell.chars().count();
            if length > LONGEST_CELL {
                faults.push(format!("line {}: {length} characters: {cell}", at + 1));
            }
        }
    }
    faults
}

fn chapter(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let ground = Ground::new()?;
    ground.add_files(&text)?;
    let mut wrong = Vec::new();
    let mut blessed = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("```console") {
        let (before, block) = rest.split_at(at);
        let end = block[3..].find("\n```").ok_or("a block does not end")? + 3;
        let (block, after) = block.split_at(end);
        let (head, body) = block.split_once('\n').ok_or("a block without lines")?;
        let printed = if missing(head) {
            body.trim_start_matches('\n').to_owned()
        } else {
            ground.block(head, body, &mut wrong)?
        };
        blessed += before;
        blessed += head;
        blessed += "\n";
        blessed += &printed;
        rest = after.strip_prefix('\n').unwrap_or(after);
    }
    blessed += rest;
    if std::env::var_os("BLESS").is_some() {
        return fs::write(path, blessed).map_err(|error| error.to_string());
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// Whether a block needs a program that this machine lacks.
fn missing(head: &str) -> bool {
    let mut words = head.split_whitespace();
    let needed = words.find_map(|word| word.strip_prefix("needs="));
    needed.is_some_and(|path| !Path::new(path).exists())
}

/// Where a chapter's examples run: a namespace, and a directory with nothing in it but our names.
struct Ground {
    namespace: Namespace,
    directory: tempfile::TempDir,
}

impl Ground {
    fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        for name in NAMES {
            symlink(testkit::program(), directory.path().join(name))
                .map_err(|error| error.to_string())?;
        }
        let namespace = Namespace::new();
        Ok(Self {
            namespace,
            directory,
        })
    }

    /// Makes the files that the chapter shows.
    fn add_files(&self, text: &str) -> Result<(), String> {
        for block in text.split("```xml ").skip(1) {
            let (name, rest) = block.split_once('\n').ok_or("a file without lines")?;
            let end = rest.find("```").ok_or("a file does not end")?;
            fs::write(self.directory.path().join(name), &rest[..end])
                .map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }

    /// Runs a block's commands; returns the block with what they printed.
    fn block(&self, head: &str, body: &str, wrong: &mut Vec<String>) -> Result<String, String> {
        let words: Vec<&str> = head.split_whitespace().skip(1).collect();
        let code = words
            .iter()
            .find_map(|word| word.strip_prefix("exit=")?.parse().ok())
            .unwrap_or(0);
        let (is_sketch, has_numbers) = (words.contains(&"sketch"), words.contains(&"numbers"));
        let mut printed = String::new();
        let commands = format!("\n{body}\n");
        let mut examples = commands.split("\n$ ").skip(1).peekable();
        while let Some(example) = examples.next() {
            let (command, said) = example.split_once('\n').unwrap_or((example, ""));
            let finished = self.shell(command)?;
            let expected = if examples.peek().is_none() { code } else { 0 };
            if finished.code != Some(expected) {
                wrong.push(format!("$ {command}\n{finished:?}"));
            }
            let all = finished.stdout + &finished.stderr;
            let all = if said.contains(DOUBT) {
                all
            } else {
                without_doubt(&all)
            };
            let form = |text: &str| {
                if has_numbers {
                    without_numbers(text.trim_end())
                } else {
                    text.trim_end().to_owned()
                }
            };
            if !is_sketch && let Err(difference) = compare_masked(&form(&all), &form(said)) {
                wrong.push(format!("$ {command}\n{difference}\n{all}"));
            }
            let mut lines = vec![format!("$ {command}")];
            lines.extend(all.trim_end().lines().map(str::to_owned));
            printed += &(lines.join("\n") + "\n");
        }
        Ok(printed)
    }

    fn shell(&self, command: &str) -> Result<ProcessOutput, String> {
        let mut path = OsString::from(self.directory.path());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .env("PATH", path)
            .env("LC_ALL", "C");
        let mut inside = self.namespace.command(&shell);
        inside.current_dir(self.directory.path());
        run(inside, LIMIT).map_err(|error| format!("$ {command}\n{error}"))
    }
}

/// The text with a sign for each run of digits and dots, wherever it stands, a blank for each run of blanks, and
/// amounts without the letter of their unit. Lines that are then like the one before are left out: how many intervals
/// there are is chance on a busy machine.
fn without_numbers(text: &str) -> String {
    let mut masked = String::new();
    for char in text.chars() {
        let sign = match char {
            '0'..='9' | '.' => '#',
            _ => char,
        };
        if !(masked.ends_with(sign) && matches!(sign, '#' | ' ')) {
            masked.push(sign);
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

/// Begins each line of the block that says that an interval of confidence was not reached.
const DOUBT: &str = "!!!";

/// Stands in the line that says that a pace was not held.
const PACE: &str = ": the pace of this host";

/// The text without that block and that line, which come by chance on a busy machine.
fn without_doubt(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    let text: String = lines.filter(|line| !line.contains(PACE)).collect();
    let Some(from) = text.find(DOUBT) else {
        return text;
    };
    let end = text[from..]
        .find("\n\n")
        .map_or(text.len(), |at| from + at + 2);
    text[..from].to_owned() + &text[end..]
}

impl Drop for Ground {
    /// A netserver that went to the background is one of the examples.
    fn drop(&mut self) {
        for pid in self.namespace.processes() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
