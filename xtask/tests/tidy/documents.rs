//! Documents: the pages that people read first stay short, and no page names a file or a folder that is not there.

use crate::project::{File, files_ending, report, root};
use relax_semantics::traps::TRAPS;
use std::path::{Path, PathBuf};

/// The most lines of a page.
const MOST_LINES: &[(&str, usize)] = &[("README.md", 120), ("ARCHITECTURE.md", 200)];

/// Folders that a build or `setup.sh` makes.
const GENERATED: &[&str] = &["target/", ".cache/"];

/// Records of measurements name files as they were then.
const RECORDS: &str = "bench/results/";

/// Names with these endings and a `/` are files of the project.
const SOURCES: &[&str] = &[
    ".c",
    ".h",
    ".json",
    ".lock",
    ".md",
    ".onnx",
    ".patterns",
    ".py",
    ".rs",
    ".rules",
    ".rx",
    ".sh",
    ".toml",
    ".trycmd",
    ".txt",
    ".wgsl",
];

#[test]
fn pages_are_short() {
    let mut findings = Vec::new();
    for (path, most) in MOST_LINES {
        let text = std::fs::read_to_string(root().join(path)).expect("the page is there");
        let lines = text.lines().count();
        if lines > *most {
            findings.push(format!("{path}:{lines}: a page of {lines} lines, at most {most}"));
        }
    }
    report("lengths of pages", &findings);
}

/// Lines outside of code blocks, each with its number.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

/// Words in backticks, and targets of links, in their order.
fn quoted(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (index, piece) in line.split('`').enumerate() {
        if index % 2 == 1 {
            words.extend(piece.split_whitespace());
            continue;
        }
        let targets = piece.split("](").skip(1).filter_map(|link| link.split(')').next());
        words.extend(targets.filter(|target| !target.contains("://") && !target.starts_with('#')));
    }
    words
}

/// A word that names a file or a folder of the project: without punctuation, `./`, and what follows `#` or `:`.
fn as_path<'a>(word: &'a str, top: &[String]) -> Option<&'a str> {
    let word = word.trim_matches(|mark| ",;\"'()".contains(mark)).trim_start_matches("./");
    let word = word.split(['#', ':']).next().unwrap_or(word);
    let (first, _) = word.split_once('/')?;
    let is_named = word.ends_with('/') || SOURCES.iter().any(|ending| word.ends_with(ending));
    let is_generated = GENERATED.iter().any(|folder| word.starts_with(folder));
    let is_trap = TRAPS.iter().any(|trap| trap.id == word);
    let is_other = is_trap || word.starts_with(['/', '$', '~', '-', '<']) || word.contains('=');
    let is_path = is_named || top.iter().any(|name| name == first) || first == "..";
    (is_path && !is_generated && !is_other).then_some(word)
}

/// `a/{b,c}` is `a/b` and `a/c`.
fn alternatives(word: &str) -> Vec<String> {
    let parts =
        word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (inside, after))) = parts else { return vec![word.to_owned()] };
    inside.split(',').flat_map(|each| alternatives(&format!("{before}{each}{after}"))).collect()
}

/// The part before the first placeholder, `*` or `<family>`.
fn literal_part(path: &str) -> PathBuf {
    let pieces = path.split('/').take_while(|piece| !piece.contains(['*', '<', '…']));
    pieces.collect()
}

/// Paths of a line that exist in none of the folders it may mean: the root, that of the page, and the folders that the
/// line names before, with their `src`.
fn dead_paths(line: &str, page: &Path, top: &[String]) -> Vec<String> {
    let mut bases = vec![root(), page.parent().unwrap_or(page).to_path_buf()];
    let mut dead = Vec::new();
    for path in quoted(line).into_iter().filter_map(|word| as_path(word, top)) {
        for path in alternatives(path) {
            let wanted = literal_part(&path);
            match bases.iter().map(|base| base.join(&wanted)).find(|place| place.exists()) {
                Some(place) if place.is_dir() => bases.extend([place.join("src"), place]),
                Some(_) => {}
                None => dead.push(path),
            }
        }
    }
    dead
}

/// The files and folders at the root.
fn top_level() -> Vec<String> {
    let entries = std::fs::read_dir(root()).expect("the root can be listed");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| !GENERATED.contains(&format!("{name}/").as_str())).collect()
}

fn findings_of(file: &File, top: &[String]) -> Vec<String> {
    let page = root().join(&file.path);
    let dead = prose(&file.text).flat_map(|(line, text)| {
        let found = dead_paths(text, &page, top).into_iter();
        found.map(move |path| (line, path)).collect::<Vec<_>>()
    });
    dead.map(|(line, path)| format!("{}:{line}: there is no `{path}`", file.path)).collect()
}

#[test]
fn pages_name_files_that_exist() {
    let top = top_level();
    let pages = files_ending(".md").into_iter().filter(|file| !file.path.starts_with(RECORDS));
    let findings: Vec<String> = pages.flat_map(|file| findings_of(&file, &top)).collect();
    report("dead paths", &findings);
}

#[test]
fn dead_paths_are_found() {
    let text = "`xtask/src/{lib,nowhere}.rs`, `xtask/` has `main.rs`, `docs/mod.rs` and `docs/nothing.rs`\n\
                `passes/nowhere.rs:12` [a](docs/nowhere.md) [b](https://a.b/c.md) `./nowhere/x.sh`\n\
                ```\n`xtask/in_code.rs`\n```\n\
                `matmul/C2`, `target/a.rs`, `xtask/src/*.rs`, `nowhere/<family>.rs`, `cargo run xtask/gone.rs`\n";
    let file = File { path: "README.md".to_owned(), text: text.to_owned() };
    let found = findings_of(&file, &["xtask".to_owned(), "docs".to_owned()]);
    let expected = [
        "README.md:1: there is no `xtask/src/nowhere.rs`",
        "README.md:1: there is no `docs/nothing.rs`",
        "README.md:2: there is no `passes/nowhere.rs`",
        "README.md:2: there is no `docs/nowhere.md`",
        "README.md:2: there is no `nowhere/x.sh`",
        "README.md:6: there is no `nowhere/<family>.rs`",
        "README.md:6: there is no `xtask/gone.rs`",
    ];
    assert_eq!(found, expected);
}
