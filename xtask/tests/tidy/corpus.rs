//! The corpus: every program expects something, every operator has its file, and what is written by
//! hand is formatted.

use crate::project::{File, files_ending, report};
use relax_semantics::ops;
use relax_syntax::format::format_source;
use relax_syntax::span::Source;
use std::collections::BTreeSet;

/// How an expectation begins, after `#`.
const DIRECTIVES: &[&str] = &["run:", "trap[", "race:", "check:", "structure["];
/// Expectations that stand behind the line they are about.
const MARKERS: &[&str] = &["error[RX", "warning[RX"];
/// The files of single operators, and the folders whose programs are formatted.
const OPERATORS: &str = "corpus/suite/ops/";
const FORMATTED: &[&str] =
    &["corpus/suite/", "corpus/models/", "corpus/regressions/", "proofs/theorems/rules/"];

fn programs() -> Vec<File> {
    files_ending(".rx").into_iter().filter(|file| file.path.starts_with("corpus/")).collect()
}

fn expects_something(text: &str) -> bool {
    text.lines().filter_map(|line| line.split_once('#')).any(|(before, comment)| {
        let comment = comment.trim_start();
        let directive = before.trim().is_empty()
            && DIRECTIVES.iter().any(|directive| comment.starts_with(directive));
        directive || MARKERS.iter().any(|marker| comment.contains(marker))
    })
}

#[test]
fn programs_expect_something() {
    let silent = programs().into_iter().filter(|file| !expects_something(&file.text));
    let findings = silent.map(|file| format!("{}:1: no expectation in it", file.path));
    report("expectations", &findings.collect::<Vec<_>>());
}

#[test]
fn operators_have_their_files() {
    let names: BTreeSet<String> = ops::all().map(|row| row.short_name().to_owned()).collect();
    let programs = programs();
    let file_names = programs.iter().filter_map(|file| file.path.strip_prefix(OPERATORS));
    let files: BTreeSet<String> =
        file_names.filter_map(|name| name.strip_suffix(".rx")).map(str::to_owned).collect();
    let missing = names.difference(&files).map(|name| format!("{OPERATORS}{name}.rx:1: missing"));
    let strange = files
        .difference(&names)
        .map(|name| format!("{OPERATORS}{name}.rx:1: the operator table has no `{name}`"));
    report("operators and their files", &missing.chain(strange).collect::<Vec<_>>());
}

/// The first line that the formatter would change; a file that does not parse has none.
fn first_change(file: &File) -> Option<usize> {
    let source = Source::new(&file.path, file.text.as_str());
    let formatted = format_source(&source).ok()?;
    if formatted == file.text {
        return None;
    }
    let same = file.text.lines().zip(formatted.lines()).take_while(|(a, b)| a == b).count();
    Some(same + 1)
}

#[test]
fn programs_are_formatted() {
    let mut findings = Vec::new();
    let by_hand = |file: &File| {
        let under = |folder: &&str| file.path.starts_with(*folder);
        FORMATTED.iter().any(under) && !file.path.starts_with(OPERATORS)
    };
    for file in files_ending(".rx").iter().filter(|file| by_hand(file)) {
        if let Some(line) = first_change(file) {
            findings.push(format!("{}:{line}: `relax fmt` would change it", file.path));
        }
    }
    report("formatting", &findings);
}
