//! Sizes of files and functions, and the sentence that opens each file.

use crate::project::{files_ending, report};
use proc_macro2::Span;
use syn::visit::{self, Visit};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;

/// Functions that are longer, each with its reason. This list only gets shorter.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[(
    "semantics/src/tir/machine.rs",
    "exec",
    "the dispatch loop: an arm an instruction, over registers that live in one frame",
)];

#[test]
fn files_are_short() {
    let long = files_ending(".rs").into_iter().filter_map(|file| {
        let lines = file.text.lines().count();
        let path = &file.path;
        (lines > FILE_LINES)
            .then(|| format!("{path}:{lines}: a file of {lines} lines, at most {FILE_LINES}"))
    });
    report("lengths of files", &long.collect::<Vec<_>>());
}

#[test]
fn files_say_what_they_are() {
    let silent = files_ending(".rs").into_iter().filter(|file| !file.text.starts_with("//! "));
    let findings = silent.map(|file| format!("{}:1: opens without `//! what and why`", file.path));
    report("first lines", &findings.collect::<Vec<_>>());
}

/// Functions that are too long: line, name, lines.
#[derive(Default)]
struct Long(Vec<(usize, String, usize)>);

impl Long {
    fn function(&mut self, signature: &syn::Signature, end: Span) {
        let first = signature.fn_token.span.start().line;
        let lines = end.end().line + 1 - first;
        if lines > FUNCTION_LINES {
            self.0.push((first, signature.ident.to_string(), lines));
        }
    }
}

impl<'ast> Visit<'ast> for Long {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, item.block.brace_token.span.close());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, item.block.brace_token.span.close());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block.brace_token.span.close());
        }
        visit::visit_trait_item_fn(self, item);
    }
}

fn long_functions(text: &str) -> Vec<(usize, String, usize)> {
    let file = syn::parse_file(text).expect("sources of the project are Rust");
    let mut long = Long::default();
    long.visit_file(&file);
    long.0
}

#[test]
fn functions_are_short() {
    let mut findings = Vec::new();
    for file in files_ending(".rs") {
        for (line, name, lines) in long_functions(&file.text) {
            let path = &file.path;
            if LONG_FUNCTIONS.iter().any(|(long, which, _)| long == path && *which == name) {
                continue;
            }
            findings.push(format!(
                "{path}:{line}: `{name}` has {lines} lines, at most {FUNCTION_LINES}"
            ));
        }
    }
    report("lengths of functions", &findings);
}

#[test]
fn a_long_function_is_found() {
    let body = "    let brace = '{'; // }\n".repeat(FUNCTION_LINES - 1);
    let text =
        format!("struct S;\nimpl S {{\n#[inline]\nfn long() {{\n{body}}}\n}}\nfn f() {{}}\n");
    assert_eq!(long_functions(&text), [(4, "long".to_owned(), FUNCTION_LINES + 1)]);
}
