//! The programs in the language reference are programs: what is marked `rx` checks clean, what is
//! marked `rx,error` does not.

use crate::project::{report, root};
use relax_semantics::check::{Phase, check};
use relax_symbolic::Prover;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;

const REFERENCE: &str = "docs/LANGUAGE.md";

/// A block of code in the reference.
struct Block {
    /// The line of its fence, from 1.
    line: usize,
    /// What stands behind the fence.
    mark: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (index, line) in page.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(mark) if !open => {
                open = true;
                blocks.push(Block { line: index + 1, mark: mark.to_owned(), text: String::new() });
            }
            Some(_) => open = false,
            None if open => {
                let block = blocks.last_mut().expect("invariant: an open block was pushed");
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    blocks
}

fn diagnostics(source: &Source) -> Vec<Diagnostic> {
    let (file, mut found) = parse_file(source);
    let (module, resolved) = resolve_file(&file);
    found.extend(resolved);
    found.extend(check(&module, &mut Prover::new(), Phase::Surface).diagnostics);
    found
}

#[test]
fn programs_of_the_reference_check() {
    let page = std::fs::read_to_string(root().join(REFERENCE)).expect("the reference is there");
    let (mut findings, mut checked) = (Vec::new(), 0);
    for block in blocks(&page).iter().filter(|block| block.mark.starts_with("rx")) {
        checked += 1;
        let source = Source::new(REFERENCE, block.text.as_str());
        let found = diagnostics(&source);
        match (block.mark.as_str(), found.first()) {
            ("rx", Some(first)) => {
                let line = block.line + source.line_column(first.primary.span.start).0;
                findings.push(format!("{REFERENCE}:{line}: {}: {}", first.code, first.message));
            }
            ("rx,error", None) => {
                findings.push(format!("{REFERENCE}:{}: nothing is wrong here", block.line));
            }
            ("rx", None) | ("rx,error", Some(_)) => {}
            (mark, _) => {
                findings.push(format!("{REFERENCE}:{}: unknown mark `{mark}`", block.line))
            }
        }
    }
    assert!(checked > 5, "the reference shows programs");
    report("programs of the reference", &findings);
}
