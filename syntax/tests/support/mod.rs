//! What the tests of this folder share: trees without places, and random trees.
#![allow(dead_code)] // each test file uses its part

use proptest::prelude::*;
use relax_syntax::Name;
use relax_syntax::ast::{
    Argument, BinaryOp, Def, Expr, ExprKind, File, Identifier, Parameter, Statement, StatementKind,
    UnaryOp,
};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::parse::parse_file;
use relax_syntax::span::{Source, Span};
use std::collections::BTreeSet;

/// The programs that cover every construct.
pub(crate) const PROGRAMS: [&str; 2] =
    [include_str!("../programs/graph.rx"), include_str!("../programs/tensor_program.rx")];

/// The tree as text without its places, so that every other part of it is compared.
pub(crate) fn structure(file: &File) -> String {
    let shown = format!("{:?}", file.statements);
    let mut rest = shown.as_str();
    let mut out = String::with_capacity(rest.len());
    while let Some(at) = rest.find("Span { start: ") {
        out.push_str(&rest[..at]);
        let end = rest[at..].find('}').expect("a span has a closing brace");
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    out.replace("else_span: Some()", "else_span: None")
}

pub(crate) fn parse(text: &str) -> (File, Vec<Diagnostic>) {
    parse_file(&Source::new("test.rx", text))
}

/// Parses what must be without errors.
pub(crate) fn parse_valid(text: &str) -> File {
    let (file, diagnostics) = parse(text);
    assert!(diagnostics.is_empty(), "{diagnostics:#?}\n{text}");
    file
}

fn expr(kind: ExprKind) -> Expr {
    Expr::synthetic(kind)
}

fn identifier() -> impl Strategy<Value = Identifier> {
    "[a-zA-Z_][a-z0-9_]{0,3}".prop_filter_map("a keyword", |name| {
        let keywords = [
            "def", "return", "if", "elif", "else", "for", "in", "with", "pass", "True", "False",
            "None", "not", "and", "or",
        ];
        let name = Name::new(&name);
        (!keywords.contains(&name.as_str())).then(|| Identifier { name, span: Span::default() })
    })
}

fn name() -> impl Strategy<Value = Expr> {
    identifier().prop_map(|identifier| expr(ExprKind::Name(identifier.name)))
}

fn leaf() -> impl Strategy<Value = Expr> {
    let finite = any::<f64>().prop_filter("finite", |value| value.is_finite());
    let kind = prop_oneof![
        any::<i64>().prop_map(ExprKind::Int),
        (-9_i64..10).prop_map(ExprKind::Int),
        (i64::MAX as u64 + 1..=u64::MAX).prop_map(ExprKind::BigInt),
        finite.prop_map(ExprKind::Float),
        any::<String>().prop_map(|text| ExprKind::Str(text.into())),
        any::<bool>().prop_map(ExprKind::Bool),
        Just(ExprKind::None),
        Just(ExprKind::Ellipsis),
        (identifier(), identifier())
            .prop_map(|(a, b)| ExprKind::Name(Name::from(format!("{}.{}", a.name, b.name)))),
    ];
    prop_oneof![kind.prop_map(expr), name()]
}

fn infix() -> impl Strategy<Value = BinaryOp> {
    use BinaryOp as B;
    proptest::sample::select(vec![
        B::Or,
        B::And,
        B::Equal,
        B::NotEqual,
        B::Less,
        B::LessEqual,
        B::Greater,
        B::GreaterEqual,
        B::BitOr,
        B::BitXor,
        B::BitAnd,
        B::ShiftLeft,
        B::ShiftRight,
        B::Add,
        B::Sub,
        B::Mul,
        B::Div,
        B::FloorDiv,
        B::Mod,
    ])
}

/// Any expression that has no error in it.
pub(crate) fn expression() -> impl Strategy<Value = Expr> {
    leaf().prop_recursive(5, 40, 4, |inner| {
        let items = proptest::collection::vec(inner.clone(), 0..4);
        let keywords = proptest::collection::vec((identifier(), inner.clone()), 0..3);
        let prefix = proptest::sample::select(vec![UnaryOp::Negate, UnaryOp::Not, UnaryOp::Invert]);
        prop_oneof![
            items.clone().prop_map(|items| expr(ExprKind::Tuple(items))),
            items.clone().prop_map(|items| expr(ExprKind::List(items))),
            (inner.clone(), items.clone(), keywords)
                .prop_map(|(callee, items, keywords)| call(callee, items, keywords)),
            (inner.clone(), items).prop_map(|(base, indices)| {
                expr(ExprKind::Subscript { base: Box::new(base), indices })
            }),
            (prefix, inner.clone())
                .prop_map(|(op, operand)| expr(ExprKind::Unary(op, Box::new(operand)))),
            (infix(), inner.clone(), inner)
                .prop_map(|(op, a, b)| expr(ExprKind::Binary(op, Box::new((a, b))))),
        ]
    })
}

fn call(callee: Expr, items: Vec<Expr>, keywords: Vec<(Identifier, Expr)>) -> Expr {
    let mut seen = BTreeSet::new();
    let named = keywords
        .into_iter()
        .filter(|(keyword, _)| seen.insert(keyword.name.clone()))
        .map(|(keyword, value)| Argument { keyword: Some(keyword), value });
    let arguments =
        items.into_iter().map(|value| Argument { keyword: None, value }).chain(named).collect();
    expr(ExprKind::Call { callee: Box::new(callee), arguments })
}

fn element() -> impl Strategy<Value = Expr> {
    (name(), proptest::collection::vec(leaf(), 1..3))
        .prop_map(|(base, indices)| expr(ExprKind::Subscript { base: Box::new(base), indices }))
}

fn line() -> impl Strategy<Value = StatementKind> {
    use BinaryOp as B;
    let tuple =
        proptest::collection::vec(name(), 1..4).prop_map(|names| expr(ExprKind::Tuple(names)));
    let update = proptest::sample::select(vec![B::Add, B::Sub, B::Mul, B::Div]);
    prop_oneof![
        (prop_oneof![name(), tuple, element()], expression())
            .prop_map(|(target, value)| StatementKind::Assign { target, annotation: None, value }),
        (name(), expression(), expression()).prop_map(|(target, annotation, value)| {
            StatementKind::Assign { target, annotation: Some(annotation), value }
        }),
        (prop_oneof![name(), element()], update, expression())
            .prop_map(|(target, op, value)| StatementKind::Update { target, op, value }),
        expression().prop_map(StatementKind::Return),
        expression().prop_map(StatementKind::Expr),
        Just(StatementKind::Pass),
    ]
}

fn statement(kind: StatementKind) -> Statement {
    Statement { kind, span: Span::default() }
}

fn statements() -> impl Strategy<Value = Vec<Statement>> {
    let line = line().prop_map(statement);
    let any_statement = line.prop_recursive(3, 12, 3, |inner| {
        let body = proptest::collection::vec(inner.clone(), 1..3);
        let otherwise = proptest::collection::vec(inner, 0..3);
        prop_oneof![
            (expression(), body.clone(), otherwise, any::<bool>()).prop_map(
                |(condition, then, otherwise, spelled)| {
                    let else_span = (spelled && !otherwise.is_empty()).then(Span::default);
                    StatementKind::If { condition, then, otherwise, else_span }
                }
            ),
            (proptest::collection::vec(identifier(), 1..3), expression(), body.clone()).prop_map(
                |(targets, iterator, body)| StatementKind::For { targets, iterator, body }
            ),
            (expression(), body.clone())
                .prop_map(|(context, body)| StatementKind::With { context, body }),
            def(body),
        ]
        .prop_map(statement)
    });
    proptest::collection::vec(any_statement, 1..5)
}

fn def(body: impl Strategy<Value = Vec<Statement>>) -> impl Strategy<Value = StatementKind> {
    let annotation = || proptest::option::of(expression());
    let parameters = proptest::collection::vec((identifier(), annotation()), 0..4);
    let decorators = proptest::collection::vec(expression(), 0..2);
    (decorators, identifier(), parameters, annotation(), body).prop_map(
        |(decorators, name, parameters, returns, body)| {
            let mut seen = BTreeSet::new();
            let parameters = parameters
                .into_iter()
                .filter(|(name, _)| seen.insert(name.name.clone()))
                .map(|(name, annotation)| Parameter { name, annotation })
                .collect();
            let header = Span::default();
            StatementKind::Def(Box::new(Def {
                decorators,
                name,
                parameters,
                returns,
                body,
                header,
            }))
        },
    )
}

/// A file that has no error in it.
pub(crate) fn file() -> impl Strategy<Value = File> {
    statements().prop_map(|statements| File { statements, comments: Vec::new() })
}
