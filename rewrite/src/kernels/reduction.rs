//! Reductions: the neutral element is written first, by a loop of its own, for over an empty axis
//! nothing else is. Floats are summed in f64 and rounded once, as operators do; those of f64 itself,
//! whose sums operators compensate, are left to them.

use super::Request;
use super::builder::{Builder, binary, cast, extent, extremum as greater_or_lesser, load};
use relax_semantics::ops::Known;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, BufferId, TExpr};

/// How the axes of the operand lie in a nest: those of the result outside, the reduced ones inside.
struct Axes {
    /// Whether each axis of the operand is reduced.
    reduced: Vec<bool>,
    /// Whether reduced axes stay, as 1.
    keeps: bool,
}

impl Axes {
    fn of(request: &Request) -> Option<Self> {
        let [x] = request.tensors::<1>()?;
        let axes = request.axes("axis", x.rank())?.unwrap_or_else(|| (0..x.rank()).collect());
        let keeps = match request.attrs.get("keepdims")? {
            Known::Bool(keeps) => *keeps,
            _ => return None,
        };
        Some(Self { reduced: (0..x.rank()).map(|axis| axes.contains(&axis)).collect(), keeps })
    }

    /// The extents that are reduced.
    fn inner(&self, dims: &[Dim]) -> Vec<Dim> {
        dims.iter()
            .zip(&self.reduced)
            .filter(|(_, reduced)| **reduced)
            .map(|(d, _)| d.clone())
            .collect()
    }

    /// The index into the operand, for one into the result and one into what is reduced.
    fn source(&self, outer: &[TExpr], inner: &[TExpr]) -> Vec<TExpr> {
        let (mut outer, mut inner) = (outer.iter(), inner.iter());
        let each = self.reduced.iter().map(|&reduced| {
            if reduced && self.keeps {
                outer.next();
            }
            let index = if reduced { inner.next() } else { outer.next() };
            index.cloned().expect("invariant: an index for each axis of the operand")
        });
        each.collect()
    }
}

/// `sum` and `mean`.
pub(super) fn sum(request: &Request) -> Option<TensorProgram> {
    let [x] = request.tensors::<1>()?;
    let is_mean = request.row.name == "mean";
    if matches!(x.dtype, DType::Bool | DType::F64) || (is_mean && !x.dtype.is_float()) {
        return None;
    }
    let axes = Axes::of(request)?;
    let (out, inner) = (&request.out, axes.inner(&x.dims));
    let mut builder = Builder::new(request);
    let input = builder.inputs[0];
    let (total, wide) = accumulator(&mut builder, &out.dims, out.dtype);
    let nest: Vec<Dim> = out.dims.iter().chain(&inner).cloned().collect();
    builder.for_each(&nest, total, Some(BinOp::Add), |indices| {
        let (outer, inner) = indices.split_at(out.rank());
        let value = load(input, axes.source(outer, inner));
        (outer.to_vec(), cast(x.dtype, wide, value))
    });
    if is_mean || total != builder.output {
        builder.for_each(&out.dims, builder.output, None, |indices| {
            let value = load(total, indices.to_vec());
            let value = if is_mean { divided(value, &inner, wide) } else { value };
            (indices.to_vec(), cast(wide, out.dtype, value))
        });
    }
    Some(builder.finish())
}

/// A buffer of zeros to add to, and its dtype: of f64 for narrower floats, the output for integers.
pub(super) fn accumulator(builder: &mut Builder, dims: &[Dim], dtype: DType) -> (BufferId, DType) {
    let (buffer, wide) = if dtype.is_float() {
        (builder.allocate("T", dims.to_vec(), DType::F64), DType::F64)
    } else {
        (builder.output, dtype)
    };
    let zero = if wide.is_float() { TExpr::Float(0.0) } else { TExpr::Int(0) };
    builder.for_each(dims, buffer, None, |indices| (indices.to_vec(), zero));
    (buffer, wide)
}

/// Divided by the number of elements: a product of floats, which cannot overflow as one of
/// integers could when another extent is 0.
fn divided(value: TExpr, dims: &[Dim], dtype: DType) -> TExpr {
    let float = |dim: &Dim| TExpr::Cast(dtype, Box::new(extent(dim)));
    let count = dims.iter().map(float).reduce(|a, b| binary(BinOp::Mul, a, b));
    match count {
        Some(count) => binary(BinOp::Div, value, count),
        None => value,
    }
}

/// `max` and `min`; what is reduced is not empty, so the first element is there to begin with.
pub(super) fn extremum(request: &Request) -> Option<TensorProgram> {
    let [x] = request.tensors::<1>()?;
    if x.dtype == DType::Bool {
        return None;
    }
    let op = if request.row.name == "max" { BinOp::Max } else { BinOp::Min };
    let axes = Axes::of(request)?;
    let (out, inner) = (&request.out, axes.inner(&x.dims));
    let mut builder = Builder::new(request);
    let (input, output) = (builder.inputs[0], builder.output);
    builder.for_each(&out.dims, output, None, |indices| {
        let first = vec![TExpr::Int(0); inner.len()];
        (indices.to_vec(), load(input, axes.source(indices, &first)))
    });
    let nest: Vec<Dim> = out.dims.iter().chain(&inner).cloned().collect();
    builder.for_each(&nest, output, None, |indices| {
        let (outer, inner) = indices.split_at(out.rank());
        let (so_far, next) = (load(output, outer.to_vec()), load(input, axes.source(outer, inner)));
        (outer.to_vec(), greater_or_lesser(op, x.dtype, so_far, next))
    });
    Some(builder.finish())
}
