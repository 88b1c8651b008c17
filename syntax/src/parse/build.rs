//! What the grammar's actions build, and the errors that only they can see.

use crate::Name;
use crate::ast::{
    Argument, BinaryOp, Expr, ExprKind, Identifier, Parameter, Statement, StatementKind, UnaryOp,
};
use crate::codes;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::operators::{self, Strength};
use crate::span::Span;
use lalrpop_util::{ErrorRecovery, ParseError};
use std::convert::Infallible;
use std::iter::Peekable;

/// The parser's findings.
pub(crate) struct Notes<'t> {
    pub(crate) text: &'t str,
    pub(crate) base: u32,
    pub(crate) errors: &'t std::cell::Cell<usize>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The statements of a block, and where its `else:` stands if it has one.
pub(crate) struct Block {
    pub(crate) statements: Vec<Statement>,
    pub(crate) else_span: Option<Span>,
}

/// An operand with the prefix operators before it, innermost first.
pub(crate) struct Operand {
    prefixes: Vec<(UnaryOp, u32)>,
    value: Expr,
    /// Parentheses around the value included.
    end: u32,
    start: u32,
}

/// Operands with the operators between them.
pub(crate) struct Chain {
    first: Operand,
    rest: Vec<(BinaryOp, Span, Operand)>,
}

impl Operand {
    pub(crate) fn new(value: Expr, start: u32, end: u32) -> Self {
        Self { prefixes: Vec::new(), value, start, end }
    }

    pub(crate) fn prefixed(mut self, op: UnaryOp, start: u32) -> Self {
        // Operands are read from the right, so the outermost comes last.
        self.prefixes.push((op, start));
        self
    }
}

impl Chain {
    pub(crate) fn start(
        first: Operand,
        (op, span): (BinaryOp, Span),
        second: Operand,
    ) -> Box<Self> {
        Box::new(Self { first, rest: vec![(op, span, second)] })
    }

    pub(crate) fn push(
        mut self: Box<Self>,
        (op, span): (BinaryOp, Span),
        next: Operand,
    ) -> Box<Self> {
        self.rest.push((op, span, next));
        self
    }
}

pub(crate) fn expr(kind: ExprKind, start: u32, end: u32) -> Expr {
    Expr { kind, span: Span { start, end } }
}

pub(crate) fn statement(kind: StatementKind, start: u32, end: u32) -> Box<Statement> {
    Box::new(Statement { kind, span: Span { start, end } })
}

pub(crate) fn prepend(first: Expr, rest: Vec<Expr>) -> Vec<Expr> {
    let mut items = Vec::with_capacity(rest.len() + 1);
    items.push(first);
    items.extend(rest);
    items
}

pub(crate) fn branch(condition: Expr, then: Block, tail: Option<Block>) -> Box<StatementKind> {
    let (otherwise, else_span) =
        tail.map_or((Vec::new(), None), |block| (block.statements, block.else_span));
    Box::new(StatementKind::If { condition, then: then.statements, otherwise, else_span })
}

pub(crate) fn assign(
    notes: &mut Notes<'_>,
    target: Expr,
    annotation: Option<Expr>,
    value: Expr,
) -> Box<StatementKind> {
    notes.check_target(&target, annotation.is_some());
    Box::new(StatementKind::Assign { target, annotation, value })
}

pub(crate) fn update(
    notes: &mut Notes<'_>,
    target: Expr,
    op: BinaryOp,
    value: Expr,
) -> Box<StatementKind> {
    if matches!(target.kind, ExprKind::Tuple(_)) {
        notes.report(
            Diagnostic::error(codes::TARGET, target.span, "a tuple cannot be updated in place")
                .with_help("update one name or element a line"),
        );
    } else {
        notes.check_target(&target, false);
    }
    Box::new(StatementKind::Update { target, op, value })
}

/// An operand alone: only prefixes to apply.
pub(crate) fn resolve_operand(operand: Operand) -> Expr {
    let Operand { prefixes, value, end, .. } = operand;
    prefixes
        .into_iter()
        .fold(value, |value, (op, start)| expr(ExprKind::Unary(op, Box::new(value)), start, end))
}

/// Sorts a chain by the strength of its operators.
pub(crate) fn resolve(notes: &mut Notes<'_>, chain: Chain) -> Expr {
    let Chain { first, rest } = chain;
    let mut sorter = Sorter { notes, operand: Some(first), rest: rest.into_iter().peekable() };
    sorter.climb(0).value
}

struct Sorter<'a, 't> {
    notes: &'a mut Notes<'t>,
    /// What comes next, unless it is an operator.
    operand: Option<Operand>,
    rest: Peekable<std::vec::IntoIter<(BinaryOp, Span, Operand)>>,
}

/// A part of a chain with its extent, parentheses included.
struct Part {
    value: Expr,
    extent: Span,
}

impl Sorter<'_, '_> {
    /// Takes what binds at least as strongly as `least`.
    fn climb(&mut self, least: Strength) -> Part {
        let mut left = self.prefixed(least);
        let mut compared: Option<Span> = None;
        while let Some(&(op, span, _)) = self.rest.peek() {
            let own = operators::infix(op);
            if own < least {
                break;
            }
            self.operand = self.rest.next().map(|(_, _, operand)| operand);
            self.check_operator(op, span, &mut compared);
            let right = self.climb(operators::operands(op).1);
            let extent = left.extent.to(right.extent);
            let kind = ExprKind::Binary(op, Box::new((left.value, right.value)));
            left = Part { value: Expr { kind, span: extent }, extent };
        }
        left
    }

    /// The next operand with its prefixes, each of which takes what binds more strongly than it.
    fn prefixed(&mut self, least: Strength) -> Part {
        let Some(mut operand) = self.operand.take() else {
            // Every climb is preceded by setting the operand.
            return Part { value: Expr::synthetic(ExprKind::Error), extent: Span::default() };
        };
        let Some((op, start)) = operand.prefixes.pop() else {
            let extent = Span { start: operand.start, end: operand.end };
            return Part { value: operand.value, extent };
        };
        let own = operators::prefix(op);
        if own == operators::NOT && least > own {
            self.notes.report(
                Diagnostic::error(
                    codes::SYNTAX,
                    Span { start, end: start + 3 },
                    "expected an operand, found `not`",
                )
                .with_help("put parentheses around `not` and its operand"),
            );
        }
        self.operand = Some(operand);
        let inner = self.climb(own);
        let extent = Span { start, end: inner.extent.end };
        let kind = ExprKind::Unary(op, Box::new(inner.value));
        Part { value: Expr { kind, span: extent }, extent }
    }

    fn check_operator(&mut self, op: BinaryOp, span: Span, compared: &mut Option<Span>) {
        if op == BinaryOp::Power {
            self.notes.report(
                Diagnostic::error(
                    codes::FOREIGN_OPERATOR,
                    span,
                    "`**` is not an operator of the language",
                )
                .with_help("write `x * x`, or the operator `power(x, y)`"),
            );
        }
        if operators::infix(op) != operators::COMPARISON {
            return;
        }
        if let Some(before) = compared.replace(span) {
            self.notes.report(
                Diagnostic::error(codes::CHAINED_COMPARISON, span, "comparisons do not chain")
                    .with_label(format!("a second comparison, `{}`", op.symbol()))
                    .with_place(before, "the first comparison")
                    .with_help("write `a < b and b < c`"),
            );
        }
    }
}

impl Notes<'_> {
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.errors.set(self.errors.get() + 1);
        self.diagnostics.push(diagnostic);
    }

    /// Reports what the parser could not read; silent about what the lexer has reported.
    pub(crate) fn recovered(&mut self, recovery: ErrorRecovery<u32, Token<'_>, Infallible>) {
        self.failed(recovery.error);
    }

    pub(crate) fn failed(&mut self, error: ParseError<u32, Token<'_>, Infallible>) {
        let (start, token, end, expected) = match error {
            ParseError::UnrecognizedToken { token: (start, token, end), expected } => {
                (start, token, end, expected)
            }
            ParseError::ExtraToken { token: (start, token, end) } => {
                (start, token, end, Vec::new())
            }
            ParseError::UnrecognizedEof { location, expected } => {
                (location, Token::Newline, location, expected)
            }
            ParseError::InvalidToken { location } => (location, Token::Bad, location, Vec::new()),
            ParseError::User { error } => match error {},
        };
        if token != Token::Bad {
            let diagnostic = super::report::unexpected(
                self.text,
                self.base,
                Span { start, end },
                &token,
                &expected,
            );
            self.report(diagnostic);
        }
    }

    /// A name that is bound here, so without dots.
    pub(crate) fn identifier(&mut self, name: &str, span: Span) -> Identifier {
        if name.contains('.') {
            self.report_dotted(name, span);
        }
        Identifier { name: Name::new(name), span }
    }

    fn report_dotted(&mut self, name: &str, span: Span) {
        self.report(
            Diagnostic::error(
                codes::TARGET,
                span,
                format!("expected a name without dots, found `{name}`"),
            )
            .with_help("names with dots belong to operators; nothing can be bound to them"),
        );
    }

    fn check_target(&mut self, target: &Expr, annotated: bool) {
        let found = match &target.kind {
            ExprKind::Name(name) if name.contains('.') => {
                return self.report_dotted(name, target.span);
            }
            ExprKind::Name(_) => return,
            ExprKind::Subscript { base, .. }
                if !annotated && matches!(base.kind, ExprKind::Name(_)) =>
            {
                return;
            }
            ExprKind::Subscript { .. } => "an element",
            ExprKind::Tuple(items) if !annotated && !items.is_empty() => {
                return items.iter().for_each(|item| self.check_tuple_item(item));
            }
            ExprKind::Tuple(_) => "a tuple",
            ExprKind::Call { .. } => "a call",
            ExprKind::Binary(..) | ExprKind::Unary(..) => "an operation",
            ExprKind::List(_) => "a list",
            _ => "a literal",
        };
        let place = if annotated { "a name before `:`" } else { "a name before `=`" };
        let mut diagnostic = Diagnostic::error(
            codes::TARGET,
            target.span,
            format!("expected {place}, found {found}"),
        );
        if matches!(target.kind, ExprKind::Binary(..)) {
            diagnostic = diagnostic.with_help("`==` compares; `=` binds a name");
        }
        self.report(diagnostic);
    }

    fn check_tuple_item(&mut self, item: &Expr) {
        match &item.kind {
            ExprKind::Name(name) if !name.contains('.') => {}
            ExprKind::Name(name) => self.report_dotted(name, item.span),
            _ => self.report(
                Diagnostic::error(codes::TARGET, item.span, "a tuple of targets holds names only")
                    .with_help("bind the tuple to one name and take its elements: `t[0]`"),
            ),
        }
    }

    /// Keyword arguments come last, each once.
    pub(crate) fn check_arguments(&mut self, arguments: &[Argument]) {
        let Some(first) = arguments.iter().find_map(|argument| argument.keyword.as_ref()) else {
            return;
        };
        let first_span = first.span;
        let mut seen = std::collections::BTreeMap::new();
        for argument in arguments {
            match &argument.keyword {
                None if argument.value.span.start > first_span.start => self.report(
                    Diagnostic::error(
                        codes::ARGUMENTS,
                        argument.value.span,
                        "a positional argument stands behind a keyword argument",
                    )
                    .with_place(first_span, "the first keyword argument")
                    .with_help("move it before the keyword arguments"),
                ),
                None => {}
                Some(keyword) => {
                    if let Some(before) = seen.insert(keyword.name.clone(), keyword.span) {
                        self.report_twice("keyword argument", keyword, before);
                    }
                }
            }
        }
    }

    /// Parameters have different names.
    pub(crate) fn check_parameters(&mut self, parameters: &[Parameter]) {
        let mut seen = std::collections::BTreeMap::new();
        for Parameter { name, .. } in parameters {
            if let Some(before) = seen.insert(name.name.clone(), name.span) {
                self.report_twice("parameter", name, before);
            }
        }
    }

    fn report_twice(&mut self, what: &str, again: &Identifier, before: Span) {
        self.report(
            Diagnostic::error(
                codes::ARGUMENTS,
                again.span,
                format!("the {what} `{}` is given twice", again.name),
            )
            .with_place(before, "first given here")
            .with_help("remove one of the two"),
        );
    }
}
