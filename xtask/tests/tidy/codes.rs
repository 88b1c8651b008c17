//! Codes: whatever names a code names one that is explained, and every explained code is used by the
//! source and expected by some program or test.

use crate::project::{File, files, report};
use relax_program::frontend::code_tables;
use relax_semantics::ops;
use relax_semantics::traps::TRAPS;
use std::collections::{BTreeMap, BTreeSet};

/// Codes that no program or test expects, each with its reason. This list only gets shorter.
const UNEXPECTED: &[(&str, &str)] = &[
    ("RX0118", "needs a file of more than a gigabyte"),
    ("RX0407", "text is refused by RX0256 before: it is for tensor programs that passes build"),
    ("RX0409", "text is refused by RX0254 before: it is for tensor programs that passes build"),
    ("RX0412", "nesting of 200 levels, of which no program is kept"),
    ("RX0413", "text is refused by RX0256 before: it is for tensor programs that passes build"),
];

/// Bounds of ranges in comments, and examples of what is no code.
const NO_CODES: &[&str] = &["RX0220", "RX0249", "RX0299", "RX0999", "RX9999"];

/// Where expectations stand: the corpus and tests.
fn expects(path: &str) -> bool {
    !path.starts_with("xtask/")
        && !path.starts_with("corpus/mutants/")
        && (path.starts_with("corpus/") || path.contains("/tests/") || path.ends_with("tests.rs"))
}

/// The codes in a text, each with its first line.
fn codes(text: &str) -> BTreeMap<&str, usize> {
    let mut found = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("RX") {
            let code = line.get(at..at + 6).unwrap_or_default();
            let ends = line.as_bytes().get(at + 6).is_none_or(|byte| !byte.is_ascii_alphanumeric());
            if ends && code.len() == 6 && code[2..].bytes().all(|byte| byte.is_ascii_digit()) {
                found.entry(code).or_insert(index + 1);
            }
        }
    }
    found
}

fn explained() -> BTreeSet<&'static str> {
    code_tables().into_iter().flatten().map(|info| info.code).collect()
}

#[test]
fn codes_that_are_named_are_explained() {
    let explained = explained();
    let mut findings = Vec::new();
    for file in files().iter().filter(|file| !file.path.starts_with("xtask/")) {
        for (code, line) in codes(&file.text) {
            if !explained.contains(code) && !NO_CODES.contains(&code) {
                findings.push(format!("{}:{line}: `{code}` is in no table", file.path));
            }
        }
    }
    report("named codes", &findings);
}

#[test]
fn codes_are_explained_once() {
    let mut seen = BTreeSet::new();
    let infos = code_tables().into_iter().flatten();
    let twice = infos.filter(|info| !seen.insert(info.code));
    let findings = twice.map(|info| format!("CODES:1: `{}` is explained twice", info.code));
    report("unique codes", &findings.collect::<Vec<_>>());
}

#[test]
fn codes_that_are_explained_are_expected() {
    let files = files();
    let tests: Vec<&File> = files.iter().filter(|file| expects(&file.path)).collect();
    let expected: BTreeSet<&str> =
        tests.iter().flat_map(|file| codes(&file.text).into_keys()).collect();
    let mut findings = Vec::new();
    for code in explained() {
        let excused = UNEXPECTED.iter().find(|(excused, _)| *excused == code);
        match (expected.contains(code), excused) {
            (false, None) => findings.push(format!("CODES:1: nothing expects `{code}`")),
            (true, Some(_)) => {
                findings
                    .push(format!("CODES:1: `{code}` is expected by now: strike it off the list"));
            }
            _ => {}
        }
    }
    report("expected codes", &findings);
}

/// Ids of traps that stand in the source as they are, `Stop::trap("call/kind", …)`, with their lines.
fn trap_literals(file: &File) -> Vec<(usize, String)> {
    let lines = file.text.lines().enumerate();
    let literal = |(index, line): (usize, &str)| {
        let at = line.find("Stop::trap(\"").map(|at| at + "Stop::trap(\"".len())?;
        line[at..].split_once('"').map(|(id, _)| (index + 1, id.to_owned()))
    };
    lines.filter_map(literal).collect()
}

#[test]
fn traps_are_explained() {
    let ids: BTreeSet<&str> = TRAPS.iter().map(|trap| trap.id).collect();
    let mut findings = Vec::new();
    let sources = files();
    let sources = sources.iter().filter(|file| file.path.starts_with("semantics/src/"));
    for file in sources {
        for (line, id) in trap_literals(file) {
            if !ids.contains(id.as_str()) && !is_of_operator(&id) {
                findings.push(format!("{}:{line}: the trap `{id}` is not explained", file.path));
            }
        }
    }
    report("traps", &findings);
}

/// `einsum/kind`: an operand of another kind; `call_tir/C1`: a constraint of the row.
fn is_of_operator(id: &str) -> bool {
    id.split_once('/').is_some_and(|(name, what)| {
        let row = ops::lookup(name);
        row.is_some_and(|row| what == "kind" || row.constraints.iter().any(|c| c.id == what))
    })
}

#[test]
fn traps_that_the_corpus_expects_are_explained() {
    let ids: BTreeSet<&str> = TRAPS.iter().map(|trap| trap.id).collect();
    let mut findings = Vec::new();
    let mut seen = 0;
    for file in files().iter().filter(|file| file.path.ends_with(".rx")) {
        for (index, line) in file.text.lines().enumerate() {
            let Some(rest) = line.trim_start().strip_prefix("# trap[") else { continue };
            let Some((id, _)) = rest.split_once(']') else { continue };
            seen += 1;
            if !ids.contains(id) && !is_of_operator(id) {
                let place = format!("{}:{}", file.path, index + 1);
                findings.push(format!("{place}: the trap `{id}` is not explained"));
            }
        }
    }
    assert!(seen > 100, "the corpus expects traps, found {seen}");
    report("expected traps", &findings);
}
