//! Text to syntax tree, with every error of a file in one run.
//!
//! Statements that did not parse are left out of the tree. The parser never fails otherwise: it
//! returns what it could read and what was wrong.

pub(crate) mod build;
mod report;

use crate::ast::{Expr, File, StatementKind};
use crate::codes;
use crate::diagnostic::Diagnostic;
use crate::lexer::Lexer;
pub use crate::lexer::limits;
use crate::span::{Source, Span};
use build::Notes;
use std::cell::Cell;

// Generated code keeps no lints.
#[allow(clippy::all, clippy::unwrap_used, missing_docs, unreachable_pub, unused)]
mod grammar {
    lalrpop_util::lalrpop_mod!(tables, "/grammar.rs");
    pub(super) use tables::FileParser;
}

/// Bytes that are no source text; what could be read of them serves to show the place.
#[derive(Debug)]
pub struct Unreadable {
    /// The text, what is wrong in it replaced; the place is where it was.
    pub source: Source,
    /// What is wrong.
    pub diagnostic: Diagnostic,
}

/// Takes the bytes of a file as a source text.
///
/// # Errors
/// Bytes that are not UTF-8, or more than [`limits::FILE_BYTES`] of them.
pub fn read_source(name: &str, bytes: &[u8]) -> Result<Source, Box<Unreadable>> {
    if bytes.len() > limits::FILE_BYTES {
        let source = Source::new(name, "");
        return Err(Box::new(Unreadable { source, diagnostic: too_large() }));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Source::new(name, text)),
        Err(error) => {
            let at = error.valid_up_to();
            let diagnostic = Diagnostic::error(
                codes::UTF8,
                Span::new(at, at + '\u{fffd}'.len_utf8()),
                format!("expected UTF-8 text, found the byte 0x{:02x}", bytes[at]),
            )
            .with_help("store the file as UTF-8");
            let source = Source::new(name, String::from_utf8_lossy(bytes));
            Err(Box::new(Unreadable { source, diagnostic }))
        }
    }
}

/// Parses a file. Without diagnostics the tree is the whole file; else it lacks what was wrong.
/// The diagnostics are in the order of their places.
#[must_use]
pub fn parse_file(source: &Source) -> (File, Vec<Diagnostic>) {
    if source.text.len() > limits::FILE_BYTES {
        return (File::default(), vec![too_large()]);
    }
    let errors = Cell::new(0);
    let mut lexer = Lexer::file(&source.text, &errors);
    let (statements, diagnostics) = run(&mut lexer, &source.text, 0, &errors);
    (File { statements, comments: lexer.comments }, diagnostics)
}

/// Parses one expression, such as a dim in quotes. `offset` is where `text` begins in its file.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_expression(text: &str, offset: u32) -> Result<Expr, Diagnostic> {
    if text.len() > limits::FILE_BYTES {
        return Err(too_large());
    }
    let errors = Cell::new(0);
    let mut lexer = Lexer::expression(text, offset, &errors);
    let (mut statements, diagnostics) = run(&mut lexer, text, offset, &errors);
    if let Some(first) = diagnostics.into_iter().next() {
        return Err(first);
    }
    match statements.pop().map(|statement| statement.kind) {
        Some(StatementKind::Expr(expr)) if statements.is_empty() => Ok(expr),
        found => {
            let end = offset.saturating_add(u32::try_from(text.len()).unwrap_or(u32::MAX));
            let found = if found.is_some() { "a statement" } else { "nothing" };
            let message = format!("expected an expression, found {found}");
            Err(Diagnostic::error(codes::SYNTAX, Span { start: offset, end }, message))
        }
    }
}

fn run<'s>(
    lexer: &mut Lexer<'s>,
    text: &'s str,
    base: u32,
    errors: &'s Cell<usize>,
) -> (Vec<crate::ast::Statement>, Vec<Diagnostic>) {
    let mut notes = Notes { text, base, errors, diagnostics: Vec::new() };
    let parsed = grammar::FileParser::new().parse(&mut notes, &mut *lexer);
    let statements = parsed.unwrap_or_else(|error| {
        notes.failed(error);
        Vec::new()
    });
    // A bracket that nothing closes swallows lines; what the parser says of them adds nothing.
    let mut diagnostics = notes.diagnostics;
    diagnostics.retain(|diagnostic| {
        let at = diagnostic.primary.span.start;
        !lexer.unclosed.iter().any(|range| range.start <= at && at <= range.end)
    });
    diagnostics.append(&mut lexer.diagnostics);
    diagnostics.sort_by_key(|diagnostic| (diagnostic.primary.span, diagnostic.code));
    shorten(&mut diagnostics);
    (statements, diagnostics)
}

/// Keeps as many errors as a person may want to see.
fn shorten(diagnostics: &mut Vec<Diagnostic>) {
    if diagnostics.len() > limits::ERRORS {
        diagnostics.truncate(limits::ERRORS);
        let last = diagnostics.last().map_or(Span::default(), |last| last.primary.span);
        diagnostics.push(
            Diagnostic::error(codes::TOO_MANY, last, "further errors not shown")
                .with_help("correct those above and try again"),
        );
    }
}

fn too_large() -> Diagnostic {
    let message = format!("this file is larger than {} bytes", limits::FILE_BYTES);
    Diagnostic::error(codes::TOO_LARGE, Span::default(), message)
        .with_help("keep big constants in a file for `--params`")
}
