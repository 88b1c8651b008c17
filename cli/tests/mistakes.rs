//! The mistakes that people make most (programs of `tests/cmd/mistakes.in`): one error each, the argument or name
//! underlined, and fixes that pass the check. The whole messages are in `tests/cmd/mistakes.trycmd`.

mod piped;

use piped::relax;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What a run of `relax check --fix` leaves.
#[derive(Clone, Copy, PartialEq)]
enum Fixed {
    /// A program that passes the check.
    Passes,
    /// What it was; the edits that are suggested make a program that passes the check.
    Suggested,
    /// An error fewer, and one that a person decides.
    Partly,
}

use Fixed::{Partly, Passes, Suggested};

/// A program, its errors in order, each with its code and what is underlined, and what the fixes make of it.
type Row = (&'static str, &'static [(&'static str, &'static str)], Fixed);

const ROWS: &[Row] = &[
    ("operator.rx", &[("RX0504", "rleu")], Passes),
    ("name.rx", &[("RX0202", "w2")], Passes),
    (
        "pytorch.rx",
        &[
            ("RX0504", "torch.relu"),
            ("RX0504", "np.concatenate"),
            ("RX0504", "mm"),
            ("RX0504", "dense"),
        ],
        Partly,
    ),
    ("axis.rx", &[("RX0501", "2")], Suggested),
    ("keyword.rx", &[("RX0503", "dim")], Passes),
    ("matmul.rx", &[("RX0501", "w")], Suggested),
    ("cast.rx", &[("RX0208", "m")], Passes),
    ("reshape.rx", &[("RX0202", "k")], Suggested),
    ("result.rx", &[("RX0208", "m")], Suggested),
    ("never.rx", &[("RX0501", "shape(n, 5)")], Suggested),
    ("indent.rx", &[("RX0105", "   ")], Passes),
    ("tab.rx", &[("RX0104", "\t")], Passes),
    ("infix.rx", &[("RX0217", "x @ w + 1.0")], Passes),
    ("unquoted.rx", &[("RX0208", "n"), ("RX0204", "float32"), ("RX0204", "int64")], Passes),
    ("dtype.rx", &[("RX0204", "\"float\"")], Passes),
    ("python.rx", &[("RX0101", "import"), ("RX0101", "class")], Partly),
    ("annotation.rx", &[("RX0223", "relu(x)")], Suggested),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/mistakes.in")
}

fn text_of(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect("the program is there")
}

fn findings(text: &str) -> Vec<Value> {
    let ended = relax(&["check", "-", "--format", "json"], text.as_bytes());
    let said = String::from_utf8(ended.stderr).expect("messages are UTF-8");
    said.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// The part of the text that a place covers, on its first line.
fn covered<'t>(text: &'t str, place: &Value) -> &'t str {
    let number =
        |key: &str| usize::try_from(place[key].as_u64().expect("a number")).expect("small");
    let line = text.lines().nth(number("line") - 1).unwrap_or_default();
    let end =
        if number("end_line") == number("line") { number("end_column") - 1 } else { line.len() };
    &line[number("column") - 1..end]
}

#[test]
fn every_mistake_is_one_error_with_its_part_underlined() {
    for (name, expected, _) in ROWS {
        let text = text_of(name);
        let found = findings(&text);
        let seen: Vec<(&str, &str)> =
            found.iter().map(|f| (f["code"].as_str().unwrap_or(""), covered(&text, f))).collect();
        assert_eq!(seen.as_slice(), *expected, "{name}");
        for finding in &found {
            let labels = finding["labels"].as_array().expect("labels");
            assert!(!labels.is_empty(), "{name}: {finding}");
            let says = |label: &Value| {
                label["text"].as_str().is_some_and(|t| !t.is_empty() && t != "here")
            };
            assert!(labels.iter().all(says), "{name}: {finding}");
        }
    }
}

#[test]
fn fixes_pass_the_check() {
    for (name, expected, fixed) in ROWS {
        let text = text_of(name);
        let ended = relax(&["check", "-", "--fix"], text.as_bytes());
        let mended = String::from_utf8(ended.stdout).expect("a program is UTF-8");
        let left = findings(&mended);
        match fixed {
            Passes => assert!(left.is_empty() && mended != text, "{name}: {left:?}\n{mended}"),
            Partly => assert!(
                !left.is_empty() && left.len() < expected.len(),
                "{name}: {left:?}\n{mended}"
            ),
            Suggested => assert_eq!(mended, text, "{name}"),
        }
        // The JSON has the same fixes, one by one.
        let has_fixes = findings(&text).iter().any(|finding| finding["fix"].is_object());
        assert_eq!(has_fixes, !matches!(fixed, Suggested), "{name}");
    }
}

/// The text with an edit applied.
fn edited(text: &str, edit: &Value) -> String {
    let at = |key: &str| usize::try_from(edit[key].as_u64().expect("a byte")).expect("small");
    let replacement = edit["replacement"].as_str().expect("a text");
    format!("{}{replacement}{}", &text[..at("start")], &text[at("end")..])
}

#[test]
fn suggestions_pass_the_check() {
    let mut suggested = 0;
    for (name, _, _) in ROWS.iter().filter(|(_, _, fixed)| *fixed == Suggested) {
        let text = text_of(name);
        let found = findings(&text);
        let edit = &found[0]["edit"];
        assert_eq!(edit["certain"], false, "{name}: a person decides");
        let mended = edited(&text, edit);
        let ended = relax(&["check", "-", "--deny", "warnings"], mended.as_bytes());
        assert_eq!(ended.status.code(), Some(0), "{name}: {mended}{ended:?}");
        suggested += 1;
    }
    assert_eq!(suggested, 6);
}

#[test]
fn values_of_flags_are_suggested() {
    for (flags, value) in [
        (&["check", "-", "--phase", "P3"][..], "P2.3"),
        (&["run", "-", "--backend", "interpr"], "interp"),
        (&["check", "-", "--format", "jsn"], "json"),
    ] {
        let ended = relax(flags, b"def main():\n    return shape(1, 2)\n");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let tip = format!("tip: a similar value exists: '{value}'");
        assert_eq!((ended.status.code(), said.contains(&tip)), (Some(2), true), "{said}");
        let place = flags.len() - 1;
        let mended = [&flags[..place], &[value]].concat();
        let ended = relax(&mended, b"def main():\n    return shape(1, 2)\n");
        assert_ne!(ended.status.code(), Some(2), "{mended:?} {ended:?}");
    }
}

/// Applied alone, the fix of a finding takes that finding away and adds none.
#[test]
fn a_fix_alone_mends_its_mistake() {
    for (name, expected, _) in ROWS {
        let text = text_of(name);
        for finding in findings(&text) {
            let fix = &finding["fix"];
            if fix.is_null() {
                continue;
            }
            let mended = edited(&text, fix);
            let left = findings(&mended);
            assert_eq!(left.len(), expected.len() - 1, "{name}: {finding}\n{mended}{left:?}");
        }
    }
}

#[test]
fn files_are_fixed_in_place() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("operator.rx");
    std::fs::write(&path, text_of("operator.rx")).expect("the program is written");
    let ended = relax(&["check", "--fix", &path.display().to_string()], b"");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let fixed = std::fs::read_to_string(&path).expect("the program is there");
    assert!(fixed.contains("y = relu(x)"), "{fixed}");
    let files = std::fs::read_dir(folder.path()).expect("the folder is there").count();
    assert_eq!(files, 1, "a temporary file is left");
}
