//! Names of operators: a fact about one operator stands in its row, so other sources do not name it. Those that
//! still do are on record with a count that may only shrink.

use crate::project::{File, files_ending, report, root};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use relax_semantics::ops;
use std::collections::BTreeMap;
use std::fmt::Write;

/// `count path` for each source with names. `RELAX_BLESS=1` lowers counts and drops sources without names.
const RECORD: &str = "xtask/tests/tidy/operator_names.txt";

/// The table, importers, and what tests operators.
const MAY_NAME: [&str; 4] = ["semantics/src/ops/", "import/src/", "corpus/generate/src/", "bench/"];

/// The string literals that name an operator, outside of modules of tests.
fn names(tokens: TokenStream) -> usize {
    let (mut count, mut in_tests) = (0, false);
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let is_attribute = group.delimiter() == Delimiter::Bracket
                    && group.stream().to_string().replace(' ', "") == "cfg(test)";
                if is_attribute {
                    in_tests = true;
                } else if group.delimiter() == Delimiter::Brace && in_tests {
                    in_tests = false;
                } else {
                    count += names(group.stream());
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => in_tests = false,
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let name = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                count += usize::from(name.is_some_and(|name| ops::lookup(name).is_some()));
            }
            TokenTree::Punct(_) | TokenTree::Ident(_) => {}
        }
    }
    count
}

fn is_bound(file: &File) -> bool {
    let path = &file.path;
    let is_test = path.contains("tests/") || path.ends_with("tests.rs");
    !is_test && !MAY_NAME.iter().any(|start| path.starts_with(start))
}

#[test]
fn operators_are_named_in_their_rows() {
    let record = std::fs::read_to_string(root().join(RECORD)).expect("the counts are on record");
    let known = record.lines().filter_map(|line| line.split_once(' '));
    let known: BTreeMap<&str, usize> =
        known.map(|(count, path)| (path, count.parse().expect("a count"))).collect();
    let (mut findings, mut lines) = (Vec::new(), String::new());
    for file in files_ending(".rs").iter().filter(|file| is_bound(file)) {
        let tokens = file.text.parse().expect("sources of the project are Rust");
        let (count, most) = (names(tokens), known.get(&*file.path).copied().unwrap_or(0));
        if count > most {
            findings.push(format!("{}: {count} names of operators, at most {most}", file.path));
        }
        if count > 0 {
            let _ = writeln!(lines, "{} {}", count.min(most), file.path);
        }
    }
    if findings.is_empty() && std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(root().join(RECORD), lines).expect("it is written");
    }
    report("names of operators", &findings);
}

#[test]
fn names_of_operators_are_found() {
    let count = |text: &str| names(text.parse().expect("Rust"));
    assert_eq!(count("fn f(x: &str) -> bool { matches!(x, \"add\" | \"nn.relu\" | \"relu\") }"), 3);
    assert_eq!(count("fn f() { g(\"no operator\"); }"), 0);
    assert_eq!(
        count("#[cfg(test)]\nmod tests { const X: &str = \"add\"; }\nconst Y: &str = \"add\";"),
        1
    );
    assert_eq!(count("#[cfg(test)]\nmod tests;\nfn f() { g(\"add\"); }"), 1);
}
