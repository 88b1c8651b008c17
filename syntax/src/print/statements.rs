//! Statements and blocks.

use super::items::Item;
use super::{Printer, flat};
use crate::ast::{BinaryOp, Def, Expr, ExprKind, Statement, StatementKind};
use crate::span::Span;

impl Printer<'_> {
    /// Writes a file: a blank line around each function.
    pub(super) fn top_level(&mut self, statements: &[Statement]) {
        let is_def = |statement: &Statement| matches!(statement.kind, StatementKind::Def(_));
        for (index, statement) in statements.iter().enumerate() {
            let first = index == 0;
            let around = !first && (is_def(statement) || is_def(&statements[index - 1]));
            if around && !self.blank_before_next(statement.span.start) {
                self.blank_line();
            }
            self.lead(statement.span.start, first);
            self.statement(statement, next_start(statements, index, u32::MAX));
        }
        self.close_file(statements.is_empty());
    }

    /// Writes the statements of a block that ends before `limit`.
    fn block(&mut self, statements: &[Statement], limit: u32) {
        self.level += 1;
        for (index, statement) in statements.iter().enumerate() {
            self.lead(statement.span.start, index == 0);
            self.statement(statement, next_start(statements, index, limit));
        }
        match statements.first() {
            Some(first) => self.close_block(first.span.start, limit),
            None => {
                self.new_line();
                self.out.push_str("pass");
            }
        }
        self.level -= 1;
    }

    /// Writes a statement on lines of its own; `limit` is where the next one begins.
    pub(super) fn statement(&mut self, statement: &Statement, limit: u32) {
        match &statement.kind {
            StatementKind::If { .. } => self.branch("if ", statement, limit),
            StatementKind::For { targets, iterator, body } => {
                let start = self.begin("for ");
                flat::separated(&mut self.out, targets, |out, target| out.push_str(&target.name));
                self.out.push_str(" in ");
                self.header(start, iterator, body, limit);
            }
            StatementKind::With { context, body } => {
                let start = self.begin("with ");
                self.header(start, context, body, limit);
            }
            StatementKind::Def(def) => self.def(def, limit),
            simple => {
                let start = self.begin("");
                self.simple(simple);
                self.hoist(start, statement.span.end);
                self.trail(statement.span.end);
            }
        }
    }

    /// Begins a line with `text`; where in the output that is.
    fn begin(&mut self, text: &str) -> usize {
        self.new_line();
        let start = self.out.len();
        self.out.push_str(text);
        start
    }

    /// Ends a header with `expr` and a colon, and writes its block.
    fn header(&mut self, start: usize, expr: &Expr, body: &[Statement], limit: u32) {
        self.expr(expr, 0, 1);
        self.out.push(':');
        self.hoist(start, expr.span.end);
        self.trail_header(block_start(body));
        self.block(body, limit);
    }

    fn branch(&mut self, keyword: &str, statement: &Statement, limit: u32) {
        let StatementKind::If { condition, then, otherwise, else_span } = &statement.kind else {
            return self.statement(statement, limit);
        };
        let start = self.begin(keyword);
        let tail = else_span.map_or_else(
            || otherwise.first().map_or(limit, |first| first.span.start),
            |span| span.start,
        );
        self.header(start, condition, then, tail);
        if otherwise.is_empty() {
            return;
        }
        self.comment_lines_tight(tail);
        match otherwise.as_slice() {
            [inner @ Statement { kind: StatementKind::If { .. }, .. }] if else_span.is_none() => {
                self.branch("elif ", inner, limit);
            }
            _ => {
                self.begin("else:");
                self.trail_header(block_start(otherwise));
                self.block(otherwise, limit);
            }
        }
    }

    fn def(&mut self, def: &Def, limit: u32) {
        for decorator in &def.decorators {
            let start = self.begin("@");
            self.expr(decorator, 0, 0);
            self.hoist(start, decorator.span.end);
            self.trail(decorator.span.end);
        }
        if !def.decorators.is_empty() {
            self.comment_lines_tight(def.name.span.start);
        }
        let start = self.begin("def ");
        self.out.push_str(&def.name.name);
        let end = def.returns.as_ref().map_or(def.header.end, |returns| returns.span.start);
        let commented = self.comments.any_in(Span { start: def.header.start, end });
        if commented || !self.fits(0, |out, limit| write_signature(out, def, limit)) {
            let items: Vec<Item<'_>> = def.parameters.iter().map(Item::Parameter).collect();
            self.bracket("(", &items, ")", end);
            if let Some(returns) = &def.returns {
                self.out.push_str(" -> ");
                self.expr(returns, 0, 1);
            }
            self.out.push(':');
        }
        self.hoist(start, def.header.end);
        self.trail_header(block_start(&def.body));
        self.block(&def.body, limit);
    }

    /// Writes a statement without a block.
    fn simple(&mut self, statement: &StatementKind) {
        match statement {
            StatementKind::Assign { target, annotation, value } => {
                let bare = matches!(&target.kind, ExprKind::Tuple(items) if items.len() > 1);
                self.bare_tuple(target, bare);
                if let Some(annotation) = annotation {
                    self.out.push_str(": ");
                    self.expr(annotation, 0, " = (".len());
                }
                self.out.push_str(" = ");
                self.bare_tuple(value, bare);
            }
            StatementKind::Update { target, op, value } => {
                self.expr(target, 0, 0);
                self.out.push_str(update(*op));
                self.expr(value, 0, 0);
            }
            StatementKind::Return(value) => {
                self.out.push_str("return ");
                self.expr(value, 0, 0);
            }
            StatementKind::Expr(Expr { kind: ExprKind::Str(text), .. }) => self.doc_string(text),
            StatementKind::Expr(expr) => self.expr(expr, 0, 0),
            _ => self.out.push_str("pass"),
        }
    }

    /// Writes a tuple of two or more without parentheses where that fits the line.
    fn bare_tuple(&mut self, expr: &Expr, bare: bool) {
        if let ExprKind::Tuple(items) = &expr.kind
            && bare
            && items.len() > 1
            && !self.comments.any_in(expr.span)
            && self.fits(0, |out, limit| {
                flat::separated(out, items, |out, item| flat::write(out, item, 0, limit));
            })
        {
            return;
        }
        self.expr(expr, 0, 0);
    }

    /// Writes a string of several lines in triple quotes, if its text can stand there as it is.
    fn doc_string(&mut self, text: &str) {
        let plain = |character: char| character == '\n' || !character.is_control();
        let verbatim = text.contains('\n')
            && !text.contains(['"', '\\', '\u{feff}'])
            && text.chars().all(plain);
        if verbatim {
            self.out.push_str("\"\"\"");
            self.out.push_str(text);
            self.out.push_str("\"\"\"");
        } else {
            flat::string(&mut self.out, text);
        }
    }
}

/// `(parameters) -> returns:` on one line.
fn write_signature(out: &mut String, def: &Def, limit: usize) {
    out.push('(');
    flat::separated(out, &def.parameters, |out, item| flat::parameter(out, item, limit));
    out.push(')');
    if let Some(returns) = &def.returns {
        out.push_str(" -> ");
        flat::write(out, returns, 0, limit);
    }
    out.push(':');
}

/// Where the statement behind number `index` begins.
fn next_start(statements: &[Statement], index: usize, limit: u32) -> u32 {
    statements.get(index + 1).map_or(limit, |next| next.span.start)
}

fn block_start(body: &[Statement]) -> u32 {
    body.first().map_or(0, |first| first.span.start)
}

fn update(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Sub => " -= ",
        BinaryOp::Mul => " *= ",
        BinaryOp::Div => " /= ",
        _ => " += ",
    }
}
