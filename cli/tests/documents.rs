//! Transcripts in the documents: each ```` ```console ```` block of the pages below is run, and its output compared.
//!
//! `$ cat NAME` defines a file that is not there yet; any other command is run. In expected output a line `...` stands for any
//! lines and `[..]` for any text in a line. `RELAX_BLESS=1` rewrites output that differs.

mod warm;

use relax_corpus::requirement;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGES: &[&str] = &[
    "README.md",
    "docs/CLI.md",
    "docs/EXTENDING.md",
    "docs/ONNX.md",
    "docs/TRAINING.md",
    "docs/VERSIONS.md",
];
const ANY_LINES: &str = "...";
const ANY_TEXT: &str = "[..]";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A command and its expected output.
struct Step {
    /// Without the `$`.
    command: String,
    /// The line of the command, from 1.
    line: usize,
    expected: Vec<String>,
}

/// The steps of all console blocks of a page, in order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let (true, Some(command)) = (is_console, line.strip_prefix("$ ")) {
            let (command, line) = (command.to_owned(), index + 1);
            steps.push(Step { command, line, expected: Vec::new() });
        } else if let (true, Some(step)) = (is_console, steps.last_mut()) {
            step.expected.push(line.to_owned());
        }
    }
    steps
}

/// What a command prints to both streams, without spaces at the ends of lines.
fn output_of(command: &str, folder: &Path) -> Vec<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_relax"));
    let binaries = binary.parent().expect("invariant: a binary lies in a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let ended = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env("XDG_CACHE_HOME", warm::cache(folder.join("cache")))
        .output()
        .expect("the shell runs");
    let text = String::from_utf8(ended.stdout).expect("the command prints UTF-8");
    text.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn line_matches(expected: &str, line: &str) -> bool {
    let Some((before, after)) = expected.split_once(ANY_TEXT) else { return expected == line };
    let Some(rest) = line.strip_prefix(before) else { return false };
    (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| line_matches(after, rest))
}

fn matches(expected: &[String], lines: &[String]) -> bool {
    match expected {
        [] => lines.is_empty(),
        [first, rest @ ..] if first == ANY_LINES => {
            (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..]))
        }
        [first, rest @ ..] => lines.split_first().is_some_and(|(line, lines)| {
            line_matches(first.trim_end(), line) && matches(rest, lines)
        }),
    }
}

/// Steps whose output differs, with that output.
fn differing(page: &str, folder: &Path) -> Vec<(Step, Vec<String>)> {
    let mut found = Vec::new();
    for step in steps(page) {
        let shown = step.command.strip_prefix("cat ").map(|name| folder.join(name));
        if let Some(path) = shown.filter(|path| !path.exists()) {
            let text = step.expected.join("\n") + "\n";
            std::fs::write(path, text).expect("the program is written");
            continue;
        }
        let lines = output_of(&step.command, folder);
        if !matches(&step.expected, &lines) {
            found.push((step, lines));
        }
    }
    found
}

/// The page with the output that was found in the place of what was expected.
fn blessed(page: &str, found: &[(Step, Vec<String>)]) -> String {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    for (step, output) in found.iter().rev() {
        lines.splice(step.line..step.line + step.expected.len(), output.iter().cloned());
    }
    lines.join("\n") + "\n"
}

#[cfg(unix)]
#[test]
fn transcripts_are_what_the_command_prints() {
    let mut findings = Vec::new();
    for path in PAGES {
        let page = std::fs::read_to_string(project().join(path)).expect("the page is there");
        let folder = tempfile::tempdir().expect("a folder for the test");
        let corpus = project().join("corpus").canonicalize().expect("the corpus is there");
        std::os::unix::fs::symlink(corpus, folder.path().join("corpus")).expect("a link is made");
        assert!(!steps(&page).is_empty(), "{path} has no transcript");
        let found = differing(&page, folder.path());
        if std::env::var_os("RELAX_BLESS").is_some() && !found.is_empty() {
            std::fs::write(project().join(path), blessed(&page, &found)).expect("it is written");
            continue;
        }
        findings.extend(found.iter().map(|(step, lines)| {
            format!("{path}:{}: `{}` prints\n{}\n", step.line, step.command, lines.join("\n"))
        }));
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn wildcards_match_what_they_stand_for() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let cases = [
        ("a\n...\nd", "a\nb\nc\nd", true),
        ("a\n...\nd", "a\nd", true),
        ("a\n...\nd", "a\nb", false),
        ("x = [..] s", "x = 0.5 s", true),
        ("x = [..] s", "x = 0.5 ms", false),
        ("a", "a\nb", false),
    ];
    for (expected, found, is_match) in cases {
        assert_eq!(matches(&lines(expected), &lines(found)), is_match, "{expected:?} {found:?}");
    }
}

#[test]
fn a_differing_transcript_is_found_and_blessed() {
    let page = "```console\n$ echo one\ntwo\n$ echo [..]\n```\ntwo\n";
    let folder = tempfile::tempdir().expect("a folder for the test");
    let found = differing(page, folder.path());
    let commands: Vec<&str> = found.iter().map(|(step, _)| step.command.as_str()).collect();
    assert_eq!(commands, ["echo one", "echo [..]"]);
    assert_eq!(blessed(page, &found), "```console\n$ echo one\none\n$ echo [..]\n[..]\n```\ntwo\n");
}

/// Tables without times, each with the script that makes it.
const TABLES: &[(&str, &str)] = &[("bench/memory/run.py", "bench/results/memory-2026-11.md")];

#[test]
fn tables_without_times_are_what_their_scripts_print() {
    if Command::new("python3").arg("--version").output().is_err() {
        requirement::skip("RELAX_REQUIRE_PYTHON", "there is no python3");
        return;
    }
    for (script, page) in TABLES {
        let made = tempfile::NamedTempFile::new().expect("a file for the test");
        let done = Command::new("python3")
            .arg(project().join(script))
            .args(["--relax", env!("CARGO_BIN_EXE_relax"), "--output"])
            .arg(made.path())
            .output()
            .expect("python3 runs");
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        let [made, page_text] = [made.path().to_owned(), project().join(page)]
            .map(|path| std::fs::read_to_string(path).expect("it is there"));
        assert!(made == page_text, "{page} is not what `python3 {script} --output {page}` writes");
    }
}
