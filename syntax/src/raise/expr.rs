//! Atoms and right-hand sides as expressions.

use super::annotation::{annotation_expr, dim_expr};
use super::{Site, argument, call, expr, keyword, name, string};
use crate::Name;
use crate::ast::{Argument, Expr as AstExpr, ExprKind, UnaryOp};
use crate::dtype::DType;
use crate::ir::graph::Literals;
use crate::ir::{Atom, Callee, Constant, Expr, Function};

/// An atom as an expression.
pub(super) fn atom_expr(atom: &Atom, function: &Function) -> AstExpr {
    let all = |items: &[Atom]| items.iter().map(|item| atom_expr(item, function)).collect();
    match atom {
        Atom::Var(var) => name(&function.var(*var).name),
        Atom::Global(global) => name(global),
        Atom::Dim(dim) => dim_expr(dim, Site::Body),
        Atom::Float(value) => float(*value),
        Atom::Bool(value) => expr(ExprKind::Bool(*value)),
        Atom::Str(text) => string(text),
        Atom::None => expr(ExprKind::None),
        Atom::Constant(constant) => constant_expr(constant),
        Atom::External(external) => call(
            "param",
            vec![
                argument(string(&external.name)),
                argument(annotation_expr(&external.annotation, Site::Body)),
            ],
        ),
        Atom::Tuple(items) => expr(ExprKind::Tuple(all(items))),
        Atom::List(items) => expr(ExprKind::List(all(items))),
        Atom::Shape(dims) => {
            let dims = dims.iter().map(|dim| argument(dim_expr(dim, Site::Body)));
            call("shape", dims.collect())
        }
        Atom::Annotation(annotation) => annotation_expr(annotation, Site::Body),
    }
}

/// A right-hand side; `if` and closures are statements, and the caller's business.
pub(super) fn value_expr(value: &Expr, function: &Function) -> Option<AstExpr> {
    Some(match value {
        Expr::Atom(atom) => atom_expr(atom, function),
        Expr::Call { callee, args, attrs } => call_expr(callee, args, attrs, function),
        Expr::Get(atom, index) => expr(ExprKind::Subscript {
            base: Box::new(atom_expr(atom, function)),
            indices: vec![expr(ExprKind::Int(i64::try_from(*index).unwrap_or(i64::MAX)))],
        }),
        Expr::MatchCast(atom, annotation) => call(
            "match_cast",
            vec![
                argument(atom_expr(atom, function)),
                argument(annotation_expr(annotation, Site::Body)),
            ],
        ),
        Expr::If { .. } | Expr::Closure(_) => return None,
    })
}

fn call_expr(
    callee: &Callee,
    args: &[Atom],
    attrs: &[(Name, Atom)],
    function: &Function,
) -> AstExpr {
    let callee = match callee {
        Callee::Operator(text) | Callee::Global(text) => text.as_str(),
        Callee::Var(var) => function.var(*var).name.as_str(),
    };
    let positional = args.iter().map(|atom| argument(atom_expr(atom, function)));
    let keywords = attrs.iter().map(|(key, atom)| keyword(key, atom_expr(atom, function)));
    let arguments: Vec<Argument> = positional.chain(keywords).collect();
    call(callee, arguments)
}

/// `2.5`; infinities and NaN are names.
pub(super) fn float(value: f64) -> AstExpr {
    let magnitude = if value.is_nan() {
        name("nan")
    } else if value.is_infinite() {
        name("inf")
    } else {
        return expr(ExprKind::Float(value));
    };
    if value == f64::NEG_INFINITY {
        expr(ExprKind::Unary(UnaryOp::Negate, Box::new(magnitude)))
    } else {
        magnitude
    }
}

fn constant_expr(constant: &Constant) -> AstExpr {
    let elements: Vec<AstExpr> = match &constant.data {
        Literals::Float(values) => values.iter().map(|&value| float(value)).collect(),
        Literals::Int(values) if constant.dtype == DType::Bool => {
            values.iter().map(|&value| expr(ExprKind::Bool(value != 0))).collect()
        }
        Literals::Int(values) => values.iter().map(|&value| integer(value)).collect(),
    };
    let value = nested(&constant.shape, &mut elements.into_iter());
    call("const", vec![argument(value), argument(string(constant.dtype.name()))])
}

fn integer(value: i128) -> AstExpr {
    expr(match i64::try_from(value) {
        Ok(small) => ExprKind::Int(small),
        Err(_) => ExprKind::BigInt(u64::try_from(value).unwrap_or(u64::MAX)),
    })
}

fn nested(shape: &[usize], elements: &mut impl Iterator<Item = AstExpr>) -> AstExpr {
    match shape.split_first() {
        None => elements.next().unwrap_or_else(|| expr(ExprKind::Error)),
        Some((&extent, rest)) => {
            let items = (0..extent).map(|_| nested(rest, elements)).collect();
            expr(ExprKind::List(items))
        }
    }
}
