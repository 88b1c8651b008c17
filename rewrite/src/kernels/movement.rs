//! Operators that move elements: a copy whose source index is computed from the index of the result.

use super::Request;
use super::builder::{Builder, binary, broadcast_index, extent, load};
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, TExpr};

/// `broadcast_to(x, shape)`
pub(super) fn broadcast(request: &Request) -> Option<TensorProgram> {
    let [x] = request.tensors::<1>()?;
    copy(request, |indices| broadcast_index(&x.dims, &request.out.dims, indices))
}

/// `permute_dims(x, axes)`: dim `i` of the result is dim `axes[i]` of `x`.
pub(super) fn permute(request: &Request) -> Option<TensorProgram> {
    let [x] = request.tensors::<1>()?;
    let axes = request.axes("axes", x.rank())?;
    let axes = axes.unwrap_or_else(|| (0..x.rank()).rev().collect());
    copy(request, |indices| {
        let source = |axis| axes.iter().position(|&at| at == axis).map(|at| indices[at].clone());
        (0..x.rank()).map(source).collect()
    })
}

/// The same elements in row-major order under other dims: `reshape` and what is a case of it.
pub(super) fn view(request: &Request) -> Option<TensorProgram> {
    let [x] = request.tensors::<1>()?;
    let out = &request.out.dims;
    copy(request, |indices| {
        let same = same_but_ones(&x.dims, out, indices);
        Some(same.unwrap_or_else(|| split(&x.dims, flat(out, indices))))
    })
}

/// The index where the dims are the same but for literal ones, which add nothing.
fn same_but_ones(from: &[Dim], to: &[Dim], indices: &[TExpr]) -> Option<Vec<TExpr>> {
    let mut others = to.iter().zip(indices).filter(|(dim, _)| **dim != Dim::Int(1));
    let each = from.iter().map(|dim| match dim {
        Dim::Int(1) => Some(TExpr::Int(0)),
        _ => others.next().filter(|(other, _)| *other == dim).map(|(_, index)| index.clone()),
    });
    let each: Option<Vec<TExpr>> = each.collect();
    each.filter(|_| others.next().is_none())
}

/// The position of an element in row-major order: less than the number of elements, as is every
/// value on the way to it.
fn flat(dims: &[Dim], indices: &[TExpr]) -> TExpr {
    let mut pairs = dims.iter().zip(indices);
    let Some((_, first)) = pairs.next() else { return TExpr::Int(0) };
    pairs.fold(first.clone(), |position, (dim, index)| {
        binary(BinOp::Add, binary(BinOp::Mul, position, extent(dim)), index.clone())
    })
}

/// The index of the element at a position. No dim is 0 where there is an element.
fn split(dims: &[Dim], position: TExpr) -> Vec<TExpr> {
    let each = (0..dims.len()).map(|axis| {
        let inner = &dims[axis + 1..];
        let stride = (!inner.is_empty()).then(|| extent(&Dim::product(inner)));
        let counted = match stride {
            Some(TExpr::Int(1)) | None => position.clone(),
            Some(stride) => binary(BinOp::FloorDiv, position.clone(), stride),
        };
        if axis == 0 { counted } else { binary(BinOp::Mod, counted, extent(&dims[axis])) }
    });
    each.collect()
}

fn copy(
    request: &Request,
    source: impl FnOnce(&[TExpr]) -> Option<Vec<TExpr>>,
) -> Option<TensorProgram> {
    let mut builder = Builder::new(request);
    let input = *builder.inputs.first()?;
    let mut is_known = true;
    builder.for_each(&request.out.dims, builder.output, None, |indices| {
        let own = source(indices);
        is_known = own.is_some();
        (indices.to_vec(), load(input, own.unwrap_or_default()))
    });
    is_known.then(|| builder.finish())
}
