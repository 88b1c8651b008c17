//! `relax check --fix`: applies the fixes that are certain, until there is none.

use crate::exit::Failure;
use crate::files::{is_stdin, read_program, write_whole};
use crate::report::{Finding, show, show_diagnostics};
use crate::terminal::Terminal;
use relax_program::frontend::Program;
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::{Applicability, Diagnostic, Fix};
use relax_syntax::span::Source;
use std::path::Path;

/// A fix may uncover the next mistake; programs in which each one does are given up.
const ROUNDS: usize = 100;

/// Fixes a file in place. The standard input is printed, fixed, to the standard output, and what is wrong with it still is
/// shown here. Whether there is a file left to check.
pub(super) fn fixed(
    path: &Path,
    phase: Option<Phase>,
    terminal: &mut Terminal,
) -> Result<bool, Failure> {
    let mut source = match read_program(path)? {
        Ok(source) => source,
        Err(unreadable) => {
            show(terminal, &unreadable.source, &[Finding::from(&unreadable.diagnostic)]);
            return Ok(false);
        }
    };
    let before = source.text.clone();
    let mut count = 0;
    for _ in 0..ROUNDS {
        let diagnostics = Program::load_for(source.clone(), phase).diagnostics;
        let (text, applied) = apply(&source.text, &diagnostics);
        if applied == 0 {
            break;
        }
        count += applied;
        source = Source::new(&source.name, text);
    }
    if is_stdin(path) {
        terminal.program(&source.text)?;
        let program = Program::load_for(source, phase);
        show_diagnostics(terminal, &program.source, &program.diagnostics);
        return Ok(false);
    }
    if source.text != before {
        write_whole(path, source.text.as_bytes())?;
        let plural = if count == 1 { "" } else { "es" };
        terminal.note(&format!("{}: {count} fix{plural} applied", source.name));
    }
    Ok(true)
}

/// The text with the certain fixes applied, and how many there were. Of fixes that overlap the first is applied.
fn apply(text: &str, diagnostics: &[Diagnostic]) -> (String, usize) {
    let mut fixes: Vec<&Fix> =
        diagnostics.iter().filter_map(|diagnostic| diagnostic.fix.as_deref()).collect();
    fixes.retain(|fix| fix.applicability == Applicability::Certain);
    fixes.sort_by_key(|fix| fix.span);
    let (mut fixed, mut end, mut applied) = (String::new(), 0, 0);
    for fix in fixes {
        let (start, stop) = (fix.span.start as usize, fix.span.end as usize);
        if start < end || (start == end && applied > 0) {
            continue;
        }
        let Some(kept) = text.get(end..start).filter(|_| text.is_char_boundary(stop)) else {
            continue;
        };
        fixed.push_str(kept);
        fixed.push_str(&fix.replacement);
        (end, applied) = (stop, applied + 1);
    }
    fixed.push_str(&text[end..]);
    (fixed, applied)
}
