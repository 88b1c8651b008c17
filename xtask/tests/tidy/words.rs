//! Words that do not belong into the project: unfinished work, `unsafe` outside of the backends, the kernel check, the runtime and the Python package,
//! paths of somebody's machine.

use crate::project::{files, files_ending, report};
use proc_macro2::{TokenStream, TokenTree};

/// Where `unsafe` may stand.
const MAY_BE_UNSAFE: [&str; 3] = ["backends/", "driver/src/kernel_check/", "python/"];

fn may_be_unsafe(path: &str) -> bool {
    MAY_BE_UNSAFE.iter().any(|folder| path.starts_with(folder))
}

/// Macros that say that something is not done.
const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];

/// Marks of unfinished work and the beginnings of paths that mean something on one machine only.
/// In pieces, so that this file does not break its own rule.
const WORDS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/t", "mp/"),
];

/// Forbidden pieces of code: line and what it is.
fn forbidden(text: &str, unsafe_allowed: Unsafe) -> Vec<(usize, String)> {
    let stream: TokenStream = text.parse().expect("sources of the project are Rust");
    let mut found = Vec::new();
    look(stream, unsafe_allowed, &mut found);
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unsafe {
    Allowed,
    Forbidden,
}

fn look(stream: TokenStream, unsafe_code: Unsafe, found: &mut Vec<(usize, String)>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    for (index, tree) in trees.iter().enumerate() {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                let called =
                    matches!(trees.get(index + 1), Some(TokenTree::Punct(p)) if p.as_char() == '!');
                if called && UNFINISHED.contains(&name.as_str()) {
                    found.push((line, format!("`{name}!`")));
                }
                if name == "unsafe" && unsafe_code == Unsafe::Forbidden {
                    found.push((
                        line,
                        format!("`unsafe` outside of {}", MAY_BE_UNSAFE.join(" and ")),
                    ));
                }
            }
            TokenTree::Group(group) => {
                let inner = group.stream();
                let attribute = index > 0
                    && matches!(&trees[index - 1], TokenTree::Punct(p) if p.as_char() == '#');
                let first = inner.clone().into_iter().next();
                if attribute && matches!(first, Some(TokenTree::Ident(name)) if name == "ignore") {
                    found.push((line, "a test that is not run".to_owned()));
                }
                look(inner, unsafe_code, found);
            }
            _ => {}
        }
    }
}

#[test]
fn code_is_finished_and_safe() {
    let mut findings = Vec::new();
    for file in files_ending(".rs") {
        let allowed = if may_be_unsafe(&file.path) { Unsafe::Allowed } else { Unsafe::Forbidden };
        let found = forbidden(&file.text, allowed);
        findings
            .extend(found.into_iter().map(|(line, what)| format!("{}:{line}: {what}", file.path)));
    }
    report("forbidden code", &findings);
}

#[test]
fn files_mention_no_unfinished_work_and_no_machine() {
    let mut findings = Vec::new();
    for file in files() {
        for (index, line) in file.text.lines().enumerate() {
            for word in WORDS.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{}: `{word}`", file.path, index + 1));
            }
        }
    }
    report("forbidden words", &findings);
}

#[test]
fn forbidden_code_is_found() {
    let text = "#[ignore]\nfn f() {\n    todo!()\n}\n// unsafe\nunsafe fn g() {}\nconst S: &str = \"dbg!\";\n";
    let lines =
        |allowed| forbidden(text, allowed).iter().map(|(line, _)| *line).collect::<Vec<_>>();
    assert_eq!(lines(Unsafe::Forbidden), [1, 3, 6]);
    assert_eq!(lines(Unsafe::Allowed), [1, 3]);
}
