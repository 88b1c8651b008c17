//! Syntax tree to text. What is printed parses back to the same tree.
//!
//! An expression stays on one line while the line has at most [`WIDTH`] columns; else the items of
//! its outermost bracket stand on a line each. The formatter uses the same printer and adds the
//! comments and blank lines of a source text.

mod comments;
mod flat;
mod items;
mod statements;

use crate::ast::{Comment, Expr, File, Statement};
use crate::operators::Strength;
use comments::Comments;

/// Columns of a line.
pub const WIDTH: usize = 100;
/// Blanks of one level of indentation.
pub const INDENT: usize = 4;

/// Prints a file without its comments.
#[must_use]
pub fn print_file(file: &File) -> String {
    let mut printer = Printer::new("", &[], 0);
    printer.top_level(&file.statements);
    printer.finish()
}

/// Prints a statement with its blocks, at `level` levels of indentation, without a last line end.
#[must_use]
pub fn print_statement(statement: &Statement, level: usize) -> String {
    let mut printer = Printer::new("", &[], level);
    printer.statement(statement, u32::MAX);
    printer.out
}

/// Prints an expression on one line.
#[must_use]
pub fn print_expression(expr: &Expr) -> String {
    let mut out = String::new();
    flat::write(&mut out, expr, 0, usize::MAX);
    out
}

/// Prints a file with its comments, and blank lines where `text` has some.
pub(crate) fn print_with_comments(file: &File, text: &str) -> String {
    let mut printer = Printer::new(text, &file.comments, 0);
    printer.top_level(&file.statements);
    printer.finish()
}

/// The text so far and where in it the printer is.
struct Printer<'a> {
    out: String,
    level: usize,
    comments: Comments<'a>,
}

impl<'a> Printer<'a> {
    fn new(text: &'a str, comments: &'a [Comment], level: usize) -> Self {
        Self { out: String::new(), level, comments: Comments::new(text, comments) }
    }

    fn finish(mut self) -> String {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }

    /// Begins a line at the current indent.
    fn new_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n(' ', self.level * INDENT));
    }

    /// Leaves a blank line before the next one.
    fn blank_line(&mut self) {
        self.out.push('\n');
    }

    /// Characters of the current line so far.
    fn column(&self) -> usize {
        let line = self.out.rfind('\n').map_or(0, |line_end| line_end + 1);
        self.out[line..].chars().count()
    }

    /// Runs `write` and keeps what it wrote if, with `suffix` more columns, it fits the line.
    fn fits(&mut self, suffix: usize, write: impl FnOnce(&mut String, usize)) -> bool {
        let start = self.out.len();
        // No character has more than four bytes.
        write(&mut self.out, start + 4 * WIDTH);
        let kept = self.out.len() <= start + 4 * WIDTH && self.column() + suffix <= WIDTH;
        if !kept {
            self.out.truncate(start);
        }
        kept
    }

    /// Writes an expression, on one line if with `suffix` more columns it fits.
    fn expr(&mut self, expr: &Expr, least: Strength, suffix: usize) {
        let commented = self.comments.any_in(expr.span);
        if commented || !self.fits(suffix, |out, limit| flat::write(out, expr, least, limit)) {
            self.broken(expr, least, suffix);
        }
    }
}
