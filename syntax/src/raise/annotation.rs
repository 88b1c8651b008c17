//! Dims and annotations as expressions.

use super::{Site, argument, call, expr, keyword, name, string};
use crate::annotation::{Annotation, Distributed, Extents, OWN, TensorType};
use crate::ast::{BinaryOp, Expr, ExprKind};
use crate::dim::{Dim, DimOp};

/// A dim: quoted where it stands in a signature (literals are not), plain in a body.
#[must_use]
pub fn dim_expr(dim: &Dim, site: Site) -> Expr {
    let plain = dim.vars_all(&|name| !name.starts_with(OWN));
    match (dim.as_int(), site) {
        (None, Site::Signature) => string(&dim.to_string()),
        (None, Site::Body) if !plain => string(&dim.to_string()),
        _ => plain_dim(dim),
    }
}

fn plain_dim(dim: &Dim) -> Expr {
    match dim {
        Dim::Int(value) => expr(ExprKind::Int(*value)),
        Dim::Var(variable) => name(variable),
        Dim::Op(op, operands) => {
            let (a, b) = (plain_dim(&operands.0), plain_dim(&operands.1));
            let binary = match op {
                DimOp::Add => BinaryOp::Add,
                DimOp::Sub => BinaryOp::Sub,
                DimOp::Mul => BinaryOp::Mul,
                DimOp::FloorDiv => BinaryOp::FloorDiv,
                DimOp::FloorMod => BinaryOp::Mod,
                DimOp::Min | DimOp::Max | DimOp::CeilDiv => {
                    return call(op.symbol(), vec![argument(a), argument(b)]);
                }
            };
            expr(ExprKind::Binary(binary, Box::new((a, b))))
        }
    }
}

/// Dims as a tuple.
pub(crate) fn dims_tuple(dims: &[Dim], site: Site) -> Expr {
    expr(ExprKind::Tuple(dims.iter().map(|dim| dim_expr(dim, site)).collect()))
}

fn integer(value: usize) -> Expr {
    expr(ExprKind::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// An annotation as an expression.
#[must_use]
pub fn annotation_expr(annotation: &Annotation, site: Site) -> Expr {
    let nested = |inner: &Annotation, site| annotation_expr(inner, site);
    match annotation {
        Annotation::Object => name("Object"),
        Annotation::Prim(dtype) => call("Prim", vec![argument(string(dtype.name()))]),
        Annotation::Shape(Extents::Known(dims)) => {
            let items = dims.iter().map(|dim| dim_expr(dim, site)).collect();
            call("Shape", vec![argument(expr(ExprKind::List(items)))])
        }
        Annotation::Shape(Extents::Rank(rank)) => {
            call("Shape", vec![keyword("ndim", integer(*rank))])
        }
        Annotation::Shape(Extents::Unknown) => call("Shape", Vec::new()),
        Annotation::Tensor(tensor) => tensor_expr(tensor, site),
        Annotation::Tuple(items) if items.is_empty() => {
            subscript("Tuple", vec![expr(ExprKind::Tuple(vec![]))])
        }
        Annotation::Tuple(items) => {
            subscript("Tuple", items.iter().map(|item| nested(item, site)).collect())
        }
        Annotation::Callable(None) => name("Callable"),
        // Within a callable its own variables are quoted and those around it plain, wherever it
        // stands.
        Annotation::Callable(Some(signature)) => {
            let params = signature.params.iter().map(|param| nested(param, Site::Body)).collect();
            let mut arguments = vec![
                argument(expr(ExprKind::List(params))),
                argument(nested(&signature.result, Site::Body)),
            ];
            if !signature.pure {
                arguments.push(keyword("pure", expr(ExprKind::Bool(false))));
            }
            call("Callable", arguments)
        }
        Annotation::DTensor(distributed) => distributed_expr(distributed, site),
    }
}

fn subscript(base: &str, indices: Vec<Expr>) -> Expr {
    expr(ExprKind::Subscript { base: Box::new(name(base)), indices })
}

fn tensor_expr(tensor: &TensorType, site: Site) -> Expr {
    let dtype = tensor.dtype.map(|dtype| string(dtype.name()));
    let arguments = match &tensor.extents {
        Extents::Known(dims) => {
            let shape = argument(dims_tuple(dims, site));
            [shape].into_iter().chain(dtype.map(argument)).collect()
        }
        Extents::Rank(rank) => {
            let rank = keyword("ndim", integer(*rank));
            [rank].into_iter().chain(dtype.map(|dtype| keyword("dtype", dtype))).collect()
        }
        Extents::Unknown => dtype.map(|dtype| keyword("dtype", dtype)).into_iter().collect(),
    };
    call("Tensor", arguments)
}

fn distributed_expr(distributed: &Distributed, site: Site) -> Expr {
    let none = || expr(ExprKind::None);
    let placements: Vec<_> = distributed.placements.iter().map(ToString::to_string).collect();
    let shape = match &distributed.tensor.extents {
        Extents::Known(dims) => dims_tuple(dims, site),
        Extents::Rank(_) | Extents::Unknown => none(),
    };
    let dtype = distributed.tensor.dtype.map_or_else(none, |dtype| string(dtype.name()));
    let mut arguments = vec![
        argument(shape),
        argument(dtype),
        argument(string(&distributed.mesh)),
        argument(string(&placements.join(", "))),
    ];
    if let Extents::Rank(rank) = distributed.tensor.extents {
        arguments.push(keyword("ndim", integer(rank)));
    }
    call("DTensor", arguments)
}
